"""The stored offset of a partition, and the effect of another one. Sends no requests.

The numbers are those of offsets. There may be fewer records: markers of transactions have offsets, too, and
compaction removes records, but not their offsets.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from relay.io.kafka.ports import Partition


class Span(NamedTuple):
    """Offsets from `first` to before `end`."""

    first: int
    end: int

    @property
    def size(self) -> int:
        """Return the number of offsets."""
        return self.end - self.first

    @property
    def last(self) -> int:
        """Return the last offset."""
        return self.end - 1


class StoredOffset(msgspec.Struct, frozen=True, kw_only=True):
    """The position of a route in a partition.

    committed: The stored offset, below which everything has been relayed; None if none is stored.
    begins: The offset at which the next start begins: the stored one, or else that of `start`; None if
        `start` yields none, for the reason `why_unknown`.
    first, end: The oldest offset of the partition, and the one after its last record.
    """

    partition: Partition
    committed: int | None
    begins: int | None
    first: int
    end: int
    why_unknown: str = ""

    @property
    def is_beyond_end(self) -> bool:
        """Return whether the stored offset is above the partition's end: the topic was recreated."""
        return self.committed is not None and self.committed > self.end

    @property
    def expired(self) -> Span | None:
        """Return the offsets that retention has deleted before relay has read them."""
        return None if self.committed is None else _span(self.committed, self.first)

    @property
    def left(self) -> int | None:
        """Return the number of offsets that are left to read; None if it is unknown."""
        if self.begins is None or self.is_beyond_end:
            return None
        return max(0, self.end - max(self.begins, self.first))


class OffsetChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a stored offset to `to`, which is within the partition."""

    stored: StoredOffset
    to: int

    @property
    def is_needed(self) -> bool:
        """Return whether another offset is stored."""
        return self.to != self.stored.committed

    @property
    def is_known(self) -> bool:
        """Return whether the effect is known."""
        return self.stored.begins is not None and not self.stored.is_beyond_end

    @property
    def repeated(self) -> Span | None:
        """Return the offsets that have been relayed and are relayed again."""
        return None if self.stored.committed is None else self._before

    @property
    def added(self) -> Span | None:
        """Return the offsets before `start` that are read, of a partition without a stored offset."""
        return self._before if self.stored.committed is None else None

    @property
    def skipped(self) -> Span | None:
        """Return the offsets that are not relayed although the partition has them."""
        if self.stored.begins is None or not self.is_known:
            return None
        return _span(max(self.stored.begins, self.stored.first), self.to)

    @property
    def expired(self) -> Span | None:
        """Return the offsets that retention has deleted, and that are passed over."""
        return self.stored.expired

    @property
    def read(self) -> Span | None:
        """Return the offsets whose records the change is about: repeated, added or skipped ones."""
        return self._before or self.skipped

    @property
    def _before(self) -> Span | None:
        return (
            _span(self.to, self.stored.begins) if self.stored.begins is not None and self.is_known else None
        )


def _span(first: int, end: int) -> Span | None:
    return Span(first, end) if first < end else None
