"""Mutations of values that are no JSON but have a structure: Canal's packets, and Avro whose schema is known.

A value is decoded into nodes, some of them are changed, and all are encoded again, so that what stands around a
change stays right: numbers at their extremes, texts, nulls, parts that are missing or come twice, branches of
unions, lengths of lists.
"""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Final, NamedTuple

import msgspec
import simple_avro_schema
from toy_protocol.registry import schema_by_id

from fuzz.statements import is_statement, mutated_statement
from fuzz.words import DATES, NUMBERS, TEXTS, canary, type_word
from relay import ConsumerRecord
from relay.codecs.canal.canal_protobuf.protobuf import fields
from relay.codecs.simple.avro_bytes import SimpleAvroReader
from relay.model.avro_types import AvroType, parse_types
from relay.model.errors import ServiceError
from relay.model.lookups import SchemaById

_MOST_BYTES: Final = 200_000
_NUMBERS: Final = (
    *(0, 1, -1, 2, 7, 127, 128, 255, 1900, 65_536, (1 << 31) - 1, 1 << 31, -(1 << 31) - 1, 1 << 32),
    *((1 << 63) - 1, 1 << 63, -(1 << 63), -(1 << 63) - 1, (1 << 64) - 1, 1 << 64, 1 << 70, 10**14, 719_163),
    *(253_402_300_800_000, -62_135_596_800_001, 470_615_239_938_539_520, 1_795_254_668_955_000_000),
)
_FLOATS: Final = (
    b"\0\0\0\x80",
    b"\xff\xff\x7f\x7f",
    b"\0\0\x80\x7f",
    b"\0\0\xc0\x7f",
    b"\x01\0\0\0",
    b"\x9a\x99\x99>",
)
_DOUBLES: Final = (
    *(b"\0\0\0\0\0\0\0\x80", b"\xff\xff\xff\xff\xff\xff\xef\x7f", b"\0\0\0\0\0\0\xf0\xff"),
    *(b"\0\0\0\0\0\0\xf8\x7f", b"\x01\0\0\0\0\0\0\0", b"\x9a\x99\x99\x99\x99\x99\xb9?"),
)
#: Members of Avro that hold rows; where a message has none of them, all of its fields are columns.
_ROWS: Final = frozenset({"before", "after", "data", "old"})


@dataclass
class Node:
    """A part of a value. `kind`: how it is encoded; `value`: a number or bytes, where it is not made of
    `parts`. `type`: of Avro.
    """

    kind: str
    value: int | bytes = 0
    parts: list[Node] = field(default_factory=list)
    name: str = ""
    is_cell: bool = False
    type: AvroType | None = None

    def within(self) -> Iterator[Node]:
        """Give the node and all below it."""
        yield self
        for part in self.parts:
            yield from part.within()


class Decoded(NamedTuple):
    """A value: what stands before its structure, the root of that, and how it is encoded."""

    head: bytes
    root: Node
    encode: Callable[[Node], bytes]

    def encoded(self) -> bytes:
        """Return the value as it is now."""
        return self.head + self.encode(self.root)


def changed(record: ConsumerRecord, chance: random.Random) -> ConsumerRecord | None:
    """The record with a change inside its key or value; None if neither has a structure that is known."""
    part = "key" if record.key and (not record.value or chance.random() < _KEYS) else "value"
    found = decoded(getattr(record, part) or b"", chance)
    if found is None:
        return None
    for _ in range(chance.choice((1, 1, 1, 2, 3))):
        _change(found.root, chance)
    return msgspec.structs.replace(record, **{part: found.encoded()})


_KEYS: Final = 0.1


def decoded(data: bytes, chance: random.Random | None = None) -> Decoded | None:
    """Take a value apart, or, with `chance`, some of its parts; None if its structure is not known."""
    if not data or len(data) > _MOST_BYTES or data[:1] in {b"{", b"["}:
        return None
    if _PACKET in data[:_HEAD]:
        return Decoded(b"", _packet(data, chance), _as_protobuf)
    head = data[:_HEAD] if data[:1] == b"\0" else b""
    for size, avro in ((len(head), _registered(int.from_bytes(head[1:], "big"))), (0, _simple())):
        root = None if avro is None else _whole(avro, SimpleAvroReader(data, size))
        if root is not None:
            return Decoded(data[:size], root, _as_avro)
    return None


#: Bytes of a zero and the id of a schema; a packet's type, which stands before all that is long.
_HEAD, _PACKET = 5, b"\x18\x07"


