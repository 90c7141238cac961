"""Durations and times as people write them: `90s`, `1h30m`, `2026-11-26T10:00`.

A time without a zone is UTC, like all times that relay shows; the time zone of the machine has no effect.
"""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta, tzinfo
from typing import Final

from relay.text.redaction import plural

_UNITS: Final = {
    "ms": timedelta(milliseconds=1),
    "s": timedelta(seconds=1),
    "m": timedelta(minutes=1),
    "min": timedelta(minutes=1),
    "h": timedelta(hours=1),
    "d": timedelta(days=1),
    "w": timedelta(weeks=1),
}
_PART: Final = re.compile(r"([0-9]{1,9}(?:\.[0-9]{1,9})?) ?(ms|s|min|m|h|d|w)")
_WHOLE: Final = re.compile(rf"{_PART.pattern}(?: ?{_PART.pattern})*")
DURATION_HINT: Final = "write for example 500ms, 90s, 15m, 2h or 1h30m"
TIME_HINT: Final = "write for example 2026-11-26T10:00, which is UTC, or 2026-11-26T10:00:00+08:00"
#: Milliseconds of the units in `duration_text`.
_WORDS: Final = {"day": 86_400_000, "hour": 3_600_000, "minute": 60_000, "second": 1000}
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND: Final = timedelta(milliseconds=1)
_SECOND: Final = timedelta(seconds=1)
_MICROSECOND: Final = timedelta(microseconds=1)
#: Hour 24 is not an hour here; later versions of Python read it as the next day.
_LOCAL_DATETIME: Final = re.compile(
    r"([0-9]{4}-[0-9]{2}-[0-9]{2})[ T]((?:[01][0-9]|2[0-3]):[0-9]{2}:[0-9]{2})(?:\.([0-9]{1,6}))?"
).fullmatch
_CLOCK: Final = re.compile(r"[0-9]{14}", re.ASCII).fullmatch


def parse_duration(text: str) -> timedelta:
    """Parse numbers with units. Raises ValueError for any other text, including a number without a unit."""
    plain = text.strip().lower()
    if not _WHOLE.fullmatch(plain):
        raise ValueError(f"is not a duration: {DURATION_HINT}")
    try:
        return sum((float(number) * _UNITS[unit] for number, unit in _PART.findall(plain)), timedelta())
    except OverflowError:
        raise ValueError("is too long") from None


def duration_text(milliseconds: int) -> str:
    """Format a duration exactly: `7 days`, `1 day 12 hours`, `1 second 500 ms`."""
    parts, rest = [], milliseconds
    for name, size in _WORDS.items():
        count, rest = divmod(rest, size)
        if count:
            parts.append(plural(count, name))
    if rest or not parts:
        parts.append(f"{rest} ms")
    return " ".join(parts)


def parse_timestamp(text: str) -> datetime:
    """Parse a date with or without a time: ISO 8601, or relay's own `2026-11-26 10:00:00.000 UTC`.

    The result has a time zone. Raises ValueError.
    """
    plain = text.strip()
    if plain.upper().endswith("UTC"):
        plain = plain[:-3].rstrip()
    try:
        time = datetime.fromisoformat(plain)
    except ValueError:
        raise ValueError(f"is not a time: {TIME_HINT}") from None
    return time if time.tzinfo is not None else time.replace(tzinfo=UTC)


def clock_seconds(clock: str, zone: tzinfo) -> int:
    """Convert a wall-clock time (`yyyyMMddHHmmss`) to seconds since 1970. Raises ValueError."""
    if not _CLOCK(clock):
        raise ValueError("not a time as yyyyMMddHHmmss")
    try:
        time = datetime.fromisoformat(f"{clock[:8]}T{clock[8:]}").replace(tzinfo=zone)
    except ValueError:
        raise ValueError("not a time of the calendar") from None
    return (time - _EPOCH) // _SECOND


def local_datetime_micros(text: str, zone: tzinfo) -> int:
    """Convert a local date and time to microseconds since 1970.

    The text is `2016-06-10 12:00:00` or `2016-06-10T12:00:00`, with up to six fractional digits. Raises
    ValueError.
    """
    found = _LOCAL_DATETIME(text)
    if not found:
        raise ValueError("not a time as yyyy-MM-dd HH:mm:ss, with at most six digits of a second")
    date, clock, fraction = found.groups()
    try:
        time = datetime.fromisoformat(f"{date}T{clock}").replace(tzinfo=zone)
    except ValueError:
        raise ValueError("not a time of the calendar") from None
    return (time - _EPOCH) // _MICROSECOND + int((fraction or "").ljust(6, "0"))


def milliseconds_of(time: datetime) -> int:
    """Convert a time with a zone to milliseconds since 1970."""
    return (time - _EPOCH) // _MILLISECOND
