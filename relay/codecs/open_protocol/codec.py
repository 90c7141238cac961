"""TiCDC Open Protocol (protocol=open-protocol): framed events, one JSON key and one JSON value each.

    key:   {"ts": commit ts, "scm": database, "tbl": table, "t": 1 row | 2 DDL | 3 resolved}
    value: {"u": new row, "p": old row} | {"d": deleted row} | {"q": DDL, "t": its number} | nothing

Emitted by TiCDC since v4.0.0; read are all four generations (without flags before v4.0.5, columns in
alphabetical order in the classic architecture), written is the new architecture's. It cannot say: parameters
and members of types, charsets, defaults, transactions, when the message was made. Verified with records of
pingcap/ticdc master b813e76f9 (2026-08-18).
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Sequence
from datetime import UTC, tzinfo
from typing import Annotated, Any, Final

import msgspec
from msgspec import UNSET, Meta, UnsetType

from relay.catalog import Catalog, DdlBudget, DdlMessage, learn
from relay.codecs.codec import Codec, Joining, Message, Payload, RowSignature, TracedMessage
from relay.codecs.losses import UNSUPPORTED_EVENT_LOSSES, Before, Carries, Keys, Lossy, source_losses
from relay.codecs.open_protocol.columns import HANDLE_KEY, column_code, column_flags, loses_type, write_of
from relay.codecs.open_protocol.frames import (
    LENGTH_BYTES,
    NAME,
    NO_VALUE,
    VERSION,
    framed_key,
    framed_value,
    joined,
    segments_in,
    separated,
    unframe,
)
from relay.codecs.open_protocol.rows import ReadRow, RowDecoder, ZonedRowDecoder
from relay.codecs.open_protocol.signs import signs
from relay.codecs.open_protocol.traced import traced_row
from relay.codecs.wire.caches import CachePool
from relay.codecs.wire.compiled import Write
from relay.codecs.wire.ddl_codes import code_of, kinds_of
from relay.codecs.wire.large_messages import (
    RECORD_OVERHEAD,
    Compression,
    Decompression,
    LargeMessageOptions,
    SizeLimit,
    claim_check_document,
    claim_check_parts,
    claim_checked,
    compressed,
    decompressed,
)
from relay.codecs.wire.lenient_json import REFUSED
from relay.codecs.wire.row_writing import RowTarget, TypedWriters
from relay.codecs.wire.rows import TypedReader, TypeInfo
from relay.codecs.wire.shaping import InsertUnknownBefore, op_without_before
from relay.codecs.wire.ticdc import (
    CONNECTOR,
    TSO_END,
    commit_ts_of,
    handle_key_places,
    is_restored,
    lacks_handle_key,
    per_table_statements,
    split_updates,
)
from relay.codecs.wire.ticdc_json import printed
from relay.codecs.wire.ticdc_options import RawChangeEvent
from relay.errors import Malformed, NotRepresentable, UnsupportedMessage
from relay.limits import check_values, uncounted_bytes
from relay.model import (
    TSO_LOGICAL_BITS,
    Column,
    Event,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    Watermark,
)
from relay.needs import Answers
from relay.records import TIME_END_MS, ConsumerRecord
from relay.templates.ops import Frames, Marker
from relay.templates.tracing import Trace, Untraceable, mark_of

_ROW, _DDL, _RESOLVED = 1, 2, 3
_NS_PER_MS: Final = 1_000_000
_TIME_END_NS: Final = TIME_END_MS * _NS_PER_MS
#: TiCDC reads flags as 64 bits without a sign, of which eight have a meaning.
_FLAGS_END: Final = 1 << 64
_KNOWN_FLAGS: Final = 0xFF

_DELETE: Final = Op.DELETE
_UPDATE: Final = Op.UPDATE
_READ: Final = Op.READ

# ---------------------------------------------------------------- wire


class _Key(msgspec.Struct, gc=False):
    """A key segment. `rid` (the row id) says nothing that the row does not."""

    ts: int
    t: int
    scm: str | None = None
    tbl: str | None = None
    ptn: int | None = None
    ohk: bool | None = None
    ccl: str | None = None


class _Ddl(msgspec.Struct, gc=False):
    """A statement. Its number is text in the manual's table, and a number in every release."""

    q: str
    t: int | Annotated[str, Meta(pattern="^[0-9]{1,3}$")]


