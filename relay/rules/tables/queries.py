"""Finds the names of tables in queries, as those of views, and in foreign keys."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from relay.mysql.ddl.statements import LocatedName, TableName
from relay.mysql.ddl.tokens import Token
from relay.rules.columns.ddl_text import CannotRewrite, is_name


class FoundName(NamedTuple):
    """The name of a table in a statement.

    located: The name and its place.
    needs_alias: Other parts of the query may refer to the table by its name, because it has no alias.
    takes_alias: An alias may follow the name.
    """

    located: LocatedName
    needs_alias: bool = False
    takes_alias: bool = True


def name_at(tokens: Sequence[Token], at: int, sql: str) -> tuple[LocatedName, int]:
    """Return the name `table` or `database.table` at the index of a name, and the index after it."""
    first = tokens[at]
    if _word(tokens, at + 1) == "." and at + 2 < len(tokens) and is_name(tokens[at + 2], sql):
        second = tokens[at + 2]
        return LocatedName(TableName(second.text, first.text), first.start, second.end), at + 3
    return LocatedName(TableName(first.text), first.start, first.end), at + 1


def referenced_names(tokens: Sequence[Token], sql: str) -> Iterator[FoundName]:
    """Yield the tables that foreign keys refer to."""
    for at, token in enumerate(tokens):
        is_clause = token.kind == "word" and token.text.upper() == "REFERENCES"
        if is_clause and at + 1 < len(tokens) and is_name(tokens[at + 1], sql):
            yield FoundName(name_at(tokens, at + 1, sql)[0])


def queried_names(tokens: Sequence[Token], sql: str) -> Iterator[FoundName]:
    """Yield the tables that a query reads, in all its FROM clauses. Raises CannotRewrite for WITH."""
    # Outside of parentheses and in each open one: whether it is in a FROM clause, and a function's arguments.
    levels: list[tuple[bool, bool]] = [(False, False)]
    is_expected = False
    for at, token in enumerate(tokens):
        word = _word(tokens, at)
        in_clause, in_function = levels[-1]
        if word == "(":
            levels.append((is_expected, _word(tokens, at - 1) in _WITH_FROM))
            continue
        if word == ")":
            del levels[max(1, len(levels) - 1) :]
            is_expected = False
        elif _has_other_names(tokens, at):
            raise CannotRewrite
        elif word == "FROM":
            is_expected = not in_function and _word(tokens, at - 1) != "DISTINCT"
            levels[-1] = is_expected, in_function
        elif word in {"JOIN", "STRAIGHT_JOIN"} or (word == "," and in_clause):
            is_expected = True
        elif word in _AFTER_FROM:
            levels[-1], is_expected = (False, in_function), False
        elif is_expected:
            is_expected = word == "LATERAL"
            if is_name(token, sql) and not is_expected and _word(tokens, at + 1) != "(":
                yield _factor(tokens, at, sql)


def _has_other_names(tokens: Sequence[Token], at: int) -> bool:
    """Return whether names at an index may be those of tables and are not read: WITH, whose names may hide
    those of tables, and `TABLE t` in place of a query.
    """
    word, before, after = (_word(tokens, at + step) for step in (0, -1, 1))
    return (word == "WITH" and after not in _AFTER_WITH) or (word == "TABLE" and before not in _BEFORE_TABLE)


def _factor(tokens: Sequence[Token], at: int, sql: str) -> FoundName:
    """Return the table whose name begins at an index."""
    found, at = name_at(tokens, at, sql)
    has_alias = _word(tokens, at) == "AS" or (
        at < len(tokens) and is_name(tokens[at], sql) and _word(tokens, at) not in _AFTER_TABLES
    )
    takes_alias = _word(tokens, at) not in {"PARTITION", "FOR"}
    return FoundName(found, needs_alias=not has_alias, takes_alias=takes_alias)


def _word(tokens: Sequence[Token], at: int) -> str:
    """Return the unquoted word or the mark at an index, in upper case; "" for any other token."""
    if not 0 <= at < len(tokens) or tokens[at].kind not in {"word", "mark"}:
        return ""
    return tokens[at].text.upper()


#: Words after WITH that begin no common table expressions.
_AFTER_WITH: Final = frozenset({"CHECK", "CASCADED", "LOCAL", "ROLLUP"})
#: Words before TABLE in statements that create a table.
_BEFORE_TABLE: Final = frozenset({"CREATE", "REPLACE", "EXTERNAL"})
#: Words that end a FROM clause.
_AFTER_FROM: Final = frozenset(
    {
        *("SELECT", "WHERE", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "MINUS"),
        *("WINDOW", "QUALIFY", "FETCH", "OFFSET", "INTO", "LOCK", "PROCEDURE"),
    }
)
#: Functions with FROM between their arguments.
_WITH_FROM: Final = frozenset({"EXTRACT", "TRIM", "SUBSTRING", "SUBSTR", "MID", "OVERLAY", "POSITION"})
#: Words after a table's name that are no alias.
_AFTER_TABLES: Final = frozenset(
    {
        *(
            "WHERE",
            "JOIN",
            "INNER",
            "LEFT",
            "RIGHT",
            "FULL",
            "CROSS",
            "NATURAL",
            "STRAIGHT_JOIN",
            "ON",
            "USING",
        ),
        *(
            "GROUP",
            "ORDER",
            "HAVING",
            "LIMIT",
            "UNION",
            "EXCEPT",
            "INTERSECT",
            "MINUS",
            "WINDOW",
            "FOR",
            "USE",
        ),
        *(
            "FORCE",
            "IGNORE",
            "PARTITION",
            "WITH",
            "INTO",
            "LOCK",
            "PROCEDURE",
            "TABLESAMPLE",
            "QUALIFY",
            "OFFSET",
        ),
        *("FETCH", "SET", "AS"),
    }
)
