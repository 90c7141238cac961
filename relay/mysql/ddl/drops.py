"""What stands before the names of tables that a statement drops or renames, for targets that write it."""

from __future__ import annotations

from relay.errors import DdlNotUnderstood
from relay.mysql.ddl.tokens import Cursor, tokenize


def drop_words(sql: str) -> str | None:
    """Return what stands before the names, `DROP TABLE IF EXISTS` for example, without comments; None for a
    statement that begins with anything else.
    """
    cursor = _cursor(sql)
    if cursor is None or not cursor.accept("DROP"):
        return None
    cursor.accept_any("ONLINE", "OFFLINE")
    if cursor.accept_any("TABLE", "TABLES"):
        return _with_condition("DROP TABLE", cursor)
    return _with_condition("DROP VIEW", cursor) if cursor.accept("VIEW") else None


def rename_words(sql: str) -> str:
    """Return what RENAME TABLE says before the names if it does what this statement does, which renames:
    MariaDB has IF EXISTS.
    """
    words, cursor = "RENAME TABLE", _cursor(sql)
    if cursor is None:
        return words
    cursor.accept_any("RENAME", "ALTER")
    cursor.accept_any("ONLINE", "OFFLINE")
    cursor.accept("IGNORE")
    return _with_condition(words, cursor) if cursor.accept_any("TABLE", "TABLES") else words


def _cursor(sql: str) -> Cursor | None:
    try:
        return Cursor(sql, tokenize(sql, backslash_escapes=True))
    except DdlNotUnderstood:
        return None


def _with_condition(words: str, cursor: Cursor) -> str:
    return f"{words} IF EXISTS" if cursor.accept("IF", "EXISTS") else words
