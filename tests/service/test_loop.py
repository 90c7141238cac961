"""The loop against sources and sinks in memory, for failures that a real broker cannot be made to show.

In every test: what the target holds must have every source record, in order of first appearance, and no
offset may be committed whose record is not in the target.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Collection
from typing import Any

import pytest
from service.memory import PLAIN, A, B, Bench, MemoryBatch, until

from relay.core.counts import UnwrittenStatement
from relay.core.error_policies import ErrorPolicies, Policy
from relay.io.kafka.ports import Owner, OwnershipLost, Partition, PollFailed, Undelivered
from relay.io.logs import ClientLogs
from relay.model.errors import BrokerUnavailable, DeliveryFailed, Malformed, TopicUnusable
from relay.model.events import TableId
from relay.service.loop.offset_tracker import RecordRefused
from relay.service.loop.recovery import GIVE_UP_POLLS


@pytest.fixture(params=[1, 2], ids=["one round", "two rounds"])
async def bench(request: pytest.FixtureRequest, list_log: Any) -> Bench:
    """Two partitions, with and without a round under way during a poll."""
    return Bench(list_log, A, B, max_in_flight=request.param)


async def test_without_failures(bench: Bench) -> None:
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.target.records) == 40
    assert (bench.status.totals.consumed.records, bench.status.totals.produced.records) == (40, 40)


@pytest.mark.parametrize(("target", "is_keyed"), [("canal-json", False), ("flat-json", True)])
async def test_an_inferred_table_is_reported_once_with_the_effect_on_its_keys(
    list_log: Any, target: str, is_keyed: bool
) -> None:
    route = PLAIN.route.model_copy(update={"to": target})
    bench = Bench(list_log, A, config=PLAIN.model_copy(update={"route": route}))
    bench.copy.inferred_tables[TableId("shop", "orders")] = 1
    await bench.run_to_the_end()
    (said,) = list_log.named("schema.inferred")
    assert (said["table"], said["reason"]) == ("shop.orders", "no DDL")
    assert ("keys of its rows" in said["message"]) == is_keyed


async def test_each_truncate_or_drop_that_is_not_written_is_logged_once(list_log: Any) -> None:
    bench = Bench(list_log, A, config=PLAIN)
    orders = UnwrittenStatement(TableId("shop", "orders"), "truncate table", "ticdc/0/5")
    bench.copy.unwritten += [orders, orders._replace(table=TableId("shop", "items"))]
    await bench.run_to_the_end()
    logged = list_log.named("ddl.not-written")
    assert [each["table"] for each in logged] == ["shop.orders", "shop.items"]
    assert (logged[0]["statement"], logged[0]["position"]) == ("truncate table", "ticdc/0/5")
    assert "keep the rows" in logged[0]["message"]


@pytest.mark.parametrize("moment", range(6))
async def test_a_poll_that_raises_after_moving_on(bench: Bench, moment: int) -> None:
    bench.source.failures = [*[None] * moment, PollFailed("corrupt"), None, PollFailed("corrupt")]
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.target.records) == 40
    assert len(bench.log.named("poll.failed")) == 2


@pytest.mark.parametrize("failing", [False, True])
async def test_a_round_may_take_several_polls(list_log: Any, failing: bool) -> None:
    """Where tables have topics of their own, so that batches are not of one record."""
    bench = Bench(list_log, A, B, gather_bytes=20, gather_poll_bytes=1, first_growth=1.0)
    bench.source.failures = (
        [None, PollFailed("corrupt"), *[None] * 4, PollFailed("corrupt")] if failing else []
    )
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.target.records) == 40
    # A poll gives three records of each partition; six polls would be seven rounds.
    assert failing or bench.status.batches.count <= 4


async def test_a_round_takes_less_where_messages_grow(list_log: Any) -> None:
    """What they become is in memory until the round is sent: ten times as much for a tenth of it."""
    rounds = []
    for growth in (1, 10):
        bench = Bench(list_log, A, length=60, gather_bytes=60, gather_poll_bytes=1, first_growth=1.0)
        bench.copy.become = dict.fromkeys(range(60), b"v" * 2 * growth)
        await bench.run_to_the_end()
        assert len(bench.target.records) == 60
        rounds.append(bench.status.batches.count)
    assert rounds[0] < rounds[1]


async def test_a_round_that_is_late_does_not_tell_how_messages_grow(list_log: Any) -> None:
    """What is left of it would be taken for messages that became nothing, and the next round take too much."""
    gathering: dict[str, Any] = {
        "gather_bytes": 60,
        "gather_poll_bytes": 1,
        "first_growth": 10.0,
        "round_seconds": 0.0,
    }
    bench = Bench(list_log, A, B, length=60, **gathering)
    bench.copy.become = {at: b"%20d" % at for at in range(60)}
    polls = [0]
    poll = bench.source.poll

    async def counted(without: Collection[Partition] = ()) -> Any:
        polls[-1] += 1
        return await poll(without)

    def begin(records: int) -> None:
        polls.append(0)

    bench.source.poll = counted
    bench.status.batch = begin
    await bench.run_to_the_end()
    bench.check_complete()
    assert max(polls[:-1]) == 1


async def test_polls_that_fail_for_ever_end_the_relay(bench: Bench) -> None:
    bench.source.failures = [None, None, *[PollFailed("corrupt")] * GIVE_UP_POLLS]
    with pytest.raises(BrokerUnavailable, match="20 times in a row: corrupt"):
        await bench.relay.run()
    bench.check()
    assert bench.source.stopped


async def test_an_outage_is_waited_for_however_many_polls_fail(bench: Bench) -> None:
    async def nobody_answers() -> None:
        return None

    bench.source.waiting = nobody_answers  # type: ignore[assignment]  # with other types
    bench.source.failures = [None, None, *[PollFailed("no broker")] * 3 * GIVE_UP_POLLS]
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.log.named("poll.failed")) == 3 * GIVE_UP_POLLS


async def test_positions_behind_the_last_record_are_committed(bench: Bench) -> None:
    """What ends a partition may be no record: a transaction's marker, or what was aborted or compacted away."""
    source = bench.source
    source.position_of = lambda partition: 25 if source.position[partition] == source.length else None
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: source.committed == dict.fromkeys(source.every, 25))
    bench.relay.request_stop()
    await running
    assert len(bench.target.records) == 40


