"""Folders of TiCDC's storage sink: what comes out is what a topic of the same changefeed would have given."""

from __future__ import annotations

import json
import pickle
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from spark.backfills import config_for, lines_in
from spark.storage_sink import data_files, lay_out, schema_file
from support import captured

from relay import ConsumerRecord
from relay.config import Config
from relay.config.wiring import translator_of
from relay.model.errors import ConfigError, Malformed, RecordsGone
from relay.model.events import SchemaChange
from spark_backfill.counts import BackfillCounts, as_document, as_text
from spark_backfill.job import from_files
from spark_backfill.ticdc_layout import (
    SinkFile,
    in_order,
    newest,
    parse_path,
    renames_in_order,
    statement_of,
)
from spark_backfill.ticdc_storage import read_storage, statement_record, storage_problems

DDL = "ticdc/canal-json.tidb-extension/10_ddl"
BULK = "ticdc/canal-json.tidb-extension/12_bulk"


def storage_config(source: Path, output: Path, target: str = "ticdc-debezium") -> Config:
    return config_for(
        str(source),
        str(output),
        route={
            "to": target,
            "to_options": {} if target != "ticdc-debezium" else {"debezium-disable-schema": "true"},
        },
        backfill={"input_format": "ticdc-storage"},
    )


Values = dict[str, list[bytes | None]]


def values_of(
    config: Config, records: list[ConsumerRecord], tables: dict[str, list[ConsumerRecord]]
) -> dict[str, list[bytes | None]]:
    """What the relay writes of a topic, by the table of the source record."""
    offsets = {record.offset: name for name, own in tables.items() for record in own}
    translator = translator_of(config)
    found: Values = {}
    for record in records:
        made = translator.translate(_without_ts(record))
        if record.offset in offsets:
            found.setdefault(offsets[record.offset], []).extend(out.value for out in made)
    return {name: values for name, values in found.items() if values}


def _without_ts(record: ConsumerRecord) -> ConsumerRecord:
    """The record, whose DDL says no time of its making: no schema file does."""
    message = json.loads(record.value or b"")
    if message["isDdl"]:
        return msgspec.structs.replace(record, value=json.dumps(message | {"ts": message["es"]}).encode())
    return record


@pytest.mark.parametrize(
    ("file", "each", "below"), [(DDL, 1, ""), (BULK, 200, "2026-11-20")], ids=["ddl", "bulk"]
)
def test_the_tables_are_those_of_a_topic(
    file: str, each: int, below: str, spark: Any, tmp_path: Path
) -> None:
    """Rows in the order of their files, split over tasks, with the definitions that the DDL in schema files
    makes.
    """
    records = captured(file)
    tables = lay_out(tmp_path / "in", records, each, below)
    config = storage_config(tmp_path / "in", tmp_path / "out")
    counts = from_files(spark, config)
    written = lines_in(tmp_path / "out")["t/0"]
    by_table: Values = {}
    names = {value: name for name, values in values_of(config, records, tables).items() for value in values}
    for offset, line in enumerate(written):
        record = json.loads(line)
        assert record["offset"] == offset
        value = record["value"].encode()
        by_table.setdefault(names[value], []).append(value)
    assert by_table == values_of(config, records, tables)
    own = sum(map(len, tables.values()))
    assert counts.ranges == {"t/0": (0, own - 1, own)}
    assert counts.read == own
    said = as_document(counts, 1.0)["last_files"]
    assert said == [
        max(each for each in data_of(tmp_path / "in") if each.startswith(f"{name}/"))
        for name in with_rows(said)
    ]
    assert f"  up to  {said[0]}" in as_text(counts, 1.0)


def data_of(folder: Path) -> list[str]:
    return [path.relative_to(folder).as_posix() for path in folder.rglob("CDC*.json")]


def with_rows(files: list[str]) -> list[str]:
    """The folders of their tables, each once."""
    found = ["/".join(path.split("/")[:2]) for path in files]
    assert found == sorted(set(found))
    return found


