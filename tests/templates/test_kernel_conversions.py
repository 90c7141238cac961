"""The kernel's conversions do what those in Python do (`templates.kernel_conversions`)."""

from __future__ import annotations

import random

import msgspec
import pytest
from engine_support import needs_kernel
from reference_engine.conversions import READS, WRITES
from support import QUICK
from templates import kernel_conversions
from templates.kernel_conversions import Pair, compare, counts, uses

_COUNTS = list(counts(2_000 if QUICK else 10_000))
_PARTS = 8


@needs_kernel
@pytest.mark.all_cases
@pytest.mark.parametrize("part", range(_PARTS))
def test_what_the_kernel_takes_is_what_python_makes(part: int) -> None:
    for pair, count in _COUNTS[part::_PARTS]:
        outcome = compare(pair, random.Random(pair.name), count)
        assert not outcome.differing, pair.name
        assert outcome.taken_by_kernel, pair.name


@needs_kernel
@pytest.mark.parametrize("name", ["decimal-number", "decimal-double"])
def test_a_column_of_fractions_alone_ends_below_one(name: str) -> None:
    numbers = ("0.5", "1", "-1.0", "1e0", "10e-1", "0", "0.999999999999999999")
    pair = Pair((name, 30, 30), ("decimal",), lambda chosen: chosen.choice(numbers))
    outcome = compare(pair, random.Random(1), 100)
    assert not outcome.differing
    assert outcome.taken_by_kernel


def test_every_conversion_is_compared() -> None:
    assert uses().keys() == READS.keys() | WRITES.keys()


@needs_kernel
def test_every_character_is_quoted_as_in_python_or_not_at_all() -> None:
    characters = iter([chr(code) for code in range(0x30000) if not 0xD800 <= code < 0xE000])
    count = 0x30000 - 0x800
    pair = Pair(("utf8",), ("go-quoted",), lambda _: msgspec.json.encode(next(characters)).decode())
    outcome = compare(pair, _Sure(), count)
    assert not outcome.differing
    assert outcome.taken_by_kernel > 980  # of Latin and Greek, which come first


class _Sure(random.Random):
    """Makes no faults."""

    def random(self) -> float:
        return 0.99


@needs_kernel
def test_a_difference_is_found(monkeypatch: pytest.MonkeyPatch) -> None:
    pair = Pair(("int",), None, lambda chosen: f'"{chosen.randint(1, 2)}"')
    monkeypatch.setattr(kernel_conversions, "in_python", lambda _: lambda _: b"1")
    outcome = compare(pair, random.Random(1), 20)
    assert set(outcome.differing) == {b'"2"'}
