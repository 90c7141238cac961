"""Deserializing Avro records with an engine: one step to JSON for known schemas.

An `EngineOpener` returns the same records as the codec, and raises the same errors. It leaves to the codec
the first record of each schema, records whose schema has a GUID or is named in a header, and values that the
engine does not read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple

from relay.codecs.shared.avro import APICURIO_HEADERS, GUID, ID_HEADERS, NUMBER, PREFIX_BYTES, Part
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.model.records import ConsumerRecord, Header
from relay.templates.avro_ops import AvroOp
from relay.templates.engine import Engine

Opened = Callable[[ConsumerRecord], ConsumerRecord]
_Text = Callable[[bytes, int], bytes | None]

#: First bytes of parts that may name a schema.
_FRAMES: Final = (bytes([NUMBER]), bytes([GUID]))
_ID_HEADERS: Final = frozenset(ID_HEADERS.values()).union(*APICURIO_HEADERS.values())
#: Memory that an engine needs per value of a schema.
OP_BYTES: Final = 100


class EngineSchema(NamedTuple):
    """A schema for an engine: the text around the JSON of its values, the op that converts them from or to
    JSON, and the number of values.
    """

    head: bytes
    op: AvroOp
    end: bytes
    values: int


class EngineOpener:
    """Deserializes records with an engine.

    `opened`: the codec's function for any record. `find`: returns the schema of an id that `opened` has read,
    None if engines must not read it.
    """

    def __init__(
        self,
        engine: type[Engine],
        opened: Opened,
        find: Callable[[int, Part], EngineSchema | None],
        pool: CachePool,
    ) -> None:
        self._engine, self._opened, self._find = engine, opened, find
        #: By the bytes before the Avro.
        self._keys: ByteCache[bytes, _Text] = pool.cache()
        self._values: ByteCache[bytes, _Text] = pool.cache()

    def open(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return a record with its key and value as text. Raises DecodeError and Need."""
        if record.headers and _name_schemas(record.headers):
            return self._opened(record)
        key, value = record.key, record.value
        if value is None:
            return self._opened(record)
        text = self._values.get(value[:PREFIX_BYTES])
        if text is None:
            return self._learned(record)
        opened_value = text(value, PREFIX_BYTES)
        if opened_value is None:
            return self._opened(record)
        opened_key = None
        if key is not None and key[:1] in _FRAMES:
            text = self._keys.get(key[:PREFIX_BYTES])
            if text is None:
                return self._learned(record)
            opened_key = text(key, PREFIX_BYTES)
            if opened_key is None:
                return self._opened(record)
        return ConsumerRecord(
            record.topic,
            record.partition,
            record.offset,
            record.timestamp_ms,
            opened_key,
            opened_value,
            record.headers,
        )

    def _learned(self, record: ConsumerRecord) -> ConsumerRecord:
        """Deserialize a record, and learn its schemas."""
        opened = self._opened(record)
        if opened.key is not None:
            self._learn(self._keys, record.key, "key")
        if opened.value is not None:
            self._learn(self._values, record.value, "value")
        return opened

    def _learn(self, texts: ByteCache[bytes, _Text], data: bytes | None, part: Part) -> None:
        """Learn the schema of a deserialized part."""
        prefix = (data or b"")[:PREFIX_BYTES]
        if prefix in texts or prefix[0] != NUMBER:
            return
        schema = self._find(int.from_bytes(prefix[1:], "big"), part)
        if schema is None:
            texts.keep(prefix, _reads_nothing, OP_BYTES)
            return
        head, op, end, values = schema
        text = self._engine.avro_reader(head, op, end).text
        texts.keep(prefix, text, len(head) + OP_BYTES * (1 + values))


def _name_schemas(headers: Iterable[Header]) -> bool:
    return any(name in _ID_HEADERS for name, _ in headers)


def _reads_nothing(_data: bytes, _start: int) -> bytes | None:
    return None
