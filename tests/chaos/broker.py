"""What a run asks of Kafka: topics made and deleted, filled by a feeder, read back; offsets. Over the
brokers' own listener.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError

from chaos.messages import PARTITIONS, Plan, content_of, timestamp_of
from chaos.verify import Seen
from relay.model.records import source_mark

_PAUSE_SECONDS = 0.1
_ANSWER_SECONDS = 60.0


class RunFailed(Exception):
    """A run could not be brought to its end; says what was waited for."""


async def until(
    condition: Callable[[], Awaitable[bool]], what: str, seconds: float = _ANSWER_SECONDS
) -> None:
    """Ask again and again until it is so. Raises RunFailed at the deadline; brokers that do not answer are
    asked again.
    """
    deadline = time.monotonic() + seconds
    while True:
        with contextlib.suppress(KafkaError, TimeoutError):
            if await asyncio.wait_for(condition(), max(1.0, deadline - time.monotonic())):
                return
        if time.monotonic() > deadline:
            raise RunFailed(f"{what}: not so within {seconds:g} s")
        await asyncio.sleep(_PAUSE_SECONDS)


class Broker:
    """One cluster, seen by the harness."""

    def __init__(self, servers: str, admin: Any) -> None:
        self.servers = servers
        self._admin = admin

    async def create(self, name: str, replicas: int) -> str:
        """Create a topic under a unique name that begins so; gives the name."""
        topic = f"{name}-{uuid.uuid4().hex[:8]}"
        # Retention goes by the records' own timestamps.
        new = NewTopic(topic, PARTITIONS, replicas, topic_configs={"retention.ms": "-1"})
        await self._admin.create_topics([new])
        await until(lambda: self.in_sync(topic, replicas), f"topic {topic} has leaders")
        return topic

    async def in_sync(self, topic: str, replicas: int) -> bool:
        """Whether every partition has a leader and all its replicas in sync."""
        (found,) = await self._admin.describe_topics([topic])
        partitions = found["partitions"]
        return len(partitions) > 0 and all(
            each["leader"] >= 0 and len(each["isr"]) == replicas for each in partitions
        )

    async def leaders(self, topic: str) -> list[int]:
        """The node that leads each partition."""
        (found,) = await self._admin.describe_topics([topic])
        return [
            int(each["leader"]) for each in sorted(found["partitions"], key=lambda each: each["partition"])
        ]

    async def delete(self, topics: Sequence[str]) -> None:
        """Delete topics; those that do not exist are passed over."""
        known = set(await self._admin.list_topics())
        with contextlib.suppress(KafkaError):
            await self._admin.delete_topics([topic for topic in topics if topic in known])

    async def committed(self, group: str) -> dict[int, int]:
        """A group's offsets by partition."""
        offsets: dict[TopicPartition, Any] = {}

        async def is_answered() -> bool:
            offsets.update(await self._admin.list_consumer_group_offsets(group))
            return True

        await until(is_answered, f"offsets of group {group}")
        return {pair.partition: int(found.offset) for pair, found in offsets.items()}

    async def ends(self, topic: str, *, committed: bool = False) -> dict[int, int]:
        """Where the partitions end; with `committed`, for a reader with read_committed."""
        async with self._consumer(committed=committed) as consumer:
            return await _ends(consumer, topic)

    async def read(self, topic: str) -> list[Seen]:
        """What a read_committed reader gets, by partition and offset."""
        found: list[Seen] = []
        async with self._consumer(committed=True) as consumer:
            ends = await _ends(consumer, topic)
            pairs = {TopicPartition(topic, partition): end for partition, end in ends.items()}
            consumer.assign(list(pairs))
            while any([await consumer.position(pair) < end for pair, end in pairs.items()]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [_seen(record) for record in records]
                await asyncio.sleep(0)
        return sorted(found, key=lambda seen: (seen.partition, seen.offset))

    async def values(self, topic: str) -> list[list[bytes]]:
        """All values of a topic by partition."""
        found: list[list[bytes]] = [[] for _ in range(PARTITIONS)]
        async with self._consumer(committed=False) as consumer:
            ends = await _ends(consumer, topic)
            pairs = {TopicPartition(topic, partition): end for partition, end in ends.items()}
            consumer.assign(list(pairs))
            while any([await consumer.position(pair) < end for pair, end in pairs.items()]):
                for pair, records in (await consumer.getmany(timeout_ms=200)).items():
                    found[pair.partition] += [record.value for record in records]
                await asyncio.sleep(0)
        return found

    @contextlib.asynccontextmanager
    async def _consumer(self, *, committed: bool) -> AsyncIterator[Any]:
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.servers, auto_offset_reset="earliest", isolation_level=isolation
        )
        async with consumer:
            yield consumer


@contextlib.asynccontextmanager
async def broker_at(servers: str) -> AsyncIterator[Broker]:
    """Connect to a cluster."""
    admin = AIOKafkaAdminClient(bootstrap_servers=servers)
    await admin.start()
    try:
        yield Broker(servers, admin)
    finally:
        await admin.close()


async def _ends(consumer: Any, topic: str) -> dict[int, int]:
    found = await consumer.end_offsets([TopicPartition(topic, partition) for partition in range(PARTITIONS)])
    return {pair.partition: int(end) for pair, end in found.items()}


def _seen(record: Any) -> Seen:
    mark = (source_mark(record.headers) or b"").decode(errors="replace")
    try:
        content = content_of(record.value)
    except ValueError:
        content = None
    return Seen(record.partition, record.offset, mark, content, record.value or b"")


class Feeder:
    """Writes a plan into the source topic, each partition in order, through all faults; brokers may write a
    request twice.
    """

    def __init__(self, broker: Broker, topic: str, plan: Plan) -> None:
        self._broker, self._topic, self._plan = broker, topic, plan
        self._next = [0] * PARTITIONS

    async def feed(self, share: float, seconds: float = 0.0, tick: float = 0.02) -> None:
        """Write until this share of the plan is in the topic, spread over so many seconds."""
        targets = [int(len(values) * share) for values in self._plan.values]
        begins, ticks = list(self._next), max(1, round(seconds / tick))
        producer = AIOKafkaProducer(
            bootstrap_servers=self._broker.servers, enable_idempotence=True, compression_type="zstd"
        )
        async with producer:
            since = time.monotonic()
            for number in range(1, ticks + 1):
                await asyncio.sleep(
                    max(0.0, since + (number - 1) * tick - time.monotonic()) if seconds else 0
                )
                goals = [
                    begin + (end - begin) * number // ticks
                    for begin, end in zip(begins, targets, strict=True)
                ]
                await self._send(producer, goals)

    async def _send(self, producer: Any, goals: Sequence[int]) -> None:
        """Send up to these offsets. An idempotent producer repeats by itself, as often as it takes."""
        waiting = []
        for partition, goal in enumerate(goals):
            values = self._plan.values[partition]
            while self._next[partition] < goal:
                batch = producer.create_batch()
                while self._next[partition] < goal:
                    offset = self._next[partition]
                    if batch.append(key=None, value=values[offset], timestamp=timestamp_of(offset)) is None:
                        break
                    self._next[partition] += 1
                batch.close()
                waiting.append(await producer.send_batch(batch, self._topic, partition=partition))
        await asyncio.gather(*waiting)
