"""Rows of TiCDC's Debezium JSON, read: `before` and `after` as JSON objects, and the definition to read with.

Contract: `RowDecoder` keeps layouts by table. A row whose columns and types are those of a message before is
parsed in one step into a struct that was compiled for them (`Layout`). Everything else takes the general way:
it takes the catalogue's definition as far as the message does not contradict it, else what the schema block
says, else what the JSON values look like, and makes a layout for the next message.
"""

from __future__ import annotations

import functools
import math
import operator
import re
import sys
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.debezium.defaults import null_default, zero_is_null
from relay.codecs.debezium.envelope import key_names, key_of
from relay.codecs.debezium.schema import (
    DeclaredColumn,
    agrees,
    counts_micros,
    guessed_type,
    member_count,
    read_block,
    read_key_block,
    ticdc_field,
)
from relay.codecs.debezium.value_writing import ValueWriter
from relay.codecs.debezium.values import read_bits, scaled, unsigned64
from relay.codecs.losses import Lossy
from relay.codecs.wire.base64_text import read_base64
from relay.codecs.wire.caches import ByteCache, CachePool, columns_bytes
from relay.codecs.wire.compiled import is_due
from relay.codecs.wire.debezium_temporal import date_text, datetime_text, time_text, timestamp_text
from relay.codecs.wire.lenient_json import complaint, with_negative_zeros
from relay.codecs.wire.rows import PartNames, Read, Table, Tables, TypedReader, TypedRows
from relay.errors import Malformed
from relay.limits import DEFAULT_LIMITS, Limits, check_columns, exceeded
from relay.model import (
    ABSENT,
    Column,
    ColumnType,
    Generated,
    Images,
    Position,
    Rows,
    TableSchema,
)
from relay.mysql.members import label_reader
from relay.mysql.numbers import BEYOND_FLOAT
from relay.mysql.types import BINARIES

_PARTS: Final = PartNames(deleted="payload.before", old="payload.before", new="payload.after")
#: Layouts of one table's rows that are kept ready: versions of the definition, selections of columns,
#: guesses.
_CACHED_LAYOUTS: Final = 32
#: What a layout takes, by column and beside, with the functions of an encoder that write its rows, and what a
#: byte of a schema block takes when it is parsed (measured with CPython 3.11).
_LAYOUT_BYTES: Final = 12_000
_COLUMN_BYTES: Final = 1_900
_BLOCK_FACTOR: Final = 5


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


def read_of(column_type: ColumnType, *, is_known: bool, is_key: bool = False) -> Read | None:
    """Return how a value in TiCDC's dialect becomes canonical; None if it is.

    `is_known`: the type has its parameters. Else fractions of seconds get the digits that they need.
    `is_key`: the column is one of its table's key; a DECIMAL may then be text.
    """
    base, length = column_type.base, column_type.length
    digits = length if is_known else None
    if base == "bigint" and column_type.unsigned:
        return unsigned64
    if base == "decimal":
        scale = column_type.scale
        return (lambda spelt: scaled(scale, Decimal(spelt))) if is_key else functools.partial(scaled, scale)
    if base == "bit":
        return int if length == 1 else read_bits
    if base in BINARIES:
        return read_base64
    if base == "datetime":
        unit_micros = 1 if counts_micros(column_type) else 1000
        return lambda count: datetime_text(count * unit_micros, digits)
    if base == "timestamp":
        return lambda iso: timestamp_text(iso, digits)
    if base == "time":
        return lambda micros: time_text(micros, digits)
    return date_text if base == "date" else label_reader(column_type, has_escapes=True)


def wire_key_cell(cell: str | float | Decimal | None) -> str | int | None:
    """Return a cell of a key (`Images.wire_key`) as it is whatever is known of its column.

    Of a number, only the shortest digits count: what JSON has as a number is an integer, a float or a
    decimal, as the column's type says and, where nobody knows it, as the number itself looks.
    """
    if cell is None or isinstance(cell, str | int):
        return cell
    number = cell if isinstance(cell, Decimal) else Decimal(repr(cell))
    if not number.is_finite():
        return str(number)
    if number.adjusted() <= sys.float_info.max_10_exp and number == number.to_integral_value():
        return int(number)
    return repr(float(number))


