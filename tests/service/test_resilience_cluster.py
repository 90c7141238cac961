"""A cluster of three brokers: the one that leads everything dies, then all are gone at once."""

from __future__ import annotations

import asyncio
import itertools
import tempfile
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from aiokafka.admin import NewTopic
from aiokafka.errors import KafkaError
from broker_support import broker_options
from service.resilience_support import (
    MODES,
    SHORT,
    SHORT_TIMEOUTS,
    Echo,
    check_complete,
    committed,
    in_thread,
    logged_commit,
    numbered,
    slow_polls,
)

from relay.demo.kafka import Cluster
from relay.service.loop.settings import LoopSettings

pytestmark = pytest.mark.kafka
__all__ = ["slow_polls"]

GROUP, TRANSACTION = 0, 1


@pytest.fixture
def three_brokers() -> Iterator[Cluster]:
    with (
        tempfile.TemporaryDirectory(prefix="relay-tests-", ignore_cleanup_errors=True) as home,
        Cluster(Path(home) / "kafka", nodes=3, options=broker_options()) as cluster,
    ):
        yield cluster


async def led_by(admin: Any, node: int) -> str:
    """A topic of two partitions, each with three replicas, both led by this node."""
    name = f"t-{uuid.uuid4().hex[:12]}"
    replicas = [node, *(other for other in (1, 2, 3) if other != node)]
    await admin.create_topics(
        [
            NewTopic(
                name,
                -1,
                -1,
                replica_assignments={0: replicas, 1: replicas},
                topic_configs={"retention.ms": "-1"},
            )
        ]
    )
    return name


async def coordinated_by(admin: Any, kind: int, node: int, suffix: str = "") -> str:
    """A group, or a transactional id without its suffix, whose coordinator this node is."""
    for number in itertools.count():
        name = f"g{number}-{uuid.uuid4().hex[:8]}"
        try:
            if await admin._client.coordinator_lookup(kind, name + suffix) == node:
                return name
        except KafkaError:
            # The first one of its kind makes the brokers create the topic that they keep it in.
            await asyncio.sleep(0.2)
    raise AssertionError


@pytest.mark.usefixtures("slow_polls")
@pytest.mark.slow
async def test_the_leader_and_coordinator_dies_and_then_all_brokers(
    kafka_at: Any, three_brokers: Cluster, make_config: Any, run_relay: Any
) -> None:
    first, *others = three_brokers.nodes
    relays: dict[str, Any] = {}
    async with kafka_at(three_brokers.bootstrap_servers) as kafka:
        for mode, settings in MODES.items():
            admin = kafka.admin
            source, target = await led_by(admin, 1), await led_by(admin, 1)
            await kafka.until(lambda topics=(source, target): has_leaders(kafka.admin, *topics))
            group = await coordinated_by(admin, GROUP, 1)
            identity = await coordinated_by(admin, TRANSACTION, 1, "-0")
            more = {**SHORT, **settings, "source_group_id": group, "delivery_transactional_id": identity}
            config = make_config(
                source, target, source_bootstrap_servers=three_brokers.bootstrap_servers, **more
            )
            relays[mode] = run_relay(config, Echo(target), LoopSettings(timeouts=SHORT_TIMEOUTS))
            await kafka.produce(source, numbered(20_000))
        for relay in relays.values():
            await kafka.until(lambda relay=relay: has_written(relay))
        await in_thread(first.kill)
    async with kafka_at(three_brokers.bootstrap_servers) as kafka:
        for relay in relays.values():
            await logged_commit(kafka, relay, 20_000, seconds=100)
            await kafka.produce(relay.config.source.topics[0], numbered(20_000, start=20_000))
        await asyncio.gather(*(in_thread(node.kill) for node in others))
    for node in three_brokers.nodes:
        node.start()
    for node in three_brokers.nodes:
        await in_thread(node.wait_ready)
    async with kafka_at(three_brokers.bootstrap_servers) as kafka:
        for mode, relay in relays.items():
            await committed(kafka, relay, 40_000)
            assert await relay.stop() == 0
            found = await kafka.read(relay.config.target.topic, committed=mode == "exactly-once")
            check_complete(found, 40_000, once=mode == "exactly-once")


async def has_leaders(admin: Any, *topics: str) -> bool:
    found = await admin.describe_topics(list(topics))
    return all(
        len(each["partitions"]) == 2 and all(one["leader"] == 1 for one in each["partitions"])
        for each in found
    )


async def has_written(relay: Any) -> bool:
    return bool(relay.status.totals.produced.records)
