"""The beginning of DROP and RENAME statements, before the tables' names, for targets that rewrite them."""

from __future__ import annotations

from relay.model.errors import DdlNotUnderstood
from relay.mysql.ddl.tokens import Cursor, tokenize


def drop_keywords(sql: str) -> str | None:
    """Return the text before the names, such as `DROP TABLE IF EXISTS`, without comments; None for a
    statement that is not such a DROP.
    """
    cursor = _cursor(sql)
    if cursor is None or not cursor.accept("DROP"):
        return None
    cursor.accept_any("ONLINE", "OFFLINE")
    if cursor.accept_any("TABLE", "TABLES"):
        return _with_condition("DROP TABLE", cursor)
    return _with_condition("DROP VIEW", cursor) if cursor.accept("VIEW") else None


def rename_keywords(sql: str) -> str:
    """Return the text before the names in an equivalent RENAME TABLE, with MariaDB's IF EXISTS if the
    statement has it.
    """
    return _rename(sql)[0]


def rename_clauses(sql: str) -> list[str]:
    """Return the clauses of a RENAME TABLE, such as `a TO b`, without comments; [] for other statements."""
    cursor = _rename(sql)[1]
    if cursor is None:
        return []
    clauses = []
    while not cursor.at_end():
        start = cursor.peek().start
        cursor.skip_item()
        clauses.append(cursor.text_from(start))
        if not cursor.accept(","):
            break
    return clauses


def _rename(sql: str) -> tuple[str, Cursor | None]:
    """Return the text before the names in an equivalent RENAME TABLE, and a cursor after it; None instead of
    the cursor if the statement is not RENAME TABLE.
    """
    words, cursor = "RENAME TABLE", _cursor(sql)
    if cursor is None:
        return words, None
    is_rename = cursor.accept("RENAME")
    if not is_rename:
        cursor.accept("ALTER")
    cursor.accept_any("ONLINE", "OFFLINE")
    cursor.accept("IGNORE")
    if not cursor.accept_any("TABLE", "TABLES"):
        return words, None
    return _with_condition(words, cursor), cursor if is_rename else None


def _cursor(sql: str) -> Cursor | None:
    try:
        return Cursor(sql, tokenize(sql, backslash_escapes=True))
    except DdlNotUnderstood:
        return None


def _with_condition(words: str, cursor: Cursor) -> str:
    return f"{words} IF EXISTS" if cursor.accept("IF", "EXISTS") else words
