"""Numbers and bytes of the Debezium family.

Pure functions. Those that write take canonical values (`relay.model.events`); those that read raise
ValueError for an invalid value. Error messages never contain the value.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Final

from relay.codecs.shared.base64_text import read_base64
from relay.model.events import ColumnType
from relay.mysql.conversion_names import kernel_name


@kernel_name("signed64")
def signed64(value: int) -> int:
    """Return BIGINT UNSIGNED as the signed number with the same 64 bits. Raises ValueError."""
    if 0 <= value < 1 << 63:
        return value
    if not 0 <= value < 1 << 64:
        raise ValueError("not an unsigned number of 64 bits")
    return value - (1 << 64)


@kernel_name("unsigned64")
def unsigned64(value: int) -> int:
    """Return the inverse of `signed64`. Raises ValueError."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value + (1 << 64) if value < 0 else value


#: BIT has at most 64 bits (MySQL Reference Manual §13.1.5).
_BIT_BYTES: Final = 8


def bits(size: int, value: int) -> bytes:
    """Return BIT(n) as `size` bytes, lowest first; a number that needs more bytes, up to 8, has as many as it
    needs.

    Raises OverflowError.
    """
    try:
        return value.to_bytes(size, "little")
    except OverflowError:
        return value.to_bytes(min((value.bit_length() + 7) // 8, _BIT_BYTES), "little")


@kernel_name("bits")
def read_bits(text: str) -> int:
    """Read BIT(n) from base64 of its bytes, lowest first; missing ones are 0. Raises ValueError."""
    data = read_base64(text)
    if len(data) > _BIT_BYTES and any(data[_BIT_BYTES:]):
        raise ValueError("a number beyond 64 bits")
    return int.from_bytes(data[:_BIT_BYTES], "little")


#: DECIMAL has at most 65 digits (MySQL Reference Manual §11.1.3).
_CONTEXT: Final = Context(prec=200)
_MAX_DIGITS: Final = 100


def scaled(scale: int | None, value: Decimal) -> Decimal:
    """Restore the scale of a decimal that lost its trailing zeros; more digits stay. Raises ValueError."""
    if not value.is_finite() or not -_MAX_DIGITS <= value.adjusted() <= _MAX_DIGITS:
        raise ValueError("not a decimal number")
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and (exponent > 0 or (scale is not None and -exponent < scale)):
        return value.quantize(Decimal((0, (1,), -(scale or 0))), context=_CONTEXT)
    return value


def double_reader(column_type: ColumnType) -> Callable[[Decimal], Decimal]:
    """Return the reading function of a DECIMAL that was a 64-bit number in transit.

    The greatest values of 16 digits and more became a number that exceeds their column, and readers clamp it:
    9999999999999999.9999 becomes 10000000000000000. Such a number was the greatest value, or one beside it.
    """
    length, scale = column_type.length, column_type.scale
    if length is not None and scale is not None:
        greatest = Decimal((0, (9,) * length, -scale))
        if Decimal(repr(float(greatest))) > greatest:
            read = functools.partial(_scaled_within, scale, greatest)
            return kernel_name("decimal-number", length, scale)(read)
    return scaled_reader(scale)


def scaled_reader(scale: int | None) -> Callable[[Decimal], Decimal]:
    """Return `scaled` for a scale."""
    return kernel_name("decimal-number", None, scale)(functools.partial(scaled, scale))


def _scaled_within(scale: int, greatest: Decimal, value: Decimal) -> Decimal:
    if value.adjusted() > greatest.adjusted() and abs(float(value)) == float(greatest):
        return greatest.copy_sign(value)
    return scaled(scale, value)
