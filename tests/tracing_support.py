"""An OpenTelemetry collector for tests: it accepts spans over HTTP, as protobuf."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import AsyncIterator
from typing import Any

import pytest
from aiohttp import web
from opentelemetry.proto.collector.trace.v1.trace_service_pb2 import ExportTraceServiceRequest

from relay.model.records import Header

TRACE, STATE = "0af7651916cd43dd8448eb211c80319c", "vendor=opaque"


def traceparent(span: int) -> Header:
    return "traceparent", f"00-{TRACE}-{span:016x}-01".encode()


class Collector:
    """Collects spans.

    `status`: of its answers; errors ask for a wait of a day. `answers`: while it is not set, no request is
    answered.
    """

    def __init__(self) -> None:
        self.requests: list[tuple[dict[str, str], ExportTraceServiceRequest]] = []
        self.bodies: list[bytes] = []
        self.status, self.asked = 200, 0
        self.answers = asyncio.Event()
        self.answers.set()
        self.address = ""

    async def handle(self, request: web.Request) -> web.StreamResponse:
        body = await request.read()
        self.asked += 1
        await self.answers.wait()
        if self.status == 200:
            self.bodies.append(body)
            self.requests.append((dict(request.headers), ExportTraceServiceRequest.FromString(body)))
        headers = {} if self.status == 200 else {"Retry-After": "86400"}
        return web.Response(status=self.status, headers=headers, content_type="application/x-protobuf")

    @property
    def spans(self) -> list[Any]:
        return [
            span
            for _, request in self.requests
            for resource in request.resource_spans
            for scope in resource.scope_spans
            for span in scope.spans
        ]

    @property
    def resource(self) -> dict[str, Any]:
        return values(self.requests[0][1].resource_spans[0].resource.attributes)


def values(attributes: Any) -> dict[str, Any]:
    """Give attributes as a dict."""
    found = {}
    for each in attributes:
        kind = each.value.WhichOneof("value")
        found[each.key] = getattr(each.value, kind)
    return found


@contextlib.asynccontextmanager
async def collecting(monkeypatch: pytest.MonkeyPatch, **environment: str) -> AsyncIterator[Collector]:
    """Run a collector that the environment names; spans are sent at once."""
    collector, app = Collector(), web.Application()
    app.router.add_post("/v1/traces", collector.handle)
    runner = web.AppRunner(app, shutdown_timeout=0)
    await runner.setup()
    await web.TCPSite(runner, "127.0.0.1", 0).start()
    collector.address = f"127.0.0.1:{runner.addresses[0][1]}"
    settings = {
        "OTEL_EXPORTER_OTLP_ENDPOINT": f"http://{collector.address}",
        "OTEL_BSP_SCHEDULE_DELAY": "20",
        **environment,
    }
    for name, value in settings.items():
        monkeypatch.setenv(name, value)
    try:
        yield collector
    finally:
        collector.answers.set()
        await runner.cleanup()
