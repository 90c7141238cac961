"""Table rules: which databases and tables have other names in the target."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from enum import StrEnum
from typing import Final

import msgspec

from relay.model.errors import ConfigError, Problem
from relay.model.events import TableId
from relay.model.limits import MYSQL_NAME
from relay.text.expressions import ExpressionToken, check_repeats, tokens, without_anchors
from relay.text.redaction import quoted


class MergedDdl(StrEnum):
    """When a statement about a merged table is written.

    ALL: When all known shards have had an equal one. FIRST: When the first shard has it.
    """

    ALL = "all"
    FIRST = "first"


class TableRule(msgspec.Struct, frozen=True, kw_only=True):
    """One rule.

    source: A regular expression for the whole name `database.table` in the source; letter case is
        significant. Its first dot outside of groups and sets that is not repeated separates the two names.
    target: The name in the target, `database.table`, with `{database}` and `{table}` for the source's names
        and `{1}`, `{2}` … or `{name}` for groups of the expression.
    merge: Whether several tables, the shards, may have the same name in the target.
    ddl: When statements about the shards are written.
    add: Columns that merged tables get in addition, with their values, which have the same placeholders as
        `target`. They become part of the primary key and the unique keys.
    """

    source: str
    target: str
    merge: bool = False
    ddl: MergedDdl = MergedDdl.ALL
    add: tuple[tuple[str, str], ...] = ()


class ParsedTableRule(msgspec.Struct, frozen=True):
    """A rule with its expression.

    pattern: Matches a database and a table that are joined by `_SEPARATOR`.
    of_database: Matches the databases of its tables.
    database, table: The templates of the target's names.
    whole_database: The database, if the rule renames one database and keeps the names of all its tables.
    """

    rule: TableRule
    pattern: re.Pattern[str]
    of_database: re.Pattern[str]
    database: str
    table: str
    whole_database: str | None

    def target_of(self, table: TableId) -> TableId | None:
        """Return a table's name in the target; None if the rule is not about the table."""
        if len(table.database) > MYSQL_NAME or len(table.table) > MYSQL_NAME:
            return None  # no server has such a name, and the expression's time grows with its length
        found = self.pattern.fullmatch(f"{table.database}{_SEPARATOR}{table.table}")
        if found is None:
            return None
        values = _values_of(table, found)
        return TableId(_filled(self.database, values), _filled(self.table, values))

    def added_to(self, table: TableId) -> tuple[tuple[str, str], ...]:
        """Return the columns that the rule adds to a table that it matches, with their values."""
        found = self.pattern.fullmatch(f"{table.database}{_SEPARATOR}{table.table}")
        if found is None:
            return ()
        values = _values_of(table, found)
        return tuple([(name, _filled(template, values)) for name, template in self.rule.add])

    def merges_like(self, other: ParsedTableRule) -> bool:
        """Return whether both rules merge tables, in the same way."""
        ours, theirs = self.rule, other.rule
        columns, others = ([name for name, _ in rule.add] for rule in (ours, theirs))
        return ours.merge and theirs.merge and ours.ddl is theirs.ddl and columns == others


def _values_of(table: TableId, found: re.Match[str]) -> dict[str, str]:
    """Return the values of placeholders."""
    values = {"database": table.database, "table": table.table}
    values |= {str(at): group or "" for at, group in enumerate(found.groups(), 1)}
    return values | {name: group or "" for name, group in found.groupdict().items()}


def _filled(template: str, values: dict[str, str]) -> str:
    return _PLACEHOLDER.sub(lambda found: values[found[1]], template)


#: Between the names that an expression is matched with; no name has it.
_SEPARATOR: Final = "\0"
_PLACEHOLDER: Final = re.compile(r"\{([^{}]*)\}")
_ESCAPED: Final = re.compile(r"\\(.)", re.DOTALL)


def _split(text: str, parts: Sequence[ExpressionToken]) -> tuple[str, str]:
    """Return the expressions of the database and of the table. Raises ValueError."""
    depth, dot = 0, None
    for token, following in zip(parts, (*parts[1:], None), strict=True):
        depth += {"open": 1, "close": -1}.get(token.kind, 0)
        if depth:
            continue
        if token.kind == "branch":
            raise ValueError("has alternatives outside of a group: put them into one, or write several rules")
        is_dot = token.kind == "dot" or token.text == "\\."
        is_repeated = following is not None and following.kind == "repeat"
        if dot is None and is_dot and not is_repeated:
            dot = token
    database, table = ("", "") if dot is None else (text[: dot.start], text[dot.start + len(dot.text) :])
    if not database or not table:
        raise ValueError("is not of the form DATABASE\\.TABLE, such as shop\\.orders or shop\\..*")
    return database, table


def _is_literal(text: str) -> bool:
    """Return whether an expression matches only itself, apart from escaped characters."""
    return all(
        token.kind == "other" or (token.kind == "escape" and not token.text[1].isalnum())
        for token in tokens(text)
    )


