"""DDL statements as column rules leave them."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import record

from relay import ColumnAction, ColumnRule, Loss, NotRepresentable, Translator

CREATE = (
    "CREATE TABLE `customers` (`id` bigint NOT NULL, `email` varchar(100) DEFAULT 'none' COMMENT 'private', "
    "`phone` bigint, `city` varchar(40), `born` date, PRIMARY KEY (`id`), UNIQUE KEY `by_email` (`email`), "
    "KEY `by_city` (`city`,`phone`)) ENGINE=InnoDB"
)


def rule(action: str, *columns: str, tables: str = "shop.customers", **more: Any) -> ColumnRule:
    return ColumnRule(tables=(tables,), columns=columns, action=ColumnAction(action), **more)


DROP_EMAIL = rule("drop", "email")
HASH_EMAIL = rule("hash", "EMAIL", length=40)
RENAME_CITY = rule("rename", "city", name="town")
HASH_ID = rule("hash", "id", length=40)
HASH_MAIL = rule("hash", "mail", length=40)
NULL_PHONE = rule("null", "phone")
KEEP_TWO = rule("keep", "id", "city")


def statement(sql: str, table: str = "customers", at: int = 0) -> dict[str, Any]:
    time_ms = 1_700_000_000_000 + at
    return {
        "id": 0, "database": "shop", "table": table, "pkNames": None, "isDdl": True, "type": "ALTER",
        "es": time_ms, "ts": time_ms, "sql": sql, "sqlType": None, "mysqlType": None, "data": None, "old": None,
    }  # fmt: skip


def written(
    rules: tuple[ColumnRule, ...], *statements: str, target: str = "canal-json"
) -> tuple[Any, Translator]:
    """Return the statements that are written for these, after the table's definition."""
    translator = Translator("canal-json", target, columns=rules, hash_key=b"a secret")
    found = []
    for at, sql in enumerate([CREATE, *statements]):
        out = translator.translate(record(statement(sql, at=at), offset=at))
        found += [(at, json.loads(each.value or b"null")["sql"]) for each in out]
    return [sql for at, sql in found if at], translator


