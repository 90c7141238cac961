"""Messages of Debezium's MySQL and MariaDB connectors as they travel, with single facts taken out of them.

Contract: `parse` is strict and raises what msgspec raises (`relay.codecs.debezium.envelope.parse_again` reads
what that refuses). Images, schema and table changes are still JSON. A payload without its wrapper is read
too. Source: Debezium "MySQL connector", 1.9 to 3.6; records of 1.9.7, 2.4.2, 2.6.2, 2.7.4, 3.0.8, 3.2.0 and
3.6.1.
"""

from __future__ import annotations

from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.debezium.envelope import Key
from relay.codecs.wire.lenient_json import REFUSED
from relay.codecs.wire.ticdc import Milliseconds
from relay.errors import DecodeError, UnsupportedMessage
from relay.model import Position, Snapshot, Source, Transaction
from relay.records import TIME_END_MS, ConsumerRecord

CONNECTORS: Final = frozenset({"mysql", "mariadb"})
_TICDC: Final = "TiCDC"
_NULL: Final = msgspec.Raw(b"null")


class Origin(msgspec.Struct, gc=False):
    """`source`."""

    connector: str | None = None
    name: str | None = None
    ts_ms: Milliseconds | None = None
    snapshot: str | bool | None = None
    db: str | None = None
    ts_us: int | None = None
    ts_ns: int | None = None
    table: str | None = None
    server_id: int | None = None
    gtid: str | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None
    thread: int | None = None
    query: str | None = None


class TransactionBlock(msgspec.Struct, gc=False):
    """`transaction`, of a row."""

    id: str
    total_order: int | None = None
    data_collection_order: int | None = None


class Count(msgspec.Struct, gc=False):
    """How many events a table has in a transaction, of a message of its END."""

    data_collection: str
    event_count: int


class Body(msgspec.Struct, gc=False):
    """`payload`, of every kind of message."""

    source: Origin | None = None
    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    transaction: TransactionBlock | None = None
    op: str | None = None
    ts_ms: Milliseconds | None = None
    ts_us: int | None = None
    ts_ns: int | None = None
    databaseName: str | None = None
    ddl: str | UnsetType | None = UNSET
    tableChanges: msgspec.Raw = _NULL
    status: str | None = None
    id: str | None = None
    event_count: int | None = None
    data_collections: list[Count] | None = None


class Envelope(Body, gc=False):
    """A whole message, with `payload` and `schema`, or without this wrapper (then `payload` is unset)."""

    payload: Body | UnsetType | None = UNSET
    schema: msgspec.Raw = _NULL

    def body(self) -> Body | None:
        """Return the payload; None if it is null, as in a tombstone."""
        return self if self.payload is UNSET else self.payload


parse = msgspec.json.Decoder(Envelope).decode


def foreign(protocol: str, origin: Origin | None) -> DecodeError:
    """Return the error for a message that neither of the two connectors has written."""
    connector = None if origin is None else origin.connector
    reason = "neither mysql nor mariadb, so this is no message of this protocol"
    if connector == _TICDC:
        reason = "this looks like TiCDC Debezium: is the source protocol ticdc-debezium?"
    return UnsupportedMessage(protocol, "payload.source.connector", reason)


# ---------------------------------------------------------------- facts


#: No position in a log is so high.
_END: Final = 1 << 63
_SNAPSHOTS: Final = {word.value: word for word in Snapshot}


def snapshot_of(origin: Origin) -> Snapshot | None:
    """Return how a row stands in its snapshot, None if it is of the log. Words that are not known count as
    `true`; old releases have a boolean.
    """
    word = origin.snapshot
    if not word or word == "false":
        return None
    return _SNAPSHOTS.get(word, Snapshot.TRUE) if isinstance(word, str) else Snapshot.TRUE


def source_of(body: Body, origin: Origin, record: ConsumerRecord) -> Source:
    """Return the canonical source, timed by `source`, else the message, else the record."""
    event_time_ns = _time_ns(origin)
    snapshot = origin.snapshot
    position = origin.pos if origin.file and 0 <= (origin.pos or 0) < _END else None
    return Source(
        origin.connector or "",
        emitted_at_ns(body, record) if event_time_ns is None else event_time_ns,
        None,
        None,
        origin.name,
        origin.gtid,
        origin.file or None,
        position,
        # A snapshot has none, and 0 stands for it.
        origin.server_id or None,
        origin.thread,
        None if snapshot is None or snapshot == "false" else snapshot_of(origin),
        origin.query,
        binlog_row=None if position is None else origin.row,
    )


def position_of(source: Source, origin: Origin, record: ConsumerRecord, *, is_read: bool) -> Position:
    """Return where an event stands, by its time in milliseconds: of DDL nothing finer is known, and the log
    tells the rest. `is_read`: it is a row that a snapshot has read.
    """
    ms = source.event_time_ns // 1_000_000 if origin.ts_ms is None else origin.ts_ms
    file, pos = source.binlog_file, source.binlog_position
    log = None if file is None or pos is None else (len(file), file, pos, is_read)
    return Position(None, ms * 1_000_000, record.topic, record.partition, record.offset, log)


def emitted_at_ns(body: Body, record: ConsumerRecord) -> int:
    """Return when the connector made the message; else when the row changed, else the record's timestamp."""
    found = _time_ns(body)
    if found is None and body.source is not None:
        found = _time_ns(body.source)
    return record.time_ms(0) * 1_000_000 if found is None else found


_END_NS: Final = TIME_END_MS * 1_000_000


def _time_ns(part: Origin | Body) -> int | None:
    """The time with the finest unit that the message has."""
    ns = part.ts_ns
    if ns is None:
        us, ms = part.ts_us, part.ts_ms
        ns = us * 1_000 if us is not None else None if ms is None else ms * 1_000_000
    if ns is not None and not -_END_NS <= ns < _END_NS:
        return None if part.ts_ms is None else part.ts_ms * 1_000_000
    return ns


def transaction_of(body: Body) -> Transaction | None:
    """Return a row's place in its transaction, None if the message has none."""
    place = body.transaction
    if place is None:
        return None
    return Transaction(place.id, place.total_order, place.data_collection_order)


# ---------------------------------------------------------------- keys


_parse_wrapped = msgspec.json.Decoder(Key).decode
_parse_columns = msgspec.json.Decoder(dict[str, Any]).decode
_NO_KEY: Final = Key(None)
_WRAPPER: Final = frozenset({"schema", "payload"})


def key_of(key: bytes | None) -> Key:
    """Parse a row's Kafka key, with its wrapper or without. A table without a key has none."""
    if not key:
        return _NO_KEY
    try:
        members = _parse_columns(key)
        if members.keys() <= _WRAPPER and isinstance(members.get("payload"), dict | None):
            return _parse_wrapped(key)
        return Key(members)
    except REFUSED:
        return _NO_KEY
