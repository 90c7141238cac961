"""`relay dead-letters`: list, show, export and replay the records of the dead-letter topic."""

from __future__ import annotations

import asyncio
import sys
import time
from collections.abc import Callable
from typing import Any, NamedTuple

import msgspec
import orjson
import typer

from relay.cli import layout
from relay.cli.event_text import Line, aligned, header_lines, wall_time
from relay.cli.exits import ProgressReport, say, say_warning
from relay.cli.files import STANDARD, open_output
from relay.cli.inspect import line_printer
from relay.cli.parsing import parse_time
from relay.cli.record_files import RecordWriter
from relay.cli.requests.dead_letters import LetterFilter, ListRequest, ReplayRequest, ShowDeadLettersRequest
from relay.cli.requests.options import ConfigSource
from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.core.dead_letters import DeadLetter, DeadLetterFilter, DeadLetterIndex, by_original
from relay.io.kafka.clients import Brokers
from relay.io.kafka.reading import quiet_client, read_records, read_topic
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError, Problem
from relay.model.records import RecordPosition
from relay.service.commands.offline import learned_translator
from relay.service.commands.replay import Outcome, Replay, table_topics, target_topics
from relay.service.commands.replay_claim import only_replay
from relay.text.redaction import plain_json, printable, to_json
from relay.topics.matching import with_found_topics

FAILED = 2
_REPLAY_WARNING = (
    "Replayed records come after newer ones of the same key: a reader that applies them in order may go "
    "back to an older row. Their header relay.source has their original position."
)


def filter_of(options: LetterFilter) -> DeadLetterFilter:
    """Return the filter that the options describe. Raises ConfigError with every problem."""
    now_ms = int(time.time() * 1000)
    problems: list[Problem] = []
    since, until = (
        None if text is None else parse_time(text, now_ms, option, problems)
        for text, option in ((options.since, "--since"), (options.until, "--until"))
    )
    if problems:
        raise ConfigError(problems)
    return DeadLetterFilter(
        codes=options.codes,
        tables=options.tables,
        since_ms=since,
        until_ms=until,
        topic=options.topic,
        partition=options.partition,
        offset=options.offset,
        route=options.route,
        replayed=options.replayed,
    )


def _say(request: ListRequest | ReplayRequest, text: str) -> None:
    """Print on stderr, unless `quiet` is set."""
    if not request.quiet:
        say(text)


def _load_config(given: ConfigSource) -> Config:
    """Load a configuration that names a dead-letter topic. Raises ConfigError."""
    config = given.load()
    if not config.dead_letter_topic:
        hint = "name the topic that holds the dead letters of this route"
        raise ConfigError([Problem("errors.dead_letter_topic", "is not set", hint)])
    return config


async def _read_index(
    config: Config, keeps_content: Callable[[RecordPosition], bool], *, quiet: bool
) -> DeadLetterIndex:
    """Read the whole dead-letter topic. Raises ServiceError."""
    topic = config.dead_letter_topic
    index = DeadLetterIndex(keeps_content)
    progress = ProgressReport(f"reading {topic}", quiet=quiet)
    with quiet_client():
        await read_topic(Brokers.from_settings(target_cluster(config)), topic, index.add, progress)
    return index


class _WithContent(NamedTuple):
    """Dead letters with key and value, and the number of those whose originals are gone."""

    letters: list[DeadLetter]
    gone: int = 0


async def _with_content(config: Config, chosen: list[DeadLetter], *, quiet: bool) -> _WithContent:
    """Read dead letters again, now with key and value: their own, or those of their originals.

    Those that retention has deleted since are left out. Originals that it has deleted are named.
    """
    positions = {each.position for each in chosen}
    index = await _read_index(config, positions.__contains__, quiet=quiet)
    letters = [each for each in index.dead_letters() if each.position in positions]
    omitted = [each.source for each in letters if not each.has_payload]
    if not omitted:
        return _WithContent(letters)
    progress = ProgressReport("reading the originals in the source topics", quiet=quiet)
    with quiet_client():
        found = await read_records(Brokers.from_settings(source_cluster(config)), omitted, progress)
    for position in sorted(set(omitted) - found.keys()):
        say_warning(f"the original at {printable(str(position))} is gone: its topic no longer has it")
    readable = [
        each if each.has_payload else msgspec.structs.replace(each, original=found[each.source])
        for each in letters
        if each.has_payload or each.source in found
    ]
    return _WithContent(readable, len(letters) - len(readable))


def list_dead_letters(request: ListRequest) -> int:
    """Print dead letters, or export their originals.

    Returns 2 if some originals are gone, and so are not exported. Raises ConfigError, ServiceError.
    """
    gone = 0
    wanted = filter_of(request.filter)
    config = _load_config(request.config)
    index = asyncio.run(_read_index(config, lambda _: False, quiet=request.quiet))
    found = index.dead_letters()
    chosen = wanted.filter(found)
    if request.limit:
        chosen = chosen[-request.limit :]
    if request.export is not None:
        letters, gone = asyncio.run(_with_content(config, chosen, quiet=request.quiet))
        _export(letters, request.export)
    elif request.as_json:
        for each in chosen:
            typer.echo(to_json(_object(each)))
    elif chosen:
        others = {each.route for each in chosen} - {"", config.route_name}
        print_letters(chosen, with_route=bool(others), with_replayed=request.filter.replayed)
    _say(request, _list_summary(config.dead_letter_topic, chosen, found, index.other_records))
    return FAILED if gone else 0


