"""Runs of a partition's records in the loop: the same batches, offsets, counts and errors as record by record."""

from __future__ import annotations

import asyncio
import math
from collections.abc import Sequence
from typing import Any, NamedTuple

import msgspec
import pytest
from aiokafka.consumer import fetcher
from engine_support import KERNEL, needs_kernel
from service.memory import MemorySink, Target, plain_status
from support import CANAL, TICDC, captured
from templates_support import translator_class
from wire_support import batch_types, encoded, parsed

from relay import Translator
from relay.core.error_policies import ErrorPolicies, Policy
from relay.io.kafka.batches import KernelBatch
from relay.io.kafka.fetched import read_by_batch
from relay.io.kafka.ports import Partition
from relay.io.kafka.record_chunks import BatchRows, Fetched
from relay.model.records import ConsumerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.offset_tracker import InFlightBatch, Owned
from relay.service.loop.translation_stage import TranslationStage
from relay.templates.batches import SourceBatch, TargetBatch
from relay.templates.route.policy import EAGER_POLICY

pytestmark = needs_kernel

TOPIC = "rows"


def rows_of_a_table(count: int) -> list[ConsumerRecord]:
    """The statements of a captured file, and then rows at adjacent offsets."""
    records = captured("ticdc/canal-json/09_dml")
    ddl = [each for each in records if b'"isDdl":true' in (each.value or b"")]
    rows = [each for each in records if b'"isDdl":false' in (each.value or b"")]
    chosen = [*ddl, *(rows[at % len(rows)] for at in range(count))]
    return [
        msgspec.structs.replace(each, topic=TOPIC, partition=0, offset=10 + at)
        for at, each in enumerate(chosen)
    ]


def fetched(records: Sequence[ConsumerRecord], size: int = 200) -> Fetched:
    """The records as they are fetched, in batches of some."""
    batches = [parsed(encoded(records[at : at + size])) for at in range(0, len(records), size)]
    return Fetched(TOPIC, 0, [BatchRows(batch, 0, len(batch)) for batch in batches])


class Sent(NamedTuple):
    """What came of records: of which offset a round is done, the batches, and the counts."""

    done: int
    next: int
    refused: int | None
    batches: list[bytes]
    counts: list[object]


class KernelSink(MemorySink):
    """Makes the batches of the real sink, and keeps what is sent."""

    def __init__(self) -> None:
        super().__init__(Target())
        self.sent: list[bytes] = []

    def batch(self, topic: str) -> Any:
        return KernelBatch(batch_types().target(20_000, False), None, is_transactional=False)

    async def send(self, partition: Partition, batch: Any) -> asyncio.Future[object]:
        self.sent.append(bytes(str(partition), "ascii") + batch.closed()._build())
        done: asyncio.Future[object] = asyncio.get_running_loop().create_future()
        done.set_result(None)
        return done


class Counted:
    """A translator that counts the records of runs."""

    def __init__(self) -> None:
        self.in_runs = 0

    def made(self, topic: str = "out") -> Any:
        counted = self

        class Made(translator_class(EAGER_POLICY)):  # type: ignore[misc] # a class made at run time
            def translate_batch(
                self,
                topic: str,
                partition: int,
                source: SourceBatch,
                first: int,
                end: int,
                targets: list[TargetBatch | None],
            ) -> int:
                rows: int = super().translate_batch(topic, partition, source, first, end, targets)
                counted.in_runs += rows
                return rows

        return Made(TICDC, CANAL, engine=KERNEL, topic=topic)


