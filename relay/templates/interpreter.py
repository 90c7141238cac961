"""The engine in Python: the specification of the kernel, and its stand-in where there is none.

It is written to be read. What the kernel does faster, it does in the same way: the same messages fit, and
give the same bytes.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from itertools import pairwise
from typing import Final, NamedTuple, cast, get_args

import msgspec

from relay.templates.conversions import READS, WRITES, token_value
from relay.templates.engine import MOST_TRIED, Translation
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
    Filled,
    Fits,
    Kind,
    Kinds,
    Length,
    Marker,
    Members,
    Number,
    OneOf,
    Operator,
    Put,
    Same,
    Sized,
    SourceOp,
    Steps,
    Take,
    TargetOp,
    Template,
    Unordered,
)

_print = msgspec.json.Encoder().encode
_parse = msgspec.json.Decoder().decode

_TOKEN: Final = re.compile(
    rb"""(?P<string>"[^"\\\x00-\x1f]*+(?:\\.[^"\\\x00-\x1f]*+)*+")
    |(?P<number>-?(?:0|[1-9][0-9]*+)(?:\.[0-9]++)?+(?:[eE][-+]?[0-9]++)?+)(?![-+.0-9eE])
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

Function = Callable[[object], object]


class _Misfit(Exception):
    """The message does not fit."""


class _Token(NamedTuple):
    """A JSON token, and what it means."""

    kind: Kind
    text: bytes
    value: object


class _Kept(NamedTuple):
    """A template, the text at its marker, and the functions of its conversions."""

    template: Template
    text: bytes
    reads: Mapping[Conversion, Function]
    writes: Mapping[Conversion, Function]


class Interpreter:
    """Keeps templates, and translates the messages that fit one (`relay.templates.engine.Engine`)."""

    def __init__(self, marker: Marker) -> None:
        self._marker = marker
        self._kept: dict[int, _Kept] = {}
        self._free: list[int] = []
        #: By the text at the marker, the one that fitted last at first.
        self._numbers: dict[bytes, list[int]] = {}

    def add(self, template: Template) -> int:
        """Keep a template, and return its number; see `Engine`."""
        text = _template_text(self._marker, template)
        _check(template)
        puts = list(_puts(template))
        reads = {put.read: _function(READS, put.read) for put in puts if put.read is not None}
        wanted = [write for put in puts for write in (put.write, put.lossy) if write is not None]
        writes = {write: _function(WRITES, write) for write in wanted}
        number = self._free_number(text)
        self._kept[number] = _Kept(template, text, reads, writes)
        self._numbers.setdefault(text, []).insert(0, number)
        return number

    def _free_number(self, text: bytes) -> int:
        numbers = self._numbers.get(text, [])
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
        self._numbers[kept.text].remove(number)
        if not self._numbers[kept.text]:
            del self._numbers[kept.text]
        self._free.append(number)

    def clear(self) -> None:
        """Forget all templates."""
        self._kept.clear()
        self._free.clear()
        self._numbers.clear()

    def translate(
        self, key: bytes | None, value: bytes | None, offset: int, time_ms: int, place: bytes
    ) -> Translation | None:
        """Translate the key and value of a record; None if they fit no template."""
        part = key if self._marker.part == "key" else value
        text = None if part is None else _marked(self._marker, part)
        if text is None:
            return None
        numbers = self._numbers.get(text, [])
        for rank, number in enumerate(numbers):
            slots = {OFFSET: offset, TIME_MS: time_ms}
            try:
                added, target_key, target_value = _translated(self._kept[number], key, value, slots)
            except _Misfit:
                continue
            numbers.insert(0, numbers.pop(rank))
            return number + added, target_key, target_value, b"%b%d/0" % (place, offset)
        return None


def _translated(
    kept: _Kept, key: bytes | None, value: bytes | None, slots: dict[int, int]
) -> tuple[int, bytes | None, bytes | None]:
    """Return what is added to the template's number, the target's key and value."""
    template = kept.template
    tokens: list[_Token | None] = []
    for ops, part in ((template.key, key), (template.value, value)):
        if ops is None or part is None:
            if ops is not None or part is not None:
                raise _Misfit
        else:
            _Scan(part, tokens).take(ops)
    fill = _Fill(kept, tokens, slots)
    if not all(fill.holds(condition) for condition in template.conditions):
        raise _Misfit
    target_key = None if template.target_key is None else fill.printed(template.target_key)
    target_value = None if template.target_value is None else fill.printed(template.target_value)
    if len(target_key or b"") + len(target_value or b"") > template.most_bytes:
        raise _Misfit
    return fill.added, target_key, target_value


# ---------------------------------------------------------------- the source


class _Scan:
    """Takes one part of a message apart."""

    def __init__(self, part: bytes, tokens: list[_Token | None]) -> None:
        self._part = part
        self._at = 0
        self._tokens = tokens

    def take(self, ops: Iterable[SourceOp]) -> None:
        """Append a token for each slot. The whole part is taken."""
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
        self._require(self._at == len(self._part))

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
        case _:
            return number >> operand


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
    count = 0
    for source in (*(template.key or ()), *(template.value or ())):
        match source:
            case Take():
                count += 1
            case Members(members):
                count += len(members)
            case OneOf(texts):
                _check_texts(texts)
            case Unordered(texts):
                _check_texts(texts)
                _check_colons(texts)
            case Length(width):
                _check_width(width)
    targets = (*(template.target_key or ()), *(template.target_value or ()))
    for condition in template.conditions:
        _check_condition(condition, count)
    for target in targets:
        _check_target(target, count)


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
        if is_unknown or by_zero or too_far or operand not in _CALCULATED:
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

    yield from (each.put for each in template.conditions if isinstance(each, Fits))
    yield from inside(template.target_key or ())
    yield from inside(template.target_value or ())


def _function(table: Mapping[str, Callable[..., Function]], conversion: Conversion) -> Function:
    name, *parameters = conversion
    if not isinstance(name, str) or name not in table:
        raise ValueError(f"no conversion has the name {name!r}")
    return table[name](*parameters)