def _whole(avro: AvroType, reader: SimpleAvroReader) -> Node | None:
    try:
        root = _avro(avro, reader, "")
    except (ValueError, RecursionError):
        return None
    if not reader.is_done:
        return None
    _mark_cells(root)
    return root


@functools.lru_cache(1000)
def _registered(id: int) -> AvroType | None:
    try:
        schema = schema_by_id(SchemaById("source", id))
        return parse_types(schema.text, schema.references)
    except (ServiceError, ValueError):
        return None


@functools.cache
def _simple() -> AvroType:
    return parse_types(json.dumps(simple_avro_schema.SCHEMA))


# ---------------------------------------------------------------- Avro


def _avro(avro: AvroType, reader: SimpleAvroReader, name: str) -> Node:
    """A value of a type. Raises ValueError."""
    kind, found = avro.kind, Node(avro.kind, name=name, type=avro)
    if kind in {"int", "long", "enum"}:
        found.value = reader.long()
    elif kind in _SIZES or kind == "fixed":
        found.value = reader.take(_SIZES.get(kind, avro.size))
    elif kind in {"bytes", "string"}:
        found.value = reader.data()
    elif kind == "record":
        found.parts = [_avro(each.type, reader, each.name) for each in avro.fields]
    elif kind == "union":
        found.value = reader.long()
        if not 0 <= found.value < len(avro.branches):
            raise ValueError("no branch")
        found.parts = [_avro(avro.branches[found.value], reader, name)]
    elif kind in {"array", "map"} and avro.items is not None:
        items, has_names = avro.items, kind == "map"
        found.parts = list(reader.items(lambda inside: _item(items, inside, has_names=has_names)))
    return found


_SIZES: Final = {"null": 0, "boolean": 1, "float": 4, "double": 8}
_STRING: Final = AvroType("string")


def _item(items: AvroType, reader: SimpleAvroReader, *, has_names: bool) -> Node:
    if not has_names:
        return _avro(items, reader, "")
    name = _avro(_STRING, reader, "name")
    return Node("entry", parts=[name, _avro(items, reader, "")])


def _empty(avro: AvroType) -> Node:
    """A value of a type that nothing is in."""
    found = Node(avro.kind, type=avro)
    if avro.kind == "union":
        found.parts = [_empty(avro.branches[0])]
    elif avro.kind == "record":
        found.parts = [_empty(each.type) for each in avro.fields]
    elif avro.kind not in {"int", "long", "enum", "array", "map"}:
        found.value = bytes(_SIZES.get(avro.kind, avro.size))
    return found


def _mark_cells(root: Node) -> None:
    rows = [node for node in root.within() if node.name in _ROWS] or [root]
    for row in rows:
        for node in row.within():
            node.is_cell = not node.parts and node.name != "name"


def _long(value: int) -> bytes:
    """A number of any length."""
    return _varint(2 * value if value >= 0 else -2 * value - 1)


def _varint(value: int) -> bytes:
    found = bytearray()
    while value > 0x7F:
        found.append(value & 0x7F | 0x80)
        value >>= 7
    return bytes((*found, value))


def _as_avro(node: Node) -> bytes:
    inside = b"".join(map(_as_avro, node.parts))
    if node.kind in {"array", "map"}:
        # `value` is how much the count is wrong, or 2 for a block that has its size before it.
        count = len(node.parts)
        if node.value == _SIZED and count:
            return _long(-count) + _long(len(inside)) + inside + b"\0"
        head = count + int(node.value) if node.value != _SIZED else count
        return (_long(head) if head else b"") + inside + b"\0"
    if node.kind == "union":
        return _long(int(node.value)) + inside
    if isinstance(node.value, bytes):
        return _long(len(node.value)) + node.value if node.kind in {"bytes", "string"} else node.value
    return _long(node.value) if node.kind in {"int", "long", "enum"} else inside


_SIZED: Final = 2

# ---------------------------------------------------------------- packets

#: What messages have inside, by the number of the field (`relay.codecs.canal.canal_protobuf.packets`).
_INSIDE: Final[dict[str, dict[int, str]]] = {
    "packet": {5: "messages"},
    "messages": {2: "entry"},
    "entry": {1: "header", 3: "change"},
    "header": {12: "pair"},
    "change": {12: "row", 3: "pair"},
    "row": {1: "column", 2: "column"},
}
_COLUMN_TEXT: Final = 8
_OPENED: Final = 4


