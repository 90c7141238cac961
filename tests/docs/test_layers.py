"""The rooms of the code are those of the contracts, and the documentation names them all."""

from __future__ import annotations

from collections import Counter

from docs.generate import ROOT
from docs.layers import Arrow, Room, arrows, rooms


def _words(arrow: Arrow) -> str:
    return f"{arrow.importer.name} imports {arrow.imported.name}"


def test_no_arrow_points_up_or_sideways() -> None:
    assert len(arrows()) > 50
    assert [_words(each) for each in arrows() if each.importer.level >= each.imported.level] == []


def test_families_stand_side_by_side_on_one_foundation() -> None:
    inside = [room for room in rooms() if room.container == "relay.codecs"]
    ((level, _),) = Counter(room.level for room in inside).most_common(1)
    families = [room for room in inside if room.level == level]
    beneath = {room for room in inside if room.level > level}
    assert len(families) > 1
    for family in families:
        assert beneath <= _reached(family)


def _reached(room: Room) -> set[Room]:
    """The rooms that a room imports, and those that these import."""
    found = {each.imported for each in arrows() if each.importer == room}
    return found.union(*map(_reached, found))


def test_the_table_of_layers_has_every_room() -> None:
    text = (ROOT / "docs/architecture.md").read_text(encoding="utf-8")
    table = text.partition("\n## Layers\n")[2].partition("\n## ")[0]
    named = [name for room in rooms() if not room.container for name in room.members]
    assert [name for name in named if f"`{name}`" not in table] == []
