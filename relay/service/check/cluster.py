"""Query one cluster without changing it: reachable brokers, topics, permissions."""

from __future__ import annotations

import asyncio
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Any, NamedTuple

from aiokafka.admin.config_resource import ConfigResourceType
from aiokafka.errors import IncompatibleBrokerVersion, KafkaError, for_code
from aiokafka.protocol.admin import DescribeConfigsRequest
from aiokafka.protocol.commit import OffsetFetchRequest
from aiokafka.protocol.coordination import FindCoordinatorRequest
from aiokafka.protocol.transaction import EndTxnRequest, InitProducerIdRequest

from relay.config.addresses import Address, parse_server, split_servers
from relay.io.kafka.admin import SETTINGS, TopicInfo
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.clients import Brokers
from relay.io.kafka.requests import UNKNOWN_OPERATIONS, GroupsRequest, TopicsRequest, TransactionsRequest
from relay.io.kafka.settings import Mechanism
from relay.service.check.connectivity import Unreachable, close, connect

#: How long a broker may be busy: a new cluster first creates the topics for coordinators.
BUSY_SECONDS = 10.0
_PAUSE_SECONDS = 0.2
_GROUP, _TRANSACTION = 0, 1
_LOADING, _NO_COORDINATOR, _NOT_COORDINATOR, _CONCURRENT = 14, 15, 16, 51
_BUSY = {_LOADING, _NO_COORDINATOR, _NOT_COORDINATOR, _CONCURRENT}
_GROUP_UNKNOWN = 69
#: A bit field without any operation.
_NOTHING = 0
_GROUP_NOT_ALLOWED, _CLUSTER_NOT_ALLOWED, _TRANSACTION_NOT_ALLOWED = 30, 31, 53
_TRANSACTION_UNKNOWN = 105
# Answers for a producer id that does not exist, if the client may use the transactional id: none, an invalid
# epoch, state or producer id, a newer producer, an unknown transactional id.
_NO_SUCH_PRODUCER = {0, 47, 48, 49, 90, 105}


class BrokerUnresponsive(Exception):
    """A reachable broker does not answer a request; the text has the reason."""


class RequestUnsupported(BrokerUnresponsive):
    """A broker does not have this request; some brokers other than Kafka lack a few."""


class TopicDescription(NamedTuple):
    """A topic as the cluster describes it.

    `code`: Kafka's error code. `partitions`: partition number to leader, -1 for none.
    """

    name: str
    code: int
    partitions: Mapping[int, int]
    operations: int
    settings: Mapping[str, str] | None

    @property
    def error(self) -> str:
        """Return the error as text."""
        return text_of(for_code(self.code)())

    @property
    def found(self) -> TopicInfo | None:
        """Return the topic in the form of the startup checks; None if there is an error."""
        return None if self.code else TopicInfo(len(self.partitions), self.settings, not self.leaderless)

    @property
    def leaderless(self) -> list[int]:
        """Return partitions that can be neither read nor written."""
        return sorted(number for number, leader in self.partitions.items() if leader < 0)


class Group(NamedTuple):
    """A consumer group.

    Its type and assignor ("" while it has no members), the client id and host of each member, and the
    permitted operations.
    """

    kind: str = ""
    assignor: str = ""
    members: tuple[tuple[str, str], ...] = ()
    operations: int = UNKNOWN_OPERATIONS


class ShardTransaction(NamedTuple):
    """The newest transaction of a transactional id, as its coordinator reports it.

    `state`: Kafka's `TransactionState`, such as Ongoing or CompleteCommit. `started_ms`: when it began, -1 if
    it has ended with some brokers.
    """

    state: str
    producer_id: int
    epoch: int
    started_ms: int

    @property
    def is_open(self) -> bool:
        """Return whether it has not ended."""
        return self.state in {"Ongoing", "PrepareCommit", "PrepareAbort"}


