"""`debezium-json`, read: a column's values in every mode of the connector, with schemas and without."""

from __future__ import annotations

import base64
import json
import math
from decimal import Decimal
from typing import Any

import pytest
from debezium_json_support import DDL_TOPIC, DEBEZIUM, column, ddl, decoded, image, read, record, row, wrapped
from engine_support import ENGINE

from relay import ConsumerRecord, Loss, Malformed, NotRepresentable, Resolver, Translator
from relay.core.verification import ShadowTranslator
from relay.model.events import ABSENT, RowChange

TIME = "io.debezium.time"
CONNECT = "org.apache.kafka.connect.data"
DATA = "io.debezium.data"


def decimal(scale: int, precision: int = 65) -> dict[str, Any]:
    parameters = {"scale": str(scale), "connect.decimal.precision": str(precision)}
    return column("c", "bytes", f"{CONNECT}.Decimal", parameters=parameters)


#: Definition, value, schema, what it is.
TYPED = [
    ("BIGINT UNSIGNED", -1, column("c", "int64"), 18446744073709551615),
    ("BIGINT", -(2**63), column("c", "int64"), -(2**63)),
    ("BIGINT", 9007199254740993, column("c", "int64"), 9007199254740993),
    ("BIGINT UNSIGNED", "AP//////////", decimal(0, 20), 18446744073709551615),
    ("BIGINT UNSIGNED", 18446744073709551615, decimal(0, 20), 18446744073709551615),
    ("BIGINT UNSIGNED", "18446744073709551615", column("c", "string"), 18446744073709551615),
    ("TINYINT", -5, column("c", "int8"), -5),
    ("BOOL", True, column("c", "boolean"), 1),
    ("TINYINT(1)", -5, column("c", "int16"), -5),
    ("FLOAT(5,2)", 5.610000133514404, column("c", "double"), 5.61),
    ("FLOAT", 3.14, column("c", "float"), 3.14),
    ("DOUBLE", 100, column("c", "double"), 100.0),
    ("REAL", "-Infinity", column("c", "float"), -math.inf),
    ("DECIMAL(10,2)", "MDk=", decimal(2), Decimal("123.45")),
    ("DECIMAL(10,2)", "/2o=", decimal(2), Decimal("-1.50")),
    ("DECIMAL(10,2)", "AA==", decimal(2), Decimal("0.00")),
    ("DECIMAL(30,10)", "DJ8snNBGdO3qP////w==", decimal(10), Decimal("99999999999999999999.9999999999")),
    ("DECIMAL(10,2)", 19.9, decimal(2), Decimal("19.90")),
    ("DECIMAL(12,4)", "1.5000", column("c", "string"), Decimal("1.5000")),
    ("DECIMAL(10,4)", -1e-4, column("c", "double"), Decimal("-0.0001")),
    ("DECIMAL(10,0)", 127.0, column("c", "double"), Decimal(127)),
    ("DECIMAL(20,4)", 1e16, column("c", "double"), Decimal("9999999999999999.9999")),
    ("DECIMAL(20,4)", 2e16, column("c", "double"), Decimal("20000000000000000.0000")),
    (
        "DECIMAL(10,3)",
        {"scale": 2, "value": "MDk="},
        column("c", "struct", f"{DATA}.VariableScaleDecimal"),
        Decimal("123.450"),
    ),
    ("BIT(1)", True, column("c", "boolean"), 1),
    ("BIT(10)", "AQI=", column("c", "bytes", f"{DATA}.Bits", parameters={"length": "10"}), 513),
    ("BIT(64)", "//////////8=", column("c", "bytes", f"{DATA}.Bits", parameters={"length": "64"}), 2**64 - 1),
    ("VARBINARY(5)", "AP8Q", column("c", "bytes"), b"\0\xff\x10"),
    ("YEAR", 1900, column("c", "int32", f"{TIME}.Year"), 0),
    ("YEAR", 2026, column("c", "int32", f"{TIME}.Year"), 2026),
    ("DATE", 20468, column("c", "int32", f"{TIME}.Date"), "2026-01-15"),
    ("DATE", -1, column("c", "int32", f"{CONNECT}.Date"), "1969-12-31"),
    ("DATE", "2026-01-15Z", column("c", "string", f"{TIME}.IsoDate"), "2026-01-15"),
    ("DATETIME", 1768472430000, column("c", "int64", f"{TIME}.Timestamp"), "2026-01-15 10:20:30"),
    ("DATETIME(3)", -1, column("c", "int64", f"{TIME}.Timestamp"), "1969-12-31 23:59:59.999"),
    (
        "DATETIME(6)",
        253402300799999999,
        column("c", "int64", f"{TIME}.MicroTimestamp"),
        "9999-12-31 23:59:59.999999",
    ),
    (
        "DATETIME(3)",
        -1000000,
        column("c", "int64", f"{TIME}.NanoTimestamp"),
        "1969-12-31 23:59:59.999",
    ),
    (
        "DATETIME(6)",
        1768472430123,
        column("c", "int64", f"{CONNECT}.Timestamp"),
        "2026-01-15 10:20:30.123000",
    ),
    (
        "DATETIME(6)",
        "2026-01-15T10:20:30.12Z",
        column("c", "string", f"{TIME}.IsoTimestamp"),
        "2026-01-15 10:20:30.120000",
    ),
    ("TIME", -3020399000000, column("c", "int64", f"{TIME}.MicroTime"), "-838:59:59"),
    ("TIME(1)", -3020400147483, column("c", "int64", f"{TIME}.MicroTime"), "-838:59:59.0"),
    ("TIME(6)", -1000, column("c", "int64", f"{TIME}.NanoTime"), "-00:00:00.000001"),
    ("TIME(3)", 86400000, column("c", "int32", f"{CONNECT}.Time"), "24:00:00.000"),
    ("TIME(3)", 30600500, column("c", "int32", f"{TIME}.Time"), "08:30:00.500"),
    ("TIME(6)", "10:20:30.5Z", column("c", "string", f"{TIME}.IsoTime"), "10:20:30.500000"),
    (
        "TIMESTAMP(3)",
        "2026-01-15T02:20:30.12Z",
        column("c", "string", f"{TIME}.ZonedTimestamp"),
        "2026-01-15 02:20:30.120",
    ),
    (
        "TIMESTAMP",
        "2026-01-15T10:20:30+08:00",
        column("c", "string", f"{TIME}.ZonedTimestamp"),
        "2026-01-15 02:20:30",
    ),
    (
        "TIMESTAMP(3) NOT NULL",
        "1970-01-01T00:00:00.000Z",
        column("c", "string", f"{TIME}.ZonedTimestamp"),
        "0000-00-00 00:00:00.000",
    ),
    ("JSON", '{"k":[1,2]}', column("c", "string", f"{DATA}.Json"), '{"k":[1,2]}'),
    ("VECTOR(3)", [1.0, 2.5, 3.0], column("c", "array", f"{DATA}.FloatVector"), "[1,2.5,3]"),
    ("VECTOR(2)", [0.10000000149011612, -2.5], column("c", "array", f"{DATA}.FloatVector"), "[0.1,-2.5]"),
    ("VECTOR(1)", [123456789.0], column("c", "array", f"{DATA}.DoubleVector"), "[123456789]"),
    (
        "POINT",
        {"x": 1.0, "y": 2.0, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": 4326},
        column("c", "struct", f"{DATA}.geometry.Point"),
        bytes.fromhex("E61000000101000000000000000000F03F0000000000000040"),
    ),
    (
        "GEOMETRY",
        {"wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": None, "extensions": None},
        column("c", "struct", f"{DATA}.geometry.Geometry"),
        bytes.fromhex("000000000101000000000000000000F03F0000000000000040"),
    ),
]


@pytest.mark.parametrize(("definition", "value", "schema", "expected"), TYPED)
def test_a_schema_tells_how_a_value_looks(
    definition: str, value: Any, schema: dict[str, Any], expected: Any
) -> None:
    found, counted = read(definition, value, schema=schema)
    assert (found, type(found)) == (expected, type(expected))
    assert "schema-inferred" not in counted
    assert "value-inferred" not in counted


@pytest.mark.parametrize(
    ("definition", "value", "text"),
    [("DECIMAL(10,0)", 0.0, "0"), ("DECIMAL(10,2)", -0.0, "0.00"), ("DECIMAL(10,0)", 70.0, "70")],
)
def test_a_decimal_that_was_a_number_has_the_digits_of_its_column(
    definition: str, value: float, text: str
) -> None:
    assert str(read(definition, value, schema=column("c", "double"))[0]) == text


#: Options of the source, definition, value, what it is.
UNTYPED = [
    ({}, "BIGINT UNSIGNED", -1, 18446744073709551615),
    ({"bigint.unsigned.handling.mode": "precise"}, "BIGINT UNSIGNED", "AP//////////", 18446744073709551615),
    ({"bigint.unsigned.handling.mode": "string"}, "BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
    ({}, "DECIMAL(10,2)", "MDk=", Decimal("123.45")),
    ({"decimal.format": "NUMERIC"}, "DECIMAL(10,2)", 123.4, Decimal("123.40")),
    ({"decimal.handling.mode": "string"}, "DECIMAL(10,2)", "123.45", Decimal("123.45")),
    ({"decimal.handling.mode": "double"}, "DECIMAL(10,2)", 123.4, Decimal("123.40")),
    ({}, "VARBINARY(5)", "AP8Q", b"\0\xff\x10"),
    ({"binary.handling.mode": "base64"}, "VARBINARY(5)", "3q2+7w==", b"\xde\xad\xbe\xef"),
    ({"binary.handling.mode": "base64-url-safe"}, "VARBINARY(5)", "3q2-7w==", b"\xde\xad\xbe\xef"),
    ({"binary.handling.mode": "hex"}, "VARBINARY(5)", "deadbeef", b"\xde\xad\xbe\xef"),
    ({}, "DATETIME(3)", 1768472430123, "2026-01-15 10:20:30.123"),
    ({}, "DATETIME(4)", 1768472430123400, "2026-01-15 10:20:30.1234"),
    ({"time.precision.mode": "microseconds"}, "DATETIME", 1768472430000000, "2026-01-15 10:20:30"),
    ({"time.precision.mode": "nanoseconds"}, "DATETIME", 1768472430000000000, "2026-01-15 10:20:30"),
    ({"time.precision.mode": "connect"}, "DATETIME(6)", 1768472430123, "2026-01-15 10:20:30.123000"),
    ({"time.precision.mode": "isostring"}, "DATETIME", "2026-01-15T10:20:30Z", "2026-01-15 10:20:30"),
    (
        {"time.precision.mode": "isostring"},
        "DATETIME(3)",
        "1970-01-01T00:00:00.255Z",
        "1970-01-01 00:00:00.255",
    ),
    (
        {"time.precision.mode": "isostring"},
        "DATETIME(3)",
        "1970-01-01T00:00:00.000Z",
        "1970-01-01 00:00:00.000",
    ),
    ({"time.precision.mode": "connect"}, "TIME(3)", 1500, "00:00:01.500"),
    ({"time.precision.mode": "nanoseconds"}, "TIME(3)", 1500000000, "00:00:01.500"),
    ({}, "TIME", "10:20:30Z", "10:20:30"),
    ({}, "DATE", "2026-01-15Z", "2026-01-15"),
    # As temporal=text of a target writes what is no time of day, or not in the calendar.
    ({}, "TIME", "-838:59:59", "-838:59:59"),
    ({"time.precision.mode": "connect"}, "TIME(6)", "838:59:59.000000", "838:59:59.000000"),
    ({}, "DATE", "0000-00-00", "0000-00-00"),
    ({}, "DATETIME(3)", "0000-00-00 00:00:00.000", "0000-00-00 00:00:00.000"),
    ({"time.precision.mode": "isostring"}, "DATETIME", "2009-11-31 01:02:03", "2009-11-31 01:02:03"),
    ({}, "TIMESTAMP", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
    ({}, "BOOL", True, 1),
    ({}, "TINYINT(1)", 1, 1),
    ({}, "BIT(1)", True, 1),
    ({}, "FLOAT", "NaN", math.nan),
    ({}, "ENUM('x','y')", "y", 2),
    ({}, "SET('x','y','z')", "x,z", 5),
    ({}, "TEXT", "3q2+7w==", "3q2+7w=="),
]


@pytest.mark.parametrize(("options", "definition", "value", "expected"), UNTYPED)
def test_without_a_schema_the_definition_and_the_options_tell_it(
    options: dict[str, str], definition: str, value: Any, expected: Any
) -> None:
    found, counted = read(definition, value, options=options)
    assert repr(found) == repr(expected)
    assert "schema-inferred" not in counted
    assert "value-inferred" not in counted


#: Options of the source, definition, value, Connect type, what it is.
NAMELESS = [
    ({}, "DATE", 20468, "int32", "2026-01-15"),
    ({"time.precision.mode": "connect"}, "DATE", -1, "int32", "1969-12-31"),
    ({}, "TIME(3)", 1500000, "int64", "00:00:01.500"),
    ({"time.precision.mode": "microseconds"}, "TIME", -3020399000000, "int64", "-838:59:59"),
    ({"time.precision.mode": "nanoseconds"}, "TIME(6)", 1500000000, "int64", "00:00:01.500000"),
    ({"time.precision.mode": "connect"}, "TIME(3)", 1500, "int32", "00:00:01.500"),
    ({}, "DATETIME", 1768472430000, "int64", "2026-01-15 10:20:30"),
    ({}, "DATETIME(6)", 1768472430000001, "int64", "2026-01-15 10:20:30.000001"),
    ({"time.precision.mode": "microseconds"}, "DATETIME", 1768472430000000, "int64", "2026-01-15 10:20:30"),
    ({"time.precision.mode": "nanoseconds"}, "DATETIME", 1768472430000000000, "int64", "2026-01-15 10:20:30"),
    ({"time.precision.mode": "connect"}, "DATETIME(6)", 1768472430123, "int64", "2026-01-15 10:20:30.123000"),
    # The schema contradicts the option: it has the last word.
    ({"time.precision.mode": "connect"}, "TIME", 1500000, "int64", "00:00:01.500"),
    ({}, "TIME(3)", 1500, "int32", "00:00:01.500"),
    ({"time.precision.mode": "isostring"}, "DATETIME", 1768472430000, "int64", "2026-01-15 10:20:30"),
    ({}, "YEAR", 1900, "int32", 0),
    ({}, "DECIMAL(10,2)", "MDk=", "bytes", Decimal("123.45")),
    ({"decimal.handling.mode": "string"}, "DECIMAL(10,2)", "MDk=", "bytes", Decimal("123.45")),
    ({"decimal.format": "NUMERIC"}, "DECIMAL(10,2)", 123.4, "bytes", Decimal("123.40")),
    ({}, "DECIMAL(10,2)", "123.45", "string", Decimal("123.45")),
    ({}, "DECIMAL(10,2)", 123.4, "double", Decimal("123.40")),
    ({}, "DECIMAL(10,3)", {"scale": 2, "value": "MDk="}, "struct", Decimal("123.450")),
    ({}, "BIGINT UNSIGNED", "AP//////////", "bytes", 2**64 - 1),
    ({}, "BIGINT UNSIGNED", -1, "int64", 2**64 - 1),
    ({}, "BIT(1)", True, "boolean", 1),
    ({}, "BIT(9)", "VQE=", "bytes", 341),
    ({}, "ENUM('x','y')", "y", "string", 2),
    ({}, "SET('x','y','z')", "x,z", "string", 5),
    ({}, "JSON", '{"k":1}', "string", '{"k":1}'),
    ({}, "BLOB", "AP8Q", "bytes", b"\0\xff\x10"),
    ({"binary.handling.mode": "hex"}, "BINARY(3)", "00ff10", "string", b"\0\xff\x10"),
    ({}, "VECTOR(2)", [1.0, 2.5], "array", "[1,2.5]"),
    ({}, "FLOAT", 3.14, "float", 3.14),
    (
        {},
        "POINT",
        {"x": 1.0, "y": 2.0, "wkb": "AQEAAAAAAAAAAADwPwAAAAAAAABA", "srid": 4326},
        "struct",
        bytes.fromhex("E61000000101000000000000000000F03F0000000000000040"),
    ),
    ({}, "DATE", "2026-01-15", "string", "2026-01-15"),
    ({}, "DATE", "2026-01-15Z", "string", "2026-01-15"),
    ({}, "DATE", "0000-00-00", "string", "0000-00-00"),
    ({}, "TIME", "10:20:30Z", "string", "10:20:30"),
    ({}, "TIME(3)", "10:20:30.5+00:00", "string", "10:20:30.500"),
    ({}, "TIME", "10:20:30.0", "string", "10:20:30"),
    ({}, "TIME", "-838:59:59", "string", "-838:59:59"),
    ({}, "DATETIME", "2026-01-15T10:20:30Z", "string", "2026-01-15 10:20:30"),
    ({}, "DATETIME", "2026-01-15T10:20:30.000Z", "string", "2026-01-15 10:20:30"),
    ({}, "DATETIME", "2026-01-15 10:20:30.0", "string", "2026-01-15 10:20:30"),
    ({}, "DATETIME", "2026-01-15T10:20:30", "string", "2026-01-15 10:20:30"),
    ({}, "DATETIME(6)", "2026-01-15T10:20:30.12", "string", "2026-01-15 10:20:30.120000"),
    ({}, "DATETIME(3)", "0000-00-00 00:00:00.000", "string", "0000-00-00 00:00:00.000"),
    ({}, "DATETIME", "2009-11-31 01:02:03", "string", "2009-11-31 01:02:03"),
    ({}, "TIMESTAMP", "2026-01-15T02:20:30Z", "string", "2026-01-15 02:20:30"),
    ({}, "TIMESTAMP(3)", "2026-01-15T02:20:30.000Z", "string", "2026-01-15 02:20:30.000"),
    ({}, "TIMESTAMP", "2026-01-15T10:20:30+08:00", "string", "2026-01-15 02:20:30"),
    ({}, "TIMESTAMP", "2026-01-15 10:20:30.0 +08:00", "string", "2026-01-15 02:20:30"),
    ({}, "TIMESTAMP", "2026-01-14T21:20:30-0500", "string", "2026-01-15 02:20:30"),
    ({}, "TIMESTAMP", "0000-00-00 00:00:00", "string", "0000-00-00 00:00:00"),
]


@pytest.mark.parametrize(("options", "definition", "value", "type_", "expected"), NAMELESS)
def test_a_schema_without_names_leaves_the_definition_as_it_is(
    options: dict[str, str], definition: str, value: Any, type_: str, expected: Any
) -> None:
    """As AvroConverter with `connect.meta.data=false` writes it, or an SMT that makes text of times."""
    found, counted = read(definition, value, schema=column("c", type_), options=options)
    assert repr(found) == repr(expected)
    assert counted == {}


@pytest.mark.parametrize(
    ("definition", "value", "type_"),
    [
        ("DATE", 1768472430000, "int64"),
        ("INT", "x", "string"),
        ("BIGINT", "AQ==", "bytes"),
        ("TIME", 1.5, "double"),
    ],
)
def test_a_schema_that_no_connector_has_for_a_type_contradicts_the_definition(
    definition: str, value: Any, type_: str
) -> None:
    found, counted = read(definition, value, schema=column("c", type_))
    assert "schema-inferred" in counted
    assert found in {value, b"\1"}


LOCAL = [
    ("2026-07-01 08:00:00", "2026-07-01 08:00:00", "2026-07-01 00:00:00"),
    ("2026-07-01T08:00:00.5", "2026-07-01 08:00:00.5", "2026-07-01 00:00:00.5"),
    ("2026-07-01 08:00:00.123456000", "2026-07-01 08:00:00.123456", "2026-07-01 00:00:00.123456"),
]


@pytest.mark.parametrize("schema", [None, column("c", "string")])
@pytest.mark.parametrize(("value", "in_utc", "in_shanghai"), LOCAL)
def test_a_timestamp_without_a_zone_is_of_the_zone_that_the_option_names(
    schema: dict[str, Any] | None, value: str, in_utc: str, in_shanghai: str
) -> None:
    digits = len(in_utc) - 20 if "." in in_utc else 0
    definition = f"TIMESTAMP({digits})"
    assert read(definition, value, schema=schema) == (in_utc, {"zone-inferred": 1})
    zone = {"timezone": "Asia/Shanghai"}
    assert read(definition, value, schema=schema, options=zone) == (in_shanghai, {"zone-inferred": 1})
    # One that names its zone is not moved.
    assert read("TIMESTAMP", "2026-07-01T08:00:00Z", schema=schema, options=zone) == (
        "2026-07-01 08:00:00",
        {},
    )
    assert read("DATETIME", "2026-07-01 08:00:00", schema=schema, options=zone) == ("2026-07-01 08:00:00", {})


@pytest.mark.parametrize("text", ["0001-01-01 00:00:00", "1969-12-31 23:59:59"])
def test_a_text_that_is_no_timestamp_is_kept_unless_it_is_of_another_zone(text: str) -> None:
    assert read("TIMESTAMP", text)[0] == text
    with pytest.raises(Malformed, match="not a time that a TIMESTAMP can have"):
        read("TIMESTAMP", text, options={"timezone": "Asia/Shanghai"})


def test_a_local_time_that_its_zone_has_twice_is_counted() -> None:
    found, counted = read("TIMESTAMP", "2026-10-25 02:30:00", options={"timezone": "Europe/Berlin"})
    assert (found, counted) == ("2026-10-25 00:30:00", {"zone-inferred": 1, "repeated-hour": 1})


@pytest.mark.parametrize("text", ["2026-07-01 08:00:0{}", "2026-07-01T08:00:0{}Z"])
def test_a_timestamp_without_a_zone_is_counted_in_every_row(text: str) -> None:
    created = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c TIMESTAMP NULL)"), topic=DDL_TOPIC)
    rows = [
        record(
            row("u", before={"id": 1, "c": text.format(0)}, after={"id": 1, "c": text.format(at % 10)}),
            {"id": 1},
            at,
        )
        for at in range(40)
    ]
    expected = 0 if text.endswith("Z") else 80
    assert decoded(created, *rows)[1].get("zone-inferred", 0) == expected
    translator = Translator("debezium-json", "canal-json")
    for one in (created, *rows):
        translator.translate(one)
    assert translator.losses[Loss.ZONE_INFERRED] == expected


@pytest.mark.parametrize(
    ("value", "expected"),
    [("a\\,b", 1), ("a,b", 1), ("back\\\\slash", 3), ("back\\slash", 3), ("it's", 2), ("", 0)],
)
@pytest.mark.parametrize("definition", ["ENUM('a,b','it''s','back\\\\slash')", None])
def test_labels_are_known_in_the_spelling_of_the_statement_and_in_their_own(
    definition: str | None, value: str, expected: int
) -> None:
    allowed = {"allowed": "a\\,b,it's,back\\\\slash"}
    found, _ = read(definition, value, schema=column("c", "string", f"{DATA}.Enum", parameters=allowed))
    assert found == expected


@pytest.mark.parametrize(("value", "expected"), [("back\\\\slash,x", 3), ("back\\slash", 1), ("", 0)])
def test_labels_of_a_set_are_known_in_both_spellings(value: str, expected: int) -> None:
    assert read("SET('back\\\\slash','x')", value)[0] == expected


def test_a_binary_column_as_text_tells_its_form_itself_where_the_option_does_not() -> None:
    text = column("c", "string")
    assert read("VARBINARY(9)", "deadbeef", schema=text) == (b"\xde\xad\xbe\xef", {"value-inferred": 1})
    assert read("VARBINARY(9)", "3q2-7w==", schema=text)[0] == b"\xde\xad\xbe\xef"
    # Eight digits are no BINARY(6) in hexadecimal.
    assert read("BINARY(6)", "deadbeef", schema=text)[0] == bytes.fromhex("75e69d6de79f")
    hexadecimal = {"binary.handling.mode": "hex"}
    assert read("VARBINARY(9)", "deadbeef", schema=text, options=hexadecimal)[1] == {}


def test_text_that_is_declared_binary_is_bytes() -> None:
    """Debezium reads `CHARACTER SET binary` as Latin-1 while it streams, and as bytes in a snapshot."""
    changes = [
        {
            "type": "CREATE",
            "id": '"shop"."t"',
            "table": {
                "primaryKeyColumnNames": ["id"],
                "columns": [
                    {"name": "id", "typeName": "INT", "optional": False, "position": 1},
                    {
                        "name": "c", "typeName": "CHAR", "length": 4, "charsetName": "binary", "optional": True,
                        "position": 2,
                    },
                ],
            },
        }
    ]  # fmt: skip
    created = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c CHAR(4) CHARACTER SET binary)", changes))
    for schema, value in ((column("c", "string"), "\x80\xff"), (column("c", "bytes"), "gP8AAA==")):
        message = wrapped(row(after={"id": 1, "c": value}), column("id", "int32"), schema)
        events, _ = decoded(created, record(message, offset=1))
        assert image(events[-1])["c"] == b"\x80\xff\0\0"


# ---------------------------------------------------------------- what nobody tells


@pytest.mark.parametrize(
    ("schema", "value", "base", "expected"),
    [
        (column("c", "int16"), 5, "smallint", 5),
        (column("c", "boolean"), True, "bit", 1),
        (decimal(2, 10), "MDk=", "decimal", Decimal("123.45")),
        (column("c", "int64", f"{TIME}.MicroTimestamp"), 0, "datetime", "1970-01-01 00:00:00"),
        (column("c", "int64", f"{TIME}.NanoTime"), 1000, "time", "00:00:00.000001"),
        (column("c", "string", f"{TIME}.IsoDate"), "2026-01-15Z", "date", "2026-01-15"),
        (column("c", "bytes"), "AA==", "blob", b"\0"),
        (column("c", "string"), "AA==", "varchar", "AA=="),
        (
            column("c", "int64", parameters={"__debezium.source.column.type": "BIGINT UNSIGNED"}),
            -1,
            "bigint",
            2**64 - 1,
        ),
        (
            column(
                "c",
                "string",
                parameters={
                    "__debezium.source.column.type": "VARBINARY",
                    "__debezium.source.column.length": "8",
                },
            ),
            "deadbeef",
            "varbinary",
            b"\xde\xad\xbe\xef",
        ),
    ],
)
def test_without_a_definition_the_schema_tells_the_type(
    schema: dict[str, Any], value: Any, base: str, expected: Any
) -> None:
    message = wrapped(row(after={"id": 1, "c": value}), column("id", "int32"), schema)
    (change,), counted = decoded(record(message, {"id": 1}))
    assert isinstance(change, RowChange)
    assert (image(change)["c"], change.schema.columns[1].type.base) == (expected, base)
    assert change.schema.primary_key == ("id",)
    assert counted["schema-inferred"] == 1


@pytest.mark.parametrize(("value", "expected"), [(5, 5), ("x", "x"), (1.5, 1.5), (True, 1), (None, None)])
def test_without_both_a_value_is_taken_for_what_it_looks_like(value: Any, expected: Any) -> None:
    found, counted = read(None, value)
    assert found == expected
    assert (counted["schema-inferred"], counted["value-inferred"]) == (1, 1)


@pytest.mark.parametrize(
    ("definition", "semantic", "allowed", "value", "expected"),
    [
        ("ENUM('x','y')", "Enum", "x,y,z\\,w", "z,w", 3),
        ("ENUM('x','y')", "Enum", "3,2,1", "1", 3),
        ("SET('p','q')", "EnumSet", "q,r,p", "q,r", 3),
    ],
)
def test_labels_that_the_definition_lacks_are_those_of_the_message(
    definition: str, semantic: str, allowed: str, value: str, expected: int
) -> None:
    """The statement that added them has not been seen, or another one, shown later, lacks them."""
    schema = column("c", "string", f"{DATA}.{semantic}", parameters={"allowed": allowed})
    assert read(definition, value, schema=schema) == (expected, {"schema-inferred": 1})


@pytest.mark.parametrize(
    ("definition", "allowed"),
    [
        ("ENUM('x','it''s','y')", "x,it''s,y"),  # as the statement spells it
        ("ENUM('x','y','z')", "x,y"),  # of a row before the member was added
        ("ENUM('x ','y')", "x ,y"),  # MySQL drops the blank
        ("ENUM('x','a\\nb')", "x,a\\nb"),
        ("ENUM('x','y')", ""),
    ],
)
def test_other_spellings_of_known_labels_contradict_no_definition(definition: str, allowed: str) -> None:
    schema = column("c", "string", f"{DATA}.Enum", parameters={"allowed": allowed})
    assert read(definition, "x", schema=schema) == (1, {})


def test_a_message_that_contradicts_the_definition_is_believed() -> None:
    found, counted = read("INT", "text", schema=column("c", "string"))
    assert found == "text"
    assert counted["schema-inferred"] == 1


# ---------------------------------------------------------------- what the connector has lost


def test_a_default_may_stand_for_null() -> None:
    assert read("INT DEFAULT 5", 5, schema=column("c", "int32", default=5)) == (5, {"null-or-default": 1})
    assert read("INT DEFAULT 5", 5) == (5, {"null-or-default": 1})
    assert read("INT DEFAULT 5", 6, schema=column("c", "int32", default=5)) == (6, {})
    assert read("INT NOT NULL DEFAULT 5", 5, schema=column("c", "int32", default=5, optional=False))[1] == {}


@pytest.mark.parametrize(
    ("schema", "value"),
    [
        (column("c", "int64", f"{TIME}.Timestamp", default=0), 0),
        (
            column("c", "string", f"{TIME}.IsoTimestamp", default="1970-01-01T00:00:00Z"),
            "1970-01-01T00:00:00Z",
        ),
        (None, 0),
    ],
)
def test_1970_in_a_column_of_the_present_time_is_null(schema: dict[str, Any] | None, value: Any) -> None:
    assert read("DATETIME(3) DEFAULT CURRENT_TIMESTAMP(3)", value, schema=schema) == (None, {})


@pytest.mark.parametrize(
    ("definition", "value", "schema", "expected"),
    [
        ("DATE NOT NULL", 0, column("c", "int32", f"{TIME}.Date"), "1970-01-01"),
        ("DATETIME", 0, column("c", "int64", f"{TIME}.Timestamp"), "1970-01-01 00:00:00"),
        ("DATE", "1970-01-01Z", column("c", "string", f"{TIME}.IsoDate"), "1970-01-01"),
    ],
)
def test_1970_may_be_a_date_that_is_not_in_the_calendar(
    definition: str, value: Any, schema: dict[str, Any], expected: str
) -> None:
    assert read(definition, value, schema=schema) == (expected, {"epoch-or-zero-date": 1})


@pytest.mark.parametrize(
    ("definition", "placeholder"),
    [
        ("TEXT", "__debezium_unavailable_value"),
        ("BLOB", "X19kZWJleml1bV91bmF2YWlsYWJsZV92YWx1ZQ=="),
        ("BLOB", "5f5f646562657a69756d5f756e617661696c61626c655f76616c7565"),
    ],
)
def test_a_value_that_the_log_does_not_have_is_absent(definition: str, placeholder: str) -> None:
    found, counted = read(definition, placeholder)
    assert found is ABSENT
    assert counted == {"columns-absent": 1}


@pytest.mark.parametrize("before", [None, {"id": 1, "n": 4, "c": "__debezium_unavailable_value"}])
def test_a_value_that_the_log_does_not_have_is_counted_of_an_unknown_table(
    before: dict[str, Any] | None,
) -> None:
    """Of its columns the row is all that tells, and the row names them."""
    after = {"id": 1, "n": 5, "c": "__debezium_unavailable_value"}
    messages = [record(row("u", before, after), {"id": 1}, at) for at in range(40)]
    events, counted = decoded(*messages)
    assert [image(event) for event in events] == [{"id": 1, "n": 5}] * 40
    assert counted["columns-absent"] == 40


def test_a_value_that_one_image_has_is_absent_in_the_other_alone() -> None:
    payload = row("u", {"id": 1, "c": "__debezium_unavailable_value"}, {"id": 1, "c": "new"})
    created = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c TEXT)"), topic="dbz")
    events, _ = decoded(created, record(payload, {"id": 1}))
    assert image(events[-1], is_old=True) == {"id": 1, "c": ABSENT}
    assert image(events[-1]) == {"id": 1, "c": "new"}


