"""Flink reads every row of every table that `profile=flink` writes: all values, before and after each change,
with the types that one would declare.
"""

from __future__ import annotations

import pytest
from readers.flink import ReaderFailed, steps
from readers.java import Program
from readers.sources import BY_TABLE, FILES, topics_of_tables, translated, wrongly_read
from readers.truth import Step, Table, tables
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


@pytest.mark.parametrize("statements", ["01_all_types", "10_ddl"])
def test_without_the_profile_a_job_fails(flink: Program, statements: str) -> None:
    """Bytes as text, and statements: what these tests would find."""
    values = [record.value for record in translated(f"ticdc/open-protocol/{statements}", CANAL)]
    table, *_ = tables(statements).values()
    with pytest.raises(ReaderFailed):
        steps(flink, CANAL, table, values)
