"""Applies one parsed statement to the catalog."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from relay.catalog.names import Names
from relay.catalog.versions import Alter, Define, DropView, Recover, Unknown
from relay.catalog.writer import Writer
from relay.model.events import Column, ColumnType, DdlKind, TableSchema
from relay.mysql.ddl import define_table
from relay.mysql.ddl.statements import (
    AlterDatabase,
    AlterTable,
    Change,
    CreateDatabase,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    DropDatabase,
    DropTables,
    OtherChange,
    OtherStatement,
    PartitionToTable,
    RecoverTable,
    RenameTables,
    RenameTo,
    Statement,
    TableCharset,
    TableName,
    TableToPartition,
)


def apply(writer: Writer, statement: Statement, names: Names) -> bool:
    """Record the effects of a statement. Return False if it cannot have happened here; the caller must then
    keep none of its effects.
    """
    match statement:
        case CreateTable() | CreateTableAs() | CreateTableLike():
            _apply_create(writer, statement, names)
        case DropTables(tables):
            writer.drop(dict.fromkeys(names(table) for table in tables if not names.is_ambiguous(table)))
            _add_ambiguous(writer, tables, names)
        case AlterTable():
            return _apply_alter(writer, statement, names)
        case RenameTables(pairs):
            return all(_move(writer, old, new, names) for old, new in pairs)
        case RecoverTable():
            old, new = names.recovered(statement)
            writer.record(new, Recover(old))
        case DropDatabase(database):
            _drop_database(writer, names.database(database), names)
        case CreateDatabase() | AlterDatabase():
            _apply_database(writer, statement, names)
        case OtherStatement():
            _apply_other(writer, statement, names)
    return True


def _add_ambiguous(
    writer: Writer, tables: Iterable[TableName], names: Names, *, is_made: bool = False
) -> None:
    """Forget the definitions of all tables that ambiguous names may mean.

    `is_made`: mark tables that did not exist as unknown, too.
    """
    for table in dict.fromkeys(filter(names.is_ambiguous, tables)):
        for possible in names.possible(table):
            if is_made or writer.has(possible):
                writer.record(possible, Define(None, why=Unknown.AMBIGUOUS))


def _apply_create(
    writer: Writer, statement: CreateTable | CreateTableAs | CreateTableLike, names: Names
) -> None:
    if_absent = statement.if_not_exists
    table = names.created(statement)
    if names.is_ambiguous(statement.table, is_new=not if_absent):
        _add_ambiguous(writer, (statement.table,), names, is_made=True)
    elif isinstance(statement, CreateTable):
        defaults = writer.defaults_of(table.database)
        changes = _completed(statement.changes, defaults, widens=False)
        writer.record(table, Define(define_table(table, changes, *defaults), if_absent))
    elif isinstance(statement, CreateTableAs):
        writer.record(table, Define(None, if_absent, Unknown.QUERY))
    elif names.is_ambiguous(statement.like):
        writer.record(table, Define(None, if_absent, Unknown.AMBIGUOUS))
    else:
        writer.copy(names(statement.like), table, if_absent=if_absent)
    if not if_absent:
        writer.drop(names.replaced(table))


def _completed(
    changes: Iterable[Change], defaults: tuple[str | None, str | None], *, widens: bool
) -> tuple[Change, ...]:
    """Return the changes; a table charset with neither charset nor collation gets the database's defaults.

    `widens`: see `TableCharset`; TiDB does not widen TEXT columns.
    """
    return tuple(
        _completed_charset(change, defaults, widens=widens) if isinstance(change, TableCharset) else change
        for change in changes
    )


def _completed_charset(
    change: TableCharset, defaults: tuple[str | None, str | None], *, widens: bool
) -> TableCharset:
    if change.charset is None and change.collation is None:
        change = msgspec.structs.replace(change, charset=defaults[0], collation=defaults[1])
    return change if widens else msgspec.structs.replace(change, widens=False)


def _apply_database(writer: Writer, statement: CreateDatabase | AlterDatabase, names: Names) -> None:
    """Record the default charset and collation of a database."""
    if isinstance(statement, CreateDatabase) and statement.replaces:
        _drop_database(writer, names.database(statement.database), names)
    if not (statement.charset or statement.collation):
        return
    database = names.database(statement.database)
    known, defaults = writer.defaults_of(database), (statement.charset, statement.collation)
    if names.is_folding and defaults in _OF_TIDB:
        defaults = None, None
    is_kept = isinstance(statement, CreateDatabase) and statement.if_not_exists and any(known)
    if not is_kept and defaults != known:
        writer.default(database, *defaults)


def _drop_database(writer: Writer, database: str, names: Names) -> None:
    """Drop a database. Its name in another letter case means the same one for TiDB, and may for MySQL."""
    writer.drop_database(database)
    for other in names.databases_in_other_case(database):
        if names.is_folding:
            writer.drop_database(other)
        else:
            writer.forget_database(other)


#: TiDB's built-in defaults: a database with one of these is treated like one without defaults.
_OF_TIDB: Final = (("utf8mb4", None), ("utf8mb4", "utf8mb4_bin"), (None, "utf8mb4_bin"))


def _apply_other(writer: Writer, statement: OtherStatement, names: Names) -> None:
    """Apply statements about views; all other statements leave the catalog unchanged."""
    if statement.kind not in {DdlKind.DROP_VIEW, DdlKind.CREATE_VIEW}:
        return
    is_made = statement.kind is DdlKind.CREATE_VIEW
    columns = [Column(name, ColumnType("unspecified"), nullable=True) for name in statement.columns or ()]
    for name in dict.fromkeys(statement.tables):
        if names.is_ambiguous(name):
            _add_ambiguous(writer, (name,), names, is_made=is_made)
        elif is_made:
            view = TableSchema(names(name), tuple(columns), is_view=True)
            writer.record(view.id, Define(view))
        else:
            writer.record(names(name), DropView())


def _apply_alter(writer: Writer, statement: AlterTable, names: Names) -> bool:
    table = statement.table
    if statement.if_exists and writer.is_gone(names(table)):
        return True
    shaping = tuple(each for each in statement.changes if not isinstance(each, _OF_OTHER_TABLES))
    if shaping and not names.is_ambiguous(table):
        defaults = writer.defaults_of(names(table).database)
        writer.record(names(table), Alter(_completed(shaping, defaults, widens=not names.is_folding)))
    elif shaping:
        _add_ambiguous(writer, (table,), names)
    _apply_partitions(writer, statement, names)
    renames = [each for each in statement.changes if isinstance(each, RenameTo)]
    return all(_move(writer, table, each.new, names) for each in renames)


#: Changes that do not affect the columns and keys of the altered table.
_OF_OTHER_TABLES: Final = (OtherChange, RenameTo, PartitionToTable, TableToPartition)


def _apply_partitions(writer: Writer, statement: AlterTable, names: Names) -> None:
    """Convert a partition to a table with the altered table's definition, or a table to a partition."""
    for change in statement.changes:
        if isinstance(change, TableToPartition):
            _drop_table(writer, change.old, names)
        elif isinstance(change, PartitionToTable):
            _copy_table(writer, statement.table, change.new, names)


