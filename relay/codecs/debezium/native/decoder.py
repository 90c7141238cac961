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
from relay.codecs.debezium.native.columns import DebeziumColumns
from relay.codecs.debezium.native.messages import (
    CONNECTORS,
    VARIABLE,
    NativeBody,
    NativeEnvelope,
    NativeOrigin,
    NativeRowBody,
    emitted_at_ns,
    facts_of,
    key_of,
    snapshot_of,
)
from relay.codecs.debezium.native.options import NAME, DebeziumOptions
from relay.codecs.debezium.native.table_changes import NATIVE
from relay.codecs.debezium.shared.decoder import DialectMessages, MessageDecoder
from relay.codecs.debezium.shared.definitions import change_type, declared_events, parse
from relay.codecs.debezium.shared.messages import Facts, image, position_of, unknown_in_columns
from relay.codecs.losses import Loss
from relay.codecs.shared.tables import NAMELESS
from relay.codecs.shared.unknown_members import Unknown, merged, with_unknown
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import (
    Bootstrap,
    Event,
    Heartbeat,
    SchemaChange,
    Source,
    TableId,
    TransactionMark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.types import quoted_table

_FOREIGN: Final = "neither mysql nor mariadb, so this is not a message of this protocol"
_TRUNCATE: Final = "t"
_MARKS: Final = {"BEGIN": True, "END": False}
_EXT_JSON: Final = (
    "the schema is in Apicurio's registry (ExtJsonConverter), and without it values cannot be read; use "
    "Kafka's JsonConverter, or Avro"
)


class DebeziumJsonDecoder(MessageDecoder):
    """Decodes JSON of Debezium's connectors for MySQL and MariaDB, 1.9 to 3.6, with schemas and without.

    `protocol`: the protocol's name in errors of values.
    """

    def __init__(self, options: DebeziumOptions, answers: LookupCache, protocol: str = NAME) -> None:
        messages = DialectMessages(
            NativeEnvelope, NativeRowBody, CONNECTORS, _FOREIGN, facts_of, VARIABLE, _ddl
        )
        super().__init__(protocol, messages, DebeziumColumns(options), answers.limits)

    def _event(
        self,
        message: Any,  # noqa: ANN401 - NativeEnvelope
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[list[Event], Catalog]:
        if message.schemaId is not UNSET:
            raise UnsupportedMessage(NAME, "schemaId", _EXT_JSON)
        return super()._event(message, record, catalog, losses)

    def _control(
        self,
        body: Any,  # noqa: ANN401 - NativeBody with a source
        facts: Facts,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[list[Event], Catalog]:
        if body.op == _TRUNCATE:
            return _truncation(body.source, facts, record, catalog, losses)
        raise UnsupportedMessage(NAME, "payload.op", "not one of c, u, d, r, t, and no DDL")

    def _event_of_no_connector(
        self, body: NativeBody, unknown: Unknown | None, record: ConsumerRecord, catalog: Catalog
    ) -> Event:
        """Return the event of a message without `source`: of a transaction, or a heartbeat."""
        origin, emitted_ns = body.source, emitted_at_ns(body, record)
        if origin is None and body.status in _MARKS and body.id is not None:
            beside = unknown_in_columns(key_of(record.key), {"id"})
            source = Source("mysql", emitted_ns, unknown_fields=merged(unknown, beside))
            counts = [
                (_table_named(each.data_collection, record, catalog), each.event_count)
                for each in body.data_collections or ()
            ]
            is_begin = _MARKS[body.status]
            return TransactionMark(is_begin, body.id, source, emitted_ns, body.event_count, tuple(counts))
        if origin is None and body.ts_ms is not None and body.op is None and body.ddl is UNSET:
            name = (key_of(record.key).payload or {}).get(_SERVER_NAME)
            if isinstance(name, str):
                source = Source("mysql", emitted_ns, name=name, unknown_fields=unknown)
                beside = unknown_in_columns(key_of(record.key), {_SERVER_NAME})
                return Heartbeat(with_unknown(source, beside), emitted_ns)
        return super()._event_of_no_connector(body, unknown, record, catalog)


# ---------------------------------------------------------------- DDL


def _ddl(
    body: NativeBody,
    origin: NativeOrigin,
    facts: Facts,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
) -> tuple[list[Event], Catalog]:
    source, time_ns, emitted_at_ns, _ = facts
    declared, unknown = parse(NAME, image(body.tableChanges), NATIVE)
    beside = unknown_in_columns(key_of(record.key), {"databaseName"})
    source = with_unknown(source, merged(unknown, beside))
    ddl = body.ddl or ""
    database = origin.db or body.databaseName or ""
    message = DdlMessage(
        ddl,
        TableId(database, "" if len(declared) != 1 else origin.table or ""),
        change_type(declared),
        source,
        position_of(source, time_ns, record),
        emitted_at_ns,
    )
    if snapshot_of(origin) is None:
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
    origin: NativeOrigin,
    facts: Facts,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
) -> tuple[list[Event], Catalog]:
    source, time_ns, emitted_at_ns, _ = facts
    if not origin.table:
        raise Malformed(NAME, "payload.source.table", NAMELESS)
    table = TableId(origin.db or "", origin.table)
    message = DdlMessage(
        f"TRUNCATE TABLE {quoted_table(table)}",
        table,
        _TRUNCATE,
        source,
        position_of(source, time_ns, record),
        emitted_at_ns,
    )
    return declared_events(message, (), catalog, losses, NATIVE)


# ---------------------------------------------------------------- transactions and heartbeats

#: The only member of a heartbeat's key: the connector's name.
_SERVER_NAME: Final = "serverName"


def _table_named(name: str, record: ConsumerRecord, catalog: Catalog) -> TableId:
    """Return the table of a name such as `db.table`. Names may contain dots; known tables come first."""
    parts = name.split(".")
    possible = [TableId(".".join(parts[:at]), ".".join(parts[at:])) for at in range(1, min(len(parts), 64))]
    at = Source("mysql", record.time_ms(0) * 1_000_000).at(record)
    found = next((table for table in possible if catalog.has(table, at)), None)
    return found or (possible[0] if possible else TableId("", name))
