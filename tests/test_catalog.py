"""The catalog: definitions as of a position, renames, repeats, late statements."""

from __future__ import annotations

import pickle
from collections.abc import Iterable

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay.catalog import HISTORY_LIMIT, Catalog, DdlMessage, apply_bootstrap, apply_ddl
from relay.model.events import (
    Bootstrap,
    Column,
    ColumnType,
    DdlKind,
    Position,
    RenamedTable,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
)

SOURCE = Source("test", 0)


def ts(commit_ts: int) -> Position:
    """A position of a source with commit ts."""
    return Position(commit_ts, commit_ts, "t", 0, commit_ts)


def record(offset: int, *, partition: int = 0, time: int = 0) -> Position:
    """A position of a source without."""
    return Position(None, time, "t", partition, offset)


class Stream:
    """A catalog and the statements that it receives."""

    def __init__(self) -> None:
        self.catalog = Catalog()

    def ddl(
        self, at: Position | int, sql: str, table: str = "", *, database: str = "d", restored: bool = False
    ) -> SchemaChange:
        position = ts(at) if isinstance(at, int) else at
        message = DdlMessage(sql, TableId(database, table), "QUERY", SOURCE, position, 7, restored)
        self.catalog, change = apply_ddl(self.catalog, message)
        return change

    def columns(self, table: str, at: Position | int, *, database: str = "d") -> str | None:
        schema = self.catalog.table(TableId(database, table), ts(at) if isinstance(at, int) else at)
        assert schema is None or schema.id == TableId(database, table)
        return None if schema is None else " ".join(column.name for column in schema.columns)


@pytest.fixture
def stream() -> Stream:
    return Stream()


