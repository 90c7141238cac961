"""Values of the Debezium family: MySQL's text and the numbers and ISO text that stand for it."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from relay import Loss
from relay.codecs.debezium.shared.defaults import default_expression, null_default, schema_default
from relay.codecs.debezium.shared.schemas import escaped_members, split_members
from relay.codecs.debezium.shared.value_writing import DebeziumValueWriter
from relay.codecs.debezium.ticdc.columns import read_of
from relay.codecs.shared import debezium_temporal
from relay.model.events import ABSENT, Column, ColumnType, Default
from relay.mysql.numbers import read_decimal
from relay.mysql.types import parse_type, with_implied_parameters


def column(text: str, *, nullable: bool = True, default: Default | None = None) -> Column:
    column_type = with_implied_parameters(parse_type(text))
    return Column("c", column_type, nullable=nullable, default=ABSENT if default is None else default)


def written(text: str, value: Any, *, nullable: bool = True) -> tuple[str, list[Loss]]:
    """The JSON that a value becomes, and what it has lost."""
    writer = DebeziumValueWriter()
    write = writer.of(column(text, nullable=nullable))
    return msgspec.json.encode(value if write is None else write(value)).decode(), writer.lost


def read(text: str, value: str) -> Any:
    """The canonical value of JSON."""
    parsed = (
        msgspec.json.decode(value, type=Decimal) if text.startswith("decimal") else msgspec.json.decode(value)
    )
    reading = read_of(column(text).type, is_known=True)
    return parsed if reading is None else reading(parsed)


BOTH_WAYS = [
    ("date", "2026-01-15", "20468"),
    ("date", "1969-12-31", "-1"),
    ("date", "1000-01-01", "-354285"),
    ("date", "9999-12-31", "2932896"),
    ("datetime", "2026-01-15 10:20:30", "1768472430000"),
    ("datetime(3)", "2026-01-15 10:20:30.123", "1768472430123"),
    ("datetime(6)", "2026-01-15 10:20:30.123456", "1768472430123456"),
    ("datetime(4)", "2026-01-15 10:20:30.1234", "1768472430123400"),
    ("datetime(3)", "1969-12-31 23:59:59.999", "-1"),
    ("datetime(6)", "9999-12-31 23:59:59.999999", "253402300799999999"),
    ("datetime(6)", "1970-01-01 00:00:00.000000", "0"),
    ("timestamp(3)", "2026-01-15 02:20:30.120", '"2026-01-15T02:20:30.120Z"'),
    ("timestamp", "1970-01-01 00:00:01", '"1970-01-01T00:00:01Z"'),
    ("timestamp(6)", "2038-01-19 03:14:07.999999", '"2038-01-19T03:14:07.999999Z"'),
    ("timestamp", "0000-00-00 00:00:00", '"1970-01-01T00:00:00Z"'),
    ("timestamp(3)", "0000-00-00 00:00:00.000", '"1970-01-01T00:00:00Z"'),
    ("time", "838:59:59", "3020399000000"),
    ("time", "-838:59:59", "-3020399000000"),
    ("time(6)", "-00:00:00.000001", "-1"),
    ("time(3)", "100:00:00.120", "360000120000"),
    ("time(6)", "08:30:00.500000", "30600500000"),
    ("year", 2026, "2026"),
    ("year", 0, "0"),
    ("tinyint(1)", -5, "-5"),
    ("tinyint unsigned", 255, "255"),
    ("bigint unsigned", 18446744073709551615, "-1"),
    ("bigint unsigned", 9223372036854775808, "-9223372036854775808"),
    ("bigint unsigned", 5, "5"),
    ("bigint", -9223372036854775808, "-9223372036854775808"),
    ("bigint", 9007199254740993, "9007199254740993"),
    ("decimal(10,2)", Decimal("0.00"), "0"),
    ("decimal(10,2)", Decimal("-0.01"), "-0.01"),
    ("decimal(10,2)", Decimal("-1.50"), "-1.5"),
    ("decimal(10,2)", Decimal("1.00"), "1"),
    ("decimal(10,2)", Decimal("1234.50"), "1234.5"),
    ("decimal(10,0)", Decimal(128), "128"),
    ("decimal(30,30)", Decimal("1E-30"), "1e-30"),
    ("decimal(12,6)", Decimal("0.000001"), "0.000001"),
    ("decimal(65,0)", Decimal(10**35), "1e+35"),
    ("bit(1)", 1, "true"),
    ("bit(10)", 513, '"AQI="'),
    ("bit(5)", 16, '"EA=="'),
    ("bit(64)", 2**64 - 1, '"//////////8="'),
    ("varbinary(9)", b"\x00\xff\x10", '"AP8Q"'),
    ("varbinary(9)", b"", '""'),
    ("binary(5)", b"foo\x00\x00", '"Zm9vAAA="'),
    ("enum('a,b','c')", 1, '"a,b"'),
    ("enum('it''s')", 1, '"it\'s"'),
    ("enum('a','b')", 0, '""'),
    ("enum('','a')", 1, '""'),
    ("set('a','b','c')", 5, '"a,c"'),
    ("set('a','b','c')", 0, '""'),
    ("set(" + ",".join(f"'m{n}'" for n in range(64)) + ")", 1 << 63, '"m63"'),
    ("varchar(9)", 'a"\\\n\x01<&>\u2028é', '"a\\"\\\\\\n\\u0001<&>\u2028é"'),
    ("json", "null", '"null"'),
    ("vector(3)", "[1,2.5,-3]", '"[1,2.5,-3]"'),
]


@pytest.mark.parametrize(("text", "value", "json"), BOTH_WAYS, ids=lambda part: str(part)[:30])
def test_a_value_both_ways(text: str, value: Any, json: str) -> None:
    assert written(text, value) == (json, [])
    assert read(text, json) == value
    assert str(read(text, json)) == str(value) if not isinstance(value, Decimal) else True


@pytest.mark.parametrize(
    ("value", "json"),
    [
        (100000.0, "100000"), (1e16, "10000000000000000"), (1e20, "100000000000000000000"), (1e21, "1e+21"), (1e-6, "0.000001"),
        (9.9e-7, "9.9e-07"), (1e-7, "1e-07"), (3.14, "3.14"), (1.7976931348623157e308, "1.7976931348623157e+308"), (-0.0, "-0"),
        (0.00001, "0.00001"), (123456789.12345679, "123456789.12345679"), (12345678901234567000.0, "12345678901234567000"),
    ],
)  # fmt: skip
def test_numbers_are_printed_as_go_does(value: float, json: str) -> None:
    assert written("double", value) == (json, [])


LOSING = [
    ("date", True, "0000-00-00", "null", Loss.ZERO_DATE),
    ("date", False, "0000-00-00", "0", Loss.ZERO_DATE),
    ("date", True, "2026-00-10", "null", Loss.ZERO_DATE),
    ("date", False, "2009-11-31", "0", Loss.ZERO_DATE),
    ("date", True, "0018-01-01", "17532", Loss.YEAR_BELOW_100),
    ("date", True, "0099-12-31", "10956", Loss.YEAR_BELOW_100),
    ("date", True, "0000-01-01", "10957", Loss.YEAR_BELOW_100),
    ("datetime(3)", False, "0000-00-00 00:00:00.000", "0", Loss.ZERO_DATE),
    ("datetime", True, "0000-00-00 00:00:00", "null", Loss.ZERO_DATE),
    ("datetime(6)", True, "0001-02-03 04:05:06.000007", "981173106000007", Loss.YEAR_BELOW_100),
    ("decimal(20,2)", True, Decimal("12345678901234567.89"), "12345678901234568", Loss.DECIMAL_DIGITS),
    (
        "decimal(30,10)",
        True,
        Decimal("99999999999999999999.9999999999"),
        "100000000000000000000",
        Loss.DECIMAL_DIGITS,
    ),
    ("enum('','a')", True, 0, '""', Loss.ENUM_INDEX),
    ("enum('a','b')", True, 3, '""', Loss.ENUM_INDEX),
    ("set('a','b')", True, 4, '""', Loss.ENUM_INDEX),
    ("point", True, b"\x00\x01", '"AAE="', Loss.COLUMN_TYPE),
]


@pytest.mark.parametrize(("text", "nullable", "value", "json", "what"), LOSING)
def test_values_that_cannot_be_distinguished_afterwards_are_counted(
    text: str, nullable: bool, value: Any, json: str, what: Loss
) -> None:
    assert written(text, value, nullable=nullable) == (json, [what])


@pytest.mark.parametrize(
    "value", ["1E2", "-1", "12345678901234567.89", "0.1", "-0.00", "100.50", "1E-7", "123456789012345"]
)
def test_the_text_of_a_decimal_is_written_like_the_decimal(value: str) -> None:
    texts, decimals = DebeziumValueWriter(), DebeziumValueWriter()
    write = decimals.of(column("decimal(20,7)"))
    assert write is not None
    short = texts.shortcuts[read_decimal, texts.of(column("decimal(20,7)")) or str]
    assert msgspec.json.encode(short(value)) == msgspec.json.encode(write(Decimal(value)))
    assert texts.lost == decimals.lost


@pytest.mark.parametrize("text", ["nan", "inf", "1_0", "", "a", "1.5.2", "0x1"])
def test_text_that_is_no_decimal_is_refused(text: str) -> None:
    writer = DebeziumValueWriter()
    short = writer.shortcuts[read_decimal, writer.of(column("decimal(20,7)")) or str]
    with pytest.raises(ValueError, match=r"decimal|number|convert"):
        short(text)


MALFORMED = ["2026-01-15T10:20:30", "2026-01-15 10:20", "2026-01-15 24:00:00", "2026-01-15 10:20:60", "20260115 102030.123456",
             "2026-W03-4 10:20:30", "2026-01-15 10:20:30.", "2026-01-15 10:20:30.1234567", "2026-01-15 10:20:30Z", "", "x",
             "2026-01-15 10:20:30,123", "２０26-01-15 10:20:30", "2026-01-15 10:20+08:00"]  # fmt: skip


@pytest.mark.parametrize("text", MALFORMED)
@pytest.mark.parametrize("kind", ["datetime", "datetime(6)", "timestamp", "timestamp(3)"])
def test_text_that_is_no_datetime_is_refused(kind: str, text: str) -> None:
    write = DebeziumValueWriter().of(column(kind))
    assert write is not None
    with pytest.raises((ValueError, TypeError)):
        write(text)


@pytest.mark.parametrize(
    "text", ["1:00:00", "00:60:00", "00:00", "+00:00:00", "00:00:00.", "00:00:00.1234567", "1000:00:00", ""]
)
def test_text_that_is_no_time_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"time|fraction"):
        debezium_temporal.time_micros(text)


@pytest.mark.parametrize(
    ("base", "value", "text", "is_lost"),
    [
        ("enum", "open", "open", False),
        ("enum", 2, "2", True),
        ("enum", 0, "0", True),
        ("set", 5, "5", True),
        ("set", 0, "", False),
    ],
)
def test_numbers_of_unknown_members_are_digits_and_counted(
    base: str, value: int | str, text: str, is_lost: bool
) -> None:
    writer = DebeziumValueWriter()
    write = writer.of(Column("state", ColumnType(base)))
    assert write is not None
    assert write(value) == text
    assert writer.lost == ([Loss.ENUM_INDEX] if is_lost else [])


@given(st.dates(min_value=date(100, 1, 1)))
def test_every_date_comes_back(day: Any) -> None:
    count = debezium_temporal.date_days(day.isoformat())
    assert count is not None
    assert debezium_temporal.date_text(count) == day.isoformat()


@given(st.datetimes(min_value=datetime(100, 1, 1)), st.integers(0, 6))
def test_every_datetime_comes_back_with_its_digits(moment: Any, digits: int) -> None:
    text = moment.isoformat(" ", "microseconds")[: 20 + digits if digits else 19]
    kind = f"datetime({digits})"
    json, lost = written(kind, text)
    assert not lost
    assert read(kind, json) == text
    assert json == str(
        (debezium_temporal.datetime_millis if digits <= 3 else debezium_temporal.datetime_micros)(text)
    )


@given(st.integers(-3020399999999, 3020399999999))
def test_every_time_comes_back(count: int) -> None:
    assert debezium_temporal.time_micros(debezium_temporal.time_text(count, 6)) == count
    assert debezium_temporal.time_micros(debezium_temporal.time_text(count, None)) == count


@given(st.decimals(allow_nan=False, allow_infinity=False, places=4, min_value=-(10**10), max_value=10**10))
def test_a_decimal_of_up_to_15_digits_comes_back_with_its_scale(value: Decimal) -> None:
    json, lost = written("decimal(15,4)", value)
    assert not lost
    assert str(read("decimal(15,4)", json)) == (str(value) if value else "0.0000")


@pytest.mark.parametrize(
    ("iso", "digits", "text"),
    [
        ("2026-01-15T10:20:30+08:00", 0, "2026-01-15 02:20:30"),
        ("2026-01-15T02:20:30.12Z", 3, "2026-01-15 02:20:30.120"),
        ("2026-01-15T02:20:30.123456789Z", 6, "2026-01-15 02:20:30.123456"),
        ("2026-01-15T02:20:30Z", 6, "2026-01-15 02:20:30.000000"),
        ("2026-01-15T02:20:30.120Z", None, "2026-01-15 02:20:30.120"),
        ("1970-01-01T00:00:00Z", 2, "0000-00-00 00:00:00.00"),
        ("2026-01-15T02:20:30.125Z", 0, "2026-01-15 02:20:30.125"),
    ],
)
def test_iso_timestamps_of_other_forms(iso: str, digits: int | None, text: str) -> None:
    assert debezium_temporal.timestamp_text(iso, digits) == text


@pytest.mark.parametrize(
    ("kind", "json"),
    [
        ("timestamp", '"yesterday"'), ("time", "3020400000000"), ("date", "9999999"), ("datetime", "999999999999999999"),
        ("bit(8)", '"?"'), ("blob", '"a"'), ("enum('a')", '"b"'), ("set('a')", '"a,b"'),
        ("bigint unsigned", "18446744073709551616"),
        ("decimal(5,2)", "1e300"), ("timestamp", '"2026-13-01T00:00:00"'),
    ],
)  # fmt: skip
def test_what_is_no_such_value_is_refused(kind: str, json: str) -> None:
    with pytest.raises(ValueError, match=r"\w"):
        read(kind, json)


def test_short_base64_of_bits_is_extended() -> None:
    assert read("bit(16)", '"AQ=="') == 1


def test_members_with_commas_and_quotes() -> None:
    assert escaped_members(("a,b", "c", "it's", "", "x\\y")) == "a\\,b,c,it's,,x\\y"
    assert split_members("a\\,b,c,it's,,x\\y") == ("a,b", "c", "it's", "", "x\\y")
    assert read("enum('a,b')", '"a\\\\,b"') == 1


NOW = Default("CURRENT_TIMESTAMP", is_expression=True)
DEFAULTS = [
    # type, nullable, default, in a schema, in DDL, in place of NULL
    ("int", True, Default("5"), 5, "5", 5),
    ("bigint", False, Default("9223372036854775807"), msgspec.Raw(b"9223372036854776000"), "9223372036854775807", None),
    ("decimal(6,2)", True, Default("1.50"), 1.5, "1.50", 1.5),
    ("varbinary(4)", True, Default("ab"), "ab", "ab", b"ab"),
    ("binary(4)", True, Default("ab"), "ab\0\0", "ab\0\0", b"ab\0\0"),
    ("varchar(4)", True, Default(""), "", "", ""),
    ("bit(5)", True, Default("17"), b"\x11", "10001", b"\x11"),
    ("bit(1)", True, Default("1"), True, "1", True),
    ("bit(16)", True, Default("258"), b"\x02\x01", "100000010", b"\x02\x01"),
    ("enum('x','y')", True, Default("y"), "y", "y", "y"),
    ("set('x','y')", True, Default("x,y"), "x,y", "x,y", "x,y"),
    ("year", True, Default("1999"), 1999, "1999", 1999),
    ("year", False, None, 2000, "0000", None),
    ("date", False, Default("2020-02-29"), 18321, "2020-02-29", None),
    ("date", False, Default("0000-00-00"), 0, "0000-00-00", None),
    ("date", True, Default("0000-00-00"), None, "0000-00-00", msgspec.Raw(b"null")),
    ("time(3)", True, Default("01:02:03.45"), 3723450000, "01:02:03.450", 3723450000),
    ("time(3)", True, Default("1000-00-00 01:00:00.000"), None, "1000-00-00", None),
    ("datetime", True, NOW, 0, "1970-01-01 00:00:00", 0),
    ("datetime(6)", True, Default("2020-02-29 01:02:03"), 1582938123000000, "2020-02-29 01:02:03.000000", 1582938123000000),
    ("timestamp", True, NOW, None, "1970-01-01 00:00:00", None),
    ("timestamp", False, NOW, "1970-01-01T00:00:00Z", "1970-01-01 00:00:00", None),
    ("timestamp", False, None, "1970-01-01T00:00:00Z", "1970-01-01 00:00:00", None),
    ("timestamp", True, Default("2020-02-29 01:02:03"), "2020-02-29T01:02:03Z", "2020-02-29 01:02:03", "2020-02-29T01:02:03Z"),
    ("json", True, Default("{}"), None, "{}", None),
    ("int", True, Default(None), None, None, None),
    ("varchar(40)", True, Default("uuid()", is_expression=True), None, None, None),
    ("bigint", False, Default("NEXTVAL(`s`)", is_expression=True), None, "nextval(`d`.`s`)", None),
    ("bigint", False, Default("NEXT VALUE FOR x.s", is_expression=True), None, "nextval(`x`.`s`)", None),
]  # fmt: skip


@pytest.mark.parametrize(("text", "nullable", "default", "in_schema", "in_ddl", "for_null"), DEFAULTS)
def test_defaults(
    text: str, nullable: bool, default: Default | None, in_schema: Any, in_ddl: str | None, for_null: Any
) -> None:
    one = column(text, nullable=nullable, default=default)
    assert msgspec.json.encode(schema_default(one)) == msgspec.json.encode(in_schema)
    assert default_expression(one, "d") == in_ddl
    assert msgspec.json.encode(null_default(one, DebeziumValueWriter().of(one))) == msgspec.json.encode(
        for_null
    )
