"""TiCDC's debezium-avro: TiCDC's own messages, read and written again."""

from __future__ import annotations

import json
import math
from typing import Any

import pytest
from codecs_ticdc_avro import parts
from fake_registry import MemoryRegistry
from support import CANAL, captured, captured_files, record, row_message
from toy_protocol.registry import schema_by_id

from relay import ConsumerRecord, NotRepresentable, Resolver, RowChange, Translator
from relay.model.lookups import SchemaById
from relay.mysql.numbers import shortest_float32

AVRO = "ticdc-debezium-avro"
SETTINGS = {
    "debezium-avro": {},
    "debezium-avro.tidb-extension": {
        "enable-tidb-extension": "true",
        "avro-enable-watermark": "true",
        "avro-bigint-unsigned-handling-mode": "string",
    },
}
FILES = [file for variant in SETTINGS for file in captured_files(f"ticdc/{variant}")]


def given(each: ConsumerRecord) -> list[Any]:
    """Key and value of a captured record, each with its schema's text."""
    return parts(AVRO, each, lambda id: schema_by_id(SchemaById("source", id)).text)


def without_source_name(part: Any) -> Any:
    """A part without the name of the record of its source.

    For statements TiCDC keeps the first schema, which has the name of another database.
    """
    if part is None:
        return None
    text, body = part
    document = json.loads(text)
    if document["name"] == "SchemaChangeValue":
        for name in ("connect.name", "namespace"):
            del document["fields"][0]["type"][name]
    return document, body


@pytest.mark.parametrize("file", FILES)
def test_what_is_read_is_written_with_the_same_schemas_and_bytes(file: str) -> None:
    registry = MemoryRegistry()
    translator = Translator(AVRO, AVRO, None, SETTINGS[file.split("/")[1]])
    resolver = Resolver(registries={"target": registry})
    compared = 0
    for each in captured(file):
        (one,) = resolver.translate(translator, each)
        written = parts(
            AVRO,
            ConsumerRecord(one.topic, 0, 0, 0, one.key, one.value),
            lambda id: registry.schema(id).text,
        )
        assert [without_source_name(part) for part in written] == [
            without_source_name(part) for part in given(each)
        ]
        if file != "ticdc/debezium-avro.tidb-extension/08_names" and not file.endswith("10_ddl"):
            assert written == given(each)
        compared += 1
    assert compared > 3


def test_decimals_are_exact() -> None:
    translator = Translator(AVRO, AVRO)
    found = [
        event.after
        for each in captured("ticdc/debezium-avro/02_numeric")
        for event in Resolver().inspect(translator, each)
        if isinstance(event, RowChange) and event.table.table == "decimals" and event.after
    ]
    assert any(len(str(cell).replace("-", "").replace(".", "")) >= 60 for row in found for cell in row)


def test_unsigned_numbers_that_a_long_does_not_hold_are_refused() -> None:
    translator = Translator("ticdc-canal-json", AVRO)
    message = row_message({"id": "bigint unsigned"}, {"id": "9223372036854775808"}, pkNames=["id"])
    with pytest.raises(NotRepresentable, match="id"):
        Resolver().translate(translator, record(message))


def test_a_table_with_the_name_of_its_sources_record_is_refused() -> None:
    translator = Translator("ticdc-canal-json", AVRO)
    message = row_message({"id": "int"}, {"id": "1"}, pkNames=["id"], table="Source")
    with pytest.raises(NotRepresentable, match="source"):
        Resolver().translate(translator, record(message))


def test_a_float_has_its_shortest_digits() -> None:
    translator, resolver = Translator(AVRO, AVRO), Resolver()
    found = {
        cell
        for each in captured("ticdc/debezium-avro/02_numeric")
        for event in resolver.inspect(translator, each)
        if isinstance(event, RowChange) and event.table.table == "floats"
        for column, cell in zip(event.schema.columns, event.after or (), strict=False)
        if column.name == "f" and isinstance(cell, float)
    }
    assert found
    assert found == {shortest_float32(cell) for cell in found}


@pytest.mark.parametrize("mysql_type", ["float", "double", "float(5,2)"])
def test_zero_keeps_its_sign(mysql_type: str) -> None:
    resolver = Resolver()
    message = row_message({"id": "int", "f": mysql_type}, {"id": "1", "f": "-0"})
    (out,) = resolver.translate(Translator(CANAL, AVRO), record(message))
    (change,) = resolver.inspect(Translator(AVRO, CANAL), record(out.value or b""))
    assert isinstance(change, RowChange)
    assert [math.copysign(1, cell) for cell in change.after or () if isinstance(cell, float)] == [-1]
