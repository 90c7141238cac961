"""`rows`: every value of the source, as the type of its column or as its exact text, and nothing else."""

from __future__ import annotations

import json
import re
import struct
from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, date, datetime
from decimal import Decimal
from inspect import signature
from pathlib import Path
from typing import Any

import msgspec
import pytest
from docs.test_documentation import blocks
from fake_registry import serving
from pyspark.sql.types import (
    BinaryType,
    DataType,
    DateType,
    DecimalType,
    DoubleType,
    FloatType,
    IntegralType,
    StringType,
    StructType,
    TimestampNTZType,
    TimestampType,
)
from spark.test_function import ROOT, of_kafka
from spark.test_registries import of_producer
from support import CANAL, DATA, TICDC, captured, protocol_of, reading_options, record, row_message

from relay import ConsumerRecord, Translator
from relay.catalog import Catalog
from relay.model.errors import ConfigError
from relay.model.events import ColumnType, DdlKind, RowChange, SchemaChange, TableId
from relay.mysql.types import parse_type
from spark_backfill import definitions, row_schemas, rows
from spark_backfill.arguments import Policies, config_of
from spark_backfill.dataframes import SentCatalog
from spark_backfill.frames import Columns, record_batch
from spark_backfill.row_reading import Chosen, ReadRows
from spark_backfill.row_types import exact_text, fit_of, spark_type
from spark_backfill.row_versions import versions_of
from spark_backfill.schema_pass import empty_catalog
from spark_backfill.task_errors import Stopped, error_of_task

RESULT = [
    *("op", "commit_ts", "event_time", "before", "after", "exact", "absent"),
    *("source_topic", "source_partition", "source_offset", "number"),
]
Image = dict[str, Any] | None
TABLE = TableId("d", "t")
PAGE = ROOT / "docs/rows.md"


# ---------------------------------------------------------------- types and values, without Spark


@pytest.mark.parametrize(
    ("mysql", "spark"),
    [
        ("tinyint", "tinyint"),
        ("tinyint(1)", "tinyint"),
        ("tinyint unsigned", "smallint"),
        ("smallint", "smallint"),
        ("smallint unsigned", "int"),
        ("mediumint", "int"),
        ("mediumint unsigned", "int"),
        ("int", "int"),
        ("int(10) unsigned zerofill", "bigint"),
        ("bigint", "bigint"),
        ("bigint unsigned", "decimal(20,0)"),
        ("bit(1)", "bigint"),
        ("bit(63)", "bigint"),
        ("bit(64)", "decimal(20,0)"),
        ("year", "int"),
        ("decimal(38,10)", "decimal(38,10)"),
        ("decimal(39,0)", "string"),
        ("float", "float"),
        ("double", "double"),
        ("date", "date"),
        ("datetime(6)", "timestamp_ntz"),
        ("timestamp", "timestamp"),
        ("time(3)", "string"),
        ("enum('a')", "string"),
        ("set('a')", "string"),
        ("json", "string"),
        ("vector(3)", "string"),
        ("varchar(9)", "string"),
        ("binary(9)", "binary"),
        ("longblob", "binary"),
        ("point", "binary"),
        ("uuid", "string"),
    ],
)
def test_types(mysql: str, spark: str) -> None:
    assert spark_type(parse_type(mysql)).simpleString() == spark