ALTERATIONS = [
    # Statements that are about no column of a rule keep their text.
    (DROP_EMAIL, "ALTER TABLE customers ADD COLUMN zip varchar(10)", "ALTER TABLE customers ADD COLUMN zip varchar(10)"),
    (DROP_EMAIL, "ALTER TABLE customers COMMENT='their email'", "ALTER TABLE customers COMMENT='their email'"),
    (DROP_EMAIL, "TRUNCATE TABLE customers", "TRUNCATE TABLE customers"),
    # Columns that are left out take their items with them.
    (DROP_EMAIL, "ALTER TABLE customers MODIFY email varchar(200), ADD zip int", "ALTER TABLE customers ADD zip int"),
    (DROP_EMAIL, "ALTER TABLE customers DROP INDEX by_email, DROP COLUMN born", "ALTER TABLE customers DROP COLUMN born"),
    (DROP_EMAIL, "ALTER TABLE customers ADD INDEX both_ (born, email), ADD zip int", "ALTER TABLE customers ADD zip int"),
    (DROP_EMAIL, "ALTER TABLE customers ADD zip int AFTER email", "ALTER TABLE customers ADD zip int AFTER `id`"),
    (DROP_EMAIL, "ALTER TABLE customers MODIFY city varchar(41) AFTER email", "ALTER TABLE customers MODIFY city varchar(41) AFTER `id`"),
    (DROP_EMAIL, "ALTER TABLE customers CHANGE city email2 varchar(40)", "ALTER TABLE customers CHANGE city email2 varchar(40)"),
    (rule("drop", "born"), "ALTER TABLE customers CHANGE born birth date", "ALTER TABLE customers ADD COLUMN `birth` date AFTER `city`"),
    (rule("drop", "born"), "ALTER TABLE customers RENAME COLUMN born TO birth", "ALTER TABLE customers ADD COLUMN `birth` date AFTER `city`"),
    (rule("drop", "mail"), "ALTER TABLE customers RENAME COLUMN email TO mail", "ALTER TABLE customers DROP COLUMN `email`"),
    (KEEP_TWO, "ALTER TABLE customers ADD zip int, MODIFY city text", "ALTER TABLE customers MODIFY city text"),
    # Columns with other values have other definitions.
    (HASH_EMAIL, "ALTER TABLE customers MODIFY email varchar(9) NOT NULL DEFAULT 'x' COMMENT 'y'", "ALTER TABLE customers MODIFY COLUMN `email` varchar(40) NOT NULL"),
    (HASH_EMAIL, "ALTER TABLE customers ALTER email SET DEFAULT 'a@b', ADD zip int", "ALTER TABLE customers ADD zip int"),
    (HASH_EMAIL, "ALTER TABLE customers ADD INDEX again (email)", "ALTER TABLE customers ADD INDEX again (email)"),
    (HASH_EMAIL, "ALTER TABLE customers RENAME COLUMN email TO mail", "ALTER TABLE customers CHANGE COLUMN `email` `mail` varchar(100)"),
    (NULL_PHONE, "ALTER TABLE customers ADD UNIQUE one (phone), ADD zip int", "ALTER TABLE customers ADD zip int"),
    # Renamed ones have their new names.
    (RENAME_CITY, "ALTER TABLE customers MODIFY COLUMN city varchar(50) COMMENT 'the city' AFTER id", "ALTER TABLE customers MODIFY COLUMN `town` varchar(50) COMMENT 'the city' AFTER id"),
    (RENAME_CITY, "ALTER TABLE customers CHANGE COLUMN `born` `city2` date AFTER `city`", "ALTER TABLE customers CHANGE COLUMN `born` `city2` date AFTER `town`"),
    (RENAME_CITY, "ALTER TABLE customers ADD CONSTRAINT c CHECK (`city` <> 'city')", "ALTER TABLE customers ADD CONSTRAINT c CHECK (`town` <> 'city')"),
    (RENAME_CITY, "ALTER TABLE customers ADD INDEX city (city)", "ALTER TABLE customers ADD INDEX city (`town`)"),
    (RENAME_CITY, "CREATE INDEX city ON customers (city, born)", "CREATE INDEX city ON customers (`town`, born)"),
    (RENAME_CITY, "ALTER TABLE customers DROP COLUMN city", "ALTER TABLE customers DROP COLUMN `town`"),
    # Names of keys and tables are no columns, and those of the server's choice stay.
    (RENAME_CITY, "ALTER TABLE customers RENAME INDEX by_city TO city", "ALTER TABLE customers RENAME INDEX by_city TO city"),
    (RENAME_CITY, "ALTER TABLE customers ADD INDEX (city)", "ALTER TABLE customers ADD INDEX `city` (`town`)"),
    (RENAME_CITY, "ALTER TABLE customers ADD INDEX k (city(10))", "ALTER TABLE customers ADD INDEX k (`town`(10))"),
    (RENAME_CITY, "ALTER TABLE customers ADD PARTITION (PARTITION p2 VALUES IN ('x'))", "ALTER TABLE customers ADD PARTITION (PARTITION p2 VALUES IN ('x'))"),
    # Executable comments keep their ends.
    (DROP_EMAIL, "ALTER TABLE customers /*T! ADD zip int */, MODIFY email text", "ALTER TABLE customers /*T! ADD zip int */"),
    # The next number of a hidden key is a value, and so is the default of a column that becomes hidden.
    (HASH_ID, "ALTER TABLE customers FORCE AUTO_INCREMENT 98765, ADD zip int", "ALTER TABLE customers ADD zip int"),
    (HASH_ID, "ALTER TABLE customers ADD zip int, AUTO_INCREMENT = 98765", "ALTER TABLE customers ADD zip int"),
    (HASH_ID, "ALTER TABLE customers /*T! AUTO_INCREMENT=98765 COMMENT='x' */, ADD zip int", "ALTER TABLE customers /*T! COMMENT='x' */, ADD zip int"),
    (HASH_ID, "ALTER TABLE customers AUTO_INCREMENT=98765 COMMENT='x', ADD zip int", "ALTER TABLE customers COMMENT='x', ADD zip int"),
    (HASH_EMAIL, "ALTER TABLE customers AUTO_INCREMENT=98765", "ALTER TABLE customers AUTO_INCREMENT=98765"),
    (HASH_MAIL, "ALTER TABLE customers ALTER city SET DEFAULT 'a@b', RENAME COLUMN city TO mail", "ALTER TABLE customers CHANGE COLUMN `city` `mail` varchar(40)"),
    (HASH_MAIL, "ALTER TABLE customers RENAME COLUMN city TO mail, ALTER COLUMN `CITY` SET DEFAULT 'a@b'", "ALTER TABLE customers CHANGE COLUMN `city` `mail` varchar(40)"),
    (rule("drop", "mail"), "ALTER TABLE customers ALTER born SET DEFAULT '1987-06-05', CHANGE born mail date", "ALTER TABLE customers DROP COLUMN `born`"),
    # Partitions follow without a comma.
    (DROP_EMAIL, "ALTER TABLE customers MODIFY email text, ADD zip int PARTITION BY HASH (id)", "ALTER TABLE customers ADD zip int PARTITION BY HASH (id)"),
]  # fmt: skip


