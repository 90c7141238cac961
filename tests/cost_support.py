"""What something costs: time of the processor, memory, and whether both are linear."""

from __future__ import annotations

import ctypes
import gc
import os
import pickle
import resource
import time
import traceback
import tracemalloc
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import NamedTuple

import pytest

#: How much more input the larger of two runs gets, and how much longer it may take: quadratic work would take
#: the square of the first.
FACTOR = 8
_MOST = 3 * FACTOR
#: Seconds of the larger run below which nothing is said: too little to measure.
_MEASURABLE = 0.15
#: Seconds of `_reference_seconds` on the machine whose seconds `Cost` is given in.
_REFERENCE_SECONDS = 0.08
_KIB = 1024


class Cost(NamedTuple):
    """Seconds of the processor, and by how many bytes the process grew at most.

    On a machine that is slow, or shares its caches with other work, the seconds are those that one takes which
    does the reference work in its usual time.
    """

    seconds: float
    bytes: int


@contextmanager
def others_kept() -> Iterator[None]:
    """Hide all that is there from the garbage collector, which else looks through everything that pytest and
    other tests hold.
    """
    gc.freeze()
    try:
        yield
    finally:
        gc.unfreeze()


def held_by(work: Callable[[], object]) -> int:
    """How many bytes are kept after some work."""
    with others_kept():
        tracemalloc.start()
        try:
            work()
            gc.collect()
            return tracemalloc.get_traced_memory()[0]
        finally:
            tracemalloc.stop()


def seconds_of(work: Callable[[], object]) -> float:
    """Seconds of the processor, without the garbage collector, whose work depends on what else is there."""
    gc.disable()
    began = time.process_time()
    try:
        work()
        return time.process_time() - began
    finally:
        gc.enable()


def assert_linear(work: Callable[[int], object]) -> None:
    """Assert that `FACTOR` times the input costs about so much more time, in the best of some runs: others may
    have had to share caches and memory with what else the machine does.
    """
    small = large = float("inf")
    for _ in range(4):
        large = min(large, seconds_of(lambda: work(FACTOR)))
        if large < _MEASURABLE:
            return
        small = min(small, *[seconds_of(lambda: work(1)) for _ in range(3)])
        if large < _MOST * small:
            return
    pytest.fail(f"{large:.3f} s, where a part of 1/{FACTOR} took {small:.3f} s")


def assert_cheap(work: Callable[[], object], *, seconds: float = 10, most_bytes: int = 300_000_000) -> None:
    """Assert that some work takes less, in the best of some runs.

    The bound is several times what is usual, since machines differ, and below what quadratic work takes.
    """
    cost = cost_of(work)
    for _ in range(2):
        if cost.seconds >= seconds:
            cost = cost_of(work)
    assert cost.seconds < seconds
    assert cost.bytes < most_bytes


def cost_of(work: Callable[[], object]) -> Cost:
    """What some work costs, done in a process of its own."""
    # What this process has freed and still holds would be used again unseen.
    if trim := getattr(ctypes.CDLL(None), "malloc_trim", None):
        trim(0)
    reading, writing = os.pipe()
    child = os.fork()
    if not child:
        try:
            os.write(writing, pickle.dumps(_measured(work)))
        except BaseException:
            traceback.print_exc()
        finally:
            os._exit(0)
    os.close(writing)
    with os.fdopen(reading, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    assert answer, "it raised"
    return Cost(*pickle.loads(answer))  # noqa: S301 - our own child's


def _measured(work: Callable[[], object]) -> tuple[float, int]:
    # Else the garbage collector writes to the pages of all that the parent has, which are copied then.
    gc.freeze()
    # What a new process has mapped is counted at once.
    first = _reference_seconds()
    before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    began = time.process_time()
    work()
    seconds = time.process_time() - began
    grown_by = (resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before) * _KIB
    usual = 2 * _REFERENCE_SECONDS / (first + _reference_seconds())
    return seconds * min(1, usual), grown_by


def _reference_seconds() -> float:
    """Seconds of a fixed work with texts, tuples and a dictionary, as translating has it."""
    began = time.process_time()
    counts: dict[str, tuple[int, ...]] = {}
    for number in range(100_000):
        name = f"c{number % 1000}".lower()
        counts[name] = (*counts.get(name, ())[:2], number)
    return time.process_time() - began