#: A number that 32 bits can hold, which msgspec checks as it parses.
_Float32: Any = Annotated[float, msgspec.Meta(gt=-BEYOND_FLOAT, lt=BEYOND_FLOAT)]
#: The Python types of JSON values, by Connect type.
_KINDS: Final[dict[str, Any]] = {
    "boolean": bool, "int8": int, "int16": int, "int32": int, "int64": int,
    "float": _Float32, "double": float,
}  # fmt: skip


class _Spelt:
    """The kind of a DECIMAL in a key, of which text stays text: `wire_key_cell` needs what the message says,
    and not what the column's type makes of it.
    """


#: What a column is whose only evidence is a JSON value (`bool` is Python's subclass of `int`).
_LIKE: Final[dict[type, ColumnType]] = {
    bool: ColumnType("bit", length=1),
    int: ColumnType("bigint"),
    Decimal: ColumnType("double"),
    str: ColumnType("varchar"),
}


def _kind_of(column_type: ColumnType, *, is_key: bool = False) -> Any:  # noqa: ANN401 - a type
    """The Python type of the column's JSON values; DECIMAL is a number whose digits are kept."""
    if column_type.base == "decimal":
        return _Spelt if is_key else Decimal
    return _KINDS.get(ticdc_field(column_type).type, str)


