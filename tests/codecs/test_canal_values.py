"""Values and types in Canal messages: what must survive, and how each producer spells it."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from support import CANAL, OPEN, TICDC, events, record, row_message, translate

from relay import ABSENT, ConfigError, ConsumerRecord, DecodeError, Malformed, Op, RowChange, Translator


def one(mysql_type: str, text: str | None, source: str = TICDC, options: dict[str, str] | None = None) -> Any:
    (event,) = events(source, [record(row_message({"c": mysql_type}, {"c": text}))], options)
    assert isinstance(event, RowChange)
    assert event.after is not None
    return event.after[0]


def through(
    mysql_type: str,
    text: str | None,
    source: str = TICDC,
    target: str = CANAL,
    **options: dict[str, str] | None,
) -> Any:
    message = record(row_message({"c": mysql_type}, {"c": text}))
    (out,) = translate(source, target, [message], options.get("reading"), options.get("writing"))
    return out["data"][0]["c"]


@pytest.mark.parametrize(
    ("mysql_type", "text", "value"),
    [
        ("bigint unsigned", "18446744073709551615", 2**64 - 1),
        ("bigint", "-9223372036854775808", -(2**63)),
        ("decimal(10,2)", "1.10", Decimal("1.10")),
        (
            "decimal",
            "99999999999999999999999999999999999.99999",
            Decimal("99999999999999999999999999999999999.99999"),
        ),
        ("decimal(65,30)", "0." + "0" * 29 + "1", Decimal("1E-30")),
        ("date", "0000-00-00", "0000-00-00"),
        ("date", "2020-02-00", "2020-02-00"),
        ("date", "2009-11-31", "2009-11-31"),
        ("datetime(3)", "2020-01-01 12:00:00.120", "2020-01-01 12:00:00.120"),
        ("time", "-838:59:59", "-838:59:59"),
        ("time(2)", "-00:00:00.12", "-00:00:00.12"),
        ("time", "100:00:00", "100:00:00"),
        ("timestamp", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        ("varbinary(16)", "\x05\x07\n\x0f$2+cx<&ÿþ-7F", bytes.fromhex("05070A0F24322B63783C26FFFE2D3746")),
        ("blob", "".join(map(chr, range(256))), bytes(range(256))),
        ("bit(64)", "18446744073709551615", 2**64 - 1),
        ("enum('a,b','it''s')", "2", 2),
        ("enum", "0", 0),
        ("set", "18446744073709551615", 2**64 - 1),
        ("varchar(4)", "", ""),
        ("varchar(4)", "null", "null"),
        ("json", "null", "null"),
        ("varchar(4)", None, None),
        ("json", None, None),
        ("vector(3)", "[1,2.5,3]", "[1,2.5,3]"),
        ("year", "0", 0),
        ("double", "1.7976931348623157e308", 1.7976931348623157e308),
    ],
)
def test_values_are_exact_and_keep_their_text(mysql_type: str, text: str | None, value: Any) -> None:
    assert one(mysql_type, text) == value
    if mysql_type not in {"year", "double"}:
        assert through(mysql_type, text) == text
        assert through(mysql_type, text, CANAL, TICDC) == text


def test_value_null_and_absent_stay_apart() -> None:
    types = {"id": "int", "a": "int", "b": "int"}
    create = {
        "isDdl": True,
        "type": "CREATE",
        "database": "d",
        "table": "t",
        "es": 1,
        "sql": "CREATE TABLE t (id INT, a INT, b INT)",
    }
    update = row_message(types, {"id": "1", "a": None}, op="UPDATE", old=[{"a": "2"}])
    _, event = events(CANAL, [record(create), record(update, offset=1)])
    assert isinstance(event, RowChange)
    assert (event.before, event.after) == ((1, 2, ABSENT), (1, None, ABSENT))
    _, out = translate(CANAL, CANAL, [record(create), record(update, offset=1)])
    assert (out["data"], out["old"]) == ([{"id": "1", "a": None}], [{"a": "2"}])
    assert out["mysqlType"] == {"id": "int", "a": "int"}


@pytest.mark.parametrize(
    ("text", "go", "java"),
    [
        ("1", "1", "1.0"), ("3.14", "3.14", "3.14"), ("10000000", "10000000", "1.0E7"), ("0.0000001", "0.0000001", "1.0E-7"),
        ("-0", "-0", "-0.0"), ("12345678.9", "12345678.9", "1.23456789E7"), ("0.001", "0.001", "0.001"),
        ("9999999", "9999999", "9999999.0"),
        ("0.000999", "0.000999", "9.99E-4"), ("123456789012345680000", "123456789012345680000", "1.2345678901234568E20"),
    ],
)  # fmt: skip
def test_doubles_are_spelled_as_go_and_as_java(text: str, go: str, java: str) -> None:
    assert through("double", text) == java
    assert through("double", java, CANAL, TICDC) == go


def test_floats_of_releases_before_6_1_6_get_their_32_bit_digits_back() -> None:
    assert one("float", "3.140000104904175") == 3.14
    assert through("float", "3.140000104904175") == "3.14"
    assert through("float", "340282350000000000000000000000000000000") == "3.4028235E38"


def test_year_zero_is_spelled_differently() -> None:
    assert through("year", "0") == "0000"
    assert through("year", "0000", CANAL, TICDC) == "0"
    assert through("year", "2026") == "2026"


def test_binary_is_padded_by_ticdc_and_stripped_by_canal() -> None:
    assert through("binary(4)", "ab\0\0") == "ab"
    assert through("binary(4)", "ab", CANAL, TICDC) == "ab\0\0"
    assert one("binary(4)", "ab", CANAL) == b"ab\0\0"


def test_canal_drops_zero_fractions_of_decimals() -> None:
    assert one("decimal(10,6)", "1.0", CANAL) == Decimal("1.000000")
    assert str(one("decimal(10,6)", "1.0", CANAL)) == "1.000000"
    assert through("decimal(10,6)", "1.0", CANAL, TICDC) == "1.000000"
    assert through("decimal(10,2)", "0.00") == "0.00"


def test_timestamps_move_between_zones_and_nothing_else_does() -> None:
    shanghai = {"timezone": "Asia/Shanghai"}
    assert one("timestamp", "2020-02-20 02:20:20", options=shanghai) == "2020-02-19 18:20:20"
    assert through("timestamp(3)", "2020-02-20 02:20:20.120", reading=shanghai) == "2020-02-19 18:20:20.120"
    assert (
        through("timestamp", "2020-02-19 18:20:20", writing={"timezone": "+08:00"}) == "2020-02-20 02:20:20"
    )
    assert through("datetime", "2020-02-20 02:20:20", reading=shanghai) == "2020-02-20 02:20:20"
    assert through("timestamp", "0000-00-00 00:00:00", reading=shanghai) == "0000-00-00 00:00:00"


def test_an_unknown_zone_is_a_configuration_error() -> None:
    with pytest.raises(ConfigError, match="unknown time zone 'Asia/Shanghia'"):
        Translator(TICDC, CANAL, {"timezone": "Asia/Shanghia"})


@pytest.mark.parametrize(
    ("mysql_type", "text"),
    [
        ("float", "abc"), ("float", "1e999"), ("double", "NaN"), ("double", "1_0"), ("year", "MMXX"), ("binary(4)", "中"),
        ("timestamp", "yesterday"),
    ],
)  # fmt: skip
def test_a_text_that_must_be_converted_and_cannot_be_is_malformed(mysql_type: str, text: str) -> None:
    options = {"timezone": "Asia/Shanghai"}
    with pytest.raises(Malformed) as raised:
        through(mysql_type, text, reading=options)
    assert raised.value.path == "data[0].c"
    assert text not in str(raised.value)


@pytest.mark.parametrize(
    ("mysql_type", "text"),
    [
        ("int", "1.5"),
        ("int", ""),
        ("decimal", "1,5"),
        ("date", "20200101"),
        ("time", "1:2:3"),
        ("blob", "中"),
        ("bit", "b'1'"),
    ],
)
def test_reading_the_value_of_a_wrong_text_is_malformed_too(mysql_type: str, text: str) -> None:
    with pytest.raises(DecodeError, match=r"data\[0\]\.c"):
        one(mysql_type, text)


def test_native_numbers_of_look_alikes_keep_their_digits() -> None:
    text = (
        '{"data":{"id":12345678901234567890,"v":0.10,"b":true,"j":{"a":[1,2.50]}},"type":"INSERT","database":"d","table":"t",'
        '"mysqlType":{"id":"bigint unsigned","v":"decimal(3,2)","b":"tinyint(1)","j":"json"}}'
    )
    (event,) = events(CANAL, [record(text)])
    assert isinstance(event, RowChange)
    assert event.after == (12345678901234567890, Decimal("0.10"), 1, '{"a":[1,2.50]}')


def test_raw_newlines_and_a_byte_order_mark_are_tolerated() -> None:
    text = '\ufeff{"isDdl":true,"type":"CREATE","database":"d","table":"t","es":5,"sql":"CREATE TABLE t\n(id INT)"}'
    (out,) = translate(CANAL, TICDC, [record(text)])
    assert out["sql"] == "CREATE TABLE t\n(id INT)"


def test_snapshot_rows_of_look_alikes_are_reads() -> None:
    (event,) = events(CANAL, [record(row_message({"a": "int"}, {"a": "1"}, op="INIT"))])
    assert isinstance(event, RowChange)
    assert event.op is Op.READ
    assert event.source.snapshot


@pytest.mark.parametrize(
    "text", ["9999-12-31 23:59:59", "2020-02-30 00:00:00", "0000-01-01 00:00:00", "2020-00-00 00:00:00"]
)
def test_timestamps_that_are_no_moment_stay_as_they_are_in_every_zone(text: str) -> None:
    shanghai = {"timezone": "Asia/Shanghai"}
    assert through("timestamp", text, writing=shanghai) == text
    assert through("timestamp", text, reading={"timezone": "-05:00"}) == text


def test_a_timestamp_with_an_offset_keeps_to_it() -> None:
    assert one("timestamp", "2021-05-17 07:22:42 +08:00") == "2021-05-16 23:22:42"
    assert (
        one("timestamp", "2021-05-17 07:22:42Z", options={"timezone": "Asia/Shanghai"})
        == "2021-05-17 07:22:42"
    )


@pytest.mark.parametrize(
    ("mysql_type", "text"),
    [
        ("decimal(10,2)", "1E+999999999"),
        ("decimal(10,2)", "1E-999999999"),
        ("decimal", "9" * 500),
        ("int", "9" * 5000),
    ],
)
def test_numbers_without_end_are_malformed(mysql_type: str, text: str) -> None:
    with pytest.raises(Malformed):
        one(mysql_type, text, CANAL)


def test_an_unsigned_number_without_end_is_beyond_its_type_and_nothing_worse() -> None:
    (out,) = translate(TICDC, CANAL, [record(row_message({"c": "int unsigned"}, {"c": "9" * 5000}))])
    assert out["sqlType"] == {"c": -5}


def test_a_binary_length_that_mysql_does_not_have_is_no_padding() -> None:
    assert one("binary(999999999999)", "ab", CANAL) == b"ab"


@pytest.mark.parametrize(
    ("text", "go"),
    [
        ("4.46026875E11", "446026870000"),
        ("1.17549435E-38", "0." + "0" * 37 + "11754944"),
        ("3.4028235E38", "34028235" + "0" * 31),
    ],
)
def test_floats_get_the_shortest_digits_of_their_32_bits(text: str, go: str) -> None:
    assert through("float", text, CANAL, TICDC) == go


def test_zeros_keep_their_sign_whatever_came_before() -> None:
    messages = [
        record(row_message({"c": "float"}, {"c": text}))
        for text in ("0.00000000", "-0.00000000", "0.00000000")
    ]
    assert [m["data"][0]["c"] for m in translate(TICDC, CANAL, messages)] == ["0.0", "-0.0", "0.0"]


@pytest.mark.parametrize(
    "value",
    [0.001, 0.0009765625, 9999999.0, 1e7, 123456.789, 100.5, 5e-324, 1.7976931348623157e308, 0.1, 3.0],
)
def test_doubles_through_both_spellings_are_the_same_number(value: float) -> None:
    there = through("double", repr(value))
    assert float(there) == value
    assert float(through("double", there, CANAL, TICDC)) == value
    assert through("double", through("double", there, CANAL, TICDC)) == there


SMALLEST = {
    "double": ["4.9E-324", "1.5E-323", "2.0E-323", "4.4E-323", "4.9E-323", "5.9E-323", "8.9E-323", "9.4E-323", "1.0E-45"],
    "float": ["1.4E-45", "2.8E-45", "4.2E-45", "5.6E-45", "7.0E-45", "8.4E-45", "9.8E-45", "2.9E-44", "4.1E-44"],
}  # fmt: skip


@pytest.mark.parametrize(
    ("mysql_type", "digits"), [(kind, text) for kind in SMALLEST for text in SMALLEST[kind]]
)
@pytest.mark.parametrize("sign", ["", "-"])
@pytest.mark.parametrize("other", [TICDC, OPEN])
def test_the_smallest_numbers_have_the_digits_of_java(
    mysql_type: str, digits: str, sign: str, other: str
) -> None:
    """As JDK 17 prints them; JDK 19 and later have a rule by which these are the same."""
    message = record(row_message({"c": mysql_type}, {"c": sign + digits}))
    (there,) = Translator(CANAL, other).translate(message)
    (back,) = Translator(other, CANAL).translate(ConsumerRecord(there.topic, 0, 0, 0, there.key, there.value))
    assert json.loads(back.value or b"")["data"] == [{"c": sign + digits}]


@pytest.mark.parametrize("mysql_type", ["decimal", "decimal(10,0)", "decimal(20,3)", "decimal(65,30)"])
@pytest.mark.parametrize(
    "text",
    ["0", "-0", "1", "1.0", "-0.0", "0.00", "100.50", "1.2345", "007.10", ".5", "5.", "1E3", "1e-2", "+1.5"],
)
def test_a_decimal_is_written_as_its_value(mysql_type: str, text: str) -> None:
    """However many of its digits the source has left out."""
    assert through(mysql_type, text, CANAL, TICDC) == format(one(mysql_type, text, CANAL), "f")


@pytest.mark.parametrize(
    "text", ["1_0.000", "1.000 000", "--1.000", "1.000.0", "", "NaN", "\u0661.000\u00b9"]
)
def test_what_is_no_decimal_is_refused_as_text_too(text: str) -> None:
    with pytest.raises(DecodeError, match=r"data\[0\]\.c"):
        through("decimal(10,3)", text, CANAL, TICDC)
