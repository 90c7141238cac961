"""Rewrites the names of tables in DDL statements, from tokens; everything else keeps its text.

A name without a database stays without one if its table is in the target's default database. A statement with
names that cannot all be found raises CannotRewrite.
"""

from __future__ import annotations

import enum
import operator
from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from typing import Final, NamedTuple

from relay.model.errors import DdlNotUnderstood
from relay.model.events import DdlKind, RenamedTable, TableId
from relay.mysql.ddl import Located, locate_statements
from relay.mysql.ddl.default_database import is_session_database
from relay.mysql.ddl.statements import (
    AlterDatabase,
    CreateDatabase,
    CreateTableAs,
    DropDatabase,
    LocatedName,
    OtherStatement,
    RenameTables,
    Statement,
    TableName,
)
from relay.mysql.ddl.tokens import Token
from relay.mysql.types import quoted_name, quoted_table
from relay.rules.rewriting import CannotRewrite, is_name
from relay.rules.tables.queries import FoundName, merged_names, name_at, queried_names, referenced_names


class Mention(enum.Enum):
    """Which statements about another table may name a table: any, only in foreign keys, or none."""

    ALLOWED = enum.auto()
    AS_REFERENCE = enum.auto()
    REFUSED = enum.auto()


class Surroundings(NamedTuple):
    """The facts that the names in a text depend on.

    tables: The tables that the text is known to be about, with their names in the source, by the database
        (also by None) and the name in lower case.
    subject: The table in the message; its database is the default.
    written_database: The default database in the target.
    renamed: The pairs of a rename.
    target_of: Returns a table's name in the target.
    target_database: Returns a database's name in the target in a statement of a class. Raises CannotRewrite
        if the statement would concern other tables there.
    mention: Returns which statements may name a table.
    """

    tables: Mapping[tuple[str | None, str], Sequence[TableId]]
    subject: TableId
    written_database: str
    renamed: Sequence[RenamedTable]
    target_of: Callable[[TableId], TableId]
    target_database: Callable[[str, type[Statement]], str]
    mention: Callable[[TableId], Mention]

    @property
    def database(self) -> str:
        """The default database in the source."""
        return self.subject.database

    def resolved(self, name: TableName, *, is_session: bool) -> TableId:
        """Return the full name of a table in the source. Raises CannotRewrite if it is ambiguous.

        `is_session`: the default database is certainly the session's.
        """
        database = None if name.database is None else name.database.lower()
        same = self.tables.get((database, name.table.lower()), ())
        exact = [table for table in same if table.table == name.table]
        found = set(exact or same)
        if len(found) > 1 and is_session:
            found = {table for table in found if table.database == self.database}
        if len(found) > 1:
            raise CannotRewrite
        if found:
            return found.pop()
        table = name.within(self.database)
        if self.target_of(table) == table and self.is_renamed(table):
            raise CannotRewrite  # another table, unless the source's names have no letter case
        return table

    def is_renamed(self, table: TableId, database: str | None = None) -> bool:
        """Return whether a table, in any letter case, may have another name in the target.

        `database`: the target's name of its database; None: the same as in the source.
        """
        return any(
            self.target_of(each) != TableId(each.database if database is None else database, each.table)
            for each in (table, TableId(table.database, table.table.lower()), _folded(table))
        )

    def is_restricted(self, table: TableId) -> bool:
        """Return whether statements may not name a table, in any letter case, or only in foreign keys."""
        return any(self.mention(each) is not Mention.ALLOWED for each in (table, _folded(table)))

    def changes_database(self, database: str) -> bool:
        """Return whether some tables of a database may have another one in the target, or other names."""
        try:
            return self.target_database(database, AlterDatabase) != database
        except CannotRewrite:
            return True


def _folded(table: TableId) -> TableId:
    return TableId(table.database.lower(), table.table.lower())


def rewritten(sql: str, around: Surroundings) -> str:
    """Return a text with the target's names. Raises CannotRewrite, DdlNotUnderstood, LimitExceeded."""
    edits = _all_edits(locate_statements(sql), sql, around)
    if "\\" in sql:
        # A text that can be read in two ways must have the same names in both.
        with suppress(DdlNotUnderstood):
            if _all_edits(locate_statements(sql, backslash_escapes=False), sql, around) != edits:
                raise CannotRewrite
    parts: list[str] = []
    at = 0
    for start, end, text in edits.places:
        if start < at:
            raise CannotRewrite
        parts += (sql[at:start], text)
        at = end
    text = "".join([*parts, sql[at:]])
    if text != sql:
        _check(text, edits.names, around)
    return text


def _check(text: str, expected: Sequence[TableId], around: Surroundings) -> None:
    """Raise CannotRewrite if a rewritten text does not have the expected names."""
    names = [each.name for located in locate_statements(text) for each in located.tables]
    if [name.within(around.written_database) for name in names] != list(expected):
        raise CannotRewrite


class _Edits(NamedTuple):
    """The new texts of places, and the names that the parser must then read."""

    places: list[_Edit]
    names: list[TableId]


def _all_edits(statements: Iterable[Located], sql: str, around: Surroundings) -> _Edits:
    """Return the changes of a text's statements. Raises CannotRewrite."""
    found = _Edits([], [])
    for located in statements:
        found.places.extend(_edits(located, sql, around, found.names))
    return found


_ANYWHERE: Final = frozenset({Mention.ALLOWED})
_AS_REFERENCE: Final = frozenset({Mention.ALLOWED, Mention.AS_REFERENCE})
#: A place in a text, and its new text.
_Edit = tuple[int, int, str]


