"""Consumer groups that somebody else uses, or that brokers describe in another way than Kafka."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.structs import ConsumerRecord as KafkaRecord
from secured_support import clusters_of
from service.resilience_support import MODES, Echo, committed, has_logged, logged_commit, numbered

from relay.demo.kafka import Cluster
from relay.io.kafka.fetched import relay_records
from relay.service.check import CheckState
from relay.service.check.route import preflight

pytestmark = pytest.mark.kafka


async def test_of_two_instances_with_one_group_instance_id_the_older_one_ends(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """The older one ends, as with one transactional id, and says which key is to blame."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, source_group_instance_id="pod-0", source_session_timeout_ms=6_000)
    older = run_relay(config, Echo(target))
    await kafka.produce(source, numbered(20))
    await committed(kafka, older, 20)
    newer = run_relay(config, Echo(target))
    assert await older.ended() == 3
    (failed,) = older.log.named("relay.failed")
    assert failed["code"] == "service.fenced"
    assert "group_instance_id, 'pod-0'" in failed["message"]
    await kafka.produce(source, numbered(20, start=20))
    await committed(kafka, newer, 40)
    assert await newer.stop() == 0
    assert await kafka.length(target) == 40


async def test_a_static_member_that_restarts_goes_on(kafka: Any, make_config: Any, run_relay: Any) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, source_group_instance_id="pod-0", source_session_timeout_ms=6_000)
    for count in (20, 40):
        relay = run_relay(config, Echo(target))
        await kafka.produce(source, numbered(20, start=count - 20))
        await committed(kafka, relay, count)
        assert await relay.stop() == 0
    assert await kafka.length(target) == 40


async def test_a_group_with_members_of_another_application_is_refused(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source, target, other = await kafka.topic(2), await kafka.topic(2), await kafka.topic(1)
    config = make_config(source, target)
    async with AIOKafkaConsumer(
        other,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=config.source.group_id,
        partition_assignment_strategy=[RangePartitionAssignor],
    ):
        relay = run_relay(config, Echo(target))
        assert await relay.ended() == 2
    (failed,) = relay.log.named("relay.failed")
    assert (
        f"source.group_id: group {config.source.group_id!r} has members of another application"
        in failed["message"]
    )


def test_records_of_message_format_0_have_no_time() -> None:
    fetched = KafkaRecord("t", 0, 7, None, 0, None, b"v", None, 0, 1, ())
    (record,) = relay_records([fetched])
    assert (record.offset, record.timestamp_ms) == (7, -1)


# ---------------------------------------------------------------- the check of a route


async def said_of_group(config: Any) -> list[str]:
    """What the check finds out about the group, with the state of each finding."""
    found = await preflight(config, clusters_of(config))
    subject = f"source group {config.source.group_id}"
    return [f"{each.state}: {each.text}" for each in found if each.subject == subject]


@pytest.mark.parametrize("mode", [*MODES, "progress topic"])
async def test_a_copied_group_has_nothing_left(
    broker: str, kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    settings = dict(MODES["exactly-once" if mode == "progress topic" else mode])
    if mode == "progress topic":
        # Two names of one broker are two clusters as far as relay can tell.
        other = broker.replace("127.0.0.1", "localhost")
        settings |= {"delivery_progress_topic": f"p-{target}", "target_bootstrap_servers": other}
    config = make_config(source, target, **settings)
    await kafka.produce(source, numbered(30))
    nothing_yet = "ok: it has committed no offset yet: reading begins at start = earliest"
    assert nothing_yet in await said_of_group(config)
    relay = run_relay(config, Echo(target))
    await logged_commit(kafka, relay, 30)
    (opened,) = relay.log.named("partitions.opened")
    assert (opened["committed"], opened["left"], opened["records"]) == (0, 30, 30)
    assert await relay.stop() == 0
    copied = config.model_copy(
        update={"target": config.target.model_copy(update={"topic": await kafka.topic(2)})}
    )
    nothing_left = "note: it has committed offsets: 0 of 30 records are left to read"
    assert any(each.startswith(nothing_left) for each in await said_of_group(copied))
    relay = run_relay(copied, Echo(copied.target.topic))
    await kafka.until(lambda: has_logged(relay, "partitions.opened"))
    (opened,) = relay.log.named("partitions.opened")
    assert (opened["committed"], opened["left"], opened["records"]) == (2, 0, 30)
    assert await relay.stop() == 0


async def test_the_members_of_a_group_are_named(kafka: Any, make_config: Any, run_relay: Any) -> None:
    source, target, other = await kafka.topic(2), await kafka.topic(2), await kafka.topic(1)
    config = make_config(source, target)
    relay = run_relay(config, Echo(target))
    await kafka.until(lambda: has_logged(relay, "partitions.opened"))
    assert any("its members are relay at 127.0.0.1" in each for each in await said_of_group(config))
    assert await relay.stop() == 0
    async with AIOKafkaConsumer(
        other,
        bootstrap_servers=kafka.bootstrap_servers,
        group_id=config.source.group_id,
        client_id="billing",
        partition_assignment_strategy=[RangePartitionAssignor],
    ):
        found = await said_of_group(config)
    assert any(
        each.startswith(
            "FAILED: another application uses it, with the assignor range: its members are billing at"
        )
        for each in found
    )


async def test_transactions_longer_than_brokers_allow_fail_the_check(
    own_cluster: Cluster, kafka_at: Any, make_config: Any
) -> None:
    properties = own_cluster.nodes[0].properties
    properties.write_text(f"{properties.read_text()}transaction.max.timeout.ms=20000\n")
    await asyncio.to_thread(own_cluster.nodes[0].restart)
    servers = own_cluster.bootstrap_servers
    async with kafka_at(servers) as kafka:
        source, target = await kafka.topic(2), await kafka.topic(2)
        config = make_config(source, target, source_bootstrap_servers=servers, **MODES["exactly-once"])
        found = await preflight(config, clusters_of(config))
    (problem,) = [each for each in found if each.state is CheckState.FAILED]
    assert "transaction.max.timeout.ms of the brokers is 20000" in problem.text
    assert "lower delivery_timeout_seconds in [delivery]" in problem.text
