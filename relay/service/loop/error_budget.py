"""Limit how many records may fail although each has a policy.

A topic of another format, or a faulty producer, must not look like a working relay. There are two limits. At
the start of a run only a certain number of records may fail before anything is translated at all. Later only
a certain ratio of the records read may fail in a window of time. Beyond a limit relay ends before the next
record that fails, or goes on with a failing check (`records`).
"""

from __future__ import annotations

import time
from collections import deque
from collections.abc import Callable
from typing import Final, NamedTuple

from relay.config.keys import Errors, OverBudget
from relay.core.counts import changes_in
from relay.core.error_policies import nothing_relayed
from relay.model.errors import RelayError, TooManyFailures
from relay.model.records import RecordPosition
from relay.service.observe.figures import HasCounts
from relay.service.observe.status import Status

CHECK: Final = "records"
#: Maximum number of samples in a window.
_SAMPLES: Final = 60


class _Sample(NamedTuple):
    """Totals since the start, at a moment by the steady clock."""

    at: float
    failed: int
    translated: int


class ErrorBudget:
    """Decide how many records may fail. `protocol`: that of the source."""

    def __init__(
        self,
        wanted: Errors,
        protocol: str,
        translator: HasCounts,
        status: Status,
        *,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self._wanted, self._protocol = wanted, protocol
        self._translator, self._status, self._steady = translator, status, steady
        self._failed = 0
        # While nothing was translated: the records that failed, up to the limit. After a failed delivery they
        # come again.
        self._first: set[RecordPosition] | None = set()
        self._samples = deque([_Sample(steady(), 0, 0)])
        self._is_ratio_exceeded = False
        self._newest = ""

    def spend(
        self, error: RelayError, position: RecordPosition, named: Callable[[], Exception] | None = None
    ) -> TooManyFailures | None:
        """Count a failing record whose policy lets relay go on; return the error if relay must end before it.

        `named`: returns the error with the name of the record's format.
        """
        self._failed += 1
        self._newest = error.code
        if self._first is not None and not self._translated:
            return self._spend_first(self._first, error, position, named)
        self._first = None
        if self._is_ratio_exceeded and self._wanted.on_max_failure_ratio is OverBudget.STOP:
            newest = named() if named else error
            return TooManyFailures(
                f"{self._ratio_text()}; the newest is {newest}; see `max_failure_ratio` "
                "and `on_max_failure_ratio` in [errors]"
            )
        return None

    def look(self) -> None:
        """Compare failures with translations; called about once a second."""
        if self._first is not None and self._translated:
            self._first = None
        self._sample()
        if self._first:
            self._report_initial_failures(self._first)
            return
        self._is_ratio_exceeded = self._exceeds_ratio()
        if self._is_ratio_exceeded:
            self._status.set_check(CHECK, ok=False, detail=self._ratio_text())
        elif self._failed:
            self._status.set_check(CHECK, ok=True)

    @property
    def _translated(self) -> int:
        """Return the rows and statements translated since the start."""
        return changes_in(self._translator.events)

    def _spend_first(
        self,
        first: set[RecordPosition],
        error: RelayError,
        position: RecordPosition,
        named: Callable[[], Exception] | None,
    ) -> TooManyFailures | None:
        most = self._wanted.max_initial_failures
        if len(first) <= most or not first:
            first.add(position)
        self._report_initial_failures(first)
        if not most or len(first) <= most or self._wanted.on_max_initial_failures is not OverBudget.STOP:
            return None
        return nothing_relayed(len(first), named() if named else error, self._protocol)

    def _report_initial_failures(self, first: set[RecordPosition]) -> None:
        count = len(first) if len(first) <= self._wanted.max_initial_failures else self._failed
        detail = f"nothing was relayed since the start: {count} of {count} records failed ({self._newest})"
        self._status.set_check(CHECK, ok=False, detail=detail)

    def _sample(self) -> None:
        now, window = self._steady(), self._wanted.failure_window_seconds
        if now - self._samples[-1].at >= window / _SAMPLES:
            self._samples.append(_Sample(now, self._failed, self._translated))
        while len(self._samples) > 1 and now - self._samples[1].at >= window:
            self._samples.popleft()

    def _in_window(self) -> tuple[int, int]:
        """Return how many records have failed in the window, and how many were read."""
        oldest = self._samples[0]
        failed = self._failed - oldest.failed
        return failed, failed + self._translated - oldest.translated

    def _exceeds_ratio(self) -> bool:
        failed, read = self._in_window()
        return failed >= self._wanted.min_failures and failed > self._wanted.max_failure_ratio * read

    def _ratio_text(self) -> str:
        failed, read = self._in_window()
        seconds = self._wanted.failure_window_seconds
        ratio = self._wanted.max_failure_ratio
        return (
            f"{failed} of {read} records, rows and statements failed within {seconds:g} s ({self._newest}), "
            f"more than the ratio of {ratio:g}"
        )
