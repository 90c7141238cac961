"""Batches of Arrow as columns of records, and translated columns as batches of Arrow."""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import pyarrow as pa
import pyarrow.compute as pc

from relay.core.column_path import TranslatedRows
from relay.model.records import SOURCE_HEADER, ConsumerRecord, ProducerRecord
from relay.templates.columns import RecordColumns, TextColumn
from spark_backfill.frames import ARROW_PRODUCED, FLUSH_BYTES, FLUSH_RECORDS, Columns, Produced

#: Rows that are read together when one of them is needed as a record.
_READ_TOGETHER: Final = 64


class Stretch(NamedTuple):
    """Adjacent rows of one partition, from `first` on and before `end`."""

    topic: str
    partition: int
    first: int
    end: int
    has_headers: bool


def stretches(batch: pa.RecordBatch) -> Iterator[Stretch]:
    """Yield the rows of a batch of `RECORDS`, split where their partition changes, or having headers."""
    topic, partition = batch.column("topic"), batch.column("partition")
    has_headers = pc.greater(pc.fill_null(pc.list_value_length(batch.column("headers")), 0), 0)
    first = 0
    for end in sorted({*_run_ends(topic), *_run_ends(partition), *_run_ends(has_headers)}):
        its_topic, its_partition, has_some = (each[first].as_py() for each in (topic, partition, has_headers))
        yield Stretch(its_topic, its_partition, first, end, has_some)
        first = end


