"""Offsets that are gone although a route has run before, and routes that share what is one route's."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.admin import AIOKafkaAdminClient
from aiokafka.protocol.admin import DeleteGroupsRequest
from service.resilience_support import MODES, Echo, committed, has_logged, logged_commit, numbered
from support import TICDC, captured

from relay.model.errors import TopicUnusable
from relay.model.records import ConsumerRecord
from relay.service.loop.settings import DEFAULT_SETTINGS, LoopSettings

pytestmark = pytest.mark.kafka
DDL = "ticdc/canal-json/10_ddl"


async def delete_group(kafka: Any, group: str) -> None:
    """Delete a group, as tools do that tidy up."""
    admin: AIOKafkaAdminClient = kafka.admin
    node = await admin.find_coordinator(group)
    answer = await admin._client.send(node, DeleteGroupsRequest([group]))
    ((_, code),) = answer.results
    assert code == 0, code


async def opened(kafka: Any, relay: Any) -> None:
    await kafka.until(lambda: has_logged(relay, "partitions.opened"))


@pytest.mark.parametrize("mode", MODES)
async def test_a_group_that_was_deleted_is_missed(
    kafka: Any, make_config: Any, run_relay: Any, mode: str
) -> None:
    """What the target holds shows that it is no first start."""
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, schema_history_topic="", **MODES[mode])
    await kafka.produce(source, numbered(20))
    relay = run_relay(config, Echo(target))
    await committed(kafka, relay, 20)
    assert await relay.stop() == 0
    assert relay.log.named("offsets.missing") == []
    await delete_group(kafka, config.source.group_id)
    relay = run_relay(config, Echo(target))
    await committed(kafka, relay, 20)
    assert await relay.stop() == 0
    (said,) = relay.log.named("offsets.missing")
    assert (
        f"topic {target} has records of source topic {source}, and no offset is committed" in said["message"]
    )


async def test_the_history_shows_that_a_route_has_run(
    broker: str, kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """With exactly-once between two clusters, and a progress topic that was deleted."""
    source, target = await kafka.topic(), await kafka.topic()
    other = broker.replace("127.0.0.1", "localhost")
    config = make_config(
        source,
        target,
        delivery_progress_topic=f"p-{target}",
        target_bootstrap_servers=other,
        **MODES["exactly-once"],
    )
    records = captured(DDL)
    await kafka.produce(
        source, [ConsumerRecord("", 0, 0, each.timestamp_ms, each.key, each.value) for each in records]
    )
    relay = run_relay(config, None)
    await logged_commit(kafka, relay, len(records))
    assert await relay.stop() == 0
    assert relay.log.named("offsets.missing") == []
    assert relay.log.named("schemas.shared") == []
    await kafka.admin.delete_topics([f"p-{target}"])
    await asyncio.sleep(1)
    relay = run_relay(config, None)
    await opened(kafka, relay)
    assert await relay.stop() == 0
    (said,) = relay.log.named("offsets.missing")
    assert f"the schema history {config.history_topic} has records of this route" in said["message"]


async def test_another_route_with_the_same_history_is_named(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    config = make_config(source, target)
    records = captured(DDL)
    await kafka.produce(
        source, [ConsumerRecord("", 0, 0, each.timestamp_ms, each.key, each.value) for each in records]
    )
    relay = run_relay(config, None)
    await committed(kafka, relay, len(records))
    assert await relay.stop() == 0
    # Its group was copied with the rest of the configuration.
    copied = make_config(source, await kafka.topic(), source_group_id=config.source.group_id)
    relay = run_relay(copied, None)
    await opened(kafka, relay)
    assert await relay.stop() == 0
    (said,) = relay.log.named("schemas.shared")
    assert said["routes"] == [f"{config.source.group_id} {TICDC} to canal-json {target}"]
    assert "give each route its own group_id" in said["message"]


async def test_offsets_that_were_deleted_while_relay_runs_are_committed_again(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """Groups of exactly-once have no members, so they look unused to tools that tidy up."""
    assert DEFAULT_SETTINGS.refresh_seconds <= 60
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, **MODES["exactly-once"])
    await kafka.produce(source, numbered(20))
    relay = run_relay(config, Echo(target), LoopSettings(refresh_seconds=0.5))
    await committed(kafka, relay, 20)
    await delete_group(kafka, config.source.group_id)
    await committed(kafka, relay, 20)
    assert await relay.stop() == 0


async def test_a_topic_that_is_no_history_is_refused(kafka: Any, make_config: Any, run_relay: Any) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    wrong = await kafka.topic(cleanup_policy="compact")
    await kafka.produce(wrong, [ConsumerRecord("", 0, 0, 0, b"user-7", b"{}")])
    relay = run_relay(make_config(source, target, schema_history_topic=wrong), Echo(target))
    assert await relay.ended() == TopicUnusable.exit_status
    (failed,) = relay.log.named("relay.failed")
    assert failed["code"] == "service.topic-unusable"
    assert f"{wrong}/0 at 0 is not a record of a schema history" in failed["message"]
