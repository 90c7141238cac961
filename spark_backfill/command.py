"""The command: a configuration in, a run, a summary, an exit status.

Exit status: 0 done, 1 a defect of relay, 2 your input or options, 3 the surroundings (a broker, a topic, a
disk), 130 interrupted (Ctrl-C), 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import errno
import json
import logging
import os
import re
import signal
import sys
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from py4j.protocol import Py4JNetworkError
from pyspark.sql import SparkSession

from relay.config import Config, load_config
from relay.config.choices import InputFormat
from relay.errors import ConfigError, Problem, RecordsGone, RelayError, ServiceError
from spark_backfill.counts import Counts, as_document, as_text
from spark_backfill.files import input_problems
from spark_backfill.job import TopicsRun, from_files
from spark_backfill.places import NO_FILE_SYSTEM, PACKAGE_HINT
from spark_backfill.progress import telling
from spark_backfill.sessions import session
from spark_backfill.stopping import STATUS, until_signal
from spark_backfill.ticdc_storage import storage_problems
from spark_backfill.topics import OVERFLOW, too_late
from spark_backfill.translation import STOP_MARK

_INTERRUPTED: Final = STATUS[signal.SIGINT]
#: Classes of Java by which Spark says that the surroundings failed.
_SURROUNDINGS: Final = re.compile(
    r"org\.apache\.(kafka|hadoop)[\w.]*Exception|java\.(io|net|nio)[\w.]*Exception"
)
_LOST: Final = re.compile("Some data may have been lost|KAFKA_DATA_LOSS")
#: What Spark's own end, under the job, looks like from Python.
_SPARK_ENDED: Final = re.compile(
    "stopped SparkContext|SparkContext was shut down|Answer from Java side is empty"
)
#: A file that is not what it is said to be: no Parquet, or compressed and cut off or damaged.
_UNREADABLE: Final = re.compile(
    r"\[FAILED_READ_FILE\.(?P<why>\w+)\] Encountered error while reading file (?P<file>\S+?)\.?\s"
)
_DAMAGED: Final = re.compile(
    r"java\.io\.EOFException: Unexpected end of input stream|java\.util\.zip\.\w+: .*|not a gzip file|incorrect header check"
)
#: A value of a column that does not fit; the text before the types quotes it.
_NO_CAST: Final = re.compile(
    r'\[CAST_\w+\] The value .* of the type ("\w+") cannot be cast to ("\w+")', re.DOTALL
)
#: Words about the surroundings, and what they mean; `{0}` is what the words name.
_MEANINGS: Final = {
    "Python worker exited unexpectedly": (
        "a Python worker of Spark has ended unexpectedly: killed, or out of memory; give executors more, or lower "
        "spark.sql.execution.arrow.maxBytesPerBatch"
    ),
    "Multiple streaming queries are concurrently using": (
        "another run is at work with this checkpoint: wait for its end, or stop it"
    ),
    "JAVA_GATEWAY_EXITED": (
        "Java did not start Spark, and says above why: Spark needs Java 17 or 21: set JAVA_HOME; and the packages of "
        "spark.jars.packages within reach"
    ),
    r"No such file or directory: '(\S*?)/\./bin/spark-submit'": "there is no Spark in {0}, which SPARK_HOME names: unset it",
    r"ModuleNotFoundError: No module named '([\w.]+)'": (
        "the workers' Python lacks {0}: set PYSPARK_PYTHON to one that has relay, pyarrow and pandas"
    ),
    r"Python in worker has different version: (\S+) than that in driver: ([\d.]+)": (
        "the workers' Python is {0}, and the driver's {1}: set PYSPARK_PYTHON to one of the same version"
    ),
}
_TEXT: Final = r'(?:[^"\\\n]|\\(?:u[0-9a-f]{4}|[^u\n]))*'
#: `Stopped` as JSON, whose message may have lost its end.
_STOPPED: Final = re.compile(
    rf'{STOP_MARK}{{"place": "(?P<place>{_TEXT})", "code": "(?P<code>{_TEXT})", "status": (?P<status>\d+), '
    rf'"message": "(?P<message>{_TEXT})'
)


class RecordStopped(RelayError):
    """A task has met a record, or an object, at which the run ends; what had been written stays."""

    code = "backfill.stopped"

    def __init__(self, place: str, code: str, message: str, status: int) -> None:
        super().__init__(f"{place}: {code}: {message}")
        self.exit_status = status  # type: ignore[misc]  # it is the error's own


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; gives the exit status."""
    given = _parser().parse_args(arguments)
    # Else PySpark writes Java's stack beside what the command says, and in it a row's value.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    try:
        config = load_config(given.config, given.set)
        _check(config, continuous=given.continuous)
        _check_summary(config.backfill.summary)
        work = _Work(config, continuous=given.continuous)
        return work.status_of(until_signal(work.do, work.stop, work.tell_signal))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # the outermost place: whatever comes here is reported, not hidden
        return _report(told(error))


