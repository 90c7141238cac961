"""The charset and collation of a column: its own, its table's, or TiDB's default."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Final

from relay.model.events import ColumnType, TableSchema
from relay.mysql.types import CHARS

#: Types of columns that have a charset.
TEXTS: Final = CHARS | {"enum", "set"}
#: TiDB's default charset.
CHARSET: Final = "utf8mb4"
#: TiDB's default collations that are not named after their charset with `_bin`.
_COLLATIONS: Final = {"gbk": "gbk_chinese_ci", "gb18030": "gb18030_chinese_ci", "binary": "binary"}


def charset_of(column_type: ColumnType, schema: TableSchema | None) -> tuple[str, str]:
    """Return the charset and collation of a column type in a table; TiDB's default if neither names one."""
    charset, collation = column_type.charset, column_type.collation
    if charset is None and collation is None and schema is not None:
        charset, collation = schema.charset, schema.collation
    if charset is None:
        charset = CHARSET if collation is None else collation.partition("_")[0]
    return charset, collation or default_collation(charset)


def full_collation(collation: str | None, charset: str | None) -> str | None:
    """Return the full name of a collation: MariaDB's `uca1400_ai_ci` is `utf8mb4_uca1400_ai_ci` for utf8mb4.

    `charset`: that of the column or table; None means unknown, which counts as TiDB's default.
    """
    if collation is None or not collation.startswith("uca1400_"):
        return collation
    return f"{'utf8mb3' if charset == 'utf8' else charset or CHARSET}_{collation}"


def default_collation(charset: str) -> str:
    """Return TiDB's default collation of a charset."""
    return _COLLATIONS.get(charset, f"{charset}_bin")


def beyond_text(in_message: TableSchema, by_text: TableSchema | None) -> Iterator[str]:
    """Yield the column attributes that a message declares in addition to its statement's text, as in
    `SchemaChange.beyond_text`.

    `in_message`: the table's definition in the message. `by_text`: the definition from the statement's text
    alone; None if the text gives none.
    """
    known = {} if by_text is None else {column.name: column.type for column in by_text.columns}
    for column in in_message.columns:
        if column.type.base not in TEXTS:
            continue
        charset, collation = _named_alike(*charset_of(column.type, in_message))
        other, other_collation = _named_alike(*charset_of(known.get(column.name, _UNKNOWN), by_text))
        if charset != other:
            yield "charset" if column.type.base in CHARS else "enum_charset"
            other_collation = default_collation(charset)
        if collation != other_collation:
            yield "collation"


_UNKNOWN: Final = ColumnType("text")


def _named_alike(charset: str, collation: str) -> tuple[str, str]:
    """Replace `utf8mb3` with `utf8`, its name in TiDB and older MySQL."""
    names = (charset, collation)
    charset, collation = (f"utf8{name[7:]}" if name.startswith("utf8mb3") else name for name in names)
    return charset, collation
