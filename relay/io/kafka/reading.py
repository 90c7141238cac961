"""Read topics without a group, over aiokafka 0.14: a whole topic, a part of it, or one record.

A part is the newest records, those since a time, or those between offsets. Nothing is committed and no group
is joined, so a running relay is not disturbed. Records of aborted transactions are left out, as the relay
leaves them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from typing import Any, Final

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.aiokafka_compat import REQUEST_SECONDS, started, stopped, unreachable
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.clients import Brokers
from relay.io.kafka.fetched import relay_records, take_any_name
from relay.model.errors import BrokerUnavailable, ConfigError, Problem, TopicUnusable
from relay.model.records import ConsumerRecord, RecordPosition

POLL_MS = 200
#: Maximum time without records from the brokers although there are some.
STALL_SECONDS = 60.0
FETCH_MAX_BYTES = 8 * 1024 * 1024
PARTITION_FETCH_BYTES = 1024 * 1024

#: Called with the number of offsets read, and the total.
Progress = Callable[[int, int], None]


class Lookup(msgspec.Struct, frozen=True):
    """The record at an offset or else the next one; None if there is neither.

    `first` and `end`: the oldest offset of the partition, and the one after its last.
    """

    partitions: int
    first: int
    end: int
    record: ConsumerRecord | None


async def partitions_of(brokers: Brokers, topic: str) -> int:
    """Return the number of partitions of a topic. Raises TopicUnusable without one, BrokerUnavailable."""
    topics = await TopicAdmin(brokers).look([topic])
    if topic in topics.found:
        return topics.found[topic].partitions
    if topic in topics.unusable:
        raise TopicUnusable(f"topic {topic} at {brokers.servers} cannot be used: {topics.unusable[topic]}")
    raise TopicUnusable(f"topic {topic} does not exist at {brokers.servers}")


async def read_topic(
    brokers: Brokers, topic: str, each: Callable[[ConsumerRecord], None], progress: Progress | None = None
) -> None:
    """Pass present records to `each`, in each partition's order. Raises TopicUnusable, BrokerUnavailable."""
    pairs = [TopicPartition(topic, number) for number in range(await partitions_of(brokers, topic))]
    async with consuming(brokers, pairs) as consumer:
        first, ends = await bounds(consumer, pairs)
        for pair in pairs:
            consumer.seek(pair, first[pair])
        at, total = dict(first), sum(ends.values()) - sum(first.values())
        deadline = time.monotonic() + STALL_SECONDS
        while left := [pair for pair in pairs if at[pair] < ends[pair]]:
            fetched = await consumer.getmany(*left, timeout_ms=POLL_MS)
            for pair, records in fetched.items():
                for record in relay_records(records):
                    if record.offset < ends[pair]:
                        each(record)
            before = sum(at.values())
            # The position, not the offset of the last record: markers of transactions have offsets, too.
            at |= {pair: min(await consumer.position(pair), ends[pair]) for pair in left}
            deadline = stall_deadline(deadline, moved=sum(at.values()) > before, brokers=brokers)
            if progress is not None:
                progress(sum(at.values()) - sum(first.values()), total)


async def look_up(brokers: Brokers, topic: str, partition: int, offset: int) -> Lookup:
    """Read the record at an offset. Raises TopicUnusable, BrokerUnavailable."""
    count = await partitions_of(brokers, topic)
    if partition >= count:
        return Lookup(count, 0, 0, None)
    pair = TopicPartition(topic, partition)
    async with consuming(brokers, [pair]) as consumer:
        oldest, ends = await bounds(consumer, [pair])
        first, end = oldest[pair], ends[pair]
        found = None
        if first <= offset < end:
            found = await _next(consumer, pair, offset, end, brokers)
        return Lookup(count, first, end, found)


async def read_records(
    brokers: Brokers, positions: Iterable[RecordPosition], progress: Progress | None = None
) -> dict[RecordPosition, ConsumerRecord]:
    """Read the records at some positions, as far as their topics still have them.

    Raises TopicUnusable, BrokerUnavailable.
    """
    wanted = sorted(set(positions))
    found: dict[RecordPosition, ConsumerRecord] = {}
    pairs = sorted({TopicPartition(position.topic, position.partition) for position in wanted})
    for topic in sorted({pair.topic for pair in pairs}):
        await partitions_of(brokers, topic)
    async with consuming(brokers, pairs) as consumer:
        first, ends = await bounds(consumer, pairs)
        consumer.pause(*pairs)
        for done, position in enumerate(wanted, 1):
            pair = TopicPartition(position.topic, position.partition)
            if first[pair] <= position.offset < ends[pair]:
                consumer.resume(pair)
                record = await _next(consumer, pair, position.offset, ends[pair], brokers)
                consumer.pause(pair)
                if record is not None and record.offset == position.offset:
                    found[position] = record
            if progress is not None:
                progress(done, len(wanted))
    return found