def _packet(data: bytes, chance: random.Random | None, kind: str = "packet") -> Node:
    """A message of packets; bytes that are none, where one is expected, stay bytes. With `chance` only some
    of many messages inside are taken apart.
    """
    try:
        found = list(fields(data))
    except ValueError:
        return Node("data", data)
    parts, inside = [], _INSIDE.get(kind, {})
    share = _OPENED / max(1, sum(number in inside for number, _ in found))
    for number, value in found:
        if isinstance(value, int):
            part = Node("number", value, name=kind)
        elif number in inside and (chance is None or chance.random() < share):
            part = _packet(value, chance, inside[number])
        else:
            part = Node("data", value, name=kind, is_cell=kind == "column" and number == _COLUMN_TEXT)
        parts.append(Node("field", number, [part]))
    return Node("message", parts=parts, name=kind)


def _as_protobuf(node: Node) -> bytes:
    inside = b"".join(map(_as_protobuf, node.parts))
    if node.kind == "field":
        is_number = node.parts[0].kind == "number"
        length = b"" if is_number else _varint(len(inside))
        return _varint(int(node.value) << 3 | (0 if is_number else 2)) + length + inside
    if node.kind == "number":
        value = int(node.value)
        return _varint(value % (1 << 64) if value < 0 else value)
    return node.value if isinstance(node.value, bytes) else inside


# ---------------------------------------------------------------- changes


def _change(root: Node, chance: random.Random) -> None:
    """Change one part: mostly a number or a text, rather often one of a row."""
    nodes = [node for node in root.within() if node.kind not in {"null", "field", "entry"}]
    cells = [node for node in nodes if node.is_cell]
    node = chance.choice(cells) if cells and chance.random() < 0.4 else chance.choice(nodes)
    if node.kind == "union":
        _other_branch(node, chance)
    elif node.parts or node.kind in {"array", "map"}:
        _other_parts(node, chance)
    elif isinstance(node.value, bytes):
        node.value = _other_bytes(node, chance)
    else:
        near = int(node.value) + chance.choice((-1, 1, 1000))
        node.value = chance.choice((*_NUMBERS, near))


def _other_branch(node: Node, chance: random.Random) -> None:
    branches = node.type.branches if node.type is not None else ()
    roll = chance.random()
    if roll < 0.1 or not branches:
        node.value = chance.choice((-1, len(branches), 1 << 40))
    elif roll < 0.2:  # the bytes of another one
        node.value = chance.randrange(len(branches))
    else:
        node.value = chance.randrange(len(branches))
        node.parts = [_empty(branches[node.value])]


def _other_parts(node: Node, chance: random.Random) -> None:
    """Parts less, again, in another order, moved, of another number; a wrong count, or a size before them."""
    at = chance.randrange(len(node.parts) + 1)
    match chance.randrange(7):
        case 0 | 1:
            del node.parts[at : at + chance.choice((1, 1, 1, 2, 100))]
        case 2:
            node.parts[at:at] = node.parts[at : at + 1] * chance.choice((1, 1, 2, 40))
        case 3:
            chance.shuffle(node.parts)
        case 4 if node.kind in {"array", "map"}:
            node.value = chance.choice((_SIZED, _SIZED, 1, -1, 1 << 40, -(1 << 63)))
        case 5 if node.kind == "message" and node.parts:
            chance.choice(node.parts).value = chance.choice((1, 2, 3, 6, 8, 10, 11, 12, 14, 1000))
        case _ if len(node.parts) > 1:
            one, other = chance.sample(range(len(node.parts)), 2)
            node.parts[one] = node.parts[other]
        case _:
            node.parts = []


def _other_bytes(node: Node, chance: random.Random) -> bytes:
    if node.kind in {"float", "double"}:
        return chance.choice(_FLOATS if node.kind == "float" else _DOUBLES)
    if node.kind == "boolean":
        return chance.choice((b"\0", b"\1", b"\2"))
    old = bytes(node.value) if isinstance(node.value, bytes) else b""
    text = old.decode(errors="replace")
    roll = chance.random()
    if is_statement(text) and roll < 0.9:
        return mutated_statement(text, chance)[:_MOST_BYTES].encode(errors="surrogatepass")
    if node.is_cell and roll < 0.3:
        return _content(canary(chance))
    if roll < 0.4:
        return old[: chance.randrange(len(old) + 1)]
    words = (chance.choice(DATES), chance.choice(TEXTS), type_word(chance), chance.choice(TEXTS))
    if roll < 0.9:
        return chance.choice((*words, chance.choice(NUMBERS).decode())).encode(errors="surrogatepass")
    return chance.choice(
        (b"\xff", b"\xed\xa0\x80", old * 2, b"\0" + old, old + b"\0", b"\x80" * 9, b"x" * 3_000)
    )


def _content(token: bytes) -> bytes:
    """What a JSON string of a canary holds, as it stands there."""
    return token.strip(b'"')
