"""How aiokafka's clients are set up, and that a process with them ends in time whatever the broker does."""

from __future__ import annotations

import asyncio
import signal
import time
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka import TopicPartition
from aiokafka.coordinator.assignors.roundrobin import RoundRobinPartitionAssignor
from aiokafka.errors import (
    ClusterAuthorizationFailedError,
    InvalidTransactionTimeout,
    ProducerFenced,
    TransactionalIdAuthorizationFailed,
)
from service.transport_support import MODES, SMALL, Route

from relay.config.kafka import consumer_settings, producer_settings, transactional_settings
from relay.demo.kafka import Cluster
from relay.io.kafka.ports import Partition, Undelivered
from relay.io.kafka.sink import KafkaSink, TransactionalSink
from relay.io.kafka.source import KafkaSource
from relay.model.errors import ConfigError, DeliveryFailed, InstanceFenced, TopicUnusable
from relay.model.records import ProducerRecord

LIMIT = 1_048_588


@pytest.fixture
def given(monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """What clients were made with."""
    found: dict[str, Any] = {}

    def client(**settings: Any) -> object:
        found.update(settings)
        return SimpleNamespace()

    monkeypatch.setattr("relay.io.kafka.source.AIOKafkaConsumer", client)
    monkeypatch.setattr("relay.io.kafka.sink.AIOKafkaProducer", client)
    return found


@pytest.fixture
def plain_config(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """A configuration without a broker."""
    from relay.config import Config

    def make(**delivery: Any) -> Config:
        tables: dict[str, Any] = {
            "route": {"from": "ticdc-canal-json", "to": "canal-json"},
            "source": {"bootstrap_servers": "b:1", "topics": ["in"], "group_id": "g"},
            "target": {"topic": "out"},
            "delivery": delivery,
        }
        return Config(**tables)

    return make


def test_the_consumer_is_set_up_against_loss(given: dict[str, Any], plain_config: Callable[..., Any]) -> None:
    KafkaSource(consumer_settings(plain_config()))
    assert given["enable_auto_commit"] is False
    assert given["auto_offset_reset"] == "none"
    assert given["isolation_level"] == "read_committed"
    assert (given["session_timeout_ms"], given["rebalance_timeout_ms"]) == (30_000, 60_000)
    assert given["partition_assignment_strategy"] == (RoundRobinPartitionAssignor,)


def test_the_consumer_is_set_up_for_throughput(
    given: dict[str, Any], plain_config: Callable[..., Any]
) -> None:
    KafkaSource(consumer_settings(plain_config()))
    assert 50 <= given["fetch_max_wait_ms"] <= 100
    # What a poll may give, and so how long parsing holds up the event loop.
    assert given["fetch_max_bytes"] <= 8 * 1024 * 1024
    assert given["max_partition_fetch_bytes"] <= 1024 * 1024
    assert "max_poll_records" not in given


def test_bytes_stay_bytes(given: dict[str, Any], plain_config: Callable[..., Any]) -> None:
    """An exception in a deserializer would come out of every poll, for ever."""
    KafkaSource(consumer_settings(plain_config()))
    KafkaSink(producer_settings(plain_config()), {"out": LIMIT})
    assert [name for name in given if "serializer" in name] == []


def test_the_producer_is_set_up(given: dict[str, Any], plain_config: Callable[..., Any]) -> None:
    KafkaSink(producer_settings(plain_config()), {"out": LIMIT})
    assert given["enable_idempotence"] is True
    assert given["compression_type"] == "zstd"
    assert given["max_batch_size"] == 900_000
    assert "transactional_id" not in given


def test_batches_are_no_larger_than_the_smallest_limit(
    given: dict[str, Any], plain_config: Callable[..., Any]
) -> None:
    KafkaSink(producer_settings(plain_config()), {"out": LIMIT, "letters": 4_000})
    assert given["max_batch_size"] == 4_000


def test_a_transaction_outlives_every_wait_of_ours(
    given: dict[str, Any], plain_config: Callable[..., Any]
) -> None:
    """The broker would abort, and fence, what is only slow."""
    config = plain_config(mode="exactly-once", shard=1, shards=2, delivery_timeout_seconds=100.0)
    TransactionalSink(transactional_settings(config), {"out": LIMIT})
    assert given["transactional_id"] == "g-1"
    assert given["transaction_timeout_ms"] > 2 * 100_000


@pytest.mark.parametrize(
    ("raised", "made", "said"),
    [
        (
            TransactionalIdAuthorizationFailed("g-0"),
            TopicUnusable,
            "not allowed to write at b:1: .*grant WRITE on .* transactional id",
        ),
        (
            ClusterAuthorizationFailedError(),
            TopicUnusable,
            "not allowed to write at b:1: not authorized for the cluster .CLUSTER_AUTHORIZATION_FAILED.;",
        ),
        (InvalidTransactionTimeout(), DeliveryFailed, "raise transaction.max.timeout.ms of the brokers"),
    ],
    ids=lambda value: type(value).__name__,
)
async def test_a_producer_that_may_not_write_does_not_try_again(
    plain_config: Callable[..., Any], raised: Exception, made: type[Exception], said: str
) -> None:
    """Rights do not come by waiting: relay ends and tells what to grant."""

    async def refused() -> None:
        raise raised

    sink = TransactionalSink(transactional_settings(plain_config(mode="exactly-once")), {"out": LIMIT})
    sink.producer.start = refused
    with pytest.raises(made, match=said):
        await sink.start()
    await sink.abandon()


@pytest.mark.parametrize(("seconds", "made"), [(0.0, InstanceFenced), (1_000.0, Undelivered)])
async def test_a_transaction_that_outlived_its_time_is_not_another_instance(
    plain_config: Callable[..., Any], monkeypatch: pytest.MonkeyPatch, seconds: float, made: type[Exception]
) -> None:
    """The broker answers alike; only the time since the transaction began tells."""
    now = time.monotonic()
    sink = TransactionalSink(transactional_settings(plain_config(mode="exactly-once")), {"out": LIMIT})
    monkeypatch.setattr("relay.io.kafka.fencing.time.monotonic", lambda: now)

    async def begun() -> None:
        pass

    async def fenced(*_: object) -> None:
        raise ProducerFenced

    sink.producer.begin_transaction, sink.producer.send_offsets_to_transaction = begun, fenced
    await sink.begin()
    now += seconds
    with pytest.raises(made):
        await sink.commit({Partition("in", 0): 1})
    await sink.abandon()


@pytest.mark.kafka
@pytest.mark.slow
async def test_a_broker_that_dies_while_relay_stops(
    kafka_at: Any, own_cluster: Cluster, make_config: Any, echo: Any, run_relay: Any
) -> None:
    """It first holds acknowledgements back, so that there is something to wait for; then it is killed."""
    (node,) = own_cluster.nodes
    routes, drain = {}, 3.0
    async with kafka_at(own_cluster.bootstrap_servers) as kafka:
        for mode in MODES:
            routes[mode] = Route(kafka, make_config, echo, run_relay)
            # The group forgets a member that could not leave it after so long.
            settings: dict[str, Any] = {
                "source_bootstrap_servers": own_cluster.bootstrap_servers,
                "source_session_timeout_ms": 6_000,
            }
            await routes[mode].lay(mode, delivery_drain_timeout_seconds=drain, **SMALL, **settings)
            await routes[mode].produce(15_000)
        relays = [route.start() for route in routes.values()]
        for route in routes.values():
            await route.until_begun()
    node.send_signal(signal.SIGSTOP)
    await asyncio.sleep(0.3)
    began = time.monotonic()
    stopping = [asyncio.create_task(relay.stop()) for relay in relays]
    await asyncio.sleep(0.5)
    await asyncio.to_thread(node.kill)
    statuses = await asyncio.gather(*stopping)
    assert time.monotonic() - began < drain + 20
    assert statuses[0] == 3
    assert relays[0].log.named("relay.failed")[0]["code"] == "service.delivery-failed"
    assert statuses[1] in {0, 3}

    node.start()
    await asyncio.to_thread(node.wait_ready)
    async with kafka_at(own_cluster.bootstrap_servers) as kafka:
        for route in routes.values():
            route.kafka = kafka
            relay = route.start()
            await route.until_committed(15_000, relay)
            assert await relay.stop() == 0
            await route.check(15_000)


@pytest.mark.kafka
async def test_topics_that_are_created_later_leave_the_others_known(kafka: Any, make_config: Any) -> None:
    """The client forgets topics that it does not follow, and keeps their batches until a deadline."""
    topics = [await kafka.topic()]
    sink = KafkaSink(producer_settings(make_config(topics[0], topics[0])), {topics[0]: LIMIT})
    await sink.start()
    await sink.write([ProducerRecord(topics[0], 0, 0, None, b"", ())])
    topics += [await kafka.topic() for _ in range(2)]
    await sink.write(ProducerRecord(each, 0, 0, None, b"", ()) for each in topics[1:])
    metadata = sink.producer.client.cluster
    assert all(metadata.leader_for_partition(TopicPartition(each, 0)) is not None for each in topics)
    await sink.stop()


@pytest.mark.kafka
@pytest.mark.parametrize("session_ms", [50, 1_900_000_000])
async def test_a_session_that_the_brokers_refuse_is_reported(
    kafka: Any, make_config: Any, run_relay: Any, echo: Any, session_ms: int
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    relay = run_relay(make_config(source, target, source_session_timeout_ms=session_ms), echo(target))
    assert await relay.ended() == ConfigError.exit_status
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "config"
    assert failed["message"] == (
        f"source.session_timeout_ms: the brokers refuse {session_ms} "
        "(it must lie between their group.min.session.timeout.ms and group.max.session.timeout.ms)"
    )


async def test_a_partition_that_was_taken_away_has_no_end(plain_config: Callable[..., Any]) -> None:
    """A rebalance may take it at any moment, also while partitions are opened."""
    source = KafkaSource(consumer_settings(plain_config()))
    source.consumer.assign([TopicPartition("in", 0)])
    for partition in (Partition("in", 0), Partition("in", 1)):
        assert (source.end(partition), source.end_age(partition)) == (None, None)
    await source.stop()
