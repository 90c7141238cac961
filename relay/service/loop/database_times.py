"""Find the database's own time in the records read: the times of rows and watermarks by partition.

Templates translate rows without reading their times, so a few of the newest records are decoded once more;
their number per second is limited to keep the cost negligible.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Final

from relay.io.kafka.ports import Partition
from relay.model.records import ConsumerRecord
from relay.service.loop.async_resolver import Translates
from relay.service.observe.status import Status

#: How many of the newest records of a partition are inspected: the last ones may be watermarks.
_NEWEST: Final = 4
MAX_PARTITIONS: Final = 50


class DatabaseTimes:
    """Find the times of the newest rows and of the last watermarks.

    `max_partitions`: how many a report has at most; the others get their turn in later reports.
    """

    def __init__(self, translator: Translates, status: Status, max_partitions: int = MAX_PARTITIONS) -> None:
        self._translator, self._status, self._max_partitions = translator, status, max_partitions
        # The newest records of partitions not inspected since, longest waiting first.
        self._newest: dict[Partition, list[ConsumerRecord]] = {}

    def note(self, partition: Partition, records: Sequence[ConsumerRecord], done: int) -> None:
        """Keep the newest `done` records of a partition until the next report."""
        kept = self._newest.setdefault(partition, [])
        kept += records[max(0, done - _NEWEST) : done]
        del kept[:-_NEWEST]

    def report(self, owned: Iterable[Partition]) -> None:
        """Report the times of owned partitions to the status."""
        times: dict[Partition, int | None] = {}
        for partition in list(self._newest)[: self._max_partitions]:
            times[partition] = self._row_time_ms(self._newest.pop(partition))
        watermarks = self._translator.watermarks_ms
        for partition in owned:
            self._status.database_times(
                partition, row_ms=times.get(partition), watermark_ms=watermarks.get(partition)
            )

    def _row_time_ms(self, records: Sequence[ConsumerRecord]) -> int | None:
        for record in reversed(records):
            found = self._translator.row_time_ms(record)
            if found is not None:
                return found
        return None
