"""The registry of toy lines: a folder, or the memory of this process, which also has the schemas of relay's own
protocols in tests that name no registry. The same schema always has the same id.
"""

from __future__ import annotations

import zlib
from pathlib import Path
from typing import Any

import msgspec

from relay.io.resolver import Fetch
from relay.model.errors import NeedUnanswered, StorageUnavailable
from relay.model.lookups import Need, RegisteredSchema, SchemaById, SchemaId

#: Registries that are this memory.
_IN_MEMORY = {"", "source", "target"}
_MEMORY: dict[int, RegisteredSchema] = {}


def schema_by_id(need: SchemaById) -> RegisteredSchema:
    """Find a schema. Raises NeedUnanswered, StorageUnavailable."""
    try:
        if need.registry in _IN_MEMORY:
            return _MEMORY[int(need.id)]
        text = (Path(need.registry) / f"{need.id}.json").read_bytes()
        return msgspec.json.decode(text, type=RegisteredSchema)
    except (KeyError, ValueError, FileNotFoundError) as error:
        raise NeedUnanswered(f"the registry does not know {need.what()}") from error
    except OSError as error:
        raise StorageUnavailable(f"the registry cannot be read: {type(error).__name__}") from error


def schema_id(need: SchemaId) -> int:
    """Register a schema: equal ones have one id. Raises StorageUnavailable."""
    text = msgspec.json.encode(need.schema)
    number = zlib.crc32(text) >> 1 | 1
    if need.registry in _IN_MEMORY:
        _MEMORY[number] = need.schema
        return number
    try:
        Path(need.registry).mkdir(parents=True, exist_ok=True)
        (Path(need.registry) / f"{number}.json").write_bytes(text)
    except OSError as error:
        raise StorageUnavailable(f"the registry cannot be written: {type(error).__name__}") from error
    return number


def remember(id: int, schema: RegisteredSchema) -> None:
    """Put a schema into the memory under an id, as a producer's registry has it."""
    assert _MEMORY.setdefault(id, schema) == schema, f"another captured schema has id {id}"


FETCHES: dict[type[Need[Any]], Fetch] = {SchemaById: schema_by_id, SchemaId: schema_id}
