"""OAUTHBEARER: Spark's Java client asks for tokens as the service does, and a real broker takes them."""

from __future__ import annotations

import base64
import json
import threading
import time
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, HTTPServer
from pathlib import Path
from typing import Any, NamedTuple

import pytest
from broker_support import broker_options
from cryptography.hazmat.primitives.asymmetric import padding, rsa
from cryptography.hazmat.primitives.hashes import SHA256
from spark.test_topics import contents, expected_of, of_topic, topics_config

from relay.config import SecurityConfig
from relay.config.kafka import security_settings, source_cluster
from relay.demo.kafka import Node, Ports, free_ports, kafka_jars
from relay.io.kafka.settings import ClusterSettings
from relay.model.errors import ConfigError
from spark_backfill.brokers import JavaAdmin, allowed_urls, client_options
from spark_backfill.job import TopicsRun

# One broker with tokens is enough.
pytestmark = pytest.mark.kafka
LOGIN = "org.apache.kafka.common.security.oauthbearer"
PROPERTIES = """
listeners=PLAINTEXT://127.0.0.1:{plain},CONTROLLER://127.0.0.1:{controller},BEARER://127.0.0.1:{bearer}
advertised.listeners=PLAINTEXT://127.0.0.1:{plain},BEARER://127.0.0.1:{bearer}
listener.security.protocol.map=CONTROLLER:PLAINTEXT,PLAINTEXT:PLAINTEXT,BEARER:SASL_PLAINTEXT
inter.broker.listener.name=PLAINTEXT
listener.name.bearer.sasl.enabled.mechanisms=OAUTHBEARER
listener.name.bearer.sasl.oauthbearer.jwks.endpoint.url={keys}
listener.name.bearer.oauthbearer.sasl.server.callback.handler.class={login}.OAuthBearerValidatorCallbackHandler
listener.name.bearer.oauthbearer.sasl.jaas.config={login}.OAuthBearerLoginModule required;
"""


def _text(data: bytes) -> str:
    return base64.urlsafe_b64encode(data).rstrip(b"=").decode()


