"""Reconnect aiokafka 0.14 clients after an outage.

By itself a client asks only the brokers of its newest metadata, so brokers that come back under other
addresses are never found (KIP-899). It retries without a pause, keeps the certificates and passwords that it
started with, and lets brokers create the topics that it asks about. `keep_connected` changes this for a
client that has not started yet. aiokafka has no hooks for it, so methods of the client are replaced.
"""

from __future__ import annotations

import asyncio
import logging
import random
from collections.abc import Callable
from typing import Any, Final, cast

from aiokafka.client import ConnectionGroup
from aiokafka.conn import create_conn
from aiokafka.errors import KafkaConnectionError, KafkaError
from aiokafka.protocol.metadata import MetadataRequest

from relay.io.kafka.clients import Brokers

METADATA_PAUSE_SECONDS = 0.1
#: How long to wait before the next attempt to connect to a broker, by the number of failures in a row.
CONNECT_PAUSES_SECONDS: Final = (0.1, 0.2, 0.4, 0.8, 1.0)
#: How long no known broker may answer before the bootstrap servers are asked.
REBOOTSTRAP_SECONDS = 2.0

_log = logging.getLogger("aiokafka.client")


def keep_connected(client: Any, brokers: Brokers) -> None:
    """Make an `AIOKafkaClient` reconnect to its brokers. Call this once, before the client starts."""
    _pace_metadata(client)
    connector = Connector(client, brokers)
    client.bootstrap = connector.bootstrap
    client._get_conn = connector.connection
    client._metadata_update = connector.update_metadata


class _Pause:
    """The pause between attempts to connect to one address."""

    def __init__(self) -> None:
        self.attempt = asyncio.Lock()
        self._failures, self._until = 0, 0.0

    @property
    def is_over(self) -> bool:
        """Return whether the next attempt may be made."""
        return asyncio.get_running_loop().time() >= self._until

    def begin(self) -> None:
        """Pause after a failure, longer after each one."""
        seconds = CONNECT_PAUSES_SECONDS[min(self._failures, len(CONNECT_PAUSES_SECONDS) - 1)]
        self._failures += 1
        self._until = asyncio.get_running_loop().time() + seconds

    def end(self) -> None:
        """Forget the failures."""
        self._failures, self._until = 0, 0.0


