"""Columns of TiCDC Avro: types from field schemas, and values in Avro.

`field_schema` returns the schema of a column's field, in TiCDC's order of members; `field_type` returns the
MySQL type of a field, or raises ValueError. `read_of` and `write_of` return the functions between Avro's
values and canonical ones, None if both are the same. Sources: pingcap/ticdc pkg/sink/codec/avro/avro.go
(2026-08), and its records.
"""

from __future__ import annotations

import functools
import math
import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.codecs.shared.avro_decimals import MOST_BYTES, decimal_bytes, read_decimal
from relay.codecs.shared.base64_text import base64_text, try_base64
from relay.codecs.shared.conversions import Read, Write
from relay.codecs.shared.tidb_defaults import NOW, sequence_default, stored_default
from relay.model.avro_types import AvroField, AvroType
from relay.model.errors import NotRepresentable
from relay.model.events import ABSENT, Absent, Column, ColumnType, Default
from relay.mysql import numbers, temporal
from relay.mysql.conversion_names import READ_DOUBLE, kernel_name
from relay.mysql.members import label_reader, label_writer
from relay.mysql.types import BINARIES, CHARS, GEOMETRIES, MAX_BITS, checked_type, default_bytes, default_text

Json = dict[str, Any]
NAME: Final = "ticdc-avro"
PARAMETERS: Final = "connect.parameters"
TIDB_TYPE: Final = "tidb_type"
_SMALL: Final = frozenset({"tinyint", "smallint", "mediumint"})
#: TiCDC's name and Avro's type of types with one form. `_form` adds those that depend on more.
_FORMS: Final = {
    "tinyint": ("INT", "int"), "smallint": ("INT", "int"), "mediumint": ("INT", "int"), "int": ("INT", "int"),
    "bigint": ("BIGINT", "long"), "float": ("FLOAT", "float"), "double": ("DOUBLE", "double"),
    "bit": ("BIT", "bytes"), "enum": ("ENUM", "string"), "set": ("SET", "string"), "json": ("JSON", "string"),
    "date": ("DATE", "string"), "datetime": ("DATETIME", "string"), "timestamp": ("TIMESTAMP", "string"),
    "time": ("TIME", "string"), "year": ("YEAR", "int"), "vector": ("TiDBVECTORFloat32", "string"),
    **dict.fromkeys(CHARS, ("TEXT", "string")), **dict.fromkeys(BINARIES, ("BLOB", "bytes")),
    **dict.fromkeys(GEOMETRIES, ("BLOB", "bytes")),
}  # fmt: skip
_TEXT: Final = ("TEXT", "string")
#: The type for each form; if several types share it, the one that holds all values.
_TYPES: Final = {
    ("INT", "int"): ColumnType("int"),
    ("INT UNSIGNED", "int"): ColumnType("mediumint", unsigned=True),
    ("INT UNSIGNED", "long"): ColumnType("int", unsigned=True),
    ("BIGINT", "long"): ColumnType("bigint"),
    ("BIGINT UNSIGNED", "long"): ColumnType("bigint", unsigned=True),
    ("BIGINT UNSIGNED", "string"): ColumnType("bigint", unsigned=True),
    ("FLOAT", "float"): ColumnType("float"),
    # Before TiCDC v7.0.0.
    ("FLOAT", "double"): ColumnType("float"),
    ("DOUBLE", "double"): ColumnType("double"),
    ("DECIMAL", "bytes"): ColumnType("decimal"),
    ("DECIMAL", "string"): ColumnType("decimal"),
    ("BIT", "bytes"): ColumnType("bit"),
    ("TEXT", "string"): ColumnType("text"),
    ("BLOB", "bytes"): ColumnType("blob"),
    ("ENUM", "string"): ColumnType("enum"),
    ("SET", "string"): ColumnType("set"),
    ("JSON", "string"): ColumnType("json"),
    ("DATE", "string"): ColumnType("date"),
    ("DATETIME", "string"): ColumnType("datetime"),
    ("TIMESTAMP", "string"): ColumnType("timestamp"),
    ("TIME", "string"): ColumnType("time"),
    ("YEAR", "int"): ColumnType("year"),
    ("TiDBVECTORFloat32", "string"): ColumnType("vector"),
}
#: Maximum digits of a length.
_MOST_DIGITS: Final = 8


