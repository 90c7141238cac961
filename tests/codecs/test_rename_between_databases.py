"""A rename into another database, sent by a session in the old one: Canal's message names the new one alone."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import CANAL, OPEN, TICDC, captured, record, row_message, translated_records

from relay import ConsumerRecord, Translator
from relay.codecs.losses import Loss

DEBEZIUM = "ticdc-debezium"
TEXT = "RENAME TABLE people_like TO ddl_other.people_moved"
#: What TiCDC sent for the same statement (tests/data/ticdc, 10_ddl).
TICDCS = "RENAME TABLE `ddl_db`.`people_like` TO `ddl_other`.`people_moved`"
CAPTURE = "mysql/canal-json/10_ddl"


def ddl(sql: str, database: str, table: str, word: str, offset: int) -> ConsumerRecord:
    message: dict[str, Any] = {"isDdl": True, "sql": sql, "data": None, "database": database, "table": table}
    one = record(row_message({}, op=word) | message | {"sqlType": None, "mysqlType": None})
    return ConsumerRecord("t", 0, offset, one.timestamp_ms, one.key, one.value)


def test_the_capture_has_what_is_tested_here() -> None:
    messages = [json.loads(one.value or b"{}") for one in captured(CAPTURE)]
    assert [(each["database"], each["table"]) for each in messages if each["sql"] == TEXT] == [
        ("ddl_other", "people_moved")
    ]


@pytest.mark.parametrize("target", [TICDC, OPEN, DEBEZIUM])
def test_readers_of_ticdc_learn_from_where(target: str) -> None:
    made = Translator(CANAL, target)
    written = translated_records(made, captured(CAPTURE))
    values = [(out.value or b"").decode(errors="replace") for out in written]
    assert sum(TICDCS in value for value in values) == 1
    assert not any(TEXT in value for value in values)
    assert made.losses[Loss.SCHEMA_INFERRED] == made.losses[Loss.TABLE_DEFINITION] == 0
    assert made.inferred_tables == {}


def test_the_definition_goes_along() -> None:
    rows = [one.value for one in translated_records(Translator(CANAL, CANAL), captured(CAPTURE))]
    row = next(
        json.loads(value)
        for value in rows
        if value and b'"table":"people_moved"' in value and b"INSERT" in value
    )
    assert row["mysqlType"]["label"] == "varchar(12)"


@pytest.mark.parametrize("source", [CANAL, "ckafka-json"])
def test_a_table_of_that_name_in_the_new_database_is_no_reason_to_guess_wrong(source: str) -> None:
    statements = [
        ddl("CREATE TABLE d.a (id INT PRIMARY KEY, e ENUM('x','y'))", "d", "a", "CREATE", 0),
        ddl("CREATE TABLE e.a (id INT PRIMARY KEY, e ENUM('p','q'))", "e", "a", "CREATE", 1),
        ddl("RENAME TABLE a TO e.b", "e", "b", "RENAME", 2),
    ]
    made = Translator(source, TICDC)
    if source != CANAL:
        first = Translator(CANAL, source)
        statements = [
            ConsumerRecord("t", 0, offset, out.timestamp_ms, out.key, out.value)
            for offset, out in enumerate(translated_records(first, statements))
        ]
    translated_records(made, statements)
    found = made.catalog.histories["e"]["b"][0]
    assert found.schema is None, "either may be meant"
    assert all(made.catalog.histories[each]["a"][0].schema is None for each in ("d", "e"))


@pytest.mark.parametrize(
    ("sql", "database", "name"),
    [("DROP TABLE d.a, b", "d", "a"), ("RENAME TABLE b TO d.moved", "d", "moved")],
)
@pytest.mark.parametrize("source", [CANAL, "ckafka-json"])
def test_rows_are_not_read_by_a_definition_that_may_be_gone(
    source: str, sql: str, database: str, name: str
) -> None:
    made = Translator(CANAL, source)
    row = row_message({"id": "int", "x": "varchar(30)"}, {"id": "1", "x": "2020-01-01 00:00:00.123"})
    given = [
        ddl("CREATE TABLE b (id INT PRIMARY KEY, x DATETIME(3))", "d", "b", "CREATE", 0),
        ddl("CREATE TABLE b (id INT PRIMARY KEY, y INT)", "e", "b", "CREATE", 1),
        ddl("CREATE TABLE a (id INT PRIMARY KEY)", "d", "a", "CREATE", 2),
        ddl(sql, database, name, "ERASE", 3),
        ddl("CREATE TABLE IF NOT EXISTS b (id INT PRIMARY KEY, x VARCHAR(30))", "d", "b", "CREATE", 4),
        record(row | {"database": "d", "table": "b", "pkNames": ["id"]}, offset=5),
    ]
    if source != CANAL:
        given = [
            ConsumerRecord("t", 0, offset, out.timestamp_ms, out.key, out.value)
            for offset, out in enumerate(translated_records(made, given))
        ]
    reading = Translator(source, DEBEZIUM, target_options={"debezium-disable-schema": "true"})
    *_, out = translated_records(reading, given)
    assert json.loads(out.value or b"")["payload"]["after"]["x"] == "2020-01-01 00:00:00.123"
    assert reading.losses[Loss.SCHEMA_INFERRED] == 1


def test_a_table_in_no_database_is_not_written_as_one() -> None:
    made = Translator(CANAL, TICDC)
    made.translate(ddl("CREATE TABLE a (id INT PRIMARY KEY)", "", "a", "CREATE", 0))
    (out,) = made.translate(ddl("RENAME TABLE a TO e.b", "e", "b", "RENAME", 1))
    assert json.loads(out.value or b"")["sql"] == "RENAME TABLE a TO e.b"


@pytest.mark.parametrize("target", [CANAL, "ckafka-json"])
def test_canal_has_the_text_as_it_came(target: str) -> None:
    written = translated_records(Translator(CANAL, target), captured(CAPTURE))
    assert sum(TEXT in (out.value or b"").decode() for out in written) == 1
