"""Decoder of CKafka's official format 1."""

from __future__ import annotations

from datetime import tzinfo
from typing import Final

from relay.catalog import Catalog
from relay.codecs.canal.ckafka.messages import (
    CONNECTOR,
    MILLISECOND_NS,
    MOSTLY_NULL,
    NAME,
    SECOND_NS,
    CKafkaRowMessage,
    parse_message,
)
from relay.codecs.canal.ckafka.options import CkafkaOptions, text_style
from relay.codecs.canal.ckafka.rows import CkafkaImages, CkafkaReaders
from relay.codecs.canal.ckafka.traced import traced_row
from relay.codecs.canal.shared.messages import (
    DELETE,
    ROW_OPS,
    UPDATE,
    CanalMessage,
    Cells,
    check_size,
    foreign_members,
    unchecked_bytes,
)
from relay.codecs.canal.shared.wire_table import parse_mysql_types
from relay.codecs.codec import TracedMessage
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
from relay.templates.tracing import Trace
from relay.text.durations import clock_seconds

#: Some versions of the document print a lower-case L for `I`.
_OPS: Final = {"I": Op.INSERT, "l": Op.INSERT, "i": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}

_TIME_END_NS: Final = TIME_END_MS * MILLISECOND_NS

#: `es` and `ts` below this are seconds: the document has both units. The limit is in 1973 if it means
#: milliseconds, in 5138 if it means seconds.
_LEAST_MILLISECONDS: Final = 100_000_000_000

_TOO_LATE: Final = "a time beyond the year 4199"

_NO_ROW: Final = "a row message without its row"


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
        raise Malformed(NAME, path, _TOO_LATE)
    return time * 1000


def _read_time(text: str, zone: tzinfo) -> int:
    """Return TIME (`yyyyMMddHHmmss`, the wall clock of the zone) in seconds since 1970. Raises Malformed."""
    try:
        seconds = clock_seconds(text, zone)
    except ValueError as error:
        raise Malformed(NAME, "TIME", str(error)) from None
    if seconds * 1000 >= TIME_END_MS:
        raise Malformed(NAME, "TIME", _TOO_LATE)
    return seconds


class CKafkaDecoder:
    """Decodes rows of official format 1 and of the "canal format", and the DDL of both."""

    def __init__(self, options: CkafkaOptions, answers: LookupCache) -> None:
        self._limits, self._unchecked = answers.limits, unchecked_bytes(answers.limits)
        self._zone = options.event_zone()
        self._rows = CkafkaReaders(NAME, text_style(options), options.value_style, answers.limits.cache_bytes)
        # The last TIME, which the next row usually repeats, and its seconds since 1970.
        self._time: str | None = None
        self._seconds = 0

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events; see `relay.codecs.codec.Decoder`."""
        if not record.value:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        message = parse_message(record.value, self._limits)
        if len(record.value) > self._unchecked:
            _check_size(message, self._limits)
        if isinstance(message, CKafkaRowMessage):
            return [self._row(message, record, catalog, losses)], catalog
        unit_ns = _to_milliseconds(message)
        source = _canal_source(message, record, unit_ns, losses)
        op = ROW_OPS.get(message.type)
        if op is not None and message.data and not message.is_ddl:
            return self._canal_rows(message, op, source, record, catalog, losses), catalog
        if message.is_ddl or (op is None and message.sql):
            ddl = message.ddl(message.table_id(), source, record)
            return ddl_events(ddl, catalog, losses, is_certain=bool(message.is_ddl))
        raise _refusal(op)

    def _row(
        self, message: CKafkaRowMessage, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> RowChange:
        op = _OPS.get(message.TYPE)
        if op is None:
            raise UnsupportedMessage(NAME, "TYPE", "not one of I, U, D")
        source = self._source(message, record, losses)
        if op is Op.INSERT and source.snapshot:
            op = Op.READ
        images = _images(op, message.NEW_VALUES, message.OLD_VALUES)
        if not message.TABLE:
            raise Malformed(NAME, "TABLE", NAMELESS)
        emitted_at_ns = record.timestamp_ms * MILLISECOND_NS
        if not 0 <= emitted_at_ns < _TIME_END_NS:
            emitted_at_ns = source.event_time_ns
        database = message.DATABASE or ""
        return self._rows.row(database, message.TABLE, images, source, emitted_at_ns, record, catalog, losses)

    def _source(self, message: CKafkaRowMessage, record: ConsumerRecord, losses: list[Loss]) -> Source:
        time, seconds = message.TIME, None
        if time is not None:
            if time != self._time:
                self._seconds, self._time = _read_time(time, self._zone), time
            seconds = self._seconds
        return Source(
            CONNECTOR,
            event_time_ns((seconds or 0) * SECOND_NS, None, record, losses),
            gtid=message.GLOBAL_ID or None,
            binlog_file=message.BINLOG_NAME or None,
            binlog_position=message.BINLOG_POS,
            # A row of a snapshot has the time 0: Debezium does not know when it changed.
            snapshot=Snapshot.TRUE if seconds == 0 else None,
            unknown_fields=_unknown_fields(message),
        )

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        return traced_row(record, change, catalog, trace, self._zone)

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


def _images(op: Op, new: Cells | None, old: Cells | None) -> CkafkaImages:
    """Return the images of an operation. Raises Malformed if the message lacks its row."""
    if op is DELETE:
        new = None
        if old is None:
            raise Malformed(NAME, "OLD_VALUES", _NO_ROW)
    elif new is None:
        raise Malformed(NAME, "NEW_VALUES", _NO_ROW)
    elif op is not UPDATE:
        old = None
    return CkafkaImages(op, new, old)


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
