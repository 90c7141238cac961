"""Durations and times as people write them, alone and in settings."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path

import pytest
from config_support import MINIMAL, load, problems

from relay.text.durations import (
    duration_text,
    local_datetime_micros,
    milliseconds_of,
    parse_duration,
    parse_timestamp,
)


@pytest.mark.parametrize(
    ("text", "seconds"),
    [
        ("90s", 90),
        ("2h", 7200),
        ("1h30m", 5400),
        ("1h 30min", 5400),
        ("500ms", 0.5),
        ("1.5 m", 90),
        ("2D", 172_800),
        (" 1w ", 604_800),
    ],
)
def test_durations(text: str, seconds: float) -> None:
    assert parse_duration(text) == timedelta(seconds=seconds)


@pytest.mark.parametrize("text", ["", "90", "h", "2 hours", "-5s", "1h30", "s1", "٣s", "1e3s", "5s!"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError, match="is not a duration"):
        parse_duration(text)


def test_a_duration_beyond_all_clocks() -> None:
    with pytest.raises(ValueError, match="is too long"):
        parse_duration("999999999w")


@pytest.mark.parametrize(
    "text",
    [
        "2026-11-26T10:00",
        "2026-11-26 10:00:00",
        "2026-11-26T10:00:00Z",
        "2026-11-26T12:00:00+02:00",
        "2026-11-26 10:00:00.000 UTC",
        "20261126T1000",
    ],
)
def test_moments(text: str) -> None:
    assert parse_timestamp(text) == datetime(2026, 11, 26, 10, tzinfo=UTC)
    assert milliseconds_of(parse_timestamp(text)) == 1_795_687_200_000


def test_a_day() -> None:
    assert parse_timestamp("2026-11-26") == datetime(2026, 11, 26, tzinfo=UTC)


@pytest.mark.parametrize("text", ["", "now", "10:00", "2026-13-01", "2h", "UTC"])
def test_what_is_no_moment(text: str) -> None:
    with pytest.raises(ValueError, match="is not a time"):
        parse_timestamp(text)


def test_durations_in_settings(tmp_path: Path) -> None:
    delivery = '[delivery]\ndrain_timeout_seconds = "1m30s"\nstall_timeout_seconds = "10m"\ncommit_interval_seconds = 2\n'
    waits = (
        'group_id = "g"\nrebalance_timeout_ms = "2m"\nsession_timeout_ms = 20000\nfetch_max_wait_ms = "0.1s"'
    )
    found = load(tmp_path, MINIMAL.replace('group_id = "g"', waits) + delivery)
    assert (found.delivery.drain_timeout_seconds, found.delivery.commit_interval_seconds) == (90, 2)
    assert found.delivery.stall_timeout_seconds == 600
    assert (found.source.rebalance_timeout_ms, found.source.session_timeout_ms) == (120_000, 20_000)
    assert found.source.fetch_max_wait_ms == 100


def test_durations_in_the_environment(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("RELAY_DELIVERY__DRAIN_TIMEOUT_SECONDS", "45s")
    monkeypatch.setenv("RELAY_DELIVERY__STALL_TIMEOUT_SECONDS", "400")
    delivery = load(tmp_path, MINIMAL).delivery
    assert (delivery.drain_timeout_seconds, delivery.stall_timeout_seconds) == (45, 400)


@pytest.mark.parametrize(
    ("key", "value", "said"),
    [
        (
            "drain_timeout_seconds",
            '"soon"',
            "is not a duration: write for example 500ms, 90s, 15m, 2h or 1h30m",
        ),
        ("drain_timeout_seconds", '"2 fortnights"', "is not a duration"),
        ("drain_timeout_seconds", '"2d"', "input should be less than or equal to 86400"),
        ("drain_timeout_seconds", '"-5"', "input should be greater than 0"),
    ],
)
def test_what_is_no_duration_in_settings(tmp_path: Path, key: str, value: str, said: str) -> None:
    assert problems(tmp_path, f"{MINIMAL}[delivery]\n{key} = {value}\n")[0].startswith(
        f"delivery.{key}: {said}"
    )


@pytest.mark.parametrize(
    "time",
    [
        "2026-11-26T10:00:00",
        "2026-11-26T12:00:00+02:00",
        '"2026-11-26T10:00"',
        '"2026-11-26 10:00:00.000 UTC"',
    ],
)
def test_times_in_settings(tmp_path: Path, time: str) -> None:
    start = f'group_id = "g"\nstart = "timestamp"\nstart_timestamp = {time}'
    assert (
        load(tmp_path, MINIMAL.replace('group_id = "g"', start)).source.start_timestamp_ms
        == 1_795_687_200_000
    )


@pytest.mark.parametrize(
    ("milliseconds", "text"),
    [
        (0, "0 ms"),
        (1, "1 ms"),
        (1_000, "1 second"),
        (60_000, "1 minute"),
        (604_800_000, "7 days"),
        (129_600_000, "1 day 12 hours"),
        (90_061_001, "1 day 1 hour 1 minute 1 second 1 ms"),
    ],
)
def test_durations_are_written_exactly_with_units(milliseconds: int, text: str) -> None:
    assert duration_text(milliseconds) == text


@pytest.mark.parametrize(
    ("text", "hours", "micros"),
    [
        ("1970-01-01 00:00:00", 0, 0),
        ("1970-01-01T08:00:00.5", 8, 500_000),
        ("1969-12-31 23:59:59.999999", 0, -1),
        ("0001-01-01 00:00:00", 8, -62_135_625_600_000_000),
    ],
)
def test_local_dates_and_times(text: str, hours: int, micros: int) -> None:
    assert local_datetime_micros(text, timezone(timedelta(hours=hours))) == micros


@pytest.mark.parametrize(
    "text", ["", "1970-01-01", "1970-01-01 00:00:00Z", "1970-01-01 00:00:00.1234567", "٢970-01-01 00:00:00"]
)
def test_other_texts_are_no_local_dates_and_times(text: str) -> None:
    with pytest.raises(ValueError, match="not a time as"):
        local_datetime_micros(text, UTC)


def test_dates_that_are_not_in_the_calendar() -> None:
    with pytest.raises(ValueError, match="of the calendar"):
        local_datetime_micros("2023-02-29 00:00:00", UTC)
