"""`relay offsets`: show, seek and reset the positions from which a stopped relay continues."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Collection, Mapping, Sequence
from typing import Final

import typer
from aiokafka import TopicPartition

from relay.cli.event_text import Line, aligned
from relay.cli.exits import ProgressReport, say, say_warning
from relay.cli.inspect import line_printer
from relay.cli.offset_texts import (
    SeekTarget,
    change_object,
    effect_text,
    state_text,
    stored_object,
    warnings_of,
)
from relay.cli.parsing import parse_time
from relay.cli.requests.offsets import (
    ChangeOptions,
    ResetOffsetsRequest,
    SeekRequest,
    ShowOffsetsRequest,
)
from relay.config import Config
from relay.config.kafka import shard_settings, source_cluster
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Partition
from relay.io.kafka.reading import count_records, quiet_client
from relay.io.kafka.settings import Start, StartSettings
from relay.model.errors import ConfigError, Problem, RelayRunning
from relay.model.events import TSO_LOGICAL_BITS
from relay.model.records import RecordPosition
from relay.service.commands.activity import Activity, activity
from relay.service.commands.offset_changes import OffsetChange, StoredOffset
from relay.service.commands.offsets import (
    RoutePositions,
    apply,
    is_exactly_once,
    positions_of,
    storage_of,
)
from relay.text.redaction import plural, printable, quoted, to_json

_DRY_RUN: Final = "dry run: nothing was changed; add --execute to do it"
_FENCED: Final = (
    "shards join no group, so an instance that is idle or paused may go unnoticed; if one still runs, the "
    "change fences it: it ends with service.fenced, and its restart begins at the new positions"
)


# ---------------------------------------------------------------- show


def show(request: ShowOffsetsRequest) -> None:
    """Print the position in each partition. Raises ConfigError, ServiceError."""
    config = request.config.load()
    with quiet_client():
        stored, found = asyncio.run(_look(config))
    shards = len(shard_settings(config)) if is_exactly_once(config) else 0
    if request.as_json:
        for each in stored:
            typer.echo(to_json(stored_object(each, shards)))
    else:
        line_printer()(_stored_table(stored, shards))
    for each in stored:
        if each.why_unknown:
            say_warning(f"{each.partition}: {each.why_unknown}")
    if not request.quiet:
        say(f"positions: {storage_of(config)}; without one, reading begins at start = {config.source.start}")
        _say_activity(found)


async def _look(config: Config) -> tuple[list[StoredOffset], Activity]:
    async with positions_of(config) as positions:
        stored = await positions.stored()
    return stored, await activity(config)


def _say_activity(found: Activity) -> None:
    for text in (*found.running, *found.unknown):
        say(text)


def _stored_table(stored: Sequence[StoredOffset], shards: int) -> list[Line]:
    titles = ["partition", "stored", "begins", "oldest", "end", "left", *(["shard"] if shards else []), ""]
    rows: list[Line] = [[(title, "dim") for title in titles]]
    for each in stored:
        numbers = (each.committed, each.begins, each.first, each.end, each.left)
        cells = [printable(str(each.partition)), *("-" if at is None else str(at) for at in numbers)]
        if shards:
            cells.append(str(each.partition.partition % shards))
        rows.append([(text, "") for text in (*cells, state_text(each))])
    return aligned(rows)


# ---------------------------------------------------------------- seek and reset


def seek(request: SeekRequest) -> None:
    """Show or store positions at the target. Raises ConfigError, ServiceError."""
    config = request.config.load()
    target = _target_of(request, config)
    chosen = _partitions(request.partitions, config)
    with quiet_client():
        asyncio.run(_change(config, target, chosen, request.change))


def reset(request: ResetOffsetsRequest) -> None:
    """Show or store the positions at which a new group would begin. Raises ConfigError, ServiceError."""
    config = request.config.load()
    chosen = _partitions(request.partitions, config)
    target = SeekTarget(f"start = {config.source.start}")
    with quiet_client():
        asyncio.run(_change(config, target, chosen, request.change))


def _target_of(request: SeekRequest, config: Config) -> SeekTarget:
    """Return the target of the request. Raises ConfigError unless there is exactly one."""
    problems: list[Problem] = []
    found: list[SeekTarget] = []
    if request.offsets:
        found.append(SeekTarget("the given offsets", offsets=_offsets(request.offsets, config, problems)))
        if request.partitions:
            problems.append(Problem("--partition", "has no effect with --to-offset", "leave it out"))
    if request.time is not None:
        at = parse_time(request.time, int(time.time() * 1000), "--to-time", problems)
        found.append(SeekTarget(request.time, StartSettings(Start.TIMESTAMP, timestamp_ms=at)))
    if request.commit_ts is not None:
        start = StartSettings(Start.COMMIT_TS, commit_time_ms=request.commit_ts >> TSO_LOGICAL_BITS)
        found.append(SeekTarget(f"commit ts {request.commit_ts}", start))
    if request.earliest:
        found.append(SeekTarget("the oldest record", StartSettings(Start.EARLIEST)))
    if request.latest:
        found.append(SeekTarget("the end", StartSettings(Start.LATEST)))
    if len(found) != 1:
        names = "--to-offset, --to-time, --to-commit-ts, --to-earliest, --to-latest"
        problems.append(Problem("target", f"{len(found)} are given", f"give exactly one of {names}"))
    if problems:
        raise ConfigError(problems)
    return found[0]


def _offsets(texts: Sequence[str], config: Config, problems: list[Problem]) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    for text in texts:
        named = text if text.count("/") > 1 else _with_topic(text, config)
        position = RecordPosition.parse(named)
        if position is None:
            hint = "write TOPIC/PARTITION/OFFSET, for example orders/0/4711"
            problems.append(Problem("--to-offset", f"{quoted(text)} is not a position", hint))
        elif Partition(*position[:2]) in found:
            problems.append(Problem("--to-offset", f"{position.topic}/{position.partition} is given twice"))
        else:
            found[Partition(*position[:2])] = position.offset
    return found


def _partitions(texts: Sequence[str], config: Config) -> list[Partition]:
    """Parse partitions. Raises ConfigError with every problem."""
    found, problems = list[Partition](), list[Problem]()
    for text in texts:
        named = text if "/" in text else _with_topic(text, config)
        position = RecordPosition.parse(f"{named}/0")
        if position is None:
            hint = "write TOPIC/PARTITION, for example orders/0"
            problems.append(Problem("--partition", f"{quoted(text)} is not a partition", hint))
        else:
            found.append(Partition(position.topic, position.partition))
    if problems:
        raise ConfigError(problems)
    return found


def _with_topic(text: str, config: Config) -> str:
    """Complete a position without a topic, if the route has one topic."""
    topics = config.source.topics
    return f"{topics[0]}/{text}" if len(topics) == 1 else text


async def _change(
    config: Config, target: SeekTarget, chosen: Sequence[Partition], options: ChangeOptions
) -> None:
    """Show the effect of a change and, on request, make it."""
    async with positions_of(config) as positions:
        changes, gaps = await _changes(positions, target, chosen)
        records = await _counted(config, changes, options) if options.count else {}
        _print_changes(changes, records, options)
        for text in (*warnings_of(config, target, changes, is_counted=options.count), *gaps):
            say_warning(text)
        if not any(each.is_needed for each in changes):
            say("nothing to change")
            return
        if not options.execute:
            found = await activity(config)
            for text in found.running:
                say_warning(f"{text}: --execute would be refused")
            _tell(options, *found.unknown, _DRY_RUN)
            return
        await _refuse_if_running(config, options)
        await apply(config, positions, changes)
        changed = sum(each.is_needed for each in changes)
        _tell(
            options,
            f"positions of {plural(changed, 'partition')} changed to {target.text}; {storage_of(config)}",
        )


async def _refuse_if_running(config: Config, options: ChangeOptions) -> None:
    """Raise RelayRunning if an instance of the route runs."""
    found = await activity(config, options.watch, lambda text: _tell(options, text))
    if found.running:
        raise RelayRunning(f"{'; '.join(found.running)}; stop all instances first; nothing was changed")
    _tell(options, *found.unknown, *([_FENCED] if is_exactly_once(config) else []))


def _tell(options: ChangeOptions, *texts: str) -> None:
    """Print lines on stderr, unless `quiet` is set."""
    if not options.quiet:
        for text in texts:
            say(text)


async def _changes(
    positions: RoutePositions, target: SeekTarget, chosen: Sequence[Partition]
) -> tuple[list[OffsetChange], Sequence[str]]:
    """Return the change of each partition, and texts about records that may be missing before it."""
    stored = {each.partition: each for each in await positions.stored()}
    wanted: Collection[Partition] = target.offsets or chosen or stored.keys()
    _check_exist(wanted, stored, "--to-offset" if target.offsets else "--partition")
    offsets, gaps = target.offsets, list[str]()
    if offsets is None:
        found = await positions.find(target.start, wanted)
        offsets = {Partition(*pair): at for pair, at in found.offsets.items()}
        gaps += found.gaps
    else:
        _check_within(offsets, stored)
    return [OffsetChange(stored=stored[each], to=offsets[each]) for each in sorted(wanted)], gaps


def _check_exist(
    wanted: Collection[Partition], stored: Mapping[Partition, StoredOffset], option: str
) -> None:
    missing = sorted(set(wanted) - stored.keys())
    if missing:
        text = f"the route reads no partition {printable(', '.join(map(str, missing)))}"
        raise ConfigError([Problem(option, text, "`relay offsets show` lists all")])


def _check_within(offsets: Mapping[Partition, int], stored: Mapping[Partition, StoredOffset]) -> None:
    """Raise ConfigError for offsets outside of their partitions."""
    problems = [
        Problem(
            "--to-offset",
            f"{each} has the offsets {stored[each].first} to {stored[each].end} (the next one), not {offset}",
        )
        for each, offset in sorted(offsets.items())
        if not stored[each].first <= offset <= stored[each].end
    ]
    if problems:
        raise ConfigError(problems)


async def _counted(
    config: Config, changes: Sequence[OffsetChange], options: ChangeOptions
) -> dict[Partition, int]:
    """Count the records that are repeated, added or skipped, by reading them."""
    spans = {TopicPartition(*each.stored.partition): each.read for each in changes if each.read is not None}
    brokers = Brokers.from_settings(source_cluster(config))
    found = await count_records(brokers, spans, ProgressReport("counting records", quiet=options.quiet))
    return {Partition(*pair): count for pair, count in found.items()}


def _print_changes(
    changes: Sequence[OffsetChange], records: Mapping[Partition, int], options: ChangeOptions
) -> None:
    if options.as_json:
        for each in changes:
            typer.echo(to_json(change_object(each, records.get(each.stored.partition))))
        return
    rows: list[Line] = [[(title, "dim") for title in ("partition", "from", "to", "effect")]]
    for each in changes:
        committed = "-" if each.stored.committed is None else str(each.stored.committed)
        effect = effect_text(each, records.get(each.stored.partition))
        rows.append(
            [(text, "") for text in (printable(str(each.stored.partition)), committed, str(each.to), effect)]
        )
    line_printer()(aligned(rows))
