"""Files as source and as target, on any file system of Hadoop.

The formats are Parquet with Kafka's columns, and record files.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple
from urllib.parse import unquote

import pyarrow as pa
from pyspark.errors import AnalysisException
from pyspark.sql import Column, DataFrame, SparkSession, Window
from pyspark.sql import functions as F
from pyspark.sql.types import (
    ArrayType,
    BinaryType,
    DataType,
    DecimalType,
    IntegralType,
    NullType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)

from relay.config import Config, Start
from relay.config.keys import FileFormat, InputFormat, OutputLayout
from relay.config.wiring import translator_of
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError, Problem
from spark_backfill.footers import check_alike
from spark_backfill.frames import HEADERS, Columns, Lines, Reader, records_to_write
from spark_backfill.hadoop import files_below, hadoop_path, paths_in, texts_of
from spark_backfill.layouts import FOLDERS, day
from spark_backfill.placement import TASK, Placement

#: The order of records in a target partition: that of their sources, then their number within one source.
SOURCE_ORDER: Final = ("source_topic", "source_partition", "source_offset", "number")
#: The columns that name a target partition.
PARTITION_COLUMNS: Final = ("topic", "partition")
#: First characters of the names of files and folders that Hadoop and Spark skip.
HIDDEN: Final = ("_", ".")
#: Variables that indicate a separate configuration of Spark.
_ELSEWHERE: Final = ("PYSPARK_GATEWAY_PORT", "HADOOP_CONF_DIR", "YARN_CONF_DIR", "SPARK_CONF_DIR")
#: The scheme of this machine's own files; an absolute path follows, which may hold no escapes here.
_SCHEME: Final = re.compile(r"file:(//)?(?=/[^:%]*$)")
_NEVER_READ: Final = "names that begin with _ or . are never read"
#: Characters in a path that make it a pattern to Spark.
PATTERN: Final = re.compile(r"([\\*?\[\]{},])")
#: The folder of records without a name: Hive's name for NULL.
_NO_NAME: Final = "__HIVE_DEFAULT_PARTITION__"


def files_read(spark: SparkSession, frame: DataFrame) -> list[str]:
    """Return the paths of the files that a frame reads."""
    return list(map(unquote, texts_of(spark, frame._jdf.inputFiles())))


class Captured(NamedTuple):
    """Records to translate: a frame, and how workers read its rows.

    `last_files`: how far a growing folder was read.
    """

    frame: DataFrame
    reader: Reader
    last_files: Sequence[str] = ()


def read_files(spark: SparkSession, path: str, file_format: InputFormat, key: str = "input") -> Captured:
    """Return the records of files (separated by commas), which `key` of `[backfill]` names.

    Raises ConfigError for missing files, for files that Spark would skip, and for columns that are missing or
    of another type.
    """
    paths = paths_of(path)
    if not paths:
        hint = "name files or folders, separated by commas"
        raise ConfigError([Problem(f"backfill.{key}", "has no path", hint)])
    if file_format is InputFormat.JSON_LINES:
        lines = spark.read.option("lineSep", "\n").text(paths)
        _check_all_read(spark, lines, paths, key)
        where = (
            F.col("_metadata.file_path").alias("path"),
            F.col("_metadata.file_block_start").alias("block"),
        )
        return Captured(lines.select(F.col("value").cast("binary"), *where), Lines())
    columns = _parquet(spark, paths)
    _check_all_read(spark, columns, paths, key)
    return Captured(as_records(_with_headers(spark, columns, paths)), Columns())


def paths_of(text: str) -> list[str]:
    """Split the paths of a key that names several, separated by commas."""
    return [each.strip() for each in text.split(",") if each.strip()]


def _check_all_read(spark: SparkSession, frame: DataFrame, paths: Iterable[str], key: str) -> None:
    """Refuse paths with nothing to read, and files that Spark skips silently. Raises ConfigError.

    Spark skips files that are hidden by their name, or in folders without `name=value`.
    """
    read = set(map(plain_path, files_read(spark, frame)))
    for pattern in paths:
        named, system = hadoop_path(spark, pattern)
        for found in paths_in(spark, system.globStatus(named)):
            if plain_path(found) in read:
                continue
            if _name(found).startswith(HIDDEN) and not named.getName().startswith(HIDDEN):
                continue  # a pattern has found it, as `*` finds `_SUCCESS`
            root = found.rstrip("/")
            for path in files_below(spark, *hadoop_path(spark, found)):
                is_hidden = any(part.startswith(HIDDEN) for part in path[len(root) + 1 :].split("/"))
                if not is_hidden and plain_path(path) not in read:
                    hint = f"name its folder, or a pattern; {_NEVER_READ}"
                    raise ConfigError([Problem(f"backfill.{key}", f"Spark would ignore {path}", hint)])
    if not read:
        raise _nothing_in(paths, key)


def _name(path: str) -> str:
    """Return the last part of a path."""
    return path.rstrip("/").rpartition("/")[2]


def _nothing_in(paths: Iterable[str], key: str) -> ConfigError:
    message = f"no file to read in {', '.join(paths)}"
    return ConfigError([Problem(f"backfill.{key}", message, _NEVER_READ)])


def plain_path(path: str) -> str:
    """Return a path without its scheme, which Hadoop writes in two ways (`file:/x`, `file:///x`)."""
    return re.sub(r"^[\w.+-]+:/*", "/", path)


def _parquet(spark: SparkSession, paths: Sequence[str]) -> DataFrame:
    try:
        return spark.read.parquet(*paths)
    except AnalysisException as error:
        if error.getCondition() == "PATH_NOT_FOUND":
            raise
        if error.getCondition() == "UNABLE_TO_INFER_SCHEMA":
            raise _nothing_in(paths, "input") from None
        message = f"is not Parquet that Spark can read: {str(error).partition(chr(10))[0]}"
        hint = "times are in milliseconds or microseconds"
        raise ConfigError([Problem("backfill.input", message, hint)]) from error


def _with_headers(spark: SparkSession, frame: DataFrame, paths: Sequence[str]) -> DataFrame:
    """Return the frame with the headers of all files: the file whose schema Spark took may have none.

    Raises ConfigError for files that differ in other columns.
    """
    file = check_alike(spark, frame, _COLUMNS, "headers")
    if file is None or "headers" in frame.columns:
        return frame
    headers = spark.read.parquet(PATTERN.sub(r"\\\1", file)).schema["headers"]
    return spark.read.schema(frame.schema.add(headers)).parquet(*paths)


def as_records(frame: DataFrame) -> DataFrame:
    """Return Kafka's columns as those of `RECORDS`. Raises ConfigError.

    Headers may be missing. A timestamp may be a time (in UTC if it has no zone), a number of milliseconds, or
    NULL. A value that is not a number, or does not fit, becomes NULL.
    """
    _check_columns(frame)
    headers = F.col("headers") if "headers" in frame.columns else F.lit(None)
    return frame.select(
        F.col("topic").cast("string"),
        # A cast that fails would quote the value.
        F.col("partition").try_cast("int").alias("partition"),
        F.col("offset").try_cast("bigint").alias("offset"),
        F.coalesce(_milliseconds(frame), F.lit(-1)).cast("bigint").alias("timestamp_ms"),
        F.col("key").cast("binary"),
        F.col("value").cast("binary"),
        headers.cast(HEADERS).alias("headers"),
    )


def _check_columns(frame: DataFrame) -> None:
    columns = {field.name: field.dataType for field in frame.schema}
    if missing := _COLUMNS.keys() - columns.keys() - {"headers"}:
        message = f"has no column {', '.join(sorted(missing))}"
        raise ConfigError([Problem("backfill.input", message, "columns are named as Kafka's fields")])
    problems = []
    for name, (is_right, wanted) in _COLUMNS.items():
        if name in columns and not is_right(columns[name]):
            message = f"the column {name} is {columns[name].simpleString()}"
            problems.append(Problem("backfill.input", message, f"it must be {wanted}"))
    if problems:
        raise ConfigError(problems)


def _is_bytes(kind: DataType) -> bool:
    return isinstance(kind, (StringType, BinaryType))


def _is_whole(kind: DataType) -> bool:
    return isinstance(kind, IntegralType) or (isinstance(kind, DecimalType) and kind.scale == 0)


def _are_headers(kind: DataType) -> bool:
    """Return whether a cast to `HEADERS`, which uses the order of the fields, also fits their names."""
    pair = kind.elementType if isinstance(kind, ArrayType) else None
    return isinstance(kind, NullType) or (
        isinstance(pair, StructType)
        and [field.name.lower() for field in pair] in (["key", "value"], ["name", "value"])
        and all(_is_bytes(field.dataType) for field in pair)
    )


#: The types of each column, and their name in errors. Unsigned numbers come as decimals, names of folders as
#: text.
_COLUMNS: Final[Mapping[str, tuple[Callable[[DataType], bool], str]]] = {
    "topic": (_is_bytes, "text"),
    "partition": (lambda kind: _is_whole(kind) or isinstance(kind, StringType), "a whole number"),
    "offset": (lambda kind: _is_whole(kind) or isinstance(kind, StringType), "a whole number"),
    "timestamp": (
        lambda kind: isinstance(kind, (IntegralType, TimestampType, TimestampNTZType, NullType)),
        "a timestamp, or a number of milliseconds",
    ),
    "key": (lambda kind: _is_bytes(kind) or isinstance(kind, NullType), "bytes or text"),
    "value": (lambda kind: _is_bytes(kind) or isinstance(kind, NullType), "bytes or text"),
    "headers": (_are_headers, "array<struct<key:string,value:binary>>"),
}


def _milliseconds(frame: DataFrame) -> Column:
    time, kind = F.col("timestamp"), frame.schema["timestamp"].dataType
    if isinstance(kind, TimestampNTZType):  # a cast would take the zone of the session
        return F.unix_millis(F.concat(time.cast("string"), F.lit("Z")).cast("timestamp"))
    return F.unix_millis(time) if isinstance(kind, TimestampType) else time.cast("bigint")


class OutputFolder(NamedTuple):
    """A folder to write to. `step`: its number in a run of several, each of which overwrites its folders.

    `placement`: the tasks that sort and write the records; None leaves it to Spark, which takes 200 in
    streams. `by_time`: see `in_target_order`.
    """

    path: str
    file_format: FileFormat
    layout: OutputLayout = OutputLayout.TOPIC
    step: int | None = None
    placement: Placement | None = None
    by_time: bool = False

    @classmethod
    def from_config(
        cls, config: Config, step: int | None = None, placement: Placement | None = None
    ) -> OutputFolder:
        """Make the target that `output` names."""
        backfill = config.backfill
        by_time = translator_of(config).copies_ddl
        return cls(backfill.output, backfill.output_format, backfill.output_layout, step, placement, by_time)

    def write(self, produced: DataFrame, before: Mapping[str, int]) -> None:
        """Write records in order, with offsets from 0.

        `before`: how many records earlier steps have written, by `topic/partition`.
        """
        if self.placement is not None:
            produced = self.placement.distribute(produced)
        placed, order = in_target_order(produced, by_time=self.by_time)
        number = number_in_partition(order, target_columns(produced))
        numbered = placed.withColumn("offset", number - 1 + _already(before))
        folders = list(FOLDERS[self.layout])
        if self.layout is OutputLayout.DATE:
            numbered = numbered.withColumn("date", day())
        if self.file_format is not FileFormat.PARQUET:
            numbered = _with_lines(numbered, folders)
        if self.step is not None:
            # Spark would remove a constant from the order, and sort the rows once more.
            numbered = numbered.withColumn("step", F.lit(self.step) + F.pmod("partition", F.lit(1)))
            folders.append("step")
        ordered = _by_folder(numbered, folders)
        if self.file_format is FileFormat.PARQUET:
            time = F.timestamp_millis(F.col("timestamp_ms")).alias("timestamp")
            columns = [name for name in PARTITION_COLUMNS if name not in folders]
            rows = ordered.select(*columns, "key", "value", "offset", time, "headers", *folders)
        else:
            rows = ordered.select("line", *folders)
        writer = rows.write.partitionBy(*folders).mode("overwrite")
        # Always set: a cluster may have another default, and records of an earlier run would stay.
        writer = writer.option("partitionOverwriteMode", "static" if self.step is None else "dynamic")
        if self.file_format is FileFormat.PARQUET:
            writer.parquet(self.path)
        else:
            writer.text(self.path)

    def delete_step(self, spark: SparkSession) -> None:
        """Delete the output of an earlier attempt at this step, perhaps in other folders than this one's.

        The path must hold no characters of a Hadoop pattern (`check_locations` ensures it).
        """
        folders = [f"{name}=*" for name in FOLDERS[self.layout]]
        pattern = "/".join((self.path.rstrip("/"), *folders, f"step={self.step}"))
        named, system = hadoop_path(spark, pattern)
        for status in system.globStatus(named) or ():
            system.delete(status.getPath(), True)


def settings() -> dict[str, str]:
    """Return settings of a session.

    A task has one open file, topics are not read as numbers, and a few tasks list all paths of a pattern:
    Spark's default is a task for each path.
    """
    return {
        "spark.sql.maxConcurrentOutputFileWriters": "0",
        "spark.sql.sources.partitionColumnTypeInference.enabled": "false",
        "spark.sql.sources.parallelPartitionDiscovery.parallelism": "64",
    }


def in_target_order(produced: DataFrame, *, by_time: bool) -> tuple[DataFrame, Sequence[str]]:
    """Return the records, and the columns by which those of a target partition are ordered.

    `by_time`: a target partition gets DDL of another source partition, which is ordered among the rows by its
    time. Records of one source partition keep their order even where their times go back.
    """
    if not by_time:
        return produced, SOURCE_ORDER
    of_source = Window.partitionBy(*target_columns(produced), "source_topic", "source_partition")
    so_far = of_source.orderBy("source_offset", "number").rowsBetween(
        Window.unboundedPreceding, Window.currentRow
    )
    return produced.withColumn("reached_ms", F.max("timestamp_ms").over(so_far)), (
        "reached_ms",
        *SOURCE_ORDER,
    )


def target_columns(produced: DataFrame) -> Sequence[str]:
    """Return the columns of a target partition, with that of its task if it has one: see `TASK`."""
    return [name for name in (TASK, *PARTITION_COLUMNS) if name in produced.columns]


def number_in_partition(
    columns: Sequence[str] = SOURCE_ORDER, partition: Sequence[str] = PARTITION_COLUMNS
) -> Any:
    """Count 1, 2, 3 … in each target partition, as a bigint: `row_number` ends at 2³¹."""
    order = Window.partitionBy(*partition).orderBy(*columns)
    return F.count(F.lit(1)).over(order.rowsBetween(Window.unboundedPreceding, Window.currentRow))


def _already(before: Mapping[str, int]) -> Any:
    if not before:
        return F.lit(0)
    known = F.create_map(*[F.lit(each) for pair in before.items() for each in pair])
    partition = F.concat_ws("/", F.col("topic"), F.col("partition").cast("string"))
    return F.coalesce(known[partition], F.lit(0))


def _by_folder(numbered: DataFrame, folders: Sequence[str]) -> DataFrame:
    """Return the rows of each task sorted by folder, and in a folder by topic, partition and offset.

    A task then has one open file at a time. Spark would sort rows by folder itself, in a way that is not
    documented as stable, unless it sees that they are sorted; so the names of folders must not be NULL, which
    Spark replaces before it sorts.
    """
    for field in numbered.select(*folders).schema:
        if isinstance(field.dataType, StringType):
            named = F.coalesce(F.col(field.name), F.lit(_NO_NAME))
            numbered = numbered.withColumn(field.name, named)
    order = dict.fromkeys([*folders, *PARTITION_COLUMNS, "offset"])
    return numbered.sortWithinPartitions(*order)


def _with_lines(numbered: DataFrame, folders: Sequence[str]) -> DataFrame:
    """Return rows as lines of a record file, beside the columns that `_by_folder` needs."""
    kept = list(dict.fromkeys([*folders, *PARTITION_COLUMNS, "offset"]))
    fields = numbered.select(*kept).schema
    schema = ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in fields)
    return numbered.mapInArrow(_LinesOf(kept), f"line string, {schema}")


class _LinesOf:
    """Convert rows to lines of a record file, beside the columns that are `kept`."""

    def __init__(self, kept: Sequence[str]) -> None:
        self.kept = kept

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        """Yield the lines of a task."""
        for batch in batches:
            numbered = zip(records_to_write(batch), batch.column("offset").to_pylist(), strict=True)
            lines = [format_record(record, offset)[:-1].decode() for record, offset in numbered]
            kept = [batch.column(name) for name in self.kept]
            yield pa.RecordBatch.from_arrays(
                [pa.array(lines, pa.string()), *kept], names=["line", *self.kept]
            )


def input_problems(config: Config) -> list[Problem]:
    """Find settings that do not suit a configuration that reads files, and files missing on this machine."""
    problems = []
    if config.source.start is Start.LATEST:
        message = "files are read from their beginning: nothing would be read"
        problems.append(Problem("source.start", message, 'set start = "earliest", or a bound'))
    for key in ("input", "schema_input"):
        problems += [
            Problem(f"backfill.{key}", f"no file to read in {path}", _NEVER_READ)
            for path in paths_of(getattr(config.backfill, key))
            if _is_here(config, path) and not _has_files(Path(_SCHEME.sub("", path)))
        ]
    return problems


def _has_files(path: Path) -> bool:
    """Return whether a path is a file that Spark reads, or contains one.

    A path that cannot be accessed is left to Spark.
    """
    try:
        if not path.is_dir():
            return path.exists()
        return any(_has_files(below) for below in path.iterdir() if not below.name.startswith(HIDDEN))
    except OSError:
        return True


def _is_here(config: Config, path: str) -> bool:
    """Return whether a path is certainly one of this machine, and no pattern.

    Where Spark or Hadoop has a separate configuration, a path without a scheme may be of another file system.
    """
    properties = config.backfill.spark
    is_configured = any(name.startswith("spark.hadoop.fs.") for name in properties) or any(
        name in os.environ for name in _ELSEWHERE
    )
    is_local = properties.get("spark.master", "local").startswith("local")
    if ":" in path:
        is_configured = not _SCHEME.match(path)
    return is_local and not is_configured and not PATTERN.search(path)
