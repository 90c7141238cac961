"""Removes values of hidden columns from definitions and from the text of statements, for what is stored.

The catalog must read the same definitions from a redacted statement, apart from defaults and comments of
hidden columns. Everything else that definitions do not contain may be lost: expressions, partitions, queries,
bodies of programs. A redacted statement is parsed again to verify this; one that fails is not rewritten.
"""

from __future__ import annotations

from bisect import bisect_left
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import suppress
from typing import Final

import msgspec

from relay.model.errors import DdlNotUnderstood
from relay.model.events import ABSENT, Column, DdlKind, TableSchema
from relay.mysql.ddl import Located, locate_statements
from relay.mysql.ddl.columns import default_value
from relay.mysql.ddl.statements import (
    AddColumn,
    AddForeignKey,
    AddIndex,
    AlterTable,
    Change,
    ColumnDefinition,
    CreateTable,
    CreateTableAs,
    DropIndex,
    Item,
    ModifyColumn,
    OtherChange,
    OtherStatement,
    PartitionToTable,
    RenameIndex,
    RenameTo,
    SetDefault,
    Statement,
    TableName,
    TableToPartition,
)
from relay.mysql.ddl.tokens import Cursor, Token
from relay.mysql.types import quoted_name
from relay.rules.columns.ddl_text import names_in, renamings
from relay.rules.columns.projections import TableRules
from relay.rules.columns.replacements import HashKey
from relay.rules.columns.rules import ColumnAction, ParsedColumnRule
from relay.rules.rewriting import folded

#: Returns whether the values of a column are hidden.
_Hides = Callable[[str], bool]


class HiddenColumns(msgspec.Struct, frozen=True):
    """The columns whose values rules hide. A `relay.catalog.redaction.Redaction`.

    Statements name tables in any letter case. So a table whose name differs from that of a rule in letter
    case only counts as one with this rule.
    """

    rules: tuple[ParsedColumnRule, ...]

    def schema(self, schema: TableSchema) -> TableSchema:
        """Return a definition without defaults and comments of hidden columns."""
        table = TableName(schema.id.table, schema.id.database)
        hides = self._hides([table], schema.id.database)
        if hides is None:
            return schema
        columns = tuple([_bare(column) if hides(column.name) else column for column in schema.columns])
        return schema if columns == schema.columns else msgspec.structs.replace(schema, columns=columns)

    def statement(self, ddl: str, database: str, *, is_restored: bool, most_statements: int) -> str | None:
        """Return a statement without values of hidden columns; None if it cannot be rewritten."""

        def hides_in(statement: AlterTable | CreateTable) -> _Hides | None:
            return self._hides(_tables_with_columns(statement), database)

        return _redacted(ddl, hides_in, is_restored=is_restored, most_statements=most_statements)

    def outline(self, ddl: str, *, is_restored: bool, most_statements: int) -> str | None:
        """Return a statement without values of any column; None if it cannot be rewritten."""
        return _redacted(ddl, lambda _: _hides_all, is_restored=is_restored, most_statements=most_statements)

    def _hides(self, tables: Iterable[TableName], database: str) -> _Hides | None:
        """Return which columns are hidden in any of these tables; None if none are.

        `database`: that of names without one; "" if it is unknown.
        """
        found: list[TableRules] = []
        for table in dict.fromkeys(tables):
            of_table = database if table.database is None else table.database
            rules = [rule for rule in self.rules if rule.may_have_table(of_table or None, table.table)]
            if any(rule.rule.action is not ColumnAction.RENAME for rule in rules):
                found.append(TableRules(rules, "", HashKey()))
        if not found:
            return None
        return lambda name: any(rules.effect(name).hides for rules in found)


def _hides_all(_: str) -> bool:
    return True


def _bare(column: Column) -> Column:
    return msgspec.structs.replace(column, default=ABSENT, comment=None)


def _tables_with_columns(statement: AlterTable | CreateTable) -> Iterator[TableName]:
    """Yield the tables whose columns a statement may name."""
    yield statement.table
    for change in statement.changes:
        match change:
            case RenameTo(other) | PartitionToTable(other) | TableToPartition(other):
                yield other
            case OtherChange(_, other) if other is not None:
                yield other


