"""Statements that are not understood: whether they may change tables, and which ones they may name."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Final

from relay.model.errors import DdlNotUnderstood
from relay.model.limits import MYSQL_NAME
from relay.mysql.ddl.tokens import Token, tokenize

#: Blanks, comments and markers of executable comments before the first keyword of a text, at most 1000 per
#: match (`relay.mysql.dumps` explains the atomic group).
_BLANKS_AND_COMMENTS: Final = re.compile(
    r"(?>(?:\s++|/\*(?:M?!\d*+|T!(?:\[[^\]*]*+\])?)|/\*(?!!|M!|T!).*?\*/|(?:--|#)[^\n]*+\n){1,1000})",
    re.DOTALL,
).match
#: Beginnings of statements that change a table.
_CHANGES_A_TABLE: Final = re.compile(
    r"(?:ALTER|CREATE|DROP|RENAME|RECOVER|FLASHBACK|RESTORE|SET\s+STATEMENT)\b", re.IGNORECASE
).match
#: Unquoted names.
_WORDS: Final = re.compile(r"[0-9a-z_$\u0080-\U0010FFFF]+").findall


def may_change_a_table(ddl: str) -> bool:
    """Return whether an unparsed text may change tables, judged by the first keywords of its statements."""
    return any(map(_begins_as_change, ddl.split(";")))


def _begins_as_change(part: str) -> bool:
    at = 0
    while found := _BLANKS_AND_COMMENTS(part, at):
        at = found.end()
    return _CHANGES_A_TABLE(part, at) is not None


def words_in(text: str) -> set[str]:
    """Return the words in a text that may be names, quoted or not, in lower case."""
    lowered = text.lower()
    return {*_WORDS(lowered), *lowered.split("`"), *lowered.split('"')}


#: The beginning of a text that is not understood, and after which all tables that it names are unknown.
_UNREADABLE: Final = "ALTER ?"


def names_only(ddl: str) -> str:
    """Return a text with the same effect as one that is not understood, with names alone.

    It is "" if the text changes no table. Names after the first quote are included only if it is certain
    where strings end.
    """
    if ddl.startswith(_UNREADABLE):
        return ddl
    if not may_change_a_table(ddl):
        return ""
    names = dict.fromkeys(_names(ddl, _certain_tokens(ddl)))
    return " ".join([_UNREADABLE, *[f"`{name}`" for name in names]])


def _certain_tokens(ddl: str) -> Sequence[Token]:
    for text in (ddl, ddl.partition("'")[0].partition('"')[0]):
        try:
            readings = [tokenize(text, backslash_escapes=escapes) for escapes in (True, False)]
        except DdlNotUnderstood:
            continue
        first, second = ([(token.start, token.end) for token in tokens] for tokens in readings)
        if first == second:
            return readings[0]
    return ()


def _names(ddl: str, tokens: Sequence[Token]) -> Iterator[str]:
    before = ""
    for token in tokens:
        is_quoted = token.kind == "string" and ddl[token.start] == '"' and before in _BEFORE_TABLES
        is_name = token.kind in {"word", "name"} or is_quoted
        if is_name and len(token.text) <= MYSQL_NAME and "`" not in token.text:
            yield token.text
        before = token.text.upper() if token.kind in {"word", "mark"} else ""


#: Words and marks before the name of a table, which is in double quotes with sql_mode ANSI_QUOTES. LIKE is
#: not one of them: it also precedes values, and CREATE TABLE … LIKE does not change the second table.
_BEFORE_TABLES: Final = frozenset({"TABLE", "TABLES", "EXISTS", "TO", "VIEW", "."})
