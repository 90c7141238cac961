"""Keeps templates, and tries messages with them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from copy import copy
from typing import Any, NamedTuple

from reference_engine.avro import AvroBody, AvroText
from reference_engine.batches import TargetRows
from reference_engine.checks import check
from reference_engine.columns import Written, records_of
from reference_engine.fields import fields_of, groups_of, has_one
from reference_engine.functions import Functions
from reference_engine.markers import marked_in, template_text
from reference_engine.source import Scan, Scanned
from reference_engine.target import Fill
from reference_engine.tokens import NoMatch, Tokens
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord
from relay.templates.avro_ops import AvroOp
from relay.templates.batches import SourceBatch, TargetBatch, WrittenRun
from relay.templates.columns import RecordColumns, WrittenColumns
from relay.templates.engine import (
    CREDIT_PER_MATCH,
    MAX_CREDIT,
    MAX_TRIED,
    TRY_INTERVAL,
    AvroReader,
    AvroWriter,
    Message,
    Run,
    Translation,
)
from relay.templates.ops import LOSS, OFFSET, TIME_MS, Frames, Framing, Marker, MessageFields, Template


class _TooMuch(Exception):
    """The record becomes more bytes than it may."""


class _Kept(NamedTuple):
    """A template, the text at its marker, and the functions of its conversions."""

    template: Template
    text: bytes
    functions: Functions

    @property
    def source(self) -> tuple[object, object]:
        """The ops of the source."""
        return self.template.key, self.template.value


class _Record(NamedTuple):
    """A record, or one of the messages that it has in frames."""

    key: bytes | None
    value: bytes | None
    numbers: Mapping[int, int]


class _Credit:
    """How many templates messages may still be tried with without success, and how many messages were not tried since
    the last one.
    """

    def __init__(self) -> None:
        self._credit, self._skipped = MAX_CREDIT, 0

    def is_due(self) -> bool:
        """Whether a message is to be tried."""
        if self._credit > 0:
            return True
        self._skipped = (self._skipped + 1) % TRY_INTERVAL
        return self._skipped == 0

    def gain(self) -> None:
        """Note that a message has fitted."""
        self._credit = min(self._credit + CREDIT_PER_MATCH, MAX_CREDIT)

    def lose(self, templates: int) -> None:
        """Note that a message was tried with so many without success."""
        self._credit = max(0, self._credit - templates)


class _Tried:
    """The templates with one text at the marker, the one that fitted last at first; and which messages are
    tried with them: as records of one row that become one message, and row by row.
    """

    def __init__(self) -> None:
        self.numbers: list[int] = []
        self.whole, self.rows = _Credit(), _Credit()

    def renew(self) -> None:
        """Try all messages again."""
        self.whole, self.rows = _Credit(), _Credit()


class Interpreter:
    """Keeps templates, and translates the messages that fit one (`relay.templates.engine.Engine`)."""

    def __init__(self, marker: Marker, framing: Framing | None = None) -> None:
        self._marker = marker
        self._framing = framing
        self._kept: dict[int, _Kept] = {}
        self._free: list[int] = []
        self._tried: dict[bytes, _Tried] = {}
        self._allowed: dict[int, tuple[bool, int]] = {}

    @staticmethod
    def avro_reader(head: bytes, op: AvroOp, end: bytes) -> AvroReader:
        """Return what makes JSON of Avro; see `Engine`."""
        return AvroText(head, op, end)

    @staticmethod
    def avro_writer(head: bytes, op: AvroOp, end: bytes) -> AvroWriter:
        """Return what makes Avro of JSON; see `Engine`."""
        return AvroBody(head, op, end)

    def add(self, template: Template) -> int:
        """Keep a template, and return its number; see `Engine`."""
        text = template_text(self._marker, template)
        check(template)
        functions = Functions.for_template(template)
        number = self._free_number(text, template)
        self._disallow(number)
        self._kept[number] = _Kept(template, text, functions)
        tried = self._tried.setdefault(text, _Tried())
        tried.numbers.insert(0, number)
        tried.renew()
        return number

    def _free_number(self, text: bytes, template: Template) -> int:
        tried = self._tried.get(text)
        numbers = [] if tried is None else tried.numbers
        for index, number in enumerate(numbers):
            if hash(self._kept[number].template) == hash(template):
                return numbers.pop(index)
        if len(numbers) == MAX_TRIED:
            return numbers.pop()
        if self._free:
            return self._free.pop()
        return len(self._kept)

    def remove(self, number: int) -> None:
        """Forget a template; an unknown number is none."""
        self._disallow(number)
        kept = self._kept.pop(number, None)
        if kept is None:
            return
        self._tried[kept.text].numbers.remove(number)
        if not self._tried[kept.text].numbers:
            del self._tried[kept.text]
        self._free.append(number)

    def clear(self) -> None:
        """Forget all templates."""
        self._kept.clear()
        self._free.clear()
        self._tried.clear()
        self._allowed.clear()

    def allow(self, number: int, has_tombstone: bool, target: int) -> None:
        """Allow columns and batches to have rows with this number; see `Engine`."""
        if number % LOSS in self._kept:
            self._allowed[number] = has_tombstone, target

    def disallow(self) -> None:
        """Withdraw all permissions of `allow`."""
        self._allowed.clear()

    def _disallow(self, template: int) -> None:
        for number in [number for number in self._allowed if number % LOSS == template]:
            del self._allowed[number]

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, mark_prefix: bytes
    ) -> Translation | None:
        """Translate the key and value of a record; None if they fit no template."""
        record = _Record(key, value, {OFFSET: offset, TIME_MS: time_ms})
        if isinstance(self._framing, MessageFields) and not has_one(self._framing, value or b""):
            return None
        tried = self._tried_with(record)
        if tried is None or not tried.whole.is_due():
            return None
        for rank, number in enumerate(tried.numbers):
            kept = self._kept[number]
            try:
                rows = _rows(kept, record)
                if len(rows) > 1 or len(kept.template.targets) > 1:
                    continue
                added, ((target_key, target_value),) = _filled(kept, rows[0], record)
            except NoMatch:
                continue
            tried.numbers.insert(0, tried.numbers.pop(rank))
            tried.whole.gain()
            return number + added, target_key, target_value, b"%b%d/0" % (mark_prefix, offset)
        tried.whole.lose(len(tried.numbers))
        return None

    def translate_columns(
        self,
        columns: RecordColumns,
        first: int,
        end: int,
        most_bytes: int,
        most_row_bytes: int,
        mark_prefix: bytes,
    ) -> WrittenColumns:
        """Translate rows up to the first that fits no allowed template; see `Engine`."""
        written, last_offset = Written(most_bytes), None
        for key, value, offset, time_ms in records_of(columns, first, end):
            if written.is_full or (last_offset is not None and offset < last_offset):
                break
            last_offset = offset
            found = self.translate(key, value, offset, time_ms, mark_prefix)
            if found is None or _size(found[1:3]) > most_row_bytes:
                break
            if found[0] not in self._allowed:
                written.refused = found[0]
                break
            written.add(found, has_tombstone=self._allowed[found[0]][0])
        return written.columns()

    def translate_batch(
        self,
        source: SourceBatch,
        first: int,
        end: int,
        targets: list[TargetBatch | None],
        most_row_bytes: int,
        mark_prefix: bytes,
    ) -> WrittenRun:
        """Translate rows up to the first that fits no allowed template; see `Engine`."""
        uses: Counter[int] = Counter()
        refused, last_offset = None, None
        for record in source.records(ConsumerRecord, "", 0, first, end):
            if record.headers or (last_offset is not None and record.offset < last_offset):
                break
            last_offset = record.offset
            tried = self._tried_with(_Record(record.key, record.value, {}))
            before = None if tried is None else copy(tried.whole)
            found = self.translate(record.key, record.value, record.offset, record.timestamp_ms, mark_prefix)
            is_small = found is not None and _size(found[1:3]) <= most_row_bytes
            if found is not None and is_small and found[0] not in self._allowed:
                refused = found[0]
            if (
                found is None
                or not is_small
                or refused is not None
                or not self._write(found, record, targets)
            ):
                if tried is not None and before is not None:
                    tried.whole = before
                break
            uses[found[0]] += 1
        return WrittenRun(uses.total(), refused, list(uses.items()))

    def _write(self, found: Translation, record: ConsumerRecord, targets: list[Any]) -> bool:
        """Add what a row became to its batch; return whether it fits."""
        number, key, value, mark = found
        has_tombstone, place = self._allowed[number]
        target: TargetRows | None = targets[place] if place < len(targets) else None
        if not target:
            return False
        time_ms = record.timestamp_ms
        messages = [ProducerRecord("", 0, time_ms, key, value, ((SOURCE_HEADER, mark),))]
        if has_tombstone:
            its_mark = SOURCE_HEADER, mark[:-1] + b"1"
            messages.append(ProducerRecord("", 0, time_ms, key, None, (its_mark,)))
        return target.append_all(messages)

    def translate_rows(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        time_ms: int,
        max_output_bytes: int,
        shared: int,
    ) -> list[Run] | int:
        """Translate a record of any number of rows that become any number of messages; see `Engine`."""
        numbers = {OFFSET: offset, TIME_MS: time_ms}
        if self._framing is None:
            records = [_Record(key, value, numbers)]
        elif isinstance(self._framing, MessageFields):
            records = [_Record(key, each, numbers) for each in fields_of(self._framing, value or b"")]
        else:
            records = [_Record(*parts, numbers) for parts in _framed(self._framing, key, value)]
        runs = _Runs(_OutputBudget(max_output_bytes, shared))
        before = 0
        for record in records:
            try:
                fitted, is_all = self._add_rows(record, runs)
            except _TooMuch:
                return 0
            before += fitted
            if not is_all:
                return before
        return runs.found or 0

    def translate_groups(
        self,
        key: bytes | None,
        value: bytes | None,
        offset: int,
        time_ms: int,
        max_output_bytes: int,
        shared: int,
    ) -> list[Run | bytes]:
        """Translate the groups of a record that fit; see `Engine`."""
        if not isinstance(self._framing, MessageFields):
            return []
        numbers = {OFFSET: offset, TIME_MS: time_ms}
        groups = groups_of(self._framing, value or b"")
        found: list[Run | bytes] = []
        unfit: list[bytes] = []
        runs = _Runs(_OutputBudget(max_output_bytes, shared))
        for group in groups.found:
            of_group = _Runs(runs.budget)
            try:
                fits = all(self._add_rows(_Record(key, each, numbers), of_group)[1] for each in group.values)
            except _TooMuch:
                return []
            if not fits:
                found += runs.found
                runs = _Runs(runs.budget)
                unfit += group.messages
                continue
            if unfit:
                found.append(groups.alone(*unfit))
                unfit = []
            runs.add(of_group.found)
        found += runs.found
        return [*found, groups.alone(*unfit)] if unfit else found

    def _tried_with(self, record: _Record) -> _Tried | None:
        """Return the templates that a record may fit."""
        text = marked_in(self._marker, record.key, record.value)
        return None if text is None else self._tried.get(text)

    def _add_rows(self, record: _Record, runs: _Runs) -> tuple[int, bool]:
        """Add the rows of a message, or none if not all of them fit. Return how many fit, and whether all do.
        Raises _TooMuch.
        """
        most, sources = 0, list[object]()
        tried = self._tried_with(record)
        if tried is None or not tried.rows.is_due():
            return 0, False
        numbers = tried.numbers
        for number in list(numbers):
            kept = self._kept[number]
            if kept.source in sources:
                continue
            sources.append(kept.source)
            try:
                rows = _rows(kept, record)
            except NoMatch:
                continue
            found = self._filled_rows(rows, record, numbers, kept.source, runs.budget)
            if len(found) == len(rows):
                runs.add(found)
                tried.rows.gain()
                return len(rows), True
            most = max(most, len(found))
        tried.rows.lose(len(sources))
        return most, False

    def _filled_rows(
        self, rows: list[Tokens], record: _Record, numbers: list[int], source: object, budget: _OutputBudget
    ) -> list[Run]:
        """Return what rows become, up to the first that fits no template of this source. Raises _TooMuch."""
        found: list[Run] = []
        for row in rows:
            for index, number in enumerate(numbers):
                kept = self._kept[number]
                if kept.source != source:
                    continue
                try:
                    added, messages = _filled(kept, row, record)
                except NoMatch:
                    continue
                found.append((number + added, messages))
                numbers.insert(0, numbers.pop(index))
                budget = budget.after(messages)
                break
            else:
                break
        return found


class _OutputBudget(NamedTuple):
    """How many bytes more a record may become, and what each message has beside key and value."""

    left: int
    shared: int

    def after(self, messages: Iterable[Message]) -> _OutputBudget:
        """Return what is left behind messages. Raises _TooMuch if it is less than nothing."""
        left = self.left - sum(self.shared + _size(message) for message in messages)
        if left < 0:
            raise _TooMuch
        return self._replace(left=left)


class _Runs:
    """The rows of a record that fit; see `Engine.translate_rows`."""

    def __init__(self, budget: _OutputBudget) -> None:
        self.found: list[Run] = []
        self.budget = budget

    def add(self, rows: Iterable[Run]) -> None:
        """Add rows: the template of each, and its messages."""
        for number, messages in rows:
            self.budget = self.budget.after(messages)
            if not self.found or self.found[-1][0] != number:
                self.found.append((number, []))
            self.found[-1][1].extend(messages)


def _size(message: Message) -> int:
    key, value = message
    return len(key or b"") + len(value or b"")


def _rows(kept: _Kept, record: _Record) -> list[Tokens]:
    """Return the tokens of each row of a message. Raises Misfit."""
    scanned = Scanned()
    for ops, part in ((kept.template.key, record.key), (kept.template.value, record.value)):
        if ops is None or part is None:
            if ops is not None or part is not None:
                raise NoMatch
        else:
            Scan(part, scanned).take(ops)
    return scanned.rows()


def _filled(kept: _Kept, row: Tokens, record: _Record) -> tuple[int, list[Message]]:
    """Return what a row's lost values add to the template's number, and the messages that it becomes. Raises
    Misfit.
    """
    fill = Fill(kept.functions, row, record.numbers)
    if not all(fill.holds(condition) for condition in kept.template.conditions):
        raise NoMatch
    found: list[Message] = []
    for key, value in kept.template.targets:
        message = fill.part(key), fill.part(value)
        if _size(message) > kept.template.most_bytes:
            raise NoMatch
        found.append(message)
    return fill.added, found


def _framed(frames: Frames, key: bytes | None, value: bytes | None) -> Iterator[tuple[bytes, bytes]]:
    """Give the key and value that each message of a record has alone; none if the frames are broken."""
    if key is None or value is None or not key.startswith(frames.head):
        return
    keys, values = _frames(frames.width, key[len(frames.head) :]), _frames(frames.width, value)
    if len(keys) == len(values):
        for one, other in zip(keys, values, strict=True):
            yield frames.head + one, other


def _frames(width: int, part: bytes) -> list[bytes]:
    """Return the frames of a part, with their numbers; none if they are broken."""
    found: list[bytes] = []
    at = 0
    while at < len(part):
        end = at + width + int.from_bytes(part[at : at + width], "big")
        if at + width > len(part) or end > len(part):
            return []
        found.append(part[at:end])
        at = end
    return found
