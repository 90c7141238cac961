"""A backfill from its beginning to its end: read, learn the DDL, translate, write. Nothing here starts a session."""

from __future__ import annotations

import sys
from collections.abc import Callable, Mapping

from pyspark.sql import DataFrame, SparkSession

from relay.catalog import Catalog
from relay.config import Config
from relay.config.tables import FileFormat
from spark_backfill.counts import Counts, CountsParam, Parts, total
from spark_backfill.files import Captured, Target, check_folder, read_files
from spark_backfill.frames import PRODUCED
from spark_backfill.history import ddl_of
from spark_backfill.translation import OWN_PARTITION, Bounds, Translate, learnt

Write = Callable[[DataFrame, Mapping[str, int]], None]


def empty_catalog() -> Catalog:
    """A catalogue that keeps every version: all DDL is known before the first row, and old rows need old definitions."""
    return Catalog(limit=sys.maxsize)


def translated(captured: Captured, translate: Translate) -> DataFrame:
    """The records to write, in no certain order."""
    return captured.frame.mapInArrow(translate, PRODUCED)


def known_before(spark: SparkSession, config: Config) -> Catalog:
    """What the record files of `schema_input` teach."""
    if not config.backfill.schema_input:
        return empty_catalog()
    files = read_files(spark, config.backfill.schema_input, FileFormat.JSON_LINES)
    return learnt(config, ddl_of(files, config), empty_catalog())


def run_step(  # noqa: PLR0913 - what a step has to know
    spark: SparkSession,
    config: Config,
    captured: Captured,
    catalog: Catalog,
    write: Callable[[DataFrame], None],
    *,
    bounds: Bounds,
    letter_partitions: int = OWN_PARTITION,
) -> Counts:
    """Translate these records and write what they become; gives what was counted."""
    context = spark.sparkContext
    shared, counters = context.broadcast(catalog), context.accumulator(Parts(), CountsParam())
    try:
        write(translated(captured, Translate(config, captured.reader, shared, counters, bounds, letter_partitions)))
    finally:
        shared.unpersist()
    return total(counters.value.values())


def from_files(spark: SparkSession, config: Config) -> Counts:
    """Translate files into the folder of `output`, which is written anew."""
    backfill = config.backfill
    captured = read_files(spark, backfill.input, backfill.input_format)
    catalog = learnt(config, ddl_of(captured, config), known_before(spark, config))
    check_folder(spark, backfill.output)
    target = Target(backfill.output, backfill.output_format)
    bounds = Bounds(config.source.start_offsets, backfill.end_offsets, config.source.start_timestamp_ms, backfill.end_timestamp_ms)
    return run_step(spark, config, captured, catalog, lambda produced: target.write(produced, {}), bounds=bounds)
