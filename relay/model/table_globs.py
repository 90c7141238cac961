"""Patterns for tables, `database.table`, with `*`, `?` and `[…]`; case counts, as MySQL writes the names.

A pattern is split at its first dot. Each half must match its name as a whole, so `shop.*` is every table of
`shop`, and of no other database.
"""

from __future__ import annotations

import re
from fnmatch import translate
from typing import Final

import msgspec

from relay.model.events import SchemaChange, TableId

_WILDCARDS: Final = frozenset("*?[")


class TableGlob(msgspec.Struct, frozen=True):
    """One pattern. `parse` makes it."""

    text: str
    database: re.Pattern[str]
    table: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> TableGlob:
        """Read a pattern. Raises ValueError for one without a dot."""
        database, dot, table = text.partition(".")
        if not (database and dot and table):
            raise ValueError("is not of the form database.table, such as shop.* or *.orders")
        return cls(text, re.compile(translate(database)), re.compile(translate(table)))

    @property
    def has_wildcards(self) -> tuple[bool, bool]:
        """Whether it may match several databases, and several tables of one."""
        database, _, table = self.text.partition(".")
        return not _WILDCARDS.isdisjoint(database), not _WILDCARDS.isdisjoint(table)

    def covers(self, other: TableGlob) -> bool:
        """Whether it matches every table that another one matches; False if that cannot be seen easily."""
        mine, others = self.text.partition(".")[::2], other.text.partition(".")[::2]
        return all(
            one == another
            or set(one) == {"*"}
            or (_WILDCARDS.isdisjoint(another) and pattern.match(another) is not None)
            for one, another, pattern in zip(mine, others, (self.database, self.table), strict=True)
        )

    @property
    def takes_whole_databases(self) -> bool:
        """Whether it matches every table of a database of which it matches one."""
        return set(self.text.partition(".")[2]) == {"*"}

    def matches(self, table: TableId) -> bool:
        """Whether it matches a table."""
        return bool(self.database.match(table.database) and self.table.match(table.table))

    def may_match(self, database: str | None, table: str | None) -> bool:
        """Whether it may match a table of which these names are known."""
        return bool(
            (database is None or self.database.match(database)) and (table is None or self.table.match(table))
        )


class TableFilter(msgspec.Struct, frozen=True):
    """Which tables are chosen: those that a pattern of `include` matches (all, if there is none) and none of
    `exclude`.
    """

    include: tuple[TableGlob, ...] = ()
    exclude: tuple[TableGlob, ...] = ()

    def has(self, table: TableId) -> bool:
        """Whether a table is chosen; of a database (`table.table` is ""), whether tables of it may be."""
        if not table.table:
            return self._has_database(table.database)
        is_included = not self.include or any(glob.matches(table) for glob in self.include)
        return is_included and not any(glob.matches(table) for glob in self.exclude)

    def has_any(self, change: SchemaChange) -> bool:
        """Whether a table that a statement is about is chosen."""
        return any(self.has(table) for table in tables_of(change))

    def _has_database(self, database: str) -> bool:
        is_included = not self.include or any(glob.database.match(database) for glob in self.include)
        whole = [glob for glob in self.exclude if glob.takes_whole_databases]
        is_excluded = any(glob.database.match(database) for glob in whole)
        return is_included and not is_excluded


def tables_of(change: SchemaChange) -> tuple[TableId, ...]:
    """Return the tables that a statement is about, old names of renamed ones too; or its database."""
    renamed = [table for pair in change.renamed for table in (pair.old, pair.new)]
    return tuple(dict.fromkeys([*(change.targets or (change.table,)), *renamed]))
