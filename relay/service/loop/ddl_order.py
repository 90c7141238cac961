"""Make the loop process DDL before rows of other partitions that may need it, if it reads both.

For `wait_for_ddl` in [schema]. The DDL of a row is in partition 0 of its topic, or of the topic that a
connector has for DDL (`Config.ddl_topics`); where another instance reads that, `ddl_follower` reads it as
well. A row may need DDL that was sent before it: polled rows wait until that partition has been taken past
their Kafka timestamps, or to its end as of the time when the rows arrived.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping, Sequence

from relay.io.kafka.ports import Partition, RecordSource
from relay.model.records import ConsumerRecord


class DdlPartitions:
    """The partition with each row's DDL. `ddl_topics`: the DDL topic of a topic that has a separate one."""

    def __init__(self, ddl_topics: Mapping[str, str]) -> None:
        self._ddl_topics = ddl_topics

    def first(self, partition: Partition) -> Partition | None:
        """Return the partition with the DDL for rows of `partition`; None if that is `partition`."""
        first = Partition(self._ddl_topics.get(partition.topic, partition.topic), 0)
        return None if first == partition else first

    def firsts(self, partitions: Iterable[Partition]) -> list[Partition]:
        """Return the partitions with the DDL for rows of `partitions`, without those that need none."""
        found = (self.first(partition) for partition in partitions)
        return list(dict.fromkeys(first for first in found if first is not None))


class DdlOrder:
    """Decide which polled partitions must wait, from one turn of the loop to the next.

    `look` begins a turn; the other methods are about partitions passed to it.
    """

    def __init__(self, ddl_partitions: DdlPartitions) -> None:
        self._ddl_partitions = ddl_partitions
        # The newest Kafka timestamp that was taken from each partition with DDL for which rows wait; -1
        # before that.
        self._reached: dict[Partition, int] = {}
        # The position in each of them in this turn.
        self._position: dict[Partition, int] = {}
        # The timestamp of the other partitions' rows in this turn, and the end of their DDL when they
        # arrived, if it was requested.
        self._newest: dict[Partition, int] = {}
        self._end: dict[Partition, int] = {}

    def begin(self, firsts: Iterable[Partition]) -> None:
        """Make rows wait for these partitions with DDL, which are read here, and for no others."""
        self._reached = dict.fromkeys(firsts, -1)
        self._position, self._end, self._newest = {}, {}, {}

    def rewound(self) -> None:
        """Forget the progress in partitions with DDL."""
        self._reached = dict.fromkeys(self._reached, -1)

    async def look(
        self,
        source: RecordSource,
        polled: Mapping[Partition, Sequence[ConsumerRecord]],
        held: Collection[Partition],
    ) -> None:
        """Begin a turn with the polled records; those of `held` partitions were polled in an earlier turn.

        Fetches end offsets if they matter. Raises PollFailed.
        """
        if not self._reached:
            return
        self._end = {partition: end for partition, end in self._end.items() if partition in held}
        self._newest = {partition: _newest_ms(records) for partition, records in polled.items()}
        for first in self._reached:
            records = polled.get(first)
            self._position[first] = records[0].offset if records else source.position_of(first) or 0
        behind = {
            partition: ddl
            for partition, newest in self._newest.items()
            if (ddl := self._waited_for(partition)) is not None
            and partition not in self._end
            and newest >= max(self._reached[ddl], self._newest.get(ddl, -1))
        }
        ends = await source.ends(set(behind.values())) if behind else {}
        self._end |= {partition: ends[ddl] for partition, ddl in behind.items()}

    def must_wait(self, partition: Partition) -> bool:
        """Return whether the rows of a partition wait, after everything taken so far in this turn."""
        first = self._waited_for(partition)
        if first is None:
            return False
        is_past = self._newest[partition] < self._reached[first]
        return not is_past and (partition not in self._end or self._position[first] < self._end[partition])

    def may_wait(self, partition: Partition) -> bool:
        """Return whether the rows of a partition have a partition with DDL to wait for."""
        return self._waited_for(partition) is not None

    def _waited_for(self, partition: Partition) -> Partition | None:
        first = self._ddl_partitions.first(partition) if self._reached else None
        return first if first in self._reached else None

    def taken(
        self, source: RecordSource, partition: Partition, records: Sequence[ConsumerRecord], done: int
    ) -> None:
        """Note how many of the polled records of a partition were taken."""
        if partition not in self._reached or not done:
            return
        self._reached[partition] = max(self._reached[partition], _newest_ms(records[:done]))
        if done == len(records):
            # Not just after the last record: a transaction's end marker takes up an offset, too.
            self._position[partition] = max(records[-1].offset + 1, source.position_of(partition) or 0)


def _newest_ms(records: Sequence[ConsumerRecord]) -> int:
    return max([record.timestamp_ms for record in records])
