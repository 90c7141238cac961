"""Expressions: what they are given, and which are refused."""

from __future__ import annotations

import copy
from typing import Any

import pytest
from row_rules_support import CREATE, TYPES, compact, message, rule, statement
from support import TICDC

from relay import ConditionFailed, ConfigError, Translator
from relay.rules.rows.expressions import Expression


def selects(where: str, types: dict[str, str] | None = None, **values: Any) -> bool:
    """Whether a row is written, of a table with these types besides its key."""
    columns = {"id": "bigint unsigned", **(TYPES if types is None else types)}
    ddl = ", ".join(f"`{name}` {text}" for name, text in columns.items())
    translator = Translator(TICDC, "canal-json", rows=[rule(where)])
    translator.translate(compact(statement(f"CREATE TABLE `t` ({ddl}, PRIMARY KEY (`id`))")))
    plain = {name: text.partition("(")[0] for name, text in columns.items()}
    return bool(translator.translate(compact(message(types=plain, at=1, **values), 1)))


@pytest.mark.parametrize(
    ("where", "kind", "value"),
    [
        ("v == 18446744073709551615u", "bigint unsigned", "18446744073709551615"),
        ("v > 9223372036854775807", "bigint unsigned", "9223372036854775808"),
        ("v == -9223372036854775808", "bigint", "-9223372036854775808"),
        ("v == 9007199254740993 && v != 9007199254740992", "bigint", "9007199254740993"),
        ("v == 7u && v == 7 && v in [7]", "int", "7"),
        ("v == 100.1 && v > 100 && v < 101", "decimal(12,2)", "100.10"),
        ("v == 0.3", "decimal(12,2)", "0.30"),
        ("v == 9999999999999.99 && v != 9999999999999.98", "decimal(15,2)", "9999999999999.99"),
        ("v == 9223372036854775807", "decimal(20,0)", "9223372036854775807"),
        ("v == 1.5", "double", "1.5"),
        ("v == 'é' && v < 'ö'", "varchar(3)", "é"),
        ("v == b'\\x00\\xff'", "varbinary(4)", "\x00ÿ"),
        ("v >= '2024-01-01' && v < '2024-02-01'", "date", "2024-01-31"),
        ("v.startsWith('2024-01-31 10:')", "datetime", "2024-01-31 10:11:12"),
        ("v == '-838:59:59'", "time", "-838:59:59"),
        ("v == 2024", "year", "2024"),
        ("v == 5", "bit(8)", "5"),
        ("v == 'high'", "enum('low','high')", "2"),
        ("v == 'a,c'", "set('a','b','c')", "5"),
        ("v.contains('\"a\"')", "json", '{"a": 1}'),
        ("v == null", "int", None),
        ("v != null ? v > 5 : true", "int", None),
        ("row.v == 7 && has(row.v) && row['v'] == V && !has(row.w)", "int", "7"),
        ("['a', 'b'].exists(x, x == v)", "varchar(3)", "b"),
        ("v.matches('^[a-c]+$')", "varchar(3)", "abc"),
    ],
)
def test_values_are_exact(where: str, kind: str, value: str | None) -> None:
    assert selects(where, {"v": kind}, v=value)
    assert not selects(f"!({where})", {"v": kind}, v=value)


def test_a_column_may_have_the_name_of_a_type_or_of_the_row() -> None:
    assert selects(
        "type == 'x' && row.row == 'y'", {"type": "varchar(3)", "row": "varchar(3)"}, type="x", row="y"
    )
    assert selects("type(note) == string", {"note": "varchar(3)"}, note="x")


