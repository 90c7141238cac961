"""The cases that Flink CDC tests its routes with, as table rules: the same tables, or a documented difference.

docs/tables.md and docs/shards.md have the differences: one target for a table, the one of the first rule that
matches; and definitions of shards are not widened.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from table_rules_support import row, rule, statement

from relay import CodecError, TableRule, Translator

#: Rules of its tests: the same table, swapped tables, merged ones, a prefix and a suffix, and groups.
RULES = (
    rule(r"db_1\.table_1", "db_1.table_1"),
    rule(r"db_2\.table_1", "db_2.table_2"),
    rule(r"db_2\.table_2", "db_2.table_3"),
    rule(r"db_2\.table_3", "db_2.table_1"),
    TableRule(source=r"db_3\.table_.*", target="db_3.table_merged", merge=True),
    rule(r"db_4\.table_1", "db_4.table_a"),
    rule(r"db_4\.table_1", "db_4.table_b"),
    rule(r"db_5\.table_.*", "db_5.prefix_{table}_suffix"),
    rule(r"re_\d+\.table_(.*)", "database.another_table_with_{1}{1}{1}_index"),
    rule(r"(inv_\d+)\.(table_.*)", "{2}.{1}"),
)
#: Rules of its first-match mode.
FIRST_MATCH = (
    TableRule(source=r"mydb\.order_.*", target="ods_db.ods_orders", merge=True),
    TableRule(source=r"mydb\.product_.*", target="ods_db.ods_products", merge=True),
    rule(r"mydb\..*", "ods_db.ods_{table}"),
)


@pytest.mark.parametrize(
    ("rules", "tables"),
    [
        (RULES, {"db_0.table_1": "db_0.table_1", "db_1.table_1": "db_1.table_1"}),
        (RULES, {f"db_2.table_{at}": f"db_2.table_{at % 3 + 1}" for at in (1, 2, 3)}),
        (RULES, {f"db_3.table_{at}": "db_3.table_merged" for at in (1, 2, 3)}),
        (RULES, {"db_4.table_1": "db_4.table_a"}),  # there also table_b
        (RULES, {f"db_5.table_{at}": f"db_5.prefix_table_{at}_suffix" for at in (1, 2, 3)}),
        (RULES, {"re_22.table_22": "database.another_table_with_222222_index"}),
        (RULES, {"inv_1.table_foo": "table_foo.inv_1", "inv_333.table_baz": "table_baz.inv_333"}),
        (FIRST_MATCH, {f"mydb.order_{at}": "ods_db.ods_orders" for at in (1, 2, 100)}),
        (FIRST_MATCH, {f"mydb.product_{at}": "ods_db.ods_products" for at in (1, 2)}),
        (FIRST_MATCH, {f"mydb.{name}": f"ods_db.ods_{name}" for name in ("user", "customer", "config")}),
        (FIRST_MATCH, {"otherdb.user": "otherdb.user"}),
    ],
)
def test_tables_get_the_same_names(rules: tuple[TableRule, ...], tables: dict[str, str]) -> None:
    translator = Translator("canal-json", "canal-json", tables=rules)
    for at, (table, expected) in enumerate(tables.items()):
        database, _, name = table.partition(".")
        (out,) = translator.translate(row(name, at, database))
        message = json.loads(out.value or b"null")
        assert f"{message['database']}.{message['table']}" == expected


#: Patterns and targets of its test of groups, with the new names of its six tables.
COMPLEX = [
    (r"db1\.(.*)", "db1.pre_{1}", "db1.pre_tbl1 db1.pre_tbl2 db1.pre_tbl3 db2.tbl2 db2.tbl3 db3.tbl3"),
    (r"db1\.tbl(.*)", "db1.no{1}", "db1.no1 db1.no2 db1.no3 db2.tbl2 db2.tbl3 db3.tbl3"),
    (r"(.*)\.tbl3", "pre_{1}.tbl3", "db1.tbl1 db1.tbl2 pre_db1.tbl3 db2.tbl2 pre_db2.tbl3 pre_db3.tbl3"),
    (r"db(.*)\.(tbl.*)", "no{1}.{2}", "no1.tbl1 no1.tbl2 no1.tbl3 no2.tbl2 no2.tbl3 no3.tbl3"),
    (r"db1\.(.*)", "db1.combined", "db1.combined db1.combined db1.combined db2.tbl2 db2.tbl3 db3.tbl3"),
]


@pytest.mark.parametrize(("source", "target", "expected"), COMPLEX)
def test_groups_give_the_same_names(source: str, target: str, expected: str) -> None:
    rules = [TableRule(source=source, target=target, merge=True)]
    translator = Translator("canal-json", "canal-json", tables=rules)
    found = []
    for at, name in enumerate(("db1.tbl1", "db1.tbl2", "db1.tbl3", "db2.tbl2", "db2.tbl3", "db3.tbl3")):
        database, _, table = name.partition(".")
        message = json.loads(translator.translate(row(table, at, database))[0].value or b"null")
        found.append(f"{message['database']}.{message['table']}")
    assert " ".join(found) == expected


#: The story of its test of merged tables: a narrow table, a wider one with other types, and changes of both.
#: There, the merged table has the columns of both, with the wider types.
MERGING: list[tuple[str, str | dict[str, str]]] = [
    ("mytable1", "CREATE TABLE mytable1 (id INT PRIMARY KEY, name TEXT, age INT)"),
    ("mytable1", {"id": "1", "name": "Alice", "age": "18"}),
    ("mytable2", "CREATE TABLE mytable2 (id BIGINT PRIMARY KEY, name VARCHAR(255), age TINYINT, description TEXT)"),
    ("mytable2", {"id": "3", "name": "Charlie", "age": "15", "description": "student"}),
    ("mytable1", "ALTER TABLE mytable1 RENAME COLUMN name TO last_name"),
    ("mytable2", "ALTER TABLE mytable2 ADD gender TEXT"),
    ("mytable1", {"id": "5", "last_name": "Eliza", "age": "24"}),
    ("mytable2", {"id": "6", "name": "Frank", "age": "30", "description": "student", "gender": "male"}),
]  # fmt: skip


def test_tables_with_other_columns_are_refused_and_their_rows_keep_them() -> None:
    rules = [TableRule(source=r"shop\.mytable\d", target="shop.merged", merge=True)]
    translator = Translator("canal-json", "canal-json", tables=rules)
    found: list[Any] = []
    for at, (table, each) in enumerate(MERGING):
        record = statement(each, table, at) if isinstance(each, str) else row(table, at, **each)
        try:
            out = translator.translate(record)
        except CodecError as error:
            assert isinstance(each, str)
            found.append(error.code)
            translator.learn(record)
            continue
        message = json.loads(out[0].value or b"null") if out else {}
        columns = [name for data in message.get("data") or () for name in data if name != "c"]
        found.append((message["table"], message["sql"] or columns) if message else None)
    refused = "encode.not-representable"
    assert found == [
        ("merged", "CREATE TABLE `merged` (id INT PRIMARY KEY, name TEXT, age INT)"),
        ("merged", ["id", "name", "age"]),
        refused,
        ("merged", ["id", "name", "age", "description"]),
        None,  # waits for the other table
        refused,
        ("merged", ["id", "last_name", "age"]),
        ("merged", ["id", "name", "age", "description", "gender"]),
    ]


@pytest.mark.parametrize("type_of", ["DECIMAL(10, 2)", "TIMESTAMP(6)", "VARCHAR(20)"])
def test_wider_types_are_refused(type_of: str) -> None:
    """There, the types of merged columns become the widest of all."""
    rules = [TableRule(source=r"shop\.t_\d", target="shop.t", merge=True)]
    translator = Translator("canal-json", "canal-json", tables=rules)
    for at, text in enumerate((type_of, type_of.replace("0", "5").replace("6", "3"))):
        record = statement(f"CREATE TABLE t_{at} (id INT PRIMARY KEY, c {text})", f"t_{at}", at)
        if at:
            with pytest.raises(CodecError, match="is merged into"):
                translator.translate(record)
        else:
            assert translator.translate(record)
