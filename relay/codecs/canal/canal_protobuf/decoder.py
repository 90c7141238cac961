"""Decoder of Canal's packets."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from typing import Any, Final, NamedTuple

import msgspec

from relay.catalog import Catalog, DdlBudget, DdlMessage, apply_ddl
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.options import COUNT_HEADER, MS_NS, NAME, TABLES, ProtobufOptions
from relay.codecs.canal.canal_protobuf.packets import (
    Boundary,
    Entry,
    Header,
    PacketReader,
    WireChange,
    WireColumn,
    WireRow,
)
from relay.codecs.canal.shared.canal_common import (
    canal_readers,
    canal_style,
)
from relay.codecs.canal.shared.local_times import ZonedReaders
from relay.codecs.canal.shared.messages import (
    DELETE,
    ROW_OPS,
    ROW_TYPES,
    UPDATE,
    CanalMessage,
)
from relay.codecs.canal.shared.row_readers import TextReaders
from relay.codecs.codec import ValueDecoder
from relay.codecs.losses import Loss, is_administration
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.local_times import event_time_ns
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import (
    Event,
    Heartbeat,
    Op,
    Source,
    TableId,
    Transaction,
    TransactionMark,
)
from relay.model.limits import Limits, check_rows
from relay.model.lookups import LookupCache
from relay.model.records import TIME_END_MS, ConsumerRecord

#: Kinds of events without changes: XA transactions, positions, heartbeats.
_WITHOUT_CHANGES: Final = frozenset({"GTID", "XACOMMIT", "XAROLLBACK"})


class _OpenTransaction(NamedTuple):
    """The transaction that an entry belongs to: its id (None if the packet lacks it), and whether its BEGIN
    is in the packet.
    """

    id: str | None
    thread_id: int | None
    has_begun: bool


_NONE: Final = _OpenTransaction(None, None, has_begun=False)


class CanalProtobufDecoder(ValueDecoder):
    """Decodes packets of Canal's server and of TiCDC."""

    def __init__(self, options: ProtobufOptions, answers: LookupCache) -> None:
        self._limits = answers.limits
        self._packets = PacketReader(NAME, answers.limits)
        self._rows = canal_readers(NAME, canal_style(options), answers.limits.cache_bytes)

    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events; see `relay.codecs.codec.Decoder`."""
        entries = list(self._packets.entries_of(value, losses))
        return _PacketDecoder(self._packets, self._rows, self._limits, record, losses).events(
            entries, catalog
        )


class _PacketDecoder:
    """Decodes the entries of one packet in order."""

    def __init__(
        self,
        packets: PacketReader,
        rows: TextReaders | ZonedReaders,
        limits: Limits,
        record: ConsumerRecord,
        losses: list[Loss],
    ) -> None:
        self._packets, self._rows, self._limits = packets, rows, limits
        self._record, self._losses = record, losses
        self._events: list[Event] = []
        self._open = _NONE
        self._row_count = 0
        self._tables: Counter[TableId] = Counter()
        self._budget: DdlBudget | None = None

    def events(self, entries: Sequence[Entry], catalog: Catalog) -> tuple[list[Event], Catalog]:
        """Return the events of entries, and the catalog after them."""
        ends = self._ends(entries)
        for at, entry in enumerate(entries):
            if entry.kind == packets.BEGIN:
                self._begin(entry, ends[at])
            elif entry.kind == packets.END:
                self._end(entry)
            elif entry.kind == packets.HEARTBEAT or entry.header.event_type == "MHEARTBEAT":
                self._events.append(Heartbeat(self._source(entry), self._emitted_at_ns(entry.header)))
            elif entry.kind == packets.GTID:
                # The entries after it have the same GTID.
                self._losses.append(Loss.STATEMENT)
            elif entry.kind == packets.ROWS:
                if self._open is _NONE and ends[at] is not None:
                    self._open = _OpenTransaction(ends[at], None, has_begun=False)
                catalog = self._change(entry, catalog)
            else:
                raise UnsupportedMessage(NAME, "entry.entryType", "not a kind of Canal's entries")
        return self._events, catalog

    def _ends(self, entries: Sequence[Entry]) -> list[str | None]:
        """Return, for each entry, the id of the transaction that ends after it and before another begins."""
        found: list[str | None] = []
        id: str | None = None
        for entry in reversed(entries):
            if entry.kind == packets.END:
                id = self._id_of(entry, self._packets.boundary(entry, []))
            found.append(id)
            if entry.kind == packets.BEGIN:
                id = None
        return found[::-1]

    @staticmethod
    def _id_of(entry: Entry, boundary: Boundary) -> str:
        """Return the transaction's id, or the position of its end if it has none."""
        return boundary.id or f"{entry.header.file}:{entry.header.position}"

    def _begin(self, entry: Entry, id: str | None) -> None:
        boundary = self._packets.boundary(entry, self._losses)
        id = boundary.id or id
        self._open = _OpenTransaction(id, boundary.thread_id, has_begun=True)
        self._row_count = 0
        self._tables.clear()
        if id is None:
            # Its END, which has the id, is in another packet.
            self._losses.append(Loss.TRANSACTION_MARK)
            return
        source = self._source(entry)
        self._events.append(
            TransactionMark(
                is_begin=True, id=id, source=source, emitted_at_ns=self._emitted_at_ns(entry.header)
            )
        )

    def _end(self, entry: Entry) -> None:
        boundary = self._packets.boundary(entry, self._losses)
        count, tables = _counts(boundary)
        if count is None and self._open.has_begun:
            count, tables = self._row_count, tuple(self._tables.items())
        mark = TransactionMark(
            is_begin=False,
            id=self._id_of(entry, boundary),
            source=self._source(entry),
            emitted_at_ns=self._emitted_at_ns(entry.header),
            count=count,
            table_counts=tables,
        )
        self._events.append(mark)
        self._open = _NONE

    def _source(self, entry: Entry, rows: int = 1) -> Source:
        """Return the source of the events of an entry with this many rows."""
        header = entry.header
        if not -TIME_END_MS <= header.time_ms < TIME_END_MS:
            raise Malformed(NAME, "entry.header.executeTime", "not a time in milliseconds")
        has_position = bool(header.file) and header.position >= 0
        losses: list[Loss] = []
        time_ns = event_time_ns(header.time_ms * MS_NS, None, self._record, losses)
        self._losses += losses * rows
        return Source(
            "canal",
            time_ns,
            gtid=header.gtid or None,
            binlog_file=header.file if has_position else None,
            binlog_position=header.position if has_position else None,
            server_id=header.server_id or None,
            thread_id=self._open.thread_id,
            unknown_fields=entry.unknown or None,
        )

    def _emitted_at_ns(self, header: Header) -> int:
        return self._record.time_ms(header.time_ms) * MS_NS

    # ------------------------------------------------------------ rows and statements

    def _change(self, entry: Entry, catalog: Catalog) -> Catalog:
        change = self._packets.row_change(entry, self._losses)
        op = ROW_OPS.get(change.event_type)
        if not change.is_ddl and op is not None and change.rows:
            self._add_rows(op, entry, change, catalog)
            return catalog
        if change.is_ddl or (change.sql and op is None):
            return self._statement(entry, change, catalog)
        if change.event_type in _WITHOUT_CHANGES:
            self._losses.append(Loss.STATEMENT)
            return catalog
        if op is not None and change.sql:
            reason = "a statement without its rows (binlog_format is not ROW)"
            raise UnsupportedMessage(NAME, "entry.storeValue.sql", reason)
        raise Malformed(NAME, "entry.storeValue", "neither rows nor a statement")

    def _statement(self, entry: Entry, change: WireChange, catalog: Catalog) -> Catalog:
        source = self._source(entry)
        self._budget = self._budget or DdlBudget(catalog.limits)
        # CREATE DATABASE of a quoted name keeps the back-ticks.
        database = (entry.header.database or change.ddl_database).strip("`")
        message = DdlMessage(
            change.sql,
            TableId(database, entry.header.table),
            change.event_type,
            source,
            source.at(self._record),
            self._emitted_at_ns(entry.header),
        )
        learned, event = apply_ddl(catalog, message, self._budget)
        if not change.is_ddl and is_administration(event):
            self._losses.append(Loss.ADMIN_STATEMENT)
            return catalog
        if not event.kinds and not change.is_ddl and learned is catalog:
            self._losses.append(Loss.STATEMENT)
            return catalog
        if not event.kinds:
            self._losses.append(Loss.DDL_NOT_UNDERSTOOD)
        self._events.append(event)
        return learned

    def _add_rows(self, op: Op, entry: Entry, change: WireChange, catalog: Catalog) -> None:
        source = self._source(entry, len(change.rows))
        check_rows(NAME, "body", len(self._events) + len(change.rows), self._limits)
        message = _message(op, entry.header, change.rows)
        emitted_at_ns = message.emitted_at_ns(self._record)
        found = self._rows.changes(message, op, source, emitted_at_ns, self._record, catalog, self._losses)
        for event in found:
            self._row_count += 1
            self._tables[TableId(entry.header.database, entry.header.table)] += 1
            self._events.append(self._in_transaction(event))

    def _in_transaction(self, event: Event) -> Event:
        id, _, has_begun = self._open
        if id is None:
            return event
        order = self._row_count if has_begun else None
        return msgspec.structs.replace(event, transaction=Transaction(id, order))


