"""Definitions in Simple: writing `tableSchema`, and reading it.

`table_entry` returns TiCDC's entry for a definition; `definition` is its inverse, and keeps facts of a known
definition that the format cannot hold. `version_of` and `table_id_of` return the numbers by which rows refer
to a definition: those of the source, else numbers derived from the definition alone, so that every run, and
every reader of relay's own output, has the same ones. Source: pingcap/ticdc pkg/sink/codec/simple/message.go
(2026-08), and its records.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.shared.ticdc import printed
from relay.codecs.shared.tidb_defaults import NOW, next_value, sequence_default, stored_default
from relay.model.errors import Malformed
from relay.model.events import (
    ABSENT,
    Absent,
    Column,
    ColumnType,
    Default,
    Index,
    TableId,
    TableSchema,
    UniqueKey,
)
from relay.model.limits import Limits, check_columns
from relay.mysql.charsets import CHARSET, TEXTS, charset_of, default_collation
from relay.mysql.ddl.apply import key_order
from relay.mysql.types import (
    DISPLAY_WIDTHS,
    FLOATS,
    INTEGERS,
    MAX_BITS,
    checked_type,
    is_type_name,
    parse_type,
)

# ---------------------------------------------------------------- wire


class DataType(msgspec.Struct, gc=False):
    """A column's type. `length` is omitted if it is 0, the rest if it is empty."""

    mysqlType: str
    charset: str = ""
    collate: str = ""
    length: int | UnsetType = UNSET
    decimal: int | UnsetType = UNSET
    elements: list[str] | UnsetType | None = UNSET
    unsigned: bool | UnsetType = UNSET
    zerofill: bool | UnsetType = UNSET


class ColumnEntry(msgspec.Struct, gc=False):
    """A column. The default of a BIT is a number."""

    name: str
    dataType: DataType
    nullable: bool = True
    default: str | int | float | None = None


class IndexEntry(msgspec.Struct, gc=False):
    """An index; `nullable`: any of its columns may be NULL."""

    name: str
    unique: bool
    primary: bool
    nullable: bool
    columns: list[str]


class TableEntry(msgspec.Struct, gc=False):
    """`tableSchema`, and `preTableSchema`."""

    schema: str
    table: str
    tableID: int
    version: int
    columns: list[ColumnEntry]
    indexes: list[IndexEntry] | None = None


# ---------------------------------------------------------------- numbers

#: Bits of derived numbers: every reader's JSON numbers hold them, and as TSOs (versions are TSOs) they are
#: older than all commits of TiDB.
_BITS: Final = 53


def table_id_of(schema: TableSchema) -> int:
    """Return the table's id: the source's, else one derived from its name."""
    return named_id(schema.id) if schema.table_id is None else schema.table_id


def named_id(table: TableId) -> int:
    """Return the id that relay derives from a table's name."""
    return _number(printed([table.database, table.table]))


def version_of(schema: TableSchema) -> int:
    """Return the version of a definition: the source's, else one derived from its columns and keys."""
    return _content_version(table_entry(schema)) if schema.version is None else schema.version


def is_tso(version: int) -> bool:
    """Return whether a version is a TSO of TiDB, not a number derived by relay."""
    return version >> _BITS > 0


def _content_version(entry: TableEntry) -> int:
    """Return the version that relay derives from an entry; a table keeps it when it is renamed."""
    return _number(printed([entry.columns, entry.indexes]))


def _number(text: bytes) -> int:
    digest = int.from_bytes(hashlib.blake2b(text, digest_size=8).digest(), "big")
    return 1 + (digest >> (64 - _BITS)) % ((1 << _BITS) - 1)


# ---------------------------------------------------------------- written

#: Fixed facts of these types, whatever their definition says.
_FIXED_LENGTHS: Final = {
    "year": 4, "date": 10, "tinytext": 255, "tinyblob": 255, "text": 65_535, "blob": 65_535,
    "mediumtext": 16_777_215, "mediumblob": 16_777_215, "longtext": 4_294_967_295, "longblob": 4_294_967_295,
    "json": 4_294_967_295,
}  # fmt: skip
#: Number of characters of a temporal value without fraction.
_TEMPORAL_LENGTHS: Final = {"time": 10, "datetime": 19, "timestamp": 19}
_FLOAT_LENGTHS: Final = {"float": 12, "double": 22}
#: Columns of a view have no types.
_UNSPECIFIED: Final = "unspecified"
#: TiCDC's name for the key that identifies rows, if no index of the table is called PRIMARY.
_HANDLE: Final = "primary"


