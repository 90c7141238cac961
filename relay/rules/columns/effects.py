"""The effect of column rules on known tables, for `relay check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from relay.model.errors import NotRepresentable
from relay.model.events import Column, TableId, TableSchema
from relay.mysql.types import format_type
from relay.rules.columns.projections import Effect, TableProjection, TableRules
from relay.rules.columns.replacements import HashKey
from relay.rules.columns.rules import ColumnAction, ParsedColumnRule
from relay.rules.unused import UnusedRule, matches_no_table


class ColumnEffect(NamedTuple):
    """A column of the source, and what becomes of it: `hash → varchar(64)`."""

    name: str
    text: str


class TableEffects(NamedTuple):
    """The columns of a table that rules change. `problem`: why its rows are refused; "" if they are not."""

    table: TableId
    columns: list[ColumnEffect]
    problem: str


class RuleEffects(NamedTuple):
    """The effect of rules on tables."""

    tables: list[TableEffects]
    unused: list[UnusedRule]


def effects_on(rules: Sequence[ParsedColumnRule], target: str, schemas: Iterable[TableSchema]) -> RuleEffects:
    """Return the effect of rules on tables. `target`: the name of the target's protocol, for errors."""
    tables: list[TableEffects] = []
    used: set[int] = set()
    known = sorted(schemas, key=lambda schema: schema.id)
    for schema in known:
        matching = [(number, rule) for number, rule in enumerate(rules) if rule.has_table(schema.id)]
        if not matching:
            continue
        of_table = TableRules([rule for _, rule in matching], target, HashKey())
        for column in schema.columns:
            effect = of_table.effect(column.name)
            used |= {number for number, rule in matching if _is_used(rule, column.name, effect)}
        changed = [column for column in schema.columns if of_table.changes(column.name)]
        if changed:
            columns = [_effect_on(of_table, schema.id, column) for column in changed]
            tables.append(TableEffects(schema.id, columns, _problem(of_table, schema)))
    rest = [(number, rule) for number, rule in enumerate(rules) if number not in used]
    return RuleEffects(tables, [_unused(number, rule, known) for number, rule in rest])


def _is_used(rule: ParsedColumnRule, name: str, effect: Effect) -> bool:
    """Return whether the effect on a column is this rule's."""
    if not rule.has_column(name):
        return False
    action = rule.rule.action
    if action is ColumnAction.KEEP:
        return True
    if action is ColumnAction.DROP:
        return effect.dropping is ColumnAction.DROP
    if action is ColumnAction.RENAME:
        return effect.name == rule.rule.name
    return effect.value_rule == rule.rule


def _effect_on(rules: TableRules, table: TableId, column: Column) -> ColumnEffect:
    effect = rules.effect(column.name)
    if effect.dropping is not None:
        text = "drop" if effect.dropping is ColumnAction.DROP else "drop, since no rule keeps it"
        return ColumnEffect(column.name, text)
    action = ColumnAction.RENAME if effect.value_rule is None else effect.value_rule.action
    try:
        found = rules.column(table, column).column
    except NotRepresentable:  # `TableEffects.problem` says why
        return ColumnEffect(column.name, f"{action} is refused")
    name = f"{found.name} " if found.name != column.name else ""
    return ColumnEffect(column.name, f"{action} → {name}{format_type(found.type)}")


def _problem(rules: TableRules, schema: TableSchema) -> str:
    """Return why rows of a table are refused; "" if they are not."""
    try:
        TableProjection(rules, schema)
    except NotRepresentable as error:
        return str(error)
    return ""


def _unused(number: int, rule: ParsedColumnRule, known: Sequence[TableSchema]) -> UnusedRule:
    """Return why a rule has no effect."""
    matching = [schema for schema in known if rule.has_table(schema.id)]
    if not matching:
        return matches_no_table(number, rule.rule.tables, known)
    columns = list(dict.fromkeys(column.name for schema in matching for column in schema.columns))
    if not any(map(rule.has_column, columns)):
        return UnusedRule(number, "matches no column of the known tables", rule.rule.columns, columns)
    return UnusedRule(number, "has no effect: other rules come first for all columns that it matches")


def lines_of(effects: RuleEffects, most: int) -> Iterator[str]:
    """Yield a line for each table, with at most so many columns."""
    for each in effects.tables:
        columns = [f"{column.name} {column.text}" for column in each.columns[:most]]
        if len(each.columns) > most:
            columns.append(f"and {len(each.columns) - most} more")
        yield f"{each.table.database}.{each.table.table}: {', '.join(columns)}"
