"""Kinds of JSON values in rows of Debezium JSON: the Python types that a compiled parser checks, and how a
value that was parsed without one becomes its kind.
"""

from __future__ import annotations

import math
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal

import msgspec

from relay.model import ABSENT
from relay.mysql.numbers import BEYOND_FLOAT

#: A number that 32 bits can hold, which msgspec checks as it parses.
FLOAT32: Any = Annotated[float, msgspec.Meta(gt=-BEYOND_FLOAT, lt=BEYOND_FLOAT)]
#: What Java's JSON writers make of floats that JSON has no number for (Jackson, QUOTE_NON_NUMERIC_NUMBERS).
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
#: A float that may be such a text.
FLOAT_OR_TEXT: Any = float | Literal["NaN", "Infinity", "-Infinity"]


class SPELT:
    """The kind of a DECIMAL in a key, of which text stays text: `wire_key_cell` needs what the message says,
    and not what the column's type makes of it.
    """


class NUMERIC:
    """The kind of a DECIMAL that is a JSON number, where text of digits is another one's bytes in base64."""


#: Kinds that no parser can check, of which it takes anything.
UNCHECKED: Final = frozenset({SPELT, NUMERIC})


def fitting(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value as its column's kind; ABSENT if it cannot be one. Takes what a layout's parser takes: text
    for a DECIMAL, too.
    """
    if value is None or type(value) is kind:
        return value
    if kind is SPELT or kind is NUMERIC or kind is FLOAT32 or kind is FLOAT_OR_TEXT:
        return _narrower(kind, value)
    if kind is float and type(value) in {int, Decimal}:
        try:
            number = float(value)
        except OverflowError:
            return ABSENT
        return number if math.isfinite(number) else ABSENT
    if kind is int and type(value) is Decimal and value.is_zero() and value.is_signed():
        return 0  # `with_negative_zeros` has made it of `-0`
    if kind is Decimal and type(value) in {int, str}:
        try:
            return Decimal(value)
        except InvalidOperation:
            return ABSENT
    return ABSENT


def _narrower(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    if kind is SPELT:
        number = fitting(Decimal, value)
        return value if type(value) is str and number is not ABSENT else number
    if kind is NUMERIC:
        return ABSENT if type(value) is str else fitting(Decimal, value)
    if kind is FLOAT_OR_TEXT and type(value) is str:
        return value if value in _NO_NUMBERS else ABSENT
    number = fitting(float, value)
    if kind is FLOAT_OR_TEXT:
        return number
    return number if number is not ABSENT and abs(number) < BEYOND_FLOAT else ABSENT


def is_no_number(value: object) -> bool:
    """Whether a value is text that stands for a float which JSON has no number for."""
    return type(value) is str and value in _NO_NUMBERS
