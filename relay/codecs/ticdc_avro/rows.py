"""Reading rows of TiCDC Avro: the definition from a schema or the catalog, and a row's cells.

A `Layout` is made of the schemas of a message's key and value and of the catalog's definition, and cached;
reading a row then only takes its cells. Columns with names that Avro does not allow get their names in the
definition back.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import tzinfo
from operator import itemgetter
from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.shared.avro import AvroSchema, Part
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.checksums import row_checksum
from relay.codecs.shared.rows import PartialRows, PartNames, TypedReader, TypedRows
from relay.codecs.shared.unknown_members import Unknown
from relay.codecs.ticdc_avro.values import (
    NAME,
    Modes,
    declared_default,
    field_type,
    form_of,
    form_of_field,
    is_known_field,
    read_of,
    read_wrapped,
    sanitized,
)
from relay.model.avro_types import AvroField, AvroType
from relay.model.errors import UnsupportedMessage
from relay.model.events import ABSENT, Column, ColumnType, Generated, Images, Position, TableId, TableSchema
from relay.model.limits import Limits, check_columns

BEFORE, OP = "_ticdc_before", "_tidb_op"
COMMIT_TS, TIME = "_tidb_commit_ts", "_tidb_commit_physical_time"
CHECKSUM, CORRUPTED, CHECKSUM_TYPE = "_tidb_row_level_checksum", "_tidb_corrupted", "_tidb_checksum_version"
#: Fields that TiCDC adds to the columns.
ADDED: Final = frozenset({BEFORE, OP, COMMIT_TS, TIME, CHECKSUM, CORRUPTED, CHECKSUM_TYPE})
_CLASHING_BYTES: Final = 500
_UNKNOWN_BYTES: Final = 500
_TABLE_BYTES: Final = 500
_PARTS: Final = PartNames(deleted="value", old=f"value.{BEFORE}", new="value")
#: Memory of a layout besides its schemas, and per column, with the functions of an encoder that write its
#: rows.
_LAYOUT_BYTES: Final = 12_000
_COLUMN_BYTES: Final = 2_500
_ALL_MODES: Final = (Modes(), Modes(has_decimal_text=True, has_bigint_text=True))

Cells = tuple[Any, ...]


class Layout:
    """Converts rows of one schema to canonical form. `is_key`: they have the columns of the key alone.

    names, kinds: The fields of the cells, and Avro's types of those that are not null.
    unsigned: Fields of `long` that stand for unsigned numbers.
    """

    def __init__(
        self,
        schema: TableSchema,
        fields: Sequence[tuple[AvroField, int]],
        zone: tzinfo,
        known: TableSchema | None,
        *,
        is_key: bool,
    ) -> None:
        self.schema, self.is_key = schema, is_key
        in_order = sorted(fields, key=itemgetter(1))
        indexes = [index for _, index in in_order]
        reads = [read_of(schema.columns[index].type, field.type.present, zone) for field, index in in_order]
        self.reader = TypedReader(NAME, schema, indexes, reads, _PARTS, known=known)
        self.names = [field.name for field, _ in in_order]
        self.kinds = [field.type.present.kind for field, _ in in_order]
        self.unsigned = frozenset(
            name for name, read in zip(self.names, reads, strict=True) if read is read_wrapped
        )
        self._cells: Callable[[Mapping[str, Any]], Cells] = _getter(self.names)
        # In the order of the schema, which is that of TiDB's checksums.
        position_of = {index: at for at, index in enumerate(indexes)}
        self._order = [position_of[index] for _, index in fields]
        columns = tuple([schema.columns[index] for _, index in fields])
        self._checked = msgspec.structs.replace(schema, columns=columns)

    def images(self, old: Mapping[str, Any] | None, new: Mapping[str, Any] | None) -> TypedRows | PartialRows:
        """Return the images of rows of Avro."""
        before, after = self._cells_of(old), self._cells_of(new)
        if ABSENT in (before or ()) or ABSENT in (after or ()):
            return PartialRows(self.reader, before, after)
        return TypedRows(self.reader, before, after)

    def _cells_of(self, row: Mapping[str, Any] | None) -> Cells | None:
        if row is None:
            return None
        try:
            return self._cells(row)
        except KeyError:
            return tuple([row.get(name, ABSENT) for name in self.names])

    def is_sum(self, images: Images, checksum: int, *, is_old: bool) -> bool:
        """Return whether this may be the checksum of a row."""
        if self.reader.is_partial:
            return True
        row = images.cells_at(self.reader.indexes, is_old=is_old)
        if row is None:
            return True
        found = row_checksum(self._checked, tuple([row[at] for at in self._order]))
        return found is None or found == checksum


def _getter(names: Sequence[str]) -> Callable[[Mapping[str, Any]], Cells]:
    """Return the function that takes the values of these fields out of a record."""
    take = itemgetter(*names)
    if len(names) == 1:
        return lambda row: (take(row),)
    return take


class Layouts:
    """A decoder's cache of layouts."""

    def __init__(self, zone: tzinfo, limits: Limits) -> None:
        self._zone, self._limits = zone, limits
        pool = CachePool(limits.cache_bytes)
        self._kept: ByteCache[tuple[AvroSchema, AvroSchema | None, bool, TableSchema | None], Layout]
        self._kept = pool.cache()
        self._clashing: ByteCache[AvroSchema, frozenset[str]] = pool.cache()
        self._tables: ByteCache[AvroSchema, TableId] = pool.cache()
        self._unknown: ByteCache[AvroSchema, tuple[tuple[str, ...], ...]] = pool.cache()
        self._originals = _Originals()

    def added(self, schema: AvroSchema, row: Mapping[str, Any]) -> Mapping[str, Any]:
        """Return the fields that TiCDC adds to the columns of a row: other columns may exist, too, but none
        with the name of an added field.
        """
        clashing = self._clashing.get(schema)
        if clashing is None:
            clashing = frozenset(field.name for field in columns_in(schema.type) if field.name in ADDED)
            self._clashing.keep(schema, clashing, _CLASHING_BYTES)
        return row if not clashing else {name: row[name] for name in row.keys() - clashing}

    def unknown(self, schema: AvroSchema, row: Mapping[str, Any], part: Part) -> Unknown | None:
        """Return the fields of a key or a value that are neither columns nor added by TiCDC, by path."""
        paths = self._unknown.get(schema)
        if paths is None:
            paths = tuple(_unknown_fields(schema.type))
            self._unknown.keep(schema, paths, _UNKNOWN_BYTES)
        if not paths:
            return None
        found = {".".join((part, *path)): _value_at(row, path) for path in paths}
        return {path: value for path, value in found.items() if value is not ABSENT} or None

    def find(
        self,
        rows: AvroSchema,
        key: AvroSchema | None,
        catalog: Catalog,
        at: Position,
        *,
        has_key: bool = True,
    ) -> Layout:
        """Return the layout of rows of a schema; keys have separate layouts.

        `has_key`: whether the facts of the message's key count: without a key its table has none. Raises
        UnsupportedMessage for a schema that is not TiCDC's.
        """
        known = self._known(rows, catalog, at)
        found = self._kept.get((rows, key, has_key, known))
        if found is None:
            found = self._build(rows, key, known, has_key=has_key)
            size = _LAYOUT_BYTES + len(found.schema.columns) * _COLUMN_BYTES
            self._kept.keep((rows, key, has_key, known), found, size)
        return found

    def _known(self, rows: AvroSchema, catalog: Catalog, at: Position) -> TableSchema | None:
        """Return the catalog's definition of the table of a schema; the table may have another name."""
        if not catalog.histories:
            return None
        table = self._tables.get(rows)
        if table is None:
            table = self._tables.keep(rows, _table_of(rows.type), _TABLE_BYTES)
        return self._originals.table(table, catalog, at)

    def is_only_table(self, rows: AvroSchema, id: TableId, catalog: Catalog) -> bool:
        """Return whether the table of a schema has this id, and no other table in the catalog has its name in
        Avro.
        """
        named = self._originals.named(_table_of(rows.type), catalog)
        return not named or list(named) == [id]

    def _build(
        self, rows: AvroSchema, key: AvroSchema | None, known: TableSchema | None, *, has_key: bool
    ) -> Layout:
        fields = list(columns_in(rows.type))
        if rows.type.kind != "record" or not fields:
            reason = "not a record with columns of TiCDC, so this is not a message of this protocol"
            raise UnsupportedMessage(NAME, "value", reason)
        check_columns(NAME, "value", len(fields), self._limits)
        _check_before(rows.type, fields)
        is_key = rows is key
        indexes = None if known is None else _column_indexes(fields, known)
        if known is not None and indexes is not None:
            # Rows have NULL for virtual columns, whatever their values.
            pairs = [
                (field, at)
                for field, at in zip(fields, indexes, strict=True)
                if known.columns[at].generated is not Generated.VIRTUAL
            ]
            return Layout(known, pairs, self._zone, known, is_key=is_key)
        table = _table_of(rows.type) if known is None else known.id
        columns = tuple([_column(field, known) for field in fields])
        primary_key: tuple[str, ...] | None = None
        if has_key:
            names = {field.name: column.name for field, column in zip(fields, columns, strict=True)}
            primary_key = _primary_key(key, names)
        schema = TableSchema(table, columns, primary_key, complete=False)
        pairs = [(field, at) for at, field in enumerate(fields)]
        return Layout(schema, pairs, self._zone, known, is_key=is_key)


