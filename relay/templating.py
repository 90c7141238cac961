"""Templates of one route: deriving them, keeping them, and finding the one that a record fits.

Contract: `TopicTemplates.translate` gives the target's key and value of a record that fits a template, and
the number of what is the same for all of them, its `Known`. `RouteTemplates.learn` is told of
records that went the straight line, and makes a template once a shape was met twice. Templates are a cache:
nothing depends on them but time. Each is of one table, and is dropped when the catalogue says something else
of that. They take so many bytes at most, about; then no new ones are made until some were without use for a
while.

A template is derived from a message of one row. `TopicTemplates.translate` is for such messages that become
one; `RouteTemplates.find_rows` for those of any number of rows that become any number.
"""

from __future__ import annotations

import hashlib
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import Encode, Payload, Seal, TracingDecoder
from relay.codecs.losses import Lossy
from relay.limits import DEFAULT_LIMITS
from relay.model import Event, RowChange, Rows, TableId, TransactionMark
from relay.records import TIME_END_MS, ConsumerRecord, Header, ProducerRecord
from relay.selection import Selection
from relay.templates.engine import Engine, Message, Run
from relay.templates.ops import LOSS, OFFSET, TIME_MS, Below, Frames, Marker, TargetMessage, Template
from relay.templates.tracing import Trace, TracedNumber, Untraceable

#: How many shapes are counted before they have a template, and how many bytes their texts at the marker may
#: take; then counting begins anew.
_MOST_COUNTED: Final = 10_000
_MOST_COUNTED_BYTES: Final = 1 << 20
#: What is kept of a shape beside its text takes about so many bytes.
_COUNT_BYTES: Final = 200
#: How many combinations of losses are kept as something known, of all templates of a topic and of each.
_MOST_LOSING: Final = 256
_MOST_LOSING_OF_ONE: Final = 4
#: The message of a shape of which a template is derived. Where that fails, it is tried again when so many
#: times as many have come. Where templates drive each other out, the next ones are derived after so many
#: times as many messages as those before.
_SIGHT: Final = 2
_PATIENCE: Final = 8
#: Whether templates are worth their making is seen when definitions change: for each that was made, or could
#: not be, so many rows should have fitted one. Where they did not, shapes have to come more often first.
_WORTH: Final = 64
#: How many shapes of a topic are remembered whose templates have lost their place.
_MOST_REPLACED: Final = 1_000
_MOST_WASTE: Final = 32 * _WORTH
_LATE_SIGHT: Final = 512
#: While there is no room for new templates: how many records without one come between two looks for templates
#: without use.
_LOOK_EVERY: Final = 10_000
#: Where so many records of shapes that were met before had no template that they fit, and not an eighth as
#: many had one in that time, so many records for each of them are not looked at.
_VAIN: Final = 256
_IDLE: Final = 15
#: How many bytes a template takes in an engine for each that it has as MessagePack; measured with the kernel.
_FOR_A_PACKED_BYTE: Final = 2

#: Messages that are counted together: their text at the marker, and whether their rows are split.
_Shape = tuple[bytes, bool]
Prepare = Callable[[list[Event]], list[Event]]
Allows = Callable[[int, int], bool]
Count = Callable[[list[Event], list[Lossy], int], None]


class TopicOfRows(NamedTuple):
    """The target topic of a template's rows. It holds until the translator goes back to an earlier state:
    then `seen_version` is another.
    """

    name: str
    seen_version: int


