"""Clauses of MySQL 9, MariaDB 11, TiDB 8.5 and PolarDB-X: each is applied, leaves the table alone, or makes the
text one that is not understood. None is passed over together with what stands beside it.

Sources: `alter_commands` and `alter_list_item` of MySQL's and MariaDB's `sql_yacc.yy`, `AlterTableSpec` of
TiDB's `parser.y`.
"""

from __future__ import annotations

import re

import pytest

from relay.catalog import Catalog, DdlMessage, apply_ddl
from relay.model.errors import DdlNotUnderstood
from relay.model.events import DdlKind, Generated, Position, SchemaChange, Source, TableId, TableSchema
from relay.mysql.ddl import read_ddl
from relay.mysql.types import format_type

TABLE = (
    "CREATE TABLE t (id INT NOT NULL, a INT DEFAULT 1, b VARCHAR(9), e ENUM('x','y'), PRIMARY KEY (id), KEY i (a),"
    " UNIQUE KEY u (b))"
)


def at(offset: int) -> Position:
    return Position(None, 0, "t", 0, offset)


class Stream:
    """A catalog after statements of a database `d`, whose messages name table `t`."""

    def __init__(self, *statements: str) -> None:
        self.catalog, self.count = Catalog(), 0
        for statement in statements:
            self.apply_ddl(statement)

    def apply_ddl(self, ddl: str, table: str = "t") -> SchemaChange:
        self.count += 1
        message = DdlMessage(ddl, TableId("d", table), "", Source("test", 0), at(self.count), 0)
        self.catalog, change = apply_ddl(self.catalog, message)
        return change

    def table(self, name: str = "t") -> TableSchema | None:
        return self.catalog.table(TableId("d", name), at(self.count + 1))


def after(*statements: str) -> TableSchema | None:
    return Stream(TABLE, *statements).table()


def columns(schema: TableSchema | None) -> str | None:
    return None if schema is None else ", ".join(f"{c.name} {format_type(c.type)}" for c in schema.columns)


BEFORE = after()
COLUMNS = "id int, a int, b varchar(9), e enum('x','y')"

