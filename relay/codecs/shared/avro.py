"""Avro records with schemas in a registry: frames, compiled schemas, and lookups in the registry.

    00, id in 4 bytes, Avro         Confluent's frame, and Apicurio's with 4 bytes
    01, GUID in 16 bytes, Avro      the same with a GUID
    Avro                            with the header __key_schema_id or __value_schema_id, which has the id

`frame_of` returns the schema's id and the Avro after it. `RegisteredSchemas` returns the schema of an id,
compiled once; `SchemaIds` the id of a schema to write. Both raise a `Need` until the lookup is answered.
`AvroSchema` reads values in Avro's own types, without logical types: a decimal is bytes, a date a number.
Errors name the part of the message, never its values. Sources: confluentinc schema-registry SchemaId,
DualSchemaIdDeserializer (8.x); Apache Avro 1.11.
"""

from __future__ import annotations

import functools
import io
import re
import uuid
from collections.abc import Callable, Iterable
from typing import Any, Final, Literal, NamedTuple

import msgspec

from relay.codecs.shared.caches import ByteCache, CachePool
from relay.model.avro_types import AvroType, parse_types
from relay.model.errors import Malformed, SchemaRefused, UnsupportedMessage
from relay.model.lookups import LARGEST_SCHEMA_ID, LookupCache, RegisteredSchema, SchemaById, SchemaId
from relay.model.records import ConsumerRecord, Header

Part = Literal["key", "value"]
#: Names of the registries in needs: the decoder's, and the encoder's.
SOURCE_REGISTRY, TARGET_REGISTRY = "source", "target"
#: Headers that hold the id of a schema, which are part of a message.
ID_HEADERS: Final = {"key": "__key_schema_id", "value": "__value_schema_id"}
#: Headers in which Apicurio's serializers put ids that relay does not look up.
APICURIO_HEADERS: Final = {
    part: frozenset({f"apicurio.{part}.{name}" for name in ("globalId", "contentId", "contentHash")})
    for part in ID_HEADERS
}
_PARTS: Final[tuple[Part, ...]] = ("key", "value")
#: The first byte of a part that continues with a schema's number, or with its GUID.
NUMBER, GUID = 0, 1
#: Bytes of the usual prefix, and of one with a GUID.
PREFIX_BYTES, _GUID_BYTES = 5, 17
#: Start of a TiCDC statement; no GUID begins like this, because it is a hash.
_TICDC_STATEMENT: Final = b'\x01{"query"'
#: Memory of a compiled schema per byte of its text (measured with CPython 3.11).
_SCHEMA_FACTOR: Final = 30
_ID_BYTES: Final = 300
#: Errors that fastavro raises for bytes that are no value of a schema.
_NO_VALUE: Final = (EOFError, IndexError, KeyError, OverflowError, TypeError, ValueError, RecursionError)

# ---------------------------------------------------------------- frames


class Frame(NamedTuple):
    """The id of a schema, a number or the text of a GUID, and a value in Avro."""

    id: int | str
    body: bytes


def frame_of(protocol: str, record: ConsumerRecord, part: Part) -> Frame | None:
    """Return the frame of a record's key or value, None if that is null. Raises Malformed."""
    data = record.key if part == "key" else record.value
    if data is None:
        return None
    if record.headers and _is_of_apicurio(record.headers, part):
        raise UnsupportedMessage(protocol, f"headers apicurio.{part}.…", _APICURIO)
    header = _header(record.headers, ID_HEADERS[part]) if record.headers else None
    if header:
        path = f"header {ID_HEADERS[part]}"
        id, rest = _id(protocol, path, header)
        if rest:
            raise Malformed(protocol, path, "more bytes than a schema id has")
        return Frame(id, data)
    return Frame(*_id(protocol, part, data))


_APICURIO: Final = (
    "the schema's id is in a header of Apicurio's; serializers with apicurio.registry.headers.enabled=false "
    "and apicurio.registry.as-confluent=true put it in front of the Avro, where relay reads it"
)


def has_id_header(headers: Iterable[Header], part: Part) -> bool:
    """Return whether headers have the id of a part's schema, Confluent's or Apicurio's."""
    return bool(_header(headers, ID_HEADERS[part])) or _is_of_apicurio(headers, part)


def _is_of_apicurio(headers: Iterable[Header], part: Part) -> bool:
    names = APICURIO_HEADERS[part]
    return any(name in names for name, _ in headers)


def _header(headers: Iterable[Header], name: str) -> bytes | None:
    """Return the value of the last header of this name."""
    found = None
    for each, value in headers:
        if each == name:
            found = value
    return found


