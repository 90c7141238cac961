"""Allow one replay of a dead-letter topic at a time: two would write everything twice.

A replay announces itself with a record in partition 0 of the topic and then reads the announcements of
others: the first one in the log proceeds. It repeats the announcement while it runs and writes a final record
when it ends. A later replay that finds an announcement watches the log: a repetition shows that the earlier
one is running; without any, the earlier one was killed, and the later one writes its final record. No clocks
are compared.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
import uuid
from collections.abc import Awaitable, Callable
from dataclasses import dataclass
from typing import Final

from relay.config import Config
from relay.config.kafka import producer_settings, target_cluster
from relay.core.dead_letters import read_claim, replay_claim
from relay.io.kafka.clients import Brokers
from relay.io.kafka.ports import Undelivered, start_sink
from relay.io.kafka.reading import Part, read_part
from relay.io.kafka.sink import KafkaSink
from relay.model.errors import DeliveryFailed, ReplayUnderWay
from relay.model.records import ConsumerRecord
from relay.service.commands.replay import Outcome, target_topics


@dataclass(frozen=True, kw_only=True)
class ClaimTimes:
    """The times of announcements.

    watch_seconds: How long to watch another replay that does not repeat its announcement.
    renew_seconds: How often an announcement is repeated.
    write_seconds: How long writing an announcement may take; together with `renew_seconds`, less than
        `watch_seconds`.
    visible_seconds: Maximum time until our announcement must be visible.
    pause_seconds: Between two reads of the log.
    """

    watch_seconds: float = 60.0
    renew_seconds: float = 15.0
    write_seconds: float = 30.0
    visible_seconds: float = 30.0
    pause_seconds: float = 0.5


_TIMES: Final = ClaimTimes()


async def only_replay(
    config: Config,
    replay: Callable[[], Awaitable[Outcome]],
    say: Callable[[str], object] = lambda _: None,
    times: ClaimTimes = _TIMES,
) -> Outcome:
    """Run a replay as the only one of the dead-letter topic. `say` receives the reason if it must wait.

    Raises ReplayUnderWay, DeliveryFailed, TopicUnusable, BrokerUnavailable, and the replay's own errors.
    """
    topic = config.dead_letter_topic
    sink = KafkaSink(producer_settings(config), (await target_topics(config, [topic])).limits)
    try:
        await start_sink(sink)
        return await _Claim(config, sink, say, times).hold(replay)
    except Undelivered as error:
        raise DeliveryFailed(
            f"writing failed: {error}; run the replay again for the remaining dead letters"
        ) from error
    finally:
        await sink.stop()


class _Claim:
    """The announcement of one replay."""

    def __init__(
        self, config: Config, sink: KafkaSink, say: Callable[[str], object], times: ClaimTimes
    ) -> None:
        self._topic, self._name, self._times = config.dead_letter_topic, uuid.uuid4().hex, times
        self._sink, self._say = sink, say
        self._log = _Log(Brokers.from_settings(target_cluster(config)), self._topic)

    async def hold(self, replay: Callable[[], Awaitable[Outcome]]) -> Outcome:
        """Run the replay when it is the only one. It ends with the first announcement that fails.

        Raises Undelivered, ReplayUnderWay, TopicUnusable, BrokerUnavailable.
        """

        async def work() -> Outcome:
            await self._wait_for_others()
            return await replay()

        await self._announce(self._name)
        working, renewing = asyncio.create_task(work()), asyncio.create_task(self._renew())
        try:
            await asyncio.wait({working, renewing}, return_when=asyncio.FIRST_COMPLETED)
            return working.result() if working.done() else renewing.result()
        finally:
            working.cancel()
            renewing.cancel()
            await asyncio.gather(working, renewing, return_exceptions=True)
            with contextlib.suppress(Undelivered):
                await self._announce(self._name, ends=True)

    async def _announce(self, name: str, *, ends: bool = False) -> None:
        """Write an announcement. Raises Undelivered."""
        record = replay_claim(self._topic, name, int(time.time() * 1000), ends=ends)
        try:
            async with asyncio.timeout(self._times.write_seconds):
                await self._sink.write([record])
        except TimeoutError as error:
            seconds = self._times.write_seconds
            reason = f"{self._topic}/0 did not acknowledge a record within {seconds:g} s"
            raise Undelivered(reason, retriable=True) from error

    async def _renew(self) -> Outcome:
        """Repeat the announcement until it fails. Raises Undelivered."""
        while True:
            await asyncio.sleep(self._times.renew_seconds)
            await self._announce(self._name)

    async def _wait_for_others(self) -> None:
        """Return when no other replay is ahead. Raises ReplayUnderWay if one repeats its announcement."""
        watched = await self._ahead()
        if watched:
            self._say(
                f"another replay of {self._topic} has not ended: waiting up to "
                f"{self._times.watch_seconds:g} s to see whether it is running"
            )
        deadline = time.monotonic() + self._times.watch_seconds
        ahead = watched
        while ahead and time.monotonic() < deadline:
            await asyncio.sleep(self._times.pause_seconds)
            ahead = await self._ahead()
            if any(count > watched[name] for name, count in ahead.items()):
                raise ReplayUnderWay(
                    f"another replay of {self._topic} is running: wait until it has ended, and run the "
                    "replay again"
                )
        for name in ahead:
            await self._announce(name, ends=True)

    async def _ahead(self) -> dict[str, int]:
        """Return the other replays that are ahead, and how often each has announced itself.

        Raises ReplayUnderWay if this replay's announcement cannot be seen.
        """
        deadline = time.monotonic() + self._times.visible_seconds
        while self._name not in await self._log.read():
            # An open transaction hides later records.
            if time.monotonic() > deadline:
                raise ReplayUnderWay(
                    f"{self._topic}/0 cannot be read to its end, so another replay may be running: a "
                    "transaction is open in it; run the replay again when it has ended"
                )
            await asyncio.sleep(self._times.pause_seconds)
        names = list(self._log.names)
        return {name: self._log.names[name] for name in names[: names.index(self._name)]}


class _Log:
    """The announcements in partition 0 of a topic.

    `names`: the replays that have not ended, in the order of their first announcements, and how often each
    has announced itself.
    """

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self._brokers, self._topic, self._next = brokers, topic, 0
        self.names: dict[str, int] = {}

    async def read(self) -> dict[str, int]:
        """Read new announcements and return `names`. Raises TopicUnusable, BrokerUnavailable."""
        await read_part(self._brokers, self._topic, Part(first=self._next, partitions=(0,)), self._take)
        return self.names

    def _take(self, record: ConsumerRecord) -> None:
        self._next = record.offset + 1
        claim = read_claim(record)
        if claim is None:
            return
        if claim.ends:
            self.names.pop(claim.name, None)
        else:
            self.names[claim.name] = self.names.get(claim.name, 0) + 1