#: Statements, and what they do in plain words.
SAME_AS = {
    "ALTER TABLE t NOWAIT ADD z DATE": "ALTER TABLE t ADD z DATE",
    "ALTER TABLE t WAIT 5 ADD z DATE, DROP a": "ALTER TABLE t ADD z DATE, DROP a",
    "ALTER ONLINE IGNORE TABLE t NOWAIT MODIFY a BIGINT": "ALTER TABLE t MODIFY a BIGINT",
    "ALTER IGNORE ONLINE TABLE t DROP a": "ALTER TABLE t DROP a",
    "ALTER TABLE .t DROP a": "ALTER TABLE t DROP a",
    "ALTER TABLE `d`.`t` DROP a": "ALTER TABLE t DROP a",
    "SET STATEMENT max_statement_time=0 FOR ALTER TABLE t ADD z DATE": "ALTER TABLE t ADD z DATE",
    "SET STATEMENT a=1, b=(SELECT 1 FOR UPDATE), c='FOR' FOR ALTER TABLE t DROP a": "ALTER TABLE t DROP a",
    "SET STATEMENT lock_wait_timeout=1 FOR CREATE INDEX j ON t (a, b)": "ALTER TABLE t ADD INDEX j (a, b)",
    "ALTER TABLE t DROP CONSTRAINT PRIMARY KEY": "ALTER TABLE t DROP PRIMARY KEY",
    "ALTER TABLE t DROP CONSTRAINT `PRIMARY`": "ALTER TABLE t DROP PRIMARY KEY",
    "ALTER TABLE t DROP CONSTRAINT u": "ALTER TABLE t DROP INDEX u",
    "CREATE INDEX j ON t (a) NOWAIT": "ALTER TABLE t ADD INDEX j (a)",
    "CREATE INDEX IF NOT EXISTS j USING BTREE ON t (a) COMMENT 'x' WAIT 3": "ALTER TABLE t ADD INDEX j (a)",
    "CREATE OR REPLACE UNIQUE INDEX j ON t (a)": "ALTER TABLE t ADD UNIQUE INDEX j (a)",
    "CREATE UNIQUE GLOBAL INDEX j ON t (a) COVERING (b) DBPARTITION BY HASH(a)": "ALTER TABLE t ADD UNIQUE j (a)",
    "CREATE CLUSTERED INDEX j ON t (a)": "ALTER TABLE t ADD INDEX j (a)",
    "DROP INDEX IF EXISTS i ON t WAIT 3": "ALTER TABLE t DROP INDEX i",
    "ALTER TABLE t ADD GLOBAL INDEX j (a) COVERING (b, e) PARTITION BY KEY(a) PARTITIONS 3": (
        "ALTER TABLE t ADD INDEX j (a)"
    ),
    "ALTER TABLE t ADD UNIQUE GLOBAL KEY j (a), DROP e": "ALTER TABLE t ADD UNIQUE KEY j (a), DROP e",
    "ALTER TABLE t ADD LOCAL INDEX j (a), ADD z INT": "ALTER TABLE t ADD INDEX j (a), ADD z INT",
    "ALTER TABLE t ADD UNIQUE local (a)": "ALTER TABLE t ADD UNIQUE `local` (a)",
    "ALTER TABLE t ADD z NATIONAL VARCHARACTER(4)": "ALTER TABLE t ADD z NATIONAL VARCHAR(4)",
    "ALTER TABLE t ADD z NATIONAL CHARACTER VARYING(4)": "ALTER TABLE t ADD z NATIONAL VARCHAR(4)",
    "ALTER TABLE t ADD z NCHAR VARCHARACTER(4)": "ALTER TABLE t ADD z NVARCHAR(4)",
    "ALTER TABLE t ADD z LONG VARCHARACTER": "ALTER TABLE t ADD z MEDIUMTEXT",
    "ALTER TABLE t ADD z LONG CHARACTER VARYING": "ALTER TABLE t ADD z MEDIUMTEXT",
    "ALTER TABLE t ADD z LONG CHARACTER SET latin1": "ALTER TABLE t ADD z MEDIUMTEXT CHARACTER SET latin1",
    "ALTER TABLE t ADD z LONG BYTE": "ALTER TABLE t ADD z MEDIUMBLOB",
    "ALTER TABLE t ADD z TEXT BYTE": "ALTER TABLE t ADD z BLOB",
    "ALTER TABLE t ADD z CHARACTER(3) CHAR SET latin1": "ALTER TABLE t ADD z CHAR(3) CHARACTER SET latin1",
    "ALTER TABLE t ADD z INT ZEROFILL": "ALTER TABLE t ADD z INT(10) UNSIGNED ZEROFILL",
    "ALTER TABLE t ADD z TINYINT SIGNED ZEROFILL": "ALTER TABLE t ADD z TINYINT(3) UNSIGNED ZEROFILL",
    "ALTER TABLE t ADD z BIGINT ZEROFILL": "ALTER TABLE t ADD z BIGINT(20) UNSIGNED ZEROFILL",
    "ALTER TABLE t ADD z DECIMAL ZEROFILL": "ALTER TABLE t ADD z DECIMAL(10,0) UNSIGNED ZEROFILL",
    "ALTER TABLE t ADD z INT, ALGORITHM=INSTANT, LOCK NONE": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t ENGINE=InnoDB COMMENT 'x', ADD z INT": "ALTER TABLE t COMMENT 'x', ADD z INT",
    "ALTER TABLE t some_new_option = 5, ADD z INT": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t DATA DIRECTORY = '/x' INDEX DIRECTORY '/y', ADD z INT": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t ADD z VARCHAR2(9) NOT NULL, ADD y RAW(3), ADD x CLOB COMMENT 'c'": (
        "ALTER TABLE t ADD z VARCHAR(9) NOT NULL, ADD y VARBINARY(3), ADD x LONGTEXT COMMENT 'c'"
    ),
    "ALTER TABLE t ADD z NUMBER(5,2), ADD y NUMBER": "ALTER TABLE t ADD z DECIMAL(5,2), ADD y DOUBLE",
    "ALTER TABLE t ADD z mariadb_schema.DATE, ADD y oracle_schema.date, ADD x maxdb_schema.timestamp": (
        "ALTER TABLE t ADD z DATE, ADD y DATETIME, ADD x DATETIME"
    ),
    "ALTER TABLE t ADD z YEAR UNSIGNED ZEROFILL, ADD y SQL_TSI_YEAR": "ALTER TABLE t ADD z YEAR, ADD y YEAR",
    "ALTER TABLE t ADD z VARCHAR(20000) CHARACTER SET utf8mb4": "ALTER TABLE t ADD z MEDIUMTEXT CHARACTER SET utf8mb4",
    "ALTER TABLE t ADD z CHAR(3) CHARACTER SET latin1 COLLATE DEFAULT": "ALTER TABLE t ADD z CHAR(3) CHARACTER SET latin1",
    "ALTER TABLE t ADD z CHAR(3) COLLATE uca1400_ai_ci": "ALTER TABLE t ADD z CHAR(3) COLLATE utf8mb4_uca1400_ai_ci",
    "ALTER TABLE t ADD z CHAR(3) CHARACTER SET utf8 COLLATE uca1400_as_cs": (
        "ALTER TABLE t ADD z CHAR(3) CHARACTER SET utf8 COLLATE utf8mb3_uca1400_as_cs"
    ),
    "ALTER TABLE t COLLATE uca1400_ai_ci, ADD z CHAR": "ALTER TABLE t COLLATE utf8mb4_uca1400_ai_ci, ADD z CHAR",
    "ALTER TABLE t CONVERT TO CHARSET ucs2 COLLATE uca1400_ai_ci": (
        "ALTER TABLE t CONVERT TO CHARSET ucs2 COLLATE ucs2_uca1400_ai_ci"
    ),
    "ALTER TABLE t CONVERT TO CHARSET ucs2, MODIFY b CHAR(3) CHARSET gbk, ADD z CHAR(3) CHARSET gbk": (
        "ALTER TABLE t MODIFY b CHAR(3), ADD z CHAR(3), CONVERT TO CHARSET ucs2"
    ),
    "ALTER TABLE t ADD z INT opt=comment AFTER a, ADD y INT AS (a) opt=stored `unique`=1": (
        "ALTER TABLE t ADD z INT AFTER a, ADD y INT AS (a)"
    ),
    "ALTER TABLE t `encrypted`=yes, ADD z INT": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t STORAGE ENGINE=x, ADD z INT": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t PAGE_COMPRESSED 1 INSERT_METHOD FIRST, ADD z INT": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t ALTER a SET DEFAULT (-5)": "ALTER TABLE t ALTER a SET DEFAULT -5",
    "ALTER TABLE t ADD z INT SPLIT BETWEEN (0) AND (9) REGIONS 2": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t ADD z INT, SPLIT INDEX i BETWEEN (0) AND (9) REGIONS 2": "ALTER TABLE t ADD z INT",
    "ALTER TABLE t ADD KEY type TYPE BTREE (a)": "ALTER TABLE t ADD KEY `type` (a)",
    "ALTER TABLE t ADD KEY j (a, t.b(3) DESC)": "ALTER TABLE t ADD KEY j (a, b)",
    "ALTER TABLE t ADD UNIQUE j (a) WHERE b > 'x', ADD z INT": "ALTER TABLE t ADD z INT",
    "CREATE INDEX j ON t (a) WHERE b IS NULL": "ALTER TABLE t ADD INDEX j (a)",
    "CREATE OR REPLACE UNIQUE INDEX u ON t (a)": "ALTER TABLE t DROP INDEX u, ADD UNIQUE INDEX u (a)",
    "CREATE OR REPLACE INDEX u ON t (a)": "ALTER TABLE t DROP INDEX u, ADD INDEX u (a)",
    "ALTER TABLE t ADD z INT, MODIFY z BIGINT AFTER a, ALTER z SET DEFAULT 3": "ALTER TABLE t ADD z BIGINT DEFAULT 3 AFTER a",
    "ALTER TABLE t ADD y DATE, ADD z DATE, ADD PERIOD FOR p (y, z)": "ALTER TABLE t ADD y DATE NOT NULL, ADD z DATE NOT NULL",
    "ALTER TABLE t ADD z INT DEFAULT CASE WHEN a IS NOT NULL THEN CASE a WHEN 1 THEN 2 END ELSE NULL END UNIQUE": (
        "ALTER TABLE t ADD z INT DEFAULT (CASE WHEN a IS NOT NULL THEN CASE a WHEN 1 THEN 2 END ELSE NULL END) UNIQUE"
    ),
    "ALTER TABLE t ADD z INT DEFAULT d.t.a NOT NULL": "ALTER TABLE t ADD z INT DEFAULT (d.t.a) NOT NULL",
    "ALTER TABLE t ADD z INT MASKING POLICY `comment` NOT NULL": "ALTER TABLE t ADD z INT NOT NULL",
}
#: What leaves a table alone.
NO_OPS = (
    "ALTER TABLE t DROP COLUMN IF EXISTS q",
    "ALTER TABLE t DROP IF EXISTS q, DROP INDEX IF EXISTS q, DROP CONSTRAINT IF EXISTS q",
    "ALTER TABLE t MODIFY COLUMN IF EXISTS q BIGINT FIRST",
    "ALTER TABLE t CHANGE COLUMN IF EXISTS q r BIGINT",
    "ALTER TABLE t RENAME COLUMN IF EXISTS q TO r",
    "ALTER TABLE t ALTER COLUMN IF EXISTS q SET DEFAULT 5",
    "ALTER TABLE t ALTER IF EXISTS q DROP DEFAULT",
    "ALTER TABLE t RENAME INDEX IF EXISTS q TO r",
    "ALTER TABLE t ADD COLUMN IF NOT EXISTS a DATE",
    "ALTER TABLE t ADD PRIMARY KEY IF NOT EXISTS (a)",
    "ALTER TABLE t ADD CONSTRAINT c PRIMARY KEY IF NOT EXISTS (a)",
    "ALTER TABLE t ADD INDEX IF NOT EXISTS i (b)",
    "ALTER TABLE t ADD UNIQUE KEY IF NOT EXISTS u (a)",
    "CREATE INDEX IF NOT EXISTS i ON t (b)",
    "ALTER TABLE t ALTER INDEX i NOT IGNORED",
    "ALTER TABLE t ALTER CONSTRAINT c NOT ENFORCED",
    "ALTER TABLE t ALTER COLUMN a SET INVISIBLE",
    "ALTER TABLE t ADD CLUSTERED COLUMNAR INDEX c (a) PARTITION BY HASH(a)",
    "ALTER TABLE t READ ONLY",
    "ALTER TABLE t ANALYZE PARTITION p0 INDEX i, u",
    "ALTER TABLE t CHECK PARTITION p0, p1 FOR UPGRADE",
    "ALTER TABLE t SECONDARY_LOAD PARTITION (p0, p1)",
    "ALTER TABLE t SECONDARY_LOAD VALIDATE ALL ROWS ONLY GUIDED ON",
    "ALTER TABLE t FILES (URI 'x') FILE_FORMAT (FORMAT CSV) STRICT_LOAD DEFAULT AUTO_REFRESH_SOURCE NONE",
    "ALTER TABLE t SPLIT PRIMARY KEY BETWEEN (0) AND (9) REGIONS 2",
    "ALTER TABLE t ENABLE MASKING POLICY p",
    "ALTER TABLE t ALTER a SET MASKING POLICY p",
    "ALTER TABLE t ALTER COLUMN a DROP MASKING POLICY",
    "CREATE MASKING POLICY p ON t (a) AS CASE WHEN CURRENT_ROLE() = 'r' THEN a END ENABLE",
    "DROP MASKING POLICY t",
    "CREATE UNIQUE INDEX j ON t (a) WHERE b IS NULL",
    "CREATE JSON DUALITY VIEW v AS SELECT JSON_DUALITY_OBJECT('_id': id) FROM t",
    "ALTER ALGORITHM=UNDEFINED DEFINER=`r`@`h` SQL SECURITY DEFINER JSON RELATIONAL DUALITY VIEW `v` AS SELECT 1 FROM t",
    "CREATE ALGORITHM=MERGE MATERIALIZED /*(BY ENGINE=UNKNOWN)*/ DEFINER=`r`@`h` SQL SECURITY DEFINER VIEW v AS SELECT a FROM t",
    "ALTER TABLE t EXCHANGE PARTITION p0 WITH TABLE u WITHOUT VALIDATION",
    "TRUNCATE TABLE t WAIT 5",
    "OPTIMIZE TABLE t NOWAIT",
    "GRANT ALL ON d.t TO u",
    "REVOKE ALL ON t FROM u",
    "CREATE USER t",
    "ALTER USER t ACCOUNT LOCK",
    "DROP USER IF EXISTS t",
    "RENAME USER t TO u",
    "CREATE ROLE t",
    "SET PASSWORD FOR t = 'x'",
    "SET DEFAULT ROLE t TO u",
    "FLUSH TABLES t",
    "CREATE DEFINER=`root`@`%` PROCEDURE t() BEGIN DROP TABLE t; ALTER TABLE t DROP a; END",
    "CREATE OR REPLACE AGGREGATE FUNCTION t (x INT) RETURNS INT RETURN 1",
    "DROP PROCEDURE t",
    "CREATE DEFINER = CURRENT_USER EVENT e ON SCHEDULE EVERY 1 DAY DO DROP TABLE t",
    "DROP TRIGGER t",
    "CREATE SERVER s FOREIGN DATA WRAPPER mysql OPTIONS (HOST 'h')",
    "ALTER INSTANCE ROTATE INNODB MASTER KEY",
    "CREATE TABLESPACE t ADD DATAFILE 't.ibd'",
    "DROP UNDO TABLESPACE t",
    "CREATE RESOURCE GROUP t RU_PER_SEC=5",
    "CREATE PLACEMENT POLICY t FOLLOWERS=4",
    "CREATE GLOBAL BINDING FOR SELECT * FROM t USING SELECT * FROM t",
    "DROP GLOBAL TEMPORARY TABLE t",
    "CREATE TEMPORARY TABLE t (x INT)",
    "CREATE LIBRARY t LANGUAGE JAVASCRIPT AS $$ x $$",
    "ALTER TABLE IF EXISTS t COMMENT = ''",
    "ALTER TABLE t RENAME TO t2, RENAME TO t",
)
#: What nobody knows of, and what is no clause of a table here.
UNKNOWN = (
    "ALTER TABLE t SOMETHING NEW (a, b), ADD COLUMN c INT",
    "ALTER TABLE t REPLACE COLUMN a a BIGINT",
    "ALTER TABLE t ALTER COLUMN a TYPE BIGINT",
    "ALTER TABLE t ALTER a SET DATA TYPE BIGINT",
    "ALTER TABLE t DROP a b",
    "ALTER TABLE t DROP VERSIONS x",
    "ALTER TABLE t ADD COLUMN INDEX g (a)",
    "ALTER TABLE t ADD COLUMN x KEY (a)",
    "ALTER TABLE t ADD NEW INDEX g (a)",
    "ALTER TABLE t ADD COLUMN z sometype somewhere",
    "ALTER TABLE t ADD CONSTRAINT c SOMETHING (a)",
    "ALTER TABLE t CONVERT TO SOMETHING",
    "ALTER TABLE t REMOVE SOMETHING",
    "ALTER TABLE t SET SOMETHING",
    "ALTER TABLE t RENAME CONSTRAINT a TO b",
    "ALTER TABLE t MODIFY a",
    "ALTER TABLE t NOWAIT ADD z DATE oops(",
    "ALTER FOREIGN TABLE t ADD a INT",
    "CREATE EXTERNAL VIEW t AS SELECT 1",
    "CREATE JSON VIEW t AS SELECT 1",
    "ALTER TABLE t ADD z other_schema.DATE",
    "ALTER TABLE t ADD z INT DEFAULT CASE a WHEN 1 THEN 2",
    "FLASHBACK TABLE t TO TSO 5",
    "RESTORE TABLE `d`.`t` FROM 's3://x'",
    "FLASHBACK TABLE t TO TIMESTAMP '2026-01-01'",
    "GRANT x TO u; ALTER TABLE t ADD",
    "/*M!100100 ALTER TABLE t SOMETHING */",
    "SET STATEMENT a=1 FOR UPDATE t SET a = 1",
)


