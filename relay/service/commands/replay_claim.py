"""Allow one replay of a dead-letter topic at a time: two would write everything twice.

A replay announces itself with a record in partition 0 of the topic and then reads the announcements of
others: the first one in the log proceeds, the others give up. It repeats the announcement while it runs and
writes a final record when it ends, so a killed replay blocks the topic only for a limited time.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import AsyncIterator, Iterable
from typing import Final

from relay.config import Config
from relay.config.kafka import producer_settings, target_cluster
from relay.dead_letters import read_claim, replay_claim
from relay.errors import DeliveryFailed, ReplayUnderWay
from relay.kafka.clients import Brokers
from relay.kafka.parts import Part, read_part
from relay.kafka.ports import Undelivered, start_sink
from relay.kafka.sink import KafkaSink
from relay.records import ConsumerRecord
from relay.service.commands.replay import target_topics

#: How long an announcement holds, and how often it is repeated.
LEASE_SECONDS: Final = 60.0
RENEW_SECONDS: Final = 15.0
#: How long our own announcement may stay invisible, and how often we look for it.
VISIBLE_SECONDS: Final = 30.0
PAUSE_SECONDS: Final = 0.2


@contextlib.asynccontextmanager
async def only_replay(config: Config) -> AsyncIterator[None]:
    """Be the only replay of the dead-letter topic in a `with` block.

    Raises ReplayUnderWay, DeliveryFailed, TopicUnusable, BrokerUnavailable.
    """
    topic, name = config.dead_letter_topic, uuid.uuid4().hex
    sink = KafkaSink(producer_settings(config), (await target_topics(config, [topic])).limits)

    async def announce(*, ends: bool = False) -> None:
        await sink.write([replay_claim(topic, name, int(time.time() * 1000), ends=ends)])

    async def renew() -> None:
        while True:
            await asyncio.sleep(RENEW_SECONDS)
            await announce()

    try:
        await start_sink(sink)
        await announce()
        renewing = asyncio.create_task(renew())
        try:
            await _check_first(config, name)
            yield
        finally:
            renewing.cancel()
            await asyncio.wait({renewing})
            with contextlib.suppress(Undelivered):
                await announce(ends=True)
    except Undelivered as error:
        raise DeliveryFailed(f"writing failed: {error}; run the replay again") from error
    finally:
        await sink.stop()


async def _check_first(config: Config, name: str) -> None:
    """Raise ReplayUnderWay if another replay announced itself before this one and has not ended."""
    topic, brokers = config.dead_letter_topic, Brokers.from_settings(target_cluster(config))
    part = Part(since_ms=int(1000 * (time.time() - LEASE_SECONDS)), partitions=(0,))
    deadline = time.monotonic() + VISIBLE_SECONDS
    while True:
        found: list[ConsumerRecord] = []
        await read_part(brokers, topic, part, found.append)
        names = _at_work(found)
        # An open transaction hides later records, including our own announcement.
        if name in names or time.monotonic() > deadline:
            break
        await asyncio.sleep(PAUSE_SECONDS)
    if names[:1] != [name]:
        raise ReplayUnderWay(
            f"another replay of {topic} may be running: wait until it has ended; one that was killed blocks "
            f"others for {LEASE_SECONDS:g} s"
        )


def _at_work(records: Iterable[ConsumerRecord]) -> list[str]:
    """Return the names of replays that announced themselves and have not ended, oldest first."""
    names: dict[str, None] = {}
    for record in records:
        claim = read_claim(record)
        if claim is None:
            continue
        if claim.ends:
            names.pop(claim.name, None)
        else:
            names.setdefault(claim.name)
    return list(names)
