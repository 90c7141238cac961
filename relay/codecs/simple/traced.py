"""Templates of rows of Simple as JSON: text cells, commit ts and times besides them.

A row names its definition by a version, which is the same in every message of its shape: no DDL changes its
meaning, so rows need not follow any.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.codec import TracedMessage
from relay.codecs.shared.conversions import Read
from relay.codecs.shared.rows import TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, conversion, integer_at
from relay.codecs.simple.values import read_text
from relay.model.events import TSO_LOGICAL_BITS, RowChange
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.conversion_names import Conversion
from relay.templates.ops import Take
from relay.templates.scanning import INTEGER, TEXT_OR_NULL, JsonToken, Path, parsed, source_ops
from relay.templates.tracing import NotTemplatable, Trace, TracedCell, TracedNumber

_MILLISECOND_NS: Final = 1_000_000
_COMMIT_TS: Final[Path] = ("commitTs",)
_START_TS: Final[Path] = ("startTs",)
_BUILD_TS: Final[Path] = ("buildTs",)
_CHECKSUM: Final[Path] = ("checksum",)
#: Checksums of the new row and of the old one.
_SUMS: Final = ("current", "previous")
_DATA, _OLD = "data", "old"
_NULL: Final = Take(("null",))
_STRING: Final = Take(("string",))
#: The zone of canonical TIMESTAMP text.
_UTC: Final = b'"UTC"'
_DATETIME: Final[Conversion] = ("datetime",)


class _Cell(NamedTuple):
    """The path of a column's value, and its possible values."""

    path: Path
    take: Take


def traced_row(record: ConsumerRecord, change: RowChange, trace: Trace, *, verifies: bool) -> TracedMessage:
    """Return a message of one row with traced values. `verifies`: checksums are compared with the values.
    Raises NotTemplatable.
    """
    images, value = change.images, record.value or b""
    if type(images) is not TypedRows or record.key is not None:
        raise NotTemplatable
    root = parsed(value)
    if root.at(("claimCheckLocation",)) is not None:
        raise NotTemplatable
    cells = {part: list(_cells(value, root, images, part)) for part in _parts(root, images)}
    given = {cell.path: cell.take for row in cells.values() for cell in row}
    given |= {_COMMIT_TS: INTEGER, _BUILD_TS: INTEGER}
    if change.source.start_ts is not None:
        given[_START_TS] = INTEGER
    given |= dict.fromkeys(_sums(root, verifies=verifies), INTEGER)
    ops, slots = source_ops(value, root, given, 0)

    def number(path: Path) -> TracedNumber:
        return integer_at(path, value, root, slots, trace)

    commit_ts, build_ts = number(_COMMIT_TS), number(_BUILD_TS)
    if not (commit_ts > 0 and build_ts > 0 and build_ts < TIME_END_MS):
        raise NotTemplatable
    start_ts = None if change.source.start_ts is None else number(_START_TS)
    if start_ts is not None and not start_ts > 0:
        raise NotTemplatable
    rows = {part: [TracedCell(trace, (slots[cell.path],)) for cell in row] for part, row in cells.items()}
    reader = TracedReader.of(images.reader, list(_reads(images)))
    source: dict[str, Any] = {
        "commit_ts": commit_ts,
        "start_ts": start_ts,
        "event_time_ns": (commit_ts >> TSO_LOGICAL_BITS) * _MILLISECOND_NS,
    }
    emitted_at_ns: Any = build_ts * _MILLISECOND_NS
    traced = msgspec.structs.replace(
        change,
        images=TracedRows(reader, rows.get(_OLD), rows.get(_DATA), images.keys_unchanged_on_wire()),
        source=msgspec.structs.replace(change.source, **source),
        emitted_at_ns=emitted_at_ns,
    )
    return TracedMessage(None, ops, traced, None)


def _parts(root: JsonToken, images: TypedRows) -> list[str]:
    """Return the images that the message has, which must be those of the row."""
    parts = [part for part, cells in ((_DATA, images.new), (_OLD, images.old)) if cells is not None]
    present = [part for part in (_DATA, _OLD) if (found := root.at((part,))) is not None and found.members]
    if parts != present:
        raise NotTemplatable
    return parts


def _sums(root: JsonToken, *, verifies: bool) -> Iterator[Path]:
    """Yield the paths of checksums that are ignored."""
    found = root.at(_CHECKSUM)
    if found is None or found.kind == "null":
        return
    if verifies:
        raise NotTemplatable
    for name in _SUMS:
        if found.at((name,)) is not None:
            yield (*_CHECKSUM, name)


def _cells(value: bytes, root: JsonToken, images: TypedRows, part: str) -> Iterator[_Cell]:
    """Yield the values of an image's columns, in order."""
    reader, image = images.reader, root.at((part,))
    if image is None or (image.members or {}).keys() != set(reader.names):
        raise NotTemplatable
    for at, name in zip(reader.indexes, reader.names, strict=True):
        token, path = image.at((name,)), (part, name)
        if token is None:
            raise NotTemplatable
        is_timestamp = reader.schema.columns[at].type.base == "timestamp"
        if token.kind == "null" and is_timestamp:
            yield _Cell(path, _NULL)
        elif is_timestamp:
            location, text = token.at(("location",)), token.at(("value",))
            is_alone = (token.members or {}).keys() == {"location", "value"}
            if not is_alone or location is None or text is None or text.kind != "string":
                raise NotTemplatable
            if value[location.start : location.end] != _UTC:
                raise NotTemplatable
            yield _Cell((*path, "value"), _STRING)
        elif token.kind in TEXT_OR_NULL.kinds:
            yield _Cell(path, TEXT_OR_NULL)
        else:
            raise NotTemplatable


def _reads(images: TypedRows) -> Iterator[Conversion | None]:
    """Yield the conversions of the columns' texts."""
    reader = images.reader
    for at, read in zip(reader.indexes, reader.reads, strict=True):
        if reader.schema.columns[at].type.base == "timestamp":
            yield _DATETIME
        else:
            yield _named(read)


def _named(read: Read | None) -> Conversion | None:
    return None if read is read_text else conversion(read)
