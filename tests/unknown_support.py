"""Messages with a member that no protocol defines, in each object whose members' names a protocol defines.

A protocol that is added needs nothing here if its messages are JSON, or Avro with a registry.
"""

from __future__ import annotations

import functools
import io
import json
from collections.abc import Callable, Iterator, Mapping
from typing import Any, NamedTuple

import fastavro
import msgspec
from fuzz.json_tree import Node, parse_tree
from fuzz.mutations import unpacked
from toy_protocol.registry import remember

from relay import ConsumerRecord, Resolver
from relay.codecs import PROTOCOLS
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, fields, number_field
from relay.codecs.open_protocol.frames import framed_key, framed_value, unframe
from relay.model.errors import ServiceError
from relay.model.lookups import RegisteredSchema, SchemaById

NAME = "unheard_of"
Path = tuple[str | int, ...]


class Member(NamedTuple):
    """The value of the unknown member, and whether it is an object's first one or its last."""

    value: bytes = b'{"by":["anyone",1]}'
    is_first: bool = False

    def added(self, text: bytes, part: Node) -> bytes:
        """The text with this member in one of its objects, which has others."""
        member = b'"%b":%b' % (NAME.encode(), self.value)
        if self.is_first:
            return text[: part.start + 1] + member + b"," + text[part.start + 1 :]
        return text[: part.end - 1] + b"," + member + text[part.end - 1 :]


LAST = Member()


class Changed(NamedTuple):
    """A record with an unknown member, and where that is."""

    record: ConsumerRecord
    where: str


#: Objects of any names: parameters of Connect's schemas, and types by column, whose names Canal may escape.
MAPS = {"parameters", "sqlType", "mysqlType"}
#: Rows of Open Protocol. In `p`, TiCDC leaves out the names of columns that have become NULL, so that the members
#: of their cells look like the row's own.
ROWS = {("u",), ("p",), ("d",)}

# ---------------------------------------------------------------- JSON


def objects(value: Any, columns: set[str], path: Path = ()) -> Iterator[Path]:
    """Where a document has objects whose members have names of the protocol."""
    if isinstance(value, dict):
        # An element of a list of rows; its names may be escaped as well.
        is_image = path[-2:-1] in {("data",), ("old",)} and isinstance(path[-1], int)
        is_image |= path in ROWS
        is_of_columns = not value or value.keys() <= columns or is_image or (path and path[-1] in MAPS)
        if not is_of_columns:
            yield path
        for name, member in value.items():
            is_document = (
                path[-1:] in {("data",), ("old",)} and isinstance(member, dict) and not is_zoned(member)
            )
            if not is_document:
                yield from objects(member, columns, (*path, name))
    elif isinstance(value, list):
        for at, item in enumerate(value[:1]):
            yield from objects(item, columns, (*path, at))


def is_zoned(value: dict[str, Any]) -> bool:
    """Whether this is TiCDC Simple's TIMESTAMP."""
    return value.keys() == {"location", "value"}


def changed_text(data: bytes, columns: set[str], member: Member = LAST) -> Iterator[tuple[bytes, str]]:
    """A text, which may be compressed, with an unknown member in each object; none if it is no JSON."""
    text, packed = unpacked(data)
    if text[:1] == b"{":
        root = parse_tree(text)
        for path in objects(json.loads(text), columns):
            changed = member.added(text, functools.reduce(step_into, path, root))
            yield packed(changed), ".".join(map(str, path))


def step_into(node: Node, step: str | int) -> Node:
    """The part of this name or number; of members with one name the last, as Python reads them."""
    if isinstance(step, int):
        return node.children[step]
    return next(each for each in reversed(node.children) if read_name(each) == step)


def read_name(node: Node) -> str:
    name: str = json.loads(b'"%b"' % node.name.encode("latin-1"))
    return name


def of_json(record: ConsumerRecord, columns: set[str], member: Member) -> Iterator[Changed]:
    for part in ("key", "value"):
        for changed, path in changed_text(getattr(record, part) or b"", columns, member):
            yield Changed(msgspec.structs.replace(record, **{part: changed}), f"{part}.{path}")


def of_frames(record: ConsumerRecord, columns: set[str], member: Member) -> Iterator[Changed]:
    """Open Protocol: each segment of a key and of a value is JSON."""
    segments = unframe(record.key, record.value)
    for at, segment in enumerate(segments):
        for side, text in enumerate(segment):
            for changed, path in changed_text(text, columns, member):
                made = [list(each) for each in segments]
                made[at][side] = changed
                key, value = (framed_key(k for k, _ in made), framed_value(v for _, v in made))
                where = f"{('key', 'value')[side]}[{at}].{path}"
                yield Changed(msgspec.structs.replace(record, key=key, value=value), where)


# ---------------------------------------------------------------- Protocol Buffers

#: The fields of Canal's messages that are messages.
_ENTRY: dict[int, Any] = {1: {12: {}}, 3: {}}
_ROWS: dict[int, Any] = {12: {1: {7: {}}, 2: {7: {}}, 3: {}}, 13: {}}
_BOUNDARY: dict[int, Any] = {3: {}}
NUMBER = 77


