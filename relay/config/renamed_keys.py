"""Earlier names of keys, so that the error about an old key names the new one."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

_RENAMED: Final[Mapping[str, str]] = {
    "errors.max_initial_failures": "max_initial_failures",
    "errors.on_max_initial_failures": "on_max_initial_failures",
    "errors.max_failure_ratio": "max_failure_ratio",
    "errors.on_max_failure_ratio": "on_max_failure_ratio",
    "errors.min_failures": "min_failures",
    "schema.wait_for_ddl": "wait_for_ddl",
    "schema.schema_dumps": "schema_dumps",
    "schema.schema_dumps_database": "schema_dumps_database",
    "schema.schema_dumps_as_of": "schema_dumps_as_of",
    "source.schema_registry.cache": "cache_dir",
    "target.schema_registry.cache": "cache_dir",
    "http.status_table_limit": "status_table_limit",
}


def new_name(path: Sequence[str]) -> str:
    """Return the present name of a key that was renamed; "" for any other."""
    return _RENAMED.get(".".join(path), "")


__all__ = ["new_name"]
