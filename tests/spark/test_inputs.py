"""What must hold of the files of a run: positions, times, lines; what is left out is counted; what it reads is
not deleted.
"""

from __future__ import annotations

import datetime
import decimal
import gzip
import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import msgspec
import pyarrow as pa
import pytest
from py4j.protocol import MEMORY_COMMAND_NAME
from pyarrow import parquet
from spark.backfills import config_for, lines_in
from spark.test_files import relayed
from spark.test_layouts import put
from support import captured, record, row_message

from relay import ConsumerRecord, Translator
from relay.config.keys import InputFormat, OutputLayout
from relay.io.record_lines import format_record
from relay.model.errors import ConfigError, Malformed
from spark_backfill.counts import BackfillCounts, Parts
from spark_backfill.files import as_records, files_read, input_problems, read_files
from spark_backfill.frames import RECORDS, Columns, record_batch
from spark_backfill.hadoop import files_below, hadoop_path
from spark_backfill.job import from_files
from spark_backfill.locations import check_apart, check_folder, check_locations
from spark_backfill.schema_pass import empty_catalog
from spark_backfill.spark_errors import explained
from spark_backfill.task_errors import RecordStopped, Stopped
from spark_backfill.terms import LATEST_MS, Bounds, Terms
from spark_backfill.translation import Translate

NOON = datetime.datetime(2026, 1, 31, 12, 0, 0, 1000)
NOON_MS = 1_769_860_800_001
DDL = "ticdc/canal-json.tidb-extension/10_ddl"


def columns(**others: Any) -> pa.Table:
    """Two records as a table of Parquet."""
    given = {
        "topic": ["t", "t"],
        "partition": pa.array([0, 0], pa.int32()),
        "offset": [0, 1],
        "timestamp": pa.array([NOON, None], pa.timestamp("us")),
        "key": pa.array([None, None], pa.binary()),
        "value": pa.array([b"{}", b"{}"]),
    }
    return pa.table(given | others)


def test_times_without_a_zone_are_utc_and_null_is_none(spark: Any, tmp_path: Path) -> None:
    parquet.write_table(columns(), tmp_path / "in.parquet")
    config = config_for(str(tmp_path / "in.parquet"), backfill={"input_format": "parquet"})
    spark.conf.set("spark.sql.session.timeZone", "America/New_York")
    try:
        found = read_files(spark, config.backfill.input, config.backfill.input_format).frame.collect()
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
    assert [(row.offset, row.timestamp_ms) for row in found] == [(0, NOON_MS), (1, -1)]
    parquet.write_table(columns(timestamp=pa.array([1, 2], pa.timestamp("ns"))), tmp_path / "in.parquet")
    with pytest.raises(ConfigError, match="milliseconds or microseconds"):
        read_files(spark, config.backfill.input, config.backfill.input_format)


@pytest.mark.parametrize("name", ["topic", "partition", "offset"])
def test_a_row_without_its_place_is_refused(name: str) -> None:
    whole = record_batch([ConsumerRecord("t", 0, 5, 5, None, b"")])
    batch = whole.set_column(
        whole.schema.get_field_index(name), name, pa.nulls(1, whole.schema.field(name).type)
    )
    with pytest.raises(Malformed, match=f"{name}.*NULL"):
        list(Columns().read(batch))


@pytest.mark.parametrize("name", ["partition", "offset"])
def test_a_negative_place_is_refused(name: str) -> None:
    """As in a record file."""
    whole = record_batch([ConsumerRecord("t", 0, 0, 5, None, b""), ConsumerRecord("t", 0, 1, 5, None, b"")])
    kind = whole.schema.field(name).type
    batch = whole.set_column(whole.schema.get_field_index(name), name, pa.array([0, -2], kind))
    with pytest.raises(Malformed, match=f"{name}: .*negative$"):
        list(Columns().read(batch))
    assert list(Columns().read(whole[:0])) == []


