"""Translate one record: decode, drop repeats, select, apply rules, rename tables, route, encode.

`Pipeline.translate` is the reference implementation; `Pipeline._run` has the steps. Templates
(`relay.templates.route`) are derived from it and must produce the same bytes, faster.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from types import MappingProxyType
from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import Decoder, Encode, EncodedRecord, Encoder, TopicEncoder
from relay.codecs.losses import UNSUPPORTED_EVENT_LOSSES, Loss, statement_losses, strict_without
from relay.core.counts import EventCounts, is_inference_counted
from relay.core.deduplication import Deduplicated, Deduplicator, Progress
from relay.core.route import Route
from relay.model.errors import DecodeError, EncodeError, NotRepresentable, OutOfMemory
from relay.model.events import (
    Bootstrap,
    Event,
    Heartbeat,
    RowChange,
    SchemaChange,
    TableSchema,
    TransactionMark,
    Watermark,
)
from relay.model.limits import (
    FLAT_BYTES,
    check_columns,
    check_levels,
    check_rows,
    check_values,
    exceeded,
    uncounted_bytes,
)
from relay.model.lookups import LookupCache, Need
from relay.model.records import (
    SOURCE_HEADER,
    TIME_END_MS,
    ConsumerRecord,
    Header,
    ProducerRecord,
    check_types,
)
from relay.routing import Destinations, Group, RoutedEvents, Router, TopicsInUse, WatermarkGate
from relay.routing.partitioning import ByKey
from relay.rules.tables import NO_TABLES, StatementContext, TakenNames, names_after_restore


class State(NamedTuple):
    """The translator's state between records."""

    catalog: Catalog
    gate: WatermarkGate | None
    seen: TopicsInUse = TopicsInUse()
    taken: TakenNames = NO_TABLES
    progress: Progress = MappingProxyType({})


class PartitionPath(msgspec.Struct, frozen=True):
    """A source partition: the destination of records that keep it, and the prefix of their source marks.

    `destinations`: `target` and the partition, as the only destination.
    """

    topic: str
    partition: int
    target: str
    destinations: tuple[tuple[str, int]]
    header_prefix: bytes


class _Translated(msgspec.Struct, gc=False):
    """The translation of a record.

    `events`: the events to write, with the source's names of tables. `left_out`: the losses of omitted
    events. `catalog`: the catalog after the record. `routed`: the router's new state, if it changes. `taken`:
    the names of tables in use after the record. `out`: the target's records. `deduplicated`: the rows to
    remember, if repeated rows are dropped.
    """

    decoded: list[Event]
    events: list[Event]
    left_out: Sequence[Loss]
    catalog: Catalog
    routed: RoutedEvents | None
    taken: TakenNames
    out: list[ProducerRecord]
    deduplicated: Deduplicated | None


class TranslatedPart(NamedTuple):
    """A part of a record: its events, its messages, the catalog after it, and whether it has statements."""

    events: list[Event]
    out: list[ProducerRecord]
    catalog: Catalog
    has_statement: bool


#: Called with the translation of a record: its events, its messages, and the losses.
Learn = Callable[[list[Event], list[ProducerRecord], list[Loss]], None]


