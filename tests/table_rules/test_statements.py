"""DDL statements with the target's names of tables."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
from support import record
from table_rules_support import rule, statement

from relay import ConsumerRecord, EncodeError, Loss, TableRule, Translator

CREATE = "CREATE TABLE `{}` (`id` int PRIMARY KEY, `c` int)"
#: One table goes to another database; one gets another name; a whole database gets another name.
MOVED = (rule(r"shop\.orders", "archive.orders"),)
NAMED = (rule(r"shop\.orders", "shop.sales"),)
WHOLE = (rule(r"shop\.(.*)", "archive.{1}"),)
#: All tables of a database get other names.
PREFIXED = (rule(r"shop\.(.*)", "shop.x_{1}"),)
#: Some names would be too long.
LONG = (rule(r"shop\.(.*)", f"shop.{'x' * 50}{{1}}"),)
#: One name for shards, of which only one is known.
SHARDS = (rule(r"shop\.orders_\d+", "shop.orders"),)
#: Of two tables, each gets the other's name.
SWAPPED = (rule(r"shop\.orders", "shop.lines"), rule(r"shop\.lines", "shop.orders"))


def written(
    rules: tuple[TableRule, ...], sql: str, table: str = "orders", *, target: str = "canal-json", **more: Any
) -> tuple[list[str], Translator]:
    """Return what is written for a statement after the tables' definitions: `database.table: text`."""
    translator = Translator("canal-json", target, tables=rules, **more)
    known = ["orders", "lines", "customers", "orders_1"]
    for at, name in enumerate(known):
        if name != "orders_1" or rules == SHARDS:
            if name == "orders" and rules == SHARDS:
                continue
            translator.translate(statement(CREATE.format(name), name, at))
    found = [json.loads(each.value or b"null") for each in translator.translate(statement(sql, table, 9))]
    return [f"{each['database']}.{each['table']}: {each['sql']}" for each in found], translator


