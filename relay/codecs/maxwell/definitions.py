"""Reading and writing the table definitions in Maxwell's DDL messages.

    {"database", "charset", "table", "columns": [{"type", "name", …}], "primary-key": [column]}

A column has, by its type, `signed` (integers), `charset` (text and binary types), `enum-values` (labels as
spelled in the statement) or `column-length` (digits of a second). Lengths, precision, NULL, defaults and
other keys are only in the statement next to it. Source: zendesk/maxwell 1.45 schema/Table.java,
schema/columndef.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

from relay.codecs.maxwell.options import NAME
from relay.codecs.maxwell.values import spelled
from relay.codecs.shared.lenient_json import REFUSED, complaint
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage
from relay.model.errors import Malformed
from relay.model.events import Column, ColumnType, TableId, TableSchema
from relay.model.limits import Limits, check_columns
from relay.mysql.ddl.tokens import unquoted
from relay.mysql.types import (
    BINARIES,
    CHARS,
    FRACTIONAL,
    GEOMETRIES,
    INTEGERS,
    as_binary,
    checked_type,
    parse_type,
)

_DEFAULT_CHARSET: Final = "utf8mb4"


class _Column(msgspec.Struct):
    type: str
    name: str
    signed: bool | None = None
    charset: str | None = None
    labels: list[str] | None = msgspec.field(name="enum-values", default=None)
    digits: int | None = msgspec.field(name="column-length", default=None)


class MaxwellDefinition(OpenMessage):
    """A table. TiCDC's dialect writes null for unknown facts."""

    database: str | None = None
    charset: str | None = None
    table: str | None = None
    columns: list[_Column] | None = None
    primary_key: list[str] | None = msgspec.field(name="primary-key", default=None)


_parse: Final = MessageParser(MaxwellDefinition).parse


def parse_definition(text: msgspec.Raw, path: str, limits: Limits) -> MaxwellDefinition | None:
    """Read a definition, None if there is none. Raises Malformed."""
    if bytes(text) == b"null":
        return None
    try:
        found = _parse(text)
    except REFUSED as error:
        where, reason = complaint(error)
        raise Malformed(NAME, f"{path}.{where}" if where else path, reason) from None
    check_columns(NAME, path, len(found.columns or ()), limits)
    return found


def table_of(declared: MaxwellDefinition | None) -> TableId | None:
    """Return the table's name, None if it is missing."""
    if declared is None or not declared.table:
        return None
    return TableId(declared.database or "", declared.table)


def defined(declared: MaxwellDefinition, table: TableId, known: TableSchema | None) -> TableSchema | None:
    """Return the declared definition, or `known`, the definition by the statement's text, if that agrees and
    has more facts; None if no columns are declared.

    Raises Malformed for an invalid type, or a column that occurs twice.
    """
    columns = declared.columns or ()
    if not columns:
        return known
    of_name = {} if known is None else {column.name: column for column in known.columns}
    found = tuple([_column(each, of_name.get(each.name)) for each in columns])
    names = [column.name for column in found]
    if len({name.lower() for name in names}) < len(names) or "" in names:
        raise Malformed(NAME, "def.columns", "a column without a name, or a duplicate one")
    before = known or TableSchema(table, (), charset=declared.charset)
    key = before.primary_key if declared.primary_key is None else tuple(declared.primary_key)
    if key is not None and not (set(key) <= set(names) and len(set(key)) == len(key)):
        key = None
    if known is not None and found == known.columns and key == known.primary_key:
        return known
    return msgspec.structs.replace(before, columns=found, primary_key=key)


def _column(declared: _Column, known: Column | None) -> Column:
    try:
        column_type = _type(declared)
    except ValueError as error:
        raise Malformed(NAME, f"def.columns.{declared.name}", str(error)) from None
    if known is not None and _agrees(column_type, declared, known.type):
        return known
    if known is None:
        return Column(declared.name, column_type)
    return msgspec.structs.replace(known, type=column_type)


def _type(declared: _Column) -> ColumnType:
    """Return the column's type, without missing parameters. Raises ValueError."""
    base = parse_type(declared.type).base
    if base in CHARS and declared.charset == "binary":
        return ColumnType(as_binary(base))
    # Every ENUM has members: relay writes an empty list if they are unknown.
    members = tuple([unquoted(f"'{label}'") for label in declared.labels]) if declared.labels else None
    return checked_type(
        ColumnType(
            base,
            unsigned=declared.signed is False,
            length=declared.digits if base in FRACTIONAL else None,
            charset=declared.charset if base in CHARS else None,
            members=members if base in {"enum", "set"} else None,
        )
    )


def _agrees(column_type: ColumnType, declared: _Column, known: ColumnType) -> bool:
    """Return whether a known type agrees with the declared one and has more facts."""
    if column_type.base != known.base or (known.base in INTEGERS and column_type.unsigned != known.unsigned):
        return False
    if known.base in FRACTIONAL and column_type.length is not None:
        return column_type.length == (known.length or 0)
    if not declared.labels or known.members is None:
        return column_type.members is None or known.members is not None
    return column_type.members == known.members or [*map(spelled, known.members)] == declared.labels


# ---------------------------------------------------------------- written


def table_json(schema: TableSchema) -> dict[str, Any]:
    """Return a definition in Maxwell's form."""
    charset = schema.charset or _charset_of(schema.collation) or _DEFAULT_CHARSET
    return {
        "database": schema.id.database,
        "charset": charset,
        "table": schema.id.table,
        "columns": [_column_json(column, charset) for column in schema.columns],
        "primary-key": list(schema.primary_key or ()),
    }


def _charset_of(collation: str | None) -> str | None:
    return None if collation is None else collation.partition("_")[0]


def _column_json(column: Column, charset: str) -> dict[str, Any]:
    column_type = column.type
    base = column_type.base
    shown: dict[str, Any] = {"type": base, "name": column.name}
    if base in INTEGERS:
        shown["signed"] = not column_type.unsigned
    elif base in CHARS:
        shown["charset"] = column_type.charset or _charset_of(column_type.collation) or charset
    elif base in BINARIES and base not in GEOMETRIES:
        shown["charset"] = "binary"
    elif base in {"enum", "set"}:
        shown["enum-values"] = [spelled(label) for label in column_type.members or ()]
    elif base in FRACTIONAL:
        shown["column-length"] = column_type.length or 0
    return shown