class Known:
    """What is the same for all rows that fit a template and lose the same: the events without their values,
    what is lost of them, and the headers of the payload. `allows`: whether a row in this partition with this
    offset follows the DDL that it must follow; None: it does, whatever they are. `uses`: how many rows have
    fitted that are not counted yet. `has_tombstone`: whether a record with the same key and no value
    follows. `lost`: the words of what values add to the template's number. `more`: the headers of the
    payloads that a row becomes besides. `table`: the rows' own. `is_plain`: whether there are no
    headers, no tombstone and no DDL that rows must follow. `size`: the template's bytes, about; `shape`: what
    equal templates have alike. `is_used`: whether a row has fitted since somebody looked; `served`: how many
    have, of those that are counted. `topic`: of the rows, if it depends on their table, and is known.
    """

    __slots__ = (
        "allows",
        "events",
        "has_tombstone",
        "headers",
        "is_plain",
        "is_used",
        "losses",
        "lost",
        "more",
        "served",
        "shape",
        "size",
        "table",
        "topic",
        "uses",
    )

    def __init__(  # noqa: PLR0913 - what is known
        self,
        events: list[Event],
        losses: list[Lossy],
        headers: tuple[Header, ...],
        allows: Allows | None,
        lost: Callable[[int], list[str]],
        *,
        table: TableId,
        more: list[tuple[Header, ...]],
        has_tombstone: bool,
    ) -> None:
        self.events, self.losses, self.headers, self.allows = events, losses, headers, allows
        self.lost, self.more, self.has_tombstone = lost, more, has_tombstone
        self.table = table
        self.is_plain = allows is None and not headers and not has_tombstone
        self.uses = self.served = self.size = self.shape = 0
        self.is_used = True
        self.topic: TopicOfRows | None = None

    def losing(self, added: int) -> Known:
        """Return the same for records of which values have added this to the template's number."""
        losses = [*self.losses, *map(Lossy, self.lost(added))]
        return Known(
            self.events,
            losses,
            self.headers,
            self.allows,
            self.lost,
            table=self.table,
            more=self.more,
            has_tombstone=self.has_tombstone,
        )


#: What is known of a template that rows beside each other fit, and the messages that they become.
FoundRows = tuple[Known, list[Message]]


