"""`relay schema-history`: show, export, fill and empty the topic that keeps table definitions."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any, NamedTuple

import msgspec
import typer

from relay.catalog import Catalog
from relay.catalog.definitions import is_definition, is_from_stream, is_imported
from relay.cli.event_text import Line, aligned, definition_lines, wall_time
from relay.cli.exits import ProgressReport, describe, say, say_error
from relay.cli.files import STANDARD, LineFormat, open_input, open_output
from relay.cli.inspect import definition_object, line_printer
from relay.cli.progress import NoProgress, progress_of
from relay.cli.record_files import RecordReader, RecordWriter
from relay.cli.requests.options import WATCH_SECONDS, ConfigSource
from relay.cli.requests.schema_history import (
    ExportRequest,
    ImportRequest,
    RepairRequest,
    ResetRequest,
    ShowHistoryRequest,
)
from relay.config import Config
from relay.config.registries import resolver_of
from relay.config.wiring import translator_with_schema_dumps
from relay.io.kafka.reading import quiet_client
from relay.model.errors import CodecError, ConfigError, Problem
from relay.model.events import Position, TableId, TableSchema
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord, RecordPosition
from relay.service.commands.history_admin import ensure_topic, read_kept, write
from relay.service.commands.running_instances import (
    RunningInstances,
    find_running_instances,
    require_stopped,
)
from relay.service.loop.history import Unreadable, apply_records, entries_of, history_record, source_records
from relay.text.hints import hint_for
from relay.text.redaction import printable, to_json

FAILED = 2


class _TableState(NamedTuple):
    """The catalog's state of a table. `schema` is None if the table or its definition is unknown.

    `is_gone`: it was dropped or renamed. `newest`: the position of the last statement about it.
    """

    id: TableId
    versions: int
    schema: TableSchema | None
    is_gone: bool
    newest: Position

    @property
    def state(self) -> str:
        """Return `known`, `gone` or `unknown`."""
        if self.schema is not None:
            return "known"
        return "gone" if self.is_gone else "unknown"


def _known_tables(catalog: Catalog) -> list[_TableState]:
    """Return every table that a statement was about, by name."""
    found = []
    for database, tables in catalog.histories.items():
        for name, (newest, *older) in tables.items():
            # A dropped database has a separate entry, without a table's name.
            if name:
                table, versions = TableId(database, name), 1 + len(older)
                found.append(_TableState(table, versions, newest.schema, newest.is_gone, newest.at))
    return sorted(found)


def load_history_config(given: ConfigSource) -> Config:
    """Load a configuration with a schema history. Raises ConfigError."""
    config = given.load()
    if not config.history_topic:
        hint = "name the topic that keeps the table definitions of this route"
        raise ConfigError([Problem("schema.history_topic", "is empty, so there is no schema history", hint)])
    return config


def read_history_kept(config: Config, *, quiet: bool) -> list[ConsumerRecord]:
    """Return the history's own live records. Raises ServiceError."""
    with quiet_client():
        return asyncio.run(read_kept(config, ProgressReport(f"reading {config.history_topic}", quiet=quiet)))


def show(request: ShowHistoryRequest) -> None:
    """Print the tables in the history, or one. Raises ConfigError, ServiceError."""
    config, table, as_json = load_history_config(request.config), request.table, request.as_json
    records, unreadable = entries_of(read_history_kept(config, quiet=request.quiet))
    _name_unreadable(unreadable)
    translator = translator_with_schema_dumps(config)
    failed = apply_records(translator, records, resolver_of(config))
    known = _known_tables(translator.catalog)
    chosen = known if table is None else _named(table, known)
    if as_json:
        for each in chosen:
            found = _object(each)
            if table is not None:
                found["definition"] = each.schema and definition_object(each.schema)
            typer.echo(to_json(found))
    elif table is not None:
        for each in chosen:
            line_printer()(_definition(each))
    elif known:
        line_printer()(_table(known))
    if not request.quiet:
        say(
            f"schema history {config.history_topic}: records: {len(records)}, tables: {len(known)}, "
            f"records that this route cannot read: {failed}"
        )


def _named(name: str, known: list[_TableState]) -> list[_TableState]:
    """Return the tables of this name: several, if names hold dots."""
    by_name: dict[str, list[_TableState]] = {}
    for each in known:
        by_name.setdefault(str(each.id), []).append(each)
    if name not in by_name:
        hint = hint_for(name, list(by_name), "`relay schema-history show` lists all")
        raise ConfigError([Problem("--table", f"the history has no table {name!r}", hint)])
    return by_name[name]


