"""TiCDC Debezium JSON, written: schema blocks, options, losses, and DDL."""

from __future__ import annotations

import json
from typing import Any

import pytest
import support
from ckafka_support import ddl as ckafka_ddl
from ckafka_support import row as ckafka_row
from debezium_support import DEBEZIUM, NO_SCHEMA, message, record
from open_support import cell, framed
from open_support import ddl as open_ddl
from open_support import row as open_row
from support import OPEN, TICDC, row_message

from relay import (
    ABSENT,
    Column,
    ColumnType,
    ConsumerRecord,
    Default,
    Loss,
    NotRepresentable,
    Op,
    RowChange,
    Translator,
)
from relay.codecs import PROTOCOLS
from relay.codecs.given_options import parse_options
from relay.model.events import Generated, Rows, Source, TableId, TableSchema
from relay.model.lookups import LookupCache
from relay.mysql.ddl.views import view_columns

# ---------------------------------------------------------------- written

OPEN_ROW = framed(
    open_row(
        {"u": {"id": cell(3, 1, 11), "e": cell(247, 2, 64), "s": cell(248, 5, 64), "n": cell(248, 0, 64)}}
    )
)
CANAL_ROW = record(
    row_message(
        {"id": "int", "e": "enum", "s": "set", "n": "set"},
        {"id": "1", "e": "2", "s": "5", "n": "0"},
        pkNames=["id"],
    )
)


@pytest.mark.parametrize(("source", "one"), [(OPEN, OPEN_ROW), (TICDC, CANAL_ROW)])
@pytest.mark.parametrize("options", [NO_SCHEMA, {}])
def test_without_ddl_numbers_of_members_are_digits(
    source: str, one: ConsumerRecord, options: dict[str, str]
) -> None:
    """As after a restart: the stream goes on."""
    translator = Translator(source, DEBEZIUM, None, options)
    for times in (1, 2):
        (out,) = translator.translate(one)
        assert json.loads(out.value or b"")["payload"]["after"] == {"id": 1, "e": "2", "s": "5", "n": ""}
        assert translator.losses[Loss.ENUM_INDEX] == 2 * times
    with pytest.raises(NotRepresentable, match="enum-index"):
        Translator(source, DEBEZIUM, None, options | {"strict": "true"}).translate(one)


def encoded(
    schema: TableSchema, before: Any, after: Any, options: dict[str, str] | None = None, **more: Any
) -> tuple[dict[str, Any], dict[str, Any], list[Loss]]:
    """Key, value and losses of a row."""
    codec = PROTOCOLS[DEBEZIUM]
    op = Op.UPDATE if before and after else Op.INSERT if after else Op.DELETE
    source = Source("x", 1768443630000 * 10**6, 463586886942720001, **more)
    losses: list[Loss] = []
    change = RowChange(op, schema, Rows(before, after), source, 1768443630450 * 10**6)
    (payload,) = codec.open_encoder(parse_options(codec, options or {}, "options"), LookupCache()).encode(
        [change], record(None), losses
    )
    return json.loads(payload.key or b""), json.loads(payload.value or b""), losses


T = TableSchema(
    TableId("1a", "t-名.x"),
    (
        Column("id", ColumnType("int"), nullable=False),
        Column("v", ColumnType("varchar"), nullable=False),
        Column("w", ColumnType("int")),
    ),
    primary_key=("id",),
)


def test_schema_names_are_made_of_allowed_characters_alone() -> None:
    key, value, losses = encoded(T, None, (1, "x", 2), {"cluster-id": "prod-cdc"})
    assert key["schema"]["name"] == "prod_cdc._1a.t__.x.Key"
    assert value["schema"]["name"] == "prod_cdc._1a.t__.x.Envelope"
    assert value["schema"]["fields"][1]["name"] == "prod_cdc._1a.t__.x.Value"
    source = value["payload"]["source"]
    assert (source["name"], source["cluster_id"], source["db"], source["table"]) == (
        "prod-cdc",
        "prod-cdc",
        "1a",
        "t-名.x",
    )
    assert not losses


