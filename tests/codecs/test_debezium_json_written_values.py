"""Debezium JSON, written: values of each type with the connector's options and those that shape them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from debezium_json_support import DEBEZIUM, column, ddl, record, row, wrapped
from native_support import BARE, encoded

from relay import ABSENT, Column, Loss, Malformed, NotRepresentable, Op, RowChange, Translator
from relay.codecs.debezium.native.profiles import JSON_PROFILES
from relay.model.events import Default, Rows, Source, TableId, TableSchema
from relay.mysql.types import parse_type, with_implied_parameters

SOURCE = Source("mysql", 1768443650000 * 10**6, binlog_position=1)
DECIMAL = "org.apache.kafka.connect.data.Decimal"


def table(text: str, *, nullable: bool | None = True, default: Default | None = None) -> TableSchema:
    column_type = with_implied_parameters(parse_type(text))
    column = Column("c", column_type, nullable=nullable, default=ABSENT if default is None else default)
    key = Column("id", parse_type("int"), nullable=False)
    return TableSchema(TableId("d", "t"), (key, column), primary_key=("id",))


def written(
    text: str, value: Any, options: dict[str, str] | None = None, **more: Any
) -> tuple[dict[str, Any], Any, list[Loss]]:
    """The column's schema, what its value becomes, and what is lost."""
    change = RowChange(Op.INSERT, table(text, **more), Rows(None, (1, value)), SOURCE, 0)
    (payload,), losses = encoded(change, options=options or {})
    message = json.loads(payload.value or b"")
    schema = message["schema"]["fields"][1]["fields"][1]
    assert schema.pop("field") == "c"
    return schema, message["payload"]["after"]["c"], losses


def named(type_: str, name: str | None = None, **parameters: str) -> dict[str, Any]:
    found: dict[str, Any] = {"type": type_, "optional": True}
    if name is not None:
        found |= {"name": name, "version": 1}
    return found | ({"parameters": parameters} if parameters else {})


def decimal(scale: int, precision: int) -> dict[str, Any]:
    return named("bytes", DECIMAL, scale=str(scale), **{"connect.decimal.precision": str(precision)})


TIME = "io.debezium.time."
CONNECT = "org.apache.kafka.connect.data."

