"""Where an outgoing record goes: topic and partition.

By default a record keeps its source's topic and partition, and so the order of its source. With another
number of partitions, rows go by a hash of table and primary key (all rows of one key to one partition, in
order) and control events to where the target's readers look for them: partition 0, or every partition.
"""

from __future__ import annotations

import zlib
from collections.abc import Iterable, Sequence

import msgspec

from relay.model import Event, Row, RowChange, SchemaChange, TableSchema, Watermark
from relay.records import ConsumerRecord

#: A target topic, its partitions, and the events for them.
Group = tuple[str, Sequence[int], Sequence[Event]]


class Router(msgspec.Struct, frozen=True):
    """`topic` may hold `{topic}` (the source's); `partitions` None keeps the source's partition.

    With a number of partitions, DDL goes to every one if `ddl_everywhere`, else to partition 0; watermarks go
    to every one.
    """

    topic: str = "{topic}"
    partitions: int | None = None
    ddl_everywhere: bool = False

    def group(self, events: Sequence[Event], record: ConsumerRecord) -> Iterable[Group]:
        """The events in order, by where they go."""
        topic = self.topic_of(record)
        if self.partitions is None or not events:
            return ((topic, (record.partition,), events),)
        groups: list[tuple[str, Sequence[int], list[Event]]] = []
        for event in events:
            partitions = self._partitions_of(event, self.partitions)
            if groups and groups[-1][1] == partitions:
                groups[-1][2].append(event)
            else:
                groups.append((topic, partitions, [event]))
        return groups

    def topic_of(self, record: ConsumerRecord) -> str:
        """The target topic."""
        return self.topic.replace("{topic}", record.topic)

    def _partitions_of(self, event: Event, partitions: int) -> Sequence[int]:
        if isinstance(event, RowChange):
            return (_key_hash(event) % partitions,)
        if isinstance(event, SchemaChange) and not self.ddl_everywhere:
            return (0,)
        return range(partitions)


def _key_hash(change: RowChange) -> int:
    """A hash of the table and the row's key: the handle key, or the table alone if the row has none.

    Without a key two changes of one row cannot be told apart from changes of two rows, so the whole table
    stays together. The old key counts for DELETE, the new one otherwise.
    """
    row = change.after if change.after is not None else change.before
    found = zlib.crc32(f"{change.table.database}\0{change.table.table}".encode())
    for value in _key_values(change.schema, row or ()):
        found = zlib.crc32(b"\0" + repr(value).encode(), found)
    return found


def _key_values(schema: TableSchema, row: Row) -> list[object]:
    key = schema.handle_key()
    return (
        [value for column, value in zip(schema.columns, row, strict=True) if column.name in key]
        if row
        else []
    )


class WatermarkGate(msgspec.Struct, frozen=True):
    """Watermarks of rows that are spread anew: one holds for every target partition once all source
    partitions have reached it.

    `reached` has the newest watermark of every source partition that was seen (None: rows only), `passed` the
    newest that was let through. A value; `after` gives the next one.
    """

    reached: dict[tuple[str, int], int | None] = {}
    passed: int = -1

    def after(self, events: list[Event], record: ConsumerRecord) -> tuple[list[Event], WatermarkGate]:
        """The events, with watermarks replaced by those of all partitions or left out; and the next gate."""
        key = record.topic, record.partition
        reached, passed = self.reached, self.passed
        if key not in reached:
            reached = reached | {key: None}
        kept: list[Event] = []
        for event in events:
            if not isinstance(event, Watermark):
                kept.append(event)
                continue
            mark = max(event.source.commit_ts or 0, reached[key] or 0)
            reached = reached | {key: mark}
            lowest = min(-1 if each is None else each for each in reached.values())
            if lowest > passed:
                passed = lowest
                kept.append(
                    Watermark(msgspec.structs.replace(event.source, commit_ts=lowest), event.emitted_at_ns)
                )
        return kept, self if reached is self.reached else WatermarkGate(reached, passed)
