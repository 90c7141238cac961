"""Rewrites the text of DDL statements by the rules for columns.

Items of ALTER TABLE and CREATE TABLE that name no column of a rule keep their text. A column that is left out
disappears with its items; one with other values gets the definition that it has in the target; a renamed one
gets its new name. `Rewriter.rewrite` returns None for a statement that refers to such a column in another
way, for example in an expression: it would be wrong in the target, or show values.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

from relay.model.events import Column, TableId, TableSchema
from relay.mysql.ddl import Located
from relay.mysql.ddl.printed import column_text
from relay.mysql.ddl.statements import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    AddPrimaryKey,
    AlterTable,
    Change,
    ColumnDefinition,
    CreateTable,
    DropColumn,
    DropIndex,
    Item,
    ModifyColumn,
    RenameColumn,
    RenameIndex,
    RenameTables,
    RenameTo,
    SetDefault,
    Statement,
)
from relay.mysql.ddl.tokens import Token
from relay.mysql.types import quoted_name
from relay.shaping.tables import TableRules


class CannotRewrite(Exception):
    """A statement refers to a column of a rule in a way that has no counterpart in the target."""


class Definitions:
    """The definitions of a table around a statement, those of the source and those of the target.

    `before`, `after`: None if unknown. `shaped`: the target's definition after the statement.
    """

    def __init__(
        self, before: TableSchema | None, after: TableSchema | None, shaped: TableSchema | None
    ) -> None:
        self.before, self.after, self.shaped = before, after, shaped

    def names(self) -> set[str]:
        """Return the names of all known columns in lower case."""
        known = [schema for schema in (self.before, self.after) if schema is not None]
        return {column.name.lower() for schema in known for column in schema.columns}

    def lost_keys(self, rules: TableRules) -> set[str]:
        """Return the lower-case names of unique keys and indexes that the target does not have."""
        if self.before is None:
            return set()
        lost: set[str] = set()
        for key, is_unique in self.before.ordered_keys():
            effects = [rules.effect(name) for name in key.columns]
            if any(each.is_dropped or (is_unique and each.merges_rows) for each in effects):
                lost.add(key.name.lower())
        return lost

    def place_of(self, name: str) -> str:
        """Return ` FIRST` or ` AFTER …` of a column in the target's definition. Raises CannotRewrite."""
        columns = self.shaped.columns if self.shaped is not None else ()
        at = next((at for at, column in enumerate(columns) if column.name.lower() == name.lower()), None)
        if at is None:
            raise CannotRewrite
        return f" AFTER {quoted_name(columns[at - 1].name)}" if at else " FIRST"

    def column(self, name: str) -> Column:
        """Return a column of the target's definition. Raises CannotRewrite if its text is unknown."""
        columns = self.shaped.columns if self.shaped is not None else ()
        found = next((column for column in columns if column.name.lower() == name.lower()), None)
        if found is None or found.generated is not None:
            raise CannotRewrite
        return found


