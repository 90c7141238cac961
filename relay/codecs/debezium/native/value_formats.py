"""The form of MySQL values in JSON of Debezium's connectors, by a column's Connect schema.

`form_of` returns the form of a column's values; None if the schema or the value contradicts the type. Reading
functions raise ValueError. Sources: Debezium 3.6 "MySQL connector", data types; io.debezium.data and
io.debezium.time; apache/kafka JsonConverter; records of 1.9.7 to 3.6.1.
"""

from __future__ import annotations

import binascii
import functools
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

from relay.codecs.debezium.native.declared_types import AS_TEXT, declared_members, named_again
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.native.temporal_reading import (
    clock_of_micros,
    clock_text,
    count_reader,
    nanos_reader,
    read_iso_date,
    timestamp_reader,
    wall_text,
)
from relay.codecs.debezium.shared import semantic_names
from relay.codecs.debezium.shared.dialect import DebeziumValueFormat
from relay.codecs.debezium.shared.json_kinds import FLOAT_OR_TEXT, NUMERIC, fitting, is_no_number
from relay.codecs.debezium.shared.schemas import DeclaredColumn, declared_scale
from relay.codecs.debezium.shared.values import double_reader, read_bits, scaled, scaled_reader, unsigned64
from relay.codecs.shared.base64_text import read_base64
from relay.codecs.shared.conversions import Read
from relay.codecs.shared.debezium_temporal import (
    date_text,
    datetime_text,
    is_too_fine_text,
    time_text,
)
from relay.model.events import ABSENT, ColumnType
from relay.mysql.conversion_names import kernel_name
from relay.mysql.members import label_reader
from relay.mysql.numbers import go_text, read_decimal, shortest_float32
from relay.mysql.types import BINARIES, FLOATS, GEOMETRIES, INTEGERS


class _Case(NamedTuple):
    """A column: its type, whether that is the catalog's, its schema, one of its values."""

    type: ColumnType
    is_known: bool
    declared: DeclaredColumn
    value: object
    options: DebeziumOptions

    @property
    def digits(self) -> int | None:
        """Return the fraction digits of a second, None if each value shows as many as it needs."""
        return self.type.length if self.is_known else None


def form_of(
    column_type: ColumnType,
    declared: DeclaredColumn,
    value: object,
    options: DebeziumOptions,
    *,
    is_known: bool,
) -> DebeziumValueFormat | None:
    """Return the form of the column's values, None if schema or value contradict the type."""
    if declared.name is None:
        declared = named_again(declared, column_type, options)
    case = _Case(column_type, is_known, declared, value, options)
    make = _BY_NAME.get(declared.name or "") or _BY_TYPE.get(declared.type)
    form = _bit_number(case) or (None if make is None else make(case))
    return None if form is None or fitting(form.kind, value) is ABSENT else form


def _bit_number(case: _Case) -> DebeziumValueFormat | None:
    """Return the form of a BIT that is a number (target option `bit`); None for other columns."""
    declared = case.declared
    if case.type.base != "bit":
        return None
    if declared.name == semantic_names.DECIMAL:
        return (
            DebeziumValueFormat(int) if type(case.value) is int else DebeziumValueFormat(str, read_unscaled)
        )
    return DebeziumValueFormat(int, unsigned64) if declared.type == "int64" else None


# ---------------------------------------------------------------- numbers


def _boolean(case: _Case) -> DebeziumValueFormat | None:
    if case.type.base not in {"bit", "tinyint"}:
        return None
    # JdbcSinkDataTypesConverter, or a snapshot, has numbers instead.
    return DebeziumValueFormat(int if type(case.value) is int else bool, int)


def _integer(case: _Case) -> DebeziumValueFormat | None:
    base = case.type.base
    if base == "year":
        return DebeziumValueFormat(int, read_year)
    if base not in INTEGERS:
        return None
    if type(case.value) is bool and base == "tinyint":
        return DebeziumValueFormat(bool, int)
    return DebeziumValueFormat(int, unsigned64 if base == "bigint" and case.type.unsigned else None)


@kernel_name("year-1900")
def read_year(year: int) -> int:
    """Read a YEAR. 1900 is no YEAR of MySQL: Debezium writes it for 0000."""
    return 0 if year == 1900 else year


def _float(case: _Case) -> DebeziumValueFormat | None:
    base = case.type.base
    if base == "decimal":
        return DebeziumValueFormat(Decimal, double_decimal_reader(case.type))
    if base not in FLOATS:
        return None
    if is_no_number(case.value):
        return DebeziumValueFormat(FLOAT_OR_TEXT, _read_float32_or_text if base == "float" else float)
    return DebeziumValueFormat(float, read_float32 if base == "float" else None)


def _read_float32_or_text(value: float | str) -> float:
    number = float(value)
    return read_float32(number) if math.isfinite(number) else number


