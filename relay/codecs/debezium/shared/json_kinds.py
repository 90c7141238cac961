"""Kinds of JSON values in rows of Debezium JSON: the Python types that a compiled parser checks, and the
conversion of values that were parsed without one.
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

#: A number of 32 bits, which msgspec checks as it parses.
FLOAT32: Any = Annotated[float, msgspec.Meta(gt=-BEYOND_FLOAT, lt=BEYOND_FLOAT)]
#: The texts that Java's JSON writers use for floats without a JSON number (Jackson,
#: QUOTE_NON_NUMERIC_NUMBERS).
_NO_NUMBERS: Final = frozenset({"NaN", "Infinity", "-Infinity"})
#: A float, or one of these texts.
FLOAT_OR_TEXT: Any = float | Literal["NaN", "Infinity", "-Infinity"]


class SPELLED:
    """The kind of a DECIMAL in a key; text stays text: `wire_key_cell` needs the message's value, not its
    conversion by the column's type.
    """


class NUMERIC:
    """The kind of a DECIMAL that is a JSON number. Text of digits is base64 of another number's bytes."""


#: Kinds that no parser can check: it accepts any value for them.
UNCHECKED: Final = frozenset({SPELLED, NUMERIC})


def fitting(kind: Any, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value as its column's kind; ABSENT if it cannot be one. Accepts the same values as a
    layout's parser: text for a DECIMAL, too.
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
        return 0  # `with_negative_zeros` has replaced `-0` by it
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
    """Return whether a value is a text that stands for a float without a JSON number."""
    return type(value) is str and value in _NO_NUMBERS


def wire_key_cell(cell: str | float | Decimal | dict[str, Any] | list[Any] | None) -> str | int | None:
    """Return a cell of a key (`Images.raw_key`) in a form that does not depend on its column's type.

    Of a number, only the shortest digits count: a JSON number is read as an integer, a float or a decimal,
    depending on the column's type or, if that is unknown, on the number's form.
    """
    if cell is None or isinstance(cell, str | int):
        return cell
    if isinstance(cell, dict | list):  # a DECIMAL with a scale per value, for example
        return msgspec.json.encode(cell, order="sorted").decode()
    number = cell if isinstance(cell, Decimal) else Decimal(repr(cell))
    if not number.is_finite():
        return str(number)
    if number.adjusted() <= sys.float_info.max_10_exp and number == number.to_integral_value():
        return int(number)
    return repr(float(number))


# ---------------------------------------------------------------- images that no layout parses


def exact_number(text: str) -> Decimal:
    """Parse a number with all its digits. Raises ValueError for an exponent that no Decimal has."""
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("Number out of range") from None


_decode_image = msgspec.json.Decoder(dict[str, Any], float_hook=exact_number).decode


#: Whole numbers with more digits than an int of msgspec may have, but a Decimal may; not the digits of a
#: fraction or an exponent. The closing quote may be missing, and nothing begins inside a number, so that
#: every byte is scanned once.
_STRING_OR_LONG_NUMBER: Final = re.compile(
    rb'"(?:[^"\\]++|\\.)*+"?|(?<![\d.eE+])(?<![eE]-)\d{4301,}+(?![.eE])', re.DOTALL
)


def parsed_image(image: bytes) -> dict[str, Any]:
    """Parse an image as a JSON object whose numbers keep all digits. Raises msgspec's errors."""
    image = with_negative_zeros(image)
    if len(image) > _LONG:
        image = _STRING_OR_LONG_NUMBER.sub(_as_fraction, image)
    row: dict[str, Any] = _decode_image(image)
    return row


_LONG: Final = 4301


def _as_fraction(match: re.Match[bytes]) -> bytes:
    return match[0] if match[0].startswith(b'"') else match[0] + b".0"
