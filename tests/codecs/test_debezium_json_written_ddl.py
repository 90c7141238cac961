"""Debezium JSON, written: schema changes as Debezium's MySQL connector 3.6 sends them."""

from __future__ import annotations

import json
from typing import Any

import msgspec
import pytest
from native_support import BARE, NAME, encoded
from open_support import ddl as open_ddl
from open_support import framed

from relay import Bootstrap, ConsumerRecord, Loss, ProducerRecord, SchemaChange, Translator
from relay.model.events import Source
from relay.testing.strategies import creation

CREATE = (
    "CREATE TABLE item (id INT UNSIGNED NOT NULL AUTO_INCREMENT PRIMARY KEY COMMENT 'the \"key\"', "
    "name VARCHAR(32) NOT NULL DEFAULT 'it''s', price DECIMAL(12,2) UNSIGNED DEFAULT 0.00, "
    "state ENUM('new','it''s','b\\\\s') DEFAULT 'new', flags BIT(5) DEFAULT b'10001', tiny TINYINT(1), "
    "at DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3), updated TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP ON "
    "UPDATE CURRENT_TIMESTAMP, y YEAR, t TEXT) COMMENT 'a table'"
)


def ddl(sql: str, kind: str = "ALTER", table: str = "item", at: int = 0) -> ConsumerRecord:
    message = {
        "id": 1, "database": "shop", "table": table, "pkNames": None, "isDdl": True, "type": kind,
        "es": 1768443570000 + at, "ts": 1768443570311, "sql": sql, "sqlType": None, "mysqlType": None,
        "data": None, "old": None,
    }  # fmt: skip
    return ConsumerRecord("topic", 0, at, 1768443570999, None, json.dumps(message).encode())


def written(
    *records: ConsumerRecord, options: dict[str, str] | None = None
) -> tuple[list[ProducerRecord], Translator]:
    """The messages of the last record."""
    translator = Translator("canal-json", NAME, None, BARE | (options or {}))
    out = [translator.translate(one) for one in records]
    return out[-1], translator


def payload_of(record: ProducerRecord) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.value or b"")
    return found


def column(position: int, name: str, jdbc: int, word: str, **more: Any) -> dict[str, Any]:
    usual = {
        "name": name, "jdbcType": jdbc, "nativeType": None, "typeName": word, "typeExpression": word,
        "charsetName": None, "length": None, "scale": None, "position": position, "optional": True,
        "autoIncremented": False, "generated": False, "comment": None, "defaultValueExpression": None,
        "enumValues": None,
    }  # fmt: skip
    return usual | more


def test_a_new_table_is_shown_as_the_connector_shows_it() -> None:
    (out,), translator = written(ddl(CREATE, "CREATE"), options={"topic.prefix": "p"})
    assert out.key == b'{"databaseName":"shop"}'
    payload = payload_of(out)
    assert list(payload) == ["source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges"]
    source = payload["source"]
    assert (source["db"], source["table"], source["ts_ms"]) == ("shop", "item", 1768443570000)
    assert (payload["ts_ms"], payload["databaseName"], payload["schemaName"]) == (1768443570311, "shop", None)
    assert payload["ddl"] == CREATE
    (change,) = payload["tableChanges"]
    table = change.pop("table")
    assert change == {"type": "CREATE", "id": '"shop"."item"'}
    columns = table.pop("columns")
    assert table == {"defaultCharsetName": "utf8mb4", "primaryKeyColumnNames": ["id"], "comment": None}
    assert columns == [
        column(1, "id", 4, "INT UNSIGNED", optional=False, autoIncremented=True, generated=True),
        column(2, "name", 12, "VARCHAR", charsetName="utf8mb4", length=32, optional=False,
               defaultValueExpression="it''s"),
        column(3, "price", 3, "DECIMAL UNSIGNED", length=12, scale=2, defaultValueExpression="0.00"),
        column(4, "state", 1, "ENUM", charsetName="utf8mb4", length=1, defaultValueExpression="new",
               enumValues=["'new'", "'it''s'", "'b\\\\s'"]),
        column(5, "flags", -7, "BIT", length=5, defaultValueExpression="10001"),
        column(6, "tiny", 5, "TINYINT", length=1),
        column(7, "at", 93, "DATETIME", length=3, defaultValueExpression="1970-01-01 00:00:00"),
        column(8, "updated", 2014, "TIMESTAMP", optional=False, autoIncremented=True, generated=True,
               defaultValueExpression="1970-01-01 00:00:00"),
        column(9, "y", 4, "YEAR"),
        column(10, "t", 12, "TEXT", charsetName="utf8mb4"),
    ]  # fmt: skip
    assert [list(one) for one in columns] == 10 * [list(column(1, "", 0, ""))]
    assert translator.losses[Loss.DDL] == 0


