"""A real Apache Kafka for the whole run, and helpers around it. Topic names are unique, so that tests do not
meet.
"""

from __future__ import annotations

import asyncio
import contextlib
import functools
import gc
import os
import sys
import tempfile
import time
import uuid
from collections.abc import AsyncIterator, Awaitable, Callable, Generator, Iterable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import pytest_asyncio
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer, TopicPartition
from aiokafka.admin import AIOKafkaAdminClient, NewPartitions, NewTopic, RecordsToDelete
from aiokafka.errors import KafkaError
from broker_support import broker_options
from hypothesis import settings
from scheduling import ByFiles, ordered
from support import QUICK

from relay.config import Config
from relay.demo.kafka import Cluster, DemoExtraMissing
from relay.io import kernel
from relay.model.records import ConsumerRecord
from relay.templates.route.policy import EAGER_POLICY

DEADLINE_SECONDS = 60
#: The constant that says at which row of a kind something is compiled for it; nothing else patches it.
COMPILED_AT = "relay.codecs.shared.compiled.AT_USE"
#: The maximum number of cases that `make quick` tries of a test.
QUICK_CASES = 2
#: How many examples Hypothesis generates for a test.
EXAMPLES = 25 if QUICK else 100
#: What Python has compiled, where the environment forbids to keep it beside the sources.
BYTECODE = Path(__file__).parent.parent / ".cache" / "pycache"

# A busy machine is no failure; pytest's own time-out bounds every test.
settings.register_profile("relay", deadline=None, max_examples=EXAMPLES)
settings.load_profile("relay")


def _keep_bytecode() -> None:
    """Let all Pythons of the run keep what they have compiled, in a folder of the project's caches, if they may
    not keep it beside the sources: tests start hundreds, and each takes seconds to compile what it imports.
    """
    if sys.dont_write_bytecode:
        sys.dont_write_bytecode, sys.pycache_prefix = False, str(BYTECODE)
        os.environ["PYTHONPYCACHEPREFIX"] = str(BYTECODE)
        os.environ.pop("PYTHONDONTWRITEBYTECODE", None)


_keep_bytecode()


@pytest.fixture(scope="session", autouse=True)
def compiled_at_once() -> Iterator[None]:
    """Compile for the first row of a kind, and derive templates from the second: tests have few rows, and most
    are about what is compiled.
    """
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(COMPILED_AT, 1)
        patch.setattr("relay.core.translator.Translator._template_policy", EAGER_POLICY)
        yield


@pytest.fixture
def compile_at(monkeypatch: pytest.MonkeyPatch) -> Callable[[int], None]:
    """Give what says at which row of a kind to compile, in tests about the rows before."""
    return lambda uses: monkeypatch.setattr(COMPILED_AT, uses)


def pytest_report_header() -> str:
    """Whether the native kernel is tested."""
    return kernel.installed().text


@pytest.hookimpl(wrapper=True)
def pytest_collection() -> Generator[None, object, object]:
    """Look for no garbage among the tests, neither while they are found nor later: all are kept to the end, and
    to look through them takes half a second each time.
    """
    gc.disable()
    try:
        return (yield)
    finally:
        gc.enable()
        gc.freeze()


def _quick_cases(item: pytest.Item) -> int:
    """The maximum number of a test's cases in `make quick`."""
    return 1 if item.get_closest_marker("one_case") else QUICK_CASES


@functools.cache
def _measures_cost(module: ModuleType | None) -> bool:
    return any(
        getattr(each, "__module__", None) == "cost_support" for each in vars(module or object).values()
    )


