"""Translate records in Spark's workers through the unchanged core, one batch of Arrow after the other.

Every task has a separate translator, whose catalog holds the DDL of the whole source (see `schema_pass`). A
row uses its definition as of its position, so it does not matter which rows went before it through the same
translator, and a partition may be split anywhere.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from relay.catalog import Catalog
from relay.config import Config
from relay.config.keys import FileFormat, OutputLayout
from relay.config.wiring import error_policies_of, translator_of
from relay.core.error_policies import Policy, Refused, tables_in
from relay.core.translator import Translator
from relay.io.kafka.sizes import OVERHEAD_BYTES, NoMatch, TopicLimits, misfit_error
from relay.model.errors import Malformed, RelayError
from relay.model.events import TableId
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord
from spark_backfill.columns import BatchOutput, RecordBatchRows, Stretch, stretches
from spark_backfill.counts import Accumulator, BackfillCounts, hand_over
from spark_backfill.frames import (
    PRODUCED,
    PRODUCED_WITH_TABLES,
    Columns,
    Produced,
    Reader,
    check_positions,
    read_records,
)
from spark_backfill.joined import joining_of
from spark_backfill.layouts import TableFinder
from spark_backfill.registries import NO_ANSWERS, RegistryAnswers, task_resolver
from spark_backfill.task_errors import DdlUnread, Stopped, stopped_at
from spark_backfill.terms import LATEST_MS, Bounds, Broadcast, Terms

#: Rows of the longest `_ColumnsBackoff`.
_LONGEST_PAUSE: Final = 1023


class Translate:
    """Translate the rows of a task."""

    def __init__(  # noqa: PLR0913 - the inputs of a task
        self,
        config: Config,
        reader: Reader,
        catalog: Broadcast,
        counters: Accumulator,
        bounds: Bounds,
        terms: Terms,
        *,
        known: RegistryAnswers = NO_ANSWERS,
    ) -> None:
        self.known = known
        self.config, self.reader, self.catalog, self.counters = config, reader, catalog, counters
        self.bounds, self.terms = bounds, terms
        backfill = config.backfill
        #: Whether rows are joined afterwards; written records are counted then.
        self.is_joined = joining_of(config) is not None
        self.by_table = bool(backfill.output) and backfill.output_layout is OutputLayout.TABLE
        has_times = (
            backfill.output_format is FileFormat.PARQUET or backfill.output_layout is OutputLayout.DATE
        )
        #: The maximum of timestamps.
        self.latest_ms = LATEST_MS if backfill.output and has_times else sys.maxsize

    @property
    def schema(self) -> str:
        """Return the columns of the output."""
        return PRODUCED_WITH_TABLES if self.by_table else PRODUCED

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the records to write, with the columns of `schema`."""
        task = _Task(self)
        try:
            for batch in batches:
                yield from task.process(batch)
                task.check_ddl(batch)
        except Stopped as error:
            if self.terms.watch is None:
                raise
            # With DDL that the schema pass has not read, the record may not fail.
            raise DdlUnread from error
        yield from task.flush()
        task.hand_over_counts()


class _Kept(NamedTuple):
    """The translator of the last task in this process."""

    config: Config
    catalog: Catalog
    translator: Translator


_kept: _Kept | None = None


def _translator_of(job: Translate) -> Translator:
    """Return the translator of a task.

    Tasks of one step that run in the same process share it, and so its templates: to derive them takes a task
    as long as to translate many rows.
    """
    global _kept  # noqa: PLW0603 - a process of Spark runs one task after the other
    config, catalog = job.config, job.catalog.value
    if _kept is None or _kept.catalog is not catalog or _kept.config != config:
        _kept = _Kept(config, catalog, translator_of(config, config.backfill.end_commit_ts or None))
    translator = _kept.translator
    translator.start_over()
    translator.catalog = catalog
    translator.expect_partitions(job.terms.sources)
    return translator


class _ColumnsBackoff:
    """The rows that are translated as records after one that templates do not translate alone.

    They become twice as many each time that no row before them was translated by columns: where no template
    fits, trying costs little.
    """

    def __init__(self) -> None:
        self._rows = self._length = 0

    def is_over(self) -> bool:
        """Count a row. Return whether it may be translated by columns."""
        self._rows -= 1
        return self._rows < 0

    def begin(self, *, has_rows: bool) -> None:
        """Begin after a row. `has_rows`: whether rows before it were translated by columns."""
        self._length = 0 if has_rows else min(2 * self._length + 1, _LONGEST_PAUSE)
        self._rows = self._length


