"""Definitions from outside of the stream: dumps, what clients print, and their place in the catalog."""

from __future__ import annotations

import gzip
from pathlib import Path
from typing import NamedTuple

import msgspec
import pytest
from cost_support import assert_linear
from support import DATA, record

from relay import Translator
from relay.catalog import Catalog
from relay.catalog.definitions import (
    BEFORE_ALL,
    Definition,
    apply_definition,
    as_of,
    definition_in,
    definition_record,
    is_definition,
    schema_of,
    undefined,
)
from relay.core.selection import chosen_tables
from relay.io.definition_files import Dumped, read_dumps
from relay.io.record_lines import format_record, parse_record
from relay.model.errors import ConfigError, DdlNotUnderstood, Malformed
from relay.model.events import Default, Position, TableId, TableSchema
from relay.model.limits import DEFAULT_LIMITS
from relay.mysql.dumps import DumpStatement, statements
from relay.mysql.show_create import shown_statements

DUMPS = DATA / "dumps/mariadb-10.11"
ORDERS = TableId("shop", "orders")
ROW = '{"id":0,"database":"shop","table":"orders","pkNames":["id"],"isDdl":false,"type":"INSERT","es":%d,"ts":%d,'
ROW += '"sql":"","sqlType":{"id":4,"state":4},"mysqlType":{"id":"int","state":"enum"},"old":null,'
ROW += '"data":[{"id":"1","state":"2"}]}'


def read(*files: Path, database: str | None = None, commit_ts: int = BEFORE_ALL) -> Dumped:
    names = [str(file) for file in files]
    return read_dumps(names, commit_ts, database, option="--sql", database_option="--database")


def defined(dumped: Dumped) -> dict[str, TableSchema | None]:
    return {str(each.table): schema_of(each, DEFAULT_LIMITS) for each in dumped.definitions}


def of_text(tmp_path: Path, text: str, name: str = "dump.sql", database: str | None = "d") -> Dumped:
    file = tmp_path / name
    file.write_text(text)
    return read(file, database=database)


def shape(schema: TableSchema | None) -> tuple[list[str], tuple[str, ...] | None]:
    assert schema is not None
    return [column.name for column in schema.columns], schema.primary_key


@pytest.mark.parametrize("file", sorted(DUMPS.iterdir()), ids=lambda file: file.name)
def test_what_mariadbs_own_programs_print_is_read(file: Path) -> None:
    dumped = read(file, database="shop")
    assert dumped.problems == []
    found = defined(dumped)
    # Neither the view, nor the table that a procedure would make, nor what stands in comments and rows.
    assert list(found) == ["shop.odd`name", "shop.orders"]
    orders = found["shop.orders"]
    assert shape(orders) == (["id", "price", "state", "at", "total"], ("id",))
    assert orders is not None
    assert (orders.columns[1].default, orders.comment) == (Default("1.50"), "; DROP TABLE x;")
    assert orders.columns[2].type.members == ("a", "it's", "b\\c")
    assert orders.columns[2].comment == "x;'y -- z"


@pytest.mark.parametrize("file", ["dump.sql", "databases.sql"])
def test_a_dump_names_its_own_database(file: str) -> None:
    assert list(defined(read(DUMPS / file))) == ["shop.odd`name", "shop.orders"]


def test_use_counts_more_than_a_default_database() -> None:
    assert {each.table.database for each in read(DUMPS / "databases.sql", database="x").definitions} == {
        "shop"
    }
    assert {each.table.database for each in read(DUMPS / "dump.sql", database="x").definitions} == {"x"}


def test_a_table_without_a_database_is_a_problem(tmp_path: Path) -> None:
    dumped = of_text(tmp_path, "\nCREATE TABLE t (id int);", database=None)
    assert dumped.definitions == []
    assert dumped.problems == [
        f"{tmp_path}/dump.sql line 2: table t has no database: name its database, by USE or with --database"
    ]