def _drop_table(writer: Writer, table: TableName, names: Names) -> None:
    if names.is_ambiguous(table):
        _add_ambiguous(writer, (table,), names)
    else:
        writer.drop((names(table),))


def _copy_table(writer: Writer, old: TableName, new: TableName, names: Names) -> None:
    if names.is_ambiguous(new, is_new=True):
        _add_ambiguous(writer, (new,), names, is_made=True)
    elif names.is_ambiguous(old):
        writer.record(names.new(new), Define(None, why=Unknown.AMBIGUOUS))
    else:
        writer.copy(names(old), names.new(new))


def _move(writer: Writer, old: TableName, new: TableName, names: Names) -> bool:
    """Rename a table, like `Writer.move`. If either name is ambiguous, the new definition is unknown."""
    if not names.is_ambiguous(old) and not names.is_ambiguous(new, is_new=True):
        source, target = names(old), names.new(new)
        if not writer.move(source, target):
            return False
        writer.drop(each for each in names.replaced(target) if each != source)
        return True
    _drop_table(writer, old, names)
    if names.is_ambiguous(new, is_new=True):
        _add_ambiguous(writer, (new,), names, is_made=True)
    else:
        writer.record(names.new(new), Define(None, why=Unknown.AMBIGUOUS))
    return True
