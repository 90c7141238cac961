"""Look for running instances of a route, from outside.

Instances of at-least-once are members of the consumer group. Shards of exactly-once join no group, but commit
a transaction at least once a minute (`LoopSettings.refresh_seconds`), which their coordinator reports.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Final, NamedTuple

from relay.config import Config
from relay.config.kafka import shard_settings, source_cluster, target_cluster
from relay.io.kafka.clients import Brokers
from relay.model.errors import RelayRunning
from relay.service.check.cluster import ClusterInspection, ShardTransaction
from relay.text.redaction import plural

_PAUSE_SECONDS: Final = 0.5
#: Shortest time to watch shards: busy ones begin several transactions a second.
_MIN_WATCH_SECONDS: Final = 1.0

#: The newest transaction by transactional id: None if there is none, a text that says why it is unknown.
Transactions = Mapping[str, ShardTransaction | str | None]


class RunningInstances(NamedTuple):
    """Evidence of running instances, and reasons why some may run without any evidence."""

    evidence: Sequence[str] = ()
    unknown: Sequence[str] = ()


async def find_running_instances(
    config: Config, watch_seconds: float = 0.0, say: Callable[[str], object] = lambda _: None
) -> RunningInstances:
    """Look for running instances of the route.

    `watch_seconds`: how long to watch exactly-once shards, which commit at least once a minute; less by the
    time since their last transaction. `say`: receives the reason for waiting. Raises BrokerUnavailable.
    """
    found = RunningInstances() if config.uses_progress_topic else await _running_members(config)
    if not config.is_exactly_once or found.evidence:
        return found
    shards = await _running_shards(config, watch_seconds, say)
    return RunningInstances(shards.evidence, (*found.unknown, *shards.unknown))


async def require_stopped(
    config: Config, watch_seconds: float, say: Callable[[str], object]
) -> Sequence[str]:
    """Raise RelayRunning if instances of the route run; return reasons why some may run without any evidence.

    The arguments are those of `find_running_instances`.
    """
    found = await find_running_instances(config, watch_seconds, say)
    if found.evidence:
        raise RelayRunning(f"{'; '.join(found.evidence)}; stop all instances first; nothing was changed")
    return found.unknown


async def _group_members(config: Config) -> int | str:
    """Return the number of instances in the consumer group or, as text, why it is unknown."""
    cluster = ClusterInspection(Brokers.from_settings(source_cluster(config)))
    try:
        await cluster.connect()
        if not cluster.is_reached:
            return f"no broker answers at {config.source.bootstrap_servers}"
        found = await cluster.group(config.source.group_id)
        if isinstance(found, str):
            return found
        if not found.operations:
            return f"DESCRIBE on group {config.source.group_id} is not allowed"
        return len(found.members)
    finally:
        await cluster.close()


async def _running_members(config: Config) -> RunningInstances:
    members, group = await _group_members(config), config.source.group_id
    if isinstance(members, str):
        return RunningInstances(unknown=[f"whether group {group} has members is unknown: {members}"])
    if members:
        return RunningInstances([f"group {group} has {plural(members, 'active member')}"])
    return RunningInstances()


async def _running_shards(
    config: Config, watch_seconds: float, say: Callable[[str], object]
) -> RunningInstances:
    """Watch the transactions of all shards."""
    cluster = ClusterInspection(Brokers.from_settings(target_cluster(config)))
    try:
        await cluster.connect()
        if not cluster.is_reached:
            why = f"no broker answers at {config.target_servers}"
            return RunningInstances(unknown=[f"whether shards are running is unknown: {why}"])
        return await _watch(cluster, config, watch_seconds, say)
    finally:
        await cluster.close()


async def _watch(
    cluster: ClusterInspection, config: Config, watch_seconds: float, say: Callable[[str], object]
) -> RunningInstances:
    before = await _transactions(cluster, config)
    unknown = [
        f"the state of {name} is unknown: {why}" for name, why in before.items() if isinstance(why, str)
    ]
    evidence = _evidence(before, before, config)
    seconds = _watch_seconds(before, watch_seconds, time.time() * 1000)
    if evidence or not seconds:
        return RunningInstances(evidence, unknown)
    if seconds > _MIN_WATCH_SECONDS:
        say(
            f"waiting up to {seconds:.0f} s to see whether a shard is running: idle ones commit once a minute"
        )
    evidence = await _poll_until(time.monotonic() + seconds, before, cluster, config)
    return RunningInstances(evidence, unknown)


async def _poll_until(
    deadline: float, before: Transactions, cluster: ClusterInspection, config: Config
) -> list[str]:
    """Repeat the requests until there is evidence, or until the deadline of the monotonic clock."""
    while time.monotonic() < deadline:
        await asyncio.sleep(_PAUSE_SECONDS)
        evidence = _evidence(before, await _transactions(cluster, config), config)
        if evidence:
            return evidence
    return []


async def _transactions(cluster: ClusterInspection, config: Config) -> Transactions:
    ids = [each.transactional_id for each in shard_settings(config)]
    return {each: await cluster.transaction(each) for each in ids}


def _watch_seconds(seen: Transactions, watch_seconds: float, now_ms: float) -> float:
    """Return how long to watch: less if the last transaction of each shard is old, as far as is known."""
    starts = [each.started_ms for each in seen.values() if isinstance(each, ShardTransaction)]
    if not watch_seconds or not starts:
        return 0.0
    age = 0.0 if min(starts) < 0 else max(0.0, (now_ms - max(starts)) / 1000)
    return max(min(watch_seconds, _MIN_WATCH_SECONDS), watch_seconds - age)


def _evidence(before: Transactions, now: Transactions, config: Config) -> list[str]:
    """Return the evidence of running instances."""
    found, longest = [], config.delivery.transaction_timeout_seconds
    for name, each in now.items():
        if not isinstance(each, ShardTransaction):
            continue
        if each.is_open:
            found.append(
                f"{name} has an open transaction: its instance is running, or was killed. In the second case "
                f"the brokers abort the transaction within {longest:.0f} s: try again then"
            )
        elif each != before[name] and not isinstance(before[name], str):
            found.append(f"{name} has just committed a transaction: its instance is running")
    return found