@pytest.mark.parametrize("sql", SAME_AS)
def test_a_dialect_says_the_same_in_other_words(sql: str) -> None:
    stream = Stream(TABLE)
    assert stream.apply_ddl(sql).kinds
    expected = after(SAME_AS[sql])
    assert expected is not None
    assert stream.table() == expected


@pytest.mark.parametrize("sql", NO_OPS)
def test_a_statement_that_changes_no_column_leaves_the_table_alone(sql: str) -> None:
    stream = Stream(TABLE)
    assert stream.apply_ddl(sql).kinds
    found = stream.table()
    assert columns(found) == COLUMNS
    assert found is not None
    assert BEFORE is not None
    assert (found.primary_key, found.ordered_keys()) == (BEFORE.primary_key, BEFORE.ordered_keys())


@pytest.mark.parametrize("constraint", ["", "CONSTRAINT c "])
def test_a_primary_key_that_does_not_exist_is_added(constraint: str) -> None:
    stream = Stream("CREATE TABLE t (a INT NOT NULL, b INT)")
    stream.apply_ddl(f"ALTER TABLE t ADD {constraint}PRIMARY KEY IF NOT EXISTS (a)")
    found = stream.table()
    assert found is not None
    assert found.primary_key == ("a",)


@pytest.mark.parametrize("sql", UNKNOWN)
@pytest.mark.parametrize("named", ["t", ""])
def test_what_is_not_understood_leaves_no_stale_definition(sql: str, named: str) -> None:
    stream = Stream(TABLE, "CREATE TABLE other (x INT)")
    assert stream.apply_ddl(sql, named).kinds == ()
    assert stream.table() is None
    assert columns(stream.table("other")) == "x int"


