"""What a client's requests show of its cluster, before anybody gives up."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from types import SimpleNamespace
from typing import Any, ClassVar

import pytest
from aiokafka.errors import KafkaConnectionError

from relay.io.kafka.aiokafka_compat import started
from relay.io.kafka.client_health import ANSWER_SECONDS, CURRENT_SECONDS, GRACE_SECONDS, ClientHealth
from relay.io.kafka.ports import FaultKind, Partition
from relay.io.kafka.settings import DEFAULT_TIMEOUTS

_PRODUCE, _FETCH, _METADATA, _OFFSET_COMMIT, _JOIN_GROUP = 0, 1, 3, 8, 11
#: Codes of the protocol.
_UNKNOWN_TOPIC, _NOT_COORDINATOR, _NOT_ENOUGH_REPLICAS, _REBALANCING, _NOT_AUTHORIZED = 3, 16, 19, 27, 29


class Cluster:
    """As much of aiokafka's as is asked for."""

    leads = True

    def broker_metadata(self, node: int) -> Any:
        return SimpleNamespace(host="kafka", port=9090 + node)

    def partitions_for_broker(self, node: int) -> set[int]:
        return {node} if self.leads else set()


class Client:
    """An AIOKafkaClient whose connections do what a test says."""

    def __init__(self) -> None:
        self.cluster, self.is_refused = Cluster(), False
        self.answer: Callable[[], Any] = SimpleNamespace
        self._sync_task = None

    async def _get_conn(self, node: int, **_: object) -> Any:
        return None if self.is_refused else SimpleNamespace(send=self._send)

    async def _send(self, request: Any, expect_response: bool = True) -> Any:
        answer = self.answer()
        return await answer if asyncio.isfuture(answer) else answer


class Observed:
    """A client with its health, and the time."""

    def __init__(self, hold_seconds: float = 0.0) -> None:
        self.time, self.client = 1000.0, Client()
        self.health = ClientHealth(hold_seconds, lambda: self.time)
        self.health.observe(self.client)

    async def ask(self, api: int, answer: Any = None, node: int = 1) -> None:
        if answer is not None:
            self.client.answer = lambda: answer
        connection = await self.client._get_conn(node)
        if connection is not None:
            await connection.send(SimpleNamespace(API_KEY=api))

    @property
    def faults(self) -> list[tuple[FaultKind, str]]:
        return [(each.kind, each.detail) for each in self.health.faults()]


def produced(code: int, topic: str = "out") -> Any:
    return SimpleNamespace(topics=[(topic, [(0, code, 5, -1, 0)])])


def committed(code: int) -> Any:
    return SimpleNamespace(topics=[("orders", [(0, code)])])


def metadata(*topics: Any, brokers: tuple[int, ...] = (1, 2)) -> Any:
    return SimpleNamespace(brokers=[(each, "kafka", 9090 + each, None) for each in brokers], topics=topics)


async def test_an_error_that_the_client_retries_is_a_fault_until_it_succeeds() -> None:
    observed = Observed()
    await observed.ask(_PRODUCE, produced(_NOT_ENOUGH_REPLICAS))
    assert observed.faults == []
    observed.time += GRACE_SECONDS
    ((kind, detail),) = observed.faults
    assert kind is FaultKind.REFUSED
    assert detail.startswith("out/0: ")
    assert "NOT_ENOUGH_REPLICAS" in detail
    await observed.ask(_PRODUCE, produced(0))
    assert observed.faults == []


async def test_an_error_that_does_not_come_again_is_no_fault_for_ever() -> None:
    observed = Observed()
    await observed.ask(_PRODUCE, produced(_NOT_AUTHORIZED))
    observed.time += CURRENT_SECONDS + 1
    assert observed.faults == []


async def test_a_fault_of_one_partition_is_not_hidden_by_another_that_works() -> None:
    observed = Observed()
    await observed.ask(_PRODUCE, produced(_NOT_ENOUGH_REPLICAS))
    observed.time += GRACE_SECONDS
    await observed.ask(_PRODUCE, produced(0, "other"))
    assert len(observed.faults) == 1


async def test_a_rebalance_is_no_fault() -> None:
    observed = Observed()
    await observed.ask(_OFFSET_COMMIT, committed(_REBALANCING))
    observed.time += GRACE_SECONDS
    assert observed.faults == []
    await observed.ask(_OFFSET_COMMIT, committed(_NOT_COORDINATOR))
    observed.time += GRACE_SECONDS
    assert [each.group for each in observed.health.faults()] == [True]


@pytest.mark.parametrize("code", [0, _NOT_AUTHORIZED])
async def test_error_codes_are_found_in_answers_of_every_form(code: int) -> None:
    """Flexible versions have tags at the end of each row; AddPartitionsToTxn calls its rows errors."""
    flexible = SimpleNamespace(topics=[("orders", [(0, 7, -1, "", code, {})], {})], error_code=0)
    added = SimpleNamespace(errors=[("out", [(0, code)])])
    ended = SimpleNamespace(error_code=code)
    for api, answer in ((9, flexible), (24, added), (26, ended)):
        observed = Observed()
        await observed.ask(api, answer)
        observed.time += GRACE_SECONDS
        assert len(observed.faults) == bool(code)
    await observed.ask(65, SimpleNamespace(topics="of another form"))