@pytest.mark.parametrize("retriable", [True, False])
@pytest.mark.parametrize("moment", range(0, 20, 3))
async def test_a_refused_batch_is_written_again_in_order(bench: Bench, moment: int, retriable: bool) -> None:
    failures = [Undelivered("refused", retriable=retriable)]

    def refuse(batch: MemoryBatch) -> Undelivered | None:
        return (
            failures.pop()
            if failures and batch[0].partition == 1 and int(batch[0].value or b"") >= moment
            else None
        )

    bench.target.refuse = refuse
    await bench.run_to_the_end()
    bench.check_complete()
    assert bench.relay.counts.sinks == 1
    assert bench.log.named("delivery.failed")[0]["retriable"] is retriable


async def test_new_sinks_are_tried_until_one_starts(bench: Bench) -> None:
    failures = [Undelivered("refused", retriable=True)]

    def refuse(_: MemoryBatch) -> Undelivered | None:
        if not failures:
            return None
        bench.target.down = 4
        return failures.pop()

    bench.target.refuse = refuse
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.log.named("sink.unavailable")) == 4


async def test_a_batch_that_is_never_taken_ends_the_relay(bench: Bench) -> None:
    bench.target.refuse = lambda batch: (
        Undelivered("too large", retriable=False)
        if any(int(record.value or b"") == 7 for record in batch)
        else None
    )
    with pytest.raises(DeliveryFailed, match="3 times in a row: too large"):
        await bench.relay.run()
    bench.check()
    assert all(offset <= 7 for offset in bench.source.committed.values())


@pytest.mark.parametrize("offset", [0, 1, 7, 19])
async def test_a_refused_record_ends_the_relay_after_what_came_before(bench: Bench, offset: int) -> None:
    bench.copy.refuse[offset] = ValueError("poison")
    with pytest.raises(RecordRefused) as raised:
        await bench.relay.run()
    assert raised.value.offset == offset
    refused = Partition(raised.value.topic, raised.value.partition)
    assert bench.target.values(refused) == list(range(offset))
    assert bench.source.committed[refused] == offset
    bench.check()


async def test_an_oversize_record_is_refused_with_its_size(bench: Bench) -> None:
    bench.copy.become[5] = b"too large"
    with pytest.raises(RecordRefused, match="offset 5 becomes 99 bytes, but topic out accepts 9"):
        await bench.relay.run()
    bench.check()


