"""`--bootstrap`: dumps with the definitions of tables, for commands that read files."""

from __future__ import annotations

import msgspec

from relay.cli.exits import say_warning
from relay.cli.spelling import USUAL
from relay.definition_files import read_dumps
from relay.definitions import BEFORE_ALL, as_of, teach_definition
from relay.errors import ConfigError, Problem
from relay.summaries import MOST_NAMES
from relay.translator import Translator


class Bootstrap(msgspec.Struct, frozen=True):
    """What the user asked for; the fields are the options."""

    files: tuple[str, ...] = ()
    database: str | None = None
    as_of: str = "start"

    def teach(self, translator: Translator, *, quiet: bool) -> None:
        """Teach a translator the definitions, and warn of what is not understood. Raises ConfigError."""
        if not self.files:
            if self.database is not None or self.as_of != "start":
                about = f"{USUAL.dump_database} and {USUAL.dump_as_of} are about its dumps"
                raise ConfigError([Problem(USUAL.dump, f"is missing, and {about}")])
            return
        commit_ts = BEFORE_ALL
        try:
            commit_ts = as_of(self.as_of)
        except ValueError as error:
            raise ConfigError([Problem(USUAL.dump_as_of, str(error))]) from error
        limits = translator.catalog.limits
        dumped = read_dumps(
            self.files,
            commit_ts,
            self.database,
            option=USUAL.dump,
            database_option=USUAL.dump_database,
            limits=limits,
        )
        for definition in dumped.definitions:
            translator.catalog = teach_definition(translator.catalog, definition)
        if not quiet:
            for problem in dumped.problems[:MOST_NAMES]:
                say_warning(problem)
