"""The Spark session: what spark-submit was told wins over `[backfill] spark`, and that over what the job needs."""

from __future__ import annotations

import os

import pyspark
from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from relay.config import Config
from spark_backfill import files

#: Rows of a batch between Spark and a worker: messages may be large, and a worker holds several batches.
_ARROW_RECORDS = "2000"


def session(config: Config) -> SparkSession:
    """Make the session of a run."""
    if "PYSPARK_GATEWAY_PORT" in os.environ:  # spark-submit has started the JVM, which knows what it was told
        SparkContext._ensure_initialized()  # noqa: SLF001
    told = SparkConf()
    wanted = {**_defaults(config), **files.settings(), **config.backfill.spark}
    for name, value in wanted.items():
        told.setIfMissing(name, value)
    return SparkSession.builder.config(conf=told).getOrCreate()


def _defaults(config: Config) -> dict[str, str]:
    defaults = {
        "spark.master": "local[*]",
        "spark.app.name": f"relay backfill: {config.route.from_} to {config.route.to}",
        "spark.sql.execution.arrow.maxRecordsPerBatch": _ARROW_RECORDS,
    }
    if not (config.backfill.input and config.backfill.output):
        defaults["spark.jars.packages"] = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
    return defaults