def _some_cases(items: list[pytest.Item]) -> list[pytest.Item]:
    """Keep `QUICK_CASES` cases of each test, evenly spread; all if it has the mark `all_cases`, one if it has
    `one_case`. Leave out tests that measure time or memory.
    """
    cases: dict[tuple[Path, str], list[pytest.Item]] = {}
    for item in items:
        if not _measures_cost(getattr(item, "module", None)):
            name = (
                item.name
                if item.get_closest_marker("all_cases")
                else getattr(item, "originalname", item.name)
            )
            cases.setdefault((item.path, name), []).append(item)
    return [
        found[at * len(found) // kept]
        for found in cases.values()
        for kept in [min(len(found), _quick_cases(found[0]))]
        for at in range(kept)
    ]


def pytest_collection_modifyitems(config: pytest.Config, items: list[pytest.Item]) -> None:
    """Choose cases for `make quick`, and order tests as they are handed out to workers."""
    if QUICK:
        chosen = _some_cases(items)
        kept = set(map(id, chosen))
        config.hook.pytest_deselected(items=[item for item in items if id(item) not in kept])
        items[:] = chosen
    items[:] = [items[at] for at in ordered([item.nodeid for item in items])]


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> object:
    """Hand out the tests of `make test` by files; other commands distribute them as they say."""
    return ByFiles(config, log) if config.getoption("dist") == "loadgroup" else None


class Kafka:
    """A broker as tests need it: topics made, filled and read back, committed offsets seen."""

    def __init__(self, bootstrap_servers: str, admin: Any) -> None:
        self.bootstrap_servers = bootstrap_servers
        self.admin = admin

    async def topic(self, partitions: int = 1, *, name: str = "", **configs: str) -> str:
        """Create a topic, by default of a random name; `max_message_bytes="1000"` sets max.message.bytes."""
        name = name or f"t-{uuid.uuid4().hex[:12]}"
        # Retention goes by the records' own timestamps, and those of the tests are old.
        settings = {"retention.ms": "-1"} | {key.replace("_", "."): value for key, value in configs.items()}
        await self.admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
        await self.until(lambda: self.has_leaders(name, partitions))
        return name

    async def has_leaders(self, name: str, partitions: int) -> bool:
        """Whether a topic has so many partitions, and all of them can be written."""
        (found,) = await self.admin.describe_topics([name])
        return len(found["partitions"]) == partitions and all(
            each["leader"] >= 0 for each in found["partitions"]
        )

    async def add_partitions(self, topic: str, total: int) -> None:
        """Give a topic more partitions, and wait until they can be written."""
        await self.admin.create_partitions({topic: NewPartitions(total)})
        await self.until(lambda: self.has_leaders(topic, total))

    async def produce(self, topic: str, records: Iterable[ConsumerRecord]) -> None:
        """Write records to `topic`, each to its own partition, with timestamps and headers as they are."""
        async with AIOKafkaProducer(
            bootstrap_servers=self.bootstrap_servers, enable_idempotence=True
        ) as producer:
            batches: dict[int, Any] = {}
            waiting = []
            for record in records:
                fields = {
                    "timestamp": record.timestamp_ms,
                    "key": record.key,
                    "value": record.value,
                    "headers": list(record.headers),
                }
                batch = batches.setdefault(record.partition, producer.create_batch())
                if batch.append(**fields) is None:
                    waiting.append(await producer.send_batch(batch, topic, partition=record.partition))
                    batch = batches[record.partition] = producer.create_batch()
                    assert batch.append(**fields) is not None
            for partition, batch in batches.items():
                batch.close()
                waiting.append(await producer.send_batch(batch, topic, partition=partition))
            await asyncio.gather(*waiting)

    async def topics(self) -> list[str]:
        """Name all topics of the cluster."""
        found: list[str] = await self.admin.list_topics()
        return found

    async def partitions(self, topic: str) -> list[TopicPartition]:
        """Give a topic's partitions."""
        (found,) = await self.admin.describe_topics([topic])
        return [TopicPartition(topic, number) for number in range(len(found["partitions"]))]

    async def read(self, topic: str, at_least: int = 0, *, committed: bool = False) -> list[ConsumerRecord]:
        """Read a topic from its beginning to its end, once it holds at least so many records; ordered by
        partition and offset.

        `committed`: only what transactions have committed; their markers count as records of the topic, too.
        """
        partitions = await self.partitions(topic)
        isolation = "read_committed" if committed else "read_uncommitted"
        consumer = AIOKafkaConsumer(
            bootstrap_servers=self.bootstrap_servers, auto_offset_reset="earliest", isolation_level=isolation
        )
        async with consumer:
            await self.until(lambda: self._holds(consumer, partitions, at_least))
            consumer.assign(partitions)
            ends = await consumer.end_offsets(partitions)
            found = []
            while any([await consumer.position(partition) < end for partition, end in ends.items()]):
                for records in (await consumer.getmany(timeout_ms=200)).values():
                    found += [_record(record) for record in records]
        return sorted(found, key=lambda record: (record.partition, record.offset))

    async def _holds(self, consumer: Any, partitions: list[TopicPartition], at_least: int) -> bool:
        return bool(sum((await consumer.end_offsets(partitions)).values()) >= at_least)

    async def has_no_open_transaction(self, topic: str) -> bool:
        """Whether the transactions in a topic have ended: brokers answer a commit before they mark its records."""
        ends = []
        for isolation in ("read_committed", "read_uncommitted"):
            async with AIOKafkaConsumer(
                bootstrap_servers=self.bootstrap_servers, isolation_level=isolation
            ) as consumer:
                ends.append(await consumer.end_offsets(await self.partitions(topic)))
        return bool(ends[0] == ends[1])

    async def length(self, topic: str) -> int:
        """Count the records of a topic."""
        async with AIOKafkaConsumer(bootstrap_servers=self.bootstrap_servers) as consumer:
            return sum((await consumer.end_offsets(await self.partitions(topic))).values())

    async def delete_topic(self, name: str) -> None:
        """Delete a topic, and wait until it is gone."""
        await self.admin.delete_topics([name])
        await self.until(lambda: self._is_gone(name))

    async def _is_gone(self, name: str) -> bool:
        return name not in await self.topics()

    async def delete_before(self, topic: str, offset: int) -> None:
        """Delete the records of partition 0 below an offset, as retention does."""
        await self.admin.delete_records({TopicPartition(topic, 0): RecordsToDelete(offset)})

    async def committed(self, group: str) -> dict[tuple[str, int], int]:
        """Give a group's committed offsets, as soon as its coordinator answers: the first group of a new broker
        has none yet, and after a restart it is one that may not be connected yet.
        """
        deadline = time.monotonic() + DEADLINE_SECONDS
        while True:
            try:
                offsets = await self.admin.list_consumer_group_offsets(group)
                break
            except KafkaError as error:
                if not error.retriable or time.monotonic() > deadline:
                    raise
            await asyncio.sleep(0.05)
        return {
            (partition.topic, partition.partition): committed.offset
            for partition, committed in offsets.items()
        }

    async def until(
        self, condition: Callable[[], Awaitable[object]], seconds: float = DEADLINE_SECONDS
    ) -> None:
        """Ask again and again until it is so; fail at the deadline."""
        deadline = time.monotonic() + seconds
        while not await condition():
            assert time.monotonic() < deadline, f"not so within {seconds} s"
            await asyncio.sleep(0.05)


def _record(record: Any) -> ConsumerRecord:
    headers = tuple(record.headers)
    return ConsumerRecord(
        record.topic, record.partition, record.offset, record.timestamp, record.key, record.value, headers
    )


@pytest.fixture(scope="session")
def broker() -> Iterator[str]:
    """Start Apache Kafka; gives its address."""
    with contextlib.ExitStack() as stack:
        home = stack.enter_context(
            tempfile.TemporaryDirectory(prefix="relay-tests-", ignore_cleanup_errors=True)
        )
        try:
            cluster = stack.enter_context(Cluster(Path(home) / "kafka", options=broker_options()))
        except DemoExtraMissing as error:
            if os.environ.get("CI"):
                pytest.fail(str(error))
            pytest.skip(str(error))
        yield cluster.bootstrap_servers


@pytest.fixture(scope="session")
def secured() -> Iterator[Any]:
    """Start Apache Kafka with TLS, SASL and ACLs (`secured_support.Secured`)."""
    from secured_support import running

    with running() as found:
        yield found


@contextlib.asynccontextmanager
async def _kafka_at(bootstrap_servers: str) -> AsyncIterator[Kafka]:
    admin = AIOKafkaAdminClient(bootstrap_servers=bootstrap_servers)
    await admin.start()
    try:
        yield Kafka(bootstrap_servers, admin)
    finally:
        await admin.close()


@pytest.fixture(scope="session")
def kafka_at() -> Callable[[str], contextlib.AbstractAsyncContextManager[Kafka]]:
    """Give helpers for any broker."""
    return _kafka_at


@pytest_asyncio.fixture(scope="session", loop_scope="session")
async def kafka(broker: str) -> AsyncIterator[Kafka]:
    """Give helpers for the broker of this run."""
    async with _kafka_at(broker) as found:
        yield found


@pytest.fixture
def make_config(broker: str) -> Callable[..., Config]:
    """Make a configuration for two topics; `source_start="latest"` sets `start` in [source].

    Without a source topic, `source_topics_pattern` is given.
    """

    def make(source: str, target: str, **settings: Any) -> Config:
        tables: dict[str, Any] = {
            "route": {"from": "ticdc-canal-json", "to": "canal-json"},
            "source": {
                "bootstrap_servers": broker,
                **({"topics": [source]} if source else {}),
                "group_id": f"g-{uuid.uuid4().hex[:12]}",
            },
            "target": {"topic": target},
            "delivery": {"commit_interval_seconds": 0.2, "drain_timeout_seconds": 20.0},
        }
        for name, value in settings.items():
            table, _, key = name.partition("_")
            tables.setdefault(table, {})[key] = value
        return Config(**tables)

    return make
