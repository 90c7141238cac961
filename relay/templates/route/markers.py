"""The text at the marker, by which templates are looked up (`relay.templates.ops.Marker`)."""

from __future__ import annotations

from typing import Final

from relay.model.records import ConsumerRecord
from relay.templates.ops import Marker

#: Set in each byte of a number but the last.
_MORE: Final = 0x80
#: A number of 64 bits takes ten bytes of seven.
_MOST_SHIFT: Final = 63


def marked_text(marker: Marker, record: ConsumerRecord) -> bytes | None:
    """Return a record's text at the marker; None if it has none."""
    has_key = marker.part == "key" or (marker.part == "any" and record.key is not None)
    text = record.key if has_key else record.value
    if text is None:
        return None
    if marker.size:
        end = _end_of_values(marker, text)
        return None if end is None else text[:end]
    if marker.texts:
        return _texts(marker, text)
    start = text.find(marker.start)
    behind = text.find(marker.end, start + len(marker.start))
    return None if start < 0 or behind < 0 else text[start:behind]


def _end_of_values(marker: Marker, text: bytes) -> int | None:
    """Return the offset behind the marker's Avro values; None if they are not valid."""
    at = marker.size
    for kind in marker.values:
        found = _varint(text, at)
        if found is None:
            return None
        number, at = found
        if kind == "string" and number & 1:
            return None  # a negative size
        if kind == "string":
            at += number >> 1
    return at if at <= len(text) else None


def _varint(text: bytes, at: int) -> tuple[int, int] | None:
    """Return a number and the offset behind it; None if it is not valid."""
    number = 0
    for shift in range(0, _MOST_SHIFT + 1, 7):
        if at >= len(text):
            return None
        byte = text[at]
        at += 1
        number |= (byte & ~_MORE) << shift
        if byte < _MORE:
            return number, at
    return None


def _texts(marker: Marker, part: bytes) -> bytes | None:
    """Return the marker's texts (`Marker.texts`); None without a valid place."""
    first = None
    at = part.find(marker.start)
    while at >= 0:
        begin = at + len(marker.start)
        end = _end_of_texts(marker.texts, part, begin)
        if end is not None:
            if end - begin > 2 * marker.texts - 1:
                return part[begin:end]
            first = first or part[begin:end]
        at = part.find(marker.start, begin)
    return first


def _end_of_texts(count: int, part: bytes, at: int) -> int | None:
    """Return the offset behind texts with their lengths; None if they are not valid."""
    for number in range(count):
        at += number > 0
        if at >= len(part) or part[at] >= _MORE:
            return None
        at += 1 + part[at]
    return at if at <= len(part) else None
