"""Rows of tables with row rules keep their templates; the pipeline and templates agree."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest
from column_rules_support import KEY
from column_rules_support import rule as column_rule
from engine_support import ENGINE, ENGINES
from hypothesis import given
from hypothesis import strategies as st
from row_rules_support import CREATE, PAID, compact, message, rule, source_records, statement
from support import TICDC, captured
from templates_support import Both, outcome

from relay import ConsumerRecord, Loss, RowRule, UnknownBefore
from relay.templates.engine import Engine

TARGETS = ["canal-json", "debezium-json", "ticdc-open-protocol", "flat-json", "maxwell-json"]


def both(*rules: RowRule, target: str = "canal-json", engine: type[Engine] = ENGINE, **settings: Any) -> Both:
    return Both(TICDC, target=target, engine=engine, rows=rules, **settings)


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", TARGETS)
def test_selected_rows_have_templates(engine: type[Engine], target: str) -> None:
    found = both(rule(PAID), target=target, engine=engine).learn(compact(CREATE))
    for op, old in (("INSERT", None), ("UPDATE", {"note": "x"}), ("DELETE", None)):
        found.learn(*[compact(message(op, old, at), at) for at in (1, 2)])
        assert found.fits(compact(message(op, old, 3, note='a "quoted"\n\u20ac', amount="-0.01"), 3))
        assert found.fits(compact(message(op, old, 4, note=None, amount=None), 4))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("target", TARGETS)
def test_rows_that_are_left_out_have_templates(engine: type[Engine], target: str) -> None:
    found = both(rule(PAID), target=target, engine=engine).learn(compact(CREATE))
    for op, old in (("INSERT", None), ("UPDATE", {"note": "x"}), ("DELETE", None)):
        found.learn(*[compact(message(op, old, at), at) for at in (1, 2)])
        assert found.fits(compact(message(op, old, 3, status="new"), 3))
        assert found.fits(compact(message(op, old, 4, status=None), 4))
    assert found.templated.losses[Loss.ROWS_FILTERED] == 6


def test_rows_that_enter_or_leave_take_the_slow_path() -> None:
    found = both(rule(PAID)).learn(compact(CREATE))
    found.learn(*[compact(message("UPDATE", {"status": "paid"}, at), at) for at in (1, 2)])
    assert found.fits(compact(message("UPDATE", {"status": "paid"}, 3), 3))
    assert not found.fits(compact(message("UPDATE", {"status": "new"}, 4), 4))
    assert not found.fits(compact(message("UPDATE", {"status": "paid"}, 5, status="new"), 5))
    assert found.fits(compact(message("UPDATE", {"status": "new"}, 6, status="old"), 6))


def test_a_row_that_cannot_be_decided_is_the_same_error() -> None:
    found = both(rule("amount > 1.0")).learn(compact(CREATE))
    found.learn(*[compact(message(at=at), at) for at in (1, 2)])
    assert found.fits(compact(message(at=3, amount="99.00"), 3))
    assert not found.fits(compact(message(at=4, amount=None), 4))
    assert "ConditionFailed" in str(outcome(found.templated, compact(message(at=4, amount=None), 4)))
    assert not found.fits(compact(message(at=5, amount="99999999999999.25"), 5))


@pytest.mark.parametrize("where", ["row.status == 'paid'", "note == 'a'"])
def test_conditions_on_all_columns_and_ignored_updates_have_no_templates(where: str) -> None:
    ignored = () if "row" in where else ("seen_at",)
    found = both(rule(where, *ignored)).learn(compact(CREATE))
    for at in range(1, 5):
        assert not found.fits(compact(message("UPDATE", {"amount": "1.00"}, at), at))
        assert not found.fits(
            compact(message("UPDATE", {"seen_at": "2020-01-01 00:00:00"}, at + 10), at + 10)
        )


def test_column_rules_apply_to_rows_with_templates() -> None:
    columns = [column_rule("drop", "status"), column_rule("hash", "note")]
    found = both(rule(PAID), columns=columns, hash_key=KEY).learn(compact(CREATE))
    found.learn(*[compact(message(at=at), at) for at in (1, 2)])
    assert found.fits(compact(message(at=3, note="b"), 3))
    assert found.fits(compact(message(at=4, status="new"), 4))


@pytest.mark.parametrize(
    ("kind", "where", "values"),
    [
        ("bigint unsigned", "v > 7u", ["0", "7", "8", "18446744073709551615", None]),
        ("int", "V in [1, 2]", ["-1", "1", "2", "2147483647"]),
        ("decimal(20,3)", "v >= 0.1", ["0.099", "0.100", "0.1", "-0.100", "12345678901234567.000"]),
        ("decimal(20,0)", "v > 9007199254740992", ["9007199254740992", "9007199254740993"]),
        ("varchar(9)", "v.startsWith('é')", ["é", "e", "", '\u20ac\n"', "ÉÉ"]),
        ("enum('low','high')", "v == 'high'", ["1", "2", "0"]),
        ("set('a','b')", "v == 'a,b'", ["0", "1", "3"]),
        ("date", "v < '2024-01-01'", ["2023-12-31", "2024-01-01", "0000-00-00"]),
        ("datetime", "v < '2024-01-01 00:00:00'", ["2023-12-31 23:59:59", "2024-01-01 00:00:00"]),
        ("timestamp", "v < '2024-01-01 00:00:00'", ["2023-12-31 23:59:59", "2024-01-01 00:00:00"]),
        ("time", "v == '-01:00:00'", ["-01:00:00", "01:00:00"]),
        ("double", "v > 0.5", ["0.5", "0.75", "1e+17"]),
        ("varbinary(3)", "v == b'a'", ["a", "b", "\xff"]),
        ("year", "v >= 2024", ["2023", "2024", "0000"]),
        ("json", "v.contains('x')", ['{"x": 1}', "[]"]),
    ],
)
@pytest.mark.parametrize("engine", ENGINES)
def test_values_are_those_of_the_pipeline(
    engine: type[Engine], kind: str, where: str, values: list[str | None]
) -> None:
    types = {"id": "bigint unsigned", "v": kind}
    ddl = ", ".join(f"`{name}` {text}" for name, text in types.items())
    plain = {name: text.partition("(")[0] for name, text in types.items()}
    given = rule(f"v == null || ({where})".replace("v == null", "V == null"))
    found = both(given, target="debezium-json", engine=engine)
    found.learn(compact(statement(f"CREATE TABLE `t` ({ddl}, PRIMARY KEY (`id`))")))
    for at, value in enumerate([*values, *values, *values, *values]):
        found.fits(compact(message(types=plain, at=at, v=value), at))
        found.fits(compact(message("UPDATE", {"v": values[0]}, types=plain, at=at, v=value), at))
    assert found.templated.events == found.plain.events


@pytest.mark.parametrize(
    "source", ["canal-json", "ticdc-open-protocol", "ticdc-debezium", "debezium-json", "maxwell-json"]
)
@pytest.mark.parametrize("target", ["canal-json", "ticdc-simple-json"])
def test_rows_of_other_sources_are_those_of_the_pipeline(source: str, target: str) -> None:
    """And they have templates where they have them without rules."""
    fast = []
    for rules in ([rule(PAID)], []):
        found = Both(source, target=target, engine=ENGINE, rows=rules, topic="{database}.{table}")
        records = source_records(source)
        for turn in range(6):
            for each in records if not turn else records[1:]:
                found.fits(msgspec.structs.replace(each, offset=each.offset + turn * 1000 * len(records)))
        fast.append(found.templated.paths["fast"])
        assert (found.templated.losses[Loss.ROWS_FILTERED] > 10) is bool(rules)
    assert bool(fast[0]) is bool(fast[1])


def test_rows_of_other_tables_keep_their_templates() -> None:
    found = both(rule("false", tables="other.*")).learn(compact(CREATE))
    found.learn(*[compact(message(at=at), at) for at in (1, 2)])
    assert found.fits(compact(message(at=3), 3))


_STATUS = st.sampled_from(["paid", "new", None])
_CHANGES = st.lists(
    st.tuples(st.sampled_from(["INSERT", "UPDATE", "DELETE"]), _STATUS, _STATUS, st.booleans()), max_size=12
)


@given(changes=_CHANGES, unknown_before=st.sampled_from(UnknownBefore))
def test_any_order_of_changes_is_translated_as_by_the_pipeline(
    changes: list[tuple[str, str | None, str | None, bool]], unknown_before: UnknownBefore
) -> None:
    found = both(rule(PAID, unknown_before=unknown_before)).learn(compact(CREATE))
    for at, (op, status, old, has_old) in enumerate([*changes, *changes, *changes]):
        text = message(op, {"status": old} if op == "UPDATE" else None, at, status=status)
        found.fits(compact(text if has_old else text | {"old": None}, at))


def test_messages_of_several_rows_are_those_of_the_pipeline() -> None:
    found = Both("canal-json", target="canal-json", engine=ENGINE, rows=[rule(PAID)])
    one = message()
    rows = [one["data"][0] | {"id": str(at), "status": ["paid", "new"][at % 2]} for at in range(3)]
    for at in range(6):
        record: ConsumerRecord = compact(one | {"data": rows}, at)
        found.fits(record)
        found.fits(compact(one, at + 100))
    assert found.templated.events["insert"] == 18


@pytest.mark.parametrize("target", ["canal-json", "debezium-json"])
@pytest.mark.parametrize("where", ["id > 3", "has(row.name) && row.name != null"])
def test_captured_rows_are_those_of_the_pipeline(target: str, where: str) -> None:
    found = both(rule(where, tables="*.*"), target=target)
    records = [
        each
        for name in ("09_dml", "10_ddl", "12_bulk")
        for each in captured(f"ticdc/canal-json.tidb-extension/{name}")
    ]
    for each in records[:600]:
        found.fits(each)
    assert found.templated.losses[Loss.ROWS_FILTERED] > 0


@pytest.mark.parametrize("engine", ENGINES)
def test_an_update_of_a_key_of_which_half_is_written_has_no_template(engine: type[Engine]) -> None:
    """`deletes=drop` writes its INSERT alone: the message began with the cells of the condition."""
    wanted = rule("id < 5000 && status != 'secret'")
    found = both(wanted, target="flat-json", engine=engine, target_options={"deletes": "drop"})
    found.learn(compact(CREATE))
    moved = [{"id": str(at + 1000), "status": "paid"} for at in range(4)]
    found.learn(*[compact(message("UPDATE", moved[at], at, id=str(at)), at) for at in (1, 2)])
    assert not found.fits(compact(message("UPDATE", moved[3], 3, id="3"), 3))
    assert not found.fits(compact(message("UPDATE", moved[3], 4, id="3", status="secret"), 4))


@pytest.mark.parametrize("engine", ENGINES)
@pytest.mark.parametrize("other", ["type(amount) == double", "amount < 100.0", "amount / 2 == 10"])
def test_several_conditions_on_one_decimal_see_its_value(engine: type[Engine], other: str) -> None:
    """The second one saw a number without a fraction as an integer."""
    found = both(rule("amount > 0.0"), rule(other), engine=engine).learn(compact(CREATE))
    found.learn(*[compact(message(at=at), at) for at in (1, 2)])
    for at, amount in enumerate(["20.50", "20.00", "0.10", "12345678901.25"], 3):
        found.fits(compact(message(at=at, amount=amount), at))
