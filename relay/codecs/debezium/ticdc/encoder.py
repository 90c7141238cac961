"""Encoder of TiCDC Debezium JSON."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from relay.codecs.codec import EncodedRecord
from relay.codecs.debezium.shared.ddl_events import table_changes
from relay.codecs.debezium.shared.schemas import AvroForms, counts_micros, has_open_digits
from relay.codecs.debezium.shared.value_writing import micro_digits
from relay.codecs.debezium.ticdc.message_writing import TicdcRowTarget, WritingSettings
from relay.codecs.debezium.ticdc.options import NAME, TicdcDebeziumOptions, carries
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.large_messages import (
    LargeMessageCompression,
    compressed,
)
from relay.codecs.shared.row_writing import TypedWriters
from relay.codecs.shared.shaping import op_without_before
from relay.codecs.shared.ticdc import commit_ts_of, split_updates
from relay.model.errors import (
    NotRepresentable,
)
from relay.model.events import Event, Op, RowChange, Rows, SchemaChange, Watermark
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord

_READ: Final = Op.READ
_UPDATE: Final = Op.UPDATE

#: Errors that printing raises for values that no JSON of this protocol can hold.
_UNPRINTABLE: Final = (OverflowError, UnicodeError, msgspec.MsgspecError)


class TicdcDebeziumEncoder:
    """Encodes TiCDC Debezium JSON as pingcap/ticdc does since v26.3.3."""

    def __init__(
        self, options: TicdcDebeziumOptions, answers: LookupCache, avro: AvroForms | None = None
    ) -> None:
        self._options = options
        self.prepare = None if options.output_raw_change_event else split_updates
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {LargeMessageCompression.LZ4, LargeMessageCompression.SNAPPY}
        self._has_before = options.output_old_value
        self._has_start_ts = options.debezium_include_start_ts
        settings = WritingSettings(
            cluster=options.cluster_id,
            has_schema=not options.debezium_disable_schema,
            extension=options.enable_tidb_extension,
            has_before=options.output_old_value,
            replaces_nulls=options.replace_null_with_default,
            avro=avro,
        )
        pool = CachePool(answers.limits.cache_bytes)
        self._messages = TicdcRowTarget(settings, pool)
        self._lost, self._too_fine = self._messages.lost, self._messages.too_fine
        self._rows = TypedWriters(NAME, self._messages, pool)
        self._count_lost = source_losses(carries(options), options.cluster_id)
        beside_rows = msgspec.structs.replace(carries(options), start_ts=False)
        self._count_lost_of_watermark = source_losses(beside_rows, options.cluster_id)

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the events' messages, one each; see `relay.codecs.codec.Encoder`."""
        try:
            for event in events:
                if isinstance(event, RowChange):
                    payload = self._row(event, source_record, losses)
                    yield self._packed(payload) if self._is_packed else payload
                else:
                    yield from map(self._packed, self._control(event, source_record, losses))
        except _UNPRINTABLE:
            raise NotRepresentable(
                NAME, "payload", "a number beyond 64 bits, or text that is not Unicode"
            ) from None

    def _control(
        self, event: Event, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        if isinstance(event, SchemaChange):
            yield from self._ddl(event, source_record, losses)
        elif isinstance(event, Watermark) and self._options.enable_tidb_extension:
            self._count_lost_of_watermark(event.source, losses)
            yield self._messages.watermark(event)
        else:
            losses.append(loss_of(event))

    def _packed(self, payload: EncodedRecord) -> EncodedRecord:
        if not self._is_packed:
            return payload
        return EncodedRecord(
            None if payload.key is None else compressed(payload.key, self._compression),
            compressed(payload.value or b"", self._compression),
        )

    def _row(self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]) -> EncodedRecord:
        source, op, lost = change.source, change.op, self._lost
        if lost:
            lost.clear()
        plan, before, after, row_losses = self._rows.write(change)
        if self._too_fine:
            self._too_fine.clear()
            plan, before, after, _ = self._rows.write(self._widened(change))
        if op is _UPDATE:
            if self._has_before:
                if before is None:
                    op = op_without_before(self._options.missing_before, NAME)
            elif change.before is not None:
                losses.append(Loss.BEFORE_IMAGE)
        losses += row_losses
        commit_ts = (
            commit_ts_of(source, source_record, losses) if source.commit_ts is None else source.commit_ts
        )
        times = (source.event_time_ns // 1_000_000, commit_ts, change.emitted_at_ns // 1_000_000)
        start_ts = source.start_ts if self._has_start_ts else None
        payload = self._messages.row(op, plan, (before, after), times, start_ts)
        if lost:
            losses += lost
        self._count_lost(source, losses, change.transaction)
        if op is _READ and not source.snapshot:
            losses.append(Loss.SNAPSHOT)
        return payload

    def _widened(self, change: RowChange) -> RowChange:
        """Return the change with every DATETIME of more than three digits counted in microseconds.

        Raises NotRepresentable if its column is known to have fewer, so that milliseconds would truncate the
        value.
        """
        self._lost.clear()
        before, after, columns = change.before, change.after, list(change.schema.columns)
        for at, column in enumerate(columns):
            digits = [micro_digits(row[at]) for row in (before, after) if row is not None]
            if column.type.base != "datetime" or counts_micros(column.type) or not any(digits):
                continue
            if not has_open_digits(column):
                if "".join(digits).strip("0"):
                    reason = "more digits of a second than its column has"
                    raise NotRepresentable(NAME, f"payload.{column.name}", reason)
                continue
            wide = msgspec.structs.replace(column.type, length=None, has_micros=True)
            columns[at] = msgspec.structs.replace(column, type=wide)
        schema = msgspec.structs.replace(change.schema, columns=tuple(columns))
        return msgspec.structs.replace(change, schema=schema, images=Rows(before, after))

    def _ddl(
        self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        self._count_lost(change.source, losses)
        if change.source.start_ts is not None and self._options.debezium_include_start_ts:
            losses.append(Loss.START_TS)  # only rows have it
        commit_ts = commit_ts_of(change.source, source_record, losses)
        for table, sql, changes in table_changes(change, losses):
            yield self._messages.ddl(change, table, sql, changes, commit_ts)
