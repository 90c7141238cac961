"""The variable parts of Simple's JSON messages of one row, for templates.

A row names its schema by version and table id. Both are constants of the template, so it needs no DDL
condition.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

import msgspec

from relay.codecs.shared.conversions import Read
from relay.codecs.shared.traced import conversion
from relay.codecs.shared.traced_messages import (
    NUMBER,
    CellTokens,
    Declaration,
    TracedPart,
    TracedRow,
    VariableMember,
)
from relay.codecs.simple.messages import SimpleMessage
from relay.codecs.simple.values import read_text
from relay.model.events import RowChange
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import Conversion
from relay.templates.scanning import TEXT_OR_NULL, JsonToken
from relay.templates.tracing import NotTemplatable, Trace

#: The variable members of a message, and of its checksum.
_MEMBERS: Final[Declaration] = {
    "commit_ts": VariableMember(("commitTs",), NUMBER),
    "build_ts": VariableMember(("buildTs",), NUMBER),
    "start_ts": VariableMember(("startTs",), NUMBER),
}
_CHECKSUM: Final[Declaration] = {
    name: VariableMember(("checksum", name), NUMBER) for name in ("current", "previous")
}
#: The zone in which the text of a TIMESTAMP is canonical.
_UTC: Final = b'"UTC"'
_DATETIME: Final[Conversion] = ("datetime",)


def traced_row(record: ConsumerRecord, change: RowChange, trace: Trace, limits: Limits) -> TracedRow:
    """Return the split message of a row. Raises NotTemplatable."""
    if record.key is not None:
        raise NotTemplatable
    value = TracedPart(record.value)
    row = TracedRow(record, change, trace, TracedPart(None), value)
    value.vary(_MEMBERS)
    value.vary(_CHECKSUM)
    row.vary_cells(row.reader.names, lambda part: [*_cells(row, part)], limits)
    row.split()
    return row


def traced_message(message: SimpleMessage, row: TracedRow, trace: Trace) -> SimpleMessage:
    """Return a decoded message with traced members. Raises NotTemplatable."""
    if message.claim_check_location is not None:
        raise NotTemplatable
    image: Any = trace.refused()
    traced = msgspec.structs.replace(
        row.value.traced(message, _MEMBERS, trace),
        data=None if message.data is None else image,
        old=None if message.old is None else image,
    )
    if message.checksum is not None:
        traced.checksum = row.value.traced(message.checksum, _CHECKSUM, trace)
    return traced


def _cells(row: TracedRow, part: str) -> Iterator[CellTokens]:
    """Yield the tokens of an image's columns. Raises NotTemplatable."""
    reader = row.reader
    for name, at, read in zip(reader.names, reader.indexes, reader.reads, strict=True):
        token = row.value.root.at((part, name))
        if token is None:
            raise NotTemplatable
        if reader.schema.columns[at].type.base == "timestamp":
            yield _timestamp(row.value, token)
        elif token.kind in TEXT_OR_NULL.kinds:
            yield CellTokens(TEXT_OR_NULL.kinds, _named(read))
        else:
            raise NotTemplatable


def _timestamp(value: TracedPart, token: JsonToken) -> CellTokens:
    """Return the tokens of a TIMESTAMP: null, or text in UTC."""
    if token.kind == "null":
        return CellTokens(("null",), _DATETIME)
    members = token.members or {}
    location, text = members.get("location"), members.get("value")
    if len(members) != 2 or location is None or text is None or text.kind != "string":
        raise NotTemplatable
    if value.text_of(location) != _UTC:
        raise NotTemplatable
    return CellTokens(("string",), _DATETIME, path=("value",))


def _named(read: Read | None) -> Conversion | None:
    return None if read is read_text else conversion(read)