class Line(NamedTuple):
    """The parts of a route's straight line. `refused`: the losses for which it refuses a record.
    `writes_ends`: whether the end of a transaction has a topic; else it is counted. `seal`: what makes
    messages for a topic of what `encode` writes; None: they are that.
    """

    decoder: TracingDecoder
    selection: Selection | None
    prepare: Prepare | None
    encode: Encode
    refused: frozenset[Lossy]
    writes_ends: bool = True
    seal: Seal | None = None


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

    def __init__(  # noqa: PLR0913, PLR0917 - what a route has, and its bound
        self,
        engine: type[Engine],
        marker: Marker,
        line: Line,
        form: Form,
        count: Count,
        frames: Frames | None = None,
        most_bytes: int = DEFAULT_LIMITS.cache_bytes,
    ) -> None:
        self._engine, self._marker, self._form, self._frames = engine, marker, form, frames
        self._trial = engine(marker, frames)
        self._most_bytes, self._bytes, self._to_look = most_bytes, 0, _LOOK_EVERY
        self._decoder, self._selection, self._prepare, self._encode = line[:4]
        self._refused, self._writes_ends, self._seal = line[4:]
        self._topics: dict[str, TopicTemplates] = {}
        #: The definitions that all templates agree with.
        self.catalog = Catalog()
        #: Which templates there are of each table, and of which shapes of its messages one was derived, or
        #: could not be; and the bytes of these shapes.
        self._of_table: defaultdict[TableId, set[tuple[TopicTemplates, int]]] = defaultdict(set)
        self._shapes_of: defaultdict[TableId, set[tuple[TopicTemplates, _Shape]]] = defaultdict(set)
        self._shape_bytes = 0
        self._count = count
        self._uses = 0
        #: How many templates were derived, or could not be, since their worth was seen, and `_uses` before.
        self._derivations = self._uses_before = 0
        #: What was derived in vain, in uses that were missing.
        self._waste, self._sight = 0, _SIGHT
        #: How many records have fitted no template.
        self.misses = 0
        #: How many records are still to go the straight line without a look at templates, until definitions
        #: change.
        self.idle = 0
        #: Records that were looked at in vain, and what `uses` was when that was counted from 0.
        self._vain = self._uses_then = 0

    def skips(self, catalog: Catalog) -> bool:
        """Go on with this catalogue; whether the next record goes the straight line without a look at
        templates, as `idle` ones do, which is counted.
        """
        if catalog is not self.catalog:
            self._drop_outdated(catalog)
        if not self.idle:
            return False
        self.idle -= 1
        self.misses += 1
        return True

    def of_topic(self, name: str) -> TopicTemplates:
        """Return the templates of a source topic, always the same object: callers may keep it."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = TopicTemplates(self._engine(self._marker, self._frames))
        return topic

    def known_of(self, topic: TopicTemplates, number: int) -> Known:
        """Return what is known of records for which a topic's engine gives this number. The caller counts
        `Known.uses`.
        """
        known = topic.known.get(number)
        if known is None:
            self._shed(topic)
            known = topic.losing(number)
        return known

    def find_rows(self, record: ConsumerRecord, room: int, shared: int) -> list[FoundRows] | int:
        """Return what the rows of a record become, if all fit templates; else how many do before the first
        that fits none. `room`, `shared`: see `Engine.translate_rows`.
        """
        topic = self.of_topic(record.topic)
        offset = record.offset
        runs = topic.translate_rows(record.key, record.value, offset, record.timestamp_ms, room, shared)
        if isinstance(runs, int):
            return runs
        self._shed(topic)
        found: list[FoundRows] = []
        for number, messages in runs:
            known = topic.known.get(number) or topic.losing(number)
            allows = known.allows
            if known.has_tombstone or (allows is not None and not allows(record.partition, offset)):
                return sum(len(its) // (1 + len(one.more)) for one, its in found)
            found.append((known, messages))
        return found

    def settle(self) -> None:
        """Count the records that have fitted templates."""
        for topic in self._topics.values():
            for known in topic.known.values():
                self._count_uses(known)

    def _count_uses(self, known: Known) -> None:
        if known.uses:
            self._uses += known.uses
            self._count(known.events, known.losses, known.uses)
            known.served += known.uses
            known.uses, known.is_used = 0, True

    @property
    def uses(self) -> int:
        """How many rows have fitted templates."""
        self.settle()
        return self._uses

    def _drop_outdated(self, catalog: Catalog) -> None:
        """Forget the templates of tables whose definitions have changed: these hold from now on."""
        for table in catalog.changed_since(self.catalog):
            for topic, number in list(self._of_table.get(table, ())):
                topic.engine.remove(number)
                self._forget(topic, number)
            self._count_anew(table)
        self.catalog, self.idle = catalog, 0
        if self._derivations:
            missing = self._derivations * _WORTH - (self.uses - self._uses_before)
            self._waste = min(max(0, self._waste + missing), 2 * _MOST_WASTE)
            self._sight = _SIGHT if self._waste < _MOST_WASTE else _LATE_SIGHT
            self._derivations, self._uses_before = 0, self._uses

    def learn(
        self,
        record: ConsumerRecord,
        events: Sequence[Event],
        out: Sequence[ProducerRecord],
        losses: list[Lossy],
    ) -> None:
        """Learn from a record that fitted no template, was these events, and became these records."""
        is_split = len(out) > 2 or (len(out) == 2 and out[1].value is not None)
        change = only_row(events)
        if is_split and len(events) > 1:
            return  # the end of a transaction has become a message
        if change is not None and self.is_due(record, is_split=is_split):
            self.derive(record, change, out, losses, is_split=is_split)

    def is_due(self, record: ConsumerRecord, *, is_split: bool = False) -> bool:
        """Count a record that fitted no template; whether to `derive` one of it. `is_split`: its row became
        several messages. Those are counted by themselves: many have no template, which delays no others.
        """
        marked = _marked(self._marker, record)
        if marked is None or not self._has_room():
            return False
        met, due = self.of_topic(record.topic).meet((marked, is_split), self._sight)
        if met < due and due > self._sight:
            self._note_vain()
        return met >= due

    def _note_vain(self) -> None:
        """Note a record that fits no template, though there are some or can be none for its like."""
        self._vain += 1
        if self._vain < _VAIN:
            return
        uses = self.uses
        if 8 * (uses - self._uses_then) < self._vain:
            self.idle = _IDLE * self._vain
        self._vain, self._uses_then = 0, uses

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

    def _remove_unused(self, topic: TopicTemplates) -> None:
        known = topic.known
        for each in known.values():
            self._count_uses(each)
        used = {number % LOSS for number, each in known.items() if each.is_used}
        for each in known.values():
            each.is_used = False
        for number in {number % LOSS for number in known} - used:
            topic.engine.remove(number)
            self._forget(topic, number)

    def derive(
        self,
        record: ConsumerRecord,
        change: RowChange | None,
        out: Sequence[ProducerRecord] | Sequence[Payload],
        losses: list[Lossy],
        *,
        is_split: bool = False,
    ) -> None:
        """Add the template of a record that was this row and became these messages; None: it was something
        else, which has no template. `is_split`: as it was counted.
        """
        topic, marked = self.of_topic(record.topic), _marked(self._marker, record)
        if marked is None:
            return
        shape = marked, is_split
        self._derivations += 1
        if change is not None:
            self._note_shape(change.table, topic, shape)
        known = None
        if change is not None and out and not any(message.blobs for message in out):
            known = self._added(topic, record, change, out, losses)
        if known is None:
            topic.note_none(shape)
            return
        number, made = known
        forgotten = self._forget(topic, number)
        topic.note_made(shape, is_rival=bool(forgotten) and topic.is_rival(made, forgotten))
        topic.known[number] = made
        self._bytes += made.size
        self._of_table[made.table].add((topic, number))

    def _note_shape(self, table: TableId, topic: TopicTemplates, shape: _Shape) -> None:
        """Note that a template of this shape was derived, or could not be: that may be so until the table
        changes.
        """
        if (topic, shape) in self._shapes_of[table]:
            return
        if self._shape_bytes > _MOST_COUNTED_BYTES:
            for other in list(self._shapes_of):
                self._count_anew(other)
        self._shapes_of[table].add((topic, shape))
        self._shape_bytes += len(shape[0]) + _COUNT_BYTES

    def _count_anew(self, table: TableId) -> None:
        """Forget how many messages have come of a table's shapes."""
        for topic, shape in self._shapes_of.pop(table, ()):
            topic.count_anew(shape)
            self._shape_bytes -= len(shape[0]) + _COUNT_BYTES

    def _forget(self, topic: TopicTemplates, number: int) -> list[Known]:
        """Forget what is known of a template, if there is one with this number; return it."""
        forgotten = topic.pop_all(number)
        for known in forgotten:
            self._count_uses(known)
            self._bytes -= known.size
        if forgotten:
            table = forgotten[0].table
            self._of_table[table].remove((topic, number))
            if not self._of_table[table]:
                del self._of_table[table]
        return forgotten

    def _shed(self, topic: TopicTemplates) -> None:
        """Forget what is known of records that lose something if that is much: it is made again at need."""
        templates = len(topic.known) - topic.losing_count
        if topic.losing_count > _MOST_LOSING + _MOST_LOSING_OF_ONE * templates:
            for known in topic.pop_losing():
                self._count_uses(known)

    def _added(
        self,
        topic: TopicTemplates,
        record: ConsumerRecord,
        change: RowChange,
        out: Sequence[ProducerRecord] | Sequence[Payload],
        losses: list[Lossy],
    ) -> tuple[int, Known] | None:
        """Add the template of a record's shape; None if there is none."""
        try:
            template, known = self._derived(record, change)
            if not _has_headers(known, out):
                return None
            # Tried by itself: beside others one would give it its place, or is equal, and would go with it.
            self._trial.clear()
            number = self._trial.add(template)
            if not _fits(self._trial, record, number, known, out, losses, self._seal):
                return None
            return topic.engine.add(template), known
        except Exception:
            return None

    def _derived(self, record: ConsumerRecord, change: RowChange) -> tuple[Template, Known]:
        """Return the template of a record's shape, and what is known of it. Raises Untraceable, and what an
        encoder raises.
        """
        trace = Trace(self._refused, _digest(record))
        message = self._decoder.traced(record, change, self.catalog, trace)
        events: list[Event] = [message.change]
        if message.end is not None:
            events.append(message.end)
        if self._selection is not None:
            events, _ = self._selection.filter(events)
        if self._prepare is not None:
            events = self._prepare(events)
        lost: list[Lossy] = []
        if not self._writes_ends:
            lost += [Lossy.TRANSACTION_MARK for event in events if isinstance(event, TransactionMark)]
            events = [event for event in events if not isinstance(event, TransactionMark)]
        numbered = msgspec.structs.replace(
            record,
            partition=trace.refused(),
            offset=TracedNumber(trace, OFFSET, record.offset),
            timestamp_ms=TracedNumber(trace, TIME_MS, record.timestamp_ms),
        )
        self._decoder.decode(record, self.catalog, lost)
        payloads = list(self._encode(events, numbered, lost))
        if any(payload.blobs for payload in payloads):
            raise Untraceable
        first, *others = payloads
        written = [_without_values(event, change) for event in events]
        allows = None if message.after is None else message.after.check(record.topic)
        is_one_row = only_row(events) is not None
        has_tombstone = others == [Payload(first.key, None)] and first.key is not None and is_one_row
        if has_tombstone:
            others = []
        headers = [payload.headers for payload in others]
        known = Known(
            written,
            lost,
            first.headers,
            allows,
            trace.lost,
            table=change.table,
            more=headers,
            has_tombstone=has_tombstone,
        )
        (key, value), *more = [self._target(payload, trace) for payload in (first, *others)]
        trace.check_marks(text for payload in payloads for _, text in payload.headers)
        template = Template(
            message.key,
            message.value,
            (*dict.fromkeys(trace.conditions), *trace.left_out(), Below(TIME_MS, TIME_END_MS)),
            key,
            value,
            self._form.most_bytes,
            tuple(more),
        )
        known.size, known.shape = _bytes_of(template), hash(template)
        return template, known

    def _target(self, payload: Payload, trace: Trace) -> TargetMessage:
        """Return the ops of a traced payload. Raises Untraceable."""
        lengths_at = self._form.lengths_at or (None, None)
        parts = zip((payload.key, payload.value), lengths_at, strict=True)
        return TargetMessage(*[None if text is None else trace.target_ops(text, at) for text, at in parts])