def test_comments_are_written_on_request_in_schema_changes_and_schemas() -> None:
    options = {"include.schema.comments": "true", "schemas.enable": "true"}
    translator = Translator("canal-json", NAME, None, options)
    (out,) = translator.translate(ddl(CREATE, "CREATE"))
    (change,) = json.loads(out.value or b"")["payload"]["tableChanges"]
    assert change["table"]["comment"] == "a table"
    assert change["table"]["columns"][0]["comment"] == 'the "key"'
    row = {
        "id": 1, "database": "shop", "table": "item", "pkNames": ["id"], "isDdl": False, "type": "INSERT",
        "es": 1768443580000, "ts": 1, "sql": "", "sqlType": {"id": 4}, "mysqlType": {"id": "int unsigned"},
        "data": [{"id": "1"}], "old": None,
    }  # fmt: skip
    (out,) = translator.translate(ConsumerRecord("topic", 0, 9, 1, None, json.dumps(row).encode()))
    (field,) = json.loads(out.key or b"")["schema"]["fields"]
    assert field == {"type": "int64", "optional": False, "doc": 'the "key"', "field": "id"}


def test_schema_changes_have_schemas() -> None:
    (out,), _ = written(ddl(CREATE, "CREATE"), options={"schemas.enable": "true"})
    schema = json.loads(out.value or b"")["schema"]
    assert schema["name"] == "io.debezium.connector.mysql.SchemaChangeValue"
    assert [one["field"] for one in schema["fields"]] == [
        "source", "ts_ms", "databaseName", "schemaName", "ddl", "tableChanges",
    ]  # fmt: skip
    items = schema["fields"][5]["items"]
    assert (items["name"], items["version"]) == ("io.debezium.connector.schema.Change", 1)
    table = items["fields"][2]
    assert (table["name"], table["optional"]) == ("io.debezium.connector.schema.Table", True)
    assert [one["field"] for one in table["fields"][2]["items"]["fields"]] == list(column(1, "", 0, ""))
    assert json.loads(out.key or b"")["schema"]["name"] == "io.debezium.connector.mysql.SchemaChangeKey"


@pytest.mark.parametrize(
    ("sql", "kind", "table", "shown"),
    [
        ("CREATE DATABASE shop", "QUERY", "", None),
        ("DROP DATABASE shop", "QUERY", "", None),
        ("ALTER DATABASE shop CHARACTER SET utf8mb4", "QUERY", "", ""),
        ("CREATE UNIQUE INDEX i ON item (name)", "CINDEX", "item", ""),
        ("DROP INDEX i ON item", "DINDEX", "item", ""),
    ],
)
def test_statements_that_are_about_no_table(sql: str, kind: str, table: str, shown: str | None) -> None:
    (out,), _ = written(ddl(CREATE, "CREATE"), ddl(sql, kind, table, at=1))
    payload = payload_of(out)
    assert (payload["ddl"], payload["tableChanges"]) == (sql, [])
    assert (payload["source"]["db"], payload["source"]["table"]) == ("shop", shown)


