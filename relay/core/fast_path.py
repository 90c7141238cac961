"""The fast path: translates records by templates, with the same output and counts as the pipeline.

Records that fit no template take the slow path, and new templates are derived from them.
"""

from __future__ import annotations

import operator
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from functools import partial
from itertools import cycle
from typing import Final

import msgspec

from relay.codecs.codec import (
    Decoder,
    DeserializingDecoder,
    Encoder,
    Seal,
    SerializingEncoder,
    TopicEncoder,
    TracingDecoder,
    no_parts,
)
from relay.codecs.losses import Loss
from relay.core.condition_cells import CellWriter, ConditionCellWriter, TemplateRowFilter
from relay.core.counts import is_inference_counted
from relay.core.digest_cells import DigestCellWriter, read_digest
from relay.core.pipeline import PartitionPath, Pipeline, TranslatedPart, overhead_bytes, size_bytes
from relay.model.errors import DecodeError, EncodeError
from relay.model.events import Event, RowChange, TableId, TransactionMark
from relay.model.limits import uncounted_bytes
from relay.model.lookups import Need
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord, check_types
from relay.rules.rows import Verdict
from relay.templates.engine import Engine, Message, Translation
from relay.templates.ops import LOSS, MessageFields
from relay.templates.route.deriving import Deriver, MessageFormat, TracedLine
from relay.templates.route.known import EvaluatesRows, FoundRows, TemplateInfo, TopicOfRows
from relay.templates.route.policy import DEFAULT_POLICY, TemplatePolicy
from relay.templates.route.route_templates import RouteTemplates
from relay.templates.route.topic_templates import TopicTemplates


def open_fast_path(
    line: Pipeline,
    decoder: Decoder,
    encoder: Encoder,
    engine: type[Engine],
    policy: TemplatePolicy = DEFAULT_POLICY,
) -> FastPath | SealedFastPath | None:
    """Return the fast path for a pipeline.

    None if no record can have a template, because the output depends on more than the record or the decoder
    has no traced form.
    """
    source, target, options = line.route.source, line.route.target, line.route.target_options
    reader = decoder.inner if isinstance(decoder, DeserializingDecoder) else decoder
    marker = source.templates.marker
    if marker is None or line.gate is not None or not isinstance(reader, TracingDecoder):
        return None
    encode, for_topic, seal = encoder.encode, None, None
    if isinstance(encoder, SerializingEncoder):
        encode, seal = encoder.encode_open, encoder.sealer(engine)
    elif isinstance(encoder, TopicEncoder):
        for_topic = encoder.for_topic
    writes_ends = not line.router.has_topics_of_tables_alone
    traced = TracedLine(
        reader,
        partial(line.prepared, skip_row_rules=True),
        encode,
        for_topic,
        line.refused,
        writes_ends,
        seal,
        _condition_cells_of(line),
    )
    new_engine = partial(engine, marker, source.templates.framing)
    form = MessageFormat(options.unlimited_bytes, target.templates.lengths_at)
    deriver = Deriver(traced, form, engine(marker))
    templates = RouteTemplates(
        new_engine,
        marker,
        deriver,
        line.count,
        line.limits.cache_bytes,
        policy,
        table_name=source.templates.table_name,
    )
    opener = decoder.opener(engine) if isinstance(decoder, DeserializingDecoder) else None
    if opener is None and seal is None:
        return FastPath(line, templates)
    return SealedFastPath(line, templates, opener, seal)


def _condition_cells_of(line: Pipeline) -> Callable[[RowChange, ConsumerRecord], list[bytes] | None] | None:
    """Return the function that writes the cells that decide whether a row is written.

    These are the cells for `deduplicate`, followed by those on which row rules depend. None without any.
    """
    rules = line.route.row_rules
    cells = CellWriter(line.answers)
    conditions = None if rules is None else ConditionCellWriter(rules, cells).write
    if line.deduplicator is None:
        return conditions
    digests = DigestCellWriter(cells).write

    def write(change: RowChange, record: ConsumerRecord) -> list[bytes]:
        others = None if conditions is None else conditions(change, record)
        return [digests(change, record), *(others or ())]

    return write


