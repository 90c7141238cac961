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
from relay.config.kafka import shard_settings, target_cluster
from relay.io.kafka.clients import Brokers
from relay.service.check.cluster import ClusterInspection, Transaction
from relay.service.commands.history_admin import members
from relay.service.commands.offsets import is_exactly_once, uses_progress_topic
from relay.text.redaction import plural

_PAUSE_SECONDS: Final = 0.5
#: Shortest time to watch shards: busy ones begin several transactions a second.
_LEAST_WATCH_SECONDS: Final = 1.0


class Activity(NamedTuple):
    """Evidence of running instances, and reasons why some may run without any evidence."""

    running: Sequence[str] = ()
    unknown: Sequence[str] = ()


async def activity(
    config: Config, watch_seconds: float = 0.0, say: Callable[[str], object] = lambda _: None
) -> Activity:
    """Look for running instances of the route.

    `watch_seconds`: how long to watch exactly-once shards, which commit at least once a minute; less by the
    time since their last transaction. `say`: receives the reason for waiting. Raises BrokerUnavailable.
    """
    running, unknown = list[str](), list[str]()
    if not uses_progress_topic(config):
        found, group = await members(config), config.source.group_id
        if isinstance(found, str):
            unknown.append(f"whether group {group} has members is unknown: {found}")
        elif found:
            running.append(f"group {group} has {plural(found, 'active member')}")
    if is_exactly_once(config) and not running:
        running, more = await _watched(config, watch_seconds, say)
        unknown += more
    return Activity(running, unknown)


Transactions = Mapping[str, Transaction | str | None]


async def _watched(
    config: Config, watch_seconds: float, say: Callable[[str], object]
) -> tuple[list[str], list[str]]:
    """Watch the transactions of all shards; return evidence of running instances, and what is unknown."""
    ids = [each.transactional_id for each in shard_settings(config)]
    cluster = ClusterInspection(Brokers.from_settings(target_cluster(config)))
    try:
        await cluster.connect()
        if not cluster.is_reached:
            return [], [
                f"whether shards are running is unknown: no broker answers at {config.target_servers}"
            ]
        before = {each: await cluster.transaction(each) for each in ids}
        unknown = [
            f"the state of {name} is unknown: {why}" for name, why in before.items() if isinstance(why, str)
        ]
        seconds = _watch_seconds(before, watch_seconds, time.time() * 1000)
        if seconds > _LEAST_WATCH_SECONDS and not _signs(before, before, config):
            say(
                f"waiting up to {seconds:.0f} s to see whether a shard is running: idle ones commit once "
                "a minute"
            )
        deadline, now = time.monotonic() + seconds, before
        while not (signs := _signs(before, now, config)) and time.monotonic() < deadline:
            await asyncio.sleep(_PAUSE_SECONDS)
            now = {each: await cluster.transaction(each) for each in ids}
        return signs, unknown
    finally:
        await cluster.close()


def _watch_seconds(seen: Transactions, watch_seconds: float, now_ms: float) -> float:
    """Return how long to watch: less if the last transaction of each shard is old, as far as is known."""
    starts = [each.started_ms for each in seen.values() if isinstance(each, Transaction)]
    if not watch_seconds or not starts:
        return 0.0
    age = 0.0 if min(starts) < 0 else max(0.0, (now_ms - max(starts)) / 1000)
    return max(min(watch_seconds, _LEAST_WATCH_SECONDS), watch_seconds - age)


def _signs(before: Transactions, now: Transactions, config: Config) -> list[str]:
    """Return the evidence of running instances."""
    found, longest = [], config.delivery.transaction_timeout_seconds
    for name, each in now.items():
        if isinstance(each, Transaction) and each.is_open:
            found.append(
                f"{name} has an open transaction: its instance is running, or was killed; then the brokers "
                f"end the transaction within {longest:.0f} s"
            )
        elif isinstance(each, Transaction) and each != before[name] and not isinstance(before[name], str):
            found.append(f"{name} has just committed a transaction: its instance is running")
    return found
