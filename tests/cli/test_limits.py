"""`--limit` of `relay translate` and `relay inspect`."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

Run = Callable[..., Result]
TRANSLATE = ("translate", "--from", "canal-json", "--to", "ticdc-canal-json", "--quiet")
INSPECT = ("inspect", "--from", "canal-json")


@pytest.fixture
def records(tmp_path: Path) -> str:
    """A record with three rows."""
    message = {
        "database": "d", "table": "t", "isDdl": False, "type": "INSERT", "es": 1, "ts": 1, "sql": "",
        "sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "data": [{"id": "1"}] * 3, "old": None,
    }  # fmt: skip
    path = tmp_path / "in.jsonl"
    path.write_text(json.dumps(message) + "\n", encoding="utf-8")
    return str(path)


@pytest.mark.parametrize("command", [TRANSLATE, INSPECT])
def test_a_limit_can_be_lowered_and_raised(relay: Run, records: str, command: tuple[str, ...]) -> None:
    refused = relay(*command, "--limit", "rows=2", records)
    assert refused.exit_code == 2
    assert "the limit `rows` allows, 2" in refused.stderr
    assert relay(*command, "--limit", "rows=3", "--limit", "columns=1", records).exit_code == 0


@pytest.mark.parametrize("command", [TRANSLATE, INSPECT])
@pytest.mark.parametrize(
    ("given", "complaint"),
    [
        ("rows", "'rows' is not of the form NAME=VALUE"),
        ("row=2", "unknown limit 'row'"),
        ("rows=0", "'0' is not a number greater than 0"),
        ("rows=-1", "'-1' is not a number greater than 0"),
        ("rows=many", "'many' is not a number greater than 0"),
        ("rows=²", "is not a number greater than 0"),
        ("rows=" + "9" * 30, "is not a number greater than 0"),
    ],
)
def test_what_is_no_limit_is_named(
    relay: Run, records: str, command: tuple[str, ...], given: str, complaint: str
) -> None:
    result = relay(*command, "--limit", given, records)
    assert result.exit_code == 2
    assert complaint in result.stderr
    assert "--limit" in result.stderr
