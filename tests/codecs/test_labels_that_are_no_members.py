"""A label that is no member of its ENUM or SET: refused with its column, or passed on as the text it is."""

from __future__ import annotations

import re

import pytest
from support import CANAL, OPEN, TICDC, record, row_message, translated_records

from relay import ConsumerRecord, RowChange, Translator
from relay.codecs.losses import Loss
from relay.model.errors import CodecError

CKAFKA, DEBEZIUM = "ckafka-json", "ticdc-debezium"
TARGETS = (TICDC, CANAL, CKAFKA, OPEN, DEBEZIUM)
#: The targets to which a source's text is passed on unread.
PASSED = {TICDC: {TICDC, CANAL}, CANAL: set(), DEBEZIUM: set(), CKAFKA: {TICDC, CANAL, CKAFKA, DEBEZIUM}}


def messages(source: str, column_type: str, label: str) -> list[ConsumerRecord]:
    """A statement, and a row with the label, as the source's producer would have them."""
    sql = f"CREATE TABLE t (k INT PRIMARY KEY, secret_e {column_type})"
    types = {
        "k": "int",
        "secret_e": column_type.lower() if source == CANAL else column_type[:4].strip("(").lower(),
    }
    given = [
        record(row_message({}, op="CREATE") | {"isDdl": True, "sql": sql, "data": None}),
        record(row_message(types, {"k": "1", "secret_e": "1"}, pkNames=["k"]), 1),
    ]
    if source not in {TICDC, CANAL}:
        made = translated_records(Translator(TICDC, source), given)
        given = [
            ConsumerRecord("t", 0, at, out.timestamp_ms, out.key, out.value) for at, out in enumerate(made)
        ]
    ddl, row = given
    value, count = re.subn(
        rb'"secret_e": ?"(?!enum|set)[^"(]*"(?=\})', f'"secret_e":"{label}"'.encode(), row.value or b""
    )
    assert count >= 1
    return [ddl, ConsumerRecord(row.topic, 0, 1, 1, row.key, value)]


@pytest.mark.parametrize("target", TARGETS)
@pytest.mark.parametrize("source", PASSED)
@pytest.mark.parametrize(
    ("column_type", "label"),
    [("ENUM('x','y')", "hidden"), ("SET('p','q')", "p,hidden"), ("SET('p','q')", "hidden")],
)
def test_the_column_is_named_or_the_text_passed_on(
    source: str, target: str, column_type: str, label: str
) -> None:
    ddl, row = messages(source, column_type, label)
    made = Translator(source, target)
    made.translate(ddl)
    if target in PASSED[source]:
        (out,) = made.translate(row)
        assert f'"secret_e":"{label}"'.encode() in (out.value or b"")
        assert made.losses[Loss.SCHEMA_INFERRED] == (source == CKAFKA)
        return
    with pytest.raises(CodecError) as refused:
        made.translate(row)
    assert refused.value.path.rpartition(".")[2] == "secret_e"
    assert "hidden" not in str(refused.value)


@pytest.mark.parametrize("source", [TICDC, CANAL])
@pytest.mark.parametrize(
    ("column_type", "label", "number"),
    [
        ("ENUM('x','y')", "", 0),  # MySQL's mark of a value that was no member
        ("ENUM('x','')", "", 2),
        ("SET('p','q')", "", 0),
        ("SET('p','q')", "q,q", 2),
    ],
)
def test_labels_are_read_where_numbers_are_expected(
    source: str, column_type: str, label: str, number: int
) -> None:
    """As relay writes them with `enum=label`, read without that option."""
    ddl, row = messages(source, column_type, label)
    reader = Translator.reader(source)
    reader.inspect(ddl)
    (change,) = reader.inspect(row)
    assert isinstance(change, RowChange)
    assert change.after == (1, number)
