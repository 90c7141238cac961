"""Upstream Canal's packets (`flatMessage=false`): Protocol Buffers, several entries in one Kafka record.

    Packet { type MESSAGES, body Messages { batch id, entries } }
    Entry { Header { binlog file and position, server, time, database, table, type, gtid }, kind, value }

Kinds are TRANSACTIONBEGIN, ROWDATA (rows of one operation, or a statement), TRANSACTIONEND and HEARTBEAT;
keys are null. Emitted by alibaba/canal; with partition hashing the packet has a version and no batch id, and
no BEGIN and END, and so has TiCDC's of `protocol=canal` (up to v8.5), which has no log position either. Texts
of values and types are those of `canal-json`, but an UPDATE has its whole old row. It cannot say: commit ts,
watermarks, snapshots, nullability, defaults. Verified with records of Canal 1.1.8 on MySQL 8.0.12.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final, NamedTuple

import msgspec
from msgspec import Meta

from relay.catalog import Catalog, DdlBudget, DdlMessage, learn
from relay.codecs.canal import packets, signs
from relay.codecs.canal.local_times import ZonedReaders
from relay.codecs.canal.message import DELETE, READ, ROW_OPS, ROW_WORDS, UPDATE, CanalMessage, ddl_word
from relay.codecs.canal.packets import Boundary, Entry, Header, PacketReader, WireChange, WireColumn, WireRow
from relay.codecs.canal.protobuf import bytes_field, number_field
from relay.codecs.canal.text_readers import TextReaders
from relay.codecs.canal.upstream import (
    UpstreamOptions,
    canal_carries,
    canal_dialect,
    canal_readers,
    canal_style,
)
from relay.codecs.canal.writing import TextChange, TextWriter, TextWriters
from relay.codecs.codec import Codec, Payload
from relay.codecs.losses import Before, Carries, Lossy, is_administration, loss_of, source_losses
from relay.codecs.wire.caches import ByteCache, CachePool
from relay.codecs.wire.event_times import event_time_ns
from relay.codecs.wire.lenient_json import REFUSED
from relay.codecs.wire.shaping import op_without_before
from relay.codecs.wire.ticdc import mysql_text
from relay.codecs.wire.traced import TracedCells
from relay.errors import Malformed, NotRepresentable, UnsupportedMessage
from relay.limits import Limits, check_rows
from relay.model import (
    Event,
    Heartbeat,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    Transaction,
    TransactionMark,
)
from relay.needs import Answers
from relay.records import TIME_END_MS, ConsumerRecord
from relay.templates.tracing import Untraceable

NAME: Final = "canal-protobuf"
#: Kinds of events that change nothing: of XA transactions, of the position, a sign of life.
_IDLE: Final = frozenset({"GTID", "XACOMMIT", "XAROLLBACK"})
_MS_NS: Final = 1_000_000
#: What an END says besides its id, as properties, which Canal's clients ignore.
_COUNT, _TABLES = "eventCount", "tableCounts"


class ProtobufOptions(UpstreamOptions, frozen=True):
    """Options of upstream Canal's packets."""

    max_batch_size: Annotated[
        int,
        Meta(
            ge=1,
            description="entries a packet; more than 1 puts events of one source record together",
            extra={"side": "target"},
        ),
    ] = 1
    filter_transaction_entry: Annotated[
        bool,
        Meta(description="leave BEGIN and END of transactions out", extra={"side": "target"}),
    ] = msgspec.field(name="canal.instance.filter.transaction.entry", default=False)


def carries(options: ProtobufOptions) -> Carries:
    """Return what a message can say."""
    return msgspec.structs.replace(
        canal_carries(options, Before.FULL),
        binlog_position=True,
        server_id=True,
        transaction_marks=not options.filter_transaction_entry,
    )


# ---------------------------------------------------------------- decoder


class _Open(NamedTuple):
    """What is known of the transaction in which an entry stands: its id, None if the packet does not tell it,
    and whether its BEGIN is in the packet.
    """

    id: str | None
    thread_id: int | None
    has_begun: bool


_NONE: Final = _Open(None, None, has_begun=False)


class Decoder:
    """Reads packets of Canal's server and of TiCDC."""

    def __init__(self, options: ProtobufOptions, answers: Answers) -> None:
        self._limits = answers.limits
        self._packets = PacketReader(NAME, answers.limits)
        self._rows = canal_readers(NAME, canal_style(options), answers.limits.cache_bytes)

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's events; see `relay.codecs.codec.Decoder`."""
        if not record.value:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        entries = list(self._packets.entries_of(record.value, lossy))
        return _PacketDecoder(self._packets, self._rows, self._limits, record, lossy).events(entries, catalog)


