"""`translate` and `definitions` over DataFrames: the bytes are those of `relay translate` and of the job, on
classic Spark and over Spark Connect, in a batch and in a stream.
"""

from __future__ import annotations

import asyncio
import json
import re
import subprocess
import sys
from collections import Counter
from collections.abc import Sequence
from inspect import signature
from pathlib import Path
from typing import Any, NamedTuple

import msgspec
import pyarrow as pa
import pytest
from docs.test_documentation import blocks
from fake_registry import FakeRegistry, serving
from spark.backfills import config_for, lines_in
from spark.test_registries import of_producer
from support import CANAL, DATA, OPEN, TICDC, captured

import spark_backfill
from relay import ConsumerRecord
from relay.config.keys import SchemaRegistryConfig
from relay.config.registries import resolver_of
from relay.config.wiring import translator_of
from relay.io.record_lines import format_record, parse_record
from relay.model.errors import ConfigError
from spark_backfill import definitions, translate
from spark_backfill.arguments import Registries, config_of, without_logins
from spark_backfill.frames import RECORDS, record_batch
from spark_backfill.job import from_files
from spark_backfill.task_errors import error_of_task

ROOT = Path(__file__).parent.parent.parent
DDL_FILE = "ticdc/canal-json.tidb-extension/10_ddl"
ROWS_FILE = "ticdc/canal-json.tidb-extension/09_dml"
SPREAD_FILE = "ticdc/canal-json.3-partitions/10_ddl"
KAFKA_COLUMNS = "key", "value", "topic", "partition", "offset", "timestamp"
RESULT = [
    *("topic", "partition", "key", "value", "headers", "timestamp"),
    *("source_topic", "source_partition", "source_offset", "number"),
]
#: The lines of each `topic/partition`, without offsets, in any order.
Lines = dict[str, Counter[bytes]]


class Route(NamedTuple):
    source: str
    target: str
    file: str
    to_options: dict[str, str] | None = None
    headers: bool = False


ROUTES = [
    Route(TICDC, "debezium-json", DDL_FILE),
    Route(TICDC, "canal-protobuf", ROWS_FILE),
    Route(TICDC, "ticdc-debezium", SPREAD_FILE),
    Route("ticdc-simple-avro", CANAL, "ticdc/simple.avro/10_ddl"),
    Route("canal-protobuf", "maxwell-json", "mysql/canal-protobuf/09_dml"),
    Route(CANAL, TICDC, "mysql/canal-json/09_dml", {"enable-tidb-extension": "true"}, headers=True),
]


def of_kafka(spark: Any, records: Sequence[ConsumerRecord], *, headers: bool = True) -> Any:
    """Records as Spark's Kafka source gives them, each task with a few of every partition."""
    rows = pa.Table.from_batches([record_batch(records)])
    frame = spark.createDataFrame(rows, RECORDS).repartition(4)
    columns = [*KAFKA_COLUMNS, "0 AS timestampType", *(["headers"] if headers else [])]
    return frame.selectExpr("*", "timestamp_millis(timestamp_ms) AS timestamp").selectExpr(*columns)


def with_headers(records: Sequence[ConsumerRecord]) -> list[ConsumerRecord]:
    own = (("trace", b"\x00\xff"), ("empty", None), ("trace", b"2"))
    return [msgspec.structs.replace(each, headers=own) for each in records]


def lines_of(result: Any) -> Lines:
    """The records of a result."""
    found: Lines = {}
    for row in result.selectExpr("*", "unix_millis(timestamp) AS ms").collect():
        headers = tuple((each.key, None if each.value is None else bytes(each.value)) for each in row.headers)
        key, value = (None if part is None else bytes(part) for part in (row.key, row.value))
        record = ConsumerRecord(row.topic, row.partition, 0, row.ms, key, value, headers)
        found.setdefault(f"{row.topic}/{row.partition}", Counter())[format_record(record, 0)] += 1
    return found


def relayed(records: Sequence[ConsumerRecord], **tables: Any) -> Lines:
    """What `relay translate` writes."""
    translator = translator_of(config_for(**tables))
    translator.expect_partitions({(each.topic, each.partition) for each in records})
    found: Lines = {}
    for each in records:
        for out in translator.translate(each):
            found.setdefault(f"{out.topic}/{out.partition}", Counter())[format_record(out, 0)] += 1
    return found


