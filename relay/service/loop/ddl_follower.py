"""Read partition 0 of source topics beside the loop, for `wait_for_ddl` in [schema].

It is used where another instance owns that partition, so that its DDL is known when rows of other partitions
are translated.

Producers that send DDL to one partition send it to partition 0 (TiCDC Canal-JSON, Canal), some of them to
that of a separate topic (Debezium). A row may need DDL that was sent before it, and none that was sent later;
the records' Kafka timestamps decide the order.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Mapping, Sequence
from collections.abc import Set as AbstractSet
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from relay.codecs import codec_named
from relay.config import Config
from relay.config.kafka import source_cluster
from relay.io.kafka.aiokafka_compat import started, stopped
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.clients import Brokers
from relay.io.kafka.error_words import text_of
from relay.io.kafka.fetched import relay_records
from relay.io.kafka.header_names import take_any_name
from relay.io.kafka.ports import Partition, PollFailed
from relay.io.resolver import Resolver
from relay.model.records import ConsumerRecord, size_of
from relay.service.loop.async_resolver import Translates, learn
from relay.service.loop.ddl_order import DdlPartitions

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
    ) -> None:
        self._resolver = resolver or Resolver()
        self._source, self._translator, self._heartbeat = config.source, translator, heartbeat
        self._ddl_partitions = DdlPartitions(config.ddl_topics)
        self._marker = codec_named(config.route.from_, "from").non_ddl_marker
        self._brokers = brokers or Brokers.from_settings(source_cluster(config))
        self._request_seconds = self._brokers.timeouts.request_seconds
        # Records learned before their turn, by position; None if the translator's state is never reset to one
        # before it.
        self._ahead: dict[tuple[str, int, int], ConsumerRecord | None] = {}
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
            else:
                self._ahead[position] = None

    async def wait_for(self, polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        """Read DDL past the times of these records, or to its present end. Raises PollFailed."""
        followed = {Partition(*pair) for pair in self._followed}
        newest: dict[str, int] = {}
        for partition, records in polled.items():
            first = self._ddl_partitions.first(partition)
            if first is not None and first in followed and records:
                time_ms = max([record.timestamp_ms for record in records])
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
            self._ahead[record.topic, record.partition, record.offset] = record
            self.bytes_kept += size_of([record])

    async def _apply(self, record: ConsumerRecord) -> None:
        # A record that cannot be read, for whatever reason, is reported by the loop in its turn, when all
        # before it is delivered.
        with contextlib.suppress(Exception):
            await learn(self._resolver, self._translator, record)