def test_positions_do_not_depend_on_how_files_are_split(spark: Any, tmp_path: Path) -> None:
    lay_out(tmp_path / "in", captured(BULK), 10_000)
    config = storage_config(tmp_path / "in", tmp_path / "out", "canal-json")
    from_files(spark, config)
    split = lines_in(tmp_path / "out")
    before = spark.conf.get("spark.sql.files.maxPartitionBytes")
    spark.conf.set("spark.sql.files.maxPartitionBytes", str(1 << 30))
    try:
        from_files(spark, config)
    finally:
        spark.conf.set("spark.sql.files.maxPartitionBytes", before)
    assert lines_in(tmp_path / "out") == split
    records = [json.loads(line) for line in split["t/0"]]
    assert [record["timestamp"] for record in records] == [
        json.loads(record["value"])["es"] for record in records
    ]


def test_blocks_are_those_that_were_counted(spark: Any, tmp_path: Path) -> None:
    """Also if there are more executors by the time they are translated."""
    records = captured(BULK)
    lay_out(tmp_path / "in", records, 10_000)
    found, _ = read_storage(spark, storage_config(tmp_path / "in", tmp_path / "out"))
    reader = found.reader

    def offsets_of(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"offset": [record.offset for record in reader.read(batch)]})

    spark.conf.set("spark.sql.leafNodeDefaultParallelism", "50")
    try:
        offsets = [row.offset for row in found.frame.mapInArrow(offsets_of, "offset bigint").collect()]
    finally:
        spark.conf.unset("spark.sql.leafNodeDefaultParallelism")
        spark.conf.unset("spark.sql.files.minPartitionNum")
    assert sorted(offsets) == list(range(len(offsets)))
    assert len(offsets) > 100
    # Every task gets a copy of the reader, which must not grow with the number of blocks.
    assert len(pickle.dumps(reader)) < 200


COLUMNS = [
    {
        "ColumnName": "Id",
        "ColumnType": "INT UNSIGNED",
        "ColumnPrecision": "10",
        "ColumnNullable": "false",
        "ColumnIsPk": "true",
    },
    {
        "ColumnName": "price",
        "ColumnType": "DECIMAL",
        "ColumnPrecision": "12",
        "ColumnScale": "3",
        "ColumnDefault": "1.5",
    },
    {"ColumnName": "it's", "ColumnType": "VARCHAR", "ColumnLength": "30", "ColumnDefault": "it's"},
    {
        "ColumnName": "at",
        "ColumnType": "DATETIME",
        "ColumnScale": "6",
        "ColumnDefault": "CURRENT_TIMESTAMP(6)",
    },
]


def row(version: int, number: int) -> bytes:
    types = {"Id": "int unsigned", "price": "decimal", "it's": "varchar", "at": "datetime"}
    message = {
        "id": 0, "database": "a b%41", "table": "_t[1],{x}", "pkNames": ["Id"], "isDdl": False,
        "type": "INSERT", "es": 1700000000123 + number, "ts": 1, "sql": "",
        "sqlType": dict.fromkeys(types, 12), "mysqlType": types, "old": None,
        "data": [{"Id": str(number), "price": "1.500", "it's": "x", "at": "2026-01-01 00:00:00.000001"}],
        "_tidb": {"commitTs": version + 1 + number},
    }  # fmt: skip
    return json.dumps(message, separators=(",", ":")).encode()


