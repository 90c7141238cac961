"""Counters of a translator: events, losses, tables with inferred types, statements that are not written."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator
from typing import Final, NamedTuple

from relay.catalog import Catalog, Unknown
from relay.codecs.losses import Loss, removing_kind
from relay.core.selection import KINDS, kind_of
from relay.model.events import DdlKind, Event, Op, RowChange, SchemaChange, TableId
from relay.model.records import ConsumerRecord

#: Kinds of events that a source sends even if none of its rows can be translated.
_IDLE_EVENTS: Final = frozenset({"watermark", "heartbeat", "transaction-mark"})
#: Maximum number of tables in `EventCounts.inferred`.
MAX_INFERRED_TABLES: Final = 100
#: Maximum size of `EventCounts.unwritten`.
MAX_UNWRITTEN: Final = 100
_SCHEMA_INFERRED: Final = Loss.SCHEMA_INFERRED
#: The key for tables beyond the counted number (`CountsByTable`).
OTHER_TABLES: Final = TableId("", "")


def changes_in(events: Counter[str]) -> int:
    """Return the number of rows and statements among translated events, counted by kind."""
    return sum(count for kind, count in events.items() if kind not in _IDLE_EVENTS)


def is_inference_counted(events: Iterable[Event], losses: Iterable[Loss]) -> bool:
    """Return whether every row with an incomplete definition is counted as inferred.

    One that is not would be counted because of another row's loss, if both were in one record
    (`EventCounts.inferred`).
    """
    return _SCHEMA_INFERRED in losses or all(
        event.schema.complete for event in events if isinstance(event, RowChange)
    )


class CountsByTable:
    """Rows and DDL by table: for the first `most` tables separately, and for all others as `OTHER_TABLES`."""

    def __init__(self, most: int) -> None:
        self._most = most
        self._tables: dict[TableId, dict[Op | type[Event], int]] = {}
        # The latest event's; usually the next event has the same table.
        self._table: TableId | None = None
        self._counts: dict[Op | type[Event], int] = {}

    def add(self, events: Iterable[Event], times: int) -> None:
        """Count row changes and statements, `times` times."""
        for event in events:
            if isinstance(event, RowChange):
                kind: Op | type[Event] = event.op
            elif isinstance(event, SchemaChange):
                kind = SchemaChange
            else:
                continue
            if event.table is not self._table:
                self._table, self._counts = event.table, self._counts_of(event.table)
            self._counts[kind] = self._counts.get(kind, 0) + times

    def copy(self) -> CountsByTable:
        """Return a snapshot of the counts."""
        made = CountsByTable(self._most)
        made._tables = {table: dict(counts) for table, counts in self._tables.items()}
        return made

    def _counts_of(self, table: TableId) -> dict[Op | type[Event], int]:
        if table not in self._tables and len(self._tables) - (OTHER_TABLES in self._tables) >= self._most:
            table = OTHER_TABLES
        return self._tables.setdefault(table, {})

    @property
    def tables(self) -> dict[TableId, Counter[str]]:
        """The counts by table and kind (as `kind_of` names it)."""
        return {
            table: Counter({KINDS[kind]: count for kind, count in counts.items()})
            for table, counts in self._tables.items()
        }


class UnwrittenStatement(NamedTuple):
    """A statement that removed rows and was not written, so that readers of the target keep the rows.

    `statement`: its kind, such as `truncate table`. `position`: topic/partition/offset of its record.
    """

    table: TableId
    statement: str
    position: str

    def __str__(self) -> str:
        name = self.table if self.table.table else self.table.database
        return f"{name} ({self.statement}, {self.position})"


def _removed_by(event: SchemaChange) -> Iterator[tuple[TableId, DdlKind]]:
    """Yield the tables from which the statements of an event remove rows, with the kind of statement."""
    for statement in event.each_statement():
        if (kind := removing_kind(statement.kinds)) is not None:
            yield from ((table, kind) for table in statement.targets)


class EventCounts:
    """The counters of one translator.

    inferred: Rows of tables with inferred types.
    unknown: Why the tables in `inferred` had no definition at their first row.
    unwritten: Statements that removed rows and were not written, by a key shared by all copies of one.
    tables: Rows and DDL by table and kind (as `kind_of` names it), if a caller sets a Counter here.
    by_table: The same for a bounded number of tables, if enabled.
    """

    def __init__(self) -> None:
        self._events: dict[Op | type[Event], int] = dict.fromkeys(KINDS, 0)
        self._losses: dict[Loss, int] = dict.fromkeys(Loss, 0)
        self.inferred: dict[TableId, int] = {}
        self.unknown: dict[TableId, Unknown] = {}
        self.unwritten: dict[tuple[TableId, str, int | str], UnwrittenStatement] = {}
        self.tables: Counter[tuple[TableId, str]] | None = None
        self.by_table: CountsByTable | None = None

    def add(self, events: list[Event], losses: list[Loss], times: int = 1) -> None:
        """Count the events of a record and their losses, `times` times."""
        lost, counts = self._losses, self._events
        for what in losses:
            lost[what] += times
        if _SCHEMA_INFERRED in losses:
            self._note_inferred(events, times)
        for event in events:
            counts[event.op if isinstance(event, RowChange) else type(event)] += times
        if self.tables is not None:
            for event in events:
                if isinstance(event, RowChange | SchemaChange):
                    self.tables[event.table, kind_of(event)] += times
        if self.by_table is not None:
            self.by_table.add(events, times)

    def note_unknown(self, events: Iterable[Event], record: ConsumerRecord, catalog: Catalog) -> None:
        """Record why tables have no definition, for those whose first rows were just counted."""
        for event in events:
            if isinstance(event, RowChange) and event.table in self.inferred:
                at = event.source.at(record)
                self.unknown.setdefault(event.table, catalog.why_unknown(event.table, at))

    def note_unwritten(self, events: Iterable[Event], record: ConsumerRecord) -> None:
        """Record the statements among these events that removed rows and were not written to the target."""
        position = str(record.position)
        for event in events:
            if isinstance(event, SchemaChange):
                for table, kind in _removed_by(event):
                    self._note_unwritten(UnwrittenStatement(table, kind.value, position), event)

    def _note_unwritten(self, found: UnwrittenStatement, event: SchemaChange) -> None:
        if len(self.unwritten) < MAX_UNWRITTEN:
            key = found.table, found.statement, event.source.commit_ts or found.position
            self.unwritten.setdefault(key, found)

    def add_losses(self, losses: Iterable[Loss]) -> None:
        """Count only losses."""
        for what in losses:
            self._losses[what] += 1

    @property
    def events(self) -> Counter[str]:
        """The number of events by kind, such as `insert`, `update`, `schema-change`, `watermark`."""
        return Counter({KINDS[kind]: count for kind, count in self._events.items() if count})

    @property
    def losses(self) -> Counter[Loss]:
        """The number of losses by kind."""
        return Counter({what: count for what, count in self._losses.items() if count})

    def copy(self) -> EventCounts:
        """Return a snapshot of the counts."""
        made = EventCounts()
        if self.tables is not None:
            made.tables = Counter()
        made.become(self)
        return made

    def become(self, other: EventCounts) -> None:
        """Replace these counts by a copy of `other`."""
        self._events, self._losses, self.inferred = (
            dict(other._events),
            dict(other._losses),
            dict(other.inferred),
        )
        self.unknown, self.unwritten = dict(other.unknown), dict(other.unwritten)
        if self.tables is not None:
            self.tables.clear()
            self.tables.update(other.tables or {})
        self.by_table = None if other.by_table is None else other.by_table.copy()

    def since(self, other: EventCounts) -> tuple[Counter[str], Counter[Loss], Counter[TableId]]:
        """Return the counts added since `other` was copied."""
        inferred = Counter(self.inferred) - Counter(other.inferred)
        return self.events - other.events, self.losses - other.losses, inferred

    def _note_inferred(self, events: Iterable[Event], times: int) -> None:
        inferred = self.inferred
        for event in events:
            if isinstance(event, RowChange) and not event.schema.complete:
                table = event.table
                if table in inferred or len(inferred) < MAX_INFERRED_TABLES:
                    inferred[table] = inferred.get(table, 0) + times
