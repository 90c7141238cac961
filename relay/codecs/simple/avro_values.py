"""Values of Simple as Avro: branches of a union, and their counterparts in JSON.

`read_of` takes the results of `read_value` for a branch: `int`, `float`, `str`, `bytes`, `ZonedText`.
`write_of` returns a function from a value to the bytes of its branch. Source: pingcap/ticdc
pkg/sink/codec/simple/avro.go (2026-08), and its records.
"""

from __future__ import annotations

import functools
import math
import struct
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any, Final

from relay.codecs.shared.conversions import Read, Write
from relay.codecs.shared.traced import writing_avro
from relay.codecs.simple.avro_bytes import SimpleAvroReader, avro_bytes, avro_long, avro_text
from relay.codecs.simple.values import (
    ZonedText,
    checked_number,
    max_member_number,
    member_number,
    read_text,
    timestamp_reader,
    timestamp_writer,
)
from relay.model.events import ColumnType
from relay.mysql import numbers, values
from relay.mysql.conversion_names import READ_DOUBLE, READ_INTEGER, conversion_of, kernel_name
from relay.mysql.types import BINARIES, FLOATS, INTEGERS
from relay.templates.avro_ops import AvroOp, Nullable, Plain

_NULL, _LONG, _FLOAT, _DOUBLE, _STRING, _BYTES, _TIMESTAMP, _UNSIGNED = map(avro_long, range(8))
_SINGLE, _PRECISE = struct.Struct("<f"), struct.Struct("<d")
_UNSIGNED_END: Final = 1 << 64
_SIGNED_END: Final = 1 << 63

# ---------------------------------------------------------------- types

_TEXT: Final = Nullable(_STRING, Plain("string"))
_DATA: Final = Nullable(_BYTES, Plain("bytes"))
_NUMBER: Final = Nullable(_LONG, Plain("long"))
#: A `long` with the bits of an unsigned number: negative from 2^63 on.
_MEMBER: Final = Nullable(_LONG, Plain("unsigned"))
_UNSIGNED_BIGINT: Final = Nullable(_UNSIGNED, Plain("unsigned"))
_FLOAT32: Final = Nullable(_FLOAT, Plain("float"))
_FLOAT64: Final = Nullable(_DOUBLE, Plain("double"))
_UTC_TIME: Final = Nullable(_TIMESTAMP + avro_text("UTC"), Plain("string"))
#: BIT in the classic architecture.
BIT_NUMBER: Final = _MEMBER


def avro_type(column_type: ColumnType) -> AvroOp:
    """Return the Avro of a column's values, as the new architecture writes them; of a TIMESTAMP, in UTC."""
    base = column_type.base
    if base == "timestamp":
        return _UTC_TIME
    if base in {"enum", "set"}:
        return _MEMBER
    if base in INTEGERS or base == "year":
        return _UNSIGNED_BIGINT if base == "bigint" and column_type.unsigned else _NUMBER
    if base in FLOATS:
        return _FLOAT32 if base == "float" else _FLOAT64
    return _DATA if base in BINARIES else _TEXT


# ---------------------------------------------------------------- read


def read_value(reader: SimpleAvroReader) -> Any:  # noqa: ANN401 - any branch
    """Read a value of any branch. Raises ValueError."""
    branch = reader.long()
    if not 0 <= branch < len(_BRANCHES):
        raise ValueError("a branch that values do not have")
    return _BRANCHES[branch](reader)


def _null(_: SimpleAvroReader) -> None:
    return None


def _unsigned(reader: SimpleAvroReader) -> int:
    return reader.long() % _UNSIGNED_END


def _single(reader: SimpleAvroReader) -> float:
    found: float = _SINGLE.unpack(reader.take(4))[0]
    return found


def _precise(reader: SimpleAvroReader) -> float:
    found: float = _PRECISE.unpack(reader.take(8))[0]
    return found


def _zoned(reader: SimpleAvroReader) -> ZonedText:
    return ZonedText(reader.text(), reader.text())


_BRANCHES: Final[tuple[Callable[[SimpleAvroReader], Any], ...]] = (
    _null,
    SimpleAvroReader.long,
    _single,
    _precise,
    SimpleAvroReader.text,
    SimpleAvroReader.data,
    _zoned,
    _unsigned,
)


def read_of(column_type: ColumnType, zone: tzinfo) -> Read:
    """Return the function from a column's value to the canonical one; `zone`: for a TIMESTAMP without."""
    base = column_type.base
    if base == "timestamp":
        return timestamp_reader(zone)
    if base in INTEGERS or base == "year":
        return _read_integer
    if base == "bit":
        return _read_bits
    if base in {"enum", "set"}:
        most = max_member_number(column_type)
        return kernel_name(*_natural(most))(functools.partial(_read_member, most))
    if base in FLOATS:
        return _read_float if base == "float" else _read_double
    if base in BINARIES:
        return _binary_reader(column_type)
    read = values.reader(column_type, _STYLE)
    return read_text if read is None else read


