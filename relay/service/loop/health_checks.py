"""Check the brokers by observing requests, in the background: the loop may be waiting for a missing answer.

A check fails at the first evidence: a refused connection, an error in an answer, a request without an answer.
It is ok again only with proof: the target has acknowledged records, or the source has answered.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Awaitable, Callable, Coroutine, Iterable, Sequence
from typing import Final, NamedTuple

from relay.io.kafka.ports import Fault, FaultKind, Health, Partition, PollFailed
from relay.model.errors import ServiceError
from relay.service.check.reasons import Side
from relay.service.loop.history import Schemas
from relay.service.loop.offset_tracker import Connections, OffsetTracker
from relay.service.observe.status import Status
from relay.text.redaction import first_of

#: How often the positions of all partitions are reported.
REPORT_SECONDS: Final = 1.0
#: Maximum age of an end offset: while many records of a partition wait, it is not fetched.
END_SECONDS: Final = 2.0
#: Interval between attempts to create missing topics that relay may create.
CREATE_SECONDS: Final = 5.0
#: Maximum delay of a check. Beyond it, this process was stopped or busy, and answers may be unread.
_LATE_SECONDS: Final = 1.0
_MOST_NAMES: Final = 20

SOURCE: Final = "source"
TARGET: Final = "target"
COMMIT, HISTORY = "commit", "schema-history"
SOURCE_TOPICS, NEW_TOPICS, OFFLINE = "source-topics", "new-topics", "offline-partitions"


class _Failure(NamedTuple):
    """Why a check fails, and when it last did. `by_loop`: reported by the loop, not observed in requests."""

    detail: str
    kind: FaultKind | None
    at: float
    by_loop: bool


class HealthChecks:
    """Check the current source and sink.

    `create_topics` recreates relay's own topics if they are missing. `check_seconds`: between two updates.
    """

    def __init__(  # noqa: PLR0913 - the parts that are checked
        self,
        connections: Connections,
        tracker: OffsetTracker,
        schemas: Schemas,
        status: Status,
        *,
        create_topics: Callable[[], Awaitable[object]],
        find_reason: Callable[[Side], Coroutine[object, object, str]],
        check_seconds: float,
    ) -> None:
        self._connections, self._tracker, self._schemas = connections, tracker, schemas
        self._status, self._create_topics, self._find_reason = status, create_topics, find_reason
        self._check_seconds = check_seconds
        # Why brokers cannot be reached, by check.
        self._reasons: dict[str, str] = {}
        self._failures: dict[str, _Failure] = {}
        self._polled_at = self._create_at = self._report_at = float("-inf")

    # Reported by the loop.

    def failed(self, check: str, detail: str, kind: FaultKind | None = None, *, by_loop: bool = True) -> None:
        """Note a failure of SOURCE, TARGET or COMMIT. `by_loop`: it lasts until the loop succeeds."""
        self._fail(check, _Failure(detail, kind, time.monotonic(), by_loop))

    def polled(self) -> None:
        """Note a poll that has succeeded."""
        self._polled_at = time.monotonic()

    # In the background.

    async def watch(self) -> None:
        """Check until cancelled."""
        async with asyncio.TaskGroup() as group:
            group.create_task(self._look_periodically())
            group.create_task(self._ask_for_ends())
            group.create_task(self._ask_for_reasons())

    async def _look_periodically(self) -> None:
        async with asyncio.TaskGroup() as group:
            creating: asyncio.Task[object] | None = None
            while True:
                at = time.monotonic()
                await asyncio.sleep(self._check_seconds)
                if time.monotonic() - at > self._check_seconds + _LATE_SECONDS:
                    continue
                if (
                    self.look()
                    and (creating is None or creating.done())
                    and time.monotonic() >= self._create_at
                ):
                    creating = group.create_task(self._create())

    async def _create(self) -> None:
        await self._create_topics()
        self._create_at = time.monotonic() + CREATE_SECONDS

    async def _ask_for_reasons(self) -> None:
        """Find out why brokers cannot be reached.

        A refused connection has a reason, such as a certificate, that the client does not pass on.
        """
        sides: tuple[Side, ...] = (SOURCE, TARGET)
        while True:
            await asyncio.sleep(self._check_seconds)
            for side in sides:
                failure = self._failures.get(side)
                if failure is None or failure.kind is not FaultKind.UNREACHABLE:
                    self._reasons.pop(side, None)
                elif side not in self._reasons:
                    self._reasons[side] = await self._find_reason(side)

    async def _ask_for_ends(self) -> None:
        """Refresh the end offsets of partitions that are not fetched because many of their records wait."""
        while True:
            await asyncio.sleep(self._check_seconds)
            if asked := self._status.without_end(END_SECONDS):
                # The loop meets the same error when it reads, and raises it if it must end relay.
                with contextlib.suppress(PollFailed, ServiceError):
                    ends = await self._connections.source.high_watermarks(asked)
                    for partition, end in ends.items():
                        self._status.end_observed(partition, end)

    def look(self) -> bool:
        """Update all checks. Return whether a topic that relay writes is missing."""
        source, sink = self._connections.source.health, self._connections.sink.health
        source_faults, sink_faults = self.source_faults(), sink.faults()
        self._look_at(SOURCE, source_faults, source)
        commit_faults = [each for each in source.faults() if each.group and not each.is_missing]
        self._look_at(COMMIT, commit_faults, source)
        self._look_at(TARGET, sink_faults, sink)
        history = self._schemas.history_health
        history_faults = [] if history is None else history.faults()
        if history is not None:
            self._look_at(HISTORY, history_faults, history)
        self._look_at_topics(source)
        self._look_for_leaders(source, sink)
        if time.monotonic() >= self._report_at:
            self._report_at = time.monotonic() + REPORT_SECONDS
            self._tracker.report_positions()
        self._status.note_in_flight(self._tracker.in_flight, self._tracker.acknowledgements)
        return any(each.is_missing for each in [*sink_faults, *history_faults])

    def source_faults(self) -> list[Fault]:
        """Return the faults of all readers of source topics; missing topics have a separate check."""
        readers = [self._connections.source.health, *self._schemas.reader_health]
        return sorted(
            each for reader in readers for each in reader.faults() if not each.group and not each.is_missing
        )

    def _look_at(self, check: str, faults: Sequence[Fault], health: Health) -> None:
        if faults:
            worst, before = faults[0], self._failures.get(check)
            by_loop = before is not None and before.by_loop
            detail = self._reasons.get(check) if worst.kind is FaultKind.UNREACHABLE else None
            self._fail(check, _Failure(detail or worst.detail, worst.kind, worst.last, by_loop))
        failure = self._failures.get(check)
        if failure is None:
            return
        if not faults and self._is_over(check, failure, health):
            del self._failures[check]
            self._status.set_check(check, ok=True)
        else:
            health.ask()

    def _is_over(self, check: str, failure: _Failure, health: Health) -> bool:
        """Return whether any request has succeeded since the failure."""
        if check == TARGET and self._tracker.in_flight:
            return self._tracker.acknowledged_at > failure.at
        if check == SOURCE and failure.by_loop:
            return self._polled_at > failure.at
        if check == COMMIT and failure.by_loop:
            return self._tracker.committed_at > failure.at
        return health.answered_at > failure.at or not health.observes

    def _fail(self, check: str, failure: _Failure) -> None:
        self._failures[check] = failure
        kind = failure.kind.name.lower() if failure.kind is not None else ""
        self._status.set_check(check, ok=False, detail=failure.detail, reason=kind)

    def _look_at_topics(self, source: Health) -> None:
        missing = sorted(set(source.missing_topics).intersection(self._status.about.topics))
        servers = self._status.about.source.brokers
        self._set(SOURCE_TOPICS, [f"{_listed(missing)} at {servers}: no such topic"] if missing else [])
        if missing:
            source.ask()

    def _look_for_leaders(self, source: Health, sink: Health) -> None:
        sides = {"source": source, "target": sink}
        self._status.offline = {name: frozenset(health.offline) for name, health in sides.items()}
        found = {name: sorted(health.offline) for name, health in sides.items() if health.offline}
        self._set(OFFLINE, [f"no leader for {_listed(each)} of the {name}" for name, each in found.items()])
        for name in found:
            sides[name].ask()

    def _set(self, check: str, problems: list[str]) -> None:
        """Set a check that appears with its first failure."""
        if problems or check in self._status.checks:
            self._status.set_check(check, ok=not problems, detail="; ".join(problems))


def _listed(names: Iterable[str | Partition]) -> str:
    return first_of([str(name) for name in names], _MOST_NAMES)
