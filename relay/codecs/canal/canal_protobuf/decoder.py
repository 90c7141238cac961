"""Decoder of Canal's packets."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from relay.catalog import Catalog, DdlBudget, DdlMessage, apply_ddl
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.columns import (
    ColumnFacts,
    WireColumn,
    WireColumns,
    WireImage,
    WireRow,
)
from relay.codecs.canal.canal_protobuf.options import COUNT_HEADER, MS_NS, NAME, TABLES, ProtobufOptions
from relay.codecs.canal.canal_protobuf.packets import (
    NO_TRANSACTION,
    Boundary,
    Entry,
    Header,
    OpenTransaction,
    PacketReader,
    WireChange,
    opened,
)
from relay.codecs.canal.canal_protobuf.traced import (
    BEGIN,
    END,
    ROW,
    PartEntries,
    TracedPacket,
    without_counts,
    without_transaction,
)
from relay.codecs.canal.shared.canal_common import (
    canal_readers,
    canal_style,
)
from relay.codecs.canal.shared.messages import (
    DELETE,
    ROW_OPS,
    ROW_TYPES,
    UPDATE,
    CanalMessage,
)
from relay.codecs.canal.shared.row_readers import ReadRows
from relay.codecs.canal.shared.traced import TracedTextEvent
from relay.codecs.codec import TracedMarks, TracedMessage, ValueDecoder
from relay.codecs.losses import Loss, is_administration
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.traced_messages import traced_record
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import (
    Event,
    Heartbeat,
    Op,
    RowChange,
    Source,
    TableId,
    Transaction,
    TransactionMark,
)
from relay.model.limits import Limits, check_rows
from relay.model.lookups import LookupCache
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.tracing import NotTemplatable, Trace

#: Kinds of events without changes: XA transactions, positions, heartbeats.
_WITHOUT_CHANGES: Final = frozenset({"GTID", "XACOMMIT", "XAROLLBACK"})


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
        decoder = _PacketDecoder(self._packets, self._changes, self._limits, record, losses)
        return decoder.events(entries, catalog)

    def _changes(
        self, rows: EntryRows, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> list[Event]:
        """Return the row changes of an entry."""
        return interpret(rows, record, catalog, losses, self._rows.changes)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`. The begin and the end of its
        transaction may be beside it.
        """
        entries = PartEntries.of(self._packets, record.value or b"")
        if entries.row is None:
            raise NotTemplatable
        wire, header = self._packets.row_change(entries.row, entries.losses), entries.row.header
        if entries.losses or entries.row.unknown or wire.is_ddl or len(wire.rows) != 1:
            raise NotTemplatable
        packet = TracedPacket(record.value, change)
        row = TracedTextEvent(record, change, trace, TracedPacket(None), packet)
        row.split()
        traced = packet.header(ROW, header, trace)
        check(traced)
        message = row.traced_rows(_message(change.op, header, wire))
        begin = None if entries.begin is None else entries.begin[1]
        end_id = None if entries.end is None else id_of(*entries.end)
        transaction = packet.opened(opened(begin, end_id), trace)
        rows = EntryRows(message, change.op, traced, transaction, 0, 1, {})
        events = interpret(rows, row.record, catalog, [], row.read)
        found = row.message([without_transaction(event, trace) for event in events])
        beside: list[Loss] = []
        marks = _PacketDecoder(self._packets, self._changes, self._limits, record, beside)
        marks.events([mark[0] for mark in (entries.begin, entries.end) if mark is not None], catalog)
        return found._replace(beside=tuple(beside))

    def traced_marks(self, record: ConsumerRecord, trace: Trace) -> TracedMarks:
        """Return the marks of a transaction without rows; see `MarkTracingDecoder`."""
        entries = PartEntries.of(self._packets, record.value or b"")
        if entries.row is not None or entries.losses:
            raise NotTemplatable
        packet = TracedPacket(record.value)
        packet.split(0)
        found = _PacketDecoder(
            self._packets, self._changes, self._limits, traced_record(record, trace), entries.losses
        )
        begin, end = packet.mark(BEGIN, entries.begin, trace), packet.mark(END, entries.end, trace)
        if begin is not None:
            found.begin(*begin, None if end is None else id_of(*end))
        if end is not None:
            found.end(*end)
        return TracedMarks(packet.ops, [without_counts(event, trace) for event in found.found])


class EntryRows(NamedTuple):
    """The rows of an entry.

    opened: The transaction that they belong to.
    rows_before: The number of rows of the transaction before them.
    row_count: The number of rows.
    unknown: Fields that Canal's messages do not have.
    """

    message: CanalMessage
    op: Op
    header: Header
    opened: OpenTransaction
    rows_before: int
    row_count: int
    unknown: dict[str, Any]


