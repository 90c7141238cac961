"""What a fault is played on: a broker behind a forwarder or three brokers, a relay process, a feeder of its
source topic, and a Prometheus that scrapes it.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import subprocess
import sys
import time
import urllib.error
import urllib.request
import uuid
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

from aiokafka import AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.errors import KafkaError
from aiokafka.protocol.admin import CreateAclsRequest
from broker_support import broker_options

from faults.forwarder import Forwarder, forwarding
from relay.demo.kafka import Cluster, free_ports
from relay.io.kafka.aiokafka_compat import within
from relay.model.records import ConsumerRecord
from relay.service.loop.history import history_record

USER, PASSWORD = "relay", "correct-horse"
#: relay's own listener, which the forwarder stands in front of; the harness uses the broker's first one.
_RELAYS_LISTENER = """\
listeners={listeners},RELAY://127.0.0.1:{behind}
advertised.listeners=PLAINTEXT://127.0.0.1:{broker},RELAY://127.0.0.1:{port}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,RELAY:SASL_PLAINTEXT
sasl.enabled.mechanisms=PLAIN
listener.name.relay.plain.sasl.jaas.config=org.apache.kafka.common.security.plain.PlainLoginModule required \
user_{user}="{password}";
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
allow.everyone.if.no.acl.found=true
"""
_SECURITY = f"""
[source.security]
protocol = "SASL_PLAINTEXT"
mechanism = "PLAIN"
username = "{USER}"
password = "{PASSWORD}"
"""
_TOPIC, _LITERAL, _DENY, _WRITE = 2, 3, 2, 4
START_SECONDS = 120.0
#: Offsets of statements that only the history has.
_REMEMBERED = 1_000_000


class Brokers:
    """A cluster and how the harness changes it. `servers`: relay's addresses."""

    def __init__(self, cluster: Cluster, forwarder: Forwarder | None) -> None:
        self.cluster, self.forwarder = cluster, forwarder
        self.servers = f"127.0.0.1:{forwarder.port}" if forwarder else cluster.bootstrap_servers
        self.security = _SECURITY if forwarder else ""

    @contextlib.asynccontextmanager
    async def admin(self) -> AsyncIterator[Any]:
        """Connect as the superuser."""
        admin = AIOKafkaAdminClient(bootstrap_servers=self.cluster.bootstrap_servers)
        await admin.start()
        try:
            yield admin
        finally:
            await admin.close()

    async def create(self, topic: str, replicas: dict[int, list[int]] | None = None) -> None:
        """Create a topic with these replicas of its partitions, by default one, and wait for its leaders."""
        new = NewTopic(
            topic, -1, -1, replica_assignments=replicas or {0: [1]}, topic_configs={"retention.ms": "-1"}
        )
        async with self.admin() as admin:
            await admin.create_topics([new])
            async with asyncio.timeout(START_SECONDS):
                while True:
                    (found,) = await admin.describe_topics([topic])
                    if found["partitions"] and all(each["leader"] >= 0 for each in found["partitions"]):
                        return
                    await asyncio.sleep(0.05)

    async def delete(self, topic: str) -> None:
        """Delete a topic."""
        async with self.admin() as admin:
            await admin.delete_topics([topic])

    async def exists(self, topic: str) -> bool:
        """Whether there is such a topic."""
        async with self.admin() as admin:
            return topic in await admin.list_topics()

    async def deny_writing(self, topic: str) -> None:
        """Take relay the right to write to a topic."""
        async with self.admin() as admin:
            request = CreateAclsRequest(_TOPIC, topic, _LITERAL, f"User:{USER}", "*", _WRITE, _DENY)
            ((code, *_),) = (await admin._send_request(request)).creation_responses
            assert code == 0


@contextlib.asynccontextmanager
async def one_broker(folder: Path) -> AsyncIterator[Brokers]:
    """Start a broker behind a forwarder."""
    cluster = Cluster(folder, options=broker_options())
    behind, port = free_ports(2)
    properties = folder / "node-1" / "server.properties"
    lines = [line.split("=", 1) for line in properties.read_text().splitlines() if "=" in line]
    listeners = dict(lines)["listeners"]
    with properties.open("a") as file:
        # The last line of a key wins.
        file.write(
            _RELAYS_LISTENER.format(
                listeners=listeners,
                behind=behind,
                broker=cluster.nodes[0].port,
                port=port,
                user=USER,
                password=PASSWORD,
            )
        )
    async with forwarding(port, behind) as forwarder:
        await asyncio.to_thread(cluster.start)
        try:
            yield Brokers(cluster, forwarder)
        finally:
            await asyncio.to_thread(cluster.stop)


@contextlib.asynccontextmanager
async def three_brokers(folder: Path) -> AsyncIterator[Brokers]:
    """Start three brokers, of which relay's own topics need one alone."""
    cluster = Cluster(folder, nodes=3, options=broker_options())
    await asyncio.to_thread(cluster.start)
    try:
        yield Brokers(cluster, None)
    finally:
        await asyncio.to_thread(cluster.stop)


def message(number: int, *, ddl: bool = False, poison: bool = False) -> bytes:
    """A message of TiCDC Canal-JSON: a row, a statement, or something else."""
    if poison:
        return b"no message"
    text = f"ALTER TABLE t COMMENT = '{number}'" if number else "CREATE TABLE t (id INT PRIMARY KEY)"
    now = 1_790_000_000_000 + number
    types = {
        "sqlType": {"id": 4},
        "mysqlType": {"id": "int"},
        "data": [{"id": str(number)}],
        "pkNames": ["id"],
    }
    nothing = dict.fromkeys(("sqlType", "mysqlType", "data", "pkNames"))
    common = {"id": 0, "database": "shop", "table": "t", "old": None, "es": now, "ts": now}
    row = {"type": "INSERT", "isDdl": False, "sql": ""} | types
    statement = {"type": "ALTER" if number else "CREATE", "isDdl": True, "sql": text} | nothing
    extension = {"_tidb": {"commitTs": now << 18}}
    return json.dumps(common | (statement if ddl else row) | extension).encode()


