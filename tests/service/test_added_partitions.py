"""Where partitions without a committed offset begin with `start = "latest"`: those of a first start at their
end, and those that were added to their topic later at their beginning, because nobody has read their records.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

import pytest
from aiokafka import TopicPartition
from service.transport_support import NOW, Route, both_modes, route

from relay.config import Start
from relay.config.kafka import consumer_settings
from relay.io.kafka import reconnecting
from relay.io.kafka.ports import Partition
from relay.io.kafka.source import KafkaSource, ShardSource
from relay.model.records import ConsumerRecord

__all__ = ["route"]
pytestmark = pytest.mark.kafka
#: New partitions are noticed within half a second.
LATEST: Mapping[str, Any] = {
    "source_start": "latest",
    "source_metadata_max_age_ms": 500,
    "target_partitions": 4,
}


async def fill(route: Route, *partitions: int, count: int = 10, text: str = "new") -> None:
    await route.kafka.produce(
        route.source,
        [
            ConsumerRecord("", partition, 0, NOW, None, text.encode())
            for partition in partitions
            for _ in range(count)
        ],
    )


async def add_partitions(route: Route, total: int) -> None:
    """Have more partitions, and records in them at once: relay cannot know them yet."""
    before = len(await route.kafka.partitions(route.source))
    await route.kafka.add_partitions(route.source, total)
    await fill(route, *range(before, total))


def opened(relay: Any) -> dict[str, int]:
    """Where the relay began with each partition, last."""
    return {
        name.rpartition("/")[2]: offset
        for each in relay.log.named("partitions.opened")
        for name, offset in each["offsets"].items()
    }


async def check_new(route: Route, *partitions: int) -> None:
    """Every new record is there, once, and no old one."""
    found = await route.written()
    assert {record.value for record in found} == {b"new"}
    assert [record.partition for record in found] == [
        partition for partition in partitions for _ in range(10)
    ]


@both_modes
async def test_added_while_running(route: Route, mode: str) -> None:
    await route.lay(mode, **LATEST)
    await fill(route, 0, 1, text="old")
    relay = route.start()
    await route.until_committed(20, relay)
    await add_partitions(route, 4)
    await route.until_committed(40, relay)
    assert await relay.stop() == 0
    assert opened(relay) == {"0": 10, "1": 10, "2": 0, "3": 0}
    await check_new(route, 2, 3)


@both_modes
async def test_added_while_stopped(route: Route, mode: str) -> None:
    await route.lay(mode, **LATEST)
    await fill(route, 0, 1, text="old")
    relay = route.start()
    await route.until_committed(20, relay)
    assert await relay.stop() == 0
    await add_partitions(route, 4)
    relay = route.start()
    await route.until_committed(40, relay)
    assert await relay.stop() == 0
    assert opened(relay) == {"0": 10, "1": 10, "2": 0, "3": 0}
    await check_new(route, 2, 3)


@pytest.mark.parametrize("is_running", [True, False], ids=["running", "stopped"])
async def test_added_for_two_members(route: Route, is_running: bool) -> None:
    """One of them has no partition before."""
    await route.lay(partitions=1, **LATEST)
    await fill(route, 0, text="old")
    relays = [route.start(), route.start()]
    for relay in relays:
        await route.until_logged(relay, "partitions.assigned")
    await route.until_committed(10, *relays)
    if not is_running:
        assert [await relay.stop() for relay in relays] == [0, 0]
    await add_partitions(route, 4)
    if not is_running:
        relays = [route.start(), route.start()]
    await route.until_committed(40, *relays)
    assert [await relay.stop() for relay in relays] == [0, 0]
    await check_new(route, 1, 2, 3)


def shard(route: Route, number: int, shards: int = 2) -> Any:
    delivery = route.config.delivery.model_copy(update={"shards": shards, "shard": number})
    return route.run_relay(route.config.model_copy(update={"delivery": delivery}), route.translator)


async def test_added_for_two_shards(route: Route) -> None:
    """Also for the one that had none, because it was running."""
    await route.lay("exactly-once", partitions=1, **LATEST)
    await fill(route, 0, text="old")
    relays = [shard(route, 0), shard(route, 1)]
    await route.until_committed(10, *relays)
    await route.until_logged(relays[1], "partitions.assigned")
    await add_partitions(route, 4)
    await route.until_committed(40, *relays)
    assert [await relay.stop() for relay in relays] == [0, 0]
    await check_new(route, 1, 2, 3)


async def test_the_first_start_of_a_second_shard_begins_at_the_end(
    route: Route, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Also if brokers do not answer its first requests for metadata."""
    await route.lay("exactly-once", **LATEST)
    await fill(route, 0, 1, text="old")
    first = shard(route, 0)
    await route.until_committed(10, first)
    await fill(route, 0)
    await route.until_committed(20, first)
    ask, unanswered = reconnecting.Connector.update_metadata, 2

    async def failing(client: Any, cluster: Any, topics: Any) -> bool:
        nonlocal unanswered
        if topics and unanswered:
            unanswered -= 1
            return False
        answered: bool = await ask(client, cluster, topics)
        return answered

    with monkeypatch.context() as patch:
        patch.setattr(reconnecting.Connector, "update_metadata", failing)
        second = shard(route, 1)
        await route.until_logged(second, "partitions.assigned")
    assert not unanswered
    await route.until_committed(30, first, second)
    assert [await relay.stop() for relay in (first, second)] == [0, 0]
    assert opened(second) == {"1": 10}
    await check_new(route, 0)