@pytest.mark.parametrize(
    ("rules", "sql", "expected"),
    [
        # The names of the statement's own table.
        (MOVED, "ALTER TABLE orders ADD x int", "archive.orders: ALTER TABLE orders ADD x int"),
        (MOVED, "ALTER TABLE shop.orders ADD x int", "archive.orders: ALTER TABLE `archive`.`orders` ADD x int"),
        (MOVED, "ALTER TABLE `shop` . `orders` ADD x int", "archive.orders: ALTER TABLE `archive`.`orders` ADD x int"),
        (NAMED, "ALTER TABLE orders ADD x int", "shop.sales: ALTER TABLE `sales` ADD x int"),
        (NAMED, "alter table /* the orders */ `orders` add x int", "shop.sales: alter table /* the orders */ `sales` add x int"),
        (NAMED, "ALTER TABLE orders COMMENT='orders'", "shop.sales: ALTER TABLE `sales` COMMENT='orders'"),
        (NAMED, "ALTER TABLE orders ADD orders int", "shop.sales: ALTER TABLE `sales` ADD orders int"),
        (NAMED, "TRUNCATE orders", "shop.sales: TRUNCATE `sales`"),
        (NAMED, "TRUNCATE TABLE shop.orders", "shop.sales: TRUNCATE TABLE `shop`.`sales`"),
        (NAMED, "CREATE UNIQUE INDEX orders ON orders (c)", "shop.sales: CREATE UNIQUE INDEX orders ON `sales` (c)"),
        (NAMED, "DROP INDEX orders ON `orders`", "shop.sales: DROP INDEX orders ON `sales`"),
        (NAMED, "OPTIMIZE TABLE orders", "shop.sales: OPTIMIZE TABLE `sales`"),
        (NAMED, "CREATE TABLE IF NOT EXISTS orders (id int)", "shop.sales: CREATE TABLE IF NOT EXISTS `sales` (id int)"),
        (NAMED, "/*!40101 ALTER TABLE orders ADD x int */", "shop.sales: /*!40101 ALTER TABLE `sales` ADD x int */"),
        (NAMED, "ALTER TABLE orders ADD x ENUM('a\\\\b','c')", "shop.sales: ALTER TABLE `sales` ADD x ENUM('a\\\\b','c')"),
        # Several tables.
        (NAMED, "DROP TABLE IF EXISTS customers, orders", "shop.customers: DROP TABLE IF EXISTS customers, `sales`"),
        (MOVED, "DROP TABLE orders, lines", "archive.orders: DROP TABLE orders, `shop`.`lines`"),
        (MOVED, "ALTER TABLE orders RENAME TO orders_2", "shop.orders_2: ALTER TABLE `archive`.`orders` RENAME TO orders_2"),
        (MOVED, "RENAME TABLE orders TO o, lines TO orders", "shop.o: RENAME TABLE `archive`.`orders` TO o, lines TO `archive`.`orders`"),
        (SWAPPED, "RENAME TABLE orders TO t, lines TO orders", "shop.t: RENAME TABLE `lines` TO t, `orders` TO `lines`"),
        (NAMED, "ALTER TABLE lines EXCHANGE PARTITION p WITH TABLE orders", "shop.lines: ALTER TABLE lines EXCHANGE PARTITION p WITH TABLE `sales`"),
        # Other tables.
        (MOVED, "CREATE TABLE copy LIKE orders", "shop.copy: CREATE TABLE copy LIKE `archive`.`orders`"),
        (NAMED, "CREATE TABLE copy (LIKE shop.orders)", "shop.copy: CREATE TABLE copy (LIKE `shop`.`sales`)"),
        (MOVED, "ALTER TABLE orders ADD FOREIGN KEY (c) REFERENCES customers (id)", "archive.orders: ALTER TABLE orders ADD FOREIGN KEY (c) REFERENCES `shop`.`customers` (id)"),
        (MOVED, "CREATE TABLE a (c int REFERENCES orders (id))", "shop.a: CREATE TABLE a (c int REFERENCES `archive`.`orders` (id))"),
        (NAMED, "CREATE TABLE a (c int, CONSTRAINT orders FOREIGN KEY (c) REFERENCES `orders`(id))", "shop.a: CREATE TABLE a (c int, CONSTRAINT orders FOREIGN KEY (c) REFERENCES `sales`(id))"),
        (MOVED, "CREATE TABLE a (c int, `references` int)", "shop.a: CREATE TABLE a (c int, `references` int)"),
        (MOVED, "CREATE TABLE a (c int, FOREIGN KEY (c) REFERENCES orders (id)) SELECT 1 AS c", "shop.a: CREATE TABLE a (c int, FOREIGN KEY (c) REFERENCES `archive`.`orders` (id)) SELECT 1 AS c"),
        (NAMED, "CREATE TABLE a (c int) ENGINE=MERGE UNION=(orders, lines)", "shop.a: CREATE TABLE a (c int) ENGINE=MERGE UNION=(`sales`, lines)"),
        (NAMED, "ALTER TABLE orders ADD `union` int", "shop.sales: ALTER TABLE `sales` ADD `union` int"),
        (NAMED, "CREATE TABLE a (c int DEFAULT NEXT VALUE FOR shop.orders)", "shop.a: CREATE TABLE a (c int DEFAULT NEXT VALUE FOR `shop`.`sales`)"),
        (NAMED, "CREATE TABLE a (c int DEFAULT (nextval(orders)))", "shop.a: CREATE TABLE a (c int DEFAULT (nextval(`sales`)))"),
        # Queries.
        (PREFIXED, "CREATE VIEW v AS SELECT 1 FROM DUAL", "shop.x_v: CREATE VIEW `x_v` AS SELECT 1 FROM DUAL"),
        (PREFIXED, "CREATE VIEW v AS SELECT STRAIGHT_JOIN c FROM orders o", "shop.x_v: CREATE VIEW `x_v` AS SELECT STRAIGHT_JOIN c FROM `x_orders` o"),
        (PREFIXED, "CREATE VIEW v AS SELECT NTH_VALUE(c, 2) FROM FIRST OVER w FROM orders o WINDOW w AS ()", "shop.x_v: CREATE VIEW `x_v` AS SELECT NTH_VALUE(c, 2) FROM FIRST OVER w FROM `x_orders` o WINDOW w AS ()"),
        (PREFIXED, "CREATE VIEW v AS SELECT 1 FROM shop.123 o", "shop.x_v: CREATE VIEW `x_v` AS SELECT 1 FROM `shop`.`x_123` o"),
        (NAMED, "CREATE VIEW v AS SELECT 1 FROM orders o USE INDEX FOR JOIN (orders, c)", "shop.v: CREATE VIEW v AS SELECT 1 FROM `sales` o USE INDEX FOR JOIN (orders, c)"),
        (MOVED, "CREATE VIEW v AS SELECT orders.id FROM orders", "shop.v: CREATE VIEW v AS SELECT orders.id FROM `archive`.`orders`"),
        (NAMED, "CREATE VIEW v AS SELECT orders.id FROM orders", "shop.v: CREATE VIEW v AS SELECT orders.id FROM `sales` AS `orders`"),
        (NAMED, "CREATE VIEW v AS SELECT o.id FROM orders o, lines l JOIN shop.orders AS p ON o.id = p.c, orders q", "shop.v: CREATE VIEW v AS SELECT o.id FROM `sales` o, lines l JOIN `shop`.`sales` AS p ON o.id = p.c, `sales` q"),
        (NAMED, "CREATE VIEW v AS SELECT 1 FROM (customers c JOIN orders USING (id)) WHERE id IN (SELECT orders FROM orders)", "shop.v: CREATE VIEW v AS SELECT 1 FROM (customers c JOIN `sales` AS `orders` USING (id)) WHERE id IN (SELECT orders FROM `sales` AS `orders`)"),
        (NAMED, "CREATE VIEW v AS SELECT EXTRACT(YEAR FROM orders), 1 FROM customers", "shop.v: CREATE VIEW v AS SELECT EXTRACT(YEAR FROM orders), 1 FROM customers"),
        (NAMED, "CREATE VIEW v AS SELECT 1 FROM customers WITH CHECK OPTION", "shop.v: CREATE VIEW v AS SELECT 1 FROM customers WITH CHECK OPTION"),
        (NAMED, "CREATE VIEW orders AS SELECT 1 FROM lines UNION SELECT 2 FROM orders_9", "shop.sales: CREATE VIEW `sales` AS SELECT 1 FROM lines UNION SELECT 2 FROM orders_9"),
        (MOVED, "CREATE TABLE a AS SELECT * FROM orders", "shop.a: CREATE TABLE a AS SELECT * FROM `archive`.`orders`"),
        (NAMED, "DROP VIEW IF EXISTS orders", "shop.sales: DROP VIEW IF EXISTS `sales`"),
        (WHOLE, "CREATE VIEW v AS SELECT orders.id FROM shop.orders, lines", "archive.v: CREATE VIEW v AS SELECT orders.id FROM `archive`.`orders`, lines"),
        # Databases, and statements about no table.
        (WHOLE, "CREATE DATABASE IF NOT EXISTS shop", "archive.: CREATE DATABASE IF NOT EXISTS `archive`"),
        (WHOLE, "DROP SCHEMA shop", "archive.: DROP SCHEMA `archive`"),
        (WHOLE, "ALTER DATABASE shop CHARACTER SET utf8mb4", "archive.: ALTER DATABASE `archive` CHARACTER SET utf8mb4"),
        (WHOLE, "CREATE DATABASE other", "other.: CREATE DATABASE other"),
        (MOVED, "CREATE DATABASE shop", "shop.: CREATE DATABASE shop"),
        (WHOLE, "CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET @a = 1", "archive.: CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET @a = 1"),
        (MOVED, "CREATE TRIGGER t BEFORE INSERT ON lines FOR EACH ROW SET @a = 1", "shop.: CREATE TRIGGER t BEFORE INSERT ON lines FOR EACH ROW SET @a = 1"),
    ],
)  # fmt: skip
def test_names_are_rewritten(rules: tuple[TableRule, ...], sql: str, expected: str) -> None:
    table = "" if "DATABASE" in sql or "SCHEMA" in sql or "TRIGGER" in sql else _subject(sql)
    database = "other" if "other" in sql else "shop"
    translator = Translator("canal-json", "canal-json", tables=rules)
    for at, name in enumerate(("orders", "lines", "customers")):
        translator.translate(statement(CREATE.format(name), name, at))
    out = [json.loads(each.value or b"null") for each in translator.translate(
        statement(sql, table, 9, database)
    )]  # fmt: skip
    assert [f"{each['database']}.{each['table']}: {each['sql']}" for each in out] == [expected]
    assert translator.losses[Loss.DDL_NOT_REWRITTEN] == 0


