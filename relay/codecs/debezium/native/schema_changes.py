"""Writing schema changes of Debezium's MySQL connector: `tableChanges`, and the schemas around them.

`changes_of` yields the connector's messages for a statement, from the canonical event alone: one message a
table for a rename or DROP of several. Columns have the same members as in TiCDC
(`relay.codecs.debezium.shared.ddl_events`), except for `_own_members`. Texts are written as literals of DDL.
Sources: debezium/debezium ConnectTableChangeSerializer, SchemaFactory (3.6); records of 3.6.1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.codecs.debezium.native.fields import SOURCE, Json, node
from relay.codecs.debezium.native.message_writing import native_key
from relay.codecs.debezium.native.table_changes import id_of
from relay.codecs.debezium.shared import ddl_events
from relay.codecs.losses import Loss
from relay.codecs.shared.ticdc import mysql_text, per_table_statements
from relay.codecs.shared.tidb_defaults import NOW
from relay.model.events import (
    Bootstrap,
    Column,
    DdlKind,
    Default,
    SchemaChange,
    TableChange,
    TableId,
    TableSchema,
)
from relay.mysql.ddl.drops import drop_keywords, rename_clauses, rename_keywords
from relay.mysql.ddl.parts import only_kind
from relay.mysql.ddl.printed import create_statement
from relay.mysql.types import CHARS, FLOATS, FRACTIONAL, INTEGERS, quoted_table, suffix

# ---------------------------------------------------------------- the list


class SchemaChangeMessage(NamedTuple):
    """One message of a statement; `table` None: it concerns no table."""

    database: str
    table: str | None
    ddl: str | None
    changes: Sequence[Json | msgspec.Raw]


#: Name in `TableChange` of the dialect that is written here.
DIALECT: Final = "debezium"
#: Statements about a database, which have `source.table` null, and others that concern no table.
_OF_DATABASE: Final = frozenset({DdlKind.CREATE_DATABASE, DdlKind.DROP_DATABASE})
_WITHOUT_TABLE: Final = frozenset({DdlKind.ALTER_DATABASE, DdlKind.SEQUENCE, DdlKind.TRUNCATE_TABLE})
_VIEWS: Final = frozenset({DdlKind.CREATE_VIEW, DdlKind.DROP_VIEW})
#: For a statement about an index alone, the connector names no table.
_INDEX: Final = re.compile(
    r"\s*(?:CREATE|DROP)\s+(?:(?:ONLINE|OFFLINE|UNIQUE|FULLTEXT|SPATIAL)\s+)*INDEX\s", re.IGNORECASE
).match
_CHANGE_TYPES: Final = {DdlKind.CREATE_TABLE: "CREATE", DdlKind.DROP_TABLE: "DROP"}


def changes_of(
    change: SchemaChange, losses: list[Loss], *, has_comments: bool
) -> Iterator[SchemaChangeMessage]:
    """Yield the messages of a statement; for an unknown table only its name is written, counted."""
    declared = [_declared(each, has_comments) for each in change.table_changes if each.dialect == DIALECT]
    if declared:  # changes from a connector are passed on
        yield SchemaChangeMessage(change.table.database, change.table.table, change.ddl, declared)
        return
    change = msgspec.structs.replace(change, ddl=mysql_text(change))
    definitions = {schema.id: schema for schema in reversed(change.definitions)}
    definitions |= {each.table: each.definition for each in change.table_changes if each.definition}
    for table, ddl in _statements(change):
        kind = change.kinds[0] if change.kinds else None
        if kind in _OF_DATABASE:
            yield SchemaChangeMessage(table.database, None, ddl, [])
        elif kind is None or kind in _WITHOUT_TABLE or not table.table or _INDEX(ddl):
            yield SchemaChangeMessage(table.database, "", ddl, [])
        elif kind in _VIEWS:
            yield SchemaChangeMessage(table.database, table.table, ddl, [])
        else:
            entry = {"type": _CHANGE_TYPES.get(kind, "ALTER"), "id": id_of(table), "table": None}
            found = definitions.get(table)
            if kind is DdlKind.DROP_TABLE:
                # Several statements, or a text that differs from its message, stay unchanged.
                words = drop_keywords(ddl) if only_kind(change) is kind else None
                text = f"{words} {quoted_table(table)}" if words else ddl
                yield SchemaChangeMessage(table.database, table.table, text, [entry])
            elif found is None:
                losses.append(Loss.TABLE_DEFINITION)
                yield SchemaChangeMessage(table.database, table.table, ddl, [])
            else:
                shown = table_json(found, has_comments=has_comments)
                yield SchemaChangeMessage(table.database, table.table, ddl, [entry | {"table": shown}])


def _statements(change: SchemaChange) -> list[tuple[TableId, str]]:
    """Return the statements of a change, one a table. Renames inside its database keep their names as
    written, as in the connector.
    """
    found = per_table_statements(change)
    databases = {table.database for pair in change.renamed for table in (pair.old, pair.new)}
    if not len(found) == len(change.renamed) > 1 or databases != {change.table.database}:
        return found
    clauses = rename_clauses(change.ddl)
    if len(clauses) != len(found):
        return found
    words = rename_keywords(change.ddl)
    return [(table, f"{words} {clause}") for (table, _), clause in zip(found, clauses, strict=True)]


def bootstrap_message(event: Bootstrap, *, has_comments: bool) -> SchemaChangeMessage:
    """Return the message that declares a definition, like a snapshot's: with the statement that creates the
    table, None if it is unknown.
    """
    schema, declared = event.schema, event.table_change
    ddl = create_statement(schema) if event.ddl is None else event.ddl
    if declared is not None and declared.dialect == DIALECT:
        change = _declared(declared, has_comments)
    else:
        shown = table_json(schema, has_comments=has_comments)
        change = {"type": "CREATE", "id": id_of(schema.id), "table": shown}
    return SchemaChangeMessage(schema.id.database, schema.id.table, ddl, [change])


def _declared(change: TableChange, has_comments: bool) -> Json | msgspec.Raw:
    """Return a connector's declaration with all known comments or with none, whatever its options, and with
    the members that releases before 2.0 lack.
    """
    is_old = _LABELS not in change.wire
    if not has_comments and not is_old and _COMMENT not in change.wire:
        return msgspec.Raw(change.wire)
    found: Json = msgspec.json.decode(change.wire)
    table, definition = found.get("table"), change.definition
    if table is None:
        return found
    known: Json = {"columns": ()} if definition is None else table_json(definition, has_comments=has_comments)
    if is_old:
        shown = {column["name"]: column for column in known["columns"]}
        table["columns"] = [_completed(column, shown) for column in table["columns"]]
    comments = {column["name"]: column["comment"] for column in known["columns"]}
    comments[None] = known.get("comment")
    for part in (table, *table["columns"]):
        part["comment"] = (part.get("comment") or comments.get(part.get("name"))) if has_comments else None
    return found


#: Start of a comment in the JSON of a `TableChange`, and of the labels of a column.
_COMMENT: Final = b'"comment":"'
_LABELS: Final = b'"enumValues":'


def _completed(column: Json, shown: dict[str, Json]) -> Json:
    """Return a column with all members; missing ones come from the definition."""
    others = shown.get(column["name"], {})
    return {member: column.get(member, others.get(member)) for member in _MEMBERS}


# ---------------------------------------------------------------- tables and columns


def table_json(schema: TableSchema, *, has_comments: bool) -> Json:
    """Return a definition in the form of `tableChanges`."""
    charset = ddl_events.table_charset(schema)
    return {
        "defaultCharsetName": charset,
        "primaryKeyColumnNames": list(native_key(schema)),
        "columns": [
            _column(column, at, charset, has_comments=has_comments)
            for at, column in enumerate(schema.columns, 1)
        ],
        "comment": _escaped(schema.comment) if has_comments and schema.comment else None,
    }


_MEMBERS: Final = (
    "name", "jdbcType", "nativeType", "typeName", "typeExpression", "charsetName", "length", "scale",
    "position", "optional", "autoIncremented", "generated", "comment", "defaultValueExpression", "enumValues",
)  # fmt: skip


def _column(column: Column, position: int, charset: str, *, has_comments: bool) -> Json:
    shown = ddl_events.column_json(column, position, charset, "", is_defined=False)
    shown |= _own_members(column)
    if not has_comments:
        shown["comment"] = None
    return {member: shown[member] for member in _MEMBERS}


def _own_members(column: Column) -> Json:
    """Return the members that the connector writes differently from TiCDC."""
    column_type = column.type
    base, members = column_type.base, column_type.members
    name = base.upper()
    if base in INTEGERS or base in FLOATS or base == "decimal":
        name += suffix(column_type).upper()
    is_auto = column.auto_increment or column.on_update is not None
    own: Json = {
        "autoIncremented": is_auto,
        "generated": is_auto,
        "typeName": name,
        "typeExpression": name,
        "comment": _escaped(column.comment) if column.comment else None,
        "defaultValueExpression": _default(column),
    }
    if members is None:
        own["length"] = _length(column)
    else:
        own["enumValues"] = ["'" + _escaped(member) + "'" for member in members]
    return own


def _length(column: Column) -> int | None:
    base, length = column.type.base, column.type.length
    if base == "year" or base in {"date", "json"} or base.endswith(("text", "blob")):
        return None
    return None if base in FRACTIONAL and not length else length


def _escaped(text: str) -> str:
    """Escape text for a literal of DDL, without the quotes around it."""
    return text.replace("\\", "\\\\").replace("'", "''")


_EPOCH: Final = "1970-01-01 00:00:00"


def _default(column: Column) -> str | None:
    default, base = column.default, column.type.base
    if not isinstance(default, Default) or default.text is None:
        return None
    if default.is_expression:
        is_now = default.text.upper().startswith(NOW) and base in FRACTIONAL
        return _EPOCH if is_now else None
    if base == "bit":
        return _digits(default.text)
    return _escaped(default.text) if base in CHARS or base in {"enum", "set"} else default.text


def _digits(text: str) -> str:
    try:
        return f"{int(text, 0):b}"
    except ValueError:
        return text


# ---------------------------------------------------------------- schemas

_NAMES: Final = node("string")
_COLUMN: Final = node(
    "struct",
    fields=[
        node("string", field="name"),
        node("int32", field="jdbcType"),
        node("int32", optional=True, field="nativeType"),
        node("string", field="typeName"),
        node("string", optional=True, field="typeExpression"),
        node("string", optional=True, field="charsetName"),
        node("int32", optional=True, field="length"),
        node("int32", optional=True, field="scale"),
        node("int32", field="position"),
        node("boolean", optional=True, field="optional"),
        node("boolean", optional=True, field="autoIncremented"),
        node("boolean", optional=True, field="generated"),
        node("string", optional=True, field="comment"),
        node("string", optional=True, field="defaultValueExpression"),
        node("array", items=_NAMES, optional=True, field="enumValues"),
    ],
    name="io.debezium.connector.schema.Column",
    version=1,
)
_TABLE: Final = node(
    "struct",
    fields=[
        node("string", optional=True, field="defaultCharsetName"),
        node("array", items=_NAMES, optional=True, field="primaryKeyColumnNames"),
        node("array", items=_COLUMN, field="columns"),
        node("string", optional=True, field="comment"),
    ],
    optional=True,
    name="io.debezium.connector.schema.Table",
    version=1,
    field="table",
)
_CHANGE: Final = node(
    "struct",
    fields=[node("string", field="type"), node("string", field="id"), _TABLE],
    name="io.debezium.connector.schema.Change",
    version=1,
)
CHANGE_KEY: Final = node(
    "struct",
    fields=[node("string", field="databaseName")],
    name="io.debezium.connector.mysql.SchemaChangeKey",
    version=1,
)
CHANGE_VALUE: Final = node(
    "struct",
    fields=[
        SOURCE,
        node("int64", field="ts_ms"),
        node("string", optional=True, field="databaseName"),
        node("string", optional=True, field="schemaName"),
        node("string", optional=True, field="ddl"),
        node("array", items=_CHANGE, field="tableChanges"),
    ],
    name="io.debezium.connector.mysql.SchemaChangeValue",
    version=1,
)
