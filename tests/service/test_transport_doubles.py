"""What a real broker cannot be made to show at the right moment: sources that are deaf, or give out what is
not ours.
"""

from __future__ import annotations

import asyncio
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from service.memory import A, B, Bench, until

from relay.io.kafka.ports import Owner, Partition
from relay.model.records import ConsumerRecord


@pytest.fixture(params=[False, True], ids=["at-least-once", "exactly-once"])
async def bench(request: pytest.FixtureRequest, list_log: Any) -> Bench:
    return Bench(list_log, A, B, transactional=request.param, stall_check_seconds=0.03)


def deafen(bench: Bench) -> list[str]:
    """Have the source give nothing until it is started for the second time; tells what is done with it."""
    calls: list[str] = []
    poll, start, stop = bench.source.poll, bench.source.start, bench.source.stop

    async def heard(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        if calls.count("start") > 1:
            return await poll(without)
        await asyncio.sleep(0.001)
        return {}

    async def started(owner: Owner) -> None:
        calls.append("start")
        await start(owner)

    async def stopped() -> None:
        calls.append("stop")
        await stop()

    bench.source.poll, bench.source.start, bench.source.stop = heard, started, stopped
    return calls


async def test_a_silent_source_is_replaced_when_records_wait(bench: Bench) -> None:
    """Twice in a row the brokers say that records wait, and none has come."""
    calls = deafen(bench)
    await bench.run_to_the_end()
    bench.check_complete()
    assert calls == ["start", "stop", "start", "stop"]
    assert bench.relay.counts.sources == 1
    assert len(bench.log.named("consumer.stalled")) == 1


async def test_a_source_without_records_is_left_alone(bench: Bench) -> None:
    calls = deafen(bench)
    bench.source.length = 0
    running = asyncio.create_task(bench.relay.run())
    await asyncio.sleep(0.3)
    bench.relay.request_stop()
    await running
    assert calls == ["start", "stop"]


async def test_records_of_partitions_that_are_not_open_are_dropped(bench: Bench) -> None:
    """B is given out before it is ours; when it is, it is read from its beginning."""
    source = bench.source
    assign = source.owner

    async def start(owner: Owner) -> None:
        nonlocal assign
        source.owner = assign = owner
        source.position[B] = 0
        owner.assigned((A,))

    source.start = start
    running = asyncio.create_task(bench.run_to_the_end())
    await until(lambda: source.committed.get(A) == source.length and source.position[B] == source.length)
    assert {record.partition for record in bench.target.records} == {0}
    assert assign is not None
    await assign.revoked()
    assign.assigned((A, B))
    await running
    bench.check_complete()
    assert len(bench.target.records) == 40


async def test_a_relay_that_is_cancelled_leaves_no_poll_behind(bench: Bench) -> None:
    """As at the end of a drain: a poll that goes on has its consumer stopped under it."""
    polling = 0

    async def poll(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        nonlocal polling
        polling += 1
        try:
            await asyncio.sleep(5)
        finally:
            polling -= 1
        return {}

    bench.source.poll = poll
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: polling == 1)
    running.cancel()
    await asyncio.wait({running})
    await asyncio.sleep(0)
    assert polling == 0