@pytest.mark.parametrize(
    ("mysql", "value", "text"),
    [
        ("bigint unsigned", 2**64 - 1, "18446744073709551615"),
        ("tinyint", 128, None),
        ("tinyint", -128, "-128"),
        ("bigint", 2**63, None),
        ("decimal(5,2)", Decimal("-999.99"), "-999.99"),
        ("decimal(5,2)", Decimal("1000.00"), None),
        ("decimal(5,2)", Decimal("0.001"), None),
        ("decimal(5,2)", Decimal("0.100"), "0.100"),
        ("decimal(38,0)", Decimal("1" * 38), "1" * 38),
        ("decimal(65,30)", Decimal("1" * 35 + "." + "2" * 30), "1" * 35 + "." + "2" * 30),
        ("float", 3.4028235e38, "3.4028235e+38"),
        ("float", 0.1, "0.1"),
        ("float", 1e-45, "1e-45"),
        ("float", 3.14159265358979, None),
        ("float", 1e39, None),
        ("double", 3.14159265358979, "3.14159265358979"),
        ("double", float("-inf"), "-Infinity"),
        ("double", 10**400, None),
        ("float", 10**400, None),
        ("date", "0000-00-00", None),
        ("date", "2009-11-31", None),
        ("date", "0000-01-01", None),
        ("date", "9999-12-31", "9999-12-31"),
        ("datetime", "2020-02-00 00:00:00", None),
        ("datetime", "2020-02-01 99:00:00", None),
        ("datetime(6)", "1000-01-01 00:00:00.000001", "1000-01-01 00:00:00.000001"),
        ("timestamp", "1970-01-01 00:00:01", "1970-01-01 00:00:01Z"),
        ("timestamp", "0000-00-00 00:00:00", None),
        ("time", "-838:59:59", "-838:59:59"),
        ("enum('a','b')", 2, "b"),
        ("enum('a','b')", 0, None),
        ("enum('a','b')", 3, None),
        ("enum", "label", "label"),
        ("set('a','b')", 3, "a,b"),
        ("set('a','b')", 0, ""),
        ("set('a','b')", 4, None),
        ("binary(1)", b"\xff", "ff"),
        ("binary(1)", "text", None),
        ("int", "text", None),
        ("varchar(9)", b"\xff", None),
    ],
)
def test_values(mysql: str, value: Any, text: str | None) -> None:
    kind = parse_type(mysql)
    assert fit_of(kind, spark_type(kind))(value) == text


def test_a_value_of_another_type_is_kept_if_it_is_the_same() -> None:
    """Rows without a definition have the types that their message declares."""
    fit = fit_of(ColumnType("varchar"), spark_type(parse_type("int")))
    assert fit("7") is None
    assert fit_of(parse_type("bigint"), spark_type(parse_type("tinyint")))(7) == "7"
    assert fit_of(parse_type("int"), spark_type(parse_type("double")))(7) == "7"
    assert fit_of(parse_type("bigint"), spark_type(parse_type("double")))(2**53 + 1) is None
    assert fit_of(parse_type("enum('a')"), spark_type(parse_type("int")))(1) is None
    assert [exact_text(value) for value in (1, 0.1, Decimal("1E+2"), b"\xff", "é")] == [
        *("1", "0.1", "100", "ff", "é")
    ]


# ---------------------------------------------------------------- captured records


#: Files of several producers, with the changes that the database itself has logged.
FILES = [
    "ticdc/canal-json.tidb-extension/01_all_types",
    "ticdc/open-protocol/04_strings_binary",
    "ticdc/open-protocol/06_zero_dates",
]


def truth(file: str) -> Iterator[tuple[str, list[dict[str, Any]]]]:
    """The tables of a workload, and their changes."""
    name = file.rpartition("/")[2]
    for table in json.loads((DATA / "truth" / f"{name}.json").read_text(encoding="utf-8")):
        yield f"{table['database']}.{table['table']}", table["changes"]


def in_order(result: Any) -> list[dict[str, Any]]:
    found: list[dict[str, Any]] = result.orderBy(*RESULT[7:]).toArrow().to_pylist()
    for row in found:
        row["exact"] = dict(row["exact"])
    return found


def expected_cell(text: Any, kind: DataType, exact: Any) -> Any:
    """A value of the truth as Spark's type, if there is no exact text for it."""
    if text is None or exact is not None:
        return None
    if isinstance(text, dict):
        return bytes.fromhex(text["hex"])
    assert not isinstance(kind, BinaryType)
    if isinstance(kind, FloatType):
        return struct.unpack("f", struct.pack("f", float(text)))[0]
    if isinstance(kind, TimestampType):
        return datetime.fromisoformat(text).replace(tzinfo=UTC)
    read = next(read for of, read in READS.items() if isinstance(kind, of))
    return read(text)


READS: dict[Any, Callable[[str], Any]] = {
    IntegralType: int,
    DecimalType: Decimal,
    DoubleType: float,
    DateType: date.fromisoformat,
    TimestampNTZType: datetime.fromisoformat,
    StringType: str,
}


def expected_image(
    cells: dict[str, Any] | None, schema: StructType, exact: dict[str, str], name: str
) -> Image:
    if cells is None:
        return None
    return {
        each.name: expected_cell(cells[each.name], each.dataType, exact.get(f"{name}.{each.name}"))
        for each in schema
    }


