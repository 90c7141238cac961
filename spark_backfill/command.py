"""The command: run a configuration, print a summary, return an exit status.

Exit status: 0 done, 1 a bug in relay, 2 your input or options, 3 the environment (a broker, a topic, a disk),
130 interrupted (Ctrl-C), 143 ended by SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import errno
import json
import logging
import os
import signal
import sys
import tempfile
import time
import traceback
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from relay.catalog import Catalog
from relay.catalog.definitions import undefined
from relay.config import Config, load_config
from relay.config.keys import InputFormat
from relay.config.wiring import load_schema_dumps, translator_of
from relay.core.selection import chosen_tables
from relay.core.summaries import MOST_NAMES
from relay.model.errors import ConfigError, Problem, RelayError, ServiceError
from relay.text.redaction import printable
from spark_backfill.checkpoint import local_problems
from spark_backfill.counts import BackfillCounts, as_document, as_text
from spark_backfill.files import input_problems
from spark_backfill.first_records import ratio_exceeded
from spark_backfill.job import TopicsRun, from_files
from spark_backfill.metrics import RunMetrics, served
from spark_backfill.progress import add_step, telling
from spark_backfill.rows_output import rows_problems
from spark_backfill.sessions import SPECULATION, is_started_by_java, session
from spark_backfill.spark_errors import JAVA_ENDED, explained
from spark_backfill.spark_log import INHERITED, SparkLog
from spark_backfill.stopping import STATUS, until_signal
from spark_backfill.ticdc_storage import storage_problems

_INTERRUPTED: Final = STATUS[signal.SIGINT]


def main(arguments: Sequence[str] | None = None) -> int:
    """Run the command; return the exit status."""
    given = argument_parser().parse_args(arguments)
    # Otherwise PySpark prints Java's stack, which holds a row's value.
    logging.getLogger("DataFrameQueryContextLogger").setLevel(logging.CRITICAL)
    log: SparkLog | None = None
    folders: dict[str, str] = {}
    try:
        config = load_config(given.config, given.set)
        check_config(config, continuous=given.continuous)
        folders = _folders(config)
        for path in (config.backfill.summary, config.backfill.progress):
            _check_writable(path)
        report_schema_dumps(config)
        report_rate_limits(config)
        if not is_started_by_java():
            log = SparkLog.opened(given.spark_log)
        work = _BackfillRun(config, continuous=given.continuous, log=log)
        return work.status_of(until_signal(work.do, work.stop, work.report_signal))
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # the outermost handler: every error is reported, not hidden
        return _report(explained(error, folders), log)


class _BackfillRun:
    """The work of the command, which another thread can end."""

    def __init__(self, config: Config, *, continuous: bool, log: SparkLog | None) -> None:
        self._config, self._continuous, self._log = config, continuous, log
        self._is_stopped = False
        self._is_done = False
        self._spark: SparkSession | None = None
        self._topics: TopicsRun | None = None
        self._metrics: RunMetrics | None = None

    def do(self) -> None:
        """Start Spark, and translate."""
        if self._log is not None:
            _say(f"starting Spark; its own output is in {self._log.path}")
        self._spark = spark = session(self._config, self._log)
        try:
            if not self._is_stopped:  # while Spark started
                self._run(spark)
                self._is_done = not self._is_stopped
        finally:
            spark.stop()

    def stop(self) -> None:
        """End Spark's current work. The next run repeats the step in progress."""
        self._is_stopped = True
        if self._spark is None:
            return
        # Java logs every interruption at length.
        self._spark.sparkContext.setLogLevel("FATAL")
        if self._topics is not None:
            self._topics.stop()
        self._spark.sparkContext.cancelAllJobs()

    def status_of(self, status: int) -> int:
        """Return the exit status: a signal that comes when all is done changes nothing."""
        return 0 if self._is_done else status

    def report_signal(self, name: str) -> None:
        """Report why the run ends, and the consequences."""
        if self._is_done:
            return
        again = "the next run continues after the last step"
        if self._config.backfill.input:
            again = "a new run writes everything again"
        _say(f"stopped by {name}; {again}")

    def _run(self, spark: SparkSession) -> None:
        config, began = self._config, time.perf_counter()
        if not config.backfill.output and spark.sparkContext.getConf().get(SPECULATION) == "true":
            _warn(f"{SPECULATION} is true: copies of tasks write their records to the target topics again")
        tracker = spark.sparkContext.statusTracker()
        if config.backfill.input:
            with telling(tracker, _say):
                counts = from_files(spark, config, _warn)
            _summarize(config, counts, time.perf_counter() - began)
            return
        run = self._topics = TopicsRun(spark, config, self._report_step, _warn)
        try:
            with self._metrics_of(spark, run), telling(tracker, _say):
                run.run(continuous=self._continuous)
        except BaseException:  # the steps before a failure have been written
            try:
                _summarize(config, run.counts, time.perf_counter() - began)
            except ServiceError as error:  # the cause of the run's end matters more
                _say(f"warning: {error}")
            raise
        _summarize(config, run.counts, time.perf_counter() - began)

    @contextlib.contextmanager
    def _metrics_of(self, spark: SparkSession, run: TopicsRun) -> Iterator[None]:
        """Serve the metrics of a run if `metrics_port` is set."""
        if port := self._config.backfill.metrics_port:
            self._metrics = RunMetrics(spark, self._config, run)
            with served(self._metrics, self._config.http.host, port):
                yield
        else:
            yield

    def _report_step(self, step: int, counts: BackfillCounts, seconds: float) -> None:
        if self._metrics is not None:
            self._metrics.add_step(counts)
        _say(f"step {step}: {counts.read} records read, {counts.written.total()} written")
        path = self._config.backfill.progress
        if not path:
            return
        try:
            add_step(Path(path), step, counts, seconds)
        except OSError as error:  # the records matter more
            _warn(str(_unwritten(path, error.strerror)))


