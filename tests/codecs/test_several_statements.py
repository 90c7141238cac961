"""Several statements in one text: to no protocol are they written anew, and read back the text is the same."""

from __future__ import annotations

import json

import pytest

from relay import ConsumerRecord, SchemaChange, Translator

TARGETS = (
    *("canal-json", "ckafka-json", "debezium-json"),
    *("ticdc-canal-json", "ticdc-debezium", "ticdc-open-protocol"),
)


@pytest.mark.parametrize(
    ("sql", "word"),
    [
        ("DROP TABLE a; DROP TABLE a", "ERASE"),
        ("DROP TABLE a; DROP TABLE IF EXISTS b", "ERASE"),
        ("DROP TABLE a, b; ALTER TABLE c ALGORITHM = COPY", "ERASE"),
        ("DROP VIEW a, b;;\nDROP VIEW c", "ERASE"),
        ("TRUNCATE TABLE a; ALTER TABLE a LOCK = NONE", "TRUNCATE"),
        ("RENAME TABLE a TO x, b TO y; ALTER TABLE x ADD COLUMN n INT", "RENAME"),
        ("RENAME TABLE a TO x; RENAME TABLE b TO e.y", "RENAME"),
        ("RENAME TABLE a TO e.x; ALTER TABLE b ALGORITHM = COPY", "RENAME"),
    ],
)
@pytest.mark.parametrize("target", TARGETS)
def test_they_stay_as_they_are(sql: str, word: str, target: str) -> None:
    message = {
        "id": 0, "database": "d", "table": "a", "isDdl": True, "type": word, "es": 1, "ts": 2, "sql": sql,
    }  # fmt: skip
    cause = ConsumerRecord("topic", 0, 0, 1, None, json.dumps(message).encode())
    (out,) = Translator("canal-json", target).translate(cause)
    again = ConsumerRecord(out.topic, 0, 0, 1, out.key, out.value, out.headers)
    (read,) = Translator(target, "canal-json").inspect(again)
    assert isinstance(read, SchemaChange)
    assert read.ddl == sql
