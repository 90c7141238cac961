"""Read topics without a group, over aiokafka 0.14: a whole topic up to its present end, or one record.

Nothing is committed and no group is joined, so a running relay is not disturbed. Records of aborted
transactions are left out, as the relay leaves them out.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import time
from collections.abc import AsyncIterator, Callable, Iterator
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError, TopicAuthorizationFailedError

from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.aiokafka_compat import REQUEST_SECONDS, started, stopped, unreachable
from relay.io.kafka.clients import Brokers
from relay.io.kafka.error_words import text_of
from relay.io.kafka.fetched import relay_records
from relay.io.kafka.header_names import take_any_name
from relay.model.errors import BrokerUnavailable, TopicUnusable
from relay.model.records import ConsumerRecord

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
async def consuming(brokers: Brokers, pairs: list[TopicPartition]) -> AsyncIterator[Any]:
    """Yield a consumer of these partitions, and raise errors of the client as relay's."""
    take_any_name()
    consumer = AIOKafkaConsumer(
        bootstrap_servers=brokers.servers,
        client_id="relay",
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
