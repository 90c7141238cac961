"""Values of the Debezium family: MySQL's own text on one side, counts of days or seconds and ISO text on the
other.

Contract: pure functions, both directions. Those that write take canonical values (`relay.model`), check their
form and raise ValueError; None stands for a date that is not in the calendar (zero dates, `2009-11-31`),
which the formats have no number for. Those that read raise ValueError for what is no such value. Messages
never hold the value. Years 0 to 69 become 2000 to 2069, years 70 to 99 become 1970 to 1999, as Debezium's
`enable.time.adjuster` does by default; TiCDC does the same (pingcap/ticdc pkg/sink/codec/debezium/codec.go,
2026-08; Debezium "MySQL connector", temporal types).
"""

from __future__ import annotations

import functools
import re
from datetime import UTC, date
from decimal import Context, Decimal
from typing import Final

from relay.codecs.wire.lenient_json import read_base64
from relay.mysql import members as _members
from relay.mysql import temporal

DAY_MICROS: Final = 86_400_000_000
#: What Debezium and TiCDC write for the zero TIMESTAMP; MySQL's smallest real one is a second later.
ZERO_TIMESTAMP: Final = "1970-01-01T00:00:00Z"
#: The largest TIME, 838:59:59.999999, in microseconds.
_LONGEST_TIME: Final = 3_020_399_999_999

_EPOCH: Final = date(1970, 1, 1).toordinal()
_SECONDS_OF_MINUTE: Final = {f"{m // 60:02}:{m % 60:02}": m * 60 for m in range(24 * 60)}
_SECONDS: Final = {f":{s:02}": s for s in range(60)}
_MINUTE_TEXTS: Final = tuple(_SECONDS_OF_MINUTE)
_SECOND_TEXTS: Final = tuple(_SECONDS)
#: Microseconds of the last place of a fraction with so many digits.
_PLACES: Final = (1_000_000, 100_000, 10_000, 1_000, 100, 10, 1)

# ---------------------------------------------------------------- DATE


@functools.lru_cache(maxsize=16_384)
def days(text: str) -> int | None:
    """Days since 1970 of a DATE; None if it is not in the calendar. Raises ValueError."""
    temporal.read_date(text)
    year = int(text[:4])
    try:
        day = date(
            year + 2000 if year < 70 else year + 1900 if year < 100 else year, int(text[5:7]), int(text[8:])
        )
    except ValueError:
        return None
    return day.toordinal() - _EPOCH


@functools.lru_cache(maxsize=16_384)
def date_text(count: int) -> str:
    """The DATE that is so many days after 1970-01-01. Raises ValueError beyond the years 1 to 9999."""
    try:
        return date.fromordinal(count + _EPOCH).isoformat()
    except (ValueError, OverflowError):
        raise ValueError("a day beyond the calendar") from None


# ---------------------------------------------------------------- DATETIME


def seconds(text: str) -> int | None:
    """Whole seconds since 1970 of a DATETIME's first 19 characters, read as UTC; None if not in the calendar.
    Raises ValueError.
    """
    try:
        clock = _SECONDS_OF_MINUTE[text[11:16]] + _SECONDS[text[16:19]]
    except KeyError:
        raise ValueError("not a date and time") from None
    if text[10] != " ":
        raise ValueError("not a date and time")
    day = days(text[:10])
    return None if day is None else day * 86_400 + clock


def fraction_micros(text: str) -> int:
    """Microseconds in a fraction such as `.123`; 0 for an empty one. Raises ValueError."""
    if not text:
        return 0
    digits = text[1:]
    if text[0] != "." or not digits.isdecimal() or not digits.isascii() or len(digits) > 6:
        raise ValueError("not a fraction of a second")
    return int(digits) * _PLACES[len(digits)]


def millis(text: str) -> int | None:
    """Milliseconds since 1970 of a DATETIME; None if not in the calendar. Raises ValueError."""
    whole, part = seconds(text), fraction_micros(text[19:])
    return None if whole is None else whole * 1_000 + part // 1_000


def micros(text: str) -> int | None:
    """Microseconds since 1970 of a DATETIME; None if not in the calendar. Raises ValueError."""
    whole, part = seconds(text), fraction_micros(text[19:])
    return None if whole is None else whole * 1_000_000 + part


def datetime_text(count: int, digits: int | None) -> str:
    """The DATETIME that is so many microseconds after 1970, with so many fraction digits (None: 0, 3 or 6, as
    it needs).

    Digits that the number has are never cut off. Raises ValueError beyond the years 1 to 9999.
    """
    day, rest = divmod(count, DAY_MICROS)
    clock, part = divmod(rest, 1_000_000)
    minute, second = divmod(clock, 60)
    return f"{date_text(day)} {_MINUTE_TEXTS[minute]}{_SECOND_TEXTS[second]}{_fraction_text(part, digits)}"


def _fraction_text(part: int, digits: int | None) -> str:
    if not part and not digits:
        return ""
    if digits is None or part % _PLACES[digits]:
        digits = 6 if part % 1000 else 3
    return f".{part:06}"[: digits + 1]


# ---------------------------------------------------------------- TIMESTAMP


