"""The progress topic: how far the source has been read, kept in the target for exactly-once between clusters.

A record has the key `group/topic/partition` and the value `{"offset": N}`: everything of that partition below
N is in the target. It is written in the transaction that writes the records, so the newest committed one
holds.
"""

from __future__ import annotations

import asyncio
from collections.abc import Iterable, Iterator, Mapping
from typing import Annotated, Final

import msgspec
import orjson

from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Partition, PollFailed
from relay.io.kafka.whole_topic import WholeTopic
from relay.model.errors import TopicUnusable
from relay.model.records import ConsumerRecord, ProducerRecord

OPEN_SECONDS = 20.0


class _Value(msgspec.Struct):
    """The value of a record."""

    offset: Annotated[int, msgspec.Meta(ge=0, le=(1 << 63) - 1)]


_VALUES: Final = msgspec.json.Decoder(_Value)


def progress_records(topic: str, group: str, offsets: Mapping[Partition, int]) -> Iterator[ProducerRecord]:
    """Make the records that store these offsets.

    Their timestamp is 0: it is never read, and brokers refuse times of a clock that runs ahead.
    """
    for partition, offset in offsets.items():
        key = f"{group}/{partition.topic}/{partition.partition}".encode()
        yield ProducerRecord(topic, 0, 0, key, orjson.dumps({"offset": offset}))


def progress_in(records: Iterable[ConsumerRecord], group: str) -> dict[Partition, int]:
    """Return a group's offsets in the topic's records, in their order. Raises TopicUnusable for others."""
    found: dict[Partition, int] = {}
    for record in records:
        try:
            name, topic, number = (record.key or b"").decode().rsplit("/", 2)
            value = _VALUES.decode(record.value or b"null")
            if name == group:
                found[Partition(topic, int(number))] = value.offset
        except (ValueError, msgspec.DecodeError) as error:
            raise TopicUnusable(
                f"{record.topic}/{record.partition} at {record.offset} is not a progress record: "
                f"set progress_topic in [delivery] to a dedicated topic"
            ) from error
    return found


async def read_progress(brokers: Brokers, topic: str, group: str) -> Mapping[Partition, int]:
    """Return how far a group has read each partition; nothing if the topic does not exist.

    Raises PollFailed, BrokerUnavailable, TopicUnusable.
    """
    if topic not in (await TopicAdmin(brokers).look([topic])).found:
        return {}
    progress = ProgressTopic(brokers, topic, group)
    try:
        return await progress.read()
    finally:
        await progress.stop()


class ProgressTopic:
    """Read the progress topic, from the end of the last reading.

    All shards write to its one partition, and an open transaction of one shard hides later commits of others.
    `open_seconds`: how long a reading waits for open transactions; most last `transaction_interval_seconds`.
    """

    def __init__(
        self, brokers: Brokers, topic: str, group: str, *, open_seconds: float = OPEN_SECONDS
    ) -> None:
        self._topic, self._group = WholeTopic(brokers, topic, waits_for_open=True), group
        self._open_seconds = open_seconds
        self._offsets: dict[Partition, int] = {}

    async def read(self) -> Mapping[Partition, int]:
        """Return how far each partition has been read.

        Raises PollFailed while a transaction hides that, and BrokerUnavailable, TopicUnusable.
        """
        try:
            async with asyncio.timeout(self._open_seconds):
                await self._topic.to_end(
                    lambda records: self._offsets.update(progress_in(records, self._group))
                )
        except TimeoutError as error:
            raise PollFailed(
                f"topic {self._topic.name} could not be read to its end within {self._open_seconds:g} s: "
                "another shard may have left a transaction open; it ends when that shard restarts, or when "
                "the brokers time it out"
            ) from error
        return self._offsets

    async def stop(self) -> None:
        """Disconnect."""
        await self._topic.stop()
