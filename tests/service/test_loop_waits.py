"""What the loop does while it waits: for DDL, for a history, for brokers, and for whoever reads its log."""

from __future__ import annotations

import asyncio
import os
import subprocess
import sys
import time
from collections.abc import Mapping, Sequence
from typing import Any

import pytest
from service.memory import A, B, Bench, until

from relay.errors import BrokerUnavailable
from relay.records import ConsumerRecord
from relay.service import report
from relay.service.transport import Owner, Partition, Undelivered


@pytest.fixture
def bench(list_log: Any, monkeypatch: pytest.MonkeyPatch) -> Bench:
    monkeypatch.setattr("relay.service.loop.BACKOFF_SECONDS", (0.001,))
    return Bench(list_log, A, B)


def is_ready(bench: Bench) -> bool:
    return bool(report.readiness(bench.board, 120)["ready"])


async def test_a_stop_while_rows_wait_for_ddl_leaves_them_alone(bench: Bench) -> None:
    """What they wait for has not been read: they would be translated without it, for ever."""
    waiting = asyncio.Event()

    async def ready(polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        if polled:
            waiting.set()
            await asyncio.Event().wait()

    bench.relay._schemas.ready = ready  # type: ignore[method-assign]
    running = asyncio.create_task(bench.relay.run())
    await waiting.wait()
    bench.relay.request_stop()
    await running
    assert bench.target.records == []
    assert set(bench.source.committed.values()) <= {0}


async def test_readiness_waits_for_the_history_and_ends_with_the_request_to_stop(bench: Bench) -> None:
    is_loaded, refused = asyncio.Event(), asyncio.Event()
    bench.relay._schemas.load = is_loaded.wait  # type: ignore[method-assign, assignment]
    running = asyncio.create_task(bench.relay.run())
    await asyncio.sleep(0.05)
    assert not is_ready(bench)
    is_loaded.set()
    await until(lambda: is_ready(bench))

    async def slow(_: Sequence[asyncio.Future[object]]) -> None:
        refused.set()
        await asyncio.sleep(0.2)

    bench.relay._ledger.sink.delivered = slow  # type: ignore[method-assign, assignment]
    bench.source.length = 40
    await refused.wait()
    bench.relay.request_stop()
    await asyncio.sleep(0.05)
    assert not running.done()
    assert bench.board.state == "draining"
    assert not is_ready(bench)
    await running


async def test_brokers_that_go_away_while_the_consumer_is_replaced_are_waited_for(bench: Bench) -> None:
    calls: list[str] = []
    heard, start = bench.source.poll, bench.source.start

    async def deaf() -> Mapping[Partition, Sequence[ConsumerRecord]]:
        await asyncio.sleep(0.001)
        return {} if len(calls) < 4 else await heard()

    async def refused(owner: Owner) -> None:
        calls.append("start")
        if 1 < len(calls) < 4:
            raise BrokerUnavailable("no broker answers at b:1")
        await start(owner)

    bench.source.poll, bench.source.start = deaf, refused  # type: ignore[method-assign]
    bench.relay._silence.seconds = 0.02
    await bench.run_to_the_end()
    bench.check_complete()
    assert calls == ["start"] * 4
    assert len(bench.log.named("source.unreachable")) == 2


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_round_ends_in_time_although_its_poll_has_more(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, transactional: bool
) -> None:
    """A slow storage would keep a transaction open until the broker gives it up; then nothing would ever get through."""
    monkeypatch.setattr("relay.service.loop.ROUND_SECONDS", 0.05)
    bench = Bench(list_log, A, B, length=200, transactional=transactional)
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
async def test_lag_grows_while_the_target_is_away(list_log: Any, monkeypatch: pytest.MonkeyPatch, transactional: bool) -> None:
    """Nothing is polled meanwhile, so what is read again must count as lag."""
    monkeypatch.setattr("relay.service.loop.BACKOFF_SECONDS", (0.001,))
    bench = Bench(list_log, A, B, transactional=transactional)
    bench.target.refuse = lambda batch: Undelivered("refused", retriable=True) if int(batch[0].value or b"") >= 6 else None
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bool(bench.log.named("delivery.failed")))
    away = True

    async def no_broker() -> None:
        if away:
            raise Undelivered("no broker", retriable=True)

    for sink in bench.target.sinks:
        sink.start = no_broker  # type: ignore[method-assign]
    lags = []
    for _ in range(20):
        await asyncio.sleep(0.005)
        lags.append(bench.board.lag)
    assert max(lag or 0 for lag in lags) >= 20
    bench.target.refuse = lambda _: None
    await until(lambda: bench.source.committed == dict.fromkeys(bench.source.every, bench.source.length))
    bench.relay.request_stop()
    await running


async def test_an_outage_of_a_quiet_source_is_told_and_counted(bench: Bench) -> None:
    async def nobody() -> None:
        return None

    bench.source.waiting = nobody  # type: ignore[method-assign, assignment]
    bench.relay._silence.seconds = 0.02
    bench.source.length = 0
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: len(bench.log.named("source.unreachable")) >= 2)
    assert bench.board.errors["poll", BrokerUnavailable.code] >= 2
    assert not bench.board.checks["source"].ok
    bench.relay.request_stop()
    await running


STUCK = """
import sys, time
from relay.service import watchdog
from relay.service.logs import Log

class Board:
    began = time.monotonic()
    @property
    def heartbeat_age(self):
        return time.monotonic() - self.began

watchdog.HURRY_SECONDS = 0.5
log = Log()
with watchdog.Watchdog(Board(), 0.5, log):
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
