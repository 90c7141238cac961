"""Compare the columns of Parquet files by their footers: Spark applies the columns of one file to all."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any, Final

from pyspark.sql import SparkSession

from relay.model.errors import ConfigError, Problem

#: How many footers are read at a time: an object store has a high latency.
_THREADS: Final = 8
_NO_PARQUET: Final = re.compile("is not a Parquet file|corrupted file")
#: Parts of a column's text that do not affect reading: whether it may be NULL, and field ids.
_NO_MATTER: Final = re.compile(r"\b(optional|required) | = \d+\b")


def check_alike(spark: SparkSession, paths: Sequence[str], names: Iterable[str], optional: str) -> str | None:
    """Refuse files that differ in one of these columns; return the first with the column `optional`.

    Other files may lack that column. Raises ConfigError, also for a file that is not Parquet.
    """
    names, firsts = list(names), dict[str, tuple[str, str]]()
    with ThreadPoolExecutor(_THREADS) as threads:
        footers = _Footers(spark)
        for path, columns in zip(paths, threads.map(footers.columns_of, paths), strict=True):
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


class _Footers:
    """Read footers, in any thread."""

    def __init__(self, spark: SparkSession) -> None:
        self._jvm: Any = spark._jvm
        self._settings = spark._jsc.hadoopConfiguration()
        # Most files of a folder have the same schema, and every call into Java is slow.
        self._known: dict[str, Mapping[str, str]] = {}

    def columns_of(self, path: str) -> Mapping[str, str]:
        """Return the types of a file's columns. Raises ConfigError for a file that is not Parquet."""
        from py4j.protocol import Py4JJavaError  # noqa: PLC0415 - a client of Spark Connect has no py4j

        parquet = self._jvm.org.apache.parquet.hadoop
        try:
            file = parquet.util.HadoopInputFile.fromPath(
                self._jvm.org.apache.hadoop.fs.Path(path), self._settings
            )
            reader = parquet.ParquetFileReader.open(file)
            try:
                schema = reader.getFileMetaData().getSchema()
            finally:
                reader.close()
        except Py4JJavaError as error:
            if _NO_PARQUET.search(str(error)):
                hint = "set input_format to the format of the files"
                raise ConfigError([Problem("backfill.input", f"{path} is not Parquet", hint)]) from None
            raise
        text = schema.toString()
        if text not in self._known:
            self._known[text] = {field.getName(): _kind(field) for field in schema.getFields()}
        return self._known[text]


def _kind(field: Any) -> str:
    """Return the type of a column without its name, in one line."""
    text = _NO_MATTER.sub("", field.toString()).replace(f" {field.getName()}", "", 1)
    return " ".join(text.split())