def test_rows_see_the_definition_before_their_position(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    stream.ddl(20, "ALTER TABLE t ADD COLUMN b INT")
    stream.ddl(30, "DROP TABLE t")
    seen = [stream.columns("t", at) for at in (9, 10, 11, 20, 21, 30, 31)]
    assert seen == [None, None, "a", "a", "a b", "a b", None]
    assert stream.columns("u", 40) is None
    assert stream.columns("t", 40, database="x") is None


def test_the_event(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    change = stream.ddl(20, "ALTER TABLE t ADD COLUMN b INT, ADD INDEX (b)", "t")
    assert (change.ddl, change.table) == ("ALTER TABLE t ADD COLUMN b INT, ADD INDEX (b)", TableId("d", "t"))
    assert change.kinds == (DdlKind.ADD_COLUMN, DdlKind.ADD_INDEX)
    assert (change.targets, change.renamed) == ((TableId("d", "t"),), ())
    assert change.after == stream.catalog.table(TableId("d", "t"), ts(21))
    assert (change.wire_kind, change.source, change.emitted_at_ns) == ("QUERY", SOURCE, 7)


def test_a_name_means_what_exists_before_its_statement(stream: Stream) -> None:
    """Not a table that comes, or has gone, in another letter case; however much of the stream is known
    already.
    """
    statements = [
        (10, "CREATE TABLE Foo (a INT)", "Foo"),
        (20, "ALTER TABLE foo ADD c INT", "Foo"),
        (30, "DROP TABLE Foo", "Foo"),
        (40, "CREATE TABLE foo (x INT)", "foo"),
        (50, "ALTER TABLE Foo ADD y INT", "foo"),
    ]
    first = [stream.ddl(*statement) for statement in statements]
    learned = stream.catalog
    assert [change.table.table for change in first] == ["Foo", "Foo", "Foo", "foo", "foo"]
    assert [stream.ddl(*statement) for statement in statements] == first
    assert stream.catalog is learned
    assert (stream.columns("Foo", 21), stream.columns("foo", 51)) == ("a c", "x y")


@pytest.mark.parametrize(
    ("sql", "table", "expected"),
    [
        ("ALTER TABLE USERS ADD z INT", "", {"Users": "a z"}),
        ("ALTER TABLE SHOP.users ADD z INT", "", {"Users": "a z"}),
        ("DROP TABLE ORDERS, users", "", {}),
        ("DROP TABLE IF EXISTS Shop.`USERS`", "", {"Orders": "b"}),
        ("RENAME TABLE users TO old_users", "old_users", {"old_users": "a"}),
        ("RENAME TABLE users TO `OLD_users`", "old_users", {"old_users": "a"}),
        ("RENAME TABLE users TO uSERS", "uSERS", {"uSERS": "a"}),
        ("RENAME TABLE SHOP.users TO shoP.x, SHOP.ORDERS TO SHOP.users", "", {"x": "a", "users": "b"}),
        ("RENAME TABLE users TO Tmp, orders TO USERS, tmp TO ORDERS", "", {"USERS": "b", "ORDERS": "a"}),
        ("ALTER TABLE users RENAME TO people", "people", {"people": "a"}),
        ("CREATE TABLE x LIKE users", "x", {"x": "a", "Users": "a"}),
        ("CREATE TABLE SHOP.x LIKE SHOP.USERS", "x", {"x": "a", "Users": "a"}),
        ("CREATE TABLE IF NOT EXISTS users (q INT)", "users", {"Users": "a"}),
        ("DROP DATABASE SHOP", "", {}),
        ("CREATE INDEX i ON USERS (A)", "", {"Users": "a"}),
    ],
)
def test_tidb_compares_names_without_case(
    stream: Stream, sql: str, table: str, expected: dict[str, str]
) -> None:
    stream.ddl(10, "CREATE TABLE Users (a INT)", "Users", database="shop")
    stream.ddl(20, "CREATE TABLE Orders (b INT)", "Orders", database="shop")
    untouched = {} if "DROP" in sql or "ORDERS" in sql.upper() else {"Orders": "b"}
    for _ in range(2):
        stream.ddl(30, sql, table, database="shop")
        names = (
            "Users",
            "users",
            "uSERS",
            "USERS",
            "Orders",
            "ORDERS",
            "orders",
            "old_users",
            "x",
            "people",
            "tmp",
            "Tmp",
        )
        found = {name: stream.columns(name, 31, database="shop") for name in names}
        assert {name: columns for name, columns in found.items() if columns} == expected | untouched


@pytest.mark.parametrize(
    "sql",
    [
        "ALTER TABLE USERS ADD z INT",
        "DROP TABLE x, USERS",
        "RENAME TABLE USERS TO old_users",
        "ALTER TABLE USERS RENAME TO x",
        "CREATE TABLE IF NOT EXISTS USERS (q INT)",
    ],
)
def test_of_mysql_a_name_in_another_case_may_mean_a_table_that_is_unknown_then(
    stream: Stream, sql: str
) -> None:
    stream.ddl(record(1), "CREATE TABLE users (a INT)")
    stream.ddl(record(2), sql)
    assert stream.columns("users", record(3)) is None
    assert stream.columns("USERS", record(3)) is None
    assert stream.columns("old_users", record(3)) is None


def test_of_mysql_both_spellings_may_be_tables(stream: Stream) -> None:
    stream.ddl(record(1), "CREATE TABLE users (a INT)")
    stream.ddl(record(2), "CREATE TABLE USERS (b INT)")
    stream.ddl(record(3), "ALTER TABLE USERS ADD z INT")
    stream.ddl(record(4), "CREATE TABLE x LIKE Users")
    assert stream.columns("x", record(5)) is None
    assert (stream.columns("USERS", record(4)), stream.columns("users", record(4))) == ("b z", "a")


def test_a_database_is_dropped_by_its_name_in_another_case(stream: Stream) -> None:
    """Whatever case the envelope has: CREATE TABLE IF NOT EXISTS does not bring the old definition back."""
    stream.ddl(10, "CREATE TABLE t (a INT)", database="shop")
    stream.ddl(20, "DROP DATABASE SHOP", database="SHOP")
    stream.ddl(30, "CREATE TABLE IF NOT EXISTS t (b INT)", database="shop")
    assert stream.columns("t", 31, database="shop") == "b"


def test_of_mysql_a_dropped_database_in_another_case_may_be_another_one(stream: Stream) -> None:
    stream.ddl(record(1), "CREATE TABLE t (a INT)", database="shop")
    stream.ddl(record(2), "DROP DATABASE SHOP", database="shop")
    assert stream.columns("t", record(3), database="shop") is None
    stream.ddl(record(4), "CREATE TABLE t (a INT)", database="shop")
    stream.ddl(record(5), "CREATE TABLE t (b INT)", database="SHOP")
    stream.ddl(record(6), "DROP DATABASE SHOP", database="SHOP")
    assert stream.columns("t", record(7), database="shop") == "a"


def test_tables_get_the_charset_of_their_database(stream: Stream) -> None:
    def of(sql: str, at: int, database: str = "e") -> tuple[str | None, str | None]:
        schema = stream.ddl(at, sql, database=database).after
        assert schema is not None
        return schema.charset, schema.collation

    latin = ("latin1", "latin1_general_ci")
    assert of("CREATE TABLE t (a TEXT)", 5) == (None, None)
    stream.ddl(10, "CREATE DATABASE `e` CHARACTER SET = latin1 COLLATE = latin1_general_ci", database="")
    assert of("CREATE TABLE a (a TEXT)", 11) == latin
    assert of("CREATE TABLE b (a TEXT) COMMENT 'x'", 12) == latin
    assert of("CREATE TABLE c (a TEXT) CHARSET gbk", 13) == ("gbk", None)
    assert of("CREATE TABLE d (a TEXT) DEFAULT CHARSET=DEFAULT", 14) == latin
    assert of("ALTER TABLE c CONVERT TO CHARACTER SET DEFAULT", 15) == latin
    assert of("CREATE TABLE e.x (a TEXT)", 16, "other") == latin
    assert of("CREATE TABLE y (a TEXT)", 17, "other") == (None, None)
    assert of("CREATE TABLE z LIKE a", 18) == latin
    stream.ddl(20, "CREATE DATABASE IF NOT EXISTS e CHARSET utf8mb4", database="e")
    assert of("CREATE TABLE f (a TEXT)", 21) == latin
    stream.ddl(30, "ALTER DATABASE E COLLATE utf8mb4_bin", database="e")
    assert of("CREATE TABLE g (a TEXT)", 31) == (None, None)  # TiDB's own default
    stream.ddl(33, "ALTER DATABASE E COLLATE utf8mb4_general_ci", database="e")
    assert of("CREATE TABLE j (a TEXT)", 34) == ("utf8mb4", "utf8mb4_general_ci")
    assert of("ALTER TABLE a COMMENT 'old'", 32) == latin
    stream.ddl(40, "ALTER DATABASE DEFAULT CHARACTER SET binary", database="e")
    schema = stream.ddl(41, "CREATE TABLE h (a TEXT, b VARCHAR(3))", database="e").after
    assert schema is not None
    assert [column.type.base for column in schema.columns] == ["blob", "varbinary"]
    stream.ddl(50, "DROP DATABASE e", database="e")
    assert of("CREATE TABLE i (a TEXT)", 51) == (None, None)
    # As of: a statement that is repeated sees what it saw.
    assert of("CREATE TABLE late (a TEXT)", 12) == latin


@pytest.mark.parametrize("sql", ["", "INSERT INTO t SELECT 1", "/* DROP TABLE t */ dropping"])
def test_what_is_not_understood_changes_nothing(stream: Stream, sql: str) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    before = stream.catalog
    change = stream.ddl(20, sql, "t")
    assert stream.catalog is before
    assert (change.kinds, change.targets, change.table) == ((), (), TableId("d", "t"))


def test_after_an_alteration_that_is_not_understood_the_table_is_unknown(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a ENUM('x','y'))")
    assert stream.ddl(20, "ALTER TABLE t MODIFY a ENUM('new','x','y') 'x", "t").kinds == ()
    assert stream.columns("t", 20) == "a"
    assert stream.columns("t", 21) is None


def test_definition_in_tidbs_spelling(stream: Stream) -> None:
    change = stream.ddl(10, "CREATE TABLE `t` (`a` ENUM('b\\c') DEFAULT _UTF8MB4'b\\c');", "t", restored=True)
    assert change.after is not None
    assert change.after.columns[0].type.members == ("b\\c",)


@pytest.mark.parametrize(
    ("sql", "database", "table", "expected"),
    [
        ("CREATE DATABASE `Names-Db`", "`Names-Db`", "", TableId("Names-Db", "")),
        ("ALTER DATABASE CHARACTER SET utf8mb4", "d", "", TableId("d", "")),
        ("DROP DATABASE x", "", "", TableId("x", "")),
        ("CREATE TABLE x.t (a INT)", "d", "", TableId("x", "t")),
        ("RENAME TABLE a TO b, c TO x.d", "d", "a", TableId("d", "b")),
        ("RENAME TABLE a TO b, c TO x.d", "d", "b,", TableId("d", "b")),
        ("RENAME TABLE a TO b, c TO x.d", "x", "d", TableId("x", "d")),
        ("ALTER TABLE members RENAME TO people", "d", "members", TableId("d", "people")),
        ("DROP TABLE `tmp_a`,`tmp_x` /* generated by server */", "d", "tmp_a`,`tmp_x", TableId("d", "tmp_a")),
        (
            "ALTER TABLE `p` EXCHANGE PARTITION `p0` WITH TABLE `d`.`plain`",
            "d",
            "plain",
            TableId("d", "plain"),
        ),
        ("ALTER TABLE USERS ADD COLUMN a INT", "d", "users", TableId("d", "users")),
        ("DROP VIEW v", "d", "", TableId("d", "v")),
        ("RECOVER TABLE BY JOB 5", "d", "t", TableId("d", "t")),
        ("TRUNCATE t", "d", "", TableId("d", "t")),
        ("GRANT x", "d", "", TableId("d", "")),
    ],
)
def test_the_table_that_the_event_is_about(
    stream: Stream, sql: str, database: str, table: str, expected: TableId
) -> None:
    assert stream.ddl(10, sql, table, database=database).table == expected


def test_repeats_are_applied_once(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)", "t")
    first = stream.ddl(20, "ALTER TABLE t ADD COLUMN b INT;", "t")
    stream.ddl(30, "ALTER TABLE t ADD COLUMN c INT", "t")
    learned = stream.catalog
    again = stream.ddl(Position(20, 20, "t", 5, 99), " ALTER TABLE t ADD COLUMN b INT ", "t")
    assert stream.catalog is learned
    assert (again.kinds, again.after) == (first.kinds, first.after)


def test_replay_without_commit_ts(stream: Stream) -> None:
    for _ in range(2):
        stream.ddl(record(5), "CREATE TABLE t (a INT)")
        stream.ddl(record(6), "ALTER TABLE t ADD COLUMN b INT")
        stream.ddl(record(8), "ALTER TABLE t DROP COLUMN b")
        stream.ddl(record(9), "ALTER TABLE t ADD COLUMN b INT")
    seen = [stream.columns("t", record(offset)) for offset in (5, 6, 7, 9, 10)]
    assert seen == [None, "a", "a b", "a", "a b"]
    assert stream.columns("t", record(0, partition=1, time=1)) == "a b"
    assert stream.columns("t", record(99, partition=1, time=0)) is None


def test_rename_swaps(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE a (one INT)")
    stream.ddl(11, "CREATE TABLE b (two INT)")
    change = stream.ddl(20, "RENAME TABLE a TO x, b TO a")
    assert change.renamed == (
        RenamedTable(TableId("d", "a"), TableId("d", "x")),
        RenamedTable(TableId("d", "b"), TableId("d", "a")),
    )
    assert [stream.columns(name, 20) for name in "abx"] == ["one", "two", None]
    assert [stream.columns(name, 21) for name in "abx"] == ["two", None, "one"]


def test_parts_of_a_rename_share_a_commit_ts(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE `a` (`one` INT)", "a", restored=True)
    stream.ddl(11, "CREATE TABLE `b` (`two` INT)", "b", restored=True)
    for _ in range(2):  # two partitions
        stream.ddl(20, "RENAME TABLE `d`.`a` TO `d`.`x`;", "x", restored=True)
        stream.ddl(20, "RENAME TABLE `d`.`b` TO `d`.`a`;", "a", restored=True)
        stream.ddl(20, "RENAME TABLE `d`.`x` TO `d`.`b`;", "b", restored=True)
    assert [stream.columns(name, 21) for name in "abx"] == ["two", "one", None]


@pytest.mark.parametrize(
    "parts",
    [
        [("RENAME TABLE a TO b", "b"), ("RENAME TABLE b TO a", "a")],
        [("RENAME TABLE b TO c", "c"), ("RENAME TABLE c TO e", "e"), ("RENAME TABLE a TO c", "c")],
        [("RENAME TABLE a TO x", "x"), ("RENAME TABLE b TO a", "a"), ("RENAME TABLE x TO b", "b")],
        [("ALTER TABLE a ADD COLUMN three INT", "a"), ("ALTER TABLE a ADD COLUMN four INT", "a")],
        [("CREATE VIEW v (one) AS SELECT 1", "v"), ("DROP VIEW v", "v")],
        [("RENAME TABLE view TO v", "v"), ("RENAME TABLE v TO w", "w")],
    ],
)
def test_a_repeat_says_what_the_first_copy_said(stream: Stream, parts: list[tuple[str, str]]) -> None:
    """Whatever else has the same commit ts, and was learned since: from another partition, or by who reads all
    DDL first.
    """
    stream.ddl(10, "CREATE TABLE a (one INT)", "a")
    stream.ddl(11, "CREATE TABLE b (two INT)", "b")
    stream.ddl(12, "CREATE VIEW view (three) AS SELECT 1", "view")
    first = [stream.ddl(20, sql, table) for sql, table in parts]
    assert any(change.after or change.views for change in first)
    learned = stream.catalog
    again = [stream.ddl(Position(20, 20, "t", 1, at), sql, table) for at, (sql, table) in enumerate(parts)]
    assert stream.catalog is learned
    assert again == first


def test_one_rename_sent_once_for_each_pair(stream: Stream) -> None:
    stream.ddl(record(1), "CREATE TABLE a (one INT)")
    stream.ddl(record(2), "CREATE TABLE b (two INT)")
    stream.ddl(record(3), "RENAME TABLE a TO x, b TO a", "a")
    change = stream.ddl(record(4), "RENAME TABLE a TO x, b TO a", "b")  # Maxwell
    assert [stream.columns(name, record(5)) for name in "abx"] == ["two", None, "one"]
    assert change.kinds == (DdlKind.RENAME_TABLE,)


def test_rename_to_another_database_and_of_an_unknown_table(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    stream.ddl(20, "ALTER TABLE t RENAME TO x.u, ADD COLUMN b INT")
    assert (stream.columns("t", 21), stream.columns("u", 21, database="x")) == (None, "a b")
    stream.ddl(30, "RENAME TABLE unknown TO x.u")
    assert stream.columns("u", 31, database="x") is None
    stream.ddl(40, "RENAME TABLE x.u TO x.u", database="x")
    assert stream.columns("u", 31, database="x") is None


def two_databases(stream: Stream) -> None:
    """Canal's position: no commit ts. `same` is in both databases."""
    for offset, (database, table) in enumerate(
        [("d", "a"), ("d", "b"), ("d", "same"), ("e", "other"), ("e", "same")]
    ):
        stream.ddl(record(offset), f"CREATE TABLE {table} ({database}_{table} INT)", table, database=database)


@pytest.mark.parametrize(
    ("sql", "envelope", "columns", "gone"),
    [
        # The message names the database of the new name, the session was in `d`.
        ("RENAME TABLE a TO e.moved", "e.moved", {"e.moved": "d_a"}, ["d.a"]),
        ("RENAME TABLE a TO E.moved", "E.moved", {"E.moved": "d_a"}, ["d.a"]),
        ("ALTER TABLE a RENAME TO e.moved", "e.moved", {"e.moved": "d_a"}, ["d.a"]),
        ("ALTER TABLE a ADD x INT, RENAME e.moved", "e.moved", {"e.moved": "d_a x"}, ["d.a"]),
        ("RENAME TABLE a TO e.moved, b TO c", "e.moved", {"e.moved": "d_a", "d.c": "d_b"}, ["d.a", "d.b"]),
        ("RENAME TABLE a TO e.tmp, b TO a, e.tmp TO b", "e.tmp", {"d.a": "d_b", "d.b": "d_a"}, ["e.tmp"]),
        ("CREATE TABLE e.copy LIKE a", "e.copy", {"e.copy": "d_a", "d.a": "d_a"}, []),
        ("DROP TABLE e.other, a", "e.other", {"d.b": "d_b"}, ["e.other", "d.a"]),
        ("DROP TABLE IF EXISTS e.nothing, a, b", "e.nothing", {}, ["d.a", "d.b"]),
        # The session was in `d`, as the message says: the statement does not name it.
        ("RENAME TABLE e.other TO moved", "d.moved", {"d.moved": "e_other"}, ["e.other"]),
        ("CREATE TABLE copy LIKE e.other", "d.copy", {"d.copy": "e_other"}, []),
        ("CREATE TABLE copy LIKE e.same", "d.copy", {"d.copy": "e_same"}, []),
        ("DROP TABLE a, e.other", "d.a", {}, ["d.a", "e.other"]),
        (
            "RENAME TABLE a TO moved, d.b TO e.b2",
            "d.moved",
            {"d.moved": "d_a", "e.b2": "d_b"},
            ["d.a", "d.b"],
        ),
        # Both are in one database.
        ("RENAME TABLE other TO e.moved", "e.moved", {"e.moved": "e_other"}, ["e.other"]),
        # Which `same` it is nobody knows, so no definition of it is known any more.
        ("RENAME TABLE same TO e.moved", "e.moved", {"e.moved": None, "d.same": None, "e.same": None}, []),
        ("CREATE TABLE e.copy LIKE same", "e.copy", {"e.copy": None, "d.same": "d_same"}, []),
        ("DROP TABLE e.other, same", "e.other", {"d.same": None, "e.same": None}, ["e.other"]),
        ("ALTER TABLE same ADD x INT, RENAME e.moved", "e.moved", {"e.moved": None, "d.same": None}, []),
        ("ALTER TABLE same RENAME e.moved", "e.moved", {"d.same": None, "e.same": None}, []),
        # It may be in any database that has one of the tables, also when none has all.
        ("DROP TABLE IF EXISTS e.nothing, b, other", "e.nothing", {"d.b": None, "e.other": None}, []),
        ("RENAME TABLE same TO f.moved", "f.moved", {"f.moved": None, "d.same": None, "e.same": None}, []),
        ("DROP TABLE e.other, same; ALTER TABLE same ADD x INT", "e.other", {"d.same": None}, ["e.other"]),
        ("DROP TABLE e.other, same; CREATE TABLE a (x INT)", "e.other", {"d.a": None, "e.a": None}, []),
        ("DROP TABLE e.other, same; CREATE TABLE a LIKE d.b", "e.other", {"d.a": None, "e.a": None}, []),
        ("RENAME TABLE e.other TO e.x, same TO a", "e.x", {"d.a": None, "e.a": None}, ["e.other"]),
        # With another table beside it, it is known.
        ("RENAME TABLE same TO e.moved, a TO z", "e.moved", {"e.moved": "d_same", "d.z": "d_a"}, ["d.same"]),
        # No database has it: the new table is unknown.
        ("RENAME TABLE nowhere TO e.moved", "e.moved", {"e.moved": None}, []),
    ],
)
def test_names_without_a_database_are_in_that_of_the_session(
    stream: Stream, sql: str, envelope: str, columns: dict[str, str | None], gone: list[str]
) -> None:
    two_databases(stream)
    database, _, table = envelope.partition(".")
    for _ in range(2):  # a repeat changes nothing
        stream.ddl(record(10), sql, table, database=database)
        found = {name: stream.columns(name[2:], record(20), database=name[0]) for name in columns}
        assert found == columns
        assert [stream.catalog.has(TableId(name[0], name[2:]), record(20)) for name in gone] == [False] * len(
            gone
        )


@pytest.mark.parametrize(
    "sql",
    ["DROP TABLE e.other, same", "RENAME TABLE same TO e.moved", "ALTER TABLE same DROP x, RENAME e.moved"],
)
def test_what_a_doubtful_statement_may_have_dropped_does_not_come_back(stream: Stream, sql: str) -> None:
    two_databases(stream)
    stream.ddl(record(10), sql, "moved", database="e")
    stream.ddl(record(11), "CREATE TABLE IF NOT EXISTS same (x INT)", "same")
    assert [stream.columns("same", record(20), database=each) for each in "de"] == [None, None]
    stream.ddl(record(12), "CREATE TABLE same (x INT)", "same")
    assert stream.columns("same", record(20)) == "x"


def test_a_view_that_may_be_dropped_is_unknown(stream: Stream) -> None:
    two_databases(stream)
    for offset, database in enumerate("de"):
        stream.ddl(record(5 + offset), "CREATE VIEW v AS SELECT one", "v", database=database)
    stream.ddl(record(10), "DROP VIEW e.v, v", "v", database="e")
    assert [stream.catalog.table(TableId(each, "v"), record(20)) for each in "de"] == [None, None]


@pytest.mark.parametrize(
    "sql",
    [
        *("ALTER\tTABLE t ADD COLUMN", " /* why */ -- so\n# and\nalter table t add column"),
        *("DROP TABLE t 'x", "/*!50001 RENAME TABLE t", "create table t like"),
    ],
)
def test_a_table_is_unknown_after_a_text_about_it_that_is_not_understood(stream: Stream, sql: str) -> None:
    stream.ddl(record(1), "CREATE TABLE t (a INT)")
    assert stream.ddl(record(2), sql, "t").kinds == ()
    assert stream.columns("t", record(3)) is None


def test_the_old_name_of_a_rename_from_another_database(stream: Stream) -> None:
    two_databases(stream)
    change = stream.ddl(record(10), "RENAME TABLE a TO e.moved", "moved", database="e")
    assert change.renamed == (RenamedTable(TableId("d", "a"), TableId("e", "moved")),)
    assert change.targets == (TableId("e", "moved"),)


def test_create_like_and_as_select(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT PRIMARY KEY)")
    stream.ddl(20, "CREATE TABLE u LIKE t")
    stream.ddl(30, "CREATE TABLE v AS SELECT * FROM t")
    stream.ddl(31, "CREATE TABLE IF NOT EXISTS v (z INT)")
    stream.ddl(32, "CREATE TABLE IF NOT EXISTS u (z INT)")
    stream.ddl(33, "CREATE TABLE IF NOT EXISTS u LIKE v")
    stream.ddl(34, "CREATE TABLE IF NOT EXISTS w (z INT)")
    assert [stream.columns(name, 40) for name in "tuvw"] == ["a", "a", None, "z"]


def test_alter_of_an_unknown_table_and_one_that_does_not_fit(stream: Stream) -> None:
    stream.ddl(10, "ALTER TABLE t ADD COLUMN a INT")
    assert stream.columns("t", 11) is None
    stream.ddl(20, "CREATE TABLE t (a INT)")
    stream.ddl(30, "ALTER TABLE t DROP COLUMN x")
    stream.ddl(31, "ALTER TABLE t ADD COLUMN y INT")
    assert stream.columns("t", 40) is None
    stream.ddl(50, "CREATE OR REPLACE TABLE t (b INT)")
    assert stream.columns("t", 51) == "b"


def test_statements_that_leave_the_definition(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    before = stream.catalog
    for sql in (
        "TRUNCATE t",
        "ALTER TABLE t ADD FULLTEXT INDEX (a)",
        "ALTER TABLE t EXCHANGE PARTITION p WITH TABLE u",
    ):
        stream.ddl(20, sql)
    assert stream.catalog is before


def test_a_view_is_known_by_its_columns_until_it_is_dropped(stream: Stream) -> None:
    """In whatever order the statements are learned, and however often."""
    stream.ddl(30, "DROP VIEW v, w")
    stream.ddl(10, "CREATE VIEW v AS SELECT a, b AS c FROM t")
    stream.ddl(20, "CREATE OR REPLACE VIEW v (x) AS SELECT a FROM t")
    assert [stream.columns("v", at) for at in (11, 21, 31)] == ["a c", "x", None]
    dropped = stream.ddl(30, "DROP VIEW v, w")
    assert [[column.name for column in view.columns] for view in dropped.views] == [["x"]]
    again = stream.ddl(10, "CREATE VIEW v AS SELECT a, b AS c FROM t")
    assert [[column.name for column in view.columns] for view in again.views] == [["a", "c"]]
    assert again.after is None


def test_a_view_keeps_its_kind_under_another_name(stream: Stream) -> None:
    stream.ddl(10, "CREATE VIEW v (a /* (b */, c -- d\n) AS SELECT 1, 2")
    moved = stream.ddl(20, "RENAME TABLE v TO w")
    assert moved.after is None
    assert [(view.id.table, [column.name for column in view.columns]) for view in moved.views] == [
        ("w", ["a", "c"])
    ]
    assert (stream.columns("v", 21), stream.columns("w", 21)) == (None, "a c")
    stream.ddl(30, "DROP VIEW w")
    assert not stream.catalog.has(TableId("d", "w"), ts(31))
    unknown = stream.ddl(40, "CREATE VIEW w AS SELECT COUNT(*) FROM t")
    assert (unknown.after, unknown.views) == (None, ())


def test_drop_view_leaves_tables(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    dropped = stream.ddl(20, "DROP VIEW IF EXISTS t")
    assert (dropped.after, dropped.views) == (None, ())
    assert stream.columns("t", 21) == "a"


def test_drop_database_and_recover(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    stream.ddl(11, "CREATE TABLE x.t (b INT)")
    stream.ddl(20, "DROP DATABASE d", database="")
    assert (stream.columns("t", 21), stream.columns("t", 21, database="x")) == (None, "b")
    stream.ddl(15, "CREATE TABLE late (a INT)")
    assert (stream.columns("late", 16), stream.columns("late", 21)) == ("a", None)
    stream.ddl(30, "DROP TABLE x.t")
    stream.ddl(31, "CREATE TABLE x.t (c INT)")
    stream.ddl(32, "FLASHBACK TABLE x.t TO x.old")
    assert (stream.columns("t", 33, database="x"), stream.columns("old", 33, database="x")) == ("c", "b")


@pytest.mark.parametrize("sql", ["RECOVER TABLE t", "RECOVER TABLE BY JOB 7", "FLASHBACK TABLE d.t"])
def test_recover(stream: Stream, sql: str) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)", "t")
    stream.ddl(20, "DROP TABLE t", "t")
    change = stream.ddl(30, sql, "t")
    assert [stream.columns("t", at) for at in (15, 25, 35)] == ["a", None, "a"]
    assert change.after is not None


def test_what_a_dropped_table_was(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    stream.ddl(20, "DROP TABLE t")
    stream.ddl(30, "CREATE TABLE t (b INT)")
    stream.ddl(40, "RENAME TABLE t TO u")
    found = [stream.catalog.dropped(TableId("d", "t"), ts(at)) for at in (15, 20, 25, 35, 45)]
    assert [schema and [column.name for column in schema.columns] for schema in found] == [
        None,
        None,
        ["a"],
        None,
        None,
    ]
    assert stream.catalog.dropped(TableId("d", "other"), ts(25)) is None


@pytest.mark.parametrize(
    ("sql", "before", "dropped"),
    [
        ("ALTER TABLE a ADD COLUMN c INT", {"a": "one"}, {}),
        ("RENAME TABLE a TO x, b TO y", {"a": "one", "b": "two"}, {}),
        ("RENAME TABLE a TO b", {"a": "one", "b": "two"}, {}),
        ("DROP TABLE b, unknown, a", {"b": "two", "a": "one"}, {"b": "two", "a": "one"}),
        ("RENAME TABLE a TO x; DROP TABLE b", {"a": "one", "b": "two"}, {"b": "two"}),
        ("ALTER TABLE a ADD COLUMN c INT; DROP TABLE b", {"a": "one", "b": "two"}, {"b": "two"}),
        ("DROP TABLE v", {}, {}),
        ("CREATE TABLE n (c INT)", {}, {}),
    ],
)
def test_what_a_statement_knows_of_its_tables_before_it(
    stream: Stream, sql: str, before: dict[str, str], dropped: dict[str, str]
) -> None:
    stream.ddl(10, "CREATE TABLE a (one INT)", "a")
    stream.ddl(11, "CREATE TABLE b (two INT)", "b")
    stream.ddl(12, "CREATE VIEW v (three) AS SELECT 1", "v")
    change = stream.ddl(20, sql, "")
    assert _only_columns(change.known_before) == list(before.items())
    assert _only_columns(change.dropped_tables()) == list(dropped.items())


def _only_columns(schemas: Iterable[TableSchema]) -> list[tuple[str, str]]:
    return [(schema.id.table, ",".join(column.name for column in schema.columns)) for schema in schemas]


def test_late_statements_take_their_place(stream: Stream) -> None:
    stream.ddl(30, "ALTER TABLE t ADD COLUMN c INT AFTER b")
    stream.ddl(40, "RENAME TABLE t TO u")
    stream.ddl(50, "CREATE TABLE v LIKE u")
    stream.ddl(60, "ALTER TABLE v DROP COLUMN a")
    stream.ddl(10, "CREATE TABLE t (a INT)")
    assert stream.columns("t", 31) is None
    change = stream.ddl(20, "ALTER TABLE t ADD COLUMN b INT")
    assert change.after is not None
    assert len(change.after.columns) == 2
    assert [stream.columns("t", at) for at in (11, 21, 31, 41)] == ["a", "a b", "a b c", None]
    assert [stream.columns("u", at) for at in (40, 41)] == [None, "a b c"]
    assert [stream.columns("v", at) for at in (51, 61)] == ["a b c", "b c"]


def test_primary_key_stays_not_null(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT, b INT, PRIMARY KEY (a))")
    change = stream.ddl(20, "ALTER TABLE t MODIFY a BIGINT NULL, ADD COLUMN c INT FIRST")
    assert change.after is not None
    assert [(column.name, column.nullable) for column in change.after.columns] == [
        ("c", True),
        ("a", False),
        ("b", True),
    ]


def test_history_is_bounded(stream: Stream) -> None:
    stream.ddl(0, "CREATE TABLE t (a INT)")
    for number in range(1, HISTORY_LIMIT + 10):
        stream.ddl(number, f"ALTER TABLE t COMMENT '{number}'")
    assert len(stream.catalog.histories["d"]["t"]) == HISTORY_LIMIT
    learned = stream.catalog
    stream.ddl(0, "CREATE TABLE t (a INT)")
    stream.ddl(1, "ALTER TABLE t ADD COLUMN older_than_all INT")
    assert stream.catalog is learned
    assert stream.columns("t", 9999) == "a"


def test_a_catalog_may_keep_more_versions(stream: Stream) -> None:
    stream.catalog = Catalog(limit=10_000)
    stream.ddl(1, "CREATE TABLE t (a INT)")
    for number in range(2, HISTORY_LIMIT + 10):
        stream.ddl(number, f"ALTER TABLE t COMMENT '{number}'")
    assert len(stream.catalog.histories["d"]["t"]) == HISTORY_LIMIT + 9
    assert stream.columns("t", 2) == "a"


def test_a_long_chain_of_renames_is_derived_again(stream: Stream) -> None:
    for number in range(2000):
        stream.ddl(100 + number, f"RENAME TABLE t{number} TO t{number + 1}")
    stream.ddl(50, "CREATE TABLE t0 (a INT)")
    assert stream.columns("t2000", 9999) == "a"


def test_catalog_is_a_value(stream: Stream) -> None:
    stream.ddl(10, "CREATE TABLE t (a INT)")
    old = stream.catalog
    stream.ddl(20, "ALTER TABLE t ADD COLUMN b INT")
    assert len(old.histories["d"]["t"]) == 1
    assert pickle.loads(pickle.dumps(stream.catalog)) == stream.catalog  # noqa: S301 - our own bytes


NAMES = st.sampled_from(["a", "b", "c", "D.a"])
STATEMENTS = st.one_of(
    st.builds("CREATE TABLE {} (x INT)".format, NAMES),
    st.builds("CREATE TABLE {} LIKE {}".format, NAMES, NAMES),
    st.builds("DROP TABLE {}, {}".format, NAMES, NAMES),
    st.builds("RENAME TABLE {} TO {}, {} TO {}".format, NAMES, NAMES, NAMES, NAMES),
    st.builds("ALTER TABLE {} ADD COLUMN y INT, RENAME TO {}".format, NAMES, NAMES),
    st.builds("FLASHBACK TABLE {} TO {}".format, NAMES, NAMES),
    st.just("DROP DATABASE d"),
    st.text(max_size=20),
)
POSITIONS = st.builds(
    Position,
    st.none() | st.integers(0, 9),
    st.integers(0, 9),
    st.just("t"),
    st.integers(0, 2),
    st.integers(0, 9),
)


@given(st.lists(st.tuples(POSITIONS, STATEMENTS), max_size=30))
def test_nothing_raises_in_any_order(statements: list[tuple[Position, str]]) -> None:
    stream = Stream()
    for at, sql in statements:
        stream.ddl(at, sql, "a")
        learned = stream.catalog
        stream.ddl(at, sql, "a")
        assert stream.catalog == learned


@given(
    st.permutations(
        [
            "CREATE TABLE a (x INT)",
            "ALTER TABLE a ADD COLUMN y INT",
            "RENAME TABLE a TO b",
            "ALTER TABLE b DROP COLUMN x",
        ]
    )
)
def test_any_order_of_arrival_gives_the_same_definitions(statements: list[str]) -> None:
    order = sorted(
        statements,
        key=lambda sql: ["CREATE", "ADD", "RENAME", "DROP"].index(
            next(w for w in ("CREATE", "ADD", "RENAME", "DROP") if w in sql)
        ),
    )
    stream = Stream()
    for sql in statements:
        stream.ddl(10 * (1 + order.index(sql)), sql)
    assert [stream.columns("a", at) for at in (11, 21, 31)] == ["x", "x y", None]
    assert [stream.columns("b", at) for at in (31, 41)] == ["x y", "y"]


def test_a_bootstrap_is_a_definition_as_of_its_position(stream: Stream) -> None:
    """TiCDC Simple sends the definition that a table has before its rows, again and again."""
    stream.ddl(10, "CREATE TABLE t (a INT)")
    schema = stream.catalog.table(TableId("d", "t"), ts(11))
    assert schema is not None
    more = msgspec.structs.replace(schema, columns=(*schema.columns, Column("b", ColumnType("int"))))
    known = apply_bootstrap(stream.catalog, Bootstrap(more, SOURCE, 7), ts(20))
    assert known.table(TableId("d", "t"), ts(20)) == schema
    assert known.table(TableId("d", "t"), ts(21)) == more
    assert apply_bootstrap(known, Bootstrap(more, SOURCE, 7), ts(20)) is known


def test_what_has_changed_is_found(stream: Stream) -> None:
    taken = [stream.catalog]
    for number in range(60):
        stream.ddl(10 + number, f"CREATE TABLE t{number % 40} (a INT)", database=f"d{number % 3}")
        taken.append(stream.catalog)
    stream.ddl(100, "RENAME TABLE d0.t0 TO d1.other")
    changed = stream.catalog.changed_since(taken[-1])
    assert sorted(changed) == [TableId("d0", "t0"), TableId("d1", "other")]
    assert stream.catalog.changed_since(stream.catalog) == []
    for earlier in (*taken[::7], pickle.loads(pickle.dumps(taken[30]))):  # noqa: S301 - made here
        for later in taken[::5]:
            names = {
                TableId(database, table)
                for each in (earlier, later)
                for database, tables in each.histories.items()
                for table in tables
            }
            found = later.changed_since(earlier)
            assert len(found) == len(set(found))
            assert set(found) >= {id for id in names if later.newest(id) != earlier.newest(id)}
            if earlier in taken:
                assert set(found) == {id for id in names if later.newest(id)[1] is not earlier.newest(id)[1]}
