"""Rows of GoldenGate whose tables have a definition, which no message of GoldenGate brings; the cases without one are in
tests/golden/ogg.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest

from relay import ConsumerRecord, Loss, Malformed, Op, RowChange, Translator
from relay.catalog import DdlMessage, apply_ddl
from relay.model.events import ABSENT, Position, Source, TableId

CREATE = (
    "CREATE TABLE t (id BIGINT UNSIGNED PRIMARY KEY, n DECIMAL(20, 4), f DOUBLE, b VARBINARY(9), at TIMESTAMP(6), "
    "d DATETIME, j JSON, e ENUM('x', 'y'), s VARCHAR(9) DEFAULT 'none')"
)
ROW = {
    "id": 18446744073709551615,
    "n": "12345678901234.5",
    "f": 0.1,
    "b": "AP8=",
    "at": "2020-05-13 15:40:06.000001",
    "d": "2020-02-30 00:00:00",
    "j": '{"a":1.0}',
    "e": "y",
    "s": None,
}
VALUES = (
    18446744073709551615,
    Decimal("12345678901234.5000"),
    0.1,
    b"\x00\xff",
    "2020-05-13 07:40:06.000001",
    "2020-02-30 00:00:00",
    '{"a":1.0}',
    2,
    None,
)


def reader(create: str = CREATE) -> Translator:
    """Return a reader that knows the table."""
    found = Translator.reader("ogg-json", {"timezone": "Asia/Shanghai"})
    at = Position(None, 1, "ddl", 0, 0)
    message = DdlMessage(create, TableId("d", "t"), "CREATE", Source("mysql", 1), at, 1)
    found.catalog, _ = apply_ddl(found.catalog, message)
    return found


def record(op: str, *, offset: int = 1, **members: Any) -> ConsumerRecord:
    message = {"table": "d.t", "op_type": op, "op_ts": "2020-05-13 15:40:06.000000", **members}
    return ConsumerRecord("t", 0, offset, 0, None, json.dumps(message).encode())


def change(found: Translator, message: ConsumerRecord) -> RowChange:
    (event,) = found.inspect(message)
    assert isinstance(event, RowChange)
    return event


def test_values_have_the_types_of_the_definition() -> None:
    found = reader()
    event = change(found, record("U", before=ROW, after=ROW))
    assert (event.op, event.before, event.after) == (Op.UPDATE, VALUES, VALUES)
    assert event.schema.complete
    assert event.source.event_time_ns == 1_589_355_606_000_000_000
    assert not found.losses


def test_numbers_in_quotation_marks_are_the_same() -> None:
    quoted = {name: value if value is None else str(value) for name, value in ROW.items()}
    assert change(reader(), record("I", after=quoted)).after == VALUES


def test_missing_columns_of_the_definition_are_absent() -> None:
    found = reader()
    event = change(found, record("D", before={"id": 1, "n": None}))
    assert event.before == (1, None, *[ABSENT] * 7)
    assert found.losses == {Loss.COLUMNS_ABSENT: 1}


@pytest.mark.parametrize(
    ("name", "value", "reason"),
    [
        ("id", "x", "not an integer"),
        ("b", "?", "not base64"),
        ("d", "1995-12-31:15:00:00", "not a date and time"),
    ],
)
def test_a_value_of_another_type_is_refused(name: str, value: str, reason: str) -> None:
    event = change(reader(), record("I", after=ROW | {name: value}))
    with pytest.raises(Malformed, match=rf"^ogg-json: after\.{name}: {reason}$"):
        assert event.after


def test_a_definition_that_lacks_a_column_is_outdated() -> None:
    found = reader()
    event = change(found, record("I", after={"id": 1, "new": "x"}, primary_keys=["id"]))
    assert ([column.name for column in event.schema.columns], event.after) == (["id", "new"], (1, "x"))
    assert event.schema.primary_key == ("id",)
    assert found.losses == {Loss.SCHEMA_INFERRED: 1, Loss.VALUE_INFERRED: 1}


def test_a_table_without_a_key_gets_none_from_a_message() -> None:
    found = reader("CREATE TABLE t (id INT)")
    assert change(found, record("I", after={"id": 1}, primary_keys=["id"])).schema.primary_key == ()


def test_truncation_keeps_the_definition() -> None:
    found = reader()
    assert found.inspect(record("T"))
    assert change(found, record("I", offset=2, after=ROW)).after == VALUES