def columns_in(record: AvroType) -> Iterator[AvroField]:
    """Yield the fields of a record that are columns: they have a type, and fields that TiCDC adds do not."""
    return (field for field in record.fields if is_known_field(field))


def _unknown_fields(record: AvroType) -> Iterator[tuple[str, ...]]:
    """Yield the fields that are neither columns nor added by TiCDC, in the old row too."""
    for field in record.fields:
        if field.name == BEFORE:
            before = field.type.present.fields
            yield from ((BEFORE, each.name) for each in before if not is_known_field(each))
        elif field.name not in ADDED and not is_known_field(field):
            yield (field.name,)


def _value_at(row: Mapping[str, Any], path: Sequence[str]) -> Any:  # noqa: ANN401 - a value of any type
    """Return the value of a field; ABSENT for a missing old row."""
    value: Any = row
    for name in path:
        if not isinstance(value, dict):
            return ABSENT
        value = value[name]
    return value


def _check_before(record: AvroType, fields: Sequence[AvroField]) -> None:
    """Refuse a schema whose old rows have columns of other types than its rows."""
    before = next((field.type.present for field in record.fields if field.name == BEFORE), None)
    if before is None or before.kind != "record":
        return
    of_row = {field.name: field.type.present for field in fields}
    for field in before.fields:
        present, same = field.type.present, of_row.get(field.name)
        if same is not None and (present.kind, present.attributes) != (same.kind, same.attributes):
            raise UnsupportedMessage(NAME, f"value.{BEFORE}.{field.name}", "of another type than in the row")