def _subject(sql: str) -> str:
    """The table that the message of a statement names, as Canal does."""
    words = (
        sql.replace("`", "")
        .replace("shop.", "")
        .replace("shop . ", "")
        .replace("(", " ")
        .replace(",", " ")
        .split()
    )
    known = ("orders_2", "copy", "a", "v", "o", "t", "customers", "lines", "orders")
    kinds = {"VIEW", "TABLE", "ON", "EXISTS", "TRUNCATE", "table", "*/", "TO"}
    if "RENAME" in words:
        return words[words.index("TO") + 1]
    return next(word for before, word in pairwise(words) if before in kinds and word in known)


@pytest.mark.parametrize(
    ("rules", "sql"),
    [
        (NAMED, "CREATE VIEW v AS SELECT shop.orders.id FROM shop.orders"),
        (NAMED, "CREATE VIEW v AS WITH orders AS (SELECT 1) SELECT * FROM orders"),
        (NAMED, "CREATE VIEW v AS SELECT * FROM orders PARTITION (p0)"),
        (NAMED, "CREATE VIEW v AS TABLE orders"),
        (NAMED, "CREATE TABLE a SELECT * FROM lines UNION TABLE orders"),
        (NAMED, "CREATE TABLE a AS SELECT shop.orders.id FROM shop.orders"),
        (NAMED, "ALTER TABLE orders ADD CHECK (orders.c > 0)"),
        (NAMED, "CREATE VIEW v AS WITH local AS (SELECT 1) SELECT * FROM local, orders"),
        (NAMED, "CREATE VIEW v AS SELECT 1 FROM { OJ orders LEFT JOIN lines ON orders.id = lines.id }"),
        (NAMED, "CREATE VIEW v AS SELECT 1 FROM .orders"),
        (NAMED, "CREATE TABLE a AS SELECT orders.c FROM orders AS OF TIMESTAMP '2026-01-01'"),
        (NAMED, "CREATE TABLE a AS SELECT 1 FROM lines l, orders FOR UPDATE OF l, orders"),
        (NAMED, "CREATE TRIGGER t BEFORE INSERT ON orders FOR EACH ROW SET @a = 1"),
        (NAMED, "CREATE PROCEDURE p() DELETE FROM shop.orders"),
        (NAMED, "GRANT SELECT ON shop.orders TO u"),
        (NAMED, "GRANT SELECT ON shop.* TO u"),
        (WHOLE, "FLASHBACK DATABASE shop TO shop_2"),
        (WHOLE, "USE shop"),
        (MOVED, "ALTER DATABASE CHARACTER SET utf8mb4"),
        (NAMED, "CREATE VIEW v AS SELECT 1 FROM Orders"),
        (NAMED, "ALTER TABLE lines ADD FOREIGN KEY (c) REFERENCES SHOP.ORDERS (id)"),
        (LONG, "ALTER TABLE orders ADD FOREIGN KEY (c) REFERENCES a_table_with_a_long_name (id)"),
        (MOVED, "DROP DATABASE shop"),
        (MOVED, "ALTER DATABASE shop CHARACTER SET utf8mb4"),
        (NAMED, "ALTER TABLE orders FROBNICATE"),
        (NAMED, "FROBNICATE orders"),
        ((rule(r"shop\.o.*", "shop.sales"),), "ALTER TABLE orders RENAME TO o2"),
        ((*WHOLE, rule(r"other\.t", "archive.t")), "DROP DATABASE shop"),
    ],
)
def test_statements_that_cannot_be_rewritten_are_left_out(rules: tuple[TableRule, ...], sql: str) -> None:
    words = ("DATABASE", "PROCEDURE", "TRIGGER", "GRANT", "USE ")
    table = "" if any(word in sql for word in words) else "orders"
    if "VIEW" in sql or "TABLE a" in sql or "o2" in sql:
        table = "o2" if "o2" in sql else "v" if "VIEW" in sql else "a"
    found, translator = written(rules, sql, table)
    assert (found, translator.losses[Loss.DDL_NOT_REWRITTEN]) == ([], 1)
    with pytest.raises(EncodeError, match="ddl-not-rewritten"):
        written(rules, sql, table, target_options={"strict": "ddl-not-rewritten"})