class _Work:
    """What the command does, and how another thread ends it."""

    def __init__(self, config: Config, *, continuous: bool) -> None:
        self._config, self._continuous = config, continuous
        self._is_stopped = False
        self._is_done = False
        self._spark: SparkSession | None = None
        self._topics: TopicsRun | None = None

    def do(self) -> None:
        """Start Spark, and translate."""
        self._spark = spark = session(self._config)
        try:
            if not self._is_stopped:  # while Spark started
                self._run(spark)
                self._is_done = not self._is_stopped
        finally:
            spark.stop()

    def stop(self) -> None:
        """End what Spark does just now. A step that is under way is done again by the next run."""
        self._is_stopped = True
        if self._spark is None:
            return
        # Java tells at length of everything that is interrupted.
        self._spark.sparkContext.setLogLevel("FATAL")
        if self._topics is not None:
            self._topics.stop()
        self._spark.sparkContext.cancelAllJobs()

    def status_of(self, status: int) -> int:
        """The exit status: a signal that comes when all is written and told ends nothing."""
        return 0 if self._is_done else status

    def tell_signal(self, name: str) -> None:
        """Say why the run ends, and what follows."""
        if self._is_done:
            return
        again = (
            "a new run writes everything again"
            if self._config.backfill.input
            else "the next run goes on behind the last step"
        )
        _say(f"stopped by {name}; {again}")

    def _run(self, spark: SparkSession) -> None:
        config, began = self._config, time.perf_counter()
        tracker = spark.sparkContext.statusTracker()
        if config.backfill.input:
            with telling(tracker, _say):
                counts = from_files(spark, config)
            _summarise(config, counts, time.perf_counter() - began)
            return
        run = self._topics = TopicsRun(spark, config, _tell_step)
        try:
            with telling(tracker, _say):
                run.run(continuous=self._continuous)
        except BaseException:  # the steps before a failure have been written
            try:
                _summarise(config, run.counts, time.perf_counter() - began)
            except ServiceError as error:  # what has ended the run is the news
                _say(f"warning: {error}")
            raise
        _summarise(config, run.counts, time.perf_counter() - began)


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(
        prog="python -m spark_backfill", description="Translate history of any size with Spark."
    )
    parser.add_argument(
        "--config",
        type=Path,
        required=True,
        metavar="FILE",
        help="configuration of the relay, with [backfill]",
    )
    parser.add_argument(
        "--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="change a key; may be repeated"
    )
    parser.add_argument(
        "--continuous", action="store_true", help="go on when all is read, and translate what comes"
    )
    return parser


def _check(config: Config, *, continuous: bool) -> None:
    """What the job cannot do with a configuration that the service may have. Raises ConfigError."""
    backfill, problems = config.backfill, []
    if not backfill.input and not backfill.checkpoint:
        problems.append(
            Problem(
                "backfill.checkpoint", "is missing", "a folder that keeps how far the topics have been read"
            )
        )
    if backfill.input and backfill.checkpoint:
        message = "files are read in one go, from their beginning, and nothing is kept"
        problems.append(Problem("backfill.checkpoint", message, "leave it out"))
    if backfill.input and continuous:
        problems.append(Problem("backfill.input", "files are read once", "leave --continuous out"))
    if continuous and backfill.end != "latest":
        problems.append(
            Problem("backfill.end", "a continuous run has no end", "leave --continuous or the end out")
        )
    if config.translator().needs_all_partitions:
        message = "the job does not yet write watermarks of rows that are spread over the partitions anew"
        problems.append(Problem("target.watermarks", message, 'set watermarks = "drop", or partitions = 0'))
    if backfill.input:
        problems += input_problems(config)
    if backfill.input and backfill.input_format is InputFormat.TICDC_STORAGE:
        problems += storage_problems(config)
    problems += _range_problems(config)
    if problems:
        raise ConfigError(problems)


def _check_summary(path: str) -> None:
    """Refuse a summary that could not be written when all is done; what is there stays as it is. Raises
    ServiceError.
    """
    if not path:
        return
    file, reason = Path(path), 0
    if file.is_dir():
        reason = errno.EISDIR
    elif not file.parent.is_dir():
        reason = errno.ENOENT
    elif not os.access(file if file.exists() else file.parent, os.W_OK):
        reason = errno.EACCES
    if reason:
        raise _unwritten(path, os.strerror(reason))


