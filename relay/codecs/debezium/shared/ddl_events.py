"""Writing DDL events of TiCDC's Debezium formats: their kind, `tableChanges`, and the schema block.

`table_changes` yields TiCDC's messages for a statement, from the canonical event alone. Columns that the
statement itself defines appear in its spelling, others in TiDB's. Source: pingcap/ticdc
pkg/sink/codec/debezium/codec.go (2026-08); its records.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.debezium.shared.defaults import default_expression
from relay.codecs.debezium.shared.schemas import Json
from relay.codecs.losses import Loss
from relay.codecs.shared.ticdc import is_restored, per_table_statements
from relay.model.errors import DdlNotUnderstood
from relay.model.events import Column, ColumnType, DdlKind, SchemaChange, TableId, TableSchema
from relay.mysql.ddl import read_ddl
from relay.mysql.ddl.statements import AddColumn, AlterTable, CreateTable, ModifyColumn
from relay.mysql.types import CHARS, FLOATS, FRACTIONAL, INTEGERS, suffix

#: Kinds of statements by TiCDC's type; every other one is ALTER.
_CREATE: Final = frozenset(
    {DdlKind.CREATE_DATABASE, DdlKind.CREATE_TABLE, DdlKind.CREATE_VIEW, DdlKind.RECOVER_TABLE}
)
_DROP: Final = frozenset(
    {DdlKind.DROP_DATABASE, DdlKind.DROP_TABLE, DdlKind.DROP_VIEW, DdlKind.TRUNCATE_TABLE, DdlKind.DROP_INDEX}
)
#: Statements without information about one table's columns.
_WITHOUT_TABLE: Final = frozenset(
    {
        DdlKind.CREATE_DATABASE,
        DdlKind.DROP_DATABASE,
        DdlKind.ALTER_DATABASE,
        DdlKind.TRUNCATE_TABLE,
        DdlKind.SEQUENCE,
    }
)
#: Name in `TableChange` of the dialect that is written here.
DIALECT: Final = "ticdc"
#: The type of a view's columns, of which TiDB knows none.
VIEW: Final = "unspecified"
#: TiDB's default.
_CHARSET: Final = "utf8mb4"

#: One message of a statement: its table, its text and `tableChanges`.
Message = tuple[TableId, str, list[Json | msgspec.Raw]]

# ---------------------------------------------------------------- the list


def table_changes(change: SchemaChange, losses: list[Loss]) -> Iterator[Message]:
    """Yield the messages of a statement.

    Tables declared in the source's message are passed on. For others the known definition is written; it is
    counted if only the name is known.
    """
    statements, known = per_table_statements(change), _KnownTables.of(change)
    first = statements[0][0] if statements else None
    named = {table for table, _ in statements}
    declared: dict[TableId | None, list[Json | msgspec.Raw]] = {}
    for each in [one for one in change.table_changes if one.dialect == DIALECT]:
        declared.setdefault(each.table if each.table in named else first, []).append(msgspec.Raw(each.wire))
    for table, sql in statements:
        yield table, sql, declared.get(table) or [*_known_changes(change, known, table, sql, losses)]


class _KnownTables(NamedTuple):
    """The known facts of a statement's tables, by name: the old name of a rename, views, definitions."""

    old_names: Mapping[TableId, TableId]
    views: Mapping[TableId, Sequence[TableSchema]]
    definitions: Mapping[TableId, TableSchema]

    @classmethod
    def of(cls, change: SchemaChange) -> _KnownTables:
        """Index the event's tables; of several with one name the first counts, of views all do."""
        views: dict[TableId, list[TableSchema]] = {}
        for view in change.views:
            views.setdefault(view.id, []).append(view)
        return cls(
            {pair.new: pair.old for pair in reversed(change.renamed)},
            views,
            {schema.id: schema for schema in reversed(change.definitions)},
        )


def _known_changes(
    change: SchemaChange, known: _KnownTables, table: TableId, ddl: str, losses: list[Loss]
) -> list[Json]:
    """Return `tableChanges` for one of the statement's tables; `ddl` is the text that is sent for it."""
    kind = change.kinds[0] if change.kinds else None
    if kind is None or kind in _WITHOUT_TABLE or not table.table:
        return []
    entry: Json = {"type": _change_type(change.kinds), "id": _id(change, known, table, kind)}
    if kind is DdlKind.DROP_TABLE:
        return [entry | {"table": None}]
    if views := known.views.get(table):
        # TiCDC writes every view, even a dropped or renamed one, with the columns that TiDB keeps of it.
        return [entry | {"table": _view(view)} for view in views]
    found = known.definitions.get(table)
    if found is not None:
        return [entry | {"table": table_json(found, defined_in(ddl))}]
    losses.append(Loss.TABLE_DEFINITION)
    return [entry | {"table": None}]


