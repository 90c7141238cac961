"""What runs in Spark's workers: records in, records out, through the unchanged core, one batch of Arrow after
the other.

Every task has a translator of its own, whose catalogue holds the DDL of the whole source. A row takes its
definition as of its own position, so it does not matter which rows went before it through the same
translator, and a partition may be split anywhere.
"""

from __future__ import annotations

import json
import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, NamedTuple, Protocol

import pyarrow as pa
from pyspark import TaskContext

from relay.catalog import Catalog
from relay.config import Config
from relay.config.choices import FileFormat, Layout
from relay.errors import ConfigError, DecodeError, Malformed, Problem, RelayError, TopicUnusable
from relay.kafka.sizes import Limits, record_too_large
from relay.model import SchemaChange, TableId
from relay.needs import Need
from relay.policies import Policy
from relay.records import ConsumerRecord, ProducerRecord
from relay.resolver import Resolver
from relay.translator import Translator
from spark_backfill.counts import Counts, Parts
from spark_backfill.frames import PRODUCED, PRODUCED_WITH_TABLES, Produced, Reader, record_batch
from spark_backfill.layouts import TableFinder

#: Begins the text of what ended a task; the driver finds it in Spark's error, whatever stands around it.
STOP_MARK: Final = "relay-stopped:"
#: Where the letters of a source partition go if nobody says how many partitions the dead-letter topic has:
#: its own number.
OWN_PARTITION: Final = 1 << 31
#: The latest timestamp, in milliseconds, that is one of Spark's own times: microseconds in 64 bits.
LATEST_MS: Final = sys.maxsize // 1000


class Stopped(Exception):
    """What ends a task, as text that survives Spark: place, message and exit status, never a row's value."""

    def __init__(self, error: RelayError, place: str) -> None:
        # The message last: Spark may cut off long ones.
        known = {"place": place, "code": error.code, "status": error.exit_status, "message": str(error)}
        super().__init__(STOP_MARK + json.dumps(known))


class Bounds(NamedTuple):
    """Which records are translated: by `topic/partition` from the first offset and before the end; by
    timestamp (ms) the same.
    """

    first: Mapping[str, int] | None = None
    end: Mapping[str, int] | None = None
    since_ms: int | None = None
    before_ms: int | None = None

    def hold(self, record: ConsumerRecord) -> bool:
        """Whether the record is one of them."""
        place = f"{record.topic}/{record.partition}"
        return (
            (self.first or {}).get(place, 0) <= record.offset < (self.end or {}).get(place, sys.maxsize)
            and (self.since_ms is None or record.timestamp_ms >= self.since_ms)
            and (self.before_ms is None or record.timestamp_ms < self.before_ms)
        )


class Shared(Protocol):
    """A broadcast value."""

    @property
    def value(self) -> Catalog:
        """The value."""
        ...


class Adds(Protocol):
    """An accumulator."""

    def add(self, term: Parts) -> None:
        """Add to it."""
        ...


