"""Where records lie in an output: by topic, by day, by table; always whole, in order, and with topic and
partition.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from spark.backfills import config_for
from spark.test_files import relayed
from support import OPEN, captured, record, row_message

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.config.keys import FileFormat, OutputLayout
from relay.config.wiring import translator_of
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError
from relay.model.events import TableId
from spark_backfill.files import OutputFolder
from spark_backfill.frames import PRODUCED, PRODUCED_WITH_TABLES
from spark_backfill.job import from_files
from spark_backfill.layouts import TableFinder
from spark_backfill.locations import check_folder
from spark_backfill.placement import Placement
from spark_backfill.sessions import NEEDED

DDL = "ticdc/canal-json.tidb-extension/10_ddl"
BATCH = "ticdc/open-protocol.lz4/09_dml"
#: Hive's folder for NULL.
NONE = "__HIVE_DEFAULT_PARTITION__"


def folders(root: Path) -> dict[str, list[bytes]]:
    """The lines of every folder, in the order of its files."""
    found: dict[str, list[bytes]] = {}
    for path in sorted(root.rglob("part-*")):
        found.setdefault(str(path.parent.relative_to(root)), []).extend(path.read_bytes().splitlines())
    return found


def written(folder: Path, records: list[ConsumerRecord]) -> Path:
    path = folder / "in.jsonl"
    path.write_bytes(b"".join(format_record(record, record.offset) for record in records))
    return path


def as_written(found: dict[str, list[bytes]]) -> dict[str, list[bytes]]:
    """The same lines by topic and partition, put in the order of their offsets."""
    by_partition: dict[str, list[tuple[int, bytes]]] = {}
    for line in (line for lines in found.values() for line in lines):
        record = json.loads(line)
        by_partition.setdefault(f"{record['topic']}/{record['partition']}", []).append(
            (record["offset"], line)
        )
    return {partition: [line for _, line in sorted(lines)] for partition, lines in by_partition.items()}


def ordered(lines: list[bytes]) -> Iterator[tuple[str, int, int]]:
    for line in lines:
        record = json.loads(line)
        yield record["topic"], record["partition"], record["offset"]


def test_a_day_is_that_of_the_record_in_utc(spark: Any, tmp_path: Path) -> None:
    """Whatever the zone of the session; a record without a time is of no day."""
    moments = [datetime(2026, 1, 31, 23, 59, 59, 999_000, UTC), datetime(2026, 2, 1, tzinfo=UTC)]
    times = [*(int(moment.timestamp() * 1000) for moment in moments), -1]
    records = [
        msgspec.structs.replace(record, offset=offset, timestamp_ms=times[offset % 3])
        for offset, record in enumerate(captured(DDL))
    ]
    config = config_for(
        str(written(tmp_path, records)), str(tmp_path / "out"), backfill={"output_layout": "date"}
    )
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    try:
        from_files(spark, config)
        from_files(spark, config)
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    found = folders(tmp_path / "out")
    assert set(found) == {"date=2026-01-31", "date=2026-02-01", f"date={NONE}"}
    for folder, lines in found.items():
        assert list(ordered(lines)) == sorted(ordered(lines)), folder
    assert {json.loads(line)["timestamp"] for line in found["date=2026-01-31"]} == {times[0]}
    assert as_written(found) == relayed(config, records)


def test_a_table_has_its_rows_and_its_ddl(spark: Any, tmp_path: Path) -> None:
    """A watermark is of no table, DDL of a database of no table in that database; a dead letter is of what it can
    be read as.
    """
    records = captured(DDL)
    records[7] = msgspec.structs.replace(records[7], value=b"{")
    config = config_for(
        str(written(tmp_path, records)),
        str(tmp_path / "out"),
        route={"to": "ticdc-canal-json", "to_options": {"enable-tidb-extension": "true"}},
        backfill={"output_layout": "table"},
        errors={"decode": "dead-letter", "dead_letter_topic": "letters"},
    )
    from_files(spark, config)
    found = folders(tmp_path / "out")
    seen = {"tables": 0, "watermarks": 0, "databases": 0}
    for folder, lines in found.items():
        database, table = (part.partition("=")[2] for part in folder.split("/"))
        for line in lines:
            record = json.loads(line)
            if record["topic"] == "letters":
                assert (database, table) == (NONE, NONE)
                continue
            message = json.loads(record["value"])
            if message["type"] == "TIDB_WATERMARK":
                seen["watermarks"] += 1
                assert (database, table) == (NONE, NONE)
            else:
                seen["tables" if message["table"] else "databases"] += 1
                assert (database, table) == (message["database"], message["table"] or NONE)
    assert all(seen.values()), seen
    translated = relayed(config, [record for offset, record in enumerate(records) if offset != 7])
    assert {
        partition: lines for partition, lines in as_written(found).items() if partition != "letters/0"
    } == translated


def test_a_message_with_rows_of_several_tables_becomes_messages_of_one_each(
    spark: Any, tmp_path: Path
) -> None:
    """The target's own decoder tells them apart."""
    first, second = (TABLE_ROW.replace(b"NAME", name) for name in (b"one", b"two"))
    records = [batch(0, first, second), batch(1, first, first)]
    config = config_for(
        str(written(tmp_path, records)),
        str(tmp_path / "out"),
        route={"from": OPEN, "to": "ticdc-canal-json"},
        backfill={"output_layout": "table"},
    )
    from_files(spark, config)
    found = folders(tmp_path / "out")
    assert {folder: len(lines) for folder, lines in found.items()} == {
        "database=d/table=one": 3,
        "database=d/table=two": 1,
    }
    assert as_written(found) == relayed(config, records)


