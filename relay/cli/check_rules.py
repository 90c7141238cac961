"""The part of `relay check` about rules: their effect on known tables, and rules without effect."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final, NamedTuple

from relay.cli.exits import say_warning
from relay.config import Config
from relay.config.wiring import check_table_names
from relay.core.selection import chosen_tables
from relay.core.summaries import MOST_NAMES
from relay.core.translator import Translator
from relay.model.events import TableSchema
from relay.rules.columns import parse_rules as parse_column_rules
from relay.rules.columns.effects import effects_on, lines_of
from relay.rules.rows.effects import row_effects_on
from relay.rules.tables import MergedTable
from relay.rules.tables import parse_rules as parse_table_rules
from relay.rules.tables.effects import name_effects_on
from relay.rules.unused import UnusedRule
from relay.text.redaction import plural, printable

_NO_TABLE: Final = (
    "and no table is known here: `--connect` shows their effect on the tables in the schema history, and "
    "schema_dumps in [schema] on those of dumps"
)


class _Section(NamedTuple):
    """The rules of one kind: a line for each table, and warnings with the key that each is about."""

    kind: str
    rules: int
    lines: Sequence[str]
    warnings: Sequence[tuple[str, str]]


def has_rules(config: Config) -> bool:
    """Return whether a route has rules for columns, rows or tables."""
    route = config.route
    return bool(route.columns or route.rows or route.tables)


def rule_lines(config: Config, translator: Translator) -> Iterator[str]:
    """Yield the lines about the rules' effect on the tables that a translator knows, and print warnings.

    Raises ConfigError if several of these tables would have the same name in the target.
    """
    route = config.route
    chosen = chosen_tables(route.include_tables, route.exclude_tables)
    tables = translator.catalog.present_tables()
    schemas = [each for each in tables if chosen is None or chosen.has(each.id)]
    sections = _rows(translator, schemas), _columns(config, schemas), _tables(config, translator, schemas)
    for section in sections:
        if not section.rules:
            continue
        if not schemas:
            yield f"{section.kind:7} {plural(section.rules, 'rule')}, {_NO_TABLE}"
            continue
        yield section.kind
        lines = section.lines or ["no known table is changed"]
        yield from (printable(f"  {line}") for line in lines)
        for path, message in section.warnings:
            say_warning(f"{path}: {message}")
    check_table_names(translator)


def _rows(translator: Translator, schemas: Iterable[TableSchema]) -> _Section:
    rules = () if translator.route.row_rules is None else translator.route.row_rules.rules
    effects = row_effects_on(rules, translator.route.target.name, schemas)
    lines = [f"{each.table}: {each.text}" for each in effects.tables]
    refused = [
        ("route.rows", f"rows of {each.table} are refused: {each.problem}")
        for each in effects.tables
        if each.problem
    ]
    unused = _unused("rows", effects.unused)
    return _Section("rows", len(rules), lines, [*refused, *unused])


def _columns(config: Config, schemas: Iterable[TableSchema]) -> _Section:
    rules = config.route.column_rules
    effects = effects_on(parse_column_rules(rules, has_hash_key=True), config.route.to, schemas)
    refused = [
        ("route.columns", f"rows of {each.table} are refused: {each.problem}")
        for each in effects.tables
        if each.problem
    ]
    unused = _unused("columns", effects.unused)
    return _Section("columns", len(rules), [*lines_of(effects, MOST_NAMES)], [*refused, *unused])


def _tables(config: Config, translator: Translator, schemas: Iterable[TableSchema]) -> _Section:
    rules, names = config.route.table_rules, translator.route.table_names
    if names is None:
        return _Section("tables", 0, [], [])
    effects = name_effects_on(parse_table_rules(rules), names, schemas)
    merged = names.merged_tables(translator.catalog)
    lines = [f"{table} → {name}" for table, name in effects.renamed]
    lines += [_merged(each) for each in merged]
    refused = [("route.tables", f"rows of {table} are refused: {why}") for table, why in effects.refused]
    differing = [("route.tables", text) for each in merged for text in _differing(each)]
    unused = _unused("tables", effects.unused)
    return _Section("tables", len(rules), lines, [*refused, *differing, *unused])


def _merged(table: MergedTable) -> str:
    """Describe a merged table: its shards, and those for which statements wait."""
    waiting = sorted(table.shards.waiting())
    about = f"{table.name}: {plural(len(table.shards.reached), 'shard')}"
    if not waiting:
        return f"{about}, all with the same definition"
    named = ", ".join(map(str, waiting[:MOST_NAMES]))
    more = f" and {len(waiting) - MOST_NAMES} more" if len(waiting) > MOST_NAMES else ""
    return f"{about}; the latest definition is not yet that of {named}{more}"


def _differing(table: MergedTable) -> Iterator[str]:
    """Yield warnings about shards whose definitions are none of the merged table's."""
    for shard in sorted(table.shards.diverged()):
        yield (
            f"the definition of {shard} is none that other shards of {table.name} have had: until they are "
            'equal, its statements are refused, and with ddl = "all" those of the others wait'
        )


def _unused(kind: str, unused: Sequence[UnusedRule]) -> list[tuple[str, str]]:
    """Return a warning for each rule without effect; the first few suggest similar names."""
    return [
        (f"route.{kind}.{each.number}", each.with_hints() if at < MOST_NAMES else each.why)
        for at, each in enumerate(unused)
    ]
