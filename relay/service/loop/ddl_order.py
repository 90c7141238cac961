"""Has partition 0 of a topic taken before rows of others that may need its DDL, where the loop reads both.

For `wait` in [schema]; where another instance reads partition 0, `ddl_follower` reads it besides. A row may
need DDL that was sent before it: polled rows wait until partition 0 has been taken past their Kafka
timestamps, or to the end that it had when they were there.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence

from relay.kafka.ports import Partition, RecordSource
from relay.records import ConsumerRecord


class DdlOrder:
    """Says of polled partitions whether their rows must wait, from one turn of the loop to the next."""

    def __init__(self) -> None:
        # The newest Kafka timestamp that was taken from each partition 0 for which rows wait.
        self._reached: dict[Partition, int] = {}
        # Of this turn: where each of them is, where it ends if it was asked, and how new each partition's
        # rows are.
        self._position: dict[Partition, int] = {}
        self._end: Mapping[Partition, int] = {}
        self._newest: dict[Partition, int] = {}

    def begin(self, firsts: Iterable[Partition]) -> None:
        """Have rows wait for these partitions 0, which are read here, and for no others."""
        self._reached = dict.fromkeys(firsts, -1)
        self._position, self._end, self._newest = {}, {}, {}

    def rewound(self) -> None:
        """What was taken from partitions 0 is not known any more."""
        self._reached = dict.fromkeys(self._reached, -1)

    async def look(self, source: RecordSource, polled: Mapping[Partition, Sequence[ConsumerRecord]]) -> None:
        """Begin a turn with what was polled; ask the brokers for ends if it matters. Raises PollFailed."""
        if not self._reached:
            return
        self._newest = {partition: _newest(records) for partition, records in polled.items()}
        for first in self._reached:
            records = polled.get(first)
            self._position[first] = records[0].offset if records else source.passed(first) or 0
        behind = {
            first
            for partition, newest in self._newest.items()
            if (first := Partition(partition.topic, 0)) in self._reached
            and partition != first
            and newest >= max(self._reached[first], self._newest.get(first, -1))
        }
        self._end = await source.ends(behind) if behind else {}

    def must_wait(self, partition: Partition) -> bool:
        """Whether the rows of a partition wait, after what was taken so far in this turn."""
        first = Partition(partition.topic, 0)
        if partition == first or first not in self._reached:
            return False
        is_past = self._newest[partition] < self._reached[first]
        return not is_past and (first not in self._end or self._position[first] < self._end[first])

    def taken(
        self, source: RecordSource, partition: Partition, records: Sequence[ConsumerRecord], done: int
    ) -> None:
        """Note how many of the polled records of a partition were taken."""
        if partition not in self._reached or not done:
            return
        self._reached[partition] = max(self._reached[partition], _newest(records[:done]))
        if done == len(records):
            # Not only behind the last record: what ends a transaction takes an offset, too.
            self._position[partition] = max(records[-1].offset + 1, source.passed(partition) or 0)


def _newest(records: Sequence[ConsumerRecord]) -> int:
    return max([record.timestamp_ms for record in records])
