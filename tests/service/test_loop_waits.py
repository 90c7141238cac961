"""What the loop does while it waits: for DDL, for a history, for brokers, and for whoever reads its log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Callable, Collection, Mapping, Sequence
from typing import Any

import pytest
from service.memory import A, B, Bench, Copy, until

from relay.io.kafka.ports import Owner, Partition, Undelivered
from relay.model.errors import BrokerUnavailable, ClaimCheckMissing, DeliveryFailed, TopicUnusable
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.offset_tracker import RecordRefused
from relay.service.loop.settings import DEFAULT_SETTINGS
from relay.service.observe import report


@pytest.fixture
def bench(list_log: Any) -> Bench:
    return Bench(list_log, A, B)


@pytest.fixture
def suspicious(list_log: Any) -> Bench:
    """It soon asks whether records wait, when none come."""
    return Bench(list_log, A, B, stall_check_seconds=0.02)


def is_ready(bench: Bench) -> bool:
    return bool(report.readiness(bench.status)["ready"])


async def test_a_stop_while_rows_wait_for_ddl_leaves_them_alone(bench: Bench) -> None:
    """What they wait for has not been read: they would be translated without it, for ever."""
    waiting = asyncio.Event()

    async def ready(polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        if polled:
            waiting.set()
            await asyncio.Event().wait()

    bench.schemas.ready = ready
    running = asyncio.create_task(bench.relay.run())
    await waiting.wait()
    bench.relay.request_stop()
    await running
    assert bench.target.records == []
    assert set(bench.source.committed.values()) <= {0}


async def test_offsets_committed_before_the_start_are_reported(bench: Bench) -> None:
    """Also when there is nothing more to commit."""
    bench.source.committed = {A: 20, B: 20}
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: is_ready(bench))
    assert [bench.status.partitions[each].committed for each in (A, B)] == [20, 20]
    bench.relay.request_stop()
    await running


async def test_readiness_waits_for_the_history_and_ends_with_the_request_to_stop(bench: Bench) -> None:
    is_loaded, refused = asyncio.Event(), asyncio.Event()
    bench.schemas.load = is_loaded.wait  # type: ignore[assignment]  # with other types
    running = asyncio.create_task(bench.relay.run())
    await asyncio.sleep(0.05)
    assert not is_ready(bench)
    is_loaded.set()
    await until(lambda: is_ready(bench))

    async def slow(_: Sequence[asyncio.Future[object]]) -> None:
        refused.set()
        await asyncio.sleep(0.2)

    bench.target.sinks[-1].delivered = slow  # type: ignore[assignment]  # with other types
    bench.source.length = 40
    await refused.wait()
    bench.relay.request_stop()
    await asyncio.sleep(0.05)
    assert not running.done()
    assert bench.status.phase == "draining"
    assert not is_ready(bench)
    await running


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_stop_that_cuts_a_round_off_is_no_success(list_log: Any, transactional: bool) -> None:
    bench = Bench(list_log, A, transactional=transactional, drain_seconds=0.05)
    is_stuck = asyncio.Event()

    async def send(*_: object) -> Any:
        is_stuck.set()
        await asyncio.Event().wait()

    bench.target.sinks[-1].send = send  # type: ignore[assignment]  # with other types
    running = asyncio.create_task(bench.relay.run())
    await is_stuck.wait()
    bench.relay.request_stop()
    with pytest.raises(DeliveryFailed, match="not acknowledged"):
        await running
    assert set(bench.source.committed.values()) <= {0}


async def test_brokers_that_go_away_while_the_consumer_is_replaced_are_waited_for(suspicious: Bench) -> None:
    bench = suspicious
    calls: list[str] = []
    heard, start = bench.source.poll, bench.source.start

    async def deaf(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        await asyncio.sleep(0.001)
        return {} if len(calls) < 4 else await heard(without)

    async def refused(owner: Owner) -> None:
        calls.append("start")
        if 1 < len(calls) < 4:
            raise BrokerUnavailable("no broker answers at b:1")
        await start(owner)

    bench.source.poll, bench.source.start = deaf, refused
    await bench.run_to_the_end()
    bench.check_complete()
    assert calls == ["start"] * 4
    assert len(bench.log.named("source.unreachable")) == 2


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_round_ends_in_time_although_its_poll_has_more(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    """A slow storage would keep a transaction open until the broker gives it up; then nothing would ever get
    through.
    """
    bench = Bench(list_log, A, B, length=200, transactional=transactional, round_seconds=0.05)
    bench.source.take = 200
    translate = bench.copy.translate

    def slow(record: ConsumerRecord) -> Any:
        time.sleep(0.002)
        return translate(record)

    monkeypatch.setattr(bench.copy, "translate", slow)
    commits: list[int] = []
    running = asyncio.create_task(bench.run_to_the_end())
    while not running.done():
        commits.append(sum(bench.source.committed.values()))
        await asyncio.sleep(0.01)
    await running
    bench.check_complete()
    assert len(bench.target.records) == 400
    assert len(set(commits)) > 4


@pytest.mark.parametrize("transactional", [False, True])
async def test_lag_grows_while_the_target_is_away(list_log: Any, transactional: bool) -> None:
    """Nothing is polled meanwhile, so what is read again must count as lag."""
    bench = Bench(list_log, A, B, transactional=transactional)
    bench.target.refuse = lambda batch: (
        Undelivered("refused", retriable=True) if int(batch[0].value or b"") >= 6 else None
    )
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bool(bench.log.named("delivery.failed")))
    away = True

    async def no_broker() -> None:
        if away:
            raise Undelivered("no broker", retriable=True)

    for sink in bench.target.sinks:
        sink.start = no_broker
    lags = []
    for _ in range(20):
        await asyncio.sleep(0.005)
        lags.append(bench.status.lag)
    assert max(lag or 0 for lag in lags) >= 20
    bench.target.refuse = lambda _: None
    await until(lambda: bench.source.committed == dict.fromkeys(bench.source.every, bench.source.length))
    bench.relay.request_stop()
    await running


async def test_an_outage_of_a_quiet_source_is_reported_and_counted(suspicious: Bench) -> None:
    bench = suspicious

    async def nobody() -> None:
        return None

    bench.source.waiting = nobody  # type: ignore[assignment]  # with other types
    bench.source.length = 0
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: len(bench.log.named("source.unreachable")) >= 2)
    assert bench.status.errors["poll", BrokerUnavailable.code] >= 2
    assert not bench.status.checks["source"].ok
    bench.relay.request_stop()
    await running


class Slow:
    """A storage, each call of which takes `seconds`, and then fails if it is to."""

    def __init__(self, seconds: float, failure: Exception | None = None) -> None:
        self.seconds, self.failure, self.calls = seconds, failure, 0

    def fetch(self, _: Need[Any]) -> bytes:
        self.calls += 1
        time.sleep(self.seconds)
        if self.failure is not None:
            raise self.failure
        return b"x"


class Claims(Copy):
    """Needs an object for each record that `needs` names."""

    def __init__(self, needs: Callable[[ConsumerRecord], bool]) -> None:
        super().__init__()
        self._needs, self._has = needs, False

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if self._needs(record) and not self._has:
            raise Need("object")
        self._has = False
        return super().translate(record)

    def provide(self, need: Need[Any], data: bytes, /) -> None:
        self._has = True


def needing(
    log: Any, storage: Slow, needs: Callable[[ConsumerRecord], bool], *partitions: Partition, **settings: Any
) -> Bench:
    """A relay that takes a hundredth of the usual time for a round."""
    waits = [seconds / 100 for seconds in DEFAULT_SETTINGS.retry_seconds]
    objects = AsyncResolver(log, storage, retry_seconds=waits)  # type: ignore[arg-type]  # as far as it is asked
    return Bench(log, *partitions, copy=Claims(needs), objects=objects, **{"round_seconds": 0.1, **settings})


async def test_an_object_that_takes_longer_than_a_round_is_fetched_once(list_log: Any) -> None:
    """Thrown away because the round is late, it would be fetched for ever."""
    storage = Slow(0.2)
    bench = needing(list_log, storage, lambda record: record.offset == 5, A)
    await bench.run_to_the_end()
    bench.check_complete()
    assert storage.calls == 1


@pytest.mark.parametrize("seconds", [0.0, 0.05])
async def test_a_missing_object_ends_relay_however_late_it_is_reported(list_log: Any, seconds: float) -> None:
    bench = needing(
        list_log, Slow(seconds, ClaimCheckMissing("no such object")), lambda record: record.offset == 5, A
    )
    async with asyncio.timeout(10):
        with pytest.raises(RecordRefused) as refused:
            await bench.relay.run()
    assert refused.value.offset == 5
    assert bench.source.committed == {A: 5}


async def test_many_partitions_that_wait_for_a_storage_share_the_time_of_a_round(list_log: Any) -> None:
    """Each of them would otherwise make one more call after the time is up."""
    storage = Slow(0.01)
    partitions = [Partition("in", number) for number in range(60)]
    bench = needing(list_log, storage, lambda _: True, *partitions, length=3, transactional=True)
    took: list[float] = []

    def observe(step: str, seconds: float) -> None:
        if step == "translate":
            took.append(seconds)

    bench.status.observe = observe  # type: ignore[assignment]  # with other names
    await bench.run_to_the_end()
    bench.check_complete()
    assert storage.calls == 180
    assert max(took) < 0.4


async def test_no_partition_is_passed_over_for_long(list_log: Any) -> None:
    """A round ends before all partitions had their turn; the next one begins with those, whatever the order
    of the poll.
    """
    partitions = [Partition("in", number) for number in range(5)]
    bench = needing(list_log, Slow(0.04), lambda _: True, *partitions, length=1_000)
    bench.source.take = 10
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: len(bench.source.committed) == 5 and all(bench.source.committed.values()))
    assert max(bench.source.committed.values()) < 20
    bench.relay.request_stop()
    await running


async def test_partitions_may_be_taken_away_while_a_round_with_gaps_waits(list_log: Any) -> None:
    storage = Slow(0.6)
    bench = needing(list_log, storage, lambda record: record.offset == 5, A, B)
    poll = bench.source.poll

    async def only_a(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        return {partition: records for partition, records in (await poll(without)).items() if partition == A}

    bench.source.poll = only_a
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: storage.calls == 1)
    # The group waits for 0.2 s, see `Bench`.
    await bench.relay.revoked()
    bench.relay.assigned((A, B))
    await until(lambda: bench.source.committed == {A: 20, B: 20})
    bench.relay.request_stop()
    await running
    assert bench.target.values(A) == list(range(20))


@pytest.mark.parametrize("transactional", [False, True])
async def test_checks_are_ok_again_when_records_flow_again(list_log: Any, transactional: bool) -> None:
    """Else an alert on them would stay for ever."""
    bench = Bench(list_log, A, B, length=6, transactional=transactional, stall_check_seconds=0.03)
    source, away = bench.source, True
    waiting = source.waiting

    async def maybe() -> Any:
        return None if away else await waiting()

    source.waiting = maybe
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bool(list_log.named("source.unreachable")))
    assert not bench.status.checks["source"].ok
    away = False
    bench.target.problem = TopicUnusable("topic history has no leader")
    failures = [BrokerUnavailable("the history cannot be read now")] * 2
    load = bench.schemas.load

    async def failing() -> None:
        if failures:
            raise failures.pop()
        bench.target.problem = None
        await load()

    bench.schemas.load = failing
    await bench.relay.revoked()
    bench.relay.assigned((A, B))
    await until(lambda: not failures)
    source.length = 100
    await until(lambda: source.committed == {A: 100, B: 100})
    bench.target.refuse = lambda _: (
        None if bench.log.named("sink.replaced") else Undelivered("refused", retriable=True)
    )
    source.length = 200
    await until(lambda: source.committed == {A: 200, B: 200})
    bench.relay.request_stop()
    await running
    assert {"source", "target", "topics"} <= bench.status.checks.keys()
    assert all(check.ok for check in bench.status.checks.values())


STUCK = """
import sys, time
from relay.service.observe import watchdog
from relay.io.logs import Log

class Status:
    began = time.monotonic()
    @property
    def heartbeat_age(self):
        return time.monotonic() - self.began

log = Log()
with watchdog.Watchdog(Status(), 0.5, log, hurry_seconds=0.5):
    while True:
        log.info("x", text="y" * 4000)
"""


def test_the_watchdog_ends_a_process_whose_log_nobody_reads() -> None:
    reader, writer = os.pipe()
    began = time.monotonic()
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdout=writer, stderr=subprocess.DEVNULL)
    try:
        assert process.wait(30) == 3
    finally:
        process.kill()
        process.wait()
        os.close(reader)
        os.close(writer)
    assert time.monotonic() - began < 20
