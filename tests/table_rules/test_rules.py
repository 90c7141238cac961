"""Table rules: what they match, what they refuse, and two tables with one name."""

from __future__ import annotations

import pickle

import pytest
from support import TICDC
from table_rules_support import row, rule, statement

from relay import (
    ConfigError,
    EncodeError,
    Loss,
    Selection,
    TableFilter,
    TableGlob,
    TableId,
    TableRule,
    Translator,
)
from relay.rules.tables import parse_rule, parse_rules

CREATE = "CREATE TABLE `{}` (`id` int PRIMARY KEY, `c` int)"


def target_of(source: str, target: str, database: str, table: str) -> str | None:
    (parsed,) = parse_rules([rule(source, target)])
    found = parsed.target_of(TableId(database, table))
    return None if found is None else str(found)


@pytest.mark.parametrize(
    ("source", "target", "table", "expected"),
    [
        (r"shop\.orders", "archive.orders", "shop.orders", "archive.orders"),
        ("shop.orders", "archive.orders", "shop.orders", "archive.orders"),
        ("^shop.orders$", "archive.orders", "shop.orders", "archive.orders"),
        ("shop.orders", "archive.orders", "shop.orders_2", None),
        ("shop.orders", "archive.orders", "shop2.orders", None),
        ("shop.orders", "archive.orders", "Shop.orders", None),
        (r"shop_(\d+)\.orders", "shop.orders", "shop_17.orders", "shop.orders"),
        (r"shop_(\d+)\.orders", "shop.orders_{1}", "shop_17.orders", "shop.orders_17"),
        (r"shop_(\d+)\.orders", "shop.orders", "shop_x.orders", None),
        (r"(.*)_(\w+)\.(.*)", "{1}.{3}_{2}", "shop_eu.orders", "shop.orders_eu"),
        (r"shop\.(?P<kind>orders|lines)_\d{2}", "{database}.{kind}", "shop.lines_07", "shop.lines"),
        (r"shop\.(orders|lines)", "archive.{table}", "shop.items", None),
        (r"[a-c.]+\.t", "x.{table}", "a.b.t", None),  # the database is `a`
        (r"d\.(a)?(b)", "d.{1}_{2}", "d.b", "d._b"),
        (r".*\.orders", "all.{database}_orders", "shop.orders", "all.shop_orders"),
        (r"d\.t\$x", "d.y", "d.t$x", "d.y"),
    ],
)
def test_the_whole_name_must_match(source: str, target: str, table: str, expected: str | None) -> None:
    database, _, name = table.partition(".")
    assert target_of(source, target, database, name) == expected


def test_dots_within_names_are_of_their_name() -> None:
    assert target_of(r"a[.]b\.(.*)", "x.{1}", "a.b", "t.u") == "x.t.u"
    assert target_of(r"a\..*", "x.{table}", "a.b", "t") is None


def test_names_of_any_length_take_no_time() -> None:
    assert target_of(r"(\w*)a(\w*)b\.(\w*)c(\w*)", "x.y", "a" * 10_000, "a" * 10_000) is None
    assert target_of(r"(\w*)a(\w*)b\.(\w*)c(\w*)", "x.y", "a" * 64, "a" * 64) is None


