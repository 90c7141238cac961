"""Rows that no MySQL has, as Maxwell's messages and for them: numbers beyond their column, names and bytes
that are none. Each is read and written as something, or refused with a reason.
"""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from support import CANAL, OPEN, record, row_message

from relay import ABSENT, Loss, NotRepresentable, RowChange, SchemaChange, Translator
from relay.model.errors import Malformed
from relay.model.events import ColumnType

MAXWELL = "maxwell-json"


def row(data: str, **more: Any) -> bytes:
    """A row of `d.t`, with its columns as JSON text."""
    head = json.dumps({"database": "d", "table": "t", "type": "insert", "ts": 1_700_000_001, **more})[:-1]
    return f'{head},"data":{data}}}'.encode()


def statement(sql: str, **more: Any) -> bytes:
    fields = {
        "type": "table-create",
        "database": "d",
        "table": "t",
        "ts": 1_700_000_000_000,
        "sql": sql,
        **more,
    }
    return json.dumps(fields).encode()


def read(*messages: bytes, options: dict[str, str] | None = None) -> list[Any]:
    translator = Translator(MAXWELL, MAXWELL, options, {"output_ddl": "true"})
    return [event for at, each in enumerate(messages) for event in translator.inspect(record(each, at))]


def only_cell(change: RowChange) -> tuple[ColumnType, Any]:
    assert change.after is not None
    ((column, cell),) = zip(change.schema.columns, change.after, strict=True)
    return column.type, cell


@pytest.mark.parametrize(
    ("column_type", "number", "guess"),
    [
        ("INT", str(1 << 63), ColumnType("bigint", unsigned=True)),
        ("BIGINT", str(1 << 63), ColumnType("bigint", unsigned=True)),
        ("BIGINT UNSIGNED", str(1 << 64), ColumnType("decimal")),
        ("BIT(8)", str(1 << 64), ColumnType("decimal")),
        ("INT", "-9223372036854775809", ColumnType("decimal")),
    ],
)
def test_a_number_beyond_its_column_is_guessed(column_type: str, number: str, guess: ColumnType) -> None:
    _, change = read(statement(f"CREATE TABLE t (c {column_type})"), row(f'{{"c":{number}}}'))
    assert only_cell(change) == (guess, Decimal(number))


@pytest.mark.parametrize(
    "number",
    [
        "1e99999999999999999999",
        "-1.5e99999999999999999999",
        "1" + "0" * 400,
        "7190283746e400",
        "1.5E-400",
        "1e-99999999999999999999",
    ],
)
def test_a_number_that_no_column_holds_is_a_document(number: str) -> None:
    assert only_cell(read(row(f'{{"c":{number}}}'))[0]) == (ColumnType("json"), number)


@pytest.mark.parametrize("number", ["1.7976931348623157E308", "5.0E-324"])
def test_the_extremes_of_double_are_doubles(number: str) -> None:
    assert only_cell(read(row(f'{{"c":{number}}}'))[0]) == (ColumnType("double"), float(number))


@pytest.mark.parametrize(
    ("mysql_type", "number"),
    [("int", str(1 << 64)), ("bigint", "-9223372036854775809"), ("bit(8)", str(1 << 64)), ("bit(8)", "-1")],
)
def test_a_number_that_no_reader_takes_is_not_written(mysql_type: str, number: str) -> None:
    translator = Translator(CANAL, MAXWELL)
    with pytest.raises(NotRepresentable, match="maxwell-json: c: "):
        translator.translate(record(row_message({"c": mysql_type}, {"c": number})))


@pytest.mark.parametrize(("mysql_type", "number"), [("int", 1 << 63), ("bit(8)", (1 << 64) - 1)])
def test_a_number_beyond_its_column_is_written_where_readers_take_it(mysql_type: str, number: int) -> None:
    (out,) = Translator(CANAL, MAXWELL).translate(record(row_message({"c": mysql_type}, {"c": str(number)})))
    assert json.loads(out.value or b"")["data"] == {"c": number}


def test_bytes_that_are_no_text_in_an_unknown_member_are_refused() -> None:
    with pytest.raises(Malformed, match="not UTF-8"):
        read(row('{"c":1}')[:-1] + b',"other":"\xff"}')


@pytest.mark.parametrize("options", [{}, {"output_nulls": "false"}])
def test_a_row_of_nulls_names_no_columns(options: dict[str, str]) -> None:
    _, change = read(statement("CREATE TABLE t (c INT)"), row("{}"), options=options)
    assert only_cell(change) == (ColumnType("int"), None)
    translator = Translator(MAXWELL, CANAL, options)
    assert translator.translate(record(row("{}"))) == [], "nobody knows its columns"
    assert translator.losses[Loss.EMPTY_ROW] == 1


@pytest.mark.parametrize(
    ("options", "data", "after"),
    [
        ({}, "{}", (None,)),  # nobody writes `{}` for a row that has values
        ({"output_nulls": "false"}, "{}", (None,)),
        ({"output_nulls": "false"}, '{"b":2}', (2, None)),
        ({}, '{"b":2}', (2, ABSENT)),
    ],
)
def test_what_an_update_has_made_null_is_known_from_the_old_row(
    options: dict[str, str], data: str, after: tuple[Any, ...]
) -> None:
    """Without a definition, too: what a column was stands in `old`."""
    message = row(data, type="update", old={"a": "x"})
    (change,) = read(message, options=options)
    assert (
        dict(zip([column.name for column in change.schema.columns], change.before, strict=True))["a"] == "x"
    )
    assert change.after == after
    translator = Translator(MAXWELL, CANAL, options)
    assert len(translator.translate(record(message))) == 1
    assert translator.losses[Loss.COLUMNS_ABSENT] == (ABSENT in after)


