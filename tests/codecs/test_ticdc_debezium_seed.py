"""Every message printed in PingCAP's page "TiCDC Debezium Protocol", in both directions, and its list of type
differences.

The page prints members in other orders than the producer, and in three places other values; those are named
where they occur.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import TICDC

from relay import (
    Column,
    ColumnType,
    ConsumerRecord,
    DdlKind,
    Default,
    Loss,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    Translator,
    Watermark,
)
from relay.codecs.debezium.shared.ddl_events import table_changes
from relay.codecs.debezium.shared.schemas import column_schema, read_block
from relay.model.events import Source, TableSchema
from relay.mysql.types import parse_type, with_implied_parameters

DEBEZIUM = "ticdc-debezium"
#: The page's UPDATE changes the only column of its key.
RAW = {"output-raw-change-event": "true"}
OPTIONS = {"cluster-id": "test_cluster", "enable-tidb-extension": "true"} | RAW


def field(name: str, type_: str, optional: bool = False, /, **more: Any) -> dict[str, Any]:
    return {"field": name, "optional": optional, "type": type_, **more}


ENUM = {
    "parameters": {"allowed": "true,last,false,incremental"},
    "default": "false",
    "name": "io.debezium.data.Enum",
    "version": 1,
}
SOURCE_FIELDS = [
    field("version", "string"), field("connector", "string"), field("name", "string"), field("ts_ms", "int64"),
    field("snapshot", "string", True, **ENUM), field("db", "string"), field("sequence", "string", True),
    field("table", "string", True), field("server_id", "int64"), field("gtid", "string", True), field("file", "string"),
    field("pos", "int64"), field("row", "int32"), field("thread", "int64", True), field("query", "string", True),
]  # fmt: skip
SOURCE_SCHEMA = field("source", "struct", name="io.debezium.connector.mysql.Source", fields=SOURCE_FIELDS)
TRANSACTION = field(
    "transaction", "struct", True, name="event.block", version=1,
    fields=[field("id", "string"), field("total_order", "int64"), field("data_collection_order", "int64")],
)  # fmt: skip


def source(table: str, commit_ts: int, db: str = "test") -> dict[str, Any]:
    return {
        "version": "2.4.0.Final", "connector": "TiCDC", "name": "test_cluster", "ts_ms": 0, "snapshot": "false", "db": db,
        "table": table, "server_id": 0, "gtid": None, "file": "", "pos": 0, "row": 0, "thread": 0, "query": None,
        "commit_ts": commit_ts, "cluster_id": "test_cluster",
    }  # fmt: skip


def envelope(name: str, *first: dict[str, Any]) -> dict[str, Any]:
    fields = [*first, SOURCE_SCHEMA, field("op", "string"), field("ts_ms", "int64", True), TRANSACTION]
    return {
        "type": "struct",
        "optional": False,
        "name": f"test_cluster.{name}.Envelope",
        "version": 1,
        "fields": fields,
    }


def image(name: str) -> dict[str, Any]:
    return field(
        name, "struct", True, name="test_cluster.test.table1.Value", fields=[field("tiny", "int16", True)]
    )


ROW_KEY = {
    "payload": {"tiny": 1},
    "schema": {
        "fields": [field("tiny", "int16", True)], "name": "test_cluster.test.table1.Key", "optional": False, "type": "struct",
    },
}  # fmt: skip
ROW = {
    "payload": {
        "source": source("table1", 1), "ts_ms": 1701326309000, "transaction": None, "op": "u",
        "before": {"tiny": 2}, "after": {"tiny": 1},
    },
    "schema": envelope("test.table1", image("before"), image("after")),
}  # fmt: skip
WATERMARK_KEY = {
    "payload": {},
    "schema": {"fields": [], "optional": False, "name": "test_cluster.watermark.Key", "type": "struct"},
}
WATERMARK = {
    "payload": {"source": source("", 3, ""), "op": "m", "ts_ms": 1701326309000, "transaction": None},
    "schema": envelope("watermark"),
}
NAMES = {"items": {"type": "string", "optional": False}}
COLUMN_SCHEMA = {
    "name": "io.debezium.connector.schema.Column", "optional": False, "type": "struct", "version": 1,
    "fields": [
        field("name", "string"), field("jdbcType", "int32"), field("nativeType", "int32", True), field("typeName", "string"),
        field("typeExpression", "string", True), field("charsetName", "string", True), field("length", "int32", True),
        field("scale", "int32", True), field("position", "int32"), field("optional", "boolean", True),
        field("autoIncremented", "boolean", True), field("generated", "boolean", True), field("comment", "string", True),
        field("defaultValueExpression", "string", True), field("enumValues", "array", True, **NAMES),
    ],
}  # fmt: skip
CHANGE_SCHEMA = {
    "name": "io.debezium.connector.schema.Change", "optional": False, "type": "struct", "version": 1,
    "fields": [
        field("type", "string"), field("id", "string"),
        field(
            "table", "struct", True, name="io.debezium.connector.schema.Table", version=1,
            fields=[
                field("defaultCharsetName", "string", True), field("primaryKeyColumnNames", "array", True, **NAMES),
                field("columns", "array", items=COLUMN_SCHEMA), field("comment", "string", True),
            ],
        ),
    ],
}  # fmt: skip
DDL_KEY = {
    "payload": {"databaseName": "test"},
    "schema": {
        "type": "struct", "name": "io.debezium.connector.mysql.SchemaChangeKey", "optional": False, "version": 1,
        "fields": [field("databaseName", "string")],
    },
}  # fmt: skip
ID_COLUMN = {
    "name": "id", "jdbcType": 4, "nativeType": None, "comment": None, "defaultValueExpression": None, "enumValues": None,
    "typeName": "INT", "typeExpression": "INT", "charsetName": None, "length": 0, "scale": None, "position": 1, "optional": False,
    "autoIncremented": False, "generated": False,
}  # fmt: skip
DDL = {
    "payload": {
        "source": source("table1", 1), "ts_ms": 1701326309000, "databaseName": "test", "schemaName": None,
        "ddl": "RENAME TABLE test.table1 to test.table2",
        "tableChanges": [
            {
                "type": "ALTER", "id": '"test"."table2","test"."table1"',
                "table": {"defaultCharsetName": "", "primaryKeyColumnNames": ["id"], "columns": [ID_COLUMN], "comment": None},
            },
        ],
    },
    "schema": {
        "optional": False, "type": "struct", "version": 1, "name": "io.debezium.connector.mysql.SchemaChangeValue",
        "fields": [
            SOURCE_SCHEMA, field("ts_ms", "int64"), field("databaseName", "string", True), field("schemaName", "string", True),
            field("ddl", "string", True), field("tableChanges", "array", items=CHANGE_SCHEMA),
        ],
    },
}  # fmt: skip
CREATE = {
    "payload": {
        "source": source("table1", 0), "ts_ms": 0, "tableChanges": [],
        "ddl": "CREATE TABLE `table1` (`id` INT NOT NULL PRIMARY KEY)",
    },
}  # fmt: skip


def record(key: Any, value: Any, offset: int = 0) -> ConsumerRecord:
    return ConsumerRecord("topic", 0, offset, 0, json.dumps(key).encode(), json.dumps(value).encode())


def come_back(key: Any, value: Any, **options: str) -> tuple[dict[str, Any], dict[str, Any]]:
    (out,) = Translator(DEBEZIUM, DEBEZIUM, None, OPTIONS | options).translate(record(key, value))
    return json.loads(out.key or b""), json.loads(out.value or b"")


def without_ticdcs_own(value: dict[str, Any]) -> dict[str, Any]:
    """The page is older than v26.3.3, since when the extension declares `commit_ts` and `cluster_id`."""
    (fields,) = (part["fields"] for part in value["schema"]["fields"] if part["field"] == "source")
    assert [part["field"] for part in fields[-2:]] == ["commit_ts", "cluster_id"]
    del fields[-2:]
    return value


def test_the_row_is_read() -> None:
    (event,) = Translator(DEBEZIUM, DEBEZIUM).inspect(record(ROW_KEY, ROW))
    assert isinstance(event, RowChange)
    assert (event.op, event.table, event.before, event.after) == (
        Op.UPDATE,
        TableId("test", "table1"),
        (2,),
        (1,),
    )
    assert event.source == Source("ticdc", 0, 1, name="test_cluster")
    assert event.emitted_at_ns == 1701326309000 * 10**6
    assert event.schema.primary_key == ("tiny",)


def test_the_row_is_written() -> None:
    assert come_back(ROW_KEY, ROW, **{"enable-tidb-extension": "false"}) == (ROW_KEY, ROW)


def test_the_row_is_written_with_the_extension() -> None:
    """`tidb_type` stands in key, `before` and `after`; the page speaks of `after` alone."""
    key, value = come_back(ROW_KEY, ROW)
    (said,) = key["schema"]["fields"]
    assert (
        said.pop("tidb_type") == "smallint"
    )  # TINYINT and SMALLINT are both int16: without a definition the wider one
    for part in value["schema"]["fields"][:2]:
        assert part["fields"][0].pop("tidb_type") == "smallint"
    assert (key, without_ticdcs_own(value)) == (ROW_KEY, ROW)


def test_the_row_without_schema() -> None:
    key, value = come_back(ROW_KEY, ROW, **{"debezium-disable-schema": "true"})
    assert (key, value) == ({"payload": ROW_KEY["payload"]}, {"payload": ROW["payload"]})


def test_the_watermark_is_read() -> None:
    (event,) = Translator(DEBEZIUM, DEBEZIUM).inspect(record(WATERMARK_KEY, WATERMARK))
    assert event == Watermark(Source("ticdc", 0, 3, name="test_cluster"), 1701326309000 * 10**6)


def test_the_watermark_is_written() -> None:
    key, value = come_back(WATERMARK_KEY, WATERMARK)
    assert (key, without_ticdcs_own(value)) == (WATERMARK_KEY, WATERMARK)


def test_the_ddl_is_read() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    translator.inspect(record(DDL_KEY, CREATE))
    (event,) = translator.inspect(record(DDL_KEY, DDL, 1))
    assert isinstance(event, SchemaChange)
    assert (event.ddl, event.kinds, event.wire_kind) == (
        DDL["payload"]["ddl"],
        (DdlKind.RENAME_TABLE,),
        "ALTER",
    )
    # `source.table` is printed with the old name; the producer has the new one there, as the statement says.
    assert event.table == TableId("test", "table2")
    assert [(pair.old.table, pair.new.table) for pair in event.renamed] == [("table1", "table2")]
    assert event.after is not None
    assert [column.name for column in event.after.columns] == ["id"]


def test_the_ddl_is_written() -> None:
    """The producer writes the names of a rename as old, new; the table's charset; and no length where it is
    the usual one.
    """
    translator = Translator(DEBEZIUM, DEBEZIUM, None, OPTIONS)
    translator.translate(record(DDL_KEY, CREATE))
    (out,) = translator.translate(record(DDL_KEY, DDL, 1))
    assert json.loads(out.key or b"") == DDL_KEY
    value = without_ticdcs_own(json.loads(out.value or b""))
    (change,) = value["payload"]["tableChanges"]
    assert (change["id"], change["table"]["defaultCharsetName"]) == (
        '"test"."table1","test"."table2"',
        "utf8mb4",
    )
    assert (change["table"]["columns"][0]["length"], value["payload"]["source"]["table"]) == (None, "table2")
    change["id"], change["table"]["defaultCharsetName"], change["table"]["columns"][0]["length"] = (
        '"test"."table2","test"."table1"',
        "",
        0,
    )
    value["payload"]["source"]["table"] = "table1"
    assert value == DDL


def test_ddl_reaches_every_partition_and_a_row_one() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM, None, RAW, partitions=3)
    assert [out.partition for out in translator.translate(record(DDL_KEY, DDL))] == [0, 1, 2]
    assert len(translator.translate(record(ROW_KEY, ROW, 1))) == 1


# ---------------------------------------------------------------- the list of type differences


def column(text: str, default: Default | None = None) -> Column:
    column_type = with_implied_parameters(parse_type(text))
    return (
        Column("c", column_type, nullable=True)
        if default is None
        else Column("c", column_type, nullable=True, default=default)
    )


def in_schema(one: Column) -> dict[str, Any]:
    return column_schema(one, extension=False, optional=True)


def in_ddl(one: Column) -> dict[str, Any]:
    """The column as CREATE TABLE shows it."""
    schema = TableSchema(TableId("d", "t"), (one,))
    change = SchemaChange(
        "CREATE TABLE t (c INT)",
        schema.id,
        (DdlKind.CREATE_TABLE,),
        "",
        Source("x", 0),
        0,
        definitions=(schema,),
    )
    ((_, _, (found,)),) = table_changes(change, [])
    assert isinstance(found, dict)
    shown: dict[str, Any] = found["table"]["columns"][0]
    return shown


SPATIAL = [
    "geometry",
    "point",
    "linestring",
    "polygon",
    "multipoint",
    "multilinestring",
    "multipolygon",
    "geometrycollection",
]


def row_message(mysql_type: str, value: str) -> dict[str, Any]:
    return {
        "database": "d", "table": "t", "isDdl": False, "type": "INSERT", "es": 1, "pkNames": [], "mysqlType": {"c": mysql_type},
        "data": [{"c": value}], "_tidb": {"commitTs": 5},
    }  # fmt: skip


def written(mysql_type: str, value: str) -> tuple[Any, Translator]:
    translator = Translator(TICDC, DEBEZIUM, None, {"debezium-disable-schema": "true"})
    (out,) = translator.translate(record(None, row_message(mysql_type, value)))
    return json.loads(out.value or b"")["payload"]["after"]["c"], translator


@pytest.mark.parametrize("base", SPATIAL)
def test_spatial_types_which_tidb_does_not_have_are_counted(base: str) -> None:
    shown, translator = written(base, "\x00\x01")
    assert shown == "AAE="
    assert translator.losses[Loss.COLUMN_TYPE] == 1


@pytest.mark.parametrize("base", ["binary(3)", "varbinary(3)", "tinyblob", "blob", "mediumblob", "longblob"])
def test_binary_columns_are_base64_text(base: str) -> None:
    assert written(base, "\x00ÿ\x10")[0] == "AP8Q"
    assert in_schema(column(base))["type"] == "string"


@pytest.mark.parametrize("base", ["char(9)", "varchar(9)", "tinytext", "text", "mediumtext", "longtext"])
def test_text_columns_are_text(base: str) -> None:
    assert written(base, "AP8Q")[0] == "AP8Q"
    assert in_schema(column(base))["type"] == "string"


@pytest.mark.parametrize("text", ["decimal(5,2)", "decimal(65,30)", "numeric(9,4)"])
def test_decimals_are_64_bit_floats_whatever_their_precision(text: str) -> None:
    assert in_schema(column(text))["type"] == "double"
    assert written(text, "1.50")[0] == 1.5


def test_real_is_double_and_boolean_is_tinyint() -> None:
    assert in_ddl(column("real"))["typeName"] == "DOUBLE"
    assert (in_ddl(column("boolean"))["typeName"], in_ddl(column("boolean"))["length"]) == ("TINYINT", 1)
    assert in_schema(column("boolean"))["type"] == "int16"
    assert written("tinyint", "1")[0] == 1


@pytest.mark.parametrize("text", ["json", "blob", "text"])
def test_json_blobs_and_texts_have_no_default(text: str) -> None:
    """TiDB refuses a literal default there; an expression is no value, and the one that MySQL may give JSON
    is left out too.
    """
    assert "default" not in in_schema(column(text, Default("('x')", is_expression=True)))
    assert "default" not in in_schema(column("json", Default("{}")))


def test_floats_have_their_own_digits() -> None:
    assert written("float", "5.61")[0] == 5.61
    assert in_schema(column("float(5,2)"))["type"] == "double"
    assert in_schema(column("float"))["type"] == "float"


def test_the_length_of_a_float() -> None:
    """The page calls it wrong (tidb#57060): it is the display width, and only where it was given."""
    assert (in_ddl(column("float(5,2)"))["length"], in_ddl(column("float(5,2)"))["scale"]) == (5, 2)
    assert in_ddl(column("float"))["length"] is None


def test_the_charset_is_that_of_the_column_else_of_the_table() -> None:
    assert (
        in_ddl(Column("c", ColumnType("varchar", length=9, charset="utf8", collation="utf8_unicode_ci")))[
            "charsetName"
        ]
        == "utf8"
    )
    assert in_ddl(column("varchar(9)"))["charsetName"] == "utf8mb4"


def test_members_of_an_enum_are_quoted_and_not_escaped() -> None:
    """For `ENUM('c,\\'d','g,''h')`: TiDB keeps the members without quoting, and the records of the producer
    show them so.
    """
    one = Column("c", ColumnType("enum", members=("c,'d", "g,'h")))
    assert in_ddl(one)["enumValues"] == ["'c,'d'", "'g,'h'"]
    entry = in_schema(one)
    assert entry["parameters"] == {"allowed": "c\\,'d,g\\,'h"}
    assert (
        read_block(json.dumps({"fields": [{"field": "after", "fields": [entry]}]}).encode())["c"].name
        == "io.debezium.data.Enum"
    )


def test_the_default_of_a_time_with_a_date() -> None:
    assert (
        in_ddl(column("time(3)", Default("1000-00-00 01:00:00.000")))["defaultValueExpression"]
        == "1000-00-00"
    )
