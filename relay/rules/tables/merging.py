"""Which statements about shards are written for the table that they are merged into.

All shards go through the same definitions, each at its own time. The catalog knows when: the result depends
only on the catalog and the position of a statement, so that a restart, another instance and the Spark job
give the same.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from typing import Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.catalog.catalog import history_of
from relay.catalog.versions import Effect, Version
from relay.model.events import Position, TableId, TableSchema
from relay.rules.tables.rules import MergedDdl


class Step(NamedTuple):
    """A definition that shards reach, as that of the merged table. `effect`: that of the statement."""

    schema: TableSchema | None
    effect: Effect

    def is_same(self, other: Step) -> bool:
        """Return whether two shards have equal definitions or, if one is unknown, equal statements."""
        if self.schema is not None and other.schema is not None:
            return self.schema == other.schema
        return self.effect == other.effect

    def has_definition_of(self, other: Step) -> bool:
        """Return whether both definitions are known and equal."""
        return self.schema is not None and self.schema == other.schema


#: The step of a shard whose definition is not one of the merged table's.
DIVERGED: Final = -1


class Shards:
    """The shards of a merged table up to some position.

    steps: The definitions that shards have had, in order.
    reached: The number of the step of each existing shard, from 0, or DIVERGED.
    done: The number of the latest step whose statement is due to be written; -1 before the first one.
    """

    def __init__(self, name: TableId, ddl: MergedDdl) -> None:
        self._name, self._ddl = name, ddl
        self.steps: list[Step] = []
        self.reached: dict[TableId, int] = {}
        self.done = -1
        # The number of shards at each step that has some; the definitions of shards that have diverged.
        self._counts: dict[int, int] = {}
        self._diverged: dict[TableId, Step] = {}

    def apply(self, shard: TableId, version: Version) -> None:
        """Apply a statement about a shard."""
        self._diverged.pop(shard, None)
        if version.is_gone:
            self._move(shard, None)
        else:
            step = self._step_of(version)
            self._move(shard, self._step_after(shard, step))
            if self.reached[shard] == DIVERGED:
                self._diverged[shard] = step
        if not self.reached:
            self.steps, self.done = [], -1
            return
        latest = len(self.steps) - 1 if self._ddl is MergedDdl.FIRST else min(self._counts)
        self.done = max(self.done, latest)

    def _move(self, shard: TableId, to: int | None) -> None:
        """Set the step of a shard; None if it no longer exists."""
        at = self.reached.pop(shard, None)
        if at is not None:
            self._counts[at] -= 1
            if not self._counts[at]:
                del self._counts[at]
        if to is not None:
            self.reached[shard] = to
            self._counts[to] = self._counts.get(to, 0) + 1

    def _step_of(self, version: Version) -> Step:
        schema = version.schema
        if schema is not None:
            schema = msgspec.structs.replace(schema, id=self._name, comment=None, table_id=None, version=None)
        return Step(schema, version.effect)

    def _step_after(self, shard: TableId, step: Step) -> int:
        """Return the number of a shard's step after a statement; the first shard adds it."""
        at = self.reached.get(shard, DIVERGED)
        if at == DIVERGED and self.steps:
            found = (number for number, each in enumerate(self.steps) if each.is_same(step))
            return max(found, default=DIVERGED)
        if self.steps and self.steps[at].is_same(step):
            return at
        if at + 1 < len(self.steps) and self.steps[at + 1].is_same(step):
            return at + 1
        # Others may have reached the same definition with more statements, or have the shard's previous one
        # again because they have undone theirs.
        later = range(at + 2, len(self.steps))
        found = (number for number in later if self.steps[number].has_definition_of(step))
        number = next(found, DIVERGED)
        return self._added(step) if number == DIVERGED and self._is_latest(at) else number

    def _is_latest(self, number: int) -> bool:
        """Return whether the definition of a step is that of the latest one."""
        return number + 1 == len(self.steps) or self.steps[number].has_definition_of(self.steps[-1])

    def _added(self, step: Step) -> int:
        """Add a step, and return its number."""
        self.steps.append(step)
        number = len(self.steps) - 1
        self._rejoin(number)
        return number

    def _rejoin(self, number: int) -> None:
        """Let the shards that already had the definition of a new step reach it."""
        for shard, step in list(self._diverged.items()):
            if step.is_same(self.steps[number]):
                del self._diverged[shard]
                self._move(shard, number)

    def copy(self) -> Shards:
        """Return a copy, which further statements do not change."""
        found = Shards(self._name, self._ddl)
        found.steps, found.reached, found.done = list(self.steps), dict(self.reached), self.done
        found._counts, found._diverged = dict(self._counts), dict(self._diverged)
        return found

    def waiting(self) -> list[TableId]:
        """Return the shards that have not reached the latest step."""
        return [shard for shard, at in self.reached.items() if at == DIVERGED or not self._is_latest(at)]

    def diverged(self) -> list[TableId]:
        """Return the shards whose definitions are none of the merged table's."""
        return list(self._diverged)