@pytest.mark.parametrize("route", ROUTES, ids=lambda route: f"{route.file} to {route.target}")
def test_every_byte_is_the_relays(route: Route, spark: Any) -> None:
    records = captured(route.file)
    if route.headers:
        records = with_headers(records)
    options = route.to_options or {}
    df = of_kafka(spark, records, headers=route.headers)
    ddl = definitions(df, source=route.source)
    result = translate(df, source=route.source, target=route.target, target_options=options, ddl=ddl)
    assert result.columns == RESULT
    expected = relayed(records, route={"from": route.source, "to": route.target, "to_options": options})
    assert expected
    assert lines_of(result) == expected


def test_every_byte_is_the_jobs(spark: Any, tmp_path: Path) -> None:
    """Order as well: the columns of the source give it. The definitions are a table that was saved, with
    every record twice.
    """
    path = DATA / f"{DDL_FILE}.jsonl"
    route = {"from": TICDC, "to": "debezium-json"}
    from_files(spark, config_for(str(path), str(tmp_path / "out"), route=route))
    df = of_kafka(spark, captured(DDL_FILE))
    definitions(df, source=TICDC).write.parquet(str(tmp_path / "ddl"))
    ddl = spark.read.parquet(str(tmp_path / "ddl"))
    rows = (
        translate(df, source=TICDC, target="debezium-json", ddl=ddl.union(ddl)).orderBy(*RESULT[6:]).collect()
    )
    written: dict[str, list[tuple[int, str, bytes, bytes]]] = {}
    for partition, lines in lines_in(tmp_path / "out").items():
        found = map(json.loads, lines)
        written[partition] = [(each["offset"], each["topic"], each["key"], each["value"]) for each in found]
    ours: dict[str, list[tuple[int, str, bytes, bytes]]] = {}
    for row in rows:
        made = ours.setdefault(f"{row.topic}/{row.partition}", [])
        key, value = (None if part is None else bytes(part).decode() for part in (row.key, row.value))
        made.append((len(made), row.topic, key, value))  # type: ignore[arg-type] # key and value are there
    assert ours == written


def test_rows_are_read_with_the_definitions_given(spark: Any) -> None:
    """Without the statements in the DataFrame: only `ddl` has them. Without `ddl`, types are inferred."""
    records = captured(ROWS_FILE)
    df = of_kafka(spark, records)
    ddl = definitions(df, source=TICDC)
    positions = {row.offset for row in ddl.collect()}
    rows = [each for each in records if each.offset not in positions]
    given: dict[str, Any] = {"source": TICDC, "target": "debezium-json", "with_counts": True}
    inferred = []
    for known in (ddl, None):
        made = translate(of_kafka(spark, rows), ddl=known, **given).where("counts IS NOT NULL").collect()
        inferred.append(sum(sum(row.counts.inferred_tables.values()) for row in made))
    assert positions
    assert inferred[0] == 0 < inferred[1]


def test_failed_records_are_rows_with_an_error(spark: Any) -> None:
    records = with_headers(captured(ROWS_FILE))
    broken = msgspec.structs.replace(records[7], value=b'{"secret":')
    df = of_kafka(spark, [*records[:7], broken, *records[8:]])
    given: dict[str, Any] = {"source": TICDC, "target": CANAL, "ddl": definitions(df, source=TICDC)}
    result = translate(df, on_error="column", **given)
    assert result.columns == [*RESULT, "error"]
    (failed,) = result.where("error IS NOT NULL").collect()
    assert failed.error.asDict() == {
        "code": "decode.malformed",
        "protocol": TICDC,
        "path": "",
        "reason": failed.error.reason,
    }
    assert failed.error.reason
    assert "secret" not in failed.error.reason
    assert (failed.topic, bytes(failed.value), failed.number) == (None, broken.value, 0)
    assert (failed.source_topic, failed.source_partition, failed.source_offset) == broken.position
    assert failed.headers[0].key == "trace"
    others = translate(df, on_error="skip", **given)
    assert others.columns == RESULT
    assert lines_of(result.where("topic IS NOT NULL")) == lines_of(others)


