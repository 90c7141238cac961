"""Rows of TiCDC's Debezium JSON, read: `before` and `after` as JSON objects, and the definition that understands them.

Contract: `RowReaders` is a decoder's cache of layouts by table. A row whose columns and types are those of a message before is
parsed in one step into a struct that was compiled for them (`_Layout`). Everything else takes the general way: it takes the
catalogue's definition as far as the message does not contradict it, else what the schema block says, else what the JSON values look
like, and compiles a layout for the next message.
"""

from __future__ import annotations

import functools
import math
import operator
import re
from collections.abc import Sequence
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs._codec import Lossy
from relay.codecs._debezium_defaults import null_default
from relay.codecs._debezium_schema import SaidColumn, agrees, guessed_type, read_block, read_key_block, ticdc_field
from relay.codecs._debezium_values import (
    date_text,
    datetime_text,
    read_bits,
    read_enum,
    read_set,
    scaled,
    time_text,
    timestamp_text,
    unsigned64,
)
from relay.codecs._debezium_wire import key_names, key_of
from relay.codecs._debezium_writers import ValueWriter
from relay.codecs._json import read_base64
from relay.codecs._rows import PartNames, Read, RowReader, WireImages
from relay.errors import Malformed
from relay.model import ABSENT, Column, ColumnType, Generated, Images, Position, Rows, TableId, TableSchema
from relay.mysql.types import BINARIES

_PARTS: Final = PartNames(deleted="payload.before", old="payload.before", new="payload.after")
#: A bound on what a cache of table versions may hold, for sources that create tables without end.
_CACHED_TABLES: Final = 10_000
#: Layouts of one table's rows that are kept ready: versions of the definition, selections of columns, guesses.
_CACHED_LAYOUTS: Final = 32


def _exact(text: str) -> Decimal:
    """A number with all its digits. Raises ValueError for one that no float can hold."""
    if math.isinf(float(text)):
        raise ValueError("Number out of range")
    return Decimal(text)


_decode_object = msgspec.json.Decoder(dict[str, Any], float_hook=_exact).decode
#: `-0` is an integer to JSON parsers, and so loses its sign.
_NEGATIVE_ZERO: Final = re.compile(rb'(":\s*-0)(?=[\s,}])')

# ---------------------------------------------------------------- values


def read_of(column_type: ColumnType, *, is_known: bool) -> Read | None:
    """How a value in TiCDC's dialect becomes canonical; None if it is.

    `is_known`: the type has its parameters. Else fractions of seconds get the digits that they need.
    """
    base, length = column_type.base, column_type.length
    digits = length if is_known else None
    if base == "bigint" and column_type.unsigned:
        return unsigned64
    if base == "decimal":
        return functools.partial(scaled, column_type.scale)
    if base == "bit":
        return int if length == 1 else read_bits
    if base in BINARIES:
        return read_base64
    if base == "datetime":
        return functools.partial(_read_micros if length is None or length > 3 else _read_millis, digits)
    if base == "timestamp":
        return lambda text: timestamp_text(text, digits)
    if base == "time":
        return lambda count: time_text(count, digits)
    return date_text if base == "date" else _members_read(column_type)


def _read_micros(digits: int | None, count: int) -> str:
    return datetime_text(count, digits)


def _read_millis(digits: int | None, count: int) -> str:
    return datetime_text(count * 1000, digits)


def _members_read(column_type: ColumnType) -> Read | None:
    """Labels as numbers; None for other types and for unknown members, whose labels stay."""
    members = column_type.members
    if members is None:
        return None
    if column_type.base == "enum":
        return functools.partial(read_enum, {label: at for at, label in reversed(list(enumerate(members, 1)))})
    return functools.partial(read_set, {label: 1 << at for at, label in reversed(list(enumerate(members)))})


#: The Python types of JSON values, by Connect type; DECIMAL is a number whose digits are kept.
_KINDS: Final[dict[str, type]] = {
    "boolean": bool, "int8": int, "int16": int, "int32": int, "int64": int, "float": float, "double": float,
}  # fmt: skip
#: What a column is whose only evidence is a JSON value (`bool` is Python's subclass of `int`).
_LIKE: Final[dict[type, ColumnType]] = {
    bool: ColumnType("bit", length=1), int: ColumnType("bigint"), Decimal: ColumnType("double"), str: ColumnType("varchar"),
}  # fmt: skip


