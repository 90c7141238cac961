"""Files in, files out: every byte is what `relay translate` writes, wherever a partition is split."""

from __future__ import annotations

import base64
import json
import shutil
from collections import Counter
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from row_rules_support import compact, message, story
from spark.backfills import config_for, lines_in, partitions_in
from support import CANAL, DATA, OPEN, TICDC, captured, captured_files, record, row_message
from table_rules_support import story_of_shards

from relay import CodecError, ConfigError, ConsumerRecord, Loss
from relay.config import Config
from relay.config.keys import InputFormat
from relay.config.wiring import translator_of
from relay.io.record_lines import format_record
from spark_backfill.counts import BackfillCounts
from spark_backfill.files import read_files
from spark_backfill.job import from_files
from spark_backfill.schema_pass import find_ddl, matches_in_line


class Route(NamedTuple):
    source: str
    target: str
    variant: str
    to_options: dict[str, str] | None = None
    from_options: dict[str, str] | None = None


EXTENSION = {"enable-tidb-extension": "true"}
ROUTES = [
    Route(TICDC, CANAL, "ticdc/canal-json.tidb-extension"),
    Route(OPEN, "ticdc-debezium", "ticdc/open-protocol", {"debezium-disable-schema": "true"}),
    Route(CANAL, TICDC, "mysql/canal-json", EXTENSION),
    Route("ticdc-debezium", OPEN, "ticdc/debezium"),
    Route(TICDC, "ckafka-json", "ticdc/canal-json.3-partitions"),
    Route(OPEN, CANAL, "ticdc/open-protocol.lz4", None, {"large-message-handle-compression": "lz4"}),
]


def relayed(config: Config, records: list[ConsumerRecord]) -> dict[str, list[bytes]]:
    """The lines that `relay translate` writes, by topic and partition."""
    translator = translator_of(config)
    translator.expect_partitions({(each.topic, each.partition) for each in records})
    found: dict[str, list[bytes]] = {}
    for each in records:
        for out in translator.translate(each):
            lines = found.setdefault(f"{out.topic}/{out.partition}", [])
            lines.append(format_record(out, len(lines)).rstrip(b"\n"))
    return found


def everything(variant: str) -> list[ConsumerRecord]:
    return [record for file in captured_files(variant) for record in captured(file)]


def some_files(variant: str) -> list[str]:
    """Those about keys, rows and DDL; a variant that has none of them has few files. The digests of
    `test_output_digests` are of all files, without Spark.
    """
    files = captured_files(variant)
    return [file for file in files if file.endswith(("07_keys", "09_dml", "10_ddl"))] or files


def is_split(records: list[ConsumerRecord], spark: Any, path: str) -> int:
    """Over how many tasks the records of the busiest source partition are spread."""
    from spark_backfill.frames import RECORDS, Lines, record_batch

    read = read_files(spark, path, config_for(path, "x").backfill.input_format)

    def parsed(batches: Any) -> Any:
        for batch in batches:
            yield record_batch(list(Lines().read(batch)))

    from pyspark.sql import functions as F

    frame = (
        read.frame.mapInArrow(parsed, RECORDS)
        .select("topic", "partition", F.spark_partition_id().alias("task"))
        .distinct()
    )
    return max(Counter((row.topic, row.partition) for row in frame.collect()).values())


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.variant} to {route.target}")
def test_every_byte_is_the_relays(route: Route, spark: Any, tmp_path: Path) -> None:
    """A folder of files; `test_every_route` has all of them, along all routes."""
    folder = tmp_path / "in"
    folder.mkdir()
    for file in some_files(route.variant):
        shutil.copy(DATA / f"{file}.jsonl", folder)
    config = config_for(
        str(folder),
        str(tmp_path / "out"),
        route={
            "from": route.source,
            "to": route.target,
            "to_options": route.to_options or {},
            "from_options": route.from_options or {},
        },
    )
    records = [record for file in some_files(route.variant) for record in captured(file)]
    counts = from_files(spark, config)
    expected = relayed(config, records)
    assert expected
    assert lines_in(tmp_path / "out") == expected
    assert counts.read == len(records)
    assert counts.written == Counter({partition: len(lines) for partition, lines in expected.items()})
    translator = translator_of(config)
    for each in records:
        translator.translate(each)
    assert counts.events == translator.events
    assert dict(counts.lost) == {str(what): n for what, n in translator.losses.items()}


