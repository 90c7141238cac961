"""Shortcuts for values whose form is the same in source and target.

Each function has the effect of a read of `value_formats` or `temporal_reading` followed by a write of
`value_writing`. Values in an unusual form go through both functions, which raise the errors and count the
losses.
"""

from __future__ import annotations

from binascii import a2b_base64
from collections.abc import Callable
from datetime import date, datetime
from typing import Any, Final

from relay.codecs.debezium.native.temporal_reading import LEAST_TIME_MICROS, time_reader
from relay.codecs.debezium.native.value_formats import MOST_BYTES, decimal_reader
from relay.codecs.debezium.shared.value_writing import LONGEST
from relay.codecs.debezium.shared.values import read_bits, signed64, unsigned64
from relay.codecs.shared.conversions import Convert, Read, Write
from relay.codecs.shared.debezium_temporal import FIRST_TIMESTAMP, date_text, time_micros

_EPOCH: Final = date(1970, 1, 1).toordinal()
_FIRST_DAY: Final = date.min.toordinal() - _EPOCH
_LAST_DAY: Final = date.max.toordinal() - _EPOCH
_DAY_MICROS: Final = 86_400_000_000
#: TIME's own bounds, except the fraction of the lowest hour: old releases write lower numbers for it.
_LONGEST_TIME: Final = 3_020_399_999_999
_END_SIGNED: Final = 1 << 63
#: Padding bytes of a number with more bytes than it needs.
_FILLING: Final = frozenset({0, 0xFF})

_read_time: Final = time_reader(None)


def same_bigint(number: int) -> int:
    """Return BIGINT UNSIGNED as the signed number of the same bits. Raises ValueError."""
    if -_END_SIGNED <= number < _END_SIGNED:
        return number
    return signed64(unsigned64(number))


def same_decimal(scale: int, write: Write) -> Convert:
    """Return a converter from base64 of a DECIMAL's unscaled number to its bytes. It raises ValueError."""
    read = decimal_reader(scale)

    def convert(text: str) -> Any:  # noqa: ANN401 - the result of `write`
        try:
            data = a2b_base64(text, strict_mode=True)
        except ValueError:
            return write(read(text))
        # The first byte may be padding.
        if 0 < len(data) <= MOST_BYTES and (data[0] not in _FILLING or len(data) == 1):
            return data
        return write(read(text))

    return convert


def same_bits(size: int, write: Write) -> Convert:
    """Return a converter from base64 of a BIT(n) of `size` bytes to its bytes. It raises ValueError."""

    def convert(text: str) -> Any:  # noqa: ANN401 - the result of `write`
        try:
            data = a2b_base64(text, strict_mode=True)
        except ValueError:
            return write(read_bits(text))
        return data if len(data) == size else write(read_bits(text))

    return convert


def same_date(days: int) -> int:
    """Return a DATE in days since 1970, checked. Raises ValueError."""
    if not _FIRST_DAY <= days <= _LAST_DAY:
        date_text(days)
    return days


def same_time(micros: int) -> int:
    """Return a TIME in microseconds, checked. Raises ValueError."""
    if LEAST_TIME_MICROS <= micros <= _LONGEST_TIME:
        return micros
    return time_micros(str(_read_time(micros)))


def same_datetime(unit_micros: int) -> Convert:
    """Return the function that checks a DATETIME in counts of this unit since 1970. It raises ValueError."""
    day = _DAY_MICROS // unit_micros
    first, end = _FIRST_DAY * day, (_LAST_DAY + 1) * day

    def convert(count: int) -> int:
        if not first <= count < end:
            date_text(count // day)
        return count

    return convert


_from_iso: Final = datetime.fromisoformat
#: The separators of an ISO text: every third character from the fifth on.
_SHAPES: Final = frozenset({"--T::", "--T::."})
_FIRST_ISO: Final = FIRST_TIMESTAMP.replace(" ", "T")


def same_timestamp(digits: int | None, read: Read, write: Write) -> Callable[[str], Any]:
    """Return the function that converts a TIMESTAMP with `digits` fraction digits from ISO text in UTC to the
    same. It raises ValueError.
    """
    length = 0
    if digits is not None:
        length = LONGEST - 6 + digits if digits else 19

    def convert(iso: str) -> Any:  # noqa: ANN401 - the result of `write`
        text = iso[:-1]
        if len(text) == length and iso[-1] == "Z" and text[4:20:3] in _SHAPES and text >= _FIRST_ISO:
            try:
                if _from_iso(text).tzinfo is None:
                    return iso
            except ValueError:
                pass
        return write(read(iso))

    return convert
