"""`relay translate` with `max-batch-size`: rows of neighboring records become one message."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from typer.testing import Result

Run = Callable[..., Result]
ROUTE = (
    "translate",
    "--from",
    "canal-json",
    "--to",
    "ticdc-open-protocol",
    "--to-option",
    "max-batch-size=4",
)


def line(offset: int, partition: int = 0, **more: Any) -> str:
    message = {
        "data": [{"id": str(offset)}], "database": "d", "table": "t", "type": "INSERT", "isDdl": False, "es": 5, "ts": 6,
        "pkNames": ["id"], "mysqlType": {"id": "int"}, "sqlType": {"id": 4}, "old": None, "sql": "", "id": 1,
    }  # fmt: skip
    record = {
        "topic": "t",
        "partition": partition,
        "offset": offset,
        "timestamp": offset,
        "headers": [],
        "key": None,
    }
    return json.dumps(record | {"value": json.dumps(message | more)}) + "\n"


def marks(result: Result) -> list[tuple[int, int, str]]:
    found = [json.loads(each) for each in result.stdout.splitlines()]
    return [(each["partition"], each["offset"], each["headers"][-1][1]) for each in found]


def test_windows_of_each_partition(relay: Run) -> None:
    data = "".join(line(offset, partition) for offset in range(6) for partition in (0, 1))
    found = marks(relay(*ROUTE, "--quiet", input=data))
    assert sorted(found) == [
        (0, 0, "t/0/0-3/0"),
        (0, 1, "t/0/4-5/0"),
        (1, 0, "t/1/0-3/0"),
        (1, 1, "t/1/4-5/0"),
    ]


def test_what_was_translated_is_written_before_a_record_that_stops(relay: Run) -> None:
    data = line(0) + line(1) + line(2, data=3) + line(3)
    result = relay(*ROUTE, input=data)
    assert result.exit_code == 2
    assert marks(result) == [(0, 0, "t/0/0-1/0")]
    assert "1 written" in result.stderr


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_record_that_is_left_out_leaves_the_others_together(
    relay: Run, policy: str, tmp_path: Path
) -> None:
    data = line(0) + line(1) + line(2, data=3) + line(3)
    letters = ("--dead-letters", tmp_path / "letters") if policy == "dead-letter" else ()
    result = relay(*ROUTE, "--on-error", policy, *letters, input=data)
    assert marks(result) == [(0, 0, "t/0/0-3/0")]


def test_one_row_a_message_is_the_default(relay: Run) -> None:
    result = relay(*ROUTE[:-2], "--quiet", input=line(0) + line(1))
    assert marks(result) == [(0, 0, "t/0/0/0"), (0, 1, "t/0/1/0")]
