"""Column rules: which columns of which tables are dropped, get other values, or are renamed."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterable, Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from relay.model.errors import ConfigError, Problem
from relay.model.events import TableId
from relay.model.limits import MYSQL_NAME
from relay.model.table_globs import TableGlob, name_pattern, parse_globs
from relay.rules.rewriting import folded
from relay.text.hints import hint_for
from relay.text.redaction import quoted


class ColumnAction(StrEnum):
    """What happens to the columns of a rule.

    DROP: they are dropped. KEEP: all other columns of the table are dropped. NULL: their values are NULL.
    FIXED: all their values are the same, NULL included. MASK: characters become `*`, except the first and
    last ones that the rule keeps. TRUNCATE: text and bytes are cut off. HASH: values are replaced with the
    hexadecimal digits of their HMAC-SHA-256. RENAME: they get another name.
    """

    DROP = "drop"
    KEEP = "keep"
    NULL = "null"
    FIXED = "fixed"
    MASK = "mask"
    TRUNCATE = "truncate"
    HASH = "hash"
    RENAME = "rename"


#: Hexadecimal digits of an HMAC-SHA-256.
HASH_DIGITS: Final = 64
#: The fewest digits of a hashed key, 128 bits: a shorter hash could merge rows.
KEY_HASH_DIGITS: Final = 32


class ColumnRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    tables: Globs `database.table` of the source's names; letter case is significant.
    columns: Globs of column names; letter case is not significant, as in MySQL.
    value: The text of the value, for FIXED.
    first, last: The characters that MASK keeps.
    length: The length in characters or bytes for TRUNCATE, the number of hexadecimal digits for HASH.
    name: The new name, for RENAME.
    """

    tables: tuple[str, ...]
    columns: tuple[str, ...]
    action: ColumnAction
    value: str | None = None
    first: int = 0
    last: int = 0
    length: int | None = None
    name: str = ""


#: The parameters of each action, and whether it needs them.
_PARAMETERS: Final = {
    ColumnAction.FIXED: {"value": True},
    ColumnAction.MASK: {"first": False, "last": False},
    ColumnAction.TRUNCATE: {"length": True},
    ColumnAction.HASH: {"length": False},
    ColumnAction.RENAME: {"name": True},
}
_UNSET: Final = {"value": None, "first": 0, "last": 0, "length": None, "name": ""}


class ParsedColumnRule(msgspec.Struct, frozen=True):
    """A rule with its globs as patterns. `tables_folded`: those of tables, in lower case."""

    rule: ColumnRule
    tables: tuple[TableGlob, ...]
    tables_folded: tuple[TableGlob, ...]
    columns: tuple[re.Pattern[str], ...]

    def has_table(self, table: TableId) -> bool:
        """Return whether the rule is about columns of a table."""
        return any(glob.matches(table) for glob in self.tables)

    def has_column(self, name: str) -> bool:
        """Return whether the rule names a column."""
        name = folded(name)
        return any(pattern.match(name) is not None for pattern in self.columns)

    def may_have_table(self, database: str | None, name: str) -> bool:
        """Return whether the rule may be about a table, in any letter case; None is an unknown database."""
        lowered = None if database is None else database.lower()
        return any(glob.may_match(lowered, name.lower()) for glob in self.tables_folded)


def hides_values(rules: Iterable[ColumnRule]) -> bool:
    """Return whether values of some columns do not reach the target."""
    return any(rule.action is not ColumnAction.RENAME for rule in rules)


