"""The command: a configuration in, a run, a summary, an exit status.

Exit status: 0 done, 1 a defect of relay, 2 your input or options, 3 the surroundings (a broker, a topic, a disk), 130 interrupted.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import time
import traceback
from collections.abc import Sequence
from pathlib import Path
from typing import Final

from pyspark.sql import SparkSession

from relay.config import Config, load_config
from relay.config.choices import InputFormat
from relay.errors import ConfigError, Problem, RecordsGone, RelayError, ServiceError
from spark_backfill.counts import Counts, as_document, as_text
from spark_backfill.files import input_problems
from spark_backfill.job import TopicsRun, from_files
from spark_backfill.sessions import session
from spark_backfill.ticdc_storage import storage_problems
from spark_backfill.translation import STOP_MARK

_INTERRUPTED: Final = 130
#: Classes of Java by which Spark says that the surroundings failed.
_SURROUNDINGS: Final = re.compile(r"org\.apache\.(kafka|hadoop)[\w.]*Exception|java\.(io|net|nio)[\w.]*Exception")
_LOST: Final = re.compile("Some data may have been lost|KAFKA_DATA_LOSS")
_WORKER_DIED: Final = "Python worker exited unexpectedly"
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
    try:
        config = load_config(given.config, given.set)
        _check(config, continuous=given.continuous)
        spark = session(config)
        try:
            _run(spark, config, continuous=given.continuous)
        finally:
            spark.stop()
    except KeyboardInterrupt:
        return _INTERRUPTED
    except Exception as error:  # the outermost place: whatever comes here is reported, not hidden
        return _report(told(error))
    return 0


def _parser() -> argparse.ArgumentParser:
    parser = argparse.ArgumentParser(prog="python -m spark_backfill", description="Translate history of any size with Spark.")
    parser.add_argument("--config", type=Path, required=True, metavar="FILE", help="configuration of the relay, with [backfill]")
    parser.add_argument("--set", action="append", default=[], metavar="TABLE.KEY=VALUE", help="change a key; may be repeated")
    parser.add_argument("--continuous", action="store_true", help="go on when all is read, and translate what comes")
    return parser


def _check(config: Config, *, continuous: bool) -> None:
    """What the job cannot do with a configuration that the service may have. Raises ConfigError."""
    backfill, problems = config.backfill, []
    if not backfill.input and not backfill.checkpoint:
        problems.append(Problem("backfill.checkpoint", "is missing", "a folder that keeps how far the topics have been read"))
    if backfill.input and backfill.checkpoint:
        message = "files are read in one go, from their beginning, and nothing is kept"
        problems.append(Problem("backfill.checkpoint", message, "leave it out"))
    if backfill.input and continuous:
        problems.append(Problem("backfill.input", "files are read once", "leave --continuous out"))
    if continuous and backfill.end != "latest":
        problems.append(Problem("backfill.end", "a continuous run has no end", "leave --continuous or the end out"))
    if config.translator().needs_all_partitions:
        message = "the job does not yet write watermarks of rows that are spread over the partitions anew"
        problems.append(Problem("target.watermarks", message, 'set watermarks = "drop", or partitions = 0'))
    if backfill.input:
        problems += input_problems(config)
    if backfill.input and backfill.input_format is InputFormat.TICDC_STORAGE:
        problems += storage_problems(config)
    if problems:
        raise ConfigError(problems)


def _run(spark: SparkSession, config: Config, *, continuous: bool) -> None:
    began = time.perf_counter()
    if config.backfill.input:
        _summarise(config, from_files(spark, config), time.perf_counter() - began)
        return
    run = TopicsRun(spark, config, _tell_step)
    try:
        run.run(continuous=continuous)
    except BaseException:  # the steps before a failure have been written
        try:
            _summarise(config, run.counts, time.perf_counter() - began)
        except ServiceError as error:  # what has ended the run is the news
            _say(f"warning: {error}")
        raise
    _summarise(config, run.counts, time.perf_counter() - began)


def _tell_step(step: int, counts: Counts) -> None:
    _say(f"step {step}: {counts.read} records read, {counts.written.total()} written")


def _summarise(config: Config, counts: Counts, seconds: float) -> None:
    _say(as_text(counts, seconds))
    if config.backfill.summary:
        text = json.dumps(as_document(counts, seconds), indent=2, ensure_ascii=False) + "\n"
        try:
            Path(config.backfill.summary).write_text(text, encoding="utf-8")
        except OSError as error:
            raise ServiceError(f"cannot write {config.backfill.summary}: {error.strerror}") from error


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
    if _WORKER_DIED in text:
        hint = "killed, or out of memory; give executors more, or lower spark.sql.execution.arrow.maxBytesPerBatch"
        return ServiceError(f"a Python worker of Spark has ended unexpectedly: {hint}")
    if "PATH_NOT_FOUND" in text:
        return ConfigError([Problem("backfill.input", text.partition("\n")[0])])
    java = _SURROUNDINGS.search(text)
    return ServiceError(_line_with(text, java[0])) if java else error


def _stopped(text: str) -> RelayError:
    """What a task has said, as much of it as Spark has left."""
    if whole := _STOPPED.search(text):
        place, code, message = (json.loads(f'"{whole[name]}"') for name in ("place", "code", "message"))
        return RecordStopped(place, code, message, int(whole["status"]))
    return ServiceError("a task has stopped the run, and Spark has cut off why: RELAY_TRACEBACK=1 shows what is left")


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
    _say(f"error: this is a defect of relay, please report it; RELAY_TRACEBACK=1 shows where: {type(error).__name__}: {error}")
    return 1


def _say(text: str) -> None:
    print(text, file=sys.stderr, flush=True)  # noqa: T201 - what the command says
