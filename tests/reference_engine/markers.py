"""The text at the marker, by which templates are found."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from relay.templates.ops import Constant, Marker, SourceOp, Template


def marked(marker: Marker, text: bytes) -> bytes | None:
    """Return what a part of a message has at the marker; None if it lacks that."""
    start = text.find(marker.start)
    if start < 0:
        return None
    start += len(marker.start)
    end = text.find(marker.end, start)
    return None if end < 0 else text[start:end]


def template_text(marker: Marker, template: Template) -> bytes:
    """Return what all messages of a template have at the marker. Raises ValueError if that is not certain."""
    ops = template.key if marker.part == "key" else template.value
    for text in _runs(ops or (), only_first=not marker.start):
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
