"""Watermarks of rows that are spread over other partitions than those of their source."""

from __future__ import annotations

import msgspec

from relay.model.events import Watermark
from relay.model.records import ConsumerRecord


class WatermarkGate(msgspec.Struct, frozen=True):
    """Watermarks of rows that are repartitioned: one holds for every target partition once all source
    partitions have reached it.

    `reached` has the newest watermark of every source partition that was seen (None: rows only), `passed` the
    newest that was let through. A value; `meeting` and `after` give the next one.
    """

    reached: dict[tuple[str, int], int | None] = {}
    passed: int = -1

    def meeting(self, record: ConsumerRecord) -> WatermarkGate:
        """Return the gate that has seen this record's partition."""
        key = record.topic, record.partition
        return self if key in self.reached else WatermarkGate(self.reached | {key: None}, self.passed)

    def after(self, mark: Watermark, record: ConsumerRecord) -> tuple[Watermark | None, WatermarkGate]:
        """Return the watermark that all partitions have reached by this one, if it is a new one; and the next
        gate.
        """
        key = record.topic, record.partition
        own = max(mark.source.commit_ts or 0, self.reached.get(key) or 0)
        reached = self.reached | {key: own}
        lowest = min(-1 if each is None else each for each in reached.values())
        if lowest <= self.passed:
            return None, WatermarkGate(reached, self.passed)
        source = msgspec.structs.replace(mark.source, commit_ts=lowest)
        return Watermark(source, mark.emitted_at_ns), WatermarkGate(reached, lowest)