class Modes(msgspec.Struct, frozen=True):
    """Numbers that are written as text, because other programs may round them."""

    has_decimal_text: bool = False
    has_bigint_text: bool = False


# ---------------------------------------------------------------- types


def form_of(column_type: ColumnType, modes: Modes) -> tuple[str, str]:
    """Return TiCDC's name of a type, and Avro's type of its values."""
    base = column_type.base
    if base == "decimal":
        return "DECIMAL", "string" if modes.has_decimal_text or column_type.length is None else "bytes"
    name, kind = _FORMS.get(base, _TEXT)
    if column_type.unsigned and name in {"INT", "BIGINT"}:
        name += " UNSIGNED"
        if base == "int":
            kind = "long"
        elif base == "bigint" and modes.has_bigint_text:
            kind = "string"
    return name, kind


def loses_type(column_type: ColumnType) -> bool:
    """Return whether TiCDC has no name for the type: it writes spatial types as BLOB, others as TEXT."""
    return column_type.base in GEOMETRIES or (
        column_type.base not in _FORMS and column_type.base != "decimal"
    )


def type_schema(column: Column, modes: Modes) -> Json:
    """Return the schema of a column's values that are not NULL.

    Raises NotRepresentable for members that are ambiguous in TiCDC's text.
    """
    column_type = column.type
    name, kind = form_of(column_type, modes)
    parameters = {TIDB_TYPE: name}
    if column_type.base == "bit":
        parameters = {"length": str(column_type.length or 1), TIDB_TYPE: name}
    elif column_type.members is not None:
        parameters = {"allowed": _allowed(column.name, column_type.members), TIDB_TYPE: name}
    found: Json = {"type": kind, PARAMETERS: parameters}
    if name == "DECIMAL" and kind == "bytes":
        found |= {
            "logicalType": "decimal",
            "precision": column_type.length,
            "scale": column_type.scale or 0,
        }
    return found


def _allowed(name: str, members: tuple[str, ...]) -> str:
    """Return the members of ENUM and SET as TiCDC joins them."""
    text = ",".join([member.replace(",", "\\,") for member in members])
    if _members(text) != members:
        raise NotRepresentable(NAME, name, "a member ends with a backslash, which escapes the comma after it")
    return text


def field_schema(column: Column, modes: Modes, database: str) -> Json:
    """Return the schema of a column's field. In a nullable column NULL is the first type, unless the column
    has another default.
    """
    schema = type_schema(column, modes)
    default = default_of(column, modes, database)
    if column.nullable is False:
        found = {"name": column.name, "type": schema}
        return found if default is None else {"default": default, **found}
    if default is None:
        return {"default": None, "name": column.name, "type": ["null", schema]}
    return {"default": default, "name": column.name, "type": [schema, "null"]}


def is_known_field(field: AvroField) -> bool:
    """Return whether a field has a type of TiCDC's, as all columns have and no other field."""
    parameters = field.type.present.attributes.get(PARAMETERS)
    return isinstance(parameters, dict) and TIDB_TYPE in parameters


def form_of_field(field: AvroField) -> tuple[str, str]:
    """Return TiCDC's name of a field's type, and Avro's type. Raises ValueError if it has none."""
    present = field.type.present
    parameters = present.attributes.get(PARAMETERS)
    name = parameters.get(TIDB_TYPE) if isinstance(parameters, dict) else None
    if not isinstance(name, str):
        raise ValueError("a field without `tidb_type`")  # noqa: TRY004 - of a schema, not of an argument
    return name, present.kind


