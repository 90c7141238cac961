"""Whether a broker can be reached, and if not, why: step by step, where aiokafka says `Unable to bootstrap`
for everything.

Name, TCP, TLS, the first request, SASL, and the first request that needs all of them. Where a step fails,
further connections find out what is really there: plain text where TLS was tried, TLS where plain text was,
SASL where none was.
"""

from __future__ import annotations

import asyncio
import contextlib
import errno
import socket
import ssl
from typing import Any, NamedTuple

from aiokafka.conn import AIOKafkaConnection
from aiokafka.errors import KafkaError, SaslAuthenticationFailed
from aiokafka.protocol.admin import SaslAuthenticateRequest, SaslHandShakeRequest

from relay.config import Config, Security
from relay.config.addresses import Address
from relay.kafka.clients import Settings
from relay.kafka.oauth import NoToken
from relay.kafka.permissions import TopicsRequest

STEP_SECONDS = 5.0
REQUEST_SECONDS = 10.0
_ALERT_SECONDS = 1.0
_ILLEGAL_SASL_STATE = 34
# OpenSSL's numbers (X509_V_ERR_…).
_NOT_YET_VALID, _EXPIRED, _HOST_MISMATCH, _ADDRESS_MISMATCH = 9, 10, 62, 64
_UNTRUSTED = {2, 18, 19, 20, 21}


class Access(NamedTuple):
    """How brokers of a cluster are spoken to; `key` is the table's name in the configuration, for messages."""

    security: Security
    settings: Settings
    key: str

    @classmethod
    def to_source(cls, config: Config, settings: Settings) -> Access:
        """Access to the source's brokers."""
        return cls(config.source.security, settings, "source.security")

    @classmethod
    def to_target(cls, config: Config, settings: Settings) -> Access:
        """Access to the target's brokers, which may be the source's."""
        return cls(config.target_security, settings, config.target_security_path)


class Unreachable(Exception):
    """A broker cannot be used: what happened, and what to do about it."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        self.what, self.hint = what, hint


class Reached(NamedTuple):
    """A connection that is logged in, and the brokers that it tells of, by their numbers. The caller closes
    it.
    """

    connection: Any
    brokers: dict[int, Address]


async def reach(address: Address, access: Access) -> Reached:
    """Connect and log in. Raises Unreachable."""
    await _listens(address)
    connection = _connection(address, access)
    try:
        await connection.connect()
    except (OSError, KafkaError, TimeoutError) as error:
        raise await _explained(address, access, error) from error
    try:
        if access.security.uses_sasl:
            await _authenticate(connection, access)
        metadata = await _first_request(connection, address, access)
    except BaseException:
        await close(connection)
        raise
    return Reached(connection, {node: Address(host, port) for node, host, port, *_ in metadata.brokers})


async def close(connection: Any) -> None:
    """Close a connection of aiokafka."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(STEP_SECONDS):
            await connection.close()


def _connection(address: Address, access: Access, protocol: str = "") -> Any:
    """A connection without SASL: that is done here, so that each of its steps is seen."""
    protocol = protocol or ("SSL" if access.security.uses_tls else "PLAINTEXT")
    settings = access.settings | {
        "security_protocol": protocol,
        "request_timeout_ms": int(REQUEST_SECONDS * 1000),
    }
    return AIOKafkaConnection(address.host, address.port, client_id="relay", **settings)


async def _listens(address: Address) -> None:
    """Look the name up and open a TCP connection."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(STEP_SECONDS):
            await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise Unreachable(
            f"the host {address.host} is unknown here: {error.strerror}", "check the name and the DNS"
        ) from error
    except UnicodeError as error:
        raise Unreachable(f"{address.host} is no name of a host", "check the address") from error
    except TimeoutError as error:
        raise Unreachable(
            f"the name {address.host} is not resolved within {STEP_SECONDS:g} s", "check the DNS"
        ) from error
    try:
        async with asyncio.timeout(STEP_SECONDS):
            _, writer = await asyncio.open_connection(*address)
    except TimeoutError as error:
        hint = "check the address, firewalls and network policies"
        raise Unreachable(f"nothing answers within {STEP_SECONDS:g} s", hint) from error
    except OSError as error:
        # With several addresses of one name, asyncio puts their errors into one text.
        if f"[Errno {errno.ECONNREFUSED}]" in str(error):
            raise Unreachable(
                "nothing listens there (connection refused)", "check the port and that the broker is up"
            ) from error
        raise Unreachable(f"there is no connection: {error}", "check the address and the network") from error
    await _closed(writer)


async def _explained(address: Address, access: Access, error: BaseException) -> Unreachable:
    """Find out why the first request got no answer."""
    cause = _cause(error)
    tls = access.security.uses_tls
    if tls and not isinstance(cause, ssl.SSLError):
        # What the broker has to say about our certificate may be lost when it closes the connection while we
        # are writing.
        cause = await _alert(address, access) or cause
    if isinstance(cause, ssl.SSLCertVerificationError):
        return await _bad_certificate(address, access, cause)
    if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
        return _refused(access, cause)
    sasl = "SASL_" if access.security.uses_sasl else ""
    if tls and await _speaks_plain(address, access):
        hint = f'set protocol = "{sasl}PLAINTEXT" in [{access.key}], or use the port for TLS'
        return Unreachable(f"it speaks plain text, and protocol is {access.security.protocol}", hint)
    if not tls and await _speaks_tls(address):
        hint = f'set protocol = "{sasl}SSL" in [{access.key}], or use the port for plain text'
        return Unreachable(f"it speaks TLS, and protocol is {access.security.protocol}", hint)
    return Unreachable(
        "something listens there, but does not answer as a Kafka broker", "check host and port"
    )


def _cause(error: BaseException) -> BaseException:
    """What was first: aiokafka wraps it once."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


