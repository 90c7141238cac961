"""Shards that are merged into one table: which statements and rows are written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from support import TICDC
from table_rules_support import row, rule, statement

from relay import (
    CodecError,
    ConfigError,
    ConsumerRecord,
    EncodeError,
    Loss,
    MergedDdl,
    NotRepresentable,
    ProducerRecord,
    TableId,
    TableRule,
    Translator,
)
from relay.rules.tables import parse_rule, parse_rules

CREATE = "CREATE TABLE {} (`id` int PRIMARY KEY, `c` int)"
ADD_X, ADD_Y, DROP_X = "ALTER TABLE {} ADD x int", "ALTER TABLE {} ADD y int", "ALTER TABLE {} DROP x"
DROP, TRUNCATE = "DROP TABLE {}", "TRUNCATE TABLE {}"
BOTH = [MergedDdl.ALL, MergedDdl.FIRST]


def merging(ddl: MergedDdl = MergedDdl.ALL, *added: tuple[str, str]) -> TableRule:
    """A rule that merges shop.orders_0, shop.orders_1 … into shop.orders."""
    return TableRule(source=r"shop\.orders_(\d+)", target="shop.orders", merge=True, ddl=ddl, add=added)


def statements(*given: tuple[int, str]) -> list[ConsumerRecord]:
    """Statements about shards, by number."""
    return [
        statement(text.format(f"orders_{shard}"), f"orders_{shard}", at)
        for at, (shard, text) in enumerate(given)
    ]


def translated(translator: Translator, each: ConsumerRecord) -> list[ProducerRecord] | str:
    """The messages for a record or, after learning it, the code of its error."""
    try:
        return translator.translate(each)
    except CodecError as error:
        translator.learn(each)
        return error.code


def written(*given: tuple[int, str], ddl: MergedDdl = MergedDdl.ALL, **more: Any) -> str:
    """The statements that are written (their text), not written (`-`) or refused (`!`)."""
    translator = Translator("canal-json", "canal-json", tables=[merging(ddl)], **more)
    return outline([translated(translator, each) for each in statements(*given)])


def outline(found: list[list[ProducerRecord] | str]) -> str:
    """Results of statements as text."""
    texts = []
    for each in found:
        if isinstance(each, str):
            texts.append("!")
            continue
        sql = [json.loads(out.value or b"null")["sql"] for out in each]
        texts.append(" ".join(sql[0].replace("`", "").split()[3:6]) if sql else "-")
    return ", ".join(texts)


# ---------------------------------------------------------------- statements of all shards


@pytest.mark.parametrize(
    ("given", "of_all", "of_first"),
    [
        (
            [(0, CREATE), (1, CREATE), (0, ADD_X), (1, ADD_X)],
            "(id int PRIMARY, -, -, ADD x int",
            "(id int PRIMARY, -, ADD x int, -",
        ),
        # One shard is two statements ahead.
        (
            [(0, CREATE), (1, CREATE), (0, ADD_X), (0, ADD_Y), (1, ADD_X), (1, ADD_Y)],
            "(id int PRIMARY, -, -, -, ADD x int, ADD y int",
            "(id int PRIMARY, -, ADD x int, ADD y int, -, -",
        ),
        # The table has the same definition again.
        (
            [(0, CREATE), (1, CREATE), (0, ADD_X), (0, DROP_X), (1, ADD_X), (0, ADD_X), (1, DROP_X), (1, ADD_X)],
            "(id int PRIMARY, -, -, -, ADD x int, -, DROP x, ADD x int",
            "(id int PRIMARY, -, ADD x int, DROP x, -, ADD x int, -, -",
        ),
        # A shard is created later: with the present definition, or with an earlier one.
        (
            [(0, CREATE), (0, ADD_X), (1, CREATE.replace("`c` int", "`c` int, x int")), (1, ADD_Y), (0, ADD_Y)],
            "(id int PRIMARY, ADD x int, -, -, ADD y int",
            "(id int PRIMARY, ADD x int, -, ADD y int, -",
        ),
        (
            [(0, CREATE), (0, ADD_X), (1, CREATE), (1, ADD_X), (1, ADD_Y)],
            "(id int PRIMARY, ADD x int, -, -, -",
            "(id int PRIMARY, ADD x int, -, -, ADD y int",
        ),
        # A new shard has a column before the others do.
        (
            [(0, CREATE), (1, CREATE), (2, CREATE.replace("`c` int", "`c` int, x int")), (0, ADD_X), (1, ADD_X), (2, ADD_Y)],
            "(id int PRIMARY, -, !, -, ADD x int, -",
            "(id int PRIMARY, -, !, ADD x int, -, ADD y int",
        ),
        # A statement is undone in one shard; the others go on.
        (
            [(0, CREATE), (1, CREATE), (2, CREATE), (0, ADD_X), (0, DROP_X), (1, ADD_Y), (0, ADD_Y), (2, ADD_Y)],
            "(id int PRIMARY, -, -, -, -, -, -, ADD y int",
            "(id int PRIMARY, -, -, ADD x int, DROP x, ADD y int, -, -",
        ),
        # A shard has two statements at once: written only if the merged table has neither.
        (
            [(0, CREATE), (1, CREATE), (0, ADD_X), (0, ADD_Y), (1, f"{ADD_X}, ADD y int")],
            "(id int PRIMARY, -, -, -, ADD x int,",
            "(id int PRIMARY, -, ADD x int, ADD y int, -",
        ),
        (
            [(0, CREATE), (1, CREATE), (2, CREATE), (0, ADD_X), (0, ADD_Y), (1, f"{ADD_X}, ADD y int"), (2, ADD_X), (2, ADD_Y)],
            "(id int PRIMARY, -, -, -, -, -, ADD x int, ADD y int",
            "(id int PRIMARY, -, -, ADD x int, ADD y int, -, -, -",
        ),
        # No definition is known: equal statements count.
        ([(0, ADD_X), (1, ADD_X), (0, ADD_Y), (1, ADD_Y)], "ADD x int, -, -, ADD y int", "ADD x int, -, ADD y int, -"),
        # The same statement again.
        ([(0, CREATE), (0, CREATE.replace("TABLE", "TABLE IF NOT EXISTS"))], "(id int PRIMARY, -", "(id int PRIMARY, -"),
        # The last shard that is dropped drops the table; it may be created again.
        (
            [(0, CREATE), (1, CREATE), (0, DROP), (1, ADD_X), (1, DROP), (2, CREATE)],
            "(id int PRIMARY, -, -, ADD x int, EXISTS shop.orders, (id int PRIMARY",
            "(id int PRIMARY, -, -, ADD x int, EXISTS shop.orders, (id int PRIMARY",
        ),
        ([(0, DROP)], "-", "-"),
        ([(0, CREATE), (0, TRUNCATE)], "(id int PRIMARY, -", "(id int PRIMARY, -"),
        # Statements that change no column or key.
        ([(0, CREATE), (0, "ALTER TABLE {} ENGINE=InnoDB")], "(id int PRIMARY, -", "(id int PRIMARY, -"),
        ([(0, CREATE), (1, CREATE), (0, "ALTER TABLE {} COMMENT='a'"), (0, ADD_X), (1, ADD_X)], "(id int PRIMARY, -, -, -, ADD x int", "(id int PRIMARY, -, -, ADD x int, -"),
        ([(0, CREATE), (1, CREATE + " COMMENT='b'"), (0, "DROP VIEW {}")], "(id int PRIMARY, -, -", "(id int PRIMARY, -, -"),
        # Renames, and several statements in a text.
        ([(0, CREATE), (0, "RENAME TABLE {} TO old")], "(id int PRIMARY, -", "(id int PRIMARY, -"),
        ([(0, CREATE), (1, CREATE), (0, f"{ADD_X}; {ADD_Y}")], "(id int PRIMARY, -, -", "(id int PRIMARY, -, -"),
    ],
)  # fmt: skip
def test_a_statement_is_written_once(given: list[tuple[int, str]], of_all: str, of_first: str) -> None:
    given = [(shard, text.replace("{}", f"orders_{shard}")) for shard, text in given]
    assert (written(*given), written(*given, ddl=MergedDdl.FIRST)) == (of_all, of_first)


@pytest.mark.parametrize("ddl", BOTH)
def test_statements_that_are_not_written_are_counted(ddl: MergedDdl) -> None:
    translator = Translator("canal-json", "canal-json", tables=[merging(ddl)])
    given = [(0, CREATE), (1, CREATE), (0, ADD_X), (1, ADD_X), (0, TRUNCATE), (1, DROP)]
    for each in statements(*given, (0, "ALTER TABLE {} ENGINE=InnoDB"), (0, "RENAME TABLE {} TO old")):
        translator.translate(each)
    assert translator.losses == {Loss.DDL_MERGED: 2, Loss.TRUNCATE_OR_DROP: 2, Loss.DDL_NOT_REWRITTEN: 2}
    removed = [(each.table, each.statement) for each in translator.unwritten_statements]
    assert removed == [
        (TableId("shop", "orders_0"), "truncate table"),
        (TableId("shop", "orders_1"), "drop table"),
    ]


def test_strict_refuses_only_what_is_lost() -> None:
    strict: dict[str, Any] = {"target_options": {"strict": "true"}}
    merged = [(0, CREATE), (1, CREATE), (0, ADD_X), (1, ADD_X)]
    assert written(*merged, **strict) == written(*merged)
    assert written((0, CREATE), (1, CREATE), (0, TRUNCATE), (1, DROP), **strict).endswith("-, !, !")


def test_a_statement_of_all_shards_drops_the_table() -> None:
    given = [(0, CREATE), (1, CREATE), (0, "DROP TABLE orders_0, orders_1")]
    assert written(*given).endswith("EXISTS shop.orders")
    assert written(*given[:2], (0, "DROP TABLE orders_0, other")).endswith("-")


def test_a_dropped_shard_no_longer_holds_others_back() -> None:
    translator = Translator("canal-json", "canal-json", tables=[merging()])
    given = statements((0, CREATE), (1, CREATE), (0, ADD_X), (1, DROP), (0, ADD_Y))
    found = outline([translated(translator, each) for each in given])
    assert found == "(id int PRIMARY, -, -, -, ADD y int"
    assert translator.losses[Loss.DDL_NOT_REWRITTEN] == 1  # ADD x is never written


# ---------------------------------------------------------------- diverging statements


@pytest.mark.parametrize("ddl", BOTH)
@pytest.mark.parametrize(
    "last", ["ALTER TABLE {} ADD x bigint", "ALTER TABLE {} ADD z int", "ALTER TABLE {} DROP c, ADD x int"]
)
def test_a_diverging_statement_is_refused_and_names_the_shards(ddl: MergedDdl, last: str) -> None:
    translator = Translator("canal-json", "canal-json", tables=[merging(ddl)])
    *before, diverging = statements((0, CREATE), (1, CREATE), (0, ADD_X), (1, last))
    for each in before:
        translator.translate(each)
    for _ in range(2):  # the translator is unchanged
        with pytest.raises(NotRepresentable) as caught:
            translator.translate(diverging)
    assert caught.value.code == "encode.not-representable"
    assert "table shop.orders_1 is merged into shop.orders" in str(caught.value)
    assert "shop.orders_0" in str(caught.value)


def test_a_shard_that_has_diverged_may_come_back() -> None:
    given = [
        (0, CREATE), (1, CREATE), (0, ADD_X), (1, "ALTER TABLE {} ADD x bigint"), (1, ADD_Y),
        (1, "ALTER TABLE {} DROP y, MODIFY x int"), (0, ADD_Y), (1, ADD_Y),
    ]  # fmt: skip
    found = [text.replace("{}", f"orders_{shard}") for shard, text in given]
    both = [written(*zip([shard for shard, _ in given], found, strict=True), ddl=ddl) for ddl in BOTH]
    assert both == [
        "(id int PRIMARY, -, -, !, !, -, -, ADD y int",
        "(id int PRIMARY, -, ADD x int, !, !, -, ADD y int, -",
    ]


# ---------------------------------------------------------------- rows


@pytest.mark.parametrize("ddl", BOTH)
def test_rows_have_the_columns_of_their_shard_meanwhile(ddl: MergedDdl) -> None:
    translator = Translator("canal-json", "canal-json", tables=[merging(ddl)])
    for each in statements((0, CREATE), (1, CREATE), (0, ADD_X)):
        translator.translate(each)
    rows = [row("orders_0", 5, x="1"), row("orders_1", 6)]
    found = [json.loads(translator.translate(each)[0].value or b"null") for each in rows]
    assert [(each["table"], sorted(each["data"][0])) for each in found] == [
        ("orders", ["c", "id", "x"]),
        ("orders", ["c", "id"]),
    ]


def test_rows_that_need_definitions_have_those_of_their_shard() -> None:
    translator = Translator("canal-json", "ticdc-simple-json", tables=[merging()])
    found = [
        json.loads(out.value or b"null")
        for each in [*statements((0, CREATE), (1, CREATE), (0, ADD_X)), row("orders_0", 5, x="1"), row("orders_1", 6)]
        for out in translator.translate(each)
    ]  # fmt: skip
    created, again, wider, ahead, behind = found
    assert [each["type"] for each in found] == ["CREATE", "BOOTSTRAP", "BOOTSTRAP", "INSERT", "INSERT"]
    versions = [each["tableSchema"]["version"] for each in (created, again, wider)]
    assert versions[0] == versions[1] != versions[2]
    assert (ahead["schemaVersion"], behind["schemaVersion"]) == (versions[2], versions[0])
    assert {each.get("table", "orders") for each in found} == {"orders"}


def test_a_transaction_counts_the_events_of_the_merged_table() -> None:
    end = {
        "status": "END", "id": "t", "event_count": 3, "ts_ms": 1_700_000_000_000,
        "data_collections": [
            {"data_collection": "shop.orders_0", "event_count": 1},
            {"data_collection": "shop.orders_1", "event_count": 2},
        ],
    }  # fmt: skip
    translator = Translator(
        "debezium-json", "debezium-json", None, {"provide.transaction.metadata": "true"}, tables=[merging()]
    )
    record = ConsumerRecord("dbz.transaction", 0, 0, 0, b'{"id":"t"}', json.dumps(end).encode(), ())
    (out,) = translator.translate(record)
    payload = json.loads(out.value or b"null")
    payload = payload.get("payload", payload)
    assert payload["data_collections"] == [{"data_collection": "shop.orders", "event_count": 3}]


# ---------------------------------------------------------------- restarts and batches

STORY = [
    (0, CREATE), (1, CREATE), (0, ADD_X), (2, CREATE), (1, ADD_X), (2, ADD_X), (0, ADD_Y), (1, "ALTER TABLE {} ADD z int"),
    (2, ADD_Y), (1, "ALTER TABLE {} DROP z, ADD y int"), (0, TRUNCATE), (2, DROP), (0, DROP_X), (1, DROP_X), (0, DROP), (1, DROP),
]  # fmt: skip


@pytest.mark.parametrize("target", ["canal-json", "ticdc-simple-json", "debezium-json"])
@pytest.mark.parametrize("ddl", BOTH)
def test_a_restart_and_a_batch_write_the_same(ddl: MergedDdl, target: str) -> None:
    records = statements(*STORY)

    def new() -> Translator:
        return Translator("canal-json", target, tables=[merging(ddl, ("shard", "{table}"))])

    translator = new()
    expected = [translated(translator, each) for each in records]
    assert any(isinstance(each, str) for each in expected)
    for at in range(1, len(records)):
        restarted = new()
        for each in records[:at]:
            restarted.learn(each)
        assert [translated(restarted, each) for each in records[at:]] == expected[at:]
    batch = new()
    for each in records:  # a batch reads all DDL first
        batch.learn(each)
    assert [translated(batch, each) for each in records] == expected


def test_statements_in_all_partitions_are_written_in_all() -> None:
    translator = Translator(TICDC, TICDC, {"enable-tidb-extension": "true"}, tables=[merging()])

    def copies(shard: int, sql: str, at: int) -> list[ConsumerRecord]:
        message = {
            "id": 0, "database": "shop", "table": f"orders_{shard}", "pkNames": None, "isDdl": True, "type": "ALTER",
            "es": 1_700_000_000_000 + at, "ts": 0, "sql": sql.format(f"orders_{shard}"), "sqlType": None,
            "mysqlType": None, "data": None, "old": None, "_tidb": {"commitTs": (1_700_000_000_000 + at) << 18},
        }  # fmt: skip
        value = json.dumps(message).encode()
        return [ConsumerRecord("topic", partition, at, 0, None, value, ()) for partition in (0, 1)]

    given = [
        copies(*each, at=at) for at, each in enumerate([(0, CREATE), (1, CREATE), (0, ADD_X), (1, ADD_X)])
    ]
    found = [[len(translator.translate(copy)) for copy in pair] for pair in given]
    assert found == [[1, 1], [0, 0], [0, 0], [1, 1]]


# ---------------------------------------------------------------- names


def test_only_rules_that_merge_alike_share_a_name() -> None:
    def refused(*rules: TableRule) -> bool:
        translator = Translator("canal-json", "canal-json", tables=list(rules))
        translator.translate(row("orders_0", 1))
        try:
            translator.translate(row("other", 2))
        except EncodeError as error:
            assert "would have the name shop.orders" in str(error)
            return True
        return False

    def other(**settings: Any) -> TableRule:
        return TableRule(source=r"shop\.other", target="shop.orders", **settings)

    assert refused(merging(), other())
    assert refused(merging(), other(merge=True, ddl=MergedDdl.FIRST))
    assert refused(merging(), other(merge=True, add=(("shard", "x"),)))
    assert not refused(merging(), other(merge=True))
    assert not refused(merging(MergedDdl.ALL, ("s", "{1}")), other(merge=True, add=(("s", "other"),)))


def test_tables_without_a_possible_name_are_no_shards() -> None:
    other = TableRule(source=r"shop\.x(.*)", target="shop.{1}{1}", merge=True)
    translator = Translator("canal-json", "canal-json", tables=[merging(), other])
    translator.learn(statement(CREATE.format("x" * 60), "x" * 60, 0))
    found = [
        translated(translator, each) for each in statements((0, CREATE), (1, CREATE), (0, ADD_X), (1, ADD_X))
    ]
    assert outline(found) == "(id int PRIMARY, -, -, ADD x int"


def test_known_shards_are_no_conflict() -> None:
    translator = Translator("canal-json", "canal-json", tables=[merging()])
    for each in statements((0, CREATE), (1, CREATE)):
        translator.learn(each)
    assert translator.name_conflicts == []
    translator.learn(statement(CREATE.format("orders"), "orders", 5))
    ((name, tables),) = translator.name_conflicts
    assert (str(name), [table.table for table in tables]) == (
        "shop.orders",
        ["orders", "orders_0", "orders_1"],
    )


def test_known_shards_are_listed() -> None:
    translator = Translator("canal-json", "canal-json", tables=[merging()])
    for each in statements((0, CREATE), (1, CREATE), (0, ADD_X), (2, CREATE), (2, ADD_Y)):
        translator.learn(each)
    names = translator.route.table_names
    assert names is not None
    (merged,) = names.merged_tables(translator.catalog)
    assert str(merged.name) == "shop.orders"
    shards = {table.table: at for table, at in merged.shards.reached.items()}
    assert shards == {"orders_0": 1, "orders_1": 0, "orders_2": -1}
    assert [table.table for table in merged.shards.waiting()] == ["orders_1", "orders_2"]


def test_the_merged_table_may_have_the_name_of_a_shard() -> None:
    rules = TableRule(source=r"shop\.orders_\d", target="shop.orders_0", merge=True, add=(("s", "{table}"),))
    translator = Translator("canal-json", "canal-json", tables=[rules])
    given = [*statements((0, CREATE), (1, CREATE), (0, ADD_X), (1, ADD_X), (0, DROP))]
    found = outline([translated(translator, each) for each in given])
    assert found.split(", ")[1:] == ["-", "-", "ADD x int", "-"]
    (out,) = translator.translate(row("orders_1", 9, x="1"))
    message = json.loads(out.value or b"null")
    assert (message["table"], message["data"][0]["s"], message["pkNames"]) == (
        "orders_0",
        "orders_1",
        ["s", "id"],
    )


@pytest.mark.parametrize(
    ("sql", "expected"),
    [
        ("CREATE TABLE lines (o int, FOREIGN KEY (o) REFERENCES orders_0 (id))", 1),
        ("CREATE TABLE copy LIKE orders_0", 0),
        ("CREATE VIEW v AS SELECT * FROM orders_0", 0),
        ("CREATE VIEW v AS SELECT * FROM orders_0 UNION ALL SELECT * FROM orders_1", 0),
    ],
)
def test_other_tables_may_refer_to_shards_by_foreign_keys_only(sql: str, expected: int) -> None:
    for rules, allowed in ((merging(), expected), (merging(MergedDdl.ALL, ("shard", "{table}")), 0)):
        translator = Translator("canal-json", "canal-json", tables=[rules])
        for each in statements((0, CREATE), (1, CREATE)):
            translator.translate(each)
        assert len(translator.translate(statement(sql, "lines", 5))) == allowed
        assert translator.losses[Loss.DDL_NOT_REWRITTEN] == 1 - allowed


# ---------------------------------------------------------------- rules


@pytest.mark.parametrize(
    ("settings", "path", "text"),
    [
        ({"add": (("s", "{table}"),)}, "add", "without merge = true"),
        ({"ddl": MergedDdl.FIRST}, "ddl", "without merge = true"),
        ({"merge": True, "add": (("s", "{2}"),)}, "add", "unknown placeholder"),
        ({"merge": True, "add": (("s", "{"),)}, "add", "brace"),
        ({"merge": True, "add": (("s", "x" * 256),)}, "add", "more than 255 characters"),
        ({"merge": True, "add": (("", "x"),)}, "add", "is no name of a column"),
        ({"merge": True, "add": (("s", "x"), ("S", "y"))}, "add", "names a column twice"),
    ],
)
def test_rules_that_cannot_be_meant_are_refused(settings: dict[str, Any], path: str, text: str) -> None:
    with pytest.raises(ConfigError) as caught:
        parse_rules([rule("x.y", "x.z"), TableRule(source=r"a\.(b)", target="a.c", **settings)])
    (problem,) = caught.value.problems
    assert (problem.path, text in problem.message) == (f"tables.1.{path}", True)


def test_a_rule_on_one_line() -> None:
    found = parse_rule(r"shop\.o_\d -> shop.o merge ddl=first add.shard={table} add.db={database}")
    assert found == TableRule(
        source=r"shop\.o_\d", target="shop.o", merge=True, ddl=MergedDdl.FIRST,
        add=(("shard", "{table}"), ("db", "{database}")),
    )  # fmt: skip
    assert parse_rule("a.b -> a.c merge").merge
    assert parse_rule("a.b -> a.my table").target == "a.my table"
    for word in ("ddl=last", "add=x", "add.=x", "other"):
        with pytest.raises(ValueError, match="is not a setting"):
            parse_rule(f"a.b -> a.c merge {word}")
