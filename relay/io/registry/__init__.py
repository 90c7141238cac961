"""Schema registries: who knows the schemas that Avro messages name by an id.

Contract: a `SchemaRegistry` asks one over HTTP, a `SchemaFile` is one in a file, a `SchemaList` one in
memory. All answer needs through `relay.io.resolver.Resolver`. All calls block.
"""

from relay.io.registry.client import RETRIES, SchemaRegistry, registry_problems
from relay.io.registry.schema_file import SchemaFile, SchemaLine, SchemaList
from relay.io.registry.settings import RegistrySettings

__all__ = [
    "RETRIES",
    "RegistrySettings",
    "SchemaFile",
    "SchemaLine",
    "SchemaList",
    "SchemaRegistry",
    "registry_problems",
]
