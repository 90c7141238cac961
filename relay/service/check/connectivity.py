"""Find out whether a broker can be reached, and if not, why.

aiokafka reports `Unable to bootstrap` in every case. The steps are name, TCP, TLS, the first request, SASL,
and the first request that needs all of them. If a step fails, further connections test for a mismatch of the
listener: plain text instead of TLS, TLS instead of plain text, or SASL.
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

from relay.config.addresses import Address
from relay.io.kafka.broker_errors import text_of
from relay.io.kafka.clients import Brokers
from relay.io.kafka.kerberos import NoTicket
from relay.io.kafka.oauth import NoToken
from relay.io.kafka.requests import TopicsRequest
from relay.io.kafka.settings import Mechanism, Security

_ALERT_SECONDS = 1.0
_CLOSE_SECONDS = 5.0
_ILLEGAL_SASL_STATE = 34
_KERBEROS_HINT = (
    "check keytab_file, kerberos_principal, kerberos_service_name and kerberos_domain_name in [{table}], "
    "the clock, and the KDC in krb5.conf"
)
# OpenSSL's numbers (X509_V_ERR_…).
_NOT_YET_VALID, _EXPIRED, _HOST_MISMATCH, _ADDRESS_MISMATCH = 9, 10, 62, 64
_UNTRUSTED = {2, 18, 19, 20, 21}


class Unreachable(Exception):
    """A broker cannot be used: the problem and its remedy."""

    def __init__(self, what: str, hint: str) -> None:
        super().__init__(f"{what}; {hint}")
        self.what, self.hint = what, hint


class ClusterConnection(NamedTuple):
    """An authenticated connection, which the caller closes, and the brokers of the cluster by id."""

    connection: Any
    advertised: dict[int, Address]


async def connect(address: Address, brokers: Brokers) -> ClusterConnection:
    """Connect and log in. Raises Unreachable."""
    await _listens(address, brokers.timeouts.step_seconds)
    connection = _connection(address, brokers)
    try:
        await connection.connect()
    except (OSError, KafkaError, TimeoutError) as error:
        raise await _explained(address, brokers, error) from error
    try:
        if brokers.security.protocol.uses_sasl:
            await _authenticate(connection, brokers)
        metadata = await _first_request(connection, address, brokers)
    except BaseException:
        await close(connection)
        raise
    return ClusterConnection(
        connection, {node: Address(host, port) for node, host, port, *_ in metadata.brokers}
    )


async def close(connection: Any) -> None:
    """Close a connection of aiokafka."""
    with contextlib.suppress(OSError, TimeoutError):
        async with asyncio.timeout(_CLOSE_SECONDS):
            await connection.close()


def _connection(address: Address, brokers: Brokers, protocol: str = "") -> Any:
    """Make a connection without SASL: its steps run here one by one, to report the failing one."""
    protocol = protocol or ("SSL" if brokers.security.protocol.uses_tls else "PLAINTEXT")
    arguments = brokers.arguments | {
        "security_protocol": protocol,
        "request_timeout_ms": int(brokers.timeouts.connect_seconds * 1000),
    }
    return AIOKafkaConnection(address.host, address.port, client_id="relay", **arguments)


async def _listens(address: Address, seconds: float) -> None:
    """Look the name up and open a TCP connection, each within so many seconds."""
    loop = asyncio.get_running_loop()
    try:
        async with asyncio.timeout(seconds):
            await loop.getaddrinfo(address.host, address.port, type=socket.SOCK_STREAM)
    except socket.gaierror as error:
        raise Unreachable(
            f"cannot resolve the host {address.host}: {error.strerror}", "check the name and DNS"
        ) from error
    except UnicodeError as error:
        raise Unreachable(f"{address.host} is not a host name", "check the address") from error
    except TimeoutError as error:
        raise Unreachable(
            f"the host {address.host} was not resolved within {seconds:g} s", "check the DNS"
        ) from error
    try:
        async with asyncio.timeout(seconds):
            _, writer = await asyncio.open_connection(*address)
    except TimeoutError as error:
        hint = "check the address, firewalls and network policies"
        raise Unreachable(f"no connection within {seconds:g} s", hint) from error
    except OSError as error:
        # If a name has several addresses, asyncio puts their errors into one text.
        if f"[Errno {errno.ECONNREFUSED}]" in str(error):
            raise Unreachable(
                "nothing listens there (connection refused)", "check the port and that the broker is up"
            ) from error
        raise Unreachable(f"no connection: {error}", "check the address and the network") from error
    await _closed(writer)


async def _explained(address: Address, brokers: Brokers, error: BaseException) -> Unreachable:
    """Find out why the first request got no answer."""
    cause = _cause(error)
    tls = brokers.security.protocol.uses_tls
    if tls and not isinstance(cause, ssl.SSLError):
        # The broker's alert about our certificate may be lost if it closes the connection while we write.
        cause = await _alert(address, brokers) or cause
    if isinstance(cause, ssl.SSLCertVerificationError):
        return await _bad_certificate(address, brokers, cause)
    if isinstance(cause, ssl.SSLError) and "ALERT" in (cause.reason or ""):
        return _refused(brokers, cause)
    sasl = "SASL_" if brokers.security.protocol.uses_sasl else ""
    if tls and await _speaks_plain(address, brokers):
        hint = f'set protocol = "{sasl}PLAINTEXT" in [{brokers.security.table}], or use the port for TLS'
        return Unreachable(f"the broker speaks plain text, but protocol is {brokers.security.protocol}", hint)
    if not tls and await _speaks_tls(address, brokers.timeouts.step_seconds):
        hint = f'set protocol = "{sasl}SSL" in [{brokers.security.table}], or use the port for plain text'
        return Unreachable(f"the broker speaks TLS, but protocol is {brokers.security.protocol}", hint)
    return Unreachable("the server does not answer as a Kafka broker", "check host and port")


def _cause(error: BaseException) -> BaseException:
    """Return the root cause, which aiokafka wraps."""
    while error.__cause__ is not None:
        error = error.__cause__
    return error


async def _alert(address: Address, brokers: Brokers) -> ssl.SSLError | None:
    """Complete the handshake and wait: a broker that refuses our certificate sends its alert after that."""
    try:
        async with asyncio.timeout(brokers.timeouts.step_seconds):
            reader, writer = await asyncio.open_connection(*address, ssl=brokers.arguments["ssl_context"])
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
    address: Address, brokers: Brokers, error: ssl.SSLCertVerificationError
) -> Unreachable:
    if error.verify_code in {_HOST_MISMATCH, _ADDRESS_MISMATCH}:
        names = await _names(address, brokers)
        hint = "use a host name of the certificate, or reissue the certificate for this host"
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
            "check the clocks of this machine and of the certificate's issuer",
        )
    if error.verify_code in _UNTRUSTED:
        trusted = "the certificates in ca_file" if brokers.security.ca_file else "the system's certificates"
        hint = f"set ca_file in [{brokers.security.table}] to the CA certificate that signed the broker's"
        return Unreachable(f"its certificate is not trusted by {trusted} ({error.verify_message})", hint)
    return Unreachable(
        f"its certificate is refused: {error.verify_message}", "ask the issuer of the broker's certificate"
    )


async def _names(address: Address, brokers: Brokers) -> list[str]:
    """Return the names in a certificate that is trusted, but not for this host."""
    context = ssl.create_default_context(cafile=brokers.security.ca_file or None)
    if brokers.security.certificate_file:
        return []  # The broker would request it here.
    context.check_hostname = False
    try:
        async with asyncio.timeout(brokers.timeouts.step_seconds):
            _, writer = await asyncio.open_connection(*address, ssl=context)
        certificate = writer.get_extra_info("peercert") or {}
        await _closed(writer)
    except (OSError, TimeoutError):
        return []
    return [str(name) for _, name in certificate.get("subjectAltName", ())]


def _refused(brokers: Brokers, error: ssl.SSLError) -> Unreachable:
    reason = (error.reason or "").replace("_", " ").lower()
    if brokers.security.certificate_file:
        table = brokers.security.table
        hint = f"check certificate_file in [{table}]: it must be valid, and its CA trusted by the broker"
        return Unreachable(f"the broker refuses relay's certificate ({reason})", hint)
    if "PROTOCOL_VERSION" in (error.reason or ""):
        return Unreachable(
            f"the broker refuses relay's version of TLS ({reason})", "the broker must offer TLS 1.2 or 1.3"
        )
    hint = f"set certificate_file and key_file in [{brokers.security.table}]"
    return Unreachable(f"the broker requires a client certificate, and relay has none ({reason})", hint)


async def _speaks_plain(address: Address, brokers: Brokers) -> bool:
    connection = _connection(address, brokers, "PLAINTEXT")
    try:
        async with asyncio.timeout(brokers.timeouts.step_seconds):
            await connection.connect()
    except (OSError, KafkaError, TimeoutError):
        return False
    await close(connection)
    return True


async def _speaks_tls(address: Address, seconds: float) -> bool:
    """Return whether any server answers with TLS, trusted or not: only the handshake is done."""
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
    context.check_hostname = False
    context.verify_mode = ssl.CERT_NONE
    try:
        async with asyncio.timeout(seconds):
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
        async with asyncio.timeout(_CLOSE_SECONDS):
            await writer.wait_closed()


async def _authenticate(connection: Any, brokers: Brokers) -> None:
    """Negotiate the mechanism and authenticate."""
    security, mechanism = brokers.security, brokers.arguments["sasl_mechanism"]
    try:
        answer = await connection.send(SaslHandShakeRequest(mechanism))
        if answer.error_code == _ILLEGAL_SASL_STATE:
            plain = "SSL" if security.protocol.uses_tls else "PLAINTEXT"
            hint = f'set protocol = "{plain}" in [{brokers.security.table}], or use the port for SASL'
            raise Unreachable(f"the broker does not use SASL, but protocol is {security.protocol}", hint)
        if mechanism not in answer.enabled_mechanisms:
            offered = ", ".join(sorted(answer.enabled_mechanisms)) or "none"
            hint = f"set mechanism in [{brokers.security.table}], or enable {mechanism} at the broker"
            raise Unreachable(
                f"the broker does not offer the mechanism {mechanism}; it offers {offered}", hint
            )
        await _log_in(connection, _authenticator(connection, mechanism))
    except SaslAuthenticationFailed as error:
        text = f"the broker refuses {_who(security, mechanism)}: "
        reason = _without_secrets(str(error.args[0]) if error.args else "", brokers).removeprefix(text)
        raise Unreachable(f"{text}{reason}", _login_hint(brokers)) from error
    except NoTicket as error:
        raise Unreachable(str(error), _KERBEROS_HINT.format(table=security.table)) from error
    except NoToken as error:
        raise Unreachable(f"no token to log in with: {error}", f"check [{brokers.security.table}]") from error
    except ValueError as error:  # raised by aiokafka if the broker's proof is wrong
        raise Unreachable(
            "the broker does not prove that it knows the password", "is this your broker? check the address"
        ) from error
    except (OSError, KafkaError, TimeoutError) as error:
        raise Unreachable(
            f"the broker closed the connection during login: {text_of(error)}", _login_hint(brokers)
        ) from error


def _who(security: Security, mechanism: str) -> str:
    if mechanism == "OAUTHBEARER":
        return "the token"
    name = security.shown_user
    return f"user {name} with {mechanism}" if name else f"the login with {mechanism}"


def _authenticator(connection: Any, mechanism: str) -> Any:
    if mechanism == "GSSAPI":
        return connection.authenticator_gssapi()
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


def _login_hint(brokers: Brokers) -> str:
    if brokers.security.mechanism is Mechanism.AWS_MSK_IAM:
        return "check the clock and aws_region, and that the IAM policy allows kafka-cluster:Connect"
    if brokers.security.mechanism is Mechanism.GSSAPI:
        return f"check kerberos_principal in [{brokers.security.table}], and the broker's own keytab"
    if brokers.arguments["sasl_mechanism"] == "OAUTHBEARER":
        return f"check the token's issuer, audience and age, and scope in [{brokers.security.table}]"
    known = (
        " (the broker stores users separately for each mechanism)"
        if "SCRAM" in brokers.arguments["sasl_mechanism"]
        else ""
    )
    return f"check username and password in [{brokers.security.table}]{known}"


def _without_secrets(text: str, brokers: Brokers) -> str:
    """Mask the password in a text from a broker, which may contain anything."""
    password = str(brokers.arguments.get("sasl_plain_password", ""))
    return text.replace(password, "***") if password else text


async def _first_request(connection: Any, address: Address, brokers: Brokers) -> Any:
    """Request the list of brokers, which a listener with SASL refuses before authentication."""
    try:
        metadata = await connection.send(TopicsRequest([]))
    except (OSError, KafkaError, TimeoutError) as error:
        offered = [] if brokers.security.protocol.uses_sasl else await _offered_mechanisms(address, brokers)
        if offered:
            security = brokers.security
            protocol = "SASL_SSL" if security.protocol.uses_tls else "SASL_PLAINTEXT"
            hint = f'set protocol = "{protocol}" in [{security.table}]'
            mechanisms = ", ".join(sorted(offered))
            what = f"the broker requires SASL ({mechanisms}), but protocol is {security.protocol}"
            raise Unreachable(what, hint) from error
        raise Unreachable(
            f"the broker does not list the brokers of its cluster: {_cause(error)}", "check the broker's log"
        ) from error
    if not metadata.brokers:
        raise Unreachable(
            "the broker has no list of its cluster's brokers yet", "wait until the cluster has started"
        )
    return metadata


async def _offered_mechanisms(address: Address, brokers: Brokers) -> list[str]:
    connection = _connection(address, brokers)
    try:
        await connection.connect()
        answer = await connection.send(SaslHandShakeRequest("PLAIN"))
    except (OSError, KafkaError, TimeoutError):
        return []
    finally:
        await close(connection)
    return [] if answer.error_code == _ILLEGAL_SASL_STATE else list(answer.enabled_mechanisms)
