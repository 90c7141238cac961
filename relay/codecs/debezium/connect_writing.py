"""JSON of Kafka Connect (`{"schema", "payload"}`), written as the Avro that Connect's converters make of it.

Contract: a `ConnectWriter` is made for the schema of messages; `value` gives what `AvroSchema.write` takes
for a payload. Members and their order are those of AvroData with `connect.meta.data=true`. A schema that Avro
has no form for, and a payload that is not of its schema, is a ValueError. Source: confluentinc
schema-registry AvroData.fromConnectSchema (8.x); records of Debezium 3.6.1 with Apicurio's converter.
"""

from __future__ import annotations

import binascii
from collections.abc import Callable, Sequence
from typing import Any, Final

from relay.codecs.wire.avro import AvroSchema, compact, is_full_name, is_name

Json = dict[str, Any]
#: Makes of a JSON value what Avro has for it. Raises ValueError.
Convert = Callable[[Any], Any]

_DECIMAL: Final = "org.apache.kafka.connect.data.Decimal"
#: Avro's names of logical types, by those of Connect.
_LOGICAL: Final = {
    _DECIMAL: "decimal",
    "org.apache.kafka.connect.data.Date": "date",
    "org.apache.kafka.connect.data.Time": "time-millis",
    "org.apache.kafka.connect.data.Timestamp": "timestamp-millis",
}
_TYPES: Final = {
    "boolean": "boolean",
    "int8": "int",
    "int16": "int",
    "int32": "int",
    "int64": "long",
    "float": "float",
    "double": "double",
    "string": "string",
    "bytes": "bytes",
}
#: What AvroData writes for a decimal whose digits nobody has told.
_PRECISION: Final = 64
_NAMELESS: Final = "io.confluent.connect.avro.ConnectDefault"


class ConnectWriter:
    """The Avro of messages with one Connect schema. Raises ValueError, see the module.

    `record_name`: the full name of its record.
    """

    def __init__(self, schema: Json) -> None:
        self.record_name = schema.get("name") or _NAMELESS
        document, self.value = _Writing().type(schema, "")
        self.schema = AvroSchema(compact(document))


class _Writing:
    """One schema being made: the records that it has so far."""

    def __init__(self) -> None:
        self._records: dict[str, Convert] = {}

    def type(self, node: Json, namespace: str) -> tuple[Any, Convert]:
        """Return the Avro of a schema, and how its values become Avro."""
        document, convert, branch = self._present(node, namespace)
        if not node.get("optional"):
            return document, convert
        # A default must be of the first type.
        has_default = node.get("default") is not None
        union = [document, "null"] if has_default else ["null", document]
        return union, _optional(branch, convert)

    def _present(self, node: Json, namespace: str) -> tuple[Any, Convert, str]:
        """As `type`, of what is not optional; and the name of its branch in a union."""
        kind = node["type"]
        if kind == "struct":
            return self._record(node, namespace)
        if kind == "array":
            items, convert = self.type(node["items"], namespace)
            document = {"type": "array", "items": items}
            return _described(document, node), _list(convert), "array"
        if kind not in _TYPES:
            raise ValueError(f"has the type {kind}")
        avro = _TYPES[kind]
        described = _described({"type": avro}, node)
        return avro if len(described) == 1 else described, _CONVERTS[avro], avro

    def _record(self, node: Json, namespace: str) -> tuple[Any, Convert, str]:
        full = node.get("name") or _NAMELESS
        if not is_full_name(full):
            raise ValueError("has a name that Avro does not take (see schema.name.adjustment.mode)")
        around, _, name = full.rpartition(".")
        if full in self._records:
            return name if around == namespace else full, self._records[full], full
        self._records[full] = _unknown
        fields, converts = [], []
        for member in node["fields"]:
            document, convert = self.type(member, around)
            field: Json = {"name": member["field"], "type": document}
            if not is_name(field["name"]):
                raise ValueError("has a column name that Avro does not take (see field.name.adjustment.mode)")
            if member.get("default") is not None:
                field["default"] = _default(member)
            elif member.get("optional"):
                field["default"] = None
            fields.append(field)
            converts.append((field["name"], convert))
        document = {"type": "record", "name": name}
        if around != namespace:
            document["namespace"] = around
        document["fields"] = fields
        found = self._records[full] = _row(converts)
        return _described(document, node), found, full


def _unknown(_: Any) -> Any:  # noqa: ANN401 - any value
    raise ValueError("a record within itself")


def _described(document: Json, node: Json) -> Json:
    """Add what Connect says of a schema beyond Avro, as AvroData does, in its order."""
    name, kind, parameters = node.get("name"), node["type"], node.get("parameters")
    if name == _DECIMAL:
        told = parameters or {}
        document["scale"] = int(told.get("scale", 0))
        document["precision"] = int(told.get("connect.decimal.precision", _PRECISION))
    if node.get("doc") is not None:
        document["connect.doc"] = node["doc"]
    if node.get("version") is not None:
        document["connect.version"] = node["version"]
    if parameters:
        document["connect.parameters"] = parameters
    if node.get("default") is not None:
        document["connect.default"] = _default(node)
    if name is not None:
        document["connect.name"] = name
    if kind in {"int8", "int16"}:
        document["connect.type"] = kind
    if name in _LOGICAL:
        document["logicalType"] = _LOGICAL[name]
    return document


def _default(node: Json) -> Any:  # noqa: ANN401 - any JSON
    """A default as Avro's schemas have it: of bytes, a character for each."""
    default = node["default"]
    return _bytes(default).decode("latin-1") if node["type"] == "bytes" else default


# ---------------------------------------------------------------- values


def _optional(branch: str, convert: Convert) -> Convert:
    def of(value: Any) -> Any:  # noqa: ANN401 - any value
        return _NULL if value is None else (branch, convert(value))

    return of


_NULL: Final = ("null", None)


def _list(convert: Convert) -> Convert:
    return lambda values: [convert(value) for value in values]


def _row(converts: Sequence[tuple[str, Convert]]) -> Convert:
    def convert(row: Json) -> Json:
        if type(row) is not dict:
            raise ValueError("no object")
        find = row.get
        return {name: of_field(find(name)) for name, of_field in converts}

    return convert


def _bytes(text: str) -> bytes:
    return binascii.a2b_base64(text)


def _int(value: int) -> int:
    if type(value) is not int or not -(1 << 31) <= value < 1 << 31:
        raise ValueError("no number of 32 bits")
    return value


def _long(value: int) -> int:
    if type(value) is not int or not -(1 << 63) <= value < 1 << 63:
        raise ValueError("no number of 64 bits")
    return value


def _float(value: float | str) -> float:
    """A number, or JsonConverter's text of what is none."""
    if type(value) is bool:
        raise ValueError("no number")
    return float(value)


def _boolean(value: bool) -> bool:
    if type(value) is not bool:
        raise ValueError("no boolean")
    return value


def _string(value: str) -> str:
    if type(value) is not str:
        raise ValueError("no text")
    return value


_CONVERTS: Final[dict[str, Convert]] = {
    "boolean": _boolean,
    "int": _int,
    "long": _long,
    "float": _float,
    "double": _float,
    "string": _string,
    "bytes": _bytes,
}
