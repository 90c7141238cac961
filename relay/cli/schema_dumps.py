"""`--schema-dump`: dumps with the definitions of tables, for commands that read files."""

from __future__ import annotations

from relay.catalog.definitions import BEFORE_ALL, apply_definition, as_of
from relay.cli.exits import say_warning
from relay.cli.option_names import USUAL
from relay.cli.requests.options import DumpOptions
from relay.core.summaries import MOST_NAMES
from relay.core.translator import Translator
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
