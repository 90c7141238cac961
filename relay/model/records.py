"""Kafka records as relay's own frozen types, so that the core depends on no client library."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from typing import Final, NamedTuple

import msgspec

#: Header name and value, like in Kafka: names may repeat, a value may be null.
Header = tuple[str, bytes | None]

#: The last header of every record that relay writes: `topic/partition/offset/index` of its source record, and
#: the index among the records translated from it, counted per topic if tables have separate topics. A source
#: record may already have such headers, from another relay or from any producer: they are kept unchanged and
#: do not describe this record (`source_mark`).
SOURCE_HEADER = "relay.source"

_MAX_DIGITS = 19

#: Upper bound of the times of rows and messages, in milliseconds since 1970 (the year 4199): the maximum of a
#: TiDB timestamp (64 bits, 18 of them for a counter). All codecs read and write only times below it.
TIME_END_MS = 1 << 46


class RecordPosition(NamedTuple):
    """A record's position, written `topic/partition/offset`."""

    topic: str
    partition: int
    offset: int

    def __str__(self) -> str:
        return f"{self.topic}/{self.partition}/{self.offset}"

    @classmethod
    def parse(cls, text: str) -> RecordPosition | None:
        """Parse `topic/partition/offset`; None if the text has another form."""
        found = split_numbers(text, 2)
        return None if found is None else cls(found[0], *found[1])


def split_numbers(text: str, count: int) -> tuple[str, list[int]] | None:
    """Split a topic and `count` numbers, written `topic/number/…`; None if the text has another form."""
    topic, *numbers = text.rsplit("/", count)
    if len(numbers) != count or not topic or not all(map(_is_number, numbers)):
        return None
    return topic, [int(number) for number in numbers]


def _is_number(text: str) -> bool:
    return text.isascii() and text.isdecimal() and len(text) <= _MAX_DIGITS


def source_mark(headers: Sequence[Header]) -> bytes | None:
    """Return the source position that relay wrote into a record's headers: the value of the last
    `SOURCE_HEADER`, because earlier ones are of other origin.

    None if there is no such header or it is null: relay has not written the record.
    """
    return next((value for name, value in reversed(headers) if name == SOURCE_HEADER), None)


class ConsumerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record from a topic. `timestamp_ms` is its Kafka timestamp, in milliseconds since 1970."""

    topic: str
    partition: int
    offset: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()

    @property
    def position(self) -> RecordPosition:
        """The record's position."""
        return RecordPosition(self.topic, self.partition, self.offset)

    def time_ms(self, otherwise: int) -> int:
        """Return the timestamp; `otherwise` if it is missing or not a valid time.

        Kafka uses -1 for a missing timestamp, and producers may write any number. No clock reaches
        `TIME_END_MS`, from which on a number is not a time.
        """
        return self.timestamp_ms if 0 <= self.timestamp_ms < TIME_END_MS else otherwise


def check_types(record: object) -> None:
    """Raise TypeError if this is not a ConsumerRecord, or if a member does not have its declared type.

    Only records that were constructed by hand can fail this check; call it after another failure.
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
    """An object for external storage: configured URI (may contain secrets: never show it), name, bytes."""

    storage: str
    name: str
    data: bytes


class ProducerRecord(msgspec.Struct, frozen=True, gc=False):
    """A record to write. `timestamp_ms` is the source record's.

    `blobs` must be stored before the record is written, because the record refers to them.
    """

    topic: str
    partition: int
    timestamp_ms: int
    key: bytes | None
    value: bytes | None
    headers: tuple[Header, ...] = ()
    blobs: tuple[Blob, ...] = ()


class LazyRecords(Sequence[ConsumerRecord]):
    """Records that are made when they are asked for, and whose sizes and times are known before that."""

    @property
    @abstractmethod
    def size_bytes(self) -> int:
        """The bytes in keys and values."""

    @property
    @abstractmethod
    def newest_ms(self) -> int:
        """The newest timestamp. Raises ValueError if there are no records."""


def newest_ms(records: Sequence[ConsumerRecord]) -> int:
    """Return the newest timestamp. Raises ValueError if there are no records."""
    if isinstance(records, LazyRecords):
        return records.newest_ms
    return max([record.timestamp_ms for record in records])


def size_of(records: Sequence[ConsumerRecord] | Sequence[ProducerRecord]) -> int:
    """Return the bytes in keys and values. Keys take a separate pass, because most are null."""
    if isinstance(records, LazyRecords):
        return records.size_bytes
    values = sum([len(record.value) for record in records if record.value])
    return values + sum([len(record.key) for record in records if record.key])