@pytest.mark.parametrize("schema", [{}, column("c", "string")])
@pytest.mark.parametrize("part", ["before", "after"])
def test_a_row_of_which_the_log_has_nothing_is_refused(part: str, schema: dict[str, Any]) -> None:
    images = {"before": {"c": "old"}, "after": {"c": "new"}, part: {"c": "__debezium_unavailable_value"}}
    payload = row("u", **images)
    with pytest.raises(Malformed, match="a row without columns") as caught:
        decoded(record(wrapped(payload, schema) if schema else payload))
    assert caught.value.path == f"payload.{part}"


# ---------------------------------------------------------------- names of columns


@pytest.mark.parametrize(
    ("wire", "options"), [("c_u005fint", {}), ("c_u005fint", {"field.name.adjustment.mode": "avro_unicode"})]
)
def test_adjusted_names_are_those_of_the_definition(wire: str, options: dict[str, str]) -> None:
    created = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c_int INT)"), topic="dbz")
    events, counted = decoded(created, record(row(after={"id": 1, wire: 7}), {"id": 1}), options=options)
    assert (image(events[-1]), counted) == ({"id": 1, "c_int": 7}, {})


def test_names_of_an_unknown_table_are_restored_if_the_option_says_so() -> None:
    options = {"field.name.adjustment.mode": "avro_unicode"}
    message = record(row(after={"_u540d_u79f0": "x", "_ud83d_ude00": 1, "_ud83d": 2}), None)
    events, _ = decoded(message, options=options)
    assert set(image(events[0])) == {"名称", "😀", "_ud83d"}


