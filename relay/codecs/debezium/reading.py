"""Rows of Debezium JSON, read: `before` and `after` as JSON objects, and the definition to read with.

Contract: `RowDecoder` keeps layouts by table. A row whose columns and types are those of a message before is
parsed in one step into a struct that was compiled for them (`Layout`), and where a topic has one such row
after another, so is the message around it (`Shape`). Everything else takes the general way:
it takes the catalogue's definition as far as the message does not contradict it, else what the schema block
says, else what the JSON values look like, and makes a layout for the next message. How a column's values look
in a producer's JSON is the `Dialect`'s.
"""

from __future__ import annotations

import operator
import re
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from relay.catalog import Catalog
from relay.codecs.debezium.envelope import Key
from relay.codecs.debezium.kinds import (
    FLOAT32,
    FLOAT_OR_TEXT,
    NUMERIC,
    SPELT,
    UNCHECKED,
    fitting,
    is_no_number,
)
from relay.codecs.debezium.schema import DeclaredColumn, member_count, read_block, read_key_block
from relay.codecs.losses import Lossy
from relay.codecs.wire.caches import ByteCache, CachePool, columns_bytes
from relay.codecs.wire.compiled import AT_USE, is_due
from relay.codecs.wire.lenient_json import REFUSED, complaint, with_negative_zeros
from relay.codecs.wire.rows import PartNames, Read, Table, Tables, TypedReader, TypedRows
from relay.errors import Malformed
from relay.limits import DEFAULT_LIMITS, Limits, check_columns, exceeded
from relay.model import ABSENT, Column, ColumnType, Images, Op, Position, Rows, TableId, TableSchema

# Members of an enumeration cost a lookup of their own at each use.
_DELETE: Final = Op.DELETE
_UPDATE: Final = Op.UPDATE
_PARTS: Final = PartNames(deleted="payload.before", old="payload.before", new="payload.after")
#: Layouts of one table's rows that are kept ready: versions of the definition, selections of columns,
#: guesses.
_CACHED_LAYOUTS: Final = 32
#: What a layout takes, by column and beside, with the functions of an encoder that write its rows, and what a
#: byte of a schema block takes when it is parsed (measured with CPython 3.11).
_LAYOUT_BYTES: Final = 12_000
_COLUMN_BYTES: Final = 1_900
_BLOCK_FACTOR: Final = 5
_NO_COLUMNS: Final = "a row without columns"


