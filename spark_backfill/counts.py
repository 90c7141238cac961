"""Counters of a run, collected from every task by Spark's accumulators, and the summary at the end.

A task that Spark runs again counts once: the driver keeps the numbers of the Spark partitions that were
counted, and the sum of their counters.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Sequence
from collections.abc import Set as AbstractSet
from typing import Any, Final, Protocol

import msgspec
import pyarrow as pa
import pyarrow.compute as pc
from pyspark import TaskContext
from pyspark.accumulators import AccumulatorParam

from relay.core import summaries
from relay.core.summaries import MOST_NAMES, listed
from relay.model.records import ConsumerRecord, size_of
from relay.text.redaction import printable
from spark_backfill.columns import Stretch
from spark_backfill.terms import Bounds

#: More than any topic has.
_PARTITIONS: Final = 1 << 32


class BackfillCounts(msgspec.Struct):
    """Counters of a task, a step or a run.

    `left_out`: records outside the bounds, which are not among those `read`. `written`: by `topic/partition`.
    `inferred`: rows whose table's DDL was not known, by `database.table`; each task names its first tables.
    `inferred_reasons`: why it was unknown. `unwritten`: statements that removed rows and were not written.
    `copied_topics`: topics with statements that were left out as copies of those in partition 0. `tables`:
    rows and DDL by `database.table` and kind. `ranges`: first offset, last offset and number of records by
    `topic/partition`. `failed`: records that could not be translated, by their outcome (`skipped`, `dead
    letters`) and error code. `last_files`: the newest data file of each table of a storage sink.
    `unwritten_ddl`: topics in files whose DDL was left out, as nothing of their partition 0 was read.
    `warnings`: about the target topics.
    """

    read: int = 0
    read_bytes: int = 0
    left_out: int = 0
    written: Counter[str] = msgspec.field(default_factory=Counter)
    written_bytes: int = 0
    events: Counter[str] = msgspec.field(default_factory=Counter)
    tables: dict[str, Counter[str]] = msgspec.field(default_factory=dict)
    lost: Counter[str] = msgspec.field(default_factory=Counter)
    inferred: Counter[str] = msgspec.field(default_factory=Counter)
    inferred_reasons: dict[str, str] = msgspec.field(default_factory=dict)
    unwritten: dict[str, None] = msgspec.field(default_factory=dict)
    copied_topics: set[str] = msgspec.field(default_factory=set)
    failed: dict[str, Counter[str]] = msgspec.field(default_factory=dict)
    ranges: dict[str, tuple[int, int, int]] = msgspec.field(default_factory=dict)
    last_files: Sequence[str] = ()
    unwritten_ddl: Sequence[str] = ()
    warnings: Sequence[str] = ()

    def count_read(self, records: Sequence[ConsumerRecord]) -> None:
        """Count source records."""
        self.read += len(records)
        self.read_bytes += size_of(records)
        offsets: dict[tuple[str, int], list[int]] = {}
        for record in records:
            offsets.setdefault((record.topic, record.partition), []).append(record.offset)
        for (topic, partition), found in offsets.items():
            self._reach(f"{topic}/{partition}", (min(found), max(found), len(found)))

    def read_within(self, records: Iterable[ConsumerRecord], bounds: Bounds) -> list[ConsumerRecord]:
        """Return the records that are within the bounds; count them, and the others as left out."""
        given = list(records)
        within = given if bounds == Bounds() else list(filter(bounds.contains, given))
        self.left_out += len(given) - len(within)
        self.count_read(within)
        return within

    def count_read_rows(self, batch: pa.RecordBatch, stretches: Iterable[Stretch]) -> None:
        """Count source records, as a batch of `RECORDS`. `stretches`: its rows by partition."""
        self.read += len(batch)
        self.read_bytes += _bytes_in(batch)
        offsets = batch.column("offset")
        for each in stretches:
            count = each.end - each.first
            reached = pc.min_max(offsets.slice(each.first, count)).as_py()
            self._reach(f"{each.topic}/{each.partition}", (reached["min"], reached["max"], count))

    def count_written(self, batch: pa.RecordBatch) -> None:
        """Count records to write, as a batch of `PRODUCED`."""
        topics = batch.column("topic").dictionary_encode()
        partitions = batch.column("partition").cast(pa.int64())
        numbered = pc.add(pc.multiply(topics.indices.cast(pa.int64()), _PARTITIONS), partitions)
        for each in pc.value_counts(numbered).to_pylist():
            topic, partition = divmod(each["values"], _PARTITIONS)
            self.written[f"{topics.dictionary[topic]}/{partition}"] += each["counts"]
        self.written_bytes += _bytes_in(batch)

    def count_failed(self, what: str, code: str) -> None:
        """Count a record that was skipped or became a dead letter."""
        self.failed.setdefault(what, Counter())[code] += 1

    def add(self, other: BackfillCounts) -> None:
        """Add the counters of another part."""
        self.read += other.read
        self.read_bytes += other.read_bytes
        self.left_out += other.left_out
        self.written_bytes += other.written_bytes
        self.written.update(other.written)
        self.events.update(other.events)
        self.lost.update(other.lost)
        self.inferred.update(other.inferred)
        self.inferred_reasons = {**other.inferred_reasons, **self.inferred_reasons}
        self.unwritten |= other.unwritten
        self.copied_topics |= other.copied_topics
        for owned, given in ((self.tables, other.tables), (self.failed, other.failed)):
            for name, counter in given.items():
                owned.setdefault(name, Counter()).update(counter)
        for partition, reached in other.ranges.items():
            self._reach(partition, reached)

    def _reach(self, partition: str, more: tuple[int, int, int]) -> None:
        first, last, count = self.ranges.get(partition, (more[0], more[1], 0))
        self.ranges[partition] = (min(first, more[0]), max(last, more[1]), count + more[2])


def _bytes_in(batch: pa.RecordBatch) -> int:
    """Return the bytes in keys and values."""
    lengths = [pc.sum(pc.binary_length(batch.column(name))).as_py() for name in ("key", "value")]
    return sum(length or 0 for length in lengths)


#: By Spark partition.
Parts = dict[int, BackfillCounts]


class Tally(msgspec.Struct):
    """The sum of the counters of tasks. `tasks`: the Spark partitions that they have read."""

    tasks: set[int] = msgspec.field(default_factory=set)
    counts: BackfillCounts = msgspec.field(default_factory=BackfillCounts)

    def add(self, tasks: AbstractSet[int], counts: BackfillCounts) -> None:
        """Add the counters of tasks, unless these tasks have been counted."""
        if self.tasks.isdisjoint(tasks):
            self.tasks |= tasks
            self.counts.add(counts)


class Accumulator(Protocol):
    """The sum over all tasks in Spark."""

    def add(self, term: Parts) -> None:
        """Add to it."""
        ...


def hand_over(counts: BackfillCounts, counters: Accumulator) -> None:
    """Add the counters of the current task to those of all tasks.

    They are stored by the number of the Spark partition, which a task that runs again has as well, even in a
    stage that Spark makes anew.
    """
    context = TaskContext.get()
    counters.add({context.partitionId() if context else 0: counts})


class CountsParam(AccumulatorParam[Any]):
    """How Spark's accumulator adds counters: `Parts` in a task, and the `Tally` of each in the driver."""

    def zero(self, value: Tally) -> Tally:  # noqa: ARG002 - Spark's signature
        """Return empty counters."""
        return Tally()

    def addInPlace(self, value1: Tally, value2: Tally | Parts) -> Tally:  # noqa: N802 - Spark's name
        """Return the counters of both; for a task that ran twice, those of its first run."""
        if isinstance(value2, Tally):
            value1.add(value2.tasks, value2.counts)
        else:
            for task, counts in value2.items():
                value1.add({task}, counts)
        return value1