def test_names_that_avro_has_no_characters_for_are_those_of_the_definition() -> None:
    created = record(ddl("CREATE TABLE t (`id-1` INT PRIMARY KEY, `2nd` INT)"), topic="dbz")
    events, _ = decoded(created, record(row(after={"id_1": 1, "_2nd": 7}), {"id_1": 1}))
    assert image(events[-1]) == {"id-1": 1, "2nd": 7}


# ---------------------------------------------------------------- what is refused


@pytest.mark.parametrize(
    ("definition", "schema", "value", "reason"),
    [
        ("DECIMAL(10,2)", decimal(2), "", "not the bytes of a number"),
        ("DECIMAL(10,2)", decimal(2), "1.5", "decimal.handling.mode"),
        ("TIME", column("c", "int64", f"{TIME}.MicroTime"), 3020400000000, "beyond the range of TIME"),
        ("DATE", column("c", "int32", f"{TIME}.Date"), 10**9, "beyond the calendar"),
        ("TIME", column("c", "string", f"{TIME}.IsoTime"), "25:61:00Z", "not a time"),
        ("TIME", column("c", "string", f"{TIME}.IsoTime"), "839:00:00", "beyond the range of TIME"),
        *(
            ("DATETIME", column("c", "string", f"{TIME}.IsoTimestamp"), text, "not a date")
            for text in ("2009-11-31T01:02:03Z", "2026-01-15 25:61:61", "2009-11-31 24:00:00")
        ),
        *(
            ("TIMESTAMP", column("c", "string", f"{TIME}.ZonedTimestamp"), text, "not a date")
            for text in ("2026-01-15 99:00:00", "2026-02-30 01:02:03", "0000-00-00 12:13:14")
        ),
        ("POINT", column("c", "struct", f"{DATA}.geometry.Point"), {"wkb": "AA==", "srid": -1}, "geometry"),
        ("BIT(8)", column("c", "bytes", f"{DATA}.Bits"), "!", "not base64"),
    ],
)
def test_a_value_that_is_none_of_its_type_is_refused_with_its_column(
    definition: str, schema: dict[str, Any], value: Any, reason: str
) -> None:
    with pytest.raises(Malformed, match=reason) as refused:
        read(definition, value, schema=schema)
    assert refused.value.path == "payload.after.c"
    assert value == "" or json.dumps(value) not in str(refused.value)


