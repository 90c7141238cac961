"""`relay translate`: every option, every way to fail."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import DATA, row_message
from typer.testing import Result

from relay import ConsumerRecord, ProducerRecord, Translator

Run = Callable[..., Result]
Lines = Callable[..., bytes]
ROUTE = ("translate", "--from", "made-up", "--to", "made-up")


def written(result: Result) -> list[dict[str, Any]]:
    return [json.loads(line) for line in result.stdout.splitlines()]


def test_stdin_to_stdout(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, input=lines("insert", "nothing", "update", headers=[["h", "v"]]))
    assert result.exit_code == 0
    assert [(line["offset"], line["value"]) for line in written(result)] == [(0, "insert"), (1, "update")]
    assert written(result)[1]["headers"] == [["h", "v"], ["relay.source", "t/0/12/0"]]
    assert written(result)[0]["timestamp"] == 5


def test_dash_is_stdin_and_stdout(relay: Run, lines: Lines) -> None:
    assert len(written(relay(*ROUTE, "-", "--output", "-", input=lines("insert")))) == 1


def test_files(relay: Run, lines: Lines, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(lines("insert"))
    result = relay(*ROUTE, tmp_path / "in", "--output", tmp_path / "out")
    assert (result.exit_code, result.stdout) == (0, "")
    assert json.loads((tmp_path / "out").read_text())["value"] == "insert"


def test_the_summary_counts_and_quiet_suppresses_it(relay: Run, lines: Lines) -> None:
    data = lines("insert", "insert", "update", "watermark", "bad")
    summary = relay(*ROUTE, "--on-error", "skip", input=data).stderr
    assert "5 records read, 3 written" in summary
    assert "events   insert 2, update 1, watermark 1" in summary
    assert "lost     watermark 1" in summary
    assert "failed   1 skipped" in summary
    assert relay(*ROUTE, "--quiet", input=lines("insert")).stderr == ""


def test_stop_names_line_record_protocol_path_and_reason(relay: Run, lines: Lines, tmp_path: Path) -> None:
    out = tmp_path / "out"
    result = relay(*ROUTE, "--output", out, input=lines("insert", "bad secret", "insert"))
    assert result.exit_code == 2
    assert result.stderr.splitlines()[-1] == "error: stdin line 2 (t/0/11): made-up: word[0]: is bad"
    assert "--on-error skip" in result.stderr
    assert [json.loads(line)["value"] for line in out.read_text().splitlines()] == ["insert"]


def test_a_refusal_of_the_target_is_the_users_as_well(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, "--to-option", "strict=true", input=lines("watermark"))
    assert result.exit_code == 2
    assert "would lose: watermark" in result.stderr
    assert relay(*ROUTE, "--on-error", "skip", input=lines("begin", "insert")).exit_code == 0


def test_skip_goes_on_and_many_errors_are_only_counted(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, "--on-error", "skip", input=lines(*["bad"] * 30, "insert"))
    assert result.exit_code == 0
    assert len(written(result)) == 1
    assert result.stderr.count("error: ") == 20
    assert "Further errors are only counted." in result.stderr
    assert "failed   30 skipped" in result.stderr


def test_dead_letters_are_the_original_records_with_reasons(relay: Run, lines: Lines, tmp_path: Path) -> None:
    dead = tmp_path / "dead"
    data = lines("insert", "bad", headers=[["h", None]])
    result = relay(*ROUTE, "--on-error", "dead-letter", "--dead-letters", dead, input=data)
    assert result.exit_code == 0
    letter = json.loads(dead.read_text())
    headers = letter.pop("headers")
    assert letter == {"topic": "t", "partition": 0, "offset": 11, "timestamp": 5, "key": "k", "value": "bad"}
    assert headers == [
        ["h", None],
        ["relay.source", "t/0/11"],
        ["relay.error.code", "decode.malformed"],
        ["relay.error.protocol", "made-up"],
        ["relay.error.path", "word[0]"],
        ["relay.error.detail", "is bad"],
    ]
    assert "failed   1 written to the dead letters" in result.stderr


def test_topic_and_partitions(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, "--topic", "x.{topic}", "--partitions", "3", input=lines("insert", "ddl"))
    found = [(line["topic"], line["partition"], line["offset"]) for line in written(result)]
    assert found[0][0] == "x.t"
    assert sorted(partition for _, partition, _ in found[1:]) == [0, 1, 2]


def test_input_format(relay: Run, lines: Lines) -> None:
    assert written(relay(*ROUTE, input=b"insert\nupdate\n"))[1]["topic"] == "stdin"
    assert relay(*ROUTE, "--input-format", "records", input=b"insert\n").exit_code == 2
    assert relay(*ROUTE, "--input-format", "values", input=lines("insert")).exit_code != 0
    wrong = relay(*ROUTE, "--input-format", "csv", input=b"")
    assert (wrong.exit_code, "--input-format" in wrong.stderr) == (2, True)


def test_options_reach_the_codec(relay: Run, lines: Lines) -> None:
    assert written(relay(*ROUTE, "--to-option", "mode=terse", input=lines("insert")))[0]["key"] is None


def test_a_record_may_become_messages_and_tombstones(relay: Run) -> None:
    message = row_message({"id": "int"}, {"id": "1"}, {"id": "2"}, op="DELETE", pkNames=["id"])
    statement = row_message({}, op="CREATE", isDdl=True, sql="CREATE TABLE t (id INT)", data=None)
    options = ("profile=flink", "key=primary-key", "tombstones=true")
    route = ("translate", "--from", "canal-json", "--to", "canal-json")
    result = relay(
        *route,
        *(part for option in options for part in ("--to-option", option)),
        input="\n".join(map(json.dumps, (statement, message))),
    )
    found = [(line["offset"], line["key"], line["value"] is None) for line in written(result)]
    assert found == [
        (0, '{"id":1}', False), (1, '{"id":1}', True), (2, '{"id":2}', False), (3, '{"id":2}', True),
    ]  # fmt: skip
    assert "lost     ddl 1" in result.stderr


def test_every_problem_is_reported_at_once(relay: Run, tmp_path: Path) -> None:
    route = ["--from", "made-down", "--to", "made-up", "--topic", "a b", "--on-error", "dead-letter"]
    options = ["mod=x", "strict=maybe", "mode=plain", "mode=plain"]
    arguments = [
        *route,
        "--from-option",
        "novalue",
        *(word for option in options for word in ("--to-option", option)),
    ]
    result = relay("translate", *arguments, "--output", tmp_path / "out", input=b"")
    assert result.exit_code == 2
    assert not (tmp_path / "out").exists()
    for expected in (
        "--from: unknown protocol 'made-down' (did you mean made-up",
        "--from-option: 'novalue' is not of the form NAME=VALUE",
        "--to-option mod: made-up has no option 'mod' (did you mean mode?)",
        "--to-option strict: unknown kind of loss 'maybe'",
        "--to-option mode: given twice",
        "--topic: 'a b' does not make a topic name",
        "--on-error: dead-letter needs a file to write to (add --dead-letters FILE)",
    ):
        assert f"error: {expected}" in result.stderr


def test_each_table_has_its_own_topic(relay: Run, tmp_path: Path) -> None:
    given, out = DATA / "ticdc/open-protocol/10_ddl.jsonl", tmp_path / "out"
    result = relay(
        "translate", "--from", "ticdc-open-protocol", "--to", "canal-json", given, "--output", out,
        *("--topic", "{topic}.{database}.{table}", "--include-table", "ddl_db.*", "--exclude-table", "*.tmp_?"),
        *("--exclude-event", "update"),
    )  # fmt: skip
    assert result.exit_code == 0
    found = [json.loads(line) for line in out.read_text().splitlines()]
    messages = [(each["topic"], json.loads(each["value"])) for each in found]
    topics = {topic.removeprefix("ticdc-10_ddl.") for topic, _ in messages}
    assert {"ddl_db.users", "ddl_db.type_change"} <= topics
    assert not topics & {"ddl_db.tmp_a", "ddl_db.tmp_b", "ddl_other.t", "ddl_other.people_moved"}
    assert "UPDATE" not in {message["type"] for _, message in messages}
    for topic, message in messages:
        if message["type"] in {"INSERT", "DELETE"}:
            assert topic == f"ticdc-10_ddl.{message['database']}.{message['table']}"
    assert "tables-filtered" in result.stderr
    assert "events-filtered" in result.stderr


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--dead-letters", "d"),
            "--dead-letters: nothing would be written there (add --on-error dead-letter)",
        ),
        (("--on-error", "dead-letter", "--dead-letters", "-"), "--dead-letters: cannot be stdout"),
        (("--output", "IN"), "--output: is the same file as INPUT"),
        (("--on-error", "dead-letter", "--dead-letters", "IN"), "--dead-letters: is the same file as INPUT"),
        (("--output", "no/where"), "--output: cannot write no/where: No such file or directory"),
        (("--partitions", "0"), "--partitions"),
        (("--on-error", "ignore"), "--on-error"),
    ],
)
def test_wrong_options(
    relay: Run, lines: Lines, tmp_path: Path, arguments: tuple[str, ...], message: str
) -> None:
    data = tmp_path / "in"
    data.write_bytes(lines("insert"))
    result = relay(*ROUTE, data, *(str(data) if argument == "IN" else argument for argument in arguments))
    assert result.exit_code == 2
    assert message in result.stderr
    assert data.read_bytes() == lines("insert")


@pytest.mark.parametrize(
    ("name", "reason"), [("none", "No such file"), (".", "it is a folder without record files")]
)
def test_unreadable_input(relay: Run, tmp_path: Path, name: str, reason: str) -> None:
    result = relay(*ROUTE, tmp_path / name, "--output", tmp_path / "out")
    assert result.exit_code == 2
    assert "INPUT: cannot read" in result.stderr
    assert reason in result.stderr
    assert not (tmp_path / "out").exists()


def test_a_missing_option_is_a_usage_error(relay: Run) -> None:
    result = relay("translate", "--from", "made-up")
    assert result.exit_code == 2
    assert "--to" in result.stderr


def test_a_bug_asks_for_a_report(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, input=lines("insert", "crash"))
    assert result.exit_code == 1
    message = result.stderr.splitlines()[-1]
    assert "this is a bug in relay, please report it (see CONTRIBUTING.md); RELAY_TRACEBACK=1" in message
    assert "ZeroDivisionError: stdin line 2 (t/0/11): made up" in message
    assert "Traceback" not in result.stderr
    assert [line["value"] for line in written(result)] == ["insert"]
    assert "Traceback" in relay("--traceback", *ROUTE, input=lines("crash")).stderr


def test_the_traceback_can_be_asked_for_in_the_environment(
    relay: Run, lines: Lines, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("RELAY_TRACEBACK", "1")
    assert "Traceback" in relay(*ROUTE, input=lines("crash")).stderr


def test_all_records_failing_is_no_success(relay: Run, lines: Lines, tmp_path: Path) -> None:
    result = relay(*ROUTE, "--on-error", "skip", input=lines(*["bad"] * 3))
    assert (result.exit_code, result.stdout) == (2, "")
    assert "  failed   3 skipped: none could be translated" in result.stderr
    dead = ("--on-error", "dead-letter", "--dead-letters", tmp_path / "dead")
    result = relay(*ROUTE, *dead, input=lines("bad"))
    assert result.exit_code == 2
    assert "  failed   1 written to the dead letters: none could be translated" in result.stderr
    assert relay(*ROUTE, "--on-error", "skip", input=b"").exit_code == 0


def test_a_stop_has_its_own_status(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, input=lines("insert", "bad", "insert"))
    summary = result.stderr.splitlines()[0]
    assert summary.startswith("stopped: 2 records read, 1 written in ")
    assert summary.endswith("; use --on-error skip or dead-letter to continue after such a record")


def test_a_line_that_is_no_record_ends_a_run_whatever_the_policy(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, "--on-error", "skip", input=lines("insert") + b'{"topic":"t","val\n')
    summary = next(line for line in result.stderr.splitlines() if line.startswith("stopped: "))
    assert summary.endswith("; the rest of the input was not read")


def test_an_interruption_has_its_own_status(
    relay: Run, lines: Lines, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(self: Translator, record: ConsumerRecord) -> list[ProducerRecord]:
        raise KeyboardInterrupt

    (tmp_path / "in.jsonl").write_bytes(lines("insert"))
    monkeypatch.setattr(Translator, "translate", interrupted)
    result = relay(*ROUTE, tmp_path / "in.jsonl")
    assert result.exit_code == 130
    assert result.stderr.startswith("interrupted: 1 records read, 0 written in ")
    assert result.stderr.rstrip().endswith("in.jsonl was not read")


@pytest.mark.skipif(not Path("/dev/full").exists(), reason="needs /dev/full")
def test_a_full_disk_has_its_own_status(relay: Run, lines: Lines) -> None:
    result = relay(*ROUTE, "--output", "/dev/full", input=lines("insert", "insert"))
    assert result.exit_code == 3
    first, *rest = result.stderr.splitlines()
    assert first.startswith("failed: 1 records read, 0 written in ")
    assert first.endswith("; the output is not complete")
    assert rest[-1].startswith("error: cannot write /dev/full: No space left on device")


def test_a_value_is_named_by_its_file(relay: Run, tmp_path: Path) -> None:
    (tmp_path / "in.txt").write_bytes(b"insert\nbad\n")
    result = relay(*ROUTE, tmp_path / "in.txt")
    assert result.stderr.splitlines()[-1] == f"error: {tmp_path}/in.txt line 2: made-up: word[0]: is bad"
    result = relay("inspect", "--from", "made-up", tmp_path / "in.txt")
    assert f"insert    shop.orders  {tmp_path}/in.txt line 1" in result.stdout


@pytest.mark.parametrize(("bad", "shown"), [(3, 3), (30, 20)])
def test_many_unreadable_records_are_counted(relay: Run, tmp_path: Path, bad: int, shown: int) -> None:
    (tmp_path / "in.txt").write_bytes(b"bad\n" * bad + b"insert\n")
    result = relay("inspect", "--from", "made-up", tmp_path / "in.txt")
    assert result.exit_code == 2
    assert result.stderr.count("word[0]: is bad") == shown
    counted = f"error: {bad} of {bad + 1} records in {tmp_path}/in.txt cannot be read as made-up"
    assert (counted in result.stderr.splitlines()) is (bad > shown)
