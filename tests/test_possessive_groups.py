"""No pattern that a module holds needs CPython 3.11.5: before it, a possessive group goes on from a wrong place if its body fails
behind something that has moved, a repetition or a lookahead (gh-106052).
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest
from regex_support import REPEATS, SINGLE, expressions, inside, opcodes, parser


def _all(sequence: Iterable[Any]) -> Iterator[Any]:
    for op, value in sequence:
        yield op, value
        for part in inside(op, value):
            yield from _all(part)


def _may_fail(op: Any, value: Any) -> bool:
    return not (op in REPEATS and value[0] == 0)


def _fails_late(sequence: Iterable[Any]) -> bool:
    """Whether a body may fail where something has moved: at or behind what is no single sign, which is not
    its first item, or within that.
    """
    moved = False
    for index, (op, value) in enumerate(sequence):
        is_single = op in SINGLE
        if (moved or (not is_single and index > 0)) and _may_fail(op, value):
            return True
        if op in {opcodes.BRANCH, opcodes.SUBPATTERN} and any(map(_fails_late, inside(op, value))):
            return True
        moved |= not is_single
    return False


def _is_wrong(pattern: re.Pattern[Any]) -> bool:
    parsed = parser.parse(pattern.pattern, pattern.flags)
    bodies = [value[2] for op, value in _all(parsed) if op is opcodes.POSSESSIVE_REPEAT]
    return any(_fails_late(body) for body in bodies if not (len(body) == 1 and body[0][0] in SINGLE))


def test_patterns_are_right_in_all_of_python_3_11() -> None:
    assert [
        f"{each.where} {each.pattern.pattern!r}" for each in expressions() if _is_wrong(each.pattern)
    ] == []


@pytest.mark.parametrize(
    ("pattern", "is_wrong"),
    [
        (r"/\*(?:[^*]++|\*(?!/))*+\*/", True),
        (r"(?:#[^\n]*+\n)*+", True),
        (r"1(?:\.[0-9]++)?+", True),
        (r"(?:(?:a++b|c)d?)*+", True),
        (r"(?:(a++b)c?)*+", True),
        (r"'(?:[^'\\]++|\\.)*+'", False),
        (r"(?:\\.[^\"]*+)*+", False),
        (r"(?>(?:#[^\n]*+\n)*)", False),
    ],
)
def test_what_python_3_11_2_matches_otherwise_is_known(pattern: str, is_wrong: bool) -> None:
    assert _is_wrong(re.compile(pattern)) is is_wrong
