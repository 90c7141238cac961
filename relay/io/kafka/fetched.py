"""Convert fetched records directly into relay's own type: aiokafka 0.14 would make each of them twice.

Batches are taken as a whole: record by record, the work besides the client's own parsing takes twice as long.
Of a fetch that holds many, a poll hands out some, so that they are still in the processor's cache when they
are translated; the others stay compressed. With the native kernel, it parses the batches, and records become
objects only where they are asked for (`relay.io.kafka.record_chunks`).

aiokafka also refuses a record with a header name that is not UTF-8. Kafka's brokers and its Java client
accept any bytes for a name. Java reads invalid UTF-8 as U+FFFD, and so does `take_any_name`; Spark, which
reads with the Java client, then sees the same names. The client is changed only after the first such name:
records without one cost nothing.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from importlib.metadata import version
from inspect import GEN_CREATED, getgeneratorstate
from typing import Any, Final, cast

from aiokafka import ConsumerRecord as KafkaRecord
from aiokafka.consumer import fetcher
from aiokafka.errors import CorruptRecordException
from aiokafka.record.default_records import _DefaultRecordBatchPy, _DefaultRecordPy
from aiokafka.record.memory_records import MemoryRecords
from aiokafka.record.util import decode_varint

from relay.io.kafka.record_chunks import BatchRows, Chunk, Fetched
from relay.io.kafka.unpacking import Unpacker
from relay.model.records import ConsumerRecord
from relay.templates.batches import SourceBatch

#: aiokafka releases whose fetched records have the form that `read_by_batch` relies on.
KNOWN_RELEASES = ("0.14.0",)
#: Some megabytes of all partitions together, and still as large as written batches may be.
ENOUGH_RECORDS: Final = 4_000

_get_all = fetcher.FetchResult.getall


def relay_records(records: Sequence[KafkaRecord] | Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    """Return records of the client in relay's own type, which `read_by_batch` makes the client produce."""
    if isinstance(records, Fetched) or (records and isinstance(records[0], ConsumerRecord)):
        return cast("Sequence[ConsumerRecord]", records)
    kept = cast("Sequence[KafkaRecord]", records)
    return _relay_records(kept[0].topic, kept[0].partition, kept) if kept else []


def read_by_batch(enough_records: int = ENOUGH_RECORDS, batch_type: type[SourceBatch] | None = None) -> bool:
    """Make all consumers of this process produce relay's own records, batch by batch.

    From `enough_records` of a partition on, the next batch waits for the next poll. `batch_type`: parses
    batches; None if aiokafka does. Returns False if the release of aiokafka is unknown: then nothing changes.
    """
    if version("aiokafka") not in KNOWN_RELEASES:
        return False
    parser = None if batch_type is None else _BatchParser(batch_type)
    if parser is not None:
        take_any_name()

    def getall(fetched: Any, max_records: int | None = None) -> Sequence[Any]:
        return _some_batches(fetched, max_records, enough_records, parser)

    fetcher.FetchResult.getall = getall
    return True


def _some_batches(
    fetched: Any, max_records: int | None, enough_records: int, parser: _BatchParser | None
) -> Sequence[Any]:
    """Return records of a partition, in place of aiokafka's `FetchResult.getall`.

    aiokafka's own method remains in use where records are counted, or taken one by one.
    """
    found: Any = fetched._partition_records
    if max_records is not None or not found or getgeneratorstate(found._records_iterator) != GEN_CREATED:
        return cast("Sequence[Any]", _get_all(fetched, max_records))
    if not fetched.check_assignment(fetched._topic_partition):
        return []
    topic, partition = found._tp
    chunks: list[Chunk] = []
    count = 0
    while found._records.has_next() and count < enough_records:
        batch = found._records.next_batch()
        is_parsed = parser is not None and isinstance(batch, _RecordBatch)
        is_intact = parser.is_intact if parser is not None and is_parsed else _is_intact
        if _has_records(found, batch, is_intact):
            # A fetch begins with the batch that holds the position.
            begin = found.next_fetch_offset
            if parser is not None and is_parsed:
                chunk: Chunk = parser.rows(topic, partition, batch, begin)
            else:
                chunk = _relay_records(topic, partition, batch, begin)
            chunks.append(chunk)
            count += chunk.end if isinstance(chunk, BatchRows) else len(chunk)
        found.next_fetch_offset = batch.next_offset
    fetched._update_position()
    if not found._records.has_next():
        fetched._partition_records = None
        # It is in a reference cycle: the fetch would stay until the garbage collector runs, which is rare.
        found._records_iterator.close()
    return Fetched(topic, partition, chunks)


