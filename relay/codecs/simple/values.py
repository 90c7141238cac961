"""Values of both encodings: the zone that each TIMESTAMP names, and numbers of ENUM and SET."""

from __future__ import annotations

import functools
from collections.abc import Callable
from datetime import UTC, tzinfo
from typing import Any, Final

import msgspec

from relay.codecs.codec import zone_of
from relay.model.events import ColumnType
from relay.mysql import temporal
from relay.mysql.conversion_names import kernel_name

#: The zone name of a server without a named zone (Go's time.Local).
LOCAL: Final = "Local"


class ZonedText(msgspec.Struct, gc=False):
    """A TIMESTAMP: local time of a zone."""

    location: str
    value: str


@functools.lru_cache(maxsize=1024)
def named_zone(location: str) -> tzinfo | None:
    """Return the zone of a value's `location`; None for `Local`, which names none. Raises ValueError."""
    if location == LOCAL:
        return None
    try:
        return zone_of(location)
    except ValueError:
        # The name comes from a row, so the error does not contain it.
        raise ValueError("a location that is not a time zone") from None


def location_of(zone_name: str) -> tuple[tzinfo, str]:
    """Return the zone in which TIMESTAMP is written, and its name in Go.

    Readers cannot look up an offset such as +08:00 by name; UTC they can, and it has the same moments.
    """
    zone = zone_of(zone_name)
    if zone is UTC or zone_name[:1] in {"+", "-"}:
        return UTC, "UTC"
    return zone, zone_name


def max_member_number(column_type: ColumnType) -> int:
    """Return the maximum number of a value of ENUM or SET."""
    members = column_type.members
    if members is None:
        return (1 << 64) - 1
    return len(members) if column_type.base == "enum" else (1 << len(members)) - 1


def checked_number(most: int, number: int) -> int:
    """Return the number of a member, or of several. Raises ValueError for a number of no member."""
    if not 0 <= number <= most:
        raise ValueError("a number without a member of the type")
    return number


def member_number(most: int, value: int | str) -> int:
    """Return the number to write for a value of ENUM or SET. Raises TypeError for a label, ValueError for
    a number that readers refuse (`checked_number`).
    """
    if not isinstance(value, int):
        raise TypeError("a label whose members are unknown has no number")
    return checked_number(most, value)


def read_text(value: Any) -> str:  # noqa: ANN401 - any wire value
    """Return text unchanged. Raises TypeError for any other value."""
    if type(value) is not str:
        raise TypeError("not text")
    return value


def timestamp_reader(fallback: tzinfo) -> Callable[[ZonedText], str]:
    """Return the function that reads a TIMESTAMP; `fallback`: the zone of one without a named zone."""
    return functools.partial(_read_timestamp, fallback)


def _read_timestamp(fallback: tzinfo, value: ZonedText) -> str:
    if not isinstance(value, ZonedText):
        raise TypeError("not a time with its location")
    zone = named_zone(value.location)
    return temporal.read_timestamp(fallback if zone is None else zone, value.value)


def timestamp_writer(zone: tzinfo, zone_name: str, unmoved: Callable[[], None]) -> Callable[[str], ZonedText]:
    """Return the function that writes a TIMESTAMP in a zone of this name; `unmoved` is called for a value
    that does not exist in the zone's calendar.
    """
    write = functools.partial(_write_timestamp, zone, zone_name, unmoved)
    return kernel_name("zoned-text", zone_name)(write) if zone is UTC else write


def _write_timestamp(zone: tzinfo, zone_name: str, unmoved: Callable[[], None], value: str) -> ZonedText:
    if zone is not UTC:
        value = temporal.timestamp_text(zone, value, unmoved)
    return ZonedText(zone_name, value)


def location_in(value: Any) -> str | None:  # noqa: ANN401 - any wire value
    """Return the zone that a TIMESTAMP names, None for other values."""
    return value.location if isinstance(value, ZonedText) else None