class _OutCell(msgspec.Struct, gc=False):
    """A column as it is written: `h` is true or not there."""

    t: int
    h: bool | UnsetType
    f: int
    v: Any


_decode_key = msgspec.json.Decoder(_Key).decode
_decode_ddl = msgspec.json.Decoder(_Ddl).decode
_to_json = msgspec.json.Encoder(enc_hook=mark_of).encode


class OpenOptions(LargeMessageOptions, frozen=True):
    """Options of TiCDC's sink URI and changefeed; those that change the content matter on the target side."""

    max_batch_size: Annotated[
        int,
        Meta(
            ge=1,
            description="most rows in a message; above 1, rows of neighbouring source records are joined",
        ),
    ] = 1
    only_output_updated_columns: Annotated[
        bool, Meta(description="`p` of an UPDATE has only the columns that changed")
    ] = False
    delete_only_output_handle_key_columns: Annotated[
        bool, Meta(description="a DELETE has only the handle key's columns")
    ] = False
    output_old_value: Annotated[
        bool, Meta(description="false: an UPDATE has no `p`, and so reads as an INSERT")
    ] = True
    unknown_before: InsertUnknownBefore = "insert"
    output_raw_change_event: RawChangeEvent = False

    def without_effect(self) -> dict[str, str]:
        """Find what is said of old rows where none is written."""
        found = super().without_effect()
        if not self.output_old_value:
            options = ("only-output-updated-columns", "unknown-before")
            found |= dict.fromkeys(options, "output-old-value=false leaves old rows out")
        return found


def _before(options: OpenOptions) -> Before:
    if not options.output_old_value:
        return Before.NONE
    return Before.CHANGED if options.only_output_updated_columns else Before.FULL


def carries(options: OpenOptions) -> Carries:
    """What a message can say with these options."""
    return Carries(
        before=_before(options),
        delete_image=not options.delete_only_output_handle_key_columns,
        primary_key=True,
        type_parameters=False,
        ddl=True,
        watermark=True,
        commit_ts=True,
        gtid=False,
        physical_partition=True,
    )


# ---------------------------------------------------------------- decoder