def table_entry(schema: TableSchema, *, is_numbered: bool = False) -> TableEntry:
    """Return the entry of a definition; `is_numbered`: with its id and version."""
    return TableEntry(
        schema.id.database,
        schema.id.table,
        table_id_of(schema) if is_numbered else 0,
        version_of(schema) if is_numbered else 0,
        [column_entry(column, schema) for column in schema.columns],
        list(_indexes(schema)),
    )


def column_entry(column: Column, schema: TableSchema) -> ColumnEntry:
    """Return the entry of a column of this table."""
    nullable = column.nullable
    if nullable is None:
        nullable = column.name not in (schema.primary_key or ())
    return ColumnEntry(
        column.name, _data_type(column.type, schema), nullable, _default_value(column, schema.id.database)
    )


def _data_type(column_type: ColumnType, schema: TableSchema) -> DataType:
    base = column_type.base
    charset, collation = _charset(column_type, schema)
    shown = DataType(base, charset, collation, _length(column_type) or UNSET)
    digits = column_type.length if base in _TEMPORAL_LENGTHS else column_type.scale
    if digits and base not in FLOATS:
        shown.decimal = digits
    if column_type.members is not None:
        shown.elements = list(column_type.members)
    if column_type.unsigned or base in {"year", "bit"}:
        shown.unsigned = True
    if column_type.zerofill or base == "year":
        shown.zerofill = True
    return shown


def _charset(column_type: ColumnType, schema: TableSchema) -> tuple[str, str]:
    """Return the charset and the collation of a type; TiDB's own by default."""
    if column_type.base == _UNSPECIFIED:
        return "", ""
    if column_type.base not in TEXTS:
        return "binary", "binary"
    return charset_of(column_type, schema)


def _length(column_type: ColumnType) -> int:
    """Return `length`; 0 if unknown."""
    base, length = column_type.base, column_type.length
    if base in DISPLAY_WIDTHS and length is None:
        return DISPLAY_WIDTHS[base][column_type.unsigned]
    if base in _FIXED_LENGTHS:
        return _FIXED_LENGTHS[base]
    if base in _TEMPORAL_LENGTHS:
        return 0 if length is None else _TEMPORAL_LENGTHS[base] + (length + 1 if length else 0)
    if base in _FLOAT_LENGTHS and length is None:
        return _FLOAT_LENGTHS[base]
    if base in {"enum", "set"}:
        sizes = [len(member.encode(errors="replace")) for member in column_type.members or ()]
        return max(sizes, default=0) if base == "enum" else sum(sizes) + max(len(sizes) - 1, 0)
    if base == "vector":
        return -1 if length is None else length
    return length or 0


def _default_value(column: Column, database: str) -> str | int | None:
    text = stored_default(column)
    if text is None:
        return sequence_default(column, database)
    if column.type.base == "bit":
        try:
            number = int(text, 0)
        except ValueError:
            return text
        return text if number.bit_length() > MAX_BITS else number
    return text


def _indexes(schema: TableSchema) -> Iterable[IndexEntry]:
    """Return the indexes. The primary key comes last if it is an integer by which TiDB stores the row; a
    unique key that replaces it also comes last, as if it were the primary key.
    """
    not_null = {column.name for column in schema.columns if column.nullable is False}
    handle = schema.handle_key()
    if not _is_key(handle, [column.name for column in schema.columns]):
        handle = ()  # for a table inferred from a row without all columns of its key
    primary = handle if schema.primary_key else ()

    def entry(name: str, columns: Sequence[str], *, unique: bool, is_primary: bool = False) -> IndexEntry:
        nullable = not (is_primary or not_null.issuperset(columns))
        return IndexEntry(name, unique, is_primary, nullable, list(columns))

    is_handle = len(primary) == 1 and _is_integer(schema, primary[0]) and not schema.is_nonclustered
    if primary and not is_handle:
        yield entry("PRIMARY", primary, unique=True, is_primary=True)
    for key, is_unique in schema.ordered_keys():
        yield entry(key.name, key.columns, unique=is_unique)
    if is_handle or (handle and not primary):
        yield entry(_HANDLE, handle, unique=True, is_primary=True)


def _is_integer(schema: TableSchema, name: str) -> bool:
    return any(column.name == name and column.type.base in INTEGERS for column in schema.columns)


# ---------------------------------------------------------------- read