async def test_the_first_start_of_two_members_begins_at_the_end(route: Route) -> None:
    await route.lay(partitions=4, **LATEST)
    await fill(route, 0, 1, 2, 3, text="old")
    relays = [route.start(), route.start()]
    await route.until_committed(40, *relays)
    await fill(route, 0, 1, 2, 3)
    await route.until_committed(80, *relays)
    assert [await relay.stop() for relay in relays] == [0, 0]
    await check_new(route, 0, 1, 2, 3)


@both_modes
async def test_named_offsets_count_for_added_partitions_too(route: Route, mode: str) -> None:
    await route.lay(mode, partitions=1, target_partitions=4)
    await fill(route, 0, text="old")
    relay = route.start()
    await route.until_committed(10, relay)
    assert await relay.stop() == 0
    await add_partitions(route, 2)
    relay = route.start(start=Start.OFFSETS, start_offsets={f"{route.source}/1": 4})
    await route.until_committed(20, relay)
    assert await relay.stop() == 0
    assert opened(relay) == {"0": 10, "1": 4}


# Partitions of this instance, those with a committed offset, how many there were at its start; which of this
# instance's were added.
MEMBERS: list[tuple[set[int], set[int], int, set[int]]] = [
    ({0, 1}, set(), 2, set()),
    ({0, 1, 2, 3}, {0, 1}, 4, {2, 3}),
    ({0, 1, 2, 3}, {0, 1}, 2, {2, 3}),
    ({1, 3}, {0, 1}, 4, {3}),
    ({1, 3}, {0, 1, 2}, 4, {3}),
    ({1, 3}, {0}, 4, {1, 3}),
    ({1, 3}, {0, 2}, 4, {1, 3}),
    ({2, 3}, {0}, 4, set()),
    ({2}, {0}, 2, {2}),
    ({0}, {1}, 2, set()),
]
SHARDS: list[tuple[set[int], set[int], int, set[int]]] = [
    ({0, 2}, set(), 4, set()),
    ({1, 3}, {0, 2}, 4, set()),
    ({1, 3}, {0, 1, 2}, 4, {3}),
    ({1, 3}, {0, 2}, 1, {1, 3}),
    ({1, 3}, {0}, 3, {3}),
]


@pytest.mark.parametrize(
    ("kind", "case"), [(KafkaSource, each) for each in MEMBERS] + [(ShardSource, each) for each in SHARDS]
)
async def test_which_ones_were_added(
    make_config: Any,
    monkeypatch: pytest.MonkeyPatch,
    kind: type[KafkaSource],
    case: tuple[set[int], set[int], int, set[int]],
) -> None:
    ours, committed, at_start, added = case

    async def no_commits(_: object, __: str, asked: Iterable[Partition]) -> dict[Partition, int]:
        return {partition: 1 for partition in asked if partition.partition in committed}

    monkeypatch.setattr("relay.io.kafka.source.committed_offsets", no_commits)
    source = kind(consumer_settings(make_config("t", "out")))
    source.partitions_at_start = {"t": at_start}
    fresh = [TopicPartition("t", number) for number in ours - committed]
    # Another topic, which was read before, says nothing about this one.
    known = {Partition("t", number) for number in ours & committed} | {Partition("other", 0)}
    found = await source.added_partitions(fresh, known)
    await source.stop()
    assert found == {TopicPartition("t", number) for number in added}
