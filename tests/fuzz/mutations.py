"""Mutations of a record: its JSON documents, their frames and compression, plain bytes, and what Kafka adds.

A wire is known by its bytes, not by its protocol: whatever is JSON, with Open Protocol's frames or an LZ4 or
snappy block around it, is changed by its structure, so are packets and Avro (`fuzz.binary`), and everything
else as bytes. So a new protocol needs nothing here.
"""

from __future__ import annotations

import functools
import json
import random
import re
from collections.abc import Callable, Sequence
from typing import Final, NamedTuple

import cramjam
import msgspec

from fuzz import binary
from fuzz.json_tree import Edit, Node, NoTreeError, content, parse_tree, spliced
from fuzz.statements import is_statement, mutated_statement
from fuzz.words import DATES, NUMBERS, TEXTS, canary, json_string, odd_text, type_word
from relay import ConsumerRecord
from relay.model.records import Header

#: Members that hold rows, as protocols name them; what lies below them is values.
_ROW_MEMBERS: Final = frozenset({"data", "old", "before", "after", "NEW_VALUES", "OLD_VALUES", "u", "p", "d"})
#: In these a value is a member of its own, among codes and flags.
_TAGGED_ROWS: Final = frozenset({"u", "p", "d"})
_LZ4_MAGIC: Final = b"\x04\x22\x4d\x18"
#: What stands before the JSON of statements and watermarks of TiCDC's Avro.
_MARKS: Final = frozenset({1, 2})
_VERSION: Final = (1).to_bytes(8, "big")
_DATE: Final = re.compile(r"-?\d{1,4}[-:]\d\d[-:]\d\d").match
_TYPE: Final = re.compile(r"(?i)[a-z]+(\s*\(.*\))?( unsigned| zerofill)*", re.DOTALL).fullmatch
_TYPE_MEMBERS: Final = frozenset({"mysqlType", "typeName", "typeExpression", "type"})
_CONTAINERS: Final = (
    b"{}",
    b"[]",
    b"[null]",
    b"[[]]",
    b'{"":1}',
    b'[{"a":1},2]',
    b'{"a":{"b":[]}}',
    b"[1,2,3]",
)
_NAMES: Final = (
    b"",
    b"a",
    b"\\u0000",
    b"\\ud800",
    b"\xff",
    b"id",
    b"ID",
    b"a.b",
    b"$",
    b'\\"',
    b"n" * 3000,
    b"\xc3\xa9",
)


class Document(NamedTuple):
    """A JSON text and its nodes: all of them, those of row values, and those of statements."""

    text: bytes
    nodes: list[Node]
    values: list[Node]
    statements: list[Node]


@functools.lru_cache(400)
def document(text: bytes) -> Document | None:
    """The nodes of a JSON text; None if it is no JSON object or list."""
    if text[:1] not in {b"{", b"["} or len(text) > 200_000:
        return None
    try:
        nodes = list(parse_tree(text).within())
    except NoTreeError:
        return None
    leaves = [node for node in nodes if not node.children]
    return Document(
        text,
        nodes,
        [node for node in leaves if _is_value(node)],
        [node for node in leaves if node.kind == "string" and is_statement(content(text, node))],
    )


def _is_value(node: Node) -> bool:
    names = node.names()
    if _TAGGED_ROWS.intersection(names[:2]):
        return node.name == "v"
    return not _ROW_MEMBERS.isdisjoint(names[:-1])


def mutated(
    record: ConsumerRecord, donors: Sequence[ConsumerRecord], chance: random.Random
) -> ConsumerRecord:
    """The record with a change, or several. Parts of `donors` may come into it."""
    roll = chance.random()
    if roll < 0.08:
        return _envelope(record, donors, chance)
    if roll < 0.14:
        return _bytes_of(record, chance)
    if roll < 0.16:
        return _compressed(record, chance)
    key, value = record.key or b"", record.value or b""
    if key.startswith(_VERSION):
        return _framed(record, donors, chance)
    if (whole := binary.changed(record, chance)) is not None:
        return whole
    if (not value or chance.random() < 0.08) and key:
        return msgspec.structs.replace(record, key=_key(key, donors, chance))
    inner, packed = unpacked(value)
    return msgspec.structs.replace(record, value=packed(_text(inner, donors, chance)))