def check(header: Header) -> None:
    """Raise Malformed for an invalid number in the header of an entry."""
    if not -TIME_END_MS <= header.time_ms < TIME_END_MS:
        raise Malformed(NAME, "entry.header.executeTime", "not a time in milliseconds")


def source_of(
    header: Header,
    thread_id: int | None,
    unknown: dict[str, Any],
    record: ConsumerRecord,
    losses: list[Loss],
    rows: int = 1,
) -> Source:
    """Return the source of the events of an entry with this many rows."""
    has_position = bool(header.file) and header.position >= 0
    lost: list[Loss] = []
    time_ns = event_time_ns(header.time_ms * MS_NS, None, record, lost)
    losses += lost * rows
    return Source(
        "canal",
        time_ns,
        gtid=header.gtid or None,
        binlog_file=header.file if has_position else None,
        binlog_position=header.position if has_position else None,
        server_id=header.server_id or None,
        thread_id=thread_id,
        unknown_fields=unknown or None,
    )


def interpret(
    rows: EntryRows, record: ConsumerRecord, catalog: Catalog, losses: list[Loss], read: ReadRows
) -> list[Event]:
    """Return the row changes of an entry. `read`: reads its rows. Raises DecodeError."""
    message, op, header, opened, number, row_count, unknown = rows
    source = source_of(header, opened.thread_id, unknown, record, losses, row_count)
    events = read(message, op, source, message.emitted_at_ns(record), record, catalog, losses)
    if opened.id is None:
        return events
    found: list[Event] = []
    for event in events:
        number += 1
        transaction = Transaction(opened.id, number if opened.has_begun else None)
        found.append(msgspec.structs.replace(event, transaction=transaction))
    return found


class _PacketDecoder:
    """Decodes the entries of one packet in order. `changes`: returns the row changes of an entry.

    found: The events so far.
    """

    def __init__(
        self,
        packets: PacketReader,
        changes: Callable[[EntryRows, ConsumerRecord, Catalog, list[Loss]], list[Event]],
        limits: Limits,
        record: ConsumerRecord,
        losses: list[Loss],
    ) -> None:
        self._packets, self._changes, self._limits = packets, changes, limits
        self._record, self._losses = record, losses
        self.found: list[Event] = []
        self._open = NO_TRANSACTION
        self._row_count = 0
        self._tables: dict[TableId, int] = {}
        self._budget: DdlBudget | None = None

    def events(self, entries: Sequence[Entry], catalog: Catalog) -> tuple[list[Event], Catalog]:
        """Return the events of entries, and the catalog after them."""
        ends = self._ends(entries)
        for at, entry in enumerate(entries):
            if entry.kind == packets.BEGIN:
                self.begin(entry, self._packets.boundary(entry, self._losses), ends[at])
            elif entry.kind == packets.END:
                self.end(entry, self._packets.boundary(entry, self._losses))
            elif entry.kind == packets.HEARTBEAT or entry.header.event_type == "MHEARTBEAT":
                self.found.append(Heartbeat(self._source(entry), self._emitted_at_ns(entry.header)))
            elif entry.kind == packets.GTID:
                # The entries after it have the same GTID.
                self._losses.append(Loss.STATEMENT)
            elif entry.kind == packets.ROWS:
                if self._open is NO_TRANSACTION and ends[at] is not None:
                    self._open = opened(None, ends[at])
                catalog = self._change(entry, catalog)
            else:
                raise UnsupportedMessage(NAME, "entry.entryType", "not a kind of Canal's entries")
        return self.found, catalog

    def _ends(self, entries: Sequence[Entry]) -> list[str | None]:
        """Return, for each entry, the id of the transaction that ends after it and before another begins."""
        found: list[str | None] = []
        id: str | None = None
        for entry in reversed(entries):
            if entry.kind == packets.END:
                id = id_of(entry, self._packets.boundary(entry, []))
            found.append(id)
            if entry.kind == packets.BEGIN:
                id = None
        return found[::-1]

    def begin(self, entry: Entry, boundary: Boundary, id: str | None) -> None:
        """Begin a transaction. `id`: that of its end, None if the packet lacks it."""
        self._open = opened(boundary, id)
        self._row_count = 0
        self._tables.clear()
        if self._open.id is None:
            # Its END, which has the id, is in another packet.
            self._losses.append(Loss.TRANSACTION_MARK)
            return
        source, emitted_at_ns = self._source(entry), self._emitted_at_ns(entry.header)
        mark = TransactionMark(is_begin=True, id=self._open.id, source=source, emitted_at_ns=emitted_at_ns)
        self.found.append(mark)

    def end(self, entry: Entry, boundary: Boundary) -> None:
        """End a transaction."""
        count, tables = _counts(boundary)
        if count is None and self._open.has_begun:
            count, tables = self._row_count, tuple(self._tables.items())
        mark = TransactionMark(
            is_begin=False,
            id=id_of(entry, boundary),
            source=self._source(entry),
            emitted_at_ns=self._emitted_at_ns(entry.header),
            count=count,
            table_counts=tables,
        )
        self.found.append(mark)
        self._open = NO_TRANSACTION

    def _source(self, entry: Entry) -> Source:
        check(entry.header)
        return source_of(entry.header, self._open.thread_id, entry.unknown, self._record, self._losses)

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
        self.found.append(event)
        return learned

    def _add_rows(self, op: Op, entry: Entry, change: WireChange, catalog: Catalog) -> None:
        header = entry.header
        check(header)
        check_rows(NAME, "body", len(self.found) + len(change.rows), self._limits)
        message = _message(op, header, change)
        rows = EntryRows(message, op, header, self._open, self._row_count, len(change.rows), entry.unknown)
        found = self._changes(rows, self._record, catalog, self._losses)
        self._row_count += len(found)
        if self._open.has_begun:
            table = TableId(header.database, header.table)
            self._tables[table] = self._tables.get(table, 0) + len(found)
        self.found += found


