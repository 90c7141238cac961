"""The text at the marker, by which templates are found."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator
from typing import TypeVar

from reference_engine.avro import marked_values
from relay.templates.ops import Constant, Marker, SourceOp, Template

Part = TypeVar("Part", bytes, tuple[SourceOp, ...])


def marked(marker: Marker, text: bytes) -> bytes | None:
    """Return what a part of a message has at the marker; None if it lacks that."""
    if marker.texts:
        return _texts(marker, [text])
    if marker.size:
        end = marked_values(marker.values, text, marker.size) if len(text) >= marker.size else None
        return None if end is None else text[:end]
    start = text.find(marker.start)
    if start < 0:
        return None
    start += len(marker.start)
    end = text.find(marker.end, start)
    return None if end < 0 else text[start:end]


def _texts(marker: Marker, parts: Iterable[bytes]) -> bytes | None:
    """Return the first texts after their lengths of which one is not empty; if there are none, the first."""
    one = b"([\\x00-\\x7f])"
    found: list[bytes] = []
    for part in parts:
        for start in re.finditer(b"(?=%b)" % re.escape(marker.start), part):
            at = begin = start.end() + len(marker.start)
            for number in range(marker.texts):
                at += number > 0
                length = re.compile(one, re.DOTALL).match(part, at)
                at = len(part) + 1 if length is None else at + 1 + length[1][0]
            if at <= len(part):
                found.append(part[begin:at])
    filled = [text for text in found if len(text) > 2 * marker.texts - 1]
    return next(iter((*filled, *found)), None)


def _part(marker: Marker, key: Part | None, value: Part | None) -> Part | None:
    """Return the part that the marker is in."""
    return key if marker.part == "key" or (marker.part == "any" and key is not None) else value


def marked_in(marker: Marker, key: bytes | None, value: bytes | None) -> bytes | None:
    """Return what a record has at the marker; None if it lacks that."""
    text = _part(marker, key, value)
    return None if text is None else marked(marker, text)


def template_text(marker: Marker, template: Template) -> bytes:
    """Return what all messages of a template have at the marker. Raises ValueError if that is not certain."""
    ops = _part(marker, template.key, template.value)
    if marker.texts:
        found = _texts(marker, _runs(ops or (), only_first=False))
        if found is None:
            raise ValueError("a template's constants lack the marker")
        return found
    for text in _runs(ops or (), only_first=bool(marker.size) or not marker.start):
        found = marked(marker, text)
        if found is not None:
            return found
    raise ValueError("a template's constants lack the marker")


def _runs(ops: Iterable[SourceOp], *, only_first: bool) -> Iterator[bytes]:
    """Constants that stand next to each other, as one; of the part's beginning alone, or all."""
    run = b""
    for op in ops:
        if isinstance(op, Constant):
            run += op.text
            continue
        yield run
        if only_first:
            return
        run = b""
    yield run
