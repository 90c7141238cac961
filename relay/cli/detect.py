"""`relay detect`: which protocol and dialect records have; and `--from auto` of the other commands."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from itertools import chain, islice
from typing import BinaryIO, Final, NamedTuple, cast

import msgspec
import orjson
import typer

from relay.cli.arguments import Input, InputFormat
from relay.cli.exits import describe, say, say_warning
from relay.cli.record_files import RecordReader
from relay.codecs import PROTOCOLS
from relay.codecs.codec import Codec, side_of, types_of_options
from relay.detection import Detection, Dialect, detect
from relay.errors import ConfigError, Malformed, Problem, RelayError
from relay.records import ConsumerRecord
from relay.resolver import Registry
from relay.shown import printable

AUTO: Final = "auto"
#: How many records are looked at.
SAMPLE: Final = 200
_NOTHING_FOUND = 2


def show_detected(source: Input, input_format: InputFormat, registry: str | None, *, as_json: bool) -> int:
    """Print what the records of an input have. Return the exit status: 2 for nothing that relay reads."""
    records = islice(RecordReader(source.stream, source.name, input_format), SAMPLE)
    found = detect(records, _schemas(registry))
    if as_json:
        typer.echo(orjson.dumps(_object(found)))
    else:
        typer.echo("\n".join(printable(line, longest=None) for line in _lines(found, source.name)))
    return 0 if any(dialect.protocols for dialect in found.dialects) else _NOTHING_FOUND


def _schemas(place: str | None) -> Callable[[ConsumerRecord], str] | None:
    """Return what finds the text of the schema that a record's value names, None without a registry."""
    if place is None:
        return None
    from relay.cli.registries import registry_of

    registry = registry_of(place, "source")
    known: dict[int | str, str] = {}

    def schema_of(record: ConsumerRecord) -> str:
        ids = PROTOCOLS["debezium-avro"].named_schemas(msgspec.structs.replace(record, key=None))
        if not ids:
            return ""
        if ids[0] not in known:
            known[ids[0]] = _schema_text(registry, ids[0])
        return known[ids[0]]

    return schema_of


def _schema_text(registry: Registry, id: int | str) -> str:
    try:
        return registry.schema(id).text
    except RelayError as error:
        say_warning(describe(error))
        return ""


def _lines(found: Detection, name: str) -> Iterator[str]:
    yield f"{name}: {found.records} record{'s'[: found.records != 1]} looked at"
    for dialect in found.dialects:
        yield ""
        yield from _dialect_lines(dialect)
    if found.unknown:
        yield ""
        yield f"{found.unknown} of no format that relay knows"
    if found.empty:
        yield f"{found.empty} without a value (tombstones)"


def _dialect_lines(dialect: Dialect) -> Iterator[str]:
    yield f"{' or '.join(dialect.titles)}"
    protocols = " or ".join(dialect.protocols) or "none: relay does not read this format"
    yield f"  protocol  {protocols}"
    yield f"  sure      {dialect.strength.name.lower()}"
    yield f"  records   {dialect.records}, the first at {dialect.first}"
    for number, evidence in enumerate(dialect.evidence):
        yield f"  {'' if number else 'evidence':8}  {evidence}"
    for number, (name, values) in enumerate(sorted(dialect.settings.items())):
        yield f"  {'' if number else 'settings':8}  {name}={' and '.join(values)}"
    if dialect.protocol:
        yield f"  next      relay inspect --from {dialect.protocol}"


def _object(found: Detection) -> dict[str, object]:
    return {
        "records": found.records,
        "dialects": [
            {
                "titles": dialect.titles,
                "protocols": dialect.protocols,
                "strength": dialect.strength.name.lower(),
                "evidence": dialect.evidence,
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
    source: Input, input_format: InputFormat, protocol: str, options: tuple[str, ...], *, quiet: bool
) -> Iterator[tuple[Input, Chosen]]:
    """Give the input with the protocol that is asked for, or with `auto` the one that its first records have.

    Raises ConfigError if these can be several, or none that relay reads.
    """
    if protocol != AUTO:
        yield source, Chosen(protocol, options)
        return
    stream, lines = source.stream, list[bytes]()
    if stream.seekable():
        found = _of_first(stream, source.name, input_format)
        stream.seek(0)
    else:
        lines = list(islice(stream, 1))
        found = _of_first(lines, source.name, input_format)
        source = source._replace(stream=cast("BinaryIO", _Again(lines, stream)))
    chosen = _choose(found, options)
    if not quiet:
        dialect = found.dialects[0]
        given = "".join(f" --from-option {option}" for option in chosen.options)
        say(f"--from {chosen.protocol}{given}: {dialect.said}")
    yield source, chosen


class _Again:
    """Lines that were taken, and those behind them."""

    def __init__(self, taken: Iterable[bytes], rest: Iterable[bytes]) -> None:
        self._lines = chain(taken, rest)

    def __iter__(self) -> Iterator[bytes]:
        return iter(self._lines)

    def seekable(self) -> bool:
        """Say that it cannot be read twice."""
        return False


def _of_first(lines: Iterable[bytes], name: str, input_format: InputFormat) -> Detection:
    """Look at the first records; what is no record is left to whoever reads all."""
    records: list[ConsumerRecord] = []
    try:
        records.extend(islice(RecordReader(lines, name, input_format), SAMPLE))
    except Malformed:
        if not records:
            raise
    return detect(records)


def _choose(found: Detection, options: tuple[str, ...]) -> Chosen:
    """Return the protocol of most records, with the options that reading it needs."""
    readable = [each for each in found.dialects if each.protocols]
    if not found.records:
        raise ConfigError([Problem("--from auto", "there is no record to tell by", "name the protocol")])
    if not found.dialects:
        hint = "name the protocol; `relay formats` lists them"
        raise ConfigError([Problem("--from auto", "the records are of no format that relay knows", hint)])
    if not readable or readable[0] is not found.dialects[0]:
        said = f"this looks like {found.dialects[0].said}, which relay does not read"
        raise ConfigError([Problem("--from auto", said)])
    dialect = readable[0]
    if not dialect.protocol:
        names = " or ".join(dialect.protocols)
        raise ConfigError([Problem("--from auto", f"the records can be {names}", f"--from {names}")])
    codec = PROTOCOLS[dialect.protocol]
    given = {text.partition("=")[0] for text in options}
    told = [f"{name}={value}" for name, value in reading_settings(codec, dialect) if name not in given]
    return Chosen(dialect.protocol, (*options, *told))


def reading_settings(codec: Codec, dialect: Dialect) -> list[tuple[str, str]]:
    """Return what a reader has to be told of a dialect. Most of it the messages tell again."""
    types = types_of_options(codec.options)
    return [
        (name, value)
        for name, value in dialect.options.items()
        if name in types and side_of(types[name]) != "target" and name in _NEEDED
    ]


#: Settings that a decoder does not find out by itself, or sooner with them.
_NEEDED: Final = frozenset({"large-message-handle-compression"})
