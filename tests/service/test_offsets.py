"""`relay offsets` on a real Apache Kafka, for groups, exactly-once shards and the progress topic."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest
from aiokafka import AIOKafkaProducer
from service.offsets_support import NOW, Route

from relay.io.kafka.ports import Partition
from relay.model.errors import RelayRunning
from relay.service.commands.offsets import open_route_offsets
from relay.service.loop.settings import LoopSettings

pytestmark = pytest.mark.kafka

ONCE = {"mode": "exactly-once", "transaction_interval_seconds": 0.05}


@pytest.fixture
def route(kafka: Any, run_relay: Any, echo: Any, tmp_path: Path) -> Route:
    return Route(kafka, run_relay, echo, tmp_path)


def between_clusters(route: Route) -> dict[str, dict[str, Any]]:
    """Tables for exactly-once with a progress topic: two names of one broker are two clusters to relay."""
    other = route.kafka.bootstrap_servers.replace("127.0.0.1", "localhost")
    return {
        "delivery": ONCE | {"progress_topic": f"p-{route.group}"},
        "target": {"topic": route.target, "bootstrap_servers": other},
    }


async def lay(route: Route, mode: str) -> None:
    """Lay a route of this mode."""
    await route.lay()
    if mode == "exactly-once":
        route.configure(delivery=ONCE)
    elif mode == "progress topic":
        route.configure(**between_clusters(route))


modes = pytest.mark.parametrize("mode", ["at-least-once", "exactly-once", "progress topic"])


# ---------------------------------------------------------------- show


@modes
async def test_committed_offsets_are_shown(route: Route, mode: str) -> None:
    await lay(route, mode)
    await route.produce(20)
    shards = {} if mode == "at-least-once" else {"shard": 0}
    common = {
        "topic": route.source,
        "log_start": 0,
        "log_end": 10,
        "deleted": None,
        "recreated": False,
    } | shards
    assert await route.shown() == [
        common | {"partition": number, "committed": None, "next": 0, "lag": 10} for number in (0, 1)
    ]
    await route.relayed(20)
    await route.produce(6, start=20)
    assert await route.shown() == [
        common | {"partition": number, "committed": 10, "next": 10, "log_end": 13, "lag": 3}
        for number in (0, 1)
    ]
    result = await route.call("show")
    heading, first, _ = result.stdout.splitlines()
    assert heading.split()[:6] == ["partition", "committed", "next", "log_start", "log_end", "lag"]
    assert first.split()[:6] == [f"{route.source}/0", "10", "10", "0", "13", "3"]
    kept = f"progress topic p-{route.group}" if mode == "progress topic" else f"consumer group {route.group}"
    assert f"offsets are in {kept}" in result.stderr
    assert "partitions without a committed offset begin at start = earliest" in result.stderr


async def test_members_are_shown(route: Route) -> None:
    await route.lay()
    await route.produce(2)
    relay = route.start()
    await route.reach(2)
    assert f"group {route.group} has 1 active member" in (await route.call("show")).stderr
    assert await relay.stop() == 0
    assert "active member" not in (await route.call("show")).stderr


async def test_a_partition_begins_where_start_says(route: Route) -> None:
    await route.lay(source={"start": "offsets", "start_offsets": {}})
    await route.produce(20)
    settings = {"start": "offsets", "start_offsets": {f"{route.source}/1": 7}}
    usual = {"bootstrap_servers": route.kafka.bootstrap_servers, "topics": [route.source]}
    route.configure(source=usual | settings)
    assert [each["next"] for each in await route.shown()] == [0, 7]
    route.configure(source=usual | {"start": "latest"})
    assert [each["next"] for each in await route.shown()] == [10, 10]
    # A partition that was added after the first start is read from its beginning.
    assert (await route.call("seek", "--to-offset", "0/4", "--execute")).exit_code == 0
    assert [each["next"] for each in await route.shown()] == [4, 0]
    settings = {"start": "offsets", "start_offsets": {f"{route.source}/1": 11}}
    route.configure(source=usual | settings)
    result = await route.call("show", "--json")
    assert '"next":null' in result.stdout
    assert f'start_offsets."{route.source}/1": is 11' in result.stderr


async def test_a_missing_source_topic(route: Route) -> None:
    await route.lay()
    route.source = "missing-topic"
    route.configure()
    result = await route.call("show")
    assert result.exit_code == 3
    assert "topic missing-topic does not exist" in result.stderr


# ---------------------------------------------------------------- seek


@modes
async def test_a_dry_run_changes_nothing(route: Route, mode: str) -> None:
    await lay(route, mode)
    await route.produce(20)
    await route.relayed(20)
    result = await route.call("seek", "--to-offset", f"{route.source}/0/4", "--dry-run")
    assert result.exit_code == 0
    assert "dry run: nothing was changed; add --execute to store the new offsets" in result.stderr
    heading, row = result.stdout.splitlines()
    assert heading.split() == ["partition", "committed", "to", "effect"]
    assert row.split()[:3] == [f"{route.source}/0", "10", "4"]
    assert row.endswith("repeats at most 6 records, offsets 4 to 9")
    assert "written to the target a second time, with the same relay.source header" in result.stderr
    assert ("exactly-once does not prevent these repeats" in result.stderr) is (mode != "at-least-once")
    assert ("records after the committed offsets are in the target already" in result.stderr) is (
        mode == "at-least-once"
    )
    assert await route.committed() == [10, 10]


@modes
async def test_records_after_the_new_offset_are_repeated(route: Route, mode: str) -> None:
    await lay(route, mode)
    await route.produce(20)
    await route.relayed(20)
    result = await route.call("seek", "--to-offset", "0/7", "--to-offset", "1/10", "--execute", "--watch", 1)
    assert result.exit_code == 0, result.stderr
    assert "committed offsets of 1 partition changed" in result.stderr
    assert await route.committed() == [7, 10]
    await route.relayed(20)
    # In order: the copies are after the first ones.
    assert await route.marks() == [
        *route.marks_of(0, range(10)),
        *route.marks_of(0, range(7, 10)),
        *route.marks_of(1, range(10)),
    ]


@modes
async def test_records_before_the_new_offset_are_skipped(route: Route, mode: str) -> None:
    await lay(route, mode)
    await route.produce(10)
    await route.relayed(10)
    await route.produce(10, start=10)
    (_, other) = await route.objects("seek", "--to-latest")
    assert other | {"topic": ""} == {
        "topic": "",
        "partition": 1,
        "committed": 5,
        "to": 10,
        "effect_known": True,
        "repeated": None,
        "added": None,
        "skipped": {"first": 5, "last": 9, "offsets": 5, "records": None},
        "deleted": None,
    }
    result = await route.call("seek", "--to-latest", "--execute", "--watch", 1)
    assert result.exit_code == 0, result.stderr
    assert "skips at most 5 records, offsets 5 to 9" in result.stdout
    assert "relay does not apply their DDL" in result.stderr
    await route.produce(2, start=20)
    await route.relayed(22)
    assert await route.marks() == [
        *route.marks_of(0, [*range(5), 10]),
        *route.marks_of(1, [*range(5), 10]),
    ]


async def test_times_and_commit_timestamps(route: Route) -> None:
    await route.lay()
    await route.produce(20)
    await route.relayed(20)
    # Record 11 is in partition 1, at offset 5; the next one is in partition 0, at offset 6.
    found = await route.objects("seek", "--to-time", "2023-11-14T22:13:20.011Z")
    assert [(each["committed"], each["to"]) for each in found] == [(10, 6), (10, 5)]
    result = await route.call("seek", "--to-time", "1s", "--partition", "1")
    assert "no change" in result.stdout
    assert "nothing to change" in result.stderr
    margin_ms = 10 * 60 * 1000
    commit_ts = (NOW + 11 + margin_ms) << 18
    result = await route.call("seek", "--to-commit-ts", commit_ts)
    assert [row.split()[1:3] for row in result.stdout.splitlines()[1:]] == [["10", "6"], ["10", "5"]]
    assert "records before the commit ts are repeated, too" in result.stderr
    found = await route.objects("seek", "--to-commit-ts", (NOW + 10 * margin_ms) << 18)
    assert [each["to"] for each in found] == [0, 0]


async def test_the_records_are_counted(route: Route) -> None:
    """Transaction markers have offsets, too, and aborted records are not relayed."""
    await route.lay(partitions=1)
    servers = route.kafka.bootstrap_servers
    async with AIOKafkaProducer(bootstrap_servers=servers, transactional_id=f"id-{route.group}") as producer:
        for number in range(3):
            async with producer.transaction():
                await producer.send_and_wait(route.source, b"%d" % number, partition=0)
        await producer.begin_transaction()
        await producer.send_and_wait(route.source, b"aborted", partition=0)
        await producer.abort_transaction()
    await route.kafka.until(lambda: route.kafka.has_no_open_transaction(route.source))
    await route.relayed(8)
    (found,) = await route.objects("seek", "--to-offset", "0/2")
    assert found["repeated"] == {"first": 2, "last": 7, "offsets": 6, "records": None}
    (found,) = await route.objects("seek", "--to-offset", "0/2", "--count")
    assert found["repeated"] == {"first": 2, "last": 7, "offsets": 6, "records": 2}
    result = await route.call("seek", "--to-offset", "0/2", "--count")
    assert "repeats 2 records, offsets 2 to 7" in result.stdout
    assert "unknown: the exact number" not in result.stderr
    assert "unknown: the exact number" in (await route.call("seek", "--to-offset", "0/2")).stderr


async def test_deleted_records_are_named(route: Route) -> None:
    await route.lay()
    await route.produce(20)
    assert (await route.call("seek", "--to-offset", "0/2", "--execute")).exit_code == 0
    await route.kafka.delete_before(route.source, 5)
    assert (await route.shown())[0] == {
        "topic": route.source,
        "partition": 0,
        "committed": 2,
        "next": None,
        "log_start": 5,
        "log_end": 10,
        "lag": 5,
        "deleted": {"first": 2, "last": 4, "offsets": 3, "records": None},
        "recreated": False,
    }
    assert (
        "offsets 2 to 4 were deleted by retention before relay read them; relay refuses to start "
        "(service.records-gone): seek --to-earliest accepts the gap"
    ) in (await route.call("show")).stdout
    relay = route.start()
    assert await relay.ended() == 3
    assert relay.log.named("relay.failed")[0]["code"] == "service.records-gone"
    result = await route.call("seek", "--to-earliest", "--partition", f"{route.source}/0", "--execute")
    assert result.stdout.splitlines()[1].split() == (
        f"{route.source}/0 2 5 passes over offsets 2 to 4, deleted by retention".split()
    )
    assert "records that retention has deleted can be neither repeated nor relayed" in result.stderr
    assert await route.committed() == [5, None]
    refused = await route.call("seek", "--to-offset", "0/4")
    assert refused.exit_code == 2
    assert f"{route.source}/0 has the offsets 5 to 10 (the next one), not 4" in refused.stderr
    assert "use an offset in this range, --to-earliest or --to-latest" in refused.stderr


async def test_a_recreated_topic(route: Route) -> None:
    await route.lay(partitions=1)
    await route.kafka.produce(route.source, [])
    async with open_route_offsets(route.config) as offsets:
        # As of a topic of the same name that was longer.
        await offsets.commit({Partition(route.source, 0): 100})
    assert "the topic was recreated" in (await route.call("show")).stdout
    (found,) = await route.objects("seek", "--to-earliest")
    assert (found["effect_known"], found["repeated"], found["skipped"]) == (False, None, None)
    result = await route.call("seek", "--to-earliest", "--execute")
    assert "unknown: the committed offset 100 is above the end 0: the topic was recreated" in result.stdout
    assert await route.committed() == [0]


async def test_partitions_without_a_committed_offset(route: Route) -> None:
    await route.lay()
    await route.produce(20)
    usual = {"bootstrap_servers": route.kafka.bootstrap_servers, "topics": [route.source]}
    route.configure(source=usual | {"group_id": route.group, "start": "latest"})
    found, _ = await route.objects("seek", "--to-offset", "0/4", "--to-offset", "1/10")
    assert found["added"] == {"first": 4, "last": 9, "offsets": 6, "records": None}
    result = await route.call("seek", "--to-offset", "0/4", "--to-offset", "1/10", "--execute")
    assert "also reads at most 6 records, offsets 4 to 9" in result.stdout
    assert "stores the offset at which relay would start anyway" in result.stdout
    assert "a second time" not in result.stderr
    assert await route.committed() == [4, 10]


async def test_a_start_that_yields_no_offset(route: Route) -> None:
    await route.lay(partitions=1)
    await route.produce(1)
    usual = {"bootstrap_servers": route.kafka.bootstrap_servers, "topics": [route.source]}
    start = {"start": "offsets", "start_offsets": {f"{route.source}/0": 11}}
    route.configure(source=usual | {"group_id": route.group} | start)
    result = await route.call("seek", "--to-earliest")
    assert f'unknown: source.start_offsets."{route.source}/0": is 11' in result.stdout
    assert "no committed offset" not in result.stdout


# ---------------------------------------------------------------- reset


async def test_reset_goes_to_start(route: Route) -> None:
    await route.lay()
    await route.produce(20)
    await route.relayed(20)
    usual = {"bootstrap_servers": route.kafka.bootstrap_servers, "topics": [route.source]}
    start = {"start": "offsets", "start_offsets": {f"{route.source}/1": 7}}
    route.configure(source=usual | {"group_id": route.group} | start)
    found = await route.objects("reset")
    assert [(each["to"], each["repeated"]["offsets"]) for each in found] == [(0, 10), (7, 3)]
    result = await route.call("reset", "--execute", "--partition", "1")
    assert "committed offsets of 1 partition changed to start = offsets" in result.stderr
    assert await route.committed() == [10, 7]


# ---------------------------------------------------------------- running instances


async def test_a_group_with_members_is_left_alone(route: Route) -> None:
    await route.lay()
    await route.produce(20)
    relay = route.start()
    await route.reach(20)
    dry = await route.call("seek", "--to-earliest")
    assert dry.exit_code == 0
    assert f"--execute would be refused: group {route.group} has 1 active member" in dry.stderr
    result = await route.call("seek", "--to-earliest", "--execute")
    assert result.exit_code == 3
    assert f"group {route.group} has 1 active member; stop all instances first; nothing was changed" in (
        result.stderr
    )
    # Also an instance that has joined since is safe: the brokers refuse the commit.
    async with open_route_offsets(route.config) as offsets:
        with pytest.raises(RelayRunning, match="the brokers refuse the offsets"):
            await offsets.commit({Partition(route.source, 0): 0})
    assert await route.committed() == [10, 10]
    assert await relay.stop() == 0


@pytest.mark.parametrize("mode", ["exactly-once", "progress topic"])
async def test_a_busy_shard_is_noticed(route: Route, mode: str) -> None:
    await lay(route, mode)
    await route.produce(20)
    relay = route.start()
    await route.reach(20)

    enough = asyncio.Event()

    async def write() -> None:
        number = 20
        while not enough.is_set():
            await route.produce(2, start=number)
            number += 2

    writing = asyncio.create_task(write())
    result = await route.call("seek", "--to-earliest", "--execute")
    enough.set()
    await writing
    assert result.exit_code == 3
    assert f"{route.group}-0 has " in result.stderr
    assert "stop all instances first; nothing was changed" in result.stderr
    assert await relay.stop() == 0


async def test_an_idle_shard_is_noticed_when_it_commits_again(route: Route) -> None:
    await lay(route, "exactly-once")
    await route.produce(20)
    relay = route.start(settings=LoopSettings(refresh_seconds=2.0))
    await route.reach(20)
    result = await route.call("seek", "--to-earliest", "--execute")
    assert result.exit_code == 3
    assert "to see whether a shard is running: idle ones commit once a minute" in result.stderr
    assert f"{route.group}-0 has " in result.stderr
    assert await route.committed() == [10, 10]
    assert await relay.stop() == 0


@pytest.mark.parametrize("mode", ["exactly-once", "progress topic"])
async def test_an_idle_shard_is_fenced(route: Route, mode: str) -> None:
    """Without a watch it goes unnoticed, and yet it cannot undo the change."""
    await lay(route, mode)
    await route.produce(20)
    relay = route.start()
    await route.reach(20)
    await route.kafka.until(lambda: route.kafka.has_no_open_transaction(route.target))
    result = await route.call("seek", "--to-offset", "0/7", "--execute", "--watch", 0)
    assert result.exit_code == 0, result.stderr
    assert "it ends with service.fenced, and its restart begins at the new offsets" in result.stderr
    await route.produce(2, start=20)
    assert await relay.ended() == 3
    assert relay.log.named("relay.failed")[0]["code"] == "service.fenced"
    assert await route.committed() == [7, 10]
    await route.relayed(22)
    assert await route.marks() == [
        *route.marks_of(0, [*range(10), *range(7, 11)]),
        *route.marks_of(1, range(11)),
    ]


@pytest.mark.parametrize("mode", ["exactly-once", "progress topic"])
async def test_each_shard_has_its_offsets(route: Route, mode: str) -> None:
    await lay(route, mode)
    tables = between_clusters(route) if mode == "progress topic" else {"delivery": ONCE}
    route.configure(**tables | {"delivery": dict(tables["delivery"]) | {"shards": 2}})
    await route.produce(20)
    assert [each["shard"] for each in await route.shown()] == [0, 1]
    result = await route.call("seek", "--to-offset", "0/4", "--to-offset", "1/6", "--execute")
    assert result.exit_code == 0, result.stderr
    assert await route.committed() == [4, 6]
    first, second = route.start(shard=0), route.start(shard=1)
    await route.reach(20)
    assert [await first.stop(), await second.stop()] == [0, 0]
    assert await route.marks() == [*route.marks_of(0, range(4, 10)), *route.marks_of(1, range(6, 10))]


# ---------------------------------------------------------------- wrong arguments


@pytest.mark.parametrize(
    ("arguments", "problem"),
    [
        ((), "target: give exactly one (--to-offset, "),
        (("--to-earliest", "--to-latest"), "target: give exactly one (--to-offset, "),
        (("--to-offset", "x"), "--to-offset: 'x' is not a position"),
        (("--to-offset", "0/1", "--to-offset", "0/2"), "is given twice"),
        (("--to-offset", "7/1"), "/7 ("),
        (("--to-offset", "other/0/1"), "--to-offset: 'other' is not a source topic of this configuration"),
        (("--to-offset", "0/1", "--partition", "0"), "--partition: has no effect with --to-offset"),
        (("--to-earliest", "--partition", "x"), "--partition: 'x' is not a partition"),
        (("--to-earliest", "--partition", "9"), "the route reads no partition"),
        (("--to-time", "soon"), "--to-time: 'soon' is neither a time nor a duration"),
        (("--to-commit-ts", "0"), "--to-commit-ts"),
    ],
)
async def test_wrong_arguments(route: Route, arguments: tuple[str, ...], problem: str) -> None:
    await route.lay()
    result = await route.call("seek", *arguments)
    assert result.exit_code == 2
    assert problem in result.stderr
