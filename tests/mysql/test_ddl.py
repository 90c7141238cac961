"""The DDL reader on statements of real streams, in both spellings, and on garbage.

Longer than 400 lines because the statements, which the garbage tests use as well, stand together in one
table.
"""

from __future__ import annotations

import pytest
from cost_support import assert_linear
from hypothesis import given
from hypothesis import strategies as st

from relay.model.errors import DdlNotUnderstood
from relay.model.events import (
    ABSENT,
    Column,
    ColumnType,
    DdlKind,
    Default,
    Generated,
    Index,
    TableId,
    TableSchema,
    UniqueKey,
)
from relay.mysql.ddl import alter_table, define_table, read_ddl
from relay.mysql.ddl.statements import AlterTable, CreateTable, Ddl

K = DdlKind
#: As MySQL logs them (Canal, Debezium, Maxwell) or users typed them.
TYPED: dict[str, tuple[DdlKind, ...]] = {
    "CREATE DATABASE all_types_db DEFAULT CHARACTER SET utf8mb4 COLLATE utf8mb4_bin;": (K.CREATE_DATABASE,),
    "CREATE TABLE pk_composite (region VARCHAR(10) NOT NULL, seq INT NOT NULL, amount DECIMAL(10,2), PRIMARY KEY (seq, region));": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE `back``tick` (`i``d` INT NOT NULL PRIMARY KEY, `q\"uote` VARCHAR(10), `apos'` VARCHAR(10), `back\\slash` INT)": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE `select` (`from` INT NOT NULL PRIMARY KEY, `where` VARCHAR(10), `group` INT, `key` INT, `index` INT)": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE part_range (id INT NOT NULL, created DATE NOT NULL, v VARCHAR(10), PRIMARY KEY (id, created)) PARTITION BY RANGE"
    " (YEAR(created)) (PARTITION p2024 VALUES LESS THAN (2025), PARTITION p2025 VALUES LESS THAN (2026));": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE child (id INT NOT NULL PRIMARY KEY, pid INT, CONSTRAINT fk_p FOREIGN KEY (pid) REFERENCES parent (id)"
    " ON DELETE CASCADE)": (K.CREATE_TABLE,),
    "CREATE TABLE gen (id INT NOT NULL PRIMARY KEY, a INT NULL, s_sum INT GENERATED ALWAYS AS (a + 1) STORED, v_mul INT"
    " GENERATED ALWAYS AS (a * 2) VIRTUAL, s_up VARCHAR(40) GENERATED ALWAYS AS (CONCAT(UPPER(name), '!')) STORED)": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE geo (id INT NOT NULL PRIMARY KEY, p POINT NULL SRID 4326, l LINESTRING NULL, g GEOMETRY NULL);": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE rnd (id BIGINT NOT NULL AUTO_RANDOM(5) PRIMARY KEY CLUSTERED, v INT);": (K.CREATE_TABLE,),
    "CREATE TABLE with_seq (id INT NOT NULL PRIMARY KEY, s BIGINT NOT NULL DEFAULT NEXT VALUE FOR seq1);": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE ttl_t (id INT NOT NULL PRIMARY KEY, at TIMESTAMP NULL DEFAULT NULL) TTL = `at` + INTERVAL 1 DAY"
    " TTL_ENABLE = 'OFF'": (K.CREATE_TABLE,),
    "CREATE TABLE people_like LIKE people;": (K.CREATE_TABLE,),
    "CREATE TABLE people_like (LIKE people)": (K.CREATE_TABLE,),
    "CREATE TABLE ctas AS SELECT id, v FROM src;": (K.CREATE_TABLE,),
    "CREATE TABLE atomic_ctas (id INT NOT NULL) START TRANSACTION": (K.CREATE_TABLE,),
    "ALTER TABLE `db.with.dots`.`t.1` ADD COLUMN `new col` INT NULL;": (K.ADD_COLUMN,),
    "ALTER TABLE users ADD COLUMN score DECIMAL(6,2) NULL DEFAULT 1.50 AFTER id;": (K.ADD_COLUMN,),
    "ALTER TABLE users ADD COLUMN m1 INT NULL, ADD COLUMN m2 VARCHAR(5) NULL DEFAULT 'm', DROP COLUMN score;": (
        K.ADD_COLUMN,
        K.ADD_COLUMN,
        K.DROP_COLUMN,
    ),
    "ALTER TABLE src ADD COLUMN w INT NULL, ADD INDEX iw (w), MODIFY COLUMN v VARCHAR(20) NULL, RENAME TO src2;": (
        K.ADD_COLUMN,
        K.ADD_INDEX,
        K.MODIFY_COLUMN,
        K.RENAME_TABLE,
    ),
    "ALTER TABLE users MODIFY COLUMN label VARCHAR(12) NOT NULL DEFAULT 'x1' AFTER name;": (K.MODIFY_COLUMN,),
    "ALTER TABLE users CHANGE COLUMN code tag VARCHAR(12) NOT NULL DEFAULT 'x1';": (K.MODIFY_COLUMN,),
    "ALTER TABLE users RENAME COLUMN tag TO label;": (K.RENAME_COLUMN,),
    "ALTER TABLE users ALTER COLUMN label SET DEFAULT 'new default';": (K.SET_DEFAULT,),
    "ALTER TABLE users ALTER COLUMN label DROP DEFAULT;": (K.SET_DEFAULT,),
    "CREATE INDEX idx_score ON users (score);": (K.ADD_INDEX,),
    "CREATE UNIQUE INDEX uk_id_name ON users (id, name);": (K.ADD_INDEX,),
    "CREATE FULLTEXT INDEX f ON users (name) COMMENT 'x' ALGORITHM=INPLACE": (K.ADD_INDEX,),
    "ALTER TABLE users ADD CONSTRAINT u UNIQUE KEY k USING BTREE (a, b(10) DESC), ADD FULLTEXT (x), ADD INDEX e ((lower(a)))": (
        K.ADD_INDEX,
        K.ADD_INDEX,
        K.ADD_INDEX,
    ),
    "ALTER TABLE users RENAME INDEX idx_name TO idx_renamed;": (K.RENAME_INDEX,),
    "DROP INDEX idx_score ON users;": (K.DROP_INDEX,),
    "DROP INDEX `PRIMARY` ON users": (K.DROP_PRIMARY_KEY,),
    "ALTER TABLE users DROP INDEX uk_label;": (K.DROP_INDEX,),
    "ALTER TABLE gidx ADD INDEX iv (v) INVISIBLE;": (K.ADD_INDEX,),
    "ALTER TABLE gidx ALTER INDEX iv VISIBLE": (K.ALTER_INDEX_VISIBILITY,),
    "ALTER TABLE nonclustered DROP PRIMARY KEY;": (K.DROP_PRIMARY_KEY,),
    "ALTER TABLE nonclustered ADD PRIMARY KEY (id) NONCLUSTERED;": (K.ADD_PRIMARY_KEY,),
    "ALTER TABLE t ADD CONSTRAINT fk FOREIGN KEY (a) REFERENCES p (id) ON DELETE SET NULL ON UPDATE CASCADE": (
        K.ADD_FOREIGN_KEY,
    ),
    "ALTER TABLE child DROP FOREIGN KEY fk_p;": (K.DROP_FOREIGN_KEY,),
    "ALTER TABLE t ADD CONSTRAINT chk CHECK (a > 0) NOT ENFORCED, ADD CHECK (b)": (K.ADD_CHECK, K.ADD_CHECK),
    "ALTER TABLE t ALTER CHECK chk ENFORCED, DROP CHECK chk": (K.ALTER_CHECK, K.DROP_CHECK),
    "ALTER TABLE users COMMENT = 'new; comment with ''quotes'' and `ticks`';": (K.TABLE_COMMENT,),
    "ALTER TABLE users AUTO_INCREMENT = 100;": (K.REBASE_AUTO_ID,),
    "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4 COLLATE utf8mb4_bin, ALGORITHM=COPY, LOCK=SHARED": (
        K.TABLE_CHARSET,
    ),
    "ALTER TABLE t DEFAULT CHARSET latin1 COMMENT 'x' ENGINE=InnoDB ROW_FORMAT=DYNAMIC": (
        K.TABLE_CHARSET,
        K.TABLE_COMMENT,
        K.ALTER_TABLE_OPTION,
    ),
    "ALTER TABLE src2 ENGINE=InnoDB;": (K.ALTER_TABLE_OPTION,),
    "ALTER TABLE t ENABLE KEYS": (K.ALTER_TABLE_OPTION,),
    "ALTER TABLE t PLACEMENT POLICY p1": (K.ALTER_TABLE_OPTION,),
    "ALTER TABLE t SET TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'": (K.ALTER_TABLE_OPTION,),
    "ALTER TABLE ttl_t TTL = `at` + INTERVAL 2 DAY;": (K.ALTER_TTL,),
    "ALTER TABLE ttl_t REMOVE TTL;": (K.REMOVE_TTL,),
    "ALTER TABLE part_range ADD PARTITION (PARTITION p2026 VALUES LESS THAN (2027));": (K.ADD_PARTITION,),
    "ALTER TABLE part_range TRUNCATE PARTITION p2025, p2026;": (K.TRUNCATE_PARTITION,),
    "ALTER TABLE part_range DROP PARTITION p2024, p2025;": (K.DROP_PARTITION,),
    "ALTER TABLE ex_part REORGANIZE PARTITION p0, p1 INTO (PARTITION p00 VALUES LESS THAN (50))": (
        K.REORGANIZE_PARTITION,
    ),
    "ALTER TABLE ex_part EXCHANGE PARTITION p0 WITH TABLE ex_plain;": (K.EXCHANGE_PARTITION,),
    "ALTER TABLE t PARTITION BY RANGE (id) (PARTITION p0 VALUES LESS THAN (1), PARTITION p1 VALUES LESS THAN (2))": (
        K.ALTER_PARTITIONING,
    ),
    "ALTER TABLE t ADD COLUMN a INT PARTITION BY HASH (a) PARTITIONS 2": (K.ADD_COLUMN, K.ALTER_PARTITIONING),
    "ALTER TABLE t REMOVE PARTITIONING": (K.REMOVE_PARTITIONING,),
    "ALTER TABLE t REBUILD PARTITION p0, p1": (K.OTHER,),
    "RENAME TABLE tmp_a TO tmp_x, tmp_b TO tmp_a;": (K.RENAME_TABLE,),
    "ALTER TABLE members RENAME TO `people`;": (K.RENAME_TABLE,),
    "TRUNCATE tmp_x;": (K.TRUNCATE_TABLE,),
    "DROP TABLE `tmp_a`,`tmp_x` /* generated by server */": (K.DROP_TABLE,),
    "DROP TABLE IF EXISTS `does_not_exist` /* generated by server */": (K.DROP_TABLE,),
    "CREATE ALGORITHM=UNDEFINED DEFINER=`app`@`%` SQL SECURITY DEFINER VIEW `v_people` AS SELECT id, name FROM people": (
        K.CREATE_VIEW,
    ),
    "CREATE OR REPLACE VIEW v_people AS SELECT id FROM people;": (K.CREATE_VIEW,),
    "DROP VIEW v_people;": (K.DROP_VIEW,),
    "ALTER DATABASE ddl_other CHARACTER SET utf8mb4 COLLATE utf8mb4_general_ci;": (K.ALTER_DATABASE,),
    "DROP DATABASE ddl_other;": (K.DROP_DATABASE,),
    "CREATE SEQUENCE seq1 START WITH 10 INCREMENT BY 5;": (K.SEQUENCE,),
    "DROP SEQUENCE seq1;": (K.SEQUENCE,),
    "RECOVER TABLE gidx;": (K.RECOVER_TABLE,),
    "FLASHBACK TABLE gidx TO gidx2": (K.RECOVER_TABLE,),
    "RECOVER TABLE BY JOB 53": (K.RECOVER_TABLE,),
    "CREATE TRIGGER trg_src AFTER UPDATE ON src FOR EACH ROW INSERT INTO audit (what) VALUES (CONCAT(OLD.v, '->', NEW.v));": (
        K.OTHER,
    ),
    "DROP TRIGGER trg_src;": (K.OTHER,),
    "OPTIMIZE TABLE src2;": (K.OTHER,),
    "DROP TEMPORARY TABLE IF EXISTS `users`": (K.OTHER,),
    "CREATE TEMPORARY TABLE users (a INT)": (K.OTHER,),
    "/*!40000 ALTER TABLE t DISABLE KEYS */": (K.ALTER_TABLE_OPTION,),
    "-- a comment\n# another\nALTER /* x */ TABLE t DROP a": (K.DROP_COLUMN,),
}
#: As TiDB restores them, which is what TiCDC sends.
RESTORED: dict[str, tuple[DdlKind, ...]] = {
    "CREATE DATABASE `Names-Db` CHARACTER SET = utf8mb4 COLLATE = utf8mb4_bin": (K.CREATE_DATABASE,),
    "CREATE TABLE `uk_nn` (`a` INT NOT NULL,`b` VARCHAR(10) NOT NULL,`v` INT,UNIQUE `uk`(`a`, `b`))": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE `nonclustered` (`id` INT NOT NULL,`name` VARCHAR(10),PRIMARY KEY(`id`) /*T![clustered_index] NONCLUSTERED */)": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE `rnd` (`id` BIGINT NOT NULL /*T![auto_rand] AUTO_RANDOM(5) */ PRIMARY KEY"
    " /*T![clustered_index] CLUSTERED */,`v` INT)": (K.CREATE_TABLE,),
    "CREATE TABLE `gidx` (`id` INT NOT NULL PRIMARY KEY,`v` INT COMMENT 'x') /*T![auto_id_cache] AUTO_ID_CACHE = 1 */": (
        K.CREATE_TABLE,
    ),
    "CREATE TABLE `with_seq` (`id` INT NOT NULL PRIMARY KEY,`s` BIGINT NOT NULL DEFAULT (NEXTVAL(`seq1`)))": (
        K.CREATE_TABLE,
    ),
    "ALTER TABLE `users` ADD COLUMN `code` VARCHAR(10) NOT NULL DEFAULT _UTF8MB4'x1' FIRST": (K.ADD_COLUMN,),
    "ALTER TABLE `users` ADD UNIQUE `uk_label`(`label`, `id`)": (K.ADD_INDEX,),
    "ALTER TABLE `ttl_t` /*T![ttl] TTL = `at` + INTERVAL 2 DAY */ /*T![ttl] TTL_ENABLE = 'OFF' */": (
        K.ALTER_TTL,
    ),
    "ALTER TABLE `ttl_t` /*T![ttl] REMOVE TTL */": (K.REMOVE_TTL,),
    "RENAME TABLE `ddl_db`.`tmp_a` TO `ddl_db`.`tmp_x`;": (K.RENAME_TABLE,),
    "CREATE OR REPLACE ALGORITHM = UNDEFINED DEFINER = CURRENT_USER SQL SECURITY DEFINER VIEW `v_people` AS SELECT `id`"
    " FROM `people`": (K.CREATE_VIEW,),
}
NOT_UNDERSTOOD = [
    "",
    " ;; ",
    "UPDATE t SET a = 1",
    "ALTER TABLE t SOMETHING NEW (a, b), ADD COLUMN c INT",
    "FLASHBACK CLUSTER TO TIMESTAMP '2020-01-01'",
    "ANALYZE INCREMENTAL x",
    "CREATE TABLE t",
    "CREATE TABLE t (id INT",
    "CREATE TABLE t (id INT, PRIMARY KEY ())",
    "CREATE TABLE t (PRIMARY KEY (id))",
    "CREATE TABLE t (id 'INT')",
    "ALTER TABLE t ADD COLUMN a",
    "ALTER TABLE t ADD COLUMN a INT)",
    "ALTER TABLE t 'x'",
    "ALTER TABLE `t ADD COLUMN a INT",
    "ALTER TABLE t COMMENT 'x",
    "ALTER TABLE t /*! ADD COLUMN a INT",
    "ALTER TABLE t ADD COLUMN a INT /* x",
]


def schema_of(sql: str, *, restored: bool = False) -> TableSchema:
    (statement,) = read_ddl(sql, backslash_escapes=not restored).statements
    assert isinstance(statement, CreateTable)
    schema = define_table(TableId("d", statement.table.table), statement.changes)
    assert schema is not None
    return schema


def altered(schema: TableSchema, sql: str) -> TableSchema | None:
    (statement,) = read_ddl(sql).statements
    assert isinstance(statement, AlterTable)
    return alter_table(schema, statement.changes)


def column_of(definition: str, options: str = "", *, restored: bool = False) -> Column:
    return schema_of(f"CREATE TABLE t (c {definition}){options}", restored=restored).columns[0]


def names(schema: TableSchema | None) -> list[str]:
    assert schema is not None
    return [column.name for column in schema.columns]


@pytest.mark.parametrize("sql", TYPED)
def test_typed_statements(sql: str) -> None:
    assert read_ddl(sql).kinds == TYPED[sql]
    assert read_ddl(sql.upper()).kinds == TYPED[sql]


@pytest.mark.parametrize("sql", RESTORED)
def test_restored_statements(sql: str) -> None:
    assert read_ddl(sql, backslash_escapes=False).kinds == RESTORED[sql]


@pytest.mark.parametrize("sql", NOT_UNDERSTOOD)
def test_not_understood(sql: str) -> None:
    with pytest.raises(DdlNotUnderstood):
        read_ddl(sql)


def test_several_statements() -> None:
    assert read_ddl("DROP TABLE a; TRUNCATE b;").kinds == (K.DROP_TABLE, K.TRUNCATE_TABLE)


MEMBERS = ("a,b", "c", "it's", 'q"q', "", "back\\slash", "中文", "(x)")


def test_both_spellings_mean_the_same() -> None:
    typed = schema_of(
        "CREATE TABLE IF NOT EXISTS t (id INT NOT NULL AUTO_INCREMENT COMMENT 'the \"key\"', e ENUM('a,b','c','it''s','q\"q','',"
        "'back\\\\slash','中文','(x)') NOT NULL DEFAULT 'c' COMMENT 'user''s', PRIMARY KEY (id)) DEFAULT CHARSET=utf8mb4"
        " COLLATE=utf8mb4_bin COMMENT='table of \\\\ users; \"quoted\"'"
    )
    restored = schema_of(
        "CREATE TABLE IF NOT EXISTS `t` (`id` INT NOT NULL AUTO_INCREMENT COMMENT 'the \"key\"',`e` ENUM('a,b','c','it''s','q\"q',"
        "'','back\\slash','中文','(x)') NOT NULL DEFAULT _UTF8MB4'c' COMMENT 'user''s',PRIMARY KEY(`id`))"
        " DEFAULT CHARACTER SET = UTF8MB4 DEFAULT COLLATE = UTF8MB4_BIN COMMENT = 'table of \\ users; \"quoted\"'",
        restored=True,
    )
    assert typed == restored
    assert typed == TableSchema(
        id=TableId("d", "t"),
        columns=(
            Column("id", ColumnType("int"), nullable=False, comment='the "key"', auto_increment=True),
            Column(
                "e",
                ColumnType("enum", members=MEMBERS),
                nullable=False,
                default=Default("c"),
                comment="user's",
            ),
        ),
        primary_key=("id",),
        charset="utf8mb4",
        collation="utf8mb4_bin",
        comment='table of \\ users; "quoted"',
    )


def test_other_spelling_if_the_first_cannot_be_read() -> None:
    sql = "CREATE TABLE t (c VARCHAR(9) DEFAULT 'ends with \\')"
    assert schema_of(sql).columns[0].default == Default("ends with \\")
    assert schema_of("CREATE TABLE t (c CHAR DEFAULT 'it\\'s')", restored=True).columns[0].default == Default(
        "it's"
    )


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("BIGINT(20) UNSIGNED", ColumnType("bigint", unsigned=True, length=20)),
        ("INT(8) UNSIGNED ZEROFILL", ColumnType("int", unsigned=True, zerofill=True, length=8)),
        ("BOOL", ColumnType("tinyint", length=1)),
        ("DOUBLE PRECISION", ColumnType("double")),
        ("FLOAT(5,2) UNSIGNED", ColumnType("float", unsigned=True, length=5, scale=2)),
        ("DECIMAL", ColumnType("decimal", length=10, scale=0)),
        ("BIT", ColumnType("bit", length=1)),
        ("DATETIME", ColumnType("datetime", length=0)),
        ("TIMESTAMP(6)", ColumnType("timestamp", length=6)),
        ("CHARACTER VARYING(20)", ColumnType("varchar", length=20)),
        ("NATIONAL VARCHAR(20)", ColumnType("varchar", length=20, charset="utf8mb3")),
        ("CHAR(4) CHARACTER SET GBK COLLATE gbk_bin", ColumnType("char", length=4, charset="gbk", collation="gbk_bin")),
        ("VARCHAR(40) NOT NULL COLLATE latin1_bin", ColumnType("varchar", length=40, charset="latin1", collation="latin1_bin")),
        ("VARCHAR(40) CHARACTER SET binary", ColumnType("varbinary", length=40)),
        ("TEXT CHARSET 'binary'", ColumnType("blob")),
        ("CHAR(10) BYTE", ColumnType("binary", length=10)),
        ("TEXT(63)", ColumnType("tinytext")),
        ("TEXT(64)", ColumnType("text")),
        ("TEXT(255) CHARACTER SET latin1", ColumnType("tinytext", charset="latin1")),
        ("TEXT(20000)", ColumnType("mediumtext")),
        ("BLOB(65536)", ColumnType("mediumblob")),
        ("BLOB(4294967295)", ColumnType("longblob")),
        ("SET('a ', 'b''c', x'64')", ColumnType("set", members=("a", "b'c", "d"))),
        ("VECTOR(3)", ColumnType("vector", length=3)),
        ("JSON", ColumnType("json")),
    ],
)  # fmt: skip
def test_types(text: str, expected: ColumnType) -> None:
    assert column_of(text).type == expected