@pytest.mark.parametrize("mode", ["adaptive_time_microseconds", "connect", "isostring", "nanoseconds"])
@pytest.mark.parametrize("options", [{"temporal": "text"}, {"zero-dates": "text", "time": "text"}], ids=str)
@pytest.mark.parametrize(
    ("definition", "value"),
    [
        ("DATE", "0000-00-00"),
        ("DATE", "2020-02-00"),
        ("DATETIME(3)", "0000-00-00 00:00:00.000"),
        ("DATETIME", "2009-11-31 01:02:03"),
        ("DATETIME(6)", "9999-12-31 23:59:59.999999"),
        ("TIMESTAMP(6)", "0000-00-00 00:00:00.000000"),
        ("TIMESTAMP", "2038-01-19 03:14:07"),
        ("TIME", "-838:59:59"),
        ("TIME(6)", "838:59:59.000000"),
        ("TIME(3)", "00:00:00.500"),
    ],
)
def test_text_that_relay_has_written_without_schemas_is_read_back(
    mode: str, options: dict[str, str], definition: str, value: str
) -> None:
    wire = {"schemas.enable": "false", "time.precision.mode": mode}
    written = Translator("maxwell-json", "debezium-json", None, {**wire, **options})
    back = Translator("debezium-json", "maxwell-json", wire, {"output_ddl": "true"})
    at: dict[str, Any] = {"database": "d", "table": "t", "ts": 1}
    kind = definition.partition("(")[0].lower()
    column_: dict[str, Any] = {"type": kind, "name": "c"}
    digits = definition.partition("(")[2].rstrip(")")
    if digits:
        column_["column-length"] = int(digits)
    columns = [{"type": "int", "name": "id", "signed": True}, column_]
    created = {"database": "d", "charset": "utf8mb4", "table": "t", "columns": columns, "primary-key": ["id"]}
    statement = f"CREATE TABLE t (id INT PRIMARY KEY, c {definition})"
    messages = [
        at | {"type": "table-create", "def": created, "sql": statement},
        at | {"type": "insert", "data": {"id": 1, "c": value}},
    ]
    found = [
        again
        for offset, message in enumerate(messages)
        for out in written.translate(ConsumerRecord("t", 0, offset, 0, None, json.dumps(message).encode()))
        for again in back.translate(ConsumerRecord("t", 0, offset, 0, out.key, out.value))
    ]
    assert json.loads(found[-1].value or b"")["data"]["c"] == value


