"""Tokens for SASL OAUTHBEARER: from a file that is kept renewed, or from an endpoint, for client credentials.

aiokafka requests one at each new connection. Both providers raise an error that is a `TokenUnavailable` of
relay and also a retriable error of aiokafka, so that the client retries as during a broker's outage. Messages
hold no tokens and no secrets.
"""

from __future__ import annotations

import asyncio
import base64
import json
import re
import ssl
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple
from urllib.parse import quote_plus

import aiohttp
from aiokafka import conn
from aiokafka.abc import AbstractTokenProvider
from aiokafka.errors import KafkaError, SaslAuthenticationFailed

from relay.io.files import read_small
from relay.model.errors import TokenUnavailable
from relay.text.redaction import shown_uri

REQUEST_SECONDS = 10.0
#: A token is used until this long before its end, or until the last fifth of a shorter life.
SPARE_SECONDS = 30.0
#: Maximum bytes of an endpoint's answer, and maximum characters of a token, which brokers read in one
#: request.
ANSWER_BYTES = 256 << 10
LONGEST_TOKEN = 128 << 10
#: Maximum interval between token requests, whatever lifetime the endpoint reports.
LONGEST_SECONDS = 86_400.0
_TOKEN = re.compile(r"[\x21-\x7e]+")
_ERROR_WORD = re.compile(r"[a-z0-9_.-]{1,64}")
_take_step = conn.OAuthAuthenticator.step


class LoginUnavailable(TokenUnavailable, KafkaError):  # type: ignore[misc]  # aiokafka is not typed
    """There are no credentials for a login now; a later connection asks again."""

    retriable = True

    def __str__(self) -> str:
        """Return the message alone; aiokafka would prefix the class name."""
        return str(self.args[0])


class NoToken(LoginUnavailable):
    """No token is available now."""


class FileTokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not typed
    """Read the current token from a file at each connection."""

    def __init__(self, path: Path) -> None:
        self._path = path

    async def token(self) -> str:
        """Read the token. Raises NoToken."""
        try:
            text = (await asyncio.to_thread(read_small, self._path)).decode()
        except OSError as error:
            raise NoToken(f"the token file {self._path} cannot be read: {error.strerror}") from error
        except UnicodeDecodeError as error:
            raise NoToken(f"the token file {self._path} is not text") from error
        return _checked(text.strip(), f"the token file {self._path}")


class Credentials(NamedTuple):
    """Client credentials for a token endpoint (RFC 6749 §4.4); `secret` is not shown in logs or messages."""

    endpoint: str
    client_id: str
    secret: str
    scope: str = ""


