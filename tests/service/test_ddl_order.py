"""Rows wait for partition 0 that the loop reads itself (`wait_for_ddl` in [schema]), whatever polls return and fail."""

from __future__ import annotations

import asyncio
import random
from bisect import bisect_right
from collections import Counter
from collections.abc import Collection, Mapping, Sequence
from types import SimpleNamespace
from typing import Any

import pytest
from service.memory import PLAIN, A, B, Bench, Copy, MemorySource, plain_status, until

from relay.catalog import Catalog
from relay.config import Config
from relay.config.keys import Wait
from relay.core.pipeline import State
from relay.io.kafka.ports import Partition, PollFailed, StartPosition, Undelivered
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.ddl_order import DdlOrder, DdlPartitions
from relay.service.loop.history import Schemas

C = Partition("in", 2)
WAITING = PLAIN.model_copy(update={"schema": PLAIN.schema.model_copy(update={"wait_for_ddl": Wait.TRUE})})
LENGTH = 40
#: Every topic has the DDL of its rows itself.
OWN = DdlPartitions({})
#: The topic of a connector's schema changes, and those of its tables.
DDL = Partition("shop", 0)
ROWS = [Partition("shop.db.a", 0), Partition("shop.db.a", 1), Partition("shop.db.b", 0)]
CONNECTOR = WAITING.model_copy(
    update={
        "route": WAITING.route.model_copy(update={"from_": "debezium-json"}),
        "source": WAITING.source.model_copy(update={"topics": ("shop.db.b", "shop", "shop.db.a")}),
    }
)