class ShardProgress(NamedTuple):
    """The shards of a merged table before and after a statement.

    changed: The shards whose definitions the statement is about.
    """

    before: Shards
    after: Shards
    changed: frozenset[TableId]

    @property
    def has_steps(self) -> bool:
        """Whether a shard has reached another step with the statement, or is created or dropped."""
        return self.before.reached != self.after.reached

    @property
    def is_due(self) -> bool:
        """Whether the statement brings the merged table from its definition to the one that is due."""
        before, after = self.before, self.after
        return after.done > before.done and any(
            after.reached.get(shard) == after.done and self._had_its_definition(shard)
            for shard in self.changed
        )

    def _had_its_definition(self, shard: TableId) -> bool:
        """Return whether a shard had the definition of the merged table before the statement."""
        steps, done, at = self.before.steps, self.before.done, self.before.reached.get(shard, DIVERGED)
        return at == done or (at != DIVERGED and steps[at].has_definition_of(steps[done]))

    @property
    def completes_others(self) -> bool:
        """Whether steps become due with this statement that are those of earlier statements, which can no
        longer be written: a shard that lacked them is dropped, or follows in another way.
        """
        before, after = self.before, self.after
        if not after.reached or after.done == before.done or self.is_due:
            return False
        return before.done == DIVERGED or not after.steps[after.done].has_definition_of(
            before.steps[before.done]
        )


def progress(
    name: TableId,
    ddl: MergedDdl,
    histories: Mapping[TableId, Iterable[Version]],
    at: Position,
    changed: Iterable[TableId],
) -> ShardProgress:
    """Return the shards before and after the statement at a position, which is about the tables `changed`.

    histories: The versions of each table with this name.
    """
    shards = Shards(name, ddl)
    subjects = frozenset(changed)
    own: list[tuple[TableId, Version]] = []
    for table, version in _in_order(histories):
        if version.at.precedes(at):
            shards.apply(table, version)
        elif table in subjects and not at.precedes(version.at):
            own.append((table, version))
    before = shards.copy()
    for table, version in own:
        shards.apply(table, version)
    return ShardProgress(before, shards, frozenset([table for table, _ in own]))


def latest(name: TableId, ddl: MergedDdl, histories: Mapping[TableId, Iterable[Version]]) -> Shards:
    """Return the shards of a merged table after all statements."""
    found = Shards(name, ddl)
    for table, version in _in_order(histories):
        found.apply(table, version)
    return found


def versions_of(catalog: Catalog, table: TableId) -> list[Version]:
    """Return the versions of a table, oldest first, without views."""
    found = reversed(history_of(catalog, table))
    return [each for each in found if each.schema is None or not each.schema.is_view]


def _in_order(histories: Mapping[TableId, Iterable[Version]]) -> list[tuple[TableId, Version]]:
    versions = [(table, version) for table, history in histories.items() for version in history]
    positions = [version.at for _, version in versions]
    if all(at.commit_ts is not None for at in positions):
        return sorted(versions, key=lambda each: each[1].at.commit_ts or 0)
    return sorted(versions, key=functools.cmp_to_key(_compared))


def _compared(one: tuple[TableId, Version], other: tuple[TableId, Version]) -> int:
    """Compare the positions of two versions; those without an order are equal."""
    first, second = one[1].at, other[1].at
    return int(second.precedes(first)) - int(first.precedes(second))
