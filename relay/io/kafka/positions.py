"""Find where reading of partitions begins: at the committed offset, or else at `start`.

Kafka finds offsets by the timestamps of its records, and a commit ts is in the messages only. For `start =
"commit-ts"` reading begins at the first record whose timestamp is at most `COMMIT_TS_MARGIN_MS` before the
physical time of the commit ts, and the translator leaves out the events below the commit ts itself
(`relay.core.selection.Selection`). That is right if no timestamp is further than the margin before the commit
time of its events. Every CDC producer sends an event after its commit; the margin is for clocks that differ.

If no record is that recent, reading begins at the oldest one, not at the end. In a partition at rest that
costs time only, and where timestamps are no times (0, or those of a copy) the end would lose every event.
"""

from __future__ import annotations

import asyncio
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import GroupIdNotFound, KafkaError, NoError, NotCoordinatorForGroupError
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import OffsetAndTimestamp

from relay.io.kafka.aiokafka_compat import check
from relay.io.kafka.ports import Partition
from relay.io.kafka.settings import Start, StartSettings
from relay.io.logs import Log
from relay.model.errors import ConfigError, Problem, RecordsGone

COMMIT_TS_MARGIN_MS = 10 * 60 * 1000
PAUSE_SECONDS = 0.1

Offsets = dict[TopicPartition, int]
Timed = Mapping[TopicPartition, OffsetAndTimestamp | None]


async def committed_offsets(
    consumer: Any, group: str, partitions: Iterable[Partition], *, pause_seconds: float = PAUSE_SECONDS
) -> dict[Partition, int]:
    """Return the committed offsets of a group, of the partitions that have one.

    Waits for a coordinator that can answer, so the caller must set a deadline. `pause_seconds`: between two
    requests. Raises KafkaError for errors that waiting does not cure.

    aiokafka 0.14 inspects the errors of partitions alone. A coordinator that has moved, or is still loading,
    answers with one error for the whole request and no partitions. The client takes that for "no offset is
    committed", and relay would begin at `start`. So the request is made here.
    """
    topics: dict[str, list[int]] = defaultdict(list)
    for partition in partitions:
        topics[partition.topic].append(partition.partition)
    if not topics:
        return {}
    coordinator = consumer._coordinator
    while True:
        await coordinator.ensure_coordinator_known()
        try:
            answer = await coordinator._send_req(OffsetFetchRequest(group, list(topics.items())))
            return _offsets_in(answer)
        except NotCoordinatorForGroupError:
            coordinator.coordinator_dead()
        except KafkaError as error:
            if not error.retriable:
                raise
        await asyncio.sleep(pause_seconds)


def _offsets_in(answer: Any) -> dict[Partition, int]:
    found: dict[Partition, int] = {}
    # Kafka answers with -1 for a group that has never committed, other brokers with an error.
    codes_without_offsets = {NoError.errno, GroupIdNotFound.errno}
    if (code := getattr(answer, "error_code", 0)) not in codes_without_offsets:
        check(code)
    for topic, partitions in answer.topics:
        for number, offset, _, code in partitions:
            if code not in codes_without_offsets:
                check(code)
            if offset >= 0:
                found[Partition(topic, number)] = offset
    return found


def why_gone(committed: int, first: int, end: int) -> str:
    """Return why reading cannot continue at a committed offset; empty if it can.

    `first`, `end`: the oldest offset of the partition, and the one after its last record.
    """
    if committed == first - 1:
        return f"offset {committed} was deleted by retention before relay read it"
    if committed < first:
        return f"offsets {committed} to {first - 1} were deleted by retention before relay read them"
    if committed > end:
        return f"the committed offset {committed} is above the end {end}: the topic was recreated"
    return ""


def was_added(partition: Partition, older: Iterable[Partition]) -> bool:
    """Return whether a partition was added to its topic after one of `older`, which a group reads already.

    Added partitions have the highest numbers.
    """
    return any(each.topic == partition.topic and each.partition < partition.partition for each in older)


class StartOffsets(NamedTuple):
    """Where partitions begin, and texts about records after `start` that may have been deleted."""

    offsets: Offsets
    gaps: Sequence[str] = ()


