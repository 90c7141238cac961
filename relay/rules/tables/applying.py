"""Applies table rules to events that are ready to be routed."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Callable, Collection, Iterable, Iterator, Sequence
from contextlib import suppress
from functools import partial
from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.model.errors import DdlNotUnderstood, LimitExceeded, NotRepresentable
from relay.model.events import (
    Bootstrap,
    DdlKind,
    Event,
    RenamedTable,
    RowChange,
    SchemaChange,
    TableChange,
    TableId,
    TableSchema,
    TransactionMark,
)
from relay.model.limits import MYSQL_NAME
from relay.model.persistent_dict import PersistentDict
from relay.model.table_globs import tables_of
from relay.mysql.ddl.statements import CreateDatabase, DropDatabase, Statement
from relay.mysql.ddl.tokens import tokenize
from relay.mysql.types import quoted_table
from relay.rules.rewriting import CannotRewrite
from relay.rules.tables.added_columns import AddedValues, Extended, extended, with_added_columns
from relay.rules.tables.merged_statements import MergedStatements, MergedTable, StatementContext
from relay.rules.tables.rules import ParsedTableRule
from relay.rules.tables.statements import Mention, Surroundings, may_name, rewritten

#: The table of the source that each name of the target belongs to, by the name; `_NONE`: free. A value.
TakenNames = PersistentDict[TableId]
NO_TABLES: Final = TakenNames()
_NONE: Final = TableId("", "")


#: A table, and a function that frees its name or takes it.
_Step = tuple[TableId, Callable[[TableId, TakenNames], TakenNames]]


def names_after_restore(earlier: TakenNames, taken: TakenNames, created: Collection[TableId]) -> TakenNames:
    """Return the names that are taken after the return to an earlier state: those of that state, and others
    that tables have taken since, except those of tables that were `created` since.
    """
    for name in earlier.differing(taken):
        owner = earlier.get(name, _NONE)
        if owner is not _NONE or taken.get(name, _NONE) in created:
            taken = taken.with_one(name, owner)
    return taken


class Renamed(NamedTuple):
    """Events with the target's names of tables.

    written: These events. original: The event with the source's names for each of them. taken: The names
    that are taken after them.
    """

    written: list[Event]
    original: list[Event]
    taken: TakenNames


class _Target(NamedTuple):
    """A table's name in the target, and the rule that gives it, if any."""

    name: TableId
    rule: ParsedTableRule | None = None


