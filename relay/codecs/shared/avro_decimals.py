"""DECIMAL in Avro: its digits without the point, as a number in as few bytes as possible.

Both functions raise ValueError for a value that is no DECIMAL, or does not fit its column.
"""

from __future__ import annotations

from decimal import MAX_EMAX, MIN_EMIN, Context, Decimal, Inexact, InvalidOperation
from typing import Final

#: Maximum bytes of 65 digits.
MOST_BYTES: Final = 28
_MOST_DIGITS: Final = 100
#: Moves the point without rounding, whatever the context of the thread.
_EXACT: Final = Context(prec=_MOST_DIGITS, Emin=MIN_EMIN, Emax=MAX_EMAX, traps=[InvalidOperation, Inexact])


def read_decimal(scale: int, data: bytes) -> Decimal:
    """Read a DECIMAL of a scale."""
    if not 0 < len(data) <= MOST_BYTES:
        raise ValueError("not a decimal number")
    return _EXACT.scaleb(Decimal(int.from_bytes(data, "big", signed=True)), -scale)


def decimal_bytes(precision: int, scale: int, value: Decimal) -> bytes:
    """Write a DECIMAL of `precision` digits, `scale` of them after the point; never rounds."""
    number = _digits(precision, scale, value) if value else 0
    length = (~number if number < 0 else number).bit_length() // 8 + 1
    return number.to_bytes(length, "big", signed=True)


def _digits(precision: int, scale: int, value: Decimal) -> int:
    """Return the digits of a nonzero number, without the point."""
    if not value.is_finite():
        raise ValueError("not a finite number")
    if value.adjusted() + scale >= precision:
        raise ValueError("more digits than the column has")
    try:
        moved = _EXACT.scaleb(value, scale)
    except Inexact:
        raise ValueError("more digits than the column has") from None
    number = int(moved)
    if number != moved:
        raise ValueError("more digits than the column has")
    return number
