"""The loop with `max-batch-size`: what is written does not depend on where polls and rounds end."""

from __future__ import annotations

import asyncio
import functools
import math
import random
from collections.abc import Collection, Mapping, Sequence
from typing import Any

import pytest
from service.memory import A, B, Bench, PlainTranslator, Target, plain_status, until

from relay.codecs.codec import Joining
from relay.core.batching import Joiner
from relay.core.error_policies import ErrorPolicies, Policy
from relay.io.kafka.ports import Partition, Undelivered
from relay.model.errors import Malformed
from relay.model.events import TableId
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.offset_tracker import InFlightBatch, Owned, RecordRefused
from relay.service.loop.translation_stage import TranslationStage
from relay.service.loop.windows import Joins, Windows
from relay.service.rate_limit import RateLimits

#: Rows are numbers; what is no number stands alone.
NUMBERS = Joining(
    4,
    1000,
    0,
    lambda _, value: len(value.split(b",")) if value[:1].isdigit() else 0,
    lambda messages: (b"", b",".join(value for _, value in messages)),
)


class Marks(PlainTranslator):
    """Writes every record with its mark. `odd`: offsets of what stands alone, `refuse`: of what is refused."""

    def __init__(self, odd: Sequence[int] = (), refuse: Sequence[int] = ()) -> None:
        super().__init__()
        self.odd, self.refuse = set(odd), set(refuse)

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        return ()

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if record.offset in self.refuse:
            raise Malformed("marks", "value", "is refused")
        value = b"odd" if record.offset in self.odd else b"%d" % record.offset
        mark = SOURCE_HEADER, f"{record.topic}/{record.partition}/{record.offset}/0".encode()
        return [ProducerRecord("out", record.partition, 0, b"", value, (mark,))]


def wanted(translator: Any, length: int, partition: Partition, first: int = 0) -> list[ProducerRecord]:
    """What is written for a partition that is read in one go."""
    joiner = Joiner[None](NUMBERS)
    records = [ConsumerRecord(*partition, offset, 0, None, b"") for offset in range(first, length)]
    found = [
        each
        for record in records
        if record.offset not in translator.refuse
        for out in translator.translate(record)
        for each in joiner.add(out, None)
    ]
    return [out for out, _ in [*found, *joiner.close()]]


@pytest.fixture
def bench(list_log: Any) -> Bench:
    return Bench(list_log, A, B, length=103, copy=Marks(odd=[9, 10, 40]), joins=Joins(NUMBERS, {}))


