"""Decoder of messages from Debezium's own connectors for MySQL and MariaDB.

    key             {key columns}, or {schema, payload}; none for a table without a key
    row             {before after source transaction op ts_ms …}; op is c, u, d or r (read by a snapshot)
    tombstone       no value, after each DELETE
    TRUNCATE        as a row, op is t, without images and key
    DDL             {source ts_ms databaseName schemaName ddl tableChanges}, in a separate topic
    transaction     {status id event_count data_collections ts_ms}, in a separate topic
    heartbeat       {ts_ms}, in a separate topic; the key is {serverName}

Each value is plain or {schema, payload}. Not expressible: dates that are not in the calendar, years below
100, NULL where a column has a default (unless `replace.null.with.default=false`), commit timestamps.
"""

from __future__ import annotations

from typing import Any, Final

from msgspec import UNSET

from relay.catalog import Catalog, DdlMessage
from relay.codecs.codec import TracedMessage
from relay.codecs.debezium.native import messages as _wire
from relay.codecs.debezium.native.columns import DebeziumColumns
from relay.codecs.debezium.native.messages import NativeBody, NativeEnvelope, NativeOrigin, NativeRowBody
from relay.codecs.debezium.native.options import NAME, DebeziumOptions
from relay.codecs.debezium.native.table_changes import NATIVE
from relay.codecs.debezium.native.traced import traced_row
from relay.codecs.debezium.shared.decoder import MessageDecoder
from relay.codecs.debezium.shared.definitions import change_type, declared_events, parse
from relay.codecs.debezium.shared.layouts import Shape
from relay.codecs.debezium.shared.messages import image, unknown_in_columns
from relay.codecs.debezium.shared.rows import DebeziumRowDecoder, RowParts
from relay.codecs.losses import Loss
from relay.codecs.shared.tables import NAMELESS
from relay.codecs.shared.unknown_members import Unknown, merged, with_unknown
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import (
    Bootstrap,
    Event,
    Heartbeat,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TransactionMark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.types import quoted_table
from relay.templates.tracing import Trace

_OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "r": Op.READ}
_TRUNCATE: Final = "t"
_LOGICAL: Final = "m"
_MARKS: Final = {"BEGIN": True, "END": False}
_EXT_JSON: Final = (
    "the schema is in Apicurio's registry (ExtJsonConverter), and without it values cannot be read; use "
    "Kafka's JsonConverter, or Avro"
)

# Python 3.11 resolves enum members through a descriptor, which costs a function call; these are used for
# every row.
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE
_READ: Final = Op.READ