def as_document(counts: BackfillCounts, seconds: float) -> dict[str, Any]:
    """Return the summary as JSON, with all the facts of `as_text`, unabridged."""
    return {
        "records_read": counts.read,
        "bytes_read": counts.read_bytes,
        "records_left_out": counts.left_out,
        "records_written": counts.written.total(),
        "bytes_written": counts.written_bytes,
        "seconds": round(seconds, 3),
        "written": _sorted(counts.written),
        "events": _sorted(counts.events),
        "tables": {name: _sorted(kinds) for name, kinds in sorted(counts.tables.items())},
        "lost": _sorted(counts.lost),
        "unwritten_ddl": list(counts.unwritten_ddl),
        "unwritten_statements": list(counts.unwritten),
        "inferred_tables": _sorted(counts.inferred),
        "inferred_reasons": dict(sorted(counts.inferred_reasons.items())),
        "warnings": list(counts.warnings),
        "failed": {what: _sorted(codes) for what, codes in sorted(counts.failed.items())},
        "ranges": {
            partition: {"first_offset": first, "last_offset": last, "records": records}
            for partition, (first, last, records) in sorted(counts.ranges.items())
        },
        **({"last_files": list(counts.last_files)} if counts.last_files else {}),
    }


def as_text(counts: BackfillCounts, seconds: float) -> list[str]:
    """Return the summary in a few lines, in the format of `relay translate`."""
    lines = [f"{counts.read} records read, {counts.written.total()} written in {seconds:.1f} s"]
    if counts.left_out:
        lines.append(f"  left out by start and end  {counts.left_out}")
    lines += summaries.counted("events", counts.events)
    lines += summaries.lost(counts.lost)
    lines += summaries.unwritten_ddl(counts.unwritten_ddl)
    lines += summaries.unwritten_statements(list(counts.unwritten))
    lines += summaries.inferred(counts.inferred, counts.inferred_reasons)
    lines += [f"  warning  {printable(each)}" for each in counts.warnings]
    lines += [f"  {name}  {listed(kinds)}" for name, kinds in sorted(counts.tables.items())[:MOST_NAMES]]
    if len(counts.tables) > MOST_NAMES:
        lines.append(f"  and {len(counts.tables) - MOST_NAMES} more tables")
    lines += [f"  {what}  {listed(codes)}" for what, codes in sorted(counts.failed.items())]
    lines += [f"  up to  {path}" for path in counts.last_files[:MOST_NAMES]]
    if len(counts.last_files) > MOST_NAMES:
        lines.append(f"  and {len(counts.last_files) - MOST_NAMES} more files")
    return lines


def _sorted(counter: Counter[str]) -> dict[str, int]:
    return dict(sorted(counter.items()))
