"""Layouts: rows with the same columns of one version of a table. Shapes: messages whose rows have one layout.

Both are compiled from the parts that many messages have in common. For a message that differs they report no
error but return None, and the message takes the general path (`relay.codecs.debezium.shared.rows`). A layout
parses an image in one step into a struct of its columns; a shape also parses the message around it.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.debezium.shared.dialect import AmbiguousValue, DebeziumDialect, DebeziumValueFormat
from relay.codecs.debezium.shared.json_kinds import (
    FLOAT32,
    FLOAT_OR_TEXT,
    NUMERIC,
    SPELLED,
    UNCHECKED,
    exact_number,
    fitting,
)
from relay.codecs.debezium.shared.messages import Key
from relay.codecs.losses import Loss
from relay.codecs.shared.compiled import AT_USE, is_due
from relay.codecs.shared.debezium_temporal import lacks_zone
from relay.codecs.shared.lenient_json import REFUSED, with_negative_zeros
from relay.codecs.shared.local_times import LocalTimes
from relay.codecs.shared.rows import TypedReader, TypedRows
from relay.codecs.shared.tables import Table
from relay.codecs.shared.unknown_members import exact_type
from relay.model.events import ABSENT, Op, Position, Source, TableSchema
from relay.model.records import ConsumerRecord

# Members of an enumeration cost an extra lookup at each use.
_DELETE: Final = Op.DELETE
_UPDATE: Final = Op.UPDATE


class KeyUse(msgspec.Struct, frozen=True):
    """The facts that a layout took from its message's key: the names of its columns (None: no usable key),
    its schema block (None if no column's type depends on it), and whether some fields are not columns.
    """

    names: tuple[str, ...] | None
    block: bytes | None
    has_foreign_fields: bool = False

    def is_of(self, found: Key) -> bool:
        """Return whether another message's key has the same facts."""
        names = None if found.payload is None else tuple(found.payload)
        return names == self.names and (self.block is None or self.block == bytes(found.schema))


class LayoutColumn(NamedTuple):
    """A column of a layout: its wire name, the form of its values, the ambiguous ones, and the one that means
    NULL (ABSENT: none does). Both layouts and templates are made from it.
    """

    name: str
    form: DebeziumValueFormat
    doubts: tuple[AmbiguousValue, ...]
    null_value: Any


class Layout:
    """Rows with exactly these columns of one table version. Compiled after some rows had them.

    `block`: the schema block of the message that it was made for; `key`: the facts from its key, None if they
    do not matter. `is_value_inferred`: the types of some columns come from JSON values alone. `unavailable`:
    texts that mark missing values; a row with one takes the general path.
    """

    def __init__(
        self,
        reader: TypedReader,
        columns: Sequence[LayoutColumn],
        block: bytes,
        key: KeyUse | None,
        *,
        is_value_inferred: bool,
        unavailable: frozenset[str] = frozenset(),
    ) -> None:
        self.reader, self.block, self.key, self.is_value_inferred = reader, block, key, is_value_inferred
        self.columns = columns
        #: By column: its name on the wire, and the kind of its values.
        self.names = [column.name for column in columns]
        self.kinds = [column.form.kind for column in columns]
        floats = [at for at, kind in enumerate(self.kinds) if kind in _FLOAT_KINDS]
        self._floats: Any = None
        self.has_floats = bool(floats)
        if floats:
            # With two or more indexes it returns a tuple.
            self._floats = operator.itemgetter(floats[0], *floats)
        self._unchecked = [at for at, kind in enumerate(self.kinds) if kind in UNCHECKED]
        texts = [at for at, kind in enumerate(self.kinds) if kind is str]
        self.unavailable = unavailable
        self._texts: Any = None
        if texts and unavailable:
            # With two or more indexes it returns a tuple.
            self._texts = operator.itemgetter(texts[0], *texts)
        #: The struct that a row is parsed into, None until it is compiled; and its parser.
        self.row: type | None = None
        self._parse: Any = None
        self._uses = 0
        self._shape: Shape | None = None
        self._tries = 0
        #: Indexes of columns with ambiguous wire values, with the value and the loss that counts it.
        self.doubts = [
            (at, value, what) for at, column in enumerate(columns) for value, what in column.doubts
        ]
        counts = {
            Loss.SCHEMA_INFERRED: reader.is_inferred,
            Loss.VALUE_INFERRED: is_value_inferred or any(column.form.is_inferred for column in columns),
            Loss.COLUMNS_ABSENT: reader.is_partial,
            Loss.UNKNOWN_FIELDS: key is not None and key.has_foreign_fields,
        }
        self._counts = [what for what, is_counted in counts.items() if is_counted]
        #: Indexes of columns whose text may have no zone.
        self._times = [at for at, column in enumerate(columns) if column.form.zone is not None]
        zones = {column.form.zone for column in columns if column.form.zone not in {None, UTC}}
        self._local_times = LocalTimes(zones.pop()) if zones else None
        #: Indexes of columns whose values may have more digits of a second than MySQL has.
        self._fine = [(at, test) for at, column in enumerate(columns) if (test := column.form.is_too_fine)]
        #: Whether rows lose nothing and their cells need no changes.
        self.is_plain = not (self._counts or self.doubts or self._times or self._fine)
        #: The values that mean NULL, by column index.
        self.null_values = {
            at: column.null_value for at, column in enumerate(columns) if column.null_value is not ABSENT
        }

    def count_use(self) -> None:
        """Count a row that was read on the general path; compile after some."""
        self._uses += 1
        if is_due(self._uses):
            self.row = _row_struct(self.names, self.kinds)
            if self.row is not None:
                self._parse = msgspec.json.Decoder(self.row, float_hook=exact_number).decode

    def shape(self, table: TableLayouts, payload: type, value: bytes) -> Shape | None:
        """Return the shape of these rows' messages, of which `value` is one; None if it has no usual one. The
        shape is compiled once; attempts stop after some failures.
        """
        if self._shape is None and self._tries < _MOST_TRIES:
            self._tries += 1
            self._shape = _shape_of(table, self, payload, value)
        return self._shape

    def cells(self, image: bytes) -> Sequence[Any] | None:
        """Return the image's cells; None if columns or kinds of values differ, or nothing is compiled. Raises
        msgspec's errors for broken JSON.
        """
        if self._parse is None:
            return None
        if self._floats is not None:
            image = with_negative_zeros(image)
        try:
            parsed = self._parse(image)
        except msgspec.ValidationError:
            return None
        return self.cells_of(parsed)

    def cells_of(self, row: Any) -> Sequence[Any] | None:  # noqa: ANN401 - `row`, a class made at run time
        """Return the cells of a parsed row; None if one is not a value of its column."""
        cells: Sequence[Any] = _cells(row)
        if self._texts is not None and not self.unavailable.isdisjoint(self._texts(cells)):
            return None
        return self._checked(cells) if self._unchecked else cells

    def _checked(self, cells: Sequence[Any]) -> Sequence[Any] | None:
        """Return the cells, some of which were parsed unchecked; None if one does not fit."""
        fitted = list(cells)
        for at in self._unchecked:
            fitted[at] = fitting(self.kinds[at], cells[at])
        return None if ABSENT in fitted else fitted

    def fitted(self, row: dict[str, Any]) -> list[Any] | None:
        """Return the cells of a parsed image, ABSENT if missing; None if a column or value does not fit."""
        if not row.keys() <= set(self.names):
            return None
        cells = []
        for name, kind in zip(self.names, self.kinds, strict=True):
            cell = ABSENT
            if name in row:
                cell = fitting(kind, row[name])
                if cell is ABSENT:
                    return None
            cells.append(cell)
        return cells

    def may_have_sign(self, cells: Sequence[Any]) -> bool:
        """Return whether a number is zero and may have been `-0`: a parsed value does not show it."""
        if self._floats is None:
            return False
        try:
            return 0 in self._floats(cells)
        except ArithmeticError:  # a Decimal NaN
            return True

    def count(self, old: Sequence[Any] | None, new: Sequence[Any] | None, losses: list[Loss]) -> None:
        """Count the losses of a row with these cells."""
        losses += self._counts
        for at, value, what in self.doubts:
            if (new is not None and new[at] == value) or (old is not None and old[at] == value):
                losses.append(what)
        for at in self._times:
            for cells in (old, new):
                if cells is not None and type(cells[at]) is str and lacks_zone(cells[at]):
                    losses.append(Loss.ZONE_INFERRED)
                    if self._local_times is not None:
                        self._local_times.count((cells[at],), losses)
        for at, is_too_fine in self._fine:
            for cells in (old, new):
                if cells is not None and type(cells[at]) in _FINE_KINDS and is_too_fine(cells[at]):
                    losses.append(Loss.TIME_RANGE)

    def with_nulls(self, cells: Sequence[Any] | None) -> Sequence[Any] | None:
        """Return the cells with NULL for each value that means it."""
        if cells is None or all(cells[at] != value for at, value in self.null_values.items()):
            return cells
        return [
            None if at in self.null_values and cell == self.null_values[at] else cell
            for at, cell in enumerate(cells)
        ]


#: Kinds of times: other values are missing.
_FINE_KINDS: Final = frozenset({int, str})
#: Kinds of numbers that must keep `-0`.
_FLOAT_KINDS: Final = (float, FLOAT32, FLOAT_OR_TEXT, Decimal, SPELLED, NUMERIC)


_cells: Final = msgspec.structs.astuple
_MOST_TRIES: Final = 3


def _row_struct(names: list[str], kinds: list[Any]) -> type | None:
    """Return a struct for rows of these columns, whose parser checks them; None for unusable names."""
    fields = [(f"c{at}", Any if kind in UNCHECKED else kind | None) for at, kind in enumerate(kinds)]
    renamed = {f"c{at}": name for at, name in enumerate(names)}
    try:
        return msgspec.defstruct("Row", fields, rename=renamed, forbid_unknown_fields=True, gc=False)
    except (ValueError, UnicodeError):
        return None


class TableLayouts(Table[Layout]):
    """The layouts of a table's rows, and the facts derived from its definition for all of them."""

    _dropped: TableSchema | None = None
    _recovered: TableSchema | None = None
    _keyed: TableSchema | None = None
    _key_names: frozenset[str] = frozenset()

    def key_names(self, known: TableSchema, dialect: DebeziumDialect) -> frozenset[str]:
        """Return the columns that the keys of rows with this definition can have."""
        if known is not self._keyed:
            shown = (column.name for column in known.columns if dialect.has_values(column))
            self._keyed, self._key_names = known, frozenset(known.handle_key() or shown)
        return self._key_names

    def definition(self, catalog: Catalog, at: Position) -> TableSchema | None:
        """Return the catalog's definition at this position.

        TiCDC has no message for RECOVER TABLE: rows of a dropped table may have its old definition, here not
        `complete`.
        """
        if self.is_newest(catalog, at.commit_ts, at.event_time_ns, at):
            known = self.newest
        else:
            known = catalog.table(self.id, at)
        if known is not None:
            return known
        dropped = catalog.dropped(self.id, at)
        if dropped is not self._dropped:
            self._dropped = dropped
            self._recovered = None if dropped is None else msgspec.structs.replace(dropped, complete=False)
        return self._recovered


# ---------------------------------------------------------------- whole messages


class Shape:
    """The form of messages whose rows have one layout: the bytes around a payload, and a parser for it.

    `payload`: the struct of a row's payload without its images; it is extended by them and forbids other
    members, so that it overlooks nothing that the general path reads.
    """

    def __init__(
        self, table: TableLayouts, layout: Layout, payload: type, around: tuple[bytes, bytes]
    ) -> None:
        self.table, self.layout = table, layout
        self._head, self._tail = around
        self._has_wrapper = bool(self._head)
        row: Any = layout.row
        images = [("before", row | None, None), ("after", row | None, None)]
        bases = (exact_type(payload),)
        whole = msgspec.defstruct("EncodedRecord", images, bases=bases, forbid_unknown_fields=True, gc=False)
        self._parse: Callable[[bytes], Any] = msgspec.json.Decoder(whole, float_hook=exact_number).decode

    def parsed(self, value: bytes) -> Any:  # noqa: ANN401 - a class made at run time
        """Return a message's payload with its images parsed; None if the message has another form."""
        if self._has_wrapper:
            head, tail = self._head, self._tail
            if not (value.startswith(head) and value.endswith(tail)):
                return None
            value = value[len(head) : -len(tail)]
        try:
            return self._parse(value)
        except REFUSED:
            return None

    def read(  # noqa: PLR0913, PLR0917 - as ReadRow
        self,
        op: Op,
        payload: Any,  # noqa: ANN401 - a result of `parsed`
        source: Source,
        time_ns: int,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[TableSchema, TypedRows] | None:
        """Return the row's definition and images. None, and nothing counted, if the general path must read
        them.
        """
        layout, table, rows = self.layout, self.table, _rows_of(op, payload)
        if (
            rows is None
            or not table.is_newest(catalog, source.commit_ts, time_ns, record)
            or layout.reader.known is not table.newest
        ):
            return None
        before, after = rows
        old = new = None
        may_have_sign = False
        if before is not None:
            old = layout.cells_of(before)
            if old is None:
                return None
            may_have_sign = layout.has_floats and layout.may_have_sign(old)
        if after is not None:
            new = layout.cells_of(after)
            if new is None:
                return None
            may_have_sign = may_have_sign or (layout.has_floats and layout.may_have_sign(new))
        if may_have_sign and with_negative_zeros(record.value or b"") is not record.value:
            return None
        if not layout.is_plain:
            layout.count(old, new, losses)
        if layout.null_values:
            old, new = layout.with_nulls(old), layout.with_nulls(new)
        if op is _UPDATE and before is None:
            losses.append(Loss.BEFORE_MISSING)
        return layout.reader.schema, TypedRows(layout.reader, old, new)


def _rows_of(op: Op, payload: Any) -> tuple[Any, Any] | None:  # noqa: ANN401 - as `Shape.parsed`
    """Return the old and the new row of an operation, whatever else a payload has; None if a required one is
    missing.
    """
    before, after = payload.before, payload.after
    if op is _DELETE:
        return None if before is None else (before, None)
    if after is None:
        return None
    return (before, after) if op is _UPDATE else (None, after)


def _shape_of(table: TableLayouts, layout: Layout, payload: type, value: bytes) -> Shape | None:
    """Return the shape of a message; None if there is white space between its parts, or unusual members."""
    if layout.row is None:
        return None
    block = layout.block
    frames = [(b'{"schema":%b,"payload":' % block, b"}"), (b'{"payload":', b',"schema":%b}' % block)]
    if block == b"null":
        frames += [(b'{"payload":', b"}"), (b"", b"")]
    for head, tail in frames:
        if value.startswith(head) and value.endswith(tail):
            shape = Shape(table, layout, payload, (head, tail))
            if shape.parsed(value) is not None:
                return shape
    return None


class TopicRows:
    """The assumed shape of a topic's messages, which every message may refute.

    A run of rows with one layout sets it, and the first message that does not fit clears it. So few attempts
    fail in a topic where tables alternate.
    """

    __slots__ = ("_layout", "_run", "shape")

    def __init__(self) -> None:
        self.shape: Shape | None = None
        self._layout: Layout | None = None
        self._run = 0

    def count(self, table: TableLayouts, layout: Layout, payload: type, value: bytes) -> None:
        """Count a row that was read without a shape, or that did not fit it."""
        if self.shape is not None:
            # A row of this layout may have members in another order, for example; so may the next ones.
            self._run = AT_USE - _PAUSE if self.shape.layout is layout else 0
            self.shape = None
        elif layout is not self._layout:
            self._run = 0
        self._layout = layout
        self._run += 1
        if self._run > AT_USE:
            self.shape = layout.shape(table, payload, value)
            self._run = 0


#: Number of rows that are read before a shape that did not fit is tried again.
_PAUSE: Final = 4
