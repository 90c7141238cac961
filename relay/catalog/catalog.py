"""The catalog: all tables with their histories, as of any position."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.catalog.versions import Drop, History, Unknown, is_cut, recovered, why_unknown
from relay.model.events import Position, TableId, TableSchema
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.persistent_dict import Layered

#: Versions kept of one table, unless a catalog says otherwise. Rows and repeats that are older than the
#: oldest of so many find no definition and change nothing.
HISTORY_LIMIT: Final = 256

NO_TABLES: Final = Layered[History]()


class DatabaseDefaults(NamedTuple):
    """Default charset and collation of a database's tables from a statement on; None if unknown."""

    at: Position
    charset: str | None
    collation: str | None


class EffectiveSchema(NamedTuple):
    """The definition that a row has by its position. `at`: the position of the statement that made it, None
    if no statement precedes the row; `later`: the positions of those that do not precede it.
    """

    at: Position | None
    schema: TableSchema | None
    later: Sequence[Position]


class Catalog(msgspec.Struct, frozen=True):
    """All tables' definitions, by database and table, as told by the stream. Immutable; may be pickled.

    `limit`: versions kept of one table. Who has read all DDL of a topic before its first row needs them all.
    `limits`: what a statement may cost. `spellings`: the names of tables, and of databases with an empty
    table, by what they are without regard to case (`folded`). `defaults`: of databases, the newest first.
    """

    histories: Layered[Layered[History]] = msgspec.field(default_factory=Layered)
    spellings: Layered[tuple[TableId, ...]] = msgspec.field(default_factory=Layered)
    defaults: Layered[tuple[DatabaseDefaults, ...]] = msgspec.field(default_factory=Layered)
    limit: int = HISTORY_LIMIT
    limits: Limits = DEFAULT_LIMITS

    def table(self, id: TableId, at: Position) -> TableSchema | None:
        """The definition that a row at this position has; None if the table is unknown or dropped."""
        tables = self.histories.get(id.database)
        if tables is not None:
            for version in tables.get(id.table, ()):
                if version.at.precedes(at):
                    return version.schema
        return None

    def created_at_same_instant(self, id: TableId, at: Position) -> TableSchema | None:
        """The definition that a statement at this very moment has made, of a table that `table` does not know
        there: between partitions, nothing tells which of the two came first. None if there is none.
        """
        for version in history_of(self, id):
            if version.at.precedes(at):
                break
            if version.schema is not None and not at.precedes(version.at):
                return version.schema
        return None

    def has(self, id: TableId, at: Position) -> bool:
        """Whether a table of exactly this name is known to exist before this position, not only later."""
        history = history_of(self, id)
        return next((not version.is_gone for version in history if version.at.precedes(at)), False)

    def existing(self, id: TableId, at: Position) -> list[TableId]:
        """Find the tables that exist before this position and whose name differs from this one only in letter
        case.
        """
        return [each for each in self.spellings.get(folded(id), ()) if each != id and self.has(each, at)]

    def databases_like(self, database: str) -> Sequence[TableId]:
        """Find the databases whose name is this one in any letter case, as tables without a name."""
        return self.spellings.get(folded(TableId(database, "")), ())

    def defaults_of(self, database: str, at: Position) -> tuple[str | None, str | None]:
        """Return the default charset and collation of tables that are created in a database at this position.

        A statement that comes later but precedes this one is not waited for.
        """
        for default in self.defaults.get(database, ()):
            if default.at.precedes(at) or default.at == at:
                return default.charset, default.collation
        return None, None

    def tables(self, topic: str, at: Position) -> Iterator[TableId]:
        """Find the tables, without views, that statements of this source topic have made, and that exist
        before this position.
        """
        for database, tables in self.histories.items():
            for table, history in tables.items():
                version = next((each for each in history if each.at.precedes(at)), None)
                if version is None or version.is_gone or version.at.topic != topic:
                    continue
                if version.schema is None or not version.schema.is_view:
                    yield TableId(database, table)

    @property
    def versions(self) -> int:
        """How many versions of tables it holds."""
        return sum([len(history) for tables in self.histories.values() for history in tables.values()])

    def changed_since(self, earlier: Catalog) -> list[TableId]:
        """Find the tables of which an earlier catalog may say something else."""
        found: list[TableId] = []
        for database in self.histories.differing(earlier.histories):
            tables, others = (each.histories.get(database, NO_TABLES) for each in (self, earlier))
            found += [TableId(database, table) for table in tables.differing(others)]
        return found

    def newest(self, id: TableId) -> tuple[Position | None, TableSchema | None]:
        """The newest definition and the position of its statement: what every row after that position has.

        The position is None if no statement about the table is known.
        """
        history = history_of(self, id)
        return (history[0].at, history[0].schema) if history else (None, None)

    def standing(self, id: TableId, at: Position) -> EffectiveSchema:
        """Return the definition that a row at this position has, and the statements before and after it."""
        later: list[Position] = []
        for version in history_of(self, id):
            if version.at.precedes(at):
                return EffectiveSchema(version.at, version.schema, later)
            later.append(version.at)
        return EffectiveSchema(None, None, later)

    def why_unknown(self, id: TableId, at: Position) -> Unknown:
        """Return why a row at this position has no definition."""
        history = history_of(self, id)
        older = next(
            (place for place, version in enumerate(history) if version.at.precedes(at)), len(history)
        )
        if older < len(history):
            return why_unknown(history[older:])
        if len(history) >= self.limit or is_cut(history):
            return Unknown.TOO_MANY
        if not history and len(self.spellings.get(folded(id), ())) > 0:
            return Unknown.OTHER_NAME
        return Unknown.NO_DDL

    def definitions(self, id: TableId) -> Iterator[TableSchema]:
        """Give the definitions that a table has had, whatever their positions, the newest first."""
        for version in history_of(self, id):
            if version.schema is not None:
                yield version.schema

    def dropped(self, id: TableId, at: Position) -> TableSchema | None:
        """What a table that is dropped at this position was before; None if it is not, or nobody knows."""
        history = history_of(self, id)
        older = tuple(version for version in history if version.at.precedes(at))
        return recovered(older) if older and isinstance(older[0].effect, Drop) else None


def folded(id: TableId) -> str:
    """Return a key that all spellings of a name share. No name contains its separator."""
    return f"{id.database}\0{id.table}".lower()


def history_of(catalog: Catalog, table: TableId) -> History:
    """Return the versions of a table, the newest first; () if no statement was about it."""
    tables = catalog.histories.get(table.database)
    return () if tables is None else tables.get(table.table, ())
