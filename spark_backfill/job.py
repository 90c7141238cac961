"""A backfill from its beginning to its end: read, learn the DDL, translate, write. Nothing here starts a session."""

from __future__ import annotations

import sys
from collections.abc import Callable

from pyspark.errors import StreamingQueryException
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql.streaming.query import StreamingQuery

from relay.catalog import Catalog
from relay.config import Config
from relay.config.tables import InputFormat
from spark_backfill.checkpoint import check_checkpoint, described
from spark_backfill.counts import Counts, CountsParam, Parts, total
from spark_backfill.files import Captured, Target, check_apart, check_folder, read_files
from spark_backfill.history import Kept, ddl_of
from spark_backfill.ticdc_storage import read_storage
from spark_backfill.topics import Source, TargetTopics, captured
from spark_backfill.translation import Bounds, Terms, Translate, learnt

_FILES = Terms()


def empty_catalog() -> Catalog:
    """A catalogue that keeps every version: all DDL is known before the first row, and old rows need old definitions."""
    return Catalog(limit=sys.maxsize)


def known_before(spark: SparkSession, config: Config) -> Catalog:
    """What the record files of `schema_input` teach."""
    if not config.backfill.schema_input:
        return empty_catalog()
    files = read_files(spark, config.backfill.schema_input, InputFormat.JSON_LINES)
    return learnt(config, ddl_of(files, config), empty_catalog())


def run_step(  # noqa: PLR0913 - what a step has to know
    spark: SparkSession,
    config: Config,
    records: Captured,
    catalog: Catalog,
    write: Callable[[DataFrame], None],
    *,
    bounds: Bounds,
    terms: Terms = _FILES,
) -> Counts:
    """Translate these records and write what they become; gives what was counted."""
    context = spark.sparkContext
    shared, counters = context.broadcast(catalog), context.accumulator(Parts(), CountsParam())
    try:
        translate = Translate(config, records.reader, shared, counters, bounds, terms)
        write(records.frame.mapInArrow(translate, translate.schema))
    finally:
        shared.unpersist()
    return total(counters.value.values())


def from_files(spark: SparkSession, config: Config) -> Counts:
    """Translate files: into the folder of `output`, which is written anew, or into the target topics."""
    backfill = config.backfill
    if backfill.output:
        check_apart(spark, backfill)
    if backfill.input_format is InputFormat.TICDC_STORAGE:
        records, ddl = read_storage(spark, config)
    else:
        records = read_files(spark, backfill.input, backfill.input_format)
        ddl = ddl_of(records, config)
    catalog = learnt(config, ddl, known_before(spark, config))
    source = config.source
    bounds = Bounds(source.start_offsets, backfill.end_offsets, source.start_timestamp_ms, backfill.end_timestamp_ms)
    if backfill.output:
        check_folder(spark, backfill.output, backfill.output_layout)
        target = Target(backfill.output, backfill.output_format, backfill.output_layout)
        return run_step(spark, config, records, catalog, lambda produced: target.write(produced, {}), bounds=bounds)
    topics = TargetTopics.of(spark, config)
    return run_step(spark, config, records, catalog, topics.write, bounds=bounds, terms=topics.terms)


class TopicsRun:
    """A run over topics, in steps that Spark's checkpoint counts: one for `availableNow`, or more; endless if `continuous`.

    A step that was cut off is done again, with the same records. `tell` gets what each step has done.
    """

    def __init__(self, spark: SparkSession, config: Config, tell: Callable[[int, Counts], None] = lambda *_: None) -> None:
        self._spark, self._config, self._tell = spark, config, tell
        self._source = Source.of(spark, config)
        self._topics = None if config.backfill.output else TargetTopics.of(spark, config)
        if config.backfill.output:
            check_folder(spark, config.backfill.output, config.backfill.output_layout)
        now = described(config, self._source.cluster, self._topics.cluster if self._topics else "")
        check_checkpoint(spark, config.backfill.checkpoint, now)
        self._kept = Kept(spark, config.backfill.checkpoint)
        self._catalog: Catalog | None = None
        self._failure: BaseException | None = None
        self._query: StreamingQuery | None = None
        self.counts = Counts()

    def run(self, *, continuous: bool = False) -> Counts:
        """Run until there is nothing more, or until somebody stops it. Raises what a step has raised."""
        writer = self._source.stream(self._spark).writeStream.foreachBatch(self._on_batch)
        writer = writer.option("checkpointLocation", f"{self._config.backfill.checkpoint.rstrip('/')}/spark")
        query = self._query = (writer if continuous else writer.trigger(availableNow=True)).start()
        try:
            query.awaitTermination()
        except StreamingQueryException:
            if self._failure is not None:
                raise self._failure from None
            raise
        finally:
            query.stop()
        return self.counts

    def stop(self) -> None:
        """End a run from another thread; a step that is under way is done again by the next run."""
        if self._query is not None:
            self._query.stop()

    def _on_batch(self, frame: DataFrame, step: int) -> None:
        try:
            self._take(frame, step)
        except BaseException as error:  # Spark would keep no more of it than its text
            self._failure = error
            raise

    def _take(self, frame: DataFrame, step: int) -> None:
        config, records = self._config, captured(frame)
        if self._catalog is None:
            self._catalog = self._learnt_before(step)
        ddl = ddl_of(records, config)
        self._kept.keep_ddl(step, ddl)
        self._catalog = learnt(config, ddl, self._catalog)
        bounds, catalog = self._source.bounds, self._catalog
        if self._topics is not None:
            terms = self._topics.terms
            counts = run_step(self._spark, config, records, catalog, self._topics.write, bounds=bounds, terms=terms)
        else:
            before = self._kept.written_before(step)
            output = config.backfill
            target = Target(output.output, output.output_format, output.output_layout, step, self._source.written_partitions)
            counts = run_step(self._spark, config, records, catalog, lambda made: target.write(made, before), bounds=bounds)
            self._kept.keep_written(step, counts.written.items())
        self.counts.add(counts)
        self._tell(step, counts)

    def _learnt_before(self, step: int) -> Catalog:
        """What was known before this step: `schema_input`, the records before the first one, and the steps before."""
        older = self._source.before(self._spark)
        ddl = [] if older is None else ddl_of(captured(older), self._config)
        return learnt(self._config, [*ddl, *self._kept.ddl_before(step)], known_before(self._spark, self._config))