class _CannotRedact(Exception):
    """A statement has a form in which values cannot be distinguished from the rest."""


def _redacted(
    ddl: str,
    hides_in: Callable[[AlterTable | CreateTable], _Hides | None],
    *,
    is_restored: bool,
    most_statements: int,
) -> str | None:
    """Return a text without values of hidden columns; None if it cannot be rewritten."""

    def read(text: str, *, backslash_escapes: bool) -> list[Located]:
        return locate_statements(text, backslash_escapes=backslash_escapes, most_statements=most_statements)

    try:
        located = read(ddl, backslash_escapes=not is_restored)
        found = [_statement(ddl, each, hides_in) for each in located]
        other = read(ddl, backslash_escapes=is_restored) if "\\" in ddl else located
        if _places(located) != _places(other):
            # It is not certain where strings end. If there is nothing to hide either way, the text stays.
            found_otherwise = [_statement(ddl, each, hides_in) for each in other]
            is_unchanged = _is_unchanged(ddl, located, found) and _is_unchanged(ddl, other, found_otherwise)
            return ddl if is_unchanged else None
    except (DdlNotUnderstood, _CannotRedact):
        return None
    wanted = [statement for text, statement in found if text]
    for text in _joined(ddl, located, [text for text, _ in found]) if wanted else ():
        with suppress(DdlNotUnderstood):
            if [each.statement for each in read(text, backslash_escapes=not is_restored)] == wanted:
                return text
    return None if wanted else ""


def _joined(ddl: str, located: Sequence[Located], texts: Sequence[str]) -> Iterator[str]:
    """Yield the statements as one text: with what is between them (executable comments); without it."""
    parts: list[str] = []
    at = 0
    for each, text in zip(located, texts, strict=True):
        parts += (ddl[at : each.start], text)
        at = each.end
    yield "".join([*parts, ddl[at:]])
    yield "; ".join(filter(None, texts))


def _is_unchanged(ddl: str, located: Iterable[Located], found: Iterable[tuple[str, Statement]]) -> bool:
    """Return whether no statement of a text has been rewritten."""
    return all(ddl[each.start : each.end] == text for each, (text, _) in zip(located, found, strict=True))


def _places(located: Iterable[Located]) -> list[tuple[int, int]]:
    return [(token.start, token.end) for each in located for token in each.tokens]


def _statement(
    ddl: str, located: Located, hides_in: Callable[[AlterTable | CreateTable], _Hides | None]
) -> tuple[str, Statement]:
    """Return the redacted text of a statement, "" if it has no effect on definitions, and its meaning.

    Raises _CannotRedact.
    """
    statement = located.statement
    match statement:
        case AlterTable() | CreateTable():
            hides = hides_in(statement)
            if hides is not None:
                return _OfTable(ddl, located, hides).redacted(statement)
        case CreateTableAs(table, if_not_exists):
            guard = "IF NOT EXISTS " if if_not_exists else ""
            return f"CREATE TABLE {guard}{_quoted(table)}{_QUERY}", statement
        case OtherStatement(DdlKind.CREATE_VIEW, (name,), columns):
            names = "" if columns is None else f" ({', '.join(map(quoted_name, columns))})"
            return f"CREATE VIEW {_quoted(name)}{names}{_QUERY}", statement
        case OtherStatement(kind) if kind is not DdlKind.DROP_VIEW:
            return "", statement
    return ddl[located.start : located.end], statement


#: A query in place of any other one.
_QUERY: Final = " AS SELECT * FROM t"


def _quoted(name: TableName) -> str:
    database = "" if name.database is None else f"{quoted_name(name.database)}."
    return database + quoted_name(name.table)


