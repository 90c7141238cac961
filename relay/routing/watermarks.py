"""Watermarks of repartitioned rows."""

from __future__ import annotations

import msgspec

from relay.model.events import Watermark
from relay.model.records import ConsumerRecord


class WatermarkGate(msgspec.Struct, frozen=True):
    """Watermarks of repartitioned rows: one is valid in every target partition once all source partitions
    have reached it.

    reached: The newest watermark of every source partition seen so far (None: only rows).
    passed: The newest watermark that was written.

    A value; `with_partition` and `after` return the next one.
    """

    reached: dict[tuple[str, int], int | None] = {}
    passed: int = -1

    def with_partition(self, record: ConsumerRecord) -> WatermarkGate:
        """Return the gate after a record of this partition."""
        key = record.topic, record.partition
        return self if key in self.reached else WatermarkGate(self.reached | {key: None}, self.passed)

    def after(self, mark: Watermark, record: ConsumerRecord) -> tuple[Watermark | None, WatermarkGate]:
        """Return the watermark that all partitions have now reached (None if not new), and the next gate."""
        key = record.topic, record.partition
        own = max(mark.source.commit_ts or 0, self.reached.get(key) or 0)
        reached = self.reached | {key: own}
        lowest = min(-1 if each is None else each for each in reached.values())
        if lowest <= self.passed:
            return None, WatermarkGate(reached, self.passed)
        source = msgspec.structs.replace(mark.source, commit_ts=lowest)
        return Watermark(source, mark.emitted_at_ns), WatermarkGate(reached, lowest)
