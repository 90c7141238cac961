"""TiCDC Debezium's edge cases of values: numbers 1 to 68."""

from __future__ import annotations

import base64
import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from debezium_support import DEBEZIUM, message, record
from edge_cases.ticdc_debezium import (
    CASES,
    SHANGHAI,
    back,
    canal_row,
    change,
    counted,
    debezium_row,
    read,
    sent,
    written,
)
from support import CANAL, OPEN, TICDC

from relay import Loss, Malformed

ZERO_DATE = {"zero-date": 1}
MAY_BE_ZERO = {"epoch-or-zero-date": 1}
SHORT_YEAR = {"year-below-100": 1}
SIXTY_FOUR = ",".join(f"'m{at}'" for at in range(64))

# ---------------------------------------------------------------- values that come back as they were


@pytest.mark.parametrize(
    ("definition", "text", "value", "canonical"),
    [
        CASES.param("1", "DATE", "2026-01-15", "20468", "2026-01-15"),
        CASES.param("2", "DATE", "1969-12-31", "-1", "1969-12-31"),
        CASES.param("2", "DATE", "1000-01-01", "-354285", "1000-01-01"),
        CASES.param("2", "DATE", "9999-12-31", "2932896", "9999-12-31"),
        CASES.param("8", "DATETIME", "2026-01-15 10:20:30", "1768472430000", "2026-01-15 10:20:30"),
        CASES.param(
            "9", "DATETIME(3)", "2026-01-15 10:20:30.123", "1768472430123", "2026-01-15 10:20:30.123"
        ),
        CASES.param(
            "9", "DATETIME(4)", "2026-01-15 10:20:30.1234", "1768472430123400", "2026-01-15 10:20:30.1234"
        ),
        CASES.param(
            "9", "DATETIME(5)", "2026-01-15 10:20:30.12345", "1768472430123450", "2026-01-15 10:20:30.12345"
        ),
        CASES.param(
            "9", "DATETIME(6)", "2026-01-15 10:20:30.123456", "1768472430123456", "2026-01-15 10:20:30.123456"
        ),
        CASES.param("10", "DATETIME(3)", "1969-12-31 23:59:59.999", "-1", "1969-12-31 23:59:59.999"),
        CASES.param(
            "11",
            "DATETIME(6)",
            "9999-12-31 23:59:59.999999",
            "253402300799999999",
            "9999-12-31 23:59:59.999999",
        ),
        CASES.param(
            "15", "TIMESTAMP", "0000-00-00 00:00:00", '"1970-01-01T00:00:00Z"', "0000-00-00 00:00:00"
        ),
        CASES.param("18", "TIME", "838:59:59", "3020399000000", "838:59:59"),
        CASES.param("18", "TIME", "-838:59:59", "-3020399000000", "-838:59:59"),
        CASES.param("19", "TIME(6)", "-00:00:00.000001", "-1", "-00:00:00.000001"),
        CASES.param("24", "YEAR", "2026", "2026", 2026),
        CASES.param("24", "YEAR", "0", "0", 0),
        CASES.param("24", "YEAR", "1970", "1970", 1970),
        CASES.param("25", "TINYINT(1)", "1", "1", 1),
        CASES.param("25", "TINYINT(1)", "-5", "-5", -5),
        CASES.param("26", "TINYINT UNSIGNED", "255", "255", 255),
        CASES.param("27", "BIGINT UNSIGNED", "18446744073709551615", "-1", 2**64 - 1),
        CASES.param("28", "BIGINT UNSIGNED", "9223372036854775808", "-9223372036854775808", 2**63),
        CASES.param("29", "BIGINT", "-9223372036854775808", "-9223372036854775808", -(2**63)),
        CASES.param("30", "BIGINT", "9007199254740993", "9007199254740993", 9007199254740993),
        CASES.param("32", "FLOAT", "3.14", "3.14", 3.14),
        CASES.param("33", "FLOAT(5,2)", "5.61", "5.61", 5.61),
        CASES.param("34", "DOUBLE", "1000000000000000000000", "1e+21", 1e21),
        # Two digits of exponent, as TiCDC's records have them (Go's own way to print).
        CASES.param("34", "DOUBLE", "0.0000001", "1e-07", 1e-7),
        CASES.param("34", "DOUBLE", "100", "100", 100.0),
        CASES.param("38", "DECIMAL(10,2)", "0.00", "0", Decimal("0.00")),
        CASES.param("38", "DECIMAL(10,2)", "-0.01", "-0.01", Decimal("-0.01")),
        CASES.param("38", "DECIMAL(10,2)", "-1.50", "-1.5", Decimal("-1.50")),
        CASES.param("38", "DECIMAL(10,2)", "1.00", "1", Decimal("1.00")),
        CASES.param("39", "DECIMAL(10,0)", "127", "127", Decimal(127)),
        CASES.param("39", "DECIMAL(10,0)", "128", "128", Decimal(128)),
        CASES.param("40", "DECIMAL(10,2)", "1234.50", "1234.5", Decimal("1234.50")),
        CASES.param("44", "BIT", "1", "true", 1),
        CASES.param("44", "BIT(1)", "0", "false", 0),
        CASES.param("45", "BIT(10)", "513", '"AQI="', 513),
        CASES.param("45", "BIT(5)", "16", '"EA=="', 16),
        CASES.param("46", "BIT(64)", "18446744073709551615", '"//////////8="', 2**64 - 1),
        CASES.param("48", "INT(5) UNSIGNED ZEROFILL", "42", "42", 42),
        CASES.param("49", "ENUM('a,b','c')", "1", '"a,b"', 1),
        CASES.param("50", "ENUM('it''s')", "1", '"it\'s"', 1),
        CASES.param("51", "ENUM('x\\\\y')", "1", r'"x\\y"', 1),
        CASES.param("52", "ENUM('a','b')", "0", '""', 0),
        CASES.param("53", "ENUM('','a')", "1", '""', 1),
        CASES.param("54", "SET('a','b','c')", "0", '""', 0),
        CASES.param("54", "SET('a','b','c')", "5", '"a,c"', 5),
        CASES.param("55", f"SET({SIXTY_FOUR})", "9223372036854775808", '"m63"', 2**63),
        CASES.param(
            "56",
            "VARCHAR(99)",
            'a"\\\n\x01<&>\u2028😀',
            '"a\\"\\\\\\n\\u0001<&>\u2028😀"',
            'a"\\\n\x01<&>\u2028😀',
        ),
        CASES.param("58", "CHAR(5)", "ab", '"ab"', "ab"),
        CASES.param("59", "VARCHAR(9)", "", '""', ""),
        CASES.param("59", "VARCHAR(9)", None, "null", None),
        CASES.param("60", "VARBINARY(9)", "", '""', b""),
        CASES.param("60", "VARBINARY(9)", "\0ÿ\x10", '"AP8Q"', b"\0\xff\x10"),
        CASES.param("61", "BINARY(5)", "foo\0\0", '"Zm9vAAA="', b"foo\0\0"),
        CASES.param(
            "64",
            "JSON",
            '{"b": 1, "a": [1, 2], "é": "中"}',
            r'"{\"b\": 1, \"a\": [1, 2], \"é\": \"中\"}"',
            msgspec.UNSET,
        ),
        CASES.param("65", "JSON", '"x"', r'"\"x\""', '"x"'),
        CASES.param("65", "JSON", "1", '"1"', "1"),
        CASES.param("65", "JSON", "true", '"true"', "true"),
        CASES.param("65", "JSON", "null", '"null"', "null"),
        CASES.param(
            "66",
            "JSON",
            "[1.0, 1e100, 9223372036854775808]",
            '"[1.0, 1e100, 9223372036854775808]"',
            msgspec.UNSET,
        ),
        CASES.param("67", "VECTOR(3)", "[1,2.5,3]", '"[1,2.5,3]"', "[1,2.5,3]"),
    ],
)
def test_a_value_both_ways(definition: str, text: str | None, value: str, canonical: Any) -> None:
    made = written(definition, text)
    assert (made.cell(), made.counted) == (value, {})
    found = read(definition, value)
    expected = text if canonical is msgspec.UNSET else canonical
    assert (type(found), str(found)) == (type(expected), str(expected))  # the scale of a Decimal counts
    assert back(definition, value) == text


