"""`--from-registry` and `--to-registry`: schemas of Avro in files and registries."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path

import pytest
from fake_registry import FakeRegistry, serving
from support import DATA
from typer.testing import Result

Run = Callable[..., Result]
INPUT = str(DATA / "mysql/canal-json/01_all_types.jsonl")
AVRO = str(DATA / "mysql/debezium.avro/01_all_types.jsonl")
SCHEMAS = str(DATA / "mysql/debezium.avro/schemas.ndjson")


def test_schemas_are_added_to_a_file_from_which_they_are_read(relay: Run, tmp_path: Path) -> None:
    schemas, avro = tmp_path / "schemas.jsonl", tmp_path / "avro.jsonl"
    arguments = "translate", "--from", "canal-json", "--to", "debezium-avro", INPUT
    first = relay(*arguments, "--to-registry", str(schemas), "--output", str(avro))
    assert first.exit_code == 0, first.stderr
    lines = [json.loads(line) for line in schemas.read_text().splitlines()]
    assert [line["id"] for line in lines] == list(range(1, len(lines) + 1))
    assert {"canal-key", "canal-value"} <= {line["subject"] for line in lines}
    before, written = schemas.read_bytes(), avro.read_bytes()
    again = relay(*arguments, "--to-registry", str(schemas), "--output", str(avro))
    assert again.exit_code == 0, again.stderr
    assert (schemas.read_bytes(), avro.read_bytes()) == (before, written)
    back = relay("inspect", "--from", "debezium-avro", "--from-registry", str(schemas), str(avro), "--json")
    assert back.exit_code == 0, back.stderr
    kinds = [json.loads(line)["kind"] for line in back.stdout.splitlines()]
    assert kinds.count("insert") == 9


def test_captured_messages_are_read_with_their_schemas(relay: Run) -> None:
    options = "--from-option", "field.name.adjustment.mode=avro_unicode", "--from-registry", SCHEMAS
    found = relay("translate", "--from", "debezium-avro", "--to", "canal-json", *options, AVRO)
    assert found.exit_code == 0, found.stderr
    assert len(found.stdout.splitlines()) == 20


def test_a_registry_is_asked_with_what_the_environment_says(
    relay: Run, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name, value in (("USERNAME", "u"), ("PASSWORD", "hunter22")):
        monkeypatch.setenv(f"RELAY_TARGET__SCHEMA_REGISTRY__{name}", value)
    with serving(FakeRegistry()) as fake:
        fake.compatibility |= dict.fromkeys(("canal-key", "canal-value"), "NONE")
        target = "--to", "debezium-avro", "--to-registry", fake.url, "--output", str(tmp_path / "out")
        done = relay("translate", "--from", "canal-json", *target, INPUT)
    assert done.exit_code == 0, done.stderr
    assert {"canal-key", "canal-value"} <= fake.subjects.keys()
    login = "Basic " + base64.b64encode(b"u:hunter22").decode()
    assert {headers["Authorization"] for headers in fake.headers} == {login}


def test_a_schema_that_is_refused_stops_the_run_and_says_why(relay: Run) -> None:
    with serving(FakeRegistry()) as fake:
        target = "--to", "debezium-avro", "--to-registry", fake.url
        done = relay("translate", "--from", "canal-json", *target, INPUT)
    assert done.exit_code == 3
    assert "subject 'canal-key'" in done.stderr
    assert "BACKWARD" in done.stderr
    assert "TopicRecordNameStrategy" in done.stderr


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (
            ("--to", "debezium-avro"),
            "--to-registry: is missing: debezium-avro has its schemas in a schema registry",
        ),
        (
            ("--to", "debezium-avro", "--to-registry", "http://u:p@h"),
            "--to-registry: contains a user or a password",
        ),
        (("--to", "debezium-avro", "--to-registry", "ftp://h"), "--to-registry: is not an address"),
        (("--to", "debezium-avro", "--to-registry", "/"), "--to-registry: / cannot be read: Is a directory"),
        (("--to", "debezium-avro", "--to-registry", INPUT), "--to-registry: line 1 is not a schema"),
    ],
)
def test_what_is_wrong_is_said_before_anything_is_read(
    relay: Run, arguments: tuple[str, ...], said: str
) -> None:
    done = relay("translate", "--from", "canal-json", *arguments, INPUT)
    assert (done.exit_code, said in done.stderr) == (2, True), done.stderr


def test_a_file_that_is_to_be_read_must_be_there(relay: Run, tmp_path: Path) -> None:
    for command in (("translate", "--to", "canal-json"), ("inspect",)):
        missing = str(tmp_path / "no")
        done = relay(command[0], "--from", "debezium-avro", *command[1:], "--from-registry", missing, AVRO)
        assert done.exit_code == 2
        assert f"--from-registry: {missing} does not exist" in done.stderr


def test_a_schema_that_is_not_there_is_an_error_of_its_record(relay: Run, tmp_path: Path) -> None:
    schemas = tmp_path / "empty"
    schemas.write_text("\n")
    done = relay("inspect", "--from", "debezium-avro", "--from-registry", str(schemas), AVRO)
    assert done.exit_code == 3
    assert "has no schema 1" in done.stderr
    arguments = "--from", "debezium-avro", "--to", "canal-json", "--from-registry", str(schemas), AVRO
    skipped = relay("translate", *arguments, "--on-error", "skip")
    assert (skipped.exit_code, skipped.stdout) == (3, "")
