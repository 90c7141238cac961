"""Send spans to an OpenTelemetry collector, with OTLP over HTTP.

The SDK's own thread sends them; its queue is bounded, and drops spans when it is full. So a collector that
does not answer neither delays nor stops a relay. Variables that begin with OTEL_ configure the SDK.
"""

from __future__ import annotations

import asyncio
import contextlib
import logging
import os
import re
import threading
from collections.abc import AsyncIterator, Iterator, Sequence
from typing import Any, Final
from urllib.parse import urlsplit

import requests
from opentelemetry.exporter.otlp.proto.http.trace_exporter import OTLPSpanExporter
from opentelemetry.sdk.resources import Resource
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import BatchSpanProcessor, SpanExporter, SpanExportResult

from relay.io.logs import Log
from relay.model.errors import ConfigError, Problem

#: Time limit for sending the last spans.
FLUSH_SECONDS: Final = 3.0
_ENDPOINTS: Final = ("OTEL_EXPORTER_OTLP_TRACES_ENDPOINT", "OTEL_EXPORTER_OTLP_ENDPOINT")
_DEFAULT_ENDPOINT: Final = "http://localhost:4318"
#: Variables of which only one value is supported; the first one that is set applies.
_SUPPORTED: Final = (
    (("OTEL_EXPORTER_OTLP_TRACES_PROTOCOL", "OTEL_EXPORTER_OTLP_PROTOCOL"), "http/protobuf"),
    (("OTEL_TRACES_EXPORTER",), "otlp"),
)
#: Values in the library's messages, and how many messages are kept.
_FORMAT: Final = re.compile(r"%[sdrf]")
_MOST_TEXTS: Final = 10
_REDIRECTS: Final = 300
#: Spans that wait at most, and spans of a request. The SDK's own 2048 and 512 may take 400 MB, as a span with
#: all its links takes up to 150 KB.
_QUEUE_SIZE, _REQUEST_SIZE = 512, 64


@contextlib.asynccontextmanager
async def exporting(version: str, log: Log, flush_seconds: float) -> AsyncIterator[TracerProvider]:
    """Export the spans of a provider during an `async with` block; at its end, send the last ones.

    `flush_seconds`: time limit for sending the last spans. Raises ConfigError for unusable environment
    variables.
    """
    with _library_log() as library:
        collector = _collector()
        provider = _provider(version, collector, log)
        for text in library.texts:
            log.warning("tracing.setting", message=f"the OpenTelemetry SDK ignores a setting: {text}")
        for text in _unsupported():
            log.warning("tracing.setting", message=text)
        if os.environ.get("OTEL_SDK_DISABLED", "").strip().lower() == "true":
            log.warning("tracing.setting", message="OTEL_SDK_DISABLED is true: no spans are sent")
        else:
            log.info("tracing.started", collector=collector)
        try:
            yield provider
        finally:
            if not await _shut_down(provider, flush_seconds):
                message = f"the collector did not accept the last spans within {flush_seconds:g} s"
                log.warning("tracing.unfinished", message=message)


def _provider(version: str, collector: str, log: Log) -> TracerProvider:
    """Return a provider whose spans are sent in the background. Raises ConfigError."""
    session = WatchedSession()
    try:
        exporter = WatchedExporter(OTLPSpanExporter(session=session), session, collector, log)
        provider = TracerProvider(resource=_resource(version), shutdown_on_exit=False)
        provider.add_span_processor(_processor(exporter))
    except ValueError as error:
        message = f"the OpenTelemetry SDK refuses its settings: {error}"
        hint = "correct the variables that begin with OTEL_"
        raise ConfigError([Problem("tracing.enabled", message, hint)]) from None
    return provider


def _processor(exporter: SpanExporter) -> BatchSpanProcessor:
    """Return a processor with relay's sizes, unless variables set others. Raises ValueError."""
    return BatchSpanProcessor(
        exporter,
        max_queue_size=None if "OTEL_BSP_MAX_QUEUE_SIZE" in os.environ else _QUEUE_SIZE,
        max_export_batch_size=None if "OTEL_BSP_MAX_EXPORT_BATCH_SIZE" in os.environ else _REQUEST_SIZE,
    )


def _resource(version: str) -> Resource:
    """Return the resource that the environment describes; its name is `relay` unless that has one."""
    found = Resource({"service.version": version}).merge(Resource.create())
    name = str(found.attributes.get("service.name", ""))
    return found.merge(Resource({"service.name": "relay"})) if name.startswith("unknown_service") else found


