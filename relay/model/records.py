"""Kafka records in relay's own frozen types, so that the core depends on no client library."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

#: Header name and value, as Kafka has them: names may repeat, a value may be null.
Header = tuple[str, bytes | None]

#: Header of every record that relay writes, behind all others: `topic/partition/offset/index` of the source
#: record and of the output it became, which is counted in each topic where tables have topics of their own. A
#: source record may have such headers already, from another relay or from anybody: they are kept as they
#: came, and say nothing about this one (`source_mark`).
SOURCE_HEADER = "relay.source"

_MAX_DIGITS = 19

#: Times of rows and messages are below this, in milliseconds since 1970 (the year 4199): a timestamp of TiDB
#: has room for no more (64 bits, 18 of them for a counter). All codecs read and write them within it.
TIME_END_MS = 1 << 46


class RecordPosition(NamedTuple):
    """Where a record stands, written `topic/partition/offset`."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> RecordPosition | None:
        """Read `topic/partition/offset`; None if the text is something else."""
        topic, *numbers = text.rsplit("/", 2)
        if len(numbers) != 2 or not topic or not all(map(_is_number, numbers)):
            return None
        return cls(topic, int(numbers[0]), int(numbers[1]))


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def source_mark(headers: Sequence[Header]) -> bytes | None:
    """Return where a record comes from that relay has written: the last of its `SOURCE_HEADER`s, which alone
    is of the relay that wrote it. None if there is none, or it is null: then relay has not written it.
    """
    return next((value for name, value in reversed(headers) if name == SOURCE_HEADER), None)


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record read from a topic. `timestamp_ms` is its timestamp in Kafka, in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def place(self) -> RecordPosition:
        """Where the record stands."""
        return RecordPosition(self.topic, self.partition, self.offset)

    def time_ms(self, otherwise: int) -> int:
        """Return the timestamp, or `otherwise` for a record without one that is a time: Kafka says -1 if
        there is none, and a producer may have written any number (from `TIME_END_MS` on, no clock has it).
        """
        return self.timestamp_ms if 0 <= self.timestamp_ms < TIME_END_MS else otherwise


def check_types(record: object) -> None:
    """Raise TypeError if this is no ConsumerRecord, or if a member is not of the type that it declares.

    A record that nobody made by hand needs no check: it is for what has already failed.
    """
    if not isinstance(record, ConsumerRecord):
        raise TypeError(f"a ConsumerRecord is needed, not {type(record).__name__}")
    for name, kind in _MEMBER_TYPES.items():
        value = getattr(record, name)
        if not isinstance(value, kind):
            hint = ": encode the text first, for example text.encode()" if isinstance(value, str) else ""
            wanted = " or ".join("None" if each is type(None) else each.__name__ for each in kind)
            message = f"ConsumerRecord.{name} must be {wanted}, not {type(value).__name__}{hint}"
            raise TypeError(message)
    for header in record.headers:
        if not _is_header(header):
            raise TypeError("ConsumerRecord.headers must be pairs of a name and bytes or None")


def _is_header(header: object) -> bool:
    if not isinstance(header, tuple) or len(header) != 2:
        return False
    name, value = header
    return isinstance(name, str) and isinstance(value, bytes | None)


_BYTES: Final = (bytes, type(None))
_MEMBER_TYPES: Final[dict[str, tuple[type, ...]]] = {
    "topic": (str,),
    "partition": (int,),
    "offset": (int,),
    "timestamp_ms": (int,),
    "key": _BYTES,
    "value": _BYTES,
    "headers": (tuple,),
}


class Blob(msgspec.Struct, frozen=True, gc=False):
    """An object for external storage: configured URI (may hold secrets: never show it), name and bytes."""

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
    """Return the number of bytes in keys and values. Keys have a pass of their own, because most are null."""
    values = sum([len(record.value) for record in records if record.value])
    return values + sum([len(record.key) for record in records if record.key])