@pytest.mark.parametrize(
    ("where", "kind", "value", "reason"),
    [
        ("v > 5", "int", None, "NULL has no order"),
        ("v > 5", "varchar(9)", "secret", "types of its values"),
        ("v", "varchar(9)", "secret", "its result is not true or false"),
        ("1 / v > 0", "int", "0", "divides by zero"),
        ("v + 9223372036854775807 > 0", "bigint", "4711", "out of range"),
        ("{'a': true}[v]", "varchar(9)", "secret", "a member that does not exist"),
        ("int(v) > 0", "varchar(9)", "secret", "a function does not accept a value"),
        ("v > 0.0", "decimal(20,4)", "4711000000000000.0001", "more than 15 digits"),
        ("v > 0", "decimal(30,0)", "47110000000000000000000", "more than 64 bits"),
        ("w == 1", "int", "4711", "the table has no such column"),
    ],
)
def test_errors_show_no_value(where: str, kind: str, value: str | None, reason: str) -> None:
    with pytest.raises(ConditionFailed, match=reason) as error:
        selects(where, {"v": kind}, v=value)
    assert "d.t" in str(error.value)
    assert "secret" not in str(error.value)
    assert "4711" not in str(error.value)
    assert error.value.__cause__ is None


def test_an_absent_column_is_an_error_or_found_absent() -> None:
    types = {name: kind for name, kind in TYPES.items() if name != "note"}
    for where, is_written in (
        ("!has(row.note)", True),
        ("has(row.note)", False),
        ("true || note == 'a'", True),
    ):
        translator = Translator(TICDC, "canal-json", rows=[rule(where)])
        translator.translate(compact(CREATE))
        assert bool(translator.translate(compact(message(types=types), 1))) is is_written
    translator = Translator(TICDC, "canal-json", rows=[rule("note == 'a'")])
    translator.translate(compact(CREATE))
    with pytest.raises(ConditionFailed, match="lacks columns"):
        translator.translate(compact(message(types=types), 1))


@pytest.mark.parametrize(
    ("where", "reason"),
    [
        ("status ==", "is not a CEL expression: line 1, character"),
        ("status = 'paid'", "is not a CEL expression"),
        ("status == 'paid' && lower(status) == 'x'", "unknown function 'lower'"),
        ("status.startWith('x')", "did you mean startsWith"),
        ("a" * 5000, "more than 4000 characters"),
        (" ", "is empty"),
        ("`order-id` == 1", "is not a CEL expression"),
    ],
)
def test_invalid_expressions_are_refused(where: str, reason: str) -> None:
    with pytest.raises(ConfigError) as error:
        Translator(TICDC, "canal-json", rows=[rule("true"), rule(where)])
    (problem,) = error.value.problems
    assert problem.path == "rows.1.where"
    assert reason in problem.text


def test_all_problems_of_rules_are_reported() -> None:
    rules = [rule(tables="shop"), rule("true", tables="shop")]
    with pytest.raises(ConfigError) as error:
        Translator(TICDC, "canal-json", rows=rules)
    assert [problem.path for problem in error.value.problems] == [
        "rows.0.tables",
        "rows.0.where",
        "rows.1.tables",
    ]


def test_a_missing_library_is_named(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cel", None)
    with pytest.raises(ConfigError, match=r"common-expression-language.*pip install '.\[rows\]'"):
        Translator(TICDC, "canal-json", rows=[rule("true")])


def test_rules_without_a_condition_do_not_need_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(__import__("sys").modules, "cel", None)
    translator = Translator(TICDC, "canal-json", rows=[rule("", "note")])
    assert translator.translate(compact(message()))


def test_the_columns_of_an_expression_are_known() -> None:
    expression = Expression(
        "status in ['a'] && row.x == 1 && [1].exists(y, y == amount) && type(note) == int"
    )
    assert expression.columns == ("amount", "note", "status")
    assert expression.uses_row
    assert copy.deepcopy(expression).text == expression.text
    assert expression.evaluate({"status": "a", "row": {"x": 1}, "amount": 1, "note": 2})


def test_a_name_that_a_macro_binds_may_also_be_a_column() -> None:
    where = Expression("[1, 2].exists(x, x == level) && x == 3")
    assert where.columns == ("level",)
    assert where.possible_columns == {"x"}
    assert where.evaluate({"x": 3, "level": 2})
    assert not where.evaluate({"x": 4, "level": 2})