def _object(known: _TableState) -> dict[str, Any]:
    schema = known.schema
    return {
        "database": known.id.database,
        "table": known.id.table,
        "state": known.state,
        "versions": known.versions,
        "columns": None if schema is None else len(schema.columns),
        "primary_key": None if schema is None else schema.primary_key,
        "newest": _position(known.newest),
    }


def _table(known: list[_TableState]) -> list[Line]:
    rows: list[Line] = [
        [(title, "dim") for title in ("table", "versions", "columns", "newest statement", "changed")]
    ]
    for each in known:
        columns = each.state if each.schema is None else str(len(each.schema.columns))
        style = "" if each.schema is not None else "dim"
        texts = (printable(str(each.id)), str(each.versions), columns, printable(_position_text(each.newest)))
        rows.append([(text, style) for text in (*texts, _time_text(each.newest))])
    return aligned(rows)


def _definition(known: _TableState) -> list[Line]:
    heading: Line = [(printable(str(known.id)), "bold"), (f"  {printable(_when(known.newest))}", "dim")]
    if known.schema is None:
        why = "is gone: dropped or renamed" if known.is_gone else "is not known"
        return [heading, [(f"  {why}", "")]]
    return [heading, *definition_lines(known.schema)]


def _when(at: Position) -> str:
    if is_imported(at):
        return f"{_position_text(at)} {_time_text(at)}"
    commit_ts = "" if at.commit_ts is None else f"commit ts {at.commit_ts}, "
    return f"since {_position_text(at)} ({commit_ts}{wall_time(at.event_time_ns)})"


def _position(at: Position) -> dict[str, Any]:
    """Return a position as JSON; only some sources have a log position."""
    found = msgspec.structs.asdict(at)
    if at.log is None:
        del found["log"]
    return found


def _time_text(at: Position) -> str:
    """Return the time of a statement, or since when an external definition holds."""
    if is_imported(at):
        return "before everything" if not at.commit_ts else f"as of {wall_time(at.event_time_ns)}"
    return wall_time(at.event_time_ns)


def _position_text(at: Position) -> str:
    if is_imported(at):
        return "imported"
    return str(RecordPosition(at.topic, at.partition, at.offset))


def export(request: ExportRequest) -> int:
    """Write the source records that the history keeps; return 2 if an entry of relay's is damaged.

    Raises ConfigError, ServiceError.
    """
    config, output_name = load_history_config(request.config), request.output
    records, unreadable = entries_of(read_history_kept(config, quiet=request.quiet))
    _name_unreadable(unreadable)
    with open_output(output_name, "--output") as output:
        writer = RecordWriter(output, "stdout" if output_name == STANDARD else output_name)
        for record in records:
            writer.write_original(record)
        writer.flush()
    if not request.quiet:
        say(f"records of {config.history_topic} written: {len(records)}")
    return 0 if all(each.is_foreign for each in unreadable) else FAILED


def _name_unreadable(unreadable: Iterable[Unreadable]) -> None:
    for each in unreadable:
        what = "relay did not write it" if each.is_foreign else "it is damaged"
        say_error(f"{each}; {what}, and it is ignored; `relay schema-history repair` removes it")


@dataclass
class _ImportedRecords:
    """The content of a file: numbers of records and of unreadable ones, and entries for catalog changes."""

    read: int = 0
    unreadable: int = 0
    entries: list[ProducerRecord] = field(default_factory=list)


def import_records(request: ImportRequest) -> int:
    """Write those records of INPUT into the history that change the catalog.

    Returns 2 if some could not be read. Nothing is written if INPUT is no record file, or contradicts the
    history. Raises ConfigError, Malformed, ServiceError.
    """
    config, quiet = load_history_config(request.config), request.quiet
    with open_input(request.input) as opened, quiet_client():
        if asyncio.run(ensure_topic(config)) and not quiet:
            say(f"topic {config.history_topic} was created")
        known = read_history_kept(config, quiet=quiet)
        reader = RecordReader(opened.stream, opened.name, LineFormat.RECORDS, placed=True)
        with progress_of(opened, quiet=quiet) as progress_bar:
            found = _changing(reader, config, request.topic, known, progress_bar)
        if found.entries:
            progress = ProgressReport(f"writing {config.history_topic}", quiet=quiet)
            asyncio.run(write(config, found.entries, progress))
    if not quiet:
        others = found.read - len(found.entries) - found.unreadable
        say(
            f"records read: {found.read}, imported: {len(found.entries)}, "
            f"known already or not about tables: {others}, unreadable: {found.unreadable}"
        )
    return FAILED if found.unreadable else 0


