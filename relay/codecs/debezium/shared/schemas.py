"""Kafka Connect schemas of the Debezium family: types of columns, names, and the blocks of TiCDC's messages.

`ticdc_field` returns the Connect type of a MySQL type in TiCDC's dialect; `value_schema` and `key_schema`
return whole blocks in TiCDC's member order, ready to be encoded once per table version. `read_block` reads
the columns of any block, of either dialect; `inferred_type` infers a column's MySQL type from its field if no
definition is known. Sources: pingcap/ticdc pkg/sink/codec/debezium/{codec,helper}.go (2026-08); its records;
Debezium "MySQL connector", data types.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from typing import Any, Final

import msgspec

from relay.codecs.debezium.shared import semantic_names
from relay.codecs.debezium.shared.defaults import schema_default
from relay.codecs.shared.lenient_json import REFUSED
from relay.model.events import Column, ColumnType, Generated
from relay.mysql.types import BINARIES, FLOATS, GEOMETRIES, INTEGERS, MAX_MEMBERS, is_type_name

Json = dict[str, Any]


class ConnectField(msgspec.Struct, frozen=True):
    """A column's Connect type: `type`, and `name` and `parameters` of a semantic type."""

    type: str
    name: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()


# ---------------------------------------------------------------- types

_PLAIN: Final = {
    "tinyint": ConnectField("int16"), "smallint": ConnectField("int16"), "mediumint": ConnectField("int32"),
    "int": ConnectField("int32"), "bigint": ConnectField("int64"), "float": ConnectField("float"),
    "double": ConnectField("double"), "decimal": ConnectField("double"),
    "date": ConnectField("int32", semantic_names.DATE),
    "time": ConnectField("int64", semantic_names.MICRO_TIME),
    "year": ConnectField("int32", semantic_names.YEAR),
    "timestamp": ConnectField("string", semantic_names.ZONED_TIMESTAMP),
    "json": ConnectField("string", semantic_names.JSON),
    "vector": ConnectField("string", semantic_names.TIDB_VECTOR),
}  # fmt: skip
_UNSIGNED: Final = {"smallint": ConnectField("int32"), "int": ConnectField("int64")}
_STRING: Final = ConnectField("string")


def ticdc_field(column_type: ColumnType) -> ConnectField:
    """Return a column's Connect type in TiCDC's dialect; BIT without its length is BIT(64)."""
    base, length = column_type.base, column_type.length
    if base == "datetime":
        return ConnectField(
            "int64",
            semantic_names.MICRO_TIMESTAMP if counts_micros(column_type) else semantic_names.TIMESTAMP,
        )
    if base == "bit":
        if length == 1:
            return ConnectField("boolean")
        return ConnectField("bytes", semantic_names.BITS, (("length", str(length or 64)),))
    if base in {"enum", "set"}:
        return _members_field(base, column_type.members)
    if base == "float" and column_type.scale is not None:
        return _PLAIN["double"]
    found = _UNSIGNED.get(base) if column_type.unsigned else None
    return found or _PLAIN.get(base, _STRING)


class AvroForms(msgspec.Struct, frozen=True):
    """The form of large numbers in TiCDC's Avro, which JSON and its readers may round: text, or exact."""

    has_decimal_text: bool = False
    has_bigint_text: bool = False


def avro_field(column_type: ColumnType, forms: AvroForms) -> ConnectField:
    """Return a column's Connect type in TiCDC's dialect of Avro; DECIMAL without its digits is text."""
    base = column_type.base
    if base == "decimal":
        if forms.has_decimal_text or column_type.length is None:
            return _STRING
        digits = ("precision", str(column_type.length)), ("scale", str(column_type.scale or 0))
        return ConnectField("bytes", semantic_names.DECIMAL, digits)
    if base == "bigint" and column_type.unsigned and forms.has_bigint_text:
        return _STRING
    if base in BINARIES or base in GEOMETRIES:
        return ConnectField("bytes")
    return ticdc_field(column_type)


def _members_field(base: str, members: tuple[str, ...] | None) -> ConnectField:
    """Return the field of ENUM or SET; without `allowed` if the members are unknown."""
    name = semantic_names.ENUM if base == "enum" else semantic_names.ENUM_SET
    if members is None:
        return ConnectField("string", name)
    allowed = escaped_members(members) if base == "enum" else ",".join(members)
    return ConnectField("string", name, (("allowed", allowed),))