def test_targets_whose_rows_need_definitions_get_them_instead() -> None:
    translator = Translator("canal-json", "ticdc-simple-json", tables=NAMED)
    translator.translate(statement(CREATE.format("orders")))
    (out,) = translator.translate(statement("ALTER TABLE orders ADD x int, ADD CHECK (orders.c > 0)", at=1))
    message = json.loads(out.value or b"null")
    assert (message["type"], message["tableSchema"]["table"]) == ("BOOTSTRAP", "sales")
    assert [each["name"] for each in message["tableSchema"]["columns"]] == ["id", "c", "x"]


@pytest.mark.parametrize(
    ("protocol", "sql", "renamed"),
    [
        ("ticdc-debezium", "RENAME TABLE orders TO lines", "orders"),
        ("ticdc-debezium", "ALTER TABLE orders EXCHANGE PARTITION p WITH TABLE lines", "lines"),
        ("ticdc-simple-json", "ALTER TABLE orders EXCHANGE PARTITION p WITH TABLE lines", "lines"),
    ],
)
def test_descriptions_of_two_tables_of_which_one_is_renamed(protocol: str, sql: str, renamed: str) -> None:
    source = Translator("canal-json", protocol)
    ruled = Translator(protocol, protocol, tables=[rule(f"shop.{renamed}", "shop.sales")])
    tables = ("orders",) if "RENAME" in sql else ("orders", "lines")
    statements = [statement(CREATE.format(name), name, at) for at, name in enumerate(tables)]
    statements.append(statement(sql, "lines" if "RENAME" in sql else "orders", 5))
    written = [
        out.value or b""
        for each in statements
        for message in source.translate(each)
        for out in ruled.translate(
            ConsumerRecord("topic", 0, each.offset, 0, message.key, message.value or b"")
        )
    ]
    assert not any(renamed.encode() in value for value in written)
    last = json.loads(written[-1])
    if protocol == "ticdc-simple-json":
        assert last["preTableSchema"]["table"] == "sales"
    else:
        ids = {"orders": '"shop"."sales","shop"."lines"', "lines": '"shop"."sales"'}
        assert [each["id"] for each in last["payload"]["tableChanges"]] == [ids[renamed]]