class ClusterInspection:
    """One cluster. Call `connect` first and `close` at the end; requests go to the first broker reached.

    `bootstrap` and `advertised`: per broker, why it cannot be used, None if it can. `addresses`: those that
    the brokers advertise. `operations`: permitted operations on the cluster as a whole.
    """

    def __init__(self, brokers: Brokers) -> None:
        self.brokers = brokers
        self.bootstrap: dict[Address, Unreachable | None] = {}
        self.advertised: list[tuple[int, Address, Unreachable | None]] = []
        self.addresses: frozenset[Address] = frozenset()
        self.first: Address | None = None
        self.operations = UNKNOWN_OPERATIONS
        self._connections: dict[Address | None, Any] = {}

    @property
    def is_reached(self) -> bool:
        """Return whether any broker was reached."""
        return self.first is not None

    @property
    def how(self) -> str:
        """Return how the brokers were reached."""
        security = self.brokers.security
        how = f"answers with {security.protocol}"
        if not security.protocol.uses_sasl:
            return how
        how += f", logged in with {security.mechanism}"
        if name := security.shown_user:
            how += f" as {name}"
        if security.mechanism is Mechanism.PLAIN and not security.protocol.uses_tls:
            how += "; the password went over the network in clear text"
        return how

    async def connect(self) -> None:
        """Try every address that is configured, then every other one that the brokers advertise."""
        given = list(dict.fromkeys(map(parse_server, split_servers(self.brokers.servers))))
        tried = await asyncio.gather(*(self._try(address) for address in given))
        self.bootstrap = {address: problem for address, (problem, _) in zip(given, tried, strict=True)}
        self.first = next((address for address in given if not self.bootstrap[address]), None)
        advertised = {node: address for _, found in tried for node, address in found.items()}
        self.addresses = frozenset(advertised.values())
        others = [
            (node, address) for node, address in sorted(advertised.items()) if address not in self.bootstrap
        ]
        further = await asyncio.gather(*(self._try(address) for _, address in others))
        self.advertised = [(*other, problem) for other, (problem, _) in zip(others, further, strict=True)]

    async def _try(self, address: Address) -> tuple[Unreachable | None, dict[int, Address]]:
        try:
            reached = await connect(address, self.brokers)
        except Unreachable as problem:
            return problem, {}
        self._connections[address] = reached.connection
        return None, reached.advertised

    async def close(self) -> None:
        """Close all connections."""
        await asyncio.gather(*(close(connection) for connection in self._connections.values()))

    async def topics(self, names: Iterable[str]) -> dict[str, TopicDescription]:
        """Describe topics without creating any. Raises BrokerUnresponsive.

        Settings are None without permission to read them, or if the broker does not report them.
        """
        wanted = sorted(set(names))
        answer = await self._ask(TopicsRequest(wanted))
        self.operations = getattr(answer, "cluster_operations", UNKNOWN_OPERATIONS)
        raw = {topic[1]: topic for topic in answer.topics}
        settings = await self._settings([name for name, topic in raw.items() if topic[0] == 0])
        found = {}
        for name in wanted:
            code, _, _, partitions, *operations = raw[name]
            leaders = {number: leader for _, number, leader, *_ in partitions}
            found[name] = TopicDescription(
                name, code, leaders, operations[0] if operations else UNKNOWN_OPERATIONS, settings.get(name)
            )
        return found

    async def _settings(self, names: list[str]) -> dict[str, Mapping[str, str]]:
        if not names:
            return {}
        asked = [(ConfigResourceType.TOPIC, name, list(SETTINGS)) for name in names]
        try:
            answer = await self._ask(DescribeConfigsRequest(asked))
        except RequestUnsupported:
            return {}
        return {
            name: {entry[0]: entry[1] for entry in entries if entry[1] is not None}
            for code, _, _, name, entries, *_ in answer.resources
            if code == 0
        }

    async def group(self, name: str) -> Group | str:
        """Describe a consumer group; or return, as text, why the description is unavailable."""
        answer = await self._ask_coordinator(_GROUP, name, GroupsRequest([name]))
        if isinstance(answer, str):
            return answer
        if isinstance(answer, int):
            code, found = answer, Group()
        else:
            ((code, _, _, kind, assignor, members, *operations),) = answer.groups
            clients = tuple((client, host.lstrip("/")) for _, client, host, *_ in members)
            found = Group(kind, assignor, clients, operations[0] if operations else UNKNOWN_OPERATIONS)
        if code == _GROUP_UNKNOWN:
            # Some brokers answer this for a group that was never used.
            return Group()
        if code == _GROUP_NOT_ALLOWED:
            return Group(operations=_NOTHING)
        return _unexpected(code) if code else found

    async def committed(
        self, group: str, partitions: Mapping[str, Sequence[int]]
    ) -> dict[tuple[str, int], int] | str:
        """Return the committed offsets of a group; or, as text, why they are unknown."""
        request = OffsetFetchRequest(group, [(topic, [*each]) for topic, each in partitions.items()])
        answer = await self._ask_coordinator(_GROUP, group, request)
        if isinstance(answer, str):
            return answer
        code = answer if isinstance(answer, int) else getattr(answer, "error_code", 0)
        if code == _GROUP_UNKNOWN:
            return {}
        if code:
            return _unexpected(code)
        return {
            (topic, number): offset
            for topic, each in answer.topics
            for number, offset, _, error in each
            if not error and offset >= 0
        }

    async def longest_transaction_ms(self, name: str) -> int | None:
        """Return the brokers' maximum transaction timeout in milliseconds; None if they do not report it."""
        key = "transaction.max.timeout.ms"

        async def ask() -> Any:
            coordinator = await self._ask(FindCoordinatorRequest(name, _TRANSACTION))
            if coordinator.error_code:
                return coordinator.error_code
            wanted = [(ConfigResourceType.BROKER, str(coordinator.coordinator_id), [key])]
            address = Address(coordinator.host, coordinator.port)
            return await self._ask(DescribeConfigsRequest(wanted), address)

        answer = await self._patiently(ask)
        if isinstance(answer, int | str):
            return None
        values = [
            entry[1] for code, _, _, _, entries, *_ in answer.resources if not code for entry in entries
        ]
        return int(values[0]) if values and values[0] else None

    async def may_use_transactional_id(self, name: str) -> bool | str:
        """Return whether a transactional id may be used; or, as text, why that is unknown.

        The request ends a transaction of a nonexistent producer: the broker checks the permission first, and
        then refuses. A producer that currently uses the id is not affected. Kafka answers that the producer
        is unknown; other brokers return different errors, or none.
        """
        answer = await self._ask_coordinator(_TRANSACTION, name, EndTxnRequest(name, -1, -1, False))
        if isinstance(answer, str):
            return answer
        code = answer if isinstance(answer, int) else answer.error_code
        if code == _TRANSACTION_NOT_ALLOWED:
            return False
        return True if code in _NO_SUCH_PRODUCER else _unexpected(code)

    async def transaction(self, name: str) -> ShardTransaction | str | None:
        """Return the newest transaction of a transactional id, None if the brokers know none.

        Or, as text, why it is unknown: the request needs Kafka 3.0 and DESCRIBE on the transactional id.
        """
        answer = await self._ask_coordinator(_TRANSACTION, name, TransactionsRequest(name))
        if isinstance(answer, str):
            return answer
        if isinstance(answer, int):
            return _unexpected(answer)
        ((code, _, state, _, started_ms, producer_id, epoch, *_),) = answer.transactions
        if code == _TRANSACTION_UNKNOWN:
            return None
        return _unexpected(code) if code else ShardTransaction(state, producer_id, epoch, started_ms)

    async def may_write_idempotently(self) -> bool | str:
        """Return whether an idempotent producer is allowed.

        The broker allocates a producer id, which stays unused.
        """
        answer = await self._patiently(lambda: self._ask(InitProducerIdRequest(None, 60_000)))
        if isinstance(answer, str):
            return answer
        if answer.error_code == _CLUSTER_NOT_ALLOWED:
            return False
        return _unexpected(answer.error_code) if answer.error_code else True

    async def _ask_coordinator(self, kind: int, key: str, request: Any) -> Any:
        """Ask the coordinator of a group or transactional id.

        Return its answer, an error code, or the reason for a missing answer as text.
        """

        async def ask() -> Any:
            coordinator = await self._ask(FindCoordinatorRequest(key, kind))
            address = Address(coordinator.host, coordinator.port)
            return coordinator.error_code or await self._ask(request, address)

        return await self._patiently(ask)

    async def _patiently(self, ask: Callable[[], Awaitable[Any]]) -> Any:
        """Repeat a request while the broker is busy.

        Return its answer, or the reason for a missing answer as text.
        """
        clock = asyncio.get_running_loop().time
        deadline = clock() + BUSY_SECONDS
        try:
            while True:
                answer = await ask()
                if _code_of(answer) not in _BUSY or clock() > deadline:
                    return answer
                await asyncio.sleep(_PAUSE_SECONDS)
        except BrokerUnresponsive as reason:
            return str(reason)

    async def _ask(self, request: Any, address: Address | None = None) -> Any:
        """Send a request to a broker, by default the first one reached. Raises BrokerUnresponsive."""
        asked = address or self.first
        if asked not in self._connections and asked is not None and (await self._try(asked))[0]:
            raise BrokerUnresponsive(f"its coordinator, {asked}, cannot be reached")
        try:
            return await self._connections[asked].send(request)
        # Raised by aiokafka if the broker lacks the request, or if no version is known to both.
        except (IncompatibleBrokerVersion, NotImplementedError) as error:
            raise RequestUnsupported(
                f"the broker at {asked} does not support this request: {error}"
            ) from error
        except (OSError, KafkaError, TimeoutError) as error:
            raise BrokerUnresponsive(f"the broker at {asked} stopped answering: {text_of(error)}") from error


def _code_of(answer: Any) -> int:
    if isinstance(answer, int):
        return answer
    parts = getattr(answer, "groups", None) or getattr(answer, "transactions", None)
    return int(parts[0][0] if parts else getattr(answer, "error_code", 0))


def _unexpected(code: int) -> str:
    return f"the broker answers: {text_of(for_code(code)())}"
