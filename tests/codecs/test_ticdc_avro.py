"""TiCDC Avro: TiCDC's own messages, read and written again."""

from __future__ import annotations

import json
from collections.abc import Iterator
from typing import Any

import pytest
from codecs_ticdc_avro import parts
from fake_registry import MemoryRegistry
from support import DATA, captured, captured_files
from toy_protocol.registry import schema_by_id

from relay import ConsumerRecord, Loss, Op, ProducerRecord, Resolver, RowChange, SchemaChange, Translator
from relay.model.lookups import SchemaById

AVRO = "ticdc-avro"
EXTENSION = {"enable-tidb-extension": "true"}
STRINGS = {
    **EXTENSION,
    "avro-decimal-handling-mode": "string",
    "avro-bigint-unsigned-handling-mode": "string",
}
#: The variants, and TiCDC's options.
SETTINGS = {
    "avro": {},
    "avro.tidb-extension": {**EXTENSION, "avro-enable-watermark": "true"},
    "avro.string-modes": STRINGS,
    "avro.include-before": {**EXTENSION, "avro-include-before-value": "true"},
    "avro.checksum": {**STRINGS, "integrity-check-level": "correctness"},
}
FILES = [file for variant in SETTINGS for file in captured_files(f"ticdc/{variant}")]


class Wire:
    """A route into a registry whose schemas can be examined."""

    def __init__(self, source: str, writing: dict[str, str], reading: dict[str, str] | None = None) -> None:
        self.registry = MemoryRegistry()
        self.translator = Translator(source, AVRO, reading, writing)
        self._resolver = Resolver(registries={"target": self.registry})

    def write(self, record: ConsumerRecord) -> list[ProducerRecord]:
        return self._resolver.translate(self.translator, record)

    def parts(self, record: ProducerRecord) -> list[Any]:
        """Key and value of a record, each with its schema's text instead of the id."""
        as_read = ConsumerRecord(record.topic, 0, 0, 0, record.key, record.value)
        return parts(AVRO, as_read, lambda id: self.registry.schema(id).text)

    def subjects(self) -> dict[str, list[str]]:
        """The schemas that were registered, by subject."""
        fake = self.registry.fake
        return {subject: [fake.texts[id] for id in ids] for subject, ids in fake.subjects.items()}


def given(record: ConsumerRecord) -> list[Any]:
    """Key and value of a captured record, each with its schema's text."""
    return parts(AVRO, record, lambda id: schema_by_id(SchemaById("source", id)).text)


def settings_of(file: str) -> dict[str, str]:
    return SETTINGS[file.split("/")[1]]


# ---------------------------------------------------------------- written as TiCDC does


@pytest.mark.parametrize("file", FILES)
def test_what_is_read_is_written_with_the_same_schemas_and_bytes(file: str) -> None:
    """But a deleted row without a key, which nobody could find: it is counted."""
    wire, compared = Wire(AVRO, settings_of(file)), 0
    for record in captured(file):
        written = wire.write(record)
        if record.key is None and (record.value is None or record.value[:1] == b"\3"):
            assert written == []
            continue
        (one,) = written
        assert wire.parts(one) == given(record)
        compared += 1
    assert compared > 3


@pytest.mark.parametrize("file", [file for file in FILES if "avro.tidb-extension/1" not in file])
def test_schemas_are_registered_under_the_subjects_of_ticdc(file: str) -> None:
    """The captured ones of the file's folder that its records name, no others."""
    wire, of_file = (
        Wire(AVRO, settings_of(file)),
        {part[0] for r in captured(file) for part in given(r) if type(part) is tuple},
    )
    for record in captured(file):
        wire.write(record)
    captured_schemas: dict[str, set[str]] = {}
    for line in (DATA / file).with_name("schemas.ndjson").read_text(encoding="utf-8").splitlines():
        each = json.loads(line)
        if each["schema"] in of_file:
            captured_schemas.setdefault(each["subject"], set()).add(each["schema"])
    assert {subject: set(texts) for subject, texts in wire.subjects().items()} == captured_schemas


WITH_JSON = [
    file
    for file in captured_files("ticdc/avro.tidb-extension")
    if file.replace("avro", "canal-json") in captured_files("ticdc/canal-json.tidb-extension")
]


def rows(records: list[ConsumerRecord], protocol: str) -> Iterator[Any]:
    """The changes of rows, without values that one of the formats does not have."""
    translator, resolver = Translator(protocol, protocol), Resolver()
    for record in records:
        for event in resolver.inspect(translator, record):
            if isinstance(event, RowChange) and event.op is not Op.DELETE:
                yield event.source.commit_ts, str(event.table), event.op, event.after


@pytest.mark.parametrize("file", WITH_JSON)
def test_rows_say_what_canal_json_of_the_same_run_says(file: str) -> None:
    """Those of tables that both have: the encoder of Avro refuses some names, and wants a key."""
    avro = list(rows(captured(file), AVRO))
    tables = {row[1] for row in avro}
    json_rows = [
        row
        for row in rows(captured(file.replace("avro", "canal-json")), "ticdc-canal-json")
        if row[1] in tables
    ]
    assert len(avro) > 3
    missing = [row for row in avro if row not in json_rows]
    assert missing == []


def test_statements_and_watermarks_are_those_of_ticdc() -> None:
    translator = Translator(AVRO, AVRO)
    events = [
        event
        for record in captured("ticdc/avro.tidb-extension/10_ddl")
        for event in Resolver().inspect(translator, record)
    ]
    statements = [event for event in events if isinstance(event, SchemaChange)]
    assert len(statements) > 50
    assert all(statement.kinds and statement.source.commit_ts for statement in statements)


# ---------------------------------------------------------------- checksums

CHECKED = captured_files("ticdc/avro.checksum")


@pytest.mark.parametrize("file", CHECKED)
def test_captured_checksums_are_those_of_the_values(file: str) -> None:
    reading = {"integrity-check-level": "correctness", "corruption-handle-level": "error"}
    translator = Translator(AVRO, "ticdc-canal-json", reading)
    for record in captured(file):
        Resolver().translate(translator, record)
    assert Loss.CHECKSUM not in translator.losses
