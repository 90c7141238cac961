"""Whether another instance has taken a transactional id over.

Who asks for a producer id under a transactional id fences whoever had one before. So an instance that
replaces a failed producer must know first that nobody newer is there, or it would fence the one that was
started in its place.
"""

from __future__ import annotations

import time
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka.errors import IncompatibleBrokerVersion, TransactionalIdAuthorizationFailed
from aiokafka.protocol.api import Request, RequestStruct, Response
from aiokafka.protocol.types import CompactArray, CompactString, Int16, Int32, Int64, Schema, TaggedFields

from relay.kafka.aiokafka_compat import check

_NOT_FOUND = 105
#: What a coordinator that gives a transaction up has it go through: its state (`TransactionState`), and by
#: how much its epoch is raised. "Ongoing" until the abort is in the log (KAFKA-9666); by two in Kafka 4.0.0
#: (KAFKA-19367).
_GIVEN_UP = frozenset(
    {("Ongoing", 1), ("PrepareAbort", 1), ("CompleteAbort", 1), ("PrepareAbort", 2), ("CompleteAbort", 2)}
)
_TEXT = CompactString("utf-8")


class Producer(NamedTuple):
    """What the coordinator gives a producer. Both are others as soon as somebody else has asked."""

    producer_id: int
    epoch: int


@dataclass
class Claim:
    """What one process holds of a transactional id: handed on from each of its producers to the next.

    `producer`: the newest that this process was given; None if it may have been given one that it does not
    know. `expires_at`: when the coordinator may give up the transaction that is open, in seconds of the
    monotonic clock; None if none is open.
    """

    producer: Producer | None = None
    expires_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open, as far as we know."""
        return self.expires_at is not None

    @property
    def may_have_expired(self) -> bool:
        """Whether the coordinator may have given the open transaction up."""
        return self.expires_at is not None and time.monotonic() >= self.expires_at

    def renew(self, producer: Producer | None) -> None:
        """Take note of a new producer, which has no transaction yet; None while it is asked for."""
        self.producer, self.expires_at = producer, None

    def begin(self, seconds: float) -> None:
        """Take note of a transaction that may last so long."""
        self.expires_at = time.monotonic() + seconds

    def end(self) -> None:
        """Take note that the transaction is certainly over."""
        self.expires_at = None

    def is_lost_to(self, newest: Producer, state: str) -> bool:
        """Whether the id belongs to somebody else, with this newest producer and the transaction's state, as
        the coordinator says.

        Not if the coordinator may have raised the epoch itself, when it gave our transaction up, or has
        forgotten ours in a crash.
        """
        if self.producer is None:
            return False
        if newest.producer_id != self.producer.producer_id:
            return True
        raised = newest.epoch - self.producer.epoch
        return raised > 0 and not (self.may_have_expired and (state, raised) in _GIVEN_UP)


class _TransactionsResponse(Response):  # type: ignore[misc]  # aiokafka is not typed
    API_KEY = 65
    API_VERSION = 0
    SCHEMA = Schema(
        ("throttle_time_ms", Int32),
        (
            "transactions",
            CompactArray(
                ("error_code", Int16),
                ("transactional_id", _TEXT),
                ("state", _TEXT),
                ("timeout_ms", Int32),
                ("start_time_ms", Int64),
                ("producer_id", Int64),
                ("producer_epoch", Int16),
                (
                    "topics",
                    CompactArray(
                        ("topic", _TEXT), ("partitions", CompactArray(Int32)), ("tags", TaggedFields)
                    ),
                ),
                ("tags", TaggedFields),
            ),
        ),
        ("tags", TaggedFields),
    )


class _TransactionsRequest_v0(RequestStruct):  # type: ignore[misc]  # noqa: N801 - as aiokafka names its own
    FLEXIBLE_VERSION = True
    API_KEY = 65
    API_VERSION = 0
    RESPONSE_TYPE = _TransactionsResponse
    SCHEMA = Schema(("transactional_ids", CompactArray(_TEXT)), ("tags", TaggedFields))


class _TransactionsRequest(Request[_TransactionsRequest_v0]):  # type: ignore[misc]  # aiokafka is not typed
    """What a coordinator knows of transactional ids (KIP-664, Kafka 3.0). Changes nothing; who may write may
    ask.
    """

    API_KEY = 65

    def __init__(self, *transactional_ids: str) -> None:
        self._ids = transactional_ids

    def build(self, request_struct_class: Any) -> Any:
        """Make the request in its one version."""
        no_tags: Mapping[int, bytes] = {}
        return request_struct_class(list(self._ids), no_tags)


async def is_taken_over(client: Any, coordinator: int, transactional_id: str, claim: Claim) -> bool:
    """Whether another instance has asked for a producer since; False where brokers do not tell: before 3.0,
    or without the right.

    `coordinator` is the node to ask. Raises KafkaError if it gives no answer, or is the coordinator no more.
    """
    try:
        answer = await client.send(coordinator, _TransactionsRequest(transactional_id))
        for code, _, state, _, _, producer_id, epoch, _, _ in answer.transactions:
            # Ids that nobody has used for a week are forgotten.
            if code != _NOT_FOUND:
                check(code, transactional_id)
                return claim.is_lost_to(Producer(producer_id, epoch), state)
    except (IncompatibleBrokerVersion, NotImplementedError, TransactionalIdAuthorizationFailed):
        pass
    return False
