"""What the tests of the transport share: relays between two topics of a real Kafka, and the clients that they
make.
"""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Mapping, Sequence
from typing import Any

import pytest
from aiokafka.admin.config_resource import ConfigResource, ConfigResourceType

from relay.config import Config
from relay.io.kafka.settings import ProducerSettings
from relay.model.records import SOURCE_HEADER, ConsumerRecord
from relay.service import app
from relay.service.loop.settings import LoopSettings

NOW = 1_700_000_000_000
MODES: Mapping[str, Mapping[str, Any]] = {
    "at-least-once": {},
    "exactly-once": {"delivery_mode": "exactly-once", "delivery_transaction_interval_seconds": 0.05},
}
#: Small rounds and batches, so that there are many of them.
SMALL: Mapping[str, Any] = {"source_max_partition_fetch_bytes": 20_000, "target_max_batch_bytes": 10_000}
both_modes = pytest.mark.parametrize("mode", MODES)


def numbered(count: int, partitions: int = 2, start: int = 0) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("", i % partitions, 0, NOW + i, None, b"%d" % i) for i in range(start, start + count)
    ]


def marks(found: Sequence[ConsumerRecord], partition: int) -> list[tuple[bytes | None, int]]:
    """Where each record comes from, and its number."""
    return [
        (dict(each.headers)[SOURCE_HEADER], int(each.value or b""))
        for each in found
        if each.partition == partition
    ]


def check_complete(
    found: Sequence[ConsumerRecord], count: int, *, partitions: int = 2, once: bool = False
) -> None:
    """Every numbered record is there, in order of first appearance, and a repeat equals its first; `once`: no
    repeats.
    """
    for partition in range(partitions):
        here = marks(found, partition)
        assert list(dict(here).values()) == list(range(partition, count, partitions))
        assert len(set(here)) == len(dict(here))
        if once:
            assert len(here) == len(dict(here))


class Clients:
    """Sources and sinks that relays have made, oldest first. `on_source`, `on_sink` get each new one, and its
    number from 0. `producer`: settings of sinks that the configuration does not have.
    """

    def __init__(self) -> None:
        self.sources: list[Any] = []
        self.sinks: list[Any] = []
        self.on_source: Callable[[Any, int], None] = lambda *_: None
        self.on_sink: Callable[[Any, int], None] = lambda *_: None
        self.producer: dict[str, Any] = {}

    def source(self, original: Any) -> Callable[..., Any]:
        def make(*given: Any, **named: Any) -> Any:
            self.sources.append(original(*given, **named))
            self.on_source(self.sources[-1], len(self.sources) - 1)
            return self.sources[-1]

        return make

    def sink(self, original: Any) -> Callable[..., Any]:
        def make(settings: ProducerSettings, *given: Any, **named: Any) -> Any:
            settings = dataclasses.replace(settings, **self.producer)
            self.sinks.append(original(settings, *given, **named))
            self.on_sink(self.sinks[-1], len(self.sinks) - 1)
            return self.sinks[-1]

        return make


class Route:
    """Two topics, and relays that copy from one to the other. `lay` comes first."""

    source: str
    target: str
    config: Config
    translator: Any

    def __init__(self, kafka: Any, make_config: Any, echo: Any, run_relay: Any) -> None:
        self.kafka, self.make_config, self.echo, self.run_relay = kafka, make_config, echo, run_relay
        self.clients = Clients()
        self.mode = ""
        #: Those of the test's relays, if they differ from the module's.
        self.settings: LoopSettings | None = None

    async def lay(
        self, mode: str = "at-least-once", partitions: int = 2, target_partitions: int = 0, **settings: Any
    ) -> None:
        """Make the topics, with equally many partitions unless said otherwise, and the configuration."""
        self.mode = mode
        self.source = await self.kafka.topic(partitions)
        self.target = await self.kafka.topic(target_partitions or partitions)
        self.config = self.make_config(self.source, self.target, **MODES[mode], **settings)
        self.translator = self.echo(self.target)

    @property
    def once(self) -> bool:
        return self.mode == "exactly-once"

    def start(self, **source: Any) -> Any:
        """Start a relay; `source` are keys of [source] that differ from the route's."""
        config = self.config
        if source:
            config = config.model_copy(update={"source": config.source.model_copy(update=source)})
        return self.run_relay(config, self.translator, self.settings)

    async def produce(self, count: int, start: int = 0, partitions: int = 2) -> None:
        await self.kafka.produce(self.source, numbered(count, partitions, start))

    async def committed(self) -> dict[int, int]:
        """The group's offset of each source partition."""
        found = await self.kafka.committed(self.config.source.group_id)
        return {partition: offset for (topic, partition), offset in found.items() if topic == self.source}

    async def until_committed(self, count: int, *relays: Any) -> None:
        """Wait until so many records are behind the group; a relay that ends by itself meanwhile is a
        failure.
        """

        async def is_so() -> bool:
            for relay in relays:
                assert not relay.has_ended, relay.log.events[-5:]
            return sum((await self.committed()).values()) == count

        await self.kafka.until(is_so)

    async def until_begun(self, count: int = 1) -> None:
        """Wait until the target holds so many records."""

        async def is_so() -> bool:
            return bool(await self.kafka.length(self.target) >= count)

        await self.kafka.until(is_so)

    async def until_logged(self, relay: Any, event: str, times: int = 1) -> None:
        async def is_so() -> bool:
            return len(relay.log.named(event)) >= times

        await self.kafka.until(is_so)

    async def written(self) -> list[ConsumerRecord]:
        """What readers of the target see: of transactions, those that were committed."""
        found: list[ConsumerRecord] = await self.kafka.read(self.target, committed=self.once)
        return found

    async def check(self, count: int, *, partitions: int = 2, once: bool | None = None) -> None:
        check_complete(
            await self.written(), count, partitions=partitions, once=self.once if once is None else once
        )

    async def set_target(self, **settings: str) -> None:
        """Change the target's settings while it is in use, and wait until the broker goes by them."""
        admin = self.kafka.admin
        wanted = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in settings.items()}
        (answer,) = await admin.alter_configs(
            [ConfigResource(ConfigResourceType.TOPIC, self.target, configs=wanted)]
        )
        assert [each[0] for each in answer.resources] == [0]

        async def is_so() -> bool:
            (topic,) = await admin.describe_configs([ConfigResource(ConfigResourceType.TOPIC, self.target)])
            return wanted.items() <= {entry[0]: entry[1] for entry in topic.resources[0][4]}.items()

        await self.kafka.until(is_so)


@pytest.fixture
def route(kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch) -> Route:
    """A route on the broker of this run; it keeps what its relays make."""
    found = Route(kafka, make_config, echo, run_relay)
    for name in ("KafkaSource", "ShardSource"):
        monkeypatch.setattr(app, name, found.clients.source(getattr(app, name)))
    for name in ("KafkaSink", "TransactionalSink"):
        monkeypatch.setattr(app, name, found.clients.sink(getattr(app, name)))
    return found
