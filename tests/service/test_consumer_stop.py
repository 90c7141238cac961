"""A consumer is stopped whole, whatever happens meanwhile: its tasks would fetch for ever."""

from __future__ import annotations

import asyncio

import pytest

from relay.io.kafka import reading
from relay.io.kafka.aiokafka_compat import stopped
from relay.io.kafka.clients import Brokers
from relay.io.kafka.settings import Security


class Part:
    """A part of a consumer that needs a few turns of the loop to close."""

    def __init__(self) -> None:
        self.closed = asyncio.Event()

    async def close(self) -> None:
        await asyncio.sleep(0.01)
        self.closed.set()


class Consumer:
    """A consumer as aiokafka has it; `error`: what the first step of its stop raises."""

    def __init__(self, error: BaseException | None = None, **_: object) -> None:
        self._fetcher, self._client, self._coordinator, self._error = Part(), Part(), None, error

    async def stop(self) -> None:
        await asyncio.sleep(0.01)
        if self._error is not None:
            raise self._error
        await self._fetcher.close()
        await self._client.close()

    def assign(self, _: object) -> None:
        pass

    async def closed(self) -> None:
        async with asyncio.timeout(5):
            await self._fetcher.closed.wait()
            await self._client.closed.wait()


@pytest.mark.parametrize("error", [None, asyncio.CancelledError(), OSError("gone")])
async def test_a_caller_that_is_cancelled_leaves_nothing_open(error: BaseException | None) -> None:
    consumer = Consumer(error)
    stopping = asyncio.ensure_future(stopped(consumer))
    await asyncio.sleep(0)
    stopping.cancel()
    with pytest.raises(asyncio.CancelledError):
        await stopping
    await consumer.closed()


async def test_a_reader_closes_a_consumer_whose_own_stop_fails(monkeypatch: pytest.MonkeyPatch) -> None:
    """The client's `stop` raises CancelledError if the consumer was stopped before its first task ran."""
    consumer = Consumer(asyncio.CancelledError())

    async def started(*_: object) -> None:
        """Start nothing."""

    monkeypatch.setattr(reading, "AIOKafkaConsumer", lambda **_: consumer)
    monkeypatch.setattr(reading, "started", started)
    async with reading.consuming(Brokers("nowhere:9092", Security(table="source.security"), {}), []) as found:
        assert found is consumer
    await consumer.closed()