DEFAULTS: list[tuple[str, Any, dict[str, Any], Any]] = [
    ("tinyint(1)", -5, named("int16"), -5),
    ("tinyint unsigned", 255, named("int16"), 255),
    ("smallint", -32768, named("int16"), -32768),
    ("smallint unsigned", 65535, named("int32"), 65535),
    ("mediumint unsigned", 16777215, named("int32"), 16777215),
    ("int", -1, named("int32"), -1),
    ("int unsigned", 4294967295, named("int64"), 4294967295),
    ("bigint", 9007199254740993, named("int64"), 9007199254740993),
    ("bigint unsigned", 2**64 - 1, named("int64"), -1),
    ("bigint unsigned", 2**63, named("int64"), -(2**63)),
    ("float", 3.14, named("float"), 3.14),
    ("float(5,2)", 5.61, named("double"), 5.61),
    ("double", 1e100, named("double"), 1e100),
    ("decimal(12,2)", Decimal("19.99"), decimal(2, 12), "B88="),
    ("decimal(10,2)", Decimal("0.00"), decimal(2, 10), "AA=="),
    ("decimal(10,2)", Decimal("-0.01"), decimal(2, 10), "/w=="),
    ("decimal(10,2)", Decimal("-1.50"), decimal(2, 10), "/2o="),
    ("decimal(10,0)", Decimal(127), decimal(0, 10), "fw=="),
    ("decimal(10,0)", Decimal(128), decimal(0, 10), "AIA="),
    ("decimal(10,0)", Decimal(-128), decimal(0, 10), "gA=="),
    ("decimal(30,10)", Decimal("99999999999999999999.9999999999"), decimal(10, 30), "DJ8snNBGdO3qP////w=="),
    ("bit(1)", 1, named("boolean"), True),
    ("bit(10)", 513, named("bytes", "io.debezium.data.Bits", length="10"), "AQI="),
    ("bit(64)", 2**64 - 1, named("bytes", "io.debezium.data.Bits", length="64"), "//////////8="),
    ("year", 2026, named("int32", TIME + "Year"), 2026),
    ("year", 0, named("int32", TIME + "Year"), 0),
    ("date", "2026-01-15", named("int32", TIME + "Date"), 20468),
    ("date", "0018-01-01", named("int32", TIME + "Date"), -712953),
    ("datetime", "2026-01-15 10:20:30", named("int64", TIME + "Timestamp"), 1768472430000),
    ("datetime(3)", "1969-12-31 23:59:59.999", named("int64", TIME + "Timestamp"), -1),
    ("datetime(4)", "2026-01-15 10:20:30.1234", named("int64", TIME + "MicroTimestamp"), 1768472430123400),
    (
        "datetime(6)",
        "9999-12-31 23:59:59.999999",
        named("int64", TIME + "MicroTimestamp"),
        253402300799999999,
    ),
    (
        "timestamp(3)",
        "2026-01-15 02:20:30.120",
        named("string", TIME + "ZonedTimestamp"),
        "2026-01-15T02:20:30.120Z",
    ),
    ("time", "-838:59:59", named("int64", TIME + "MicroTime"), -3020399000000),
    ("time(6)", "-00:00:00.000001", named("int64", TIME + "MicroTime"), -1),
    ("varchar(9)", 'ü"\\\n\x01😀', named("string"), 'ü"\\\n\x01😀'),
    ("binary(5)", b"foo", named("bytes"), "Zm9vAAA="),
    ("varbinary(9)", b"\x00\xff\x10", named("bytes"), "AP8Q"),
    ("blob", b"", named("bytes"), ""),
    ("enum('a,b','c')", 1, named("string", "io.debezium.data.Enum", allowed="a\\,b,c"), "a,b"),
    ("enum('a,b','c')", 0, named("string", "io.debezium.data.Enum", allowed="a\\,b,c"), ""),
    ("set('a','b','c')", 5, named("string", "io.debezium.data.EnumSet", allowed="a,b,c"), "a,c"),
    ("set('a','b','c')", 0, named("string", "io.debezium.data.EnumSet", allowed="a,b,c"), ""),
    (
        "json",
        '{"k": [1, 2], "a b": "x: \\" , y"}',
        named("string", "io.debezium.data.Json"),
        '{"k":[1,2],"a b":"x: \\" , y"}',
    ),
    ("json", '{"k": "a, b"}', named("string", "io.debezium.data.Json"), '{"k":"a, b"}'),
    (
        "vector(3)",
        "[1,2.5,3]",
        named("array", "io.debezium.data.FloatVector") | {"items": {"type": "float", "optional": False}},
        [1.0, 2.5, 3.0],
    ),
]


@pytest.mark.parametrize(("text", "value", "schema", "shown"), DEFAULTS)
def test_values_by_default(text: str, value: Any, schema: dict[str, Any], shown: Any) -> None:
    assert written(text, value) == (schema, shown, [])
    assert type(written(text, value)[1]) is type(shown)
    assert written(text, None) == (schema, None, [])


def mode(name: str) -> dict[str, str]:
    return {"time.precision.mode": name}


STRING, EXACT = {"decimal.handling.mode": "string"}, {"bigint.unsigned.handling.mode": "precise"}
NUMERIC = {"decimal.format": "NUMERIC"}

