"""Kinds of JSON values in rows of Debezium JSON: the Python types that a compiled parser checks, and how a
value that was parsed without one becomes its kind.
"""

from __future__ import annotations

import math
import re
import sys
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, Literal

import msgspec

from relay.codecs.shared.lenient_json import with_negative_zeros
from relay.model.events import ABSENT
from relay.mysql.numbers import BEYOND_FLOAT

#: A number that 32 bits can hold, which msgspec checks as it parses.
FLOAT32: Any = Annotated[float, msgspec.Meta(gt=-BEYOND_FLOAT, lt=BEYOND_FLOAT)]
#: What Java's JSON writers make of floats that JSON has no number for (Jackson, QUOTE_NON_NUMERIC_NUMBERS).
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
#: A float that may be such a text.
FLOAT_OR_TEXT: Any = float | Literal["NaN", "Infinity", "-Infinity"]


class SPELLED:
    """The kind of a DECIMAL in a key, of which text stays text: `wire_key_cell` needs what the message says,
    and not what the column's type makes of it.
    """


class NUMERIC:
    """The kind of a DECIMAL that is a JSON number, where text of digits is another one's bytes in base64."""


#: Kinds that no parser can check: it takes anything for them.
UNCHECKED: Final = frozenset({SPELLED, NUMERIC})


def fitting(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value as its column's kind; ABSENT if it cannot be one. Takes what a layout's parser takes: text
    for a DECIMAL, too.
    """
    if value is None or type(value) is kind:
        return value
    if kind is SPELLED or kind is NUMERIC or kind is FLOAT32 or kind is FLOAT_OR_TEXT:
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
    if kind is SPELLED:
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


def wire_key_cell(cell: str | float | Decimal | dict[str, Any] | list[Any] | None) -> str | int | None:
    """Return a cell of a key (`Images.raw_key`) as it is whatever is known of its column.

    Of a number, only the shortest digits count: what JSON has as a number is an integer, a float or a
    decimal, as the column's type says and, where nobody knows it, as the number itself looks.
    """
    if cell is None or isinstance(cell, str | int):
        return cell
    if isinstance(cell, dict | list):  # a DECIMAL with a scale of its own, for example
        return msgspec.json.encode(cell, order="sorted").decode()
    number = cell if isinstance(cell, Decimal) else Decimal(repr(cell))
    if not number.is_finite():
        return str(number)
    if number.adjusted() <= sys.float_info.max_10_exp and number == number.to_integral_value():
        return int(number)
    return repr(float(number))


# ---------------------------------------------------------------- images that no layout parses


def exact_number(text: str) -> Decimal:
    """Read a number with all its digits. Raises ValueError for an exponent that no Decimal has."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("Number out of range") from None


_decode_image = msgspec.json.Decoder(dict[str, Any], float_hook=exact_number).decode


#: Whole numbers with more digits than an int of msgspec may have, but a Decimal may; not the digits of a
#: fraction or an exponent. The closing quote may be missing, and nothing begins inside a number, so that no
#: byte is looked at twice.
_STRING_OR_LONG_NUMBER: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|(?<![\d.eE+])(?<![eE]-)\d{4301,}+(?![.eE])', re.DOTALL
)


def parsed_image(image: bytes) -> dict[str, Any]:
    """Parse an image as a JSON object whose numbers keep all digits. Raises what msgspec raises."""
    image = with_negative_zeros(image)
    if len(image) > _LONG:
        image = _STRING_OR_LONG_NUMBER.sub(_as_fraction, image)
    row: dict[str, Any] = _decode_image(image)
    return row


_LONG: Final = 4301


def _as_fraction(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else match[0] + b".0"
