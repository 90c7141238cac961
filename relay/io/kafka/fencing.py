"""Whether another instance has fenced this one: taken its transactional id over.

Asking for a producer id under a transactional id fences the producer that had one before. So an instance that
replaces a failed producer must first make sure that there is no newer instance. It would fence the one that
was started in its place.
"""

from __future__ import annotations

import time
from dataclasses import dataclass
from typing import Any, NamedTuple

from aiokafka.errors import (
    IncompatibleBrokerVersion,
    TransactionalIdAuthorizationFailed,
    UnsupportedVersionError,
)

from relay.io.kafka.aiokafka_compat import check
from relay.io.kafka.requests import TransactionsRequest

_NOT_FOUND = 105
#: What a transaction looks like when its coordinator gives it up: its state (`TransactionState`), and by how
#: much its epoch has been raised. It is "Ongoing" until the abort is in the log (KAFKA-9666); Kafka 4.0.0
#: raises the epoch by two (KAFKA-19367).
_GIVEN_UP = frozenset(
    {("Ongoing", 1), ("PrepareAbort", 1), ("CompleteAbort", 1), ("PrepareAbort", 2), ("CompleteAbort", 2)}
)


class ProducerIdAndEpoch(NamedTuple):
    """What the coordinator gives a producer. At least one of the two changes when another one asks."""

    producer_id: int
    epoch: int


@dataclass
class ProducerIdentity:
    """What one process holds of a transactional id. Each of its producers hands it on to the next.

    `producer`: the newest that this process was given; None if it may have been given one that it does not
    know. `expires_at`: when the coordinator may give up the open transaction, in seconds of the monotonic
    clock; None if none is open.
    """

    producer: ProducerIdAndEpoch | None = None
    expires_at: float | None = None

    @property
    def is_open(self) -> bool:
        """Whether a transaction is open, as far as we know."""
        return self.expires_at is not None

    @property
    def may_have_expired(self) -> bool:
        """Whether the coordinator may have given up the open transaction."""
        return self.expires_at is not None and time.monotonic() >= self.expires_at

    def renew(self, producer: ProducerIdAndEpoch | None) -> None:
        """Note a new producer, which has no transaction yet; None while it is asked for."""
        self.producer, self.expires_at = producer, None

    def begin(self, seconds: float) -> None:
        """Note that a transaction has begun, which may last so long."""
        self.expires_at = time.monotonic() + seconds

    def end(self) -> None:
        """Note that the transaction is certainly over."""
        self.expires_at = None

    def is_fenced_by(self, newest: ProducerIdAndEpoch, state: str) -> bool:
        """Whether another instance has the id, given its newest producer and the state of the transaction, as
        the coordinator tells them.

        It has not if the coordinator may have raised the epoch itself because it gave up our transaction, or
        has forgotten our epoch in a crash.
        """
        if self.producer is None:
            return False
        if newest.producer_id != self.producer.producer_id:
            return True
        raised = newest.epoch - self.producer.epoch
        return raised > 0 and not (self.may_have_expired and (state, raised) in _GIVEN_UP)


async def is_fenced(client: Any, coordinator: int, transactional_id: str, identity: ProducerIdentity) -> bool:
    """Whether another instance has asked for a producer since; False where brokers do not tell: before 3.0,
    or without the right.

    `coordinator` is the node to ask. Raises KafkaError if it does not answer, or is not the coordinator any
    more.
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
