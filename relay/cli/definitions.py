"""Definitions of dumps and of databases: into the schema history, and for commands that read files."""

from __future__ import annotations

import asyncio
import os
from pathlib import Path
from typing import Final, NamedTuple

from relay.catalog import Catalog
from relay.catalog.definitions import (
    BEFORE_ALL,
    Definition,
    apply_definition,
    as_of,
    definition_record,
    undefined,
)
from relay.cli.exits import ProgressReport, say, say_error, say_warning
from relay.cli.files import STANDARD
from relay.cli.option_names import IMPORT
from relay.cli.requests.schema_history import ImportRequest
from relay.cli.schema_history import FAILED, import_records, load_history_config, read_history_kept
from relay.config import Config
from relay.config.registries import resolver_of
from relay.config.wiring import translator_with_schema_dumps
from relay.core.selection import Selection, chosen_tables
from relay.core.summaries import MOST_NAMES
from relay.io.definition_files import read_dumps
from relay.io.files import read_small
from relay.io.kafka.reading import quiet_client
from relay.io.live_definitions import read_definitions, server_at
from relay.model.errors import ConfigError, Problem
from relay.model.events import TableId
from relay.model.records import ProducerRecord, RecordPosition
from relay.service.commands.history_admin import ensure_topic, write
from relay.service.loop.history import apply_records, history_record, source_records

_PASSWORD: Final = "RELAY_DATABASE_PASSWORD"  # noqa: S105 - the name of a variable
_NOW: Final = "now"


class _SelectedDefinitions(NamedTuple):
    """The definitions of tables that the route chooses.

    Also the number of other tables, and the statements that were not understood.
    """

    definitions: list[Definition]
    left_out: int
    problems: list[str]


def import_history(request: ImportRequest) -> int:
    """Write definitions into the history: of records, of dumps or of a database.

    Returns 2 if some could not be read. Raises ConfigError, Malformed, ServiceError.
    """
    if request.sql or request.url is not None:
        return import_definitions(request)
    for_definitions = {
        "--database": request.database,
        "--as-of": request.as_of,
        "--password-file": request.password_file,
        "--ca-file": request.ca_file,
    }
    hint = "add --sql FILE or --from-database URL, or leave it out"
    if wrong := [
        Problem(name, "is for definitions", hint) for name, value in for_definitions.items() if value
    ]:
        raise ConfigError(wrong)
    return import_records(request)


def import_definitions(request: ImportRequest) -> int:
    """Write the definitions of dumps or of a database into the history.

    Returns 2 if some were not understood. Nothing is written if a dump cannot be read or a server does not
    answer. Raises ConfigError, ServiceError.
    """
    since = _since(request)
    config = load_history_config(request.config)
    found = _select(config, request, since)
    for problem in found.problems[:MOST_NAMES]:
        say_error(problem)
    if len(found.problems) > MOST_NAMES:
        say_error(f"and {len(found.problems) - MOST_NAMES} more were not understood")
    if not found.definitions:
        raise ConfigError([_nothing(request, found)])
    with quiet_client():
        if asyncio.run(ensure_topic(config)) and not request.quiet:
            say(f"topic {config.history_topic} was created")
    known = read_history_kept(config, quiet=request.quiet)
    kept = {each.key: each.value for each in known}
    translator = translator_with_schema_dumps(config)
    records = [translator.storable(definition_record(each)) for each in found.definitions]
    entries = [history_record(each, config.history_topic) for each in records if each is not None]
    new = [each for each in entries if kept.get(each.key) != each.value]
    if new:
        with quiet_client():
            progress = ProgressReport(f"writing {config.history_topic}", quiet=request.quiet)
            asyncio.run(write(config, new, progress))
    replaced = {each.key for each in new}
    apply_records(
        translator, source_records(each for each in known if each.key not in replaced), resolver_of(config)
    )
    catalog = translator.catalog
    for each in found.definitions:
        catalog = apply_definition(catalog, each)
    _warn(config, catalog, found.definitions)
    if not request.quiet:
        say(_summary(found, new, sum(each.key in kept for each in new)))
    return FAILED if found.problems else 0


