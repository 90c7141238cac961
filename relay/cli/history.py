"""`relay schema-history show` and `export`: what the schema history holds, and what the commands on it have
in common.
"""

from __future__ import annotations

import asyncio
import difflib
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import orjson
import typer

from relay.catalog import Catalog
from relay.cli.arguments import STANDARD, open_output
from relay.cli.event_text import Line, aligned, definition_lines, printable, wall_time
from relay.cli.exits import say
from relay.cli.inspect import definition_object, line_printer
from relay.cli.letters import Progress
from relay.cli.record_files import RecordWriter
from relay.config import Config, load_config
from relay.errors import ConfigError, Problem
from relay.kafka.reading import quiet_client
from relay.model import Position, TableId, TableSchema
from relay.records import ConsumerRecord
from relay.service.commands.history_admin import read_kept
from relay.service.loop.history import source_records, teach

_GONE = "gone"  # dropped, or renamed


class Known(NamedTuple):
    """What the catalogue knows of a table. `schema` is None if there is no such table, or if its definition
    is unknown.
    """

    id: TableId
    versions: int
    schema: TableSchema | None
    is_gone: bool
    newest: Position

    @property
    def state(self) -> str:
        """In a word."""
        if self.schema is not None:
            return "known"
        return _GONE if self.is_gone else "unknown"


def known_tables(catalog: Catalog) -> list[Known]:
    """Every table that a statement was about, by name."""
    found = []
    for database, tables in catalog.histories.items():
        for name, (newest, *older) in tables.items():
            # A database that was dropped has an entry of its own, without a table's name.
            if name:
                found.append(
                    Known(TableId(database, name), 1 + len(older), newest.schema, newest.is_gone, newest.at)
                )
    return sorted(found)


def history_config(path: Path) -> Config:
    """Load a configuration with a schema history. Raises ConfigError."""
    config = load_config(path)
    if not config.history_topic:
        hint = "name the topic that keeps the table definitions of this route"
        raise ConfigError([Problem("schema.history_topic", "is empty, so there is no schema history", hint)])
    return config


def kept(config: Config, *, quiet: bool) -> list[ConsumerRecord]:
    """The history's own records that count. Raises ServiceError."""
    with quiet_client():
        return asyncio.run(read_kept(config, Progress(f"reading {config.history_topic}", quiet=quiet)))


def show(config_path: Path, table: str | None, *, as_json: bool, quiet: bool) -> None:
    """Print the tables that the history knows, or one. Raises ConfigError, ServiceError."""
    config = history_config(config_path)
    records = source_records(kept(config, quiet=quiet))
    translator = config.translator()
    failed = teach(translator, records)
    known = known_tables(translator.catalog)
    chosen = known if table is None else _named(table, known)
    if as_json:
        for each in chosen:
            definition = (
                {} if table is None else {"definition": each.schema and definition_object(each.schema)}
            )
            typer.echo(orjson.dumps(_object(each) | definition))
    elif table is not None:
        for each in chosen:
            line_printer()(_definition(each))
    elif known:
        line_printer()(_table(known))
    if not quiet:
        say(
            f"schema history {config.history_topic}: records: {len(records)}, tables: {len(known)}, "
            f"records that this route cannot read: {failed}"
        )


def _named(name: str, known: list[Known]) -> list[Known]:
    """The tables of this name: several, if names hold dots."""
    by_name: dict[str, list[Known]] = {}
    for each in known:
        by_name.setdefault(str(each.id), []).append(each)
    if name not in by_name:
        near = difflib.get_close_matches(name, list(by_name), n=3, cutoff=0.5)
        hint = "did you mean " + " or ".join(near) + "?" if near else "`relay schema-history show` lists all"
        raise ConfigError([Problem("--table", f"the history knows no table {name!r}", hint)])
    return by_name[name]


def _object(known: Known) -> dict[str, Any]:
    schema = known.schema
    return {
        "database": known.id.database,
        "table": known.id.table,
        "state": known.state,
        "versions": known.versions,
        "columns": None if schema is None else len(schema.columns),
        "primary_key": None if schema is None else schema.primary_key,
        "newest": msgspec.structs.asdict(known.newest),
    }


def _table(known: list[Known]) -> list[Line]:
    rows: list[Line] = [
        [(title, "dim") for title in ("table", "versions", "columns", "newest statement", "changed")]
    ]
    for each in known:
        columns = each.state if each.schema is None else str(len(each.schema.columns))
        style = "" if each.schema is not None else "dim"
        texts = (printable(str(each.id)), str(each.versions), columns, printable(_place(each.newest)))
        rows.append([(text, style) for text in (*texts, wall_time(each.newest.event_time_ns))])
    return aligned(rows)


def _definition(known: Known) -> list[Line]:
    heading: Line = [(printable(str(known.id)), "bold"), (f"  {printable(_when(known.newest))}", "dim")]
    if known.schema is None:
        why = "is gone: dropped or renamed" if known.is_gone else "is not known"
        return [heading, [(f"  {why}", "")]]
    return [heading, *definition_lines(known.schema)]


def _when(at: Position) -> str:
    commit_ts = "" if at.commit_ts is None else f"commit ts {at.commit_ts}, "
    return f"since {_place(at)} ({commit_ts}{wall_time(at.event_time_ns)})"


def _place(at: Position) -> str:
    return f"{at.topic}/{at.partition}/{at.offset}"


def export(config_path: Path, output_name: str, *, quiet: bool) -> None:
    """Write the source records that the history keeps. Raises ConfigError, ServiceError."""
    config = history_config(config_path)
    records = source_records(kept(config, quiet=quiet))
    with open_output(output_name, "--output") as output:
        writer = RecordWriter(output, "stdout" if output_name == STANDARD else output_name)
        for record in records:
            writer.write_original(record)
        writer.flush()
    if not quiet:
        say(f"records of {config.history_topic} written: {len(records)}")
