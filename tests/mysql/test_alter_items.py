"""Items of ALTER TABLE that are about no column, of MySQL, TiDB and MariaDB: they change no columns, and hide
none of those that other items of the statement change.

Sources: MySQL Reference Manual 8.4 §15.1.9; TiDB's grammar (`pkg/parser/parser.y`, `AlterTableSpec`,
`AlterTableSpecSingleOpt`); MariaDB "ALTER TABLE".
"""

from __future__ import annotations

import pytest

from relay.model.events import DdlKind, TableId, TableSchema
from relay.mysql.ddl import alter_table, define_table, read_ddl
from relay.mysql.ddl.statements import AlterTable, CreateTable

K = DdlKind
TABLE = "CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a INT, b INT, `drop` INT)"
COLUMNS = ["id", "a", "b", "drop"]

#: Items by what they do; none of them is about a column.
ITEMS = {
    # TiDB
    "ADD STATS_EXTENDED s CARDINALITY(a, b)": K.OTHER,
    "ADD STATS_EXTENDED IF NOT EXISTS `s` DEPENDENCY (a, b)": K.OTHER,
    "add stats_extended s correlation(a, b)": K.OTHER,
    "DROP STATS_EXTENDED s": K.OTHER,
    "DROP STATS_EXTENDED IF EXISTS `s`": K.OTHER,
    "ADD MASKING POLICY p ON (a) AS CASE WHEN a THEN 1 ELSE 2 END": K.OTHER,
    "DROP MASKING POLICY p": K.OTHER,
    "MODIFY MASKING POLICY p SET EXPRESSION = 1": K.OTHER,
    "CACHE": K.ALTER_TABLE_OPTION,
    "NOCACHE": K.ALTER_TABLE_OPTION,
    "READ ONLY": K.OTHER,
    "READ WRITE": K.OTHER,
    "SET TIFLASH REPLICA 1": K.ALTER_TABLE_OPTION,
    "SET TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'": K.ALTER_TABLE_OPTION,
    "SET HYPO TIFLASH REPLICA 1": K.ALTER_TABLE_OPTION,
    "ATTRIBUTES DEFAULT": K.ALTER_TABLE_OPTION,
    "ATTRIBUTES 'merge_option=deny'": K.ALTER_TABLE_OPTION,
    "ATTRIBUTES = 'merge_option=deny'": K.ALTER_TABLE_OPTION,
    "STATS_OPTIONS = 'x'": K.ALTER_TABLE_OPTION,
    "STATS_OPTIONS DEFAULT": K.ALTER_TABLE_OPTION,
    "PLACEMENT POLICY p1": K.ALTER_TABLE_OPTION,
    "PLACEMENT POLICY = `p1`": K.ALTER_TABLE_OPTION,
    "PLACEMENT POLICY DEFAULT": K.ALTER_TABLE_OPTION,
    "PLACEMENT POLICY = DEFAULT": K.ALTER_TABLE_OPTION,
    "PLACEMENT POLICY SET DEFAULT": K.ALTER_TABLE_OPTION,
    "TTL = `at` + INTERVAL 1 DAY": K.ALTER_TTL,
    "TTL = `at` + INTERVAL '1' DAY_HOUR": K.ALTER_TTL,
    "TTL_ENABLE = 'OFF'": K.ALTER_TTL,
    "TTL_JOB_INTERVAL = '1h'": K.ALTER_TTL,
    "REMOVE TTL": K.REMOVE_TTL,
    "AUTO_ID_CACHE 100": K.ALTER_TABLE_OPTION,
    "AUTO_ID_CACHE = 100": K.ALTER_TABLE_OPTION,
    "AUTO_RANDOM_BASE = 7": K.REBASE_AUTO_ID,
    "FORCE AUTO_INCREMENT = 7": K.REBASE_AUTO_ID,
    "SHARD_ROW_ID_BITS = 4": K.ALTER_TABLE_OPTION,
    "AFFINITY = 'table'": K.ALTER_TABLE_OPTION,
    "COMPACT": K.OTHER,
    "COMPACT TIFLASH REPLICA": K.OTHER,
    "COMPACT PARTITION p0, p1 TIFLASH REPLICA": K.OTHER,
    "FIRST PARTITION LESS THAN (100)": K.DROP_PARTITION,
    "FIRST PARTITION LESS THAN (100) IF EXISTS": K.DROP_PARTITION,
    "LAST PARTITION LESS THAN (100)": K.ADD_PARTITION,
    "MERGE FIRST PARTITION LESS THAN (100)": K.REORGANIZE_PARTITION,
    "SPLIT MAXVALUE PARTITION LESS THAN (100)": K.REORGANIZE_PARTITION,
    "PARTITION p0 ATTRIBUTES = 'x'": K.ALTER_TABLE_OPTION,
    "PARTITION p0 PLACEMENT POLICY = p1": K.ALTER_TABLE_OPTION,
    "ADD VECTOR INDEX v ((VEC_COSINE_DISTANCE(a))) USING HNSW": K.ADD_INDEX,
    "ADD VECTOR INDEX IF NOT EXISTS v ((VEC_L2_DISTANCE(a)))": K.ADD_INDEX,
    "ADD COLUMNAR INDEX c (a) USING INVERTED": K.ADD_INDEX,
    "ADD HYBRID INDEX h (a) PARAMETER 'x'": K.ADD_INDEX,
    "ADD FULLTEXT INDEX f (a) WITH PARSER multilingual": K.ADD_INDEX,
    # MySQL
    "ADD PARTITION (PARTITION p3 VALUES LESS THAN (2026), PARTITION p4 VALUES LESS THAN MAXVALUE)": K.ADD_PARTITION,
    "ADD PARTITION PARTITIONS 4": K.ADD_PARTITION,
    "ADD PARTITION NO_WRITE_TO_BINLOG PARTITIONS 4": K.ADD_PARTITION,
    "DROP PARTITION p0, p1": K.DROP_PARTITION,
    "TRUNCATE PARTITION ALL": K.TRUNCATE_PARTITION,
    "COALESCE PARTITION 2": K.REORGANIZE_PARTITION,
    "REORGANIZE PARTITION": K.REORGANIZE_PARTITION,
    "EXCHANGE PARTITION p0 WITH TABLE u WITHOUT VALIDATION": K.EXCHANGE_PARTITION,
    "REMOVE PARTITIONING": K.REMOVE_PARTITIONING,
    "DISCARD TABLESPACE": K.OTHER,
    "IMPORT PARTITION p0, p1 TABLESPACE": K.OTHER,
    "ANALYZE PARTITION p0, p1": K.OTHER,
    "CHECK PARTITION ALL": K.OTHER,
    "ADD CONSTRAINT c CHECK (a > 0) NOT ENFORCED": K.ADD_CHECK,
    "ADD CONSTRAINT CHECK (a > 0)": K.ADD_CHECK,
    "ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES u (id)": K.ADD_FOREIGN_KEY,
    "DROP CHECK c": K.DROP_CHECK,
    "DROP FOREIGN KEY f": K.DROP_FOREIGN_KEY,
    "ALTER CHECK c NOT ENFORCED": K.ALTER_CHECK,
    "ALTER INDEX i INVISIBLE": K.ALTER_INDEX_VISIBILITY,
    "ORDER BY a": K.OTHER,
    "ORDER BY a DESC, `drop`, b": K.OTHER,
    "SECONDARY_LOAD": K.OTHER,
    "SECONDARY_UNLOAD": K.OTHER,
    "SECONDARY_ENGINE = NULL": K.ALTER_TABLE_OPTION,
    "ENABLE KEYS": K.ALTER_TABLE_OPTION,
    "UNION = (u, v)": K.ALTER_TABLE_OPTION,
    "FORCE": K.ALTER_TABLE_OPTION,
    # MariaDB
    "ADD SYSTEM VERSIONING": K.OTHER,
    "DROP SYSTEM VERSIONING": K.OTHER,
    "ADD PERIOD FOR SYSTEM_TIME (a, b)": K.OTHER,
    "ADD PERIOD FOR p (a, b)": K.OTHER,
    "ADD PERIOD IF NOT EXISTS FOR p (a, b)": K.OTHER,
    "DROP PERIOD FOR SYSTEM_TIME": K.OTHER,
    "DROP PERIOD IF EXISTS FOR p": K.OTHER,
    "ADD CONSTRAINT IF NOT EXISTS c CHECK (a > 0)": K.ADD_CHECK,
    "ADD VECTOR (a)": K.ADD_INDEX,
    "ADD VECTOR KEY v (a) M=8": K.ADD_INDEX,
    "CONVERT PARTITION p0 TO TABLE u": K.ALTER_PARTITIONING,
    "CONVERT TABLE u TO PARTITION p0 VALUES LESS THAN (5) WITH VALIDATION": K.ALTER_PARTITIONING,
    "ADD PARTITION IF NOT EXISTS (PARTITION p3 VALUES LESS THAN (5))": K.ADD_PARTITION,
    "DROP CONSTRAINT IF EXISTS c": K.DROP_INDEX,
}
#: The commas of these separate no items, or nothing may follow them.
LAST = ("ANALYZE", "COMPACT PARTITION", "ORDER BY", "DROP CONSTRAINT")
#: Words that begin such items, and are names of columns where a type follows.
WORDS = (
    *("stats_extended", "period", "system", "masking", "vector", "columnar", "hybrid", "cache", "nocache"),
    *("ttl", "attributes", "placement", "policy", "compact", "split", "merge", "first", "last", "remove"),
    *("discard", "import", "secondary_load", "columns", "tiflash", "replica", "cardinality", "versioning"),
)