def _fitting(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value as its column's kind; ABSENT if it cannot be one. Takes what a layout's parser takes: text
    for a DECIMAL, too.
    """
    if value is None or type(value) is kind:
        return value
    if kind is _Spelt or kind is _Float32:
        return _narrower(kind, value)
    if kind is float and type(value) in {int, Decimal}:
        try:
            number = float(value)
        except OverflowError:
            return ABSENT
        return number if math.isfinite(number) else ABSENT
    if kind is int and type(value) is Decimal and value.is_zero() and value.is_signed():
        return 0  # `with_negative_zeros` has made it of `-0`
    if kind is Decimal and type(value) in {int, str}:
        try:
            return Decimal(value)
        except InvalidOperation:
            return ABSENT
    return ABSENT


def _narrower(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if kind is _Spelt:
        number = _fitting(Decimal, value)
        return value if type(value) is str and number is not ABSENT else number
    number = _fitting(float, value)
    return number if number is not ABSENT and abs(number) < BEYOND_FLOAT else ABSENT


# ---------------------------------------------------------------- layouts


class KeyUse(msgspec.Struct, frozen=True):
    """What a layout took from its message's key: the names of its columns (None: it had no usable key), and
    its schema block, None where no column's type rests on that.
    """

    names: tuple[str, ...] | None
    block: bytes | None

    def is_of(self, key: bytes | None) -> bool:
        """Whether another message's key says the same."""
        found = key_of(key)
        names = None if found.payload is None else tuple(found.payload)
        return names == self.names and (self.block is None or self.block == bytes(found.schema))


class Layout:
    """Rows with exactly these columns of one table version. Compiled when some rows have had it.

    `block`: the schema block of the message that it was made for; `key`: what its key said, None where that
    does not matter. `is_value_guessed`: nothing but JSON values tells the types of some columns.
    """

    def __init__(
        self, reader: TypedReader, block: bytes, key: KeyUse | None, *, is_value_guessed: bool
    ) -> None:
        self.reader, self.block, self.key, self.is_value_guessed = reader, block, key, is_value_guessed
        columns = [reader.schema.columns[at] for at in reader.places]
        self.names = [column.name for column in columns]
        in_key = frozenset(reader.schema.handle_key())
        self._kinds = [_kind_of(column.type, is_key=column.name in in_key) for column in columns]
        self._has_floats = not {float, _Float32, Decimal, _Spelt}.isdisjoint(self._kinds)
        self._spelt = [at for at, kind in enumerate(self._kinds) if kind is _Spelt]
        self._parse: Any = None
        self._cells: Any = None
        self._uses = 0
        self._ambiguous = list(self._ambiguities(columns))
        counts = {
            Lossy.SCHEMA_GUESSED: reader.is_guessed,
            Lossy.VALUE_GUESSED: is_value_guessed,
            Lossy.COLUMNS_ABSENT: reader.is_partial,
        }
        self._counts = [what for what, is_counted in counts.items() if is_counted]
        #: Columns in which 0 stands for NULL.
        self.zero_nulls = frozenset(at for at, column in enumerate(columns) if zero_is_null(column))

    def count_use(self) -> None:
        """Count a row that was read in the general way; after some, compile."""
        self._uses += 1
        if is_due(self._uses):
            self._parse, self._cells = _compiled(self.names, self._kinds)

    def cells(self, image: bytes) -> Sequence[Any] | None:
        """Return the image's cells; None if columns or kinds of values differ, or nothing is compiled. Raises
        for what is no JSON.
        """
        if self._parse is None:
            return None
        if self._has_floats:
            image = with_negative_zeros(image)
        try:
            parsed = self._parse(image)
        except msgspec.ValidationError:
            return None
        cells: Sequence[Any] = self._cells(parsed)
        return self._with_spelt(cells) if self._spelt else cells

    def _with_spelt(self, cells: Sequence[Any]) -> Sequence[Any] | None:
        """The cells, of which DECIMALs of a key were parsed as anything; None if one does not fit."""
        fitted = list(cells)
        for at in self._spelt:
            fitted[at] = _fitting(_Spelt, cells[at])
        return None if ABSENT in fitted else fitted

    def fitted(self, row: dict[str, Any]) -> list[Any] | None:
        """Return the cells of a parsed image, ABSENT if missing; None if a column or value does not fit."""
        if not row.keys() <= set(self.names):
            return None
        cells = []
        for name, kind in zip(self.names, self._kinds, strict=True):
            cell = ABSENT
            if name in row:
                cell = _fitting(kind, row[name])
                if cell is ABSENT:
                    return None
            cells.append(cell)
        return cells

    def count(self, old: Sequence[Any] | None, new: Sequence[Any] | None, lossy: list[Lossy]) -> None:
        """Count what is not known of a row with these cells."""
        lossy += self._counts
        for at, value, what in self._ambiguous:
            if (new is not None and new[at] == value) or (old is not None and old[at] == value):
                lossy.append(what)

    def with_nulls(self, cells: Sequence[Any] | None) -> Sequence[Any] | None:
        """Return the cells with NULL where 0 stands for it."""
        if cells is None or all(cells[at] != 0 for at in self.zero_nulls):
            return cells
        return [None if at in self.zero_nulls and cell == 0 else cell for at, cell in enumerate(cells)]

    def _ambiguities(self, columns: list[Column]) -> Iterator[tuple[int, Any, Lossy]]:
        """Where one wire value means two: the default or NULL, 1970-01-01 or a date not in the calendar."""
        values = ValueWriter()
        for at, (column, kind) in enumerate(zip(columns, self._kinds, strict=True)):
            default = null_default(column, values.of(column))
            if default is not None:
                value = _fitting(kind, msgspec.json.decode(msgspec.json.encode(default)))
                yield at, value, Lossy.NULL_OR_DEFAULT
            elif column.nullable is False and column.type.base in {"date", "datetime"}:
                yield at, 0, Lossy.EPOCH_OR_ZERO_DATE


def _compiled(names: list[str], kinds: list[Any]) -> tuple[Any, Any]:
    """A parser for rows of these columns and a getter of cells; None if msgspec cannot have such names."""
    fields = [(f"c{at}", Any if kind is _Spelt else kind | None) for at, kind in enumerate(kinds)]
    renamed = {f"c{at}": name for at, name in enumerate(names)}
    try:
        row = msgspec.defstruct("Row", fields, rename=renamed, forbid_unknown_fields=True, gc=False)
    except (ValueError, UnicodeError):
        return None, None
    parse = msgspec.json.Decoder(row, float_hook=_exact).decode
    if len(fields) == 1:
        return parse, lambda parsed: (parsed.c0,)
    return parse, operator.attrgetter(*renamed)


# ---------------------------------------------------------------- rows


class RowParts(msgspec.Struct, gc=False):
    """The parts of a row's message, still as JSON: None for an image that it does not have."""

    table: tuple[str, str]
    before: bytes | None
    after: bytes | None
    schema: bytes
    key: bytes | None


#: The columns of an image that was parsed without a layout.
_Object = dict[str, Any]


class _TableLayouts(Table[Layout]):
    _dropped: TableSchema | None = None
    _recovered: TableSchema | None = None
    _keyed: TableSchema | None = None
    _key_names: frozenset[str] = frozenset()

    def key_names(self, known: TableSchema) -> frozenset[str]:
        """The columns that the keys of rows with this definition can have."""
        if known is not self._keyed:
            shown = (column.name for column in known.columns if column.generated is not Generated.VIRTUAL)
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
    """Reads rows with layouts that it keeps by table. They are a cache that could be emptied at any time."""

    def __init__(self, protocol: str, limits: Limits = DEFAULT_LIMITS) -> None:
        self._protocol, self._limits = protocol, limits
        self._tables = Tables(_TableLayouts, limits.cache_bytes)
        self._blocks: ByteCache[bytes, dict[str, DeclaredColumn]] = CachePool(limits.cache_bytes).cache()

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
            if layout.key is not None and not layout.key.is_of(message.key):
                continue
            old = None if before is None else layout.cells(before)
            new = None if after is None else layout.cells(after)
            if (old is None) is (before is None) and (new is None) is (after is None):
                layout.count(old, new, lossy)
                if layout.zero_nulls:
                    old, new = layout.with_nulls(old), layout.with_nulls(new)
                return layout.reader.schema, TypedRows(layout.reader, old, new)
        return self._read_generally(message, table, known, lossy)

    def _read_generally(
        self, message: RowParts, table: _TableLayouts, known: TableSchema | None, lossy: list[Lossy]
    ) -> tuple[TableSchema, Images]:
        old = None if message.before is None else self._object(message.before, _PARTS.old)
        new = None if message.after is None else self._object(message.after, _PARTS.new)
        _add_key((old, new), message.key, None if known is None else table.key_names(known))
        for part, row in ((_PARTS.old, old), (_PARTS.new, new)):
            check_columns(self._protocol, part, len(row or ()), self._limits)
        layout = _reusable(message, table, known, old, new)
        if layout is None:
            layout = self._layout(message, table, known, old, new)
            # What one row's values look like says nothing of the next one and must not decide how to read it.
            if not layout.is_value_guessed:
                columns = [layout.reader.schema.columns[at] for at in layout.reader.places]
                size = _LAYOUT_BYTES + columns_bytes(columns, _COLUMN_BYTES) + len(layout.block)
                self._tables.keep(table, layout, size, _CACHED_LAYOUTS)
        layout.count_use()
        old_cells, new_cells = self._fitted(layout, old, _PARTS.old), self._fitted(layout, new, _PARTS.new)
        layout.count(old_cells, new_cells, lossy)
        before, after = layout.with_nulls(old_cells), layout.with_nulls(new_cells)
        reader = layout.reader
        if ABSENT not in (before or ()) and ABSENT not in (after or ()):
            return reader.schema, TypedRows(reader, before, after)
        if not reader.is_partial:
            lossy.append(Lossy.COLUMNS_ABSENT)
        rows = Rows(
            None if before is None else reader.row(before, _PARTS.old),
            None if after is None else reader.row(after, _PARTS.new),
            wire_keys=(
                None if before is None else reader.wire_key(before),
                None if after is None else reader.wire_key(after),
            ),
        )
        return reader.schema, rows

    def _object(self, image: bytes, part: str) -> _Object:
        try:
            row = _parsed(image)
        except msgspec.ValidationError as error:
            raise Malformed(self._protocol, part, complaint(error)[1]) from error
        if not row:
            raise Malformed(self._protocol, part, "a row without columns")
        return row

    def _fitted(self, layout: Layout, row: _Object | None, part: str) -> list[Any] | None:
        cells = None if row is None else layout.fitted(row)
        if row is not None and cells is None:
            raise Malformed(self._protocol, part, "a column has values of different kinds in the two images")
        return cells

    def _layout(
        self,
        message: RowParts,
        table: _TableLayouts,
        known: TableSchema | None,
        old: _Object | None,
        new: _Object | None,
    ) -> Layout:
        """The layout for rows like this one."""
        declared, key_block = self._declared(message.schema), None
        values = _merged(old or {}, new or {})
        if declared and not declared.keys() >= values.keys():
            key_block = bytes(key_of(message.key).schema)
            declared = {**declared, **(self._bounded(read_key_block(key_block)) | declared)}
        usable = _usable(known, declared, values)
        names = key_names(message.key)
        key: KeyUse | None = KeyUse(names, key_block)
        is_value_guessed = False
        if known is not None and len(usable) == len(values):
            schema = known
            if key_block is None and values.keys() >= table.key_names(known):
                key = None
        else:
            columns = []
            for name, value in values.items():
                column = usable.get(name) or _declared_column(declared.get(name), value)
                is_value_guessed = is_value_guessed or column is None
                columns.append(column or self._guessed_column(name, value))
            if not is_value_guessed:
                # Other messages for which this is kept may have their members in another order.
                place_of = {name: at for at, name in enumerate(declared)}
                columns.sort(key=lambda column: (place_of.get(column.name, len(place_of)), column.name))
            schema = TableSchema(table.id, tuple(columns), primary_key=names, complete=False)
        places = [at for at, column in enumerate(schema.columns) if column.name in values]
        shown = [schema.columns[at] for at in places]
        in_key = frozenset(schema.handle_key())
        reads = [
            read_of(column.type, is_known=column.name in usable, is_key=column.name in in_key)
            for column in shown
        ]
        tells_types = b'"tidb_type"' in message.schema
        reader = TypedReader(
            self._protocol,
            schema,
            places,
            reads,
            _PARTS,
            known=known,
            tells_types=tells_types,
            key_cell=wire_key_cell,
        )
        return Layout(reader, message.schema, key, is_value_guessed=is_value_guessed)

    def _guessed_column(self, name: str, value: object) -> Column:
        """The column as its JSON value looks. Raises Malformed for an object or an array, and for a number
        that no column has.
        """
        if type(value) is Decimal and _fitting(float, value) is ABSENT:
            raise Malformed(self._protocol, f"payload.{name}", "a number beyond the range of DOUBLE")
        if value is not None and type(value) not in _LIKE:
            raise Malformed(self._protocol, f"payload.{name}", "neither text, number, boolean nor null")
        return Column(name, _LIKE.get(type(value), _LIKE[str]))

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


def _add_key(images: Sequence[_Object | None], key: bytes | None, wanted: frozenset[str] | None) -> None:
    """Add the key's columns: TiCDC's `column-selectors` may leave them out of rows, but not of the key.

    Old rows have the same key: TiCDC splits an UPDATE that changes it, unless `output-raw-change-event` is
    set as well. `wanted`: the columns that a key of the table can have; None if nobody knows.
    """
    columns = key_of(key).payload or {}
    if wanted is not None:
        columns = {name: value for name, value in columns.items() if name in wanted}
    for image in images:
        if image is not None:
            for name, value in columns.items():
                image.setdefault(name, Decimal(repr(value)) if type(value) is float else value)


def _reusable(
    message: RowParts,
    table: _TableLayouts,
    known: TableSchema | None,
    old: _Object | None,
    new: _Object | None,
) -> Layout | None:
    """The layout that was made for such a row before."""
    names = (old or {}).keys() | (new or {}).keys()
    for layout in table.kept:
        if len(layout.names) != len(names):
            continue
        if layout.reader.known is known and layout.block == message.schema and names == set(layout.names):
            is_of_key = layout.key is None or layout.key.is_of(message.key)
            if is_of_key and all(row is None or layout.fitted(row) is not None for row in (old, new)):
                return layout
    return None


def _merged(old: _Object, new: _Object) -> _Object:
    """The columns of both images, each with the value that tells more of its type."""
    return {name: _telling(old.get(name), new.get(name)) for name in {**new, **old}}


def _telling(old: object, new: object) -> object:
    """Any value rather than NULL, and a fraction rather than a whole number, which fits its type as well."""
    is_wider = type(old) is Decimal and type(new) is int
    return old if new is None or is_wider else new


def _usable(
    known: TableSchema | None, declared: dict[str, DeclaredColumn], values: _Object
) -> dict[str, Column]:
    """The catalogue's columns that the message does not contradict; all or none for a dropped table."""
    if known is None:
        return {}
    columns = {column.name: column for column in known.columns if column.generated is not Generated.VIRTUAL}
    usable = {
        name: columns[name]
        for name, value in values.items()
        if name in columns and _fits(columns[name], declared.get(name), value)
    }
    if not known.complete and not len(usable) == len(values) == len(columns):
        return {}
    return usable


def _declared_column(declared: DeclaredColumn | None, value: object) -> Column | None:
    """The column as the block declares it, None if that does not go with the value."""
    if declared is None:
        return None
    column_type = guessed_type(declared)
    if _fitting(_kind_of(column_type), value) is ABSENT:
        return None
    return Column(declared.field, column_type, nullable=declared.optional)


def _fits(column: Column, declared: DeclaredColumn | None, value: object) -> bool:
    """Whether neither the block nor the value contradicts the catalogue's column."""
    is_agreed = declared is None or agrees(column, declared)
    return is_agreed and _fitting(_kind_of(column.type), value) is not ABSENT
