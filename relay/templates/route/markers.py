"""The text at the marker, by which templates are looked up (`relay.templates.ops.Marker`)."""

from __future__ import annotations

from typing import Final

from relay.model.records import ConsumerRecord
from relay.templates.ops import Marker


def marked_text(marker: Marker, record: ConsumerRecord) -> bytes | None:
    """Return a record's text at the marker; None if it has none."""
    has_key = marker.part == "key" or (marker.part == "any" and record.key is not None)
    text = record.key if has_key else record.value
    if text is None:
        return None
    if marker.size:
        end = _end_of_values(marker, text)
        return text[:end] if 0 < end <= len(text) else None
    if marker.texts:
        return _texts(marker, text)
    start = text.find(marker.start)
    end = text.find(marker.end, start + len(marker.start))
    return None if start < 0 or end < 0 else text[start:end]


_MORE: Final = 0x80


def _end_of_values(marker: Marker, text: bytes) -> int:
    """Return the offset behind the marker's Avro values; 0 if they are not valid."""
    at = marker.size
    for kind in marker.values:
        number = shift = 0
        while True:
            if at >= len(text) or shift > _MOST_SHIFT:
                return 0
            byte = text[at]
            at += 1
            number |= (byte & ~_MORE) << shift
            shift += 7
            if byte < _MORE:
                break
        if kind == "string":
            if number & 1:
                return 0
            at += number >> 1
    return at


_MOST_SHIFT: Final = 63


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
