"""Templates of messages whose text stands in another form: the same comes out as without them."""

from __future__ import annotations

from typing import Any

import pytest
from engine_support import KERNEL
from fake_registry import MemoryRegistry
from support import captured, captured_files

from relay import CodecError, ConsumerRecord, Need, ProducerRecord, Resolver, Translator
from relay.templates.interpreter import Interpreter

AVRO, JSON = "debezium-avro", "debezium-json"
_NAMES = {"field.name.adjustment.mode": "avro_unicode"}
_FOLDER = "mysql/debezium.no-schema"
_ROUNDS = 3
#: What routes are given besides.
_SETTINGS: tuple[dict[str, Any], ...] = (
    {},
    {"topic": "out.{database}.{table}"},
)


class Route:
    """A translator with a registry of its own."""

    def __init__(self, source: str, target: str, registry: MemoryRegistry, engine: Any, **more: Any) -> None:
        reading = _NAMES if source == AVRO else {}
        self.translator = Translator(source, target, reading, _NAMES, engine=engine, **more)
        self._resolver = Resolver(registries={"source": registry, "target": registry})

    def outcome(self, record: ConsumerRecord) -> list[ProducerRecord] | str:
        try:
            return self._resolver.translate(self.translator, record)
        except (CodecError, Need) as error:
            return repr(error)


def _records(source: str, registry: MemoryRegistry) -> list[ConsumerRecord]:
    """Captured rows in the source's protocol, with the statements before them."""
    given = [record for name in captured_files(_FOLDER) for record in captured(name) if _is_small(name)]
    assert given
    if source == JSON:
        return given
    route = Route(JSON, AVRO, registry, None)
    written = [out for record in given for out in route.outcome(record) if not isinstance(out, str)]
    return [
        ConsumerRecord(out.topic, out.partition, offset, out.timestamp_ms, out.key, out.value, out.headers)
        for offset, out in enumerate(written)
    ]


def _is_small(name: str) -> bool:
    return name.endswith(("01_all_types", "09_dml"))


@pytest.mark.parametrize("settings", _SETTINGS, ids=("plain", "topic by table"))
@pytest.mark.parametrize(("source", "target"), [(JSON, AVRO), (AVRO, JSON), (AVRO, AVRO)])
def test_the_same_comes_out(source: str, target: str, settings: dict[str, Any]) -> None:
    registry = MemoryRegistry()
    records = _records(source, registry)
    plain = Route(source, target, registry, None, **settings)
    templated = Route(source, target, registry, KERNEL or Interpreter, **settings)
    for _ in range(_ROUNDS):
        for record in records:
            assert templated.outcome(record) == plain.outcome(record)
    assert templated.translator.lossy == plain.translator.lossy
    assert templated.translator.events == plain.translator.events
    ways = templated.translator.ways
    assert ways["template"] > ways["straight"]


def test_what_cannot_be_sealed_is_an_error_of_the_straight_line() -> None:
    """A message that fits a template, whose schema no registry takes any more."""
    registry = MemoryRegistry()
    records = _records(JSON, registry)
    translator = Translator(JSON, AVRO, engine=Interpreter)
    resolver = Resolver(registries={"target": registry})
    for record in records * _ROUNDS:
        resolver.translate(translator, record)
    uses = translator.ways["template"]
    moved = [
        ConsumerRecord("elsewhere", 0, 1_000_000, record.timestamp_ms, record.key, record.value)
        for record in records
        if b'"op":"c"' in (record.value or b"")
    ]
    with pytest.raises(Need):
        translator.translate(moved[-1])
    assert translator.ways["template"] == uses


def test_garbage_is_refused_as_without_templates() -> None:
    registry = MemoryRegistry()
    records = _records(AVRO, registry)
    routes = [Route(AVRO, JSON, registry, engine) for engine in (None, Interpreter)]
    for record in records * 2:
        for route in routes:
            route.outcome(record)
    for record in records[::4]:
        value = record.value or b""
        for cut in (value[:-1], value + b"\0", b"\2" + value[1:], value[:5], b"{}", b""):
            damaged = ConsumerRecord(record.topic, 0, record.offset, record.timestamp_ms, record.key, cut)
            plain, templated = [route.outcome(damaged) for route in routes]
            assert plain == templated