def counts_micros(column_type: ColumnType) -> bool:
    """Return whether a DATETIME is counted in microseconds, not milliseconds; false if unknown."""
    return bool(column_type.has_micros) if column_type.length is None else column_type.length > 3


def has_open_digits(column: Column) -> bool:
    """Return whether only a DATETIME's text shows its column's number of fraction digits.

    This is so for a type without parameters in the row's own message (the nullability of such columns is
    unknown): look-alikes omit the digits there.
    """
    length = column.type.length
    is_declared = length or (length is not None and column.nullable is not None)
    return not is_declared and column.type.has_micros is None


def escaped_members(members: tuple[str, ...]) -> str:
    """Return ENUM's `allowed`: commas are escaped, quotes are not (pingcap/ticdc pkg/sink/codec/debezium)."""
    return ",".join(member.replace(",", "\\,").replace("\\'", "'").replace("''", "'") for member in members)


def split_members(allowed: str) -> tuple[str, ...]:
    """Return the members in `allowed` of an ENUM. Inverse of `escaped_members` where one exists."""
    return tuple(part.replace("\\,", ",") for part in _COMMA(allowed))


_COMMA: Final = re.compile(r"(?<!\\),").split


def tidb_type(column_type: ColumnType) -> str:
    """Return `tidb_type`, which the extension adds: the type's name, with `unsigned` for numbers."""
    is_signed_kind = column_type.base in INTEGERS or column_type.base in FLOATS
    return column_type.base + (" unsigned" if column_type.unsigned and is_signed_kind else "")


# ---------------------------------------------------------------- names


def schema_name(cluster: str, database: str, table: str) -> str:
    """Return a schema name, `cluster.database.table`: other characters become `_`, one precedes a digit."""
    return f"{_sanitised(cluster)}.{_sanitised(database)}.{_NO_TABLE.sub('_', table)}"


def watermark_name(cluster: str) -> str:
    """Return the first part of a watermark's schema names."""
    return f"{_sanitised(cluster)}.watermark"


_NO_NAME: Final = re.compile(r"[^A-Za-z0-9_]")
_NO_TABLE: Final = re.compile(r"[^A-Za-z0-9_.]")


def _sanitised(name: str) -> str:
    text = _NO_NAME.sub("_", name)
    return "_" + text if text[:1].isdigit() else text


# ---------------------------------------------------------------- blocks, written


def column_schema(
    column: Column,
    *,
    extension: bool,
    optional: bool,
    keeps_null: bool = False,
    avro: AvroForms | None = None,
) -> Json:
    """Return a column's entry in a block of TiCDC, with its order of members.

    `keeps_null`: an optional column has no `default`, which Kafka Connect's JsonConverter takes for NULL.
    `avro`: the block is for Avro, where no column has a default.
    """
    field = ticdc_field(column.type) if avro is None else avro_field(column.type, avro)
    entry: Json = {"tidb_type": tidb_type(column.type)} if extension else {}
    entry |= {"type": field.type, "optional": optional}
    if field.name is not None:
        entry["name"] = field.name
        if field.name not in {semantic_names.TIDB_VECTOR, semantic_names.DECIMAL}:
            entry["version"] = 1
    if field.parameters:
        entry["parameters"] = dict(field.parameters)
    entry["field"] = column.name
    has_none = avro is not None or (keeps_null and optional)
    default = None if has_none else schema_default(column)
    if default is not None:
        entry["default"] = default
    return entry


def column_schemas(
    columns: Sequence[Column],
    *,
    extension: bool,
    relaxed: Iterable[str] = (),
    keeps_null: bool = False,
    avro: AvroForms | None = None,
) -> list[Json]:
    """Return the columns of `before` and `after`, each once.

    Optional columns are nullable ones and those that a row may lack: virtual generated columns, which no row
    has, and the ones in `relaxed`.
    """
    may_be_absent = frozenset(relaxed)

    def is_optional(column: Column) -> bool:
        is_virtual = column.generated is Generated.VIRTUAL
        return column.nullable is not False or is_virtual or column.name in may_be_absent

    return [
        column_schema(
            column, extension=extension, optional=is_optional(column), keeps_null=keeps_null, avro=avro
        )
        for column in columns
    ]


def _plain(name: str, type_: str, *, optional: bool = False) -> Json:
    return {"type": type_, "optional": optional, "field": name}


