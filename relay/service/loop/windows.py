"""Windows of records whose rows may become one message: `max-batch-size` in the loop (`relay.core.batching`).

A window holds the records of a partition whose offsets have the same quotient when divided by its size. It is
taken as a whole, so that the output does not depend on where polls and rounds end: an incomplete window is
polled again. It is taken incomplete where the partition ends; and when it was held back once already, so that
neither a fetch smaller than a window nor an end without a record (markers of transactions) stops the relay.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from itertools import groupby

from relay.codecs.codec import Joining
from relay.core.batching import Joiner
from relay.io.kafka.ports import Partition
from relay.model.records import ConsumerRecord


class Windows:
    """Split records into windows of a size (a number of offsets), and hold back incomplete windows."""

    def __init__(self, size: int) -> None:
        self._size = size
        # The first offset held back, by partition.
        self._held: dict[Partition, int] = {}

    def split(self, records: Sequence[ConsumerRecord]) -> Iterator[Sequence[ConsumerRecord]]:
        """Split records of one partition into windows."""
        for _, window in groupby(records, lambda record: record.offset // self._size):
            yield tuple(window)

    def ready(
        self, partition: Partition, records: Sequence[ConsumerRecord], end: int | None
    ) -> Sequence[ConsumerRecord]:
        """Return the records without those of an incomplete last window."""
        held = self._held.pop(partition, None)
        following = records[-1].offset + 1
        if end is None or following >= end or following % self._size == 0:
            return records
        begin = len(records)
        while begin and records[begin - 1].offset // self._size == records[-1].offset // self._size:
            begin -= 1
        if records[begin].offset == held:
            return records
        self._held[partition] = records[begin].offset
        return records[:begin]


class Joins:
    """How the loop joins rows. `limits`: `max.message.bytes` of the target's topics."""

    def __init__(self, joining: Joining, limits: Mapping[str, int]) -> None:
        self._joining, self._limits = joining, limits
        self.windows = Windows(joining.most_rows)

    def joiner(self) -> Joiner[None]:
        """Return a joiner for one window."""
        return Joiner(self._joining, self._limits)
