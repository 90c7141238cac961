"""How values of MySQL's types look in JSON of Debezium's connectors, by a column's Connect schema.

Contract: `form_of` gives the form of a column's values; None where the schema or the value contradicts the
type. `expected` is the schema that a connector with given options has for a type, where messages have none;
`declared_type` the type that a schema tells. Those that read raise ValueError. Sources: Debezium 3.6 "MySQL
connector", data types; io.debezium.data and io.debezium.time; apache/kafka JsonConverter; records of 1.9.7 to
3.6.1.
"""

from __future__ import annotations

import binascii
import functools
import math
import re
from collections.abc import Callable
from decimal import Context, Decimal
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.debezium import schema as names
from relay.codecs.debezium.dialect import Form
from relay.codecs.debezium.kinds import FLOAT_OR_TEXT, NUMERIC, fitting, is_no_number
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.schema import DeclaredColumn
from relay.codecs.debezium.values import double_reader, read_bits, scaled, scaled_reader, unsigned64
from relay.codecs.wire.base64_text import read_base64
from relay.codecs.wire.compiled import Read
from relay.codecs.wire.debezium_temporal import (
    ZERO_TIMESTAMP,
    date_text,
    datetime_micros,
    datetime_text,
    time_micros,
    time_text,
    timestamp_text,
)
from relay.model import ABSENT, ColumnType
from relay.mysql import temporal
from relay.mysql.members import label_reader
from relay.mysql.numbers import go_text, read_decimal, shortest_float32
from relay.mysql.temporal import read_date
from relay.mysql.types import BINARIES, FLOATS, GEOMETRIES, INTEGERS, MAX_MEMBERS, parse_type
from relay.native import native

DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
VARIABLE_DECIMAL: Final = "io.debezium.data.VariableScaleDecimal"
_CONNECT_DATE, _CONNECT_TIME, _CONNECT_TIMESTAMP = (
    "org.apache.kafka.connect.data.Date",
    "org.apache.kafka.connect.data.Time",
    "org.apache.kafka.connect.data.Timestamp",
)
_ISO_DATE, _ISO_TIME, _ISO_TIMESTAMP = (
    "io.debezium.time.IsoDate",
    "io.debezium.time.IsoTime",
    "io.debezium.time.IsoTimestamp",
)
_TIME, _NANO_TIME, _NANO_TIMESTAMP = (
    "io.debezium.time.Time",
    "io.debezium.time.NanoTime",
    "io.debezium.time.NanoTimestamp",
)
_FLOAT_VECTOR, _DOUBLE_VECTOR = "io.debezium.data.FloatVector", "io.debezium.data.DoubleVector"
_GEOMETRY, _POINT = "io.debezium.data.geometry.Geometry", "io.debezium.data.geometry.Point"
#: What `column.propagate.source.type` adds to a column's parameters.
_SOURCE_TYPE: Final = "__debezium.source.column.type"
_SOURCE_LENGTH: Final = "__debezium.source.column.length"
_SOURCE_SCALE: Final = "__debezium.source.column.scale"
#: The mark of a binary column that was declared as text with CHARACTER SET binary.
AS_TEXT: Final = "binary"


class _Case(NamedTuple):
    """A column: its type, whether that is the catalogue's, its schema, one of its values."""

    type: ColumnType
    is_known: bool
    declared: DeclaredColumn
    value: object
    options: DebeziumOptions

    @property
    def digits(self) -> int | None:
        """The digits of a second, None if as many are shown as a value needs."""
        return self.type.length if self.is_known else None


def form_of(
    column_type: ColumnType,
    declared: DeclaredColumn,
    value: object,
    options: DebeziumOptions,
    *,
    is_known: bool,
) -> Form | None:
    """Return how the column's values look, None if schema or value contradict the type."""
    case = _Case(column_type, is_known, declared, value, options)
    make = _BY_NAME.get(declared.name or "") or _BY_TYPE.get(declared.type)
    form = _shaped(case) or (None if make is None else make(case))
    return None if form is None or fitting(form.kind, value) is ABSENT else form


