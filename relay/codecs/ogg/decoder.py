"""Decoder of GoldenGate's messages: one row, or the truncation of a table."""

from __future__ import annotations

from collections.abc import Callable

from relay.catalog import Catalog, DdlMessage, apply_ddl
from relay.codecs.codec import TracedMessage, ValueDecoder
from relay.codecs.losses import Loss
from relay.codecs.ogg.messages import OPS, TRUNCATE, OggMessage, check, parse
from relay.codecs.ogg.options import OggOptions
from relay.codecs.ogg.rows import OggRowDecoder
from relay.codecs.ogg.traced import traced_row
from relay.codecs.shared.local_times import LocalTimes, event_time_ns
from relay.model.events import Event, Images, Op, Position, RowChange, Source, TableSchema
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.types import quoted_table
from relay.templates.tracing import Trace

#: Reads a row's definition and images, like `OggRowDecoder.read`.
ReadImages = Callable[[Op, OggMessage, Position, Catalog, list[Loss]], tuple[TableSchema, Images]]


class OggDecoder(ValueDecoder):
    """Decodes operation-modeled messages."""

    def __init__(self, options: OggOptions, answers: LookupCache) -> None:
        self._limits, self._times = answers.limits, LocalTimes(options.zone())
        self._rows = OggRowDecoder(answers.limits, options.zone())

    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        message = parse(value, self._times, losses)
        check(message)
        if message.op_type == TRUNCATE:
            return self._truncate(message, record, catalog, losses)
        return [interpret(message, record, catalog, losses, self._rows.read)], catalog

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        row, message = traced_row(record, change, trace, self._times, self._limits)

        def read(_op: Op, _message: object, at: Position, *_: object) -> tuple[TableSchema, Images]:
            return row.read(at, catalog)

        check(message)
        return row.message([interpret(message, row.record, catalog, [], read)])

    def _truncate(
        self, message: OggMessage, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the statement that truncates a table, and the catalog after it."""
        source, emitted_at_ns = _origin(message, record, losses)
        table = message.table_id()
        statement = f"TRUNCATE TABLE {quoted_table(table)}"
        ddl = DdlMessage(statement, table, TRUNCATE, source, source.at(record), emitted_at_ns)
        catalog, change = apply_ddl(catalog, ddl)
        self._rows.forget(change)
        return [change], catalog


def interpret(
    message: OggMessage, record: ConsumerRecord, catalog: Catalog, losses: list[Loss], read: ReadImages
) -> RowChange:
    """Return the change of a row. `read`: reads its images. Raises DecodeError."""
    op = OPS[message.op_type]
    source, emitted_at_ns = _origin(message, record, losses)
    schema, images = read(op, message, source.at(record), catalog, losses)
    return RowChange(op, schema, images, source, emitted_at_ns)


def _origin(message: OggMessage, record: ConsumerRecord, losses: list[Loss]) -> tuple[Source, int]:
    """Return the source of an event, and the time when GoldenGate made its message."""
    time_ns = event_time_ns(message.op_ts, message.current_ts, record, losses)
    unknown = message.without_counterpart()
    source = Source("goldengate", time_ns, unknown_fields=unknown, trail_position=message.pos)
    if message.current_ts is not None:
        return source, message.current_ts
    return source, record.time_ms(time_ns // 1_000_000) * 1_000_000
