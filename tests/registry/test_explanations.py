"""What is said of schemas that are not compatible."""

from __future__ import annotations

import json
from typing import Any

import pytest

from relay.io.registry.incompatible import explanation


def record(*fields: Any, name: str = "a.Value") -> str:
    return json.dumps({"type": "record", "name": name, "fields": list(fields)})


def envelope(*fields: Any) -> str:
    """The value of a row, as Debezium has it."""
    row = {"type": "record", "name": "Value", "fields": list(fields)}
    images = [
        {"name": "before", "type": ["null", row], "default": None},
        {"name": "after", "type": ["null", "Value"]},
    ]
    return json.dumps({"type": "record", "name": "Envelope", "namespace": "a", "fields": images})


ID, LONG = {"name": "id", "type": "int"}, {"name": "id", "type": "long"}
TEXT, NULL = {"name": "id", "type": "string"}, {"name": "id", "type": ["null", "int"], "default": None}
NEW, SET = {"name": "b", "type": "int"}, {"name": "b", "type": "int", "default": 0}


@pytest.mark.parametrize(
    ("old", "new", "rule", "said"),
    [
        (record(ID), record(ID, NEW), "BACKWARD", "field 'b' is new and has no default"),
        (record(ID), record(ID, NEW), "BACKWARD_TRANSITIVE", "field 'b' is new and has no default"),
        (envelope(ID), envelope(ID, NEW), "FULL", "field 'before.b' is new and has no default"),
        (record(ID, NEW), record(ID), "FORWARD", "field 'b' is gone and had no default"),
        (record(ID), record(TEXT), "BACKWARD", "field 'id' was int and is string"),
        (record(LONG), record(ID), "BACKWARD", "field 'id' was long and is int"),
        (record(ID), record(LONG), "FORWARD", "field 'id' was int and is long"),
        (record(NULL), record(ID), "BACKWARD", "field 'id' could be null, and cannot be now"),
        (record(ID), record(NULL), "FORWARD", "field 'id' can be null, and could not be before"),
        (record(ID), record(ID, name="a.Other"), "BACKWARD", "record at the top has another name"),
    ],
)
def test_the_field_and_the_rule_are_said(old: str, new: str, rule: str, said: str) -> None:
    text = explanation(old, new, rule)
    assert said in text
    assert f"its compatibility level is {rule}" in text
    assert "NONE" in text


@pytest.mark.parametrize(
    ("old", "new", "rule"),
    [
        (record(ID), record(ID, SET), "BACKWARD"),
        (record(ID), record(LONG), "BACKWARD"),
        (record(LONG), record(ID), "FORWARD"),
        (record(ID, NEW), record(ID), "BACKWARD"),
        (record(ID), record(NULL), "BACKWARD"),
        ("{", record(ID), "BACKWARD"),
        (None, record(ID), None),
    ],
)
def test_what_goes_together_is_not_blamed(old: str | None, new: str, rule: str | None) -> None:
    text = explanation(old, new, rule)
    assert text.startswith("the registry does not report the field; its compatibility level is ")


def test_many_differences_are_counted() -> None:
    fields = [{"name": f"c{at}", "type": "int"} for at in range(9)]
    assert "; and 4 more; its compatibility level" in explanation(record(ID), record(ID, *fields), "BACKWARD")


def test_a_column_without_a_default_has_another_way_out() -> None:
    assert "Either give the column a default" in explanation(record(ID), record(ID, NEW), "BACKWARD")
    assert "Set the compatibility" in explanation(record(ID), record(TEXT), "BACKWARD")
