"""Why a broker cannot be reached: every mistake has a distinct error, on a real broker."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from aiokafka.conn import AIOKafkaConnection
from secured_support import PASSWORD, SECRETS, USER, Secured, brokers_of, security_of, token
from servers_support import talking

from relay.config import SecurityConfig
from relay.config.addresses import parse_server
from relay.demo.kafka import free_ports
from relay.io.kafka.settings import DEFAULT_TIMEOUTS, Timeouts
from relay.service.check.connectivity import Unreachable, connect
from relay.service.check.route import diagnosis

pytestmark = pytest.mark.kafka


async def unreachable(
    servers: str, security: SecurityConfig, timeouts: Timeouts = DEFAULT_TIMEOUTS
) -> Unreachable:
    """Why the only address cannot be used."""
    address = parse_server(servers)
    with pytest.raises(Unreachable) as raised:
        async with asyncio.timeout(30):
            await connect(address, brokers_of(security, timeouts=timeouts))
    assert not any(secret in str(raised.value) for secret in SECRETS)
    return raised.value


def tls(secured: Secured, **settings: str) -> SecurityConfig:
    return security_of(**({"protocol": "SSL", "ca_file": str(secured.folder / "ca.pem")} | settings))


@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
async def test_an_unknown_host(protocol: str) -> None:
    problem = await unreachable("kafka.invalid:9092", security_of(protocol=protocol))
    assert problem.what.startswith("cannot resolve the host kafka.invalid")


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost"])
async def test_no_broker(host: str) -> None:
    (port,) = free_ports(1)
    problem = await unreachable(f"{host}:{port}", SecurityConfig())
    assert problem.what == "nothing listens there (connection refused)"


@pytest.mark.parametrize(
    "answer", [b"HTTP/1.1 400 Bad Request\r\n\r\n", b"\0\0\0\x06\0\0\0\x01\0\0", b"", None]
)
@pytest.mark.parametrize("protocol", ["PLAINTEXT", "SSL"])
async def test_what_is_no_kafka(answer: bytes | None, protocol: str) -> None:
    hasty = Timeouts(connect_seconds=1.0, step_seconds=1.0)
    async with talking(answer) as address:
        problem = await unreachable(address, security_of(protocol=protocol), hasty)
    assert problem.what == "the server does not answer as a Kafka broker"


async def test_plain_text_and_tls_are_distinguished(secured: Secured) -> None:
    problem = await unreachable(secured.address("PLAINTEXT"), tls(secured))
    assert problem.what == "the broker speaks plain text, but protocol is SSL"
    assert 'protocol = "PLAINTEXT" in [source.security]' in problem.hint
    problem = await unreachable(secured.address("SASL_PLAIN"), secured.security(mechanism="PLAIN"))
    assert 'protocol = "SASL_PLAINTEXT"' in problem.hint
    for listener in ("MUTUAL", "SASL_SSL"):
        problem = await unreachable(secured.address(listener), SecurityConfig())
        assert problem.what == "the broker speaks TLS, but protocol is PLAINTEXT"
        assert 'protocol = "SSL"' in problem.hint


async def test_an_untrusted_certificate(secured: Secured) -> None:
    problem = await unreachable(
        secured.address("SASL_SSL"), tls(secured, ca_file=str(secured.folder / "other_ca.pem"))
    )
    assert problem.what.startswith("its certificate is not trusted by the certificates in ca_file")
    problem = await unreachable(secured.address("SASL_SSL"), security_of(protocol="SSL"))
    assert problem.what.startswith("its certificate is not trusted by the system's certificates")
    assert "set ca_file in [source.security]" in problem.hint


async def test_an_expired_certificate(secured: Secured) -> None:
    assert (await unreachable(secured.address("EXPIRED"), tls(secured))).what == "its certificate has expired"


async def test_a_certificate_for_another_name_says_for_which(secured: Secured) -> None:
    problem = await unreachable(secured.address("OTHER_NAME"), tls(secured))
    assert problem.what == "its certificate is not for 127.0.0.1, but for kafka.example.com"


async def test_a_client_certificate_that_is_missing_or_not_trusted(secured: Secured) -> None:
    problem = await unreachable(secured.address("MUTUAL"), tls(secured))
    assert problem.what.startswith("the broker requires a client certificate, and relay has none")
    foreign = str(secured.folder / "foreign_client.pem")
    problem = await unreachable(
        secured.address("MUTUAL"), tls(secured, certificate_file=foreign, key_file=foreign)
    )
    assert problem.what.startswith("the broker refuses relay's certificate (sslv3 alert certificate unknown)")


async def test_the_alert_is_found_when_the_connection_breaks_before_it(
    secured: Secured, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A broker that closes at once may take its alert with it; a second, silent handshake gets it."""

    async def broken(connection: Any) -> None:
        raise ConnectionResetError

    monkeypatch.setattr(AIOKafkaConnection, "connect", broken)
    problem = await unreachable(secured.address("MUTUAL"), tls(secured))
    assert problem.what.startswith("the broker requires a client certificate, and relay has none")


