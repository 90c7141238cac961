"""Drop rows that the source sends again (`deduplicate`).

TiCDC delivers at least once: after a restart, or after a table moves to another node, it sends a range of
rows again, with the same commit ts. A row is dropped if all of these hold:

* Its commit ts is below the watermark of its partition, so all rows up to it have arrived before.
* relay has written it from a lower offset of the same partition, and still remembers it.
* relay has written no row below the watermark in this partition since then.

The first condition alone would lose rows: a changefeed that is created again with an earlier start sends rows
below the old watermark for the first time. The last condition keeps the order: if relay wrote an old version
of a row again and dropped the newer one, readers would keep the old one. So when relay writes a row below the
watermark, it forgets the rows of this partition, and writes the rest of the range again. For readers, the
range only begins later.

Memory is bounded: there are two generations of digests. When the newer one is full, the older one is dropped.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from hashlib import blake2b
from typing import Final, NamedTuple

import msgspec

from relay.codecs.losses import Loss
from relay.core.selection import Selection
from relay.model.errors import ConfigError, Problem
from relay.model.events import ABSENT, Cell, Event, Op, RowChange, SchemaChange, TableId, Watermark
from relay.model.records import ConsumerRecord
from relay.routing.partitioning import key_indexes


class PartitionProgress(NamedTuple):
    """How far a source partition has been read.

    watermark: The highest watermark so far, 0 before the first one.
    first_offset: Rows that were written from lower offsets count as forgotten.
    """

    watermark: int
    first_offset: int


#: The progress of each source partition; never changed in place.
Progress = Mapping[tuple[str, int], PartitionProgress]


class Deduplicated(NamedTuple):
    """The result of `Deduplicator.find` for one record.

    events: The events to write.
    left_out: A loss for each row that is dropped.
    losses: A loss for each row that is written although it may be a repeat.
    progress: The progress of all partitions after the record.
    written: The digests of the rows to write.
    has_statement: Whether the record has DDL.
    """

    events: list[Event]
    left_out: Sequence[Loss]
    losses: Sequence[Loss]
    progress: Progress
    written: Sequence[bytes]
    has_statement: bool


class Deduplicator:
    """Remembers the rows that were written last.

    `max_rows`: how many it remembers at most; it remembers at least half as many. `selection`: the rows that
    are written; None if all are. Raises ConfigError for a `max_rows` below 1.

    `find` changes nothing; `accept` applies its result. The caller keeps the progress, and may return to an
    earlier one. The memory need not be restored with it: rows from offsets that are read again are no
    repeats.
    """

    def __init__(self, max_rows: int, selection: Selection | None) -> None:
        if max_rows < 1:
            raise ConfigError([Problem("deduplicate_rows", "must be at least 1")])
        self.max_rows, self.selection = max_rows, selection
        self._generation_rows = max(1, max_rows // 2)
        #: The offset that each row was last written from, by the row's digest.
        self._newer: dict[bytes, int] = {}
        self._older: dict[bytes, int] = {}

    def __len__(self) -> int:
        """Return the number of remembered rows, including those that count as forgotten."""
        return len(self._newer) + len(self._older)

    def forget(self) -> None:
        """Forget all rows."""
        self._newer, self._older = {}, {}

    def find(self, events: list[Event], record: ConsumerRecord, progress: Progress) -> Deduplicated:
        """Return the events of a record without repeated rows.

        `progress`: that of all partitions before the record.
        """
        at = record.topic, record.partition
        before = progress.get(at)
        found = _RecordFilter(self, record, before or PartitionProgress(0, record.offset))
        kept = [event for event in events if found.keeps(event)]
        after = found.progress
        if after != before:
            progress = {**progress, at: after}
        return Deduplicated(
            kept if found.left_out else events,
            found.left_out,
            found.losses,
            progress,
            found.written,
            found.has_statement,
        )

    def accept(self, found: Deduplicated, offset: int) -> None:
        """Apply the result for a record: its rows are written from this offset.

        DDL makes it forget all rows: a repeated TRUNCATE TABLE is written again, and removes later rows,
        which must then be written again, too.
        """
        if found.has_statement:
            self.forget()
        for digest in found.written:
            self.remember(digest, offset)

    def remember(self, digest: bytes, offset: int) -> None:
        """Remember a row that is written from this offset."""
        if len(self._newer) >= self._generation_rows:
            self._newer, self._older = {}, self._newer if self.max_rows > 1 else {}
        self._older.pop(digest, None)
        self._newer[digest] = offset

    def knows(self, digest: bytes, record: ConsumerRecord, progress: PartitionProgress) -> bool:
        """Return whether a row of a record was written from a lower offset."""
        offset = self._newer.get(digest)
        if offset is None:
            offset = self._older.get(digest)
        return offset is not None and progress.first_offset <= offset < record.offset


class _RecordFilter:
    """Decides which events of one record are written."""

    def __init__(self, memory: Deduplicator, record: ConsumerRecord, progress: PartitionProgress) -> None:
        self._memory, self._record = memory, record
        self.progress, self.has_statement = progress, False
        self.left_out: list[Loss] = []
        self.losses: list[Loss] = []
        self.written: list[bytes] = []

    def keeps(self, event: Event) -> bool:
        """Return whether an event is written, and note its effect on the progress and the memory."""
        if isinstance(event, Watermark):
            watermark = max(self.progress.watermark, event.source.commit_ts or 0)
            self.progress = self.progress._replace(watermark=watermark)
        elif isinstance(event, SchemaChange):
            self.has_statement = True
        elif isinstance(event, RowChange):
            return self._keeps_row(event)
        return True

    def _keeps_row(self, change: RowChange) -> bool:
        selection = self._memory.selection
        if selection is not None and not selection.has_table(change.table):
            return True
        indexes = key_indexes(change.schema, change.images.message_key_columns)
        digest = _digest(change, indexes, self._record) if indexes else None
        commit_ts = change.source.commit_ts
        is_below = commit_ts is not None and commit_ts < self.progress.watermark
        is_known = (
            digest is not None
            and not self.has_statement
            and self._memory.knows(digest, self._record, self.progress)
        )
        if is_known and is_below:
            self.left_out.append(Loss.ROWS_DEDUPLICATED)
            return False
        if is_known:
            self.losses.append(Loss.REPEATS_ABOVE_WATERMARK)
        elif is_below:
            self.losses.append(Loss.ROWS_BELOW_WATERMARK)
        if indexes and not is_known and (is_below or digest is None):
            self.progress = self.progress._replace(first_offset=self._record.offset)
        if digest is not None:
            self.written.append(digest)
        return True


def _digest(change: RowChange, key: Sequence[int], record: ConsumerRecord) -> bytes | None:
    """Return a digest that identifies a row's change; None without a commit ts or a complete key."""
    commit_ts, images, op = change.source.commit_ts, change.images, change.op
    old = None if op is _INSERT else images.cells_at(key, is_old=True)
    new = None if op is _DELETE else images.cells_at(key, is_old=False)
    if commit_ts is None or not (old or new) or _is_partial(old) or _is_partial(new):
        return None
    return digest_of(record, change.table, op, commit_ts, (old, new))


def digest_of(
    record: ConsumerRecord,
    table: TableId,
    op: Op,
    commit_ts: int,
    keys: tuple[Sequence[Cell] | None, Sequence[Cell] | None],
) -> bytes | None:
    """Return the digest of a row's change; None for a key with an integer outside 64 bits.

    `keys`: the cells of the row's key before and after the change.
    """
    content = record.topic, record.partition, table.database, table.table, _CODES[op], commit_ts, keys
    try:
        encoded = _encode(content)
    except OverflowError:  # MessagePack has no such integer
        return None
    return blake2b(encoded, digest_size=_DIGEST_BYTES).digest()


def _is_partial(cells: Iterable[Cell] | None) -> bool:
    return cells is not None and any(cell is None or cell is ABSENT for cell in cells)


_INSERT, _DELETE = Op.INSERT, Op.DELETE
#: A number for each operation: the text of an Enum takes longer.
_CODES: Final = {op: code for code, op in enumerate(Op)}
#: The chance that two of a million rows have the same digest is below 10⁻¹⁶.
_DIGEST_BYTES: Final = 12
_encode: Final = msgspec.msgpack.Encoder().encode