class StatementRewriter:
    """Rewrites one statement about one table. `rules` are those of the table."""

    def __init__(self, sql: str, located: Located, rules: TableRules, known: Definitions) -> None:
        self._sql, self._located, self._rules, self._known = sql, located, rules, known
        self._columns = known.names() | {
            name.lower() for item in located.items for change in item.changes for name in _names_in(change)
        }
        self._lost_keys = known.lost_keys(rules)

    def alter(self, table: TableId) -> str:
        """Rewrite ALTER TABLE; "" if nothing of it remains. Raises CannotRewrite, NotRepresentable."""
        return self._with_items(table, ", ")

    def create(self, table: TableId) -> str:
        """Rewrite CREATE TABLE with columns; raises like `alter`."""
        return self._with_items(table, ",\n  ")

    def index(self, change: Change) -> str:
        """Rewrite CREATE INDEX and DROP INDEX; "" for an index that the target does not have."""
        if self._is_lost(change):
            return ""
        return self._renamed(self._located.start, self._located.end, is_key=True)

    def _with_items(self, table: TableId, separator: str) -> str:
        located, sql = self._located, self._sql
        items = located.items
        texts = [self._item(table, item) for item in items]
        kept = [text for text, item in zip(texts, items, strict=True) if text and item.changes]
        if not kept:
            return ""
        first, last = items[0], items[-1]
        tail = self._renamed(last.end, located.end)
        same = all(text == sql[item.start : item.end] for text, item in zip(texts, items, strict=True))
        body = sql[first.start : last.end] if same else separator.join([text for text in texts if text])
        return sql[located.start : first.start] + body + tail

    def _item(self, table: TableId, item: Item) -> str:
        """Return the text of an item; "" if it disappears."""
        changed = {token.text for token in self._tokens(item.start, item.end) if self._is_changed(token)}
        is_lost = any(self._is_lost(change) for change in item.changes)
        if not changed and not is_lost:
            return self._sql[item.start : item.end]
        if not is_lost and not any(self._rules.effect(name).hides for name in changed):
            return self._renamed(item.start, item.end)
        if not all(isinstance(change, _STRUCTURED) for change in item.changes):
            raise CannotRewrite
        alone = item if len(item.changes) == 1 else None
        parts = [self._change(table, change, alone) for change in item.changes]
        return ", ".join([part for part in parts if part])

    def _change(self, table: TableId, change: Change, item: Item | None) -> str:
        """Return the text of a change; `item`: its item, if it is the only change there."""
        effect = self._rules.effect
        match change:
            case AddColumn(definition) if effect(definition.column.name).is_dropped:
                return ""
            case AddColumn():
                return self._added(table, change, item)
            case ModifyColumn():
                return self._modified(table, change, item)
            case DropColumn(name, tolerant):
                guard = "IF EXISTS " if tolerant else ""
                found = effect(name)
                return "" if found.is_dropped else f"DROP COLUMN {guard}{quoted_name(found.name)}"
            case RenameColumn(old, new):
                return self._column_renamed(old, new)
            case SetDefault(name) if effect(name).hides:
                return ""
        if self._is_lost(change):
            return ""
        if item is None:
            raise CannotRewrite
        return self._renamed(item.start, item.end, is_key=isinstance(change, AddPrimaryKey | AddIndex))

    def _added(self, table: TableId, change: AddColumn, item: Item | None) -> str:
        """Return the text of ADD COLUMN, or of an element of CREATE TABLE."""
        name = change.definition.column.name
        place = self._known.place_of(self._rules.effect(name).name) if change.after else ""
        if change.after == "":
            place = " FIRST"
        if item is not None and self._rules.effect(name).hiding is None:
            return self._without_place(item) + place
        prefix = "" if isinstance(self._located.statement, CreateTable) else "ADD COLUMN "
        guard = "IF NOT EXISTS " if change.tolerant else ""
        return f"{prefix}{guard}{self._defined(table, change.definition)}{place}"

    def _without_place(self, item: Item) -> str:
        """Return the text of an item that defines a column, without FIRST or AFTER at its end."""
        tokens = self._tokens(item.start, item.end)
        end = item.end
        if tokens[-1].kind == "word" and tokens[-1].text.upper() == "FIRST":
            end = tokens[-2].end
        elif len(tokens) > 2 and tokens[-2].kind == "word" and tokens[-2].text.upper() == "AFTER":
            end = tokens[-3].end
        return self._renamed(item.start, end)

    def _defined(self, table: TableId, definition: ColumnDefinition) -> str:
        """Return a column's definition in the target, without its place."""
        found = self._rules.column(table, definition.column).column
        if found.generated is not None:
            raise CannotRewrite  # definitions do not have its expression
        is_unique = definition.is_unique and not self._rules.effect(definition.column.name).merges_rows
        flags = " PRIMARY KEY" if definition.is_primary else " UNIQUE" if is_unique else ""
        return column_text(found) + flags

    def _modified(self, table: TableId, change: ModifyColumn, item: Item | None) -> str:
        """Return the text of MODIFY or CHANGE COLUMN."""
        old, new = self._rules.effect(change.name), self._rules.effect(change.definition.column.name)
        if old.is_dropped and new.is_dropped:
            return ""
        if new.is_dropped:
            return f"DROP COLUMN {quoted_name(old.name)}"
        is_placed = old.is_dropped or change.after is not None
        place = self._known.place_of(new.name) if is_placed else ""
        if item is not None and old.hiding is None and new.hiding is None and not old.is_dropped:
            return self._without_place(item) + place
        text = self._defined(table, change.definition) + place
        if old.is_dropped:
            return f"ADD COLUMN {text}"
        guard = "IF EXISTS " if change.tolerant else ""
        if old.name == new.name:
            return f"MODIFY COLUMN {guard}{text}"
        return f"CHANGE COLUMN {guard}{quoted_name(old.name)} {text}"

    def _column_renamed(self, old_name: str, new_name: str) -> str:
        """Return the text of RENAME COLUMN."""
        old, new = self._rules.effect(old_name), self._rules.effect(new_name)
        if old.is_dropped and new.is_dropped:
            return ""
        if new.is_dropped:
            return f"DROP COLUMN {quoted_name(old.name)}"
        if old.is_dropped:
            return f"ADD COLUMN {column_text(self._known.column(new.name))}{self._known.place_of(new.name)}"
        if old.hiding != new.hiding:
            return f"CHANGE COLUMN {quoted_name(old.name)} {column_text(self._known.column(new.name))}"
        if old.name == new.name:
            return ""
        return f"RENAME COLUMN {quoted_name(old.name)} TO {quoted_name(new.name)}"

    def _is_lost(self, change: Change) -> bool:
        """Return whether a change is about a key that the target does not have."""
        match change:
            case AddPrimaryKey(columns) if columns is not None:
                return False  # the definition refuses rules for these columns
            case AddIndex(_, columns, is_unique) if columns is not None:
                effects = [self._rules.effect(name) for name in columns]
                return any(each.is_dropped or (is_unique and each.merges_rows) for each in effects)
            case AddForeignKey(_, columns):
                return any(self._rules.effect(name).hides for name in columns)
            case DropIndex(name) | RenameIndex(name):
                return name.lower() in self._lost_keys
            case _:
                return False

    # ------------------------------------------------------------ tokens

    def _tokens(self, start: int, end: int) -> list[Token]:
        return [token for token in self._located.tokens if start <= token.start and token.end <= end]

    def _is_changed(self, token: Token) -> bool:
        """Return whether a token may be the name of a column that a rule changes."""
        if token.kind not in {"word", "name"} or token.text.lower() not in self._columns:
            return False
        return self._rules.changes(token.text)

    def _renamed(self, start: int, end: int, *, is_key: bool = False) -> str:
        """Return a part of the text with the new names of columns.

        Raises CannotRewrite if it refers to a column that is left out, or whose values are replaced. A key
        (`is_key`) of replaced values is possible; an expression or a list of partitions may show values.
        """
        parts: list[str] = []
        at = start
        for token in _column_tokens(self._tokens(start, end)):
            if not self._is_changed(token):
                continue
            effect = self._rules.effect(token.text)
            if effect.is_dropped or (effect.hiding is not None and not is_key):
                raise CannotRewrite
            if effect.name == token.text:
                continue
            parts += (self._sql[at : token.start], quoted_name(effect.name))
            at = token.end
        return "".join([*parts, self._sql[at:end]])


