"""CKafka's JSON of MySQL: what the connector of TDMQ for CKafka (Tencent Cloud) writes as "official format
1".

    row     BINLOG_NAME BINLOG_POS DATABASE EVENT_SERVER_ID GLOBAL_ID GROUP_ID NEW_VALUES OLD_VALUES
            TABLE TIME TYPE
    DDL     data database es id isDdl mysqlType old pkNames sql sqlType table ts type

One row or statement a message, one topic for both. DDL has Canal's form without `gtid`. The connector's
"canal format" has DDL's form for rows, too, with `mysqlType`, `sqlType` and `pkNames` null; it is read but
not written. Every value is text or null, in an order of columns that is not the table's. TIME is a wall clock
in whole seconds, of UTC+8: the documents' samples are Debezium's tutorial, whose times are known. It cannot
say: types, primary keys, commit ts, watermarks, transactions, when the message was made.

Sources: Tencent Cloud documents 597/52603 ("Canal Format of MySQL Subscription Message", 2024-01-09),
597/64334, 597/83344 and 597/83345. No record of a real connector was at hand.
"""

from __future__ import annotations

from collections.abc import Sequence
from datetime import tzinfo
from typing import Annotated, Final, Literal

import msgspec
from msgspec import Meta

from relay.catalog import Catalog, learn
from relay.codecs.canal import message as _canal
from relay.codecs.canal.ckafka_message import DdlMessage, RowMessage, mysql_types, parse, read_time, time_text
from relay.codecs.canal.ckafka_rows import Images, RowReaders, RowWriters
from relay.codecs.canal.ckafka_values import ValueStyle
from relay.codecs.canal.message import Message
from relay.codecs.canal.reading import WireTable
from relay.codecs.codec import Codec, Payload, RowSignature, ZonedOptions, zone_of
from relay.codecs.losses import UNSUPPORTED_EVENT_LOSSES, Before, Carries, Lossy, source_losses
from relay.codecs.wire.ticdc import mysql_text
from relay.errors import DecodeError, Malformed, UnsupportedMessage
from relay.model import Event, Op, RowChange, SchemaChange, Snapshot, Source, TableId
from relay.mysql.numbers import java_text
from relay.mysql.values import TextStyle
from relay.needs import Answers
from relay.records import ConsumerRecord

NAME: Final = "ckafka-json"
_CONNECTOR: Final = "ckafka"
#: Some versions of the document print a lower-case L for `I`.
_OPS: Final = {"I": Op.INSERT, "l": Op.INSERT, "i": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}
_LETTERS: Final = {Op.INSERT: "I", Op.READ: "I", Op.UPDATE: "U", Op.DELETE: "D"}
_CANAL_OPS: Final = {"INSERT": Op.INSERT, "UPDATE": Op.UPDATE, "DELETE": Op.DELETE}
#: The document knows CREATE, ALTER, ERASE, RENAME and QUERY; an index is part of its table.
_DDL_WORDS: Final = {"CINDEX": "ALTER", "DINDEX": "ALTER"}

_SECOND: Final = 1_000_000_000

# ---------------------------------------------------------------- options


class CkafkaOptions(ZonedOptions, frozen=True):
    """Options of CKafka's JSON. They are relay's own: the connector has none that change the content."""

    event_time_offset: Annotated[
        str,
        Meta(
            pattern=r"^[+-](0\d|1[0-4]):[0-5]\d$",
            description="offset of TIME, the wall clock of a row's change, from UTC",
        ),
    ] = "+08:00"
    value_style: Annotated[
        ValueStyle,
        Meta(
            description="spelling of values: MySQL's text, Debezium's encodings, or both where they differ in form",
            extra={"side": "source"},
        ),
    ] = "auto"
    ddl_time_unit: Annotated[
        Literal["s", "ms"],
        Meta(
            description="unit of `es` and `ts` in DDL; a source is read in both, told apart by their size",
            extra={"side": "target"},
        ),
    ] = "s"

    def event_zone(self) -> tzinfo:
        """The zone of TIME."""
        return zone_of(self.event_time_offset)


def carries(_: CkafkaOptions) -> Carries:
    """What a message can say."""
    return Carries(
        before=Before.FULL,
        delete_image=True,
        primary_key=False,
        column_types=False,
        type_parameters=False,
        ddl=True,
        watermark=False,
        event_time_milliseconds=False,
        commit_ts=False,
        gtid=True,
        binlog_position=True,
        snapshot=True,
    )


def _style(options: CkafkaOptions) -> TextStyle:
    # The connector is a Java program, so floats are spelled as Java does; Debezium pads BINARY(n) (DBZ-254).
    return TextStyle(
        float_text=java_text, zero_year="0000", pads_binary=True, is_loose=True, zone=options.zone()
    )