def _exact(text: str) -> Decimal:
    """A number with all its digits. Raises ValueError for an exponent that no Decimal has."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("Number out of range") from None


_decode_image = msgspec.json.Decoder(dict[str, Any], float_hook=_exact).decode


#: Whole numbers with more digits than an int of msgspec may have, but a Decimal may; not the digits of a
#: fraction or an exponent. The closing quote may be missing, and nothing begins inside a number, so that no
#: byte is looked at twice.
_STRING_OR_LONG_NUMBER: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|(?<![\d.eE+])(?<![eE]-)\d{4301,}+(?![.eE])', re.DOTALL
)


def _parsed(image: bytes) -> dict[str, Any]:
    """An image as a JSON object whose numbers keep all digits. Raises what msgspec raises."""
    image = with_negative_zeros(image)
    if len(image) > _LONG:
        image = _STRING_OR_LONG_NUMBER.sub(_as_fraction, image)
    row: dict[str, Any] = _decode_image(image)
    return row


_LONG: Final = 4301


def _as_fraction(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else match[0] + b".0"


# ---------------------------------------------------------------- values


def wire_key_cell(cell: str | float | Decimal | dict[str, Any] | list[Any] | None) -> str | int | None:
    """Return a cell of a key (`Images.wire_key`) as it is whatever is known of its column.

    Of a number, only the shortest digits count: what JSON has as a number is an integer, a float or a
    decimal, as the column's type says and, where nobody knows it, as the number itself looks.
    """
    if cell is None or isinstance(cell, str | int):
        return cell
    if isinstance(cell, dict | list):  # a DECIMAL with a scale of its own, for example
        return msgspec.json.encode(cell, order="sorted").decode()
    number = cell if isinstance(cell, Decimal) else Decimal(repr(cell))
    if not number.is_finite():
        return str(number)
    if number.adjusted() <= sys.float_info.max_10_exp and number == number.to_integral_value():
        return int(number)
    return repr(float(number))


#: What a column is whose only evidence is a JSON value (`bool` is Python's subclass of `int`).
_LIKE: Final[dict[type, ColumnType]] = {
    bool: ColumnType("bit", length=1),
    int: ColumnType("bigint"),
    Decimal: ColumnType("double"),
    str: ColumnType("varchar"),
}


# ---------------------------------------------------------------- what a producer's dialect says


class Form(NamedTuple):
    """How a column's values look: the kind of its JSON values, and how one becomes canonical (None: it is).

    `is_guess`: the value itself decides how it is read.
    """

    kind: Any
    read: Read | None = None
    is_guess: bool = False


#: A value in a message that means two things, and how that is counted.
Doubt = tuple[Any, Lossy]
#: The columns of an image that was parsed without a layout.
Object = dict[str, Any]


class Dialect(Protocol):
    """How one producer's columns look in rows.

    `declared` is what the message's schema block says of a column, None where it says nothing; `value` one of
    the message's values, the more telling one of two images.
    """

    #: Texts that stand for a value which the message does not have.
    unavailable: frozenset[str]

    def key_of(self, key: bytes | None) -> Key:
        """Parse a row's Kafka key."""
        ...

    def complete(self, images: Sequence[Object | None], key: Key, wanted: frozenset[str] | None) -> None:
        """Bring parsed images into the form that layouts have: add what only the key says, for example.

        `wanted`: the columns that a key of the table can have; None if nobody knows.
        """
        ...

    def has_values(self, column: Column) -> bool:
        """Whether rows have a column of the definition."""
        ...

    def known_columns(self, known: TableSchema, names: Sequence[str]) -> Mapping[str, Column]:
        """Return the definition's columns that rows have, by their name on the wire. `names`: a message's."""
        ...

    def column_names(self, names: Sequence[str]) -> Mapping[str, str]:
        """Return the columns' names of those that a message has, where no definition is known."""
        ...

    def fits(self, column: Column, declared: DeclaredColumn | None, value: object) -> bool:
        """Whether neither the block nor the value contradicts the catalogue's column."""
        ...

    def declared_type(self, declared: DeclaredColumn, value: object) -> ColumnType | None:
        """Return the type that the block declares, None if that does not go with the value."""
        ...

    def form(
        self, column: Column, declared: DeclaredColumn | None, value: object, *, is_known: bool, is_key: bool
    ) -> Form:
        """Return how the column's values look. `is_known`: the type is the catalogue's, with its parameters;
        `is_key`: the column is one of its table's key.
        """
        ...

    def doubts(self, column: Column, form: Form, declared: DeclaredColumn | None) -> Iterator[Doubt]:
        """Give the column's wire values that mean two things."""
        ...

    def null_value(self, column: Column, declared: DeclaredColumn | None) -> Any:  # noqa: ANN401 - any JSON value
        """Return the value that stands for NULL beside NULL itself, ABSENT if none does."""
        ...

    def guessed_type(self, value: object) -> ColumnType | None:
        """Return the type of a column of which only an object or an array is known, None if none has such."""
        ...

    def tells_types(self, block: bytes) -> bool:
        """Whether a schema block tells types as the catalogue has them."""
        ...


def plain_column_names(names: Sequence[str]) -> Mapping[str, str]:
    """Return the names as they are."""
    return {name: name for name in names}


# ---------------------------------------------------------------- layouts


