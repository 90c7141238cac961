"""Whether a message that is twice as long takes twice the time: rows, columns, statements, definitions,
parentheses, segments, and whatever else of a real message can be repeated.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING, Final

import msgspec

from fuzz.findings import BrokenError, Finding
from fuzz.json_tree import Node, content, spliced
from fuzz.mutations import Document, document, frame, segments
from fuzz.oracle import Bench
from fuzz.words import json_string
from relay import ConsumerRecord

if TYPE_CHECKING:
    from fuzz.session import Session

#: Ways that one session tries.
_WAYS: Final = 3
_FIRST: Final = 128
_MAX_BYTES: Final = 400_000
#: Time from which a ratio says something, and after which nothing longer is tried.
_MIN_SECONDS: Final = 0.15
_MAX_SECONDS: Final = 1.0
#: Four times as long may take so many times the time: 4 is linear, 16 quadratic.
MAX_RATIO: Final = 9.0
#: How often a ratio that says so is measured again.
_ROUNDS: Final = 3

Grow = Callable[[int], ConsumerRecord]


def scaled(session: Session, deadline: float) -> Iterator[Finding]:
    """Findings about one record of the session, grown in some of the ways that there are."""
    chance = random.Random(session.seed ^ session.number)
    records = session.statements if session.statements and chance.random() < 0.5 else session.sample.records
    found = list(ways(chance.choice(records), chance))
    bench = Bench(session.setting)
    bench.prime(session.setting.prefix)
    for name, grow in chance.sample(found, min(_WAYS, len(found))):
        if time.monotonic() > deadline:
            return
        try:
            measured(bench, grow)
        except BrokenError as error:
            location = f"{name}, {session.setting.source}" if error.check == "time" else error.location
            origin = f"seed {session.seed} session {session.number}, {session.sample.name}"
            case = (grow(_FIRST),)
            yield Finding(
                error.check, error.kind, location, error.detail, session.setting, (case,), (), origin
            )


def measured(bench: Bench, grow: Grow) -> None:
    """Make it longer until it takes time, and compare with a quarter of it. Raises BrokenError."""
    times: list[float] = []
    size, length = _FIRST, 0
    while length < _MAX_BYTES and not (times and times[-1] > _MAX_SECONDS):
        record = grow(size)
        length = len(record.value or b"") + len(record.key or b"")
        times.append(seconds_of(bench, record))
        is_suspect = times[-1] > _MIN_SECONDS and len(times) > 2 and _ratio(times[-1], times[-3]) > MAX_RATIO
        if is_suspect and _least_ratio(bench, record, grow(size // 4)) > MAX_RATIO:
            shown = ", ".join(f"{each:.3f}" for each in times)
            raise BrokenError("time", "worse than linear", "", f"{length} bytes; by doubling: {shown} s")
        size *= 2


def _least_ratio(bench: Bench, record: ConsumerRecord, quarter: ConsumerRecord) -> float:
    """How many times longer the whole takes than its quarter, measured again, side by side, for what else
    the machine has to do.
    """
    return min(_ratio(seconds_of(bench, record), seconds_of(bench, quarter)) for _ in range(_ROUNDS))


def _ratio(whole: float, quarter: float) -> float:
    return whole / max(quarter, 1e-4)


def seconds_of(bench: Bench, record: ConsumerRecord) -> float:
    translator = bench.cold(bench.used.state)
    began = time.process_time()
    bench.attempt(translator, translator.translate, record)
    return time.process_time() - began


# ---------------------------------------------------------------- ways to grow


def ways(record: ConsumerRecord, chance: random.Random) -> Iterator[tuple[str, Grow]]:
    """How a record can be made longer, by name."""
    for part in ("key", "value"):
        data: bytes = getattr(record, part) or b""
        version = data[:8] if part == "key" and record.key and record.key[:1] == b"\x00" else b""
        framed = segments(data[len(version) :]) if data[:1] == b"\x00" else None
        if framed:
            yield f"segments of the {part}", _segments(record)
        text = framed[0] if framed else data
        for name, grow in _document_ways(text, chance):
            yield f"{name} of the {part}", _put(record, part, version, framed, grow)


def _put(
    record: ConsumerRecord,
    part: str,
    version: bytes,
    framed: list[bytes] | None,
    grow: Callable[[int], bytes],
) -> Grow:
    def grown(size: int) -> ConsumerRecord:
        text = grow(size)
        data = version + frame([text, *framed[1:]]) if framed else text
        return msgspec.structs.replace(record, **{part: data})

    return grown


def _segments(record: ConsumerRecord) -> Grow:
    keys, values = segments((record.key or b"")[8:]), segments(record.value or b"")
    return lambda size: msgspec.structs.replace(
        record, key=(record.key or b"")[:8] + frame(keys * size), value=frame(values * size)
    )


def _document_ways(text: bytes, chance: random.Random) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    found = document(text)
    if found is None:
        return
    for node in found.statements[:1]:
        for name, statement in _statement_ways(content(text, node)):
            yield name, _replacing(text, node, statement, chance)
    containers = [node for node in found.nodes if node.children and node.parent is not None]
    for node in chance.sample(containers, min(3, len(containers))):
        name = "/".join(filter(None, node.names())) or "the root"
        yield f"more in {name}", _repeating(text, node)
    columns = [node for node in found.values if node.parent is not None and node.parent.kind == "object"]
    if columns:
        yield "more columns", _more_columns(text, found.nodes, chance.choice(columns).name)
    yield from _size_ways(found, chance)


#: Parts of which a text may have any number: white space between tokens, and characters of a string.
_BLANKS: Final = (b" ", b"\n", b"\t", b"\r\n")
_IN_STRINGS: Final = (
    b"1",
    b"\\n",
    b'\\"',
    b"\\\\",
    b"\\u0000",
    b"\\ud83d\\ude00",
    b"\xc3\xa9",
    b",",
    b"'",
    b"(",
    b" ",
)


def _size_ways(found: Document, chance: random.Random) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    """Blanks, digits, nesting and characters of strings, at positions in the document and of its values."""
    text, root = found.text, found.nodes[0]
    blanks = chance.choice(_BLANKS)
    yield f"{blanks!r} behind the document", lambda size: text + blanks * size * 16
    yield f"{blanks!r} before the document", lambda size: blanks * size * 16 + text
    inner = chance.choice(found.nodes[1:] or [root])
    yield (
        f"{blanks!r} before a value",
        _putting(text, inner.start, inner.start, lambda size: blanks * size * 16),
    )
    yield f"{blanks!r} behind a value", _putting(text, inner.end, inner.end, lambda size: blanks * size * 16)
    leaves = found.values or [node for node in found.nodes if not node.children]
    for node in (
        chance.choice(leaves),
        chance.choice([each for each in found.nodes if not each.children] or leaves),
    ):
        path = "/".join(filter(None, node.names())) or "the root"
        piece = chance.choice(_IN_STRINGS)
        for name, grown in _values_of_size(piece):
            yield f"{name} in {path}", _putting(text, node.start, node.end, grown)


def _values_of_size(piece: bytes) -> Iterator[tuple[str, Callable[[int], bytes]]]:
    yield f"many {piece!r}", lambda size: b'"%b"' % (piece * size * 16)
    yield "digits", lambda size: b"1" * size * 16
    yield "digits of a fraction", lambda size: b"0.%b" % (b"1" * size * 16)
    yield "digits of an exponent", lambda size: b"1e%b" % (b"1" * size * 16)
    yield "nested lists", lambda size: b"[" * size + b"]" * size
    yield "nested objects", lambda size: b'{"a":' * size + b"1" + b"}" * size


def _putting(text: bytes, start: int, end: int, grown: Callable[[int], bytes]) -> Callable[[int], bytes]:
    return lambda size: spliced(text, [(start, end, grown(size))])


def _replacing(
    text: bytes, node: Node, statement: Callable[[int], str], chance: random.Random
) -> Callable[[int], bytes]:
    return lambda size: spliced(text, [(node.start, node.end, json_string(statement(size), chance))])


def _repeating(text: bytes, node: Node) -> Callable[[int], bytes]:
    """The last member or element many times, under names of its own."""
    last = node.children[-1]
    raw = text[last.start : last.end]

    def grown(size: int) -> bytes:
        names = [b'"%b%d":' % (last.name.encode("latin-1"), at) for at in range(size)]
        more = [(name if node.kind == "object" else b"") + raw for name in names]
        return spliced(text, [(last.end, last.end, b"," + b",".join(more))])

    return grown


def _more_columns(text: bytes, nodes: list[Node], column: str) -> Callable[[int], bytes]:
    """A column many times, wherever it is a member."""
    named = [node for node in nodes if node.name == column and node.parent is not None]
    grown = [_repeating_one(text, node) for node in named]
    return lambda size: spliced(
        text, [(node.end, node.end, more(size)) for node, more in zip(named, grown, strict=True)]
    )


def _repeating_one(text: bytes, node: Node) -> Callable[[int], bytes]:
    raw, name = text[node.start : node.end], node.name.encode("latin-1")
    return lambda size: b"".join(b',"%b%d":%b' % (name, at, raw) for at in range(size))


def _statement_ways(text: str) -> Iterator[tuple[str, Callable[[int], str]]]:
    def listed(pattern: str) -> Callable[[int], str]:
        return lambda size: ", ".join(pattern.format(n=at) for at in range(size))

    def create(pattern: str) -> Callable[[int], str]:
        return lambda size: f"CREATE TABLE t (id INT, a INT, {listed(pattern)(size)})"

    def alter(pattern: str) -> Callable[[int], str]:
        return lambda size: f"ALTER TABLE t {listed(pattern)(size)}"

    def many(pattern: str) -> Callable[[int], str]:
        return lambda size: ";".join(pattern.format(n=at) for at in range(size))

    def defaults(piece: str) -> Callable[[int], str]:
        return lambda size: f"CREATE TABLE t (a INT DEFAULT {piece * size * 8}"

    yield "the statement many times", lambda size: ";".join([text] * size)
    for pattern in (
        "ALTER TABLE t ADD c{n} INT",
        "CREATE TABLE t{n} (a INT)",
        "DROP TABLE t{n}",
        "RENAME TABLE t TO u, u TO t",
    ):
        yield pattern, many(pattern)
    for pattern in (
        "c{n} INT",
        "UNIQUE (a)",
        "KEY (a)",
        "c{n} INT UNIQUE",
        "c{n} ENUM('a','b')",
        "CHECK (a > {n})",
    ):
        yield f"CREATE TABLE, {pattern}", create(pattern)
    for pattern in (
        "ADD c{n} INT",
        "ADD c{n} INT FIRST",
        "ADD UNIQUE (a)",
        "DROP c{n}",
        "RENAME TO t{n}",
        "ADD c{n} INT AFTER id",
        "CONVERT TO CHARACTER SET gbk",
    ):
        yield f"ALTER TABLE, {pattern}", alter(pattern)
    yield "tables of a DROP", lambda size: "DROP TABLE " + listed("t{n}")(size)
    yield "pairs of a RENAME", lambda size: "RENAME TABLE " + listed("t{n} TO u{n}")(size)
    yield (
        "labels of an ENUM",
        lambda size: f"CREATE TABLE t (a ENUM({listed(chr(39) + 'm{n}' + chr(39))(size)}))",
    )
    yield "columns of a key", lambda size: f"CREATE TABLE t (a INT, PRIMARY KEY ({listed('c{n}')(size)}))"
    for piece in (
        "(",
        "/*",
        "'",
        "`",
        " ",
        ";",
        "-- \n",
        "\\",
        "()",
        "a.",
        "\n#",
        "\t",
        "1",
        "\\'",
        "''",
        "/**/",
        "é",
    ):
        yield f"many {piece!r}", defaults(piece)
    yield from _longer_statements(text)


def _longer_statements(text: str) -> Iterator[tuple[str, Callable[[int], str]]]:
    def before(piece: str) -> Callable[[int], str]:
        return lambda size: piece * size * 8 + text

    def behind(piece: str) -> Callable[[int], str]:
        return lambda size: text + piece * size * 8

    for piece in (" ", "\n", "/**/", ";", "\t(", "*/"):
        yield f"many {piece!r} before", before(piece)
        yield f"many {piece!r} behind", behind(piece)


__all__ = ["MAX_RATIO", "measured", "scaled", "ways"]