_SNAPSHOT: Final[Json] = {
    "type": "string",
    "optional": True,
    "name": semantic_names.ENUM,
    "version": 1,
    "parameters": {"allowed": "true,last,false,incremental"},
    "default": "false",
    "field": "snapshot",
}
_SOURCE_FIELDS: Final[list[Json]] = [
    _plain("version", "string"),
    _plain("connector", "string"),
    _plain("name", "string"),
    _plain("ts_ms", "int64"),
    _SNAPSHOT,
    _plain("db", "string"),
    _plain("sequence", "string", optional=True),
    _plain("table", "string", optional=True),
    _plain("server_id", "int64"),
    _plain("gtid", "string", optional=True),
    _plain("file", "string"),
    _plain("pos", "int64"),
    _plain("row", "int32"),
    _plain("thread", "int64", optional=True),
    _plain("query", "string", optional=True),
]
_TIDB_FIELDS: Final = [_plain("commit_ts", "int64"), _plain("cluster_id", "string")]
_START_TS: Final = _plain("start_ts", "int64")
_TRANSACTION: Final[Json] = {
    "type": "struct",
    "fields": [
        _plain("id", "string"),
        _plain("total_order", "int64"),
        _plain("data_collection_order", "int64"),
    ],
    "optional": True,
    "name": "event.block",
    "version": 1,
    "field": "transaction",
}


def source_schema(*, extension: bool, start_ts: bool = False) -> Json:
    """Return the entry of `source`. TiCDC declares its own members, which are always present, only with the
    extension (since v26.3.3).
    """
    fields = _SOURCE_FIELDS + (_TIDB_FIELDS if extension else []) + ([_START_TS] if start_ts else [])
    return {
        "type": "struct",
        "fields": fields,
        "optional": False,
        "name": "io.debezium.connector.mysql.Source",
        "field": "source",
    }


def value_schema(prefix: str, columns: list[Json], source: Json) -> Json:
    """Return the block of a row's value."""
    image = {"type": "struct", "optional": True, "name": f"{prefix}.Value"}
    images = [image | {"field": field, "fields": columns} for field in ("before", "after")]
    return _envelope(prefix, [*images, source])


def _envelope(prefix: str, first: list[Json]) -> Json:
    fields = [*first, _plain("op", "string"), _plain("ts_ms", "int64", optional=True), _TRANSACTION]
    return {"type": "struct", "optional": False, "name": f"{prefix}.Envelope", "version": 1, "fields": fields}


def key_schema(prefix: str, columns: list[Json]) -> Json:
    """Return the block of a row's key."""
    return {"type": "struct", "name": f"{prefix}.Key", "optional": False, "fields": columns}


def watermark_schema(prefix: str, source: Json) -> Json:
    """Return the block of a watermark's value; its key has `key_schema` without columns."""
    return _envelope(prefix, [source])


# ---------------------------------------------------------------- blocks, read


class DeclaredColumn(msgspec.Struct, frozen=True):
    """A column in a block; members that it lacks are None."""

    field: str
    type: str
    optional: bool = True
    name: str | None = None
    parameters: dict[str, str] | None = None
    tidb_type: str | None = None
    default: Any = None


class _Part(msgspec.Struct):
    field: str | None = None
    fields: list[msgspec.Raw] | None = None


class _Block(msgspec.Struct):
    fields: list[_Part] | None = None


_decode_block = msgspec.json.Decoder(_Block | None).decode
_decode_part = msgspec.json.Decoder(_Part | None).decode
_decode_column = msgspec.json.Decoder(DeclaredColumn).decode


def read_block(data: bytes) -> dict[str, DeclaredColumn]:
    """Return the columns of a value's block, in its order, the first of each name; {} if it is unreadable."""
    try:
        block = _decode_block(data)
        parts = {part.field: part.fields for part in (block.fields if block else None) or ()}
        columns = [_decode_column(column) for column in parts.get("after") or parts.get("before") or ()]
    except REFUSED:
        return {}
    found: dict[str, DeclaredColumn] = {}
    for column in columns:
        found.setdefault(column.field, column)
    return found


def read_key_block(data: bytes) -> dict[str, DeclaredColumn]:
    """Return the columns of a key's block, by name; {} if it is unreadable."""
    try:
        part = _decode_part(data)
        columns = [_decode_column(column) for column in (part.fields if part else None) or ()]
    except REFUSED:
        return {}
    return {column.field: column for column in columns}


