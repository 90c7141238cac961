"""Recover the loop after a failure: wait, replace the failed client, and read again from safe offsets.

Only a new client helps after some failures. A producer of aiokafka refuses everything after one batch that
failed, and a consumer may stall when brokers come and go: it stays connected and receives no records.
"""

from __future__ import annotations

import itertools
import time
from collections.abc import Awaitable, Callable, Coroutine

from relay.io.kafka.ports import FaultKind, Owner, PollFailed, Undelivered
from relay.io.logs import Log
from relay.model.errors import BrokerUnavailable, DeliveryFailed, ServiceError
from relay.service.check.reasons import Side
from relay.service.loop.health_checks import SOURCE, TARGET, HealthChecks
from relay.service.loop.history import Schemas
from relay.service.loop.offset_tracker import Connections, OffsetTracker
from relay.service.loop.settings import LoopSettings
from relay.service.loop.stopping import Stop
from relay.service.observe.status import Status

#: Consecutive failed deliveries of a kind that waiting does not cure.
GIVE_UP_DELIVERIES = 3
#: Consecutive failed polls after which the loop tests whether any broker answers.
GIVE_UP_POLLS = 20
#: A consumer is replaced after this many consecutive checks that found unread records.
STALLED_AFTER_CHECKS = 2


class Recovery:
    """Handle failed polls, failed deliveries and a stalled source.

    `checks`: those of the brokers. `is_sink_abandoned`: the sink was discarded with batches in flight, and
    nothing has been rewound yet.
    """

    def __init__(  # noqa: PLR0913 - the parts that may fail, and their observers
        self,
        connections: Connections,
        tracker: OffsetTracker,
        schemas: Schemas,
        stop: Stop,
        log: Log,
        status: Status,
        *,
        check_topics: Callable[[], Awaitable[object]],
        find_reason: Callable[[Side], Coroutine[object, object, str]],
        settings: LoopSettings,
    ) -> None:
        self._connections, self._tracker, self._schemas = connections, tracker, schemas
        self.checks = HealthChecks(
            connections,
            tracker,
            schemas,
            status,
            create_topics=self.check_topics,
            find_reason=find_reason,
            check_seconds=settings.check_seconds,
        )
        self._stop, self._log, self._status, self._check_topics = stop, log, status, check_topics
        self._find_reason, self._settings = find_reason, settings
        self.is_sink_abandoned = False
        self._failed_polls = 0
        self._last_heard, self._stalled_checks = time.monotonic(), 0

    async def back_off(self, failures: int) -> None:
        """Wait, longer with every failure in a row."""
        self._status.heartbeat()
        waits = self._settings.backoff_seconds
        await self._stop.sleep(waits[min(failures, len(waits)) - 1])

    async def check_topics(self) -> None:
        """Report unusable topics, and recreate relay's own if missing: the client reports only a timeout."""
        try:
            await self._check_topics()
        except ServiceError as error:
            self._log.warning("topics.unusable", reason=str(error))
            self._status.set_check("topics", ok=False, detail=str(error))
        else:
            self._status.set_check("topics", ok=True)

    # The source.

    async def after_failed_poll(self, error: Exception, check: str = SOURCE) -> None:
        """Read every partition again from its position: records may have been lost with the exception.

        `check`: the one that fails with it.
        """
        self._failed_polls += 1
        self._log.warning("poll.failed", reason=str(error), failures=self._failed_polls)
        self._status.add_error("poll", BrokerUnavailable.code, "", str(error))
        self.checks.failed(check, str(error))
        # An outage is waited out, however long; a failure that goes on while brokers answer needs an
        # operator.
        is_odd = isinstance(error, PollFailed) and self._failed_polls >= GIVE_UP_POLLS
        if is_odd and await self._stop.unless_stopped(self._connections.source.waiting()) is not None:
            raise BrokerUnavailable(f"reading failed {self._failed_polls} times in a row: {error}") from error
        self._tracker.reread()
        await self.back_off(self._failed_polls)

    def after_poll(self) -> None:
        """Note that a poll has succeeded."""
        self._failed_polls = 0
        self.checks.polled()

    async def is_consumer_stalled(self, *, heard: bool) -> bool:
        """Return whether the consumer gets no records although some wait.

        `heard`: there were records, or there is no reason to expect any.
        """
        now = time.monotonic()
        if heard:
            self._last_heard, self._stalled_checks = now, 0
            return False
        if now - self._last_heard < self._settings.stall_check_seconds:
            return False
        self._last_heard = now
        records_wait = await self._stop.unless_stopped(self._connections.source.waiting())
        if self._stop.is_set():
            return False
        if records_wait is None:
            faults = self.checks.source_faults()
            why = faults[0].detail if faults else "no answer in time"
            await self._report_unreachable(why, by_loop=False)
        self._stalled_checks = self._stalled_checks + 1 if records_wait else 0
        if self._stalled_checks < STALLED_AFTER_CHECKS:
            return False
        self._stalled_checks = 0
        return True

    async def replace_source(self, owner: Owner) -> None:
        """Retry until a new source has started, or a stop is requested."""
        for attempts in itertools.count(1):
            await self._connections.source.stop()
            source = self._connections.new_source()
            self._tracker.counts.sources += 1
            try:
                await self._stop.unless_stopped(source.start(owner))
            except BrokerUnavailable as error:
                await self._report_unreachable(str(error), by_loop=True)
            else:
                return
            if self._stop.is_set():
                return
            await self.back_off(attempts)

    async def _report_unreachable(self, why: str, *, by_loop: bool) -> None:
        why = await self._stop.unless_stopped(self._find_reason("source")) or why
        self._log.warning("source.unreachable", message=f"{why}; relay waits")
        self._status.add_error("poll", BrokerUnavailable.code, "", why)
        self.checks.failed(SOURCE, why, FaultKind.UNREACHABLE, by_loop=by_loop)

    # The sink.

    async def abandon_sink(self) -> None:
        """Discard the sink with its batches in flight; the loop recovers at its next turn."""
        await self._connections.sink.abandon()
        self.is_sink_abandoned = True

    async def after_failed_delivery(self, error: Undelivered) -> None:
        """Replace the sink and read again from safe offsets."""
        tracker = self._tracker
        if not error.retriable:
            tracker.failed_deliveries += 1
        self._log.warning("delivery.failed", reason=str(error), retriable=error.retriable)
        self._report_failed_delivery(DeliveryFailed.code, str(error))
        if tracker.failed_deliveries >= GIVE_UP_DELIVERIES:
            tracker.rounds.clear()
            raise DeliveryFailed(
                f"writing failed {tracker.failed_deliveries} times in a row: {error}"
            ) from error
        await self._connections.sink.abandon()
        self.is_sink_abandoned = False
        tracker.rewind()
        # Records learned out of turn since then are learned again.
        await self._stop.unless_stopped(self._schemas.rewound(tracker.positions))
        if tracker.rewinds > 1 or not error.retriable:
            # A topic's limits may have shrunk since the start, or it may now require keys: the next sink uses
            # the new settings.
            await self._stop.unless_stopped(self.check_topics())
        for attempts in itertools.count(1):
            await self.back_off(attempts)
            if await self.replace_sink() or self._stop.is_set():
                return

    async def replace_sink(self) -> bool:
        """Start a new sink; False if it does not start."""
        sink = self._connections.new_sink()
        try:
            await sink.start()
        except Undelivered as error:
            reason = await self._stop.unless_stopped(self._find_reason("target")) or str(error)
            self._log.warning("sink.unavailable", reason=reason)
            self._report_failed_delivery(BrokerUnavailable.code, reason)
            await sink.abandon()
            return False
        self._tracker.sink_replaced()
        self._log.info("sink.replaced")
        return True

    def _report_failed_delivery(self, code: str, why: str) -> None:
        self._status.add_error("produce", code, "", why)
        self.checks.failed(TARGET, why)