def field_type(field: AvroField) -> ColumnType:
    """Return the type of a field. Raises ValueError."""
    form = form_of_field(field)
    found, attributes = _TYPES.get(form), field.type.present.attributes
    if found is None:
        raise ValueError("a `tidb_type` that TiCDC does not have, or not with this Avro type")
    parameters = attributes[PARAMETERS]
    if form[0] == "BIT":
        return checked_type(msgspec.structs.replace(found, length=_number(parameters.get("length", "1"))))
    if form[0] in {"ENUM", "SET"}:
        return checked_type(msgspec.structs.replace(found, members=_members(parameters.get("allowed"))))
    if form == ("DECIMAL", "bytes"):
        length, scale = _precision(field.type.present)
        return checked_type(msgspec.structs.replace(found, length=length, scale=scale))
    return found


def _precision(type_: AvroType) -> tuple[int, int]:
    attributes = type_.attributes
    length, scale = attributes.get("precision"), attributes.get("scale", 0)
    if (
        attributes.get("logicalType") != "decimal"
        or type(length) is not int
        or type(scale) is not int
        or scale < 0
    ):
        raise ValueError("a DECIMAL without its digits")
    return length, scale


def _number(text: object) -> int:
    if not isinstance(text, str) or not text.isascii() or not text.isdigit() or len(text) > _MOST_DIGITS:
        raise ValueError("a BIT without its length")
    return int(text)


def _members(text: object) -> tuple[str, ...] | None:
    """Return the members of ENUM and SET, joined by commas; a comma in a member has a backslash before it."""
    if not isinstance(text, str):
        return None
    return tuple([member.replace("\\,", ",") for member in _BETWEEN_MEMBERS(text)])


_BETWEEN_MEMBERS: Final = re.compile(r"(?<!\\),").split

# ---------------------------------------------------------------- defaults

_NUMBERS: Final = frozenset({"INT", "INT UNSIGNED", "BIGINT", "BIGINT UNSIGNED", "YEAR"})
_NUMERIC: Final = _NUMBERS | {"FLOAT", "DOUBLE", "BIT"}


def default_of(column: Column, modes: Modes, database: str) -> Any:  # noqa: ANN401 - a value of any type
    """Return the default of a field, None if it has none: the next value of a sequence is no number.

    Raises NotRepresentable for a default that is not a value of its column.
    """
    name, kind = form_of(column.type, modes)
    sequence = sequence_default(column, database)
    text = sequence or stored_default(column)
    if text is None or (name == "DECIMAL" and kind == "bytes") or (sequence and name in _NUMERIC):
        return None
    try:
        return _default(text, column.type, name, kind)
    except (ValueError, ArithmeticError):
        reason = f"the default of {column.name!r} is not a value of its column"
        raise NotRepresentable(NAME, "", reason) from None


def _default(text: str, column_type: ColumnType, name: str, kind: str) -> Any:  # noqa: ANN401 - a value of any type
    if name in _NUMBERS:
        number = _whole_number(text)
        if kind == "string":
            return str(number)
        return number - (1 << 64) if kind == "long" and number >= 1 << 63 else number
    if name in {"FLOAT", "DOUBLE"}:
        real = _finite(float(text))
        return int(real) if real.is_integer() and abs(real) < _PLAIN_END else real
    if name == "BIT":
        return base64_text(bit_bytes(column_type.length or 1, _bits_of(text)))
    if kind == "bytes":
        return base64_text(default_bytes(text))
    return text


#: Maximum digits of a 64-bit number.
_MOST_NUMBER_DIGITS: Final = 20


def _whole_number(text: str) -> int:
    """Return the number of a default, which DDL may have with a fraction or an exponent. Raises ValueError,
    and ArithmeticError if it is no number.
    """
    number = Decimal(text)
    # An exponent of a few digits expands to millions of digits.
    is_short = not number or number.adjusted() < _MOST_NUMBER_DIGITS
    if not is_short or not -(1 << 63) <= number < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return int(number)


