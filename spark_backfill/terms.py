"""Inputs of a translating task: the bounds of its records, partitions of their source, target limits."""

from __future__ import annotations

import sys
from collections.abc import Mapping, Sequence
from typing import Final, NamedTuple, Protocol

import pyarrow as pa
import pyarrow.compute as pc

from relay.catalog import Catalog
from relay.model.errors import ConfigError, Problem, TopicUnusable
from relay.model.records import ConsumerRecord, ProducerRecord

#: Placeholder for an unknown number of partitions of the dead-letter topic: dead letters keep their
#: partition.
KEEP_PARTITION: Final = 1 << 31
#: The latest timestamp that Spark can hold, in milliseconds: it counts microseconds in 64 bits.
LATEST_MS: Final = sys.maxsize // 1000


class Broadcast(Protocol):
    """A catalog that Spark sends to every worker once."""

    @property
    def value(self) -> Catalog:
        """Return the catalog."""
        ...


class Watch(Protocol):
    """A check of the records of a task for DDL that the driver does not know."""

    def check(self, batch: pa.RecordBatch) -> None:
        """Raise DdlUnread if a batch has such DDL."""
        ...


class Bounds(NamedTuple):
    """The bounds of the records to translate.

    Those from the offsets `first` on and before the offsets `end`, by `topic/partition`, with a timestamp
    from `since_ms` on and before `before_ms`.
    """

    first: Mapping[str, int] | None = None
    end: Mapping[str, int] | None = None
    since_ms: int | None = None
    before_ms: int | None = None

    def contains(self, record: ConsumerRecord) -> bool:
        """Return whether the record is translated."""
        first, end = self._offsets_of(record.topic, record.partition)
        return (
            first <= record.offset < end
            and (self.since_ms is None or record.timestamp_ms >= self.since_ms)
            and (self.before_ms is None or record.timestamp_ms < self.before_ms)
        )

    def mask(self, topic: str, partition: int, rows: pa.RecordBatch) -> pa.BooleanArray:
        """Return whether each record of a partition, as a batch of `RECORDS`, is translated."""
        first, end = self._offsets_of(topic, partition)
        offsets, times_ms = rows.column("offset"), rows.column("timestamp_ms")
        found = pc.and_(pc.greater_equal(offsets, first), pc.less(offsets, end))
        if self.since_ms is not None:
            found = pc.and_(found, pc.greater_equal(times_ms, self.since_ms))
        if self.before_ms is not None:
            found = pc.and_(found, pc.less(times_ms, self.before_ms))
        return found

    def _offsets_of(self, topic: str, partition: int) -> tuple[int, int]:
        name = f"{topic}/{partition}"
        return (self.first or {}).get(name, 0), (self.end or {}).get(name, sys.maxsize)


class Terms(NamedTuple):
    """The known facts about the source's partitions and the target's topics; files contain no topics.

    `dead_letter_partitions`: how many the dead-letter topic has. `limits`: `max.message.bytes` of every
    topic. `compacted`: those in which every record needs a key. `partitions`: how many every topic has, where
    only the records determine which topics are written. `sources`: the partitions (topic, number) of the
    source, where its DDL is written to all of them. `watch`: finds DDL that the schema pass may have missed;
    None if it has read all records.
    """

    dead_letter_partitions: int = KEEP_PARTITION
    limits: Mapping[str, int] | None = None
    partitions: Mapping[str, int] | None = None
    sources: Sequence[tuple[str, int]] = ()
    compacted: frozenset[str] = frozenset()
    watch: Watch | None = None

    def check_partitions(self, produced: Sequence[ProducerRecord], record: ConsumerRecord) -> None:
        """Refuse records without a target partition, before anything is written.

        Raises ConfigError, TopicUnusable.
        """
        if self.partitions is not None:
            for out in produced:
                self.check_partition(out.topic, out.partition, record.topic)

    def check_partition(self, topic: str, partition: int, source: str) -> None:
        """Refuse a target partition that does not exist. `source`: the topic of the source.

        Raises ConfigError, TopicUnusable.
        """
        if self.partitions is None:
            return
        count = self.partitions.get(topic)
        if count is None:
            message = f"does not name {source}, but backfill.input holds records of that topic"
            raise ConfigError([Problem("source.topics", message, f"add it; its target is {topic}")])
        if partition >= count:
            cure = "add partitions to it, or set partitions in [target]"
            target = f"partition {partition} of {topic}"
            raise TopicUnusable(f"the record belongs to {target}, which has {count}; {cure}")
