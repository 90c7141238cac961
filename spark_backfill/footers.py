"""Compare the columns of Parquet files by their footers: Spark applies the columns of one file to all."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any, Final

from pyspark.sql import DataFrame, SparkSession

from relay.model.errors import ConfigError, Problem
from spark_backfill.hadoop import texts_of

#: How many footers are read at a time: an object store has a high latency.
_THREADS: Final = 32
#: How many footers Java holds at a time.
_FOOTERS_AT_ONCE: Final = 1_000
_NO_PARQUET: Final = re.compile("is not a Parquet file|corrupted file")
#: Parquet's text of a footer: `Footer{file, ParquetMetaData{FileMetaData{schema: message name {`, then the
#: columns, one or more lines for each, and `}`.
_FILE: Final = "Footer{"
_SCHEMA: Final = ", ParquetMetaData{FileMetaData{schema: message "
#: Parts of a column's text that do not affect reading: whether it may be NULL, and field ids.
_NO_MATTER: Final = re.compile(r"\b(optional|required) | = \d+\b")


def check_alike(spark: SparkSession, frame: DataFrame, names: Iterable[str], optional: str) -> str | None:
    """Refuse files that differ in one of these columns; return the first with the column `optional`.

    `frame`: The files as `spark.read.parquet` reads them. Other files may lack that column. Raises
    ConfigError, also for a file that is not Parquet.
    """
    names, firsts = list(names), dict[str, tuple[str, str]]()
    known: dict[str, Mapping[str, str]] = {}  # most files of a folder have the same schema
    for path, schema in sorted(_footers(spark, frame)):
        if schema not in known:
            known[schema] = columns_in(schema, names)
        columns = known[schema]
        for name in names:
            kind = columns.get(name, "missing")
            if name == optional and name not in columns:
                continue
            first, expected = firsts.setdefault(name, (path, kind))
            if kind != expected:
                message = f"the column {name} is {kind} in {path}, and {expected} in {first}"
                hint = "write all files with the same columns"
                raise ConfigError([Problem("backfill.input", message, hint)])
    return firsts[optional][0] if optional in firsts else None


def _footers(spark: SparkSession, frame: DataFrame) -> Iterator[tuple[str, str]]:
    """Yield the files of a frame, and the columns of each as Parquet's text.

    Every call into Java is slow, so that each reads many files, with the statuses that Spark has listed.
    """
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - a client of Spark Connect has no py4j

    jvm: Any = spark._jvm
    listed = frame._jdf.queryExecution().analyzed().relation().location().allFiles()
    statuses = jvm.scala.jdk.javaapi.CollectionConverters.asJava(listed)
    settings = jvm.org.apache.hadoop.conf.Configuration(spark._jsc.hadoopConfiguration())
    settings.setInt("parquet.metadata.read.parallelism", _THREADS)
    read_all = jvm.org.apache.parquet.hadoop.ParquetFileReader.readAllFootersInParallel

    def read(some: Any) -> Any:
        return read_all(settings, some, True)  # without row groups

    count = statuses.size()
    for first in range(0, count, _FOOTERS_AT_ONCE):
        some = statuses.subList(first, min(count, first + _FOOTERS_AT_ONCE))
        try:
            footers = read(some)
        except Py4JJavaError as error:
            if _NO_PARQUET.search(str(error)):
                path = _first_unreadable(some, read)
                hint = "set input_format to the format of the files"
                raise ConfigError([Problem("backfill.input", f"{path} is not Parquet", hint)]) from None
            raise
        for text in texts_of(spark, footers.toArray()):
            path, _, rest = text.removeprefix(_FILE).partition(_SCHEMA)
            yield path, rest.partition("\n")[2].partition("\n}")[0]


def _first_unreadable(statuses: Any, read: Callable[[Any], Any]) -> str:
    """Return the first file whose footer cannot be read: not every error names it."""
    from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - as above

    while (count := statuses.size()) > 1:
        first, second = statuses.subList(0, count // 2), statuses.subList(count // 2, count)
        try:
            read(first)
        except Py4JJavaError:
            statuses = first
        else:
            statuses = second
    path: str = statuses.get(0).getPath().toString()
    return path


def _columns(schema: str) -> list[str]:
    """Return the text of each column: its line, and the more indented lines of its fields."""
    columns: list[list[str]] = []
    for line in schema.splitlines():
        is_first = line.startswith("  ") and line[2:3] not in {" ", "}"}
        if is_first:
            columns.append([line])
        elif columns:
            columns[-1].append(line)
    return ["\n".join(lines) for lines in columns]


def columns_in(schema: str, names: Iterable[str]) -> dict[str, str]:
    """Return the types of the columns with these names, each in one line, in Parquet's text of a schema."""
    columns = [_NO_MATTER.sub("", column) for column in _columns(schema)]
    found = {}
    for name in names:
        named = re.compile(rf"^  (\S+) {re.escape(name)}(?=;| \(| \{{)")
        for column in columns:
            if named.match(column):
                found[name] = " ".join(named.sub(r"\1", column, count=1).rstrip(";").split())
    return found
