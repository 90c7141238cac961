"""What the tests of resilience share: short times, numbered records, checks that nothing is lost."""

from __future__ import annotations

import asyncio
import gc
import urllib.error
import urllib.request
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from service.memory import PlainTranslator

from relay.io.kafka.ports import Partition
from relay.io.kafka.settings import Timeouts
from relay.io.kafka.source import KafkaSource
from relay.model.events import Event, TableId
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord

NOW = 1_700_000_000_000
#: An outage that is longer than 10 s is longer than every time-out. A start keeps its time: on a busy machine
#: it may need it.
SHORT_TIMEOUTS = Timeouts(
    request_seconds=4.0, commit_seconds=2.0, lookup_seconds=2.0, whole_topic_seconds=4.0
)
SHORT: Mapping[str, Any] = {
    "delivery_delivery_timeout_seconds": 3.0,
    "delivery_drain_timeout_seconds": 4.0,
    "source_session_timeout_ms": 1_000,
    "source_rebalance_timeout_ms": 3_000,
}
EXACTLY_ONCE: Mapping[str, Any] = {
    "delivery_mode": "exactly-once",
    "delivery_transaction_interval_seconds": 0.05,
}
MODES: Mapping[str, Mapping[str, Any]] = {"at-least-once": {}, "exactly-once": EXACTLY_ONCE}


@pytest.fixture
def slow_polls(monkeypatch: pytest.MonkeyPatch) -> None:
    """Have something left to do: a poll gives some hundred records at most, ten times a second."""
    poll = KafkaSource.poll

    async def slow(self: KafkaSource, without: Collection[Partition] = ()) -> Any:
        await asyncio.sleep(0.1)
        return await poll(self, without)

    monkeypatch.setattr(KafkaSource, "poll", slow)


class Echo(PlainTranslator):
    """Writes every record as it is, marked with where it comes from."""

    def __init__(self, topic: str) -> None:
        super().__init__()
        self.topic = topic

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        mark = (SOURCE_HEADER, f"{record.topic}/{record.partition}/{record.offset}/0".encode())
        headers = (*record.headers, mark)
        return [
            ProducerRecord(
                self.topic, record.partition, record.timestamp_ms, record.key, record.value, headers
            )
        ]

    def inspect(self, record: ConsumerRecord, /) -> list[Event]:
        return []

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        return ()


def numbered(count: int, partitions: int = 2, start: int = 0) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("", i % partitions, 0, NOW + i, None, b"%d" % i) for i in range(start, start + count)
    ]


def offset_of(record: ConsumerRecord) -> int:
    """The offset of the source record."""
    return int((dict(record.headers)[SOURCE_HEADER] or b"").split(b"/")[-2])


def check_complete(
    found: Sequence[ConsumerRecord], count: int, *, partitions: int = 2, once: bool = False
) -> None:
    """Every numbered record is there, in order of first appearance; with `once`, no record twice."""
    for partition in range(partitions):
        here = [record for record in found if record.partition == partition]
        values = [int(record.value or b"") for record in here]
        assert list(dict.fromkeys(values)) == list(range(partition, count, partitions))
        if once:
            assert not described_repeats(here)


def described_repeats(found: Sequence[ConsumerRecord]) -> list[str]:
    """What is there more than once: a mark twice is a fault of the relay, two marks are two source records."""
    count = Counter(record.value for record in found)
    return [
        f"{record.value!r} at {record.offset}, of {record.timestamp_ms}, "
        f"marked {dict(record.headers)[SOURCE_HEADER]!r}"
        for record in found
        if count[record.value] > 1
    ]


async def all_committed(kafka: Any, relay: Any, count: int) -> bool:
    config = relay.config
    committed = await kafka.committed(config.source.group_id)
    return bool(
        sum(offset for (topic, _), offset in committed.items() if topic in config.source.topics) == count
    )


async def committed_at(kafka: Any, relay: Any, partition: int, offset: int) -> bool:
    """Whether a partition of the first topic is committed so far; right after a transaction brokers may tell
    the offset before.
    """
    found = await kafka.committed(relay.config.source.group_id)
    return bool(found.get((relay.config.source.topics[0], partition)) == offset)


async def has_logged(relay: Any, event: str, **fields: Any) -> bool:
    return any(fields.items() <= each.items() for each in relay.log.named(event))


async def logged_commit(kafka: Any, relay: Any, count: int, seconds: float = 60) -> None:
    """The same by the relay's own status: brokers may be away."""

    async def done() -> bool:
        assert not relay.has_ended, f"ended: {relay.log.events[-3:]}"
        return sum(progress.committed or 0 for progress in relay.status.partitions.values()) == count

    await kafka.until(done, seconds)


async def committed(kafka: Any, relay: Any, count: int, seconds: float = 60) -> None:
    """Wait until a relay has committed so many records; if it ends by itself, that fails at once."""

    async def done() -> bool:
        assert not relay.has_ended, f"ended: {relay.log.events[-3:]}"
        return await all_committed(kafka, relay, count)

    await kafka.until(done, seconds)


async def loop_delay(seconds: float) -> float:
    """By how many seconds the loop is late at most, of all the sleeps of some time."""
    loop, late = asyncio.get_running_loop(), 0.0
    end = loop.time() + seconds
    while (began := loop.time()) < end:
        await asyncio.sleep(0.05)
        late = max(late, loop.time() - began - 0.05)
    return late


async def in_thread(work: Any, *given: Any) -> Any:
    return await asyncio.to_thread(work, *given)


async def ask(port: int, path: str) -> tuple[int, str]:
    """Ask a relay's HTTP server; gives status and body."""

    def get() -> tuple[int, str]:
        try:
            with urllib.request.urlopen(f"http://127.0.0.1:{port}{path}", timeout=5) as answer:
                return answer.status, answer.read().decode()
        except urllib.error.HTTPError as error:
            with error:
                return error.code, error.read().decode()

    return await asyncio.to_thread(get)


class Leaks:
    """What relays leave behind: tasks that were not there when this was made, and connections of theirs that
    are open.
    """

    def __init__(self) -> None:
        self._before = asyncio.all_tasks()

    def now(self) -> list[str]:
        left = [repr(task) for task in asyncio.all_tasks() - self._before if not task.done()]
        # The tests' own clients read, too.
        tasks = [text for text in left if "AIOKafkaConnection._read" not in text]
        everything = [each for each in gc.get_objects() if isinstance(each, AIOKafkaConnection)]
        return tasks + [repr(each) for each in everything if each._client_id == "relay" and each.connected()]

    async def none(self, seconds: float = 2.0) -> None:
        """Fail if something is left after a while; transports close in the loop's next turns."""
        deadline = asyncio.get_running_loop().time() + seconds
        while left := self.now():
            assert asyncio.get_running_loop().time() < deadline, left
            await asyncio.sleep(0.05)