TABLE_ROW = b'{"ts":429918007904436226,"scm":"d","tbl":"NAME","t":1}'


def batch(offset: int, *keys: bytes) -> ConsumerRecord:
    """An Open Protocol message: keys and values, each behind its length."""
    value = b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
    parts = [
        b"".join(len(text).to_bytes(8, "big") + text for text in texts)
        for texts in (keys, [value] * len(keys))
    ]
    return ConsumerRecord("t", 0, offset, 5, (1).to_bytes(8, "big") + parts[0], parts[1])


def test_a_folder_is_written_anew_whatever_the_default_of_the_cluster(spark: Any, tmp_path: Path) -> None:
    target = OutputFolder(str(tmp_path), FileFormat.JSON_LINES)
    spark.conf.set("spark.sql.sources.partitionOverwriteMode", "dynamic")
    try:
        for topic in ("before", "now"):
            target.write(spark.createDataFrame([(topic, 0, 0, None, b"v", [], "t", 0, 0, 0)], PRODUCED), {})
    finally:
        spark.conf.unset("spark.sql.sources.partitionOverwriteMode")
    assert set(folders(tmp_path)) == {"topic=now/partition=0"}


#: What runs leave that were killed, or went in steps, beside what those leave that ended.
LEFT = [
    "_temporary/0/_temporary/attempt_1/topic=t/partition=0/part-0",
    ".spark-staging-1/_temporary/0/x",
    ".spark-staging-1/topic=t/partition=0/step=1/part-0",
    "topic=a%2Fb/partition=0/step=12/part-00000-x.c000.txt",
    "topic=t/partition=1/.part-00000-x.c000.txt.crc",
]


@pytest.mark.parametrize("layout", OutputLayout)
def test_an_output_holds_what_runs_leave(layout: OutputLayout, spark: Any, tmp_path: Path) -> None:
    target = OutputFolder(str(tmp_path), FileFormat.JSON_LINES, layout)
    made: list[tuple[Any, ...]] = [("t", 0, at, None, b"v", [], "t", 0, 0, 0, "d", None) for at in (-1, 5)]
    target.write(spark.createDataFrame(made, PRODUCED_WITH_TABLES), {})
    assert {"_SUCCESS", "._SUCCESS.crc"} < {path.name for path in tmp_path.iterdir()}
    for left in LEFT if layout is OutputLayout.TOPIC else LEFT[:3]:
        put(tmp_path / left)
    check_folder(spark, str(tmp_path), layout)
    check_folder(spark, str(tmp_path), layout, is_new=False)


@pytest.mark.parametrize(
    "other",
    [
        ".git/config",
        "_delta_log/0.json",
        "_SUCCESS/x",
        "topic=t/notes.txt",
        "topic=t/part-0",
        "topic=t/partition=0/notes.txt",
        "topic=t/partition=0/day=1/part-0",
        "topic=t/year=2026/part-0",
        "date=2026-01-31/part-0",
    ],
)
def test_a_file_of_somebody_else_is_named_wherever_it_is(other: str, spark: Any, tmp_path: Path) -> None:
    put(tmp_path / "out" / other)
    put(tmp_path / "out" / "topic=t/partition=0/part-0")
    with pytest.raises(ConfigError, match=f"contains other files than records: {re.escape(other)}"):
        check_folder(spark, str(tmp_path / "out"), OutputLayout.TOPIC)


def test_a_run_in_steps_begins_in_a_folder_without_records(spark: Any, tmp_path: Path) -> None:
    """And goes on beside its own: it deletes nothing but what it has written, and has many files."""
    put(tmp_path / "_SUCCESS")
    check_folder(spark, str(tmp_path), OutputLayout.TOPIC, is_new=True)
    put(tmp_path / "topic=t/partition=0/step=1/part-0")
    check_folder(spark, str(tmp_path), OutputLayout.TOPIC, is_new=False)
    with pytest.raises(ConfigError, match="rows would be written twice"):
        check_folder(spark, str(tmp_path), OutputLayout.TOPIC, is_new=True)
    put(tmp_path / ".git/config")
    with pytest.raises(ConfigError, match=r"contains other files than records: \.git"):
        check_folder(spark, str(tmp_path), OutputLayout.TOPIC, is_new=False)


def put(path: Path) -> None:
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"")


