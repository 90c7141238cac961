"""Record batches of Kafka's message format 2 as an engine has them, so that one call translates many records
from the bytes of a source batch into those of a target batch.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple, Protocol, TypeVar

Record = TypeVar("Record")
#: Name and value of a header (`relay.model.records.Header`).
_Header = tuple[str, bytes | None]


class SourceBatch(Protocol):
    """The records of a batch, decompressed and checked. Rows are numbered from 0."""

    def __init__(  # noqa: PLR0913, PLR0917 - the fields of a batch's header
        self,
        text: bytes,
        start: int,
        end: int,
        count: int,
        base_offset: int,
        base_time_ms: int,
        is_append_time: bool,
        begin: int,
    ) -> None:
        """Parse the `count` records between two places of a text, and keep those from offset `begin` on.

        `base_time_ms`: the time of all records if it is that of appending, otherwise what the times of
        records are relative to. Raises ValueError if records are cut off, or if there are other bytes.
        """

    @staticmethod
    def is_intact(data: bytes, start: int, end: int) -> bool:
        """Return whether the checksum of the batch between two places is right."""

    def __len__(self) -> int:
        """Return the number of records."""

    def records(
        self, make: Callable[..., Record], topic: str, partition: int, first: int, end: int
    ) -> list[Record]:
        """Make the records of the rows from `first` on and before `end`.

        `make` gets the members of `relay.model.records.ConsumerRecord` in their order. Bytes in the name of a
        header that are not UTF-8 become U+FFFD, like in Kafka's Java client.
        """

    def offset_of(self, row: int) -> int:
        """Return the offset of a row. Raises IndexError if there is none."""

    def size_bytes(self, first: int, end: int) -> int:
        """Return the bytes of keys and values of rows."""

    def newest_ms(self, first: int, end: int) -> int | None:
        """Return the newest time of rows; None if there are none."""


class TargetBatch(Protocol):
    """Records for a target partition, encoded as they are appended."""

    def __init__(self, most_bytes: int, needs_key: bool) -> None:
        """Make an empty batch of at most so many bytes before compression.

        `needs_key`: only an empty batch takes a record without a key.
        """

    def append(
        self, time_ms: int, key: bytes | None, value: bytes | None, headers: Sequence[_Header]
    ) -> bool:
        """Add a record; False if it does not fit. An empty batch takes any record.

        A batch whose first record has no time (-1) takes only such records: others would give it theirs.
        """

    def __len__(self) -> int:
        """Return the number of records."""

    @property
    def size(self) -> int:
        """Return the bytes of the batch before compression."""

    def records(self) -> bytes:
        """Return the records for compression."""

    def build(
        self,
        attributes: int,
        packed: bytes | None,
        producer_id: int,
        producer_epoch: int,
        base_sequence: int,
    ) -> bytes:
        """Return the whole batch with its checksum.

        `packed`: the compressed records, of the compression that the attributes name. Raises ValueError if it
        has 2 GiB or more.
        """


class BatchTypes(NamedTuple):
    """The classes of batches of one implementation, which belong together."""

    source: type[SourceBatch]
    target: type[TargetBatch]


class WrittenRun(NamedTuple):
    """What became of adjacent rows of a source batch.

    `rows`: how many are in target batches. `refused`: the number of the template that the next row fits, if
    it is not allowed. `uses`: the numbers of the templates, with how many rows used each.
    """

    rows: int
    refused: int | None
    uses: list[tuple[int, int]]