def test_a_folder_of_a_table_a_file(tmp_path: Path) -> None:
    """As mydumper and Dumpling write it: the name has the database, rows are in other files."""
    files = {
        "shop-schema-create.sql": "CREATE DATABASE `shop`;",
        "shop.orders-schema.sql": "/*!40101 SET NAMES binary*/;\nCREATE TABLE `orders` (`id` int PRIMARY KEY);\n",
        "shop.v-schema.sql": "CREATE TABLE `v` (`a` int);",
        "shop.v-schema-view.sql": "DROP TABLE IF EXISTS `v`;\nDROP VIEW IF EXISTS `v`;\nCREATE VIEW `v` AS SELECT 1 AS `a`;",
        "shop.orders.000000000.sql": "INSERT INTO `orders` VALUES (1);\nCREATE TABLE never (id int);",
        "a%2Eb.t-schema.sql": "CREATE TABLE `t` (`x` bigint /*T![auto_rand] AUTO_RANDOM(5) */ NOT NULL,"
        " PRIMARY KEY (`x`) /*T![clustered_index] CLUSTERED */) /*T! SHARD_ROW_ID_BITS=4 */;",
        "metadata": "Started dump at: 2026-08-01 12:00:00",
    }
    for name, text in files.items():
        (tmp_path / name).write_text(text)
    (tmp_path / "shop.zipped-schema.sql.gz").write_bytes(gzip.compress(b"CREATE TABLE `zipped` (`id` int);"))
    dumped = read(tmp_path)
    assert dumped.problems == []
    assert list(defined(dumped)) == ["a.b.t", "shop.orders", "shop.zipped"]
    assert shape(defined(dumped)["a.b.t"]) == (["x"], ("x",))


def test_statements_that_build_on_each_other(tmp_path: Path) -> None:
    dumped = of_text(
        tmp_path,
        "CREATE TABLE t (id int, old int); DROP TABLE IF EXISTS t; CREATE TABLE t (id int);"
        "CREATE TABLE IF NOT EXISTS t (other int);"
        "ALTER TABLE t ADD PRIMARY KEY (id), ADD COLUMN name text;"
        "CREATE TABLE copy LIKE t; RENAME TABLE copy TO other.moved; ALTER TABLE t RENAME TO u;"
        "USE gone; CREATE TABLE x (id int); DROP DATABASE gone;",
    )
    assert dumped.problems == []
    found = defined(dumped)
    assert list(found) == ["d.u", "other.moved"]
    assert shape(found["d.u"]) == shape(found["other.moved"]) == (["id", "name"], ("id",))


def test_of_several_new_names_in_one_statement_the_last_counts(tmp_path: Path) -> None:
    dumped = of_text(tmp_path, "CREATE TABLE a (x INT); ALTER TABLE a RENAME TO b, RENAME TO c;")
    assert not dumped.problems
    assert [str(each.table) for each in dumped.definitions] == ["d.c"]
    assert shape(defined(dumped)["d.c"]) == (["x"], ())


@pytest.mark.parametrize(
    "sql", ["ALTER TABLE a MODIFY x", "alter table d.A something new", "RENAME TABLE a b"]
)
def test_a_statement_that_is_not_understood_leaves_no_stale_definition(tmp_path: Path, sql: str) -> None:
    dumped = of_text(tmp_path, f"CREATE TABLE a (x INT); CREATE TABLE b (x INT); {sql};")
    assert "d.a" not in defined(dumped)
    assert any("not understood" in problem for problem in dumped.problems)


def test_outputs_without_semicolons_are_taken_apart(tmp_path: Path) -> None:
    text = (
        "CREATE TABLE `a` (\n  `id` int\n) COMMENT='\nCREATE TABLE x'\n\nCREATE TABLE `b` (\n  `id` int\n)\n"
    )
    assert list(defined(of_text(tmp_path, text))) == ["d.a", "d.b"]


def test_statements_that_are_not_understood_are_reported_and_the_rest_is_read(tmp_path: Path) -> None:
    dumped = of_text(
        tmp_path,
        "CREATE TABLE a (id int,;\nCREATE TABLE b AS SELECT 1;\nCREATE USER u; CREATE TABLE c (id int);\n"
        "/*!40000 ALTER TABLE `c` DISABLE KEYS */;",
    )
    assert list(defined(dumped)) == ["d.c"]
    assert [problem.removeprefix(f"{tmp_path}/dump.sql ") for problem in dumped.problems] == [
        "line 1: not understood: a name is missing",
        "line 2: the columns of d.b come from a query",
    ]


