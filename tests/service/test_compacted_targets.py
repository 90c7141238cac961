"""Compacted target topics: which targets fit, and what happens to records without a key. Limits that are
lowered while relay runs are found in the same way.
"""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from config_support import MINIMAL, load, without_variables
from service.conftest import Echo
from service.transport_support import MODES, NOW, Route, both_modes, route

from relay.config import Config
from relay.io.kafka.admin import TopicInfo
from relay.model.events import Event, SchemaChange, Source, TableId
from relay.model.records import ConsumerRecord
from relay.topics.plan import RequiredTopic, Role, problems, warnings

TOPIC = RequiredTopic(name="orders.canal", role=Role.TARGET, partitions=1)
__all__ = ["route"]
FOUND = TopicInfo(1, {"cleanup.policy": "compact"})


def config_of(folder: Path, monkeypatch: pytest.MonkeyPatch, to: str, options: str) -> Config:
    without_variables(monkeypatch)
    text = MINIMAL.replace('to = "canal-json"', f'to = "{to}"\nto_options = {{ {options} }}')
    return load(folder, text)


@pytest.mark.parametrize(
    ("to", "options", "refusal"),
    [
        ("canal-json", "", "canal-json has no keys"),
        ("canal-json", 'key = "primary-key"', "only rows of canal-json have keys"),
        ("canal-json", 'key = "primary-key", ddl = "drop"', ""),
        ("canal-json", 'key = "primary-key", profile = "flink"', ""),
        (
            "ticdc-canal-json",
            'key = "primary-key", ddl = "drop", enable-tidb-extension = true',
            "only rows of ticdc-canal-json have keys",
        ),
        ("ticdc-debezium", 'key = "primary-key"', ""),
    ],
)
def test_rows_may_have_keys_where_the_producer_has_none(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, to: str, options: str, refusal: str
) -> None:
    found = list(problems(TOPIC, FOUND, config_of(tmp_path, monkeypatch, to, options)))
    assert len(found) == bool(refusal)
    assert all(refusal in problem for problem in found)


def test_rows_of_tables_without_a_key_are_warned_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    config = config_of(tmp_path, monkeypatch, "canal-json", 'key = "primary-key", ddl = "drop"')
    first, *_ = warnings(TOPIC, FOUND, {}, config)
    assert "brokers refuse records without a key" in first
    assert "`encode` in [errors]" in first


def with_row_keys(**errors: str) -> dict[str, Any]:
    """Give the settings of a route whose target may be compacted."""
    return {"route_to": "debezium-json", "schema_history_topic": ""} | {
        f"errors_{name}": value for name, value in errors.items()
    }


def some_without_key(count: int, without: set[int]) -> list[ConsumerRecord]:
    return [
        ConsumerRecord("", 0, 0, NOW + i, None if i in without else b"k%d" % i, b"%d" % i)
        for i in range(count)
    ]


class Tables(Echo):
    """Every record is about the table `shop.log`."""

    def inspect(self, record: ConsumerRecord, /) -> list[Event]:
        table = TableId("shop", "log")
        return [SchemaChange("", table, (), "", Source("shop", 0), 0)]

    def learn(self, record: ConsumerRecord, /) -> tuple[TableId, ...]:
        return (TableId("shop", "log"),)


@both_modes
async def test_a_record_without_a_key_has_a_policy(route: Route, mode: str) -> None:
    """It is found before it is sent, in the middle of a batch, too; the records around it are written."""
    await route.lay(mode, partitions=1)
    await route.set_target(cleanup_policy="compact")
    letters = await route.kafka.topic()
    route.config = route.make_config(
        route.source,
        route.target,
        **MODES[mode],
        **with_row_keys(encode="dead-letter", dead_letter_topic=letters),
    )
    route.translator = Tables(route.target)
    await route.kafka.produce(route.source, some_without_key(20, {0, 7, 8, 19}))
    relay = route.start()
    await route.until_committed(20, relay)
    assert await relay.stop() == 0
    assert len(await route.written()) == 16
    found = await route.kafka.read(letters)
    assert [each.value for each in found] == [b"0", b"7", b"8", b"19"]
    said = relay.log.named("record.dead-lettered")[0]
    assert said["code"] == "encode.key-missing"
    assert "shop.log" in said["message"]
    assert route.target in said["message"]


async def test_a_record_without_a_key_ends_relay_where_nothing_else_is_chosen(route: Route) -> None:
    await route.lay(partitions=1)
    await route.set_target(cleanup_policy="compact")
    route.config = route.make_config(route.source, route.target, **with_row_keys())
    route.translator = Tables(route.target)
    await route.kafka.produce(route.source, some_without_key(5, {3}))
    relay = route.start()
    assert await relay.ended() == 2
    (refused,) = relay.log.named("record.refused")
    assert (refused["code"], refused["offset"]) == ("encode.key-missing", 3)
    assert "shop.log" in refused["message"]
    assert await route.kafka.length(route.target) == 3


async def test_a_topic_is_made_compacted_while_relay_runs(route: Route) -> None:
    """The broker refuses what it took before; relay looks at the topic again, and applies the policy."""
    await route.lay(partitions=1)
    route.config = route.make_config(route.source, route.target, **with_row_keys(encode="skip"))
    route.translator = Tables(route.target)
    await route.kafka.produce(route.source, some_without_key(5, {1}))
    relay = route.start()
    await route.until_committed(5, relay)
    await route.set_target(cleanup_policy="compact")
    await route.kafka.produce(route.source, some_without_key(5, {1}))
    await route.until_committed(10, relay)
    assert await relay.stop() == 0
    assert [each["code"] for each in relay.log.named("record.skipped")] == ["encode.key-missing"]
    assert await route.kafka.length(route.target) == 9


@both_modes
async def test_a_limit_that_is_lowered_applies_while_relay_runs(route: Route, mode: str) -> None:
    await route.lay(mode, partitions=1, errors_too_large="skip", target_compression="none")
    route.translator = Tables(route.target)
    route.translator.grow = {b"3": 50_000, b"8": 50_000}
    await route.produce(5, partitions=1)
    relay = route.start()
    await route.until_committed(5, relay)
    await route.set_target(max_message_bytes="20000")
    await route.produce(5, start=5, partitions=1)
    await route.until_committed(10, relay)
    assert await relay.stop() == 0
    values = [each.value for each in await route.written()]
    assert values == [b"0", b"1", b"2", b"x" * 50_000, b"4", b"5", b"6", b"7", b"9"]


async def test_a_limit_that_is_raised_applies_while_relay_runs(route: Route) -> None:
    """The topic is examined again before a record is given up, which no later start would bring back."""
    await route.lay(partitions=1, errors_too_large="skip", target_compression="none")
    await route.set_target(max_message_bytes="20000")
    route.translator = Tables(route.target)
    route.translator.grow = {b"3": 50_000, b"8": 50_000}
    await route.produce(5, partitions=1)
    relay = route.start()
    await route.until_committed(5, relay)
    assert len(relay.log.named("record.skipped")) == 1
    await route.set_target(max_message_bytes="1000000")
    await asyncio.sleep(5.5)
    await route.produce(5, start=5, partitions=1)
    await route.until_committed(10, relay)
    assert await relay.stop() == 0
    values = [each.value for each in await route.written()]
    assert values == [b"0", b"1", b"2", b"4", b"5", b"6", b"7", b"x" * 50_000, b"9"]
