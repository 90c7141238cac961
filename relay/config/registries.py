"""The schema registries of a configuration, and the resolver that uses them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from pydantic import SecretStr, ValidationError

from relay.codecs import codec_named
from relay.config.config import Config
from relay.config.keys import SchemaRegistryConfig as Table
from relay.config.keys import TargetSchemaRegistry
from relay.config.overrides import BETWEEN, PREFIX
from relay.io.registry import RETRIES, RegistrySettings, SchemaRegistry, registry_problems
from relay.io.resolver import Registry, Resolver
from relay.model.errors import ConfigError, Problem


def registry_settings(table: Table, side: str) -> RegistrySettings:
    """Convert a table `[….schema_registry]`; `side` is `source` or `target`."""
    values: dict[str, Any] = {
        key: value.get_secret_value() if isinstance(value, SecretStr) else value
        for key, value in dict(table).items()
        if key != "allow_http"
    }
    return RegistrySettings(table=f"{side}.schema_registry", **values)


def _tables(config: Config) -> dict[str, Table]:
    """Return the configured registries, by side."""
    tables = {"source": config.source.schema_registry, "target": config.target.schema_registry}
    return {side: table for side, table in tables.items() if table.urls}


def resolver_of(config: Config, *, retries: int = RETRIES) -> Resolver:
    """Return the resolver for the needs of a route. `retries`: how often a registry is asked again at once.

    Raises ConfigError for files of a registry that cannot be used.
    """
    registries: dict[str, Registry] = {}
    problems: list[Problem] = []
    for side, table in _tables(config).items():
        try:
            registries[side] = SchemaRegistry(registry_settings(table, side), retries=retries)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return Resolver(registries=registries)


def config_registry_problems(config: Config) -> Iterator[Problem]:
    """Find registries that a route needs and lacks, and invalid addresses."""
    tables = _tables(config)
    for side, name, path in (("source", config.route.from_, "from"), ("target", config.route.to, "to")):
        if side in tables:
            table = tables[side]
            yield from registry_problems(registry_settings(table, side), allow_http=table.allow_http)
        elif _uses_registry(name, path):
            message = f"is missing: {name} has its schemas in a schema registry"
            yield Problem(f"{side}.schema_registry.urls", message, 'such as ["https://registry:8081"]')


def _uses_registry(name: str, path: str) -> bool:
    try:
        return codec_named(name, path).uses_registry
    except ConfigError:  # reported as such
        return False


def registry_at(url: str, side: str, key_path: str, environment: Mapping[str, str]) -> SchemaRegistry:
    """Return the registry at a URL. Raises ConfigError.

    Its other settings are in the environment, under the names of the configuration
    (`RELAY_SOURCE__SCHEMA_REGISTRY__PASSWORD`).
    """
    start = BETWEEN.join((PREFIX + side.upper(), "SCHEMA_REGISTRY", ""))
    given: dict[str, Any] = {
        name.removeprefix(start).lower(): value
        for name, value in environment.items()
        if name.startswith(start)
    }
    kind = TargetSchemaRegistry if side == "target" else Table
    try:
        table = kind.model_validate({**given, "urls": [url]})
    except ValidationError as error:
        problems = [
            Problem(start + "__".join(map(str, each["loc"])).upper(), each["msg"])
            for each in error.errors(include_input=False)
        ]
        raise ConfigError(problems) from None
    settings = registry_settings(table, side)
    if found := registry_problems(settings, allow_http=table.allow_http):
        raise ConfigError([problem._replace(path=key_path) for problem in found])
    return SchemaRegistry(settings)
