"""The effect of row rules on known tables, for `relay check`."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import NamedTuple

from relay.model.errors import ConditionFailed
from relay.model.events import TableId, TableSchema
from relay.rules.rewriting import folded
from relay.rules.rows.applying import RowFilter
from relay.rules.rows.rules import ParsedRowRule
from relay.rules.unused import UnusedRule, matches_no_table


class RowsOfTable(NamedTuple):
    """The effect of rules on a table, as text. `problem`: why its rows are refused; "" if they are not."""

    table: TableId
    text: str
    problem: str


class RowEffects(NamedTuple):
    """The effect of rules on tables. `unused`: rules without effect, also if only a part has none."""

    tables: list[RowsOfTable]
    unused: list[UnusedRule]


def row_effects_on(rules: Sequence[ParsedRowRule], target: str, schemas: Iterable[TableSchema]) -> RowEffects:
    """Return the effect of rules on tables. `target`: the name of the target's protocol, for errors."""
    known = sorted(schemas, key=lambda schema: schema.id)
    tables = []
    for schema in known:
        if matching := [rule for rule in rules if rule.has_table(schema.id)]:
            text = "; ".join(part for rule in matching for part in _parts(rule, schema))
            tables.append(RowsOfTable(schema.id, text or "no effect", _problem(matching, schema, target)))
    return RowEffects(tables, [each for rule in rules for each in _unused(rule, known)])


def _parts(rule: ParsedRowRule, schema: TableSchema) -> Iterator[str]:
    """Yield the parts of a rule that concern a table."""
    if rule.where is not None:
        names = ", ".join((*rule.where.columns, *(["all columns"] if rule.where.uses_row else [])))
        yield f"where on {names or 'no column'}"
    columns = {folded(column.name): column.name for column in schema.columns}
    ignored = [columns[name] for name in map(folded, rule.rule.ignore_updates_of) if name in columns]
    if ignored:
        yield f"updates of {', '.join(ignored)} ignored"


def _problem(rules: Sequence[ParsedRowRule], schema: TableSchema, target: str) -> str:
    """Return why rows of a table are refused; "" if they are not."""
    try:
        RowFilter(rules, schema, target)
    except ConditionFailed as error:
        return str(error)
    return ""


def _unused(rule: ParsedRowRule, known: Sequence[TableSchema]) -> Iterator[UnusedRule]:
    """Yield why a rule, or a part of it, has no effect."""
    matching = [schema for schema in known if rule.has_table(schema.id)]
    if not matching:
        yield matches_no_table(rule.number, rule.rule.tables, known)
        return
    columns = list(dict.fromkeys(column.name for schema in matching for column in schema.columns))
    present = set(map(folded, columns))
    for name in rule.rule.ignore_updates_of:
        if folded(name) not in present:
            why = f"ignore_updates_of: {name} is no column of the known tables"
            yield UnusedRule(rule.number, why, [name], columns)
