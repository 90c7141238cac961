"""What stands before the names of tables that a statement drops or renames, for targets that write it."""

from __future__ import annotations

from relay.model.errors import DdlNotUnderstood
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
    return _rename(sql)[0]


def rename_clauses(sql: str) -> list[str]:
    """Return the clauses of a RENAME TABLE as written, `a TO b` for example, without comments; [] for a
    statement that begins with anything else.
    """
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
    """The words of a statement that renames, and a cursor behind those of RENAME TABLE; None for another."""
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
