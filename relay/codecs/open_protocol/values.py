"""Open Protocol's columns: type codes, flags, and values in JSON.

`type_of` returns the MySQL type of a code and its flags, `column_code` and `column_flags` the inverse;
`read_of` and `write_of` return the functions between wire values and canonical ones, None if both are the
same. A read function raises ValueError for an invalid value. Source: PingCAP "TiCDC Open Protocol", column
type code and bit flags; pingcap/ticdc pkg/sink/codec/open (2026-08).
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from datetime import UTC, tzinfo
from types import NoneType
from typing import Any, Final

from relay.codecs.shared.base64_text import base64_text, read_base64
from relay.codecs.shared.conversions import Read, Write
from relay.codecs.shared.lenient_json import go_number
from relay.model.events import Column, ColumnType, Generated, TableSchema
from relay.mysql import numbers, temporal
from relay.mysql.conversion_names import kernel_name
from relay.mysql.types import BINARIES, CHARS, GEOMETRIES

# ---------------------------------------------------------------- types

BINARY, HANDLE_KEY, GENERATED, PRIMARY_KEY, UNIQUE_KEY, MULTIPLE_KEY, NULLABLE, UNSIGNED = (
    1 << bit for bit in range(8)
)

#: Type code by the base of a MySQL type. 247 and above are as in MySQL's wire protocol, 225 is TiDB's VECTOR.
_CODES: Final = {
    "tinyint": 1, "smallint": 2, "int": 3, "float": 4, "double": 5, "null": 6, "timestamp": 7, "bigint": 8,
    "mediumint": 9, "date": 10, "time": 11, "datetime": 12, "year": 13, "varchar": 15, "varbinary": 15,
    "bit": 16, "vector": 225, "json": 245, "decimal": 246, "enum": 247, "set": 248, "tinytext": 249,
    "tinyblob": 249, "mediumtext": 250, "mediumblob": 250, "longtext": 251, "longblob": 251, "text": 252,
    "blob": 252, "char": 254, "binary": 254,
}  # fmt: skip
_VARCHAR, _LONG_BLOB, _NULL, _GEOMETRY = 15, 251, 6, 255
_NEW_DATE: Final = 14
#: Codes that MySQL has and TiDB never sends, with the code of the same type: NEWDATE is DATE, VAR_STRING is
#: VARCHAR.
_SAME: Final = {14: 10, 253: 15}
_BASES: Final = {code: base for base, code in reversed(_CODES.items())}
#: Types by code of character types with the binary flag; on every other type the flag is set as well and
#: means nothing.
_BINARY_BASES: Final = {
    15: "varbinary",
    249: "tinyblob",
    250: "mediumblob",
    251: "longblob",
    252: "blob",
    254: "binary",
}
_STRINGS: Final = frozenset(_BINARY_BASES)
_MEMBERS: Final = frozenset({"enum", "set"})
#: TiDB sets the unsigned flag on these, which have no sign.
_ALWAYS_UNSIGNED: Final = frozenset({"bit", "year"})
#: Types whose numbers may be above 2^63.
_WIDE: Final = frozenset({"bigint", "bit", "set"})


def same_code(code: int) -> int:
    """Return the code that TiDB uses for the same type."""
    return _SAME.get(code, code)


def type_of(code: int, flags: int) -> ColumnType:
    """Return a message column's type, without parameters. Raises ValueError for a code that no column has."""
    code = same_code(code)
    if code == _GEOMETRY:
        raise ValueError("GEOMETRY (255), which TiCDC does not support")
    if code not in _BASES:
        raise ValueError(f"type code {code}, which no column has")
    base = _BINARY_BASES[code] if code in _STRINGS and flags & BINARY else _BASES[code]
    return ColumnType(base, unsigned=bool(flags & UNSIGNED) and base not in _ALWAYS_UNSIGNED)


def column_code(column_type: ColumnType) -> int:
    """Return the type code of a column. Spatial types are LONGBLOB, others VARCHAR (`loses_type`)."""
    code = _CODES.get(column_type.base)
    if code is None:
        return _LONG_BLOB if column_type.base in GEOMETRIES else _VARCHAR
    return code


def loses_type(column_type: ColumnType) -> bool:
    """Return whether the protocol has no code for the type."""
    return column_type.base not in _CODES


def column_flags(schema: TableSchema) -> dict[str, int]:
    """Return the flags of a table's columns, by name (pingcap/ticdc pkg/common/table_info_helper.go).

    A generated column has no flags of secondary indexes, nor has the only column of an index that TiDB has
    made for a foreign key. Virtual columns are never sent.
    """
    handle, primary = frozenset(schema.handle_key()), frozenset(schema.primary_key or ())
    unique = {name for key in schema.unique_keys for name in key.columns}
    multiple = {name for key in schema.unique_keys if len(key.columns) > 1 for name in key.columns}
    for index in schema.indexes:
        if len(index.columns) > 1 or not index.is_implied:
            multiple.update(index.columns)
    found = {}
    for column in schema.columns:
        name, flags = column.name, _own_flags(column)
        flags |= HANDLE_KEY if name in handle else 0
        if name in primary:
            if column.nullable is None:
                flags &= ~NULLABLE
            flags |= PRIMARY_KEY | (MULTIPLE_KEY if len(primary) > 1 else 0)
        if column.generated is None:
            flags |= (UNIQUE_KEY if name in unique else 0) | (MULTIPLE_KEY if name in multiple else 0)
        found[name] = flags
    return found


