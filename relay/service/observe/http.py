"""The HTTP server of the service: /livez, /readyz, /metrics, /status, and a page for people at /.

It only reads the status: no request asks Kafka, waits for the loop, or changes anything. So a broker's outage
is shown here, and ends no process. There is no access log and no authentication: nothing that is served is a
secret or a row's value. A page of another site cannot read it through a visitor's browser, see `hosts`.
"""

from __future__ import annotations

import asyncio
import base64
import contextlib
import errno
import hashlib
import logging
import re
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from importlib.resources import files
from types import TracebackType
from typing import Any, Final, Self, cast

import orjson
from aiohttp import web

from relay.config.tables import Http
from relay.errors import AddressUnavailable
from relay.logs import Log, frames_of
from relay.service.observe import report
from relay.service.observe.hosts import Hosts
from relay.service.observe.metrics import exposition, registry_of
from relay.service.observe.status import RUNNING, Status
from relay.shown import to_json

#: All paths, with a word about each; also the answer to any other path.
PATHS: Final[Mapping[str, str]] = {
    "/": "status page",
    "/livez": "whether the process works",
    "/readyz": "whether the service is running, and what is wrong",
    "/metrics": "metrics for Prometheus",
    "/status": "everything as JSON",
}
#: Connections at a time; each costs a file descriptor that the relay itself may need.
MAX_CONNECTIONS: Final = 64
#: How long a connection may be without a whole request, the first one or the next.
_REQUEST_SECONDS: Final = 10.0
#: Most bytes of a request; all of them are headers.
_REQUEST_BYTES: Final = 1 << 16
_SHUTDOWN_SECONDS: Final = 1.0
_COMMON_HEADERS: Final = {
    "Cache-Control": "no-store",
    "X-Content-Type-Options": "nosniff",
    "Referrer-Policy": "no-referrer",
    "Cross-Origin-Resource-Policy": "same-origin",
    "Server": "relay",
}
_NOT_OURS: Final = "this server has no such name; allowed_hosts in [http] takes more"
_EXAMPLES: Final = "such as 127.0.0.1 or 0.0.0.0"
_INLINE: Final = re.compile(rb"<(script|style)>(.*?)</\1>", re.DOTALL)


@contextlib.asynccontextmanager
async def serving(wanted: Http, status: Status, log: Log) -> AsyncIterator[None]:
    """Serve health, metrics and status during an `async with` block, if that is wanted."""
    if not wanted.port:
        yield
        return
    async with HttpServer(wanted.host, wanted.port, status, names=wanted.allowed_hosts, log=log):
        yield