async def start_offsets(
    consumer: AIOKafkaConsumer,
    settings: StartSettings,
    partitions: Sequence[TopicPartition],
    log: Log | None = None,
    *,
    margin_ms: int = COMMIT_TS_MARGIN_MS,
) -> Offsets:
    """Return the first offset to read of each partition according to `start`, and log gaps.

    Arguments and errors are those of `find_start`.
    """
    found = await find_start(consumer, settings, partitions, margin_ms=margin_ms)
    if log is not None:
        for message in found.gaps:
            log.warning("start.truncated", message=message)
    return found.offsets


async def find_start(
    consumer: AIOKafkaConsumer,
    settings: StartSettings,
    partitions: Sequence[TopicPartition],
    *,
    margin_ms: int = COMMIT_TS_MARGIN_MS,
) -> StartOffsets:
    """Find the first offset to read of each partition according to `start`.

    `margin_ms`: how much earlier than a commit ts reading begins, because the clocks of a CDC producer and of
    its database may differ.

    The end is the one that `consumer` sees: with read_committed, the first record of an open transaction.
    Raises ConfigError for an offset that a partition has not reached, RecordsGone for one whose records were
    deleted, and the errors of `consumer`.
    """
    asked = list(partitions)
    # The end comes first: a record that arrives meanwhile must not be before it.
    end: Offsets = await consumer.end_offsets(asked)
    first: Offsets = await consumer.beginning_offsets(asked)
    if settings.start is Start.LATEST:
        return StartOffsets(end)
    if settings.start is Start.OFFSETS:
        return StartOffsets(_named(settings, first, end))
    wanted_ms, earlier_ms, otherwise = _wanted(settings, first, end, margin_ms)
    if wanted_ms is None:
        return StartOffsets(first)
    found: Timed = await consumer.offsets_for_times(dict.fromkeys(asked, max(0, wanted_ms - earlier_ms)))
    offsets = {pair: otherwise[pair] if at is None else at.offset for pair, at in found.items()}
    return StartOffsets(offsets, tuple(_gaps(found, first, wanted_ms)))


def _wanted(
    settings: StartSettings, first: Offsets, end: Offsets, margin_ms: int
) -> tuple[int | None, int, Offsets]:
    """Return the time to begin at, how much earlier reading begins, and where without such a record."""
    if settings.start is Start.TIMESTAMP:
        return settings.timestamp_ms, 0, end
    if settings.start is Start.COMMIT_TS:
        return settings.commit_time_ms, margin_ms, first
    return None, 0, first


def _named(settings: StartSettings, first: Offsets, end: Offsets) -> Offsets:
    """Return the configured offsets; the oldest record for partitions without one."""
    named = {pair: settings.offsets.get(f"{pair.topic}/{pair.partition}") for pair in sorted(first)}
    beyond = [
        Problem(
            f'source.start_offsets."{pair.topic}/{pair.partition}"',
            f"is {offset}, and the partition has {first[pair]} to {end[pair]}, the next offset",
            "is it the right topic? A recreated topic begins at 0",
        )
        for pair, offset in named.items()
        if offset is not None and offset > end[pair]
    ]
    if beyond:
        raise ConfigError(beyond)
    gone = [
        f"{pair.topic}/{pair.partition} begins at {first[pair]}, but start_offsets has {offset}"
        for pair, offset in named.items()
        if offset is not None and offset < first[pair]
    ]
    if gone:
        raise RecordsGone(
            f"records to begin with were deleted by retention: {'; '.join(gone)}; "
            f"get these changes from elsewhere if they matter, then raise start_offsets in [source]"
        )
    return {pair: first[pair] if offset is None else offset for pair, offset in named.items()}


def _gaps(found: Timed, first: Offsets, wanted_ms: int) -> Iterator[str]:
    """Yield partitions whose oldest record is younger than the wanted time: records may have been deleted."""
    for pair, at in found.items():
        if (
            at is not None
            and 0 < at.offset == first[pair]
            and at.timestamp is not None
            and at.timestamp > wanted_ms
        ):
            yield (
                f"{pair.topic}/{pair.partition} begins at offset {at.offset}, {at.timestamp - wanted_ms} ms "
                f"after the requested start: retention may have deleted the records in between"
            )