class KeyUse(msgspec.Struct, frozen=True):
    """What a layout took from its message's key: the names of its columns (None: it had no usable key), and
    its schema block, None where no column's type rests on that.
    """

    names: tuple[str, ...] | None
    block: bytes | None

    def is_of(self, found: Key) -> bool:
        """Whether another message's key says the same."""
        names = None if found.payload is None else tuple(found.payload)
        return names == self.names and (self.block is None or self.block == bytes(found.schema))


class LayoutColumn(NamedTuple):
    """A column of a layout: its wire name, how its values look, those that mean two things, and the one
    that stands for NULL (ABSENT: none does).
    """

    name: str
    form: Form
    doubts: tuple[Doubt, ...]
    null_value: Any


class Layout:
    """Rows with exactly these columns of one table version. Compiled when some rows have had it.

    `block`: the schema block of the message that it was made for; `key`: what its key said, None where that
    does not matter. `is_value_guessed`: nothing but JSON values tells the types of some columns.
    `unavailable`: texts that are no values; a row with one takes the general way.
    """

    def __init__(
        self,
        reader: TypedReader,
        columns: Sequence[LayoutColumn],
        block: bytes,
        key: KeyUse | None,
        *,
        is_value_guessed: bool,
        unavailable: frozenset[str] = frozenset(),
    ) -> None:
        self.reader, self.block, self.key, self.is_value_guessed = reader, block, key, is_value_guessed
        #: By column: its name on the wire, and the kind of its values.
        self.names = [column.name for column in columns]
        self.kinds = [column.form.kind for column in columns]
        floats = [at for at, kind in enumerate(self.kinds) if kind in _FLOAT_KINDS]
        self._floats: Any = None
        self.has_floats = bool(floats)
        if floats:
            # With two places or more it gives a tuple.
            self._floats = operator.itemgetter(floats[0], *floats)
        self._unchecked = [at for at, kind in enumerate(self.kinds) if kind in UNCHECKED]
        texts = [at for at, kind in enumerate(self.kinds) if kind is str]
        self.unavailable = unavailable
        self._texts: Any = None
        if texts and unavailable:
            # With two places or more it gives a tuple.
            self._texts = operator.itemgetter(texts[0], *texts)
        #: The struct that a row is parsed into, None as long as there is none; and its parser.
        self.row: type | None = None
        self._parse: Any = None
        self._uses = 0
        self._shape: Shape | None = None
        self._tries = 0
        #: Where wire values mean two things, and how each is counted.
        self.doubts = [
            (at, value, what) for at, column in enumerate(columns) for value, what in column.doubts
        ]
        counts = {
            Lossy.SCHEMA_GUESSED: reader.is_guessed,
            Lossy.VALUE_GUESSED: is_value_guessed or any(column.form.is_guess for column in columns),
            Lossy.COLUMNS_ABSENT: reader.is_partial,
        }
        self._counts = [what for what, is_counted in counts.items() if is_counted]
        #: Whether rows may lose something, or have other cells than those that came.
        self.is_plain = not (self._counts or self.doubts)
        #: Where a value stands for NULL.
        self.null_values = {
            at: column.null_value for at, column in enumerate(columns) if column.null_value is not ABSENT
        }

    def count_use(self) -> None:
        """Count a row that was read in the general way; after some, compile."""
        self._uses += 1
        if is_due(self._uses):
            self.row = _row_struct(self.names, self.kinds)
            if self.row is not None:
                self._parse = msgspec.json.Decoder(self.row, float_hook=_exact).decode

    def shape(self, table: _TableLayouts, payload: type, value: bytes) -> Shape | None:
        """Return the shape of these rows' messages, of which `value` is one; None if it has no usual one. It
        is compiled once, and after some failures never.
        """
        if self._shape is None and self._tries < _MOST_TRIES:
            self._tries += 1
            self._shape = _shape_of(table, self, payload, value)
        return self._shape

    def cells(self, image: bytes) -> Sequence[Any] | None:
        """Return the image's cells; None if columns or kinds of values differ, or nothing is compiled. Raises
        for what is no JSON.
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
        """Return the cells of a row that was parsed; None if one is no value of its column."""
        cells: Sequence[Any] = _cells(row)
        if self._texts is not None and not self.unavailable.isdisjoint(self._texts(cells)):
            return None
        return self._checked(cells) if self._unchecked else cells

    def _checked(self, cells: Sequence[Any]) -> Sequence[Any] | None:
        """The cells, of which some were parsed as anything; None if one does not fit."""
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
        """Whether a number is zero, which may have come as `-0`: what a parser makes of it does not tell."""
        if self._floats is None:
            return False
        try:
            return 0 in self._floats(cells)
        except ArithmeticError:  # a Decimal that is no number
            return True

    def count(self, old: Sequence[Any] | None, new: Sequence[Any] | None, lossy: list[Lossy]) -> None:
        """Count what is not known of a row with these cells."""
        lossy += self._counts
        for at, value, what in self.doubts:
            if (new is not None and new[at] == value) or (old is not None and old[at] == value):
                lossy.append(what)

    def with_nulls(self, cells: Sequence[Any] | None) -> Sequence[Any] | None:
        """Return the cells with NULL where a value stands for it."""
        if cells is None or all(cells[at] != value for at, value in self.null_values.items()):
            return cells
        return [
            None if at in self.null_values and cell == self.null_values[at] else cell
            for at, cell in enumerate(cells)
        ]


#: Kinds of numbers of which `-0` has to be kept.
_FLOAT_KINDS: Final = (float, FLOAT32, FLOAT_OR_TEXT, Decimal, SPELT, NUMERIC)


_cells: Final = msgspec.structs.astuple
_MOST_TRIES: Final = 3


def _row_struct(names: list[str], kinds: list[Any]) -> type | None:
    """A struct for rows of these columns, whose parser checks them; None if msgspec has no such names."""
    fields = [(f"c{at}", Any if kind in UNCHECKED else kind | None) for at, kind in enumerate(kinds)]
    renamed = {f"c{at}": name for at, name in enumerate(names)}
    try:
        return msgspec.defstruct("Row", fields, rename=renamed, forbid_unknown_fields=True, gc=False)
    except (ValueError, UnicodeError):
        return None


# ---------------------------------------------------------------- whole messages


class Shape:
    """How messages look whose rows have one layout: what stands around a payload, and a parser for it.

    `payload`: the struct that a payload of rows is, but for its images; it is extended by them, and takes no
    other members, so that nothing is overlooked that the general way reads.
    """

    def __init__(
        self, table: _TableLayouts, layout: Layout, payload: type, around: tuple[bytes, bytes]
    ) -> None:
        self.table, self.layout = table, layout
        self._head, self._tail = around
        self._has_wrapper = bool(self._head)
        row: Any = layout.row
        images = [("before", row | None, None), ("after", row | None, None)]
        whole = msgspec.defstruct("Payload", images, bases=(payload,), forbid_unknown_fields=True, gc=False)
        self._parse: Callable[[bytes], Any] = msgspec.json.Decoder(whole, float_hook=_exact).decode

    def parsed(self, value: bytes) -> Any:  # noqa: ANN401 - a class made at run time
        """Return a message's payload with its images parsed; None if it looks otherwise."""
        if self._has_wrapper:
            head, tail = self._head, self._tail
            if not (value.startswith(head) and value.endswith(tail)):
                return None
            value = value[len(head) : -len(tail)]
        try:
            return self._parse(value)
        except REFUSED:
            return None

    def images(
        self,
        op: Op,
        payload: Any,  # noqa: ANN401 - what `parsed` returns
        known: TableSchema | None,
        value: bytes,
        lossy: list[Lossy],
    ) -> TypedRows | None:
        """Return the images that a row of this operation has, with this definition; its message is `value`.
        None, and nothing lost, if the general way has to read them.
        """
        layout, rows = self.layout, _rows_of(op, payload)
        if rows is None or layout.reader.known is not known:
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
        if may_have_sign and with_negative_zeros(value) is not value:
            return None
        if not layout.is_plain:
            layout.count(old, new, lossy)
        if layout.null_values:
            old, new = layout.with_nulls(old), layout.with_nulls(new)
        if op is _UPDATE and before is None:
            lossy.append(Lossy.BEFORE_UNKNOWN)
        return TypedRows(layout.reader, old, new)


