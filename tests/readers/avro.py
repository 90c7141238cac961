"""Topics in Avro that relay writes, with their schemas in a real registry."""

from __future__ import annotations

import io
import json
import re
from functools import cache
from typing import Any

import fastavro
from readers.truth import Table
from support import captured, protocol_of, reading_options

from relay import ConsumerRecord, ProducerRecord, Resolver, Translator
from relay.core.selection import Selection, chosen_tables
from relay.io.registry import RegistrySettings, SchemaRegistry

DEBEZIUM_AVRO = "debezium-avro"
#: Debezium leaves a digit after a dot in a schema's name as it is, and Avro 1.12 refuses the schema.
NOT_IN_AVRO = {"Names-Db.1digit", "db.with.dots.t.1"}
_PREFIX_BYTES = 5


class Registry:
    """An Apicurio: `url` is its API that is Confluent's, `own_url` the one of its own converter."""

    def __init__(self, url: str) -> None:
        self.url = url
        self.own_url = url.removesuffix("/apis/ccompat/v7") + "/apis/registry/v2"
        # A busy machine is no failure. Apicurio 3.3.3 loses an answer now and then, and is asked again.
        settings = RegistrySettings(table="target.schema_registry", urls=(url,), timeout_seconds=20)
        client = SchemaRegistry(settings)
        self._resolver = Resolver(registries={"source": client, "target": client})
        self.schema = cache(lambda id: json.loads(client.schema(id).text))
        self._parsed = cache(lambda id: fastavro.parse_schema(self.schema(id)))

    def translated(self, file: str, topic: str, **options: str) -> list[ProducerRecord]:
        """What relay writes for a captured file in `debezium-avro`."""
        selection = Selection(tables=chosen_tables([], ["Names-Db.1digit", "db?with?dots.t.1"]))
        reading = protocol_of(file), DEBEZIUM_AVRO, reading_options(file)
        translator = Translator(*reading, options, topic=topic, selection=selection)
        return [record for each in captured(file) for record in self._resolver.translate(translator, each)]

    def events(self, records: list[ConsumerRecord]) -> list[Any]:
        """What relay reads of records in `debezium-avro`."""
        translator = Translator(DEBEZIUM_AVRO, DEBEZIUM_AVRO)
        return [event for each in records for event in self._resolver.inspect(translator, each)]

    def record_name(self, value: bytes | None) -> str | None:
        """The name of a message's Avro record, without its namespace."""
        if value is None:
            return None
        return str(self.schema(int.from_bytes(value[1:_PREFIX_BYTES], "big"))["name"])

    def owner(self, value: bytes | None) -> tuple[str, str] | None:
        """The table of a row's message; a tombstone names none."""
        if value is None:
            return None
        id = int.from_bytes(value[1:_PREFIX_BYTES], "big")
        message = fastavro.schemaless_reader(io.BytesIO(value[_PREFIX_BYTES:]), self._parsed(id), None)
        assert isinstance(message, dict)
        return message["source"]["db"], message["source"]["table"]


#: Names that `avro` would make equal.
_ESCAPED = "08_names"


def name_options(file: str) -> dict[str, str]:
    """The option with which all columns of a file have names in Avro, each its own."""
    return {"field.name.adjustment.mode": "avro_unicode"} if file.endswith(_ESCAPED) else {}


def with_avro_names(table: Table, file: str) -> Table | None:
    """The table of a file with the names that its columns have in Avro; None if it has none there."""
    if table.id in NOT_IN_AVRO:
        return None
    adjust = _unicode_name if file.endswith(_ESCAPED) else _avro_name
    columns = {adjust(name): kind for name, kind in table.columns.items()}
    assert len(columns) == len(table.columns), f"columns of {table.id} become one"
    return table._replace(columns=columns)


def _avro_name(name: str) -> str:
    adjusted = re.sub(r"[^A-Za-z0-9_]", "_", name)
    return "_" + adjusted if adjusted[0].isdigit() else adjusted


def _unicode_name(name: str) -> str:
    return re.sub(r"[^A-Za-z0-9]|^[0-9]", lambda found: _codes(found[0]), name)


def _codes(character: str) -> str:
    return re.sub("....", r"_u\g<0>", character.encode("utf-16-be").hex())