def test_dead_letters_are_the_jobs(spark: Any, tmp_path: Path) -> None:
    records = captured(ROWS_FILE)
    records[7] = msgspec.structs.replace(records[7], value=b"{")
    path = tmp_path / "in.jsonl"
    path.write_bytes(b"".join(format_record(each, each.offset) for each in records))
    route = {"from": TICDC, "to": CANAL}
    letters = {"decode": "dead-letter", "dead_letter_topic": "letters"}
    from_files(spark, config_for(str(path), str(tmp_path / "out"), route=route, errors=letters))
    (line,) = lines_in(tmp_path / "out")["letters/0"]
    df = of_kafka(spark, records)
    given: dict[str, Any] = {"ddl": definitions(df, source=TICDC), "dead_letter_topic": "letters"}
    result = translate(df, source=TICDC, target=CANAL, on_error="dead-letter", group_id="g", **given)
    assert list(lines_of(result.where("topic = 'letters'"))["letters/0"]) == [line + b"\n"]


def test_schemas_are_those_of_the_registries(spark: Any) -> None:
    """The driver asks; a batch of a stream is a batch. Tasks get no login."""
    records = captured("mysql/debezium.avro/02_numeric")
    reading = {"field.name.adjustment.mode": "avro_unicode"}
    route = {"from": "debezium-avro", "to": "debezium-avro", "from_options": reading}
    with serving(of_producer()) as source, serving(FakeRegistry()) as target:
        own = {"urls": [source.url], "allow_http": True, "username": "u", "password": "p"}
        other = {"urls": [target.url], "allow_http": True}
        df = of_kafka(spark, records)
        given: dict[str, Any] = {"source": "debezium-avro", "source_options": reading, "source_registry": own}
        ddl = definitions(df, **given)
        found = lines_of(translate(df, target="debezium-avro", target_registry=other, ddl=ddl, **given))
        asked = Counter(source.asked)
        config = config_for(route=route, source={"schema_registry": own}, target={"schema_registry": other})
        translator, resolver = translator_of(config), resolver_of(config)
        expected: Lines = {}
        for each in records:
            for out in resolver.translate(translator, each):
                lines = expected.setdefault(f"{out.topic}/{out.partition}", Counter())
                lines[format_record(out, 0)] += 1
        with pytest.raises(ConfigError, match=r"^df: is a stream"):
            translate(spark.readStream.format("rate").load().selectExpr(*_AS_RECORDS), target=CANAL, **given)
    assert found == expected
    # `definitions` and `translate` ask once each, whatever the number of tasks.
    assert set(asked.values()) == {2}


_AS_RECORDS = [
    *("'t' AS topic", "0 AS partition", "value AS offset", "timestamp"),
    *("CAST(NULL AS binary) AS key", "CAST(NULL AS binary) AS value"),
]


def test_tasks_get_no_logins() -> None:
    registries = Registries(
        {"urls": ["https://a"], "username": "u", "password": "secret"}, {"urls": "https://b"}
    )
    route = {"from": "debezium-avro", "to": "debezium-avro"}
    config = config_of(route, {"topic": "t"}, registries)
    sent = without_logins(config)
    assert config.source.schema_registry.password.get_secret_value() == "secret"
    assert sent.source.schema_registry == SchemaRegistryConfig(urls=("https://a",))
    assert (sent.target.topic, sent.target.schema_registry.urls) == ("t", ("https://b",))


def test_a_query_stops_at_a_record_by_default(spark: Any) -> None:
    df = of_kafka(spark, [ConsumerRecord("t", 0, 5, 0, None, b"{")])
    result = translate(df, source=TICDC, target=CANAL)
    with pytest.raises(Exception, match="relay-stopped") as raised:
        result.collect()
    error = error_of_task(str(raised.value))
    assert error is not None
    assert str(error).startswith("t/0/5: decode.malformed")


