"""Decoder of Canal's JSON."""

from __future__ import annotations

import re
from typing import Final

import msgspec

from relay.catalog import Catalog, DdlMessage
from relay.codecs.canal.canal_json.messages import NAME
from relay.codecs.canal.canal_json.options import CanalOptions, text_style
from relay.codecs.canal.shared.canal_common import (
    canal_readers,
)
from relay.codecs.canal.shared.local_times import ZonedReaders, zoned
from relay.codecs.canal.shared.messages import (
    DELETE,
    READ,
    ROW_OPS,
    CanalMessage,
    check_size,
    foreign_members,
    parse,
    unchecked_bytes,
)
from relay.codecs.canal.shared.row_readers import ReadRows, TextReaders
from relay.codecs.canal.shared.traced import TracedTextRow
from relay.codecs.canal.shared.wire_table import are_full, parse_mysql_types
from relay.codecs.codec import TracedMessage, ValueDecoder
from relay.codecs.losses import Loss
from relay.codecs.shared.ddl_codes import ddl_events
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import Event, Op, RowChange, Snapshot, Source, TableId
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.types import BINARIES
from relay.mysql.values import read_hex
from relay.templates.tracing import NotTemplatable, Trace

#: INIT, INIT_INSERT, ROW and READ are the types that look-alikes (Tencent DTS, Paimon's test data) use for
#: rows of a snapshot.
_OPS: Final = {**ROW_OPS, "INIT": Op.READ, "INIT_INSERT": Op.READ, "ROW": Op.READ, "READ": Op.READ}


class CanalJsonDecoder(ValueDecoder):
    """Decodes upstream Canal's JSON of all releases, and its look-alikes."""

    def __init__(self, options: CanalOptions, answers: LookupCache) -> None:
        self._limits, self._unchecked = answers.limits, unchecked_bytes(answers.limits)
        style, most = text_style(options), answers.limits.cache_bytes
        self._is_binary_declared = options.hex_binary or options.binary != "producer"
        self._name = options.table.partition(".")
        self._rows = canal_readers(NAME, style, most)
        hex_style = msgspec.structs.replace(style, read_binary=read_hex)
        self._hex_rows = zoned(TextReaders(NAME, hex_style, are_full, most_bytes=most), style)

    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events; see `relay.codecs.codec.Decoder`."""
        message = parse(NAME, value, self._limits)
        if len(value) > self._unchecked:
            check_size(NAME, message, self._limits)
        op = _OPS.get(message.type)
        if op is DELETE and not message.data and message.old:
            # Flink CDC until 2024 and Huawei DRS have the deleted row here; no other meaning is possible.
            message.data, message.old = [row for row in message.old if row], None
        if not message.is_ddl and op is not None and message.data:
            rows = self._rows
            if len(message.sql_type) <= len(b"null") and not self._is_binary_declared:
                rows = self._rows_without_numbers(message, losses)
            if not message.table and self._name[0]:
                message.database, _, message.table = self._name
            return interpret(message, op, record, catalog, losses, rows.changes), catalog
        if message.type == "TIDB_WATERMARK":
            raise UnsupportedMessage(NAME, "type", "TiCDC's watermark, which Canal does not have")
        if message.is_ddl or (message.is_ddl is None and op is None and not message.data and message.sql):
            return ddl_events(_ddl(message, record, losses), catalog, losses)
        if op is None and message.data is None and message.sql is not None:
            # A query event: DDL of a database (Canal up to 1.1.4), or no change (rows query log, XA).
            return ddl_events(_ddl(message, record, losses), catalog, losses, is_certain=False)
        raise _refusal(message, op)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        message = parse(NAME, record.value or b"", self._limits)
        if len(message.sql_type) <= len(b"null") and not self._is_binary_declared:
            raise NotTemplatable
        row = TracedTextRow(record, change, trace, catalog, ignored=(("id",),), may_have_more=True)
        row.split()
        message = row.traced_message(message)
        return row.message(interpret(message, change.op, row.record, catalog, [], row.read))

    def _rows_without_numbers(self, message: CanalMessage, losses: list[Loss]) -> TextReaders | ZonedReaders:
        """Return the readers for rows without `sqlType`, as Tencent DTS and other look-alikes write them.

        DTS writes binary values in hex and offsets after TIMESTAMP, or neither. If no row has such an
        offset, binary values are read as Canal's, and counted.
        """
        types = {
            name: text.lower() for name, text in (parse_mysql_types(NAME, message.mysql_type) or {}).items()
        }
        timestamps = [name for name, text in types.items() if text.startswith("timestamp")]
        rows = message.data or []
        if any(_HAS_OFFSET(row.get(name) or "") for row in rows for name in timestamps):
            return self._hex_rows
        if any(text.partition("(")[0] in BINARIES for text in types.values()):
            losses += [Loss.VALUE_INFERRED] * len(rows)
        return self._rows


_HAS_OFFSET: Final = re.compile(r".* [+-]\d\d:\d\d", re.ASCII).fullmatch


def _ddl(message: CanalMessage, record: ConsumerRecord, losses: list[Loss]) -> DdlMessage:
    # CREATE DATABASE of a quoted name keeps the back-ticks in `database` (Canal 1.1.8).
    table = TableId((message.database or "").strip("`"), message.table or "")
    return message.ddl(table, source_of(message, record, losses), record)


def interpret(
    message: CanalMessage,
    op: Op,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
    read: ReadRows,
) -> list[Event]:
    """Return the rows of a message. `read`: reads them. Raises DecodeError."""
    source = source_of(message, record, losses, is_snapshot=op is READ)
    return read(message, op, source, message.emitted_at_ns(record), record, catalog, losses)


def source_of(
    message: CanalMessage, record: ConsumerRecord, losses: list[Loss], *, is_snapshot: bool = False
) -> Source:
    """Return the origin of a message's events."""
    gtid = message.gtid or None
    snapshot = Snapshot.TRUE if is_snapshot else None
    time_ns, unknown = message.event_time_ns(record, losses), foreign_members(message)
    return Source("canal", time_ns, gtid=gtid, snapshot=snapshot, unknown_fields=unknown)


def _refusal(message: CanalMessage, op: Op | None) -> Malformed | UnsupportedMessage:
    if op is not None and message.sql:
        reason = (
            "a statement without its rows (binlog_format is not ROW), "
            "so the change itself is not in the message"
        )
        return UnsupportedMessage(NAME, "sql", reason)
    if op is not None:
        return Malformed(NAME, "data", "a row message without a row")
    return UnsupportedMessage(NAME, "type", "not a type of Canal's")
