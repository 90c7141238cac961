"""Observe the health of a cluster through the requests of an aiokafka client.

It detects failed connections, errors in answers, unanswered requests, missing topics, and partitions without
a leader. The client retries for as long as its caller waits and reports nothing meanwhile, so every request
is observed on its connection.
"""

from __future__ import annotations

import asyncio
import contextlib
import itertools
import math
import time
from collections.abc import Callable, Collection, Hashable, Iterable, Iterator, Mapping
from typing import Any, Final, NamedTuple, TypeVar

from aiokafka.errors import (
    BrokerResponseError,
    ConcurrentTransactions,
    GroupIdNotFound,
    IllegalGenerationError,
    KafkaError,
    LeaderNotAvailableError,
    MemberIdRequired,
    NoError,
    OffsetOutOfRangeError,
    RebalanceInProgressError,
    UnknownMemberIdError,
    UnknownTopicOrPartitionError,
    for_code,
)
from aiokafka.protocol.api import Request
from aiokafka.protocol.commit import OffsetCommitRequest, OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.fetch import FetchRequest
from aiokafka.protocol.group import HeartbeatRequest, JoinGroupRequest, LeaveGroupRequest, SyncGroupRequest
from aiokafka.protocol.metadata import MetadataRequest
from aiokafka.protocol.offset import OffsetRequest
from aiokafka.protocol.produce import ProduceRequest
from aiokafka.protocol.transaction import (
    AddOffsetsToTxnRequest,
    AddPartitionsToTxnRequest,
    EndTxnRequest,
    InitProducerIdRequest,
    TxnOffsetCommitRequest,
)

from relay.io.kafka.broker_errors import UnstableOffsetCommit, text_of
from relay.io.kafka.ports import Fault, FaultKind, Partition


def _keys(*requests: type[Request[Any]]) -> frozenset[int]:
    return frozenset(request.API_KEY for request in requests)


def _codes_of(*errors: type[BrokerResponseError]) -> frozenset[int]:
    return frozenset(error.errno for error in errors)


#: How long a request may stay unanswered before that is a fault.
ANSWER_SECONDS: Final = 5.0
#: How long a failed connection or an error must last: the client heals most of them by its first retry.
GRACE_SECONDS: Final = 1.0
#: Age from which an error that has not recurred no longer counts as current.
CURRENT_SECONDS: Final = 5.0

#: Requests about the partitions of topics: the answer has topic, partition and error first in each row.
_OF_PARTITIONS: Final = _keys(ProduceRequest, FetchRequest, OffsetRequest)
#: Requests to the coordinator of a group.
_OF_GROUP: Final = _keys(
    OffsetCommitRequest,
    OffsetFetchRequest,
    FindCoordinatorRequest,
    JoinGroupRequest,
    HeartbeatRequest,
    LeaveGroupRequest,
    SyncGroupRequest,
)
#: Requests whose answers the broker delays until other members have sent theirs.
_HELD_BACK: Final = _keys(JoinGroupRequest, SyncGroupRequest)
#: Requests to the coordinator of transactions.
_OF_TRANSACTIONS: Final = _keys(
    InitProducerIdRequest,
    AddPartitionsToTxnRequest,
    AddOffsetsToTxnRequest,
    EndTxnRequest,
    TxnOffsetCommitRequest,
)
#: Errors of normal work: rebalances, a transaction that is being completed, an offset that retention removed,
#: a group without offsets.
_EXPECTED: Final = _codes_of(
    OffsetOutOfRangeError,
    IllegalGenerationError,
    UnknownMemberIdError,
    RebalanceInProgressError,
    ConcurrentTransactions,
    GroupIdNotFound,
    MemberIdRequired,
    UnstableOffsetCommit,
)
_NO_LEADER: Final = -1
#: The first member of a fault's key where it is about a broker; the second is its id.
_NODE: Final = "node"
Lacking = TypeVar("Lacking", bound=Hashable)


class _Pending(NamedTuple):
    """An unanswered request. `limit`: how many seconds it may take."""

    node: object
    since: float
    limit: float
    group: bool = False


