"""Templates of rows of CKafka's official format 1: text cells, and a wall clock as the time."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime, tzinfo
from typing import Any, Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.ckafka.rows import CkafkaRows
from relay.codecs.codec import TracedMessage
from relay.codecs.shared.rows import TypedReader, TypedRows
from relay.codecs.shared.traced import TracedReader, TracedRows, follows_ddl
from relay.model.events import Images, RowChange, Source
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.ops import TIME_MS
from relay.templates.scanning import (
    DIGITS,
    INTEGER,
    STRING,
    TEXT_OR_NULL,
    Given,
    JsonToken,
    Path,
    parsed,
    source_ops,
)
from relay.templates.tracing import NotTemplatable, Trace, TracedCell, TracedNumber, TracedText, Written

_TIME: Final[Path] = ("TIME",)
_POSITION: Final[Path] = ("BINLOG_POS",)
_FILE: Final[Path] = ("BINLOG_NAME",)
_GTID: Final[Path] = ("GLOBAL_ID",)
_NEW: Final[Path] = ("NEW_VALUES",)
_OLD: Final[Path] = ("OLD_VALUES",)
_MILLISECOND_NS: Final = 1_000_000
_SECOND_NS: Final = 1_000_000_000
_POSITION_END: Final = 1 << 63
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)


def ahead_of_utc(zone: tzinfo) -> int:
    """Return the offset of a zone in seconds east of UTC; the zone's offset is fixed."""
    offset = _EPOCH.astimezone(zone).utcoffset()
    return 0 if offset is None else int(offset.total_seconds())


def traced_row(
    record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace, zone: tzinfo
) -> TracedMessage:
    """Return a message with traced values; `zone`: that of TIME. Raises NotTemplatable for messages of
    another format, and for rows that lack columns of their message.
    """
    images, value = change.images, record.value or b""
    if record.key is not None:
        raise NotTemplatable
    reader, root = _reader_of(images), parsed(value)
    ops, slots = source_ops(value, root, _given(value, root, change), 0)
    time_ms = TracedNumber(trace, TIME_MS, record.timestamp_ms)
    if not (time_ms >= 0 and time_ms < TIME_END_MS):
        raise NotTemplatable
    emitted_at_ns = event_time_ns = time_ms * _MILLISECOND_NS
    if _TIME in slots:
        event_time_ns = _seconds(change.source, trace, slots[_TIME], zone) * _SECOND_NS
    effective = catalog.effective_schema(change.table, change.source.at(record))
    after = follows_ddl(reader.known, effective, None, event_time_ns, record)
    traced = msgspec.structs.replace(
        change,
        images=_traced_images(images, reader, trace, slots),
        source=_traced_source(change.source, event_time_ns, trace, slots),
        emitted_at_ns=emitted_at_ns,
    )
    return TracedMessage(None, ops, traced, after)


def _reader_of(images: Images) -> TypedReader:
    """Return the reader of the cells in table order. Raises NotTemplatable if labels of ENUM and SET stay
    unchanged although the members are known: labels of other messages may be among the members.
    """
    if isinstance(images, CkafkaRows):
        reader = images.text_reader.in_table_order()
    elif isinstance(images, TypedRows):
        reader = images.reader
    else:
        raise NotTemplatable
    known = () if reader.known is None else reader.known.columns
    with_members = {column.name for column in known if column.type.members is not None}
    columns = [reader.schema.columns[at] for at in reader.indexes]
    if any(column.type.members is None and column.name in with_members for column in columns):
        raise NotTemplatable
    return reader


def _given(value: bytes, root: JsonToken, change: RowChange) -> dict[Path, Given]:
    """Return the slots that may differ: the cells of each image, the row's binlog position, and its time."""
    given: dict[Path, Given] = {}
    for path in (_NEW, _OLD):
        image = root.at(path)
        given |= {(*path, name): TEXT_OR_NULL for name in (image and image.members) or ()}
    source = change.source
    if source.binlog_position is not None:
        given[_POSITION] = INTEGER
    if source.binlog_file is not None:
        given[_FILE] = STRING
    if source.gtid is not None:
        given[_GTID] = STRING
    time = root.at(_TIME)
    if time is not None and time.kind == "string" and source.snapshot is None:
        if not value[time.start + 1 : time.end - 1].isdigit():
            raise NotTemplatable
        given[_TIME] = DIGITS
    return given


def _traced_source(
    source: Source, event_time_ns: TracedNumber, trace: Trace, slots: Mapping[Path, int]
) -> Source:
    """Return the source with traced values. Raises NotTemplatable."""
    position: Any = source.binlog_position
    if position is not None:
        position = TracedNumber(trace, slots[_POSITION], position)
        if not (position >= 0 and position < _POSITION_END):
            raise NotTemplatable
    return msgspec.structs.replace(
        source,
        event_time_ns=event_time_ns,
        binlog_position=position,
        binlog_file=source.binlog_file and TracedText(trace, slots[_FILE]),
        gtid=source.gtid and TracedText(trace, slots[_GTID]),
    )


def _seconds(source: Source, trace: Trace, slot: int, zone: tzinfo) -> TracedNumber:
    """Return TIME in seconds since 1970. It is not 0, which marks a snapshot. Raises NotTemplatable."""
    known = source.event_time_ns // _SECOND_NS
    seconds = TracedNumber(trace, slot, 0).as_clock(ahead_of_utc(zone), known)
    if not seconds or not seconds * 1000 < TIME_END_MS:
        raise NotTemplatable
    return seconds


def _traced_images(
    images: Images, reader: TypedReader, trace: Trace, slots: Mapping[Path, int]
) -> TracedRows:
    """Return the images with traced cells; all labels are labels of members."""
    typed = TracedReader.of(reader)
    old = new = None
    if images.cells_at((), is_old=True) is not None:
        old = _cells(typed, trace, slots, _OLD)
    if images.cells_at((), is_old=False) is not None:
        new = _cells(typed, trace, slots, _NEW)
    return TracedRows(typed, old, new, images.keys_unchanged_on_wire())


def _cells(reader: TracedReader, trace: Trace, slots: Mapping[Path, int], image: Path) -> list[TracedCell]:
    """Return an image's cells in table order. Raises NotTemplatable if it lacks one."""
    if {path[-1] for path in slots if path[:-1] == image} != set(reader.names):
        raise NotTemplatable
    cells = [TracedCell(trace, (slots[*image, name],)) for name in reader.names]
    for at, cell, read in zip(reader.indexes, cells, reader.reads_as, strict=True):
        if reader.schema.columns[at].type.members is not None:
            trace.put(cell.slots, Written(read, None))  # read even if it is not written
    return cells