def fields_of(value: dict[str, Any]) -> dict[str, bool]:
    """The columns of the block, and whether they are optional."""
    before, after = (part["fields"] for part in value["schema"]["fields"][:2])
    assert before == after
    return {field["field"]: field["optional"] for field in after}


def test_a_row_without_some_columns_has_a_block_without_them() -> None:
    key, value, _ = encoded(T, (1, ABSENT, ABSENT), None)
    assert key["payload"] == {"id": 1}
    assert value["payload"]["before"] == {"id": 1}
    assert fields_of(value) == {"id": False}
    _, value, _ = encoded(T, (1, ABSENT, 5), (1, "x", 5))
    assert fields_of(value) == {"id": False, "v": True, "w": True}
    _, value, _ = encoded(T, (1, "y", 5), (1, "x", 5))
    assert fields_of(value) == {"id": False, "v": False, "w": True}


def test_start_ts() -> None:
    options = {"debezium-include-start-ts": "true", "enable-tidb-extension": "true"}
    _, value, losses = encoded(T, None, (1, "x", 2), options, start_ts=5)
    assert list(value["payload"]["source"])[-3:] == ["commit_ts", "start_ts", "cluster_id"]
    assert [field["field"] for field in value["schema"]["fields"][2]["fields"]][-3:] == [
        "commit_ts",
        "cluster_id",
        "start_ts",
    ]
    assert not losses
    _, value, losses = encoded(T, None, (1, "x", 2), {}, start_ts=5)
    assert "start_ts" not in value["payload"]["source"]
    assert losses == [Loss.START_TS]
    _, value, losses = encoded(T, None, (1, "x", 2), options)
    assert "start_ts" not in value["payload"]["source"]
    assert not losses


def test_what_source_has_no_member_for_is_counted() -> None:
    more: dict[str, Any] = {
        "gtid": "g:1",
        "unknown_fields": {"a": 1},
        "row_key": b"k",
        "binlog_position": 4,
        "snapshot": True,
    }
    *_, losses = encoded(T, None, (1, "x", 2), **more)
    assert sorted(losses) == sorted(
        [Loss.GTID, Loss.UNKNOWN_FIELDS, Loss.ROW_KEY, Loss.BINLOG_POSITION, Loss.SNAPSHOT]
    )


def test_an_update_without_old_value() -> None:
    _, value, losses = encoded(T, (1, "y", 2), (1, "x", 2), {"output-old-value": "false"})
    assert "before" not in value["payload"]
    assert losses == [Loss.BEFORE_IMAGE]


def test_an_old_row_that_is_not_written_loses_nothing_more() -> None:
    schema = TableSchema(
        TableId("d", "t"), (Column("id", ColumnType("int")), Column("at", ColumnType("date")))
    )
    rows = (1, "0000-00-00"), (1, "2020-02-03")
    assert encoded(schema, *rows)[2] == [Loss.ZERO_DATE]
    assert encoded(schema, *rows, {"output-old-value": "false"})[2] == [Loss.BEFORE_IMAGE]


DEFAULTED = TableSchema(
    TableId("d", "t"),
    (
        Column("id", ColumnType("int"), nullable=False),
        Column("v", ColumnType("int"), nullable=True, default=Default("5")),
    ),
    primary_key=("id",),
)


@pytest.mark.parametrize(
    ("replaces", "shown", "lost"), [("true", 5, [Loss.NULL_REPLACED_BY_DEFAULT]), ("false", None, [])]
)
def test_null_with_a_default(replaces: str, shown: int | None, lost: list[Loss]) -> None:
    _, value, losses = encoded(DEFAULTED, None, (1, None), {"replace.null.with.default": replaces})
    assert value["payload"]["after"] == {"id": 1, "v": shown}
    assert losses == lost


def shown_columns(value: dict[str, Any]) -> dict[str, dict[str, Any]]:
    """What the schema block says of the columns, each of which it lists once."""
    fields = value["schema"]["fields"][0]["fields"]
    columns = {field["field"]: field for field in fields}
    assert len(columns) == len(fields)
    return columns


