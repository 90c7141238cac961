"""The Spark session: options of spark-submit win over `[backfill] spark`, and that over the job's own."""

from __future__ import annotations

import os
import sys
from typing import Any, Final

from pyspark import SparkConf, SparkContext
from pyspark.sql import SparkSession

from relay.config import Config
from relay.config.kafka import source_cluster, target_cluster
from relay.io.kernel import VARIABLE
from spark_backfill import files
from spark_backfill.brokers import allowed_urls, client_options
from spark_backfill.connector import is_in_spark, settings
from spark_backfill.spark_log import SparkLog

#: Settings that the job requires of its session, wherever it runs.
NEEDED: Final = {
    **files.settings(),
    # Batches between Spark and a worker: messages may be large, and a worker holds a batch as columns,
    # records and output.
    "spark.sql.execution.arrow.maxRecordsPerBatch": "2000",
    "spark.sql.execution.arrow.maxBytesPerBatch": str(16 << 20),
}

#: The setting with which Spark runs a second copy of a slow task.
SPECULATION: Final = "spark.speculation"


def is_started_by_java() -> bool:
    """Return whether Java runs already, as under spark-submit."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def session(config: Config, log: SparkLog | None = None) -> SparkSession:
    """Return the session of a run. `log`: destination of a Java that is started for it."""
    if is_started_by_java():  # the JVM of spark-submit already has its options
        SparkContext._ensure_initialized()
    conf = SparkConf()
    allowed = _allowed(config)
    wanted = {**default_settings(config, allowed), **NEEDED, **config.backfill.spark}
    for name, value in wanted.items():
        conf.setIfMissing(name, value)
    if conf.get("spark.master", "").startswith("local") and not conf.contains("spark.pyspark.python"):
        # Otherwise workers on this machine use any `python3`.
        os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    if log is not None:
        log.start_java(conf)
    spark = SparkSession.builder.config(conf=conf).getOrCreate()
    if allowed:
        jvm: Any = spark._jvm
        jvm.java.lang.System.setProperty(*allowed.split("=", 1))
    return spark


def _allowed(config: Config) -> str:
    """Return the property of `allowed_urls`."""
    options = []
    if not config.backfill.input:
        options.append(client_options(source_cluster(config)))
    if not config.backfill.output:
        options.append(client_options(target_cluster(config)))
    return allowed_urls(*options)


def default_settings(config: Config, allowed: str = "") -> dict[str, str]:
    """Return the job's own settings, which the configuration may override. `allowed`: see `allowed_urls`."""
    defaults = {
        "spark.master": "local[*]",
        "spark.app.name": f"relay backfill: {config.route.from_} to {config.route.to}",
        # The job reports its progress in lines; Spark's bar would be among them.
        "spark.ui.showConsoleProgress": "false",
    }
    if kernel := os.environ.get(VARIABLE):  # workers elsewhere lack the driver's environment
        defaults[f"spark.executorEnv.{VARIABLE}"] = kernel
    if allowed:
        defaults["spark.executor.extraJavaOptions"] = f"-D{allowed}"
    needs_kafka = not (config.backfill.input and config.backfill.output)
    if needs_kafka and not is_in_spark():
        defaults |= settings()
    return defaults
