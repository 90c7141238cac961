"""An HTTP server of a few pages and JSON documents, for people and programs on a trusted network.

It answers only requests for names that nobody else can own (`Hosts`), and no page of another site can read an
answer. It limits open connections, and closes slow, large and too frequent requests. It has no access log and
no authentication. Subclasses define the content.
"""

from __future__ import annotations

import asyncio
import base64
import errno
import hashlib
import ipaddress
import logging
import re
import socket
from collections.abc import Iterable, Mapping, Sequence
from importlib.resources import files
from types import TracebackType
from typing import Any, ClassVar, Final, NamedTuple, Self, cast

import orjson
from aiohttp import web

from relay.io.logs import Log, frames_of
from relay.model.errors import AddressUnavailable
from relay.text.redaction import to_json

#: Connections at a time; each costs a file descriptor that the process itself may need.
MAX_CONNECTIONS: Final = 64
#: Maximum bytes of a request without a body; all of them are headers.
HEADER_BYTES: Final = 1 << 16
_SHUTDOWN_SECONDS: Final = 1.0
_COMMON_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "relay",
}
_EXAMPLES: Final = "such as 127.0.0.1 or 0.0.0.0"


class SettingNames(NamedTuple):
    """Names of the settings of a server's address in errors: "set HOST", "set ANOTHER_PORT"."""

    host: str
    another_port: str
    higher_port: str


class WebServer:
    """Serve while the `async with` block runs. Entering raises AddressUnavailable.

    With port 0 the system chooses a free port; `port` has its number. `names`: accepted host names, see
    `Hosts`.

    A subclass defines `routes`, and `paths` with a short description of each, the answer to any other path.
    `not_ours`: the answer to a request for another name; `request_bytes`: maximum bytes of a request;
    `request_seconds`: how long a connection may be without a whole request, the first one or the next;
    `takes_bodies`: whether requests may have bodies.
    """

    paths: ClassVar[Mapping[str, str]]
    settings: ClassVar[SettingNames]
    not_ours: ClassVar[str]
    request_bytes: ClassVar[int] = HEADER_BYTES
    request_seconds: ClassVar[float] = 10.0
    takes_bodies: ClassVar[bool] = False

    def __init__(self, host: str, port: int, *, names: Sequence[str] = (), log: Log | None = None) -> None:
        self._host, self._port, self._log = host, port, log
        self._hosts = Hosts((host, *names))
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[web.RequestHandler, asyncio.Transport] = {}

    def routes(self) -> Sequence[web.RouteDef]:
        """Return the handlers, by path and method."""
        raise NotImplementedError

    @property
    def port(self) -> int:
        """Return the port of the server."""
        return self._port

    async def __aenter__(self) -> Self:
        self._runner = web.AppRunner(self._application(), shutdown_timeout=_SHUTDOWN_SECONDS)
        await self._runner.setup()
        loop = asyncio.get_running_loop()
        try:
            self._server = await loop.create_server(
                self._connection, self._host, self._port, backlog=MAX_CONNECTIONS
            )
        except (OSError, ValueError) as error:
            await self._runner.cleanup()
            raise _unavailable(self._host, self._port, error, self.settings) from error
        self._port = self._server.sockets[0].getsockname()[1]
        if self._log is not None:
            self._log.info("http.serving", host=self._host, port=self._port)
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if self._server is not None:
            self._server.close()
        if self._runner is not None:
            await self._runner.cleanup()
        for transport in self._connections.values():
            # A client that does not read would keep the connection open.
            transport.abort()

    def _connection(self) -> web.RequestHandler:
        assert self._runner is not None  # noqa: S101 - made by `setup`; narrows the type
        assert self._runner.server is not None  # noqa: S101 - made by `setup`; narrows the type
        return _HttpConnection(
            self._runner.server, self._connections, self.request_bytes, self.request_seconds
        )

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._answered], client_max_size=self.request_bytes)
        application.add_routes(self.routes())
        return application

    def check(self, request: web.Request) -> None:
        """Raise an HTTPException for a request that may not be answered, as of a page of another site."""
        if not all(map(self._hosts.allows, request.headers.getall("Host", ()))):
            raise web.HTTPMisdirectedRequest(reason=self.not_ours)
        if "Content-Encoding" in request.headers:
            raise web.HTTPUnsupportedMediaType(reason="compressed requests are not accepted")
        if request.body_exists and not self.takes_bodies:
            raise web.HTTPBadRequest(reason="requests with a body are not accepted")

    @web.middleware
    async def _answered(self, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401 - aiohttp's own type is private
        response: web.StreamResponse
        try:
            self.check(request)
            response = await handler(request)
        except web.HTTPMethodNotAllowed as refused:
            methods = sorted(refused.allowed_methods)
            response = json_answer(
                {"error": f"only {' and '.join(methods)}", "paths": self.paths}, refused.status
            )
            response.headers["Allow"] = ", ".join(methods)
        except web.HTTPException as refused:
            response = json_answer({"error": refused.reason, "paths": self.paths}, refused.status)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if self._log is not None:
                self._log.error(
                    "http.failed", path=request.path, kind=type(error).__name__, frames=frames_of(error)
                )
            response = json_answer({"error": "a bug in relay", "kind": type(error).__name__}, 500)
        response.headers.update(_COMMON_HEADERS)
        if isinstance(request.protocol, _HttpConnection):
            request.protocol.received = 0
        return response


class _HttpConnection(web.RequestHandler):
    """A client's connection. `others`: all open ones, the oldest first. `most_bytes`, `seconds`: limits of a
    request.

    If there are too many, the oldest is closed: the newest may be the kubelet's probe, and slow clients must
    not keep it out.
    """

    def __init__(
        self,
        server: web.Server,
        others: dict[web.RequestHandler, asyncio.Transport],
        most_bytes: int,
        seconds: float,
    ) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            # Counted from the last answer, or from the start, to the end of the next request.
            keepalive_timeout=seconds,
            lingering_time=_SHUTDOWN_SECONDS,
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None for none
            logger=_silent(),
            # A body would be decompressed in this loop, although nothing reads it.
            auto_decompress=False,
        )
        self._others, self._most_bytes = others, most_bytes
        #: Bytes received since the last answer.
        self.received = 0

    def data_received(self, data: bytes) -> None:
        """Pass on received data, unless it exceeds the size of any request that is answered here."""
        self.received += len(data)
        if self.received > self._most_bytes and self.transport is not None:
            self.transport.abort()
            return
        super().data_received(data)

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        super().connection_made(transport)
        self._others[self] = cast("asyncio.Transport", transport)
        if len(self._others) > MAX_CONNECTIONS:
            self._others.pop(next(iter(self._others))).abort()

    def connection_lost(self, exc: BaseException | None) -> None:
        self._others.pop(self, None)
        super().connection_lost(exc)