def _counts(boundary: Boundary) -> tuple[int | None, tuple[tuple[TableId, int], ...]]:
    """Return the number of events of a transaction from its END: in total and per table."""
    try:
        count = int(boundary.props[COUNT_HEADER])
        tables = msgspec.json.decode(boundary.props.get(TABLES, "[]"), type=list[tuple[str, str, int]])
    except (KeyError, ValueError, *REFUSED):
        return None, ()
    return count, tuple([(TableId(database, table), number) for database, table, number in tables])


def _message(op: Op, header: Header, rows: Sequence[WireRow]) -> CanalMessage:
    """Return the rows as a message of the family. Raises Malformed."""
    columns = _columns(op, rows)
    types = {name: column.mysql_type for name, column in columns.items() if column.mysql_type}
    message = CanalMessage(
        database=header.database,
        table=header.table,
        pk_names=[name for name, column in columns.items() if column.is_key],
        type=ROW_TYPES[op],
        mysql_type=_printed(types or None),
        sql_type=_printed({name: column.sql_type for name, column in columns.items()}),
        data=[_cells(_image(op, row)) for row in rows],
    )
    if op is UPDATE:
        message.old = [_cells(row.before) if row.before else None for row in rows]
    return message


def _columns(op: Op, rows: Sequence[WireRow]) -> dict[str, WireColumn]:
    """Return the columns of an entry by name. Raises Malformed if two images disagree on a column's type or
    key: all rows of an entry have one version of its table. `sqlType` may depend on the value.
    """
    found: dict[str, WireColumn] = {}
    for row in rows:
        image = _image(op, row)
        for column in (*image, *row.before) if op is UPDATE else image:
            first = found.setdefault(column.name, column)
            if first.mysql_type != column.mysql_type or first.is_key != column.is_key:
                raise Malformed(NAME, "rowDatas", "a column with different types or keys in one entry")
    return found


def _printed(members: Any) -> msgspec.Raw:  # noqa: ANN401 - names and their members in a message
    return msgspec.Raw(msgspec.json.encode(members))


def _image(op: Op, row: WireRow) -> list[WireColumn]:
    columns = row.before if op is DELETE else row.after
    if not columns:
        raise Malformed(NAME, "rowDatas", "a row without columns")
    return columns


def _cells(columns: Sequence[WireColumn]) -> dict[str, str | None]:
    cells = {column.name: column.text for column in columns}
    if len(cells) != len(columns):
        raise Malformed(NAME, "rowDatas", "two columns of one name, or without one, in a row")
    return cells
