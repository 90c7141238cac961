"""Where an outgoing record goes: topic and partition.

By default a record keeps its source's topic and partition, and so the order of its source. With another
number of partitions, rows go by a hash of table and primary key (all rows of one key to one partition, in
order) and watermarks to every partition.

DDL goes where the target's readers look for it. A protocol has a statement once, in partition 0, or
everywhere: a copy in every partition. Of the copies of a source that which is in partition 0 counts; the
others are written only where every partition keeps its own.
"""

from __future__ import annotations

import zlib
from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence

import msgspec

from relay.model import Event, RowChange, SchemaChange, TableSchema, Watermark
from relay.records import ConsumerRecord

#: A target topic, its partitions, and the events for them.
Group = tuple[str, Sequence[int], Sequence[Event]]


class Router(msgspec.Struct, frozen=True):
    """`topic` may hold `{topic}` (the source's); `partitions` None keeps the source's partition.

    `reads_ddl_everywhere`, `writes_ddl_everywhere`: the convention of the source and of the target.
    `fed`: which partitions a target topic gets records in from its sources, as far as somebody has said it.
    """

    topic: str = "{topic}"
    partitions: int | None = None
    reads_ddl_everywhere: bool = False
    writes_ddl_everywhere: bool = False
    fed: Mapping[str, tuple[int, ...]] = {}

    @property
    def drops_copies(self) -> bool:
        """Whether a statement is taken from partition 0 alone."""
        is_kept = self.partitions is None and self.writes_ddl_everywhere
        return self.reads_ddl_everywhere and not is_kept

    @property
    def makes_copies(self) -> bool:
        """Whether a statement goes to every partition that the target topic has from its sources."""
        is_everywhere = self.writes_ddl_everywhere and not self.reads_ddl_everywhere
        return is_everywhere and self.partitions is None

    def expecting(self, partitions: Iterable[tuple[str, int]]) -> Router:
        """Return the router that knows these as all partitions (topic, number) of the source."""
        numbers: dict[str, set[int]] = defaultdict(set)
        for topic, number in partitions:
            numbers[self.target_topic(topic)].add(number)
        fed = {target: tuple(sorted(found)) for target, found in numbers.items()}
        return self if fed == self.fed else msgspec.structs.replace(self, fed=fed)

    def without_copies(self, events: list[Event], record: ConsumerRecord) -> list[Event]:
        """Leave the statements out that partition 0 has, too."""
        if not record.partition or not self.drops_copies:
            return events
        return [event for event in events if not isinstance(event, SchemaChange)]

    def group(self, events: Sequence[Event], record: ConsumerRecord) -> Iterable[Group]:
        """The events in order, by where they go."""
        topic = self.target_topic(record.topic)
        groups: list[tuple[str, Sequence[int], list[Event]]] = []
        for event in events:
            partitions = self._partitions_of(event, topic, record)
            if groups and groups[-1][1] == partitions:
                groups[-1][2].append(event)
            else:
                groups.append((topic, partitions, [event]))
        return groups

    def target_topic(self, topic: str) -> str:
        """The target topic of a source topic."""
        return self.topic.replace("{topic}", topic)

    def _partitions_of(self, event: Event, topic: str, record: ConsumerRecord) -> Sequence[int]:
        if self.partitions is None:
            if isinstance(event, SchemaChange) and self.makes_copies:
                fed = self.fed.get(topic, ())
                return fed if record.partition in fed else (*fed, record.partition)
            return (record.partition,)
        if isinstance(event, RowChange):
            return (_key_hash(event) % self.partitions,)
        if isinstance(event, SchemaChange) and not self.writes_ddl_everywhere:
            return (0,)
        return range(self.partitions)


def _key_hash(change: RowChange) -> int:
    """A hash of the table and the row's key: the key that the message names or, where every message tells as
    much as a definition does, the handle key; the table alone if there is none.

    It must be the same before and after DDL is learnt, or changes of one row would be out of order: so it
    rests on what the message says, also of values whose types it does not tell, and on no order of columns.
    Without a key two changes of one row cannot be told apart from changes of two rows, so the whole table
    stays together. The old key counts for DELETE, the new one otherwise.
    """
    found = zlib.crc32(f"{change.table.database}\0{change.table.table}".encode())
    key = change.images.wire_key()
    for part in _key_cells(change) if key is None else key:
        found = zlib.crc32(b"\0" + repr(part).encode(), found)
    return found


def _key_cells(change: RowChange) -> Sequence[object]:
    """The cells of the key's columns, in the order of their names; none of the row's others is read."""
    images = change.images
    places = _key_places(change.schema, images.named_key)
    if not places:
        return ()
    cells = images.cells_at(places, is_old=False)
    if cells is None:
        cells = images.cells_at(places, is_old=True)
    return cells or ()


def _key_places(schema: TableSchema, named: tuple[str, ...] | None) -> tuple[int, ...]:
    """Where the columns of the key that a message names stand, of the handle key if it names none (None)."""
    if named is None or frozenset(named) == frozenset(schema.handle_key()):
        return schema.handle_places
    return schema.places_of(named) if named else ()


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