@pytest.mark.parametrize(
    ("definition", "value", "canal"),
    [
        CASES.param("24", "YEAR", "0", "0000"),
        CASES.param("44", "BIT(1)", "true", "1"),
        CASES.param("46", "BIT(64)", '"//////////8="', "18446744073709551615"),
        CASES.param("52", "ENUM('a','b')", '""', "0"),
        CASES.param("55", f"SET({SIXTY_FOUR})", '"m63"', "9223372036854775808"),
        CASES.param("61", "BINARY(5)", '"Zm9vAAA="', "foo"),
    ],
)
def test_canal_gets_its_own_text(definition: str, value: str, canal: str) -> None:
    assert back(definition, value, CANAL) == canal
    assert written(definition, canal, CANAL).cell() == value


@pytest.mark.parametrize(
    ("definition", "type_", "name"),
    [
        CASES.param("1", "DATE", "int32", "io.debezium.time.Date"),
        CASES.param("8", "DATETIME", "int64", "io.debezium.time.Timestamp"),
        CASES.param("9", "DATETIME(3)", "int64", "io.debezium.time.Timestamp"),
        CASES.param("9", "DATETIME(4)", "int64", "io.debezium.time.MicroTimestamp"),
        CASES.param("15", "TIMESTAMP", "string", "io.debezium.time.ZonedTimestamp"),
        CASES.param("18", "TIME", "int64", "io.debezium.time.MicroTime"),
        CASES.param("24", "YEAR", "int32", "io.debezium.time.Year"),
        CASES.param("25", "TINYINT(1)", "int16", None),
        CASES.param("26", "TINYINT UNSIGNED", "int16", None),
        CASES.param("27", "BIGINT UNSIGNED", "int64", None),
        CASES.param("32", "FLOAT", "float", None),
        CASES.param("33", "FLOAT(5,2)", "double", None),
        CASES.param("38", "DECIMAL(10,2)", "double", None),
        CASES.param("44", "BIT(1)", "boolean", None),
        CASES.param("45", "BIT(10)", "bytes", "io.debezium.data.Bits"),
        CASES.param("60", "VARBINARY(9)", "string", None),
        CASES.param("64", "JSON", "string", "io.debezium.data.Json"),
        CASES.param("67", "VECTOR(3)", "string", "io.debezium.data.TiDBVectorFloat32"),
    ],
)
def test_the_type_in_the_schema(definition: str, type_: str, name: str | None) -> None:
    field = written(definition, None).field()
    assert (field["type"], field.get("name")) == (type_, name)


