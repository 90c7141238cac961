"""Files of any file system of Hadoop: their names, and values of Java in few calls, each of which is slow."""

from __future__ import annotations

import os
import re
from collections.abc import Iterator
from pathlib import Path
from typing import Any, Final

from pyspark.sql import SparkSession

#: Hadoop's checksum of another file.
_CHECKSUM: Final = re.compile(r"\..*\.crc", re.DOTALL)


def hadoop_path(spark: SparkSession, path: str) -> tuple[Any, Any]:
    """Return a path as Hadoop's object, and its file system."""
    jvm: Any = spark._jvm
    named = jvm.org.apache.hadoop.fs.Path(path)
    return named, named.getFileSystem(spark._jsc.hadoopConfiguration())


def qualified(path: Any, system: Any) -> str:
    """Return the path with the name of its file system."""
    return str(system.makeQualified(path).toString())


def texts_of(spark: SparkSession, values: Any) -> list[str]:
    """Return the texts of the values in an array of Java, in one call, however many there are.

    Every call into Java is slow. No text may contain NUL.
    """
    jvm: Any = spark._jvm
    text: str = jvm.scala.collection.immutable.ArraySeq.unsafeWrapArray(values).mkString("\0")
    return text.split("\0") if text else []


def paths_in(spark: SparkSession, statuses: Any) -> list[str]:
    """Return the paths of Hadoop's statuses of files, an array or None."""
    jvm: Any = spark._jvm
    return [] if statuses is None else texts_of(spark, jvm.org.apache.hadoop.fs.FileUtil.stat2Paths(statuses))


def files_below(spark: SparkSession, folder: Any, system: Any) -> list[str]:
    """Return the paths of all files below a folder, at any depth; the path of a file for the file itself."""
    if system.getUri().getScheme() == "file":
        return [f"file:{path}" for path in _local_files(folder.toUri().getPath())]
    jvm: Any = spark._jvm
    found = jvm.org.apache.hadoop.util.functional.RemoteIterators.toList(system.listFiles(folder, True))
    kind = jvm.scala.reflect.ClassTag.apply(jvm.java.lang.Class.forName("org.apache.hadoop.fs.FileStatus"))
    return paths_in(spark, jvm.scala.jdk.javaapi.CollectionConverters.asScala(found).toArray(kind))


def _local_files(path: str) -> Iterator[str]:
    """Yield the files of this machine below a path, without checksums, which Hadoop hides.

    Hadoop itself starts a process for each file, to find out who may read it.
    """
    if Path(path).is_file():
        yield path
    for folder, _, names in os.walk(path, followlinks=True):
        yield from (f"{folder}/{name}" for name in names if not _CHECKSUM.fullmatch(name))
