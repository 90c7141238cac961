"""TiCDC Canal-JSON: one row, DDL statement or watermark a message, one JSON object a Kafka record, key null.

    row             id database table pkNames isDdl type es ts sql sqlType mysqlType old data [_tidb]
    control         id database table pkNames isDdl type es ts sql sqlType mysqlType data old [_tidb]

Since v4.0.9; `_tidb` (commit ts, watermarks) since v5.4.0 with `enable-tidb-extension`. Before v5.4.0 an
INSERT has `old: [null]`, a DELETE repeats the row in `old`, and `ts` is 0. Every value is text or null. It
cannot say: transactions, binlog positions, GTIDs, type parameters (unless `content-compatible`), nullability,
defaults. TiCDC writes `mysqlType` in random member order; relay in table order. Verified with records of
pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relay.catalog import Catalog
from relay.codecs.canal import signs
from relay.codecs.canal.local_times import zoned
from relay.codecs.canal.message import (
    DELETE,
    INSERT,
    READ,
    ROW_OPS,
    ROW_WORDS,
    UPDATE,
    CanalMessage,
    Dialect,
    base64_bytes,
    check_size,
    ddl_word,
    parse,
    unchecked_bytes,
)
from relay.codecs.canal.text_readers import TextReaders
from relay.codecs.canal.traced import traced_row
from relay.codecs.canal.wire_table import MysqlTypes, have_parameters
from relay.codecs.canal.writing import TextChange, TextWriters
from relay.codecs.codec import Codec, Payload, RowSignature, TracedMessage
from relay.codecs.losses import Before, Carries, Lossy, loss_of, source_losses
from relay.codecs.wire.base64_text import base64_text
from relay.codecs.wire.caches import ByteCache, CachePool
from relay.codecs.wire.ddl import ddl_events
from relay.codecs.wire.large_messages import (
    Compression,
    Decompression,
    Handling,
    LargeMessageOptions,
    SizeLimit,
    claim_check_document,
    claim_check_parts,
    claim_checked,
    compressed,
    decompressed,
)
from relay.codecs.wire.shaping import (
    Binary,
    InsertUnknownBefore,
    Key,
    Members,
    Tombstones,
    ZeroDates,
    op_without_before,
    shaped_style,
)
from relay.codecs.wire.ticdc import (
    CONNECTOR,
    TSO_END,
    bare_type_text,
    commit_ts_of,
    full_type_text,
    handle_key_places,
    is_restored,
    lacks_handle_key,
    per_table_statements,
    split_updates,
)
from relay.codecs.wire.ticdc_options import RawChangeEvent, RawClaimChecks
from relay.codecs.wire.unknown_members import Unknown, below, merged, unknown_in, with_unknown
from relay.errors import DecodeError, Malformed, Problem, UnsupportedMessage
from relay.limits import check_levels
from relay.model import (
    TSO_LOGICAL_BITS,
    DdlKind,
    Event,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    Transaction,
    Watermark,
)
from relay.mysql.numbers import go_text
from relay.mysql.values import TextStyle
from relay.needs import Answers
from relay.records import ConsumerRecord
from relay.templates.ops import Marker
from relay.templates.tracing import Trace, Untraceable, mark_of

NAME: Final = "ticdc-canal-json"
_WATERMARK: Final = "TIDB_WATERMARK"
_TYPE_PARAMETERS: Final = Lossy.TYPE_PARAMETERS
#: What the place of a key's column takes in a set.
_KEY_BYTES: Final = 100
#: The first byte of a message that is not compressed.
_BRACE: Final = ord("{")
_LOCATION: Final = "_tidb.claimCheckLocation"

# ---------------------------------------------------------------- wire
# Messages as relay writes them, with their members in the order of the real ones (since v6.5.0).


class TidbMembers(msgspec.Struct, omit_defaults=True, gc=False):
    """`_tidb`."""

    commitTs: int | UnsetType = UNSET
    watermarkTs: int | UnsetType = UNSET
    onlyHandleKey: bool | UnsetType = UNSET
    claimCheckLocation: str | UnsetType = UNSET
    rowkey: str | UnsetType = UNSET


class _RowMessage(msgspec.Struct, gc=False):
    """A row: `old` stands before `data`."""

    id: int
    database: str
    table: str
    pkNames: list[str]
    isDdl: bool
    type: str
    es: int
    ts: int
    sql: str
    sqlType: msgspec.Raw
    mysqlType: msgspec.Raw
    old: list[dict[str, Any]] | None
    data: list[dict[str, Any]]
    tidb: TidbMembers | UnsetType = msgspec.field(name="_tidb", default=UNSET)


class ControlMessage(msgspec.Struct, gc=False):
    """A DDL statement or watermark: `data` stands before `old`."""

    id: int
    database: str
    table: str
    pkNames: None
    isDdl: bool
    type: str
    es: int
    ts: int
    sql: str
    sqlType: None
    mysqlType: None
    data: None
    old: None
    tidb: TidbMembers | UnsetType = msgspec.field(name="_tidb", default=UNSET)


#: DDL that TiCDC calls QUERY although it alters a table (TTL, exchange partition, and everything else without
#: a word of its own).
_QUERY_KINDS: Final = frozenset(
    {
        DdlKind.ALTER_TTL,
        DdlKind.REMOVE_TTL,
        DdlKind.EXCHANGE_PARTITION,
        DdlKind.ADD_CHECK,
        DdlKind.DROP_CHECK,
        DdlKind.ALTER_CHECK,
        DdlKind.ALTER_TABLE_OPTION,
    }
)


def ticdc_ddl_word(change: SchemaChange) -> str:
    """Return the `type` of a DDL message."""
    if len(change.kinds) > 1:
        return "ALTER"
    if change.kinds and change.kinds[0] in _QUERY_KINDS:
        return "QUERY"
    return ddl_word(change)


# ---------------------------------------------------------------- options


class TicdcOptions(LargeMessageOptions, frozen=True):
    """Options of TiCDC's sink URI.

    Those that change the content matter on the target side; the decoder sees for itself.
    """

    enable_tidb_extension: Annotated[
        bool, Meta(description="write `_tidb` with the commit ts, and watermarks")
    ] = False
    content_compatible: Annotated[
        bool, Meta(description="write mysqlType with parameters; implies only-output-updated-columns")
    ] = False
    only_output_updated_columns: Annotated[
        bool, Meta(description="`old` of an UPDATE has only the columns that changed")
    ] = False
    delete_only_output_handle_key_columns: Annotated[
        bool, Meta(description="a DELETE has only the handle key's columns")
    ] = False
    output_row_key: Annotated[bool, Meta(description="write `_tidb.rowkey` where the source has it")] = False
    output_raw_change_event: RawChangeEvent = False
    unknown_before: InsertUnknownBefore = "insert"
    enum: Members = "index"
    binary: Binary = "producer"
    zero_dates: ZeroDates = "keep"
    key: Key = "producer"
    tombstones: Tombstones = False
    claim_check_raw_value: RawClaimChecks = False

    def writing_problems(self) -> list[Problem]:
        """Find options that write into `_tidb` where it is not written; see `Options.writing_problems`."""
        problems = super().writing_problems()
        if self.enable_tidb_extension:
            return problems
        reasons = []
        handling = self.large_message_handle_option
        if handling is not Handling.NONE:
            reasons.append(f"large-message-handle-option={handling} marks its messages in `_tidb`")
        if self.output_row_key:
            reasons.append("output-row-key=true writes into `_tidb`")
        return problems + [Problem("enable-tidb-extension", why, "set it to true") for why in reasons]

    def without_effect(self) -> dict[str, str]:
        """Find what another option implies, and what is said of claim checks where there are none."""
        found = super().without_effect()
        if "claim-check-storage-uri" in found:
            found["claim-check-raw-value"] = found["claim-check-storage-uri"]
        if self.content_compatible:
            found["only-output-updated-columns"] = "content-compatible=true implies true"
        return found

    @property
    def writes_only_changed(self) -> bool:
        """Whether `old` of an UPDATE has only the columns that changed."""
        return self.only_output_updated_columns or self.content_compatible


def carries(options: TicdcOptions) -> Carries:
    """Return what a message can say with these options."""
    extension = options.enable_tidb_extension
    return Carries(
        before=Before.CHANGED if options.writes_only_changed else Before.FULL,
        delete_image=not options.delete_only_output_handle_key_columns,
        primary_key=True,
        type_parameters=options.content_compatible,
        ddl=True,
        watermark=extension,
        every_date=options.zero_dates != "null",
        commit_ts=extension,
        gtid=False,
        row_key=extension and options.output_row_key,
    )


def _style(options: TicdcOptions) -> TextStyle:
    style = TextStyle(float_text=go_text, zero_year="0", pads_binary=True, zone=options.zone())
    return shaped_style(style, options)


def _dialect(options: TicdcOptions) -> Dialect:
    full = options.content_compatible
    type_text = full_type_text if full else bare_type_text
    return Dialect(_style(options), type_text, with_virtual_columns=False, with_parameters=full)


# ---------------------------------------------------------------- decoder


class Decoder:
    """Reads TiCDC Canal-JSON of all releases, with and without the extension."""

    def __init__(self, options: TicdcOptions, answers: Answers) -> None:
        self._options, self._answers, self._limits = options, answers, answers.limits
        self._unchecked = unchecked_bytes(answers.limits)
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {Compression.LZ4, Compression.SNAPPY}
        is_full = _always if options.content_compatible else have_parameters
        style = _style(options)
        readers = TextReaders(NAME, style, is_full, most_bytes=answers.limits.cache_bytes)
        self._rows = zoned(readers, style)

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's event; see `relay.codecs.codec.Decoder`."""
        value = record.value
        if not value:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        if self._is_packed or value[0] != _BRACE:
            value = decompressed(NAME, "", value, self._compression, Decompression(self._limits))
        message = parse(NAME, value, self._limits)
        if len(value) > self._unchecked:
            check_size(NAME, message, self._limits)
        tidb = message.tidb
        beside = None
        if tidb is not None and "claimCheckLocation" in tidb:
            beside = _extras(message)
            message = self._from_storage(message)
            tidb = message.tidb
        op = ROW_OPS.get(message.type)
        if op is not None and message.data and not message.is_ddl:
            source = _source(message, record, lossy)
            if beside is not None:
                source = with_unknown(source, beside)
            changes = self._rows.changes(message, op, source, record, catalog, lossy)
            if tidb is not None and len(tidb) > 1 and tidb.get("onlyHandleKey"):
                # Each row lacks columns; some have been counted.
                lossy += [Lossy.COLUMNS_ABSENT] * (len(changes) - lossy.count(Lossy.COLUMNS_ABSENT))
            return changes, catalog
        if message.is_ddl:
            return self._ddl(message, record, catalog, lossy)
        if message.type == _WATERMARK:
            return [self._watermark(message, record, lossy)], catalog
        raise _refusal(op)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        source = change.source
        if self._is_packed or source.row_key is not None:
            raise Untraceable
        commit_ts = None if source.commit_ts is None else ("_tidb", "commitTs")
        start_ts = None if source.start_ts is None else ("_tidb", "startTs")
        return traced_row(record, change, catalog, trace, commit_ts=commit_ts, start_ts=start_ts)

    def _from_storage(self, stub: CanalMessage) -> CanalMessage:
        """Return the message that this one, which has the handle key alone, stands for.

        Raises Malformed if the claim-check object holds another message.
        """
        data = claim_checked(
            NAME, _LOCATION, (stub.tidb or {})["claimCheckLocation"], self._answers, self._options
        )
        parts = claim_check_parts(data)
        try:
            stored = data if parts is None else parts.value
            check_levels(NAME, "", stored)
            value = decompressed(NAME, "", stored, self._compression, Decompression(self._limits))
            message = parse(NAME, value, self._limits)
            check_size(NAME, message, self._limits)
        except (Malformed, UnsupportedMessage) as error:
            raise Malformed(
                NAME, _LOCATION, f"its object: {error.path or 'message'}: {error.reason}"
            ) from None
        if _identity(message) != _identity(stub) or "claimCheckLocation" in (message.tidb or {}):
            raise Malformed(NAME, _LOCATION, "its object holds another message")
        return message

    def _ddl(
        self, message: CanalMessage, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        source = _source(message, record, lossy)
        ddl = message.ddl(message.table_id(), source, record, is_restored=is_restored(message.sql or ""))
        return ddl_events(ddl, catalog, lossy)

    def _watermark(self, message: CanalMessage, record: ConsumerRecord, lossy: list[Lossy]) -> Watermark:
        commit_ts = _tso((message.tidb or {}).get("watermarkTs"), "_tidb.watermarkTs")
        time_ns = _time_ns(message, commit_ts, record, lossy)
        source = Source(CONNECTOR, time_ns, commit_ts=commit_ts, extras=_extras(message))
        return Watermark(source, message.emitted_at_ns(record))


def _always(_: MysqlTypes) -> bool:
    """With content-compatible every type has its parameters."""
    return True


def _identity(message: CanalMessage) -> tuple[object, ...]:
    """Return what a message and the one in its claim-check object have in common."""
    commit_ts = (message.tidb or {}).get("commitTs")
    return message.database, message.table, message.type, message.is_ddl, message.es, commit_ts


def _refusal(op: Op | None) -> DecodeError:
    if op is not None:
        return Malformed(NAME, "data", "a row message without a row")
    return UnsupportedMessage(NAME, "type", "not one of INSERT, UPDATE, DELETE, TIDB_WATERMARK")


def _tso(value: object, path: str) -> int:
    """Return a TSO, also one that the lenient parser kept as text. Raises Malformed."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) <= 20 else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < TSO_END:
        raise Malformed(NAME, path, "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")
    return value


def _source(message: CanalMessage, record: ConsumerRecord, lossy: list[Lossy]) -> Source:
    tidb, es = message.tidb, message.es
    gtid, is_usual = message.gtid or None, message.unknown is None
    if tidb is None:
        return Source(CONNECTOR, _time_ns(message, None, record, lossy), gtid=gtid, extras=message.unknown)
    commit_ts = tidb.get("commitTs")
    if type(commit_ts) is int and 0 < commit_ts < TSO_END:
        # Almost every message has `es`, and needs no call then.
        if es is not None and es > 0 and len(tidb) == 1 and is_usual and gtid is None:
            return Source(CONNECTOR, es * 1_000_000, commit_ts)
    elif commit_ts is not None:
        commit_ts = _tso(commit_ts, "_tidb.commitTs") or None
    start_ts = tidb.get("startTs")
    return Source(
        CONNECTOR,
        _time_ns(message, commit_ts, record, lossy),
        commit_ts,
        _tso(start_ts, "_tidb.startTs") if start_ts else None,
        gtid=gtid,
        row_key=base64_bytes(NAME, "_tidb.rowkey", tidb.get("rowkey")),
        extras=_extras(message),
    )


def _time_ns(message: CanalMessage, commit_ts: int | None, record: ConsumerRecord, lossy: list[Lossy]) -> int:
    """Return when rows changed, which the commit ts says as well as `es` does."""
    if commit_ts and not (message.es is not None and message.es > 0):
        return (commit_ts >> TSO_LOGICAL_BITS) * 1_000_000
    return message.event_time_ns(record, lossy)


def _extras(message: CanalMessage) -> Unknown | None:
    """Return the members that TiCDC does not write."""
    tidb = message.tidb or {}
    return merged(below("_tidb", unknown_in(tidb, _TIDB_MEMBERS)), message.unknown)


#: Members of `_tidb` that a field has, or that say how the message was written.
_TIDB_MEMBERS: Final = frozenset(
    {"commitTs", "startTs", "rowkey", "onlyHandleKey", "watermarkTs", "claimCheckLocation"}
)


# ---------------------------------------------------------------- encoder


class Encoder:
    """Writes TiCDC Canal-JSON as current releases do."""

    def __init__(self, options: TicdcOptions, answers: Answers) -> None:
        self._options = options
        self.prepare = None if options.output_raw_change_event else split_updates
        self._has_extension = options.enable_tidb_extension
        self._only_changed = options.writes_only_changed
        self._only_key_deletes = options.delete_only_output_handle_key_columns
        pool = CachePool(answers.limits.cache_bytes)
        self._writers = TextWriters(NAME, _dialect(options), pool)
        self._lost = self._writers.lost
        self._key_places: ByteCache[TableSchema, frozenset[int]] = pool.cache()
        self._count_lost = source_losses(carries(options))
        self._limit = SizeLimit(NAME, options)
        self._room = self._limit.room
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {Compression.LZ4, Compression.SNAPPY}
        self._to_json = msgspec.json.Encoder(enc_hook=mark_of).encode

    def encode(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterable[Payload]:
        """Give the events' messages, one each; see `relay.codecs.codec.Encoder`."""
        if len(events) == 1 and isinstance(events[0], RowChange):
            return [self._row(events[0], caused_by, lossy)]
        return self._payloads(events, caused_by, lossy)

    def _payloads(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterator[Payload]:
        for event in events:
            match event:
                case RowChange():
                    yield self._row(event, caused_by, lossy)
                case SchemaChange():
                    yield from self._ddl(event, caused_by, lossy)
                case Watermark() if self._has_extension:
                    yield self._watermark(event, lossy)
                case _:
                    lossy.append(loss_of(event))

    def _row(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> Payload:
        text = self._text(change, lossy)
        tidb = self._tidb(change.source, caused_by, lossy, change.transaction)
        value = self._row_value(change, text, tidb)
        if len(value) <= self._room:
            return Payload(None, value)
        reduced = self._reduced(change, text, tidb)
        return self._limit.reduce(
            Payload(None, value), change, caused_by, lossy, reduced=reduced, stored=self._stored
        )

    def _reduced(
        self, change: RowChange, text: TextChange, tidb: TidbMembers | UnsetType
    ) -> Callable[[str | None], Payload]:
        """Return how to write the row with its handle key alone; see `SizeLimit.reduce`."""

        def write(location: str | None) -> Payload:
            members = TidbMembers() if tidb is UNSET else msgspec.structs.replace(tidb)
            if location is None:
                members.onlyHandleKey = True
            else:
                members.claimCheckLocation = location
            return Payload(None, self._row_value(change, self._only_key(text, change.schema), members))

        return write

    def _stored(self, payload: Payload) -> bytes:
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
        message = _RowMessage(
            0,
            writer.table.database,
            writer.table.table,
            writer.pk_names,
            False,
            ROW_WORDS[op],
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

    def _text(self, change: RowChange, lossy: list[Lossy]) -> TextChange:
        op, text = change.op, self._writers.write(change)
        if self._lost:
            lossy += self._lost
        if text.loses_parameters:
            lossy.append(_TYPE_PARAMETERS)
        if op is UPDATE:
            if text.old is None:
                op_without_before(self._options.unknown_before, NAME)
        elif op is READ and not change.source.snapshot:
            lossy.append(Lossy.SNAPSHOT)
        elif op is DELETE and self._only_key_deletes and not lacks_handle_key(change, text.cells, lossy):
            only_key = self._only_key(text, change.schema)
            if len(only_key.cells) < len(text.cells):
                lossy.append(Lossy.DELETE_IMAGE)
            return only_key
        return text

    def _only_key(self, text: TextChange, schema: TableSchema) -> TextChange:
        """Return the row with the handle key's columns only; with all if the table has no such key."""
        key = self._key_places.get(schema)
        if key is None:
            key = frozenset(handle_key_places(schema))
            self._key_places.keep(schema, key, _KEY_BYTES * (len(key) + 1))
        writer = self._writers.writer_for(schema, tuple(at for at in text.writer.places if at in key))
        names = [schema.columns[at].name for at in writer.places]
        cells = {name: text.cells[name] for name in names if name in text.cells}
        old = text.old
        if old is not None:
            old = {name: old[name] for name in names if name in old}
        return TextChange(writer, cells, old, text.loses_parameters)

    def _tidb(
        self,
        source: Source,
        caused_by: ConsumerRecord,
        lossy: list[Lossy],
        transaction: Transaction | None = None,
    ) -> TidbMembers | UnsetType:
        self._count_lost(source, lossy, transaction)
        if not self._has_extension:
            return UNSET
        members = TidbMembers(commit_ts_of(source, caused_by, lossy))
        if source.row_key is not None and self._options.output_row_key:
            members.rowkey = base64_text(source.row_key)
        return members

    def _ddl(self, change: SchemaChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> Iterator[Payload]:
        tidb = self._tidb(change.source, caused_by, lossy)
        word = ticdc_ddl_word(change)
        for table, sql in per_table_statements(change):
            yield self._control(change, table, word, sql, tidb)

    def _watermark(self, mark: Watermark, lossy: list[Lossy]) -> Payload:
        self._count_lost(mark.source, lossy)
        tidb = TidbMembers(watermarkTs=mark.source.commit_ts or 0)
        return self._control(mark, TableId("", ""), _WATERMARK, "", tidb)

    def _control(
        self,
        event: SchemaChange | Watermark,
        table: TableId,
        word: str,
        sql: str,
        tidb: TidbMembers | UnsetType,
    ) -> Payload:
        es, ts = event.source.event_time_ns // 1_000_000, event.emitted_at_ns // 1_000_000
        is_ddl = isinstance(event, SchemaChange)
        message = ControlMessage(
            0, table.database, table.table, None, is_ddl, word, es, ts, sql, None, None, None, None, tidb
        )
        return Payload(None, compressed(self._to_json(message), self._compression))


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Canal-JSON (protocol=canal-json), all releases",
    options=TicdcOptions,
    decodes=carries(TicdcOptions(enable_tidb_extension=True, content_compatible=True, output_row_key=True)),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    writes_rows_alone=lambda _: True,
    marker=Marker("value", b"", b',"es":'),
    row_signature=RowSignature(
        (
            (b'"isDdl":false',),
            (b'"type":"INSERT"', b'"type":"UPDATE"', b'"type":"DELETE"', b'"type":"TIDB_WATERMARK"'),
        ),
        (b'"isDdl":true',),
    ),
    signs=signs.ticdc,
)