class _BatchParser:
    """Parses batches of message format 2 without aiokafka."""

    def __init__(self, batch_type: type[SourceBatch]) -> None:
        self._batch_type, self._unpacker = batch_type, Unpacker()

    def is_intact(self, batch: _RecordBatch) -> bool:
        """Return whether the checksum of a batch is right."""
        return self._batch_type.is_intact(batch.data, batch.begin, batch.end)

    def rows(self, topic: str, partition: int, batch: _RecordBatch, begin: int) -> BatchRows:
        """Return the rows of a batch, from an offset on. Raises CorruptRecordException, TopicUnusable."""
        where = f"{topic}/{partition} at offset {batch.base_offset}"
        text, start, end = batch.data, batch.begin + _HEADER_BYTES, batch.end
        if batch.compression_type:
            text = self._unpacker.unpack(batch.compression_type, text[start:end], where)
            start, end = 0, len(text)
        (count,) = struct.unpack_from(">i", batch.data, batch.begin + _COUNT_AT)
        is_append_time = bool(batch.timestamp_type)
        time_ms = batch.max_timestamp if is_append_time else batch.first_timestamp
        try:
            rows = self._batch_type(
                text, start, end, count, batch.base_offset, time_ms, is_append_time, begin
            )
        except ValueError as error:
            raise CorruptRecordException(f"{where}: {error}") from error
        return BatchRows(rows, 0, len(rows))


def _is_intact(batch: Any) -> bool:
    return bool(batch.validate_crc())


def _has_records(found: Any, batch: Any, is_intact: Callable[[Any], bool]) -> bool:
    """Return whether the records of a batch count: those of an aborted transaction, and its markers, do not.

    Follows aiokafka's `PartitionRecords._unpack_records`. Raises CorruptRecordException.
    """
    if found._check_crcs and not is_intact(batch):
        raise CorruptRecordException(f"Invalid CRC - {found._tp}")
    aborted = found._aborted_producers
    if found._isolation_level == fetcher.READ_COMMITTED and batch.producer_id is not None:
        found._consume_aborted_up_to(batch.base_offset)
        if batch.is_control_batch and found._contains_abort_marker(batch):
            aborted.discard(batch.producer_id)
        if batch.is_transactional and batch.producer_id in aborted:
            return False
    return not batch.is_control_batch


def _relay_records(
    topic: str, partition: int, records: Iterable[Any], begin: int = 0
) -> list[ConsumerRecord]:
    """Make relay's own records of a partition's, from an offset on."""
    made: list[ConsumerRecord] = []
    for record in records:
        offset, headers, time_ms = record.offset, record.headers, record.timestamp
        if offset >= begin:
            made.append(
                ConsumerRecord(
                    topic,
                    partition,
                    offset,
                    # Records of message format 0 have none.
                    -1 if time_ms is None else time_ms,
                    record.key,
                    record.value,
                    tuple(headers) if headers else (),
                )
            )
    return made


#: The bytes of a batch's header, and the place of the number of records in it.
_HEADER_BYTES: Final = 61
_COUNT_AT: Final = 57
#: The offset of a batch's length, and how many bytes precede those that the length counts.
_LENGTH_AT: Final = 8
_BEFORE: Final = 12
#: The offset of the format's number, and the first format of batches whose records have headers.
_MAGIC_AT: Final = 16
_WITH_HEADERS: Final = 2


def take_any_name() -> bool:
    """Make all consumers of this process read header names that are not UTF-8, from their next fetch on.

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
        # Older batches are of a class without this number.
        has_headers = self._data[begin + _MAGIC_AT] >= _WITH_HEADERS
        return _RecordBatch(batch, self._data, begin, self._at) if has_headers else batch


class _RecordBatch:
    """A batch that aiokafka parses as far as possible; `_records` parses the rest.

    `begin`, `end`: where it is in the fetched `data`.
    """

    def __init__(self, batch: Any, data: bytes, begin: int, end: int) -> None:
        self._batch, self.data, self.begin, self.end = batch, data, begin, end

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
        yield from _records(self.data[self.begin : self.end], done)


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
