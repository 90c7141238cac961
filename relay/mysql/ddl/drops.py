"""How a statement drops tables or views, for targets that write it anew with the tables' full names."""

from __future__ import annotations

from relay.errors import DdlNotUnderstood
from relay.mysql.ddl.tokens import Cursor, tokenize


def drop_words(sql: str) -> str | None:
    """Return what stands before the names, `DROP TABLE IF EXISTS` for example, without comments; None for a
    statement that begins with anything else.
    """
    try:
        cursor = Cursor(sql, tokenize(sql, backslash_escapes=True))
        if not cursor.accept("DROP"):
            return None
        cursor.accept_any("ONLINE", "OFFLINE")
        if cursor.accept_any("TABLE", "TABLES"):
            words = "DROP TABLE"
        elif cursor.accept("VIEW"):
            words = "DROP VIEW"
        else:
            return None
        return f"{words} IF EXISTS" if cursor.accept("IF", "EXISTS") else words
    except DdlNotUnderstood:
        return None
