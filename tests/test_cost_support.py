"""What measures costs finds what is too much."""

from __future__ import annotations

import pytest
from cost_support import assert_cheap, assert_linear, cost_of

MB = 1_000_000


def quadratic(factor: int) -> None:
    size = 700 * factor
    for _ in range(size):
        sum(range(size))


def linear(factor: int) -> None:
    sum(range(700_000 * factor))


def test_quadratic_work_is_found() -> None:
    with pytest.raises(pytest.fail.Exception, match="where a part of 1/8 took"):
        assert_linear(quadratic)
    assert_linear(linear)


def test_memory_is_found_although_the_process_had_more_before() -> None:
    list(bytes(80 * MB))
    assert 30 * MB < cost_of(lambda: bytearray(b"x" * 40 * MB)).bytes < 120 * MB
    assert cost_of(lambda: None).bytes < 5 * MB
    with pytest.raises(AssertionError):
        assert_cheap(lambda: bytearray(b"x" * 40 * MB), most_bytes=30 * MB)


def test_time_is_found() -> None:
    with pytest.raises(AssertionError):
        assert_cheap(lambda: linear(20), seconds=0.01)


def test_work_that_raises_costs_nothing_certain() -> None:
    with pytest.raises(AssertionError, match="it raised"):
        cost_of(lambda: int("x"))