# ---------------------------------------------------------------- documents


def _text(text: bytes, donors: Sequence[ConsumerRecord], chance: random.Random) -> bytes:
    """A changed document, or changed bytes if it is none."""
    found = document(text)
    if found is None:
        return changed_bytes(text, chance)
    edits = []
    for _ in range(chance.choice((1, 1, 1, 2, 2, 4))):
        roll = chance.random()
        if found.statements and roll < 0.7:
            edits.append(_statement_edit(found, chance))
        elif found.values and roll < 0.35:
            node = chance.choice(found.values)
            edits.append((node.start, node.end, _value(found, node, chance)))
        else:
            node = chance.choice(found.nodes) if chance.random() < 0.4 else _walked(found.nodes[0], chance)
            edits.append(chance.choice(_EDITS)(found, node, donors, chance))
    return spliced(text, edits)


def _key(text: bytes, donors: Sequence[ConsumerRecord], chance: random.Random) -> bytes:
    """A changed key: its values are a row's, too."""
    found = document(text)
    leaves = [] if found is None else [node for node in found.nodes if node.parent and not node.children]
    if not leaves or chance.random() < 0.6:
        return _text(text, donors, chance)
    node = chance.choice(leaves)
    return spliced(text, [(node.start, node.end, canary(chance))])


def _walked(node: Node, chance: random.Random) -> Node:
    """A node that is found by going down: those near the root are met more often."""
    while node.children and chance.random() < 0.85:
        node = chance.choice(node.children)
    return node


def _statement_edit(found: Document, chance: random.Random) -> Edit:
    node = chance.choice(found.statements)
    text = mutated_statement(content(found.text, node), chance)
    return node.start, node.end, json_string(text[:400_000], chance)


def _value(found: Document, node: Node, chance: random.Random) -> bytes:
    """Another value of a row: mostly a canary, or one that fits better."""
    roll = chance.random()
    if roll < 0.5:
        return canary(chance)
    old = content(found.text, node)
    if roll < 0.65 and _DATE(old):
        return json_string(chance.choice(DATES), chance)
    if roll < 0.85:
        number = chance.choice(NUMBERS)
        return b'"%b"' % number if node.kind == "string" else number
    return odd_text(chance) if roll < 0.95 else b"null"


def _replaced(found: Document, node: Node, _donors: Sequence[ConsumerRecord], chance: random.Random) -> Edit:
    """A value of any type instead; types and dates become other ones rather often."""
    old, roll = content(found.text, node), chance.random()
    if node.kind == "string" and roll < 0.6:
        if _TYPE_MEMBERS.intersection(node.names()[-2:]) and _TYPE(old):
            return node.start, node.end, json_string(type_word(chance), chance)
        if _DATE(old):
            return node.start, node.end, json_string(chance.choice(DATES), chance)
    if roll < 0.75:
        new = chance.choice(NUMBERS)
    elif roll < 0.9:
        new = odd_text(chance)
    else:
        new = chance.choice((b"null", b"true", b"false", *_CONTAINERS))
    return node.start, node.end, new


def _swapped_type(
    found: Document, node: Node, _donors: Sequence[ConsumerRecord], chance: random.Random
) -> Edit:
    """The same value as another type: quoted, bare, in a list, in an object, as text of itself."""
    raw = found.text[node.start : node.end]
    match chance.randrange(4):
        case 0:
            new = raw[1:-1] if node.kind == "string" else b'"%b"' % raw.replace(b'"', b'\\"')
        case 1:
            new = b"[%b]" % raw
        case 2:
            new = b'{"v":%b}' % raw
        case _:
            depth = chance.choice((2, 20, 200, 2000))
            new = b"[" * depth + raw + b"]" * depth
    return node.start, node.end, new