# ---------------------------------------------------------------- decoder


class Decoder:
    """Reads rows of official format 1 and of the "canal format", and the DDL of both."""

    def __init__(self, options: CkafkaOptions, _: Answers) -> None:
        self._zone = options.event_zone()
        self._rows = RowReaders(NAME, _style(options), options.value_style)

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's events; see `relay.codecs.codec.Decoder`."""
        if not record.value:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        message = parse(NAME, record.value)
        if isinstance(message, RowMessage):
            return [self._row(message, record, catalog, lossy)], catalog
        op = _CANAL_OPS.get(message.type)
        if op is not None and message.data and not message.is_ddl:
            return self._canal_rows(message, op, record, catalog, lossy), catalog
        if message.is_ddl or (op is None and message.sql):
            return self._ddl(message, record, catalog, lossy)
        raise _refuse(op)

    def _row(
        self, message: RowMessage, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> RowChange:
        op = _OPS.get(message.TYPE)
        if op is None:
            raise UnsupportedMessage(NAME, "TYPE", "not one of I, U, D")
        source = self._source(message, record)
        if op is Op.INSERT and source.snapshot:
            op = Op.READ
        new = None if op is Op.DELETE else message.NEW_VALUES
        old = message.OLD_VALUES if op in {Op.UPDATE, Op.DELETE} else None
        if (old if op is Op.DELETE else new) is None:
            raise Malformed(
                NAME, "OLD_VALUES" if op is Op.DELETE else "NEW_VALUES", "a row message without its row"
            )
        if not (new or old):
            raise Malformed(NAME, "NEW_VALUES", "a row without columns")
        images = Images(op, new, old)
        wire = WireTable(TableId(message.DATABASE or "", message.TABLE or ""), images.names(), None, None)
        known = catalog.table(wire.id, _canal.position(source, record))
        return self._rows.change(wire, known, images, source, record.timestamp_ms * 1_000_000, lossy)

    def _source(self, message: RowMessage, record: ConsumerRecord) -> Source:
        seconds = None if message.TIME is None else read_time(NAME, message.TIME, self._zone)
        members = {"EVENT_SERVER_ID": message.EVENT_SERVER_ID, "GROUP_ID": message.GROUP_ID}
        extras = {name: value for name, value in members.items() if value is not None}
        return Source(
            _CONNECTOR,
            seconds * _SECOND if seconds else record.timestamp_ms * 1_000_000,
            gtid=message.GLOBAL_ID or None,
            binlog_file=message.BINLOG_NAME or None,
            binlog_position=message.BINLOG_POS,
            # A row that a snapshot has read has the time 0: Debezium does not know when it changed.
            snapshot=Snapshot.TRUE if seconds == 0 else None,
            extras=extras or None,
        )

    def _canal_rows(
        self, message: Message, op: Op, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> list[Event]:
        """Rows of the "canal format": `old` of an UPDATE is the whole old row; what it lacks is as in the new
        one.
        """
        source, emitted_at_ns = _canal_source(message, record), _canal.emitted_at_ns(message, record)
        table = TableId(message.database or "", message.table or "")
        known, types = catalog.table(table, _canal.position(source, record)), mysql_types(NAME, message)
        rows = message.data or []
        olds = (
            message.old if message.old is not None and len(message.old) == len(rows) else [None] * len(rows)
        )
        changes: list[Event] = []
        for index, (row, old) in enumerate(zip(rows, olds, strict=True)):
            path = f"data[{index}]"
            if op is Op.DELETE:
                images = Images(op, None, row, old_path=path)
            else:
                whole = row | old if op is Op.UPDATE and old is not None else None
                images = Images(op, row, whole, path, f"old[{index}]")
            wire = WireTable(table, images.names(), types, message.pk_names)
            changes.append(self._rows.change(wire, known, images, source, emitted_at_ns, lossy))
        return changes

    def _ddl(
        self, message: Message, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        source = _canal_source(message, record)
        learnt, change = learn(
            catalog,
            ddl=message.sql or "",
            table=TableId(message.database or "", message.table or ""),
            wire_kind=message.type,
            source=source,
            at=_canal.position(source, record),
            emitted_at_ns=_canal.emitted_at_ns(message, record),
            restored=False,
        )
        if change.kinds:
            return [change], learnt
        if not message.is_ddl:
            lossy.append(Lossy.STATEMENT)
            return [], catalog
        lossy.append(Lossy.DDL_NOT_UNDERSTOOD)
        return [change], learnt


def _canal_source(message: Message, record: ConsumerRecord) -> Source:
    extras = {"_tidb": message.tidb} if message.tidb else None
    return Source(_CONNECTOR, _canal.event_time_ns(message, record), gtid=message.gtid or None, extras=extras)


def _refuse(op: Op | None) -> DecodeError:
    if op is not None:
        return Malformed(NAME, "data", "a row message without a row")
    return UnsupportedMessage(NAME, "type", "neither a row nor DDL")


# ---------------------------------------------------------------- encoder


class Encoder:
    """Writes official format 1."""

    prepare: Final = None

    def __init__(self, options: CkafkaOptions, _: Answers) -> None:
        self._zone = options.event_zone()
        self._ddl_unit_ns = _SECOND if options.ddl_time_unit == "s" else 1_000_000
        self._rows = RowWriters(NAME, _style(options))
        self._count_lost = source_losses(carries(options))
        self._to_json = msgspec.json.Encoder().encode

    def encode(self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]) -> list[Payload]:
        """Give the events' messages, one each; see `relay.codecs.codec.Encoder`."""
        messages: list[RowMessage | DdlMessage] = []
        for event in events:
            if isinstance(event, RowChange):
                messages.append(self._row(event, caused_by, lossy))
            elif isinstance(event, SchemaChange):
                messages.append(self._ddl(event, lossy))
            else:
                lossy.append(UNSUPPORTED_EVENT_LOSSES[type(event)])
        return [Payload(None, self._to_json(message)) for message in messages]

    def _row(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> RowMessage:
        source, table = change.source, change.table
        writer, images = self._rows.images(change)
        self._count_lost(source, lossy, change.transaction)
        if source.connector != _CONNECTOR:  # the connector's own rows never had types and keys
            lossy += writer.losses
        # Decoders count an unknown old row where they find it.
        if change.op is Op.UPDATE and images.old is None and Lossy.BEFORE_UNKNOWN not in lossy:
            lossy.append(Lossy.BEFORE_UNKNOWN)
        file, position = self._binlog(source, caused_by, lossy)
        return RowMessage(
            BINLOG_NAME=file,
            BINLOG_POS=position,
            DATABASE=table.database,
            GLOBAL_ID=source.gtid or None,
            NEW_VALUES=images.new,
            OLD_VALUES=images.old,
            TABLE=table.table,
            TIME=self._time(change, lossy),
            TYPE=_LETTERS[change.op],
        )

    def _binlog(self, source: Source, caused_by: ConsumerRecord, lossy: list[Lossy]) -> tuple[str, int]:
        """The binlog file and position; where the source has none, no file and the offset of the source
        record (counted).

        Readers order rows and recognise repeats by the pair, and take both to be there. The offset rises
        within a partition and is the same in every run; the empty name tells that it belongs to no binlog of
        the server.
        """
        if source.binlog_position is not None:
            return source.binlog_file or "", source.binlog_position
        lossy.append(Lossy.BINLOG_POSITION_SYNTHETIC)
        return "", caused_by.offset

    def _time(self, change: RowChange, lossy: list[Lossy]) -> str:
        """The event time in whole seconds; 0 for a row of a snapshot, as the connector has it and as readers
        know it.
        """
        source = change.source
        is_snapshot = source.snapshot or change.op is Op.READ
        if (source.connector != _CONNECTOR) if is_snapshot else source.event_time_ns % _SECOND:
            lossy.append(Lossy.EVENT_TIME_PRECISION)
        return time_text(NAME, 0 if is_snapshot else source.event_time_ns // _SECOND, self._zone)

    def _ddl(self, change: SchemaChange, lossy: list[Lossy]) -> DdlMessage:
        source = change.source
        self._count_lost(source, lossy)
        # DDL in Canal's form has no place for these, unlike rows.
        if source.gtid:
            lossy.append(Lossy.GTID)
        if source.binlog_position is not None:
            lossy.append(Lossy.BINLOG_POSITION)
        time, rest = divmod(source.event_time_ns, self._ddl_unit_ns)
        if rest:
            lossy.append(Lossy.EVENT_TIME_PRECISION)
        word = _canal.ddl_word(change.kinds[0] if change.kinds else None, change.wire_kind)
        return DdlMessage(
            database=change.table.database,
            es=time,
            sql=mysql_text(change),
            table=change.table.table,
            ts=time,
            type=_DDL_WORDS.get(word, word),
        )


CODEC: Final = Codec(
    name=NAME,
    title="Tencent TDMQ for CKafka, MySQL subscription in official format 1",
    options=CkafkaOptions,
    decodes=carries(CkafkaOptions()),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    row_signature=RowSignature(((b'"TYPE":"I"', b'"TYPE":"U"', b'"TYPE":"D"'),)),
)
