"""The service's status: the loop updates it once a round; health, metrics and the status page read it.

Updates are cheap and never block; sums, rates and lags are computed on request. All of it happens in one
thread, without locks. The status holds topics, positions, counts, codes and the messages of relay's own
errors, and never a row's value.
"""

from __future__ import annotations

import time
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any, Final, NamedTuple

from relay.core.counts import OTHER_TABLES
from relay.io.kafka.ports import Partition
from relay.service.observe.about import About
from relay.service.observe.figures import (
    Check,
    ErrorSummary,
    HasCounts,
    Histogram,
    Progress,
    Sample,
    Totals,
    Traffic,
    TranslatorCounts,
)
from relay.text.redaction import printable

STARTING, RUNNING, DRAINING, STOPPED = "starting", "running", "draining", "stopped"
#: The parts of a round that are timed. The core has no clock, so decoding and encoding are one stage.
STAGES: Final = ("translate", "produce", "commit")

#: Upper bounds of the histograms: seconds of a stage, records of a poll.
STAGE_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BATCH_RECORDS: Final = (1, 10, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)

#: Interval of the samples that rates and the history are made of, and how many are kept: an hour.
SAMPLE_SECONDS: Final = 10.0
SAMPLES: Final = 361
LAST_ERRORS: Final = 20
MOST_WARNINGS: Final = 20
LONGEST_TEXT: Final = 500
#: Maximum age of a wait for the rate limits that still holds reading back.
LIMITED_SECONDS: Final = 2.0
#: Maximum age in seconds of an end offset that counts as just observed.
END_SECONDS: Final = 5.0
#: The checks that fail in an outage: its beginning and its end are logged.
OUTAGES: Final = frozenset(
    {
        "source",
        "source-topics",
        "target",
        "topics",
        "offline-partitions",
        "commit",
        "schema-history",
        "records",
    }
)


