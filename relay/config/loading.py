"""The relay's configuration: a TOML file, overridden by environment variables, as frozen and typed tables.

`load_config` reports every problem at once, each with its key path and a hint. Precedence: flag > environment
> file > default. A variable is `RELAY_<TABLE>__<KEY>` (`RELAY_SOURCE__GROUP_ID`); lists are written with
commas; the hyphens of a codec's option become underscores
(`RELAY_ROUTE__FROM_OPTIONS__ENABLE_TIDB_EXTENSION`).
"""

from __future__ import annotations

import contextlib
import copy
import difflib
import os
import re
import tomllib
import typing
from collections.abc import Callable, Iterable, Mapping, MutableMapping, Sequence
from pathlib import Path
from typing import Any, Final, NamedTuple

from pydantic import ValidationError
from pydantic_core import ErrorDetails
from pydantic_settings import SettingsError

from relay.config.checks import config_problems, route_problems
from relay.config.config import Config
from relay.config.key_names import is_table, keys_of, new_name, type_at
from relay.config.keys import RouteConfig
from relay.config.overrides import (
    BETWEEN,
    PREFIX,
    Tables,
    flag_tables,
    hint_for_key,
    ignored_variables,
    is_given,
    stray_variables,
    tables_of,
    variable_of,
)
from relay.config.secrets import secrets_in, without_secrets
from relay.io.files import read_small
from relay.io.log_text import LogFormat
from relay.model.errors import ConfigError, Problem
from relay.text.redaction import shown_name

_CHOICE = re.compile("'([^']*)'")
#: Kinds of pydantic's errors about numbers that are out of bounds, or not of the right kind.
_ABOUT_NUMBERS = ("greater_than", "less_than", "int_", "float_", "finite_")
#: Expected values, by the prefixes of pydantic's errors about values of another type.
_SORTS: Final = {
    "int_": "must be a whole number",
    "float_": "must be a number",
    "bool_": "must be true or false",
    "string_": "must be text in quotes",
    "list_": 'must be a list, as ["a", "b"]',
    "dict_": "must be a table, as {a = 1}",
    "model_": "must be a table",
}
_SORT_KINDS: Final = ("_type", "_parsing", "_from_float", "_parsing_size")


class Examined(NamedTuple):
    """A configuration with all its problems, and additional findings.

    `config`: the configuration without the wrong parts, if there are any; None if too little is left.
    """

    config: Config | None
    problems: list[Problem]
    more: list[Problem]


def load_config(path: Path, settings: Sequence[str] = ()) -> Config:
    """Read file, environment and flags (`table.key=value`); raises ConfigError with every problem found."""
    found = examine(path, settings)
    if found.problems or found.config is None:
        raise ConfigError(found.problems)
    return found.config


def examine(
    path: Path, settings: Sequence[str] = (), more: Callable[[Config], Iterable[Problem]] = lambda _: ()
) -> Examined:
    """Read file, environment and flags, and find every problem.

    `more`: finds additional problems for some callers; those about keys that are wrong themselves are left
    out.
    """
    strays = stray_variables(os.environ, Config)
    problems = [*strays]
    flags = tables_of(settings, Config, problems)
    try:
        data = _read(path)
    except ConfigError as error:
        return Examined(None, [*error.problems, *problems], [])
    # Not everything is passed to the constructor: pydantic reserves arguments whose names begin with
    # underscores.
    tables = {name: table for name, table in data.items() if name in keys_of(Config)}
    repairs = Repairs(tables, flags)
    repairs.ignored.update([each.path for each in strays])
    config = _config(repairs, problems)
    problems += [_unknown((name,)) for name in data if name not in tables]
    problems += route_problems(config.route if config else _route_alone(data))
    besides: list[Problem] = []
    if config is not None:
        config = config.read_from(str(path))
        problems += [
            each for each in config_problems(config) if each.path.split(".")[0] not in repairs.tables
        ]
        besides = [each for each in more(config) if not repairs.is_broken(each.path)]
    secrets = secrets_in(data, os.environ, settings)
    reported = [_named(each, flags) for each in without_secrets(problems, secrets)]
    return Examined(config, reported, [_named(each, flags) for each in without_secrets(besides, secrets)])


