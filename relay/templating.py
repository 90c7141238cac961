"""Templates of one route: deriving them, keeping them, and finding the one that a record fits.

Contract: `RouteTemplates.find` gives the target's key and value of a record that fits a template, with what
is the same for all of them (`Known`). `RouteTemplates.learn` is told of records that went the straight line,
and makes a template once a shape was met twice. Templates are a cache: nothing depends on them but time. They
belong to one value of the catalogue, and are dropped with it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import AfterDdl, Payload, TracingDecoder
from relay.codecs.losses import Lossy
from relay.model import Event, RowChange, Rows
from relay.records import ConsumerRecord, Header, ProducerRecord
from relay.templates.engine import Engine
from relay.templates.ops import OFFSET, TIME_MS, Marker, Template
from relay.templates.tracing import Trace, TracedNumber, Untraceable

#: How many shapes are counted before they have a template; then counting begins anew.
_MOST_COUNTED: Final = 10_000
#: After so many messages of a shape templates are derived: at the second one, and, as long as they fit none,
#: ever less often.
_FIRST_SIGHT: Final = 2

Prepare = Callable[[list[Event]], list[Event]]
Encode = Callable[[Sequence[Event], ConsumerRecord, list[Lossy]], Iterable[Payload]]


class Known(NamedTuple):
    """What is the same for all records that fit a template: the event without its values, what is lost of it,
    the headers of its payload, and the DDL that it must follow.
    """

    events: list[Event]
    losses: list[Lossy]
    headers: tuple[Header, ...]
    after: AfterDdl | None


class Found(NamedTuple):
    """What a record that fits a template becomes."""

    known: Known
    key: bytes | None
    value: bytes | None


class Form(NamedTuple):
    """The target's messages. `most_bytes`: what key and value may have together; `lengths_at`: as a codec
    says it.
    """

    most_bytes: int
    lengths_at: tuple[int, int] | None


class RouteTemplates:
    """The templates of one route, by source topic.

    `decoder`, `prepare`, `encode` are the route's own; `form` is the target's.
    """

    def __init__(
        self,
        engine: type[Engine],
        marker: Marker,
        decoder: TracingDecoder,
        prepare: Prepare | None,
        encode: Encode,
        form: Form,
    ) -> None:
        self._engine, self._marker, self._form = engine, marker, form
        self._decoder, self._prepare, self._encode = decoder, prepare, encode
        self._topics: dict[str, _TopicTemplates] = {}
        self._catalog: Catalog | None = None

    def find(self, record: ConsumerRecord, catalog: Catalog) -> Found | None:
        """Return what a record becomes, if it fits a template."""
        if catalog is not self._catalog:
            self._catalog = catalog
            self._topics.clear()
        topic = self._topics.get(record.topic)
        if topic is None:
            return None
        found = topic.engine.translate(record.key, record.value, record.offset, record.timestamp_ms)
        if found is None:
            return None
        number, key, value = found
        known = topic.known[number]
        if known.after is not None and not known.after.allows(record):
            return None
        return Found(known, key, value)

    def learn(self, record: ConsumerRecord, event: Event, out: ProducerRecord, losses: list[Lossy]) -> None:
        """Learn from a record that fitted no template, was this event, and became this one record."""
        if not isinstance(event, RowChange) or out.blobs:
            return
        catalog = self._catalog
        topic = self._topics.get(record.topic)
        if topic is None:
            topic = self._topics[record.topic] = _TopicTemplates(self._engine(self._marker))
        if catalog is None or not topic.is_due(_marked(self._marker, record)):
            return
        try:
            template, headers, after = self._derived(record, event, catalog, losses)
        except Exception:
            return
        number = topic.engine.add(template)
        if _fits(topic.engine, record, (number, out.key, out.value)):
            stripped = msgspec.structs.replace(event, images=_NO_ROWS)
            topic.known[number] = Known([stripped], losses, headers, after)
        else:
            topic.engine.remove(number)

    def _derived(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, losses: list[Lossy]
    ) -> tuple[Template, tuple[Header, ...], AfterDdl | None]:
        """Return the template of a record's shape, and what `Known` has of it. Raises Untraceable, and what
        an encoder raises.
        """
        trace = Trace()
        message = self._decoder.traced(record, change, catalog, trace)
        events: list[Event] = [message.change]
        if self._prepare is not None:
            events = self._prepare(events)
        numbered = msgspec.structs.replace(
            record,
            partition=trace.refused(),
            offset=TracedNumber(trace, OFFSET, record.offset),
            timestamp_ms=TracedNumber(trace, TIME_MS, record.timestamp_ms),
        )
        lost: list[Lossy] = []
        payloads = list(self._encode(events, numbered, lost))
        if len(payloads) != 1 or payloads[0].blobs or losses[len(losses) - len(lost) :] != lost:
            raise Untraceable
        lengths_at = self._form.lengths_at or (None, None)
        parts = zip((payloads[0].key, payloads[0].value), lengths_at, strict=True)
        key, value = [None if text is None else trace.target_ops(text, at) for text, at in parts]
        trace.check_marks(text for _, text in payloads[0].headers)
        template = Template(
            message.key,
            message.value,
            tuple(dict.fromkeys(trace.conditions)),
            key,
            value,
            self._form.most_bytes,
        )
        return template, payloads[0].headers, message.after


class _TopicTemplates:
    """The templates of a source topic's messages, and how often shapes without one were met."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.known: dict[int, Known] = {}
        self._met: dict[bytes, int] = {}

    def is_due(self, marked: bytes | None) -> bool:
        """Count a message that fitted no template; whether to derive one of it."""
        if marked is None:
            return False
        if len(self._met) >= _MOST_COUNTED:
            self._met.clear()
        met = self._met[marked] = self._met.get(marked, 0) + 1
        return met >= _FIRST_SIGHT and not met & (met - 1)


def _marked(marker: Marker, record: ConsumerRecord) -> bytes | None:
    text = record.key if marker.part == "key" else record.value
    if text is None:
        return None
    start = text.find(marker.start)
    end = text.find(marker.end, start + len(marker.start))
    return None if start < 0 or end < 0 else text[start:end]


def _fits(engine: Engine, record: ConsumerRecord, expected: tuple[int, bytes | None, bytes | None]) -> bool:
    found = engine.translate(record.key, record.value, record.offset, record.timestamp_ms)
    return found == expected


_NO_ROWS: Final = Rows(None, None)
