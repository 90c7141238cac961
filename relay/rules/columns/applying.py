"""Applies column rules to decoded events, before they are routed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Final

import msgspec

from relay.codecs.losses import Loss
from relay.model.errors import DdlNotUnderstood, LimitExceeded, NotRepresentable
from relay.model.events import (
    Bootstrap,
    DdlKind,
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
    OtherChange,
    OtherStatement,
    PartitionToTable,
    RenameTables,
    RenameTo,
    TableName,
    TableToPartition,
)
from relay.rules.columns.ddl_text import StatementRewriter, TableVersions, referenced_tables
from relay.rules.columns.hidden_columns import HiddenColumns
from relay.rules.columns.projections import TableProjection, TableRules
from relay.rules.columns.replacements import HashKey
from relay.rules.columns.rules import ParsedColumnRule, hides_values
from relay.rules.rewriting import CannotRewrite, folded, has_literals, is_name, why


class ColumnRules:
    """The column rules of a route.

    hash_key: The secret of the action HASH.
    target: The name of the target's protocol, for errors.
    needs_definitions: Whether the target's rows need definitions: a statement that is not written is then
        replaced with the definitions after it.
    """

    def __init__(
        self,
        rules: Sequence[ParsedColumnRule],
        hash_key: bytes,
        target: str,
        *,
        needs_definitions: bool = False,
    ) -> None:
        self._rules, self._hash_key, self._target = tuple(rules), HashKey(hash_key), target
        self._needs_definitions = needs_definitions
        self._tables: dict[TableId, TableRules | None] = {}
        self._projections: dict[TableSchema, TableProjection | None] = {}
        # The tables of the last statement, by name in lower case.
        self._named: tuple[SchemaChange | None, Mapping[str, Sequence[TableId]]] = None, {}
        #: Whether values of some columns do not reach the target.
        self.hides_values = hides_values(parsed.rule for parsed in rules)
        #: What removes these values from stored statements; None if there are none.
        self.redaction = HiddenColumns(self._rules) if self.hides_values else None

    def apply(self, events: list[Event]) -> tuple[list[Event], list[Loss]]:
        """Return the events as they are written, and the losses to count.

        Raises NotRepresentable for a rule that cannot be applied, DecodeError for a malformed value.
        """
        losses: list[Loss] = []
        written: list[Event] = []
        for event in events:
            if isinstance(event, RowChange):
                written.append(self._row(event, losses))
            elif isinstance(event, SchemaChange):
                written += self._statement(event, losses)
            elif isinstance(event, Bootstrap):
                written.append(self._bootstrap(event))
            else:
                written.append(event)
        return written, losses

    def written(self, schema: TableSchema) -> TableSchema | None:
        """Return a definition as the target has it; None if rules cannot be applied to it."""
        try:
            return self._definition(schema)
        except NotRepresentable:
            return None

    def _row(self, change: RowChange, losses: list[Loss]) -> RowChange:
        if self.hides_values and change.source.query is not None:
            # The statement of a row may have values of other tables.
            losses.append(Loss.QUERY)
            source = msgspec.structs.replace(change.source, query=None)
            change = msgspec.structs.replace(change, source=source)
        projection = self._projection_of(change.schema)
        return change if projection is None else projection.change(change, losses)

    def _rules_of(self, table: TableId) -> TableRules | None:
        """Return the rules of a table; None if it has none."""
        if table not in self._tables:
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            matching = [rule for rule in self._rules if rule.has_table(table)]
            self._tables[table] = TableRules(matching, self._target, self._hash_key) if matching else None
        return self._tables[table]

    def _projection_of(self, schema: TableSchema) -> TableProjection | None:
        """Return the rules for a definition; None if they change nothing. Raises NotRepresentable."""
        if schema not in self._projections:
            if len(self._projections) >= _MOST_TABLES:
                self._projections.clear()
            rules = self._rules_of(schema.id)
            is_changed = rules is not None and any(rules.changes(column.name) for column in schema.columns)
            found = TableProjection(rules, schema) if rules is not None and is_changed else None
            self._projections[schema] = found
        return self._projections[schema]

    def _definition(self, schema: TableSchema) -> TableSchema:
        projection = self._projection_of(schema)
        return schema if projection is None else projection.schema

    def _bootstrap(self, event: Bootstrap) -> Bootstrap:
        """Return a definition as the target has it; a changed one has no other description."""
        projection = self._projection_of(event.schema)
        if projection is None:
            return event
        return msgspec.structs.replace(event, schema=projection.schema, ddl=None, table_change=None)

    # ------------------------------------------------------------ statements

    def _statement(self, change: SchemaChange, losses: list[Loss]) -> Iterator[Event]:
        """Yield a statement as it is written, or what replaces it."""
        described = (each.table for each in change.table_changes)
        tables = {*tables_of(change), *(schema.id for schema in change.known_after), *described}
        if not any(map(self._rules_of, tables)) and not self._may_name_others(change):
            yield change
            return
        written = self._with_definitions(change)
        try:
            statements, text = self._rewritten(change, written)
        except (CannotRewrite, DdlNotUnderstood, LimitExceeded):
            losses.append(Loss.DDL_NOT_REWRITTEN)
        else:
            if text == change.ddl:
                yield written
                return
            if text:
                kinds = tuple(kind for statement in statements for kind in statement.kinds)
                of_text = tuple(statements) if len(statements) > 1 else ()
                yield msgspec.structs.replace(written, ddl=text, kinds=kinds, statements=of_text)
                return
            losses.append(Loss.COLUMNS_FILTERED)
        if self._needs_definitions:
            yield from written.definitions_after()

    def _with_definitions(self, change: SchemaChange) -> SchemaChange:
        """Return a statement with the definitions of the target, and the text of the source."""
        return msgspec.structs.replace(
            change,
            after=None if change.after is None else self._definition(change.after),
            definitions=tuple(map(self._definition, change.definitions)),
            known_before=tuple(map(self._definition, change.known_before)),
            table_changes=tuple(self._unchanged(change.table_changes)),
        )

    def why_not_rewritten(self, events: Iterable[Event]) -> Iterator[str]:
        """Yield, for each statement that cannot be rewritten, why. Raises NotRepresentable."""
        for event in events:
            if not isinstance(event, SchemaChange):
                continue
            try:
                self._rewritten(event, self._with_definitions(event))
            except (CannotRewrite, DdlNotUnderstood, LimitExceeded) as error:
                yield why(error)

    def _may_name_others(self, change: SchemaChange) -> bool:
        """Return whether a statement may be about other tables than those that it affects, or show values.

        It may create a table from another one, refer to one with a foreign key, or contain any SQL (triggers,
        procedures, text that is not understood).
        """
        is_about_tables = bool(change.kinds) and _OF_TABLES.issuperset(change.kinds)
        if not is_about_tables:
            return self.hides_values
        if DdlKind.CREATE_TABLE in change.kinds:
            return True
        return "references" in change.ddl.lower()

    def _unchanged(self, changes: Iterable[TableChange]) -> Iterator[TableChange]:
        """Yield the descriptions of tables without rules: for others, the target writes its own."""
        for change in changes:
            if self._rules_of(change.table) is None:
                yield change

    def _rewritten(self, change: SchemaChange, written: SchemaChange) -> tuple[list[StatementInText], str]:
        """Return the statements that remain of a text, and their text; "" if none remains.

        Raises CannotRewrite, DdlNotUnderstood, LimitExceeded.
        """
        if not change.kinds:
            raise CannotRewrite("relay does not understand the statement")
        located, effects = _located(change.ddl), change.each_statement()
        if len(effects) != len(located):
            raise CannotRewrite("its text has other statements than its message")
        if len(located) > 1:
            self._check_apart(located, change)
        originals = [change.ddl[each.start : each.end] for each in located]
        texts = [self._one(each, change, written) for each in located]
        if texts == originals:
            return list(effects), change.ddl
        kept: list[StatementInText] = []
        for text, original, effect in zip(texts, originals, effects, strict=True):
            if text == original:
                kept.append(effect)
            elif text:
                kinds = tuple(kind for found in locate_statements(text) for kind in kinds_of(found.statement))
                kept.append(StatementInText(kinds, effect.targets))
        return kept, "; ".join([text for text in texts if text])

    def _check_apart(self, located: Sequence[Located], change: SchemaChange) -> None:
        """Raise CannotRewrite if several statements are about one table with rules.

        The definitions between them are unknown.
        """
        seen: set[TableId] = set()
        for each in located:
            if isinstance(each.statement, AlterTable | CreateTable):
                table = self._table_id(each.statement.table, change)
                if table in seen and self._rules_of(table) is not None:
                    raise CannotRewrite("its text has several statements about one table with rules")
                seen.add(table)

    def _one(self, located: Located, change: SchemaChange, written: SchemaChange) -> str:
        """Return the text of one statement; "" if nothing of it remains. Raises CannotRewrite."""
        statement, verbatim = located.statement, change.ddl[located.start : located.end]
        match statement:
            case AlterTable(name) | CreateTable(name):
                table = self._table_id(name, change)
                rules = self._rules_of(table)
                self._check_other_tables(located, table, change)
                for database, other in referenced_tables(located.tokens, change.ddl):
                    self._check_no_rules(database, other)
                return verbatim if rules is None else self._of_table(located, table, rules, change, written)
            case CreateTableLike(name, like):
                if self._rules_of(self._table_id(name, change)) is None:
                    self._check_no_rules(like.database, like.table)
                self._check_same(self._table_id(name, change), self._table_id(like, change))
            case CreateTableAs():
                raise CannotRewrite("its columns come from a query")
            case RenameTables():
                for pair in change.renamed:
                    self._check_same(pair.old, pair.new)
            case OtherStatement():
                if self.hides_values and has_literals(located.tokens, change.ddl):
                    raise CannotRewrite("it is about another object than a table, and has literals")
                self._check_mentions(located, change)
        return verbatim

    def _check_no_rules(self, database: str | None, name: str) -> None:
        """Raise CannotRewrite if a table with this name may have rules; None is an unknown database."""
        if any(parsed.may_have_table(database, name) for parsed in self._rules):
            raise CannotRewrite(f"it uses {name}, which may be a table with rules")

    def _table_id(self, name: TableName, change: SchemaChange) -> TableId:
        """Return the full name of a table in a statement."""
        if self._named[0] is not change:
            self._named = change, _by_name(change)
        for table in self._named[1].get(name.table.lower(), ()):
            if name.database is None or name.database.lower() == table.database.lower():
                return table
        return name.within(change.table.database)

    def _of_table(
        self,
        located: Located,
        table: TableId,
        rules: TableRules,
        change: SchemaChange,
        written: SchemaChange,
    ) -> str:
        """Return the text of ALTER TABLE, CREATE TABLE, CREATE INDEX or DROP INDEX of a table with rules."""
        new_name = next((pair.new for pair in change.renamed if pair.old == table), table)
        before, after = _named(change.known_before, table), _named(change.known_after, new_name)
        versions = TableVersions(before, after, _named(written.known_after, new_name))
        rewriter = StatementRewriter(change.ddl, located, rules, versions)
        if isinstance(located.statement, AlterTable) and not located.items:
            return rewriter.index(*located.statement.changes)
        text = rewriter.rewrite(table)
        if text and before is not None and versions.written is not None:
            _check_result(text, self._definition(before), versions.written)
        return text

    def _check_other_tables(self, located: Located, table: TableId, change: SchemaChange) -> None:
        """Raise CannotRewrite if a statement gives columns to a table with other rules."""
        statement = located.statement
        for each in statement.changes if isinstance(statement, AlterTable) else ():
            other: TableName | None = None
            match each:
                case RenameTo(new) | PartitionToTable(new):
                    other = new
                case TableToPartition(old):
                    other = old
                case OtherChange(_, second):
                    other = second
            if other is not None:
                self._check_same(table, self._table_id(other, change))

    def _check_same(self, one: TableId, other: TableId) -> None:
        """Raise CannotRewrite if the rules of two tables differ: the target's tables then do, too."""
        found = [self._rules_of(table) for table in (one, other)]
        if len({() if rules is None else rules.rules for rules in found}) > 1:
            raise CannotRewrite(f"{one} and {other} have other rules")

    def _check_mentions(self, located: Located, change: SchemaChange) -> None:
        """Raise CannotRewrite if a statement without columns of its own names a column of a rule."""
        known = {schema.id: schema for schema in (*change.known_before, *change.known_after)}
        for table in {*tables_of(change), *known}:
            rules = self._rules_of(table)
            if rules is None:
                continue
            columns = known[table].columns if table in known else None
            names = None if columns is None else {folded(column.name) for column in columns}
            for token in located.tokens:
                is_column = is_name(token, change.ddl) and (names is None or folded(token.text) in names)
                if is_column and rules.changes(token.text):
                    raise CannotRewrite("it names a column of a rule")


