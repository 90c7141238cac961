"""Finds the names of tables in queries, as those of views, in foreign keys and in uses of sequences."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

from relay.mysql.ddl.statements import LocatedName, TableName
from relay.mysql.ddl.tokens import Token
from relay.rules.rewriting import CannotRewrite, is_name


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
    """Return the name `table` or `database.table` at the index of a name, and the index after it.

    After a dot, a name may consist of digits only.
    """
    first = tokens[at]
    second = tokens[at + 2] if _word(tokens, at + 1) == "." and at + 2 < len(tokens) else None
    if second is not None and (second.kind == "number" or is_name(second, sql)):
        return LocatedName(TableName(second.text, first.text), first.start, second.end), at + 3
    return LocatedName(TableName(first.text), first.start, first.end), at + 1


def referenced_names(tokens: Sequence[Token], sql: str) -> Iterator[FoundName]:
    """Yield the tables that foreign keys refer to, and the sequences that values come from."""
    for at in range(1, len(tokens)):
        if is_name(tokens[at], sql) and _refers(tokens, at - 1):
            yield FoundName(name_at(tokens, at, sql)[0])


def _refers(tokens: Sequence[Token], at: int) -> bool:
    """Return whether the name of a table or of a sequence follows the index."""
    word, before = _word(tokens, at), _word(tokens, at - 1)
    is_value = word == "FOR" and before == "VALUE" and _word(tokens, at - 2) in {"NEXT", "PREVIOUS"}
    return word == "REFERENCES" or is_value or (word == "(" and before in _OF_SEQUENCES)


def merged_names(tokens: Sequence[Token], sql: str) -> Iterator[FoundName]:
    """Yield the tables that a MERGE table consists of, in its option UNION=(a, b)."""
    for option in range(len(tokens)):
        opening = option + 1 + (_word(tokens, option + 1) == "=")
        if _word(tokens, option) != "UNION" or _word(tokens, opening) != "(":
            continue
        at = opening + 1
        while at < len(tokens) and is_name(tokens[at], sql) and _word(tokens, at) not in _QUERIES:
            name, at = name_at(tokens, at, sql)
            yield FoundName(name)
            at += _word(tokens, at) == ","


def queried_names(tokens: Sequence[Token], sql: str) -> Iterator[FoundName]:
    """Yield the tables that a query reads, in all its FROM clauses.

    Raises CannotRewrite for names that it does not read, as those of WITH.
    """
    # Outside of parentheses and in each open one: whether it is in a FROM clause, and a function's arguments.
    levels: list[tuple[bool, bool]] = [(False, False)]
    is_expected = False
    for at in range(len(tokens)):
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
            is_expected = not in_function and _is_clause(tokens, at)
            levels[-1] = is_expected, in_function
        elif in_clause and _word(tokens, at - 1) != "FOR" and word in _BEFORE_FACTORS:
            is_expected = True
        elif word in _AFTER_FROM:
            levels[-1], is_expected = (False, in_function), False
        elif is_expected:
            is_expected = word == "LATERAL"
            if not is_expected and _word(tokens, at + 1) != "(" and _word(tokens, at) != "DUAL":
                yield _factor(tokens, at, sql)


def _is_clause(tokens: Sequence[Token], at: int) -> bool:
    """Return whether FROM at an index begins a clause: not IS DISTINCT FROM, nor FROM FIRST of a function."""
    is_of_window = _word(tokens, at + 1) in {"FIRST", "LAST"} and _word(tokens, at + 2) in _AFTER_WINDOWED
    return _word(tokens, at - 1) != "DISTINCT" and not is_of_window


def _has_other_names(tokens: Sequence[Token], at: int) -> bool:
    """Return whether names at an index may be those of tables and are not read: WITH, whose names may hide
    those of tables; `TABLE t` in place of a query; and FOR UPDATE OF, which names tables or their aliases.
    """
    word, before, after = (_word(tokens, at + step) for step in (0, -1, 1))
    is_with = word == "WITH" and (after not in _AFTER_WITH or _word(tokens, at + 2) in {"AS", "("})
    is_query = word == "TABLE" and before not in _BEFORE_TABLE
    return is_with or is_query or (word == "OF" and before in {"UPDATE", "SHARE"})


def _factor(tokens: Sequence[Token], at: int, sql: str) -> FoundName:
    """Return the table whose name begins at an index. Raises CannotRewrite for anything else."""
    if not is_name(tokens[at], sql) or (_word(tokens, at), _word(tokens, at + 1)) == ("VALUES", "ROW"):
        raise CannotRewrite
    found, at = name_at(tokens, at, sql)
    following = _word(tokens, at)
    is_past = (following, _word(tokens, at + 1)) == ("AS", "OF")  # a stale read of TiDB
    has_alias = (following == "AS" and not is_past) or (
        at < len(tokens) and is_name(tokens[at], sql) and following not in _AFTER_TABLES
    )
    takes_alias = following not in {"PARTITION", "FOR"} and not is_past
    return FoundName(found, needs_alias=not has_alias, takes_alias=takes_alias)


def _word(tokens: Sequence[Token], at: int) -> str:
    """Return the unquoted word or the mark at an index, in upper case; "" for any other token."""
    if not 0 <= at < len(tokens) or tokens[at].kind not in {"word", "mark"}:
        return ""
    return tokens[at].text.upper()


#: Words after WITH that begin no common table expressions.
_AFTER_WITH: Final = frozenset({"CHECK", "CASCADED", "LOCAL", "ROLLUP"})
#: Words and marks before another table in a FROM clause.
_BEFORE_FACTORS: Final = frozenset({"JOIN", "STRAIGHT_JOIN", ","})
#: Words after the FROM FIRST of a window function.
_AFTER_WINDOWED: Final = frozenset({"OVER", "RESPECT", "IGNORE"})
#: Words at the beginning of queries.
_QUERIES: Final = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
#: Functions of a sequence.
_OF_SEQUENCES: Final = frozenset({"NEXTVAL", "LASTVAL", "SETVAL"})
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