def test_a_schema_lets_readers_see_null_where_null_is_written() -> None:
    """Kafka Connect's JsonConverter reads a NULL, or a column that a row lacks, as the schema's default."""
    columns = (*DEFAULTED.columns, Column("n", ColumnType("int"), nullable=False, default=Default("7")))
    schema = TableSchema(DEFAULTED.id, columns, DEFAULTED.primary_key)
    keeping = {"replace.null.with.default": "false"}

    def defaults(before: Any, options: dict[str, str]) -> dict[str, Any]:
        _, value, _ = encoded(schema, before, (1, 6, 2), options)
        return {name: shown["default"] for name, shown in shown_columns(value).items() if "default" in shown}

    assert defaults(None, {}) == {"v": 5, "n": 7}
    assert defaults(None, keeping) == {"n": 7}
    assert defaults((1, 5, ABSENT), {}) == {"v": 5, "n": 7}
    assert defaults((1, 5, ABSENT), keeping) == {}


@pytest.mark.parametrize("before", [None, (1, ABSENT, ABSENT), (1, ABSENT, 2)])
def test_a_virtual_column_is_in_a_schema_once_and_optional(before: Any) -> None:
    """Kafka Connect refuses a schema with a column twice, and a row without one that is not optional."""
    schema = TableSchema(
        T.id,
        (
            Column("id", ColumnType("int"), nullable=False),
            Column("g", ColumnType("int"), nullable=False, generated=Generated.VIRTUAL),
            Column("c", ColumnType("int"), nullable=False),
        ),
        primary_key=("id",),
    )
    _, value, _ = encoded(schema, before, (1, ABSENT, 2))
    assert list(shown_columns(value)) == ["id", "g", "c"]
    assert shown_columns(value)["g"]["optional"]
    assert not shown_columns(value)["id"]["optional"]


def test_a_route_that_would_lose_is_refused_when_strict() -> None:
    translator = Translator(TICDC, DEBEZIUM, None, {"strict": "true"})
    row_message = {
        "database": "d", "table": "t", "isDdl": False, "type": "INSERT", "es": 1, "pkNames": [], "mysqlType": {"a": "decimal"},
        "data": [{"a": "12345678901234567.89"}], "_tidb": {"commitTs": 5},
    }  # fmt: skip
    with pytest.raises(NotRepresentable, match="decimal-digits"):
        translator.translate(record(row_message))


def test_numbers_beyond_64_bits_are_refused() -> None:
    translator = Translator(TICDC, DEBEZIUM)
    row_message = {
        "database": "d", "table": "t", "isDdl": False, "type": "INSERT", "es": 1, "mysqlType": {"a": "bigint unsigned"},
        "data": [{"a": "99999999999999999999"}],
    }  # fmt: skip
    with pytest.raises(NotRepresentable, match="not of its column's type"):
        translator.translate(record(row_message))


def test_long_escapes_of_go() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM, None, NO_SCHEMA)
    (out,) = translator.translate(record(message(after={"k": "\b\f\\b\n\x7f"}), {"payload": {"k": "x"}}))
    assert b'"after":{"k":"\\u0008\\u000c\\\\b\\n\x7f"}' in (out.value or b"")
    assert out.key == b'{"payload":{"k":"\\u0008\\u000c\\\\b\\n\x7f"}}'


def test_a_split_update_of_a_key() -> None:
    update = message("u", before={"id": 1, "v": "x"}, after={"id": 2, "v": "x"})
    translator = Translator(DEBEZIUM, DEBEZIUM, None, NO_SCHEMA | {"output-raw-change-event": "false"})
    out = translator.translate(record(update, {"payload": {"id": 2}}))
    assert [json.loads(one.value or b"")["payload"]["op"] for one in out] == ["d", "c"]
    assert [one.key for one in out] == [b'{"payload":{"id":1}}', b'{"payload":{"id":2}}']


def test_watermarks_need_the_extension() -> None:
    translator = Translator(DEBEZIUM, DEBEZIUM)
    assert not translator.translate(record(message("m")))
    assert translator.losses == {Loss.WATERMARK: 1}


# ---------------------------------------------------------------- DDL


