"""Open Protocol's type codes, flags and DDL numbers, in both directions."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from ckafka_support import CKAFKA
from debezium_support import DEBEZIUM
from debezium_support import ddl as debezium_message
from open_support import DDL_KEY, cell, change, ddl, records, row, schema_change, values
from support import CANAL, OPEN, TICDC, record, row_message

from relay import DdlKind, Loss, Malformed, Translator
from relay.codecs.open_protocol.values import column_flags

# ---------------------------------------------------------------- types

#: Type in DDL; code, flags and value of a nullable column; canonical value; Canal's text.
TYPES: list[tuple[str, int, int, Any, Any, str]] = [
    ("TINYINT", 1, 65, -128, -128, "-128"),
    ("TINYINT UNSIGNED", 1, 193, 255, 255, "255"),
    ("BOOLEAN", 1, 65, 1, 1, "1"),
    ("SMALLINT", 2, 65, -32768, -32768, "-32768"),
    ("SMALLINT UNSIGNED", 2, 193, 65535, 65535, "65535"),
    ("INT", 3, 65, 123, 123, "123"),
    ("INT UNSIGNED", 3, 193, 4294967295, 4294967295, "4294967295"),
    ("INT(5) UNSIGNED ZEROFILL", 3, 193, 42, 42, "42"),
    ("FLOAT", 4, 65, 153.123, 153.123, "153.123"),
    ("FLOAT UNSIGNED", 4, 193, 0.5, 0.5, "0.5"),
    ("DOUBLE", 5, 65, -1e-10, -1e-10, "-0.0000000001"),
    ("REAL", 5, 65, 2.5, 2.5, "2.5"),
    ("TIMESTAMP(3)", 7, 65, "1973-12-30 15:30:00.123", "1973-12-30 15:30:00.123", "1973-12-30 15:30:00.123"),
    ("BIGINT", 8, 65, -9223372036854775808, -9223372036854775808, "-9223372036854775808"),
    ("BIGINT UNSIGNED", 8, 193, 18446744073709551615, 18446744073709551615, "18446744073709551615"),
    ("MEDIUMINT", 9, 65, 8388607, 8388607, "8388607"),
    ("MEDIUMINT UNSIGNED", 9, 193, 16777215, 16777215, "16777215"),
    ("DATE", 10, 65, "2000-01-01", "2000-01-01", "2000-01-01"),
    ("TIME", 11, 65, "23:59:59", "23:59:59", "23:59:59"),
    ("TIME(6)", 11, 65, "-838:59:59.000000", "-838:59:59.000000", "-838:59:59.000000"),
    ("DATETIME", 12, 65, "2015-12-20 23:58:58", "2015-12-20 23:58:58", "2015-12-20 23:58:58"),
    ("YEAR", 13, 193, 1970, 1970, "1970"),
    ("VARCHAR(16)", 15, 64, "test测试", "test测试", "test测试"),
    ("NVARCHAR(16)", 15, 64, "", "", ""),
    ("VARBINARY(16)", 15, 65, r"\x89PNG\r\n\x1a\n", b"\x89PNG\r\n\x1a\n", "\x89PNG\r\n\x1a\n"),
    ("VARCHAR(16) CHARACTER SET binary", 15, 65, r"\xff", b"\xff", "\xff"),
    ("BIT(64)", 16, 193, 18446744073709551615, 18446744073709551615, "18446744073709551615"),
    ("VECTOR(2)", 225, 65, "[1.5,-2]", "[1.5,-2]", "[1.5,-2]"),
    ("JSON", 245, 65, '{"key1": "value1"}', '{"key1": "value1"}', '{"key1": "value1"}'),
    ("DECIMAL(20,7)", 246, 65, "129012.1230000", Decimal("129012.1230000"), "129012.1230000"),
    ("DECIMAL(5,2) UNSIGNED", 246, 193, "0.00", Decimal("0.00"), "0.00"),
    ("ENUM('a','b')", 247, 64, 1, 1, "1"),
    ("SET('a','b')", 248, 64, 3, 3, "3"),
    ("TINYTEXT", 249, 64, "5rWL6K+VdGV4dA==", "测试text", "测试text"),
    ("TINYBLOB", 249, 65, "/w==", b"\xff", "\xff"),
    ("MEDIUMTEXT", 250, 64, "", "", ""),
    ("MEDIUMBLOB", 250, 65, "/w==", b"\xff", "\xff"),
    ("LONGTEXT", 251, 64, "YQ==", "a", "a"),
    ("LONGBLOB", 251, 65, "/w==", b"\xff", "\xff"),
    ("TEXT", 252, 64, "YQ==", "a", "a"),
    ("BLOB", 252, 65, "", b"", ""),
    ("CHAR(4)", 254, 64, "test", "test", "test"),
    ("BINARY(4)", 254, 65, r"a\x00\x00\x00", b"a\0\0\0", "a\0\0\0"),
]
IDS = [one[0] for one in TYPES]


@pytest.mark.parametrize(("sql", "code", "flags", "value", "canonical", "text"), TYPES, ids=IDS)
def test_every_type_with_and_without_its_definition(
    sql: str, code: int, flags: int, value: Any, canonical: Any, text: str
) -> None:
    message = row({"u": {"c": cell(code, value, flags)}})
    create = ddl(f"CREATE TABLE t (c {sql})")
    known, inferred = change(create, message), change(message)
    assert known.schema.columns[0].type.base == inferred.schema.columns[0].type.base
    assert repr(known.after) == repr(inferred.after) == repr((canonical,))
    assert known.schema.complete
    assert values(records(create, message))[1] == values(records(message))[0] == message[1]


@pytest.mark.parametrize(("sql", "code", "flags", "value", "canonical", "text"), TYPES, ids=IDS)
def test_every_type_from_and_to_another_format(
    sql: str, code: int, flags: int, value: Any, canonical: Any, text: str
) -> None:
    given = record(row_message({"c": sql}, {"c": text}))
    assert values([given], source=TICDC) == [{"u": {"c": cell(code, value, flags)}}]
    (out,) = Translator(OPEN, TICDC).translate(records(row({"u": {"c": cell(code, value, flags)}}))[0])
    assert json.loads(out.value or b"")["data"] == [{"c": text}]


def test_numbers_of_types_that_mean_the_same() -> None:
    for given, written in (
        (cell(253, "a", 64), cell(15, "a", 64)),
        (cell(253, r"\xff"), cell(15, r"\xff")),
        (cell(14, "2000-01-01"), cell(10, "2000-01-01")),
    ):
        assert values(records(row({"u": {"c": given}}))) == [{"u": {"c": written}}]


@pytest.mark.parametrize(
    ("sql", "text", "written"),
    [
        ("geometry", "ÿ", cell(251, "/w==")),
        ("point", "ÿ", cell(251, "/w==")),
        ("inet6", "::1", cell(15, "::1", 64)),
    ],
)
def test_types_without_a_code_travel_as_text_or_bytes_and_are_counted(
    sql: str, text: str, written: Any
) -> None:
    translator = Translator(CANAL, OPEN)
    given = record(row_message({"c": sql}, {"c": text}))
    assert values([given], source=CANAL) == [{"u": {"c": written}}]
    translator.translate(given)
    assert translator.losses[Loss.COLUMN_TYPE] == 1


@pytest.mark.parametrize("code", [4, 5])
@pytest.mark.parametrize("number", ["9" * 400, "-" + "9" * 400, "1e400"])
def test_numbers_beyond_the_range_of_double(code: int, number: str) -> None:
    for earlier in ([], [row({"u": {"c": cell(code, 1.5)}})]):
        with pytest.raises(Malformed, match=r"u\.c\.v: .*range"):
            change(*earlier, row(f'{{"u":{{"c":{{"t":{code},"f":65,"v":{number}}}}}}}'))


def test_text_of_a_column_with_base64_must_be_utf_8() -> None:
    with pytest.raises(Malformed, match=r"u\.c\.v: bytes that are not UTF-8 text"):
        _ = change(row({"u": {"c": cell(252, "/w==", 64)}})).after


@pytest.mark.parametrize(
    ("text", "plain"),
    [
        ("dGVzdA==", "test"),
        ("test", "test"),
        ("", ""),
        ("5rWL", "测"),
        ("abc", "abc"),
        ("/w==", "/w=="),
        (r"\x89PNG", r"\x89PNG"),
    ],
)
def test_strings_without_flags_are_base64_if_they_can_be(text: str, plain: str) -> None:
    for code in (15, 253, 254):
        assert change(row({"u": {"c": {"t": code, "v": text}}})).after == (plain,)
    assert values(records(row({"u": {"c": {"t": 15, "v": text}}}))) == [{"u": {"c": cell(15, plain, 64)}}]


# ---------------------------------------------------------------- flags


@pytest.mark.parametrize(
    ("definition", "flags"),
    [
        ("a INT PRIMARY KEY, b INT NOT NULL, c INT, d INT UNSIGNED, e INT, UNIQUE (b, c), KEY (c, d)",
         {"a": 11, "b": 49, "c": 113, "d": 225, "e": 65}),
        ("a BIGINT UNSIGNED PRIMARY KEY, b INT NOT NULL", {"a": 139, "b": 1}),
        ("a INT, b INT, PRIMARY KEY (a, b)", {"a": 43, "b": 43}),
        ("a INT NOT NULL UNIQUE, b INT UNIQUE", {"a": 19, "b": 81}),
        ("a INT NOT NULL, b INT NOT NULL, c INT NOT NULL, UNIQUE (a, b), UNIQUE (c)", {"a": 49, "b": 49, "c": 19}),
        ("a INT, b INT, KEY (a), KEY (b)", {"a": 97, "b": 97}),
        ("a INT PRIMARY KEY, g INT AS (a + 1) STORED, KEY (g)", {"a": 11, "g": 69}),
        ("a INT, b INT, PRIMARY KEY (a, b), UNIQUE (b)", {"a": 43, "b": 59}),
    ],
)  # fmt: skip
def test_flags_by_definition(definition: str, flags: dict[str, int]) -> None:
    schema = schema_change(ddl(f"CREATE TABLE t ({definition})")).after
    assert schema is not None
    assert column_flags(schema) == flags


@pytest.mark.parametrize("flags", [11, 139, 10, 43, 42, 65, 1, 64, 0, 193, 19, 80, 59, 113, 225, 69, 97, 81])
def test_flags_without_definition_come_back(flags: int) -> None:
    code = 3 if flags & 1 else 15
    other = {"other": cell(3, 2, 43, h=True)} if flags & 42 == 42 else {}
    given = cell(code, 1 if code == 3 else "x", flags, **({"h": True} if flags & 2 else {}))
    assert values(records(row({"u": {"c": given} | other}))) == [{"u": {"c": given} | other}]


@pytest.mark.parametrize(
    ("flags", "handle"),
    [
        ({"b": 49, "c": 113}, ()),
        ({"a": 51, "b": 51, "c": 49, "d": 113}, ("a", "b")),
        ({"a": 51, "b": 51, "c": 49, "d": 49}, ("a", "b")),
        ({"b": 17, "a": 19, "c": 81}, ("a",)),
        ({"a": 43, "b": 59, "c": 49}, ("a", "b")),
    ],
)
def test_the_handle_key_without_definition_is_that_of_the_flags(
    flags: dict[str, int], handle: tuple[str, ...]
) -> None:
    """Columns of unique keys that cannot be NULL are no handle key if their flags do not say so."""
    message = row(
        {"u": {name: cell(3, 1, one, **({"h": True} if one & 2 else {})) for name, one in flags.items()}}
    )
    assert change(message).schema.handle_key() == handle
    assert values(records(message)) == [message[1]]


@pytest.mark.parametrize("flags", [0x1FF & ~0x2E | 0x100, 1 << 62, 1 << 63, (1 << 64) - 1, 1 << 70, -1])
def test_bits_beyond_the_known_ones_mean_nothing_and_are_written_as_far_as_tidb_reads_them(
    flags: int,
) -> None:
    message = row({"u": {"c": cell(3, 1, flags)}})
    assert change(message).schema == change(row({"u": {"c": cell(3, 1, flags & 0xFF)}})).schema
    written = flags if 0 <= flags < 1 << 64 else flags & 0xFF
    more = {"h": True} if flags & 2 else {}
    assert values(records(message, message)) == [{"u": {"c": cell(3, 1, written, **more)}}] * 2


# ---------------------------------------------------------------- DDL

CODES = [
    (1, "CREATE DATABASE d"), (2, "DROP DATABASE d"), (3, "CREATE TABLE t (a INT)"), (3, "CREATE TABLE t LIKE s"),
    (4, "DROP TABLE t"), (5, "ALTER TABLE t ADD COLUMN a INT"), (5, "ALTER TABLE t ADD a INT FIRST"),
    (6, "ALTER TABLE t DROP COLUMN a"), (7, "CREATE UNIQUE INDEX i ON t (a)"), (7, "ALTER TABLE t ADD KEY i (a)"),
    (7, "ALTER TABLE t ADD UNIQUE i (a)"), (8, "DROP INDEX i ON t"), (8, "ALTER TABLE t DROP INDEX i"),
    (9, "ALTER TABLE t ADD CONSTRAINT f FOREIGN KEY (a) REFERENCES s (a)"), (10, "ALTER TABLE t DROP FOREIGN KEY f"),
    (11, "TRUNCATE TABLE t"), (12, "ALTER TABLE t MODIFY COLUMN a BIGINT"), (12, "ALTER TABLE t CHANGE COLUMN a b INT"),
    (12, "ALTER TABLE t RENAME COLUMN a TO b"), (13, "ALTER TABLE t AUTO_INCREMENT = 100"), (14, "RENAME TABLE s TO t"),
    (14, "ALTER TABLE s RENAME TO t"), (15, "ALTER TABLE t ALTER COLUMN a SET DEFAULT 1"),
    (15, "ALTER TABLE t ALTER a DROP DEFAULT"), (17, "ALTER TABLE t COMMENT = 'x'"), (18, "ALTER TABLE t RENAME INDEX a TO b"),
    (19, "ALTER TABLE t ADD PARTITION (PARTITION p VALUES LESS THAN (5))"), (20, "ALTER TABLE t DROP PARTITION p"),
    (21, "CREATE VIEW t AS SELECT 1"), (22, "ALTER TABLE t CONVERT TO CHARACTER SET utf8mb4"),
    (22, "ALTER TABLE t COLLATE utf8mb4_bin"), (23, "ALTER TABLE t TRUNCATE PARTITION p"), (24, "DROP VIEW t"),
    (25, "RECOVER TABLE t"), (25, "FLASHBACK TABLE t"), (26, "ALTER DATABASE d CHARACTER SET utf8mb4"),
    (32, "ALTER TABLE t ADD PRIMARY KEY (a)"), (33, "ALTER TABLE t DROP PRIMARY KEY"), (34, "CREATE SEQUENCE t"),
    (35, "ALTER SEQUENCE t INCREMENT 2"), (36, "DROP SEQUENCE t"), (41, "ALTER TABLE t ALTER INDEX i INVISIBLE"),
    (42, "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE s"), (43, "ALTER TABLE t ADD CONSTRAINT c CHECK (a > 1)"),
    (44, "ALTER TABLE t DROP CHECK c"), (45, "ALTER TABLE t ALTER CHECK c NOT ENFORCED"),
    (61, "ALTER TABLE t ADD COLUMN a INT, DROP COLUMN b"), (61, "ALTER TABLE t ADD COLUMN (a INT, b INT)"),
    (61, "ALTER TABLE t COMMENT 'x' AUTO_INCREMENT 5"), (61, "ALTER TABLE t ROW_FORMAT = COMPACT"),
    (64, "ALTER TABLE t REORGANIZE PARTITION p INTO (PARTITION q VALUES LESS THAN (5))"),
    (65, "ALTER TABLE `t` /*T![ttl] TTL = `a` + INTERVAL 1 DAY */"), (65, "ALTER TABLE t TTL_ENABLE = 'OFF'"),
    (65, "ALTER TABLE `t`"), (65, "alter table d.`t` ;"), (67, "ALTER TABLE `t` /*T![ttl] REMOVE TTL */"),
    (71, "ALTER TABLE t PARTITION BY HASH (a) PARTITIONS 3"), (72, "ALTER TABLE t REMOVE PARTITIONING"), (0, "ANALYZE TABLE t"),
]  # fmt: skip


#: Statements of kinds that stand for several numbers, and of kinds for which relay has no word.
NUMBERS = [
    (3, "CREATE GLOBAL TEMPORARY TABLE t (a INT) ON COMMIT DELETE ROWS"), (4, "DROP GLOBAL TEMPORARY TABLE t"),
    (16, "ALTER TABLE t SHARD_ROW_ID_BITS = 4"), (16, "ALTER TABLE `cache` /*T! SHARD_ROW_ID_BITS = 4 */"),
    (16, "alter table if exists d.t shard_row_id_bits 4;"), (27, "LOCK TABLES t WRITE"), (27, "LOCK TABLE t READ, u WRITE"),
    (28, "UNLOCK TABLES"), (28, "ADMIN CLEANUP TABLE LOCK t"), (29, "ADMIN REPAIR TABLE t CREATE TABLE t (a INT)"),
    (29, "REPAIR NO_WRITE_TO_BINLOG TABLE t"), (30, "ALTER TABLE t SET TIFLASH REPLICA 2 LOCATION LABELS 'a', 'b'"),
    (30, "ALTER DATABASE d SET TIFLASH REPLICA 2"), (39, "ALTER TABLE t /*T![auto_id_cache] AUTO_ID_CACHE = 100 */"),
    (40, "ALTER TABLE t /*T![auto_rand_base] AUTO_RANDOM_BASE = 100 */"), (13, "ALTER TABLE t FORCE AUTO_INCREMENT = 5"),
    (49, "ALTER TABLE t ATTRIBUTES = 'merge_option=deny'"), (50, "ALTER TABLE t PARTITION cache ATTRIBUTES DEFAULT"),
    (51, "CREATE OR REPLACE PLACEMENT POLICY p FOLLOWERS = 4"), (52, "ALTER PLACEMENT POLICY p FOLLOWERS = 4"),
    (53, "DROP PLACEMENT POLICY p"), (54, "ALTER TABLE t PARTITION p PLACEMENT POLICY = cache"),
    (55, "ALTER DATABASE d /*T![placement] PLACEMENT POLICY = p */"), (56, "ALTER TABLE t PLACEMENT POLICY cache"),
    (57, "ALTER TABLE d.cache CACHE"), (59, "ALTER TABLE t NOCACHE"), (61, "ALTER TABLE t CACHE SHARD_ROW_ID_BITS = 4"),
    (61, "ALTER TABLE t SHARD_ROW_ID_BITS = 4 ROW_FORMAT = COMPACT"), (62, "FLASHBACK CLUSTER TO TIMESTAMP '2026-01-01 00:00:00'"),
    (63, "FLASHBACK DATABASE d TO e"), (68, "CREATE RESOURCE GROUP r RU_PER_SEC = 5"), (69, "ALTER RESOURCE GROUP r RU_PER_SEC = 5"),
    (70, "DROP RESOURCE GROUP r"), (7, "ALTER TABLE t ADD UNIQUE cache (a)"),
    (73, "ALTER TABLE t ADD VECTOR INDEX ((VEC_COSINE_DISTANCE(a))) USING HNSW"), (73, "CREATE COLUMNAR INDEX i ON t (a)"),
    (74, "ALTER TABLE t ENGINE_ATTRIBUTE = '{}'"), (230, "ALTER TABLE t ADD FULLTEXT INDEX (a)"),
    (231, "CREATE HYBRID INDEX i ON t (a)"), (231, "ALTER TABLE t ADD HYBRID INDEX i (a)"),
    (0, "OPTIMIZE TABLE t"), (0, "ALTER TABLE t COMPACT TIFLASH REPLICA"), (0, "LOCK INSTANCE FOR BACKUP"), (0, "FROB 'TABLE"),
]  # fmt: skip


def canal_ddl(sql: str, word: str) -> Any:
    return record({"isDdl": True, "type": word, "database": "d", "table": "t", "es": 1, "ts": 2, "sql": sql})


@pytest.mark.parametrize(("code", "sql"), CODES, ids=[sql for _, sql in CODES])
def test_the_number_of_every_statement(code: int, sql: str) -> None:
    assert values([canal_ddl(sql, "QUERY")], source=CANAL) == [{"q": sql, "t": code}]
    assert schema_change(ddl(sql, code)).kinds
    assert values(records(ddl(sql, code))) == [{"q": sql, "t": code}]


@pytest.mark.parametrize(("code", "sql"), NUMBERS, ids=[sql for _, sql in NUMBERS])
def test_the_number_of_a_statement_that_its_words_tell(code: int, sql: str) -> None:
    wanted = [{"q": sql, "t": code}]
    assert values([canal_ddl(sql, "QUERY")], source=CANAL) == wanted
    assert values([canal_ddl(sql, "QUERY")], source=TICDC) == wanted
    assert values([canal_ddl(sql, "QUERY")], source=CKAFKA) == wanted
    assert values([record(debezium_message(sql))], source=DEBEZIUM) == wanted


def test_a_hybrid_index_is_no_column() -> None:
    found = schema_change(
        ddl("CREATE TABLE t (a INT, hybrid INT)"), ddl("ALTER TABLE t ADD HYBRID INDEX i (a)", 231, ts=5)
    )
    assert found.after is not None
    assert [column.name for column in found.after.columns] == ["a", "hybrid"]


def test_a_number_that_is_text_is_read_and_written_as_a_number() -> None:
    """The manual's table calls the type a string; TiCDC writes a number."""
    sql = "CREATE TABLE t (a INT)"
    text = (DDL_KEY, {"q": sql, "t": "3"})
    assert schema_change(text).kinds == (DdlKind.CREATE_TABLE,)
    assert values(records(text)) == [{"q": sql, "t": 3}]
    assert values(records((DDL_KEY, {"q": "FROBNICATE", "t": "016"}))) == [{"q": "FROBNICATE", "t": 16}]


