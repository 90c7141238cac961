"""Check the folders and files of a configuration before anything is read or written."""

from __future__ import annotations

import re
from typing import Final

from py4j.protocol import Py4JJavaError
from pyspark.sql import SparkSession

from relay.config.keys import Backfill, OutputLayout
from relay.model.errors import ConfigError, Problem
from spark_backfill.files import HIDDEN, paths_of
from spark_backfill.hadoop import files_below, hadoop_path, paths_in, qualified
from spark_backfill.layouts import FOLDERS

#: Hadoop's messages about a file system that it does not know, or whose jar is missing.
NO_FILE_SYSTEM: Final = re.compile(
    r'No FileSystem for scheme "[^"]*"|Class org\.apache\.hadoop\.fs\.\S+ not found'
)
#: Characters that make a path a pattern to Hadoop and Spark.
_PATTERN: Final = re.compile(r"[*?\[\]{}\\]")
#: Spark's other files in an output, and the temporary folders of an interrupted write.
_LEFT: Final = r"_SUCCESS|\._SUCCESS\.crc|(_temporary|\.spark-staging-[^/]+|__magic[^/]*)(/.*)?"
#: Spark's files with records.
_RECORDS: Final = r"(part-[^/]+|\.part-[^/]+\.crc)"
_LISTS: Final = ("input", "schema_input")
PACKAGE_HINT: Final = (
    "add the package of this file system to spark.jars.packages, such as org.apache.hadoop:hadoop-aws for s3a"
)


def check_locations(spark: SparkSession, backfill: Backfill) -> None:
    """Refuse file systems that Spark does not know, and a checkpoint and an output that overlap.

    Raises ConfigError.
    """
    for key in _LISTS:
        for path in paths_of(getattr(backfill, key)):
            _qualified(spark, key, path)
    for key in ("checkpoint", "output"):
        if strange := _PATTERN.search(getattr(backfill, key)):
            message = f"contains {strange[0]}, which is a wildcard in paths"
            hint = "name a folder without * ? [ ] { } and backslashes"
            raise ConfigError([Problem(f"backfill.{key}", message, hint)])
    checkpoint, output = (_qualified(spark, key, getattr(backfill, key)) for key in ("checkpoint", "output"))
    if checkpoint and output and _overlap(checkpoint, output):
        folders = f"{backfill.checkpoint} and the output ({backfill.output})"
        message = f"{folders} are the same folder, or one contains the other"
        raise ConfigError([Problem("backfill.checkpoint", message, "name a separate folder for each")])


def _qualified(spark: SparkSession, key: str, path: str) -> str:
    """Return the whole path, with a slash at its end; "" for none."""
    try:
        return f"{qualified(*hadoop_path(spark, path)).rstrip('/')}/" if path else ""
    except Py4JJavaError as error:
        if unknown := NO_FILE_SYSTEM.search(str(error)):
            message = f"{path} cannot be reached: {unknown[0]}"
            raise ConfigError([Problem(f"backfill.{key}", message, PACKAGE_HINT)]) from None
        raise


def check_apart(spark: SparkSession, backfill: Backfill) -> None:
    """Refuse an output that overlaps with an input: an output is deleted first. Raises ConfigError."""
    output = _qualified(spark, "output", backfill.output)
    for key in _LISTS:
        for pattern in paths_of(getattr(backfill, key)):
            named, system = hadoop_path(spark, pattern)
            for path in (qualified(named, system), *paths_in(spark, system.globStatus(named))):
                if _overlap(output, f"{path.rstrip('/')}/"):
                    folders = f"{backfill.output} and {key} ({path})"
                    message = f"{folders} are the same folder, or one contains the other"
                    hint = "the input would be deleted: name another folder for the output"
                    raise ConfigError([Problem("backfill.output", message, hint)])


def check_folder(spark: SparkSession, path: str, layout: OutputLayout, *, is_new: bool | None = None) -> None:
    """Refuse a folder that contains other files than those of runs with this layout. Raises ConfigError.

    `is_new`: whether a run in steps begins, whose folder must be empty, or goes on. Such a run deletes no
    files of others and has many files, so only the folder itself is checked. None: the whole content, at any
    depth, will be deleted.
    """
    folder, system = hadoop_path(spark, path)
    if not system.exists(folder):
        return
    root = qualified(folder, system).rstrip("/")
    names = [path.rpartition("/")[2] for path in paths_in(spark, system.listStatus(folder))]
    if is_new and (found := [name for name in names if not name.startswith(HIDDEN)]):
        why = "the checkpoint is new: rows would be written twice"
        hint = "name an empty folder, or the checkpoint that it was written with"
        raise ConfigError(
            [Problem("backfill.output", f"{path} already contains {found[0]}, and {why}", hint)]
        )
    first, *others = (f"{re.escape(name)}=[^/]+" for name in FOLDERS[layout])
    below = "".join(f"/{each}" for each in others)
    records = first if is_new is not None else rf"{first}{below}(/step=\d+)?/{_RECORDS}"
    own = re.compile(f"{_LEFT}|{records}", re.DOTALL)
    if is_new is None:
        names = [path[len(root) + 1 :] for path in files_below(spark, folder, system)]
    for name in names:
        if not own.fullmatch(name):
            message = f"{path} contains other files than records: {name}"
            raise ConfigError([Problem("backfill.output", message, "name an empty folder")])


def _overlap(one: str, other: str) -> bool:
    """Return whether two folders, with a slash at their ends, are the same or nested."""
    return one.startswith(other) or other.startswith(one)
