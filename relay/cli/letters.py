"""`relay dead-letters list` and `show`: what is in the dead-letter topic, and what the commands on it have in
common.
"""

from __future__ import annotations

import asyncio
import re
import sys
import time
from collections.abc import Callable
from datetime import datetime, timedelta
from pathlib import Path
from typing import Any

import msgspec
import orjson
import typer

from relay.cli.arguments import STANDARD, open_output
from relay.cli.event_text import Line, cell_text, printable, wall_time
from relay.cli.exits import say
from relay.cli.inspect import line_printer
from relay.cli.record_files import RecordWriter
from relay.config import Config, load_config
from relay.config.kafka import target_cluster
from relay.dead_letters import DeadLetter, Filter, Letters, Place, by_original
from relay.errors import ConfigError, Problem
from relay.kafka.clients import Brokers
from relay.kafka.reading import quiet_client, read_topic
from relay.record_lines import format_record
from relay.records import Header

_PIPE_WIDTH = 200
_SHOW_EVERY_SECONDS = 2.0
_UNITS = {"s": 1, "m": 60, "h": 3_600, "d": 86_400, "w": 604_800}
_DURATION = re.compile(r"(\d{1,9})([smhdw])")
_MILLISECOND = timedelta(milliseconds=1)
#: Controls that JSON may hold as they are, and that steer terminals.
_CONTROLS = re.compile("[\x7f-\x9f]")


class Request(msgspec.Struct, frozen=True, kw_only=True):
    """Which letters the user asked for; the fields are the commands' options."""

    config: Path
    codes: tuple[str, ...] = ()
    tables: tuple[str, ...] = ()
    since: str | None = None
    until: str | None = None
    topic: str | None = None
    partition: int | None = None
    offset: int | None = None
    route: str | None = None
    replayed: bool = False
    limit: int | None = None
    quiet: bool = False

    def filter(self, now_ms: int) -> Filter:
        """The letters that are meant. Raises ConfigError with every problem."""
        problems: list[Problem] = []
        since, until = (
            None if text is None else _moment(text, now_ms, option, problems)
            for text, option in ((self.since, "--since"), (self.until, "--until"))
        )
        if problems:
            raise ConfigError(problems)
        return Filter(
            codes=self.codes,
            tables=self.tables,
            since_ms=since,
            until_ms=until,
            topic=self.topic,
            partition=self.partition,
            offset=self.offset,
            route=self.route,
            replayed=self.replayed,
        )


def _moment(text: str, now_ms: int, option: str, problems: list[Problem]) -> int | None:
    """A point in time, in milliseconds since 1970: ISO 8601 with a zone, or how long ago."""
    duration = _DURATION.fullmatch(text)
    if duration:
        return now_ms - int(duration[1]) * _UNITS[duration[2]] * 1000
    hint = "for example 2026-01-31T12:00:00Z, or 2h for two hours ago"
    try:
        moment = datetime.fromisoformat(text)
    except ValueError:
        problems.append(Problem(option, f"{text!r} is neither a time nor a duration", hint))
        return None
    if moment.tzinfo is None:
        problems.append(Problem(option, f"{text!r} lacks its time zone", hint))
        return None
    return (moment - datetime.fromisoformat("1970-01-01T00:00:00Z")) // _MILLISECOND


def now_ms() -> int:
    """The time, in milliseconds since 1970."""
    return int(time.time() * 1000)


class Progress:
    """TypeInfo on stderr how far something is, every two seconds, so that what is quick says nothing."""

    def __init__(self, what: str, *, quiet: bool) -> None:
        self._what, self._quiet = what, quiet
        self._next = time.monotonic() + _SHOW_EVERY_SECONDS

    def __call__(self, done: int, total: int) -> None:
        """Tell how much is done."""
        if not self._quiet and time.monotonic() >= self._next:
            self._next = time.monotonic() + _SHOW_EVERY_SECONDS
            say(f"{self._what}: {done} of {total}")


def letter_config(path: Path) -> Config:
    """Load a configuration that names a dead-letter topic. Raises ConfigError."""
    config = load_config(path)
    if not config.errors.dead_letter_topic:
        hint = "name the topic that holds the dead letters of this route"
        raise ConfigError([Problem("errors.dead_letter_topic", "is not set", hint)])
    return config


async def read_letters(config: Config, keeps: Callable[[Place], bool], *, quiet: bool) -> Letters:
    """Read the whole dead-letter topic; key and value of those letters that `keeps` says. Raises
    ServiceError.
    """
    topic = config.errors.dead_letter_topic
    letters = Letters(keeps)
    with quiet_client():
        brokers = Brokers.from_settings(target_cluster(config))
        await read_topic(brokers, topic, letters.add, Progress(f"reading {topic}", quiet=quiet))
    return letters


async def with_values(config: Config, letters: list[DeadLetter], *, quiet: bool) -> list[DeadLetter]:
    """These letters once more with key and value; those that retention has deleted since are left out."""
    places = {letter.place for letter in letters}
    found = (await read_letters(config, places.__contains__, quiet=quiet)).found()
    return [letter for letter in found if letter.place in places]


def list_letters(request: Request, *, as_json: bool, export: str | None) -> None:
    """Print letters, or export their originals. Raises ConfigError, ServiceError."""
    wanted = request.filter(now_ms())
    config = letter_config(request.config)
    letters = asyncio.run(read_letters(config, lambda _: False, quiet=request.quiet))
    found = letters.found()
    chosen = wanted.of(found)
    chosen = chosen[-request.limit :] if request.limit else chosen
    if export is not None:
        _export(asyncio.run(with_values(config, chosen, quiet=request.quiet)), export)
    elif as_json:
        for letter in chosen:
            typer.echo(orjson.dumps(letter_object(letter)))
    elif chosen:
        others = {letter.route for letter in chosen} - {"", config.route_name}
        _print_table(chosen, with_route=bool(others), with_replayed=request.replayed)
    if not request.quiet:
        say(_summary(config.errors.dead_letter_topic, chosen, found, letters.others))