class HttpServer:
    """Serves a status while its `async with` block runs. Port 0 takes any free port; `port` tells which.
    `names`: host names by which it may be asked for, see `Hosts`.

    Entering raises AddressUnavailable.
    """

    def __init__(
        self, host: str, port: int, status: Status, *, names: Sequence[str] = (), log: Log | None = None
    ) -> None:
        self._host, self._port, self._status, self._log = host, port, status, log
        self._hosts = Hosts((host, *names))
        self._registry = registry_of(status)
        self._page = files("relay.service.observe").joinpath("status_page.html").read_bytes()
        self._page_headers = {
            "Content-Security-Policy": content_security_policy(self._page),
            "X-Frame-Options": "DENY",
        }
        self._runner: web.AppRunner | None = None
        self._server: asyncio.Server | None = None
        self._connections: dict[web.RequestHandler, asyncio.Transport] = {}

    @property
    def port(self) -> int:
        """The port that is served."""
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
            raise _unavailable(self._host, self._port, error) from error
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
            # A client that does not read would keep it open.
            transport.abort()

    def _connection(self) -> web.RequestHandler:
        assert self._runner is not None  # noqa: S101 - it is made by `setup`; this tells the type
        assert self._runner.server is not None  # noqa: S101 - it is made by `setup`; this tells the type
        return _Connection(self._runner.server, self._connections)

    def _application(self) -> web.Application:
        application = web.Application(middlewares=[self._answered])
        handlers = {
            "/": self._index,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/status": self._status_json,
        }
        # HEAD comes with GET.
        application.add_routes([web.get(path, handler) for path, handler in handlers.items()])
        return application

    def _check_host(self, request: web.Request) -> None:
        if not all(map(self._hosts.allows, request.headers.getall("Host", ()))):
            raise web.HTTPMisdirectedRequest(reason=_NOT_OURS)

    @web.middleware
    async def _answered(self, request: web.Request, handler: Any) -> web.StreamResponse:  # noqa: ANN401 - aiohttp's own type is private
        response: web.StreamResponse
        try:
            self._check_host(request)
            response = await handler(request)
        except web.HTTPMethodNotAllowed as refused:
            response = _json({"error": "only GET and HEAD", "paths": PATHS}, refused.status)
            response.headers["Allow"] = "GET, HEAD"
        except web.HTTPException as refused:
            response = _json({"error": refused.reason, "paths": PATHS}, refused.status)
        except asyncio.CancelledError:
            raise
        except Exception as error:
            if self._log is not None:
                self._log.error(
                    "http.failed", path=request.path, kind=type(error).__name__, frames=frames_of(error)
                )
            response = _json({"error": "a bug in relay", "kind": type(error).__name__}, 500)
        response.headers.update(_COMMON_HEADERS)
        if isinstance(request.protocol, _Connection):
            request.protocol.received = 0
        return response

    async def _index(self, _: web.Request) -> web.Response:
        return web.Response(
            body=self._page, content_type="text/html", charset="utf-8", headers=self._page_headers
        )

    async def _livez(self, _: web.Request) -> web.Response:
        return _json(report.liveness(self._status), 200 if self._status.is_alive else 503)

    async def _readyz(self, _: web.Request) -> web.Response:
        return _json(report.readiness(self._status), 200 if self._status.phase == RUNNING else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = exposition(self._registry, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _status_json(self, _: web.Request) -> web.Response:
        return _json(report.details(self._status), indent=False)


class _Connection(web.RequestHandler):
    """A client's connection; `others` are all that are open, the oldest first.

    If there are too many, the oldest is closed: the newest may be the kubelet's probe, and slow clients must
    not keep it out.
    """

    def __init__(self, server: web.Server, others: dict[web.RequestHandler, asyncio.Transport]) -> None:
        super().__init__(
            server,
            loop=asyncio.get_running_loop(),
            # Counted from the last answer, or from the start, to the end of the next request.
            keepalive_timeout=_REQUEST_SECONDS,
            lingering_time=_SHUTDOWN_SECONDS,
            access_log=None,  # type: ignore[arg-type]  # aiohttp takes None for none
            logger=_silent(),
        )
        self._others = others
        #: Bytes that came since the last answer.
        self.received = 0

    def data_received(self, data: bytes) -> None:
        """Take what came, unless it is more than any request that is answered here."""
        self.received += len(data)
        if self.received > _REQUEST_BYTES and self.transport is not None:
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


def content_security_policy(page: bytes) -> str:
    """Return a policy: the page may run its own script and style and ask the server it came from, no more."""
    allowed = {"script": "", "style": ""}
    for kind, text in _INLINE.findall(page):
        allowed[kind.decode()] += f" 'sha256-{base64.b64encode(hashlib.sha256(text).digest()).decode()}'"
    return (
        f"default-src 'none'; script-src{allowed['script']}; style-src{allowed['style']}; "
        "connect-src 'self'; img-src data:; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
    )


def _json(body: Mapping[str, Any], code: int = 200, *, indent: bool = True) -> web.Response:
    option = orjson.OPT_APPEND_NEWLINE | (orjson.OPT_INDENT_2 if indent else 0)
    data = to_json(body, option=option)
    return web.Response(body=data, status=code, content_type="application/json")


def _unavailable(host: str, port: int, error: OSError | ValueError) -> AddressUnavailable:
    # A ValueError: what cannot be a name at all.
    if isinstance(error, socket.gaierror | ValueError):
        why = f"the host's name is not known; set host in [http] to an address of this machine, {_EXAMPLES}"
    elif error.errno == errno.EADDRINUSE:
        why = (
            "another program, perhaps another relay, uses the port; stop it or set another port in [http], "
            "0 for none"
        )
    elif error.errno == errno.EADDRNOTAVAIL:
        why = f"this machine does not have the address; set host in [http] to one that it has, {_EXAMPLES}"
    elif error.errno in {errno.EACCES, errno.EPERM}:
        why = "relay may not use this port; ports below 1024 need rights: set a higher one in [http]"
    else:
        why = error.strerror or type(error).__name__
    return AddressUnavailable(f"cannot serve HTTP at {host}:{port}: {why}")


def _silent() -> logging.Logger:
    """Make a logger for what clients do wrong on the wire: nobody here can do anything about it."""
    logger = logging.Logger("relay.http")  # outside the tree of loggers on purpose
    logger.addHandler(logging.NullHandler())
    return logger
