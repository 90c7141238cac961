"""A source that changes under relay: deleted and created anew, shortened by retention, given more partitions."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import Any

import orjson
import pytest
from aiokafka.admin import NewTopic
from aiokafka.consumer.group_coordinator import GroupCoordinator
from aiokafka.errors import GroupLoadInProgressError, NotCoordinatorForGroupError
from aiokafka.protocol.commit import OffsetFetchRequest, OffsetFetchResponse_v3
from service.resilience_support import (
    MODES,
    NOW,
    Echo,
    committed,
    committed_at,
    has_logged,
    numbered,
    offset_of,
    slow_polls,
)

from relay.io.kafka.ports import Partition
from relay.model.records import ConsumerRecord

pytestmark = pytest.mark.kafka
__all__ = ["slow_polls"]


#: New partitions are noticed within half a second.
QUICK_METADATA: Mapping[str, Any] = {"source_metadata_max_age_ms": 500}


async def delete(kafka: Any, topic: str) -> None:
    await kafka.admin.delete_topics([topic])
    await kafka.until(lambda: is_gone(kafka, topic))


async def is_gone(kafka: Any, topic: str) -> bool:
    (found,) = await kafka.admin.describe_topics([topic])
    return bool(found["error_code"])


async def create_again(kafka: Any, topic: str, partitions: int = 2) -> None:
    await kafka.admin.create_topics([NewTopic(topic, partitions, 1, topic_configs={"retention.ms": "-1"})])
    await kafka.until(lambda: kafka.has_leaders(topic, partitions))


@pytest.mark.parametrize("mode", MODES)
async def test_a_topic_that_was_created_anew_while_relay_was_stopped(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    """The brokers forget a group's offsets with the topic, so relay begins as at its first start, whatever
    the new topic holds.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    relay = run_relay(make_config(source, target, **MODES[mode]), Echo(target))
    await kafka.produce(source, numbered(100))
    await committed(kafka, relay, 100)
    assert await relay.stop() == 0
    await delete(kafka, source)
    await create_again(kafka, source)
    await kafka.produce(source, numbered(300))
    relay = run_relay(relay.config, Echo(target))
    await committed(kafka, relay, 300)
    assert await relay.stop() == 0
    found = await kafka.read(target, committed=True)
    assert len(found) == 400
    for partition in (0, 1):
        offsets = [offset_of(record) for record in found if record.partition == partition]
        assert offsets == [*range(50), *range(150)]


