"""Finds the database of the unqualified names in a statement.

A message names one table: the table that the statement affects, or the new name of a rename. Its database is
the session's default only if the statement does not name it. Canal's message of `RENAME TABLE a TO other.b`,
sent in database `d`, contains `other` and nowhere `d` (upstream: `LogEventConvert`, which takes the schema of
the first new name). TiCDC names the databases of a rename.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import NamedTuple

from relay.model.events import DdlKind, TableId
from relay.mysql.ddl.statements import (
    AlterTable,
    Change,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    DropTables,
    OtherChange,
    OtherStatement,
    PartitionToTable,
    RenameTables,
    RenameTo,
    Statement,
    TableName,
    TableToPartition,
    TruncateTable,
)


class Named(NamedTuple):
    """A name in a statement, and whether a table of this name existed before it."""

    name: TableName
    is_old: bool


def default_databases(
    statements: Iterable[Statement],
    table: TableId,
    databases: Mapping[str, Iterable[str]],
    exists: Callable[[TableId], bool],
) -> tuple[str, ...]:
    """Return the database of unqualified names, or all candidates if it is ambiguous.

    `table` is the table in the message. If its database is not certainly the session's, the result is the one
    of `databases` (with their tables) that contains all tables that must exist before the statement
    (`exists`). If none or several contain all, every database with one of them is a candidate; if there is
    none, the result is the message's database.
    """
    named = [each for statement in statements for each in named_in(statement)]
    if is_session_database(table, [each.name for each in named]):
        return (table.database,)
    old = _required_tables(named)
    whole = [
        database
        for database in databases
        if old and database and all(exists(TableId(database, name)) for name in old)
    ]
    if len(whole) == 1:
        return (whole[0],)
    some = [
        database
        for database, tables in databases.items()
        if database and any(exists(TableId(database, name)) for name in old.intersection(tables))
    ]
    return tuple(some) or (table.database,)


def is_session_database(table: TableId, names: Sequence[TableName]) -> bool:
    """Return whether the message's database is certainly the session's: the statement does not name it, or
    names the message's table without it.
    """
    database = table.database.lower()
    own = [name.database for name in names if name.table.lower() == table.table.lower()]
    if any(each is not None and each.lower() == database for each in own):
        return False
    is_named = any(name.database is not None and name.database.lower() == database for name in names)
    return not is_named or None in own


def _required_tables(named: list[Named]) -> set[str]:
    """Return the unqualified names of tables that must exist before the statement."""
    found: set[str] = set()
    made: set[str] = set()
    for name, is_old in named:
        if not is_old:
            made.add(name.table)
        elif name.database is None and name.table not in made:
            found.add(name.table)
    return found


def others_of(changes: Iterable[Change]) -> Iterator[TableName]:
    """Yield the names of existing tables that an ALTER TABLE of another table contains."""
    for change in changes:
        if isinstance(change, TableToPartition):
            yield change.old
        elif isinstance(change, OtherChange) and change.table is not None:
            yield change.table


def named_in(statement: Statement) -> Iterator[Named]:
    """Yield the table names in a part of a statement, in order."""
    match statement:
        case CreateTable(table) | CreateTableAs(table):
            yield Named(table, is_old=False)
        case CreateTableLike(table, like):
            yield from (Named(table, is_old=False), Named(like, is_old=True))
        case DropTables(tables):
            yield from (Named(table, is_old=True) for table in tables)
        case RenameTables(pairs):
            yield from (Named(pair[at], is_old=at == 0) for pair in pairs for at in (0, 1))
        case AlterTable(table, changes):
            yield Named(table, is_old=True)
            made = (each for each in changes if isinstance(each, (RenameTo, PartitionToTable)))
            yield from (Named(each.new, is_old=False) for each in made)
            yield from (Named(other, is_old=True) for other in others_of(changes))
        case TruncateTable(table):
            yield Named(table, is_old=True)
        case OtherStatement(kind, tables):
            yield from (Named(table, is_old=kind is DdlKind.DROP_VIEW) for table in tables)
