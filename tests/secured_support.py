"""One Apache Kafka with many listeners: TLS, SASL, client certificates, and the usual mistakes; permissions
by ACLs.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import datetime
import json
import os
import tempfile
import time
import uuid
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import trustme
from aiokafka import AIOKafkaConsumer, AIOKafkaProducer
from aiokafka.admin import AIOKafkaAdminClient, NewTopic
from aiokafka.protocol.admin import CreateAclsRequest
from broker_support import broker_options
from cryptography.hazmat.primitives.serialization import (
    Encoding,
    NoEncryption,
    PrivateFormat,
    load_pem_private_key,
)

from relay.config import Config, SecurityConfig
from relay.config.kafka import security_settings, source_cluster, target_cluster
from relay.demo.kafka import DemoExtraMissing, Node, Ports, free_ports, kafka_jars
from relay.io.kafka.clients import Brokers, Clusters
from relay.io.kafka.requests import Operation
from relay.io.kafka.settings import DEFAULT_TIMEOUTS, ClusterSettings, Timeouts

USER, PASSWORD = "relay", "correct-horse"
STRANGER = "stranger"
# What no output may show.
SECRETS = (PASSWORD, "wrong-battery", "client-battery", "key-battery")
TOPIC, GROUP, TRANSACTIONAL_ID = 2, 3, 5
_LITERAL, _ALLOW = 3, 3

# name → protocol. SESSIONS ends each login after two seconds, LOST is advertised under a name that does not exist, EXPIRED and OTHER_NAME have such
# certificates.
LISTENERS = {
    "PLAINTEXT": "PLAINTEXT",
    "SASL_SSL": "SASL_SSL",
    "SASL_PLAIN": "SASL_PLAINTEXT",
    "SESSIONS": "SASL_SSL",
    "MUTUAL": "SSL",
    "EXPIRED": "SSL",
    "OTHER_NAME": "SSL",
    "LOST": "PLAINTEXT",
}

# Topics come into being when a careless client asks for them: the checks must not be one.
PROPERTIES = """
auto.create.topics.enable=true
listeners={listeners}
advertised.listeners={advertised}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,{protocols}
inter.broker.listener.name=PLAINTEXT
sasl.enabled.mechanisms=PLAIN,SCRAM-SHA-256,SCRAM-SHA-512,OAUTHBEARER
listener.name.sasl_plain.sasl.enabled.mechanisms=PLAIN
listener.name.sessions.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.sessions.oauthbearer.connections.max.reauth.ms=2000
ssl.keystore.type=PEM
ssl.keystore.location={folder}/server.pem
ssl.truststore.type=PEM
ssl.truststore.location={folder}/ca.pem
listener.name.mutual.ssl.client.auth=required
listener.name.expired.ssl.keystore.location={folder}/expired.pem
listener.name.expired.ssl.keystore.type=PEM
listener.name.other_name.ssl.keystore.location={folder}/other_name.pem
listener.name.other_name.ssl.keystore.type=PEM
authorizer.class.name=org.apache.kafka.metadata.authorizer.StandardAuthorizer
super.users=User:ANONYMOUS
"""
_SCRAM = "org.apache.kafka.common.security.scram.ScramLoginModule required;"
_PLAIN = f'org.apache.kafka.common.security.plain.PlainLoginModule required user_{USER}="{PASSWORD}" user_{STRANGER}="{PASSWORD}";'
_BEARER = 'org.apache.kafka.common.security.oauthbearer.OAuthBearerLoginModule required unsecuredLoginStringClaim_sub="broker";'
JAAS = {
    "sasl_ssl.plain": _PLAIN,
    "sasl_plain.plain": _PLAIN,
    "sasl_ssl.scram-sha-256": _SCRAM,
    "sasl_ssl.scram-sha-512": _SCRAM,
    "sasl_ssl.oauthbearer": _BEARER,
    "sessions.oauthbearer": _BEARER,
}


def security_of(**settings: Any) -> SecurityConfig:
    """The table with these keys."""
    return SecurityConfig(**settings)


def brokers_of(
    security: SecurityConfig,
    servers: str = "",
    table: str = "source.security",
    timeouts: Timeouts = DEFAULT_TIMEOUTS,
) -> Brokers:
    """The brokers of one cluster with these settings."""
    return Brokers.from_settings(ClusterSettings(servers, security_settings(security, table)), timeouts)


def arguments_of(security: SecurityConfig) -> dict[str, Any]:
    """What clients are made with."""
    return brokers_of(security).arguments


def clusters_of(config: Config) -> Clusters:
    """The brokers of a configuration."""
    return Clusters.from_settings(source_cluster(config), target_cluster(config))


def pkcs8(leaf: trustme.LeafCert) -> bytes:
    """Key and certificates as Kafka reads them: trustme writes keys in another form."""
    key = load_pem_private_key(leaf.private_key_pem.bytes(), None).private_bytes(
        Encoding.PEM, PrivateFormat.PKCS8, NoEncryption()
    )
    return key + b"".join(pem.bytes() for pem in leaf.cert_chain_pems)


def token(subject: str = USER, seconds: float = 3600) -> str:
    """A token that the broker's validator for tests takes: a JWS without signature."""
    now = time.time()
    parts = {"alg": "none"}, {"sub": subject, "iat": now - 10, "exp": now + seconds}
    return (
        ".".join(base64.urlsafe_b64encode(json.dumps(part).encode()).rstrip(b"=").decode() for part in parts)
        + "."
    )