@pytest.mark.parametrize(
    ("source", "target", "path", "text"),
    [
        ("orders", "a.b", "from", "is not of the form"),
        ("shop.*", "a.b", "from", "is not of the form"),
        (r"shop\.", "a.b", "from", "is not of the form"),
        (r"(shop\.orders)", "a.b", "from", "is not of the form"),
        (r"a\.b|c\.d", "a.b", "from", "alternatives"),
        (r"a\.(b+)+", "a.b", "from", "repeats a group"),
        (r"a\.b**", "a.b", "from", "repeats"),
        (r"*\.b", "a.b", "from", "repeats nothing"),
        (r"(.*)(.*)(.*)\.(.*)(.*)", "a.b", "from", "more than 4 repetitions"),
        (r"(a)\.\1", "a.b", "from", "escaped letters"),
        (r"a\.(?=b)b", "a.b", "from", "neither lookaheads nor flags"),
        (r"a\.(b", "a.b", "from", "regular expression"),
        (r"a\.b)", "a.b", "from", "regular expression"),
        (r"a\.[b", "a.b", "from", "at character 4"),
        (r"a\.[[:alpha:]]", "a.b", "from", "in another way"),
        (r"a\.[a-z&&[^b]]", "a.b", "from", "in another way"),
        ("a\\.b\0", "a.b", "from", "NUL"),
        (r"a\.b", "b", "to", "is not of the form"),
        (r"a\.b", ".b", "to", "is not of the form"),
        (r"a\.(b)", "c.{2}", "to", "unknown placeholder"),
        (r"a\.b", "c.{name}", "to", "unknown placeholder"),
        (r"a\.b", "c.{table", "to", "brace"),
        (r"a\.b", "c." + "x" * 65, "to", "64 characters"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(source: str, target: str, path: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        Translator(TICDC, "canal-json", tables=[rule("x.y", "x.z"), rule(source, target)])
    (problem,) = caught.value.problems
    assert problem.path == f"tables.1.{path}"
    assert text in problem.message


def test_a_rule_on_one_line() -> None:
    assert parse_rule(r" shop_(\d+)\.t -> shop.t ") == TableRule(source=r"shop_(\d+)\.t", target="shop.t")
    for text in ("", "a.b", "a.b ->", "-> a.b"):
        with pytest.raises(ValueError, match="is not a rule"):
            parse_rule(text)


def test_the_first_rule_that_matches_applies() -> None:
    rules = [rule("shop.orders", "a.first"), rule(r"shop\.(.*)", "a.{1}")]
    translator = Translator("canal-json", "canal-json", tables=rules)
    values = [translator.translate(row(name, at))[0].value for at, name in enumerate(("orders", "lines"))]
    assert b'"database":"a"' in (values[0] or b"")
    assert b'"table":"first"' in (values[0] or b"")
    assert b'"table":"lines"' in (values[1] or b"")


def test_names_that_mysql_does_not_allow_are_refused() -> None:
    translator = Translator("canal-json", "canal-json", tables=[rule(r"shop\.(.*)", "a.{1}_{1}")])
    with pytest.raises(EncodeError, match="1 to 64 characters"):
        translator.translate(row("t" * 40))


# ---------------------------------------------------------------- conflicts

SHARDS = [rule(r"shop_(\d+)\.orders", "shop.orders")]


@pytest.mark.parametrize("has_definitions", [True, False])
def test_a_second_table_with_the_same_name_is_refused(has_definitions: bool) -> None:
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    if has_definitions:
        translator.translate(statement(CREATE.format("orders"), database="shop_1"))
    assert translator.translate(row("orders", 1, "shop_1"))
    second = row("orders", 2, "shop_2")
    for _ in range(2):
        with pytest.raises(
            EncodeError, match=r"table shop_2\.orders would have the name shop\.orders, which is that"
        ):
            translator.translate(second)
    assert translator.translate(row("orders", 3, "shop_1"))


def test_a_table_without_a_rule_keeps_its_name() -> None:
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    assert translator.translate(row("orders", 1, "shop"))
    with pytest.raises(EncodeError, match=r"which is that of table shop\.orders"):
        translator.translate(row("orders", 2, "shop_2"))


def test_statements_about_the_name_of_another_table_are_refused() -> None:
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    translator.translate(statement(CREATE.format("orders"), database="shop_1"))
    for at, sql in enumerate(("DROP TABLE orders", "TRUNCATE orders", CREATE.format("orders")), 1):
        with pytest.raises(EncodeError, match=r"shop_1\.orders"):
            translator.translate(statement(sql, at=at, database="shop_2"))


def test_the_name_of_a_dropped_or_renamed_table_is_free() -> None:
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    translator.translate(statement(CREATE.format("orders"), database="shop_1"))
    translator.translate(statement("DROP TABLE orders", at=1, database="shop_1"))
    assert translator.translate(statement(CREATE.format("orders"), at=2, database="shop_2"))
    translator.translate(statement("RENAME TABLE orders TO old", "old", at=3, database="shop_2"))
    assert translator.translate(statement(CREATE.format("orders"), at=4, database="shop_3"))
    translator.translate(statement("DROP DATABASE shop_3", "", at=5, database="shop_3"))
    assert translator.translate(row("orders", 6, "shop_1"))


@pytest.mark.parametrize(
    ("source", "target", "moved", "dropped", "later"),
    [
        (r"crm\..*", "customers.{table}", "customers", "crm", 1),
        # The rule may move more tables there.
        (r"crm\..*", "customers.{table}", "crm", "customers", 0),
        (r"tenant_(\w+)\.(.*)", "{1}.{2}", "tenant_sales", "sales", 1),
    ],
)
def test_no_database_with_tables_of_others_is_dropped(
    source: str, target: str, moved: str, dropped: str, later: int
) -> None:
    translator = Translator("canal-json", "canal-json", tables=[TableRule(source=source, target=target)])
    translator.translate(statement(CREATE.format("orders"), database=moved))
    drop = statement(f"DROP DATABASE {dropped}", "", at=1, database=dropped)
    assert translator.translate(drop) == []
    assert translator.losses[Loss.DDL_NOT_REWRITTEN] == 1
    translator.translate(statement("DROP TABLE orders", at=2, database=moved))
    assert len(translator.translate(drop)) == later


def test_tasks_with_the_catalog_alone_drop_no_database_with_tables_of_others() -> None:
    rules = [rule(r"tenant_(\w+)\.(.*)", "{1}.{2}")]
    reader = Translator("canal-json", "canal-json", tables=rules)
    reader.learn(statement(CREATE.format("orders"), database="tenant_sales"))
    task = Translator("canal-json", "canal-json", tables=rules)
    task.catalog = reader.catalog
    assert task.translate(statement("DROP DATABASE sales", "", at=1, database="sales")) == []
    assert task.losses[Loss.DDL_NOT_REWRITTEN] == 1


def test_tables_that_are_not_selected_have_no_name() -> None:
    tables = TableFilter(exclude=(TableGlob.parse("shop_1.*"),))
    translator = Translator("canal-json", "canal-json", tables=SHARDS, selection=Selection(tables=tables))
    translator.translate(statement(CREATE.format("orders"), database="shop_1"))
    assert translator.translate(row("orders", 1, "shop_1")) == []
    assert translator.translate(row("orders", 2, "shop_2"))
    assert translator.name_conflicts == []


def test_tables_of_a_schema_history_have_their_names() -> None:
    history = [statement(CREATE.format("orders"), at=at, database=f"shop_{at}") for at in range(1, 3)]
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    translator.learn(history[0])
    assert translator.name_conflicts == []
    with pytest.raises(EncodeError, match=r"shop_1\.orders"):
        translator.translate(row("orders", 5, "shop_2"))
    translator.learn(history[1])
    expected = [(TableId("shop", "orders"), [TableId("shop_1", "orders"), TableId("shop_2", "orders")])]
    assert translator.name_conflicts == expected
    assert translator.translate(row("orders", 6, "shop_1"))
    again = Translator("canal-json", "canal-json", tables=SHARDS)
    again.catalog = pickle.loads(pickle.dumps(translator.catalog))  # noqa: S301 - as Spark's workers get it
    assert again.name_conflicts == expected


@pytest.mark.parametrize(
    ("sql", "table"),
    [("DROP TABLE orders", ""), ("RENAME TABLE orders TO o", "o"), ("DROP DATABASE shop_1", "")],
)
def test_a_schema_history_frees_names_like_the_stream(sql: str, table: str) -> None:
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    translator.learn(statement(CREATE.format("orders"), database="shop_1"))
    translator.learn(statement(sql, table, at=1, database="shop_1"))
    assert translator.translate(row("orders", 5, "shop_2"))


def test_names_between_two_renames_are_free_afterwards() -> None:
    rules = [rule(r"shop\.(tmp|other)", "shop.one")]
    translator = Translator("canal-json", "canal-json", tables=rules)
    for at, table in enumerate(("a", "b")):
        translator.translate(statement(CREATE.format(table), table, at))
    swap = "RENAME TABLE a TO tmp, b TO a, tmp TO b"
    assert translator.translate(statement(swap, "tmp", at=3))
    assert translator.translate(row("other", 4, "shop"))
    with pytest.raises(EncodeError, match=r"shop\.other"):
        translator.translate(statement(swap, "tmp", at=5))


def test_a_learned_swap_leaves_the_name_to_the_remaining_table() -> None:
    translator = Translator("canal-json", "canal-json", tables=[rule(r"shop\.(tmp|a)", "shop.one")])
    for at, table in enumerate(("a", "b")):
        translator.learn(statement(CREATE.format(table), table, at))
    translator.learn(statement("RENAME TABLE a TO tmp, b TO a, tmp TO b", "tmp", at=3))
    with pytest.raises(EncodeError, match=r"which is that of table shop\.a"):
        translator.translate(row("tmp", 4, "shop"))


def test_statements_are_repeated_after_a_restored_state() -> None:
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    translator.translate(statement(CREATE.format("orders"), database="shop_1"))
    before = translator.state
    for _ in range(2):
        for at, database in enumerate(("shop_2", "shop_3"), 1):
            dropped = f"shop_{at}"
            assert translator.translate(statement("DROP TABLE orders", at=2 * at, database=dropped))
            create = statement(CREATE.format("orders"), at=2 * at + 1, database=database)
            assert translator.translate(create)
        translator.restore(before)


def test_names_stay_taken_after_a_restored_state_but_not_after_starting_over() -> None:
    translator = Translator("canal-json", "canal-json", tables=SHARDS)
    before = translator.state
    translator.translate(row("orders", 1, "shop_1"))
    translator.restore(before)
    with pytest.raises(EncodeError):
        translator.translate(row("orders", 2, "shop_2"))
    translator.start_over()
    assert translator.translate(row("orders", 2, "shop_2"))


@pytest.mark.parametrize(
    ("source", "table"),
    [(r"^shop\.orders$", "orders"), (r"shop\.orders\$", "orders$"), (r"^shop\.orders\$$", "orders$")],
)
def test_anchors_have_no_effect_and_dollars_are_characters(source: str, table: str) -> None:
    (parsed,) = parse_rules([TableRule(source=source, target="shop.found")])
    assert parsed.target_of(TableId("shop", table)) == TableId("shop", "found")
    assert parsed.target_of(TableId("shop", "orders2")) is None
