"""Kafka records in relay's own frozen types, so that the core depends on no client library."""

from __future__ import annotations

import msgspec

#: Header name and value, as Kafka has them: names may repeat, a value may be null.
Header = tuple[str, bytes | None]


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record read from a topic. `timestamp_ms` is the Kafka record's timestamp in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to write. `timestamp_ms` is kept from the record that caused it."""

    topic: str
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
