"""Reading `tableChanges` of Debezium's DDL events: the table definitions that a message declares.

`parse` returns the list, checked, or raises Malformed with the path; `declared_events` returns the event of a
DDL message and the catalog after it. The list takes precedence over the statement's text. Facts missing from
the list (keys other than the primary one, how a column is generated, ON UPDATE, collations, the sign of
DECIMAL) come from the text, or from the definition before it. Source: pingcap/ticdc
pkg/sink/codec/debezium/{codec,helper}.go (2026-08); its records.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Container, Sequence
from typing import Annotated, Final, Literal, NamedTuple

import msgspec
from msgspec import Meta

from relay.catalog import Catalog, DdlMessage, apply_ddl, definition_after
from relay.codecs.debezium.shared.ddl_events import (
    DIALECT,
    VIEW,
    column_json,
    defined_in,
    quoted_id,
    renamed_id,
    table_charset,
    table_json,
)
from relay.codecs.debezium.shared.defaults import default_expression, read_default
from relay.codecs.debezium.shared.schemas import Json
from relay.codecs.losses import Loss
from relay.codecs.shared.lenient_json import REFUSED, complaint
from relay.codecs.shared.tidb_defaults import NOW
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage, Unknown, below
from relay.model.errors import Malformed
from relay.model.events import (
    ABSENT,
    Absent,
    Column,
    ColumnType,
    DdlKind,
    Default,
    Event,
    SchemaChange,
    TableChange,
    TableId,
    TableSchema,
)
from relay.mysql.types import (
    BINARIES,
    CHARS,
    FLOATS,
    FRACTIONAL,
    checked_type,
    parse_type,
    with_implied_parameters,
)

# ---------------------------------------------------------------- the wire

_Size = Annotated[int, Meta(ge=0, lt=1 << 32)]


class ListedColumn(msgspec.Struct):
    """A column in the list."""

    name: Annotated[str, Meta(min_length=1)]
    typeName: Annotated[str, Meta(min_length=1)]
    typeExpression: str | None = None
    jdbcType: int | None = None
    nativeType: int | None = None
    comment: str | None = None
    defaultValueExpression: str | int | float | bool | None = None
    enumValues: list[str] | None = None
    charsetName: str | None = None
    length: _Size | None = None
    scale: _Size | float | None = None
    position: int | None = None
    optional: bool | None = None
    autoIncremented: bool | None = None
    generated: bool | None = None


class ListedTable(msgspec.Struct):
    """A table in the list."""

    columns: list[ListedColumn]
    defaultCharsetName: str | None = None
    primaryKeyColumnNames: list[str] | None = None
    comment: str | None = None


class _Change(msgspec.Struct):
    type: Literal["CREATE", "ALTER", "DROP"]
    id: str
    table: ListedTable | None = None


class _Changes(OpenMessage):
    tableChanges: list[_Change]


_PARSER: Final = MessageParser(_Changes)


class DeclaredTable(msgspec.Struct, frozen=True):
    """One change in the message, and its known members, in the producer's usual form."""

    change: _Change
    wire: Json


_MEMBERS: Final = (frozenset(_Change.__struct_fields__), frozenset(ListedTable.__struct_fields__))
_COLUMN_MEMBERS: Final = frozenset(ListedColumn.__struct_fields__)
_LIST: Final = "tableChanges"
_PATH: Final = f"payload.{_LIST}"


class TableDialect(NamedTuple):
    """The differences between producers in the list: the dialect's name, the reader of a column's type
    (raises ValueError), the merge of a declared column with the known one, the reader of comments, and a
    table's `id`.
    """

    name: str
    type_of: Callable[[ListedColumn], ColumnType]
    merged: Callable[[ListedColumn, Column | None, TableSchema, bool], Column]
    comment: Callable[[str], str]
    id_of: Callable[[TableId], str]


def parse(
    protocol: str, changes: bytes | None, dialect: TableDialect | None = None
) -> tuple[list[DeclaredTable], Unknown | None]:
    """Parse the list (of TiCDC, unless another dialect is given), None for none. Return it without the
    unknown members, and these. Raises Malformed.
    """
    if changes is None:
        return [], None
    try:
        found = msgspec.json.decode(changes)
        listed = _PARSER.convert({_LIST: found}, strict=True)
    except msgspec.ValidationError as error:
        path, reason = complaint(error)
        raise Malformed(protocol, f"payload.{path}", reason) from None
    except REFUSED:
        raise Malformed(protocol, _PATH, "not JSON") from None
    for each in found:
        _normalize(each)
    for at, change in enumerate(listed.tableChanges):
        _check(protocol, f"{_PATH}[{at}]", change, dialect or TICDC)
    declared = [DeclaredTable(change, wire) for change, wire in zip(listed.tableChanges, found, strict=True)]
    return declared, below("payload", listed.unknown)


