"""What a statement does to the catalogue."""

from __future__ import annotations

from collections.abc import Iterable

from relay.catalog.names import Names
from relay.catalog.versions import Alter, Define, DropView, Recover
from relay.catalog.writer import Writer
from relay.model import Column, ColumnType, DdlKind, TableSchema
from relay.mysql.ddl import define_table
from relay.mysql.ddl.statements import (
    AlterTable,
    Change,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    DropDatabase,
    DropTables,
    OtherChange,
    OtherStatement,
    RecoverTable,
    RenameTables,
    RenameTo,
    Statement,
    TableName,
)


def apply(writer: Writer, statement: Statement, names: Names) -> bool:
    """Record what a statement does. False if it cannot have happened here; nothing of it may then be kept."""
    match statement:
        case CreateTable() | CreateTableAs() | CreateTableLike():
            _apply_create(writer, statement, names)
        case DropTables(tables):
            writer.drop(dict.fromkeys(names(table) for table in tables if not names.is_doubtful(table)))
            _doubt(writer, tables, names)
        case AlterTable(table, changes):
            return _apply_alter(writer, table, changes, names)
        case RenameTables(pairs):
            return all(_move(writer, old, new, names) for old, new in pairs)
        case RecoverTable():
            old, new = names.recovered(statement)
            writer.record(new, Recover(old))
        case DropDatabase(database):
            writer.drop_database(database)
        case OtherStatement():
            _apply_other(writer, statement, names)
    return True


def _doubt(writer: Writer, tables: Iterable[TableName], names: Names, *, is_made: bool = False) -> None:
    """Forget the definitions of all tables that doubtful names may mean. `is_made`: also where none was."""
    for table in dict.fromkeys(filter(names.is_doubtful, tables)):
        for possible in names.possible(table):
            if is_made or writer.has(possible):
                writer.record(possible, Define(None))


def _apply_create(
    writer: Writer, statement: CreateTable | CreateTableAs | CreateTableLike, names: Names
) -> None:
    table, if_absent = names(statement.table), statement.if_not_exists
    if names.is_doubtful(statement.table):
        _doubt(writer, (statement.table,), names, is_made=True)
    elif isinstance(statement, CreateTable):
        writer.record(table, Define(define_table(table, statement.changes), if_absent))
    elif isinstance(statement, CreateTableAs) or names.is_doubtful(statement.like):
        writer.record(table, Define(None, if_absent))
    else:
        writer.copy(names(statement.like), table, if_absent=if_absent)


def _apply_other(writer: Writer, statement: OtherStatement, names: Names) -> None:
    """Of these statements only those about views change the catalogue."""
    if statement.kind not in {DdlKind.DROP_VIEW, DdlKind.CREATE_VIEW}:
        return
    is_made = statement.kind is DdlKind.CREATE_VIEW
    columns = [Column(name, ColumnType("unspecified"), nullable=True) for name in statement.columns or ()]
    for name in dict.fromkeys(statement.tables):
        if names.is_doubtful(name):
            _doubt(writer, (name,), names, is_made=is_made)
        elif is_made:
            view = TableSchema(names(name), tuple(columns), is_view=True)
            writer.record(view.id, Define(view))
        else:
            writer.record(names(name), DropView())


def _apply_alter(writer: Writer, table: TableName, changes: tuple[Change, ...], names: Names) -> bool:
    shaping = tuple(change for change in changes if not isinstance(change, (OtherChange, RenameTo)))
    if shaping and not names.is_doubtful(table):
        writer.record(names(table), Alter(shaping))
    elif shaping:
        _doubt(writer, (table,), names)
    return all(_move(writer, table, change.new, names) for change in changes if isinstance(change, RenameTo))


def _move(writer: Writer, old: TableName, new: TableName, names: Names) -> bool:
    """Rename a table, as `Writer.move`. What was a doubtful one has an unknown definition."""
    if not names.is_doubtful(old) and not names.is_doubtful(new):
        return writer.move(names(old), names(new))
    if names.is_doubtful(old):
        _doubt(writer, (old,), names)
    else:
        writer.drop((names(old),))
    if names.is_doubtful(new):
        _doubt(writer, (new,), names, is_made=True)
    else:
        writer.record(names(new), Define(None))
    return True
