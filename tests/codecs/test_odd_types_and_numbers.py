"""Types that no server has, FLOAT's smallest numbers, and BIT with more bits than there are."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest
from debezium_support import DEBEZIUM, block, ddl, decoded, message, row
from debezium_support import record as debezium_record
from open_support import cell, framed
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, record, row_message

from relay import ConsumerRecord, Loss, Malformed, RelayError, RowChange, Translator
from relay.mysql.numbers import read_float, shortest_float32

IMPOSSIBLE = [
    "DATETIME(7)", "TIME(7)", "TIMESTAMP(99)", "DECIMAL(70,40)", "DECIMAL(66)", "DECIMAL(5,6)", "DECIMAL(65,39)", "BIT(0)",
    "BIT(65)", "YEAR(3)", "ENUM()", "SET()", f"SET({','.join(repr(str(at)) for at in range(65))})", "INT()",
]  # fmt: skip
POSSIBLE = [
    "DATETIME(6)",
    "DECIMAL(65,38)",
    "DECIMAL(0)",
    "DECIMAL(30,30)",
    "BIT(64)",
    "YEAR(4)",
    "YEAR(2)",
    "CHAR(0)",
]


def test_zero_keeps_its_sign_whichever_came_before() -> None:
    assert [str(shortest_float32(value)) for value in (0.0, -0.0, 0.0)] == ["0.0", "-0.0", "0.0"]


@pytest.mark.parametrize("declared", IMPOSSIBLE)
def test_a_type_that_no_server_has_leaves_its_table_unknown(declared: str) -> None:
    """The statement is passed on as text, and its rows are read with what they tell themselves."""
    create = ddl(f"CREATE TABLE t (id INT PRIMARY KEY, c {declared})")
    for value in ("10:00:00.1234567", 1, 1.5, "x", True, None):
        translator = Translator(DEBEZIUM, DEBEZIUM)
        assert translator.translate(debezium_record(create))
        assert translator.losses[Loss.DDL_NOT_UNDERSTOOD] == 1
        assert translator.translate(debezium_record(message(after={"id": 1, "c": value}), offset=1))
        assert translator.losses[Loss.SCHEMA_INFERRED] == 1


@pytest.mark.parametrize("declared", POSSIBLE)
def test_the_limits_themselves_are_types(declared: str) -> None:
    _, translator = decoded(debezium_record(ddl(f"CREATE TABLE t (id INT PRIMARY KEY, c {declared})")))
    assert not translator.losses


@pytest.mark.parametrize("text", ["VARC\bAR(10)", "\ufeff", "int;", "a-b unsigned", "va`r`char(3)"])
def test_a_word_that_is_no_name_names_no_type(text: str) -> None:
    message = row_message({"id": "int", "c": text}, {"id": "1", "c": "x"}, pkNames=["id"])
    create, row = Translator(TICDC, "ticdc-simple-json").translate(record(message))
    assert [
        column["dataType"]["mysqlType"]
        for column in json.loads(create.value or b"")["tableSchema"]["columns"]
    ] == [
        "int",
        "varchar",
    ]
    assert json.loads(row.value or b"")["data"] == {"id": "1", "c": "x"}


SMALL = [("1e-45", 1e-45), ("1.4e-45", 1e-45), ("1.401298464324817e-45", 1e-45), ("-2.8E-45", -3e-45),
         ("1.1754942e-38", 1.1754942e-38), ("1.1754944e-38", 1.1754944e-38)]  # fmt: skip


@pytest.mark.parametrize(("text", "value"), SMALL)
def test_small_floats_have_the_fewest_digits(text: str, value: float) -> None:
    assert read_float(text) == shortest_float32(float(text)) == value
    for source in (CANAL, TICDC):
        given = record(row_message({"c": "float"}, {"c": text}))
        (event,) = Translator(source, source).inspect(given)
        assert row(event).after == (value,)
        (out,) = Translator(source, DEBEZIUM, None, {"debezium-disable-schema": "true"}).translate(given)
        assert json.loads(out.value or b"")["payload"]["after"] == {"c": value}
    (event,) = Translator(OPEN, OPEN).inspect(framed(open_row({"u": {"c": cell(4, float(text), 64)}})))
    assert row(event).after == (value,)


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("0.10000000149011612", 0.1),
        ("0.1000000015", 0.1),
        ("16777217", 16777216.0),
        ("0.1234567890123", 0.1234567890123),
        ("-1234567890.5", -1234567890.5),
    ],
)
def test_digits_that_no_float_has_stay(text: str, value: float) -> None:
    """They are a DOUBLE's. Those of a 32-bit number, however many, are shortened; nine may be either."""
    assert read_float(text) == value


@pytest.mark.parametrize("text", ["infinity", "-inf", "NaN", "1e400"])
def test_what_is_no_finite_number_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"finite|number"):
        read_float(text)


