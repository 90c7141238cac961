"""Rules on the command line: `--where`, `--column` with `--hash-key-file`, and `--table`."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Final, NamedTuple, TypeVar

from relay.cli.option_names import USUAL
from relay.io.hash_key import MIN_KEY_BYTES, read_hash_key
from relay.model.errors import ConfigError, Problem
from relay.rules.columns import RULE_FORM, ColumnRule, ColumnRules, parse_rule, parse_rules
from relay.rules.rows import WHERE_FORM, RowRule, parse_row_rules, parse_where
from relay.rules.tables import RULE_FORM as TABLE_RULE_FORM
from relay.rules.tables import TableRule
from relay.rules.tables import parse_rule as parse_table_rule
from relay.rules.tables import parse_rules as parse_table_rules
from relay.text.redaction import quoted

_Rule = TypeVar("_Rule")


class GivenRules(NamedTuple):
    """Column rules, the secret key of those that hash values (b"" for none), row rules and table rules."""

    rules: tuple[ColumnRule, ...] = ()
    hash_key: bytes = b""
    rows: tuple[RowRule, ...] = ()
    tables: tuple[TableRule, ...] = ()

    def applied(self, target: str) -> ColumnRules | None:
        """Return the step that applies the column rules; None without any. Raises ConfigError.

        target: The name of the target's protocol, for errors.
        """
        if not self.rules:
            return None
        parsed = parse_rules(self.rules, has_hash_key=bool(self.hash_key))
        return ColumnRules(parsed, self.hash_key, target)


NO_RULES: Final = GivenRules()


def _parse_each(
    texts: Iterable[str],
    parse: Callable[[str], _Rule],
    option: str,
    form: str,
    problems: list[Problem],
) -> list[_Rule]:
    """Return the rules of a repeated option; append errors to `problems`, with the right form."""
    rules: list[_Rule] = []
    for text in texts:
        try:
            rules.append(parse(text))
        except ValueError as error:
            problems.append(Problem(option, f"{quoted(text)}: {error}", form))
    return rules


def given_rules(
    texts: Iterable[str],
    hash_key_file: str | None,
    problems: list[Problem],
    *,
    where: Iterable[str] = (),
    tables: Iterable[str] = (),
) -> GivenRules:
    """Return the rules of these options; append errors to `problems`. `texts`: the column rules."""
    rules = _parse_each(texts, parse_rule, "--column", RULE_FORM, problems)
    try:
        key = b"" if hash_key_file is None else read_hash_key(hash_key_file, "--hash-key-file")
    except ConfigError as error:
        problems += error.problems
        key = bytes(MIN_KEY_BYTES)
    rows = _parse_each(where, parse_where, "--where", WHERE_FORM, problems)
    names = _parse_each(tables, parse_table_rule, "--table", TABLE_RULE_FORM, problems)
    return GivenRules(tuple(rules), key, tuple(rows), tuple(names))


def checked_rules(
    texts: Iterable[str],
    hash_key_file: str | None,
    problems: list[Problem],
    *,
    where: Iterable[str] = (),
    tables: Iterable[str] = (),
) -> GivenRules:
    """Return the rules of these options; append errors, also in the rules themselves, to `problems`."""
    found = given_rules(texts, hash_key_file, problems, where=where, tables=tables)
    checks: tuple[Callable[[], object], ...] = (
        lambda: found.applied(""),
        lambda: parse_row_rules(found.rows),
        lambda: parse_table_rules(found.tables),
    )
    for check in checks:
        try:
            check()
        except ConfigError as error:
            problems += USUAL.of_problems(error.problems)
    return found
