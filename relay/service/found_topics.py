"""The source topics of a running relay that a pattern chooses: found at the start, and followed from then on.

A topic that is found later is checked as at a start, before it is read; until it passes, the check
`new-topics` fails, and it is checked again. It is read from its beginning, or from `start`, so no record is
missed. A topic that is gone is not read any more.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable

from relay.config import Config
from relay.io.kafka.admin import TopicAdmin
from relay.io.kafka.clients import Brokers
from relay.io.kafka.topics_to_read import TopicsToRead
from relay.io.logs import Log
from relay.model.errors import BrokerUnavailable, TopicUnusable
from relay.service.loop.health_checks import NEW_TOPICS, SOURCE_TOPICS
from relay.service.loop.stopping import Stop
from relay.service.observe.status import Status
from relay.topics.matching import nothing_matches, written_matches

_HEARTBEAT_SECONDS = 5.0
_UNREAD = "these topics match topics_pattern, and are not read, because this route may write them"

#: Prepares the route for more topics. `added`: a configuration with these alone. Raises TopicUnusable.
Admit = Callable[[Config], Awaitable[object]]


class FoundTopics:
    """The topics of a route, and its configuration with them.

    Without a pattern they are those of the configuration. `to_read`: their names, for the source.
    """

    def __init__(self, config: Config, brokers: Brokers, log: Log, status: Status) -> None:
        self.config, self._log, self._status = config, log, status
        self._admin = TopicAdmin(brokers)
        self._seconds = config.source.metadata_max_age_ms / 1000
        self.to_read = TopicsToRead(config.source.topics)

    @property
    def can_change(self) -> bool:
        """Return whether topics may come and go."""
        return bool(self.config.source.topics_pattern)

    async def find(self, stop: Stop) -> bool:
        """Wait until a topic matches. False: the relay is to stop. Raises BrokerUnavailable at first."""
        if not self.can_change:
            return True
        reported = ""
        names = await stop.unless_stopped(self._admin.names())
        while names is not None:
            if found := [name for name in names if self.config.reads(name)]:
                if written := written_matches(self.config, names):
                    self._log.info("topics.unread", topics=written, message=_UNREAD)
                self.config = self.config.with_topics(found)
                self.to_read.names = self.config.source.topics
                return True
            message = nothing_matches(self.config, names)
            self._status.set_check(SOURCE_TOPICS, ok=False, detail=message)
            if message != reported:
                self._log.warning("topics.none", message=f"{message}; relay waits for one")
            reported = message
            await self._pause(stop)
            names = await self._names_now(stop, names)
        return False

    async def _pause(self, stop: Stop) -> None:
        """Wait for the next look, with heartbeats: waiting is no hang."""
        until = time.monotonic() + self._seconds
        while not stop.is_set() and (left := until - time.monotonic()) > 0:
            self._status.heartbeat()
            await stop.sleep(min(left, _HEARTBEAT_SECONDS))

    async def _names_now(self, stop: Stop, before: list[str]) -> list[str] | None:
        """Return the names of all topics, or those of before if no broker answers; None after a stop."""
        if stop.is_set():
            return None
        try:
            return await stop.unless_stopped(self._admin.names())
        except BrokerUnavailable:
            return before

    async def follow(self, admit: Admit, changed: Callable[[Config], object]) -> None:
        """Look for topics until cancelled: from time to time, and once in between after a rebalance.

        Then another member of the group may have found one. `admit`: prepares the route for more topics.
        `changed`: receives the configuration before the source reads other topics.
        """
        while True:
            began = time.monotonic()
            if await self.to_read.until_assigned(self._seconds):
                await self._look(admit, changed)
                await asyncio.sleep(began + self._seconds - time.monotonic())
            await self._look(admit, changed)

    async def _look(self, admit: Admit, changed: Callable[[Config], object]) -> None:
        # While no broker answers, the check `source` fails.
        with contextlib.suppress(BrokerUnavailable):
            await self._compare(admit, changed)

    async def _compare(self, admit: Admit, changed: Callable[[Config], object]) -> None:
        known = set(self.config.source.topics)
        found = {name for name in await self._admin.names() if self.config.reads(name)}
        admitted = await self._admitted(sorted(found - known), admit)
        gone = known - found
        if not found or not (admitted or gone):
            # Without any topic, the check of missing topics fails.
            return
        self.config = self.config.with_topics([*(known - gone), *admitted])
        changed(self.config)
        if gone:
            message = "these topics do not exist any more; records of them that were not read are lost"
            self._log.warning("topics.gone", topics=sorted(gone), message=message)
        if admitted:
            self._log.info("topics.found", topics=admitted)
        self.to_read.names = self.config.source.topics

    async def _admitted(self, new: list[str], admit: Admit) -> list[str]:
        """Return the new topics that can be relayed, and report the others."""
        problems = dict.fromkeys(new, "")
        if new and await self._problem(new, admit):
            # One topic with a problem refuses all that are admitted with it.
            problems = {name: await self._problem([name], admit) for name in new}
        self._report([problem for problem in problems.values() if problem])
        return [name for name, problem in problems.items() if not problem]

    async def _problem(self, names: list[str], admit: Admit) -> str:
        """Prepare the route for more topics; return why it cannot relay them, "" if it can."""
        try:
            await admit(self.config.with_topics(names))
        except TopicUnusable as error:
            return str(error)
        return ""

    def _report(self, problems: list[str]) -> None:
        """Set the check of new topics, which appears with its first failure."""
        if problems or NEW_TOPICS in self._status.checks:
            self._status.set_check(NEW_TOPICS, ok=not problems, detail="; ".join(problems))
        if problems:
            self._log.rate_limited("topics.unusable", "", reason="; ".join(problems))
