"""Messages of the Debezium family: the members that both dialects have, and functions for parts of a message.

A dialect declares its own types of `source`, payload and envelope. The envelope is parsed; rows, schema and
table changes are still JSON. A payload without its wrapper is read too. `parse_again` parses an envelope that
the strict parser refuses, or raises Malformed.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.shared import lenient_json as _json
from relay.codecs.shared.ticdc import Milliseconds
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage, T, Unknown, below, unknown_in
from relay.model.events import Position, Source, Transaction
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.records import ConsumerRecord

#: The connector that TiCDC names.
TICDC: Final = "TiCDC"


class Origin(OpenMessage, gc=False):
    """`source`, in the order of all releases. Members that relay does not use have any type."""

    version: Any = None
    connector: str | None = None
    name: Any = None
    ts_ms: Milliseconds | None = None
    snapshot: Any = None
    db: str | None = None
    sequence: Any = None
    table: str | None = None
    server_id: Any = None
    gtid: Any = None
    file: Any = None
    pos: Any = None
    row: Any = None
    thread: Any = None
    query: Any = None


_NULL: Final = msgspec.Raw(b"null")


class RowBody(OpenMessage, gc=False):
    """`payload` of a row without its images, which `relay.codecs.debezium.shared.layouts.Shape` adds."""

    source: Origin | None = None
    ts_ms: Milliseconds | None = None
    transaction: Any = None
    op: str | None = None


class Body(RowBody, gc=False):
    """`payload`, of every kind of message."""

    before: msgspec.Raw = _NULL
    after: msgspec.Raw = _NULL
    databaseName: Any = None
    schemaName: Any = None
    ddl: str | UnsetType | None = UNSET
    tableChanges: msgspec.Raw = _NULL


def body_of(envelope: Any) -> Any:  # noqa: ANN401 - a dialect's envelope and payload
    """Return the payload of a message, which is the envelope itself without this wrapper; None if it is null,
    as in a tombstone.
    """
    payload = envelope.payload
    return envelope if payload is UNSET else payload


class Key(msgspec.Struct, gc=False):
    """A row's Kafka key; `payload` is None for a key of another protocol."""

    payload: dict[str, Any] | None
    schema: msgspec.Raw = _NULL


_parse_key = msgspec.json.Decoder(Key).decode


def unknown_in_columns(key: Key, known: AbstractSet[str]) -> Unknown | None:
    """Return the members of a key's payload that are none of these, for a message that is not a row."""
    return below("key.payload", unknown_in(key.payload or {}, known))


def parse_again(
    protocol: str, value: bytes, message: MessageParser[T], limits: Limits = DEFAULT_LIMITS
) -> tuple[T, bool]:
    """Parse an envelope leniently, of either dialect. Also return whether there were invalid UTF-8 bytes,
    which TiCDC passes unchanged and which become U+FFFD. Raises Malformed.
    """
    text = value.decode("utf-8", "replace").encode()
    return _json.parse_leniently(protocol, text, message.convert, _normalized, limits), text != value


def _normalized(document: dict[str, Any]) -> dict[str, Any]:
    """Convert the parts of a leniently read document back to JSON."""
    normalized = dict(document)
    for name in ("before", "after", "tableChanges", "schema"):
        if name in normalized:
            normalized[name] = msgspec.Raw(_json.json_text(normalized[name]).encode())
    if isinstance(normalized.get("payload"), dict):
        normalized["payload"] = _normalized(normalized["payload"])
    return normalized


def image(raw: msgspec.Raw) -> bytes | None:
    """Return a part of the message as JSON, None if it is null or missing."""
    text = bytes(raw)
    return None if text == b"null" else text


#: Facts of a message of any kind: source, event time by which it is ordered, time when the message was made
#: (both in nanoseconds), and transaction.
Facts = tuple[Source, int, int, Transaction | None]


def position_of(source: Source, time_ns: int, record: ConsumerRecord, *, is_read: bool = False) -> Position:
    """Return the position of an event with this event time. `is_read`: it is a row of a snapshot."""
    file, pos = source.binlog_file, source.binlog_position
    log = None if file is None or pos is None else (len(file), file, pos, is_read)
    return Position(source.commit_ts, time_ns, record.topic, record.partition, record.offset, log)


def key_of(key: bytes | None) -> Key:
    """Parse a row's Kafka key."""
    try:
        return _parse_key(key or b"")
    except _json.REFUSED:
        return _NO_KEY


_NO_KEY: Final = Key(None)
