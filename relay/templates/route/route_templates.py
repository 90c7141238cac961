"""Keeping the templates of one route, within bytes, and dropping those that definitions have overtaken."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from relay.catalog import Catalog
from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss
from relay.model.events import Event, RowChange, TableId
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.templates.engine import Engine
from relay.templates.ops import LOSS, Marker
from relay.templates.route.deriving import Deriver, only_row
from relay.templates.route.known import FoundRows, Known
from relay.templates.route.topic_templates import WORTH, Shape, TopicTemplates

#: How many bytes may be taken by shapes whose templates were derived, or could not be; beyond that, their
#: messages are counted from 0 again. What is kept of a shape beside its text takes about `_COUNT_BYTES`.
_MOST_NOTED_BYTES: Final = 1 << 20
_COUNT_BYTES: Final = 200
#: How many combinations of losses are kept as something known, of all templates of a topic and of each.
_MOST_LOSING: Final = 256
_MOST_LOSING_OF_ONE: Final = 4
#: The message of a shape of which a template is derived. Whether templates are worth their making is seen
#: when definitions change: where rows are missing that should have fitted one (`WORTH`), shapes have to come
#: more often first.
_SIGHT: Final = 2
_LATE_SIGHT: Final = 512
_MOST_WASTE: Final = 32 * WORTH
#: While there is no room for new templates: how many records without one come between two looks for templates
#: without use.
_LOOK_EVERY: Final = 10_000
#: Once `_VAIN` records of known shapes have fitted no template, and fewer than a quarter as many have fitted
#: one meanwhile (`_FIT_FOR_VAIN`), the next `_IDLE` * `_VAIN` records are not tried.
_VAIN: Final = 256
_FIT_FOR_VAIN: Final = 4
_IDLE: Final = 15

Count = Callable[[list[Event], list[Loss], int], None]


class RouteTemplates:
    """The templates of one route, by source topic.

    `new_engine`: what makes the engine of a topic. `count`: what counts events and losses of so many records.
    `most_bytes`: what all templates may take, about.
    """

    def __init__(
        self,
        new_engine: Callable[[], Engine],
        marker: Marker,
        deriver: Deriver,
        count: Count,
        most_bytes: int,
    ) -> None:
        self._new_engine, self._marker, self._deriver = new_engine, marker, deriver
        self._most_bytes, self._bytes, self._to_look = most_bytes, 0, _LOOK_EVERY
        self._topics: dict[str, TopicTemplates] = {}
        #: The definitions that all templates agree with.
        self.catalog = Catalog()
        #: Which templates there are of each table, and of which shapes of its messages one was derived, or
        #: could not be; and the bytes of these shapes.
        self._of_table: defaultdict[TableId, set[tuple[TopicTemplates, int]]] = defaultdict(set)
        self._shapes_of: defaultdict[TableId, set[tuple[TopicTemplates, Shape]]] = defaultdict(set)
        self._shape_bytes = 0
        self._count = count
        self._uses = 0
        #: How many templates were derived, or could not be, since their worth was seen, and `_uses` before.
        self._derivations = self._uses_before = 0
        #: What was derived without success, in uses that were missing.
        self._waste, self._sight = 0, _SIGHT
        #: How many records have fitted no template.
        self.misses = 0
        #: How many records are still to take the slow path without a look at templates, until definitions
        #: change; where they change too often for templates, also after that.
        self.idle = 0
        #: Records that were looked at without success, and what `uses` was when that was counted from 0.
        self._vain = self._uses_then = 0

    def skips(self, catalog: Catalog) -> bool:
        """Go on with this catalog; whether the next record takes the slow path without a look at
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
            topic = self._topics[name] = TopicTemplates(self._new_engine())
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
        self.catalog = catalog
        if self._derivations:
            missing = self._derivations * WORTH - (self.uses - self._uses_before)
            self._waste = min(max(0, self._waste + missing), 2 * _MOST_WASTE)
            self._sight = _SIGHT if self._waste < _MOST_WASTE else _LATE_SIGHT
            self._derivations, self._uses_before = 0, self._uses
        if self._sight == _SIGHT:
            self.idle = 0

    def learn(
        self,
        record: ConsumerRecord,
        events: Sequence[Event],
        out: Sequence[ProducerRecord],
        losses: list[Loss],
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
        if met < due and due > _SIGHT:
            self._note_vain()
        return met >= due

    def _note_vain(self) -> None:
        """Note a record that fits no template, though there are some or can be none for its like."""
        self._vain += 1
        if self._vain < _VAIN:
            return
        uses = self.uses
        if _FIT_FOR_VAIN * (uses - self._uses_then) < self._vain:
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
        out: Sequence[ProducerRecord] | Sequence[EncodedRecord],
        losses: list[Loss],
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

    def _note_shape(self, table: TableId, topic: TopicTemplates, shape: Shape) -> None:
        """Note that a template of this shape was derived, or could not be: that may be so until the table
        changes.
        """
        if (topic, shape) in self._shapes_of[table]:
            return
        if self._shape_bytes > _MOST_NOTED_BYTES:
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
        out: Sequence[ProducerRecord] | Sequence[EncodedRecord],
        losses: list[Loss],
    ) -> tuple[int, Known] | None:
        """Add the template of a record's shape; None if there is none."""
        try:
            template, known = self._deriver.derive(record, change, self.catalog, out, losses)
            return topic.engine.add(template), known
        except Exception:
            return None


def _marked(marker: Marker, record: ConsumerRecord) -> bytes | None:
    text = record.key if marker.part == "key" else record.value
    if text is None:
        return None
    start = text.find(marker.start)
    end = text.find(marker.end, start + len(marker.start))
    return None if start < 0 or end < 0 else text[start:end]