#: Changes that can be written anew, without the text of their item.
_STRUCTURED: Final = (
    AddColumn,
    ModifyColumn,
    DropColumn,
    RenameColumn,
    SetDefault,
    AddPrimaryKey,
    AddIndex,
    AddForeignKey,
    DropIndex,
    RenameIndex,
)


def renamed_tables(statement: Statement) -> bool:
    """Return whether a statement gives a table another name."""
    changes = statement.changes if isinstance(statement, AlterTable) else ()
    return isinstance(statement, RenameTables) or any(isinstance(change, RenameTo) for change in changes)


def _names_in(change: Change) -> Iterable[str]:
    """Return the names of columns in a change."""
    match change:
        case AddColumn(definition):
            return (definition.column.name,)
        case ModifyColumn(name, definition):
            return (name, definition.column.name)
        case DropColumn(name) | SetDefault(name):
            return (name,)
        case RenameColumn(old, new):
            return (old, new)
        case AddPrimaryKey(columns) | AddIndex(_, columns) | AddForeignKey(_, columns):
            return columns or ()
        case _:
            return ()


#: Words before the name of a column, outside of parentheses.
_BEFORE_NAMES: Final = frozenset(
    {"ADD", "COLUMN", "EXISTS", "MODIFY", "CHANGE", "AFTER", "ALTER", "DROP", "RENAME", "TO", "="}
)


def _column_tokens(tokens: Sequence[Token]) -> Iterator[Token]:
    """Yield the tokens that may be names of the table's columns: not those of keys, functions and options."""
    depth, in_other_table, is_after_change, is_second = 0, False, False, False
    for at, token in enumerate(tokens):
        word = token.text.upper() if token.kind in {"word", "mark"} else ""
        before = tokens[at - 1].text.upper() if at else ""
        if word in {"(", ")"}:
            depth += 1 if word == "(" else -1
            in_other_table = in_other_table and depth > 0
        elif word == "REFERENCES":
            in_other_table = True
        elif word in {"CHANGE", "COLUMN"} and not depth:
            is_after_change = is_after_change or word == "CHANGE"
        elif token.kind in {"word", "name"} and not in_other_table:
            is_function = token.kind == "word" and at + 1 < len(tokens) and tokens[at + 1].text == "("
            is_name = is_second or not at or before in _BEFORE_NAMES
            if (depth and not is_function) or (not depth and is_name):
                yield token
                is_second, is_after_change = is_after_change, False