def table(sql: str = TABLE) -> TableSchema:
    (statement,) = read_ddl(sql).statements
    assert isinstance(statement, CreateTable)
    schema = define_table(TableId("db", "t"), statement.changes)
    assert schema is not None
    return schema


def altered(items: str, sql: str = TABLE) -> TableSchema:
    (statement,) = read_ddl(f"ALTER TABLE t {items}").statements
    assert isinstance(statement, AlterTable)
    schema = alter_table(table(sql), statement.changes)
    assert schema is not None
    return schema


def columns(schema: TableSchema) -> list[str]:
    return [column.name for column in schema.columns]


def kinds(items: str) -> tuple[DdlKind, ...]:
    return read_ddl(f"ALTER TABLE t {items}").kinds


@pytest.mark.parametrize("item", [item for item in ITEMS if not item.startswith("DROP CONSTRAINT")])
def test_no_column_comes_or_goes(item: str) -> None:
    assert columns(altered(item)) == COLUMNS


@pytest.mark.parametrize("item", ITEMS)
def test_each_is_known_for_what_it_does(item: str) -> None:
    assert set(kinds(item)) == {ITEMS[item]}


@pytest.mark.parametrize("item", [item for item in ITEMS if not item.startswith(LAST)])
def test_columns_before_and_behind_are_seen(item: str) -> None:
    assert columns(altered(f"ADD COLUMN x INT, {item}, DROP COLUMN a, ADD y INT")) == [
        *COLUMNS[:1],
        *COLUMNS[2:],
        "x",
        "y",
    ]