def _list_summary(topic: str, chosen: list[DeadLetter], found: list[DeadLetter], others: int) -> str:
    replayed = sum(each.replayed_ms is not None for each in found)
    parts = [f"dead letters in {topic}: {len(found)}, shown: {len(chosen)}"]
    if replayed:
        parts.append(f"replayed: {replayed} (--all shows them)")
    if others:
        parts.append(f"records that are not dead letters: {others}")
    return "; ".join(parts)


def _export(dead_letters: list[DeadLetter], name: str) -> None:
    """Write the originals in the order of each partition.

    Each is written once even if several routes have made dead letters of it.
    """
    with open_output(name, "--export") as output:
        writer = RecordWriter(output, "stdout" if name == STANDARD else name)
        for first, *_ in by_original(msgspec.structs.replace(each, route="") for each in dead_letters):
            writer.write_original(first.original)
        writer.flush()


def _object(found: DeadLetter) -> dict[str, Any]:
    """Return a dead letter for programs, without key, value and headers."""
    return {
        "position": found.position._asdict(),
        "source": found.source._asdict(),
        "route": found.route,
        "timestamp": found.original.timestamp_ms,
        "code": found.code,
        "protocol": found.protocol,
        "path": found.path,
        "detail": found.detail,
        "tables": [msgspec.structs.asdict(table) for table in found.tables],
        "replayed": found.replayed_ms,
        "has_payload": found.has_payload,
    }


def print_letters(chosen: list[DeadLetter], *, with_route: bool, with_replayed: bool) -> None:
    """Print a line for each dead letter, or a block where lines would not fit the terminal."""
    more = [name for name, is_shown in (("route", with_route), ("replayed", with_replayed)) if is_shown]
    headings = ("position", "source", "time", "code", "tables", "reason", *more)
    rows = [_cells(each, more) for each in chosen]
    columns = layout.width()
    table = aligned([[(title, "dim") for title in headings], *[[(text, "") for text in row] for row in rows]])
    widest = max(sum(len(text) for text, _ in line) for line in table)
    if columns is None or widest <= columns:
        line_printer()(table)
        return
    for row in rows:
        for line in (*_block(dict(zip(headings, row, strict=True)), columns), ""):
            typer.echo(line)


def _cells(each: DeadLetter, more: list[str]) -> list[str]:
    cells = [
        f"{each.position.partition}/{each.position.offset}",
        str(each.source),
        _time(each.original.timestamp_ms),
        each.code,
        ", ".join(map(str, each.tables)),
        ": ".join(filter(None, (each.path, each.detail))),
    ]
    last = {
        "route": each.route,
        "replayed": "" if each.replayed_ms is None else _time(each.replayed_ms),
    }
    return [printable(text) for text in (*cells, *(last[name] for name in more))]


def _block(cells: dict[str, str], columns: int) -> list[str]:
    """Return a dead letter as lines: its position, then its details."""
    head = f"{cells['source']}  {cells['time']}"
    lines = layout.wrapped(head, f"{cells['position']}  ", "    ", columns)
    for name in ("code", "tables", "reason", "route", "replayed"):
        if cells.get(name):
            lines += layout.wrapped(cells[name], f"    {name:8}  ", " " * 14, columns)
    return lines


def _time(milliseconds: int) -> str:
    return wall_time(milliseconds * 1_000_000)


def show_dead_letter(request: ShowDeadLettersRequest) -> None:
    """Print one dead letter with key and value. Raises ConfigError, ServiceError."""
    config = _load_config(request.config)
    topic, text = config.dead_letter_topic, request.position
    position = RecordPosition.parse(text if text.count("/") > 1 else f"{topic}/{text}")
    if position is None or position.topic != topic:
        hint = f"PARTITION/OFFSET in {topic}, as `list` shows it"
        raise ConfigError([Problem("POSITION", f"{text!r} is not the position of a dead letter", hint)])
    index = asyncio.run(_read_index(config, lambda each: each == position, quiet=request.quiet))
    found = next((each for each in index.dead_letters() if each.position == position), None)
    if found is None:
        hint = "`relay dead-letters list` shows all"
        raise ConfigError([Problem("POSITION", f"no dead letter at {position}", hint)])
    record = plain_json(format_record(found.original, found.source.offset).rstrip(b"\n"))
    if request.as_json:
        typer.echo(to_json(_object(found) | {"record": orjson.Fragment(record)}))
        return
    line_printer()(_lines(found))
    typer.echo(record)