class DebeziumJsonDecoder(MessageDecoder[NativeEnvelope]):
    """Decodes JSON of Debezium's connectors for MySQL and MariaDB, 1.9 to 3.6, with schemas and without.

    `protocol`: the protocol's name in errors of values.
    """

    def __init__(self, options: DebeziumOptions, answers: LookupCache, protocol: str = NAME) -> None:
        rows = DebeziumRowDecoder(protocol, DebeziumColumns(options), NativeRowBody, answers.limits)
        super().__init__(protocol, NativeEnvelope, rows, answers.limits)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
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
        origin: NativeOrigin | None = payload.source
        op = _OPS.get(payload.op)
        if op is None or origin is None or origin.connector not in _wire.CONNECTORS:
            return None
        if origin.ts_ms is None or origin.ts_ms <= 0:
            return None
        source = _wire.source_of(payload, origin, record, losses)
        emitted_at_ns = _wire.emitted_at_ns(payload, record)
        table = shape.table
        if origin.table != table.id.table or origin.db != table.id.database:
            return None
        time_ns = _wire.position_time_ns(source, origin)
        if not table.is_newest(catalog, None, time_ns, record):
            return None
        images = shape.images(op, payload, table.newest, record.value or b"", losses)
        if images is None:
            return None
        transaction = None if payload.transaction is None else _wire.transaction_of(payload)
        return RowChange(op, images.reader.schema, images, source, emitted_at_ns, transaction)

    def _event(
        self, message: NativeEnvelope, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        if message.schemaId is not UNSET:
            raise UnsupportedMessage(NAME, "schemaId", _EXT_JSON)
        body = message.body()
        if body is None:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        origin = body.source
        if origin is None or origin.connector not in _wire.CONNECTORS:
            return _control(body, message.unknown, record, catalog), catalog
        op = _OPS.get(body.op or "")
        source = _wire.source_of(body, origin, record, losses)
        if message.unknown is not None:
            source = with_unknown(source, message.unknown)
        if op is not None:
            parts = _row_parts(op, body, origin, bytes(message.schema), record)
            if op is _UPDATE and parts.before is None:
                losses.append(Loss.BEFORE_MISSING)
            at = _wire.position_of(source, origin, record, is_read=op is _READ)
            schema, images = self._rows.read(parts, at, catalog, losses)
            emitted_at_ns, transaction = _wire.emitted_at_ns(body, record), _wire.transaction_of(body)
            return [RowChange(op, schema, images, source, emitted_at_ns, transaction)], catalog
        if body.op == _TRUNCATE:
            return _truncation(body, origin, source, record, catalog, losses)
        if body.op is None and (body.ddl is not UNSET or image(body.tableChanges)):
            return _ddl(body, origin, source, record, catalog, losses)
        raise UnsupportedMessage(NAME, "payload.op", "not one of c, u, d, r, t, and no DDL")


def _row_parts(
    op: Op, body: NativeBody, origin: NativeOrigin, schema: bytes, record: ConsumerRecord
) -> RowParts:
    """Return the parts of a row's message. Raises Malformed if its image or table is missing."""
    before = image(body.before) if op is _DELETE or op is _UPDATE else None
    after = None if op is _DELETE else image(body.after)
    if op is not _DELETE and after is None:
        raise Malformed(NAME, "payload.after", "a row message without a row")
    if not origin.table:
        raise Malformed(NAME, "payload.source.table", NAMELESS)
    return RowParts((origin.db or "", origin.table), before, after, schema, record.key, record.value or b"")


# ---------------------------------------------------------------- DDL


def _ddl(
    body: NativeBody,
    origin: NativeOrigin,
    source: Source,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
) -> tuple[list[Event], Catalog]:
    declared, unknown = parse(NAME, image(body.tableChanges), NATIVE)
    beside = unknown_in_columns(_wire.key_of(record.key), {"databaseName"})
    source = with_unknown(source, merged(unknown, beside))
    ddl = body.ddl or ""
    database = origin.db or body.databaseName or ""
    message = DdlMessage(
        ddl,
        TableId(database, "" if len(declared) != 1 else origin.table or ""),
        change_type(declared),
        source,
        _wire.position_of(source, origin, record, is_read=False),
        _wire.emitted_at_ns(body, record),
    )
    if _wire.snapshot_of(origin) is None:
        return declared_events(message, declared, catalog, losses, NATIVE)
    if not any(each.change.table for each in declared):
        # The initial DROP … IF EXISTS of a snapshot is no statement of the source.
        losses.append(Loss.STATEMENT)
        return [], catalog
    counted: list[Loss] = []
    events, learned = declared_events(message, declared, catalog, counted, NATIVE)
    # A text that defines no table loses nothing.
    if any(isinstance(event, SchemaChange) and event.kinds for event in events):
        losses += counted
    return [defined for event in events for defined in _definitions(event)], learned


def _definitions(event: Event) -> list[Event]:
    """Return the definitions in a snapshot's schema change."""
    if not isinstance(event, SchemaChange):
        return [event]
    return [
        Bootstrap(change.definition, event.source, event.emitted_at_ns, event.ddl or None, change)
        for change in event.table_changes
        if change.definition is not None
    ]


def _truncation(
    body: NativeBody,
    origin: NativeOrigin,
    source: Source,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
) -> tuple[list[Event], Catalog]:
    if not origin.table:
        raise Malformed(NAME, "payload.source.table", NAMELESS)
    table = TableId(origin.db or "", origin.table)
    message = DdlMessage(
        f"TRUNCATE TABLE {quoted_table(table)}",
        table,
        _TRUNCATE,
        source,
        _wire.position_of(source, origin, record, is_read=False),
        _wire.emitted_at_ns(body, record),
    )
    return declared_events(message, (), catalog, losses, NATIVE)


# ---------------------------------------------------------------- messages without a table


def _control(
    body: NativeBody, unknown: Unknown | None, record: ConsumerRecord, catalog: Catalog
) -> list[Event]:
    """Return the event of a message without `source`: of a transaction, or a heartbeat. Raises
    UnsupportedMessage for all others.
    """
    origin, emitted_at_ns = body.source, _wire.emitted_at_ns(body, record)
    if origin is None and body.status in _MARKS and body.id is not None:
        beside = unknown_in_columns(_wire.key_of(record.key), {"id"})
        return [
            TransactionMark(
                _MARKS[body.status],
                body.id,
                Source("mysql", emitted_at_ns, unknown_fields=merged(unknown, beside)),
                emitted_at_ns,
                body.event_count,
                tuple(
                    [
                        (_table_named(each.data_collection, record, catalog), each.event_count)
                        for each in body.data_collections or ()
                    ]
                ),
            )
        ]
    if origin is None and body.ts_ms is not None and body.op is None and body.ddl is UNSET:
        name = (_wire.key_of(record.key).payload or {}).get(_SERVER_NAME)
        if isinstance(name, str):
            source = Source("mysql", emitted_at_ns, name=name, unknown_fields=unknown)
            beside = unknown_in_columns(_wire.key_of(record.key), {_SERVER_NAME})
            return [Heartbeat(with_unknown(source, beside), emitted_at_ns)]
    raise _wire.foreign(NAME)


#: The only member of a heartbeat's key: the connector's name.
_SERVER_NAME: Final = "serverName"


def _table_named(name: str, record: ConsumerRecord, catalog: Catalog) -> TableId:
    """Return the table of a name such as `db.table`. Names may contain dots; known tables come first."""
    parts = name.split(".")
    possible = [TableId(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, min(len(parts), 64))]
    at = Source("mysql", record.time_ms(0) * 1_000_000).at(record)
    found = next((table for table in possible if catalog.has(table, at)), None)
    return found or (possible[0] if possible else TableId("", name))