def _nothing(request: ImportRequest, found: _SelectedDefinitions) -> Problem:
    """Return the problem that there is nothing to import, before the history is read."""
    option = IMPORT.dump if request.url is None else "--from-database"
    if not found.left_out:
        return Problem(option, "defines no table that relay understands; nothing was imported")
    count = f"{found.left_out} table{'s'[: found.left_out != 1]}"
    hint = "see include_tables and exclude_tables in [route]"
    return Problem(option, f"defines {count}, none of which the route includes", hint)


def _since(request: ImportRequest) -> int | None:
    """Return since when the definitions hold, None for now. Raises ConfigError for conflicting options."""
    problems = []
    if request.input != STANDARD or request.topic is not None:
        problems.append(Problem("INPUT", "records are imported without --sql and --from-database"))
    if request.sql and request.url is not None:
        problems.append(
            Problem("--from-database", f"{IMPORT.dump} is also given", "import one after the other")
        )
    for name, value in (("--password-file", request.password_file), ("--ca-file", request.ca_file)):
        if value is not None and request.url is None:
            problems.append(Problem(name, "is for --from-database"))
    if request.database is not None and request.url is not None:
        problems.append(Problem("--database", "is for --sql", "name the database in the URL"))
    since: int | None = BEFORE_ALL
    if request.as_of == _NOW and request.url is not None:
        since = None
    elif request.as_of is not None:
        since = parse_as_of(request.as_of, "--as-of", problems)
    if problems:
        raise ConfigError(problems)
    return since


def parse_as_of(text: str, option: str, problems: list[Problem]) -> int:
    """Parse the time from which definitions hold; append errors to `problems`."""
    try:
        return as_of(text)
    except ValueError as error:
        problems.append(Problem(option, str(error)))
        return BEFORE_ALL


def _select(config: Config, request: ImportRequest, since: int | None) -> _SelectedDefinitions:
    limits = config.limits.of_a_record()
    chosen = Selection(tables=chosen_tables(config.route.include_tables, config.route.exclude_tables))
    if request.url is None:
        dumped = read_dumps(
            request.sql,
            since or BEFORE_ALL,
            request.database,
            option=IMPORT.dump,
            database_option=IMPORT.dump_database,
            limits=limits,
        )
        kept = [each for each in dumped.definitions if chosen.has_table(each.table)]
        return _SelectedDefinitions(kept, len(dumped.definitions) - len(kept), dumped.problems)
    left_out: list[TableId] = []

    def is_chosen(table: TableId) -> bool:
        if not chosen.has_table(table):
            left_out.append(table)
            return False
        return True

    server = server_at(request.url, _password(request), request.ca_file or "", "--from-database")
    live = read_definitions(server, since, is_chosen, limits=limits)
    return _SelectedDefinitions(live.definitions, len(left_out), live.problems)


def _password(request: ImportRequest) -> str:
    """Return the password of the database. Raises ConfigError if its file cannot be read."""
    if request.password_file is None:
        return os.environ.get(_PASSWORD, "")
    try:
        return read_small(Path(request.password_file)).decode().rstrip("\r\n")
    except (OSError, ValueError) as error:
        reason = getattr(error, "strerror", None) or "is not text"
        problem = f"cannot read {request.password_file}: {reason}"
        raise ConfigError([Problem("--password-file", problem)]) from error


def _warn(config: Config, catalog: Catalog, definitions: list[Definition]) -> None:
    """Warn of definitions that later statements do not fit, and of chosen tables without one."""
    for each in definitions:
        at, schema = catalog.newest(each.table)
        if schema is None and at is not None and at.topic:
            say_warning(
                f"{each.table}: a statement in the stream does not fit this definition "
                f"({RecordPosition(at.topic, at.partition, at.offset)}), so the table is unknown from "
                "there on: the definition may be newer than the statement, see --as-of"
            )
    route = config.route
    if unknown := undefined(catalog, chosen_tables(route.include_tables, ())):
        say_warning(f"no definition is known for any table of include_tables {', '.join(unknown)}")


def _summary(found: _SelectedDefinitions, new: list[ProducerRecord], changed: int) -> str:
    defined = len(found.definitions)
    return (
        f"tables defined: {defined}, imported: {len(new)}, {changed} of them changed, "
        f"already known: {defined - len(new)}, not included by the route: {found.left_out}, "
        f"not understood: {len(found.problems)}"
    )
