"""Compares the kernel's conversions with those in Python, on values near the edges of their types and on what
mutations make of them.

    make fuzz-conversions COUNT=1000000
    cd tests && ../.venv/bin/python -m templates.kernel_conversions COUNT NAME…

COUNT: values for each name of a conversion. What the kernel takes must be what Python takes, with the
same bytes. How much Python takes, how much of that the kernel takes, and its time a value are printed.
"""

from __future__ import annotations

import json
import os
import random
import sys
import time
from collections import Counter
from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec
from engine_support import ANYWHERE, KERNEL, filled, template
from reference_engine.conversions import UNFIT, read_function, token_value, write_function
from templates import values_support as made

from relay.mysql.conversion_names import Conversion
from relay.templates.engine import MAX_CREDIT, Engine
from relay.templates.ops import Constant, Put, Take, Template

_M: Final = made.MEMBERS
_KINDS: Final = ("integer", "number", "string", "boolean")
Random = random.Random


class Pair(NamedTuple):
    """A read and a write that are compared, and what makes texts of tokens for them."""

    read: Conversion | None
    write: Conversion | None
    token: Callable[[Random], str]

    @property
    def name(self) -> str:
        return f"{' '.join(map(str, self.read or ()))} → {' '.join(map(str, self.write or ()))}"


def _string(text: Callable[[Random], str]) -> Callable[[Random], str]:
    """A JSON string, sometimes with escapes that it does not need."""

    def token(chosen: Random) -> str:
        value = text(chosen)
        if chosen.random() < 0.9:
            return msgspec.json.encode(value).decode()
        if chosen.random() < 0.5:
            return json.dumps(value)
        return '"' + "".join(f"\\u{ord(each):04x}" if ord(each) < 0xD800 else each for each in value) + '"'

    return token


def _whole(chosen: Random) -> str:
    return str(made.whole(chosen))


def _real(chosen: Random) -> str:
    return repr(made.real(chosen))


def _number(chosen: Random) -> str:
    kind = chosen.randrange(4)
    if kind == 0:
        return _whole(chosen)
    return _real(chosen) if kind == 1 else made.number_text(chosen)


def _spelled(chosen: Random) -> str:
    return _number(chosen) if chosen.random() < 0.5 else _string(made.number_text)(chosen)


def _either(*texts: Callable[[Random], str]) -> Callable[[Random], str]:
    return lambda chosen: chosen.choice(texts)(chosen)


def _labels(members: tuple[str, ...]) -> Callable[[Random], str]:
    def text(chosen: Random) -> str:
        if chosen.random() < 0.2:
            return made.word(chosen)
        return ",".join(chosen.choices(members, k=chosen.choice((1, 1, 1, 0, 2, 3))))

    return text


def _little(chosen: Random) -> str:
    return str(chosen.randint(-2, 130))


def _float_text(chosen: Random) -> str:
    return chosen.choice((made.number_text(chosen), _real(chosen), f"{made.real(chosen):.6g}"))


_DATE = _string(made.date_text)
_DATETIME = _string(made.datetime_text)
_TIME = _string(made.time_text)
_ISO = _string(made.iso_text)
_BYTES = _string(made.bytes_text)
#: One byte, which mostly is 0 or 1.
_ONE_BYTE = _string(lambda chosen: chosen.choice(("AA==", "AQ==", "AA==", "AQ==", "Ag==", "/w==")))
_DIGITS = (None, 0, 1, 3, 6)


