"""Encoder of Debezium's MySQL connector 3.6: rows, tombstones, schema changes, transactions, heartbeats.

An UPDATE that changes the message's key becomes DELETE, tombstone and INSERT, each with the other key in a
header. Facts unknown without a binlog are 0, the empty text or null; the commit ts, or the offset, then
replaces the position, so that readers can order events.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from relay.codecs.codec import ChosenKey, EncodedRecord
from relay.codecs.debezium.native.fields import (
    HEARTBEAT,
    HEARTBEAT_KEY,
    TRANSACTION_KEY,
    TRANSACTION_VALUE,
    Json,
)
from relay.codecs.debezium.native.message_writing import NativeRowTarget, native_key, printed
from relay.codecs.debezium.native.options import NAME, DebeziumOptions
from relay.codecs.debezium.native.schema_changes import (
    CHANGE_KEY,
    CHANGE_VALUE,
    SchemaChangeMessage,
    bootstrap_message,
    changes_of,
)
from relay.codecs.losses import Before, Capabilities, Loss, loss_of, source_losses
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.row_writing import TypedWriters
from relay.codecs.shared.rows import split_images
from relay.codecs.shared.shaping import op_without_before
from relay.codecs.shared.ticdc import changes_chosen_key, differ
from relay.model.errors import NotRepresentable
from relay.model.events import (
    Bootstrap,
    DdlKind,
    Event,
    Heartbeat,
    Op,
    RowChange,
    SchemaChange,
    Snapshot,
    Source,
    TableSchema,
    TransactionMark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord, Header
from relay.mysql.ddl.parts import only_kind

# Python 3.11 resolves enum members through a descriptor, which costs a function call; these are used for
# every row.
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE
_READ: Final = Op.READ
#: Errors that printing raises for values that no JSON of this protocol can hold.
_UNPRINTABLE: Final = (OverflowError, UnicodeError, msgspec.MsgspecError)
NEW_KEY, OLD_KEY = "__debezium.newkey", "__debezium.oldkey"


def carries(options: DebeziumOptions) -> Capabilities:
    """Return the capabilities of messages with these options."""
    has_transactions = options.provide_transaction_metadata
    return Capabilities(
        before=Before.FULL,
        delete_image=True,
        primary_key=True,
        column_types=False,
        type_parameters=False,
        column_charset=options.include_schema_changes,
        column_enum_charset=options.include_schema_changes,
        ddl=options.include_schema_changes,
        truncate=options.include_schema_changes and options.skipped_operations != "t",
        watermark=False,
        exact_decimals=options.decimal_handling_mode != "double",
        every_date=options.zero_dates == "text"
        or (options.temporal == "text" and options.zero_dates != "null"),
        every_time=options.temporal == "text"
        or options.time_precision_mode in {"adaptive_time_microseconds", "microseconds"},
        null_beside_default=not options.replace_null_with_default,
        commit_ts=False,
        gtid=True,
        binlog_position=True,
        binlog_row=True,
        event_time_nanoseconds=True,
        source_name=True,
        snapshot=True,
        server_id=True,
        thread_id=True,
        query=True,
        transaction=has_transactions,
        transaction_order=has_transactions,
        transaction_marks=has_transactions,
    )


def _split_chosen(chosen: ChosenKey, events: list[Event]) -> list[Event]:
    """Split updates of message keys: of the keys that rules choose, and of other tables' own keys."""
    found: list[Event] = []
    for event in events:
        if not isinstance(event, RowChange) or not chosen(event.table):
            found += split_key_changes([event])
        elif changes_chosen_key(event, chosen):
            found += _halves(event)
        else:
            found.append(event)
    return found


class KeyChange(RowChange, frozen=True, kw_only=True):
    """The DELETE or the INSERT that an UPDATE of a key was split into; `other` is its other half."""

    other: RowChange


def split_key_changes(events: list[Event]) -> list[Event]:
    """Split every UPDATE of a message's key into DELETE of the old row and INSERT of the new one."""
    for event in events:
        if isinstance(event, RowChange) and event.op is _UPDATE and not event.images.keys_unchanged_on_wire():
            break
    else:
        return events
    indexes: dict[TableSchema, tuple[int, ...]] = {}
    return [part for event in events for part in _parts(event, indexes)]