def test_a_header_without_a_name_is_refused_with_its_place() -> None:
    whole = record_batch([ConsumerRecord("t", 2, at, 5, None, b"", (("name", b"secret"),)) for at in (7, 8)])
    names = pa.array(["name", None])
    pairs = pa.StructArray.from_arrays([names, pa.array([b"", b"secret"])], names=["key", "value"])
    headers = pa.ListArray.from_arrays(pa.array([0, 1, 2], pa.int32()), pairs)
    batch = whole.set_column(whole.schema.get_field_index("headers"), "headers", headers)
    with pytest.raises(Malformed, match="t/2/8: headers: a name is NULL") as caught:
        list(Columns().read(batch))
    assert "secret" not in str(caught.value)


MORE = {
    "value": columns().drop_columns("value"),
    "timestamp": columns(timestamp=pa.array([NOON, None], pa.timestamp("ms"))),
    "partition": columns(partition=["0", "0"]),
}


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
@pytest.mark.parametrize("column", MORE)
def test_parquet_files_that_differ_in_a_column_are_refused(
    column: str, names: tuple[str, str], spark: Any, tmp_path: Path
) -> None:
    """Spark takes the columns of one file for those of all: what differs would be NULL, or another time."""
    for name, table in zip(names, (columns(), MORE[column]), strict=True):
        parquet.write_table(table, tmp_path / f"{name}.parquet")
    with pytest.raises(
        ConfigError,
        match=f"backfill.input: the column {column} is .* in .*/b.parquet, and .* in .*/a.parquet",
    ):
        read_files(spark, str(tmp_path), InputFormat.PARQUET)


@pytest.mark.parametrize("names", [("a", "b"), ("b", "a")])
def test_headers_are_read_though_some_files_have_none(
    names: tuple[str, str], spark: Any, tmp_path: Path
) -> None:
    """Whether a column may be NULL, and columns of no concern, make no difference."""
    kind = pa.list_(pa.struct([("name", pa.string()), ("value", pa.binary())]))
    headers = pa.array([[("n", b"x")], None], kind)
    folder = tmp_path / "{in} %41"
    for name, table in zip(
        names, (columns(mine=[1, 2]), columns(headers=headers, mine=["", ""])), strict=True
    ):
        (folder / f"topic={name}").mkdir(parents=True)
        schema = table.schema.set(2, pa.field("offset", pa.int64(), nullable=name == "a"))
        parquet.write_table(table.cast(schema).drop_columns("topic"), folder / f"topic={name}" / "in.parquet")
    read = read_files(spark, str(folder).replace("{", r"\{"), InputFormat.PARQUET).frame
    (batch,) = read.toArrow().combine_chunks().to_batches()
    found = {(each.topic, each.offset): each.headers for each in Columns().read(batch)}
    assert found == {(names[0], 0): (), (names[0], 1): (), (names[1], 0): (("n", b"x"),), (names[1], 1): ()}


@pytest.mark.parametrize(
    "damaged",
    [
        b"no Parquet, and long enough",
        b"short",
        b"PAR1 the length of the footer is too large \xff\xff\x00\x00PAR1",
    ],
    ids=["other", "short", "cut off"],
)
def test_a_file_among_others_that_is_no_parquet_is_named(damaged: bytes, spark: Any, tmp_path: Path) -> None:
    for name in "acde":
        parquet.write_table(columns(), tmp_path / f"{name}.parquet")
    (tmp_path / "b.parquet").write_bytes(damaged)
    with pytest.raises(ConfigError, match=r"/b\.parquet is not Parquet"):
        read_files(spark, str(tmp_path), InputFormat.PARQUET)


PAIRS = "array<struct<key: string, value: binary>>"
OF_TOPICS = {
    "topic": "string",
    "partition": "int",
    "offset": "bigint",
    "timestamp": "timestamp",
    "key": "binary",
    "value": "binary",
}


