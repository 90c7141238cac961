"""Claim-check objects in the loop: order, patience, and what is never committed. Source and sink are in
memory, or in Kafka.
"""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from service.memory import A, B, Bench, PlainTranslator, until
from support import DATA, TICDC, captured

from relay import Translator
from relay.io.resolver import Resolver
from relay.io.storage import Storage
from relay.model.errors import ClaimCheckMissing, Malformed, StorageUnavailable
from relay.model.lookups import ClaimCheck
from relay.model.records import Blob, ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.offset_tracker import RecordRefused
from relay.service.loop.settings import LoopSettings


class Checks(PlainTranslator):
    """Translates by copying; the records `with_object` stand for an object, those `with_blob` leave one."""

    def __init__(self) -> None:
        super().__init__()
        self.with_object: set[int] = set()
        self.with_blob: set[int] = set()
        self.broken: set[int] = set()
        self.provided: dict[str, bytes] = {}

    def translate(self, record: ConsumerRecord, /) -> list[ProducerRecord]:
        value, name = record.value, f"{record.partition}-{record.offset}"
        if record.offset in self.with_object:
            if name not in self.provided:
                raise ClaimCheck("storage", name)
            value = self.provided.pop(name)
            if record.offset in self.broken:
                raise Malformed("checks", "object", "is broken")
        blobs = (Blob("storage", name, value or b""),) if record.offset in self.with_blob else ()
        return [ProducerRecord("out", record.partition, 0, None, value, (), blobs)]

    def provide(self, need: Any, data: Any, /) -> None:
        self.provided[need.name] = data


class SlowStorage(Storage):
    """Every object is its record's value, after some time in a thread. `failures`: what is raised before, by
    object.
    """

    def __init__(self) -> None:
        self.failures: dict[str, list[Exception]] = {}
        self.stored: dict[str, bytes] = {}
        self.calls: list[str] = []
        self.seconds = 0.002

    def fetch(self, need: ClaimCheck) -> bytes:
        self._work(need.name)
        return need.name.partition("-")[2].encode()

    def store(self, blob: Blob) -> None:
        self._work(blob.name)
        self.stored[blob.name] = blob.data

    def _work(self, name: str) -> None:
        time.sleep(self.seconds)
        self.calls.append(name)
        if self.failures.get(name):
            raise self.failures[name].pop(0)


class CheckBench(Bench):
    def __init__(self, log: Any, rounds: int, retry_seconds: Sequence[float] = (0.001,) * 3) -> None:
        self.checks, self.storage = Checks(), SlowStorage()
        objects = AsyncResolver(log, Resolver(self.storage), retry_seconds=retry_seconds)
        super().__init__(log, A, B, copy=self.checks, objects=objects, max_in_flight=rounds)


@pytest.fixture(params=[1, 2], ids=["one round", "two rounds"])
async def bench(request: pytest.FixtureRequest, list_log: Any) -> CheckBench:
    return CheckBench(list_log, request.param)


@pytest.mark.parametrize("offsets", [{0}, {1, 2, 3}, set(range(20))])
async def test_records_with_objects_keep_their_place(bench: CheckBench, offsets: set[int]) -> None:
    bench.checks.with_object = offsets
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.target.records) == 40
    assert len(bench.storage.calls) == 2 * len(offsets)


async def test_the_event_loop_goes_on_during_a_fetch(bench: CheckBench) -> None:
    bench.checks.with_object, bench.storage.seconds = {3}, 0.1
    beats = 0

    async def beat() -> None:
        nonlocal beats
        while True:
            await asyncio.sleep(0.01)
            beats += 1

    beating = asyncio.create_task(beat())
    await bench.run_to_the_end()
    beating.cancel()
    bench.check_complete()
    assert beats > 8


async def test_an_object_that_comes_late_is_waited_for(bench: CheckBench) -> None:
    bench.checks.with_object = {5}
    bench.storage.failures = {"0-5": [ClaimCheckMissing("late"), StorageUnavailable("busy")]}
    await bench.run_to_the_end()
    bench.check_complete()
    assert [event["code"] for event in bench.log.named("storage.failed")] == [
        "service.claim-check-missing",
        "service.storage-unavailable",
    ]


@pytest.mark.parametrize("offset", [0, 7])
async def test_an_object_that_is_missing_for_good_refuses_the_record(bench: CheckBench, offset: int) -> None:
    bench.checks.with_object = {offset}
    bench.storage.failures = {f"0-{offset}": [ClaimCheckMissing("gone")] * 4}
    with pytest.raises(RecordRefused) as raised:
        await bench.relay.run()
    assert isinstance(raised.value.error, ClaimCheckMissing)
    assert (raised.value.partition, raised.value.offset) == (0, offset)
    assert bench.source.committed[A] == offset
    assert bench.target.values(A) == list(range(offset))
    bench.check()


async def test_a_record_that_is_malformed_with_its_object_is_refused(bench: CheckBench) -> None:
    bench.checks.with_object, bench.checks.broken = {7}, {7}
    with pytest.raises(RecordRefused) as raised:
        await bench.relay.run()
    assert isinstance(raised.value.error, Malformed)
    bench.check()


