"""Reading rows of Debezium JSON: `before` and `after` as JSON objects, and the definition to read them with.

`DebeziumRowDecoder` keeps layouts by table. A row with the columns and types of an earlier message is parsed
in one step (`relay.codecs.debezium.shared.layouts`); in a topic with a run of such rows, so is the message
around it. Everything else takes the general path: it uses the catalog's definition as far as the message does
not contradict it, else the schema block, else the form of the JSON values, and makes a layout for the next
message. The `DebeziumDialect` defines the form of a column's values in a producer's JSON.
"""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.debezium.shared.dialect import DebeziumDialect, Object
from relay.codecs.debezium.shared.json_kinds import fitting, is_no_number, parsed_image, wire_key_cell
from relay.codecs.debezium.shared.layouts import KeyUse, Layout, LayoutColumn, TableLayouts, TopicRows
from relay.codecs.debezium.shared.messages import Key
from relay.codecs.debezium.shared.schema_blocks import Blocks
from relay.codecs.debezium.shared.schemas import (
    DeclaredColumn,
    has_scale,
    member_count,
    read_block,
    read_key_block,
)
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import ByteCache, CachePool, columns_bytes
from relay.codecs.shared.lenient_json import complaint
from relay.codecs.shared.rows import PartNames, TypedReader, TypedRows
from relay.codecs.shared.tables import Tables
from relay.model.errors import Malformed
from relay.model.events import ABSENT, Column, ColumnType, Images, Position, Rows, TableId, TableSchema
from relay.model.limits import DEFAULT_LIMITS, Limits, check_columns, exceeded

_PARTS: Final = PartNames(deleted="payload.before", old="payload.before", new="payload.after")
#: Maximum layouts kept per table: versions of the definition, selections of columns, inferred types.
_CACHED_LAYOUTS: Final = 32
#: Memory of a layout, base and per column, with the functions of an encoder that write its rows, and of a
#: parsed schema block, per byte (measured with CPython 3.11).
_LAYOUT_BYTES: Final = 12_000
_COLUMN_BYTES: Final = 1_900
_BLOCK_FACTOR: Final = 5
_NO_COLUMNS: Final = "a row without columns"
#: The type of a column by its JSON value, if there is no other evidence (`bool` is Python's subclass of
#: `int`).
_LIKE: Final[dict[type, ColumnType]] = {
    bool: ColumnType("bit", length=1),
    int: ColumnType("bigint"),
    Decimal: ColumnType("double"),
    str: ColumnType("varchar"),
}


class RowParts(msgspec.Struct, gc=False):
    """The parts of a row's message, still as JSON: None for an image that it lacks; `value`: all of it. A row
    without images is that of its key.
    """

    table: tuple[str, str]
    before: bytes | None
    after: bytes | None
    schema: bytes
    key: bytes | None
    value: bytes


class _ParsedRow(NamedTuple):
    """A row on the general path: its images, None for one that it lacks, the schema block and the key."""

    old: Object | None
    new: Object | None
    block: bytes
    key: Key

    @property
    def key_names(self) -> tuple[str, ...] | None:
        """Return the names of the key's columns; None if it is no usable key."""
        return None if self.key.payload is None else tuple(self.key.payload)


class _Evidence(NamedTuple):
    """A message's evidence of its columns, by their names in it: values (of two images the more informative
    ones), the declarations of schema blocks, and the columns of the value's own block, if rows have them.
    `key_block`: the key's, None if no column's type depends on it.
    """

    values: Object
    declared: dict[str, DeclaredColumn]
    block: dict[str, DeclaredColumn]
    key_block: bytes | None


class _RowDefinition(NamedTuple):
    """The definition to read a row with, and the names of its columns in the message. `is_value_inferred`:
    the types of some columns come from JSON values alone.
    """

    schema: TableSchema
    wire_names: dict[str, str]
    is_value_inferred: bool = False