class TableNames:
    """The table rules of a route.

    target: The name of the target's protocol, for errors.
    needs_definitions: Whether the target's rows need definitions: a statement that is not written is then
        replaced with the definitions after it.
    selects: Returns whether a table of the source is selected.

    Only caches change after construction.
    """

    def __init__(
        self,
        rules: Sequence[ParsedTableRule],
        target: str,
        *,
        needs_definitions: bool,
        selects: Callable[[TableId], bool],
    ) -> None:
        self._rules, self._protocol, self._needs_definitions = tuple(rules), target, needs_definitions
        self._selects = selects
        self._merged = MergedStatements(target, self._merging, self._by_name)
        self._targets: dict[TableId, _Target] = {}
        self._sources: dict[TableId, TableId] = {}
        self._schemas: dict[TableSchema, TableSchema | Extended] = {}
        # The latest row's table, and the names that were taken then.
        self._latest: tuple[TableSchema | None, TakenNames] = (None, NO_TABLES)

    def target_of(self, table: TableId) -> TableId:
        """Return a table's name in the target. Raises NotRepresentable for one that MySQL does not allow."""
        return self._target(table).name

    def _target(self, table: TableId) -> _Target:
        found = self._targets.get(table)
        if found is None:
            if len(self._targets) >= _MOST_TABLES:
                self._targets.clear()
            found = self._targets[table] = self._new_target(table)
        return found

    def _merging(self, table: TableId) -> ParsedTableRule | None:
        """Return the rule that merges a table with others; None if its table in the target is its own."""
        rule = self._target(table).rule
        return rule if rule is not None and rule.rule.merge else None

    def merges(self, table: TableId) -> bool:
        """Return whether a rule merges a table with others."""
        return self._merging(table) is not None

    def source_of(self, table: TableId) -> TableId:
        """Return the name in the source of a table that was in the latest events."""
        return self._sources.get(table, table)

    def _new_target(self, table: TableId) -> _Target:
        if not table.table:
            return _Target(TableId(self._database_of(table.database), ""))
        for rule in self._rules:
            found = rule.target_of(table)
            if found is None:
                continue
            if not all(0 < len(name) <= MYSQL_NAME for name in (found.database, found.table)):
                reason = (
                    f"the name of table {table} would be {found}: each part of a name has 1 to "
                    f"{MYSQL_NAME} characters"
                )
                raise NotRepresentable(self._protocol, "", reason)
            return _Target(found, rule)
        return _Target(table)

    def schema(self, schema: TableSchema) -> TableSchema:
        """Return a definition with its name and its columns in the target. Raises NotRepresentable."""
        found = self._written(schema)
        return found.schema if isinstance(found, Extended) else found

    def _written(self, schema: TableSchema) -> TableSchema | Extended:
        found = self._schemas.get(schema)
        if found is None:
            if len(self._schemas) >= _MOST_TABLES:
                self._schemas.clear()
            name = self.target_of(schema.id)
            found = schema if name == schema.id else msgspec.structs.replace(schema, id=name)
            added = self._added_to(schema.id)
            if added and not schema.is_view:
                found = extended(schema, name, added, self._protocol)
            self._schemas[schema] = found
        return found

    def _added_to(self, table: TableId) -> AddedValues:
        """Return the columns that a rule adds to a table, with their values."""
        rule = self._merging(table)
        return () if rule is None else rule.added_to(table)

    def row(self, change: RowChange) -> RowChange:
        """Return a change of a row with the table's name and columns in the target."""
        found = self._written(change.schema)
        if found is change.schema:
            return change
        if isinstance(found, Extended):
            images = change.images.projected(found.projection)
            return msgspec.structs.replace(change, schema=found.schema, images=images)
        return msgspec.structs.replace(change, schema=found, images=change.images.of_table(found))

    def apply(
        self,
        events: list[Event],
        taken: TakenNames,
        losses: list[Loss],
        context: StatementContext,
    ) -> Renamed:
        """Return the events as they are written.

        Raises NotRepresentable if two tables have the same name in the target, and for a statement after
        which a shard's definition differs from those of the table that it is merged into.
        """
        written: list[Event] = []
        original: list[Event] = []
        if len(self._sources) >= _MOST_TABLES:
            self._sources.clear()
        for event in events:
            if isinstance(event, RowChange):
                if self._latest[0] is not event.schema or self._latest[1] is not taken:
                    taken = self._take(event.schema.id, taken)
                    self._latest = event.schema, taken
                written.append(self.row(event))
            elif isinstance(event, SchemaChange):
                taken = self._after_statement(event, taken)
                found = list(self._statement(event, taken, losses, context))
                written += found
                original += [event if isinstance(each, SchemaChange) else each for each in found]
                continue
            elif isinstance(event, Bootstrap):
                taken = self._take(event.schema.id, taken)
                written.append(self._bootstrap(event))
            elif isinstance(event, TransactionMark):
                written.append(self._mark(event))
            else:
                written.append(event)
            original.append(event)
        return Renamed(written, original, taken)

    def _mark(self, event: TransactionMark) -> TransactionMark:
        if not event.table_counts:
            return event
        counts: dict[TableId, int] = {}
        for table, count in event.table_counts:
            name = self.target_of(table)
            counts[name] = counts.get(name, 0) + count
        return msgspec.structs.replace(event, table_counts=tuple(counts.items()))

    # ------------------------------------------------------------ conflicts

    def learned(self, events: Iterable[Event], taken: TakenNames) -> TakenNames:
        """Return the names that are taken after a record that was not translated, such as a schema history's.

        The first table of several keeps the name.
        """
        for event in events:
            if isinstance(event, SchemaChange):
                steps = self._steps(event, taken)
            else:
                steps = [(table, self._take) for table in _tables_with_rows(event)]
            for table, step in steps:
                with suppress(NotRepresentable):
                    taken = step(table, taken)
        return taken

    def defined(self, table: TableId, taken: TakenNames) -> TakenNames:
        """Return the names that are taken after a table has been defined outside of the stream."""
        with suppress(NotRepresentable):
            return self._take(table, taken)
        return taken

    def conflicts(self, tables: Iterable[TableId]) -> list[tuple[TableId, list[TableId]]]:
        """Return the names of the target that several of the tables have, each with these tables.

        Names that rules merge tables into are none.
        """
        return [
            (name, sources)
            for name, sources in self._by_name(tables).items()
            if not all(self._may_share(sources[0], other) for other in sources[1:])
        ]

    def _by_name(self, tables: Iterable[TableId]) -> dict[TableId, list[TableId]]:
        """Return the selected ones of these tables by their names in the target, sorted."""
        found: defaultdict[TableId, list[TableId]] = defaultdict(list)
        for table in tables:
            with suppress(NotRepresentable):
                if self._selects(table):
                    found[self.target_of(table)].append(table)
        return {name: sorted(sources) for name, sources in sorted(found.items())}

    def _may_share(self, one: TableId, other: TableId) -> bool:
        """Return whether two tables may have the same name in the target."""
        rule, another = self._merging(one), self._merging(other)
        return rule is not None and another is not None and rule.merges_like(another)

    def _take(self, table: TableId, taken: TakenNames) -> TakenNames:
        """Return the taken names with a table's. Raises NotRepresentable if it is another table's."""
        name = self.target_of(table)
        self._sources[name] = table
        if not table.table or not self._selects(table):
            return taken
        owner = self._owner(name, table, taken)
        return taken if owner is not None else taken.with_one(_key(name), table)

    def _owner(self, name: TableId, table: TableId, taken: TakenNames) -> TableId | None:
        """Return the table that has a name: `table`, one that it is merged with, or None.

        Raises NotRepresentable for another one.
        """
        owner = taken.get(_key(name), _NONE)
        if owner is _NONE:
            return None
        if owner != table and not self._may_share(owner, table):
            reason = f"table {table} would have the name {name}, which is that of table {owner}"
            raise NotRepresentable(self._protocol, "", reason)
        return owner

    def _free(self, table: TableId, taken: TakenNames) -> TakenNames:
        """Return the taken names without a table's. Raises NotRepresentable if it is another table's."""
        name = self.target_of(table)
        self._sources[name] = table
        if not self._selects(table) or self._owner(name, table, taken) is None:
            return taken
        if self._merging(table) is not None:  # other shards may exist
            return taken
        return taken.with_one(_key(name), _NONE)

    def _after_statement(self, change: SchemaChange, taken: TakenNames) -> TakenNames:
        """Return the taken names after a statement. Raises NotRepresentable if it is about another's name."""
        for table, step in self._steps(change, taken):
            taken = step(table, taken)
        return taken

    def _steps(self, change: SchemaChange, taken: TakenNames) -> list[_Step]:
        """Return how a statement frees and takes names, in order.

        A rename does so pair by pair, because a later one may have the name that an earlier one frees.
        """
        dropped: set[TableId] = set()
        for each in change.each_statement():
            if not _DROPS.isdisjoint(each.kinds):
                dropped.update(each.targets)
            elif DdlKind.DROP_DATABASE in each.kinds:
                databases = {table.database for table in each.targets}
                dropped.update(table for table in taken.values() if table.database in databases)
        moved = {table for pair in change.renamed for table in (pair.old, pair.new)}
        remaining = set(tables_of(change)) - dropped - moved
        steps: list[_Step] = [(table, self._free) for table in sorted(dropped - moved)]
        for pair in change.renamed:
            steps += ((pair.old, self._free), (pair.new, self._take))
            remaining = (remaining - {pair.old}) | {pair.new}
        return [*steps, *[(table, self._take) for table in sorted(remaining)]]

    def merged_tables(self, catalog: Catalog) -> list[MergedTable]:
        """Return the tables of the target that existing tables are merged into, with their shards."""
        return list(self._merged.tables(catalog))

    # ------------------------------------------------------------ definitions and statements

    def _bootstrap(self, event: Bootstrap) -> Bootstrap:
        """Return a definition with its name in the target; a renamed one has no other description."""
        schema = self.schema(event.schema)
        if schema is event.schema:
            return event
        ddl = None if self._added_to(event.schema.id) else event.ddl
        if ddl is not None:
            try:
                ddl = rewritten(ddl, self._surroundings((event.schema.id,), event.schema.id, ()))
            except _NOT_WRITTEN:
                ddl = None
        return msgspec.structs.replace(event, schema=schema, ddl=ddl, table_change=None)

    def _statement(
        self, change: SchemaChange, taken: TakenNames, losses: list[Loss], context: StatementContext
    ) -> Iterator[Event]:
        """Yield a statement as it is written, or the definitions that replace it.

        `taken`: the names that are taken after it.
        """
        written = self._with_names(change)
        lost = self._merged.losses(change, context)
        if not lost:
            try:
                self._check_drop(change, taken, context.catalog)
                ddl = self._text(change, written)
            except _NOT_WRITTEN:
                lost = [Loss.DDL_NOT_REWRITTEN]
            else:
                yield msgspec.structs.replace(written, ddl=ddl)
                return
        losses += lost
        if self._needs_definitions:
            yield from written.definitions_after()

    def _with_names(self, change: SchemaChange) -> SchemaChange:
        """Return a statement with the target's names and definitions, and the source's text."""
        return msgspec.structs.replace(
            change,
            table=self.target_of(change.table),
            targets=tuple(dict.fromkeys(map(self.target_of, change.targets))),
            renamed=tuple(
                [RenamedTable(self.target_of(pair.old), self.target_of(pair.new)) for pair in change.renamed]
            ),
            after=None if change.after is None else self.schema(change.after),
            definitions=tuple(map(self.schema, change.definitions)),
            known_before=tuple(map(self.schema, change.known_before)),
            views=tuple(map(self.schema, change.views)),
            table_changes=self._described(change),
            statements=tuple(
                [
                    msgspec.structs.replace(each, targets=tuple(map(self.target_of, each.targets)))
                    for each in change.statements
                ]
            ),
        )

    def _check_drop(self, change: SchemaChange, taken: TakenNames, catalog: Catalog) -> None:
        """Raise CannotRewrite if a statement drops a database that has tables of other ones in the target.

        Names are also taken by rows without a definition. Tasks of the Spark job see only the catalog.
        """
        sources = {
            table.database
            for each in change.each_statement()
            if DdlKind.DROP_DATABASE in each.kinds
            for table in each.targets
        }
        if not sources:
            return
        dropped = {self._database_of(source) for source in sources}
        for table in (*taken.values(), *filter(self._selects, catalog.existing_tables())):
            if table is _NONE or table.database in sources:
                continue
            with suppress(NotRepresentable):
                if self.target_of(table).database in dropped:
                    raise CannotRewrite

    def _described(self, change: SchemaChange) -> tuple[TableChange, ...]:
        """Return the descriptions of tables in a message.

        They have only definitions if a table is renamed or gets columns. Each may contain the names of other
        tables, such as the old name of a renamed one.
        """
        tables = _all_tables(change)
        if all(self.target_of(table) == table and not self._added_to(table) for table in tables):
            return change.table_changes
        return tuple(
            [
                TableChange(
                    each.kind,
                    "",
                    self.target_of(each.table),
                    None if each.definition is None else self.schema(each.definition),
                    b"",
                    "",
                )
                for each in change.table_changes
            ]
        )

    def _text(self, change: SchemaChange, written: SchemaChange) -> str:
        """Return a statement's text. Raises one of `_NOT_WRITTEN`."""
        if DdlKind.DROP_TABLE in change.kinds and self._merging(change.table) is not None:
            return f"DROP TABLE IF EXISTS {quoted_table(written.table)}"
        tables = _all_tables(change)
        around = self._surroundings(tables, change.table, change.renamed)
        if change.kinds:
            try:
                return self._with_added_columns(rewritten(change.ddl, around), change, written)
            except _NOT_WRITTEN:
                if not change.table.table or any(map(self._merging, tables)):
                    raise
        if any(self.target_of(table) != table for table in tables) or self._may_name(change.ddl, around):
            raise CannotRewrite
        return change.ddl

    def _with_added_columns(self, text: str, change: SchemaChange, written: SchemaChange) -> str:
        """Return a statement's text with the columns that a rule adds. Raises one of `_NOT_WRITTEN`."""
        added = [name for name, _ in self._added_to(change.table)]
        if not added:
            return text
        before = next((each for each in written.known_before if each.id == written.table), None)
        return with_added_columns(text, added, before, written.after)

    def _surroundings(
        self, tables: Iterable[TableId], subject: TableId, renamed: Sequence[RenamedTable]
    ) -> Surroundings:
        named: defaultdict[tuple[str | None, str], list[TableId]] = defaultdict(list)
        for table in dict.fromkeys(tables):
            if table.table:
                name = table.table.lower()
                named[table.database.lower(), name].append(table)
                named[None, name].append(table)
        written = self.target_of(subject).database
        mention = partial(self._mention, subject)
        return Surroundings(named, subject, written, renamed, self.target_of, self._database_in, mention)

    def _mention(self, subject: TableId, table: TableId) -> Mention:
        """Return which statements about `subject` may name a table in other parts, as in foreign keys."""
        rule = self._merging(table)
        if rule is None or self.target_of(subject) == self.target_of(table):
            return Mention.ALLOWED
        return Mention.REFUSED if rule.rule.add else Mention.AS_REFERENCE

    @staticmethod
    def _may_name(ddl: str, around: Surroundings) -> bool:
        """Return whether a text may name a renamed table, in each of the two ways to read it."""
        try:
            readings = [tokenize(ddl, backslash_escapes=True)]
            with suppress(DdlNotUnderstood):
                readings += [tokenize(ddl, backslash_escapes=False)] if "\\" in ddl else []
            return any(may_name(tokens, ddl, around) for tokens in readings)
        except (DdlNotUnderstood, NotRepresentable):
            return True

    def _database_of(self, database: str) -> str:
        """Return the name of a database in the target, if the rules rename it as a whole, or else its own."""
        rule = next((rule for rule in self._rules if rule.of_database.fullmatch(database)), None)
        return database if rule is None or rule.whole_database is None else rule.database

    def _database_in(self, database: str, statement: type[Statement]) -> str:
        """Return the name of a database in a statement about it. Raises CannotRewrite.

        A database of which only some tables are renamed exists in the target, too.
        """
        rule = next((rule for rule in self._rules if rule.of_database.fullmatch(database)), None)
        if rule is not None and rule.whole_database is None:
            if statement is CreateDatabase:
                return database
            raise CannotRewrite
        name = database if rule is None else rule.database
        has_others = any(other is not rule and other.database == name for other in self._rules)
        if statement is DropDatabase and has_others:
            raise CannotRewrite
        return name


def _all_tables(change: SchemaChange) -> list[TableId]:
    """Return the tables that a statement is known to be about."""
    known = (*change.known_before, *change.known_after, *change.views)
    described = [each.table for each in change.table_changes]
    return [*tables_of(change), *[schema.id for schema in known], *described]


def _tables_with_rows(event: Event) -> list[TableId]:
    """Return the table of a row or of a definition."""
    return [event.schema.id] if isinstance(event, RowChange | Bootstrap) else []


#: Maximum number of cached tables and definitions; active ones are soon cached again.
_MOST_TABLES: Final = 10_000
_DROPS: Final = frozenset({DdlKind.DROP_TABLE, DdlKind.DROP_VIEW})
#: Errors about a statement that relay cannot rewrite.
_NOT_WRITTEN: Final = (CannotRewrite, DdlNotUnderstood, LimitExceeded, NotRepresentable)


def _key(name: TableId) -> str:
    return f"{name.database}\0{name.table}"