class Connector:
    """Connect one client."""

    def __init__(self, client: Any, brokers: Brokers) -> None:
        self._client, self._brokers = client, brokers
        self._connect = client._get_conn
        self._pauses: dict[object, _Pause] = {}
        # Since when no broker of the newest metadata has answered.
        self._unanswered_since: float | None = None
        self._bootstrap_pause = _Pause()

    async def bootstrap(self) -> None:
        """Fetch the first metadata. Raises KafkaConnectionError.

        The client's own bootstrap would wait for an unresponsive server for longer than a start may take.
        """
        client = self._client
        for host, port, _ in client.hosts:
            if await self._ask_at(host, port, MetadataRequest([]), client.cluster):
                break
        else:
            self._brokers.renew()
            raise KafkaConnectionError(f"Unable to bootstrap from {client.hosts}")
        if client._sync_task is None:
            client._sync_task = asyncio.create_task(client._md_synchronizer())

    async def connection(
        self, node_id: object, *, group: ConnectionGroup = ConnectionGroup.DEFAULT, no_hint: bool = False
    ) -> Any:
        """Return a connection to a broker; None if it fails, or if the next attempt has to wait."""
        connected = self._client._conns.get((node_id, group))
        if connected is not None and connected.connected():
            return connected
        broker = self._client.cluster.broker_metadata(node_id)
        address = None if broker is None else (broker.host, broker.port)
        pause = self._pauses.setdefault(address, _Pause())
        async with pause.attempt:
            if not pause.is_over:
                return None
            self._take_credentials()
            found = None
            try:
                async with asyncio.timeout(self._brokers.timeouts.connect_seconds):
                    found = await self._connect(node_id, group=group, no_hint=no_hint)
            except TimeoutError:
                _log.error("Unable to connect to node with id %s: no answer in time", node_id)
            if found is not None:
                pause.end()
                _retrieve_end(found)
            else:
                self._after_failure(pause)
        return found

    async def update_metadata(self, cluster: Any, topics: set[str]) -> bool:
        """Request metadata without creating topics. Return whether a broker has answered."""
        client = self._client
        request = MetadataRequest([*topics] if topics else None, allow_auto_topic_creation=False)
        nodes = [broker.nodeId for broker in client.cluster.brokers()]
        for node_id in random.sample(nodes, len(nodes)):
            connection = await self.connection(node_id)
            if connection is not None and await self.ask(connection, request, cluster):
                self._unanswered_since = None
                return True
        if await self._ask_bootstrap_servers(request, cluster):
            return True
        cluster.failed_update(None)
        return False

    async def _ask_bootstrap_servers(self, request: MetadataRequest, cluster: Any) -> bool:
        """Ask the bootstrap servers if the known brokers have not answered for a while."""
        now = asyncio.get_running_loop().time()
        if self._unanswered_since is None:
            self._unanswered_since = now
        if now - self._unanswered_since < REBOOTSTRAP_SECONDS or not self._bootstrap_pause.is_over:
            return False
        for host, port, _ in self._client.hosts:
            if await self._ask_at(host, port, request, cluster):
                self._unanswered_since = None
                self._pauses.clear()
                return True
        self._after_failure(self._bootstrap_pause)
        return False

    async def _ask_at(self, host: str, port: int, request: MetadataRequest, cluster: Any) -> bool:
        client, connection = self._client, None
        try:
            async with asyncio.timeout(self._brokers.timeouts.connect_seconds):
                connection = await create_conn(
                    host,
                    port,
                    client_id=client._client_id,
                    request_timeout_ms=client._request_timeout_ms,
                    **self._brokers.arguments,
                )
                _retrieve_end(connection)
                return await self.ask(connection, request, cluster)
        except (OSError, KafkaError, TimeoutError) as error:
            _log.error('Unable to connect to "%s:%s": %s', host, port, error)
            return False
        finally:
            if connection is not None:
                connection.close()

    async def ask(self, connection: Any, request: MetadataRequest, cluster: Any) -> bool:
        """Send a request for metadata on a connection, and return whether a broker has answered it."""
        try:
            metadata = await connection.send(request)
        except (KafkaError, TimeoutError) as error:
            _log.warning("Unable to request metadata from %s: %s", connection, error)
            return False
        if not metadata.brokers:
            return False
        cluster.update_metadata(metadata)
        return True

    def _after_failure(self, pause: _Pause) -> None:
        """Pause, unless certificates or passwords have changed: these are tried at once."""
        if not self._brokers.renew():
            pause.begin()

    def _take_credentials(self) -> None:
        for name, value in self._brokers.arguments.items():
            setattr(self._client, f"_{name}", value)


def retrieve(future: asyncio.Future[Any]) -> None:
    """Retrieve the exception of an abandoned future: asyncio would report it as never retrieved."""
    if not future.cancelled():
        future.exception()


def _retrieve_end(connection: Any) -> None:
    """Retrieve the error with which a connection ends.

    Otherwise, asyncio reports it as never retrieved if the garbage collector reaches the future before its
    owner. TLS ends with an error if a broker's answer arrives after relay has closed the connection.
    """
    connection._protocol._closed.add_done_callback(retrieve)


def _pace_metadata(client: Any) -> None:
    """Limit how often a client requests metadata: if a topic is missing, it asks again after every answer."""
    update: Callable[[], asyncio.Future[bool]] = client.force_metadata_update
    next_at = 0.0
    later: asyncio.Future[bool] | None = None

    def ask() -> asyncio.Future[bool]:
        nonlocal next_at
        next_at = asyncio.get_running_loop().time() + METADATA_PAUSE_SECONDS
        return update()

    def ask_later(asked: asyncio.Future[bool]) -> None:
        def answered(answer: asyncio.Future[bool]) -> None:
            if not asked.done():
                asked.set_result(not answer.cancelled() and answer.result())

        ask().add_done_callback(answered)

    def paced() -> asyncio.Future[bool]:
        nonlocal later
        loop = asyncio.get_running_loop()
        if client._md_update_fut is not None:
            # One request is under way: its answer serves this caller, too.
            return update()
        if (left := next_at - loop.time()) <= 0:
            return ask()
        if later is None or later.done():
            later = loop.create_future()
            loop.call_later(left, ask_later, later)
        return cast("asyncio.Future[bool]", asyncio.shield(later))

    client.force_metadata_update = paced
