"""Brokers that come back under other addresses, certificates and passwords that are renewed, and how often relay
tries to connect.
"""

from __future__ import annotations

import asyncio
import contextlib
import contextvars
import datetime
import gc
import ssl
import subprocess
import time
import uuid
from collections import defaultdict
from collections.abc import AsyncIterator
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from aiokafka.client import AIOKafkaClient
from aiokafka.conn import AIOKafkaConnection, CloseReason
from broker_support import broker_options
from secured_support import GROUP, TOPIC, Secured, pkcs8
from servers_support import talking
from service.resilience_support import MODES, Echo, committed, numbered

from relay.demo.kafka import Cluster, free_ports, java_binary, kafka_jars
from relay.io.kafka import reconnecting
from relay.io.kafka.clients import Brokers
from relay.io.kafka.requests import Operation
from relay.io.kafka.settings import Security, Timeouts
from relay.service.loop.settings import LoopSettings

pytestmark = pytest.mark.kafka


class Moving:
    """A broker that may move, and the address that stays: something forwards it to the broker."""

    def __init__(self, cluster: Cluster) -> None:
        (self._node,) = cluster.nodes
        self.address = ""
        self._server: Any = None

    async def listen(self) -> None:
        self._server = await asyncio.start_server(self._forward, "127.0.0.1", 0)
        self.address = f"127.0.0.1:{self._server.sockets[0].getsockname()[1]}"

    async def close(self) -> None:
        self._server.close()

    async def move(self) -> None:
        """Stop the broker and start it elsewhere, with the same data."""
        await asyncio.to_thread(self._node.kill)
        (port,) = free_ports(1)
        old, properties = f"PLAINTEXT://127.0.0.1:{self._node.port},", self._node.properties
        text = properties.read_text()
        assert old in text
        properties.write_text(text.replace(old, f"PLAINTEXT://127.0.0.1:{port},"))
        self._node.port = port
        self._node.start()
        await asyncio.to_thread(self._node.wait_ready)

    async def _forward(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        with contextlib.suppress(OSError):
            there, here = await asyncio.open_connection("127.0.0.1", self._node.port)
            await asyncio.gather(_copy(reader, here), _copy(there, writer))
        writer.close()


async def _copy(reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
    with contextlib.suppress(OSError):
        while data := await reader.read(65_536):
            writer.write(data)
            await writer.drain()
    writer.close()


@pytest.fixture
async def moving(own_cluster: Cluster) -> AsyncIterator[Moving]:
    found = Moving(own_cluster)
    await found.listen()
    yield found
    await found.close()


async def test_brokers_come_back_under_another_address(
    moving: Moving, kafka: Any, kafka_at: Any, make_config: Any, run_relay: Any
) -> None:
    """In both modes, with source, target and schema history at this broker, or the target alone: with exactly-once
    the progress topic is there, too.
    """
    of_both, of_target = dict[str, Any](), dict[str, Any]()
    async with kafka_at(moving.address) as other:
        for mode, settings in MODES.items():
            source, target = await other.topic(2), await other.topic(2)
            config = make_config(source, target, source_bootstrap_servers=moving.address, **settings)
            of_both[mode] = run_relay(config, Echo(target))
            await other.produce(source, numbered(100))
            source, target = await kafka.topic(2), await other.topic(2)
            progress = {"delivery_progress_topic": f"progress-{target}"} if mode == "exactly-once" else {}
            config = make_config(
                source, target, target_bootstrap_servers=moving.address, **settings, **progress
            )
            of_target[mode] = run_relay(config, Echo(target))
            await kafka.produce(source, numbered(100))
        for mode in MODES:
            await committed(other, of_both[mode], 100)
            await other.until(lambda mode=mode: _has(other, of_target[mode].config.target.topic, 100))
    await moving.move()
    for relay in of_target.values():
        await kafka.produce(relay.config.source.topics[0], numbered(100, start=100))
    began = time.monotonic()

    async def is_complete(relay: Any) -> bool:
        assert relay.status.checks["source"].ok, relay.status.checks["source"]
        return await _has(other, relay.config.target.topic, 200)

    async with kafka_at(moving.address) as other:
        for relay in of_both.values():
            await other.produce(relay.config.source.topics[0], numbered(100, start=100))
        for mode in MODES:
            await other.until(lambda mode=mode: is_complete(of_target[mode]))
            await committed(other, of_both[mode], 200)
        assert time.monotonic() - began < 60
        for relay in (*of_target.values(), *of_both.values()):
            assert await relay.stop() == 0
        for relay in of_both.values():
            found = await other.read(relay.config.target.topic, committed=True)
            assert {int(each.value or b"") for each in found} == set(range(200))


async def _has(kafka: Any, topic: str, count: int) -> bool:
    found = {each.value for each in await kafka.read(topic, committed=True)}
    return len(found) == count


# ---------------------------------------------------------------- certificates and passwords


def break_connections() -> None:
    """Close all connections of relays, as the network does."""
    for each in [found for found in gc.get_objects() if isinstance(found, AIOKafkaConnection)]:
        if each._client_id == "relay" and each.connected():
            each.close(reason=CloseReason.CONNECTION_BROKEN)


#: The name of the relay that tries to connect: its tasks have it from the one that starts them.
_TRYING = contextvars.ContextVar("_TRYING", default="")


def started_as(name: str, run_relay: Any, *given: Any) -> Any:
    """Start a relay whose attempts to connect have a name."""
    token = _TRYING.set(name)
    try:
        return run_relay(*given)
    finally:
        _TRYING.reset(token)


@pytest.fixture
def attempts(monkeypatch: pytest.MonkeyPatch) -> dict[str, list[float]]:
    """When relays have tried to connect, by their names."""
    times: dict[str, list[float]] = defaultdict(list)
    connect = AIOKafkaConnection.connect

    async def counted(self: Any) -> Any:
        if self._client_id == "relay":
            times[_TRYING.get()].append(time.monotonic())
        return await connect(self)

    monkeypatch.setattr(AIOKafkaConnection, "connect", counted)
    return times


async def granted(secured: Secured, user: str) -> tuple[str, str]:
    """Make a source and a target that a user may use, and a group of the same name as the source's."""
    source, target = [await secured.topic(1, retention_ms="-1") for _ in range(2)]
    await secured.grant(TOPIC, source, Operation.READ, user=user)
    await secured.grant(TOPIC, target, Operation.WRITE, Operation.DESCRIBE_CONFIGS, user=user)
    await secured.grant(GROUP, f"g-{source}", Operation.READ, user=user)
    return source, target


def issue(secured: Secured, folder: Path, seconds: float) -> None:
    """Write relay's certificate and key, for so long."""
    until = datetime.datetime.now(datetime.UTC) + datetime.timedelta(seconds=seconds)
    leaf = secured.ca.issue_cert("relay@example.com", not_after=until)
    (folder / "client.pem").write_bytes(pkcs8(leaf))


async def test_a_renewed_certificate_is_read_when_the_old_one_is_refused(
    secured: Secured,
    kafka_at: Any,
    run_relay: Any,
    tmp_path: Path,
    attempts: dict[str, list[float]],
) -> None:
    issue(secured, tmp_path, 12)
    expires = time.monotonic() + 12
    source, target = await granted(secured, "*")
    file = str(tmp_path / "client.pem")
    security = secured.security(
        protocol="SSL", certificate_file=file, key_file=file, mechanism=None, username=None, password=None
    )
    config = secured.config("MUTUAL", source, target, security)
    async with kafka_at(secured.address("PLAINTEXT")) as kafka:
        await kafka.produce(source, numbered(10, partitions=1))
        relay = run_relay(config, Echo(target))
        await committed(kafka, relay, 10)
        await asyncio.sleep(max(0.0, expires + 1 - time.monotonic()))
        break_connections()
        await kafka.produce(source, numbered(10, partitions=1, start=10))
        await kafka.until(lambda: says(relay, "refuses relay's certificate"))
        began = time.monotonic()
        attempts.clear()
        await asyncio.sleep(4)
        # Source and target, each with connections to one broker and to its bootstrap servers.
        assert len(attempts[""]) < 8 * (time.monotonic() - began)
        issue(secured, tmp_path, 3600)
        await committed(kafka, relay, 20)
        assert await relay.stop() == 0


async def test_a_renewed_password_is_read_when_the_old_one_is_refused(
    secured: Secured, kafka_at: Any, run_relay: Any, tmp_path: Path
) -> None:
    user = f"u-{uuid.uuid4().hex[:8]}"
    await set_password(secured, user, "first-battery")
    source, target = await granted(secured, user)
    (tmp_path / "password").write_text("first-battery\n")
    security = secured.security(username=user, password=None, password_file=str(tmp_path / "password"))
    config = secured.config("SASL_SSL", source, target, security)
    async with kafka_at(secured.address("PLAINTEXT")) as kafka:
        await kafka.produce(source, numbered(10, partitions=1))
        relay = run_relay(config, Echo(target))
        await committed(kafka, relay, 10)
        await set_password(secured, user, "second-battery")
        break_connections()
        await kafka.produce(source, numbered(10, partitions=1, start=10))
        await kafka.until(lambda: says(relay, f"refuses user {user}"))
        (tmp_path / "password").write_text("second-battery\n")
        await committed(kafka, relay, 20)
        assert await relay.stop() == 0
        assert "battery" not in str(relay.log.events)


async def says(relay: Any, text: str) -> bool:
    """Whether a check that fails has the broker's reason."""
    assert not relay.has_ended, relay.log.events[-3:]
    return any(text in check.detail for check in relay.status.checks.values() if not check.ok)


async def set_password(secured: Secured, user: str, password: str) -> None:
    command = [
        str(java_binary()),
        *broker_options().java,
        "-cp",
        f"{kafka_jars()}/*",
        "kafka.admin.ConfigCommand",
    ]
    command += ["--bootstrap-server", secured.address("PLAINTEXT"), "--alter", "--entity-type", "users"]
    command += ["--entity-name", user, "--add-config", f"SCRAM-SHA-512=[password={password}]"]
    done = await asyncio.to_thread(subprocess.run, command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr


# ---------------------------------------------------------------- pace


async def test_a_history_that_is_gone_is_asked_for_now_and_then(
    kafka: Any, make_config: Any, run_relay: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its reader's client asks for metadata as long as the topic is gone."""
    asked: list[float] = []
    ask = reconnecting.Connector.ask

    async def counted(self: Any, *given: Any) -> bool:
        asked.append(time.monotonic())
        return await ask(self, *given)

    monkeypatch.setattr(reconnecting.Connector, "ask", counted)
    source, target = await kafka.topic(), await kafka.topic()
    relay = run_relay(make_config(source, target), Echo(target))
    await kafka.produce(source, numbered(10, partitions=1))
    await committed(kafka, relay, 10)
    await kafka.admin.delete_topics([relay.config.history_topic])
    await asyncio.sleep(1)
    asked.clear()
    began = time.monotonic()
    await asyncio.sleep(3)
    assert len(asked) < 25 * (time.monotonic() - began)
    assert await relay.stop() == 0


@pytest.mark.slow
async def test_an_outage_floods_neither_brokers_nor_the_log(
    own_cluster: Cluster, kafka_at: Any, make_config: Any, run_relay: Any, attempts: dict[str, list[float]]
) -> None:
    """Neither of attempts to connect nor of log lines, in both modes."""
    relays, servers = dict[str, Any](), own_cluster.bootstrap_servers
    async with kafka_at(servers) as kafka:
        for mode, settings in MODES.items():
            source, target = await kafka.topic(2), await kafka.topic(2)
            config = make_config(source, target, source_bootstrap_servers=servers, **settings)
            relays[mode] = started_as(mode, run_relay, config, Echo(target))
            await kafka.produce(source, numbered(100))
        for relay in relays.values():
            await committed(kafka, relay, 100)
    await asyncio.to_thread(own_cluster.nodes[0].kill)
    attempts.clear()
    began = time.monotonic()
    lines = {mode: len(relay.log.named("kafka.client")) for mode, relay in relays.items()}
    await asyncio.sleep(15)
    seconds = time.monotonic() - began
    # Of the clients of source, target and history, and of looks at the reasons.
    assert {mode: len(times) < 10 * seconds for mode, times in attempts.items()} == dict.fromkeys(MODES, True)
    for mode, relay in relays.items():
        said = relay.log.named("kafka.client")[lines[mode] :]
        assert len(said) <= 15, [each["message"] for each in said]
    await asyncio.to_thread(own_cluster.nodes[0].restart)
    async with kafka_at(servers) as kafka:
        for relay in relays.values():
            await kafka.produce(relay.config.source.topics[0], numbered(100, start=100))
        for relay in relays.values():
            await committed(kafka, relay, 200)
            assert await relay.stop() == 0


async def test_a_bootstrap_server_that_is_of_marks_keeps_no_relay_from_starting(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    """The next one of the list is asked, before the time of a start is over."""
    settings = LoopSettings(timeouts=Timeouts(connect_seconds=1.0))
    source, target = await kafka.topic(), await kafka.topic()
    async with talking(None) as silent:
        servers = f"{silent},{kafka.bootstrap_servers}"
        config = make_config(source, target, source_bootstrap_servers=servers)
        relay = run_relay(config, Echo(target), settings)
        await kafka.produce(source, numbered(10, partitions=1))
        await committed(kafka, relay, 10)
        assert await relay.stop() == 0


class CollectedLate(asyncio.StreamReaderProtocol):
    """A protocol whose future is collected first: it cannot retrieve the error itself."""

    def __del__(self) -> None:
        pass


async def test_a_new_topic_takes_one_request_for_metadata() -> None:
    """A producer asks twice when it meets a topic: the second call shares the answer to the first."""
    client = AIOKafkaClient()
    reconnecting.keep_connected(client, Brokers("localhost:9092", Security(table="source.security"), {}))
    asked: list[set[str]] = []

    async def update(cluster: object, topics: set[str]) -> bool:
        asked.append({*topics})
        await asyncio.sleep(0.01)
        return True

    client._metadata_update = update
    synchronizer = asyncio.create_task(client._md_synchronizer())
    assert all(await asyncio.gather(client.add_topic("orders"), client.force_metadata_update()))
    synchronizer.cancel()
    assert asked == [{"orders"}]


async def test_the_error_with_which_tls_ends_is_not_reported() -> None:
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda _, context: reported.append(context["message"]))
    connection = SimpleNamespace(_protocol=CollectedLate(asyncio.StreamReader()))

    async def connect(node_id: object, **arguments: object) -> object:
        return connection

    client = SimpleNamespace(
        _conns={}, _get_conn=connect, cluster=SimpleNamespace(broker_metadata=lambda _: None)
    )
    brokers = Brokers("localhost:9092", Security(table="source.security"), {})
    await reconnecting.Connector(client, brokers).connection(1)
    vars(connection).pop("_protocol").connection_lost(ssl.SSLError("application data after close notify"))
    await asyncio.sleep(0)
    gc.collect()
    assert reported == []
