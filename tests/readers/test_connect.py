"""Kafka Connect reads what `profile=kafka-connect` writes: ExtractNewRecordState gives every image of every
row, and Debezium's JDBC sink leaves PostgreSQL with the rows that the source has.
"""

from __future__ import annotations

from typing import Any

import pytest
from debezium_json_support import DEBEZIUM, column, record, row, wrapped
from readers.connect import Sink, TaskFailed, steps, unwrapped
from readers.java import Program
from readers.sources import (
    BY_TABLE,
    FILES,
    SOME_FILES,
    comparable,
    topics_of_tables,
    translated,
    wrongly_read,
)
from readers.truth import Step, Table, final_difference, tables

from relay import ProducerRecord, Translator

TARGET = DEBEZIUM
#: Connect has no dates that are none; as text they reach the reader.
_OPTIONS = {"profile": "kafka-connect", "zero-dates": "text"}
NOT_FOR_THE_SINK = {
    # Without a key the sink can neither update nor delete.
    "dml_db.log_nokey",
    "keys_db.no_key",
    "keys_db.uk_nullable",
    "tidb_only_db.nonclustered",
    # PostgreSQL has no U+0000.
    "strings_db.txt",
    # The sink does not find a table of its own where a column's name has a backtick.
    "Names-Db.back`tick",
}


@pytest.mark.parametrize("file", FILES)
def test_every_image_of_every_row(connect: Program, file: str) -> None:
    topics = topics_of_tables(translated(file, TARGET, BY_TABLE, **_OPTIONS))

    def read(table: Table) -> list[Step]:
        return steps(table, unwrapped(connect, topics[table.database, table.name]))

    assert wrongly_read(file, read) == {}


@pytest.mark.parametrize("file", SOME_FILES)
def test_rows_in_postgresql(sink: Sink, file: str) -> None:
    topics = topics_of_tables(translated(file, TARGET, BY_TABLE, **_OPTIONS))
    wrong = {}
    for table in comparable(file):
        if table.id not in NOT_FOR_THE_SINK and not table.altered and table.begins_empty:
            stored = sink.store(topics[table.database, table.name])
            if said := final_difference(table, sink.rows(stored, table)):
                wrong[table.id] = said
    assert wrong == {}


@pytest.mark.parametrize("statements", ["01_all_types", "07_keys", "09_dml"])
def test_tables_of_one_topic(sink: Sink, statements: str) -> None:
    """The sink tells them apart by the rows; those without a key are left out."""
    named = topics_of_tables(translated(f"ticdc/open-protocol/{statements}", TARGET, BY_TABLE, **_OPTIONS))
    records: list[Any] = [
        record
        for record in translated(f"ticdc/open-protocol/{statements}", TARGET, **_OPTIONS)
        if record.key is not None
    ]
    assert len({record.topic for record in records}) == 1
    assert len(named) > 1 or statements == "01_all_types"
    sink.store(records, collection_name_format="mixed_${source.db}_${source.table}")
    wrong = {}
    for table in tables(statements).values():
        if table.id not in NOT_FOR_THE_SINK:
            rows = sink.rows(f"mixed_{table.database}_{table.name}", table)
            if said := final_difference(table, rows):
                wrong[table.id] = said
    assert wrong == {}


def test_without_the_profile_the_task_fails(sink: Sink) -> None:
    """TIME beyond a day, BIT and other things that Debezium itself does not get through."""
    topics = topics_of_tables(translated("ticdc/open-protocol/01_all_types", TARGET, BY_TABLE, ddl="drop"))
    for table in tables("01_all_types").values():
        with pytest.raises(TaskFailed):
            sink.store(topics[table.database, table.name])


def one_row(name: str, value: object) -> list[ProducerRecord]:
    """What becomes of a row of the connector with this column."""
    columns = column("id", "int32"), column(name, "float")
    message = record(wrapped(row(after={"id": 1, name: value}), *columns), {"id": 1})
    return Translator(DEBEZIUM, DEBEZIUM, None, _OPTIONS).translate(message)


@pytest.mark.parametrize("word", ["Infinity", "-Infinity"])
def test_infinity_is_read_as_zero(connect: Program, word: str) -> None:
    """JsonConverter writes the word, the connector's own included, and does not read it."""
    messages = one_row("c", word)
    assert f'"c":"{word}"'.encode() in (messages[0].value or b"")
    (found,) = unwrapped(connect, messages)
    assert found["row"]["c"] == ["float32", "0.0"]


def test_names_that_only_quotes_keep(sink: Sink) -> None:
    assert sink.store(one_row("order", 1.5))
    with pytest.raises(TaskFailed):
        sink.store(one_row("order", 1.5), quote_identifiers="false")