@pytest.mark.parametrize("word", WORDS)
def test_a_column_may_have_such_a_name(word: str) -> None:
    for keyword in ("", "COLUMN ", "IF NOT EXISTS "):
        assert columns(altered(f"ADD {keyword}{word} INT(11) DEFAULT 1")) == [*COLUMNS, word]
    made = f"CREATE TABLE t (id INT NOT NULL PRIMARY KEY, {word} INT)"
    assert columns(table(made)) == ["id", word]
    for item in (f"DROP {word}", f"DROP COLUMN {word}", f"DROP {word} CASCADE", f"DROP IF EXISTS {word}"):
        assert columns(altered(item, made)) == ["id"]
    assert altered(f"MODIFY {word} VARCHAR(5)", made).columns[1].type.length == 5
    assert columns(altered(f"CHANGE {word} z VARCHAR(5)", made)) == ["id", "z"]


def test_quoted_words_are_names() -> None:
    assert columns(altered("ADD `period` INT, ADD (`system` INT, `masking` INT)")) == [
        *COLUMNS,
        "period",
        "system",
        "masking",
    ]
    assert columns(altered("DROP `stats_extended`", TABLE.replace("`drop`", "stats_extended"))) == COLUMNS[:3]


def test_columns_may_be_named_with_their_table() -> None:
    """TiDB restores the names as they were typed."""
    assert columns(altered("ADD t.x INT AFTER `db`.`t`.`id`, DROP t.a, DROP COLUMN `db`.`t`.`b`")) == [
        "id",
        "x",
        "drop",
    ]
    assert columns(altered("CHANGE t.a z INT, MODIFY `t`.b BIGINT FIRST, ALTER t.b SET DEFAULT 1")) == [
        "b",
        "id",
        "z",
        "drop",
    ]


def test_a_constraint_may_have_any_name() -> None:
    for word in ("vector", "period", "system", "masking", "key", "stats_extended"):
        schema = altered(f"ADD CONSTRAINT {word} UNIQUE (a)")
        assert [(key.name, key.columns) for key in schema.unique_keys] == [(word, ("a",))]


def test_what_is_no_column_in_a_list_of_new_ones() -> None:
    assert columns(altered("ADD (x INT, PERIOD FOR p (a, b), INDEX (a), y INT)")) == [*COLUMNS, "x", "y"]
    made = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b INT, PERIOD FOR SYSTEM_TIME (a, b)) WITH SYSTEM VERSIONING"
    assert columns(table(made)) == ["id", "a", "b"]


def test_keys_of_mariadb() -> None:
    """A key without overlaps has a period, which is no column; one that need not be new is one all the same."""
    schema = altered("ADD CONSTRAINT IF NOT EXISTS u UNIQUE (a), ADD UNIQUE o (b, p WITHOUT OVERLAPS)")
    assert [key.name for key in schema.unique_keys] == ["u"]
    assert columns(schema) == COLUMNS