async def count_records(
    brokers: Brokers, spans: Mapping[TopicPartition, tuple[int, int]], progress: Progress | None = None
) -> dict[TopicPartition, int]:
    """Count the records from one offset to before another, by reading them.

    Raises TopicUnusable, BrokerUnavailable.
    """
    found = dict.fromkeys(spans, 0)

    def count(record: ConsumerRecord) -> None:
        found[TopicPartition(record.topic, record.partition)] += 1

    pairs = list(spans)
    async with consuming(brokers, pairs) as consumer:
        await _Reader(consumer, brokers, progress).between(
            {pair: first for pair, (first, _) in spans.items()},
            {pair: end for pair, (_, end) in spans.items()},
            count,
        )
    return found


async def _next(
    consumer: Any, pair: TopicPartition, offset: int, end: int, brokers: Brokers
) -> ConsumerRecord | None:
    """Return the first record at or after an offset and before the end."""
    consumer.seek(pair, offset)
    deadline = time.monotonic() + STALL_SECONDS
    while offset < end:
        polled = await consumer.getmany(pair, timeout_ms=POLL_MS, max_records=1)
        for record in relay_records(polled.get(pair, ())):
            return record if record.offset < end else None
        position = await consumer.position(pair)
        deadline = stall_deadline(deadline, moved=position > offset, brokers=brokers)
        offset = position
    return None


def stall_deadline(deadline: float, *, moved: bool, brokers: Brokers) -> float:
    """Return the next deadline for records from the brokers.

    Raises BrokerUnavailable if the last one passed.
    """
    now = time.monotonic()
    if moved:
        return now + STALL_SECONDS
    if now > deadline:
        raise BrokerUnavailable(
            f"the brokers at {brokers.servers} have given no record for {STALL_SECONDS:.0f} s"
        )
    return deadline


async def bounds(consumer: Any, pairs: list[TopicPartition]) -> tuple[dict[Any, int], dict[Any, int]]:
    """Return the oldest offset of each partition, and the one after its last."""
    async with asyncio.timeout(REQUEST_SECONDS):
        return await consumer.beginning_offsets(pairs), await consumer.end_offsets(pairs)


@contextlib.asynccontextmanager
async def consuming(
    brokers: Brokers, pairs: list[TopicPartition], group_id: str | None = None
) -> AsyncIterator[Any]:
    """Yield a consumer of these partitions, and raise errors of the client as relay's.

    `group_id`: the group whose offsets it reads and commits; it never joins the group.
    """
    take_any_name()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers.servers,
        client_id="relay",
        group_id=group_id,
        enable_auto_commit=False,
        # Records that retention deletes meanwhile are gone; the remaining ones are still wanted.
        auto_offset_reset="earliest",
        isolation_level="read_committed",
        fetch_max_bytes=FETCH_MAX_BYTES,
        max_partition_fetch_bytes=PARTITION_FETCH_BYTES,
        **brokers.arguments,
    )
    try:
        await started(REQUEST_SECONDS, consumer, brokers)
        consumer.assign(pairs)
        yield consumer
    except TopicAuthorizationFailedError as error:
        raise TopicUnusable(f"not allowed to read: {text_of(error)}; grant READ on the topic") from error
    except (KafkaError, TimeoutError) as error:
        raise unreachable(brokers.servers, error) from error
    finally:
        await stopped(consumer)


@contextlib.contextmanager
def quiet_client() -> Iterator[None]:
    """Keep the warnings of the Kafka client off the terminal: relevant failures are raised."""
    logger = logging.getLogger("aiokafka")
    level, logger.level = logger.level, logging.CRITICAL + 1
    try:
        yield
    finally:
        logger.setLevel(level)


#: Factor by which to look further back if markers of transactions or compaction have left too few records.
_FURTHER: Final = 4

Each = Callable[[ConsumerRecord], None]


class Part(msgspec.Struct, frozen=True, kw_only=True):
    """A selection of a topic's records.

    Either the newest `last` of them, or all `since_ms` and before `until_ms` (milliseconds since 1970), at
    offsets from `first` to before `end`. `partitions`: () for all. `follow`: also later records, until it is
    stopped.
    """

    last: int | None = None
    since_ms: int | None = None
    until_ms: int | None = None
    first: int | None = None
    end: int | None = None
    partitions: tuple[int, ...] = ()
    follow: bool = False


