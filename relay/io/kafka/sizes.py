"""The records that a topic accepts: their size as a broker measures it, the limits of topics, and keys."""

from __future__ import annotations

from collections.abc import Container, Mapping, Sequence
from typing import NamedTuple, TypeAlias

from relay.model.errors import KeyMissing, RecordTooLarge
from relay.model.records import ConsumerRecord, ProducerRecord

#: The usual `max.message.bytes` of brokers, where it may not be read.
DEFAULT_LIMIT_BYTES = 1_048_588
BATCH_HEADER_BYTES = 61
# Upper bound of the bytes that a record without a key and our own header add to the value: a topic name has
# up to 249 bytes.
OVERHEAD_BYTES = 1024


class Oversize(NamedTuple):
    """A record that its topic refuses: its size with all overhead, and the topic's limit, in bytes."""

    topic: str
    size: int
    limit: int


class NoKey(NamedTuple):
    """A record without a key, for a compacted topic."""

    topic: str


NoMatch: TypeAlias = Oversize | NoKey


def misfit_error(
    record: ConsumerRecord, misfit: NoMatch, protocol: str, tables: Sequence[str] = ()
) -> RecordTooLarge | KeyMissing:
    """Return the error for a source record whose translation its topic does not accept.

    `protocol`: that of the target. `tables`: the tables of the record.
    """
    if isinstance(misfit, Oversize):
        return record_too_large(record, misfit)
    about = f" (table {', '.join(tables)})" if tables else ""
    return KeyMissing(
        protocol,
        "key",
        f"the record at {record.topic}/{record.partition} offset {record.offset}{about} becomes a record "
        f"without a key, but topic {misfit.topic} is compacted and brokers refuse records without a key; "
        "give the table a primary key, leave the table out, set cleanup.policy=delete on the topic, or "
        "choose another policy for `encode` in [errors]",
    )


def record_too_large(record: ConsumerRecord, oversize: Oversize) -> RecordTooLarge:
    """Return the error with the size of a source record's translation, and the remedy."""
    return RecordTooLarge(
        f"the record at {record.topic}/{record.partition} offset {record.offset} becomes {oversize.size} "
        f"bytes, but topic {oversize.topic} accepts {oversize.limit}: raise its max.message.bytes, "
        f"or choose options that write less"
    )


class TopicLimits:
    """Limits of topics.

    `by_topic`: `max.message.bytes` of each written topic; others have the smallest. `compacted`: the topics
    in which every record needs a key.
    """

    def __init__(self, by_topic: Mapping[str, int], compacted: Container[str] = ()) -> None:
        self.by_topic, self.compacted = by_topic, compacted
        self.smallest = min(by_topic.values(), default=DEFAULT_LIMIT_BYTES)
        self._surely_fits = self.smallest - OVERHEAD_BYTES

    def misfit(self, records: Sequence[ProducerRecord]) -> NoMatch | None:
        """Return why a topic refuses one of the records, if it does."""
        for record in records:
            if record.key is None and record.topic in self.compacted:
                return NoKey(record.topic)
        return self.too_large(records)

    def too_large(self, records: Sequence[ProducerRecord]) -> Oversize | None:
        """Return a record that does not fit even into an empty batch."""
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