class RecordBatchRows:
    """The rows of a batch of `RECORDS`, as columns and as records."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self.columns = RecordColumns(
            _text_column(batch.column("key")),
            _text_column(batch.column("value")),
            _numbers(batch.column("offset")),
            _numbers(batch.column("timestamp_ms")),
        )
        self._records: list[ConsumerRecord] = []
        self._records_from = 0

    def record(self, row: int) -> ConsumerRecord:
        """Return a row as a record. Raises Malformed."""
        at = row - self._records_from
        if not 0 <= at < len(self._records):
            self._records = list(Columns().read(self._batch.slice(row, _READ_TOGETHER)))
            self._records_from, at = row, 0
        return self._records[at]


def _run_ends(column: pa.Array) -> list[int]:
    """Return where each run of equal values ends."""
    encoded: list[int] = pc.run_end_encode(column).run_ends.to_pylist()
    return encoded


def _text_column(column: pa.Array) -> TextColumn:
    # Large types have other offsets.
    valid, starts, data = _from_zero(column.cast(pa.binary())).buffers()
    has_nulls = column.null_count and valid is not None
    return TextColumn(_bytes(starts), _bytes(data), _bytes(valid) if has_nulls else None)


def _numbers(column: pa.Array) -> bytes:
    _, numbers = _from_zero(column).buffers()
    return _bytes(numbers)


def _from_zero(column: pa.Array) -> pa.Array:
    """Return a column whose buffers begin with its first row."""
    return column.take(pa.array(range(len(column)))) if column.offset else column


def _bytes(buffer: pa.Buffer | None) -> bytes:
    return b"" if buffer is None else buffer.to_pybytes()


#: The first of adjacent rows, and what they became.
_Run = tuple[int, TranslatedRows]
#: Up to so many runs, what else was gathered is put between them in slices; beyond, all rows are sorted.
_FEW_RUNS: Final = 32


class BatchOutput:
    """Gathers what the rows of a batch become, until it suffices for a batch of `PRODUCED`."""

    def __init__(self, batch: pa.RecordBatch) -> None:
        self._batch = batch
        self._begin()

    def _begin(self) -> None:
        self._runs: list[_Run] = []
        self._produced, self._rows_of_produced = Produced(), list[int]()
        self._count = self._bytes = 0

    def add_rows(self, first: int, found: TranslatedRows) -> None:
        """Add the messages of translated rows, from the row `first` on."""
        if found.rows:
            self._runs.append((first, found))
            self._count += len(found.are_tombstones)
            self._bytes += found.size_bytes

    def add_records(self, row: int, produced: Sequence[ProducerRecord], source: ConsumerRecord) -> None:
        """Add the records that a row became."""
        self._produced.add(produced, source)
        self._rows_of_produced += [row] * len(produced)

    @property
    def free_bytes(self) -> int:
        """The bytes that fit; 0 if it is full."""
        is_full = self._count >= FLUSH_RECORDS or self._produced.is_full
        return 0 if is_full else max(0, FLUSH_BYTES - self._bytes)

    def take(self) -> Iterator[pa.RecordBatch]:
        """Yield what was gathered as batches, in the order of the rows, and begin anew."""
        runs, rows = self._runs, self._rows_of_produced
        produced = self._produced.take()
        self._begin()
        by_run = self._batch_of(runs) if runs else None
        if by_run is None or produced is None:
            yield from (batch for batch in (by_run, produced) if batch is not None)
        elif len(runs) <= _FEW_RUNS:
            yield from _interleaved(by_run, runs, produced, rows)
        else:
            joined = pa.Table.from_batches([by_run, produced]).combine_chunks().to_batches()[0]
            in_all = pa.concat_arrays([_rows_of(runs), pa.array(rows, pa.int64())])
            yield joined.take(pc.sort_indices(in_all))

    def _batch_of(self, runs: Sequence[_Run]) -> pa.RecordBatch:
        found = [each for _, each in runs]
        numbers = pa.concat_arrays([_numbers_of(each) for each in found])
        source = self._batch.select(["topic", "partition", "offset", "timestamp_ms"])
        source = source.take(_rows_of(runs))
        columns = {
            "topic": pa.concat_arrays([_topics(each) for each in found]),
            "partition": source.column("partition"),
            "timestamp_ms": source.column("timestamp_ms"),
            "key": pa.concat_arrays([_array(each.keys, each) for each in found]),
            "value": pa.concat_arrays([_array(each.values, each) for each in found]),
            "headers": _source_marks(pa.concat_arrays([_array(each.marks, each) for each in found])),
            "source_topic": source.column("topic"),
            "source_partition": source.column("partition"),
            "source_offset": source.column("offset"),
            "number": numbers.cast(pa.int32()),
        }
        return pa.RecordBatch.from_pydict(columns, schema=ARROW_PRODUCED)


def _rows_of(runs: Sequence[_Run]) -> pa.Int64Array:
    """Return the row of each message."""
    rows = []
    for first, found in runs:
        are_first = pc.equal(_numbers_of(found), 0).cast(pa.int64())
        rows.append(pc.add(pc.cumulative_sum(are_first), first - 1))
    return pa.concat_arrays(rows)


def _numbers_of(found: TranslatedRows) -> pa.UInt8Array:
    """Return the number of each message among those of its row."""
    count = len(found.are_tombstones)
    return pa.Array.from_buffers(pa.uint8(), count, [None, pa.py_buffer(found.are_tombstones)])


def _interleaved(
    by_run: pa.RecordBatch, runs: Sequence[_Run], produced: pa.RecordBatch, rows: Sequence[int]
) -> Iterator[pa.RecordBatch]:
    """Yield slices of both batches in the order of their rows. `rows`: of `produced`."""
    start = done = 0
    for first, found in runs:
        until = bisect_left(rows, first)
        if until > done:
            yield produced.slice(done, until - done)
        count = len(found.are_tombstones)
        yield by_run.slice(start, count)
        start, done = start + count, until
    if done < len(produced):
        yield produced.slice(done)


def _topics(found: TranslatedRows) -> pa.StringArray:
    names = pa.array(found.topics, pa.string())
    places = [None, pa.py_buffer(found.topic_of_message)]
    return names.take(pa.Array.from_buffers(pa.uint32(), len(found.are_tombstones), places))


def _array(column: TextColumn, found: TranslatedRows) -> pa.BinaryArray:
    valid = None if column.valid is None else pa.py_buffer(column.valid)
    buffers = [valid, pa.py_buffer(column.starts), pa.py_buffer(column.data)]
    return pa.Array.from_buffers(pa.binary(), len(found.are_tombstones), buffers)


def _source_marks(marks: pa.BinaryArray) -> pa.ListArray:
    """Return headers, of which each record has its source mark alone."""
    names = pa.repeat(pa.scalar(SOURCE_HEADER, pa.string()), len(marks))
    pairs = pa.StructArray.from_arrays([names, marks], names=["key", "value"])
    return pa.ListArray.from_arrays(pa.array(range(len(marks) + 1), pa.int32()), pairs)
