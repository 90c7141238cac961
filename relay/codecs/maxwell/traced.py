"""Templates of rows of Maxwell: images, and the times, positions and ids around them.

Everything not named here is the same in every message of the shape, including the name of the log's file
before a position. The Kafka key may have any values.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, NamedTuple, NoReturn

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import TracedMessage
from relay.codecs.maxwell.messages import CONNECTOR, FIELDS, POSITION_LIMIT
from relay.codecs.maxwell.rows import MaxwellRowDecoder
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, conversion, follows_ddl
from relay.model.events import Column, Op, RowChange, Source, Transaction, TransactionMark
from relay.model.limits import Limits
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.conversion_names import READ_INTEGER, READ_PLAIN_DECIMAL, READ_SIGNED
from relay.mysql.types import FLOATS, GEOMETRIES, INTEGERS
from relay.templates.ops import (
    TIME_MS,
    Among,
    Conversion,
    Kind,
    Kinds,
    Members,
    Put,
    SourceOp,
    Take,
    Unordered,
)
from relay.templates.scanning import (
    INTEGER,
    SCALAR,
    STRING,
    JsonToken,
    Path,
    names_of,
    parsed,
    scalar_paths,
    source_ops,
)
from relay.templates.tracing import (
    NotTemplatable,
    Trace,
    Traced,
    TracedCell,
    TracedNumber,
    TracedText,
    Written,
)

_SECOND_NS: Final = 1_000_000_000
_MILLISECOND_NS: Final = 1_000_000
_TIME_END_NS: Final = TIME_END_MS * _MILLISECOND_NS
_TS: Final[Path] = ("ts",)
_XID: Final[Path] = ("xid",)
_XOFFSET: Final[Path] = ("xoffset",)
_THREAD: Final[Path] = ("thread_id",)
_GTID: Final[Path] = ("gtid",)
_PUSHED: Final[Path] = ("push_ts",)
#: A position's digits, after the file's name in the same text.
_POSITION: Final[Path] = ("position", "digits")
_DATA, _OLD = "data", "old"
#: The values of the primary key, which a decoder ignores.
_KEY_VALUES: Final[Path] = ("primary_key",)
#: Parts of a Kafka key that are not values.
_NAMES_IN_KEYS: Final[frozenset[Path]] = frozenset({("database",), ("table",), (0,), (1,)})
#: The token of the YEAR 0000.
_NO_YEAR: Final = b"1900"
#: Types with more than one token, or without a named conversion.
_WITHOUT_TOKENS: Final = GEOMETRIES | {"json", "set", "vector"}
_UPDATE: Final = Op.UPDATE

Given = dict[Path, Take | Members | Unordered]


class _Cell(NamedTuple):
    """The possible tokens of a column in the new row and in the old one, and their conversion; `never`:
    excluded tokens.
    """

    new: Kinds
    old: Kinds
    read: Conversion | None
    never: tuple[bytes, ...] = ()


def traced_row(
    rows: MaxwellRowDecoder,
    record: ConsumerRecord,
    change: RowChange,
    catalog: Catalog,
    trace: Trace,
    limits: Limits,
) -> TracedMessage:
    """Return a message of one row with traced values. Raises NotTemplatable."""
    message = _RowMessage(rows, record, change, trace, limits)
    ts = message.number(_TS)
    if ts is None or not ts or not (ts * 1_000 >= -TIME_END_MS and ts * 1_000 < TIME_END_MS):
        raise NotTemplatable
    event_time_ns = ts * _SECOND_NS
    effective = catalog.effective_schema(change.table, change.source.at(record))
    after = follows_ddl(message.layout.reader.known, effective, None, event_time_ns, record)
    emitted_at_ns = message.emitted_at_ns(event_time_ns)
    source, transaction = message.source(change.source, event_time_ns), message.transaction()
    traced = msgspec.structs.replace(
        change,
        images=message.images(),
        source=source,
        emitted_at_ns=emitted_at_ns,
        transaction=transaction,
    )
    end = None
    if message.is_last and transaction is not None:
        where = Source(CONNECTOR, source.event_time_ns, gtid=source.gtid)
        end = TransactionMark(is_begin=False, id=transaction.id, source=where, emitted_at_ns=emitted_at_ns)
    return TracedMessage(message.key, message.value, traced, after, end)


class _RowMessage:
    """A row's message split into ops. Raises NotTemplatable."""

    def __init__(
        self, rows: MaxwellRowDecoder, record: ConsumerRecord, change: RowChange, trace: Trace, limits: Limits
    ) -> None:
        value, images = record.value or b"", change.images
        if type(images) is not TypedRows:
            raise NotTemplatable
        layout = rows.layout(change.table, images.reader)
        if layout is None or not layout.has_nulls:
            raise NotTemplatable
        self.layout = layout
        self._record, self._value, self._trace, self._images = record, value, trace, images
        self._root = parsed(value)
        # Other members have other meanings, or none; an old row may have more members than this one.
        if not FIELDS.keys() >= (self._root.members or {}).keys() or len(value) > limits.values:
            raise NotTemplatable
        if len(layout.names) > limits.columns or self._has_query():
            raise NotTemplatable
        self._cells = self._described_cells()
        given = self._given() | self._given_rows()
        self.key, first_slot = _key_ops(record.key)
        self.value, self._slots = source_ops(value, self._root, given, first_slot)
        self._note_cells()

    # ------------------------------------------------------------ around the row

    def _given(self) -> Given:
        """Return the values around the row; one that is missing or null, and a text that is empty, is the
        same in all messages.
        """
        self._split_position()
        wanted = {
            **dict.fromkeys((_TS, _XID, _XOFFSET, _THREAD, _POSITION), INTEGER),
            _GTID: STRING,
            _PUSHED: Take(("integer", "number")),
        }
        found: Given = {}
        for path, take in wanted.items():
            token = self._root.at(path)
            if token is None or token.kind == "null" or self._text(token) == b'""':
                continue
            if token.kind not in take.kinds:
                raise NotTemplatable
            found[path] = take
        key = self._root.at(_KEY_VALUES)
        if key is not None:
            found |= dict.fromkeys(scalar_paths(key, _KEY_VALUES), SCALAR)
        return found

    def _has_query(self) -> bool:
        """Return whether the message has the statement, which differs for nearly every row."""
        token = self._root.at(("query",))
        return token is not None and token.kind != "null"

    def _split_position(self) -> None:
        """Make the digits of a position a separate value inside the text."""
        token = self._root.at(_POSITION[:1])
        if token is None:
            return
        text = self._text(token)
        colon = text.rfind(b":")
        digits = text[colon + 1 : -1]
        if colon < 2 or not digits.isdigit() or b"\\" in digits:
            return
        digits_token = JsonToken(token.start + colon + 1, token.start)
        digits_token.end, digits_token.kind = token.end - 1, "integer"
        token.members = {"digits": digits_token}

    def _text(self, token: JsonToken) -> bytes:
        return self._value[token.start : token.end]

    def number(self, path: Path) -> TracedNumber | None:
        """Return the number at the path, if any."""
        slot, token = self._slots.get(path), self._root.at(path)
        if slot is None or token is None:
            return None
        return TracedNumber(self._trace, slot, int(self._text(token)))

    def _traced_text(self, path: Path) -> TracedText | None:
        slot = self._slots.get(path)
        return None if slot is None else TracedText(self._trace, slot)

    @property
    def is_last(self) -> bool:
        """Return whether the row is the last one of its transaction."""
        token = self._root.at(("commit",))
        return token is not None and self._text(token) == b"true"

    def source(self, source: Source, event_time_ns: Any) -> Source:  # noqa: ANN401 - traced
        """Return the source with traced values."""
        position: Any = self.number(_POSITION)
        if source.binlog_position is None:
            if position is not None:
                raise NotTemplatable
        elif position is None or not position < POSITION_LIMIT or not position >= 0:
            raise NotTemplatable
        thread: Any = self.number(_THREAD)
        gtid: Any = self._traced_text(_GTID)
        return msgspec.structs.replace(
            source,
            event_time_ns=event_time_ns,
            binlog_position=position,
            thread_id=thread,
            gtid=gtid,
        )

    def emitted_at_ns(self, event_time_ns: TracedNumber) -> Any:  # noqa: ANN401 - traced
        """Return the time when the message was made: its own time, else the record's."""
        pushed = self._slots.get(_PUSHED)
        if pushed is not None:
            return TracedSeconds(self._trace, pushed)
        time_ns = TracedNumber(self._trace, TIME_MS, self._record.timestamp_ms) * _MILLISECOND_NS
        return time_ns if time_ns >= 0 and time_ns < _TIME_END_NS else event_time_ns

    def transaction(self) -> Transaction | None:
        """Return the row's transaction and its order there, if any."""
        xid = self.number(_XID)
        if xid is None:
            return None
        offset = self.number(_XOFFSET)
        order: Any = None if offset is None or offset < 0 else offset + 1
        identifier: Any = TracedXid(xid, self._slots[_XID])
        return Transaction(identifier, order)

    # ------------------------------------------------------------ rows

    def _described_cells(self) -> list[_Cell]:
        """Return the possible values of the row's columns, in order."""
        layout = self.layout
        data = self._root.at((_DATA,))
        if data is None or (data.members or {}).keys() != set(layout.names):
            raise NotTemplatable
        schema = layout.reader.schema
        columns = [schema.columns[at] for at in layout.reader.indexes]
        kinds = [_kind_of(data, name) for name in layout.names]
        if layout.inferred:
            if layout.reader.known is not None or layout.inferred.keys() != set(layout.names):
                raise NotTemplatable
            return [_inferred_cell(column, kind) for column, kind in zip(columns, kinds, strict=True)]
        cells = [self._known_cell(at, column) for at, column in enumerate(columns)]
        # The loss of TIME is counted once per row.
        found = [at for at in layout.times if kinds[at] == "string"]
        for at in layout.times if not found else found[:1]:
            cells[at] = cells[at]._replace(new=("string",) if found else ("null",))
        for cell, kind in zip(cells, kinds, strict=True):
            if kind not in cell.new:
                raise NotTemplatable
        return cells

    def _known_cell(self, at: int, column: Column) -> _Cell:
        """Return the possible values of a column of a known type."""
        layout, base = self.layout, column.type.base
        has_null = not any(index == at for index, _ in layout.nulls)
        if base in _WITHOUT_TOKENS:
            if base == "json" and at not in layout.documents:
                raise NotTemplatable
            return _Cell(("null",), ("null",), None)
        kinds, read = _KINDS.get(base, _STRINGS)
        if base in INTEGERS:
            read = READ_INTEGER if layout.types[at] is int else READ_SIGNED
        elif base in _READ_BY_FUNCTION or kinds == ("string",):
            read = conversion(layout.reader.reads[at])
        if has_null:
            kinds = (*kinds, "null")
        return _Cell(kinds, kinds, read, (_NO_YEAR,) if base == "year" else ())

    def _given_rows(self) -> Given:
        """Return the values of columns: all of them in the new row, any of them in the old one."""
        layout, cells = self.layout, self._cells
        given: Given = {(_DATA, name): Take(cell.new) for name, cell in zip(layout.names, cells, strict=True)}
        if self._images.old is not None and self._images.new is not None:
            data, old = self._root.at((_DATA,)), self._root.at((_OLD,))
            if data is None or data.members is None or old is None or old.members is None:
                raise NotTemplatable
            kinds = {name: cell.old for name, cell in zip(layout.names, cells, strict=True)}
            starts = zip(names_of(self._value, data), data.members, strict=True)
            given[_OLD,] = Members(tuple([(start, kinds[name]) for start, name in starts]))
        return given

    def _note_cells(self) -> None:
        """Note the conditions that hold in all messages."""
        for name, cell in zip(self.layout.names, self._cells, strict=True):
            slots = [self._slots.get((part, name)) for part in (_DATA, _OLD)]
            if cell.never:
                self._trace.conditions += [
                    Among(slot, cell.never, is_one=False) for slot in slots if slot is not None
                ]

    def _look_at(self, cells: Sequence[TracedCell]) -> None:
        """Note that the cells of a row are read, even if they are not written."""
        columns = [self.layout.reader.schema.columns[at] for at in self.layout.reader.indexes]
        for cell, described, column in zip(cells, self._cells, columns, strict=False):
            if described.read is not None:
                self._trace.look_at(cell.slots, described.read, _LOOKED_AT.get(column.type.base, _DIGITS))

    def images(self) -> TracedRows:
        """Return the images of traced cells. A missing old cell is the new one."""
        images, trace, slots, names = self._images, self._trace, self._slots, self.layout.names
        reader = TracedReader.of(self.layout.reader, [cell.read for cell in self._cells])
        row = [TracedCell(trace, (slots[_DATA, name],)) for name in names]
        old, new = None if images.old is None else row, None if images.new is None else row
        if old is not None and new is not None:
            old = [TracedCell(trace, (slots[_OLD, name], slots[_DATA, name])) for name in names]
        for cells in (old or (), new or ()):
            self._look_at(cells)
        return TracedRows(reader, old, new, images.keys_unchanged_on_wire())


