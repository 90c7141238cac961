"""Read a small topic of relay's own to its end, and go on from there."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Sequence
from typing import Any

from aiokafka import AIOKafkaConsumer, TopicPartition
from aiokafka.errors import KafkaError

from relay.io.kafka.aiokafka_compat import started, stopped, unreachable
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.client_health import ClientHealth
from relay.io.kafka.clients import Brokers
from relay.io.kafka.fetched import relay_records
from relay.io.kafka.hanging_transactions import written_end
from relay.model.errors import BrokerUnavailable, TopicUnusable
from relay.model.records import ConsumerRecord

_POLL_MS = 200
_HOLD_SECONDS = 0.1


class WholeTopic:
    """Partition 0 of a topic; committed records only.

    `new` and `to_end` return each record once, in order, also if a call is cancelled and the next one goes
    on. `waits_for_open`: the end is that of all records, and `to_end` waits for the transactions that are
    open before it; else the first of these is the end.
    """

    def __init__(self, brokers: Brokers, topic: str, *, waits_for_open: bool = False) -> None:
        self._brokers, self.name, self._waits_for_open = brokers, topic, waits_for_open
        self._pair = TopicPartition(topic, 0)
        # None before the first reading, and after one that failed.
        self._consumer: Any = None
        self.health = ClientHealth(_HOLD_SECONDS)
        self._next = 0

    async def to_end(
        self, take: Callable[[Sequence[ConsumerRecord]], object], beat: Callable[[], object] = lambda: None
    ) -> None:
        """Pass all records up to the present end of the topic to `take`, some at a time.

        Calls `beat` on the way. Raises BrokerUnavailable, TopicUnusable.
        """
        try:
            await self._to_end(take, beat)
        except (BrokerUnavailable, TopicUnusable):
            # The next reading has a new client.
            await self.stop()
            raise

    async def _to_end(
        self, take: Callable[[Sequence[ConsumerRecord]], object], beat: Callable[[], object]
    ) -> None:
        try:
            async with asyncio.timeout(self._brokers.timeouts.whole_topic_seconds):
                await self._start()
                # The client keeps requesting a deleted topic forever.
                async with asyncio.timeout(self._brokers.timeouts.request_seconds):
                    end = await self._end()
                while await self._consumer.position(self._pair) < end:
                    beat()
                    take(await self._poll(_POLL_MS))
        except TimeoutError as error:
            raise BrokerUnavailable(
                f"topic {self.name} could not be read to its end in time; does it exist?"
            ) from error
        except UnicodeDecodeError as error:
            raise TopicUnusable(
                f"topic {self.name} contains a record that relay did not write: a header's name is not UTF-8"
            ) from error
        except KafkaError as error:
            if error.retriable:
                raise BrokerUnavailable(f"topic {self.name} cannot be read now: {text_of(error)}") from error
            raise TopicUnusable(f"topic {self.name} cannot be read: {text_of(error)}") from error

    async def new(self) -> list[ConsumerRecord]:
        """Return records fetched since, without requests or waiting; none after a failure (see `to_end`)."""
        if self._consumer is None:
            return []
        try:
            return await self._poll(0)
        except (KafkaError, UnicodeDecodeError):
            return []

    async def stop(self) -> None:
        """Disconnect."""
        consumer, self._consumer = self._consumer, None
        if consumer is not None:
            await stopped(consumer, self._brokers.timeouts.stop_seconds)

    async def _end(self) -> int:
        if self._waits_for_open:
            return await written_end(self._consumer._client, self._pair)
        ends = await self._consumer.end_offsets([self._pair])
        return int(ends[self._pair])

    async def _start(self) -> None:
        if self._consumer is not None:
            return
        consumer: Any = AIOKafkaConsumer(
            bootstrap_servers=self._brokers.servers,
            client_id="relay",
            enable_auto_commit=False,
            auto_offset_reset="earliest",
            isolation_level="read_committed",
            fetch_max_wait_ms=int(1000 * _HOLD_SECONDS),
            **self._brokers.arguments,
        )
        try:
            await started(self._brokers.timeouts.start_seconds, consumer, self._brokers, self.health)
        except BaseException as error:
            await stopped(consumer, self._brokers.timeouts.stop_seconds)
            if isinstance(error, KafkaError | TimeoutError):
                raise unreachable(self._brokers.servers, error) from error
            raise
        self._consumer = consumer
        self._consumer.assign([self._pair])
        # If retention has deleted records from here on, the client moves to the oldest one that is left.
        self._consumer.seek(self._pair, self._next)

    async def _poll(self, timeout_ms: int) -> list[ConsumerRecord]:
        try:
            polled = await self._consumer.getmany(timeout_ms=timeout_ms)
        except BaseException:
            # The client may have moved past records that were lost.
            self._consumer.seek(self._pair, self._next)
            raise
        found = [record for records in polled.values() for record in relay_records(records)]
        if found:
            self._next = found[-1].offset + 1
        return found
