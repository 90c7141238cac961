"""Decides which statements about shards are written, and refuses those that diverge."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from typing import Final, NamedTuple

from relay.catalog import Catalog
from relay.codecs.losses import Loss, removing_kind
from relay.model.errors import NotRepresentable
from relay.model.events import DdlKind, Position, SchemaChange, TableId
from relay.model.records import ConsumerRecord
from relay.model.table_globs import tables_of
from relay.rules.tables.merging import DIVERGED, ShardProgress, Shards, latest, progress, versions_of
from relay.rules.tables.rules import MergedDdl, ParsedTableRule


class StatementContext(NamedTuple):
    """The record of a statement, and the catalog of all definitions, which may have later ones.

    `record`: None for rows, which need none.
    """

    catalog: Catalog
    record: ConsumerRecord | None


class MergedTable(NamedTuple):
    """A table of the target, and its known shards."""

    name: TableId
    shards: Shards


class MergedStatements:
    """Statements about the shards of merged tables.

    target: The name of the target's protocol, for errors.
    merging_rule: Returns the rule that merges a table; None if none does.
    by_name: Returns tables by their names in the target.
    """

    def __init__(
        self,
        target: str,
        merging_rule: Callable[[TableId], ParsedTableRule | None],
        by_name: Callable[[Iterable[TableId]], Mapping[TableId, Sequence[TableId]]],
    ) -> None:
        self._protocol, self._merging_rule, self._by_name = target, merging_rule, by_name

    def tables(self, catalog: Catalog) -> Iterator[MergedTable]:
        """Yield the tables that existing tables are merged into."""
        for name, tables in self._shards(catalog).items():
            shards = latest(
                name, self._ddl_of(tables), {table: versions_of(catalog, table) for table in tables}
            )
            if shards.reached:
                yield MergedTable(name, shards)

    def _shards(self, catalog: Catalog) -> dict[TableId, list[TableId]]:
        """Return all shards in a catalog, also dropped ones, by the names of their merged tables."""
        found: dict[TableId, list[TableId]] = {}
        for name, tables in self._by_name(_all_tables(catalog)).items():
            shards = [table for table in tables if self._merging_rule(table) is not None]
            if shards:
                found[name] = shards
        return found

    def _ddl_of(self, shards: Sequence[TableId]) -> MergedDdl:
        """Return when statements about shards of one table are written."""
        return next((rule.rule.ddl for rule in map(self._merging_rule, shards) if rule), MergedDdl.ALL)

    def losses(self, change: SchemaChange, context: StatementContext) -> list[Loss]:
        """Return the losses of a statement about shards that is not written; none for other statements.

        Raises NotRepresentable if the definition of a shard after it is none of the merged table's.
        """
        shards = [table for table in tables_of(change) if table.table and self._merging_rule(table)]
        if not shards:
            return []
        if context.record is None:
            message = "a statement is applied without its record"
            raise AssertionError(message)
        at = change.source.at(context.record)
        found = [
            self._progress(name, own, at, context.catalog) for name, own in self._by_name(shards).items()
        ]
        is_alone = len(found) == 1 and len(shards) == len(tables_of(change)) and not change.statements
        loss = _loss_of(change, found[0]) if is_alone else Loss.DDL_NOT_REWRITTEN
        if loss is None:
            return []
        lost = [Loss.TRUNCATE_OR_DROP if removing_kind(change.kinds) is not None else loss]
        return [*lost, *(Loss.DDL_NOT_REWRITTEN for each in found if each.completes_others)]

    def _progress(
        self, name: TableId, shards: Sequence[TableId], at: Position, catalog: Catalog
    ) -> ShardProgress:
        """Return the progress of a merged table by a statement. Raises NotRepresentable if it diverges."""
        tables = self._shards(catalog).get(name, ())
        histories = {table: versions_of(catalog, table) for table in tables}
        found = progress(name, self._ddl_of(shards), histories, at, shards)
        reached = found.after.reached
        for table in sorted(found.changed):
            if reached.get(table) == DIVERGED:
                others = _listed([other for other in sorted(reached) if other != table])
                reason = (
                    f"table {table} is merged into {name}, but its definition after this statement is none "
                    f"that other shards have had since its previous one: {others}"
                )
                raise NotRepresentable(self._protocol, "", reason)
        return found


def _loss_of(change: SchemaChange, found: ShardProgress) -> Loss | None:
    """Return the loss of a statement about shards of one table; None if it is written.

    TRUNCATE is never written: the rows of other shards stay.
    """
    if change.renamed or not change.kinds or not _NEVER_WRITTEN.isdisjoint(change.kinds):
        return Loss.DDL_NOT_REWRITTEN
    if DdlKind.DROP_TABLE in change.kinds:
        return None if found.before.reached and not found.after.reached else Loss.TRUNCATE_OR_DROP
    if not found.has_steps and DdlKind.CREATE_TABLE not in change.kinds:
        return Loss.DDL_NOT_REWRITTEN
    return None if found.is_due and removing_kind(change.kinds) is None else Loss.DDL_MERGED


#: Kinds of statements that are about one shard alone.
_NEVER_WRITTEN: Final = frozenset({DdlKind.CREATE_VIEW, DdlKind.DROP_VIEW, DdlKind.RECOVER_TABLE})


def _all_tables(catalog: Catalog) -> Iterator[TableId]:
    """Yield all tables of a catalog, also dropped ones."""
    for database, tables in catalog.histories.items():
        yield from (TableId(database, name) for name in tables if name)


def _listed(tables: Sequence[TableId]) -> str:
    """Return the first names of tables as text."""
    more = f" and {len(tables) - _MOST_NAMES} more" if len(tables) > _MOST_NAMES else ""
    return ", ".join(map(str, tables[:_MOST_NAMES])) + more


#: Maximum number of shards that an error names.
_MOST_NAMES: Final = 4