@pytest.mark.parametrize(("rules", "given", "expected"), ALTERATIONS)
def test_statements_are_rewritten(rules: ColumnRule, given: str, expected: str) -> None:
    found, translator = written((rules,), given)
    assert (found, translator.losses[Loss.DDL_NOT_REWRITTEN]) == ([expected], 0)


OPTIONS = [
    (" ENGINE=InnoDB AUTO_INCREMENT=98765 CHARSET=utf8mb4", " ENGINE=InnoDB CHARSET=utf8mb4"),
    (" AUTO_INCREMENT = 98765, ENGINE = InnoDB", " ENGINE = InnoDB"),
    (" auto_increment 98765", ""),
    (" COMMENT='x' AUTO_INCREMENT=0x5C8F", " COMMENT='x'"),
    (" COMMENT='x',AUTO_INCREMENT=98765", " COMMENT='x'"),
    (" COMMENT='x', AUTO_INCREMENT=98765 , ENGINE=InnoDB", " COMMENT='x', ENGINE=InnoDB"),
    (" /* , */ AUTO_INCREMENT=98765 /* end */", " /* , */ /* end */"),
    (" /*T![auto_rand_base] AUTO_RANDOM_BASE=98765 */ COMMENT='x'", " COMMENT='x'"),
]


@pytest.mark.parametrize(("given", "expected"), OPTIONS)
def test_the_next_number_of_a_hidden_key_is_not_written(given: str, expected: str) -> None:
    create = "CREATE TABLE orders (`id` bigint AUTO_INCREMENT, `city` text, PRIMARY KEY (`id`))"
    found, _ = written((rule("hash", "id", tables="shop.orders"),), create + given)
    assert len(found) == 1
    assert found[0].endswith(f"){expected}")
    assert "98765" not in found[0]
    assert written((rule("drop", "city", tables="shop.orders"),), create + given)[0][0].endswith(given)


GONE = [
    (DROP_EMAIL, "ALTER TABLE customers MODIFY email varchar(200)"),
    (DROP_EMAIL, "ALTER TABLE customers MODIFY email varchar(200), ALGORITHM=INPLACE, LOCK=NONE"),
    (DROP_EMAIL, "CREATE INDEX again ON customers (email)"),
    (DROP_EMAIL, "DROP INDEX by_email ON customers"),
    (HASH_EMAIL, "ALTER TABLE customers ALTER COLUMN email SET DEFAULT 'a@b'"),
    (HASH_ID, "ALTER TABLE customers AUTO_INCREMENT=98765"),
]


@pytest.mark.parametrize(("rules", "given"), GONE)
def test_statements_of_which_nothing_remains_are_counted(rules: ColumnRule, given: str) -> None:
    found, translator = written((rules,), given)
    assert (found, translator.losses[Loss.COLUMNS_FILTERED]) == ([], 1)