class OnlyDdl:
    """Keeps the records that may teach a catalogue: those with DDL. What cannot be read teaches nothing.
    `name`: for errors.
    """

    def __init__(self, config: Config, reader: Reader, name: str = "input") -> None:
        self.config, self.reader, self.name = config, reader, name

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records with DDL of a task, as `RECORDS`."""
        translator = self.config.translator()
        marks = translator.route.source.row_signature
        for batch in batches:
            records = read_records(self.reader, batch, self.name)
            found = [
                r for r in records if not (marks and marks.matches(r.key, r.value)) and _is_ddl(translator, r)
            ]
            if found:
                yield record_batch(found)


def _is_ddl(translator: Translator, record: ConsumerRecord) -> bool:
    translator.catalog = Catalog()
    try:
        return any(isinstance(event, SchemaChange) for event in translator.inspect(record))
    except (DecodeError, Need):
        return False


def read_records(reader: Reader, batch: pa.RecordBatch, name: str = "input") -> Iterator[ConsumerRecord]:
    """The records of a batch. Raises Stopped for what is no record. `name`: of what is read, for errors."""
    try:
        yield from reader.read(batch)
    except RelayError as error:
        raise Stopped(error, name) from error


class Terms(NamedTuple):
    """What the target's brokers say: how many partitions the dead-letter topic has, and `max.message.bytes`
    of every topic.

    Files say nothing. `partitions`: how many every topic has, where only the records tell which are written.
    """

    letter_partitions: int = OWN_PARTITION
    limits: Mapping[str, int] | None = None
    partitions: Mapping[str, int] | None = None


class Translate:
    """Translates the rows of a task."""

    def __init__(
        self,
        config: Config,
        reader: Reader,
        catalog: Shared,
        counters: Adds,
        bounds: Bounds,
        terms: Terms,
    ) -> None:
        self.config, self.reader, self.catalog, self.counters = config, reader, catalog, counters
        self.bounds, self.terms = bounds, terms
        self._by_table = bool(config.backfill.output) and config.backfill.output_layout is Layout.TABLE

        backfill = config.backfill
        as_times = backfill.output_format is FileFormat.PARQUET or backfill.output_layout is Layout.DATE
        #: What no timestamp may exceed.
        self.latest_ms = LATEST_MS if backfill.output and as_times else sys.maxsize

    @property
    def schema(self) -> str:
        """The columns of what comes out."""
        return PRODUCED_WITH_TABLES if self._by_table else PRODUCED

    def finder(self) -> TableFinder | None:
        """What finds the tables of records, if they are asked for."""
        return TableFinder(self.config) if self._by_table else None

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """The records to write of a task, with the columns of `schema`."""
        task = _Task(self)
        for batch in batches:
            yield from task.taken(batch)
        yield from task.flushed()
        task.finish()


class _Task:
    """One run over the rows of a Spark partition."""

    def __init__(self, job: Translate) -> None:
        self._job = job
        self._translator = job.config.translator(job.config.backfill.end_commit_ts or None)
        self._translator.catalog = job.catalog.value
        self._tables: Counter[tuple[TableId, str]] = Counter()
        self._finder = job.finder()
        self._translator.tables = Counter() if self._finder else self._tables
        self._resolver = Resolver()
        self._counts = Counts()
        self._out = Produced()
        self._limits = Limits(job.terms.limits) if job.terms.limits else None
        self._errors = job.config.error_policy(job.terms.letter_partitions)
        self._stores = "to" in self._translator.route.storages

    def taken(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Translate the rows of a batch; gives what is worth sending."""
        records = list(read_records(self._job.reader, batch))
        if self._job.bounds != Bounds():
            self._counts.left_out += len(records)
            records = [record for record in records if self._job.bounds.hold(record)]
            self._counts.left_out -= len(records)
        self._counts.took(records)
        if self._job.latest_ms < max([record.timestamp_ms for record in records], default=0):
            self._refuse_times(records)
        translate, out, is_checked = (
            self._translator.translate,
            self._out,
            self._stores or self._limits is not None,
        )
        for record in records:
            try:
                produced: Sequence[ProducerRecord] = translate(record)
                if is_checked:
                    self._check(produced, record)
            except (RelayError, Need) as error:
                produced = self._otherwise(record, error)
            out.add(produced, record)
            if self._finder is not None:
                # What could not be translated was not counted, and is read again.
                tables = self._tables_now()
                if produced:
                    out.belong(self._finder.of(produced, tables or self._translator.tables_of(record)))
            if out.is_full:
                yield from self.flushed()

    def _refuse_times(self, records: Iterable[ConsumerRecord]) -> None:
        late = next(record for record in records if record.timestamp_ms > self._job.latest_ms)
        message = "its timestamp is not in milliseconds, or later than a time of Spark can be"
        raise Stopped(Malformed("record", "timestamp", message), _place(late))

    def flushed(self) -> Iterator[pa.RecordBatch]:
        """What was gathered."""
        batch, records = self._out.take()
        if batch is not None:
            self._counts.made(records)
            yield batch

    def _tables_now(self) -> Sequence[TableId]:
        """The tables that were counted since the last call."""
        counted, self._translator.tables = self._translator.tables or Counter(), Counter()
        self._tables.update(counted)
        return tuple(dict.fromkeys(table for table, _ in counted))

    def _check(self, produced: Sequence[ProducerRecord], record: ConsumerRecord) -> None:
        """Raise RecordTooLarge for what its topic does not take, and store what the others refer to."""
        if self._job.terms.partitions is not None:
            _check_partitions(produced, record, self._job.terms.partitions)
        if self._limits is not None and (oversize := self._limits.too_large(produced)):
            raise record_too_large(record, oversize)
        if self._stores:
            for blob in (blob for out in produced for blob in out.blobs):
                self._resolver.store(blob)

    def _otherwise(self, record: ConsumerRecord, error: RelayError | Need[Any]) -> Sequence[ProducerRecord]:
        """What becomes of a record that was not translated at once: it needs an object, or its error has a
        policy.
        """
        if not isinstance(error, Need):
            return self._instead(record, error)
        try:
            produced = self._resolver.translate(self._translator, record)
            self._check(produced, record)
        except RelayError as another:
            return self._instead(record, another)
        return produced

    def _instead(self, record: ConsumerRecord, error: RelayError) -> Sequence[ProducerRecord]:
        """A dead letter, or nothing; raises Stopped if the policy says so, or if the letter is too large as
        well.
        """
        refused = self._errors.apply(error, record, self._translator)
        if refused.policy is Policy.STOP:
            raise Stopped(error, _place(record)) from error
        if self._limits is not None and (oversize := self._limits.too_large(refused.dead_letters)):
            raise Stopped(record_too_large(record, oversize), _place(record)) from error
        self._counts.refused(
            "dead letters" if refused.policy is Policy.DEAD_LETTER else "skipped", error.code
        )
        return refused.dead_letters

    def finish(self) -> None:
        """Hand over what was counted.

        By the number of the Spark partition: a task that runs again has it as well, also in a stage that
        Spark makes anew.
        """
        self._counts.events = self._translator.events
        self._counts.lost = Counter({str(what): count for what, count in self._translator.lossy.items()})
        for (table, kind), count in self._tables.items():
            self._counts.tables.setdefault(str(table), Counter())[kind] += count
        context = TaskContext.get()
        self._job.counters.add({context.partitionId() if context else 0: self._counts})


