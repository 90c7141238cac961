"""Resolves the table names in a statement, and finds the tables that it affects."""

from __future__ import annotations

from collections.abc import Iterator

from relay.catalog.catalog import Catalog, folded
from relay.model.events import Position, RenamedTable, TableId
from relay.mysql.ddl.default_database import default_databases, named_in, others_of
from relay.mysql.ddl.statements import (
    AlterDatabase,
    AlterTable,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    Ddl,
    DropDatabase,
    DropTables,
    OtherStatement,
    PartitionToTable,
    RecoverTable,
    RenameTables,
    RenameTo,
    Statement,
    TableName,
    TruncateTable,
)


class Names:
    """Resolves table names in a statement whose envelope names `table`, given the catalog `known` before it.

    is_folding: The source ignores letter case when it compares names.
    """

    def __init__(
        self, table: TableId, statement: Ddl, known: Catalog, at: Position, *, is_folding: bool
    ) -> None:
        self._table, self._known, self._at = table, known, at
        self._folded = (table.database.lower(), table.table.lower())
        self._databases = default_databases(statement.statements, table, known.histories, self._exists)
        self.is_folding = is_folding
        self._made: dict[str, TableId] = {}
        if self.is_folding:
            named = [each for part in statement.statements for each in named_in(part) if not each.is_old]
            self._made = {folded(new): new for new in (self.new(each.name) for each in named)}

    def _exists(self, table: TableId) -> bool:
        return self._known.has(table, self._at)

    def is_ambiguous(self, name: TableName, *, is_new: bool = False) -> bool:
        """Return whether this name is ambiguous: it may belong to several databases or, for MySQL, to a table
        that is known in another letter case. Letter case does not make the name of a new table ambiguous.
        """
        if name.database is None and len(self._databases) > 1:
            return True
        return not is_new and bool(self._in_other_case(name))

    def possible(self, name: TableName) -> list[TableId]:
        """Return all tables that an ambiguous name may mean."""
        if name.database is None and len(self._databases) > 1:
            return [TableId(database, name.table) for database in self._databases]
        return [self(name), *self._in_other_case(name)]

    def _in_other_case(self, name: TableName) -> list[TableId]:
        """Find the tables that MySQL may mean by a name if no table has exactly that name."""
        found = self(name)
        if self.is_folding or self._exists(found):
            return []
        return self._known.existing(found, self._at)

    def __call__(self, name: TableName) -> TableId:
        """Return the full name of a table that exists before the statement or is created by it. An ambiguous
        name resolves to the envelope's database.
        """
        found = self._within(name)
        if self.is_folding and not self._exists(found):
            existing = self._known.existing(found, self._at)
            return existing[0] if existing else self._made.get(folded(found)) or self._as_enveloped(found)
        return self._as_enveloped(found)

    def new(self, name: TableName) -> TableId:
        """Return the full name of a table that the statement creates."""
        return self._as_enveloped(self._within(name))

    def created(self, statement: CreateTable | CreateTableAs | CreateTableLike) -> TableId:
        """Return the full name of a table that is created or, with IF NOT EXISTS, may already exist."""
        return self(statement.table) if statement.if_not_exists else self.new(statement.table)

    def replaced(self, new: TableId) -> list[TableId]:
        """Find the tables that cannot exist any longer once a table of this name is created."""
        return self._known.existing(new, self._at) if self.is_folding else []

    def database(self, name: str | None) -> str:
        """Return the name of a database as the catalog spells it; None means the envelope's."""
        if name is None or (self.is_folding and name.lower() == self._folded[0]):
            return self._table.database
        if not self.is_folding or name in self._known.histories:
            return name
        like = self._known.databases_like(name)
        return like[0].database if like else name

    def databases_in_other_case(self, name: str) -> list[str]:
        """Find the other databases that a name may mean; none for MySQL if a database has this exact name."""
        if not self.is_folding and name in self._known.histories:
            return []
        return [each.database for each in self._known.databases_like(name) if each.database != name]

    def _within(self, name: TableName) -> TableId:
        is_clear = len(self._databases) == 1
        found = name.within(self._databases[0] if is_clear else self._table.database)
        return TableId(self.database(found.database), found.table)

    def _as_enveloped(self, found: TableId) -> TableId:
        """Return the envelope's spelling of a name, unless a table with exactly this name exists."""
        is_envelopes = (found.database.lower(), found.table.lower()) == self._folded
        return self._table if is_envelopes and not self._exists(found) else found

    def recovered(self, statement: RecoverTable) -> tuple[TableId, TableId]:
        """Return the old and the new name of a recovered table. BY JOB names no table; the envelope does."""
        old = self._table if statement.table is None else self(statement.table)
        return old, old if statement.new is None else self.new(statement.new)


def subject_of(table: TableId, targets: tuple[TableId, ...], statement: Ddl) -> TableId:
    """Return the event's table: the envelope's if it is a target, else the first target or a database."""
    if targets:
        # Canal's envelope may contain the old name of a rename, or `a,` from a list of tables.
        return table if table in targets else targets[0]
    for part in statement.statements:
        if isinstance(part, (CreateDatabase, DropDatabase, AlterDatabase)):
            return TableId(part.database or table.database, "")
    return table


def targets_of(statement: Statement, names: Names) -> Iterator[TableId]:
    """Yield the tables that a part of a statement affects, by their names after it."""
    match statement:
        case DropTables(tables) | OtherStatement(_, tables):
            yield from map(names, tables)
        case RenameTables(pairs):
            yield from (names.new(new) for _, new in pairs)
        case AlterTable(table, changes):
            yield from (names.new(change.new) for change in changes if isinstance(change, RenameTo))
            if not any(isinstance(change, RenameTo) for change in changes):
                yield names(table)
            yield from (names.new(change.new) for change in changes if isinstance(change, PartitionToTable))
            yield from map(names, others_of(changes))
        case RecoverTable():
            yield names.recovered(statement)[1]
        case CreateTable() | CreateTableLike() | CreateTableAs():
            yield names.created(statement)
        case TruncateTable(table):
            yield names(table)


def renamed_by(statement: Statement, names: Names) -> Iterator[RenamedTable]:
    """Yield the pairs of names that a part of a statement renames."""
    if isinstance(statement, RenameTables):
        yield from (RenamedTable(names(old), names.new(new)) for old, new in statement.pairs)
    elif isinstance(statement, AlterTable):
        old = names(statement.table)
        yield from (
            RenamedTable(old, names.new(change.new))
            for change in statement.changes
            if isinstance(change, RenameTo)
        )