async def _alert(address: Address, access: Access) -> ssl.SSLError | None:
    """Shake hands and say nothing: the alert of a broker that refuses our certificate comes after that."""
    try:
        async with asyncio.timeout(STEP_SECONDS):
            reader, writer = await asyncio.open_connection(*address, ssl=access.settings["ssl_context"])
        try:
            async with asyncio.timeout(_ALERT_SECONDS):
                await reader.read(1)
        finally:
            await _closed(writer)
    except ssl.SSLError as error:
        return error
    except (OSError, TimeoutError):
        return None
    return None


async def _bad_certificate(
    address: Address, access: Access, error: ssl.SSLCertVerificationError
) -> Unreachable:
    if error.verify_code in {_HOST_MISMATCH, _ADDRESS_MISMATCH}:
        names = await _names(address, access)
        hint = "write a name that the certificate has, or have the broker's certificate made for this one"
        return Unreachable(
            f"its certificate is not for {address.host}" + (f", but for {', '.join(names)}" if names else ""),
            hint,
        )
    if error.verify_code == _EXPIRED:
        return Unreachable(
            "its certificate has expired", "renew the broker's certificate, or the one that signed it"
        )
    if error.verify_code == _NOT_YET_VALID:
        return Unreachable(
            "its certificate is not valid yet",
            "check the clocks of this machine and of who made the certificate",
        )
    if error.verify_code in _UNTRUSTED:
        trusted = "the certificates in ca_file" if access.security.ca_file else "the system's certificates"
        hint = f"set ca_file in [{access.key}] to the certificate of who signed the broker's"
        return Unreachable(f"its certificate is not trusted by {trusted} ({error.verify_message})", hint)
    return Unreachable(
        f"its certificate is refused: {error.verify_message}", "ask who made the broker's certificate"
    )


async def _names(address: Address, access: Access) -> list[str]:
    """The names in a certificate that is trusted, but not for this host."""
    context = ssl.create_default_context(cafile=access.security.ca_file or None)
    if access.security.certificate_file:
        return []  # Without ours, the broker would not go on.
    context.check_hostname = False
    try:
        async with asyncio.timeout(STEP_SECONDS):
            _, writer = await asyncio.open_connection(*address, ssl=context)
        certificate = writer.get_extra_info("peercert") or {}
        await _closed(writer)
    except (OSError, TimeoutError):
        return []
    return [str(name) for _, name in certificate.get("subjectAltName", ())]


def _refused(access: Access, error: ssl.SSLError) -> Unreachable:
    reason = (error.reason or "").replace("_", " ").lower()
    if access.security.certificate_file:
        hint = f"check certificate_file in [{access.key}]: the broker must trust who signed it, and it must be valid"
        return Unreachable(f"it refuses relay's certificate ({reason})", hint)
    if "PROTOCOL_VERSION" in (error.reason or ""):
        return Unreachable(
            f"it refuses relay's version of TLS ({reason})", "the broker must offer TLS 1.2 or 1.3"
        )
    hint = f"set certificate_file and key_file in [{access.key}]"
    return Unreachable(f"it asks for a client certificate, and relay has none ({reason})", hint)


async def _speaks_plain(address: Address, access: Access) -> bool:
    connection = _connection(address, access, "PLAINTEXT")
    try:
        async with asyncio.timeout(STEP_SECONDS):
            await connection.connect()
    except (OSError, KafkaError, TimeoutError):
        return False
    await close(connection)
    return True