class _RowPath:
    """Translates records of one row by `templates`.

    `seal`: converts a template's output to a message for a topic; None if that output is the message.
    """

    def __init__(self, line: Pipeline, templates: RouteTemplates, seal: Seal | None) -> None:
        self.templates = templates
        self._line, self._router, self._seal = line, line.router, seal
        self._moves_rows = self._router.moves_rows
        self._row_rules, self._deduplicates = line.route.row_rules, line.deduplicator is not None
        self._deciding_headers = line.route.source.templates.deciding_headers

    def _slow_path(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Translate a record that fits no template by the slow path."""
        self.templates.misses += 1
        return self._line.translate(record)

    def _has_deciding_header(self, record: ConsumerRecord) -> bool:
        """Return whether a header decides how a record is read, so that no template applies."""
        return any(name in self._deciding_headers for name, _ in record.headers)

    def _learning(self, record: ConsumerRecord, opened: ConsumerRecord) -> list[ProducerRecord]:
        """Translate by the slow path, and derive a template if one is due.

        `opened`: the record in the form that templates apply to.
        """
        if self.templates.is_warming_up(opened):
            return self._slow_path(record)

        def learn(events: list[Event], out: list[ProducerRecord], losses: list[Loss]) -> None:
            if self._stay_together(events) and self._all_kept(events):
                self.templates.learn(opened, events, out, losses)

        self.templates.misses += 1
        return self._line.translate(record, learn)

    def _stay_together(self, events: Sequence[Event]) -> bool:
        """Return whether all events go to the first one's destination, or events about no table have no
        topic.

        The end of a transaction may go to another destination than its row.
        """
        return len(events) == 1 or not self._moves_rows or self._router.has_topics_of_tables_alone

    def _all_kept(self, events: list[Event]) -> bool:
        """Return whether the row rules keep all events unchanged.

        The output of a changed or dropped row cannot be compared with that of a template.
        """
        if self._row_rules is None:
            return True
        kept, _ = self._row_rules.apply(events)
        return len(kept) == len(events) and all(map(operator.is_, kept, events))

    def _evaluate(
        self, record: ConsumerRecord, known: TemplateInfo, value: bytes | None
    ) -> tuple[Verdict | None, bytes, bytes]:
        """Return the verdict on a row, the value of its message without the cells before it, and the digest
        of a row to remember, b"" for none.

        The verdict is None for a row that may be a repeat, or whose verdict only the pipeline can find.
        """
        value, digest, parts = value or b"", b"", 0  # with cells, there is a value
        if self._deduplicates:
            commit_ts, found, value = read_digest(record, known, value)
            if found is None or not self._line.is_new(record, commit_ts, found):
                return None, value, b""
            digest, parts = found, 1
        if known.condition_cell_parts == parts:
            return _KEPT, value, digest
        row_filter = known.row_filter or self._row_filter_of(known)
        return (*row_filter.evaluate(value), digest)

    def _row_filter_of(self, known: TemplateInfo) -> EvaluatesRows:
        """Return the row rules for the rows of a template, made once. Raises ConditionFailed."""
        change, rules = known.events[0], self._row_rules
        rows = rules.filter_of(change.schema) if rules and isinstance(change, RowChange) else None
        if rows is None or not isinstance(change, RowChange):
            message = "a template with cells for row rules is of a table without rules"
            raise AssertionError(message)
        found = known.row_filter = TemplateRowFilter(rows, change.op, change.schema)
        return found

    def _not_kept(
        self,
        record: ConsumerRecord,
        known: TemplateInfo,
        verdict: Verdict | None,
        number: int,
        digest: bytes,
    ) -> list[ProducerRecord]:
        """Return the records for a row that may not stay as it is.

        `number`: the engine's. `digest`: of a row to remember, b"" for none.
        """
        # A number of LOSS or more stands for losses of values, which the slow path counts; `left_out` counts
        # one row for a record.
        if verdict is Verdict.LEFT_OUT and number < LOSS and len(known.events) == 1:
            known.left_out += 1
            self._line.remember(record, digest)
            return []
        return self._slow_path(record)

    def _by_template(
        self, record: ConsumerRecord, known: TemplateInfo, destination: tuple[str, int], found: Translation
    ) -> list[ProducerRecord] | None:
        """Return the records from an engine's output, for this topic and partition.

        None if the template does not apply at the record's position, or if the output may exceed the limit.
        """
        (topic, partition), (number, key, value, mark) = destination, found
        if known.allows is not None and not known.allows(record.partition, record.offset):
            return None
        digest = b""
        if known.condition_cell_parts:
            verdict, value, digest = self._evaluate(record, known, value)
            if verdict is not _KEPT:
                return self._not_kept(record, known, verdict, number, digest)
        if self._seal is not None:
            key, value = self._seal(topic, key, value)
        headers = (*known.headers, *self._line.inherited(record.headers), (SOURCE_HEADER, mark))
        out = ProducerRecord(topic, partition, record.timestamp_ms, key, value, headers)
        written: list[ProducerRecord] | None = [out]
        if known.has_tombstone:
            written = self._with_tombstone(out, known, mark)
        if written is not None:
            known.uses += 1
            self._line.remember(record, digest)
        return written

    def _with_tombstone(
        self, out: ProducerRecord, known: TemplateInfo, mark: bytes
    ) -> list[ProducerRecord] | None:
        """Return a row's message from a template, followed by its tombstone.

        None if they may exceed the limit. `mark`: the source mark of the message.
        """
        key, value, headers = out.key or b"", out.value or b"", out.headers
        if 2 * (overhead_bytes(len(headers)) + len(key)) + len(value) > self._line.limits.output_bytes:
            return None
        its_headers = (*headers[len(known.headers) : -1], (SOURCE_HEADER, mark[:-1] + b"1"))
        return [out, ProducerRecord(out.topic, out.partition, out.timestamp_ms, key, None, its_headers)]

    def _topic_of_rows(self, record: ConsumerRecord, path: PartitionPath, known: TemplateInfo) -> str | None:
        """Return the topic of a row that fits a template; None if only the pipeline can determine it."""
        if not self._moves_rows:
            return path.target
        line, found = self._line, known.topic
        if found is not None and found.seen_version == line.seen_version:
            return found.name
        name = self._router.topic_of_row(line.renamed(known.events[0]), record, line.seen)
        if known.written_for not in {None, name}:
            return None
        if name is not None:
            known.topic = TopicOfRows(name, line.seen_version)
        return name


class FastPath(_RowPath):
    """Translates records by templates that apply to messages of both sides directly."""

    def __init__(self, line: Pipeline, templates: RouteTemplates) -> None:
        super().__init__(line, templates, None)
        self._most_output, self._most_rows = line.limits.output_bytes, line.limits.rows
        self._most_uncounted = uncounted_bytes(line.limits)
        self._is_one_topic = self._router.is_one_topic
        route = line.route
        self._writes_rows_alone = route.target.templates.writes_rows_alone(route.target_options)
        #: Whether groups of a record that fit templates may be translated apart from the others.
        self._divides = (
            isinstance(route.source.templates.framing, MessageFields)
            and route.target.templates.writes_events_alone(route.target_options)
            and not self._moves_rows
        )
        #: Splits a record of several rows into messages of one row.
        self._parts = route.source.templates.parts if self._writes_rows_alone else no_parts
        # The latest record's; usually the next record has the same partition.
        self._path: PartitionPath | None = None
        self._of_topic: TopicTemplates | None = None

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Return the target's records for one source record, like `Translator.translate`."""
        line, templates = self._line, self.templates
        path, of_topic = self._path, self._of_topic
        if (
            path is None
            or of_topic is None
            or record.partition != path.partition
            or record.topic != path.topic
        ):
            path, of_topic = self._entered(record)
        # Rarely called.
        if (line.catalog is not templates.catalog or templates.idle) and templates.skips(line.catalog):
            return line.translate(record)
        if record.headers and self._deciding_headers and self._has_deciding_header(record):
            return self._slow_path(record)
        time_ms = record.timestamp_ms
        try:
            found = of_topic.translate(record.key, record.value, record.offset, time_ms, path.header_prefix)
        except MemoryError:
            return self._slow_path(record)
        except Exception:
            check_types(record)
            raise
        if found is None:
            return self._by_rows(record, path)
        number, key, value, mark = found
        known = of_topic.known.get(number)
        if known is None or known.headers or known.has_tombstone or self._moves_rows:
            return self._routed(record, path, of_topic, found)
        allows = known.allows
        if allows is not None and not allows(record.partition, record.offset):
            return self._by_rows(record, path)
        if known.condition_cell_parts:
            return self._translate_filtered(record, path, known, found)
        own = ((SOURCE_HEADER, mark),)
        headers = line.inherited(record.headers) + own if record.headers else own
        known.uses += 1
        return [ProducerRecord(path.target, path.partition, time_ms, key, value, headers)]

    def _translate_filtered(
        self, record: ConsumerRecord, path: PartitionPath, known: TemplateInfo, found: Translation
    ) -> list[ProducerRecord]:
        """Return the records from an engine's output for a row with cells before its message."""
        number, key, value, mark = found
        verdict, value, digest = self._evaluate(record, known, value)
        if verdict is not _KEPT:
            return self._not_kept(record, known, verdict, number, digest)
        own = ((SOURCE_HEADER, mark),)
        headers = self._line.inherited(record.headers) + own if record.headers else own
        known.uses += 1
        self._line.remember(record, digest)
        return [ProducerRecord(path.target, path.partition, record.timestamp_ms, key, value, headers)]

    def _routed(
        self, record: ConsumerRecord, path: PartitionPath, of_topic: TopicTemplates, found: Translation
    ) -> list[ProducerRecord]:
        """Return the records from an engine's output for a record.

        It handles rows with other destinations, headers or tombstones, and losses that are counted for the
        first time.
        """
        known = self.templates.known_of(of_topic, found[0])
        topic = self._topic_of_rows(record, path, known)
        if topic is None:
            return self._slow_path(record)
        out = self._by_template(record, known, (topic, path.partition), found)
        return self._by_rows(record, path) if out is None else out

    def _entered(self, record: ConsumerRecord) -> tuple[PartitionPath, TopicTemplates]:
        """Set the current partition to this record's."""
        path = self._line.path_of(record.topic, record.partition)
        of_topic = self.templates.of_topic(record.topic)
        self._path, self._of_topic = path, of_topic
        return path, of_topic

    # ------------------------------------------------------------ several rows

    def _by_rows(self, record: ConsumerRecord, path: PartitionPath) -> list[ProducerRecord]:
        """Translate a record that is not a one-row message with a template.

        Use the templates of its rows if all rows have one, or else the slow path. Then derive a template for
        the first row without one.
        """
        fitted, value, given, of_topic = 0, record.value, record.headers, self._of_topic
        # A longer text may exceed the limit of values. Without a record timestamp, a decoder may use the
        # first row's time for all rows.
        is_short = value is None or len(value) <= self._most_uncounted
        has_templates = self._writes_rows_alone and of_topic is not None and bool(of_topic.known)
        if has_templates and is_short and record.timestamp_ms >= 0:
            try:
                found = self.templates.find_rows(record, self._most_output, overhead_bytes(len(given) + 1))
            except MemoryError:
                return self._slow_path(record)
            if not isinstance(found, int):
                write = self._route_rows if given or self._moves_rows else self._keep_in_partition
                out = write(record, path, found)
                return self._slow_path(record) if out is None else out
            fitted = found
            out = self._by_groups(record, path) if self._divides else None
            if out is not None:
                return out
        parts = self._parts(record)
        if not parts:
            return self._learning(record, record)
        line = self._line
        catalog = line.catalog
        slow = self._slow_path(record)
        if is_short and fitted < len(parts) <= self._most_rows and line.catalog is catalog:
            key, value = parts[fitted]
            self._apply_part(msgspec.structs.replace(record, key=key, value=value))
        return slow

    def _by_groups(self, record: ConsumerRecord, path: PartitionPath) -> list[ProducerRecord] | None:
        """Translate the groups of a record that fit templates by these, and the rest by the slow path.

        Return None if no group fits, or if the result might differ from that of the whole record. Otherwise
        also derive a template from the first row of each part without one.
        """
        line, templates = self._line, self.templates
        shared = overhead_bytes(len(record.headers) + 1)
        pieces = templates.find_groups(record, self._most_output, shared)
        if not pieces:
            return None
        rests = [piece for piece in pieces if isinstance(piece, bytes)]
        before = line.catalog
        out: list[ProducerRecord] | None = None

        def accept(parts: list[TranslatedPart]) -> bool:
            nonlocal out
            out = self._join(record, path, pieces, iter(parts))
            return out is not None

        parts = line.translate_parts(record, rests, accept)
        if parts is None:
            return None
        templates.misses += 1
        for piece in pieces:
            if not isinstance(piece, bytes):
                piece[0].uses += _rows(*piece)
        if line.catalog is before:
            for rest, part in zip(rests, parts, strict=True):
                if not part.has_statement:
                    self._learn_from_rest(msgspec.structs.replace(record, value=rest))
        return out

    def _join(
        self,
        record: ConsumerRecord,
        path: PartitionPath,
        pieces: Sequence[FoundRows | bytes],
        parts: Iterator[TranslatedPart],
    ) -> list[ProducerRecord] | None:
        """Return the messages of all pieces of a record in order; `parts`: of those that are bytes.

        Return None if they may exceed a limit, or if a template does not apply after a statement.
        """
        prefix, before = b"%b%d/" % (path.header_prefix, record.offset), self._line.catalog
        out: list[ProducerRecord] = []
        changed: list[TableId] = []
        event_count = 0
        for piece in pieces:
            if isinstance(piece, bytes):
                part = next(parts)
                event_count += len(part.events)
                changed = part.catalog.changed_since(before)
                out += _renumbered(part.out, prefix, len(out))
                continue
            known, messages = piece
            if known.table in changed or not is_inference_counted(known.events, known.losses):
                return None
            if known.is_of_marks:
                event_count += _MOST_MARKS * len(messages)
                continue
            event_count += _rows(known, messages)
            self._add_messages(out, record, (path.target, path), piece, None)
        if event_count > self._most_rows or self._is_too_much(out):
            return None
        return out

    def _learn_from_rest(self, rest: ConsumerRecord) -> None:
        """Derive a template for the first row of those that fit none, if one is due."""
        parts = self._parts(rest)
        key, value = parts[0] if parts else (rest.key, rest.value)
        self._apply_part(msgspec.structs.replace(rest, key=key, value=value))

    def _keep_in_partition(
        self, record: ConsumerRecord, path: PartitionPath, found: Sequence[FoundRows]
    ) -> list[ProducerRecord] | None:
        """Return the records of rows that fit templates and stay in their partition.

        They have no header except the source mark; otherwise `_route_rows` is used.
        """
        topic, partition = path.target, path.partition
        prefix, time_ms = b"%b%d/" % (path.header_prefix, record.offset), record.timestamp_ms
        out: list[ProducerRecord] = []
        for known, messages in found:
            if known.headers or known.is_of_marks:
                return self._route_rows(record, path, found)
            for key, value in messages:
                number = len(out)
                digits = _NUMBERS[number] if number < _KNOWN_NUMBERS else b"%d" % number
                headers = ((SOURCE_HEADER, prefix + digits),)
                out.append(ProducerRecord(topic, partition, time_ms, key, value, headers))
        if len(out) > self._most_rows:
            return self._route_rows(record, path, found)
        for known, messages in found:
            known.uses += _rows(known, messages) if known.more else len(messages)
        return out

    def _route_rows(
        self, record: ConsumerRecord, path: PartitionPath, found: Sequence[FoundRows]
    ) -> list[ProducerRecord] | None:
        """Return the records of rows that fit templates.

        None if only the pipeline can determine their destinations, or if they may exceed the limit.
        """
        numbers = None if self._is_one_topic else Counter[str]()
        out: list[ProducerRecord] = []
        rows = 0
        for known, messages in found:
            if known.is_of_marks:
                rows += _MOST_MARKS * len(messages)
                continue
            rows += _rows(known, messages)
            topic = self._topic_of_rows(record, path, known)
            if topic is None:
                return None
            self._add_messages(out, record, (topic, path), (known, messages), numbers)
        has_headers = any(known.headers for known, _ in found)
        if rows > self._most_rows or (has_headers and self._is_too_much(out)):
            return None
        for known, messages in found:
            known.uses += _rows(known, messages)
        return out

    def _add_messages(
        self,
        out: list[ProducerRecord],
        record: ConsumerRecord,
        destination: tuple[str, PartitionPath],
        found: FoundRows,
        numbers: Counter[str] | None,
    ) -> None:
        """Append the records of messages to a topic; `numbers`, if given, counts them by topic."""
        (topic, path), (known, messages) = destination, found
        prefix, time_ms = b"%b%d/" % (path.header_prefix, record.offset), record.timestamp_ms
        inherited = self._line.inherited(record.headers) if record.headers else ()
        own_headers = cycle((known.headers, *known.more))
        for (key, value), own in zip(messages, own_headers, strict=False):
            number = len(out)
            if numbers is not None:
                number = numbers[topic]
                numbers[topic] += 1
            headers = (*own, *inherited, (SOURCE_HEADER, b"%b%d" % (prefix, number)))
            out.append(ProducerRecord(topic, path.partition, time_ms, key, value, headers))

    def _is_too_much(self, out: Sequence[ProducerRecord]) -> bool:
        """Return whether records may exceed the limit of total bytes."""
        headers = max([len(record.headers) for record in out], default=0)
        return sum(map(size_bytes, out)) + len(out) * overhead_bytes(headers) > self._most_output

    def _apply_part(self, part: ConsumerRecord) -> None:
        """Derive a template from a part of a record, if it fits none and one is due.

        The record has already taken the slow path.
        """
        line, templates = self._line, self.templates
        if not isinstance(templates.find_rows(part, self._most_output, 0), int):
            return
        if templates.is_warming_up(part) or not templates.is_due(part):
            return
        losses: list[Loss] = []
        try:
            decoded, _ = line.decode(part, line.catalog, losses)
            rows: list[Event] = [event for event in decoded if not isinstance(event, TransactionMark)]
            payloads = list(line.encode(line.prepared(rows or decoded, part), part, losses))
        except (Need, DecodeError, EncodeError, MemoryError):
            templates.derive(part, None, [], losses)
            return
        if len(rows) == 1 and isinstance(rows[0], RowChange):
            templates.derive(part, rows[0], payloads, losses)
        else:
            has_marks_alone = not rows and not payloads
            templates.derive(part, None, [], losses, marks=decoded if has_marks_alone else None)


class SealedFastPath(_RowPath):
    """Translates records by templates for the text inside their messages.

    `opener` extracts a record's text, `seal` converts text to a message; each is None if messages are text.
    """

    def __init__(
        self,
        line: Pipeline,
        templates: RouteTemplates,
        opener: Callable[[ConsumerRecord], ConsumerRecord] | None,
        seal: Seal | None,
    ) -> None:
        super().__init__(line, templates, seal)
        self._opener = opener

    def translate(self, record: ConsumerRecord) -> list[ProducerRecord]:
        """Return the target's records for one source record, like `Translator.translate`."""
        line, templates = self._line, self.templates
        if templates.skips(line.catalog):
            return line.translate(record)
        if record.headers and self._deciding_headers and self._has_deciding_header(record):
            return self._slow_path(record)
        path, of_topic = line.path_of(record.topic, record.partition), templates.of_topic(record.topic)
        opened, out = record, None
        topic: str | None = path.target
        try:
            if self._opener is not None:
                opened = self._opener(record)
            found = of_topic.translate(
                opened.key, opened.value, opened.offset, opened.timestamp_ms, path.header_prefix
            )
            if found is not None:
                known = templates.known_of(of_topic, found[0])
                topic = self._topic_of_rows(record, path, known)
                if topic is not None:
                    out = self._by_template(record, known, (topic, path.partition), found)
        except (Need, DecodeError, EncodeError, MemoryError):
            # The slow path fails as well, and raises the right error.
            return self._slow_path(record)
        if out is not None:
            return out
        # If only the pipeline can determine the rows' topic, another template would not help.
        return self._slow_path(record) if topic is None else self._learning(record, opened)


def _renumbered(records: Sequence[ProducerRecord], mark_prefix: bytes, first: int) -> list[ProducerRecord]:
    """Return records with source marks that are numbered from `first`; `mark_prefix`: the text before it."""
    return [
        msgspec.structs.replace(
            record, headers=(*record.headers[:-1], (SOURCE_HEADER, b"%b%d" % (mark_prefix, first + at)))
        )
        for at, record in enumerate(records)
    ]


def _rows(known: TemplateInfo, messages: Sequence[Message]) -> int:
    """Return the number of rows that became these messages by a template."""
    return len(messages) // (1 + len(known.more))


_KEPT: Final = Verdict.KEPT
#: Maximum events of a record of marks: a begin and an end.
_MOST_MARKS: Final = 2
#: Small numbers as digits.
_KNOWN_NUMBERS: Final = 1000
_NUMBERS: Final = [b"%d" % number for number in range(_KNOWN_NUMBERS)]