class _OfTable:
    """Redacts ALTER TABLE, CREATE TABLE, CREATE INDEX or DROP INDEX of a table with hidden columns."""

    def __init__(self, ddl: str, located: Located, hides: _Hides) -> None:
        self._ddl, self._located = ddl, located
        self._starts = [token.start for token in located.tokens]
        changes = [change for item in located.items for change in item.changes]
        linked = {folded(name) for pair in renamings(changes) if any(map(hides, pair)) for name in pair}
        self._hides: _Hides = lambda name: hides(name) or folded(name) in linked
        names = (name for change in changes for name in _all_names(change))
        tables = (part for each in located.tables for part in (each.name.database, each.name.table))
        #: Names, which may be in double quotes (ANSI_QUOTES).
        self._names = frozenset({*names, *tables})
        #: Ends of the names of tables, of which `d.1` ends with a number.
        self._table_ends = frozenset([each.end for each in located.tables])
        #: Parts of the text with other text in their place, in order.
        self._edits: list[tuple[int, int, str]] = []

    def redacted(self, statement: AlterTable | CreateTable) -> tuple[str, Statement]:
        """Return the redacted text, and the statement that it contains. Raises _CannotRedact."""
        start, end = self._located.start, self._located.end
        at = start
        for item in self._located.items:
            self._without_literals(self._tokens(at, item.start))
            self._item(item)
            at = item.end
        self._without_literals(self._tokens(at, end))
        parts: list[str] = []
        at = start
        for first, last, text in self._edits:
            parts += (self._ddl[at:first], text)
            at = last
        changes = tuple(map(self._without_values, statement.changes))
        text = "".join([*parts, self._ddl[at:end]]).rstrip()
        return text, msgspec.structs.replace(statement, changes=changes)

    def _without_values(self, change: Change) -> Change:
        """Return a change without default and comment if its column is hidden."""
        match change:
            case AddColumn(definition) | ModifyColumn(_, definition) if self._is_hidden(change):
                return msgspec.structs.replace(change, definition=_bare_definition(definition))
            case SetDefault() if self._is_hidden(change):
                return msgspec.structs.replace(change, default=None)
        return change

    def _is_hidden(self, change: Change) -> bool:
        match change:
            case AddColumn(definition):
                return self._hides(definition.column.name)
            case ModifyColumn(name, definition):
                return self._hides(name) or self._hides(definition.column.name)
            case SetDefault(name):
                return self._hides(name)
        return False

    def _tokens(self, start: int, end: int) -> Sequence[Token]:
        return self._located.tokens[bisect_left(self._starts, start) : bisect_left(self._starts, end)]

    def _item(self, item: Item) -> None:
        tokens = self._tokens(item.start, item.end)
        parts = [tokens] if len(item.changes) == 1 else _parts(tokens)
        if len(parts) != len(item.changes) and any(map(_has_values, item.changes)):
            raise _CannotRedact
        if len(parts) != len(item.changes):
            self._without_literals(tokens)
            return
        for change, of_change in zip(item.changes, parts, strict=True):
            if isinstance(change, AddColumn | ModifyColumn):
                self._definition(of_change, is_hidden=self._is_hidden(change))
            elif isinstance(change, SetDefault):
                self._default_of(change, of_change)
            else:
                self._without_literals(of_change)

    def _default_of(self, change: SetDefault, tokens: Sequence[Token]) -> None:
        """Replace SET DEFAULT of a hidden column with DROP DEFAULT."""
        if change.default is None or not self._is_hidden(change):
            return
        words = [token.text.upper() if token.kind == "word" else "" for token in tokens]
        for at in range(1, len(words)):
            if words[at - 1 : at + 1] == ["SET", "DEFAULT"]:
                self._edits.append((tokens[at - 1].start, tokens[-1].end, "DROP DEFAULT"))
                return
        raise _CannotRedact

    def _definition(self, tokens: Sequence[Token], *, is_hidden: bool) -> None:
        """Redact the definition of a column: its default and comment if it is hidden, and its expressions."""
        cursor = Cursor(self._ddl, list(tokens))
        before, is_typed = "", False
        while (token := cursor.peek()).kind != "end":
            word = cursor.look()
            if word == "DEFAULT" and before not in _BEFORE_NAMES:
                cursor.take()
                default_value(cursor)
                self._remove(token, cursor, is_hidden=is_hidden)
            elif word == "COMMENT" and cursor.peek(1).kind == "string":
                cursor.take()
                while cursor.peek().kind == "string":
                    cursor.take()
                self._remove(token, cursor, is_hidden=is_hidden)
            elif word == "(":
                first = cursor.position
                cursor.skip_parentheses()
                is_type = not is_typed and before not in _BEFORE_EXPRESSIONS
                is_typed = is_typed or is_type
                if not is_type:
                    self._group(tokens[first : cursor.position], is_expression=before in _BEFORE_EXPRESSIONS)
            else:
                cursor.take()
                is_name = before in _BEFORE_NAMES or self._is_name(token, before)
                if token.kind == "string" and not is_name:
                    self._literal(token)
            before = word

    def _remove(self, first: Token, cursor: Cursor, *, is_hidden: bool) -> None:
        if is_hidden:
            self._edits.append((first.start, cursor.end, ""))

    def _group(self, tokens: Sequence[Token], *, is_expression: bool) -> None:
        """Redact what an attribute has in parentheses: numbers outside of expressions are no values."""
        for token in tokens:
            if token.kind == "string" or is_expression:
                self._literal(token)

    def _without_literals(self, tokens: Sequence[Token]) -> None:
        """Replace the literals in a part of the text without definitions of columns, except table options."""
        depth, before, last = 0, "", ""
        for token in tokens:
            word = token.text.upper() if token.kind in {"word", "mark"} else ""
            depth = max(depth + {"(": 1, ")": -1}.get(word, 0), 0)  # the last item is in parentheses
            is_option = not depth and (before in _OPTIONS or (before == "=" and last in _OPTIONS))
            if not self._is_name(token, before) and not (is_option and token.kind == "string"):
                self._literal(token)
            last, before = before, word

    def _is_name(self, token: Token, before: str) -> bool:
        """Return whether a string or a number is a name. `before`: the word or mark before it."""
        if token.kind == "string":
            return before == "." or (before in _BEFORE_OTHER_NAMES and self._ddl[token.start] == '"')
        return before == "." and token.end in self._table_ends

    def _literal(self, token: Token) -> None:
        """Replace a literal with one that says nothing."""
        if token.kind in {"number", "bits"}:
            self._edits.append((token.start, token.end, "0"))
        elif token.kind == "string":
            is_name = self._ddl[token.start] == '"' and token.text in self._names
            if not is_name:
                self._edits.append((token.start, token.end, "''"))