def _removed(found: Document, node: Node, _donors: Sequence[ConsumerRecord], _chance: random.Random) -> Edit:
    if node.parent is None:
        return node.start, node.end, b""
    siblings = node.parent.children
    index = siblings.index(node)
    if index:
        return siblings[index - 1].end, node.end, b""
    end = siblings[1].member_start if len(siblings) > 1 else node.end
    return node.member_start, end, b""


def _duplicated(
    found: Document, node: Node, _donors: Sequence[ConsumerRecord], chance: random.Random
) -> Edit:
    """The member or element once more, or many times; the copy may have another value."""
    if node.parent is None:
        return node.end, node.end, found.text[node.start : node.end]
    raw = found.text[node.member_start : node.end]
    if chance.random() < 0.4:
        raw = found.text[node.member_start : node.start] + chance.choice(
            (b"null", b"1", b'"x"', b"{}", b"[]")
        )
    return node.end, node.end, (b"," + raw) * chance.choice((1, 1, 1, 1, 2, 40))


def _renamed(found: Document, node: Node, donors: Sequence[ConsumerRecord], chance: random.Random) -> Edit:
    if node.parent is None or node.parent.kind != "object":
        return _swapped_type(found, node, donors, chance)
    old = node.name.encode("latin-1")
    others = [each.name.encode("latin-1") for each in node.parent.children]
    new = chance.choice((old.swapcase(), old + b"_", old[:-1], chance.choice(others), chance.choice(_NAMES)))
    return node.member_start, node.start, b'"%b":' % new


def _shuffled(found: Document, node: Node, donors: Sequence[ConsumerRecord], chance: random.Random) -> Edit:
    if len(node.children) < 2:
        return _replaced(found, node, donors, chance)
    parts = [found.text[child.member_start : child.end] for child in node.children]
    chance.shuffle(parts)
    return node.start + 1, node.end - 1, b",".join(parts)


def _donated(found: Document, node: Node, donors: Sequence[ConsumerRecord], chance: random.Random) -> Edit:
    """A part of this or of another message; one of the same name, if there is one."""
    other = document(chance.choice(donors).value or b"") or found
    alike = [each for each in other.nodes if each.name == node.name and each.name]
    given = chance.choice(alike if alike and chance.random() < 0.7 else other.nodes)
    return node.start, node.end, other.text[given.start : given.end][:20_000]


def _spaced(found: Document, node: Node, _donors: Sequence[ConsumerRecord], chance: random.Random) -> Edit:
    """White space, or what JSON forbids, before a value."""
    return (
        node.start,
        node.start,
        chance.choice((b" ", b"\n", b"\t\r\n ", b"/* */", b"\x00", b",", b" " * 3000)),
    )