#: How MySQL's own text of dates and times is read.
_TEXTS: Final[dict[str, Callable[[str], str]]] = {
    "date": temporal.read_date,
    "time": temporal.read_time,
    "datetime": temporal.read_datetime,
    "timestamp": temporal.read_datetime,
}


def _shaped(case: _Case) -> Form | None:
    """What options of a target have made of a column for readers (`bit`, `temporal`, `time`, `zero-dates`):
    a number, or MySQL's own text; None if it looks otherwise.
    """
    base, declared = case.type.base, case.declared
    if base == "bit":
        if declared.name == DECIMAL:
            return Form(int) if type(case.value) is int else Form(str, read_unscaled)
        return Form(int, unsigned64) if declared.type == "int64" else None
    if declared.name is not None or declared.type != "string":
        return None
    read = _TEXTS.get(base)
    return None if read is None else Form(str, read)


# ---------------------------------------------------------------- numbers


def _boolean(case: _Case) -> Form | None:
    if case.type.base not in {"bit", "tinyint"}:
        return None
    # JdbcSinkDataTypesConverter, or a snapshot, has numbers instead.
    return Form(int if type(case.value) is int else bool, int)


def _integer(case: _Case) -> Form | None:
    base = case.type.base
    if base == "year":
        return Form(int, read_year)
    if base not in INTEGERS:
        return None
    if type(case.value) is bool and base == "tinyint":
        return Form(bool, int)
    return Form(int, unsigned64 if base == "bigint" and case.type.unsigned else None)


@native("year-1900")
def read_year(year: int) -> int:
    """1900 is no YEAR of MySQL: Debezium writes it for 0000."""
    return 0 if year == 1900 else year


def _float(case: _Case) -> Form | None:
    base = case.type.base
    if base == "decimal":
        return Form(Decimal, double_decimal_reader(case.type))
    if base not in FLOATS:
        return None
    if is_no_number(case.value):
        return Form(FLOAT_OR_TEXT, _read_float32_or_text if base == "float" else float)
    return Form(float, read_float32 if base == "float" else None)


def _read_float32_or_text(value: float | str) -> float:
    number = float(value)
    return read_float32(number) if math.isfinite(number) else number


@native("float")
def read_float32(value: float) -> float:
    """Return the FLOAT of fewest digits."""
    return shortest_float32(value)


def _decimal(case: _Case) -> Form | None:
    """DECIMAL, and BIGINT UNSIGNED with `precise`: bytes, or a JSON number with `decimal.format=NUMERIC`."""
    base = case.type.base
    if base != "decimal" and base not in INTEGERS:
        return None
    told = names.declared_scale(case.declared)
    scale = case.type.scale or 0 if told is None else told
    is_number = type(case.value) in {int, Decimal}
    if base in INTEGERS:
        return Form(int) if is_number else Form(str, read_unscaled)
    if is_number:
        return Form(NUMERIC, scaled_reader(scale))
    return Form(str, decimal_reader(scale))


#: More bytes no DECIMAL of 65 digits has.
MOST_BYTES: Final = 40


def decimal_bytes(text: str) -> bytes:
    """Return the bytes of a number, the highest first, from base64. Raises ValueError."""
    try:
        data = read_base64(text)
    except ValueError:
        raise ValueError("not base64 of a number (is decimal.handling.mode another one?)") from None
    if not 0 < len(data) <= MOST_BYTES:
        raise ValueError("not the bytes of a number")
    return data


@native("unscaled-int")
def read_unscaled(text: str) -> int:
    """A whole number of its bytes in base64, with a sign."""
    return int.from_bytes(decimal_bytes(text), "big", signed=True)


def _read_decimal_bytes(scale: int, text: str) -> Decimal:
    return Decimal(read_unscaled(text)).scaleb(-scale, _CONTEXT)


#: Exact for every number of `MOST_BYTES` bytes.
_CONTEXT: Final = Context(prec=200)


@functools.lru_cache(maxsize=256)
def decimal_reader(scale: int) -> Read:
    """Return how a DECIMAL of this scale is read from base64 of its unscaled number.

    It is always the same function, by which a target knows it; as that of the other readers here.
    """
    return native("decimal-bytes", scale)(functools.partial(_read_decimal_bytes, scale))