class Issuer:
    """Signs tokens, and gives them for client credentials."""

    def __init__(self, folder: Path) -> None:
        self._key = rsa.generate_private_key(65537, 2048)
        numbers = self._key.public_key().public_numbers()
        n, e = (
            _text(number.to_bytes((number.bit_length() + 7) // 8, "big")) for number in (numbers.n, numbers.e)
        )
        self.keys = folder / "keys.json"
        self.keys.write_text(
            json.dumps({"keys": [{"kty": "RSA", "kid": "k", "alg": "RS256", "use": "sig", "n": n, "e": e}]})
        )
        self.asked: list[tuple[str, str]] = []

    def token(self) -> str:
        now = int(time.time())
        parts = (
            {"alg": "RS256", "kid": "k"},
            {"sub": "relay", "iat": now - 10, "exp": now + 3600, "scope": "kafka"},
        )
        signed = ".".join(_text(json.dumps(part).encode()) for part in parts)
        return f"{signed}.{_text(self._key.sign(signed.encode(), padding.PKCS1v15(), SHA256()))}"

    def handler(self) -> type[BaseHTTPRequestHandler]:
        issuer = self

        class Handler(BaseHTTPRequestHandler):
            def do_POST(self) -> None:
                form = self.rfile.read(int(self.headers["Content-Length"])).decode()
                issuer.asked.append((self.headers["Authorization"], form))
                body = json.dumps({"access_token": issuer.token(), "expires_in": 3600}).encode()
                self.send_response(200)
                self.send_header("Content-Type", "application/json")
                self.send_header("Content-Length", str(len(body)))
                self.end_headers()
                self.wfile.write(body)

            def log_message(self, *_: object) -> None:
                pass

        return Handler


class TokenBroker(NamedTuple):
    plain: str
    bearer: str
    endpoint: str
    issuer: Issuer


@pytest.fixture(scope="module")
def bearer(tmp_path_factory: pytest.TempPathFactory) -> Iterator[TokenBroker]:
    """A broker that takes tokens which are signed, and who signs them."""
    folder = tmp_path_factory.mktemp("bearer")
    issuer = Issuer(folder)
    plain, controller, port = free_ports(3)
    properties = PROPERTIES.format(
        plain=plain, controller=controller, bearer=port, keys=issuer.keys.as_uri(), login=LOGIN
    )
    allowed = f"-Dorg.apache.kafka.sasl.oauthbearer.allowed.urls={issuer.keys.as_uri()}"
    options = broker_options(allowed, properties=properties)
    node = Node(folder / "node", kafka_jars(), 1, {1: Ports(plain, controller)}, options)
    server = HTTPServer(("127.0.0.1", 0), issuer.handler())
    threading.Thread(target=server.serve_forever, daemon=True).start()
    node.start()
    try:
        node.wait_ready()
        yield TokenBroker(
            f"127.0.0.1:{plain}",
            f"127.0.0.1:{port}",
            f"http://127.0.0.1:{server.server_address[1]}/token",
            issuer,
        )
    finally:
        node.terminate()
        node.wait_stopped(20)
        server.shutdown()
        server.server_close()


def endpoint_security(broker: TokenBroker) -> dict[str, Any]:
    credentials = {"client_id": "relay", "client_secret": 'se"cret\\', "scope": "kafka"}
    return {
        "protocol": "SASL_PLAINTEXT",
        "mechanism": "OAUTHBEARER",
        "token_endpoint": broker.endpoint,
        **credentials,
    }


async def test_topics_are_read_and_written_with_tokens_of_an_endpoint(
    spark: Any, bearer: TokenBroker, kafka_at: Any, tmp_path: Path
) -> None:
    async with kafka_at(bearer.plain) as kafka:
        source, target = await kafka.topic(), await kafka.topic()
        records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
        await kafka.produce(source, records)
        servers = {
            "bootstrap_servers": bearer.bearer,
            "topics": [source],
            "security": endpoint_security(bearer),
        }
        config = topics_config(kafka, source, target, tmp_path, source=servers)
        allowed = allowed_urls(client_options(source_cluster(config)))
        assert allowed == f"org.apache.kafka.sasl.oauthbearer.allowed.urls={bearer.endpoint}"
        spark._jvm.java.lang.System.setProperty(*allowed.split("=", 1))
        TopicsRun(spark, config).run()
        expected = expected_of(config, records)
        found = contents(await kafka.read(target, len(expected[0])))
    assert found == expected
    # The Java client and the service's ask alike, but for the escapes of the secret that RFC 6749 names and
    # Java leaves out.
    (asked,) = {
        base64.b64decode(given.split()[1]).decode()
        for given, _ in bearer.issuer.asked
        if "%22" not in _plain(given)
    }
    assert asked == 'relay:se"cret\\'
    assert {form for _, form in bearer.issuer.asked} == {"grant_type=client_credentials&scope=kafka"}


def _plain(given: str) -> str:
    return base64.b64decode(given.split()[1]).decode()


def test_a_token_of_a_file_is_taken(spark: Any, bearer: TokenBroker, tmp_path: Path) -> None:
    file = tmp_path / "token"
    file.write_text(bearer.issuer.token())
    security = SecurityConfig.model_validate(
        {"protocol": "SASL_PLAINTEXT", "mechanism": "OAUTHBEARER", "token_file": str(file)}
    )
    cluster = ClusterSettings(bearer.bearer, security_settings(security, "source.security"))
    options = client_options(cluster)
    spark._jvm.java.lang.System.setProperty(*allowed_urls(options).split("=", 1))
    admin = JavaAdmin(spark, options)
    try:
        assert admin.cluster_id()
    finally:
        admin.close()
    file.unlink()
    with pytest.raises(ConfigError, match=r"source\.security\.token_file: .* cannot be read"):
        client_options(cluster)