def unfit(cells: dict[str, Any] | None, schema: StructType, name: str) -> Iterator[tuple[str, str]]:
    """The values that Spark cannot hold: dates that are not in the calendar, and invalid labels."""
    for each in schema:
        text = (cells or {}).get(each.name)
        is_time = isinstance(each.dataType, DateType | TimestampNTZType | TimestampType)
        if is_time and text is not None:
            try:
                datetime.fromisoformat(text)
            except ValueError:
                yield f"{name}.{each.name}", text


@pytest.mark.parametrize("file", FILES)
def test_every_value_is_the_database_s(file: str, spark: Any) -> None:
    """In a session whose zone is not UTC: values, NULL, and what no type of Spark can hold."""
    source, options = protocol_of(file), reading_options(file)
    df = of_kafka(spark, captured(file)).cache()
    ddl = definitions(df, source=source, source_options=options).cache()
    schemas = row_schemas(ddl, source=source, source_options=options)
    spark.conf.set("spark.sql.session.timeZone", "Asia/Shanghai")
    count = 0
    try:
        for table, changes in truth(file):
            (schema,) = schemas[table]
            result = rows(df, source=source, source_options=options, table=table, ddl=ddl)
            assert result.columns == RESULT
            assert (result.schema["before"].dataType, result.schema["after"].dataType) == (schema, schema)
            found = [row for row in in_order(result) if row["op"] != "truncate"]
            for row, change in zip(found, changes, strict=True):
                expected = {name: change[name] for name in ("before", "after")}
                exact = dict(pair for name in expected for pair in unfit(expected[name], schema, name))
                assert exact.items() <= row["exact"].items()
                images = {
                    name: expected_image(expected[name], schema, row["exact"], name) for name in expected
                }
                assert {name: row[name] for name in expected} == images
                assert row["absent"] == []
                count += 1
    finally:
        spark.conf.unset("spark.sql.session.timeZone")
        df.unpersist()
        ddl.unpersist()
    assert count


# ---------------------------------------------------------------- the worker, without Spark

ROWS = "ticdc/canal-json.tidb-extension/09_dml"
DDL = "ticdc/canal-json.tidb-extension/10_ddl"


def learned(records: Sequence[ConsumerRecord], source: str = CANAL) -> Catalog:
    """The definitions in records."""
    translator = Translator.reader(source)
    translator.catalog = empty_catalog()
    for each in records:
        translator.inspect(each)
    return translator.catalog


def text_rows(
    records: Sequence[ConsumerRecord],
    catalog: Catalog,
    version: int = 1,
    on_error: str = "stop",
    source: str = CANAL,
    table: TableId = TABLE,
) -> list[dict[str, Any]]:
    """The rows of a worker."""
    config = config_of({"from": source, "to": "flat-json"}, {"topic": "{topic}"}, policies=Policies(on_error))
    work = ReadRows(config, Columns(), SentCatalog(catalog), chosen=Chosen(table, version - 1))
    found = [row for batch in work([record_batch(records)]) for row in batch.to_pylist()]
    return [row | {"exact": row["exact"] and dict(row["exact"])} for row in found]


def statement(sql: str, offset: int) -> ConsumerRecord:
    return record(
        {
            "id": 0,
            "database": "d",
            "table": "t",
            "isDdl": True,
            "type": "ALTER",
            "es": offset,
            "ts": 0,
            "sql": sql,
        },
        offset,
    )


def change(offset: int, types: dict[str, str], data: dict[str, Any], **more: Any) -> ConsumerRecord:
    return record(row_message(types, data, es=offset, **more), offset)


def names_and_types(catalog: Catalog) -> list[dict[str, str]]:
    found = versions_of(catalog, TABLE).columns
    return [{name: kind.simpleString() for name, kind in columns.items()} for columns in found]


