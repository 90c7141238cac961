"""The variable parts of Maxwell's messages of one row, for templates.

The binlog file name is constant in a template, the offset varies. Values in the Kafka key are ignored.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec

from relay.codecs.maxwell.messages import MaxwellMessage
from relay.codecs.maxwell.rows import Layout, MaxwellRowDecoder
from relay.codecs.maxwell.values import NO_YEAR
from relay.codecs.shared.traced import conversion
from relay.codecs.shared.traced_messages import (
    NUMBER,
    SECONDS,
    TEXT,
    CellTokens,
    Declaration,
    MemberForm,
    TracedPart,
    TracedRow,
    VariableMember,
)
from relay.model.events import Column, RowChange
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.mysql.conversion_names import READ_INTEGER, READ_PLAIN_DECIMAL, READ_SIGNED
from relay.mysql.types import FLOATS, GEOMETRIES, INTEGERS
from relay.templates.ops import Conversion, Kind, Kinds
from relay.templates.scanning import LAST_DIGITS, Path
from relay.templates.tracing import NotTemplatable, Trace, TracedNumber


def _position(trace: Trace, slot: int, token: bytes) -> tuple[str, TracedNumber]:
    """Return the decoded form of a position, whose digits have no sign."""
    file, _, digits = token.rpartition(b":")
    offset = TracedNumber(trace, slot, int(digits[:-1]))
    if not offset >= 0:
        raise NotTemplatable
    return msgspec.json.decode(file + b'"', type=str), offset


#: The variable members of a message.
_MEMBERS: Final[Declaration] = {
    "ts": VariableMember(("ts",), NUMBER),
    "xid": VariableMember(("xid",), NUMBER),
    "xoffset": VariableMember(("xoffset",), NUMBER),
    "position": VariableMember(("position",), MemberForm(LAST_DIGITS, _position)),
    "gtid": VariableMember(("gtid",), TEXT),
    "thread_id": VariableMember(("thread_id",), NUMBER),
    "push_ts": VariableMember(("push_ts",), SECONDS),
}
_DATA: Final = "data"
#: The values of the primary key, which the decoder ignores.
_KEY_VALUES: Final[Path] = ("primary_key",)
#: Parts of a Kafka key that are not values.
_NAMES_IN_KEYS: Final[frozenset[Path]] = frozenset({("database",), ("table",), (0,), (1,)})
#: Types with more than one token, or without a named conversion.
_WITHOUT_TOKENS: Final = GEOMETRIES | {"json", "set", "vector"}


class _TracedMaxwellMessage(MaxwellMessage, kw_only=True):
    """A message whose members have their decoded forms, some of them traced."""

    position: Any = None
    push_ts: Any = None

    def file_and_offset(self) -> tuple[str, int] | None:
        return self.position  # type: ignore[no-any-return]  # traced

    def pushed_ns(self) -> int | None:
        return self.push_ts  # type: ignore[no-any-return]  # traced


def traced_row(
    rows: MaxwellRowDecoder, record: ConsumerRecord, change: RowChange, trace: Trace, limits: Limits
) -> TracedRow:
    """Return the split message of a row. Raises NotTemplatable."""
    key, value = TracedPart(record.key), TracedPart(record.value)
    row = TracedRow(record, change, trace, key, value)
    layout = rows.layout(change.table, row.reader)
    if layout is None or not layout.has_nulls:
        raise NotTemplatable
    key.vary_scalars(but=_NAMES_IN_KEYS)
    value.vary(_MEMBERS)
    value.vary_scalars(_KEY_VALUES)
    kinds = [value.kind_at((_DATA, name)) for name in layout.names]
    new, old = _cells(layout, kinds)
    row.vary_cells(layout.names, lambda part: new if part == _DATA else old, limits, is_old_partial=True)
    row.split()
    return row


def traced_message(message: MaxwellMessage, row: TracedRow, trace: Trace) -> MaxwellMessage:
    """Return a decoded message with traced members. Raises NotTemplatable."""
    # `query` and unknown members differ in nearly every message, so a template would rarely match.
    if message.query is not None or message.unknown is not None:
        raise NotTemplatable
    members = {name: getattr(message, name) for name in MaxwellMessage.__struct_fields__}
    members |= {"position": message.file_and_offset(), "push_ts": message.pushed_ns()}
    members |= dict.fromkeys(("primary_key", "data", "old"), trace.refused())
    return _TracedMaxwellMessage(**(members | row.value.traced_members(_MEMBERS, trace)))


def _cells(layout: Layout, kinds: list[Kind | None]) -> tuple[list[CellTokens], list[CellTokens]]:
    """Return the tokens of the columns in the new row, which has these kinds here, and in the old one."""
    schema = layout.reader.schema
    columns = [schema.columns[at] for at in layout.reader.indexes]
    if layout.inferred:
        if layout.reader.known is not None or layout.inferred.keys() != set(layout.names):
            raise NotTemplatable
        pairs = [_inferred_cells(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        new, old = [cell for cell, _ in pairs], [cell for _, cell in pairs]
    else:
        old = [_known_cell(layout, at, column) for at, column in enumerate(columns)]
        new = list(old)
        # `Loss.TIME_RANGE` is counted once per row that has any TIME, so a template must know whether it has.
        found = [at for at in layout.times if kinds[at] == "string"]
        for at in layout.times if not found else found[:1]:
            new[at] = new[at]._replace(kinds=("string",) if found else ("null",))
    if any(kind not in cell.kinds for cell, kind in zip(new, kinds, strict=True)):
        raise NotTemplatable
    tried = [_TRIED.get(column.type.base, _DIGITS) for column in columns]
    return _with_tried(new, tried), _with_tried(old, tried)


def _with_tried(cells: list[CellTokens], tried: list[Conversion]) -> list[CellTokens]:
    return [cell._replace(tried=each) for cell, each in zip(cells, tried, strict=True)]


def _known_cell(layout: Layout, at: int, column: Column) -> CellTokens:
    """Return the tokens of a column of a known type."""
    base = column.type.base
    has_null = not any(index == at for index, _ in layout.nulls)
    if base in _WITHOUT_TOKENS:
        if base == "json" and at not in layout.documents:
            raise NotTemplatable
        return CellTokens(("null",), None)
    kinds, read = _KINDS.get(base, _STRINGS)
    if base in INTEGERS:
        read = READ_INTEGER if layout.types[at] is int else READ_SIGNED
    elif base in _READ_BY_FUNCTION or kinds == ("string",):
        read = conversion(layout.reader.reads[at])
    if has_null:
        kinds = (*kinds, "null")
    return CellTokens(kinds, read, (b"%d" % NO_YEAR,) if base == "year" else ())


def _inferred_cells(column: Column, kind: Kind | None) -> tuple[CellTokens, CellTokens]:
    """Return the tokens of a column with an inferred type, in the new row and in the old one.

    Only tokens from which the same type would be inferred match.
    """
    base = column.type.base
    if base == "varchar" and kind in ("string", "null"):
        texts = CellTokens(("string", "null"), None)
        return texts, texts
    if base == "bigint" and not column.type.unsigned and kind == "integer":
        return CellTokens(("integer",), READ_SIGNED), CellTokens(("integer", "null"), READ_SIGNED)
    if base == "decimal" and kind == "number":
        read = READ_PLAIN_DECIMAL
        return CellTokens(("number",), read), CellTokens(("number", "null"), read)
    raise NotTemplatable


#: Printing conversions for numbers of these types, which check that the numbers can be read.
_TRIED: Final[Mapping[str, Conversion]] = {
    "decimal": ("decimal",),
    **dict.fromkeys(FLOATS, ("java-double",)),
}
_DIGITS: Final[Conversion] = ("digits",)
_STRINGS: Final[tuple[Kinds, Conversion | None]] = (("string",), None)
#: The tokens of a column of these types except null, and their conversion.
_KINDS: Final[Mapping[str, tuple[Kinds, Conversion | None]]] = {
    **dict.fromkeys(INTEGERS | {"bit"}, (("integer",), None)),
    "year": (("integer",), READ_SIGNED),
    **dict.fromkeys(FLOATS | {"decimal"}, (("integer", "number"), None)),
}
_READ_BY_FUNCTION: Final = FLOATS | {"bit", "decimal"}
