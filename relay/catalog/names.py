"""Which tables a statement means, and which it is about."""

from __future__ import annotations

from collections.abc import Iterator

from relay.catalog.catalog import Catalog
from relay.model import Position, RenamedTable, TableId
from relay.mysql.ddl.default_database import default_databases
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
    OtherChange,
    OtherStatement,
    RecoverTable,
    RenameTables,
    RenameTo,
    Statement,
    TableName,
    TruncateTable,
)


class Names:
    """Full names of tables in a statement whose envelope names `table`, by what was `known` before it."""

    def __init__(self, table: TableId, statement: Ddl, known: Catalog, at: Position) -> None:
        self._table, self._known, self._at = table, known, at
        self._folded = (table.database.lower(), table.table.lower())
        self._databases = default_databases(statement.statements, table, known.histories, self._exists)

    def _exists(self, table: TableId) -> bool:
        return self._known.has(table, self._at)

    def is_doubtful(self, name: TableName) -> bool:
        """Whether several databases have what this name may mean."""
        return name.database is None and len(self._databases) > 1

    def possible(self, name: TableName) -> list[TableId]:
        """All that a doubtful name may mean."""
        return [TableId(database, name.table) for database in self._databases]

    def __call__(self, name: TableName) -> TableId:
        """The full name; where it is doubtful, in the envelope's database.

        TiDB compares names without case, and the envelope has the one that rows will have. A table that
        exists by exactly this name is meant by it: MySQL may tell `t` and `T` apart.
        """
        is_clear = len(self._databases) == 1
        found = name.within(self._databases[0] if is_clear else self._table.database)
        is_envelopes = (found.database.lower(), found.table.lower()) == self._folded
        return self._table if is_envelopes and not self._exists(found) else found

    def recovered(self, statement: RecoverTable) -> tuple[TableId, TableId]:
        """The name that the table had and the name that it gets. BY JOB names none, but the envelope does."""
        old = self._table if statement.table is None else self(statement.table)
        return old, old if statement.new is None else self(statement.new)


def subject_of(table: TableId, targets: tuple[TableId, ...], statement: Ddl) -> TableId:
    """The event's table: the envelope's if the statement is about it, else the first target or a database."""
    if targets:
        # Canal's envelope may have the old name of a rename, or `a,` out of a list of tables.
        return table if table in targets else targets[0]
    for part in statement.statements:
        if isinstance(part, (CreateDatabase, DropDatabase, AlterDatabase)):
            return TableId(part.database or table.database, "")
    return table


def targets_of(statement: Statement, names: Names) -> Iterator[TableId]:
    """The tables that a part of a statement is about, by their names after it."""
    match statement:
        case DropTables(tables) | OtherStatement(_, tables):
            yield from map(names, tables)
        case RenameTables(pairs):
            yield from (names(new) for _, new in pairs)
        case AlterTable(table, changes):
            yield from (names(change.new) for change in changes if isinstance(change, RenameTo))
            if not any(isinstance(change, RenameTo) for change in changes):
                yield names(table)
            yield from (
                names(change.table) for change in changes if isinstance(change, OtherChange) and change.table
            )
        case RecoverTable():
            yield names.recovered(statement)[1]
        case CreateTable() | CreateTableLike() | CreateTableAs() | TruncateTable():
            yield names(statement.table)


def renamed_by(statement: Statement, names: Names) -> Iterator[RenamedTable]:
    """The pairs that a part of a statement renames."""
    if isinstance(statement, RenameTables):
        yield from (RenamedTable(names(old), names(new)) for old, new in statement.pairs)
    elif isinstance(statement, AlterTable):
        old = names(statement.table)
        yield from (
            RenamedTable(old, names(change.new))
            for change in statement.changes
            if isinstance(change, RenameTo)
        )
