"""Read the committed offsets of a route, and change them while it is stopped.

With at-least-once, and with exactly-once in one cluster, the consumer group keeps them; with exactly-once
between two clusters, the progress topic. The commands commit offsets in the way in which relay itself does,
so that brokers guard the change:

* A group's coordinator refuses a commit from outside the group while the group has members.
* For exactly-once, the change is a transaction of each shard's transactional id. It fences an instance that
  still runs: its next commit fails, and its restart begins at the new offset.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator, Collection, Mapping, Sequence
from typing import Final

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import (
    CommitFailedError,
    IllegalGenerationError,
    KafkaError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)

from relay.config import Config
from relay.config.kafka import shard_settings, source_cluster, start_settings, target_cluster
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.clients import Brokers, Clusters
from relay.io.kafka.ports import Partition, PollFailed, Undelivered
from relay.io.kafka.positions import StartOffsets, committed_offsets, find_start, was_added
from relay.io.kafka.progress import read_progress
from relay.io.kafka.reading import bounds, consuming, partitions_of
from relay.io.kafka.settings import Start, StartSettings
from relay.io.kafka.sink import TransactionalSink
from relay.model.errors import ConfigError, DeliveryFailed, RelayRunning, ServiceError, TopicUnusable
from relay.service.commands.offset_changes import OffsetChange, PartitionOffsets
from relay.topics.matching import with_found_topics
from relay.topics.startup import check_topics

_REQUEST_SECONDS: Final = 60.0
#: Answers to a commit from outside a group that has members.
_HAS_MEMBERS: Final = (
    CommitFailedError,
    IllegalGenerationError,
    RebalanceInProgressError,
    UnknownMemberIdError,
)


def storage_of(config: Config) -> str:
    """Return where the committed offsets are kept, as text."""
    group = config.source.group_id
    if config.uses_progress_topic:
        return f"progress topic {config.delivery.progress_topic} at {config.target_servers}, group {group}"
    return f"consumer group {group} at {config.source.bootstrap_servers}"


class RouteOffsets:
    """The committed offsets of a route, at its brokers. Made by `open_route_offsets`."""

    def __init__(self, config: Config, consumer: AIOKafkaConsumer, pairs: Sequence[TopicPartition]) -> None:
        self._config, self._consumer = config, consumer
        self.partitions = [Partition(*pair) for pair in pairs]
        self._pairs = list(pairs)

    async def read(self) -> list[PartitionOffsets]:
        """Return the offsets of each partition. Raises TopicUnusable, BrokerUnavailable."""
        async with asyncio.timeout(_REQUEST_SECONDS):
            committed = await self._committed()
            first, end = await bounds(self._consumer, self._pairs)
            start, why = await self._start(committed, first)
        return [
            PartitionOffsets(
                partition=partition,
                committed=committed.get(partition),
                start=start.get(partition),
                log_start=first[TopicPartition(*partition)],
                log_end=end[TopicPartition(*partition)],
                why_unknown="" if partition in committed or partition in start else why,
            )
            for partition in self.partitions
        ]

    async def find(self, start: StartSettings | None, partitions: Collection[Partition]) -> StartOffsets:
        """Return where partitions begin with these settings; None for those of the route.

        Raises ConfigError, RecordsGone, BrokerUnavailable.
        """
        async with asyncio.timeout(_REQUEST_SECONDS):
            return await find_start(
                self._consumer,
                start or start_settings(self._config.source),
                [TopicPartition(*each) for each in partitions],
            )

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit offsets to the group. Raises RelayRunning if it has members, DeliveryFailed."""
        group = self._config.source.group_id
        try:
            async with asyncio.timeout(_REQUEST_SECONDS):
                await self._consumer.commit({TopicPartition(*each): at for each, at in offsets.items()})
        except _HAS_MEMBERS as error:
            raise RelayRunning(
                f"the brokers refuse the offsets: group {group} has active members; stop all instances "
                "first, and wait until killed ones have left the group (session_timeout_ms); nothing was "
                "changed"
            ) from error
        except (KafkaError, TimeoutError) as error:
            raise DeliveryFailed(f"offsets of group {group} cannot be committed: {text_of(error)}") from error

    async def _committed(self) -> Mapping[Partition, int]:
        config = self._config
        if not config.uses_progress_topic:
            return await committed_offsets(self._consumer, config.source.group_id, self.partitions)
        brokers = Brokers.from_settings(target_cluster(config))
        try:
            return await read_progress(brokers, config.delivery.progress_topic, config.source.group_id)
        except PollFailed as error:
            raise TopicUnusable(str(error)) from error

    async def _start(
        self, committed: Mapping[Partition, int], first: Mapping[TopicPartition, int]
    ) -> tuple[dict[Partition, int], str]:
        """Return where partitions without a committed offset begin, and why that is unknown for some."""
        start: dict[Partition, int] = {}
        fresh = [each for each in self.partitions if each not in committed]
        if start_settings(self._config.source).start is Start.LATEST:
            # An added partition is read from its beginning, and so is a topic that a pattern has found later.
            is_later = bool(self._config.source.topics_pattern and committed)
            start = {
                each: first[TopicPartition(*each)] for each in fresh if is_later or was_added(each, committed)
            }
            fresh = [each for each in fresh if each not in start]
        if not fresh:
            return start, ""
        try:
            found = await self.find(None, fresh)
        except (ConfigError, ServiceError) as error:
            return start, str(error)
        return start | {Partition(*pair): offset for pair, offset in found.offsets.items()}, ""


