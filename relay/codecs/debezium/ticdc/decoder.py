"""Decoder of TiCDC Debezium JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET

from relay.catalog import Catalog, DdlMessage
from relay.codecs.codec import TracedMessage
from relay.codecs.debezium.shared import messages as _wire
from relay.codecs.debezium.shared.decoder import MessageDecoder
from relay.codecs.debezium.shared.definitions import DeclaredTable, change_type, declared_events, renamed_pair
from relay.codecs.debezium.shared.definitions import parse as parse_changes
from relay.codecs.debezium.shared.layouts import Shape
from relay.codecs.debezium.shared.messages import Body, Envelope, Origin, RowBody
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder, RowParts
from relay.codecs.debezium.ticdc.columns import TicdcColumns
from relay.codecs.debezium.ticdc.options import NAME, TicdcDebeziumOptions
from relay.codecs.debezium.ticdc.traced import traced_row
from relay.codecs.losses import Loss
from relay.codecs.shared.large_messages import (
    Decompression,
    LargeMessageCompression,
    decompressed,
)
from relay.codecs.shared.tables import NAMELESS
from relay.codecs.shared.ticdc import is_restored
from relay.codecs.shared.unknown_members import merged, with_unknown
from relay.model.errors import (
    DdlNotUnderstood,
    LimitExceeded,
    Malformed,
    UnsupportedMessage,
)
from relay.model.events import Event, Op, RowChange, Source, TableId, Watermark
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.ddl import read_ddl
from relay.mysql.ddl.drops import rename_keywords
from relay.mysql.ddl.statements import RenameTables
from relay.mysql.types import quoted_table
from relay.templates.tracing import NotTemplatable, Trace

_OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}

_WATERMARK: Final = "m"

_BRACE: Final = ord("{")

# Python 3.11 resolves enum members through a descriptor, which costs a function call; these are used for
# every row.
UPDATE: Final = Op.UPDATE

_DELETE: Final = Op.DELETE


class TicdcDebeziumDecoder(MessageDecoder[Envelope]):
    """Decodes TiCDC Debezium JSON of all releases, with and without schema, extension and compression."""

    def __init__(self, options: TicdcDebeziumOptions, answers: LookupCache, name: str = NAME) -> None:
        rows = DebeziumRowDecoder(name, TicdcColumns(), RowBody, answers.limits)
        super().__init__(name, Envelope, rows, answers.limits)
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {LargeMessageCompression.LZ4, LargeMessageCompression.SNAPPY}

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        value = record.value
        if value and (self._is_packed or value[0] != _BRACE):
            record = self._unpacked(record, value)
        return super().decode(record, catalog, losses)

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
            raise NotTemplatable
        self._parser.parse(record.value or b"")
        return traced_row(self._rows, record, change, catalog, trace)

    def _row(
        self,
        shape: Shape,
        payload: Any,  # noqa: ANN401 - a class made at run time, of RowBody
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
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
        source = _wire.source_of(NAME, payload, origin, record, losses)
        if not table.is_newest(catalog, source.commit_ts, source.event_time_ns, record):
            return None
        images = shape.images(op, payload, table.newest, record.value or b"", losses)
        if images is None:
            return None
        return RowChange(op, images.reader.schema, images, source, _wire.emitted_at_ns(payload, record))

    def _event(
        self, message: Envelope, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        body = message.body()
        if body is None:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        origin = body.source
        if origin is None or origin.connector != _wire.CONNECTOR:
            raise _wire.foreign(NAME)
        source = _wire.source_of(NAME, body, origin, record, losses)
        if message.unknown is not None:
            source = with_unknown(source, message.unknown)
        op = _OPS.get(body.op or "")
        if op is not None:
            parts = _row_parts(op, body, origin, bytes(message.schema), record)
            if op is UPDATE and parts.before is None:
                losses.append(Loss.BEFORE_MISSING)
            schema, images = self._rows.read(parts, source.at(record), catalog, losses)
            return [RowChange(op, schema, images, source, _wire.emitted_at_ns(body, record))], catalog
        if body.op == _WATERMARK:
            if origin.commit_ts is None:
                raise Malformed(NAME, "payload.source.commit_ts", "missing from a watermark")
            # For a row, 0 means none; a watermark at 0 precedes everything.
            source = msgspec.structs.replace(source, commit_ts=origin.commit_ts)
            source = with_unknown(source, _wire.unknown_in_columns(_wire.key_of(record.key), set()))
            return [Watermark(source, _wire.emitted_at_ns(body, record))], catalog
        if body.op is None and (body.ddl is not UNSET or _wire.image(body.tableChanges)):
            return _ddl(body, origin, source, record, catalog, losses)
        raise UnsupportedMessage(NAME, "payload.op", "not one of c, u, d, m, and no DDL")


def _row_parts(op: Op, body: Body, origin: Origin, schema: bytes, record: ConsumerRecord) -> RowParts:
    """Return the parts of a row's message. Raises Malformed if its image or table is missing."""
    before = _wire.image(body.before) if op is _DELETE or op is UPDATE else None
    after = None if op is _DELETE else _wire.image(body.after)
    if op is _DELETE and before is None:
        raise Malformed(NAME, "payload.before", "a row message without a row")
    if op is not _DELETE and after is None:
        raise Malformed(NAME, "payload.after", "a row message without a row")
    if not origin.table:
        raise Malformed(NAME, "payload.source.table", NAMELESS)
    return RowParts((origin.db or "", origin.table), before, after, schema, record.key, record.value or b"")


def _ddl(
    body: Body, origin: Origin, source: Source, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
) -> tuple[list[Event], Catalog]:
    declared, unknown = parse_changes(NAME, _wire.image(body.tableChanges))
    beside = _wire.unknown_in_columns(_wire.key_of(record.key), {"databaseName"})
    source = with_unknown(source, merged(unknown, beside))
    ddl = _own_statement(body.ddl or "", declared)
    message = DdlMessage(
        ddl,
        TableId(origin.db or "", origin.table or ""),
        change_type(declared),
        source,
        source.at(record),
        _wire.emitted_at_ns(body, record),
        is_restored(ddl),
    )
    return declared_events(message, declared, catalog, losses)


def _own_statement(ddl: str, declared: Sequence[DeclaredTable]) -> str:
    """Return the message's part of a rename of several tables, in TiCDC's spelling; every other statement
    unchanged.

    TiCDC sends one message a table. If each has the whole text, `id` identifies the pair.
    """
    pair = renamed_pair(declared) if len(declared) == 1 and "," in ddl and _renames_several(ddl) else None
    if pair is None:
        return ddl
    return f"{rename_keywords(ddl)} {quoted_table(pair[0])} TO {quoted_table(pair[1])}"


def _renames_several(ddl: str) -> bool:
    """Return whether a text is one statement that renames several tables. A comma may be part of a name."""
    if not _RENAME(ddl):
        return False
    try:
        (statement,) = read_ddl(ddl, most_statements=1).statements
    except (DdlNotUnderstood, LimitExceeded):
        return False
    return isinstance(statement, RenameTables) and len(statement.pairs) > 1


_RENAME: Final = re.compile(r"\s*RENAME\s+TABLE\s", re.IGNORECASE).match
