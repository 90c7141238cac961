"""The scenarios: what is done to relay and its brokers while records come. A seeded generator decides what,
when and how often.

Each fault leaves everything as it found it: brokers up, the network whole, at least one relay alive.
"""

from __future__ import annotations

import asyncio
import contextlib
import random
from collections.abc import AsyncIterator, Awaitable, Callable
from dataclasses import dataclass, field
from functools import partial

from chaos.broker import Feeder, RunFailed, until
from chaos.clusters import Kind, Site
from chaos.relay_processes import FENCED, UNREACHED, Life, RelayProcesses
from chaos.toxiproxy import Toxiproxy

EXACTLY_ONCE = "exactly-once"
MODES = ("at-least-once", EXACTLY_ONCE)
#: The longest that records may take to be written, with the brokers down for a while.
FEED_SECONDS = 90.0
_MAX_MEMBERS = 3


@dataclass
class Stage:
    """What a fault plays on. `fed`: the share of the records that is in the source. `done`: what was done,
    for the report.
    """

    rng: random.Random
    mode: str
    site: Site
    relays: RelayProcesses
    topics: tuple[str, str]
    feeder: Feeder
    fed: float
    done: list[str] = field(default_factory=list)

    @contextlib.asynccontextmanager
    async def records(self, parts: int, seconds: float) -> AsyncIterator[None]:
        """Let one of `parts` of the remaining records come, spread over so many seconds, while the block
        runs; wait for its end.
        """
        self.fed += (1.0 - self.fed) / parts
        feeding = asyncio.create_task(self.feeder.feed(self.fed, seconds))
        try:
            yield
            async with asyncio.timeout(FEED_SECONDS):
                await feeding
        finally:
            feeding.cancel()
            await asyncio.wait({feeding})

    async def perhaps_kill(self) -> None:
        """Kill the relay, too, in one of four cases, and start another one at once."""
        if self.rng.random() < 0.25:
            await asyncio.sleep(self.rng.uniform(0.0, 1.0))
            for life in self.relays.running:
                life.kill()
            self.done.append("and the relay")
            self.relays.start()


Fault = Callable[[Stage], Awaitable[None]]


@dataclass(frozen=True)
class Scenario:
    """A fault with what it needs. `allowed`: codes with which a relay may end by itself. `tables`: more than
    one have topics of their own, which relay makes.
    """

    title: str
    kind: Kind
    fault: Fault
    allowed: Callable[[str], frozenset[str]] = lambda _: frozenset()
    tables: int = 1


async def kill_relay(stage: Stage) -> None:
    """SIGKILL at random moments, some of them while it starts; started again at once."""
    rng, relays = stage.rng, stage.relays
    (life,) = relays.running
    kills = rng.randint(3, 5)
    for left in range(kills, 0, -1):
        early = rng.random() < 0.25
        if not early and not await relays.opened(life):
            return
        async with stage.records(left, 1.5):
            await asyncio.sleep(rng.uniform(0.1, 1.5))
            life.kill()
            stage.done.append("kill while it starts" if early else "kill")
            life = relays.start()


async def kill_broker(stage: Stage) -> None:
    """SIGKILL of the only broker, which comes back on its data."""
    node = stage.site.cluster.nodes[0]
    for left in range(stage.rng.randint(1, 2), 0, -1):
        async with stage.records(left, 4.0):
            await asyncio.sleep(stage.rng.uniform(0.3, 2.5))
            await asyncio.to_thread(node.kill)
            stage.done.append("kill")
            await stage.perhaps_kill()
            await asyncio.sleep(stage.rng.uniform(0.0, 2.0))
            await asyncio.to_thread(node.start)
            await asyncio.to_thread(node.wait_ready)


async def elect_leaders(stage: Stage) -> None:
    """A leader of the source or the target goes, by SIGKILL or in order, and comes back; then its partitions
    go back to it.
    """
    broker, nodes = stage.site.broker, stage.site.cluster.nodes
    for left in (2, 1):
        async with stage.records(left, 6.0):
            await asyncio.sleep(stage.rng.uniform(0.3, 1.5))
            leader = stage.rng.choice(await broker.leaders(stage.rng.choice(stage.topics)))
            node, in_order = nodes[leader - 1], stage.rng.random() < 0.4
            if in_order:
                node.terminate()
                await asyncio.to_thread(node.wait_stopped, 10)
            else:
                await asyncio.to_thread(node.kill)
            stage.done.append(f"{'stop' if in_order else 'kill'} node {leader}")
            await stage.perhaps_kill()
            await asyncio.sleep(stage.rng.uniform(0.0, 2.0))
            await asyncio.to_thread(node.start)
            await asyncio.to_thread(node.wait_ready)
            for topic in stage.topics:
                await until(partial(broker.in_sync, topic, len(nodes)), f"all replicas of {topic} in sync")


async def storm(stage: Stage) -> None:
    """Members come and go every two seconds."""
    await (_fencing if stage.mode == EXACTLY_ONCE else _members)(stage)


async def _members(stage: Stage) -> None:
    rng, relays = stage.rng, stage.relays
    stopping: list[asyncio.Task[None]] = []
    for left in range(rng.randint(5, 7), 0, -1):
        async with stage.records(left, 1.5):
            alive = relays.running
            if len(alive) < 2 or (len(alive) < _MAX_MEMBERS and rng.random() < 0.5):
                relays.start()
                stage.done.append("join")
            elif rng.random() < 0.75:
                stopping.append(asyncio.create_task(rng.choice(alive).stop()))
                stage.done.append("leave")
            else:
                rng.choice(alive).kill()
                stage.done.append("kill")
            await asyncio.sleep(rng.uniform(1.0, 2.5))
    await asyncio.gather(*stopping)
    if not relays.running:
        relays.start()