def test_an_altered_table() -> None:
    sql = "ALTER TABLE item ADD COLUMN n INT NULL, ADD INDEX i (n)"
    (out,), _ = written(ddl(CREATE, "CREATE"), ddl(sql, at=1))
    (change,) = payload_of(out)["tableChanges"]
    assert (change["type"], change["id"], len(change["table"]["columns"])) == ("ALTER", '"shop"."item"', 11)


def test_a_dropped_table_is_named_with_its_database() -> None:
    (out,), _ = written(ddl("DROP TABLE IF EXISTS `item` /* generated by server */", "ERASE"))
    payload = payload_of(out)
    assert payload["ddl"] == "DROP TABLE IF EXISTS `shop`.`item`"
    assert payload["tableChanges"] == [{"type": "DROP", "id": '"shop"."item"', "table": None}]


@pytest.mark.parametrize(
    ("sql", "texts"),
    [
        ("/* c */ drop tables if exists item CASCADE", ["DROP TABLE IF EXISTS `shop`.`item`"]),
        ("DROP TABLE /*!32312 IF EXISTS*/`item`", ["DROP TABLE IF EXISTS `shop`.`item`"]),
        ("DROP/**/TABLE IF EXISTS a,`if exists`", [
            "DROP TABLE IF EXISTS `shop`.`a`", "DROP TABLE IF EXISTS `shop`.`if exists`",
        ]),
        ("DROP TABLE `if exists`", ["DROP TABLE `shop`.`if exists`"]),
        ("DROP TABLE item;; ", ["DROP TABLE `shop`.`item`"]),
        ("DROP TABLE item; CREATE TABLE b (id INT)", ["DROP TABLE item; CREATE TABLE b (id INT)"]),
        ("DROP TABLE item; DROP TABLE item", ["DROP TABLE item; DROP TABLE item"]),
        ("DROP TABLE IF EXISTS item;;\nDROP TABLE b", ["DROP TABLE IF EXISTS item;;\nDROP TABLE b"]),
        ("DROP TABLE item; ALTER TABLE item LOCK = NONE", ["DROP TABLE item; ALTER TABLE item LOCK = NONE"]),
    ],
)  # fmt: skip
def test_a_dropped_table_keeps_what_else_its_statement_says(sql: str, texts: list[str]) -> None:
    out, _ = written(ddl(sql, "ERASE"))
    assert [payload_of(one)["ddl"] for one in out] == texts


@pytest.mark.parametrize(
    "sql", ["ALTER TABLE item ADD COLUMN c bit(4000000000)", "DROP TABLE item; INSERT INTO b VALUES (1)"]
)
def test_a_statement_that_only_its_message_calls_a_drop_stays_as_it_is(sql: str) -> None:
    """Open Protocol's type says that the table is dropped; the text, which is not understood, says otherwise."""
    cause = framed(open_ddl(sql, 4))
    (out,) = Translator("ticdc-open-protocol", NAME, None, BARE).translate(cause)
    assert payload_of(out)["ddl"] == sql


def test_a_truncation_with_another_statement_stays_as_it_is() -> None:
    sql = "TRUNCATE TABLE item; ALTER TABLE item ALGORITHM = COPY"
    out, translator = written(ddl(CREATE, "CREATE"), ddl(sql, "TRUNCATE", at=1))
    assert [payload_of(one)["ddl"] for one in out] == [sql]
    assert Loss.DDL not in translator.losses


def test_a_rename_of_several_tables_is_a_message_each() -> None:
    two = ddl("CREATE TABLE b (id INT PRIMARY KEY)", "CREATE", "b", at=1)
    out, _ = written(
        ddl(CREATE, "CREATE"),
        two,
        ddl("rename table /* so */ `item` TO x, shop.b  to item;", "RENAME", "x", at=2),
    )
    payloads = [payload_of(one) for one in out]
    assert [one["ddl"] for one in payloads] == [
        "RENAME TABLE `item` TO x",
        "RENAME TABLE shop.b to item",
    ]
    assert [one["tableChanges"][0]["id"] for one in payloads] == ['"shop"."x"', '"shop"."item"']
    assert [one["tableChanges"][0]["type"] for one in payloads] == ["ALTER", "ALTER"]


