"""Templates of messages whose text stands in another form: the same comes out as without them."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
from engine_support import ENGINES, KERNEL
from fake_registry import MemoryRegistry
from reference_engine import Interpreter
from support import captured, captured_files

from relay import CodecError, ConsumerRecord, Need, ProducerRecord, Resolver, Translator
from relay.codecs.shared.avro import Part, framed
from relay.codecs.shared.avro_opening import EngineSchema
from relay.codecs.shared.avro_sealing import EngineSealer
from relay.codecs.shared.caches import CachePool
from relay.model.lookups import RegisteredSchema
from relay.templates.avro_ops import Plain
from relay.templates.engine import Engine

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
    assert templated.translator.losses == plain.translator.losses
    assert templated.translator.events == plain.translator.events
    paths = templated.translator.paths
    assert paths["fast"] > paths["slow"]


def test_the_same_comes_out_where_tables_share_a_topic() -> None:
    test_the_same_comes_out(JSON, AVRO, {"topic": "all"})


@pytest.mark.parametrize("engine", ENGINES)
def test_tables_that_share_a_topic_are_written_by_the_engine_each(engine: type[Engine]) -> None:
    """But for the first message of each."""
    by_codec: list[bytes] = []

    def write(_topic: str, _part: Part, text: bytes) -> bytes:
        by_codec.append(text)
        return _string_of(text)

    def find(_part: Part, text: bytes) -> EngineSchema:
        return EngineSchema(b'["%c",' % text[2], Plain("string"), b"]", 1)

    sealer = EngineSealer(engine, write, find, CachePool(1 << 20))
    texts = [b'["%c","%d"]' % (b"abcde"[at % 5], at) for at in range(10)]
    sealed = [sealer.seal("all", None, text)[1] for text in (*texts, *reversed(texts))]
    assert by_codec == texts[:5]
    for text, data in zip((*texts, *reversed(texts)), sealed, strict=True):
        assert data == _string_of(text)


def _string_of(text: bytes) -> bytes:
    """The Avro of `["t","1"]`, under the number of its table."""
    return b"\0\0\0\0" + text[2:3] + b"\2" + text[6:7]


def test_what_cannot_be_sealed_is_an_error_of_the_pipeline() -> None:
    """A message that fits a template, whose schema no registry takes any more."""
    registry = MemoryRegistry()
    records = _records(JSON, registry)
    translator = Translator(JSON, AVRO, engine=Interpreter)
    resolver = Resolver(registries={"target": registry})
    for record in records * _ROUNDS:
        resolver.translate(translator, record)
    uses = translator.paths["fast"]
    moved = [
        ConsumerRecord("elsewhere", 0, 1_000_000, record.timestamp_ms, record.key, record.value)
        for record in records
        if b'"op":"c"' in (record.value or b"")
    ]
    with pytest.raises(Need):
        translator.translate(moved[-1])
    assert translator.paths["fast"] == uses


_STRING = RegisteredSchema('"string"')


def _named_in_headers(record: ConsumerRecord) -> ConsumerRecord:
    key, value = record.key or b"", record.value or b""
    headers = (("__key_schema_id", key[:5]), ("other", b"1"), ("__value_schema_id", value[:5]))
    return msgspec.structs.replace(record, key=key[5:], value=value[5:], headers=headers)


def _with_key(key: bytes | None) -> Callable[[ConsumerRecord], ConsumerRecord]:
    return lambda record: msgspec.structs.replace(record, key=key)


@pytest.mark.parametrize(
    "changed",
    [
        _named_in_headers,
        *map(_with_key, (None, b"", b"orders", b"{}", b"\1abc", b"\0\0\0\0\1", b"\0\0\0\0\0\2a")),
        lambda record: msgspec.structs.replace(record, headers=(("other", b"1"),)),
        "a key of a primitive type",
    ],
)
def test_keys_and_headers_are_read_as_without_templates(changed: Any) -> None:
    registry = MemoryRegistry()
    records = _records(AVRO, registry)
    if isinstance(changed, str):
        changed = _with_key(framed(registry.id_of("keys", _STRING), b"\2a"))
    routes = [Route(AVRO, JSON, registry, each) for each in (None, KERNEL or Interpreter)]
    for record in records:
        if b"ddl" in (record.value or b""):
            for route in routes:
                route.outcome(record)
    rows = [record for record in records if record.key is not None][-8:]
    for record in [changed(record) for record in rows] * _ROUNDS:
        plain, templated = [route.outcome(record) for route in routes]
        assert plain == templated
    assert routes[0].translator.losses == routes[1].translator.losses


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
