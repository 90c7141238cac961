"""Values of both encodings: the zone that each TIMESTAMP names, and numbers of ENUM and SET."""

from __future__ import annotations

import functools
from datetime import UTC, tzinfo
from typing import Final

from relay.codecs.codec import zone_of
from relay.model import ColumnType

#: The zone that a server has which was not told its own by name (Go's time.Local).
LOCAL: Final = "Local"


@functools.lru_cache(maxsize=1024)
def named_zone(location: str) -> tzinfo | None:
    """Return the zone of a value's `location`; None for `Local`, which tells none. Raises ValueError."""
    return None if location == LOCAL else zone_of(location)


def location_of(zone_name: str) -> tuple[tzinfo, str]:
    """Return the zone in which TIMESTAMP is written, and its name as Go has it.

    An offset such as +08:00 is no name that readers could look up: UTC is, and means the same moments.
    """
    zone = zone_of(zone_name)
    if zone is UTC or zone_name[:1] in {"+", "-"}:
        return UTC, "UTC"
    return zone, zone_name


def most_number(column_type: ColumnType) -> int:
    """Return the greatest number that a value of ENUM or SET may be."""
    members = column_type.members
    if members is None:
        return (1 << 64) - 1
    return len(members) if column_type.base == "enum" else (1 << len(members)) - 1


def checked_number(most: int, number: int) -> int:
    """Return the number of a member, or of several. Raises ValueError for one that stands for none."""
    if not 0 <= number <= most:
        raise ValueError("a number that stands for no member of the type")
    return number