async def taken(
    log: Any, records: Sequence[ConsumerRecord], policy: Policy, **settings: Any
) -> tuple[Sent, int]:
    """Take records in one round; return what came of them, and how many were in runs."""
    counted = Counted()
    translator, sink, status = counted.made(), KernelSink(), plain_status()
    current = InFlightBatch(0, translator.state)
    current.pause_at = current.ends_at = math.inf
    errors = ErrorPolicies(dict.fromkeys(["decode", "encode"], policy))
    stage = TranslationStage(
        translator, AsyncResolver(log, writes=False), log, status, errors=errors, **settings
    )
    builder, owned = stage.builder(current, sink, lambda: False), Owned(10, 10, None)
    done = await builder.take(records, owned)
    await builder.send_rest()
    counts = [
        translator.events,
        translator.losses,
        translator.paths,
        current.written,
        current.sizes,
        [(each.position, each.code) for each in current.given_up],
        current.reached,
    ]
    refused = None if current.refused is None else current.refused.offset
    return Sent(done, owned.next, refused, sink.sent, counts), counted.in_runs


@pytest.mark.parametrize("policy", [Policy.STOP, Policy.SKIP])
async def test_runs_are_what_records_are(list_log: Any, policy: Policy) -> None:
    records = rows_of_a_table(3_000)
    broken = msgspec.structs.replace(records[2_345], value=b"broken")
    records[2_345] = broken
    expected, none = await taken(list_log, records, policy)
    found, rows = await taken(list_log, fetched(records), policy)
    assert found == expected
    assert none == 0
    assert rows > 1_800
    assert found.next == (broken.offset if policy is Policy.STOP else records[-1].offset + 1)


async def test_records_that_were_learned_ahead_are_taken_one_by_one(list_log: Any) -> None:
    records = rows_of_a_table(500)
    ahead = {(TOPIC, 0, records[400].offset)}
    expected, _ = await taken(list_log, records, Policy.STOP, ahead=ahead)
    assert await taken(list_log, fetched(records), Policy.STOP, ahead=ahead) == (expected, 0)


async def test_a_round_ends_with_its_time(list_log: Any) -> None:
    """At the next look at the clock, with the offset after the last record taken."""
    counted, sink, records = Counted(), KernelSink(), fetched(rows_of_a_table(5_000), 5_000)
    translator = counted.made()
    current = InFlightBatch(0, translator.state)
    current.pause_at = current.ends_at = 0.0
    stage = TranslationStage(translator, AsyncResolver(list_log, writes=False), list_log, plain_status())
    builder, owned = stage.builder(current, sink, lambda: False), Owned(10, 10, None)
    done = await builder.take(records, owned)
    assert 0 < done < len(records)
    assert owned.next == records[done].offset


@pytest.mark.kafka
@pytest.mark.parametrize("mode", ["at-least-once", "exactly-once"])
async def test_runs_from_topic_to_topic(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """From and into compressed batches, with their offsets."""
    monkeypatch.setattr(fetcher.FetchResult, "getall", fetcher.FetchResult.getall)
    monkeypatch.setattr(fetcher, "MemoryRecords", fetcher.MemoryRecords)
    read_by_batch(batch_type=batch_types().source)
    counted, one_by_one = Counted(), Translator(TICDC, CANAL, topic="out")
    source, target = await kafka.topic(2), await kafka.topic(2)
    records = [
        msgspec.structs.replace(each, topic=source, partition=partition, offset=offset)
        for partition in (0, 1)
        for offset, each in enumerate(rows_of_a_table(2_000))
    ]
    await kafka.produce(source, records)
    config = make_config(source, target, delivery_mode=mode, target_max_batch_bytes=50_000)
    relay = run_relay(config, counted.made(target))

    async def is_done() -> bool:
        return bool(sum((await kafka.committed(config.source.group_id)).values()) == len(records))

    await kafka.until(is_done)
    assert await relay.stop() == 0
    assert counted.in_runs > len(records) / 2
    monkeypatch.undo()
    found = await kafka.read(target, committed=True)
    for partition in (0, 1):
        expected = [
            (each.timestamp_ms, each.key, each.value, each.headers)
            for record in records
            if record.partition == partition
            for each in one_by_one.translate(record)
        ]
        assert [
            (each.timestamp_ms, each.key, each.value, each.headers)
            for each in found
            if each.partition == partition
        ] == expected
