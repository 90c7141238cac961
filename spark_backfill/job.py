"""A backfill from its beginning to its end: read, learn the DDL, translate, write."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Callable, Sequence
from typing import Any

from pyspark.accumulators import _accumulatorRegistry
from pyspark.errors import AnalysisException, StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from relay.catalog import Catalog
from relay.config import Config
from relay.config.keys import InputFormat
from relay.config.wiring import load_schema_dumps, translator_of
from relay.model.errors import ConfigError, Problem
from spark_backfill.checkpoint import BEFORE, Checkpoint, StepStore, described, ends_of_step
from spark_backfill.counts import BackfillCounts, CountsParam, Tally
from spark_backfill.ddl_reading import DdlWatch, StepsDdl, in_first_partitions, watch_of, with_all_ddl
from spark_backfill.files import Captured, OutputFolder, read_files
from spark_backfill.first_records import check_first_records, check_ratio, ratio_stops
from spark_backfill.joined import joined, joining_of
from spark_backfill.lease import Lease
from spark_backfill.locations import check_apart, check_folder, check_locations
from spark_backfill.offsets import check_offsets, partitions_in
from spark_backfill.registries import NO_ANSWERS, RegistrySchemas
from spark_backfill.rows_output import RowsOutput, run_name, write_rows, writes_rows
from spark_backfill.schema_pass import (
    StoredDdl,
    empty_catalog,
    find_ddl,
    learn_ddl,
    stored_ddl,
    with_times,
)
from spark_backfill.spark_errors import OVERFLOW
from spark_backfill.terms import Bounds, Terms
from spark_backfill.ticdc_storage import read_storage
from spark_backfill.topics import SourceTopics, TargetTopics, captured, target_cluster
from spark_backfill.translation import Translate

_FILES = Terms()


def earlier_catalog(spark: SparkSession, config: Config, schemas: RegistrySchemas) -> Catalog:
    """Return the catalog after the dumps of `schema_dumps` and the record files of `schema_input`."""
    catalog = load_schema_dumps(config, empty_catalog()).catalog
    if not config.backfill.schema_input:
        return catalog
    files = _read_files(spark, "schema_input", config.backfill.schema_input, InputFormat.JSON_LINES)
    schemas.find_named(files, "backfill.schema_input")
    ddl = find_ddl(files, config, "backfill.schema_input", schemas.known)
    return learn_ddl(config, ddl, catalog, schemas)


def _read_files(spark: SparkSession, key: str, path: str, file_format: InputFormat) -> Captured:
    try:
        return read_files(spark, path, file_format, key)
    except AnalysisException as error:
        raise ConfigError([Problem(f"backfill.{key}", str(error).partition("\n")[0])]) from error


def run_step(  # noqa: PLR0913 - the inputs of a step
    spark: SparkSession,
    config: Config,
    records: Captured,
    catalog: Catalog,
    write: Callable[[DataFrame], None],
    *,
    bounds: Bounds,
    terms: Terms = _FILES,
    schemas: RegistrySchemas | None = None,
) -> BackfillCounts:
    """Translate records and write the results; return the counters."""
    if ratio_stops(config):
        check_ratio(config, _translated(spark, config, records, catalog, _count_only, bounds, terms, schemas))
    if schemas is not None:
        schemas.register_written(spark, records, catalog, bounds, terms)
    return _translated(spark, config, records, catalog, write, bounds, terms, schemas)


def _count_only(produced: DataFrame) -> None:
    produced.write.format("noop").mode("overwrite").save()


def _translated(  # noqa: PLR0913, PLR0917 - as above
    spark: SparkSession,
    config: Config,
    records: Captured,
    catalog: Catalog,
    write: Callable[[DataFrame], None],
    bounds: Bounds,
    terms: Terms,
    schemas: RegistrySchemas | None,
) -> BackfillCounts:
    """Translate records, pass the results to `write`, and return the counters."""
    context = spark.sparkContext
    shared, counters = context.broadcast(catalog), context.accumulator(Tally(), CountsParam())
    # Tasks of the second kind have the same numbers.
    of_joined = context.accumulator(Tally(), CountsParam())
    try:
        known = NO_ANSWERS if schemas is None else schemas.known
        translate = Translate(config, records.reader, shared, counters, bounds, terms, known=known)
        produced = records.frame.mapInArrow(translate, translate.schema)
        joining = joining_of(config)
        if joining is not None:
            by_time = translator_of(config).copies_ddl
            produced = joined(produced, joining, terms.limits, of_joined, by_time=by_time)
        write(produced)
    finally:
        # Otherwise the catalog's file stays on the driver's disk, and the counters in PySpark's list, during
        # the whole run.
        shared.destroy()
        for accumulator in (counters, of_joined):
            _accumulatorRegistry.pop(accumulator.aid, None)
    counts: BackfillCounts = counters.value.counts
    counts.add(of_joined.value.counts)
    counts.last_files = records.last_files
    return counts


def from_files(
    spark: SparkSession, config: Config, warn: Callable[[str], object] = lambda _: None
) -> BackfillCounts:
    """Translate files: into the folder `output`, which is overwritten, or into the target topics.

    `warn` receives warnings about the topics before anything is written.
    """
    backfill = config.backfill
    check_locations(spark, backfill)
    if backfill.output:
        check_apart(spark, backfill)
    schemas = RegistrySchemas(config)
    if backfill.input_format is InputFormat.TICDC_STORAGE:
        records, statements = read_storage(spark, config)
    else:
        records, statements = _read_files(spark, "input", backfill.input, backfill.input_format), None
        schemas.find_named(records)
    check_offsets(config, records)
    earlier = earlier_catalog(spark, config, schemas)
    source = config.source
    bounds = Bounds(
        source.start_offsets, backfill.end_offsets, source.start_timestamp_ms, backfill.end_timestamp_ms
    )
    target = _TargetOfFiles(spark, config, records, warn)

    def translate(watch: DdlWatch | None) -> BackfillCounts:
        ddl = statements
        if ddl is None:
            searched = records if watch is None else in_first_partitions(records)
            ddl = find_ddl(searched, config, known=schemas.known)
        catalog = learn_ddl(config, ddl, earlier, schemas)
        check_first_records(config, records, catalog, bounds, schemas.known)
        if writes_rows(config):
            tables = RowsOutput(backfill.output, backfill.rows_format)
            tables.check(spark)
            return write_rows(spark, config, records, catalog, tables, bounds=bounds, known=schemas.known)
        write, terms = target.open()
        terms = terms._replace(watch=watch)
        return run_step(spark, config, records, catalog, write, bounds=bounds, terms=terms, schemas=schemas)

    watch = None
    if statements is None and not writes_rows(config):
        watch = watch_of(config, records, schemas.known)
    counts = with_all_ddl(translate, watch, warn)
    counts.warnings = target.warnings
    # Topics always have a partition 0, whose statements an earlier step may have written.
    counts.unwritten_ddl = sorted(
        topic for topic in counts.copied_topics if f"{topic}/0" not in counts.ranges
    )
    return counts


class _TargetOfFiles:
    """The target of a run over files; `warnings` are about its topics."""

    def __init__(
        self, spark: SparkSession, config: Config, records: Captured, warn: Callable[[str], object]
    ) -> None:
        self._spark, self._config, self._records, self._warn = spark, config, records, warn
        self._opened: tuple[Callable[[DataFrame], None], Terms] | None = None
        self.warnings: Sequence[str] = ()

    def open(self) -> tuple[Callable[[DataFrame], None], Terms]:
        """Return how records are written, and the terms. Check the target, and create topics, only once."""
        if self._opened is None:
            sources = partitions_in(self._records) if translator_of(self._config).copies_ddl else ()
            write, terms = self._open()
            self._opened = write, terms._replace(sources=sources)
        return self._opened

    def _open(self) -> tuple[Callable[[DataFrame], None], Terms]:
        backfill = self._config.backfill
        if backfill.output:
            check_folder(self._spark, backfill.output, backfill.output_layout)
            folder = OutputFolder.from_config(self._config)
            return (lambda made: folder.write(made, {})), _FILES
        topics = TargetTopics.from_config(self._config)
        topics.tell(self._warn)
        self.warnings = topics.topics.warnings
        return topics.write, topics.terms


def trigger_of(config: Config, *, continuous: bool) -> dict[str, Any]:
    """Return the trigger of a run over topics as Spark's arguments; none for steps without a pause."""
    if not continuous:
        return {"availableNow": True}
    seconds = config.backfill.trigger_seconds
    return {"processingTime": f"{round(seconds * 1000)} milliseconds"} if seconds else {}