def test_a_change_that_spark_s_types_take_is_no_new_version() -> None:
    catalog = learned(
        [
            statement("CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3), e ENUM('a'))", 0),
            statement("ALTER TABLE t ADD COLUMN first TINYINT UNSIGNED FIRST", 1),
            statement("ALTER TABLE t MODIFY COLUMN v VARCHAR(30), MODIFY COLUMN e ENUM('a', 'b')", 2),
            statement("ALTER TABLE t DROP COLUMN v", 3),
            statement("ALTER TABLE t ADD COLUMN v TEXT", 4),
            statement("DROP TABLE t", 5),
            statement("CREATE TABLE t (v TEXT, id INT)", 6),
        ]
    )
    assert names_and_types(catalog) == [{"id": "int", "v": "string", "e": "string", "first": "smallint"}]


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE t MODIFY COLUMN v BLOB",
        "ALTER TABLE t CHANGE COLUMN v w VARCHAR(3)",
        "ALTER TABLE t CHANGE COLUMN v V VARCHAR(3)",
        "ALTER TABLE t RENAME COLUMN v TO w",
        "ALTER TABLE t DROP COLUMN v, ADD COLUMN v INT",
        "ALTER TABLE t DROP COLUMN v, ADD COLUMN V VARCHAR(3)",
    ],
)
def test_other_changes_begin_a_version(sql: str) -> None:
    create = "CREATE TABLE t (id INT PRIMARY KEY, v VARCHAR(3))"
    catalog = learned([statement(create, 0), statement(sql, 1)])
    first, second = names_and_types(catalog)
    assert first == {"id": "int", "v": "string"}
    assert len(second) == 2
    assert second != first


def test_rows_have_the_version_of_their_position() -> None:
    records = [
        statement("CREATE TABLE t (id INT PRIMARY KEY, v INT)", 0),
        change(1, {"id": "int", "v": "int"}, {"id": "1", "v": "7"}),
        statement("ALTER TABLE t MODIFY COLUMN v BIGINT", 2),
        change(3, {"id": "int", "v": "bigint"}, {"id": "1", "v": "8"}),
        statement("ALTER TABLE t MODIFY COLUMN v INT", 4),
        change(5, {"id": "int", "v": "int"}, {"id": "1", "v": "9"}),
    ]
    catalog = learned(records)
    found = {version: text_rows(records, catalog, version) for version in (1, 2, 3)}
    assert {version: [row["after"] for row in made] for version, made in found.items()} == {
        1: [["1", "7"]],
        2: [["1", "8"]],
        3: [["1", "9"]],
    }
    assert [made[0]["version"] for made in found.values()] == [1, 2, 3]


def test_columns_that_an_image_lacks_are_absent() -> None:
    """They differ from NULL: dropped, not yet added, or left out of the message."""
    records = [
        statement("CREATE TABLE t (id INT PRIMARY KEY, old INT)", 0),
        change(1, {"id": "int", "old": "int"}, {"id": "1", "old": None}),
        statement("ALTER TABLE t DROP COLUMN old, ADD COLUMN new INT", 2),
        change(3, {"id": "int", "new": "int"}, {"id": "1", "new": "5"}),
        change(4, {"id": "int"}, {"id": "1"}, op="DELETE"),
    ]
    found = text_rows(records, learned(records))
    assert [(row["before"], row["after"], row["absent"]) for row in found] == [
        (None, ["1", None, None], ["after.new"]),
        (None, ["1", None, "5"], ["after.old"]),
        (["1", None, None], None, ["before.old", "before.new"]),
    ]


def test_nothing_of_a_row_without_a_definition_is_lost() -> None:
    """It comes before the first statement, with a column and with types of its own."""
    types = {"id": "bigint", "v": "varchar(9)", "more": "blob", "none": "int"}
    records = [
        change(0, types, {"id": "4294967296", "v": "text", "more": "\u00ff", "none": None}),
        statement("CREATE TABLE t (id INT PRIMARY KEY, v INT, w INT)", 1),
    ]
    (row,) = text_rows(records, learned(records))
    assert row["after"] == [None, None, None]
    assert row["exact"] == {
        "after.id": "4294967296",
        "after.v": "text",
        "after.more": "ff",
        "after.none": None,
    }
    assert row["absent"] == ["after.w"]


def test_a_statement_that_empties_the_table_is_a_row() -> None:
    records = [
        statement("CREATE TABLE t (id INT PRIMARY KEY)", 0),
        statement("TRUNCATE TABLE t", 1),
        statement("TRUNCATE TABLE other", 2),
        statement("DROP TABLE other, t", 3),
        statement("CREATE TABLE t (id INT PRIMARY KEY)", 4),
        statement("DROP DATABASE d", 5),
    ]
    found = text_rows(records, learned(records))
    assert [(row["op"], row["source_offset"], row["before"], row["after"]) for row in found] == [
        ("truncate", 1, None, None),
        ("truncate", 3, None, None),
        ("truncate", 5, None, None),
    ]


