"""`relay offsets`: show the committed offsets of a route, and change them while it is stopped."""

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
    OffsetsTarget,
    SeekTarget,
    StartTarget,
    change_object,
    effect_text,
    offsets_object,
    state_text,
    warnings_of,
)
from relay.cli.parsing import parse_time
from relay.cli.requests.offsets import (
    ChangeOptions,
    ResetOffsetsRequest,
    SeekRequest,
    ShowOffsetsRequest,
)
from relay.cli.source_positions import parse_partition, parse_position
from relay.config import Config
from relay.config.kafka import shard_settings, source_cluster
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Partition
from relay.io.kafka.reading import count_records, quiet_client
from relay.io.kafka.settings import Start, StartSettings, shard_of
from relay.model.errors import ConfigError, Problem
from relay.model.events import TSO_LOGICAL_BITS
from relay.service.commands.offset_changes import OffsetChange, PartitionOffsets
from relay.service.commands.offsets import RouteOffsets, open_route_offsets, storage_of, store_offsets
from relay.service.commands.running_instances import RunningInstances, find_running_instances, require_stopped
from relay.text.redaction import plural, printable, to_json

_DRY_RUN: Final = "dry run: nothing was changed; add --execute to store the new offsets"
_FENCED: Final = (
    "shards join no group, so an instance that is idle or paused may go unnoticed; if one still runs, the "
    "change fences it: it ends with service.fenced, and its restart begins at the new offsets"
)


# ---------------------------------------------------------------- show


def show(request: ShowOffsetsRequest) -> None:
    """Print the committed offset of each partition. Raises ConfigError, ServiceError."""
    config = request.config.load()
    with quiet_client():
        offsets, found = asyncio.run(_load(config))
    shards = len(shard_settings(config)) if config.is_exactly_once else 0
    if request.as_json:
        for each in offsets:
            typer.echo(to_json(offsets_object(each, shards)))
    else:
        line_printer()(_offsets_table(offsets, shards))
    for each in offsets:
        if each.why_unknown:
            say_warning(f"{each.partition}: {each.why_unknown}")
    start = f"partitions without a committed offset begin at start = {config.source.start}"
    _say_unless_quiet(request, f"offsets are in {storage_of(config)}; {start}")
    _say_unless_quiet(request, *found.evidence, *found.unknown)


async def _load(config: Config) -> tuple[list[PartitionOffsets], RunningInstances]:
    async with open_route_offsets(config) as route:
        offsets = await route.read()
    return offsets, await find_running_instances(config)


def _offsets_table(offsets: Sequence[PartitionOffsets], shards: int) -> list[Line]:
    shard = ["shard"] if shards else []
    titles = ["partition", "committed", "next", "log_start", "log_end", "lag", *shard, ""]
    rows: list[Line] = [[(title, "dim") for title in titles]]
    for each in offsets:
        numbers = (each.committed, each.next, each.log_start, each.log_end, each.lag)
        cells = [printable(str(each.partition)), *("-" if at is None else str(at) for at in numbers)]
        if shards:
            cells.append(str(shard_of(each.partition.partition, shards)))
        rows.append([(text, "") for text in (*cells, state_text(each))])
    return aligned(rows)


# ---------------------------------------------------------------- seek and reset


def seek(request: SeekRequest) -> None:
    """Show or store offsets at the target. Raises ConfigError, ServiceError."""
    config = request.config.load()
    target = _target_of(request, config)
    chosen = _partitions(request.partitions, config)
    with quiet_client():
        asyncio.run(_change(config, target, chosen, request.change))


def reset(request: ResetOffsetsRequest) -> None:
    """Show or store the offsets at which a new group would begin. Raises ConfigError, ServiceError."""
    config = request.config.load()
    chosen = _partitions(request.partitions, config)
    target = StartTarget(f"start = {config.source.start}")
    with quiet_client():
        asyncio.run(_change(config, target, chosen, request.change))


def _target_of(request: SeekRequest, config: Config) -> SeekTarget:
    """Return the target of the request. Raises ConfigError unless there is exactly one."""
    problems: list[Problem] = []
    found: list[SeekTarget] = []
    if request.offsets:
        found.append(OffsetsTarget("the given offsets", _offsets(request.offsets, config, problems)))
        if request.partitions:
            problems.append(Problem("--partition", "has no effect with --to-offset", "leave it out"))
    if request.time is not None:
        at = parse_time(request.time, int(time.time() * 1000), "--to-time", problems)
        found.append(StartTarget(request.time, StartSettings(Start.TIMESTAMP, timestamp_ms=at)))
    if request.commit_ts is not None:
        start = StartSettings(Start.COMMIT_TS, commit_time_ms=request.commit_ts >> TSO_LOGICAL_BITS)
        found.append(StartTarget(f"commit ts {request.commit_ts}", start))
    if request.earliest:
        found.append(StartTarget("the oldest record", StartSettings(Start.EARLIEST)))
    if request.latest:
        found.append(StartTarget("the end", StartSettings(Start.LATEST)))
    if len(found) != 1:
        names = "--to-offset, --to-time, --to-commit-ts, --to-earliest, --to-latest"
        problems.append(Problem("target", "give exactly one", names))
    if problems:
        raise ConfigError(problems)
    return found[0]