@pytest.mark.parametrize(
    ("name", "kind", "wanted"),
    [
        ("topic", "int", "text"),
        ("partition", "double", "a whole number"),
        ("offset", "decimal(20,2)", "a whole number"),
        ("timestamp", "string", "a number of milliseconds"),
        ("timestamp", "date", "a number of milliseconds"),
        ("timestamp", "double", "a number of milliseconds"),
        ("key", "int", "bytes or text"),
        ("value", "struct<a:int>", "bytes or text"),
        ("headers", "map<string,binary>", "array<struct<key:string,value:binary>>"),
        ("headers", "array<struct<value:binary,key:string>>", "array<struct<key:string,value:binary>>"),
        ("headers", "array<struct<key:string,value:int>>", "array<struct<key:string,value:binary>>"),
    ],
)
def test_a_column_of_another_type_is_named(name: str, kind: str, wanted: str, spark: Any) -> None:
    columns = OF_TOPICS | {name: kind}
    frame = spark.createDataFrame([], ", ".join(f"{each} {of}" for each, of in columns.items()))
    with pytest.raises(
        ConfigError, match=re.escape(f"backfill.input: the column {name} is {kind}")
    ) as caught:
        as_records(frame)
    assert wanted in str(caught.value)


@pytest.mark.parametrize(
    "changed",
    [
        {},
        {"headers": PAIRS},
        {"headers": "array<struct<name: string, value: string>>"},
        {"partition": "string", "offset": "smallint"},
        {"offset": "decimal(20,0)", "timestamp": "timestamp_ntz"},
        {"timestamp": "bigint", "key": "void", "headers": "void"},
    ],
)
def test_columns_that_are_as_good_are_read(changed: dict[str, str], spark: Any) -> None:
    columns = OF_TOPICS | changed
    frame = as_records(spark.createDataFrame([], ", ".join(f"{each} {of}" for each, of in columns.items())))
    wanted = spark.createDataFrame([], RECORDS)
    assert [(each.name, each.dataType) for each in frame.schema] == [
        (each.name, each.dataType) for each in wanted.schema
    ]


@pytest.mark.parametrize(
    ("name", "kind", "cell"),
    [
        ("partition", "string", "p0"),
        ("partition", "bigint", 5_000_000_000),
        ("offset", "decimal(20,0)", decimal.Decimal(10**19)),
    ],
)
def test_a_number_that_does_not_fit_is_refused_without_its_value(
    name: str, kind: str, cell: object, spark: Any
) -> None:
    row = {
        "topic": "t",
        "partition": 0,
        "offset": 0,
        "timestamp": None,
        "key": None,
        "value": None,
        name: cell,
    }
    schema = ", ".join(f"{each} {of}" for each, of in (OF_TOPICS | {name: kind}).items())
    (batch,) = as_records(spark.createDataFrame([tuple(row.values())], schema)).toArrow().to_batches()
    with pytest.raises(Malformed, match=f"{name}: the column is NULL, or not an integer$"):
        list(Columns().read(batch))


def test_an_invalid_line_is_reported_with_its_file(spark: Any, tmp_path: Path) -> None:
    source = tmp_path / "in.jsonl"
    source.write_bytes(format_record(captured(DDL)[0], 0) + b"{\n")
    config = config_for(str(source), str(tmp_path / "out"), errors={"decode": "skip"})
    with pytest.raises(Exception, match="relay-stopped") as caught:
        from_files(spark, config)
    found = explained(caught.value)
    assert isinstance(found, RecordStopped)
    assert (found.exit_status, "in.jsonl, a line after byte " in str(found)) == (2, True)


def test_what_is_read_is_not_written(spark: Any, tmp_path: Path) -> None:
    inside = tmp_path / "data" / "in"
    inside.mkdir(parents=True)
    (inside / "a.jsonl").write_bytes(b"")
    for source, output in (
        (f"{inside}/", inside),
        (inside.as_uri(), inside),
        (inside, tmp_path / "data"),
        (inside, inside / "out"),
        (f"/elsewhere, {tmp_path}/da*/in", inside),
    ):
        config = config_for(str(source), str(output))
        with pytest.raises(ConfigError, match="one contains the other"):
            from_files(spark, config)
    kept = config_for(
        "/elsewhere", str(tmp_path / "data"), backfill={"schema_input": str(inside / "a.jsonl")}
    )
    with pytest.raises(ConfigError, match="schema_input"):
        check_apart(spark, kept.backfill)
    check_apart(spark, config_for(str(inside), f"{inside}-out").backfill)


