"""Brokers that go away for longer than every time-out, and come back: relay waits, goes on by itself, and
loses nothing.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import socket
from typing import Any, NamedTuple

import pytest
from aiokafka import AIOKafkaConsumer
from service.resilience_support import (
    MODES,
    SHORT,
    SHORT_TIMEOUTS,
    Echo,
    ask,
    check_complete,
    committed,
    has_logged,
    in_thread,
    loop_delay,
    numbered,
    slow_polls,
)

from relay.demo.kafka import Cluster, free_ports
from relay.model.records import ConsumerRecord
from relay.service.loop.settings import LoopSettings
from relay.service.observe.watchdog import Watchdog

pytestmark = pytest.mark.kafka
__all__ = ["slow_polls"]

#: The watchdog's patience on a machine with nothing else to do. The outage lasts longer by as many seconds, and so
#: longer than a delivery, a request, a commit and a session may.
STALL_SECONDS, LONGER_SECONDS = 8.0, 2.0
#: How many times the delay of the loop before the outage are added: on a busy machine beats are late for no fault.
DELAYS = 20
#: Records that wait when the brokers go, and all of them in the end.
FIRST, ALL = 16_000, 17_000


class Case(NamedTuple):
    """A relay: in which mode, which of its clusters goes away, and whether records wait then."""

    mode: str
    away: str = "both"
    busy: bool = True

    @property
    def is_exact(self) -> bool:
        return self.mode == "exactly-once"


AWAY = [("both", True), ("both", False), ("source", True), ("target", True)]
CASES = [Case(mode, away, busy) for mode in MODES for away, busy in AWAY]


class Outage:
    """Relays of all cases, between a cluster that stays and one that goes away."""

    def __init__(self, stays: Any, goes: Any, make_config: Any, run_relay: Any) -> None:
        self._stays, self._goes, self._make_config, self._run_relay = stays, goes, make_config, run_relay
        self.relays: dict[Case, Any] = {}
        self.ports: dict[Case, int] = dict(zip(CASES, free_ports(len(CASES)), strict=True))
        self.stalls: list[int] = []

    def source(self, case: Case) -> Any:
        return self._stays if case.away == "target" else self._goes

    def target(self, case: Case) -> Any:
        return self._stays if case.away == "source" else self._goes

    async def start(self, case: Case) -> None:
        source, target = self.source(case), self.target(case)
        topics = await source.topic(2), await target.topic(2)
        if case.busy:
            await source.produce(topics[0], numbered(FIRST))
        config = self._make_config(
            *topics,
            source_bootstrap_servers=source.bootstrap_servers,
            target_bootstrap_servers="" if source is target else target.bootstrap_servers,
            # Small polls, so that there is something left to do.
            source_max_partition_fetch_bytes=5_000,
            http_port=self.ports[case],
            **SHORT,
            **MODES[case.mode],
        )
        # When no records come, they ask soon whether somebody is there.
        settings = LoopSettings(timeouts=SHORT_TIMEOUTS, stall_check_seconds=2.0)
        self.relays[case] = self._run_relay(config, Echo(topics[1]), settings)

    async def begun(self, case: Case) -> bool:
        relay = self.relays[case]
        assert not relay.has_ended
        return bool(
            relay.status.totals.produced.records if case.busy else relay.log.named("partitions.opened")
        )

    async def more(self, case: Case) -> None:
        await self.source(case).produce(
            self.relays[case].config.source.topics[0], numbered(ALL)[FIRST if case.busy else 0 :]
        )

    async def finish(self, case: Case) -> None:
        """Wait until everything has arrived, also what came after the outage."""
        relay, source = self.relays[case], self.source(case)
        if case.away != "target":
            await self.more(case)
        if case.is_exact and case.away != "both":
            # Its progress is kept in the target, not by the group.
            await source.until(lambda: self.arrived(case))
        else:
            await committed(source, relay, ALL)

    async def arrived(self, case: Case) -> bool:
        assert not self.relays[case].has_ended
        return len(await self.written(case)) >= ALL

    async def written(self, case: Case) -> list[ConsumerRecord]:
        found: list[ConsumerRecord] = await self.target(case).read(
            self.relays[case].config.target.topic, committed=case.is_exact
        )
        return found

    async def stop(self, case: Case) -> None:
        assert await self.relays[case].stop() == 0
        check_complete(await self.written(case), ALL, once=case.is_exact)

    async def health(self, case: Case) -> dict[str, Any]:
        """What /readyz says; it and the others answer at any time."""
        port = self.ports[case]
        for path in ("/livez", "/metrics", "/status"):
            assert (await ask(port, path))[0] == 200
        status, text = await ask(port, "/readyz")
        assert status == 200
        found: dict[str, Any] = json.loads(text)
        return found

    async def is_well(self) -> bool:
        """Whether no check of any relay fails; on a busy machine one may, for a moment."""
        return not any([(await self.health(case))["degraded"] for case in CASES])

    async def failing(self, case: Case) -> set[str]:
        """The checks that say that they fail."""
        checks = (await self.health(case))["checks"]
        return {name for name, text in checks.items() if text.startswith("failing: ")}


@pytest.mark.usefixtures("slow_polls")
@pytest.mark.slow
async def test_an_outage_longer_than_every_timeout(
    kafka: Any, kafka_at: Any, own_cluster: Cluster, make_config: Any, run_relay: Any
) -> None:
    """In both modes, with one cluster or both away. Neither the watchdog nor /livez takes the outage for a
    loop that is stuck.
    """
    (node,) = own_cluster.nodes
    async with kafka_at(own_cluster.bootstrap_servers) as other:
        outage, failed = Outage(kafka, other, make_config, run_relay), dict[Case, set[str]]()
        await asyncio.gather(*map(outage.start, CASES))
        for case in CASES:
            await kafka.until(lambda case=case: outage.begun(case))
        await kafka.until(outage.is_well)
        patience = STALL_SECONDS + DELAYS * await loop_delay(0.5)
        with contextlib.ExitStack() as stack:
            for relay in outage.relays.values():
                stack.enter_context(Watchdog(relay.status, patience, relay.log, outage.stalls.append))
            await in_thread(node.kill)
            await asyncio.gather(*(outage.more(case) for case in CASES if case.away == "target"))
            await asyncio.sleep(patience + LONGER_SECONDS)
            for case in CASES:
                # Where both are away, it depends on the moment which one is asked for something.
                await kafka.until(lambda case=case: outage.failing(case))
                away = {"source", "target"} if case.away == "both" else {case.away}
                failed[case] = await outage.failing(case)
                assert failed[case] <= away | {"commit", "schema-history"}
                if "source" in failed[case]:
                    lag = json.loads((await ask(outage.ports[case], "/status"))[1])["lag"]
                    assert (lag["records"] == 0, lag["is_exact"]) == (False, False)
            node.start()
            await in_thread(node.wait_ready)
            await asyncio.gather(*map(outage.finish, CASES))
            assert not outage.stalls
        await kafka.until(outage.is_well)
        for case, checks in failed.items():
            over = outage.relays[case].log.named("connection.recovered")
            assert {each["check"] for each in over} >= checks
            assert all(each["seconds"] > 0 for each in over)
        await asyncio.gather(*map(outage.stop, CASES))


async def test_a_port_that_is_taken(kafka: Any, make_config: Any, run_relay: Any) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
        relay = run_relay(make_config(source, target, http_port=port), Echo(target))
        assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "service.address-unavailable"
    assert f"127.0.0.1:{port}: another program, perhaps another relay, uses the port" in failed["message"]


async def test_no_broker_at_the_start(make_config: Any, run_relay: Any) -> None:
    (port,) = free_ports(1)
    relay = run_relay(make_config("a", "b", source_bootstrap_servers=f"127.0.0.1:{port}"), Echo("b"))
    assert await relay.ended() == 3
    assert relay.log.named("relay.failed")[0]["code"] == "service.broker-unavailable"


async def test_a_rebalance_while_the_target_is_away(
    kafka: Any, kafka_at: Any, own_cluster: Cluster, make_config: Any, run_relay: Any
) -> None:
    """The schema history cannot be read then, so the new partitions stay closed until the target is back."""
    (node,) = own_cluster.nodes
    servers = own_cluster.bootstrap_servers
    async with kafka_at(servers) as other:
        source, target = await kafka.topic(2), await other.topic(2)
    config = make_config(source, target, target_bootstrap_servers=servers, **SHORT)
    relay = run_relay(config, Echo(target), LoopSettings(timeouts=SHORT_TIMEOUTS))
    await kafka.produce(source, numbered(100))
    await committed(kafka, relay, 100)
    await in_thread(node.kill)
    group = {"bootstrap_servers": kafka.bootstrap_servers, "group_id": relay.config.source.group_id}
    # It must not commit its own positions over the relay's.
    member = AIOKafkaConsumer(**group, enable_auto_commit=False)
    member.subscribe([source])
    async with member:
        await kafka.until(lambda: has_logged(relay, "partitions.revoked"))
    await kafka.produce(source, numbered(200)[100:])
    await asyncio.sleep(6.0)
    assert not relay.has_ended
    node.start()
    await in_thread(node.wait_ready)
    await committed(kafka, relay, 200)
    assert await relay.stop() == 0
    async with kafka_at(servers) as other:
        check_complete(await other.read(target), 200)
