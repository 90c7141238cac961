"""Column values as MySQL text, in the formats of Canal and related tools.

`reader(type, …)` returns a function from text to the canonical value, `writer(type, …)` its inverse. None
instead of a function means that text and value are equal, so that the column needs no work. Both are chosen
once per column of a table version. A reader raises ValueError for text that is not a value of the type.
`TextStyle` describes the text format of a producer.

Sources, read 2026-07 and 2026-08: TiCDC pkg/sink/codec/common (Go), Canal dbsync RowsLogBuffer and
JsonConversion (Java).
"""

from __future__ import annotations

import binascii
import functools
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any, Final, cast

import msgspec

from relay.model.events import ColumnType, Value
from relay.mysql import numbers, temporal
from relay.mysql.conversion_names import conversion_of, in_two_steps, kernel_name, named_after
from relay.mysql.members import label_reader, label_writer
from relay.mysql.types import BINARIES, FLOATS, INTEGERS

#: Text to canonical value, and back; None is a value that is written as NULL.
Read = Callable[[str], Value]
Write = Callable[[Any], str | None]


class TextStyle(msgspec.Struct, frozen=True):
    """The text format of a producer.

    float_text: Notation of floats.
    zero_year: Text of the year 0.
    pads_binary: BINARY(n) includes its trailing zero bytes.
    keeps_scale: DECIMAL always has all digits of its scale.
    is_loose: Read the variants of similar producers, too: labels of ENUM, offsets after TIMESTAMP, other
        formats of binary text, and Canal's empty text for some JSON.
    zone: Time zone of TIMESTAMP.
    read_binary: Parser of binary text; None if each character is a byte.
    write_binary: Formatter of binary text, called with padded BINARY(n); None if each byte is a character.
    has_labels: ENUM and SET are labels if the members are known.
    has_null_dates: A date that is not in the calendar is NULL.
    is_iso: Date and time are separated by `T`.
    unmoved: Called for a TIMESTAMP that is written in UTC because its zone's calendar has no such time, and
        for a date that is written as NULL.
    unlabeled: Called for a number without a label.
    """

    float_text: Callable[[float], str]
    zero_year: str
    pads_binary: bool
    keeps_scale: bool = True
    is_loose: bool = False
    zone: tzinfo = UTC
    read_binary: Callable[[str], bytes] | None = None
    write_binary: Callable[[bytes], str] | None = None
    has_labels: bool = False
    has_null_dates: bool = False
    is_iso: bool = False
    unmoved: Callable[[], None] | None = None
    unlabeled: Callable[[], None] | None = None


def reader(column_type: ColumnType, style: TextStyle) -> Read | None:
    """Return the function that parses this column's text; None if the text is the value."""
    base = column_type.base
    if base in INTEGERS or base in {"bit", "year"}:
        return numbers.read_int
    if base == "decimal" and column_type.scale is not None:
        read_scaled = functools.partial(numbers.read_scaled_decimal, column_type.scale)
        return kernel_name("scaled-decimal", column_type.scale)(read_scaled)
    if base in BINARIES:
        return _bytes_reader(column_type, style.read_binary or read_bytes)
    if base in {"enum", "set"}:
        return _member_reader(label_reader(column_type), style)
    if style.is_iso and base in {"datetime", "timestamp"}:
        read = reader(column_type, msgspec.structs.replace(style, is_iso=False))
        read_iso = functools.partial(_read_iso, read)
        return kernel_name("iso-datetime")(read_iso) if conversion_of(read) == ("datetime",) else read_iso
    if base == "timestamp":
        read_timestamp = functools.partial(temporal.read_timestamp, style.zone)
        return kernel_name("datetime")(read_timestamp) if style.zone is UTC else read_timestamp
    if base == "json":
        return _read_json if style.is_loose else None
    return _READS.get(base)


def _bytes_reader(column_type: ColumnType, read: Callable[[str], bytes]) -> Read:
    length = column_type.length
    if column_type.base != "binary" or length is None or length > LONGEST_BINARY:
        return read
    return padded_reader(read, length)


def padded_reader(read: Callable[[str], bytes], length: int) -> Read:
    """Return the function that parses BINARY(n) of `length` bytes. `read`: parser of its text."""
    return named_after(functools.partial(_read_padded, read, length), read, length)


