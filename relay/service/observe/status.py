"""What the service knows about itself: the loop writes it down once a round; health, metrics and the status
page read it.

Writing is cheap and waits for nothing; sums, rates and lags are computed when somebody asks. All of it
happens in one thread, so nothing is locked. There are topics, positions, counts, codes and the messages of
relay's own errors here, and never a row's value.
"""

from __future__ import annotations

import time
from bisect import bisect_left
from collections import Counter, deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib.metadata import version
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from relay.codecs.losses import Lossy
from relay.config import Config
from relay.config.tables import Delivery
from relay.kafka.ports import Partition
from relay.kernel import engine_name
from relay.model import TableId
from relay.shown import printable, shown_option

STARTING, RUNNING, DRAINING, STOPPED = "starting", "running", "draining", "stopped"
#: The parts of a round that are timed. The core has no clock, so decoding and encoding are one stage.
STAGES: Final = ("translate", "produce", "commit")
#: Where an error can come up.
ERROR_STAGES: Final = ("poll", *STAGES)

#: Upper bounds of the histograms: seconds of a stage, records of a poll.
STAGE_SECONDS: Final = (0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1, 2.5, 5, 10, 30, 60)
BATCH_RECORDS: Final = (1, 10, 50, 100, 250, 500, 1000, 2500, 5000, 10_000)

#: Interval of the samples that rates and the history are made of, and how many are kept: an hour.
SAMPLE_SECONDS: Final = 10.0
SAMPLES: Final = 361
LAST_ERRORS: Final = 20
LONGEST_TEXT: Final = 500

#: A turn of the loop may wait for acknowledgements and then for a new producer, each as long as a delivery
#: may take.
_DELIVERIES_OF_A_TURN: Final = 2
_SHORTEST_LIMIT_SECONDS: Final = 60.0


def heartbeat_limit(delivery: Delivery) -> float:
    """Return the age in seconds from which a heartbeat means that the loop hangs: longer than any turn."""
    return max(_SHORTEST_LIMIT_SECONDS, _DELIVERIES_OF_A_TURN * delivery.delivery_timeout_seconds)


class Endpoint(msgspec.Struct, frozen=True):
    """One side of the route: its protocol, its options without secrets, and its brokers."""

    protocol: str
    options: Mapping[str, str]
    brokers: str


class About(msgspec.Struct, frozen=True):
    """What does not change while relay runs. `topics`: source to target topic; `mode` as in [delivery].

    `by_name`: the topics whose traffic is counted apart; that of all others, which are those of tables, is
    counted under `by_table` ("" where there are none). `has_row_keys`: keys of the target's records stand for
    rows. `processes`: how many share the work. `kernel`: what fills templates, "" if nothing does.
    """

    version: str
    source: Endpoint
    target: Endpoint
    topics: Mapping[str, str]
    group: str
    mode: str
    dead_letter_topic: str = ""
    heartbeat_limit_seconds: float = heartbeat_limit(Delivery())
    by_name: tuple[str, ...] = ()
    by_table: str = ""
    has_row_keys: bool = False
    processes: int = 1
    kernel: str = ""

    @classmethod
    def of(cls, config: Config) -> About:
        """Return what a configuration says. Storage addresses lose their parameters, which may be secret."""
        route = config.route
        by_table = [template.text for template, _ in config.templates if template.is_by_table]
        return cls(
            version=version("relay-cdc"),
            source=Endpoint(route.from_, _shown(route.from_options), config.source.bootstrap_servers),
            target=Endpoint(route.to, _shown(route.to_options), config.target_servers),
            topics=config.target_topics,
            group=config.source.group_id,
            mode=str(config.delivery.mode),
            dead_letter_topic=config.errors.dead_letter_topic,
            heartbeat_limit_seconds=heartbeat_limit(config.delivery),
            by_name=(*config.fixed_topics, *(config.own_topics.values() if by_table else ())),
            by_table=by_table[0] if by_table else "",
            has_row_keys=config.has_row_keys,
            processes=config.delivery.processes,
            kernel=engine_name(),
        )


def _shown(options: Mapping[str, str]) -> dict[str, str]:
    return {name: shown_option(name, value) for name, value in sorted(options.items())}


class HasCounts(Protocol):
    """The counters of a translator."""

    @property
    def events(self) -> Counter[str]:
        """Translated events by kind."""
        ...

    @property
    def lossy(self) -> Counter[Lossy]:
        """What could not be carried, by kind."""
        ...

    @property
    def guessed_tables(self) -> Mapping[TableId, int]:
        """Tables without known DDL of which rows were translated, and how many rows."""
        ...

    @property
    def ways(self) -> Counter[str]:
        """How many records templates have translated, and how many the straight line."""
        ...


