"""Debezium Avro: messages of Debezium's own MySQL connector, as Kafka Connect's Avro converters print them.

    key, value      00, id of a schema in 4 bytes, Avro; null stays null
    schema          a record for each Connect schema; facts beyond Avro are in `connect.…`

The converters are Confluent's AvroConverter, and Apicurio's with as-confluent. Messages are those of
debezium-json, with schemas: rows, tombstones, schema changes, transactions, heartbeats. The limits of the
JSON format apply to Avro as well; names are adjusted to Avro.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import (
    ChosenKey,
    Codec,
    EncodedRecord,
    KeySupport,
    RegistrySupport,
    Seal,
    TemplateSupport,
)
from relay.codecs.debezium import detection
from relay.codecs.debezium.native import decoder as json_decoder
from relay.codecs.debezium.native import encoder as json_writing
from relay.codecs.debezium.native.encoder import NEW_KEY, OLD_KEY
from relay.codecs.debezium.native.messages import MARKER
from relay.codecs.debezium.native.options import AVRO_NAME, DebeziumAvroOptions
from relay.codecs.debezium.native.profiles import AVRO_PROFILES, AVRO_REASONS
from relay.codecs.debezium.native.topics import ddl_topics
from relay.codecs.debezium.shared.avro_bridge import error_of, unwrapped
from relay.codecs.debezium.shared.connect_reading import ConnectReader, engine_schema
from relay.codecs.debezium.shared.connect_writing import ConnectWriter
from relay.codecs.losses import Capabilities, Keys, Loss
from relay.codecs.shared.avro import (
    ID_HEADERS,
    AvroSchema,
    Part,
    RegisteredSchemas,
    SchemaIds,
    frame_of,
    named_schemas,
    subject_of,
)
from relay.codecs.shared.avro_opening import EngineOpener, EngineSchema
from relay.codecs.shared.avro_sealing import EngineSealer
from relay.codecs.shared.by_topic import ByTopic
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.id_headers import placing
from relay.model.errors import DecodeError, EncodeError, Malformed, NotRepresentable, UnsupportedMessage
from relay.model.events import Event
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.engine import Engine

NAME: Final = AVRO_NAME
#: Memory of a schema besides its text, per byte of the text.
_FACTOR: Final = 10
_PLAN_BYTES: Final = 1_000


def carries(options: DebeziumAvroOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    return json_writing.carries(options.as_json())


# ---------------------------------------------------------------- decoder


class DebeziumAvroDecoder:
    """Decodes Avro of Debezium's connectors for MySQL and MariaDB."""

    def __init__(self, options: DebeziumAvroOptions, answers: LookupCache) -> None:
        self.inner = json_decoder.DebeziumJsonDecoder(options.as_json(), answers, NAME)
        self._schemas = RegisteredSchemas(NAME, answers)
        self._pool = CachePool(answers.limits.cache_bytes)
        self._readers: ByteCache[AvroSchema, ConnectReader] = self._pool.cache()

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        opened = self.opened(record)
        try:
            return self.inner.decode(opened, catalog, losses)
        except DecodeError as error:
            raise error_of(NAME, error) from error

    def opened(self, record: ConsumerRecord) -> ConsumerRecord:
        """Return the record that JsonConverter would have written."""
        key, value = self._key(record), None
        found = frame_of(NAME, record, "value")
        if found is not None:
            reader, content = self._read(found.id, found.body, "value")
            if not reader.is_struct:
                raise UnsupportedMessage(
                    NAME, "value", "not a record, so this is not a message of this protocol"
                )
            value = reader.json(content)
        return ConsumerRecord(
            record.topic, record.partition, record.offset, record.timestamp_ms, key, value, record.headers
        )

    def opener(self, engine: type[Engine]) -> Callable[[ConsumerRecord], ConsumerRecord]:
        """Return the function that deserializes records with an engine; see `DeserializingDecoder`."""
        return EngineOpener(engine, self.opened, self._readable, self._pool).open

    def _readable(self, id: int, part: Part) -> EngineSchema | None:
        """Return an engine's form of a schema whose key or value was deserialized."""
        return self._reader(id, part)[0].readable()

    def _key(self, record: ConsumerRecord) -> bytes | None:
        """Return the key as JSON. A key of another converter has no information about columns."""
        try:
            found = frame_of(NAME, record, "key")
        except Malformed:
            return None
        if found is None:
            return None
        reader, content = self._read(found.id, found.body, "key")
        return reader.json(content) if reader.is_struct else None

    def _read(self, id: int | str, body: bytes, part: Part) -> tuple[ConnectReader, Any]:
        reader, schema = self._reader(id, part)
        return reader, schema.read(NAME, part, body)

    def _reader(self, id: int | str, part: Part) -> tuple[ConnectReader, AvroSchema]:
        schema = self._schemas.find(id, part)
        reader = self._readers.get(schema)
        if reader is None:
            try:
                reader = ConnectReader(schema.type)
            except ValueError as error:
                raise UnsupportedMessage(NAME, part, f"schema {id} {error}") from None
            self._readers.keep(schema, reader, _FACTOR * len(schema.text) + _PLAN_BYTES)
        return reader, schema


