"""`relay detect`: detect the protocol and dialect of records; also `--from auto` of the other commands."""

from __future__ import annotations

import functools
import shlex
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from itertools import chain, islice
from typing import BinaryIO, Final, NamedTuple, cast

import orjson
import typer

from relay.cli.exits import describe, say, say_warning
from relay.cli.files import STANDARD, Input
from relay.cli.inputs import files_of, open_inputs
from relay.cli.option_names import USUAL, Spelling
from relay.cli.record_files import RecordReader
from relay.cli.requests.files import DetectRequest
from relay.cli.requests.options import AUTO
from relay.codecs import PROTOCOLS
from relay.core.detection import DetectedDialect, Detection, FindSchema, detect, reading_settings
from relay.model.errors import ConfigError, Malformed, Problem, RelayError
from relay.model.lookups import RegisteredSchema
from relay.model.records import ConsumerRecord, RecordPosition
from relay.text.redaction import printable, shown_uri

#: How many records are inspected.
SAMPLE: Final = 200
_NOTHING_FOUND = 2


class InputArguments(NamedTuple):
    """The arguments and the registry by which a command names the inspected input."""

    input: tuple[str, ...] = ()
    registry: str | None = None


def show_detected(request: DetectRequest) -> int:
    """Print the detected formats of a topic or of each file. Return the worst exit status.

    It is 2 for an input without any record that relay reads.
    """
    topic = request.source_topic.in_place_of(request.inputs)
    if topic is not None:
        from relay.cli.topics import open_topic

        with open_topic(topic, quiet=request.quiet) as opened:
            return _show(opened, InputArguments(topic.arguments, request.registry), as_json=request.as_json)
    status = 0
    for number, name in enumerate(files_of(request.inputs)):
        if number and not request.as_json:
            typer.echo("")
        with open_inputs([name], request.input_format) as opened:
            arguments = InputArguments(() if name == STANDARD else (name,), request.registry)
            status = max(status, _show(opened, arguments, as_json=request.as_json))
    return status


def _show(source: Input, arguments: InputArguments, *, as_json: bool) -> int:
    """Print the detected formats of an input. Return its exit status."""
    reader = RecordReader.of(source)
    read_at: dict[RecordPosition, str] = {}

    def sample() -> Iterator[ConsumerRecord]:
        for record in islice(reader, SAMPLE):
            read_at.setdefault(record.position, reader.position_of(record))
            yield record

    found = detect(sample(), _schemas(arguments.registry))
    if as_json:
        typer.echo(orjson.dumps({"input": source.name, **_object(found)}))
    else:
        lines = _lines(found, source.name, read_at, arguments)
        typer.echo("\n".join(printable(line, longest=None) for line in lines))
    return 0 if any(dialect.protocols for dialect in found.dialects) else _NOTHING_FOUND


def _schemas(address: str | None) -> FindSchema | None:
    """Return a function that looks up schemas in a registry; None without a registry."""
    if address is None:
        return None
    from relay.cli.schemas import registry_of

    registry = registry_of(address, "source", USUAL.registry)

    @functools.cache
    def find_schema(id: int | str) -> RegisteredSchema | None:
        try:
            return registry.schema(id)
        except RelayError as error:
            say_warning(describe(error))
            return None

    return find_schema


def _lines(
    found: Detection, name: str, read_at: Mapping[RecordPosition, str], arguments: InputArguments
) -> Iterator[str]:
    yield f"{name}: {found.records} record{'s'[: found.records != 1]} examined"
    for dialect in found.dialects:
        yield ""
        yield from _dialect_lines(dialect, read_at[dialect.first], arguments)
    if found.unknown:
        yield ""
        yield f"{found.unknown} in an unknown format"
    if found.empty:
        yield f"{found.empty} without a value (tombstones)"


def _dialect_lines(dialect: DetectedDialect, first: str, arguments: InputArguments) -> Iterator[str]:
    yield f"{' or '.join(dialect.titles)}"
    protocols = (
        " or ".join(dialect.protocols) or f"none: {dialect.refusal or 'relay does not read this format'}"
    )
    yield f"  protocol  {protocols}"
    yield f"  sure      {dialect.strength.name.lower()}"
    yield f"  records   {dialect.records}, the first at {first}"
    for number, evidence in enumerate(dialect.evidence):
        yield f"  {'' if number else 'evidence':8}  {evidence}"
    for number, (name, values) in enumerate(sorted(dialect.settings.items())):
        yield f"  {'' if number else 'settings':8}  {name}={' and '.join(values)}"
    if dialect.protocol:
        yield f"  next      {_next_command(dialect, arguments)}"