OTHERWISE: list[tuple[dict[str, str], str, Any, dict[str, Any], Any, list[Loss]]] = [
    (STRING, "decimal(12,4)", Decimal("1.5000"), named("string"), "1.5000", []),
    ({"decimal.handling.mode": "double"}, "decimal(9,2)", Decimal("-0.50"), named("double"), -0.5, []),
    (
        {"decimal.handling.mode": "double"},
        "decimal(20,2)",
        Decimal("12345678901234567.89"),
        named("double"),
        12345678901234568.0,
        [Loss.DECIMAL_DIGITS],
    ),
    (NUMERIC, "decimal(12,2)", Decimal("19.90"), decimal(2, 12), 19.9, []),
    (EXACT, "bigint unsigned", 2**64 - 1, decimal(0, 20), "AP//////////", []),
    (EXACT, "bigint unsigned", 0, decimal(0, 20), "AA==", []),
    (EXACT | NUMERIC, "bigint unsigned", 2**64 - 1, decimal(0, 20), 2**64 - 1, []),
    ({"bigint.unsigned.handling.mode": "string"}, "bigint unsigned", 2**63, named("string"), str(2**63), []),
    ({"binary.handling.mode": "base64"}, "blob", b"\xfb\xff", named("string"), "+/8=", []),
    ({"binary.handling.mode": "base64-url-safe"}, "blob", b"\xfb\xff", named("string"), "-_8=", []),
    ({"binary.handling.mode": "hex"}, "binary(3)", b"\xde\xad", named("string"), "dead00", []),
    (mode("connect"), "date", "2026-01-15", named("int32", CONNECT + "Date"), 20468, []),
    (mode("connect"), "time(3)", "08:30:00.500", named("int32", CONNECT + "Time"), 30600500, []),
    (mode("connect"), "time", "24:00:00", named("int32", CONNECT + "Time"), 86400000, []),
    (mode("connect"), "time", "25:00:00", named("int32", CONNECT + "Time"), None, [Loss.TIME_RANGE]),
    (mode("connect"), "time", "-00:00:01", named("int32", CONNECT + "Time"), None, [Loss.TIME_RANGE]),
    (
        mode("connect"),
        "datetime(6)",
        "2026-01-15 10:20:30.123456",
        named("int64", CONNECT + "Timestamp"),
        1768472430123,
        [Loss.TIME_RANGE],
    ),
    (mode("isostring"), "date", "2026-01-15", named("string", TIME + "IsoDate"), "2026-01-15Z", []),
    (mode("isostring"), "time(3)", "08:30:00.500", named("string", TIME + "IsoTime"), "08:30:00.5Z", []),
    (mode("isostring"), "time(3)", "08:30:00.000", named("string", TIME + "IsoTime"), "08:30:00Z", []),
    (mode("isostring"), "time", "24:00:00", named("string", TIME + "IsoTime"), None, [Loss.TIME_RANGE]),
    (
        mode("isostring"),
        "datetime(6)",
        "2026-01-15 10:20:30.120000",
        named("string", TIME + "IsoTimestamp"),
        "2026-01-15T10:20:30.12Z",
        [],
    ),
    (
        mode("microseconds"),
        "datetime",
        "2026-01-15 10:20:30",
        named("int64", TIME + "MicroTimestamp"),
        1768472430000000,
        [],
    ),
    (mode("nanoseconds"), "time", "08:30:00", named("int64", TIME + "NanoTime"), 30600000000000, []),
    (
        mode("nanoseconds"),
        "datetime(3)",
        "2026-01-15 10:20:30.123",
        named("int64", TIME + "NanoTimestamp"),
        1768472430123000000,
        [],
    ),
    (
        mode("nanoseconds"),
        "datetime",
        "9999-12-31 23:59:59",
        named("int64", TIME + "NanoTimestamp"),
        None,
        [Loss.TIME_RANGE],
    ),
    ({"bit": "number"}, "bit(10)", 341, named("int64"), 341, []),
    ({"bit": "number"} | EXACT, "bit(1)", 1, decimal(0, 20), "AQ==", []),
    ({"temporal": "text"}, "date", "0000-00-00", named("string"), "0000-00-00", []),
    ({"temporal": "text"}, "time", "-838:59:59", named("string"), "-838:59:59", []),
    (
        {"temporal": "text"},
        "timestamp(3)",
        "2026-01-15 02:20:30.120",
        named("string"),
        "2026-01-15 02:20:30.120",
        [],
    ),
    (
        {"temporal": "text", "zero-dates": "null"},
        "datetime",
        "2020-02-30 01:02:03",
        named("string"),
        None,
        [Loss.ZERO_DATE],
    ),
    ({"time": "text"}, "time(1)", "100:00:00.5", named("string"), "100:00:00.5", []),
    ({"zero-dates": "text"}, "datetime", "0000-00-00 00:00:00", named("string"), "0000-00-00 00:00:00", []),
    ({"wide-decimals": "text"}, "decimal(39,1)", Decimal("1.0"), named("string"), "1.0", []),
    ({"wide-decimals": "text"}, "decimal(38,1)", Decimal("1.0"), decimal(1, 38), "Cg==", []),
    ({"vector": "text"}, "vector(2)", "[1,2.5]", named("string"), "[1,2.5]", []),
    ({"enum-schema": "string"}, "enum('a','b')", 2, named("string"), "b", []),
]


@pytest.mark.parametrize(("options", "text", "value", "schema", "shown", "lost"), OTHERWISE)
def test_values_with_other_options(
    options: dict[str, str], text: str, value: Any, schema: dict[str, Any], shown: Any, lost: list[Loss]
) -> None:
    assert written(text, value, options) == (schema, shown, lost)


