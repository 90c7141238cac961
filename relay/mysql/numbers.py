"""Numbers as text: integers, DECIMAL, and the three notations of floating point that CDC tools use.

`read_*` parse text from the wire and raise ValueError if it is not such a number; `*_text` write canonical
values. Both directions are exact: no digit is added or lost. FLOAT is represented by the `float` whose
shortest digits are those of the 32-bit number; `shortest_float32` finds it.

Sources: Go strconv.FormatFloat(x, 'f', -1, bits) for TiCDC (pkg/sink/codec/canal), Java Double.toString and
Float.toString for Canal (JDK 19 and later print the shortest digits; earlier ones sometimes one more, equal
in value).
"""

from __future__ import annotations

import functools
import math
import re
import struct
from collections.abc import Callable
from decimal import Decimal, InvalidOperation
from typing import Final

from relay.mysql.conversion_names import kernel_name

_DECIMAL_DIGITS: Final = 100
_FLOAT32: Final = struct.Struct(">f")
#: The smallest normal 32-bit number; smaller ones have fewer significant bits (IEEE 754).
_LEAST_NORMAL: Final = 2.0**-126
#: Numbers from here on exceed 32 bits; smaller ones round to the largest 32-bit number at most.
BEYOND_FLOAT: Final = 2.0**128 - 2.0**103


@kernel_name("int")
def read_int(text: str) -> int:
    """Parse a base-10 integer. Raises ValueError."""
    try:
        value = int(text)
    except ValueError:
        raise ValueError("not an integer") from None
    if "_" in text:  # int() accepts Python's digit separators
        raise ValueError("not an integer")
    return value


def checked_int(text: str) -> str:
    """Validate the text of an integer and return its digits. Raises ValueError."""
    return text if _PLAIN_INTEGER(text) else str(read_int(text))


_PLAIN_INTEGER: Final = re.compile(r"-?[1-9][0-9]{0,18}|0").fullmatch


@kernel_name("decimal")
def read_decimal(text: str) -> Decimal:
    """Parse a DECIMAL with its scale. Raises ValueError."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError("not a decimal number") from None
    # DECIMAL has at most 65 digits (MySQL Reference Manual §11.1.3); a larger exponent would expand to a huge
    # text.
    if not value.is_finite() or "_" in text or not -_DECIMAL_DIGITS <= value.adjusted() <= _DECIMAL_DIGITS:
        raise ValueError("not a decimal number")
    return value


def checked_decimal(text: str) -> str:
    """Validate the text of a DECIMAL and return it without an exponent. Raises ValueError."""
    return text if _PLAIN_DECIMAL(text) else decimal_text(read_decimal(text))


#: ZEROFILL adds leading zeros, which a canonical value does not have.
_PLAIN_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,64})(?:\.[0-9]{1,30})?").fullmatch


def read_scaled_decimal(scale: int, text: str) -> Decimal:
    """Parse a DECIMAL of a known scale from a text that may have lost trailing zeros.

    Canal 1.1.8 prints `1.0` for 1.000000 (all fraction digits zero). More digits than the scale are kept.
    """
    value = read_decimal(text)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent < scale:
        sign, digits, _ = value.as_tuple()
        return Decimal((sign, digits + (0,) * (scale + exponent), -scale))
    return value


def decimal_converter(scale: int | None) -> Callable[[str], str]:
    """Return the text-to-text function for `read_scaled_decimal` and `decimal_text`. Without a scale (None),
    it is `read_decimal` and `decimal_text`.

    It returns most numbers unchanged, because they have all their digits, and appends zeros to others.
    """
    least = scale or 0
    if least > _MOST_FRACTION:
        return functools.partial(_converted_decimal, least)
    fraction = rf"\.[0-9]{{{least},{_MOST_FRACTION}}}" if least else rf"(?:\.[0-9]{{1,{_MOST_FRACTION}}})?"
    is_whole = re.compile(WHOLE_NUMBER + fraction).fullmatch

    def convert(text: str) -> str:
        if is_whole(text):
            return text
        if _has_point(text):
            # `is_whole` has already matched texts with at least as many digits as the scale.
            return text + "0" * (least + 1 + text.index(".") - len(text))
        return _converted_decimal(least, text)

    return convert


#: The integer part of a canonical number.
WHOLE_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,64})"
_has_point: Final = re.compile(WHOLE_NUMBER + r"\.[0-9]{1,30}").fullmatch
#: Maximum fraction digits of a DECIMAL (MySQL Reference Manual §11.1.3).
_MOST_FRACTION: Final = 30


def _converted_decimal(scale: int, text: str) -> str:
    return decimal_text(read_scaled_decimal(scale, text))


def decimal_shortcut(read: object, write: object) -> Callable[[str], str] | None:
    """Return a single function if `read` and `write` parse and format a DECIMAL; otherwise None."""
    if write is decimal_text and isinstance(read, functools.partial) and read.func is read_scaled_decimal:
        return decimal_converter(*read.args)
    return None


@kernel_name("decimal")
def decimal_text(value: Decimal) -> str:
    """Format a DECIMAL without exponent and with exactly the value's scale."""
    text = str(value)
    return format(value, "f") if "E" in text else text