class Counts(NamedTuple):
    """The counters of a translator as they were at some moment, or of several together."""

    events: Counter[str]
    lossy: Counter[Lossy]
    guessed_tables: dict[TableId, int]
    ways: Counter[str]

    @classmethod
    def of(cls, *translators: HasCounts | None) -> Counts:
        """Add them up."""
        total = cls(Counter(), Counter(), {}, Counter())
        for each in translators:
            if each is not None:
                total.events.update(each.events)
                total.lossy.update(each.lossy)
                total.ways.update(each.ways)
                for table, rows in each.guessed_tables.items():
                    total.guessed_tables[table] = total.guessed_tables.get(table, 0) + rows
        return total


class Histogram:
    """Counts values by their size."""

    __slots__ = ("bounds", "counts", "sum")

    def __init__(self, bounds: Sequence[float]) -> None:
        self.bounds = bounds
        self.counts = [0] * (len(bounds) + 1)
        self.sum = 0.0

    def add(self, value: float) -> None:
        """Count a value; one that equals a bound belongs to the bucket below it."""
        self.counts[bisect_left(self.bounds, value)] += 1
        self.sum += value

    @property
    def count(self) -> int:
        """How many values there were."""
        return sum(self.counts)


@dataclass(slots=True)
class Progress:
    """How far an assigned partition is read; None: not known yet. Offsets are the next to read or commit."""

    position: int | None = None
    end: int | None = None
    timestamp_ms: int | None = None
    committed: int | None = None

    @property
    def lag(self) -> int | None:
        """Offsets between the position and the end."""
        return None if self.position is None or self.end is None else max(0, self.end - self.position)


@dataclass(slots=True)
class Traffic:
    """What went through a topic since the start; `size` is in bytes."""

    records: int = 0
    size: int = 0


@dataclass(slots=True)
class Failure:
    """An error, and how often it came again with the same words. Times are seconds since 1970."""

    stage: str
    code: str
    place: str
    message: str
    first: float
    last: float
    count: int = 1


class Check(NamedTuple):
    """A line of /readyz; it has been so `since` then, in seconds since 1970."""

    ok: bool
    detail: str
    since: float


class Sample(NamedTuple):
    """The totals at one moment: `at` by the steady clock, `time` in seconds since 1970. `lag` is None unless
    it is known of all partitions.
    """

    at: float
    time: float
    consumed: int
    consumed_bytes: int
    produced: int
    produced_bytes: int
    lag: int | None
    stages: Mapping[str, tuple[int, float]]


@dataclass(slots=True)
class Totals:
    """Sums over all topics."""

    consumed: Traffic = field(default_factory=Traffic)
    produced: Traffic = field(default_factory=Traffic)


class Status:
    """What the loop reports. Times are seconds since 1970 from `now`; ages and rates go by `steady`, which
    nobody sets back.
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
        #: Nothing is written or committed, so nothing of that is counted.
        self.is_dry_run = False
        self.phase, self.started = STARTING, now()
        self.phase_since = self.started
        self.partitions: dict[Partition, Progress] = {}
        #: When the partitions were last handed out, by the steady clock.
        self.assigned_at = steady()
        self.last_commit: float | None = None
        self.consumption = {topic: Traffic() for topic in about.topics}
        targets = (*(about.by_name or about.topics.values()), about.by_table, about.dead_letter_topic)
        self.production = {topic: Traffic() for topic in targets if topic}
        self.totals = Totals()
        self.batches = Histogram(BATCH_RECORDS)
        self.stages = {stage: Histogram(STAGE_SECONDS) for stage in STAGES}
        self.errors: Counter[tuple[str, str]] = Counter()
        self.last_errors: deque[Failure] = deque(maxlen=LAST_ERRORS)
        self.dead_letters: Counter[str] = Counter()
        self.skips: Counter[str] = Counter()
        self.schemas = 0
        self.checks: dict[str, Check] = {}
        #: What each of several processes has told, and which of them reads a partition; by their numbers.
        self.processes: dict[int, ProcessReport] = {}
        self.readers: dict[Partition, int] = {}
        self._newest_ms: int | None = None
        self._heartbeat_at: float | None = None
        self._samples: deque[Sample] = deque((self.sample(),), maxlen=SAMPLES)

    def __getstate__(self) -> dict[str, Any]:
        """What a supervisor is told: all but the history, and what only lives in this process. Steady clocks
        are those of the machine.
        """
        left_out = {"now", "steady", "_samples"}
        kept = {name: value for name, value in vars(self).items() if name not in left_out}
        return kept | {"translator": Counts.of(self.translator)}

    def __setstate__(self, kept: dict[str, Any]) -> None:
        """Know what another process knew."""
        vars(self).update(kept)
        self.now, self.steady = time.time, time.monotonic
        self._samples = deque((self.sample(),), maxlen=SAMPLES)

    # What the loop calls.

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
        """Replace the set of assigned partitions; what is known of those that stay is kept."""
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
    ) -> None:
        """Note the next offset, the partition's end, the Kafka timestamp of the newest record that was read,
        and an offset that was found committed.

        None leaves what was known. A partition that is not assigned is ignored: by now it is somebody else's.
        """
        progress = self.partitions.get(partition)
        if progress is None:
            return
        progress.position = position
        if committed is not None:
            progress.committed = committed
        if end is not None:
            progress.end = end
        if timestamp_ms is not None and timestamp_ms >= 0:
            progress.timestamp_ms = timestamp_ms

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
        """Count what was read from a topic; `size` is in bytes of keys and values."""
        _count(self.consumption, topic, self.totals.consumed, records, size)

    def produced(self, topic: str, records: int, size: int) -> None:
        """Count what a topic has acknowledged; `size` is in bytes of keys and values. Topics of tables are
        counted together: there may be thousands.
        """
        if self.is_dry_run:
            return
        if self.about.by_table and topic not in self.production:
            topic = self.about.by_table
        _count(self.production, topic, self.totals.produced, records, size)

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

    def add_error(self, stage: str, code: str, place: str, message: str) -> None:
        """Count an error and keep it among the last ones; the same message again is the same error.

        `place` is a topic, partition and offset or a name. `message` is relay's own, never a row's values.
        """
        self.errors[stage, code] += 1
        place, message, now = _clean(place), _clean(message), self.now()
        for failure in self.last_errors:
            if (failure.stage, failure.code, failure.place, failure.message) == (stage, code, place, message):
                failure.count, failure.last = failure.count + 1, now
                self.last_errors.remove(failure)
                self.last_errors.appendleft(failure)
                return
        self.last_errors.appendleft(Failure(stage, code, place, message, now, now))

    def dead_letter(self, code: str) -> None:
        """Count a record that became a dead letter."""
        self.dead_letters[code] += 1

    def skipped(self, code: str) -> None:
        """Count a record that was left out."""
        self.skips[code] += 1

    def schema_versions(self, count: int) -> None:
        """Note how many table definitions the catalogue holds."""
        self.schemas = count

    def set_check(self, name: str, ok: bool, detail: str = "") -> None:
        """Set a line of /readyz: "configuration", "topics", "source", "target", "commit", "schema-history" or
        "member".
        """
        before = self.checks.get(name)
        since = before.since if before and before.ok == ok else self.now()
        self.checks[name] = Check(ok, _clean(detail), since)

    def recovered(self, *names: str) -> None:
        """Note that checks that were failing are ok again."""
        for name in names:
            if name in self.checks and not self.checks[name].ok:
                self.set_check(name, ok=True)

    # What health, metrics and the status page read.

    @property
    def is_alive(self) -> bool:
        """Whether the loop turns. It only has to while it is running: a start may wait for a group, and a
        stop has a time limit of its own.
        """
        age = self.heartbeat_age
        return self.phase != RUNNING or age is None or age <= self.about.heartbeat_limit_seconds

    @property
    def heartbeat_age(self) -> float | None:
        """Seconds since the loop's last turn; None before the first."""
        if self._heartbeat_at is None:
            return None
        return max(0.0, self.steady() - self._heartbeat_at)

    @property
    def newest_ms(self) -> int | None:
        """The latest Kafka timestamp that was read: in the assigned partitions, else in earlier ones."""
        known = [
            progress.timestamp_ms
            for progress in self.partitions.values()
            if progress.timestamp_ms is not None
        ]
        return max(known, default=self._newest_ms)

    @property
    def lag(self) -> int | None:
        """Records that wait in the assigned partitions, as far as known; None if of none of them."""
        known = [lag for progress in self.partitions.values() if (lag := progress.lag) is not None]
        return sum(known) if known or not self.partitions else None

    def sample(self) -> Sample:
        """Return the totals of this moment."""
        read, written = self.totals.consumed, self.totals.produced
        stages = {stage: (histogram.count, histogram.sum) for stage, histogram in self.stages.items()}
        # A sum that lacks partitions would look like a jump when they come.
        lag = None if any(progress.lag is None for progress in self.partitions.values()) else self.lag
        return Sample(
            self.steady(), self.now(), read.records, read.size, written.records, written.size, lag, stages
        )

    @property
    def guessed_tables(self) -> dict[str, int]:
        """Rows by the name of their table, of tables whose DDL was not known; the first tables only."""
        found = self.translator.guessed_tables if self.translator is not None else {}
        return {_clean(str(table)): rows for table, rows in found.items()}

    @property
    def samples(self) -> Sequence[Sample]:
        """The samples of the last hour, oldest first."""
        return self._samples


class ProcessReport(NamedTuple):
    """What one of several processes tells. `collections`: those of its garbage collector, as `gc.get_stats`
    has them.
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


def _clean(text: str) -> str:
    return printable(text, longest=LONGEST_TEXT)
