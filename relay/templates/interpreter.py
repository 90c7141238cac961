"""The engine in Python: the specification of the kernel, and its stand-in where there is none.

It is written to be read. What the kernel does faster, it does in the same way: the same messages fit, and
give the same bytes.
"""

from __future__ import annotations

import itertools
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from datetime import timedelta, timezone
from itertools import pairwise
from typing import Final, NamedTuple, cast, get_args

import msgspec

from relay.templates.avro_interpreter import AvroBody, AvroText
from relay.templates.avro_ops import AvroOp
from relay.templates.conversions import READS, WRITES, token_value
from relay.templates.engine import (
    MOST_PAID,
    MOST_TRIED,
    PAID_BY_ONE,
    TRIED_EVERY,
    AvroReader,
    AvroWriter,
    Message,
    Run,
    Translation,
)
from relay.templates.ops import (
    MOST_REWRITTEN,
    OFFSET,
    TIME_MS,
    Above,
    Among,
    Below,
    Changed,
    Choice,
    Condition,
    Constant,
    Conversion,
    Differ,
    Filled,
    Fits,
    Frames,
    Kind,
    Kinds,
    Length,
    Marker,
    Members,
    Number,
    OneOf,
    Operator,
    Put,
    Repeated,
    Same,
    Sized,
    SourceOp,
    Steps,
    Take,
    TargetMessage,
    TargetOp,
    Template,
    Unordered,
)
from relay.times import clock_seconds

_print = msgspec.json.Encoder().encode
_parse = msgspec.json.Decoder().decode

_TOKEN: Final = re.compile(
    rb"""(?P<string>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")
    |(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?(?:[eE][-+]?[0-9]++)?)(?![-+.0-9eE])
    |(?P<null>null)
    |(?P<boolean>true|false)""",
    re.VERBOSE | re.DOTALL,
)
_INTEGER: Final = re.compile(rb"-?(?:0|[1-9][0-9]*+)")
_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_LONG_ESCAPES: Final = {b"b": rb"\u0008", b"f": rb"\u000c"}
#: What an integer may be in a message, and what a calculation may come to on its way.
_INTEGERS: Final = range(-(1 << 63), 1 << 64)
_CALCULATED: Final = range(-(1 << 127), 1 << 127)
#: No wall clock is so far from UTC.
_DAY_SECONDS: Final = 86_400

Function = Callable[[object], object]


class _Misfit(Exception):
    """The message does not fit."""


class _TooMuch(Exception):
    """The record becomes more bytes than it may."""


class _Token(NamedTuple):
    """A JSON token, and what it means."""

    kind: Kind
    text: bytes
    value: object


#: By slot; None where a member is missing.
_Tokens = list[_Token | None]


class _Kept(NamedTuple):
    """A template, the text at its marker, and the functions of its conversions."""

    template: Template
    text: bytes
    reads: Mapping[Conversion, Function]
    writes: Mapping[Conversion, Function]

    @property
    def source(self) -> tuple[object, object]:
        """The ops of the source."""
        return self.template.key, self.template.value

    @property
    def targets(self) -> tuple[TargetMessage, ...]:
        """The messages that a row becomes."""
        return TargetMessage(self.template.target_key, self.template.target_value), *self.template.more


class _Record(NamedTuple):
    """A record, or one of the messages that it has in frames."""

    key: bytes | None
    value: bytes | None
    numbers: Mapping[int, int]


