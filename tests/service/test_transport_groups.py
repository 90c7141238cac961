"""Reading over aiokafka, on a real Apache Kafka: polls that raise, groups that change, consumers that hear
nothing.
"""

from __future__ import annotations

import asyncio
import statistics
import time
from collections import Counter
from collections.abc import Collection, Sequence
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from aiokafka.consumer import fetcher
from aiokafka.protocol.group import LeaveGroupRequest
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import calc_crc32c
from service.conftest import Echo
from service.transport_support import NOW, SMALL, Route, both_modes, marks, route

from relay.config.kafka import consumer_settings
from relay.io.kafka.ports import Partition, StartPosition
from relay.io.kafka.source import KafkaSource, ShardSource
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.settings import LoopSettings
from relay.service.loop.translation_stage import LOOK_EVERY

__all__ = ["route"]
pytestmark = pytest.mark.kafka

_CRC, _ATTRIBUTES = 17, 21


# ---------------------------------------------------------------- polls


async def produce_unreadable(kafka: Any, topic: str, partition: int) -> None:
    """Write a record whose header has a name that is not UTF-8; the broker does not mind."""
    async with AIOKafkaProducer(bootstrap_servers=kafka.bootstrap_servers) as producer:
        batch = producer.create_batch()
        batch.append(timestamp=NOW, key=None, value=b"-1", headers=[("NAME", b"1")])
        batch.close()
        data = bytearray(batch._build().replace(b"NAME", b"\xff\xfeME"))
        data[_CRC:_ATTRIBUTES] = calc_crc32c(bytes(data[_ATTRIBUTES:])).to_bytes(4, "big")
        batch._build = lambda: bytes(data)
        await (await producer.send_batch(batch, topic, partition=partition))