#: BINARY(n) has at most this many bytes (MySQL Reference Manual §11.3.3).
LONGEST_BINARY: Final = 255

_READS: Final[dict[str, Read]] = {
    "decimal": numbers.read_decimal,
    "float": numbers.read_float,
    "double": numbers.read_double,
    "date": temporal.read_date,
    "datetime": temporal.read_datetime,
    "time": temporal.read_time,
}


@kernel_name("latin1")
def read_bytes(text: str) -> bytes:
    """Parse binary text in which each character is a byte (ISO 8859-1). Raises ValueError."""
    try:
        return text.encode("latin-1")
    except UnicodeEncodeError:
        reason = "binary text with a character beyond U+00FF, so the producer has destroyed it"
        raise ValueError(reason) from None


@kernel_name("hex")
def read_hex(text: str) -> bytes:
    """Parse binary text in hex, optionally with a leading `0x`. Raises ValueError."""
    digits = text[2:] if text[:2] in {"0x", "0X"} else text
    try:
        return binascii.unhexlify(digits)
    except ValueError:
        raise ValueError("not hex") from None


def read_signed_bytes(text: str) -> bytes:
    """Parse Java's text of an array of signed bytes: `[106, 103, -1]`. Raises ValueError."""
    if text[:1] != "[" or text[-1:] != "]":
        raise ValueError("not a list of bytes")
    try:
        return bytes([int(number) % 256 for number in text[1:-1].split(",")]) if text != "[]" else b""
    except ValueError:
        raise ValueError("not a list of bytes") from None


def _read_padded(read: Callable[[str], bytes], length: int, text: str) -> bytes:
    """Parse BINARY(n) and restore its trailing zero bytes, which MySQL's row events omit."""
    return read(text).ljust(length, b"\0")


@kernel_name("json-or-null")
def _read_json(text: str) -> str:
    """Return a JSON text; `null` for an empty one.

    MySQL may have a JSON value without bytes in a NOT NULL column that was filled without a value: MySQL
    itself reads it as the literal null (bugs.mysql.com/98496), and Canal sends "" for it.
    """
    return text or "null"


def _member_reader(read_labels: Callable[[str], int] | None, style: TextStyle) -> Read:
    if read_labels is not None and style.has_labels:
        return read_labels
    return kernel_name("int")(functools.partial(_read_members, read_labels))


def _read_members(read_labels: Callable[[str], int] | None, text: str) -> Value:
    """Parse an ENUM index or SET bit map; labels, which some producers write, require the type's members."""
    try:
        return numbers.read_int(text)
    except ValueError:
        if read_labels is None:
            return text
    return read_labels(text)


def writer(column_type: ColumnType, style: TextStyle) -> Write | None:
    """Return the function that formats this column's value; None if the value is the text."""
    base = column_type.base
    if base == "year":
        zero = style.zero_year
        return str if zero == "0" else kernel_name("year", zero)(functools.partial(_year_text, zero))
    if base in {"enum", "set"} and style.has_labels:
        return label_writer(column_type, style.unlabeled)
    if base in INTEGERS or base in {"bit", "enum", "set"}:
        return str
    if base == "decimal":
        return numbers.decimal_text
    if base in FLOATS:
        return numbers.float_writer(style.float_text) if base == "float" else style.float_text
    if base in BINARIES:
        return _binary_writer(column_type, style)
    return _temporal_writer(base, style) if base in _CALENDAR else None


def _binary_writer(column_type: ColumnType, style: TextStyle) -> Write:
    if style.write_binary is None:
        return _bytes_text if style.pads_binary or column_type.base != "binary" else _stripped_bytes_text
    length = column_type.length
    if column_type.base != "binary" or length is None or length > LONGEST_BINARY:
        return style.write_binary
    padded = functools.partial(_padded_text, style.write_binary, length)
    return named_after(padded, style.write_binary, length)


def _padded_text(write: Callable[[bytes], str], length: int, value: bytes) -> str:
    return write(value.ljust(length, b"\0"))


#: Types whose values have a date.
_CALENDAR: Final = frozenset({"date", "datetime", "timestamp"})