class Pipeline:
    """Translates records of a route one by one, and keeps the state between them.

    `answers`: answers to lookups, and the limits of a record. `counts`: counts events and losses.
    `deduplicator`: drops rows that the source sends again; None writes them.
    """

    def __init__(  # noqa: PLR0913, PLR0917 - the parts of a route
        self,
        route: Route,
        router: Router,
        decoder: Decoder,
        encoder: Encoder,
        answers: LookupCache,
        counts: EventCounts,
        deduplicator: Deduplicator | None = None,
    ) -> None:
        self.route, self.router, self.answers = route, router, answers
        self._unchecked = min(uncounted_bytes(answers.limits), FLAT_BYTES)
        self.limits, self.counts, self.count = answers.limits, counts, counts.add
        self._selection, self.refused = route.selection, route.target_options.refused_losses
        self._row_rules, self._column_rules = route.row_rules, route.column_rules
        self._selects = self._selection is not None or self._row_rules is not None
        self._table_names = route.table_names
        self._hides_values, self.deduplicator = route.hides_values, deduplicator
        self.decode, self._prepare, self.encode = decoder.decode, encoder.prepare, encoder.encode
        self._for_topic = encoder.for_topic if isinstance(encoder, TopicEncoder) else None
        self._carries = route.target.output(route.target_options)
        self._moves, self._is_one_topic = router.moves, router.is_one_topic
        self._most_rows, self._most_output = answers.limits.rows, answers.limits.output_bytes
        #: The latest row's definition that was within the limits.
        self._schema: TableSchema | None = None
        # The latest record's; usually the next record has the same partition and headers.
        self._path: PartitionPath | None = None
        self._paths: dict[tuple[str, int], PartitionPath] = {}
        self._headers: tuple[Header, ...] = ()
        self._passed_on: tuple[Header, ...] = ()
        self._own_headers = route.own_headers
        self.catalog, self.gate, self.seen, self.taken, self.progress = self._new_state()
        #: Number of resets of `seen`. Without a reset it only grows, and conclusions from it remain valid.
        self.seen_version = 0
        #: Topics whose statements were omitted as copies of those in partition 0.
        self.copied_topics: set[str] = set()
        #: The time of the last watermark of each source partition, in ms since 1970, written or not.
        self.watermarks_ms: dict[tuple[str, int], int] = {}

    @property
    def state(self) -> State:
        """The complete state after the records so far."""
        return State(self.catalog, self.gate, self.seen, self.taken, self.progress)

    def restore(self, state: State) -> None:
        """Return to `state`.

        Names that tables have taken since stay taken, because rows that fit templates take none; those of
        tables that statements have created since are free, until the statements are read again.
        """
        if state.seen is not self.seen:
            self.seen_version += 1
        if state.taken is not self.taken:
            created = set(self.catalog.existing_tables()).difference(state.catalog.existing_tables())
            self.taken = names_after_restore(state.taken, self.taken, created)
        self.catalog, self.gate, self.seen, _, self.progress = state

    def _new_state(self) -> State:
        catalog = Catalog(limits=self.limits, redaction=self.route.redaction)
        return State(catalog, WatermarkGate() if self.router.spreads else None)

    def start_over(self) -> None:
        """Return to the state before the first record."""
        self.restore(self._new_state())
        self.forget_rows()
        self.copied_topics, self.watermarks_ms, self.taken = set(), {}, NO_TABLES

    def is_new(self, record: ConsumerRecord, commit_ts: int | None, digest: bytes) -> bool:
        """Return whether a row is certainly no repeat, and remembering it is its only effect."""
        progress = self.progress.get((record.topic, record.partition))
        if self.deduplicator is None or progress is None or commit_ts is None:
            return False
        return commit_ts >= progress.watermark and not self.deduplicator.knows(digest, record, progress)

    def remember(self, record: ConsumerRecord, digest: bytes) -> None:
        """Remember a row that is written for a record; b"": there is none to remember."""
        if digest and self.deduplicator is not None:
            self.deduplicator.remember(digest, record.offset)

    def forget_rows(self) -> None:
        """Forget all written rows, as after DDL."""
        if self.deduplicator is not None:
            self.deduplicator.forget()

    def expect_partitions(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Set all source partitions, like `Translator.expect_partitions`."""
        found = dict.fromkeys(partitions)
        if self.gate is not None and not found.keys() <= self.gate.reached.keys():
            self.gate = WatermarkGate(found | self.gate.reached, self.gate.passed)
        self.router.expect(found)

    def translate(self, record: ConsumerRecord, learn: Learn | None = None) -> list[ProducerRecord]:
        """Return the target's records for one source record, like `Translator.translate`.

        `learn` is called with the translation if it has messages and no event was omitted.
        """
        losses: list[Loss] = []
        try:
            found = self._run(record, losses)
        except Exception as error:
            self._note(error, record)
            raise
        if self.refused:
            self._refuse_losses(losses, found.decoded)
        decoded, left_out, routed, out = found.decoded, found.left_out, found.routed, found.out
        self._count(record, decoded, found.events, [*losses, *left_out] if left_out else losses)
        self.catalog, self.taken = found.catalog, found.taken
        if routed is not None:
            self.gate, self.seen = routed.gate, routed.seen
            if routed.copies:
                self.copied_topics.add(record.topic)
        if found.deduplicated is not None and self.deduplicator is not None:
            self.progress = found.deduplicated.progress
            self.deduplicator.accept(found.deduplicated, record.offset)
        if decoded and type(decoded[-1]) is Watermark:
            self.watermarks_ms[record.topic, record.partition] = decoded[-1].source.time_ms
        if learn is not None and out and not left_out:
            learn(decoded, out, losses)
        return out

    def translate_parts(
        self, record: ConsumerRecord, values: Sequence[bytes], accept: Callable[[list[TranslatedPart]], bool]
    ) -> list[TranslatedPart] | None:
        """Translate the values of parts of a record, one after the other.

        Return None and change nothing if `accept` returns False, or if the result may differ from that of the
        whole record: a part is refused; several parts have statements, which share limits; statements go
        elsewhere than rows; or inferred rows would not be counted.
        """
        if self.deduplicator is not None:
            return None
        before, taken, done = self.catalog, self.taken, list[tuple[_Translated, list[Loss]]]()
        try:
            for value in values:
                losses: list[Loss] = []
                found = self._run(msgspec.structs.replace(record, value=value), losses)
                done.append((found, losses))
                self.catalog, self.taken = found.catalog, found.taken
        except (Need, DecodeError, EncodeError, MemoryError):
            return None
        finally:
            self.catalog, self.taken = before, taken
        parts = [
            TranslatedPart(found.decoded, found.out, found.catalog, _has_statement(found.decoded, losses))
            for found, losses in done
        ]
        is_refused = any(not self.refused.isdisjoint(losses) for _, losses in done)
        is_counted = all(is_inference_counted(found.decoded, losses) for found, losses in done)
        is_routed = any(found.routed is not None for found, _ in done)
        shares_limits = sum(part.has_statement for part in parts) > 1
        if is_refused or is_routed or shares_limits or not is_counted or not accept(parts):
            return None
        for found, losses in done:
            self._count(record, found.decoded, found.events, [*losses, *found.left_out])
            self.catalog, self.taken = found.catalog, found.taken
        return parts

    def _count(
        self, record: ConsumerRecord, decoded: list[Event], events: list[Event], losses: list[Loss]
    ) -> None:
        """Count a record's events and losses, and record new facts about tables."""
        counts = self.counts
        self.count(events, losses)
        if len(counts.inferred) > len(counts.unknown):
            counts.note_unknown(events, record, self.catalog)
        if _TRUNCATE_OR_DROP in losses:
            counts.note_unwritten(decoded, record)

    def _run(self, record: ConsumerRecord, losses: list[Loss]) -> _Translated:
        """Translate one record, without changing any state."""
        # These functions are attributes; Python 3.11 calls them faster through a local variable.
        moves, names = self._moves, self._table_names
        routed: RoutedEvents | None = None
        decoded, catalog = self._decoded_within_limits(record, losses)
        events, deduplicated = decoded, None
        if self.deduplicator is not None:
            deduplicated = self.deduplicator.find(decoded, record, self.progress)
            events = deduplicated.events
            losses += deduplicated.losses
        events, left_out = self._shaped(events, losses)
        if deduplicated is not None and deduplicated.left_out:
            left_out = [*deduplicated.left_out, *left_out]
        counted, taken = events, self.taken
        if names is not None:
            events, counted, taken = names.apply(events, taken, losses, StatementContext(catalog, record))
        path = self._path
        if path is None or record.partition != path.partition or record.topic != path.topic:
            path = self._path = self.path_of(record.topic, record.partition)
        # Everything stays in its partition: the same result as `_spread`, without its cost.
        groups: Sequence[Group] = ((path.destinations, events),)
        if moves is not None and moves(events):
            groups, written, routed = self._grouped(events, record, catalog, losses)
            counted = written if counted is events else _originals(written, events, counted)
            events = written
        if record.timestamp_ms >= TIME_END_MS:
            losses.append(Loss.RECORD_TIME)
        if catalog is not self.catalog:
            for event in events:
                if isinstance(event, SchemaChange):
                    losses += statement_losses(event, self._carries)
        out = self._encoded(groups, record, path.header_prefix, losses)
        return _Translated(decoded, counted, left_out, catalog, routed, taken, out, deduplicated)

    def _shaped(
        self, events: list[Event], losses: list[Loss], *, skip_row_rules: bool = False
    ) -> tuple[list[Event], Sequence[Loss]]:
        """Return the events that are translated, with their columns in the target, and the losses of others.

        The losses of column rules are appended to `losses`. `skip_row_rules`: the row rules are known to keep
        the events.
        """
        left_out: Sequence[Loss] = ()
        if self._selects:
            events, left_out = self._selected(events, skip_row_rules=skip_row_rules)
        if self._column_rules is not None:
            events, rule_losses = self._column_rules.apply(events)
            losses += rule_losses
        return events if self._prepare is None else self._prepare(events), left_out

    def prepared(
        self, events: list[Event], record: ConsumerRecord | None = None, *, skip_row_rules: bool = False
    ) -> list[Event]:
        """Return the events to route and encode for decoded events.

        `record`: theirs; only rows and marks have none. `skip_row_rules`: the row rules are known to keep
        them.
        """
        events, _ = self._shaped(events, [], skip_row_rules=skip_row_rules)
        names = self._table_names
        if names is None:
            return events
        return names.apply(events, self.taken, [], StatementContext(self.catalog, record)).written

    def renamed(self, event: Event) -> Event:
        """Return a row with the name that its table has in the target, and any other event unchanged."""
        if self._table_names is None or not isinstance(event, RowChange):
            return event
        return self._table_names.row(event)

    def _selected(self, events: list[Event], *, skip_row_rules: bool) -> tuple[list[Event], Sequence[Loss]]:
        """Return the events that the selection and the row rules leave, and the losses to count."""
        left_out: Sequence[Loss] = ()
        if self._selection is not None:
            events, left_out = self._selection.filter(events)
        if self._row_rules is not None and not skip_row_rules:
            events, rows_left_out = self._row_rules.apply(events)
            left_out = [*left_out, *rows_left_out] if rows_left_out else left_out
        return events, left_out

    def decoded(self, record: ConsumerRecord, losses: list[Loss]) -> tuple[list[Event], Catalog]:
        """Decode one record, without changing the state. Raises DecodeError, Need."""
        try:
            return self._decoded_within_limits(record, losses)
        except Exception as error:
            self._note(error, record)
            raise

    def _decoded_within_limits(
        self, record: ConsumerRecord, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Decode one record, and enforce the limits of values, rows and columns for every codec.

        Codecs check limits themselves where they would allocate memory before the pipeline can check: text
        that they decompress, parts of binary messages, columns before readers are compiled for them.
        """
        value, key = record.value, record.key
        if value is not None and len(value) > self._unchecked:
            self._check_values("value", value)
        if key is not None and len(key) > self._unchecked:
            self._check_values("key", key)
        events, catalog = self.decode(record, self.catalog, losses)
        if len(events) > self._most_rows:
            check_rows(self.route.source.name, "", len(events), self.limits)
        for event in events:
            if type(event) is not RowChange:
                for schema in _defined(event):
                    check_columns(self.route.source.name, "", len(schema.columns), self.limits)
            elif event.schema is not self._schema:  # usually the previous row's table
                check_columns(self.route.source.name, "", len(event.schema.columns), self.limits)
                self._schema = event.schema
        return events, catalog

    def _check_values(self, part: str, text: bytes) -> None:
        """Raise LimitExceeded for JSON with too many values, Malformed for JSON that is nested too deeply.

        Codecs check other formats.
        """
        if text[:_BLANKS].lstrip()[:1] in _JSON_STARTS:
            check_levels(self.route.source.name, part, text)
            check_values(self.route.source.name, part, text, self.limits)

    # ------------------------------------------------------------ routing

    def path_of(self, topic: str, partition: int) -> PartitionPath:
        """Return the destination of a source partition's records that keep their partition."""
        found = self._paths.get((topic, partition))
        if found is None:
            prefix, target = f"{topic}/{partition}/".encode(), self.router.topic_of(topic)
            found = PartitionPath(topic, partition, target, ((target, partition),), prefix)
            if len(self._paths) >= _MOST_PATHS:
                self._paths.clear()
            self._paths[topic, partition] = found
        return found

    def _grouped(
        self, events: list[Event], record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[Sequence[Group], list[Event], RoutedEvents | None]:
        """Return the destinations of the events, the events to write, and the router's new state, if any."""
        if self.gate is None and len(events) == 1:
            topic = self.router.topic_of_row(events[0], record, self.seen)
            if topic is not None:
                return ((((topic, record.partition),), events),), events, None
        spread = self._spread(events, record, catalog, losses)
        return spread.groups, spread.written, spread

    def _spread(
        self, events: list[Event], record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> RoutedEvents:
        """Return the destinations of the events, the events to write, and the router's state after them."""
        spread = self.router.spread(events, record, catalog, self.gate, self.seen)
        if spread.copies:
            losses += [Loss.DDL_COPIES] * spread.copies
        for event in spread.unrouted:
            losses.append(_UNROUTED.get(type(event), Loss.NO_TOPIC))
        return spread

    # ------------------------------------------------------------ encoding

    def _encoded(
        self, groups: Sequence[Group], record: ConsumerRecord, prefix: bytes, losses: list[Loss]
    ) -> list[ProducerRecord]:
        """Return the records of events that are grouped by destination."""
        encode: Encode = self.encode
        for_topic, counted = self._for_topic, losses
        inherited = self.inherited(record.headers) if record.headers else ()
        time_ms, remaining = record.timestamp_ms, self._most_output
        if for_topic is not None:
            groups = _by_topic(groups)
        out: list[ProducerRecord] = []
        # A record's set of topics may differ when it is translated again, so each topic has separate numbers.
        numbers: Counter[str] | None = None
        for at, (destinations, group) in enumerate(groups):
            if for_topic is not None:
                encode = for_topic(_topic_of(destinations, record))
                # Losses are counted once, even if there are copies for other topics.
                counted = [] if at and group is groups[at - 1][1] else losses
            for payload in encode(group, record, counted):
                for topic, partition in (
                    destinations.of(payload.key) if type(destinations) is ByKey else destinations
                ):
                    index = len(out)
                    if index:
                        remaining = self._remaining_after(payload, out, remaining)
                        if not self._is_one_topic:
                            if numbers is None:
                                numbers = Counter({out[0].topic: 1})
                            index = numbers[topic]
                            numbers[topic] += 1
                    mark = SOURCE_HEADER, b"%b%d/%d" % (prefix, record.offset, index)
                    headers: tuple[Header, ...] = (mark,)
                    if inherited or payload.headers:
                        headers = (*payload.headers, *inherited, mark)
                    out.append(
                        ProducerRecord(
                            topic, partition, time_ms, payload.key, payload.value, headers, payload.blobs
                        )
                    )
        return out

    def inherited(self, headers: tuple[Header, ...]) -> tuple[Header, ...]:
        """Return the headers that a record passes on.

        Headers of its own message, and those that readers would take for the target's, are removed. A route
        that hides values passes on none, because headers may contain values.
        """
        if self._hides_values:
            return ()
        own = self._own_headers
        if not own or not headers:
            return headers
        if headers != self._headers:
            self._headers = headers
            self._passed_on = tuple([header for header in headers if header[0] not in own])
        return self._passed_on

    def _remaining_after(self, payload: EncodedRecord, out: list[ProducerRecord], remaining: int) -> int:
        """Return the remaining bytes of a record's output, after earlier messages and this one.

        Raises LimitExceeded if this one already exceeds it. A single message needs no check: its record and
        its table bound its size. Copies of a message for other partitions share its key and value, which
        count once.
        """
        last, value = out[-1], payload.value
        shared = overhead_bytes(len(last.headers))
        remaining -= shared
        if len(out) == 1:
            remaining -= size_bytes(last) + shared
        if value is None or payload.key is not None or payload.blobs:
            is_copy = value is last.value and payload.key is last.key and payload.blobs is last.blobs
            remaining -= 0 if is_copy else size_bytes(payload)
        elif value is not last.value:
            remaining -= len(value)
        if remaining < 0:
            raise exceeded(self.route.source.name, "", "bytes of output", "output_bytes", self._most_output)
        return remaining

    # ------------------------------------------------------------ errors

    def _refuse_losses(self, losses: list[Loss], decoded: Iterable[Event]) -> None:
        """Raise NotRepresentable for losses that `strict` forbids; data omitted on request is no loss."""
        if not self.refused.isdisjoint(losses):
            lost = self.refused.intersection(losses)
            accepting = strict_without(self.refused, lost)
            what = ", ".join(sorted(lost))
            reason = (
                f"the route would lose: {what}; the target option strict={accepting} accepts and counts it"
            )
            if accepting != "false":
                reason += ", strict=false accepts every loss"
            if Loss.DDL_NOT_REWRITTEN in lost and self._column_rules is not None:
                why = sorted(set(self._column_rules.why_not_rewritten(decoded)))
                reason += f"; the statement cannot be rewritten: {', '.join(why)}" if why else ""
            raise NotRepresentable(self.route.target.name, "", reason)

    def _note(self, error: Exception, record: ConsumerRecord) -> None:
        """Record a failed record's need. Raise a more specific error if there is one.

        OutOfMemory, which has a policy, replaces MemoryError; TypeError reports members of a wrong type.
        """
        if isinstance(error, Need):
            self.answers.pin(error, record.position)
            return
        if isinstance(error, DecodeError | MemoryError):
            self.answers.distrust(record.position)
        check_types(record)
        if isinstance(error, MemoryError):
            reason = "out of memory during translation; lower limits would refuse such a record earlier"
            raise OutOfMemory(self.route.source.name, "", reason) from None


def _originals(written: Iterable[Event], renamed: Iterable[Event], events: Iterable[Event]) -> list[Event]:
    """Return the events as they were before tables were renamed; the router's own ones stay."""
    before = {id(after): event for after, event in zip(renamed, events, strict=True)}
    return [before.get(id(event), event) for event in written]


def _defined(event: Event) -> Iterable[TableSchema]:
    """Return the definitions in an event."""
    if isinstance(event, Bootstrap):
        return (event.schema,)
    if isinstance(event, SchemaChange):
        return (*event.definitions, *event.views, *(() if event.after is None else (event.after,)))
    return ()


def _has_statement(events: Iterable[Event], losses: Iterable[Loss]) -> bool:
    """Return whether a record has statements, also such that are only counted."""
    return any(isinstance(event, SchemaChange) for event in events) or not _STATEMENTS.isdisjoint(losses)


#: The losses of statements that are no events.
_STATEMENTS: Final = frozenset({Loss.STATEMENT, Loss.ADMIN_STATEMENT})
_TRUNCATE_OR_DROP: Final = Loss.TRUNCATE_OR_DROP
#: Maximum white space before JSON that is skipped, in bytes.
_BLANKS: Final = 100
#: First bytes that JSON may have, including a byte order mark or more white space.
_JSON_STARTS: Final = frozenset((b"{", b"[", b"\xef", b""))
#: Maximum number of cached source partitions; active ones are soon cached again.
_MOST_PATHS: Final = 10_000
#: The losses of events about no table if every table has a separate topic. Statements and watermarks are not
#: included: if they have no topic, they have no reader.
_UNROUTED: Final[Mapping[type[Event], Loss]] = {
    kind: UNSUPPORTED_EVENT_LOSSES[kind] for kind in (TransactionMark, Heartbeat)
}
#: Memory of a record in addition to its key and value, and of each of its headers, whose texts are shared.
_RECORD_BYTES: Final = 500
_HEADER_BYTES: Final = 16


def overhead_bytes(headers: int) -> int:
    """Return a record's approximate memory in bytes, without its key, value and objects."""
    return _RECORD_BYTES + headers * _HEADER_BYTES


def size_bytes(written: EncodedRecord | ProducerRecord) -> int:
    """Return the bytes of a record's key and value, with the objects that it refers to."""
    size = len(written.value or b"")
    if written.key is not None:
        size += len(written.key)
    if written.blobs:
        size += sum([len(blob.data) for blob in written.blobs])
    return size


def _topic_of(destinations: Destinations, record: ConsumerRecord) -> str:
    """Return the single topic of a group's destinations."""
    if type(destinations) is ByKey:
        return destinations.topic
    for topic, _ in destinations:
        return topic
    return record.topic


def _by_topic(groups: Iterable[Group]) -> list[Group]:
    """Split groups so that each has a single topic; the copies for several topics share the same events."""
    found: list[Group] = []
    for destinations, events in groups:
        if (
            type(destinations) is ByKey
            or len(destinations) < 2
            or len({topic for topic, _ in destinations}) < 2
        ):
            found.append((destinations, events))
            continue
        by_topic: dict[str, list[tuple[str, int]]] = {}
        for destination in destinations:
            by_topic.setdefault(destination[0], []).append(destination)
        found += [(in_topic, events) for in_topic in by_topic.values()]
    return found
