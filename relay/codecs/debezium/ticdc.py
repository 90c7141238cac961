"""TiCDC Debezium: one row, DDL statement or watermark a message, one JSON object in key and value each.

    key             {"payload": {handle key columns} [, "schema": {…}]}
    row             {"payload": {source ts_ms transaction op before after} [, "schema": {…}]}; op is c, u or d
    DDL             {"payload": {source ts_ms databaseName schemaName ddl tableChanges} [, "schema": {…}]}
    watermark       {"payload": {source ts_ms transaction op} [, "schema": {…}]}; op is m

Since v8.0.0; keys since v8.5.0; DDL, watermarks and `tidb_type` since v8.5.4 (classic: v9.0.0), `commit_ts`
and `cluster_id` declared since v26.3.3. No tombstones, no headers. It cannot say: decimals beyond 64-bit
floats, dates that are not in the calendar, years below 100, NULL where a column has a default, transactions,
binlog positions, GTIDs; and without `tidb_type` whether text is binary and numbers unsigned. TIMESTAMP is in
UTC, so `timezone` changes nothing. Verified with records of pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta

from relay.catalog import Catalog, DdlMessage
from relay.codecs.codec import Codec, Payload, RowSignature, TracedMessage
from relay.codecs.debezium import envelope as _wire
from relay.codecs.debezium import signs
from relay.codecs.debezium.ddl_events import table_changes
from relay.codecs.debezium.decoding import MessageDecoder
from relay.codecs.debezium.envelope import Body, Envelope, Origin, RowBody
from relay.codecs.debezium.layouts import Shape
from relay.codecs.debezium.message_writing import Messages, Settings
from relay.codecs.debezium.reading import RowDecoder, RowParts
from relay.codecs.debezium.schema import AvroForms, counts_micros, has_open_digits
from relay.codecs.debezium.table_changes import Told, change_word, renamed_pair, told_events
from relay.codecs.debezium.table_changes import parse as parse_changes
from relay.codecs.debezium.ticdc_columns import TicdcColumns
from relay.codecs.debezium.ticdc_traced import traced_row
from relay.codecs.debezium.value_writing import micro_digits
from relay.codecs.losses import Before, Carries, Keys, Lossy, loss_of, source_losses
from relay.codecs.wire.caches import CachePool
from relay.codecs.wire.large_messages import (
    Compression,
    CompressionOptions,
    Decompression,
    compressed,
    decompressed,
)
from relay.codecs.wire.row_writing import TypedWriters
from relay.codecs.wire.shaping import KeepUnknownBefore, Key, Tombstones, op_without_before
from relay.codecs.wire.tables import NAMELESS
from relay.codecs.wire.ticdc import commit_ts_of, is_restored, split_updates
from relay.codecs.wire.ticdc_options import RawChangeEvent
from relay.codecs.wire.unknown_members import merged, with_unknown
from relay.errors import DdlNotUnderstood, LimitExceeded, Malformed, NotRepresentable, UnsupportedMessage
from relay.model import Event, Op, RowChange, Rows, SchemaChange, Source, TableId, Watermark
from relay.mysql.ddl import read_ddl
from relay.mysql.ddl.drops import rename_words
from relay.mysql.ddl.statements import RenameTables
from relay.mysql.types import quoted_table
from relay.needs import Answers
from relay.records import ConsumerRecord
from relay.templates.ops import Marker
from relay.templates.tracing import Trace, Untraceable

NAME: Final = "ticdc-debezium"
_OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}
_WATERMARK: Final = "m"
_BRACE: Final = ord("{")

# Python 3.11 resolves enum members through a descriptor, at the price of a function call; these are looked at
# for every row.
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE
_READ: Final = Op.READ

# ---------------------------------------------------------------- options

#: Of the dialect, in JSON and in Avro.
ClusterId = Annotated[
    str,
    Meta(
        description="TiCDC's cluster: `source.name`, and the first part of schema names",
        extra={"side": "target"},
    ),
]


class TicdcDebeziumOptions(CompressionOptions, frozen=True):
    """TiCDC's sink-URI options. Those that change content are for the target; the decoder sees for itself."""

    timezone: Annotated[
        str, Meta(description="changes nothing: this format has TIMESTAMP in UTC, whatever the zone")
    ] = "UTC"
    debezium_disable_schema: Annotated[bool, Meta(description="leave `schema` out of key and value")] = False
    debezium_include_start_ts: Annotated[
        bool, Meta(description="write `source.start_ts` where the source has it")
    ] = False
    enable_tidb_extension: Annotated[
        bool,
        Meta(description="write `tidb_type`, declare TiCDC's own members of `source`, and write watermarks"),
    ] = False
    output_old_value: Annotated[bool, Meta(description="an UPDATE has `before`")] = True
    unknown_before: KeepUnknownBefore = "update"
    key: Key = "producer"
    tombstones: Tombstones = False
    output_raw_change_event: RawChangeEvent = False
    cluster_id: ClusterId = "default"
    replace_null_with_default: Annotated[
        bool,
        Meta(
            description="write NULL as the column's default if it has one, as TiCDC does; "
            "false: write null, and leave `default` out of the schema of optional columns",
            extra={"side": "target"},
        ),
    ] = msgspec.field(name="replace.null.with.default", default=True)

    def without_effect(self) -> dict[str, str]:
        """Find the zone, and what is said of old rows where none is written."""
        found = super().without_effect()
        found["timezone"] = "this format has TIMESTAMP in UTC, whatever the zone"
        if not self.output_old_value:
            found["unknown-before"] = "output-old-value=false leaves old rows out"
        return found