#: Clauses that change columns.
SHAPING = (
    "ADD COLUMN z DATE NOT NULL DEFAULT '2026-01-01' FIRST",
    "ADD (y INT, z DECIMAL(10,4) UNSIGNED)",
    "DROP COLUMN a",
    "MODIFY COLUMN a BIGINT UNSIGNED AFTER b",
    "CHANGE COLUMN e e ENUM('y','x') NULL",
    "RENAME COLUMN a TO z",
    "DROP PRIMARY KEY, ADD PRIMARY KEY (a, id)",
    "CONVERT TO CHARACTER SET binary",
    "ENGINE=InnoDB, MODIFY b BLOB, ORDER BY a",
    "ADD COLUMN z INT, ALGORITHM=INPLACE, LOCK=NONE",
)
#: Words that some server may have, or that no server has.
INSERTED = (
    "XYZZY",
    "ONLINE",
    "GLOBAL",
    "NOWAIT",
    "XYZZY 5",
    "(XYZZY)",
    "'x'",
    "`q`",
    "ADD",
    "DROP",
    "INDEX",
    "SET",
)


@pytest.mark.parametrize("clause", SHAPING)
@pytest.mark.parametrize("word", INSERTED)
def test_a_word_more_never_hides_a_change(clause: str, word: str) -> None:
    """The table is unknown then, or what it is without that word, or has a column of this name or default."""
    tokens = re.findall(r"'[^']*'|\w+|[^\w\s]", clause)
    expected = after(f"ALTER TABLE t {clause}")
    assert expected is not None
    for index in range(len(tokens) + 1):
        text = " ".join([*tokens[:index], word, *tokens[index:]])
        found = after(f"ALTER TABLE t {text}")
        types = None if found is None else {column.name: column.type for column in found.columns}
        wanted = {column.name: column.type for column in expected.columns}
        assert types is None or types == wanted or set(types) - {*wanted, "a"}, text


