"""Errors and warnings on the command line name its own options, not keys of the configuration."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path

import pytest
from support import DATA
from typer.testing import Result

Run = Callable[..., Result]
ROUTE = ("translate", "--from", "ticdc-canal-json", "--to", "canal-json")
FILE = DATA / "ticdc/canal-json.tidb-extension/06_zero_dates.jsonl"
#: Words that only a configuration has.
KEYS = re.compile(r"(from|to)\.option|target\.|limits\.|(in|ex)clude_|partition_by|partitions beside")


def errors(result: Result) -> list[str]:
    assert result.exit_code == 2
    found = [
        line.removeprefix("error: ") for line in result.stderr.splitlines() if line.startswith("error: ")
    ]
    assert not [line for line in found if KEYS.search(line)]
    return found


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("--partition-by", "index-value"), "--partition-by: index-value needs a number of partitions"),
        (("--partition-by", "source", "--partitions", "3"), "--partition-by: source keeps the source's partitions"),
        (("--partition-by", "key", "--partitions", "3"), "--partition-by: key: the keys of canal-json"),
        (("--topic", "{x}"), "--topic: '{x}' has an unknown placeholder"),
        (("--to-option", "zero-date=null"), "--to-option zero-date: canal-json has no option 'zero-date'"),
        (("--to-option", "key=x"), "--to-option key: 'x' does not fit"),
        (("--to-option", "max-batch-size=2", "--to-option", "key=primary-key"), "--to-option key: a message of"),
        (("--from-option", "strict=true"), "--from-option strict: applies to the target side"),
        (("--from-option", "timezone=UTC", "--from-option", "timezone=Z"), "--from-option timezone: given twice"),
        (("--from-option", "timezone=x"), "--from-option timezone: unknown time zone 'x'"),
        (("--from-option", "claim-check-storage-uri=x://y"), "--from-option claim-check-storage-uri: "),
        (("--limit", "rows=0"), "--limit rows: '0' is not a number greater than 0"),
        (("--limit", "row=1"), "--limit row: unknown limit 'row'"),
        (("--include-table", "x"), "--include-table: 'x' is not of the form database.table"),
        (("--exclude-event", "x"), "--exclude-event: unknown kind of event 'x'"),
        (("--limit", "columns=1"), "more columns than the limit `columns` allows, 1"),
        (("--topic", "a" * 245 + "{table}"), "has 255 characters"),
    ],
)  # fmt: skip
def test_errors_name_options(relay: Run, arguments: tuple[str, ...], expected: str) -> None:
    (found,) = errors(relay(*ROUTE, *arguments, FILE))
    assert expected in found


def test_problems_of_protocols_globs_and_kinds_are_reported_together(relay: Run) -> None:
    wrong = ("--include-table", "x", "--exclude-table", "y", "--include-event", "z")
    found = errors(relay("translate", "--from", "flat-json", "--to", "x", *wrong, FILE))
    assert [each.partition(":")[0] for each in found] == [
        "--include-table", "--exclude-table", "--include-event", "--from", "--to",
    ]  # fmt: skip


@pytest.mark.parametrize(
    "command", [("formats", "--from", "canal-json"), ("inspect", "--from", "canal-json", FILE)]
)
def test_other_commands_name_options(relay: Run, command: tuple[str, ...]) -> None:
    (found,) = errors(relay(*command, "--from-option", "zone=x"))
    assert found.startswith("--from-option zone: canal-json has no option 'zone'")


def test_help_shows_the_table_of_limits(relay: Run) -> None:
    assert "[limits]" in relay("translate", "--help").stdout


def test_what_has_no_effect_is_said_once_and_quietly_not_at_all(relay: Run, tmp_path: Path) -> None:
    options = ("--to-option", "watermarks=drop", "--include-table", "a.x", "--exclude-table", "a.*",
               "--topic", "{database}_{table}")  # fmt: skip
    result = relay(*ROUTE, *options, FILE, "--output", tmp_path / "out")
    assert result.exit_code == 0
    warnings = [line for line in result.stderr.splitlines() if line.startswith("warning: ")]
    assert [line.split(": ")[1] for line in warnings] == [
        "--to-option watermarks", "--topic", "--include-table",
    ]  # fmt: skip
    assert not [line for line in warnings if KEYS.search(line)]
    assert relay(*ROUTE, *options, FILE, "--output", tmp_path / "out", "--quiet").stderr == ""
    plain = relay(*ROUTE, FILE, "--output", tmp_path / "out")
    assert "warning" not in plain.stderr