async def test_a_refused_connection_is_a_fault_until_the_broker_answers() -> None:
    observed = Observed()
    observed.client.is_refused = True
    await observed.ask(_FETCH)
    observed.time += GRACE_SECONDS
    assert observed.faults == [(FaultKind.UNREACHABLE, "no connection to kafka:9091")]
    observed.client.is_refused = False
    await observed.ask(_FETCH, produced(0), node=2)
    assert len(observed.faults) == 1
    await observed.ask(_FETCH, produced(0))
    assert observed.faults == []


async def test_an_attempt_that_reconnecting_puts_off_is_no_evidence() -> None:
    class Reconnecting(Client):
        """What an AIOKafkaClient has that reconnecting uses."""

        _conns: ClassVar[dict[object, object]] = {}
        bootstrap = _metadata_update = force_metadata_update = None

    async def start() -> None:
        """Have nothing to start."""

    time = 1000.0
    client, health = Reconnecting(), ClientHealth(steady=lambda: time)
    client.is_refused = True
    brokers: Any = SimpleNamespace(arguments={}, renew=lambda: False, timeouts=DEFAULT_TIMEOUTS)
    await started(1, SimpleNamespace(client=client, start=start), brokers, health)
    assert await client._get_conn(1) is None
    time += GRACE_SECONDS
    assert [each.kind for each in health.faults()] == [FaultKind.UNREACHABLE]
    time += CURRENT_SECONDS
    assert await client._get_conn(1) is None
    assert health.faults() == []


async def test_a_broker_that_leads_nothing_is_not_missed_while_others_answer() -> None:
    observed = Observed()
    observed.client.cluster.leads = False
    await observed.ask(_FETCH, produced(0), node=2)
    observed.client.is_refused = True
    await observed.ask(_FETCH)
    observed.time += GRACE_SECONDS
    assert observed.faults == []
    observed.time += CURRENT_SECONDS - GRACE_SECONDS
    await observed.ask(_FETCH)
    observed.time += 0.1
    assert [kind for kind, _ in observed.faults] == [FaultKind.UNREACHABLE]


async def test_a_broker_that_left_the_cluster_is_forgotten() -> None:
    observed = Observed()
    observed.client.is_refused = True
    await observed.ask(_FETCH)
    observed.client.is_refused = False
    await observed.ask(_METADATA, metadata(brokers=(2, 3)), node=2)
    observed.time += GRACE_SECONDS
    assert observed.faults == []


@pytest.mark.parametrize(("api", "limit"), [(_PRODUCE, ANSWER_SECONDS), (_FETCH, ANSWER_SECONDS + 2.0)])
async def test_a_request_without_an_answer_is_a_fault_while_it_waits(api: int, limit: float) -> None:
    observed = Observed(hold_seconds=2.0)
    answer = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(observed.ask(api, answer))
    await asyncio.sleep(0)
    observed.time += limit - 0.1
    assert observed.faults == []
    observed.time += 0.1
    assert observed.faults == [(FaultKind.UNANSWERED, f"no answer from kafka:9091 for {limit:.0f} s")]
    answer.set_result(produced(0))
    await asking
    assert observed.faults == []


async def test_a_member_waits_for_others_without_a_fault() -> None:
    observed = Observed()
    answer = asyncio.get_running_loop().create_future()
    asking = asyncio.create_task(observed.ask(_JOIN_GROUP, answer))
    await asyncio.sleep(0)
    observed.time += 60
    assert observed.faults == []
    answer.set_result(SimpleNamespace(error_code=0))
    await asking


async def test_a_connection_that_breaks_under_a_request_is_a_fault() -> None:
    observed = Observed()
    answer = asyncio.get_running_loop().create_future()
    answer.set_exception(KafkaConnectionError("closed"))
    with pytest.raises(KafkaConnectionError):
        await observed.ask(_PRODUCE, answer)
    observed.time += GRACE_SECONDS
    assert [kind for kind, _ in observed.faults] == [FaultKind.UNREACHABLE]


async def test_topics_that_are_gone_and_partitions_without_a_leader_are_known() -> None:
    observed = Observed()
    lost: Any = (5, 1, -1, [1], [])
    await observed.ask(
        _METADATA,
        metadata((0, "orders", False, [(0, 0, 2, [2], [2]), lost]), (_UNKNOWN_TOPIC, "gone", False, [])),
    )
    assert (observed.health.missing_topics, observed.health.offline) == ([], [])
    observed.time += GRACE_SECONDS
    assert (observed.health.missing_topics, observed.health.offline) == (["gone"], [Partition("orders", 1)])
    assert [each.is_missing for each in observed.health.faults()] == [True]
    found = [(0, 0, 2, [2], [2])]
    await observed.ask(_METADATA, metadata((0, "orders", False, found), (0, "gone", False, found)))
    assert (observed.health.missing_topics, observed.health.offline, observed.faults) == ([], [], [])


async def test_a_batch_without_an_acknowledgement_is_a_fault_though_no_broker_was_asked() -> None:
    observed = Observed()
    first, second = observed.health.sending(), observed.health.sending()
    observed.time += ANSWER_SECONDS - 1
    observed.health.sent(first, acknowledged=True)
    observed.time += ANSWER_SECONDS - 1
    assert observed.faults == []
    observed.time += 1
    assert observed.faults == [(FaultKind.UNANSWERED, "no batch was acknowledged for 5 s")]
    observed.health.sent(second, acknowledged=False)
    assert observed.faults == []