def _variable_decimal(case: _Case) -> Form | None:
    if case.type.base != "decimal" and case.type.base not in INTEGERS:
        return None
    read = functools.partial(_read_variable_decimal, case.type.scale)
    return Form(dict, read if case.type.base == "decimal" else lambda parts: int(read(parts)))


def _read_variable_decimal(scale: int | None, parts: dict[str, Any]) -> Decimal:
    own, text = parts.get("scale"), parts.get("value")
    if type(own) is not int or not 0 <= own < MOST_BYTES or type(text) is not str:
        raise ValueError("not a scale and a number")
    return scaled(scale, _read_decimal_bytes(own, text))


def double_decimal_reader(column_type: ColumnType) -> Callable[[Decimal], Decimal]:
    """Return how a DECIMAL is read from the number that a Java double is in JSON."""
    read = functools.partial(_read_decimal_double, column_type.scale, double_reader(column_type))
    return native("decimal-double", column_type.length, column_type.scale)(read)


def _read_decimal_double(scale: int | None, read: Callable[[Decimal], Decimal], number: Decimal) -> Decimal:
    """A DECIMAL of a float's digits, to which Java adds a zero behind the point."""
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


def _bits(case: _Case) -> Form | None:
    return Form(str, read_bits) if case.type.base == "bit" else None


def _vector(case: _Case) -> Form | None:
    """MySQL's VECTOR, which Avro has as the 32-bit numbers that it is made of."""
    read = functools.partial(_read_vector, read_float32)
    return Form(list, read) if case.type.base == "vector" else None


def _double_vector(case: _Case) -> Form | None:
    return Form(list, functools.partial(_read_vector, float)) if case.type.base == "vector" else None


def _read_vector(shortest: Callable[[float], float], numbers: list[Any]) -> str:
    if not all(type(number) in {int, float, Decimal} for number in numbers):
        raise ValueError("not a vector of numbers")
    return "[" + ",".join([go_text(shortest(float(number))) for number in numbers]) + "]"


# ---------------------------------------------------------------- text and bytes


def _string(case: _Case) -> Form | None:
    """Text, and what the handling modes make text of: DECIMAL, BIGINT UNSIGNED, binary columns."""
    base = case.type.base
    if base == "decimal":
        read = functools.partial(read_decimal_text, case.type.scale)
        return Form(str, native("decimal-text", case.type.scale)(read))
    if base == "bigint" and case.type.unsigned:
        return Form(str, read_whole)
    if base in BINARIES:
        return _binary_text(case)
    if base in {"enum", "set"}:
        return _label(case)
    is_other = (
        base in INTEGERS or base in FLOATS or base in {"bit", "year", "date", "datetime", "time", "timestamp"}
    )
    return None if is_other else Form(str)


@native("whole-text")
def read_whole(text: str) -> int:
    """Read a whole number. Raises ValueError."""
    number = read_decimal(text)
    if number != number.to_integral_value():
        raise ValueError("not a whole number")
    return int(number)


def _bytes(case: _Case) -> Form | None:
    return Form(str, read_base64) if case.type.base in BINARIES else None


def _binary_text(case: _Case) -> Form:
    """A binary column as a string: it was declared as text with CHARACTER SET binary, or the connector's
    `binary.handling.mode` is not `bytes`. Where the option says `bytes`, the values have to tell.
    """
    mode = case.options.binary_handling_mode
    length = case.type.length if case.type.base == "binary" else None
    if case.type.charset == AS_TEXT:
        return Form(str, native("latin1", length)(functools.partial(_read_latin1, length or 0)))
    if mode != "bytes":
        return Form(str, _BINARY_MODES[mode])
    read = native("guessed-binary", length)(functools.partial(guess_binary, length))
    return Form(str, read, is_guess=True)


@native("base64-url")
def read_url_safe(text: str) -> bytes:
    """Read base64 of either alphabet. Raises ValueError."""
    return read_base64(text.replace("-", "+").replace("_", "/"))


@native("plain-hex")
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


