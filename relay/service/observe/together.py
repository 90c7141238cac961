"""The status of several processes as one.

Counts are added up, partitions are those of their newest owners, and a check is ok where it is ok in all
processes. A supervisor builds it from the reports of its processes, about one a second; metrics, /status and
the page are made from it as from the status of one process. The history and the rates are the supervisor's
own, computed from the sums.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Hashable, Iterable, Mapping, Sequence
from dataclasses import replace
from typing import Final, TypeVar

import msgspec

from relay.io.kafka.ports import Partition
from relay.service.observe.about import About
from relay.service.observe.figures import (
    Check,
    ErrorSummary,
    Histogram,
    Progress,
    Totals,
    Traffic,
    TranslatorCounts,
)
from relay.service.observe.status import (
    DRAINING,
    LAST_ERRORS,
    RUNNING,
    STARTING,
    STOPPED,
    ProcessReport,
    Status,
)

#: How long a process may stay silent; it should report once a second.
SILENT_SECONDS: Final = 5
_OVER: Final = frozenset({DRAINING, STOPPED})
Key = TypeVar("Key", bound=Hashable)


class TogetherStatus(Status):
    """The status of several processes of a run, each numbered from 0."""

    def __init__(
        self,
        about: About,
        now: Callable[[], float] = time.time,
        *,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        super().__init__(about, now, steady=steady)
        self._is_stopping = False
        # When each process last reported, by the steady clock, and the processes now shown as silent.
        self._reported_at: dict[int, float] = {}
        self._silent_shown: dict[int, int] = {}

    def stopping(self) -> None:
        """Note that the processes are asked to stop."""
        self._is_stopping = True
        self._enter(DRAINING)

    def report_from(self, number: int, report: ProcessReport) -> None:
        """Store the report of a process, replacing its earlier one."""
        self.processes[number] = report
        self._reported_at[number] = self.steady()
        self._join()

    def check_silence(self) -> None:
        """Notice processes that have reported nothing for a while, and those that report again."""
        if self._silent_shown != self.silent:
            self._join()

    @property
    def silent(self) -> dict[int, int]:
        """Return for how many whole seconds each process has reported nothing, of those that should have."""
        ages = {number: int(self.steady() - at) for number, at in self._reported_at.items()}
        return {
            number: age
            for number, age in ages.items()
            if age >= SILENT_SECONDS and self.processes[number].status.phase != STOPPED
        }

    def is_at_work(self, number: int) -> bool:
        """Return whether a process relays, as far as it has just reported."""
        report = self.processes.get(number)
        return report is not None and report.status.phase == RUNNING and number not in self.silent

    def _join(self) -> None:
        every = [self.processes[each].status for each in sorted(self.processes)]
        self._enter(self._common_phase(every))
        self._add_counts(every)
        self._find_positions(every)
        self._join_errors(every)
        self._silent_shown = silent = self.silent
        checks = _joined_checks({each: report.status for each, report in self.processes.items()})
        names = [f"process {number} (pid {self.processes[number].pid})" for number in silent]
        if names or "processes" in self.checks:
            detail = (
                f"no report for {max(silent.values(), default=0)} s from {', '.join(names)}" if names else ""
            )
            before = self.checks.get("processes")
            since = before.since if before and before.ok == (not names) else self.now()
            checks["processes"] = Check(not names, detail, since)
        self.checks = checks
        self.heartbeat()

    def ended(self, number: int) -> None:
        """Note that a process has ended, regardless of its last report."""
        if number in self.processes:
            self.processes[number].status.phase = STOPPED
            self.report_from(number, self.processes[number])

    @property
    def idle(self) -> list[int]:
        """Return the processes that have no partitions, if all are at work."""
        if self.phase != RUNNING:
            return []
        return [number for number, report in sorted(self.processes.items()) if not report.status.partitions]

    @property
    def is_alive(self) -> bool:
        """Return whether every loop that has to turn does."""
        return all(report.status.is_alive for report in self.processes.values())

    @property
    def heartbeat_age(self) -> float | None:
        """Return the seconds since the last turn of the longest-waiting loop; None before the first."""
        ages = [report.status.heartbeat_age for report in self.processes.values()]
        return max((age for age in ages if age is not None), default=None)

    @property
    def newest_ms(self) -> int | None:
        """Return the latest Kafka timestamp that was read.

        It is that of the process furthest behind where records wait, else of any.
        """
        known = [report.status for report in self.processes.values() if report.status.newest_ms is not None]
        late = [each.newest_ms or 0 for each in known if each.lag]
        return min(late) if late else max((each.newest_ms or 0 for each in known), default=None)

    def _enter(self, phase: str) -> None:
        if phase != self.phase:
            self.phase, self.phase_since = phase, self.now()

    def _common_phase(self, every: Sequence[Status]) -> str:
        phases = {each.phase for each in every}
        if phases == {STOPPED}:
            return STOPPED
        if self._is_stopping or phases & _OVER:
            return DRAINING
        return RUNNING if len(every) == self.about.processes and phases == {RUNNING} else STARTING

    def _add_topics(self, every: Sequence[Status]) -> None:
        """Take the topics that the processes have found by a pattern."""
        topics = {source: target for each in every for source, target in each.about.topics.items()}
        if topics != self.about.topics:
            by_name = tuple(dict.fromkeys(name for each in every for name in each.about.by_name))
            self.about = msgspec.structs.replace(self.about, topics=topics, by_name=by_name)

    def _add_counts(self, every: Sequence[Status]) -> None:
        self._add_topics(every)
        self.consumption = _added_topics(each.consumption for each in every)
        self.production = _added_topics(each.production for each in every)
        self.own_production = _added_topics(each.own_production for each in every)
        self.totals = Totals(
            _added(each.totals.consumed for each in every), _added(each.totals.produced for each in every)
        )
        self.batches = _added_histograms([each.batches for each in every])
        stages = dict.fromkeys(stage for each in every for stage in each.stages)
        self.stages = {
            stage: _added_histograms([each.stages[stage] for each in every if stage in each.stages])
            for stage in stages
        }
        self.dead_letters = _added_counters(each.dead_letters for each in every)
        self.rate_limited_seconds = sum(each.rate_limited_seconds for each in every)
        waited = [each.rate_limited_at for each in every if each.rate_limited_at is not None]
        self.rate_limited_at = max(waited, default=None)
        self.skips = _added_counters(each.skips for each in every)
        for warning in dict.fromkeys(text for each in every for text in each.warnings):
            self.warn(warning)
        self.translator = TranslatorCounts.of(*(each.translator for each in every))
        # They all learn of the same tables.
        self.schemas = max(each.schemas for each in every)

    def _find_positions(self, every: Sequence[Status]) -> None:
        """Assign each partition to its newest owner: reports from before a rebalance must not count twice."""
        in_turn = sorted(self.processes.items(), key=lambda item: item[1].status.assigned_at)
        self.readers = {each: number for number, report in in_turn for each in report.status.partitions}
        self.partitions: dict[Partition, Progress] = {
            partition: self.processes[number].status.partitions[partition]
            for partition, number in self.readers.items()
        }
        self.assigned_at = max(each.assigned_at for each in every)
        self.in_flight = _sum_or_none(each.in_flight for each in every)
        waiting = [each.in_flight_since for each in every if each.in_flight_since is not None]
        self.in_flight_since = min(waiting, default=None)
        sides = dict.fromkeys(side for each in every for side in each.offline)
        self.offline = {
            side: frozenset[Partition]().union(*(each.offline.get(side, ()) for each in every))
            for side in sides
        }
        # A process that commits must not hide one that does not, and one without records need not commit.
        late = [each.last_commit for each in every if each.lag]
        done = [each.last_commit for each in every if each.last_commit is not None]
        if late:
            self.last_commit = None if None in late else min(each for each in late if each is not None)
        else:
            self.last_commit = max(done, default=None)

    def _join_errors(self, every: Sequence[Status]) -> None:
        self.errors = _added_counters(each.errors for each in every)
        joined: dict[tuple[str, str], ErrorSummary] = {}
        oldest_first = sorted(
            (failure for each in every for failure in each.last_errors), key=lambda failure: failure.last
        )
        for one in oldest_first:
            before = joined.get((one.stage, one.code), replace(one, count=0))
            first, count = min(one.first, before.first), one.count + before.count
            joined[one.stage, one.code] = replace(one, first=first, count=count)
        newest = sorted(joined.values(), key=lambda failure: -failure.last)
        self.last_errors = deque(newest, maxlen=LAST_ERRORS)


def _joined_checks(statuses: Mapping[int, Status]) -> dict[str, Check]:
    """Return each check joined over all processes.

    It has the details of the processes in which it fails, or else of all, with the numbers of the processes
    unless it concerns all.
    """
    found: dict[str, Check] = {}
    for name in dict.fromkeys(name for status in statuses.values() for name in status.checks):
        lines = {number: each.checks[name] for number, each in statuses.items() if name in each.checks}
        failing = {number: each for number, each in lines.items() if not each.ok}
        shown = failing or lines
        reasons = {each.reason for each in shown.values()}
        details: dict[str, list[int]] = {}
        for number, each in sorted(shown.items()):
            details.setdefault(each.detail, []).append(number)
        since = (min if failing else max)(each.since for each in shown.values())
        reason = reasons.pop() if len(reasons) == 1 else ""
        found[name] = Check(not failing, _joined_details(details, len(statuses)), since, reason)
    return found


def _sum_or_none(figures: Iterable[int | None]) -> int | None:
    every = list(figures)
    return None if None in every else sum(each for each in every if each is not None)


def _joined_details(details: Mapping[str, Sequence[int]], processes: int) -> str:
    report = []
    for detail, numbers in details.items():
        who = f"process{'es'[: 2 * (len(numbers) > 1)]} {', '.join(map(str, numbers))}"
        report.append(detail if len(numbers) == processes else f"{who}: {detail}" if detail else "")
    return "; ".join(filter(None, report))


def _added_counters(counters: Iterable[Counter[Key]]) -> Counter[Key]:
    total: Counter[Key] = Counter()
    for each in counters:
        total.update(each)
    return total


def _added_topics(topics: Iterable[Mapping[str, Traffic]]) -> dict[str, Traffic]:
    total: dict[str, Traffic] = {}
    for each in topics:
        for topic, traffic in each.items():
            total[topic] = _added((total.get(topic, Traffic()), traffic))
    return total


def _added(traffic: Iterable[Traffic]) -> Traffic:
    every = list(traffic)
    return Traffic(sum(each.records for each in every), sum(each.size for each in every))


def _added_histograms(histograms: Sequence[Histogram]) -> Histogram:
    total = Histogram(histograms[0].bounds)
    total.counts = [sum(counts) for counts in zip(*(each.counts for each in histograms), strict=True)]
    total.sum = sum(each.sum for each in histograms)
    return total
