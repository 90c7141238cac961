"""The judge of the Spark job's campaign sees every violation."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from chaos.spark_verify import (
    CHANGED,
    FOREIGN,
    LOST,
    REPEATED,
    UNORDERED,
    Record,
    repeats_in,
    task_faults,
    violations,
)

A, B, C = ((name.encode(), name.upper()) for name in "abc")


@pytest.mark.parametrize(
    ("found", "in_files", "in_topics"),
    [
        ([A, B, C], {}, {}),
        ([A, B, A, B, C], {REPEATED: 2}, {}),
        ([A, A, B, B, C, C], {REPEATED: 3}, {}),
        ([A, C, A, B, C], {REPEATED: 2, UNORDERED: 1}, {UNORDERED: 1}),
        ([A, C], {LOST: 1}, {LOST: 1}),
        ([], {LOST: 3}, {LOST: 3}),
        ([A, B, (b"c", "other")], {CHANGED: 1}, {CHANGED: 1}),
        ([A, B, C, (b"a", "other")], {REPEATED: 1, CHANGED: 1}, {CHANGED: 1}),
        ([A, B, C, (b"d", "D")], {FOREIGN: 1}, {FOREIGN: 1}),
    ],
)
def test_each_violation_is_counted(
    found: list[Record], in_files: dict[str, int], in_topics: dict[str, int]
) -> None:
    assert violations({0: [A, B, C]}, {0: found}, may_repeat=False) == in_files
    assert violations({0: [A, B, C]}, {0: found}, may_repeat=True) == in_topics


def test_partitions_are_compared_separately() -> None:
    assert violations({0: [A], 1: [B]}, {0: [B], 1: [A]}, may_repeat=True) == {LOST: 2, FOREIGN: 2}
    assert repeats_in({0: [A, A, B], 1: [C, C, C]}) == 3


def test_retries_are_attempts_after_a_failure(tmp_path: Path) -> None:
    def start(index: int, *, speculative: bool = False) -> object:
        info = {"Index": index, "Speculative": speculative}
        return {"Event": "SparkListenerTaskStart", "Stage ID": 1, "Stage Attempt ID": 0, "Task Info": info}

    def end(index: int, reason: str) -> object:
        return {
            "Event": "SparkListenerTaskEnd",
            "Stage ID": 1,
            "Stage Attempt ID": 0,
            "Task End Reason": {"Reason": reason},
            "Task Info": {"Index": index},
        }

    events = [start(0), start(1), start(1, speculative=True), end(0, "ExceptionFailure"), start(0)]
    events += [
        end(1, "TaskKilled"),
        end(1, "Success"),
        end(0, "ExecutorLostFailure"),
        start(0),
        end(0, "Success"),
    ]
    lines = [json.dumps(each, separators=(",", ":")) for each in events]
    (tmp_path / "app").write_text("\n".join([*lines, lines[0][:-9]]))
    assert task_faults(tmp_path) == (1, 2)
    assert task_faults(tmp_path / "none") == (0, 0)
