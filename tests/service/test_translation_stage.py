"""Batches of a round: a record goes behind the others of its topic and partition, and into no batch that was
sent.
"""

from __future__ import annotations

import asyncio
import math
import random
import time
import tracemalloc
from collections.abc import Mapping
from typing import Any

import pytest
from aiokafka.producer.message_accumulator import BatchBuilder
from service.memory import MemoryBatch, MemorySink, PlainTranslator, Target, plain_status
from support import CANAL, TICDC, record, row_message

from relay import Limits, Translator
from relay.catalog import Catalog
from relay.core.error_policies import ErrorPolicies, Policy
from relay.core.pipeline import State
from relay.io.kafka.batches import ClientBatch
from relay.io.kafka.ports import Partition
from relay.model.lookups import ClaimCheck
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.offset_tracker import InFlightBatch, Owned
from relay.service.loop.translation_stage import STRETCH_RECORDS, TranslationStage

PARTITIONS = [("out", 0), ("out", 1), ("other", 0)]


class Scripted(PlainTranslator):
    """Writes a record to each of the partitions that the script has for its offset."""

    def __init__(self, script: list[list[tuple[str, int]]]) -> None:
        super().__init__()
        self._script = script

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        return [
            ProducerRecord(*partition, 0, None, record.value) for partition in self._script[record.offset]
        ]


