"""Values that no column of the known definition can have, on every route: a target that can write one exactly
writes it, a target that cannot refuses the row with the column's name.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Sequence
from decimal import Decimal
from typing import Any

import pytest
from debezium_support import DEBEZIUM, NO_SCHEMA
from support import CANAL, OPEN, TICDC, record, row_message

from relay import ConsumerRecord, Loss, NotRepresentable, ProducerRecord, RelayError, RowChange, Translator
from relay.model.events import Value

CKAFKA = "ckafka-json"
FULL = {"content-compatible": "true", "enable-tidb-extension": "true"}
SOURCES = (CANAL, TICDC, OPEN, CKAFKA, DEBEZIUM)
TARGETS: list[tuple[str, dict[str, str]]] = [
    (CANAL, {}),
    (TICDC, FULL),
    (OPEN, {}),
    (CKAFKA, {}),
    (DEBEZIUM, {}),
    (DEBEZIUM, NO_SCHEMA),
]
AT = "2026-01-15 02:20:30"
#: The type of a column, a value as MySQL's text, and the targets whose form of the type cannot hold it.
CASES: list[tuple[str, str, set[str]]] = [
    ("datetime", f"{AT}.1", set()),
    ("datetime", f"{AT}.123", set()),
    ("datetime", f"{AT}.123000", set()),
    ("datetime(1)", f"{AT}.123", set()),
    ("datetime", f"{AT}.1234", {DEBEZIUM}),
    ("datetime", f"{AT}.123456", {DEBEZIUM}),
    ("datetime(3)", f"{AT}.123456", {DEBEZIUM}),
    ("datetime(3)", f"{AT}.000001", {DEBEZIUM}),
    ("datetime(4)", f"{AT}.123456", set()),
    ("timestamp", f"{AT}.123", set()),
    ("timestamp", f"{AT}.123456", set()),
    ("timestamp(1)", f"{AT}.12", set()),
    ("timestamp(3)", f"{AT}.123456", set()),
    ("timestamp", "2100-01-01 00:00:00", set()),
    ("time", "10:00:00.1", set()),
    ("time", "-10:00:00.123456", set()),
    ("time(3)", "10:00:00.123456", set()),
    ("time", "900:00:00", {DEBEZIUM}),
    ("bit(1)", "2", {DEBEZIUM}),
    ("bit(4)", "255", set()),
    ("bit(8)", "256", set()),
    ("bit(8)", "65535", set()),
    ("bit(60)", str((1 << 64) - 1), set()),
    ("bit(8)", "-1", {DEBEZIUM}),
    ("bit(8)", str(1 << 64), {OPEN, DEBEZIUM}),
    ("tinyint", "300", set()),
    ("tinyint", "-129", set()),
    ("tinyint unsigned", "-1", set()),
    ("tinyint unsigned", "256", set()),
    ("smallint", "70000", set()),
    ("smallint unsigned", "-1", set()),
    ("mediumint", "8388608", set()),
    ("int", "5000000000", set()),
    ("int unsigned", "-1", set()),
    ("bigint", str(1 << 63), set()),
    ("bigint", str((1 << 64) - 1), set()),
    ("bigint", str(-(1 << 63) - 1), {OPEN}),
    ("bigint unsigned", "-1", {DEBEZIUM}),
    ("bigint unsigned", str(1 << 64), {OPEN, DEBEZIUM}),
    ("year", "1800", set()),
    ("year", "3000", set()),
    ("year", "70000", set()),
    ("decimal(5,2)", "12345.67", set()),
    ("decimal(5,2)", "1.2345", set()),
    ("decimal(5,2) unsigned", "-1.00", set()),
    ("double unsigned", "-1.5", set()),
    ("float", "0.1234567890123", set()),
    ("float", "-1234567890.5", set()),
    ("float", "1e39", {DEBEZIUM}),
    ("float", "-1.7976931348623157e308", {DEBEZIUM}),
    ("varchar(3)", "abcdef", set()),
    ("char(3)", "abcdef", set()),
    ("varbinary(3)", "abcdef", set()),
    ("binary(3)", "abcdef", set()),
    ("tinytext", "x" * 300, set()),
]


def canal_messages(column_type: str, text: str) -> list[ConsumerRecord]:
    """The statement of a table, and an UPDATE whose images both have the value."""
    sql = f"CREATE TABLE t (id INT PRIMARY KEY, c {column_type}, v VARCHAR(9))"
    statement = {"database": "d", "table": "t", "isDdl": True, "type": "CREATE", "sql": sql, "es": 1, "ts": 1}
    types = {"id": "int", "c": column_type, "v": "varchar(9)"}
    images: dict[str, Any] = {"op": "UPDATE", "old": [{"v": "x"}], "pkNames": ["id"]}
    sql_types = {"id": 4, "c": 2004 if "binary" in column_type else 12, "v": 12}
    row = row_message(types, {"id": "1", "c": text, "v": "y"}, sqlType=sql_types, **images)
    return [record(statement), record(row, offset=1)]


def consumed(outs: Sequence[ProducerRecord]) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("topic", 0, at, out.timestamp_ms, out.key, out.value) for at, out in enumerate(outs)
    ]


@functools.cache
def messages(source: str, column_type: str, text: str) -> list[ConsumerRecord]:
    """The same in another protocol, as relay writes it."""
    given = canal_messages(column_type, text)
    if source in {CANAL, TICDC}:
        return given
    made = Translator(CANAL, source)
    return consumed([out for one in given for out in made.translate(one)])


def from_mysql(column_type: str, text: str) -> Value:
    """What the text of a value stands for."""
    word = column_type.partition(" ")[0].partition("(")[0]
    if word in {"bit", "year"} or word.endswith("int"):
        return int(text)
    if word in {"float", "double"}:
        return float(text)
    if word == "decimal":
        return _plain(Decimal(text))
    return _plain(text.encode() if "binary" in word else text)


@functools.cache
def target_statement(target: str, column_type: str) -> ConsumerRecord:
    """The statement in the target's protocol."""
    (out,) = Translator(CANAL, target).translate(canal_messages(column_type, "")[0])
    return consumed([out])[0]