async def test_nothing_is_committed_before_it_is_acknowledged(bench: Bench) -> None:
    bench.target.gate.clear()
    running = asyncio.create_task(bench.run_to_the_end())
    await until(lambda: len(bench.target.records) >= 2)
    await asyncio.sleep(0.02)
    assert all(offset == 0 for offset in bench.source.committed.values())
    bench.target.gate.set()
    await running
    bench.check_complete()


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_dead_letter_counts_once_it_is_acknowledged(list_log: Any, transactional: bool) -> None:
    errors = ErrorPolicies({"decode": Policy.DEAD_LETTER}, "dead", 1, "route")
    bench = Bench(list_log, A, length=6, transactional=transactional, errors=errors)
    bench.copy.refuse[2] = Malformed("canal-json", "data", "no rows")
    bench.target.gate.clear()
    running = asyncio.create_task(bench.run_to_the_end())
    sent = bench.target.sinks
    await until(lambda: any(record.topic == "dead" for record in [*bench.target.records, *sent[-1].open]))
    await asyncio.sleep(0.02)
    assert not bench.status.dead_letters
    assert not list_log.named("record.dead-lettered")
    bench.target.gate.set()
    await running
    assert bench.status.dead_letters == {"decode.malformed": 1}
    (logged,) = list_log.named("record.dead-lettered")
    assert logged["position"] == "in/0/2"


async def test_a_stop_without_acknowledgements_ends_in_time_and_says_so(bench: Bench) -> None:
    bench.target.gate.clear()
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bool(bench.target.records))
    bench.relay.request_stop()
    with pytest.raises(DeliveryFailed, match="not acknowledged"):
        async with asyncio.timeout(10):
            await running
    assert all(offset == 0 for offset in bench.source.committed.values())
    assert bench.source.stopped


@pytest.mark.parametrize("transactional", [False, True])
async def test_a_stop_before_a_failed_batch_is_written_again_says_so(
    list_log: Any, transactional: bool
) -> None:
    """The records are where they were, and an operator who trusts status 0 may delete them."""
    bench = Bench(list_log, A, B, transactional=transactional)
    bench.target.refuse = lambda _: Undelivered("refused", retriable=True)
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bool(bench.log.named("delivery.failed")))
    bench.relay.request_stop()
    with pytest.raises(DeliveryFailed, match="could not be written; the next start repeats them"):
        await running
    assert not bench.target.records
    assert all(offset == 0 for offset in bench.source.committed.values())


async def test_a_stop_after_a_failed_batch_was_written_again_is_a_clean_one(bench: Bench) -> None:
    failures = [Undelivered("refused", retriable=True)]
    bench.target.refuse = lambda _: failures.pop() if failures else None
    running = asyncio.create_task(bench.relay.run())
    # What came after the failed batch may never have been read.
    await until(lambda: len(bench.target.records) >= 12)
    bench.relay.request_stop()
    await running
    bench.check()


async def test_a_poll_that_fails_because_new_partitions_have_come_is_no_failure(bench: Bench) -> None:
    """They have no position before they are opened, and the client raises for a poll that was under way."""
    polls, poll = 0, bench.source.poll

    async def assigned_meanwhile(without: Collection[Partition] = ()) -> Any:
        nonlocal polls
        polls += 1
        polled = await poll(without)
        if polls == 3:
            assert bench.source.owner is not None
            await bench.source.owner.revoked()
            bench.source.owner.assigned(bench.source.every)
            raise PollFailed("no offset for in/1")
        return polled

    bench.source.poll = assigned_meanwhile
    await bench.run_to_the_end()
    bench.check_complete()
    assert not bench.log.named("poll.failed")


async def test_a_stop_ends_a_poll_that_hangs(bench: Bench) -> None:
    bench.source.hang = True
    running = asyncio.create_task(bench.relay.run())
    await asyncio.sleep(0.02)
    bench.relay.request_stop()
    async with asyncio.timeout(10):
        await running
    assert bench.source.stopped


async def test_a_rebalance_finishes_and_commits(bench: Bench) -> None:
    await with_rebalance(bench, at_records=8)
    bench.check_complete()
    assert len(bench.target.records) == 40, "nothing is repeated"


async def test_after_a_rebalance_nobody_knows_what_others_have_written(bench: Bench) -> None:
    await with_rebalance(bench, at_records=8)
    assert bench.copy.forgotten == 2


async def test_a_rebalance_does_not_wait_for_ever(bench: Bench) -> None:
    bench.target.gate.clear()
    asyncio.get_running_loop().call_later(0.5, bench.target.gate.set)
    await with_rebalance(bench, at_records=2)
    bench.check_complete()
    assert bench.log.named("partitions.revoked-unfinished")


async def with_rebalance(bench: Bench, at_records: int) -> None:
    async def rebalance() -> None:
        await until(lambda: len(bench.target.records) >= at_records)
        assert bench.source.owner is not None
        await bench.source.owner.revoked()
        bench.source.position.clear()
        await asyncio.sleep(0.01)
        bench.source.owner.assigned(bench.source.every)

    async with asyncio.TaskGroup() as group:
        group.create_task(rebalance())
        group.create_task(bench.run_to_the_end())