def test_an_object_of_an_unknown_column_is_refused() -> None:
    with pytest.raises(Malformed, match="neither text, number, boolean nor null"):
        read(None, {"a": 1})


REALS = [
    record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c REAL)"), topic="dbz"),
    record(row(after={"id": 1, "c": "-Infinity"}), {"id": 1}, 1),
]


@pytest.mark.parametrize("target", ["debezium-json", "canal-json", "ckafka-json"])
def test_an_infinite_real_has_javas_word(target: str) -> None:
    options = {"schemas.enable": "false"} if target == "debezium-json" else None
    translator = Translator("debezium-json", target, None, options)
    for _ in range(40):  # compiled functions do as plain ones
        out = [written for one in REALS for written in translator.translate(one)]
        assert b'"c":"-Infinity"' in (out[-1].value or b"")


@pytest.mark.parametrize("target", ["ticdc-canal-json", "ticdc-open-protocol", "ticdc-debezium", "flat-json"])
def test_an_infinite_real_is_refused_with_its_column_by_all_others(target: str) -> None:
    translator = Translator("debezium-json", target)
    translator.translate(REALS[0])
    for _ in range(40):
        with pytest.raises(NotRepresentable, match=r"[ .]c: "):
            translator.translate(REALS[1])


def test_an_infinite_real_is_read_back() -> None:
    out = Translator("debezium-json", "debezium-json").translate
    written = [
        ConsumerRecord("dbz", 0, at, 0, each.key, each.value)
        for at, each in enumerate(each for one in REALS for each in out(one))
    ]
    events, _ = decoded(*written)
    assert image(events[-1]) == {"id": 1, "c": -math.inf}


