"""Upstream Canal's flat JSON: one message a row event (1…N rows of one operation), DDL as text.

    data database es gtid id isDdl mysqlType old pkNames sql sqlType table ts type

Written by alibaba/canal (FlatMessage, fastjson) for `flatMessage=true`, members in alphabetical order; `gtid`
since 1.1.7; `isDdl` of database DDL is false up to 1.1.4. Every value is text or null; `old` of an UPDATE
holds the changed columns. It cannot say: commit ts, watermarks, transactions, binlog positions, nullability,
defaults. Written like Canal 1.1.8, but one row a message, `es` with milliseconds and decimals with their full
scale. Verified with records of Canal 1.1.8 on MySQL 8.0.12.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from relay.catalog import Catalog, DdlMessage
from relay.codecs.canal import signs
from relay.codecs.canal.local_times import ZonedReaders, zoned
from relay.codecs.canal.message import (
    DELETE,
    READ,
    ROW_OPS,
    ROW_WORDS,
    UPDATE,
    CanalMessage,
    check_size,
    ddl_word,
    foreign_members,
    parse,
    unchecked_bytes,
)
from relay.codecs.canal.parts import parts
from relay.codecs.canal.text_readers import TextReaders
from relay.codecs.canal.traced import traced_row
from relay.codecs.canal.upstream import (
    UpstreamOptions,
    canal_carries,
    canal_dialect,
    canal_readers,
    canal_style,
)
from relay.codecs.canal.wire_table import are_full, parse_mysql_types
from relay.codecs.canal.writing import TextWriters
from relay.codecs.codec import Codec, Payload, RowSignature, TracedMessage
from relay.codecs.losses import Before, Carries, Lossy, loss_of, source_losses
from relay.codecs.wire.caches import CachePool
from relay.codecs.wire.ddl import ddl_events
from relay.codecs.wire.shaping import op_without_before
from relay.codecs.wire.ticdc import mysql_text
from relay.errors import Malformed, Problem, UnsupportedMessage
from relay.model import Event, Op, RowChange, SchemaChange, Snapshot, Source, TableId
from relay.mysql.types import BINARIES
from relay.mysql.values import TextStyle, read_hex
from relay.needs import Answers
from relay.records import ConsumerRecord
from relay.templates.ops import Marker
from relay.templates.tracing import Trace, Untraceable, mark_of

NAME: Final = "canal-json"
#: INIT, INIT_INSERT, ROW and READ are words of look-alikes for rows of a snapshot (Tencent DTS, Paimon's test
#: data).
_OPS: Final = {**ROW_OPS, "INIT": Op.READ, "INIT_INSERT": Op.READ, "ROW": Op.READ, "READ": Op.READ}
_TYPE_PARAMETERS: Final = Lossy.TYPE_PARAMETERS

# ---------------------------------------------------------------- wire


class _FlatMessage(msgspec.Struct, gc=False):
    """A message as relay writes it."""

    data: list[dict[str, Any]] | None
    database: str
    es: int
    gtid: str
    id: int
    isDdl: bool
    mysqlType: msgspec.Raw
    old: list[dict[str, Any]] | None
    pkNames: list[str] | None
    sql: str
    sqlType: msgspec.Raw
    table: str
    ts: int
    type: str


_NULL: Final = msgspec.Raw(b"null")


class CanalOptions(UpstreamOptions, frozen=True):
    """Options of upstream Canal's JSON."""

    hex_binary: Annotated[
        bool,
        Meta(
            description="binary values are hex, as in Tencent DTS when it is not compatible with Canal; "
            "false: as `binary` says, and where `… +00:00` behind a TIMESTAMP proves it",
            extra={"side": "source"},
        ),
    ] = False
    table: Annotated[
        str,
        Meta(
            pattern=r"^([^.]+\.[^.]+)?$",
            description="`database.table` of rows without a name, as Flink's SQL sink writes them",
            extra={"side": "source"},
        ),
    ] = ""

    def problems(self) -> list[Problem]:
        """Find two forms of binary values."""
        found = super().problems()
        if self.hex_binary and self.binary == "base64":
            found.append(Problem("hex-binary", "binary=base64 says something else", "leave one of them out"))
        return found


def carries(options: CanalOptions) -> Carries:
    """Return what a message can say."""
    return canal_carries(options, Before.CHANGED)


def _style(options: CanalOptions) -> TextStyle:
    return canal_style(options, read_binary=read_hex if options.hex_binary else None)


# ---------------------------------------------------------------- decoder