@pytest.mark.parametrize("variant", ["ticdc/open-protocol", "ticdc/open-protocol.3-partitions"])
def test_topics_by_table_are_the_relays(variant: str, spark: Any, tmp_path: Path) -> None:
    """Watermarks and statements of databases too: which topics are in use follows from the definitions."""
    records = everything(variant)
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))
    config = config_for(
        str(path),
        str(tmp_path / "out"),
        route={
            "from": OPEN,
            "to": TICDC,
            "to_options": EXTENSION,
            "exclude_tables": ["*.child"],
            "exclude_events": ["delete"],
        },
        target={
            "topic": "{topic}.{database}.{table}",
            "topics": [{"match": "*.users", "topic": "{table}"}],
        },
    )
    counts = from_files(spark, config)
    expected = relayed(config, records)
    assert len(expected) > 5
    assert lines_in(tmp_path / "out") == expected
    assert counts.lost["events-filtered"] > 0


def test_renamed_tables_are_the_relays(spark: Any, tmp_path: Path) -> None:
    """Rows, statements and topics; two tables with the same name are refused before anything is written."""
    records = everything("ticdc/canal-json.tidb-extension")
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))

    def renaming(output: str, *tables: dict[str, str]) -> Config:
        target = {"topic": "{topic}.{database}.{table}"}
        return config_for(str(path), str(tmp_path / output), route={"tables": tables}, target=target)

    rules = (
        {"from": r"(dml|ddl)_(.*)\.(.*)", "to": "{2}_{1}.{3}_2"},
        {"from": r"keys_db\..*", "to": "k.{table}"},
    )
    config = renaming("out", *rules)
    from_files(spark, config)
    expected = relayed(config, records)
    assert any("db_dml." in topic for topic in expected)
    assert lines_in(tmp_path / "out") == expected
    with pytest.raises(ConfigError, match="would have the same name"):
        from_files(spark, renaming("other", {"from": r"keys_db\..*", "to": "k.one"}))
    assert not (tmp_path / "other").exists()


@pytest.mark.parametrize("ddl", ["all", "first"])
def test_merged_shards_are_the_relays(ddl: str, spark: Any, tmp_path: Path) -> None:
    """The job reads all DDL first; a statement that diverges is refused all the same."""
    records = story_of_shards()
    (tmp_path / "in.jsonl").write_bytes(b"".join(format_record(each, each.offset) for each in records))
    shards = {
        "from": r"shop_(\d)\.orders",
        "to": "shop.orders",
        "merge": True,
        "ddl": ddl,
        "add": {"shop": "{1}"},
    }
    config = config_for(
        str(tmp_path / "in.jsonl"),
        str(tmp_path / "out"),
        route={"from": TICDC, "to": "debezium-json", "tables": [shards]},
        errors={"encode": "skip"},
    )
    counts = from_files(spark, config)
    translator, expected = translator_of(config), []
    for each in records:
        try:
            expected += translator.translate(each)
        except CodecError:
            translator.learn(each)
    found = lines_in(tmp_path / "out")
    assert found == {"topic/0": [format_record(out, at).rstrip(b"\n") for at, out in enumerate(expected)]}
    assert counts.lost == Counter({str(kind): lost for kind, lost in translator.losses.items()})
    assert counts.lost["ddl-merged"] > 0