def _number_pairs() -> Iterator[Pair]:
    text = _string(made.number_text)
    for name in ("int", "whole-text"):
        yield Pair((name,), None, text)
    yield Pair(("decimal",), ("decimal",), text)
    for scale in (0, 2, 10, 30):
        yield Pair(("scaled-decimal", scale), ("decimal",), text)
        yield Pair(("decimal-text", scale), ("decimal-number",), text)
        yield Pair(("decimal-bytes", scale), ("decimal",), _BYTES)
        yield Pair(("decimal",), ("unscaled", scale), text)
        yield Pair(("decimal-bytes", scale), ("unscaled", scale), _BYTES)
        for length in (4, 38, 65):
            yield Pair(("decimal-bytes", scale, 28), ("decimal-bytes", length, scale), _BYTES)
            yield Pair(("decimal",), ("decimal-bytes", length, scale), text)
        for length in (20, 65):
            yield Pair(("decimal-number", length, scale if length > scale else 4), ("decimal",), _number)
            yield Pair(("decimal-double", length, scale if length > scale else 4), ("decimal",), _number)
            yield Pair(("spelled-decimal", length, scale if length > scale else 4), ("decimal",), _spelled)
    for name in ("decimal-number", "decimal-double", "spelled-decimal"):
        yield Pair((name, None, None), ("decimal",), _spelled if name == "spelled-decimal" else _number)
    for write in ("decimal-double", "rounded-double", "decimal-float", "rounded-float", "row-key"):
        yield Pair(("decimal",), (write,), text)
        yield Pair(("decimal",), (write,), _string(lambda chosen: str(made.decimal(chosen))))
    for read in ("double-text", "float-text"):
        yield Pair((read,), None, _string(_float_text))
    for read in ("double-number", "float-number", "float"):
        yield Pair((read,), None, _number)
        yield Pair((read,), None, _real)
    for write in (
        "go-float",
        "java-double",
        "java-float",
        "go-number",
        "go-number-float",
        "finite",
        "finite-float",
        "java-number",
        "java-number-float",
    ):
        yield Pair(("double-number",), (write,), _either(_real, _number))
        yield Pair(("float-text",), (write,), _string(_float_text))
    yield Pair(("double-number",), ("row-key",), _real)


def _number_pairs_of_maxwell() -> Iterator[Pair]:
    for read in (("plain-decimal",), ("seconds", 1), ("seconds", 1_000_000)):
        yield Pair(read, ("row-key",), _either(_number, _time))
    for scale in (0, 8, 30):
        yield Pair(
            ("scaled-decimal", scale), ("java-decimal",), _either(_string(made.number_text), _string(_tiny))
        )


def _time(chosen: Random) -> str:
    """A time in seconds."""
    return f"{chosen.choice((0, 1_795_255_397, 9_223_372_036, 17_179_869_184))}{chosen.choice(('', '.0', '.039823', '.5', '.999999999'))}"


def _tiny(chosen: Random) -> str:
    """A DECIMAL near 0, or 0."""
    digits = chosen.choice(("0", "1", "12", "100", "7001"))
    return f"{chosen.choice(('', '-'))}0.{'0' * chosen.randrange(12)}{digits}"


def _integer_pairs() -> Iterator[Pair]:
    for read in ("int64", "unsigned64", "whole", "year-1900", "signed-int", "natural"):
        yield Pair(
            (read,), None, _either(_whole, _whole, _number, lambda chosen: chosen.choice(("true", "false")))
        )
    for write in (
        ("digits",),
        ("year", "0000"),
        ("int64",),
        ("int32",),
        ("long",),
        ("signed64",),
        ("natural",),
        ("boolean",),
        ("big-endian",),
        ("row-key",),
    ):
        yield Pair(("int64",), write, _whole)
        yield Pair(("unscaled-int",), write, _ONE_BYTE if write == ("boolean",) else _BYTES)
    for most in (0, 3, (1 << 63) - 1):
        yield Pair(("natural", most), None, _either(_whole, _little))
        yield Pair(("int64",), ("natural", most), _either(_whole, _little))
    for length in (1, 8, 12, 64):
        yield Pair(("int64",), ("bit-bytes", length), _either(_whole, _little))
        yield Pair(("bit-bytes",), ("bit-bytes", length), _BYTES)
    for size in (1, 2, 8):
        yield Pair(("int64",), ("bits", size), _either(_whole, _little))
        yield Pair(("bits",), ("bits", size), _BYTES)
    yield Pair(("bits",), None, _BYTES)
    yield Pair(("unscaled-int",), None, _BYTES)
    yield Pair(
        ("year-text", "0000"),
        None,
        _string(lambda chosen: str(chosen.randint(0, 2200)).zfill(chosen.choice((1, 4)))),
    )
    yield Pair(("year-text", "0"), None, _string(made.number_text))