class TopicsRun:
    """A run over topics, in steps that Spark's checkpoint counts; endless if `continuous`.

    An interrupted step is repeated with the same records. `tell` receives the counters of each step and its
    duration in seconds, `warn` warnings about the target topics before the first one.
    """

    def __init__(
        self,
        spark: SparkSession,
        config: Config,
        tell: Callable[[int, BackfillCounts, float], None] = lambda *_: None,
        warn: Callable[[str], object] = lambda _: None,
    ) -> None:
        self._spark, self._given, self._tell, self._warn = spark, config, tell, warn
        check_locations(spark, config.backfill)
        self._lease = Lease(spark, config.backfill.checkpoint, warn)
        checkpoint, output = Checkpoint(spark, config.backfill.checkpoint), config.backfill.output
        self._checkpoint = checkpoint
        self._source = SourceTopics.from_config(spark, config, checkpoint.first)
        now = described(config, self._source.cluster, "" if output else target_cluster(spark, config))
        self._described = now
        checkpoint.check(now, self._source.topic_ids)
        # With the topics that a pattern matches.
        config = self._config = self._source.config
        if writes_rows(config):
            RowsOutput(output, config.backfill.rows_format).check(spark, is_new=checkpoint.first is None)
        elif output:
            check_folder(spark, output, config.backfill.output_layout, is_new=checkpoint.first is None)
        # Last: topics are created only when nothing is refused.
        self._topics = None if output else TargetTopics.from_config(config)
        checkpoint.keep(now, self._source.first, self._source.topic_ids)
        self._store = StepStore(spark, config.backfill.checkpoint)
        self._catalog: Catalog | None = None
        # The form in which the checkpoint keeps DDL that was learned, also ahead of its step.
        self._stored: StoredDdl = {}
        self._schemas = RegistrySchemas(config)
        self._ddl = StepsDdl(spark, config, self._source, self._schemas)
        self._failure: BaseException | None = None
        self._query: StreamingQuery | None = None
        #: The number of the step in progress.
        self.running_step: int | None = None
        self.counts = BackfillCounts()
        self._tell_of_targets()

    def _tell_of_targets(self) -> None:
        if self._topics is not None:
            self._topics.tell(self._warn)
            self.counts.warnings = self._topics.topics.warnings

    def run(self, *, continuous: bool = False) -> BackfillCounts:
        """Run until there is nothing more, or until `stop`.

        Raises the error of a step, and ServiceError if another run is using this checkpoint.
        """
        with self._lease:
            return self._run(continuous=continuous)

    def _run(self, *, continuous: bool) -> BackfillCounts:
        writer = self._source.stream(self._spark).writeStream.foreachBatch(self._on_batch)
        writer = writer.option("checkpointLocation", f"{self._config.backfill.checkpoint.rstrip('/')}/spark")
        trigger = trigger_of(self._config, continuous=continuous)
        query = self._query = (writer.trigger(**trigger) if trigger else writer).start()
        try:
            query.awaitTermination()
        except StreamingQueryException as error:
            failure = self._failure or error
            raise self._source.too_late(self._spark) if OVERFLOW in str(failure) else failure from None
        finally:
            query.stop()
        return self.counts

    def stop(self) -> None:
        """End a run from another thread; the next run repeats the step in progress."""
        if self._query is not None:
            self._query.stop()

    def positions(self) -> dict[str, dict[int, int]]:
        """Return the offsets by topic and partition at which the last completed step ended.

        Empty if they are unknown. For other threads. Raises Py4JError if Spark does not answer.
        """
        progress = None if self._query is None else self._query.lastProgress
        ends = json.loads(progress.sources[0].endOffset or "null") if progress and progress.sources else None
        return {
            topic: {int(number): at for number, at in each.items()} for topic, each in (ends or {}).items()
        }

    def _on_batch(self, frame: DataFrame, step: int) -> None:
        self.running_step = step
        try:
            self._translate(frame, step)
        except BaseException as error:  # Spark keeps no more of it than its text
            self._failure = error
            raise
        finally:
            self.running_step = None

    def _take_new_topics(self, step: int) -> None:
        """Look at the topics again if the step has one that a pattern matches and that is new."""
        if not self._config.source.topics_pattern:
            return
        ends = ends_of_step(self._spark, self._config.backfill.checkpoint, step) or {}
        if {partition.rpartition("/")[0] for partition in ends} <= {*self._config.source.topics}:
            return
        source = self._source = SourceTopics.from_config(self._spark, self._given, self._source.first)
        self._config = source.config
        if self._topics is not None:
            self._topics = TargetTopics.from_config(source.config)
            self._tell_of_targets()
        self._checkpoint.keep(self._described, source.first, source.topic_ids)
        self._ddl.read(source)

    def _translate(self, frame: DataFrame, step: int) -> None:
        self._take_new_topics(step)
        config, records, began = self._config, captured(frame), time.perf_counter()
        # Only the first step of a run can have been started before: one that fails ends its run.
        is_first = self._catalog is None
        if self._catalog is None:
            self._catalog = self._learned_before(step)
        earlier, reading, schemas = self._catalog, self._ddl, self._schemas
        reading.enter(step)
        schemas.find_named(records)
        ahead, bounds = reading.ahead(), self._source.bounds

        def translate(watch: DdlWatch | None) -> BackfillCounts:
            ddl = reading.of_step(records, watch)
            catalog = self._catalog = learn_ddl(config, [*ddl, *ahead], earlier, schemas, self._stored)
            self._store.keep_ddl(step, stored_ddl(config, ddl, self._stored))
            if not self.counts.read:
                check_first_records(config, records, catalog, bounds, schemas.known)
            self._lease.check()
            if writes_rows(config):
                backfill = config.backfill
                run = run_name(self._spark, backfill.checkpoint)
                tables = RowsOutput(backfill.output, backfill.rows_format, step, run)
                return write_rows(
                    self._spark, config, records, catalog, tables, bounds=bounds, known=schemas.known
                )
            write, terms = self._target_of(step, is_first=is_first)
            terms = terms._replace(sources=self._sources(), watch=watch)
            return run_step(
                self._spark, config, records, catalog, write, bounds=bounds, terms=terms, schemas=schemas
            )

        # Tasks that make rows do not look for DDL.
        watch = None if writes_rows(config) else reading.watch(records)
        counts = with_all_ddl(translate, watch, self._warn)
        if self._topics is None and not writes_rows(config):
            before = self._store.written_before(step)
            self._store.keep_written(step, Counter(before) + counts.written)
        self.counts.add(counts)
        self._tell(step, counts, time.perf_counter() - began)

    def _target_of(self, step: int, *, is_first: bool) -> tuple[Callable[[DataFrame], None], Terms]:
        """Return how the records of a step are written, and the terms."""
        if self._topics is not None:
            return self._topics.write, self._topics.terms
        before = self._store.written_before(step)
        folder = OutputFolder.from_config(self._config, step, self._source.placement(self._spark))
        if is_first:
            folder.delete_step(self._spark)
        return (lambda made: folder.write(made, before)), _FILES

    def _sources(self) -> Sequence[tuple[str, int]]:
        """Return the partitions that the source has by now, where DDL is written to all of them."""
        if not translator_of(self._config).copies_ddl:
            return ()
        found = self._source.partitions_now(self._spark)
        return [(topic, number) for topic, count in found.items() for number in range(count)]

    def _learned_before(self, step: int) -> Catalog:
        """Return the catalog of `schema_input`, the records before the first step, and earlier steps."""
        config, schemas = self._config, self._schemas
        ddl = with_times(config, self._store.ddl_before(step), schemas)
        older = self._ddl.before() if step == 0 else []
        ddl = list({each.position: each for each in [*older, *ddl]}.values())
        catalog = learn_ddl(config, ddl, earlier_catalog(self._spark, config, schemas), schemas, self._stored)
        if older:
            # Retention may delete it before a step is repeated, or another run begins.
            self._store.keep_ddl(BEFORE, stored_ddl(config, ddl, self._stored))
        return catalog
