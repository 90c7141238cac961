"""Accept header names that are not UTF-8, which aiokafka 0.14 refuses together with their record.

Kafka's brokers and its Java client accept any bytes for a name. Java reads invalid UTF-8 as U+FFFD, and so
does this module; Spark, which reads with the Java client, then sees the same names. The client is changed
only after the first such name: records without one cost nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from typing import Any, Final

from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy, _DefaultRecordPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

#: The offset of a batch's length, and how many bytes precede those that the length counts.
_LENGTH_AT: Final = 8
_BEFORE: Final = 12
#: The first format of batches whose records have headers.
_WITH_HEADERS: Final = 2


def take_any_name() -> bool:
    """Make all consumers of this process read such records from their next fetch on.

    Returns False if they do so already.
    """
    if fetcher.MemoryRecords is _Batches:
        return False
    fetcher.MemoryRecords = _Batches
    return True


class _Batches:
    """The batches of a fetched partition, with the interface of aiokafka's `MemoryRecords`."""

    def __init__(self, data: bytes) -> None:
        self._data, self._at = data, 0
        self._batches = MemoryRecords(data)
        self.has_next = self._batches.has_next
        self.size_in_bytes = self._batches.size_in_bytes

    def next_batch(self) -> Any:
        """Return the next batch."""
        batch: Any = self._batches.next_batch()
        (length,) = struct.unpack_from(">i", self._data, self._at + _LENGTH_AT)
        begin, self._at = self._at, self._at + _BEFORE + length
        return _RecordBatch(batch, self._data[begin : self._at]) if batch.magic >= _WITH_HEADERS else batch


class _RecordBatch:
    """A batch that aiokafka parses as far as possible; `_records` parses the rest."""

    def __init__(self, batch: Any, data: bytes) -> None:
        self._batch, self._data = batch, data

    def __getattr__(self, name: str) -> Any:
        return getattr(self._batch, name)

    def __next__(self) -> Any:
        return next(self._batch)

    def __iter__(self) -> Iterator[Any]:
        done = 0
        try:
            for record in self._batch:
                yield record
                done += 1
        except (UnicodeDecodeError, CorruptRecordException) as error:
            # Without its compiled parts, aiokafka raises one from the other.
            if not isinstance(error.__cause__ or error, UnicodeDecodeError):
                raise
        else:
            return
        yield from _records(self._data, done)


def _records(data: bytes, done: int) -> Iterator[Any]:
    """Parse the records of a batch after the first `done`; follows aiokafka's `_read_msg`.

    Raises CorruptRecordException.
    """
    batch = _DefaultRecordBatchPy(data)
    batch._maybe_uncompress()
    at = batch._pos
    try:
        for number in range(batch._num_records):
            record, at = _record(batch, at)
            if number >= done:
                yield record
    except (ValueError, IndexError) as error:
        raise CorruptRecordException(f"Found invalid record structure: {error!r}") from error


def _record(batch: Any, at: int) -> tuple[Any, int]:
    data = batch._buffer
    length, at = decode_varint(data, at)
    end = at + length
    _, at = decode_varint(data, at)  # unused attributes
    later, at = decode_varint(data, at)
    further, at = decode_varint(data, at)
    key, at = _bytes(data, at)
    value, at = _bytes(data, at)
    count, at = decode_varint(data, at)
    headers = []
    for _ in range(count):
        name, at = _bytes(data, at)
        content, at = _bytes(data, at)
        headers.append(((name or b"").decode(errors="replace"), content))
    if at != end or end > len(data):
        raise CorruptRecordException(f"Invalid record size: {length} bytes, where it ends at {at - end:+}")
    is_appended = batch.timestamp_type == batch.LOG_APPEND_TIME
    timestamp = batch.max_timestamp if is_appended else batch.first_timestamp + later
    offset = batch.base_offset + further
    return _DefaultRecordPy(offset, timestamp, batch.timestamp_type, key, value, headers), at


def _bytes(data: bytearray, at: int) -> tuple[bytes | None, int]:
    """Read a length and as many bytes; None if the length is negative."""
    length, at = decode_varint(data, at)
    return (bytes(data[at : at + length]), at + length) if length >= 0 else (None, at)