def test_text_in_which_only_the_shards_name_differs() -> None:
    found, _ = written(SHARDS, "ALTER TABLE orders_1 ADD x int", "orders_1")
    assert found == ["shop.orders: ALTER TABLE `orders` ADD x int"]


def test_two_statements_in_a_text() -> None:
    found, _ = written(NAMED, "ALTER TABLE orders ADD x int; ALTER TABLE lines ADD y int")
    assert found == ["shop.sales: ALTER TABLE `sales` ADD x int; ALTER TABLE lines ADD y int"]


def test_tables_of_other_databases() -> None:
    rules = (rule(r"shop\.orders", "archive.orders"), rule(r"other\.orders", "shop.orders"))
    translator = Translator("canal-json", "canal-json", tables=rules)
    for at, database in enumerate(("shop", "other")):
        translator.translate(statement(CREATE.format("orders"), at=at, database=database))
    sql = "ALTER TABLE other.orders ADD FOREIGN KEY (c) REFERENCES shop.orders (id)"
    (out,) = translator.translate(statement(sql, at=3, database="other"))
    message = json.loads(out.value or b"null")
    assert (message["database"], message["sql"]) == (
        "shop", "ALTER TABLE `shop`.`orders` ADD FOREIGN KEY (c) REFERENCES `archive`.`orders` (id)",
    )  # fmt: skip


