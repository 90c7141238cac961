"""Patterns for tables, `database.table`, with `*`, `?` and `[…]`; letter case is significant.

A pattern is split at its first dot. Each half must match the whole name, so `shop.*` matches every table of
`shop`, and of no other database.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from fnmatch import translate
from typing import Final

import msgspec

from relay.model.errors import Problem
from relay.model.events import SchemaChange, TableId
from relay.text.redaction import quoted

_WILDCARDS: Final = frozenset("*?[")


def name_pattern(text: str) -> re.Pattern[str]:
    """Return the pattern of names that a glob without a dot matches."""
    return re.compile(translate(text))


class TableGlob(msgspec.Struct, frozen=True):
    """One pattern, created by `parse`."""

    text: str
    database: re.Pattern[str]
    table: re.Pattern[str]

    @classmethod
    def parse(cls, text: str) -> TableGlob:
        """Parse a pattern. Raises ValueError if it has no dot or an empty half."""
        database, dot, table = text.partition(".")
        if not (database and dot and table):
            raise ValueError("is not of the form database.table, such as shop.* or *.orders")
        return cls(text, name_pattern(database), name_pattern(table))

    @property
    def has_wildcards(self) -> tuple[bool, bool]:
        """Whether the pattern may match several databases, and several tables of one."""
        database, _, table = self.text.partition(".")
        return not _WILDCARDS.isdisjoint(database), not _WILDCARDS.isdisjoint(table)

    def covers(self, other: TableGlob) -> bool:
        """Return whether this pattern certainly matches every table that another one matches."""
        mine, others = self.text.partition(".")[::2], other.text.partition(".")[::2]
        return all(
            one == another
            or set(one) == {"*"}
            or (_WILDCARDS.isdisjoint(another) and pattern.match(another) is not None)
            for one, another, pattern in zip(mine, others, (self.database, self.table), strict=True)
        )

    @property
    def takes_whole_databases(self) -> bool:
        """Whether the pattern matches every table of a database if it matches one."""
        return set(self.text.partition(".")[2]) == {"*"}

    def matches(self, table: TableId) -> bool:
        """Return whether the pattern matches a table."""
        return bool(self.database.match(table.database) and self.table.match(table.table))

    def may_match(self, database: str | None, table: str | None) -> bool:
        """Return whether the pattern may match a table with these names; None is an unknown name."""
        return bool(
            (database is None or self.database.match(database)) and (table is None or self.table.match(table))
        )


class TableFilter(msgspec.Struct, frozen=True):
    """A selection of tables: those that match `include` (or it is empty) and do not match `exclude`."""

    include: tuple[TableGlob, ...] = ()
    exclude: tuple[TableGlob, ...] = ()

    def has(self, table: TableId) -> bool:
        """Return whether a table is selected; for a database (`table.table` is ""), whether some table may
        be.
        """
        if not table.table:
            return self._has_database(table.database)
        is_included = not self.include or any(glob.matches(table) for glob in self.include)
        return is_included and not any(glob.matches(table) for glob in self.exclude)

    def has_any(self, change: SchemaChange) -> bool:
        """Return whether any table of a statement is selected."""
        return any(self.has(table) for table in tables_of(change))

    def _has_database(self, database: str) -> bool:
        is_included = not self.include or any(glob.database.match(database) for glob in self.include)
        whole = [glob for glob in self.exclude if glob.takes_whole_databases]
        is_excluded = any(glob.database.match(database) for glob in whole)
        return is_included and not is_excluded


def tables_of(change: SchemaChange) -> tuple[TableId, ...]:
    """Return the tables of a statement, including the old names of renamed ones; or its database."""
    renamed = [table for pair in change.renamed for table in (pair.old, pair.new)]
    return tuple(dict.fromkeys([*(change.targets or (change.table,)), *renamed]))


def parse_globs(texts: Iterable[str], path: str, problems: list[Problem]) -> tuple[TableGlob, ...]:
    """Parse globs of a rule's tables; append errors to `problems`."""
    globs: list[TableGlob] = []
    for text in texts:
        try:
            globs.append(TableGlob.parse(text))
        except ValueError as error:
            problems.append(Problem(path, f"{quoted(text)} {error}"))
    return tuple(globs)