# ---------------------------------------------------------------- what is no date


@pytest.mark.parametrize(
    ("text", "value", "null", "otherwise"),
    [
        ("date", "0000-00-00", None, 0),
        ("date", "2009-11-31", None, 0),
        ("datetime(6)", "0000-00-00 00:00:00.000000", None, 0),
        ("timestamp", "0000-00-00 00:00:00", None, "1970-01-01T00:00:00Z"),
    ],
)
def test_what_is_no_date_is_null_or_1970(text: str, value: str, null: Any, otherwise: Any) -> None:
    assert written(text, value)[1:] == (null, [Loss.ZERO_DATE])
    lost = [] if text == "timestamp" else [Loss.ZERO_DATE]  # MySQL has no such TIMESTAMP: it can be known
    assert written(text, value, nullable=False)[1:] == (otherwise, lost)
    schema, shown, losses = written(text, value, {"zero-dates": "null"}, nullable=False)
    assert (schema["optional"], shown, losses) == (True, None, [Loss.ZERO_DATE])


def keyed(column: str, cell: str, options: dict[str, str]) -> tuple[bytes | None, Any, list[Loss]]:
    """The key of a row whose key is a column of this type, the column in its row, and what is lost."""
    columns = (Column("c", parse_type(column), nullable=False),)
    schema = TableSchema(TableId("d", "t"), columns, primary_key=("c",))
    change = RowChange(Op.INSERT, schema, Rows(None, (cell,)), SOURCE, 0)
    (payload,), losses = encoded(change, options=BARE | options)
    return payload.key, json.loads(payload.value or b"null")["after"]["c"], losses


def test_a_key_of_the_connector_has_1970_for_what_is_no_date() -> None:
    assert keyed("date", "0000-00-00", {}) == (b'{"c":0}', 0, [Loss.ZERO_DATE])


@pytest.mark.parametrize("column", ["date", "datetime", "datetime(6)"])
@pytest.mark.parametrize("mode", ["adaptive_time_microseconds", "connect", "isostring", "nanoseconds"])
def test_what_is_no_date_is_refused_in_a_key_that_is_to_stay_one(column: str, mode: str) -> None:
    """NULL is no key, and 1970 would be another row's."""
    cell = "2009-11-31" if column == "date" else "2009-11-31 01:02:03"
    with pytest.raises(NotRepresentable, match=r"key.*zero-dates=text"):
        keyed(column, cell, {"zero-dates": "null", "time.precision.mode": mode})
    assert keyed(column, cell, {"zero-dates": "text"}) == (b'{"c":"%b"}' % cell.encode(), cell, [])


def test_text_in_a_key_stays_text() -> None:
    options = {"zero-dates": "null", "temporal": "text"}
    assert keyed("date", "2009-11-31", options) == (b'{"c":"2009-11-31"}', "2009-11-31", [])


def test_a_zero_timestamp_in_a_key_is_no_others() -> None:
    """MySQL has no TIMESTAMP 1970-01-01 00:00:00."""
    key, _, _ = keyed("timestamp", "0000-00-00 00:00:00", {"zero-dates": "null"})
    assert key == b'{"c":"1970-01-01T00:00:00Z"}'


@pytest.mark.parametrize(
    "text", ["1970-01-01 00:00:00Z", "1969-12-31 23:59:59+05:30", "2024-02-30 01:02:03 PM"]
)
@pytest.mark.parametrize("target", [DEBEZIUM, "ticdc-debezium", "canal-json"])
def test_text_that_is_no_timestamp_is_no_zero_timestamp(text: str, target: str) -> None:
    translator = Translator(DEBEZIUM, target)
    translator.translate(record(ddl("CREATE TABLE t (id INT PRIMARY KEY, c TIMESTAMP NULL)"), topic="dbz"))
    payload = row(after={"id": 1, "c": text})
    message = wrapped(payload, column("id", "int32"), column("c", "string"))
    with pytest.raises(Malformed, match=r"c: not a "):
        translator.translate(record(message, {"id": 1}, offset=1))


# ---------------------------------------------------------------- NULL, defaults


