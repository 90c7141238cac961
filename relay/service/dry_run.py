"""A dry run: read and translate everything as in a real run, and write and commit nothing.

The source joins no group, so a running relay is not disturbed; it begins at the group's committed offsets, or
at `start`. The sink discards batches. No topic is created, no schema is registered, no object is stored, and
the schema history is only read.
"""

from __future__ import annotations

import asyncio
from asyncio import Future
from collections.abc import Collection, Container, Mapping, Sequence
from typing import Final

from aiokafka import TopicPartition

from relay.config import Config
from relay.config.keys import Wait
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Partition
from relay.io.kafka.settings import ConsumerSettings
from relay.io.kafka.sizes import NoMatch, TopicLimits
from relay.io.kafka.source import Progress, ShardSource
from relay.io.kafka.topics_to_read import TopicsToRead
from relay.io.logs import Log
from relay.model.records import ProducerRecord
from relay.topics.startup import Topics

#: Size in bytes from which a batch is handed over.
_BATCH_BYTES: Final = 1 << 20
DRY_RUN: Final = "dry run: nothing is written, committed, created or registered"


def dry_config(config: Config) -> Config:
    """Return the configuration of a dry run: one process that registers no schemas."""
    registry = config.target.schema_registry.model_copy(update={"register_schemas": False})
    return config.model_copy(
        update={
            "delivery": config.delivery.model_copy(update={"processes": 1}),
            "target": config.target.model_copy(update={"schema_registry": registry}),
        }
    )


def without_missing_history(config: Config, topics: Topics) -> Config:
    """Return the configuration without a history where its topic does not exist yet."""
    if not config.history_topic or config.history_topic in topics.target_partitions:
        return config
    wait = Wait.TRUE if config.waits_for_ddl else Wait.FALSE
    schema = config.schema.model_copy(update={"history_topic": "", "wait_for_ddl": wait})
    return config.model_copy(update={"schema": schema})


class DrySource(ShardSource):
    """Read the partitions of the shard, or of the whole group.

    Commits are kept only here, in `reached`, for the source that replaces this one.
    """

    def __init__(
        self,
        reached: dict[Partition, int],
        settings: ConsumerSettings,
        progress: Progress | None,
        log: Log,
        brokers: Brokers,
        topics: TopicsToRead | None = None,
    ) -> None:
        super().__init__(settings, progress, log, brokers, topics)
        self._reached = reached

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Remember how far records were read."""
        self._reached.update(offsets)

    async def _committed(
        self, pairs: Mapping[Partition, TopicPartition], at_least: Mapping[Partition, int]
    ) -> dict[Partition, int]:
        found = await super()._committed(pairs, at_least)
        return found | {
            partition: self._reached[partition] for partition in pairs if partition in self._reached
        }


class DryBatch:
    """Counts records."""

    def __init__(self, *, needs_keys: bool) -> None:
        self._needs_keys = needs_keys
        self._count, self.size = 0, 0

    def append(self, record: ProducerRecord) -> bool:
        """Count a record; False if the batch is full, or if the record lacks a key that it needs."""
        if self.size >= _BATCH_BYTES or (self._needs_keys and record.key is None and self._count):
            return False
        self._count += 1
        self.size += len(record.key or b"") + len(record.value or b"")
        return True

    def __len__(self) -> int:
        return self._count


class DrySink:
    """Acknowledge batches at once, and discard them.

    `limits`, `compacted`: as in `KafkaSink`, for existing topics, to find records that these would refuse.
    """

    is_transactional = False
    has_aborted_hanging_transaction = False
    needs_rotation = False

    def __init__(self, limits: Mapping[str, int], compacted: Container[str] = ()) -> None:
        self._limits = TopicLimits(limits, compacted)
        self.health = ClientHealth()

    async def start(self) -> None:
        """Connect to nothing."""

    def batch(self, topic: str) -> DryBatch:
        """Make an empty batch for a partition of a topic."""
        return DryBatch(needs_keys=topic in self._limits.compacted)

    async def send(self, partition: Partition, batch: object) -> Future[object]:  # noqa: ARG002 - as a sink's
        """Take a batch, and acknowledge it."""
        done: Future[object] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done

    async def expect(self, topics: Collection[str]) -> None:
        """Look up no topics."""

    async def delivered(self, pending: Sequence[Future[object]]) -> None:
        """Return at once."""

    def misfit(self, records: Sequence[ProducerRecord]) -> NoMatch | None:
        """Return why a topic refuses one of the records, if it does."""
        return self._limits.misfit(records)

    async def commit(self, offsets: Mapping[Partition, int]) -> None:
        """Commit nothing."""

    async def stop(self) -> None:
        """Do nothing: nothing is open."""

    async def abandon(self) -> None:
        """Do nothing: nothing is open."""
