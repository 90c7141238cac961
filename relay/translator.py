"""The core's only front door: one Kafka record in, the records of another protocol out.

bytes → decode → events → route → encode → bytes, readable in `Translator.translate`. The result depends on
the record, its position, the options and the records before it, and on nothing else: two runs give the same
bytes.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from itertools import cycle
from types import MappingProxyType
from typing import Any, Final, NamedTuple, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs import LargeMessageOptions, codec_named, encoder_of
from relay.codecs.codec import (
    SIDES,
    Codec,
    Decoder,
    Encode,
    Joining,
    OpeningDecoder,
    Options,
    OptionValue,
    Payload,
    SealingEncoder,
    TopicEncoder,
    TracingDecoder,
    key_rule_problem,
    keys_of,
    no_parts,
    option_texts,
    parse_options,
)
from relay.codecs.losses import UNSUPPORTED_EVENT_LOSSES, Keys, Lossy, strict_without
from relay.counts import CountsByTable, EventCounts
from relay.definitions import definition_in, is_definition, teach_definition
from relay.detection import named_error
from relay.errors import (
    ConfigError,
    DecodeError,
    EncodeError,
    Malformed,
    NotRepresentable,
    OutOfMemory,
    Problem,
    UnsupportedMessage,
)
from relay.limits import DEFAULT_LIMITS, Limits, check_rows, exceeded, uncounted_bytes
from relay.model import (
    Bootstrap,
    Event,
    Heartbeat,
    RowChange,
    SchemaChange,
    TableId,
    TransactionMark,
    Watermark,
)
from relay.needs import Answers, Need, RegisteredSchema, SchemaById
from relay.partitioning import ByKey, Partitioning
from relay.records import SOURCE_HEADER, TIME_END_MS, ConsumerRecord, Header, ProducerRecord, check_types
from relay.routing import (
    Group,
    Places,
    Router,
    SeenTopics,
    Spread,
    TopicRule,
    WatermarkGate,
    routing_problems,
)
from relay.selection import Selection, kind_of
from relay.templates.engine import Engine, Message, Translation
from relay.templating import Form, FoundRows, Known, Line, RouteTemplates, TopicOfRows, TopicTemplates

Answer = TypeVar("Answer")


class Route(NamedTuple):
    """Which protocol is read and which is written, with the options of both sides, parsed.

    `selection`: which events are translated, None for all; the target's options have their part in it.
    """

    source: Codec
    target: Codec
    source_options: Options
    target_options: Options
    selection: Selection | None = None

    @classmethod
    def parse(
        cls,
        source: tuple[str, Mapping[str, str]],
        target: tuple[str, Mapping[str, str]],
        selection: Selection | None,
    ) -> Route:
        """Read the names and option texts of both sides. Raises ConfigError with every problem."""
        problems: list[Problem] = []
        parsed = []
        for (name, given), path in ((source, "from"), (target, "to")):
            try:
                codec = codec_named(name, path)
                parsed.append((codec, parse_options(codec, given, f"{path}.option", SIDES[path])))
            except ConfigError as error:
                problems += error.problems
        if len(parsed) > 1:
            writing = parsed[1][1].writing_problems()
            problems += [problem._replace(path=f"to.option.{problem.path}") for problem in writing]
        if problems:
            raise ConfigError(problems)
        (source_codec, reading), (target_codec, writing_options) = parsed
        selected = _selected(selection or Selection(), target_codec, writing_options)
        return cls(source_codec, target_codec, reading, writing_options, selected)

    @property
    def storages(self) -> dict[str, str]:
        """The claim-check storages that are configured, by side (`from`, `to`); the URIs may hold secrets."""
        return {
            side: options.claim_check_storage_uri
            for side, options in (("from", self.source_options), ("to", self.target_options))
            if isinstance(options, LargeMessageOptions) and options.claim_check_storage_uri
        }

    @property
    def joining(self) -> Joining | None:
        """How messages of neighbouring source records are joined (`relay.joining`); None if they are not."""
        return self.target.joining(self.target_options)

    @property
    def has_row_keys(self) -> bool:
        """Whether the Kafka key of a row's message stands for the row."""
        return keys_of(self.target, self.target_options) is Keys.ROW

    @property
    def passes_watermarks(self) -> bool:
        """Whether watermarks of the source become watermarks of the target."""
        is_carried = self.source.decodes.watermark and self.target.output(self.target_options).watermark
        return is_carried and (self.selection is None or self.selection.watermarks)


#: Selections that leave nothing out.
_EVERYTHING: Final = (Selection(), Selection(definitions=True))


def _selected(selection: Selection, target: Codec, options: Options) -> Selection | None:
    """Return the selection with what the target's options leave out; None if it is everything."""
    found = selection._replace(
        watermarks=selection.watermarks and options.watermarks == "keep",
        ddl=selection.ddl and options.ddl == "keep",
        definitions=selection.ddl and target.rows_need_definitions,
    )
    return None if found in _EVERYTHING else found


