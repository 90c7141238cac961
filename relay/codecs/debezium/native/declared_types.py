"""Deriving a column's schema from its type, and its type from its schema, for messages with only one of the
two.

`expected` returns the schema that a connector with given options has for a type, `named_again` a nameless one
with its semantic name; `declared_type` returns the type of a schema, `declared_members` the labels of its
ENUM or SET. Sources: Debezium 3.6 "MySQL connector", data types; io.debezium.data and io.debezium.time;
records of 1.9.7 to 3.6.1.
"""

from __future__ import annotations

import re
from typing import Final

import msgspec

from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.shared import semantic_names
from relay.codecs.debezium.shared.schemas import DeclaredColumn, inferred_type
from relay.model.events import ColumnType
from relay.mysql.types import BINARIES, FLOATS, GEOMETRIES, INTEGERS, MAX_MEMBERS, parse_type

#: Marks a binary column that was declared as text with CHARACTER SET binary.
AS_TEXT: Final = "binary"
#: Parameters that `column.propagate.source.type` adds to a column.
_SOURCE_TYPE: Final = "__debezium.source.column.type"
_SOURCE_LENGTH: Final = "__debezium.source.column.length"
_SOURCE_SCALE: Final = "__debezium.source.column.scale"

_INTEGER_TYPES: Final = {"tinyint": "int16", "smallint": "int16", "mediumint": "int32", "int": "int32"}
_UNSIGNED_TYPES: Final = {"smallint": "int32", "int": "int64"}
#: Semantic names by type and `time.precision.mode`, where they differ from the usual ones.
_MODES: Final = {
    "date": {"connect": semantic_names.CONNECT_DATE, "isostring": semantic_names.ISO_DATE},
    "time": {
        "connect": semantic_names.CONNECT_TIME,
        "isostring": semantic_names.ISO_TIME,
        "nanoseconds": semantic_names.NANO_TIME,
    },
    "datetime": {
        "connect": semantic_names.CONNECT_TIMESTAMP,
        "isostring": semantic_names.ISO_TIMESTAMP,
        "nanoseconds": semantic_names.NANO_TIMESTAMP,
        "microseconds": semantic_names.MICRO_TIMESTAMP,
    },
}
#: Connect types of these names; all others have `int64`.
_TYPES_OF_TIMES: Final = {
    semantic_names.DATE: "int32",
    semantic_names.CONNECT_DATE: "int32",
    semantic_names.ISO_DATE: "string",
    semantic_names.CONNECT_TIME: "int32",
    semantic_names.ISO_TIME: "string",
    semantic_names.ISO_TIMESTAMP: "string",
}
#: Modes that together cover each Connect type of dates and times.
_OTHER_MODES: Final = ("adaptive_time_microseconds", "connect", "isostring")
#: Semantic names by Connect type and type, where the nameless type has another meaning.
_NAMES_OF_TYPES: Final = {
    ("bytes", "decimal"): semantic_names.DECIMAL,
    ("bytes", "bigint"): semantic_names.DECIMAL,
    ("bytes", "bit"): semantic_names.BITS,
    ("string", "timestamp"): semantic_names.ZONED_TIMESTAMP,
    ("struct", "decimal"): semantic_names.VARIABLE_SCALE_DECIMAL,
    ("array", "vector"): semantic_names.FLOAT_VECTOR,
    **dict.fromkeys([("struct", base) for base in GEOMETRIES], semantic_names.GEOMETRY),
}
_NAMED: Final = {
    "year": semantic_names.YEAR,
    "json": semantic_names.JSON,
    "enum": semantic_names.ENUM,
    "set": semantic_names.ENUM_SET,
    "timestamp": semantic_names.ZONED_TIMESTAMP,
    "vector": semantic_names.FLOAT_VECTOR,
}


def expected(field: str, column_type: ColumnType, options: DebeziumOptions, value: object) -> DeclaredColumn:
    """Return the schema of a column from connectors with these options, as far as `form_of` reads it: a
    semantic name is enough. A text value distinguishes ISO text from the expected numbers.
    """
    mode = "isostring" if type(value) is str else options.time_precision_mode
    type_, name = _expected(column_type, options, mode)
    return DeclaredColumn(field, type_, name=name)


def named_again(
    nameless: DeclaredColumn, column_type: ColumnType, options: DebeziumOptions
) -> DeclaredColumn:
    """Return a column's schema with the semantic name that AvroConverter omits with
    `connect.meta.data=false`; the schema itself if the type needs no name. The options decide between several
    names of a Connect type.
    """
    base, type_ = column_type.base, nameless.type
    if base in _MODES:
        names = [_expected_time(column_type, mode) for mode in (options.time_precision_mode, *_OTHER_MODES)]
        name = next((name for name in names if _TYPES_OF_TIMES.get(name, "int64") == type_), None)
    elif base == "bigint" and not column_type.unsigned:
        name = None
    else:
        name = _NAMES_OF_TYPES.get((type_, base))
    return nameless if name is None else msgspec.structs.replace(nameless, name=name)