def test_counters_are_those_of_the_job(spark: Any, tmp_path: Path) -> None:
    """Every task has a row; rows of counters and records do not mix."""
    path = DATA / f"{DDL_FILE}.jsonl"
    route = {"from": TICDC, "to": "maxwell-json"}
    counts = from_files(spark, config_for(str(path), str(tmp_path / "out"), route=route))
    df = of_kafka(spark, captured(DDL_FILE))
    result = translate(
        df, source=TICDC, target="maxwell-json", ddl=definitions(df, source=TICDC), with_counts=True
    )
    rows = [row.counts for row in result.where("topic IS NULL").collect()]
    assert len(rows) == 4
    assert sum(row.records_read for row in rows) == counts.read
    assert sum(row.records_written for row in rows) == result.where("topic IS NOT NULL").count()
    for column, expected in (("events", counts.events), ("lost", counts.lost)):
        found = Counter[str]()
        for row in rows:
            found.update(row[column])
        assert found == expected
    assert counts.lost
    assert {each for row in rows for each in row.unwritten_statements} == counts.unwritten.keys()


def test_failed_records_are_counted(spark: Any) -> None:
    df = of_kafka(spark, [ConsumerRecord("t", 0, at, 0, None, b"{") for at in range(5)])
    for policy in ("skip", "column"):
        result = translate(df, source=TICDC, target=CANAL, on_error=policy, with_counts=True)
        rows = [row.counts for row in result.where("counts IS NOT NULL").collect()]
        assert sum(row.failed.get("decode.malformed", 0) for row in rows) == 5
        assert sum(row.records_written for row in rows) == 0


def test_a_stream_is_translated(spark: Any, tmp_path: Path) -> None:
    """Steps of a stream over files; `definitions` of the earlier records, which are saved."""
    records = with_headers(captured(DDL_FILE))
    df = of_kafka(spark, records)
    ddl, folder = definitions(df, source=TICDC), str(tmp_path / "in")
    df.write.parquet(folder)
    stream = spark.readStream.schema(df.schema).option("maxFilesPerTrigger", 1).parquet(folder)
    result = translate(stream, source=TICDC, target="debezium-json", ddl=ddl)
    assert result.isStreaming
    writer = result.writeStream.option("checkpointLocation", str(tmp_path / "checkpoint"))
    query = writer.trigger(availableNow=True).start(str(tmp_path / "out"), format="parquet")
    query.awaitTermination()
    assert lines_of(spark.read.parquet(str(tmp_path / "out"))) == relayed(
        records, route={"from": TICDC, "to": "debezium-json"}
    )
    found = definitions(stream, source=TICDC)
    assert found.isStreaming
    with pytest.raises(ConfigError, match=r"^ddl: is a stream"):
        translate(df, source=TICDC, target=CANAL, ddl=found)
    with pytest.raises(ConfigError, match=r"^source_partitions: is missing"):
        translate(stream, source=TICDC, target="ticdc-debezium")
    translate(stream, source=TICDC, target="ticdc-debezium", source_partitions={"t": 3})


@pytest.mark.kafka
async def test_the_documented_example_reads_and_writes_topics(spark: Any, kafka: Any) -> None:
    """Spark's sink takes the result as it is."""
    source, target = await kafka.topic(1), await kafka.topic(1)
    made = [msgspec.structs.replace(each, topic=source) for each in with_headers(captured(DDL_FILE))]
    await kafka.produce(source, made)
    records = await kafka.read(source, len(made))
    (example, *_) = blocks(ROOT / "docs/notebooks.md", "python")
    names = {
        "broker:9092": kafka.bootstrap_servers,
        '"orders"': repr(source),
        '"orders.debezium"': repr(target),
    }
    for name, real in names.items():
        assert name in example
        example = example.replace(name, real)
    await asyncio.to_thread(exec, example, {"spark": spark})
    translator = translator_of(
        config_for(route={"from": TICDC, "to": "debezium-json"}, target={"topic": target})
    )
    expected = [out for record in records for out in translator.translate(record)]
    written = await kafka.read(target, len(expected))
    assert expected
    assert [(each.key, each.value, each.headers) for each in written] == [
        (each.key, each.value, each.headers) for each in expected
    ]


