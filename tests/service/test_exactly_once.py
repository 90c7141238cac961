"""Exactly-once on a real Apache Kafka: transactions that hold records and offsets, shards that fence each
other.
"""

from __future__ import annotations

import asyncio
import signal
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
from aiokafka import TopicPartition
from service.test_process import finished, has_logged, id_of, inserts, mark_of, relay_process

from relay.config.kafka import transactional_settings
from relay.demo.kafka import Cluster
from relay.io.kafka.ports import Partition, Undelivered
from relay.io.kafka.sink import KafkaSink, TransactionalSink
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord

pytestmark = pytest.mark.kafka

NOW = 1_700_000_000_000
EXACTLY_ONCE = {"delivery_mode": "exactly-once", "delivery_transaction_interval_seconds": 0.05}


def numbered(count: int, start: int = 0) -> list[ConsumerRecord]:
    return [ConsumerRecord("", i % 2, 0, NOW + i, None, b"%d" % i) for i in range(start, start + count)]


def check_once(found: Sequence[ConsumerRecord], count: int) -> None:
    """Every record is there once, in order."""
    for partition in (0, 1):
        marks = [dict(r.headers)[SOURCE_HEADER] for r in found if r.partition == partition]
        assert [int((mark or b"").split(b"/")[2]) for mark in marks] == list(range(count // 2))
        assert [int(r.value or b"") for r in found if r.partition == partition] == list(
            range(partition, count, 2)
        )


async def all_committed(kafka: Any, group: str, count: int) -> bool:
    return bool(sum((await kafka.committed(group)).values()) == count)


async def test_records_and_offsets_are_committed_together(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(10_000))
    config = make_config(source, target, source_max_partition_fetch_bytes=20_000, **EXACTLY_ONCE)
    relay = run_relay(config, echo(target))
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, 10_000))
    assert await relay.stop() == 0
    check_once(await kafka.read(target, committed=True), 10_000)


async def test_a_failed_batch_aborts_and_what_follows_is_complete(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    rounds = 0

    class Failing(TransactionalSink):
        async def delivered(self, pending: Sequence[asyncio.Future[object]]) -> None:
            nonlocal rounds
            await super().delivered(pending)
            rounds += 1
            if rounds in {2, 5}:
                raise Undelivered("OutOfOrderSequenceNumber", retriable=False)

    monkeypatch.setattr("relay.service.app.TransactionalSink", Failing)
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(20_000))
    config = make_config(
        source, target, source_max_partition_fetch_bytes=20_000, target_max_batch_bytes=10_000, **EXACTLY_ONCE
    )
    relay = run_relay(config, echo(target))
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, 20_000))
    assert await relay.stop() == 0
    check_once(await kafka.read(target, committed=True), 20_000)
    assert len(await kafka.read(target)) > 20_000, "something was aborted"


async def test_an_oversize_record_stops_the_relay_behind_a_complete_transaction(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2, max_message_bytes="2000")
    await kafka.produce(source, numbered(100))
    translator = echo(target)
    translator.grow[b"40"] = 5_000
    config = make_config(source, target, target_compression="none", **EXACTLY_ONCE)
    relay = run_relay(config, translator)
    assert await relay.ended() == 3
    assert relay.log.named("record.refused")[0]["offset"] == 20
    found = await kafka.read(target, committed=True)
    committed = await kafka.committed(config.source.group_id)
    assert committed[source, 0] == 20
    assert [sum(r.partition == partition for r in found) for partition in (0, 1)] == [
        20,
        committed.get((source, 1), 0),
    ]


async def test_a_second_instance_of_a_shard_ends_the_first(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, **EXACTLY_ONCE)
    first = run_relay(config, echo(target))
    await kafka.produce(source, numbered(1_000))
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, 1_000))
    second = run_relay(config, echo(target))
    await kafka.until(lambda: _opened(second))
    await kafka.produce(source, numbered(1_000, start=1_000))
    assert await first.ended() == 3
    assert first.log.named("relay.failed")[0]["code"] == "service.fenced"
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, 2_000))
    assert await second.stop() == 0
    check_once(await kafka.read(target, committed=True), 2_000)


async def test_a_commit_that_fails_because_of_another_instance_ends_the_first(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Kafka 4.3.1 answers UNKNOWN_SERVER_ERROR to a commit in the moment in which another instance takes
    over.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, **EXACTLY_ONCE)
    newer = TransactionalSink(transactional_settings(config), {target: 1_000_000})

    class Failing(TransactionalSink):
        async def commit(self, offsets: Mapping[Partition, int]) -> None:
            if sum(offsets.values()):
                await newer.start()
                raise Undelivered("UnknownError", retriable=False)
            await super().commit(offsets)

    monkeypatch.setattr("relay.service.app.TransactionalSink", Failing)
    older = run_relay(config, echo(target))
    await kafka.produce(source, numbered(100))
    assert await older.ended() == 3
    assert older.log.named("relay.failed")[0]["code"] == "service.fenced"
    assert not older.log.named("sink.replaced")
    await newer.write([ProducerRecord(target, 0, NOW, None, b"newer", ())])
    await newer.commit({Partition(source, 0): 1})
    await newer.stop()
    assert [each.value for each in await kafka.read(target, committed=True)] == [b"newer"]


async def _opened(relay: Any) -> bool:
    return bool(relay.log.named("partitions.opened"))