def test_table_charset_binary() -> None:
    columns = schema_of(
        "CREATE TABLE t (a CHAR(2), b TEXT, c TEXT(300), d VARCHAR(3) CHARSET ascii, e ENUM('x')) COLLATE binary"
    ).columns
    assert [column.type.base for column in columns] == ["binary", "blob", "blob", "varchar", "enum"]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("INT", ABSENT),
        ("INT DEFAULT NULL", Default(None)),
        ("INT DEFAULT -7", Default("-7")),
        ("INT DEFAULT +.5", Default("0.5")),
        ("DECIMAL(6,2) NULL DEFAULT 1.50", Default("1.50")),
        ("BOOL DEFAULT TRUE", Default("1")),
        ("BIT(5) NOT NULL DEFAULT b'10001'", Default("17")),
        ("BIGINT DEFAULT 0xff", Default("255")),
        ("VARCHAR(9) DEFAULT x'4142'", Default("AB")),
        ("BINARY(1) DEFAULT 0xff", Default("0xff")),
        ("VARCHAR(9) DEFAULT 'it''s' COMMENT 'x'", Default("it's")),
        ("VARCHAR(9) DEFAULT 'a' \"b\"", Default("ab")),
        ("VARCHAR(9) DEFAULT 'a\\n\\'\\%\\0'", Default("a\n'\\%\0")),
        ("VARCHAR(9) DEFAULT _utf8mb4 'x' NOT NULL", Default("x")),
        ("DATE DEFAULT DATE '2020-01-01'", Default("2020-01-01")),
        ("DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", Default("CURRENT_TIMESTAMP(3)", is_expression=True)),
        ("DATETIME DEFAULT NOW()", Default("CURRENT_TIMESTAMP", is_expression=True)),
        ("JSON DEFAULT (JSON_ARRAY('(', 1))", Default("JSON_ARRAY('(', 1)", is_expression=True)),
        ("CHAR(36) DEFAULT uuid() NOT NULL", Default("uuid()", is_expression=True)),
        ("BIGINT DEFAULT NEXT VALUE FOR d.s NOT NULL", Default("NEXT VALUE FOR d.s", is_expression=True)),
    ],
)
def test_defaults(text: str, expected: object) -> None:
    assert column_of(text).default == expected


