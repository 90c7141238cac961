"""The Spark type of each MySQL type, and values as text that Spark casts to it.

A worker yields values as text, because the rows of one task may be of several tables. It yields only text
that the cast accepts and keeps exactly; any other value has no text here (`Fit` returns None), and is kept in
the column `exact`.

Integers become the smallest type that holds all values. Text of binary types is hexadecimal digits, that of
TIMESTAMP has the zone Z. docs/rows.md has the table.
"""

from __future__ import annotations

import math
import re
import struct
from collections.abc import Callable, Mapping
from datetime import datetime
from decimal import Decimal
from typing import Final

from pyspark.sql import Column
from pyspark.sql import functions as F
from pyspark.sql.types import (
    BinaryType,
    ByteType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegerType,
    LongType,
    ShortType,
    StringType,
    TimestampNTZType,
    TimestampType,
)

from relay.model.events import ColumnType, Value
from relay.mysql.members import label_text
from relay.mysql.numbers import decimal_text
from relay.mysql.types import BINARIES, INTEGER_BITS

#: A value as text for Spark's cast; None if the Spark type cannot hold it.
Fit = Callable[[Value], str | None]

#: Spark's integers by their bits.
_INTEGERS: Final[Mapping[int, DataType]] = {
    8: ByteType(),
    16: ShortType(),
    32: IntegerType(),
    64: LongType(),
}
#: The type of integers with 64 bits and no sign.
_UNSIGNED_64: Final = DecimalType(20, 0)
_FLOAT32: Final = struct.Struct("<f")
_DATE: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch
_DATETIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(?:\.\d{1,6})?", re.ASCII).fullmatch


def spark_type(column_type: ColumnType) -> DataType:
    """Return the Spark type of a column."""
    base, length, scale = column_type.base, column_type.length, column_type.scale
    if base in INTEGER_BITS:
        return _integer(INTEGER_BITS[base] - (not column_type.unsigned))
    if base == "bit":
        return _UNSIGNED_64 if length is None else _integer(max(length, 63))
    if base == "decimal" and length is not None and scale is not None:
        return DecimalType(length, scale) if length <= _MOST_DIGITS else StringType()
    if base in BINARIES:
        return BinaryType()
    return _TYPES.get(base, StringType())


_TYPES: Final[Mapping[str, DataType]] = {
    "year": IntegerType(),
    "float": FloatType(),
    "double": DoubleType(),
    "date": DateType(),
    "datetime": TimestampNTZType(),
    "timestamp": TimestampType(),
}
#: The most digits of Spark's decimal.
_MOST_DIGITS: Final = 38


def _integer(bits: int) -> DataType:
    """Return the smallest integer of Spark with this number of bits beside the sign."""
    return next((kind for size, kind in _INTEGERS.items() if bits < size), _UNSIGNED_64)


def fit_of(column_type: ColumnType, to: DataType) -> Fit:
    """Return the function for the values of a column, as its row declares it. `to`: the Spark type."""
    if column_type.base in {"enum", "set"}:
        return _labels(column_type, to)
    if isinstance(to, DecimalType):
        return _decimal(to.precision, to.scale)
    for size, kind in _INTEGERS.items():
        if kind == to:
            return _whole(-(1 << size - 1), 1 << size - 1)
    return _FITS[to]


def _labels(column_type: ColumnType, to: DataType) -> Fit:
    def fit(value: Value) -> str | None:
        if to != StringType():
            return None
        if isinstance(value, str):
            return value
        return label_text(column_type, value) if isinstance(value, int) else None

    return fit


def _whole(first: int, end: int) -> Fit:
    def fit(value: Value) -> str | None:
        return str(value) if isinstance(value, int) and first <= value < end else None

    return fit


def _decimal(precision: int, scale: int) -> Fit:
    def fit(value: Value) -> str | None:
        if not isinstance(value, (Decimal, int)):
            return None
        number = Decimal(value)
        if not number.is_finite():
            return None
        # As digits: no operation of Decimal may round.
        whole, _, fraction = format(number.copy_abs(), "f").partition(".")
        if len(whole.lstrip("0")) > precision - scale or len(fraction.rstrip("0")) > scale:
            return None
        return format(number, "f")

    return fit


def _float(value: Value) -> str | None:
    """Return the digits of a number if they are those of a 32-bit number."""
    text = _double(value)
    if text is None or text in _NOT_FINITE.values():
        return text
    number = float(text)
    try:
        exact: float = _FLOAT32.unpack(_FLOAT32.pack(number))[0]
    except OverflowError:
        return None
    # Tiny numbers have fewer digits than others.
    is_same = number == exact or any(float(f"{exact:.{digits}g}") == number for digits in range(1, 10))
    return text if is_same else None


def _double(value: Value) -> str | None:
    if isinstance(value, float):
        return repr(value) if math.isfinite(value) else _NOT_FINITE[repr(value)]
    if not isinstance(value, int):
        return None
    try:
        is_exact = value == float(value)
    except OverflowError:
        return None
    return str(value) if is_exact else None


_NOT_FINITE: Final = {"nan": "NaN", "inf": "Infinity", "-inf": "-Infinity"}


def _date(value: Value) -> str | None:
    return value if isinstance(value, str) and _DATE(value) and _is_in_calendar(value) else None


def _datetime(value: Value) -> str | None:
    return value if isinstance(value, str) and _DATETIME(value) and _is_in_calendar(value) else None


def _timestamp(value: Value) -> str | None:
    text = _datetime(value)
    return None if text is None else f"{text}Z"


def _is_in_calendar(text: str) -> bool:
    """Return whether a time is one of the years 1 to 9999, unlike 0000-00-00 and 2009-11-31."""
    try:
        datetime.fromisoformat(text)
    except ValueError:
        return False
    return True


def _binary(value: Value) -> str | None:
    return value.hex() if isinstance(value, bytes) else None


def _string(value: Value) -> str | None:
    if isinstance(value, bytes):
        return None
    return value if isinstance(value, str) else exact_text(value)


_FITS: Final[Mapping[DataType, Fit]] = {
    FloatType(): _float,
    DoubleType(): _double,
    DateType(): _date,
    TimestampNTZType(): _datetime,
    TimestampType(): _timestamp,
    BinaryType(): _binary,
    StringType(): _string,
}


def exact_text(value: Value) -> str:
    """Return a value as text for `exact`: bytes as hexadecimal digits, numbers as their digits."""
    if isinstance(value, bytes):
        return value.hex()
    if isinstance(value, Decimal):
        return decimal_text(value)
    return value if isinstance(value, str) else repr(value)


def typed(text: Column, to: DataType) -> Column:
    """Return the text of a value as its Spark type."""
    if to == BinaryType():
        return F.unhex(text)
    return text if to == StringType() else text.cast(to)
