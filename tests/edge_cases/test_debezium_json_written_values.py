"""Values and their schemas that `debezium-json` writes; the other cases are in tests/golden/debezium-json-written."""

from __future__ import annotations

import json
from typing import Any

import pytest
from edge_cases.canal_family import Options, ddl
from edge_cases.debezium_json_written import CASES, made, written
from support import TICDC, record, row_message

TIME = "io.debezium.time"
DATE, MILLIS, MICROS = f"{TIME}.Date", f"{TIME}.Timestamp", f"{TIME}.MicroTimestamp"
CLOCK, ZONED, YEAR = f"{TIME}.MicroTime", f"{TIME}.ZonedTimestamp", f"{TIME}.Year"
DECIMAL, BITS = "org.apache.kafka.connect.data.Decimal", "io.debezium.data.Bits"
ENUM, SET, JSON = "io.debezium.data.Enum", "io.debezium.data.EnumSet", "io.debezium.data.Json"
MEMBERS = ",".join(f"'m{at:02}'" for at in range(1, 65))


@pytest.mark.parametrize(
    ("definition", "text", "value", "type_", "name"),
    [
        CASES.param("1", "DATE", "2026-01-15", "20468", "int32", DATE),
        CASES.param("2", "DATE", "1969-12-31", "-1", "int32", DATE),
        CASES.param("2", "DATE", "1000-01-01", "-354285", "int32", DATE),
        CASES.param("2", "DATE", "9999-12-31", "2932896", "int32", DATE),
        # The connector moves these years to 2018 and 1999.
        CASES.param("6", "DATE", "0018-01-01", "-712953", "int32", DATE),
        CASES.param("6", "DATE", "0099-12-31", "-683004", "int32", DATE),
        CASES.param("8", "DATETIME", "2026-01-15 10:20:30", "1768472430000", "int64", MILLIS),
        CASES.param("9", "DATETIME(3)", "2026-01-15 10:20:30.123", "1768472430123", "int64", MILLIS),
        CASES.param("9", "DATETIME(4)", "2026-01-15 10:20:30.1234", "1768472430123400", "int64", MICROS),
        CASES.param("9", "DATETIME(6)", "2026-01-15 10:20:30.123456", "1768472430123456", "int64", MICROS),
        CASES.param("10", "DATETIME(3)", "1969-12-31 23:59:59.999", "-1", "int64", MILLIS),
        CASES.param("11", "DATETIME(6)", "9999-12-31 23:59:59.999999", "253402300799999999", "int64", MICROS),
        CASES.param("14", "TIMESTAMP(3)", "2026-01-15 10:20:30.120", '"2026-01-15T10:20:30.120Z"', "string", ZONED),
        CASES.param("18", "TIME", "838:59:59", "3020399000000", "int64", CLOCK),
        CASES.param("18", "TIME", "-838:59:59", "-3020399000000", "int64", CLOCK),
        CASES.param("19", "TIME(6)", "-00:00:00.000001", "-1", "int64", CLOCK),
        # The connector of 1.9 and 2.4 writes -3020400147483.
        CASES.param("20", "TIME(3)", "-838:59:59.000", "-3020399000000", "int64", CLOCK),
        CASES.param("24", "YEAR", "2026", "2026", "int32", YEAR),
        CASES.param("24", "YEAR", "0000", "0", "int32", YEAR),
        CASES.param("24", "YEAR", "1970", "1970", "int32", YEAR),
        CASES.param("25", "TINYINT(1)", "-5", "-5", "int16", None),
        CASES.param("25", "BOOL", "1", "1", "int16", None),
        CASES.param("26", "TINYINT UNSIGNED", "255", "255", "int16", None),
        CASES.param("27", "BIGINT UNSIGNED", "18446744073709551615", "-1", "int64", None),
        CASES.param("28", "BIGINT UNSIGNED", "9223372036854775808", "-9223372036854775808", "int64", None),
        CASES.param("29", "BIGINT", "-9223372036854775808", "-9223372036854775808", "int64", None),
        CASES.param("30", "BIGINT", "9007199254740993", "9007199254740993", "int64", None),
        CASES.param("32", "FLOAT", "3.14", "3.14", "float", None),
        # The connector writes the 32-bit number's digits, 5.610000133514404.
        CASES.param("33", "FLOAT(5,2)", "5.61", "5.61", "double", None),
        CASES.param("34", "DOUBLE", "1.0E21", "1e21", "double", None),
        CASES.param("34", "DOUBLE", "1.0E-7", "1e-7", "double", None),
        CASES.param("34", "DOUBLE", "100.0", "100.0", "double", None),
        CASES.param("36", "DECIMAL(20,2)", "12345678901234567.89", '"ESIQ9H3pgRU="', "bytes", DECIMAL),
        CASES.param("37", "DECIMAL(30,10)", "99999999999999999999.9999999999", '"DJ8snNBGdO3qP////w=="', "bytes", DECIMAL),
        CASES.param("38", "DECIMAL(10,2)", "0.0", '"AA=="', "bytes", DECIMAL),
        CASES.param("38", "DECIMAL(10,2)", "-0.01", '"/w=="', "bytes", DECIMAL),
        CASES.param("38", "DECIMAL(10,2)", "-1.50", '"/2o="', "bytes", DECIMAL),
        CASES.param("38", "DECIMAL(10,2)", "1.0", '"ZA=="', "bytes", DECIMAL),
        CASES.param("39", "DECIMAL(10,0)", "127", '"fw=="', "bytes", DECIMAL),
        CASES.param("39", "DECIMAL(10,0)", "128", '"AIA="', "bytes", DECIMAL),
        CASES.param("44", "BIT(1)", "1", "true", "boolean", None),
        CASES.param("44", "BIT", "0", "false", "boolean", None),
        CASES.param("45", "BIT(10)", "513", '"AQI="', "bytes", BITS),
        CASES.param("45", "BIT(5)", "16", '"EA=="', "bytes", BITS),
        CASES.param("46", "BIT(64)", "18446744073709551615", '"//////////8="', "bytes", BITS),
        CASES.param("48", "INT ZEROFILL", "00042", "42", "int64", None),
        # The connector writes the member as its literal, a\,b.
        CASES.param("49", "ENUM('a,b','c')", "1", '"a,b"', "string", ENUM),
        CASES.param("50", "ENUM('it''s')", "1", '"it\'s"', "string", ENUM),
        CASES.param("52", "ENUM('a','b')", "0", '""', "string", ENUM),
        CASES.param("53", "ENUM('','a')", "1", '""', "string", ENUM),
        CASES.param("54", "SET('a','b','c')", "0", '""', "string", SET),
        CASES.param("54", "SET('a','b','c')", "5", '"a,c"', "string", SET),
        CASES.param("55", f"SET({MEMBERS})", "9223372036854775808", '"m64"', "string", SET),
        CASES.param("58", "CHAR(5)", "ab", '"ab"', "string", None),
        CASES.param("59", "VARCHAR(5)", "", '""', "string", None),
        CASES.param("59", "VARCHAR(5)", None, "null", "string", None),
        CASES.param("60", "VARBINARY(5)", "", '""', "bytes", None),
        CASES.param("60", "VARBINARY(5)", "\x00ÿ\x10", '"AP8Q"', "bytes", None),
        CASES.param("61", "BINARY(5)", "foo", '"Zm9vAAA="', "bytes", None),
        CASES.param("65", "JSON", '"x"', r'"\"x\""', "string", JSON),
        CASES.param("65", "JSON", "null", '"null"', "string", JSON),
        CASES.param("65", "JSON", None, "null", "string", JSON),
    ],
)  # fmt: skip
def test_values(definition: str, text: str | None, value: str, type_: str, name: str | None) -> None:
    found = written(definition, text)
    assert (found.cell(), found.counted) == (value, {})
    assert (found.field()["type"], found.field().get("name")) == (type_, name)


