"""The faults: what is done, what its first evidence is, and which check must fail."""

from __future__ import annotations

import asyncio
import os
import signal
import time
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from faults.site import Brokers, Feeder, RelayProcess

EXACTLY_ONCE: Final = "exactly-once"
START = "the first answer over HTTP"
REFUSED, ERROR, SILENCE = "a refused connection", "an error in an answer", "5 s without an answer"
#: When a request counts as not answered, and a process as silent.
SILENCE_SECONDS: Final = 5.0


@dataclass
class Stage:
    """Where a fault is played."""

    brokers: Brokers
    relay: RelayProcess
    feeder: Feeder


#: Plays the fault; returns the earliest moment of its first evidence, by the monotonic clock.
Inflict = Callable[[Stage], Awaitable[float]]
Heal = Callable[[Stage], Awaitable[object]]


@dataclass(frozen=True)
class Fault:
    """`checks`: those of which the first to fail counts. `cures_itself`: relay does. `ends_relay`: it does
    not wait, and ends. `load`: messages at a time. `idle`: none come any more. `replicas`: the nodes that
    have the source's and the target's partitions. `tables`: so many are in the schema history, which a start
    has to read. `alerts`: those that must fire.
    """

    title: str
    evidence: str
    checks: tuple[str, ...]
    inflict: Inflict
    heal: Heal | None = None
    load: int = 1
    brokers: int = 1
    replicas: tuple[tuple[int, ...], tuple[int, ...]] = ((1,), (1,))
    processes: int = 1
    mode: str = "at-least-once"
    cures_itself: bool = False
    ddl_every: int = 0
    poison_every: int = 0
    ends_relay: bool = False
    idle: bool = False
    tables: int = 0
    alerts: tuple[str, ...] = ()


async def delete_source(stage: Stage) -> float:
    """The source topic is deleted."""
    await stage.brokers.delete(stage.relay.source)
    return time.monotonic()


async def delete_target(stage: Stage) -> float:
    """The target topic is deleted."""
    await stage.brokers.delete(stage.relay.target)
    return time.monotonic()


async def create_target(stage: Stage) -> None:
    """It is created again."""
    await stage.brokers.create(stage.relay.target)


async def delete_history(stage: Stage) -> float:
    """The topic of the schema history is deleted."""
    await stage.brokers.delete(stage.relay.history)
    return time.monotonic()


async def delete_dead_letters(stage: Stage) -> float:
    """The dead-letter topic is deleted."""
    await stage.brokers.delete(stage.relay.dead_letters)
    return time.monotonic()


async def kill_broker(stage: Stage) -> float:
    """SIGKILL of the broker."""
    begun = time.monotonic()
    await asyncio.to_thread(stage.brokers.cluster.nodes[0].kill)
    return begun


async def restart_broker(stage: Stage) -> None:
    """It comes back on its data."""
    await asyncio.to_thread(stage.brokers.cluster.nodes[0].start)
    await asyncio.to_thread(stage.brokers.cluster.nodes[0].wait_ready)


async def hold_bytes(stage: Stage) -> float:
    """Connections stay open, and no bytes pass."""
    assert stage.brokers.forwarder is not None
    stage.brokers.forwarder.hold()
    return time.monotonic() + SILENCE_SECONDS


async def release_bytes(stage: Stage) -> None:
    """Bytes pass again."""
    assert stage.brokers.forwarder is not None
    stage.brokers.forwarder.release()


async def deny_writing(stage: Stage) -> float:
    """The right to write is taken away."""
    await stage.brokers.deny_writing(stage.relay.target)
    return time.monotonic()


#: The node of three that goes.
_VICTIM: Final = 3


async def kill_one_of_three(stage: Stage) -> float:
    """SIGKILL of a broker; two others answer."""
    begun = time.monotonic()
    await asyncio.to_thread(stage.brokers.cluster.nodes[_VICTIM - 1].kill)
    return begun


async def lose_follower(stage: Stage) -> float:
    """SIGKILL of a follower of the target. The request that awaits its copy stays unanswered until it times out
    after 30 s: brokers answer NOT_ENOUGH_REPLICAS only to later ones.
    """
    return await kill_one_of_three(stage) + SILENCE_SECONDS


async def restart_it(stage: Stage) -> None:
    """It comes back."""
    node = stage.brokers.cluster.nodes[_VICTIM - 1]
    await asyncio.to_thread(node.start)
    await asyncio.to_thread(node.wait_ready)


async def restart(stage: Stage) -> float:
    """Another relay is started in its place."""
    await asyncio.to_thread(stage.relay.stop)
    stage.relay.start()
    while not await stage.relay.status():  # noqa: ASYNC110 - nothing tells
        await asyncio.sleep(0.02)
    return time.monotonic()


