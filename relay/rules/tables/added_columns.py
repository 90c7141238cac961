"""Columns that merged tables have in addition to those of their shards, with one value for each shard.

They are the first columns of the table, so that ADD COLUMN appends to both, and the last ones of its primary
key and unique keys, so that an AUTO_INCREMENT column stays the first one.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final, NamedTuple

import msgspec

from relay.model.errors import NotRepresentable
from relay.model.events import CellProjection, Column, ColumnType, RowProjection, TableId, TableSchema
from relay.mysql.ddl import Located, alter_table, define_table, locate_statements
from relay.mysql.ddl.printed import column_text
from relay.mysql.ddl.statements import (
    AddColumn,
    AddIndex,
    AddPrimaryKey,
    AlterTable,
    CreateTable,
    Item,
    ModifyColumn,
)
from relay.mysql.ddl.tokens import Token
from relay.mysql.types import quoted_name
from relay.rules.rewriting import CannotRewrite, folded
from relay.rules.tables.rules import ADDED_LENGTH

#: The columns that are added to a table, with their values.
AddedValues = tuple[tuple[str, str], ...]


class Extended(NamedTuple):
    """A definition with added columns, and how rows of the original one become rows of it."""

    schema: TableSchema
    projection: RowProjection


def extended(schema: TableSchema, name: TableId, values: AddedValues, protocol: str) -> Extended:
    """Return a definition with added columns and the name of the merged table.

    Raises NotRepresentable if it has one of these columns already.
    """
    names = tuple([name for name, _ in values])
    _check(schema, values, protocol)
    unique = [msgspec.structs.replace(key, columns=(*key.columns, *names)) for key in schema.unique_keys]
    found = msgspec.structs.replace(
        schema,
        id=name,
        columns=(*(_column(name, schema) for name in names), *schema.columns),
        primary_key=(*schema.primary_key, *names) if schema.primary_key else schema.primary_key,
        unique_keys=tuple(unique),
        is_nonclustered=False,
    )
    # An image has the added columns if it has a column of the key.
    of_key = schema.handle_indexes[0] if schema.handle_indexes else 0
    cells = [CellProjection(of_key, constant=value) for _, value in values]
    cells += [CellProjection(at) for at in range(len(schema.columns))]

    def key_names(key: tuple[str, ...] | None) -> tuple[str, ...] | None:
        return (*key, *names) if key else key

    return Extended(found, RowProjection(found, tuple(cells), key_names, keeps_keys=False))


def _check(schema: TableSchema, values: AddedValues, protocol: str) -> None:
    present = {folded(column.name) for column in schema.columns}
    for name, value in values:
        if folded(name) in present:
            reason = f"table {schema.id} has a column of this name, so that none can be added: choose another"
            raise NotRepresentable(protocol, name, reason)
        if len(value) > ADDED_LENGTH:
            reason = (
                f"the value that a rule adds to table {schema.id} has more than {ADDED_LENGTH} characters"
            )
            raise NotRepresentable(protocol, name, reason)


def _column(name: str, schema: TableSchema) -> Column:
    of_type = ColumnType("varchar", length=ADDED_LENGTH, charset=schema.charset, collation=schema.collation)
    return Column(name, of_type, nullable=False)


# ---------------------------------------------------------------- statements


def with_added_columns(
    sql: str, names: Sequence[str], before: TableSchema | None, after: TableSchema | None
) -> str:
    """Return a CREATE TABLE or ALTER TABLE with the added columns. Raises CannotRewrite, DdlNotUnderstood.

    before, after: The definitions before and after it, with the added columns.
    """
    (located,) = locate_statements(sql)
    edits = sorted(_Rewriter(sql, located, names).edits())
    parts: list[str] = []
    at = 0
    for start, end, text in edits:
        parts += (sql[at:start], text)
        at = end
    text = "".join([*parts, sql[at:]])
    _check_result(text, before, after)
    return text


def _check_result(text: str, before: TableSchema | None, after: TableSchema | None) -> None:
    """Raise CannotRewrite if a statement does not give the table the columns and keys that it must have."""
    (located,) = locate_statements(text)
    statement, found = located.statement, None
    if isinstance(statement, CreateTable) and after is not None:
        found = define_table(after.id, statement.changes)
    elif isinstance(statement, AlterTable) and before is not None:
        found = alter_table(before, statement.changes)
    if found is None or after is None or _outline(found) != _outline(after):
        raise CannotRewrite


def _outline(schema: TableSchema) -> tuple[object, ...]:
    """Return the names of columns, and the keys."""
    keys = [(is_unique, key.name, key.columns) for key, is_unique in schema.ordered_keys()]
    return [column.name for column in schema.columns], schema.primary_key or (), sorted(keys)


#: A place in a text, and its new text.
_Edit = tuple[int, int, str]


class _Rewriter:
    """Finds the changes that add columns to one statement about a table."""

    def __init__(self, sql: str, located: Located, names: Sequence[str]) -> None:
        self._sql, self._located, self._names = sql, located, names
        self._is_create = isinstance(located.statement, CreateTable)
        self._more = "".join(f", {quoted_name(name)}" for name in names)
        #: Keys that were attributes of a column, as items.
        self._keys: list[str] = []

    def edits(self) -> Iterator[_Edit]:
        """Yield the changes. Raises CannotRewrite for a statement of another kind."""
        items = self._located.items
        if not items:
            yield from self._of_index()
            return
        if self._is_create:
            columns = [column_text(_plain(name)) for name in self._names]
            yield items[0].start, items[0].start, "".join(f"{text}, " for text in columns)
        for item in items:
            for change in item.changes:
                yield from self._of_change(item, change)
        end = items[-1].end
        add = "" if self._is_create else "ADD "
        if self._keys:
            yield end, end, "".join(f", {add}{key}" for key in self._keys)

    def _of_index(self) -> Iterator[_Edit]:
        """Yield the change of CREATE INDEX or DROP INDEX."""
        statement = self._located.statement
        if not isinstance(statement, AlterTable):
            raise CannotRewrite
        for change in statement.changes:
            if isinstance(change, AddIndex) and change.is_unique:
                yield self._longer_key(self._located.tokens)

    def _of_change(self, item: Item, change: object) -> Iterator[_Edit]:
        tokens = [token for token in self._located.tokens if item.start <= token.start < item.end]
        if isinstance(change, AddPrimaryKey) or (isinstance(change, AddIndex) and change.is_unique):
            yield self._longer_key(tokens)
        elif isinstance(change, AddColumn | ModifyColumn):
            if len(item.changes) > 1:
                tokens = []  # ADD (a INT, b INT): whose attributes are whose is not known
            yield from self._of_column(change, tokens)

    def _longer_key(self, tokens: Sequence[Token]) -> _Edit:
        """Return the change that appends to the columns of a key. Raises CannotRewrite."""
        depth = 0
        for token in tokens:
            depth += {"(": 1, ")": -1}.get(token.text, 0) if token.kind == "mark" else 0
            if not depth and token.kind == "mark" and token.text == ")":
                return token.start, token.start, self._more
        raise CannotRewrite

    def _of_column(self, change: AddColumn | ModifyColumn, tokens: Sequence[Token]) -> Iterator[_Edit]:
        """Yield the changes of a column: its keys become items, and the first one follows the added ones."""
        definition = change.definition
        column = quoted_name(definition.column.name)
        words = list(_outer_words(tokens))
        if definition.is_primary:
            self._keys.append(f"PRIMARY KEY ({column}{self._more})")
            yield _without(words, "PRIMARY", "KEY")
            yield from self._of_clustering(words)
        if definition.is_unique:
            self._keys.append(f"UNIQUE KEY {column} ({column}{self._more})")
            yield _without(words, "UNIQUE", "KEY")
        if change.after == "" and not self._is_create:
            first = next((token for token in reversed(words) if token.text.upper() == "FIRST"), None)
            if first is None:
                raise CannotRewrite
            yield first.start, first.end, f"AFTER {quoted_name(self._names[-1])}"

    def _of_clustering(self, words: Sequence[Token]) -> Iterator[_Edit]:
        """Yield the change that moves TiDB's CLUSTERED or NONCLUSTERED from a column to its primary key."""
        for token in words:
            if token.text.upper() in _CLUSTERING:
                self._keys[-1] += f" /*T![clustered_index] {token.text.upper()} */"
                yield token.start, token.end, ""


_CLUSTERING: Final = frozenset({"CLUSTERED", "NONCLUSTERED"})


def _plain(name: str) -> Column:
    return Column(name, ColumnType("varchar", length=ADDED_LENGTH), nullable=False)


def _outer_words(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the words of a column's definition outside of parentheses, without its name."""
    depth = 0
    for token in tokens[1:]:
        if token.kind == "mark" and token.text in _DEPTHS:
            depth += _DEPTHS[token.text]
        elif token.kind == "word" and not depth:
            yield token


_DEPTHS: Final = {"(": 1, ")": -1}


def _without(words: Sequence[Token], first: str, second: str) -> _Edit:
    """Return the change that removes an attribute, such as PRIMARY KEY. Raises CannotRewrite."""
    for at, token in enumerate(words):
        following = words[at + 1] if at + 1 < len(words) else token
        if token.text.upper() == first:
            end = following.end if following.text.upper() == second else token.end
            return token.start, end, ""
    raise CannotRewrite