def test_a_table_that_was_there_before_has_the_columns_of_its_schema_file(spark: Any, tmp_path: Path) -> None:
    """Names that Spark would hide or take for patterns, another terminator, empty lines, dispatchers: all
    rows, no DDL.
    """
    version = 449_000_000_000_000_000
    schema_file(tmp_path / "in", "a b%41", "_t[1],{x}", version, "", COLUMNS)
    folder = tmp_path / "in" / "a b%41" / "_t[1],{x}" / str(version) / "2026"
    data_files(folder, [row(version, 1), b"", row(version, 2)], 2, b"\n")
    (folder / "CDC_1a2b_000001.json").write_bytes(row(version, 3))
    config = storage_config(tmp_path / "in", tmp_path / "out", "ticdc-open-protocol")
    counts = from_files(spark, config)
    assert counts.events == {"insert": 3}
    assert "schema-inferred" not in counts.lost
    lines = [json.loads(line) for line in lines_in(tmp_path / "out")["t/0"]]
    assert [line["timestamp"] - 1700000000123 for line in lines] == [1, 2, 3]
    assert [
        ["relay.source", f"t/0/{offset}/0"] in line["headers"]
        for line, offset in zip(lines, (1, 3, 4), strict=True)
    ] == [True] * 3


def test_columns_become_a_statement() -> None:
    file = parse_path("d/t/meta/schema_7_0000000001.json")
    assert file is not None
    said = json.dumps({"TableVersion": 7, "Query": "", "TableColumns": COLUMNS}).encode()
    created = (
        "CREATE TABLE IF NOT EXISTS `d`.`t` (`Id` INT UNSIGNED NOT NULL,`price` DECIMAL(12,3) DEFAULT '1.5',"
        "`it's` VARCHAR(30) DEFAULT 'it''s',`at` DATETIME(6) DEFAULT CURRENT_TIMESTAMP(6),PRIMARY KEY (`Id`))"
    )
    assert statement_of("p", file, said) == (created, False)
    members = {"ColumnName": "e", "ColumnType": "ENUM", "ColumnElems": ["a", "b'"]}
    (said, without) = (
        json.dumps({"TableColumns": [column]}).encode()
        for column in (members, {**members, "ColumnElems": None})
    )
    assert statement_of("p", file, said) == (
        "CREATE TABLE IF NOT EXISTS `d`.`t` (`e` ENUM('a','b'''))",
        False,
    )
    # Missing members cannot be reconstructed.
    assert statement_of("p", file, without) is None
    for damaged in (b"{", b"[]", b'{"TableVersion": 8}', b'{"TableColumns": [{}]}'):
        with pytest.raises(Malformed):
            statement_of("p", file, damaged)


def test_a_statement_has_the_bytes_that_ticdc_writes() -> None:
    """One message a file, also of a RENAME or DROP of several tables."""
    for table, word, sql in (
        ("b", "RENAME", "RENAME TABLE `d`.`a` TO `d`.`b`, `d`.`c` TO `d`.`d`"),
        ("t", "ERASE", "DROP TABLE `d`.`t`,`d`.`u`"),
        ("t", "ALTER", "ALTER TABLE `t` ADD COLUMN `a` INT, DROP COLUMN `b`"),
        ("", "QUERY", "CREATE DATABASE `d`"),
        ("t", "QUERY", 'not "known" \\'),
    ):
        file = SinkFile(449000000000000007, False, "d", table, 0, "", "", 0)
        made = statement_record(config_for(), "p", file, json.dumps({"Query": sql}).encode())
        assert made is not None
        value = (
            f'{{"id":0,"database":"d","table":"{table}","pkNames":null,"isDdl":true,"type":"{word}",'
            f'"es":1712799072265,"ts":1712799072265,"sql":{json.dumps(sql)},"sqlType":null,"mysqlType":null,'
            '"data":null,"old":null,"_tidb":{"commitTs":449000000000000007}}'
        )
        assert made.record == ConsumerRecord("t", 0, 0, 1712799072265, None, value.encode())


