"""Applies row rules to decoded events: leaves rows out, and turns updates into inserts and deletes."""

from __future__ import annotations

import enum
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

import msgspec

from relay.codecs.losses import Loss
from relay.model.events import ABSENT, Event, Op, Row, RowChange, Rows, TableId, TableSchema
from relay.rules.rewriting import folded
from relay.rules.rows.conditions import CellImages, Reader, TableCondition
from relay.rules.rows.rules import ParsedRowRule, UnknownBefore


class Verdict(enum.Enum):
    """The effect of the row rules on a change: it stays, is left out, or enters or leaves the selection."""

    KEPT = "kept"
    LEFT_OUT = "left out"
    ENTERS = "enters"
    LEAVES = "leaves"


class RowRules:
    """The row rules of a route. `target`: the name of the target's protocol, for errors."""

    def __init__(self, rules: Sequence[ParsedRowRule], target: str) -> None:
        self.rules, self._target = tuple(rules), target
        self._tables: dict[TableId, bool] = {}
        self._filters: dict[TableSchema, RowFilter | None] = {}

    def has_table(self, table: TableId) -> bool:
        """Return whether some rule is about rows of a table."""
        found = self._tables.get(table)
        if found is None:
            if len(self._tables) >= _MOST_TABLES:
                self._tables.clear()
            found = self._tables[table] = any(rule.has_table(table) for rule in self.rules)
        return found

    def apply(self, events: list[Event]) -> tuple[list[Event], list[Loss]]:
        """Return the events to write, and a loss for each row that is left out.

        Raises ConditionFailed for a rule that cannot be evaluated, DecodeError for a malformed value.
        """
        if not any(isinstance(event, RowChange) and self.has_table(event.table) for event in events):
            return events, []
        kept: list[Event] = []
        for event in events:
            if not isinstance(event, RowChange):
                kept.append(event)
                continue
            row_filter = self.filter_of(event.schema)
            change = event if row_filter is None else row_filter.change(event)
            if change is not None:
                kept.append(change)
        return kept, [Loss.ROWS_FILTERED] * (len(events) - len(kept))

    def filter_of(self, schema: TableSchema) -> RowFilter | None:
        """Return the rules for a definition; None if there are none.

        Raises ConditionFailed for a rule that cannot be applied.
        """
        if schema not in self._filters:
            if len(self._filters) >= _MOST_TABLES:
                self._filters.clear()
            matching = [rule for rule in self.rules if rule.has_table(schema.id)]
            self._filters[schema] = RowFilter(matching, schema, self._target) if matching else None
        return self._filters[schema]


class RowFilter:
    """The rules of a table for one version of its definition.

    All conditions must hold. Raises ConditionFailed for a rule that cannot be applied.
    """

    def __init__(self, rules: Sequence[ParsedRowRule], schema: TableSchema, target: str) -> None:
        self._schema = schema
        self._conditions = [
            TableCondition(rule, rule.where, schema, target) for rule in rules if rule.where is not None
        ]
        ignored = {folded(name) for rule in rules for name in rule.rule.ignore_updates_of}
        keys = {folded(name) for name in schema.key_columns()}
        columns = [folded(column.name) for column in schema.columns]
        self._ignores = bool(ignored)
        #: The indexes of columns whose changes count; those of keys always do.
        self._compared = tuple([at for at, name in enumerate(columns) if name in keys or name not in ignored])

    def change(self, change: RowChange) -> RowChange | None:
        """Return a change as it is written; None if it is left out."""
        verdict = self.verdict(change.op, change.images)
        if verdict is _KEPT:
            return change
        if verdict is Verdict.ENTERS:
            return _with(change, Op.INSERT, None, change.after)
        return _with(change, Op.DELETE, self._old_row(change), None) if verdict is Verdict.LEAVES else None

    def verdict(self, op: Op, images: CellImages) -> Verdict:
        """Return what becomes of a row. Raises ConditionFailed, DecodeError."""
        if op is Op.DELETE:
            return _KEPT if self._was_selected(images) else _LEFT_OUT
        is_selected = self._is_selected(images)
        if op is not Op.UPDATE:
            return _KEPT if is_selected else _LEFT_OUT
        was_selected = self._was_selected(images)
        if is_selected and was_selected:
            return _LEFT_OUT if self._ignores and self._is_ignored(images) else _KEPT
        if is_selected:
            return Verdict.ENTERS
        return Verdict.LEAVES if was_selected else _LEFT_OUT

    def variables(self) -> list[tuple[str, int, Reader]]:
        """Return the variables of all conditions: name, index of the column, how its values are read."""
        return [each for condition in self._conditions for each in condition.variables]

    def expressions(self) -> list[Callable[[Mapping[str, Any]], bool]]:
        """Return the functions that evaluate the conditions for values by name."""
        return [condition.evaluate for condition in self._conditions]

    def condition_columns(self) -> tuple[int, ...] | None:
        """Return the indexes of the columns on which verdicts depend; None if these are all columns."""
        if self._ignores or any(condition.reads_all for condition in self._conditions):
            return None
        return tuple(sorted({at for condition in self._conditions for at in condition.indexes}))

    def _is_selected(self, images: CellImages) -> bool:
        """Return whether all conditions hold for the row after its change."""
        for condition in self._conditions:
            holds = condition.holds(images, is_old=False)
            if holds is None:
                raise condition.failed("the row lacks columns that it depends on")
            if not holds:
                return False
        return True

    def _was_selected(self, images: CellImages) -> bool:
        """Return whether all conditions held for the row before its change, as far as that is known."""
        return all(self._held(condition, images) for condition in self._conditions)

    @staticmethod
    def _held(condition: TableCondition, images: CellImages) -> bool:
        holds = condition.holds(images, is_old=True)
        if holds is not None:
            return holds
        unknown_before = condition.rule.rule.unknown_before
        if unknown_before is UnknownBefore.ERROR:
            raise condition.failed("the row before its change is unknown")
        return unknown_before is UnknownBefore.SELECTED

    def _is_ignored(self, images: CellImages) -> bool:
        """Return whether an update certainly changes nothing but ignored columns."""
        before = images.cells_at(self._compared, is_old=True)
        # Both cells have the type of their column, so that equal cells are equal values.
        return before is not None and before == images.cells_at(self._compared, is_old=False)

    def _old_row(self, change: RowChange) -> Row:
        """Return the row before an update; if it is unknown, its key."""
        before = change.before
        if before is not None:
            return before
        names = change.images.message_key_columns or self._schema.handle_key()
        after = change.after
        if after is None or not names:
            raise self._conditions[0].failed("the row before its change is unknown, and its table has no key")
        keys = set(self._schema.indexes_of(names))
        return tuple([cell if at in keys else ABSENT for at, cell in enumerate(after)])


def _with(change: RowChange, op: Op, before: Row | None, after: Row | None) -> RowChange:
    """Return a change with another operation and images."""
    images = change.images
    old, new = images.wire_keys
    keys = (None, new) if before is None else (old, None)
    rows = Rows(before, after, images.message_key_columns, keys)
    return msgspec.structs.replace(change, op=op, images=rows)


_KEPT, _LEFT_OUT = Verdict.KEPT, Verdict.LEFT_OUT
#: Maximum number of cached tables and definitions; active ones are soon cached again.
_MOST_TABLES: Final = 2_000