def _normalize(change: Json) -> None:
    """Omit unknown members, and convert the others to TiCDC's form: defaults as text, no length of 0."""
    table = change.get("table") or {}
    columns = table.get("columns", ())
    parts = [(change, _MEMBERS[0]), (table, _MEMBERS[1]), *((column, _COLUMN_MEMBERS) for column in columns)]
    unknown = [(part, name) for part, known in parts for name in part.keys() - known]
    for part, name in unknown:
        del part[name]
    for column in columns:
        default = column.get("defaultValueExpression")
        if default is not None:
            column["defaultValueExpression"] = _text(default)
        if column.get("length") == 0 and not column["typeName"].lower().startswith(_WITH_EMPTY):
            column["length"] = None


#: Types with 0 as a length: no characters, no digits of a second.
_WITH_EMPTY: Final = ("char", "varchar", "binary", "varbinary", *FRACTIONAL)


def _text(value: str | float | bool) -> str:
    """Return a default that TiCDC wrote as bare JSON as text."""
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


def _check(protocol: str, path: str, change: _Change, dialect: TableDialect) -> None:
    """Raise Malformed for an invalid table."""
    if change.table is None:
        return
    names: set[str] = set()
    for at, column in enumerate(change.table.columns):
        if column.name.lower() in names:
            raise Malformed(protocol, f"{path}.table.columns[{at}].name", "a duplicate column")
        names.add(column.name.lower())
        try:
            dialect.type_of(column)
        except ValueError as error:
            raise Malformed(protocol, f"{path}.table.columns[{at}]", str(error)) from None
    key = [name.lower() for name in change.table.primaryKeyColumnNames or ()]
    if len(set(key)) < len(key):
        raise Malformed(protocol, f"{path}.table.primaryKeyColumnNames", "a duplicate column")
    if not names.issuperset(key):
        raise Malformed(protocol, f"{path}.table.primaryKeyColumnNames", "a column that the table lacks")


def change_type(declared: Sequence[DeclaredTable]) -> str:
    """Return the message's type of a DDL statement, "" if it has none."""
    return declared[0].change.type if declared else ""


def renamed_pair(declared: Sequence[DeclaredTable]) -> tuple[TableId, TableId] | None:
    """Return the old and the new name in a rename's `id`, None if it is no such id."""
    names = _PAIR(declared[0].change.id) if declared else None
    return None if names is None else (TableId(names[1], names[2]), TableId(names[3], names[4]))


# The database of a statement without one is empty.
_PAIR: Final = re.compile(r'"([^"]*)"\."([^"]+)","([^"]*)"\."([^"]+)"').fullmatch
_ONE: Final = re.compile(r'"((?:[^"]|"")*)"\."((?:[^"]|"")+)"').fullmatch

# ---------------------------------------------------------------- types


def _type(column: ListedColumn) -> ColumnType:
    """Return the column's type with all its parameters. Raises ValueError."""
    declared = parse_type(column.typeName)
    parsed = _expression(column, declared)
    base, members = declared.base, parsed.members
    length, scale = _parameters(column, parsed, base)
    charset = None
    if base in CHARS or base in {"enum", "set"}:
        charset = column.charsetName or None
    if base in {"enum", "set"} and column.enumValues is not None:
        members = tuple(map(_unquoted, column.enumValues))
    found = ColumnType(
        base,
        unsigned=declared.unsigned,
        zerofill=declared.zerofill,
        length=length,
        scale=scale,
        charset=charset,
        members=members,
    )
    return with_implied_parameters(checked_type(found))


def _parameters(column: ListedColumn, parsed: ColumnType, base: str) -> tuple[int | None, int | None]:
    """Return the length and the scale; those of `typeExpression` replace missing members of the column."""
    if base in {"enum", "set"}:
        return None, None
    length = column.length
    if length == 0 and base not in CHARS and base not in BINARIES:
        length = None
    if length is None:
        length = parsed.length
    scale = parsed.scale if column.scale is None else int(column.scale)
    if base in FLOATS:
        # TiCDC leaves out the usual widths; FLOAT(p) is not kept.
        length = None if scale is None else length or _FLOAT_WIDTHS[base]
    if base in {"varchar", "varbinary"} and length is None:
        length = 5
    if base == "decimal" and length is not None and scale is None:
        scale = 0
    return length, scale


def _expression(column: ListedColumn, declared: ColumnType) -> ColumnType:
    """Return the type of `typeExpression`, whose parameters replace missing members; else of the name."""
    if not column.typeExpression:
        return declared
    parsed = parse_type(column.typeExpression)
    return parsed if parsed.base == declared.base else declared


_FLOAT_WIDTHS: Final = {"float": 12, "double": 22}


