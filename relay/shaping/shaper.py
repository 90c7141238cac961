"""Applies the rules for columns to decoded events, before they are routed."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from relay.codecs.losses import Loss
from relay.model.errors import DdlNotUnderstood, LimitExceeded
from relay.model.events import (
    Bootstrap,
    Event,
    RowChange,
    SchemaChange,
    StatementInText,
    TableChange,
    TableId,
    TableSchema,
)
from relay.model.table_globs import tables_of
from relay.mysql.ddl import Located, alter_table, kinds_of, locate_statements
from relay.mysql.ddl.statements import (
    AlterTable,
    CreateTable,
    CreateTableAs,
    CreateTableLike,
    OtherStatement,
    RenameTables,
    RenameTo,
    TableName,
)
from relay.shaping.ddl_text import CannotRewrite, Definitions, StatementRewriter
from relay.shaping.rules import ColumnAction, ParsedRule
from relay.shaping.tables import TableRules, TableShape


class Shaper:
    """The rules for columns of a route.

    hash_key: The secret of the action HASH.
    target: The name of the target's protocol, for errors.
    needs_definitions: Whether the target's rows need definitions: a statement that is not written is then
        replaced with the definitions after it.
    """

    def __init__(
        self, rules: Sequence[ParsedRule], hash_key: bytes, target: str, *, needs_definitions: bool = False
    ) -> None:
        self._rules, self._hash_key, self._target = tuple(rules), hash_key, target
        self._needs_definitions = needs_definitions
        self._tables: dict[TableId, TableRules | None] = {}
        self._shapes: dict[TableSchema, TableShape | None] = {}

    @property
    def hides_values(self) -> bool:
        """Whether values of some columns do not reach the target."""
        return any(parsed.rule.action is not ColumnAction.RENAME for parsed in self._rules)

    def apply(self, events: list[Event]) -> tuple[list[Event], list[Loss]]:
        """Return the events as they are written, and the losses to count.

        Raises NotRepresentable for a rule that cannot be applied, DecodeError for a malformed value.
        """
        losses: list[Loss] = []
        shaped: list[Event] = []
        for event in events:
            if isinstance(event, RowChange):
                shape = self._shape_of(event.schema)
                shaped.append(event if shape is None else shape.change(event, losses))
            elif isinstance(event, SchemaChange):
                shaped += self._statement(event, losses)
            elif isinstance(event, Bootstrap):
                shaped.append(self._bootstrap(event))
            else:
                shaped.append(event)
        return shaped, losses

    def rules_of(self, table: TableId) -> TableRules | None:
        """Return the rules of a table; None if it has none."""
        if table not in self._tables:
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            matching = [rule for rule in self._rules if rule.has_table(table)]
            self._tables[table] = TableRules(matching, self._target, self._hash_key) if matching else None
        return self._tables[table]

    def _shape_of(self, schema: TableSchema) -> TableShape | None:
        """Return the rules for a definition; None if they change nothing. Raises NotRepresentable."""
        if schema not in self._shapes:
            if len(self._shapes) >= _MOST_TABLES:
                self._shapes.clear()
            rules = self.rules_of(schema.id)
            is_changed = rules is not None and any(rules.changes(column.name) for column in schema.columns)
            self._shapes[schema] = TableShape(rules, schema) if rules is not None and is_changed else None
        return self._shapes[schema]

    def _definition(self, schema: TableSchema) -> TableSchema:
        shape = self._shape_of(schema)
        return schema if shape is None else shape.schema

    def _bootstrap(self, event: Bootstrap) -> Bootstrap:
        """Return a definition as the target has it; a changed one has no other description."""
        shape = self._shape_of(event.schema)
        if shape is None:
            return event
        return msgspec.structs.replace(event, schema=shape.schema, ddl=None, table_change=None)

    # ------------------------------------------------------------ statements

    def _statement(self, change: SchemaChange, losses: list[Loss]) -> Iterator[Event]:
        """Yield a statement as it is written, or what replaces it."""
        tables = {*tables_of(change), *(schema.id for schema in _definitions(change))}
        if not any(self.rules_of(table) for table in tables):
            yield change
            return
        shaped = msgspec.structs.replace(
            change,
            after=None if change.after is None else self._definition(change.after),
            definitions=tuple(map(self._definition, change.definitions)),
            known_before=tuple(map(self._definition, change.known_before)),
            table_changes=tuple(self._unchanged(change.table_changes)),
        )
        try:
            statements, text = self._rewritten(change, shaped)
        except (CannotRewrite, DdlNotUnderstood, LimitExceeded):
            losses.append(Loss.DDL_NOT_REWRITTEN)
        else:
            if text == change.ddl:
                yield shaped
                return
            if text:
                kinds = tuple(kind for statement in statements for kind in statement.kinds)
                of_text = tuple(statements) if len(statements) > 1 else ()
                yield msgspec.structs.replace(shaped, ddl=text, kinds=kinds, statements=of_text)
                return
            losses.append(Loss.COLUMNS_FILTERED)
        if self._needs_definitions:
            yield from shaped.definitions_after()

    def _unchanged(self, changes: Iterable[TableChange]) -> Iterator[TableChange]:
        """Yield the descriptions of tables without rules: for others, the target writes its own."""
        for change in changes:
            if self.rules_of(change.table) is None:
                yield change

    def _rewritten(self, change: SchemaChange, shaped: SchemaChange) -> tuple[list[StatementInText], str]:
        """Return the statements that remain of a text, and their text; "" if none remains.

        Raises CannotRewrite, DdlNotUnderstood, LimitExceeded.
        """
        if not change.kinds:
            raise CannotRewrite
        located = locate_statements(change.ddl)
        if len(located) > 1:
            self._check_apart(located, change)
        kept: list[StatementInText] = []
        texts: list[str] = []
        for each, effect in zip(located, change.each_statement(), strict=False):
            text = self._one(each, change, shaped)
            if text == change.ddl[each.start : each.end]:
                kept.append(effect)
                texts.append(text)
            elif text:
                kinds = tuple(kind for found in locate_statements(text) for kind in kinds_of(found.statement))
                kept.append(StatementInText(kinds, effect.targets))
                texts.append(text)
        if len(texts) == len(located) and all(
            text == change.ddl[each.start : each.end] for text, each in zip(texts, located, strict=True)
        ):
            return kept, change.ddl
        return kept, "; ".join(texts)

    def _check_apart(self, located: Sequence[Located], change: SchemaChange) -> None:
        """Raise CannotRewrite if several statements are about one table with rules.

        The definitions between them are unknown.
        """
        seen: set[TableId] = set()
        for each in located:
            if isinstance(each.statement, AlterTable | CreateTable):
                table = _table_id(each.statement.table, change)
                if table in seen and self.rules_of(table) is not None:
                    raise CannotRewrite
                seen.add(table)

    def _one(self, located: Located, change: SchemaChange, shaped: SchemaChange) -> str:
        """Return the text of one statement; "" if nothing of it remains. Raises CannotRewrite."""
        statement, verbatim = located.statement, change.ddl[located.start : located.end]
        match statement:
            case AlterTable(name) | CreateTable(name):
                table = _table_id(name, change)
                rules = self.rules_of(table)
                self._check_renames(located, table, change)
                return verbatim if rules is None else self._of_table(located, table, rules, change, shaped)
            case CreateTableLike(name, like):
                self._check_same(_table_id(name, change), _table_id(like, change))
            case CreateTableAs(name) if self.rules_of(_table_id(name, change)) is not None:
                raise CannotRewrite
            case RenameTables():
                for pair in change.renamed:
                    self._check_same(pair.old, pair.new)
            case OtherStatement():
                self._check_mentions(located, change)
        return verbatim

    def _of_table(
        self,
        located: Located,
        table: TableId,
        rules: TableRules,
        change: SchemaChange,
        shaped: SchemaChange,
    ) -> str:
        """Return the text of ALTER TABLE, CREATE TABLE, CREATE INDEX or DROP INDEX of a table with rules."""
        new_name = next((pair.new for pair in change.renamed if pair.old == table), table)
        before, after = _named(change.known_before, table), _named(_definitions(change), new_name)
        known = Definitions(before, after, _named(_definitions(shaped), new_name))
        rewriter = StatementRewriter(change.ddl, located, rules, known)
        if isinstance(located.statement, CreateTable):
            return rewriter.create(table)
        if not isinstance(located.statement, AlterTable):
            raise CannotRewrite
        if not located.items:
            return rewriter.index(*located.statement.changes)
        text = rewriter.alter(table)
        if text and before is not None and known.shaped is not None:
            _check_result(text, self._definition(before), known.shaped)
        return text

    def _check_renames(self, located: Located, table: TableId, change: SchemaChange) -> None:
        statement = located.statement
        if isinstance(statement, AlterTable):
            for renamed in statement.changes:
                if isinstance(renamed, RenameTo):
                    self._check_same(table, _table_id(renamed.new, change))

    def _check_same(self, one: TableId, other: TableId) -> None:
        """Raise CannotRewrite if the rules of two tables differ: the target's tables then do, too."""
        found = [self.rules_of(table) for table in (one, other)]
        if len({() if rules is None else rules.rules for rules in found}) > 1:
            raise CannotRewrite

    def _check_mentions(self, located: Located, change: SchemaChange) -> None:
        """Raise CannotRewrite if a statement without columns of its own names a column of a rule."""
        for schema in (*change.known_before, *_definitions(change)):
            rules = self.rules_of(schema.id)
            names = {column.name.lower() for column in schema.columns}
            for token in located.tokens if rules is not None else ():
                is_name = token.kind in {"word", "name"} and token.text.lower() in names
                if rules is not None and is_name and rules.changes(token.text):
                    raise CannotRewrite


#: Maximum number of cached tables and definitions; active ones are soon cached again.
_MOST_TABLES: Final = 10_000


def _check_result(text: str, before: TableSchema, after: TableSchema) -> None:
    """Raise CannotRewrite if a statement does not give the target's table the columns that it must have."""
    statement = locate_statements(text)[0].statement
    found = alter_table(before, statement.changes) if isinstance(statement, AlterTable) else None
    if found is None or [column.name for column in found.columns] != [
        column.name for column in after.columns
    ]:
        raise CannotRewrite


def _definitions(change: SchemaChange) -> tuple[TableSchema, ...]:
    """Return the known definitions after a statement."""
    return change.definitions if change.after is None else (change.after, *change.definitions)


def _named(schemas: Iterable[TableSchema], table: TableId) -> TableSchema | None:
    return next((schema for schema in schemas if schema.id == table), None)


def _table_id(name: TableName, change: SchemaChange) -> TableId:
    """Return the full name of a table in a statement."""
    for table in (*tables_of(change), *(schema.id for schema in change.known_before)):
        is_same = table.table.lower() == name.table.lower()
        if is_same and (name.database is None or name.database.lower() == table.database.lower()):
            return table
    return name.within(change.table.database)
