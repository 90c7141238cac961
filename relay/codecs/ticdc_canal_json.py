"""TiCDC Canal-JSON: one row, DDL statement or watermark a message, one JSON object a Kafka record, key null.

    row             id database table pkNames isDdl type es ts sql sqlType mysqlType old data [_tidb]
    control         id database table pkNames isDdl type es ts sql sqlType mysqlType data old [_tidb]

Since v4.0.9; `_tidb` (commit ts, watermarks) since v5.4.0 with `enable-tidb-extension`. Before v5.4.0 an INSERT has
`old: [null]`, a DELETE repeats the row in `old`, and `ts` is 0. Every value is text or null. It cannot say: transactions, binlog
positions, GTIDs, type parameters (unless `content-compatible`), nullability, defaults. TiCDC writes `mysqlType` in random member
order; relay in table order. Verified with records of pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relay.catalog import Catalog, learn
from relay.codecs import _canal
from relay.codecs._canal import Dialect
from relay.codecs._canal_rows import RowReaders
from relay.codecs._canal_writers import RowWriters, Text
from relay.codecs._codec import Before, Carries, Codec, Lossy, Options, Payload
from relay.codecs._ticdc import (
    bare_type_text,
    changes_key,
    commit_ts_of,
    full_type_text,
    handle_key_places,
    is_restored,
    per_table_statements,
    split_update,
)
from relay.errors import DecodeError, Malformed, UnsupportedMessage
from relay.model import DdlKind, Event, Op, RowChange, SchemaChange, Source, TableId, Watermark
from relay.mysql.numbers import go_text
from relay.mysql.values import TextStyle
from relay.records import ConsumerRecord

NAME: Final = "ticdc-canal-json"
#: DDL that TiCDC calls QUERY although it alters a table (TTL, exchange partition, and everything without a word of its own).
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
_OPS: Final = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
_WORDS: Final = {Op.INSERT: "INSERT", Op.READ: "INSERT", Op.UPDATE: "UPDATE", Op.DELETE: "DELETE"}
_WATERMARK: Final = "TIDB_WATERMARK"
_TSO_END: Final = 1 << 64
_LZ4_FRAME: Final = b"\x04\x22\x4d\x18"

# Python 3.11 resolves enum members through a descriptor, at the price of a function call; these are looked at for every row.
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE
_READ: Final = Op.READ

# ---------------------------------------------------------------- wire


class _TidbMembers(msgspec.Struct, omit_defaults=True):
    """`_tidb` as relay writes it."""

    commitTs: int | UnsetType = UNSET
    watermarkTs: int | UnsetType = UNSET
    rowkey: str | UnsetType = UNSET


class _RowMessage(msgspec.Struct):
    """A row as relay writes it: `old` stands before `data` (since v6.5.0)."""

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
    tidb: _TidbMembers | UnsetType = msgspec.field(name="_tidb", default=UNSET)


class _ControlMessage(msgspec.Struct):
    """A DDL statement or watermark as relay writes it: `data` stands before `old`."""

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
    tidb: _TidbMembers | UnsetType = msgspec.field(name="_tidb", default=UNSET)


class TicdcOptions(Options, frozen=True):
    """Options of TiCDC's sink URI; those that change the content matter on the target side, the decoder sees for itself."""

    enable_tidb_extension: Annotated[bool, Meta(description="write `_tidb` with the commit ts, and watermarks")] = False
    content_compatible: Annotated[
        bool, Meta(description="write mysqlType with parameters; implies only-output-updated-columns")
    ] = False
    only_output_updated_columns: Annotated[bool, Meta(description="`old` of an UPDATE has only the columns that changed")] = False
    delete_only_output_handle_key_columns: Annotated[bool, Meta(description="a DELETE has only the handle key's columns")] = False
    output_row_key: Annotated[bool, Meta(description="write `_tidb.rowkey` where the source has it")] = False
    output_raw_change_event: Annotated[
        bool, Meta(description="keep an UPDATE of a key as one event; false: split it into DELETE and INSERT")
    ] = True


def carries(options: TicdcOptions) -> Carries:
    """What a message can say with these options."""
    extension = options.enable_tidb_extension
    return Carries(
        before=Before.FULL,
        delete_image=not options.delete_only_output_handle_key_columns,
        primary_key=True,
        type_parameters=options.content_compatible,
        ddl=True,
        watermark=extension,
        commit_ts=extension,
        gtid=False,
        row_key=extension and options.output_row_key,
        transaction_marks=False,
    )


def _style(options: TicdcOptions) -> TextStyle:
    return TextStyle(float_text=go_text, zero_year="0", pads_binary=True, zone=options.zone())