def _parts(event: Event, indexes: dict[TableSchema, tuple[int, ...]]) -> list[Event]:
    if not isinstance(event, RowChange) or event.op is not _UPDATE or event.images.keys_unchanged_on_wire():
        return [event]
    images, schema = event.images, event.schema
    key = indexes.get(schema)
    if key is None:
        key = indexes[schema] = schema.indexes_of(native_key(schema))
    before, after = images.cells_at(key, is_old=True), images.cells_at(key, is_old=False)
    if before is None or after is None or not differ(before, after):
        return [event]
    return _halves(event)


def _halves(event: RowChange) -> list[Event]:
    schema = event.schema
    old, new = split_images(event.images)
    rest = event.source, event.emitted_at_ns, event.transaction
    delete, insert = RowChange(Op.DELETE, schema, old, *rest), RowChange(Op.INSERT, schema, new, *rest)
    return [
        KeyChange(Op.DELETE, schema, old, *rest, other=insert),
        KeyChange(Op.INSERT, schema, new, *rest, other=delete),
    ]


class DebeziumJsonEncoder:
    """Encodes Debezium JSON as the MySQL connector 3.6 and JsonConverter do."""

    def __init__(
        self, options: DebeziumOptions, answers: LookupCache, chosen: ChosenKey | None = None
    ) -> None:
        self._options = options
        self.prepare = split_key_changes
        if chosen is not None:
            self.prepare = functools.partial(_split_chosen, chosen)
        pool = CachePool(answers.limits.cache_bytes)
        self._messages = NativeRowTarget(options, pool, chosen)
        self._lost = self._messages.lost
        self._rows = TypedWriters(NAME, self._messages, pool)
        self._has_transactions = options.provide_transaction_metadata
        self._has_tombstones = options.tombstones_on_delete
        says = carries(options)
        self._count_lost = source_losses(says, options.topic_prefix)
        #: For transaction marks and heartbeats, which have no `source`.
        bare = msgspec.structs.replace(
            says,
            gtid=False,
            binlog_position=False,
            snapshot=False,
            server_id=False,
            thread_id=False,
            query=False,
            event_time_nanoseconds=False,
        )
        self._count_lost_of_mark = source_losses(bare, options.topic_prefix)

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Return the events' messages, with a tombstone after each DELETE; see
        `relay.codecs.codec.Encoder`.
        """
        if len(events) == 1:
            return self._event(events[0], source_record, 0, losses)
        return self._payloads(events, source_record, losses)

    def _payloads(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        row = 0
        for event in events:
            yield from self._event(event, source_record, row, losses)
            row += isinstance(event, RowChange)

    def _event(
        self, event: Event, source_record: ConsumerRecord, row: int, losses: list[Loss]
    ) -> Sequence[EncodedRecord]:
        """Return the messages of an event; `row`: its index among the rows of its record."""
        try:
            if not isinstance(event, RowChange):
                return list(self._control(event, source_record, losses))
            payload = self._row(event, source_record, row, losses)
        except _UNPRINTABLE:
            raise NotRepresentable(
                NAME, "payload", "a number beyond 64 bits, or text that is not Unicode"
            ) from None
        if event.op is _DELETE and self._has_tombstones and payload.key is not None:
            return [payload, EncodedRecord(payload.key, None, headers=payload.headers)]
        return [payload]

    def _row(
        self, change: RowChange, source_record: ConsumerRecord, row: int, losses: list[Loss]
    ) -> EncodedRecord:
        source, op, lost, messages = change.source, change.op, self._lost, self._messages
        if lost:
            lost.clear()
        plan, before, after, row_losses = self._rows.write(change)
        if op is _UPDATE and before is None:
            op = op_without_before(self._options.missing_before, NAME)
        if row_losses:
            losses += row_losses
        if lost:
            losses += lost
        snapshot = plan.streamed
        if source.snapshot is not None or op is _READ:
            snapshot = messages.snapshot(source.snapshot or Snapshot.TRUE, plan.id.database)
        pos = source.binlog_position
        if pos is None:
            pos = self._binlog_position(source, source_record, losses)
        block = messages.source(source, snapshot, plan.table, pos, row)
        transaction = change.transaction
        shown = transaction if self._has_transactions else None
        images = messages.completed(plan, before), messages.completed(plan, after)
        payload = messages.row(op, plan, images, block, change.emitted_at_ns, shown)
        self._count_lost(source, losses, transaction)
        if isinstance(change, KeyChange) and self._options.key_change_headers:
            return msgspec.structs.replace(payload, headers=self._headers(change))
        return payload

    def _binlog_position(self, source: Source, source_record: ConsumerRecord, losses: list[Loss]) -> int:
        """Return the written position: of the binlog, else (counted) one that increases with the events."""
        if source.binlog_position is not None:
            return source.binlog_position
        losses.append(_POSITION_SYNTHETIC)
        return source_record.offset if source.commit_ts is None else source.commit_ts

    def _headers(self, change: KeyChange) -> tuple[Header, ...]:
        plan, before, after, _ = self._rows.write(change.other)
        self._lost.clear()
        text = self._messages.key_text(plan, before if after is None else after)
        return ((NEW_KEY if change.op is _DELETE else OLD_KEY, text),)

    # ------------------------------------------------------------ events other than rows

    def _control(
        self, event: Event, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        if isinstance(event, SchemaChange) and self._options.include_schema_changes:
            yield from self._schema_change(event, source_record, losses)
        elif isinstance(event, Bootstrap) and self._options.include_schema_changes:
            self._count_lost(event.source, losses)
            pos = self._binlog_position(event.source, source_record, losses)
            shown = bootstrap_message(event, has_comments=self._options.include_schema_comments)
            yield self._change_message(shown, event, event.source.snapshot or Snapshot.TRUE, pos)
        elif isinstance(event, TransactionMark) and self._has_transactions:
            self._count_lost_of_mark(event.source, losses)
            yield self._mark(event)
        elif isinstance(event, Heartbeat) and self._options.heartbeats == "keep":
            self._count_lost_of_mark(event.source, losses)
            yield self._control_message(
                ({"serverName": self._options.topic_prefix}, HEARTBEAT_KEY),
                ({"ts_ms": event.emitted_at_ns // _MS}, HEARTBEAT),
            )
        else:
            losses.append(loss_of(event))

    def _schema_change(
        self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        self._count_lost(change.source, losses)
        if only_kind(change) is DdlKind.TRUNCATE_TABLE:
            yield from self._truncate(change, source_record, losses)
            return
        pos = self._binlog_position(change.source, source_record, losses)
        for each in changes_of(change, losses, has_comments=self._options.include_schema_comments):
            yield self._change_message(each, change, change.source.snapshot, pos)

    def _change_message(
        self, shown: SchemaChangeMessage, event: SchemaChange | Bootstrap, snapshot: Snapshot | None, pos: int
    ) -> EncodedRecord:
        """Return the message of one change of a statement, or of a definition."""
        messages, database = self._messages, shown.database
        table = msgspec.Raw(printed(shown.table))
        payload = {
            "source": messages.source(event.source, messages.snapshot(snapshot, database), table, pos, 0),
            "ts_ms": event.emitted_at_ns // _MS,
            "databaseName": database,
            "schemaName": None,
            "ddl": shown.ddl,
            "tableChanges": shown.changes,
        }
        return self._control_message(({"databaseName": database}, CHANGE_KEY), (payload, CHANGE_VALUE))

    def _truncate(
        self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the message of TRUNCATE, a row's message without rows, or none."""
        if self._options.skipped_operations == "t":
            losses.append(loss_of(change))
            return
        schema = change.after or TableSchema(change.table, (), complete=False)
        plan = self._rows.plan(schema)
        pos = self._binlog_position(change.source, source_record, losses)
        block = self._messages.source(change.source, plan.streamed, plan.table, pos, 0)
        yield self._messages.truncate(plan, block, change.emitted_at_ns)

    def _mark(self, mark: TransactionMark) -> EncodedRecord:
        tables = [{"data_collection": str(table), "event_count": count} for table, count in mark.table_counts]
        payload = {
            "status": "BEGIN" if mark.is_begin else "END",
            "id": mark.id,
            "event_count": mark.count,
            "data_collections": None if mark.is_begin or mark.count is None else tables,
            "ts_ms": mark.source.event_time_ns // _MS,
        }
        return self._control_message(({"id": mark.id}, TRANSACTION_KEY), (payload, TRANSACTION_VALUE))

    def _control_message(self, key: tuple[Json, Json], value: tuple[Json, Json]) -> EncodedRecord:
        """Return the message of payloads and their schemas."""
        options = self._options
        return EncodedRecord(
            _printed_with(*key, has_schema=options.has_key_schema),
            _printed_with(*value, has_schema=options.has_value_schema),
        )


def _printed_with(payload: Json, schema: Json, *, has_schema: bool) -> bytes:
    return printed({"schema": schema, "payload": payload} if has_schema else payload)


_MS: Final = 1_000_000
_POSITION_SYNTHETIC: Final = Loss.BINLOG_POSITION_SYNTHETIC