class _Credit:
    """How many templates messages may still be tried with in vain, and how many messages were not tried since
    the last one.
    """

    def __init__(self) -> None:
        self._paid, self._skipped = MOST_PAID, 0

    def is_due(self) -> bool:
        """Whether a message is to be tried."""
        if self._paid > 0:
            return True
        self._skipped = (self._skipped + 1) % TRIED_EVERY
        return self._skipped == 0

    def gain(self) -> None:
        """Note that a message has fitted."""
        self._paid = min(self._paid + PAID_BY_ONE, MOST_PAID)

    def lose(self, templates: int) -> None:
        """Note that a message was tried with so many in vain."""
        self._paid = max(0, self._paid - templates)


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

    def __init__(self, marker: Marker, frames: Frames | None = None) -> None:
        self._marker = marker
        self._frames = frames
        self._kept: dict[int, _Kept] = {}
        self._free: list[int] = []
        self._tried: dict[bytes, _Tried] = {}

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
        text = _template_text(self._marker, template)
        _check(template)
        puts = list(_puts(template))
        reads = {put.read: _function(READS, put.read) for put in puts if put.read is not None}
        wanted = [write for put in puts for write in (put.write, put.lossy) if write is not None]
        writes = {write: _function(WRITES, write) for write in wanted}
        number = self._free_number(text, template)
        self._kept[number] = _Kept(template, text, reads, writes)
        tried = self._tried.setdefault(text, _Tried())
        tried.numbers.insert(0, number)
        tried.renew()
        return number

    def _free_number(self, text: bytes, template: Template) -> int:
        tried = self._tried.get(text)
        numbers = [] if tried is None else tried.numbers
        for place, number in enumerate(numbers):
            if hash(self._kept[number].template) == hash(template):
                return numbers.pop(place)
        if len(numbers) == MOST_TRIED:
            return numbers.pop()
        if self._free:
            return self._free.pop()
        return len(self._kept)

    def remove(self, number: int) -> None:
        """Forget a template; an unknown number is none."""
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

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, place: bytes
    ) -> Translation | None:
        """Translate the key and value of a record; None if they fit no template."""
        record = _Record(key, value, {OFFSET: offset, TIME_MS: time_ms})
        tried = self._tried_with(record)
        if tried is None or not tried.whole.is_due():
            return None
        for rank, number in enumerate(tried.numbers):
            kept = self._kept[number]
            try:
                rows = _rows(kept, record)
                if len(rows) > 1 or len(kept.targets) > 1:
                    continue
                added, ((target_key, target_value),) = _filled(kept, rows[0], record)
            except _Misfit:
                continue
            tried.numbers.insert(0, tried.numbers.pop(rank))
            tried.whole.gain()
            return number + added, target_key, target_value, b"%b%d/0" % (place, offset)
        tried.whole.lose(len(tried.numbers))
        return None

    def translate_rows(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, room: int, shared: int
    ) -> list[Run] | int:
        """Translate a record of any number of rows that become any number of messages; see `Engine`."""
        numbers = {OFFSET: offset, TIME_MS: time_ms}
        if self._frames is None:
            records = [_Record(key, value, numbers)]
        else:
            records = [_Record(*parts, numbers) for parts in _framed(self._frames, key, value)]
        runs = _Runs(_Room(room, shared))
        for before, record in enumerate(records):
            try:
                fitted = self._add_rows(record, runs)
            except _TooMuch:
                return 0
            if fitted is not None:
                return before + fitted
        return runs.found or 0

    def _tried_with(self, record: _Record) -> _Tried | None:
        """Return the templates that a record may fit."""
        part = record.key if self._marker.part == "key" else record.value
        text = None if part is None else _marked(self._marker, part)
        return None if text is None else self._tried.get(text)

    def _add_rows(self, record: _Record, runs: _Runs) -> int | None:
        """Add the rows of a message; if not all of them fit, return how many do, and add none. Raises
        _TooMuch.
        """
        most, sources = 0, list[object]()
        tried = self._tried_with(record)
        if tried is None or not tried.rows.is_due():
            return 0
        numbers = tried.numbers
        for number in list(numbers):
            kept = self._kept[number]
            if kept.source in sources:
                continue
            sources.append(kept.source)
            try:
                rows = _rows(kept, record)
            except _Misfit:
                continue
            found = self._filled_rows(rows, record, numbers, kept.source, runs.room)
            if len(found) == len(rows):
                runs.add(found)
                tried.rows.gain()
                return None
            most = max(most, len(found))
        tried.rows.lose(len(sources))
        return most

    def _filled_rows(
        self, rows: list[_Tokens], record: _Record, numbers: list[int], source: object, room: _Room
    ) -> list[Run]:
        """Return what rows become, up to the first that fits no template of this source. Raises _TooMuch."""
        found: list[Run] = []
        for row in rows:
            for place, number in enumerate(numbers):
                kept = self._kept[number]
                if kept.source != source:
                    continue
                try:
                    added, messages = _filled(kept, row, record)
                except _Misfit:
                    continue
                found.append((number + added, messages))
                numbers.insert(0, numbers.pop(place))
                room = room.after(messages)
                break
            else:
                break
        return found


