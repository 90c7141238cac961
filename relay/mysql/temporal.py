"""Dates and times in MySQL's text format, and the time zone of TIMESTAMP.

Canonical temporal values are text exactly as MySQL prints it: `YYYY-MM-DD`, `YYYY-MM-DD hh:mm:ss[.f]`,
`[-]hhh:mm:ss[.f]`. Zero dates, partial dates (`2020-02-00`) and invalid ones (`2009-11-31`,
ALLOW_INVALID_DATES) are ordinary values. TIMESTAMP is in UTC. The readers validate the format and return the
text, or raise ValueError.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from relay.mysql.conversion_names import kernel_name

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch
_DATETIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?", re.ASCII).fullmatch
_TIME: Final = re.compile(r"-?\d{2,3}:[0-5]\d:[0-5]\d(?:\.\d{1,6})?", re.ASCII).fullmatch
#: MySQL's TIMESTAMP ends in 2038 or 3001 (MySQL Reference Manual §11.2.1).
_EPOCH_SECONDS: Final = re.compile(r"(\d{1,11})(\.\d{1,6})?", re.ASCII).fullmatch
_OFFSET: Final = re.compile(r"(.+?) ?(?:Z|([+-])(\d\d):?(\d\d))", re.ASCII).fullmatch


@kernel_name("date")
def read_date(text: str) -> str:
    """Validate a DATE. Raises ValueError."""
    if _DATE(text) is None:
        raise ValueError("not a date")
    return text


@kernel_name("datetime")
def read_datetime(text: str) -> str:
    """Validate a DATETIME, or a TIMESTAMP that is in UTC. Raises ValueError."""
    if _DATETIME(text) is None:
        raise ValueError("not a date and time")
    return text


@kernel_name("time")
def read_time(text: str) -> str:
    """Validate a TIME. Raises ValueError."""
    if _TIME(text) is None:
        raise ValueError("not a time")
    return text


def read_timestamp(zone: tzinfo, text: str) -> str:
    """Convert a TIMESTAMP to UTC: from this zone, from its own offset (`… +00:00`, `…Z`), or from seconds
    since 1970 (`1624614713.201`). Raises ValueError.
    """
    if _DATETIME(text) is not None:
        return text if zone is UTC else _shift(text, zone, UTC)
    with_offset = _OFFSET(text)
    if with_offset is None:
        return _read_epoch(text)
    local, sign, hours, minutes = with_offset.groups()
    shift = timedelta(hours=int(hours or 0), minutes=int(minutes or 0))
    text = read_datetime(local.replace("T", " "))
    try:
        return _print(_parse_datetime(text) + shift if sign == "-" else _parse_datetime(text) - shift, text)
    except OverflowError:
        raise ValueError("a timestamp beyond the calendar") from None


def is_date(text: str) -> bool:
    """Return whether this `YYYY-MM-DD` is a calendar date in the years 1 to 9999, unlike 0000-00-00,
    2020-02-00 and 2009-11-31.
    """
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def count_instants(zone: tzinfo, text: str) -> int:
    """Return the number of instants with this local time in a zone: 0, 1 or 2.

    It is 0 in an hour that the zone skips, and at the ends of the calendar; 2 in an hour that occurs twice;
    otherwise 1, also for texts that `read_timestamp` does not shift. `read_timestamp` uses the earlier of two
    instants; a time without one is shifted as if its hour were not skipped.
    """
    try:
        local = _parse_datetime(text if _DATETIME(text) is not None else "").replace(tzinfo=zone)
        instant = local.astimezone(UTC)
    except ValueError:
        return 1
    except OverflowError:
        return 0
    if local.utcoffset() == local.replace(fold=1).utcoffset():
        return 1
    return 2 if instant.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None) else 0


def has_constant_offset(zone: tzinfo, day: str) -> bool:
    """Return whether each local time of a day, `YYYY-MM-DD`, is certainly one instant (`count_instants`)."""
    try:
        noon = datetime.fromisoformat(day).replace(hour=12, tzinfo=zone)
        offsets = {(noon + timedelta(days=days)).utcoffset() for days in (-2, 0, 2)}
    except (ValueError, OverflowError):
        return False
    return len(offsets) == 1


def _read_epoch(text: str) -> str:
    seconds = _EPOCH_SECONDS(text)
    if seconds is None:
        raise ValueError("not a date and time")
    whole, fraction = seconds.groups()
    instant = datetime.fromtimestamp(int(whole), UTC)
    return f"{instant:%Y-%m-%d %H:%M:%S}{fraction or ''}"


def timestamp_text(zone: tzinfo, value: str, unmoved: Callable[[], None] | None = None) -> str:
    """Convert a canonical (UTC) TIMESTAMP to this zone.

    Zero and non-calendar times stay unchanged, and so do the calendar's first and last hours, for which
    `unmoved` is called.
    """
    return _shift(value, UTC, zone, unmoved)


def _parse_datetime(text: str) -> datetime:
    return datetime.fromisoformat(text[:19])


def _shift(text: str, source: tzinfo, target: tzinfo, unmoved: Callable[[], None] | None = None) -> str:
    """Convert a time to another zone.

    A text that is not an instant stays unchanged: the zero timestamp (MySQL Reference Manual §11.2.2), a date
    that is not in the calendar, the calendar's first and last hours.
    """
    try:
        return _print(_parse_datetime(text).replace(tzinfo=source).astimezone(target), text)
    except ValueError:
        return text
    except OverflowError:
        if unmoved is not None:
            unmoved()
        return text


def _print(instant: datetime, like: str) -> str:
    """Format an instant with the fraction digits of its original text."""
    return f"{instant.year:04}{instant:-%m-%d %H:%M:%S}{like[19:]}"