async def test_lost_partitions_are_read_again(bench: Bench) -> None:
    bench.source.commit_failures = [OwnershipLost("another generation")]
    async with asyncio.TaskGroup() as group:
        running = group.create_task(bench.run_to_the_end())
        await until(lambda: bool(bench.log.named("partitions.lost")) or running.done())
        assert bench.source.owner is not None
        bench.source.owner.assigned(bench.source.every)
    bench.check_complete()


async def test_a_commit_without_answer_is_repeated(bench: Bench) -> None:
    bench.source.commit_failures = [TimeoutError(), TimeoutError()]
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.target.records) == 40
    assert len(bench.log.named("commit.timeout")) == 2


async def test_an_error_of_the_environment_still_commits_what_is_written(bench: Bench) -> None:
    bench.source.failures = [None, None, TopicUnusable("not allowed any more")]
    with pytest.raises(TopicUnusable):
        await bench.relay.run()
    bench.check()
    assert bench.source.committed == {A: 6, B: 6}


async def test_a_worn_sink_is_changed_at_a_quiet_moment(bench: Bench) -> None:
    bench.target.sinks[0].needs_rotation = True
    await bench.run_to_the_end()
    bench.check()
    assert [sink.state for sink in bench.target.sinks] == ["stopped", "stopped"]
    assert len(bench.target.records) == 40


async def test_an_unreachable_target_at_the_start(bench: Bench) -> None:
    bench.target.down = 1
    with pytest.raises(BrokerUnavailable, match="check the addresses"):
        await bench.relay.run()


async def test_batches_on_their_way_are_given_up_when_a_handover_ends_unfinished(bench: Bench) -> None:
    """Else they would arrive behind what the partitions' next owner writes."""
    bench.target.gate.clear()
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: bool(bench.target.records))
    await bench.relay.revoked()
    assert bench.target.sinks[0].state == "abandoned"
    assert bench.log.named("partitions.revoked-unfinished")
    written = len(bench.target.records)
    bench.target.gate.set()
    await until(lambda: len(bench.target.sinks) == 2)
    assert len(bench.target.records) == written
    bench.relay.assigned(bench.source.every)
    await until(lambda: bench.source.committed == dict.fromkeys(bench.source.every, bench.source.length))
    bench.relay.request_stop()
    await running
    bench.check_complete()


async def test_polls_that_fail_now_and_then_are_not_added_up(bench: Bench) -> None:
    bench.source.failures = [PollFailed("blip"), None] * (GIVE_UP_POLLS + 1)
    bench.source.length = 0
    running = asyncio.create_task(bench.relay.run())
    await until(lambda: not bench.source.failures)
    bench.relay.request_stop()
    await running


async def test_a_stop_during_the_start_is_heard(bench: Bench, monkeypatch: pytest.MonkeyPatch) -> None:
    started = asyncio.Event()

    async def never(_: Owner) -> None:
        started.set()
        await asyncio.Event().wait()

    monkeypatch.setattr(bench.source, "start", never)
    running = asyncio.create_task(bench.relay.run())
    await started.wait()
    bench.relay.request_stop()
    async with asyncio.timeout(5):
        await running
    assert bench.source.stopped


def test_what_asyncio_says_holds_no_values(list_log: Any) -> None:
    handler = ClientLogs(list_log)
    error = ValueError("secret value")
    what = "Future exception was never retrieved\nfuture: <Future exception=ValueError('secret value')>"
    handler.emit(logging.LogRecord("asyncio", logging.ERROR, "", 0, what, (), (ValueError, error, None)))
    (logged,) = list_log.named("kafka.client")
    assert logged["message"] == "Future exception was never retrieved: ValueError"


def test_events_that_may_come_for_every_record_come_seldom(list_log: Any) -> None:
    for offset in range(100):
        list_log.rate_limited("record.skipped", "decode.malformed", position=f"in/0/{offset}")
    list_log.rate_limited("record.skipped", "encode.too-large", position="in/0/100")
    assert [each["position"] for each in list_log.named("record.skipped")] == ["in/0/0", "in/0/100"]


async def test_topics_are_looked_at_when_writing_fails_again(bench: Bench) -> None:
    failures = [Undelivered("time is up", retriable=True)] * 3
    bench.target.refuse = lambda _: failures.pop() if failures else None
    bench.target.problem = TopicUnusable("topic out does not exist")
    await bench.run_to_the_end()
    bench.check_complete()
    assert bench.target.checks == 2, "the first failure may be anything"
    assert {each["reason"] for each in bench.log.named("topics.unusable")} == {"topic out does not exist"}