# ---------------------------------------------------------------- encoder


class DebeziumAvroEncoder(ByTopic):
    """Encodes Debezium Avro as the MySQL connector 3.6 and AvroConverter do."""

    def __init__(
        self, options: DebeziumAvroOptions, answers: LookupCache, chosen: ChosenKey | None = None
    ) -> None:
        super().__init__()
        of_json = json_writing.DebeziumJsonEncoder(options.as_json(), answers, chosen)
        self.prepare, self.encode_open = of_json.prepare, of_json.encode
        self._pool = pool = CachePool(answers.limits.cache_bytes)
        self._writers: ByteCache[bytes, ConnectWriter] = pool.cache()
        self._last: dict[Part, tuple[bytes, ConnectWriter]] = {}
        self._ids = SchemaIds(answers, pool)
        self._strategies = {
            "key": options.key_subject_name_strategy,
            "value": options.value_subject_name_strategy,
        }

    def _encode(
        self, topic: str, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        try:
            for payload in self.encode_open(events, source_record, losses):
                key = None if payload.key is None else self._avro(topic, "key", payload.key)
                value = None if payload.value is None else self._avro(topic, "value", payload.value)
                yield EncodedRecord(key, value, headers=payload.headers)
        except EncodeError as error:
            raise error_of(NAME, error) from error

    def sealer(self, engine: type[Engine]) -> Seal:
        """Return the function that converts a message's JSON to Avro; see `SerializingEncoder`."""
        return EngineSealer(engine, self._avro, self._writable, self._pool).seal

    def _writable(self, part: Part, json: bytes) -> EngineSchema | None:
        """Return an engine's form of the last message's schema."""
        head, writer = self._last.get(part, (b"", None))
        if writer is None or not json.startswith(head):
            return None
        return engine_schema(head, writer.schema.type, b"}")

    def _avro(self, topic: str, part: Part, json: bytes) -> bytes:
        """Convert a message's JSON to Avro."""
        writer, payload = self._writer(part, json)
        try:
            body = writer.write(msgspec.json.decode(payload))
        except (ValueError, TypeError):
            raise NotRepresentable(NAME, part, "a value that its Avro schema cannot represent") from None
        subject = subject_of(self._strategies[part], topic, part, writer.record_name)
        return self._ids.framed(subject, writer.schema.text, body)

    def _writer(self, part: Part, json: bytes) -> tuple[ConnectWriter, bytes]:
        """Return the writer for a message's schema block, and the message's payload. Usually the block is the
        same as in the message before.
        """
        head, writer = self._last.get(part, (b"", None))
        if writer is not None and json.startswith(head):
            return writer, json[len(head) : -1]
        wrapped = unwrapped(json)
        block = bytes(wrapped.schema)
        writer = self._writers.get(block) or self._new_writer(block, part)
        head = b'{"schema":%b,"payload":' % block
        if json.startswith(head) and json.endswith(b"}"):
            self._last[part] = head, writer
        return writer, bytes(wrapped.payload)

    def _new_writer(self, block: bytes, part: Part) -> ConnectWriter:
        try:
            found = ConnectWriter(msgspec.json.decode(block))
        except ValueError as error:
            raise NotRepresentable(NAME, part, f"its schema {error}") from None
        return self._writers.keep(block, found, _FACTOR * len(block) + _PLAN_BYTES)


CODEC: Final = Codec(
    name=NAME,
    title="Debezium Avro, as Debezium's MySQL and MariaDB connectors write it, with a schema registry",
    options=DebeziumAvroOptions,
    decodes=carries(
        DebeziumAvroOptions(
            provide_transaction_metadata=True, ignore_default_for_nullables=True, skipped_operations="none"
        )
    ),
    encodes=carries,
    decoder=DebeziumAvroDecoder,
    encoder=partial(placing, DebeziumAvroEncoder),
    ddl_topics=ddl_topics,
    own_headers=frozenset({NEW_KEY, OLD_KEY, *ID_HEADERS.values()}),
    profiles=AVRO_PROFILES,
    profile_reasons=AVRO_REASONS,
    detection_rule=detection.native_avro,
    keys=KeySupport(meaning=Keys.ROW, encoder=partial(placing, DebeziumAvroEncoder)),
    registry=RegistrySupport(named_schemas),
    templates=TemplateSupport(marker=MARKER),
)