def _id(protocol: str, part: str, data: bytes) -> tuple[int | str, bytes]:
    """Return the schema id at the start of the data, and the rest."""
    if not data:
        raise Malformed(protocol, part, "empty, which is neither null nor Avro with a schema id")
    if data[0] == NUMBER and len(data) >= PREFIX_BYTES:
        id = int.from_bytes(data[1:PREFIX_BYTES], "big", signed=True)
        if id < 1:
            raise Malformed(protocol, part, f"schema id {id}, which no registry gives (ids of 8 bytes?)")
        return id, data[PREFIX_BYTES:]
    if data.startswith(_TICDC_STATEMENT):
        raise Malformed(protocol, part, "a statement of TiCDC Avro, which has no schema id")
    if data[0] == GUID and len(data) >= _GUID_BYTES:
        return str(uuid.UUID(bytes=data[1:_GUID_BYTES])), data[_GUID_BYTES:]
    if data[0] in {NUMBER, GUID}:
        raise Malformed(protocol, part, "ends within its schema id")
    reason = f"begins with byte 0x{data[0]:02x}, not with a schema id"
    if data[:1] in b'{["':
        reason += ": this looks like JSON"
    raise Malformed(protocol, part, reason)


def named_schemas(record: ConsumerRecord) -> list[int | str]:
    """Return the ids of the schemas that a record names, as far as its frames are valid."""
    found = []
    for part in _PARTS:
        try:
            frame = frame_of("", record, part)
        except (Malformed, UnsupportedMessage):
            continue
        if frame is not None:
            found.append(frame.id)
    return found


def framed(id: int, body: bytes) -> bytes:
    """Return a value after its schema id. Raises SchemaRefused for an id that does not fit a frame."""
    if not 0 < id <= LARGEST_SCHEMA_ID:
        raise SchemaRefused(f"a registry gives the schema id {id}, and ids are from 1 to {LARGEST_SCHEMA_ID}")
    return b"\0" + id.to_bytes(4, "big", signed=True) + body


# ---------------------------------------------------------------- schemas


class AvroSchema:
    """A schema: its text, its type, and the reader of its values.

    Raises ValueError for a text that is no schema, or one that relay cannot read.
    """

    def __init__(self, text: str, references: tuple[tuple[str, str], ...] = ()) -> None:
        # Other protocols need no Avro, and the import takes 50 ms.
        import fastavro  # noqa: PLC0415 - see above

        self.text, self.type = text, parse_types(text, references)
        self._reader: Any = None
        self._fastavro, self._read = fastavro, fastavro.schemaless_reader

    def read(self, protocol: str, part: str, body: bytes) -> Any:  # noqa: ANN401 - a value of any type
        """Return the value: records and maps as dict, unions as the value alone. Raises Malformed."""
        if self._reader is None:
            self._reader = self._compiled()
        file = io.BytesIO(body)
        try:
            value: Any = self._read(file, self._reader, None)
        except _NO_VALUE:
            raise Malformed(protocol, part, "not a value of its Avro schema") from None
        if file.tell() != len(body):
            raise Malformed(protocol, part, "more bytes than its Avro schema has")
        return value[_WHOLE]

    def _compiled(self) -> Any:  # noqa: ANN401 - a schema of fastavro's
        # A record of one field is written as the field. A union by itself would be compiled at each read.
        field = {"name": _WHOLE, "type": _plain(self.type, {})}
        whole = {"type": "record", "name": "Whole", "fields": [field]}
        return _number_strictly(self._fastavro.parse_schema(whole), list_for(self._read))


_WHOLE: Final = "value"


class _Numbered(list[Any]):
    """Branches of a union or symbols of an enum, by their number in a message.

    fastavro takes a negative number as one from the end. Its compiled reader calls `len` in this case only;
    here that is an error.
    """

    def __len__(self) -> int:
        raise IndexError


class _Checked(_Numbered):
    """The same for a version of fastavro that passes negative numbers to the list."""

    def __getitem__(self, number: Any) -> Any:  # noqa: ANN401 - as for a list
        if number < 0:
            raise IndexError
        return super().__getitem__(number)


@functools.cache
def list_for(read: Callable[..., Any]) -> type[_Numbered]:
    """Return the list class that this reader of fastavro's needs."""
    whole = {"type": "record", "name": "Whole", "fields": [{"name": _WHOLE, "type": _Numbered(["int"])}]}
    try:
        read(io.BytesIO(b"\x01\x00"), whole | {"__fastavro_parsed": True, "__named_schemas": {}}, None)
    except IndexError:
        return _Numbered
    return _Checked


def _number_strictly(node: Any, numbered: type[_Numbered]) -> Any:  # noqa: ANN401 - a schema of fastavro's
    """Return a compiled schema with its lists of branches and symbols replaced by `numbered`."""
    if isinstance(node, list):
        return numbered([_number_strictly(branch, numbered) for branch in node])
    if not isinstance(node, dict):
        return node
    for field in node.get("fields", ()):
        field["type"] = _number_strictly(field["type"], numbered)
    for name in ("items", "values"):
        if name in node:
            node[name] = _number_strictly(node[name], numbered)
    if "symbols" in node:
        node["symbols"] = numbered(node["symbols"])
    return node