class ClientHealth:
    """Observe a client. `hold_seconds`: how long brokers may hold a fetch back until there are records."""

    def __init__(self, hold_seconds: float = 0.0, steady: Callable[[], float] = time.monotonic) -> None:
        self._hold_seconds, self._steady = hold_seconds, steady
        self._client: Any = None
        self._faults: dict[tuple[Hashable, ...], Fault] = {}
        self._pending: dict[int, _Pending] = {}
        self._batches: dict[int, float] = {}
        self._numbers = itertools.count()
        self._acknowledged_at = float("-inf")
        #: When a broker last answered, by the steady clock.
        self.answered_at = float("-inf")
        # Topics and partition leaders missing from the newest metadata, and since when.
        self._missing: dict[str, float] = {}
        self._offline: dict[Partition, float] = {}

    @property
    def observes(self) -> bool:
        """Return whether there is a client."""
        return self._client is not None

    @property
    def missing_topics(self) -> list[str]:
        """Return the topics missing from the newest metadata."""
        return self._past_grace_period(self._missing)

    @property
    def offline(self) -> list[Partition]:
        """Return the partitions without a leader in the newest metadata."""
        return self._past_grace_period(self._offline)

    def observe(self, client: Any) -> None:
        """Observe the connections of an `AIOKafkaClient`, instead of those of the previous one.

        `started` of relay.io.kafka.aiokafka_compat calls this.
        """
        self._client = client
        connect = client._get_conn
        self._faults.clear()
        self._pending.clear()

        async def connected(node: object, **options: Any) -> Any:
            with self._waiting(node, ANSWER_SECONDS):
                connection = await connect(node, **options)
            if connection is None:
                self._note((_NODE, node), FaultKind.UNREACHABLE, f"no connection to {self._address(node)}")
            elif not hasattr(connection.send, "observed"):
                connection.send = self._observed(node, connection)
            return connection

        client._get_conn = connected

    def ask(self) -> None:
        """Make the client request metadata, so that an answer or its absence shows the current state."""
        if self._client is not None and self._client._sync_task is not None:
            self._client.force_metadata_update()

    def faults(self) -> list[Fault]:
        """Return the current faults, the most significant first."""
        now = self._steady()
        found = [
            each
            for subject, each in self._faults.items()
            if now - each.since >= GRACE_SECONDS and now - each.last <= CURRENT_SECONDS
            if subject[0] != _NODE or self._is_needed(subject[1])
        ]
        for each in self._pending.values():
            if now - each.since >= each.limit and (each.group or self._is_needed(each.node)):
                detail = f"no answer from {self._address(each.node)} for {now - each.since:.0f} s"
                found.append(Fault(FaultKind.UNANSWERED, detail, each.since, now, group=each.group))
        if self._batches:
            since = max(min(self._batches.values()), self._acknowledged_at)
            if now - since >= ANSWER_SECONDS:
                detail = f"no batch was acknowledged for {now - since:.0f} s"
                found.append(Fault(FaultKind.UNANSWERED, detail, since, now))
        return sorted(found)

    # Batches of a producer: the client may hold them back without sending a request.

    def sending(self) -> int:
        """Note that a batch was handed to the client; return its number."""
        number = next(self._numbers)
        self._batches[number] = self._steady()
        return number

    def sent(self, number: int, *, acknowledged: bool) -> None:
        """Note the end of a batch."""
        self._batches.pop(number, None)
        if acknowledged:
            self._acknowledged_at = self._steady()

    # Requests.

    def _observed(self, node: object, connection: Any) -> Callable[..., Any]:
        send = connection.send

        def observed(request: Any, expect_response: bool = True) -> Any:
            answer = send(request, expect_response)
            if not expect_response:
                return answer
            return self._awaited(node, request.API_KEY, answer)

        observed.observed = True  # type: ignore[attr-defined]  # a mark for `observe`
        return observed

    async def _awaited(self, node: object, api: int, answer: Any) -> Any:
        limit = math.inf if api in _HELD_BACK else ANSWER_SECONDS
        if api == FetchRequest.API_KEY:
            limit += self._hold_seconds
        try:
            with self._waiting(node, limit, group=api in _OF_GROUP):
                response = await answer
        except KafkaError as error:
            self._note((_NODE, node), FaultKind.UNREACHABLE, f"{self._address(node)}: {text_of(error)}")
            raise
        self.answered_at = self._steady()
        self._faults.pop((_NODE, node), None)
        self._look(api, response)
        return response

    @contextlib.contextmanager
    def _waiting(self, node: object, limit: float, *, group: bool = False) -> Iterator[None]:
        """Expect an answer within `limit` seconds. A request that is abandoned later than that is a fault."""
        number, since = next(self._numbers), self._steady()
        self._pending[number] = _Pending(node, since, limit, group)
        try:
            yield
        except (TimeoutError, asyncio.CancelledError):
            if self._steady() - since >= limit:
                detail = f"no answer from {self._address(node)}"
                self._note((_NODE, node), FaultKind.UNANSWERED, detail, since)
            raise
        finally:
            self._pending.pop(number, None)

    def _note(
        self,
        subject: tuple[Hashable, ...],
        kind: FaultKind,
        detail: str,
        since: float | None = None,
        *,
        group: bool = False,
        is_missing: bool = False,
    ) -> None:
        now = self._steady()
        before = self._faults.get(subject)
        begun = before.since if before else now if since is None else since
        self._faults[subject] = Fault(kind, detail, begun, now, group, is_missing)

    def _look(self, api: int, response: Any) -> None:
        """Note the errors of an answer, and clear the faults that it disproves."""
        if api == MetadataRequest.API_KEY:
            self._look_at_metadata(response)
            return
        if api not in _OF_PARTITIONS | _OF_GROUP | _OF_TRANSACTIONS:
            return
        for subject, about, code in _codes(api, response):
            error = for_code(code)
            if error is NoError:
                self._faults.pop(subject, None)
            elif code not in _EXPECTED:
                detail = f"{about}{text_of(error())}"
                missing = error is UnknownTopicOrPartitionError
                self._note(subject, FaultKind.REFUSED, detail, group=api in _OF_GROUP, is_missing=missing)

    def _look_at_metadata(self, response: Any) -> None:
        known = {(_NODE, broker[0]) for broker in response.brokers}
        for subject in [each for each in self._faults if each[0] == _NODE and each not in known]:
            del self._faults[subject]
        for code, topic, _, partitions, *_ in response.topics:
            error, subject = for_code(code), ("topic", topic)
            is_missing = error is UnknownTopicOrPartitionError
            leaderless = {
                Partition(topic, each[1])
                for each in partitions
                if each[2] == _NO_LEADER or each[0] == LeaderNotAvailableError.errno
            }
            _keep(self._missing, {topic}, {topic} if is_missing else (), self._steady())
            others = [each for each in self._offline if each.topic == topic]
            _keep(self._offline, others, leaderless, self._steady())
            if error is NoError:
                self._faults.pop(subject, None)
            else:
                detail = f"{topic}: {text_of(error())}"
                self._note(subject, FaultKind.REFUSED, detail, is_missing=is_missing)

    def _past_grace_period(self, found: Mapping[Lacking, float]) -> list[Lacking]:
        """Return those missing for longer than the grace period: elections and new topics take a moment."""
        now = self._steady()
        return [each for each, since in found.items() if now - since >= GRACE_SECONDS]

    def _is_needed(self, node: object) -> bool:
        """Return whether a broker leads assigned partitions, or none answers; else others may be enough."""
        leads = bool(self._client.cluster.partitions_for_broker(node))
        return leads or self._steady() - self.answered_at > CURRENT_SECONDS

    def _address(self, node: object) -> str:
        broker = self._client.cluster.broker_metadata(node) if self._client is not None else None
        return f"{broker.host}:{broker.port}" if broker is not None else f"broker {node}"


def _keep(
    known: dict[Lacking, float], asked: Iterable[Lacking], found: Collection[Lacking], now: float
) -> None:
    """Replace the requested entries by those found, keeping the time each was first found."""
    kept = {each: known.get(each, now) for each in found}
    for each in asked:
        known.pop(each, None)
    known.update(kept)


def _codes(api: int, response: Any) -> Iterator[tuple[tuple[Hashable, ...], str, int]]:
    """Yield the error codes of an answer, each with its subject as a key and as text."""
    if api in _OF_PARTITIONS:
        for topic, partitions in response.topics:
            for partition, code, *_ in partitions:
                yield (api, topic, partition), f"{topic}/{partition}: ", code
        return
    rows = getattr(response, "errors", None) or getattr(response, "topics", None)
    if rows:
        # Each row ends with its code, or with the code and tags. The first error stands for all: mostly they
        # have one cause.
        codes = [each[-1 - isinstance(each[-1], dict)] for _, partitions, *_ in rows for each in partitions]
        unexpected = (code for code in codes if code not in {NoError.errno, *_EXPECTED})
        yield (api,), "", next(unexpected, NoError.errno)
    elif hasattr(response, "error_code"):
        yield (api,), "", response.error_code
