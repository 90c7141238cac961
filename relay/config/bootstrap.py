"""Table definitions from dumps, for streams that begin without DDL."""

from __future__ import annotations

from typing import NamedTuple

from relay.catalog import Catalog
from relay.catalog.definitions import as_of, teach_definition
from relay.config.config import Config
from relay.core.translator import Translator
from relay.io.definition_files import read_dumps


class Bootstrapped(NamedTuple):
    """A catalog with the definitions of dumps.

    Also the number of tables and files, and the statements that were not understood.
    """

    catalog: Catalog
    tables: int
    files: int
    problems: list[str]


def bootstrapped(config: Config, catalog: Catalog) -> Bootstrapped:
    """Add the definitions in the dumps of `bootstrap` to a catalog.

    Raises ConfigError if one cannot be read.
    """
    schema = config.schema
    if not schema.bootstrap:
        return Bootstrapped(catalog, 0, 0, [])
    dumped = read_dumps(
        schema.bootstrap,
        as_of(schema.bootstrap_as_of),
        schema.bootstrap_database or None,
        option="schema.bootstrap",
        database_option="schema.bootstrap_database",
        limits=catalog.limits,
    )
    for definition in dumped.definitions:
        catalog = teach_definition(catalog, definition)
    return Bootstrapped(catalog, len(dumped.definitions), dumped.files, dumped.problems)


def bootstrapped_translator(config: Config) -> Translator:
    """Make the route's translator, whose catalog has the definitions of `bootstrap`. Raises ConfigError."""
    translator = config.translator()
    translator.catalog = bootstrapped(config, translator.catalog).catalog
    return translator