def test_attributes_in_any_order() -> None:
    column = column_of(
        "TIMESTAMP(6) COMMENT 'c' ON UPDATE CURRENT_TIMESTAMP(6) COLUMN_FORMAT DEFAULT STORAGE DISK INVISIBLE CHECK (c > 0)"
        " DEFAULT CURRENT_TIMESTAMP(6) REFERENCES p (id) MATCH FULL ON DELETE SET NULL ON UPDATE SET DEFAULT NOT NULL"
    )
    expected = Column(
        "c",
        ColumnType("timestamp", length=6),
        nullable=False,
        default=Default("CURRENT_TIMESTAMP(6)", is_expression=True),
        comment="c",
        on_update="CURRENT_TIMESTAMP(6)",
    )
    assert column == expected


@pytest.mark.parametrize("text", ["SERIAL", "BIGINT UNSIGNED SERIAL DEFAULT VALUE"])
def test_serial(text: str) -> None:
    schema = schema_of(f"CREATE TABLE t (c {text})")
    assert schema.columns == (
        Column("c", ColumnType("bigint", unsigned=True), nullable=False, auto_increment=True),
    )
    assert schema.unique_keys == (UniqueKey("c", ("c",)),)


@pytest.mark.parametrize(
    "text", ["INT AUTO_INCREMENT", "INT NULL AUTO_INCREMENT", "INT AUTO_INCREMENT NOT NULL"]
)
def test_auto_increment_implies_not_null(text: str) -> None:
    """MySQL and TiDB set it with AUTO_INCREMENT, whatever the key."""
    schema = schema_of(f"CREATE TABLE t (id INT PRIMARY KEY, c {text}, KEY (c))")
    assert [column.nullable for column in schema.columns] == [False, False]


