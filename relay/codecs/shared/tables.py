"""A decoder's tables: compiled readers of their rows, within a memory limit, and the catalog's latest facts.
The cache may be emptied at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from typing import Any, Final, Generic, TypeVar

from relay.catalog import Catalog
from relay.model.events import Position, SchemaChange, TableId, TableSchema, is_later
from relay.model.records import ConsumerRecord

#: A decoder's compiled object for rows of certain columns.
_Kept = TypeVar("_Kept")
_AnyTable = TypeVar("_AnyTable", bound="Table[Any]")

#: Memory of a table besides its names and compiled objects.
_TABLE_BYTES: Final = 1_000
#: A commit ts that no row has.
_NEVER: Final = math.inf

#: The error for a row whose table has no name.
NAMELESS: Final = "a row without the name of its table"


class Columns:
    """The column indexes of a definition by name, and its virtual columns."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.index_of = {column.name: at for at, column in enumerate(schema.columns)}
        self.hidden = schema.hidden_indexes


class Table(Generic[_Kept]):
    """A table's name, made once, the decoder's compiled objects for its rows (newest first), and the
    catalog's latest facts.
    """

    def __init__(self, id: TableId) -> None:
        self.id = id
        self.kept: list[_Kept] = []
        #: Approximate memory of all of it; `Tables` counts it.
        self.bytes = 0
        #: The definition after all DDL of the table, and that DDL's last position and commit ts, according to
        #: `catalog`.
        self.newest: TableSchema | None = None
        self.newest_at: Position | None = None
        self.newest_commit_ts: float = _NEVER
        self.catalog: Catalog | None = None
        self._columns: Columns | None = None

    def columns_of(self, schema: TableSchema) -> Columns:
        """Return the column indexes of a definition; cached for the last one."""
        found = self._columns
        if found is None or found.schema is not schema:
            found = self._columns = Columns(schema)
        return found

    def is_newest(
        self, catalog: Catalog, commit_ts: int | None, event_time_ns: int, record: ConsumerRecord | Position
    ) -> bool:
        """Return whether a row follows all DDL of its table, as most do (`Position.precedes`); if so, use
        `newest`.
        """
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
        """Discard compiled objects."""
        self.kept, self._columns = [], None


class Tables(dict[tuple[str | None, str | None], _AnyTable]):
    """A decoder's tables by database and name, made on demand, within a limit of bytes: a cache that may be
    emptied at any time. The oldest tables are dropped first.
    """

    def __init__(self, made: Callable[[TableId], _AnyTable], most_bytes: int) -> None:
        super().__init__()
        self._made = made
        self._most_bytes = most_bytes
        #: Approximate memory of all tables.
        self.bytes = 0

    def __missing__(self, name: tuple[str | None, str | None]) -> _AnyTable:
        table = self._made(TableId(name[0] or "", name[1] or ""))
        self.charge(table, 0)
        return table

    def keep(self, table: _AnyTable, made: Any, size: int, most: int) -> None:  # noqa: ANN401 - the table's kind
        """Keep a compiled object of a table, of about `size` bytes, and the newest `most` of its kind."""
        if len(table.kept) >= most:
            # Each counts as an equal part: a table's objects are alike.
            self.charge(table, -(table.bytes // (len(table.kept) + 1)))
        table.kept = [made, *table.kept[: most - 1]]
        self.charge(table, size)

    def charge(self, table: _AnyTable, size: int) -> None:
        """Count bytes that a table takes from now on; above the limit, discard others, or everything."""
        name = table.id.database, table.id.table
        if name not in self:
            self[name] = table
            size += _TABLE_BYTES + 2 * len(name[0]) + 2 * len(name[1])
        table.bytes += size
        self.bytes += size
        while self.bytes > self._most_bytes and len(self) > 1:
            self.pop(next(other for other in self if other != name))
        if self.bytes > self._most_bytes:
            newest = table.kept[:1]
            self.pop(name)
            table.kept = newest

    def pop(self, name: tuple[str | None, str | None], *default: Any) -> Any:  # noqa: ANN401 - as dict's
        """Discard a table."""
        table = super().pop(name, *default)
        if isinstance(table, Table):
            self.bytes -= table.bytes
            table.bytes = 0
            table.forget()
        return table

    def clear(self) -> None:
        """Discard all tables."""
        super().clear()
        self.bytes = 0

    def forget(self, change: SchemaChange) -> None:
        """Discard the compiled objects of a statement's tables: columns may have moved, so no inferred schema
        may stay.
        """
        for table in (*change.targets, *(pair.old for pair in change.renamed)):
            self.pop((table.database, table.table), None)
