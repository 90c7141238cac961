"""What relay does not write as Open Protocol, because nobody could read it, its own decoder least of all."""

from __future__ import annotations

import pytest
from ckafka_support import CKAFKA
from ckafka_support import row as ckafka_row
from debezium_support import DEBEZIUM, NO_SCHEMA, message
from open_support import cell, framed, row, values
from support import CANAL, OPEN, record, row_message

from relay import CodecError, ConsumerRecord, NotRepresentable, Translator

SECRET = "99999999999999999999"


def refused(
    given: ConsumerRecord, source: str = CANAL, before: list[ConsumerRecord] | None = None
) -> NotRepresentable:
    translator = Translator(source, OPEN)
    for each in before or []:
        translator.translate(each)
    with pytest.raises(NotRepresentable) as raised:
        translator.translate(given)
    assert SECRET not in str(raised.value)
    return raised.value


@pytest.mark.parametrize("name", ["", None])
def test_a_row_without_a_name(name: str | None) -> None:
    given = record(row_message({"a": "int"}, {"a": "1"}, database=name))
    assert "the name of its database" in refused(given).reason


@pytest.mark.parametrize(
    "column_type",
    ["tinyint", "int", "bigint", "bigint unsigned", "year", "bit(64)", "enum('a','b')", "set('a','b')"],
)
@pytest.mark.parametrize("number", [SECRET, f"-{SECRET}", "18446744073709551616", "-9223372036854775809"])
def test_a_number_beyond_64_bits(column_type: str, number: str) -> None:
    given = record(row_message({"id": "int", "n": column_type}, {"id": "1", "n": number}))
    assert refused(given).path == "n"
    update = row_message(
        {"id": "int", "n": column_type}, {"id": "1", "n": "1"}, op="UPDATE", old=[{"n": number}]
    )
    assert refused(record(update)).path == "n"


@pytest.mark.parametrize("number", ["18446744073709551615", "-9223372036854775808"])
def test_numbers_of_64_bits_are_written(number: str) -> None:
    given = [record(row_message({"n": "bigint"}, {"n": number}))]
    assert values(given, source=CANAL) == [{"u": {"n": cell(8, int(number))}}]


def test_a_label_without_members() -> None:
    ddl = row_message(
        {}, isDdl=True, type="CREATE", data=None, sql="CREATE TABLE t (id INT, e ENUM('x', 'y'))"
    )
    unknown = ckafka_row({"id": "1", "e": "secret"})
    error = refused(record(unknown, 1), CKAFKA, [record(ddl | {"es": 1, "ts": 1})])
    assert (error.path, "secret" in str(error)) == ("e", False)


def test_a_value_of_the_type_null_and_what_is_no_vector() -> None:
    assert refused(record(row_message({"a": "null"}, {"a": "1"}))).path == "a"
    assert refused(record(row_message({"a": "vector(3)"}, {"a": "abc"}))).path == "a"


def test_a_row_whose_columns_are_all_virtual() -> None:
    create = row_message(
        {}, isDdl=True, type="CREATE", data=None, sql="CREATE TABLE t (a INT AS (1) VIRTUAL)"
    )
    given = row_message({"a": "int"}, {"a": "1"}, es=1700000009123)
    assert "without columns" in refused(record(given, 1), CANAL, [record(create)]).reason


@pytest.mark.parametrize("value", [1 << 70, -(1 << 70)])
def test_a_number_of_debezium_beyond_64_bits(value: int) -> None:
    given = record(message("c", after={"id": value}))
    translator = Translator(DEBEZIUM, OPEN, NO_SCHEMA)
    with pytest.raises(CodecError, match="id"):
        translator.translate(given)


def test_a_key_of_open_protocol_is_never_without_names() -> None:
    assert values([framed(row({"u": {"a": cell(3, 1)}}))]) == [{"u": {"a": cell(3, 1)}}]