def _own_flags(column: Column) -> int:
    base = column.type.base
    is_text = base in CHARS or base in _MEMBERS or (loses_type(column.type) and base not in GEOMETRIES)
    flags = 0 if is_text else BINARY
    flags |= GENERATED if column.generated is Generated.STORED else 0
    flags |= 0 if column.nullable is False else NULLABLE
    return flags | (UNSIGNED if column.type.unsigned or base in _ALWAYS_UNSIGNED else 0)


# ---------------------------------------------------------------- values


def wire_type(column_type: ColumnType) -> type:
    """Return the Python type of the column's JSON value: int, float or str; NoneType for the type NULL."""
    return _WIRE_TYPES.get(column_code(column_type), str)


def is_base64(column_type: ColumnType) -> bool:
    """Return whether the JSON parser decodes the column's text from base64: TEXT, BLOB and spatial types."""
    base = column_type.base
    return base not in _STRINGLIKE and (base in CHARS or base in BINARIES)


_WIRE_TYPES: Final[dict[int, type]] = {
    **dict.fromkeys((1, 2, 3, 8, 9, 13, 16, 247, 248), int),
    **dict.fromkeys((4, 5), float),
    _NULL: NoneType,
}


def is_wide(column_type: ColumnType) -> bool:
    """Return whether the type's numbers may be above 2^63."""
    return column_type.base in _WIDE and (column_type.unsigned or column_type.base != "bigint")


def read_of(column_type: ColumnType, zone: tzinfo, code: int, *, is_legacy: bool = False) -> Read | None:
    """Return the function that reads the column's wire value of `wire_type`; None if it is canonical.

    `code`: the message's type code. `is_legacy`: without flags (TiCDC v4.0.0 to v4.0.4), where strings are
    base64 too.
    """
    base = column_type.base
    if code == _NEW_DATE:
        return read_new_date
    if base in _STRINGLIKE:
        return _read_legacy_text if is_legacy else _STRINGLIKE[base]
    if is_base64(column_type):
        return read_text if base in CHARS else read_blob
    if base == "timestamp":
        return temporal.read_datetime if zone is UTC else functools.partial(temporal.read_timestamp, zone)
    return _read_number if is_wide(column_type) else _READS.get(base)