def changes(*statements: tuple[str, str], target: dict[str, str] | None = None) -> list[dict[str, Any]]:
    """The payloads that DDL statements of Canal-JSON become."""
    translator = Translator(TICDC, DEBEZIUM, None, NO_SCHEMA | (target or {}))
    found = []
    for at, (table, sql) in enumerate(statements, 1):
        canal = {
            "database": "d",
            "table": table,
            "isDdl": True,
            "type": "QUERY",
            "es": at,
            "sql": sql,
            "_tidb": {"commitTs": at},
        }
        found += [
            json.loads(out.value or b"")["payload"] for out in translator.translate(record(canal, offset=at))
        ]
    return found


ONE = (
    "t",
    "CREATE TABLE `t` (`id` INT NOT NULL PRIMARY KEY COMMENT 'key',`at` DATETIME,`y` YEAR,`u` INT NOT NULL,UNIQUE KEY `k`(`u`))",
)


@pytest.mark.parametrize(
    ("table", "sql", "kind", "has_table"),
    [
        ("t", "ALTER TABLE `t` ADD COLUMN `c` INT", "ALTER", True),
        ("t", "ALTER TABLE `t` DROP COLUMN `at`", "ALTER", True),
        ("t", "ALTER TABLE `t` DROP INDEX `k`", "DROP", True),
        ("t", "ALTER TABLE `t` DROP PRIMARY KEY", "ALTER", True),
        ("t", "ALTER TABLE `t` DROP INDEX `k`, ADD COLUMN `c` INT", "ALTER", True),
        ("t", "ALTER TABLE `t` DROP FOREIGN KEY `f`", "ALTER", True),
        ("t", "ALTER TABLE `t` REMOVE TTL", "ALTER", True),
        ("t", "RECOVER TABLE `t`", "CREATE", True),
        ("t", "DROP TABLE `d`.`t`", "DROP", False),
        ("t", "TRUNCATE TABLE `t`", None, False),
        ("", "DROP DATABASE `d`", None, False),
        ("", "ALTER DATABASE `d` CHARACTER SET utf8mb4", None, False),
        ("s", "CREATE SEQUENCE `s`", None, False),
        ("t", "no statement at all", None, False),
        ("other", "ALTER TABLE `other` ADD COLUMN `c` INT", "ALTER", False),
        ("other", "CREATE TABLE `other` LIKE `unknown`", "CREATE", False),
        ("other", "DROP INDEX `k` ON `other`", "DROP", False),
    ],
)
def test_table_changes(table: str, sql: str, kind: str | None, has_table: bool) -> None:
    made = changes(ONE, (table, sql))[-1]
    assert (made["ddl"], made["databaseName"], made["source"]["table"]) == (sql, "d", table)
    assert [change["type"] for change in made["tableChanges"]] == ([] if kind is None else [kind])
    assert all((change["table"] is not None) is has_table for change in made["tableChanges"])


def columns_of(payload: dict[str, Any]) -> dict[str, dict[str, Any]]:
    return {column["name"]: column for column in payload["tableChanges"][0]["table"]["columns"]}


def test_columns_that_the_statement_does_not_define_are_shown_as_tidb_keeps_them() -> None:
    created, altered = changes(ONE, ("t", "ALTER TABLE `t` ADD COLUMN `c` DATETIME COMMENT 'new'"))
    assert [
        (columns_of(created)[name]["length"], columns_of(created)[name]["comment"])
        for name in ("id", "at", "y")
    ] == [(None, None)] * 3
    assert [(columns_of(altered)[name]["length"], columns_of(altered)[name]["comment"]) for name in ("id", "at", "y", "c")] == [
        (None, "key"), (0, None), (4, None), (None, None),
    ]  # fmt: skip


def test_several_tables_in_one_statement() -> None:
    *_, first, second = changes(ONE, ("t", "DROP TABLE `t`, `u`"))
    assert [payload["ddl"] for payload in (first, second)] == ["DROP TABLE `d`.`t`", "DROP TABLE `d`.`u`"]
    assert [payload["tableChanges"][0]["id"] for payload in (first, second)] == ['"d"."t"', '"d"."u"']


