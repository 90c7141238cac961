"""The variable parts of messages of official format 1, for templates: texts, and a wall clock as the time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import tzinfo
from typing import Any, Final

import msgspec

from relay.codecs.canal.ckafka.messages import DecodedRow
from relay.codecs.canal.ckafka.rows import CkafkaReaders, CkafkaRows
from relay.codecs.shared.rows import TypedReader, TypedRows
from relay.codecs.shared.traced import conversion
from relay.codecs.shared.traced_messages import (
    TEXT,
    CellTokens,
    Declaration,
    TracedPart,
    TracedRow,
    VariableMember,
    bounded,
    wall_clock,
)
from relay.model.events import Images, RowChange
from relay.model.limits import Limits
from relay.model.records import ConsumerRecord
from relay.templates.scanning import TEXT_OR_NULL
from relay.templates.tracing import NotTemplatable, Trace

#: The variable members of a message besides its time.
_MEMBERS: Final[Declaration] = {
    "BINLOG_POS": VariableMember(("BINLOG_POS",), bounded(0, 1 << 63)),
    "BINLOG_NAME": VariableMember(("BINLOG_NAME",), TEXT),
    "GLOBAL_ID": VariableMember(("GLOBAL_ID",), TEXT),
}


def _time(zone: tzinfo) -> Declaration:
    return {"time_ns": VariableMember(("TIME",), wall_clock(zone))}


def traced_row(
    rows: CkafkaReaders,
    record: ConsumerRecord,
    change: RowChange,
    trace: Trace,
    zone: tzinfo,
    limits: Limits,
) -> TracedRow:
    """Return the split message of a row. Raises NotTemplatable."""
    images = _typed(change.images)
    if record.key is not None or rows.counts_by_value(images.reader):
        raise NotTemplatable
    change = msgspec.structs.replace(change, images=images)
    row = TracedRow(record, change, trace, TracedPart(None), TracedPart(record.value))
    row.value.vary(_MEMBERS)
    row.value.vary(_time(zone))
    cells = [*_cells(images.reader)]
    row.vary_cells(images.reader.names, lambda _: cells, limits)
    row.split()
    return row


def traced_message(decoded: DecodedRow, row: TracedRow, trace: Trace, zone: tzinfo) -> DecodedRow:
    """Return a decoded message with traced members."""
    message, image = row.value.traced(decoded.message, _MEMBERS, trace), trace.refused()
    for part in row.parts:
        setattr(message, part, image)
    return msgspec.structs.replace(row.value.traced(decoded, _time(zone), trace), message=message)


def _typed(images: Images) -> TypedRows:
    """Return the images as typed rows. Raises NotTemplatable if one lacks a column."""
    if isinstance(images, TypedRows):
        return images
    if not isinstance(images, CkafkaRows):
        raise NotTemplatable
    reader, names = images.text_reader.in_table_order(), images.text_reader.names_in_table_order()
    both: list[list[Any] | None] = []
    for cells in (images.images.old, images.images.new):
        if cells is not None and cells.keys() != set(names):
            raise NotTemplatable
        both.append(None if cells is None else [cells[name] for name in names])
    return TypedRows(reader, *both)


def _cells(reader: TypedReader) -> Iterator[CellTokens]:
    """Yield the tokens of the columns. Raises NotTemplatable if labels of ENUM and SET stay unchanged
    although the members are known: labels of other messages may be among the members.
    """
    known = () if reader.known is None else reader.known.columns
    with_members = {column.name for column in known if column.type.members is not None}
    for at, read in zip(reader.indexes, reader.reads, strict=True):
        column = reader.schema.columns[at]
        has_members = column.type.members is not None
        if column.name in with_members and not has_members:
            raise NotTemplatable
        # A label is read even if it is not written.
        yield CellTokens(TEXT_OR_NULL.kinds, conversion(read), tried=("digits",) if has_members else None)