def json_answer(body: Mapping[str, Any], code: int = 200, *, indent: bool = True) -> web.Response:
    """Make an answer of JSON."""
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
    data = to_json(body, option=option)
    return web.Response(body=data, status=code, content_type="application/json")


def _unavailable(
    host: str, port: int, error: OSError | ValueError, settings: SettingNames
) -> AddressUnavailable:
    # A ValueError: the text cannot be a name at all.
    if isinstance(error, socket.gaierror | ValueError):
        why = f"unknown host name; set {settings.host} to an address of this machine, {_EXAMPLES}"
    elif error.errno == errno.EADDRINUSE:
        why = f"another program, perhaps another relay, uses the port; stop it or set {settings.another_port}"
    elif error.errno == errno.EADDRNOTAVAIL:
        why = (
            f"this machine does not have the address; set {settings.host} to one of its addresses, "
            f"{_EXAMPLES}"
        )
    elif error.errno in {errno.EACCES, errno.EPERM}:
        why = f"relay may not use this port; ports below 1024 need privileges: set {settings.higher_port}"
    else:
        why = error.strerror or type(error).__name__
    return AddressUnavailable(f"cannot serve HTTP at {host}:{port}: {why}")


def _silent() -> logging.Logger:
    """Make a logger that discards clients' protocol errors: operators of relay cannot fix them."""
    logger = logging.Logger("relay.http")  # outside the tree of loggers on purpose
    logger.addHandler(logging.NullHandler())
    return logger


#: Suffixes of names that nobody can register: of this machine (RFC 6761), of services and pods in Kubernetes.
_NOBODYS: Final = (".localhost", ".svc", ".cluster.local")
_PORT: Final = re.compile(r":\d{0,5}$")
_EVERY_NAME: Final = "*"


class Hosts:
    """The accepted values of a `Host` header.

    A page of another site can make a browser send a request to an address in its visitor's network, if the
    site's own name resolves to that address (DNS rebinding), and read the answer. The browser then sends the
    site's name as `Host`. So a name that anybody could own is refused unless it is configured.

    Addresses, as probes and Prometheus send them; names without a dot, which no public zone has; names with a
    suffix in `_NOBODYS`; and `names`, of which `*` accepts every name.
    """

    def __init__(self, names: Iterable[str]) -> None:
        self._names = {_plain(name) for name in names}

    def allows(self, header: str) -> bool:
        """Return whether a request with this `Host` is accepted."""
        name = _plain(_PORT.sub("", header))
        return (
            _EVERY_NAME in self._names
            or name in self._names
            or "." not in name
            or name.endswith(_NOBODYS)
            or _is_address(name)
        )


def _plain(name: str) -> str:
    return name.strip().lower().removesuffix(".").removeprefix("[").removesuffix("]")


def _is_address(name: str) -> bool:
    try:
        ipaddress.ip_address(name)
    except ValueError:
        return False
    return True


#: The style of all pages; a page refers to it as a file beside it, and is served with the style inlined.
_STYLE: Final = b'<link rel="stylesheet" href="style.css">'
_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


class Page:
    """A page of a package, with the style of all pages: a single document that calls only its own server."""

    def __init__(self, package: str, name: str) -> None:
        style = files("relay.service.observe").joinpath("style.css").read_bytes()
        page = files(package).joinpath(name).read_bytes()
        self.body = page.replace(_STYLE, b"<style>\n%b</style>" % style)
        self._headers = {
            "Content-Security-Policy": content_security_policy(self.body),
            "X-Frame-Options": "DENY",
        }

    async def answer(self, _: web.Request) -> web.Response:
        """Serve it."""
        return web.Response(body=self.body, content_type="text/html", charset="utf-8", headers=self._headers)


def content_security_policy(page: bytes) -> str:
    """Return a policy that lets the page run its own script and style and call its own server, no more."""
    allowed = {"script": "", "style": ""}
    for kind, text in _INLINE.findall(page):
        allowed[kind.decode()] += f" 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
    return (
        f"default-src 'none'; script-src{allowed['script']}; style-src{allowed['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )
