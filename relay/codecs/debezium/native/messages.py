"""Messages of Debezium's MySQL and MariaDB connectors, and functions that extract single facts from them.

Images, schema and table changes are still JSON in an `NativeEnvelope`. A payload without its wrapper is read
too.
Source: Debezium "MySQL connector", 1.9 to 3.6; records of 1.9.7, 2.4.2, 2.6.2, 2.7.4, 3.0.8, 3.2.0 and 3.6.1.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.debezium.shared.messages import Body, Facts, Key, Origin, RowBody
from relay.codecs.debezium.shared.traced import TIME, VariableMembers
from relay.codecs.losses import Loss
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.traced_messages import NUMBER, TEXT
from relay.model.events import Snapshot, Source, Transaction
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.ops import Marker

#: The members by which templates of rows are found.
MARKER: Final = Marker("value", b'"table":', b',"server_id":')
CONNECTORS: Final = frozenset({"mysql", "mariadb"})
#: The members of a row's message that differ between messages of a shape, for templates.
VARIABLE: Final = VariableMembers(
    body={"ts_ms": TIME, "ts_us": NUMBER, "ts_ns": NUMBER},
    source={
        "ts_ms": TIME,
        "ts_us": NUMBER,
        "ts_ns": NUMBER,
        "pos": NUMBER,
        "row": NUMBER,
        "thread": NUMBER,
        "gtid": TEXT,
        "file": TEXT,
        "query": TEXT,
    },
    transaction={"id": TEXT, "total_order": NUMBER, "data_collection_order": NUMBER},
)


class NativeOrigin(Origin, gc=False):
    """`source`. Members that relay does not use have any type."""

    name: str | None = None
    snapshot: str | bool | None = None
    server_id: int | None = None
    gtid: str | None = None
    file: str | None = None
    pos: int | None = None
    row: int | None = None
    thread: int | None = None
    query: str | None = None
    ts_us: int | None = None
    ts_ns: int | None = None


class TransactionBlock(msgspec.Struct, gc=False):
    """`transaction`, of a row."""

    id: str
    total_order: int | None = None
    data_collection_order: int | None = None


class Count(msgspec.Struct, gc=False):
    """Number of a table's events in a transaction, from the message of its END."""

    data_collection: str
    event_count: int


class NativeRowBody(RowBody, gc=False):
    """`payload` of a row without its images."""

    source: NativeOrigin | None = None
    transaction: TransactionBlock | None = None
    ts_us: int | None = None
    ts_ns: int | None = None


class NativeBody(Body, gc=False):
    """`payload`, of every kind of message."""

    source: NativeOrigin | None = None
    transaction: TransactionBlock | None = None
    ts_us: int | None = None
    ts_ns: int | None = None
    databaseName: str | None = None
    status: str | None = None
    id: str | None = None
    event_count: int | None = None
    data_collections: list[Count] | None = None


class NativeEnvelope(NativeBody, gc=False):
    """A whole message, with `payload` and `schema`, or without this wrapper (then `payload` is unset)."""

    payload: NativeBody | UnsetType | None = UNSET
    schema: msgspec.Raw = msgspec.Raw(b"null")
    schemaId: msgspec.Raw | UnsetType = UNSET


#: A row's payload, with its images or without.
AnyBody = NativeRowBody | NativeBody


# ---------------------------------------------------------------- facts


#: Above any log position.
_END: Final = 1 << 63
_SNAPSHOTS: Final[Mapping[str | bool, Snapshot]] = {word.value: word for word in Snapshot}


def snapshot_of(origin: NativeOrigin) -> Snapshot | None:
    """Return the snapshot state of a row, None if it is from the log. Unknown values count as `true`; old
    releases have a boolean.
    """
    word = origin.snapshot
    if not word or word == "false":
        return None
    return _SNAPSHOTS.get(word, Snapshot.TRUE)


