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
from relay.model.events import DdlKind, Position, SchemaChange, Source, TableId, TableSchema
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
    "ALTER TABLE t ENABLE MASKING POLICY p",
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
    "CREATE EXTERNAL TABLE t (x INT)",
    "CREATE JSON DUALITY VIEW t AS SELECT 1",
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
    for place in range(len(tokens) + 1):
        text = " ".join([*tokens[:place], word, *tokens[place:]])
        found = after(f"ALTER TABLE t {text}")
        types = None if found is None else {column.name: column.type for column in found.columns}
        wanted = {column.name: column.type for column in expected.columns}
        assert types is None or types == wanted or set(types) - {*wanted, "a"}, text


#: One word of a clause left out, which a dialect may do.
@pytest.mark.parametrize("clause", SHAPING)
def test_a_word_less_never_leaves_the_table_as_it_was(clause: str) -> None:
    tokens = re.findall(r"'[^']*'|\w+|[^\w\s]", clause)
    for place in range(len(tokens)):
        text = " ".join([*tokens[:place], *tokens[place + 1 :]])
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
