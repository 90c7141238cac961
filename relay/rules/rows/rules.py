"""Row rules: which rows of which tables are written."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from relay.model.errors import ConfigError, Problem
from relay.model.events import TableId
from relay.model.table_globs import TableGlob, parse_globs
from relay.rules.rows.expressions import Expression, InvalidExpression
from relay.text.hints import hint_for
from relay.text.redaction import quoted


class UnknownBefore(StrEnum):
    """How a rule treats a changed row if it cannot be known whether `where` selected it before the change.

    SELECTED: as if it was selected. NOT_SELECTED: as if it was not. ERROR: the record fails.
    """

    SELECTED = "selected"
    NOT_SELECTED = "not-selected"
    ERROR = "error"


class RowRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    tables: Globs `database.table` of the source's names; letter case is significant.
    where: A CEL expression on the row's columns; only rows for which it is true are selected. Empty for all.
    ignore_updates_of: Columns; an UPDATE that changes no other column is left out. Letter case is not
        significant.
    unknown_before: How a row is treated whose values before its change are unknown.
    """

    tables: tuple[str, ...]
    where: str = ""
    ignore_updates_of: tuple[str, ...] = ()
    unknown_before: UnknownBefore = UnknownBefore.SELECTED


class ParsedRowRule(msgspec.Struct, frozen=True):
    """A rule with its globs as patterns and its expression compiled. `number`: its position, from 0."""

    rule: RowRule
    number: int
    tables: tuple[TableGlob, ...]
    where: Expression | None

    def has_table(self, table: TableId) -> bool:
        """Return whether the rule is about rows of a table."""
        return any(glob.matches(table) for glob in self.tables)


def parse_row_rules(rules: Sequence[RowRule]) -> tuple[ParsedRowRule, ...]:
    """Parse rules and compile their expressions.

    Raises ConfigError with all problems; their paths are `rows.0.where` and the like.
    """
    found: list[ParsedRowRule] = []
    problems: list[Problem] = []
    compiled: dict[str, Expression] = {}
    for at, rule in enumerate(rules):
        globs = parse_globs(rule.tables, f"rows.{at}.tables", problems)
        problems += [each._replace(path=f"rows.{at}.{each.path}") for each in _problems(rule)]
        where = None
        try:
            if rule.where:
                where = compiled.get(rule.where) or Expression(rule.where)
                compiled[rule.where] = where
        except InvalidExpression as error:
            problems.append(Problem(f"rows.{at}.where", str(error), error.hint))
        found.append(ParsedRowRule(rule, at, globs, where))
    if problems:
        raise ConfigError(problems)
    return tuple(found)


def _problems(rule: RowRule) -> Iterator[Problem]:
    """Yield the problems of a rule's keys."""
    if not rule.tables:
        yield Problem("tables", "no table is named", "name some, such as shop.orders or shop.*")
    if not rule.where and not rule.ignore_updates_of:
        yield Problem("where", "is missing: the rule has no effect", "give where or ignore_updates_of")
    if rule.unknown_before is not UnknownBefore.SELECTED and not rule.where:
        yield Problem("unknown_before", "has no effect without where")


def unknown_before_of(text: str) -> UnknownBefore:
    """Return the value with a name. Raises ValueError with a hint."""
    try:
        return UnknownBefore(text)
    except ValueError:
        names = [each.value for each in UnknownBefore]
        hint = hint_for(text, names, f"values: {', '.join(names)}")
        raise ValueError(f"unknown value {quoted(text)}: {hint}") from None


#: The form of a condition on one line, for hints.
WHERE_FORM: Final = "write TABLES: EXPRESSION, such as \"shop.orders: status == 'paid'\""


def parse_where(text: str) -> RowRule:
    """Parse a rule on one line: tables, separated by commas, a colon, and the expression.

    Raises ValueError.
    """
    tables, colon, where = text.partition(":")
    if not colon or not where.strip():
        raise ValueError("is not a condition")
    return RowRule(tables=tuple([name.strip() for name in tables.split(",")]), where=where.strip())