@pytest.mark.parametrize(
    ("definition", "text", "options", "value", "counted"),
    [
        CASES.param("21", "TIME", "25:00:00", {"time.precision.mode": "connect"}, "null", {"time-range": 1}),
        CASES.param("21", "TIME", "25:00:00", {"time.precision.mode": "isostring"}, "null", {"time-range": 1}),
        # The connector writes 00:00:00Z.
        CASES.param("22", "TIME", "24:00:00", {"time.precision.mode": "isostring"}, "null", {"time-range": 1}),
        CASES.param("27", "BIGINT UNSIGNED", "18446744073709551615", {"bigint.unsigned.handling.mode": "precise"}, '"AP//////////"', {}),
        CASES.param("28", "BIGINT UNSIGNED", "9223372036854775808", {"bigint.unsigned.handling.mode": "precise"}, '"AIAAAAAAAAAA"', {}),
        CASES.param("42", "DECIMAL(5,2)", "19.99", {"decimal.format": "NUMERIC"}, "19.99", {}),
        CASES.param("43", "DECIMAL(12,4)", "1.5000", {"decimal.handling.mode": "string"}, '"1.5000"', {}),
        CASES.param("62", "VARBINARY(4)", "Þ\xad¾ï", {"binary.handling.mode": "base64-url-safe"}, '"3q2-7w=="', {}),
        CASES.param("62", "VARBINARY(4)", "Þ\xad¾ï", {"binary.handling.mode": "hex"}, '"deadbeef"', {}),
    ],
)  # fmt: skip
def test_values_with_options(
    definition: str, text: str, options: Options, value: str, counted: dict[str, int]
) -> None:
    found = written(definition, text, options)
    assert (found.cell(), found.counted) == (value, counted)


