"""`relay inspect`: print the change events in a file, as relay understands them."""

from __future__ import annotations

import math
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from decimal import Decimal
from typing import Any

import msgspec
import typer

from relay.catalog.definitions import is_definition
from relay.cli.detect import chosen_source
from relay.cli.event_text import Line, event_lines
from relay.cli.exits import REPORTED, describe, say, say_error
from relay.cli.inputs import open_files_or_topic
from relay.cli.option_names import USUAL
from relay.cli.parsing import key_values, limits_of
from relay.cli.progress import NoProgress, progress_of, stdout_is_seen
from relay.cli.record_files import RecordReader
from relay.cli.requests.files import InspectRequest
from relay.cli.requests.options import AUTO
from relay.cli.schemas import apply_schema_dumps, resolver_with
from relay.core.detection import FormatHints
from relay.core.selection import kind_of
from relay.core.translator import Translator
from relay.io.resolver import Resolver
from relay.io.storage import storage_problems
from relay.model.errors import ClaimCheckMissing, CodecError, ConfigError, Problem, SchemaMissing
from relay.model.events import (
    Absent,
    Bootstrap,
    Event,
    RowChange,
    SchemaChange,
    Source,
    TableSchema,
    TransactionMark,
)
from relay.model.records import ConsumerRecord
from relay.mysql.types import format_type
from relay.text.redaction import printable, to_json


def inspect(request: InspectRequest) -> int:
    """Print every event of INPUT; report and skip unreadable records. Return the worst exit status of any."""
    topic = request.source_topic.in_place_of(request.inputs)
    if request.source != AUTO:
        _translator(request.source, request.source_options, request.limits)
    with ExitStack() as stack:
        opened = stack.enter_context(
            open_files_or_topic(request.inputs, request.input_format, topic, quiet=request.quiet)
        )
        opened, chosen = stack.enter_context(
            chosen_source(
                opened, request.source, request.source_options, request.source_registry, quiet=request.quiet
            )
        )
        translator = _translator(chosen.protocol, chosen.options, request.limits)
        apply_schema_dumps(request.dumps, translator, quiet=request.quiet)
        resolver = resolver_with({"source": (chosen.protocol, request.source_registry)})
        reader = RecordReader.of(opened)
        with progress_of(opened, quiet=request.quiet or stdout_is_seen()) as progress:
            return _show(reader, translator, resolver, progress, as_json=request.as_json)


def _show(
    reader: RecordReader, translator: Translator, resolver: Resolver, progress: NoProgress, *, as_json: bool
) -> int:
    print_lines, hints = line_printer(), FormatHints(translator.known_schema)
    status = read = failed = 0
    for record in reader:
        read += 1
        progress.at(reader.bytes_read)
        try:
            if is_definition(record):  # an export of the schema history has them
                translator.learn(record)
                continue
            for event in resolver.inspect(translator, record):  # reads rows, which may be malformed
                if as_json:
                    _print_json(event, record)
                else:
                    print_lines([*event_lines(event, reader.position_of(record)), []])
        except (CodecError, ClaimCheckMissing, SchemaMissing) as error:
            failed += 1
            status = max(status, error.exit_status)
            if failed <= REPORTED:
                error.add_note(reader.where(record))
                sys.stdout.flush()
                say_error(describe(hints.sampled(error, record)))
            elif failed == REPORTED + 1:
                say("Further errors are only counted.")
    if failed > REPORTED:
        name = translator.route.source.name
        say_error(f"{failed} of {read} records in {reader.name} cannot be read as {name}")
    return status


def _translator(source: str, options: Sequence[str], limits: Sequence[str]) -> Translator:
    """Make a translator that only reads."""
    problems: list[Problem] = []
    given, most = key_values(options, "--from-option", problems), limits_of(limits, problems)
    try:
        translator = Translator.reader(source, given, limits=most)
    except ConfigError as error:
        raise ConfigError([*problems, *USUAL.of_problems(error.problems)]) from error
    problems += USUAL.of_problems(storage_problems(translator.route.storages))
    if problems:
        raise ConfigError(problems)
    return translator


