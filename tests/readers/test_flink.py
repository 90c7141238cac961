"""Flink reads every row of every table that `profile=flink` writes: all values, before and after each change,
with the types that one would declare.
"""

from __future__ import annotations

import pytest
from readers.flink import steps
from readers.java import Program
from readers.sources import BY_TABLE, FILES, topics_of_tables, translated, wrongly_read
from readers.truth import Step, Table
from support import CANAL


@pytest.mark.parametrize("file", FILES)
def test_canal_json(flink: Program, file: str) -> None:
    values = [record.value for record in translated(file, CANAL, profile="flink")]
    assert wrongly_read(file, lambda table: steps(flink, CANAL, table, values)) == {}


@pytest.mark.parametrize("file", FILES)
def test_debezium_json(flink: Program, file: str) -> None:
    topics = topics_of_tables(translated(file, "debezium-json", BY_TABLE, profile="flink"))

    def read(table: Table) -> list[Step]:
        values = [record.value for record in topics[table.database, table.name]]
        return steps(flink, "debezium-json", table, values)

    assert wrongly_read(file, read) == {}