def id_of(entry: Entry, boundary: Boundary) -> str:
    """Return the id of a transaction by its END: the END's position if it has no id."""
    return boundary.id or f"{entry.header.file}:{entry.header.position}"


def _counts(boundary: Boundary) -> tuple[int | None, tuple[tuple[TableId, int], ...]]:
    """Return the number of events of a transaction from its END: in total and per table."""
    try:
        count = int(boundary.props[COUNT_HEADER])
        tables = msgspec.json.decode(boundary.props.get(TABLES, "[]"), type=list[tuple[str, str, int]])
    except (KeyError, ValueError, *REFUSED):
        return None, ()
    return count, tuple([(TableId(database, table), number) for database, table, number in tables])


def _message(op: Op, header: Header, change: WireChange) -> CanalMessage:
    """Return the rows as a message of the family. Raises Malformed."""
    rows = change.rows
    facts = _facts(op, change)
    message = CanalMessage(
        database=header.database,
        table=header.table,
        pk_names=facts.pk_names,
        type=ROW_TYPES[op],
        mysql_type=facts.mysql_type,
        sql_type=facts.sql_type,
        data=[_cells(_image(op, row)) for row in rows],
    )
    if op is UPDATE:
        message.old = [_cells(row.before) if row.before.texts else None for row in rows]
    return message


def _facts(op: Op, change: WireChange) -> ColumnFacts:
    """Return the facts about an entry's columns. Raises Malformed."""
    lists: list[WireColumns] = []
    for row in change.rows:
        lists.append((row.before if op is DELETE else row.after).columns)
        if op is UPDATE:
            lists.append(row.before.columns)
    key = tuple(dict.fromkeys(lists))
    found = change.columns.facts.get(key)
    if found is None:
        columns = _columns(op, change.rows)
        types = {name: column.mysql_type for name, column in columns.items() if column.mysql_type}
        found = ColumnFacts(
            [name for name, column in columns.items() if column.is_key],
            _printed(types or None),
            _printed({name: column.sql_type for name, column in columns.items()}),
        )
        change.columns.keep_facts(key, found)
    return found


def _columns(op: Op, rows: Sequence[WireRow]) -> dict[str, WireColumn]:
    """Return the columns of an entry by name. Raises Malformed if two images disagree on a column's type or
    key: all rows of an entry have one version of its table. `sqlType` may depend on the value.
    """
    found: dict[str, WireColumn] = {}
    for row in rows:
        image = _image(op, row).columns.columns
        for column in (*image, *row.before.columns.columns) if op is UPDATE else image:
            first = found.setdefault(column.name, column)
            if first.mysql_type != column.mysql_type or first.is_key != column.is_key:
                raise Malformed(NAME, "rowDatas", "a column with different types or keys in one entry")
    return found


def _printed(members: Any) -> msgspec.Raw:  # noqa: ANN401 - names and their members in a message
    return msgspec.Raw(msgspec.json.encode(members))


def _image(op: Op, row: WireRow) -> WireImage:
    image = row.before if op is DELETE else row.after
    if not image.texts:
        raise Malformed(NAME, "rowDatas", "a row without columns")
    return image


def _cells(image: WireImage) -> dict[str, str | None]:
    if not image.columns.is_unique:
        raise Malformed(NAME, "rowDatas", "two columns of one name, or without one, in a row")
    return dict(zip(image.columns.names, image.texts, strict=True))