WRONG: dict[str, dict[str, Any]] = {
    "source": {"source": "ticdc-canal"},
    "target": {"target": "ogg-json"},
    "source_options.enable-tidb": {"source_options": {"enable-tidb": True}},
    "target_options.max-batch-size": {"target": OPEN, "target_options": {"max-batch-size": 4}},
    "topic": {"topic": "{shop}"},
    "topics.0.match": {"topics": [{"topic": "x"}]},
    "partitions": {"partitions": "many"},
    "partition_by": {"partition_by": "column"},
    "watermarks": {
        "target_options": {"enable-tidb-extension": True},
        "source_options": {"enable-tidb-extension": True},
        "target": TICDC,
        "partitions": 3,
    },
    "include_tables": {"include_tables": ["orders"]},
    "exclude_events": {"exclude_events": ["inserts"]},
    "source_partitions": {"target": OPEN, "source_partitions": {"t": 0}},
    "on_error": {"on_error": "ignore"},
    "dead_letter_topic": {"on_error": "dead-letter"},
}


@pytest.mark.parametrize("argument", WRONG)
def test_an_error_names_its_argument(argument: str, spark: Any) -> None:
    df = of_kafka(spark, captured(ROWS_FILE)[:1])
    given: dict[str, Any] = {"source": TICDC, "target": CANAL} | WRONG[argument]
    with pytest.raises(ConfigError) as raised:
        translate(df, **given)
    assert [problem.path for problem in raised.value.problems] == [argument]


def test_an_error_names_a_wrong_frame(spark: Any) -> None:
    df = of_kafka(spark, captured(ROWS_FILE)[:1])
    cases: list[tuple[str, Any, dict[str, Any]]] = [
        ("df", df.drop("offset"), {}),
        ("df", df.withColumn("headers", df.key), {}),
        ("df", [], {}),
        ("ddl", df, {"ddl": df}),
        ("ddl", df, {"ddl": "a table"}),
        ("dead_letter_topic", df, {"dead_letter_topic": "letters"}),
        ("source_registry.urls", df, {"source": "debezium-avro"}),
        ("target_registry.urls", df, {"target": "debezium-avro"}),
        ("target_registry.urls", df, {"target": "debezium-avro", "target_registry": {"urls": "ftp://x"}}),
        ("target_registry.url", df, {"target": "debezium-avro", "target_registry": {"url": "https://x"}}),
    ]
    for argument, frame, more in cases:
        with pytest.raises(ConfigError) as raised:
            translate(frame, **{"source": TICDC, "target": CANAL, **more})
        assert [problem.path for problem in raised.value.problems] == [argument]
    with pytest.raises(ConfigError, match=r"^source_registry.urls: "):
        definitions(df, source="debezium-avro")
    with pytest.raises(ConfigError, match=r"^df: has no column topic"):
        definitions(df.drop("topic"), source=TICDC)