def _plain(type_: AvroType, names: dict[str, str]) -> Any:  # noqa: ANN401 - a JSON document
    """Return a type as a separate schema: without attributes and defaults. `names`: new names of types, by
    their original ones, which fastavro looks up in other namespaces than Avro does.
    """
    kind, name = type_.kind, ""
    if type_.name:
        if type_.name in names:
            return names[type_.name]
        name = names[type_.name] = f"Type{len(names)}"
    if kind == "record":
        fields = [{"name": field.name, "type": _plain(field.type, names)} for field in type_.fields]
        return {"type": "record", "name": name, "fields": fields}
    if kind == "enum":
        return {"type": "enum", "name": name, "symbols": list(type_.symbols)}
    if kind == "fixed":
        return {"type": "fixed", "name": name, "size": type_.size}
    if type_.items is not None:
        items = "items" if kind == "array" else "values"
        return {"type": kind, items: _plain(type_.items, names)}
    if kind == "union":
        return [_plain(branch, names) for branch in type_.branches]
    return kind


_NAME: Final = re.compile(r"[A-Za-z_][A-Za-z0-9_]*", re.ASCII).fullmatch
#: Java's Avro does not check namespaces, and some producers' have parts such as `1digit`.
_FULL_NAME: Final = re.compile(r"(?:[A-Za-z0-9_]+\.)*[A-Za-z_][A-Za-z0-9_]*", re.ASCII).fullmatch


def is_name(text: str) -> bool:
    """Return whether a text may be the name of a field, or a part of a type's name."""
    return _NAME(text) is not None


def is_full_name(text: str) -> bool:
    """Return whether a text may be the name of a type with its namespace."""
    return _FULL_NAME(text) is not None


class RegisteredSchemas:
    """A decoder's cache of compiled schemas of a registry."""

    def __init__(self, protocol: str, answers: LookupCache, registry: str = SOURCE_REGISTRY) -> None:
        self._protocol, self._answers, self._registry = protocol, answers, registry
        pool = CachePool(answers.limits.cache_bytes)
        self._kept: ByteCache[int | str, AvroSchema] = pool.cache()
        #: By the bytes before the Avro.
        self._by_prefix: ByteCache[bytes, tuple[int | str, AvroSchema]] = pool.cache()

    def part(self, record: ConsumerRecord, part: Part) -> tuple[int | str, AvroSchema, bytes] | None:
        """Return the id of a record's key or value, its schema, and its Avro; None if it is null.

        Raises SchemaById, Malformed, UnsupportedMessage.
        """
        data = record.key if part == "key" else record.value
        if data is None:
            return None
        is_before = not record.headers or not has_id_header(record.headers, part)
        if is_before:
            found = self._by_prefix.get(data[:PREFIX_BYTES])
            if found is not None:
                return *found, data[PREFIX_BYTES:]
        frame = frame_of(self._protocol, record, part)
        if frame is None:
            return None
        schema = self.find(frame.id, part)
        if is_before and data[0] == NUMBER:
            self._by_prefix.keep(data[:PREFIX_BYTES], (frame.id, schema), _ID_BYTES)
        return frame.id, schema, frame.body

    def find(self, id: int | str, part: Part) -> AvroSchema:
        """Return the schema of an id. Raises SchemaById, UnsupportedMessage."""
        found = self._kept.get(id)
        if found is None:
            registered = self._answers.find(SchemaById(self._registry, id))
            found = self._compiled(id, registered, part)
            self._kept.keep(id, found, _SCHEMA_FACTOR * len(found.text) + _ID_BYTES)
        return found

    def _compiled(self, id: int | str, registered: RegisteredSchema, part: Part) -> AvroSchema:
        if registered.kind != "AVRO":
            reason = f"schema {id} is {registered.kind}, not Avro"
            raise UnsupportedMessage(self._protocol, part, reason)
        try:
            return AvroSchema(registered.text, registered.references)
        except ValueError as error:
            raise UnsupportedMessage(self._protocol, part, f"schema {id} {error}") from None


class SchemaIds:
    """An encoder's cache of schema ids."""

    def __init__(self, answers: LookupCache, pool: CachePool, registry: str = TARGET_REGISTRY) -> None:
        self._answers, self._registry = answers, registry
        self._kept: ByteCache[tuple[str, str], bytes] = pool.cache()

    def framed(self, subject: str, text: str, body: bytes) -> bytes:
        """Return a value after the id of its schema in a subject. Raises SchemaId, SchemaRefused."""
        found = self._kept.get((subject, text))
        if found is None:
            id = self._answers.find(SchemaId(self._registry, subject, RegisteredSchema(text)))
            found = self._kept.keep((subject, text), framed(id, b""), len(subject) + _ID_BYTES)
        return found + body


# ---------------------------------------------------------------- subjects

SubjectNames = Literal["TopicNameStrategy", "RecordNameStrategy", "TopicRecordNameStrategy"]


def subject_of(strategy: SubjectNames, topic: str, part: Part, record_name: str) -> str:
    """Return the subject in which a schema is registered; `record_name` is the full name of its record.

    Source: confluentinc schema-registry io.confluent.kafka.serializers.subject.
    """
    if strategy == "RecordNameStrategy":
        return record_name
    if strategy == "TopicRecordNameStrategy":
        return f"{topic}-{record_name}"
    return f"{topic}-{part}"


def compact(document: object) -> str:
    """Return a schema's document as the registered text: equal documents have equal texts."""
    return msgspec.json.encode(document).decode()
