"""OpenTelemetry tracing: a span for each round of the loop.

A span has the attributes of OpenTelemetry's semantic conventions for messaging, and links to the spans of the
producers, by the headers `traceparent` and `tracestate` of the records. It contains no keys and no values.
`relay.service.observe.span_export` sends the spans.

This module needs the extra `tracing`; the service imports it only for routes with `enabled` in [tracing].
"""

from __future__ import annotations

import contextlib
import time
from collections.abc import AsyncIterator, Mapping, Sequence
from typing import Final

from opentelemetry import trace
from opentelemetry.context import Context
from opentelemetry.trace.propagation.tracecontext import TraceContextTextMapPropagator
from opentelemetry.util.types import AttributeValue

from relay.io.logs import Log
from relay.model.errors import DeliveryFailed
from relay.model.records import ConsumerRecord, Header
from relay.service.observe.about import About
from relay.service.observe.span_export import FLUSH_SECONDS, exporting

#: Maximum links of a span; it is also the SDK's default (`OTEL_SPAN_LINK_COUNT_LIMIT`).
MOST_LINKS: Final = 128
#: Maximum bytes of a header that is read. A `traceparent` has 55, a `tracestate` at most 512.
_LONGEST_PARENT, _LONGEST_STATE = 128, 1_024
_PARENT, _STATE = "traceparent", "tracestate"
_PROPAGATOR: Final = TraceContextTextMapPropagator()


@contextlib.asynccontextmanager
async def tracing(
    about: About, log: Log, *, hides_values: bool = False, flush_seconds: float = FLUSH_SECONDS
) -> AsyncIterator[BatchTracer]:
    """Trace the rounds of a relay during an `async with` block; at its end, send the last spans.

    `hides_values`: whether column rules hide values; links then omit `tracestate`, which may be any text.
    `flush_seconds`: time limit for sending the last spans. Raises ConfigError for unusable environment
    variables.
    """
    async with exporting(about.version, log, flush_seconds) as provider:
        tracer = BatchTracer(provider.get_tracer("relay", about.version), about, has_states=not hides_values)
        try:
            yield tracer
        finally:
            tracer.fail_open(DeliveryFailed.code)


class BatchTracer:
    """Makes a span for each round. All methods are for the loop's task.

    `has_states`: whether links contain the `tracestate` of records.
    """

    def __init__(self, tracer: trace.Tracer, about: About, *, has_states: bool) -> None:
        self._tracer, self._has_states = tracer, has_states
        self._attributes: Mapping[str, AttributeValue] = {
            "messaging.system": "kafka",
            "messaging.operation.name": "process",
            "messaging.operation.type": "process",
            "messaging.consumer.group.name": about.group,
            "relay.source.protocol": about.source.protocol,
            "relay.target.protocol": about.target.protocol,
        }
        # A dict keeps them in the order in which they began.
        self._open: dict[BatchSpan, None] = {}

    def begin(self) -> BatchSpan:
        """Begin the span of a round."""
        span = BatchSpan(self, Links(has_states=self._has_states))
        self._open[span] = None
        return span

    def fail_open(self, error: str) -> None:
        """End all open spans with the code of an error. Their rounds will be repeated."""
        for span in list(self._open):
            span.failed(error)

    def start(
        self, name: str, began_ns: int, links: Sequence[trace.Link], attributes: Mapping[str, AttributeValue]
    ) -> trace.Span:
        """Start a span of the SDK as of a time in nanoseconds since 1970. It is the root of a trace."""
        return self._tracer.start_span(
            name,
            Context(),
            trace.SpanKind.CONSUMER,
            {**self._attributes, **attributes},
            links,
            start_time=began_ns,
        )

    def close(self, span: BatchSpan) -> None:
        """Forget a span that has ended."""
        self._open.pop(span, None)