#: Words before the name of a charset or a collation, or before a DEFAULT without a value.
_BEFORE_NAMES: Final = frozenset({"COLLATE", "CHARSET", "SET", "SERIAL"})
#: Words before a name that the parser requires but does not keep. It may be in double quotes (ANSI_QUOTES).
_BEFORE_OTHER_NAMES: Final = frozenset({"CONSTRAINT", "CHECK", "REFERENCES", "INDEX", "KEY", "PARTITION"})
#: Words before an expression in parentheses.
_BEFORE_EXPRESSIONS: Final = frozenset({"CHECK", "AS"})
#: Options of a table whose text is part of its definition.
_OPTIONS: Final = frozenset({"COMMENT", "CHARSET", "SET", "COLLATE"})


def _bare_definition(definition: ColumnDefinition) -> ColumnDefinition:
    return msgspec.structs.replace(definition, column=_bare(definition.column), bits=None)


def _has_values(change: Change) -> bool:
    """Return whether a change may have a default or a comment of a column."""
    return isinstance(change, AddColumn | ModifyColumn | SetDefault)


def _parts(tokens: Sequence[Token]) -> list[Sequence[Token]]:
    """Return the parts of `ADD (a INT, b INT)`."""
    parts: list[Sequence[Token]] = []
    depth = start = 0
    for at, token in enumerate(tokens):
        mark = token.text if token.kind == "mark" else ""
        depth += {"(": 1, ")": -1}.get(mark, 0)
        if mark == "(" and depth == 1:
            start = at + 1
        elif (mark == "," and depth == 1) or (mark == ")" and not depth):
            parts.append(tokens[start:at])
            start = at + 1
    return parts


def _all_names(change: Change) -> Iterator[str]:
    """Yield all names in a change."""
    yield from names_in(change)
    match change:
        case AddColumn(_, after) | ModifyColumn(_, _, after) if after:
            yield after
        case AddIndex(name) | AddForeignKey(name) | DropIndex(name):
            yield name
        case RenameIndex(old, new):
            yield from (old, new)
