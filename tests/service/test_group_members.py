"""Consumer groups that somebody else uses, or that brokers describe in another way than Kafka."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka import AIOKafkaConsumer
from aiokafka.client import AIOKafkaClient
from aiokafka.coordinator.assignors.range import RangePartitionAssignor
from aiokafka.errors import GroupIdNotFound
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.structs import ConsumerRecord as KafkaRecord
from service.resilience_support import MODES, Echo, committed, has_logged, numbered

from relay.kafka.fetched import relay_records
from relay.kafka.requests import StableOffsetsRequest

pytestmark = pytest.mark.kafka


async def test_one_group_instance_id_for_two_instances(kafka: Any, make_config: Any, run_relay: Any) -> None:
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


async def test_a_group_of_another_application(kafka: Any, make_config: Any, run_relay: Any) -> None:
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


@pytest.mark.parametrize("mode", MODES)
async def test_a_broker_that_does_not_know_the_group(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch, mode: str
) -> None:
    """Kafka says that there is no offset; other brokers answer with an error until the first commit."""
    send, replaced = AIOKafkaClient.send, 0

    async def answered(self: Any, node: int, request: Any, **more: Any) -> Any:
        nonlocal replaced
        answer = await send(self, node, request, **more)
        if isinstance(request, OffsetFetchRequest | StableOffsetsRequest) and not any(
            each[1] >= 0 for _, partitions, *_ in answer.topics for each in partitions
        ):
            replaced += 1
            answer.error_code, answer.topics = GroupIdNotFound.errno, []
        return answer

    monkeypatch.setattr(AIOKafkaClient, "send", answered)
    source, target = await kafka.topic(2), await kafka.topic(2)
    relay = run_relay(make_config(source, target, **MODES[mode]), Echo(target))
    await kafka.produce(source, numbered(20))
    await kafka.until(lambda: has_logged(relay, "partitions.opened"))
    await committed(kafka, relay, 20)
    assert await relay.stop() == 0
    assert replaced >= (2 if mode == "exactly-once" else 1)


def test_records_of_message_format_0_have_no_time() -> None:
    fetched = KafkaRecord("t", 0, 7, None, 0, None, b"v", None, 0, 1, ())
    (record,) = relay_records([fetched])
    assert (record.offset, record.timestamp_ms) == (7, -1)
