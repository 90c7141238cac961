"""Decoder of CKafka's official format 1."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.ckafka.messages import (
    CONNECTOR,
    MILLISECOND_NS,
    MOSTLY_NULL,
    NAME,
    SECOND_NS,
    TOO_LATE,
    CKafkaRowMessage,
    DecodedRow,
    check,
    parse_message,
)
from relay.codecs.canal.ckafka.options import CkafkaOptions, text_style
from relay.codecs.canal.ckafka.rows import CkafkaImages, CkafkaReaders, ReadRow
from relay.codecs.canal.ckafka.traced import traced_message, traced_row
from relay.codecs.canal.shared.messages import (
    DELETE,
    INSERT,
    READ,
    ROW_OPS,
    UPDATE,
    CanalMessage,
    check_size,
    foreign_members,
    unchecked_bytes,
)
from relay.codecs.canal.shared.wire_table import parse_mysql_types
from relay.codecs.codec import TracedMessage, ValueDecoder
from relay.codecs.losses import Loss
from relay.codecs.shared.ddl_codes import ddl_events
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.tables import NAMELESS
from relay.codecs.shared.unknown_members import Unknown, merged
from relay.model.errors import DecodeError, Malformed, UnsupportedMessage
from relay.model.events import Event, Op, RowChange, Snapshot, Source
from relay.model.limits import Limits, check_columns
from relay.model.lookups import LookupCache
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.tracing import NotTemplatable, Trace
from relay.text.durations import clock_seconds

#: Some versions of the document print a lower-case L for `I`.
_OPS: Final = {"I": Op.INSERT, "l": Op.INSERT, "i": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}

#: `es` and `ts` below this are seconds: the document has both units. The limit is in 1973 if it means
#: milliseconds, in 5138 if it means seconds.
_LEAST_MILLISECONDS: Final = 100_000_000_000


def _check_size(message: CKafkaRowMessage | CanalMessage, limits: Limits) -> None:
    if isinstance(message, CanalMessage):
        check_size(NAME, message, limits)
        return
    for name, cells in (("NEW_VALUES", message.NEW_VALUES), ("OLD_VALUES", message.OLD_VALUES)):
        check_columns(NAME, name, len(cells or ()), limits)


def _to_milliseconds(message: CanalMessage) -> int | None:
    """Convert `es` and `ts` to milliseconds; return the unit of `es` in nanoseconds. Raises Malformed."""
    es = message.es
    message.es, message.ts = _milliseconds("es", es), _milliseconds("ts", message.ts)
    if es is None or es <= 0:
        return None
    return MILLISECOND_NS if message.es == es else SECOND_NS


def _milliseconds(path: str, time: int | None) -> int | None:
    """Return `es` or `ts` in milliseconds. Raises Malformed."""
    if time is None or not 0 < time < _LEAST_MILLISECONDS:
        return time
    if time * 1000 >= TIME_END_MS:
        raise Malformed(NAME, path, TOO_LATE)
    return time * 1000


class CKafkaDecoder(ValueDecoder):
    """Decodes rows of official format 1 and of the "canal format", and the DDL of both."""

    def __init__(self, options: CkafkaOptions, answers: LookupCache) -> None:
        self._limits, self._unchecked = answers.limits, unchecked_bytes(answers.limits)
        self._zone = options.event_zone()
        self._rows = CkafkaReaders(NAME, text_style(options), options.value_style, answers.limits.cache_bytes)
        # The last TIME, which the next row usually repeats, and its nanoseconds since 1970.
        self._time: str | None = None
        self._time_ns: int | None = None

    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events; see `relay.codecs.codec.Decoder`."""
        message = parse_message(value, self._limits)
        if len(value) > self._unchecked:
            _check_size(message, self._limits)
        if isinstance(message, CKafkaRowMessage):
            row = self._decoded(message)
            check(row)
            return [interpret(row, record, catalog, losses, self._rows.row)], catalog
        unit_ns = _to_milliseconds(message)
        source = _canal_source(message, record, unit_ns, losses)
        op = ROW_OPS.get(message.type)
        if op is not None and message.data and not message.is_ddl:
            return self._canal_rows(message, op, source, record, catalog, losses), catalog
        if message.is_ddl or (op is None and message.sql):
            ddl = message.ddl(message.table_id(), source, record)
            return ddl_events(ddl, catalog, losses, is_certain=bool(message.is_ddl))
        raise _refusal(op)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        row = traced_row(self._rows, record, change, trace, self._zone, self._limits)
        message = parse_message(row.value.text, self._limits)
        if not isinstance(message, CKafkaRowMessage):
            raise NotTemplatable
        traced = traced_message(self._decoded(message), row, trace, self._zone)

        def read(
            _database: str,
            _name: str,
            images: CkafkaImages,
            source: Source,
            emitted_at_ns: int,
            record: ConsumerRecord,
            *_: object,
        ) -> RowChange:
            # CKafka's DDL has no binlog position to compare with, so rows are ordered after it by time.
            at = msgspec.structs.replace(source, binlog_file=None).at(record)
            schema, rows = row.read(at, catalog)
            return RowChange(images.op, schema, rows, source, emitted_at_ns)

        check(traced)
        return row.message([interpret(traced, row.record, catalog, [], read)])

    def _decoded(self, message: CKafkaRowMessage) -> DecodedRow:
        """Return a row message with its operation and time. Raises DecodeError."""
        op, time = _OPS.get(message.TYPE), message.TIME
        if op is None:
            raise UnsupportedMessage(NAME, "TYPE", "not one of I, U, D")
        if time is None:
            return DecodedRow(message, op, None)
        if time != self._time:
            try:
                self._time_ns = clock_seconds(time, self._zone) * SECOND_NS
            except ValueError as error:
                raise Malformed(NAME, "TIME", str(error)) from None
            self._time = time
        return DecodedRow(message, op, self._time_ns)

    def _canal_rows(
        self,
        message: CanalMessage,
        op: Op,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> list[Event]:
        """Decode rows of the "canal format".

        `old` of an UPDATE is the whole old row; a column that it lacks is unchanged.
        """
        table, emitted_at_ns = message.table_id(), message.emitted_at_ns(record)
        if not table.table:
            raise Malformed(NAME, "table", NAMELESS)
        known = catalog.table(table, source.at(record))
        types = parse_mysql_types(NAME, message.mysql_type)
        rows, olds = message.data or [], message.old
        if op is not UPDATE or (olds is not None and len(olds) != len(rows)):
            olds = None  # no row can be paired with certainty
        changes: list[Event] = []
        for index, row in enumerate(rows):
            path = f"data[{index}]"
            if op is DELETE:
                images = CkafkaImages(op, None, row, old_path=path)
            else:
                old = None if olds is None else olds[index]
                whole = None if old is None else row | old
                images = CkafkaImages(op, row, whole, path, f"old[{index}]")
            changes.append(
                self._rows.change(
                    table, types, message.pk_names, images, source, emitted_at_ns, known, losses
                )
            )
        return changes


def interpret(
    row: DecodedRow, record: ConsumerRecord, catalog: Catalog, losses: list[Loss], read: ReadRow
) -> RowChange:
    """Return the change of a row. `read`: reads its images. Raises DecodeError."""
    message, op, source = row.message, row.op, source_of(row, record, losses)
    new, old, time_ms = message.NEW_VALUES, message.OLD_VALUES, record.timestamp_ms
    if op is DELETE:
        new = None
    elif op is not UPDATE:
        old = None
    if op is INSERT and source.snapshot:
        op = READ
    emitted_at_ns = time_ms * MILLISECOND_NS if 0 <= time_ms < TIME_END_MS else source.event_time_ns
    images, database, table = CkafkaImages(op, new, old), message.DATABASE or "", message.TABLE or ""
    return read(database, table, images, source, emitted_at_ns, record, catalog, losses)


def source_of(row: DecodedRow, record: ConsumerRecord, losses: list[Loss]) -> Source:
    """Return the origin of a row."""
    message, time_ns = row.message, row.time_ns
    return Source(
        CONNECTOR,
        event_time_ns(time_ns, None, record, losses),
        gtid=message.GLOBAL_ID or None,
        binlog_file=message.BINLOG_NAME or None,
        binlog_position=message.BINLOG_POS,
        # A row of a snapshot has the time 0: Debezium does not know when it changed.
        snapshot=None if time_ns is None or time_ns else Snapshot.TRUE,
        unknown_fields=_unknown_fields(message),
    )


def _unknown_fields(message: CKafkaRowMessage) -> Unknown | None:
    """Return the members that relay does not know: others than the document's, and those that it documents as
    "currently" null if they are not.
    """
    if message.EVENT_SERVER_ID is None and message.GROUP_ID is None:
        return message.unknown
    members = {name: getattr(message, name) for name in MOSTLY_NULL}
    return merged({name: value for name, value in members.items() if value is not None}, message.unknown)


def _canal_source(
    message: CanalMessage, record: ConsumerRecord, unit_ns: int | None, losses: list[Loss]
) -> Source:
    return Source(
        CONNECTOR,
        message.event_time_ns(record, losses),
        gtid=message.gtid or None,
        unknown_fields=foreign_members(message),
        time_unit_ns=unit_ns,
    )


def _refusal(op: Op | None) -> DecodeError:
    if op is not None:
        return Malformed(NAME, "data", "a row message without a row")
    return UnsupportedMessage(NAME, "type", "neither a row nor DDL")
