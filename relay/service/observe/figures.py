"""Counters, histograms and errors of the service: of translators, topics, partitions and stages."""

from __future__ import annotations

from bisect import bisect_left
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import NamedTuple, Protocol

from relay.codecs.losses import Loss
from relay.model.events import TableId


class HasCounts(Protocol):
    """The counters of a translator."""

    @property
    def events(self) -> Counter[str]:
        """Return translated events by kind."""
        ...

    @property
    def losses(self) -> Counter[Loss]:
        """Return the numbers of lost values by kind of loss."""
        ...

    @property
    def inferred_tables(self) -> Mapping[TableId, int]:
        """Return tables without known DDL whose rows were translated, and how many rows."""
        ...

    @property
    def paths(self) -> Counter[str]:
        """Return how many records templates have translated, and how many the pipeline."""
        ...

    @property
    def counts_by_table(self) -> Mapping[TableId, Counter[str]]:
        """Return rows and statements by table and kind; nothing if they are not counted."""
        ...

    @property
    def remembered_rows(self) -> int | None:
        """Return how many written rows are remembered; None without `deduplicate`."""
        ...


class TranslatorCounts(NamedTuple):
    """The counters of a translator at some moment, or of several together."""

    events: Counter[str]
    losses: Counter[Loss]
    inferred_tables: dict[TableId, int]
    paths: Counter[str]
    counts_by_table: dict[TableId, Counter[str]]
    remembered_rows: int | None = None

    @classmethod
    def of(cls, *translators: HasCounts | None) -> TranslatorCounts:
        """Add up the counters of these translators."""
        remembered = [each.remembered_rows for each in translators if each is not None]
        known = [rows for rows in remembered if rows is not None]
        total = cls(Counter(), Counter(), {}, Counter(), {}, sum(known) if known else None)
        for each in translators:
            if each is not None:
                total.events.update(each.events)
                total.losses.update(each.losses)
                total.paths.update(each.paths)
                for table, kinds in each.counts_by_table.items():
                    total.counts_by_table.setdefault(table, Counter()).update(kinds)
                for table, rows in each.inferred_tables.items():
                    total.inferred_tables[table] = total.inferred_tables.get(table, 0) + rows
        return total


class Histogram:
    """Count values by their size."""

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
        """Return the number of values."""
        return sum(self.counts)


@dataclass(slots=True)
class Progress:
    """Progress of an assigned partition; None: not known yet. Offsets are the next to read or commit.

    `end_at`: when the brokers reported the end, by the steady clock. `timestamp_ms`: the Kafka timestamp of
    the newest record that was read. `row_ms`, `watermark_ms`: when the newest row that was read was committed
    in the database, and the time of the last watermark, both by the database's clock.
    """

    position: int | None = None
    end: int | None = None
    end_at: float | None = None
    timestamp_ms: int | None = None
    committed: int | None = None
    row_ms: int | None = None
    watermark_ms: int | None = None

    @property
    def lag(self) -> int | None:
        """Return the number of offsets between the position and the newest known end."""
        return None if self.position is None or self.end is None else max(0, self.end - self.position)

    @property
    def committed_lag(self) -> int | None:
        """Return the number of offsets between the committed offset and the newest known end."""
        return None if self.committed is None or self.end is None else max(0, self.end - self.committed)


@dataclass(slots=True)
class Traffic:
    """Traffic through a topic since the start; `size` is in bytes."""

    records: int = 0
    size: int = 0


@dataclass(slots=True)
class ErrorSummary:
    """The errors of one stage and code.

    Their number, and the position and message of the newest. Times are seconds since 1970.
    """

    stage: str
    code: str
    position: str
    message: str
    first: float
    last: float
    count: int = 1


class Check(NamedTuple):
    """A line of /readyz, unchanged since `since`, in seconds since 1970.

    `reason`: the kind of a failure of brokers (`refused`, `unreachable`, `unanswered`), else "".
    """

    ok: bool
    detail: str
    since: float
    reason: str = ""


class Sample(NamedTuple):
    """The totals at one moment: `at` by the steady clock, `time` in seconds since 1970.

    `lag` is None unless it is known of all partitions. `given_up`: dead letters and skipped records.
    """

    at: float
    time: float
    consumed: int
    consumed_bytes: int
    produced: int
    produced_bytes: int
    given_up: int
    lag: int | None
    stages: Mapping[str, tuple[int, float]]


@dataclass(slots=True)
class Totals:
    """Sums over all source topics, and over all target topics."""

    consumed: Traffic = field(default_factory=Traffic)
    produced: Traffic = field(default_factory=Traffic)
