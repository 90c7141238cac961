"""Brokers that are not Kafka: they lack requests, or answer them with other error codes."""

from __future__ import annotations

from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import GroupIdNotFound, IncompatibleBrokerVersion
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from secured_support import clusters_of
from service.resilience_support import EXACTLY_ONCE, MODES, Echo, committed, has_logged, numbered

from relay.io.kafka.requests import (
    GroupsRequest,
    ProducersRequest,
    StableOffsetsRequest,
    TransactionsRequest,
)
from relay.service.check import CheckState
from relay.service.check.route import preflight

pytestmark = pytest.mark.kafka

#: Requests that relay makes beside those of every consumer and producer.
ADDITIONAL = (
    DescribeConfigsRequest,
    GroupsRequest,
    ProducersRequest,
    StableOffsetsRequest,
    TransactionsRequest,
)


@pytest.fixture
def lacking(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> type[Any]:
    """A request that all brokers lack: aiokafka finds it in none of the versions that they support."""
    send = AIOKafkaConnection.send
    lacking: type[Any] = request.param

    def refused(self: Any, asked: Any, *more: Any, **options: Any) -> Any:
        if isinstance(asked, lacking):
            raise IncompatibleBrokerVersion(f"{lacking.__name__} cannot be used")
        return send(self, asked, *more, **options)

    monkeypatch.setattr(AIOKafkaConnection, "send", refused)
    return lacking


@pytest.mark.parametrize("lacking", ADDITIONAL, ids=lambda each: each.__name__, indirect=True)
async def test_relay_delivers_without_a_request_that_the_broker_lacks(
    kafka: Any, make_config: Any, run_relay: Any, lacking: type[Any]
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, **EXACTLY_ONCE)
    for count in (20, 40):
        relay = run_relay(config, Echo(target))
        await kafka.produce(source, numbered(20, start=count - 20))
        await committed(kafka, relay, count)
        assert await relay.stop() == 0
    assert len(await kafka.read(target, committed=True)) == 40


@pytest.mark.parametrize("lacking", ADDITIONAL, ids=lambda each: each.__name__, indirect=True)
async def test_a_check_refuses_no_route_for_a_request_that_the_broker_lacks(
    kafka: Any, make_config: Any, lacking: type[Any]
) -> None:
    source, target = await kafka.topic(2), await kafka.topic(2)
    config = make_config(source, target, **EXACTLY_ONCE)
    found = await preflight(config, clusters_of(config))
    assert not [each for each in found if each.state is CheckState.FAILED]
    subjects = {each.subject for each in found}
    assert {f"source topic {source}", f"target topic {target}"} <= subjects


@pytest.mark.parametrize("mode", MODES)
async def test_group_id_not_found_means_no_committed_offsets(
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
