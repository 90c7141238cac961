"""Toy lines: one JSON object a line, all events of a source record in one message.

    row         {"type":"row","schema":id,"op":"update","before":{…},"after":{…},"transaction":{…},"at":{…}}
    definition  {"type":"definition","schema":id,"at":{…}}
    mark        {"type":"mark","is_begin":true,"id":"…","count":2,"tables":[["shop","orders",2]],"at":{…}}
    heartbeat   {"type":"heartbeat","at":{…}}

`at` is `{time_ms, emitted_ms, commit_ts, gtid}`; the id stands for a table's definition in a registry. Text
is JSON text, bytes are base64, decimals are text. It cannot say: DDL, watermarks, binlog positions, snapshots.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from decimal import Decimal
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from relay.catalog import Catalog, apply_bootstrap
from relay.codecs.codec import Codec, EncodedRecord, Options
from relay.codecs.detection import DetectionMessage, FormatMatch, Strength
from relay.codecs.losses import UNSUPPORTED_EVENT_LOSSES, Before, Capabilities, Loss, source_losses
from relay.model.errors import Malformed, NotRepresentable
from relay.model.events import (
    ABSENT,
    Bootstrap,
    Column,
    Event,
    Heartbeat,
    Op,
    Position,
    Row,
    RowChange,
    Rows,
    Source,
    TableId,
    TableSchema,
    Transaction,
    TransactionMark,
)
from relay.model.lookups import LookupCache, RegisteredSchema, SchemaById, SchemaId
from relay.model.records import ConsumerRecord
from relay.mysql import numbers, temporal
from relay.mysql.types import BINARIES, INTEGER_BITS

NAME: Final = "toy-lines"

# ---------------------------------------------------------------- wire


_Time = Annotated[int, Meta(gt=-(1 << 46), lt=1 << 46)]


class _At(msgspec.Struct, omit_defaults=True):
    time_ms: _Time
    emitted_ms: _Time
    commit_ts: Annotated[int, Meta(ge=0, le=(1 << 63) - 1)] | None = None
    gtid: str | None = None


class _Row(msgspec.Struct, tag="row", omit_defaults=True):
    schema: int
    op: Op
    at: _At
    before: dict[str, Any] | None = None
    after: dict[str, Any] | None = None
    transaction: Transaction | None = None


class _Definition(msgspec.Struct, tag="definition"):
    schema: int
    at: _At


class _Mark(msgspec.Struct, tag="mark", omit_defaults=True):
    is_begin: bool
    id: str
    at: _At
    count: int | None = None
    tables: tuple[tuple[str, str, int], ...] = ()


class _Heartbeat(msgspec.Struct, tag="heartbeat"):
    at: _At


_Line = _Row | _Definition | _Mark | _Heartbeat
_parse = msgspec.json.Decoder(_Line).decode
_parse_schema = msgspec.json.Decoder(TableSchema).decode
#: What msgspec raises for bytes that are no such lines.
_NO_LINES: Final = (msgspec.MsgspecError, UnicodeError, RecursionError)


class ToyOptions(Options, frozen=True):
    """Options of toy lines."""

    registry: Annotated[str, Meta(description="the folder with the schemas; empty: this process")] = ""


CARRIES: Final = Capabilities(
    before=Before.FULL,
    delete_image=True,
    primary_key=True,
    type_parameters=True,
    ddl=False,
    watermark=False,
    commit_ts=True,
    gtid=True,
    transaction=True,
    transaction_order=True,
    transaction_total=True,
    transaction_marks=True,
)

# ---------------------------------------------------------------- decoder


class Decoder:
    """Reads toy lines."""

    def __init__(self, options: ToyOptions, answers: LookupCache) -> None:
        self._registry, self._answers = options.registry, answers

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Give the record's events; see `relay.codecs.codec.Decoder`."""
        if not record.value:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        try:
            lines = [_parse(line) for line in record.value.splitlines()]
        except _NO_LINES as error:
            raise Malformed(NAME, "", "not lines of JSON as this protocol has them") from error
        events = [self._event(line, record) for line in lines]
        for event in events:
            if isinstance(event, Bootstrap):
                catalog = apply_bootstrap(catalog, event, _position(event.source, record))
            elif isinstance(event, RowChange) and event.op is Op.UPDATE and event.before is None:
                losses.append(Loss.BEFORE_MISSING)
        return events, catalog

    def _event(self, line: _Line, record: ConsumerRecord) -> Event:
        at = line.at
        source = Source("toy", at.time_ms * 1_000_000, at.commit_ts, gtid=at.gtid)
        emitted_at_ns = at.emitted_ms * 1_000_000
        if isinstance(line, _Heartbeat):
            return Heartbeat(source, emitted_at_ns)
        if isinstance(line, _Mark):
            counts = tuple((TableId(database, table), count) for database, table, count in line.tables)
            return TransactionMark(line.is_begin, line.id, source, emitted_at_ns, line.count, counts)
        schema = self._schema(line.schema)
        if isinstance(line, _Definition):
            return Bootstrap(schema, source, emitted_at_ns)
        if (line.before is None and line.op is Op.DELETE) or (
            line.after is None and line.op is not Op.DELETE
        ):
            raise Malformed(NAME, "after", "a row message without a row")
        rows = Rows(_row(schema, line.before, "before"), _row(schema, line.after, "after"))
        return RowChange(line.op, schema, rows, source, emitted_at_ns, line.transaction)

    def _schema(self, id: int) -> TableSchema:
        registered = self._answers.find(SchemaById(self._registry, id))
        try:
            return _parse_schema(registered.text)
        except _NO_LINES as error:
            raise Malformed(NAME, "schema", "not a table's definition") from error