def test_several_rows_of_a_record_are_numbered() -> None:
    types = {"id": "int"}
    records = [
        statement("CREATE TABLE t (id INT PRIMARY KEY)", 0),
        record(row_message(types, {"id": "1"}, {"id": "2"}, es=1), 1),
    ]
    found = text_rows(records, learned(records))
    assert [(row["source_offset"], row["number"], row["after"]) for row in found] == [
        (1, 0, ["1"]),
        (1, 1, ["2"]),
    ]
    assert found[0]["event_us"] == 1000


def test_times_that_spark_cannot_hold() -> None:
    """A commit ts of 64 bits without a sign, and nanoseconds."""
    create = row_message({}, isDdl=True, type="CREATE", sql="CREATE TABLE t (id INT PRIMARY KEY)", data=None)
    row = row_message({"id": "int"}, {"id": "1"}, es=1) | {"_tidb": {"commitTs": 2**63 + 5}}
    (found,) = text_rows([record(row, 1)], learned([record(create | {"es": 0}, 0)], TICDC), source=TICDC)
    assert (found["commit_ts"], found["exact"]) == (None, {"commit_ts": "9223372036854775813"})
    file, table = "mysql/debezium.no-schema/09_dml", TableId("dml_db", "accounts")
    records = captured(file)
    catalog = learned(records, "debezium-json")
    inserted = (each for each in records if b'"table":"accounts"' in (each.value or b""))
    row_record = next(each for each in inserted if b'"op":"c"' in (each.value or b""))
    value = re.sub(
        rb'("source":.*?"ts_ns":)\d+', rb"\g<1>1700000000000000001", row_record.value or b"", count=1
    )
    fine = msgspec.structs.replace(row_record, value=value)
    (found,) = text_rows([fine], catalog, source="debezium-json", table=table)
    assert (found["event_us"], found["exact"]) == (
        1700000000000000,
        {"event_time_ns": "1700000000000000001"},
    )


def test_a_large_task_yields_several_batches() -> None:
    records = captured(ROWS)
    catalog = learned(records, TICDC)
    config = config_of({"from": TICDC, "to": "flat-json"}, {"topic": "{topic}"})
    work = ReadRows(config, Columns(), SentCatalog(catalog))
    (whole,) = work([record_batch(records)])
    many = [record_batch(records)] * 400
    batches = list(work(many))
    assert len(batches) > 1
    assert [row for batch in batches for row in batch.to_pylist()] == whole.to_pylist() * 400


def test_failed_records() -> None:
    records = [
        statement("CREATE TABLE t (id INT PRIMARY KEY)", 0),
        record(b'{"secret":', 1),
        change(2, {"id": "int"}, {"id": "1"}),
    ]
    catalog = learned([records[0]])
    with pytest.raises(Stopped) as raised:
        text_rows(records, catalog)
    assert str(error_of_task(str(raised.value))).startswith("topic/0/1: decode.malformed")
    assert [row["after"] for row in text_rows(records, catalog, on_error="skip")] == [["1"]]
    failed, row = text_rows(records, catalog, on_error="column")
    assert row["error"] is None
    assert failed["error"]["code"] == "decode.malformed"
    assert failed["error"]["protocol"] == CANAL
    assert "secret" not in str(failed)
    assert (failed["source_topic"], failed["source_offset"], failed["op"]) == ("topic", 1, None)


# ---------------------------------------------------------------- DataFrames


