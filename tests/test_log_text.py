"""The log for people and for programs: level, format, and what fits a terminal."""

from __future__ import annotations

import io
import json
import os
import shutil
from datetime import UTC, datetime
from pathlib import Path

import pytest
from config_support import MINIMAL, load, problems
from support import TICDC, record

from relay.io.log_text import Field, LogFormat, LogLevel, LogSettings, as_text, for_terminal
from relay.io.logs import Log
from relay.model.errors import Malformed
from relay.service.app import report_refused
from relay.service.loop.offset_tracker import RecordRefused
from relay.service.observe.about import About
from relay.service.observe.status import Status

NOW = datetime(2026, 11, 26, 18, 43, 5, 123_000, tzinfo=UTC)
REFUSED: dict[str, Field] = {
    "partition": "orders/1",
    "offset": 0,
    "message": "ticdc-canal-json: message: not valid JSON: a string of a row ends before its quotation mark",
    "next": "relay explain orders/1/0 --config /a/folder/with/a/very/long/name/indeed/and/more/relay.toml",
}


class Terminal(io.StringIO):
    def isatty(self) -> bool:
        return True


@pytest.fixture
def columns(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(shutil, "get_terminal_size", lambda: os.terminal_size((80, 24)))
    monkeypatch.setenv("NO_COLOR", "1")


@pytest.mark.usefixtures("columns")
def test_events_on_a_terminal() -> None:
    assert for_terminal(NOW, "error", "record.refused", REFUSED).splitlines() == [
        "18:43:05Z error   record.refused",
        "    ticdc-canal-json: message: not valid JSON: a string of a row ends before its",
        "    quotation mark",
        "    partition=orders/1  offset=0",
        f"    next: {REFUSED['next']}",
    ]
    found = for_terminal(NOW, "info", "relay.stopped", {"records_read": 3, "inferred_tables": {"a.b": 3}})
    assert found == '18:43:05Z info    relay.stopped  records_read=3  inferred_tables="a.b 3"\n'
    found = for_terminal(
        NOW, "warning", "sink.unavailable", {"reason": "gone", "repeated": 0, "kernel": None}
    )
    assert found == "18:43:05Z warning sink.unavailable  gone\n"


def test_colors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("NO_COLOR", raising=False)
    found = for_terminal(NOW, "error", "relay.failed", {})
    assert found == "18:43:05Z \x1b[31merror  \x1b[0m \x1b[1mrelay.failed\x1b[0m\n"


def test_text_without_a_terminal_is_one_line() -> None:
    found = as_text(NOW, "error", "record.refused", REFUSED)
    start = f"2026-11-26T18:43:05.123Z  error    record.refused  {REFUSED['message']}  partition=orders/1"
    assert found.startswith(start)
    assert found.endswith(f"  next: {REFUSED['next']}\n")
    assert found.count("\n") == 1


@pytest.mark.parametrize(
    ("stream", "form", "is_json"),
    [
        (io.StringIO, LogFormat.AUTO, True),
        (io.StringIO, LogFormat.TEXT, False),
        (Terminal, LogFormat.AUTO, False),
        (Terminal, LogFormat.JSON, True),
    ],
)
def test_formats(stream: type[io.StringIO], form: LogFormat, is_json: bool) -> None:
    out = stream()
    Log(out, LogSettings(format=form), process=1).info("relay.stopped", records_read=3)
    assert out.getvalue().startswith("{") is is_json
    if is_json:
        assert json.loads(out.getvalue())["process"] == 1


@pytest.mark.parametrize(
    ("level", "events"),
    [(LogLevel.INFO, ["a", "b", "c", "d"]), (LogLevel.WARNING, ["b", "c", "d"]), (LogLevel.ERROR, ["c"])],
)
def test_levels(level: LogLevel, events: list[str]) -> None:
    out = io.StringIO()
    log = Log(out, LogSettings(level))
    log.info("a")
    log.warning("b")
    log.error("c")
    log.rate_limited("d", "kind")
    assert [json.loads(line)["event"] for line in out.getvalue().splitlines()] == events


def test_settings(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert load(tmp_path, MINIMAL).log.settings == LogSettings()
    monkeypatch.setenv("RELAY_LOG__FORMAT", "json")
    found = load(tmp_path, MINIMAL + '[log]\nlevel = "error"\nformat = "text"\n').log.settings
    assert found == LogSettings(LogLevel.ERROR, LogFormat.JSON)
    assert problems(tmp_path, MINIMAL + '[log]\nlevel = "debug"\n')[0].startswith("log.level: ")


def test_a_refused_record_names_the_next_command(tmp_path: Path) -> None:
    config, out = load(tmp_path, MINIMAL), io.StringIO()
    refused = RecordRefused(record("{", partition=1, offset=7), Malformed(TICDC, "", "not valid JSON"))
    assert report_refused(refused, config, Log(out), Status(About.of(config))) == 2
    found = json.loads(out.getvalue())
    assert found["next"] == f"relay explain topic/1/7 --config {tmp_path}/relay.toml"