def _offsets(texts: Sequence[str], config: Config, problems: list[Problem]) -> dict[Partition, int]:
    """Parse offsets; append errors to `problems`."""
    found: dict[Partition, int] = {}
    for text in texts:
        try:
            topic, number, offset = parse_position(text, config, "--to-offset")
        except ConfigError as error:
            problems += error.problems
            continue
        partition = Partition(topic, number)
        if partition in found:
            problems.append(Problem("--to-offset", f"{partition} is given twice", "keep one of the two"))
        found[partition] = offset
    return found


def _partitions(texts: Sequence[str], config: Config) -> list[Partition]:
    """Parse partitions. Raises ConfigError with every problem."""
    found, problems = list[Partition](), list[Problem]()
    for text in texts:
        try:
            found.append(parse_partition(text, config, "--partition"))
        except ConfigError as error:
            problems += error.problems
    if problems:
        raise ConfigError(problems)
    return found


async def _change(
    config: Config, target: SeekTarget, chosen: Sequence[Partition], options: ChangeOptions
) -> None:
    """Show the effect of a change and, on request, make it."""
    async with open_route_offsets(config) as route:
        changes, gaps = await _changes(route, target, chosen)
        records = await _counted(config, changes, options) if options.count else {}
        _print_changes(changes, records, options)
        for text in (*warnings_of(config, target, changes, is_counted=options.count), *gaps):
            say_warning(text)
        if not any(each.is_needed for each in changes):
            _say_unless_quiet(options, "nothing to change")
            return
        if not options.execute:
            found = await find_running_instances(config)
            for text in found.evidence:
                say_warning(f"--execute would be refused: {text}")
            _say_unless_quiet(options, *found.unknown, _DRY_RUN)
            return
        await _refuse_if_running(config, options)
        await store_offsets(config, route, changes)
        changed = sum(each.is_needed for each in changes)
        done = f"committed offsets of {plural(changed, 'partition')} changed to {target.text}"
        _say_unless_quiet(options, f"{done}; {storage_of(config)}")


async def _refuse_if_running(config: Config, options: ChangeOptions) -> None:
    """Raise RelayRunning if an instance of the route runs."""
    unknown = await require_stopped(config, options.watch, lambda text: _say_unless_quiet(options, text))
    _say_unless_quiet(options, *unknown, *([_FENCED] if config.is_exactly_once else []))


def _say_unless_quiet(options: ChangeOptions | ShowOffsetsRequest, *texts: str) -> None:
    """Print lines on stderr, unless `quiet` is set."""
    if not options.quiet:
        for text in texts:
            say(text)


async def _changes(
    route: RouteOffsets, target: SeekTarget, chosen: Sequence[Partition]
) -> tuple[list[OffsetChange], Sequence[str]]:
    """Return the change of each partition, and texts about records that may be missing before it."""
    current = {each.partition: each for each in await route.read()}
    if isinstance(target, OffsetsTarget):
        _check_exist(target.offsets, current, "--to-offset")
        _check_within(target.offsets, current)
        return _sorted_changes(target.offsets, current), ()
    _check_exist(chosen, current, "--partition")
    found = await route.find(target.start, chosen or current.keys())
    offsets = {Partition(*pair): at for pair, at in found.offsets.items()}
    return _sorted_changes(offsets, current), found.gaps


def _sorted_changes(
    offsets: Mapping[Partition, int], current: Mapping[Partition, PartitionOffsets]
) -> list[OffsetChange]:
    return [OffsetChange(current=current[each], to=offsets[each]) for each in sorted(offsets)]


def _check_exist(
    wanted: Collection[Partition], current: Mapping[Partition, PartitionOffsets], option: str
) -> None:
    missing = sorted(set(wanted) - current.keys())
    if missing:
        text = f"the route reads no partition {printable(', '.join(map(str, missing)))}"
        raise ConfigError([Problem(option, text, "`relay offsets show` lists all")])


def _check_within(offsets: Mapping[Partition, int], current: Mapping[Partition, PartitionOffsets]) -> None:
    """Raise ConfigError for offsets outside of their partitions."""
    problems = [
        Problem(
            "--to-offset",
            f"{each} has the offsets {current[each].log_start} to {current[each].log_end} (the next one), "
            f"not {offset}",
            "use an offset in this range, --to-earliest or --to-latest",
        )
        for each, offset in sorted(offsets.items())
        if not current[each].log_start <= offset <= current[each].log_end
    ]
    if problems:
        raise ConfigError(problems)


async def _counted(
    config: Config, changes: Sequence[OffsetChange], options: ChangeOptions
) -> dict[Partition, int]:
    """Count the records that are repeated, added or skipped, by reading them."""
    ranges = {
        TopicPartition(*each.current.partition): each.affected
        for each in changes
        if each.affected is not None
    }
    brokers = Brokers.from_settings(source_cluster(config))
    found = await count_records(brokers, ranges, ProgressReport("counting records", quiet=options.quiet))
    return {Partition(*pair): count for pair, count in found.items()}


def _print_changes(
    changes: Sequence[OffsetChange], records: Mapping[Partition, int], options: ChangeOptions
) -> None:
    if options.as_json:
        for each in changes:
            typer.echo(to_json(change_object(each, records.get(each.current.partition))))
        return
    rows: list[Line] = [[(title, "dim") for title in ("partition", "committed", "to", "effect")]]
    for each in changes:
        committed = "-" if each.current.committed is None else str(each.current.committed)
        effect = effect_text(each, records.get(each.current.partition))
        rows.append(
            [(text, "") for text in (printable(str(each.current.partition)), committed, str(each.to), effect)]
        )
    line_printer()(aligned(rows))
