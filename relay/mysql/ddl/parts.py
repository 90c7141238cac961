"""Splits statements about several tables.

A DROP or RENAME of several tables can be split into parts; each keeps all information about its own tables
and none about the others. Any other statement is indivisible, and so is a text that does not begin like its
kind, is not understood, or contains several statements.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterable, Sequence
from typing import Final

import msgspec

from relay.model.events import DdlKind, RenamedTable, SchemaChange, TableId
from relay.mysql.ddl.drops import drop_keywords, rename_keywords
from relay.mysql.types import quoted_table

_DROPS: Final = frozenset({DdlKind.DROP_TABLE, DdlKind.DROP_VIEW})


def parts(change: SchemaChange, groups: Iterable[Collection[TableId]]) -> list[SchemaChange]:
    """Return, for each group of tables, the part of the statement about them; nothing if it is indivisible.

    The time is linear in the number of tables and pairs.
    """
    groups = list(groups)
    if renames_alone(change) and len(change.renamed) > 1:
        return _renames(change, groups)
    words = keywords_of_drops(change)
    if words is None:
        return []
    members, found = _Members(change), []
    for group in groups:
        tables = list(group)
        found.append(members.part(f"{words} {', '.join(map(quoted_table, tables))}", tables, tables))
    return found


def only_kind(change: SchemaChange) -> DdlKind | None:
    """Return the kind of a statement with a single effect, which a target can rewrite from kind and tables.

    None if the text has other effects, or if it is not understood, so that only its message gives a kind.
    """
    return change.kinds[0] if len(change.kinds) == 1 and change.targets else None


def renames_alone(change: SchemaChange) -> bool:
    """Return whether a statement renames tables and does nothing else."""
    return only_kind(change) is DdlKind.RENAME_TABLE


def keywords_of_drops(change: SchemaChange) -> str | None:
    """Return the text before the names in a DROP of several tables; None for any other statement."""
    if only_kind(change) in _DROPS and len(change.targets) > 1:
        return drop_keywords(change.ddl)
    return None


def _renames(change: SchemaChange, groups: Iterable[Collection[TableId]]) -> list[SchemaChange]:
    indexes: defaultdict[TableId, list[int]] = defaultdict(list)
    for at, pair in enumerate(change.renamed):
        indexes[pair.old].append(at)
        indexes[pair.new].append(at)
    words, members, found = rename_keywords(change.ddl), _Members(change), []
    for group in groups:
        wanted = sorted({at for table in group for at in indexes.get(table, ())})
        pairs = [change.renamed[at] for at in wanted]
        texts = [f"{quoted_table(pair.old)} TO {quoted_table(pair.new)}" for pair in pairs]
        named = list(dict.fromkeys([table for pair in pairs for table in (pair.old, pair.new)]))
        tables = [pair.new for pair in pairs]
        found.append(members.part(f"{words} {', '.join(texts)}", tables, named, pairs))
    return found


class _Members:
    """The information about each table of a statement."""

    def __init__(self, change: SchemaChange) -> None:
        self._change = change
        self._definitions = {schema.id: schema for schema in change.definitions}
        self._known_before = {schema.id: schema for schema in change.known_before}
        self._views = {schema.id: schema for schema in change.views}
        self._table_changes = {each.table: each for each in change.table_changes}

    def part(
        self,
        ddl: str,
        tables: Sequence[TableId],
        named: Sequence[TableId],
        pairs: Sequence[RenamedTable] = (),
    ) -> SchemaChange:
        """Return the part of the statement about some tables. `named`: these tables and their old names."""
        definitions, before = self._definitions, self._known_before
        return msgspec.structs.replace(
            self._change,
            ddl=ddl,
            table=tables[0],
            targets=tuple(tables),
            renamed=tuple(pairs),
            after=definitions.get(tables[0]),
            definitions=tuple([definitions[table] for table in named if table in definitions]),
            known_before=tuple([before[table] for table in named if table in before]),
            views=tuple([self._views[table] for table in named if table in self._views]),
            table_changes=tuple(
                [self._table_changes[table] for table in named if table in self._table_changes]
            ),
        )