def line_printer() -> Callable[[Sequence[Line]], None]:
    """Return a function that prints lines: with styles on a terminal, plain otherwise.

    Control characters are escaped, so that no value can begin a line or control the terminal.
    """
    if not sys.stdout.isatty():
        return lambda lines: sys.stdout.writelines(_plain(line) + "\n" for line in lines)
    from rich.console import Console  # only a terminal needs it
    from rich.text import Text

    console = Console(highlight=False)

    def styled(lines: Sequence[Line]) -> None:
        for line in lines:
            shown = [(printable(text, longest=None), style) for text, style in line]
            console.print(Text.assemble(*shown), soft_wrap=True)

    return styled


def _plain(line: Line) -> str:
    return printable("".join(text for text, _ in line), longest=None).rstrip()


def _print_json(event: Event, record: ConsumerRecord) -> None:
    typer.echo(to_json(event_object(event, record), exact))


def exact(value: object) -> object:
    """Return a JSON form for a value without one, exact to the digit and byte."""
    if isinstance(value, Decimal):
        return {"decimal": format(value, "f")}
    if isinstance(value, bytes):
        return msgspec.to_builtins({"base64": value})
    return msgspec.to_builtins(value)


def event_object(event: Event, record: ConsumerRecord) -> dict[str, Any]:
    """Return the event as a JSON object. Values that JSON cannot hold exactly are left to `exact`."""
    found: dict[str, Any] = {
        "kind": kind_of(event),
        "position": record.position._asdict(),
        "source": _source(event.source),
        "emitted_at_ns": event.emitted_at_ns,
    }
    if isinstance(event, RowChange):
        found |= {
            "table": _fields(event.schema.id),
            "columns": _columns(event.schema),
            "primary_key": event.schema.primary_key,
            "before": _cells(event.before_dict()),
            "after": _cells(event.after_dict()),
        }
    elif isinstance(event, SchemaChange):
        found |= {
            "table": _fields(event.table),
            "ddl": event.ddl,
            "kinds": [kind.value for kind in event.kinds],
            "wire_kind": event.wire_kind,
            "targets": [_fields(target) for target in event.targets],
            "renamed": [{"old": _fields(pair.old), "new": _fields(pair.new)} for pair in event.renamed],
            "after": None if event.after is None else definition_object(event.after),
        }
    elif isinstance(event, TransactionMark):
        found |= {"begin": event.is_begin, "id": event.id, "count": event.count}
    elif isinstance(event, Bootstrap):
        found["definition"] = definition_object(event.schema)
    return found


def _cells(row: Mapping[str, object] | None) -> dict[str, object] | None:
    """Return a row whose infinite numbers are objects: JSON has none, and orjson would write null."""
    if row is None:
        return None
    cells = dict(row)
    for name, cell in row.items():
        if isinstance(cell, float) and math.isinf(cell):
            cells[name] = {"double": "Infinity" if cell > 0 else "-Infinity"}
    return cells


def _fields(struct: msgspec.Struct) -> dict[str, Any]:
    return msgspec.structs.asdict(struct)


def _source(source: Source) -> dict[str, Any]:
    found = {name: value for name, value in _fields(source).items() if value is not None}
    if source.unknown_fields is not None:
        found["unknown_fields"] = dict(source.unknown_fields)
    return found


def _columns(schema: TableSchema) -> list[dict[str, str]]:
    return [{"name": column.name, "type": format_type(column.type)} for column in schema.columns]


def definition_object(schema: TableSchema) -> dict[str, Any]:
    """Return a table's definition as a JSON object."""
    columns = []
    for column in schema.columns:
        entry: dict[str, Any] = {
            "name": column.name,
            "type": format_type(column.type),
            "nullable": column.nullable,
        }
        if not isinstance(column.default, Absent):
            entry["default"] = _fields(column.default)
        columns.append(entry)
    return {
        "table": _fields(schema.id),
        "columns": columns,
        "primary_key": schema.primary_key,
        "unique_keys": [_fields(key) for key in schema.unique_keys],
        "indexes": [_fields(index) for index in schema.indexes],
        "complete": schema.complete,
    }