async def read_part(
    brokers: Brokers, topic: str, part: Part, each: Each, progress: Progress | None = None
) -> None:
    """Pass the records of a part to `each`, in the order of each partition.

    The newest of several partitions are passed by their time. Raises ConfigError for a partition that does
    not exist, TopicUnusable, BrokerUnavailable.
    """
    count = await partitions_of(brokers, topic)
    wrong = [str(number) for number in part.partitions if number >= count]
    if wrong:
        message = f"{topic} has no partition {', '.join(wrong)}; it has the partitions 0 to {count - 1}"
        raise ConfigError([Problem("--partition", message)])
    pairs = [TopicPartition(topic, number) for number in part.partitions or range(count)]
    async with consuming(brokers, pairs) as consumer:
        first, ends = await bounds(consumer, pairs)
        reader = _Reader(consumer, brokers, progress)
        if part.last is not None:
            for record in await _newest(reader, part.last, first, ends):
                each(record)
        else:
            begin = await _begin(consumer, part, first, ends)
            stop = dict(ends)
            if part.end is not None:
                stop = {pair: min(end, max(part.end, first[pair])) for pair, end in ends.items()}
            await reader.between(begin, stop, _within(part, each))
        if part.follow:
            await reader.follow(ends, _within(part, each))


def _within(part: Part, each: Each) -> Each:
    """Leave out records outside the requested times: the offset of a time only marks where to begin."""
    since, until = part.since_ms, part.until_ms
    if since is None and until is None:
        return each

    def chosen(record: ConsumerRecord) -> None:
        at = record.timestamp_ms
        if (since is None or at >= since) and (until is None or at < until):
            each(record)

    return chosen


async def _begin(consumer: Any, part: Part, first: dict[Any, int], ends: dict[Any, int]) -> dict[Any, int]:
    if part.since_ms is not None:
        found = await consumer.offsets_for_times(dict.fromkeys(first, part.since_ms))
        return {pair: ends[pair] if found.get(pair) is None else found[pair].offset for pair in first}
    if part.first is not None:
        return {pair: min(max(part.first, oldest), ends[pair]) for pair, oldest in first.items()}
    return dict(first)


async def _newest(
    reader: _Reader, count: int, first: dict[Any, int], ends: dict[Any, int]
) -> Sequence[ConsumerRecord]:
    """Return the newest records of all partitions together, in the order of their times.

    Those of a partition keep their own order, even where a time goes back.
    """
    found: list[tuple[int, ConsumerRecord]] = []
    for pair, end in ends.items():
        span = count
        while True:
            begin = max(first[pair], end - span)
            records: list[ConsumerRecord] = []
            await reader.between({pair: begin}, {pair: end}, records.append)
            if len(records) >= count or begin <= first[pair]:
                break
            span *= _FURTHER
        newest = -1
        for record in records[-count:]:
            newest = max(newest, record.timestamp_ms)
            found.append((newest, record))
    found.sort(key=lambda timed: timed[0])
    return [record for _, record in found[-count:]]


class _Reader:
    """Read partitions that are assigned to a consumer."""

    def __init__(self, consumer: Any, brokers: Brokers, progress: Progress | None) -> None:
        self._consumer, self._brokers, self._progress = consumer, brokers, progress

    async def between(self, begin: dict[Any, int], ends: dict[Any, int], each: Each) -> None:
        """Read from offsets to before others."""
        at, total = dict(begin), sum(max(0, ends[pair] - offset) for pair, offset in begin.items())
        for pair, offset in begin.items():
            self._consumer.seek(pair, offset)
        deadline = stall_deadline(time.monotonic(), moved=True, brokers=self._brokers)
        while left := [pair for pair in at if at[pair] < ends[pair]]:
            await self._poll(left, ends, each)
            before = sum(at.values())
            # The position, not the offset of the last record: markers of transactions have offsets, too.
            at |= {pair: min(await self._consumer.position(pair), ends[pair]) for pair in left}
            deadline = stall_deadline(deadline, moved=sum(at.values()) > before, brokers=self._brokers)
            if self._progress is not None:
                self._progress(sum(at.values()) - sum(begin.values()), total)

    async def follow(self, begin: dict[Any, int], each: Each) -> None:
        """Read arriving records until cancelled."""
        for pair, offset in begin.items():
            self._consumer.seek(pair, offset)
        while True:
            await self._poll(list(begin), None, each)

    async def _poll(self, pairs: Sequence[Any], ends: dict[Any, int] | None, each: Each) -> None:
        fetched = await self._consumer.getmany(*pairs, timeout_ms=POLL_MS)
        for pair, records in fetched.items():
            for record in relay_records(records):
                if ends is None or record.offset < ends[pair]:
                    each(record)