def _unquoted(value: str) -> str:
    """Return a member of ENUM or SET without quotes; TiCDC quotes it and escapes nothing."""
    return value[1:-1] if len(value) > 1 and value[0] == value[-1] == "'" else value


def _default(column: ListedColumn, column_type: ColumnType) -> Default | Absent:
    value = column.defaultValueExpression
    return ABSENT if value is None else read_default(_text(value), column_type)


# ---------------------------------------------------------------- definitions


def definition(
    table: TableId,
    declared: ListedTable,
    known: TableSchema | None,
    defined: frozenset[str],
    dialect: TableDialect | None = None,
) -> TableSchema:
    """Return the declared definition; `known` itself if both are equal.

    `known`: the table's definition according to the statement's text. `defined`: the columns, in lower case,
    that the statement defines, whose comments TiCDC leaves out.
    """
    dialect = dialect or TICDC
    before = TableSchema(table, ()) if known is None else known
    charset, collation = before.charset, before.collation
    if declared.defaultCharsetName and declared.defaultCharsetName != table_charset(before):
        charset, collation = declared.defaultCharsetName, None
    by_name = {column.name.lower(): column for column in before.columns}
    shape = msgspec.structs.replace(before, charset=charset, collation=collation)
    columns = tuple(
        dialect.merged(column, by_name.get(column.name.lower()), shape, column.name.lower() in defined)
        for column in _in_order(declared.columns)
    )
    names = {column.name for column in columns}
    primary, handle = before.primary_key, declared.primaryKeyColumnNames
    is_other_key = handle is not None and set(handle) != set(before.handle_key())
    if known is None or is_other_key:
        primary = None if handle is None else tuple(handle)
    found = msgspec.structs.replace(
        shape,
        columns=columns,
        primary_key=primary,
        unique_keys=tuple(key for key in before.unique_keys if names.issuperset(key.columns)),
        indexes=tuple(key for key in before.indexes if names.issuperset(key.columns)),
        comment=before.comment if declared.comment is None else dialect.comment(declared.comment),
        complete=True,
        is_view=all(column.type.base == VIEW for column in columns),
    )
    return known if known == found else found


def _in_order(columns: list[ListedColumn]) -> list[ListedColumn]:
    """Return the columns by position, if each has a distinct one."""
    positions = {column.position for column in columns}
    if None in positions or len(positions) < len(columns):
        return columns
    return sorted(columns, key=lambda column: column.position or 0)


def _merged(declared: ListedColumn, known: Column | None, table: TableSchema, is_defined: bool) -> Column:
    """Return the declared column, completed from the known one."""
    column_type = _type(declared)
    if column_type.charset == table_charset(table):
        column_type = msgspec.structs.replace(column_type, charset=None)
    column = declared_column(
        declared, column_type, _default(declared, column_type), updated_bases=("timestamp",)
    )
    if known is None:
        return column
    comment, default, on_update, nullable = (
        column.comment,
        column.default,
        column.on_update,
        declared.optional,
    )
    if declared.comment is None and is_defined:
        comment = known.comment
    if _column_json(column, table) == _column_json(known, table):
        return known if known.comment == comment else msgspec.structs.replace(known, comment=comment)
    if column_type.base == "datetime" == known.type.base:
        on_update = known.on_update
    if default_expression(known, table.id.database) == default_expression(column, table.id.database):
        default = known.default
    if nullable is None:
        nullable = known.nullable
    return msgspec.structs.replace(
        column,
        type=_with_undeclared(column_type, known.type, table),
        nullable=nullable,
        default=default,
        comment=comment,
        generated=known.generated,
        on_update=on_update,
    )


def _column_json(column: Column, table: TableSchema) -> Json:
    """Return all members of a column in `tableChanges` except its comment and its position."""
    bare = msgspec.structs.replace(column, comment=None)
    return column_json(bare, 0, table_charset(table), table.id.database, is_defined=False)


def _with_undeclared(column_type: ColumnType, known: ColumnType, table: TableSchema) -> ColumnType:
    """Return the type, completed from the known one: the collation, the sign of DECIMAL."""
    if column_type.base != known.base:
        return column_type
    default = table_charset(table)
    if (column_type.charset or default) == (known.charset or default):
        column_type = msgspec.structs.replace(column_type, charset=known.charset, collation=known.collation)
    if column_type.base == "decimal":
        return msgspec.structs.replace(column_type, unsigned=known.unsigned, zerofill=known.zerofill)
    return column_type


def declared_column(
    declared: ListedColumn,
    column_type: ColumnType,
    default: Default | Absent,
    *,
    updated_bases: Container[str],
) -> Column:
    """Return the column that a list declares. `updated_bases`: the types for which `autoIncremented` means ON
    UPDATE.
    """
    is_counted, on_update = bool(declared.autoIncremented), None
    if is_counted and column_type.base in updated_bases:
        is_counted = False
        on_update = f"{NOW}({column_type.length})" if column_type.length else NOW
    return Column(
        name=declared.name,
        type=column_type,
        nullable=declared.optional,
        default=default,
        comment=declared.comment or None,
        auto_increment=is_counted,
        on_update=on_update,
    )


