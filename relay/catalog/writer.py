"""Builds the catalog after one statement, and derives later versions again."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final

import msgspec

from relay.catalog.catalog import HISTORY_LIMIT, NO_TABLES, Catalog, DatabaseDefaults, folded, history_of
from relay.catalog.versions import (
    Alter,
    CopiedTo,
    Copy,
    Define,
    Drop,
    DropView,
    Effect,
    History,
    Identity,
    Recover,
    Unknown,
    Version,
    recovered,
)
from relay.model.events import Position, TableId, TableSchema
from relay.model.limits import MYSQL_COLUMNS, Budget, Limits
from relay.mysql.ddl import alter_table
from relay.mysql.ddl.statements import Change

#: Column visits that altering tables may cost per record: twice the cost of one late statement that precedes
#: a full history of a table with the maximum number of columns. Each takes about 0.5 µs.
_ALTERED_COLUMNS: Final = 2 * HISTORY_LIMIT * MYSQL_COLUMNS
#: Looking up this many columns costs as much as one pass over all of them, which unpacks and rebuilds them.
_CHANGES_A_PASS: Final = 16


class DdlBudget:
    """The remaining budget for the statements of one record: their number, and the columns visited to alter
    tables and to apply again the statements after a late one.
    """

    __slots__ = ("_columns", "statements")

    def __init__(self, limits: Limits) -> None:
        self.statements = Budget("ddl_statements", limits.ddl_statements)
        self._columns = _ALTERED_COLUMNS

    def altered(self, schema: TableSchema, changes: tuple[Change, ...]) -> TableSchema | None:
        """Apply changes to a definition; return None if they do not fit or the budget is exhausted."""
        self._columns -= len(schema.columns) * (1 + len(changes) // _CHANGES_A_PASS)
        return None if self._columns < 0 else alter_table(schema, changes)


#: Columns and column changes kept per table, across all versions, for each version that the catalog's limit
#: allows. Each takes a few hundred bytes.
_PARTS_PER_VERSION: Final = 256


class Writer:
    """Builds the catalog after one statement, copying only what the statement touches."""

    def __init__(self, catalog: Catalog, at: Position, identity: Identity, budget: DdlBudget) -> None:
        self._before, self._at, self._identity, self._budget = catalog, at, identity, budget
        self._histories, self._spellings = catalog.histories, catalog.spellings
        self._defaults = catalog.defaults
        #: Databases that this text has dropped and not touched since.
        self._dropped: set[str] = set()

    def catalog(self) -> Catalog:
        """Return the catalog after the statement; the same object if nothing has changed."""
        if self._histories is self._before.histories and self._defaults is self._before.defaults:
            return self._before
        return msgspec.structs.replace(
            self._before,
            histories=self._histories,
            spellings=self._spellings,
            defaults=self._defaults,
        )

    def undo(self) -> None:
        """Discard all recorded effects."""
        self._histories, self._defaults = self._before.histories, self._before.defaults
        self._dropped.clear()

    def default(self, database: str, charset: str | None, collation: str | None) -> None:
        """Set the default charset and collation of tables created in a database from this statement on."""
        known = self._defaults.get(database, ())
        later = [each for each in known if self._at.precedes(each.at)]
        earlier = [each for each in known if not self._at.precedes(each.at) and each.at != self._at]
        found = (*later, DatabaseDefaults(self._at, charset, collation), *earlier)
        if found != known:
            self._defaults = self._defaults.with_one(database, found[: self._before.limit])

    def defaults_of(self, database: str) -> tuple[str | None, str | None]:
        """Return the default charset and collation of tables that this statement creates in a database."""
        return msgspec.structs.replace(self._before, defaults=self._defaults).defaults_of(database, self._at)

    def record(self, table: TableId, effect: Effect) -> None:
        """Insert a version into the table's history by position, unless this statement already created one.

        Does nothing if the history is full and all its versions are newer.
        """
        if self._is_repeated(table):
            return
        self._dropped.discard(table.database)
        history = self._history(table)
        index = 0
        while index < len(history) and self._at.precedes(history[index].at):
            index += 1
        if index == len(history) >= self._before.limit:
            return
        version = self._version(table, history[index:], self._at, effect, self._identity)
        copies = self._redo(table, history[:index], (version, *history[index:]))
        done: set[tuple[TableId, Identity]] = set()
        while copies:
            target, identity = copies.pop(0)
            # A copy goes forward in time; only contradictory positions could lead here twice.
            if (target, identity) not in done:
                done.add((target, identity))
                copies += self._redo_copy(target, identity)

    def copy(
        self, source: TableId, target: TableId, *, if_absent: bool = False, is_moved: bool = False
    ) -> None:
        """Give `target` the definition of `source`, and record the copy at `source`, too."""
        if source != target:
            self.record(target, Copy(source, if_absent))
            self.record(source, CopiedTo(target, is_moved))

    def move(self, old: TableId, new: TableId) -> bool:
        """Rename a table. Return False if the table does not exist: the statement is then a repeat.

        Maxwell sends `RENAME TABLE a TO x, b TO a` once for each pair with the whole text, each at a
        different offset.
        """
        if self._at.commit_ts is None and not self._is_repeated(old) and self.is_gone(old):
            return False
        self.copy(old, new, is_moved=True)
        return True

    def drop(self, tables: Iterable[TableId]) -> None:
        """Drop tables."""
        for table in tables:
            self.record(table, Drop())

    def drop_database(self, database: str) -> None:
        """Drop all tables of a database, and record the drop for tables that appear later."""
        if database in self._dropped:
            return
        for table in {*self._histories.get(database, ()), ""}:
            self.record(TableId(database, table), Drop())
        # Defaults that a late statement sets before this one end here, too.
        self.default(database, None, None)
        self._dropped.add(database)

    def forget_database(self, database: str) -> None:
        """Forget the definitions of all tables in a database that a statement may have dropped."""
        for name in self._histories.get(database, ()):
            table = TableId(database, name)
            if self.has(table):
                self.record(table, Define(None, why=Unknown.AMBIGUOUS))

    def has(self, table: TableId) -> bool:
        """Return whether this exact table is known to exist at this point of the statement."""
        history = self._history(table)
        return bool(history) and not self._state(history)[1]

    def is_gone(self, table: TableId) -> bool:
        """Return whether this exact table is known not to exist at this point of the statement."""
        return self._state(self._history(table))[1]

    def _is_repeated(self, table: TableId) -> bool:
        """Return whether an earlier message applied this statement; the present message does not count."""
        history = history_of(self._before, table)
        return any(version.identity == self._identity for version in history)

    def _history(self, table: TableId) -> History:
        tables = self._histories.get(table.database)
        if tables is None:
            return ()
        found = tables.get(table.table)
        return tables.get("", ()) if found is None else found

    def _state(self, history: History) -> tuple[TableSchema | None, bool]:
        """Return the schema at this statement's position, and whether the table is gone."""
        found = next((version for version in history if not self._at.precedes(version.at)), None)
        return (None, False) if found is None else (found.schema, found.is_gone)

    def _redo(self, table: TableId, newer: History, older: History) -> list[tuple[TableId, Identity]]:
        """Derive the newer versions again on top of the older ones. Return the copies made from them."""
        copies = []
        for version in reversed(newer):
            older = (self._version(table, older, version.at, version.effect, version.identity), *older)
            if isinstance(version.effect, CopiedTo):
                copies.append((version.effect.target, version.identity))
        tables = self._histories.get(table.database, NO_TABLES)
        kept = _newest_parts(older[: self._before.limit], self._before.limit * _PARTS_PER_VERSION)
        if table.table not in tables:
            self._spell(table)
        self._histories = self._histories.with_one(table.database, tables.with_one(table.table, kept))
        return copies

    def _spell(self, table: TableId) -> None:
        """Index a new name and its database by their case-folded keys."""
        for name in (table, TableId(table.database, "")):
            key = folded(name)
            known = self._spellings.get(key, ())
            if name not in known:
                self._spellings = self._spellings.with_one(key, (*known, name))

    def _redo_copy(self, target: TableId, identity: Identity) -> list[tuple[TableId, Identity]]:
        """Derive this statement's copy and the versions after it again; return the copies made from them."""
        history = self._history(target)
        for index, version in enumerate(history):
            if version.identity == identity and isinstance(version.effect, Copy):
                return self._redo(target, history[: index + 1], history[index + 1 :])
        return []

    def _version(
        self, table: TableId, older: History, at: Position, effect: Effect, identity: Identity
    ) -> Version:
        schema, is_gone = (older[0].schema, older[0].is_gone) if older else (None, False)
        exists = bool(older) and not is_gone
        match effect:
            case Define(defined, if_absent):
                if not (if_absent and exists):
                    schema, is_gone = defined, False
            case Alter(changes):
                schema, is_gone = None if schema is None else self._budget.altered(schema, changes), False
            case Copy(source, if_absent):
                if not (if_absent and exists):
                    schema, is_gone = self._copied(source, table, identity), False
            case Recover(source):
                schema, is_gone = recovered(older if source == table else self._history(source)), False
            case CopiedTo(_, is_moved):
                schema, is_gone = (None, True) if is_moved else (schema, is_gone)
            case Drop() | DropView():
                schema, is_gone = _dropped(effect, schema, is_gone=is_gone)
        if schema is not None and schema.id != table:
            schema = msgspec.structs.replace(schema, id=table)
        return Version(at, schema, is_gone, effect, identity)

    def _copied(self, source: TableId, target: TableId, identity: Identity) -> TableSchema | None:
        """Return the source's definition before the copy; the present one if no copy is recorded yet."""
        history = self._history(source)
        for index, version in enumerate(history):
            if (
                version.identity == identity
                and isinstance(version.effect, CopiedTo)
                and version.effect.target == target
            ):
                return history[index + 1].schema if index + 1 < len(history) else None
        return self._state(history)[0]


def _newest_parts(history: History, most: int) -> History:
    """Return the newest versions with at most `most` columns and changes in total, but at least one."""
    for count, version in enumerate(history):
        effect = version.effect
        most -= 1
        if isinstance(effect, Alter):
            most -= len(effect.changes)
        elif isinstance(effect, Define) and effect.schema is not None:
            most -= len(effect.schema.columns)
        if most < 0 and count:
            return history[:count]
    return history


def _dropped(
    effect: Drop | DropView, schema: TableSchema | None, *, is_gone: bool
) -> tuple[TableSchema | None, bool]:
    is_kept = isinstance(effect, DropView) and (schema is None or not schema.is_view)
    return (schema, is_gone) if is_kept else (None, True)