#: Up to here Go prints whole numbers of floating point without an exponent, and exactly.
_PLAIN_END: Final = 1e15


def _bits_of(text: str) -> int:
    """Return the number of a default of BIT: `b'101'`, digits, or the bits as characters."""
    if match := _BITS(text):
        return int(match[1], 2)
    if text.isascii() and text.isdigit():
        return int(text)
    return int.from_bytes(text.encode("latin-1", "ignore"), "big")


_BITS: Final = re.compile(r"[bB]'([01]*)'").fullmatch


def declared_default(field: AvroField, column_type: ColumnType) -> Default | Absent:
    """Return the default that a field declares for its column.

    Bytes are base64. None means unknown: TiCDC omits defaults of DECIMAL.
    """
    value = field.attributes.get("default")
    if value is None or isinstance(value, dict | list | bool):
        return ABSENT
    base = column_type.base
    if isinstance(value, float | int):
        if base == "bigint" and column_type.unsigned and value < 0:
            value += 1 << 64
        return Default(numbers.go_text(value) if isinstance(value, float) else str(value))
    if base in {"blob", "bit"}:
        data = try_base64(value)
        if data is None:
            return ABSENT
        return Default(f"b'{int.from_bytes(data, 'big'):b}'" if base == "bit" else default_text(data))
    if value.startswith(NOW) and base in {"datetime", "timestamp"}:
        return Default(value, is_expression=True)
    return Default(value)


# ---------------------------------------------------------------- values


def read_of(column_type: ColumnType, avro: AvroType, zone: tzinfo) -> Read | None:
    """Return the function that reads a column's values of this Avro type; None if they are canonical."""
    base = column_type.base
    if base == "decimal":
        if avro.kind == "string":
            return numbers.read_decimal
        scale = _precision(avro)[1]
        return kernel_name("decimal-bytes", scale, MOST_BYTES)(functools.partial(read_decimal, scale))
    if base == "bigint" and column_type.unsigned:
        return _read_digits if avro.kind == "string" else read_wrapped
    if base == "timestamp":
        return temporal.read_datetime if zone is UTC else functools.partial(temporal.read_timestamp, zone)
    return label_reader(column_type) if base in {"enum", "set"} else _READS.get(base)


@kernel_name("unsigned64")
def read_wrapped(number: int) -> int:
    """Return the unsigned number of the same 64 bits."""
    return number + (1 << 64) if number < 0 else number


@kernel_name("member-number", None)
def _read_digits(text: str) -> int:
    number = numbers.read_int(text)
    if not 0 <= number < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return number


@kernel_name("bit-bytes")
def read_bits(data: bytes) -> int:
    """Read BIT from its bytes, the highest first. Raises ValueError."""
    if 8 * len(data) > MAX_BITS:
        raise ValueError("more bytes than a BIT has")
    return int.from_bytes(data, "big")


@kernel_name(*READ_DOUBLE)
def _finite(number: float) -> float:
    if not math.isfinite(number):
        raise ValueError("not a finite number")
    return number


@kernel_name("float")
def _read_float(number: float) -> float:
    return numbers.shortest_float32(_finite(number))


def _read_vector(text: str) -> str:
    """Read a vector without the blanks after its commas."""
    if not numbers.is_vector(text):
        raise ValueError("not a vector")
    return text.replace(" ", "")


_READS: Final[dict[str, Read]] = {
    "float": _read_float,
    "double": _finite,
    "bit": read_bits,
    "date": temporal.read_date,
    "datetime": temporal.read_datetime,
    "time": temporal.read_time,
    "vector": _read_vector,
}


def write_of(
    column: Column,
    modes: Modes,
    zone: tzinfo,
    unmoved: Callable[[], None],
    unlabeled: Callable[[], None],
) -> Write:
    """Return the writing function of a column's values other than NULL.

    `unmoved` is called for a TIMESTAMP that does not exist in the zone's calendar, `unlabeled` for numbers of
    ENUM and SET without a label.
    """
    _, kind = form_of(column.type, modes)
    return _write_of(column.type, kind, zone, unmoved, unlabeled)


