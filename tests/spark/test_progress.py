"""How far Spark has come is said while a run is under way, and nothing about it can end the run."""

from __future__ import annotations

import datetime
import json
import threading
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from pyspark import SparkStageInfo
from spark.backfills import config_for

from spark_backfill.counts import BackfillCounts, as_document
from spark_backfill.job import trigger_of
from spark_backfill.progress import add_step, telling


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


def test_every_step_is_a_line_of_json(tmp_path: Path) -> None:
    """Of an earlier run as well."""
    path = tmp_path / "progress.jsonl"
    path.write_text("{}\n")
    counts = BackfillCounts(read=3, written=Counter({"d\u2028/0": 2}), ranges={"t/0": (4, 6, 3)})
    add_step(path, 7, counts, 1.23456)
    add_step(path, 8, BackfillCounts(), 0.5)
    earlier, *lines = path.read_text(encoding="utf-8").removesuffix("\n").split("\n")
    steps = [json.loads(line) for line in lines]
    assert earlier == "{}"
    assert [step.pop("step") for step in steps] == [7, 8]
    for step in steps:
        assert datetime.datetime.fromisoformat(step.pop("time")).tzinfo is datetime.UTC
    assert steps == [as_document(counts, 1.235), as_document(BackfillCounts(), 0.5)]


@pytest.mark.parametrize(
    ("seconds", "continuous", "trigger"),
    [
        (0, True, {}),
        ("1m30s", True, {"processingTime": "90000 milliseconds"}),
        (0.25, True, {"processingTime": "250 milliseconds"}),
        (30, False, {"availableNow": True}),
    ],
)
def test_only_continuous_runs_pause_between_steps(
    seconds: object, continuous: bool, trigger: dict[str, object]
) -> None:
    config = config_for(backfill={"trigger_seconds": seconds})
    assert trigger_of(config, continuous=continuous) == trigger
