"""The Canal family's edge cases of values and types: numbers 15 to 44."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from edge_cases.canal_family import CASES, before_and_after, cell, change, counted, ddl, sent, through, value
from support import CANAL, TICDC, row_message

from relay import Malformed

CKAFKA = "ckafka-json"
SHANGHAI, UTC = {"timezone": "Asia/Shanghai"}, {"timezone": "UTC"}
EITHER_WAY = [(TICDC, CANAL), (CANAL, TICDC)]


# ---------------------------------------------------------------- values that pass in both directions as they
# are


@pytest.mark.parametrize(("source", "target"), EITHER_WAY)
@pytest.mark.parametrize(
    ("mysql_type", "text", "expected"),
    [
        CASES.param("15", "char(9)", "", ""),
        CASES.param("20", "bigint unsigned", "18446744073709551615", 2**64 - 1),
        CASES.param("30", "bit(1)", "1", 0x01),
        CASES.param("30", "bit(10)", "341", 0x0155),
        CASES.param("30", "bit(64)", "18446744073709551615", 0xFFFFFFFFFFFFFFFF),
        CASES.param("34", "decimal(10,4)", "123.4560", Decimal("123.4560")),
        CASES.param("35", "datetime(3)", "2020-01-01 12:00:00.120", "2020-01-01 12:00:00.120"),
        CASES.param("36", "date", "0000-00-00", "0000-00-00"),
        CASES.param("36", "timestamp", "0000-00-00 00:00:00", "0000-00-00 00:00:00"),
        CASES.param("37", "date", "2020-02-00", "2020-02-00"),
        CASES.param("38", "time", "-838:59:59", "-838:59:59"),
        CASES.param("38", "time(2)", "-00:00:00.12", "-00:00:00.12"),
        CASES.param("38", "time", "100:00:00", "100:00:00"),
        CASES.param("42", "json", "null", "null"),
        CASES.param("42", "json", None, None),
        CASES.param("44", "vector(3)", "[1,2.5,3]", "[1,2.5,3]"),
    ],
)
def test_a_value_is_exact_and_its_text_is_kept(
    source: str, target: str, mysql_type: str, text: str | None, expected: Any
) -> None:
    found = value(mysql_type, text, source)
    assert (type(found), str(found)) == (type(expected), str(expected))  # the scale of a Decimal counts
    assert through(source, target, mysql_type, text) == text
    assert through(source, source, mysql_type, text) == text


@CASES.covers("36")
def test_zero_timestamps_are_in_no_zone() -> None:
    for source, target in EITHER_WAY:
        assert (
            through(source, target, "timestamp", "0000-00-00 00:00:00", SHANGHAI, UTC)
            == "0000-00-00 00:00:00"
        )
        assert (
            through(source, target, "timestamp", "0000-00-00 00:00:00", UTC, SHANGHAI)
            == "0000-00-00 00:00:00"
        )


# ---------------------------------------------------------------- values that the two sides spell differently


@pytest.mark.parametrize(
    ("mysql_type", "ticdc", "canal"),
    [
        CASES.param("31", "double", "10000000", "1.0E7"),
        CASES.param("32", "float", "3.14", "3.14"),
        CASES.param("32", "float", "1", "1.0"),
        CASES.param("39", "year", "0", "0000"),
        CASES.param("39", "year", "2020", "2020"),
        CASES.param("19", "binary(4)", "ab\0\0", "ab"),
    ],
)
def test_each_side_has_its_own_spelling(mysql_type: str, ticdc: str, canal: str) -> None:
    assert through(TICDC, CANAL, mysql_type, ticdc) == canal
    assert through(CANAL, TICDC, mysql_type, canal) == ticdc
    assert value(mysql_type, ticdc, TICDC) == value(mysql_type, canal, CANAL)


@CASES.covers("19")
def test_binary_is_padded_again_to_the_length_in_the_catalog() -> None:
    create = ddl("CREATE TABLE t (c BINARY(4))", "CREATE")
    bare = cell("binary", "ab")
    assert before_and_after(CANAL, create, bare)[1] == (b"ab\0\0",)
    assert sent(CANAL, TICDC, create, bare)[0]["data"] == [{"c": "ab\0\0"}]


@CASES.covers("33")
def test_a_float_of_ticdc_6_1_0_gets_its_32_bit_digits() -> None:
    assert value("float", "3.140000104904175", TICDC) == 3.14
    assert through(TICDC, CANAL, "float", "3.140000104904175") == "3.14"


@CASES.covers("40")
def test_a_timestamp_moves_between_zones_and_a_datetime_beside_it_does_not() -> None:
    noon = "2020-02-20 02:20:20"
    message = row_message({"t": "timestamp", "d": "datetime"}, {"t": noon, "d": noon})
    for source, target in EITHER_WAY:
        assert change(source, message, options=SHANGHAI).after == ("2020-02-19 18:20:20", noon)
        (out,) = sent(source, target, message, reading=SHANGHAI, writing=UTC)
        assert out["data"] == [{"t": "2020-02-19 18:20:20", "d": noon}]


# ---------------------------------------------------------------- binary


@CASES.covers("16")
def test_the_varbinary_sample_of_ticdcs_manual() -> None:
    text = json.dumps(cell("varbinary", "TEXT")).replace(
        "TEXT", "\\u0005\\u0007\\n\\u000f$2+cx\\u003c\\u0026ÿþ-7F"
    )
    expected = bytes.fromhex("05070A0F24322B63783C26FFFE2D3746")
    assert before_and_after(TICDC, text) == (None, (expected,))
    (out,) = sent(TICDC, CANAL, text)
    assert before_and_after(CANAL, out) == (None, (expected,))


@CASES.covers("17")
@pytest.mark.parametrize("text", ["ab\ufffd", "\u4e2d"])
def test_binary_text_that_a_producer_has_destroyed_is_never_made_utf_8(text: str) -> None:
    for source in (TICDC, CANAL):
        with pytest.raises(Malformed, match=r"data\[0\]\.c: binary text with a character beyond U\+00FF"):
            value("varbinary(9)", text, source)
    with pytest.raises(Malformed):
        through(CANAL, TICDC, "varbinary(9)", text)
    with pytest.raises(Malformed):
        through(TICDC, CANAL, "binary(9)", text)
    with pytest.raises(Malformed):
        through(TICDC, CKAFKA, "blob", text)
    assert (
        through(TICDC, CANAL, "blob", text) == text
    )  # both spell it alike: the text is passed on, not the bytes of its UTF-8


@CASES.covers("18")
@pytest.mark.parametrize(("source", "target"), EITHER_WAY)
@pytest.mark.parametrize("mysql_type", ["blob", "varbinary(256)"])
def test_all_bytes_survive_both_spellings(source: str, target: str, mysql_type: str) -> None:
    every = bytes(range(256))
    (there,) = sent(source, target, cell(mysql_type, every.decode("latin-1")))
    assert before_and_after(target, there)[1] == (every,)
    (back,) = sent(target, source, there)
    assert before_and_after(source, back)[1] == (every,)


# ---------------------------------------------------------------- sqlType


@pytest.mark.parametrize(("source", "target"), EITHER_WAY)
@pytest.mark.parametrize(
    ("mysql_type", "text", "code"),
    [
        CASES.param("20", "bigint unsigned", "18446744073709551615", 3),
        CASES.param("21", "tinyint unsigned", "127", -6),
        CASES.param("21", "tinyint unsigned", "128", 5),
        CASES.param("21", "tinyint unsigned", None, -6),
        CASES.param("22", "mediumint unsigned", "16777215", 4),
        CASES.param("23", "int unsigned", "2147483648", -5),
        CASES.param("44", "vector(3)", "[1,2.5,3]", 12),
    ],
)
def test_sql_type_follows_the_value(
    source: str, target: str, mysql_type: str, text: str | None, code: int
) -> None:
    assert sent(source, target, cell(mysql_type, text))[0]["sqlType"] == {"c": code}


@CASES.covers("24")
def test_every_row_of_a_message_gets_a_number_of_its_own() -> None:
    message = row_message({"u": "tinyint unsigned"}, {"u": "200"}, {"u": "5"}, sqlType={"u": -6})
    assert [out["sqlType"] for out in sent(CANAL, TICDC, message)] == [{"u": 5}, {"u": -6}]


@CASES.covers("25")
def test_null_of_set_and_json_has_other_numbers_in_canal() -> None:
    message = row_message(
        {"s": "set('a')", "j": "json"}, {"s": None, "j": None}, sqlType={"s": 2004, "j": 1111}
    )
    (out,) = sent(CANAL, TICDC, message)
    assert out["sqlType"] == {"s": -7, "j": 12}
    assert sent(TICDC, CANAL, out)[0]["sqlType"] == {"s": 2004, "j": 1111}


# ---------------------------------------------------------------- ENUM and SET


@pytest.mark.parametrize("source", [TICDC, CANAL])
@pytest.mark.parametrize(
    ("mysql_type", "text", "number", "label"),
    [
        CASES.param("26", "enum('a','b')", "0", 0, ""),
        CASES.param("27", "enum('a,b','it''s')", "2", 2, "it's"),
        CASES.param(
            "29",
            "set(" + ",".join(f"'m{bit}'" for bit in range(64)) + ")",
            "18446744073709551615",
            2**64 - 1,
            ",".join(f"m{bit}" for bit in range(64)),
        ),
    ],
)
def test_members_are_numbers_here_and_labels_elsewhere(
    source: str, mysql_type: str, text: str, number: int, label: str
) -> None:
    assert value(mysql_type, text, source) == number
    assert {through(source, target, mysql_type, text) for target in (TICDC, CANAL)} == {text}
    assert sent(source, CKAFKA, cell(mysql_type, text))[0]["NEW_VALUES"] == {"c": label}


@CASES.covers("26")
def test_the_invalid_member_is_not_null() -> None:
    found = change(TICDC, row_message({"e": "enum('a')", "n": "enum('a')"}, {"e": "0", "n": None}))
    assert found.after == (0, None)


@CASES.covers("28")
@pytest.mark.parametrize("source", [TICDC, CANAL])
def test_without_members_an_enum_stays_a_number_and_that_is_counted_where_labels_are_expected(
    source: str,
) -> None:
    bare = cell("enum", "2")
    found = change(source, bare)
    assert (found.after, found.schema.columns[0].type.members) == ((2,), None)
    assert {through(source, target, "enum", "2") for target in (TICDC, CANAL)} == {"2"}
    assert sent(source, CKAFKA, bare)[0]["NEW_VALUES"] == {"c": "2"}
    assert counted(source, CKAFKA, bare)["schema-inferred"] == 1


# ---------------------------------------------------------------- JSON


@CASES.covers("41")
@pytest.mark.parametrize("text", ['{"b": 1, "a": {"x": null}}', '{"a": {"x": null}, "b": 1}'])
def test_json_keeps_its_structure(text: str) -> None:
    for source, target in EITHER_WAY:
        assert (
            json.loads(through(source, target, "json", text))
            == json.loads(value("json", text, source))
            == json.loads(text)
        )


@CASES.covers("42")
def test_the_literal_null_of_json_is_not_null() -> None:
    message = row_message({"j": "json", "n": "json"}, {"j": "null", "n": None})
    for source, target in EITHER_WAY:
        assert change(source, message).after == ("null", None)
        assert sent(source, target, message)[0]["data"] == [{"j": "null", "n": None}]


@CASES.covers("43")
def test_json_without_bytes_is_the_literal_null_as_mysql_itself_reads_it() -> None:
    assert value("json", "", CANAL) == "null"
    assert through(CANAL, TICDC, "json", "") == "null"
    update = row_message({"j": "json"}, {"j": '""'}, op="UPDATE", old=[{"j": ""}])
    (out,) = sent(CANAL, TICDC, update)
    assert (out["old"], out["data"]) == ([{"j": "null"}], [{"j": '""'}])
