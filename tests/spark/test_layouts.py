"""Where records lie in an output: by topic, by day, by table; always whole, in order, and with topic and partition."""

from __future__ import annotations

import json
from collections.abc import Iterator
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import msgspec
import pytest
from spark.backfills import config_for
from spark.test_files import relayed
from support import OPEN, captured

from relay import ConsumerRecord, Translator
from relay.record_lines import format_record
from spark_backfill.job import from_files

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
    by_place: dict[str, list[tuple[int, bytes]]] = {}
    for line in (line for lines in found.values() for line in lines):
        record = json.loads(line)
        by_place.setdefault(f"{record['topic']}/{record['partition']}", []).append((record["offset"], line))
    return {place: [line for _, line in sorted(lines)] for place, lines in by_place.items()}


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
    config = config_for(str(written(tmp_path, records)), str(tmp_path / "out"), backfill={"output_layout": "date"})
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
    """A watermark is of no table, DDL of a database of no table in that database; a letter is of what it can be read as."""
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
    assert {place: lines for place, lines in as_written(found).items() if place != "letters/0"} == translated


def test_a_message_with_rows_of_several_tables_becomes_messages_of_one_each(spark: Any, tmp_path: Path) -> None:
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
    assert {folder: len(lines) for folder, lines in found.items()} == {"database=d/table=one": 3, "database=d/table=two": 1}
    assert as_written(found) == relayed(config, records)


TABLE_ROW = b'{"ts":429918007904436226,"scm":"d","tbl":"NAME","t":1}'


def batch(offset: int, *keys: bytes) -> ConsumerRecord:
    """An Open Protocol message: keys and values, each behind its length."""
    value = b'{"u":{"id":{"t":3,"h":true,"f":11,"v":1}}}'
    parts = [b"".join(len(text).to_bytes(8, "big") + text for text in texts) for texts in (keys, [value] * len(keys))]
    return ConsumerRecord("t", 0, offset, 5, (1).to_bytes(8, "big") + parts[0], parts[1])


@pytest.mark.parametrize("layout", ["date", "table"])
def test_parquet_keeps_topic_and_partition(layout: str, spark: Any, tmp_path: Path) -> None:
    """So an output is an input as well, whatever its folders are named by."""
    source = str(written(tmp_path, captured(DDL)))
    config = config_for(source, str(tmp_path / "out"), backfill={"output_layout": layout, "output_format": "parquet"})
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
        for out in relay.translate(ConsumerRecord("t", 0, record["offset"], 0, None, record["value"].encode()))
    ]
