"""Names of columns with back-ticks, which Canal doubles in its rows."""

from __future__ import annotations

import json

import pytest
from edge_cases.canal_family import ddl
from support import captured, record, row_message, translated_records

from relay import Loss, RowChange, Translator


@pytest.mark.parametrize(
    "target", ["canal-json", "ticdc-canal-json", "ckafka-json", "flat-json", "debezium-json"]
)
def test_they_are_doubled_by_canal_alone(target: str) -> None:
    translator = Translator("canal-json", target)
    records = captured("mysql/canal-json/08_names")
    events = [event for one in records for event in translator.inspect(one)]
    rows = [event for event in events if isinstance(event, RowChange) and event.table.table == "back`tick"]
    assert [row.images.message_key_columns for row in rows] == [("i`d",)] * 2
    translator = Translator("canal-json", target)
    values = [out.value or b"" for out in translated_records(translator, records)]
    found = [value for value in values if b"i`d" in value and b"CREATE TABLE" not in value]
    assert len(found) == 2
    assert not [value for value in values if b"i``d" in value and b"CREATE TABLE" not in value]
    assert Loss.SCHEMA_INFERRED not in translator.losses


def test_a_column_with_two_back_ticks_of_its_own_is_another() -> None:
    translator = Translator("canal-json", "flat-json")
    translator.translate(record(ddl("CREATE TABLE t (`i````d` INT PRIMARY KEY, `i``d` INT)", "CREATE")))
    message = row_message({"i``d": "int", "i`d": "int"}, {"i``d": "1", "i`d": "2"}, pkNames=["i``d"])
    (out,) = translator.translate(record(message, offset=1))
    value = json.loads(out.value or b"")
    assert (value["i``d"], value["i`d"], out.key) == (1, 2, b'{"i``d":1}')
