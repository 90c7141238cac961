"""Kafka Connect schemas of Debezium's MySQL connector 3.6, in the order in which JsonConverter prints them:
`type`, `fields` or `items`, `optional`, `name`, `version`, `doc`, `parameters`, `default`, `field`.

`field_of` returns the Connect type of a column with the options of a connector. Blocks consist of nodes,
encoded once per table version. Sources: debezium/debezium BinlogValueConverters, TableSchemaBuilder,
SchemaFactory, SchemaNameAdjuster (3.6); apache/kafka connect/json JsonConverter; records of 3.6.1.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final

import msgspec

from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.shared import semantic_names
from relay.model.events import Column, ColumnType
from relay.mysql.types import BINARIES, GEOMETRIES

Json = dict[str, Any]

#: Maximum digits of a DECIMAL in other databases.
MOST_DIGITS: Final = 38

# ---------------------------------------------------------------- nodes


def node(  # noqa: PLR0913 - the members of a node
    type_: str,
    *,
    optional: bool = False,
    name: str | None = None,
    version: int | None = None,
    doc: str | None = None,
    parameters: dict[str, str] | None = None,
    default: Any = None,  # noqa: ANN401 - any value of JSON
    field: str | None = None,
    **more: Any,  # noqa: ANN401 - `fields` or `items`
) -> Json:
    """Return a schema without the members that are None."""
    found: Json = {"type": type_, **more, "optional": optional}
    others = {
        "name": name,
        "version": version,
        "doc": doc,
        "parameters": parameters,
        "default": default,
        "field": field,
    }
    return found | {member: value for member, value in others.items() if value is not None}


class NativeField(msgspec.Struct, frozen=True):
    """A column's Connect type; `more` is `fields` of a struct, or `items` of an array."""

    type: str
    name: str | None = None
    parameters: tuple[tuple[str, str], ...] = ()
    doc: str | None = None
    more: tuple[tuple[str, Any], ...] = ()

    def node(self, column: Column, default: Any, doc: str | None = None) -> Json:  # noqa: ANN401 - any value of JSON
        """Return the schema of this column; `default` None: it has none. `doc`: its comment."""
        return node(
            self.type,
            optional=column.nullable is not False,
            name=self.name,
            version=None if self.name is None else 1,
            doc=doc or self.doc,
            parameters=dict(self.parameters) or None,
            default=default,
            field=column.name,
            **dict(self.more),
        )


# ---------------------------------------------------------------- types

STRING: Final = NativeField("string")
_BYTES: Final = NativeField("bytes")
_INT64: Final = NativeField("int64")
_PLAIN: Final = {
    "tinyint": NativeField("int16"), "smallint": NativeField("int16"), "mediumint": NativeField("int32"),
    "int": NativeField("int32"), "bigint": _INT64, "float": NativeField("float"),
    "double": NativeField("double"),
    "year": NativeField("int32", semantic_names.YEAR), "json": NativeField("string", semantic_names.JSON),
    "vector": NativeField("array", semantic_names.FLOAT_VECTOR, more=(("items", node("float")),)),
}  # fmt: skip
_UNSIGNED: Final = {"smallint": NativeField("int32"), "int": NativeField("int64")}
_WKB: Final = (
    node("bytes", field="wkb"),
    node("int32", optional=True, field="srid"),
)
_POINT: Final = NativeField(
    "struct",
    semantic_names.POINT,
    doc="Geometry (POINT)",
    more=(
        (
            "fields",
            [
                node("double", field="x"),
                node("double", field="y"),
                node("bytes", optional=True, field="wkb"),
                node("int32", optional=True, field="srid"),
            ],
        ),
    ),
)
_GEOMETRY: Final = NativeField(
    "struct", semantic_names.GEOMETRY, doc="Geometry", more=(("fields", list(_WKB)),)
)

_MODES: Final[dict[str, dict[str, NativeField]]] = {
    "adaptive_time_microseconds": {
        "date": NativeField("int32", semantic_names.DATE),
        "time": NativeField("int64", semantic_names.MICRO_TIME),
    },
    "connect": {
        "date": NativeField("int32", semantic_names.CONNECT_DATE),
        "time": NativeField("int32", semantic_names.CONNECT_TIME),
        "datetime": NativeField("int64", semantic_names.CONNECT_TIMESTAMP),
    },
    "isostring": {
        "date": NativeField("string", semantic_names.ISO_DATE),
        "time": NativeField("string", semantic_names.ISO_TIME),
        "datetime": NativeField("string", semantic_names.ISO_TIMESTAMP),
    },
    "microseconds": {
        "date": NativeField("int32", semantic_names.DATE),
        "time": NativeField("int64", semantic_names.MICRO_TIME),
        "datetime": NativeField("int64", semantic_names.MICRO_TIMESTAMP),
    },
    "nanoseconds": {
        "date": NativeField("int32", semantic_names.DATE),
        "time": NativeField("int64", semantic_names.NANO_TIME),
        "datetime": NativeField("int64", semantic_names.NANO_TIMESTAMP),
    },
}
#: Types with values that are no dates of the calendar.
DATES: Final = frozenset({"date", "datetime", "timestamp"})