@pytest.mark.parametrize(
    ("name", "text", "said"),
    [
        ("dump.sql", "SELECT 1;\nCREATE TABLE t (a text DEFAULT 'x", "line 2: a string, a quoted name"),
        ("dump.sql", "/* no end", "an unterminated comment"),
        ("dump.sql.gz", "no gzip", "Not a gzipped file"),
        ("dump.sql.zst", "", "zstd"),
    ],
)
def test_a_file_that_cannot_be_read_is_refused(tmp_path: Path, name: str, text: str, said: str) -> None:
    with pytest.raises(ConfigError) as error:
        of_text(tmp_path, text, name)
    assert said in str(error.value)
    assert "--sql" in str(error.value)


def test_text_of_windows_is_read_or_refused(tmp_path: Path) -> None:
    file = tmp_path / "dump.sql"
    text = "USE d;\r\nCREATE TABLE t (\r\n  id int\r\n);\r\n"
    file.write_bytes(text.encode("utf-8-sig"))
    assert list(defined(read(file))) == ["d.t"]
    file.write_bytes(text.encode("utf-16"))
    with pytest.raises(ConfigError, match="UTF-16"):
        read(file)


def test_a_dump_that_defines_nothing_is_reported(tmp_path: Path) -> None:
    dumped = of_text(tmp_path, "INSERT INTO t VALUES (1);")
    assert dumped.problems == [f"no statement defines a table in {tmp_path}/dump.sql"]


def test_a_folder_without_dumps_is_refused(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"has no \.sql"):
        read(tmp_path)


SQL = rb"""-- a heading; with a semicolon
/*M!999999\- enable the sandbox mode */
/*!40101 SET NAMES utf8mb4 */;
CREATE TABLE `a;b` (
  `x` int COMMENT 'it''s; \'y\' "-- no', -- comment; here
  `y` int # also; here
) COMMENT="x;/*";
INSERT INTO t VALUES ('a;b\\'),('--;'),(-1);
DELIMITER $$
CREATE TRIGGER t BEFORE INSERT ON t FOR EACH ROW BEGIN SET @a = 1; SET @b = '$'; END $$
DELIMITER //
CREATE PROCEDURE p() BEGIN SELECT 4 / 2 - 1; END//
DELIMITER ;
-- CREATE TABLE commented (c int);
USE `db`; drop view v --"""


@pytest.mark.parametrize("size", [1, 2, 3, 7, 50, 1000])
def test_a_dump_is_split_the_same_in_any_chunks(size: int) -> None:
    chunks = [SQL[at : at + size] for at in range(0, len(SQL), size)]
    found = list(statements(chunks, 1000))
    assert [(each.text.split()[0], each.line) for each in found] == [
        ("CREATE", 4),
        ("CREATE", 10),
        ("CREATE", 12),
        ("USE", 15),
        ("drop", 15),
    ]
    assert found[0].text.endswith('COMMENT="x;/*"')
    assert found[1].text.endswith("SET @b = '$'; END")
    assert found[2].text.endswith("SELECT 4 / 2 - 1; END")


def test_comments_between_statements_may_be_many_and_must_end() -> None:
    comment = b"/* " + b"x" * 5_000 + b" */\n"
    chunks = [comment * 1_000, b"USE d;"]
    parts = [chunk[at : at + 4096] for chunk in chunks for at in range(0, len(chunk), 4096)]
    assert [each.text for each in statements(parts, 1000)] == ["USE d"]
    with pytest.raises(DdlNotUnderstood, match="an unterminated comment"):
        list(statements([b"/*/ x"], 1000))