_STYLE: Final = values.TextStyle(float_text=numbers.go_text, zero_year="0", pads_binary=True)


@kernel_name(*READ_INTEGER)
def _read_integer(value: Any) -> int:  # noqa: ANN401 - any branch
    if type(value) is not int:
        raise TypeError("not an integer")
    return value


@kernel_name("int")
def _read_bits(value: Any) -> int:  # noqa: ANN401 - any branch
    """Read a BIT: text; a number in the classic architecture, which its kernel name does not cover."""
    return numbers.read_int(value) if type(value) is str else _read_integer(value) % _UNSIGNED_END


def _read_member(most: int, value: Any) -> int:  # noqa: ANN401 - any branch
    """Read the number of ENUM or SET; the 64th member of a SET is the sign of a long."""
    return checked_number(most, _read_integer(value) % _UNSIGNED_END)


@kernel_name(*READ_DOUBLE)
def _read_double(value: Any) -> float:  # noqa: ANN401 - any branch
    if type(value) is not float:
        raise TypeError("not a number with a fraction")
    return _finite(value)


def _finite(value: float) -> float:
    if not math.isfinite(value):
        raise ValueError("not a finite number")
    return value


@kernel_name("float")
def _read_float(value: Any) -> float:  # noqa: ANN401 - any branch
    return numbers.shortest_float32(_read_double(value))


def _binary_reader(column_type: ColumnType) -> Read:
    length = column_type.length
    if column_type.base != "binary" or length is None or length > values.LONGEST_BINARY:
        return _read_bytes
    return values.padded_reader(_read_bytes, length)


@kernel_name("base64")
def _read_bytes(value: Any) -> bytes:  # noqa: ANN401 - any branch
    if type(value) is not bytes:
        raise TypeError("not bytes")
    return value


# ---------------------------------------------------------------- written


def write_of(column_type: ColumnType, zone: tzinfo, zone_name: str, unmoved: Callable[[], None]) -> Write:
    """Return the writing function of a column's canonical value."""
    base = column_type.base
    if base == "timestamp":
        write_zoned = functools.partial(_write_zoned, timestamp_writer(zone, zone_name, unmoved))
        return writing_avro(_UTC_TIME, "text")(write_zoned) if zone is UTC else write_zoned
    if base == "bigint" and column_type.unsigned:
        return _write_unsigned
    if base in INTEGERS or base == "year":
        return _write_number
    if base in {"enum", "set"}:
        most = max_member_number(column_type)
        return writing_avro(_MEMBER, *_natural(most))(functools.partial(_write_member, most))
    if base in FLOATS:
        return _write_single if base == "float" else _write_precise
    if base in BINARIES:
        return _write_bytes
    write = values.writer(column_type, _STYLE)
    if write is None:
        return _write_text
    write_text, conversion = functools.partial(_write_as_text, write), conversion_of(write)
    return write_text if conversion is None else writing_avro(_TEXT, *conversion)(write_text)


NULL: Final = _NULL


def _natural(most: int) -> tuple[str | int | None, ...]:
    """Return the conversion of numbers from 0 to `most`.

    A limit of 2^63 or more (a SET of 64 members, or unknown members) is left out: a parameter has 63 bits.
    """
    return ("natural", most) if most < _SIGNED_END else ("natural",)


@writing_avro(_NUMBER, "int64")
def _write_number(value: int) -> bytes:
    """Write a number, as a negative one if its highest bit is set. Raises OverflowError beyond 64 bits."""
    return _LONG + avro_long(value)


@writing_avro(_UNSIGNED_BIGINT, "natural")
def _write_unsigned(value: int) -> bytes:
    if not 0 <= value < _UNSIGNED_END:
        raise ValueError("not an unsigned number of 64 bits")
    return _UNSIGNED + avro_long(_signed(value))


def _write_member(most: int, value: int | str) -> bytes:
    """Write the number of ENUM or SET; the 64th member of a SET is the sign."""
    return _LONG + avro_long(_signed(member_number(most, value)))


def _signed(value: int) -> int:
    return value - _UNSIGNED_END if value >= _SIGNED_END else value


@writing_avro(_FLOAT32, "finite-float")
def _write_single(value: float) -> bytes:
    return _FLOAT + _SINGLE.pack(_finite(value))


@writing_avro(_FLOAT64, "finite")
def _write_precise(value: float) -> bytes:
    return _DOUBLE + _PRECISE.pack(_finite(value))


@writing_avro(_DATA, "base64")
def _write_bytes(value: bytes) -> bytes:
    return _BYTES + avro_bytes(value)


@writing_avro(_TEXT, "text")
def _write_text(value: str) -> bytes:
    return _STRING + avro_text(value)


def _write_as_text(write: Callable[[Any], str | None], value: Any) -> bytes:  # noqa: ANN401 - any canonical value
    return _STRING + avro_text(write(value) or "")


def _write_zoned(zoned: Callable[[str], ZonedText], value: str) -> bytes:
    found = zoned(value)
    return _TIMESTAMP + avro_text(found.location) + avro_text(found.value)