def _collector() -> str:
    """Return host and port of the collector; the rest of the URL may be secret. Raises ConfigError."""
    name = _first_set(_ENDPOINTS)
    given = os.environ[name] if name else _DEFAULT_ENDPOINT
    try:
        url = urlsplit(given)
        # Reading the port checks it.
        is_usable = url.scheme in {"http", "https"} and bool(url.hostname) and url.port != 0
    except ValueError:
        is_usable = False
    if not is_usable:
        message = f"{name} is not the URL of a collector"
        raise ConfigError([Problem("tracing.enabled", message, "such as http://otel-collector:4318")])
    return url.netloc.rpartition("@")[2]


def _unsupported() -> Iterator[str]:
    """Yield a text for each variable whose value relay does not support."""
    for names, supported in _SUPPORTED:
        name = _first_set(names)
        if name and os.environ[name].strip().lower() != supported:
            yield f"{name}: only {supported} is supported"


def _first_set(names: Sequence[str]) -> str:
    """Return the first of these variables that is set and not empty; "" for none."""
    return next((name for name in names if os.environ.get(name)), "")


async def _shut_down(provider: TracerProvider, seconds: float) -> bool:
    """Send the last spans; return whether that ended in time.

    The SDK waits up to 30 s and cannot be interrupted, so a daemon thread calls it.
    """
    loop, done = asyncio.get_running_loop(), asyncio.Event()

    def shut_down() -> None:
        provider.shutdown()
        # The loop may have ended.
        with contextlib.suppress(RuntimeError):
            loop.call_soon_threadsafe(done.set)

    threading.Thread(target=shut_down, name="tracing-shutdown", daemon=True).start()
    try:
        async with asyncio.timeout(seconds):
            await done.wait()
    except TimeoutError:
        return False
    return True


class WatchedSession(requests.Session):
    """An HTTP session that notes why the last request failed.

    cause: The class of the exception, or the HTTP status; "" if the request succeeded.
    """

    cause = ""

    def request(self, *args: Any, **kwargs: Any) -> requests.Response:  # noqa: ANN401 - those of requests
        """Send a request."""
        try:
            response = super().request(*args, **kwargs)
        except Exception as error:
            self.cause = type(error).__name__
            raise
        # The exporter does not follow redirects, but counts them as successes.
        self.cause = f"HTTP status {response.status_code}" if response.status_code >= _REDIRECTS else ""
        return response


class WatchedExporter(SpanExporter):
    """Log when the collector begins to fail and when it works again; called in the SDK's thread."""

    def __init__(self, exporter: SpanExporter, session: WatchedSession, collector: str, log: Log) -> None:
        self._exporter, self._session = exporter, session
        self._collector, self._log = collector, log
        self._lost, self._is_failing = 0, False

    def export(self, spans: Sequence[ReadableSpan]) -> SpanExportResult:
        """Send spans; the exporter repeats failed requests within its timeout."""
        self._session.cause = ""
        result = self._exporter.export(spans)
        if result is SpanExportResult.SUCCESS and not self._session.cause:
            self._note_success()
            return result
        self._note_failure(len(spans))
        return SpanExportResult.FAILURE

    def _note_success(self) -> None:
        if self._is_failing:
            message = "the collector accepts spans again"
            self._log.info("tracing.recovered", lost=self._lost, message=message)
        self._lost, self._is_failing = 0, False

    def _note_failure(self, spans: int) -> None:
        self._lost += spans
        if not self._is_failing:
            message = "the collector does not accept spans, which are lost; records are relayed as usual"
            cause = self._session.cause or "unknown"
            self._log.warning("tracing.failing", collector=self._collector, message=message, cause=cause)
        self._is_failing = True

    def shutdown(self) -> None:
        """End the exporter, and its attempts to repeat a request."""
        self._exporter.shutdown()


class LibraryLog(logging.Handler):
    """Keep the library's warnings without the values in them, which may be secrets of the environment.

    texts: The different warnings, the first few of them.
    """

    def __init__(self) -> None:
        super().__init__(logging.WARNING)
        self.texts: dict[str, None] = {}

    def emit(self, record: logging.LogRecord) -> None:
        """Keep a warning."""
        if len(self.texts) < _MOST_TEXTS:
            self.texts[_FORMAT.sub("…", str(record.msg))] = None


@contextlib.contextmanager
def _library_log() -> Iterator[LibraryLog]:
    """Take over the library's log during a `with` block."""
    handler, logger = LibraryLog(), logging.getLogger("opentelemetry")
    propagated = logger.propagate
    logger.addHandler(handler)
    logger.propagate = False
    try:
        yield handler
    finally:
        logger.removeHandler(handler)
        logger.propagate = propagated
