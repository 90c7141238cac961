"""DDL that is once in one topic and in every partition of another, on a real Apache Kafka: with several
instances, exactly-once, after a restart, and with partitions that are added.
"""

from __future__ import annotations

import asyncio
from collections import Counter
from collections.abc import Sequence
from typing import Any

import msgspec
import pytest
from support import CANAL, OPEN, TICDC, captured

from relay import ConsumerRecord, Translator
from relay.model.events import SchemaChange
from relay.model.records import SOURCE_HEADER
from relay.service.commands.offline import learned_translator

pytestmark = pytest.mark.kafka

PARTITIONS = 3
EXACTLY_ONCE = {"delivery_mode": "exactly-once", "delivery_transaction_interval_seconds": 0.05}
ROUTES = [
    (TICDC, OPEN, range(PARTITIONS)),
    (OPEN, CANAL, range(1)),
    (OPEN, "ticdc-debezium", range(PARTITIONS)),
]


def capture(protocol: str) -> list[ConsumerRecord]:
    records = captured(f"ticdc/{protocol.removeprefix('ticdc-')}.3-partitions/10_ddl")
    return [msgspec.structs.replace(record, timestamp_ms=record.timestamp_ms or 1) for record in records]


def is_ddl(protocol: str, one: ConsumerRecord) -> bool:
    found = Translator(protocol, protocol).inspect(one)
    return any(isinstance(event, SchemaChange) for event in found)


def statements(protocol: str, found: Sequence[ConsumerRecord]) -> dict[int, list[bytes | None]]:
    """The marks of what a topic holds of DDL, by partition, without repeats."""
    marks: dict[int, dict[bytes | None, None]] = {}
    for one in found:
        if is_ddl(protocol, one):
            marks.setdefault(one.partition, {})[dict(one.headers)[SOURCE_HEADER]] = None
    return {partition: list(each) for partition, each in sorted(marks.items())}


def wanted(source: str, records: Sequence[ConsumerRecord], at: Sequence[int]) -> dict[int, int]:
    count = sum(one.partition == 0 and is_ddl(source, one) for one in records)
    assert count > 3
    return dict.fromkeys(at, count)


async def _all_committed(kafka: Any, group: str, count: int) -> bool:
    return bool(sum((await kafka.committed(group)).values()) == count)


@pytest.mark.parametrize("mode", [{}, EXACTLY_ONCE], ids=["at-least-once", "exactly-once"])
@pytest.mark.parametrize("route", ROUTES)
async def test_two_instances_and_a_restart(
    kafka: Any, make_config: Any, run_relay: Any, route: tuple[str, str, range], mode: dict[str, Any]
) -> None:
    source, target, at = route
    records = capture(source)
    half = len(records) // 2
    topic, written = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    config = make_config(topic, written, route_from=source, route_to=target, **mode)
    configs = [config, config]
    if mode:
        configs = [
            config.model_copy(
                update={"delivery": config.delivery.model_copy(update={"shards": 2, "shard": number})}
            )
            for number in range(2)
        ]
    for part, count in ((records[:half], half), (records[half:], len(records))):
        await kafka.produce(topic, part)
        relays = [run_relay(each, None) for each in configs]
        await kafka.until(lambda count=count: _all_committed(kafka, config.source.group_id, count))
        assert [await relay.stop() for relay in relays] == [0, 0]

    found = statements(target, await kafka.read(written, committed=bool(mode)))
    assert {partition: len(marks) for partition, marks in found.items()} == wanted(source, records, at)


@pytest.mark.parametrize("shards", [1, 2])
async def test_partitions_that_are_added_while_relay_runs(
    kafka: Any, make_config: Any, run_relay: Any, shards: int
) -> None:
    """With two shards, the new partition belongs to the one that has no part in the DDL."""
    records = [one for one in capture(TICDC) if is_ddl(TICDC, one)]
    topic, written = await kafka.topic(1), await kafka.topic(2)
    config = make_config(
        topic,
        written,
        route_from=TICDC,
        route_to=OPEN,
        delivery_shards=shards,
        source_metadata_max_age_ms=300,
        **EXACTLY_ONCE,
    )
    await kafka.produce(topic, records[:2])
    relay = run_relay(config, None)
    await kafka.until(lambda: _all_committed(kafka, config.source.group_id, 2))
    await kafka.add_partitions(topic, 2)
    # The relay without the new partition has nothing to say about it: its client only renews its metadata.
    await asyncio.sleep(2)
    await kafka.produce(topic, records[2:])
    await kafka.until(lambda: _all_committed(kafka, config.source.group_id, len(records)))
    assert await relay.stop() == 0
    found = statements(OPEN, await kafka.read(written, committed=True))
    assert Counter({at: len(marks) for at, marks in found.items()}) == {0: len(records), 1: len(records) - 2}


async def test_single_commands_know_the_partitions_of_the_source(kafka: Any, make_config: Any) -> None:
    """What `relay explain` and a replay of dead letters translate with."""
    topic, written = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    config = make_config(topic, written, route_from=TICDC, route_to=OPEN)
    learned = await learned_translator(config)
    one = next(one for one in capture(TICDC) if is_ddl(TICDC, one))
    made = learned.translator.translate(msgspec.structs.replace(one, topic=topic))
    assert [out.partition for out in made] == list(range(PARTITIONS))