def carries(options: TicdcDebeziumOptions) -> Carries:
    """What a message can say with these options."""
    return Carries(
        before=Before.FULL if options.output_old_value else Before.NONE,
        delete_image=True,
        primary_key=True,
        column_types=options.enable_tidb_extension and not options.debezium_disable_schema,
        type_parameters=False,
        column_charset=True,
        column_enum_charset=True,
        ddl=True,
        watermark=options.enable_tidb_extension,
        exact_decimals=False,
        every_date=False,
        null_beside_default=not options.replace_null_with_default,
        commit_ts=True,
        start_ts=options.debezium_include_start_ts,
        source_name=True,
        gtid=False,
    )


# ---------------------------------------------------------------- decoder


class Decoder(MessageDecoder[Envelope]):
    """Reads TiCDC Debezium JSON of all releases, with and without schema, extension and compression."""

    def __init__(self, options: TicdcDebeziumOptions, answers: Answers, name: str = NAME) -> None:
        rows = RowDecoder(name, TicdcColumns(), RowBody, answers.limits)
        super().__init__(name, Envelope, rows, answers.limits)
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {Compression.LZ4, Compression.SNAPPY}

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's event; see `relay.codecs.codec.Decoder`."""
        value = record.value
        if value and (self._is_packed or value[0] != _BRACE):
            record = self._unpacked(record, value)
        return super().decode(record, catalog, lossy)

    def _unpacked(self, record: ConsumerRecord, value: bytes) -> ConsumerRecord:
        budget, key = Decompression(self._limits), record.key
        value = decompressed(NAME, "", value, self._compression, budget)
        # A key of relay's own, `key=primary-key`, is plain JSON.
        if key and key[:2] != b'{"':
            key = decompressed(NAME, "key", key, self._compression, budget)
        return msgspec.structs.replace(record, key=key, value=value)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        if self._is_packed:
            raise Untraceable
        self._parser.parse(record.value or b"")
        return traced_row(self._rows, record, change, catalog, trace)

    def _row(
        self,
        shape: Shape,
        payload: Any,  # noqa: ANN401 - a class made at run time, of RowBody
        record: ConsumerRecord,
        catalog: Catalog,
        lossy: list[Lossy],
    ) -> RowChange | None:
        origin: Origin | None = payload.source
        op = _OPS.get(payload.op)
        if op is None or origin is None or origin.connector != _wire.CONNECTOR:
            return None
        table = shape.table
        if origin.table != table.id.table or origin.db != table.id.database:
            return None
        if origin.ts_ms is None or origin.ts_ms <= 0:
            return None
        source = _wire.source_of(NAME, payload, origin, record, lossy)
        if not table.is_newest(catalog, source.commit_ts, source.event_time_ns, record):
            return None
        images = shape.images(op, payload, table.newest, record.value or b"", lossy)
        if images is None:
            return None
        return RowChange(op, images.reader.schema, images, source, _wire.emitted_at_ns(payload, record))

    def _event(
        self, message: Envelope, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        body = message.body()
        if body is None:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        origin = body.source
        if origin is None or origin.connector != _wire.CONNECTOR:
            raise _wire.foreign(NAME)
        source = _wire.source_of(NAME, body, origin, record, lossy)
        if message.unknown is not None:
            source = with_unknown(source, message.unknown)
        op = _OPS.get(body.op or "")
        if op is not None:
            parts = _row_parts(op, body, origin, bytes(message.schema), record)
            if op is _UPDATE and parts.before is None:
                lossy.append(Lossy.BEFORE_UNKNOWN)
            schema, images = self._rows.read(parts, source.at(record), catalog, lossy)
            return [RowChange(op, schema, images, source, _wire.emitted_at_ns(body, record))], catalog
        if body.op == _WATERMARK:
            if origin.commit_ts is None:
                raise Malformed(NAME, "payload.source.commit_ts", "missing from a watermark")
            # Of a row, 0 means none; a watermark at 0 is one before everything.
            source = msgspec.structs.replace(source, commit_ts=origin.commit_ts)
            source = with_unknown(source, _wire.unknown_in_columns(_wire.key_of(record.key), set()))
            return [Watermark(source, _wire.emitted_at_ns(body, record))], catalog
        if body.op is None and (body.ddl is not UNSET or _wire.image(body.tableChanges)):
            return _ddl(body, origin, source, record, catalog, lossy)
        raise UnsupportedMessage(NAME, "payload.op", "not one of c, u, d, m, and no DDL")


def _row_parts(op: Op, body: Body, origin: Origin, schema: bytes, record: ConsumerRecord) -> RowParts:
    """The parts of a row's message. Raises Malformed if it has no image of its operation, or no table."""
    before = _wire.image(body.before) if op is _DELETE or op is _UPDATE else None
    after = None if op is _DELETE else _wire.image(body.after)
    if op is _DELETE and before is None:
        raise Malformed(NAME, "payload.before", "a row message without a row")
    if op is not _DELETE and after is None:
        raise Malformed(NAME, "payload.after", "a row message without a row")
    if not origin.table:
        raise Malformed(NAME, "payload.source.table", NAMELESS)
    return RowParts((origin.db or "", origin.table), before, after, schema, record.key, record.value or b"")


def _ddl(
    body: Body, origin: Origin, source: Source, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
) -> tuple[list[Event], Catalog]:
    told, unknown = parse_changes(NAME, _wire.image(body.tableChanges))
    beside = _wire.unknown_in_columns(_wire.key_of(record.key), {"databaseName"})
    source = with_unknown(source, merged(unknown, beside))
    ddl = _own_statement(body.ddl or "", told)
    message = DdlMessage(
        ddl,
        TableId(origin.db or "", origin.table or ""),
        change_word(told),
        source,
        source.at(record),
        _wire.emitted_at_ns(body, record),
        is_restored(ddl),
    )
    return told_events(message, told, catalog, lossy)


def _own_statement(ddl: str, told: Sequence[Told]) -> str:
    """The part of a rename of several tables that the message is about, in TiCDC's words; every other
    statement as it came.

    TiCDC sends one message a table. Where each has the whole text, `id` tells the pair.
    """
    pair = renamed_pair(told) if len(told) == 1 and "," in ddl and _renames_several(ddl) else None
    if pair is None:
        return ddl
    return f"{rename_words(ddl)} {quoted_table(pair[0])} TO {quoted_table(pair[1])}"


def _renames_several(ddl: str) -> bool:
    """Whether a text is one statement that renames several tables. A comma may be of a name."""
    if not _RENAME(ddl):
        return False
    try:
        (statement,) = read_ddl(ddl, most_statements=1).statements
    except (DdlNotUnderstood, LimitExceeded):
        return False
    return isinstance(statement, RenameTables) and len(statement.pairs) > 1


_RENAME: Final = re.compile(r"\s*RENAME\s+TABLE\s", re.IGNORECASE).match

# ---------------------------------------------------------------- encoder

#: What printing raises for values that no JSON of this protocol can hold.
_UNPRINTABLE: Final = (OverflowError, UnicodeError, msgspec.MsgspecError)


class Encoder:
    """Writes TiCDC Debezium JSON as pingcap/ticdc does since v26.3.3."""

    def __init__(
        self, options: TicdcDebeziumOptions, answers: Answers, avro: AvroForms | None = None
    ) -> None:
        self._options = options
        self.prepare = None if options.output_raw_change_event else split_updates
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {Compression.LZ4, Compression.SNAPPY}
        self._has_before = options.output_old_value
        self._has_start_ts = options.debezium_include_start_ts
        settings = Settings(
            cluster=options.cluster_id,
            has_schema=not options.debezium_disable_schema,
            extension=options.enable_tidb_extension,
            has_before=options.output_old_value,
            replaces_nulls=options.replace_null_with_default,
            avro=avro,
        )
        pool = CachePool(answers.limits.cache_bytes)
        self._messages = Messages(settings, pool)
        self._lost, self._too_fine = self._messages.lost, self._messages.too_fine
        self._rows = TypedWriters(NAME, self._messages, pool)
        self._count_lost = source_losses(carries(options), options.cluster_id)
        beside_rows = msgspec.structs.replace(carries(options), start_ts=False)
        self._count_lost_of_watermark = source_losses(beside_rows, options.cluster_id)

    def encode(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterator[Payload]:
        """Give the events' messages, one each; see `relay.codecs.codec.Encoder`."""
        try:
            for event in events:
                if isinstance(event, RowChange):
                    payload = self._row(event, caused_by, lossy)
                    yield self._packed(payload) if self._is_packed else payload
                else:
                    yield from map(self._packed, self._control(event, caused_by, lossy))
        except _UNPRINTABLE:
            raise NotRepresentable(
                NAME, "payload", "a number beyond 64 bits, or text that is no Unicode"
            ) from None

    def _control(self, event: Event, caused_by: ConsumerRecord, lossy: list[Lossy]) -> Iterator[Payload]:
        if isinstance(event, SchemaChange):
            yield from self._ddl(event, caused_by, lossy)
        elif isinstance(event, Watermark) and self._options.enable_tidb_extension:
            self._count_lost_of_watermark(event.source, lossy)
            yield self._messages.watermark(event)
        else:
            lossy.append(loss_of(event))

    def _packed(self, payload: Payload) -> Payload:
        if not self._is_packed:
            return payload
        return Payload(
            None if payload.key is None else compressed(payload.key, self._compression),
            compressed(payload.value or b"", self._compression),
        )

    def _row(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> Payload:
        source, op, lost = change.source, change.op, self._lost
        if lost:
            lost.clear()
        plan, before, after, losses = self._rows.write(change)
        if self._too_fine:
            self._too_fine.clear()
            plan, before, after, _ = self._rows.write(self._widened(change))
        if op is _UPDATE:
            if self._has_before:
                if before is None:
                    op = op_without_before(self._options.unknown_before, NAME)
            elif change.before is not None:
                lossy.append(Lossy.BEFORE_IMAGE)
        lossy += losses
        commit_ts = commit_ts_of(source, caused_by, lossy) if source.commit_ts is None else source.commit_ts
        times = (source.event_time_ns // 1_000_000, commit_ts, change.emitted_at_ns // 1_000_000)
        start_ts = source.start_ts if self._has_start_ts else None
        payload = self._messages.row(op, plan, (before, after), times, start_ts)
        if lost:
            lossy += lost
        self._count_lost(source, lossy, change.transaction)
        if op is _READ and not source.snapshot:
            lossy.append(Lossy.SNAPSHOT)
        return payload

    def _widened(self, change: RowChange) -> RowChange:
        """The change with every DATETIME that has more than three digits counted in microseconds.

        Raises NotRepresentable if its column is known to have no more, so that milliseconds would cut it.
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

    def _ddl(self, change: SchemaChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> Iterator[Payload]:
        self._count_lost(change.source, lossy)
        if change.source.start_ts is not None and self._options.debezium_include_start_ts:
            lossy.append(Lossy.START_TS)  # only rows have it
        commit_ts = commit_ts_of(change.source, caused_by, lossy)
        for table, sql, changes in table_changes(change, lossy):
            yield self._messages.ddl(change, table, sql, changes, commit_ts)


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Debezium JSON (protocol=debezium), all releases",
    options=TicdcDebeziumOptions,
    decodes=carries(TicdcDebeziumOptions(enable_tidb_extension=True, debezium_include_start_ts=True)),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    writes_rows_alone=lambda _: True,
    ddl_everywhere=True,
    keys=Keys.ROW,
    row_signature=RowSignature(((b'"op":"c"', b'"op":"u"', b'"op":"d"', b'"op":"r"', b'"op":"m"'),)),
    marker=Marker("value", b'"db":', b',"server_id":'),
    signs=signs.ticdc,
)