def test_a_rename_has_both_names() -> None:
    made = changes(ONE, ("t2", "RENAME TABLE `d`.`t` TO `d`.`t2`"))[-1]
    assert made["tableChanges"][0]["id"] == '"d"."t","d"."t2"'
    assert made["source"]["table"] == "t2"
    assert made["tableChanges"][0]["table"]["primaryKeyColumnNames"] == ["id"]


def test_an_exchanged_partition_names_the_other_table() -> None:
    made = changes(ONE, ("t", "ALTER TABLE `d`.`p` EXCHANGE PARTITION `p0` WITH TABLE `d`.`t`"))[-1]
    assert made["tableChanges"][0]["id"] == '"d"."p"'
    assert made["source"]["table"] == "t"


@pytest.mark.parametrize(
    ("sql", "names"),
    [
        ("CREATE VIEW `v` AS SELECT `id`,`name` FROM `t`", ("id", "name")),
        ("CREATE VIEW `d`.`v` (`a`, `b``c`) AS SELECT 1, 2", ("a", "b`c")),
        ("CREATE OR REPLACE VIEW v AS SELECT t.id AS x, `t`.`y` FROM t", ("x", "y")),
        ("CREATE VIEW `v` (a, b, A) AS SELECT 1, 2, 3", None),
        ("CREATE VIEW `v` AS SELECT * FROM `t`", None),
        ("CREATE VIEW `v` AS SELECT COUNT(*) FROM `t`", None),
        ("CREATE VIEW `v` AS TABLE `t`", None),
    ],
)
def test_the_columns_of_a_view(sql: str, names: tuple[str, ...] | None) -> None:
    assert view_columns(sql) == names
    made = changes(("v", sql), ("v", "DROP VIEW `d`.`v`"))
    tables = [change["table"] for payload in made for change in payload["tableChanges"]]
    shown = [table and [column["name"] for column in table["columns"]] for table in tables]
    assert shown == [list(names) if names else None] * 2
    assert [change["type"] for payload in made for change in payload["tableChanges"]] == ["CREATE", "DROP"]


def test_a_renamed_view_is_shown_as_a_view() -> None:
    created, renamed = changes(
        ("v", "CREATE VIEW v (a /* b */, c) AS SELECT 1, 2"), ("w", "RENAME TABLE v TO w")
    )
    (before,), (after,) = created["tableChanges"], renamed["tableChanges"]
    assert [column["name"] for column in before["table"]["columns"]] == ["a", "c"]
    assert after == {"type": "ALTER", "id": '"d"."v","d"."w"', "table": before["table"]}


@pytest.mark.parametrize("options", [{}, {"debezium-disable-schema": "true"}])
@pytest.mark.parametrize("source", ["canal-json", "ckafka-json", "ticdc-open-protocol"])
def test_a_bit_is_0_or_1(source: str, options: dict[str, str]) -> None:
    """Every other number would become true, which looks right."""
    statement = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`c` BIT(1) DEFAULT b'0')"
    for value, expected in (("0", False), ("1", True), ("2", None), ("32768", None), ("-1", None)):
        translator = Translator(source, DEBEZIUM, None, options)
        if source == "ticdc-open-protocol":
            cells = {"id": {"t": 3, "f": 11, "v": 1}, "c": {"t": 16, "f": 225, "v": int(value)}}
            given = [framed(open_ddl(statement)), framed(open_row({"u": cells}), offset=1)]
        elif source == "ckafka-json":
            given = [
                support.record(ckafka_ddl(statement)),
                support.record(ckafka_row({"id": "1", "c": value}), 1),
            ]
        else:
            create = row_message({}, isDdl=True, type="CREATE", sql=statement, data=None)
            given = [
                support.record(create),
                support.record(row_message({"id": "int", "c": "bit(1)"}, {"id": "1", "c": value}), 1),
            ]
        translator.translate(given[0])
        for _ in range(20):
            if expected is None:
                with pytest.raises(NotRepresentable) as raised:
                    translator.translate(given[1])
                assert raised.value.path == "c"
            else:
                (out,) = translator.translate(given[1])
                assert json.loads(out.value or b"")["payload"]["after"]["c"] is expected
