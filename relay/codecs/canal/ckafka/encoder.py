"""Encoder of CKafka's official format 1."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from relay.codecs.canal.ckafka.messages import (
    CONNECTOR,
    MILLISECOND_NS,
    MOSTLY_NULL,
    NAME,
    SECOND_NS,
    CKafkaDdlMessage,
    CKafkaRowMessage,
    time_text,
)
from relay.codecs.canal.ckafka.options import CkafkaOptions, carries, text_style
from relay.codecs.canal.ckafka.rows import CkafkaWriters
from relay.codecs.canal.shared.messages import (
    DDL_TYPES,
    READ,
    UPDATE,
    ddl_type,
    unchecked_bytes,
)
from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.shaping import (
    op_without_before,
)
from relay.codecs.shared.ticdc import mysql_text
from relay.codecs.shared.unknown_members import Unknown, unknown_in
from relay.model.events import Event, Op, RowChange, SchemaChange, Source
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import mark_of

_LETTERS: Final = {Op.INSERT: "I", Op.READ: "I", Op.UPDATE: "U", Op.DELETE: "D"}

#: The unit of `ddl-time-unit`; None: the source's.
_UNITS: Final = {"auto": None, "s": SECOND_NS, "ms": MILLISECOND_NS}


def _split_extras(source: Source) -> tuple[Unknown | None, Unknown | None]:
    """Split a row's unknown fields into those that its message keeps, and all others."""
    unknown = source.unknown_fields
    if unknown is None or source.connector != CONNECTOR:
        return None, unknown
    kept = {name: value for name, value in unknown.items() if name in MOSTLY_NULL}
    return kept or None, unknown_in(unknown, MOSTLY_NULL)


class CKafkaEncoder:
    """Encodes official format 1."""

    prepare: Final = None

    def __init__(self, options: CkafkaOptions, answers: LookupCache) -> None:
        self._limits, self._unchecked = answers.limits, unchecked_bytes(answers.limits)
        self._zone = options.event_zone()
        self._unknown_before = options.missing_before
        self._ddl_unit_ns = _UNITS[options.ddl_time_unit]
        self._rows = CkafkaWriters(NAME, text_style(options), CachePool(answers.limits.cache_bytes))
        row_carries = carries(options)
        self._count_lost = source_losses(row_carries)
        # DDL in Canal's form cannot carry these, unlike rows.
        self._count_lost_of_ddl = source_losses(
            msgspec.structs.replace(row_carries, gtid=False, binlog_position=False, snapshot=False)
        )
        self._to_json = msgspec.json.Encoder(enc_hook=mark_of).encode

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the events' messages, one each; see `relay.codecs.codec.Encoder`."""
        for event in events:
            if isinstance(event, RowChange):
                yield EncodedRecord(None, self._to_json(self._row(event, source_record, losses)))
            elif isinstance(event, SchemaChange):
                yield EncodedRecord(None, self._to_json(self._ddl(event, losses)))
            else:
                losses.append(loss_of(event))

    def _row(self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]) -> CKafkaRowMessage:
        source, table = change.source, change.table
        writer, images = self._rows.images(change)
        losses += self._rows.lost
        kept, others = _split_extras(source)
        if kept is not None:
            source = msgspec.structs.replace(source, unknown_fields=others)
        self._count_lost(source, losses, change.transaction)
        if source.connector != CONNECTOR:  # the connector's own rows never had types and keys
            losses += writer.losses
        op = change.op
        if op is UPDATE and images.old is None:
            op = op_without_before(self._unknown_before, NAME)
        binlog_file, binlog_position = self._binlog(source, source_record, losses)
        return CKafkaRowMessage(
            BINLOG_NAME=binlog_file,
            BINLOG_POS=binlog_position,
            DATABASE=table.database,
            GLOBAL_ID=source.gtid or None,
            NEW_VALUES=images.new,
            OLD_VALUES=images.old,
            TABLE=table.table,
            TIME=self._time(change, losses),
            TYPE=_LETTERS[op],
            **(kept or {}),
        )

    def _binlog(self, source: Source, source_record: ConsumerRecord, losses: list[Loss]) -> tuple[str, int]:
        """Return the binlog file and position; "" and the record's offset if the source has none (counted).

        Readers order rows and recognize duplicates by the pair, and expect both. The offset rises within a
        partition and is the same in every run; the empty name marks it as foreign to every binlog of the
        server.
        """
        if source.binlog_position is not None:
            return source.binlog_file or "", source.binlog_position
        losses.append(Loss.BINLOG_POSITION_SYNTHETIC)
        return "", source_record.offset

    def _time(self, change: RowChange, losses: list[Loss]) -> str:
        """Return the event time in whole seconds; 0 for a row of a snapshot.

        The connector writes 0, and readers recognize snapshots by it.
        """
        source = change.source
        if source.snapshot or change.op is READ:
            seconds, is_lost = 0, source.connector != CONNECTOR
        else:
            seconds, rest_ns = divmod(source.event_time_ns, SECOND_NS)
            is_lost = rest_ns > 0
        if is_lost:
            losses.append(Loss.EVENT_TIME_PRECISION)
        return time_text(seconds, self._zone)

    def _ddl(self, change: SchemaChange, losses: list[Loss]) -> CKafkaDdlMessage:
        source = change.source
        self._count_lost_of_ddl(source, losses)
        unit_ns = self._ddl_unit_ns or source.time_unit_ns or SECOND_NS
        time, rest_ns = divmod(source.event_time_ns, unit_ns)
        if rest_ns:
            losses.append(Loss.EVENT_TIME_PRECISION)
        type_, emitted_at = ddl_type(change), time
        if source.connector == CONNECTOR:  # rows of CKafka are passed on unchanged
            emitted_at = change.emitted_at_ns // unit_ns
            type_ = change.wire_kind if change.wire_kind in DDL_TYPES else type_
        return CKafkaDdlMessage(
            database=change.table.database,
            es=time,
            sql=mysql_text(change),
            table=change.table.table,
            ts=emitted_at,
            type=type_,
        )