def _temporal_writer(base: str, style: TextStyle) -> Write | None:
    write: Write | None = None
    if base == "timestamp" and style.zone is not UTC:
        write = functools.partial(temporal.timestamp_text, style.zone, unmoved=style.unmoved)
    if style.is_iso and base != "date":
        is_utc = write is None
        write = functools.partial(_iso_text, write)
        write = kernel_name("iso")(write) if is_utc else write
    if style.has_null_dates:
        dated = functools.partial(_dated_text, write, style.unmoved)
        write = kernel_name("calendar")(dated) if write is None else named_after(dated, write, 1)
    return write


def _iso_text(write: Write | None, value: str) -> str:
    text = value if write is None else cast("str", write(value))
    return text.replace(" ", "T", 1)


def _read_iso(read: Read | None, text: str) -> Value:
    text = text.replace("T", " ", 1)
    return text if read is None else read(text)


def _dated_text(write: Write | None, lost: Callable[[], None] | None, value: str) -> str | None:
    """Return the text of a value with a calendar date; None for other values."""
    if not temporal.is_date(value[:10]):
        if lost is not None:
            lost()
        return None
    return value if write is None else write(value)


def _year_text(zero: str, value: int) -> str:
    return str(value) if value else zero


@kernel_name("latin1")
def _bytes_text(value: bytes) -> str:
    return value.decode("latin-1")


@kernel_name("latin1-stripped")
def _stripped_bytes_text(value: bytes) -> str:
    return value.rstrip(b"\0").decode("latin-1")


def converter(column_type: ColumnType, source: TextStyle, target: TextStyle) -> Write | None:
    """Return the function that converts text from `source` to `target`; None if this type has one format."""
    if _spelled_alike(column_type.base, source, target):
        return None
    if column_type.base in FLOATS:
        if column_type.base == "float":
            float_text = numbers.float_writer(target.float_text)
            convert = numbers.float_converter(numbers.read_float, float_text)
            return in_two_steps(convert, numbers.read_float, float_text)
        convert = numbers.float_converter(numbers.read_double, target.float_text)
        return in_two_steps(convert, numbers.read_double, target.float_text)
    read, write = reader(column_type, source), writer(column_type, target)
    if column_type.base == "decimal":
        return in_two_steps(numbers.decimal_converter(column_type.scale), read, write)
    if column_type.base == "binary" and not target.pads_binary and not _has_own_binary(source, target):
        return _stripped_text
    if column_type.base == "year":
        zero = target.zero_year
        return kernel_name("year-text", zero)(functools.partial(converted_year, zero))
    if read is None or write is None:
        return cast("Write | None", read or write)
    return in_two_steps(_both(read, write), read, write)


def _both(read: Read, write: Write) -> Write:
    return lambda text: write(read(text))


def _has_own_binary(source: TextStyle, target: TextStyle) -> bool:
    """Return whether either side has another format of binary text than one character per byte."""
    return source.read_binary is not None or target.write_binary is not None


def _stripped_text(text: str) -> str:
    """Return BINARY text without its trailing zero bytes. Raises ValueError."""
    if not text.isascii():
        read_bytes(text)
    return text.rstrip("\0")


in_two_steps(_stripped_text, read_bytes, _stripped_bytes_text)


def converted_year(zero: str, text: str) -> str:
    """Return the text of a YEAR with the target's text of year 0. Raises ValueError."""
    if len(text) == 4 and text != "0000" and text.isdecimal():
        return text
    return _year_text(zero, numbers.read_int(text))


_LOOSE: Final = BINARIES | {"timestamp", "enum", "set", "json"}


def _is_reshaped(base: str, source: TextStyle, target: TextStyle) -> bool:
    """Return whether the type's text has an optional form on either side: labels, other binary text, ISO
    times or NULL dates.
    """
    if base in {"enum", "set"}:
        return source.has_labels or target.has_labels
    if base in BINARIES:
        return _has_own_binary(source, target)
    return base in _CALENDAR and (target.has_null_dates or source.is_iso or target.is_iso)


def _spelled_alike(base: str, source: TextStyle, target: TextStyle) -> bool:
    if (source.is_loose and base in _LOOSE) or _is_reshaped(base, source, target):
        return False
    if base in FLOATS:
        return source.float_text is target.float_text
    if base == "decimal":
        return source.keeps_scale
    if base == "year":
        return source.zero_year == target.zero_year
    if base == "binary":
        return source.pads_binary == target.pads_binary
    return base != "timestamp" or source.zone == target.zone