def _parsed(rule: TableRule) -> ParsedTableRule:
    """Parse a rule. Raises ValueError about `source`, _KeyError about other keys."""
    text = without_anchors(rule.source)
    parts = tokens(text)
    check_repeats(parts)
    database, table = _split(text, parts)
    try:
        pattern, of_database = name_pair_patterns(database, table)
    except re.error as error:
        raise ValueError(f"is not a regular expression: {error.msg}") from None
    to_database, dot, to_table = rule.target.partition(".")
    if not (to_database and dot and to_table):
        message = f"{quoted(rule.target)} is not of the form DATABASE.TABLE, such as archive.{{table}}"
        raise _KeyError("to", message)
    for part in (to_database, to_table):
        for problem in _template_problems(part, pattern, MYSQL_NAME):
            raise _KeyError("to", f"{quoted(rule.target)} {problem}")
    _check_merge(rule, pattern)
    keeps_tables = table in _ALL_TABLES and to_table == "{table}"
    if table in {"(.*)", "(.+)"} and _is_literal(database):
        keeps_tables = to_table in {"{table}", "{1}"}
    whole = None
    if keeps_tables and _is_literal(database) and not _PLACEHOLDER.search(to_database):
        whole = _ESCAPED.sub(r"\1", database)
    return ParsedTableRule(rule, pattern, of_database, to_database, to_table, whole)


#: Expressions for all tables of a database.
_ALL_TABLES: Final = frozenset({".*", ".+", "(.*)", "(.+)"})


class _KeyError(ValueError):
    """A key of a rule other than `from` is wrong. `key`: its name in the configuration."""

    def __init__(self, key: str, message: str) -> None:
        super().__init__(message)
        self.key = key


def name_pair_patterns(database: str, table: str) -> tuple[re.Pattern[str], re.Pattern[str]]:
    """Return the patterns of both names, joined by a separator, and of the database alone."""
    return re.compile(f"{database}{_SEPARATOR}{table}", re.DOTALL), re.compile(database, re.DOTALL)


def _check_merge(rule: TableRule, pattern: re.Pattern[str]) -> None:
    """Raise _KeyError for wrong keys about merging."""
    if not rule.merge:
        unused = "add" if rule.add else "ddl" if rule.ddl is not MergedDdl.ALL else ""
        if unused:
            raise _KeyError(unused, "has no effect without merge = true")
    names = [name for name, _ in rule.add]
    if len({name.lower() for name in names}) < len(names):
        raise _KeyError("add", "names a column twice")
    for name, template in rule.add:
        if not 0 < len(name) <= MYSQL_NAME:
            raise _KeyError(
                "add", f"{quoted(name)} is no name of a column: it has 1 to {MYSQL_NAME} characters"
            )
        for problem in _template_problems(template, pattern, ADDED_LENGTH):
            raise _KeyError("add", f"{quoted(template)} {problem}")


#: The length of the columns that rules add, in characters.
ADDED_LENGTH: Final = 255


def _template_problems(text: str, pattern: re.Pattern[str], longest: int) -> Iterator[str]:
    """Yield the problems of a template: unknown placeholders, or fixed parts that are too long."""
    known = {"database", "table", *map(str, range(1, pattern.groups + 1)), *pattern.groupindex}
    for name in _PLACEHOLDER.findall(text):
        if name not in known:
            names = ", ".join(f"{{{each}}}" for each in sorted(known))
            yield f"has the unknown placeholder {quoted(f'{{{name}}}')}; known here: {names}"
    rest = _PLACEHOLDER.sub("", text)
    if "{" in rest or "}" in rest:
        yield "has a brace that belongs to no placeholder"
    if len(rest) > longest:
        yield f"has more than {longest} characters"


def parse_rules(rules: Sequence[TableRule]) -> tuple[ParsedTableRule, ...]:
    """Parse rules.

    Raises ConfigError with all problems; their paths are `tables.0.from` and the like.
    """
    found: list[ParsedTableRule] = []
    problems: list[Problem] = []
    for at, rule in enumerate(rules):
        try:
            found.append(_parsed(rule))
        except _KeyError as error:
            problems.append(Problem(f"tables.{at}.{error.key}", str(error)))
        except ValueError as error:
            problems.append(Problem(f"tables.{at}.from", f"{quoted(rule.source)} {error}"))
    if problems:
        raise ConfigError(problems)
    return tuple(found)


#: The form of a rule on one line, for hints.
RULE_FORM: Final = (
    "write FROM -> TO, such as 'shop.orders -> archive.orders' or 'shop\\.(.*) -> archive.{1}', or "
    "'shop\\.orders_\\d+ -> shop.orders merge' with ddl=first and add.COLUMN=VALUE, if needed, after it"
)


def parse_rule(text: str) -> TableRule:
    """Parse a rule on one line: `FROM -> TO`, or `FROM -> TO merge ddl=first add.shard={table}`.

    Raises ValueError.
    """
    source, arrow, target = map(str.strip, text.partition("->"))
    if not arrow or not source or not target:
        raise ValueError("is not a rule")
    words = target.split()
    if words[1:2] != ["merge"]:
        return TableRule(source=source, target=target)
    given = TableRule(source=source, target=words[0], merge=True)
    for word in words[2:]:
        given = _with_setting(given, *word.partition("="))
    return given


def _with_setting(rule: TableRule, key: str, sign: str, value: str) -> TableRule:
    """Return a rule with a setting of its one-line form. Raises ValueError."""
    column = key.removeprefix("add.")
    if sign and column and column != key:
        return msgspec.structs.replace(rule, add=(*rule.add, (column, value)))
    if key == "ddl" and value in set(MergedDdl):
        return msgspec.structs.replace(rule, ddl=MergedDdl(value))
    raise ValueError(f"{quoted(key + sign + value)} is not a setting")
