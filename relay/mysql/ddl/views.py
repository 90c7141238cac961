"""Views: the names of their columns, as far as the statement contains them. It has no types."""

from __future__ import annotations

import re
from typing import Final

_NAME: Final = r"(?:`(?:[^`]|``)+`|[\w$]+)"
_VIEW: Final = re.compile(
    rf"\bVIEW\s+{_NAME}(?:\.{_NAME})?\s*(?:(\([^()]*\))\s*)?AS\s+SELECT\s+(.*)", re.IGNORECASE | re.DOTALL
)
_ITEM: Final = re.compile(
    rf"(?:{_NAME}\.)*({_NAME})(?:\s+AS\s+({_NAME}))?\s*(,|\bFROM\b|$)\s*", re.IGNORECASE
)


def view_columns(ddl: str) -> tuple[str, ...] | None:
    """Return the column names in CREATE VIEW: from a column list, or from columns with or without AS.

    None if the text does not show them, or if two are equal, which no view has. The text must have no
    comments.
    """
    names = _listed(ddl)
    return names if names is None or len({name.lower() for name in names}) == len(names) else None


def _listed(ddl: str) -> tuple[str, ...] | None:
    found = _VIEW.search(ddl)
    if found is None:
        return None
    listed, rest = found.groups()
    if listed:
        return tuple(_unquoted(name) for name in re.findall(_NAME, listed))
    names: list[str] = []
    at = 0
    while item := _ITEM.match(rest, at):
        names.append(_unquoted(item[2] or item[1]))
        if item[3] != ",":
            return tuple(names)
        at = item.end()
    return None


def _unquoted(name: str) -> str:
    return name[1:-1].replace("``", "`") if name.startswith("`") else name
