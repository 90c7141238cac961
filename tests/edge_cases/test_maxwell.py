"""Maxwell's edge cases that need Python; the others are in tests/golden/maxwell. The last test asks for all of the list."""

from __future__ import annotations

from edge_cases.support import EdgeCases
from support import record

from relay import ConsumerRecord, RowChange, Translator
from relay.codecs import BUILT_IN

MAXWELL = "maxwell-json"
CASES = EdgeCases("maxwell", "Maxwell")


@CASES.covers("M45")
def test_ddl_in_a_separate_topic() -> None:
    topics = BUILT_IN[MAXWELL].ddl_topics
    assert topics(["rows", "ddl"], {"ddl_kafka_topic": "ddl"}) == {"rows": "ddl", "ddl": "ddl"}
    assert topics(["rows", "ddl"], {}) == {"rows": "rows", "ddl": "ddl"}
    assert topics(["rows"], {"ddl_kafka_topic": "ddl"}) == {"rows": "rows"}
    create = {
        "type": "table-create",
        "database": "d",
        "table": "t",
        "ts": 1,
        "sql": "CREATE TABLE t (id INT)",
    }
    row = {"database": "d", "table": "t", "type": "insert", "ts": 1_700_000_001, "data": {"id": 1}}
    translator = Translator(MAXWELL, MAXWELL)
    translator.inspect(ConsumerRecord("ddl", 0, 7, 0, None, record(create).value))
    (change,) = translator.inspect(record(row, offset=1))
    assert isinstance(change, RowChange)
    assert change.schema.complete


def test_every_number_is_a_case_or_a_decision() -> None:
    CASES.check()