def test_ddl_in_the_middle(spark: Any, tmp_path: Path) -> None:
    """All versions of a table together have each of its changes once, in a batch and in a stream."""
    records = captured(DDL)
    df = of_kafka(spark, records)
    definitions(df, source=TICDC).write.parquet(str(tmp_path / "ddl"))
    ddl = spark.read.parquet(str(tmp_path / "ddl"))
    schemas = row_schemas(ddl, source=TICDC)["ddl_db.users"]
    assert [schema.simpleString() for schema in schemas] == [
        "struct<id:int,name:string,age:int,code:string,score:decimal(6,2)>",
        "struct<code:string,id:int,score:double,name:string>",
        "struct<tag:string,id:int,score:double,name:string>",
        "struct<label:string,id:int,score:double,name:string,m1:int,m2:string>",
    ]
    df.write.parquet(str(tmp_path / "in"))
    stream = spark.readStream.schema(df.schema).parquet(str(tmp_path / "in"))
    seen: list[tuple[int, dict[str, Any]]] = []
    for version in (1, 4):
        given: dict[str, Any] = {"source": TICDC, "table": "ddl_db.users", "ddl": ddl, "version": version}
        found = in_order(rows(df, **given))
        writer = rows(stream, **given).writeStream.option("checkpointLocation", str(tmp_path / f"c{version}"))
        query = writer.trigger(availableNow=True).start(str(tmp_path / f"out{version}"), format="parquet")
        query.awaitTermination()
        assert in_order(spark.read.parquet(str(tmp_path / f"out{version}"))) == found
        seen += [(row["source_offset"], row) for row in found]
    by_offset = dict(seen)
    assert list(by_offset) == [3, 4, 6, 7, 10, 11, 13, 14, 17, 19, 26, 29, 31, 38, 43, 46, 49]
    assert by_offset[17]["after"] == {
        "id": 3,
        "name": "after drop",
        "age": None,
        "code": "x1",
        "score": Decimal("2.25"),
    }
    assert by_offset[17]["absent"] == ["before.age", "after.age"]
    assert by_offset[3]["absent"] == ["after.age", "after.code", "after.score"]
    assert by_offset[46]["after"]["m2"] == "q"


def test_the_quick_start(spark: Any) -> None:
    """With records of a file in place of a topic."""
    (example, *_) = blocks(PAGE, "python")
    names = {"spark": spark, "records": of_kafka(spark, captured(ROWS))}
    for given, real in {"shop.orders": "dml_db.accounts", "after.price": "after.balance"}.items():
        assert given in example
        example = example.replace(given, real)
    exec(re.sub(r"^(brokers|records) = .*$", "", example, flags=re.MULTILINE), names)  # noqa: S102 - our own page
    assert names["changes"].count() == 40


def test_wrong_arguments_are_named(spark: Any) -> None:
    df = of_kafka(spark, captured(DDL))
    ddl = definitions(df, source=TICDC)
    given: dict[str, Any] = {"source": TICDC, "table": "ddl_db.parent", "ddl": ddl}
    cases: list[tuple[str, dict[str, Any]]] = [
        ("source", {"source": "no-such"}),
        ("source_registry.urls", {"source": "debezium-avro"}),
        ("table", {"table": "ddl_db.nothing"}),
        ("table", {"table": "parent"}),
        ("version", {"table": "ddl_db.users"}),
        ("version", {"version": 2}),
        ("version", {"version": 0}),
        ("ddl", {"ddl": None}),
        ("on_error", {"on_error": "dead-letter"}),
        ("on_error", {"on_error": "ignore"}),
    ]
    for argument, more in cases:
        with pytest.raises(ConfigError) as raised:
            rows(df, **given | more)
        assert [problem.path for problem in raised.value.problems] == [argument], more
    with pytest.raises(ConfigError, match=r"^df: has no column topic"):
        rows(df.drop("topic"), **given)


def test_records_of_a_registry_become_rows(spark: Any) -> None:
    """The same as those of the format in JSON."""
    avro = captured("mysql/debezium.avro/06_zero_dates")
    reading = {"field.name.adjustment.mode": "avro_unicode"}
    with serving(of_producer()) as registry:
        given: dict[str, Any] = {
            "source": "debezium-avro",
            "source_options": reading,
            "source_registry": {"urls": [registry.url], "allow_http": True},
        }
        df = of_kafka(spark, avro)
        ddl = definitions(df, **given)
        (table, *_) = row_schemas(ddl, **given)
        found = rows(df, table=table, ddl=ddl, **given).collect()
    in_json = of_kafka(spark, captured("mysql/debezium/06_zero_dates"))
    plain = rows(
        in_json, source="debezium-json", table=table, ddl=definitions(in_json, source="debezium-json")
    )
    # The capture in JSON has fewer rows.
    expected = {row.after for row in plain.collect()}
    assert expected
    assert expected <= {row.after for row in found}