def changed_message(data: bytes, nested: Mapping[int, Any], path: str) -> Iterator[tuple[bytes, str]]:
    """A message with an unknown field in itself and in each message in it, the first one of each number."""
    yield data + bytes_field(NUMBER, b"?"), path
    found, seen = list(fields(data)), set()
    for at, (number, part) in enumerate(found):
        if number not in nested or not isinstance(part, bytes) or number in seen:
            continue
        if path != "5":  # entries are of several kinds
            seen.add(number)
        inner = nested[number]
        if path == "5.2" and number == 3:  # an entry's value is of the entry's kind
            inner = _ROWS if dict(found).get(2, 2) == 2 else _BOUNDARY
        for changed, where in changed_message(part, inner, f"{path}.{number}".lstrip(".")):
            parts = [*found[:at], (number, changed), *found[at + 1 :]]
            yield b"".join([field(*each) for each in parts]), where


def field(number: int, value: int | bytes) -> bytes:
    return number_field(number, value) if isinstance(value, int) else bytes_field(number, value)


def of_protobuf(record: ConsumerRecord, _: set[str], _member: Member) -> Iterator[Changed]:
    for value, path in changed_message(record.value or b"", {5: {2: _ENTRY}}, ""):
        yield Changed(msgspec.structs.replace(record, value=value), path)


# ---------------------------------------------------------------- Avro


def schema_id(data: bytes) -> int:
    return int.from_bytes(data[1:5], "big")


def has_own_names(columns: set[str]) -> bool:
    """Whether Avro has these names for the columns."""
    return all(name.isascii() and name.isidentifier() for name in columns)


def records_in(schema: Any, columns: set[str], path: Path = ()) -> Iterator[Path]:
    """Where a schema has records of fields with names of the protocol."""
    if isinstance(schema, list):
        for at, branch in enumerate(schema):
            yield from records_in(branch, columns, (*path, at))
    elif isinstance(schema, dict):
        if schema.get("type") == "record":
            names = {field["name"] for field in schema["fields"]}
            if names and not names <= columns:
                yield path
            for at, field in enumerate(schema["fields"]):
                yield from records_in(field["type"], columns, (*path, "fields", at, "type"))
        else:
            for name in ("items", "values", "type"):
                yield from records_in(schema.get(name), columns, (*path, name))


def registered(id: int) -> str | None:
    """The text of a schema; None where these bytes are no id, as in headers and of Apicurio's own ids."""
    try:
        return Resolver().fetch(SchemaById("source", id)).text
    except ServiceError:
        return None


def of_avro(record: ConsumerRecord, columns: set[str], member: Member) -> Iterator[Changed]:
    """A field more in each record of the schemas of a message; other messages as JSON."""
    columns = columns | {name.replace("_", "_u005f") for name in columns}  # of Debezium's avro_unicode
    for part in ("key", "value"):
        data: bytes | None = getattr(record, part)
        if data is None:
            continue
        if data[:2] == b"\x01{":  # a statement of TiCDC Avro
            for changed, path in changed_text(data, columns, member):
                yield Changed(msgspec.structs.replace(record, **{part: changed}), path)
        elif data[:1] == b"\x00" and has_own_names(columns):
            text = registered(schema_id(data))
            if text is None:
                continue
            for steps in records_in(json.loads(text), columns):
                changed = with_field(data, text, steps)
                if changed[5:] != data[5:]:  # a list may have no items, and a union another branch
                    where = f"{part}.{'.'.join(map(str, steps))}"
                    yield Changed(msgspec.structs.replace(record, **{part: changed}), where)


_IDS: dict[str, int] = {}


def with_field(data: bytes, text: str, path: Path) -> bytes:
    """A message whose schema has a field more, which has a default."""
    old, new = json.loads(text), json.loads(text)
    part = new
    for step in path:
        part = part[step]
    part["fields"].append({"name": NAME, "type": "string", "default": "?"})
    value = fastavro.schemaless_reader(io.BytesIO(data[5:]), old, new)
    out = io.BytesIO()
    fastavro.schemaless_writer(out, new, value)
    written = json.dumps(new)
    number = _IDS.setdefault(written, 90_000 + len(_IDS))
    remember(number, RegisteredSchema(written))
    return b"\0" + number.to_bytes(4, "big") + out.getvalue()


# ---------------------------------------------------------------- protocols

#: How messages that are neither JSON nor Avro with a registry get another member.
OWN: dict[str, Callable[[ConsumerRecord, set[str], Member], Iterator[Changed]]] = {
    "ticdc-open-protocol": of_frames,
    "canal-protobuf": of_protobuf,
}
#: Protocols whose messages have no place for other members.
FIXED = {"ticdc-simple-avro", "toy-lines"}


def with_unknown_members(
    protocol: str, record: ConsumerRecord, columns: set[str], member: Member = LAST
) -> Iterator[Changed]:
    """The messages that a record becomes; `columns`: names that no object of the protocol has alone."""
    if protocol in OWN:
        yield from OWN[protocol](record, columns, member)
    elif PROTOCOLS[protocol].uses_registry:
        yield from of_avro(record, columns, member)
    else:
        yield from of_json(record, columns, member)


def is_unknown(path: str) -> bool:
    """Whether this is the path of a member that was added."""
    return NAME in path or path.endswith(str(NUMBER))