def _rows_of(op: Op, payload: Any) -> tuple[Any, Any] | None:  # noqa: ANN401 - as `Shape.parsed`
    """The rows that an operation has, old and new, whatever else a payload has; None if it lacks its own."""
    before, after = payload.before, payload.after
    if op is _DELETE:
        return None if before is None else (before, None)
    if after is None:
        return None
    return (before, after) if op is _UPDATE else (None, after)


def _shape_of(table: _TableLayouts, layout: Layout, payload: type, value: bytes) -> Shape | None:
    """The shape of a message; None for white space between its parts, or other members than usual."""
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
    """The shape of a topic's messages: a guess, which every message may refute.

    A run of rows with one layout makes it, and it ends with the first message that it does not fit. So where
    tables take turns in one topic, little is tried in vain.
    """

    __slots__ = ("_layout", "_run", "shape")

    def __init__(self) -> None:
        self.shape: Shape | None = None
        self._layout: Layout | None = None
        self._run = 0

    def count(self, table: _TableLayouts, layout: Layout, payload: type, value: bytes) -> None:
        """Count a row that was read without a shape, or that did not fit it."""
        if self.shape is not None:
            # One of this very layout has members in another order, say; the next ones may, too.
            self._run = AT_USE - _PAUSE if self.shape.layout is layout else 0
            self.shape = None
        elif layout is not self._layout:
            self._run = 0
        self._layout = layout
        self._run += 1
        if self._run > AT_USE:
            self.shape = layout.shape(table, payload, value)
            self._run = 0