def test_a_table_that_is_not_known_is_named_alone() -> None:
    (out,), translator = written(ddl("ALTER TABLE item ADD COLUMN n INT"))
    payload = payload_of(out)
    assert (payload["source"]["table"], payload["tableChanges"]) == ("item", [])
    assert translator.losses[Loss.TABLE_DEFINITION] == 1


def test_quotes_in_names_are_doubled_in_an_id() -> None:
    (out,), _ = written(ddl('CREATE TABLE `a"b` (id INT PRIMARY KEY)', "CREATE", 'a"b'))
    assert payload_of(out)["tableChanges"][0]["id"] == '"shop"."a""b"'


def test_truncate_is_skipped_or_a_message_without_rows() -> None:
    truncate = ddl("TRUNCATE TABLE item", "TRUNCATE", at=1)
    out, translator = written(ddl(CREATE, "CREATE"), truncate)
    assert (out, translator.losses[Loss.TRUNCATE_OR_DROP]) == ([], 1)
    options = {"skipped.operations": "none", "schemas.enable": "true"}
    (one,), translator = written(ddl(CREATE, "CREATE"), truncate, options=options)
    assert one.key is None
    value = json.loads(one.value or b"")
    assert [value["payload"][name] for name in ("before", "after", "op")] == [None, None, "t"]
    assert value["schema"]["name"] == "relay.shop.item.Envelope"
    assert len(value["schema"]["fields"][0]["fields"]) == 10
    assert translator.losses[Loss.TRUNCATE_OR_DROP] == 0


def test_schema_changes_can_be_left_out() -> None:
    out, translator = written(ddl(CREATE, "CREATE"), options={"include.schema.changes": "false"})
    assert (out, translator.losses[Loss.DDL]) == ([], 1)


def test_a_connectors_declaration_is_passed_on() -> None:
    """Its words are kept: BOOL and REAL, which are other words for TINYINT(1) and DOUBLE."""
    changes = [
        {
            "type": "CREATE",
            "id": '"shop"."item"',
            "table": {
                "defaultCharsetName": "utf8mb4",
                "primaryKeyColumnNames": [],
                "columns": [column(1, "b", 16, "BOOL"), column(2, "r", 7, "REAL")],
                "comment": None,
            },
        }
    ]
    (first,), _ = written(ddl("CREATE TABLE item (b BOOL, r REAL)", "CREATE"))
    payload = payload_of(first) | {"tableChanges": changes}
    record = ConsumerRecord("topic", 0, 1, 1, first.key, json.dumps(payload).encode())
    (out,) = Translator(NAME, NAME, None, BARE).translate(record)
    assert payload_of(out)["tableChanges"] == changes
    assert payload_of(out)["ddl"] == payload["ddl"]


def test_comments_that_a_connector_has_left_out_are_those_of_the_statement() -> None:
    (first,), _ = written(ddl(CREATE, "CREATE"))
    record = ConsumerRecord("topic", 0, 1, 1, first.key, first.value)
    (plain,) = Translator(NAME, NAME, None, BARE).translate(record)
    assert payload_of(plain)["tableChanges"] == payload_of(first)["tableChanges"]
    (out,) = Translator(NAME, NAME, None, BARE | {"include.schema.comments": "true"}).translate(record)
    table = payload_of(out)["tableChanges"][0]["table"]
    assert (table["comment"], table["columns"][0]["comment"]) == ("a table", 'the "key"')


