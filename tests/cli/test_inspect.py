"""`relay inspect`: readable and exact."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path

import pytest
from typer.testing import Result

from relay.cli.event_text import wall_time

Run = Callable[..., Result]
Lines = Callable[..., bytes]
INSPECT = ("inspect", "--from", "made-up")


def test_an_update(relay: Run, lines: Lines) -> None:
    result = relay(*INSPECT, input=lines("update"))
    assert result.exit_code == 0
    times = [f"{word} 2026-01-15 10:20:30.123 UTC" for word in ("changed", "sent")]
    assert result.stdout.splitlines() == [
        "update    shop.orders  t/0/10",
        "  commit ts 463594436722163713 (2026-01-15 10:20:30.123 UTC)  " + "  ".join(times) + "  gtid a:1",
        "     column    type             before    after",
        "     id (key)  bigint unsigned  1         1",
        "  *  price     decimal(10,2)    1.10      1.20",
        '  *  name      varchar(20)      "a\\x1b\'"  NULL',
        "  *  blob      blob             X'00FF'   ABSENT",
        "",
    ]


def test_ddl_keeps_its_lines_and_escapes_what_steers_a_terminal(relay: Run, lines: Lines) -> None:
    text = relay(*INSPECT, input=lines("ddl")).stdout
    assert "\x1b" not in text
    for expected in (
        "create table  (in the message: CREATE)",
        "  CREATE TABLE\n  `orders`\\x1b",
        "primary key (id)",
        "decimal(10,2)",
        "not null",
    ):
        assert expected in text


def test_ddl_of_a_view_whose_columns_nobody_knows(relay: Run) -> None:
    ddl = {"isDdl": True, "type": "QUERY", "database": "d", "table": "v", "es": 1, "ts": 1, "data": None}
    texts = "CREATE VIEW v AS SELECT * FROM t", "ALTER TABLE v COMMENT = 'x'"
    result = relay(
        "inspect", "--from", "canal-json", input="\n".join(json.dumps(ddl | {"sql": text}) for text in texts)
    )
    assert result.exit_code == 0, result.stderr
    assert "COMMENT" in result.stdout


def test_other_events(relay: Run, lines: Lines) -> None:
    text = relay(*INSPECT, input=lines("watermark", "begin", "nothing")).stdout
    assert "watermark  t/0/10" in text
    assert "BEGIN a:1" in text
    assert text.count("commit ts") == 2


def test_json_is_exact(relay: Run, lines: Lines) -> None:
    insert, update = [
        json.loads(line)
        for line in relay(*INSPECT, "--json", input=lines("insert", "update")).stdout.splitlines()
    ]
    assert insert["kind"] == "insert"
    assert insert["position"] == {"topic": "t", "partition": 0, "offset": 10}
    assert insert["table"] == {"database": "shop", "table": "orders"}
    assert insert["before"] is None
    assert insert["after"] == {
        "id": 1,
        "price": {"decimal": "1.10"},
        "name": "a\x1b'",
        "blob": {"base64": "AP8="},
    }
    assert insert["columns"][1] == {"name": "price", "type": "decimal(10,2)"}
    assert insert["source"]["row_key"] == {"base64": "/w=="}
    assert "query" not in insert["source"]
    assert update["after"] == {"id": 1, "price": {"decimal": "1.20"}, "name": None}


def test_json_of_a_number_beyond_64_bits_has_all_digits(relay: Run) -> None:
    row = {"id": "9" * 30}
    message = {"type": "INSERT", "database": "d", "table": "t", "mysqlType": {"id": "int"}, "data": [row]}
    result = relay("inspect", "--from", "canal-json", "--json", input=json.dumps(message))
    assert result.exit_code == 0
    assert json.loads(result.stdout)["after"] == {"id": int("9" * 30)}


def test_json_of_infinite_numbers(relay: Run) -> None:
    row = {"a": "Infinity", "b": "-Infinity", "c": 1.5}
    message = {"type": "insert", "database": "d", "table": "t", "ts": 1, "data": row}
    ddl = "CREATE TABLE t (a DOUBLE, b DOUBLE, c DOUBLE)"
    table = {"type": "table-create", "database": "d", "table": "t", "ts": 1000, "sql": ddl}
    lines = "".join(json.dumps(each) + "\n" for each in (table, message))
    result = relay("inspect", "--from", "maxwell-json", "--json", input=lines)
    found = json.loads(result.stdout.splitlines()[-1])
    assert found["after"] == {"a": {"double": "Infinity"}, "b": {"double": "-Infinity"}, "c": 1.5}


def test_json_of_other_events(relay: Run, lines: Lines) -> None:
    ddl, watermark, begin = [
        json.loads(line)
        for line in relay(*INSPECT, "--json", input=lines("ddl", "watermark", "begin")).stdout.splitlines()
    ]
    assert ddl["kinds"] == ["create table"]
    assert ddl["after"]["primary_key"] == ["id"]
    assert watermark["kind"] == "watermark"
    assert begin == begin | {"begin": True, "id": "a:1", "count": None}


def test_an_unreadable_record_is_reported_and_passed_over(relay: Run, lines: Lines, tmp_path: Path) -> None:
    (tmp_path / "in").write_bytes(lines("bad", "insert"))
    result = relay(*INSPECT, tmp_path / "in")
    assert result.exit_code == 2
    assert f"error: {tmp_path / 'in'} line 1 (t/0/10): made-up: word[0]: is bad" in result.stderr
    assert "insert    shop.orders" in result.stdout


@pytest.mark.parametrize("form", [(), ("--json",)])
def test_a_value_that_turns_out_to_be_malformed_is_reported_too(
    relay: Run, lines: Lines, form: tuple[str, ...]
) -> None:
    result = relay(*INSPECT, *form, input=lines("lazy", "insert"))
    assert result.exit_code == 2
    assert "error: stdin line 1 (t/0/10): made-up: data[0].id: is no number" in result.stderr
    assert result.stdout.count("shop") == 1


def test_values_and_wrong_options(relay: Run) -> None:
    assert relay(*INSPECT, "--input-format", "values", input=b"insert\n").stdout.startswith("insert")
    result = relay("inspect", "--from", "nope", "--from-option", "x", input=b"")
    assert result.exit_code == 2
    assert result.stderr.count("unknown protocol 'nope'") == 1
    assert "is not of the form NAME=VALUE" in result.stderr


@pytest.mark.parametrize(
    ("nanoseconds", "text"),
    [
        (0, "1970-01-01 00:00:00.000 UTC"),
        (1_001, "1970-01-01 00:00:00.000001001 UTC"),
        (1_000, "1970-01-01 00:00:00.000001 UTC"),
        (-1_000_000, "1969-12-31 23:59:59.999 UTC"),
        (10**30, f"{10**30} ns since 1970"),
    ],
)
def test_wall_time(nanoseconds: int, text: str) -> None:
    assert wall_time(nanoseconds) == text