def _kind(column_type: ColumnType) -> type:
    return Decimal if column_type.base == "decimal" else _KINDS.get(ticdc_field(column_type).type, str)


def _fitting(kind: type, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value as its column's kind; ABSENT if it cannot be one."""
    if value is None or type(value) is kind:
        return value
    if kind is float and type(value) in {int, Decimal}:
        return float(value)
    if kind is Decimal and type(value) in {int, float}:
        return Decimal(repr(value))
    return ABSENT


# ---------------------------------------------------------------- layouts


class _Layout:
    """Rows with exactly these columns of one table version. Compiled once.

    `block`: the schema block of the message that it was made for; `key`: its key's columns, None where they do not matter.
    """

    def __init__(self, reader: RowReader, block: bytes, key: tuple[str, ...] | None) -> None:
        self.reader, self.block, self.key = reader, block, key
        columns = [reader.schema.columns[at] for at in reader.places]
        self.names = [column.name for column in columns]
        self.kinds = [_kind(column.type) for column in columns]
        self._parse, self._cells = _compiled(self.names, self.kinds)
        self.ambiguous = list(self._ambiguous(columns))

    def cells(self, image: bytes) -> Sequence[Any] | None:
        """The image's cells; None if it has other columns, or values of another kind. Raises for what is no JSON."""
        if b":-0" in image or b": -0" in image:
            image = _NEGATIVE_ZERO.sub(rb"\1.0", image)
        if self._parse is None:
            found = self.fitted(_decode_object(image))
            return None if found is None or ABSENT in found else found
        try:
            parsed = self._parse(image)
        except msgspec.ValidationError:
            return None
        cells: Sequence[Any] = self._cells(parsed)
        return cells

    def fitted(self, row: dict[str, Any]) -> list[Any] | None:
        """The cells of a parsed image, ABSENT for columns that it lacks; None if a column or a value does not fit."""
        cells = []
        for name, kind in zip(self.names, self.kinds, strict=True):
            cell = ABSENT
            if name in row:
                cell = _fitting(kind, row[name])
                if cell is ABSENT:
                    return None
            cells.append(cell)
        return cells if row.keys() <= set(self.names) else None

    def _ambiguous(self, columns: list[Column]) -> Any:  # noqa: ANN401 - pairs and their word
        """Where the wire has one value for two: the default for NULL, 1970-01-01 for a date that is not in the calendar."""
        for at, (column, kind) in enumerate(zip(columns, self.kinds, strict=True)):
            default = null_default(column, ValueWriter(self.reader.protocol).of(column))
            if default is not None:
                value = _fitting(kind, msgspec.json.decode(msgspec.json.encode(default)))
                yield at, value, Lossy.NULL_OR_DEFAULT
            elif column.nullable is False and column.type.base in {"date", "datetime"}:
                yield at, 0, Lossy.EPOCH_OR_ZERO_DATE


def _compiled(names: list[str], kinds: list[type]) -> tuple[Any, Any]:
    """A parser for rows of these columns, and what takes the cells out of a parsed row; None if msgspec cannot have such names."""
    fields = [(f"c{at}", kind | None) for at, kind in enumerate(kinds)]
    renamed = {f"c{at}": name for at, name in enumerate(names)}
    try:
        row = msgspec.defstruct("Row", fields, rename=renamed, forbid_unknown_fields=True, gc=False)
    except (ValueError, UnicodeError):
        return None, None
    parse = msgspec.json.Decoder(row).decode
    if len(fields) == 1:
        return parse, lambda parsed: (parsed.c0,)
    return parse, operator.attrgetter(*renamed)


# ---------------------------------------------------------------- readers


class RowMessage(msgspec.Struct, gc=False):
    """What a row message says, parts still as JSON: None for an image that it does not have."""

    table: tuple[str, str]
    before: bytes | None
    after: bytes | None
    schema: bytes
    key: bytes | None


class _Table:
    """A table's name, the layouts of its rows (the newest first), and what the catalogue said last."""

    def __init__(self, table: TableId) -> None:
        self.id = table
        self.layouts: list[_Layout] = []
        self._catalog: Catalog | None = None
        self._newest_commit_ts: int | None = None
        self._newest: TableSchema | None = None

    def definition(self, catalog: Catalog, at: Position) -> TableSchema | None:
        """The catalogue's definition at this position; most rows are newer than all DDL of their table."""
        if catalog is not self._catalog:
            self._catalog = catalog
            self._newest_commit_ts, self._newest = catalog.newest(self.id)
        newest, commit_ts = self._newest_commit_ts, at.commit_ts
        if newest is not None and commit_ts is not None and commit_ts > newest:
            return self._newest
        return catalog.table(self.id, at)


class RowReaders:
    """A decoder's layouts, by table. It is a cache and could be emptied at any time."""

    def __init__(self, protocol: str) -> None:
        self._protocol = protocol
        self._tables: dict[tuple[str, str], _Table] = {}
        self._blocks: dict[bytes, dict[str, SaidColumn]] = {}

    def read(self, message: RowMessage, at: Position, catalog: Catalog, lossy: list[Lossy]) -> tuple[TableSchema, Images]:
        """The row's definition and images. Raises Malformed, and what msgspec raises for images that are no JSON."""
        table = self._tables.get(message.table) or self._add(message.table)
        known = table.definition(catalog, at)
        before, after, block = message.before, message.after, message.schema
        for layout in table.layouts:
            if layout.reader.known is not known or layout.block != block:
                continue
            if layout.key is not None and layout.key != key_names(message.key):
                continue
            old = None if before is None else layout.cells(before)
            new = None if after is None else layout.cells(after)
            if (old is None) is (before is None) and (new is None) is (after is None):
                _count(layout, old, new, lossy)
                return layout.reader.schema, WireImages(layout.reader, old, new)
        return self._generally(message, table, known, lossy)

    def _generally(
        self, message: RowMessage, table: _Table, known: TableSchema | None, lossy: list[Lossy]
    ) -> tuple[TableSchema, Images]:
        old = None if message.before is None else self._object(message.before, _PARTS.old)
        new = None if message.after is None else self._object(message.after, _PARTS.new)
        _complete((old, new), message.key)
        layout = _reused(message, table, known, old, new)
        if layout is None:
            layout = self._layout(message, table, known, old, new)
            table.layouts = [layout, *table.layouts[: _CACHED_LAYOUTS - 1]]
        cells = [None if row is None else layout.fitted(row) for row in (old, new)]
        for row, found, part in zip((old, new), cells, (_PARTS.old, _PARTS.new), strict=True):
            if row is not None and found is None:
                raise Malformed(self._protocol, part, "a column has values of different kinds in the two images")
        _count(layout, cells[0], cells[1], lossy)
        reader = layout.reader
        if any(ABSENT in found for found in cells if found is not None):
            if not reader.is_partial:
                lossy.append(Lossy.COLUMNS_ABSENT)
            parts = (_PARTS.old, _PARTS.new)
            rows = [None if found is None else reader.row(found, part) for found, part in zip(cells, parts, strict=True)]
            return reader.schema, Rows(rows[0], rows[1])
        return reader.schema, WireImages(reader, cells[0], cells[1])

    def _object(self, image: bytes, part: str) -> dict[str, Any]:
        try:
            row: dict[str, Any] = _decode_object(_NEGATIVE_ZERO.sub(rb"\1.0", image))
        except msgspec.ValidationError as error:
            raise Malformed(self._protocol, part, str(error).partition(" - at ")[0]) from error
        if not row:
            raise Malformed(self._protocol, part, "a row without columns")
        return row

    def _layout(
        self, message: RowMessage, table: _Table, known: TableSchema | None, old: dict[str, Any] | None, new: dict[str, Any] | None
    ) -> _Layout:
        """The layout for rows like this one."""
        said = self._said(message.schema)
        said = {**read_key_block(key_of(message.key).schema), **said} if said else said
        values = {**(old or {}), **(new or {})} if old is None or new is None else _merged(old, new)
        known_columns = {column.name: column for column in known.columns} if known else {}
        fitting = {
            name: column
            for name, value in values.items()
            if (column := known_columns.get(name)) is not None and _fits(column, said.get(name), value)
        }
        if known is not None and len(fitting) == len(values):
            return self._made(known, known, fitting, values, message.schema, None)
        columns = tuple(fitting.get(name) or self._guessed(name, said.get(name), value) for name, value in values.items())
        key = key_names(message.key)
        schema = TableSchema(table.id, columns, primary_key=key, complete=False)
        return self._made(schema, known, fitting, values, message.schema, key)

    def _made(
        self,
        schema: TableSchema,
        known: TableSchema | None,
        fitting: dict[str, Column],
        values: dict[str, Any],
        block: bytes,
        key: tuple[str, ...] | None,
    ) -> _Layout:
        places = [at for at, column in enumerate(schema.columns) if column.name in values]
        columns = [schema.columns[at] for at in places]
        reads = [read_of(column.type, is_known=column.name in fitting) for column in columns]
        return _Layout(RowReader(self._protocol, schema, places, reads, _PARTS, known=known), block, key)

    def _guessed(self, name: str, said: SaidColumn | None, value: object) -> Column:
        """The column as the block has it, else as its value looks."""
        if said is not None:
            column_type = guessed_type(said)
            if value is None or _fitting(_kind(column_type), value) is not ABSENT:
                return Column(name, column_type, nullable=said.optional)
        if value is not None and type(value) not in _LIKE:
            raise Malformed(self._protocol, f"payload.{name}", "neither text, number, boolean nor null")
        return Column(name, _LIKE.get(type(value), _LIKE[str]))

    def _said(self, block: bytes) -> dict[str, SaidColumn]:
        """The columns of a schema block, which is parsed once."""
        found = self._blocks.get(block)
        if found is None:
            if len(self._blocks) >= _CACHED_LAYOUTS:
                self._blocks.clear()
            found = self._blocks[block] = read_block(block)
        return found

    def _add(self, names: tuple[str, str]) -> _Table:
        if len(self._tables) >= _CACHED_TABLES:
            self._tables.clear()
        made = self._tables[names] = _Table(TableId(*names))
        return made


def _complete(images: Sequence[dict[str, Any] | None], key: bytes | None) -> None:
    """Add the key's columns: TiCDC's `column-selectors` may leave them out of rows, but not of the key.

    Old rows have the same key: TiCDC splits an UPDATE that changes it, unless `output-raw-change-event` is set as well.
    """
    columns = key_of(key).payload or {}
    for image in images:
        if image is not None:
            for name, value in columns.items():
                image.setdefault(name, value)


def _reused(
    message: RowMessage, table: _Table, known: TableSchema | None, old: dict[str, Any] | None, new: dict[str, Any] | None
) -> _Layout | None:
    """The layout that was made for such a row before."""
    names = (old or {}).keys() | (new or {}).keys()
    for layout in table.layouts:
        if layout.reader.known is known and layout.block == message.schema and names == set(layout.names):
            is_of_key = layout.key is None or layout.key == key_names(message.key)
            if is_of_key and all(row is None or layout.fitted(row) is not None for row in (old, new)):
                return layout
    return None


def _merged(old: dict[str, Any], new: dict[str, Any]) -> dict[str, Any]:
    """The columns of both images, each with a value that is not NULL if it has one."""
    return {name: old.get(name) if new.get(name) is None else new[name] for name in {**new, **old}}


def _fits(column: Column, said: SaidColumn | None, value: object) -> bool:
    """Whether neither the block nor the value contradicts the catalogue's column."""
    if column.generated is Generated.VIRTUAL or (said is not None and not agrees(column, said)):
        return False
    return _fitting(_kind(column.type), value) is not ABSENT


def _count(layout: _Layout, old: Sequence[Any] | None, new: Sequence[Any] | None, lossy: list[Lossy]) -> None:
    reader = layout.reader
    if reader.is_guessed:
        lossy.append(Lossy.SCHEMA_GUESSED)
    if reader.is_partial:
        lossy.append(Lossy.COLUMNS_ABSENT)
    for at, value, what in layout.ambiguous:
        if (new is not None and new[at] == value) or (old is not None and old[at] == value):
            lossy.append(what)