def definition(
    entry: TableEntry, known: TableSchema | None, protocol: str, limits: Limits, *, is_current: bool
) -> TableSchema:
    """Return the definition of an entry. `known`: one of the same table; its columns are kept if the entry
    shows them the same; `is_current`: the one that the statement has made.

    Raises Malformed for a definition without a name, and for columns of one name; LimitExceeded.
    """
    _check(entry, protocol, limits)
    id, of_known = TableId(entry.schema, entry.table), {} if known is None else _by_name(known)
    origin = TableSchema(id, ()) if known is None else msgspec.structs.replace(known, id=id)
    columns = [_merged(declared, of_known.get(declared.name), origin) for declared in entry.columns]
    if (is_current or is_tso(entry.version)) and of_known.keys() == {column.name for column in columns}:
        # TiCDC's classic architecture lists them in the order in which they were added.
        indexes = {name: at for at, name in enumerate(of_known)}
        columns.sort(key=lambda column: indexes[column.name])
    found = msgspec.structs.replace(
        origin,
        columns=tuple(columns),
        complete=True,
        is_view=bool(columns) and all(column.type.base == _UNSPECIFIED for column in columns),
        table_id=None if entry.tableID == named_id(id) else entry.tableID,
        version=entry.version,
    )
    found = _with_keys(found, entry.indexes or [], known, is_current=is_current)
    if not is_tso(entry.version) and entry.version == _content_version(table_entry(found)):
        return msgspec.structs.replace(found, version=None)
    return found


def _check(entry: TableEntry, protocol: str, limits: Limits) -> None:
    """Raise Malformed for an entry that is no valid definition, LimitExceeded for one of too many columns."""
    if not entry.table or not entry.schema:
        raise Malformed(protocol, "tableSchema", "a definition without the name of its table")
    check_columns(protocol, "tableSchema.columns", len(entry.columns), limits)
    names = [column.name for column in entry.columns]
    if not are_names(names):
        raise Malformed(protocol, "tableSchema.columns", "a column without a name, or two of one")
    if not all(_is_type(column.dataType.mysqlType) for column in entry.columns):
        raise Malformed(protocol, "tableSchema.columns", "a column without the name of a type")
    if any(type(each.default) is int and each.default.bit_length() > MAX_BITS for each in entry.columns):
        raise Malformed(protocol, "tableSchema.columns", "a default beyond 64 bits")
    for index in entry.indexes or ():
        # Others may have hidden columns, of expressions.
        if index.primary and not _is_key(index.columns, names):
            raise Malformed(protocol, "tableSchema.indexes", "a primary key of columns that the table lacks")


def are_names(names: Sequence[str]) -> bool:
    """Return whether one table can have these column names. Like MySQL, treats `A` and `a` as the same."""
    return len(_lower(names)) == len(names) and "" not in names


def _is_key(key: Sequence[str], columns: Sequence[str]) -> bool:
    return len(_lower(key)) == len(key) and _lower(columns).issuperset(_lower(key))


def _lower(names: Iterable[str]) -> set[str]:
    return {name.lower() for name in names}


def _by_name(schema: TableSchema) -> dict[str, Column]:
    return {column.name: column for column in schema.columns}


def _merged(declared: ColumnEntry, known: Column | None, origin: TableSchema) -> Column:
    """Return the declared column, completed from the known one."""
    column_type = _type(declared.dataType)
    default = _default(declared.default, column_type)
    if known is None:
        return Column(declared.name, column_type, declared.nullable, default)
    shown = column_entry(known, origin)
    if shown == declared:
        return known
    if shown.dataType == declared.dataType:
        column_type = known.type
    if shown.default == declared.default:
        default = known.default
    return msgspec.structs.replace(known, type=column_type, nullable=declared.nullable, default=default)


def _is_type(name: str) -> bool:
    """Return whether this is the name of a type, possibly with attributes."""
    try:
        parse_type(name)
    except ValueError:
        return False
    return is_type_name(name) is not None


def _type(declared: DataType) -> ColumnType:
    """Return the type; parameters that no server allows are unknown."""
    named = parse_type(declared.mysqlType)
    base, members = named.base, None
    unsigned = declared.unsigned is True or named.unsigned
    if base in {"enum", "set"} and declared.elements:
        members = tuple(declared.elements)
    length, scale = _read_length(declared, base, unsigned=unsigned)
    charset, collation = _read_charset(declared, base)
    found = ColumnType(
        base,
        unsigned=unsigned and base not in {"year", "bit"},
        zerofill=(declared.zerofill is True or named.zerofill) and base != "year",
        length=length,
        scale=scale,
        charset=charset,
        collation=collation,
        members=members,
    )
    try:
        return checked_type(found)
    except ValueError:
        return msgspec.structs.replace(found, length=None, scale=None, members=None)