def test_rows_with_rules_for_columns_are_the_relays(spark: Any, tmp_path: Path) -> None:
    """Statements too; and a record that cannot be read has no payload in its dead letter."""
    file = "ticdc/canal-json.tidb-extension/10_ddl"
    records = [*captured(file), *captured("ticdc/canal-json.tidb-extension/09_dml")]
    records = [msgspec.structs.replace(each, topic="t", offset=at) for at, each in enumerate(records)]
    records.append(ConsumerRecord("t", 0, len(records), records[-1].timestamp_ms, b"k", b"a secret"))
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))
    columns = [
        {"tables": ["*.*"], "columns": ["name", "email", "note"], "action": "hash", "length": 20},
        {"tables": ["*.*"], "columns": ["c*"], "action": "drop"},
        {"tables": ["*.*"], "columns": ["v*"], "action": "rename", "name": "renamed"},
    ]
    config = config_for(
        str(path),
        str(tmp_path / "out"),
        route={"columns": columns, "hash_key": "a secret key of tests"},
        errors={"decode": "dead-letter", "encode": "skip", "dead_letter_topic": "dead"},
    )
    counts = from_files(spark, config)
    translator, expected = translator_of(config), dict[str, list[bytes]]()
    for each in records:
        with suppress(CodecError):
            for out in translator.translate(each):
                lines = expected.setdefault(f"{out.topic}/{out.partition}", [])
                lines.append(format_record(out, len(lines)).rstrip(b"\n"))
    found = lines_in(tmp_path / "out")
    (letter,) = found.pop("dead/0")
    assert found == expected
    assert b"a secret" not in letter
    assert counts.lost["columns-filtered"] == translator.losses[Loss.COLUMNS_FILTERED]
    plain = relayed(config_for(str(path)), records[:-1])
    assert plain.keys() == found.keys()
    assert plain != found


def test_rows_with_conditions_are_the_relays(spark: Any, tmp_path: Path) -> None:
    """A row that enters or leaves the selection, too, and one that the condition does not accept."""
    records = [msgspec.structs.replace(each, topic="t", offset=at) for at, each in enumerate(story())]
    failing = compact(message(at=20, status=None), 20)
    records.append(msgspec.structs.replace(failing, topic="t", offset=len(records)))
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))
    rows = [{"tables": ["d.*"], "where": "status.startsWith('paid')"}]
    config = config_for(
        str(path),
        str(tmp_path / "out"),
        route={"rows": rows},
        errors={"encode": "dead-letter", "dead_letter_topic": "dead"},
    )
    counts = from_files(spark, config)
    translator, expected = translator_of(config), dict[str, list[bytes]]()
    for each in records:
        with suppress(CodecError):
            for out in translator.translate(each):
                lines = expected.setdefault(f"{out.topic}/{out.partition}", [])
                lines.append(format_record(out, len(lines)).rstrip(b"\n"))
    found = lines_in(tmp_path / "out")
    (letter,) = found.pop("dead/0")
    assert b"encode.condition" in letter
    assert found == expected
    assert counts.lost["rows-filtered"] == translator.losses[Loss.ROWS_FILTERED] > 0


def test_one_partition_is_split_over_many_tasks(spark: Any, tmp_path: Path) -> None:
    """And Parquet, read and written, holds the same bytes as the lines."""
    file = DATA / "ticdc/canal-json.tidb-extension/12_bulk.jsonl"
    records = captured("ticdc/canal-json.tidb-extension/12_bulk")
    assert is_split(records, spark, str(file)) >= 4
    config = config_for(str(file), str(tmp_path / "out"), backfill={"output_format": "parquet"})
    from_files(spark, config)
    expected = relayed(config, records)
    written = partitions_in(spark, tmp_path / "out")
    assert written == expected
    # What Parquet holds is a source as well.
    again = config_for(
        str(tmp_path / "out"),
        str(tmp_path / "back"),
        route={"from": CANAL, "to": CANAL},
        backfill={"input_format": "parquet"},
    )
    counts = from_files(spark, again)
    back = [
        ConsumerRecord(
            "ticdc-12_bulk",
            record.partition,
            record.offset,
            record.timestamp_ms,
            record.key,
            record.value,
            record.headers,
        )
        for partition in sorted(expected)
        for record in map(_parsed, expected[partition])
    ]
    assert lines_in(tmp_path / "back") == relayed(again, back)
    assert isinstance(counts, BackfillCounts)