@pytest.mark.parametrize(
    ("text", "default", "schema_default"),
    [
        ("int", Default("42"), 42),
        ("int", Default("1.6"), 2),
        ("tinyint", Default("TRUE"), 1),
        ("bigint unsigned", Default("18446744073709551615"), -1),
        ("float", Default("1.25"), 1.25),
        ("decimal(12,4)", Default("1.5"), "Opg="),
        ("decimal(12,2)", Default("0"), "AA=="),
        ("bit(5)", Default("17"), "EQ=="),
        ("bit(1)", Default("1"), True),
        ("year", Default("1999"), 1999),
        ("date", Default("2020-02-29"), 18321),
        ("time(3)", Default("01:02:03.45"), 3723450000),
        ("datetime", Default("2020-02-29 01:02:03"), 1582938123000),
        ("datetime", Default("2020-02-29"), 1582934400000),
        ("timestamp", Default("2020-02-29 01:02:03"), "2020-02-29T01:02:03Z"),
        ("datetime(3)", Default("CURRENT_TIMESTAMP(3)", is_expression=True), 0),
        ("timestamp(6)", Default("CURRENT_TIMESTAMP(6)", is_expression=True), "1970-01-01T00:00:00Z"),
        ("date", Default("0000-00-00"), 0),
        ("varchar(20)", Default("it's"), "it's"),
        ("varchar(20)", Default(""), ""),
        ("varbinary(8)", Default("xy"), "eHk="),
        ("enum('x','y')", Default("y"), "y"),
        ("set('x','y','z')", Default("x,z"), "x,z"),
        ("int", Default("a + 1", is_expression=True), None),
        ("int", Default(None), None),
    ],
)
def test_defaults_are_in_the_schema_in_the_form_of_values(
    text: str, default: Default, schema_default: Any
) -> None:
    schema, _, _ = written(text, None, nullable=False, default=default)
    assert schema.get("default") == schema_default
    assert list(schema)[:2] == ["type", "optional"]


def test_null_is_the_default_as_json_converter_has_it() -> None:
    five = Default("5")
    assert written("int", None, default=five)[1:] == (5, [Loss.NULL_REPLACED_BY_DEFAULT])
    keeps = {"replace.null.with.default": "false"}
    schema, shown, losses = written("int", None, keeps, default=five)
    assert (schema["default"], shown, losses) == (5, None, [])
    now = Default("CURRENT_TIMESTAMP", is_expression=True)
    assert written("datetime", None, default=now)[1:] == (0, [Loss.NULL_REPLACED_BY_DEFAULT])
    assert written("timestamp", None, default=now)[1:] == (None, [])
    assert written("date", "0000-00-00", default=Default("2020-01-01"))[1:] == (None, [Loss.ZERO_DATE])


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("int", 0), ("bit(1)", False), ("bit(9)", "AAA="), ("double", 0.0), ("decimal(5,2)", "AA=="),
        ("varchar(5)", ""), ("blob", ""), ("json", "{}"), ("date", 0), ("timestamp", "1970-01-01T00:00:00Z"),
    ],
)  # fmt: skip
def test_null_in_a_column_that_cannot_be_null_is_the_zero_of_its_type(text: str, shown: Any) -> None:
    assert written(text, None, nullable=False)[1:] == (shown, [Loss.NULL_REPLACED_BY_DEFAULT])
    default = Default("7") if text == "int" else None
    if default is not None:
        assert written(text, None, nullable=False, default=default)[1] == 7


def test_on_request_all_columns_but_the_key_are_optional_and_have_no_default() -> None:
    schema, shown, losses = written(
        "int", None, {"schema-columns": "optional"}, nullable=False, default=Default("5")
    )
    assert (schema, shown, losses) == (named("int32"), None, [])


# ---------------------------------------------------------------- what nobody knows, what does not fit


def test_without_a_definition_the_form_is_the_same_for_all_values() -> None:
    def bare(text: str, value: Any) -> tuple[dict[str, Any], Any]:
        columns = (
            Column("id", parse_type("int"), nullable=False),
            Column("c", parse_type(text), nullable=None),
        )
        schema = TableSchema(TableId("d", "t"), columns, primary_key=("id",), complete=False)
        (payload,), _ = encoded(RowChange(Op.INSERT, schema, Rows(None, (1, value)), SOURCE, 0))
        message = json.loads(payload.value or b"")
        node = message["schema"]["fields"][1]["fields"][1]
        del node["field"]
        return node, message["payload"]["after"]["c"]

    micros = named("int64", TIME + "MicroTimestamp")
    assert bare("datetime", "2026-01-15 10:20:30") == (micros, 1768472430000000)
    assert bare("decimal", Decimal("1.50")) == (named("string"), "1.50")
    assert bare("bit", 1) == (named("bytes", "io.debezium.data.Bits", length="64"), "AQAAAAAAAAA=")
    assert bare("enum", 2) == (named("string"), "2")
    assert bare("enum", "b") == (named("string"), "b")