#: One word of a clause left out, which a dialect may do.
@pytest.mark.parametrize("clause", SHAPING)
def test_a_word_less_never_leaves_the_table_as_it_was(clause: str) -> None:
    tokens = re.findall(r"'[^']*'|\w+|[^\w\s]", clause)
    for index in range(len(tokens)):
        text = " ".join([*tokens[:index], *tokens[index + 1 :]])
        if re.search(r"ADD|DROP|MODIFY|CHANGE|RENAME|CONVERT", text):
            assert columns(after(f"ALTER TABLE t {text}")) != COLUMNS or "KEY" in text, text


@pytest.mark.parametrize(
    "element",
    [
        "GLOBAL INDEX g (a) COVERING (b) PARTITION BY HASH(a) PARTITIONS 4",
        "UNIQUE GLOBAL INDEX g (a) DBPARTITION BY HASH(a)",
        "CLUSTERED INDEX g (a)",
        "UNIQUE CLUSTERED KEY g (a)",
        "LOCAL KEY g (a)",
        "GLOBAL UNIQUE INDEX g (a)",
    ],
)
def test_index_clauses_of_polardb_x_are_indexes(element: str) -> None:
    stream = Stream(f"CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, {element}) DBPARTITION BY HASH(id)")
    table = stream.table()
    assert columns(table) == "id int, a int, b int"
    assert table is not None
    assert [key.name for key, _ in table.ordered_keys()] == ["g"]