@pytest.mark.parametrize("number", ["", "x", "-3", "3.0", " 3", "1000", "٣", None, True, [3]])
def test_a_number_that_is_none_is_refused(number: Any) -> None:
    with pytest.raises(Malformed, match="number `t`"):
        schema_change((DDL_KEY, {"q": "CREATE TABLE t (a INT)", "t": number}))


def test_every_part_of_a_rename_and_of_a_drop_has_its_number() -> None:
    rename = canal_ddl("RENAME TABLE a TO b, c TO e", "RENAME")
    drop = canal_ddl("DROP TABLE a, b", "ERASE")
    assert values([rename, drop], source=CANAL) == [
        {"q": "RENAME TABLE `d`.`a` TO `d`.`b`", "t": 14},
        {"q": "RENAME TABLE `d`.`c` TO `d`.`e`", "t": 14},
        {"q": "DROP TABLE `d`.`a`", "t": 4},
        {"q": "DROP TABLE `d`.`b`", "t": 4},
    ]


@pytest.mark.parametrize(
    ("word", "code"),
    [
        ("CREATE", 3),
        ("ALTER", 61),
        ("ERASE", 4),
        ("RENAME", 14),
        ("TRUNCATE", 11),
        ("CINDEX", 7),
        ("DINDEX", 8),
        ("QUERY", 0),
    ],
)
def test_the_number_of_a_statement_that_is_not_understood(word: str, code: int) -> None:
    assert values([canal_ddl("FROBNICATE TABLE t", word)], source=CANAL) == [
        {"q": "FROBNICATE TABLE t", "t": code}
    ]


