"""Reads partition 0 of the source topics ahead of the loop, for `wait` in [schema]: rows of other partitions then know its DDL.

Producers that send DDL to one partition send it to partition 0 (TiCDC Canal-JSON, Canal). A row may need DDL that was sent before
it, and none that was sent later; what was sent when, the records' Kafka timestamps tell.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from relay.config import Config
from relay.errors import CodecError
from relay.needs import Need
from relay.records import ConsumerRecord
from relay.service.aiokafka_ends import REQUEST_SECONDS, STOP_SECONDS, relay_records, started, text_of, within
from relay.service.clients import client_settings
from relay.service.objects import Translates
from relay.service.transport import Partition, PollFailed

_POLL_MS = 50


class DdlFollower:
    """`ahead`: places of records that taught the translator here, and so are nothing new to it when the loop comes to them."""

    def __init__(self, config: Config, translator: Translates) -> None:
        self._translator = translator
        self._topics = config.source.topics
        self.ahead: set[tuple[str, int, int]] = set()
        # Kafka timestamp of the newest record that was read, by topic.
        self._reached: dict[str, int] = {}
        self._consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=config.source.bootstrap_servers,
            client_id="relay",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=config.source.fetch_max_wait_ms,
            **client_settings(config.source.security, "source.security"),
        )
        self._is_started = False

    async def begin(self, positions: Mapping[Partition, int]) -> None:
        """Read from these positions of the topics' partitions 0 on. Raises PollFailed."""
        pairs = {TopicPartition(topic, 0): positions[Partition(topic, 0)] for topic in self._topics}
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                if not self._is_started:
                    # Set first: a start that is given up half-way has to be stopped, too.
                    self._is_started = True
                    await started(REQUEST_SECONDS, self._consumer)
                    self._consumer.assign(list(pairs))
        except (KafkaError, TimeoutError) as error:
            raise PollFailed(f"partition 0 cannot be read ahead: {text_of(error)}") from error
        for pair, offset in pairs.items():
            self._consumer.seek(pair, offset)
        self._reached.clear()

    async def wait_for(self, records: Sequence[ConsumerRecord]) -> None:
        """Read partition 0 past the time of these records, or to its present end. Raises PollFailed."""
        topic, newest = records[0].topic, max(record.timestamp_ms for record in records)
        if records[0].partition == 0 or self._reached.get(topic, -1) > newest:
            return
        pair = TopicPartition(topic, 0)
        try:
            async with asyncio.timeout(REQUEST_SECONDS):
                end = (await self._consumer.end_offsets([pair]))[pair]
                while self._reached.get(topic, -1) <= newest and await self._consumer.position(pair) < end:
                    await self._read()
        except (KafkaError, TimeoutError) as error:
            raise PollFailed(f"partition 0 of {topic} cannot be read ahead: {text_of(error)}") from error

    async def _read(self) -> None:
        polled = await self._consumer.getmany(timeout_ms=_POLL_MS)
        for records in polled.values():
            for record in relay_records(records):
                self._learn(record)
                self._reached[record.topic] = max(record.timestamp_ms, self._reached.get(record.topic, -1))

    def _learn(self, record: ConsumerRecord) -> None:
        before = self._translator.catalog
        # What cannot be read is the loop's to tell, in its turn.
        with contextlib.suppress(CodecError, Need):
            self._translator.learn(record)
        if self._translator.catalog is not before:
            self.ahead.add((record.topic, record.partition, record.offset))

    async def stop(self) -> None:
        """Disconnect."""
        if self._is_started:
            await within(STOP_SECONDS, self._consumer.stop())