class _Task:
    """One run over the rows of a Spark partition."""

    def __init__(self, job: Translate) -> None:
        config = job.config
        self._job = job
        self._translator = _translator_of(job)
        self._finder = TableFinder(config) if job.by_table else None
        self._tables: Counter[tuple[TableId, str]] = Counter()
        # To find the tables of each record takes a Counter for each.
        self._translator.tables = self._tables if self._finder is None else Counter()
        self._resolver = task_resolver(config, job.known)
        self._counts = BackfillCounts()
        self._out = Produced()
        limits = job.terms.limits
        self._limits = TopicLimits(limits, job.terms.compacted) if limits else None
        self._errors = error_policies_of(config, job.terms.dead_letter_partitions)
        #: The outcome of the current record, if it was refused.
        self._refused: Refused | None = None
        self._stores = "to" in self._translator.route.storages
        is_for_each = self._finder is not None or self._stores or bool(job.terms.compacted)
        #: Whether many rows are translated at once: nothing else needs each record.
        self._has_columns = (
            isinstance(job.reader, Columns) and self._translator.has_columns and not is_for_each
        )
        self._most_row_bytes = sys.maxsize
        if self._limits is not None:
            self._most_row_bytes = max(0, self._limits.smallest - OVERHEAD_BYTES)
        self._backoff = _ColumnsBackoff()
        #: The catalog before the current batch.
        self._catalog_before = self._translator.catalog
        #: The number of records left out before the current batch.
        self._left_out_before = 0

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Translate the rows of a batch; yield batches that are large enough to send."""
        if self._has_columns:
            yield from self._process_columns(batch)
            return
        out = self._out
        for record in self._read(batch):
            produced = self._translated(record)
            out.add(produced, record)
            if self._finder is not None:
                self._assign_tables(self._finder, produced, record)
            if out.is_full:
                yield from self.flush()

    def check_ddl(self, batch: pa.RecordBatch) -> None:
        """Raise DdlUnread if a batch that was processed has DDL that the schema pass has not read.

        Only a batch that has changed the catalog can have DDL, or one with records that were left out.
        """
        watch, catalog, left_out = self._job.terms.watch, self._translator.catalog, self._counts.left_out
        has_learned = catalog is not self._catalog_before
        has_left_out = left_out != self._left_out_before
        self._catalog_before, self._left_out_before = catalog, left_out
        if watch is not None and (has_learned or has_left_out):
            watch.check(batch)

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the gathered records."""
        batch = self._out.take()
        if batch is not None:
            yield from self._counted([batch])

    def _counted(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Count and yield records to write."""
        for batch in batches:
            if not self._job.is_joined:
                self._counts.count_written(batch)
            yield batch

    def _translated(self, record: ConsumerRecord) -> Sequence[ProducerRecord]:
        """Return the records to write for one record. Raises Stopped."""
        try:
            produced: Sequence[ProducerRecord] = self._translator.translate(record)
            if self._stores or self._limits is not None:
                self._check(produced, record)
        except Need:
            produced = self._resolve_need(record)
        except RelayError as error:
            produced = self._apply_error_policy(record, error)
        return produced

    # ------------------------------------------------------------ columns

    def _process_columns(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Translate the rows of a batch, many at once where templates translate them alone."""
        batch = self._within_bounds(batch)
        rows, out = RecordBatchRows(batch), BatchOutput(batch)
        for stretch in stretches(batch):
            row = stretch.first
            while row < stretch.end:
                row = self._translate_from(row, stretch, rows, out)
                if not out.free_bytes:
                    yield from self._counted(out.take())
        yield from self._counted(out.take())

    def _translate_from(self, row: int, stretch: Stretch, rows: RecordBatchRows, out: BatchOutput) -> int:
        """Translate one row or several. Return the next row."""
        if not stretch.has_headers and self._backoff.is_over():
            found = self._translator.translate_columns(
                stretch.topic,
                stretch.partition,
                rows.columns,
                row,
                stretch.end,
                out.free_bytes,
                self._most_row_bytes,
            )
            if found is not None:
                if found.rows and self._job.terms.partitions is not None:
                    self._check_topics(found.topics, stretch, rows, row)
                out.add_rows(row, found)
                row += found.rows
                if not found.is_blocked:
                    return row
            self._backoff.begin(has_rows=found is not None and found.rows > 0)
        record = _record(rows, row)
        out.add_records(row, self._translated(record), record)
        return row + 1

    def _check_topics(
        self, topics: Iterable[str], stretch: Stretch, rows: RecordBatchRows, first: int
    ) -> None:
        """Raise Stopped if one of the topics to which rows from `first` on go lacks their partition."""
        try:
            for topic in topics:
                self._job.terms.check_partition(topic, stretch.partition, stretch.topic)
        except RelayError as error:
            self._apply_error_policy(_record(rows, first), error)
            raise

    def _within_bounds(self, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Return the records that are within the bounds, and count them. Raises Stopped."""
        try:
            check_positions(batch)
        except RelayError as error:
            raise Stopped(error, "input") from error
        bounds = self._job.bounds
        if bounds != Bounds():
            masks = [
                bounds.mask(each.topic, each.partition, batch.slice(each.first, each.end - each.first))
                for each in stretches(batch)
            ]
            given, batch = len(batch), batch.filter(pa.concat_arrays(masks)) if masks else batch
            self._counts.left_out += given - len(batch)
        self._counts.count_read_rows(batch, stretches(batch))
        times_ms = batch.column("timestamp_ms")
        if (pc.max(times_ms).as_py() or 0) > self._job.latest_ms:
            first = pc.index(pc.greater(times_ms, self._job.latest_ms), True).as_py()
            raise _too_late(_record(RecordBatchRows(batch), first))
        return batch

    # ------------------------------------------------------------ records

    def _read(self, batch: pa.RecordBatch) -> list[ConsumerRecord]:
        """Read and count the records of a batch that are within the bounds. Raises Stopped."""
        records = self._counts.read_within(read_records(self._job.reader, batch), self._job.bounds)
        latest_ms = self._job.latest_ms
        late = next((record for record in records if record.timestamp_ms > latest_ms), None)
        if late is not None:
            raise _too_late(late)
        return records

    def _check(self, produced: Sequence[ProducerRecord], record: ConsumerRecord) -> None:
        """Raise the target's reason to refuse a record, and store the objects that records refer to.

        Raises ConfigError, TopicUnusable, RecordTooLarge, KeyMissing, StorageUnavailable.
        """
        self._job.terms.check_partitions(produced, record)
        if self._limits is not None and (misfit := self._limits.misfit(produced)):
            raise self._misfit_error(record, misfit)
        if self._stores:
            for blob in (blob for out in produced for blob in out.blobs):
                self._resolver.store(blob)

    def _misfit_error(self, record: ConsumerRecord, misfit: NoMatch) -> RelayError:
        tables = tables_in(record, self._translator)
        return misfit_error(record, misfit, self._job.config.route.to, tables)

    def _resolve_need(self, record: ConsumerRecord) -> Sequence[ProducerRecord]:
        """Translate a record that needs external data."""
        try:
            produced = self._resolver.translate(self._translator, record)
            self._check(produced, record)
        except RelayError as error:
            return self._apply_error_policy(record, error)
        return produced

    def _apply_error_policy(self, record: ConsumerRecord, error: RelayError) -> Sequence[ProducerRecord]:
        """Return the dead letter of a record, or nothing.

        Raises Stopped if the policy requires it, or if the dead letter is too large as well.
        """
        refused = self._errors.apply(error, record, self._translator)
        if refused.policy is Policy.STOP:
            raise stopped_at(record, error, self._translator) from error
        if self._limits is not None and (misfit := self._limits.misfit(refused.dead_letters)):
            raise Stopped(self._misfit_error(record, misfit), str(record.position)) from error
        self._refused = refused
        what = "dead letters" if refused.policy is Policy.DEAD_LETTER else "skipped"
        self._counts.count_failed(what, error.code)
        return refused.dead_letters

    def _assign_tables(
        self, finder: TableFinder, produced: Sequence[ProducerRecord], record: ConsumerRecord
    ) -> None:
        """Assign tables to the records that were gathered last.

        They are those that the translator has counted, or that were found when the record was refused. A
        record without any, such as a watermark, is decoded once more.
        """
        counted, self._translator.tables = self._translator.tables or Counter(), Counter()
        self._tables.update(counted)
        refused, self._refused = self._refused, None
        if not produced:
            return
        tables = tuple(dict.fromkeys(table for table, _ in counted))
        if refused is not None:
            tables = refused.tables
        elif not tables:
            tables = self._translator.tables_of(record)
        self._out.assign_tables(finder.find(produced, tables))

    def hand_over_counts(self) -> None:
        """Add the counters to those of all tasks."""
        self._counts.events = self._translator.events
        self._counts.lost = Counter({str(what): count for what, count in self._translator.losses.items()})
        inferred = self._translator.inferred_tables
        self._counts.inferred = Counter({str(table): rows for table, rows in inferred.items()})
        self._counts.inferred_reasons = {
            str(table): self._translator.why_unknown(table) for table in inferred
        }
        self._counts.unwritten = {str(each): None for each in self._translator.unwritten_statements}
        self._counts.copied_topics = self._translator.copied_topics
        for (table, kind), count in self._tables.items():
            # CREATE DATABASE is about a database alone.
            name = str(table) if table.table else table.database
            self._counts.tables.setdefault(name, Counter())[kind] += count
        hand_over(self._counts, self._job.counters)


def _record(rows: RecordBatchRows, row: int) -> ConsumerRecord:
    """Return a row as a record. Raises Stopped for an invalid one."""
    try:
        return rows.record(row)
    except RelayError as error:
        raise Stopped(error, "input") from error


def _too_late(record: ConsumerRecord) -> Stopped:
    message = "its timestamp is not in milliseconds, or later than Spark can hold"
    return Stopped(Malformed("record", "timestamp", message), str(record.position))