@pytest.mark.parametrize(
    ("begin", "end"),
    [(b"-- ", b"\n"), (b"#", b"\n"), (b"INSERT -- ", b"\n;"), (b"INSERT '", b"';"), (b"INSERT /* ", b"*/;")],
)
def test_what_is_stepped_over_costs_as_much_as_it_is_long(begin: bytes, end: bytes) -> None:
    def split(times: int) -> None:
        chunks = [begin, *[b"x" * 65_536] * (16 * times), end, b"USE d;"]
        assert [each.text for each in statements(chunks, 1000)] == ["USE d"]

    assert_linear(split)


def test_comments_may_be_many_before_and_within_a_statement() -> None:
    many = b"/*x*/ \n" * 3_000
    found = list(statements([many + b";" + many + b"/*! " + many + b" USE " + many + b" d */;"], 100_000))
    assert [(each.text.split()[-1], each.text.count("x")) for each in found] == [("*/", 6_000)]


def test_a_line_comment_within_an_executable_one_does_not_reach_the_next_statement() -> None:
    found = statements([b"/*!40101 -- SET NAMES utf8 */;\nCREATE TABLE t (a int);"], 1000)
    assert [each.text for each in found] == ["CREATE TABLE t (a int)"]


@pytest.mark.parametrize(
    "statement",
    [b"/*!50003 # a */;\n", b"/*!-- a*/;", b"/*T![ */;", b"/*!/**/*/;", b"/* a*b */;", b"USE d;", b"-- a\n"],
)
def test_many_small_statements_cost_as_much_as_they_are_many(statement: bytes) -> None:
    assert_linear(lambda times: list(statements([statement * 4_000 * times], 1000)))


@pytest.mark.parametrize("cut", range(4))
def test_a_line_comment_within_a_statement_may_be_cut_anywhere(cut: int) -> None:
    text, comment = b"insert " + b"x" * 5_000, b"-- it's\n; create table t (a int);"
    found = list(statements([text + comment[:cut], comment[cut:]], 1000))
    assert [each.text for each in found] == ["create table t (a int)"]


def test_a_comment_of_many_chunks_does_not_swallow_what_follows() -> None:
    chunks = [b"-- ", *[b"x" * 65_536] * 3, b"\nUSE d;"]
    assert [each.text for each in statements(chunks, 1000)] == ["USE d"]


@pytest.mark.parametrize(
    ("text", "statement"),
    [
        ("t\tCREATE TABLE `t` (a int)", "CREATE TABLE `t` (a int)"),
        ("+---+---+\n| t | CREATE TABLE `t` (a int) |", "CREATE TABLE `t` (a int)"),
    ],
)
@pytest.mark.parametrize("blank", [" ", "\n"])
def test_blanks_in_what_clients_print_cost_as_much_as_they_are_many(
    text: str, statement: str, blank: str
) -> None:
    def find(times: int) -> None:
        shown_statements(text.removesuffix("|") + blank * 20_000 * times + "x")

    assert_linear(find)
    assert shown_statements(text + "\n" * 9) == [DumpStatement(statement, text.count("\n") + 1)]


def test_rows_are_stepped_over_and_a_statement_has_a_limit() -> None:
    rows = b"INSERT INTO t VALUES ('" + b"x" * 10_000 + b"');"
    assert list(statements([rows, b"USE d;"], 100)) == [DumpStatement("USE d", 1)]
    with pytest.raises(DdlNotUnderstood, match="line 1: a statement of more than 100 bytes"):
        list(statements([rows.replace(b"INSERT INTO", b"CREATE TABLE")], 100))


class Case(NamedTuple):
    text: str
    commit_ts: int


@pytest.mark.parametrize(
    "case",
    [
        Case("start", 0),
        Case("470737158693978112", 470737158693978112),
        Case("1970-01-01T00:00:01Z", 1000 << 18),
        Case("1970-01-01T02:00:01.5+02:00", 1500 << 18),
    ],
)
def test_moments(case: Case) -> None:
    assert as_of(case.text) == case.commit_ts


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("1754000000", "not a commit ts"),
        ("2026-08-01T12:00:00", "without a zone"),
        ("yesterday", "neither"),
        ("1960-01-01T00:00:00Z", "before 1970"),
        (str(1 << 63), "not a commit ts"),
    ],
)
def test_moments_that_are_none(text: str, said: str) -> None:
    with pytest.raises(ValueError, match=said):
        as_of(text)


