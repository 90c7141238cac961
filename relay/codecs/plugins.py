"""Objects from other packages, loaded by entry points."""

from __future__ import annotations

from importlib.metadata import entry_points
from typing import Generic, NamedTuple, TypeVar

from relay.model.errors import Problem

Kind = TypeVar("Kind")


class Plugin(NamedTuple, Generic[Kind]):
    """An entry point: its `name`, the `reference` of its object (`module:NAME`), and the object, or its
    problem.
    """

    name: str
    reference: str
    found: Kind | None
    problem: Problem | None = None


def installed(group: str, kind: type[Kind]) -> list[Plugin[Kind]]:
    """Load the objects of a group. One that cannot be loaded, or is of another kind, has a problem."""
    plugins: list[Plugin[Kind]] = []
    for entry_point in entry_points(group=group):
        name, reference = entry_point.name, entry_point.value
        try:
            found = entry_point.load()
        except (Exception, SystemExit) as error:  # another package's code: anything may be wrong with it
            why = f"cannot be loaded: {type(error).__name__}: {error}"
            plugins.append(Plugin(name, reference, None, unusable(reference, why)))
            continue
        problem = None if isinstance(found, kind) else unusable(reference, f"is not a {kind.__name__}")
        plugins.append(Plugin(name, reference, None if problem else found, problem))
    return plugins


def unusable(reference: str, why: str) -> Problem:
    """Return the problem of an entry point that relay cannot use."""
    return Problem(f"entry point {reference}", why, "uninstall or update the package that provides it")