def test_the_sign_of_zero_stays() -> None:
    assert str(read_float("-0.0")) == "-0.0"


BITS: dict[str, Any] = {
    "type": "bytes", "optional": True, "field": "b", "name": "io.debezium.data.Bits", "parameters": {"length": "64"},
}  # fmt: skip


def test_more_than_64_bits_are_refused_with_the_columns_name() -> None:
    def bits(data: bytes) -> Any:
        value = message(after={"b": base64.b64encode(data).decode()}) | {"schema": block(BITS)}
        return Translator(DEBEZIUM, CANAL).translate(debezium_record(value))

    with pytest.raises(Malformed, match="beyond 64 bits") as caught:
        bits(b"\xff" * 2300)
    assert caught.value.path == "payload.after.b"
    (out,) = bits(b"\xff" * 8 + b"\x00" * 3)
    assert json.loads(out.value or b"")["data"] == [{"b": str((1 << 64) - 1)}]


@pytest.mark.parametrize(
    ("column_type", "text"),
    [
        ("time", "839:00:00"),
        ("time(6)", "-999:59:59.5"),
        ("float", "1e39"),
        ("float", "-4e38"),
        ("bigint unsigned", "-1"),
    ],
)
def test_debezium_has_no_value_beyond_its_type(column_type: str, text: str) -> None:
    row = row_message({"id": "int", "c": column_type}, {"id": "1", "c": text}, pkNames=["id"])
    with pytest.raises(RelayError):
        Translator(TICDC, DEBEZIUM).translate(record(row))


def test_members_that_nobody_knows_are_not_in_a_schema() -> None:
    """Read with `allowed` empty, as an earlier relay wrote it, they are not known either."""
    row = row_message({"e": "enum", "s": "set"}, {"e": "2", "s": "5"}, pkNames=[])
    (out,) = Translator(TICDC, DEBEZIUM).translate(record(row))
    assert b'allowed":""' not in (out.value or b"")
    value = json.loads(out.value or b"")
    columns = [column for image in value["schema"]["fields"][:2] for column in image["fields"]]
    assert not any("parameters" in column for column in columns)
    for parameters in (None, {"allowed": ""}):
        for column in columns:
            column["parameters"] = parameters
        given = ConsumerRecord("topic", 0, 0, 1, None, json.dumps(value).encode())
        (event,) = Translator(DEBEZIUM, DEBEZIUM).inspect(given)
        assert isinstance(event, RowChange)
        assert event.after == ("2", "5")


@pytest.mark.parametrize("number", ["1e39", "-1e300", "3.4028235e38"])
def test_a_float_of_more_than_32_bits_is_a_double(number: str) -> None:
    field = b'"schema":{"fields":[{"field":"after","fields":[{"field":"c","type":"float"}]}]}'
    source = b'"source":{"connector":"TiCDC","db":"d","table":"t","ts_ms":1},"op":"c","ts_ms":1'
    value = b'{"payload":{%b,"after":{"c":%b}},%b}' % (source, number.encode(), field)
    translator = Translator(DEBEZIUM, DEBEZIUM)
    for number_of in (b"1.5", None, b"2.5"):
        given = value if number_of is None else value.replace(number.encode(), number_of)
        (event,) = translator.inspect(ConsumerRecord("topic", 0, 0, 1, None, given))
        assert isinstance(event, RowChange)
        is_wide = number_of is None and number != "3.4028235e38"
        assert event.schema.columns[0].type.base == ("double" if is_wide else "float")


@pytest.mark.parametrize("is_required", [False, True])
@pytest.mark.parametrize("target", [DEBEZIUM, "debezium-json"])
@pytest.mark.parametrize(
    ("declared", "default"),
    [
        ("INT", "0x" + "f" * 5000),
        ("INT", "1e300000"),
        ("BIGINT UNSIGNED", "'-1e300000'"),
        ("YEAR", "0x" + "f" * 5000),
        ("BIT(3)", "-7"),
    ],
)
def test_a_default_that_its_column_cannot_have_is_none(
    declared: str, default: str, target: str, is_required: bool
) -> None:
    null = "NOT NULL" if is_required else "NULL"
    create = f"CREATE TABLE t (id INT PRIMARY KEY, c {declared} {null} DEFAULT {default})"
    translator = Translator(CANAL, target)
    assert translator.translate(record(row_message({}, isDdl=True, type="CREATE", sql=create, data=None)))
    given = row_message({"id": "int", "c": declared.lower()}, {"id": "1", "c": None}, pkNames=["id"])
    (out,) = translator.translate(record(given, offset=1))
    columns = json.loads(out.value or b"")["schema"]["fields"][1]["fields"]
    assert [(column["field"], column.get("default")) for column in columns] == [("id", None), ("c", None)]