def zoned(text: str, digits: int | None) -> str:
    """A TIMESTAMP in UTC as ISO text with `Z`, with so many fraction digits (None: those that it has). Raises
    ValueError.
    """
    if seconds(text) is None or text < FIRST_TIMESTAMP:
        return ZERO_TIMESTAMP
    fraction = text[19:]
    part = fraction_micros(fraction)
    if digits is not None:
        fraction = _fraction_text(part, digits)
    return f"{text[:10]}T{text[11:19]}{fraction}Z"


#: MySQL's smallest TIMESTAMP.
FIRST_TIMESTAMP: Final = "1970-01-01 00:00:01"


def timestamp_text(text: str, digits: int | None) -> str:
    """A TIMESTAMP in UTC from ISO text with `Z` or an offset, with so many fraction digits (None: those that
    it has).

    Producers may shorten the fraction, and some have nine digits. Raises ValueError.
    """
    if text == ZERO_TIMESTAMP:
        return "0000-00-00 00:00:00" + ("." + "0" * digits if digits else "")
    if text[-1:] == "Z" and text[10:11] == "T":
        body = f"{text[:10]} {text[11:-1]}"
    else:
        body = temporal.read_timestamp(UTC, _NANOSECONDS.sub("", text.replace("T", " ")))
    if seconds(body) is None:
        raise ValueError("not a date and time")
    fraction = body[19:]
    if not fraction and not digits:
        return body
    part = fraction_micros(fraction[:7])
    return body[:19] + _fraction_text(part, len(fraction[:7]) - 1 if digits is None else digits)


#: Digits behind the sixth of a fraction, which MySQL does not have.
_NANOSECONDS: Final = re.compile(r"(?<=\.\d{6})\d{1,3}")

# ---------------------------------------------------------------- TIME

_TIME: Final = re.compile(r"(-?)(\d{2,3}):([0-5]\d):([0-5]\d)(\.\d{1,6})?", re.ASCII).fullmatch


def time_micros(text: str) -> int:
    """Signed microseconds of a TIME. Raises ValueError."""
    minute = _SECONDS_OF_MINUTE.get(text[:5])
    second = _SECONDS.get(text[5:8])
    if minute is not None and second is not None:
        return (minute + second) * 1_000_000 + fraction_micros(text[8:])
    match = _TIME(text)
    if match is None:
        raise ValueError("not a time")
    sign, hours, minutes, rest, fraction = match.groups()
    count = (int(hours) * 3600 + int(minutes) * 60 + int(rest)) * 1_000_000 + fraction_micros(fraction or "")
    return -count if sign else count


def time_text(count: int, digits: int | None) -> str:
    """The TIME of so many microseconds, digits as in `datetime_text`. Raises ValueError beyond
    838:59:59.999999.
    """
    size = abs(count)
    if size > _LONGEST_TIME:
        raise ValueError("beyond the range of TIME")
    clock, part = divmod(size, 1_000_000)
    minutes, second = divmod(clock, 60)
    hours, minute = divmod(minutes, 60)
    return f"{'-' if count < 0 else ''}{hours:02}:{minute:02}{_SECOND_TEXTS[second]}{_fraction_text(part, digits)}"


# ---------------------------------------------------------------- numbers and bytes


def signed64(value: int) -> int:
    """BIGINT UNSIGNED as the signed number with the same 64 bits. Raises ValueError."""
    if value < 1 << 63:
        return value
    if value >= 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value - (1 << 64)


def unsigned64(value: int) -> int:
    """The inverse of `signed64`. Raises ValueError."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value + (1 << 64) if value < 0 else value


def bits(size: int, value: int) -> bytes:
    """BIT(n) as `size` bytes, the lowest first. Raises OverflowError."""
    return value.to_bytes(size, "little")


def read_bits(text: str) -> int:
    """BIT(n) from base64 of its bytes, the lowest first; missing ones are 0. Raises ValueError."""
    return int.from_bytes(read_base64(text), "little")


#: DECIMAL has at most 65 digits (MySQL Reference Manual §11.1.3).
_CONTEXT: Final = Context(prec=200)
_MOST_DIGITS: Final = 100


def scaled(scale: int | None, value: Decimal) -> Decimal:
    """A decimal that has lost its trailing zeros, with its scale again; further digits stay. Raises
    ValueError.
    """
    if not value.is_finite() or not -_MOST_DIGITS <= value.adjusted() <= _MOST_DIGITS:
        raise ValueError("not a decimal number")
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and (exponent > 0 or (scale is not None and -exponent < scale)):
        return value.quantize(Decimal((0, (1,), -(scale or 0))), context=_CONTEXT)
    return value


# ---------------------------------------------------------------- ENUM and SET


def escaped_members(members: tuple[str, ...]) -> str:
    """`allowed` of an ENUM: commas inside a member are escaped, quotes are not (pingcap/ticdc
    pkg/sink/codec/debezium).
    """
    return ",".join(member.replace(",", "\\,").replace("\\'", "'").replace("''", "'") for member in members)


def split_members(allowed: str) -> tuple[str, ...]:
    """The members in `allowed`; the inverse of `escaped_members` as far as there is one."""
    return tuple(part.replace("\\,", ",") for part in _COMMA(allowed))


_COMMA: Final = re.compile(r"(?<!\\),").split


def read_enum(numbers: dict[str, int], label: str) -> int:
    """As `relay.mysql.members.read_enum`. Debezium before 3.7 leaves the backslash before a comma in values
    too.
    """
    return _members.read_enum(numbers, label if label in numbers else label.replace("\\,", ","))
