"""Which rows are written, and as what."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from row_rules_support import CREATE, PAID, TYPES, compact, message, rule, source_records, statement, story
from support import TICDC

from relay import (
    CodecError,
    ColumnAction,
    ColumnRule,
    ConditionFailed,
    ConsumerRecord,
    Loss,
    Op,
    RowChange,
    RowRule,
    Translator,
    UnknownBefore,
)

#: The rows of the story that are written: operation and id.
WRITTEN = [("INSERT", 1), ("INSERT", 1), ("DELETE", 1), ("UPDATE", 1), ("DELETE", 1)]


def outcome(
    *rules: RowRule, messages: list[dict[str, Any]], **settings: Any
) -> list[tuple[str, dict[str, Any]]]:
    translator = Translator(TICDC, "canal-json", rows=rules, **settings)
    out = [
        each
        for at, text in enumerate([CREATE, *messages])
        for each in translator.translate(compact(text, at))
    ]
    parsed = [json.loads(each.value or b"null") for each in out]
    return [(each["type"], each["data"][0]) for each in parsed if not each["isDdl"]]


def operations(*rules: RowRule, messages: list[dict[str, Any]]) -> list[str]:
    return [op for op, _ in outcome(*rules, messages=messages)]


@pytest.mark.parametrize(
    "source",
    [
        TICDC,
        "canal-json",
        "ticdc-open-protocol",
        "ticdc-debezium",
        "debezium-json",
        "ticdc-simple-json",
        "maxwell-json",
    ],
)
@pytest.mark.parametrize(
    "target", ["canal-json", "debezium-json", "ticdc-open-protocol", "ticdc-simple-json"]
)
def test_rows_are_those_of_filtered_events(source: str, target: str) -> None:
    """Rows are written as by a translator without rules that gets only the rows that remain."""
    translator = Translator(source, target, rows=[rule(PAID)])
    reader = Translator.reader(target) if target != "ticdc-simple-json" else None
    found: list[tuple[str, Any]] = []
    for each in source_records(source):
        for out in translator.translate(each):
            if reader is not None:
                given = ConsumerRecord(
                    out.topic, out.partition, each.offset, out.timestamp_ms, out.key, out.value
                )
                found += [
                    (event.op.value.upper(), str((event.after_dict() or event.before_dict() or {})["id"]))
                    for event in reader.inspect(given)
                    if isinstance(event, RowChange)
                ]
    if reader is not None:
        assert [(op, int(id) % 2**64) for op, id in found] == [*WRITTEN, ("INSERT", 2**64 - 1)]
    assert translator.losses[Loss.ROWS_FILTERED] == 3
    assert translator.events["insert"] == 3
    assert translator.events["delete"] == 2


def test_a_row_that_enters_has_no_old_row_and_one_that_leaves_has_its_old_values() -> None:
    enters, leaves = (
        message("UPDATE", {"status": "new", "note": "b"}),
        message("UPDATE", {"status": "paid", "note": "b"}, status="new"),
    )
    (_, inserted), (_, deleted) = outcome(rule(PAID), messages=[enters, leaves])
    assert (inserted["status"], inserted["note"]) == ("paid", "a")
    assert (deleted["status"], deleted["note"]) == ("paid", "b")


def test_statements_watermarks_and_other_tables_pass() -> None:
    translator = Translator(
        TICDC, "canal-json", rows=[rule("false", tables="other.*"), rule("false", tables="d.t")]
    )
    watermark = CREATE | {
        "type": "TIDB_WATERMARK",
        "isDdl": False,
        "sql": "",
        "_tidb": {"watermarkTs": 1 << 60},
    }
    other = message() | {"table": "u"}
    texts = [CREATE, message(), other, watermark, statement("ALTER TABLE `t` ADD COLUMN `x` int", "ALTER")]
    for at, text in enumerate(texts):
        translator.translate(compact(text, at))
    assert translator.events == {"schema-change": 2, "insert": 1, "watermark": 1}
    assert translator.losses[Loss.ROWS_FILTERED] == 1


def test_conditions_see_the_sources_names_and_unhidden_values() -> None:
    columns = [
        ColumnRule(tables=("d.t",), columns=("status",), action=ColumnAction.RENAME, name="state"),
        ColumnRule(tables=("d.t",), columns=("note",), action=ColumnAction.DROP),
    ]
    messages = [message(note="a"), message(note="b"), message(status="new")]
    found = outcome(rule(f"{PAID} && note == 'a'"), messages=messages, columns=columns)
    assert [row for _, row in found] == [
        {"id": "1", "state": "paid", "amount": "20.50", "seen_at": "2024-01-01 00:00:00"}
    ]


def test_all_rules_of_a_table_apply() -> None:
    messages = [message(), message(note="b"), message(status="new")]
    assert operations(rule(PAID), rule("note == 'a'", tables="*.t"), messages=messages) == ["INSERT"]


# ---------------------------------------------------------------- unknown rows


def counted(given: RowRule, text: dict[str, Any]) -> dict[str, int]:
    """The events that are written for a message, by kind."""
    translator = Translator(TICDC, "canal-json", rows=[given])
    translator.translate(compact(text))
    return translator.events


def before_unknown(**more: Any) -> dict[str, Any]:
    """An update without its old row."""
    return message("UPDATE", at=1, **more) | {"old": None}


@pytest.mark.parametrize(
    ("unknown_before", "selected", "not_selected"),
    [
        (UnknownBefore.SELECTED, {"update": 1}, {"delete": 1}),
        (UnknownBefore.NOT_SELECTED, {"insert": 1}, {}),
    ],
)
def test_an_unknown_old_row(
    unknown_before: UnknownBefore, selected: dict[str, int], not_selected: dict[str, int]
) -> None:
    given = rule(PAID, unknown_before=unknown_before)
    assert counted(given, before_unknown()) == selected
    assert counted(given, before_unknown(status="new")) == not_selected


def test_a_delete_of_an_unknown_old_row_has_its_key_alone() -> None:
    translator = Translator(TICDC, "debezium-json", rows=[rule(PAID)])
    translator.translate(compact(CREATE))
    (out, *_) = translator.translate(compact(before_unknown(status="new"), 1))
    payload = json.loads(out.value or b"null")
    payload = payload.get("payload", payload)
    assert payload["op"] == "d"
    assert {name: value for name, value in payload["before"].items() if value is not None} == {"id": 1}


def test_an_unknown_old_row_may_be_an_error() -> None:
    with pytest.raises(ConditionFailed, match="the row before its change is unknown"):
        operations(rule(PAID, unknown_before=UnknownBefore.ERROR), messages=[before_unknown()])


# ---------------------------------------------------------------- ignored updates


@pytest.mark.parametrize(
    ("old", "written"),
    [
        ({"seen_at": "2023-01-01 00:00:00"}, []),
        ({"seen_at": "2023-01-01 00:00:00", "note": "b"}, []),
        ({"seen_at": None}, []),
        ({"amount": "20.49"}, ["UPDATE"]),
        ({"seen_at": "2023-01-01 00:00:00", "amount": "1.00"}, ["UPDATE"]),
        ({"id": "2"}, ["UPDATE"]),
        ({}, []),
    ],
)
def test_updates_that_change_nothing_else_are_left_out(old: dict[str, Any], written: list[str]) -> None:
    given = rule("", "SEEN_AT", "note", "id")
    assert operations(given, messages=[message("UPDATE", old)]) == written


def test_an_update_whose_old_row_is_unknown_is_not_ignored() -> None:
    assert counted(rule("", "seen_at"), before_unknown()) == {"update": 1}


def test_a_row_that_enters_or_leaves_is_not_ignored() -> None:
    enters = message("UPDATE", {"status": "new"})
    assert operations(rule(PAID, "status"), messages=[enters]) == ["INSERT"]


def test_inserts_and_deletes_are_not_ignored() -> None:
    assert operations(rule("", *TYPES), messages=[message(), message("DELETE")]) == ["INSERT", "DELETE"]


# ---------------------------------------------------------------- a reference

_VALUES = st.fixed_dictionaries(
    {
        "status": st.sampled_from(["paid", "new", None]),
        "amount": st.sampled_from(["-0.01", "0.00", "99.99", "100.00"]),
    }
)


@given(before=st.none() | _VALUES, after=st.none() | _VALUES)
def test_the_result_is_that_of_a_predicate_on_events(
    before: dict[str, Any] | None, after: dict[str, Any] | None
) -> None:
    def is_in(row: dict[str, Any] | None) -> bool:
        return row is not None and row["status"] == "paid" and float(row["amount"]) >= 99.99

    if before is None and after is None:
        return
    op = "UPDATE" if before and after else "INSERT" if after else "DELETE"
    change = message(op, before if op == "UPDATE" else None, **(after or before or {}))
    was, now = is_in(before), is_in(after)
    expected = {(True, True): ["UPDATE"], (False, True): ["INSERT"], (True, False): ["DELETE"]}.get(
        (was, now), []
    )
    assert operations(rule("status == 'paid' && amount >= 99.99"), messages=[change]) == expected


def test_a_failed_record_changes_nothing() -> None:
    translator = Translator(TICDC, "canal-json", rows=[rule("amount > 1.0")])
    first, *_ = story()
    translator.translate(first)
    before = translator.events
    with pytest.raises(CodecError):
        translator.translate(compact(message(amount=None), 1))
    assert translator.events == before
    assert Op.INSERT.value not in translator.events