class DebeziumRowDecoder:
    """Reads rows with layouts cached by table, and messages with shapes cached by topic. Both caches may be
    emptied at any time. `payload`: see `Shape`.
    """

    def __init__(
        self, protocol: str, dialect: DebeziumDialect, payload: type, limits: Limits = DEFAULT_LIMITS
    ) -> None:
        self._protocol, self._dialect, self._limits = protocol, dialect, limits
        self._payload, self.key_of = payload, dialect.key_of
        self._tables = Tables(TableLayouts, limits.cache_bytes)
        pool = CachePool(limits.cache_bytes)
        self._blocks: ByteCache[bytes, dict[str, DeclaredColumn]] = pool.cache()
        self.topics: ByteCache[str, TopicRows] = pool.cache()
        self.blocks = Blocks(pool)

    def read(
        self, message: RowParts, at: Position, catalog: Catalog, losses: list[Loss]
    ) -> tuple[TableSchema, Images]:
        """Return the row's definition and images. Raises Malformed, or msgspec's errors for broken JSON."""
        table = self._tables[message.table]
        known = table.definition(catalog, at)
        before, after, block = message.before, message.after, message.schema
        for layout in table.kept if before is not None or after is not None else ():
            if layout.reader.known is not known or layout.block != block:
                continue
            if layout.key is not None and not layout.key.is_of(self._dialect.key_of(message.key)):
                continue
            old = None if before is None else layout.cells(before)
            if old is None and before is not None:
                continue  # its errors come before those of the other image
            new = None if after is None else layout.cells(after)
            if (new is None) is (after is None):
                if known is not None:
                    self._topic_of(at.topic, layout).count(table, layout, self._payload, message.value)
                layout.count(old, new, losses)
                if layout.null_values:
                    old, new = layout.with_nulls(old), layout.with_nulls(new)
                return layout.reader.schema, TypedRows(layout.reader, old, new)
        return self._read_generally(message, table, known, losses)

    def layout(self, table: TableId, reader: TypedReader) -> Layout | None:
        """Return the layout of rows with this reader, if it is still kept."""
        found = self._tables.get((table.database, table.table))
        return next((layout for layout in found.kept if layout.reader is reader), None) if found else None

    def _topic_of(self, name: str, layout: Layout) -> TopicRows:
        found = self.topics.get(name)
        if found is None:
            # Its layout, and the parser of its shape, may live as long as this reader.
            size = _LAYOUT_BYTES + _COLUMN_BYTES * len(layout.names) + len(layout.block) + len(name)
            found = self.topics.keep(name, TopicRows(), size)
        return found

    def _read_generally(
        self, message: RowParts, table: TableLayouts, known: TableSchema | None, losses: list[Loss]
    ) -> tuple[TableSchema, Images]:
        old = self._object(message.before, _PARTS.old)
        new = self._object(message.after, _PARTS.new)
        key, dialect = self._dialect.key_of(message.key), self._dialect
        if old is None and new is None:
            old = self._key_image(key, known, message.schema)
        wanted = None if known is None else table.key_names(known, dialect)
        named = _names(old, new)
        dialect.complete((old, new), key, wanted)
        has_unavailable = not named <= _names(old, new)
        for part, image in ((_PARTS.old, old), (_PARTS.new, new)):
            if image is not None and not image:
                raise Malformed(self._protocol, part, _NO_COLUMNS)
            check_columns(self._protocol, part, len(image or ()), self._limits)
        row = _ParsedRow(old, new, message.schema, key)
        layout = _reusable(row, table, known) or self._new_layout(row, table, known)
        layout.count_use()
        old_cells, new_cells = self._fitted(layout, old, _PARTS.old), self._fitted(layout, new, _PARTS.new)
        layout.count(old_cells, new_cells, losses)
        images = _images(layout.reader, layout.with_nulls(old_cells), layout.with_nulls(new_cells))
        if (has_unavailable or isinstance(images, Rows)) and not layout.reader.is_partial:
            losses.append(Loss.COLUMNS_ABSENT)
        return layout.reader.schema, images

    def _new_layout(self, row: _ParsedRow, table: TableLayouts, known: TableSchema | None) -> Layout:
        """Return a layout for rows like this one, kept for the next of them."""
        layout = self._layout(row, table, known)
        # The form of one row's values must not decide how to read the next one.
        if not layout.is_value_inferred:
            columns = [layout.reader.schema.columns[at] for at in layout.reader.indexes]
            size = _LAYOUT_BYTES + columns_bytes(columns, _COLUMN_BYTES) + len(layout.block)
            self._tables.keep(table, layout, size, _CACHED_LAYOUTS)
        return layout

    def _object(self, image: bytes | None, part: str) -> Object | None:
        if image is None:
            return None
        try:
            row = parsed_image(image)
        except msgspec.ValidationError as error:
            raise Malformed(self._protocol, part, complaint(error)[1]) from None
        if not row:
            raise Malformed(self._protocol, part, _NO_COLUMNS)
        return row

    def _key_image(self, key: Key, known: TableSchema | None, block: bytes) -> Object:
        """Return the row of a key: its fields that are columns. Raises Malformed if there are none."""
        fields = {} if not key.payload else parsed_image(msgspec.json.encode(key.payload))
        columns: Container[str] = fields.keys() - self._dialect.added_key_fields
        if known is not None:
            columns = self._dialect.known_columns(known, list(fields))
        elif declared := self._declared(block):
            columns = declared
        row = {name: value for name, value in fields.items() if name in columns}
        if not row:
            raise Malformed(self._protocol, _PARTS.old, "a row message without a row")
        return row

    def _fitted(self, layout: Layout, row: Object | None, part: str) -> list[Any] | None:
        if row is None:
            return None
        cells = layout.fitted(row)
        if cells is None:
            raise Malformed(self._protocol, part, "a column has values of different kinds in the two images")
        return cells

    def _layout(self, row: _ParsedRow, table: TableLayouts, known: TableSchema | None) -> Layout:
        """Return the layout for rows like this one."""
        evidence = self._evidence(row)
        usable = self._usable(known, evidence)
        key_use: KeyUse | None = self._key_use(row, evidence, known)
        if known is not None and len(usable) == len(evidence.values):
            wire_names = {column.name: name for name, column in usable.items()}
            schema, wanted = known, table.key_names(known, self._dialect)
            if self._dialect.reads_keys:
                schema = _with_message_key(known, row.key_names, usable)
            elif evidence.key_block is None and wire_names.keys() >= wanted:
                key_use = None
            definition = _RowDefinition(schema, wire_names)
        else:
            definition = self._inferred_definition(row, table.id, evidence, usable)
        schema = definition.schema
        indexes = [at for at, column in enumerate(schema.columns) if column.name in definition.wire_names]
        shown = self._layout_columns(definition, indexes, evidence, usable)
        reader = self._reader(schema, indexes, shown, row, known)
        return Layout(
            reader,
            shown,
            row.block,
            key_use,
            is_value_inferred=definition.is_value_inferred,
            unavailable=self._dialect.unavailable,
        )

    def _key_use(self, row: _ParsedRow, evidence: _Evidence, known: TableSchema | None) -> KeyUse:
        """Return the layout's facts of the key, whose fields may not be columns of the table."""
        foreign = set(row.key_names or ()) - evidence.values.keys() - evidence.block.keys()
        if foreign and known is not None:
            foreign -= self._dialect.known_columns(known, [*evidence.values]).keys()
        return KeyUse(row.key_names, evidence.key_block, bool(foreign) and self._dialect.reads_keys)

    def _evidence(self, row: _ParsedRow) -> _Evidence:
        """Return the message's evidence. The key's block is read if the other declares too little."""
        values = _merged(row.old or {}, row.new or {})
        declared = self._declared(row.block)
        block = declared if self._dialect.has_whole_rows else {}
        if not declared or declared.keys() >= values.keys():
            return _Evidence(values, declared, block, None)
        key_block = bytes(row.key.schema)
        in_key = self._bounded(read_key_block(key_block))
        return _Evidence(values, {**declared, **in_key, **declared}, block, key_block)

    def _inferred_definition(
        self, row: _ParsedRow, table: TableId, evidence: _Evidence, usable: Mapping[str, Column]
    ) -> _RowDefinition:
        """Return the definition that a message declares: its columns, and those of its block."""
        names = self._dialect.column_names(
            [*evidence.values, *(evidence.block.keys() - evidence.values.keys())]
        )
        columns, wire_names, is_value_inferred = {}, {}, False
        for name, value in evidence.values.items():
            column = usable.get(name) or self._declared_column(
                names[name], evidence.declared.get(name), value
            )
            if column is None:
                is_value_inferred = True
                column = self._inferred_column(names[name], value)
            wire_names[column.name] = name
            columns[name] = column
        for name, declared in evidence.block.items():
            if name not in columns and (column := self._declared_column(names[name], declared, None)):
                columns[name] = column
        if not is_value_inferred:
            # Other messages for which this is kept may have their members in another order.
            index_of = {name: at for at, name in enumerate(evidence.declared)}
            columns = dict(
                sorted(columns.items(), key=lambda each: (index_of.get(each[0], len(index_of)), each[1].name))
            )
        primary_key = None
        if row.key_names is not None:
            primary_key = tuple([columns[name].name for name in row.key_names if name in columns]) or None
        schema = TableSchema(table, tuple(columns.values()), primary_key=primary_key, complete=False)
        return _RowDefinition(schema, wire_names, is_value_inferred)

    def _layout_columns(
        self,
        definition: _RowDefinition,
        indexes: Sequence[int],
        evidence: _Evidence,
        usable: Mapping[str, Column],
    ) -> list[LayoutColumn]:
        """Return the form of the values of a message's columns."""
        schema = definition.schema
        in_key = frozenset(schema.handle_key())
        found = []
        for at in indexes:
            column = schema.columns[at]
            name = definition.wire_names[column.name]
            declared, value = evidence.declared.get(name), evidence.values[name]
            is_key = column.name in in_key
            found.append(
                self._layout_column(name, column, declared, value, is_known=name in usable, is_key=is_key)
            )
        return found

    def _reader(
        self,
        schema: TableSchema,
        indexes: Sequence[int],
        shown: Sequence[LayoutColumn],
        row: _ParsedRow,
        known: TableSchema | None,
    ) -> TypedReader:
        dialect = self._dialect
        hidden = [at for at, column in enumerate(schema.columns) if not dialect.has_values(column)]
        return TypedReader(
            self._protocol,
            schema,
            indexes,
            [column.form.read for column in shown],
            _PARTS,
            known=known,
            declares_types=dialect.declares_types(row.block),
            hidden=frozenset(hidden),
            key_cell=wire_key_cell,
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

    def _usable(self, known: TableSchema | None, evidence: _Evidence) -> dict[str, Column]:
        """Return the catalog's columns that agree with the message; all or none for a dropped table."""
        if known is None:
            return {}
        dialect, values = self._dialect, evidence.values
        columns = dialect.known_columns(known, list(values))
        usable = {
            name: columns[name]
            for name, value in values.items()
            if name in columns and dialect.fits(columns[name], evidence.declared.get(name), value)
        }
        if not known.complete and not len(usable) == len(values) == len(columns):
            return {}
        return usable

    def _declared_column(self, name: str, declared: DeclaredColumn | None, value: object) -> Column | None:
        """Return the column as the block declares it, None if the value contradicts it."""
        if declared is None:
            return None
        column_type = self._dialect.declared_type(declared, value)
        return None if column_type is None else Column(name, column_type, nullable=declared.optional)

    def _inferred_column(self, name: str, value: object) -> Column:
        """Return the column inferred from its JSON value. Raises Malformed for an object or an array that no
        column has, and for such a number.
        """
        if type(value) is Decimal and fitting(float, value) is ABSENT:
            raise Malformed(self._protocol, f"payload.{name}", "a number beyond the range of DOUBLE")
        if value is None or type(value) in _LIKE:
            return Column(name, _LIKE.get(type(value), _LIKE[str]))
        inferred = self._dialect.inferred_type(value)
        if inferred is None:
            raise Malformed(self._protocol, f"payload.{name}", "neither text, number, boolean nor null")
        return Column(name, inferred)

    def _declared(self, block: bytes) -> dict[str, DeclaredColumn]:
        """Return the columns of a schema block, which is parsed once."""
        found = self._blocks.get(block)
        if found is None:
            columns = self._bounded(read_block(block))
            found = self._blocks.keep(block, columns, _BLOCK_FACTOR * len(block) + _LAYOUT_BYTES)
        return found

    def _bounded(self, columns: dict[str, DeclaredColumn]) -> dict[str, DeclaredColumn]:
        """Return the columns of a block. Raises LimitExceeded for more labels of ENUM and SET than the limit
        of values, Malformed for a Decimal with an invalid scale.
        """
        if member_count(columns.values()) > self._limits.values:
            raise exceeded(self._protocol, "schema", "labels", "values", self._limits.values)
        if not all(map(has_scale, columns.values())):
            raise Malformed(self._protocol, "schema", "a Decimal whose scale is not a number from 0 to 999")
        return columns


def _names(old: Object | None, new: Object | None) -> set[str]:
    """Return the columns of a row's images."""
    return {*(old or ()), *(new or ())}


def _with_message_key(
    known: TableSchema, key: tuple[str, ...] | None, usable: Mapping[str, Column]
) -> TableSchema:
    """Return the definition; for a table without a key, with the messages' key (`message.key.columns`)."""
    columns = [usable[name].name for name in key or () if name in usable]
    if not columns or known.handle_key():
        return known
    return msgspec.structs.replace(known, primary_key=tuple(columns))


def _images(reader: TypedReader, before: Sequence[Any] | None, after: Sequence[Any] | None) -> Images:
    """Return the images of these cells; `Rows` if some are absent."""
    if ABSENT not in (before or ()) and ABSENT not in (after or ()):
        return TypedRows(reader, before, after)
    old, new, old_key, new_key = None, None, None, None
    if before is not None:
        old, old_key = reader.row(before, _PARTS.old), reader.raw_key(before)
    if after is not None:
        new, new_key = reader.row(after, _PARTS.new), reader.raw_key(after)
    return Rows(old, new, wire_keys=(old_key, new_key))


def _reusable(row: _ParsedRow, table: TableLayouts, known: TableSchema | None) -> Layout | None:
    """Return the layout that was made for such a row before."""
    names = (row.old or {}).keys() | (row.new or {}).keys()
    for layout in table.kept:
        if len(layout.names) != len(names):
            continue
        if layout.reader.known is not known or layout.block != row.block or names != set(layout.names):
            continue
        if layout.key is not None and not layout.key.is_of(row.key):
            continue
        if all(image is None or layout.fitted(image) is not None for image in (row.old, row.new)):
            return layout
    return None


def _merged(old: Object, new: Object) -> Object:
    """Return the columns of both images, each with the value that is more informative about its type."""
    return {name: _telling(old.get(name), new.get(name)) for name in {**new, **old}}


def _telling(old: object, new: object) -> object:
    """Return the more informative value: any over NULL; a fraction over a whole number, which fits its type
    as well; and a text that stands for a non-number over a number.
    """
    if new is None or is_no_number(old):
        return old
    return old if type(old) is Decimal and type(new) is int else new