IMPOSSIBLE = [
    (DROP_EMAIL, "ALTER TABLE customers ADD COLUMN lowered varchar(100) AS (lower(email)) VIRTUAL"),
    (HASH_EMAIL, "ALTER TABLE customers ADD CONSTRAINT c CHECK (email <> 'a@b')"),
    (HASH_EMAIL, "ALTER TABLE customers PARTITION BY LIST COLUMNS (email) (PARTITION p VALUES IN ('a@b'))"),
    (DROP_EMAIL, "RENAME TABLE customers TO clients"),
    (DROP_EMAIL, "ALTER TABLE customers RENAME TO clients"),
    (DROP_EMAIL, "ALTER TABLE customers ADD FULLTEXT INDEX words (email)"),
    (DROP_EMAIL, "ALTER TABLE customers SPLENDID email"),
    (HASH_EMAIL, "ALTER TABLE customers ADD PARTITION (PARTITION p2 VALUES IN ('a@b'))"),
    (HASH_EMAIL, "ALTER TABLE customers ADD INDEX i ((email = 'a@b'))"),
    (HASH_EMAIL, "ALTER TABLE customers ADD INDEX i (city) WHERE email > 'a@b'"),
    (HASH_EMAIL, "CREATE FULLTEXT INDEX words ON customers (email)"),
    (HASH_EMAIL, "ALTER TABLE customers ADD INDEX i (email(10))"),
    (HASH_EMAIL, "ALTER TABLE customers ADD CONSTRAINT c CHECK (\"email\" <> 'a@b')"),
    (HASH_EMAIL, "CREATE TABLE people LIKE customers"),
    (HASH_EMAIL, "CREATE TABLE people AS SELECT 'a@b' AS email FROM customers"),
    (HASH_EMAIL, "ALTER TABLE customers EXCHANGE PARTITION p WITH TABLE others"),
    (RENAME_CITY, "ALTER TABLE customers ADD FOREIGN KEY (city) REFERENCES customers (city)"),
    (DROP_EMAIL, "ALTER TABLE customers CHANGE email mail varchar(100)"),  # with its unique key
    (DROP_EMAIL, "ALTER TABLE customers FIRST PARTITION LESS THAN ('a@b')"),
    (DROP_EMAIL, "CREATE TRIGGER t AFTER INSERT ON orders FOR EACH ROW UPDATE customers SET email='a@b'"),
    (DROP_EMAIL, "CREATE PROCEDURE p() UPDATE customers SET email='a@b'"),
    (DROP_EMAIL, "INSERT INTO customers (email) VALUES ('a@b')"),
    (DROP_EMAIL, "FOO BAR customers email 'a@b'"),
    (DROP_EMAIL, "ANALYZE TABLE customers UPDATE HISTOGRAM ON email USING DATA '{}'"),
    (DROP_EMAIL, "CREATE VIEW v AS SELECT * FROM customers WHERE email = 'a@b'"),
    (DROP_EMAIL, "ALTER TABLE orders ADD CONSTRAINT f FOREIGN KEY (x) REFERENCES CUSTOMERS (email)"),
    (DROP_EMAIL, "CREATE TABLE orders (id int, x varchar(9) REFERENCES shop.customers (email))"),
    (DROP_EMAIL, "CREATE TABLE other.copy AS SELECT * FROM shop.customers WHERE email='a@b'"),
    (DROP_EMAIL, "CREATE TABLE copy LIKE CUSTOMERS"),
    (DROP_EMAIL, "CREATE TEMPORARY TABLE customers (id int, email varchar(9) DEFAULT 'a@b')"),
    (HASH_ID, "ALTER TABLE customers /*T![auto_rand_base] AUTO_RANDOM_BASE=98765 */, ADD zip int"),
    (HASH_MAIL, "ALTER TABLE customers ADD CHECK (city <> 'a@b'), RENAME COLUMN city TO mail"),
    (rule("mask", "kinds"), "ALTER TABLE customers ADD kinds set('a','b'), ADD KEY (kinds)"),
]


@pytest.mark.parametrize(("rules", "given"), IMPOSSIBLE)
def test_impossible_statements_are_counted(rules: ColumnRule, given: str) -> None:
    found, translator = written((rules,), given)
    assert (found, translator.losses[Loss.DDL_NOT_REWRITTEN]) == ([], 1)


@pytest.mark.parametrize(
    ("sql", "why"),
    [
        ("CREATE TABLE customers AS SELECT 1", "its columns come from a query"),
        (
            "CREATE TABLE customers (id int, email int, CHECK (email <> 'a@b'))",
            "a part of it uses a hidden column",
        ),
        ("ALTER TABLE customers FROB 'a@b'", "relay does not understand the statement"),
        (
            "CREATE TRIGGER t BEFORE INSERT ON customers FOR EACH ROW SET @a = 1",
            "another object than a table",
        ),
    ],
)
def test_strict_says_why(sql: str, why: str) -> None:
    strict = {"strict": "ddl-not-rewritten"}
    translator = Translator("canal-json", "canal-json", target_options=strict, columns=[DROP_EMAIL])
    with pytest.raises(NotRepresentable, match=f"the statement cannot be rewritten: .*{why}") as raised:
        translator.translate(record(statement(sql)))
    assert "a@b" not in str(raised.value)