def values(protocol: str, statement: ConsumerRecord, row: ConsumerRecord) -> list[Value]:
    """The column's values in both images, read by who has seen the table's definition."""
    reader = Translator(protocol, protocol)
    reader.inspect(statement)
    (event,) = reader.inspect(row)
    assert isinstance(event, RowChange)
    return [_plain(image[1]) for image in (event.before, event.after) if image is not None]


def _plain(value: Any) -> Value:
    """The value without the zeros that a wire may add or leave out behind it."""
    if isinstance(value, str) and ":" in value:
        whole, point, digits = value.partition(".")
        return whole + (point + digits).rstrip(".0")
    if isinstance(value, bytes):
        return value.rstrip(b"\0")
    return value.normalize() if isinstance(value, Decimal) else value


def knowing(source: str, known: ConsumerRecord, way: str, target: str, options: dict[str, str]) -> Translator:
    """A translator that knows the table's definition in one of the ways there are."""
    made = Translator(source, target, None, options)
    if way == "history":
        other = Translator(source, target, None, options)
        other.learn(known)
        made.restore(other.state)
    elif way == "tableChanges":
        document = json.loads(known.value or b"")
        document["payload"]["ddl"] = "CREATE TABLE which nobody understands"
        value = json.dumps(document).encode()
        made.translate(ConsumerRecord("topic", 0, 0, 1, known.key, value))
    elif way == "statement":
        made.translate(known)
    return made


WAYS = [
    *((source, "statement") for source in SOURCES),
    *((source, "its own types") for source in (CANAL, TICDC)),
    (CANAL, "history"),
    (DEBEZIUM, "tableChanges"),
]


@pytest.mark.parametrize(("source", "way"), WAYS)
@pytest.mark.parametrize(("target", "options"), TARGETS)
def test_it_is_written_exactly_or_refused_with_the_columns_name(
    source: str, way: str, target: str, options: dict[str, str]
) -> None:
    wrong = []
    for column_type, text, refusing in CASES:
        if source in refusing:
            continue  # nobody can write it so
        if way == "its own types" and column_type == "datetime":
            continue  # a bare word: see below
        found = outcome(source, way, target, options, (column_type, text))
        expected = "refused" if target in refusing else "exact"
        if found != expected:
            wrong.append((column_type, text, found))
    assert not wrong


def outcome(source: str, way: str, target: str, options: dict[str, str], case: tuple[str, str]) -> str:
    statement, row = messages(source, *case)
    translator = knowing(source, statement, way, target, options)
    try:
        (out,) = translator.translate(row)
    except NotRepresentable as error:
        return "refused" if error.path.rpartition(".")[2] == "c" else f"refused at {error.path!r}"
    except RelayError as error:
        return str(error)
    lost = set(translator.losses) & {Loss.DECIMAL_DIGITS, Loss.ZERO_DATE, Loss.VALUE_INFERRED}
    if lost:
        return f"lost {lost}"
    found = values(target, target_statement(target, case[0]), consumed([out, out])[1])
    return "exact" if found == [from_mysql(*case)] * 2 else str(found)


@pytest.mark.parametrize("options", [{}, NO_SCHEMA])
@pytest.mark.parametrize("source", [CANAL, TICDC])
@pytest.mark.parametrize(
    ("digits", "count"),
    [
        ("", 1768443630000),
        (".123", 1768443630123),
        (".123456", 1768443630123456),
        (".123000", 1768443630123000),
        (".000000", 1768443630000000),
    ],
)
def test_a_bare_word_of_the_row_itself_says_nothing_against_the_digits_of_its_text(
    source: str, options: dict[str, str], digits: str, count: int
) -> None:
    """The digits are the column's, so that all its values have one unit."""
    _, row = canal_messages("datetime", AT + digits)
    (out,) = Translator(source, DEBEZIUM, None, options).translate(row)
    assert json.loads(out.value or b"")["payload"]["after"]["c"] == count


def test_bits_that_the_column_does_not_have_need_more_bytes() -> None:
    """Those that fit have as many as the column, as from TiCDC."""
    for text, base64 in (("1", "AQ=="), ("255", "/w=="), ("256", "AAE="), ("16777216", "AAAAAQ==")):
        _, row = canal_messages("bit(8)", text)
        (out,) = Translator(CANAL, DEBEZIUM).translate(row)
        assert json.loads(out.value or b"")["payload"]["after"]["c"] == base64
