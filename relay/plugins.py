"""What other packages bring to relay: objects behind entry points."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from typing import TypeVar

from relay.errors import ConfigError, Problem

Kind = TypeVar("Kind")


def installed(group: str, kind: type[Kind]) -> Iterator[tuple[str, Kind]]:
    """The objects of a group, each with the place where it stands (`module:NAME`).

    Raises ConfigError for what cannot be loaded or is of another kind.
    """
    for entry_point in entry_points(group=group):
        place = entry_point.value
        try:
            found = entry_point.load()
        except (Exception, SystemExit) as error:  # another package's code: anything may be wrong with it
            raise unusable(place, f"cannot be loaded: {type(error).__name__}: {error}") from error
        if not isinstance(found, kind):
            raise unusable(place, f"is not a {kind.__name__}")
        yield place, found


def unusable(place: str, why: str) -> ConfigError:
    """The error for an entry point that relay cannot use."""
    hint = "uninstall or update the package that brings it"
    return ConfigError([Problem(f"entry point {place}", why, hint)])