async def there_and_back(servers: str, settings: dict[str, Any], topic: str) -> bytes:
    """Write a record and read it as a member of a group, with the same settings, after the admin client has
    examined the topic.
    """
    admin = AIOKafkaAdminClient(bootstrap_servers=servers, **settings)
    await admin.start()
    try:
        deadline = asyncio.get_running_loop().time() + 30
        # Permissions arrive at the brokers some moments after they are given.
        while (await admin.describe_topics([topic]))[0]["error_code"]:
            assert asyncio.get_running_loop().time() < deadline
            await asyncio.sleep(0.05)
    finally:
        await admin.close()
    async with AIOKafkaProducer(bootstrap_servers=servers, enable_idempotence=True, **settings) as producer:
        await producer.send_and_wait(topic, b"secret agent")
    consumer = AIOKafkaConsumer(
        topic, bootstrap_servers=servers, group_id=topic, auto_offset_reset="earliest", **settings
    )
    async with consumer, asyncio.timeout(30):
        record = await consumer.getone()
        await consumer.commit()
        return bytes(record.value)


class Secured:
    """The broker, its certificates, and what tests do with it as its superuser."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.ca = trustme.CA()
        self._ports = dict(zip([*LISTENERS, "CONTROLLER"], free_ports(len(LISTENERS) + 1), strict=True))
        self._certificates()
        sasl = "".join(f"listener.name.{name}.sasl.jaas.config={text}\n" for name, text in JAAS.items())
        # Nobody kills this one, and on a busy machine it may be late with its heartbeats: then it would be
        # fenced, with its topics.
        patient = "broker.session.timeout.ms=30000\n"
        options = broker_options(
            properties=self._properties() + sasl + patient, format_args=tuple(self._scram_users())
        )
        ports = Ports(self._ports["PLAINTEXT"], self._ports["CONTROLLER"])
        self.node = Node(folder / "node", kafka_jars(), 1, {1: ports}, options)

    def address(self, listener: str, host: str = "127.0.0.1") -> str:
        return f"{host}:{self._ports[listener]}"

    def security(self, **settings: Any) -> SecurityConfig:
        """What a client of SASL_SSL needs, with some keys set otherwise."""
        tables = {
            "protocol": "SASL_SSL",
            "ca_file": str(self.folder / "ca.pem"),
            "mechanism": "SCRAM-SHA-512",
            "username": USER,
            "password": PASSWORD,
        }
        return SecurityConfig(
            **{key: value for key, value in (tables | settings).items() if value is not None}
        )

    def _properties(self) -> str:
        ports = [(name, self._ports[name]) for name in LISTENERS]
        advertised = [
            (name, "broker.invalid" if name == "LOST" else "127.0.0.1", port) for name, port in ports
        ]
        return PROPERTIES.format(
            listeners=",".join(
                f"{name}://127.0.0.1:{port}"
                for name, port in [*ports, ("CONTROLLER", self._ports["CONTROLLER"])]
            ),
            advertised=",".join(f"{name}://{host}:{port}" for name, host, port in advertised),
            protocols=",".join(f"{name}:{protocol}" for name, protocol in LISTENERS.items()),
            folder=self.folder,
        )

    def _certificates(self) -> None:
        past = datetime.datetime(2020, 1, 1, tzinfo=datetime.UTC)
        self.ca.cert_pem.write_to_path(str(self.folder / "ca.pem"))
        trustme.CA().cert_pem.write_to_path(str(self.folder / "other_ca.pem"))
        leaves = {
            "server": self.ca.issue_cert("localhost", "127.0.0.1"),
            "expired": self.ca.issue_cert("127.0.0.1", not_after=past),
            "other_name": self.ca.issue_cert("kafka.example.com"),
            "client": self.ca.issue_cert("relay@example.com"),
            "foreign_client": trustme.CA().issue_cert("relay@example.com"),
        }
        for name, leaf in leaves.items():
            (self.folder / f"{name}.pem").write_bytes(pkcs8(leaf))

    def _scram_users(self) -> Iterator[str]:
        for mechanism in ("SCRAM-SHA-256", "SCRAM-SHA-512"):
            for user in (USER, STRANGER):
                yield "--add-scram"
                yield f"{mechanism}=[name={user},password={PASSWORD}]"

    @contextlib.asynccontextmanager
    async def admin(self) -> Any:
        client = AIOKafkaAdminClient(bootstrap_servers=self.address("PLAINTEXT"))
        await client.start()
        try:
            yield client
        finally:
            await client.close()

    async def topic(self, partitions: int = 1, **configs: str) -> str:
        name = f"t-{uuid.uuid4().hex[:12]}"
        settings = {key.replace("_", "."): value for key, value in configs.items()}
        async with self.admin() as admin:
            await admin.create_topics([NewTopic(name, partitions, 1, topic_configs=settings)])
            deadline = time.monotonic() + 30
            while True:
                (found,) = await admin.describe_topics([name])
                if len(found["partitions"]) == partitions and all(
                    each["leader"] >= 0 for each in found["partitions"]
                ):
                    return name
                assert time.monotonic() < deadline
                await asyncio.sleep(0.05)

    async def grant(self, kind: int, name: str, *operations: Operation, user: str = USER) -> None:
        """Allow a user something on one resource."""
        async with self.admin() as admin:
            for operation in operations:
                request = CreateAclsRequest(kind, name, _LITERAL, f"User:{user}", "*", int(operation), _ALLOW)
                (answer,) = (await admin._send_request(request)).creation_responses
                assert answer[0] == 0, answer

    def config(
        self, listener: str, source: str, target: str, security: SecurityConfig | None, /, **tables: Any
    ) -> Config:
        """A route between two topics of this broker, both over one listener."""
        given: dict[str, Any] = {
            "route": {"from": "ticdc-canal-json", "to": "canal-json"},
            "source": {
                "bootstrap_servers": self.address(listener),
                "topics": [source],
                "group_id": f"g-{source}",
            },
            "target": {"topic": target},
            "schema": {"history_topic": ""},
        }
        if security is not None:
            given["source"]["security"] = security
        for name, table in tables.items():
            given[name] = given.get(name, {}) | table
        return Config(**given)


@contextlib.contextmanager
def running() -> Iterator[Secured]:
    """Start the broker, and stop it at the end."""
    with tempfile.TemporaryDirectory(prefix="relay-secured-", ignore_cleanup_errors=True) as folder:
        try:
            broker = Secured(Path(folder))
        except DemoExtraMissing as error:
            if os.environ.get("CI"):
                pytest.fail(str(error))
            pytest.skip(str(error))
        broker.node.start()
        try:
            broker.node.wait_ready()
            yield broker
        finally:
            broker.node.terminate()
            broker.node.wait_stopped(5)