def _dialect(options: TicdcOptions) -> Dialect:
    full = options.content_compatible
    type_text = full_type_text if full else bare_type_text
    return Dialect(_style(options), type_text, with_virtual_columns=False, with_parameters=full)


# ---------------------------------------------------------------- decoder


class Decoder:
    """Reads TiCDC Canal-JSON of all releases, with and without the extension."""

    def __init__(self, options: TicdcOptions) -> None:
        self._rows = RowReaders(NAME, _style(options))

    def decode(self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]) -> tuple[list[Event], Catalog]:
        """Give the record's event; see `relay.codecs._codec.Decoder`."""
        if not record.value:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        try:
            message = _canal.parse(NAME, record.value)
        except Malformed:
            if record.value.startswith(_LZ4_FRAME):
                reason = "compressed with LZ4 (large-message-handle-compression), which relay does not read yet"
                raise UnsupportedMessage(NAME, "", reason) from None
            raise
        op = _OPS.get(message.type)
        if op is not None and message.data and not message.is_ddl:
            changes = self._rows.changes(message, op, _source(message, record), record, catalog, lossy)
            if message.tidb is not None and len(message.tidb) > 1 and message.tidb.get("onlyHandleKey"):
                _count_once(Lossy.COLUMNS_ABSENT, lossy)
            return changes, catalog
        if message.is_ddl:
            return self._ddl(message, record, catalog, lossy)
        if message.type == _WATERMARK:
            return [self._watermark(message, record)], catalog
        raise _refuse(op)

    def _ddl(
        self, message: _canal.Message, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        source = _source(message, record)
        ddl = message.sql or ""
        catalog, change = learn(
            catalog,
            ddl=ddl,
            table=TableId(message.database or "", message.table or ""),
            wire_kind=message.type,
            source=source,
            at=_canal.position(source, record),
            emitted_at_ns=_canal.emitted_at_ns(message, record),
            restored=is_restored(ddl),
        )
        if not change.kinds:
            lossy.append(Lossy.DDL_NOT_UNDERSTOOD)
        return [change], catalog

    def _watermark(self, message: _canal.Message, record: ConsumerRecord) -> Watermark:
        watermark_ts = (message.tidb or {}).get("watermarkTs")
        source = Source("ticdc", _canal.event_time_ns(message, record), commit_ts=_tso(watermark_ts, "_tidb.watermarkTs"))
        return Watermark(source, _canal.emitted_at_ns(message, record))


def _count_once(what: Lossy, lossy: list[Lossy]) -> None:
    if what not in lossy:
        lossy.append(what)


def _refuse(op: Op | None) -> DecodeError:
    if op is not None:
        return Malformed(NAME, "data", "a row message without a row")
    return UnsupportedMessage(NAME, "type", "not one of INSERT, UPDATE, DELETE, TIDB_WATERMARK")


def _tso(value: object, path: str) -> int:
    """A TSO, also one that the lenient parser kept as text."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) <= 20 else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < _TSO_END:
        raise Malformed(NAME, path, "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")
    return value


def _source(message: _canal.Message, record: ConsumerRecord) -> Source:
    tidb, es = message.tidb, message.es
    event_time_ns = _canal.event_time_ns(message, record) if es is None else es * 1_000_000
    if tidb is None:
        return Source("ticdc", event_time_ns)
    commit_ts = tidb.get("commitTs")
    if commit_ts is not None and not (type(commit_ts) is int and 0 <= commit_ts < _TSO_END):
        commit_ts = _tso(commit_ts, "_tidb.commitTs")
    if len(tidb) == (commit_ts is not None):
        return Source("ticdc", event_time_ns, commit_ts)
    if "claimCheckLocation" in tidb:
        raise UnsupportedMessage(
            NAME, "_tidb.claimCheckLocation", "the row lies in external storage, which relay does not read yet"
        )
    extras = {name: value for name, value in tidb.items() if name not in {"commitTs", "rowkey", "onlyHandleKey"}}
    row_key = tidb.get("rowkey")
    return Source(
        "ticdc", event_time_ns, commit_ts, row_key=_canal.base64_bytes(NAME, "_tidb.rowkey", row_key), extras=extras or None
    )


# ---------------------------------------------------------------- encoder


class Encoder:
    """Writes TiCDC Canal-JSON as current releases do."""

    def __init__(self, options: TicdcOptions) -> None:
        self._options = options
        self._only_updated = options.only_output_updated_columns or options.content_compatible
        self._writers = RowWriters(NAME, _dialect(options))
        self._to_json = msgspec.json.Encoder().encode

    def prepare(self, events: list[Event]) -> list[Event]:
        """Split updates of a key, if asked to; see `relay.codecs._codec.Encoder`."""
        if self._options.output_raw_change_event:
            return events
        return [part for event in events for part in (split_update(event) if changes_key(event) else [event])]

    def encode(self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]) -> list[Payload]:
        """Give the events' messages, one each; see `relay.codecs._codec.Encoder`."""
        out: list[Payload] = []
        for event in events:
            match event:
                case RowChange():
                    out.append(self._row(event, caused_by, lossy))
                case SchemaChange():
                    out += self._ddl(event, caused_by, lossy)
                case Watermark() if self._options.enable_tidb_extension:
                    out.append(self._watermark(event))
                case _:
                    lossy.append(_canal.UNSPEAKABLE[type(event)])
        return out

    def _row(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> Payload:
        source, op = change.source, change.op
        text = self._text(change, lossy)
        writer, cells = text.writer, text.cells
        message = _RowMessage(
            0,
            change.schema.id.database,
            change.schema.id.table,
            writer.pk_names,
            False,
            _WORDS[op],
            source.event_time_ns // 1_000_000,
            change.emitted_at_ns // 1_000_000,
            "",
            writer.sql_type(cells),
            writer.mysql_type,
            [self._old(text)] if op is _UPDATE else None,
            [cells],
            self._tidb(source, caused_by, lossy),
        )
        return Payload(None, self._to_json(message))

    def _text(self, change: RowChange, lossy: list[Lossy]) -> Text:
        text = self._writers.text(change)
        if text.loses_parameters:
            lossy.append(Lossy.TYPE_PARAMETERS)
        if change.op is _READ:
            lossy.append(Lossy.SNAPSHOT)
        if change.op is _DELETE and self._options.delete_only_output_handle_key_columns:
            key = handle_key_places(change.schema)
            text.writer = self._writers.only(change.schema, tuple(at for at in text.writer.places if at in key))
            names = [change.schema.columns[at].name for at in text.writer.places]
            if len(names) < len(text.cells):
                lossy.append(Lossy.DELETE_IMAGE)
            text.cells = {name: text.cells[name] for name in names}
        return text

    def _old(self, text: Text) -> dict[str, Any]:
        if text.old is None:
            return {}
        if self._only_updated:
            return text.changed()
        return text.cells | text.old

    def _tidb(self, source: Source, caused_by: ConsumerRecord, lossy: list[Lossy]) -> _TidbMembers | UnsetType:
        if source.gtid:
            lossy.append(Lossy.GTID)
        if source.extras:
            lossy.append(Lossy.EXTRAS)
        if not self._options.enable_tidb_extension:
            if source.commit_ts is not None:
                lossy.append(Lossy.COMMIT_TS)
            return UNSET
        members = _TidbMembers(commit_ts_of(source, caused_by, lossy))
        if source.row_key is not None:
            if self._options.output_row_key:
                members.rowkey = _canal.base64_text(source.row_key)
            else:
                lossy.append(Lossy.ROW_KEY)
        return members

    def _ddl(self, change: SchemaChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> list[Payload]:
        tidb = self._tidb(change.source, caused_by, lossy)
        word = _ddl_word(change)
        statements = per_table_statements(change)
        return [self._control(change, table, word, sql, tidb) for table, sql in statements]

    def _watermark(self, mark: Watermark) -> Payload:
        tidb = _TidbMembers(watermarkTs=mark.source.commit_ts or 0)
        return self._control(mark, TableId("", ""), _WATERMARK, "", tidb)

    def _control(
        self, event: SchemaChange | Watermark, table: TableId, word: str, sql: str, tidb: _TidbMembers | UnsetType
    ) -> Payload:
        es, ts = event.source.event_time_ns // 1_000_000, event.emitted_at_ns // 1_000_000
        is_ddl = isinstance(event, SchemaChange)
        message = _ControlMessage(0, table.database, table.table, None, is_ddl, word, es, ts, sql, None, None, None, None, tidb)
        return Payload(None, self._to_json(message))


def _ddl_word(change: SchemaChange) -> str:
    if len(change.kinds) > 1:
        return "ALTER"
    kind = change.kinds[0] if change.kinds else None
    return "QUERY" if kind in _QUERY_KINDS else _canal.ddl_word(kind, change.wire_kind)


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Canal-JSON (protocol=canal-json), all releases",
    options=TicdcOptions,
    finds=carries(TicdcOptions(enable_tidb_extension=True, content_compatible=True, output_row_key=True)),
    carries=carries,
    decoder=Decoder,
    encoder=Encoder,
)