class _PacketDecoder:
    """Reads the entries of one packet, in their order."""

    def __init__(
        self,
        packets: PacketReader,
        rows: TextReaders | ZonedReaders,
        limits: Limits,
        record: ConsumerRecord,
        lossy: list[Lossy],
    ) -> None:
        self._packets, self._rows, self._limits = packets, rows, limits
        self._record, self._lossy = record, lossy
        self._events: list[Event] = []
        self._open = _NONE
        self._row_count = 0
        self._tables: Counter[TableId] = Counter()
        self._budget: DdlBudget | None = None

    def events(self, entries: Sequence[Entry], catalog: Catalog) -> tuple[list[Event], Catalog]:
        """Return the events of entries, and the catalogue after them."""
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
                self._lossy.append(Lossy.STATEMENT)
            elif entry.kind == packets.ROWS:
                if self._open is _NONE and ends[at] is not None:
                    self._open = _Open(ends[at], None, has_begun=False)
                catalog = self._change(entry, catalog)
            else:
                raise UnsupportedMessage(NAME, "entry.entryType", "not a kind of Canal's entries")
        return self._events, catalog

    def _ends(self, entries: Sequence[Entry]) -> list[str | None]:
        """For each entry, the id of the transaction that ends after it, before another begins."""
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
        """The transaction's id: without one, where it ends."""
        return boundary.id or f"{entry.header.file}:{entry.header.position}"

    def _begin(self, entry: Entry, id: str | None) -> None:
        boundary = self._packets.boundary(entry, self._lossy)
        id = boundary.id or id
        self._open = _Open(id, boundary.thread_id, has_begun=True)
        self._row_count = 0
        self._tables.clear()
        if id is None:
            # Its END, which has the id, is in another packet.
            self._lossy.append(Lossy.TRANSACTION_MARK)
            return
        source = self._source(entry)
        self._events.append(
            TransactionMark(
                is_begin=True, id=id, source=source, emitted_at_ns=self._emitted_at_ns(entry.header)
            )
        )

    def _end(self, entry: Entry) -> None:
        boundary = self._packets.boundary(entry, self._lossy)
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
        """Return the source of an entry's events, of which there are so many rows."""
        header = entry.header
        if not -TIME_END_MS <= header.time_ms < TIME_END_MS:
            raise Malformed(NAME, "entry.header.executeTime", "not a time in milliseconds")
        has_place = bool(header.file) and header.position >= 0
        lossy: list[Lossy] = []
        time_ns = event_time_ns(header.time_ms * _MS_NS, None, self._record, lossy)
        self._lossy += lossy * rows
        return Source(
            "canal",
            time_ns,
            gtid=header.gtid or None,
            binlog_file=header.file if has_place else None,
            binlog_position=header.position if has_place else None,
            server_id=header.server_id or None,
            thread_id=self._open.thread_id,
            extras=entry.unknown or None,
        )

    def _emitted_at_ns(self, header: Header) -> int:
        return self._record.time_ms(header.time_ms) * _MS_NS

    # ------------------------------------------------------------ rows and statements

    def _change(self, entry: Entry, catalog: Catalog) -> Catalog:
        change = self._packets.row_change(entry, self._lossy)
        op = ROW_OPS.get(change.event_type)
        if not change.is_ddl and op is not None and change.rows:
            self._add_rows(op, entry, change, catalog)
            return catalog
        if change.is_ddl or (change.sql and op is None):
            return self._statement(entry, change, catalog)
        if change.event_type in _IDLE:
            self._lossy.append(Lossy.STATEMENT)
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
        learnt, event = learn(catalog, message, self._budget)
        if not change.is_ddl and is_administration(event):
            self._lossy.append(Lossy.ADMIN_STATEMENT)
            return catalog
        if not event.kinds and not change.is_ddl and learnt is catalog:
            self._lossy.append(Lossy.STATEMENT)
            return catalog
        if not event.kinds:
            self._lossy.append(Lossy.DDL_NOT_UNDERSTOOD)
        self._events.append(event)
        return learnt

    def _add_rows(self, op: Op, entry: Entry, change: WireChange, catalog: Catalog) -> None:
        source = self._source(entry, len(change.rows))
        check_rows(NAME, "body", len(self._events) + len(change.rows), self._limits)
        message = _message(op, entry.header, change.rows)
        found = self._rows.changes(message, op, source, self._record, catalog, self._lossy)
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
    """How many events an END says its transaction has, in all and for each of its tables."""
    try:
        count = int(boundary.props[_COUNT])
        tables = msgspec.json.decode(boundary.props.get(_TABLES, "[]"), type=list[tuple[str, str, int]])
    except (KeyError, ValueError, *REFUSED):
        return None, ()
    return count, tuple([(TableId(database, table), number) for database, table, number in tables])


def _message(op: Op, header: Header, rows: Sequence[WireRow]) -> CanalMessage:
    """The rows as a message of the family. Raises Malformed."""
    columns = _columns(op, rows)
    types = {name: column.mysql_type for name, column in columns.items() if column.mysql_type}
    message = CanalMessage(
        database=header.database,
        table=header.table,
        pk_names=[name for name, column in columns.items() if column.is_key],
        type=ROW_WORDS[op],
        mysql_type=_printed(types or None),
        sql_type=_printed({name: column.sql_type for name, column in columns.items()}),
        data=[_cells(_image(op, row)) for row in rows],
    )
    if op is UPDATE:
        message.old = [_cells(row.before) if row.before else None for row in rows]
    return message