class Feeder:
    """Writes messages into a topic until it is stopped; what brokers refuse is left out."""

    def __init__(self, brokers: Brokers, topic: str) -> None:
        self._brokers, self._topic = brokers, topic
        self._number = 1
        #: Every how many messages comes one that is a statement, or none at all; 0 for none.
        self.ddl_every = self.poison_every = 0
        self.batch, self.pause_seconds = 1, 0.1

    async def run(self) -> None:
        """Write until cancelled."""
        while True:
            with contextlib.suppress(KafkaError, TimeoutError):
                await self._write()
            await asyncio.sleep(self.pause_seconds)

    async def _write(self) -> None:
        servers = self._brokers.cluster.bootstrap_servers
        producer = AIOKafkaProducer(bootstrap_servers=servers, request_timeout_ms=5000)
        try:
            await producer.start()
            while True:
                waiting = [await producer.send(self._topic, self._next()) for _ in range(self.batch)]
                for outcome in await asyncio.gather(*waiting, return_exceptions=True):
                    if isinstance(outcome, BaseException):
                        raise outcome
                await asyncio.sleep(self.pause_seconds)
        finally:
            # Where the topic or the broker is gone, its stop takes very long.
            await within(1.0, producer.stop())

    def _next(self) -> bytes:
        number, self._number = self._number, self._number + 1
        return message(
            number,
            ddl=bool(self.ddl_every) and number % self.ddl_every == 0,
            poison=bool(self.poison_every) and number % self.poison_every == 0,
        )

    async def remember(self, history: str, tables: int) -> None:
        """Write the statements of many tables into a schema history."""
        async with AIOKafkaProducer(bootstrap_servers=self._brokers.cluster.bootstrap_servers) as producer:
            for number in range(tables):
                value = message(0, ddl=True).replace(b"TABLE t ", b"TABLE t%d " % number)
                value = value.replace(b'"table": "t"', b'"table": "t%d"' % number)
                record = ConsumerRecord(self._topic, 0, _REMEMBERED + number, 0, None, value)
                kept = history_record(record, history)
                await producer.send(history, kept.value, kept.key)
            await producer.flush()


class RelayProcess:
    """One `relay run`, asked over HTTP."""

    def __init__(
        self, brokers: Brokers, folder: Path, *, processes: int = 1, mode: str = "at-least-once"
    ) -> None:
        folder.mkdir()
        name = uuid.uuid4().hex[:8]
        self.source, self.target = f"source-{name}", f"target-{name}"
        self.history, self.dead_letters = f"history-{name}", f"dead-{name}"
        (self.port,) = free_ports(1)
        self._log_path, self._config = folder / f"{name}.log", folder / f"{name}.toml"
        self._config.write_text(
            f"""[route]
from = "ticdc-canal-json"
to = "canal-json"
[source]
bootstrap_servers = "{brokers.servers}"
topics = ["{self.source}"]
group_id = "{name}"
session_timeout_ms = 3000
rebalance_timeout_ms = 6000
{brokers.security}
[target]
topic = "{self.target}"
[schema]
history_topic = "{self.history}"
[errors]
decode = "dead-letter"
max_initial_failures = 0
dead_letter_topic = "{self.dead_letters}"
on_max_failure_ratio = "degrade"
max_failure_ratio = 1.0
[delivery]
mode = "{mode}"
processes = {processes}
drain_timeout_seconds = 3
[http]
port = {self.port}
"""
        )
        self._process: subprocess.Popen[bytes] | None = None

    def start(self) -> None:
        """Start it."""
        with self._log_path.open("wb") as log:
            command = [sys.executable, "-m", "relay", "run", "--config", str(self._config)]
            self._process = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=log, stderr=log)

    def stop(self) -> None:
        """Stop it, by force if that is necessary."""
        if self._process is not None:
            self._process.terminate()
            try:
                self._process.wait(15)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    @property
    def log(self) -> list[dict[str, Any]]:
        """What it has logged."""
        lines = self._log_path.read_text(errors="replace").splitlines()
        return [json.loads(line) for line in lines if line.startswith("{")]

    async def get(self, path: str) -> str:
        """Return the body of an answer; "" without one."""

        def get() -> str:
            try:
                with urllib.request.urlopen(f"http://127.0.0.1:{self.port}{path}", timeout=5) as answer:
                    return str(answer.read().decode())
            except urllib.error.HTTPError as error:
                with error:
                    return error.read().decode()
            except OSError:
                return ""

        return await asyncio.to_thread(get)

    async def status(self) -> dict[str, Any]:
        """Return /status; {} without an answer."""
        found: dict[str, Any] = json.loads(await self.get("/status") or "{}")
        return found

    async def until_written(self, records: int) -> None:
        """Wait until it has written that many records, and all of its processes are at work."""
        deadline = time.monotonic() + START_SECONDS
        while True:
            status = await self.status()
            if status.get("state") == "running" and status["records"]["written"] >= records:
                return
            assert self._process is not None
            assert self._process.poll() is None, self._log_path.read_text()[-2000:]
            assert time.monotonic() < deadline, self._log_path.read_text()[-2000:]
            await asyncio.sleep(0.1)
