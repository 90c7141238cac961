"""The list of TiCDC Avro's edge cases, and short ways to write its messages and to read them."""

from __future__ import annotations

import itertools
import json
from typing import Any

from avro_support import avro_bytes
from edge_cases.support import EdgeCases
from fake_registry import MemoryRegistry

from relay import ConsumerRecord, Event, ProducerRecord, Resolver, RowChange, Translator
from relay.codecs.shared.avro import AvroSchema, framed
from relay.model.lookups import RegisteredSchema

CASES = EdgeCases("ticdc-avro", "TiCDC Avro")
AVRO = "ticdc-avro"
EXTENSION = {"enable-tidb-extension": "true"}
CONTROL = {**EXTENSION, "avro-enable-watermark": "true"}
COMMIT_TS = 447_984_084_414_103_554
_OFFSETS = itertools.count(1)
ADDED = [
    {"default": "", "name": "_tidb_op", "type": "string"},
    {"default": 0, "name": "_tidb_commit_ts", "type": "long"},
    {"default": 0, "name": "_tidb_commit_physical_time", "type": "long"},
]


def typed(tidb_type: str, avro: str, parameters: dict[str, str] | None = None, **more: Any) -> dict[str, Any]:
    """The schema of a column's values."""
    return {"type": avro, "connect.parameters": {**(parameters or {}), "tidb_type": tidb_type}, **more}


INT = typed("INT", "int")


def schema(*fields: tuple[str, Any], added: list[Any] | None = None, table: str = "t") -> str:
    """The schema of rows of `d.t`, with these columns."""
    columns = [{"name": name, "type": type_} for name, type_ in fields]
    return json.dumps(
        {"type": "record", "name": table, "namespace": "default.d", "fields": [*columns, *(added or [])]}
    )


class Avro:
    """A route with registries on both sides."""

    def __init__(
        self,
        source: str = AVRO,
        target: str = AVRO,
        reading: dict[str, str] | None = None,
        writing: dict[str, str] | None = None,
    ) -> None:
        self.source, self.target = MemoryRegistry(), MemoryRegistry()
        self.kinds: dict[int, str] = {}
        self.translator = Translator(source, target, reading, writing)
        self._resolver = Resolver(registries={"source": self, "target": self.target})

    def schema(self, id: int | str) -> RegisteredSchema:
        found = self.source.schema(id)
        return RegisteredSchema(found.text, self.kinds.get(int(id), "AVRO"))

    def id_of(self, subject: str, schema: RegisteredSchema) -> int:
        return self.source.id_of(subject, schema)

    def part(self, text: str, value: Any) -> bytes:
        """A key or a value with its schema, as a producer writes it."""
        return framed(self.source.fake.add("any", text), avro_bytes(text, value))

    def read(self, key: bytes | None, value: bytes | None, **more: Any) -> list[Event]:
        return self._resolver.inspect(self.translator, record(key, value, **more))

    def row(self, key: bytes | None, value: bytes | None, **more: Any) -> RowChange:
        (found,) = self.read(key, value, **more)
        assert isinstance(found, RowChange)
        return found

    def write(self, given: ConsumerRecord) -> list[ProducerRecord]:
        return self._resolver.translate(self.translator, given)

    def written(self, data: bytes | None) -> Any:
        """A part that was written, as a dict."""
        assert data is not None
        text = self.target.schema(int.from_bytes(data[1:5], "big")).text
        return AvroSchema(text).read(AVRO, "value", data[5:])

    def fields(self, data: bytes | None) -> dict[str, Any]:
        """The fields of a written part's schema, by name."""
        assert data is not None
        document = json.loads(self.target.schema(int.from_bytes(data[1:5], "big")).text)
        return {field["name"]: field for field in document["fields"]}

    @property
    def counted(self) -> set[str]:
        return {what.value for what in self.translator.losses}


def record(key: bytes | None, value: bytes | None, topic: str = "topic", **more: Any) -> ConsumerRecord:
    return ConsumerRecord(topic, 0, next(_OFFSETS), 1_708_923_661_858, key, value, more.get("headers", ()))
