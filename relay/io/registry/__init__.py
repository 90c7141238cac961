"""Schema registries, which return the schemas that Avro messages refer to by id.

`SchemaRegistry` is a client over HTTP, `SchemaFile` a registry in a file, `SchemaList` one in memory. All
answer needs through `relay.io.resolver.Resolver`. All calls block.
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
