"""The effect of table rules on known tables, for `relay check`."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

from relay.model.errors import NotRepresentable
from relay.model.events import TableId, TableSchema
from relay.rules.tables.applying import TableNames
from relay.rules.tables.rules import ParsedTableRule
from relay.rules.unused import UnusedRule, matches_no_table


class NameEffects(NamedTuple):
    """The effect of rules on tables.

    renamed: The tables whose names change, with their names in the target, without those that are merged.
    refused: The tables whose rows are refused, with the reason.
    """

    renamed: list[tuple[TableId, TableId]]
    refused: list[tuple[TableId, str]]
    unused: list[UnusedRule]


def name_effects_on(
    rules: Sequence[ParsedTableRule], names: TableNames, schemas: Iterable[TableSchema]
) -> NameEffects:
    """Return the effect of rules on tables. `names`: the step that applies the rules."""
    known = sorted(schemas, key=lambda schema: schema.id)
    renamed: list[tuple[TableId, TableId]] = []
    refused: list[tuple[TableId, str]] = []
    for schema in known:
        table = schema.id
        try:
            name = names.schema(schema).id
        except NotRepresentable as error:
            refused.append((table, str(error)))
            continue
        if name != table and not names.merges(table):
            renamed.append((table, name))
    return NameEffects(renamed, refused, _unused(rules, known))


def _unused(rules: Sequence[ParsedTableRule], known: Sequence[TableSchema]) -> list[UnusedRule]:
    """Return the rules that apply to no known table."""
    matching = [[at for at, rule in enumerate(rules) if rule.target_of(schema.id)] for schema in known]
    used, matched = {each[0] for each in matching if each}, {at for each in matching for at in each}
    found = []
    for number, rule in enumerate(rules):
        if number not in matched:
            pattern = rule.rule.source.replace("\\", "")
            found.append(matches_no_table(number, [pattern], known))
        elif number not in used:
            why = "has no effect: earlier rules apply to all known tables that it matches"
            found.append(UnusedRule(number, why))
    return found
