"""What may be pasted into the playground, and what it is taken for."""

from __future__ import annotations

import base64
import json

import pytest
from support import captured

from relay import ConsumerRecord
from relay.cli.playground.pasted import is_sql, records_in, statements_in
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError

DOCUMENT = {"a": [1, {"b": "x"}], "n": None}
RECORDS = captured("ticdc/simple.avro/09_dml")[:3]


def values(text: str, key: str = "") -> list[bytes | None]:
    return [each.record.value for each in records_in(text, "message", key)]


def test_nothing_is_no_record() -> None:
    assert records_in(" \n\r\n\t", "message") == []


def test_a_value_may_have_as_many_lines_as_it_likes() -> None:
    indented = json.dumps(DOCUMENT, indent=2)
    assert values(f"\n{indented}\n") == [indented.encode()]
    assert values(json.dumps(DOCUMENT)) == [json.dumps(DOCUMENT).encode()]


def test_lines_of_values_are_records_with_offsets_and_their_lines() -> None:
    one = json.dumps(DOCUMENT)
    found = records_in(f"{one}\r\n\n{one}\n", "message", "k")
    assert [(each.line, each.record) for each in found] == [
        (1, ConsumerRecord("stdin", 0, 0, 0, b"k", one.encode())),
        (3, ConsumerRecord("stdin", 0, 1, 0, b"k", one.encode())),
    ]


def test_binary_values_and_keys_are_base64_in_one_line_or_broken() -> None:
    data = bytes(range(256))
    text = base64.b64encode(data).decode()
    assert values(text) == [data]
    assert values(base64.encodebytes(data).decode()) == [data]
    assert values(f"{text}\n{text}") == [data, data]
    assert records_in("{}", "message", text)[0].record.key == data


@pytest.mark.parametrize("text", ["1234", "[1234]", '"abcd"', "abc", "no base64!"])
def test_what_is_no_base64_stays_text(text: str) -> None:
    assert values(text) == [text.encode()]


def test_record_lines_are_the_records_they_were() -> None:
    lines = b"".join(format_record(record, record.offset) for record in RECORDS).decode()
    assert [each.record for each in records_in(lines, "message", "not theirs")] == RECORDS
    assert [each.line for each in records_in("\n" + lines, "message")] == [2, 3, 4]
    indented = json.dumps(json.loads(lines.splitlines()[1]), indent=1)
    assert [each.record for each in records_in("\ufeff" + indented, "message")] == [RECORDS[1]]


def test_every_line_that_is_no_record_is_named() -> None:
    line = format_record(RECORDS[0], 0).decode()
    with pytest.raises(ConfigError) as caught:
        records_in(f'{line}{{"partition":0}}\n{line}{{"partition":-1,"value":""}}', "before")
    assert [problem.path for problem in caught.value.problems] == ["before, line 2", "before, line 4"]


@pytest.mark.parametrize(
    "text", ["CREATE TABLE t (a int)", "-- x\nUSE d;", "/* x */ ALTER TABLE t ADD b int", "`x`"]
)
def test_statements_are_known(text: str) -> None:
    assert is_sql(text)


@pytest.mark.parametrize(
    "text", ['{"partition":0,"value":null}', '  [1]"', base64.b64encode(b"abcdef").decode()]
)
def test_records_are_no_statements(text: str) -> None:
    assert not is_sql(text)


def test_statements_of_a_dump() -> None:
    text = (
        "-- MySQL dump\n/*!40101 SET NAMES utf8 */;\nUSE `a;b`;\n"
        "CREATE TABLE t (\n  c varchar(9) DEFAULT ';' -- ;\n);\nINSERT INTO t VALUES (1);\n;\nuse d; ALTER TABLE t ADD e int"
    )
    assert statements_in(text, "before") == [
        ("CREATE TABLE t (\n  c varchar(9) DEFAULT ';' -- ;\n)", "a;b", 4),
        ("ALTER TABLE t ADD e int", "d", 9),
    ]


def test_an_unterminated_text_is_reported() -> None:
    with pytest.raises(ConfigError, match="before: an unterminated string"):
        statements_in("CREATE TABLE t (a char DEFAULT 'x)", "before")