class _Room(NamedTuple):
    """How many bytes more a record may become, and what each message has beside key and value."""

    left: int
    shared: int

    def after(self, messages: Iterable[Message]) -> _Room:
        """Return what is left behind messages. Raises _TooMuch if it is less than nothing."""
        left = self.left - sum(self.shared + _size(message) for message in messages)
        if left < 0:
            raise _TooMuch
        return self._replace(left=left)


class _Runs:
    """The rows of a record that fit; see `Engine.translate_rows`."""

    def __init__(self, room: _Room) -> None:
        self.found: list[Run] = []
        self.room = room

    def add(self, rows: Iterable[Run]) -> None:
        """Add rows: the template of each, and its messages."""
        for number, messages in rows:
            self.room = self.room.after(messages)
            if not self.found or self.found[-1][0] != number:
                self.found.append((number, []))
            self.found[-1][1].extend(messages)


def _size(message: Message) -> int:
    key, value = message
    return len(key or b"") + len(value or b"")


def _rows(kept: _Kept, record: _Record) -> list[_Tokens]:
    """Return the tokens of each row of a message. Raises _Misfit."""
    scanned = _Scanned()
    for ops, part in ((kept.template.key, record.key), (kept.template.value, record.value)):
        if ops is None or part is None:
            if ops is not None or part is not None:
                raise _Misfit
        else:
            _Scan(part, scanned).take(ops)
    return scanned.rows()


def _filled(kept: _Kept, row: _Tokens, record: _Record) -> tuple[int, list[Message]]:
    """Return what a row's lost values add to the template's number, and the messages that it becomes. Raises
    _Misfit.
    """
    fill = _Fill(kept, row, record.numbers)
    if not all(fill.holds(condition) for condition in kept.template.conditions):
        raise _Misfit
    found: list[Message] = []
    for key, value in kept.targets:
        message = fill.part(key), fill.part(value)
        if _size(message) > kept.template.most_bytes:
            raise _Misfit
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


# ---------------------------------------------------------------- the source


class _Scanned:
    """The tokens of a message, and those of the rounds behind the first one."""

    def __init__(self) -> None:
        self.tokens: _Tokens = []
        #: Of each `Repeated`: its first slot, and the tokens of its later rounds.
        self.later: list[tuple[int, list[_Tokens]]] = []

    def rows(self) -> list[_Tokens]:
        """Return the tokens of each row. Raises _Misfit if there are not as many of all rounds."""
        if len({len(rounds) for _, rounds in self.later}) > 1:
            raise _Misfit
        rows = [self.tokens]
        for its in zip(*(rounds for _, rounds in self.later), strict=True):
            row = list(self.tokens)
            for (first, _), tokens in zip(self.later, its, strict=True):
                row[first : first + len(tokens)] = tokens
            rows.append(row)
        return rows


class _Scan:
    """Takes one part of a message apart."""

    def __init__(self, part: bytes, scanned: _Scanned) -> None:
        self._part = part
        self._at = 0
        self._scanned = scanned
        self._tokens = scanned.tokens

    def take(self, ops: Iterable[SourceOp]) -> None:
        """Append a token for each slot. The whole part is taken."""
        self._ops(ops)
        self._require(self._at == len(self._part))

    def _repeated(self, ops: Iterable[SourceOp], between: bytes) -> None:
        first, later = len(self._tokens), list[_Tokens]()
        self._ops(ops)
        while self._has(between):
            self._tokens = []
            self._ops(ops)
            later.append(self._tokens)
        self._tokens = self._scanned.tokens
        self._scanned.later.append((first, later))

    def _ops(self, ops: Iterable[SourceOp]) -> None:
        for op in ops:
            match op:
                case Constant(text):
                    self._require(self._has(text))
                case Take(kinds):
                    self._tokens.append(self._token(kinds))
                case OneOf(texts):
                    self._require(any(self._has(text) for text in texts))
                case Members(members, end):
                    self._members(members, end)
                case Unordered(members):
                    self._unordered(set(members))
                case Length(width):
                    self._length(width)
                case Repeated(inner, between):
                    self._repeated(inner, between)

    def _require(self, fits: bool) -> None:
        if not fits:
            raise _Misfit

    def _has(self, text: bytes) -> bool:
        if not self._part.startswith(text, self._at):
            return False
        self._at += len(text)
        return True

    def _token(self, kinds: Kinds) -> _Token:
        match = _TOKEN.match(self._part, self._at)
        if match is None:
            raise _Misfit
        self._at = match.end()
        kind = cast("Kind", match.lastgroup)
        if kind == "number" and _INTEGER.fullmatch(match[0]):
            self._require(_is_integer(match[0]))
            kind = "integer"
        self._require(kind in kinds)
        try:
            token = _Token(kind, match[0], _parse(match[0]))
        except (msgspec.DecodeError, UnicodeDecodeError) as error:
            raise _Misfit from error
        if kind == "string" and len(self._part) - match.start() > MOST_REWRITTEN:
            self._require(_print(token.value) == token.text)
        return token

    def _members(self, members: Iterable[tuple[bytes, Kinds]], end: bytes) -> None:
        comma = b""
        for name, kinds in members:
            if self._has(comma + name):
                self._tokens.append(self._token(kinds))
                self._require(self._has(end))
                comma = b","
            else:
                self._tokens.append(None)

    def _unordered(self, left: set[bytes]) -> None:
        while left:
            member = next(filter(self._has, left), None)
            if member is None:
                raise _Misfit
            left.remove(member)
            self._require(not left or self._has(b","))

    def _length(self, width: int) -> None:
        behind = self._at + width
        self._require(behind <= len(self._part))
        length = int.from_bytes(self._part[self._at : behind], "big")
        self._require(length == len(self._part) - behind)
        self._at = behind


