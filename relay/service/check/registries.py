"""Check a route's schema registries for `relay check --connect`, without registering anything.

To test whether schemas may be registered, the check sends an existing schema to its own subject again, which
changes nothing where registering is allowed.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

from relay.config import Config
from relay.config.registries import registry_settings
from relay.io.registry import RegistrySettings, SchemaRegistry
from relay.model.errors import ConfigError, RelayError, SchemaRefused, ServiceError
from relay.service.check.findings import CheckState, Finding
from relay.service.check.subjects import subject_patterns

#: Compatibility rules under which a registry may refuse a table's schema after DDL.
_STRICT: Final = ("BACKWARD", "FORWARD", "FULL")
#: Maximum number of subjects whose rule is requested; topics by table may have thousands.
_MOST_SUBJECTS: Final = 50


def registry_findings(config: Config) -> list[Finding]:
    """Query the registries of a configuration; blocks. Returns at least one finding for each."""
    found: list[Finding] = []
    for side, table in (("source", config.source.schema_registry), ("target", config.target.schema_registry)):
        if table.urls:
            found += _of_one(registry_settings(table, side), side, config)
    return found


def _of_one(settings: RegistrySettings, side: str, config: Config) -> Iterator[Finding]:
    subject = f"{side} schema registry {settings.shown}"
    try:
        registry = SchemaRegistry(settings, retries=0)
        subjects = registry.subjects()
    except ConfigError as error:
        for problem in error.problems:
            yield Finding(CheckState.FAILED, subject, str(problem))
        return
    except ServiceError as error:
        yield Finding(CheckState.FAILED, subject, str(error))
        return
    count = len(subjects)
    yield Finding(CheckState.OK, subject, f"answers, {count} subject{'s'[: count != 1]}")
    if side == "target":
        patterns = subject_patterns(config)
        known = [name for name in subjects if any(pattern.fullmatch(name) for pattern in patterns)]
        yield from _target(registry, settings, known[:_MOST_SUBJECTS], subject)


def _target(
    registry: SchemaRegistry, settings: RegistrySettings, known: Sequence[str], subject: str
) -> Iterator[Finding]:
    """Yield findings about the route's existing subjects."""
    if not settings.register_schemas:
        text = "register_schemas = false: each schema must be registered before its first row"
        yield Finding(CheckState.NOTE, subject, text)
    elif not known:
        text = "unknown whether schemas may be registered: no subject is known to belong to this route"
        yield Finding(CheckState.UNTESTED, subject, text)
    else:
        yield _may_register(registry, known[0], subject)
    levels: dict[str, list[str]] = {}
    for name in known:
        try:
            level = registry.compatibility(name)
        except RelayError:
            continue
        if level is not None and level.startswith(_STRICT):
            levels.setdefault(level, []).append(name)
    for level, names in levels.items():
        text = (
            f"compatibility of {', '.join(names)} is {level}: the registry would refuse some changes of "
            "tables, and relay would stop at them; NONE accepts all of them"
        )
        yield Finding(CheckState.NOTE, subject, text)


def _may_register(registry: SchemaRegistry, name: str, subject: str) -> Finding:
    try:
        registry.register_again(name)
    except SchemaRefused as error:
        return Finding(CheckState.FAILED, subject, f"registering is not allowed: {error}")
    except ServiceError as error:
        return Finding(CheckState.UNTESTED, subject, f"unknown whether schemas may be registered: {error}")
    return Finding(CheckState.OK, subject, "registering allowed")
