"""A decoder's tables: what it has compiled for their rows, within a bound of memory, and what the catalog
said last. A cache that could be emptied at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from relay.catalog import Catalog
from relay.model.events import Position, SchemaChange, TableId, TableSchema, is_later
from relay.model.records import ConsumerRecord

#: What a decoder compiles for rows of certain columns.
_Kept = TypeVar("_Kept")
_AnyTable = TypeVar("_AnyTable", bound="Table[Any]")

#: What a table takes beside its names and what is compiled for it.
_TABLE_BYTES: Final = 1_000
#: A commit ts that no row has.
_NEVER: Final = math.inf

#: What is wrong with a row whose table has no name.
NAMELESS: Final = "a row without the name of its table"


class Columns:
    """Where the columns of a definition stand by name, and those that are virtual."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.place_of = {column.name: at for at, column in enumerate(schema.columns)}
        self.hidden = schema.hidden_places


class Table(Generic[_Kept]):
    """A table's name, made once, what a decoder has compiled for its rows (the newest first), and what the
    catalog said last.
    """

    def __init__(self, id: TableId) -> None:
        self.id = id
        self.kept: list[_Kept] = []
        #: About what all of it takes; `Tables` counts it.
        self.bytes = 0
        #: The definition after all DDL of the table, and that DDL's last position and commit ts, as `catalog`
        #: has them.
        self.newest: TableSchema | None = None
        self.newest_at: Position | None = None
        self.newest_commit_ts: float = _NEVER
        self.catalog: Catalog | None = None
        self._columns: Columns | None = None

    def columns_of(self, schema: TableSchema) -> Columns:
        """Return where the columns of a definition stand; of the last one it is known."""
        found = self._columns
        if found is None or found.schema is not schema:
            found = self._columns = Columns(schema)
        return found

    def is_newest(
        self, catalog: Catalog, commit_ts: int | None, event_time_ns: int, record: ConsumerRecord | Position
    ) -> bool:
        """Whether a row follows all DDL of its table, as most do (`Position.precedes`): then use `newest`."""
        if catalog is not self.catalog:
            self.catalog, (self.newest_at, self.newest) = catalog, catalog.newest(self.id)
            at = self.newest_at
            self.newest_commit_ts = _NEVER if at is None or at.commit_ts is None else at.commit_ts
        at = self.newest_at
        if at is None:
            return True
        if commit_ts is not None and at.commit_ts is not None:
            return commit_ts > at.commit_ts
        if at.partition == record.partition and at.topic == record.topic:
            return record.offset > at.offset
        if event_time_ns > at.event_time_ns:
            return True
        return isinstance(record, Position) and is_later(record.log, at.log)

    def forget(self) -> None:
        """Forget what was compiled."""
        self.kept, self._columns = [], None


class Tables(dict[tuple[str | None, str | None], _AnyTable]):
    """A decoder's tables by database and name, made on demand, within a bound of bytes: a cache that could be
    emptied at any time. Those that were met first are dropped first.
    """

    def __init__(self, made: Callable[[TableId], _AnyTable], most_bytes: int) -> None:
        super().__init__()
        self._made = made
        self._most_bytes, self._bytes = most_bytes, 0

    def __missing__(self, name: tuple[str | None, str | None]) -> _AnyTable:
        table = self._made(TableId(name[0] or "", name[1] or ""))
        self.charge(table, 0)
        return table

    def keep(self, table: _AnyTable, made: Any, size: int, most: int) -> None:  # noqa: ANN401 - the table's kind
        """Keep what was compiled for a table, about so many bytes, and the newest `most` of its kind."""
        if len(table.kept) >= most:
            # Each counts as an equal part: what a table keeps is alike.
            self.charge(table, -(table.bytes // (len(table.kept) + 1)))
        table.kept = [made, *table.kept[: most - 1]]
        self.charge(table, size)

    def charge(self, table: _AnyTable, size: int) -> None:
        """Count bytes that a table takes from now on; if all take too many, forget others, or all of it."""
        name = table.id.database, table.id.table
        if name not in self:
            self[name] = table
            size += _TABLE_BYTES + 2 * len(name[0]) + 2 * len(name[1])
        table.bytes += size
        self._bytes += size
        while self._bytes > self._most_bytes and len(self) > 1:
            self.pop(next(other for other in self if other != name))
        if self._bytes > self._most_bytes:
            newest = table.kept[:1]
            self.pop(name)
            table.kept = newest

    def pop(self, name: tuple[str | None, str | None], *default: Any) -> Any:  # noqa: ANN401 - as dict's
        """Forget a table."""
        table = super().pop(name, *default)
        if isinstance(table, Table):
            self._bytes -= table.bytes
            table.bytes = 0
            table.forget()
        return table

    def clear(self) -> None:
        """Forget all tables."""
        super().clear()
        self._bytes = 0

    def forget(self, change: SchemaChange) -> None:
        """Forget what was compiled for a statement's tables: columns may have moved, so no guess may stay."""
        for table in (*change.targets, *(pair.old for pair in change.renamed)):
            self.pop((table.database, table.table), None)