def test_generated_columns() -> None:
    schema = schema_of(
        "CREATE TABLE t (a INT, b INT GENERATED ALWAYS AS (a + 1) STORED NOT NULL, c INT AS(`a`*2), d INT AS (1) VIRTUAL)"
    )
    generated = [column.generated for column in schema.columns]
    assert generated == [None, Generated.STORED, Generated.VIRTUAL, Generated.VIRTUAL]


def test_keys() -> None:
    schema = schema_of(
        "CREATE TABLE t (PRIMARY KEY (ID, b), id INT, b INT NULL, c INT UNIQUE, KEY type (c), CONSTRAINT n UNIQUE (B DESC),"
        " UNIQUE (c), UNIQUE KEY e ((a + 1), b), UNIQUE KEY p USING HASH (b(3)) COMMENT 'x', FULLTEXT KEY f (c), CHECK (a))"
    )
    assert schema.primary_key == ("id", "b")
    assert [column.nullable for column in schema.columns] == [False, False, True]
    assert schema.unique_keys == (
        UniqueKey("c", ("c",)),
        UniqueKey("n", ("b",)),
        UniqueKey("c_2", ("c",)),
        UniqueKey("p", ("b",)),
    )
    assert schema.indexes == (Index("type", ("c",)),)


def test_plain_indexes() -> None:
    schema = schema_of(
        "CREATE TABLE t (a INT, b INT, c INT, INDEX (a, b), KEY k USING BTREE (c), INDEX e ((a + 1)))"
    )
    assert schema.indexes == (Index("a", ("a", "b")), Index("k", ("c",)))
    statements = (
        "CREATE INDEX IF NOT EXISTS i ON t (b)",
        "ALTER TABLE t DROP COLUMN c, RENAME INDEX a TO ab",
        "DROP INDEX i ON t",
    )
    for sql, expected in zip(statements, (3, 2, 1), strict=True):
        statement = read_ddl(sql).statements[0]
        assert isinstance(statement, AlterTable)
        schema = alter_table(schema, statement.changes) or schema
        assert len(schema.indexes) == expected
    assert schema.indexes == (Index("ab", ("a", "b")),)