class _PartitionRoute(msgspec.Struct, frozen=True):
    """A source partition: where records go if they keep it, how their `SOURCE_HEADER` values begin, and the
    templates of its topic, where a route has some. `places`: `target` and the partition, alone.
    """

    topic: str
    partition: int
    target: str
    places: tuple[tuple[str, int]]
    header_prefix: bytes
    templates: TopicTemplates | None


#: What a record has become: the events that it holds, those that are written, the losses of those left out,
#: the catalogue behind it, what the router remembers if that is something, and the target's records.
_Translated = tuple[list[Event], list[Event], Sequence[Lossy], Catalog, Spread | None, list[ProducerRecord]]


class State(NamedTuple):
    """What a translator remembers between records."""

    catalog: Catalog
    gate: WatermarkGate | None
    seen: SeenTopics = SeenTopics()


class Translator:
    """Translates records of one protocol into another, one after the other.

    `source` and `target` are codec names (`relay formats` lists them), the options are the producers' own, by
    name; a value is text, or a bool, a number or a list that means the same. `topic` is the target topic,
    where `{topic}` stands for the source's, `{database}` and `{table}` for what an event is about;
    `partitions` the number of target partitions, None to keep the partition of the source; `partition_by` how
    rows are spread over them. `rules` give tables topics of their own; `reserved` are topics that no table
    may have. `limits` bound what one record may cost. What a `selection` leaves out still teaches the
    catalogue. `engine`: what fills templates (`relay.templates`), if anything: the same records come out with
    and without it. Raises ConfigError.
    """

    def __init__(  # noqa: PLR0913 - what makes a route
        self,
        source: str,
        target: str,
        source_options: Mapping[str, OptionValue] | None = None,
        target_options: Mapping[str, OptionValue] | None = None,
        *,
        topic: str = "{topic}",
        partitions: int | None = None,
        partition_by: Partitioning | None = None,
        rules: Sequence[TopicRule] = (),
        reserved: frozenset[str] = frozenset(),
        selection: Selection | None = None,
        limits: Limits = DEFAULT_LIMITS,
        engine: type[Engine] | None = None,
    ) -> None:
        reading = source, option_texts(source_options or {})
        writing = target, option_texts(target_options or {})
        try:
            route = Route.parse(reading, writing, selection)
        except ConfigError as error:
            problems = [*error.problems, *routing_problems(topic, partitions, partition_by, rules)]
            raise ConfigError(problems) from None
        self.route = route
        self._selection, self._refused = route.selection, route.target_options.refused_losses
        self._answers = Answers(limits)
        self._most_rows, self._most_output = limits.rows, limits.output_bytes
        self._most_uncounted = uncounted_bytes(limits)
        decoder = route.source.open_decoder(route.source_options, self._answers)
        self._decode = decoder.decode
        self._router = Router(
            topic,
            partitions,
            partition_by,
            rules,
            reads_ddl_everywhere=route.source.ddl_everywhere,
            writes_ddl_everywhere=route.target.ddl_everywhere,
            reserved=reserved,
            selects=None if selection is None or selection.tables is None else selection.has_table,
        )
        _check_keys(route, self._router, rules)
        chosen = self._router.key_of if self._router.chooses_keys else None
        encoder = encoder_of(route.target, route.target_options, self._answers, chosen)
        self._prepare, self._encode = encoder.prepare, encoder.encode
        self._for_topic = encoder.for_topic if isinstance(encoder, TopicEncoder) else None
        self._is_one_topic = self._router.is_one_topic
        self._moves, self._moves_rows = self._router.moves, self._router.moves_rows
        self._gate = WatermarkGate() if self._router.spreads else None
        self._seen = SeenTopics()
        #: How many times it went back: what templates keep of it holds until then, since it only grows.
        self._seen_version = 0
        self._counts = EventCounts()
        self._count = self._counts.add
        self._open: Callable[[ConsumerRecord], ConsumerRecord] | None = None
        if engine is not None and isinstance(decoder, OpeningDecoder):
            self._open = decoder.opener(engine)
        sealing = encoder if isinstance(encoder, SealingEncoder) else None
        self._seal = None if sealing is None or engine is None else sealing.sealer(engine)
        self._templates = self._open_templates(engine, decoder, sealing)
        #: The templates that records and messages fit as they are.
        is_plain = self._open is None and self._seal is None
        self._plain_templates = self._templates if is_plain else None
        self._writes_rows_alone = route.target.writes_rows_alone(route.target_options)
        #: The messages of one row of which a record of several could be made.
        self._parts = route.source.parts if self._writes_rows_alone else no_parts
        # Of the last record; mostly the next one's, too.
        self._partition_route: _PartitionRoute | None = None
        self._partition_routes: dict[tuple[str, int], _PartitionRoute] = {}
        self._headers: tuple[Header, ...] = ()
        self._passed_on: tuple[Header, ...] = ()
        self._own_headers = route.source.own_headers | route.target.own_headers
        self.catalog = Catalog(limits=limits)
        #: Topics of which statements were left out, as copies of those in partition 0.
        self.copied_topics: set[str] = set()
        #: The time of the last watermark of each source partition, in ms since 1970, written or not.
        self.watermarks_ms: dict[tuple[str, int], int] = {}

    def _open_templates(
        self, engine: type[Engine] | None, decoder: Decoder, sealing: SealingEncoder | None
    ) -> RouteTemplates | None:
        """Return the templates of this route; None without an engine, and where no record can have one: what
        is written depends on more than the record, or its decoder traces nothing.
        """
        source, options = self.route.source, self.route.target_options
        reader = decoder.inner if isinstance(decoder, OpeningDecoder) else decoder
        if engine is None or source.marker is None or not isinstance(reader, TracingDecoder):
            return None
        if self._gate is not None or (self._for_topic is not None and sealing is None):
            return None
        encode = self._encode if sealing is None else sealing.encode_open
        writes_ends = not self._router.has_topics_of_tables_alone
        line = Line(reader, self._selection, self._prepare, encode, self._refused, writes_ends, self._seal)
        form = Form(options.unlimited_bytes, self.route.target.lengths_at)
        most_bytes = self._answers.limits.cache_bytes
        return RouteTemplates(engine, source.marker, line, form, self._count, source.frames, most_bytes)

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Give the target's records for one source record, in order; none if there is nothing to say.

        All or nothing: after a DecodeError, EncodeError or Need the translator is as it was, and the call may
        be repeated. Raises TypeError for a record whose members are of other types than it declares.
        """
        templates = self._plain_templates
        if templates is None:
            sealed = self._templates
            return self._straight(record) if sealed is None else self._sealed(record, sealed)
        path = self._partition_route
        if path is None or record.partition != path.partition or record.topic != path.topic:
            path = self._partition_route = self._partition_route_of(record)
        # Nearly all records are spared the call.
        if (self.catalog is not templates.catalog or templates.idle) and templates.skips(self.catalog):
            return self._straight(record)
        of_topic = path.templates or templates.of_topic(record.topic)
        time_ms = record.timestamp_ms
        try:
            found = of_topic.translate(record.key, record.value, record.offset, time_ms, path.header_prefix)
        except Exception:
            check_types(record)
            raise
        if found is None:
            return self._by_rows(record, templates)
        number, key, value, mark = found
        known = of_topic.known.get(number)
        if known is None or not known.is_plain or self._moves_rows or record.headers:
            known = templates.known_of(of_topic, number)
            topic = self._topic_of_rows(record, path, known)
            if topic is None:
                templates.misses += 1
                return self._straight(record)
            out = self._by_template(record, known, (topic, path.partition), found)
            return self._by_rows(record, templates) if out is None else out
        known.uses += 1
        return [ProducerRecord(path.target, path.partition, time_ms, key, value, ((SOURCE_HEADER, mark),))]

    def _by_template(
        self, record: ConsumerRecord, known: Known, place: tuple[str, int], found: Translation
    ) -> list[ProducerRecord] | None:
        """Return the records of what an engine gives for a record, which go to this topic and partition; None
        if the template is not for rows at its position.
        """
        (topic, partition), (_, key, value, mark) = place, found
        if known.allows is not None and not known.allows(record.partition, record.offset):
            return None
        if self._seal is not None:
            key, value = self._seal(topic, key, value)
        headers = (*known.headers, *self._inherited(record.headers), (SOURCE_HEADER, mark))
        out = ProducerRecord(topic, partition, record.timestamp_ms, key, value, headers)
        if known.has_tombstone:
            return self._with_tombstone(record, out, known, mark)
        known.uses += 1
        return [out]

    def _topic_of_rows(self, record: ConsumerRecord, path: _PartitionRoute, known: Known) -> str | None:
        """Return the topic of a row that fits a template; None if the straight line must say it."""
        if not self._moves_rows:
            return path.target
        found = known.topic
        if found is not None and found.seen_version == self._seen_version:
            return found.name
        name = self._router.topic_of_row(known.events[0], record, self._seen)
        if name is not None:
            known.topic = TopicOfRows(name, self._seen_version)
        return name

    def _with_tombstone(
        self, record: ConsumerRecord, out: ProducerRecord, known: Known, mark: bytes
    ) -> list[ProducerRecord]:
        """Return a row's message, made by a template, with the tombstone behind it; `mark`: its own."""
        key, value, headers = out.key or b"", out.value or b"", out.headers
        shared = _RECORD_BYTES + len(headers) * _HEADER_BYTES
        if 2 * (shared + len(key)) + len(value) > self._most_output:
            return self._straight(record)
        its_headers = (*headers[len(known.headers) : -1], (SOURCE_HEADER, mark[:-1] + b"1"))
        known.uses += 1
        return [out, ProducerRecord(out.topic, out.partition, out.timestamp_ms, key, None, its_headers)]

    def _sealed(self, record: ConsumerRecord, templates: RouteTemplates) -> list[ProducerRecord]:
        """Translate a record where templates are for the text that a decoder makes of messages, or of which
        an encoder makes them. What goes wrong does so in the straight line, too.
        """
        if templates.skips(self.catalog):
            return self._straight(record)
        path, of_topic = self._partition_route_of(record), templates.of_topic(record.topic)
        opened, out = record, None
        topic: str | None = path.target
        try:
            if self._open is not None:
                opened = self._open(record)
            found = of_topic.translate(
                opened.key, opened.value, opened.offset, opened.timestamp_ms, path.header_prefix
            )
            if found is not None:
                known = templates.known_of(of_topic, found[0])
                topic = self._topic_of_rows(record, path, known)
                if topic is not None:
                    out = self._by_template(record, known, (topic, path.partition), found)
        except (Need, DecodeError, EncodeError, MemoryError):
            templates.misses += 1
            return self._straight(record)
        if out is not None:
            return out
        templates.misses += 1
        # Of rows whose topic the straight line must say, one more template would be none the better.
        return self._straight(record, None if topic is None else templates, opened)

    def _straight(
        self,
        record: ConsumerRecord,
        templates: RouteTemplates | None = None,
        opened: ConsumerRecord | None = None,
    ) -> list[ProducerRecord]:
        """Translate a record in the straight line, and let the templates learn from it; `opened`: the record
        that they are for, if it is another one.
        """
        lossy: list[Lossy] = []
        try:
            decoded, events, left_out, catalog, spread, out = self._line(record, lossy)
        except (Need, DecodeError, MemoryError) as error:
            self._note(error, record)
            raise
        except Exception:
            check_types(record)
            raise
        if self._refused:
            self._refuse_losses(lossy)
        self._count(events, [*lossy, *left_out] if left_out else lossy)
        self.catalog = catalog
        if spread is not None:
            self._gate, self._seen = spread.gate, spread.seen
            if spread.copies:
                self.copied_topics.add(record.topic)
        if decoded and type(decoded[-1]) is Watermark:
            self.watermarks_ms[record.topic, record.partition] = decoded[-1].source.time_ms
        if templates is not None and out and not left_out and self._stays_together(decoded):
            templates.learn(opened or record, decoded, out, lossy)
        return out

    def _stays_together(self, events: Sequence[Event]) -> bool:
        """Whether events go where the first one does, or have no topic: the end of a transaction may go
        somewhere else than its row.
        """
        return len(events) == 1 or not self._moves_rows or self._router.has_topics_of_tables_alone

    def _line(self, record: ConsumerRecord, lossy: list[Lossy]) -> _Translated:
        """Decode, select, prepare, route and encode one record, and change nothing."""
        # Functions that are attributes: Python 3.11 calls them sooner from a variable.
        decode, prepare, moves = self._decode, self._prepare, self._moves
        left_out: Sequence[Lossy] = ()
        spread: Spread | None = None
        decoded, catalog = decode(record, self.catalog, lossy)
        events = decoded
        if len(events) > self._most_rows:
            check_rows(self.route.source.name, "", len(events), self._answers.limits)
        if self._selection is not None:
            events, left_out = self._selection.filter(events)
        if prepare is not None:
            events = prepare(events)
        path = self._partition_route
        if path is None or record.partition != path.partition or record.topic != path.topic:
            path = self._partition_route = self._partition_route_of(record)
        # All stays in its partition: what `_spread` says then, without the price of asking.
        groups: Sequence[Group] = ((path.places, events),)
        if moves is not None and moves(events):
            groups, events, spread = self._grouped(events, record, catalog, lossy)
        if record.timestamp_ms >= TIME_END_MS:
            lossy.append(Lossy.RECORD_TIME)
        out = self._encoded(groups, record, path.header_prefix, lossy)
        return decoded, events, left_out, catalog, spread, out

    def _encoded(
        self, groups: Sequence[Group], record: ConsumerRecord, prefix: bytes, lossy: list[Lossy]
    ) -> list[ProducerRecord]:
        """Return the records of events that stand in groups by where they go."""
        encode: Encode = self._encode
        for_topic, told = self._for_topic, lossy
        inherited = self._inherited(record.headers) if record.headers else ()
        time_ms, room = record.timestamp_ms, self._most_output
        if for_topic is not None:
            groups = _by_topic(groups)
        out: list[ProducerRecord] = []
        # Which other topics a record goes to may differ in a repeat: it is numbered in each by itself.
        numbers: Counter[str] | None = None
        for at, (places, group) in enumerate(groups):
            if for_topic is not None:
                encode = for_topic(_topic_of(places, record))
                # What copies for other topics lose is counted once.
                told = [] if at and group is groups[at - 1][1] else lossy
            for payload in encode(group, record, told):
                for topic, partition in places.of(payload.key) if type(places) is ByKey else places:
                    index = len(out)
                    if index:
                        room = self._room_after(payload, out, room)
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

    def _by_rows(self, record: ConsumerRecord, templates: RouteTemplates) -> list[ProducerRecord]:
        """Translate a record that is no message of one row with a template: by the templates of its rows, or
        in the straight line. Then what has no template is learnt.
        """
        fitted, value, given = 0, record.value, record.headers
        # A longer text may have too many values; without a time that counts, rows may have the first one's.
        is_short = value is None or len(value) <= self._most_uncounted
        if self._writes_rows_alone and is_short and record.timestamp_ms >= 0:
            shared = _RECORD_BYTES + (len(given) + 1) * _HEADER_BYTES
            found = templates.find_rows(record, self._most_output, shared)
            if not isinstance(found, int):
                place = self._placed if given or self._moves_rows else self._in_place
                out = place(record, found)
                if out is not None:
                    return out
                templates.misses += 1
                return self._straight(record)
            fitted = found
        templates.misses += 1
        parts = self._parts(record)
        if not parts:
            return self._straight(record, templates)
        catalog = self.catalog
        straight = self._straight(record)
        if is_short and fitted < len(parts) <= self._most_rows and self.catalog is catalog:
            key, value = parts[fitted]
            self._teach(msgspec.structs.replace(record, key=key, value=value), templates)
        return straight

    def _in_place(self, record: ConsumerRecord, found: Sequence[FoundRows]) -> list[ProducerRecord] | None:
        """Return the records of rows that fit templates and stay in their partition; the source's mark is the
        only header, or `_placed` is asked.
        """
        path = self._partition_route or self._partition_route_of(record)
        topic, partition = path.target, path.partition
        prefix, time_ms = b"%b%d/" % (path.header_prefix, record.offset), record.timestamp_ms
        out: list[ProducerRecord] = []
        for known, messages in found:
            if known.headers:
                return self._placed(record, found)
            for key, value in messages:
                number = len(out)
                digits = _NUMBERS[number] if number < _KNOWN_NUMBERS else b"%d" % number
                headers = ((SOURCE_HEADER, prefix + digits),)
                out.append(ProducerRecord(topic, partition, time_ms, key, value, headers))
        if len(out) > self._most_rows:
            return self._placed(record, found)
        for known, messages in found:
            known.uses += _rows(known, messages) if known.more else len(messages)
        return out

    def _placed(self, record: ConsumerRecord, found: Sequence[FoundRows]) -> list[ProducerRecord] | None:
        """Return the records of rows that fit templates; None if the straight line must say where they go, or
        if they may be too much.
        """
        numbers = None if self._is_one_topic else Counter[str]()
        out: list[ProducerRecord] = []
        rows = 0
        for known, messages in found:
            rows += _rows(known, messages)
            if not self._add_messages(out, record, known, messages, numbers):
                return None
        has_headers = any(known.headers for known, _ in found)
        if rows > self._most_rows or (has_headers and _is_too_much(out, self._most_output)):
            return None
        for known, messages in found:
            known.uses += _rows(known, messages)
        return out

    def _add_messages(
        self,
        out: list[ProducerRecord],
        record: ConsumerRecord,
        known: Known,
        messages: Sequence[Message],
        numbers: Counter[str] | None,
    ) -> bool:
        """Add the records of messages, which are counted by topic in `numbers`, if there; False if the
        straight line must say where they go.
        """
        path = self._partition_route or self._partition_route_of(record)
        topic = self._topic_of_rows(record, path, known)
        if topic is None:
            return False
        prefix, time_ms = b"%b%d/" % (path.header_prefix, record.offset), record.timestamp_ms
        inherited = self._inherited(record.headers) if record.headers else ()
        own_headers = cycle((known.headers, *known.more))
        for (key, value), own in zip(messages, own_headers, strict=False):
            number = len(out)
            if numbers is not None:
                number = numbers[topic]
                numbers[topic] += 1
            headers = (*own, *inherited, (SOURCE_HEADER, b"%b%d" % (prefix, number)))
            out.append(ProducerRecord(topic, path.partition, time_ms, key, value, headers))
        return True

    def _teach(self, part: ConsumerRecord, templates: RouteTemplates) -> None:
        """Let the templates learn from a part of a record that has gone the straight line, if it fits none
        of them.
        """
        if not isinstance(templates.find_rows(part, self._most_output, 0), int):
            return
        if not templates.is_due(part):
            return
        lossy: list[Lossy] = []
        payloads: list[Payload] = []
        decoded: list[Event] = []
        try:
            decoded, _ = self._decode(part, self.catalog, lossy)
            events = decoded
            if self._selection is not None:
                events, _ = self._selection.filter(events)
            if self._prepare is not None:
                events = self._prepare(events)
            payloads = list(self._encode(events, part, lossy))
        except (Need, DecodeError, EncodeError, MemoryError):
            pass
        if len(decoded) == 1 and isinstance(decoded[0], RowChange):
            templates.derive(part, decoded[0], payloads, lossy)
        else:
            templates.derive(part, None, [], lossy)

    def _inherited(self, headers: tuple[Header, ...]) -> tuple[Header, ...]:
        """Return the headers that a record passes on: all but those that are part of its own message, or that
        would be taken for part of the target's.
        """
        own = self._own_headers
        if not own or not headers:
            return headers
        if headers != self._headers:
            self._headers = headers
            self._passed_on = tuple([header for header in headers if header[0] not in own])
        return self._passed_on

    def _grouped(
        self, events: list[Event], record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[Sequence[Group], list[Event], Spread | None]:
        """Return where the events go, those that are written, and what the router remembers behind them, if
        it is to remember something.
        """
        if self._gate is None and len(events) == 1:
            topic = self._router.topic_of_row(events[0], record, self._seen)
            if topic is not None:
                return ((((topic, record.partition),), events),), events, None
        spread = self._spread(events, record, catalog, lossy)
        return spread.groups, spread.written, spread

    def _spread(
        self, events: list[Event], record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> Spread:
        """Return where the events go, those that are written, and what the router remembers behind them."""
        spread = self._router.spread(events, record, catalog, self._gate, self._seen)
        if spread.copies:
            lossy += [Lossy.DDL_COPIES] * spread.copies
        for event in spread.homeless:
            lossy.append(_HOMELESS.get(type(event), Lossy.NO_TOPIC))
        return spread

    def _room_after(self, payload: Payload, out: list[ProducerRecord], room: int) -> int:
        """Return how many bytes more a record may become, after those before and this one.

        Raises LimitExceeded if it is none. One message alone has a size that its record and its table bound.
        Copies of a message for other partitions share its key and value, which count once.
        """
        last, value = out[-1], payload.value
        shared = _RECORD_BYTES + len(last.headers) * _HEADER_BYTES
        room -= shared
        if len(out) == 1:
            room -= _size(last) + shared
        if value is None or payload.key is not None or payload.blobs:
            is_copy = value is last.value and payload.key is last.key and payload.blobs is last.blobs
            room -= 0 if is_copy else _size(payload)
        elif value is not last.value:
            room -= len(value)
        if room < 0:
            most = self._answers.limits.output_bytes
            raise exceeded(self.route.source.name, "", "bytes of output", "output_bytes", most)
        return room

    def inspect(self, record: ConsumerRecord) -> list[Event]:
        """Decode one record and give its canonical events untranslated. All or nothing, like `translate`."""
        lossy: list[Lossy] = []
        events, self.catalog = self._decoded(record, lossy)
        if record.timestamp_ms >= TIME_END_MS:
            lossy.append(Lossy.RECORD_TIME)
        self._counts.lose(lossy)
        return events

    def learn(self, record: ConsumerRecord) -> tuple[TableId, ...]:
        """Take from a record what it says about tables, and nothing else; return the tables that it is about.

        For records that a schema history kept, definitions from outside of the stream among them, and those
        that cannot be translated. Raises DecodeError, Need.
        """
        if is_definition(record):
            definition = definition_in(record)
            self.catalog = teach_definition(self.catalog, definition)
            return (definition.table,)
        events, self.catalog = self._decoded(record, [])
        return _tables_in(events)

    def tables_of(self, record: ConsumerRecord) -> tuple[TableId, ...]:
        """Return the tables that a record is about; () if it cannot be read. Changes nothing."""
        try:
            events, _ = self._decoded(record, [])
        except (DecodeError, Need):
            return ()
        return _tables_in(events)

    def row_time_ms(self, record: ConsumerRecord) -> int | None:
        """Return when the newest row of a record was committed, in milliseconds since 1970; None without
        rows, and if the record cannot be read or does not say. Changes nothing.
        """
        try:
            events, _ = self._decoded(record, [])
        except (DecodeError, Need):
            return None
        times = [event.source.time_ms for event in events if isinstance(event, RowChange)]
        return max(times, default=0) or None

    def _decoded(self, record: ConsumerRecord, lossy: list[Lossy]) -> tuple[list[Event], Catalog]:
        try:
            return self._decode(record, self.catalog, lossy)
        except (Need, DecodeError, MemoryError) as error:
            self._note(error, record)
            raise
        except Exception:
            check_types(record)
            raise

    def expect_partitions(self, partitions: Iterable[tuple[str, int]]) -> None:
        """Name all source partitions (topic, number): where rows are spread anew, so that no watermark passes
        before all have reached it; where DDL is copied (`copies_ddl`), so that each gets a copy.

        Without it, only those that were seen count for watermarks, and DDL goes to its own partition alone.
        """
        found = dict.fromkeys(partitions)
        if self._gate is not None and not found.keys() <= self._gate.reached.keys():
            self._gate = WatermarkGate(found | self._gate.reached, self._gate.passed)
        self._router.expect(found)

    def partitions_of(self, topic: str) -> int | None:
        """Return over how many partitions rows of a table are spread that has this target topic, and that was
        translated just now; None if they keep the source's.
        """
        return self._router.partitions_of(topic)

    @property
    def copies_ddl(self) -> bool:
        """Whether a statement is written to every partition that the source has (`expect_partitions`)."""
        return self._router.makes_copies and (self._selection is None or self._selection.ddl)

    @property
    def needs_all_partitions(self) -> bool:
        """Whether watermarks need a translator that sees every source partition, as rows are spread anew."""
        return self._gate is not None and self.route.passes_watermarks

    @property
    def state(self) -> State:
        """All that a record may leave for later ones. A value: `restore` may go back to it repeatedly."""
        return State(self.catalog, self._gate, self._seen)

    def restore(self, state: State) -> None:
        """Go back to where `state` was taken, to translate the records after it again."""
        if state.seen is not self._seen:
            self._seen_version += 1
        self.catalog, self._gate, self._seen = state

    def provide(self, need: Need[Answer], answer: Answer) -> None:
        """Give the answer that a call asked for by raising `need`; it is kept within a bound (`Answers`).

        Raises TypeError for an answer of another type.
        """
        self._answers.provide(need, answer)

    def _note(self, error: Need[Any] | DecodeError | MemoryError, record: ConsumerRecord) -> None:
        """Note what a failed record needed. Raises what says more than the error: OutOfMemory, which has a
        policy, for MemoryError, and the name of the format that the record has.
        """
        if isinstance(error, Need):
            self._answers.want(error, record.place)
            return
        self._answers.distrust(record.place)
        check_types(record)
        if isinstance(error, Malformed | UnsupportedMessage):
            named = named_error(error, record, self._schema_of(record))
            if named is not None:
                raise named from error
        if isinstance(error, MemoryError):
            reason = "no memory is left to translate it; lower limits would refuse such a record before"
            raise OutOfMemory(self.route.source.name, "", reason) from None

    def _schema_of(self, record: ConsumerRecord) -> RegisteredSchema | None:
        """The schema that a record's value names; None if there is none, or it is not known."""
        ids = self.route.source.named_schemas(msgspec.structs.replace(record, key=None))
        try:
            return self._answers.find(SchemaById("source", ids[0])) if ids else None
        except Need:
            return None

    @property
    def ways(self) -> Counter[str]:
        """How many rows templates have translated (`template`), and how many records went the straight line
        (`straight`), those that were refused among them; nothing without an engine.
        """
        if self._templates is None:
            return Counter()
        return Counter(template=self._templates.uses, straight=self._templates.misses)

    @property
    def events(self) -> Counter[str]:
        """Events translated, by kind: `insert`, `update`, `delete`, `read`, `schema-change`, `watermark`."""
        return self._settled().events

    @property
    def lossy(self) -> Counter[Lossy]:
        """What could not be carried, by kind."""
        return self._settled().lossy

    @property
    def guessed_tables(self) -> Mapping[TableId, int]:
        """Tables without known DDL of which rows were translated, and how many rows; the first ones only.

        In the order in which they came; none is ever taken out.
        """
        return MappingProxyType(self._settled().guessed)

    def guessed_after(self, number: int) -> list[TableId]:
        """Return the tables of `guessed_tables` that came after the first `number`."""
        guessed = self._counts.guessed
        return list(guessed)[number:] if len(guessed) > number else []

    @property
    def tables(self) -> Counter[tuple[TableId, str]] | None:
        """Translated rows and DDL by table and kind (as `kind_of` names it); counted only if somebody puts a
        Counter here.
        """
        return self._settled().tables

    @tables.setter
    def tables(self, counter: Counter[tuple[TableId, str]] | None) -> None:
        self._settled().tables = counter

    def count_tables(self, most: int) -> None:
        """Count rows and DDL by table from now on: of the `most` tables that come first, each by itself."""
        self._settled().by_table = CountsByTable(most)

    @property
    def counts_by_table(self) -> Mapping[TableId, Counter[str]]:
        """Translated rows and DDL by table and kind (as `kind_of` names it), those of the tables beyond a
        number as `OTHER_TABLES`; nothing unless `count_tables` was called.
        """
        by_table = self._settled().by_table
        return {} if by_table is None else by_table.tables

    def _settled(self) -> EventCounts:
        """The counts, with those of records that fitted templates."""
        if self._templates is not None:
            self._templates.settle()
        return self._counts

    def _partition_route_of(self, record: ConsumerRecord) -> _PartitionRoute:
        topic, partition = record.topic, record.partition
        found = self._partition_routes.get((topic, partition))
        if found is None:
            prefix, target = f"{topic}/{partition}/".encode(), self._router.topic_of(topic)
            templates = None if self._templates is None else self._templates.of_topic(topic)
            found = _PartitionRoute(topic, partition, target, ((target, partition),), prefix, templates)
            if len(self._partition_routes) >= _MOST_PARTITION_ROUTES:
                self._partition_routes.clear()
            self._partition_routes[topic, partition] = found
        return found

    def _refuse_losses(self, lossy: list[Lossy]) -> None:
        """What `strict` says; what was left out on request is no loss."""
        if not self._refused.isdisjoint(lossy):
            lost = self._refused.intersection(lossy)
            accepting = strict_without(self._refused, lost)
            what = ", ".join(sorted(lost))
            reason = (
                f"the route would lose: {what}; the target option strict={accepting} accepts and counts it"
            )
            if accepting != "false":
                reason += ", strict=false every loss"
            raise NotRepresentable(self.route.target.name, "", reason)


def _check_keys(route: Route, router: Router, rules: Sequence[TopicRule]) -> None:
    """Raise ConfigError if rows are to go by keys that tell no rows apart, and for rules whose keys of chosen
    columns the target cannot have.
    """
    if router.goes_by_key and not route.has_row_keys:
        raise ConfigError([_no_row_keys(route.target)])
    found = key_rule_problem(route.target, route.target_options)
    if found is not None:
        problems = [Problem(f"target.topics.{at}.key", *found) for at, rule in enumerate(rules) if rule.key]
        if problems:
            raise ConfigError(problems)


def _topic_of(places: Places, record: ConsumerRecord) -> str:
    """The one topic of a group's places."""
    if type(places) is ByKey:
        return places.topic
    for topic, _ in places:
        return topic
    return record.topic


def _by_topic(groups: Sequence[Group]) -> list[Group]:
    """Return the groups so that each goes to one topic; of several topics, each has the same events."""
    found: list[Group] = []
    for places, events in groups:
        if type(places) is ByKey or len(places) < 2 or len({topic for topic, _ in places}) < 2:
            found.append((places, events))
            continue
        by_topic: dict[str, list[tuple[str, int]]] = {}
        for place in places:
            by_topic.setdefault(place[0], []).append(place)
        found += [(in_topic, events) for in_topic in by_topic.values()]
    return found


def _rows(known: Known, messages: Sequence[Message]) -> int:
    """How many rows have become these messages by a template."""
    return len(messages) // (1 + len(known.more))


def _is_too_much(out: Sequence[ProducerRecord], most_bytes: int) -> bool:
    """Whether records may become more bytes than they may together."""
    headers = max([len(record.headers) for record in out], default=0)
    return sum(map(_size, out)) + len(out) * (_RECORD_BYTES + headers * _HEADER_BYTES) > most_bytes


#: In digits, from 0 on.
_KNOWN_NUMBERS: Final = 1000
_NUMBERS: Final = [b"%d" % number for number in range(_KNOWN_NUMBERS)]


def _no_row_keys(target: Codec) -> Problem:
    message = f"key: the keys of {target.name} tell no rows apart, so rows of one key would not stay together"
    hint = "use index-value, or, where the target has that option, key=primary-key"
    return Problem("target.partition_by", message, hint)


def _size(written: Payload | ProducerRecord) -> int:
    """The bytes of a record to write, with the objects that it refers to."""
    size = len(written.value or b"")
    if written.key is not None:
        size += len(written.key)
    if written.blobs:
        size += sum([len(blob.data) for blob in written.blobs])
    return size


#: What a record takes beside its key and value, and each of its headers, whose texts are shared.
_RECORD_BYTES: Final = 500
_HEADER_BYTES: Final = 16
#: How many source partitions are remembered; those that are in use are soon there again.
_MOST_PARTITION_ROUTES: Final = 10_000
#: What is lost of an event about no table where every table has a topic of its own. Statements and watermarks
#: are not among them: where they have no topic, nobody is there who would miss them.
_HOMELESS: Final[Mapping[type[Event], Lossy]] = {
    kind: UNSUPPORTED_EVENT_LOSSES[kind] for kind in (TransactionMark, Heartbeat)
}


def _tables_in(events: Iterable[Event]) -> tuple[TableId, ...]:
    """The tables that events are about, each once."""
    found: dict[TableId, None] = {}
    for event in events:
        if isinstance(event, RowChange):
            found[event.table] = None
        elif isinstance(event, Bootstrap):
            found[event.schema.id] = None
        elif isinstance(event, SchemaChange):
            found |= dict.fromkeys(event.targets or (event.table,))
    return tuple(found)


__all__ = ["Route", "Selection", "State", "Translator", "kind_of"]
