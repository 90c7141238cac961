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


def load_schema_dumps(config: Config, catalog: Catalog) -> Bootstrapped:
    """Add the definitions in the dumps of `schema_dumps` to a catalog.

    Raises ConfigError if one cannot be read.
    """
    schema = config.schema
    if not schema.schema_dumps:
        return Bootstrapped(catalog, 0, 0, [])
    dumped = read_dumps(
        schema.schema_dumps,
        as_of(schema.schema_dumps_as_of),
        schema.schema_dumps_database or None,
        option="schema.schema_dumps",
        database_option="schema.schema_dumps_database",
        limits=catalog.limits,
    )
    for definition in dumped.definitions:
        catalog = teach_definition(catalog, definition)
    return Bootstrapped(catalog, len(dumped.definitions), dumped.files, dumped.problems)


def translator_with_schema_dumps(config: Config) -> Translator:
    """Make the route's translator, whose catalog has the definitions of `schema_dumps`.

    Raises ConfigError.
    """
    translator = config.translator()
    translator.catalog = load_schema_dumps(config, translator.catalog).catalog
    return translator