def _change_type(kinds: tuple[DdlKind, ...]) -> str:
    if len(kinds) == 1 and kinds[0] in _CREATE:
        return "CREATE"
    return "DROP" if len(kinds) == 1 and kinds[0] in _DROP else "ALTER"


def _id(change: SchemaChange, known: _KnownTables, table: TableId, kind: DdlKind) -> str:
    """Return the table's identifier: both names of a rename, the other table of an EXCHANGE."""
    if kind is DdlKind.EXCHANGE_PARTITION:
        return quoted_id(next((other for other in change.targets if other != table), table))
    old = known.old_names.get(table)
    return quoted_id(table) if old is None else renamed_id(old, table)


def renamed_id(old: TableId, new: TableId) -> str:
    """Return the identifier of a renamed table, with both of its names."""
    return f"{quoted_id(old)},{quoted_id(new)}"


def quoted_id(table: TableId) -> str:
    """Return a table's identifier in `tableChanges`. Quotes in names stay unescaped."""
    return f'"{table.database}"."{table.table}"'


# ---------------------------------------------------------------- tables and columns


def table_json(schema: TableSchema, defined: frozenset[str]) -> Json:
    """Return a definition in the form of `tableChanges`. `defined`: the columns that the statement itself
    defines, in lower case.
    """
    charset = table_charset(schema)
    return {
        "defaultCharsetName": charset,
        "primaryKeyColumnNames": list(schema.handle_key()),
        "columns": [
            column_json(column, at, charset, schema.id.database, is_defined=column.name.lower() in defined)
            for at, column in enumerate(schema.columns, 1)
        ],
        "comment": None,
    }


def table_charset(schema: TableSchema) -> str:
    """Return the table's default character set."""
    return schema.charset or (schema.collation or _CHARSET).partition("_")[0]


def column_json(column: Column, position: int, charset: str, database: str, *, is_defined: bool) -> Json:
    """Return a column in the form of `tableChanges`. `charset`: the table's. `is_defined`: by the statement
    itself, which changes the form of some members.
    """
    column_type = column.type
    base, members, name = column_type.base, column_type.members, _type_name(column_type)
    is_auto = column.auto_increment or (base == "timestamp" and column.on_update is not None)
    has_charset = base in CHARS or base in {"enum", "set"}
    return {
        "name": column.name,
        "jdbcType": _JDBC.get(base, _OTHER),
        "nativeType": None,
        "comment": None if is_defined else column.comment or None,
        "defaultValueExpression": default_expression(column, database),
        "enumValues": None if members is None else [f"'{member}'" for member in members],
        "typeName": name,
        "typeExpression": _type_expression(column_type, name),
        "charsetName": (column_type.charset or charset) if has_charset else None,
        "length": _length(column_type, is_defined=is_defined),
        "scale": column_type.scale if base in _SCALED else None,
        "position": position,
        "optional": column.nullable is not False,
        "autoIncremented": is_auto,
        "generated": is_auto,
    }


_OTHER: Final = 1111
_JDBC: Final = {
    "tinyint": 5, "smallint": 5, "mediumint": 4, "int": 4, "bigint": -5, "year": 4, "float": 6, "double": 8,
    "decimal": 3, "bit": -7, "char": 1, "binary": -2, "varchar": 12, "varbinary": -3, "tinytext": 12,
    "text": 12, "mediumtext": 12, "longtext": 12, "tinyblob": 2004, "blob": 2004, "mediumblob": 2004,
    "longblob": 2004, "enum": 1, "set": 1, "date": 91, "datetime": 93, "timestamp": 2014, "time": 92,
    "json": _OTHER, "vector": 12,
}  # fmt: skip
_SCALED: Final = frozenset({"decimal", "float", "double"})


def _type_name(column_type: ColumnType) -> str:
    base = column_type.base
    if base in INTEGERS or base in FLOATS:
        base += suffix(column_type)
    return base.upper()


def _type_expression(column_type: ColumnType, name: str) -> str:
    if column_type.base == "double" and column_type.scale is not None:
        return f"DOUBLE({column_type.length},{column_type.scale}){suffix(column_type).upper()}"
    return f"VECTOR({column_type.length})" if column_type.base == "vector" and column_type.length else name


#: Lengths that are omitted, signed and unsigned: TiDB's default widths, and TiCDC's assumed defaults.
_USUAL: Final = {
    "tinyint": (4, 3), "smallint": (6, 5), "mediumint": (9, 8), "int": (11, 10), "bigint": (20, 20),
    "float": (12, 12), "double": (22, 22), "bit": (1, 1), "char": (1, 1), "binary": (1, 1), "varchar": (5, 5),
    "varbinary": (5, 5),
}  # fmt: skip
_ALWAYS: Final = frozenset({"decimal", "vector"})


