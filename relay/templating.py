"""Templates of one route: deriving them, keeping them, and finding the one that a record fits.

Contract: `RouteTemplates.find` gives the target's key and value of a record that fits a template, with what
is the same for all of them (`Known`). `RouteTemplates.learn` is told of records that went the straight line,
and makes a template once a shape was met twice. Templates are a cache: nothing depends on them but time. They
belong to one value of the catalogue, and are dropped with it. They take so many bytes at most, about; then
no new ones are made until some were without use for a while.

A template is of a message of one row. A record of several is found as the messages of one row that it
could be (`Codec.parts`).
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import AfterDdl, Encode, Message, Payload, TracingDecoder
from relay.codecs.losses import Lossy
from relay.limits import DEFAULT_LIMITS
from relay.model import Event, RowChange, Rows
from relay.records import TIME_END_MS, ConsumerRecord, Header, ProducerRecord
from relay.selection import Selection
from relay.templates.engine import MOST_TRIED, Engine
from relay.templates.ops import LOSS, OFFSET, TIME_MS, Below, Marker, Template
from relay.templates.tracing import Trace, TracedNumber, Untraceable

#: How many shapes are counted before they have a template; then counting begins anew.
_MOST_COUNTED: Final = 10_000
#: The message of a shape of which a template is derived. Where that fails, it is tried again when so many
#: times as many have come. Where templates drive each other out, the next ones are derived after so many
#: times as many messages as those before.
_SIGHT: Final = 2
_PATIENCE: Final = 8
#: Whether templates are worth their making is seen when definitions change, which drops them: each should
#: have been used so often. Where many were not, shapes have to come more often first.
_WORTH: Final = 64
_MOST_WASTE: Final = 32 * _WORTH
_LATE_SIGHT: Final = 512
#: While there is no room for new templates: how many records without one come between two looks for templates
#: without use.
_LOOK_EVERY: Final = 10_000
#: What a text or a tuple of a template takes in an engine, beside what is in it; measured with the kernel.
_TEXT_BYTES: Final = 32
_TUPLE_BYTES: Final = 16

Prepare = Callable[[list[Event]], list[Event]]
Count = Callable[[list[Event], list[Lossy], int], None]


class Known:
    """What is the same for all records that fit a template and lose the same: the event without its values,
    what is lost of it, the headers of its payload, and the DDL that it must follow. `uses`: how many records
    have fitted that are not counted yet. `has_tombstone`: whether a record with the
    same key and no value follows. `lost`: the words of what values add to the template's number. `size`: the
    template's bytes, about. `is_used`: whether one has fitted since somebody looked.
    """

    __slots__ = (
        "after",
        "events",
        "has_tombstone",
        "headers",
        "is_used",
        "losses",
        "lost",
        "size",
        "uses",
    )

    def __init__(
        self,
        event: Event,
        losses: list[Lossy],
        headers: tuple[Header, ...],
        after: AfterDdl | None,
        lost: Callable[[int], list[str]],
    ) -> None:
        self.events, self.losses, self.headers, self.after = [event], losses, headers, after
        self.lost = lost
        self.has_tombstone = False
        self.uses = self.size = 0
        self.is_used = True

    def losing(self, added: int) -> Known:
        """Return the same for records of which values have added this to the template's number."""
        losses = [*self.losses, *map(Lossy, self.lost(added))]
        known = Known(self.events[0], losses, self.headers, self.after, self.lost)
        known.has_tombstone = self.has_tombstone
        return known


class _AllKnown(dict[int, Known]):
    """What is known, by what an engine gives as a template's number."""

    def __missing__(self, number: int) -> Known:
        added, template = divmod(number, LOSS)
        known = self[number] = self[template].losing(added * LOSS)
        return known

    def pop_all(self, template: int) -> list[Known]:
        """Remove and return what is known of a template."""
        return [self.pop(number) for number in list(self) if number % LOSS == template]


#: What is known of a template that a record fits, and the key and value that the record becomes.
Found = tuple[Known, bytes | None, bytes | None]
#: The same, with its mark (`SOURCE_HEADER`).
Marked = tuple[Known, bytes | None, bytes | None, bytes]


class Line(NamedTuple):
    """The parts of a route's straight line. `is_strict`: it refuses records of which something is lost."""

    decoder: TracingDecoder
    selection: Selection | None
    prepare: Prepare | None
    encode: Encode
    is_strict: bool


class Form(NamedTuple):
    """The target's messages. `most_bytes`: what key and value may have together; `lengths_at`: as a codec
    says it.
    """

    most_bytes: int
    lengths_at: tuple[int, int] | None


