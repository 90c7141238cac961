"""The drawing of relay's rooms in docs/architecture.md: their order from the contracts of import-linter in
pyproject.toml, their arrows from the imports of the code.
"""

from __future__ import annotations

import functools
import tomllib
from pathlib import Path
from typing import NamedTuple

import grimp

_PYPROJECT = Path(__file__).parents[2] / "pyproject.toml"
_PACKAGES = ("relay", "spark_backfill")
#: The package whose inside is drawn, too.
_OPEN = "relay.codecs"
#: They only gather the public names, or start the command line.
_DOORS = {"relay", "relay.__main__", "relay.templates"}


class Room(NamedTuple):
    """Modules and packages that stand together in the drawing. `level` counts from the top; `container` is
    the package that the room is in, if that one is drawn too.
    """

    members: tuple[str, ...]
    level: tuple[int, ...]
    container: str = ""

    @property
    def name(self) -> str:
        """Its name in the drawing."""
        return ", ".join(each.rpartition(".")[2] for each in self.members)


class Arrow(NamedTuple):
    """One room imports another."""

    importer: Room
    imported: Room


@functools.cache
def rooms() -> list[Room]:
    """All rooms from the top; the Spark job stands above, for nothing knows it."""
    contracts = tomllib.loads(_PYPROJECT.read_text(encoding="utf-8"))["tool"]["importlinter"]["contracts"]
    found = [Room(("spark_backfill",), (0,))]
    layers = {
        container: contract["layers"]
        for contract in contracts
        if contract["type"] == "layers"
        for container in contract.get("containers", [""])
    }
    for number, layer in enumerate(layers[""]):
        members = tuple(layer.split(" : "))
        found.append(Room(members, (number,)))
        for at, names in enumerate(layers[_OPEN] if layer == _OPEN else ()):
            found += [Room((f"{layer}.{name}",), (number, at), layer) for name in names.split(" | ")]
    return found


def room_of(module: str) -> Room | None:
    """The innermost room of a module."""
    path = module
    while path:
        for room in rooms():
            if path in room.members:
                return room
        path = path.rpartition(".")[0]
    return None


@functools.cache
def arrows() -> frozenset[Arrow]:
    """What the rooms import of each other."""
    graph = grimp.build_graph(*_PACKAGES, cache_dir=None)
    found = set()
    for module in graph.modules - _DOORS:
        importer = room_of(module)
        assert importer, f"{module} stands in no layer of pyproject.toml"
        for other in graph.find_modules_directly_imported_by(module) - _DOORS:
            imported = room_of(other)
            if imported and imported != importer:
                found.add(Arrow(importer, imported))
    return frozenset(found)


def _needed(arrow: Arrow) -> bool:
    """Whether the arrow does not follow from others: no path by way of a third room leads the same way."""
    seen: set[Room] = set()
    ahead = [each.imported for each in arrows() if each.importer == arrow.importer and each != arrow]
    while ahead:
        room = ahead.pop()
        if room not in seen:
            seen.add(room)
            ahead += [each.imported for each in arrows() if each.importer == room]
    return arrow.imported not in seen


def part() -> str:
    """The drawing, in Mermaid's language."""
    lines = []
    for room in rooms():
        inside = [each for each in rooms() if each.container in room.members]
        if inside:
            lines += [
                f'subgraph {_id(room)}_package["{room.members[0]}"]',
                *map(_node, (room, *inside)),
                "end",
            ]
        elif not room.container:
            lines.append(_node(room))
    for room in rooms():
        needed = {each.imported for each in arrows() if each.importer == room and _needed(each)}
        if needed:
            lines.append(f"{_id(room)} --> {' & '.join(_id(each) for each in rooms() if each in needed)}")
    return "".join(f"{line}\n" for line in ("```mermaid", "flowchart TD", *lines, "```"))


def _node(room: Room) -> str:
    return _id(room) if len(room.members) == 1 else f'{_id(room)}["{room.name}"]'


def _id(room: Room) -> str:
    return room.members[0].rpartition(".")[2]