def test_failed_records_are_rows_with_an_error(spark: Any) -> None:
    records = captured(ROWS)
    broken = [*records[:9], msgspec.structs.replace(records[9], value=b"{"), *records[10:]]
    ddl = definitions(of_kafka(spark, records), source=TICDC)
    result = rows(of_kafka(spark, broken), source=TICDC, table="dml_db.accounts", ddl=ddl, on_error="column")
    assert result.columns == [*RESULT, "error"]
    (failed,) = result.where("op IS NULL").collect()
    assert (failed.error.code, failed.source_offset) == ("decode.malformed", 9)


# ---------------------------------------------------------------- the final rows


def page_functions(spark: Any) -> dict[str, Any]:
    """The functions that the page defines."""
    names: dict[str, Any] = {"spark": spark, "rows": rows}
    for block in blocks(PAGE, "python")[1:3]:
        exec(block, names)  # noqa: S102 - our own page
    return names


def final(records: Sequence[ConsumerRecord], source: str, table: str, key: Sequence[str]) -> list[Image]:
    """The rows after all changes, of canonical events in the order of the records."""
    translator, found = Translator.reader(source), dict[tuple[Any, ...], Image]()
    translator.catalog = learned(records, source)
    for each in records:
        for event in translator.inspect(each):
            if isinstance(event, SchemaChange) and DdlKind.TRUNCATE_TABLE in event.kinds:
                found = {} if str(event.table) == table else found
            if isinstance(event, RowChange) and str(event.table) == table:
                before, after = event.before_dict(), event.after_dict()
                if before is not None:
                    found.pop(tuple(before[name] for name in key), None)
                if after is not None:
                    found[tuple(after[name] for name in key)] = after
    return list(found.values())


@pytest.mark.parametrize(
    ("file", "table", "key"),
    [
        ("mysql/canal-json/09_dml", "dml_db.accounts", ["id"]),  # with changes of keys
        ("ticdc/open-protocol/07_keys", "keys_db.pk_composite", ["region", "seq"]),
        (DDL, "ddl_db.tmp_a", ["id"]),  # TRUNCATE and DROP
    ],
)
def test_the_final_rows_are_those_of_the_source(file: str, table: str, key: list[str], spark: Any) -> None:
    source, records = protocol_of(file), captured(file)
    df = of_kafka(spark, records)
    changes = rows(df, source=source, table=table, ddl=definitions(df, source=source))
    found = page_functions(spark)["final_rows"](changes, key).toArrow().to_pylist()
    expected = final(records, source, table, key)
    if file == DDL:
        expected = []  # dropped at the end
    assert sorted(map(comparable, found)) == sorted(map(comparable, expected))


def comparable(row: Any) -> str:
    """A row as text, whatever its types: numbers and times by their digits."""
    cells = {name: cell for name, cell in row.items() if name != "exact"}
    texts = {name: cell.hex() if isinstance(cell, bytes) else str(cell) for name, cell in cells.items()}
    return str(sorted(texts.items()))


def test_the_final_rows_of_several_versions(spark: Any) -> None:
    """The page's example, with a type that has changed; and a column with a new name."""
    records = captured(DDL)
    df = of_kafka(spark, records)
    ddl = definitions(df, source=TICDC).cache()
    names = page_functions(spark) | {"records": df, "source": TICDC, "ddl": ddl, "table": "ddl_db.users"}
    exec(blocks(PAGE, "python")[3], names)  # noqa: S102 - our own page
    found = {row.id: row.score for row in names["users"].collect()}
    assert found == {1: 1e-07, 2: None, 3: 2.25}
    parts = [rows(df, source=TICDC, table="ddl_db.users", ddl=ddl, version=at) for at in (1, 2, 3, 4)]
    newest = parts[3].schema["after"].dataType
    old_names = [{"label": "code"}, {"label": "code"}, {"label": "tag"}]
    older = [
        names["as_version"](part, newest, names_) for part, names_ in zip(parts, old_names, strict=False)
    ]
    every = parts[3]
    for part in older:
        every = every.unionByName(part)
    rows_found = {row.id: row for row in names["final_rows"](every, ["id"]).collect()}
    assert sorted(rows_found) == [1, 2, 3, 5, 6, 8, 30002]
    assert (rows_found[2].label, rows_found[2].name, rows_found[1].label) == ("z3", "b", "again")
    assert (rows_found[3].label, rows_found[3].score) == ("x1", 2.25)
    ddl.unpersist()