class TopicTemplates:
    """The templates of a source topic's messages, and how often shapes without one were met."""

    def __init__(self, engine: Engine) -> None:
        self.engine = engine
        self.translate, self.translate_rows = engine.translate, engine.translate_rows
        #: By what an engine gives as a template's number.
        self.known: dict[int, Known] = {}
        #: The numbers of records that lose something, by their template's, and how many there are.
        self._losing: defaultdict[int, list[int]] = defaultdict(list)
        self.losing_count = 0
        #: By shape: how many messages fitted no template, which one is to be the next, and how many templates
        #: were made that took the place of others.
        self._met: dict[_Shape, tuple[int, int, int]] = {}
        self._met_bytes = 0
        #: The shapes of templates whose place others have taken; how many these were, and their rows.
        self._replaced: set[int] = set()
        self._replaced_count = self._replaced_served = 0

    def losing(self, number: int) -> Known:
        """Return what is known of records for which an engine gives this number, and keep it."""
        added, template = divmod(number, LOSS)
        known = self.known[number] = self.known[template].losing(added * LOSS)
        self._losing[template].append(number)
        self.losing_count += 1
        return known

    def pop_all(self, template: int) -> list[Known]:
        """Remove and return what is known of a template."""
        losing = self._losing.pop(template, ())
        self.losing_count -= len(losing)
        return [self.known.pop(number) for number in (template, *losing) if number in self.known]

    def pop_losing(self) -> list[Known]:
        """Remove and return what is known of records that lose something."""
        found: list[Known] = []
        for template, numbers in self._losing.items():
            losing, base = [self.known.pop(number) for number in numbers], self.known[template]
            if any(known.uses or known.is_used for known in losing):
                base.is_used = True
            base.served += sum(known.served + known.uses for known in losing)
            found += losing
        self._losing.clear()
        self.losing_count = 0
        return found

    def meet(self, shape: _Shape, sight: int) -> tuple[int, int]:
        """Count a message that fitted no template. Return how many did, and of which to derive one: the one
        with number `sight` at first.
        """
        if shape not in self._met:
            if len(self._met) >= _MOST_COUNTED or self._met_bytes > _MOST_COUNTED_BYTES:
                self._met.clear()
                self._met_bytes = 0
            self._met_bytes += len(shape[0])
        met, due, replaced = self._met.get(shape, (0, sight, 0))
        self._met[shape] = met + 1, due, replaced
        return met + 1, due

    def count_anew(self, shape: _Shape) -> None:
        """Forget how many messages of a shape have come."""
        if self._met.pop(shape, None) is not None:
            self._met_bytes -= len(shape[0])

    def is_rival(self, made: Known, replaced: Sequence[Known]) -> bool:
        """Whether a template and what it has replaced drive each other out: it was replaced itself before, or
        those that were replaced have hardly been worth their making. Otherwise rows have moved on, as from
        one definition of a table to the next.
        """
        shape = replaced[0].shape
        if shape == made.shape:
            return True
        self._replaced_count += 1
        self._replaced_served += sum(known.served for known in replaced)
        if len(self._replaced) >= _MOST_REPLACED:
            self._replaced.clear()
        self._replaced.add(shape)
        return made.shape in self._replaced or self._replaced_served < _WORTH * self._replaced_count

    def note_made(self, shape: _Shape, *, is_rival: bool) -> None:
        """Note that a template was made of a message; `is_rival`: it drives out another one (`is_rival`)."""
        met, _, replaced = self._met[shape]
        replaced += is_rival
        self._met[shape] = met, met + _PATIENCE**replaced, replaced

    def note_none(self, shape: _Shape) -> None:
        """Note that no template could be made of a message."""
        met, _, replaced = self._met[shape]
        self._met[shape] = met, met * _PATIENCE, replaced