@pytest.mark.parametrize(
    ("keys", "expected"),
    [
        ("CONSTRAINT f FOREIGN KEY (b) REFERENCES p (id)", (Index("f", ("b",), is_implied=True),)),
        ("FOREIGN KEY (B, c) REFERENCES p (x, y)", (Index("fk_1", ("b", "c"), is_implied=True),)),
        ("FOREIGN KEY IF NOT EXISTS i (b) REFERENCES p (x)", (Index("i", ("b",), is_implied=True),)),
        ("CONSTRAINT f FOREIGN KEY i (b) REFERENCES p (x)", (Index("f", ("b",), is_implied=True),)),
        ("FOREIGN KEY (b, b) REFERENCES p (x, y), FOREIGN KEY 'i' (c) REFERENCES p (x)", ()),
        ("CONSTRAINT f FOREIGN KEY (b) REFERENCES p (id), KEY k (b, c)", (Index("k", ("b", "c")),)),
        ("CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id)", ()),
        ("CONSTRAINT f FOREIGN KEY (a, b) REFERENCES p (x, y)", (Index("f", ("a", "b"), is_implied=True),)),
        (
            "CONSTRAINT f FOREIGN KEY (c) REFERENCES p (id), FOREIGN KEY (b) REFERENCES p (id)",
            (Index("f", ("c",), is_implied=True), Index("fk_2", ("b",), is_implied=True)),
        ),
    ],
)
def test_tidb_makes_the_indexes_of_foreign_keys(keys: str, expected: tuple[Index, ...]) -> None:
    schema = schema_of(f"CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, {keys})")
    assert schema.indexes == expected
    assert after(schema, "DROP FOREIGN KEY f, COMMENT = 'x'").indexes == expected