def guess_binary(length: int | None, text: str) -> bytes:
    """Hexadecimal digits if it can be, unless BINARY(n) has another length; else base64."""
    is_hex = _HEX(text) is not None and (length is None or len(text) == 2 * length)
    return read_plain_hex(text) if is_hex else read_url_safe(text)


def _read_latin1(length: int, text: str) -> bytes:
    """Bytes that were read as Latin-1, as Debezium does with CHARACTER SET binary."""
    try:
        return text.encode("latin-1").ljust(length, b"\0")
    except UnicodeEncodeError:
        raise ValueError("text of characters that are no bytes") from None


def _label(case: _Case) -> Form | None:
    if case.type.base not in {"enum", "set"} or (case.is_known and _lacks_labels(case)):
        return None
    return Form(str, label_reader(case.type, has_escapes=True))


def _lacks_labels(case: _Case) -> bool:
    """Whether the schema has labels that the type lacks. Those with a backslash are not judged: releases of
    Debezium spell them in several ways.
    """
    members, told = case.type.members, _members(case.declared)
    if members is None or told is None or members == told:
        return False
    known = set(map(_plain_label, members))
    return any("\\" not in label and _plain_label(label) not in known for label in told)


def _plain_label(label: str) -> str:
    """A label without the blanks that MySQL drops, its quotes not doubled as in the statement."""
    return label.rstrip(" ").replace("''", "'")


def _json(case: _Case) -> Form | None:
    return Form(str) if case.type.base == "json" else None


def _geometry(case: _Case) -> Form | None:
    return Form(dict, _read_geometry) if case.type.base in GEOMETRIES else None


#: SRIDs are unsigned 32-bit numbers.
_SRID_END: Final = 1 << 32


def _read_geometry(parts: dict[str, Any]) -> bytes:
    """MySQL's own form: SRID as 4 bytes, the lowest first, then WKB (MySQL Reference Manual 8.4 §13.4.3)."""
    wkb, srid = parts.get("wkb"), parts.get("srid")
    srid = 0 if srid is None else srid
    if type(wkb) is not str or type(srid) is not int or not 0 <= srid < _SRID_END:
        raise ValueError("not a geometry")
    return srid.to_bytes(4, "little") + read_base64(wkb)


# ---------------------------------------------------------------- dates and times


#: The smallest TIME, and how far below it Debezium before 2.6 writes it in a column with digits of a second.
_LEAST_TIME_MICROS: Final = -3_020_399_000_000
_TOO_LOW_MICROS: Final = 2_000_000


def _clock(micros: int, digits: int | None) -> str:
    is_least = _LEAST_TIME_MICROS - _TOO_LOW_MICROS < micros < _LEAST_TIME_MICROS
    return time_text(_LEAST_TIME_MICROS if is_least else micros, digits)