def _lines(found: DeadLetter) -> list[Line]:
    rows = {
        "original": str(found.source),
        "route": found.route,
        "time": _time(found.original.timestamp_ms),
        "code": found.code,
        "protocol": found.protocol,
        "path": found.path,
        "reason": found.detail,
        "tables": ", ".join(map(str, found.tables)),
        "replayed": "no" if found.replayed_ms is None else _time(found.replayed_ms),
    }
    lines: list[Line] = [[("dead letter", "bold red"), (f"  {printable(str(found.position))}", "bold")]]
    lines += [[(f"  {name:10}", "dim"), (printable(text), "")] for name, text in rows.items() if text]
    if not found.has_payload:
        text = "  the original as a record, without key, value and headers, which this route does not keep:"
        return [*lines, [(text, "dim")]]
    return [*lines, *header_lines(found.original.headers), [("  the original as a record:", "dim")]]


def replay_dead_letters(request: ReplayRequest) -> int:
    """Translate dead letters again and write the results to the target. Return 2 if some failed again, or if
    their originals are gone.

    Raises ConfigError, ServiceError.
    """
    wanted = filter_of(request.filter)
    config = _load_config(request.config)
    with quiet_client():
        outcome = asyncio.run(_replay_alone(config, wanted, request))
    for failure in outcome.failed:
        error = failure.error
        sys.stdout.write(f"{printable(f'{failure.letter.source}  {error.code}  {error}')}\n")
    return FAILED if outcome.failed or outcome.gone else 0


async def _replay_alone(config: Config, wanted: DeadLetterFilter, request: ReplayRequest) -> Outcome:
    """Replay while no other replay does. A dry run writes nothing, and interferes with no other."""
    if request.dry_run:
        return await _replay(config, wanted, request)
    return await only_replay(
        config, lambda: _replay(config, wanted, request), lambda text: _say(request, text)
    )


async def _replay(config: Config, wanted: DeadLetterFilter, request: ReplayRequest) -> Outcome:
    config = await with_found_topics(config)
    chosen = await _choose(config, wanted, request)
    if not chosen:
        _say(request, "No dead letters to replay.")
        return Outcome()
    own = filter(None, (config.dead_letter_topic, config.history_topic))
    topics = await target_topics(config, {*config.fixed_topics, *own})
    learned = await learned_translator(config)
    if learned.failed:
        unreadable = f"{learned.failed} of {learned.records}"
        _say(request, f"records of the schema history that cannot be read with this route: {unreadable}")
    if not request.dry_run:
        _say(request, _REPLAY_WARNING)
    dead_letters, gone = await _with_content(config, chosen, quiet=request.quiet)
    targets = await table_topics(config, topics, learned.translator)
    replay = Replay(config, learned.translator, topics, targets, writes=not request.dry_run)
    replay.outcome.gone = gone
    try:
        return await replay.run(dead_letters, ProgressReport("replaying", quiet=request.quiet))
    finally:
        _say(request, _replay_summary(replay.outcome, dry_run=request.dry_run))


async def _choose(config: Config, wanted: DeadLetterFilter, request: ReplayRequest) -> list[DeadLetter]:
    """Return the dead letters of the route, or those of the route in the request.

    Includes those written before the route's `from` was changed. `--limit` takes their first originals. Those
    of source topics that this configuration does not read are left alone. Those without a route may be of
    any.
    """
    index = await _read_index(config, lambda _: False, quiet=request.quiet)
    found = wanted.filter(index.dead_letters())
    own = [each for each in found if each.original.topic in config.target_topics]
    if len(own) < len(found):
        topics = ", ".join(sorted({each.original.topic for each in found} - config.target_topics.keys()))
        others = len(found) - len(own)
        _say(request, f"dead letters of other topics ({printable(topics)}), not replayed: {others}")
    names = {wanted.route}
    if wanted.route is None:
        corrected = {each.route for each in own if config.is_corrected(each.route)}
        names = {"", config.route_name, *corrected}
        if corrected:
            count = sum(each.route in corrected for each in own)
            shown = printable("; ".join(sorted(corrected)))
            _say(
                request,
                f"dead letters of this route before `from` was changed ({shown}), "
                f"replayed with {config.route.from_}: {count}",
            )
    chosen = [each for each in own if each.route in names]
    if len(chosen) < len(own):
        routes = "; ".join(sorted({each.route for each in own} - names))
        _say(
            request,
            f"dead letters of other routes ({printable(routes)}), not replayed: {len(own) - len(chosen)}; "
            "--route NAME takes those of one of them",
        )
    return [each for same in by_original(chosen)[: request.limit] for each in same]


def _replay_summary(outcome: Outcome, *, dry_run: bool) -> str:
    if dry_run:
        return (
            f"dead letters that can be replayed: {outcome.letters}, records to write: {outcome.records}, "
            f"dead letters that fail again: {len(outcome.failed)}; nothing was written"
        )
    return (
        f"dead letters replayed: {outcome.letters}, records written: {outcome.records}, "
        f"failed again and kept: {len(outcome.failed)}"
    )
