"""A stop at any moment: it ends in time, with the status that docs/operations/running.md gives, and leaves nothing
behind.
"""

from __future__ import annotations

import asyncio
import dataclasses
import signal
import time
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer, ConsumerRebalanceListener
from secured_support import brokers_of
from service.resilience_support import (
    MODES,
    SHORT,
    SHORT_TIMEOUTS,
    Echo,
    Leaks,
    check_complete,
    committed,
    numbered,
    slow_polls,
)

from relay.config import SecurityConfig
from relay.demo.kafka import Cluster
from relay.service.check.route import diagnosis
from relay.service.loop.settings import LoopSettings

pytestmark = pytest.mark.kafka
__all__ = ["slow_polls"]

#: What a stop may take beyond the drain, as the chart counts on.
DISCONNECT_SECONDS = 15.0
ALL = 20_000
#: Longer than two reports of a broker to its controller are apart (`broker.heartbeat.interval.ms`).
SETTLED_SECONDS = 4.5


@pytest.mark.parametrize("mode", MODES)
async def test_a_stop_at_any_moment_of_a_start(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    """From the first look at the topics to the first rounds."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(4_000))
    config = make_config(source, target, source_max_partition_fetch_bytes=5_000, **MODES[mode])
    leaks, stages = Leaks(), set()
    for step in range(30):
        relay = run_relay(config, Echo(target))
        await asyncio.sleep(0.001 * step * step)
        began = time.monotonic()
        assert await relay.stop() == 0
        assert time.monotonic() - began < 5.0
        stages |= {each["event"] for each in relay.log.events}
        await leaks.none()
    assert stages >= {
        "relay.starting",
        "partitions.assigned",
        "schemas.loaded",
        "partitions.opened",
        "relay.stopping",
    }
    relay = run_relay(config, Echo(target))
    await committed(kafka, relay, 4_000)
    assert await relay.stop() == 0
    await leaks.none()
    check_complete(await kafka.read(target, committed=True), 4_000, once=mode == "exactly-once")


@pytest.mark.usefixtures("slow_polls")
@pytest.mark.slow
async def test_a_stop_while_brokers_are_silent(
    kafka_at: Any, own_cluster: Cluster, make_config: Any, run_relay: Any
) -> None:
    """They take connections and answer nothing: to relays at work, at rest, and about to start. Those that
    wait go on later.
    """
    (node,) = own_cluster.nodes
    servers = own_cluster.bootstrap_servers
    busy: dict[str, Any] = {}
    idle: dict[str, Any] = {}
    staying: dict[str, Any] = {}
    async with kafka_at(servers) as kafka:
        for mode, settings in MODES.items():
            for group in (busy, idle, staying):
                source, target = await kafka.topic(2), await kafka.topic(2)
                more = {
                    **SHORT,
                    **settings,
                    "source_bootstrap_servers": servers,
                    "source_max_partition_fetch_bytes": 5_000,
                    # A turn whose rows all wait has nothing on its way, and may well be stopped.
                    "schema_wait_for_ddl": group is not busy,
                }
                config = make_config(source, target, **more)
                group[mode] = run_relay(config, Echo(target), LoopSettings(timeouts=SHORT_TIMEOUTS))
                await kafka.produce(source, numbered(10))
        for relay in [*busy.values(), *staying.values(), *idle.values()]:
            await committed(kafka, relay, 10)
        # The one last of which the most is expected: it must be in the middle of its work.
        for relay in (*staying.values(), busy["exactly-once"], busy["at-least-once"]):
            await kafka.produce(relay.config.source.topics[0], numbered(ALL - 10, start=10))
        await kafka.until(lambda: has_written(busy["at-least-once"], 1_000))
    node.send_signal(signal.SIGSTOP)
    try:
        hasty = LoopSettings(timeouts=dataclasses.replace(SHORT_TIMEOUTS, start_seconds=2.0))
        starting = {
            mode: run_relay(relay.config, Echo(relay.config.target.topic), hasty)
            for mode, relay in idle.items()
        }
        await asyncio.sleep(1.0)
        began = time.monotonic()
        everything = [*busy.values(), *idle.values(), *starting.values()]
        statuses = await asyncio.gather(*(relay.stop() for relay in everything))
        assert time.monotonic() - began < SHORT["delivery_drain_timeout_seconds"] + DISCONNECT_SECONDS
        assert statuses[2:] == [0] * 4
        # A transaction that failed is taken back before the stop: nothing is left to be delivered.
        assert (statuses[0], statuses[1] in {0, 3}) == (3, True)
        assert busy["at-least-once"].log.named("relay.failed")[0]["code"] == "service.delivery-failed"
    finally:
        node.send_signal(signal.SIGCONT)
    assert not any(relay.has_ended for relay in staying.values())
    await awake(servers)
    async with kafka_at(servers) as kafka:
        for mode, relay in [*busy.items(), *staying.items()]:
            again = run_relay(relay.config, Echo(relay.config.target.topic)) if relay.has_ended else relay
            await committed(kafka, again, ALL)
            assert await again.stop() == 0
            found = await kafka.read(relay.config.target.topic, committed=True)
            check_complete(found, ALL, once=mode == "exactly-once")


async def test_a_stop_while_the_group_waits_for_another_member(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """The other one takes its time to hand over its work, and the start waits for that."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    config, leaks = make_config(source, target), Leaks()
    revoking, done = asyncio.Event(), asyncio.Event()

    class Slow(ConsumerRebalanceListener):  # type: ignore[misc]  # aiokafka is not typed
        async def on_partitions_revoked(self, revoked: set[Any]) -> None:
            if revoked:
                revoking.set()
                await done.wait()

        def on_partitions_assigned(self, assigned: set[Any]) -> None:
            pass

    group = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": config.source.group_id}
    # It must not commit its own positions over the relay's.
    other = AIOKafkaConsumer(**group, heartbeat_interval_ms=100, enable_auto_commit=False)
    other.subscribe([source], listener=Slow())
    async with other:
        relay = run_relay(config, Echo(target))
        async with asyncio.timeout(20):
            await revoking.wait()
        began = time.monotonic()
        assert await relay.stop() == 0
        assert time.monotonic() - began < DISCONNECT_SECONDS
        done.set()
    await leaks.none()


async def awake(servers: str) -> None:
    """Wait until the brokers know each other again, and go on to: until then every start ends, and says so.

    At first they answer from what they knew; then the controller finds that no broker has reported for long.
    """
    brokers = brokers_of(SecurityConfig(), servers)
    good_since = time.monotonic()
    async with asyncio.timeout(60):
        while time.monotonic() - good_since < SETTLED_SECONDS:
            await asyncio.sleep(0.2)
            if await diagnosis(brokers):
                good_since = time.monotonic()


async def has_written(relay: Any, count: int) -> bool:
    return bool(relay.status.totals.produced.records >= count)
