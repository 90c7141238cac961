"""Columns that merged tables have in addition: rows, keys, definitions and statements."""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_json_support import ddl as debezium_ddl
from debezium_json_support import record as debezium_record
from debezium_json_support import row as debezium_row
from engine_support import ENGINE, ENGINES
from support import ALL_ROUTES, CAPTURED, TICDC, WRITABLE, captured, protocol_of, reading_options, record
from table_rules_support import outcome, row, statement
from templates_support import Both

from relay import (
    ColumnAction,
    ColumnRule,
    ConsumerRecord,
    Loss,
    NotRepresentable,
    Partitioning,
    TableRule,
    Translator,
)
from relay.core.verification import ShadowTranslator
from relay.templates.engine import Engine

SHARDS = TableRule(
    source=r"shop\.orders_(\d+)", target="shop.orders", merge=True, add=(("shard", "{table}"),)
)
PLAIN = TableRule(source=r"shop\.orders_(\d+)", target="shop.orders", merge=True)
CREATE = "CREATE TABLE orders_0 (`id` int PRIMARY KEY, `c` int)"


def written(*given: str, rules: TableRule = SHARDS, **more: Any) -> tuple[list[str], Translator]:
    """The output for the last of some statements about a shard."""
    translator = Translator("canal-json", "canal-json", tables=[rules], **more)
    found: list[Any] = []
    for at, text in enumerate(given):
        found = translator.translate(statement(text, "orders_0", at))
    return [json.loads(each.value or b"null")["sql"] for each in found], translator


# ---------------------------------------------------------------- statements


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        (
            "CREATE TABLE orders_0 (id INT, c INT, PRIMARY KEY (id))",
            "CREATE TABLE `orders` (`shard` varchar(255) NOT NULL, id INT, c INT, PRIMARY KEY (id, `shard`))",
        ),
        (
            "CREATE TABLE orders_0 (id INT NOT NULL AUTO_INCREMENT PRIMARY KEY COMMENT 'PRIMARY KEY')",
            ("CREATE TABLE `orders` (`shard` varchar(255) NOT NULL, id INT NOT NULL AUTO_INCREMENT  COMMENT 'PRIMARY KEY', "
            "PRIMARY KEY (`id`, `shard`))"),
        ),
        (
            "CREATE TABLE orders_0 (id INT, m VARCHAR(9) UNIQUE KEY, UNIQUE (id, m), KEY k (m)) ENGINE=InnoDB",
            ("CREATE TABLE `orders` (`shard` varchar(255) NOT NULL, id INT, m VARCHAR(9) , UNIQUE (id, m, `shard`), KEY k (m), "
            "UNIQUE KEY `m` (`m`, `shard`)) ENGINE=InnoDB"),
        ),
        (
            "CREATE TABLE orders_0 (id INT, d DECIMAL(5, 2), CONSTRAINT p PRIMARY KEY USING BTREE (id, d), FOREIGN KEY (d) REFERENCES o (d))",
            ("CREATE TABLE `orders` (`shard` varchar(255) NOT NULL, id INT, d DECIMAL(5, 2), "
            "CONSTRAINT p PRIMARY KEY USING BTREE (id, d, `shard`), FOREIGN KEY (d) REFERENCES o (d))"),
        ),
        # TiDB's attribute of a primary key.
        (
            "CREATE TABLE orders_0 (id INT PRIMARY KEY NONCLUSTERED, c INT)",
            ("CREATE TABLE `orders` (`shard` varchar(255) NOT NULL, id INT  , c INT, "
            "PRIMARY KEY (`id`, `shard`) /*T![clustered_index] NONCLUSTERED */)"),
        ),
        ("CREATE TABLE orders_0 (id INT)", "CREATE TABLE `orders` (`shard` varchar(255) NOT NULL, id INT)"),
    ],
)  # fmt: skip
def test_a_created_table_has_the_column_in_its_keys(sql: str, expected: str) -> None:
    found, translator = written(sql)
    assert found == [expected]
    # The text defines the table that rows are written with.
    target = Translator.reader("canal-json")
    target.inspect(statement(expected, "orders"))
    (schema,) = target.catalog.present_tables()
    assert schema.columns[0].name == "shard"
    assert all(key.columns[-1] == "shard" for key in schema.unique_keys)
    assert not translator.losses


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE orders_0 ADD x INT", "ALTER TABLE `orders` ADD x INT"),
        ("ALTER TABLE orders_0 ADD x INT FIRST", "ALTER TABLE `orders` ADD x INT AFTER `shard`"),
        ("ALTER TABLE orders_0 ADD first INT FIRST", "ALTER TABLE `orders` ADD first INT AFTER `shard`"),
        ("ALTER TABLE orders_0 MODIFY c BIGINT FIRST, DROP m", "ALTER TABLE `orders` MODIFY c BIGINT AFTER `shard`, DROP m"),
        ("ALTER TABLE orders_0 ADD UNIQUE INDEX u (c, m)", "ALTER TABLE `orders` ADD UNIQUE INDEX u (c, m, `shard`)"),
        ("ALTER TABLE orders_0 ADD INDEX i (c)", "ALTER TABLE `orders` ADD INDEX i (c)"),
        ("ALTER TABLE orders_0 ADD x INT UNIQUE", "ALTER TABLE `orders` ADD x INT , ADD UNIQUE KEY `x` (`x`, `shard`)"),
        ("ALTER TABLE orders_0 DROP PRIMARY KEY, ADD PRIMARY KEY (c)", "ALTER TABLE `orders` DROP PRIMARY KEY, ADD PRIMARY KEY (c, `shard`)"),
        ("CREATE UNIQUE INDEX u ON orders_0 (m(3))", "CREATE UNIQUE INDEX u ON `orders` (m(3), `shard`)"),
        ("CREATE INDEX i ON orders_0 (m)", "CREATE INDEX i ON `orders` (m)"),
        ("DROP INDEX k ON orders_0", "DROP INDEX k ON `orders`"),
    ],
)  # fmt: skip
def test_later_statements_keep_the_column_in_keys(sql: str, expected: str) -> None:
    create = "CREATE TABLE orders_0 (id INT PRIMARY KEY, c INT, m VARCHAR(9), KEY k (m))"
    found, translator = written(create, sql)
    assert (found, translator.losses[Loss.DDL_NOT_REWRITTEN]) == ([expected], 0)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE TABLE orders_0 (id INT KEY)",
        "CREATE TABLE orders_0 AS SELECT * FROM other",
        "CREATE TABLE orders_0 LIKE other",
    ],
)
def test_other_statements_are_not_written(sql: str) -> None:
    found, translator = written(sql)
    assert (found, translator.losses[Loss.DDL_NOT_REWRITTEN]) == ([], 1)