def _marked(marker: Marker, record: ConsumerRecord) -> bytes | None:
    text = record.key if marker.part == "key" else record.value
    if text is None:
        return None
    start = text.find(marker.start)
    end = text.find(marker.end, start + len(marker.start))
    return None if start < 0 or end < 0 else text[start:end]


def only_row(events: Sequence[Event]) -> RowChange | None:
    """Return the change of one row, alone or with the end of its transaction behind it; None of other
    events.
    """
    first, *others = events
    is_alone = not others or (len(others) == 1 and isinstance(others[0], TransactionMark))
    return first if is_alone and isinstance(first, RowChange) else None


def _without_values(event: Event, change: RowChange) -> Event:
    """Return an event that a traced change became, or that stands behind it, without its values. Raises
    Untraceable for others.
    """
    if isinstance(event, TransactionMark):
        return TransactionMark(event.is_begin, "", change.source, change.emitted_at_ns)
    if not isinstance(event, RowChange):
        raise Untraceable
    return msgspec.structs.replace(change, op=event.op, images=_NO_ROWS)


def _has_headers(known: Known, out: Sequence[ProducerRecord] | Sequence[Payload]) -> bool:
    """Whether messages have the headers of the payloads before all others."""
    headers = [known.headers, *known.more, *[()] * known.has_tombstone]
    given = [message.headers for message in out]
    return len(headers) == len(given) and all(
        found[: len(its)] == its for found, its in zip(given, headers, strict=True)
    )