# ---------------------------------------------------------------- the target


class _Fill:
    """Prints one message's target. `added`: what values of which something is lost have added."""

    def __init__(self, kept: _Kept, tokens: list[_Token | None], numbers: Mapping[int, int]) -> None:
        self._kept = kept
        self._tokens = tokens
        self._numbers = numbers
        self.added = 0

    def holds(self, condition: Condition) -> bool:
        """Whether a condition is true."""
        match condition:
            case Above(slot, floor, steps):
                return self._calculated(slot, steps) > floor
            case Below(slot, end, steps):
                return self._calculated(slot, steps) < end
            case Same(slot, other):
                token, against = self._tokens[slot], self._tokens[other]
                return token is None or (against is not None and token.text == against.text)
            case Fits(put):
                found = [token for slot in put.slots if (token := self._tokens[slot]) is not None]
                return not found or bool(self._put(put if put.null else put._replace(null=b"null")))
            case Filled(slot):
                token = self._tokens[slot]
                return token is not None and token.text not in (b"null", b'""')
            case Among(slot, texts, is_one):
                token = self._tokens[slot]
                if token is None:
                    return not is_one
                text = _print(token.value) if token.kind == "string" else token.text
                return (text in texts) == is_one
            case Differ(pairs):
                # All are printed, whatever the first of them are.
                differ = [self._differ(*pair) for pair in pairs]
                return any(differ)

    def part(self, ops: Iterable[TargetOp] | None) -> bytes | None:
        """Return a key or a value, None where there is none."""
        return None if ops is None else self.printed(ops)

    def printed(self, ops: Iterable[TargetOp]) -> bytes:
        """Return what ops print."""
        return b"".join(map(self._op, ops))

    def _op(self, op: TargetOp) -> bytes:
        match op:
            case Constant(text):
                return text
            case Put():
                return self._put(op)
            case Number(slot, steps, plus):
                return self._number(slot, steps, plus)
            case Changed(members):
                return b",".join(self._changed(members))
            case Choice():
                return self._choice(op)
            case Sized(width, ops):
                return _sized(width, self.printed(ops))

    def _first(self, slots: tuple[int, ...]) -> _Token:
        for slot in slots:
            token = self._tokens[slot]
            if token is not None:
                return token
        raise _Misfit

    def _put(self, put: Put) -> bytes:
        token = self._first(put.slots)
        if token.kind == "null":
            if put.null is None:
                raise _Misfit
            self.added += put.null_adds
            return put.null
        if put.read is None and put.write is None and token.kind != "string":
            return token.text
        text = self._written(put, token.text)
        if put.long_escapes:
            return _ESCAPE.sub(lambda match: _LONG_ESCAPES.get(match[1], match[0]), text)
        return text

    def _written(self, put: Put, token: bytes) -> bytes:
        try:
            return self._converted(put.read, put.write, token)
        except _Misfit:
            if put.lossy is None:
                raise
        text = self._converted(put.read, put.lossy, token)
        self.added += put.adds
        return text

    def _converted(self, read: Conversion | None, write: Conversion | None, token: bytes) -> bytes:
        try:
            value = token_value(token, read)
            if read is not None:
                value = self._kept.reads[read](value)
            if write is not None:
                value = self._kept.writes[write](value)
            return _print(value)
        except Exception as error:
            raise _Misfit from error

    def _number(self, slot: int, steps: Steps, plus: tuple[tuple[int, Steps], ...]) -> bytes:
        total = self._calculated(slot, steps)
        for added, its_steps in plus:
            total = _bounded(total + self._calculated(added, its_steps))
        if total not in _INTEGERS:
            raise _Misfit
        return b"%d" % total

    def _calculated(self, slot: int, steps: Steps) -> int:
        result = self._integer(slot)
        for step in steps:
            result = _bounded(_step(result, *step))
        return result

    def _integer(self, slot: int) -> int:
        if slot < 0:
            return self._numbers[slot]
        token = self._tokens[slot]
        if token is None or token.kind != "integer":
            raise _Misfit
        return cast("int", token.value)

    def _changed(self, members: Iterable[tuple[bytes, Put, Put]]) -> Iterator[bytes]:
        for name, old, new in members:
            if all(self._tokens[slot] is None for slot in old.slots) or self._same_unread(old, new):
                continue
            text = self._put(old)
            if text != self._put(new):
                yield name + text

    def _same_unread(self, old: Put, new: Put) -> bool:
        return old._replace(slots=()) == new._replace(slots=()) and (
            self._first(old.slots).text == self._first(new.slots).text
        )

    def _differ(self, one: Put, other: Put) -> bool:
        return not self._same_unread(one, other) and self._put(one) != self._put(other)

    def _choice(self, choice: Choice) -> bytes:
        token = self._first(choice.slots)
        if token.kind == "null":
            return choice.null
        if choice.least is None:
            return choice.small
        return choice.large if _choice_number(token) >= choice.least else choice.small


