"""Rewrites the text of DDL statements by column rules.

Items of ALTER TABLE and CREATE TABLE that name no column of a rule keep their text. Items about dropped
columns are removed. Columns with replaced values get their target definition. Renamed columns get their new
name. A statement that uses such a column in another way, such as in an expression, raises CannotRewrite: it
would be wrong in the target, or show values.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import Final, NamedTuple

from relay.model.events import Column, DdlKind, TableId, TableSchema
from relay.mysql.ddl import Located
from relay.mysql.ddl.printed import column_text
from relay.mysql.ddl.statements import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    AddPrimaryKey,
    Change,
    ColumnDefinition,
    CreateTable,
    DropColumn,
    DropIndex,
    Item,
    ModifyColumn,
    OtherChange,
    RenameColumn,
    RenameIndex,
    RenameTo,
    SetDefault,
    TableToPartition,
)
from relay.mysql.ddl.tokens import Token
from relay.mysql.types import quoted_name
from relay.rules.columns.projections import TableRules
from relay.rules.rewriting import CannotRewrite, folded, has_literals, is_name


class TableVersions(NamedTuple):
    """The definitions of a table before and after a statement, and the target's after it; None if unknown."""

    before: TableSchema | None
    after: TableSchema | None
    written: TableSchema | None

    @property
    def known(self) -> list[TableSchema]:
        """The known definitions of the source."""
        return [schema for schema in (self.before, self.after) if schema is not None]

    def names(self) -> set[str]:
        """Return the folded names of all known columns."""
        return {folded(column.name) for schema in self.known for column in schema.columns}

    def lost_keys(self, rules: TableRules) -> set[str]:
        """Return the folded names of unique keys and indexes that the target does not have."""
        lost: set[str] = set()
        for key, is_unique in () if self.before is None else self.before.ordered_keys():
            if _loses_key(rules, key.columns, is_unique=is_unique):
                lost.add(folded(key.name))
        return lost

    def name_of_key(self, columns: Sequence[str]) -> str:
        """Return the name that the source's server chose for a key of these columns. Raises CannotRewrite."""
        wanted = [*map(folded, columns)]
        keys = [] if self.after is None else self.after.ordered_keys()
        names = [key.name for key, _ in keys if [*map(folded, key.columns)] == wanted]
        if len(names) != 1:
            raise CannotRewrite("the name of a key is unknown")
        return names[0]


def _loses_key(rules: TableRules, columns: Iterable[str], *, is_unique: bool) -> bool:
    """Return whether the target does not have a key of these columns."""
    effects = [rules.effect(name) for name in columns]
    return any(each.is_dropped or (is_unique and each.merges_rows) for each in effects)


