"""Converting the counts and ISO texts of Debezium's connectors to MySQL's text of dates and times.

The reading functions raise ValueError. Sources: Debezium 3.6 "MySQL connector", data types; io.debezium.time;
org.apache.kafka.connect.data; records of 1.9.7 to 3.6.1.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Final

from relay.codecs.shared.conversions import Read
from relay.codecs.shared.debezium_temporal import (
    FIRST_TIMESTAMP,
    LOCAL_TIME,
    ZERO_TEXT,
    ZERO_TIMESTAMP,
    datetime_micros,
    datetime_text,
    time_micros,
    time_text,
    timestamp_text,
)
from relay.mysql.conversion_names import kernel_name
from relay.mysql.temporal import read_date, read_timestamp

#: The smallest TIME, and the offset below it that Debezium before 2.6 writes in a column with digits of a
#: second.
LEAST_TIME_MICROS: Final = -3_020_399_000_000
_TOO_LOW_MICROS: Final = 2_000_000


def clock_of_micros(micros: int, digits: int | None) -> str:
    """Return the TIME of a count of microseconds."""
    is_least = LEAST_TIME_MICROS - _TOO_LOW_MICROS < micros < LEAST_TIME_MICROS
    return time_text(LEAST_TIME_MICROS if is_least else micros, digits)


@functools.lru_cache(maxsize=256)
def count_reader(text: Callable[[int, int | None], str], micros: int, per: int, digits: int | None) -> Read:
    """Return the function that applies `text` to counts of `micros` microseconds, or `per` parts of one."""
    if per > 1:
        return kernel_name("time-count", micros, per, digits)(
            lambda count: text(count // per if count >= 0 else -(-count // per), digits)
        )
    if text is time_text:
        mark = kernel_name("time-count", micros, per, digits)
    else:
        mark = (
            kernel_name("datetime-count", micros, digits)
            if text is datetime_text
            else kernel_name("clock", digits)
        )
    return mark(lambda count: text(count * micros, digits))


def time_reader(digits: int | None) -> Read:
    """Return the function that reads a TIME from microseconds."""
    return count_reader(clock_of_micros, 1, 1, digits)


def datetime_reader(unit_micros: int, digits: int | None) -> Read:
    """Return the function that reads a DATETIME from a count of units of `unit_micros` microseconds."""
    return count_reader(datetime_text, unit_micros, 1, digits)


def nanos_reader(digits: int | None) -> Read:
    """Return the function that reads a DATETIME from nanoseconds since 1970."""
    return kernel_name("datetime-nanos", digits)(lambda nanos: datetime_text(nanos // 1_000, digits))


@kernel_name("iso-date")
def read_iso_date(iso: str) -> str:
    """Read a DATE, which may end in a `Z`. Raises ValueError."""
    return read_date(iso.removesuffix("Z"))


_CLOCK: Final = re.compile(
    r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?(?:Z|[+-]00:?00)?", re.ASCII
).fullmatch


def clock_text(iso: str, digits: int | None) -> str:
    """Return the TIME of an ISO text. A text that is not a time of day is read as MySQL's own text, which
    relay writes with `temporal=text` and `time=text`. Digits after the sixth are dropped. Raises ValueError.
    """
    match = _CLOCK(iso)
    if match is None:
        return time_text(time_micros(iso), digits)
    hours, minutes, seconds, fraction = match.groups(default="")
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    return time_text(whole * 1_000_000 + int(fraction[:6].ljust(6, "0")), digits)


_MIDNIGHT_1970: Final = "1970-01-01T00:00:00"


def wall_text(iso: str, digits: int | None) -> str:
    """Return the DATETIME of an ISO text. A text that is not in the calendar is MySQL's own text, which relay
    writes with `temporal=text`, and is returned unchanged. Raises ValueError.
    """
    if _is_midnight_1970(iso):
        return datetime_text(0, digits)
    try:
        return timestamp_text(iso, digits)
    except ValueError:
        if not _is_off_calendar(iso):
            raise
        return iso


def _is_off_calendar(text: str) -> bool:
    """Return whether this is MySQL's own text of a DATETIME with a date that is not in the calendar."""
    try:
        return datetime_micros(text) is None
    except ValueError:
        return False


def _is_midnight_1970(iso: str) -> bool:
    """Return whether a text is the zero TIMESTAMP, which may have fraction digits, too."""
    return iso[:19] == _MIDNIGHT_1970 and not iso[19:-1].strip(".0") and iso[-1:] == "Z"


@functools.lru_cache(maxsize=256)
def timestamp_reader(digits: int | None, zone: tzinfo = UTC) -> Read:
    """Return the function that reads a TIMESTAMP from ISO text; one without `Z` or an offset is local time of
    `zone`.
    """
    return kernel_name("zoned", digits)(lambda iso: _zoned_text(iso, digits, zone))


def _zoned_text(iso: str, digits: int | None, zone: tzinfo) -> str:
    if ZERO_TEXT(iso) is not None:
        return timestamp_text(ZERO_TIMESTAMP, digits)
    if iso[-1:] == "Z" and iso[10:11] == "T":
        return timestamp_text(_MIDNIGHT_1970 + "Z" if _is_midnight_1970(iso) else iso, digits)
    local = LOCAL_TIME(iso)
    if zone is not UTC and local is not None:
        iso = read_timestamp(zone, f"{local[1]} {local[2]}")
    text = timestamp_text(iso, digits)
    # MySQL's own text (`temporal=text`) is kept as it came.
    is_own_text = zone is UTC and local is not None
    if text < FIRST_TIMESTAMP and not is_own_text:
        raise ValueError("not a time that a TIMESTAMP can have")
    return text
