"""Reading `tableChanges` of Debezium's own connectors, as a `TableDialect`.

Connectors declare columns in the statement's spelling, with the labels of ENUM and SET and the defaults as
literals of SQL; before 2.0 without labels, defaults and comments. The statement's text is always present and
has more facts, so that a column understood from it stays unchanged, unless the list contradicts it. Source:
Debezium 3.6 io.debezium.relational.history.ConnectTableChangeSerializer; records of 1.9.7 to 3.6.1.
"""

from __future__ import annotations

from typing import Final

import msgspec

from relay.codecs.debezium.native.declared_types import AS_TEXT
from relay.codecs.debezium.shared.defaults import read_default
from relay.codecs.debezium.shared.definitions import ListedColumn, TableDialect, declared_column
from relay.model.events import ABSENT, Absent, Column, ColumnType, Default, TableId, TableSchema
from relay.mysql.ddl.tokens import unquoted
from relay.mysql.types import (
    CHARS,
    FLOATS,
    INTEGERS,
    as_binary,
    checked_type,
    parse_type,
    with_implied_parameters,
)

#: Minimum digits of a FLOAT that make it a DOUBLE.
_DOUBLE_DIGITS: Final = 24


def _type(column: ListedColumn) -> ColumnType:
    """Return the column's type with all its parameters. Raises ValueError."""
    declared = parse_type(column.typeName)
    base, length, scale = declared.base, column.length, column.scale
    if base in {"enum", "set"}:
        members = None if column.enumValues is None else tuple(map(unquoted, column.enumValues))
        return checked_type(ColumnType(base, charset=column.charsetName, members=members))
    if base == "float" and scale is None and (length or 0) > _DOUBLE_DIGITS:
        base = "double"
    if base in FLOATS and scale is None:
        length = None
    if base == "decimal" and length is not None and scale is None:
        scale = 0
    found = ColumnType(
        base,
        unsigned=declared.unsigned,
        zerofill=declared.zerofill,
        length=declared.length if length is None else length,
        scale=None if scale is None else int(scale),
        charset=column.charsetName if base in CHARS else None,
    )
    if column.charsetName == "binary" and base in CHARS:
        # Rows have it as text with one character per byte.
        found = msgspec.structs.replace(found, base=as_binary(base), charset=AS_TEXT)
    return with_implied_parameters(checked_type(found))


def _merged(listed: ListedColumn, known: Column | None, table: TableSchema, is_defined: bool) -> Column:  # noqa: ARG001 - known comments stay
    """Return the declared column, completed from the known one."""
    column_type = _type(listed)
    if known is not None and _agrees(column_type, listed, known):
        return _as_text(known) if column_type.charset == AS_TEXT else known
    default = _default(listed, column_type)
    column = declared_column(listed, column_type, default, updated_bases=("timestamp", "datetime"))
    if column.comment is not None:
        column = msgspec.structs.replace(column, comment=_literal(column.comment))
    if known is None or known.type.base != column_type.base:
        return column
    if column_type.members is None and known.type.members is not None:
        column_type = msgspec.structs.replace(column_type, members=known.type.members)
    return msgspec.structs.replace(
        column,
        type=column_type,
        default=known.default if column.default is ABSENT else column.default,
        comment=column.comment or known.comment,
        generated=known.generated,
        on_update=column.on_update or known.on_update,
    )


def _agrees(column_type: ColumnType, listed: ListedColumn, known: Column) -> bool:
    """Return whether the known column agrees with the declared one and has more facts."""
    mine = known.type
    if (mine.base, mine.unsigned) != (column_type.base, column_type.unsigned):
        return False
    if listed.optional is not None and known.nullable is not None and listed.optional is not known.nullable:
        return False
    if column_type.members is not None:
        return mine.members == column_type.members
    is_sized = column_type.length is not None or column_type.scale is not None
    # 2.4 keeps the column's old size after a MODIFY without one.
    is_bare = mine.base in INTEGERS | FLOATS and mine.length is None
    return not is_sized or is_bare or (mine.length, mine.scale) == (column_type.length, column_type.scale)


def _as_text(column: Column) -> Column:
    return msgspec.structs.replace(column, type=msgspec.structs.replace(column.type, charset=AS_TEXT))


def _default(column: ListedColumn, column_type: ColumnType) -> Default | Absent:
    """Return the default: text of SQL without its quotes."""
    value = column.defaultValueExpression
    if value is None:
        return ABSENT
    text = value if isinstance(value, str) else msgspec.json.encode(value).decode()
    return read_default(_literal(text), column_type)


def _literal(text: str) -> str:
    """Return the content of a SQL literal without quotes and escapes."""
    return unquoted(f"'{text}'")


def id_of(table: TableId) -> str:
    """Return a table's `id` as the connector writes it: a name that begins or ends with a double quote stays
    unchanged (io.debezium.relational.TableId).
    """
    return ".".join(map(_quoted, (table.database, table.table)))


def _quoted(name: str) -> str:
    if name.startswith('"') or name.endswith('"'):
        return name
    return '"' + name.replace('"', '""') + '"'


NATIVE: Final = TableDialect("debezium", _type, _merged, _literal, id_of)