#: Parts of which hostile input may have thousands.
_BLANKS: Final = (b" ", b"\n", b"\t", b"\r\n \t")
_IN_STRINGS: Final = (
    b"9",
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
_IN_NUMBERS: Final = (b"%b", b"-%b", b"0.%b", b"%b.5", b"1e%b", b"0.%be-9", b'"%b"', b'"-0.%b"')
_SIZES: Final = (1000, 4300, 5000, 20_000, 100_000)


def _grown(found: Document, node: Node, _donors: Sequence[ConsumerRecord], chance: random.Random) -> Edit:
    """Thousands of blanks, digits, characters of a string, or levels, or of a member's kind."""
    size = chance.choice(_SIZES)
    match chance.randrange(5):
        case 0:
            offset = chance.choice((node.member_start, node.start, node.end, 0, len(found.text)))
            return offset, offset, chance.choice(_BLANKS) * size
        case 1:
            new = chance.choice(_IN_NUMBERS) % (chance.choice((b"0", b"1", b"9")) * size)
        case 2:
            new = b'"%b"' % (chance.choice(_IN_STRINGS) * size)
        case 3:
            opening, closing = chance.choice(
                ((b"[", b"]"), (b'{"a":', b"}"), (b"[{}, ", b"]"), (b'"[', b'"'))
            )
            new = opening * size + b"1" + closing * size
        case _:
            raw = found.text[node.start : node.end][:20]
            new = b"[" + b",".join([raw] * (size // 10)) + b"]"
    return node.start, node.end, new


_Edit = Callable[[Document, Node, Sequence[ConsumerRecord], random.Random], Edit]
_EDITS: Final[tuple[_Edit, ...]] = (
    *(_replaced, _replaced, _replaced, _replaced, _swapped_type, _swapped_type, _removed, _removed, _removed),
    *(_duplicated, _duplicated, _renamed, _renamed, _shuffled, _donated, _donated, _spaced, _grown),
)


# ---------------------------------------------------------------- frames and compression


def _is_json(data: bytes) -> bool:
    """Whether it is JSON: a Snappy block that holds 123 bytes begins with a brace, too."""
    try:
        json.loads(data)
    except (ValueError, RecursionError):
        return False
    return True


def unpacked(data: bytes) -> tuple[bytes, Callable[[bytes], bytes]]:
    """What is in a compressed block, and how to compress it again."""
    try:
        if data.startswith(_LZ4_MAGIC):
            return bytes(cramjam.lz4.decompress(data)), lambda inner: bytes(cramjam.lz4.compress(inner))
        if data[1:2] == b"{" and data[0] in _MARKS:
            return data[1:], lambda inner: data[:1] + inner
        if data[:40].count(b'"') > 2 and not _is_json(data):
            inner = bytes(cramjam.snappy.decompress_raw(data))
            return inner, lambda inner: bytes(cramjam.snappy.compress_raw(inner))
    except cramjam.DecompressionError:
        pass
    return data, lambda inner: inner


def _compressed(record: ConsumerRecord, chance: random.Random) -> ConsumerRecord:
    """The value in a compressed block, whole or damaged, or what becomes a thousand times as long."""
    inner, _ = unpacked(record.value or b"")
    roll = chance.random()
    if roll < 0.02:
        inner = chance.choice((b" ", b"[", b"\x00", b'{"a":"')) * chance.choice((1 << 18, 4 << 20))
    elif roll < 0.04:
        inner = inner[:-1] + b" " * (4 << 20) + inner[-1:]
    method = chance.choice((cramjam.lz4.compress, cramjam.snappy.compress_raw, cramjam.snappy.compress))
    packed = bytes(method(inner))
    if chance.random() < 0.5:
        packed = changed_bytes(packed, chance)
    return msgspec.structs.replace(record, value=packed)


def segments(data: bytes) -> list[bytes]:
    """The parts of a key or value with Open Protocol's frames, as far as the lengths lead."""
    found, at = [], 0
    while at + 8 <= len(data):
        size = int.from_bytes(data[at : at + 8], "big", signed=True)
        if size < 0:
            break
        found.append(data[at + 8 : at + 8 + size])
        at += 8 + size
    return found


def frame(parts: Sequence[bytes]) -> bytes:
    """The parts with their lengths."""
    return b"".join(len(part).to_bytes(8, "big") + part for part in parts)


def _framed(
    record: ConsumerRecord, donors: Sequence[ConsumerRecord], chance: random.Random
) -> ConsumerRecord:
    """Open Protocol: a segment changed, or the frames themselves."""
    keys, values = segments((record.key or b"")[8:]), segments(record.value or b"")
    roll = chance.random()
    if roll < 0.75 and keys and values:
        parts = keys if chance.random() < 0.25 or not any(values) else values
        at = chance.randrange(len(parts))
        inner, packed = unpacked(parts[at])
        parts[at] = packed(_text(inner, donors, chance))
    elif roll < 0.87:
        _change_segments(keys, values, chance.choice(donors), chance)
    key, value = _VERSION + frame(keys), frame(values)
    if roll >= 0.87:
        key, value = _wrong_lengths(key, chance), _wrong_lengths(value, chance)
    return msgspec.structs.replace(record, key=key, value=value)


def _change_segments(
    keys: list[bytes], values: list[bytes], donor: ConsumerRecord, chance: random.Random
) -> None:
    """Segments once more, less, in another order, or of another message."""
    roll = chance.randrange(5)
    if roll == 0:
        times = chance.choice((2, 5, 50))
        keys *= times
        values *= times if chance.random() < 0.9 else 1
    elif roll == 1:
        chance.shuffle(values)
    elif roll == 2:
        del (keys if chance.random() < 0.5 else values)[-1:]
    elif roll == 3:
        keys += segments((donor.key or b"")[8:])
        values += segments(donor.value or b"")
    else:
        values[:] = segments(donor.value or b"")


def _wrong_lengths(data: bytes, chance: random.Random) -> bytes:
    """Another number where a length or the version stands."""
    if len(data) < 8 or chance.random() < 0.4:
        return data
    at = chance.choice((0, 8)) if len(data) >= 16 else 0
    old = int.from_bytes(data[at : at + 8], "big", signed=True)
    new = chance.choice((old + 1, old - 1, 0, -1, 2**63 - 1, -(2**63), 2**31, old + 8, old // 2, 2))
    return data[:at] + (new & (2**64 - 1)).to_bytes(8, "big") + data[at + 8 :]


# ---------------------------------------------------------------- bytes and envelopes


def changed_bytes(data: bytes, chance: random.Random) -> bytes:
    """Bits flipped, bytes cut, put in, doubled."""
    if not data:
        return chance.choice((b"\x00", b"{}", b"[]", b"null", b"\xff\xfe", b'{"a":1}', b"1"))
    for _ in range(chance.choice((1, 1, 2, 5))):
        at = chance.randrange(len(data) + 1)
        match chance.randrange(5):
            case 0:
                data = (
                    data[:at] + bytes([data[at] ^ (1 << chance.randrange(8))]) + data[at + 1 :]
                    if data[at:]
                    else data
                )
            case 1:
                data = data[:at]
            case 2:
                data = (
                    data[:at]
                    + chance.choice((b"\x00", b"\xff", b'"', b"{", b"}", b"[", b",", b"\\", b"9" * 50))
                    + data[at:]
                )
            case 3:
                end = min(len(data), at + chance.choice((1, 8, 200)))
                data = data[:at] + data[at:end] * 2 + data[end:]
            case _:
                end = min(len(data), at + chance.choice((1, 8, 200)))
                data = data[:at] + data[end:]
    return data


def _bytes_of(record: ConsumerRecord, chance: random.Random) -> ConsumerRecord:
    if record.key and chance.random() < 0.3:
        return msgspec.structs.replace(record, key=changed_bytes(record.key, chance))
    return msgspec.structs.replace(record, value=changed_bytes(record.value or b"", chance))


def _envelope(
    record: ConsumerRecord, donors: Sequence[ConsumerRecord], chance: random.Random
) -> ConsumerRecord:
    """Another key, value, timestamp, partition, or headers."""
    other = chance.choice(donors)
    match chance.randrange(8):
        case 0:
            keys = (
                None,
                b"",
                b"{}",
                b"\xff",
                b"null",
                b'{"payload":{}}',
                b'{"payload":null}',
                record.value,
                bytes(8),
            )
            return msgspec.structs.replace(record, key=chance.choice(keys))
        case 1 | 2:
            return msgspec.structs.replace(record, key=other.key)
        case 3:
            return msgspec.structs.replace(record, value=other.value)
        case 4:
            values = (
                None,
                b"",
                b"{}",
                b"[]",
                b"null",
                b"{",
                record.key,
                b" ",
                b"\xef\xbb\xbf" + (record.value or b""),
            )
            return msgspec.structs.replace(record, value=chance.choice(values))
        case 5:
            times = (-1, 0, 1, 2**31, 2**53, 2**63 - 1, record.timestamp_ms + 10**9)
            return msgspec.structs.replace(record, timestamp_ms=chance.choice(times))
        case 6:
            partition = chance.choice((0, 1, 2, 7, 2**31 - 1))
            return msgspec.structs.replace(record, partition=partition)
        case _:
            return msgspec.structs.replace(record, headers=_headers(chance))


def _headers(chance: random.Random) -> tuple[Header, ...]:
    names = (*TEXTS, "relay.source", "relay.error.code", "relay.replayed", "x")
    values = (None, b"", b"\xff", b"a/0/1/0", b"x" * 5000)
    count = chance.choice((1, 2, 3, 200))
    return tuple((chance.choice(names), chance.choice(values)) for _ in range(count))
