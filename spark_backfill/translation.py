"""Translate records in Spark's workers through the unchanged core, one batch of Arrow after the other.

Every task has a separate translator, whose catalog holds the DDL of the whole source (see `schema_pass`). A
row uses its definition as of its position, so it does not matter which rows went before it through the same
translator, and a partition may be split anywhere.
"""

from __future__ import annotations

import sys
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence

import pyarrow as pa
from pyspark import TaskContext

from relay.config import Config
from relay.config.keys import FileFormat, OutputLayout
from relay.config.wiring import error_policies_of, translator_of
from relay.core.detection import FormatHints
from relay.core.error_policies import Policy, Refused, tables_in
from relay.io.kafka.sizes import NoMatch, TopicLimits, misfit_error
from relay.model.errors import Malformed, RelayError
from relay.model.events import TableId
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord
from spark_backfill.counts import Accumulator, BackfillCounts
from spark_backfill.frames import PRODUCED, PRODUCED_WITH_TABLES, Produced, Reader, read_records
from spark_backfill.joined import joining_of
from spark_backfill.layouts import TableFinder
from spark_backfill.registries import NO_ANSWERS, RegistryAnswers, task_resolver
from spark_backfill.task_errors import Stopped
from spark_backfill.terms import LATEST_MS, Bounds, Broadcast, Terms


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
        for batch in batches:
            yield from task.process(batch)
        yield from task.flush()
        task.hand_over_counts()


class _Task:
    """One run over the rows of a Spark partition."""

    def __init__(self, job: Translate) -> None:
        config = job.config
        self._job = job
        self._translator = translator_of(config, config.backfill.end_commit_ts or None)
        self._translator.catalog = job.catalog.value
        self._translator.expect_partitions(job.terms.sources)
        self._finder = TableFinder(config) if job.by_table else None
        self._tables: Counter[tuple[TableId, str]] = Counter()
        # To find the tables of each record takes a Counter for each.
        self._translator.tables = self._tables if self._finder is None else Counter()
        self._resolver = task_resolver(config, job.known)
        self._counts = BackfillCounts()
        self._out = Produced()
        self._limits = TopicLimits(job.terms.limits, job.terms.compacted) if job.terms.limits else None
        self._errors = error_policies_of(config, job.terms.dead_letter_partitions)
        #: The outcome of the current record, if it was refused.
        self._refused: Refused | None = None
        self._stores = "to" in self._translator.route.storages

    def process(self, batch: pa.RecordBatch) -> Iterator[pa.RecordBatch]:
        """Translate the rows of a batch; yield batches that are large enough to send."""
        translate, out = self._translator.translate, self._out
        is_checked = self._stores or self._limits is not None
        for record in self._read(batch):
            try:
                produced: Sequence[ProducerRecord] = translate(record)
                if is_checked:
                    self._check(produced, record)
            except Need:
                produced = self._resolve_need(record)
            except RelayError as error:
                produced = self._apply_error_policy(record, error)
            out.add(produced, record)
            if self._finder is not None:
                self._assign_tables(self._finder, produced, record)
            if out.is_full:
                yield from self.flush()

    def flush(self) -> Iterator[pa.RecordBatch]:
        """Yield the gathered records."""
        batch, records = self._out.take()
        if batch is not None:
            if not self._job.is_joined:
                self._counts.count_written(records)
            yield batch

    def _read(self, batch: pa.RecordBatch) -> list[ConsumerRecord]:
        """Read and count the records of a batch that are within the bounds. Raises Stopped."""
        records = list(read_records(self._job.reader, batch))
        if self._job.bounds != Bounds():
            within = [record for record in records if self._job.bounds.contains(record)]
            self._counts.left_out += len(records) - len(within)
            records = within
        self._counts.count_read(records)
        latest_ms = self._job.latest_ms
        late = next((record for record in records if record.timestamp_ms > latest_ms), None)
        if late is not None:
            message = "its timestamp is not in milliseconds, or later than Spark can hold"
            raise Stopped(Malformed("record", "timestamp", message), str(late.position))
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
            hints = FormatHints(self._translator.known_schema)
            raise Stopped(hints.named(error, record), str(record.position)) from error
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
        """Add the counters to Spark's accumulator.

        They are stored by the number of the Spark partition, which a task that runs again has as well, even
        in a stage that Spark makes anew.
        """
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
        context = TaskContext.get()
        self._job.counters.add({context.partitionId() if context else 0: self._counts})