@kernel_name("float")
def read_float32(value: float) -> float:
    """Return the FLOAT of fewest digits."""
    return shortest_float32(value)


def _decimal(case: _Case) -> DebeziumValueFormat | None:
    """Return the form of DECIMAL, and of BIGINT UNSIGNED with `precise`: bytes, or a JSON number with
    `decimal.format=NUMERIC`.
    """
    base = case.type.base
    if base != "decimal" and base not in INTEGERS:
        return None
    declared = declared_scale(case.declared)
    scale = case.type.scale or 0 if declared is None else declared
    is_number = type(case.value) in {int, Decimal}
    if base in INTEGERS:
        return DebeziumValueFormat(int) if is_number else DebeziumValueFormat(str, read_unscaled)
    if is_number:
        return DebeziumValueFormat(NUMERIC, scaled_reader(scale))
    return DebeziumValueFormat(str, decimal_reader(scale))


#: Maximum bytes of a DECIMAL of 65 digits.
MOST_BYTES: Final = 40


def decimal_bytes(text: str) -> bytes:
    """Return the bytes of a number, highest first, from base64. Raises ValueError."""
    try:
        data = read_base64(text)
    except ValueError:
        raise ValueError("not base64 of a number (is decimal.handling.mode another one?)") from None
    if not 0 < len(data) <= MOST_BYTES:
        raise ValueError("not the bytes of a number")
    return data


@kernel_name("unscaled-int")
def read_unscaled(text: str) -> int:
    """Read a signed whole number from its bytes in base64."""
    return int.from_bytes(decimal_bytes(text), "big", signed=True)


def _read_decimal_bytes(scale: int, text: str) -> Decimal:
    return Decimal(read_unscaled(text)).scaleb(-scale, _CONTEXT)


#: Exact for every number of `MOST_BYTES` bytes.
_CONTEXT: Final = Context(prec=200)


@functools.lru_cache(maxsize=256)
def decimal_reader(scale: int) -> Read:
    """Return the function that reads a DECIMAL of this scale from base64 of its unscaled number.

    It is always the same function, so that a target can recognize it, as with the other readers here.
    """
    return kernel_name("decimal-bytes", scale)(functools.partial(_read_decimal_bytes, scale))


def _variable_decimal(case: _Case) -> DebeziumValueFormat | None:
    if case.type.base != "decimal" and case.type.base not in INTEGERS:
        return None
    read = functools.partial(_read_variable_decimal, case.type.scale)
    return DebeziumValueFormat(dict, read if case.type.base == "decimal" else lambda parts: int(read(parts)))


def _read_variable_decimal(scale: int | None, parts: dict[str, Any]) -> Decimal:
    own, text = parts.get("scale"), parts.get("value")
    if type(own) is not int or not 0 <= own < MOST_BYTES or type(text) is not str:
        raise ValueError("not a scale and a number")
    return scaled(scale, _read_decimal_bytes(own, text))


def double_decimal_reader(column_type: ColumnType) -> Callable[[Decimal], Decimal]:
    """Return the function that reads a DECIMAL from the JSON number of a Java double."""
    read = functools.partial(_read_decimal_double, column_type.scale, double_reader(column_type))
    return kernel_name("decimal-double", column_type.length, column_type.scale)(read)


def _read_decimal_double(scale: int | None, read: Callable[[Decimal], Decimal], number: Decimal) -> Decimal:
    """Read a DECIMAL from a float's digits, to which Java adds a zero after the point."""
    if not number:
        return scaled(scale, Decimal(0))
    exponent = number.as_tuple().exponent
    if scale is not None and isinstance(exponent, int) and exponent < -scale and number.is_finite():
        sign, digits, _ = number.as_tuple()
        while exponent < -scale and digits[-1] == 0:
            digits, exponent = digits[:-1], exponent + 1
        number = Decimal((sign, digits, exponent))
    return read(number)


def read_decimal_text(scale: int | None, text: str) -> Decimal:
    """Read a DECIMAL from text, with its scale. Raises ValueError."""
    return scaled(scale, read_decimal(text))


def _bits(case: _Case) -> DebeziumValueFormat | None:
    return DebeziumValueFormat(str, read_bits) if case.type.base == "bit" else None


def _vector(case: _Case) -> DebeziumValueFormat | None:
    """Return the form of MySQL's VECTOR, an array of 32-bit numbers in Avro."""
    read = functools.partial(_read_vector, read_float32)
    return DebeziumValueFormat(list, read) if case.type.base == "vector" else None


def _double_vector(case: _Case) -> DebeziumValueFormat | None:
    return (
        DebeziumValueFormat(list, functools.partial(_read_vector, float))
        if case.type.base == "vector"
        else None
    )