async def test_shards_divide_the_partitions(kafka: Any, make_config: Any, echo: Any, run_relay: Any) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(1_000))
    config = make_config(source, target, delivery_shards=2, **EXACTLY_ONCE)
    other = config.model_copy(update={"delivery": config.delivery.model_copy(update={"shard": 1})})
    relays = [run_relay(config, echo(target)), run_relay(other, echo(target))]
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, 1_000))
    assert [await relay.stop() for relay in relays] == [0, 0]
    assert [list(relay.log.named("partitions.opened")[0]["offsets"]) for relay in relays] == [
        [f"{source}/0"],
        [f"{source}/1"],
    ]
    check_once(await kafka.read(target, committed=True), 1_000)


@pytest.mark.parametrize("seed", range(4))
async def test_a_restart_right_after_a_commit_repeats_nothing(
    kafka: Any, make_config: Any, echo: Any, run_relay: Any, seed: int
) -> None:
    """Right after a transaction the broker may still tell the offset before it; a restart must not believe
    that.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, **EXACTLY_ONCE)
    for turn in range(3):
        await kafka.produce(source, numbered(200, start=200 * turn))
        relay = run_relay(config, echo(target))
        await kafka.until(lambda relay=relay: _has_written(relay))
        assert await relay.stop() == 0
    relay = run_relay(config, echo(target))
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, 600))
    assert await relay.stop() == 0
    check_once(await kafka.read(target, committed=True), 600)


async def _has_written(relay: Any) -> bool:
    return bool(relay.status.totals.consumed.records)


async def test_killed_in_the_middle_nothing_is_lost_or_repeated(
    kafka: Any, make_config: Any, tmp_path: Path
) -> None:
    source, target = await kafka.topic(4), await kafka.topic(4)
    count = 40_000
    await kafka.produce(source, inserts(count))
    config = make_config(source, target, source_max_partition_fetch_bytes=20_000, **EXACTLY_ONCE)
    for _ in range(3):
        process = await relay_process(tmp_path, config)
        before = await kafka.length(target)
        await kafka.until(lambda before=before: _has_grown(kafka, target, before))
        process.kill()
        await finished(process)
    last = await relay_process(tmp_path, config)
    await has_logged(last, "relay.starting")
    await kafka.until(lambda: all_committed(kafka, config.source.group_id, count))
    last.send_signal(signal.SIGTERM)
    assert (await finished(last))[0] == 0
    found = await kafka.read(target, committed=True)
    assert len({mark_of(record) for record in found}) == len(found) == count
    for partition in range(4):
        assert [id_of(record) for record in found if record.partition == partition] == list(
            range(partition, count, 4)
        )


async def _has_grown(kafka: Any, topic: str, before: int) -> bool:
    return bool(await kafka.length(topic) > before)


async def test_a_request_of_old_records_that_is_repeated_after_a_crash_counts_once_in_a_transaction(
    kafka_at: Any, own_cluster: Cluster, make_config: Any
) -> None:
    """Kafka forgets producers a day after the times of their records (`producer.id.expiration.ms`), but not
    in a transaction. One crash is that of both kinds of sinks.
    """
    servers, sinks = own_cluster.bootstrap_servers, dict[type[KafkaSink], tuple[KafkaSink, str, str]]()
    async with kafka_at(servers) as kafka:
        for kind in (TransactionalSink, KafkaSink):
            source, target = await kafka.topic(1), await kafka.topic(1)
            config = make_config(source, target, source_bootstrap_servers=servers, **EXACTLY_ONCE)
            sink = kind(transactional_settings(config), {target: 1_000_000})
            await sink.start()
            for value in (b"0", b"1"):
                await sink.write([ProducerRecord(target, 0, NOW, None, value, ())])
            sinks[kind] = sink, source, target
        (node,) = own_cluster.nodes
        node.kill()
        await asyncio.to_thread(node.restart)
        for kind, values in ((TransactionalSink, [b"0", b"1"]), (KafkaSink, [b"0", b"1", b"1"])):
            sink, source, target = sinks[kind]
            # As if the answer to the last request had been lost.
            sink.producer._txn_manager._sequence_numbers[TopicPartition(target, 0)] -= 1
            await sink.write([ProducerRecord(target, 0, NOW, None, b"1", ())])
            await sink.commit({Partition(source, 0): 1})
            await sink.stop()
            found = await kafka.read(target, at_least=len(values), committed=True)
            assert [record.value for record in found] == values


async def test_between_two_clusters_progress_is_kept_in_the_target(
    kafka: Any, kafka_at: Any, own_cluster: Any, make_config: Any, echo: Any, run_relay: Any
) -> None:
    servers = own_cluster.bootstrap_servers
    async with kafka_at(servers) as other:
        source, target = await kafka.topic(2), await other.topic(2)
        config = make_config(source, target, target_bootstrap_servers=servers, **EXACTLY_ONCE)
        for turn in range(3):
            await kafka.produce(source, numbered(500, start=500 * turn))
            relay = run_relay(config, echo(target))
            await kafka.until(lambda count=500 * (turn + 1): _holds(other, target, count))
            assert await relay.stop() == 0
        check_once(await other.read(target, committed=True), 1_500)


async def _holds(kafka: Any, topic: str, count: int) -> bool:
    return len(await kafka.read(topic, committed=True)) >= count