def _commented(text: str) -> ConsumerRecord:
    """A connector's schema change with comments, whose text relay cannot read."""
    (first,), _ = written(ddl(CREATE, "CREATE"), options={"include.schema.comments": "true"})
    return ConsumerRecord("topic", 0, 1, 1, first.key, json.dumps(payload_of(first) | {"ddl": text}).encode())


def test_comments_that_a_connector_has_sent_are_left_out_unless_wanted() -> None:
    (out,) = Translator(NAME, NAME, None, BARE).translate(_commented(CREATE))
    (plain,), _ = written(ddl(CREATE, "CREATE"))
    assert payload_of(out)["tableChanges"] == payload_of(plain)["tableChanges"]


def test_comments_that_a_connector_has_sent_are_read_without_their_escapes() -> None:
    commented = _commented("?")
    payload = payload_of(ProducerRecord("topic", 0, 1, commented.key, commented.value))
    table = payload["tableChanges"][0]["table"]
    table["comment"] = table["columns"][0]["comment"] = "it''s \\\\ \"x\""
    record = ConsumerRecord("topic", 0, 1, 1, commented.key, json.dumps(payload).encode())
    translator = Translator(NAME, NAME, None, BARE | {"include.schema.comments": "true"})
    (first,) = translator.translate(record)
    assert payload_of(first)["tableChanges"] == payload["tableChanges"]
    altered = payload | {"ddl": "ALTER TABLE item ADD u INT", "tableChanges": []}
    (out,) = translator.translate(ConsumerRecord("topic", 0, 2, 2, first.key, json.dumps(altered).encode()))
    shown = payload_of(out)["tableChanges"][0]["table"]
    assert (shown["comment"], shown["columns"][0]["comment"]) == (table["comment"], table["comment"])


def test_what_an_old_release_leaves_out_is_that_of_the_statement() -> None:
    (first,), _ = written(ddl(CREATE, "CREATE"))
    payload = payload_of(first)
    old = payload_of(first)
    del old["tableChanges"][0]["table"]["comment"]
    for column in old["tableChanges"][0]["table"]["columns"]:
        for member in ("comment", "defaultValueExpression", "enumValues"):
            del column[member]
    record = ConsumerRecord("topic", 0, 1, 1, first.key, json.dumps(old).encode())
    (out,) = Translator(NAME, NAME, None, BARE).translate(record)
    (change,) = payload_of(out)["tableChanges"]
    assert change == payload["tableChanges"][0]
    assert list(change["table"]["columns"][0]) == list(payload["tableChanges"][0]["table"]["columns"][0])


@pytest.mark.parametrize("schemas", ["true", "false"])
@pytest.mark.parametrize(
    ("source", "message", "text"),
    [
        ("canal-json", {"isDdl": True, "type": "QUERY", "sql": "USE "}, "USE "),
        ("ticdc-canal-json", {"isDdl": True, "type": "QUERY", "sql": "USE", "database": "d"}, "USE"),
        ("ticdc-debezium", {"payload": {"source": {"connector": "TiCDC"}, "tableChanges": []}}, ""),
        ("ticdc-debezium", {"payload": {"source": {"connector": "TiCDC", "db": "d"}, "ddl": None}}, ""),
    ],
)
def test_a_statement_that_says_little_is_read_back(
    source: str, message: dict[str, Any], text: str, schemas: str
) -> None:
    cause = ConsumerRecord("topic", 0, 0, 1768443570999, None, json.dumps(message).encode())
    (out,) = Translator(source, NAME, None, {"schemas.enable": schemas}).translate(cause)
    back = ConsumerRecord("topic", 0, 0, 1768443570999, out.key, out.value)
    (event,) = Translator(NAME, NAME).inspect(back)
    assert isinstance(event, SchemaChange)
    assert event.ddl == text


# ---------------------------------------------------------------- definitions without a statement


