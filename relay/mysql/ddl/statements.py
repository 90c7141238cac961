"""Parsed DDL statements: the result of `relay.mysql.ddl.read_ddl`.

Names are as written; nothing here depends on existing tables. CREATE TABLE and ALTER TABLE describe a table's
definition with the same changes.
"""

from __future__ import annotations

from typing import NamedTuple

import msgspec

from relay.model.events import Column, DdlKind, Default, TableId


class TableName(msgspec.Struct, frozen=True, gc=False):
    """A table name in a statement; `database` is None if it relies on the default database."""

    table: str
    database: str | None = None

    def within(self, database: str) -> TableId:
        """Return the table's full name, given the default database."""
        return TableId(database if self.database is None else self.database, self.table)


class Bits(msgspec.Struct, frozen=True, gc=False):
    """A default written as `b'…'` or `x'…'`: a number or text, depending on the type. `size`: bytes."""

    number: int
    size: int


class ColumnDefinition(msgspec.Struct, frozen=True, gc=False):
    """A column as written: its type does not yet include the table's charset (see `alter_table`)."""

    column: Column
    bits: Bits | None = None
    is_primary: bool = False
    is_unique: bool = False
    is_nonclustered: bool = False


class AddColumn(msgspec.Struct, frozen=True, gc=False):
    """ADD COLUMN. `after`: None for last, "" for first, else the column before. `tolerant`: IF NOT EXISTS."""

    definition: ColumnDefinition
    after: str | None = None
    tolerant: bool = False


class DropColumn(msgspec.Struct, frozen=True, gc=False):
    """DROP COLUMN. `tolerant`: IF EXISTS."""

    name: str
    tolerant: bool = False


class ModifyColumn(msgspec.Struct, frozen=True, gc=False):
    """MODIFY COLUMN and CHANGE COLUMN of column `name`.

    `after` is as in AddColumn, but None keeps the column's position. `tolerant`: IF EXISTS.
    """

    name: str
    definition: ColumnDefinition
    after: str | None = None
    tolerant: bool = False


class RenameColumn(msgspec.Struct, frozen=True, gc=False):
    """RENAME COLUMN old TO new. `tolerant`: IF EXISTS."""

    old: str
    new: str
    tolerant: bool = False


class SetDefault(msgspec.Struct, frozen=True, gc=False):
    """ALTER COLUMN … SET DEFAULT; None for DROP DEFAULT. `tolerant`: IF EXISTS."""

    name: str
    default: Default | Bits | None
    tolerant: bool = False


class AddPrimaryKey(msgspec.Struct, frozen=True, gc=False):
    """PRIMARY KEY (…); `columns` is None if a part of it is not a column.

    `is_nonclustered`: TiDB's NONCLUSTERED. `tolerant`: IF NOT EXISTS. `not_null`: the parts that are columns.
    """

    columns: tuple[str, ...] | None
    is_nonclustered: bool = False
    tolerant: bool = False
    not_null: tuple[str, ...] = ()


class DropPrimaryKey(msgspec.Struct, frozen=True, gc=False):
    """DROP PRIMARY KEY."""


class AddIndex(msgspec.Struct, frozen=True, gc=False):
    """[UNIQUE] INDEX name (…). `tolerant`: IF NOT EXISTS. `replaces`: OR REPLACE.

    `name` "": the server chooses one. `columns` None: a part is an expression, or a unique index covers only
    some of the rows.
    """

    name: str
    columns: tuple[str, ...] | None
    is_unique: bool
    tolerant: bool = False
    replaces: bool = False


class AddPeriod(msgspec.Struct, frozen=True, gc=False):
    """MariaDB's PERIOD FOR name (start, end), whose columns become NOT NULL.

    `is_of_system`: the period SYSTEM_TIME, whose end column MariaDB appends to the primary and unique keys.
    """

    columns: tuple[str, ...]
    is_of_system: bool = False


class AddForeignKey(msgspec.Struct, frozen=True, gc=False):
    """[CONSTRAINT name] FOREIGN KEY (…); `name` "": the server chooses one."""

    name: str
    columns: tuple[str, ...]


class DropIndex(msgspec.Struct, frozen=True, gc=False):
    """DROP INDEX, or DROP CONSTRAINT, which may name a unique key, too."""

    name: str
    is_constraint: bool = False


class RenameIndex(msgspec.Struct, frozen=True, gc=False):
    """RENAME INDEX old TO new."""

    old: str
    new: str


class TableCharset(msgspec.Struct, frozen=True, gc=False):
    """The table's default charset and collation. `convert`: CONVERT TO, which applies them to all columns.

    `widens`: TEXT becomes MEDIUMTEXT where its characters need more bytes in the new charset.
    """

    charset: str | None
    collation: str | None
    convert: bool = False
    widens: bool = True


