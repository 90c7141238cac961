"""Keeps the templates of one route within a size limit, and drops those with outdated definitions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Sequence
from typing import Final

from relay.catalog import Catalog
from relay.codecs.codec import EncodedRecord, own_name
from relay.codecs.losses import Loss
from relay.model.events import Event, RowChange, TableId
from relay.model.records import ConsumerRecord, ProducerRecord
from relay.templates.engine import Engine, Run
from relay.templates.ops import LOSS, Marker, Template
from relay.templates.route.deriving import Deriver, only_row
from relay.templates.route.known import FoundRows, TemplateInfo
from relay.templates.route.markers import marked_text
from relay.templates.route.policy import DEFAULT_POLICY, TemplatePolicy
from relay.templates.route.topic_templates import BREAK_EVEN_ROWS, Shape, TopicTemplates

#: The bytes that a shape takes besides its text, approximately.
_COUNT_BYTES: Final = 200
#: When definitions change, derivation is delayed to `TemplatePolicy.late_derivation` if templates did not pay
#: off: if fewer rows fitted them than expected (`BREAK_EVEN_ROWS`).
_MAX_WASTE: Final = 32 * BREAK_EVEN_ROWS
#: How many misses a record that fits a template makes up for.
_MISSES_PER_MATCH: Final = 4

Count = Callable[[list[Event], list[Loss], int], None]


class RouteTemplates:
    """The templates of one route, by source topic.

    new_engine: Creates the engine of a topic.
    count: Counts events and losses of a number of records.
    most_bytes: Approximate maximum size of all templates.
    policy: When templates are derived, tried and dropped.
    table_name: See `TemplateSupport`.
    """

    def __init__(  # noqa: PLR0913 - one parameter per part
        self,
        new_engine: Callable[[], Engine],
        marker: Marker,
        deriver: Deriver,
        count: Count,
        most_bytes: int,
        policy: TemplatePolicy = DEFAULT_POLICY,
        *,
        table_name: Callable[[TableId], TableId] = own_name,
    ) -> None:
        self._table_name = table_name
        self._new_engine, self._marker, self._deriver, self._policy = new_engine, marker, deriver, policy
        self._most_bytes, self._bytes, self._until_search = most_bytes, 0, policy.search_interval
        self._topics: dict[str, TopicTemplates] = {}
        #: The catalog with which all templates agree.
        self.catalog = Catalog()
        #: For each name of a table in messages, its templates, and its shapes that reached half the
        #: threshold; and the bytes of these shapes.
        self._of_table: defaultdict[TableId, set[tuple[TopicTemplates, int]]] = defaultdict(set)
        self._shapes_of: defaultdict[TableId, set[tuple[TopicTemplates, Shape]]] = defaultdict(set)
        self._shape_bytes = 0
        self._count = count
        self._uses = 0
        #: Derivations, successful or not, since the last check of their worth, and `_uses` at that time.
        self._derivations = self._uses_before = 0
        #: The cost of derivations that did not pay off, in missing uses.
        self._waste, self._threshold = 0, policy.first_derivation
        #: Records that fitted no template.
        self.misses = 0
        #: The number of next records that take the slow path without trying templates. It is reset when
        #: definitions change, unless they change too often for templates.
        self.idle = 0
        #: Such misses (`_note_miss`) since this counter was reset, and `uses` at that time.
        self._late_misses = self._uses_at_reset = 0

    def skips(self, catalog: Catalog) -> bool:
        """Switch to this catalog; return whether the next record takes the slow path without trying
        templates, because `idle` records remain. If so, count it.
        """
        if catalog is not self.catalog:
            self._drop_outdated(catalog)
        if not self.idle:
            return False
        self.idle -= 1
        self.misses += 1
        return True

    def of_topic(self, name: str) -> TopicTemplates:
        """Return the templates of a source topic, always the same object, so that callers may keep it."""
        topic = self._topics.get(name)
        if topic is None:
            topic = self._topics[name] = TopicTemplates(self._new_engine(), self._policy.shape_bytes)
        return topic

    def known_of(self, topic: TopicTemplates, number: int) -> TemplateInfo:
        """Return the facts for an engine's number in this topic. The caller counts `TemplateInfo.uses`."""
        known = topic.known.get(number)
        if known is None:
            self._limit_loss_variants(topic)
            known = topic.add_loss_variant(number)
        return known

    def find_rows(self, record: ConsumerRecord, max_output_bytes: int, shared: int) -> list[FoundRows] | int:
        """Return the messages of a record's rows if all fit templates; else the number of rows before the
        first that does not fit.

        `max_output_bytes`, `shared`: see `Engine.translate_rows`.
        """
        topic = self.of_topic(record.topic)
        runs = topic.translate_rows(
            record.key, record.value, record.offset, record.timestamp_ms, max_output_bytes, shared
        )
        if isinstance(runs, int):
            return runs
        self._limit_loss_variants(topic)
        found: list[FoundRows] = []
        for run in runs:
            rows = self._rows_of(topic, run, record)
            if rows is None:
                return sum(len(its) // (1 + len(one.more)) for one, its in found)
            found.append(rows)
        return found

    def find_groups(
        self, record: ConsumerRecord, max_output_bytes: int, shared: int
    ) -> list[FoundRows | bytes]:
        """Return the messages of those groups of a record that fit templates, and the rests as values, in
        order. Empty if no group fits, or if one fits that its template does not apply to.

        `max_output_bytes`, `shared`: see `Engine.translate_groups`.
        """
        topic = self.of_topic(record.topic)
        pieces = topic.translate_groups(
            record.key, record.value, record.offset, record.timestamp_ms, max_output_bytes, shared
        )
        self._limit_loss_variants(topic)
        found: list[FoundRows | bytes] = []
        for piece in pieces:
            rows = piece if isinstance(piece, bytes) else self._rows_of(topic, piece, record)
            if rows is None:
                return []
            found.append(rows)
        return found if any(not isinstance(piece, bytes) for piece in found) else []

    def _rows_of(self, topic: TopicTemplates, run: Run, record: ConsumerRecord) -> FoundRows | None:
        """Return rows that fit a template; None if it does not apply to them."""
        number, messages = run
        known = topic.known.get(number) or topic.add_loss_variant(number)
        allows = known.allows
        if (
            known.has_tombstone
            or known.condition_cell_parts
            or (allows is not None and not allows(record.partition, record.offset))
        ):
            return None
        return known, messages

    def settle(self) -> None:
        """Count the records that have fitted templates."""
        for topic in self._topics.values():
            for known in topic.known.values():
                self._count_uses(known)

    def _count_uses(self, known: TemplateInfo) -> None:
        if known.left_out:
            self._uses += known.left_out
            self._count([], [*known.read_losses, Loss.ROWS_FILTERED], known.left_out)
            known.served += known.left_out
            known.left_out, known.is_used, known.is_unused_since_start = 0, True, False
        if known.uses:
            self._uses += 0 if known.is_of_marks else known.uses
            self._count(known.events, known.losses, known.uses)
            known.served += known.uses
            known.uses, known.is_used, known.is_unused_since_start = 0, True, False

    @property
    def uses(self) -> int:
        """The number of rows that have fitted templates."""
        self.settle()
        return self._uses

    def _drop_outdated(self, catalog: Catalog) -> None:
        """Drop the templates of tables whose definitions differ in this catalog, and switch to it."""
        for table in map(self._table_name, catalog.changed_since(self.catalog)):
            for topic, number in list(self._of_table.get(table, ())):
                topic.engine.remove(number)
                self._forget(topic, number)
            self._reset_counts(table)
        self.catalog = catalog
        if self._derivations:
            missing = self._derivations * BREAK_EVEN_ROWS - (self.uses - self._uses_before)
            self._waste = min(max(0, self._waste + missing), 2 * _MAX_WASTE)
            pays_off = self._waste < _MAX_WASTE
            self._threshold = self._policy.first_derivation if pays_off else self._policy.late_derivation
            self._derivations, self._uses_before = 0, self._uses
        if self._threshold == self._policy.first_derivation:
            self.idle = 0

    def start_over(self) -> None:
        """Reset the state of derivations for a new task.

        Templates of known tables and warm-up counts stay, so that short tasks also reach a derivation.

        The first row of any other table takes the slow path, which notes why it is not known.
        """
        for topic in self._topics.values():
            topic.forget_derivations()
            inferred = {
                number % LOSS for number, known in topic.known.items() if Loss.SCHEMA_INFERRED in known.losses
            }
            for number in inferred:
                topic.engine.remove(number)
                self._forget(topic, number)
            for known in topic.known.values():
                known.is_unused_since_start = True
        self._derivations = self._waste = self._late_misses = self.idle = 0
        self._uses_before = self._uses_at_reset = self.uses
        self._threshold = self._policy.first_derivation

    def learn(
        self,
        record: ConsumerRecord,
        events: Sequence[Event],
        out: Sequence[ProducerRecord],
        losses: list[Loss],
    ) -> None:
        """Derive a template if one is due, after a record that fitted none was translated to `out`."""
        is_split = len(out) > 2 or (len(out) == 2 and out[1].value is not None)
        change = only_row(events)
        if is_split and len(events) > 1:
            return  # the end of a transaction has become a message
        if change is None:
            return
        if self.is_due(record, is_split=is_split):
            self.derive(record, change, out, losses, is_split=is_split)
        elif self._shape_bytes <= self._policy.shape_bytes:
            self._note_shape(change.table, self.of_topic(record.topic), record, is_split=is_split)

    def is_warming_up(self, record: ConsumerRecord) -> bool:
        """Count a record without a template. Return whether its shape is below the threshold for a
        derivation, so that the caller can use the slow path without `learn`.

        At half the threshold it returns False once: `learn` then records the shape's table, so that DDL
        resets the count. Rarer shapes never pay for that, nor do rows of messages with several rows.
        """
        if not self._has_capacity():
            return True
        marked = marked_text(self._marker, record)
        if marked is None:
            return False
        threshold = self._threshold
        count = self.of_topic(record.topic).count_warmup(marked, threshold)
        if count >= threshold or count == threshold // 2:
            return False
        if threshold > self._policy.first_derivation:
            self._note_miss()
        return True

    def is_due(self, record: ConsumerRecord, *, is_split: bool = False) -> bool:
        """Count a record whose shape is not warming up. Return whether to `derive` a template from it.

        `is_split`: its row became several messages. After the warm-up such records are counted separately:
        many have no template, which must not delay others.
        """
        marked = marked_text(self._marker, record)
        topic = self.of_topic(record.topic)
        if marked is None or topic.warmup_count(marked) < self._threshold:
            return False
        seen, due = topic.count_message((marked, is_split), self._threshold)
        if seen < due and due > self._policy.first_derivation:
            self._note_miss()
        return seen >= due

    def _note_miss(self) -> None:
        """Count a record that fitted no template although its shape has one, or cannot have one."""
        self._late_misses += 1
        if self._late_misses < self._policy.misses_before_pause:
            return
        uses = self.uses
        if _MISSES_PER_MATCH * (uses - self._uses_at_reset) < self._late_misses:
            self.idle = self._policy.pause_factor * self._late_misses
        self._late_misses, self._uses_at_reset = 0, uses

    def _has_capacity(self) -> bool:
        """Return whether a template fits the limit. At the limit, remove unused templates at intervals."""
        if self._bytes < self._most_bytes:
            return True
        self._until_search -= 1
        if self._until_search > 0:
            return False
        self._until_search = self._policy.search_interval
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
        marks: Sequence[Event] | None = None,
    ) -> None:
        """Add the template of a record with the row `change` that became the messages `out`.

        `change`: None for a record without a row. `marks`: the events of a record that has only marks and
        becomes no message; if both are None, the record has no template. `is_split`: as in `is_due`.
        """
        topic, marked = self.of_topic(record.topic), marked_text(self._marker, record)
        if marked is None:
            return
        shape = marked, is_split
        self._derivations += 1
        if change is not None:
            self._note_shape(change.table, topic, record, is_split=is_split)
        known = None
        if marks is not None:
            known = self._added(
                topic, lambda: self._deriver.derive_marks(record, [*marks], self.catalog, losses)
            )
        elif change is not None and out and not any(message.blobs for message in out):
            known = self._added(
                topic, lambda: self._deriver.derive(record, change, self.catalog, out, losses)
            )
        if known is None:
            topic.note_failed(shape)
            return
        number, made = known
        forgotten = self._forget(topic, number)
        topic.note_derived(shape, displaces=bool(forgotten) and topic.displaces(made, forgotten))
        topic.known[number] = made
        self._bytes += made.size
        self._of_table[self._table_name(made.table)].add((topic, number))

    def _note_shape(
        self, table: TableId, topic: TopicTemplates, record: ConsumerRecord, *, is_split: bool
    ) -> None:
        """Record which table a record's shape belongs to. DDL on that table resets the shape's counts and
        back-off.
        """
        table = self._table_name(table)
        marked = marked_text(self._marker, record)
        if marked is None or (topic, (marked, is_split)) in self._shapes_of[table]:
            return
        if self._shape_bytes > self._policy.shape_bytes:
            for other in list(self._shapes_of):
                self._reset_counts(other)
        self._shapes_of[table].add((topic, (marked, is_split)))
        self._shape_bytes += len(marked) + _COUNT_BYTES

    def _reset_counts(self, table: TableId) -> None:
        """Reset the counts of messages of a table's shapes."""
        for topic, shape in self._shapes_of.pop(table, ()):
            topic.reset_counts(shape)
            self._shape_bytes -= len(shape[0]) + _COUNT_BYTES

    def _forget(self, topic: TopicTemplates, number: int) -> list[TemplateInfo]:
        """Remove and return the facts of a template; [] if there is none with this number."""
        forgotten = topic.pop_all(number)
        for known in forgotten:
            self._count_uses(known)
            self._bytes -= known.size
        if forgotten:
            table = self._table_name(forgotten[0].table)
            self._of_table[table].remove((topic, number))
            if not self._of_table[table]:
                del self._of_table[table]
        return forgotten

    def _limit_loss_variants(self, topic: TopicTemplates) -> None:
        """Drop the facts of records with losses if there are many; they are created again on demand."""
        policy, templates = self._policy, len(topic.known) - topic.loss_variant_count
        if topic.loss_variant_count > policy.loss_sets + policy.loss_sets_per_template * templates:
            for known in topic.pop_loss_variants():
                self._count_uses(known)

    @staticmethod
    def _added(
        topic: TopicTemplates, derive: Callable[[], tuple[Template, TemplateInfo]]
    ) -> tuple[int, TemplateInfo] | None:
        """Add the template of a record's shape; return None if it cannot be derived."""
        try:
            template, known = derive()
            return topic.engine.add(template), known
        except Exception:
            return None