#: Printing conversions for numbers of these types, which check that the numbers can be read.
_LOOKED_AT: Final[Mapping[str, Conversion]] = {
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


def _kind_of(row: JsonToken, name: str) -> Kind | None:
    token = row.at((name,))
    return None if token is None else token.kind


def _inferred_cell(column: Column, kind: Kind | None) -> _Cell:
    """Return the possible values of a column with an inferred type: all that lead to the same type."""
    base = column.type.base
    if base == "varchar" and kind in ("string", "null"):
        return _Cell(("string", "null"), ("string", "null"), None)
    if base == "bigint" and not column.type.unsigned and kind == "integer":
        return _Cell(("integer",), ("integer", "null"), READ_SIGNED)
    if base == "decimal" and kind == "number":
        return _Cell(("number",), ("number", "null"), READ_PLAIN_DECIMAL)
    raise NotTemplatable


def _key_ops(key: bytes | None) -> tuple[tuple[SourceOp, ...] | None, int]:
    """Return the ops of a key with any values, and their number of slots."""
    if key is None:
        return None, 0
    root = parsed(key)
    values = [path for path in scalar_paths(root) if path not in _NAMES_IN_KEYS]
    ops, slots = source_ops(key, root, dict.fromkeys(values, SCALAR), 0)
    return ops, len(slots)


# ---------------------------------------------------------------- ids and times


class TracedXid(Traced):
    """A transaction's id: the text of a number."""

    __slots__ = ("_number", "_put")

    def __init__(self, number: TracedNumber, slot: int) -> None:
        super().__init__(number.trace)
        self._number = number
        self._put = Put((slot,), READ_INTEGER, ("digits",), null=None)

    def op(self) -> Put:
        """Return the op that prints the text."""
        return self._put

    def within(self, least: int, end: int) -> TracedNumber | None:
        """Return the number, if it is within bounds."""
        return self._number if self._number >= least and self._number < end else None

    def __eq__(self, other: object) -> bool:  # type: ignore[override]  # other cells have no order
        """Return whether it is the same id: a message has one."""
        if not isinstance(other, TracedXid):
            raise NotTemplatable
        return True

    def __hash__(self) -> NoReturn:  # type: ignore[override]  # other cells have none
        """Refuse, as other traced values do."""
        raise NotTemplatable


class TracedSeconds(Traced):
    """A time from a slot of seconds with a fraction, in nanoseconds, or divided by a number."""

    __slots__ = ("_divisor", "_slot")

    def __init__(self, trace: Trace, slot: int, divisor: int = 1) -> None:
        super().__init__(trace)
        self._slot, self._divisor = slot, divisor
        trace.put((slot,), self._written)

    @property
    def _written(self) -> Written:
        return Written(("seconds", self._divisor), ("int64",), null=None)

    def op(self) -> Put:
        """Return the op that prints the number."""
        return self.trace.put((self._slot,), self._written)

    def __floordiv__(self, divisor: int) -> TracedSeconds:
        return TracedSeconds(self.trace, self._slot, self._divisor * divisor)

    def _is_above(self, other: int) -> bool:
        """Return whether all of them are above a number; those beyond 64 bits do not fit."""
        if other < 0:
            return True
        if other >= POSITION_LIMIT - 1:
            return False
        raise NotTemplatable

    def __gt__(self, other: int) -> bool:  # type: ignore[override]  # other cells have no order
        return self._is_above(other)

    def __ge__(self, other: int) -> bool:  # type: ignore[override]  # other cells have no order
        return self._is_above(other - 1)

    def __lt__(self, other: int) -> bool:  # type: ignore[override]  # other cells have no order
        return not self >= other

    def __le__(self, other: int) -> bool:  # type: ignore[override]  # other cells have no order
        return not self > other