def log_format(path: Path, settings: Sequence[str]) -> LogFormat:
    """Return `format` of [log], whatever else is wrong with the configuration."""
    given: list[Any] = [
        each.partition("=")[2] for each in reversed(settings) if each.startswith("log.format=")
    ]
    given.append(os.environ.get(f"{PREFIX}LOG{BETWEEN}FORMAT"))
    with contextlib.suppress(ConfigError, AttributeError):
        given.append(_read(path).get("log", {}).get("format"))
    found = next((each for each in given if each), LogFormat.AUTO)
    return LogFormat(found) if found in list(LogFormat) else LogFormat.AUTO


#: How often wrong parts are removed: a key, then the consequences of its absence.
_ROUNDS: Final = 3


def _config(repairs: Repairs, problems: list[Problem]) -> Config | None:
    """Make the configuration without its wrong parts, whose problems are appended to `problems`.

    None if too little is left.
    """
    for _ in range(_ROUNDS):
        flags, ignored = flag_tables.set(repairs.flags), ignored_variables.set(repairs.ignored)
        try:
            return Config(**repairs.file)
        except SettingsError as error:
            problems.append(
                Problem("environment", str(error), "a table's variables are written RELAY_<TABLE>__<KEY>")
            )
            return None
        except ValidationError as error:
            errors = error.errors(include_url=False, include_context=False)
        finally:
            flag_tables.reset(flags)
            ignored_variables.reset(ignored)
        problems += [_problem(each) for each in errors if repairs.is_new(each)]
        variables = {each["loc"]: variable_of(os.environ, each["loc"]) for each in errors}
        if not repairs.without(errors, variables):
            return None
    return None


def _named(problem: Problem, flags: Mapping[str, Any]) -> Problem:
    """Rename a key from an environment variable to the variable. Flags win over variables."""
    path = problem.path.split(".")
    variable = variable_of(os.environ, path)
    if not variable or is_given(flags, path):
        return problem
    return problem._replace(path=variable)


def _read(path: Path) -> dict[str, Any]:
    try:
        return tomllib.loads(read_small(path).decode())
    except FileNotFoundError as error:
        hint = "give the path of a TOML file; config.example.toml shows every key"
        raise ConfigError([Problem(str(path), "no such file", hint)]) from error
    except tomllib.TOMLDecodeError as error:
        hint = "text values need quotes" if "Invalid value" in str(error) else ""
        raise ConfigError([Problem(str(path), f"is not TOML: {error}", hint)]) from error
    except RecursionError as error:
        raise ConfigError(
            [Problem(str(path), "is not readable TOML: lists or tables are nested too deeply")]
        ) from error
    except (
        OSError,
        ValueError,
    ) as error:  # also bytes that are no text, numbers that are too long, and NUL in the path
        raise ConfigError([Problem(str(path), f"cannot be read: {error}")]) from error


def _problem(details: ErrorDetails) -> Problem:
    path = _shown_path(details["loc"])
    kind = details["type"]
    if kind == "missing":
        return Problem(path, "is missing", "config.example.toml shows it")
    if kind == "extra_forbidden":
        return _unknown(tuple(str(part) for part in details["loc"]))
    if kind in {"string_too_short", "too_short"}:
        return Problem(path, "must not be empty")
    if kind.endswith(_SORT_KINDS) and (sort := _SORTS.get(kind[: kind.index("_") + 1])):
        return Problem(path, sort)
    # The value itself is shown only if it cannot be a secret: a number for a number, and text that resembles
    # a choice. A choice may mistakenly hold a password.
    is_number = isinstance(details["input"], int | float) and kind.startswith(_ABOUT_NUMBERS)
    given = ""
    if is_number or (kind == "enum" and _is_like_a_choice(details)):
        given = f", not {details['input']!r}"
    message = details["msg"].removeprefix("Value error, ")
    return Problem(path, message[0].lower() + message[1:] + given)