def _shown(text: str | None) -> ConsumerRecord:
    """The message by which a connector's snapshot shows the table."""
    (first,), _ = written(ddl(CREATE, "CREATE"))
    payload = payload_of(first)
    payload["source"] |= {"snapshot": "true", "file": "mysql-bin.000001", "pos": 4}
    return ConsumerRecord("topic", 1, 1, 1, first.key, json.dumps(payload | {"ddl": text}).encode())


def test_a_definition_of_a_snapshot_is_sent_again() -> None:
    record = _shown(CREATE)
    translator = Translator(NAME, NAME, None, BARE)
    (out,) = translator.translate(record)
    assert payload_of(out) | {"source": None} == json.loads(record.value or b"") | {"source": None}
    source = payload_of(out)["source"]
    assert (source["snapshot"], source["db"], source["table"], source["pos"]) == ("true", "shop", "item", 4)
    assert translator.losses == {}
    assert out.key == b'{"databaseName":"shop"}'


def test_statements_of_a_snapshot_around_definitions_are_not() -> None:
    record = _shown("DROP TABLE IF EXISTS `shop`.`item`")
    payload = json.loads(record.value or b"")
    payload["tableChanges"][0] |= {"type": "DROP", "table": None}
    translator = Translator(NAME, NAME, None, BARE)
    assert translator.translate(msgspec.structs.replace(record, value=json.dumps(payload).encode())) == []
    assert translator.losses == {Loss.STATEMENT: 1}


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        (
            "CREATE TABLE orders (id INT PRIMARY KEY)",
            "CREATE TABLE `orders` (\n  `id` int NOT NULL,\n  PRIMARY KEY (`id`)\n)",
        ),
        ("CREATE TABLE orders (id INT PRIMARY KEY, b INT AS (id + 1))", None),
    ],
)
def test_a_definition_without_a_text_is_shown_by_one_if_it_can_be(text: str, shown: str | None) -> None:
    created = creation(text, Source("elsewhere", 7_000_000), 8_000_000)
    assert created.after is not None
    (out,), losses = encoded(Bootstrap(created.after, created.source, 8_000_000), options=BARE)
    payload = json.loads(out.value or b"")
    assert (payload["ddl"], payload["source"]["snapshot"]) == (shown, "true")
    assert [change["type"] for change in payload["tableChanges"]] == ["CREATE"]
    assert losses == [Loss.BINLOG_POSITION_SYNTHETIC]
    back = ConsumerRecord("topic", 0, 0, 1, out.key, out.value)
    (event,) = Translator(NAME, NAME).inspect(back)
    assert isinstance(event, Bootstrap)
    assert [column.name for column in event.schema.columns] == [
        column.name for column in created.after.columns
    ]


@pytest.mark.parametrize("options", [{"ddl": "drop"}, {"include.schema.changes": "false"}])
def test_definitions_are_left_out_with_statements(options: dict[str, str]) -> None:
    translator = Translator(NAME, NAME, None, BARE | options)
    assert (translator.translate(_shown(CREATE)), translator.losses) == ([], {Loss.BOOTSTRAP: 1})


def test_where_rows_are_spread_a_definition_goes_where_statements_go() -> None:
    translator = Translator(NAME, NAME, None, BARE, partitions=3)
    assert [out.partition for out in translator.translate(_shown(CREATE))] == [0]


@pytest.mark.parametrize("comments", ["true", "false"])
def test_a_declared_drop_may_lack_the_member_of_its_table(comments: str) -> None:
    message = {
        "source": {"connector": "mysql"},
        "databaseName": "d",
        "ddl": "DROP TABLE t",
        "tableChanges": [{"type": "DROP", "id": '"d"."t"'}],
    }
    translator = Translator(NAME, NAME, None, BARE | {"include.schema.comments": comments})
    (out,) = translator.translate(ConsumerRecord("dbz", 0, 0, 0, None, json.dumps(message).encode()))
    assert payload_of(out)["tableChanges"] == message["tableChanges"]