def _binary_pairs() -> Iterator[Pair]:
    for length in ((), (None,), (0,), (4,), (20,)):
        for read in ("latin1", "utf8", "hex", "plain-hex", "base64", "base64-url"):
            yield Pair((read, *length), None, _BYTES)
        for write in ("hex", "base64", "base64-url"):
            yield Pair(("base64",), (write, *length), _BYTES)
    for length in ((None,), (4,)):
        yield Pair(("guessed-binary", *length), None, _BYTES)
    yield Pair(("base64",), ("padded", 16), _BYTES)
    yield Pair(("base64",), ("row-key",), _BYTES)
    yield Pair(("go-quoted",), None, _string(made.word))
    yield Pair(("latin1",), ("go-quoted",), _string(made.text))
    for write in ("latin1", "latin1-stripped", "base64-stripped", "go-quoted"):
        yield Pair(("base64",), (write,), _BYTES)
        yield Pair(("utf8",), (write,), _string(made.word))


def _html(chosen: Random) -> str:
    return "".join(chosen.choices('<>&a\u2028\u2029\u2027ü"\n', k=chosen.randrange(8)))


def _text_pairs() -> Iterator[Pair]:
    word = _string(made.word)
    for read in ("base64-text", "mistaken-text"):
        yield Pair((read,), None, _BYTES)
    for read in ("json-or-null", "vector"):
        yield Pair((read,), None, word)
    for write in (
        "text-base64", "vector", "document", "some-document", "null-document", "compact-json", "row-key", "label",
        "digits",
    ):  # fmt: skip
        yield Pair(None, (write,), word)
    for members in (_M, ("", "b"), tuple(map(str, range(64))), tuple(map(str, range(100)))):
        for name in ("enum-label", "set-labels"):
            if name == "enum-label" or len(members) <= 64:
                for has_escapes in (0, 1):
                    yield Pair((name, members, has_escapes), None, _string(_labels(members)))
                yield Pair(("int64",), (name, members), _either(_little, _whole))
        if len(members) <= 64 and members != _M:
            yield Pair(("int64",), ("set-list", members), _either(_little, _whole))
    yield Pair(None, ("text",), _either(_string(made.text), _whole))
    yield Pair(None, ("html-text",), _either(word, _string(_html)))
    yield Pair(("datetime",), ("zoned-text", "UTC"), _DATETIME)
    for most in (3, None):
        yield Pair(("member-number", most), None, _string(made.number_text))
        yield Pair(("int64",), ("member-digits", most), _either(_little, _whole))
    yield Pair(("enum-member", ("a", "b,c", "2")), None, _string(_labels(("a", "b,c", "2", "3"))))