def field_of(column_type: ColumnType, options: DebeziumOptions) -> NativeField:  # noqa: C901, PLR0911 - a dispatch
    """Return a column's Connect type. Facts missing from a type are assumed alike for all of its values."""
    base = column_type.base
    if is_text(base, options):
        return STRING
    if base == "vector" and options.vector == "text":
        return STRING
    if base in {"date", "time", "datetime"}:
        usual = semantic_names.MICRO_TIMESTAMP if counts_micros(column_type) else semantic_names.TIMESTAMP
        return _MODES[options.time_precision_mode].get(base) or NativeField("int64", usual)
    if base == "timestamp":
        return NativeField("string", semantic_names.ZONED_TIMESTAMP)
    if base == "decimal":
        return _decimal(column_type, options)
    if base == "bigint" and column_type.unsigned:
        return _unsigned(options)
    if base == "bit":
        return _bit(column_type.length, options)
    if base in {"enum", "set"}:
        return _members(base, column_type.members, options)
    if base in GEOMETRIES:
        return _POINT if base == "point" else _GEOMETRY
    if base in BINARIES:
        return _BYTES if options.binary_handling_mode == "bytes" else STRING
    if base == "float" and column_type.scale is not None:
        return _PLAIN["double"]
    found = _UNSIGNED.get(base) if column_type.unsigned else None
    return found or _PLAIN.get(base, STRING)


def is_text(base: str, options: DebeziumOptions) -> bool:
    """Return whether values of a date or time are MySQL's own text."""
    if base == "time":
        return options.temporal == "text" or options.time == "text"
    return base in DATES and (options.temporal == "text" or options.zero_dates == "text")


def counts_micros(column_type: ColumnType) -> bool:
    """Return whether a DATETIME is counted in microseconds, not milliseconds; true if unknown."""
    if column_type.length is None:
        return column_type.has_micros is not False
    return column_type.length > 3


def is_exact(column_type: ColumnType, options: DebeziumOptions) -> bool:
    """Return whether a DECIMAL is written as its unscaled number, which requires a known scale."""
    is_wide = options.wide_decimals == "text" and (column_type.length or 0) > MOST_DIGITS
    return options.decimal_handling_mode == "precise" and column_type.scale is not None and not is_wide


def _decimal(column_type: ColumnType, options: DebeziumOptions) -> NativeField:
    if is_exact(column_type, options):
        return exact(column_type.scale or 0, column_type.length)
    return _PLAIN["double"] if options.decimal_handling_mode == "double" else STRING


def exact(scale: int, precision: int | None) -> NativeField:
    """Return the type of exact decimals."""
    parameters = [("scale", str(scale))]
    if precision is not None:
        parameters.append(("connect.decimal.precision", str(precision)))
    return NativeField("bytes", semantic_names.DECIMAL, tuple(parameters))


_UNSIGNED64: Final = {"long": _INT64, "precise": exact(0, 20), "string": STRING}


def _unsigned(options: DebeziumOptions) -> NativeField:
    return _UNSIGNED64[options.bigint_unsigned_handling_mode]


def _bit(length: int | None, options: DebeziumOptions) -> NativeField:
    """Return the field of BIT; without its length it is BIT(64)."""
    if options.bit == "number":
        return _unsigned(options)
    if length == 1:
        return NativeField("boolean")
    return NativeField("bytes", semantic_names.BITS, (("length", str(length or 64)),))


def _members(base: str, members: tuple[str, ...] | None, options: DebeziumOptions) -> NativeField:
    """Return the field of ENUM or SET; a plain string if the members are unknown."""
    if members is None or options.enum_schema == "string":
        return STRING
    allowed = ",".join([member.replace("\\", "\\\\").replace(",", "\\,") for member in members])
    name = semantic_names.ENUM if base == "enum" else semantic_names.ENUM_SET
    return NativeField("string", name, (("allowed", allowed),))


# ---------------------------------------------------------------- names

_NO_TOPIC: Final = re.compile(r"[^A-Za-z0-9._-]")
_LONGEST_TOPIC: Final = 249


def table_name(prefix: str, database: str, table: str) -> str:
    """Return the first part of a table's schema names, which is also the name of its topic."""
    name = _NO_TOPIC.sub(lambda match: "_" * _units(match[0]), f"{prefix}.{database}.{table}")
    return name[:_LONGEST_TOPIC]


def _units(character: str) -> int:
    """Return the number of Java characters (UTF-16 units)."""
    return 2 if character > "\uffff" else 1


