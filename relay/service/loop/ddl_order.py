"""Process DDL before rows of other partitions that may need it, for `wait_for_ddl` in [schema].

Producers that send DDL to one partition send it to partition 0 (TiCDC Canal-JSON, Canal), some of them to
that of a separate topic (Debezium, `Config.ddl_topics`). A row may need DDL that was sent before it, and none
that was sent later; the records' Kafka timestamps decide the order.

* If the loop reads that partition itself, polled rows wait until it has been taken past their timestamps, or
  to its end as of the time when the rows arrived (`DdlOrder`).
* If another instance owns it, it is read beside the loop as well (`DdlFollower`).
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from types import MappingProxyType
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from relay.codecs import codec_named
from relay.config import Config
from relay.config.kafka import source_cluster
from relay.io.kafka.aiokafka_compat import started, stopped
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.clients import Brokers
from relay.io.kafka.fetched import relay_records, take_any_name
from relay.io.kafka.ports import Partition, PollFailed, RecordSource
from relay.io.resolver import Resolver
from relay.model.records import ConsumerRecord, newest_ms, size_of
from relay.service.loop.async_resolver import Translates, learn


class DdlPartitions:
    """The partition with each row's DDL. `ddl_topics`: the DDL topic of a topic that has a separate one."""

    def __init__(self, ddl_topics: Mapping[str, str]) -> None:
        self._ddl_topics = ddl_topics

    def replace(self, ddl_topics: Mapping[str, str]) -> None:
        """Take the DDL topics of other source topics."""
        self._ddl_topics = ddl_topics

    def first(self, partition: Partition) -> Partition | None:
        """Return the partition with the DDL for rows of `partition`; None if that is `partition`."""
        first = Partition(self._ddl_topics.get(partition.topic, partition.topic), 0)
        return None if first == partition else first

    def firsts(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Return the partitions with the DDL for rows of `partitions`, without those that need none."""
        found = (self.first(partition) for partition in partitions)
        return list(dict.fromkeys(first for first in found if first is not None))


class DdlOrder:
    """Decide which polled partitions must wait, from one turn of the loop to the next.

    `look` begins a turn; the other methods are about partitions passed to it.
    """

    def __init__(self, ddl_partitions: DdlPartitions) -> None:
        self._ddl_partitions = ddl_partitions
        # The newest Kafka timestamp that was taken from each partition with DDL for which rows wait; -1
        # before that.
        self._reached: dict[Partition, int] = {}
        # The position in each of them in this turn.
        self._position: dict[Partition, int] = {}
        # The timestamp of the other partitions' rows in this turn, and the end of their DDL when they
        # arrived, if it was requested.
        self._newest: dict[Partition, int] = {}
        self._end: dict[Partition, int] = {}

    def begin(self, firsts: Iterable[Partition]) -> None:
        """Make rows wait for these partitions with DDL, which are read here, and for no others."""
        self._reached = dict.fromkeys(firsts, -1)
        self._position, self._end, self._newest = {}, {}, {}

    def rewound(self) -> None:
        """Forget the progress in partitions with DDL."""
        self._reached = dict.fromkeys(self._reached, -1)

    async def look(
        self,
        source: RecordSource,
        polled: Mapping[Partition, Sequence[ConsumerRecord]],
        held: Collection[Partition],
    ) -> None:
        """Begin a turn with the polled records; those of `held` partitions were polled in an earlier turn.

        Fetches end offsets if they matter. Raises PollFailed.
        """
        if not self._reached:
            return
        self._end = {partition: end for partition, end in self._end.items() if partition in held}
        self._newest = {partition: newest_ms(records) for partition, records in polled.items()}
        for first in self._reached:
            records = polled.get(first)
            self._position[first] = records[0].offset if records else source.position_of(first) or 0
        behind = {
            partition: ddl
            for partition, newest in self._newest.items()
            if (ddl := self._waited_for(partition)) is not None
            and partition not in self._end
            and newest >= max(self._reached[ddl], self._newest.get(ddl, -1))
        }
        ends = await source.ends(set(behind.values())) if behind else {}
        self._end |= {partition: ends[ddl] for partition, ddl in behind.items()}

    def must_wait(self, partition: Partition) -> bool:
        """Return whether the rows of a partition wait, after everything taken so far in this turn."""
        first = self._waited_for(partition)
        if first is None:
            return False
        is_past = self._newest[partition] < self._reached[first]
        return not is_past and (partition not in self._end or self._position[first] < self._end[partition])

    def may_wait(self, partition: Partition) -> bool:
        """Return whether the rows of a partition have a partition with DDL to wait for."""
        return self._waited_for(partition) is not None

    def _waited_for(self, partition: Partition) -> Partition | None:
        first = self._ddl_partitions.first(partition) if self._reached else None
        return first if first in self._reached else None

    def taken(
        self, source: RecordSource, partition: Partition, records: Sequence[ConsumerRecord], done: int
    ) -> None:
        """Note how many of the polled records of a partition were taken."""
        if partition not in self._reached or not done:
            return
        self._reached[partition] = max(self._reached[partition], newest_ms(records[:done]))
        if done == len(records):
            # Not just after the last record: a transaction's end marker takes up an offset, too.
            self._position[partition] = max(records[-1].offset + 1, source.position_of(partition) or 0)


_POLL_MS = 50
#: Longest stretch of learning before heartbeats get their turn.
_YIELD_SECONDS = 0.010


class DdlFollower:
    """Apply the DDL of partition 0 to the translator. `heartbeat` is called while rows wait.

    `brokers`: those of the source, if their files were read before. `resolver` fetches the external data of
    records.
    """

    def __init__(
        self,
        config: Config,
        translator: Translates,
        heartbeat: Callable[[], object] = lambda: None,
        brokers: Brokers | None = None,
        resolver: Resolver | None = None,
        *,
        ddl_partitions: DdlPartitions | None = None,
    ) -> None:
        self._resolver = resolver or Resolver()
        self._source, self._translator, self._heartbeat = config.source, translator, heartbeat
        self._ddl_partitions = ddl_partitions or DdlPartitions(config.ddl_topics)
        self._marker = codec_named(config.route.from_, "from").non_ddl_marker
        self._brokers = brokers or Brokers.from_settings(source_cluster(config))
        self._request_seconds = self._brokers.timeouts.request_seconds
        # Records learned before their turn, by position; None if the translator's state is never reset to one
        # before it.
        self._ahead: dict[tuple[str, int, int], ConsumerRecord | None] = {}
        # Their form in the history of a route that hides values, unless another instance has written it.
        self._stored: dict[tuple[str, int, int], ConsumerRecord] = {}
        self.bytes_kept = 0
        # Kafka timestamp of the newest record that was read, by topic.
        self._reached: dict[str, int] = {}
        # The offset from which on everything was read, and the offset to read next. The client's own position
        # may have moved past records that were lost with an exception.
        self._begun: dict[TopicPartition, int] = {}
        self._next: dict[TopicPartition, int] = {}
        # Each partition 0 on which rows of this instance wait.
        self._followed: list[TopicPartition] = []
        self._consumer: Any = None
        self.health = ClientHealth(config.source.fetch_max_wait_ms / 1000)
        self._is_ready = False

    @property
    def ahead(self) -> AbstractSet[tuple[str, int, int]]:
        """Return the positions of records already learned here; the loop need not learn them again."""
        return self._ahead.keys()

    @property
    def stored_ahead(self) -> Mapping[tuple[str, int, int], ConsumerRecord]:
        """Return what the history keeps of records already learned here, on a route that hides values."""
        return MappingProxyType(self._stored)

    def written(self, position: tuple[str, int, int]) -> None:
        """Note that the history has what it keeps of a record."""
        self._stored.pop(position, None)

    async def begin(self, positions: Mapping[Partition, int]) -> None:
        """Read each followed partition 0 from these positions on, and no other partitions.

        Raises PollFailed.
        """
        for (topic, number), position in positions.items():
            pair = TopicPartition(topic, number)
            # Keep the records read ahead before a rebalance: otherwise a long reading might never end.
            if not self._begun.get(pair, position + 1) <= position <= self._next[pair]:
                self._begun[pair] = self._next[pair] = position
                self._reached.pop(topic, None)
        followed = [TopicPartition(*partition) for partition in positions]
        if followed and not self._is_ready:
            await self._start()
        if followed and followed != self._followed:
            self._consumer.assign(followed)
        self._followed = followed
        if self._is_ready:
            self._seek()

    async def rewound(self, positions: Mapping[Partition, int]) -> None:
        """Learn again after the translator's state was reset.

        Rereads each partition 0 that the loop rereads.
        """
        for record in list(self._ahead.values()):
            if record is not None:
                self._heartbeat()
                await self._apply(record)
        for partition, offset in positions.items():
            if TopicPartition(*partition) in self._next:
                # The loop may have come to DDL before it was read here; then it is not in `_ahead`.
                self._begun[TopicPartition(*partition)] = self._next[TopicPartition(*partition)] = offset
                self._reached.pop(partition.topic, None)
        if not positions:
            # The next `begin` sets the position; until then nothing counts as read.
            self._begun.clear()
        if self._is_ready:
            self._seek()

    def settled(self, positions: Mapping[Partition, int]) -> None:
        """Release records: everything before these positions is safe, and nothing is in flight.

        Positions that the loop has yet to reach are kept.
        """
        if not self.bytes_kept:
            return
        self.bytes_kept = 0
        for position in list(self._ahead):
            topic, partition, offset = position
            if offset < positions.get(Partition(topic, partition), 0):
                del self._ahead[position]
                self._stored.pop(position, None)
            else:
                self._ahead[position] = None

    async def wait_for(self, polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        """Read DDL past the times of these records, or to its present end. Raises PollFailed."""
        followed = {Partition(*pair) for pair in self._followed}
        newest: dict[str, int] = {}
        for partition, records in polled.items():
            first = self._ddl_partitions.first(partition)
            if first is not None and first in followed and records:
                time_ms = newest_ms(records)
                newest[first.topic] = max(time_ms, newest.get(first.topic, time_ms))
        for topic, time_ms in newest.items():
            if self._reached.get(topic, -1) <= time_ms:
                await self._read_past(topic, time_ms)

    async def stop(self) -> None:
        """Disconnect."""
        if self._consumer is not None:
            await stopped(self._consumer, self._brokers.timeouts.stop_seconds)

    async def _start(self) -> None:
        # A client whose start has failed cannot be started again.
        await self.stop()
        self._consumer = AIOKafkaConsumer(
            bootstrap_servers=self._brokers.servers,
            client_id="relay",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=self._source.fetch_max_wait_ms,
            **self._brokers.arguments,
        )
        try:
            await started(self._brokers.timeouts.start_seconds, self._consumer, self._brokers, self.health)
        except (KafkaError, TimeoutError) as error:
            raise PollFailed(f"cannot read ahead in partition 0: {text_of(error)}") from error
        self._followed, self._is_ready = [], True

    def _seek(self) -> None:
        for pair in self._followed:
            self._consumer.seek(pair, self._next[pair])

    async def _read_past(self, topic: str, time_ms: int) -> None:
        """Read until a later record or the end, without a time limit while it makes progress."""
        pair, clock = TopicPartition(topic, 0), asyncio.get_running_loop().time
        # The previous poll may have used its full time limit.
        self._heartbeat()
        try:
            async with asyncio.timeout(self._request_seconds) as patience:
                end = (await self._consumer.end_offsets([pair]))[pair]
                at = await self._consumer.position(pair)
                while at < end and self._reached.get(topic, -1) <= time_ms:
                    polled = await self._poll()
                    # Learning does not count: a registry may take longer, and has separate deadlines.
                    due, began = patience.when() or 0.0, clock()
                    patience.reschedule(None)
                    await self._take(polled)
                    patience.reschedule(due + clock() - began)
                    # Not the last record's offset: a transaction's end marker takes an offset, too.
                    position = await self._consumer.position(pair)
                    if position > at:
                        at = position
                        patience.reschedule(clock() + self._request_seconds)
                        self._heartbeat()
        except (KafkaError, TimeoutError) as error:
            raise PollFailed(f"cannot read ahead in partition 0 of {topic}: {text_of(error)}") from error

    async def _poll(self) -> Mapping[TopicPartition, Sequence[Any]]:
        try:
            polled: Mapping[TopicPartition, Sequence[Any]] = await self._consumer.getmany(timeout_ms=_POLL_MS)
        except Exception as error:
            # Not only KafkaError: a header name that is not UTF-8 makes the parser raise UnicodeDecodeError,
            # the first time.
            if isinstance(error, UnicodeDecodeError):
                take_any_name()
            self._seek()
            raise PollFailed(f"cannot read ahead in partition 0: {text_of(error)}") from error
        return polled

    async def _take(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        """Learn the polled records, yielding to heartbeats in between."""
        try:
            await self._learn_all(polled)
        except BaseException:
            # The client has moved past records that were not learned.
            self._seek()
            raise

    async def _learn_all(self, polled: Mapping[TopicPartition, Sequence[Any]]) -> None:
        pause_at = time.monotonic() + _YIELD_SECONDS
        for pair, records in polled.items():
            for record in relay_records(records):
                if time.monotonic() >= pause_at:
                    self._heartbeat()
                    await asyncio.sleep(0)
                    pause_at = time.monotonic() + _YIELD_SECONDS
                if self._marker is None or not self._marker.matches(record.key, record.value):
                    await self._learn(record)
                self._reached[record.topic] = max(record.timestamp_ms, self._reached.get(record.topic, -1))
                self._next[pair] = record.offset + 1

    async def _learn(self, record: ConsumerRecord) -> None:
        before = self._translator.catalog
        await self._apply(record)
        if self._translator.catalog is not before:
            position = record.topic, record.partition, record.offset
            self._ahead[position] = record
            stored = self._translator.storable(record)
            if stored is not None and stored is not record:
                self._stored[position] = stored
            self.bytes_kept += size_of([record])

    async def _apply(self, record: ConsumerRecord) -> None:
        # A record that cannot be read, for whatever reason, is reported by the loop in its turn, when all
        # before it is delivered.
        with contextlib.suppress(Exception):
            await learn(self._resolver, self._translator, record)