def _length(column_type: ColumnType, *, is_defined: bool) -> int | None:
    base, length = column_type.base, column_type.length
    if column_type.members is not None:
        return 1 if base == "enum" else 2 * len(column_type.members) - 1
    if base in FRACTIONAL:
        return None if is_defined and not length else length
    if base == "year":
        return length if is_defined or length else 4
    if base in _ALWAYS:
        return length
    usual = _USUAL.get(base)
    if usual is None or length is None:
        return None
    # TiDB compares TINYINT ZEROFILL with the signed width.
    is_unsigned = column_type.unsigned and not (base == "tinyint" and column_type.zerofill)
    return None if length == usual[is_unsigned] else length


def defined_in(ddl: str) -> frozenset[str]:
    """Return the columns, in lower case, that the statement's own text defines."""
    try:
        statements = read_ddl(ddl, backslash_escapes=not is_restored(ddl)).statements
    except DdlNotUnderstood:
        return frozenset()
    changes = (
        change for part in statements if isinstance(part, CreateTable | AlterTable) for change in part.changes
    )
    return frozenset(
        change.definition.column.name.lower()
        for change in changes
        if isinstance(change, AddColumn | ModifyColumn)
    )


# ---------------------------------------------------------------- views


def _view(view: TableSchema) -> Json:
    """Return a view in the form of `tableChanges`: its columns by name only, as TiCDC has them."""
    blank: dict[str, Any] = column_json(
        Column("", ColumnType(VIEW), nullable=True), 0, _CHARSET, "", is_defined=True
    )
    columns = [
        blank | {"name": column.name, "jdbcType": 12, "position": at}
        for at, column in enumerate(view.columns, 1)
    ]
    return {"defaultCharsetName": _CHARSET, "primaryKeyColumnNames": [], "columns": columns, "comment": None}


# ---------------------------------------------------------------- the schema block


def _member(name: str, type_: str, /, *, optional: bool = False, **more: Any) -> Json:  # noqa: ANN401 - any JSON value
    return {"field": name, "optional": optional, "type": type_, **more}


_NAMES: Final = {"items": {"type": "string", "optional": False}}
_COLUMN: Final[Json] = {
    "name": "io.debezium.connector.schema.Column",
    "optional": False,
    "type": "struct",
    "version": 1,
    "fields": [
        _member("name", "string"),
        _member("jdbcType", "int32"),
        _member("nativeType", "int32", optional=True),
        _member("typeName", "string"),
        _member("typeExpression", "string", optional=True),
        _member("charsetName", "string", optional=True),
        _member("length", "int32", optional=True),
        _member("scale", "int32", optional=True),
        _member("position", "int32"),
        _member("optional", "boolean", optional=True),
        _member("autoIncremented", "boolean", optional=True),
        _member("generated", "boolean", optional=True),
        _member("comment", "string", optional=True),
        _member("defaultValueExpression", "string", optional=True),
        _member("enumValues", "array", optional=True, **_NAMES),
    ],
}
_TABLE_FIELDS: Final = [
    _member("defaultCharsetName", "string", optional=True),
    _member("primaryKeyColumnNames", "array", optional=True, **_NAMES),
    _member("columns", "array", items=_COLUMN),
    _member("comment", "string", optional=True),
]
_CHANGE: Final[Json] = {
    "name": "io.debezium.connector.schema.Change",
    "optional": False,
    "type": "struct",
    "version": 1,
    "fields": [
        _member("type", "string"),
        _member("id", "string"),
        _member(
            "table",
            "struct",
            optional=True,
            name="io.debezium.connector.schema.Table",
            version=1,
            fields=_TABLE_FIELDS,
        ),
    ],
}


def change_schema(source: Json) -> bytes:
    """Return the schema block of a DDL event's value."""
    fields = [
        source,
        _member("ts_ms", "int64"),
        _member("databaseName", "string", optional=True),
        _member("schemaName", "string", optional=True),
        _member("ddl", "string", optional=True),
        _member("tableChanges", "array", items=_CHANGE),
    ]
    return msgspec.json.encode(
        {
            "optional": False,
            "type": "struct",
            "version": 1,
            "name": "io.debezium.connector.mysql.SchemaChangeValue",
            "fields": fields,
        }
    )


CHANGE_KEY: Final[bytes] = msgspec.json.encode(
    {
        "type": "struct",
        "name": "io.debezium.connector.mysql.SchemaChangeKey",
        "optional": False,
        "version": 1,
        "fields": [_member("databaseName", "string")],
    }
)