@pytest.mark.parametrize("word", ["global", "local", "clustered"])
def test_words_of_index_clauses_may_name_columns(word: str) -> None:
    made = Stream(f"CREATE TABLE t ({word} INT, b INT, KEY {word} ({word}))").table()
    assert columns(made) == f"{word} int, b int"


@pytest.mark.parametrize(
    "sql",
    [
        "RENAME TABLE t NOWAIT TO u",
        "RENAME TABLE t WAIT 5 TO u",
        "RENAME TABLES IF EXISTS t WAIT 5 TO u",
        "SET STATEMENT lock_wait_timeout=5 FOR RENAME TABLE .t TO .u",
        "ALTER TABLE t NOWAIT RENAME u",
        "ALTER TABLE t RENAME TO x, RENAME TO u",
    ],
)
def test_renames_with_clauses_of_mariadb_are_applied(sql: str) -> None:
    stream = Stream(TABLE)
    change = stream.apply_ddl(sql)
    assert (stream.table(), columns(stream.table("u")), stream.table("x")) == (None, COLUMNS, None)
    assert [(pair.old.table, pair.new.table) for pair in change.renamed] == [("t", "u")]


@pytest.mark.parametrize(
    "query",
    ["(SELECT 1 AS q)", "ENGINE=InnoDB (SELECT 1 AS q)", "PARTITION BY HASH (a) (SELECT 1)", "((SELECT 1))"],
)
def test_a_query_in_parentheses_adds_columns(query: str) -> None:
    stream = Stream(f"CREATE TABLE t (a INT) {query}")
    assert stream.table() is None


@pytest.mark.parametrize(
    "options",
    [
        "ROW_FORMAT=DEFAULT",
        "ROW_FORMAT=DEFAULT, COMMENT='c'",
        "ROW_FORMAT DEFAULT DEFAULT CHARSET=latin1",
        "STATS_PERSISTENT=DEFAULT STATS_AUTO_RECALC=DEFAULT CHARSET latin1 PACK_KEYS=DEFAULT",
        "PLACEMENT POLICY DEFAULT COMMENT 'c'",
        "PLACEMENT POLICY SET DEFAULT CHARSET latin1",
        "PLACEMENT POLICY = DEFAULT PARTITION BY HASH(a)",
        "STORAGE ENGINE = DEFAULT COMMENT='c'",
        "some_option=DEFAULT other_option=table COMMENT='c' `more`=select",
        "UNION=((SELECT)) CHARSET=latin1",
        "ALLOW_MISSING_FILES DEFAULT AUTO_REFRESH DEFAULT CHARSET latin1",
    ],
)
def test_a_value_of_an_option_is_neither_an_option_nor_a_query(options: str) -> None:
    made = Stream(f"CREATE TABLE t (a INT, b TEXT) {options}").table()
    assert made is not None
    assert (columns(made), made.charset, made.comment) == (
        "a int, b text",
        "latin1" if "latin1" in options else None,
        "c" if "COMMENT" in options else None,
    )