# ---------------------------------------------------------------- rows and keys


@pytest.mark.parametrize("is_known", [True, False])
@pytest.mark.parametrize(
    ("target", "key"),
    [
        ("flat-json", {"shard": "orders_0", "id": 1}),
        ("debezium-json", {"id": 1, "shard": "orders_0"}),
        ("ticdc-debezium", {"id": 1, "shard": "orders_0"}),
        ("maxwell-json", {"database": "shop", "table": "orders", "pk.id": 1, "pk.shard": "orders_0"}),
    ],
)
def test_keys_have_the_column(target: str, key: dict[str, Any], is_known: bool) -> None:
    translator = Translator("canal-json", target, tables=[SHARDS])
    if is_known:
        translator.translate(statement(CREATE, "orders_0", 0))
    (out,) = translator.translate(row("orders_0", 1))
    found = json.loads(out.key or b"null")
    assert found.get("payload", found) == key
    assert b'"orders_0"' in (out.value or b"")
    assert b"orders_0" not in (out.value or b"").replace(b'"shard":"orders_0"', b"")


def test_values_have_placeholders() -> None:
    added = (("db", "{database}"), ("number", "{1}"), ("kind", "{kind}-x"), ("fixed", "a"))
    rules = TableRule(source=r".*\.(?P<kind>orders)_(\d+)", target="all.{kind}", merge=True, add=added)
    translator = Translator("canal-json", "canal-json", tables=[rules])
    (out,) = translator.translate(row("orders_7", 1))
    message = json.loads(out.value or b"null")
    expected = {"db": "shop", "number": "orders", "kind": "orders-x", "fixed": "a", "id": "1", "c": "7"}
    assert (message["data"], message["pkNames"]) == ([expected], ["db", "number", "kind", "fixed", "id"])
    assert message["mysqlType"]["db"] == "varchar(255)"


def test_rows_of_one_key_stay_in_one_partition_and_shards_are_apart() -> None:
    settings: dict[str, Any] = {"partitions": 50, "partition_by": Partitioning.INDEX_VALUE}

    def partitions(rules: TableRule) -> list[int]:
        translator = Translator("canal-json", "canal-json", tables=[rules], **settings)
        return [translator.translate(row(f"orders_{at}", 1))[0].partition for at in (0, 1, 0)]

    same, apart = partitions(PLAIN), partitions(SHARDS)
    assert same[0] == same[1] == same[2]
    assert apart[0] == apart[2] != apart[1]