def _read_length(declared: DataType, base: str, *, unsigned: bool) -> tuple[int | None, int | None]:
    """Return the length and the scale of a type, in the form of a definition."""
    length = declared.length or None
    decimal = declared.decimal or 0
    if length is None or length < 0 or base in _FIXED_LENGTHS or base in FLOATS:
        return None, None
    if base in DISPLAY_WIDTHS:
        is_usual = length == DISPLAY_WIDTHS[base][unsigned]
        return (None if is_usual else length), None
    if base in _TEMPORAL_LENGTHS:
        return decimal or temporal_digits(base, length), None
    if base == "decimal":
        return length, decimal
    return (None if base in {"enum", "set"} else length), None


def temporal_digits(base: str, length: int) -> int:
    """Return the fraction digits of a temporal type with this many characters; 0 for other types."""
    return max(length - _TEMPORAL_LENGTHS[base] - 1, 0) if base in _TEMPORAL_LENGTHS else 0


def _read_charset(declared: DataType, base: str) -> tuple[str | None, str | None]:
    """Return the charset and the collation; a column's implicit ones are omitted."""
    charset, collation = declared.charset or None, declared.collate or None
    if base not in TEXTS or charset is None:
        return None, None
    if collation == default_collation(charset):
        collation = None
    return (None, None) if charset == CHARSET and collation is None else (charset, collation)


def _default(declared: str | float | None, column_type: ColumnType) -> Default | Absent:
    """Return the default; DEFAULT NULL is declared as none."""
    if declared is None:
        return ABSENT
    text, base = str(declared), column_type.base
    if text == NOW and base in _TEMPORAL_LENGTHS:
        digits = column_type.length
        return Default(f"{NOW}({digits})" if digits else NOW, is_expression=True)
    return Default(text, is_expression=next_value(text) is not None)


def _with_keys(
    schema: TableSchema, indexes: Sequence[IndexEntry], known: TableSchema | None, *, is_current: bool
) -> TableSchema:
    """Return the definition with the declared keys, except those of hidden columns, which expressions have.
    If the statement is known, indexes that it does not have are those that TiDB makes for foreign keys.
    """
    primary = next((index for index in indexes if index.primary), None)
    shown = _lower(column.name for column in schema.columns)
    keys = [index for index in indexes if not index.primary and shown.issuperset(_lower(index.columns))]
    columns = _primary_key(primary, keys, known)
    stated = None
    if is_current and known is not None:
        stated = {key.name for key in known.indexes if not key.is_implied}
    is_integer = len(columns) == 1 and _is_integer(schema, columns[0])
    return msgspec.structs.replace(
        schema,
        primary_key=columns,
        unique_keys=tuple(UniqueKey(key.name, tuple(key.columns)) for key in keys if key.unique),
        indexes=tuple(
            Index(key.name, tuple(key.columns), stated is not None and key.name not in stated)
            for key in keys
            if not key.unique
        ),
        key_order=key_order([(key.name, key.unique) for key in keys]),
        is_nonclustered=is_integer and primary is not None and primary.name != _HANDLE,
    )


def _primary_key(
    primary: IndexEntry | None, keys: Sequence[IndexEntry], known: TableSchema | None
) -> tuple[str, ...]:
    """Return the columns of the primary key; none for a unique key declared but not known as one."""
    if primary is None:
        return ()
    columns = tuple(primary.columns)
    is_known = known is not None and known.primary_key == columns
    is_unique_key = any(key.unique and key.columns == primary.columns for key in keys)
    if primary.name == _HANDLE and is_unique_key and not is_known:
        return ()
    return columns


# ---------------------------------------------------------------- as JSON

_read_entry = msgspec.json.Decoder(TableEntry).decode


def entry_text(entry: TableEntry) -> bytes:
    """Return an entry as JSON, for `TableChange.wire`."""
    return msgspec.json.encode(entry)


def read_entry(text: bytes) -> TableEntry:
    """Return the entry for a text of `entry_text`."""
    return _read_entry(text)


__all__ = [
    "ColumnEntry",
    "DataType",
    "IndexEntry",
    "TableEntry",
    "are_names",
    "column_entry",
    "definition",
    "entry_text",
    "is_tso",
    "named_id",
    "read_entry",
    "table_entry",
    "table_id_of",
    "temporal_digits",
    "version_of",
]