@kernel_name("double-text")
def read_double(text: str) -> float:
    """Parse a DOUBLE in any notation. Raises ValueError.

    NaN and infinity, which MySQL cannot store, are errors, except `Infinity`, which Debezium writes for a
    REAL beyond 32 bits.
    """
    try:
        value = float(text)
    except ValueError:
        raise ValueError("not a number") from None
    if (not math.isfinite(value) and text not in _INFINITIES) or "_" in text:
        raise ValueError("not a finite number")
    return value


_INFINITIES: Final = frozenset({"Infinity", "-Infinity"})


@kernel_name("float-text")
def read_float(text: str) -> float:
    """Parse a FLOAT; 32-bit numbers with 64-bit digits (TiCDC before v6.1.6) get their shortest digits."""
    value = read_double(text)
    # Up to 6 significant digits survive 32 bits and are therefore already the shortest (IEEE 754 single
    # precision).
    is_shortest = len(text) <= 7 and _LEAST_NORMAL <= abs(value) < BEYOND_FLOAT
    return value if is_shortest else shortest_float32(value)


def shortest_float32(value: float) -> float:
    """Return the float with the fewest digits for the same 32-bit number.

    A number whose digits are not those of a 32-bit number, or that is out of range, stays unchanged: its
    column has become a DOUBLE.
    """
    # 0 and -0 are equal, so the cache could not distinguish them.
    return shortest_nonzero_float32(value) if value else value


@functools.lru_cache(maxsize=4096)
def shortest_nonzero_float32(value: float) -> float:
    """Like `shortest_float32` for a nonzero number, with a cache."""
    if abs(value) >= BEYOND_FLOAT:
        return value
    packed = _FLOAT32.pack(value)
    exact = _FLOAT32.unpack(packed)[0]
    # Parsing drops trailing zeros of 6 digits; tiny numbers have fewer significant digits.
    for digits in range(6 if abs(exact) >= _LEAST_NORMAL else 1, 10):
        candidate = float(f"{exact:.{digits}g}")
        try:
            if _FLOAT32.pack(candidate) == packed:
                return candidate if candidate == value or _is_float32(value, exact) else value
        except OverflowError:  # rounded up beyond the largest 32-bit number
            continue
    return value


def _is_float32(value: float, exact: float) -> bool:
    """Return whether the digits of a number are those of `exact`, the nearest 32-bit number.

    Nine digits identify it, and then the last one may differ (Java prints some numbers so). More digits are
    those of its exact value, or the number is a DOUBLE whose column is no longer a FLOAT.
    """
    digits = len(Decimal(repr(value)).normalize().as_tuple().digits)
    return digits <= _FLOAT32_DIGITS or float(f"{exact:.{digits}g}") == value


#: Digits that identify every 32-bit number (IEEE 754).
_FLOAT32_DIGITS: Final = 9