CREATED = [
    "CREATE TABLE customers (id int, email varchar(9)) PARTITION BY LIST COLUMNS (email) (PARTITION p VALUES IN ('a@b'))",
    "CREATE TABLE customers (id int, email varchar(9), KEY k ((email = 'a@b')))",
    "CREATE TABLE customers (id int, email varchar(9), CHECK (email <> 'a@b'))",
    "CREATE TABLE customers (id int, email varchar(9), low varchar(9) AS (concat(email, 'a@b')))",
]


@pytest.mark.parametrize("sql", CREATED)
@pytest.mark.parametrize("rules", [DROP_EMAIL, HASH_EMAIL])
def test_tables_with_expressions_of_hidden_columns_are_not_created(rules: ColumnRule, sql: str) -> None:
    translator = Translator("canal-json", "canal-json", columns=[rules], hash_key=b"a secret")
    assert translator.translate(record(statement(sql))) == []
    assert translator.losses[Loss.DDL_NOT_REWRITTEN] == 1


def test_words_that_may_be_types_are_not_renamed_in_expressions() -> None:
    found, translator = written(
        (rule("rename", "year", name="made"),),
        "ALTER TABLE customers ADD COLUMN year int",
        "ALTER TABLE customers ADD CHECK (year > 3)",
        "ALTER TABLE customers ADD CHECK (`year` > 3)",
        "ALTER TABLE customers ADD INDEX k (year)",
    )
    assert found == [
        "ALTER TABLE customers ADD COLUMN `made` int",
        "ALTER TABLE customers ADD CHECK (`made` > 3)",
        "ALTER TABLE customers ADD INDEX k (`made`)",
    ]
    assert translator.losses[Loss.DDL_NOT_REWRITTEN] == 1


def test_executable_comments_and_options_stay() -> None:
    sql = (
        "CREATE TABLE `customers` (`id` bigint, `email` text, `comment` int, PRIMARY KEY (`id`) /*T![clustered_index] "
        "CLUSTERED */, KEY `k` (`comment`)) COMMENT='their comment' /*T! SHARD_ROW_ID_BITS=4 */"
    )
    rules = (DROP_EMAIL, rule("rename", "comment", name="note"))
    translator = Translator("canal-json", "canal-json", columns=rules)
    (out,) = translator.translate(record(statement(sql)))
    assert json.loads(out.value or b"")["sql"] == (
        "CREATE TABLE `customers` (`id` bigint,\n  `note` int,\n  PRIMARY KEY (`id`) /*T![clustered_index] CLUSTERED */,\n  "
        "KEY `k` (`note`)) COMMENT='their comment' /*T! SHARD_ROW_ID_BITS=4 */"
    )


def test_statements_about_unknown_tables_are_not_written_if_they_may_show_values() -> None:
    translator = Translator("canal-json", "canal-json", columns=[rule("drop", "email", tables="shop.*")])
    for sql in (
        "ALTER TABLE other ADD CHECK (email <> 'a@b')",
        "DROP INDEX by_email ON other",
        "CREATE INDEX i ON other (city)",
    ):
        assert translator.translate(record(statement(sql, "other"))) == [], sql
    (out,) = translator.translate(record(statement("ALTER TABLE other ADD email int, ADD zip int", "other")))
    assert json.loads(out.value or b"")["sql"] == "ALTER TABLE other ADD zip int"


def test_names_that_the_server_chose_are_kept() -> None:
    sql = "CREATE TABLE customers (id int PRIMARY KEY, city int, KEY (city), KEY (city, id))"
    translator = Translator("canal-json", "canal-json", columns=[RENAME_CITY])
    (out,) = translator.translate(record(statement(sql)))
    assert json.loads(out.value or b"")["sql"] == (
        "CREATE TABLE customers (id int PRIMARY KEY,\n  `town` int,\n  KEY `city` (`town`),\n  "
        "KEY `city_2` (`town`, id))"
    )


def test_create_table_has_the_columns_of_the_target() -> None:
    translator = Translator(
        "canal-json",
        "canal-json",
        columns=(HASH_EMAIL, rule("drop", "phone"), RENAME_CITY),
        hash_key=b"a secret",
    )
    (out,) = translator.translate(record(statement(CREATE)))
    assert json.loads(out.value or b"")["sql"] == (
        "CREATE TABLE `customers` (`id` bigint NOT NULL,\n  `email` varchar(40),\n  `town` varchar(40),\n  "
        "`born` date,\n  PRIMARY KEY (`id`),\n  UNIQUE KEY `by_email` (`email`)) ENGINE=InnoDB"
    )
