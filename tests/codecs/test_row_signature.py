"""Row marks: messages without DDL are known by their bytes, and no DDL is ever taken for one of them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import DATA, captured

from relay import ConsumerRecord, SchemaChange, Translator
from relay.codecs import PROTOCOLS
from relay.codecs.open_protocol.frames import framed_key
from relay.errors import UnsupportedMessage
from relay.needs import Need

VARIANTS = {
    "ticdc/canal-json": "ticdc-canal-json",
    "ticdc/open-protocol": "ticdc-open-protocol",
    "ticdc/debezium": "ticdc-debezium",
    "mysql/canal-json": "canal-json",
}
FILES = sorted(path.relative_to(DATA).as_posix().removesuffix(".jsonl") for path in DATA.rglob("*.jsonl"))


def protocol_of(file: str) -> str:
    return next(protocol for start, protocol in VARIANTS.items() if file.startswith(start))


def options_of(file: str) -> dict[str, str]:
    variant = file.split("/")[1]
    return (
        {"large-message-handle-compression": variant.partition(".")[2]}
        if variant.endswith((".lz4", ".snappy"))
        else {}
    )


def is_ddl(translator: Translator, record: ConsumerRecord) -> bool:
    try:
        return any(isinstance(event, SchemaChange) for event in translator.inspect(record))
    except (Need, UnsupportedMessage):  # a row in a storage, which DDL never is
        return False


@pytest.mark.parametrize("file", FILES)
def test_no_captured_ddl_has_row_marks_and_every_other_message_has(file: str) -> None:
    protocol, options = protocol_of(file), options_of(file)
    marks, translator = PROTOCOLS[protocol].row_signature, Translator(protocol, protocol, options)
    assert marks is not None
    records = captured(file)
    assert records
    for record in records:
        marked = marks.matches(record.key, record.value)
        # What is compressed shows nothing, and has to be looked into.
        assert marked is not is_ddl(translator, record) or (
            options and marks.part == "value" and not marked
        ), record.offset


@pytest.mark.parametrize("protocol", sorted(PROTOCOLS))
def test_what_relay_writes_shows_its_marks(protocol: str) -> None:
    """Rows written by the encoder are known as rows, and DDL never is, whatever its text holds."""
    marks = PROTOCOLS[protocol].row_signature
    assert marks is not None
    texts = [
        "".join(mark.decode() for group in marks.groups for mark in group),
        '"type":"INSERT","isDdl":false,"op":"c","t":1}',
    ]
    source: list[dict[str, Any]] = [
        {"type": "CREATE", "isDdl": True, "sql": f"CREATE TABLE t (a INT PRIMARY KEY COMMENT '{text}')"}
        for text in texts
    ]
    source.append(
        {
            "type": "INSERT",
            "isDdl": False,
            "sql": "",
            "data": [{"a": "1"}],
            "mysqlType": {"a": "int"},
            "pkNames": ["a"],
        }
    )
    translator = Translator("canal-json", protocol)
    seen = []
    for offset, message in enumerate(source):
        value = json.dumps({"database": "d", "table": "t", "es": 1, "ts": 2, **message}).encode()
        translated = translator.translate(ConsumerRecord("t", 0, offset, 3, None, value))
        seen += [(message["isDdl"], marks.matches(out.key, out.value)) for out in translated]
    assert seen == [(True, False), (True, False), (False, True)]


def test_a_batch_with_ddl_and_rows_has_no_row_marks() -> None:
    marks = PROTOCOLS["ticdc-open-protocol"].row_signature
    keys = [b'{"ts":9,"scm":"d","tbl":"t","t":%d}' % kind for kind in (1, 2, 1)]
    assert marks is not None
    assert not marks.matches(framed_key(keys), b"")
    assert marks.matches(framed_key(keys[:1]), b"")


@pytest.mark.parametrize("protocol", ["canal-json", "ticdc-canal-json"])
def test_marks_in_a_member_that_nobody_knows_hide_no_ddl(protocol: str) -> None:
    marks = PROTOCOLS[protocol].row_signature
    assert marks is not None
    assert not marks.matches(None, b'{"isDdl":true,"type":"CREATE","x":{"isDdl":false,"type":"INSERT"}}')