class BatchSpan:
    """The span of one round. The SDK's span begins when its links are known, as of the round's beginning."""

    def __init__(self, tracer: BatchTracer, links: Links) -> None:
        self._tracer, self._links, self._began_ns = tracer, links, time.time_ns()
        # The number of records by topic and partition.
        self._taken: dict[tuple[str, int], int] = {}
        self._span: trace.Span | None = None

    def take(self, records: Sequence[ConsumerRecord]) -> None:
        """Add records of one partition to the round."""
        if records:
            key = records[0].topic, records[0].partition
            self._taken[key] = self._taken.get(key, 0) + len(records)
            self._links.add(records)

    def translated(self, written: int, error: str) -> None:
        """Start the SDK's span; a round without records has none."""
        if not self._taken:
            self._tracer.close(self)
            return
        span = self._started()
        span.set_attribute("relay.written.message_count", written)
        span.add_event("relay.translated")
        if error:
            _set_error(span, error)

    def delivered(self) -> None:
        """End the span: readers of the target can read the records."""
        self._end()

    def failed(self, error: str) -> None:
        """End the span with the code of an error."""
        if self._taken:
            _set_error(self._started(), error)
        self._end()

    def _started(self) -> trace.Span:
        if self._span is None:
            name = " ".join(["process", *self._destination.values()][:2])
            attributes = {
                "messaging.batch.message_count": sum(self._taken.values()),
                **self._destination,
                **self._links.attributes,
            }
            self._span = self._tracer.start(name, self._began_ns, self._links.found, attributes)
        return self._span

    @property
    def _destination(self) -> dict[str, str]:
        """Return the topic and the partition, each only if all records share it."""
        found = {}
        topics = {topic for topic, _ in self._taken}
        if len(topics) == 1:
            found["messaging.destination.name"] = topics.pop()
        if len(self._taken) == 1:
            ((_, partition),) = self._taken
            found["messaging.destination.partition.id"] = str(partition)
        return found

    def _end(self) -> None:
        if self._span is not None:
            self._span.end()
        self._tracer.close(self)


def _set_error(span: trace.Span, code: str) -> None:
    """Mark a span as failed. Texts of errors stay out of it."""
    span.set_attribute("error.type", code)
    span.set_status(trace.StatusCode.ERROR)


class Links:
    """Links to the spans that the headers of records name: the first `most` different ones."""

    def __init__(self, most: int = MOST_LINKS, *, has_states: bool) -> None:
        self.found: list[trace.Link] = []
        self._most, self._has_states, self._left_out = most, has_states, 0
        self._known: set[bytes] = set()

    @property
    def attributes(self) -> Mapping[str, AttributeValue]:
        """Return the number of records whose spans are not linked, because there are too many."""
        return {"relay.links.left_out": self._left_out} if self._left_out else {}

    def add(self, records: Sequence[ConsumerRecord]) -> None:
        """Add links to the spans that records name."""
        for record in records:
            parent = _last(record.headers, _PARENT, _LONGEST_PARENT) if record.headers else None
            if parent is None or parent in self._known:
                continue
            if len(self.found) >= self._most:
                self._left_out += 1
                continue
            self._known.add(parent)
            state = _last(record.headers, _STATE, _LONGEST_STATE) if self._has_states else None
            context = _context(parent, state)
            if context.is_valid:
                self.found.append(trace.Link(context, _state_attributes(context)))


def _last(headers: Sequence[Header], name: str, longest: int) -> bytes | None:
    """Return the last header of a name, as producers replace headers by adding another one."""
    found = next((value for each, value in reversed(headers) if each == name), None)
    return found if found and len(found) <= longest else None


def _context(parent: bytes, state: bytes | None) -> trace.SpanContext:
    """Return the context that W3C's headers describe; an invalid one if they are invalid."""
    carrier = {_PARENT: parent.decode("ascii", "replace")}
    if state is not None:
        carrier[_STATE] = state.decode("ascii", "replace")
    return trace.get_current_span(_PROPAGATOR.extract(carrier, Context())).get_span_context()


def _state_attributes(context: trace.SpanContext) -> Mapping[str, AttributeValue]:
    """Return the trace state as an attribute: the exporter leaves it out of links."""
    return {"w3c.tracestate": context.trace_state.to_header()} if context.trace_state else {}