def test_a_table_of_external_files_is_a_table() -> None:
    made = Stream("CREATE EXTERNAL TABLE t (a INT) ENGINE=lakehouse FILE_FORMAT=(FORMAT CSV) FILES=(URI='x')")
    assert columns(made.table()) == "a int"


@pytest.mark.parametrize(
    ("items", "found"),
    [
        ("ADD z INT FIRST, MODIFY a INT FIRST", "a int, z int, id int, b varchar(9), e enum('x','y')"),
        ("MODIFY a INT FIRST, ADD z INT FIRST", "z int, a int, id int, b varchar(9), e enum('x','y')"),
        (
            "ADD z INT AFTER id, CHANGE a y INT AFTER id",
            "id int, y int, z int, b varchar(9), e enum('x','y')",
        ),
        ("MODIFY a INT AFTER y, CHANGE b y INT", "id int, y int, a int, e enum('x','y')"),
    ],
)
def test_columns_are_added_and_moved_in_the_order_of_the_statement(items: str, found: str) -> None:
    assert columns(after(f"ALTER TABLE t {items}")) == found


@pytest.mark.parametrize(
    ("items", "keys"),
    [
        ("RENAME INDEX i TO u, RENAME INDEX u TO i", {"u": ("a",), "i": ("b",)}),
        ("RENAME INDEX i TO u, DROP INDEX u", {"u": ("a",)}),
        ("DROP INDEX i, RENAME INDEX u TO i", {"i": ("b",)}),
        ("RENAME INDEX i TO j, DROP INDEX j", {"u": ("b",)}),
    ],
)
def test_indexes_go_by_their_names_before_the_statement(items: str, keys: dict[str, tuple[str, ...]]) -> None:
    found = after(f"ALTER TABLE t {items}")
    assert found is not None
    assert {key.name: key.columns for key, _ in found.ordered_keys()} == keys


@pytest.mark.parametrize(
    ("sql", "keys"),
    [
        ("CREATE TABLE u (KEY (a), a INT UNIQUE, UNIQUE (a))", ["a", "a_2", "a_3"]),
        ("CREATE TABLE u (a INT UNIQUE, KEY (a))", ["a", "a_2"]),
        ("CREATE TABLE u (`Primary` INT, KEY (`Primary`), KEY (`Primary`))", ["Primary_2", "Primary_3"]),
    ],
)
def test_indexes_without_names_are_named_in_the_order_of_the_statement(sql: str, keys: list[str]) -> None:
    made = Stream(sql).table("u")
    assert made is not None
    assert [key.name for key, _ in made.ordered_keys()] == keys


def test_columns_of_system_time_are_stored_and_not_null() -> None:
    period = "PERIOD FOR SYSTEM_TIME (rs, re)"
    made = Stream(
        "CREATE TABLE t (id INT PRIMARY KEY, b INT, UNIQUE u (b), rs TIMESTAMP(6) GENERATED ALWAYS AS ROW START INVISIBLE,"
        f" re TIMESTAMP(6) AS ROW END COMMENT 'c', {period}) WITH SYSTEM VERSIONING"
    ).table()
    added = Stream(
        "CREATE TABLE t (id INT PRIMARY KEY, b INT, UNIQUE u (b))",
        f"ALTER TABLE t ADD {period}, ADD rs TIMESTAMP(6) AS ROW START, ADD re TIMESTAMP(6) AS ROW END COMMENT 'c'",
    ).table()
    assert made is not None
    assert made == added
    assert [(c.name, c.nullable, c.generated) for c in made.columns[2:]] == [
        ("rs", False, Generated.STORED),
        ("re", False, Generated.STORED),
    ]
    assert made.primary_key == ("id", "re")
    assert [key.columns for key in made.unique_keys] == [("b", "re")]


def test_columns_of_a_key_with_a_period_are_not_null() -> None:
    made = Stream(
        "CREATE TABLE t (a INT, s DATE, e DATE, PERIOD FOR p (s, e), PRIMARY KEY (a, p WITHOUT OVERLAPS))"
    ).table()
    assert made is not None
    assert [column.nullable for column in made.columns] == [False, False, False]
    assert made.primary_key is None