@functools.lru_cache(maxsize=256)
def count_reader(text: Callable[[int, int | None], str], micros: int, per: int, digits: int | None) -> Read:
    """Return how `text` is made of a count of `micros` microseconds, or of `per` parts of one."""
    if per > 1:
        return native("time-count", micros, per, digits)(
            lambda count: text(count // per if count >= 0 else -(-count // per), digits)
        )
    if text is time_text:
        mark = native("time-count", micros, per, digits)
    else:
        mark = native("datetime-count", micros, digits) if text is datetime_text else native("clock", digits)
    return mark(lambda count: text(count * micros, digits))


def time_reader(digits: int | None) -> Read:
    """Return how a TIME is read from microseconds."""
    return count_reader(_clock, 1, 1, digits)


def datetime_reader(unit_micros: int, digits: int | None) -> Read:
    """Return how a DATETIME is read from a count of units of so many microseconds."""
    return count_reader(datetime_text, unit_micros, 1, digits)


def _counted(base: str, text: Callable[[int, int | None], str], micros: int, per: int = 1) -> _Make:
    """The form of times of a base that are counted in `micros` microseconds, or `per` parts of one."""

    def make(case: _Case) -> Form | None:
        if case.type.base != base:
            return None
        return Form(int, count_reader(text, micros, per, case.digits))

    return make


def _floored_nanos(case: _Case) -> Form | None:
    if case.type.base != "datetime":
        return None
    return Form(int, nanos_reader(case.digits))


def nanos_reader(digits: int | None) -> Read:
    """Return how a DATETIME is read from nanoseconds since 1970."""
    return native("datetime-nanos", digits)(lambda nanos: datetime_text(nanos // 1_000, digits))


def _date(case: _Case) -> Form | None:
    return Form(int, date_text) if case.type.base == "date" else None


def _iso_date(case: _Case) -> Form | None:
    return Form(str, read_iso_date) if case.type.base == "date" else None


@native("iso-date")
def read_iso_date(iso: str) -> str:
    """Read a DATE, which may have a `Z` behind it. Raises ValueError."""
    return read_date(iso.removesuffix("Z"))


def _iso_time(case: _Case) -> Form | None:
    digits = case.digits
    if case.type.base != "time":
        return None
    return Form(str, native("iso-time", digits)(lambda iso: clock_text(iso, digits)))


_CLOCK: Final = re.compile(r"([0-9]{2}):([0-5][0-9]):([0-5][0-9])(?:\.([0-9]{1,9}))?Z?", re.ASCII).fullmatch


def clock_text(iso: str, digits: int | None) -> str:
    """Return the TIME of an ISO text. One that is not a time of day is read from MySQL's own text, which
    relay writes with `temporal=text` and `time=text`. Raises ValueError.
    """
    match = _CLOCK(iso)
    if match is None:
        return time_text(time_micros(iso), digits)
    hours, minutes, seconds, fraction = match.groups(default="")
    whole = int(hours) * 3600 + int(minutes) * 60 + int(seconds)
    return time_text(whole * 1_000_000 + int(fraction[:6].ljust(6, "0")), digits)


def _iso_datetime(case: _Case) -> Form | None:
    digits = case.digits
    if case.type.base != "datetime":
        return None
    return Form(str, native("iso-wall", digits)(lambda iso: wall_text(iso, digits)))


_MIDNIGHT_1970: Final = "1970-01-01T00:00:00"


def wall_text(iso: str, digits: int | None) -> str:
    """Return the DATETIME of an ISO text. One that is not in the calendar is MySQL's own text, which relay
    writes with `temporal=text`, and is given back as it is. Raises ValueError.
    """
    if _is_midnight_1970(iso):
        return datetime_text(0, digits)
    try:
        return timestamp_text(iso, digits)
    except ValueError:
        if not _is_off_calendar(iso):
            raise
        return iso


def _is_off_calendar(text: str) -> bool:
    """Whether this is MySQL's own text of a DATETIME with a date that is not in the calendar."""
    try:
        return datetime_micros(text) is None
    except ValueError:
        return False


def _is_midnight_1970(iso: str) -> bool:
    """Whether a text is the zero TIMESTAMP, which comes with its digits, too."""
    return iso[:19] == _MIDNIGHT_1970 and not iso[19:-1].strip(".0") and iso[-1:] == "Z"


def _zoned(case: _Case) -> Form | None:
    return Form(str, timestamp_reader(case.digits)) if case.type.base == "timestamp" else None


@functools.lru_cache(maxsize=256)
def timestamp_reader(digits: int | None) -> Read:
    """Return how a TIMESTAMP is read from ISO text."""
    return native("zoned", digits)(lambda iso: _zoned_text(iso, digits))


def _zoned_text(iso: str, digits: int | None) -> str:
    if _ZERO(iso) is not None:
        return timestamp_text(ZERO_TIMESTAMP, digits)
    return timestamp_text(_MIDNIGHT_1970 + "Z" if _is_midnight_1970(iso) else iso, digits)


#: The zero TIMESTAMP as MySQL's own text (`temporal=text`); no other is off the calendar.
_ZERO: Final = re.compile(r"0000-00-00 00:00:00(?:\.0{1,6})?").fullmatch


_Make = Callable[[_Case], Form | None]
_BY_TYPE: Final[dict[str, _Make]] = {
    "boolean": _boolean, "int8": _integer, "int16": _integer, "int32": _integer, "int64": _integer,
    "float": _float, "double": _float, "string": _string, "bytes": _bytes,
}  # fmt: skip
_BY_NAME: Final[dict[str, _Make]] = {
    DECIMAL: _decimal,
    VARIABLE_DECIMAL: _variable_decimal,
    names.BITS: _bits,
    names.ENUM: _label,
    names.SET: _label,
    names.JSON: _json,
    _FLOAT_VECTOR: _vector,
    _DOUBLE_VECTOR: _double_vector,
    _GEOMETRY: _geometry,
    _POINT: _geometry,
    names.YEAR: _integer,
    names.DATE: _date,
    _CONNECT_DATE: _date,
    _ISO_DATE: _iso_date,
    names.TIME: _counted("time", _clock, 1),
    _TIME: _counted("time", time_text, 1_000),
    _CONNECT_TIME: _counted("time", time_text, 1_000),
    _NANO_TIME: _counted("time", time_text, 1, per=1_000),
    _ISO_TIME: _iso_time,
    names.MILLIS: _counted("datetime", datetime_text, 1_000),
    names.MICROS: _counted("datetime", datetime_text, 1),
    _CONNECT_TIMESTAMP: _counted("datetime", datetime_text, 1_000),
    _NANO_TIMESTAMP: _floored_nanos,
    _ISO_TIMESTAMP: _iso_datetime,
    names.ZONED: _zoned,
}

# ---------------------------------------------------------------- schemas that are expected


_INTEGER_TYPES: Final = {"tinyint": "int16", "smallint": "int16", "mediumint": "int32", "int": "int32"}
_UNSIGNED_TYPES: Final = {"smallint": "int32", "int": "int64"}
#: Semantic names by type and `time.precision.mode`, where they are not the usual ones.
_MODES: Final = {
    "date": {"connect": _CONNECT_DATE, "isostring": _ISO_DATE},
    "time": {"connect": _CONNECT_TIME, "isostring": _ISO_TIME, "nanoseconds": _NANO_TIME},
    "datetime": {
        "connect": _CONNECT_TIMESTAMP,
        "isostring": _ISO_TIMESTAMP,
        "nanoseconds": _NANO_TIMESTAMP,
        "microseconds": names.MICROS,
    },
}
_NAMED: Final = {
    "year": names.YEAR, "json": names.JSON, "enum": names.ENUM, "set": names.SET, "timestamp": names.ZONED,
    "vector": "io.debezium.data.FloatVector",
}  # fmt: skip


def expected(field: str, column_type: ColumnType, options: DebeziumOptions, value: object) -> DeclaredColumn:
    """Return the schema of a column, as connectors with these options have it; text tells ISO text where
    numbers were expected.
    """
    type_, name = _expected(column_type, options, is_text=type(value) is str)
    return DeclaredColumn(field, type_, name=name)


def _expected(column_type: ColumnType, options: DebeziumOptions, *, is_text: bool) -> tuple[str, str | None]:  # noqa: PLR0911 - a dispatch
    base = column_type.base
    if base in INTEGERS:
        return _expected_integer(column_type, options)
    if base in FLOATS:
        is_double = base == "double" or column_type.scale is not None
        return ("double" if is_double else "float"), None
    if base == "decimal":
        if options.decimal_handling_mode == "precise":
            return "bytes", DECIMAL
        return options.decimal_handling_mode, None
    if base == "bit":
        return ("boolean", None) if column_type.length == 1 else ("bytes", names.BITS)
    if base in {"date", "time", "datetime"}:
        return "int64", _expected_time(column_type, "isostring" if is_text else options.time_precision_mode)
    if base in GEOMETRIES:
        return "string", _GEOMETRY
    if base in BINARIES:
        is_text = options.binary_handling_mode != "bytes" or column_type.charset == AS_TEXT
        return ("string" if is_text else "bytes"), None
    return "string", _NAMED.get(base)


def _expected_time(column_type: ColumnType, mode: str) -> str:
    base = column_type.base
    found = _MODES[base].get(mode)
    if found is not None:
        return found
    if base == "datetime":
        return names.MICROS if (column_type.length or 0) > 3 else names.MILLIS
    return names.DATE if base == "date" else names.TIME


def _expected_integer(column_type: ColumnType, options: DebeziumOptions) -> tuple[str, str | None]:
    base, mode = column_type.base, options.bigint_unsigned_handling_mode
    if base == "bigint":
        if not column_type.unsigned or mode == "long":
            return "int64", None
        return ("bytes", DECIMAL) if mode == "precise" else ("string", None)
    if column_type.unsigned and base in _UNSIGNED_TYPES:
        return _UNSIGNED_TYPES[base], None
    return _INTEGER_TYPES[base], None


# ---------------------------------------------------------------- types that are declared


_TYPES_BY_NAME: Final = {
    _CONNECT_DATE: "date", _ISO_DATE: "date", names.DATE: "date", names.TIME: "time", _TIME: "time",
    _CONNECT_TIME: "time", _NANO_TIME: "time", _ISO_TIME: "time", _CONNECT_TIMESTAMP: "datetime",
    _NANO_TIMESTAMP: "datetime", _ISO_TIMESTAMP: "datetime", _GEOMETRY: "geometry", _POINT: "point",
    VARIABLE_DECIMAL: "decimal", _FLOAT_VECTOR: "vector", _DOUBLE_VECTOR: "vector",
}  # fmt: skip


def declared_type(declared: DeclaredColumn, options: DebeziumOptions) -> ColumnType:
    """Return the MySQL type of a schema: that which `column.propagate.source.type` tells, else by its
    semantic name, else by its plain type.
    """
    parameters = declared.parameters or {}
    told = parameters.get(_SOURCE_TYPE)
    found = None if told is None else _propagated(told, parameters)
    members = _members(declared)
    if found is not None:
        return msgspec.structs.replace(found, members=members) if found.base in {"enum", "set"} else found
    if declared.name == DECIMAL:
        return _declared_decimal(parameters, options)
    if declared.name in {names.ENUM, names.SET}:
        return ColumnType("enum" if declared.name == names.ENUM else "set", members=members)
    base = _TYPES_BY_NAME.get(declared.name or "")
    return names.guessed_type(declared) if base is None else ColumnType(base)


def _propagated(word: str, parameters: dict[str, str]) -> ColumnType | None:
    """The type of a word such as `INT UNSIGNED`, with the length and the scale beside it."""
    head, _, rest = word.partition(" ")
    length, scale = parameters.get(_SOURCE_LENGTH), parameters.get(_SOURCE_SCALE)
    sizes = "" if length is None else f"({length})" if scale is None else f"({length},{scale})"
    if head.lower() in {"enum", "set"}:
        return ColumnType(head.lower())
    try:
        return parse_type(f"{head}{sizes} {rest}")
    except ValueError:
        return None


def _declared_decimal(parameters: dict[str, str], options: DebeziumOptions) -> ColumnType:
    precision, scale = _number(parameters, "connect.decimal.precision"), _number(parameters, "scale")
    if (precision, scale) == (20, 0) and options.bigint_unsigned_handling_mode == "precise":
        return ColumnType("bigint", unsigned=True)
    return ColumnType("decimal", length=precision, scale=scale)


def _number(parameters: dict[str, str], name: str) -> int | None:
    text = parameters.get(name, "")
    return int(text) if text.isascii() and text.isdigit() and len(text) < 4 else None


#: A label of ENUM and the comma behind it; one with a backslash before it is of the label.
_LABEL: Final = re.compile(r"((?:[^\\,]++|\\.)*+\\?),", re.DOTALL)


def _members(declared: DeclaredColumn) -> tuple[str, ...] | None:
    """The labels in `allowed`: commas in ENUM's have a backslash before them, backslashes are doubled."""
    allowed = (declared.parameters or {}).get("allowed") or ""
    if not allowed or declared.name not in {names.ENUM, names.SET}:
        return None
    is_set = declared.name == names.SET
    parts: list[str] = allowed.split(",") if is_set else _LABEL.findall(allowed + ",")
    if not 0 < len(parts) <= MAX_MEMBERS["set" if is_set else "enum"]:
        return None
    return tuple([part.replace("\\,", ",").replace("\\\\", "\\") for part in parts])