async def _fencing(stage: Stage) -> None:
    """Another instance of the same shard starts, and fences the first, which ends with status 3 and is
    started again.
    """
    rng, relays = stage.rng, stage.relays
    for left in range(rng.randint(3, 4), 0, -1):
        before = relays.running
        async with stage.records(2 * left, 2.0):
            newest = relays.start()
            stage.done.append("second instance")
            if not await relays.opened(newest):
                raise RunFailed(
                    f"relay {newest.number}, the newest of its shard, ended with status {newest.status} {newest.code}"
                )
        # An instance notices at its next transaction, so there must be one.
        async with stage.records(2 * left - 1, 1.0):
            await asyncio.gather(*(_ended(life) for life in before))
        await asyncio.sleep(rng.uniform(0.0, 1.0))


async def _ended(life: Life, seconds: float = 30.0) -> None:
    deadline = asyncio.get_running_loop().time() + seconds
    while life.is_running:
        life.look()
        if asyncio.get_running_loop().time() > deadline:
            raise RunFailed(
                f"relay {life.number} still runs {seconds:g} s after another instance of its shard had begun"
            )
        await asyncio.sleep(0.05)


async def network(stage: Stage) -> None:
    """Cuts, black holes, slow lines and answers that end in the middle, between relay and the broker."""
    proxy, rng = stage.site.proxy, stage.rng
    assert proxy is not None
    for left in range(rng.randint(3, 5), 0, -1):
        async with stage.records(left, 2.0):
            await asyncio.sleep(rng.uniform(0.1, 0.8))
            try:
                stage.done.append(await _trouble(rng, proxy))
                await stage.perhaps_kill()
                await asyncio.sleep(rng.uniform(0.3, 2.5))
            finally:
                await proxy.heal()


async def _trouble(rng: random.Random, proxy: Toxiproxy) -> str:
    stream = rng.choice(("upstream", "downstream"))
    kind = rng.choice(("cut", "hole", "latency", "limit", "reset"))
    if kind == "cut":
        await proxy.cut()
        return kind
    if kind == "hole":
        # Data is dropped without an error; when the fault is removed, the connection closes.
        await proxy.poison("timeout", stream, timeout=0)
    elif kind == "latency":
        await proxy.poison("latency", stream, latency=rng.randint(50, 600), jitter=rng.randint(0, 100))
    elif kind == "limit":
        await proxy.poison("limit_data", stream, bytes=rng.randint(100, 200_000))
    else:
        await proxy.poison("reset_peer", stream, timeout=rng.randint(0, 500))
    return f"{kind} {stream}"


async def many_troubles(stage: Stage) -> None:
    """Kills of the relay and of the broker, and other instances, in any order."""
    rng, relays = stage.rng, stage.relays
    steps = ["kill", "kill", "broker", "instance", "instance"]
    rng.shuffle(steps)
    left = len(steps) + steps.count("instance")
    for step in steps:
        before = relays.running or [relays.start()]
        # Most of the time it is at work when something happens, and not about to start.
        if rng.random() < 0.8 and not await relays.opened(before[-1]):
            before = [relays.start()]
        async with stage.records(left, 2.5):
            await asyncio.sleep(rng.uniform(0.1, 1.5))
            await _trouble_of(step, stage)
        left -= 1
        if step != "instance":
            continue
        async with stage.records(left, 1.0):
            if stage.mode == EXACTLY_ONCE:
                await asyncio.gather(*(_ended(life) for life in before))
        left -= 1


async def _trouble_of(step: str, stage: Stage) -> None:
    relays, node = stage.relays, stage.site.cluster.nodes[0]
    stage.done.append(step)
    if step == "kill":
        for life in relays.running:
            life.kill()
        relays.start()
    elif step == "broker":
        await asyncio.to_thread(node.kill)
        await asyncio.sleep(stage.rng.uniform(0.0, 1.0))
        await asyncio.to_thread(node.start)
        await asyncio.to_thread(node.wait_ready)
    else:
        newest = relays.start()
        if not await relays.opened(newest):
            raise RunFailed(f"relay {newest.number} ended with status {newest.status} {newest.code}")


def _in_any_trouble(mode: str) -> frozenset[str]:
    return _when_fenced(mode) | _at_start(mode)


def _when_fenced(mode: str) -> frozenset[str]:
    return frozenset({FENCED}) if mode == EXACTLY_ONCE else frozenset()


def _at_start(_: str) -> frozenset[str]:
    return frozenset({UNREACHED})


SCENARIOS = {
    "relay-kill": Scenario("SIGKILL of the relay", Kind.SINGLE, kill_relay),
    "broker-kill": Scenario("SIGKILL of the only broker", Kind.SINGLE, kill_broker, _at_start),
    "election": Scenario("leader election on three brokers", Kind.TRIO, elect_leaders, _at_start),
    "rebalance": Scenario("members join and leave; shards fence", Kind.SINGLE, storm, _when_fenced),
    "tables": Scenario(
        "kills and other instances, a topic a table", Kind.SINGLE, many_troubles, _in_any_trouble, tables=25
    ),
    "network": Scenario("cuts and latency by toxiproxy", Kind.PROXIED, network, _at_start),
}