@pytest.mark.parametrize(
    ("text", "value"),
    [
        ("decimal(5,2)", Decimal("1.234")),
        ("datetime(3)", "2026-01-15 10:20:30.123456"),
        ("datetime", "2026-01-15T10:20:30Z"),
        ("bigint unsigned", -1),
        ("bit(1)", 2),
        ("float", 1e39),
        ("vector(2)", "none"),
    ],
)
def test_values_that_do_not_fit_their_column_are_refused(text: str, value: Any) -> None:
    with pytest.raises(NotRepresentable, match="c"):
        written(text, value)


# ---------------------------------------------------------------- profiles


def test_what_flink_reads() -> None:
    """Payload alone, MySQL's text, decimals and unsigned numbers as text, BIT as a number, base64."""
    columns = tuple(
        Column(f"c{at}", with_implied_parameters(parse_type(text)), nullable=at > 0)
        for at, text in enumerate(
            ("int", "bigint unsigned", "bit(10)", "decimal(50,2)", "date", "time", "timestamp(3)", "binary(3)",
             "enum('a','b')", "double")
        )
    )  # fmt: skip
    schema = TableSchema(TableId("d", "t"), columns, primary_key=("c0",))
    row = (1, 2**64 - 1, 341, Decimal("1.50"), "0000-00-00", "-838:59:59", "2026-01-15 10:20:30.100", b"\xff",
           2, None)  # fmt: skip
    options = dict(JSON_PROFILES["flink"])
    payloads, _ = encoded(RowChange(Op.DELETE, schema, Rows(row, None), SOURCE, 0), options=options)
    assert len(payloads) == 1
    assert json.loads(payloads[0].value or b"")["before"] == {
        "c0": 1, "c1": "18446744073709551615", "c2": "341", "c3": "1.50", "c4": "0000-00-00",
        "c5": "-838:59:59", "c6": "2026-01-15 10:20:30.100", "c7": "/wAA", "c8": "b", "c9": None,
    }  # fmt: skip


@pytest.mark.parametrize(
    ("text", "value", "schema", "shown"),
    [
        ("tinyint unsigned", 255, named("int16"), 255),
        ("int unsigned", 5, named("int64"), 5),
        ("bigint unsigned", 2**64 - 1, decimal(0, 20), "AP//////////"),
        ("bit(1)", 0, decimal(0, 20), "AA=="),
        ("decimal(14,4)", Decimal("12.3400"), decimal(4, 14), "AeII"),
        ("decimal(39,0)", Decimal(1), named("string"), "1"),
        ("date", "0000-00-00", named("int32", TIME + "Date"), None),
        ("datetime", "2026-01-15 10:20:30", named("int64", TIME + "MicroTimestamp"), 1768472430000000),
        (
            "timestamp",
            "2026-01-15 10:20:30",
            named("string", TIME + "ZonedTimestamp"),
            "2026-01-15T10:20:30Z",
        ),
        ("time", "-838:59:59", named("string"), "-838:59:59"),
        ("year", 2026, named("int32", TIME + "Year"), 2026),
        ("enum('a','b')", 2, named("string"), "b"),
        ("set('a','b')", 3, named("string"), "a,b"),
        ("json", "{}", named("string", "io.debezium.data.Json"), "{}"),
        ("binary(3)", b"\xff", named("bytes"), "/wAA"),
        ("vector(2)", "[1,2]", named("string"), "[1,2]"),
    ],
)
def test_what_kafka_connect_reads(text: str, value: Any, schema: dict[str, Any], shown: Any) -> None:
    for nullable in (True, False):
        found = written(
            text, value, dict(JSON_PROFILES["kafka-connect"]), nullable=nullable, default=Default("1")
        )
        assert found[:2] == (schema, shown)


@pytest.mark.parametrize("value", [b"", b"2", bytes(12)])
def test_bytes_that_are_no_geometry_are_refused(value: bytes) -> None:
    with pytest.raises(NotRepresentable, match=": c: "):
        written("geometry", value)
