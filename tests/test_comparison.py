"""Changes of two sides: which belong together, what differs, and what memory that takes."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from support import record, row_message

from relay import Translator
from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.core.comparison import Change, Comparison, changes_of, differing
from relay.model.events import (
    ABSENT,
    Cell,
    Column,
    ColumnType,
    DdlKind,
    Op,
    RowChange,
    Rows,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
)
from relay.model.records import ConsumerRecord

T = TableId("d", "t")
SCHEMA = TableSchema(
    T,
    (Column("id", ColumnType("int")), Column("v", ColumnType("int")), Column("j", ColumnType("json"))),
    primary_key=("id",),
)
RECORD = ConsumerRecord("in", 0, 7, 0, None, b"")


def row(op: Op, before: Any, after: Any, schema: TableSchema = SCHEMA) -> list[Change]:
    event = RowChange(op, schema, Rows(before, after), Source("x", 0), 0)
    return list(changes_of(event, RECORD, Catalog()))


def change(op: str, id: Cell = 1, v: Cell = 1, *, key: Sequence[str] = ("id",), table: TableId = T) -> Change:
    cells = {"id": id, "v": v}
    before = cells if op != "insert" else None
    after = cells if op != "delete" else None
    return Change(op, table, before, after, frozenset(), tuple(key), False, RECORD, Catalog())


def compared(
    left: Sequence[Change],
    right: Sequence[Change],
    *,
    window: int = 100,
    explain: Any = None,
    keys: Any = None,
) -> Comparison:
    """Both sides in turn, as the command reads them."""
    found = Comparison(explain or (lambda *_: None), window, 100, keys)
    for at in range(max(len(left), len(right))):
        for side, changes in enumerate((left, right)):
            if at < len(changes):
                found.add(changes[at], side)
    found.finish()
    return found


def counts(found: Comparison) -> tuple[int, int, int, int]:
    """Equal, different, only in the first, only in the second."""
    return found.equal, found.different.total(), found.only[0].total(), found.only[1].total()


def test_the_order_of_a_key_counts_and_that_of_keys_does_not() -> None:
    one, two = [change("insert", 1), change("update", 1, 2)], [change("insert", 2), change("delete", 2)]
    assert counts(compared([*one, *two], [*two, *one])) == (4, 0, 0, 0)
    assert counts(compared(one, one[::-1])) != (2, 0, 0, 0)


@pytest.mark.parametrize("lost", range(4))
def test_a_change_that_one_side_lacks_is_found_wherever_it_was(lost: int) -> None:
    every = [change("insert", 1, 1), *(change("update", 1, v) for v in (2, 3)), change("delete", 1, 3)]
    without = every[:lost] + every[lost + 1 :]
    assert counts(compared(every, without)) == (3, 0, 1, 0)
    assert counts(compared(without, every)) == (3, 0, 0, 1)


def test_a_change_that_comes_twice_is_surplus() -> None:
    every = [change("insert", 1, 1), change("update", 1, 2)]
    assert counts(compared(every, [*every, every[1]])) == (2, 0, 0, 1)


def test_a_value_that_differs_is_one_difference_with_its_column() -> None:
    found = compared([change("insert", 1, 1)], [change("insert", 1, 2)])
    assert counts(found) == (0, 1, 0, 0)
    assert found.examples[0].what == ("v",)
    assert not found.is_equal


@pytest.mark.parametrize(
    ("one", "other", "is_same"),
    [
        (1, 1, True),
        (1, 1.0, False),
        (Decimal("1.0"), Decimal("1.00"), False),
        (Decimal("0E+1"), Decimal(0), True),
        (None, "", False),
        (b"a", "a", False),
        (-0.0, 0.0, False),
    ],
)
def test_values_are_compared_exactly(one: Cell, other: Cell, is_same: bool) -> None:
    assert (differing(change("insert", 1, one), change("insert", 1, other)) == []) is is_same


def test_json_is_compared_by_what_it_says_and_absent_is_not_null() -> None:
    (one,) = row(Op.INSERT, None, (1, 2, '{"a": [1, 2]}'))
    (other,) = row(Op.INSERT, None, (1, 2, '{"a":[1,2]}'))
    (third,) = row(Op.INSERT, None, (1, 2, '{"a":[2,1]}'))
    assert (differing(one, other), differing(one, third)) == ([], ["j"])
    for left, right in (("true", "1"), ("[0]", "[false]"), ("1", "1.0"), (f"{10**20 + 1}", f"{10**20 + 2}")):
        (mine,), (others,) = row(Op.INSERT, None, (1, 2, left)), row(Op.INSERT, None, (1, 2, right))
        assert differing(mine, others) == ["j"]
    (absent,) = row(Op.INSERT, None, (1, ABSENT, None))
    (null,) = row(Op.INSERT, None, (1, None, None))
    assert differing(absent, null) == ["v"]


def test_an_update_of_the_key_is_a_delete_and_an_insert() -> None:
    assert [each.kind for each in row(Op.UPDATE, (1, 1, None), (2, 1, None))] == ["delete", "insert"]
    assert [each.kind for each in row(Op.UPDATE, (1, 1, None), (1, 2, None))] == ["update"]


def test_an_update_that_one_side_splits_is_no_difference() -> None:
    (update,) = row(Op.UPDATE, (1, 1, None), (1, 2, None))
    split = [*row(Op.DELETE, (1, 1, None), None), *row(Op.INSERT, None, (1, 2, None))]
    for left, right in (([update], split), (split, [update])):
        assert counts(compared(left, right)) == (2, 0, 0, 0)
    assert counts(compared([update], split[:1])) == (0, 1, 0, 0)


def test_a_statement_is_compared_by_what_it_does() -> None:
    def statement(ddl: str, *kinds: DdlKind) -> Change:
        event = SchemaChange(ddl, T, kinds, "", Source("x", 0), 0, targets=(T,))
        (found,) = changes_of(event, RECORD, Catalog())
        return found

    one = statement("ALTER TABLE t COMMENT 'x'", DdlKind.TABLE_COMMENT)
    other = statement("alter table `t` comment = 'x';", DdlKind.TABLE_COMMENT)
    assert differing(one, other) == []
    assert differing(one, statement("DROP TABLE t", DdlKind.DROP_TABLE)) == ["statement"]
    added = statement("ALTER TABLE t ADD COLUMN a INT", DdlKind.ADD_COLUMN)
    assert differing(added, statement("alter table `t` add column `a` int", DdlKind.ADD_COLUMN)) == []
    assert differing(added, statement("ALTER TABLE t ADD COLUMN b INT", DdlKind.ADD_COLUMN)) == ["statement"]
    assert differing(statement("a  b"), statement("a b;")) == []
    assert differing(statement("a b"), statement("a c")) == ["statement"]


def test_a_key_that_only_one_side_knows_is_the_key_of_both() -> None:
    left = [change("insert", n, key=()) for n in range(5)]
    right = [change("insert", n) for n in reversed(range(5))]
    assert counts(compared(left, right)) == (5, 0, 0, 0)


def test_a_table_without_a_key_is_compared_in_its_order() -> None:
    rows = [change("insert", n, key=()) for n in range(5)]
    assert counts(compared(rows, rows)) == (5, 0, 0, 0)
    assert counts(compared(rows, [*rows[:2], *rows[3:]])) == (4, 0, 1, 0)
    assert counts(compared(rows, rows[::-1], keys={T: ("id",)})) == (5, 0, 0, 0)


def test_keys_are_the_same_in_every_form_of_their_values() -> None:
    found = compared([change("insert", 5)], [change("insert", "5")])
    assert counts(found) == (0, 1, 0, 0)
    assert found.examples[0].what == ("id",)


def test_what_waits_is_bounded() -> None:
    left = [change("insert", n) for n in range(1000)]
    found = Comparison(lambda *_: None, 10, 3)
    for each in left:
        found.add(each, 0)
        assert found.waiting <= 10
    found.finish()
    assert found.waiting == 0
    assert (counts(found), len(found.examples)) == ((0, 0, 1000, 0), 3)
    # What comes within the window is found.
    assert counts(compared(left, left, window=2)) == (1000, 0, 0, 0)


def test_many_changes_of_one_key_do_not_wait_for_the_end() -> None:
    left = [change("update", 1, n) for n in range(500)]
    right = [change("update", 1, n) for n in range(500) if n != 3]
    found = compared(left, right, window=200)
    assert counts(found) == (499, 0, 1, 0)


def test_what_is_explained_is_counted_apart() -> None:
    asked = []

    def explain(one: Change, other: Change | None, side: int) -> Counter[Loss] | None:
        asked.append((one.row["v"], other and other.row["v"], side))
        return Counter({Loss.DECIMAL_DIGITS: 1}) if one.row["v"] == 1 else None

    found = compared(
        [change("insert", 1, 1), change("insert", 2, 1), change("insert", 3, 2)],
        [change("insert", 1, 5), change("insert", 4, 1)],
        explain=explain,
    )
    assert counts(found) == (0, 0, 1, 0)
    assert (found.explained, found.losses) == (3, Counter({Loss.DECIMAL_DIGITS: 3}))
    assert (1, 5, 0) in asked
    assert (1, None, 1) in asked


@pytest.mark.parametrize(
    ("one", "other"),
    [
        ("alter c set default 5", "alter c set default 6"),
        ("modify c int not null", "modify c int null"),
        ("drop index a", "drop index b"),
        ("truncate partition p0", "truncate partition p1"),
        ("comment 'a'", "comment 'b'"),
    ],
)
def test_statements_on_a_known_table_differ_by_what_they_do(one: str, other: str) -> None:
    def altered(text: str) -> Change:
        create = "CREATE TABLE t (id INT PRIMARY KEY, c INT, KEY a (c), KEY b (c))"
        translator = Translator("ticdc-canal-json", "ticdc-canal-json")
        found: list[Change] = []
        for at, sql in enumerate((create, f"ALTER TABLE t {text}")):
            given = record(
                row_message({}, op="ALTER", isDdl=True, sql=sql, data=None, es=at, ts=at), offset=at
            )
            (event,) = translator.inspect(given)
            found = list(changes_of(event, given, translator.catalog))
        return found[0]

    assert differing(altered(one), altered(other)) == ["statement"]
    assert differing(altered(one), altered(one.upper().replace("'A'", "'a'"))) == []
