"""Values that override the file: environment variables, and flags (`--set table.key=value`).

pydantic silently ignores unknown `RELAY_…` variables and likely misspellings of known ones; this module
reports them.
"""

from __future__ import annotations

import difflib
import re
import tomllib
import typing
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from typing import Any, Final

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from relay.config.key_names import is_text, leaves, type_at
from relay.model.errors import Problem
from relay.text.hints import hint_for
from relay.text.redaction import quoted

PREFIX: Final = "RELAY_"
BETWEEN: Final = "__"
#: Variables outside of the configuration: of the command line, of `relay demo`, of the kernel, and the
#: password of `schema-history import --from-database`.
OTHERS: Final = ("RELAY_TRACEBACK", "RELAY_CACHE_DIR", "RELAY_KERNEL", "RELAY_DATABASE_PASSWORD")
#: Kubernetes sets such variables in pods for each service of their namespace, and a service may be named
#: relay or relay-something.
_SERVICE_LINK: Final = re.compile(
    r"RELAY_(\w+_)?(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT_\d+_(TCP|UDP|SCTP)(_(PROTO|PORT|ADDR))?)"
)
_LINK_ADDRESS: Final = re.compile(r"(tcp|udp|sctp)://.*")
#: Variables that are ignored, while a configuration is made without its wrong parts.
ignored_variables: ContextVar[AbstractSet[str]] = ContextVar("ignored_variables", default=frozenset())
_FORM: Final = "a table's variables are written RELAY_<TABLE>__<KEY>"


def stray_variables(environment: Mapping[str, str], model: type[BaseModel]) -> list[Problem]:
    """Find variables that begin with RELAY_ and name no table, or name a key with too few underscores."""
    problems = []
    for name in sorted(environment):
        if not name.startswith(PREFIX) or name in OTHERS or _is_service_link(name, environment[name]):
            continue
        if BETWEEN in name:
            table, known = name.removeprefix(PREFIX).partition(BETWEEN)[0].lower(), list(model.model_fields)
            if table not in known:
                problems.append(Problem(name, f"unknown table {table!r}", hint_for_key(table, known)))
        else:
            problems.append(_too_few_underscores(name, model))
    return problems


def variable_of(environment: Mapping[str, str], path: Sequence[str | int]) -> str:
    """Return the variable that sets a key, or the list or table that holds it; "" if there is none."""
    given = {name.upper(): name for name in environment if name.upper().startswith(PREFIX)}
    names = [str(part).replace("-", "_").upper() for part in path]
    for length in range(len(names), 1, -1):
        if found := given.get(PREFIX + BETWEEN.join(names[:length])):
            return found
    return ""


def hint_for_key(name: str, known: Sequence[str], new_name: str | None = None) -> str:
    """Return a hint for an unknown table or key."""
    return hint_for(name, known, "known: " + ", ".join(sorted(known)), new_name=new_name)


def _is_service_link(name: str, value: str) -> bool:
    """Return whether a variable is a service link.

    RELAY_HTTP_PORT may be the address of a service named relay-http, or a mistake for RELAY_HTTP__PORT: its
    value decides.
    """
    return bool(_SERVICE_LINK.fullmatch(name) or (name.endswith("_PORT") and _LINK_ADDRESS.fullmatch(value)))


def _too_few_underscores(name: str, model: type[BaseModel]) -> Problem:
    variables = dict.fromkeys(OTHERS, "")
    for path, declared in leaves(model):
        variable = PREFIX + BETWEEN.join(path).upper()
        collapsed = variable.replace(BETWEEN, "_")
        variables[variable] = collapsed
        is_option = name.startswith(f"{collapsed}_") and getattr(declared, "__origin__", None) is dict
        if name == collapsed or is_option:
            rest = name.removeprefix(collapsed)
            right = variable + (rest and f"{BETWEEN}{rest[1:]}")
            return Problem(name, "there are two underscores between table and key", f"did you mean {right}?")
    table = name.removeprefix(PREFIX).partition("_")[0].lower()
    what = (
        "there are two underscores between table and key"
        if table in model.model_fields
        else "is not a variable of relay"
    )
    like = difflib.get_close_matches(name, list(variables), n=1, cutoff=0.8)
    return Problem(name, what, f"did you mean {like[0]}?" if like else _FORM)


Tables = dict[str, Any]

#: The values of the flags, for the configuration that is being loaded.
flag_tables: ContextVar[Mapping[str, Any]] = ContextVar("flag_tables", default={})  # noqa: B039 - never changed


class FlagSource(PydanticBaseSettingsSource):
    """Flags as a source of pydantic's settings."""

    def __call__(self) -> Tables:
        """Return all tables."""
        return dict(flag_tables.get())

    def get_field_value(self, field: FieldInfo, field_name: str) -> tuple[Any, str, bool]:  # noqa: ARG002 - the library's signature
        """Return one table."""
        return flag_tables.get().get(field_name), field_name, True


def tables_of(settings: Sequence[str], model: type[BaseModel], problems: list[Problem]) -> Tables:
    """Parse `table.key=value` texts into tables; append errors to `problems`.

    A value is TOML, or text if it is not valid TOML. Where the key takes text, only quoted text is TOML:
    `007` and `true` are texts there.
    """
    tables: Tables = {}
    for setting in settings:
        path, equals, text = setting.partition("=")
        names = path.split(".")
        if not equals or len(names) < 2 or not all(names):
            problems.append(
                Problem(
                    "--set",
                    f"{quoted(path)} is not of the form TABLE.KEY=VALUE",
                    "for example source.group_id=blue",
                )
            )
            continue
        clash = _put(tables, names, _value(text, type_at(model, names)))
        if clash:
            problems.append(Problem("--set", f"{clash!r} is given as a value and as a table", "keep one"))
    return tables


def is_given(tables: Mapping[str, Any], path: Sequence[str]) -> bool:
    """Return whether tables have a key, or one that holds it."""
    found: object = tables
    for depth, name in enumerate(path):
        if not isinstance(found, Mapping):
            return depth > 1
        if name not in found:
            return False
        found = found[name]
    return True


def _put(tables: Tables, names: Sequence[str], value: object) -> str:
    """Set a nested value.

    Returns the name of a key that would be a value and a table at once, else an empty text.
    """
    table = tables
    for depth, name in enumerate(names[:-1], 1):
        table = table.setdefault(name, {})
        if not isinstance(table, dict):
            return ".".join(names[:depth])
    before = table.get(names[-1])
    if isinstance(before, dict) and not isinstance(value, dict):
        return ".".join(names)
    table[names[-1]] = value
    return ""


def _value(text: str, declared: object) -> object:
    try:
        value: object = tomllib.loads(f"value = {text}")["value"]
    except (
        ValueError,
        RecursionError,
    ):  # also a number with more digits than Python reads, and lists in thousands of lists
        return text
    if is_text(declared):
        is_one_text = isinstance(value, str) and not ("\n" in text and text[:3] not in {'"""', "'''"})
        return value if is_one_text else text
    if typing.get_origin(declared) is tuple:
        return value if isinstance(value, list | str) else text
    return value
