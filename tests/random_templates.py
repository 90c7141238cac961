"""Templates made at random, messages that fit them, and messages that nearly do.

There are no conversions in them, of which the kernel's may take fewer values than Python's.
"""

from __future__ import annotations

from collections.abc import Callable
from random import Random
from typing import Final, NamedTuple

from relay.templates.ops import (
    LOSS,
    Above,
    Below,
    Changed,
    Choice,
    Condition,
    Constant,
    Kind,
    Kinds,
    Length,
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

INTEGERS: Final = [
    "0",
    "1",
    "-1",
    "7",
    "10",
    "127",
    "128",
    "255",
    "-128",
    "1000",
    "999999",
    "1767225600000",
    "9007199254740993",
    "443852055297589249",
    "9223372036854775807",
    "9223372036854775808",
    "-9223372036854775808",
    "18446744073709551615",
]
NUMBERS: Final = [
    "0.0",
    "-0.0",
    "1.5",
    "1e3",
    "-1E-7",
    "1.7976931348623157e308",
    "5e-324",
    "0.1",
    "123456789.123456789",
    "1e400",
    "1e-400",
]
#: Pieces of strings: plain ones, escapes in each form, and what does not belong there.
PIECES: Final = [
    b"a",
    b"column",
    b"12",
    b"0",
    b" ",
    b"x" * 40,
    "é".encode(),
    "数据".encode(),
    "😀".encode(),
    b"\x7f",
    rb"\"",
    rb"\\",
    rb"\n",
    rb"\t",
    rb"\b",
    rb"\f",
    rb"\/",
    rb"\u0041",
    rb"\u0000",
    rb"\u001F",
    rb"\u0008",
    rb"\u00e9",
    rb"\ud83d\ude00",
    rb"\uD83D\uDE00",
    rb"\u2028",
]
#: What does not belong there, or not everywhere.
WRONG: Final = [
    rb"\ud800",
    rb"\udc00",
    rb"\x",
    rb"\u12",
    b"\x00",
    b"\x1f",
    b"\n",
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b'"',
    b"\\",
    b",",
    b":",
    b"{",
    b"-",
    b"0",
    b"1",
    b".",
    b"e5",
    b"null",
    b"true",
    b'""',
    b" ",
]
KINDS: Final[Kinds] = ("integer", "number", "string", "null", "boolean")
OPERATORS: Final[tuple[Operator, ...]] = ("+", "-", "*", "//", "<<", ">>", "%", "clock")

#: What gives a text that fits an op.
Sample = Callable[[], bytes]


class Made(NamedTuple):
    """A template, and what makes values of messages that fit its source."""

    template: Template
    message: Callable[[], bytes]


def made(random: Random) -> Made:
    """Make a template of values without keys."""
    ops, samples, slots = _source(random)

    def message() -> bytes:
        text = b""
        for op, sample in zip(reversed(ops), reversed(samples), strict=True):
            text = (len(text).to_bytes(op.width, "big") if isinstance(op, Length) else sample()) + text
        return text

    conditions = tuple(
        _condition(random, slots) for _ in range(random.choice((0, 0, 0, 1, 2)) if slots else 0)
    )
    target = tuple(_target(random, slots) for _ in range(random.randint(0, 6)))
    most = 1 << 30 if random.random() < 0.9 else random.randint(0, 200)
    return Made(Template(None, tuple(ops), conditions, None, target, most), message)


def changed_message(random: Random, message: bytes) -> bytes:
    """Change a message in one to three places."""
    for _ in range(random.randint(1, 3)):
        at, end = sorted(random.choices(range(len(message) + 1), k=2))
        end = min(end, at + random.choice((0, 1, 1, 2, 8)))
        between = random.choice(
            (b"", random.choice(WRONG), random.choice(PIECES), random.randbytes(1), message[at:end] * 2)
        )
        message = message[:at] + between + message[end:]
    return message


# ---------------------------------------------------------------- source


def _source(random: Random) -> tuple[list[SourceOp], list[Sample], int]:
    ops: list[SourceOp] = []
    samples: list[Sample] = []
    slots = 0
    for _ in range(random.randint(0, 8)):
        op, sample, count = random.choice(
            (_constant, _take, _take, _take, _one_of, _members, _unordered, _length)
        )(random)
        ops += op, Constant(b",")
        samples += sample, lambda: b","
        slots += count
    return ops, samples, slots


def _constant(random: Random) -> tuple[SourceOp, Sample, int]:
    text = random.choice((b"", b"{", b'"es":', random.randbytes(3)))
    return Constant(text), lambda: text, 0


def _kinds(random: Random) -> Kinds:
    return tuple(random.sample(KINDS, random.randint(1, len(KINDS))))


def _take(random: Random) -> tuple[SourceOp, Sample, int]:
    kinds = _kinds(random)
    return Take(kinds), lambda: token(random, random.choice(kinds)), 1


def _one_of(random: Random) -> tuple[SourceOp, Sample, int]:
    texts = tuple(random.sample((b"[]", b"{}", b"null", b'""', b"0"), random.randint(1, 4)))
    return OneOf(texts), lambda: random.choice(texts), 0


def _members(random: Random) -> tuple[SourceOp, Sample, int]:
    members = tuple((b'"c%d":' % number, _kinds(random)) for number in range(random.randint(0, 12)))

    def sample() -> bytes:
        there = [each for each in members if random.random() < 0.7]
        return b",".join(name + token(random, random.choice(kinds)) for name, kinds in there)

    return Members(members), sample, len(members)


def _unordered(random: Random) -> tuple[SourceOp, Sample, int]:
    names = random.sample(
        (b"a", b"b", b"a:", rb"a\":", b"a:b", b"column_1", b"column_2", "名".encode()), random.randint(0, 8)
    )
    members = tuple(b'"%s":"%s"' % (name, random.choice((b"int", b"text"))) for name in names)
    return Unordered(members), lambda: b",".join(random.sample(members, len(members))), 0


def _length(random: Random) -> tuple[SourceOp, Sample, int]:
    return Length(random.choice((4, 8))), lambda: b"", 0


def token(random: Random, kind: Kind) -> bytes:
    """A token of a kind, or now and then one of none."""
    match kind:
        case "integer":
            return random.choice(INTEGERS).encode()
        case "number":
            return random.choice(NUMBERS).encode()
        case "null":
            return b"null"
        case "boolean":
            return random.choice((b"true", b"false"))
        case "string":
            if random.random() < 0.3:
                return b'"' + random.choice(INTEGERS).encode() + b'"'
            return b'"' + b"".join(random.choices(PIECES, k=random.randint(0, 6))) + b'"'


# ---------------------------------------------------------------- target


def _slots(random: Random, slots: int) -> tuple[int, ...]:
    return tuple(random.choices(range(slots), k=random.randint(1, 3)))


def _put(random: Random, slots: int) -> Put:
    null = random.choice((b"null", b"null", b'"0"', None))
    adds = random.choice((0, 0, 0, LOSS, LOSS << 10))
    return Put(_slots(random, slots), None, None, null, random.random() < 0.3, null_adds=adds)


def _steps(random: Random) -> Steps:
    steps: list[tuple[Operator, int]] = []
    for _ in range(random.choice((0, 0, 1, 1, 2, 3))):
        operator = random.choice(OPERATORS)
        if operator in ("<<", ">>"):
            steps.append((operator, random.choice((0, 1, 18, 22, 63, 64, 100, 127))))
        elif operator == "clock":
            steps.append((operator, random.choice((0, 28_800, -12_600))))
        else:
            steps.append((operator, random.choice((1, 2, 3, 1000, -1, -7, 1 << 40, -(1 << 63), 1 << 100))))
    return tuple(steps)


def _number(random: Random, slots: int) -> Number:
    def calculated() -> tuple[int, Steps]:
        return random.choice((-1, -2, *range(slots))), _steps(random)

    plus = tuple(calculated() for _ in range(random.choice((0, 0, 0, 1, 2))))
    return Number(*calculated(), plus)


def _condition(random: Random, slots: int) -> Condition:
    match random.randrange(3):
        case 0:
            return Above(random.randrange(-2, slots), random.choice((-(1 << 63), 0, 10)), _steps(random))
        case 1:
            return Below(random.randrange(-2, slots), random.choice((1 << 64, 1000, 0)), _steps(random))
        case _:
            return Same(random.randrange(slots), random.randrange(slots))


def _changed(random: Random, slots: int) -> Changed:
    members = []
    for number in range(random.randint(0, 5)):
        new = _put(random, slots)
        old = new._replace(slots=_slots(random, slots)) if random.random() < 0.7 else _put(random, slots)
        members.append((b'"c%d":' % number, old, new))
    return Changed(tuple(members))


def _target(random: Random, slots: int, *, is_inside: bool = False) -> TargetOp:
    kind = random.choice("cpppnndhs")
    if kind == "s" and not is_inside:
        ops = tuple(_target(random, slots, is_inside=True) for _ in range(random.randint(0, 3)))
        return Sized(random.choice((1, 2, 8)), ops)  # type: ignore[arg-type] # nothing inside is sized
    if kind == "n":
        return _number(random, slots)
    if not slots or kind in "cs":
        return Constant(random.choice((b"", b'{"a":', random.randbytes(2))))
    if kind == "p":
        return _put(random, slots)
    if kind == "d":
        return _changed(random, slots)
    return Choice(_slots(random, slots), b"N", b"S", b"L", random.choice((None, 0, 128, 1 << 31)))
