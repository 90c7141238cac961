"""Table definitions and schemas of commands that read files: dumps and schema registries.

They are the options `--schema-dump`, `--from-registry` and `--to-registry`.
"""

from __future__ import annotations

import os
from pathlib import Path

from relay.catalog.definitions import BEFORE_ALL, apply_definition, as_of
from relay.cli.exits import say_warning
from relay.cli.option_names import TARGET_REGISTRY, USUAL, Spelling
from relay.cli.requests.options import DumpOptions
from relay.codecs import codec_named
from relay.core.summaries import MOST_NAMES
from relay.core.translator import Translator
from relay.io.resolver import Registry, Resolver
from relay.model.errors import ConfigError, Problem


def apply_schema_dumps(dumps: DumpOptions, translator: Translator, *, quiet: bool) -> None:
    """Add the definitions to a translator, and warn of unsupported statements. Raises ConfigError."""
    if not dumps.files:
        if dumps.database is not None or dumps.as_of != "start":
            about = f"{USUAL.dump_database} and {USUAL.dump_as_of} apply to its dumps"
            raise ConfigError([Problem(USUAL.dump, f"is missing, and {about}")])
        return
    from relay.io.definition_files import read_dumps  # compiles patterns that few runs need

    commit_ts = BEFORE_ALL
    try:
        commit_ts = as_of(dumps.as_of)
    except ValueError as error:
        raise ConfigError([Problem(USUAL.dump_as_of, str(error))]) from error
    dumped = read_dumps(
        dumps.files,
        commit_ts,
        dumps.database,
        option=USUAL.dump,
        database_option=USUAL.dump_database,
        limits=translator.catalog.limits,
    )
    for definition in dumped.definitions:
        translator.catalog = apply_definition(translator.catalog, definition)
    if not quiet:
        for problem in dumped.problems[:MOST_NAMES]:
            say_warning(problem)


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
