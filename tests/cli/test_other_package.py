"""A protocol of another package (`toy_protocol`) on the command line, with needs on both sides."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support import DATA, TICDC
from toy_protocol.codec import NAME as TOY
from typer.testing import Result

Run = Callable[..., Result]
FILE = "ticdc/canal-json.tidb-extension/09_dml"
ROWS_AND_MORE = """
{"type":"mark","is_begin":true,"id":"tx:9","at":{"time_ms":1,"emitted_ms":2}}
{"type":"definition","schema":1,"at":{"time_ms":1,"emitted_ms":2}}
{"type":"row","schema":1,"op":"insert","at":{"time_ms":1,"emitted_ms":2},"after":{"id":7},"transaction":{"id":"tx:9"}}
{"type":"mark","is_begin":false,"id":"tx:9","at":{"time_ms":1,"emitted_ms":2},"count":1}
{"type":"heartbeat","at":{"time_ms":1,"emitted_ms":2}}
""".strip()


def registry(folder: Path) -> Path:
    """A registry that knows schema 1."""
    schema = {"id": {"database": "d", "table": "t"}, "columns": [{"name": "id", "type": {"base": "int"}}]}
    (folder / "1.json").write_text(json.dumps({"text": json.dumps(schema), "kind": "TOY"}))
    return folder


def lines(path: Path, *values: str) -> Path:
    common = {"topic": "t", "partition": 0, "timestamp": 5, "headers": [], "key": None}
    records = [common | {"offset": offset, "value": value} for offset, value in enumerate(values)]
    path.write_text("".join(json.dumps(record) + "\n" for record in records))
    return path


def values(path: Path) -> list[dict[str, Any]]:
    found = [json.loads(json.loads(line)["value"]) for line in path.read_text().splitlines()]
    return [{name: each[name] for name in ("database", "table", "type", "data", "old")} for each in found]


def test_translate_there_and_back(relay: Run, tmp_path: Path) -> None:
    """What a translator needs is asked of the package: ids are registered on the way there, found on the way
    back.
    """
    there, back, straight, schemas = (tmp_path / name for name in ("there", "back", "straight", "schemas"))
    given, option = DATA / f"{FILE}.jsonl", f"registry={schemas}"
    route = ("--from", TICDC, "--to", TOY, "--to-option", option)
    assert "ddl " in relay("translate", *route, given, "--output", there).stderr
    assert list(schemas.iterdir())
    route = ("--from", TOY, "--from-option", option, "--to", "canal-json")
    assert relay("translate", *route, there, "--output", back).exit_code == 0
    relay("translate", "--from", TICDC, "--to", "canal-json", given, "--output", straight)
    assert values(back) == [row for row in values(straight) if row["data"] is not None]


def test_a_schema_that_the_registry_lacks_ends_the_run(relay: Run, tmp_path: Path) -> None:
    given = lines(tmp_path / "in", ROWS_AND_MORE)
    result = relay("translate", "--from", TOY, "--from-option", f"registry={tmp_path}", "--to", TOY, given)
    assert result.exit_code == 3
    assert "the registry does not know the schema with id 1" in result.stderr


def test_inspect(relay: Run, tmp_path: Path) -> None:
    given, option = lines(tmp_path / "in", ROWS_AND_MORE), f"registry={registry(tmp_path)}"
    result = relay("inspect", "--from", TOY, "--from-option", option, given)
    assert result.exit_code == 0
    for word in ("begin", "end", "tx:9", "d.t", "bootstrap", "heartbeat"):
        assert word in result.stdout.lower()


def test_formats_of_a_process_that_finds_the_package(tmp_path: Path) -> None:
    environment = os.environ | {"PYTHONPATH": str(DATA.parent)}

    def formats(*arguments: str) -> str:
        command = [sys.executable, "-m", "relay", "formats", *arguments]
        return subprocess.run(command, env=environment, check=True, capture_output=True, text=True).stdout

    assert f"{TOY}  Toy lines, a protocol of relay's own tests" in formats()
    lost = json.loads(formats("--from", TICDC, "--to", TOY, "--json"))["lost"]
    assert {"ddl", "watermark"} <= {loss["what"] for loss in lost}


@pytest.mark.parametrize("policy", ["skip", "dead-letter"])
def test_a_message_that_is_none_follows_the_policy(relay: Run, tmp_path: Path, policy: str) -> None:
    given, out, dead = lines(tmp_path / "in", "{", ROWS_AND_MORE), tmp_path / "out", tmp_path / "dead"
    option = f"registry={registry(tmp_path)}"
    options = ("--from", TOY, "--from-option", option, "--to", TOY, "--on-error", policy)
    letters = ("--dead-letters", dead) if policy == "dead-letter" else ()
    assert relay("translate", *options, *letters, given, "--output", out).exit_code == 0
    assert len(out.read_text().splitlines()) == 1
    assert not letters or len(dead.read_text().splitlines()) == 1
