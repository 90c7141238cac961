"""The catalog: all tables with their histories, queried by position."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.catalog.messages import Learned
from relay.catalog.redaction import Redaction
from relay.catalog.versions import Drop, History, Unknown, is_cut, recovered, why_unknown
from relay.model.events import Position, TableId, TableSchema
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.persistent_dict import PersistentDict

#: Versions kept per table by default. Rows and repeated statements older than the oldest kept version find no
#: definition and change nothing.
HISTORY_LIMIT: Final = 256

NO_TABLES: Final = PersistentDict[History]()


class DatabaseDefaults(NamedTuple):
    """The default charset and collation of a database's tables from a statement on; None if unknown."""

    at: Position
    charset: str | None
    collation: str | None


class EffectiveSchema(NamedTuple):
    """The definition that applies to a row at some position.

    at: Position of the statement that created the definition; None if no statement precedes the row.
    later: Positions of the table's statements that do not precede the row.
    """

    at: Position | None
    schema: TableSchema | None
    later: Sequence[Position]


class Catalog(msgspec.Struct, frozen=True):
    """All tables' definitions by database and table, derived from the stream. Immutable; may be pickled.

    limit: Versions kept per table. Reading all DDL of a topic before its first row needs them all.
    limits: Limits on the cost of a statement.
    spellings: Names of tables, and of databases with an empty table, by case-folded key (`folded`).
    defaults: Default charsets and collations by database, newest first.
    redaction: Removes hidden values from everything that the catalog learns; None if nothing is hidden.
    learned: The redacted messages of the last record that changed the catalog, if there is a redaction.
    """

    histories: PersistentDict[PersistentDict[History]] = msgspec.field(default_factory=PersistentDict)
    spellings: PersistentDict[tuple[TableId, ...]] = msgspec.field(default_factory=PersistentDict)
    defaults: PersistentDict[tuple[DatabaseDefaults, ...]] = msgspec.field(default_factory=PersistentDict)
    limit: int = HISTORY_LIMIT
    limits: Limits = DEFAULT_LIMITS
    redaction: Redaction | None = None
    learned: Learned | None = None

    def redacted(self, schema: TableSchema) -> TableSchema:
        """Return a definition as the catalog learns it: without hidden values."""
        return schema if self.redaction is None else self.redaction.schema(schema)

    def table(self, id: TableId, at: Position) -> TableSchema | None:
        """Return the definition for a row at this position; None if the table is unknown or dropped."""
        tables = self.histories.get(id.database)
        if tables is not None:
            for version in tables.get(id.table, ()):
                if version.at.precedes(at):
                    return version.schema
        return None

    def created_at_same_instant(self, id: TableId, at: Position) -> TableSchema | None:
        """Return the definition from a statement at exactly this moment, if `table` finds none.

        The order of a row and a statement in different partitions at the same moment is unknown. None if
        there is no such statement.
        """
        for version in history_of(self, id):
            if version.at.precedes(at):
                break
            if version.schema is not None and not at.precedes(version.at):
                return version.schema
        return None

    def has(self, id: TableId, at: Position) -> bool:
        """Return whether a table of exactly this name is known to exist before this position."""
        history = history_of(self, id)
        return next((not version.is_gone for version in history if version.at.precedes(at)), False)

    def existing(self, id: TableId, at: Position) -> list[TableId]:
        """Find the tables that exist before this position and whose name differs from this one only in letter
        case.
        """
        return [each for each in self.spellings.get(folded(id), ()) if each != id and self.has(each, at)]

    def databases_like(self, database: str) -> Sequence[TableId]:
        """Find the databases with this name in any letter case, each as a `TableId` with an empty table."""
        return self.spellings.get(folded(TableId(database, "")), ())

    def defaults_of(self, database: str, at: Position) -> tuple[str | None, str | None]:
        """Return the default charset and collation of tables created in a database at this position.

        A statement that precedes the position but arrives later is not waited for.
        """
        for default in self.defaults.get(database, ()):
            if default.at.precedes(at) or default.at == at:
                return default.charset, default.collation
        return None, None

    def tables(self, topic: str, at: Position) -> Iterator[TableId]:
        """Find the tables, without views, that exist before this position and whose newest statement then
        came from this source topic.
        """
        for database, tables in self.histories.items():
            for table, history in tables.items():
                version = next((each for each in history if each.at.precedes(at)), None)
                if version is None or version.is_gone or version.at.topic != topic:
                    continue
                if version.schema is None or not version.schema.is_view:
                    yield TableId(database, table)

    def existing_tables(self) -> Iterator[TableId]:
        """Yield the tables, without views, that exist after all known statements."""
        return (table for table, _ in self._existing())

    def _existing(self) -> Iterator[tuple[TableId, TableSchema | None]]:
        """Yield existing tables, without views, with their newest definitions; None for unknown ones."""
        for database, tables in self.histories.items():
            for table, history in tables.items():
                if not history or history[0].is_gone:
                    continue
                schema = history[0].schema
                if schema is None or not schema.is_view:
                    yield TableId(database, table), schema

    @property
    def versions(self) -> int:
        """The number of table versions in the catalog."""
        return sum([len(history) for tables in self.histories.values() for history in tables.values()])

    def changed_since(self, earlier: Catalog) -> list[TableId]:
        """Find the tables whose histories may differ from those in an earlier catalog."""
        found: list[TableId] = []
        for database in self.histories.differing(earlier.histories):
            tables, others = (each.histories.get(database, NO_TABLES) for each in (self, earlier))
            found += [TableId(database, table) for table in tables.differing(others)]
        return found

    def with_definitions(self, changed: Callable[[TableSchema], TableSchema | None]) -> Catalog:
        """Return a catalog with other definitions in place of its own; None is an unknown one."""
        histories = PersistentDict(
            {
                database: PersistentDict(
                    {name: _changed(history, changed) for name, history in tables.items()}
                )
                for database, tables in self.histories.items()
            }
        )
        return msgspec.structs.replace(self, histories=histories)

    def present_tables(self) -> Iterator[TableSchema]:
        """Yield the newest definitions of all known tables that exist, without views."""
        return (schema for _, schema in self._existing() if schema is not None)

    def newest(self, id: TableId) -> tuple[Position | None, TableSchema | None]:
        """Return the newest definition and its statement's position; it applies to every row after it.

        The position is None if no statement about the table is known.
        """
        history = history_of(self, id)
        return (history[0].at, history[0].schema) if history else (None, None)

    def effective_schema(self, id: TableId, at: Position) -> EffectiveSchema:
        """Return the definition for a row at this position, and the positions of later statements."""
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
            (index for index, version in enumerate(history) if version.at.precedes(at)), len(history)
        )
        if older < len(history):
            return why_unknown(history[older:])
        if len(history) >= self.limit or is_cut(history):
            return Unknown.TOO_MANY
        if not history and len(self.spellings.get(folded(id), ())) > 0:
            return Unknown.OTHER_NAME
        return Unknown.NO_DDL

    def definitions(self, id: TableId) -> Iterator[TableSchema]:
        """Yield all known definitions of a table, newest first, regardless of position."""
        for version in history_of(self, id):
            if version.schema is not None:
                yield version.schema

    def dropped(self, id: TableId, at: Position) -> TableSchema | None:
        """Return the last definition of a table that is dropped at this position; None if it is not dropped,
        or if that definition is unknown.
        """
        history = history_of(self, id)
        older = tuple(version for version in history if version.at.precedes(at))
        return recovered(older) if older and isinstance(older[0].effect, Drop) else None


def folded(id: TableId) -> str:
    """Return a key shared by all spellings of a name in any letter case. No name contains its separator."""
    return f"{id.database}\0{id.table}".lower()


def history_of(catalog: Catalog, table: TableId) -> History:
    """Return the versions of a table, newest first; () if no statement about it is known."""
    tables = catalog.histories.get(table.database)
    return () if tables is None else tables.get(table.table, ())


def _changed(history: History, changed: Callable[[TableSchema], TableSchema | None]) -> History:
    """Return a history with other definitions."""
    known = ((each, each.schema) for each in history)
    return tuple(
        [
            each if schema is None else msgspec.structs.replace(each, schema=changed(schema))
            for each, schema in known
        ]
    )