def _is_like_a_choice(details: ErrorDetails) -> bool:
    choices = [choice.lower() for choice in _CHOICE.findall(details["msg"])]
    return bool(difflib.get_close_matches(str(details["input"]).lower(), choices, n=1))


def _unknown(path: tuple[str, ...]) -> Problem:
    return Problem(_shown_path(path), "unknown key", hint_for_key(path[-1], _keys(path[:-1]), new_name(path)))


def _shown_path(path: Sequence[str | int]) -> str:
    return ".".join(shown_name(str(part)) for part in path)


def _keys(table: tuple[str, ...]) -> list[str]:
    model = type_at(Config, table)
    if model is None and table:
        # One table of several, by its number.
        model = next(iter(typing.get_args(type_at(Config, table[:-1]))), None)
    return list(keys_of(model)) if is_table(model) else []


def _route_alone(data: Mapping[str, Any]) -> RouteConfig | None:
    try:
        return RouteConfig.model_validate(data.get("route"))
    except ValidationError:
        return None


Location = tuple[str | int, ...]

#: Stand-ins for missing required values. There is none for [route]: too much depends on it.
_SOURCE: Final = {"bootstrap_servers": "broker.invalid:9092", "topics": ["topic"], "group_id": "group"}
_TARGET: Final = {"topic": "{topic}.target"}
_STAND_INS: Final[Mapping[Location, object]] = {
    ("source",): _SOURCE,
    ("target",): _TARGET,
    **{("source", key): value for key, value in _SOURCE.items()},
    **{("target", key): value for key, value in _TARGET.items()},
}


class Repairs:
    """The tables of file and flags, and the variables to ignore, without the refused parts.

    Wrong parts are removed, so that one run finds the mistakes of every stage.

    `broken`: paths where a value was removed or added, except unknown keys, whose absence has no
    consequences.
    """

    def __init__(self, file: Tables, flags: Tables) -> None:
        self.file, self.flags = copy.deepcopy(file), copy.deepcopy(flags)
        self.ignored: set[str] = set()
        self.broken: set[Location] = set()

    @property
    def tables(self) -> set[str]:
        """Return the tables in which a meaningful value differs from the given one."""
        return {str(each[0]) for each in self.broken if each}

    def is_broken(self, path: str) -> bool:
        """Return whether a key, or a table that it is in, was refused itself."""
        wanted = tuple(path.split("."))
        return any(wanted[: len(each)] == tuple(map(str, each)) for each in self.broken)

    def is_new(self, details: ErrorDetails) -> bool:
        """Return whether an error is about a given value, and not a consequence of a removal."""
        found = details["loc"]
        return not any(found[: len(each)] == each or each[: len(found)] == found for each in self.broken)

    def without(self, errors: Sequence[ErrorDetails], variables: Mapping[Location, str]) -> bool:
        """Remove the values that these errors are about. `variables`: the variable that sets each.

        Returns whether all of them could be removed.
        """
        done = [self._without(each, variables) for each in errors]
        return all(done)

    def _without(self, details: ErrorDetails, variables: Mapping[Location, str]) -> bool:
        location = details["loc"]
        if details["type"] != "extra_forbidden":
            self.broken.add(location)
        if details["type"] == "missing":
            if location not in _STAND_INS:
                return False
            _put_stand_in(self.file, location, copy.deepcopy(_STAND_INS[location]))
            return True
        found = [_removed(tables, location) for tables in (self.flags, self.file)]
        if variable := variables.get(location):
            self.ignored.add(variable)
        return any(found) or bool(variable)


def _put_stand_in(tables: MutableMapping[str, Any], location: Location, value: object) -> None:
    for part in location[:-1]:
        tables = tables.setdefault(str(part), {})
    tables[str(location[-1])] = value


def _removed(tables: object, location: Location) -> bool:
    """Remove the value at a location, with the list that it is in. Return whether there was one."""
    found: tuple[Tables, str] | None = None
    for part in location:
        if not isinstance(tables, dict):
            break
        if part not in tables:
            return False
        found = tables, str(part)
        tables = tables[part]
    if found is None:
        return False
    del found[0][found[1]]
    return True
