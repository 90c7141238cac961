"""Numbers as text: integers, DECIMAL, and the three notations of floating point that CDC tools use.

Contract: `read_*` take the text of a wire and raise ValueError if it is no such number; `*_text` write
canonical values. Both directions are exact: no digit is added or lost. FLOAT is kept as the `float` whose
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

from relay.mysql.conversion_names import native

_DECIMAL_DIGITS: Final = 100
_FLOAT32: Final = struct.Struct(">f")
#: The smallest normal 32-bit number; those below it have fewer significant bits (IEEE 754).
_LEAST_NORMAL: Final = 2.0**-126
#: From here on a number is beyond 32 bits; up to here it is rounded to the largest of them.
BEYOND_FLOAT: Final = 2.0**128 - 2.0**103


@native("int")
def read_int(text: str) -> int:
    """Read a base-10 integer. Raises ValueError."""
    try:
        value = int(text)
    except ValueError:
        raise ValueError("not an integer") from None
    if "_" in text:  # int() takes Python's digit separators
        raise ValueError("not an integer")
    return value


def checked_int(text: str) -> str:
    """Check the text of an integer and return its digits. Raises ValueError."""
    return text if _PLAIN_INTEGER(text) else str(read_int(text))


_PLAIN_INTEGER: Final = re.compile(r"-?[1-9][0-9]{0,18}|0").fullmatch


@native("decimal")
def read_decimal(text: str) -> Decimal:
    """Read a DECIMAL with its scale. Raises ValueError."""
    try:
        value = Decimal(text)
    except InvalidOperation:
        raise ValueError("not a decimal number") from None
    # DECIMAL has at most 65 digits (MySQL Reference Manual §11.1.3); an exponent beyond that would become a
    # text without end.
    if not value.is_finite() or "_" in text or not -_DECIMAL_DIGITS <= value.adjusted() <= _DECIMAL_DIGITS:
        raise ValueError("not a decimal number")
    return value


def checked_decimal(text: str) -> str:
    """Check the text of a DECIMAL and return it without an exponent. Raises ValueError."""
    return text if _PLAIN_DECIMAL(text) else decimal_text(read_decimal(text))


#: ZEROFILL has zeros before the first digit, which a canonical value has not.
_PLAIN_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,64})(?:\.[0-9]{1,30})?").fullmatch


def read_scaled_decimal(scale: int, text: str) -> Decimal:
    """Read a DECIMAL of a known scale from a text that may have lost trailing zeros.

    Canal 1.1.8 prints `1.0` for 1.000000 (all fraction digits zero). More digits than the scale are kept.
    """
    value = read_decimal(text)
    exponent = value.as_tuple().exponent
    if isinstance(exponent, int) and -exponent < scale:
        sign, digits, _ = value.as_tuple()
        return Decimal((sign, digits + (0,) * (scale + exponent), -scale))
    return value


def decimal_converter(scale: int | None) -> Callable[[str], str]:
    """Return the function from text to text for `read_scaled_decimal` (`read_decimal` if the scale is None)
    and `decimal_text`. Most numbers have all their digits, and stay as they are; others lack zeros.
    """
    least = scale or 0
    if least > _MOST_FRACTION:
        return functools.partial(_converted_decimal, least)
    fraction = rf"\.[0-9]{{{least},{_MOST_FRACTION}}}" if least else rf"(?:\.[0-9]{{1,{_MOST_FRACTION}}})?"
    is_whole = re.compile(_WHOLE_NUMBER + fraction).fullmatch

    def convert(text: str) -> str:
        if is_whole(text):
            return text
        if _has_point(text):
            # With more digits than the scale it would be whole.
            return text + "0" * (least + 1 + text.index(".") - len(text))
        return _converted_decimal(least, text)

    return convert


#: Digits as canonical text has them.
_WHOLE_NUMBER: Final = r"-?(?:0|[1-9][0-9]{0,64})"
_has_point: Final = re.compile(_WHOLE_NUMBER + r"\.[0-9]{1,30}").fullmatch
#: The longest fraction of a DECIMAL (MySQL Reference Manual §11.1.3).
_MOST_FRACTION: Final = 30


def _converted_decimal(scale: int, text: str) -> str:
    return decimal_text(read_scaled_decimal(scale, text))


def decimal_shortcut(read: object, write: object) -> Callable[[str], str] | None:
    """Return one function for both if they read a DECIMAL's text and write it again; else None."""
    if write is decimal_text and isinstance(read, functools.partial) and read.func is read_scaled_decimal:
        return decimal_converter(*read.args)
    return None


@native("decimal")
def decimal_text(value: Decimal) -> str:
    """Return the digits without exponent, with exactly the value's scale."""
    text = str(value)
    return format(value, "f") if "E" in text else text


@native("double-text")
def read_double(text: str) -> float:
    """Read a DOUBLE in any notation. Raises ValueError, also for NaN and infinity, which MySQL cannot store;
    but Debezium writes `Infinity` for a REAL beyond 32 bits.
    """
    try:
        value = float(text)
    except ValueError:
        raise ValueError("not a number") from None
    if (not math.isfinite(value) and text not in _INFINITIES) or "_" in text:
        raise ValueError("not a finite number")
    return value


_INFINITIES: Final = frozenset({"Infinity", "-Infinity"})


@native("float-text")
def read_float(text: str) -> float:
    """Read a FLOAT; 32 bits printed with 64-bit digits (TiCDC before v6.1.6) get their shortest digits."""
    value = read_double(text)
    # Up to 6 significant digits survive 32 bits and are therefore the shortest already (IEEE 754 single
    # precision).
    is_shortest = len(text) <= 7 and _LEAST_NORMAL <= abs(value) < BEYOND_FLOAT
    return value if is_shortest else shortest_float32(value)


