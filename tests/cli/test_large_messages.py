"""`relay translate` and `relay inspect` with claim-check storages."""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest
from support import DATA
from typer.testing import Result

Run = Callable[..., Result]
CLAIMS = DATA / "ticdc/canal-json.claim-check"
INPUT = CLAIMS / "04_strings_binary.jsonl"
FULL = DATA / "ticdc/canal-json.tidb-extension/04_strings_binary.jsonl"
ROUTE = (
    "translate",
    "--from",
    "ticdc-canal-json",
    "--to",
    "ticdc-canal-json",
    "--to-option",
    "enable-tidb-extension=true",
)
STORAGE = "claim-check-storage-uri="
LARGE = ("--to-option", "large-message-handle-option=claim-check", "--to-option", "max-message-bytes=2000")


def lines_of(text: str) -> list[str]:
    """The lines of a record file: some values hold characters that `splitlines` takes for line ends."""
    return text.removesuffix("\n").split("\n")


def messages(text: str) -> list[dict[str, object]]:
    """The records' messages, without the time of sending."""
    values = [json.loads(json.loads(line)["value"]) for line in lines_of(text)]
    return [value | {"ts": 0} for value in values]


@pytest.mark.parametrize("uri", ["{}", "file://{}"])
def test_objects_are_fetched(relay: Run, uri: str) -> None:
    result = relay(*ROUTE, "--from-option", STORAGE + uri.format(CLAIMS / "storage"), INPUT)
    assert result.exit_code == 0, result.stderr
    assert messages(result.stdout) == messages(FULL.read_text())


def test_inspect_fetches_objects_too(relay: Run) -> None:
    options = "--from-option", f"{STORAGE}{CLAIMS / 'storage'}"
    result = relay("inspect", "--from", "ticdc-canal-json", *options, "--json", INPUT)
    assert result.exit_code == 0
    events = {event["position"]["offset"]: event for event in map(json.loads, lines_of(result.stdout))}
    assert list(events[17]["after"]) == ["id", "c", "v", "tt", "t", "mt", "lt"]


@pytest.fixture
def some_objects(tmp_path: Path) -> Path:
    """A storage that lacks the object of the record at offset 17."""
    folder = tmp_path / "objects"
    shutil.copytree(CLAIMS / "storage", folder, copy_function=shutil.copyfile)
    (folder / "960a2d78-4fa4-49a3-9f47-633630747cf6.json").unlink()
    return folder


def test_a_missing_object_stops_with_its_own_status(relay: Run, some_objects: Path, tmp_path: Path) -> None:
    result = relay(*ROUTE, "--from-option", f"{STORAGE}{some_objects}", INPUT, "--output", tmp_path / "out")
    assert result.exit_code == 3
    assert "no object file://" in result.stderr.splitlines()[-1]
    assert "04_strings_binary/0/17" in result.stderr.splitlines()[-1]
    assert len(lines_of((tmp_path / "out").read_text())) == 17


def test_a_missing_object_follows_the_error_policy(relay: Run, some_objects: Path, tmp_path: Path) -> None:
    dead = "--on-error", "dead-letter", "--dead-letters", tmp_path / "dead"
    result = relay(*ROUTE, "--from-option", f"{STORAGE}{some_objects}", *dead, INPUT)
    assert result.exit_code == 0
    assert len(lines_of(result.stdout)) == 52
    (letter,) = map(json.loads, lines_of((tmp_path / "dead").read_text()))
    assert letter["offset"] == 17
    headers = dict(letter["headers"])
    assert headers["relay.error.code"] == "service.claim-check-missing"
    assert "960a2d78" in headers["relay.error.detail"]


def test_inspect_reports_a_missing_object_and_goes_on(relay: Run, some_objects: Path) -> None:
    result = relay(
        "inspect", "--from", "ticdc-canal-json", "--from-option", f"{STORAGE}{some_objects}", "--json", INPUT
    )
    assert result.exit_code == 3
    assert len(lines_of(result.stdout)) == 52


def test_large_rows_are_stored_and_come_back(relay: Run, tmp_path: Path) -> None:
    there = relay(
        *ROUTE,
        *LARGE,
        "--to-option",
        f"{STORAGE}{tmp_path / 'objects'}",
        FULL,
        "--output",
        tmp_path / "small.jsonl",
    )
    assert there.exit_code == 0, there.stderr
    assert len(list((tmp_path / "objects").iterdir())) == 4
    assert "claimCheckLocation" in (tmp_path / "small.jsonl").read_text()
    back = relay(*ROUTE, "--from-option", f"{STORAGE}{tmp_path / 'objects'}", tmp_path / "small.jsonl")
    assert messages(back.stdout) == messages(FULL.read_text())


def test_a_storage_that_cannot_be_written_stops_before_the_record(relay: Run, tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    out = "--output", tmp_path / "out"
    result = relay(*ROUTE, *LARGE, "--to-option", f"{STORAGE}{tmp_path / 'file'}", FULL, *out)
    assert result.exit_code == 3
    assert "cannot be written" in result.stderr
    assert len(lines_of((tmp_path / "out").read_text())) == 17


def test_rows_above_the_limit_follow_the_error_policy(relay: Run) -> None:
    limit = "--to-option", "max-message-bytes=2000"
    assert relay(*ROUTE, *limit, FULL).exit_code == 2
    skipped = relay(*ROUTE, *limit, "--on-error", "skip", FULL)
    assert skipped.exit_code == 0
    assert "failed   4 skipped" in skipped.stderr
    assert "max-message-bytes is 2000" in skipped.stderr


@pytest.mark.parametrize("command", [ROUTE, ("inspect", "--from", "ticdc-canal-json")])
def test_an_invalid_uri_is_reported_before_anything_is_read(relay: Run, command: tuple[str, ...]) -> None:
    result = relay(*command, "--from-option", STORAGE + "nosuch://secret", INPUT)
    assert result.exit_code == 2
    assert "--from-option claim-check-storage-uri: cannot be opened as storage" in result.stderr
    assert "secret" not in result.stderr
    assert result.stdout == ""