class EndpointTokens(AbstractTokenProvider):  # type: ignore[misc]  # aiokafka is not typed
    """Request tokens from an OAuth 2.0 endpoint with client credentials.

    A token serves all connections until shortly before its end.
    """

    def __init__(
        self, credentials: Credentials, context: ssl.SSLContext, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._credentials = credentials
        self._context = context
        self._clock = clock
        self._token = ""
        self._fresh_until = 0.0
        # Connections to several brokers begin at the same time, and one token is enough for all.
        self._asking = asyncio.Lock()

    async def token(self) -> str:
        """Return a token that remains valid for a while. Raises NoToken."""
        async with self._asking:
            if not self._token or self._clock() >= self._fresh_until:
                token, seconds = await self._ask()
                self._token = token
                self._fresh_until = self._clock() + seconds - min(SPARE_SECONDS, seconds / 5)
            return self._token

    async def _ask(self) -> tuple[str, float]:
        """Request a token; return it and its lifetime in seconds, 0 if the endpoint does not report one."""
        given = self._credentials
        where = f"the token endpoint {shown_uri(given.endpoint)}"
        form = {"grant_type": "client_credentials"} | ({"scope": given.scope} if given.scope else {})
        # RFC 6749 §2.3.1: both are form-encoded before they become user and password of HTTP.
        pair = f"{quote_plus(given.client_id)}:{quote_plus(given.secret)}"
        headers = {
            "Authorization": "Basic " + base64.b64encode(pair.encode()).decode(),
            "Accept": "application/json",
            # Few bytes may unpack to many.
            "Accept-Encoding": "identity",
        }
        timeout = aiohttp.ClientTimeout(total=REQUEST_SECONDS)
        try:
            async with (
                aiohttp.ClientSession(timeout=timeout, headers=headers, auto_decompress=False) as session,
                # A redirect would send the secret to an unconfigured host.
                session.post(given.endpoint, data=form, ssl=self._context, allow_redirects=False) as response,
            ):
                status, body = response.status, await _body(response, where)
        except TimeoutError as error:
            raise NoToken(f"{where} does not answer within {REQUEST_SECONDS:g} s") from error
        except (aiohttp.ClientError, OSError, ValueError) as error:
            raise NoToken(f"{where} cannot be reached: {_why(error)}") from error
        return token_in(status, body, where)


def notice_refused_tokens() -> None:
    """Make aiokafka read a broker's answer to a token.

    It takes a refusal for success, and then finds a cluster without brokers. A broker refuses with text,
    where the text of success is empty (RFC 7628 §3.2.2); aiokafka 0.14 inspects neither, and has no hook for
    it.
    """
    conn.OAuthAuthenticator.step = _step


async def _step(self: Any, payload: bytes | None) -> Any:
    if self._token_sent and payload:
        raise SaslAuthenticationFailed(f"the broker refuses the token: {_word(payload, 'status')}")
    return await _take_step(self, payload)


async def _body(response: aiohttp.ClientResponse, where: str) -> bytes:
    """Read an answer of at most `ANSWER_BYTES`."""
    body = bytearray()
    async for chunk in response.content.iter_chunked(ANSWER_BYTES):
        body += chunk
        if len(body) > ANSWER_BYTES:
            raise NoToken(f"{where} answers with more than {ANSWER_BYTES} bytes")
    return bytes(body)


def token_in(status: int, body: bytes, where: str) -> tuple[str, float]:
    """Return the token in an answer of an endpoint, and its lifetime in seconds. Raises NoToken."""
    if status != 200:
        raise NoToken(f"{where} refuses with HTTP status {status}: {_word(body, 'error')}")
    try:
        found = json.loads(body)
    except (ValueError, RecursionError) as error:
        raise NoToken(f"{where} does not answer with JSON") from error
    token = found.get("access_token") if isinstance(found, dict) else None
    if not isinstance(token, str):
        raise NoToken(f"{where} answers without access_token")
    return _checked(token, where), _lifetime_seconds(found.get("expires_in"))


def _lifetime_seconds(expires_in: object) -> float:
    """Return the lifetime of a token in seconds: at most `LONGEST_SECONDS`, 0 if unknown."""
    try:
        seconds = float(expires_in)  # type: ignore[arg-type]  # raises for a value that is not a number
    except (TypeError, ValueError, OverflowError):
        return 0.0
    # NaN is not greater than 0 either.
    return min(seconds, LONGEST_SECONDS) if seconds > 0 and not isinstance(expires_in, bool) else 0.0


def _checked(token: str, where: str) -> str:
    """Refuse control characters, which separate the parts of the message to the broker."""
    if not token:
        raise NoToken(f"{where} is empty")
    if len(token) > LONGEST_TOKEN:
        raise NoToken(f"{where} has more than {LONGEST_TOKEN} characters")
    if not _TOKEN.fullmatch(token):
        raise NoToken(f"{where} is not a token: it has spaces or other characters that tokens cannot have")
    return token


def _word(body: bytes, member: str) -> str:
    """Return the error's name in a JSON answer.

    The rest of the answer is left out, because it may repeat the request.
    """
    try:
        found = json.loads(body)
    except (ValueError, RecursionError):
        return "no reason given"
    word = found.get(member) if isinstance(found, dict) else None
    return word if isinstance(word, str) and _ERROR_WORD.fullmatch(word) else "no reason given"


def _why(error: Exception) -> str:
    if isinstance(error, aiohttp.ClientConnectorCertificateError):
        return f"its certificate is not trusted: {error.certificate_error}"
    if isinstance(error, aiohttp.ClientConnectorError):
        return str(error.os_error) or type(error.os_error).__name__
    return type(error).__name__
