"""CKafka's JSON of MySQL: "official format 1" of the connector of TDMQ for CKafka (Tencent Cloud).

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

from collections.abc import Callable, Iterator, Sequence
from datetime import UTC, datetime, timedelta, timezone, tzinfo
from typing import Annotated, Any, Final, Literal

import msgspec
from msgspec import Meta

from relay.catalog import Catalog
from relay.codecs.canal import signs
from relay.codecs.canal.ckafka_rows import CkafkaImages, CkafkaReaders, CkafkaWriters
from relay.codecs.canal.ckafka_traced import ahead_of_utc, traced_row
from relay.codecs.canal.ckafka_values import ValueStyle
from relay.codecs.canal.message import (
    DDL_WORDS,
    DELETE,
    READ,
    ROW_OPS,
    UPDATE,
    CanalMessage,
    Cells,
    check_size,
    ddl_word,
    foreign_members,
    parse,
    text_cells,
    unchecked_bytes,
)
from relay.codecs.canal.wire_table import parse_mysql_types
from relay.codecs.codec import Codec, Payload, RowSignature, TracedMessage, ZonedOptions, zone_of
from relay.codecs.losses import Before, Carries, Lossy, loss_of, source_losses
from relay.codecs.wire import lenient_json as _json
from relay.codecs.wire.caches import CachePool
from relay.codecs.wire.ddl import ddl_events
from relay.codecs.wire.event_times import event_time_ns
from relay.codecs.wire.shaping import (
    Binary,
    KeepUnknownBefore,
    Key,
    Tombstones,
    ZeroDates,
    op_without_before,
    shaped_style,
)
from relay.codecs.wire.tables import NAMELESS
from relay.codecs.wire.ticdc import mysql_text
from relay.codecs.wire.unknown_members import Message, MessageParser, Unknown, merged, unknown_in
from relay.errors import DecodeError, Malformed, NotRepresentable, UnsupportedMessage
from relay.limits import DEFAULT_LIMITS, Limits, check_columns
from relay.model import Event, Op, RowChange, SchemaChange, Snapshot, Source
from relay.mysql.numbers import java_text
from relay.mysql.values import TextStyle
from relay.needs import Answers
from relay.records import TIME_END_MS, ConsumerRecord
from relay.templates.ops import Marker
from relay.templates.tracing import Trace, TracedNumber, mark_of
from relay.times import clock_seconds

NAME: Final = "ckafka-json"
_CONNECTOR: Final = "ckafka"
#: Some versions of the document print a lower-case L for `I`.
_OPS: Final = {"I": Op.INSERT, "l": Op.INSERT, "i": Op.INSERT, "U": Op.UPDATE, "D": Op.DELETE}
_LETTERS: Final = {Op.INSERT: "I", Op.READ: "I", Op.UPDATE: "U", Op.DELETE: "D"}
_MILLISECOND_NS: Final = 1_000_000
_SECOND_NS: Final = 1_000_000_000
_EPOCH: Final = datetime(1970, 1, 1, tzinfo=UTC)
_TIME_END_NS: Final = TIME_END_MS * _MILLISECOND_NS
#: `es` and `ts` below this are seconds: the document has both units. In milliseconds it is in
#: 1973, in seconds in 5138.
_LEAST_MILLISECONDS: Final = 100_000_000_000
#: The unit of `ddl-time-unit`; None: the source's.
_UNITS: Final = {"auto": None, "s": _SECOND_NS, "ms": _MILLISECOND_NS}
_TOO_LATE: Final = "a time beyond the year 4199"
_NO_ROW: Final = "a row message without its row"

# ---------------------------------------------------------------- wire


class _RowMessage(Message, kw_only=True, gc=False):
    """A row, as it is read and as relay writes it."""

    BINLOG_NAME: str | None = None
    BINLOG_POS: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    DATABASE: str | None = None
    EVENT_SERVER_ID: Any = None
    GLOBAL_ID: str | None = None
    GROUP_ID: Any = None
    NEW_VALUES: Cells | None = None
    OLD_VALUES: Cells | None = None
    TABLE: str | None = None
    TIME: str | None = None
    TYPE: str


#: Members of a row that only this wire has and nobody explains; rows of its own source keep them.
_MOSTLY_NULL: Final = frozenset({"EVENT_SERVER_ID", "GROUP_ID"})


class _DdlMessage(msgspec.Struct, kw_only=True):
    """A DDL statement as relay writes it."""

    data: None = None
    database: str
    es: int
    id: int = 0
    isDdl: bool = True
    mysqlType: None = None
    old: None = None
    pkNames: None = None
    sql: str
    sqlType: None = None
    table: str
    ts: int
    type: str


_PARSER: Final = MessageParser(_RowMessage)
_decode: Final = _PARSER.decode


def _parse_message(value: bytes, limits: Limits = DEFAULT_LIMITS) -> _RowMessage | CanalMessage:
    """Parse a row message, or one of Canal's form: DDL, and rows of the "canal format".

    Raises Malformed, UnsupportedMessage, LimitExceeded.
    """
    try:
        return _decode(value)
    except _json.REFUSED:
        pass
    if b'"TYPE"' not in value:
        return parse(NAME, value, limits)
    try:
        return _json.parse_leniently(NAME, value, _PARSER.convert, _tidy, limits)
    except Malformed as error:
        try:
            return parse(NAME, value, limits)  # the word stands in a text
        except Malformed:
            raise error from None


def _check_size(message: _RowMessage | CanalMessage, limits: Limits) -> None:
    if isinstance(message, CanalMessage):
        check_size(NAME, message, limits)
        return
    for name, cells in (("NEW_VALUES", message.NEW_VALUES), ("OLD_VALUES", message.OLD_VALUES)):
        check_columns(NAME, name, len(cells or ()), limits)


def _tidy(document: dict[str, Any]) -> dict[str, Any]:
    """Make text of cells that are numbers, booleans or JSON."""
    images = {name: document.get(name) for name in ("NEW_VALUES", "OLD_VALUES")}
    cells = {name: text_cells(image) for name, image in images.items() if isinstance(image, dict)}
    return {**document, **cells}


def _to_milliseconds(message: CanalMessage) -> int | None:
    """Make `es` and `ts` milliseconds; return the unit that `es` has in nanoseconds. Raises Malformed."""
    es = message.es
    message.es, message.ts = _milliseconds("es", es), _milliseconds("ts", message.ts)
    if es is None or es <= 0:
        return None
    return _MILLISECOND_NS if message.es == es else _SECOND_NS


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


def _time_text(seconds: int, zone: tzinfo) -> str:
    """Return seconds since 1970 as TIME. Raises NotRepresentable for a time before the year 1."""
    try:
        moment = (_EPOCH + timedelta(seconds=seconds)).astimezone(zone)
    except OverflowError:
        raise NotRepresentable(NAME, "TIME", "a time beyond the calendar") from None
    except TypeError:
        return _traced_time(seconds, zone)
    return f"{moment.year:04}{moment:%m%d%H%M%S}"


def _traced_time(seconds: object, zone: tzinfo) -> str:
    """Return a traced number as TIME. Raises TypeError for any other value."""
    if not isinstance(seconds, TracedNumber):
        raise TypeError(f"{type(seconds).__name__} is no number of seconds")
    ahead = ahead_of_utc(zone)
    text: Any = seconds.clock_text(ahead)
    if text is None:
        text = seconds.as_text(lambda divisor: ("event-time", divisor, ahead))
    return text  # type: ignore[no-any-return]  # printed as one


def event_time_reader(divisor: int, offset_seconds: int) -> Callable[[int], str]:
    """Return how TIME is made of a number of parts of a second since 1970, rounded down, in a zone."""
    zone = timezone(timedelta(seconds=offset_seconds))
    return lambda parts: _time_text(parts // divisor, zone)


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
            description="spelling of values: MySQL's text, Debezium's encodings, "
            "or both where they differ in form",
            extra={"side": "source"},
        ),
    ] = "auto"
    unknown_before: KeepUnknownBefore = "update"
    binary: Binary = "producer"
    zero_dates: ZeroDates = "keep"
    key: Key = "producer"
    tombstones: Tombstones = False
    ddl_time_unit: Annotated[
        Literal["auto", "s", "ms"],
        Meta(
            description="unit of `es` and `ts` in DDL; auto: as CKafka has sent it, seconds from others; "
            "a source is read in both, told apart by their size",
            extra={"side": "target"},
        ),
    ] = "auto"

    def without_effect(self) -> dict[str, str]:
        """Find what is said of DDL that is not written."""
        found = super().without_effect()
        if self.ddl == "drop":
            found["ddl-time-unit"] = "ddl=drop leaves DDL out"
        return found

    def event_zone(self) -> tzinfo:
        """Return the zone of TIME."""
        return zone_of(self.event_time_offset)


def carries(options: CkafkaOptions) -> Carries:
    """Return what a message can say."""
    return Carries(
        before=Before.FULL,
        delete_image=True,
        primary_key=False,
        column_types=False,
        type_parameters=False,
        ddl=True,
        watermark=False,
        every_date=options.zero_dates != "null",
        event_time_milliseconds=False,
        commit_ts=False,
        gtid=True,
        binlog_position=True,
        snapshot=True,
    )


def _style(options: CkafkaOptions) -> TextStyle:
    # The connector is a Java program, so floats are spelled as Java does; Debezium pads BINARY(n) (DBZ-254).
    style = TextStyle(
        float_text=java_text, zero_year="0000", pads_binary=True, is_loose=True, zone=options.zone()
    )
    return shaped_style(style, options)


# ---------------------------------------------------------------- decoder


class Decoder:
    """Reads rows of official format 1 and of the "canal format", and the DDL of both."""

    def __init__(self, options: CkafkaOptions, answers: Answers) -> None:
        self._limits, self._unchecked = answers.limits, unchecked_bytes(answers.limits)
        self._zone = options.event_zone()
        self._rows = CkafkaReaders(NAME, _style(options), options.value_style, answers.limits.cache_bytes)
        # The last TIME, which is usually the next row's as well; and what it is in seconds.
        self._time: str | None = None
        self._seconds = 0

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's events; see `relay.codecs.codec.Decoder`."""
        if not record.value:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        message = _parse_message(record.value, self._limits)
        if len(record.value) > self._unchecked:
            _check_size(message, self._limits)
        if isinstance(message, _RowMessage):
            return [self._row(message, record, catalog, lossy)], catalog
        unit_ns = _to_milliseconds(message)
        source = _canal_source(message, record, unit_ns, lossy)
        op = ROW_OPS.get(message.type)
        if op is not None and message.data and not message.is_ddl:
            return self._canal_rows(message, op, source, record, catalog, lossy), catalog
        if message.is_ddl or (op is None and message.sql):
            ddl = message.ddl(message.table_id(), source, record)
            return ddl_events(ddl, catalog, lossy, is_certain=bool(message.is_ddl))
        raise _refusal(op)

    def _row(
        self, message: _RowMessage, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> RowChange:
        op = _OPS.get(message.TYPE)
        if op is None:
            raise UnsupportedMessage(NAME, "TYPE", "not one of I, U, D")
        source = self._source(message, record, lossy)
        if op is Op.INSERT and source.snapshot:
            op = Op.READ
        images = _images(op, message.NEW_VALUES, message.OLD_VALUES)
        if not message.TABLE:
            raise Malformed(NAME, "TABLE", NAMELESS)
        emitted_at_ns = record.timestamp_ms * _MILLISECOND_NS
        if not 0 <= emitted_at_ns < _TIME_END_NS:
            emitted_at_ns = source.event_time_ns
        database = message.DATABASE or ""
        return self._rows.row(database, message.TABLE, images, source, emitted_at_ns, record, catalog, lossy)

    def _source(self, message: _RowMessage, record: ConsumerRecord, lossy: list[Lossy]) -> Source:
        time, seconds = message.TIME, None
        if time is not None:
            if time != self._time:
                self._seconds, self._time = _read_time(time, self._zone), time
            seconds = self._seconds
        return Source(
            _CONNECTOR,
            event_time_ns((seconds or 0) * _SECOND_NS, None, record, lossy),
            gtid=message.GLOBAL_ID or None,
            binlog_file=message.BINLOG_NAME or None,
            binlog_position=message.BINLOG_POS,
            # A row that a snapshot has read has the time 0: Debezium does not know when it changed.
            snapshot=Snapshot.TRUE if seconds == 0 else None,
            extras=_extras(message),
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
        lossy: list[Lossy],
    ) -> list[Event]:
        """Read rows of the "canal format".

        `old` of an UPDATE is the whole old row; what it lacks is as in the new one.
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
                self._rows.change(table, types, message.pk_names, images, source, emitted_at_ns, known, lossy)
            )
        return changes


def _images(op: Op, new: Cells | None, old: Cells | None) -> CkafkaImages:
    """Return the images that an operation has. Raises Malformed if the message lacks its row."""
    if op is DELETE:
        new = None
        if old is None:
            raise Malformed(NAME, "OLD_VALUES", _NO_ROW)
    elif new is None:
        raise Malformed(NAME, "NEW_VALUES", _NO_ROW)
    elif op is not UPDATE:
        old = None
    return CkafkaImages(op, new, old)


def _extras(message: _RowMessage) -> Unknown | None:
    """Return what relay does not know: other members, and those that are null "currently", as the document
    says, if they are not.
    """
    if message.EVENT_SERVER_ID is None and message.GROUP_ID is None:
        return message.unknown
    members = {name: getattr(message, name) for name in _MOSTLY_NULL}
    return merged({name: value for name, value in members.items() if value is not None}, message.unknown)


def _split_extras(source: Source) -> tuple[Unknown | None, Unknown | None]:
    """Return those extras of a row that its message keeps, and all others."""
    extras = source.extras
    if extras is None or source.connector != _CONNECTOR:
        return None, extras
    kept = {name: value for name, value in extras.items() if name in _MOSTLY_NULL}
    return kept or None, unknown_in(extras, _MOSTLY_NULL)


def _canal_source(
    message: CanalMessage, record: ConsumerRecord, unit_ns: int | None, lossy: list[Lossy]
) -> Source:
    return Source(
        _CONNECTOR,
        message.event_time_ns(record, lossy),
        gtid=message.gtid or None,
        extras=foreign_members(message),
        time_unit_ns=unit_ns,
    )


def _refusal(op: Op | None) -> DecodeError:
    if op is not None:
        return Malformed(NAME, "data", "a row message without a row")
    return UnsupportedMessage(NAME, "type", "neither a row nor DDL")


# ---------------------------------------------------------------- encoder


class Encoder:
    """Writes official format 1."""

    prepare: Final = None

    def __init__(self, options: CkafkaOptions, answers: Answers) -> None:
        self._limits, self._unchecked = answers.limits, unchecked_bytes(answers.limits)
        self._zone = options.event_zone()
        self._unknown_before = options.unknown_before
        self._ddl_unit_ns = _UNITS[options.ddl_time_unit]
        self._rows = CkafkaWriters(NAME, _style(options), CachePool(answers.limits.cache_bytes))
        row_carries = carries(options)
        self._count_lost = source_losses(row_carries)
        # DDL in Canal's form has no place for these, unlike rows.
        self._count_lost_of_ddl = source_losses(
            msgspec.structs.replace(row_carries, gtid=False, binlog_position=False, snapshot=False)
        )
        self._to_json = msgspec.json.Encoder(enc_hook=mark_of).encode

    def encode(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterator[Payload]:
        """Give the events' messages, one each; see `relay.codecs.codec.Encoder`."""
        for event in events:
            if isinstance(event, RowChange):
                yield Payload(None, self._to_json(self._row(event, caused_by, lossy)))
            elif isinstance(event, SchemaChange):
                yield Payload(None, self._to_json(self._ddl(event, lossy)))
            else:
                lossy.append(loss_of(event))

    def _row(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> _RowMessage:
        source, table = change.source, change.table
        writer, images = self._rows.images(change)
        lossy += self._rows.lost
        kept, others = _split_extras(source)
        if kept is not None:
            source = msgspec.structs.replace(source, extras=others)
        self._count_lost(source, lossy, change.transaction)
        if source.connector != _CONNECTOR:  # the connector's own rows never had types and keys
            lossy += writer.losses
        op = change.op
        if op is UPDATE and images.old is None:
            op = op_without_before(self._unknown_before, NAME)
        binlog_file, binlog_position = self._binlog(source, caused_by, lossy)
        return _RowMessage(
            BINLOG_NAME=binlog_file,
            BINLOG_POS=binlog_position,
            DATABASE=table.database,
            GLOBAL_ID=source.gtid or None,
            NEW_VALUES=images.new,
            OLD_VALUES=images.old,
            TABLE=table.table,
            TIME=self._time(change, lossy),
            TYPE=_LETTERS[op],
            **(kept or {}),
        )

    def _binlog(self, source: Source, caused_by: ConsumerRecord, lossy: list[Lossy]) -> tuple[str, int]:
        """Return the binlog file and position; "" and the record's offset if the source has none (counted).

        Readers order rows and recognise repeats by the pair, and expect both. The offset rises within a
        partition and is the same in every run; the empty name says that it belongs to no binlog of the
        server.
        """
        if source.binlog_position is not None:
            return source.binlog_file or "", source.binlog_position
        lossy.append(Lossy.BINLOG_POSITION_SYNTHETIC)
        return "", caused_by.offset

    def _time(self, change: RowChange, lossy: list[Lossy]) -> str:
        """Return the event time in whole seconds; 0 for a row of a snapshot.

        The connector writes it so, and readers know snapshots by it.
        """
        source = change.source
        if source.snapshot or change.op is READ:
            seconds, is_lost = 0, source.connector != _CONNECTOR
        else:
            seconds, rest_ns = divmod(source.event_time_ns, _SECOND_NS)
            is_lost = rest_ns > 0
        if is_lost:
            lossy.append(Lossy.EVENT_TIME_PRECISION)
        return _time_text(seconds, self._zone)

    def _ddl(self, change: SchemaChange, lossy: list[Lossy]) -> _DdlMessage:
        source = change.source
        self._count_lost_of_ddl(source, lossy)
        unit_ns = self._ddl_unit_ns or source.time_unit_ns or _SECOND_NS
        time, rest_ns = divmod(source.event_time_ns, unit_ns)
        if rest_ns:
            lossy.append(Lossy.EVENT_TIME_PRECISION)
        word, emitted_at = ddl_word(change), time
        if source.connector == _CONNECTOR:  # what CKafka has sent is sent again
            emitted_at = change.emitted_at_ns // unit_ns
            word = change.wire_kind if change.wire_kind in DDL_WORDS else word
        return _DdlMessage(
            database=change.table.database,
            es=time,
            sql=mysql_text(change),
            table=change.table.table,
            ts=emitted_at,
            type=word,
        )


CODEC: Final = Codec(
    name=NAME,
    title="Tencent TDMQ for CKafka, MySQL subscription in official format 1",
    options=CkafkaOptions,
    decodes=carries(CkafkaOptions()),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    writes_rows_alone=lambda _: True,
    marker=Marker("value", b',"TABLE":', b',"TIME":'),
    row_signature=RowSignature(((b'"TYPE":"I"', b'"TYPE":"U"', b'"TYPE":"D"'),)),
    signs=signs.ckafka,
)
