"""Send requests to a schema registry: one at a time, blocking, each over a new connection.

Redirects are not followed and proxies not used: credentials go only to the configured host. An answer is read
up to `ANSWER_BYTES`. Messages hold no credentials and nothing of an answer.
"""

from __future__ import annotations

import http.client
import io
import socket
import ssl
import time
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Final, NamedTuple, cast
from urllib.parse import urlsplit

if TYPE_CHECKING:
    from typing_extensions import Buffer

#: Maximum bytes of an answer. A schema of MySQL's widest table has less than a megabyte.
ANSWER_BYTES: Final = 8 << 20
_PIECE: Final = 1 << 16


class RegistryRequest(NamedTuple):
    """A request: `url` is complete, `body` is JSON, or None for GET."""

    method: str
    url: str
    headers: Mapping[str, str]
    body: bytes | None


class Response(NamedTuple):
    """A response, with the header `Retry-After` in seconds, if it had one."""

    status: int
    body: bytes
    retry_after: float | None = None


class RegistryUnreachable(Exception):
    """No server answered in time; the text has the reason."""


#: Sends a request. Raises NoAnswer.
Transport = Callable[[RegistryRequest], Response]


def http_transport(context: ssl.SSLContext, timeout_seconds: float) -> Transport:
    """Return a function that sends requests over HTTP and HTTPS, with the trust of a context.

    One deadline applies to the whole exchange, however slowly the server sends its answer.
    """

    def ask(request: RegistryRequest) -> Response:
        url = urlsplit(request.url)
        trust = context if url.scheme == "https" else None
        connection = _Connection(url.hostname or "", url.port, time.monotonic() + timeout_seconds, trust)
        try:
            path = url.path + (f"?{url.query}" if url.query else "")
            connection.request(request.method, path, request.body, dict(request.headers))
            response = connection.getresponse()
            return Response(response.status, _body(response), _retry_after(response))
        except TimeoutError:
            raise RegistryUnreachable(f"no answer within {timeout_seconds:g} s") from None
        except (OSError, http.client.HTTPException, ValueError) as error:
            raise RegistryUnreachable(_why(error)) from None
        finally:
            connection.end()

    return ask


class _Connection(http.client.HTTPConnection):
    """A connection with one deadline for all its steps. `trust`: None for plain HTTP."""

    def __init__(self, host: str, port: int | None, deadline: float, trust: ssl.SSLContext | None) -> None:
        self.default_port = http.client.HTTPS_PORT if trust else http.client.HTTP_PORT
        super().__init__(host, port)
        self._deadline, self._trust = deadline, trust
        self._made: socket.socket | None = None

    def connect(self) -> None:
        """Connect to the first address that accepts."""
        failure: OSError = OSError("no address")
        for family, kind, protocol, _, address in socket.getaddrinfo(
            self.host, self.port, type=socket.SOCK_STREAM
        ):
            made = socket.socket(family, kind, protocol)
            try:
                made.settimeout(_left(self._deadline))
                made.connect(address)
                if self._trust:
                    made.settimeout(_left(self._deadline))
                    made = self._trust.wrap_socket(made, server_hostname=self.host)
            except OSError as error:
                made.close()
                failure = error
            else:
                # `http.client` needs no other methods of a socket than these.
                self._made, self.sock = made, cast("socket.socket", _TimedSocket(made, self._deadline))
                return
        raise failure

    def end(self) -> None:
        """Close the connection, also if the client detached its socket while it read the answer."""
        self.close()
        if self._made is not None:
            self._made.close()


class _TimedSocket(io.RawIOBase):
    """A socket with a deadline for reads and writes; only the methods that `http.client` uses."""

    def __init__(self, made: socket.socket, deadline: float) -> None:
        self._socket, self._deadline = made, deadline

    def sendall(self, data: bytes) -> None:
        """Send everything. Raises TimeoutError at the deadline."""
        self._socket.settimeout(_left(self._deadline))
        self._socket.sendall(data)

    def makefile(self, _mode: str) -> io.BufferedReader:
        """Return a reader for the answer."""
        return io.BufferedReader(self)

    def readable(self) -> bool:
        """Return True."""
        return True

    def readinto(self, buffer: Buffer, /) -> int:
        """Read available bytes. Raises TimeoutError at the deadline."""
        self._socket.settimeout(_left(self._deadline))
        return self._socket.recv_into(buffer)

    def close(self) -> None:
        """Leave the socket open: the client closes it before the answer is read."""


def _left(deadline: float) -> float:
    """Return the seconds until a deadline. Raises TimeoutError if it has passed."""
    left = deadline - time.monotonic()
    if left <= 0:
        raise TimeoutError
    return left


def _body(response: http.client.HTTPResponse) -> bytes:
    """Read an answer. Raises NoAnswer if it ends before its announced length."""
    body = bytearray()
    while piece := response.read1(_PIECE):
        body += piece
        if len(body) > ANSWER_BYTES:
            raise RegistryUnreachable(f"an answer of more than {ANSWER_BYTES} bytes")
    if response.length:
        raise RegistryUnreachable("the answer ended before its announced length")
    return bytes(body)


def _retry_after(response: http.client.HTTPResponse) -> float | None:
    text = response.getheader("Retry-After") or ""
    return float(text) if text.isascii() and text.isdigit() and len(text) < 6 else None


def _why(error: Exception) -> str:
    """Return the cause in the system's terms, without text from the server."""
    if isinstance(error, ssl.SSLCertVerificationError):
        return f"its certificate is not trusted: {error.verify_message}"
    if isinstance(error, ssl.SSLError):
        return f"no TLS connection: {error.reason or type(error).__name__}"
    if isinstance(error, OSError) and error.strerror:
        return error.strerror
    if isinstance(error, http.client.IncompleteRead):
        return "the answer ended before its announced length"
    return type(error).__name__