def _fits(  # noqa: PLR0913, PLR0917 - what a template gives, and what it is to give
    engine: Engine,
    record: ConsumerRecord,
    number: int,
    known: Known,
    out: Sequence[ProducerRecord] | Sequence[Payload],
    losses: list[Lossy],
    seal: Seal | None,
) -> bool:
    """Whether a record becomes these messages by a template, and loses this; a tombstone is no message."""
    messages = [(message.key, message.value) for message in out]
    if known.has_tombstone:
        *messages, tombstone = messages
        if tombstone != (messages[0][0], None):
            return False
    found = _translated(engine, record, known)
    if found is None or _sealed(found[1], out[0], seal) != messages:
        return False
    added, fitting = divmod(found[0], LOSS)
    return fitting == number and Counter(known.losing(added * LOSS).losses) == Counter(losses)


def _sealed(messages: list[Message], first: ProducerRecord | Payload, seal: Seal | None) -> list[Message]:
    """Return messages of a template as they are written, to the topic of the first of them."""
    if seal is None or isinstance(first, Payload):
        return messages
    return [seal(first.topic, key, value) for key, value in messages]


def _translated(engine: Engine, record: ConsumerRecord, known: Known) -> Run | None:
    """Return what an engine gives for a record of one row; None if that fits no template."""
    of_record = record.key, record.value, record.offset, record.timestamp_ms
    if known.more:
        runs = engine.translate_rows(*of_record, _NO_LIMIT, 0)
        return None if isinstance(runs, int) or len(runs) != 1 else runs[0]
    found = engine.translate(*of_record, b"")
    return None if found is None else (found[0], [found[1:3]])


#: More bytes than any record becomes.
_NO_LIMIT: Final = 1 << 60


def _digest(record: ConsumerRecord) -> str:
    """Hexadecimal digits that a message cannot have in itself."""
    return hashlib.blake2b((record.key or b"") + (record.value or b""), digest_size=8).hexdigest()


_packed: Final = msgspec.msgpack.Encoder().encode


def _bytes_of(template: Template) -> int:
    """What a template takes in an engine, about."""
    try:
        return _FOR_A_PACKED_BYTE * len(_packed(template))
    except OverflowError:  # MessagePack has no integers of more than 64 bits
        return len(str(template))


_NO_ROWS: Final = Rows(None, None)
