"""Logins with Kerberos (SASL GSSAPI), with a keytab for each cluster, or the environment's credentials.

aiokafka supports only the process's default credentials, and an exception of GSSAPI ends its background
tasks. This module replaces aiokafka's GSSAPI exchange (RFC 4752). Errors are retriable, as during a broker's
outage: the KDC may be down, or the keytab may be about to be replaced. It needs the extra `kerberos`, which
`relay.io.kafka.clients` checks.
"""

from __future__ import annotations

import asyncio
import importlib
import itertools
from typing import Any, Final, NamedTuple, Self

from aiokafka import conn
from aiokafka.errors import SaslAuthenticationFailed

from relay.io.kafka.oauth import LoginUnavailable

#: No security layer: TLS encrypts. It is also the answer's first byte; the others are the layer's buffer
#: size, which is 0 without one.
_NO_LAYER: Final = 1
_ANSWER: Final = bytes((_NO_LAYER, 0, 0, 0))
#: Maximum time for the KDC's answer. It is shorter than that of a connection, so that the reason is reported.
KDC_SECONDS: Final = 8.0
_caches: Final = itertools.count(1)


class NoTicket(LoginUnavailable):
    """There is no Kerberos ticket for a broker now."""


class KerberosIdentity(NamedTuple):
    """The identity that logs in.

    `keytab`: a file with its key; "" for the process's credentials (KRB5_CLIENT_KTNAME, KRB5CCNAME).
    `principal`: one of the keytab or of these credentials; "" for the first.
    `cache`: where tickets of the keytab are kept.
    """

    keytab: str
    principal: str
    cache: str

    @classmethod
    def of(cls, keytab: str, principal: str) -> Self:
        """Return an identity whose tickets are kept in memory, apart from all others."""
        return cls(keytab, principal, f"MEMORY:relay-{next(_caches)}")


class KerberosService(str):
    """The name of the brokers' service, with the identity of relay.

    aiokafka hands the name on to its connections, and has no argument for the identity.
    """

    __slots__ = ("identity",)
    identity: KerberosIdentity

    def __new__(cls, name: str, identity: KerberosIdentity) -> Self:
        """Return the name."""
        made = super().__new__(cls, name)
        made.identity = identity
        return made


def patch_aiokafka() -> None:
    """Make all connections of aiokafka log in with the identity of their `KerberosService`."""
    conn.AIOKafkaConnection.authenticator_gssapi = _authenticator


def _authenticator(connection: Any) -> KerberosLogin:
    return KerberosLogin(connection.sasl_principal, connection._sasl_kerberos_service_name.identity)


class KerberosLogin:
    """One login, step by step. `service`: of the broker, such as `kafka@broker.example.com`."""

    def __init__(self, service: str, identity: KerberosIdentity, seconds: float = KDC_SECONDS) -> None:
        self._service, self._identity, self._seconds = service, identity, seconds
        # Without types, and not part of the base installation.
        self._gssapi: Any = importlib.import_module("gssapi")
        self._context: Any = None
        self._is_done = False

    async def step(self, challenge: bytes | None) -> tuple[bytes, bool] | None:
        """Return the answer to a broker's message, as aiokafka expects it; None after the last one.

        Raises NoTicket, SaslAuthenticationFailed.
        """
        if self._is_done:
            return None
        try:
            async with asyncio.timeout(self._seconds):
                # It may read files and ask the KDC.
                return await asyncio.to_thread(self._respond, challenge), True
        except TimeoutError as error:
            raise NoTicket(
                f"no Kerberos ticket for {self._service}: no answer from the KDC within {self._seconds:g} s"
            ) from error

    def _respond(self, challenge: bytes | None) -> bytes:
        try:
            return self._next_message(challenge)
        except self._gssapi.exceptions.GSSError as error:
            # The library keeps the details of an error for the thread in which it happened.
            raise NoTicket(f"no Kerberos ticket for {self._service}: {_reason(error)}") from None

    def _next_message(self, challenge: bytes | None) -> bytes:
        if self._context is None:
            self._context = self._start()
        if not self._context.complete:
            # After the broker's proof of its identity, the answer is empty.
            return bytes(self._context.step(challenge) or b"")
        offered = self._context.unwrap(challenge).message
        if len(offered) != len(_ANSWER) or not offered[0] & _NO_LAYER:
            raise SaslAuthenticationFailed("the broker requires a security layer of Kerberos; use TLS")
        self._is_done = True
        # Without a name after it, the broker takes the one of the ticket.
        return bytes(self._context.wrap(_ANSWER, False).message)

    def _start(self) -> Any:
        gssapi = self._gssapi
        service = gssapi.Name(self._service, name_type=gssapi.NameType.hostbased_service)
        return gssapi.SecurityContext(
            name=service.canonicalize(gssapi.MechType.kerberos),
            mech=gssapi.MechType.kerberos,
            usage="initiate",
            creds=self._credentials(),
        )

    def _credentials(self) -> Any:
        """Return credentials; with a keytab, the library replaces expired tickets."""
        gssapi, (keytab, principal, cache) = self._gssapi, self._identity
        name = gssapi.Name(principal, name_type=gssapi.NameType.kerberos_principal) if principal else None
        store = {"client_keytab": f"FILE:{keytab}", "ccache": cache} if keytab else None
        return gssapi.Credentials(name=name, usage="initiate", store=store)


def _reason(error: Any) -> str:
    """Return Kerberos's reason, which the library puts after a general one."""
    reasons = error.get_all_statuses(error.min_code, False) or error.get_all_statuses(error.maj_code, True)
    return "; ".join(reasons)