@pytest.mark.parametrize("may_refer_to_objects", [False, True])
@pytest.mark.parametrize("are_topics_of_tables", [False, True])
@pytest.mark.parametrize("seed", range(20))
async def test_every_record_is_sent_once_in_its_place_and_order(
    seed: int,
    may_refer_to_objects: bool,
    are_topics_of_tables: bool,
    list_log: Any,
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rng = random.Random(seed)
    monkeypatch.setattr(MemoryBatch, "most", 2 + seed % 5)
    script = [rng.choices(PARTITIONS, k=rng.choice((0, 1, 1, 1, 1, 1, 1, 2))) for _ in range(300)]
    records = [ConsumerRecord("in", 0, offset, 0, None, b"%d" % offset) for offset in range(len(script))]
    translator, target = Scripted(script), Target()
    sink, current = target.sink(), InFlightBatch(0, translator.state)
    current.pause_at = current.ends_at = math.inf
    targets: Any = AskedTopics("other") if are_topics_of_tables else None
    resolver = AsyncResolver(list_log, writes=may_refer_to_objects)
    stage = TranslationStage(translator, resolver, list_log, plain_status(), targets=targets)
    builder = stage.builder(current, sink, lambda: False)
    owned = Owned(0, 0, None)
    assert await builder.take(records, owned) == owned.next == len(records)
    await builder.send_rest()
    await sink.delivered(current.pending)
    for topic, partition in PARTITIONS:
        written = [
            record.value
            for record in target.records
            if (record.topic, record.partition) == (topic, partition)
        ]
        assert written == [
            b"%d" % at
            for at, targets in enumerate(script)
            for target in targets
            if target == (topic, partition)
        ]


class Slow(Scripted):
    """Takes 2 ms for a record."""

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        time.sleep(0.002)
        return super().translate(record)


class AskedTopics:
    """Stands for topics of tables: keeps how many were asked for together."""

    def __init__(self, *known: str) -> None:
        self.usable = set(known)
        self.asked: list[int] = []

    async def ensure(self, sources: Mapping[str, str]) -> None:
        self.asked.append(len(sources))
        self.usable |= sources.keys()


async def test_topics_of_a_stretch_are_asked_for_together_however_slow_its_rows_are(list_log: Any) -> None:
    """A first read of many tables, each with DDL to parse, would wait for the brokers every few records."""
    translator, targets = Slow([[(f"t{at}", 0)] for at in range(2 * STRETCH_RECORDS)]), AskedTopics()
    records = [
        ConsumerRecord("in", 0, offset, 0, None, b"%d" % offset) for offset in range(2 * STRETCH_RECORDS)
    ]
    target, current = Target(), InFlightBatch(0, translator.state)
    current.pause_at, current.ends_at = time.monotonic(), math.inf
    made: Any = targets
    stage = TranslationStage(translator, AsyncResolver(list_log), list_log, plain_status(), targets=made)
    builder = stage.builder(current, target.sink(), lambda: False)
    assert await builder.take(records, Owned(0, 0, None)) == len(records)
    assert targets.asked == [STRETCH_RECORDS, STRETCH_RECORDS]


class Stopped(AsyncResolver):
    """Is asked when a stop has come."""

    async def resolve(self, *_: Any) -> None:
        return None


class Needing(Scripted):
    """Needs something for the record at this offset."""

    def __init__(self, script: list[list[tuple[str, int]]], needs_at: int) -> None:
        super().__init__(script)
        self._needs_at, self.offset = needs_at, 0

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        if record.offset == self._needs_at:
            raise ClaimCheck("", "name")
        self.offset += 1
        return super().translate(record)

    @property
    def state(self) -> State:
        offset: Any = self.offset
        return State(Catalog(), None, offset)

    def restore(self, state: State, /) -> None:
        offset: Any = state.seen
        self.offset = offset


@pytest.mark.parametrize(("needs_at", "done"), [(3, 3), (5, 5), (6, 5), (8, 5)])
async def test_a_stop_drops_the_records_that_wait_for_topics_and_no_others(
    needs_at: int, done: int, list_log: Any
) -> None:
    """That at offset 5 is the first whose topic is not known."""
    script = [[("known", 0)]] * 5 + [[("new", 0)]] + [[("known", 0)]] * 5
    translator, target, targets = Needing(script, needs_at), Target(), AskedTopics("known")
    records = [ConsumerRecord("in", 0, offset, 0, None, b"%d" % offset) for offset in range(len(script))]
    sink, current, owned = target.sink(), InFlightBatch(0, translator.state), Owned(0, 0, None)
    current.pause_at = current.ends_at = math.inf
    topics: Any = targets
    stage = TranslationStage(translator, Stopped(list_log), list_log, plain_status(), targets=topics)
    builder = stage.builder(current, sink, lambda: True)
    assert await builder.take(records, owned) == owned.next == translator.offset == done
    assert not targets.asked
    await builder.send_rest()
    await sink.delivered(current.pending)
    assert [record.value for record in target.records] == [b"%d" % at for at in range(done)]


class Cut(Stopped):
    """Is stopped while it stores what a record has become."""

    def __init__(self, log: Any, value: bytes) -> None:
        super().__init__(log, writes=True)
        self._value = value

    async def store(self, records: Any, *_: Any) -> bool:
        return bool(records[0].value != self._value)


@pytest.mark.parametrize("stopped_at", [3, 5, 7])
async def test_the_translator_has_learned_from_no_record_that_is_not_stored(
    stopped_at: int, list_log: Any
) -> None:
    """Otherwise, when it is read again, what it teaches is no news, and missing in the history."""
    script = [[("known", 0)]] * 5 + [[("new", 0)]] + [[("known", 0)]] * 5
    translator, topics = Needing(script, -1), AskedTopics("known")
    records = [ConsumerRecord("in", 0, offset, 0, None, b"%d" % offset) for offset in range(len(script))]
    current, owned = InFlightBatch(0, translator.state), Owned(0, 0, None)
    current.pause_at = current.ends_at = math.inf
    given: Any = topics
    resolver = Cut(list_log, b"%d" % stopped_at)
    builder = TranslationStage(translator, resolver, list_log, plain_status(), targets=given).builder(
        current, Target().sink(), lambda: True
    )
    assert await builder.take(records, owned) == owned.next == translator.offset == stopped_at


class Tables(PlainTranslator):
    """Writes every record to one of 10,000 topics, in turn."""

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        return [ProducerRecord(f"t{record.offset % 10_000}", 0, 0, None, record.value)]


class CountingSink(MemorySink):
    """Makes the batches of the real sink, and counts those that nobody has sent."""

    def __init__(self, target: Target) -> None:
        super().__init__(target)
        self.unsent = self.most_unsent = self.sent_bytes = 0

    def batch(self, topic: str) -> Any:
        self.unsent += 1
        self.most_unsent = max(self.unsent, self.most_unsent)
        return ClientBatch(BatchBuilder(900_000, 0))

    async def send(self, partition: Partition, batch: Any) -> asyncio.Future[object]:
        self.unsent -= 1
        self.sent_bytes += batch.size
        batch.closed()
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


async def test_ten_thousand_tables_take_a_batch_each_and_little_beside_their_records(list_log: Any) -> None:
    translator, sink = Tables(), CountingSink(Target())
    made: Any = AskedTopics()
    stage = TranslationStage(translator, AsyncResolver(list_log), list_log, plain_status(), targets=made)
    value = b"v" * 100
    records = [ConsumerRecord("in", 0, offset, 0, None, value) for offset in range(30_000)]
    tracemalloc.start()
    try:
        for begin in (0, 15_000):
            current = InFlightBatch(0, translator.state)
            current.pause_at = current.ends_at = math.inf
            builder = stage.builder(current, sink, lambda: False)
            part = records[begin : begin + 15_000]
            assert await builder.take(part, Owned(0, 0, None)) == len(part)
            if not begin:
                _, peak = tracemalloc.get_traced_memory()
            await builder.send_rest()
    finally:
        tracemalloc.stop()
    assert (sink.unsent, sink.most_unsent) == (0, 10_000)
    assert sink.sent_bytes > 30_000 * len(value)
    assert peak < 10_000 * 2_500


@pytest.mark.parametrize("targets", [None, AskedTopics("out")])
async def test_a_round_ends_when_its_time_is_up(targets: Any, list_log: Any) -> None:
    translator = Slow([PARTITIONS[:1]] * 250)
    records = [ConsumerRecord("in", 0, offset, 0, None, b"%d" % offset) for offset in range(250)]
    target, current = Target(), InFlightBatch(0, translator.state)
    current.pause_at = time.monotonic()
    current.ends_at = current.pause_at + 0.05
    sink, owned = target.sink(), Owned(0, 0, None)
    stage = TranslationStage(translator, AsyncResolver(list_log), list_log, plain_status(), targets=targets)
    builder = stage.builder(current, sink, lambda: False)
    done = await builder.take(records, owned)
    assert 0 < done < 100
    assert owned.next == done
    await builder.send_rest()
    await sink.delivered(current.pending)
    assert len(target.records) == done


@pytest.mark.parametrize("policy", list(Policy))
async def test_a_record_above_a_limit_has_the_policy_of_decode(policy: Policy, list_log: Any) -> None:
    """The records before and behind it are written; it is counted, and its content is in no log."""
    translator, status = Translator(CANAL, TICDC, limits=Limits(rows=2), topic="out"), plain_status()
    records = [
        record(row_message({"id": "varchar"}, *[{"id": "secret"}] * rows), offset=offset)
        for offset, rows in enumerate((1, 3, 2))
    ]
    target = Target()
    sink, current = target.sink(), InFlightBatch(0, translator.state)
    current.pause_at = current.ends_at = math.inf
    errors = ErrorPolicies({"decode": policy}, "dead")
    stage = TranslationStage(
        translator, AsyncResolver(list_log, writes=False), list_log, status, errors=errors
    )
    builder = stage.builder(current, sink, lambda: False)
    stops = policy is Policy.STOP
    assert await builder.take(records, Owned(0, 0, None)) == (1 if stops else 3)
    await builder.send_rest()
    await sink.delivered(current.pending)
    topics = [each.topic for each in target.records]
    assert topics.count("out") == (1 if stops else 3)
    assert topics.count("dead") == (policy is Policy.DEAD_LETTER)
    assert (current.refused is not None) is stops
    if not stops:
        (event,) = current.given_up
        assert "the limit `rows` allows, 2" in event.message
        assert "secret" not in str(event)