@pytest.mark.parametrize("source", ["debezium-json", "debezium-avro"])
def test_an_infinite_real_is_read_back_from_canals_packets(source: str) -> None:
    records, resolver = list(REALS), Resolver()
    if source == "debezium-avro":
        made = Translator("debezium-json", source)
        avro = [out for one in REALS for out in resolver.translate(made, one)]
        records = [ConsumerRecord(each.topic, 0, at, 0, each.key, each.value) for at, each in enumerate(avro)]
    written = Translator(source, "canal-protobuf")
    packets = [out for one in records for out in resolver.translate(written, one)]
    back = Translator("canal-protobuf", "flat-json")
    events = [
        event
        for at, each in enumerate(packets)
        for event in resolver.inspect(back, ConsumerRecord("t", 0, at, 0, each.key, each.value))
    ]
    assert image(events[-1]) == {"id": 1, "c": -math.inf}


def test_digits_behind_numbers_are_still_base64() -> None:
    """A connector that goes over from `decimal.format=NUMERIC` sends the same schema."""
    translator = Translator("debezium-json", "canal-json")
    translator.translate(record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c DECIMAL(10,0))"), topic="dbz"))

    def read_back(value: Any) -> Any:
        block = column("id", "int32"), {**decimal(0), "field": "c"}
        (event,) = translator.inspect(record(wrapped(row(after={"id": 1, "c": value}), *block), {"id": 1}))
        return image(event)["c"]

    assert {read_back(at) for at in range(50)} == {Decimal(at) for at in range(50)}
    assert read_back("1234") == int.from_bytes(base64.b64decode("1234"), "big", signed=True)
    assert read_back(1234.0) == 1234