@pytest.mark.parametrize("kind", ["INDEX", "UNIQUE INDEX"])
def test_an_index_that_comes_again_is_one_index(kind: str) -> None:
    schema = schema_of("CREATE TABLE t (a INT, b INT)")
    statement = read_ddl(f"ALTER TABLE t ADD {kind} Ab (a, b)").statements[0]
    assert isinstance(statement, AlterTable)
    once = alter_table(schema, statement.changes)
    assert once is not None
    assert alter_table(once, statement.changes) == once


def after(schema: TableSchema, *texts: str) -> TableSchema:
    """The definition behind these statements."""
    for text in texts:
        statement = read_ddl(f"ALTER TABLE t {text}").statements[0]
        assert isinstance(statement, AlterTable)
        found = alter_table(schema, statement.changes)
        assert found is not None
        schema = found
    return schema


def test_an_altered_table_gets_the_index_of_a_foreign_key_as_any_other() -> None:
    schema = schema_of("CREATE TABLE t (a INT PRIMARY KEY, b INT, c INT, FOREIGN KEY (b) REFERENCES p (id))")
    assert schema.indexes == (Index("fk_1", ("b",), is_implied=True),)
    added = "ADD FOREIGN KEY (c) REFERENCES p (id)", "ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES p (id)"
    assert after(schema, *added).indexes == (*schema.indexes, Index("fk_2", ("c",)), Index("f", ("a",)))


