"""DECIMAL as Avro has it: its digits without the point, as a number in so few bytes as hold it.

Contract: both functions raise ValueError, for what is no DECIMAL, or none of its column.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Final

#: What 65 digits take.
_MOST_BYTES: Final = 28
_MOST_SHIFT: Final = 200


def read_decimal(scale: int, data: bytes) -> Decimal:
    """Read a DECIMAL of a scale."""
    if not 0 < len(data) <= _MOST_BYTES:
        raise ValueError("not a decimal number")
    number = int.from_bytes(data, "big", signed=True)
    return Decimal((int(number < 0), tuple(map(int, str(abs(number)))), -scale))


def decimal_bytes(precision: int, scale: int, value: Decimal) -> bytes:
    """Write a DECIMAL of so many digits, so many of them behind the point: none is cut."""
    sign, digits, exponent = value.as_tuple()
    if not isinstance(exponent, int):
        raise ValueError("not a finite number")  # noqa: TRY004 - NaN is no other type
    number: int = int("".join(map(str, digits)))
    shift = exponent + scale
    if shift < 0:
        number, rest = divmod(number, 10 ** min(-shift, _MOST_SHIFT))
        if rest:
            raise ValueError("more digits than the column has")
    else:
        number *= 10 ** min(shift, _MOST_SHIFT)
    if len(str(number)) > precision and number:
        raise ValueError("more digits than the column has")
    number = -number if sign else number
    length = (~number if number < 0 else number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)