def test_zero_keeps_its_sign_whichever_came_before() -> None:
    translator = Translator("debezium-json", "canal-json")
    translator.translate(record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c FLOAT)"), topic="dbz"))
    for text in ("0.0", "-0.0", "0.0"):
        (event,) = translator.inspect(record(row(after={"id": 1, "c": float(text)}), {"id": 1}))
        assert str(image(event)["c"]) == text


@pytest.mark.parametrize(("pos", "known"), [(4, 4), (0, 0), (-1, None), (1 << 63, None), (None, None)])
def test_a_position_that_no_log_has_is_not_known(pos: int | None, known: int | None) -> None:
    (event,), _ = decoded(record(row(after={"id": 1}, source={"pos": pos}), {"id": 1}))
    assert isinstance(event, RowChange)
    assert event.source.binlog_position == known


@pytest.mark.parametrize(
    ("value", "base", "cell"),
    [
        ({"wkb": "AQcAAAAAAAAA", "srid": 7}, "geometry", b"\x07\0\0\0\x01\x07" + bytes(7)),
        ([1.0, 2.5], "vector", "[1,2.5]"),
    ],
)
def test_objects_and_arrays_of_an_unknown_table_are_what_only_looks_so(
    value: Any, base: str, cell: Any
) -> None:
    events, counted = decoded(record(row(after={"id": 1, "c": value}), {"id": 1}))
    (event,) = events
    assert isinstance(event, RowChange)
    assert (event.schema.columns[1].type.base, image(event)["c"]) == (base, cell)
    assert counted["value-inferred"] == 1


