"""Kafka records in relay's own frozen types, so that the core depends on no client library."""

from __future__ import annotations

from collections.abc import Sequence

import msgspec

#: Header name and value, as Kafka has them: names may repeat, a value may be null.
Header = tuple[str, bytes | None]

#: Header of every record that relay writes: `topic/partition/offset/index` of the source record and of the
#: output it became.
SOURCE_HEADER = "relay.source"


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record read from a topic. `timestamp_ms` is its timestamp in Kafka, in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()


class Blob(msgspec.Struct, frozen=True, gc=False):
    """An object for external storage: the configured URI (it may hold secrets: never show it), the object's
    name, its bytes.
    """

    storage: str
    name: str
    data: bytes


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to write. `timestamp_ms` is kept from the record that caused it.

    `blobs` must be stored before the record is written: the record refers to them.
    """

    topic: str
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    blobs: tuple[Blob, ...] = ()


def size_of(records: Sequence[ConsumerRecord] | Sequence[ProducerRecord]) -> int:
    """The bytes of keys and values. Mostly there are no keys, so they are looked for apart."""
    values = sum([len(record.value) for record in records if record.value])
    return values + sum([len(record.key) for record in records if record.key])
