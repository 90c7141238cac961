"""Tables of which rows are translated before any DDL of them is known are named, each with its rows."""

from __future__ import annotations

import json

import pytest
from support import CANAL, TICDC, record, row_message, translated_records

from relay import ConsumerRecord, Translator
from relay.model import TableId
from relay.translator import MAX_GUESSED_TABLES

CREATE = "CREATE TABLE `t` (`id` INT PRIMARY KEY)"


def row(table: str = "t", offset: int = 0) -> ConsumerRecord:
    return record(row_message({"id": "int"}, {"id": "1"}, pkNames=["id"], table=table), offset)


def create(offset: int = 0) -> ConsumerRecord:
    ddl = {"isDdl": True, "type": "CREATE", "sql": CREATE, "data": None, "mysqlType": None, "sqlType": None}
    return record(row_message({}) | ddl, offset)


def ckafka_row(offset: int = 0) -> ConsumerRecord:
    message = {
        "DATABASE": "d",
        "TABLE": "t",
        "TYPE": "I",
        "NEW_VALUES": {"id": "1"},
        "TIME": "20240101000000",
    }
    return record(json.dumps(message), offset)


@pytest.mark.parametrize(
    ("source", "rows"),
    [(TICDC, [row(), row(offset=1)]), (CANAL, [row(), row(offset=1)]), ("ckafka-json", [ckafka_row()])],
)
def test_rows_before_their_ddl(source: str, rows: list[ConsumerRecord]) -> None:
    translator = Translator(source, CANAL)
    assert translator.guessed_tables == {}
    translated_records(
        translator, [*rows, create(offset=5), row("t", 6) if source != "ckafka-json" else ckafka_row(6)]
    )
    assert translator.guessed_tables == {TableId("d", "t"): len(rows)}


def test_rows_behind_their_ddl_are_not_named() -> None:
    translator = Translator(TICDC, CANAL)
    translated_records(translator, [create(), row(offset=1)])
    assert translator.guessed_tables == {}


def test_a_refused_record_and_an_inspected_one_are_not_counted() -> None:
    translator = Translator(TICDC, CANAL, None, {"strict": "true"})
    typed = record(row_message({"v": "decimal"}, {"v": "1"}, pkNames=["v"]))
    with pytest.raises(Exception, match="type-parameters"):
        translator.translate(typed)
    translator.inspect(row())
    assert translator.guessed_tables == {}


def test_no_more_than_some_are_named() -> None:
    translator = Translator(TICDC, CANAL)
    translated_records(translator, [row(f"t{number}", number) for number in range(MAX_GUESSED_TABLES + 5)])
    assert len(translator.guessed_tables) == MAX_GUESSED_TABLES
    translator.translate(row("t0", 10_000))
    translator.translate(row(f"t{MAX_GUESSED_TABLES + 1}", 10_001))
    assert translator.guessed_tables[TableId("d", "t0")] == 2
    assert len(translator.guessed_tables) == MAX_GUESSED_TABLES
