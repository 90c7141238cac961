"""What rules of all kinds need to rewrite statements: names, literals, and why it is impossible."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

from relay.mysql.ddl.tokens import Token


class CannotRewrite(Exception):
    """A statement has no counterpart in the target. The text says why, without values."""

    def __init__(self, reason: str = "it uses a name that has no certain counterpart") -> None:
        super().__init__(reason)


#: The reason for statements that are not understood, and for those that exceed a limit.
_NOT_UNDERSTOOD: Final = "relay does not understand the statement"


def why(error: Exception) -> str:
    """Return the reason of an error of rewriting: the text of a parser's error may quote the statement."""
    return str(error) if isinstance(error, CannotRewrite) else _NOT_UNDERSTOOD


def folded(name: str) -> str:
    """Return a column's name without letter case, one character for each, as MySQL compares names."""
    return (
        name.lower() if name.isascii() else "".join(["i" if each == "İ" else each.lower() for each in name])
    )


def is_name(token: Token, sql: str) -> bool:
    """Return whether a token may be a name: quoted or not, also in double quotes (ANSI_QUOTES)."""
    return token.kind in {"word", "name"} or (token.kind == "string" and sql[token.start] == '"')


def has_literals(tokens: Iterable[Token], sql: str) -> bool:
    """Return whether tokens have literals, which may be values: strings and numbers."""
    return any(
        token.kind in {"number", "bits"} or (token.kind == "string" and not is_name(token, sql))
        for token in tokens
    )