def shortest_float32(value: float) -> float:
    """Return the float of fewest digits for the same 32-bit number; a number that has other digits than a
    32-bit one, or is beyond its range, stays as it is: its column is a DOUBLE by now.
    """
    # 0 and -0 are equal, and would be one in the cache.
    return shortest_nonzero_float32(value) if value else value


@functools.lru_cache(maxsize=4096)
def shortest_nonzero_float32(value: float) -> float:
    """Return the same for a number that is not zero, and remember it."""
    if abs(value) >= BEYOND_FLOAT:
        return value
    packed = _FLOAT32.pack(value)
    exact = _FLOAT32.unpack(packed)[0]
    # Of 6 digits trailing zeros drop out by themselves; tiny numbers have fewer that count.
    for digits in range(6 if abs(exact) >= _LEAST_NORMAL else 1, 10):
        candidate = float(f"{exact:.{digits}g}")
        try:
            if _FLOAT32.pack(candidate) == packed:
                return candidate if candidate == value or _is_float32(value, exact) else value
        except OverflowError:  # rounded up beyond the largest 32-bit number
            continue
    return value


def _is_float32(value: float, exact: float) -> bool:
    """Whether the digits of a number are those of the 32-bit one that is nearest to it, `exact`.

    Nine digits identify it, and then the last one may differ (Java prints some numbers so); more digits
    are those of its exact value, or it is a DOUBLE, of a column that no longer is a FLOAT.
    """
    digits = len(Decimal(repr(value)).normalize().as_tuple().digits)
    return digits <= _FLOAT32_DIGITS or float(f"{exact:.{digits}g}") == value


#: This many digits identify every 32-bit number (IEEE 754).
_FLOAT32_DIGITS: Final = 9

#: A number from 0.001 to below 10 000 000 (or its negative) without superfluous zeros: Go and Java print it
#: with the same digits.
_PLAIN: Final = re.compile(
    r"-?(?:[1-9][0-9]{0,6}|0(?=\.(?!000)[0-9]*[1-9]))(?:\.(?:0|[0-9]*[1-9]))?"
).fullmatch
#: Up to this many characters certainly hold no more digits than the shortest form of a 32-bit or 64-bit
#: number has.
_SHORT: Final[dict[Callable[[str], float], int]] = {read_float: 7, read_double: 16}


def float_converter(read: Callable[[str], float], write: Callable[[float], str]) -> Callable[[str], str]:
    """Return the function from text to text for `read_float` or `read_double` and a notation below; most
    numbers differ only in a trailing `.0`.
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


@native("go-float")
def go_text(value: float) -> str:
    """Go's shortest positional notation: `10000000000`, `0.0000001`, `-0`; no exponent, no trailing `.0`.
    Raises ValueError for NaN and infinity.
    """
    text = repr(value)
    if "n" in text:
        raise ValueError("not a finite number")
    if "e" in text:
        text = format(Decimal(text), "f")
    return text.removesuffix(".0")


#: Numbers so small that one digit tells them, of which Java prints the nearest two: 4.9E-324 is
#: Double.MIN_VALUE, 1.4E-45 Float.MIN_VALUE (JDK 17; Double.toString as specified since JDK 19). Not 1.0E-323
#: and 1.0E-322, which JDK 19 began to print as 9.9E-324 and 9.9E-323.
_JAVA_DOUBLES: Final = {"5e-324": "4.9e-324"} | {f"{at}e-323": f"{at - 1}.9e-323" for at in range(5, 10)}
_JAVA_FLOATS: Final = {
    "1e-45": "1.4e-45", "3e-45": "2.8e-45", "4e-45": "4.2e-45", "6e-45": "5.6e-45", "8e-45": "8.4e-45",
    "1e-44": "9.8e-45", "3e-44": "2.9e-44", "4e-44": "4.1e-44",
}  # fmt: skip


#: What is no number of MySQL, but of a producer that has lost its own (Debezium reads REAL as 32 bits).
_JAVA_WORDS: Final = {"inf": "Infinity", "-inf": "-Infinity", "nan": "NaN"}


def _java_notation(nearest: dict[str, str]) -> Callable[[float], str]:
    signed = nearest | {f"-{text}": f"-{digits}" for text, digits in nearest.items()}

    def java_text(value: float) -> str:
        """Java's notation: `1.0`, `3.14`, `1.0E7`, `9.99E-4`; positional from 0.001 to below 10 000 000."""
        text = repr(value)
        if 0.001 <= abs(value) < 10_000_000 or value == 0:
            return text
        if not math.isfinite(value):
            return _JAVA_WORDS[text]
        sign, digits, exponent = Decimal(signed.get(text, text)).normalize().as_tuple()
        figures = "".join(map(str, digits))
        return f"{'-' * sign}{figures[0]}.{figures[1:] or '0'}E{int(exponent) + len(figures) - 1}"

    return java_text


#: Writes a DOUBLE in Java's notation.
java_text: Final = native("java-double")(_java_notation(_JAVA_DOUBLES))
_java_float_text: Final = native("java-float")(_java_notation(_JAVA_FLOATS))


def float_writer(write: Callable[[float], str]) -> Callable[[float], str]:
    """Return how FLOAT is written in the notation in which `write` writes DOUBLE."""
    return _java_float_text if write is java_text else write


#: Whether a text is a VECTOR, as far as its brackets and commas tell.
is_vector: Final = re.compile(r"\[(?:[-+.0-9eE]+(?:, ?[-+.0-9eE]+)*)?\]", re.ASCII).fullmatch