TICDC: Final = TableDialect(DIALECT, _type, _merged, str, quoted_id)

# ---------------------------------------------------------------- events


def declared_events(
    message: DdlMessage,
    declared: Sequence[DeclaredTable],
    catalog: Catalog,
    losses: list[Loss],
    dialect: TableDialect = TICDC,
) -> tuple[list[Event], Catalog]:
    """Return the event of a DDL message and the catalog after it; count unparsable text and `id`s."""
    learned, change = apply_ddl(catalog, message)
    if declared:
        entries, definitions, gone = [], [], []
        defined = defined_in(message.ddl)
        drops = not {DdlKind.DROP_TABLE, DdlKind.DROP_VIEW}.isdisjoint(change.kinds)
        for at, each in enumerate(declared):
            table = _table_of(each.change.id, change, message.table, dialect, is_only=len(declared) == 1)
            if table is None:
                losses.append(Loss.DDL_NOT_UNDERSTOOD)
                table = _table_at(at, len(declared), change, message.table)
            if table is None:
                continue
            known = definition_after(learned, message, table)
            found = None
            if each.change.table is not None and each.change.table.columns:
                origin = known or _view_of(change, table) or catalog.table(table, message.at)
                found = definition(table, each.change.table, origin, defined, dialect)
            entries.append(
                _entry(each, change, table, found)
                if dialect is TICDC
                else _as_declared(each, table, found, dialect)
            )
            is_drop = each.change.type == "DROP"
            if not change.kinds and is_drop and each.change.table is None:
                gone.append(table)
            elif found is not None and not drops and not (is_drop and found.is_view):
                definitions += [found] if catalog.redacted(found) != known else []
        if definitions or gone:
            message = msgspec.structs.replace(message, definitions=tuple(definitions), gone=tuple(gone))
            learned, change = apply_ddl(catalog, message)
        change = msgspec.structs.replace(change, table_changes=tuple(entries))
    if not change.kinds:
        losses.append(Loss.DDL_NOT_UNDERSTOOD)
    return [change], learned


def _entry(
    declared: DeclaredTable, change: SchemaChange, table: TableId, definition: TableSchema | None
) -> TableChange:
    """Return the change with the names of its statement; members missing from the message come from the known
    table.
    """
    wire, old = declared.wire, next((pair.old for pair in change.renamed if pair.new == table), None)
    wire["id"] = name = declared.change.id if old is None else renamed_id(old, table)
    if definition is None:
        known = [schema for schema in change.definitions if schema.id == table]
        wire["table"] = table_json(known[0], defined_in(change.ddl)) if known else None
    elif not wire["table"].get("defaultCharsetName"):
        wire["table"]["defaultCharsetName"] = table_charset(definition)
    return TableChange(declared.change.type, name, table, definition, msgspec.json.encode(wire))


def _as_declared(
    declared: DeclaredTable, table: TableId, definition: TableSchema | None, dialect: TableDialect
) -> TableChange:
    wire = msgspec.json.encode(declared.wire)
    return TableChange(declared.change.type, declared.change.id, table, definition, wire, dialect.name)


def _view_of(change: SchemaChange, table: TableId) -> TableSchema | None:
    return next((view for view in change.views if view.id == table), None)


def _table_of(
    name: str, change: SchemaChange, envelope: TableId, dialect: TableDialect, *, is_only: bool
) -> TableId | None:
    """Return the table that an `id` means, by its name after the statement; None if it is no such name.

    The `id` of EXCHANGE PARTITION is the other table's.
    """
    if is_only and change.kinds[:1] == (DdlKind.EXCHANGE_PARTITION,):
        return change.table
    for pair in change.renamed:
        names = renamed_id(pair.old, pair.new), renamed_id(pair.new, pair.old), quoted_id(pair.new)
        if name in names or name.endswith(f",{quoted_id(pair.new)}"):
            return pair.new
    parts, one = _PAIR(name), _ONE(name)
    for table in (envelope, *change.targets):
        if name == quoted_id(table) or (one is not None and name == dialect.id_of(table)):
            return table
    if parts is not None:
        return TableId(parts[3], parts[4])
    return None if one is None else TableId(*(part.replace('""', '"') for part in one.groups()))


def _table_at(at: int, count: int, change: SchemaChange, envelope: TableId) -> TableId | None:
    """Return the table of an entry, one of `count`, whose `id` is not understood: the message's, or the one
    at the same index in the statement; None if neither has it.
    """
    if count == 1:
        return next((table for table in (envelope, change.table) if table.table), None)
    return change.targets[at] if len(change.targets) == count else None
