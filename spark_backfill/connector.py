"""Spark's Kafka connector: its name, and its jars in a folder, for images whose runs download nothing.

`python -m spark_backfill.connector FOLDER` lets Spark's own Ivy fetch them once. It needs Java.
"""

from __future__ import annotations

import os
import shutil
import sys
import tempfile
from pathlib import Path
from typing import Any, Final

import pyspark
from pyspark import SparkConf
from pyspark.java_gateway import launch_gateway

#: Spark's own connector, for the installed Spark.
CONNECTOR: Final = f"org.apache.spark:spark-sql-kafka-0-10_2.13:{pyspark.__version__}"
#: Dependencies of the connector that Spark itself has: 55 MB that need not be fetched.
IN_SPARK: Final = (
    *("org.apache.hadoop:hadoop-client-runtime", "org.apache.hadoop:hadoop-client-api"),
    *("org.scala-lang:scala-library", "org.scala-lang.modules:scala-parallel-collections_2.13"),
    *("org.slf4j:slf4j-api", "org.xerial.snappy:snappy-java", "at.yawk.lz4:lz4-java", "org.lz4:lz4-java"),
    *("com.google.code.findbugs:jsr305", "org.apache.spark:spark-tags_2.13"),
)


def is_in_spark() -> bool:
    """Return whether the connector is among Spark's own jars."""
    return any(Path(pyspark.__file__).parent.glob("jars/*spark-sql-kafka-0-10_*.jar"))


def settings() -> dict[str, str]:
    """Return the settings with which Spark fetches the connector."""
    return {"spark.jars.packages": CONNECTOR, "spark.jars.excludes": ",".join(IN_SPARK)}


def fetch(folder: Path) -> None:
    """Put the jars into a folder."""
    # Spark looks up the machine's name, which not every builder of images can resolve.
    os.environ.setdefault("SPARK_LOCAL_IP", "127.0.0.1")
    with tempfile.TemporaryDirectory() as cache:
        conf = SparkConf(loadDefaults=False).set("spark.jars.ivy", cache)
        for name, value in settings().items():
            conf.set(name, value)
        launch: Any = launch_gateway  # has no types
        gateway = launch(conf)
        gateway.shutdown()
        gateway.proc.stdin.close()
        gateway.proc.wait()
        for jar in Path(cache, "jars").glob("*.jar"):
            shutil.copy(jar, folder)


if __name__ == "__main__":
    fetch(Path(sys.argv[1]))