def _choice_number(token: _Token) -> int:
    text = cast("str", token.value).encode() if token.kind == "string" else token.text
    if not _is_integer(text):
        raise _Misfit
    return int(text)


def _is_integer(text: bytes) -> bool:
    """Whether a text is an integer as messages have it, within 64 bits."""
    return (
        len(text) <= 20 and _INTEGER.fullmatch(text) is not None and text != b"-0" and int(text) in _INTEGERS
    )


def _step(number: int, operator: str, operand: int) -> int:
    match operator:
        case "+":
            return number + operand
        case "-":
            return number - operand
        case "*":
            return number * operand
        case "//":
            return number // operand
        case "%":
            return number % operand
        case "<<":
            return number << operand
        case "clock":
            return _clock_seconds(number, operand)
        case _:
            return number >> operand


def _clock_seconds(number: int, offset_seconds: int) -> int:
    try:
        return clock_seconds(str(number), timezone(timedelta(seconds=offset_seconds)))
    except ValueError:
        raise _Misfit from None


def _bounded(number: int) -> int:
    if number not in _CALCULATED:
        raise _Misfit
    return number


def _sized(width: int, text: bytes) -> bytes:
    if len(text) >> (8 * width):
        raise _Misfit
    return len(text).to_bytes(width, "big") + text


# ---------------------------------------------------------------- markers


def _marked(marker: Marker, text: bytes) -> bytes | None:
    start = text.find(marker.start)
    if start < 0:
        return None
    start += len(marker.start)
    end = text.find(marker.end, start)
    return None if end < 0 else text[start:end]


def _template_text(marker: Marker, template: Template) -> bytes:
    """Return what all messages of a template have at the marker. Raises ValueError if that is not certain."""
    ops = template.key if marker.part == "key" else template.value
    for text in _runs(ops or (), only_first=not marker.start):
        marked = _marked(marker, text)
        if marked is not None:
            return marked
    raise ValueError("a template's constants lack the marker")


def _runs(ops: Iterable[SourceOp], *, only_first: bool) -> Iterator[bytes]:
    """Constants that stand next to each other, as one; of the part's beginning alone, or all."""
    run = b""
    for op in ops:
        if isinstance(op, Constant):
            run += op.text
            continue
        yield run
        if only_first:
            return
        run = b""
    yield run