def _next_command(dialect: DetectedDialect, arguments: InputArguments) -> str:
    """Return the command that reads the same input."""
    words = ["relay", "inspect", USUAL.protocol, dialect.protocol]
    for name, value in reading_settings(PROTOCOLS[dialect.protocol], dialect.options).items():
        words += [USUAL.option, f"{name}={value}"]
    if PROTOCOLS[dialect.protocol].uses_registry:
        words += [USUAL.registry, "URL" if arguments.registry is None else shown_uri(arguments.registry)]
    return shlex.join([*words, *arguments.input])


def _object(found: Detection) -> dict[str, object]:
    return {
        "records": found.records,
        "dialects": [
            {
                "titles": dialect.titles,
                "protocols": dialect.protocols,
                "strength": dialect.strength.name.lower(),
                "evidence": dialect.evidence,
                "refusal": dialect.refusal or None,
                "settings": {name: list(values) for name, values in dialect.settings.items()},
                "records": dialect.records,
                "first": str(dialect.first),
            }
            for dialect in found.dialects
        ],
        "unknown": found.unknown,
        "without_value": found.empty,
    }


class Chosen(NamedTuple):
    """A source protocol with its options as `NAME=VALUE`."""

    protocol: str
    options: tuple[str, ...]


@contextmanager
def chosen_source(
    source: Input,
    protocol: str,
    options: tuple[str, ...],
    registry: str | None = None,
    *,
    spelling: Spelling = USUAL,
    quiet: bool,
) -> Iterator[tuple[Input, Chosen]]:
    """Yield the input and its protocol: the given one or, for `auto`, that of the first records.

    `registry`: URL or file with the schemas of Avro records. Raises ConfigError if the first records fit
    several protocols, or none that relay reads.
    """
    if protocol != AUTO:
        yield source, Chosen(protocol, options)
        return
    stream, lines = source.stream, list[bytes]()
    if stream.seekable():
        found = _of_first(source, stream, registry)
        stream.seek(0)
    else:
        lines = list(islice(stream, 1))
        found = _of_first(source, lines, registry)
        source = source._replace(stream=cast("BinaryIO", _PeekedLines(lines, stream)))
    chosen = _choose(found, options, spelling.protocol)
    if not quiet:
        dialect = found.dialects[0]
        given = "".join(f" {spelling.option} {option}" for option in chosen.options)
        say(f"{spelling.protocol} {chosen.protocol}{given}: {dialect.text}")
    yield source, chosen


class _PeekedLines:
    """Lines already taken, followed by the remaining ones."""

    def __init__(self, taken: Iterable[bytes], rest: Iterable[bytes]) -> None:
        self._lines = chain(taken, rest)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines)

    def seekable(self) -> bool:
        """Return False: it cannot be read twice."""
        return False


def _of_first(source: Input, lines: Iterable[bytes], registry: str | None) -> Detection:
    """Inspect the first records; lines that are no records are left to the reader of the whole input."""
    records: list[ConsumerRecord] = []
    try:
        records.extend(islice(RecordReader.of(source, lines), SAMPLE))
    except Malformed:
        if not records:
            raise
    return detect(records, _schemas(registry))


def _choose(found: Detection, options: tuple[str, ...], option: str) -> Chosen:
    """Return the protocol of most records, with the options that reading it needs."""
    readable = [each for each in found.dialects if each.protocols]
    if not found.records:
        raise ConfigError(
            [Problem(f"{option} auto", "no record to detect the protocol from", "name the protocol")]
        )
    if not found.dialects:
        hint = "name the protocol; `relay formats` lists them"
        raise ConfigError([Problem(f"{option} auto", "unknown format of the records", hint)])
    if not readable or readable[0] is not found.dialects[0]:
        first = found.dialects[0]
        why = f": {first.refusal}" if first.refusal else ", which relay does not read"
        hint = f"to read it anyway, name the protocol with {option}"
        raise ConfigError([Problem(f"{option} auto", f"this looks like {first.text}{why}", hint)])
    dialect = readable[0]
    if not dialect.protocol:
        names = " or ".join(dialect.protocols)
        raise ConfigError([Problem(f"{option} auto", f"the records can be {names}", f"{option} {names}")])
    codec = PROTOCOLS[dialect.protocol]
    given = {text.partition("=")[0] for text in options}
    needed = reading_settings(codec, dialect.options)
    added = [f"{name}={value}" for name, value in needed.items() if name not in given]
    return Chosen(dialect.protocol, (*options, *added))