async def stop_process(stage: Stage) -> float:
    """SIGSTOP of one of two processes."""
    os.kill(await _process(stage), signal.SIGSTOP)
    return time.monotonic() + SILENCE_SECONDS


async def continue_process(stage: Stage) -> None:
    """SIGCONT."""
    os.kill(await _process(stage), signal.SIGCONT)


async def _process(stage: Stage) -> int:
    return int((await stage.relay.status())["processes"]["1"]["pid"])


FAULTS: Final[dict[str, Fault]] = {
    "source-deleted": Fault(
        "source topic deleted",
        ERROR,
        ("source-topics",),
        delete_source,
        alerts=("RelaySourceTopicMissing", "RelayTopicUnread"),
    ),
    "target-deleted": Fault(
        "target topic deleted",
        ERROR,
        ("target",),
        delete_target,
        create_target,
        alerts=("RelayUnacknowledged",),
    ),
    "source-deleted-once": Fault(
        "source topic deleted, exactly-once", ERROR, ("source-topics",), delete_source, mode=EXACTLY_ONCE
    ),
    "target-deleted-once": Fault(
        "target topic deleted, exactly-once",
        ERROR,
        ("target",),
        delete_target,
        create_target,
        mode=EXACTLY_ONCE,
    ),
    "hung-once": Fault(
        "broker hangs, exactly-once",
        SILENCE,
        ("source", "target"),
        hold_bytes,
        release_bytes,
        mode=EXACTLY_ONCE,
    ),
    "history-deleted": Fault(
        "schema history topic deleted",
        ERROR,
        ("target", "schema-history"),
        delete_history,
        cures_itself=True,
        ddl_every=5,
    ),
    "dead-letters-deleted": Fault(
        "dead-letter topic deleted",
        ERROR,
        ("target",),
        delete_dead_letters,
        cures_itself=True,
        poison_every=5,
    ),
    "refused": Fault(
        "broker killed",
        REFUSED,
        ("source", "target"),
        kill_broker,
        restart_broker,
        alerts=("RelayLagUnknown", "RelaySchemaInferred"),
    ),
    "refused-idle": Fault(
        "broker killed, idle relay",
        REFUSED,
        ("source",),
        kill_broker,
        restart_broker,
        idle=True,
        alerts=("RelayLagUnknown",),
    ),
    "refused-busy": Fault(
        "broker killed, under load", REFUSED, ("source", "target"), kill_broker, restart_broker, load=400
    ),
    "hung": Fault(
        "broker hangs",
        SILENCE,
        ("source", "target"),
        hold_bytes,
        release_bytes,
        alerts=("RelayLagUnknown",),
    ),
    "hung-idle": Fault(
        "broker hangs, idle relay",
        SILENCE,
        ("source",),
        hold_bytes,
        release_bytes,
        idle=True,
        alerts=("RelayLagUnknown",),
    ),
    "hung-busy": Fault(
        "broker hangs, under load", SILENCE, ("source", "target"), hold_bytes, release_bytes, load=400
    ),
    "no-leader": Fault(
        "source partition without a leader",
        REFUSED,
        ("source", "offline-partitions"),
        kill_one_of_three,
        restart_it,
        brokers=3,
        replicas=((_VICTIM,), (1,)),
        alerts=("RelayOfflinePartitions", "RelayLagUnknown"),
    ),
    "no-leader-idle": Fault(
        "source partition without a leader, idle relay",
        REFUSED,
        ("source", "offline-partitions"),
        kill_one_of_three,
        restart_it,
        brokers=3,
        replicas=((_VICTIM,), (1,)),
        idle=True,
        alerts=("RelayOfflinePartitions",),
    ),
    "no-target-leader": Fault(
        "target partition without a leader",
        REFUSED,
        ("target", "offline-partitions"),
        kill_one_of_three,
        restart_it,
        brokers=3,
        replicas=((1,), (_VICTIM,)),
        alerts=("RelayOfflinePartitions", "RelayUnacknowledged"),
    ),
    "not-enough-replicas": Fault(
        "follower of the target killed: too few replicas in sync",
        SILENCE,
        ("target",),
        lose_follower,
        restart_it,
        brokers=3,
        replicas=((1,), (1, _VICTIM)),
        alerts=("RelayUnacknowledged",),
    ),
    "write-denied": Fault("right to write revoked", ERROR, ("target",), deny_writing, ends_relay=True),
    "slow-start": Fault("slow start: 8000 tables in the schema history", START, (), restart, tables=8000),
    "process-stopped": Fault(
        "one of two processes stopped (SIGSTOP)",
        SILENCE,
        ("processes",),
        stop_process,
        continue_process,
        processes=2,
    ),
}
