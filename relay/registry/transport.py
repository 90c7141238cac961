"""Requests to a schema registry: one at a time, each with a connection of its own, which waits.

Redirects are not followed and proxies not used: credentials go to the host that was named and nowhere else.
An answer is read up to `ANSWER_BYTES`. Messages hold no credentials and nothing of an answer.
"""

from __future__ import annotations

import http.client
import ssl
import time
from collections.abc import Callable, Mapping
from typing import Final, NamedTuple
from urllib.parse import urlsplit

#: Most bytes of an answer. A schema of MySQL's widest table has less than a megabyte.
ANSWER_BYTES: Final = 8 << 20
_PIECE: Final = 1 << 16


class Request(NamedTuple):
    """What is asked: `url` is all of it, `body` is JSON, or None for GET."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


class Response(NamedTuple):
    """What came back, with the header `Retry-After` in seconds, if it had one."""

    status: int
    body: bytes
    retry_after: float | None = None


class NoAnswer(Exception):
    """Nobody answered, or not in time; the text says why."""


#: Asks. Raises NoAnswer.
Transport = Callable[[Request], Response]


def http_transport(context: ssl.SSLContext, timeout_seconds: float) -> Transport:
    """Return what asks over HTTP and HTTPS, with the trust of a context."""

    def ask(request: Request) -> Response:
        deadline = time.monotonic() + timeout_seconds
        url = urlsplit(request.url)
        host, port = url.hostname or "", url.port
        connection: http.client.HTTPConnection
        if url.scheme == "https":
            connection = http.client.HTTPSConnection(host, port, timeout=timeout_seconds, context=context)
        else:
            connection = http.client.HTTPConnection(host, port, timeout=timeout_seconds)
        try:
            path = url.path + (f"?{url.query}" if url.query else "")
            connection.request(request.method, path, request.body, dict(request.headers))
            response = connection.getresponse()
            return Response(response.status, _body(response, deadline), _retry_after(response))
        except TimeoutError:
            raise NoAnswer(f"no answer within {timeout_seconds:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise NoAnswer(_why(error)) from None
        finally:
            connection.close()

    return ask


def _body(response: http.client.HTTPResponse, deadline: float) -> bytes:
    """Read an answer. A server that sends it byte by byte has no more time than another."""
    body = bytearray()
    while piece := response.read1(_PIECE):
        body += piece
        if len(body) > ANSWER_BYTES:
            raise NoAnswer(f"an answer of more than {ANSWER_BYTES} bytes")
        if time.monotonic() > deadline:
            raise TimeoutError
    return bytes(body)


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    text = response.getheader("Retry-After") or ""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _why(error: Exception) -> str:
    """Say what went wrong in the system's words, not in those of the other side."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    return type(error).__name__