def definition(columns: str = "id int primary key, state enum('x','y')", commit_ts: int = 0) -> Definition:
    return Definition(ORDERS, (("shop", f"CREATE TABLE orders ({columns})"),), commit_ts)


def at(commit_ts: int | None, time_ns: int = 0) -> Position:
    return Position(commit_ts, time_ns, "in", 0, 0)


def test_a_definition_without_a_moment_stands_before_everything() -> None:
    catalog = apply_definition(Catalog(), definition())
    for position in (at(1), at(None), at(None, -5)):
        assert shape(catalog.table(ORDERS, position))[0] == ["id", "state"]


def test_a_definition_holds_from_its_moment_on() -> None:
    moment = 1000 << 18
    catalog = apply_definition(Catalog(), definition(commit_ts=moment))
    assert catalog.table(ORDERS, at(moment)) is None
    assert catalog.table(ORDERS, at(moment + 1)) is not None
    assert catalog.table(ORDERS, at(None, 1_000_000_000)) is None
    assert catalog.table(ORDERS, at(None, 1_000_000_001)) is not None


def test_ddl_of_the_stream_builds_on_a_definition_whichever_comes_first() -> None:
    ddl = ROW.replace('"isDdl":false', '"isDdl":true').replace('"INSERT"', '"ALTER"') % (5, 5)
    ddl = ddl.replace('"sql":""', '"sql":"ALTER TABLE orders ADD COLUMN n int"')
    found = []
    for kept_first in (True, False):
        translator = Translator("canal-json", "canal-json")
        both = [definition_record(definition()), record(ddl)]
        for each in both if kept_first else reversed(both):
            translator.learn(each)
        found.append(shape(translator.catalog.newest(ORDERS)[1]))
    assert found == [(["id", "state", "n"], ("id",))] * 2


def test_rows_are_read_with_an_imported_definition() -> None:
    row = record(ROW % (7, 7))
    unknown = Translator("canal-json", "canal-json")
    unknown.translate(row)
    assert unknown.inferred_tables
    known = Translator("canal-json", "canal-json")
    assert known.learn(definition_record(definition())) == (ORDERS,)
    (event,) = known.inspect(row)
    assert not known.inferred_tables
    assert msgspec.structs.asdict(event)["schema"].columns[1].type.members == ("x", "y")


def test_the_record_of_a_definition_is_one_of_no_topic_and_survives_a_file() -> None:
    kept = definition_record(definition(commit_ts=7 << 18))
    assert is_definition(kept)
    assert " " in kept.topic  # which no name of a topic has
    again = parse_record(format_record(kept, kept.offset))
    assert definition_in(again) == definition(commit_ts=7 << 18)
    other = definition_record(definition())
    assert (other.topic, other.offset) == (kept.topic, 0)


def test_the_form_in_which_a_history_keeps_a_definition() -> None:
    """What is in topics today must be read tomorrow. A change of these bytes is a change of the format."""
    kept = definition_record(definition("id int", 7 << 18))
    assert kept.topic == "definition of `shop`.`orders`"
    assert kept.value == (
        b'{"table":{"database":"shop","table":"orders"},'
        b'"statements":[["shop","CREATE TABLE orders (id int)"]],"commit_ts":1835008}'
    )


def test_a_record_that_holds_no_definition_is_refused() -> None:
    broken = msgspec.structs.replace(definition_record(definition()), value=b'{"table": 1}')
    with pytest.raises(Malformed):
        Translator("canal-json", "canal-json").learn(broken)


def test_tables_that_are_chosen_by_name_and_not_known() -> None:
    catalog = apply_definition(Catalog(), definition())
    chosen = chosen_tables(["shop.orders", "shop.o*", "shop.items", "crm.*"], [])
    assert undefined(catalog, chosen) == ["shop.items", "crm.*"]
    assert undefined(catalog, None) == []
