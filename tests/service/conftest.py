"""A translator without a codec, a log that can be asked, and a relay that runs beside the test."""

from __future__ import annotations

import asyncio
import contextlib
import io
import tempfile
from collections.abc import AsyncIterator, Callable, Iterator
from pathlib import Path
from typing import Any

import orjson
import pytest
from broker_support import broker_options
from service.memory import PlainTranslator

from relay.config import Config
from relay.demo.kafka import Cluster
from relay.io.logs import Log
from relay.model.errors import Malformed
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord
from relay.service.app import run_until
from relay.service.loop.settings import DEFAULT_SETTINGS, LoopSettings
from relay.service.observe.about import About
from relay.service.observe.status import Status


class Echo(PlainTranslator):
    """Writes every record as it is, marked with where it comes from, and refuses the value `poison`."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic
        self.grow: dict[bytes, int] = {}

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if record.value == b"poison":
            raise Malformed("echo", "value", "is poison")
        value = b"x" * self.grow[record.value] if record.value in self.grow else record.value
        mark = (SOURCE_HEADER, f"{record.topic}/{record.partition}/{record.offset}/0".encode())
        headers = (*record.headers, mark)
        return [ProducerRecord(self.topic, record.partition, record.timestamp_ms, record.key, value, headers)]


class ListLog(Log):
    """Keeps what is logged."""

    def __init__(self) -> None:
        self._text = io.StringIO()
        super().__init__(self._text)

    @property
    def events(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self._text.getvalue().splitlines()]

    def named(self, event: str) -> list[dict[str, Any]]:
        return [each for each in self.events if each["event"] == event]


class Running:
    """A relay in a task; `stop` gives its exit status."""

    def __init__(self, config: Config, translator: Any, settings: LoopSettings) -> None:
        self.config, self.log, self.status = config, ListLog(), Status(About.of(config))
        self._stop = asyncio.Event()
        self._task = asyncio.create_task(
            run_until(self._stop, config, self.log, translator, self.status, settings=settings)
        )

    @property
    def has_ended(self) -> bool:
        return self._task.done()

    async def ended(self) -> int:
        """Wait until it ends by itself."""
        async with asyncio.timeout(60):
            return await self._task

    async def stop(self) -> int:
        self._stop.set()
        return await self.ended()

    async def cancel(self) -> None:
        """End it without a request to stop, as a loop that is torn down does."""
        self._task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await self._task


@pytest.fixture
def echo() -> Callable[[str], Echo]:
    return Echo


@pytest.fixture
def list_log() -> ListLog:
    return ListLog()


@pytest.fixture
def loop_settings() -> LoopSettings:
    """Give the settings of all relays of a test; a module may have a fixture of its own with this name."""
    return DEFAULT_SETTINGS


@pytest.fixture
async def run_relay(loop_settings: LoopSettings) -> AsyncIterator[Callable[..., Running]]:
    """Start relays beside the test; those that are still running are stopped after it."""
    running: list[Running] = []

    def start(config: Config, translator: Any, settings: LoopSettings | None = None) -> Running:
        running.append(Running(config, translator, settings or loop_settings))
        return running[-1]

    yield start
    for each in running:
        if not each.has_ended:
            with contextlib.suppress(Exception):
                await each.stop()


@pytest.fixture
def own_cluster() -> Iterator[Cluster]:
    """Give a broker that the test may kill."""
    with (
        tempfile.TemporaryDirectory(prefix="relay-tests-", ignore_cleanup_errors=True) as home,
        Cluster(Path(home) / "kafka", options=broker_options()) as cluster,
    ):
        yield cluster