def _table_of(record: AvroType) -> TableId:
    """Return the table of a record: its namespace is the keyspace and the database."""
    namespace, _, name = record.name.rpartition(".")
    return TableId(namespace.partition(".")[2] or namespace, name)


def _primary_key(key: AvroSchema | None, names: Mapping[str, str]) -> tuple[str, ...]:
    if key is None:
        return ()
    return tuple([names[field.name] for field in columns_in(key.type) if field.name in names])


def _column_indexes(fields: Sequence[AvroField], known: TableSchema) -> list[int] | None:
    """Return the indexes of fields' columns in a definition; None if one contradicts the definition."""
    index_of = _by_name(known)
    indexes = []
    for field in fields:
        index = index_of.get(field.name)
        if index is None or not _agrees(known.columns[index], field):
            return None
        indexes.append(index)
    return indexes


def _by_name(known: TableSchema) -> dict[str, int]:
    """Return the indexes of a definition's columns, by their names in Avro."""
    return {sanitized(column.name): at for at, column in enumerate(known.columns)}


def _agrees(column: Column, field: AvroField) -> bool:
    """Return whether a field has the type of the definition, as far as fields have types."""
    form = _form(field)
    if form not in {form_of(column.type, modes) for modes in _ALL_MODES}:
        return form == ("FLOAT", "double") and column.type.base == "float"
    if form[0] not in {"ENUM", "SET", "DECIMAL", "BIT"} or form == ("DECIMAL", "string"):
        return True
    return _described(column, field)


def _described(column: Column, field: AvroField) -> bool:
    declared, known = _type(field), column.type
    if declared.base == "decimal":
        return (declared.length, declared.scale) == (known.length, known.scale or 0)
    if declared.base == "bit":
        return declared.length == (known.length or 1)
    # Members are joined with commas, and may contain commas.
    return (
        known.members is None
        or declared.members is None
        or (",".join(declared.members).replace("\\", "") == ",".join(known.members).replace("\\", ""))
    )


def _form(field: AvroField) -> tuple[str, str]:
    try:
        return form_of_field(field)
    except ValueError as error:
        raise UnsupportedMessage(NAME, f"value.{field.name}", str(error)) from None


def _type(field: AvroField) -> ColumnType:
    try:
        return field_type(field)
    except ValueError as error:
        raise UnsupportedMessage(NAME, f"value.{field.name}", str(error)) from None


def _column(field: AvroField, known: TableSchema | None) -> Column:
    """Return the column of a field: the catalog's, if that agrees."""
    if known is not None:
        index = _by_name(known).get(field.name)
        if index is not None and _agrees(known.columns[index], field):
            return known.columns[index]
    type_ = _type(field)
    return Column(field.name, type_, field.type.kind == "union", declared_default(field, type_))


def table_name(table: TableId) -> TableId:
    """Return a table's name in Avro."""
    return TableId(sanitized(table.database), sanitized(table.table))


class _Originals:
    """Maps names in Avro to the tables of a catalog."""

    def __init__(self) -> None:
        self._catalog: Catalog | None = None
        self._tables: dict[TableId, list[TableId]] = {}

    def named(self, name: TableId, catalog: Catalog) -> Sequence[TableId]:
        """Return the tables in a catalog that have this name in Avro."""
        if catalog is not self._catalog:
            self._catalog, self._tables = catalog, {}
            for database, tables in catalog.histories.items():
                for table in tables:
                    id = TableId(database, table)
                    self._tables.setdefault(table_name(id), []).append(id)
        return self._tables.get(name, ())

    def table(self, name: TableId, catalog: Catalog, at: Position) -> TableSchema | None:
        """Return the definition of the table; None if it is unknown or ambiguous."""
        named = self.named(name, catalog)
        if len(named) < 2:
            return catalog.table(named[0], at) if named else None
        possible = [id for id in named if catalog.table(id, at) is not None]
        if len(possible) > 1:
            of_topic = set(catalog.tables(at.topic, at))
            possible = [id for id in possible if id in of_topic]
        return catalog.table(possible[0], at) if len(possible) == 1 else None
