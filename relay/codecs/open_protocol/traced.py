"""Templates of Open Protocol messages: one row, and the values of its columns."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, tzinfo
from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.codec import TracedMessage
from relay.codecs.open_protocol.frames import LENGTH_BYTES, VERSION
from relay.codecs.open_protocol.values import wire_type
from relay.codecs.shared.local_times import is_local_time
from relay.codecs.shared.rows import TypedReader, TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, conversion, follows_ddl
from relay.model.events import TSO_LOGICAL_BITS, Column, Images, Op, RowChange, Source
from relay.model.limits import Limits
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.mysql.conversion_names import READ_DOUBLE, READ_INTEGER
from relay.templates.ops import TIME_MS, Constant, Conversion, Kinds, Length, Members, Take, Unordered
from relay.templates.scanning import INTEGER, JsonToken, Path, parsed, source_ops
from relay.templates.tracing import NotTemplatable, Trace, TracedCell, TracedNumber

_MILLISECOND_NS: Final = 1_000_000
_TIME_END_NS: Final = TIME_END_MS * _MILLISECOND_NS
_TS: Final[Path] = ("ts",)
_ROW: Final = b"1"
#: Offsets of the JSON of a message's only key, and of its value.
_KEY_START: Final = len(VERSION) + LENGTH_BYTES
_VALUE_START: Final = LENGTH_BYTES
#: Start of a value that is certainly uncompressed.
_PLAIN: Final = b'{"'
#: The members of an operation's images: the old row, the new row.
_PARTS: Final[dict[Op, tuple[str | None, str | None]]] = {
    Op.INSERT: (None, "u"),
    Op.UPDATE: ("p", "u"),
    Op.DELETE: ("d", None),
}
#: Kinds of JSON values of a column, besides null, and the default conversion of its token. A base64 text is
#: always converted.
_KINDS: Final[dict[type, Kinds]] = {
    int: ("integer",),
    float: ("integer", "number"),
    str: ("string",),
    type(None): (),
}
_READS: Final[dict[type, Conversion]] = {int: READ_INTEGER, float: READ_DOUBLE}

Given = dict[Path, Take | Members | Unordered]


def traced_row(
    record: ConsumerRecord,
    change: RowChange,
    catalog: Catalog,
    trace: Trace,
    zone: tzinfo,
    limits: Limits,
) -> TracedMessage:
    """Return a message of one row with traced values. Raises NotTemplatable."""
    key, value = record.key or b"", record.value or b""
    images: Images = change.images
    parts = _PARTS.get(change.op)
    is_plain = value.startswith(_PLAIN, _VALUE_START)
    if type(images) is not TypedRows or parts is None or not is_plain:
        raise NotTemplatable
    _check_times(images.reader, zone)
    head, body = parsed(key, _KEY_START), parsed(value, _VALUE_START)
    _check_shape(head, key, body, parts, images)
    key_ops, _ = source_ops(key, head, {_TS: INTEGER}, 0, _KEY_START)
    value_ops, slots = source_ops(
        value, body, _cells(value, body, parts, images.reader, limits), 1, _VALUE_START
    )
    commit_ts, event_time_ns, emitted_at_ns = _times(change.source, record, trace)
    effective = catalog.effective_schema(change.table, change.source.at(record))
    after = follows_ddl(images.reader.known, effective, commit_ts, event_time_ns, record)
    traced = msgspec.structs.replace(
        change,
        images=_images(images, parts, slots, trace),
        source=msgspec.structs.replace(change.source, commit_ts=commit_ts, event_time_ns=event_time_ns),
        emitted_at_ns=emitted_at_ns,
    )
    return TracedMessage(
        (Constant(VERSION), Length(LENGTH_BYTES), *key_ops),
        (Length(LENGTH_BYTES), *value_ops),
        traced,
        after,
    )


def _check_times(reader: TypedReader, zone: tzinfo) -> None:
    """Raise NotTemplatable for local times, of which some are counted."""
    if zone is not UTC and any(map(is_local_time, _columns(reader))):
        raise NotTemplatable


def _columns(reader: TypedReader) -> list[Column]:
    return [reader.schema.columns[at] for at in reader.indexes]


def _check_shape(
    head: JsonToken, key: bytes, body: JsonToken, parts: tuple[str | None, str | None], images: TypedRows
) -> None:
    """Raise NotTemplatable if the message does not match the images."""
    kind = head.at(("t",))
    if kind is None or key[kind.start : kind.end] != _ROW or head.at(("ccl",)) is not None:
        raise NotTemplatable
    has_images = (images.old is not None, images.new is not None)
    if has_images != tuple(part is not None for part in parts):
        raise NotTemplatable
    if {name for name in ("u", "p", "d") if body.at((name,)) is not None} != set(parts) - {None}:
        raise NotTemplatable


def _cells(
    value: bytes, body: JsonToken, parts: tuple[str | None, str | None], reader: TypedReader, limits: Limits
) -> Given:
    """Return the values of columns: all of them, except in an old row that lacks some."""
    old, new = parts
    kinds = {name: _kinds(column) for name, column in zip(reader.names, _columns(reader), strict=True)}
    given: Given = {}
    for part in (old, new):
        if part is None:
            continue
        names = _names(body, part)
        if names == kinds.keys():
            given |= {(part, name, "v"): Take(kinds[name]) for name in names}
        elif part == "p" and names < kinds.keys() and len(value) <= limits.values:
            # A fuller row has less than twice the members of this message, at two bytes each.
            given["p",] = _optional_cells(value, body, kinds)
        else:
            raise NotTemplatable
    return given


def _names(body: JsonToken, part: str) -> set[str]:
    """Return the names of an image's columns. Raises NotTemplatable for a cell without a value."""
    image = body.at((part,))
    if image is None or image.members is None:
        raise NotTemplatable
    for cell in image.members.values():
        if cell.at(("v",)) is None:
            raise NotTemplatable
    return set(image.members)


