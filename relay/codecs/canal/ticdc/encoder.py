"""Encoder of TiCDC Canal-JSON."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.canal.shared.messages import (
    DELETE,
    INSERT,
    READ,
    ROW_TYPES,
    UPDATE,
)
from relay.codecs.canal.shared.row_writing import TextChange, TextWriters
from relay.codecs.canal.ticdc.decoder import WATERMARK
from relay.codecs.canal.ticdc.messages import (
    NAME,
    ControlMessage,
    TicdcRowMessage,
    TidbMembers,
    ticdc_ddl_type,
)
from relay.codecs.canal.ticdc.options import TicdcOptions, carries, text_dialect
from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.shared.base64_text import base64_text
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.large_messages import (
    LargeMessageCompression,
    SizeLimit,
    claim_check_document,
    compressed,
)
from relay.codecs.shared.shaping import (
    op_without_before,
)
from relay.codecs.shared.ticdc import (
    commit_ts_of,
    handle_key_indexes,
    lacks_handle_key,
    per_table_statements,
    split_updates,
)
from relay.model.events import (
    Event,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    Transaction,
    Watermark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import mark_of

_TYPE_PARAMETERS: Final = Loss.TYPE_PARAMETERS

#: Memory of a key column's value in a set.
_KEY_BYTES: Final = 100


class TicdcCanalEncoder:
    """Encodes TiCDC Canal-JSON as current releases do."""

    def __init__(self, options: TicdcOptions, answers: LookupCache) -> None:
        self._options = options
        self.prepare = None if options.output_raw_change_event else split_updates
        self._has_extension = options.enable_tidb_extension
        self._only_changed = options.writes_only_changed
        self._only_key_deletes = options.delete_only_output_handle_key_columns
        pool = CachePool(answers.limits.cache_bytes)
        self._writers = TextWriters(NAME, text_dialect(options), pool)
        self._lost = self._writers.lost
        self._key_indexes: ByteCache[TableSchema, frozenset[int]] = pool.cache()
        self._count_lost = source_losses(carries(options))
        self._limit = SizeLimit(NAME, options)
        self._free_bytes = self._limit.free_bytes
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {LargeMessageCompression.LZ4, LargeMessageCompression.SNAPPY}
        self._to_json = msgspec.json.Encoder(enc_hook=mark_of).encode

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Return the events' messages, one each; see `relay.codecs.codec.Encoder`."""
        if len(events) == 1 and isinstance(events[0], RowChange):
            return [self._row(events[0], source_record, losses)]
        return self._payloads(events, source_record, losses)

    def _payloads(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        for event in events:
            match event:
                case RowChange():
                    yield self._row(event, source_record, losses)
                case SchemaChange():
                    yield from self._ddl(event, source_record, losses)
                case Watermark() if self._has_extension:
                    yield self._watermark(event, losses)
                case _:
                    losses.append(loss_of(event))

    def _row(self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]) -> EncodedRecord:
        text = self._text(change, losses)
        tidb = self._tidb(change.source, source_record, losses, change.transaction)
        value = self._row_value(change, text, tidb)
        if len(value) <= self._free_bytes:
            return EncodedRecord(None, value)
        reduced = self._reduced(change, text, tidb)
        return self._limit.reduce(
            EncodedRecord(None, value), change, source_record, losses, reduced=reduced, stored=self._stored
        )

    def _reduced(
        self, change: RowChange, text: TextChange, tidb: TidbMembers | UnsetType
    ) -> Callable[[str | None], EncodedRecord]:
        """Return a function that writes the row with its handle key alone; see `SizeLimit.reduce`."""

        def write(location: str | None) -> EncodedRecord:
            members = TidbMembers() if tidb is UNSET else msgspec.structs.replace(tidb)
            if location is None:
                members.onlyHandleKey = True
            else:
                members.claimCheckLocation = location
            return EncodedRecord(None, self._row_value(change, self._only_key(text, change.schema), members))

        return write

    def _stored(self, payload: EncodedRecord) -> bytes:
        value = payload.value or b""
        return value if self._options.claim_check_raw_value else claim_check_document(None, value)

    def _row_value(self, change: RowChange, text: TextChange, tidb: TidbMembers | UnsetType) -> bytes:
        op, writer, cells = change.op, text.writer, text.cells
        old = None
        if op is UPDATE:
            if text.old is None:
                op = INSERT
            else:
                old = [text.changed() if self._only_changed else cells | text.old]
        message = TicdcRowMessage(
            0,
            writer.table.database,
            writer.table.table,
            writer.pk_names,
            False,
            ROW_TYPES[op],
            change.source.event_time_ns // 1_000_000,
            change.emitted_at_ns // 1_000_000,
            "",
            writer.sql_type or writer.sql_type_of(cells),
            writer.mysql_type,
            old,
            [cells],
            tidb,
        )
        value = self._to_json(message)
        return compressed(value, self._compression) if self._is_packed else value

    def _text(self, change: RowChange, losses: list[Loss]) -> TextChange:
        op, text = change.op, self._writers.write(change)
        if self._lost:
            losses += self._lost
        if text.loses_parameters:
            losses.append(_TYPE_PARAMETERS)
        if op is UPDATE:
            if text.old is None:
                op_without_before(self._options.missing_before, NAME)
        elif op is READ and not change.source.snapshot:
            losses.append(Loss.SNAPSHOT)
        elif op is DELETE and self._only_key_deletes and not lacks_handle_key(change, text.cells, losses):
            only_key = self._only_key(text, change.schema)
            if len(only_key.cells) < len(text.cells):
                losses.append(Loss.DELETE_IMAGE)
            return only_key
        return text

    def _only_key(self, text: TextChange, schema: TableSchema) -> TextChange:
        """Return the row with the handle key's columns only; with all if the table has no such key."""
        key = self._key_indexes.get(schema)
        if key is None:
            key = frozenset(handle_key_indexes(schema))
            self._key_indexes.keep(schema, key, _KEY_BYTES * (len(key) + 1))
        writer = self._writers.writer_for(schema, tuple(at for at in text.writer.indexes if at in key))
        names = [schema.columns[at].name for at in writer.indexes]
        cells = {name: text.cells[name] for name in names if name in text.cells}
        old = text.old
        if old is not None:
            old = {name: old[name] for name in names if name in old}
        return TextChange(writer, cells, old, text.loses_parameters)

    def _tidb(
        self,
        source: Source,
        source_record: ConsumerRecord,
        losses: list[Loss],
        transaction: Transaction | None = None,
    ) -> TidbMembers | UnsetType:
        self._count_lost(source, losses, transaction)
        if not self._has_extension:
            return UNSET
        members = TidbMembers(commit_ts_of(source, source_record, losses))
        if source.row_key is not None and self._options.output_row_key:
            members.rowkey = base64_text(source.row_key)
        return members

    def _ddl(
        self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        tidb = self._tidb(change.source, source_record, losses)
        type_ = ticdc_ddl_type(change)
        for table, sql in per_table_statements(change):
            yield self._control(change, table, type_, sql, tidb)

    def _watermark(self, mark: Watermark, losses: list[Loss]) -> EncodedRecord:
        self._count_lost(mark.source, losses)
        tidb = TidbMembers(watermarkTs=mark.source.commit_ts or 0)
        return self._control(mark, TableId("", ""), WATERMARK, "", tidb)

    def _control(
        self,
        event: SchemaChange | Watermark,
        table: TableId,
        type_: str,
        sql: str,
        tidb: TidbMembers | UnsetType,
    ) -> EncodedRecord:
        es, ts = event.source.event_time_ns // 1_000_000, event.emitted_at_ns // 1_000_000
        is_ddl = isinstance(event, SchemaChange)
        message = ControlMessage(
            0, table.database, table.table, None, is_ddl, type_, es, ts, sql, None, None, None, None, tidb
        )
        return EncodedRecord(None, compressed(self._to_json(message), self._compression))
