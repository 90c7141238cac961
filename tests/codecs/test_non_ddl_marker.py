"""`NonDdlMarker` on captured messages: those without DDL are known by their bytes, and no DDL is taken for one."""

from __future__ import annotations

import pytest
from support import CAPTURED, captured, protocol_of, reading_options

from relay import Bootstrap, ConsumerRecord, SchemaChange, Translator
from relay.codecs import PROTOCOLS
from relay.codecs.open_protocol.frames import framed_key
from relay.model.errors import UnsupportedMessage
from relay.model.lookups import Need


def is_ddl(translator: Translator, record: ConsumerRecord) -> bool | None:
    """Whether a message tells of tables; None for one that says nothing: a tombstone, `USE db`."""
    try:
        found = translator.inspect(record)
    except (Need, UnsupportedMessage):  # a row in a storage, which DDL never is
        return False
    return any(isinstance(event, SchemaChange | Bootstrap) for event in found) if found else None


#: Avro has none.
SIGNED = [file for file in CAPTURED if PROTOCOLS[protocol_of(file)].non_ddl_marker is not None]


@pytest.mark.parametrize("file", SIGNED)
def test_no_captured_ddl_has_row_marks_and_every_other_message_has(file: str) -> None:
    protocol, options = protocol_of(file), reading_options(file)
    marks, translator = PROTOCOLS[protocol].non_ddl_marker, Translator(protocol, protocol, options)
    if marks is None:
        assert protocol == "ticdc-simple-avro"  # no bytes of a binary message surely are a mark
        return
    records = captured(file)
    assert records
    for record in records:
        marked, tells = marks.matches(record.key, record.value), is_ddl(translator, record)
        # What says nothing may be looked into, and so may a deleted row of TiCDC's Avro, whose value is null; what
        # is compressed shows nothing, and has to be.
        assert (tells is None or marked is not tells or record.value is None) or (
            "large-message-handle-compression" in options and marks.part == "value" and not marked
        ), record.offset


def test_a_batch_with_ddl_and_rows_has_no_row_marks() -> None:
    marks = PROTOCOLS["ticdc-open-protocol"].non_ddl_marker
    keys = [b'{"ts":9,"scm":"d","tbl":"t","t":%d}' % kind for kind in (1, 2, 1)]
    assert marks is not None
    assert not marks.matches(framed_key(keys), b"")
    assert marks.matches(framed_key(keys[:1]), b"")


@pytest.mark.parametrize("protocol", ["canal-json", "ticdc-canal-json"])
def test_marks_in_a_member_that_nobody_knows_hide_no_ddl(protocol: str) -> None:
    marks = PROTOCOLS[protocol].non_ddl_marker
    assert marks is not None
    assert not marks.matches(None, b'{"isDdl":true,"type":"CREATE","x":{"isDdl":false,"type":"INSERT"}}')
