"""The target: prints what a template says of a message's tokens."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from datetime import timedelta, timezone
from typing import Final, cast

from reference_engine.avro import AvroBody
from reference_engine.conversions import token_value
from reference_engine.functions import Functions
from reference_engine.tokens import (
    CALCULATED,
    INTEGERS,
    NoMatch,
    Token,
    Tokens,
    is_integer,
    print_value,
)
from relay.templates.ops import (
    Above,
    Among,
    Avro,
    Below,
    Changed,
    Choice,
    Condition,
    Constant,
    Conversion,
    Differ,
    Equal,
    Filled,
    Fits,
    Number,
    Put,
    Same,
    Sized,
    Steps,
    TargetOp,
)
from relay.text.durations import clock_seconds, local_datetime_micros

_ESCAPE: Final = re.compile(rb"\\(.)", re.DOTALL)
_LONG_ESCAPES: Final = {b"b": rb"\u0008", b"f": rb"\u000c"}


class Fill:
    """Prints one message's target. `added`: what values of which something is lost have added."""

    def __init__(self, functions: Functions, tokens: Tokens, numbers: Mapping[int, int]) -> None:
        self._functions = functions
        self._tokens = tokens
        self._numbers = numbers
        self.added = 0

    def holds(self, condition: Condition) -> bool:
        """Whether a condition is true."""
        match condition:
            case Above() | Below() | Equal():
                return self._holds_for_numbers(condition)
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
                text = print_value(token.value) if token.kind == "string" else token.text
                return (text in texts) == is_one
            case Differ(pairs):
                # All are printed, whatever the first of them are.
                differ = [self._differ(*pair) for pair in pairs]
                return any(differ)

    def _holds_for_numbers(self, condition: Above | Below | Equal) -> bool:
        match condition:
            case Above(slot, floor, steps):
                return self._calculated(slot, steps) > floor
            case Below(slot, end, steps):
                return self._calculated(slot, steps) < end
            case Equal(one, other, is_equal):
                return (self._sum(one) == self._sum(other)) == is_equal

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
            case Number():
                return self._number(op)
            case Changed(members):
                return b",".join(self._changed(members))
            case Choice():
                return self._choice(op)
            case Avro(avro, inner):
                body = AvroBody(b"", avro, b"").body(self._op(inner))
                if body is None:
                    raise NoMatch
                return body
            case Sized(width, ops):
                return _sized(width, self.printed(ops))

    def _first(self, slots: tuple[int, ...]) -> Token:
        for slot in slots:
            token = self._tokens[slot]
            if token is not None:
                return token
        raise NoMatch

    def _put(self, put: Put) -> bytes:
        token = self._first(put.slots)
        if token.kind == "null":
            if put.null is None:
                raise NoMatch
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
        except NoMatch:
            if put.losses is None:
                raise
        text = self._converted(put.read, put.losses, token)
        self.added += put.adds
        return text

    def _converted(self, read: Conversion | None, write: Conversion | None, token: bytes) -> bytes:
        try:
            value = token_value(token, read)
            if read is not None:
                value = self._functions.reads[read](value)
            if write is not None:
                value = self._functions.writes[write](value)
            return print_value(value)
        except Exception as error:
            raise NoMatch from error

    def _sum(self, number: Number) -> int:
        total = self._calculated(number.slot, number.steps)
        for added, its_steps in number.plus:
            total = _bounded(total + self._calculated(added, its_steps))
        return total

    def _number(self, number: Number) -> bytes:
        total = self._sum(number)
        if total not in INTEGERS:
            raise NoMatch
        return b"%d" % total

    def _calculated(self, slot: int, steps: Steps) -> int:
        if steps and steps[0][0] == "datetime":
            result, steps = self._datetime_micros(slot, steps[0][1]), steps[1:]
        else:
            result = self._integer(slot)
        for step in steps:
            result = _bounded(_step(result, *step))
        return result

    def _integer(self, slot: int) -> int:
        if slot < 0:
            return self._numbers[slot]
        token = self._tokens[slot]
        if token is None or token.kind != "integer":
            raise NoMatch
        return cast("int", token.value)

    def _datetime_micros(self, slot: int, offset_seconds: int) -> int:
        token = self._tokens[slot]
        if token is None or token.kind != "string":
            raise NoMatch
        try:
            # As it is written: an escaped digit does not fit.
            text = token.text[1:-1].decode()
            return local_datetime_micros(text, timezone(timedelta(seconds=offset_seconds)))
        except ValueError:
            raise NoMatch from None

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


def _choice_number(token: Token) -> int:
    text = cast("str", token.value).encode() if token.kind == "string" else token.text
    if not is_integer(text):
        raise NoMatch
    return int(text)


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
        raise NoMatch from None


def _bounded(number: int) -> int:
    if number not in CALCULATED:
        raise NoMatch
    return number


def _sized(width: int, text: bytes) -> bytes:
    if len(text) >> (8 * width):
        raise NoMatch
    return len(text).to_bytes(width, "big") + text