async def test_blobs_are_stored_before_their_records_are_written(bench: CheckBench) -> None:
    bench.checks.with_blob = set(range(20))

    def refuse(batch: Any) -> None:
        assert all(record.blobs[0].name in bench.storage.stored for record in batch)

    bench.target.refuse = refuse
    await bench.run_to_the_end()
    bench.check_complete()
    assert len(bench.storage.stored) == 40


async def test_a_blob_that_cannot_be_stored_refuses_its_record(bench: CheckBench) -> None:
    bench.checks.with_blob = {4}
    bench.storage.failures = {"0-4": [StorageUnavailable("full")] * 4}
    with pytest.raises(RecordRefused) as raised:
        await bench.relay.run()
    assert isinstance(raised.value.error, StorageUnavailable)
    assert bench.target.values(A) == [0, 1, 2, 3]
    bench.check()


@pytest.mark.parametrize("rounds", [1, 2])
@pytest.mark.parametrize("kind", ["with_object", "with_blob"])
async def test_a_stop_ends_the_patience(list_log: Any, rounds: int, kind: str) -> None:
    bench = CheckBench(list_log, rounds, (0.05,) * 1000)
    setattr(bench.checks, kind, {5})
    bench.storage.failures = {"0-5": [StorageUnavailable("away")] * 1000}
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        group.create_task(bench.relay.run())
        await until(lambda: bool(bench.log.named("storage.failed")))
        bench.relay.request_stop()
    bench.check()
    assert bench.source.committed[A] == 5
    assert bench.target.values(A) == [0, 1, 2, 3, 4]


async def test_a_rebalance_during_a_fetch_drops_the_record(bench: CheckBench) -> None:
    bench.checks.with_object, bench.storage.seconds = {5}, 0.05
    async with asyncio.timeout(20), asyncio.TaskGroup() as group:
        running = group.create_task(bench.relay.run())
        await until(lambda: bench.target.values(A) == [0, 1, 2] or running.done())
        await bench.relay.revoked()
        committed = dict(bench.source.committed)
        bench.relay.assigned([A, B])
        assert committed == bench.source.committed
        everything = dict.fromkeys(bench.source.every, bench.source.length)
        await until(lambda: bench.source.committed == everything or running.done())
        bench.relay.request_stop()
    bench.check_complete()


async def test_records_without_blobs_are_not_looked_at(list_log: Any) -> None:
    storage = SlowStorage()
    assert not AsyncResolver(list_log, Resolver(storage), writes=False).writes
    assert await AsyncResolver(list_log, Resolver(storage)).store(
        [ProducerRecord("out", 0, 0, None, b"")], lambda: False
    )
    assert storage.calls == []


CLAIM_CHECK = {
    "claim-check-storage-uri": "",
    "large-message-handle-option": "claim-check",
    "max-message-bytes": "2000",
}


@pytest.mark.kafka
async def test_captured_claim_checks_through_kafka(
    kafka: Any, make_config: Any, run_relay: Any, tmp_path: Path
) -> None:
    """Rows in one storage become the same rows in another, which `relay translate` would have read just as
    well.
    """
    source, target = await kafka.topic(1), await kafka.topic(1)
    records = [
        msgspec.structs.replace(record, topic=source)
        for record in captured("ticdc/canal-json.claim-check/04_strings_binary")
    ]
    await kafka.produce(source, records)
    config = make_config(
        source,
        target,
        route_to=TICDC,
        route_from_options={"claim-check-storage-uri": str(DATA / "ticdc/canal-json.claim-check/storage")},
        route_to_options=CLAIM_CHECK
        | {"claim-check-storage-uri": str(tmp_path), "enable-tidb-extension": "true"},
    )
    running = run_relay(config, None)
    written = await kafka.read(target, at_least=len(records))
    assert await running.stop() == 0
    assert len(objects_in(tmp_path)) == 4
    reading = Translator(
        TICDC, TICDC, {"claim-check-storage-uri": str(tmp_path)}, {"enable-tidb-extension": "true"}
    )
    full = [produced for record in written for produced in Resolver().translate(reading, record)]
    wanted = captured("ticdc/canal-json.tidb-extension/04_strings_binary")
    assert [message_of(record) for record in full] == [message_of(record) for record in wanted]


@pytest.mark.kafka
async def test_a_missing_object_ends_the_service_with_the_offset_before_it(
    kafka: Any, make_config: Any, run_relay: Any, tmp_path: Path
) -> None:
    source, target = await kafka.topic(1), await kafka.topic(1)
    records = captured("ticdc/canal-json.claim-check/04_strings_binary")
    await kafka.produce(source, records)
    config = make_config(source, target, route_from_options={"claim-check-storage-uri": str(tmp_path)})
    running = run_relay(config, None, LoopSettings(retry_seconds=(0.001,)))
    assert await running.ended() == 3
    (refused,) = running.log.named("record.refused")
    assert (refused["offset"], refused["code"]) == (17, "service.claim-check-missing")
    assert await kafka.committed(config.source.group_id) == {(source, 0): 17}


def objects_in(folder: Path) -> list[Path]:
    return list(folder.iterdir())


def message_of(record: ConsumerRecord | ProducerRecord) -> dict[str, Any]:
    return dict(json.loads(record.value or b"")) | {"ts": 0}
