"""Dates and times in MySQL's own text, and the zone of TIMESTAMP.

Contract: canonical temporal values are text exactly as MySQL prints them: `YYYY-MM-DD`, `YYYY-MM-DD
hh:mm:ss[.f]`, `[-]hhh:mm:ss[.f]`. Zero dates, partial dates (`2020-02-00`) and invalid ones (`2009-11-31`,
ALLOW_INVALID_DATES) are values like any other. TIMESTAMP is in UTC. The readers check the form and give the
text back; ValueError if it is something else.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from datetime import UTC, date, datetime, timedelta, tzinfo
from typing import Final

from relay.mysql.conversion_names import native

_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch
_DATETIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?", re.ASCII).fullmatch
_TIME: Final = re.compile(r"-?\d{2,3}:[0-5]\d:[0-5]\d(?:\.\d{1,6})?", re.ASCII).fullmatch
#: MySQL's TIMESTAMP ends in 2038 or 3001 (MySQL Reference Manual §11.2.1).
_EPOCH_SECONDS: Final = re.compile(r"(\d{1,11})(\.\d{1,6})?", re.ASCII).fullmatch
_OFFSET: Final = re.compile(r"(.+?) ?(?:Z|([+-])(\d\d):?(\d\d))", re.ASCII).fullmatch


@native("date")
def read_date(text: str) -> str:
    """Check a DATE. Raises ValueError."""
    if _DATE(text) is None:
        raise ValueError("not a date")
    return text


@native("datetime")
def read_datetime(text: str) -> str:
    """Check a DATETIME, or a TIMESTAMP that is in UTC. Raises ValueError."""
    if _DATETIME(text) is None:
        raise ValueError("not a date and time")
    return text


@native("time")
def read_time(text: str) -> str:
    """Check a TIME. Raises ValueError."""
    if _TIME(text) is None:
        raise ValueError("not a time")
    return text


def read_timestamp(zone: tzinfo, text: str) -> str:
    """Return a TIMESTAMP in UTC: of this zone, of its own offset (`… +00:00`, `…Z`), or counted in seconds
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
        return _print(_moment(text) + shift if sign == "-" else _moment(text) - shift, text)
    except OverflowError:
        raise ValueError("a timestamp beyond the calendar") from None


def is_date(text: str) -> bool:
    """Whether this `YYYY-MM-DD` is a day of the calendar, in the years 1 to 9999: not so 0000-00-00,
    2020-02-00 and 2009-11-31.
    """
    try:
        date.fromisoformat(text)
    except ValueError:
        return False
    return True


def moments(zone: tzinfo, text: str) -> int:
    """Return how many moments have this local time in the zone: 0 in an hour that the zone leaves out, and at
    the calendar's ends, 2 in an hour that comes twice, else 1; also for what `read_timestamp` does not move.

    `read_timestamp` takes the earlier of two; a time that has none is moved as if its hour were not left
    out.
    """
    try:
        local = _moment(text if _DATETIME(text) is not None else "").replace(tzinfo=zone)
        moment = local.astimezone(UTC)
    except ValueError:
        return 1
    except OverflowError:
        return 0
    if local.utcoffset() == local.replace(fold=1).utcoffset():
        return 1
    return 2 if moment.astimezone(zone).replace(tzinfo=None) == local.replace(tzinfo=None) else 0


def is_calm(zone: tzinfo, day: str) -> bool:
    """Return whether each local time of a day, `YYYY-MM-DD`, surely is one moment (`moments`)."""
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
    moment = datetime.fromtimestamp(int(whole), UTC)
    return f"{moment:%Y-%m-%d %H:%M:%S}{fraction or ''}"


def timestamp_text(zone: tzinfo, value: str, unmoved: Callable[[], None] | None = None) -> str:
    """Return a canonical (UTC) TIMESTAMP in this zone. Zero and non-calendar times stay as they are, and so
    do the calendar's first and last hours, where `unmoved` is called.
    """
    return _shift(value, UTC, zone, unmoved)


def _moment(text: str) -> datetime:
    return datetime.fromisoformat(text[:19])


def _shift(text: str, source: tzinfo, target: tzinfo, unmoved: Callable[[], None] | None = None) -> str:
    """The moment in another zone. What is no moment stays as it is: the zero timestamp (MySQL Reference
    Manual §11.2.2), a date that is not in the calendar, the calendar's last hours.
    """
    try:
        return _print(_moment(text).replace(tzinfo=source).astimezone(target), text)
    except ValueError:
        return text
    except OverflowError:
        if unmoved is not None:
            unmoved()
        return text


def _print(moment: datetime, like: str) -> str:
    """The moment with the fraction digits of the text that it was read from."""
    return f"{moment.year:04}{moment:-%m-%d %H:%M:%S}{like[19:]}"
