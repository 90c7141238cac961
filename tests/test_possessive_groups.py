"""No pattern that a module holds needs CPython 3.11.5: before it, a possessive group goes on from a wrong place if its body fails
behind something that has moved, a repetition or a lookahead (gh-106052).
"""

from __future__ import annotations

import importlib
import pkgutil
import re
from collections.abc import Iterable, Iterator
from typing import Any

import pytest

import relay
from relay.mysql.dumps import _inside

_parser: Any = importlib.import_module("re._parser")
_opcodes: Any = importlib.import_module("re._constants")
_REPEATS = {_opcodes.MAX_REPEAT, _opcodes.MIN_REPEAT, _opcodes.POSSESSIVE_REPEAT}
_ASSERTIONS = {_opcodes.ASSERT, _opcodes.ASSERT_NOT}
_SINGLE = {_opcodes.LITERAL, _opcodes.NOT_LITERAL, _opcodes.IN, _opcodes.ANY, _opcodes.CATEGORY}


def _parts(op: Any, value: Any) -> Iterator[Any]:
    """The sequences inside an item."""
    if op in _REPEATS:
        yield value[2]
    elif op is _opcodes.BRANCH:
        yield from value[1]
    elif op is _opcodes.SUBPATTERN:
        yield value[-1]
    elif op in _ASSERTIONS:
        yield value[1]
    elif op is _opcodes.ATOMIC_GROUP:
        yield value


def _all(sequence: Iterable[Any]) -> Iterator[Any]:
    for op, value in sequence:
        yield op, value
        for part in _parts(op, value):
            yield from _all(part)


def _may_fail(op: Any, value: Any) -> bool:
    return not (op in _REPEATS and value[0] == 0)


def _fails_late(sequence: Iterable[Any]) -> bool:
    """Whether a body may fail where something has moved: at or behind what is no single sign, which is not
    its first item, or within that.
    """
    moved = False
    for place, (op, value) in enumerate(sequence):
        is_single = op in _SINGLE
        if (moved or (not is_single and place > 0)) and _may_fail(op, value):
            return True
        if op in {_opcodes.BRANCH, _opcodes.SUBPATTERN} and any(map(_fails_late, _parts(op, value))):
            return True
        moved |= not is_single
    return False


def _is_wrong(pattern: re.Pattern[Any]) -> bool:
    parsed = _parser.parse(pattern.pattern, pattern.flags)
    bodies = [value[2] for op, value in _all(parsed) if op is _opcodes.POSSESSIVE_REPEAT]
    return any(_fails_late(body) for body in bodies if not (len(body) == 1 and body[0][0] in _SINGLE))


def _patterns() -> Iterator[tuple[str, re.Pattern[Any]]]:
    for module in pkgutil.walk_packages(relay.__path__, "relay."):
        if module.name.endswith("__main__"):
            continue
        for name, value in vars(importlib.import_module(module.name)).items():
            for number, each in enumerate(value.values() if isinstance(value, dict) else (value,)):
                found = getattr(each, "__self__", each)
                if isinstance(found, re.Pattern):
                    yield f"{module.name}.{name} {number}", found
    yield "relay.mysql.dumps._inside", _inside(b";")


def test_patterns_are_right_in_all_of_python_3_11() -> None:
    found = dict(_patterns())
    assert len(found) > 100
    assert [name for name, pattern in found.items() if _is_wrong(pattern)] == []


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