def test_an_explicit_index_takes_the_place_of_a_foreign_keys() -> None:
    schema = schema_of("CREATE TABLE t (b INT NOT NULL, CONSTRAINT f FOREIGN KEY (b) REFERENCES p (id))")
    plain, unique = after(schema, "ADD INDEX F (b)"), after(schema, "ADD UNIQUE INDEX F (b)")
    assert (plain.unique_keys, plain.indexes) == ((), (Index("F", ("b",)),))
    assert (unique.unique_keys, unique.indexes) == ((UniqueKey("F", ("b",)),), ())


def test_a_foreign_key_that_is_not_understood_spoils_no_statement() -> None:
    schema = schema_of("CREATE TABLE t (a INT)")
    schema = after(schema, "ADD FOREIGN KEY () REFERENCES p (id), ADD COLUMN z INT")
    assert [column.name for column in schema.columns] == ["a", "z"]


def test_only_an_integer_key_is_kept_beside_the_rows() -> None:
    schema = schema_of("CREATE TABLE t (a INT, PRIMARY KEY (a) USING BTREE COMMENT 'CLUSTERED' NONCLUSTERED)")
    assert schema.is_nonclustered
    assert not after(schema, "DROP PRIMARY KEY").is_nonclustered
    assert not schema_of("CREATE TABLE t (a CHAR(3), PRIMARY KEY (a) NONCLUSTERED)").is_nonclustered


@pytest.mark.parametrize(
    ("text", "is_nonclustered"),
    [
        ("CREATE TABLE t (a INT, PRIMARY KEY (a))", False),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a) /*T![clustered_index] CLUSTERED */)", False),
        ("CREATE TABLE t (a INT, PRIMARY KEY (a) /*T![clustered_index] NONCLUSTERED */)", True),
        ("CREATE TABLE t (a INT PRIMARY KEY NONCLUSTERED, b INT)", True),
    ],
)
def test_where_tidb_keeps_the_primary_key(text: str, is_nonclustered: bool) -> None:
    schema = schema_of(text)
    assert schema.is_nonclustered is is_nonclustered
    assert after(schema, "DROP PRIMARY KEY, ADD PRIMARY KEY (a)").is_nonclustered


def test_the_handle_key_is_the_smallest_that_cannot_be_null() -> None:
    text = "CREATE TABLE t (a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, n INT UNIQUE, UNIQUE (a, b), UNIQUE (c), UNIQUE (b))"
    assert schema_of(text).handle_key() == ("c",)


BASE = schema_of(
    "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(5), c INT NOT NULL, UNIQUE KEY ab (a, b), UNIQUE KEY c (c))"
)


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("ADD COLUMN x INT", "id a b c x"),
        ("ADD x INT FIRST", "x id a b c"),
        ("ADD COLUMN x INT AFTER A, ADD COLUMN y INT AFTER x", "id a x y b c"),
        ("ADD COLUMN (x INT, y INT)", "id a b c x y"),
        ("ADD COLUMN IF NOT EXISTS a INT", "id a b c"),
        ("DROP COLUMN IF EXISTS x, DROP a", "id b c"),
        ("DROP COLUMN a, ADD COLUMN a BIGINT", "id b c a"),
        ("ADD COLUMN a BIGINT FIRST, DROP COLUMN a", "a id b c"),
        ("RENAME COLUMN a TO b, RENAME COLUMN b TO a", "id b a c"),
        ("CHANGE a b INT, CHANGE b a INT AFTER id", "id a b c"),
        ("MODIFY c BIGINT FIRST", "c id a b"),
        ("ADD KEY (a), ENGINE=InnoDB", "id a b c"),
    ],
)
def test_column_order(sql: str, expected: str) -> None:
    assert names(altered(BASE, f"ALTER TABLE t {sql}")) == expected.split()


@pytest.mark.parametrize(
    "sql",
    ["DROP COLUMN x", "ADD COLUMN a INT", "ADD COLUMN x INT AFTER y", "MODIFY x INT", "RENAME COLUMN a TO b", "ADD UNIQUE (x)",
     "ADD PRIMARY KEY (x)", "ALTER x DROP DEFAULT", "MODIFY a BIGINT, DROP a", "CHANGE a x INT AFTER c, DROP a",
     "CHANGE a x INT UNIQUE, DROP COLUMN a"],
)  # fmt: skip
def test_what_does_not_fit_gives_no_definition(sql: str) -> None:
    assert altered(BASE, f"ALTER TABLE t {sql}") is None


def test_keys_follow_their_columns() -> None:
    schema = altered(
        BASE, "ALTER TABLE t RENAME COLUMN a TO x, DROP COLUMN b, CHANGE id key_id BIGINT NULL, DROP INDEX c"
    )
    assert schema is not None
    assert schema.primary_key == ("key_id",)
    assert schema.columns[0].nullable is False
    assert schema.unique_keys == (UniqueKey("ab", ("x",)),)


def test_primary_key_is_dropped_and_added() -> None:
    schema = altered(BASE, "ALTER TABLE t DROP PRIMARY KEY")
    assert schema is not None
    assert schema.primary_key == ()
    schema = altered(
        schema, "ALTER TABLE t ADD PRIMARY KEY (a, id), RENAME INDEX ab TO ba, DROP CONSTRAINT c"
    )
    assert schema is not None
    assert schema.primary_key == ("a", "id")
    assert schema.unique_keys == (UniqueKey("ba", ("a", "b")),)


