"""How far Spark has come is said while a run is under way, and nothing about it can end the run."""

from __future__ import annotations

import threading
from typing import Any

from pyspark import SparkStageInfo

from spark_backfill.progress import telling


class Tracker:
    """Shows one state after the other, and stays at the last; an error is raised."""

    def __init__(self, *states: list[SparkStageInfo | None] | Exception) -> None:
        self._states, self.looks = list(states), threading.Semaphore(0)
        self._now: dict[int, SparkStageInfo | None] = {}

    def getActiveStageIds(self) -> list[int]:  # noqa: N802 - Spark's name
        self.looks.release()
        state = self._states.pop(0) if len(self._states) > 1 else self._states[0]
        if isinstance(state, Exception):
            raise state
        self._now = dict(enumerate(state))
        return list(self._now)

    def getStageInfo(self, stage: int) -> SparkStageInfo | None:  # noqa: N802 - Spark's name
        return self._now[stage]


def stage(number: int, tasks: int, active: int, done: int) -> SparkStageInfo:
    return SparkStageInfo(number, 0, "mapInArrow", tasks, active, done, 0)


def said_by(tracker: Any, looks: int, first_seconds: float = 0.01) -> list[str]:
    said: list[str] = []
    with telling(tracker, said.append, first_seconds=first_seconds, every_seconds=0.01):
        for _ in range(looks):
            assert tracker.looks.acquire(timeout=30)
    return said


def test_a_line_comes_when_something_has_changed() -> None:
    """A stage that is over by the time it is asked about is left out."""
    states: list[list[SparkStageInfo | None]] = [
        [],
        [stage(3, 40, 2, 12)],
        [stage(3, 40, 2, 12), None],
        [stage(3, 40, 1, 39)],
        [],
    ]
    assert said_by(Tracker(*states), 7) == [
        "12 of 40 tasks done (stage 3), 2 at work",
        "39 of 40 tasks done (stage 3), 1 at work",
    ]
    assert said_by(Tracker([stage(3, 4, 1, 3), stage(5, 9, 0, 0)]), 3) == [
        "3 of 4 tasks done (stage 3), 1 at work; 0 of 9 tasks done (stage 5), 0 at work"
    ]


def test_a_spark_that_has_ended_ends_no_run() -> None:
    assert said_by(Tracker([stage(1, 2, 2, 0)], ConnectionError("Java has ended")), 2) == [
        "0 of 2 tasks done (stage 1), 2 at work"
    ]


def test_a_run_that_is_over_soon_says_nothing() -> None:
    assert said_by(Tracker([stage(1, 2, 2, 0)]), 0, first_seconds=60) == []