class Decoder:
    """Reads upstream Canal of all releases, and its look-alikes."""

    def __init__(self, options: CanalOptions, answers: Answers) -> None:
        self._limits, self._unchecked = answers.limits, unchecked_bytes(answers.limits)
        style, most = _style(options), answers.limits.cache_bytes
        self._is_told = options.hex_binary or options.binary != "producer"
        self._name = options.table.partition(".")
        self._rows = canal_readers(NAME, style, most)
        hex_style = msgspec.structs.replace(style, read_binary=read_hex)
        self._hex_rows = zoned(TextReaders(NAME, hex_style, are_full, most_bytes=most), style)

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's events; see `relay.codecs.codec.Decoder`."""
        if not record.value:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        message = parse(NAME, record.value, self._limits)
        if len(record.value) > self._unchecked:
            check_size(NAME, message, self._limits)
        op = _OPS.get(message.type)
        if op is DELETE and not message.data and message.old:
            # Flink CDC until 2024 and Huawei DRS have the deleted row here; no other meaning is possible.
            message.data, message.old = [row for row in message.old if row], None
        if not message.is_ddl and op is not None and message.data:
            source = _source(message, record, lossy, is_snapshot=op is READ)
            rows = self._rows
            if len(message.sql_type) <= len(b"null") and not self._is_told:
                rows = self._rows_without_numbers(message, lossy)
            if not message.table and self._name[0]:
                message.database, _, message.table = self._name
            return rows.changes(message, op, source, record, catalog, lossy), catalog
        if message.type == "TIDB_WATERMARK":
            raise UnsupportedMessage(NAME, "type", "TiCDC's watermark, which Canal does not have")
        if message.is_ddl or (message.is_ddl is None and op is None and not message.data and message.sql):
            return ddl_events(_ddl(message, record, lossy), catalog, lossy)
        if op is None and message.data is None and message.sql is not None:
            # A query event: DDL of a database (Canal up to 1.1.4), or no change (rows query log, XA).
            return ddl_events(_ddl(message, record, lossy), catalog, lossy, is_certain=False)
        raise _refusal(message, op)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        message = parse(NAME, record.value or b"", self._limits)
        if len(message.sql_type) <= len(b"null") and not self._is_told:
            raise Untraceable
        return traced_row(record, change, catalog, trace, ignored=(("id",),), may_have_more=True)

    def _rows_without_numbers(self, message: CanalMessage, lossy: list[Lossy]) -> TextReaders | ZonedReaders:
        """Return who reads rows without `sqlType`, as Tencent DTS and other look-alikes write them.

        DTS writes binary values in hex and offsets behind TIMESTAMP, or neither. Where no row has such an
        offset, binary values are taken for Canal's, and counted.
        """
        types = {
            name: text.lower() for name, text in (parse_mysql_types(NAME, message.mysql_type) or {}).items()
        }
        timestamps = [name for name, text in types.items() if text.startswith("timestamp")]
        rows = message.data or []
        if any(_HAS_OFFSET(row.get(name) or "") for row in rows for name in timestamps):
            return self._hex_rows
        if any(text.partition("(")[0] in BINARIES for text in types.values()):
            lossy += [Lossy.VALUE_GUESSED] * len(rows)
        return self._rows


_HAS_OFFSET: Final = re.compile(r".* [+-]\d\d:\d\d", re.ASCII).fullmatch


def _ddl(message: CanalMessage, record: ConsumerRecord, lossy: list[Lossy]) -> DdlMessage:
    # CREATE DATABASE of a quoted name keeps the back-ticks in `database` (Canal 1.1.8).
    table = TableId((message.database or "").strip("`"), message.table or "")
    return message.ddl(table, _source(message, record, lossy), record)


def _source(
    message: CanalMessage, record: ConsumerRecord, lossy: list[Lossy], *, is_snapshot: bool = False
) -> Source:
    gtid = message.gtid or None
    snapshot = Snapshot.TRUE if is_snapshot else None
    time_ns, extras = message.event_time_ns(record, lossy), foreign_members(message)
    return Source("canal", time_ns, gtid=gtid, snapshot=snapshot, extras=extras)


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


# ---------------------------------------------------------------- encoder


