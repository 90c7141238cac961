"""Remove wrong parts from tables, so that one run finds the mistakes of every stage."""

from __future__ import annotations

import copy
from collections.abc import Mapping, MutableMapping, Sequence
from typing import Any, Final

from pydantic_core import ErrorDetails

Tables = dict[str, Any]
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
            _put(self.file, location, copy.deepcopy(_STAND_INS[location]))
            return True
        found = [_removed(tables, location) for tables in (self.flags, self.file)]
        if variable := variables.get(location):
            self.ignored.add(variable)
        return any(found) or bool(variable)


def _put(tables: MutableMapping[str, Any], location: Location, value: object) -> None:
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