# ---------------------------------------------------------------- checks


def _check(template: Template) -> None:
    """Raise ValueError for a template that means nothing."""
    count = sum(_checked_slots(source) for source in (*(template.key or ()), *(template.value or ())))
    for condition in template.conditions:
        _check_condition(condition, count)
    for target in _target_ops(template):
        _check_target(target, count)


def _checked_slots(source: SourceOp, *, is_inside: bool = False) -> int:
    """Return how many slots an op has. Raises ValueError for one that means nothing."""
    match source:
        case Take():
            return 1
        case Members(members):
            return len(members)
        case OneOf(texts):
            _check_texts(texts)
        case Unordered(texts):
            _check_texts(texts)
            _check_colons(texts)
        case Length(width):
            _check_inside(is_inside)
            _check_width(width)
        case Repeated(ops, between):
            _check_inside(is_inside or not between)
            return sum(_checked_slots(op, is_inside=True) for op in ops)
    return 0


def _check_inside(is_wrong: bool) -> None:
    if is_wrong:
        raise ValueError("a round has no lengths and no rounds inside, and something between")


def _target_ops(template: Template) -> Iterator[TargetOp]:
    """All ops of the target."""
    for target in (TargetMessage(template.target_key, template.target_value), *template.more):
        yield from target.key or ()
        yield from target.value or ()


def _check_texts(texts: tuple[bytes, ...]) -> None:
    if any(other.startswith(text) for text, other in pairwise(sorted(texts))):
        raise ValueError("one text begins another one")


def _check_colons(members: tuple[bytes, ...]) -> None:
    if not all(b":" in member for member in members):
        raise ValueError("a member has no colon")


def _check_width(width: int) -> None:
    if not 1 <= width <= 8:
        raise ValueError("a number has 1 to 8 bytes")


def _check_condition(condition: Condition, count: int) -> None:
    if isinstance(condition, Same):
        _check_slots((condition.slot, condition.other), count)
    elif isinstance(condition, Fits):
        _check_slots(condition.put.slots, count)
    elif isinstance(condition, Differ):
        for put in itertools.chain(*condition.pairs):
            _check_slots(put.slots, count)
    elif isinstance(condition, Filled | Among):
        _check_slots((condition.slot,), count)
    else:
        _check_number(condition.slot, condition.steps, count)


def _check_target(op: TargetOp, count: int) -> None:
    match op:
        case Put(slots) | Choice(slots):
            _check_slots(slots, count)
        case Number(slot, steps, plus):
            for each in ((slot, steps), *plus):
                _check_number(*each, count)
        case Changed(members):
            for _, old, new in members:
                _check_slots((*old.slots, *new.slots), count)
        case Sized(width, ops):
            _check_width(width)
            for inner in ops:
                _check_target(inner, count)


def _check_slots(slots: Iterable[int], count: int, least: int = 0) -> None:
    if not all(least <= slot < count for slot in slots):
        raise ValueError("no such slot")


def _check_number(slot: int, steps: Steps, count: int) -> None:
    _check_slots((slot,), count, least=min(OFFSET, TIME_MS))
    for operator, operand in steps:
        is_unknown = operator not in get_args(Operator)
        by_zero = operator in ("//", "%") and not operand
        too_far = operator in ("<<", ">>") and not 0 <= operand < 128
        no_zone = operator == "clock" and abs(operand) >= _DAY_SECONDS
        if is_unknown or by_zero or too_far or no_zone or operand not in _CALCULATED:
            raise ValueError(f"no such step: {operator} {operand}")


def _puts(template: Template) -> Iterator[Put]:
    def inside(ops: Iterable[TargetOp]) -> Iterator[Put]:
        for op in ops:
            match op:
                case Put():
                    yield op
                case Changed(members):
                    for _, old, new in members:
                        yield from (old, new)
                case Sized(_, inner):
                    yield from inside(inner)

    for condition in template.conditions:
        if isinstance(condition, Fits):
            yield condition.put
        elif isinstance(condition, Differ):
            yield from itertools.chain(*condition.pairs)
    yield from inside(_target_ops(template))


def _function(table: Mapping[str, Callable[..., Function]], conversion: Conversion) -> Function:
    name, *parameters = conversion
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"no conversion has the name {name!r}")
    return table[name](*parameters)