def test_messages_without_rules_about_them_are_unchanged() -> None:
    plain = Translator("canal-json", "canal-json")
    ruled = Translator("canal-json", "canal-json", tables=[rule(r"x\.y", "x.z")])
    for each in (
        statement("CREATE TABLE orders (id int, KEY (id)) COMMENT 'a \\' b'"),
        statement("not understood at all", at=1),
        record({"id": 0, "isDdl": True, "type": "QUERY", "database": "", "table": "", "sql": "GRANT x", "es": 1, "ts": 1}, 2),
    ):  # fmt: skip
        assert ruled.translate(each) == plain.translate(each)


@pytest.mark.parametrize(
    "sql",
    [
        "CREATE VIEW v AS WITH x AS (SELECT 1) SELECT * FROM x, lines",
        "CREATE VIEW v AS SELECT 1 FROM { OJ lines LEFT JOIN customers ON 1 }",
        "CREATE TABLE v AS TABLE lines",
    ],
)
def test_statements_that_name_no_renamed_table_are_written(sql: str) -> None:
    assert written(NAMED, sql, "v")[0] == [f"shop.v: {sql}"]


@pytest.mark.parametrize(
    ("sql", "database", "expected"),
    [
        ("RENAME TABLE orders TO crm.orders", "crm", "RENAME TABLE `shop`.`sales` TO crm.orders"),
        ("DROP TABLE orders, crm.orders", "shop", "DROP TABLE `sales`, crm.orders"),
    ],
)
def test_tables_of_two_databases_with_the_same_name(sql: str, database: str, expected: str) -> None:
    translator = Translator("canal-json", "canal-json", tables=NAMED)
    for at, each in enumerate(("shop",) if "RENAME" in sql else ("shop", "crm")):
        translator.translate(statement(CREATE.format("orders"), at=at, database=each))
    (out,) = translator.translate(statement(sql, at=5, database=database))
    assert json.loads(out.value or b"null")["sql"] == expected


def test_a_table_of_many_databases() -> None:
    names = [f"d{number}.t" for number in range(3_000)]
    translator = Translator("canal-json", "canal-json", tables=[rule(r"d(\d+)\.t", "shop.t{1}")])
    (out,) = translator.translate(statement("DROP TABLE " + ", ".join(names), "t", database="d0"))
    assert json.loads(out.value or b"null")["sql"].endswith(", `shop`.`t2998`, `shop`.`t2999`")


def test_many_tables_and_deep_queries() -> None:
    names = [f"t{number}" for number in range(2_000)]
    view = "".join(("CREATE VIEW v AS SELECT 1 FROM ", "(" * 2_000, "t1", ")" * 2_000))
    translator = Translator("canal-json", "canal-json", tables=[rule(r"shop\.t(\d+)", "shop.u{1}")])
    for sql, table in (
        ("DROP TABLE " + ", ".join(names), "t0"),
        (", ".join([view, *names]), "v"),
    ):
        (out,) = translator.translate(statement(sql, table))
        text = json.loads(out.value or b"null")["sql"]
        assert [f"`u{name[1:]}`" in text for name in names] == [True] * len(names)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ALTER TABLE orders ADD x INT", "ALTER TABLE `orders_v2` ADD x INT"),
        ("DROP TABLE `shop`.`orders`", "DROP TABLE `sales`.`orders_v2`"),
        ("RENAME TABLE orders TO old_orders", "RENAME TABLE `sales`.`orders_v2` TO old_orders"),
        (
            "CREATE VIEW v AS SELECT orders.id FROM orders",
            "CREATE VIEW v AS SELECT orders.id FROM `sales`.`orders_v2` AS `orders`",
        ),
    ],
)
def test_the_examples_of_the_page(sql: str, expected: str) -> None:
    table = "v" if "VIEW" in sql else "old_orders" if "old" in sql else "orders"
    found, _ = written((rule(r"shop\.orders", "sales.orders_v2"),), sql, table)
    assert [text.partition(": ")[2] for text in found] == [expected]
