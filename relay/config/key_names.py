"""The keys of the configuration, as its tables declare them: for flags, for variables, and for hints."""

from __future__ import annotations

import typing
from collections.abc import Iterator, Mapping, Sequence
from typing import Any, Final

from pydantic import BaseModel, SecretStr
from pydantic.fields import FieldInfo

Path = tuple[str, ...]
#: Earlier names of keys, so that the error about an old key names the new one.
_RENAMED: Final[Mapping[str, str]] = {
    "errors.first_failures": "max_initial_failures",
    "errors.on_first_failures": "on_max_initial_failures",
    "errors.failure_share": "max_failure_ratio",
    "errors.on_failure_share": "on_max_failure_ratio",
    "errors.least_failures": "min_failures",
    "schema.wait": "wait_for_ddl",
    "schema.bootstrap": "schema_dumps",
    "schema.bootstrap_database": "schema_dumps_database",
    "schema.bootstrap_as_of": "schema_dumps_as_of",
    "source.schema_registry.cache": "cache_dir",
    "target.schema_registry.cache": "cache_dir",
    "http.tables": "status_table_limit",
}


def keys_of(model: type[BaseModel]) -> dict[str, FieldInfo]:
    """Return the keys of a table, as they are written, with their fields."""
    return {field.alias or name: field for name, field in model.model_fields.items()}


def type_at(model: type[BaseModel], path: Sequence[str]) -> Any:  # noqa: ANN401 - a type, or a form such as dict[str, str]
    """Return the declared type of a key, without constraints; None for an unknown key.

    For a key inside a table of options, it is that of all its values.
    """
    found: Any = model
    for name in path:
        if is_table(found):
            field = keys_of(found).get(name)
            found = field.annotation if field else None
        else:
            found = typing.get_args(found)[1] if typing.get_origin(found) is dict else None
            found = found.__origin__ if typing.get_origin(found) is typing.Annotated else found
    return found


def new_name(path: Sequence[str]) -> str:
    """Return the present name of a key that was renamed; "" for any other."""
    return _RENAMED.get(".".join(path), "")


def is_table(declared: object) -> typing.TypeGuard[type[BaseModel]]:
    """Return whether a declared type is a table with keys."""
    return isinstance(declared, type) and issubclass(declared, BaseModel)


def is_text(declared: object) -> bool:
    """Return whether a declared type takes any text, secret or not. A choice does not."""
    return declared in (str, SecretStr)


def leaves(model: type[BaseModel], path: Path = ()) -> Iterator[tuple[Path, Any]]:
    """Yield every key that is not a table of keys, with its declared type."""
    for name, field in keys_of(model).items():
        if is_table(field.annotation):
            yield from leaves(field.annotation, (*path, name))
        else:
            yield (*path, name), field.annotation