#: Maximum number of cached tables and definitions; active ones are soon cached again.
_MOST_TABLES: Final = 2_000


#: Kinds of statements that contain no SQL about other tables, except for foreign keys and copies.
_OF_TABLES: Final = frozenset(DdlKind) - {
    *(DdlKind.CREATE_VIEW, DdlKind.SEQUENCE, DdlKind.ADMINISTRATION, DdlKind.OTHER),
}


def _located(ddl: str) -> list[Located]:
    """Locate the statements of a text. Raises CannotRewrite if it can be read in two ways."""
    found = locate_statements(ddl)
    if "\\" in ddl:
        try:
            other = locate_statements(ddl, backslash_escapes=False)
        except DdlNotUnderstood:
            return found
        if [each.statement for each in other] != [each.statement for each in found]:
            raise CannotRewrite("its text can be read in two ways")
    return found


def _check_result(text: str, before: TableSchema, after: TableSchema) -> None:
    """Raise CannotRewrite if a statement does not give the target's table the columns that it must have."""
    statement = locate_statements(text)[0].statement
    found = alter_table(before, statement.changes) if isinstance(statement, AlterTable) else None
    if found is None or _outline(found) != _outline(after):
        raise CannotRewrite("the result would have other columns or keys than the rows")


def _outline(schema: TableSchema) -> tuple[object, ...]:
    """Return the columns and keys of a definition, without letter case."""
    keys = [(is_unique, tuple(map(folded, key.columns))) for key, is_unique in schema.ordered_keys()]
    primary = tuple(map(folded, schema.primary_key or ()))
    return [folded(column.name) for column in schema.columns], primary, sorted(keys)


def _named(schemas: Iterable[TableSchema], table: TableId) -> TableSchema | None:
    return next((schema for schema in schemas if schema.id == table), None)


def _by_name(change: SchemaChange) -> Mapping[str, Sequence[TableId]]:
    """Return the tables of a statement, by name in lower case."""
    found: defaultdict[str, list[TableId]] = defaultdict(list)
    for table in (*tables_of(change), *(schema.id for schema in change.known_before)):
        found[table.table.lower()].append(table)
    return found