def argument_parser() -> argparse.ArgumentParser:
    """Return the parser of the command line."""
    parser = argparse.ArgumentParser(
        prog="python -m spark_backfill", description="Translate history of any size with Spark."
    )
    config_help = "configuration of the relay, with [backfill]"
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help=config_help)
    parser.add_argument(
        "--set",
        action="append",
        default=[],
        metavar="TABLE.KEY=VALUE",
        help="set a configuration key; may be repeated",
    )
    parser.add_argument(
        "--continuous", action="store_true", help="continue with new records after everything has been read"
    )
    log_help = f"file for Spark's own output; {INHERITED} leaves it here; by default a new temporary file"
    parser.add_argument("--spark-log", default="", metavar="FILE", help=log_help)
    return parser


def check_config(config: Config, *, continuous: bool) -> None:
    """Refuse a configuration that suits the service but not the job. Raises ConfigError."""
    backfill = config.backfill
    problems: list[Problem] = []
    if backfill.input:
        problems += _problems_of_files(config, continuous=continuous)
    elif not backfill.checkpoint:
        hint = "a folder that stores the progress in the topics"
        problems.append(Problem("backfill.checkpoint", "is missing", hint))
    if continuous and backfill.end != "latest":
        hint = "leave --continuous or the end out"
        problems.append(Problem("backfill.end", "a continuous run has no end", hint))
    if backfill.trigger_seconds and not continuous:
        message = "has no effect without --continuous"
        problems.append(Problem("backfill.trigger_seconds", message, "leave it out"))
    if config.route.deduplicate:
        message = "the job's tasks share no memory, so they cannot know which rows were written before"
        hint = "set it to false for the job: RELAY_ROUTE__DEDUPLICATE=false"
        problems.append(Problem("route.deduplicate", message, hint))
    if translator_of(config).needs_all_partitions:
        message = "the job does not yet write watermarks when rows are repartitioned"
        problems.append(Problem("target.watermarks", message, 'set watermarks = "drop", or partitions = 0'))
    problems += [*rows_problems(config), *_range_problems(config), *local_problems(config)]
    if problems:
        raise ConfigError(problems)


def _problems_of_files(config: Config, *, continuous: bool) -> Iterator[Problem]:
    """Find settings that do not suit a run over files."""
    backfill = config.backfill
    if backfill.checkpoint:
        message = "files are read in one run from their beginning, without saved progress"
        yield Problem("backfill.checkpoint", message, "leave it out")
    if continuous:
        yield Problem("backfill.input", "files are read once", "leave --continuous out")
    for key in ("progress", "metrics_port"):
        if getattr(backfill, key):
            yield Problem(f"backfill.{key}", "files are read in one step", "leave it out")
    if not backfill.output and _keeps_partitions_by_table(config):
        message = "files do not determine the number of partitions that a table's topic needs"
        yield Problem("target.partitions", message, "set it, or write to files")
    yield from input_problems(config)
    if backfill.input_format is InputFormat.TICDC_STORAGE:
        yield from storage_problems(config)


