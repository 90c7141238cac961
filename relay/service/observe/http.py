"""The HTTP server of the service: /livez, /readyz, /metrics, /status, and a page for people at /.

It only reads the status: no request queries Kafka, waits for the loop, or changes anything. So a broker's
outage is shown here, and ends no process. Responses contain neither secrets nor row values.
"""

from __future__ import annotations

import contextlib
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import ClassVar, Final

from aiohttp import web

from relay.config.keys import Http
from relay.io.logs import Log
from relay.service.observe import report
from relay.service.observe.metrics import exposition, registry_of
from relay.service.observe.server import Page, SettingNames, WebServer, json_answer
from relay.service.observe.status import RUNNING, Status

#: All paths, with a short description of each; also the answer to any other path.
PATHS: Final[Mapping[str, str]] = {
    "/": "status page",
    "/livez": "whether the process is alive",
    "/readyz": "whether the service is ready, with failing checks",
    "/metrics": "metrics for Prometheus",
    "/status": "the whole status as JSON",
}


@contextlib.asynccontextmanager
async def serving(wanted: Http, status: Status, log: Log) -> AsyncIterator[None]:
    """Serve health, metrics and status during an `async with` block, if that is wanted."""
    if not wanted.port:
        yield
        return
    async with HttpServer(wanted.host, wanted.port, status, names=wanted.allowed_hosts, log=log):
        yield


class HttpServer(WebServer):
    """Serve a status while the `async with` block runs."""

    paths: ClassVar = PATHS
    settings: ClassVar = SettingNames(
        "host in [http]", "another port in [http], 0 for none", "a higher one in [http]"
    )
    not_ours: ClassVar = "the Host of this request is not allowed; add it to allowed_hosts in [http]"

    def __init__(
        self, host: str, port: int, status: Status, *, names: Sequence[str] = (), log: Log | None = None
    ) -> None:
        super().__init__(host, port, names=names, log=log)
        self._status = status
        self._registry = registry_of(status)
        self._page = Page("relay.service.observe", "status_page.html")

    def routes(self) -> Sequence[web.RouteDef]:
        """Return a handler for each of `PATHS`."""
        handlers = {
            "/": self._page.answer,
            "/livez": self._livez,
            "/readyz": self._readyz,
            "/metrics": self._metrics,
            "/status": self._status_json,
        }
        # HEAD comes with GET.
        return [web.get(path, handler) for path, handler in handlers.items()]

    async def _livez(self, _: web.Request) -> web.Response:
        return json_answer(report.liveness(self._status), 200 if self._status.is_alive else 503)

    async def _readyz(self, _: web.Request) -> web.Response:
        return json_answer(report.readiness(self._status), 200 if self._status.phase == RUNNING else 503)

    async def _metrics(self, request: web.Request) -> web.Response:
        body, content_type = exposition(self._registry, request.headers.get("Accept", ""))
        return web.Response(body=body, headers={"Content-Type": content_type})

    async def _status_json(self, _: web.Request) -> web.Response:
        return json_answer(report.details(self._status), indent=False)
