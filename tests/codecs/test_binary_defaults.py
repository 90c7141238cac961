"""Defaults of binary columns keep their bytes, whether these are text or not."""

from __future__ import annotations

import json

import pytest
from fake_registry import MemoryRegistry
from support import CANAL, record, row_message
from test_table_topics import ddl

from relay import ConsumerRecord, Resolver, RowChange, Translator
from relay.model.events import Default
from relay.mysql.types import default_bytes, default_text


@pytest.mark.parametrize(
    "data",
    [b"", b"ab", b"ab\0", "é".encode(), b"\xff\0", b"0x41", b"0xFF", b"0x", b"\xc3", bytes(range(256))],
)
def test_a_text_stands_for_the_bytes_of_a_default(data: bytes) -> None:
    assert default_bytes(default_text(data)) == data


def read_again(target: str, definition: str) -> object:
    """The default of a column that is defined so, behind its way through a target."""
    registry = MemoryRegistry()
    resolver = Resolver(registries={"source": registry, "target": registry})
    writing, reading = Translator(CANAL, target), Translator(target, CANAL)
    type_ = definition.partition(" default")[0]
    sql = f"CREATE TABLE t (id int primary key, c {definition})"
    row = row_message({"id": "int", "c": type_}, {"id": "1", "c": "x"}, pkNames=["id"])
    found: object = None
    for at, message in enumerate((ddl(sql), row)):
        for out in resolver.translate(writing, record(message, at)):
            written = ConsumerRecord(out.topic, 0, at, 0, out.key, out.value, out.headers)
            for event in resolver.inspect(reading, written):
                if isinstance(event, RowChange):
                    found = event.schema.columns[1].default
    return found


@pytest.mark.parametrize("target", ["ticdc-avro", "ticdc-simple-json", "ticdc-simple-avro", "debezium-json"])
@pytest.mark.parametrize(
    ("literal", "text"),
    [("'ab'", "ab"), ("'é'", "é"), ("X'ff00'", "0xff00"), ("b'11111111'", "0xff"), ("'0x41'", "0x41")],
)
def test_a_default_of_bytes_comes_back(target: str, literal: str, text: str) -> None:
    assert read_again(target, f"varbinary(8) default {literal}") == Default(text)


@pytest.mark.parametrize(
    ("literal", "text"), [("'é'", "é\0\0"), ("X'ff'", "0xff000000"), ("'abcd'", "abcd"), ("'0x4'", "0x4\0")]
)
def test_a_default_of_binary_is_filled_with_bytes(literal: str, text: str) -> None:
    statement = ddl(f"CREATE TABLE t (id int primary key, c binary(4) default {literal})")
    (out,) = Translator(CANAL, "ticdc-simple-json").translate(record(statement))
    columns = json.loads(out.value or b"")["tableSchema"]["columns"]
    assert columns[1]["default"] == text
