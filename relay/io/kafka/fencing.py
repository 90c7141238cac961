"""Detect another instance with the same transactional id, or with the same static group membership.

Requesting a producer id under a transactional id fences the producer that had one before. So an instance that
replaces a failed producer must first make sure that there is no newer instance. It would fence its own
successor.

The heartbeats of aiokafka 0.14 do not contain `group.instance.id`, so brokers cannot report that another
instance has joined with the same one: the two would keep taking the membership from each other, and both
would read everything.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple, TypeAlias

from aiokafka.errors import (
    IncompatibleBrokerVersion,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersionError,
)
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.group import HeartbeatRequest, HeartbeatRequest_v1
from aiokafka.protocol.types import Int16, Int32, Schema, String

from relay.io.kafka.aiokafka_compat import check
from relay.io.kafka.broker_errors import FencedInstanceId
from relay.io.kafka.requests import TransactionsRequest

_NOT_FOUND = 105
#: A transaction aborted by its coordinator: its state (`TransactionState`), and the increment of its epoch.
#: It is "Ongoing" until the abort is in the log (KAFKA-9666); Kafka 4.0.0 raises the epoch by two
#: (KAFKA-19367).
_GIVEN_UP = frozenset(
    {("Ongoing", 1), ("PrepareAbort", 1), ("CompleteAbort", 1), ("PrepareAbort", 2), ("CompleteAbort", 2)}
)


class ProducerIdAndEpoch(NamedTuple):
    """The identity that the coordinator assigns to a producer.

    Each assignment changes at least one of the two.
    """

    producer_id: int
    epoch: int


@dataclass
class ProducerIdentity:
    """One process's knowledge of a transactional id, passed from each of its producers to the next.

    `producer`: the newest identity assigned to this process; None if it may have one that it does not know.
    `expires_at`: when the coordinator may abort the open transaction, in seconds of the monotonic clock; None
    if none is open.
    """

    producer: ProducerIdAndEpoch | None = None
    expires_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Return whether a transaction is open, to our knowledge."""
        return self.expires_at is not None

    @property
    def may_have_expired(self) -> bool:
        """Return whether the coordinator may have aborted the open transaction."""
        return self.expires_at is not None and time.monotonic() >= self.expires_at

    def renew(self, producer: ProducerIdAndEpoch | None) -> None:
        """Note a new producer, which has no transaction yet; None while its request is pending."""
        self.producer, self.expires_at = producer, None

    def begin(self, seconds: float) -> None:
        """Note that a transaction has begun, which may last `seconds`."""
        self.expires_at = time.monotonic() + seconds

    def end(self) -> None:
        """Note that the transaction is certainly over."""
        self.expires_at = None

    def is_fenced_by(self, newest: ProducerIdAndEpoch, state: str) -> bool:
        """Return whether another instance has the id.

        `newest`, `state`: its newest producer and the state of the transaction, as the coordinator reports
        them. The id still belongs to this instance if the coordinator may have raised the epoch itself
        because it aborted our transaction, or has forgotten our epoch in a crash.
        """
        if self.producer is None:
            return False
        if newest.producer_id != self.producer.producer_id:
            return True
        raised = newest.epoch - self.producer.epoch
        return raised > 0 and not (self.may_have_expired and (state, raised) in _GIVEN_UP)


async def is_fenced(client: Any, coordinator: int, transactional_id: str, identity: ProducerIdentity) -> bool:
    """Return whether another instance has requested a producer since.

    False where brokers do not report this: before 3.0, or without permission. `coordinator` is the node to
    ask. Raises KafkaError if it does not answer, or is not the coordinator any more.
    """
    try:
        answer = await client.send(coordinator, TransactionsRequest(transactional_id))
        for code, _, state, _, _, producer_id, epoch, _, _ in answer.transactions:
            # Brokers forget an id that was not used for a week.
            if code != _NOT_FOUND:
                check(code, transactional_id)
                return identity.is_fenced_by(ProducerIdAndEpoch(producer_id, epoch), state)
    except (
        IncompatibleBrokerVersion,
        NotImplementedError,
        TransactionalIdAuthorizationFailed,
        UnsupportedVersionError,
    ):
        pass
    return False


_TEXT = String("utf-8")


class _HeartbeatResponse_v3(Response):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    API_KEY = 12
    API_VERSION = 3
    SCHEMA = Schema(("throttle_time_ms", Int32), ("error_code", Int16))


class _HeartbeatRequest_v3(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    API_KEY = 12
    API_VERSION = 3
    RESPONSE_TYPE = _HeartbeatResponse_v3
    SCHEMA = Schema(
        ("group", _TEXT), ("generation_id", Int32), ("member_id", _TEXT), ("group_instance_id", _TEXT)
    )


_HeartbeatStruct: TypeAlias = HeartbeatRequest_v1 | _HeartbeatRequest_v3


class _StaticHeartbeat(Request[_HeartbeatStruct]):  # type: ignore[misc]  # aiokafka is not typed
    """A heartbeat that names the instance (KIP-345, Kafka 2.3); version 1 does not."""

    API_KEY = 12

    def __init__(self, heartbeat: HeartbeatRequest, instance_id: str) -> None:
        self._heartbeat, self._instance_id = heartbeat, instance_id

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in the version that the broker supports."""
        plain = self._heartbeat
        options = (self._instance_id,) if request_struct_class is _HeartbeatRequest_v3 else ()
        return request_struct_class(plain._group, plain._generation_id, plain._member_id, *options)


class StaticMember:
    """Watch the requests of a static member. `is_fenced`: another instance has joined with the same id."""

    def __init__(self, client: Any, instance_id: str) -> None:
        self.is_fenced = False
        self._instance_id, self._send = instance_id, client.send
        client.send = self._watched

    async def _watched(self, node_id: int, request: Any, **more: Any) -> Any:
        if isinstance(request, HeartbeatRequest):
            request = _StaticHeartbeat(request, self._instance_id)
        answer = await self._send(node_id, request, **more)
        if getattr(answer, "error_code", 0) == FencedInstanceId.errno:
            self.is_fenced = True
        return answer
