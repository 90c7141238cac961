"""Encoder of Canal's JSON."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import Final

import msgspec

from relay.codecs.canal.canal_json.messages import NAME, FlatMessage
from relay.codecs.canal.canal_json.options import CanalOptions, carries, text_style
from relay.codecs.canal.shared.canal_common import (
    canal_dialect,
)
from relay.codecs.canal.shared.messages import (
    READ,
    ROW_TYPES,
    UPDATE,
    ddl_type,
)
from relay.codecs.canal.shared.row_writing import TextWriters
from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.shaping import op_without_before
from relay.codecs.shared.ticdc import mysql_text
from relay.model.events import Event, RowChange, SchemaChange
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import mark_of

_TYPE_PARAMETERS: Final = Loss.TYPE_PARAMETERS

_NULL: Final = msgspec.Raw(b"null")


class CanalJsonEncoder:
    """Encodes messages as Canal 1.1.8 does."""

    prepare: Final = None

    def __init__(self, options: CanalOptions, answers: LookupCache) -> None:
        self._max_batch_size = options.max_batch_size
        self._unknown_before = options.missing_before
        self._count_lost = source_losses(carries(options))
        self._writers = TextWriters(
            NAME,
            canal_dialect(text_style(options)),
            CachePool(answers.limits.cache_bytes),
        )
        self._lost = self._writers.lost
        self._to_json = msgspec.json.Encoder(enc_hook=mark_of).encode

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Return the events' messages; see `relay.codecs.codec.Encoder`."""
        if len(events) == 1 and isinstance(events[0], RowChange):
            return [EncodedRecord(None, self._to_json(self._row(events[0], source_record, losses)))]
        return map(self._payload, self._messages(events, source_record, losses))

    def _payload(self, message: FlatMessage) -> EncodedRecord:
        return EncodedRecord(None, self._to_json(message))

    def _messages(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[FlatMessage]:
        last: FlatMessage | None = None
        for event in events:
            if isinstance(event, RowChange):
                message = self._row(event, source_record, losses)
                if last is not None and self._has_joined(last, message):
                    continue
            elif isinstance(event, SchemaChange):
                message = self._ddl(event, source_record, losses)
            else:
                losses.append(loss_of(event))
                continue
            if last is not None:
                yield last
            last = message
        if last is not None:
            yield last

    def _has_joined(self, last: FlatMessage, message: FlatMessage) -> bool:
        """Append the row to the last message if it is not full and has the same table version, operation and
        time.

        `sqlType` is then that of the last row, as in Canal.
        """
        if last.data is None or len(last.data) >= self._max_batch_size:
            return False
        if last.mysqlType is not message.mysqlType or (last.type, last.es) != (message.type, message.es):
            return False
        last.data += message.data or []
        if last.old is not None:
            last.old += message.old or []
        last.sqlType = message.sqlType
        return True

    def _row(self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]) -> FlatMessage:
        source, op = change.source, change.op
        text = self._writers.write(change)
        if self._lost:
            losses += self._lost
        writer, cells = text.writer, text.cells
        if text.loses_parameters:
            losses.append(_TYPE_PARAMETERS)
        old = None
        if op is UPDATE:
            if text.old is None:
                op = op_without_before(self._unknown_before, NAME)
            else:
                old = [text.changed()]
        self._count_lost(source, losses, change.transaction)
        if op is READ and not source.snapshot:
            losses.append(Loss.SNAPSHOT)
        return FlatMessage(
            [cells],
            writer.table.database,
            source.event_time_ns // 1_000_000,
            source.gtid or "",
            source_record.offset,
            False,
            writer.mysql_type,
            old,
            writer.pk_names or None,
            "",
            writer.sql_type or writer.sql_type_of(cells),
            writer.table.table,
            change.emitted_at_ns // 1_000_000,
            ROW_TYPES[op],
        )

    def _ddl(self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]) -> FlatMessage:
        source = change.source
        self._count_lost(source, losses)
        return FlatMessage(
            None,
            change.table.database,
            source.event_time_ns // 1_000_000,
            source.gtid or "",
            source_record.offset,
            True,
            _NULL,
            None,
            None,
            mysql_text(change),
            _NULL,
            change.table.table,
            change.emitted_at_ns // 1_000_000,
            ddl_type(change),
        )
