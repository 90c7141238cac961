"""The committed offset of a partition, and the effect of another one. Pure computation.

The numbers are those of offsets. There may be fewer records: transaction markers have offsets, too, and
compaction removes records, but not their offsets.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from relay.io.kafka.ports import Partition


class OffsetRange(NamedTuple):
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


class PartitionOffsets(msgspec.Struct, frozen=True, kw_only=True):
    """The offsets of a partition, and the one that a route has committed.

    committed: The committed offset, below which everything has been relayed; None if there is none.
    start: Of a partition without a committed offset: the offset that `start` in the configuration yields;
        None if it yields none, for the reason `why_unknown`.
    log_start, log_end: The offset of the oldest record, and the one after the last record that is not part of
        an open transaction.
    """

    partition: Partition
    committed: int | None
    start: int | None = None
    log_start: int
    log_end: int
    why_unknown: str = ""

    @property
    def is_beyond_end(self) -> bool:
        """Return whether the committed offset is above the partition's end: the topic was recreated."""
        return self.committed is not None and self.committed > self.log_end

    @property
    def deleted(self) -> OffsetRange | None:
        """Return the offsets whose records retention has deleted before relay read them."""
        return None if self.committed is None else _range(self.committed, self.log_start)

    @property
    def next(self) -> int | None:
        """Return the offset at which the next start begins; None if relay would not start."""
        return None if self.is_beyond_end or self.deleted is not None else self.reached

    @property
    def reached(self) -> int | None:
        """Return the committed offset, or else that of `start`; None if it is unknown."""
        return self.start if self.committed is None else self.committed

    @property
    def lag(self) -> int | None:
        """Return the number of offsets that are left to read; None if it is unknown."""
        if self.reached is None or self.is_beyond_end:
            return None
        return max(0, self.log_end - max(self.reached, self.log_start))


class OffsetChange(msgspec.Struct, frozen=True, kw_only=True):
    """A change of a committed offset to `to`, which is within the partition."""

    current: PartitionOffsets
    to: int

    @property
    def is_needed(self) -> bool:
        """Return whether another offset is committed."""
        return self.to != self.current.committed

    @property
    def has_known_effect(self) -> bool:
        """Return whether the records that the change repeats or skips are known."""
        return self.current.reached is not None and not self.current.is_beyond_end

    @property
    def repeated(self) -> OffsetRange | None:
        """Return the offsets that have been relayed and are relayed again."""
        return None if self.current.committed is None else self._reread

    @property
    def added(self) -> OffsetRange | None:
        """Return the offsets that are relayed although they are before `start`.

        None if the partition has a committed offset.
        """
        return self._reread if self.current.committed is None else None

    @property
    def skipped(self) -> OffsetRange | None:
        """Return the offsets that are not relayed although the partition has them."""
        reached = self.current.reached
        if reached is None or self.current.is_beyond_end:
            return None
        return _range(max(reached, self.current.log_start), self.to)

    @property
    def deleted(self) -> OffsetRange | None:
        """Return the offsets whose records retention has deleted, and that the change gives up."""
        return self.current.deleted

    @property
    def affected(self) -> OffsetRange | None:
        """Return the offsets whose records the change is about: repeated, added or skipped ones."""
        return self._reread or self.skipped

    @property
    def _reread(self) -> OffsetRange | None:
        """The offsets from the new one to the one that relay has reached."""
        reached = self.current.reached
        if reached is None or self.current.is_beyond_end:
            return None
        return _range(self.to, reached)


def _range(first: int, end: int) -> OffsetRange | None:
    return OffsetRange(first, end) if first < end else None
