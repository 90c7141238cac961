"""`--from-registry` and `--to-registry`: schema registries of commands that read files."""

from __future__ import annotations

import os
from pathlib import Path

from relay.cli.option_names import TARGET_REGISTRY, USUAL, Spelling
from relay.codecs import codec_named
from relay.io.resolver import Registry, Resolver
from relay.model.errors import ConfigError, Problem

_HINTS = {
    "source": "name its URL, or a file of schemas",
    "target": "name its URL, or a file, which is created with the first schema",
}


def resolver_with(given: dict[str, tuple[str, str | None]], spelling: Spelling = USUAL) -> Resolver:
    """Return the resolver for needs.

    `given`: by side (`source`, `target`) the protocol, and the URL of its registry, or a file of schemas.
    Raises ConfigError with all problems.
    """
    registries: dict[str, Registry] = {}
    problems: list[Problem] = []
    flags: dict[str, str] = {}
    for side, (protocol, address) in given.items():
        flag = spelling.registry if side == "source" else TARGET_REGISTRY
        flags[side] = flag
        try:
            is_used = codec_named(protocol, "from" if side == "source" else "to").uses_registry
        except ConfigError:  # the translator has reported it
            continue
        if address is None:
            if is_used:
                message = f"is missing: {protocol} has its schemas in a schema registry"
                problems.append(Problem(flag, message, _HINTS[side]))
            continue
        try:
            registries[side] = registry_of(address, side, flag)
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return Resolver(registries=registries, options=flags)


def registry_of(address: str, side: str, option: str) -> Registry:
    """Return a registry by its URL, or a file of schemas. Raises ConfigError, about `option`."""
    if "://" in address:
        from relay.config.registries import registry_at

        return registry_at(address, side, option, os.environ)
    from relay.io.registry import SchemaFile

    return SchemaFile(Path(address), option, is_new=side == "target")