def test_column_rules_come_before() -> None:
    columns = [ColumnRule(tables=("shop.*",), columns=("c",), action=ColumnAction.RENAME, name="shard")]
    translator = Translator("canal-json", "canal-json", columns=columns, tables=[SHARDS])
    with pytest.raises(NotRepresentable, match=r"table shop\.orders_0 has a column of this name"):
        translator.translate(row("orders_0", 1))


def test_a_value_that_is_too_long_is_refused() -> None:
    rules = TableRule(source=r"shop\..*", target="a.b", merge=True, add=(("s", "{table}" * 32),))
    with pytest.raises(NotRepresentable, match="more than 255 characters"):
        Translator("canal-json", "canal-json", tables=[rules]).translate(row("orders_0", 1))


def test_the_field_of_debeziums_router_is_replaced_by_the_column() -> None:
    """ByLogicalTableRouter adds a field to keys; messages still name the shard."""
    field = {"__dbz__physicalTableIdentifier": "dbz.shop.orders_0"}
    message = debezium_row(after={"id": 1, "c": 2}) | {}
    message["source"]["table"] = "orders_0"
    translator = Translator(
        "debezium-json", "debezium-json", None, {"schemas.enable": "false"}, tables=[SHARDS]
    )
    create = debezium_ddl("CREATE TABLE orders_0 (id INT PRIMARY KEY, c INT)")
    translator.translate(debezium_record(create, topic="dbz"))
    (out,) = translator.translate(debezium_record(message, {"id": 1} | field, 1))
    assert json.loads(out.key or b"null") == {"id": 1, "shard": "orders_0"}
    value = json.loads(out.value or b"null")
    assert (value["after"], value["source"]["table"]) == ({"shard": "orders_0", "id": 1, "c": 2}, "orders")
    assert translator.losses[Loss.UNKNOWN_FIELDS] == 1


# ---------------------------------------------------------------- templates


def _ticdc(table: str, at: int, op: str = "INSERT", old: dict[str, str] | None = None) -> ConsumerRecord:
    message = {
        "id": 0, "database": "shop", "table": table, "pkNames": ["id"], "isDdl": False, "type": op,
        "es": 1_700_000_000_000 + at, "ts": 1_700_000_000_000 + at, "sql": "", "sqlType": {"id": 4, "c": 4},
        "mysqlType": {"id": "int", "c": "int"}, "old": [old] if old else None,
        "data": [{"id": str(at), "c": str(at * 7)}], "_tidb": {"commitTs": (1_700_000_000_000 + at) << 18},
    }  # fmt: skip
    return record(json.dumps(message, separators=(",", ":")), offset=at, timestamp_ms=1_700_000_000_000)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", ["canal-json", "debezium-json", "flat-json", "maxwell-json"])
@pytest.mark.parametrize("rules", [PLAIN, SHARDS], ids=["plain", "added"])
def test_rows_of_merged_tables_have_templates(rules: TableRule, target: str, engine: type[Engine]) -> None:
    both = Both(TICDC, target=target, engine=engine, tables=[rules], topic="{database}.{table}")
    for op, old in (("INSERT", None), ("UPDATE", {"c": "1"}), ("DELETE", None)):
        for table in ("orders_0", "orders_1"):
            both.learn(*[_ticdc(table, at, op, old) for at in (1, 2)])
        assert all(both.fits(_ticdc(f"orders_{at % 2}", at, op, old)) for at in (3, 4, 5))
    for at in range(6, 12):  # the key changes
        both.fits(_ticdc(f"orders_{at % 2}", at, "UPDATE", {"id": "1", "c": "1"}))


_ALL = sorted(WRITABLE)
_ROUTES = [
    (file, target)
    for at, file in enumerate(CAPTURED)
    for number, target in enumerate(_ALL)
    if ALL_ROUTES or (at + number) % (3 * len(_ALL)) == 1
]


@pytest.mark.parametrize(("file", "target"), _ROUTES)
def test_templates_and_readers_agree(file: str, target: str) -> None:
    source, options, records = protocol_of(file), reading_options(file), captured(file)
    rules = [
        TableRule(source=r"(.*)\.(.*)", target="all.{2}", merge=True, add=(("from_db", "{1}"), ("shard", "{table}")))
    ]  # fmt: skip
    slow, checked = (
        made(source, target, options, tables=rules, engine=engine)
        for made, engine in ((Translator, None), (ShadowTranslator, ENGINE))
    )
    assert outcome(checked, records) == outcome(slow, records)
    assert (checked.losses, checked.events) == (slow.losses, slow.events)
