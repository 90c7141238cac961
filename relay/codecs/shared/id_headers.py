"""Schema ids in headers: moves the id before key and value of an Avro message into its headers.

    __key_schema_id, __value_schema_id: 00, id in 4 bytes       next to the plain Avro

Source: confluentinc schema-registry HeaderSchemaIdSerializer, DualSchemaIdDeserializer, SchemaId (8.x). The
serializer writes the schema's GUID, which registries before 8.0 do not know; the deserializer accepts both.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import Annotated, Final, Literal, Protocol

from msgspec import Meta

from relay.codecs.codec import EncodedRecord, TopicEncoder
from relay.codecs.losses import Loss
from relay.codecs.shared.avro import ID_HEADERS, PREFIX_BYTES, Part
from relay.codecs.shared.by_topic import ByTopic
from relay.model.events import Event
from relay.model.records import ConsumerRecord, Header

SchemaIdPlace = Annotated[
    Literal["prefix", "header"],
    Meta(
        description="location of schema ids: before the Avro, or in headers, which readers support from "
        "Confluent Platform 8.0 on",
        extra={"side": "target"},
    ),
]
_PREFIX: Final = b"\0"


class HasSchemaIdPlace(Protocol):
    """Options with the position of schema ids."""

    @property
    def schema_id(self) -> str:
        """Return their position, as in `SchemaIdPlace`."""
        ...


def placing(make: Callable[..., TopicEncoder], options: HasSchemaIdPlace, *more: object) -> TopicEncoder:
    """Make an encoder that writes schema ids in the position of the options; `more`: its other arguments."""
    encoder = make(options, *more)
    return encoder if options.schema_id == "prefix" else _InHeaders(encoder)


class _InHeaders(ByTopic):
    """Writes messages with schema ids in headers."""

    def __init__(self, encoder: TopicEncoder) -> None:
        super().__init__()
        self.prepare = encoder.prepare
        self._of_topic = encoder.for_topic

    def _encode(
        self, topic: str, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        return map(_in_headers, self._of_topic(topic)(events, source_record, losses))


def _in_headers(payload: EncodedRecord) -> EncodedRecord:
    headers: list[Header] = []
    key = _moved("key", payload.key, headers)
    value = _moved("value", payload.value, headers)
    return EncodedRecord(key, value, payload.blobs, (*headers, *payload.headers))


def _moved(part: Part, data: bytes | None, headers: list[Header]) -> bytes | None:
    """Return a part without its id, which goes to the headers. TiCDC has messages without a schema, too."""
    if data is None or not data.startswith(_PREFIX):
        return data
    headers.append((ID_HEADERS[part], data[:PREFIX_BYTES]))
    return data[PREFIX_BYTES:]
