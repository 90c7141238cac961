"""Writing Kafka Connect's JSON (`{"schema", "payload"}`) as the Avro that Connect's converters make of it.

A `ConnectWriter` is made for the schema of messages; `write` returns the Avro of a payload. Members and their
order are those of AvroData with `connect.meta.data=true`. Raises ValueError for a schema without an Avro
equivalent, and for a payload that does not match its schema. Source: confluentinc schema-registry
AvroData.fromConnectSchema (8.x); records of Debezium 3.6.1 with Apicurio's converter.
"""

from __future__ import annotations

import binascii
from typing import Any, Final

from relay.codecs.debezium.shared import semantic_names
from relay.codecs.shared.avro import AvroSchema, compact, is_full_name, is_name
from relay.codecs.shared.avro_writing import FIRST, SECOND, WRITES, Maker, Write, array, record, written

Json = dict[str, Any]

#: Avro's names of logical types, by those of Connect.
_LOGICAL: Final = {
    semantic_names.DECIMAL: "decimal",
    semantic_names.CONNECT_DATE: "date",
    semantic_names.CONNECT_TIME: "time-millis",
    semantic_names.CONNECT_TIMESTAMP: "timestamp-millis",
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
#: Precision that AvroData writes for a decimal of unknown precision.
_PRECISION: Final = 64
_NAMELESS: Final = "io.confluent.connect.avro.ConnectDefault"


class ConnectWriter:
    """Writes messages with one Connect schema as Avro. Raises ValueError; see the module.

    `record_name`: the full name of its record.
    """

    def __init__(self, schema: Json) -> None:
        self.record_name = schema.get("name") or _NAMELESS
        document, self._write = _Writing().type(schema, "")
        self.schema = AvroSchema(compact(document))

    def write(self, payload: Any) -> bytes:  # noqa: ANN401 - any JSON
        """Return the Avro of a payload. Raises ValueError and TypeError."""
        return written(self._write, payload)


class _Writing:
    """A schema in the making: the records that it has so far."""

    def __init__(self) -> None:
        self._records: dict[str, Maker] = {}

    def type(self, node: Json, namespace: str) -> tuple[Any, Write]:
        """Return the Avro of a schema, and the function that writes its values."""
        document, make = self._present(node, namespace)
        if not node.get("optional"):
            return document, make(b"", None)
        # A default must have the first type of the union.
        if node.get("default") is not None:
            return [document, "null"], make(FIRST, SECOND)
        return ["null", document], make(SECOND, FIRST)

    def _present(self, node: Json, namespace: str) -> tuple[Any, Maker]:
        """Return the same as `type` for a schema that is not optional, with the maker of its writer."""
        kind = node["type"]
        if kind == "struct":
            return self._record(node, namespace)
        if kind == "array":
            items, write = self.type(node["items"], namespace)
            document = {"type": "array", "items": items}
            return _described(document, node), array(write)
        if kind not in _TYPES:
            raise ValueError(f"has the type {kind}")
        avro = _TYPES[kind]
        described = _described({"type": avro}, node)
        return avro if len(described) == 1 else described, WRITES[avro]

    def _record(self, node: Json, namespace: str) -> tuple[Any, Maker]:
        full = node.get("name") or _NAMELESS
        if not is_full_name(full):
            raise ValueError("has a name that Avro does not take (see schema.name.adjustment.mode)")
        around, _, name = full.rpartition(".")
        if full in self._records:
            return name if around == namespace else full, self._records[full]
        self._records[full] = _unknown
        fields, writes = [], []
        for member in node["fields"]:
            document, write = self.type(member, around)
            field: Json = {"name": member["field"], "type": document}
            if not is_name(field["name"]):
                raise ValueError("has a column name that Avro does not take (see field.name.adjustment.mode)")
            if member.get("default") is not None:
                field["default"] = _default(member)
            elif member.get("optional"):
                field["default"] = None
            fields.append(field)
            writes.append((field["name"], write))
        document = {"type": "record", "name": name}
        if around != namespace:
            document["namespace"] = around
        document["fields"] = fields
        found = self._records[full] = record(writes)
        return _described(document, node), found


def _unknown(_head: bytes, _null: bytes | None) -> Write:
    raise ValueError("has a record within itself")


def _described(document: Json, node: Json) -> Json:
    """Add the facts of a Connect schema beyond Avro, in AvroData's form and order."""
    name, kind, parameters = node.get("name"), node["type"], node.get("parameters")
    if name == semantic_names.DECIMAL:
        given = parameters or {}
        document["scale"] = int(given.get("scale", 0))
        document["precision"] = int(given.get("connect.decimal.precision", _PRECISION))
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
    """Return a default as Avro schemas have it: bytes as one character each."""
    default = node["default"]
    return binascii.a2b_base64(default).decode("latin-1") if node["type"] == "bytes" else default