def test_the_environment_changes_nothing(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Variables are for the command."""
    df = of_kafka(spark, captured(ROWS_FILE))
    given: dict[str, Any] = {"source": TICDC, "target": CANAL, "ddl": definitions(df, source=TICDC)}
    before = lines_of(translate(df, **given))
    monkeypatch.setenv("RELAY_ROUTE__TO", "maxwell-json")
    monkeypatch.setenv("RELAY_ROUTE__EXCLUDE_TABLES", "*.*")
    assert lines_of(translate(df, **given)) == before


def test_the_notebook_runs(spark: Any) -> None:
    cells = [each["source"] for each in notebook()["cells"] if each["cell_type"] == "code"]
    names: dict[str, Any] = {}
    for lines in cells:
        exec("".join(lines), names)  # noqa: S102 - our own notebook
    records = [
        parse_record(line)
        for line in (ROOT / "relay/demo/data/ticdc-canal-json.jsonl").read_bytes().splitlines()
    ]
    route = {"from": TICDC, "to": "debezium-json"}
    expected = relayed(records, route=route, target={"topic": "{topic}.debezium"})
    assert lines_of(spark.read.parquet(f"{names['folder']}/events")) == expected
    assert lines_of(spark.read.parquet(f"{names['folder']}/streamed")) == relayed(records, route=route)
    assert {row.source_offset for row in names["failed"].collect()} == {7}
    translator = translator_of(config_for(route=route))
    for each in records:
        translator.translate(each)
    losses = {row.loss: row[1] for row in names["losses"].collect()}
    assert losses == {str(what): count for what, count in translator.losses.items()}


def notebook() -> dict[str, Any]:
    found: dict[str, Any] = json.loads((ROOT / "docs/notebooks/translate.ipynb").read_text(encoding="utf-8"))
    return found


def test_the_page_has_the_code_of_the_notebook() -> None:
    """The first example is tested with topics. Outputs are not stored."""
    cells = [each for each in notebook()["cells"] if each["cell_type"] == "code"]
    code = "\n".join("".join(each["source"]) for each in cells)
    _, *examples = blocks(ROOT / "docs/notebooks.md", "python")
    assert len(examples) == 4
    assert [example for example in examples if example not in f"{code}\n"] == []
    assert [each["outputs"] for each in cells if each["outputs"]] == []


def test_the_page_has_every_argument_and_column(spark: Any) -> None:
    page = (ROOT / "docs/notebooks.md").read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    assert named >= set(signature(translate).parameters) - {"df"}
    assert named >= set(signature(definitions).parameters) - {"df"}
    df = of_kafka(spark, captured(ROWS_FILE)[:1])
    result = translate(df, source=TICDC, target=CANAL, on_error="column", with_counts=True)
    assert named >= {*result.columns, *definitions(df, source=TICDC).columns}
    assert named >= {*result.select("counts.*", "error.*").columns}


def test_a_client_without_py4j_has_the_functions() -> None:
    """As with the package pyspark-client, which has no JVM."""
    script = (
        "import sys, pyspark.sql.functions\n"
        "for name in [each for each in sys.modules if each.partition('.')[0] == 'py4j']: del sys.modules[name]\n"
        "sys.modules['py4j'] = None\n"
        "from spark_backfill import definitions, row_schemas, rows, translate\n"
    )
    ran = subprocess.run(
        [sys.executable, "-c", script], capture_output=True, text=True, timeout=100, check=False
    )
    assert (ran.returncode, ran.stderr) == (0, "")


def test_nothing_else_is_public() -> None:
    assert spark_backfill.__all__ == ["definitions", "row_schemas", "rows", "translate"]
    with pytest.raises(AttributeError, match="no attribute 'translator'"):
        spark_backfill.translator  # noqa: B018 - reading it must fail


@pytest.mark.slow
def test_spark_connect(spark_settings: dict[str, str], tmp_path: Path) -> None:
    """A server and a client of their own: a batch and a stream, and definitions that are a table."""
    df_records = captured(DDL_FILE)
    path = tmp_path / "in.arrow"
    with pa.OSFile(str(path), "wb") as file, pa.ipc.new_file(file, record_batch([]).schema) as out:
        out.write(record_batch(df_records))
    ran = subprocess.run(
        [sys.executable, "-W", "ignore", "-m", "spark.over_connect", str(path), str(tmp_path)],
        cwd=ROOT / "tests",
        capture_output=True,
        text=True,
        timeout=400,
        check=False,
    )
    assert ran.returncode == 0, ran.stderr[-4000:]
    expected = relayed(df_records, route={"from": TICDC, "to": "debezium-json"})
    for name in ("batch", "stream"):
        rows = pa.ipc.open_file(str(tmp_path / f"{name}.arrow")).read_all().to_pylist()
        assert lines_of_rows(rows) == expected
    assert json.loads(ran.stdout.splitlines()[-1]) == {
        "failed": ["decode.malformed"],
        "read": len(df_records),
        "versions": 4,
        "rows": [[3, "c", "30"], [5, "five", None]],
    }


def lines_of_rows(rows: list[dict[str, Any]]) -> Lines:
    """The records of a result that came as dictionaries."""
    found: Lines = {}
    for row in rows:
        headers = tuple((each["key"], each["value"]) for each in row["headers"])
        record = ConsumerRecord(
            row["topic"], row["partition"], 0, row["ms"], row["key"], row["value"], headers
        )
        found.setdefault(f"{row['topic']}/{row['partition']}", Counter())[format_record(record, 0)] += 1
    return found