def _folders(config: Config) -> dict[str, str]:
    """Return the folders that a run writes, by the key that names each."""
    backfill = config.backfill
    own = backfill.spark.get("spark.local.dir") or os.environ.get("SPARK_LOCAL_DIRS") or tempfile.gettempdir()
    found = {"backfill.output": backfill.output, "backfill.checkpoint": backfill.checkpoint}
    return {name: folder for name, folder in found.items() if folder} | {"spark.local.dir": own.split(",")[0]}


def report_rate_limits(config: Config) -> None:
    """Warn of rate limits, which the job cannot keep: its tasks read on their own."""
    for key in ("max_records_per_second", "max_bytes_per_second"):
        if getattr(config.source, key):
            _warn(
                f"{key} in [source] has no effect on the job; with --continuous, batch_records and "
                "trigger_seconds in [backfill] limit how much it reads"
            )


def report_schema_dumps(config: Config) -> None:
    """Report the definitions in the dumps of `schema_dumps`, before Spark starts.

    Also report the tables selected by name that they lack. Raises ConfigError.
    """
    found = load_schema_dumps(config, Catalog())
    if not found.files:
        return
    _say(f"schema_dumps: files read: {found.files}, tables defined: {found.tables}")
    for problem in found.problems[:MOST_NAMES]:
        _say(f"warning: schema_dumps: {problem}")
    if unknown := undefined(found.catalog, chosen_tables(config.route.include_tables, ())):
        _say(f"warning: schema_dumps defines no table of include_tables {', '.join(unknown)}")


def _keeps_partitions_by_table(config: Config) -> bool:
    return any(template.is_by_table and count is None for template, count in config.templates)


def _check_writable(path: str) -> None:
    """Refuse a file that could not be written later; do not change an older one.

    Raises ServiceError.
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
    """Find bounds that contain no record. Two equal ones are allowed.

    They exclude a partition, or mean that all is done.
    """
    source, backfill = config.source, config.backfill
    for partition, offset in source.start_offsets.items():
        if offset > backfill.end_offsets.get(partition, offset):
            message = f"ends before {offset}, where start_offsets begins"
            yield Problem(f'backfill.end_offsets."{partition}"', message, "nothing would be read")
    pairs = (
        ("timestamp", source.start_timestamp_ms, backfill.end_timestamp_ms),
        ("commit_ts", source.start_commit_ts, backfill.end_commit_ts),
    )
    for name, start, end in pairs:
        if start and end and start > end:
            yield Problem(f"backfill.end_{name}", f"is before start_{name}", "nothing would be read")


def _warn(message: str) -> None:
    _say(f"warning: {message}")


def _summarize(config: Config, counts: BackfillCounts, seconds: float) -> None:
    for line in as_text(counts, seconds):
        _say(line)
    if problem := ratio_exceeded(config, counts):
        _say(f"warning: {problem}")
    if config.backfill.summary:
        text = json.dumps(as_document(counts, seconds), indent=2, ensure_ascii=False) + "\n"
        try:
            Path(config.backfill.summary).write_text(text, encoding="utf-8")
        except OSError as error:
            raise _unwritten(config.backfill.summary, error.strerror) from error


def _report(error: BaseException, log: SparkLog | None) -> int:
    """Report the error that has ended the run; return the exit status."""
    if os.environ.get("RELAY_TRACEBACK"):
        # After a bar, so that no line of an error's text can be mistaken for one of the job's own.
        for line in "".join(traceback.format_exception(error)).splitlines():
            _say(f"| {line}")
    if isinstance(error, ConfigError):
        for problem in error.problems:
            _say(f"error: {problem}")
        return error.exit_status
    if isinstance(error, RelayError):
        _say(f"error: {error}")
        if log is not None and str(error) == JAVA_ENDED and (reason := log.reason()):
            _say(f"Java's error: {reason}")
        return error.exit_status
    advice = "please report it; RELAY_TRACEBACK=1 shows where"
    _say(f"error: this is a bug in relay, {advice}: {type(error).__name__}: {error}")
    return 1


def _say(text: str) -> None:
    """Print one line, with control characters escaped."""
    print(printable(text), file=sys.stderr, flush=True)  # noqa: T201 - the command's output