@pytest.mark.parametrize("transactional", [False, True])
@pytest.mark.parametrize("seed", range(8))
async def test_any_polls_give_the_same_messages(
    bench: Bench, seed: int, transactional: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    rng, poll = random.Random(seed), bench.source.poll
    bench.target.transactional = transactional

    async def uneven(without: Collection[Partition] = ()) -> Mapping[Partition, Sequence[ConsumerRecord]]:
        bench.source.take = rng.randrange(5, 20)
        return await poll(without)

    monkeypatch.setattr(bench.source, "poll", uneven)
    await bench.run_to_the_end()
    for partition in (A, B):
        here = [out for out in bench.target.records if out.partition == partition.partition]
        assert here == wanted(bench.copy, 103, partition)


async def test_a_rate_limit_divides_no_window(list_log: Any) -> None:
    """It allows fewer records at once than a window has."""
    marks, limits = Marks(odd=[9, 10, 40]), RateLimits(records=50)
    bench = Bench(list_log, A, B, length=103, copy=marks, joins=Joins(NUMBERS, {}), rate_limits=limits)
    bench.source.take = 10
    await bench.run_to_the_end()
    assert bench.status.rate_limited_seconds > 0
    for partition in (A, B):
        here = [out for out in bench.target.records if out.partition == partition.partition]
        assert here == wanted(bench.copy, 103, partition)


@pytest.mark.parametrize("moment", range(0, 30, 4))
async def test_a_refused_batch_is_repeated_with_the_same_bytes(bench: Bench, moment: int) -> None:
    failures = [None] * moment + [Undelivered("refused", retriable=True)]
    bench.target.refuse = lambda _: failures.pop(0) if failures else None
    bench.source.take = 10
    await bench.run_to_the_end()
    for partition in (A, B):
        here = [out for out in bench.target.records if out.partition == partition.partition]
        assert list({out.headers: out for out in here}.values()) == wanted(bench.copy, 103, partition)
        assert {out.value for out in here} == {out.value for out in wanted(bench.copy, 103, partition)}


def has_committed(bench: Bench, at: int) -> bool:
    return bench.source.committed.get(A, 0) >= at


async def test_a_stop_and_a_new_start_change_nothing(list_log: Any) -> None:
    for stop_at in range(0, 60, 7):
        copy = Marks()
        bench = Bench(list_log, A, length=60, copy=copy, joins=Joins(NUMBERS, {}))
        bench.source.take = 7
        running = asyncio.create_task(bench.relay.run())
        await until(functools.partial(has_committed, bench, stop_at))
        bench.relay.request_stop()
        await running
        again = Bench(list_log, A, length=60, copy=copy, joins=Joins(NUMBERS, {}))
        again.source.committed, again.source.take = dict(bench.source.committed), 7
        await again.run_to_the_end()
        assert [*bench.target.records, *again.target.records] == wanted(copy, 60, A)


async def test_a_window_that_is_never_whole_is_taken_as_it_is(bench: Bench) -> None:
    """Polls smaller than a window, and an end that no record has."""
    bench.source.take = 3
    bench.source.end = lambda partition: 110 + 0 * partition.partition
    await bench.run_to_the_end()
    rows = [
        row for out in bench.target.records if out.partition == 0 for row in (out.value or b"").split(b",")
    ]
    assert [row for row in rows if row != b"odd"] == [
        b"%d" % at for at in range(103) if at not in {9, 10, 40}
    ]


async def test_the_tail_of_a_partition_is_not_kept_waiting(bench: Bench) -> None:
    bench.source.length, bench.source.take = 6, 10
    await bench.run_to_the_end()
    assert [out.value for out in bench.target.records if out.partition == 0] == [b"0,1,2,3", b"4,5"]


def test_what_is_held_back() -> None:
    windows = Windows(4)

    def ready(first: int, last: int, end: int | None) -> int:
        records = [ConsumerRecord(*A, at, 0, None, b"") for at in range(first, last + 1)]
        return len(windows.ready(A, records, end))

    assert ready(0, 7, 100) == 8
    assert ready(8, 9, 10) == 2
    assert ready(10, 12, None) == 3
    assert ready(13, 18, 100) == 3
    assert ready(16, 18, 100) == 3  # once is enough
    assert ready(19, 21, 100) == 1
    assert ready(20, 26, 100) == 4
    assert ready(24, 27, 100) == 4


@pytest.mark.parametrize("policy", [Policy.STOP, Policy.SKIP])
async def test_a_refused_record_in_the_middle(list_log: Any, policy: Policy) -> None:
    errors = ErrorPolicies({"decode": policy})
    bench = Bench(list_log, A, length=20, copy=Marks(refuse=[6]), joins=Joins(NUMBERS, {}), errors=errors)
    bench.source.take = 20
    if policy is Policy.SKIP:
        await bench.run_to_the_end()
        assert bench.target.records == wanted(bench.copy, 20, A)
        assert [out.value for out in bench.target.records][:2] == [b"0,1,2,3", b"4,5,7"]
        return
    with pytest.raises(RecordRefused):
        await bench.relay.run()
    assert [out.value for out in bench.target.records] == [b"0,1,2,3", b"4,5"]
    assert bench.source.committed == {A: 6}


@pytest.mark.parametrize(("late", "over", "taken"), [(False, True, 0), (True, False, 40), (False, False, 80)])
async def test_a_round_ends_between_windows(list_log: Any, late: bool, over: bool, taken: int) -> None:
    """A late round takes one window at least."""
    joining = Joining(40, 1000, 0, NUMBERS.rows_in, NUMBERS.joined)
    translator, target = Marks(), Target()
    current = InFlightBatch(0, translator.state)
    current.ends_at = 0.0 if late else math.inf
    current.pause_at = 0.0 if over else math.inf
    log_status = AsyncResolver(list_log, writes=False), list_log, plain_status()
    stage = TranslationStage(translator, *log_status, joins=Joins(joining, {}))
    builder = stage.builder(current, target.sink(), lambda: over)
    records = [ConsumerRecord(*A, offset, 0, None, b"") for offset in range(80)]
    owned = Owned(0, 0, None)
    assert await builder.take(records, owned) == owned.next == taken
    assert translator.restored == over
    await builder.send_rest()
    await target.sinks[0].delivered(current.pending)
    assert len(target.records) == taken // 40