def _expected(column_type: ColumnType, options: DebeziumOptions, mode: str) -> tuple[str, str | None]:  # noqa: PLR0911 - a dispatch
    base = column_type.base
    if base in INTEGERS:
        return _expected_integer(column_type, options)
    if base in FLOATS:
        is_double = base == "double" or column_type.scale is not None
        return ("double" if is_double else "float"), None
    if base == "decimal":
        if options.decimal_handling_mode == "precise":
            return "bytes", semantic_names.DECIMAL
        return options.decimal_handling_mode, None
    if base == "bit":
        return ("boolean", None) if column_type.length == 1 else ("bytes", semantic_names.BITS)
    if base in _MODES:
        name = _expected_time(column_type, mode)
        return _TYPES_OF_TIMES.get(name, "int64"), name
    if base in GEOMETRIES:
        return "struct", semantic_names.GEOMETRY
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
        return semantic_names.MICRO_TIMESTAMP if (column_type.length or 0) > 3 else semantic_names.TIMESTAMP
    return semantic_names.DATE if base == "date" else semantic_names.MICRO_TIME


def _expected_integer(column_type: ColumnType, options: DebeziumOptions) -> tuple[str, str | None]:
    base, mode = column_type.base, options.bigint_unsigned_handling_mode
    if base == "bigint":
        if not column_type.unsigned or mode == "long":
            return "int64", None
        return ("bytes", semantic_names.DECIMAL) if mode == "precise" else ("string", None)
    if column_type.unsigned and base in _UNSIGNED_TYPES:
        return _UNSIGNED_TYPES[base], None
    return _INTEGER_TYPES[base], None


_TYPES_BY_NAME: Final = {
    semantic_names.DATE: "date",
    semantic_names.ISO_DATE: "date",
    semantic_names.CONNECT_DATE: "date",
    semantic_names.TIME: "time",
    semantic_names.MICRO_TIME: "time",
    semantic_names.NANO_TIME: "time",
    semantic_names.ISO_TIME: "time",
    semantic_names.CONNECT_TIME: "time",
    semantic_names.NANO_TIMESTAMP: "datetime",
    semantic_names.ISO_TIMESTAMP: "datetime",
    semantic_names.CONNECT_TIMESTAMP: "datetime",
    semantic_names.VARIABLE_SCALE_DECIMAL: "decimal",
    semantic_names.GEOMETRY: "geometry",
    semantic_names.POINT: "point",
    semantic_names.FLOAT_VECTOR: "vector",
    semantic_names.DOUBLE_VECTOR: "vector",
}


def declared_type(declared: DeclaredColumn, options: DebeziumOptions) -> ColumnType:
    """Return the MySQL type of a schema: by `column.propagate.source.type`, else by its semantic name, else
    by its plain type.
    """
    parameters = declared.parameters or {}
    source_type = parameters.get(_SOURCE_TYPE)
    found = None if source_type is None else _propagated(source_type, parameters)
    members = declared_members(declared)
    if found is not None:
        return msgspec.structs.replace(found, members=members) if found.base in {"enum", "set"} else found
    if declared.name == semantic_names.DECIMAL:
        return _declared_decimal(parameters, options)
    if declared.name in {semantic_names.ENUM, semantic_names.ENUM_SET}:
        return ColumnType("enum" if declared.name == semantic_names.ENUM else "set", members=members)
    base = _TYPES_BY_NAME.get(declared.name or "")
    return inferred_type(declared) if base is None else ColumnType(base)


def _propagated(word: str, parameters: dict[str, str]) -> ColumnType | None:
    """Return the type of a name such as `INT UNSIGNED`, with the propagated length and scale."""
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


#: A label of ENUM up to its comma or the end; a comma after a backslash is part of the label.
_LABEL: Final = re.compile(r"((?:[^\\,]++|\\.)*+\\?)(?:,|\Z)", re.DOTALL)


def declared_members(declared: DeclaredColumn) -> tuple[str, ...] | None:
    """Return the labels in `allowed`: ENUM's escape commas with a backslash, backslashes are doubled."""
    allowed = (declared.parameters or {}).get("allowed") or ""
    if not allowed or declared.name not in {semantic_names.ENUM, semantic_names.ENUM_SET}:
        return None
    is_set = declared.name == semantic_names.ENUM_SET
    parts: list[str] = allowed.split(",") if is_set else _LABEL.findall(allowed + ",")[:-1]
    if not 0 < len(parts) <= MAX_MEMBERS["set" if is_set else "enum"]:
        return None
    return tuple([part.replace("\\,", ",").replace("\\\\", "\\") for part in parts])