def test_captures_that_overlap_are_read_whole(spark: Any, tmp_path: Path) -> None:
    """Repeats are counted and written, at their offsets; also where two tasks begin with the
    same record.
    """
    records = captured(DDL)
    lines = [format_record(each, each.offset) for each in records]
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.jsonl").write_bytes(b"".join(lines))
    # So large that no task reads it together with the other one.
    with gzip.open(tmp_path / "in" / "b.jsonl.gz", "wb", compresslevel=0) as packed:
        packed.write(b"".join(lines[:-5]))
    config = config_for(str(tmp_path / "in"), str(tmp_path / "out"), route={"to": "ticdc-debezium"})
    counts = from_files(spark, config)
    read = sorted([*records, *records[:-5]], key=lambda each: each.offset)
    partition = f"{records[0].topic}/0"
    assert counts.ranges == {partition: (records[0].offset, records[-1].offset, len(read))}
    assert counts.read == len(read)
    expected = relayed(config, read)
    assert lines_in(tmp_path / "out") == expected
    assert counts.written == {partition: len(expected[partition])}


def test_files_have_no_latest(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").touch()
    (problem,) = input_problems(config_for(str(tmp_path), "out", source={"start": "latest"}))
    assert problem.path == "source.start"
    assert not input_problems(config_for(str(tmp_path), "out"))


@pytest.mark.parametrize(
    ("path", "is_missing"),
    [
        ("{0}/in.jsonl", False),
        ("file:{0}/in.jsonl", False),
        ("file://{0}/in.jsonl", False),
        ("{0}", False),
        ("{0}/nope", True),
        ("file:{0}/nope", True),
        ("file://{0}/nope", True),
        # Nothing in these is read.
        ("{0}/empty", True),
        ("{0}/hidden", True),
        # Only Spark knows what these are.
        ("{0}/no*pe", False),
        ("s3a://nope/nope", False),
        ("file://host/nope%20", False),
    ],
)
def test_inputs_that_are_missing_are_seen_without_spark(path: str, is_missing: bool, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").touch()
    (tmp_path / "empty" / "topic=t").mkdir(parents=True)
    (tmp_path / "hidden").mkdir()
    (tmp_path / "hidden" / "_SUCCESS").touch()
    named = path.format(tmp_path)
    found = [(each.path, each.message) for each in input_problems(config_for(named, "out"))]
    assert found == [("backfill.input", f"no file to read in {named}")] * is_missing


def run(
    config: Any, records: list[ConsumerRecord], bounds: Bounds | None = None
) -> tuple[list[Any], BackfillCounts]:
    """One task, without Spark."""
    counted: list[Parts] = []
    catalog: Any = SimpleNamespace(value=empty_catalog())
    adds: Any = SimpleNamespace(add=counted.append)
    translate = Translate(config, Columns(), catalog, adds, bounds or Bounds(), Terms())
    rows = [row for batch in translate([record_batch(records)]) for row in batch.to_pylist()]
    (found,) = counted
    return rows, next(iter(found.values()))


def test_what_the_bounds_leave_out_is_counted() -> None:
    """A record without a time is before every time."""
    times = [-1, 10, 20]
    records = [
        msgspec.structs.replace(each, timestamp_ms=ms) for each, ms in zip(captured(DDL), times, strict=False)
    ]
    _, counts = run(config_for("in", "out"), records, Bounds(since_ms=10, before_ms=20))
    assert (counts.read, counts.left_out) == (1, 2)
    _, counts = run(config_for("in", "out"), records, Bounds(before_ms=0))
    assert (counts.read, counts.left_out) == (1, 2)
    _, counts = run(config_for("in", "out"), records, Bounds(since_ms=30))
    assert (counts.read, counts.left_out) == (0, 3)


@pytest.mark.parametrize(
    ("output", "is_refused"),
    [
        ({"output_format": "parquet"}, True),
        ({"output_layout": "date"}, True),
        ({"output_format": "json-lines"}, False),
        ({"output_format": "parquet", "output": ""}, False),
    ],
)
def test_a_time_that_spark_cannot_hold_is_refused_with_its_place(
    output: dict[str, str], is_refused: bool
) -> None:
    """Nanoseconds in place of milliseconds, say. The relay's own times have 64 bits."""
    records = [
        msgspec.structs.replace(row(at, "t"), timestamp_ms=ms)
        for at, ms in enumerate((-1, 0, LATEST_MS, LATEST_MS + 1))
    ]
    config = config_for("in", "out", backfill=output)
    assert len(run(config, records[:-1])[0]) == 3
    if is_refused:
        with pytest.raises(Stopped, match=r"topic/0/3.*its timestamp is not in milliseconds"):
            run(config, records)
    else:
        assert [each["timestamp_ms"] for each in run(config, records)[0]] == [
            each.timestamp_ms for each in records
        ]


def test_a_record_of_which_nothing_is_written_is_counted_for_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    """Its tables are not those of the row behind it, and the last one of a task counts."""
    records = [statement(0, "one"), row(1, "two"), statement(2, "three")]
    translate = Translator.translate
    monkeypatch.setattr(Translator, "translate", lambda own, each: translate(own, each)[: each.offset % 2])
    rows, counts = run(config_for("in", "out", backfill={"output_layout": "table"}), records)
    assert [(each["source_offset"], each["database"], each["table"]) for each in rows] == [(1, "d", "two")]
    assert counts.tables == {
        "d.one": {"schema-change": 1},
        "d.two": {"insert": 1},
        "d.three": {"schema-change": 1},
    }


def statement(offset: int, table: str) -> ConsumerRecord:
    return record(
        row_message({}, type="QUERY", isDdl=True, table=table, sql=f"OPTIMIZE TABLE {table}", data=None),
        offset,
    )


def row(offset: int, table: str) -> ConsumerRecord:
    return record(row_message({"id": "int"}, {"id": "1"}, table=table), offset)


@pytest.mark.parametrize("passed_over", ["_in.jsonl", "2024/01/in.jsonl"])
def test_files_that_spark_would_pass_over_are_named(passed_over: str, spark: Any, tmp_path: Path) -> None:
    file = tmp_path / "data" / passed_over
    file.parent.mkdir(parents=True)
    file.write_bytes(b"")
    (tmp_path / "data" / "in.jsonl").write_bytes(b"")
    named = str(file if passed_over.startswith("_") else tmp_path / "data")
    with pytest.raises(ConfigError, match=f"ignore .*{passed_over}"):
        read_files(spark, named, InputFormat.JSON_LINES)


def test_a_pattern_that_asks_for_hidden_files_is_refused(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "_part-0.jsonl").write_bytes(b"")
    with pytest.raises(ConfigError, match=r"ignore .*_part-0"):
        read_files(spark, f"{tmp_path}/_part*", InputFormat.JSON_LINES)


@pytest.mark.parametrize("named", [" , ", "empty", "empty/"])
def test_an_input_that_names_nothing_is_refused(named: str, spark: Any, tmp_path: Path) -> None:
    """An output of an earlier run would be replaced by nothing."""
    (tmp_path / "empty").mkdir()
    (tmp_path / "empty" / "_SUCCESS").write_bytes(b"")
    path, said = (f"{tmp_path}/{named}", "no file") if "empty" in named else (named, "has no path")
    for file_format in (InputFormat.JSON_LINES, InputFormat.PARQUET):
        with pytest.raises(ConfigError, match=f"backfill.input: {said}"):
            read_files(spark, path, file_format)


def test_hidden_files_beside_others_and_folders_with_names_are_no_matter(spark: Any, tmp_path: Path) -> None:
    folder = tmp_path / "with blank" / "topic=a%b" / "partition=0"
    folder.mkdir(parents=True)
    for name in ("part-0.txt", "_SUCCESS", ".part-0.txt.crc"):
        (folder / name).write_bytes(b"")
    assert read_files(spark, str(tmp_path / "with blank"), InputFormat.JSON_LINES).frame.count() == 0


def test_a_pattern_passes_over_hidden_files_and_names_no_place_to_write(spark: Any, tmp_path: Path) -> None:
    (tmp_path / "export").mkdir()
    for name in ("_SUCCESS", "a.jsonl"):
        (tmp_path / "export" / name).write_bytes(b"")
    assert read_files(spark, f"{tmp_path}/export/*", InputFormat.JSON_LINES).frame.count() == 0
    with pytest.raises(ConfigError, match=r"backfill.output: contains \\*"):
        check_locations(spark, config_for(str(tmp_path), f"{tmp_path}/o*").backfill)


@pytest.mark.parametrize("file_format", [InputFormat.JSON_LINES, InputFormat.PARQUET])
@pytest.mark.parametrize("pattern", ["", "/day=*/in.*"], ids=["folder", "pattern"])
def test_large_folders_take_no_more_calls_into_java(
    file_format: InputFormat, pattern: str, spark: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A call for each file would take minutes for a large folder."""
    client = spark.sparkContext._gateway._gateway_client
    send, calls = client.send_command, 0

    def counting(command: str, *given: Any, **named: Any) -> Any:
        nonlocal calls
        # Those that release objects come whenever Python collects garbage, also that of the tests before.
        calls += not command.startswith(MEMORY_COMMAND_NAME)
        return send(command, *given, **named)

    monkeypatch.setattr(client, "send_command", counting)
    found = []
    for number in (1, 40):
        folder = tmp_path / str(number)
        for at in range(number):
            put(folder / f"day={at}" / "in.x")
            put(folder / f"day={at}" / "_hidden")
            if file_format is InputFormat.PARQUET:
                parquet.write_table(columns(), folder / f"day={at}" / "in.x")
        before = calls
        records = read_files(spark, f"{folder}{pattern}", file_format)
        with pytest.raises(ConfigError, match="other files than records"):
            check_folder(spark, str(folder), OutputLayout.TOPIC)
        found.append(calls - before)
        assert len(files_read(spark, records.frame)) == number
    assert found[1] <= found[0] + 10


def test_a_few_tasks_list_the_paths_of_a_pattern(spark: Any, tmp_path: Path) -> None:
    """A task for each path would take minutes for a large folder."""
    for at in range(100):
        put(tmp_path / f"{at}.jsonl")
    context, group, name = (
        spark.sparkContext,
        "listing",
        "spark.sql.sources.parallelPartitionDiscovery.threshold",
    )
    before = spark.conf.get(name)
    spark.conf.set(name, 32)
    context.setJobGroup(group, "")
    try:
        read_files(spark, f"{tmp_path}/*", InputFormat.JSON_LINES)
    finally:
        spark.conf.set(name, before)
        context.setLocalProperty("spark.jobGroup.id", None)
    tracker = context.statusTracker()
    (job,) = tracker.getJobIdsForGroup(group)
    (stage,) = tracker.getJobInfo(job).stageIds
    assert tracker.getStageInfo(stage).numTasks == 64


def test_files_of_any_file_system_are_listed(spark: Any, tmp_path: Path) -> None:
    """Those of this machine are listed without Hadoop, with the same result."""
    names = ["a", "b c/%41", "d/e/_f", "d/.g", "d/.h.crc"]
    for name in names:
        put(tmp_path / name)
    folder, system = hadoop_path(spark, str(tmp_path))
    local = files_below(spark, folder, system)

    class OfOtherScheme:
        """The same file system, as if it were that of another machine."""

        def getUri(self) -> Any:  # noqa: N802 - Hadoop's name
            """Not that of this machine's files."""
            return SimpleNamespace(getScheme=lambda: "other")

        def __getattr__(self, name: str) -> Any:
            return getattr(system, name)

    assert sorted(files_below(spark, folder, OfOtherScheme())) == sorted(local)
    assert sorted(local) == sorted(f"file:{tmp_path}/{name}" for name in names[:-1])
    file, system = hadoop_path(spark, str(tmp_path / "a"))
    assert files_below(spark, file, system) == [f"file:{tmp_path}/a"]
