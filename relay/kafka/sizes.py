"""Which records a topic takes: their size in the eyes of a broker, and the limits of the topics."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import NamedTuple

from relay.errors import RecordTooLarge
from relay.records import ConsumerRecord, ProducerRecord

#: The usual `max.message.bytes` of brokers, where it may not be read.
DEFAULT_LIMIT_BYTES = 1_048_588
BATCH_HEADER_BYTES = 61
# More than what a record without a key and our own header add to the value: a topic name has up to 249 bytes.
OVERHEAD_BYTES = 1024


class Oversize(NamedTuple):
    """A record that its topic does not take: its size with all overhead, and the topic's limit, in bytes."""

    topic: str
    size: int
    limit: int


def record_too_large(record: ConsumerRecord, oversize: Oversize) -> RecordTooLarge:
    """Make the error that says what a source record becomes, and what to do about it."""
    return RecordTooLarge(
        f"the record at {record.topic}/{record.partition} offset {record.offset} becomes {oversize.size} "
        f"bytes, and topic {oversize.topic} takes {oversize.limit}: raise its max.message.bytes, "
        f"or choose options that write less"
    )


class TopicLimits:
    """Limits of topics. `by_topic`: `max.message.bytes` of each written topic; others have the smallest."""

    def __init__(self, by_topic: Mapping[str, int]) -> None:
        self.by_topic = by_topic
        self.smallest = min(by_topic.values(), default=DEFAULT_LIMIT_BYTES)
        self._surely_fits = self.smallest - OVERHEAD_BYTES

    def too_large(self, records: Sequence[ProducerRecord]) -> Oversize | None:
        """Return a record that does not fit into a batch of its own."""
        for record in records:
            # Almost every record: no key, our own header alone, and far below the limit.
            if (
                record.key is None
                and len(record.headers) == 1
                and len(record.value or b"") < self._surely_fits
            ):
                continue
            if at_most_bytes(record) > self.smallest:
                size = exact_bytes(record)
                limit = self.by_topic.get(record.topic, self.smallest)
                if size > limit:
                    return Oversize(record.topic, size, limit)
        return None


def at_most_bytes(record: ProducerRecord) -> int:
    """Return a cheap upper bound of the size."""
    headers = sum(20 + 4 * len(name) + len(value or b"") for name, value in record.headers)
    return 200 + len(record.key or b"") + len(record.value or b"") + headers


def exact_bytes(record: ProducerRecord) -> int:
    """Return the exact size of an uncompressed batch that holds this record alone."""
    body = 3 + _field(record.key) + _field(record.value) + _varint(len(record.headers))
    body += sum(_field(name.encode()) + _field(value) for name, value in record.headers)
    return BATCH_HEADER_BYTES + _varint(body) + body


def _field(value: bytes | None) -> int:
    return 1 if value is None else _varint(len(value)) + len(value)


def _varint(number: int) -> int:
    """Return the size of a zig-zag varint."""
    return max(1, ((number << 1).bit_length() + 6) // 7)
