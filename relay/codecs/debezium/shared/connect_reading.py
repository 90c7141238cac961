"""Reading Avro as written by Kafka Connect's converters, converted to the JSON that JsonConverter would
write.

A `ConnectReader` is made for a schema; `json` returns one of its values as `{"schema", "payload"}`. Facts of
a Connect schema that Avro cannot express are in attributes (`connect.name`). Logical types without one count,
too. A schema without a Connect equivalent is a ValueError. Source: confluentinc schema-registry AvroData
(8.x); apache/kafka connect/json JsonConverter.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from relay.codecs.debezium.shared import semantic_names
from relay.codecs.shared.avro_opening import EngineSchema
from relay.codecs.shared.base64_text import base64_text
from relay.model.avro_types import AvroField, AvroType
from relay.templates.avro_ops import AvroOp, Fixed, Items, Plain, PlainKind, Record, Symbols, Union

Json = dict[str, Any]
#: Converts a value to its JSON form.
Convert = Callable[[Any], Any]

_TYPES: Final = {
    "boolean": "boolean",
    "int": "int32",
    "long": "int64",
    "float": "float",
    "double": "double",
    "string": "string",
    "enum": "string",
    "bytes": "bytes",
    "fixed": "bytes",
}
_NARROW: Final = frozenset({"int8", "int16"})
#: Connect's names of logical types, by those of Avro.
_LOGICAL: Final = {
    ("bytes", "decimal"): semantic_names.DECIMAL,
    ("fixed", "decimal"): semantic_names.DECIMAL,
    ("int", "date"): semantic_names.CONNECT_DATE,
    ("int", "time-millis"): semantic_names.CONNECT_TIME,
    ("long", "timestamp-millis"): semantic_names.CONNECT_TIMESTAMP,
}
#: Names that AvroData assigns to unnamed structs.
_NAMELESS: Final = "io.confluent.connect.avro.ConnectDefault"
_to_json: Final = msgspec.json.Encoder().encode
_END: Final = b"}"


class ConnectReader:
    """Values of one schema as JSON with their Connect schema. Raises ValueError; see the module."""

    def __init__(self, type_: AvroType) -> None:
        node, self._convert = _read(type_)
        self.is_struct = node["type"] == "struct"
        self._type = type_
        self._head = b'{"schema":%b,"payload":' % _to_json(node)

    def readable(self) -> EngineSchema | None:
        """Return the same schema for an engine; see `engine_schema`."""
        return engine_schema(self._head, self._type, _END)

    def json(self, value: Any) -> bytes:  # noqa: ANN401 - a value of the schema
        """Return the message that JsonConverter would have written."""
        if self._convert is not None:
            value = self._convert(value)
        return self._head + _to_json(value) + _END


class MapFound(Exception):
    """There is a map in a schema."""


def engine_schema(head: bytes, type_: AvroType, end: bytes) -> EngineSchema | None:
    """Return a schema for an engine. None if it contains maps, whose names may repeat, or is too large, as an
    engine shares no parts between schemas.
    """
    size = _op_size(type_, {})
    if size > _MOST_OPS:
        return None
    try:
        return EngineSchema(head, text_op(type_), end, size)
    except MapFound:
        return None


#: About 100 bytes each.
_MOST_OPS: Final = 50_000


def _op_size(type_: AvroType, known: dict[AvroType, int]) -> int:
    """Return the number of ops and symbols that an engine needs for a type."""
    found = known.get(type_)
    if found is None:
        parts = [*type_.branches, *(field.type for field in type_.fields)]
        if type_.items is not None:
            parts.append(type_.items)
        found = known[type_] = 1 + len(type_.symbols) + sum(_op_size(part, known) for part in parts)
    return found


def text_op(type_: AvroType) -> AvroOp:
    """Return the op that converts a type's values to JSON in an engine. Raises MapFound."""
    kind = type_.kind
    if kind == "union":
        return Union(tuple(map(text_op, type_.branches)))
    if kind == "record":
        return Record(tuple([(_to_json(_name(field)) + b":", text_op(field.type)) for field in type_.fields]))
    if kind == "enum":
        return Symbols(tuple(map(_to_json, type_.symbols)))
    if kind == "fixed":
        return Fixed(type_.size)
    if kind == "map":
        raise MapFound
    if type_.items is not None:
        return Items(text_op(type_.items))
    return Plain(cast("PlainKind", kind))


def _read(type_: AvroType) -> tuple[Json, Convert | None]:
    """Return a type's Connect schema, and the function from its values to JSON; None if they are the same."""
    present = type_
    if type_.kind == "union":
        present = type_.branches[0] if len(type_.branches) == 1 else type_.present
        if present is type_ or present.kind == "null":
            raise ValueError("has a union of more than null and one type")
    node, convert = _present(present)
    node["optional"] = type_.is_optional
    return node, _or_null(convert) if type_.is_optional else convert