@pytest.mark.parametrize("layout", ["date", "table"])
def test_parquet_keeps_topic_and_partition(layout: str, spark: Any, tmp_path: Path) -> None:
    """So an output is an input as well, whatever its folders are named by."""
    source = str(written(tmp_path, captured(DDL)))
    config = config_for(
        source, str(tmp_path / "out"), backfill={"output_layout": layout, "output_format": "parquet"}
    )
    from_files(spark, config)
    again = config_for(
        str(tmp_path / "out"),
        str(tmp_path / "back"),
        route={"from": "canal-json", "to": "canal-json"},
        backfill={"input_format": "parquet"},
    )
    from_files(spark, again)
    expected = [json.loads(line) for line in relayed(config, captured(DDL))["ticdc-10_ddl/0"]]
    found = [json.loads(line) for line in folders(tmp_path / "back")["topic=ticdc-10_ddl/partition=0"]]
    assert [record["offset"] for record in found] == [record["offset"] for record in expected]
    relay = Translator("canal-json", "canal-json")
    assert [record["value"] for record in found] == [
        (out.value or b"").decode()
        for record in expected
        for out in relay.translate(
            ConsumerRecord("t", 0, record["offset"], 0, None, record["value"].encode())
        )
    ]


def test_a_tombstone_lies_with_its_row() -> None:
    options = {"profile": "flink", "key": "primary-key", "tombstones": "true"}
    config = config_for(route={"from": "canal-json", "to": "canal-json", "to_options": options})
    translator = translator_of(config)
    made = []
    for at, table in enumerate(("a", "b")):
        message = row_message({"id": "int"}, {"id": "1"}, op="DELETE", table=table, pkNames=["id"])
        made += translator.translate(record(message, at))
    tables = [TableId("d", "a"), TableId("d", "b")]
    assert TableFinder(config).find(made, tables) == [tables[0], tables[0], tables[1], tables[1]]


def test_tables_of_a_target_that_is_only_written() -> None:
    """Of a source record about one table they are known; nobody can tell rows of several apart."""
    finder = TableFinder(config_for("in", "out", route={"to": "flat-json"}))
    produced = [ProducerRecord("out", 0, 0, None, b'{"id":1}', ())] * 2
    one, other = TableId("d", "a"), TableId("d", "b")
    assert finder.find(produced, [one]) == [one, one]
    assert finder.find(produced, [one, other]) == [None, None]


def sorts_of_last_write(spark: Any) -> int:
    """How often Spark sorts the records of a task in its last execution."""
    spark.sparkContext._jsc.sc().listenerBus().waitUntilEmpty()
    executions = spark._jsparkSession.sharedState().statusStore().executionsList()
    plan = executions.apply(executions.size() - 1).physicalPlanDescription()
    return len(re.findall(r"Sort \(\d+\)", plan.partition("+- == Initial Plan ==")[0]))


@pytest.mark.parametrize("step", [None, 3])
@pytest.mark.parametrize("file_format", FileFormat)
@pytest.mark.parametrize("layout", OutputLayout)
def test_a_task_has_one_open_file(
    layout: OutputLayout, file_format: FileFormat, step: int | None, spark: Any, tmp_path: Path
) -> None:
    """Records are sorted in the order of the target, then by folder; a third sort would be Spark's own, which
    is not documented as stable.
    """
    assert NEEDED["spark.sql.maxConcurrentOutputFileWriters"] == "0"
    days = 86_400_000
    made: list[tuple[Any, ...]] = [
        (
            "t",
            at % 3,
            at % 4 * days,
            None,
            b"v",
            [],
            "s",
            at % 3,
            at,
            0,
            "d",
            f"t{at % 5}" if at % 7 else None,
        )
        for at in range(210)
    ]
    placement = None if step is None else Placement.of_topics({"t": 3})
    frame = spark.createDataFrame(made, PRODUCED_WITH_TABLES)
    OutputFolder(str(tmp_path), file_format, layout, step, placement).write(frame, {})
    assert sorts_of_last_write(spark) == 2
    reading = spark.read.parquet if file_format is FileFormat.PARQUET else spark.read.text
    assert reading(str(tmp_path)).count() == len(made)


def test_each_table_has_one_file_in_the_order_of_offsets(spark: Any, tmp_path: Path) -> None:
    tables, rows = 60, 1200
    made: list[tuple[Any, ...]] = [
        ("t", 0, at, None, b"v", [], "s", 0, at, 0, "d", f"t{at % tables}") for at in range(rows)
    ]
    frame = spark.createDataFrame(made, PRODUCED_WITH_TABLES).repartition(4)
    placement = Placement.of_topics({"t": 1})
    OutputFolder(str(tmp_path), FileFormat.JSON_LINES, OutputLayout.TABLE, placement=placement).write(
        frame, {}
    )
    files = sorted(tmp_path.rglob("part-*"))
    assert len({path.parent for path in files}) == len(files) == tables
    for path in files:
        offsets = [json.loads(line)["offset"] for line in path.read_text().splitlines()]
        table = int(path.parent.name.removeprefix("table=t"))
        assert offsets == list(range(table, rows, tables))