class RouteTemplates:
    """The templates of one route, by source topic.

    `form` is the target's. `count`: what counts events and losses of so many records. `most_bytes`: what all
    templates may take, about.
    """

    def __init__(
        self,
        engine: type[Engine],
        marker: Marker,
        line: Line,
        form: Form,
        count: Count,
        most_bytes: int = DEFAULT_LIMITS.cache_bytes,
    ) -> None:
        self._engine, self._marker, self._form = engine, marker, form
        self._most_bytes, self._bytes, self._to_look = most_bytes, 0, _LOOK_EVERY
        self._decoder, self._selection, self._prepare, self._encode, self._is_strict = line
        self._topics: dict[str, _TopicTemplates] = {}
        self._catalog = Catalog()
        self._last: _TopicTemplates | None = None
        self._count = count
        self._uses = 0
        #: Of the templates at hand: how many were made, and `_uses` before.
        self._made = self._uses_before = 0
        #: What was made in vain, in uses that were missing.
        self._waste, self._sight = 0, _SIGHT
        #: How many records have fitted no template.
        self.misses = 0

    def find(self, record: ConsumerRecord, catalog: Catalog, place: bytes) -> Marked | None:
        """Return the target's key and value of a record that fits a template, what is known of it, and the
        mark that begins with `place`.

        The caller counts `Known.uses` if it takes them.
        """
        if catalog is not self._catalog:
            self._drop(catalog)
        topic = self._last
        if topic is None or record.topic != topic.name:
            topic = self._last = self._topics.get(record.topic)
            if topic is None:
                return None
        found = topic.translate(record.key, record.value, record.offset, record.timestamp_ms, place)
        if found is None:
            return None
        number, key, value, mark = found
        known = topic.known[number]
        if known.after is not None and not known.after.allows(record):
            return None
        return known, key, value, mark

    def find_all(self, record: ConsumerRecord, parts: Sequence[Message], catalog: Catalog) -> list[Found]:
        """Return what `find` gives for each part of a record, up to the first that fits no template."""
        if catalog is not self._catalog:
            self._drop(catalog)
        topic = self._topics.get(record.topic)
        if topic is None:
            return []
        translate, all_known = topic.translate, topic.known
        offset, time_ms = record.offset, record.timestamp_ms
        all_found: list[Found] = []
        for part_key, part_value in parts:
            found = translate(part_key, part_value, offset, time_ms, b"")
            if found is None:
                break
            number, key, value, _ = found
            known = all_known[number]
            if known.has_tombstone or (known.after is not None and not known.after.allows(record)):
                break
            all_found.append((known, key, value))
        return all_found

    def settle(self) -> None:
        """Count the records that have fitted templates."""
        for topic in self._topics.values():
            for known in topic.known.values():
                self._count_uses(known)

    def _count_uses(self, known: Known) -> None:
        if known.uses:
            self._uses += known.uses
            self._count(known.events, known.losses, known.uses)
            known.uses, known.is_used = 0, True

    @property
    def uses(self) -> int:
        """How many rows have fitted templates."""
        self.settle()
        return self._uses

    def _drop(self, catalog: Catalog) -> None:
        """Forget all templates: the definitions have changed."""
        self.settle()
        self._catalog, self._last = catalog, None
        self._topics.clear()
        self._bytes = 0
        missing = self._made * _WORTH - (self._uses - self._uses_before)
        self._waste = min(max(0, self._waste + missing), 2 * _MOST_WASTE)
        self._sight = _SIGHT if self._waste < _MOST_WASTE else _LATE_SIGHT
        self._made, self._uses_before = 0, self._uses

    def learn(
        self, record: ConsumerRecord, event: Event, out: Sequence[ProducerRecord], losses: list[Lossy]
    ) -> None:
        """Learn from a record that fitted no template, was this event, and became these records."""
        if isinstance(event, RowChange) and self.is_due(record):
            is_one = len(out) == 1 or out[1].value is None
            self.derive(record, event, out[0] if is_one else None, losses, has_tombstone=len(out) > 1)

    def is_due(self, record: ConsumerRecord) -> bool:
        """Count a record that fitted no template; whether to `derive` one of it."""
        marked = _marked(self._marker, record)
        return (
            marked is not None and self._has_room() and self._topic(record.topic).is_due(marked, self._sight)
        )

    def _has_room(self) -> bool:
        """Whether there is room for a template; now and then those without use make some."""
        if self._bytes < self._most_bytes:
            return True
        self._to_look -= 1
        if self._to_look > 0:
            return False
        self._to_look = _LOOK_EVERY
        for topic in self._topics.values():
            self._remove_unused(topic)
        return self._bytes < self._most_bytes

    def _remove_unused(self, topic: _TopicTemplates) -> None:
        known = topic.known
        for each in known.values():
            self._count_uses(each)
        used = {number % LOSS for number, each in known.items() if each.is_used}
        for each in known.values():
            each.is_used = False
        for number in {number % LOSS for number in known} - used:
            topic.engine.remove(number)
            self._bytes -= sum([each.size for each in known.pop_all(number)])

    def _topic(self, name: str) -> _TopicTemplates:
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = _TopicTemplates(name, self._engine(self._marker))
        return topic

    def derive(
        self,
        record: ConsumerRecord,
        change: RowChange | None,
        out: ProducerRecord | Payload | None,
        losses: list[Lossy],
        *,
        has_tombstone: bool = False,
    ) -> None:
        """Add the template of a record that was this row and became this message, perhaps with a tombstone
        behind it; None: it was something else, which has no template.
        """
        topic, marked = self._topic(record.topic), _marked(self._marker, record)
        if marked is None:
            return
        known = None
        if change is not None and out is not None and not out.blobs:
            known = self._added(topic.engine, record, change, out, losses, has_tombstone=has_tombstone)
        topic.note(marked, is_made=known is not None)
        if known is not None:
            number, made = known
            for replaced in topic.known.pop_all(number):
                self._count_uses(replaced)
                self._bytes -= replaced.size
            topic.known[number] = made
            self._bytes += made.size
            self._made += 1

    def _added(
        self,
        engine: Engine,
        record: ConsumerRecord,
        change: RowChange,
        out: ProducerRecord | Payload,
        losses: list[Lossy],
        *,
        has_tombstone: bool,
    ) -> tuple[int, Known] | None:
        """Add the template of a record's shape; None if there is none."""
        try:
            template, known = self._derived(record, change)
            number = engine.add(template)
        except Exception:
            return None
        is_same = out.headers[: len(known.headers)] == known.headers and known.has_tombstone is has_tombstone
        found = engine.translate(record.key, record.value, record.offset, record.timestamp_ms, b"")
        if is_same and found is not None and found[1:3] == (out.key, out.value):
            added, fitting = divmod(found[0], LOSS)
            if fitting == number and Counter(known.losing(added * LOSS).losses) == Counter(losses):
                return number, known
        engine.remove(number)
        return None

    def _derived(self, record: ConsumerRecord, change: RowChange) -> tuple[Template, Known]:
        """Return the template of a record's shape, and what is known of it. Raises Untraceable, and what an
        encoder raises.
        """
        trace = Trace(counts_losses=not self._is_strict)
        message = self._decoder.traced(record, change, self._catalog, trace)
        events: list[Event] = [message.change]
        if self._selection is not None:
            events, _ = self._selection.filter(events)
        if self._prepare is not None:
            events = self._prepare(events)
        numbered = msgspec.structs.replace(
            record,
            partition=trace.refused(),
            offset=TracedNumber(trace, OFFSET, record.offset),
            timestamp_ms=TracedNumber(trace, TIME_MS, record.timestamp_ms),
        )
        lost: list[Lossy] = []
        self._decoder.decode(record, self._catalog, lost)
        payload, *others = self._encode(events, numbered, lost)
        if payload.blobs:
            raise Untraceable
        known = Known(
            msgspec.structs.replace(change, images=_NO_ROWS), lost, payload.headers, message.after, trace.lost
        )
        if others:
            known.has_tombstone = others == [Payload(payload.key, None)] and payload.key is not None
            if not known.has_tombstone:
                raise Untraceable
        lengths_at = self._form.lengths_at or (None, None)
        parts = zip((payload.key, payload.value), lengths_at, strict=True)
        key, value = [None if text is None else trace.target_ops(text, at) for text, at in parts]
        trace.check_marks(text for _, text in payload.headers)
        template = Template(
            message.key,
            message.value,
            (*dict.fromkeys(trace.conditions), *trace.left_out(), Below(TIME_MS, TIME_END_MS)),
            key,
            value,
            self._form.most_bytes,
        )
        known.size = _bytes_of(template)
        return template, known