@pytest.mark.parametrize(
    ("attributes", "nullable"),
    [
        ("AUTO_INCREMENT UNIQUE", False),
        ("NULL AUTO_INCREMENT UNIQUE", False),
        ("AUTO_INCREMENT UNIQUE NULL", True),
        ("SERIAL DEFAULT VALUE NULL", True),
        ("AUTO_INCREMENT NULL PRIMARY KEY", False),
    ],
)
def test_null_behind_auto_increment_counts(attributes: str, *, nullable: bool) -> None:
    made = Stream(f"CREATE TABLE t (a INT {attributes})").table()
    assert made is not None
    assert (made.columns[0].nullable, made.columns[0].auto_increment) == (nullable, True)


def test_columns_keep_the_default_charset_when_that_of_their_table_changes() -> None:
    made = after("ALTER TABLE t CHARSET latin1, ADD z CHAR(3)")
    assert made is not None
    charsets = {column.name: column.type.charset for column in made.columns}
    assert (made.charset, charsets["b"], charsets["e"], charsets["z"]) == (
        "latin1",
        "utf8mb4",
        "utf8mb4",
        None,
    )


CREATE_TEXTS = "CREATE TABLE t (a TINYTEXT, b TEXT, c MEDIUMTEXT, d LONGTEXT, e TEXT CHARACTER SET utf8mb3, f BLOB) CHARSET latin1"


def test_text_is_widened_where_its_characters_need_more_bytes() -> None:
    wider = Stream(CREATE_TEXTS, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4").table()
    assert columns(wider) == "a text, b mediumtext, c longtext, d longtext, e mediumtext, f blob"
    narrower = Stream(CREATE_TEXTS, "ALTER TABLE t CONVERT TO CHARACTER SET latin1").table()
    assert columns(narrower) == "a tinytext, b text, c mediumtext, d longtext, e text, f blob"


def test_tidb_does_not_widen_text() -> None:
    catalog = Catalog()
    for offset, ddl in enumerate((CREATE_TEXTS, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"), 1):
        message = DdlMessage(ddl, TableId("d", "t"), "", Source("ticdc", 0), at(offset), 0)
        catalog, _ = apply_ddl(catalog, message)
    found = catalog.table(TableId("d", "t"), at(3))
    assert columns(found) == "a tinytext, b text, c mediumtext, d longtext, e text, f blob"


def test_a_partition_of_mariadb_becomes_a_table_like_its_own() -> None:
    stream = Stream(TABLE)
    change = stream.apply_ddl("ALTER TABLE t CONVERT PARTITION p0 TO TABLE other.u WITHOUT VALIDATION")
    assert change.kinds == (DdlKind.ALTER_PARTITIONING,)
    assert change.targets == (TableId("d", "t"), TableId("other", "u"))
    made = stream.catalog.table(TableId("other", "u"), at(9))
    assert columns(made) == columns(stream.table()) == COLUMNS


def test_a_table_of_mariadb_that_becomes_a_partition_is_gone() -> None:
    stream = Stream(TABLE, TABLE.replace("TABLE t", "TABLE u"))
    assert stream.apply_ddl("ALTER TABLE t CONVERT TABLE u TO PARTITION p1 VALUES LESS THAN (9)").kinds
    assert (columns(stream.table()), stream.table("u")) == (COLUMNS, None)
    assert not stream.catalog.has(TableId("d", "u"), at(9))


def test_a_database_that_is_replaced_has_no_tables() -> None:
    stream = Stream(TABLE, "CREATE OR REPLACE DATABASE d CHARSET latin1")
    assert not stream.catalog.has(TableId("d", "t"), at(9))
    stream.apply_ddl("CREATE TABLE t (a CHAR(3))")
    made = stream.table()
    assert made is not None
    assert made.charset == "latin1"


@pytest.mark.parametrize("option", ["PLACEMENT POLICY = p", "SET TIFLASH REPLICA 2", "CHARSET latin1"])
def test_alter_database_may_name_no_database(option: str) -> None:
    change = Stream().apply_ddl(f"ALTER DATABASE {option}", "")
    assert (change.kinds, change.table) == ((DdlKind.ALTER_DATABASE,), TableId("d", ""))


def test_alter_if_exists_of_a_table_that_is_gone_changes_nothing() -> None:
    stream = Stream(TABLE, "DROP TABLE t", "ALTER TABLE IF EXISTS t ADD q INT", TABLE)
    assert columns(stream.table()) == COLUMNS


def test_statements_about_no_table_are_known_as_such() -> None:
    for sql in (
        "GRANT ALL ON *.* TO u",
        "CREATE USER u",
        "SET PASSWORD = 'x'",
        "FLUSH PRIVILEGES",
        "DROP ROLE r",
    ):
        assert read_ddl(sql).kinds == (DdlKind.ADMINISTRATION,)
    for sql in (
        "INSERT INTO t VALUES (1)",
        "DELETE FROM t",
        "USE d",
        "CALL p()",
        "LOAD DATA INFILE 'x' INTO TABLE t",
    ):
        with pytest.raises(DdlNotUnderstood):
            read_ddl(sql)