@pytest.mark.parametrize(
    ("definition", "allowed"),
    [
        CASES.param("49", "ENUM('a,b','c')", r"a\,b,c"),
        CASES.param("50", "ENUM('it''s')", "it's"),
    ],
)
def test_members_in_the_schema_are_escaped(definition: str, allowed: str) -> None:
    assert written(definition, "1").field()["parameters"] == {"allowed": allowed}


@CASES.covers("51")
def test_a_member_with_a_backslash() -> None:
    """The connector writes the member as its literal, with two."""
    found = written(r"ENUM('x\\y')", "1", source=TICDC)
    assert json.loads(found.cell()) == "x\\y"
    assert found.field()["parameters"] == {"allowed": r"x\\y"}


@CASES.covers("67")
def test_a_vector() -> None:
    records = [
        record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c VECTOR(3))", "CREATE")),
        record(
            row_message({"id": "int", "c": "vector"}, {"id": "1", "c": "[1,2.5,3]"}, pkNames=["id"]), offset=1
        ),
    ]
    found = made(TICDC, *records)
    assert found.cell() == "[1.0,2.5,3.0]"
    assert (found.field()["type"], found.field()["name"]) == ("array", "io.debezium.data.FloatVector")


# ---------------------------------------------------------------- NULL, defaults, schemas


@pytest.mark.parametrize(
    ("definition", "value", "counted", "default"),
    [
        CASES.param("69", "INT DEFAULT 5", "5", {"null-replaced-by-default": 1}, 5),
        CASES.param("70", "DATETIME DEFAULT CURRENT_TIMESTAMP", "0", {"null-replaced-by-default": 1}, 0),
        CASES.param("71", "TIMESTAMP NULL DEFAULT CURRENT_TIMESTAMP", "null", {}, None),
        CASES.param("73", "VARBINARY(5) DEFAULT 'ab'", '"YWI="', {"null-replaced-by-default": 1}, "YWI="),
    ],
)
def test_null_in_a_column_with_a_default(
    definition: str, value: str, counted: dict[str, int], default: Any
) -> None:
    found = written(definition, None)
    assert (found.cell(), found.counted, found.field().get("default")) == (value, counted, default)
    kept = written(definition, None, {"replace.null.with.default": "false"})
    assert (kept.cell(), kept.counted) == ("null", {})


@pytest.mark.parametrize(
    ("definition", "text", "default"),
    [
        CASES.param("31", "BIGINT DEFAULT 9223372036854775807", "1", 9223372036854775807),
        CASES.param("72", "TIMESTAMP NOT NULL DEFAULT CURRENT_TIMESTAMP", "2026-01-15 10:20:30", "1970-01-01T00:00:00Z"),
        CASES.param("74", "TIMESTAMP NOT NULL DEFAULT 0", "2026-01-15 10:20:30", "1970-01-01T00:00:00Z"),
        CASES.param("74", "TIMESTAMP NULL DEFAULT 0", "2026-01-15 10:20:30", None),
    ],
)  # fmt: skip
def test_defaults_in_the_schema(definition: str, text: str, default: Any) -> None:
    assert written(definition, text).field().get("default") == default


def test_every_number_is_a_case_or_a_decision() -> None:
    CASES.check()