async def test_a_record_that_the_client_cannot_parse_takes_no_other_with_it(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The poll has drained partition 0 when partition 1 raises. Both are read again, with its odd name."""
    monkeypatch.setattr(fetcher, "MemoryRecords", MemoryRecords)  # no such name has been met before
    await route.lay()
    await route.produce(1_000)
    await produce_unreadable(route.kafka, route.source, 1)
    await route.produce(1_000, start=1_000)
    relay = route.start()
    await route.until_committed(2_001, relay)
    assert await relay.stop() == 0
    found = await route.written()
    for partition, odd in ((0, []), (1, [-1])):
        values = list(dict.fromkeys(number for _, number in marks(found, partition)))
        first, second = range(partition, 1_000, 2), range(1_000 + partition, 2_000, 2)
        assert values == [*first, *odd, *second]


@both_modes
async def test_a_relay_that_is_cancelled_loses_nothing(route: Route, mode: str) -> None:
    await route.lay(mode, **SMALL)
    await route.produce(20_000)
    for turn in range(3):
        relay = route.start()
        await route.until_begun(1 + 5_000 * turn)
        await relay.cancel()
    relay = route.start()
    await route.until_committed(20_000, relay)
    assert await relay.stop() == 0
    await route.check(20_000)


# ---------------------------------------------------------------- groups


class Slow(Echo):
    """Takes half a millisecond for every record, and so seconds for a round."""

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        time.sleep(0.0005)
        return super().translate(record)


async def test_a_member_that_joins_during_a_slow_round_makes_no_gap(route: Route) -> None:
    await route.lay(partitions=4)
    route.translator = Slow(route.target)
    await route.produce(12_000, partitions=4)
    first = route.start()
    await route.until_logged(first, "partitions.opened")
    await asyncio.sleep(0.5)
    second = route.start()
    await route.until_committed(12_000, first, second)
    assert [await first.stop(), await second.stop()] == [0, 0]
    assert first.log.named("partitions.revoked")
    assert first.log.named("partitions.revoked-unfinished") == []
    opened = first.log.named("partitions.opened") + second.log.named("partitions.opened")
    assert len(opened) >= 3
    await route.check(12_000, partitions=4)


class Group:
    """An owner that opens nothing by itself."""

    def __init__(self) -> None:
        self.assigned_to: list[Sequence[Partition]] = []

    async def revoked(self) -> None:
        """Nothing is under way."""

    def assigned(self, partitions: Sequence[Partition]) -> None:
        self.assigned_to.append(partitions)


@both_modes
async def test_partitions_give_nothing_before_they_are_opened(route: Route, mode: str) -> None:
    """The client knows where to read on, and would give out records before we are done with getting ready
    (issue 738).
    """
    await route.lay(mode)
    await route.produce(100)
    relay = route.start()
    await route.until_committed(100, relay)
    assert await relay.stop() == 0
    await route.produce(100, start=100)
    source = (ShardSource if route.once else KafkaSource)(consumer_settings(route.config))
    group = Group()
    await source.start(group)
    for _ in range(5):
        assert await source.poll() == {}
    (partitions,) = group.assigned_to
    opened = await source.open(partitions, {})
    assert opened == {
        Partition(route.source, number): StartPosition(50, committed=True, end=100) for number in (0, 1)
    }
    found: list[int] = []
    while len(found) < 100:
        found += [
            int(record.value or b"") for records in (await source.poll()).values() for record in records
        ]
    assert sorted(found) == list(range(100, 200))
    await source.stop()


@both_modes
async def test_a_paused_partition_is_fetched_again_when_it_is_not_named_or_opened_anew(
    route: Route, mode: str
) -> None:
    await route.lay(mode)
    await route.produce(20)
    source = (ShardSource if route.once else KafkaSource)(consumer_settings(route.config))
    group = Group()
    await source.start(group)
    (partitions,) = group.assigned_to
    paused, other = sorted(partitions)
    for again in (False, True):
        await source.open(partitions, {})
        source.pause([paused, Partition("gone", 0)])
        assert await of(source, 10) == {other: 10}
        assert not await source.poll()
        if again:
            source.pause([])
            assert await of(source, 10) == {paused: 10}
    await source.stop()


async def of(source: Any, count: int) -> dict[Partition, int]:
    """How many records each partition gives until there are as many as this."""
    found: Counter[Partition] = Counter()
    while found.total() < count:
        found.update({partition: len(records) for partition, records in (await source.poll()).items()})
    return dict(found)


async def lose_membership(route: Route, source: Any) -> None:
    """Have the broker forget a member, as if its heartbeats had not come in time."""
    admin, coordinator = route.kafka.admin, source.consumer._coordinator
    node = await admin.find_coordinator(route.config.source.group_id)
    answer = await admin._send_request(
        LeaveGroupRequest(route.config.source.group_id, coordinator.member_id), node
    )
    assert answer.error_code == 0


async def test_a_commit_after_a_lost_membership_does_not_stop_the_relay(route: Route) -> None:
    await route.lay(**SMALL)
    relay = route.start()
    for turn in range(3):
        await route.until_logged(relay, "partitions.opened", turn + 1)
        await lose_membership(route, route.clients.sources[0])
        await route.produce(2_000, start=2_000 * turn)
    await route.until_committed(6_000, relay)
    assert await relay.stop() == 0
    assert relay.log.named("partitions.lost")
    await route.check(6_000)


async def test_a_member_that_was_busy_for_too_long_comes_back(route: Route) -> None:
    """Longer than `max_poll_interval_ms` without a poll: the client leaves the group, and must join again."""

    def hurry(source: Any, _: int) -> None:
        source.consumer._max_poll_interval_ms = 1_000

    def wait(sink: Any, number: int) -> None:
        original = sink.delivered

        async def delivered(pending: Sequence[asyncio.Future[object]]) -> None:
            await asyncio.sleep(3 if number == 0 and pending else 0)
            await original(pending)

        sink.delivered = delivered

    route.clients.on_source, route.clients.on_sink = hurry, wait
    await route.lay(source_session_timeout_ms=1_000)
    await route.produce(200)
    relay = route.start()
    await route.until_committed(200, relay)
    route.clients.sinks[0].delivered = type(route.clients.sinks[0]).delivered.__get__(route.clients.sinks[0])
    await route.produce(200, start=200)
    await route.until_committed(400, relay)
    assert await relay.stop() == 0
    assert len(relay.log.named("partitions.assigned")) > 1
    await route.check(400)


async def test_a_member_without_partitions_stays_ready(route: Route) -> None:
    """It polls all the same; a member that does not for `max_poll_interval_ms` would never join again (issue
    1187).
    """

    def hurry(source: Any, _: int) -> None:
        source.consumer._max_poll_interval_ms = 1_000

    route.clients.on_source = hurry
    await route.lay(partitions=1)
    first = route.start()
    await route.until_logged(first, "partitions.opened")
    second = route.start()
    await route.until_logged(second, "partitions.assigned")
    idle, busy = (
        (second, first) if not second.log.named("partitions.assigned")[-1]["partitions"] else (first, second)
    )
    await asyncio.sleep(2)
    assert await busy.stop() == 0
    await route.produce(100, partitions=1)
    await route.until_committed(100, idle)
    assert await idle.stop() == 0
    await route.check(100, partitions=1)


async def test_a_static_member_that_restarts_quickly_disturbs_nobody(route: Route) -> None:
    await route.lay(partitions=4)
    first, second = route.start(group_instance_id="a"), route.start(group_instance_id="b")

    async def is_shared() -> bool:
        return all(
            len((relay.log.named("partitions.opened") or [{}])[-1].get("offsets", ())) == 2
            for relay in (first, second)
        )

    await route.kafka.until(is_shared)
    await route.produce(400, partitions=4)
    await route.until_committed(400, first, second)
    assigned = len(first.log.named("partitions.assigned"))
    for turn in range(1, 3):
        assert await second.stop() == 0
        await route.produce(400, start=400 * turn, partitions=4)
        second = route.start(group_instance_id="b")
        await route.until_committed(400 * (turn + 1), first, second)
        assert len(second.log.named("partitions.opened")[-1]["offsets"]) == 2
    assert [await first.stop(), await second.stop()] == [0, 0]
    assert len(first.log.named("partitions.assigned")) == assigned
    await route.check(1_200, partitions=4, once=True)


# ---------------------------------------------------------------- silence


@both_modes
async def test_a_consumer_that_hears_nothing_is_replaced(route: Route, mode: str) -> None:
    """Alive, a member with partitions, and silent although records wait: as after brokers have come and gone."""

    def deafen(source: Any, number: int) -> None:
        async def nothing(**given: Any) -> dict[Any, Any]:
            await asyncio.sleep(0.05)
            return {}

        if number == 0:
            source.consumer.getmany = nothing

    route.clients.on_source, route.settings = deafen, LoopSettings(stall_check_seconds=0.3)
    await route.lay(mode)
    relay = route.start()
    await route.until_logged(relay, "partitions.opened")
    await asyncio.sleep(1)
    assert relay.log.named("consumer.stalled") == [], "nothing waits yet"
    await route.produce(200)
    await route.until_committed(200, relay)
    assert await relay.stop() == 0
    assert len(relay.log.named("consumer.stalled")) == 1
    assert len(route.clients.sources) == 2
    await route.check(200, once=True)


class Working(Echo):
    """Works for 10 ms at a time, as long as it takes until others get their turn."""

    def __init__(self, topic: str) -> None:
        super().__init__(topic)
        self._count = 0

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        self._count += 1
        if self._count % LOOK_EVERY == 0:
            time.sleep(0.010)
        return super().translate(record)


class Clock:
    """How long polls with records were waited for, and how long it took until the next poll; the first rounds
    are left out.
    """

    def __init__(self) -> None:
        self.waits: list[float] = []
        self.works: list[float] = []
        self._left = 0.0

    def watch(self, source: Any, _: int) -> None:
        poll, began = source.poll, 0.0

        async def timed(without: Collection[Partition] = ()) -> Any:
            nonlocal began
            now = time.monotonic()
            if self._left:
                self.works.append(now - self._left)
                began, self._left = now, 0.0
            polled = await poll(without)
            if polled:
                self._left = time.monotonic()
                self.waits.append(self._left - began)
            return polled

        source.poll = timed

    def ratio(self) -> float:
        """Of waiting to working: what three of four rounds keep to, since a busy machine may delay any of
        them.
        """
        assert len(self.works) > 8
        return statistics.quantiles(self.waits[3:], n=4)[2] / statistics.median(self.works[3:])


async def test_idle_partitions_do_not_hold_up_a_busy_one(route: Route) -> None:
    """A fetch of the idle ones alone waits for `fetch_max_wait_ms`, and the busy one's next fetch behind it."""
    ratios = []
    for wait_ms in (50, 500):
        clock = Clock()
        route.clients.on_source = clock.watch
        await route.lay(partitions=8, source_max_partition_fetch_bytes=20_000)
        route.translator = Working(route.target)
        await route.kafka.produce(route.source, [ConsumerRecord("", 0, 0, NOW, None, b"x" * 55)] * 4_000)
        relay = route.start(fetch_max_wait_ms=wait_ms)
        await route.until_committed(4_000, relay)
        assert await relay.stop() == 0
        ratios.append(clock.ratio())
    assert route.config.source.fetch_max_wait_ms == 50
    assert ratios[0] < 0.1
    assert ratios[1] > 0.3


@both_modes
async def test_nothing_is_left_to_read_behind_the_marker_of_a_transaction(route: Route, mode: str) -> None:
    """A marker takes an offset and is not a record: by records alone, such a topic would always be one ahead
    (issue 911).
    """
    await route.lay(mode, partitions=1)
    servers = route.kafka.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"id-{route.source}") as producer:
        for number in range(3):
            async with producer.transaction():
                await producer.send_and_wait(route.source, b"%d" % number, partition=0)
    relay = route.start()
    await route.until_begun(3)
    await asyncio.sleep(1)
    assert await relay.stop() == 0
    assert await route.committed() == {0: 6}
    assert relay.status.lag == 0