class Decoder:
    """Reads Open Protocol of all releases."""

    def __init__(self, options: OpenOptions, answers: Answers) -> None:
        self._options, self._answers, self._limits = options, answers, answers.limits
        self._compression = options.large_message_handle_compression
        self._is_compressed = self._compression in {Compression.LZ4, Compression.SNAPPY}
        self._uncounted = uncounted_bytes(answers.limits)
        self._zone = zone = options.zone()
        self._rows = (RowDecoder if zone is UTC else ZonedRowDecoder)(zone, answers.limits)

    def decode(  # noqa: C901, PLR0912 - what is called here is called for every row
        self, record: ConsumerRecord, catalog: Catalog, lossy: list[Lossy]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's events; see `relay.codecs.codec.Decoder`."""
        if record.key is None and record.value is None:
            lossy.append(Lossy.TOMBSTONE)
            return [], catalog
        events: list[Event] = []
        budget = ddl_budget = None
        emitted_at_ns = record.timestamp_ms * _NS_PER_MS
        segments = unframe(record.key, record.value, self._limits)
        for head, body in segments:
            key, value = _key(head), body
            if key.ccl:
                key, value = self._stored(key)
            ts = key.ts
            source = Source(CONNECTOR, (ts >> TSO_LOGICAL_BITS) * _NS_PER_MS, ts)
            if not 0 <= emitted_at_ns < _TIME_END_NS:
                emitted_at_ns = source.event_time_ns
            if key.ptn:
                source = msgspec.structs.replace(source, extras={"ptn": key.ptn})
            if key.t == _RESOLVED:
                events.append(Watermark(source, emitted_at_ns))
                continue
            if self._is_compressed or value[:2] != b'{"':
                budget = budget or Decompression(self._limits)
                value = decompressed(NAME, "value", value, self._compression, budget)
            if len(value) > self._uncounted:
                check_values(NAME, "value", value, self._limits)
            if key.t == _DDL:
                ddl_budget = ddl_budget or DdlBudget(self._limits)
                catalog, change = _ddl(key, value, source, record, catalog, lossy, ddl_budget)
                self._rows.forget(change)
                events.append(change)
            elif value != b"{}":
                if not key.scm or not key.tbl:
                    raise Malformed(NAME, "key", "a row without `scm` and `tbl`")
                name = key.scm, key.tbl
                if key.ohk:
                    op, schema, images = self._handle_key_row(name, value, source, record, catalog, lossy)
                else:
                    op, schema, images = self._rows.read(name, value, source, record, catalog, lossy)
                events.append(RowChange(op, schema, images, source, emitted_at_ns))
            else:
                lossy.append(Lossy.EMPTY_ROW)
        return events, catalog

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        if self._is_compressed:
            raise Untraceable
        return traced_row(record, change, catalog, trace, self._zone, self._limits)

    def _handle_key_row(
        self,
        name: tuple[str, str],
        value: bytes,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        lossy: list[Lossy],
    ) -> ReadRow:
        """A row with the handle key's columns alone."""
        counted = len(lossy)
        row = self._rows.read(name, value, source, record, catalog, lossy)
        if Lossy.COLUMNS_ABSENT not in lossy[counted:]:
            lossy.append(Lossy.COLUMNS_ABSENT)
        return row

    def _stored(self, key: _Key) -> tuple[_Key, bytes]:
        """The event that a claim check refers to: framed key and value of one event, which is the same."""
        parts = claim_check_parts(claim_checked(NAME, "key.ccl", key.ccl, self._answers, self._options))
        if parts is None:
            raise Malformed(NAME, "key.ccl", "the object in storage is no claim-check document")
        events = unframe(parts.key, parts.value)
        if len(events) != 1:
            raise Malformed(
                NAME, "key.ccl", f"the object in storage holds {len(events)} events instead of one"
            )
        found = _key(events[0][0])
        if (found.ts, found.t, found.scm, found.tbl, found.ptn) != (key.ts, key.t, key.scm, key.tbl, key.ptn):
            raise Malformed(NAME, "key.ccl", "the object in storage holds another event")
        if found.ccl:
            raise Malformed(NAME, "key.ccl", "the object in storage refers to another object")
        return found, events[0][1]


def _key(text: bytes) -> _Key:
    try:
        key = _decode_key(text)
    except REFUSED as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise Malformed(NAME, "key", reason) from error
    if not 0 <= key.ts < TSO_END:
        raise Malformed(NAME, "key.ts", "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")
    if not _ROW <= key.t <= _RESOLVED:
        raise UnsupportedMessage(NAME, "key.t", "not 1 (row), 2 (DDL) or 3 (resolved)")
    return key


def _ddl(  # noqa: PLR0913, PLR0917 - of one place
    key: _Key,
    value: bytes,
    source: Source,
    record: ConsumerRecord,
    catalog: Catalog,
    lossy: list[Lossy],
    budget: DdlBudget,
) -> tuple[Catalog, SchemaChange]:
    try:
        ddl = _decode_ddl(value)
    except REFUSED as error:
        raise Malformed(NAME, "value", "not a DDL statement `q` with its number `t`") from error
    message = DdlMessage(
        ddl.q,
        TableId(key.scm or "", key.tbl or ""),
        str(int(ddl.t)),
        source,
        source.at(record),
        record.time_ms(source.event_time_ns // _NS_PER_MS) * _NS_PER_MS,
        is_restored(ddl.q),
    )
    catalog, change = learn(catalog, message, budget)
    if not change.kinds:
        lossy.append(Lossy.DDL_NOT_UNDERSTOOD)
        change = msgspec.structs.replace(change, kinds=kinds_of(int(ddl.t)))
    return catalog, change


# ---------------------------------------------------------------- encoder


class _Plan(msgspec.Struct, frozen=True):
    """What the encoder needs of a table: each column's code, `h` and flags, the names of the handle key, and
    whether it has types that the protocol lacks.
    """

    cells: dict[str, tuple[int, bool | UnsetType, int]]
    handle_key: frozenset[str]
    loses_type: bool


#: What a column takes in a plan (measured with CPython 3.11).
_PLAN_COLUMN_BYTES: Final = 150


class _Target(RowTarget[_Plan]):
    """Rows of Open Protocol. `lost`: what the values of the last row have lost."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self.lost: list[Lossy] = []
        self._unmoved = functools.partial(self.lost.append, Lossy.ZERO_DATE)

    def plan(self, schema: TableSchema) -> _Plan:
        """Return the plan of a table version. Raises NotRepresentable for a table without a name."""
        if not schema.id.database or not schema.id.table:
            what = "table" if schema.id.database else "database"
            raise NotRepresentable(
                NAME, "", f"a row without the name of its {what}, which every key must have"
            )
        flags = column_flags(schema)
        handle_key = frozenset(schema.handle_key())
        cells = {
            c.name: (column_code(c.type), True if c.name in handle_key else UNSET, flags[c.name])
            for c in schema.columns
        }
        identity = frozenset(schema.columns[at].name for at in handle_key_places(schema))
        return _Plan(cells, identity, any(loses_type(column.type) for column in schema.columns))

    def plan_bytes(self, plan: _Plan) -> int:
        """Return about how much memory a plan takes."""
        return _PLAN_COLUMN_BYTES * len(plan.cells)

    def plan_of(self, reader: TypedReader, plan: _Plan) -> _Plan:
        """Return the plan with the flags that the messages have, if they are of Open Protocol themselves."""
        if reader.protocol != NAME or not reader.wire:
            return plan
        said = {
            name: (
                plan.cells[name][0],
                True if flags & HANDLE_KEY else UNSET,
                flags if 0 <= flags < _FLAGS_END else flags & _KNOWN_FLAGS,
            )
            for name, flags in reader.wire.items()
        }
        cells = {name: plan.cells[name] for name in reader.names}
        return plan if cells | said == cells else msgspec.structs.replace(plan, cells=cells | said)

    def losses(self, plan: _Plan, type_info: TypeInfo) -> tuple[Lossy, ...]:
        """Return what every row of a table loses: types without a code, and parameters."""
        losses = {Lossy.COLUMN_TYPE: plan.loses_type, Lossy.TYPE_PARAMETERS: type_info.parameters}
        return tuple(what for what, is_lost in losses.items() if is_lost)

    def write_of(self, column: Column) -> Write | None:
        """Return how the column's canonical values are written."""
        return write_of(column.type, self._zone, self._unmoved)


class _Segments(msgspec.Struct, gc=False):
    """One event as it is written, before it is framed."""

    key: bytes
    value: bytes


class _Batch:
    """Rows of one source record that go into one message."""

    def __init__(self, most_rows: int, room: int) -> None:
        self._most_rows, self._room = most_rows, room
        self._rows: list[_Segments] = []

    def add(self, row: _Segments) -> bool:
        """Add a row; False if the message is full. An empty one takes every row."""
        room = self._room - len(row.key) - len(row.value) - 2 * LENGTH_BYTES
        if self._rows and (room < 0 or len(self._rows) >= self._most_rows):
            return False
        self._rows.append(row)
        self._room = room
        return True

    def taken(self) -> list[Payload]:
        """Return the message, if there is one."""
        rows = self._rows
        if not rows:
            return []
        return [Payload(framed_key(one.key for one in rows), framed_value(one.value for one in rows))]


class Encoder:
    """Writes Open Protocol as TiCDC's new architecture does."""

    def __init__(self, options: OpenOptions, answers: Answers) -> None:
        self._options = options
        self.prepare = None if options.output_raw_change_event else split_updates
        self._compression = options.large_message_handle_compression
        self._count_lost = source_losses(carries(options))
        self._limit = SizeLimit(NAME, options, framing=LENGTH_BYTES * 3)
        target = _Target(options.zone())
        self._lost = target.lost
        self._rows = TypedWriters(NAME, target, CachePool(answers.limits.cache_bytes))

    def encode(
        self, events: Sequence[Event], caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Iterator[Payload]:
        """Give the events' messages: rows up to `max-batch-size` in one, all others alone; see
        `relay.codecs.codec.Encoder`.
        """
        batch = self._batch()
        for event in events:
            if isinstance(event, RowChange):
                message = self._row(event, caused_by, lossy)
                payload = Payload(message.key, message.value)
                if self._limit.exceeded(payload):
                    yield from batch.taken()
                    yield self._reduced(event, payload, caused_by, lossy)
                    batch = self._batch()
                elif not batch.add(message):
                    yield from batch.taken()
                    batch = self._batch()
                    batch.add(message)
                continue
            yield from batch.taken()
            batch = self._batch()
            yield from self._control(event, caused_by, lossy)
        yield from batch.taken()

    def _batch(self) -> _Batch:
        return _Batch(self._options.max_batch_size, self._limit.room + 2 * LENGTH_BYTES)

    def _row(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> _Segments:
        key = self._row_key(change, caused_by, lossy)
        lost = self._lost
        if lost:
            lost.clear()
        document = self._document(change, lossy)
        if lost:
            lossy += lost
        return _Segments(_to_json(key), compressed(printed(document), self._compression))

    def _row_key(self, change: RowChange, caused_by: ConsumerRecord, lossy: list[Lossy]) -> dict[str, Any]:
        source, table = change.source, change.schema.id
        key: dict[str, Any] = {
            "ts": commit_ts_of(source, caused_by, lossy),
            "scm": table.database,
            "tbl": table.table,
            "t": _ROW,
        }
        extras = source.extras
        if extras and "ptn" in extras:
            key["ptn"] = extras["ptn"]
        self._count_lost(source, lossy, change.transaction)
        return key

    def _document(self, change: RowChange, lossy: list[Lossy], *, only_key: bool = False) -> dict[str, Any]:
        """The value: `u` with or without `p`, or `d`; `only_key` for messages that must be small."""
        options = self._options
        plan, before, after, losses = self._rows.write(change)
        lossy += losses
        if change.op is _READ and not change.source.snapshot:
            lossy.append(Lossy.SNAPSHOT)
        keys = plan.handle_key if only_key else None
        if change.op is _DELETE:
            if options.delete_only_output_handle_key_columns and not only_key:
                if lacks_handle_key(change, before, lossy):
                    return {"d": _cells(plan, before, None)}
                keys = plan.handle_key
                if len(keys) < len(before):
                    lossy.append(Lossy.DELETE_IMAGE)
            return {"d": _cells(plan, before, keys)}
        document = {"u": _cells(plan, after, keys)}
        if change.op is not _UPDATE:
            return document
        if before is None or not options.output_old_value:
            self._count_lost_old(before, lossy)
            return document
        if options.only_output_updated_columns:
            before = {
                name: value for name, value in before.items() if name not in after or value != after[name]
            }
        document["p"] = _cells(plan, before, keys)
        return document

    def _count_lost_old(self, old: object, lossy: list[Lossy]) -> None:
        """Count what an UPDATE without `p` loses. Raises NotRepresentable where that shall be refused."""
        if old is not None:
            lossy.append(Lossy.BEFORE_IMAGE)
        elif self._options.output_old_value:
            op_without_before(self._options.unknown_before, NAME)

    def _reduced(
        self, change: RowChange, payload: Payload, caused_by: ConsumerRecord, lossy: list[Lossy]
    ) -> Payload:
        """The message of a row that is too large for Kafka; see `SizeLimit.reduce`."""

        def reduced(location: str | None) -> Payload:
            key = self._row_key(change, caused_by, [])
            if location is None:
                key["ohk"] = True
            else:
                key["ccl"] = location
            value = compressed(printed(self._document(change, [], only_key=True)), self._compression)
            return Payload(_to_json(key), value)

        def stored(whole: Payload) -> bytes:
            return claim_check_document(framed_key([whole.key or b""]), framed_value([whole.value or b""]))

        small = self._limit.reduce(payload, change, caused_by, lossy, reduced=reduced, stored=stored)
        return Payload(framed_key([small.key or b""]), framed_value([small.value or b""]), small.blobs)

    def _control(self, event: Event, caused_by: ConsumerRecord, lossy: list[Lossy]) -> Iterator[Payload]:
        if isinstance(event, Watermark):
            key = _to_json({"ts": event.source.commit_ts or 0, "t": _RESOLVED})
            yield Payload(framed_key([key]), NO_VALUE)
            return
        if not isinstance(event, SchemaChange):
            lossy.append(UNSUPPORTED_EVENT_LOSSES[type(event)])
            return
        commit_ts, code = commit_ts_of(event.source, caused_by, lossy), code_of(event)
        self._count_lost(event.source, lossy)
        for table, ddl in per_table_statements(event):
            key = _to_json({"ts": commit_ts, "scm": table.database, "tbl": table.table, "t": _DDL})
            value = compressed(printed({"q": ddl, "t": code}), self._compression)
            yield Payload(framed_key([key]), framed_value([value]))


def _cells(plan: _Plan, values: dict[str, Any], keys: frozenset[str] | None) -> dict[str, _OutCell]:
    cells = plan.cells
    return {
        name: _OutCell(*cells[name], value) for name, value in values.items() if keys is None or name in keys
    }


def joining(options: OpenOptions) -> Joining | None:
    """Return how messages are joined with these options."""
    if options.max_batch_size == 1:
        return None
    most_bytes = options.max_message_bytes - RECORD_OVERHEAD
    return Joining(options.max_batch_size, most_bytes, len(VERSION), _rows_in, joined)


#: What the keys of rows have, and what only those of rows have that were too large; inside a text there are
#: no quotes.
_ROW_MARKS: Final = b'"t":1}', b'"t":1,"ptn":'
_ALONE_MARKS: Final = b'"ohk":', b'"ccl":'


def _rows_in(key: bytes, _: bytes) -> int:
    """The rows of a message of this encoder; 0 for a statement, a watermark, a row that was made smaller."""
    if any(mark in key for mark in _ALONE_MARKS) or not any(mark in key for mark in _ROW_MARKS):
        return 0
    return segments_in(key)


def parts(record: ConsumerRecord) -> Sequence[Message]:
    """Return the messages of one event each that a record's several events would be."""
    key, value = record.key, record.value
    return [] if key is None or value is None else separated(key, value)


def writes_rows_alone(options: OpenOptions) -> bool:
    """Whether every message has one row."""
    return options.max_batch_size == 1


CODEC: Final = Codec(
    name=NAME,
    title="TiCDC Open Protocol (protocol=open-protocol), all releases",
    options=OpenOptions,
    decodes=carries(OpenOptions()),
    encodes=carries,
    decoder=Decoder,
    encoder=Encoder,
    ddl_everywhere=True,
    keys=Keys.MESSAGE,
    lengths_at=(len(VERSION), 0),
    joining=joining,
    marker=Marker("key", b'"scm":', b"}"),
    parts=parts,
    frames=Frames(VERSION, LENGTH_BYTES),
    writes_rows_alone=writes_rows_alone,
    row_signature=RowSignature(
        ((b'"t":1}', b'"t":1,', b'"t":3}', b'"t":3,'),), never=(b'"t":2',), part="key"
    ),
    signs=signs,
)
