"""Reads table definitions from the statements of a dump.

`DefinitionReader` takes statements in order, with `USE`. For each table it returns the statements that
produce its final definition: CREATE TABLE, later ALTER TABLE statements, renames, and the statements of a
table that it was copied from. It never raises: a statement that should define a table and is not understood
becomes a problem, described in text.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from typing import Final

from relay.catalog import Catalog
from relay.catalog.definitions import Definition, learn_statement
from relay.model.errors import DdlNotUnderstood, LimitExceeded
from relay.model.events import DdlKind, TableId
from relay.model.limits import Limits
from relay.mysql.ddl import read_ddl
from relay.mysql.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    DropDatabase,
    DropTables,
    OtherStatement,
    RenameTables,
    RenameTo,
    Statement,
    TableName,
)
from relay.mysql.ddl.tokens import Cursor, tokenize

#: Beginnings of statements that define or change a table: if one is not understood, it is a problem.
_ABOUT_TABLES: Final = re.compile(
    r"(?:CREATE (?:OR REPLACE )?TABLE|ALTER (?:ONLINE |IGNORE )*TABLE|RENAME TABLE) ", re.IGNORECASE
)
_BLANKS: Final = re.compile(r"\s+")


class DefinitionReader:
    """Collects the definitions that a sequence of statements creates.

    database: Database of unqualified names; None until a statement or the user names one.
    problems: Errors in statements that should define a table; other statements are ignored.
    database_option: The user's option that names the database, for error texts.
    """

    def __init__(self, limits: Limits, database_option: str = "") -> None:
        self.database: str | None = None
        self.problems: list[str] = []
        self._limits, self._database_option = limits, database_option
        self._catalog = Catalog(limits=limits)
        self._count = 0
        #: The statements that define each table, with the database of their unqualified names.
        self._made: dict[TableId, list[tuple[str, str]]] = {}

    def take(self, text: str, location: str) -> None:
        """Process a statement. `location`: where the dump has it, for error texts."""
        if found := _used_database(text):
            self.database = found
            return
        try:
            ddl = read_ddl(text, most_statements=self._limits.ddl_statements)
        except (DdlNotUnderstood, LimitExceeded) as error:
            if _ABOUT_TABLES.match(_BLANKS.sub(" ", _plain(text))):
                self.problems.append(f"{location}: not understood: {error}")
            self._learn(text, location)
            return
        unqualified = [name for part in ddl.statements for name in _names_in(part) if name.database is None]
        if unqualified and self.database is None:
            hint = "name its database, by USE"
            if self._database_option:
                hint += f" or with {self._database_option}"
            self.problems.append(f"{location}: table {unqualified[0].table} has no database: {hint}")
            return
        if self._learn(text, location):
            for part in ddl.statements:
                self._note(part, (self.database or "", text), location)

    def _learn(self, text: str, location: str) -> bool:
        """Apply a statement to the catalog. A statement that is not understood makes its tables unknown."""
        try:
            self._catalog = learn_statement(self._catalog, self.database or "", text, self._count)
        except LimitExceeded as error:
            self.problems.append(f"{location}: {error}")
            return False
        self._count += 1
        return True

    def _note(self, part: Statement, own: tuple[str, str], location: str) -> None:
        """Record which tables one part of a statement creates, changes and drops."""
        made = self._made
        match part:
            case CreateTable() | CreateTableLike() | CreateTableAs():
                self._note_made(part, own, location)
            case DropTables(tables) | OtherStatement(DdlKind.CREATE_VIEW, tables):
                # A dump creates a placeholder table for a view that does not exist yet.
                for table in tables:
                    made.pop(self._id(table), None)
            case RenameTables(pairs):
                for old, new in pairs:
                    made[self._id(new)] = [*made.pop(self._id(old), ()), own]
            case AlterTable(table, changes):
                made.setdefault(self._id(table), []).append(own)
                for change in changes:
                    if isinstance(change, RenameTo):
                        made[self._id(change.new)] = made.pop(self._id(table), [])
            case DropDatabase(database):
                self._made = {id: each for id, each in made.items() if id.database != database}

    def _note_made(
        self, part: CreateTable | CreateTableLike | CreateTableAs, own: tuple[str, str], location: str
    ) -> None:
        table = self._id(part.table)
        if part.if_not_exists and table in self._made:
            return
        self._made[table] = [own]
        if isinstance(part, CreateTableLike):
            self._made[table] = [*self._made.get(self._id(part.like), ()), own]
        elif isinstance(part, CreateTableAs):
            del self._made[table]
            self.problems.append(f"{location}: the columns of {table} come from a query")

    def _id(self, name: TableName) -> TableId:
        return name.within(self.database or "")

    def definitions(self, commit_ts: int) -> list[Definition]:
        """Return all tables' definitions, sorted by name. Tables without a definition become problems."""
        found = []
        for table, statements in sorted(self._made.items()):
            _, schema = self._catalog.newest(table)
            if schema is None:
                self.problems.append(f"{table}: its statements do not define it")
            elif not schema.is_view:
                found.append(Definition(table, tuple(statements), commit_ts))
        return found


def _used_database(text: str) -> str | None:
    """Return the database of `USE name`."""
    if text[:3].upper() != "USE":
        return None
    try:
        cursor = Cursor(text, tokenize(text, backslash_escapes=True))
        cursor.expect("USE")
        return cursor.name()
    except DdlNotUnderstood:
        return None


def _plain(text: str) -> str:
    """Return the beginning of a statement without the markers of executable comments."""
    return re.sub(r"/\*(?:M?!\d*|T!(?:\[[^\[\]]*\])?)|\*/", " ", text[:200]).strip()


def _names_in(part: Statement) -> Iterable[TableName]:
    match part:
        case CreateTable(table) | CreateTableAs(table) | AlterTable(table):
            return (table,)
        case CreateTableLike(table, like):
            return (table, like)
        case DropTables(tables):
            return tables
        case OtherStatement(DdlKind.CREATE_VIEW, tables):
            return tables
        case RenameTables(pairs):
            return [name for pair in pairs for name in pair]
    return ()