def _columns(op: Op, rows: Sequence[WireRow]) -> dict[str, WireColumn]:
    """The columns of an entry by their names. Raises Malformed if two images disagree on a column's
    type or key: all rows of an entry are of one version of its table. `sqlType` may depend on the value.
    """
    found: dict[str, WireColumn] = {}
    for row in rows:
        image = _image(op, row)
        for column in (*image, *row.before) if op is UPDATE else image:
            told = found.setdefault(column.name, column)
            if told.mysql_type != column.mysql_type or told.is_key != column.is_key:
                raise Malformed(NAME, "rowDatas", "a column with different types or keys in one entry")
    return found


def _printed(members: Any) -> msgspec.Raw:  # noqa: ANN401 - names and what a message says of them
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


# ---------------------------------------------------------------- encoder


class _Shape(NamedTuple):
    """What is the same in each row of a writer: a column's name, its bytes around `updated` and the value."""

    names: tuple[str, ...]
    heads: tuple[bytes, ...]
    keys: tuple[bytes, ...]
    types: tuple[bytes, ...]


#: What a shape takes, by column.
_SHAPE_BYTES: Final = 400


class Encoder:
    """Writes packets as Canal 1.1.8 does."""

    prepare: Final = None

    def __init__(self, options: ProtobufOptions, answers: Answers) -> None:
        self._options = options
        self._count_lost = source_losses(carries(options))
        pool = CachePool(answers.limits.cache_bytes)
        self._writers = TextWriters(NAME, canal_dialect(canal_style(options)), pool)
        self._shapes: ByteCache[TextWriter, _Shape] = pool.cache()

    def encode(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterator[Payload]:
        """Give the events' packets; see `relay.codecs.codec.Encoder`."""
        entries: list[bytes] = []
        for event in events:
            try:
                entry = self._entry(event, lossy)
            except UnicodeError:
                raise NotRepresentable(NAME, "", "text that is no Unicode") from None
            if entry is None:
                lossy.append(loss_of(event))
                continue
            entries.append(entry)
            if len(entries) >= self._options.max_batch_size:
                yield Payload(None, packets.packet(caused_by.offset, entries))
                entries = []
        if entries:
            yield Payload(None, packets.packet(caused_by.offset, entries))

    def _entry(self, event: Event, lossy: list[Lossy]) -> bytes | None:
        """The entry of an event, None if there is none for it."""
        if isinstance(event, RowChange):
            return self._row(event, lossy)
        if isinstance(event, SchemaChange):
            self._count_lost(event.source, lossy)
            header = _header(event.source, event.table, ddl_word(event))
            value = packets.statement_value(header.event_type, mysql_text(event), event.table.database)
            return packets.entry(packets.ROWS, header, value)
        if isinstance(event, TransactionMark) and not self._options.filter_transaction_entry:
            return self._mark(event, lossy)
        return None

    def _mark(self, mark: TransactionMark, lossy: list[Lossy]) -> bytes:
        self._count_lost(mark.source, lossy)
        props = []
        if mark.count is not None:
            tables = [(table.database, table.table, count) for table, count in mark.table_counts]
            props = [packets.pair(_COUNT, str(mark.count))]
            props.append(packets.pair(_TABLES, msgspec.json.encode(tables).decode()))
        kind = packets.BEGIN if mark.is_begin else packets.END
        value = packets.boundary_value(mark.id, props)
        return packets.entry(kind, _header(mark.source, TableId("", ""), ""), value)

    def _row(self, change: RowChange, lossy: list[Lossy]) -> bytes:
        op, source = change.op, change.source
        text = self._writers.write(change)
        if type(text.cells) is TracedCells:
            raise Untraceable
        lossy += self._writers.lost
        if text.loses_parameters:
            lossy.append(Lossy.TYPE_PARAMETERS)
        if op is UPDATE and text.old is None:
            op = op_without_before(self._options.unknown_before, NAME)
        self._count_lost(source, lossy, change.transaction)
        if op is READ and not source.snapshot:
            lossy.append(Lossy.SNAPSHOT)
        word = ROW_WORDS[op]
        header = _header(source, text.writer.table, word)
        value = packets.rows_value(word, [self._row_data(op, text)])
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
            if not keys <= types.keys():  # the rest of the key would be taken for the whole
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
        time_ms=source.event_time_ns // _MS_NS,
        database=table.database,
        table=table.table,
        event_type=event_type,
        gtid=source.gtid or "",
    )


CODEC: Final = Codec(
    name=NAME,
    title="upstream Canal's packets of Protocol Buffers (flatMessage=false)",
    options=ProtobufOptions,
    decodes=msgspec.structs.replace(
        carries(ProtobufOptions()), thread_id=True, transaction=True, transaction_order=True
    ),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    signs=signs.packets,
)
