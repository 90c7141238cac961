"""Checks of a template before it is kept."""

from __future__ import annotations

from collections.abc import Iterable
from itertools import chain, pairwise
from typing import Final, get_args

from reference_engine.avro import scalars
from reference_engine.tokens import CALCULATED
from relay.templates.ops import (
    OFFSET,
    TIME_MS,
    Among,
    Avro,
    AvroValue,
    Changed,
    Choice,
    Condition,
    Differ,
    Equal,
    Filled,
    Fits,
    Length,
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
    TargetOp,
    Template,
    Text,
    Unordered,
    Varint,
)

#: No wall clock is so far from UTC.
_DAY_SECONDS: Final = 86_400


def check(template: Template) -> None:
    """Raise ValueError for a template that means nothing."""
    count = sum(_checked_slots(source) for source in (*(template.key or ()), *(template.value or ())))
    for condition in template.conditions:
        _check_condition(condition, count)
    for target in template.targets:
        for op in (*(target.key or ()), *(target.value or ())):
            _check_target(op, count)


def _checked_slots(source: SourceOp, *, is_inside: bool = False) -> int:
    """Return how many slots an op has. Raises ValueError for one that means nothing."""
    match source:
        case Take() | Varint() | Text():
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
        case AvroValue(avro):
            _check_inside(is_inside)
            return len(list(scalars(avro)))
        case Repeated(ops, between):
            _check_inside(is_inside or not between)
            return sum(_checked_slots(op, is_inside=True) for op in ops)
    return 0


def _check_inside(is_wrong: bool) -> None:
    if is_wrong:
        raise ValueError("a round has no lengths and no rounds inside, and something between")


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
    elif isinstance(condition, Equal):
        _check_target(condition.one, count)
        _check_target(condition.other, count)
    elif isinstance(condition, Fits):
        _check_slots(condition.put.slots, count)
    elif isinstance(condition, Differ):
        for put in chain(*condition.pairs):
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
        case Avro(_, value):
            _check_target(value, count)
        case Sized(width, ops):
            _check_width(width)
            for inner in ops:
                _check_target(inner, count)


def _check_slots(slots: Iterable[int], count: int, least: int = 0) -> None:
    if not all(least <= slot < count for slot in slots):
        raise ValueError("no such slot")


def _check_number(slot: int, steps: Steps, count: int) -> None:
    _check_slots((slot,), count, least=min(OFFSET, TIME_MS))
    for number, (operator, operand) in enumerate(steps):
        if operator == "datetime" and (number or slot < 0):
            raise ValueError("a step `datetime` is not the first one of a text's slot")
        is_unknown = operator not in get_args(Operator)
        by_zero = operator in ("//", "%") and not operand
        too_far = operator in ("<<", ">>") and not 0 <= operand < 128
        no_zone = operator in ("clock", "datetime") and abs(operand) >= _DAY_SECONDS
        if is_unknown or by_zero or too_far or no_zone or operand not in CALCULATED:
            raise ValueError(f"no such step: {operator} {operand}")
