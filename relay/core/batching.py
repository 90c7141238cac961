"""Joins rows of neighboring source records into one message: `max-batch-size` of protocols that have batches.

Only the rows determine when a message is complete, so that two runs, a restart, the command line and the
Spark job join them in the same way:

* its rows come from one source partition, from records whose offsets have the same quotient when divided by
  the size of a batch (a window), with the same headers, for the same target partition;
* it has as many rows and bytes as allowed, and the next record's rows would exceed the limit;
* another message goes to its target partition: a statement, a watermark, a row that cannot be joined.

The rows of one source record stay together. A message from several records has the latest of their
timestamps, and the header `relay.source` with the first and the last offset (`orders/3/4704-4711/0`).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final, Generic, TypeVar

import msgspec

from relay.codecs.codec import Joining
from relay.model.records import SOURCE_HEADER, Header, ProducerRecord

Tag = TypeVar("Tag")

#: Upper bound of Kafka's overhead for a record's key and value, besides its headers.
_RECORD_OVERHEAD: Final = 1024


class _SourceMark(msgspec.Struct, gc=False):
    """The origin of a record.

    partition: Topic and partition of the source.
    number: Index among the records translated from one source record.
    """

    partition: bytes
    offset: int
    number: bytes


class _OpenMessage(msgspec.Struct, Generic[Tag]):
    """An incomplete message: its rows, and the attributes that the next record must share to join it."""

    parts: list[ProducerRecord]
    tag: Tag
    first: _SourceMark
    last: int
    headers: Sequence[Header]
    rows: int
    size: int


class Joiner(Generic[Tag]):
    """Joins records in the order in which they are added; those of one target partition stay in order.

    `limits`: `max.message.bytes` of target topics, if known. Every record comes with a tag, and a joined one
    has the tag of its first part.
    """

    def __init__(self, joining: Joining, limits: Mapping[str, int] | None = None) -> None:
        self._joining, self._limits = joining, limits or {}
        self._open: dict[tuple[str, int], _OpenMessage[Tag]] = {}

    def add(self, record: ProducerRecord, tag: Tag) -> list[tuple[ProducerRecord, Tag]]:
        """Add a record from the encoder; return the completed records."""
        partition = record.topic, record.partition
        origin = None if record.blobs else _source_mark(record)
        rows = 0 if origin is None else self._joining.rows_in(record.key or b"", record.value or b"")
        if origin is None or not rows:
            return [*self._closed(partition), (record, tag)]
        size = len(record.key or b"") + len(record.value or b"")
        message, closed = self._open.get(partition), []
        if message is None or not self._fits(message, record, origin, rows, size):
            closed = self._closed(partition)
            headers = record.headers[:-1]
            self._open[partition] = _OpenMessage([record], tag, origin, origin.offset, headers, rows, size)
        else:
            message.parts.append(record)
            message.last = origin.offset
            message.rows += rows
            message.size += size - self._joining.shared_bytes
        return closed

    def close(self) -> list[tuple[ProducerRecord, Tag]]:
        """Return the remaining incomplete records. No further record may be added."""
        return [found for partition in list(self._open) for found in self._closed(partition)]

    def _fits(
        self, message: _OpenMessage[Tag], record: ProducerRecord, origin: _SourceMark, rows: int, size: int
    ) -> bool:
        most, first = self._joining.most_rows, message.first
        return (
            message.rows + rows <= most
            and first.partition == origin.partition
            and first.offset // most == origin.offset // most
            and message.headers == record.headers[:-1]
            and message.size + size - self._joining.shared_bytes <= self._max_size(record)
        )

    def _max_size(self, record: ProducerRecord) -> int:
        limit = self._limits.get(record.topic)
        if limit is None:
            return self._joining.most_bytes
        headers = sum(len(name) * 4 + len(value or b"") + 20 for name, value in record.headers)
        return min(self._joining.most_bytes, limit - _RECORD_OVERHEAD - headers)

    def _closed(self, partition: tuple[str, int]) -> list[tuple[ProducerRecord, Tag]]:
        message = self._open.pop(partition, None)
        if message is None:
            return []
        parts = message.parts
        if len(parts) == 1:
            return [(parts[0], message.tag)]
        key, value = self._joining.joined([(each.key or b"", each.value or b"") for each in parts])
        mark = SOURCE_HEADER, _mark(message.first, message.last)
        time_ms = max(each.timestamp_ms for each in parts)
        return [(ProducerRecord(*partition, time_ms, key, value, (*message.headers, mark)), message.tag)]


def _source_mark(record: ProducerRecord) -> _SourceMark | None:
    """Return the origin of a record; None if the encoder did not make it, such as a dead letter."""
    name, value = record.headers[-1] if record.headers else ("", None)
    if name != SOURCE_HEADER or value is None:
        return None
    partition, offset, number = value.rsplit(b"/", 2)
    return _SourceMark(partition, int(offset), number)


def _mark(first: _SourceMark, last: int) -> bytes:
    offsets = b"%d" % last if first.offset == last else b"%d-%d" % (first.offset, last)
    return b"%b/%b/%b" % (first.partition, offsets, first.number)
