"""Digits of DATETIME, TIME and TIMESTAMP whose columns are not known: what bare words mean, and the unit of
Debezium's DATETIME before and after the table's DDL.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA, block, ddl, message
from debezium_support import record as debezium_record
from open_support import cell, framed
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, record, row_message

from relay import Loss, NotRepresentable, Translator

CONTENT_COMPATIBLE = {"content-compatible": "true"}
MILLIS, MICROS = "io.debezium.time.Timestamp", "io.debezium.time.MicroTimestamp"


def canal_row(types: dict[str, str], values: dict[str, Any], **more: Any) -> dict[str, Any]:
    return row_message(types, values, pkNames=["id"], **more)


def canal_ddl(fsp: str) -> dict[str, Any]:
    sql = f"CREATE TABLE t (id INT PRIMARY KEY, at DATETIME{fsp})"
    return {
        "database": "d",
        "table": "t",
        "isDdl": True,
        "type": "CREATE",
        "sql": sql,
        "es": 1,
        "ts": 1,
        "data": None,
    }


def written(
    source: str, message_: Any, options: dict[str, str] | None = None, known: str | None = None
) -> dict[str, Any]:
    translator = Translator(source, DEBEZIUM, None, options)
    if known is not None:
        translator.translate(record(canal_ddl(known)))
    (out,) = translator.translate(record(message_, offset=1))
    value: dict[str, Any] = json.loads(out.value or b"")
    return value


def name_of(value: dict[str, Any], column: str = "at") -> str:
    (name,) = [
        field["name"]
        for image in value["schema"]["fields"][:1]
        for field in image["fields"]
        if field["field"] == column
    ]
    return str(name)


DIGITS = [("", "", 1768443630000, MILLIS), (".1", "(1)", 1768443630100, MILLIS), (".123", "(3)", 1768443630123, MILLIS),
          (".1234", "(4)", 1768443630123400, MICROS), (".000000", "(6)", 1768443630000000, MICROS)]  # fmt: skip


@pytest.mark.parametrize(("digits", "fsp", "count", "name"), DIGITS)
@pytest.mark.parametrize(("source", "word"), [(CANAL, "datetime"), (TICDC, "datetime")])
def test_the_unit_does_not_change_when_the_ddl_becomes_known(
    source: str, word: str, digits: str, fsp: str, count: int, name: str
) -> None:
    bare = {"id": "int", "at": word, "v": "varchar"}
    row = canal_row(bare, {"id": "1", "at": "2026-01-15 02:20:30" + digits, "v": "x"})
    for options in (NO_SCHEMA, {}):
        before, after = written(source, row, options), written(source, row, options, known=fsp)
        assert before["payload"]["after"]["at"] == after["payload"]["after"]["at"] == count
        if not options:
            assert name_of(before) == name_of(after) == name


@pytest.mark.parametrize(("digits", "_", "count", "name"), DIGITS)
def test_open_protocol_tells_the_digits_in_its_text(digits: str, _: str, count: int, name: str) -> None:
    row = open_row({"u": {"id": cell(3, 1, 11), "at": cell(12, "2026-01-15 02:20:30" + digits, 64)}})
    (out,) = Translator(OPEN, DEBEZIUM).translate(framed(row))
    value = json.loads(out.value or b"")
    assert (value["payload"]["after"]["at"], name_of(value)) == (count, name)


def test_both_images_of_an_update_have_one_unit() -> None:
    row = canal_row(
        {"id": "int", "at": "datetime", "v": "varchar"},
        {"id": "1", "at": "2026-01-15 02:20:30.000001", "v": "x"},
        op="UPDATE",
        old=[{"at": "2026-01-15 02:20:30.000000"}],
    )
    value = written(TICDC, row)
    assert [value["payload"][image]["at"] for image in ("before", "after")] == [
        1768443630000000,
        1768443630000001,
    ]
    assert name_of(value) == MICROS


def test_digits_beyond_the_known_column_are_refused_with_its_name() -> None:
    row = canal_row({"id": "int", "at": "datetime"}, {"id": "1", "at": "2026-01-15 02:20:30.000001"})
    with pytest.raises(NotRepresentable) as caught:
        written(TICDC, row, known="(3)")
    assert caught.value.path == "payload.at"


# ---------------------------------------------------------------- bare words


BARE = {"id": "int(11)", "at": "datetime", "t": "time", "ts": "timestamp", "b": "bit"}
BARE_ROW = {"id": "1", "at": "2026-01-15 02:20:30", "t": "10:00:00", "ts": "2026-01-15 02:20:30", "b": "1"}


@pytest.mark.parametrize(("source", "options"), [(CANAL, {}), (TICDC, {}), (TICDC, CONTENT_COMPATIBLE)])
@pytest.mark.parametrize(
    ("target", "target_options"),
    [(CANAL, {}), (TICDC, CONTENT_COMPATIBLE | {"enable-tidb-extension": "true"})],
)
def test_bare_words_of_full_types_lose_nothing(
    source: str, options: dict[str, str], target: str, target_options: dict[str, str]
) -> None:
    row = canal_row(BARE, BARE_ROW, _tidb={"commitTs": 5})
    translator = Translator(source, target, options, target_options)
    (out,) = translator.translate(record(row))
    assert not translator.losses[Loss.TYPE_PARAMETERS]
    assert json.loads(out.value or b"")["mysqlType"] == BARE | {"b": "bit(1)"}


def test_bare_words_beside_bare_types_leave_the_digits_open() -> None:
    """Alibaba DTS prints types without parameters."""
    types = {"id": "INT", "at": "DATETIME", "v": "VARCHAR"}
    translator = Translator(CANAL, CANAL)
    (out,) = translator.translate(
        record(canal_row(types, {"id": "1", "at": "2026-01-15 02:20:30.123", "v": "x"}))
    )
    assert translator.losses[Loss.TYPE_PARAMETERS] == 1
    assert json.loads(out.value or b"")["mysqlType"]["at"] == "datetime"


def test_a_bare_word_agrees_with_any_known_digits() -> None:
    translator = Translator(CANAL, CANAL)
    translator.translate(record(canal_ddl("(3)")))
    row = canal_row({"id": "int(11)", "at": "datetime"}, {"id": "1", "at": "2026-01-15 02:20:30.123"})
    (out,) = translator.translate(record(row, offset=1))
    assert json.loads(out.value or b"")["mysqlType"]["at"] == "datetime(3)"
    assert not translator.losses[Loss.SCHEMA_INFERRED]


# ---------------------------------------------------------------- from Debezium


def field(name: str | None, column: str, type_: str = "int64") -> dict[str, Any]:
    return {"type": type_, "optional": True, "field": column} | ({"name": name, "version": 1} if name else {})


@pytest.mark.parametrize(("name", "count", "text"), [
    (MILLIS, 1768443630000, "2026-01-15 02:20:30"),
    (MILLIS, 1768443630120, "2026-01-15 02:20:30.120"),
    (MICROS, 1768443630000000, "2026-01-15 02:20:30"),
    (MICROS, 1768443630000100, "2026-01-15 02:20:30.000100"),
])  # fmt: skip
def test_debezium_without_ddl_tells_the_unit_and_no_digits(name: str, count: int, text: str) -> None:
    """`Timestamp` is a DATETIME with 0 to 3 digits, `MicroTimestamp` one with 4 to 6."""
    one = message(after={"id": 1, "at": count}) | {
        "schema": block(field(None, "id", "int32"), field(name, "at"))
    }
    translator = Translator(DEBEZIUM, CANAL)
    (out,) = translator.translate(debezium_record(one))
    value = json.loads(out.value or b"")
    assert (value["data"][0]["at"], value["mysqlType"]["at"]) == (text, "datetime")
    assert translator.losses[Loss.TYPE_PARAMETERS] == 1
    (out,) = Translator(DEBEZIUM, DEBEZIUM).translate(debezium_record(one))
    back = json.loads(out.value or b"")
    assert (back["payload"]["after"]["at"], name_of(back)) == (count, name)


def test_after_the_ddl_the_digits_are_the_columns() -> None:
    translator = Translator(DEBEZIUM, CANAL)
    translator.translate(debezium_record(ddl("CREATE TABLE t (id INT PRIMARY KEY, at DATETIME(2))")))
    one = message(after={"id": 1, "at": 1768443630120}) | {
        "schema": block(field(None, "id", "int32"), field(MILLIS, "at"))
    }
    (out,) = translator.translate(debezium_record(one, offset=1))
    value = json.loads(out.value or b"")
    assert (value["data"][0]["at"], value["mysqlType"]["at"]) == ("2026-01-15 02:20:30.12", "datetime(2)")