def _summary(topic: str, chosen: list[DeadLetter], found: list[DeadLetter], others: int) -> str:
    replayed = sum(letter.replayed_ms is not None for letter in found)
    parts = [f"dead letters in {topic}: {len(found)}, shown: {len(chosen)}"]
    if replayed:
        parts.append(f"replayed: {replayed} (--all shows them)")
    if others:
        parts.append(f"records that are no dead letters: {others}")
    return "; ".join(parts)


def _export(letters: list[DeadLetter], name: str) -> None:
    """Write the originals, each once, whatever routes they are of, and each partition in order."""
    with open_output(name, "--export") as output:
        writer = RecordWriter(output, "stdout" if name == STANDARD else name)
        for first, *_ in by_original(msgspec.structs.replace(letter, route="") for letter in letters):
            writer.write_original(first.original)
        writer.flush()


def letter_object(letter: DeadLetter) -> dict[str, Any]:
    """A letter for programs, without key, value and headers."""
    return {
        "position": letter.place._asdict(),
        "source": letter.source._asdict(),
        "route": letter.route,
        "timestamp": letter.original.timestamp_ms,
        "code": letter.code,
        "protocol": letter.protocol,
        "path": letter.path,
        "detail": letter.detail,
        "tables": [msgspec.structs.asdict(table) for table in letter.tables],
        "replayed": letter.replayed_ms,
    }


def _print_table(letters: list[DeadLetter], *, with_route: bool, with_replayed: bool) -> None:
    # rich's tables cost 50 ms to import.
    from rich import box
    from rich.console import Console
    from rich.markup import escape
    from rich.table import Table

    table = Table(box=box.SIMPLE_HEAD)
    more = [name for name, is_shown in (("route", with_route), ("replayed", with_replayed)) if is_shown]
    for heading in ("position", "source", "time", "code", "tables", "reason", *more):
        table.add_column(heading, overflow="fold")
    for letter in letters:
        cells = [
            f"{letter.place.partition}/{letter.place.offset}",
            str(letter.source),
            _time(letter.original.timestamp_ms),
            letter.code,
            ", ".join(map(str, letter.tables)),
            ": ".join(filter(None, (letter.path, letter.detail))),
        ]
        if with_route:
            cells.append(letter.route)
        if with_replayed:
            cells.append("" if letter.replayed_ms is None else _time(letter.replayed_ms))
        table.add_row(*(escape(printable(cell)) for cell in cells))
    # A pipe has no width; wrapping lines for it would only make them hard to search.
    Console(width=None if sys.stdout.isatty() else _PIPE_WIDTH).print(table)


def _time(milliseconds: int) -> str:
    return wall_time(milliseconds * 1_000_000)


def show_letter(request: Request, position: str, *, as_json: bool) -> None:
    """Print one letter with key and value. Raises ConfigError, ServiceError."""
    config = letter_config(request.config)
    topic = config.errors.dead_letter_topic
    place = Place.read(position if position.count("/") > 1 else f"{topic}/{position}")
    if place is None or place.topic != topic:
        hint = f"PARTITION/OFFSET in {topic}, as `list` shows it"
        raise ConfigError([Problem("POSITION", f"{position!r} is no position of a dead letter", hint)])
    letters = asyncio.run(read_letters(config, lambda each: each == place, quiet=request.quiet)).found()
    letter = next((letter for letter in letters if letter.place == place), None)
    if letter is None:
        raise ConfigError(
            [
                Problem(
                    "POSITION", f"there is no dead letter at {place}", "`relay dead-letters list` shows all"
                )
            ]
        )
    record = record_json(format_record(letter.original, letter.source.offset))
    if as_json:
        typer.echo(orjson.dumps(letter_object(letter) | {"record": orjson.Fragment(record)}))
        return
    line_printer()(_letter_lines(letter))
    typer.echo(record)


def record_json(line: bytes) -> str:
    """A record's line for a terminal: the same JSON, with control characters escaped."""
    return _CONTROLS.sub(lambda found: f"\\u{ord(found[0]):04x}", line.decode().rstrip("\n"))


def _letter_lines(letter: DeadLetter) -> list[Line]:
    rows = {
        "original": str(letter.source),
        "route": letter.route,
        "time": _time(letter.original.timestamp_ms),
        "code": letter.code,
        "protocol": letter.protocol,
        "path": letter.path,
        "reason": letter.detail,
        "tables": ", ".join(map(str, letter.tables)),
        "replayed": "no" if letter.replayed_ms is None else _time(letter.replayed_ms),
    }
    lines: list[Line] = [[("dead letter", "bold red"), (f"  {printable(str(letter.place))}", "bold")]]
    lines += [[(f"  {name:10}", "dim"), (printable(text), "")] for name, text in rows.items() if text]
    return [*lines, *header_lines(letter.original.headers), [("  the original as a record:", "dim")]]


def header_lines(headers: tuple[Header, ...]) -> list[Line]:
    """Headers, one a line, values in quotes or as X'00FF'."""
    return [
        [(f"  {'headers' if number == 0 else '':10}", "dim"), (f"{printable(name)}  {bytes_text(value)}", "")]
        for number, (name, value) in enumerate(headers)
    ]


def bytes_text(data: bytes | None) -> str:
    """Bytes in quotes where they are text, as X'00FF' where they are not, NULL."""
    if data is None:
        return "NULL"
    try:
        return cell_text(data.decode())
    except UnicodeDecodeError:
        return cell_text(data)