@kernel_name("int64")
def _read_number(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value


@kernel_name("float")
def _read_float(value: float) -> float:
    """Read a FLOAT: up to v6.1.5 TiCDC printed the 32-bit number with the digits of a 64-bit one."""
    if -10_000 < value < 10_000 and (value * 1000).is_integer():
        return value  # here exact thousandths have at most 7 digits, which is the shortest form
    return numbers.shortest_float32(value)


@kernel_name("date")
def read_new_date(text: str) -> str:
    """Read a date of type NEWDATE, which may have a time of zero. Raises ValueError."""
    return temporal.read_date(text[:10] if text[10:].strip(" 0:.") == "" else text)


@kernel_name("vector")
def read_vector(text: str) -> str:
    """Read a vector `[1,-2.5]`; the manual prints a blank after the comma."""
    if _VECTOR(text) is None:
        raise ValueError("not a vector")
    return text.replace(" ", "")


_VECTOR: Final = re.compile(r"\[(?:[-+.0-9eE]+(?:, ?[-+.0-9eE]+)*)?\]", re.ASCII).fullmatch


@kernel_name("base64-text")
def read_text(value: bytes | str) -> str:
    """Return the text of a TEXT column; invalid base64 has stayed text. Raises ValueError."""
    if isinstance(value, str):
        raise ValueError("not base64")  # noqa: TRY004 - of the wire's text, not of a caller's
    try:
        return value.decode()
    except UnicodeDecodeError:
        raise ValueError("bytes that are not UTF-8 text") from None


@kernel_name("base64")
def read_blob(value: bytes | str) -> bytes:
    """Return the bytes of a BLOB column; invalid base64 has stayed text. Raises ValueError."""
    if isinstance(value, str):
        raise ValueError("not base64")  # noqa: TRY004 - of the wire's text, not of a caller's
    return value


def _read_legacy_text(text: str) -> str:
    """Read base64 if it is valid, else the text: hand-made messages have neither flags nor base64."""
    try:
        return read_text(read_base64(text)) if len(text) % 4 == 0 else text
    except ValueError:
        return text


_NAMED: Final = {"a": 7, "b": 8, "f": 12, "n": 10, "r": 13, "t": 9, "v": 11, '"': 34, "\\": 92}
_NAMED_BYTES: Final = {ord(letter): bytes((code,)) for letter, code in _NAMED.items()}
_QUOTED: Final = re.compile(
    rb'\\(?:(?P<named>[abfnrtv"\\])|x(?P<byte>[0-9a-fA-F]{2})|(?P<octal>[0-3][0-7]{2})|u(?P<short>[0-9a-fA-F]{4})'
    rb'|U(?P<long>[0-9a-fA-F]{8}))|(?P<bad>["\\\n])'
)


@kernel_name("go-quoted")
def read_quoted(text: str) -> bytes:
    """Decode bytes that Go's strconv.Quote has made printable: `\\x89PNG\\r\\n`. Raises ValueError."""
    try:
        data = text.encode()
    except UnicodeEncodeError:
        raise ValueError("a lone surrogate") from None
    end = len(data)
    while data.endswith(_ZERO, 0, end):  # BINARY(n) is padded with zero bytes
        end -= len(_ZERO)
    if data.endswith(b"\\", 0, end):  # the first of them may belong to an escaped backslash
        end = len(data)
    body = data[:end]
    if _BACKSLASH in body or _QUOTE in body or _NEWLINE in body:
        body = _QUOTED.sub(_unquoted, body)
    return body + bytes((len(data) - end) // len(_ZERO))


_ZERO: Final = rb"\x00"
# Numbers: searching bytes for bytes first tries them as a number, which costs an exception.
_BACKSLASH, _QUOTE, _NEWLINE = b'\\"\n'


def _unquoted(match: re.Match[bytes]) -> bytes:
    kind, digits = match.lastgroup, match.group(match.lastgroup or 0)
    if kind == "named":
        return _NAMED_BYTES[digits[0]]
    if kind == "byte":
        return bytes((int(digits, 16),))
    if kind == "octal":
        return bytes((int(digits, 8),))
    if kind == "bad":
        raise ValueError(f"an escape that Go does not write, at byte {match.start()}")
    code = int(digits, 16)
    if code > 0x10FFFF or 0xD800 <= code < 0xE000:
        raise ValueError(f"no character, at byte {match.start()}")
    return chr(code).encode()


_STRINGLIKE: Final[dict[str, Read | None]] = {
    "varchar": None,
    "char": None,
    "varbinary": read_quoted,
    "binary": read_quoted,
}
_READS: Final[dict[str, Read]] = {
    "float": _read_float,
    "decimal": numbers.read_decimal,
    "date": temporal.read_date,
    "datetime": temporal.read_datetime,
    "time": temporal.read_time,
    "vector": read_vector,
}

_NAMES: Final = {code: f"\\{letter}" for letter, code in _NAMED.items()}
_ESCAPED: Final = re.compile(r'["\\]|[^ -~]')
#: Bytes that are no UTF-8 become these lone surrogates in Python's `surrogateescape`: 0xDC00 and the byte.
_FIRST_RAW, _LAST_RAW = 0xDC80, 0xDCFF


@kernel_name("go-quoted")
def quoted(data: bytes) -> str:
    """Return the bytes as Go's strconv.Quote prints them, without its quotes: printable UTF-8 stays."""
    return _ESCAPED.sub(_escape, data.decode("utf-8", "surrogateescape"))


def _escape(match: re.Match[str]) -> str:
    character = match.group()
    code = ord(character)
    if code in _NAMES:
        return _NAMES[code]
    if _FIRST_RAW <= code <= _LAST_RAW:
        return f"\\x{code - 0xDC00:02x}"
    if character.isprintable():
        return character
    if code < 0x80:
        return f"\\x{code:02x}"
    return f"\\u{code:04x}" if code < 0x10000 else f"\\U{code:08x}"


def write_of(
    column_type: ColumnType, zone: tzinfo, unmoved: Callable[[], None] | None = None
) -> Write | None:
    """Return the writing function of the column's canonical value, given the zone of TIMESTAMP text;
    `unmoved` is called for a value that does not exist in the zone's calendar.
    """
    base = column_type.base
    if base in {"varbinary", "binary"}:
        return quoted
    if base in BINARIES:
        return base64_text
    if base in CHARS:
        return None if base in _STRINGLIKE else _text_base64
    if base == "timestamp":
        return None if zone is UTC else functools.partial(temporal.timestamp_text, zone, unmoved=unmoved)
    if wire_type(column_type) is int:
        return _integer
    return _WRITES.get(base)


@kernel_name("int64")
def _integer(value: Any) -> int:  # noqa: ANN401 - a label where an ENUM's members are unknown
    if not isinstance(value, int):
        raise TypeError("a label whose members are unknown has no number")
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value


def _no_value(_: Any) -> None:  # noqa: ANN401 - any value is one too many
    raise ValueError("a column of the type NULL has no value")


@kernel_name("text-base64")
def _text_base64(value: str) -> str:
    return base64_text(value.encode())


_WRITES: Final[dict[str, Write]] = {
    "decimal": numbers.decimal_text,
    "float": go_number,
    "double": go_number,
    "null": _no_value,
    "vector": read_vector,
}