# ---------------------------------------------------------------- dates and times


@pytest.mark.parametrize(
    ("definition", "text", "value", "lost"),
    [
        CASES.param("3", "DATE", "0000-00-00", "null", ZERO_DATE),
        CASES.param("3", "DATE NOT NULL", "0000-00-00", "0", ZERO_DATE),
        CASES.param("4", "DATE", "2026-00-10", "null", ZERO_DATE),
        CASES.param("4", "DATE NOT NULL", "2026-00-10", "0", ZERO_DATE),
        CASES.param("5", "DATE", "2009-11-31", "null", ZERO_DATE),
        CASES.param("5", "DATE NOT NULL", "2009-11-31", "0", ZERO_DATE),
        CASES.param("6", "DATE", "0018-01-01", "17532", SHORT_YEAR),
        CASES.param("6", "DATE", "0099-12-31", "10956", SHORT_YEAR),
        CASES.param("7", "DATE", "0000-01-01", "10957", SHORT_YEAR),
        CASES.param("12", "DATETIME", "0000-00-00 00:00:00", "null", ZERO_DATE),
        CASES.param("12", "DATETIME(6) NOT NULL", "0000-00-00 00:00:00.000000", "0", ZERO_DATE),
    ],
)
def test_dates_that_the_format_cannot_hold_are_counted(
    definition: str, text: str, value: str, lost: dict[str, int]
) -> None:
    made = written(definition, text)
    assert (made.cell(), made.counted) == (value, lost)


