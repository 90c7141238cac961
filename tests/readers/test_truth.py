"""What the comparison with the truth finds, so that a reader that is said to be right is right."""

from __future__ import annotations

from typing import Any

import pytest
from readers.truth import Change, Row, Step, Table, difference, final_difference, replay_difference, sql_type
from readers.truth import value as canonical

A, B, C = (1, "a"), (1, "b"), (2, "c")
#: Two transactions: a row that is changed, and one that comes and goes.
TABLE = Table(
    "d",
    "t",
    {"id": sql_type("int(11)"), "name": sql_type("varchar(5)")},
    [Change(1, None, A), Change(2, A, B), Change(2, None, C), Change(3, C, None)],
    altered=False,
)
RIGHT: list[Step] = [("+", A), ("-", A), ("+", B), ("+", C), ("-", C)]


def test_what_is_right() -> None:
    assert difference(TABLE, RIGHT) == ""
    assert replay_difference(TABLE, RIGHT) == ""
    assert final_difference(TABLE, [B]) == ""


def test_rows_of_a_transaction_have_no_order() -> None:
    assert difference(TABLE, [RIGHT[0], RIGHT[3], RIGHT[1], RIGHT[2], RIGHT[4]]) == ""


def test_an_update_that_changes_nothing_may_be_there() -> None:
    assert difference(TABLE, [RIGHT[0], ("-", A), ("+", A), *RIGHT[1:]]) == ""


@pytest.mark.parametrize(
    "steps",
    [
        RIGHT[:-1],
        [*RIGHT, ("+", C)],
        [RIGHT[0], ("-", (1, None)), *RIGHT[2:]],
        [RIGHT[0], RIGHT[1], ("+", (1, "b ")), *RIGHT[3:]],
        [RIGHT[0], RIGHT[1], ("+", ("1", "b")), *RIGHT[3:]],
        [*RIGHT[:3], RIGHT[4], RIGHT[3]],
        [*RIGHT[1:4], RIGHT[0], RIGHT[4]],
    ],
    ids=["one lacks", "one more", "before", "after", "type", "order in time", "order of transactions"],
)
def test_what_is_wrong(steps: list[Step]) -> None:
    assert difference(TABLE, steps)


def test_a_row_that_was_never_there_is_taken_away() -> None:
    assert replay_difference(TABLE, [("+", A), ("-", B)])


@pytest.mark.parametrize("rows", [[], [A], [B, B], [B, C]])
def test_other_rows_in_the_end(rows: list[Row]) -> None:
    assert final_difference(TABLE, rows)


@pytest.mark.parametrize(
    ("kind", "texts"),
    [
        ("decimal(10,2)", ["100.50", "100.5"]),
        ("decimal(65,0)", ["1" * 65]),
        ("float", ["3.4028235e38", "3.402823466e38", "340282346638528859811704183484516925440"]),
        ("double", ["0.1", "1e-1"]),
        ("datetime(3)", ["2026-01-02 03:04:05.100", "2026-01-02T03:04:05.1"]),
        ("json", ['{"a":1,"b":[1.5]}', '{"b": [1.50], "a": 1}']),
        ("year(4)", ["0000", "0"]),
    ],
)
def test_forms_of_the_same_value(kind: str, texts: list[str]) -> None:
    assert len({repr(canonical(sql_type(kind), text)) for text in texts}) == 1


@pytest.mark.parametrize(
    ("kind", "one", "other"),
    [
        ("decimal(30,10)", "12345678901234567890.1", "12345678901234567890.2"),
        ("decimal(10,0)", "100", "10"),
        ("double", "0.1", "0.10000000000000002"),
        ("float", "1.1", "1.1000001"),
        ("varchar(5)", "1.0", "1"),
        ("json", '{"a":1}', '{"a":1.0}'),
        ("blob", b"a", b"a\0"),
        ("datetime", "0000-00-00 00:00:00", "1970-01-01 00:00:00"),
    ],
)
def test_values_that_differ(kind: str, one: Any, other: Any) -> None:
    assert repr(canonical(sql_type(kind), one)) != repr(canonical(sql_type(kind), other))
