"""Dates and times of the Debezium formats: conversions between MySQL's own text and counts of days or seconds
or ISO text.

Pure functions, both directions. Writing functions take canonical values (`relay.model.events`), check their
form and raise ValueError; None stands for a date that is not in the calendar (zero dates, `2009-11-31`),
which has no number in these formats. Reading functions raise ValueError for an invalid value; a count of
fraction digits (`digits`) never truncates the value. Error messages never contain the value. Years 0 to 69
become 2000 to 2069, years 70 to 99 become 1970 to 1999, as Debezium's `enable.time.adjuster` does by default;
TiCDC does the same (pingcap/ticdc pkg/sink/codec/debezium/codec.go, 2026-08; Debezium "MySQL connector",
temporal types).
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, date
from typing import Final

from relay.mysql import temporal
from relay.mysql.conversion_names import kernel_name

#: The zero TIMESTAMP in Debezium and TiCDC; MySQL's smallest real one is a second later.
ZERO_TIMESTAMP: Final = "1970-01-01T00:00:00Z"
FIRST_TIMESTAMP: Final = "1970-01-01 00:00:01"
_DAY_MICROS: Final = 86_400_000_000
#: The largest TIME, 838:59:59.999999.
_LONGEST_TIME_MICROS: Final = 3_020_399_999_999

_EPOCH: Final = date(1970, 1, 1).toordinal()
_SECONDS_OF_MINUTE: Final = {f"{m // 60:02}:{m % 60:02}": m * 60 for m in range(24 * 60)}
_SECONDS: Final = {f":{s:02}": s for s in range(60)}
_MINUTE_TEXTS: Final = tuple(_SECONDS_OF_MINUTE)
_SECOND_TEXTS: Final = tuple(_SECONDS)
#: Microseconds of the last place of a fraction, by its number of digits.
_PLACES: Final = (1_000_000, 100_000, 10_000, 1_000, 100, 10, 1)

# ---------------------------------------------------------------- DATE


def adjusted_year(year: int) -> int:
    """Return the full year for one of two digits, every other one unchanged."""
    if year < 70:
        return year + 2000
    return year + 1900 if year < 100 else year


@functools.lru_cache(maxsize=16_384)
def date_days(text: str) -> int | None:
    """Return the days since 1970 of a DATE; None if it is not in the calendar. Raises ValueError."""
    temporal.read_date(text)
    try:
        day = date(adjusted_year(int(text[:4])), int(text[5:7]), int(text[8:]))
    except ValueError:
        return None
    return day.toordinal() - _EPOCH


@functools.lru_cache(maxsize=16_384)
def calendar_days(text: str) -> int | None:
    """Return the days since 1970 of a DATE as `date_days` does, but without adjusting its year."""
    temporal.read_date(text)
    try:
        return date.fromisoformat(text).toordinal() - _EPOCH
    except ValueError:
        return None


@kernel_name("date-days")
@functools.lru_cache(maxsize=16_384)
def date_text(days: int) -> str:
    """Return the DATE this many days after 1970-01-01. Raises ValueError beyond the years 1 to 9999."""
    try:
        return date.fromordinal(days + _EPOCH).isoformat()
    except (ValueError, OverflowError):
        raise ValueError("a day beyond the calendar") from None


# ---------------------------------------------------------------- DATETIME


def _seconds(text: str) -> int | None:
    """Return the whole seconds since 1970 of a DATETIME's first 19 characters, read as UTC; None if it is not
    in the calendar. Raises ValueError.
    """
    try:
        clock = _SECONDS_OF_MINUTE[text[11:16]] + _SECONDS[text[16:19]]
    except KeyError:
        raise ValueError("not a date and time") from None
    if text[10] != " ":
        raise ValueError("not a date and time")
    days = date_days(text[:10])
    return None if days is None else days * 86_400 + clock


def _fraction_micros(text: str) -> int:
    """Return the microseconds of a fraction such as `.123`; 0 for an empty one. Raises ValueError."""
    if not text:
        return 0
    digits = text[1:]
    if text[0] != "." or not digits.isdecimal() or not digits.isascii() or len(digits) > 6:
        raise ValueError("not a fraction of a second")
    return int(digits) * _PLACES[len(digits)]


def datetime_millis(text: str) -> int | None:
    """Return the milliseconds since 1970 of a DATETIME; None if not in the calendar. Raises ValueError."""
    seconds, micros = _seconds(text), _fraction_micros(text[19:])
    return None if seconds is None else seconds * 1_000 + micros // 1_000


def datetime_micros(text: str) -> int | None:
    """Return the microseconds since 1970 of a DATETIME; None if not in the calendar. Raises ValueError."""
    seconds, micros = _seconds(text), _fraction_micros(text[19:])
    return None if seconds is None else seconds * 1_000_000 + micros


def datetime_text(micros: int, digits: int | None) -> str:
    """Return the DATETIME this many microseconds after 1970, with this many fraction digits (None: 0, 3 or 6,
    as needed). Raises ValueError beyond the years 1 to 9999.
    """
    days, rest = divmod(micros, _DAY_MICROS)
    clock, part = divmod(rest, 1_000_000)
    minute, second = divmod(clock, 60)
    return f"{date_text(days)} {_MINUTE_TEXTS[minute]}{_SECOND_TEXTS[second]}{_fraction_text(part, digits)}"


def _fraction_text(micros: int, digits: int | None) -> str:
    if not micros and not digits:
        return ""
    if digits is None or micros % _PLACES[digits]:
        digits = 6 if micros % 1000 else 3
    return f".{micros:06}"[: digits + 1]


# ---------------------------------------------------------------- TIMESTAMP


def iso_timestamp(text: str, digits: int | None) -> str:
    """Return a UTC TIMESTAMP as ISO text with `Z`; `digits` None: as many as it has. Raises ValueError."""
    fraction = text[19:]
    seconds, micros = _seconds(text), _fraction_micros(fraction)
    if seconds is None or text < FIRST_TIMESTAMP:
        return ZERO_TIMESTAMP
    if digits is not None:
        fraction = _fraction_text(micros, digits)
    return f"{text[:10]}T{text[11:19]}{fraction}Z"


def timestamp_text(iso: str, digits: int | None) -> str:
    """Return the UTC TIMESTAMP of ISO text with `Z` or an offset, with this many fraction digits (None: those
    of the text).

    Producers may shorten the fraction, and some write nine digits: those after the sixth are dropped. Raises
    ValueError.
    """
    if iso == ZERO_TIMESTAMP:
        return "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")
    if iso[-1:] == "Z" and iso[10:11] == "T":
        text = f"{iso[:10]} {iso[11:-1]}"
    else:
        text = temporal.read_timestamp(UTC, _NANOSECOND_DIGITS.sub("", iso.replace("T", " ")))
    if _seconds(text) is None:
        raise ValueError("not a date and time")
    fraction = text[19:]
    if not fraction and not digits:
        return text
    fraction = _NANOSECOND_DIGITS.sub("", fraction)
    micros = _fraction_micros(fraction)
    return text[:19] + _fraction_text(micros, len(fraction) - 1 if digits is None else digits)


#: Digits after the sixth of a fraction, which MySQL does not have.
_NANOSECOND_DIGITS: Final = re.compile(r"(?<=\.\d{6})\d{1,3}", re.ASCII)
_TOO_FINE: Final = re.compile(r"\.\d{6}0*[1-9]", re.ASCII).search


def is_too_fine_text(text: str) -> bool:
    """Return whether a time has nonzero digits after the sixth of its fraction."""
    return _TOO_FINE(text) is not None


#: A date and time without a zone; MySQL has no digits after the sixth of its fraction.
LOCAL_TIME: Final = re.compile(
    r"(\d{4}-\d\d-\d\d)[T ](\d\d:\d\d:\d\d(?:\.\d{1,6})?)\d{0,3}", re.ASCII
).fullmatch
#: The zero TIMESTAMP as MySQL's own text; no other is off the calendar.
ZERO_TEXT: Final = re.compile(r"0000-00-00 00:00:00(?:\.0{1,6})?").fullmatch


def lacks_zone(text: str) -> bool:
    """Return whether the text of a TIMESTAMP has neither `Z` nor an offset; the zero one is no local time."""
    return text[-1:] != "Z" and LOCAL_TIME(text) is not None and ZERO_TEXT(text) is None


# ---------------------------------------------------------------- TIME

_TIME: Final = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(\.\d{1,6})?", re.ASCII).fullmatch


@kernel_name("time-micros")
def time_micros(text: str) -> int:
    """Return the signed microseconds of a TIME. Raises ValueError, also beyond 838:59:59.999999."""
    minute = _SECONDS_OF_MINUTE.get(text[:5])
    second = _SECONDS.get(text[5:8])
    if minute is not None and second is not None:
        return (minute + second) * 1_000_000 + _fraction_micros(text[8:])
    match = _TIME(text)
    if match is None:
        raise ValueError("not a time")
    sign, hours, minutes, seconds, fraction = match.groups()
    clock = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    micros = clock * 1_000_000 + _fraction_micros(fraction or "")
    if micros > _LONGEST_TIME_MICROS:
        raise ValueError("beyond the range of TIME")
    return -micros if sign else micros


def time_text(micros: int, digits: int | None) -> str:
    """Return the TIME of this many microseconds, digits as in `datetime_text`. Raises ValueError beyond
    838:59:59.999999.
    """
    size = abs(micros)
    if size > _LONGEST_TIME_MICROS:
        raise ValueError("beyond the range of TIME")
    clock, part = divmod(size, 1_000_000)
    minutes, second = divmod(clock, 60)
    hours, minute = divmod(minutes, 60)
    sign = "-" if micros < 0 else ""
    return f"{sign}{hours:02}:{minute:02}{_SECOND_TEXTS[second]}{_fraction_text(part, digits)}"
