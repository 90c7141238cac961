"""ClickHouse loads what `profile=clickhouse` writes: in the end a ReplacingMergeTree has the rows of the source,
declared with the types of docs/readers.md.
"""

from __future__ import annotations

import importlib.util
import json
import os
from collections import defaultdict
from collections.abc import Iterator

import pytest
from readers.clickhouse import ClickHouse
from readers.sources import BY_TABLE, FILES, comparable, topics_of_tables, translated
from readers.truth import Change, Table, final_difference, sql_type, tables

from relay import ProducerRecord

FLAT = "flat-json"
#: Zero dates reach a reader that has such columns as text.
#: ClickHouse's parser of numbers misses the last bit of 3.402823e38, with `precise_float_parsing` too.
_INEXACT = "numeric_db.floats"
#: Canal has destroyed what this has.
_NOTHING_LEFT = "mysql/canal-json/05_charsets"
_OPTIONS = {"profile": "clickhouse", "version": "offset", "zero-dates": "keep"}


@pytest.fixture(scope="module")
def clickhouse() -> Iterator[ClickHouse]:
    if importlib.util.find_spec("chdb") is None:
        said = "no package chdb-core-lite, which has ClickHouse's engine"
        if os.environ.get("CI"):
            pytest.fail(said)
        pytest.skip(said)
    engine = ClickHouse()
    yield engine
    engine.close()


def _by_table(file: str, **options: str) -> dict[tuple[str, str], list[ProducerRecord]]:
    """The records of each table's topic; flat rows of this profile do not name their table."""
    named = topics_of_tables(translated(file, "debezium-json", BY_TABLE, profile="flink"))
    owners = {records[0].topic: table for table, records in named.items()}
    found = defaultdict(list)
    for record in translated(file, FLAT, BY_TABLE, **options):
        found[owners[record.topic]].append(record)
    return found


@pytest.mark.parametrize("file", FILES)
def test_rows_in_the_end(clickhouse: ClickHouse, file: str) -> None:
    records = _by_table(file, **_OPTIONS)
    wrong, read = {}, 0
    for table in comparable(file):
        of_table = records[table.database, table.name]
        keys = [json.loads(record.key) for record in of_table if record.key is not None]
        if not keys or not keys[0].keys() <= table.columns.keys() or table.id == _INEXACT:
            continue
        if table.altered or not table.begins_empty:
            continue
        rows = clickhouse.rows(table, list(keys[0]), [record.value or b"" for record in of_table])
        read += 1
        if said := final_difference(table, rows):
            wrong[table.id] = said
    assert wrong == {}
    assert read or file == _NOTHING_LEFT


def test_with_commit_ts_as_version(clickhouse: ClickHouse) -> None:
    file = "ticdc/open-protocol/09_dml"
    records = _by_table(file, profile="clickhouse")
    table = tables("09_dml")["dml_db", "accounts"]
    rows = clickhouse.rows(table, ["id"], [one.value or b"" for one in records["dml_db", "accounts"]])
    assert final_difference(table, rows) == ""


def test_a_zero_date_reads_as_another_day(clickhouse: ClickHouse) -> None:
    """Why the profile makes NULL of it."""
    kind = sql_type("date")
    day = (2, "2026-01-02")
    table = Table("d", "t", {"id": sql_type("int"), "d": kind}, [Change(1, None, day)], altered=False)
    row = b'{"id":1,"d":"0000-00-00","__version":1,"__deleted":0}'
    assert clickhouse.rows(table, ["id"], [row]) == [(1, "1900-01-01")]