def _changing(
    reader: RecordReader,
    config: Config,
    topic: str | None,
    known: Iterable[ConsumerRecord],
    progress: NoProgress,
) -> _ImportedRecords:
    """Find the records that change the catalog compared to the known ones."""
    values = {each.key: each.value for each in known}
    translator = translator_with_schema_dumps(config)
    resolver = resolver_of(config)
    apply_records(translator, source_records(known), resolver)
    found = _ImportedRecords()
    for given in reader:
        record = (
            given if topic is None or is_definition(given) else msgspec.structs.replace(given, topic=topic)
        )
        found.read += 1
        progress.at(reader.bytes_read)
        before = translator.catalog
        try:
            resolver.learn(translator, record)
        except CodecError as error:
            error.add_note(reader.where(record))
            say_error(describe(error))
            found.unreadable += 1
            continue
        except Need:
            # A claim check: only rows are large enough for one, no producer sends DDL that way.
            continue
        is_alone = not is_from_stream(record)
        stored = translator.storable(record) if is_alone or translator.catalog is not before else None
        if stored is None:
            continue
        entry = history_record(stored, config.history_topic)
        if is_alone:
            # An entry of the same table and time replaces the other.
            if values.get(entry.key) != entry.value:
                values[entry.key] = entry.value
                found.entries.append(entry)
            continue
        if values.setdefault(entry.key, entry.value) != entry.value:
            raise _contradiction(reader, record)
        found.entries.append(entry)
    return found


def _contradiction(reader: RecordReader, record: ConsumerRecord) -> ConfigError:
    position = printable(str(record.position))
    problem = f"{reader.name} line {reader.line}: the history has another record of {position}"
    hint = "its records are from another topic of that name: use --topic to give them a different name"
    return ConfigError([Problem("INPUT", problem, hint)])


def repair(request: RepairRequest) -> int:
    """Remove records from the history that are not valid entries; without `--yes` list them and return 2.

    Raises ConfigError, ServiceError.
    """
    config, quiet = load_history_config(request.config), request.quiet
    _, unreadable = entries_of(read_history_kept(config, quiet=quiet))
    topic = config.history_topic
    if not unreadable:
        say(f"schema history {topic}: nothing to repair")
        return 0
    for each in unreadable:
        say(f"{each}; {_LOST_WITH[each.is_foreign]}")
    if not request.yes:
        say_error("nothing was changed; add --yes to do it")
        return FAILED
    now_ms = int(time.time() * 1000)
    nothing = [
        ProducerRecord(topic, 0, now_ms, each.kept.key, None)
        for each in unreadable
        if each.kept.key is not None
    ]
    with quiet_client():
        asyncio.run(write(config, nothing, ProgressReport(f"repairing {topic}", quiet=quiet)))
    if not quiet:
        say(f"records removed from {topic}: {len(nothing)}")
    if left := len(unreadable) - len(nothing):
        say_error(f"records without a key, which only retention can remove: {left}")
        return FAILED
    return 0


_LOST_WITH = {
    True: "relay did not write it, so nothing is lost",
    False: "it was relay's: import the definition of its table again",
}


def reset(request: ResetRequest) -> int:
    """Empty the history; without `--yes` only print the consequences, and return 2.

    Raises ConfigError, ServiceError.
    """
    config, quiet = load_history_config(request.config), request.quiet
    entries = read_history_kept(config, quiet=quiet)
    topic = config.history_topic
    if not entries:
        say(f"schema history {topic} is empty")
        return 0
    if not request.yes:
        with quiet_client():
            found = asyncio.run(find_running_instances(config))
        for line in (*_consequences(topic, len(entries)), *_running(config, found)):
            say(line)
        say_error("nothing was changed; add --yes to do it")
        return FAILED
    with quiet_client():
        unknown = asyncio.run(require_stopped(config, WATCH_SECONDS, (lambda _: None) if quiet else say))
    if not quiet:
        for line in unknown:
            say(line)
    now_ms = int(time.time() * 1000)
    nothing = [ProducerRecord(topic, 0, now_ms, each.key, None) for each in entries]
    with quiet_client():
        asyncio.run(write(config, nothing, ProgressReport(f"emptying {topic}", quiet=quiet)))
    if not quiet:
        say(f"records removed from {topic}: {len(entries)}")
    return 0


def _consequences(topic: str, count: int) -> list[str]:
    return [
        f"schema history {topic} has {count} records.",
        "Without them relay knows a table only from its next CREATE TABLE on. Until then relay infers the",
        "column types of its rows from the messages, and counts the rows as schema-inferred.",
        "`relay schema-history export` saves a copy, which `import` restores.",
        "Stop all instances first: a running one keeps its definitions and adds to the history.",
    ]


def _running(config: Config, found: RunningInstances) -> Sequence[str]:
    if found.evidence:
        return found.evidence
    if config.is_exactly_once:
        return [*found.unknown, "no running shard was found, but an idle one may go unnoticed"]
    return found.unknown or ["no running instance was found"]