async def _speaks_tls(address: Address) -> bool:
    """Whether there is TLS, whoever it is: nothing but the greeting is sent."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(STEP_SECONDS):
            _, writer = await asyncio.open_connection(*address, ssl=context)
    except ssl.SSLError as error:
        return "ALERT" in (error.reason or "")
    except (OSError, TimeoutError):
        return False
    await _closed(writer)
    return True


async def _closed(writer: asyncio.StreamWriter) -> None:
    writer.close()
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(STEP_SECONDS):
            await writer.wait_closed()


async def _authenticate(connection: Any, access: Access) -> None:
    """Agree on the mechanism and log in."""
    security, mechanism = access.security, access.settings["sasl_mechanism"]
    try:
        answer = await connection.send(SaslHandShakeRequest(mechanism))
        if answer.error_code == _ILLEGAL_SASL_STATE:
            plain = "SSL" if security.uses_tls else "PLAINTEXT"
            hint = f'set protocol = "{plain}" in [{access.key}], or use the port for SASL'
            raise Unreachable(f"it asks for no SASL, and protocol is {security.protocol}", hint)
        if mechanism not in answer.enabled_mechanisms:
            offered = ", ".join(sorted(answer.enabled_mechanisms)) or "none"
            hint = f"set mechanism in [{access.key}], or enable {mechanism} at the broker"
            raise Unreachable(f"it does not offer the mechanism {mechanism}; it offers {offered}", hint)
        await _log_in(connection, _authenticator(connection, mechanism))
    except SaslAuthenticationFailed as error:
        who = "the token" if mechanism == "OAUTHBEARER" else f"user {security.username} with {mechanism}"
        reason = _without_secrets(str(error.args[0]) if error.args else "", access)
        raise Unreachable(f"it refuses {who}: {reason}", _login_hint(access)) from error
    except NoToken as error:
        raise Unreachable(f"there is no token to log in with: {error}", f"check [{access.key}]") from error
    except ValueError as error:  # aiokafka's, when the broker's own proof is wrong
        raise Unreachable(
            "it does not prove that it knows the password", "is this your broker? check the address"
        ) from error
    except (OSError, KafkaError, TimeoutError) as error:
        raise Unreachable(
            f"it ends the connection during the login ({type(error).__name__})", _login_hint(access)
        ) from error


def _authenticator(connection: Any, mechanism: str) -> Any:
    if mechanism == "OAUTHBEARER":
        return connection.authenticator_oauth()
    return connection.authenticator_plain() if mechanism == "PLAIN" else connection.authenticator_scram()


async def _log_in(connection: Any, authenticator: Any) -> None:
    """Exchange messages until the mechanism is done. Raises SaslAuthenticationFailed."""
    given: bytes | None = None
    while (step := await authenticator.step(given)) is not None:
        answer = await connection.send(SaslAuthenticateRequest(step[0]))
        if answer.error_code:
            raise SaslAuthenticationFailed(answer.error_message or f"error {answer.error_code}")
        given = answer.sasl_auth_bytes


def _login_hint(access: Access) -> str:
    if access.settings["sasl_mechanism"] == "OAUTHBEARER":
        return f"check the token's issuer, audience and age, and scope in [{access.key}]"
    known = (
        " (the broker keeps users for each mechanism apart)"
        if "SCRAM" in access.settings["sasl_mechanism"]
        else ""
    )
    return f"check username and password in [{access.key}]{known}"


def _without_secrets(text: str, access: Access) -> str:
    """A broker's text with any secret in it blotted out: what brokers say is theirs."""
    password = str(access.settings.get("sasl_plain_password", ""))
    return text.replace(password, "***") if password else text


async def _first_request(connection: Any, address: Address, access: Access) -> Any:
    """Ask for the brokers: what a listener with SASL refuses to those who are not logged in."""
    try:
        metadata = await connection.send(TopicsRequest([]))
    except (OSError, KafkaError, TimeoutError) as error:
        offered = [] if access.security.uses_sasl else await _offered_mechanisms(address, access)
        if offered:
            hint = f'set protocol = "SASL_{"SSL" if access.security.uses_tls else "PLAINTEXT"}" in [{access.key}]'
            said = (
                f"it asks for SASL ({', '.join(sorted(offered))}), and protocol is {access.security.protocol}"
            )
            raise Unreachable(said, hint) from error
        raise Unreachable(
            f"it does not tell the brokers of its cluster: {_cause(error)}", "look into the broker's log"
        ) from error
    if not metadata.brokers:
        raise Unreachable("it knows no brokers of its cluster", "wait until the cluster has started")
    return metadata


async def _offered_mechanisms(address: Address, access: Access) -> list[str]:
    connection = _connection(address, access)
    try:
        await connection.connect()
        answer = await connection.send(SaslHandShakeRequest("PLAIN"))
    except (OSError, KafkaError, TimeoutError):
        return []
    finally:
        await close(connection)
    return [] if answer.error_code == _ILLEGAL_SASL_STATE else list(answer.enabled_mechanisms)