def parse_rules(rules: Sequence[ColumnRule], *, has_hash_key: bool) -> tuple[ParsedColumnRule, ...]:
    """Parse rules. `has_hash_key`: whether HASH has its secret key.

    Raises ConfigError with all problems; their paths are `columns.0.tables` and the like.
    """
    found: list[ParsedColumnRule] = []
    problems: list[Problem] = []
    for at, rule in enumerate(rules):
        globs = parse_globs(rule.tables, f"columns.{at}.tables", problems)
        problems += [
            problem._replace(path=f"columns.{at}.{problem.path}")
            for problem in _problems(rule, has_hash_key=has_hash_key)
        ]
        patterns = tuple([name_pattern(folded(text)) for text in rule.columns])
        lowered = tuple([TableGlob.parse(glob.text.lower()) for glob in globs])
        found.append(ParsedColumnRule(rule, globs, lowered, patterns))
    if problems:
        raise ConfigError(problems)
    return tuple(found)


def _problems(rule: ColumnRule, *, has_hash_key: bool) -> Iterator[Problem]:
    """Yield the problems of a rule's keys."""
    action = rule.action
    if not rule.tables:
        yield Problem("tables", "no table is named", "name some, such as shop.customers or shop.*")
    if not rule.columns:
        yield Problem("columns", "no column is named", "name some, such as email or phone_*")
    yield from _parameter_problems(rule)
    if rule.length is not None and rule.length < 1:
        yield Problem("length", "is not positive")
    elif action is ColumnAction.HASH and rule.length is not None and rule.length > HASH_DIGITS:
        yield Problem("length", f"a hash has at most {HASH_DIGITS} hexadecimal digits")
    if action is ColumnAction.HASH and not has_hash_key:
        yield Problem("action", "hash needs a secret key", "name its file, hash_key_file")


def _parameter_problems(rule: ColumnRule) -> Iterator[Problem]:
    """Yield the problems of parameters that the rule's action lacks or does not use."""
    action = rule.action
    parameters = _PARAMETERS.get(action, {})
    for name, unset in _UNSET.items():
        is_set = getattr(rule, name) != unset
        if is_set and name not in parameters:
            takers = [other for other, its in _PARAMETERS.items() if name in its]
            yield Problem(name, f"has no effect with action {action}", f"it is for {' and '.join(takers)}")
        elif not is_set and parameters.get(name):
            yield Problem(name, f"is missing: action {action} needs it")
    if rule.first < 0 or rule.last < 0:
        yield Problem("first" if rule.first < 0 else "last", "is negative")
    if len(rule.name) > MYSQL_NAME:
        yield Problem("name", f"has more than {MYSQL_NAME} characters")


def action_of(text: str) -> ColumnAction:
    """Return the action with a name. Raises ValueError with a hint."""
    try:
        return ColumnAction(text)
    except ValueError:
        names = [action.value for action in ColumnAction]
        hint = hint_for(text, names, f"actions: {', '.join(names)}")
        raise ValueError(f"unknown action {quoted(text)}: {hint}") from None


#: The form of a rule on one line, for hints.
RULE_FORM: Final = (
    "write ACTION TABLES COLUMNS, such as 'drop shop.customers email,phone' or 'mask shop.* iban last=4'"
)


def parse_rule(text: str) -> ColumnRule:
    """Parse a rule on one line: action, tables, columns, and parameters as `name=value`.

    Lists are separated by commas. Raises ValueError.
    """
    words = shlex.split(text)
    if len(words) < _RULE_WORDS:
        raise ValueError("is not a rule")
    action, tables, columns, *parameters = words
    given: dict[str, str] = {}
    for parameter in parameters:
        name, sign, value = parameter.partition("=")
        if not sign or name not in _UNSET:
            raise ValueError(f"{quoted(parameter)} is not a parameter")
        given[name] = value
    numbers = {name: _number(given.pop(name)) for name in ("first", "last", "length") if name in given}
    return msgspec.convert(
        {"tables": tables.split(","), "columns": columns.split(","), "action": action_of(action)}
        | numbers
        | given,
        ColumnRule,
    )


def _number(text: str) -> int:
    if not text.isascii() or not text.isdigit():
        raise ValueError(f"{quoted(text)} is not a number")
    return int(text)


#: Words of a rule without parameters.
_RULE_WORDS: Final = 3