def _temporal_reads() -> Iterator[Pair]:
    for name, token in (("date", _DATE), ("datetime", _DATETIME), ("time", _TIME)):
        yield Pair((name,), None, token)
    yield Pair(
        ("iso-datetime",), None, _either(_DATETIME, _string(lambda chosen: made.iso_text(chosen)[:-1]))
    )
    yield Pair(("iso-date",), None, _either(_DATE, _string(lambda chosen: made.date_text(chosen) + "Z")))
    yield Pair(("date-days",), None, _either(_whole, lambda chosen: str(chosen.randint(-720_000, 2_933_000))))
    for divisor, offset_seconds in ((1, 0), (1_000, 28_800), (1_000_000, -12_600), (1, 50_400)):
        yield Pair(("event-time", divisor, offset_seconds), None, _moment)
    for digits in _DIGITS:
        for name in ("iso-timestamp", "zoned", "iso-wall"):
            yield Pair((name, digits), None, _ISO)
        yield Pair(("iso-time", digits), None, _TIME)
        for name in ("datetime-nanos", "clock"):
            yield Pair((name, digits), None, _moment)
        for micros in (1, 1_000):
            yield Pair(("datetime-count", micros, digits), None, _moment)
            yield Pair(("time-count", micros, 1, digits), None, _moment)
        yield Pair(("time-count", 1, 1_000, digits), None, _moment)
        if digits is not None:
            for form in ("datetime", "iso-datetime"):
                yield Pair(("padded-datetime", digits, form), None, _DATETIME)


def _moment(chosen: Random) -> str:
    if chosen.random() < 0.3:
        return _whole(chosen)
    return str(chosen.randint(-(10**5), 10**5) * 10 ** chosen.randint(0, 14) + chosen.choice((0, 0, 1, -1)))


def _temporal_writes() -> Iterator[Pair]:
    for name in ("date-days", "own-date-days", "own-date-iso", "calendar"):
        yield Pair(None, (name,), _DATE)
    zero_datetime = _string(lambda chosen: made.datetime_text(chosen, made.zero_date_text))
    yield Pair(("date",), ("no-date", b"null", 10, 10), _string(made.zero_date_text))
    yield Pair(("date",), ("no-date", b"null", 10, 26), _string(made.zero_date_text))
    yield Pair(("datetime",), ("no-date", b"0", 19, 23), zero_datetime)
    yield Pair(("datetime",), ("no-date", b'"x"', 10, 26), zero_datetime)
    for write in (
        ("calendar",), ("iso",), ("iso", 1), ("iso-z",), ("iso-z", 1), ("datetime-iso",), ("datetime-micros",),
        ("datetime-millis", 23), ("datetime-millis", 26), ("datetime-units", 1, 1), ("datetime-units", 1, 1_000),
        ("datetime-units", 1_000, 1),
    ):  # fmt: skip
        yield Pair(("datetime",), write, _DATETIME)
    for digits in _DIGITS:
        for takes_zero in (0, 1):
            yield Pair(("datetime",), ("timestamp-iso", digits, takes_zero), _DATETIME)
    for name in ("time-micros", "time-millis", "time-nanos", "time-iso"):
        yield Pair(None, (name,), _TIME)


def _near_the_greatest(chosen: Random) -> str:
    """A number beside the greatest of DECIMAL(20, 4), as a producer writes it that has it as a double."""
    if chosen.random() < 0.3:
        return _number(chosen)
    number = chosen.choice((10**16, 10**16 - 1, 10**16 + 1, 10**16 + 2, 9.999999999999998e15, 1e17))
    return f"{chosen.choice(('', '-'))}{number}{chosen.choice(('', '', '.0'))}"


def _pairs_without_change() -> Iterator[Pair]:
    """What is mostly printed as it came."""
    yield Pair(("decimal-number", 20, 4), ("decimal",), _near_the_greatest)
    yield Pair(("unsigned64",), ("signed64",), _whole)
    yield Pair(("latin1",), ("latin1",), _either(_BYTES, _string(made.text), _string(_latin1)))
    for length in (0, 4, 20):
        yield Pair(("base64", length), ("padded", 20 - length), _BYTES)
    days = _either(_whole, lambda chosen: str(chosen.randint(-720_000, 2_933_000)))
    yield Pair(("date-days",), ("own-date-days",), days)
    for digits in _DIGITS:
        for micros in (1, 1_000):
            for down in (1, 1_000):
                yield Pair(("datetime-count", micros, digits), ("datetime-units", 1, down), _moment)
        yield Pair(("clock", digits), ("time-micros",), _moment)
        for written in _DIGITS:
            yield Pair(("zoned", digits), ("timestamp-iso", written, 0), _either(_ISO, _early))


