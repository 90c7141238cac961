"""Regular expressions that users write for names: a part of the syntax that Python and Java read alike.

Characters, sets, `\\d`, `\\w` and `\\s`, groups, alternatives and repetitions of characters. No expression
takes exponential time.
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Final, NamedTuple

from relay.text.redaction import quoted

_TOKEN: Final = re.compile(
    r"""
      (?P<escape> \\. )
    | (?P<set> \[\^?\]?(?:[^\]\\]|\\.)*+\] )
    | (?P<open> \((?:\?:|\?P<\w++>)? )
    | (?P<close> \) )
    | (?P<repeat> (?:[*+?]|\{\d*+,?\d*+\})[?+]? )
    | (?P<branch> \| )
    | (?P<dot> \. )
    | (?P<other> [^\\\[()*+?|.^$] )
    """,
    re.VERBOSE | re.DOTALL,
)
#: Escapes of letters that stand for one character.
_CLASSES: Final = frozenset("dDwWsS")
#: Marks of classes, nested sets and operations on sets, which Python's expressions do not have yet.
_SET_MARKS: Final = ("[", "--", "&&", "||", "~~")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)
#: Maximum number of repetitions in an expression. Its time on a name grows with them.
_MOST_REPEATS: Final = 4
#: Tokens that match one character.
_REPEATABLE: Final = frozenset({"escape", "set", "dot", "other"})


class ExpressionToken(NamedTuple):
    """A piece of an expression, and where it begins."""

    kind: str
    text: str
    start: int


def without_anchors(text: str) -> str:
    """Return an expression without `^` and `$` around it: it is matched with whole names anyway."""
    text = text.removeprefix("^")
    return text if text.endswith("\\$") else text.removesuffix("$")


def tokens(text: str, user: str = "rules") -> list[ExpressionToken]:
    """Split an expression. `user`: what has it, in messages. Raises ValueError for other syntax."""
    found: list[ExpressionToken] = []
    at = 0
    if "\0" in text:
        raise ValueError("contains a NUL character, which names cannot have")
    while at < len(text):
        match = _TOKEN.match(text, at)
        if match is None:
            raise ValueError(f"has {quoted(text[at])} at character {at + 1}, which {user} cannot have there")
        kind, part = match.lastgroup or "", match[0]
        if kind == "escape" and part[1].isalnum() and part[1] not in _CLASSES:
            raise ValueError(f"has {quoted(part)}: of escaped letters, {user} have only \\d, \\w and \\s")
        if kind == "set" and any(marks in _ESCAPED.sub("", part[1:]) for marks in _SET_MARKS):
            raise ValueError(f"has the set {quoted(part)}, which other programs read in another way")
        found.append(ExpressionToken(kind, part, at))
        at = match.end()
    return found


def check_repeats(found: Sequence[ExpressionToken], user: str = "rules") -> None:
    """Raise ValueError for repetitions that could take long: of groups, or too many."""
    repeats, before = 0, "open"
    for token in found:
        if token.kind == "repeat" and before == "open" and token.start and token.text.startswith("?"):
            raise ValueError(f"has a group that begins with '(?': {user} have neither lookaheads nor flags")
        if token.kind == "repeat":
            is_optional = token.text.startswith("?")
            if before not in _REPEATABLE and not (is_optional and before == "close"):
                what = "a group" if before == "close" else "nothing"
                raise ValueError(f"repeats {what} with {quoted(token.text)}: {user} repeat characters only")
            repeats += not is_optional
        before = token.kind
    if repeats > _MOST_REPEATS:
        raise ValueError(f"has more than {_MOST_REPEATS} repetitions")


def name_expression(text: str, user: str) -> str:
    """Return an expression for whole names, without anchors and names of groups: Java reads it alike.

    Raises ValueError for an expression with other syntax, or one that is wrong.
    """
    found = tokens(without_anchors(text), user)
    check_repeats(found, user)
    if not found:
        raise ValueError("matches no name")
    for token in found:
        if token.text == "{" or token.text.startswith("{,"):
            where = f"{quoted(token.text)} at character {token.start + 1}"
            raise ValueError(f"has {where}, which Java does not read")
    plain = "".join("(?:" if each.kind == "open" else each.text for each in found)
    try:
        re.compile(plain)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error.msg}") from None
    return plain


def is_whole_match(expression: str, name: str) -> bool:
    """Return whether an expression matches a whole name."""
    return re.fullmatch(expression, name) is not None