def _write_of(
    column_type: ColumnType,
    kind: str,
    zone: tzinfo,
    unmoved: Callable[[], None],
    unlabeled: Callable[[], None],
) -> Write:
    base = column_type.base
    if base == "decimal":
        return _decimal_text if kind == "string" else _decimal_write(column_type)
    if base in {"enum", "set"}:
        return label_writer(column_type, unlabeled)
    if base == "bit":
        length = column_type.length or 1
        return kernel_name("bit-bytes", length)(functools.partial(bit_bytes, length))
    if base == "vector":
        return _read_vector
    if base == "timestamp" and zone is not UTC:
        return functools.partial(temporal.timestamp_text, zone, unmoved=unmoved)
    if base == "bigint" and column_type.unsigned:
        return _digits if kind == "string" else _wrapped
    return _WRITES[kind]


def _decimal_write(column_type: ColumnType) -> Write:
    length, scale = column_type.length or 0, column_type.scale or 0
    return kernel_name("decimal-bytes", length, scale)(functools.partial(decimal_bytes, length, scale))


def bit_bytes(length: int, value: int) -> bytes:
    """Return the bits, in as many bytes as the column has. Raises ValueError for a number that needs more."""
    if not 0 <= value < 1 << length:
        raise ValueError("more bits than the column has")
    return value.to_bytes((length + 7) // 8, "big")


@kernel_name("int32")
def int32(value: int) -> int:
    """Return an integer of 32 bits. Raises ValueError for any other value."""
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise ValueError("a number beyond 32 bits")
    return value


@kernel_name("long")
def int64(value: int) -> int:
    """Return an integer of 64 bits. Raises ValueError for any other value."""
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError("a number beyond 64 bits")
    return value


def _unsigned(value: int) -> int:
    if type(value) is not int or not 0 <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value


@kernel_name("signed64")
def _wrapped(value: int) -> int:
    """Return an unsigned number as the signed one of the same bits."""
    value = _unsigned(value)
    return value - (1 << 64) if value >= 1 << 63 else value


@kernel_name("member-digits", None)
def _digits(value: int) -> str:
    return str(_unsigned(value))


@kernel_name("finite-float")
def _float32(value: float) -> float:
    if abs(_finite(value)) >= numbers.BEYOND_FLOAT:
        raise ValueError("a number beyond 32 bits")
    return value


@kernel_name("finite")
def _float64(value: float) -> float:
    return _finite(value)


@kernel_name("base64")
def _bytes(value: Any) -> bytes:  # noqa: ANN401 - a value that the source decoded as bytes
    if not isinstance(value, bytes):
        raise TypeError("not bytes")
    return value


@kernel_name("text")
def _text(value: Any) -> str:  # noqa: ANN401 - a value of a type without a special form
    if isinstance(value, bytes):
        return value.decode()
    if isinstance(value, Decimal):
        return numbers.decimal_text(value)
    return value if type(value) is str else str(value)


@kernel_name("decimal")
def _decimal_text(value: Any) -> str:  # noqa: ANN401 - a value of DECIMAL, or of a type without a special form
    return _text(value)


_WRITES: Final[dict[str, Write]] = {
    "int": int32,
    "long": int64,
    "float": _float32,
    "double": _float64,
    "bytes": _bytes,
    "string": _text,
}


_FOREIGN: Final = re.compile(r"[^A-Za-z0-9_]", re.ASCII)


def sanitized(name: str) -> str:
    """Return a name with `_` for every character that Avro does not allow, and `_` before a leading digit."""
    found = _FOREIGN.sub("_", name)
    return f"_{found}" if found[:1].isdigit() else found


def subject_topic(topic: str) -> str:
    """Return a topic in the form of subjects: without dots."""
    return topic.replace(".", "_")