def _read_vector(shortest: Callable[[float], float], numbers: list[Any]) -> str:
    if not all(type(number) in {int, float, Decimal} for number in numbers):
        raise ValueError("not a vector of numbers")
    return "[" + ",".join([go_text(shortest(float(number))) for number in numbers]) + "]"


# ---------------------------------------------------------------- text and bytes


def _string(case: _Case) -> DebeziumValueFormat | None:
    """Return the form of text, and of DECIMAL, BIGINT UNSIGNED and binary columns that handling modes turn
    into text.
    """
    base = case.type.base
    if base == "decimal":
        read = functools.partial(read_decimal_text, case.type.scale)
        return DebeziumValueFormat(str, kernel_name("decimal-text", case.type.scale)(read))
    if base == "bigint" and case.type.unsigned:
        return DebeziumValueFormat(str, read_whole)
    if base in BINARIES:
        return _binary_text(case)
    if base in {"enum", "set"}:
        return _label(case)
    is_other = base in INTEGERS or base in FLOATS or base in {"bit", "year"}
    return None if is_other else DebeziumValueFormat(str)


@kernel_name("whole-text")
def read_whole(text: str) -> int:
    """Read a whole number. Raises ValueError."""
    number = read_decimal(text)
    if number != number.to_integral_value():
        raise ValueError("not a whole number")
    return int(number)


def _bytes(case: _Case) -> DebeziumValueFormat | None:
    return DebeziumValueFormat(str, read_base64) if case.type.base in BINARIES else None


def _binary_text(case: _Case) -> DebeziumValueFormat:
    """Return the form of a binary column as a string: it was declared as text with CHARACTER SET binary, or
    the connector's `binary.handling.mode` is not `bytes`. If the option is `bytes`, the values decide.
    """
    mode = case.options.binary_handling_mode
    length = case.type.length if case.type.base == "binary" else None
    if case.type.charset == AS_TEXT:
        return DebeziumValueFormat(
            str, kernel_name("latin1", length)(functools.partial(_read_latin1, length or 0))
        )
    if mode != "bytes":
        return DebeziumValueFormat(str, _BINARY_MODES[mode])
    read = kernel_name("guessed-binary", length)(functools.partial(infer_binary, length))
    return DebeziumValueFormat(str, read, is_inferred=True)


@kernel_name("base64-url")
def read_url_safe(text: str) -> bytes:
    """Read base64 of either alphabet. Raises ValueError."""
    return read_base64(text.replace("-", "+").replace("_", "/"))


@kernel_name("plain-hex")
def read_plain_hex(text: str) -> bytes:
    """Read hexadecimal digits. Raises ValueError."""
    try:
        return binascii.a2b_hex(text)
    except ValueError:
        raise ValueError("not hexadecimal digits (is binary.handling.mode another one?)") from None


_BINARY_MODES: Final[dict[str, Callable[[str], bytes]]] = {
    "base64": read_base64,
    "base64-url-safe": read_url_safe,
    "hex": read_plain_hex,
}
_HEX: Final = re.compile(r"(?:[0-9a-f]{2})*", re.ASCII).fullmatch


def infer_binary(length: int | None, text: str) -> bytes:
    """Read hexadecimal digits if possible, unless BINARY(n) has another length; else base64."""
    is_hex = _HEX(text) is not None and (length is None or len(text) == 2 * length)
    return read_plain_hex(text) if is_hex else read_url_safe(text)


def _read_latin1(length: int, text: str) -> bytes:
    """Read bytes that were decoded as Latin-1, as Debezium does with CHARACTER SET binary."""
    try:
        return text.encode("latin-1").ljust(length, b"\0")
    except UnicodeEncodeError:
        raise ValueError("text with characters that are not bytes") from None


def _label(case: _Case) -> DebeziumValueFormat | None:
    if case.type.base not in {"enum", "set"} or (case.is_known and _lacks_labels(case)):
        return None
    return DebeziumValueFormat(str, label_reader(case.type, has_escapes=True))


def _lacks_labels(case: _Case) -> bool:
    """Return whether the schema has labels that the type lacks. Labels with a backslash are ignored: releases
    of Debezium spell them in several ways.
    """
    members, declared = case.type.members, declared_members(case.declared)
    if members is None or declared is None or members == declared:
        return False
    known = set(map(_plain_label, members))
    return any("\\" not in label and _plain_label(label) not in known for label in declared)


def _plain_label(label: str) -> str:
    """Return a label without the blanks that MySQL drops, its quotes not doubled as in the statement."""
    return label.rstrip(" ").replace("''", "'")


def _json(case: _Case) -> DebeziumValueFormat | None:
    return DebeziumValueFormat(str) if case.type.base == "json" else None


def _geometry(case: _Case) -> DebeziumValueFormat | None:
    return DebeziumValueFormat(dict, _read_geometry) if case.type.base in GEOMETRIES else None


