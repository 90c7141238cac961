"""The same rows from other protocols become the Avro that TiCDC wrote of them: schemas and values."""

from __future__ import annotations

import io
import json
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import cache
from typing import Any, NamedTuple

import fastavro
import pytest
from codecs_ticdc_avro import parts
from fake_registry import MemoryRegistry
from support import captured, captured_files
from toy_protocol.registry import schema_by_id

from relay import ConsumerRecord, RelayError, Resolver, Translator
from relay.model.lookups import SchemaById

WATERMARK = "m"
EXTENSION = {"enable-tidb-extension": "true", "avro-enable-watermark": "true"}
#: The variants of each target, and TiCDC's options.
TARGETS = {
    "avro": ("ticdc-avro", {}),
    "avro.tidb-extension": ("ticdc-avro", EXTENSION),
    "avro.string-modes": (
        "ticdc-avro",
        {
            "enable-tidb-extension": "true",
            "avro-decimal-handling-mode": "string",
            "avro-bigint-unsigned-handling-mode": "string",
        },
    ),
    "avro.include-before": (
        "ticdc-avro",
        {"enable-tidb-extension": "true", "avro-include-before-value": "true"},
    ),
    "debezium-avro": ("ticdc-debezium-avro", {}),
    "debezium-avro.tidb-extension": (
        "ticdc-debezium-avro",
        EXTENSION | {"avro-bigint-unsigned-handling-mode": "string"},
    ),
}
#: TiCDC's other formats of the same run that have whole rows and the commit ts.
SOURCES = {
    "canal-json.tidb-extension": "ticdc-canal-json",
    "open-protocol": "ticdc-open-protocol",
    "simple.json": "ticdc-simple-json",
}
PAIRS = [
    (source, file)
    for variant in TARGETS
    for file in captured_files(f"ticdc/{variant}")
    for source in SOURCES
    if file.replace(f"ticdc/{variant}/", f"ticdc/{source}/") in captured_files(f"ticdc/{source}")
]


class Row(NamedTuple):
    """A record of a row: what finds it again in another stream, and each part as (schema, value)."""

    identity: tuple[Any, ...]
    key: Any
    value: Any


def rows(protocol: str, records: list[ConsumerRecord], text_of: Callable[[int | str], str]) -> Iterator[Row]:
    """The records of rows that say when they were committed, which the deleted ones of ticdc-avro do not."""
    for record in records:
        key, value = (decoded(part) for part in parts(protocol, record, text_of))
        if isinstance(value, tuple) and (commit_ts := _commit_ts(protocol, value[1])):
            name = value[0].get("namespace"), value[0]["name"]
            yield Row((*name, json.dumps(key and key[1], default=str), commit_ts), key, value)


def _commit_ts(protocol: str, value: Any) -> int | None:
    if protocol == "ticdc-avro":
        commit_ts: int = value.get("_tidb_commit_ts", 1)
        return commit_ts
    return value["source"]["commit_ts"] if value.get("op", WATERMARK) != WATERMARK else None


def decoded(part: Any) -> Any:
    """A part in Avro as its schema's document and its value; others as they are."""
    if not isinstance(part, tuple):
        return part
    text, body = part
    return json.loads(text), without_build_time(fastavro.schemaless_reader(io.BytesIO(body), parsed(text)))


@cache
def parsed(text: str) -> Any:
    return fastavro.parse_schema(json.loads(text))


def without_build_time(value: Any) -> Any:
    """A value without the time when its message was made, which is each encoder's own."""
    return {name: each for name, each in value.items() if name != "ts_ms"} if "op" in value else value


@cache
def given(variant: str, file: str) -> list[Row]:
    records = captured(f"ticdc/{variant}/{file}")
    return list(rows(TARGETS[variant][0], records, lambda id: schema_by_id(SchemaById("source", id)).text))


def made(source: str, variant: str, file: str) -> dict[tuple[Any, ...], list[Row]]:
    """What relay writes of a source's records, by identity. TiCDC refuses what relay refuses."""
    protocol, options = TARGETS[variant]
    registry = MemoryRegistry()
    translator = Translator(SOURCES[source], protocol, None, options)
    resolver = Resolver(registries={"target": registry})
    outs = []
    for record in captured(f"ticdc/{source}/{file}"):
        try:
            outs += resolver.translate(translator, record)
        except RelayError:
            continue
    written = [ConsumerRecord(out.topic, 0, 0, 0, out.key, out.value) for out in outs]
    found = defaultdict(list)
    for row in rows(protocol, written, lambda id: registry.schema(id).text):
        found[row.identity].append(row)
    return found


@pytest.mark.parametrize(("source", "file"), PAIRS)
def test_rows_of_other_protocols_have_the_schemas_and_values_of_ticdc(source: str, file: str) -> None:
    _, variant, name = file.split("/")
    found = made(source, variant, name)
    expected = given(variant, name)
    for row in expected:
        same = found[row.identity].pop(0)
        assert same.key == row.key
        assert same.value[0] == row.value[0]
        assert list(differences(row.value[1], same.value[1])) == []
    assert len(expected) > 3


def differences(one: Any, other: Any, path: str = "") -> Iterator[str]:
    """Where two values differ, but for FLOAT(M,D): TiCDC widens its 32 bits to a double of more digits."""
    if isinstance(one, dict) and isinstance(other, dict):
        for name in {**one, **other}:
            yield from differences(one.get(name, ...), other.get(name, ...), f"{path}/{name}")
    elif one != other and not (path.endswith("/f52") and one == pytest.approx(other, rel=1e-6)):
        yield path