class TableComment(msgspec.Struct, frozen=True, gc=False):
    """The table's comment."""

    comment: str


class RenameTo(msgspec.Struct, frozen=True, gc=False):
    """ALTER TABLE … RENAME TO."""

    new: TableName


class OtherChange(msgspec.Struct, frozen=True, gc=False):
    """A change that leaves columns and keys alone. `table`: a second table it names (EXCHANGE PARTITION)."""

    kind: DdlKind
    table: TableName | None = None


class PartitionToTable(msgspec.Struct, frozen=True, gc=False):
    """MariaDB's CONVERT PARTITION … TO TABLE: a new table with the columns and keys of this one."""

    new: TableName


class TableToPartition(msgspec.Struct, frozen=True, gc=False):
    """MariaDB's CONVERT TABLE … TO PARTITION, which drops the other table."""

    old: TableName


Change = (
    AddColumn | DropColumn | ModifyColumn | RenameColumn | SetDefault | AddPrimaryKey | DropPrimaryKey
    | AddIndex | AddForeignKey | AddPeriod | DropIndex | RenameIndex | TableCharset | TableComment | RenameTo
    | PartitionToTable | TableToPartition | OtherChange
)  # fmt: skip


class Item(NamedTuple):
    """An item of ALTER TABLE or an element of CREATE TABLE: its changes, and its offsets in the text."""

    changes: tuple[Change, ...]
    start: int
    end: int


class LocatedName(NamedTuple):
    """The name of a table in a statement, and its offsets in the text."""

    name: TableName
    start: int
    end: int


class CreateTable(msgspec.Struct, frozen=True):
    """CREATE TABLE with columns. `changes` build the definition from an empty table."""

    table: TableName
    changes: tuple[Change, ...]
    if_not_exists: bool = False


class CreateTableLike(msgspec.Struct, frozen=True):
    """CREATE TABLE … LIKE."""

    table: TableName
    like: TableName
    if_not_exists: bool = False


class CreateTableAs(msgspec.Struct, frozen=True):
    """CREATE TABLE … AS SELECT: the columns come from a query and stay unknown."""

    table: TableName
    if_not_exists: bool = False


class DropTables(msgspec.Struct, frozen=True):
    """DROP TABLE."""

    tables: tuple[TableName, ...]


class RenameTables(msgspec.Struct, frozen=True):
    """RENAME TABLE: pairs of the old and the new name, applied from left to right."""

    pairs: tuple[tuple[TableName, TableName], ...]


class TruncateTable(msgspec.Struct, frozen=True):
    """TRUNCATE TABLE."""

    table: TableName


class AlterTable(msgspec.Struct, frozen=True):
    """ALTER TABLE, CREATE INDEX and DROP INDEX. `if_exists`: ALTER TABLE IF EXISTS."""

    table: TableName
    changes: tuple[Change, ...]
    if_exists: bool = False


class RecoverTable(msgspec.Struct, frozen=True):
    """TiDB's RECOVER TABLE and FLASHBACK TABLE.

    `table` is None for BY JOB; `new` is the new name in FLASHBACK TABLE … TO.
    """

    table: TableName | None
    new: TableName | None = None


class CreateDatabase(msgspec.Struct, frozen=True):
    """CREATE DATABASE. `charset`, `collation`: the defaults of its tables; None if not given. `replaces`: OR
    REPLACE.
    """

    database: str
    charset: str | None = None
    collation: str | None = None
    if_not_exists: bool = False
    replaces: bool = False


class DropDatabase(msgspec.Struct, frozen=True):
    """DROP DATABASE."""

    database: str


class AlterDatabase(msgspec.Struct, frozen=True):
    """ALTER DATABASE; `database` is None for the default database.

    `charset`, `collation`: the new defaults of its tables; None if not given.
    """

    database: str | None
    charset: str | None = None
    collation: str | None = None


class OtherStatement(msgspec.Struct, frozen=True):
    """A statement that changes no table's definition: sequences, triggers, routines, users, maintenance,
    temporary tables; and views, which have separate definitions.

    `columns`: column names of a view that is created; None if the statement does not show them.
    """

    kind: DdlKind
    tables: tuple[TableName, ...] = ()
    columns: tuple[str, ...] | None = None


Statement = (
    CreateTable | CreateTableLike | CreateTableAs | DropTables | RenameTables | TruncateTable | AlterTable
    | RecoverTable | CreateDatabase | DropDatabase | AlterDatabase | OtherStatement
)  # fmt: skip


class Ddl(msgspec.Struct, frozen=True):
    """The parsed statements of a text, of which only a text with `;` has several.

    `kinds` are their effects in order, at least one per statement.
    """

    kinds: tuple[DdlKind, ...]
    statements: tuple[Statement, ...]
