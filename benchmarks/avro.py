"""Messages in Avro: a registry in memory, and what fastavro alone makes of them, as one would use it: with
the schemas that are registered, or the one that is part of TiCDC (Simple), logical types included, and values
as it reads them.
"""

from __future__ import annotations

import io
import json
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import fastavro

from relay.io.resolver import Resolver
from relay.model.lookups import RegisteredSchema

# The schema of TiCDC Simple is one of the tests' modules.
sys.path.insert(0, str(Path(__file__).parent.parent / "tests"))
import simple_avro_schema

_PREFIX_BYTES = 5
#: The first byte of a message with a registered schema, and of one of Simple.
_REGISTERED, _SIMPLE = 0x00, 0x16


def is_avro(data: bytes) -> bool:
    """Return whether a key or a value is in Avro."""
    return data[0] in {_REGISTERED, _SIMPLE}


class Registry:
    """A `relay.io.resolver.Registry` of this process: the same schema has one id in all subjects."""

    def __init__(self) -> None:
        self._schemas: dict[int, RegisteredSchema] = {}
        self._ids: dict[RegisteredSchema, int] = {}
        self._parsed: dict[int, Any] = {}

    def load(self, folder: Path) -> None:
        """Take the schemas that a producer registered for its messages in a folder, under their ids."""
        path = folder / "schemas.ndjson"
        if path.exists():
            for line in path.read_text(encoding="utf-8").splitlines():
                found = json.loads(line)
                self._schemas[found["id"]] = RegisteredSchema(found["schema"])

    def schema(self, id: int | str) -> RegisteredSchema:
        """Return the schema of an id."""
        return self._schemas[int(id)]

    def id_of(self, _: str, schema: RegisteredSchema) -> int:
        """Return the id of a schema."""
        id = self._ids.setdefault(schema, len(self._ids) + 1)
        self._schemas[id] = schema
        return id

    def parsed(self, data: bytes) -> Any:
        """Return the schema of a message as fastavro has it."""
        id = int.from_bytes(data[1:_PREFIX_BYTES], "big")
        if id not in self._parsed:
            self._parsed[id] = fastavro.parse_schema(json.loads(self._schemas[id].text))
        return self._parsed[id]


#: The only one: ids of producers are far from those that are given here.
REGISTRY = Registry()
RESOLVER = Resolver(registries={"source": REGISTRY, "target": REGISTRY})


def _parts(data: bytes) -> tuple[Any, bytes]:
    """Return the schema of a message as fastavro has it, and its Avro."""
    if data[0] == _SIMPLE:
        return simple_avro_schema.SCHEMA, data
    return REGISTRY.parsed(data), data[_PREFIX_BYTES:]


def reading(data: bytes) -> Callable[[], Any]:
    """Return what reads a message."""
    schema, body = _parts(data)
    reader, file = fastavro.schemaless_reader, io.BytesIO
    return lambda: reader(file(body), schema, None)


def writing(data: bytes) -> Callable[[], object]:
    """Return what writes a message whose value is known."""
    (schema, _), value = _parts(data), reading(data)()
    writer, new_file = fastavro.schemaless_writer, io.BytesIO

    def write() -> bytes:
        file = new_file()
        writer(file, schema, value)
        return file.getvalue()

    return write