def _check_partitions(
    produced: Sequence[ProducerRecord], record: ConsumerRecord, partitions: Mapping[str, int]
) -> None:
    """Refuse what has no place in the target, before anything is written. Raises ConfigError, TopicUnusable."""
    for out in produced:
        count = partitions.get(out.topic)
        if count is None:
            message = f"does not name {record.topic}, whose records are among those of backfill.input"
            raise ConfigError([Problem("source.topics", message, f"add it; its target is {out.topic}")])
        if out.partition >= count:
            cure = "add partitions to it, or set partitions in [target]"
            raise TopicUnusable(
                f"the record belongs to partition {out.partition} of {out.topic}, which has {count}; {cure}"
            )


def _place(record: ConsumerRecord) -> str:
    return f"{record.topic}/{record.partition}/{record.offset}"


def learnt(config: Config, records: Iterable[ConsumerRecord], catalog: Catalog) -> Catalog:
    """The catalogue with the DDL of these records, in the order of their positions: by time, and by offset
    inside a partition.
    """
    translator = config.translator()
    ordered = []
    newest: Counter[tuple[str, int]] = Counter()
    for record in sorted(records, key=lambda each: (each.topic, each.partition, each.offset)):
        place = record.topic, record.partition
        # A partition's own order holds, also where its times go back.
        newest[place] = max(newest[place], _time(translator, record))
        ordered.append((newest[place], *place, record.offset, record))
    translator.catalog = catalog
    for *_, record in sorted(ordered, key=lambda each: each[:4]):
        translator.learn(record)
    return translator.catalog


def _time(translator: Translator, record: ConsumerRecord) -> int:
    """When the statement happened, in units of a commit ts."""
    translator.catalog = Catalog()
    sources = [event.source for event in translator.inspect(record)]
    return max([source.tso for source in sources], default=0)


__all__ = ["Bounds", "OnlyDdl", "Stopped", "Terms", "Translate", "learnt", "read_records"]
