"""Old rows of Open Protocol whose columns have lost their names.

With `only-output-updated-columns`, where a value becomes NULL, TiCDC writes the column's cell into `p`
without the column's name: `"p":{"t":252,"f":64,"v":"b2xk"}`, also between columns that have theirs, and
several times in one object (pingcap/ticdc b813e76f9, 2026-08). Such a cell is that of a column which is NULL
in `u`, with the same code and flags, and cells keep the order of the table.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

#: A column's code and flags.
Said = tuple[int, int | None]
Members = dict[str, Any]


def with_names(old: bytes, nulls: Sequence[tuple[str, Said]]) -> dict[str, Members] | None:
    """The cells of such a `p` by column, given the columns that are NULL in `u` in table order.

    None if more than one column could be meant, or none. Raises ValueError if it is something else.
    """
    named, nameless = _cells(old)
    nulls = [(name, said) for name, said in nulls if name not in named]
    wanted = [(cell["t"], cell.get("f")) for cell in nameless]
    first, last = _matched(wanted, nulls), _matched(wanted[::-1], nulls[::-1])
    # Taken from the left and from the right alike, there is no other way.
    return (
        named | dict(zip(first, nameless, strict=True))
        if first == last[::-1] and len(first) == len(wanted)
        else None
    )


def _cells(old: bytes) -> tuple[dict[str, Members], list[Members]]:
    named: dict[str, Members] = {}
    nameless: list[Members] = []
    members = json.loads(old.decode(), object_pairs_hook=tuple)
    for name, value in members if isinstance(members, tuple) else ():
        if isinstance(value, tuple):
            named[name] = dict(value)
        elif name == "t":
            nameless.append({"t": value})
        elif nameless and name in {"h", "f", "v"}:
            nameless[-1][name] = value
        else:
            raise ValueError("a member that is no cell")
    if not all("v" in cell for cell in nameless) or not nameless:
        raise ValueError("no cell without a name")
    return named, nameless


def _matched(wanted: Sequence[Said], columns: Sequence[tuple[str, Said]]) -> list[str]:
    """The first columns, in order, that have these codes and flags; fewer if there are not enough."""
    rest = iter(columns)
    found = (next((name for name, said in rest if said == one), None) for one in wanted)
    return [name for name in found if name is not None]
