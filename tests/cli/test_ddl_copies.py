"""`relay translate` on routes whose DDL goes to all partitions: those of the input, which it finds first."""

from __future__ import annotations

import io
import json
import os
import subprocess
import sys
from base64 import b64encode
from collections import Counter
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pytest
from open_support import ddl, framed
from support import DATA
from typer.testing import Result

from relay import ConsumerRecord
from relay.cli.files import Input
from relay.cli.record_files import with_partitions
from relay.model.errors import ServiceError

Run = Callable[..., Result]
DDL = DATA / "ticdc" / "canal-json.3-partitions" / "10_ddl.jsonl"
ROUTE = ("translate", "--from", "ticdc-canal-json", "--to", "ticdc-open-protocol")


def partitions(written: str) -> Counter[int]:
    """How many statements each partition has."""
    lines = [json.loads(line) for line in written.splitlines()]
    return Counter(line["partition"] for line in lines if '"t":2' in str(line["key"]))


def statements() -> int:
    return sum('"isDdl":true' in json.loads(line)["value"] for line in DDL.read_text().splitlines())


def test_a_file_is_looked_through_first(relay: Run) -> None:
    result = relay(*ROUTE, DDL)
    assert result.exit_code == 0
    assert partitions(result.stdout) == dict.fromkeys(range(3), statements())


def piped(data: bytes) -> subprocess.CompletedProcess[bytes]:
    program = [sys.executable, "-m", "relay", *ROUTE]
    return subprocess.run(program, input=data, capture_output=True, check=False)


@pytest.mark.parametrize("prefix", [b"", b"\n\n", b"\xef\xbb\xbf"])
def test_a_pipe_gives_the_same_bytes(relay: Run, prefix: bytes) -> None:
    result = piped(prefix + DDL.read_bytes())
    assert result.returncode == 0
    assert result.stdout.decode() == relay(*ROUTE, DDL).stdout


def test_a_line_that_is_no_record_is_reported_in_its_turn() -> None:
    first, *_ = DDL.read_bytes().splitlines(keepends=True)
    result = piped(first + b"{oops\n")
    assert result.returncode == 2
    assert result.stderr.splitlines()[-1].startswith(b"error: record file: stdin line 2:")
    assert len(result.stdout.splitlines()) == 1


def test_the_same_number_of_partitions_from_a_redirected_file() -> None:
    with DDL.open("rb") as stdin:
        done = subprocess.run(
            [sys.executable, "-m", "relay", *ROUTE], stdin=stdin, capture_output=True, text=True, check=True
        )
    assert partitions(done.stdout) == dict.fromkeys(range(3), statements())


def test_values_of_a_pipe_come_out_at_once() -> None:
    value = json.loads(DDL.read_text().splitlines()[0])["value"].encode() + b"\n"
    with subprocess.Popen(
        [sys.executable, "-m", "relay", *ROUTE],
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    ) as process:
        assert process.stdin is not None
        assert process.stdout is not None
        process.stdin.write(value)
        process.stdin.flush()
        assert process.stdout.readline().startswith(b'{"topic":"stdin"')
        process.stdin.close()
        assert process.wait() == 0


def test_a_pipe_without_free_space_is_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Full(io.BytesIO):
        def writelines(self, lines: Iterable[Any]) -> None:
            raise OSError(28, "No space left on device")

    monkeypatch.setattr("relay.cli.record_files.TemporaryFile", Full)
    read, write = os.pipe()
    with os.fdopen(read, "rb") as stream:
        with os.fdopen(write, "wb") as end:
            end.write(DDL.read_bytes().splitlines(keepends=True)[0])
        with (
            pytest.raises(ServiceError, match=r"cannot keep stdin in .*No space left"),
            with_partitions(Input(stream, "stdin", None)),
        ):
            pass


def test_the_summary_names_tables_whose_ddl_came_too_late(relay: Run, tmp_path: Path) -> None:
    rows = [line for line in DDL.read_text().splitlines() if '"isDdl":false' in json.loads(line)["value"]]
    result = relay(*ROUTE, input="\n".join(rows).encode())
    expected = "  types inferred from the messages:\n    ddl_db."
    assert expected in result.stderr
    assert "types inferred" not in relay(*ROUTE, DDL).stderr


def test_other_routes_read_once(relay: Run, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("relay.cli.translate.with_partitions", None)
    for more in (("--partitions", "2"), ("--to", "canal-json")):
        assert relay(*ROUTE, *more, DDL, "--output", tmp_path / "out").exit_code == 0


def copies(*positions: tuple[str, int]) -> bytes:
    """A statement as Open Protocol has it, in these topics and partitions."""
    given = [
        framed(ddl("alter table t add x int"), topic=topic, partition=number) for topic, number in positions
    ]
    return b"".join(json.dumps(line_of(record)).encode() + b"\n" for record in given)


def line_of(record: ConsumerRecord) -> dict[str, Any]:
    key, value = record.key or b"", record.value or b""
    coded = {"key": {"base64": b64encode(key).decode()}, "value": {"base64": b64encode(value).decode()}}
    return coded | {"topic": record.topic, "partition": record.partition, "offset": 0, "timestamp": 1}


@pytest.mark.parametrize(
    ("positions", "topics"),
    [
        ([("a", 2)], ["a"]),
        ([("a", 1), ("a", 2), ("b", 0), ("b", 1)], ["a"]),
        ([("b", 1), ("a", 1)], ["a", "b"]),
        ([("a", 1), ("a", 0)], []),
        ([("a", 0)], []),
    ],
)
def test_ddl_without_its_copy_in_partition_0_is_warned_of(
    relay: Run, positions: list[tuple[str, int]], topics: list[str]
) -> None:
    route = ("translate", "--from", "ticdc-open-protocol", "--to", "canal-json")
    summary = relay(*route, input=copies(*positions)).stderr
    assert ("Warning: DDL was left out" in summary) is bool(topics)
    warned = summary.partition("of partition 0 was read from:\n")[2].splitlines()
    assert [line.strip() for line in warned[: len(topics)]] == topics


def test_copies_are_shown_as_a_note(relay: Run) -> None:
    route = ("translate", "--from", "ticdc-open-protocol", "--to", "canal-json")
    summary = relay(*route, input=copies(("a", 0), ("a", 1))).stderr
    assert "notes    ddl-copies 1" in summary
    assert "ddl-copies" not in next((line for line in summary.splitlines() if "lost" in line), "")