def test_an_object_that_no_column_has_is_refused() -> None:
    with pytest.raises(Malformed, match="neither text"):
        decoded(record(row(after={"id": 1, "c": {"a": 1}}), {"id": 1}))


def test_a_vector_of_anything_else_is_refused_without_its_values() -> None:
    (event,), _ = decoded(record(row(after={"id": 1, "c": [1, "secret"]}), {"id": 1}))
    with pytest.raises(Malformed, match=r"c: not a vector of numbers$"):
        image(event)


def test_a_key_may_be_an_object() -> None:
    """A DECIMAL with a scale of its own."""
    key = {"scale": 2, "value": "MDk="}
    translator = Translator("debezium-json", "canal-json")
    translator.translate(record(ddl("CREATE TABLE t (id DECIMAL(10,2) PRIMARY KEY, c INT)"), topic="dbz"))
    message = wrapped(
        row("u", {"id": key, "c": 1}, {"id": key, "c": 2}),
        column("id", "struct", f"{DATA}.VariableScaleDecimal"),
        column("c", "int32"),
    )
    (event,) = translator.inspect(record(message, {"id": key}))
    assert isinstance(event, RowChange)
    assert event.images.raw_key() == ('{"scale":2,"value":"MDk="}',)


def test_a_key_may_be_an_array_in_a_damaged_message() -> None:
    (event,), _ = decoded(record(row(after={"id": []}), {"id": 100}))
    assert isinstance(event, RowChange)
    assert event.images.raw_key() == ("[]",)


def test_a_float_is_read_alike_after_one_that_is_no_number() -> None:
    definition = record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c FLOAT)"), topic="dbz")
    values = [153.1230010986328, "Infinity", 153.1230010986328, "NaN", 153.1230010986328]
    schema = column("id", "int32"), column("c", "double")
    rows = [record(wrapped(row(after={"id": 1, "c": each}), *schema), {"id": 1}) for each in values]
    events, _ = decoded(definition, *rows)
    assert [str(image(event)["c"]) for event in events[1:]] == ["153.123", "inf", "153.123", "nan", "153.123"]


TOO_FINE = [
    ("TIMESTAMP(6)", "2026-07-01T08:00:00.{}Z", column("c", "string", f"{TIME}.ZonedTimestamp"), "2026-07-01 08:00:00."),
    ("TIMESTAMP(6)", "2026-07-01T10:00:00.{}+02:00", column("c", "string", f"{TIME}.ZonedTimestamp"), "2026-07-01 08:00:00."),
    ("TIMESTAMP(6)", "2026-07-01T08:00:00.{}Z", column("c", "string"), "2026-07-01 08:00:00."),
    ("TIMESTAMP(6)", "2026-07-01T08:00:00.{}Z", None, "2026-07-01 08:00:00."),
    ("DATETIME(6)", "2026-07-01T08:00:00.{}Z", column("c", "string", f"{TIME}.IsoTimestamp"), "2026-07-01 08:00:00."),
    ("TIME(6)", "08:00:00.{}Z", column("c", "string", f"{TIME}.IsoTime"), "08:00:00."),
    ("DATETIME(6)", "1782892800{}", column("c", "int64", f"{TIME}.NanoTimestamp"), "2026-07-01 08:00:00."),
    ("TIME(6)", "28800{}", column("c", "int64", f"{TIME}.NanoTime"), "08:00:00."),
]  # fmt: skip


@pytest.mark.parametrize(("digits", "lost"), [("123456000", 0), ("123456100", 1), ("123456009", 1)])
@pytest.mark.parametrize(("definition", "value", "schema", "whole"), TOO_FINE)
def test_digits_of_a_second_that_mysql_does_not_have_are_counted(
    definition: str, value: str, schema: dict[str, Any] | None, whole: str, digits: str, lost: int
) -> None:
    text = value.format(digits)
    given = int(text) if text.isdigit() else text
    found, counted = read(definition, given, schema=schema)
    assert (found, counted.get("time-range", 0)) == (f"{whole}123456", lost)
    translator = ShadowTranslator(DEBEZIUM, "canal-json", engine=ENGINE)
    translator.translate(record(ddl(f"CREATE TABLE t (id INT PRIMARY KEY, c {definition})"), topic=DDL_TOPIC))
    for at in range(400):
        after = {"id": 1, "c": given if at == 399 else value_without_fraction(value, "500000000")}
        payload = row("c", after=after)
        message = payload if schema is None else wrapped(payload, column("id", "int32"), schema)
        translator.translate(record(json.dumps(message, separators=(",", ":")).encode(), {"id": 1}, at))
    assert translator.paths["fast"] or "+" in value  # templates are for UTC alone
    assert translator.losses[Loss.TIME_RANGE] == lost


@pytest.mark.parametrize(
    ("definition", "nanos", "expected"),
    [
        ("DATETIME(6)", -1_000, ("1969-12-31 23:59:59.999999", {})),
        ("DATETIME(6)", -1, ("1969-12-31 23:59:59.999999", {"time-range": 1})),
        ("TIME(6)", -1_000, ("-00:00:00.000001", {})),
        ("TIME(6)", -1_001, ("-00:00:00.000001", {"time-range": 1})),
    ],
)
def test_parts_of_a_microsecond_below_0_are_counted_without_a_schema(
    definition: str, nanos: int, expected: tuple[str, dict[str, int]]
) -> None:
    assert read(definition, nanos, options={"time.precision.mode": "nanoseconds"}) == expected


def value_without_fraction(value: str, digits: str) -> Any:
    text = value.format(digits)
    return int(text) if text.isdigit() else text.replace("500000000", "500000")


@pytest.mark.parametrize("end", ["1234567x", "12345678901234", "123456x"])
def test_a_fraction_of_other_characters_is_refused(end: str) -> None:
    with pytest.raises(Malformed):
        read("TIMESTAMP(6)", f"2026-07-01T08:00:00.{end}Z")