def test_defaults_are_set_and_dropped() -> None:
    schema = altered(BASE, "ALTER TABLE t ALTER a SET DEFAULT b'11', ALTER COLUMN b SET DEFAULT 'x'")
    assert schema is not None
    assert [column.default for column in schema.columns] == [ABSENT, Default("3"), Default("x"), ABSENT]
    schema = altered(schema, "ALTER TABLE t ALTER a DROP DEFAULT")
    assert schema is not None
    assert schema.columns[1].default is ABSENT


def test_charset_of_the_table_changes() -> None:
    schema = schema_of("CREATE TABLE t (a TEXT, b VARCHAR(5) CHARSET ascii, n INT) CHARSET latin1")
    default_only = altered(schema, "ALTER TABLE t CHARSET utf8mb4, ADD COLUMN x TEXT(100)")
    assert default_only is not None
    assert [column.type.charset for column in default_only.columns] == ["latin1", "ascii", None, None]
    assert default_only.columns[3].type.base == "text"
    converted = altered(schema, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4")
    assert converted is not None
    assert (converted.charset, [column.type.charset for column in converted.columns]) == (
        "utf8mb4",
        [None, None, None],
    )
    for options in ("CHARSET utf8mb4 COLLATE utf8mb4_bin", "COLLATE utf8mb4_bin CHARSET utf8mb4"):
        both = altered(schema, f"ALTER TABLE t ADD y TEXT, {options}, ADD x TEXT")
        assert both is not None
        assert (both.charset, both.collation) == ("utf8mb4", "utf8mb4_bin")
        assert [column.type.charset for column in both.columns[3:]] == [None, None]
    binary = altered(schema, "ALTER TABLE t CONVERT TO CHARACTER SET binary")
    assert binary is not None
    assert [column.type.base for column in binary.columns] == ["blob", "varbinary", "int"]


def reads_or_refuses(sql: str, *, backslash_escapes: bool) -> None:
    try:
        ddl = read_ddl(sql, backslash_escapes=backslash_escapes)
    except DdlNotUnderstood:
        return
    assert isinstance(ddl, Ddl)
    assert ddl.kinds
    for statement in ddl.statements:
        if isinstance(statement, CreateTable):
            define_table(TableId("d", "t"), statement.changes)
        elif isinstance(statement, AlterTable):
            alter_table(BASE, statement.changes)


@pytest.mark.parametrize("sql", [*TYPED, *RESTORED])
def test_cut_statements(sql: str) -> None:
    for length in range(len(sql)):
        reads_or_refuses(sql[:length], backslash_escapes=sql in TYPED)


WORDS = sorted(
    {word for sql in (*TYPED, *RESTORED) for word in sql.split()}
    | set("()'\"`,;.=*/#\\")
    | {"/*!", "*/", "0x1", "b'1'"}
)


@given(st.text(), st.booleans())
def test_arbitrary_text(sql: str, backslash_escapes: bool) -> None:
    reads_or_refuses(sql, backslash_escapes=backslash_escapes)


@given(
    st.sampled_from(["CREATE TABLE t (", "ALTER TABLE t ", "CREATE ", "DROP ", "RENAME TABLE "]),
    st.lists(st.sampled_from(WORDS)),
)
def test_arbitrary_words(start: str, words: list[str]) -> None:
    reads_or_refuses(start + " ".join(words), backslash_escapes=True)


@pytest.mark.timeout(30)
@pytest.mark.parametrize(
    "sql",
    [
        "(" * 100_000,
        "CREATE TABLE t (a INT DEFAULT " + "(" * 50_000 + ")" * 50_000 + ")",
        "/*" * 50_000,
        "/*!" * 50_000,
        "'" * 100_001,
        "\\'" * 50_000,
        "_a" * 50_000,
        ";" * 50_000,
        "CREATE TABLE t (a DECIMAL(" + "9" * 6_000 + "))",
        "CREATE TABLE t (a INT DEFAULT x'" + "f" * 20_000 + "')",
        "CREATE TABLE t (" + ",".join(f"c{number} INT" for number in range(4096)) + ")",
        "ALTER TABLE t " + ",".join(f"ADD UNIQUE (a{number})" for number in range(20_000)),
        "ALTER TABLE t " + " ".join(f"COMMENT '{number}'" for number in range(20_000)),
        "ALTER TABLE t a " + "POLICY " * 20_000,
        "ALTER TABLE t TRUNCATE PARTITION " + "p," * 20_000 + "ADD a INT",
    ],
    ids=range(15),
)
def test_large_garbage_takes_linear_time(sql: str) -> None:
    reads_or_refuses(sql, backslash_escapes=True)


@pytest.mark.parametrize("key", ["KEY (a)", "KEY k{} (a)", "UNIQUE u{} (a)"])
def test_many_keys_take_linear_time(key: str) -> None:
    def define(part: int) -> None:
        keys = ", ".join([key.format(number) for number in range(60 * part)])
        for _ in range(20):
            schema_of(f"CREATE TABLE t (a INT, {keys})")

    assert_linear(define)


def test_a_name_is_free_again_only_if_no_other_index_has_it() -> None:
    schema = schema_of("CREATE TABLE t (a INT, b INT, KEY x (b))")
    schema = after(schema, "MODIFY a INT UNIQUE, DROP INDEX x, ADD INDEX a_2 (b), ADD INDEX (a)")
    assert [key.name for key, _ in schema.ordered_keys()] == ["a", "a_2", "a_3"]