#: SRIDs are unsigned 32-bit numbers.
_SRID_END: Final = 1 << 32


def _read_geometry(parts: dict[str, Any]) -> bytes:
    """Read MySQL's own form: SRID as 4 bytes, lowest first, then WKB (MySQL Reference Manual 8.4 §13.4.3)."""
    wkb, srid = parts.get("wkb"), parts.get("srid")
    srid = 0 if srid is None else srid
    if type(wkb) is not str or type(srid) is not int or not 0 <= srid < _SRID_END:
        raise ValueError("not a geometry")
    return srid.to_bytes(4, "little") + read_base64(wkb)


# ---------------------------------------------------------------- dates and times


def _counted(base: str, text: Callable[[int, int | None], str], micros: int, per: int = 1) -> _Make:
    """Return the form of times of a base that are counted in `micros` microseconds, or `per` parts of one."""

    def make(case: _Case) -> DebeziumValueFormat | None:
        if case.type.base != base:
            return None
        read = count_reader(text, micros, per, case.digits)
        return DebeziumValueFormat(int, read, is_too_fine=None if per == 1 else _has_part_of_a_microsecond)

    return make


def _floored_nanos(case: _Case) -> DebeziumValueFormat | None:
    if case.type.base != "datetime":
        return None
    return DebeziumValueFormat(int, nanos_reader(case.digits), is_too_fine=_has_part_of_a_microsecond)


def _has_part_of_a_microsecond(nanos: int) -> bool:
    return nanos % 1_000 != 0


def _date(case: _Case) -> DebeziumValueFormat | None:
    return DebeziumValueFormat(int, date_text) if case.type.base == "date" else None


def _iso_date(case: _Case) -> DebeziumValueFormat | None:
    return DebeziumValueFormat(str, read_iso_date) if case.type.base == "date" else None


def _iso_time(case: _Case) -> DebeziumValueFormat | None:
    digits = case.digits
    if case.type.base != "time":
        return None
    read = kernel_name("iso-time", digits)(lambda iso: clock_text(iso, digits))
    return DebeziumValueFormat(str, read, is_too_fine=is_too_fine_text)


def _iso_datetime(case: _Case) -> DebeziumValueFormat | None:
    digits = case.digits
    if case.type.base != "datetime":
        return None
    read = kernel_name("iso-wall", digits)(lambda iso: wall_text(iso, digits))
    return DebeziumValueFormat(str, read, is_too_fine=is_too_fine_text)


def _zoned(case: _Case) -> DebeziumValueFormat | None:
    if case.type.base != "timestamp":
        return None
    zone = case.options.zone()
    return DebeziumValueFormat(
        str, timestamp_reader(case.digits, zone), zone=zone, is_too_fine=is_too_fine_text
    )


_Make = Callable[[_Case], DebeziumValueFormat | None]
_BY_TYPE: Final[dict[str, _Make]] = {
    "boolean": _boolean, "int8": _integer, "int16": _integer, "int32": _integer, "int64": _integer,
    "float": _float, "double": _float, "string": _string, "bytes": _bytes,
}  # fmt: skip
_BY_NAME: Final[dict[str, _Make]] = {
    semantic_names.DECIMAL: _decimal,
    semantic_names.VARIABLE_SCALE_DECIMAL: _variable_decimal,
    semantic_names.BITS: _bits,
    semantic_names.ENUM: _label,
    semantic_names.ENUM_SET: _label,
    semantic_names.JSON: _json,
    semantic_names.FLOAT_VECTOR: _vector,
    semantic_names.DOUBLE_VECTOR: _double_vector,
    semantic_names.GEOMETRY: _geometry,
    semantic_names.POINT: _geometry,
    semantic_names.YEAR: _integer,
    semantic_names.DATE: _date,
    semantic_names.CONNECT_DATE: _date,
    semantic_names.ISO_DATE: _iso_date,
    semantic_names.MICRO_TIME: _counted("time", clock_of_micros, 1),
    semantic_names.TIME: _counted("time", time_text, 1_000),
    semantic_names.CONNECT_TIME: _counted("time", time_text, 1_000),
    semantic_names.NANO_TIME: _counted("time", time_text, 1, per=1_000),
    semantic_names.ISO_TIME: _iso_time,
    semantic_names.TIMESTAMP: _counted("datetime", datetime_text, 1_000),
    semantic_names.MICRO_TIMESTAMP: _counted("datetime", datetime_text, 1),
    semantic_names.CONNECT_TIMESTAMP: _counted("datetime", datetime_text, 1_000),
    semantic_names.NANO_TIMESTAMP: _floored_nanos,
    semantic_names.ISO_TIMESTAMP: _iso_datetime,
    semantic_names.ZONED_TIMESTAMP: _zoned,
}
