"""Values in CKafka's rows: the spellings that are read, and the one that is written."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from ckafka_support import CKAFKA, change, ddl, row
from support import CANAL, record, row_message, translate

from relay import DecodeError, Loss, Malformed, RowChange, Translator


def value(mysql_type: str, text: Any, style: str = "auto", zone: str = "UTC") -> Any:
    """What a cell of this type is read as."""
    create = ddl(f"CREATE TABLE t (c {mysql_type})")
    found = change(create, row({"c": text}), options={"value-style": style, "timezone": zone})
    assert found.after is not None
    return found.after[0]


def written(mysql_type: str, text: Any, **options: str) -> Any:
    """How a cell that Canal spells so is written."""
    out = translate(CANAL, CKAFKA, [record(row_message({"c": mysql_type}, {"c": text}))], None, options)
    return out[0]["NEW_VALUES"]["c"]


@pytest.mark.parametrize(
    ("mysql_type", "text", "expected"),
    [
        ("INT", "-5", -5), ("BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1), ("DATE", "2020-02-20", "2020-02-20"),
        ("DATE", "0000-00-00", "0000-00-00"), ("DATETIME(3)", "2020-02-20 02:20:20.120", "2020-02-20 02:20:20.120"),
        ("TIMESTAMP", "2020-02-20 02:20:20", "2020-02-20 02:20:20"), ("TIME", "-838:59:59", "-838:59:59"), ("YEAR", "2020", 2020),
        ("DECIMAL(10,4)", "123.4560", Decimal("123.4560")), ("DECIMAL(4,0)", "1234", Decimal(1234)),
        ("BLOB", "\xff\x00", b"\xff\0"), ("BINARY(4)", "ab", b"ab\0\0"), ("BIT(10)", "341", 341), ("BIT(1)", "1", 1),
        ("BOOL", "0", 0), ("FLOAT", "3.14", 3.14), ("DOUBLE", "1.0E10", 1e10), ("JSON", '{"a": 1}', '{"a": 1}'),
        ("VARCHAR(9)", "", ""), ("VARCHAR(9)", "null", "null"), ("VARCHAR(9)", None, None), ("ENUM('a','b')", "b", 2),
        ("ENUM('a','b')", "2", 2), ("ENUM('2','1')", "1", 2), ("ENUM('a','b')", "", 0), ("ENUM('a','')", "", 2),
        ("ENUM('a','b')", "0", 0), ("SET('a','b','c')", "a,c", 5), ("SET('a','b','c')", "", 0), ("SET('a','b','c')", "6", 6),
        ("SET('1','2')", "2", 2),
    ],
)  # fmt: skip
@pytest.mark.parametrize("style", ["auto", "mysql"])
def test_values_in_mysqls_text(style: str, mysql_type: str, text: str | None, expected: Any) -> None:
    assert value(mysql_type, text, style) == expected


@pytest.mark.parametrize(
    ("mysql_type", "text", "expected"),
    [
        ("DATE", "18312", "2020-02-20"), ("DATE", "-1", "1969-12-31"), ("DATETIME", "1582165220000", "2020-02-20 02:20:20"),
        ("DATETIME(3)", "1582165220120", "2020-02-20 02:20:20.120"),
        ("DATETIME(6)", "1582165220120000", "2020-02-20 02:20:20.120000"), ("DATETIME(4)", "-1", "1969-12-31 23:59:59.999999"),
        ("DATETIME", "-62135596800000", "0001-01-01 00:00:00"), ("TIMESTAMP", "2020-02-20T02:20:20Z", "2020-02-20 02:20:20"),
        ("TIMESTAMP", "2020-02-20T02:20:20+08:00", "2020-02-19 18:20:20"),
        ("TIMESTAMP(3)", "2020-02-20T02:20:20.12Z", "2020-02-20 02:20:20.120"),
        ("TIMESTAMP(6)", "2020-02-20T02:20:20Z", "2020-02-20 02:20:20.000000"), ("TIME", "8420000000", "02:20:20"),
        ("TIME(2)", "-120000", "-00:00:00.12"), ("TIME", "-3020399000000", "-838:59:59"),
        ("DECIMAL(10,4)", "ATFE", Decimal("7.8148")), ("DECIMAL(5,2)", "/4U=", Decimal("-1.23")),
        ("DECIMAL(5,2)", "AA==", Decimal("0.00")), ("BIT(1)", "true", 1), ("BOOL", "false", 0), ("TINYINT(1)", "true", 1),
    ],
)  # fmt: skip
@pytest.mark.parametrize("style", ["auto", "debezium"])
def test_values_in_debeziums_encodings(style: str, mysql_type: str, text: str, expected: Any) -> None:
    assert value(mysql_type, text, style) == expected
    if style == "auto" and not mysql_type.startswith("TIMESTAMP"):
        with pytest.raises(DecodeError):
            value(mysql_type, text, "mysql")


@pytest.mark.parametrize(
    ("mysql_type", "text", "as_mysql", "as_debezium"),
    [
        ("BLOB", "AAEC", b"AAEC", b"\0\1\2"), ("BLOB", "a b", b"a b", b"a b"), ("BINARY(4)", "AAE=", b"AAE=", b"\0\1\0\0"),
        ("DECIMAL(4,0)", "1234", Decimal(1234), Decimal(int.from_bytes(b"\xd7\x6d\xf8", "big", signed=True))),
        ("DECIMAL(4,1)", "12.5", Decimal("12.5"), Decimal("12.5")), ("BIT(16)", "1234", 1234, 0xF86DD7), ("BIT(16)", "65", 65, 65),
    ],
)  # fmt: skip
def test_ambiguous_base64_is_decoded_only_if_configured(
    mysql_type: str, text: str, as_mysql: Any, as_debezium: Any
) -> None:
    assert value(mysql_type, text, "auto") == value(mysql_type, text, "mysql") == as_mysql
    assert value(mysql_type, text, "debezium") == as_debezium


@pytest.mark.parametrize(
    ("mysql_type", "text"),
    [
        ("INT", "x"), ("DATE", "2020-2-2"), ("DATE", "9" * 18), ("DATE", "9" * 30), ("DATETIME", "9" * 18),
        ("TIME", "3020400000000"), ("DECIMAL(9,2)", ""), ("DECIMAL(9,2)", "?"), ("DECIMAL(9,2)", "A" * 400),
        ("BLOB", "中"), ("BIT(1)", "True"),
        ("TIMESTAMP", "soon"), ("BIT(64)", "A" * 40), ("TIMESTAMP", "0001-01-01T00:00:00+08:00"),
    ],
)  # fmt: skip
@pytest.mark.parametrize("style", ["auto", "debezium"])
def test_text_that_is_no_value_of_its_type_is_malformed_and_not_quoted(
    style: str, mysql_type: str, text: str
) -> None:
    with pytest.raises(Malformed) as raised:
        value(mysql_type, text, style)
    assert raised.value.path == "NEW_VALUES.c"
    assert not text or len(text) < 2 or text not in str(raised.value)


@pytest.mark.parametrize(
    ("mysql_type", "text", "expected"),
    [
        ("ENUM('a')", "zz", "zz"),
        ("ENUM('a')", "2", 2),
        ("ENUM('a')", "9" * 5000, "9" * 5000),
        ("SET('a')", "a,b", "a,b"),
        ("SET('a')", "2", 2),
    ],
)
@pytest.mark.parametrize("style", ["auto", "debezium", "mysql"])
def test_labels_that_the_definition_lacks_stay_and_are_counted(
    style: str, mysql_type: str, text: str, expected: Any
) -> None:
    """The definition is out of date: other rows of the table are read with it all the same."""
    create = ddl(f"CREATE TABLE t (c {mysql_type}, d DECIMAL(5,2))")
    given = [row({"c": cell, "d": "1.50"}) for cell in ("a", text, "a", text)]
    translator = Translator(CKAFKA, CKAFKA, {"value-style": style})
    found = [
        event for at, one in enumerate([create, *given]) for event in translator.inspect(record(one, at))
    ]
    changes = [event for event in found if isinstance(event, RowChange)]
    assert [change.after for change in changes] == [(1, Decimal("1.50")), (expected, Decimal("1.50"))] * 2
    assert [change.schema.complete for change in changes] == [True, False] * 2
    assert translator.losses == {Loss.SCHEMA_INFERRED: 2}
    (out,) = translator.translate(record(given[1], 9))
    assert json.loads(out.value or b"")["NEW_VALUES"] == given[1]["NEW_VALUES"]


@pytest.mark.parametrize(
    ("mysql_type", "canal", "text"),
    [
        ("int", "5", "5"), ("decimal(9,2)", "1.0", "1.00"), ("double", "1.0E10", "1.0E10"), ("year", "0", "0000"),
        ("binary(4)", "ab", "ab\0\0"), ("blob", "\xff", "\xff"), ("bit(8)", "65", "65"), ("enum('a','b')", "2", "b"),
        ("enum('a','b')", "0", ""), ("enum('a','')", "0", "0"), ("enum('a','')", "2", ""), ("enum", "2", "2"),
        ("enum('a')", "7", "7"), ("set('a','b','c')", "5", "a,c"), ("set('a','b')", "0", ""), ("set", "3", "3"),
        ("set('a')", "6", "6"), ("datetime(3)", "2020-02-20 02:20:20.120", "2020-02-20 02:20:20.120"), ("json", "null", "null"),
        ("varchar(9)", None, None), ("varchar(9)", "", ""),
    ],
)  # fmt: skip
def test_values_are_written_in_mysqls_text_and_members_as_labels(
    mysql_type: str, canal: str | None, text: str | None
) -> None:
    assert written(mysql_type, canal) == text


def test_a_set_of_64_members() -> None:
    members = ",".join(f"'m{n}'" for n in range(64))
    labels = ",".join(f"m{n}" for n in range(64))
    assert written(f"set({members})", "18446744073709551615") == labels
    assert value(f"SET({members})", labels) == value(f"SET({members})", "18446744073709551615") == 2**64 - 1


def test_timestamps_move_between_zones() -> None:
    assert value("TIMESTAMP", "2020-02-20 02:20:20", zone="Asia/Shanghai") == "2020-02-19 18:20:20"
    assert written("timestamp", "2020-02-19 18:20:20", timezone="Asia/Shanghai") == "2020-02-20 02:20:20"
    assert value("DATETIME", "2020-02-20 02:20:20", zone="Asia/Shanghai") == "2020-02-20 02:20:20"
