"""Statements about several tables, taken apart for topics by table."""

from __future__ import annotations

import pytest
from edge_cases.canal_family import ddl
from support import record

from relay import SchemaChange, TableId, Translator
from relay.mysql.ddl.parts import parts


def statement(sql: str, kind: str, *created: str) -> SchemaChange:
    translator = Translator("canal-json", "canal-json")
    for at, name in enumerate(created):
        translator.translate(record(ddl(f"CREATE TABLE {name} (id INT PRIMARY KEY)", table=name), offset=at))
    (event,) = translator.inspect(record(ddl(sql, kind, table="a"), offset=len(created)))
    assert isinstance(event, SchemaChange)
    return event


def table(name: str) -> TableId:
    return TableId("d", name)


def test_a_drop_says_the_same_of_each_table() -> None:
    change = statement("DROP TABLE IF EXISTS a, b, c /* all */", "ERASE")
    one, two = parts(change, [[table("b")], [table("a"), table("c")]])
    assert one.ddl == "DROP TABLE IF EXISTS `d`.`b`"
    assert (one.table, one.targets) == (table("b"), (table("b"),))
    assert two.ddl == "DROP TABLE IF EXISTS `d`.`a`, `d`.`c`"
    assert (two.table, two.targets) == (table("a"), (table("a"), table("c")))
    assert (two.kinds, two.wire_kind, two.source) == (change.kinds, change.wire_kind, change.source)


def test_a_rename_goes_with_every_pair_that_names_the_table_in_their_order() -> None:
    change = statement("RENAME TABLE a TO x, b TO a, x TO b", "RENAME", "a", "b")
    of_a, of_x = parts(change, [[table("a")], [table("x")]])
    assert of_a.ddl == "RENAME TABLE `d`.`a` TO `d`.`x`, `d`.`b` TO `d`.`a`"
    assert [str(pair.new) for pair in of_a.renamed] == ["d.x", "d.a"]
    assert {str(schema.id) for schema in of_a.definitions} == {"d.a", "d.b"}
    assert of_x.ddl == "RENAME TABLE `d`.`a` TO `d`.`x`, `d`.`x` TO `d`.`b`"


def test_a_rename_keeps_if_exists() -> None:
    change = statement("RENAME TABLES IF EXISTS a TO x, b TO y; ", "RENAME", "a", "b")
    (one,) = parts(change, [[table("y")]])
    assert one.ddl == "RENAME TABLE IF EXISTS `d`.`b` TO `d`.`y`"


@pytest.mark.parametrize(
    ("sql", "kind"),
    [
        ("DROP TABLE a", "ERASE"),
        ("RENAME TABLE a TO b", "RENAME"),
        ("ALTER TABLE a ADD COLUMN n INT", "ALTER"),
        ("DROP DATABASE d", "QUERY"),
        ("DROP TABLE a; DROP TABLE IF EXISTS b", "ERASE"),
        ("DROP TABLE a, b; ALTER TABLE c ALGORITHM = COPY", "ERASE"),
        ("DROP VIEW a, b;;\nDROP VIEW c", "ERASE"),
        ("RENAME TABLE a TO b; RENAME TABLE b TO c", "RENAME"),
        ("RENAME TABLE a TO x, b TO y; ALTER TABLE x ALGORITHM = COPY", "RENAME"),
        ("ALTER TABLE a RENAME TO b; ALTER TABLE b RENAME TO c", "ALTER"),
    ],
)
def test_any_other_statement_is_whole(sql: str, kind: str) -> None:
    assert parts(statement(sql, kind), [[table("a")], [table("b")]]) == []