@pytest.mark.parametrize(
    ("definition", "value", "text", "noted"),
    [
        CASES.param("3", "DATE", "null", None, {}),
        CASES.param("3", "DATE NOT NULL", "0", "1970-01-01", MAY_BE_ZERO),
        CASES.param("4", "DATE NOT NULL", "0", "1970-01-01", MAY_BE_ZERO),
        CASES.param("12", "DATETIME NOT NULL", "0", "1970-01-01 00:00:00", MAY_BE_ZERO),
        CASES.param("13", "DATETIME(6)", "0", "1970-01-01 00:00:00.000000", {}),
        CASES.param("14", "TIMESTAMP(3)", '"2026-01-15T02:20:30.12Z"', "2026-01-15 02:20:30.120", {}),
        CASES.param("14", "TIMESTAMP(3)", '"2026-01-15T02:20:30Z"', "2026-01-15 02:20:30.000", {}),
        CASES.param(
            "14",
            "TIMESTAMP(6)",
            '"2026-01-15T02:20:30.123456789Z"',
            "2026-01-15 02:20:30.123456",
            {"time-range": 1},
        ),
        CASES.param("16", "TIMESTAMP", '"2026-01-15T10:20:30+08:00"', "2026-01-15 02:20:30", {}),
        CASES.param("35", "DOUBLE", "100", 100.0, {}),
        CASES.param("34", "DOUBLE", "1.0E21", 1e21, {}),
        CASES.param("34", "DOUBLE", "1e-7", 1e-7, {}),
        CASES.param("34", "DOUBLE", "100.0", 100.0, {}),
        CASES.param("47", "BIT(16)", '"AQ=="', 1, {}),
        CASES.param("49", "ENUM('a,b','c')", r'"a\\,b"', 1, {}),
        CASES.param("53", "ENUM('','a')", '""', 1, {}),
        CASES.param("27", "BIGINT", "-1", -1, {}),
    ],
)
def test_what_is_read(definition: str, value: str, text: Any, noted: dict[str, int]) -> None:
    found = read(definition, value)
    assert (type(found), found) == (type(text), text)
    assert counted(definition, value) == noted


@CASES.covers("14")
def test_timestamps_are_written_in_utc_with_all_their_digits() -> None:
    local = "2026-01-15 10:20:30.120"
    assert written("TIMESTAMP(3)", local, reading=SHANGHAI).cell() == '"2026-01-15T02:20:30.120Z"'
    assert back("TIMESTAMP(3)", '"2026-01-15T02:20:30.12Z"', writing=SHANGHAI) == local


@pytest.mark.parametrize(
    ("local", "expected"),
    [
        CASES.param("17", "2026-03-08 02:30:00", '"2026-03-08T07:30:00Z"'),
        CASES.param("17", "2026-11-01 01:30:00", '"2026-11-01T05:30:00Z"'),
    ],
)
def test_the_offset_before_a_clock_change_counts_while_it_changes(local: str, expected: str) -> None:
    assert written("TIMESTAMP", local, reading={"timezone": "America/New_York"}).cell() == expected


@pytest.mark.parametrize("value", [CASES.param("20", "-3020400147483"), CASES.param("20", "3020400000000")])
def test_a_time_beyond_its_range_is_refused(value: str) -> None:
    with pytest.raises(Malformed, match="beyond the range of TIME"):
        back("TIME(3)", value)


@CASES.covers("23")
@pytest.mark.parametrize(
    ("count", "text"),
    [("30600000000", "08:30:00"), ("30600500000", "08:30:00.500"), ("30600500001", "08:30:00.500001")],
)
def test_without_a_catalog_a_time_has_the_digits_that_it_needs(count: str, text: str) -> None:
    assert read(None, count, {"type": "int64", "name": "io.debezium.time.MicroTime"}) == text


# ---------------------------------------------------------------- numbers


@CASES.covers("27", "29")
def test_only_a_type_that_is_unsigned_makes_a_number_positive() -> None:
    for said, expected in (
        ({"type": "int64"}, -1),
        ({"type": "int64", "tidb_type": "bigint unsigned"}, 2**64 - 1),
    ):
        assert read(None, "-1", said) == expected
    assert read("BIGINT", "-9223372036854775808", {"type": "int64", "tidb_type": "bigint"}) == -(2**63)


@CASES.covers("31")
def test_a_default_that_a_float_cannot_hold() -> None:
    made = written("BIGINT DEFAULT 9223372036854775807", "1")
    assert b'"default":9223372036854776000' in (made.outs[0].value or b"")
    said = {"type": "int64", "default": 9223372036854776000}
    assert read("BIGINT", "9223372036854775807", said) == read(None, "9223372036854775807", said) == 2**63 - 1


@pytest.mark.parametrize(
    ("definition", "text", "value"),
    [
        CASES.param("36", "DECIMAL(20,2)", "12345678901234567.89", "12345678901234568"),
        CASES.param("37", "DECIMAL(30,10)", "99999999999999999999.9999999999", "100000000000000000000"),
    ],
)
def test_digits_that_a_float_cannot_hold_are_counted_and_lost_nowhere_else(
    definition: str, text: str, value: str
) -> None:
    made = written(definition, text)
    assert (made.cell(), made.counted) == (value, {"decimal-digits": 1})
    assert str(read(definition, text)) == text  # no producer writes it, and nothing is lost in reading


