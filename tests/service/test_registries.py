"""Schemas of a registry in the service's loop: waited for, tried again, and what becomes of those that are not
there.
"""

from __future__ import annotations

import asyncio
import threading
from typing import Any

import pytest
from fake_registry import FakeRegistry, later, serving
from service.test_history import Topic, as_read, reading
from support import captured

from relay import TableId, Translator
from relay.io.logs import Log
from relay.io.registry import RegistrySettings, SchemaRegistry
from relay.io.resolver import Resolver
from relay.model.errors import RegistryUnavailable, SchemaMissing, SchemaRefused
from relay.model.lookups import Need
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.history import apply_records, history_record
from relay.service.loop.settings import DEFAULT_SETTINGS

FILE = "mysql/debezium.avro/01_all_types"


WAITS = DEFAULT_SETTINGS.retry_seconds


def resolver(url: str) -> Resolver:
    registry = SchemaRegistry(RegistrySettings(table="t", urls=(url,)), retries=0)
    return Resolver(registries={"source": registry, "target": registry})


async def resolved(
    url: str, translator: Translator, record: ConsumerRecord, log: Log, wait: float = 0.0
) -> list[ProducerRecord] | None:
    """What the loop gets for a record that needs something. `wait`: before each new attempt, in seconds."""
    try:
        return translator.translate(record)
    except Need as need:
        found = AsyncResolver(log, resolver(url), retry_seconds=[wait] * len(WAITS))
        return await found.resolve(need, translator, record, lambda: False)


def to_avro() -> Translator:
    return Translator("canal-json", "debezium-avro")


def statement() -> ConsumerRecord:
    return captured("mysql/canal-json/01_all_types")[0]


async def test_a_registry_that_comes_back_is_asked_again(list_log: Any) -> None:
    with serving(FakeRegistry()) as fake:
        fake.faults = [(503, ""), (500, ""), (429, "")]
        (written,) = await resolved(fake.url, to_avro(), statement(), list_log) or []
    assert written.value is not None
    assert list(fake.subjects) == ["canal-key", "canal-value"]


async def test_a_registry_that_stays_away_ends_relay(list_log: Any) -> None:
    with pytest.raises(RegistryUnavailable):
        await resolved("http://127.0.0.1:9", to_avro(), statement(), list_log)


async def test_what_is_refused_is_not_tried_again(list_log: Any) -> None:
    with serving(FakeRegistry()) as fake:
        fake.faults = [(404, {"error_code": 40401}), (409, {})]
        with pytest.raises(SchemaRefused):
            await resolved(fake.url, to_avro(), statement(), list_log)
        assert len(fake.registrations()) == 1


async def test_an_id_that_nobody_knows_is_tried_six_times(list_log: Any) -> None:
    with serving(FakeRegistry()) as fake:
        translator = Translator("debezium-avro", "canal-json")
        with pytest.raises(SchemaMissing):
            await resolved(fake.url, translator, captured(FILE)[0], list_log, min(WAITS))
        assert len(fake.asked) == 6


@pytest.mark.parametrize(("asked", "waited"), [(3, 3), (3600, 5)])
async def test_a_registry_says_when_the_loop_comes_back(
    list_log: Any, monkeypatch: pytest.MonkeyPatch, asked: int, waited: int
) -> None:
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    monkeypatch.setattr("asyncio.sleep", sleep)
    with serving(FakeRegistry()) as fake:
        fake.faults = [later(asked)]
        assert await resolved(fake.url, to_avro(), statement(), list_log)
    assert slept == [waited]


async def test_the_history_is_learned_with_the_schemas_of_its_records() -> None:
    """A restart knows what DDL in Avro has said."""
    records = [record for record in captured(FILE) if record.topic == "dbzavro"]
    translator = Translator("debezium-avro", "canal-json")
    assert await asyncio.to_thread(apply_records, translator, records, Resolver()) == 0
    assert translator.catalog.newest(TableId("all_types_db", "all_types"))[1] is not None
    without = Translator("debezium-avro", "canal-json")
    assert apply_records(without, records) == len(records)


class Replaced:
    """A translator that can be replaced with a new one, which knows no schema."""

    def __init__(self) -> None:
        self.replace()

    def replace(self) -> None:
        self._translator = Translator("debezium-avro", "canal-json")

    def __getattr__(self, name: str) -> Any:
        return getattr(self._translator, name)


class Waiting(Resolver):
    """Answers when the loop has had a turn meanwhile."""

    def __init__(self) -> None:
        super().__init__()
        self.had_a_turn = threading.Event()
        self.fetched: list[Need[Any]] = []

    def fetch(self, need: Need[Any]) -> Any:
        assert self.had_a_turn.wait(5), "the loop stands still"
        self.fetched.append(need)
        return super().fetch(need)


@pytest.mark.parametrize("again", [False, True], ids=["at the start", "after a way back"])
async def test_the_loop_goes_on_while_the_history_waits_for_schemas(list_log: Any, again: bool) -> None:
    records = [record for record in captured(FILE) if record.topic == "dbzavro"]
    translator, waiting, topic = Replaced(), Waiting(), Topic()
    before = translator.state
    schemas = reading(topic, translator, list_log, resolver=waiting)
    topic.coming = [as_read(history_record(record, "history")) for record in records]
    asyncio.get_running_loop().call_later(0.01, waiting.had_a_turn.set)
    await schemas.ready({})
    if again:
        translator.replace()
        assert translator.state == before
        waiting.had_a_turn.clear()
        asyncio.get_running_loop().call_later(0.01, waiting.had_a_turn.set)
        await schemas.rewound({})
    assert waiting.fetched
    assert translator.catalog.newest(TableId("all_types_db", "all_types"))[1] is not None
