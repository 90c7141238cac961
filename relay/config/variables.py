"""Report environment variables that resemble relay's but are not: pydantic would ignore them silently."""

from __future__ import annotations

import difflib
import re
from collections.abc import Mapping, Sequence
from collections.abc import Set as AbstractSet
from contextvars import ContextVar
from typing import Final

from pydantic import BaseModel

from relay.config.key_names import leaves
from relay.model.errors import Problem
from relay.text.hints import hint_for

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
