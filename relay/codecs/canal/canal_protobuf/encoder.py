"""Encoder of Canal's packets."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.options import (
    COUNT_HEADER,
    MS_NS,
    NAME,
    TABLES,
    ProtobufOptions,
    carries,
)
from relay.codecs.canal.canal_protobuf.packets import (
    Header,
)
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, number_field
from relay.codecs.canal.shared.canal_common import (
    canal_dialect,
    canal_style,
)
from relay.codecs.canal.shared.messages import (
    DELETE,
    READ,
    ROW_TYPES,
    UPDATE,
    ddl_type,
)
from relay.codecs.canal.shared.row_writing import TextChange, TextWriter, TextWriters
from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.shaping import op_without_before
from relay.codecs.shared.ticdc import mysql_text
from relay.codecs.shared.traced import TracedCells
from relay.model.errors import NotRepresentable
from relay.model.events import (
    Event,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TransactionMark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import NotTemplatable


class _Shape(NamedTuple):
    """The constant part of a writer's rows: a column's name, its bytes around `updated` and the value."""

    names: tuple[str, ...]
    heads: tuple[bytes, ...]
    keys: tuple[bytes, ...]
    types: tuple[bytes, ...]


#: Memory of a shape, per column.
_SHAPE_BYTES: Final = 400


class CanalProtobufEncoder:
    """Encodes packets as Canal 1.1.8 does."""

    prepare: Final = None

    def __init__(self, options: ProtobufOptions, answers: LookupCache) -> None:
        self._options = options
        self._count_lost = source_losses(carries(options))
        pool = CachePool(answers.limits.cache_bytes)
        self._writers = TextWriters(NAME, canal_dialect(canal_style(options)), pool)
        self._shapes: ByteCache[TextWriter, _Shape] = pool.cache()

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the events' packets; see `relay.codecs.codec.Encoder`."""
        entries: list[bytes] = []
        for event in events:
            try:
                entry = self._entry(event, losses)
            except UnicodeError:
                raise NotRepresentable(NAME, "", "text that is not Unicode") from None
            if entry is None:
                losses.append(loss_of(event))
                continue
            entries.append(entry)
            if len(entries) >= self._options.max_batch_size:
                yield EncodedRecord(None, packets.packet(source_record.offset, entries))
                entries = []
        if entries:
            yield EncodedRecord(None, packets.packet(source_record.offset, entries))

    def _entry(self, event: Event, losses: list[Loss]) -> bytes | None:
        """Return the entry of an event, or None if the event has none."""
        if isinstance(event, RowChange):
            return self._row(event, losses)
        if isinstance(event, SchemaChange):
            self._count_lost(event.source, losses)
            header = _header(event.source, event.table, ddl_type(event))
            value = packets.statement_value(header.event_type, mysql_text(event), event.table.database)
            return packets.entry(packets.ROWS, header, value)
        if isinstance(event, TransactionMark) and not self._options.filter_transaction_entry:
            return self._mark(event, losses)
        return None

    def _mark(self, mark: TransactionMark, losses: list[Loss]) -> bytes:
        self._count_lost(mark.source, losses)
        props = []
        if mark.count is not None:
            tables = [(table.database, table.table, count) for table, count in mark.table_counts]
            props = [packets.pair(COUNT_HEADER, str(mark.count))]
            props.append(packets.pair(TABLES, msgspec.json.encode(tables).decode()))
        kind = packets.BEGIN if mark.is_begin else packets.END
        value = packets.boundary_value(mark.id, props)
        return packets.entry(kind, _header(mark.source, TableId("", ""), ""), value)

    def _row(self, change: RowChange, losses: list[Loss]) -> bytes:
        op, source = change.op, change.source
        text = self._writers.write(change)
        if type(text.cells) is TracedCells:
            raise NotTemplatable
        losses += self._writers.lost
        if text.loses_parameters:
            losses.append(Loss.TYPE_PARAMETERS)
        if op is UPDATE and text.old is None:
            op = op_without_before(self._options.missing_before, NAME)
        self._count_lost(source, losses, change.transaction)
        if op is READ and not source.snapshot:
            losses.append(Loss.SNAPSHOT)
        type_ = ROW_TYPES[op]
        header = _header(source, text.writer.table, type_)
        value = packets.rows_value(type_, [self._row_data(op, text)])
        return packets.entry(packets.ROWS, header, value, rows=1)

    def _row_data(self, op: Op, text: TextChange) -> bytes:
        cells, shape = text.cells, self._shape(text.writer)
        if op is DELETE:
            return b"".join(self._columns(1, shape, text.writer, cells, frozenset()))
        if op is not UPDATE:
            return b"".join(self._columns(2, shape, text.writer, cells, frozenset(cells)))
        before = {**cells, **(text.old or {})}
        parts = [*self._columns(1, shape, text.writer, before, frozenset())]
        parts += self._columns(2, shape, text.writer, cells, frozenset(text.changed()))
        return b"".join(parts)

    def _columns(
        self, field: int, shape: _Shape, writer: TextWriter, cells: dict[str, Any], updated: frozenset[str]
    ) -> Iterator[bytes]:
        numbers = writer.sql_types_of(cells)
        for name, head, key, mysql_type in zip(
            shape.names, shape.heads, shape.keys, shape.types, strict=True
        ):
            if name not in cells:
                continue
            text = cells[name]
            value = b"" if text is None else bytes_field(8, text.encode())
            column = b"".join(
                (
                    head,
                    number_field(2, numbers[name]),
                    key,
                    b"\x28\x01" if name in updated else b"\x28\x00",
                    b"\x30\x01" if text is None else b"\x30\x00",
                    value,
                    mysql_type,
                )
            )
            yield bytes_field(field, column)

    def _shape(self, writer: TextWriter) -> _Shape:
        found = self._shapes.get(writer)
        if found is None:
            types: dict[str, str] = msgspec.json.decode(writer.mysql_type)
            keys = frozenset(writer.pk_names)
            if not keys <= types.keys():  # readers would mistake the rest of the key for all of it
                keys = frozenset()
            found = _Shape(
                names=tuple(types),
                heads=tuple([number_field(1, at) for at in range(len(types))]),
                keys=tuple([bytes_field(3, name.encode()) + number_field(4, name in keys) for name in types]),
                types=tuple([bytes_field(10, text.encode()) for text in types.values()]),
            )
            size = _SHAPE_BYTES * len(types) + 3 * len(writer.mysql_type)
            self._shapes.keep(writer, found, size)
        return found


def _header(source: Source, table: TableId, event_type: str) -> Header:
    return Header(
        file=source.binlog_file or "",
        position=source.binlog_position or 0,
        server_id=source.server_id or 0,
        time_ms=source.event_time_ns // MS_NS,
        database=table.database,
        table=table.table,
        event_type=event_type,
        gtid=source.gtid or "",
    )