@contextlib.asynccontextmanager
async def open_route_offsets(config: Config) -> AsyncIterator[RouteOffsets]:
    """Connect to the source, without joining the group. Raises TopicUnusable, BrokerUnavailable."""
    brokers = Brokers.from_settings(source_cluster(config))
    config = await with_found_topics(config, brokers)
    pairs = [
        TopicPartition(topic, number)
        for topic in config.source.topics
        for number in range(await partitions_of(brokers, topic))
    ]
    async with consuming(brokers, pairs, config.source.group_id) as consumer:
        yield RouteOffsets(config, consumer, pairs)


async def store_offsets(config: Config, route: RouteOffsets, changes: Sequence[OffsetChange]) -> None:
    """Commit the offsets of the changes.

    Raises RelayRunning, DeliveryFailed, TopicUnusable, BrokerUnavailable.
    """
    offsets = {each.current.partition: each.to for each in changes if each.is_needed}
    if not config.is_exactly_once:
        await route.commit(offsets)
        return
    clusters = Clusters.from_settings(source_cluster(config), target_cluster(config))
    # As at a start: the progress topic may not exist yet, and a hanging transaction has to be ended first.
    topics = await check_topics(await with_found_topics(config, clusters.source), clusters)
    changed_shards: list[int] = []
    for settings in shard_settings(config):
        shard_offsets = {each: at for each, at in offsets.items() if settings.shard.contains(each.partition)}
        if not shard_offsets:
            continue
        sink = TransactionalSink(settings, topics.limits, clusters.target, topics.compacted)
        try:
            await _commit(sink, shard_offsets)
        except (Undelivered, ServiceError) as error:
            changed = ", ".join(map(str, changed_shards)) or "none"
            raise DeliveryFailed(
                f"offsets of shard {settings.shard.number} cannot be committed: {error}; shards whose "
                f"offsets were changed: {changed}; correct the cause and run the command again"
            ) from error
        changed_shards.append(settings.shard.number)


async def _commit(sink: TransactionalSink, offsets: Mapping[Partition, int]) -> None:
    """Commit offsets in a transaction that has no records. Raises Undelivered, ServiceError."""
    try:
        await sink.start()
        await sink.commit(offsets)
    finally:
        await sink.stop()