#: What TiDB's numbers stand for, besides those above; None for what is no change that relay has a word for.
ACTIONS = {
    0: None, 16: DdlKind.ALTER_TABLE_OPTION, 27: None, 28: None, 29: None, 30: None, 31: None, 37: DdlKind.ADD_COLUMN,
    38: DdlKind.DROP_COLUMN, 39: DdlKind.ALTER_TABLE_OPTION, 40: DdlKind.REBASE_AUTO_ID, 46: None, 47: DdlKind.RENAME_TABLE,
    48: DdlKind.DROP_INDEX, 49: None, 50: None, 51: None, 52: None, 53: None, 54: None, 55: None, 56: None, 57: None, 58: None,
    59: None, 60: DdlKind.CREATE_TABLE, 62: None, 63: None, 68: None, 69: None, 70: None, 73: DdlKind.ADD_INDEX, 74: None, 75: None,
    76: None, 77: None, 78: None, 85: None, 94: None, 200: None, 230: DdlKind.ADD_INDEX, 231: DdlKind.ADD_INDEX,
}  # fmt: skip


def kinds_by_text(sql: str) -> tuple[DdlKind, ...]:
    return schema_change(ddl(sql, 0)).kinds


@pytest.mark.parametrize("code", sorted({code for code, _ in CODES} | set(ACTIONS)))
def test_what_a_number_says_of_a_statement_that_is_not_understood(code: int) -> None:
    found = schema_change(ddl("FROBNICATE TABLE t", code))
    of_text = {
        one for number, sql in CODES if number == code and code not in {0, 61} for one in kinds_by_text(sql)
    }
    expected = of_text or {ACTIONS.get(code)} - {None}
    assert len(found.kinds) == min(len(expected), 1)
    assert set(found.kinds) <= expected
    assert values(records(ddl("FROBNICATE TABLE t", code))) == [{"q": "FROBNICATE TABLE t", "t": code}]


def test_the_text_says_what_happens_and_the_number_is_kept() -> None:
    assert schema_change(ddl("DROP TABLE t", 3)).kinds == (DdlKind.DROP_TABLE,)
    assert values(records(ddl("DROP TABLE t", 3))) == [{"q": "DROP TABLE t", "t": 3}]
    assert values(records(ddl("DROP TABLE t", 100000))) == [{"q": "DROP TABLE t", "t": 4}]