#: So many rows are read without trying the shape that did not fit.
_PAUSE: Final = 4

# ---------------------------------------------------------------- rows


class RowParts(msgspec.Struct, gc=False):
    """The parts of a row's message, still as JSON: None for an image that it does not have; `value`: all of
    it.
    """

    table: tuple[str, str]
    before: bytes | None
    after: bytes | None
    schema: bytes
    key: bytes | None
    value: bytes


class _TableLayouts(Table[Layout]):
    _dropped: TableSchema | None = None
    _recovered: TableSchema | None = None
    _keyed: TableSchema | None = None
    _key_names: frozenset[str] = frozenset()

    def key_names(self, known: TableSchema, dialect: Dialect) -> frozenset[str]:
        """The columns that the keys of rows with this definition can have."""
        if known is not self._keyed:
            shown = (column.name for column in known.columns if dialect.has_values(column))
            self._keyed, self._key_names = known, frozenset(known.handle_key() or shown)
        return self._key_names

    def definition(self, catalog: Catalog, at: Position) -> TableSchema | None:
        """The catalogue's definition at this position.

        TiCDC has no message for RECOVER TABLE: rows of a dropped table may have the definition that it had,
        here not `complete`.
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


class RowDecoder:
    """Reads rows with layouts that it keeps by table, and messages with shapes that it keeps by topic. Both
    are caches that could be emptied at any time. `payload`: see `Shape`.
    """

    def __init__(
        self, protocol: str, dialect: Dialect, payload: type, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._protocol, self._dialect, self._limits = protocol, dialect, limits
        self._payload = payload
        self._tables = Tables(_TableLayouts, limits.cache_bytes)
        pool = CachePool(limits.cache_bytes)
        self._blocks: ByteCache[bytes, dict[str, DeclaredColumn]] = pool.cache()
        self.topics: ByteCache[str, TopicRows] = pool.cache()

    def read(
        self, message: RowParts, at: Position, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[TableSchema, Images]:
        """Return the row's definition and images. Raises Malformed, or msgspec's errors for broken JSON."""
        table = self._tables[message.table]
        known = table.definition(catalog, at)
        before, after, block = message.before, message.after, message.schema
        for layout in table.kept:
            if layout.reader.known is not known or layout.block != block:
                continue
            if layout.key is not None and not layout.key.is_of(self._dialect.key_of(message.key)):
                continue
            old = None if before is None else layout.cells(before)
            if old is None and before is not None:
                continue  # what is wrong with it is said before anything is of the other image
            new = None if after is None else layout.cells(after)
            if (new is None) is (after is None):
                if layout.key is None and known is not None:
                    self._topic_of(at.topic, layout).count(table, layout, self._payload, message.value)
                layout.count(old, new, lossy)
                if layout.null_values:
                    old, new = layout.with_nulls(old), layout.with_nulls(new)
                return layout.reader.schema, TypedRows(layout.reader, old, new)
        return self._read_generally(message, table, known, lossy)

    def layout(self, table: TableId, reader: TypedReader) -> Layout | None:
        """Return the layout that rows with this reader have, if it is still kept."""
        found = self._tables.get((table.database, table.table))
        return next((layout for layout in found.kept if layout.reader is reader), None) if found else None

    def _topic_of(self, name: str, layout: Layout) -> TopicRows:
        found = self.topics.get(name)
        if found is None:
            # Its layout, and the parser of its shape, may live as long as this.
            size = _LAYOUT_BYTES + _COLUMN_BYTES * len(layout.names) + len(layout.block) + len(name)
            found = self.topics.keep(name, TopicRows(), size)
        return found

    def _read_generally(
        self, message: RowParts, table: _TableLayouts, known: TableSchema | None, lossy: list[Lossy]
    ) -> tuple[TableSchema, Images]:
        old = self._object(message.before, _PARTS.old)
        new = self._object(message.after, _PARTS.new)
        key, dialect = self._dialect.key_of(message.key), self._dialect
        wanted = None if known is None else table.key_names(known, dialect)
        dialect.complete((old, new), key, wanted)
        for part, row in ((_PARTS.old, old), (_PARTS.new, new)):
            if row is not None and not row:
                raise Malformed(self._protocol, part, _NO_COLUMNS)
            check_columns(self._protocol, part, len(row or ()), self._limits)
        layout = _reusable(message, key, table, known, old, new)
        if layout is None:
            layout = self._new_layout(message, key, table, known, old, new)
        layout.count_use()
        old_cells, new_cells = self._fitted(layout, old, _PARTS.old), self._fitted(layout, new, _PARTS.new)
        layout.count(old_cells, new_cells, lossy)
        images = _images(layout.reader, layout.with_nulls(old_cells), layout.with_nulls(new_cells))
        if isinstance(images, Rows) and not layout.reader.is_partial:
            lossy.append(Lossy.COLUMNS_ABSENT)
        return layout.reader.schema, images

    def _new_layout(
        self,
        message: RowParts,
        key: Key,
        table: _TableLayouts,
        known: TableSchema | None,
        old: Object | None,
        new: Object | None,
    ) -> Layout:
        """A layout for rows like this one, kept for the next of them."""
        layout = self._layout(message, key, table, known, old, new)
        # What one row's values look like says nothing of the next one and must not decide how to read it.
        if not layout.is_value_guessed:
            columns = [layout.reader.schema.columns[at] for at in layout.reader.places]
            size = _LAYOUT_BYTES + columns_bytes(columns, _COLUMN_BYTES) + len(layout.block)
            self._tables.keep(table, layout, size, _CACHED_LAYOUTS)
        return layout

    def _object(self, image: bytes | None, part: str) -> Object | None:
        if image is None:
            return None
        try:
            row = _parsed(image)
        except msgspec.ValidationError as error:
            raise Malformed(self._protocol, part, complaint(error)[1]) from error
        if not row:
            raise Malformed(self._protocol, part, _NO_COLUMNS)
        return row

    def _fitted(self, layout: Layout, row: Object | None, part: str) -> list[Any] | None:
        if row is None:
            return None
        cells = layout.fitted(row)
        if cells is None:
            raise Malformed(self._protocol, part, "a column has values of different kinds in the two images")
        return cells

    def _layout(
        self,
        message: RowParts,
        key: Key,
        table: _TableLayouts,
        known: TableSchema | None,
        old: Object | None,
        new: Object | None,
    ) -> Layout:
        """The layout for rows like this one."""
        dialect = self._dialect
        declared, key_block = self._declared(message.schema), None
        values = _merged(old or {}, new or {})
        if declared and not declared.keys() >= values.keys():
            key_block = bytes(key.schema)
            declared = {**declared, **(self._bounded(read_key_block(key_block)) | declared)}
        usable = self._usable(known, declared, values)
        wire_names = {column.name: name for name, column in usable.items()}
        key_names = None if key.payload is None else tuple(key.payload)
        key_use: KeyUse | None = KeyUse(key_names, key_block)
        is_value_guessed = False
        if known is not None and len(usable) == len(values):
            schema = known
            if key_block is None and wire_names.keys() >= table.key_names(known, dialect):
                key_use = None
        else:
            names = dialect.column_names(list(values))
            columns = []
            for name, value in values.items():
                column = usable.get(name) or self._declared_column(names[name], declared.get(name), value)
                is_value_guessed = is_value_guessed or column is None
                column = column or self._guessed_column(names[name], value)
                wire_names[column.name] = name
                columns.append(column)
            if not is_value_guessed:
                # Other messages for which this is kept may have their members in another order.
                place_of = {name: at for at, name in enumerate(declared)}
                columns.sort(
                    key=lambda column: (place_of.get(wire_names[column.name], len(place_of)), column.name)
                )
            primary = None if key_names is None else tuple([names.get(name, name) for name in key_names])
            schema = TableSchema(table.id, tuple(columns), primary_key=primary, complete=False)
        places = [at for at, column in enumerate(schema.columns) if column.name in wire_names]
        in_key = frozenset(schema.handle_key())
        shown = [
            self._layout_column(
                name := wire_names[column.name],
                column,
                declared.get(name),
                values[name],
                is_known=name in usable,
                is_key=column.name in in_key,
            )
            for column in [schema.columns[at] for at in places]
        ]
        hidden = [at for at, column in enumerate(schema.columns) if not dialect.has_values(column)]
        reader = TypedReader(
            self._protocol,
            schema,
            places,
            [column.form.read for column in shown],
            _PARTS,
            known=known,
            tells_types=dialect.tells_types(message.schema),
            hidden=frozenset(hidden),
            key_cell=wire_key_cell,
        )
        return Layout(
            reader,
            shown,
            message.schema,
            key_use,
            is_value_guessed=is_value_guessed,
            unavailable=dialect.unavailable,
        )

    def _layout_column(
        self,
        name: str,
        column: Column,
        declared: DeclaredColumn | None,
        value: object,
        *,
        is_known: bool,
        is_key: bool,
    ) -> LayoutColumn:
        dialect = self._dialect
        form = dialect.form(column, declared, value, is_known=is_known, is_key=is_key)
        doubts = tuple(dialect.doubts(column, form, declared))
        return LayoutColumn(name, form, doubts, dialect.null_value(column, declared))

    def _usable(
        self, known: TableSchema | None, declared: dict[str, DeclaredColumn], values: Object
    ) -> dict[str, Column]:
        """The catalogue's columns that the message does not contradict; all or none for a dropped table."""
        if known is None:
            return {}
        dialect = self._dialect
        columns = dialect.known_columns(known, list(values))
        usable = {
            name: columns[name]
            for name, value in values.items()
            if name in columns and dialect.fits(columns[name], declared.get(name), value)
        }
        if not known.complete and not len(usable) == len(values) == len(columns):
            return {}
        return usable

    def _declared_column(self, name: str, declared: DeclaredColumn | None, value: object) -> Column | None:
        """The column as the block declares it, None if that does not go with the value."""
        if declared is None:
            return None
        column_type = self._dialect.declared_type(declared, value)
        return None if column_type is None else Column(name, column_type, nullable=declared.optional)

    def _guessed_column(self, name: str, value: object) -> Column:
        """The column as its JSON value looks. Raises Malformed for an object or an array that no column has,
        and for such a number.
        """
        if type(value) is Decimal and fitting(float, value) is ABSENT:
            raise Malformed(self._protocol, f"payload.{name}", "a number beyond the range of DOUBLE")
        if value is None or type(value) in _LIKE:
            return Column(name, _LIKE.get(type(value), _LIKE[str]))
        guessed = self._dialect.guessed_type(value)
        if guessed is None:
            raise Malformed(self._protocol, f"payload.{name}", "neither text, number, boolean nor null")
        return Column(name, guessed)

    def _declared(self, block: bytes) -> dict[str, DeclaredColumn]:
        """The columns of a schema block, which is parsed once."""
        found = self._blocks.get(block)
        if found is None:
            columns = self._bounded(read_block(block))
            found = self._blocks.keep(block, columns, _BLOCK_FACTOR * len(block) + _LAYOUT_BYTES)
        return found

    def _bounded(self, columns: dict[str, DeclaredColumn]) -> dict[str, DeclaredColumn]:
        """The columns of a block. Raises LimitExceeded for more labels of ENUM and SET than values may be."""
        if member_count(columns.values()) > self._limits.values:
            raise exceeded(self._protocol, "schema", "labels", "values", self._limits.values)
        return columns