@pytest.mark.parametrize("mechanism", ["PLAIN", "SCRAM-SHA-256", "SCRAM-SHA-512"])
async def test_a_wrong_password(secured: Secured, mechanism: str) -> None:
    for changed in ({"password": "wrong-battery"}, {"username": "nobody"}):
        given = secured.security(mechanism=mechanism, **changed)
        problem = await unreachable(secured.address("SASL_SSL"), given)
        assert problem.what.startswith(
            f"the broker refuses user {given.username} with {mechanism}: Authentication failed"
        )
        assert problem.hint.startswith("check username and password in [source.security]")


async def test_a_mechanism_that_is_not_offered(secured: Secured) -> None:
    given = security_of(
        protocol="SASL_PLAINTEXT", mechanism="SCRAM-SHA-512", username=USER, password=PASSWORD
    )
    problem = await unreachable(secured.address("SASL_PLAIN"), given)
    assert problem.what == "the broker does not offer the mechanism SCRAM-SHA-512; it offers PLAIN"


async def test_sasl_where_there_is_none_and_none_where_there_is(secured: Secured) -> None:
    given = security_of(protocol="SASL_PLAINTEXT", username=USER, password=PASSWORD)
    problem = await unreachable(secured.address("PLAINTEXT"), given)
    assert problem.what == "the broker does not use SASL, but protocol is SASL_PLAINTEXT"
    problem = await unreachable(secured.address("SASL_SSL"), tls(secured))
    assert (
        problem.what
        == "the broker requires SASL (OAUTHBEARER, PLAIN, SCRAM-SHA-256, SCRAM-SHA-512), but protocol is SSL"
    )
    assert 'set protocol = "SASL_SSL"' in problem.hint
    problem = await unreachable(secured.address("SASL_PLAIN"), SecurityConfig())
    assert problem.what == "the broker requires SASL (PLAIN), but protocol is PLAINTEXT"


async def test_a_token_that_is_refused_or_missing(secured: Secured, tmp_path: Any) -> None:
    path = tmp_path / "token"
    path.write_text(token(seconds=-60))
    given = secured.security(mechanism="OAUTHBEARER", username=None, password=None, token_file=str(path))
    problem = await unreachable(secured.address("SASL_SSL"), given)
    assert problem.what == "the broker refuses the token: invalid_token"
    brokers = brokers_of(given)
    path.unlink()
    address = parse_server(secured.address("SASL_SSL"))
    with pytest.raises(Unreachable, match=r"no token to log in with: the token file .* cannot be read"):
        await connect(address, brokers)


async def test_why_a_client_could_not_bootstrap(secured: Secured) -> None:
    (port,) = free_ports(1)
    given = secured.security(password="wrong-battery")
    servers = f"127.0.0.1:{port},{secured.address('SASL_SSL')}"
    said = await diagnosis(brokers_of(given, servers, "target.security"))
    assert f"127.0.0.1:{port}: nothing listens there" in said
    assert "check username and password in [target.security]" in said
    good = secured.security()
    assert await diagnosis(brokers_of(good, secured.address("SASL_SSL"), "target.security")) == ""
