"""Watermarks of rows that are repartitioned, on a real broker: the lowest of all source partitions, or none."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Sequence
from typing import Any

import pytest
from aiokafka.admin import NewPartitions
from service.resilience_support import MODES, NOW, committed, has_logged

from relay.io.kafka.ports import Undelivered
from relay.io.kafka.sink import KafkaSink, TransactionalSink
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka

TARGETS = 3
#: TiDB's timestamps hold milliseconds above 18 bits.
BASE = NOW << 18
ROUTE: dict[str, Any] = {
    "route_to": "ticdc-canal-json",
    "route_to_options": {"enable-tidb-extension": "true"},
    "target_partitions": TARGETS,
}


def watermark(partition: int, at: int) -> ConsumerRecord:
    absent = dict.fromkeys(("pkNames", "sqlType", "mysqlType", "data", "old"))
    extension = {"_tidb": {"watermarkTs": BASE + at}}
    message = {
        "id": 0,
        "database": "",
        "table": "",
        "isDdl": False,
        "type": "TIDB_WATERMARK",
        "es": NOW,
        "ts": NOW,
        "sql": "",
    }
    return ConsumerRecord("", partition, 0, NOW, None, json.dumps(message | absent | extension).encode())


async def watermarks(kafka: Any, relay: Any) -> list[list[int]]:
    """The watermarks of every target partition."""
    found: list[list[int]] = [[] for _ in range(TARGETS)]
    for record in await kafka.read(relay.config.target.topic, committed=True):
        found[record.partition].append(json.loads(record.value)["_tidb"]["watermarkTs"] - BASE)
    return found


async def write(kafka: Any, relay: Any, total: int, *records: ConsumerRecord) -> list[list[int]]:
    """Write to the source, wait until `total` records are committed, and give the target's watermarks."""
    await kafka.produce(relay.config.source.topics[0], records)
    await committed(kafka, relay, total)
    return await watermarks(kafka, relay)


@pytest.mark.parametrize("mode", MODES)
async def test_the_lowest_of_all_source_partitions_goes_to_every_target_partition(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    relay = run_relay(
        make_config(await kafka.topic(2), await kafka.topic(TARGETS), **ROUTE, **MODES[mode]), None
    )
    # Nothing is known of partition 1 yet.
    assert await write(kafka, relay, 2, watermark(0, 10), watermark(0, 20)) == [[], [], []]
    assert await write(kafka, relay, 3, watermark(1, 5)) == [[5]] * TARGETS
    assert await write(kafka, relay, 4, watermark(1, 30)) == [[5, 20]] * TARGETS
    assert await write(kafka, relay, 5, watermark(0, 25)) == [[5, 20, 25]] * TARGETS
    # What does not raise the lowest says nothing new.
    assert await write(kafka, relay, 6, watermark(1, 40)) == [[5, 20, 25]] * TARGETS
    assert await relay.stop() == 0


@pytest.mark.parametrize("mode", MODES)
async def test_a_failed_delivery_loses_no_watermark_that_was_held(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """What partition 0 has reached was read long ago, and is not read again; what the failed round learned is
    not known twice.
    """
    sink = TransactionalSink if mode == "exactly-once" else KafkaSink
    failures = 2

    class Failing(sink):  # type: ignore[misc, valid-type]  # one of two classes
        async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
            nonlocal failures
            await super().delivered(pending)
            if pending and failures:
                failures -= 1
                raise Undelivered("no answer", retriable=True)

    monkeypatch.setattr(f"relay.service.app.{sink.__name__}", Failing)
    relay = run_relay(
        make_config(await kafka.topic(2), await kafka.topic(TARGETS), **ROUTE, **MODES[mode]), None
    )
    assert await write(kafka, relay, 1, watermark(0, 10)) == [[], [], []]
    found = await write(kafka, relay, 2, watermark(1, 5))
    # At least once: the batches that failed were written all the same.
    assert found == [[5] if mode == "exactly-once" else [5] * 3] * TARGETS
    assert len(relay.log.named("delivery.failed")) == 2
    found = await write(kafka, relay, 3, watermark(1, 30))
    assert [each[-1] for each in found] == [10] * TARGETS
    assert await relay.stop() == 0


@pytest.mark.parametrize("mode", MODES)
async def test_several_instances_are_refused_unless_watermarks_are_dropped(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    shards = {"delivery_shards": 2} if mode == "exactly-once" else {}
    for kept in ("keep", "drop"):
        config = make_config(
            await kafka.topic(2),
            await kafka.topic(TARGETS),
            target_watermarks=kept,
            **ROUTE,
            **MODES[mode],
            **shards,
        )
        other = (
            config.model_copy(update={"delivery": config.delivery.model_copy(update={"shard": 1})})
            if shards
            else config
        )
        relays = [run_relay(config, None), run_relay(other, None)]
        if kept == "keep":
            assert [await relay.ended() for relay in relays][-1] == 3
            failed = [each for relay in relays for each in relay.log.named("relay.failed")]
            assert {each["code"] for each in failed} == {"service.watermarks-unknowable"}
            assert 'watermarks = "drop"' in failed[0]["message"]
        else:
            for relay in relays:
                await kafka.until(lambda relay=relay: has_logged(relay, "partitions.opened"))
            assert await write(kafka, relays[0], 2, watermark(0, 10), watermark(1, 5)) == [[], [], []]
            assert [await relay.stop() for relay in relays] == [0, 0]


@pytest.mark.parametrize("mode", MODES)
async def test_a_new_partition_counts_as_soon_as_it_is_noticed(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    settings = {**ROUTE, **MODES[mode], "source_metadata_max_age_ms": 500}
    config = make_config(await kafka.topic(1), await kafka.topic(TARGETS), **settings)
    relay = run_relay(config, None)
    (source,) = relay.config.source.topics
    assert await write(kafka, relay, 1, watermark(0, 10)) == [[10]] * TARGETS
    await kafka.admin.create_partitions({source: NewPartitions(total_count=2)})
    await kafka.until(
        lambda: has_logged(relay, "partitions.opened", offsets={f"{source}/0": 1, f"{source}/1": 0})
    )
    assert await write(kafka, relay, 2, watermark(0, 30)) == [[10]] * TARGETS
    assert await write(kafka, relay, 3, watermark(1, 20)) == [[10, 20]] * TARGETS
    assert await relay.stop() == 0
