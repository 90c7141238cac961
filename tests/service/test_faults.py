"""Faults of the transport on a real Apache Kafka: refused batches, polls that raise, a broker that goes away."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from aiokafka.errors import CorruptRecordException

from relay.demo.kafka import Cluster
from relay.io.kafka.batches import ClientBatch, KernelBatch
from relay.io.kafka.ports import Undelivered
from relay.io.kafka.sink import KafkaSink
from relay.io.kafka.source import KafkaSource
from relay.model.records import SOURCE_HEADER, ConsumerRecord
from relay.topics.startup import Topics, check_topics

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000


def numbered(count: int, start: int = 0) -> list[ConsumerRecord]:
    return [ConsumerRecord("", i % 2, 0, NOW + i, None, b"%d" % i) for i in range(start, start + count)]


def check_nothing_lost(found: Sequence[ConsumerRecord], count: int) -> None:
    """Every record is there, in order of first appearance; a repeat has the mark of its first."""
    for partition in (0, 1):
        marks = dict.fromkeys(dict(r.headers)[SOURCE_HEADER] for r in found if r.partition == partition)
        assert [int((mark or b"").split(b"/")[2]) for mark in marks] == list(range(count // 2))
        values = dict.fromkeys(r.value for r in found if r.partition == partition)
        assert [int(value or b"") for value in values] == list(range(partition, count, 2))


async def all_committed(kafka: Any, relay: Any, count: int) -> bool:
    return bool(sum((await kafka.committed(relay.config.source.group_id)).values()) == count)


async def test_a_failed_acknowledgement_rebuilds_the_producer(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0

    class Failing(KafkaSink):
        async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
            nonlocal rounds
            rounds += 1
            if rounds in {2, 5}:
                raise Undelivered("OutOfOrderSequenceNumber", retriable=False)
            await super().delivered(pending)

    monkeypatch.setattr("relay.service.app.KafkaSink", Failing)
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(20_000))
    config = make_config(
        source, target, source_max_partition_fetch_bytes=20_000, target_max_batch_bytes=10_000
    )
    relay = run_relay(config, echo(target))
    await kafka.until(lambda: all_committed(kafka, relay, 20_000))
    assert await relay.stop() == 0
    found = await kafka.read(target)
    check_nothing_lost(found, 20_000)
    assert len(found) > 20_000
    assert len(relay.log.named("sink.replaced")) == 2


async def test_a_batch_that_the_broker_refuses(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The topic's limit was lowered after the start: our own check lets the record through, the broker
    refuses its batch.
    """

    async def limits_of_yesterday(config: Any, clusters: Any, **more: Any) -> Topics:
        found = await check_topics(config, clusters, **more)
        return msgspec.structs.replace(found, limits={config.target.topic: 1_000_000})

    monkeypatch.setattr("relay.service.app.check_topics", limits_of_yesterday)
    source, target = await kafka.topic(2), await kafka.topic(2, max_message_bytes="2000")
    await kafka.produce(source, numbered(100))
    translator = echo(target)
    translator.grow[b"40"] = 5_000
    relay = run_relay(
        make_config(source, target, target_compression="none", target_max_batch_bytes=1_000), translator
    )
    assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "service.delivery-failed"
    assert "MESSAGE_SIZE_TOO_LARGE" in failed["message"]
    found = await kafka.read(target)
    assert b"40" not in {r.value for r in found}
    assert (await kafka.committed(relay.config.source.group_id)).get((source, 0), 0) <= 20


async def test_a_poll_that_raises_after_it_has_drained(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    failures = 3

    class Raising(KafkaSource):
        def __init__(self, *given: Any) -> None:
            super().__init__(*given)
            original = self.consumer.getmany

            async def getmany(**settings: Any) -> Any:
                nonlocal failures
                found = await original(**settings)
                if found and failures:
                    failures -= 1
                    raise CorruptRecordException
                return found

            self.consumer.getmany = getmany

    monkeypatch.setattr("relay.service.app.KafkaSource", Raising)
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(2_000))
    relay = run_relay(make_config(source, target), echo(target))
    await kafka.until(lambda: all_committed(kafka, relay, 2_000))
    assert await relay.stop() == 0
    found = await kafka.read(target)
    check_nothing_lost(found, 2_000)
    assert len(found) == 2_000
    assert len(relay.log.named("poll.failed")) == 3


async def test_a_broker_that_comes_back_and_one_that_does_not(
    broker: str, kafka_at: Any, own_cluster: Cluster, make_config: Any, echo: Any, run_relay: Any
) -> None:
    (node,) = own_cluster.nodes
    servers = own_cluster.bootstrap_servers
    async with kafka_at(servers) as kafka:
        source, target = await kafka.topic(2), await kafka.topic(2)
        config = make_config(
            source,
            target,
            source_bootstrap_servers=servers,
            delivery_delivery_timeout_seconds=5.0,
            delivery_drain_timeout_seconds=5.0,
        )
        await kafka.produce(source, numbered(40_000))
        relay = run_relay(config, echo(target))
        await kafka.until(lambda: started(kafka, target))
        await asyncio.to_thread(node.kill)
        node.start()
        await asyncio.to_thread(node.wait_ready)
        await kafka.until(lambda: all_committed(kafka, relay, 40_000))
        check_nothing_lost(await kafka.read(target), 40_000)

        await kafka.produce(source, numbered(1_000, start=40_000))
    await asyncio.to_thread(node.kill)
    began = time.monotonic()
    assert await relay.stop() in {0, 3}
    assert time.monotonic() - began < config.delivery.drain_timeout_seconds + 15


async def started(kafka: Any, topic: str) -> bool:
    return bool(await kafka.length(topic) > 0)


async def test_full_memory_while_writing_is_the_environment_and_no_bug(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object) -> bool:
        raise MemoryError

    for kind in (ClientBatch, KernelBatch):
        monkeypatch.setattr(kind, "append", full)
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(10))
    relay = run_relay(make_config(source, target), echo(target))
    assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert (failed["code"], relay.log.named("relay.internal-error")) == ("service.out-of-memory", [])