class Status:
    """The loop's reports.

    Times are seconds since 1970 from `now`; ages and rates use `steady`, a clock that is never set back.
    """

    def __init__(
        self,
        about: About,
        now: Callable[[], float] = time.time,
        *,
        steady: Callable[[], float] = time.monotonic,
    ) -> None:
        self.about, self.now, self.steady = about, now, steady
        self.translator: HasCounts | None = None
        #: Nothing is written or committed: only the records that would be written are counted.
        self.is_dry_run = False
        self.records_translated = 0
        self.phase, self.started = STARTING, now()
        self.phase_since = self.started
        self.partitions: dict[Partition, Progress] = {}
        #: When the partitions were last assigned, by the steady clock.
        self.assigned_at = steady()
        self.last_commit: float | None = None
        self.consumption: dict[str, Traffic] = {}
        self.production: dict[str, Traffic] = {}
        self.describe(about)
        #: Traffic of relay's own topics, by purpose.
        self.own_production = {kind: Traffic() for kind in about.own_topics.values()}
        self.totals = Totals()
        self.batches = Histogram(BATCH_RECORDS)
        self.stages = {stage: Histogram(STAGE_SECONDS) for stage in STAGES}
        self.errors: Counter[tuple[str, str]] = Counter()
        #: By stage and code, the newest first.
        self.last_errors: deque[ErrorSummary] = deque(maxlen=LAST_ERRORS)
        #: About the target's topics, the oldest first.
        self.warnings: list[str] = []
        self.dead_letters: Counter[str] = Counter()
        self.skips: Counter[str] = Counter()
        self.schemas = 0
        self.checks: dict[str, Check] = {}
        #: The report of each of several processes, and the process that reads a partition; by their numbers.
        self.processes: dict[int, ProcessReport] = {}
        self.readers: dict[Partition, int] = {}
        #: Called at the beginning of an outage with the failing check and the reason, and at its end with the
        #: check and the duration in seconds.
        self.on_failure: Callable[[str, str], object] | None = None
        self.on_recovery: Callable[[str, float], object] | None = None
        #: Offsets that were read and that the target has not acknowledged; None: not known yet.
        self.in_flight: int | None = None
        #: Since when records are in flight, or when the last acknowledgement came, by the steady clock.
        self.in_flight_since: float | None = None
        self._acknowledgements = 0
        #: How long reading has waited for the rate limits, in seconds, and when it last did, by the steady
        #: clock.
        self.rate_limited_seconds = 0.0
        self.rate_limited_at: float | None = None
        #: Partitions without a leader, by "source" and "target".
        self.offline: dict[str, frozenset[Partition]] = {}
        # Since when, in seconds since 1970.
        self._outages: dict[str, float] = {}
        self._newest_ms: int | None = None
        self._heartbeat_at: float | None = None
        self._samples: deque[Sample] = deque((self.sample(),), maxlen=SAMPLES)

    def describe(self, about: About) -> None:
        """Take the facts about the route, with its present topics."""
        self.about = about
        for topic in about.topics:
            self.consumption.setdefault(topic, Traffic())
        for topic in (*(about.by_name or about.topics.values()), about.by_table):
            if topic:
                self.production.setdefault(topic, Traffic())

    def __getstate__(self) -> dict[str, Any]:
        """Return the state sent to a supervisor: all but the history and process-local objects.

        Steady clocks are shared by all processes of a machine.
        """
        left_out = {"now", "steady", "_samples", "on_failure", "on_recovery"}
        kept = {name: value for name, value in vars(self).items() if name not in left_out}
        return kept | {"translator": TranslatorCounts.of(self.translator)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Restore a status received from another process."""
        vars(self).update(kept)
        self.now, self.steady, self.on_failure, self.on_recovery = time.time, time.monotonic, None, None
        self._samples = deque((self.sample(),), maxlen=SAMPLES)

    # Called by the loop.

    def enter_phase(self, phase: str) -> None:
        """Note the phase of the run: "starting", "running", "draining" or "stopped"."""
        if phase != self.phase:
            self.phase, self.phase_since = phase, self.now()
        # The heartbeat counts from here on, so that a loop that never turns is noticed, too.
        self._heartbeat_at = self.steady()

    def heartbeat(self) -> None:
        """Note that the loop turns."""
        self._heartbeat_at = at = self.steady()
        if at - self._samples[-1].at >= SAMPLE_SECONDS:
            self._samples.append(self.sample())

    def assigned(self, partitions: Iterable[Partition]) -> None:
        """Replace the set of assigned partitions; progress of those that stay is kept."""
        self._newest_ms = self.newest_ms
        self.partitions = {
            partition: self.partitions.get(partition) or Progress() for partition in partitions
        }
        self.assigned_at = self.steady()

    def progress(
        self,
        partition: Partition,
        *,
        position: int,
        end: int | None,
        timestamp_ms: int | None,
        committed: int | None = None,
        end_age: float | None = 0.0,
    ) -> None:
        """Note the progress of a partition.

        `position`: the next offset. `end`: the partition's end. `timestamp_ms`: the Kafka timestamp of the
        newest record that was read. `committed`: an offset that was found committed. `end_age`: how many
        seconds ago the end was reported.

        None leaves a value unchanged. A partition that is not assigned is ignored: by now it has another
        owner.
        """
        progress = self.partitions.get(partition)
        if progress is None:
            return
        progress.position = position
        if committed is not None:
            progress.committed = committed
        if end is not None:
            self._note_end(progress, end, None if end_age is None else self.steady() - end_age)
        if timestamp_ms is not None and timestamp_ms >= 0:
            progress.timestamp_ms = timestamp_ms

    @staticmethod
    def _note_end(progress: Progress, end: int, at: float | None) -> None:
        """Note an end unless a newer one is known."""
        if progress.end_at is not None and (at is None or at < progress.end_at):
            return
        progress.end, progress.end_at = end, at

    def end_observed(self, partition: Partition, end: int) -> None:
        """Note the end of a partition as the brokers have just reported it."""
        if partition in self.partitions:
            self._note_end(self.partitions[partition], end, self.steady())

    def without_end(self, seconds: float) -> list[Partition]:
        """Return the partitions whose position is known and whose end is older than `seconds`."""
        before = self.steady() - seconds
        return [
            partition
            for partition, each in self.partitions.items()
            if each.position is not None and (each.end_at is None or each.end_at < before)
        ]

    def note_in_flight(self, offsets: int, acknowledgements: int) -> None:
        """Note how many offsets were read and not acknowledged.

        `acknowledgements`: the number of acknowledgements since the start.
        """
        if not offsets:
            self.in_flight_since = None
        elif self.in_flight_since is None or acknowledgements != self._acknowledgements:
            self.in_flight_since = self.steady()
        self.in_flight, self._acknowledgements = offsets, acknowledgements

    def database_times(self, partition: Partition, *, row_ms: int | None, watermark_ms: int | None) -> None:
        """Note the database's own times of a partition.

        `row_ms`: when the newest row that was read was committed. `watermark_ms`: the time of the last
        watermark. None leaves a value unchanged.
        """
        progress = self.partitions.get(partition)
        if progress is None:
            return
        if row_ms is not None:
            progress.row_ms = row_ms
        if watermark_ms is not None:
            progress.watermark_ms = watermark_ms

    def committed(self, offsets: Mapping[Partition, int]) -> None:
        """Note the offsets of a commit that has succeeded, and its time."""
        if self.is_dry_run:
            return
        for partition, offset in offsets.items():
            if partition in self.partitions:
                self.partitions[partition].committed = offset
        if offsets:
            self.last_commit = self.now()

    def consumed(self, topic: str, records: int, size: int) -> None:
        """Count records read from a topic; `size` is in bytes of keys and values."""
        _count(self.consumption, topic, self.totals.consumed, records, size)

    def produced(self, topic: str, records: int, size: int) -> None:
        """Count records acknowledged for a topic; `size` is in bytes of keys and values.

        Topics of tables are counted together: there may be thousands. Records of relay's own topics are not
        the target's.
        """
        own = self.about.own_topics.get(topic)
        if self.is_dry_run:
            self.records_translated += 0 if own else records
            return
        if own is not None:
            self.own_production[own].records += records
            self.own_production[own].size += size
            return
        if self.about.by_table and topic not in self.production:
            topic = self.about.by_table
        _count(self.production, topic, self.totals.produced, records, size)

    def rate_limited(self, seconds: float) -> None:
        """Note that reading has just waited for the rate limits."""
        self.rate_limited_seconds += seconds
        self.rate_limited_at = self.steady()

    def batch(self, records: int) -> None:
        """Count the records of one round. Empty rounds are no batches."""
        if records:
            self.batches.add(records)

    def observe(self, stage: str, seconds: float) -> None:
        """Note how long a stage of a round took: one of `STAGES`."""
        histogram = self.stages.get(stage)
        if histogram is None:
            histogram = self.stages[stage] = Histogram(STAGE_SECONDS)
        histogram.add(seconds)

    def add_error(self, stage: str, code: str, position: str, message: str) -> None:
        """Count an error and keep it as the newest of its stage and code.

        `position` is `topic/partition/offset`, or "" if the error concerns no single record. `message` is
        relay's own, never a row's values.
        """
        self.errors[stage, code] += 1
        now = self.now()
        found = ErrorSummary(stage, code, _clean(position), _clean(message), now, now)
        for before in self.last_errors:
            if (before.stage, before.code) == (stage, code):
                found.first, found.count = before.first, before.count + 1
                self.last_errors.remove(before)
                break
        self.last_errors.appendleft(found)

    def warn(self, message: str) -> None:
        """Keep a warning about a topic, once each and up to `MOST_WARNINGS`."""
        text = _clean(message)
        if text not in self.warnings and len(self.warnings) < MOST_WARNINGS:
            self.warnings.append(text)

    def dead_letter(self, code: str) -> None:
        """Count a record that became a dead letter."""
        self.dead_letters[code] += 1

    def skipped(self, code: str) -> None:
        """Count a record that was left out."""
        self.skips[code] += 1

    def schema_versions(self, count: int) -> None:
        """Note how many table definitions the catalog holds."""
        self.schemas = count

    def set_check(self, name: str, ok: bool, detail: str = "", reason: str = "") -> None:
        """Set a line of /readyz. `reason`: see Check.

        The names are "configuration", "topics", "source", "source-topics", "target", "offline-partitions",
        "commit", "schema-history", "records" and "member".
        """
        before = self.checks.get(name)
        since = before.since if before and before.ok == ok else self.now()
        self.checks[name] = Check(ok, _clean(detail), since, reason)
        if ok:
            self._end_outage(name)
        elif name in OUTAGES and name not in self._outages:
            self._outages[name] = since
            if self.on_failure is not None:
                self.on_failure(name, detail)

    def recovered(self, *names: str) -> None:
        """Note that failing checks are ok again, after an operation that they cover succeeded."""
        for name in names:
            if name in self.checks and not self.checks[name].ok:
                self.set_check(name, ok=True)
            self._end_outage(name)

    def _end_outage(self, name: str) -> None:
        since = self._outages.pop(name, None)
        if since is not None and self.on_recovery is not None:
            self.on_recovery(name, max(0.0, self.now() - since))

    # Read by health, metrics and the status page.

    @property
    def silent(self) -> Mapping[int, int]:
        """Return for how many seconds each of several processes has reported nothing; see TogetherStatus."""
        return {}

    def is_at_work(self, number: int) -> bool:
        """Return whether one of several processes relays; see TogetherStatus."""
        report = self.processes.get(number)
        return report is not None and report.status.phase == RUNNING

    @property
    def is_alive(self) -> bool:
        """Return whether the loop turns.

        It must do so only while running: a start may wait for a group, and a stop has a separate time limit.
        """
        age = self.heartbeat_age
        return self.phase != RUNNING or age is None or age <= self.about.heartbeat_limit_seconds

    @property
    def heartbeat_age(self) -> float | None:
        """Return the seconds since the loop's last turn; None before the first."""
        if self._heartbeat_at is None:
            return None
        return max(0.0, self.steady() - self._heartbeat_at)

    @property
    def newest_ms(self) -> int | None:
        """Return the latest Kafka timestamp that was read: in the assigned partitions, else in earlier."""
        known = [
            progress.timestamp_ms
            for progress in self.partitions.values()
            if progress.timestamp_ms is not None
        ]
        return max(known, default=self._newest_ms)

    def is_end_current(self, progress: Progress) -> bool:
        """Return whether the end of a partition was just observed: not in an outage."""
        source = self.checks.get("source")
        if progress.end_at is None or (source is not None and not source.ok):
            return False
        return self.steady() - progress.end_at <= END_SECONDS

    def lag_of(self, progress: Progress) -> int | None:
        """Return the number of a partition's unread records; None unless its end was just observed."""
        return progress.lag if self.is_end_current(progress) else None

    def committed_lag_of(self, progress: Progress) -> int | None:
        """Return the number of a partition's uncommitted records; None unless its end was just observed."""
        return progress.committed_lag if self.is_end_current(progress) else None

    @property
    def lag(self) -> int | None:
        """Return the consumer lag in records, of the assigned partitions where it is known; None if none."""
        return _sum_of_known(map(self.lag_of, self.partitions.values()))

    @property
    def committed_lag(self) -> int | None:
        """Return the uncommitted records of the assigned partitions where that is known; None if none is."""
        return _sum_of_known(map(self.committed_lag_of, self.partitions.values()))

    @property
    def is_lag_exact(self) -> bool:
        """Return whether partitions are assigned, and the lag of each is known."""
        every = [self.lag_of(each) for each in self.partitions.values()]
        return bool(every) and None not in every

    @property
    def is_rate_limited(self) -> bool:
        """Return whether the rate limits hold reading back: it has just waited, and records wait."""
        at = self.rate_limited_at
        return at is not None and self.steady() - at < LIMITED_SECONDS and self.lag != 0

    @property
    def in_flight_age(self) -> float | None:
        """Return the seconds that records have been in flight without an acknowledgement; 0 without any."""
        if self.in_flight is None:
            return None
        since = self.in_flight_since
        return 0.0 if since is None else max(0.0, self.steady() - since)

    def sample(self) -> Sample:
        """Return the totals of this moment."""
        read, written = self.totals.consumed, self.totals.produced
        given_up = self.dead_letters.total() + self.skips.total()
        stages = {stage: (histogram.count, histogram.sum) for stage, histogram in self.stages.items()}
        # A sum that lacks partitions would look like a jump when they come.
        unknown = any(self.lag_of(progress) is None for progress in self.partitions.values())
        return Sample(
            self.steady(),
            self.now(),
            read.records,
            read.size,
            written.records,
            written.size,
            given_up,
            None if unknown else self.lag,
            stages,
        )

    @property
    def inferred_tables(self) -> dict[str, int]:
        """Return rows by table name, of tables whose DDL was unknown; the first tables only."""
        found = self.translator.inferred_tables if self.translator is not None else {}
        return {_clean(str(table)): rows for table, rows in found.items()}

    @property
    def tables(self) -> dict[str, Counter[str]]:
        """Return rows and statements by table and kind; those of the tables beyond a number are under ""."""
        found: dict[str, Counter[str]] = {}
        counted = self.translator.counts_by_table if self.translator is not None else {}
        for table, kinds in counted.items():
            name = "" if table == OTHER_TABLES else _clean(str(table))
            found.setdefault(name, Counter()).update(kinds)
        return found

    @property
    def samples(self) -> Sequence[Sample]:
        """Return the samples of the last hour, oldest first."""
        return self._samples


class ProcessReport(NamedTuple):
    """The report of one of several processes.

    `collections`: statistics of its garbage collector, in the form of `gc.get_stats`.
    """

    pid: int
    status: Status
    collections: list[dict[str, int]]


def _count(topics: dict[str, Traffic], topic: str, total: Traffic, records: int, size: int) -> None:
    traffic = topics.get(topic)
    if traffic is None:
        traffic = topics[topic] = Traffic()
    for each in (traffic, total):
        each.records += records
        each.size += size


def _sum_of_known(figures: Iterable[int | None]) -> int | None:
    known = [each for each in figures if each is not None]
    return sum(known) if known else None


def _clean(text: str) -> str:
    return printable(text, longest=LONGEST_TEXT)