def _position(source: Source, record: ConsumerRecord) -> Position:
    position = record.topic, record.partition, record.offset
    return Position(source.commit_ts, source.event_time_ns, *position)


def _row(schema: TableSchema, cells: dict[str, Any] | None, part: str) -> Row | None:
    if cells is None:
        return None
    if not cells:
        raise Malformed(NAME, part, "a row without columns")
    if unknown := cells.keys() - {column.name for column in schema.columns}:
        raise Malformed(NAME, f"{part}.{min(unknown)}", "not a column of its schema")
    return tuple(_cell(column, cells.get(column.name, ABSENT), part) for column in schema.columns)


def _cell(column: Column, value: Any, part: str) -> Any:
    if value is ABSENT or value is None:
        return value
    try:
        cell = msgspec.convert(value, _kind_of(column))
        check = _CHECKS.get(column.type.base)
        return cell if check is None else check(str(cell))
    except (msgspec.ValidationError, ValueError) as error:
        raise Malformed(NAME, f"{part}.{column.name}", "not a value of its type") from error


#: Cells that are of a form which their Python type does not tell.
_CHECKS: Final[dict[str, Callable[[str], Any]]] = {
    "decimal": numbers.read_decimal,
    "date": temporal.read_date,
    "time": temporal.read_time,
    **dict.fromkeys(("datetime", "timestamp"), temporal.read_datetime),
}


def _kind_of(column: Column) -> Any:
    base = column.type.base
    if base in INTEGER_BITS or base in {"bit", "year"}:
        return int
    if base in BINARIES:
        return bytes
    if base in {"enum", "set"}:
        return int | str
    return {"float": float, "double": float, "decimal": Decimal}.get(base, str)


# ---------------------------------------------------------------- detection


def detect(message: DetectionMessage) -> FormatMatch | None:
    """Know a line by its time and its type."""
    line = DetectionMessage(None, message.text.split(b"\n", 1)[0])
    if "at" in line.members and line.string("type") in {"row", "definition", "mark", "heartbeat"}:
        return FormatMatch(Strength.CERTAIN, "Toy lines", "members at and type")
    return None


# ---------------------------------------------------------------- encoder


class Encoder:
    """Writes toy lines."""

    prepare: Final = None

    def __init__(self, options: ToyOptions, answers: LookupCache) -> None:
        self._registry, self._answers = options.registry, answers
        self._count_lost = source_losses(CARRIES)

    def encode(self, events: Sequence[Event], _: ConsumerRecord, losses: list[Loss]) -> list[EncodedRecord]:
        """Give the events' message, if there is anything to say; see `relay.codecs.codec.Encoder`."""
        lines = [line for event in events if (line := self._line(event, losses)) is not None]
        try:
            return [EncodedRecord(None, b"\n".join(map(msgspec.json.encode, lines)))] if lines else []
        except (msgspec.MsgspecError, OverflowError, UnicodeError) as error:
            raise NotRepresentable(
                NAME, "", "a number beyond 64 bits, or text that is not Unicode"
            ) from error

    def _line(self, event: Event, losses: list[Loss]) -> _Line | None:
        source, at = event.source, _at(event)
        line: _Line
        if isinstance(event, RowChange):
            before, after = (_cells(event.schema, row) for row in (event.before, event.after))
            line = _Row(self._id(event.schema), event.op, at, before, after, event.transaction)
        elif isinstance(event, Bootstrap):
            line = _Definition(self._id(event.schema), at)
        elif isinstance(event, TransactionMark):
            tables = tuple((table.database, table.table, count) for table, count in event.table_counts)
            line = _Mark(event.is_begin, event.id, at, event.count, tables)
        elif isinstance(event, Heartbeat):
            line = _Heartbeat(at)
        else:
            losses.append(UNSUPPORTED_EVENT_LOSSES[type(event)])
            return None
        self._count_lost(source, losses, event.transaction if isinstance(event, RowChange) else None)
        return line

    def _id(self, schema: TableSchema) -> int:
        text = msgspec.json.encode(schema).decode()
        return self._answers.find(SchemaId(self._registry, str(schema.id), RegisteredSchema(text, "TOY")))


def _at(event: Event) -> _At:
    """The event's times. Raises NotRepresentable for those that no reader takes."""
    source, emitted_ms = event.source, event.emitted_at_ns // 1_000_000
    at = _At(source.event_time_ns // 1_000_000, emitted_ms, source.commit_ts, source.gtid)
    try:
        return msgspec.convert(msgspec.to_builtins(at), _At)
    except msgspec.ValidationError as error:
        raise NotRepresentable(
            NAME, "at", "a time or a commit ts outside the range of this protocol"
        ) from error


def _cells(schema: TableSchema, row: Row | None) -> dict[str, Any] | None:
    if row is None:
        return None
    cells = {
        column.name: cell for column, cell in zip(schema.columns, row, strict=True) if cell is not ABSENT
    }
    if any(isinstance(cell, float) and not math.isfinite(cell) for cell in cells.values()):
        raise NotRepresentable(NAME, "row", "not a finite number, which JSON cannot hold")
    try:
        _row(schema, msgspec.to_builtins(cells), "row")
    except Malformed as error:
        raise NotRepresentable(NAME, error.path, f"no reader takes it: {error.reason}") from error
    except (OverflowError, UnicodeError) as error:
        raise NotRepresentable(NAME, "row", "a number beyond 64 bits, or text that is not Unicode") from error
    return cells


CODEC: Final = Codec(
    name=NAME,
    title="Toy lines, a protocol of relay's own tests",
    options=ToyOptions,
    decodes=CARRIES,
    encodes=lambda _: CARRIES,
    decoder=Decoder,
    encoder=Encoder,
    detection_rule=detect,
)