def test_exact_values_have_the_new_names_of_columns(spark: Any) -> None:
    records = [
        statement("CREATE TABLE t (id INT PRIMARY KEY, v DATE, u INT)", 0),
        change(1, {"id": "int", "v": "date"}, {"id": "1", "v": "0000-00-00"}),
        change(2, {"id": "int", "v": "date", "u": "int"}, {"id": "2", "v": "2020-01-01", "u": "5"}),
        change(3, {"id": "int", "v": "date", "u": "int"}, {"id": "3", "v": None, "u": None}, op="DELETE"),
        statement("ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN u TO t, ADD COLUMN x INT", 4),
        change(
            5, {"id": "int", "w": "date", "t": "int", "x": "int"}, {"id": "4", "w": None, "t": "8", "x": "9"}
        ),
    ]
    df = of_kafka(spark, records)
    given: dict[str, Any] = {"source": CANAL, "table": "d.t", "ddl": definitions(df, source=CANAL)}
    first, second = (rows(df, version=version, **given) for version in (1, 2))
    names, newest = page_functions(spark), second.schema["after"].dataType
    older = names["as_version"](first, newest, {"w": "v", "t": "u"})
    assert older.schema == second.schema
    found = in_order(older)
    assert [row["exact"] for row in found] == [{"after.w": "0000-00-00"}, {}, {}]
    assert [row["absent"] for row in found] == [["after.t", "after.x"], ["after.x"], ["before.x"]]
    every = names["final_rows"](older.unionByName(second), ["id"]).collect()
    assert {row.id: (row.t, row.x, row.exact) for row in every} == {
        1: (None, None, {"after.w": "0000-00-00"}),
        2: (5, None, {}),
        4: (8, 9, {}),
    }


def test_a_column_may_have_the_old_name_of_another_one(spark: Any) -> None:
    """One that was dropped, or that has another name now; with values that do not fit in both."""
    types = {"id": "int", "w": "date", "v": "date", "u": "int"}
    records = [
        statement("CREATE TABLE t (id INT PRIMARY KEY, w DATE, v DATE, u INT)", 0),
        change(1, types, {"id": "1", "w": "0000-00-00", "v": "2020-02-00", "u": "7"}),
        statement("ALTER TABLE t DROP COLUMN w", 2),
        change(3, {"id": "int", "v": "date", "u": "int"}, {"id": "2", "v": "2021-01-01", "u": "8"}),
        statement("ALTER TABLE t RENAME COLUMN v TO w, RENAME COLUMN u TO old_u", 4),
        statement("ALTER TABLE t ADD COLUMN u INT", 5),
        change(
            6,
            {"id": "int", "w": "date", "old_u": "int", "u": "int"},
            {"id": "3", "w": "2022-01-01", "old_u": "1", "u": "2"},
        ),
    ]
    df = of_kafka(spark, records)
    given: dict[str, Any] = {"source": CANAL, "table": "d.t", "ddl": definitions(df, source=CANAL)}
    first, second = (rows(df, version=version, **given) for version in (1, 2))
    assert in_order(first)[0]["exact"] == {"after.w": "0000-00-00", "after.v": "2020-02-00"}
    names, newest = page_functions(spark), second.schema["after"].dataType
    older = names["as_version"](first, newest, {"w": "v", "old_u": "u"})
    assert [(row["exact"], row["absent"]) for row in in_order(older)] == [
        ({"after.w": "2020-02-00"}, ["after.u"]),
        ({}, ["after.u"]),
    ]
    every = names["final_rows"](older.unionByName(second), ["id"]).collect()
    assert {row.id: (str(row.w), row.old_u, row.u, row.exact) for row in every} == {
        1: ("None", 7, None, {"after.w": "2020-02-00"}),
        2: ("2021-01-01", 8, None, {}),
        3: ("2022-01-01", 1, 2, {}),
    }


def test_the_page_has_every_argument_and_column(spark: Any) -> None:
    page = PAGE.read_text(encoding="utf-8")
    named = set(re.findall(r"`(\w+)`", page))
    assert named >= set(signature(rows).parameters) - {"df"}
    assert named >= {*RESULT, "error", "row_schemas", "code", "protocol", "path", "reason"}
    assert len(blocks(PAGE, "python")) == 6
