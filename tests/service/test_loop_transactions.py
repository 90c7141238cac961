"""The loop with a transactional sink in memory: readers see every record once, and offsets move with it or
not at all.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import pytest
from service.memory import A, B, Bench, MemoryBatch, MemorySink, until

from relay.io.kafka.ports import Partition, PollFailed, Undelivered
from relay.model.errors import DeliveryFailed, InstanceFenced
from relay.service.loop.offset_tracker import RecordRefused


@pytest.fixture(params=[1, 2], ids=["one round", "two rounds"])
async def bench(request: pytest.FixtureRequest, list_log: Any) -> Bench:
    return Bench(list_log, A, B, transactional=True, max_in_flight=request.param)


def check_exactly_once(bench: Bench) -> None:
    bench.check_complete()
    assert len(bench.target.records) == 40, "nothing is there twice"


async def test_without_failures(bench: Bench) -> None:
    await bench.run_to_the_end()
    check_exactly_once(bench)


@pytest.mark.parametrize("moment", range(0, 20, 3))
async def test_a_refused_batch_takes_its_whole_transaction_back(bench: Bench, moment: int) -> None:
    failures = [Undelivered("refused", retriable=True)]

    def refuse(batch: MemoryBatch) -> Undelivered | None:
        return (
            failures.pop()
            if failures and batch[0].partition == 1 and int(batch[0].value or b"") >= moment
            else None
        )

    bench.target.refuse = refuse
    await bench.run_to_the_end()
    check_exactly_once(bench)
    assert bench.copy.restored == 1


@pytest.mark.parametrize("is_committed", [True, False])
@pytest.mark.parametrize("moment", range(6))
async def test_a_commit_whose_outcome_nobody_knows(bench: Bench, moment: int, is_committed: bool) -> None:
    """The brokers are asked, and what they have committed is neither written again nor left out."""
    outcomes = [None] * moment + [TimeoutError]

    def refuse_commit(offsets: Mapping[Partition, int]) -> Exception | None:
        if not outcomes or outcomes.pop(0) is None:
            return None
        if is_committed:
            bench.target.records += bench.target.sinks[-1].open
            bench.source.committed |= offsets
        return Undelivered("no answer", retriable=True)

    bench.target.refuse_commit = refuse_commit
    await bench.run_to_the_end()
    check_exactly_once(bench)


async def test_a_commit_that_the_brokers_have_forgotten_is_not_waited_for(
    bench: Bench, monkeypatch: pytest.MonkeyPatch
) -> None:
    """They had acknowledged it; the new sink has found it open, and aborted it."""
    forgotten = [Undelivered("all brokers died", retriable=True)]

    def refuse(batch: MemoryBatch) -> Undelivered | None:
        if not forgotten or int(batch[0].value or b"") < 10:
            return None
        assert any(bench.source.committed.values())
        monkeypatch.setattr(MemorySink, "has_aborted_hanging_transaction", True)
        bench.target.records.clear()
        bench.source.committed = dict.fromkeys((A, B), 0)
        return forgotten.pop()

    bench.target.refuse = refuse
    await bench.run_to_the_end()
    check_exactly_once(bench)


@pytest.mark.parametrize("is_committed", [True, False])
async def test_a_stop_asks_the_brokers_what_a_commit_has_come_to(list_log: Any, is_committed: bool) -> None:
    """Only they know it after a commit without an answer, and status 0 must be true."""
    bench = Bench(list_log, A, B, transactional=True)

    def refuse_commit(offsets: Mapping[Partition, int]) -> Exception | None:
        bench.relay.request_stop()
        if is_committed:
            bench.target.records += bench.target.sinks[-1].open
            bench.source.committed |= offsets
        return Undelivered("no answer", retriable=True)

    bench.target.refuse_commit = refuse_commit
    if is_committed:
        await bench.relay.run()
    else:
        with pytest.raises(DeliveryFailed, match="could not be written; the next start repeats them"):
            await bench.relay.run()
    assert bench.log.named("delivery.failed")
    bench.check()


@pytest.mark.parametrize("moment", range(6))
async def test_a_poll_that_raises_after_moving_on(bench: Bench, moment: int) -> None:
    bench.source.failures = [*[None] * moment, PollFailed("corrupt"), None, PollFailed("corrupt")]
    await bench.run_to_the_end()
    check_exactly_once(bench)


async def test_a_fenced_instance_ends_and_commits_nothing_more(bench: Bench) -> None:
    commits = 0

    def refuse_commit(_: object) -> Exception | None:
        nonlocal commits
        commits += 1
        return InstanceFenced("another instance has started") if commits > 2 else None

    bench.target.refuse_commit = refuse_commit
    with pytest.raises(InstanceFenced):
        await bench.relay.run()
    written = bench.target.records
    assert {partition: offset for partition, offset in bench.source.committed.items() if offset} == {
        partition: len([each for each in written if each.partition == partition.partition])
        for partition in (A, B)
    }


async def test_a_refused_record_ends_the_relay_after_what_came_before(bench: Bench) -> None:
    bench.copy.refuse[7] = ValueError("poison")
    with pytest.raises(RecordRefused) as raised:
        await bench.relay.run()
    refused = next(each for each in (A, B) if each.partition == raised.value.partition)
    assert bench.target.values(refused) == list(range(7))
    assert bench.source.committed[refused] == 7


async def test_a_stop_commits_what_is_under_way(bench: Bench) -> None:
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bool(bench.target.records))
    bench.relay.request_stop()
    await running
    assert sum(bench.source.committed.values()) == len(bench.target.records)


async def test_a_worn_sink_is_changed_between_two_transactions(bench: Bench) -> None:
    bench.target.sinks[0].needs_rotation = True
    await bench.run_to_the_end()
    assert len(bench.target.records) == 40
    assert [sink.state for sink in bench.target.sinks] == ["stopped", "stopped"]


@pytest.mark.parametrize("rounds", [1, 2])
async def test_offsets_that_stand_still_are_committed_again(list_log: Any, rounds: int) -> None:
    """Brokers forget the offsets of a group without members, and a shard is no member."""
    bench = Bench(list_log, A, B, transactional=True, max_in_flight=rounds, refresh_seconds=0.02)
    commits = 0

    def count(_: object) -> None:
        nonlocal commits
        commits += 1

    bench.target.refuse_commit = count
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bench.source.committed == {A: 20, B: 20})
    bench.source.committed = {}
    before = commits
    await until(lambda: commits > before + 2 and bench.source.committed == {A: 20, B: 20})
    bench.relay.request_stop()
    await running


async def test_a_commit_that_never_succeeds_ends_the_relay(bench: Bench) -> None:
    bench.target.refuse_commit = lambda _: Undelivered("not allowed", retriable=False)
    with pytest.raises(DeliveryFailed, match="3 times in a row: not allowed"):
        await bench.relay.run()
    assert bench.target.records == []


async def test_the_status_knows_the_partitions_after_a_failure(bench: Bench) -> None:
    failures = [Undelivered("refused", retriable=True)]
    bench.target.refuse = lambda _: failures.pop() if failures else None
    running = asyncio.create_task(bench.run_to_the_end())
    await until(lambda: bench.relay.counts.sinks == 1 and bench.source.committed == {A: 20, B: 20})
    assert set(bench.status.partitions) == {A, B}
    await running