# ---------------------------------------------------------------- ENUM and SET


@pytest.mark.parametrize(
    ("definition", "allowed", "shown"),
    [
        CASES.param("49", "ENUM('a,b','c')", r"a\,b,c", ["'a,b'", "'c'"]),
        CASES.param("50", "ENUM('it''s')", "it's", ["'it's'"]),
        CASES.param("51", "ENUM('x\\\\y')", r"x\y", [r"'x\y'"]),
        CASES.param("54", "SET('a','b','c')", "a,b,c", ["'a'", "'b'", "'c'"]),
    ],
)
def test_the_members_in_schema_and_ddl(definition: str, allowed: str, shown: list[str]) -> None:
    create, insert = canal_row(definition, "1")
    assert sent(TICDC, DEBEZIUM, create, insert).field()["parameters"] == {"allowed": allowed}
    (change_,) = sent(TICDC, DEBEZIUM, create).payload["tableChanges"]
    assert change_["table"]["columns"][1]["enumValues"] == shown
    kind = "Enum" if definition.startswith("ENUM") else "EnumSet"
    said = {"type": "string", "name": f"io.debezium.data.{kind}", "parameters": {"allowed": allowed}}
    assert read(None, written(definition, "1").cell(), said) == 1


@CASES.covers("53")
def test_an_index_0_that_reads_like_an_empty_member_is_counted() -> None:
    made = written("ENUM('','a')", "0")
    assert (made.cell(), made.counted) == ('""', {"enum-index": 1})


# ---------------------------------------------------------------- text and bytes


@CASES.covers("57")
def test_bytes_that_are_no_text_are_replaced_and_counted() -> None:
    records = debezium_row("VARCHAR(9)", '"a?b"')
    raw = [
        msgspec.structs.replace(one, value=(one.value or b"").replace(b"a?b", b"a\xffb")) for one in records
    ]
    assert change(*raw).after == (1, "a\ufffdb")
    assert sent(DEBEZIUM, CANAL, *raw[:2]).counted == {"invalid-text": 1}


@CASES.covers("61")
def test_bytes_that_canal_has_cut_get_their_zeros_again() -> None:
    assert written("BINARY(5)", "foo", CANAL).cell() == '"Zm9vAAA="'


@CASES.covers("63")
def test_without_type_and_catalog_bytes_are_text() -> None:
    given = '"3q2+7w=="'
    assert read(None, given, {"type": "string"}) == "3q2+7w=="
    assert (
        read(None, given, {"type": "string", "tidb_type": "blob"})
        == read("BLOB", given, {"type": "string"})
        == b"\xde\xad\xbe\xef"
    )
    assert counted(None, given, said={"type": "string"}) == {"schema-inferred": 1}
    assert counted("BLOB", given, said={"type": "string"}) == {}


@CASES.covers("64")
def test_escapes_inside_a_document_are_kept() -> None:
    document = r'{"é":"\u4e2d"}'
    assert json.loads(written("JSON", document).cell()) == document
    assert back("JSON", json.dumps(document)) == document


@CASES.covers("65")
def test_the_document_null_is_not_null() -> None:
    assert read("JSON", "null") is None
    assert read("JSON", '"null"') == "null"
    assert written("JSON", None).cell() == "null"


@CASES.covers("67")
def test_vectors_pass_to_all_formats_of_ticdc() -> None:
    assert back("VECTOR(3)", '"[1,2.5,3]"', TICDC) == "[1,2.5,3]"
    (out,) = sent(DEBEZIUM, OPEN, *debezium_row("VECTOR(3)", '"[1,2.5,3]"')).outs
    assert b'"v":"[1,2.5,3]"' in (out.value or b"")


@CASES.covers("68")
def test_geometries_which_ticdc_does_not_have_are_bytes_and_counted() -> None:
    point = b"\0\0\0\0" + bytes.fromhex("0101000000000000000000f03f0000000000000040")
    made = written("POINT", point.decode("latin-1"), CANAL)
    assert made.cell() == f'"{base64.b64encode(point).decode()}"'
    # The message has no `sqlType`, as that of a look-alike whose binary values may be hex.
    assert made.counted == {Loss.COLUMN_TYPE: 1, Loss.VALUE_INFERRED: 1}


@CASES.covers("59")
def test_nothing_and_null_stay_apart_in_one_row() -> None:
    row = record(message(after={"id": 1, "a": "", "b": None}), {"payload": {"id": 1}})
    assert change(row).after == (1, "", None)