def _or_null(convert: Convert | None) -> Convert | None:
    if convert is None:
        return None
    return lambda value: None if value is None else convert(value)


def _present(type_: AvroType) -> tuple[Json, Convert | None]:
    """Return the same as `_read`, for a type that is not a union."""
    kind, attributes = type_.kind, type_.attributes
    convert: Convert | None = None
    if kind == "record":
        node, convert = _struct(type_)
    elif type_.items is not None:
        items, of_item = _read(type_.items)
        if kind == "array":
            node = {"type": "array", "items": items}
        else:
            node = {"type": "map", "keys": {"type": "string", "optional": False}, "values": items}
        if of_item is not None:
            convert = _each(of_item) if kind == "array" else _each_member(of_item)
    elif kind in _TYPES:
        narrow = attributes.get("connect.type")
        node = {"type": narrow if kind == "int" and narrow in _NARROW else _TYPES[kind]}
        convert = _number if kind in {"float", "double"} else None
    else:
        raise ValueError(f"has the type {kind} alone")
    _describe(node, type_)
    return node, convert


def _describe(node: Json, type_: AvroType) -> None:
    """Add the facts in a type's attributes."""
    attributes, kind = type_.attributes, type_.kind
    name = attributes.get("connect.name")
    logical = attributes.get("logicalType")
    if name is None and kind == "record" and not type_.name.startswith(_NAMELESS):
        name = type_.name
    parameters = attributes.get("connect.parameters")
    if isinstance(logical, str) and (kind, logical) in _LOGICAL:
        name = _LOGICAL[kind, logical] if name is None else name
        if logical == "decimal":
            scale = {"scale": attributes.get("scale", 0)}
            parameters = scale | parameters if isinstance(parameters, dict) else scale
    if isinstance(name, str):
        node["name"] = name
    if isinstance(attributes.get("connect.version"), int):
        node["version"] = attributes["connect.version"]
    if isinstance(attributes.get("connect.doc"), str):
        node["doc"] = attributes["connect.doc"]
    if isinstance(parameters, dict):
        node["parameters"] = {name: str(value) for name, value in parameters.items()}
    if "connect.default" in attributes:
        _add_default(node, attributes["connect.default"])


def _struct(type_: AvroType) -> tuple[Json, Convert | None]:
    nodes, converts, names = [], {}, {}
    for field in type_.fields:
        node, convert = _read(field.type)
        name = _name(field)
        if "default" in field.attributes and "default" not in node:
            _add_default(node, field.attributes["default"])
        if isinstance(field.attributes.get("tidb_type"), str):
            node["tidb_type"] = field.attributes["tidb_type"]
        nodes.append({**node, "field": name})
        names[field.name] = name
        if convert is not None:
            converts[field.name] = convert
    renamed = names if any(name != other for name, other in names.items()) else None
    if renamed is not None and len(set(renamed.values())) < len(renamed):
        raise ValueError("has two fields of one name")
    return {"type": "struct", "fields": nodes}, _row(tuple(converts.items()), renamed)


def _name(field: AvroField) -> str:
    """Return a field's name before it was adapted to Avro, if the producer has it."""
    attributes = field.attributes.get("connect.field")
    return attributes if isinstance(attributes, str) else field.name


def _row(converts: Sequence[tuple[str, Convert]], names: dict[str, str] | None) -> Convert | None:
    """Return the function from a record to an object: these fields converted, all under these names."""
    if not converts and names is None:
        return None

    def convert(row: Json) -> Json:
        for name, of_field in converts:
            row[name] = of_field(row[name])
        if names is None:
            return row
        return {names[name]: value for name, value in row.items()}

    return convert


def _each(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _each_member(convert: Convert) -> Convert:
    return lambda members: {name: convert(value) for name, value in members.items()}


def _number(value: float) -> float | str:
    """Return a float unchanged; NaN and infinities as JsonConverter's text."""
    if value - value == 0:
        return value
    if value != value:  # noqa: PLR0124 - NaN alone differs from itself
        return "NaN"
    return "Infinity" if value > 0 else "-Infinity"


def _add_default(node: Json, default: Any) -> None:  # noqa: ANN401 - any JSON
    """Add a column's default in JsonConverter's form. A struct's default is ignored."""
    if default is None or isinstance(default, dict | list):
        return
    if node["type"] == "bytes":
        try:
            default = base64_text(default.encode("latin-1"))
        except (AttributeError, UnicodeEncodeError):
            return
    node["default"] = default
