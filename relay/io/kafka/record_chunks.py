"""Fetched records of a partition as they are in their batches: one becomes an object when it is asked for."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import chain
from typing import NamedTuple, SupportsIndex, TypeAlias, cast, overload

from relay.model.records import ConsumerRecord, LazyRecords, newest_ms, size_of
from relay.templates.batches import SourceBatch


class BatchRows(NamedTuple):
    """The rows of a parsed batch from `first` on and before `end`."""

    batch: SourceBatch
    first: int
    end: int


#: Adjacent records: rows of a batch, or finished records, of older message formats.
Chunk: TypeAlias = BatchRows | list[ConsumerRecord]


class Fetched(LazyRecords):
    """Fetched records of a partition, in the order of their offsets."""

    def __init__(self, topic: str, partition: int, chunks: Iterable[Chunk]) -> None:
        self.topic, self.partition = topic, partition
        self._chunks = [chunk for chunk in chunks if _length(chunk)]
        self._length = sum(map(_length, self._chunks))

    def __len__(self) -> int:
        return self._length

    def __iter__(self) -> Iterator[ConsumerRecord]:
        return chain.from_iterable(map(self._records, self._chunks))

    @overload
    def __getitem__(self, index: SupportsIndex) -> ConsumerRecord: ...

    @overload
    def __getitem__(self, index: slice) -> Sequence[ConsumerRecord]: ...

    def __getitem__(self, index: SupportsIndex | slice) -> ConsumerRecord | Sequence[ConsumerRecord]:
        if isinstance(index, slice):
            first, end, step = index.indices(self._length)
            if step != 1:
                return list(self)[index]
            return Fetched(self.topic, self.partition, self._cut(first, max(first, end)))
        number = index.__index__()
        first = number + self._length if number < 0 else number
        if not 0 <= first < self._length:
            raise IndexError("there is no record with this number")
        (chunk,) = self._cut(first, first + 1)
        return self._records(chunk)[0]

    def rows_from(self, index: int) -> BatchRows | None:
        """Return the rows of the parsed batch that a record is in, from that record on.

        None if it is in none.
        """
        for chunk in self._cut(index, self._length):
            return chunk if isinstance(chunk, BatchRows) else None
        return None

    @property
    def size_bytes(self) -> int:
        """The bytes in keys and values."""
        return sum(
            chunk.batch.size_bytes(chunk.first, chunk.end) if isinstance(chunk, BatchRows) else size_of(chunk)
            for chunk in self._chunks
        )

    @property
    def newest_ms(self) -> int:
        """The newest timestamp. Raises ValueError if there are no records."""
        return max(
            cast("int", chunk.batch.newest_ms(chunk.first, chunk.end))
            if isinstance(chunk, BatchRows)
            else newest_ms(chunk)
            for chunk in self._chunks
        )

    def followed_by(self, more: Fetched) -> Fetched:
        """Return these records and more of the same partition."""
        return Fetched(self.topic, self.partition, [*self._chunks, *more._chunks])

    def _cut(self, first: int, end: int) -> Iterator[Chunk]:
        """Return the records from `first` on and before `end`."""
        for chunk in self._chunks:
            length = _length(chunk)
            if first < length and end > 0:
                start, stop = max(first, 0), min(end, length)
                if isinstance(chunk, BatchRows):
                    yield BatchRows(chunk.batch, chunk.first + start, chunk.first + stop)
                else:
                    yield chunk[start:stop]
            first, end = first - length, end - length

    def _records(self, chunk: Chunk) -> list[ConsumerRecord]:
        if isinstance(chunk, list):
            return chunk
        batch, first, end = chunk
        return batch.records(ConsumerRecord, self.topic, self.partition, first, end)


def joined(first: Sequence[ConsumerRecord], second: Sequence[ConsumerRecord]) -> Sequence[ConsumerRecord]:
    """Return records of a partition, and those that follow."""
    if isinstance(first, Fetched) and isinstance(second, Fetched):
        return first.followed_by(second)
    return [*first, *second]


def _length(chunk: Chunk) -> int:
    return chunk.end - chunk.first if isinstance(chunk, BatchRows) else len(chunk)
