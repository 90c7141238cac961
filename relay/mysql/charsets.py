"""Which charset and collation a column has: its own, those of its table, or TiDB's."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.model import ColumnType, TableSchema
from relay.mysql.types import CHARS

#: Types of columns that have a charset.
TEXTS: Final = CHARS | {"enum", "set"}
#: TiDB's charset where nothing says another.
CHARSET: Final = "utf8mb4"
#: TiDB's collations of charsets whose name is not that of the charset with `_bin`.
_COLLATIONS: Final = {"gbk": "gbk_chinese_ci", "gb18030": "gb18030_chinese_ci", "binary": "binary"}


def charset_of(column_type: ColumnType, schema: TableSchema | None) -> tuple[str, str]:
    """Return the charset and the collation of a type in a table: TiDB's own where nothing says another."""
    charset, collation = column_type.charset, column_type.collation
    if charset is None and collation is None and schema is not None:
        charset, collation = schema.charset, schema.collation
    if charset is None:
        charset = CHARSET if collation is None else collation.partition("_")[0]
    return charset, collation or default_collation(charset)


def default_collation(charset: str) -> str:
    """Return TiDB's collation of a charset that is named alone."""
    return _COLLATIONS.get(charset, f"{charset}_bin")


def beyond_text(told: TableSchema, by_text: TableSchema | None) -> Iterator[str]:
    """Find what a message says of a table's columns beyond its statement: `charset`, `collation`.

    `by_text`: the definition that the statement alone gives the table, None if it gives none.
    """
    known = {} if by_text is None else {column.name: column.type for column in by_text.columns}
    for column in told.columns:
        if column.type.base not in TEXTS:
            continue
        charset, collation = _named_alike(*charset_of(column.type, told))
        other, other_collation = _named_alike(*charset_of(known.get(column.name, _UNKNOWN), by_text))
        if charset != other:
            yield "charset"
            other_collation = default_collation(charset)
        if collation != other_collation:
            yield "collation"


_UNKNOWN: Final = ColumnType("text")


def _named_alike(charset: str, collation: str) -> tuple[str, str]:
    """Give MySQL's `utf8mb3` the name that TiDB and older MySQL have for it."""
    names = (charset, collation)
    charset, collation = (f"utf8{name[7:]}" if name.startswith("utf8mb3") else name for name in names)
    return charset, collation
