"""The folders and files that a configuration names, looked at before anything is read or written."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from relay.config.tables import Backfill
from relay.errors import ConfigError, Problem
from spark_backfill.files import hadoop_path, qualified

#: What Hadoop says about a file system that it does not know, or whose jar is not there.
NO_FILE_SYSTEM: Final = re.compile(r'No FileSystem for scheme "[^"]*"|Class org\.apache\.hadoop\.fs\.\S+ not found')
#: What makes a path a pattern to Hadoop and Spark.
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
_LISTS: Final = ("input", "schema_input")
#: What helps.
PACKAGE_HINT: Final = "add the package of this file system to spark.jars.packages, such as org.apache.hadoop:hadoop-aws for s3a"


def check_places(spark: SparkSession, backfill: Backfill) -> None:
    """Refuse places on file systems that Spark does not know, and a checkpoint and an output of which one lies in the other.

    Raises ConfigError.
    """
    for key in _LISTS:
        for path in getattr(backfill, key).split(","):
            _found(spark, key, path.strip())
    for key in ("checkpoint", "output"):
        if strange := _PATTERN.search(getattr(backfill, key)):
            message = f"holds {strange[0]}, which stands for other names in a path"
            raise ConfigError([Problem(f"backfill.{key}", message, "name a folder without * ? [ ] { } and backslashes")])
    checkpoint, output = (_found(spark, key, getattr(backfill, key)) for key in ("checkpoint", "output"))
    if checkpoint and output and (checkpoint.startswith(output) or output.startswith(checkpoint)):
        message = f"{backfill.checkpoint} and the output ({backfill.output}) are one folder, or one lies in the other"
        raise ConfigError([Problem("backfill.checkpoint", message, "name a folder of its own for each")])


def _found(spark: SparkSession, key: str, path: str) -> str:
    """The whole path, with a slash at its end; "" for none."""
    try:
        return f"{qualified(*hadoop_path(spark, path)).rstrip('/')}/" if path else ""
    except Py4JJavaError as error:
        if unknown := NO_FILE_SYSTEM.search(str(error)):
            raise ConfigError([Problem(f"backfill.{key}", f"{path} cannot be reached: {unknown[0]}", PACKAGE_HINT)]) from None
        raise