def source_of(body: AnyBody, origin: NativeOrigin, record: ConsumerRecord, losses: list[Loss]) -> Source:
    """Return the canonical source, with the time of `source`, or else (counted) the next best time."""
    time_ns = origin.ts_ns
    if time_ns is None or not 0 < time_ns < _END_NS:
        time_ns = event_time_ns(_time_ns(origin), _time_ns(body), record, losses)
    position, row = origin.pos, None
    if origin.file and position is not None and 0 <= position < _END:
        row = origin.row
    else:
        position = None
    snapshot = None
    if origin.snapshot is not None and origin.snapshot != "false":
        snapshot = snapshot_of(origin)
    return Source(
        origin.connector or "",
        time_ns,
        None,
        None,
        origin.name,
        origin.gtid,
        origin.file or None,
        position,
        # A snapshot has none and writes 0.
        origin.server_id or None,
        origin.thread,
        snapshot,
        origin.query,
        None,
        None,
        None,
        row,
    )


def emitted_at_ns(body: AnyBody, record: ConsumerRecord) -> int:
    """Return the connector's time of the message; else the row's change time, else the record's timestamp."""
    found = body.ts_ns
    if found is not None and 0 < found < _END_NS:
        return found
    found = _time_ns(body)
    if (found is None or found <= 0) and body.source is not None:
        found = _time_ns(body.source)
    return found if found is not None and found > 0 else record.time_ms(0) * 1_000_000


_END_NS: Final = TIME_END_MS * 1_000_000


def _time_ns(part: NativeOrigin | AnyBody) -> int | None:
    """Return the time with the finest unit in the message; None if it is no time."""
    ns, us, ms = part.ts_ns, part.ts_us, part.ts_ms
    if not ns and us:
        ns = us * 1_000
    if ns is not None and 0 < ns < _END_NS:
        return ns
    return None if ms is None else ms * 1_000_000


def transaction_of(body: AnyBody) -> Transaction | None:
    """Return a row's transaction and its order there, None if the message has none."""
    transaction = body.transaction
    if transaction is None:
        return None
    return Transaction(transaction.id, transaction.total_order, transaction.data_collection_order)


def facts_of(body: AnyBody, origin: NativeOrigin, record: ConsumerRecord, losses: list[Loss]) -> Facts:
    """Return the facts of a message. Events are ordered by their time to the millisecond: DDL has nothing
    finer, and the log position orders the rest.
    """
    source, ms = source_of(body, origin, record, losses), origin.ts_ms
    time_ms = ms if ms is not None and ms > 0 else source.event_time_ns // 1_000_000
    return source, time_ms * 1_000_000, emitted_at_ns(body, record), transaction_of(body)


# ---------------------------------------------------------------- keys


class _Wrapped(Key, forbid_unknown_fields=True, gc=False):
    """A key with its wrapper and nothing else."""


_parse_wrapped = msgspec.json.Decoder(Key).decode
_parse_usual = msgspec.json.Decoder(_Wrapped).decode
#: Start of a key with a wrapper as JsonConverter prints it: such keys are parsed in one step.
_USUAL: Final = b'{"schema":'
_parse_columns = msgspec.json.Decoder(dict[str, Any]).decode
_NO_KEY: Final = Key(None)
_WRAPPER: Final = frozenset({"schema", "payload"})


def key_of(key: bytes | None) -> Key:
    """Parse a row's Kafka key, with its wrapper or without. A table without a key has none."""
    if not key:
        return _NO_KEY
    if key.startswith(_USUAL):
        try:
            return _parse_usual(key)
        except REFUSED:
            pass
    try:
        members = _parse_columns(key)
        payload, is_marked = members.get("payload"), isinstance(members.get("schema"), dict)
        if (is_marked and isinstance(payload, dict)) or (
            members.keys() <= _WRAPPER and isinstance(payload, dict | None)
        ):
            return _parse_wrapped(key)
        return Key(members)
    except REFUSED:
        return _NO_KEY