#: A number from 0.001 to below 10 000 000 (or its negative) without superfluous zeros: Go and Java print it
#: with the same digits.
_PLAIN: Final = re.compile(
    r"-?(?:[1-9][0-9]{0,6}|0(?=\.(?!000)[0-9]*[1-9]))(?:\.(?:0|[0-9]*[1-9]))?"
).fullmatch
#: Texts up to this length certainly have no more digits than the shortest form of a 32-bit or 64-bit number.
_SHORT: Final[dict[Callable[[str], float], int]] = {read_float: 7, read_double: 16}


def float_converter(read: Callable[[str], float], write: Callable[[float], str]) -> Callable[[str], str]:
    """Return the text-to-text function for `read_float` or `read_double` and a notation below; most numbers
    differ only in a trailing `.0`.
    """
    whole = write(1.0)[1:]
    longest = _SHORT[read]

    def convert(text: str) -> str:
        if len(text) > longest or _PLAIN(text) is None:
            return write(read(text))
        if "." not in text:
            return text + whole
        return text[:-2] + whole if text.endswith(".0") else text

    return convert


@kernel_name("go-float")
def go_text(value: float) -> str:
    """Format in Go's shortest positional notation: `10000000000`, `0.0000001`, `-0`.

    It has no exponent and no trailing `.0`. Raises ValueError for NaN and infinity.
    """
    text = repr(value)
    if "n" in text:
        raise ValueError("not a finite number")
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


#: Numbers so small that one digit identifies them, of which Java prints the nearest two: 4.9E-324 is
#: Double.MIN_VALUE, 1.4E-45 Float.MIN_VALUE (JDK 17; Double.toString as specified since JDK 19). Not 1.0E-323
#: and 1.0E-322, which JDK 19 began to print as 9.9E-324 and 9.9E-323.
_JAVA_DOUBLES: Final = {"5e-324": "4.9e-324"} | {f"{at}e-323": f"{at - 1}.9e-323" for at in range(5, 10)}
_JAVA_FLOATS: Final = {
    "1e-45": "1.4e-45", "3e-45": "2.8e-45", "4e-45": "4.2e-45", "6e-45": "5.6e-45", "8e-45": "8.4e-45",
    "1e-44": "9.8e-45", "3e-44": "2.9e-44", "4e-44": "4.1e-44",
}  # fmt: skip


#: Not numbers in MySQL, but written by a producer that lost the number (Debezium reads REAL as 32 bits).
_JAVA_WORDS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _java_notation(nearest: dict[str, str]) -> Callable[[float], str]:
    signed = nearest | {f"-{text}": f"-{digits}" for text, digits in nearest.items()}

    def java_text(value: float) -> str:
        """Format in Java's notation: `1.0`, `3.14`, `1.0E7`, `9.99E-4`.

        It is positional from 0.001 to below 10 000 000.
        """
        text = repr(value)
        if 0.001 <= abs(value) < 10_000_000 or value == 0:
            return text
        if not math.isfinite(value):
            return _JAVA_WORDS[text]
        sign, digits, exponent = Decimal(signed.get(text, text)).normalize().as_tuple()
        figures = "".join(map(str, digits))
        return f"{'-' * sign}{figures[0]}.{figures[1:] or '0'}E{int(exponent) + len(figures) - 1}"

    return java_text


#: Formats a DOUBLE in Java's notation.
java_text: Final = kernel_name("java-double")(_java_notation(_JAVA_DOUBLES))
_java_float_text: Final = kernel_name("java-float")(_java_notation(_JAVA_FLOATS))


def float_writer(write: Callable[[float], str]) -> Callable[[float], str]:
    """Return the FLOAT formatter in the same notation as the DOUBLE formatter `write`."""
    return _java_float_text if write is java_text else write


#: Matches a text that is a VECTOR, judged by its characters, brackets and commas.
is_vector: Final = re.compile(r"\[(?:[-+.0-9eE]+(?:, ?[-+.0-9eE]+)*)?\]", re.ASCII).fullmatch
