"""Where a partition without a committed offset begins.

Kafka finds offsets by the timestamps of its records, and a commit ts stands in the messages only. For `start
= "commit-ts"` reading begins at the first record whose timestamp is at most `COMMIT_TS_MARGIN_MS` before the
physical time of the commit ts, and the translator leaves out the events below the commit ts itself
(`relay.translator.Selection`). That is right where no timestamp is further than the margin before the commit
time of its events. Every CDC producer sends an event after its commit; the margin is for clocks that differ.

If no record is that recent, reading begins at the oldest one, not at the end: in a partition at rest that
costs time alone, and where timestamps are no times (0, or those of a copy) the end would lose every event.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.structs import OffsetAndTimestamp

from relay.config import Start
from relay.config.tables import COMMIT_TS_MARGIN_MS, Source
from relay.errors import ConfigError, Problem, RecordsGone
from relay.logs import Log
from relay.model import TSO_LOGICAL_BITS

Offsets = dict[TopicPartition, int]
Timed = Mapping[TopicPartition, OffsetAndTimestamp | None]


async def start_offsets(
    consumer: AIOKafkaConsumer, source: Source, partitions: Sequence[TopicPartition], log: Log | None = None
) -> Offsets:
    """The first offset to read of each partition, as `start` says.

    The end is the one that `consumer` sees: with read_committed, the first record of an open transaction.
    Raises ConfigError for an offset that a partition has not reached, RecordsGone for one whose records were
    deleted, and what `consumer` raises. Where records after `start` may have been deleted, `log` is told.
    """
    asked = list(partitions)
    # The end comes first: a record that arrives while we look must not lie before it.
    end: Offsets = await consumer.end_offsets(asked)
    first: Offsets = await consumer.beginning_offsets(asked)
    if source.start is Start.LATEST:
        return end
    if source.start is Start.OFFSETS:
        return _named(source, first, end)
    wanted_ms, margin_ms, otherwise = _wanted(source, first, end)
    if wanted_ms is None:
        return first
    found: Timed = await consumer.offsets_for_times(dict.fromkeys(asked, max(0, wanted_ms - margin_ms)))
    if log is not None:
        for message in _gaps(found, first, wanted_ms):
            log.warning("start.incomplete", message=message)
    return {pair: otherwise[pair] if at is None else at.offset for pair, at in found.items()}


def _wanted(source: Source, first: Offsets, end: Offsets) -> tuple[int | None, int, Offsets]:
    """The time to begin at, how much earlier to look, and where to begin if no record is that recent."""
    if source.start is Start.TIMESTAMP:
        return source.start_timestamp_ms, 0, end
    if source.start is Start.COMMIT_TS:
        return source.start_commit_ts >> TSO_LOGICAL_BITS, COMMIT_TS_MARGIN_MS, first
    return None, 0, first


def _named(source: Source, first: Offsets, end: Offsets) -> Offsets:
    """The offsets that the configuration names; the oldest record for partitions that it does not name."""
    named = {pair: source.start_offsets.get(f"{pair.topic}/{pair.partition}") for pair in sorted(first)}
    beyond = [
        Problem(
            f'source.start_offsets."{pair.topic}/{pair.partition}"',
            f"is {offset}, and the partition holds {first[pair]} to {end[pair]}, the next offset",
            "is it the right topic? A topic that was created anew begins at 0",
        )
        for pair, offset in named.items()
        if offset is not None and offset > end[pair]
    ]
    if beyond:
        raise ConfigError(beyond)
    gone = [
        f"{pair.topic}/{pair.partition} begins at {first[pair]}, and start_offsets says {offset}"
        for pair, offset in named.items()
        if offset is not None and offset < first[pair]
    ]
    if gone:
        raise RecordsGone(
            f"records to begin with were deleted by retention: {'; '.join(gone)}; get these changes from elsewhere if they matter, "
            f"then raise start_offsets in [source]"
        )
    return {pair: first[pair] if offset is None else offset for pair, offset in named.items()}


def _gaps(found: Timed, first: Offsets, wanted_ms: int) -> Iterator[str]:
    """Partitions of which records at or after the wanted time may have been deleted: their oldest record is
    younger.
    """
    for pair, at in found.items():
        if (
            at is not None
            and 0 < at.offset == first[pair]
            and at.timestamp is not None
            and at.timestamp > wanted_ms
        ):
            yield (
                f"{pair.topic}/{pair.partition} begins at offset {at.offset}, {at.timestamp - wanted_ms} ms after the start that "
                f"is asked for: retention may have deleted records between"
            )