def _unwritten(path: str, why: str | None) -> ServiceError:
    return ServiceError(f"cannot write {path}: {why}")


def _range_problems(config: Config) -> Iterator[Problem]:
    """Bounds between which nothing can lie. Two that are the same leave out a partition, or say that all is
    done.
    """
    source, backfill = config.source, config.backfill
    for place, offset in source.start_offsets.items():
        if offset > backfill.end_offsets.get(place, offset):
            message = f"ends before {offset}, where start_offsets begins"
            yield Problem(f'backfill.end_offsets."{place}"', message, "there would be nothing to read")
    pairs = (
        ("timestamp", source.start_timestamp_ms, backfill.end_timestamp_ms),
        ("commit_ts", source.start_commit_ts, backfill.end_commit_ts),
    )
    for name, start, end in pairs:
        if start and end and start > end:
            yield Problem(f"backfill.end_{name}", f"is before start_{name}", "there would be nothing to read")


def _tell_step(step: int, counts: Counts) -> None:
    _say(f"step {step}: {counts.read} records read, {counts.written.total()} written")


def _summarise(config: Config, counts: Counts, seconds: float) -> None:
    _say(as_text(counts, seconds))
    if config.backfill.summary:
        text = json.dumps(as_document(counts, seconds), indent=2, ensure_ascii=False) + "\n"
        try:
            Path(config.backfill.summary).write_text(text, encoding="utf-8")
        except OSError as error:
            raise _unwritten(config.backfill.summary, error.strerror) from error


def told(error: BaseException) -> BaseException:
    """The error behind Spark's own: what a task has said, or what of the surroundings failed."""
    if isinstance(error, RelayError):
        return error
    text = str(error)
    if STOP_MARK in text:
        return _stopped(text)
    if lost := _LOST.search(text):
        return RecordsGone(
            f"the records that come next were deleted by retention, or with their topic: {_line_with(text, lost[0])}"
        )
    for words, meaning in _MEANINGS.items():
        if found := re.search(words, text):
            return ServiceError(meaning.format(*found.groups()))
    if _SPARK_ENDED.search(text) or isinstance(error, Py4JNetworkError | ConnectionError):
        return ServiceError("Spark has ended under the job: it was stopped, or killed; start the job again")
    if OVERFLOW in text:
        return too_late("a record")
    if problem := _input_problem(text):
        return ConfigError([problem])
    java = _SURROUNDINGS.search(text)
    return ServiceError(_in_which_file(text) + _line_with(text, java[0])) if java else error


def _input_problem(text: str) -> Problem | None:
    """What is wrong with the files that were read, if Spark's text says so."""
    if value := _NO_CAST.search(text):
        return Problem(
            "backfill.input",
            f"a value of the type {value[1]} cannot be read as {value[2]}",
            "correct the column",
        )
    if unknown := NO_FILE_SYSTEM.search(text):
        return Problem("backfill", unknown[0], PACKAGE_HINT)
    file = _UNREADABLE.search(text)
    if file and file["why"] == "CANNOT_READ_FILE_FOOTER":
        return Problem(
            "backfill.input",
            f"{file['file']} is not Parquet",
            "input_format says how records lie in the files",
        )
    if file and (damage := _DAMAGED.search(text)):
        return Problem("backfill.input", f"{file['file']} is cut off or damaged: {damage[0].strip()}")
    return None


def _in_which_file(text: str) -> str:
    file = _UNREADABLE.search(text)
    return f"{file['file']}: " if file else ""


def _stopped(text: str) -> RelayError:
    """What a task has said, as much of it as Spark has left."""
    if whole := _STOPPED.search(text):
        place, code, message = (json.loads(f'"{whole[name]}"') for name in ("place", "code", "message"))
        return RecordStopped(place, code, message, int(whole["status"]))
    return ServiceError(
        "a task has stopped the run, and Spark has cut off why: RELAY_TRACEBACK=1 shows what is left"
    )


def _line_with(text: str, words: str) -> str:
    return next(line.strip() for line in text.splitlines() if words in line)


def _report(error: BaseException) -> int:
    if os.environ.get("RELAY_TRACEBACK"):
        _say("".join(traceback.format_exception(error)))
    if isinstance(error, ConfigError):
        for problem in error.problems:
            _say(f"error: {problem}")
        return error.exit_status
    if isinstance(error, RelayError):
        _say(f"error: {error}")
        return error.exit_status
    _say(
        f"error: this is a defect of relay, please report it; RELAY_TRACEBACK=1 shows where: {type(error).__name__}: {error}"
    )
    return 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - what the command says