class _TopicTemplates:
    """The templates of a source topic's messages, and how often shapes without one were met."""

    def __init__(self, name: str, engine: Engine) -> None:
        self.name, self.engine, self.translate = name, engine, engine.translate
        self.known = _AllKnown()
        #: By the text at the marker: how many messages fitted no template, which one is to be the next, and
        #: how many templates were made.
        self._met: dict[bytes, tuple[int, int, int]] = {}

    def is_due(self, marked: bytes, sight: int) -> bool:
        """Count a message that fitted no template; whether to derive one of it, which is done of the one with
        number `sight` first.
        """
        if len(self._met) >= _MOST_COUNTED:
            self._met.clear()
        met, due, made = self._met.get(marked, (0, sight, 0))
        self._met[marked] = met + 1, due, made
        return met + 1 >= due

    def note(self, marked: bytes, *, is_made: bool) -> None:
        """Note whether a template was made of a message."""
        met, _, made = self._met[marked]
        if is_made:
            self._met[marked] = met, met + _PATIENCE ** (made // MOST_TRIED), made + 1
        else:
            self._met[marked] = met, met * _PATIENCE, made


def _marked(marker: Marker, record: ConsumerRecord) -> bytes | None:
    text = record.key if marker.part == "key" else record.value
    if text is None:
        return None
    start = text.find(marker.start)
    end = text.find(marker.end, start + len(marker.start))
    return None if start < 0 or end < 0 else text[start:end]


def _bytes_of(part: object) -> int:
    """What a part of a template takes in an engine, about."""
    if isinstance(part, bytes):
        return _TEXT_BYTES + len(part)
    if isinstance(part, tuple):
        return _TUPLE_BYTES + sum(map(_bytes_of, part))
    return 0


_NO_ROWS: Final = Rows(None, None)