def test_files_come_by_version_and_their_ddl_first() -> None:
    paths = [
        "d/t/9/CDC000001.json",
        "d/t/10/2026-01-02/CDC000001.json",
        "d/t/10/2026-01-01/CDC02.json",
        "d/t/10/2026-01-01/CDC1.json",
        "d/t/meta/schema_10_0000000001.json",
        "d/meta/schema_1_0000000001.json",
        "d/old/9/schema.json",
        "d/t/10/55/2026-01-01/CDC_ab_000001.json",
    ]
    others = [
        "metadata",
        "d/t/9/meta/CDC.index",
        "d/t/9/meta/CDC_ab.index",
        "d/t/9/CDC000002.json.tmp.ab-cd",
        "d/t/.CDC.crc",
    ]
    assert list(in_order([*paths, *others])) == [paths[at] for at in (5, 6, 0, 4, 3, 2, 1, 7)]
    assert parse_path(paths[-1]) == SinkFile(10, True, "d", "t", 55, "2026-01-01", "ab", 1)
    assert parse_path("d/t/10/2026/CDC000001.json") == SinkFile(10, True, "d", "t", 0, "2026", "", 1)


def test_the_newest_file_of_each_table_says_how_far_a_folder_was_read() -> None:
    """A number alone says little: tables grow at the same time, and each new file shifts the numbers of those
    behind it.
    """
    paths = [f"d/a/5/2026-01-0{day}/CDC00000{number}.json" for day in (1, 2) for number in (1, 2)]
    others = [
        "d/a/9/CDC000001.json",
        "d/b/5/CDC_x_000001.json",
        "d/b/5/CDC_y_000001.json",
        "d/c/meta/schema_9_0000000001.json",
    ]
    assert newest(in_order(paths)) == [paths[-1]]
    assert newest(in_order([*paths, *others])) == others[:3]
    counts = BackfillCounts(last_files=[f"d/t{number}/5/CDC000001.json" for number in range(25)])
    assert as_text(counts, 1.0)[-2:] == ["  up to  d/t19/5/CDC000001.json", "  and 5 more files"]


def test_a_name_is_given_up_before_it_is_taken() -> None:
    """Whatever the order of the files' names; the other files stay where they are."""
    renames = {
        "d/a/meta/schema_9_0000000001.json": ("b", "a"),
        "d/x/meta/schema_9_0000000001.json": ("a", "x"),
    }
    changes = {path: translator_of(config_for()).inspect(ddl(*names))[0] for path, names in renames.items()}
    first, second = renames
    files = in_order(
        ["d/a/9/CDC000001.json", "d/a/9/CDC000002.json", "d/c/meta/schema_9_0000000001.json", *renames]
    )
    assert list(files)[:3] == [first, "d/c/meta/schema_9_0000000001.json", second]
    found = renames_in_order(
        files, {path: change for path, change in changes.items() if isinstance(change, SchemaChange)}
    )
    assert list(found) == ["d/c/meta/schema_9_0000000001.json", second, first, *list(files)[3:]]


def ddl(old: str, new: str) -> ConsumerRecord:
    sql = f"RENAME TABLE `d`.`{old}` TO `d`.`{new}`"
    message = {
        "database": "d",
        "table": new,
        "isDdl": True,
        "type": "RENAME",
        "es": 1,
        "ts": 1,
        "sql": sql,
        "_tidb": {"commitTs": 9},
    }
    return ConsumerRecord("t", 0, 0, 0, None, json.dumps(message).encode())


def test_what_is_missing_or_not_known_is_refused(tmp_path: Path) -> None:
    for folder in ("d/t/9", "d/t/9/2026-01-02", "d/t/9/55/2026"):
        for numbers, missing in (((1, 2, 4), 4), ((3, 4), 3)):
            with pytest.raises(RecordsGone, match=rf"missing before {folder}/CDC00000{missing}\.json"):
                in_order(["d/t/8/CDC000001.json", *(f"{folder}/CDC00000{number}.json" for number in numbers)])
    for path in ("d/t/9/CDC000001.csv", "12/449000000000000000/CDC000001.json", "notes.txt"):
        with pytest.raises(ConfigError, match="is not a file of TiCDC's storage sink"):
            parse_path(path)
    config = config_for(
        str(tmp_path), str(tmp_path), route={"from": "canal-json"}, source={"topics": ["a", "b"]}
    )
    assert [problem.path for problem in storage_problems(config)] == ["route.from", "source.topics"]