def _latin1(chosen: Random) -> str:
    return "".join(chr(chosen.randrange(0x102)) for _ in range(chosen.randrange(12)))


def _early(chosen: Random) -> str:
    """A moment near the first that a TIMESTAMP may be."""
    seconds, fraction = chosen.randrange(3), chosen.choice(("", ".0", ".000", ".5", ".000000", ".000001"))
    return f'"{chosen.choice(("1970-01-01", "1969-12-31"))}T00:00:0{seconds}{fraction}Z"'


def _characters(chosen: Random) -> str:
    """A text with characters of one to four bytes, or none."""
    return "".join(chosen.choices("ab*é€😀", k=chosen.choice((0, 1, 2, 3, 8, 70))))


_PLAIN: Final = (
    *_number_pairs(), *_number_pairs_of_maxwell(), *_integer_pairs(), *_binary_pairs(), *_text_pairs(), *_temporal_reads(), *_temporal_writes(),
    *_pairs_without_change(),
)  # fmt: skip
_HASH: Final = ("hash", b"a secret key of tests", 64)
_MASK: Final = ("mask", 1, 2)
#: Reads of floats, whose texts differ between languages, and of bytes, which no rule masks.
_OF_FLOATS: Final = frozenset({"double-text", "float-text", "double-number", "float-number", "float"})
_OF_BYTES: Final = frozenset(
    {"latin1", "utf8", "hex", "plain-hex", "base64", "base64-url", "guessed-binary", "go-quoted"}
)


def _replacing_pairs() -> Iterator[Pair]:
    """Values that rules replace: one pair for every read whose values have a text."""
    reads = {"" if pair.read is None else str(pair.read[0]): pair for pair in _PLAIN}
    for at, name in enumerate(sorted(reads.keys() - _OF_FLOATS)):
        pair = reads[name]
        replacing = _MASK if at % 2 and name not in _OF_BYTES else _HASH
        yield Pair((*replacing, *(pair.read or ())), ("row-key",), pair.token)
    text = _either(_string(_characters), _string(made.text))
    for digits in (1, 32, 63):
        yield Pair(("hash", b"", digits), None, text)
    for first, last in ((0, 0), (0, 4), (2, 0), (3, 3), (0, (1 << 63) - 1)):
        yield Pair(("mask", first, last), None, _either(text, _whole))
    for length in (1, 4, (1 << 63) - 1):
        yield Pair(("truncate", length), ("text",), text)
        yield Pair(("truncate", length, "base64"), ("hex",), _BYTES)
        yield Pair(("truncate", length, "latin1"), ("hex",), _string(_latin1))


#: All pairs that are compared.
PAIRS: Final = (*_PLAIN, *_replacing_pairs())


def _mutated(token: bytes, chosen: Random) -> bytes:
    """The token with a fault: mostly no JSON any more, or another value."""
    at = chosen.randrange(len(token) + 1)
    kind = chosen.randrange(4)
    if kind == 0:
        return token[:at] + bytes([chosen.randrange(256)]) + token[at + 1 :]
    if kind == 1:
        return token[:at] + token[at + 1 :]
    if kind == 2:
        return (
            token[:at]
            + chosen.choice((b"0", b"9", b"-", b".", b"e", b"\\", b'"', b"\xc3\xa9", b" "))
            + token[at:]
        )
    return token[:at] + token[at:][: chosen.randrange(8)]


def tokens(pair: Pair, chosen: Random, count: int) -> list[bytes]:
    """So many tokens for a pair, some of them with a fault."""
    found = []
    for _ in range(count):
        token = pair.token(chosen).encode("utf-8", "surrogatepass")
        found.append(_mutated(token, chosen) if chosen.random() < 0.1 else token)
    return found