def _optional_cells(value: bytes, body: JsonToken, kinds: Mapping[str, Kinds]) -> Members:
    """Return slots for any of the columns, each in a cell like the new row's."""
    members = []
    ends = set()
    for name, kind in kinds.items():
        cell, cell_value = body.at(("u", name)), body.at(("u", name, "v"))
        if cell is None or cell_value is None:
            raise NotTemplatable
        members.append((cell.start, value[cell.name_start : cell_value.start], kind))
        ends.add(value[cell_value.end : cell.end])
    if len(ends) != 1:
        raise NotTemplatable
    members.sort()
    return Members(tuple([(name, kind) for _, name, kind in members]), ends.pop())


def _kinds(column: Column) -> Kinds:
    return (*_KINDS[wire_type(column.type)], "null")


def _times(
    source: Source, record: ConsumerRecord, trace: Trace
) -> tuple[TracedNumber, TracedNumber, TracedNumber]:
    """Return the commit ts, which is the first slot, the event's time, and the message's time."""
    if source.commit_ts is None:
        raise NotTemplatable
    commit_ts = TracedNumber(trace, 0, source.commit_ts)
    event_time_ns = (commit_ts >> TSO_LOGICAL_BITS) * _MILLISECOND_NS
    emitted_at_ns = TracedNumber(trace, TIME_MS, record.timestamp_ms) * _MILLISECOND_NS
    if not commit_ts > 0:
        raise NotTemplatable
    if not (emitted_at_ns >= 0 and emitted_at_ns < _TIME_END_NS):
        emitted_at_ns = event_time_ns
    return commit_ts, event_time_ns, emitted_at_ns


def _images(
    images: TypedRows, parts: tuple[str | None, str | None], slots: Mapping[Path, int], trace: Trace
) -> TracedRows:
    """Return the images of traced cells. An old cell that is missing is the new one."""
    reader, (old, new) = images.reader, parts
    traced = TracedReader.of(reader, _reads(reader))

    def cells(part: str | None) -> Sequence[Any] | None:
        if part is None:
            return None
        found = []
        for name in reader.names:
            partial = slots.get(("p", name))
            if part == "p" and partial is not None:
                found.append(TracedCell(trace, (partial, slots["u", name, "v"])))
            else:
                found.append(TracedCell(trace, (slots[part, name, "v"],)))
        return found

    return TracedRows(traced, cells(old), cells(new), images.keys_unchanged_on_wire())


def _reads(reader: TypedReader) -> list[Conversion | None]:
    """Return the conversions of the columns' tokens."""
    return [
        _READS.get(wire_type(column.type)) if read is None else conversion(read)
        for read, column in zip(reader.reads, _columns(reader), strict=True)
    ]