class StatementRewriter:
    """Rewrites one statement about one table. `rules` are those of the table."""

    def __init__(self, sql: str, located: Located, rules: TableRules, versions: TableVersions) -> None:
        self._sql, self._located, self._rules, self._versions = sql, located, rules, versions
        self._columns = versions.names() | {
            folded(name) for item in located.items for change in item.changes for name in names_in(change)
        }
        written = () if versions.written is None else versions.written.columns
        self._written = {folded(column.name): (at, column) for at, column in enumerate(written)}
        self._written_columns = written
        self._starts = [token.start for token in located.tokens]
        self._lost_keys = versions.lost_keys(rules)
        self._hides = not versions.known or any(
            rules.effect(column.name).hides for schema in versions.known for column in schema.columns
        )
        self._hides_keys = not versions.known or any(
            rules.effect(name).hides for schema in versions.known for name in _counted_columns(schema)
        )
        changes = [change for item in located.items for change in item.changes]
        #: The folded names of columns that this statement renames to hidden ones.
        self._renamed_to_hidden = {folded(old) for old, new in renamings(changes) if rules.effect(new).hides}

    def _place_of(self, name: str) -> str:
        """Return ` FIRST` or ` AFTER …` of a column in the target's definition. Raises CannotRewrite."""
        at, _ = self._written.get(folded(name), (None, None))
        if at is None:
            raise CannotRewrite(f"the place of {name} is unknown")
        return f" AFTER {quoted_name(self._written_columns[at - 1].name)}" if at else " FIRST"

    def _column(self, name: str) -> Column:
        """Return a column of the target's definition. Raises CannotRewrite if its text is unknown."""
        _, found = self._written.get(folded(name), (None, None))
        if found is None or found.generated is not None:
            raise CannotRewrite(f"the definition of {name} is unknown")
        return found

    def rewrite(self, table: TableId) -> str:
        """Rewrite ALTER TABLE or CREATE TABLE; "" if nothing of it remains.

        Raises CannotRewrite, NotRepresentable.
        """
        items, located, sql = self._located.items, self._located, self._sql
        texts = [self._item(table, item) for item in items]
        kept = [(text, item) for text, item in zip(texts, items, strict=True) if text]
        if len(kept) < len(items) and not any(item.changes for _, item in kept):
            return ""
        first, last = items[0], items[-1]
        head, tail = sql[located.start : first.start], self._options(last.end, located.end)
        if all(text == sql[item.start : item.end] for text, item in zip(texts, items, strict=True)):
            return head + sql[first.start : last.end] + tail
        return head + "".join(self._joined(kept)) + tail

    def index(self, change: Change) -> str:
        """Rewrite CREATE INDEX and DROP INDEX; "" for an index that the target does not have."""
        start, end = self._located.start, self._located.end
        self._check_known([change])
        if self._is_lost(change):
            return ""
        return self._sql[start:end] if isinstance(change, DropIndex) else self._key(change, start, end)

    def _joined(self, kept: Sequence[tuple[str, Item]]) -> Iterator[str]:
        separator = ",\n  " if isinstance(self._located.statement, CreateTable) else ", "
        for number, (text, item) in enumerate(kept):
            first = next(iter(self._tokens(item.start, item.end)))
            # `ADD COLUMN … PARTITION BY …` has no comma.
            is_partitioning = first.text.upper() in {"PARTITION", "REMOVE"}
            if number:
                yield " " if is_partitioning else separator
            yield text

    def _item(self, table: TableId, item: Item) -> str:
        """Return the text of an item; "" if it disappears."""
        tokens = self._tokens(item.start, item.end)
        self._check_known(item.changes)
        self._check_partitions(item, tokens)
        is_lost = any(map(self._is_lost, item.changes))
        if all(isinstance(change, RenameTo | RenameIndex | DropIndex) for change in item.changes):
            return "" if is_lost else self._sql[item.start : item.end]
        changed = {token.text for token in tokens if self._is_changed(token)}
        becomes_hidden = any(self._becomes_hidden(token) for token in tokens)
        if not changed and not is_lost and not becomes_hidden:
            return self._options(item.start, item.end)
        alone = item if len(item.changes) == 1 else None
        if alone is not None and isinstance(alone.changes[0], AddPrimaryKey | AddIndex):
            return "" if is_lost else self._key(alone.changes[0], item.start, item.end)
        if not (is_lost or becomes_hidden or any(self._rules.effect(name).hides for name in changed)):
            return self._renamed(item.start, item.end)
        if not all(isinstance(change, _STRUCTURED) for change in item.changes):
            raise CannotRewrite("a part of it uses a hidden column")
        parts = [self._change(table, change, alone) for change in item.changes]
        return ", ".join([part for part in parts if part])

    def _check_known(self, changes: Iterable[Change]) -> None:
        """Raise CannotRewrite for changes whose columns only a definition shows, if none is known."""
        if not self._versions.known and not all(isinstance(change, _NAMING_COLUMNS) for change in changes):
            raise CannotRewrite("the definition of the table is unknown")

    def _check_partitions(self, item: Item, tokens: Sequence[Token]) -> None:
        """Raise CannotRewrite for values of partitions: the statement does not name their columns."""
        is_of_partitions = any(
            isinstance(change, TableToPartition)
            or (isinstance(change, OtherChange) and change.kind in _PARTITION_KINDS)
            for change in item.changes
        )
        names_columns = any(token.text.upper() == "BY" for token in tokens)
        if self._hides and is_of_partitions and not names_columns and has_literals(tokens, self._sql):
            raise CannotRewrite("partitions have values of unnamed columns")

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
            case SetDefault(name) if effect(name).hides or folded(name) in self._renamed_to_hidden:
                return ""
        if self._is_lost(change):
            return ""
        if item is None:
            raise CannotRewrite("one part has several changes")
        return self._renamed(item.start, item.end)

    def _added(self, table: TableId, change: AddColumn, item: Item | None) -> str:
        """Return the text of ADD COLUMN, or of an element of CREATE TABLE."""
        name = change.definition.column.name
        place = self._place_of(self._rules.effect(name).name) if change.after else ""
        if change.after == "":
            place = " FIRST"
        if item is not None and self._rules.effect(name).value_rule is None:
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
            raise CannotRewrite("the expression of a generated column is unknown")
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
        place = self._place_of(new.name) if is_placed else ""
        if item is not None and not old.hides and not new.hides:
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
            return f"ADD COLUMN {column_text(self._column(new.name))}{self._place_of(new.name)}"
        if old.value_rule != new.value_rule:
            return f"CHANGE COLUMN {quoted_name(old.name)} {column_text(self._column(new.name))}"
        if old.name == new.name:
            return ""
        return f"RENAME COLUMN {quoted_name(old.name)} TO {quoted_name(new.name)}"

    def _is_lost(self, change: Change) -> bool:
        """Return whether a change is about a key that the target does not have."""
        match change:
            case AddIndex(_, columns, is_unique) if columns is not None:
                return _loses_key(self._rules, columns, is_unique=is_unique)
            case AddForeignKey(_, columns):
                return any(self._rules.effect(name).hides for name in columns)
            case DropIndex(name) | RenameIndex(name):
                return folded(name) in self._lost_keys
            case _:
                return False

    # ------------------------------------------------------------ tokens

    def _tokens(self, start: int, end: int) -> list[Token]:
        tokens = self._located.tokens
        return tokens[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def _is_changed(self, token: Token) -> bool:
        """Return whether a token may be the name of a column that a rule changes."""
        is_possible = not self._versions.known or folded(token.text) in self._columns
        return is_name(token, self._sql) and is_possible and self._rules.changes(token.text)

    def _becomes_hidden(self, token: Token) -> bool:
        """Return whether a token may be the name of a column that this statement renames to a hidden one."""
        return is_name(token, self._sql) and folded(token.text) in self._renamed_to_hidden

    def _options(self, start: int, end: int) -> str:
        """Return a part with options of the table, or an item without columns of a rule.

        The next number of AUTO_INCREMENT shows keys: it is left out if they are hidden. Raises CannotRewrite.
        """
        counters = _counters(self._tokens(start, end)) if self._hides_keys else []
        if not counters:
            return self._renamed(start, end)
        ends = [(start, start), *(self._with_comment(*each, start, end) for each in counters), (end, end)]
        parts = [self._renamed(before, after).strip() for (_, before), (after, _) in pairwise(ends)]
        first, *others = parts
        text = " ".join([part for part in (first, *(each.lstrip(", ") for each in others)) if part])
        text = text.rstrip(",")
        return f" {text}" if text and self._sql[start].isspace() else text

    def _with_comment(self, first: int, last: int, start: int, end: int) -> tuple[int, int]:
        """Return the place of an option with the executable comment that contains nothing else, if any.

        Raises CannotRewrite for one that is not within the part from `start` to `end`.
        """
        at, tokens, sql = bisect_left(self._starts, first), self._located.tokens, self._sql
        opening = sql.rfind("/*", tokens[at - 1].end if at else 0, first)
        if opening < 0 or sql.find("*/", opening, first) >= 0:
            return first, last
        following = bisect_left(self._starts, last)
        next_start = self._starts[following] if following < len(tokens) else len(sql)
        closing = sql.find("*/", last, next_start)
        if closing < 0:
            return first, last
        if opening < start or closing + 2 > end:
            raise CannotRewrite("an executable comment contains the next number of the table")
        return opening, closing + 2

    def _key(self, change: Change, start: int, end: int) -> str:
        """Return the text of an item that adds a key or an index, or of CREATE INDEX."""
        columns = change.columns if isinstance(change, AddPrimaryKey | AddIndex) else None
        tokens = self._tokens(start, end)
        if any(token.kind == "word" and token.text.upper() == "WHERE" for token in tokens):
            raise CannotRewrite("an index has a condition")
        if columns is None:
            return self._renamed(start, end)
        for name in columns:
            effect = self._rules.effect(name)
            _, column = self._written.get(folded(effect.name), (None, None))
            is_long = column is not None and column.type.base.endswith("text")
            if effect.value_rule is not None and (is_long or any(token.kind == "number" for token in tokens)):
                raise CannotRewrite("an index has a prefix of a column with replaced values, or needs one")
        opening = next(token.start for token in tokens if token.text == "(")
        head = self._sql[start:opening]
        is_renamed = self._rules.effect(columns[0]).name != columns[0]
        if isinstance(change, AddIndex) and not change.name and is_renamed:
            head = f"{head.rstrip()} {quoted_name(self._versions.name_of_key(columns))} "
        return head + self._renamed(opening, end, is_key=True)

    def _renamed(self, start: int, end: int, *, is_key: bool = False) -> str:
        """Return a part of the text with the new names of columns.

        Raises CannotRewrite if it refers to a column that is dropped, or whose values are replaced. A key
        (`is_key`) of replaced values is possible; an expression or a list of partitions may show values.
        """
        parts: list[str] = []
        at = start
        tokens = self._tokens(start, end)
        for token, is_enclosed in _column_tokens(tokens, self._sql, is_key=is_key):
            if not self._is_changed(token):
                continue
            effect = self._rules.effect(token.text)
            if effect.is_dropped or (effect.value_rule is not None and not is_key):
                raise CannotRewrite("an expression uses a hidden column")
            is_type_or_unit = token.kind == "word" and token.text.upper() in _TYPES_AND_UNITS
            if is_enclosed and is_type_or_unit and not is_key:
                raise CannotRewrite("an expression uses a word that may be a column of a rule")
            if effect.name == token.text:
                continue
            parts += (self._sql[at : token.start], quoted_name(effect.name))
            at = token.end
        return "".join([*parts, self._sql[at:end]])


#: Changes that name all their columns.
_NAMING_COLUMNS: Final = (AddColumn, ModifyColumn, DropColumn, RenameColumn, SetDefault, RenameTo)
#: Changes that can be written anew, without the text of their item.
_STRUCTURED: Final = (
    *(AddColumn, ModifyColumn, DropColumn, RenameColumn, SetDefault),
    *(AddPrimaryKey, AddIndex, AddForeignKey, DropIndex, RenameIndex),
)
_PARTITION_KINDS: Final = frozenset(
    {
        *(DdlKind.ADD_PARTITION, DdlKind.DROP_PARTITION, DdlKind.REORGANIZE_PARTITION),
        *(DdlKind.ALTER_PARTITIONING, DdlKind.EXCHANGE_PARTITION, DdlKind.OTHER),
    }
)
#: Words that are a type or a unit in an expression, and may be the name of a column without quotes.
_TYPES_AND_UNITS: Final = frozenset(
    {
        *("DATE", "TIME", "TIMESTAMP", "DATETIME", "YEAR", "QUARTER", "MONTH", "WEEK", "DAY", "HOUR"),
        *("MINUTE", "SECOND", "MICROSECOND", "TEXT", "JSON", "CHAR", "BINARY", "SIGNED", "UNSIGNED"),
        *("ENUM", "SET", "BIT", "POINT", "GEOMETRY", "COMMENT"),
    }
)


def _counted_columns(schema: TableSchema) -> Iterator[str]:
    """Yield the columns that the next number of a table may be about: AUTO_INCREMENT, the primary key."""
    yield from schema.primary_key or ()
    yield from (column.name for column in schema.columns if column.auto_increment)


def _counters(tokens: Sequence[Token]) -> list[tuple[int, int]]:
    """Return the places of options with the next number of a table: `[FORCE] AUTO_INCREMENT [=] 7`."""
    found: list[tuple[int, int]] = []
    for at, token in enumerate(tokens):
        if token.kind != "word" or token.text.upper() not in _COUNTERS:
            continue
        is_assigned = at + 1 < len(tokens) and tokens[at + 1].text == "="
        value = tokens[at + 1 + is_assigned : at + 2 + is_assigned]
        if value and value[0].kind in _NUMBERS:
            is_forced = at > 0 and tokens[at - 1].text.upper() == "FORCE"
            found.append((tokens[at - is_forced].start, value[0].end))
    return found


#: Options whose number is the next one of a column.
_COUNTERS: Final = frozenset({"AUTO_INCREMENT", "AUTO_RANDOM_BASE"})
#: Kinds of tokens that are numbers; those of bits are also hexadecimal.
_NUMBERS: Final = frozenset({"number", "bits"})


def renamings(changes: Iterable[Change]) -> Iterator[tuple[str, str]]:
    """Yield the old and the new name of each column that is renamed."""
    for change in changes:
        match change:
            case RenameColumn(old, new):
                yield old, new
            case ModifyColumn(old, definition) if folded(old) != folded(definition.column.name):
                yield old, definition.column.name


def names_in(change: Change) -> Iterable[str]:
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


def referenced_tables(tokens: Sequence[Token], sql: str) -> Iterator[tuple[str | None, str]]:
    """Yield the tables that foreign keys refer to: the database, None if it is not given, and the name."""
    for at, token in enumerate(tokens):
        if token.kind == "word" and token.text.upper() == "REFERENCES":
            names = [each.text for each in tokens[at + 1 : at + 4] if is_name(each, sql)]
            is_qualified = len(tokens) > at + 2 and tokens[at + 2].text == "." and len(names) > 1
            if names:
                yield (names[0], names[1]) if is_qualified else (None, names[0])


#: Words before the name of a column, outside of parentheses.
_BEFORE_NAMES: Final = frozenset(
    {"ADD", "COLUMN", "EXISTS", "MODIFY", "CHANGE", "AFTER", "ALTER", "DROP", "RENAME", "TO", "="}
)


def _column_tokens(tokens: Sequence[Token], sql: str, *, is_key: bool) -> Iterator[tuple[Token, bool]]:
    """Yield the tokens that may be names of the table's columns, each with whether it is in parentheses.

    Names of keys, functions and options are none.

    `is_key`: a word before a parenthesis is a column with a prefix length, not a function.
    """
    depth, in_other_table, is_after_change, is_second = 0, False, False, False
    for at, token in enumerate(tokens):
        word = token.text.upper() if token.kind in {"word", "mark"} else ""
        before = tokens[at - 1].text.upper() if at else ""
        if word == "(":
            depth += 1
        elif word == ")":
            depth = max(depth - 1, 0)
            in_other_table = in_other_table and depth > 0
        elif word == "REFERENCES":
            in_other_table = True
        elif word in {"CHANGE", "COLUMN"} and not depth:
            is_after_change = is_after_change or word == "CHANGE"
        elif is_name(token, sql) and not in_other_table:
            is_function = token.kind == "word" and at + 1 < len(tokens) and tokens[at + 1].text == "("
            is_column = is_second or not at or before in _BEFORE_NAMES
            if depth:
                is_column = is_key or not is_function
            if is_column:
                yield token, depth > 0
                is_second, is_after_change = is_after_change, False
