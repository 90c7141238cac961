"""Rows written by compiled functions: structs print like dicts, whatever the columns are called."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest

from relay.codecs.shared.compiled import MAX_COLUMNS, row_function, row_struct

Steps = tuple[Callable[[Any], Any], ...]
NAMES = ("id", "a b", "für", "class", "😀", "{x}", "'")


def doubled(value: int) -> int:
    return value * 2


def zero() -> int:
    return 0


@pytest.mark.parametrize("names", [NAMES, ("id",), tuple(f"c{at}" for at in range(MAX_COLUMNS))])
def test_a_struct_prints_like_the_dict(names: tuple[str, ...]) -> None:
    cells = list(range(len(names)))
    as_dict, as_struct = (
        row_function(names, [()] * len(names), as_struct=wanted)(cells) for wanted in (False, True)
    )
    assert as_dict == dict(zip(names, cells, strict=True))
    assert not isinstance(as_struct, dict)
    assert msgspec.json.encode(as_struct) == msgspec.json.encode(as_dict)


@pytest.mark.parametrize(
    "names", [('a"b',), ("a\\b",), ("a\nb",), (), tuple(f"c{at}" for at in range(MAX_COLUMNS + 1))]
)
def test_names_that_no_struct_can_have_give_a_dict(names: tuple[str, ...]) -> None:
    cells = list(range(len(names)))
    assert row_struct(names) is None
    assert row_function(names, [()] * len(names), as_struct=True)(cells) == dict(
        zip(names, cells, strict=True)
    )


@pytest.mark.parametrize("more", [0, MAX_COLUMNS], ids=["compiled", "looped"])
@pytest.mark.parametrize(
    ("steps", "null", "cell", "written"),
    [
        ((), None, 3, 3),
        ((), None, None, None),
        ((), zero, None, 0),
        ((doubled,), None, None, None),
        ((doubled,), zero, None, 0),
        ((doubled,), zero, 3, 6),
        ((doubled, str), None, 3, "6"),
    ],
)
def test_conversions_follow_each_other_and_null_has_its_own(
    more: int, steps: Steps, null: Callable[[], Any] | None, cell: int | None, written: object
) -> None:
    names = [f"c{at}" for at in range(1 + more)]
    values = row_function(names, [steps, *[()] * more], [null, *[None] * more])
    assert values([cell, *range(more)])["c0"] == written
