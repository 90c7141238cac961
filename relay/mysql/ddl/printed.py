"""Formats a definition as a statement, for targets that show definitions as SQL.

`create_statement` returns CREATE TABLE in the spelling of SHOW CREATE TABLE. Parsing it yields the same
definition, apart from TiDB's properties of keys. It returns None if the definition lacks a necessary part:
the expression of a generated column, the length of a key's prefix. Parts that definitions do not store
(partitions, foreign keys, the engine) are omitted.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from relay.model.events import Column, Default, TableSchema
from relay.mysql.types import BINARIES, BLOBS, CHARS, format_type, is_hex, quoted_name


def create_statement(schema: TableSchema) -> str | None:
    """Return the statement that creates the table, without its database; None if it is unknown."""
    if schema.is_view or not schema.complete or any(column.generated for column in schema.columns):
        return None
    bases = {column.name: column.type.base for column in schema.columns}
    if any(bases.get(name) in _LONG for key in _keys(schema) for name in key):
        return None
    lines = [*map(column_text, schema.columns)]
    if schema.primary_key:
        lines.append(f"PRIMARY KEY {_names(schema.primary_key)}")
    lines += [f"UNIQUE KEY {quoted_name(key.name)} {_names(key.columns)}" for key in schema.unique_keys]
    lines += [f"KEY {quoted_name(key.name)} {_names(key.columns)}" for key in schema.indexes]
    body = ",\n  ".join(lines)
    return f"CREATE TABLE {quoted_name(schema.id.table)} (\n  {body}\n){''.join(_table_options(schema))}"


#: Types of which a key contains only a prefix of the values.
_LONG: Final = BLOBS | {base for base in CHARS if base.endswith("text")}


def _keys(schema: TableSchema) -> Iterator[tuple[str, ...]]:
    yield schema.primary_key or ()
    yield from (key.columns for key in schema.unique_keys)
    yield from (key.columns for key in schema.indexes)


def _names(columns: Sequence[str]) -> str:
    return f"({','.join(map(quoted_name, columns))})"


def _table_options(schema: TableSchema) -> Iterator[str]:
    if schema.charset:
        yield f" DEFAULT CHARSET={schema.charset}"
    if schema.collation:
        yield f" COLLATE={schema.collation}"
    if schema.comment:
        yield f" COMMENT={_literal(schema.comment)}"


def column_text(column: Column) -> str:
    """Return a column in the spelling of SHOW CREATE TABLE, without the expression of a generated one."""
    return " ".join([quoted_name(column.name), _type(column), *_attributes(column)])


def _type(column: Column) -> str:
    base, members = column.type.base, column.type.members
    if members is not None:
        return f"{base}({','.join(map(_literal, members))})"
    return (
        f"year({column.type.length})" if base == "year" and column.type.length else format_type(column.type)
    )


def _attributes(column: Column) -> Iterator[str]:
    if column.type.charset:
        yield f"CHARACTER SET {column.type.charset}"
    if column.type.collation:
        yield f"COLLATE {column.type.collation}"
    if column.nullable is False:
        yield "NOT NULL"
    elif column.type.base == "timestamp":
        yield "NULL"  # some servers default to NOT NULL here
    if isinstance(column.default, Default):
        yield f"DEFAULT {_default(column.default, column.type.base)}"
    if column.on_update is not None:
        yield f"ON UPDATE {column.on_update}"
    if column.auto_increment:
        yield "AUTO_INCREMENT"
    if column.comment:
        yield f"COMMENT {_literal(column.comment)}"


def _default(default: Default, base: str) -> str:
    text = default.text
    if text is None:
        return "NULL"
    if default.is_expression:
        return text if _BARE(text) else f"({text})"
    if base == "bit" and text.isascii() and text.isdigit():
        return f"b'{int(text):b}'"
    return text if base in BINARIES and is_hex(text) else _literal(text)


#: Expressions without parentheses.
_BARE: Final = re.compile(
    r"CURRENT_TIMESTAMP(?:\(\d\))?|NEXT VALUE FOR .*", re.IGNORECASE | re.DOTALL
).fullmatch


def _literal(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace("'", "''")
    return f"'{escaped}'"