def _template(pair: Pair) -> Template:
    return template((Constant(b"["), Take(_KINDS), Constant(b"]")), (Put((0,), pair.read, pair.write, None),))


def _kernel(pair: Pair) -> Engine:
    assert KERNEL is not None
    engine = KERNEL(ANYWHERE)
    engine.add(_template(pair))
    return engine


def _filled(kernel: Engine, pair: Pair, messages: Sequence[bytes]) -> list[bytes | None]:
    """What the kernel makes of each message."""
    found: list[bytes | None] = []
    same = _template(pair)
    for at in range(0, len(messages), MAX_CREDIT):
        kernel.add(same)  # by which all of the next ones are tried, however few fit
        found += [filled(kernel, message) for message in messages[at : at + MAX_CREDIT]]
    return found


def in_python(pair: Pair) -> Callable[[bytes], bytes | None]:
    """Return what Python makes of a token; None if it does not take it."""
    read, write = read_function(pair.read), write_function(pair.write)

    def convert(token: bytes) -> bytes | None:
        try:
            value = token_value(token, pair.read)
            value = value if read is None else read(value)
            return msgspec.json.encode(value if write is None else write(value))
        except UNFIT:
            return None

    return convert


class Outcome(NamedTuple):
    """How many of the first `looked_at` values Python takes and the kernel takes, all values of which it makes
    something else, and its time a value.
    """

    looked_at: int
    taken: int
    taken_by_kernel: int
    differing: list[bytes]
    nanoseconds: float


#: So many values are made at a time, and of so many is counted what Python takes.
_CHUNK: Final = 1_000


def compare(pair: Pair, chosen: Random, count: int) -> Outcome:
    """Compare a pair for so many values."""
    kernel, expected = _kernel(pair), in_python(pair)
    taken = taken_by_kernel = done = spent = 0
    differing = []
    while done < count:
        given = tokens(pair, chosen, min(_CHUNK, count - done))
        messages = [b"[%b]" % token for token in given]
        start = time.process_time_ns()
        found = _filled(kernel, pair, messages)
        spent += time.process_time_ns() - start
        if not done:
            taken = sum(expected(token) is not None for token in given)
            taken_by_kernel = sum(each is not None for each in found)
        done += len(given)
        differing += [
            token
            for token, each in zip(given, found, strict=True)
            if each is not None and each != expected(token)
        ]
    return Outcome(min(count, _CHUNK), taken, taken_by_kernel, differing, spent / count)


def uses() -> Counter[str]:
    """Return in how many pairs each name is."""
    each_name = (str(each[0]) for pair in PAIRS for each in (pair.read, pair.write) if each is not None)
    return Counter(each_name)


def counts(values: int) -> Iterator[tuple[Pair, int]]:
    """Give the pairs, and of how many values each so that every name has so many."""
    found = uses()
    for pair in PAIRS:
        names = [str(each[0]) for each in (pair.read, pair.write) if each is not None]
        yield pair, max(values // found[name] for name in names)


def main() -> int:
    """Compare all, or those whose name begins so."""
    values = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    wanted, faults, seed = sys.argv[2:], 0, os.environ.get("SEED", str(time.time_ns()))
    print("SEED", seed)
    for pair, count in counts(values):
        if wanted and not any(pair.name.startswith(name) for name in wanted):
            continue
        outcome = compare(pair, Random(pair.name + seed), count)
        share = outcome.taken_by_kernel / max(1, outcome.taken)
        figures = f"{outcome.taken / outcome.looked_at:4.0%} {share:4.0%} {outcome.nanoseconds:5.0f} ns"
        print(f"{pair.name[:60]:60} {count:8} {figures}", flush=True)
        for token in outcome.differing[:3]:
            print("    differs:", token, in_python(pair)(token), filled(_kernel(pair), b"[%b]" % token))
        faults += bool(outcome.differing)
    return 1 if faults else 0


if __name__ == "__main__":
    sys.exit(main())
