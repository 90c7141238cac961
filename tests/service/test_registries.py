"""Schemas of a registry in the service's loop: waited for, tried again, and what becomes of those that are not
there.
"""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from fake_registry import FakeRegistry, serving
from support import captured

from relay import TableId, Translator
from relay.errors import RegistryUnavailable, SchemaMissing, SchemaRefused
from relay.logs import Log
from relay.needs import Need
from relay.records import ConsumerRecord, ProducerRecord
from relay.registry import RegistrySettings, SchemaRegistry
from relay.resolver import Resolver
from relay.service.loop import async_resolver
from relay.service.loop.async_resolver import AsyncResolver
from relay.service.loop.history import teach

FILE = "mysql/debezium.avro/01_all_types"


@pytest.fixture(autouse=True)
def no_waits(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(async_resolver, "RETRY_SECONDS", (0.0, 0.0, 0.0, 0.0, 0.0))


def resolver(url: str) -> Resolver:
    registry = SchemaRegistry(RegistrySettings(table="t", urls=(url,)), retries=0)
    return Resolver(registries={"source": registry, "target": registry})


async def resolved(
    url: str, translator: Translator, record: ConsumerRecord, log: Log
) -> list[ProducerRecord] | None:
    """What the loop gets for a record that needs something."""
    try:
        return translator.translate(record)
    except Need as need:
        found = AsyncResolver(log, resolver(url))
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
        fake.faults = [(404, {}), (409, {})]
        with pytest.raises(SchemaRefused):
            await resolved(fake.url, to_avro(), statement(), list_log)
        assert len(fake.registrations()) == 1


async def test_an_id_that_nobody_knows_is_tried_six_times(
    list_log: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("relay.registry.client._MISSING_SECONDS", 0.0)
    with serving(FakeRegistry()) as fake:
        translator = Translator("debezium-avro", "canal-json")
        with pytest.raises(SchemaMissing):
            await resolved(fake.url, translator, captured(FILE)[0], list_log)
        assert len(fake.asked) == 6


async def test_the_history_is_learnt_with_the_schemas_of_its_records() -> None:
    """A restart knows what DDL in Avro has said."""
    records = [record for record in captured(FILE) if record.topic == "dbzavro"]
    translator = Translator("debezium-avro", "canal-json")
    assert await asyncio.to_thread(teach, translator, records, Resolver()) == 0
    assert translator.catalog.newest(TableId("all_types_db", "all_types"))[1] is not None
    without = Translator("debezium-avro", "canal-json")
    assert teach(without, records) == len(records)