async def test_a_group_goes_on_with_a_topic_that_was_created_anew(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    relay = run_relay(make_config(source, target, **QUICK_METADATA), Echo(target))
    await kafka.produce(source, numbered(100))
    await committed(kafka, relay, 100)
    await delete(kafka, source)
    await kafka.until(lambda: has_logged(relay, "partitions.assigned", partitions=[]))
    await create_again(kafka, source)
    await kafka.produce(source, numbered(50))
    await committed(kafka, relay, 50)
    assert await relay.stop() == 0
    assert len(await kafka.read(target)) == 150


async def test_exactly_once_stops_at_a_topic_that_was_created_anew(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """The shard keeps its partitions and its position; a position that is not there any more ends it. A
    restart goes on.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    relay = run_relay(make_config(source, target, **MODES["exactly-once"]), Echo(target))
    await kafka.produce(source, numbered(100))
    await committed(kafka, relay, 100)
    await delete(kafka, source)
    await create_again(kafka, source)
    assert await relay.ended() == 3
    assert relay.log.named("relay.failed")[0]["code"] == "service.records-gone"
    assert await kafka.committed(relay.config.source.group_id) == {}
    await kafka.produce(source, numbered(50))
    relay = run_relay(relay.config, Echo(target))
    await committed(kafka, relay, 50)
    assert await relay.stop() == 0
    assert len(await kafka.read(target, committed=True)) == 150


@pytest.mark.usefixtures("slow_polls")
@pytest.mark.parametrize("mode", MODES)
async def test_retention_overtakes_a_running_relay(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    await kafka.produce(source, numbered(40_000))
    relay = run_relay(
        make_config(source, target, source_max_partition_fetch_bytes=5_000, **MODES[mode]), Echo(target)
    )
    await kafka.until(lambda: has_read(relay))
    await kafka.delete_before(source, 18_000)
    assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "service.records-gone"
    assert f"{source}/0 at " in failed["message"]
    found = [
        offset_of(record) for record in await kafka.read(target, committed=True) if record.partition == 0
    ]
    # Nothing behind the gap, and everything that is committed is there.
    assert found == list(range(len(found)))
    assert 0 < len(found) < 18_000
    await kafka.until(lambda: committed_at(kafka, relay, 0, len(found)))


async def has_read(relay: Any) -> bool:
    """Whether some of partition 0 was read."""
    progress = relay.status.partitions.get(Partition(relay.config.source.topics[0], 0))
    return bool(progress and progress.position and progress.position > 100)


@pytest.mark.parametrize("start", ["earliest", "latest"])
@pytest.mark.parametrize("mode", MODES)
async def test_a_new_partition_is_read_from_its_beginning(
    kafka: Any, make_config: Any, run_relay: Any, mode: str, start: str
) -> None:
    """Also with start = "latest": what came before relay noticed it is no history but news."""
    source, target = await kafka.topic(2), await kafka.topic(3)
    relay = run_relay(
        make_config(source, target, source_start=start, **MODES[mode], **QUICK_METADATA), Echo(target)
    )
    await kafka.until(lambda: has_logged(relay, "partitions.opened"))
    await kafka.produce(source, numbered(100))
    await committed(kafka, relay, 100)
    await kafka.add_partitions(source, 3)
    await kafka.produce(source, numbered(300, partitions=3))
    await committed(kafka, relay, 400)
    assert await relay.stop() == 0
    found = await kafka.read(target, committed=True)
    assert [offset_of(record) for record in found if record.partition == 2] == list(range(100))
    assert len(found) == 400


@pytest.mark.parametrize("mode", MODES)
async def test_a_target_that_is_too_small_for_a_new_partition(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, **MODES[mode], **QUICK_METADATA)
    relay = run_relay(config, Echo(target))
    await kafka.produce(source, numbered(100))
    await committed(kafka, relay, 100)
    await kafka.add_partitions(source, 3)
    await kafka.produce(source, numbered(3, partitions=3))
    assert await relay.ended() == 3
    (failed,) = relay.log.named("relay.failed")
    assert f"{target}/2 does not exist" in failed["message"]
    # A restart says it before it reads anything, and once the target has grown goes on where it stopped.
    relay = run_relay(config, Echo(target))
    assert await relay.ended() == 3
    assert relay.log.named("relay.failed")[0]["code"] == "service.topic-unusable"
    await kafka.add_partitions(target, 3)
    relay = run_relay(config, Echo(target))
    await committed(kafka, relay, 103)
    assert await relay.stop() == 0
    assert {record.partition for record in await kafka.read(target, committed=True)} == {0, 1, 2}


async def test_a_target_that_was_deleted_and_created_anew(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """It is waited for in both modes. What was written before went with the old topic."""
    relays = {}
    for mode, settings in MODES.items():
        source, target = await kafka.topic(2), await kafka.topic(2)
        relays[mode] = run_relay(
            make_config(source, target, delivery_delivery_timeout_seconds=1.0, **settings), Echo(target)
        )
        await kafka.produce(source, numbered(100))
        await committed(kafka, relays[mode], 100)
        await delete(kafka, target)
        await kafka.produce(source, numbered(200, start=100))
    for relay in relays.values():
        await kafka.until(lambda relay=relay: has_logged(relay, "delivery.failed", retriable=True))
        await create_again(kafka, relay.config.target.topic)
    for relay in relays.values():
        await committed(kafka, relay, 300)
        assert await relay.stop() == 0
        values = {
            int(record.value or b"") for record in await kafka.read(relay.config.target.topic, committed=True)
        }
        assert values == set(range(100, 300))


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("by_table", [False, True])
async def test_a_deleted_target_is_not_created_anew_where_relay_creates_topics(
    kafka: Any, make_config: Any, run_relay: Any, mode: str, by_table: bool
) -> None:
    """An empty topic in its place would hide from everybody that records are gone."""
    source = await kafka.topic(1)
    target = f"{source}.shop.orders" if by_table else f"{source}-out"
    config = make_config(
        source,
        "{topic}.{database}.{table}" if by_table else target,
        target_create_topics=True,
        target_create_settings={"retention.ms": "-1"},
        delivery_delivery_timeout_seconds=1.0,
        **MODES[mode],
    )
    relay = run_relay(config, None if by_table else Echo(target))
    rows = [ConsumerRecord("", 0, 0, NOW, None, row(number)) for number in range(20)]
    await kafka.produce(source, rows[:10])
    await committed(kafka, relay, 10)
    await delete(kafka, target)
    await kafka.produce(source, rows[10:])

    async def is_said() -> bool:
        return any(
            target in each["reason"] and "was deleted while relay was running" in each["reason"]
            for each in relay.log.named("topics.unusable")
        )

    await kafka.until(is_said)
    for _ in range(20):
        await asyncio.sleep(0.1)
        assert await is_gone(kafka, target)
    await create_again(kafka, target, 1)
    await committed(kafka, relay, 20)
    assert await relay.stop() == 0


def row(number: int) -> bytes:
    """Give a message of Canal-JSON."""
    return orjson.dumps(
        {
            "id": 0,
            "database": "shop",
            "table": "orders",
            "pkNames": ["id"],
            "isDdl": False,
            "type": "INSERT",
            "es": NOW,
            "ts": NOW,
            "sql": "",
            "sqlType": {"id": 4},
            "mysqlType": {"id": "int"},
            "old": None,
            "data": [{"id": str(number)}],
        }
    )


@pytest.mark.parametrize("error", [NotCoordinatorForGroupError, GroupLoadInProgressError])
@pytest.mark.parametrize("mode", MODES)
async def test_a_coordinator_that_cannot_tell_offsets_yet_is_asked_again(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch, mode: str, error: type[Any]
) -> None:
    """It answers with an error and no offsets. Taken for a group without offsets, "latest" would leave
    records out.
    """
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, source_start="latest", **MODES[mode])
    relay = run_relay(config, Echo(target))
    await kafka.until(lambda: has_logged(relay, "partitions.opened"))
    await kafka.produce(source, numbered(100))
    await committed(kafka, relay, 100)
    assert await relay.stop() == 0
    await kafka.produce(source, numbered(50, start=100))

    answers, send = 5, GroupCoordinator._send_req

    async def answered(self: GroupCoordinator, request: Any) -> Any:
        nonlocal answers
        if answers and isinstance(request, OffsetFetchRequest):
            answers -= 1
            return OffsetFetchResponse_v3(throttle_time_ms=0, topics=[], error_code=error.errno)
        return await send(self, request)

    monkeypatch.setattr(GroupCoordinator, "_send_req", answered)
    relay = run_relay(config, Echo(target))
    await committed(kafka, relay, 150)
    assert await relay.stop() == 0
    assert answers == 0
    assert len(await kafka.read(target, committed=True)) == 150
