"""The variable parts of Open Protocol messages of one row, for templates."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import UTC, tzinfo
from typing import Final

from relay.codecs.open_protocol.frames import LENGTH_BYTES, VERSION
from relay.codecs.open_protocol.values import wire_type
from relay.codecs.shared.local_times import is_local_time
from relay.codecs.shared.rows import TypedReader
from relay.codecs.shared.traced import conversion
from relay.codecs.shared.traced_messages import (
    NUMBER,
    CellTokens,
    Declaration,
    TracedPart,
    TracedRow,
    VariableMember,
)
from relay.model.events import RowChange
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import READ_DOUBLE, READ_INTEGER
from relay.templates.ops import Constant, Conversion, Kinds, Length
from relay.templates.tracing import NotTemplatable, Trace

#: The variable members of a key.
VARIABLE_MEMBERS: Final[Declaration] = {"ts": VariableMember(("ts",), NUMBER)}
#: Offsets of the JSON of a message's only key, and of its value.
KEY_START: Final = len(VERSION) + LENGTH_BYTES
VALUE_START: Final = LENGTH_BYTES
#: Uncompressed values start with these bytes.
_PLAIN: Final = b'{"'
#: The kinds of a column's tokens besides null, and the default conversion that reads them. A base64 text is
#: always converted.
_TOKENS: Final[dict[type, tuple[Kinds, Conversion | None]]] = {
    int: (("integer",), READ_INTEGER),
    float: (("integer", "number"), READ_DOUBLE),
    str: (("string",), None),
    type(None): ((), None),
}


def traced_row(
    record: ConsumerRecord, change: RowChange, trace: Trace, zone: tzinfo, limits: Limits
) -> TracedRow:
    """Return the split message of a row. Raises NotTemplatable."""
    length = Length(LENGTH_BYTES)
    key = TracedPart(record.key, (Constant(VERSION), length), KEY_START)
    value = TracedPart(record.value, (length,), VALUE_START)
    if not value.text.startswith(_PLAIN, VALUE_START):
        raise NotTemplatable
    row = TracedRow(record, change, trace, key, value)
    key.vary(VARIABLE_MEMBERS)
    cells = [*_cells(row.reader, zone)]
    row.vary_cells(row.reader.names, lambda _: cells, limits)
    row.split()
    return row


def _cells(reader: TypedReader, zone: tzinfo) -> Iterator[CellTokens]:
    """Yield the tokens of the columns.

    Raises NotTemplatable for TIMESTAMP in a zone other than UTC: repeated and missing hours are counted per
    value.
    """
    for at, read in zip(reader.indexes, reader.reads, strict=True):
        column = reader.schema.columns[at]
        if zone is not UTC and is_local_time(column):
            raise NotTemplatable
        kinds, default = _TOKENS[wire_type(column.type)]
        yield CellTokens((*kinds, "null"), default if read is None else conversion(read))