def agrees(column: Column, declared: DeclaredColumn) -> bool:
    """Return whether a block's column can be this column of the catalog."""
    if declared.name == semantic_names.DECIMAL:
        return inferred_type(declared) == ColumnType(
            column.type.base, length=column.type.length, scale=column.type.scale
        )
    field = ticdc_field(column.type)
    if field.type != declared.type or field.name != declared.name:
        return False
    if declared.tidb_type is not None and declared.tidb_type != tidb_type(column.type):
        return False
    parameters = declared.parameters or {}
    return all((parameters.get(name) or text) == text for name, text in field.parameters)


_NAMED: Final = {
    semantic_names.DATE: "date",
    semantic_names.YEAR: "year",
    semantic_names.MICRO_TIME: "time",
    semantic_names.ZONED_TIMESTAMP: "timestamp",
    semantic_names.JSON: "json",
    semantic_names.TIDB_VECTOR: "vector",
}
_TYPED: Final = {
    "boolean": ColumnType("bit", length=1), "int8": ColumnType("tinyint"), "int16": ColumnType("smallint"),
    "int32": ColumnType("int"), "int64": ColumnType("bigint"), "float": ColumnType("float"),
    "double": ColumnType("double"), "string": ColumnType("varchar"), "bytes": ColumnType("blob"),
}  # fmt: skip


#: Number of digits of each number in DECIMAL(65,30).
_DIGITS_LENGTH: Final = 4


def _decimal(length: str, scale: str) -> ColumnType:
    if length.isdecimal() and scale.isdecimal() and len(length + scale) <= _DIGITS_LENGTH:
        return ColumnType("decimal", length=int(length), scale=int(scale))
    return ColumnType("decimal")


def inferred_type(declared: DeclaredColumn) -> ColumnType:
    """Return the MySQL type of a block's column: by its semantic name, then `tidb_type`, then plain type.

    If there are more members than MySQL allows, it has none.
    """
    parameters = declared.parameters or {}
    if declared.name == semantic_names.BITS:
        length = parameters.get("length", "")
        is_length = length.isascii() and length.isdigit() and len(length) < 4
        return ColumnType("bit", length=int(length) if is_length else None)
    if declared.name == semantic_names.DECIMAL:
        return _decimal(parameters.get("precision", ""), parameters.get("scale", ""))
    allowed = parameters.get("allowed") or ""  # empty: the members are unknown
    if declared.name == semantic_names.ENUM:
        is_declared = allowed and allowed.count(",") - allowed.count("\\,") < MAX_MEMBERS["enum"]
        return ColumnType("enum", members=split_members(allowed) if is_declared else None)
    if declared.name == semantic_names.ENUM_SET:
        is_declared = allowed and allowed.count(",") < MAX_MEMBERS["set"]
        return ColumnType("set", members=tuple(allowed.split(",")) if is_declared else None)
    if declared.name in {semantic_names.TIMESTAMP, semantic_names.MICRO_TIMESTAMP}:
        return ColumnType("datetime", has_micros=declared.name == semantic_names.MICRO_TIMESTAMP)
    if declared.name in _NAMED:
        return ColumnType(_NAMED[declared.name or ""])
    return _of_plain(declared)


def _of_plain(declared: DeclaredColumn) -> ColumnType:
    if declared.tidb_type is not None:
        return _of_tidb(declared.tidb_type, declared.type)
    return _TYPED.get(declared.type, _TYPED["string"])


def has_scale(declared: DeclaredColumn) -> bool:
    """Return whether a column's bytes can be read as a number with the scale in its block, if any."""
    if (
        declared.name != semantic_names.DECIMAL
        or declared.type != "bytes"
        or "scale" not in (declared.parameters or {})
    ):
        return True
    return declared_scale(declared) is not None


def declared_scale(declared: DeclaredColumn) -> int | None:
    """Return the scale in a column's block, of up to three digits; None if it has none."""
    scale = (declared.parameters or {}).get("scale", "")
    return int(scale) if scale.isascii() and scale.isdigit() and len(scale) < 4 else None


def member_count(columns: Iterable[DeclaredColumn]) -> int:
    """Return the approximate number of members in their `allowed` together."""
    return sum((column.parameters or {}).get("allowed", "").count(",") for column in columns)


def _of_tidb(word: str, type_: str) -> ColumnType:
    base, _, suffix = word.partition(" ")
    length = 1 if base == "bit" and type_ == "boolean" else None
    found = ColumnType(base, unsigned=suffix == "unsigned", length=length)
    # FLOAT(M,D) is a `double`.
    is_of_type = ticdc_field(found).type == type_ or (base, type_) == ("float", "double")
    return found if is_of_type and is_type_name(base) else _TYPED.get(type_, _TYPED["string"])