def _edits(located: Located, sql: str, around: Surroundings, expected: list[TableId]) -> Iterator[_Edit]:
    """Yield the changes of a statement in order; append the names that its parser must then read."""
    statement = located.statement
    if isinstance(statement, CreateDatabase | DropDatabase | AlterDatabase):
        if statement.database is not None:
            yield _of_database(statement, located.tokens, sql, around)
        else:
            around.target_database(around.database, type(statement))
        return
    is_query = isinstance(statement, CreateTableAs) or (
        isinstance(statement, OtherStatement) and statement.kind is DdlKind.CREATE_VIEW
    )
    found = {each.start: FoundName(each) for each in located.tables}
    queried = queried_names(located.tokens, sql) if is_query else ()
    references = list(referenced_names(located.tokens, sql))
    for other in (*queried, *merged_names(located.tokens, sql), *references):
        found.setdefault(other.located.start, other)
    _check_rest(located, sql, around, [each.located for each in found.values()], is_query=is_query)
    parsed = {each.start for each in located.tables}
    of_keys = {each.located.start for each in references}
    sources: dict[TableId, TableId] = {}
    is_session = is_session_database(around.subject, [each.name for each in located.tables])
    pairs = _tables_of_rename(located, around)
    for start, each in sorted(found.items()):
        old = pairs.get(start) or around.resolved(each.located.name, is_session=is_session)
        new = around.target_of(old)
        if around.mention(old) not in (_AS_REFERENCE if start in of_keys else _ANYWHERE):
            raise CannotRewrite
        if sources.setdefault(new, old) != old:
            raise CannotRewrite  # such as a rename to the same name
        if start in parsed:
            expected.append(new)
        yield start, each.located.end, _written(each, old, new, sql, around)


def _tables_of_rename(located: Located, around: Surroundings) -> dict[int, TableId]:
    """Return the tables of a rename by the places of their names; {} for any other statement."""
    tables = [table for pair in around.renamed for table in (pair.old, pair.new)]
    is_whole = isinstance(located.statement, RenameTables) and len(tables) == len(located.tables)
    if not is_whole or any(
        _folded(each.name.within(table.database)) != _folded(table)
        for each, table in zip(located.tables, tables, strict=True)
    ):
        return {}
    return {each.start: table for each, table in zip(located.tables, tables, strict=True)}


def _written(each: FoundName, old: TableId, new: TableId, sql: str, around: Surroundings) -> str:
    """Return the text of a name in the target."""
    name, text = each.located.name, sql[each.located.start : each.located.end]
    is_default = name.database is None and new.database == around.written_database
    if old == new and (is_default or name.database is not None):
        return text
    if not is_default:
        written = quoted_table(new)
    else:
        written = text if old.table == new.table else quoted_name(new.table)
    if not each.needs_alias or old.table == new.table:
        return written
    if not each.takes_alias:
        raise CannotRewrite
    return f"{written} AS {quoted_name(name.table)}"


def _of_database(
    statement: CreateDatabase | DropDatabase | AlterDatabase,
    tokens: Sequence[Token],
    sql: str,
    around: Surroundings,
) -> _Edit:
    """Return the change of a statement about a database."""
    at = next(at for at, token in enumerate(tokens) if token.text.upper() in {"DATABASE", "SCHEMA"}) + 1
    while tokens[at].kind == "word" and tokens[at].text.upper() in {"IF", "NOT", "EXISTS"}:
        at += 1
    token = tokens[at]
    new = around.target_database(token.text, type(statement))
    text = sql[token.start : token.end] if new == token.text else quoted_name(new)
    return token.start, token.end, text


def _check_rest(
    located: Located, sql: str, around: Surroundings, found: Sequence[LocatedName], *, is_query: bool
) -> None:
    """Raise CannotRewrite if other parts of a statement may name a table that has another name."""
    tokens, at = located.tokens, 0
    places = {name.start: name.end for name in found}
    if isinstance(located.statement, OtherStatement) and not found:
        if may_name(tokens, sql, around):
            raise CannotRewrite
        return
    while at < len(tokens):
        end = places.get(tokens[at].start)
        if end is not None:
            at = bisect_left(tokens, end, key=_START)
        elif not is_name(tokens[at], sql):
            at += 1
        else:
            name, at = name_at(tokens, at, sql)
            if name.name.database is not None:
                _check_pair(name.name.database, name.name.table, around, is_query=is_query)
                at += at < len(tokens) and tokens[at].text == "."


_START: Final = operator.attrgetter("start")


def _check_pair(first: str, second: str, around: Surroundings, *, is_query: bool) -> None:
    """Raise CannotRewrite for `first.second` if it may be a renamed table, or a column of one.

    Queries keep the table's name as an alias, so that its columns have it.
    """
    table, of_column = TableId(first, second), TableId(around.database, first)
    if around.is_renamed(table) or around.is_restricted(table):
        raise CannotRewrite
    if not is_query and around.target_of(of_column).table != first:
        raise CannotRewrite


def may_name(tokens: Sequence[Token], sql: str, around: Surroundings) -> bool:
    """Return whether a text of unknown structure may name a table that has another name in the target or is
    merged with others, or a database with renamed tables.
    """
    for at, token in enumerate(tokens):
        if not is_name(token, sql):
            continue
        if _is_database(tokens, at) and around.changes_database(token.text):
            return True
        name = name_at(tokens, at, sql)[0].name
        table = name.within(around.database)
        if around.is_renamed(table, None if name.database else around.written_database):
            return True
        if around.is_restricted(table):
            return True
    return False


def _is_database(tokens: Sequence[Token], at: int) -> bool:
    """Return whether a name is that of a database, as in `shop.*`, `DATABASE shop` and `USE shop`."""
    before = tokens[at - 1].text.upper() if at else ""
    after = [token.text for token in tokens[at + 1 : at + 3]]
    return before in {"DATABASE", "SCHEMA", "USE"} or after == [".", "*"]