def test_a_row_of_nulls_of_a_table_with_indistinguishable_names_is_counted() -> None:
    """In camel case, two columns have one name: the definition says nothing of the row."""
    options = {"output_nulls": "false", "output_naming_strategy": "underscore_to_camelcase"}
    translator = Translator(MAXWELL, CANAL, options)
    translator.learn(record(statement("CREATE TABLE t (a_b INT, aB INT)")))
    assert translator.translate(record(row("{}"), 1)) == []
    assert translator.losses == {Loss.EMPTY_ROW: 1}


@pytest.mark.parametrize("data", ["{}", '{"a":"x"}'])
def test_a_column_that_cannot_be_null_is_not_a_null_that_was_left_out(data: str) -> None:
    """A filter has removed it: with a NULL in its place all rows would have one key."""
    sql = "CREATE TABLE t (id INT PRIMARY KEY, a VARCHAR(3), b INT)"
    translator = Translator(MAXWELL, "flat-json", {"output_nulls": "false"})
    found = [
        out
        for at, each in enumerate((statement(sql), row(data)))
        for out in translator.translate(record(each, at))
    ]
    assert [out.key for out in found] == [None]
    value = json.loads(found[0].value or b"")
    assert "id" not in value
    assert value["b"] is None
    assert translator.losses[Loss.COLUMNS_ABSENT] == 1


@pytest.mark.parametrize("column", ["DATETIME", "DATE", "TIMESTAMP", "ENUM('x')"])
def test_a_value_that_is_null_in_maxwell_may_be_left_out(column: str) -> None:
    sql = f"CREATE TABLE t (id INT, c {column} NOT NULL)"
    _, change = read(statement(sql), row('{"id":1}'), options={"output_nulls": "false"})
    assert list(change.after) == [1, 0 if column.startswith("ENUM") else None]


@pytest.mark.parametrize("target", [CANAL, OPEN, "ticdc-simple-json", "debezium-json"])
def test_a_set_of_which_nothing_else_is_known_is_text(target: str) -> None:
    translator = Translator(MAXWELL, target)
    written = translator.translate(record(row('{"id":1,"flags":["a","b"]}')))
    assert b"a,b" in (written[-1].value or b"")
    assert translator.losses[Loss.VALUE_INFERRED] == 1


@pytest.mark.parametrize("other", ["A", ""])
def test_a_definition_whose_columns_have_no_names_of_their_own_is_refused(other: str) -> None:
    columns = [{"name": name, "type": "int", "signed": True} for name in ("a", other)]
    fields = {"database": "d", "table": "t", "columns": columns, "primary-key": []}
    with pytest.raises(Malformed, match="a column without a name, or a duplicate one"):
        read(statement("CREATE TABLE t (?)", **{"def": fields}))


def test_a_key_with_a_column_twice_is_not_known() -> None:
    columns = [{"name": "a", "type": "int", "signed": True}]
    fields = {"database": "d", "table": "t", "columns": columns, "primary-key": ["a", "a"]}
    (change,) = read(statement("CREATE TABLE t (?)", **{"def": fields}))
    assert isinstance(change, SchemaChange)
    assert change.after is not None
    assert change.after.primary_key is None


@pytest.mark.parametrize("column_type", ["BIGINT UNSIGNED", "BIT(8)"])
def test_a_number_beyond_its_column_is_the_same_after_many_rows(column_type: str) -> None:
    """Rows of a table that has had many are parsed by its layout."""
    big = row(f'{{"c":{1 << 64}}}')
    *_, change = read(statement(f"CREATE TABLE t (c {column_type})"), *[row('{"c":7}')] * 40, big)
    assert only_cell(change) == (ColumnType("decimal"), Decimal(1 << 64))


@pytest.mark.parametrize("text", ["NaN", "sNaN", "Infinity", "-Infinity"])
def test_a_push_ts_that_is_no_number_is_not_believed(text: str) -> None:
    value = {"database": "d", "table": "t", "type": "insert", "ts": 7, "push_ts": text, "data": {"id": 1}}
    (change,) = Translator(MAXWELL, MAXWELL).inspect(record(value, timestamp_ms=9_000))
    assert isinstance(change, RowChange)
    assert change.emitted_at_ns == 9_000_000_000


@pytest.mark.parametrize("base", ["enum", "set"])
def test_members_that_are_not_known_are_no_members_and_can_be_read_again(base: str) -> None:
    fields = {"database": "d", "table": "t", "columns": [{"name": "c", "type": base}], "primary-key": []}
    source = statement("CREATE TABLE t (c INT)", **{"def": fields})
    (out,) = Translator(MAXWELL, MAXWELL, None, {"output_ddl": "true"}).translate(record(source))
    assert out.value is not None
    assert json.loads(out.value)["def"]["columns"][0]["enum-values"] == []
    (change,) = read(out.value)
    assert isinstance(change, SchemaChange)
    assert change.after is not None
    assert change.after.columns[0].type == ColumnType(base)
