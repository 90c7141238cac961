"""Flags of the command line: `--set table.key=value`."""

from __future__ import annotations

import tomllib
import typing
from collections.abc import Mapping, Sequence
from contextvars import ContextVar
from typing import Any

from pydantic import BaseModel
from pydantic.fields import FieldInfo
from pydantic_settings import PydanticBaseSettingsSource

from relay.config.key_names import is_text, type_at
from relay.model.errors import Problem
from relay.text.redaction import quoted

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