class LiveSource(MemorySource):
    """Partitions that grow while they are read. `times`: the Kafka timestamps of all their records."""

    def __init__(self, times: Mapping[Partition, Sequence[int]], rng: random.Random) -> None:
        super().__init__(LENGTH, *times)
        self.times, self.rng, self.now = times, rng, 0
        self.asked = 0

    def _there(self, partition: Partition) -> int:
        return bisect_right(self.times[partition], self.now)

    async def poll(self, without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        await asyncio.sleep(0)
        self.now += self.rng.randrange(12)
        polled = {}
        for partition in self.rng.sample(self.every, len(self.every)):
            if partition in without or partition not in self.position:
                continue
            begin = self.position[partition]
            end = min(self._there(partition), begin + self.rng.randrange(15))
            if end > begin:
                polled[partition] = [
                    ConsumerRecord(*partition, offset, self.times[partition][offset], None, b"%d" % offset)
                    for offset in range(begin, end)
                ]
                self.position[partition] = end
        if self.failures and (failure := self.failures.pop(0)):
            raise failure
        return polled

    async def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        self.asked += 1
        await asyncio.sleep(0)
        return {partition: self._there(partition) for partition in partitions}


class Watching(Copy):
    """Checks of every row that all of the partition with DDL that is not younger was translated before it."""

    def __init__(self, times: Mapping[Partition, Sequence[int]], first: Partition = A) -> None:
        super().__init__()
        self.times, self.first, self.seen = times, first, 0
        self.translated: Counter[tuple[str, int]] = Counter()
        self.broken: list[str] = []

    @property
    def state(self) -> State:
        return State(Catalog(), self.seen)  # type: ignore[arg-type]  # what the double remembers

    def restore(self, state: State, /) -> None:
        super().restore(state)
        self.seen = state.gate  # type: ignore[assignment]  # so it is

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if (record.topic, record.partition) == self.first:
            self.seen = max(self.seen, record.offset + 1)
        elif self.seen < bisect_right(self.times[self.first], record.timestamp_ms):
            self.broken.append(f"{record.position} at {record.timestamp_ms}, when {self.seen} were known")
        self.translated[record.topic, record.partition] += 1
        return super().translate(record)


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("seed", range(25))
@pytest.mark.parametrize(
    ("config", "first", "others"),
    [(WAITING, A, (B, C)), (CONNECTOR, DDL, ROWS)],
    ids=["partition 0", "topic of DDL"],
)
async def test_no_row_outruns_its_ddl(
    list_log: Any,
    config: Config,
    first: Partition,
    others: Sequence[Partition],
    seed: int,
    transactional: bool,
) -> None:
    rng = random.Random(seed)
    times = {each: sorted(rng.choices(range(100), k=LENGTH)) for each in (first, *others)}
    source, copy = LiveSource(times, rng), Watching(times, first)
    bench = Bench(
        list_log, length=LENGTH, transactional=transactional, copy=copy, source=source, config=config
    )
    source.failures = [PollFailed("broken") if rng.random() < 0.1 else None for _ in range(60)]
    fates = [Undelivered("broken", retriable=True) if rng.random() < 0.1 else None for _ in range(60)]
    bench.target.refuse = lambda _: fates.pop() if fates else None
    await bench.run_to_the_end()
    assert not copy.broken
    bench.check_complete()


async def test_a_partition_0_at_its_end_holds_nobody_up(list_log: Any) -> None:
    """Rows that are younger than all of it go in the turn in which they came."""
    times = {A: [1] * LENGTH, B: list(range(LENGTH))}
    source = LiveSource(times, random.Random(1))
    source.now = LENGTH
    order = DdlOrder(OWN)
    order.begin([A])
    source.position = {A: LENGTH, B: 0}
    polled = {B: [ConsumerRecord(*B, 0, 7, None, b"0")]}
    await order.look(source, polled, ())
    assert not order.must_wait(B)
    source.position[A] -= 1
    await order.look(source, polled, ())
    assert order.must_wait(B)


async def test_rows_that_partition_0_is_past_ask_nobody() -> None:
    source, order = LiveSource({A: [1, 9], B: [8]}, random.Random(1)), DdlOrder(OWN)
    source.now = 9
    order.begin([A])
    source.position = {A: 2, B: 1}
    first = [ConsumerRecord(*A, offset, time, None, b"") for offset, time in enumerate((1, 9))]
    polled = {B: [ConsumerRecord(*B, 0, 8, None, b"")], A: first}
    await order.look(source, polled, ())
    assert order.must_wait(B), "partition 0 was polled, and not taken yet"
    assert not order.must_wait(A)
    order.taken(source, A, first, 1)
    assert order.must_wait(B)
    order.taken(source, A, first, 2)
    assert not order.must_wait(B)
    assert source.asked == 0
    order.rewound()
    await order.look(source, {B: polled[B]}, ())
    assert source.asked == 1
    assert not order.must_wait(B), "partition 0 is at its end"


async def test_a_partition_0_that_was_polled_to_its_end_counts_when_it_was_taken() -> None:
    source, order = LiveSource({A: [1, 9], B: [20]}, random.Random(1)), DdlOrder(OWN)
    source.now = 20
    order.begin([A])
    source.position = {A: 2, B: 1}
    first = [ConsumerRecord(*A, offset, time, None, b"") for offset, time in enumerate((1, 9))]
    await order.look(source, {A: first, B: [ConsumerRecord(*B, 0, 20, None, b"")]}, ())
    order.taken(source, A, first, 1)
    assert order.must_wait(B)
    order.taken(source, A, first, 2)
    assert not order.must_wait(B)


async def test_topics_of_which_partition_0_is_read_elsewhere_wait_for_nothing_here() -> None:
    order, other = DdlOrder(OWN), Partition("other", 3)
    order.begin([A])
    polled = {other: [ConsumerRecord(*other, 0, 5, None, b"")]}
    await order.look(LiveSource({A: []}, random.Random(1)), polled, ())
    assert not order.must_wait(other)


async def test_partitions_0_of_tables_wait_for_the_topic_of_ddl_and_nobody_waits_for_them() -> None:
    order, waiting = DdlOrder(DdlPartitions(CONNECTOR.ddl_topics)), ROWS[0]
    source = LiveSource({DDL: (1, 9), **dict.fromkeys(ROWS, (8,))}, random.Random(1))
    source.now = 9
    order.begin([DDL])
    source.position = {DDL: 2, **dict.fromkeys(ROWS, 1)}
    first = [ConsumerRecord(*DDL, offset, time, None, b"") for offset, time in enumerate((1, 9))]
    polled = {each: [ConsumerRecord(*each, 0, 8, None, b"")] for each in ROWS} | {DDL: first}
    await order.look(source, polled, ())
    assert [order.must_wait(each) for each in (DDL, *ROWS)] == [False, True, True, True]
    order.taken(source, waiting, polled[waiting], 1)
    assert order.must_wait(ROWS[1])
    order.taken(source, DDL, first, 2)
    assert not any(order.must_wait(each) for each in ROWS)


async def test_however_many_tables_wait_little_is_held(list_log: Any) -> None:
    """While the topic of DDL is behind, polls leave out what would only wait."""
    rows = [Partition(f"shop.db.t{number}", 0) for number in range(40)]
    times = {DDL: [1] * LENGTH, **dict.fromkeys(rows, [2] * LENGTH)}
    source = LiveSource(times, random.Random(1))
    source.now = 9
    tables = {"topics": tuple(each.topic for each in (*rows, DDL))}
    config = CONNECTOR.model_copy(update={"source": CONNECTOR.source.model_copy(update=tables)})
    copy = Watching(times, DDL)
    bench = Bench(list_log, length=LENGTH, copy=copy, source=source, config=config, held_bytes=10)
    poll, most, paused = source.poll, 0, False

    async def by_few(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        nonlocal most, paused
        most = max(most, sum(source.position[each] > copy.translated[each] for each in rows))
        paused = paused or source.paused == set(rows)
        assert not source.paused - set(without)
        busy = [each for each in rows if each not in without and source.position[each] < LENGTH]
        polled = await poll({*without, *busy[3:]})
        if DDL in polled:
            source.position[DDL] = polled[DDL][0].offset + 1
            polled = {**polled, DDL: polled[DDL][:1]}
        return polled

    # Partitions come a few a poll, as in fetches.
    source.poll = by_few
    await bench.run_to_the_end()
    assert 0 < most < 10
    assert paused
    assert not source.paused
    assert not copy.broken
    bench.check_complete()


async def test_what_another_instance_reads_is_read_besides(monkeypatch: pytest.MonkeyPatch) -> None:
    """The topic of DDL alone, however many tables there are; who reads it takes it first."""
    begun: list[Mapping[Partition, int]] = []

    async def noting(_: Any, positions: Mapping[Partition, int]) -> None:
        begun.append(positions)

    monkeypatch.setattr("relay.service.loop.ddl_order.DdlFollower.begin", noting)
    schemas = Schemas(CONNECTOR, Copy(), None, plain_status())  # type: ignore[arg-type]  # it logs nothing here
    source = LiveSource(dict.fromkeys((DDL, *ROWS), ()), random.Random(1))
    source.committed = {DDL: 7}
    for mine in (ROWS, [DDL, *ROWS], [DDL]):
        await schemas.begin(source, dict.fromkeys(mine, StartPosition(0, committed=False)))
    assert begun == [{DDL: 7}, {}, {}]


async def test_a_stalled_partition_0_is_not_hidden_by_rows_that_wait(list_log: Any) -> None:
    """Rows are held, so nothing is polled: still the consumer of a partition 0 with records is replaced."""
    times = {A: [1] * LENGTH, B: [5] * LENGTH}
    source = LiveSource(times, random.Random(1))
    source.now = 9
    bench = Bench(
        list_log,
        length=LENGTH,
        copy=Watching(times),
        source=source,
        config=WAITING,
        stall_check_seconds=0.02,
    )
    poll, start, starts = source.poll, source.start, 0

    async def deaf(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        await asyncio.sleep(0.001)
        return await poll({A, *without} if starts == 1 else without)

    async def counted(owner: Any) -> None:
        nonlocal starts
        starts += 1
        await start(owner)

    source.poll, source.start = deaf, counted
    await bench.run_to_the_end()
    assert starts == 2
    bench.check_complete()


async def test_what_is_held_is_left_alone_by_a_stop(list_log: Any) -> None:
    """It is neither translated nor committed; the next start reads it again."""
    times = {A: [1] * LENGTH, B: [5] * LENGTH}
    source = LiveSource(times, random.Random(1))
    source.now = 9
    bench = Bench(list_log, length=LENGTH, copy=Watching(times), source=source, config=WAITING)
    poll, is_held = source.poll, asyncio.Event()

    async def deaf(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        await asyncio.sleep(0.001)
        if B in without:
            is_held.set()
        return await poll({A, *without})

    source.poll = deaf
    running = asyncio.create_task(bench.relay.run())
    await is_held.wait()
    bench.relay.request_stop()
    await running
    assert not bench.target.records
    assert not source.committed.get(B)


class Scripted(MemorySource):
    """Partitions that grow as a test says: `there` gives how many records one has, `time_ms` their time."""

    def __init__(self, *partitions: Partition) -> None:
        super().__init__(10**9, *partitions)
        self.position = {}

    def there(self, partition: Partition) -> int:
        raise NotImplementedError

    def time_ms(self, partition: Partition, offset: int) -> int:
        raise NotImplementedError

    async def poll(self, without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        await asyncio.sleep(0)
        polled = {}
        for each in [each for each in self.every if each not in without and each in self.position]:
            begin, end = self.position[each], self.there(each)
            if end > begin:
                polled[each] = [
                    ConsumerRecord(*each, offset, self.time_ms(each, offset), None, b"%d" % offset)
                    for offset in range(begin, end)
                ]
                self.position[each] = end
        return polled

    async def ends(self, partitions: Collection[Partition]) -> Mapping[Partition, int]:
        return {each: self.there(each) for each in partitions}


async def test_rows_wait_for_the_end_that_partition_0_had_and_for_no_later_one(list_log: Any) -> None:
    """A busy partition 0 whose timestamps lie behind: it is never past the rows, and never at its end."""

    class Behind(Scripted):
        busy = 5

        def there(self, partition: Partition) -> int:
            self.busy += partition == A
            return self.busy if partition == A else 5

        def time_ms(self, partition: Partition, offset: int) -> int:
            return 0 if partition == A else 1000

    source = Behind(A, B)
    bench = Bench(list_log, source=source, config=WAITING)
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: source.committed.get(B) == 5)
    assert source.committed[A] < 30
    bench.relay.request_stop()
    await running


async def test_late_rounds_take_rows_that_waited(list_log: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Another topic is so slow that every round is late. A and B get a record a second, B a little earlier."""
    slow, clock = Partition("other", 0), SimpleNamespace(now=5.0)
    for module in ("relay_loop", "offset_tracker", "translation_stage"):
        monkeypatch.setattr(
            f"relay.service.loop.{module}.time", SimpleNamespace(monotonic=lambda: clock.now), raising=True
        )

    class Live(Scripted):
        def there(self, partition: Partition) -> int:
            if partition == slow:
                return self.position[slow] + 200
            clock.now += 0.01
            return int(clock.now)

        def time_ms(self, partition: Partition, offset: int) -> int:
            return offset

    class Slowed(Copy):
        def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
            if record.topic != slow.topic:
                return super().translate(record)
            clock.now += 0.1
            return []

    source = Live(A, B, slow)
    bench = Bench(list_log, source=source, config=WAITING, copy=Slowed())
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: clock.now > 1000)
    assert source.committed[B] > 900
    bench.relay.request_stop()
    await running


async def test_a_partition_0_that_passes_over_what_is_no_record_is_not_stalled(list_log: Any) -> None:
    """Its position moves with every poll over a long aborted transaction, while other rows are held."""

    class Aborted(Scripted):
        def there(self, partition: Partition) -> int:
            return 200 if partition == A else 5

        def time_ms(self, partition: Partition, offset: int) -> int:
            return 9

        async def poll(
            self, without: Collection[Partition] = ()
        ) -> Mapping[Partition, Sequence[ConsumerRecord]]:
            await asyncio.sleep(0.002)
            if self.position.get(A, 200) < 200:
                self.position[A] += 1
            return await super().poll({A, *without})

        async def waiting(self) -> bool:
            return self.position[A] < 200

    source = Aborted(A, B)
    bench = Bench(list_log, source=source, config=WAITING, stall_check_seconds=0.05)
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: source.committed == {A: 200, B: 5})
    bench.relay.request_stop()
    await running
    assert not list_log.named("consumer.stalled")