def test_offsets_are_counted_as_longs(spark: Any) -> None:
    """`row_number` gives an int, whatever it is cast to behind that."""
    from spark_backfill.files import number_in_partition
    from spark_backfill.frames import PRODUCED

    numbered = spark.createDataFrame([], PRODUCED).select(number_in_partition().alias("offset"))
    assert numbered.schema["offset"].dataType.simpleString() == "bigint"


def _parsed(line: bytes) -> ConsumerRecord:
    from relay.io.record_lines import parse_record

    return parse_record(line)


def test_large_messages_come_to_workers_in_small_batches(spark: Any) -> None:
    """A worker holds a batch several times: 2 000 messages of 1 MB would not fit."""

    def sizes(batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            yield pa.RecordBatch.from_pydict({"size": [batch.nbytes]})

    messages = spark.range(0, 40, 1, 1).selectExpr("repeat('x', 1000000) AS value")
    found = [row.size for row in messages.mapInArrow(sizes, "size bigint").collect()]
    assert sum(found) >= 40_000_000
    assert max(found) < 20_000_000


def test_ddl_is_found_in_lines_of_every_spelling(spark: Any, tmp_path: Path) -> None:
    """Rows are passed over by their bytes; no statement is, wherever such bytes are in its line."""
    marks = '{"isDdl":false,"type":"INSERT"}'
    ddl = f"CREATE TABLE t (a INT) /* {marks} */"
    statement = record({"database": "d", "table": "t", "isDdl": True, "type": "CREATE", "es": 1, "sql": ddl})
    row = record(row_message({"a": "int"}, {"a": "1"}))
    members = json.loads(format_record(statement, 0))
    packed = {"base64": base64.b64encode(statement.value or b"").decode()}
    spelled = [
        format_record(statement, 0),
        format_record(msgspec.structs.replace(statement, headers=(("h", marks.encode()),)), 1),
        *(
            json.dumps(members | {"offset": at, "headers": [["h", marks]]}, separators=by).encode() + b"\n"
            for at, by in enumerate([(",", ":"), (", ", ": "), (", ", ":")], 2)
        ),
        # The value first, and behind it what is no value.
        json.dumps(
            {"value": members["value"], **members, "offset": 5, "key": marks}, separators=(",", ":")
        ).encode()
        + b"\n",
        json.dumps(
            {"value": members["value"], **members, "offset": 6, "key": marks}, separators=(", ", ":")
        ).encode()
        + b"\n",
        json.dumps(members | {"offset": 7, "value": packed}).encode() + b"\n",
    ]
    (tmp_path / "in.jsonl").write_bytes(
        b"".join([*spelled, *(format_record(row, at) for at in range(8, 20))])
    )
    config = config_for(str(tmp_path / "in.jsonl"), "x")
    found = find_ddl(read_files(spark, config.backfill.input, config.backfill.input_format), config)
    assert sorted(each.record.offset for each in found) == list(range(8))


def test_rows_of_record_files_are_known_without_a_worker(spark: Any) -> None:
    files = read_files(
        spark, str(DATA / "ticdc/canal-json.tidb-extension/09_dml.jsonl"), InputFormat.JSON_LINES
    )
    marks = translator_of(config_for("x", "y")).route.source.non_ddl_marker
    assert marks is not None
    assert files.frame.where(~matches_in_line(marks)).count() == 4  # its DDL
