"""TIMESTAMP as local time of a source's zone: times that do not exist in the zone, or are ambiguous.

A decoder whose `timezone` is not UTC counts such texts in messages, each value once. Reading it later counts
nothing. The reading itself is that of `relay.mysql.temporal.read_timestamp`.
"""

from __future__ import annotations

from collections.abc import Iterable
from datetime import tzinfo
from typing import Any, Final

from relay.codecs.losses import Loss
from relay.model.events import Column
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.temporal import count_instants, has_constant_offset

#: Number of days with a cached result of whether a check is needed: most values are of a few days.
_MOST_DAYS: Final = 1_000
_DAY: Final = 10
_TIME_END_NS: Final = TIME_END_MS * 1_000_000


class LocalTimes:
    """Counts local times that do not exist in the zone, or are ambiguous."""

    def __init__(self, zone: tzinfo) -> None:
        self.zone = zone
        self._one_offset_days: dict[str, bool] = {}

    def count(self, cells: Iterable[Any], losses: list[Loss]) -> None:
        """Count among the TIMESTAMP cells of a row those that are text."""
        one_offset_days = self._one_offset_days
        for cell in cells:
            if not isinstance(cell, str):
                continue
            day = cell[:_DAY]
            has_one_offset = one_offset_days.get(day)
            if has_one_offset is None:
                if len(one_offset_days) >= _MOST_DAYS:
                    one_offset_days.clear()
                has_one_offset = one_offset_days[day] = has_constant_offset(self.zone, day)
            if not has_one_offset and (found := count_instants(self.zone, cell.replace("T", " ", 1))) != 1:
                losses.append(Loss.REPEATED_HOUR if found else Loss.ZERO_DATE)


def is_local_time(column: Column) -> bool:
    """Return whether a column's text is in the zone of its source."""
    return column.type.base == "timestamp"


def event_time_ns(
    own_ns: int | None, envelope_ns: int | None, record: ConsumerRecord, losses: list[Loss]
) -> int:
    """Return the time of a change, in nanoseconds since 1970: its own time or, counted as `event-time`, that
    of the message around it, or else the Kafka timestamp of its record.

    Binlogs and TSOs count from 1970 without a sign, so a negative time (`-1`) means none. Nor is a time of a
    message real from `TIME_END_MS` on, which no other codec would read.
    """
    if own_ns is not None and own_ns > 0:
        return own_ns
    losses.append(Loss.EVENT_TIME)
    if envelope_ns is not None and 0 < envelope_ns < _TIME_END_NS:
        return envelope_ns
    return record.time_ms(0) * 1_000_000