def _avro(kept: str) -> Callable[[str], str]:
    """Return the function that makes Avro names: other characters become `_`, one precedes a digit."""
    other = re.compile(f"[^{kept}]")

    def adjust(name: str) -> str:
        text = other.sub(lambda match: "_" * _units(match[0]), name)
        if text[:1].isdigit():
            return "_" + text
        return "_" + text[1:] if text[:1] == "." else text

    return adjust


def _avro_unicode(kept: str) -> Callable[[str], str]:
    """Return the function that makes Avro names: other characters, and `_`, become `_u` and a hex code."""
    first, other = re.compile("^[^A-Za-z]"), re.compile(f"[^{kept}]")

    def code(match: re.Match[str]) -> str:
        units = match[0].encode("utf-16-be", "surrogatepass")
        return "".join([_code(units[at] << 8 | units[at + 1]) for at in range(0, len(units), 2)])

    def adjust(name: str) -> str:
        return first.sub(code, name[:1]) + other.sub(code, name[1:])

    return adjust


def _code(unit: int) -> str:
    digits = f"{unit:x}"
    return "_u" + ("00" + digits if len(digits) <= 2 else digits)


def _unchanged(name: str) -> str:
    return name


#: Adjustments of schema names by `schema.name.adjustment.mode`, and of column names.
SCHEMA_NAMES: Final[dict[str, Callable[[str], str]]] = {
    "none": _unchanged,
    "avro": _avro("A-Za-z0-9_."),
    "avro_unicode": _avro_unicode("A-Za-z0-9."),
}
FIELD_NAMES: Final[dict[str, Callable[[str], str]]] = {
    "none": _unchanged,
    "avro": _avro("A-Za-z0-9_"),
    "avro_unicode": _avro_unicode("A-Za-z0-9"),
}

# ---------------------------------------------------------------- blocks

_SNAPSHOTS: Final = "true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"
SOURCE: Final[Json] = node(
    "struct",
    fields=[
        node("string", field="version"),
        node("string", field="connector"),
        node("string", field="name"),
        node("int64", field="ts_ms"),
        node(
            "string",
            optional=True,
            name=semantic_names.ENUM,
            version=1,
            parameters={"allowed": _SNAPSHOTS},
            default="false",
            field="snapshot",
        ),
        node("string", field="db"),
        node("string", optional=True, field="sequence"),
        node("int64", optional=True, field="ts_us"),
        node("int64", optional=True, field="ts_ns"),
        node("string", optional=True, field="table"),
        node("int64", field="server_id"),
        node("string", optional=True, field="gtid"),
        node("string", field="file"),
        node("int64", field="pos"),
        node("int32", field="row"),
        node("int64", optional=True, field="thread"),
        node("string", optional=True, field="query"),
    ],
    name="io.debezium.connector.mysql.Source",
    version=1,
    field="source",
)
_TRANSACTION: Final[Json] = node(
    "struct",
    fields=[
        node("string", field="id"),
        node("int64", field="total_order"),
        node("int64", field="data_collection_order"),
    ],
    optional=True,
    name="event.block",
    version=1,
    field="transaction",
)


def value_schema(prefix: str, columns: Sequence[Json], adjust: Callable[[str], str]) -> Json:
    """Return the schema of a row's value."""
    images = [
        node("struct", fields=columns, optional=True, name=adjust(f"{prefix}.Value"), field=image)
        for image in ("before", "after")
    ]
    others = [
        node("string", field="op"),
        *(node("int64", optional=True, field=time) for time in ("ts_ms", "ts_us", "ts_ns")),
    ]
    fields = [*images, SOURCE, _TRANSACTION, *others]
    return node("struct", fields=fields, name=adjust(f"{prefix}.Envelope"), version=2)


def key_schema(prefix: str, columns: Sequence[Json], adjust: Callable[[str], str]) -> Json:
    """Return the schema of a row's key."""
    return node("struct", fields=columns, name=adjust(f"{prefix}.Key"))


def _common(name: str, *fields: Json) -> Json:
    return node("struct", fields=fields, name=f"io.debezium.connector.common.{name}", version=1)


HEARTBEAT_KEY: Final = _common("ServerNameKey", node("string", field="serverName"))
HEARTBEAT: Final = _common("Heartbeat", node("int64", field="ts_ms"))
TRANSACTION_KEY: Final = _common("TransactionMetadataKey", node("string", field="id"))
_COLLECTION: Final = node(
    "struct",
    fields=[node("string", field="data_collection"), node("int64", field="event_count")],
    optional=True,
    name="event.collection",
    version=1,
)
TRANSACTION_VALUE: Final = _common(
    "TransactionMetadataValue",
    node("string", field="status"),
    node("string", field="id"),
    node("int64", optional=True, field="event_count"),
    node("array", items=_COLLECTION, optional=True, field="data_collections"),
    node("int64", field="ts_ms"),
)