def _images(reader: TypedReader, before: Sequence[Any] | None, after: Sequence[Any] | None) -> Images:
    """The images of these cells; `Rows` if some are absent."""
    if ABSENT not in (before or ()) and ABSENT not in (after or ()):
        return TypedRows(reader, before, after)
    old, new, old_key, new_key = None, None, None, None
    if before is not None:
        old, old_key = reader.row(before, _PARTS.old), reader.wire_key(before)
    if after is not None:
        new, new_key = reader.row(after, _PARTS.new), reader.wire_key(after)
    return Rows(old, new, wire_keys=(old_key, new_key))


def _reusable(
    message: RowParts,
    key: Key,
    table: _TableLayouts,
    known: TableSchema | None,
    old: Object | None,
    new: Object | None,
) -> Layout | None:
    """The layout that was made for such a row before."""
    names = (old or {}).keys() | (new or {}).keys()
    for layout in table.kept:
        if len(layout.names) != len(names):
            continue
        if layout.reader.known is not known or layout.block != message.schema or names != set(layout.names):
            continue
        if layout.key is not None and not layout.key.is_of(key):
            continue
        if all(row is None or layout.fitted(row) is not None for row in (old, new)):
            return layout
    return None


def _merged(old: Object, new: Object) -> Object:
    """The columns of both images, each with the value that tells more of its type."""
    return {name: _telling(old.get(name), new.get(name)) for name in {**new, **old}}


def _telling(old: object, new: object) -> object:
    """The value that tells more: any rather than NULL; a fraction rather than a whole number, which fits its
    type as well; and rather than a number a text that stands for none.
    """
    if new is None or is_no_number(old):
        return old
    return old if type(old) is Decimal and type(new) is int else new