class Encoder:
    """Writes messages as Canal 1.1.8 does."""

    prepare: Final = None

    def __init__(self, options: CanalOptions, answers: Answers) -> None:
        self._max_batch_size = options.max_batch_size
        self._unknown_before = options.unknown_before
        self._count_lost = source_losses(carries(options))
        self._writers = TextWriters(
            NAME,
            canal_dialect(_style(options)),
            CachePool(answers.limits.cache_bytes),
        )
        self._lost = self._writers.lost
        self._to_json = msgspec.json.Encoder(enc_hook=mark_of).encode

    def encode(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterable[Payload]:
        """Give the events' messages; see `relay.codecs.codec.Encoder`."""
        if len(events) == 1 and isinstance(events[0], RowChange):
            return [Payload(None, self._to_json(self._row(events[0], caused_by, lossy)))]
        return map(self._payload, self._messages(events, caused_by, lossy))

    def _payload(self, message: _FlatMessage) -> Payload:
        return Payload(None, self._to_json(message))

    def _messages(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterator[_FlatMessage]:
        last: _FlatMessage | None = None
        for event in events:
            if isinstance(event, RowChange):
                message = self._row(event, caused_by, lossy)
                if last is not None and self._has_joined(last, message):
                    continue
            elif isinstance(event, SchemaChange):
                message = self._ddl(event, caused_by, lossy)
            else:
                lossy.append(loss_of(event))
                continue
            if last is not None:
                yield last
            last = message
        if last is not None:
            yield last

    def _has_joined(self, last: _FlatMessage, message: _FlatMessage) -> bool:
        """Put the row into the last message, if that has room, the same table version, operation and time.

        `sqlType` is then the last row's, as in Canal.
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

    def _row(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> _FlatMessage:
        source, op = change.source, change.op
        text = self._writers.write(change)
        if self._lost:
            lossy += self._lost
        writer, cells = text.writer, text.cells
        if text.loses_parameters:
            lossy.append(_TYPE_PARAMETERS)
        old = None
        if op is UPDATE:
            if text.old is None:
                op = op_without_before(self._unknown_before, NAME)
            else:
                old = [text.changed()]
        self._count_lost(source, lossy, change.transaction)
        if op is READ and not source.snapshot:
            lossy.append(Lossy.SNAPSHOT)
        return _FlatMessage(
            [cells],
            writer.table.database,
            source.event_time_ns // 1_000_000,
            source.gtid or "",
            caused_by.offset,
            False,
            writer.mysql_type,
            old,
            writer.pk_names or None,
            "",
            writer.sql_type or writer.sql_type_of(cells),
            writer.table.table,
            change.emitted_at_ns // 1_000_000,
            ROW_WORDS[op],
        )

    def _ddl(self, change: SchemaChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> _FlatMessage:
        source = change.source
        self._count_lost(source, lossy)
        return _FlatMessage(
            None,
            change.table.database,
            source.event_time_ns // 1_000_000,
            source.gtid or "",
            caused_by.offset,
            True,
            _NULL,
            None,
            None,
            mysql_text(change),
            _NULL,
            change.table.table,
            change.emitted_at_ns // 1_000_000,
            ddl_word(change),
        )


#: For Flink's `canal-json` format (2.3, CanalJsonDeserializationSchema).
_FLINK: Final = {
    "ddl": "drop",
    "watermarks": "drop",
    "max-batch-size": "1",
    "unknown-before": "insert",
    "enum": "label",
    "binary": "base64",
    "zero-dates": "text",
    "timestamp-format": "sql",
}
_FLINK_REASONS: Final = {
    "ddl": "the job fails on a statement other than CREATE",
    "watermarks": "the job fails on them",
    "max-batch-size": "of several rows in a message, one gets the old values of another",
    "unknown-before": "the job fails on an UPDATE without its old row",
    "enum": "a column is STRING there, and a number would stay one",
    "binary": "BYTES is read as base64, and the job fails on other text",
    "zero-dates": "such a column is STRING there; with zero-dates=null it can be DATE or TIMESTAMP",
    "timestamp-format": "iso is for tables with canal-json.timestamp-format.standard=ISO-8601",
}
#: For Canal's client and its adapters (1.1.8, client-adapter 1.1.7): what Canal itself sends.
_CANAL_ADAPTER: Final = {
    "ddl": "keep",
    "watermarks": "drop",
    "max-batch-size": "1",
    "unknown-before": "insert",
    "enum": "index",
    "binary": "producer",
    "zero-dates": "keep",
    "timestamp-format": "sql",
}
_CANAL_ADAPTER_REASONS: Final = {
    "ddl": "Canal sends statements, and the adapter applies them",
    "watermarks": "Canal has none, and the adapter takes one for a change without rows",
    "max-batch-size": "several rows a message are read as well",
    "unknown-before": "an UPDATE without its old row would read as one that changes nothing",
    "enum": "the adapter expects numbers, with sqlType 4 and -7",
    "binary": "the adapter expects a character for each byte, with sqlType 2004",
    "zero-dates": "the adapter reads them, and makes null of them itself",
    "timestamp-format": "the adapter reads MySQL's text",
}

CODEC: Final = Codec(
    name=NAME,
    title="upstream Alibaba Canal, flat JSON messages (flatMessage=true)",
    options=CanalOptions,
    decodes=carries(CanalOptions()),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    writes_rows_alone=lambda options: options.max_batch_size == 1,
    parts=parts,
    marker=Marker("value", b',"table":', b',"ts":'),
    row_signature=RowSignature(
        ((b'"isDdl":false',), (b'"type":"INSERT"', b'"type":"UPDATE"', b'"type":"DELETE"')),
        (b'"isDdl":true',),
    ),
    profiles={"flink": _FLINK, "canal-adapter": _CANAL_ADAPTER},
    profile_reasons={"flink": _FLINK_REASONS, "canal-adapter": _CANAL_ADAPTER_REASONS},
    signs=signs.upstream,
)
