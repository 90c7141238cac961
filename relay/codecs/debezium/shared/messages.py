"""Messages of TiCDC Debezium JSON: the envelope is parsed; rows, schema and table changes are still JSON.

`parse_again` parses an envelope that the strict parser refuses, or raises Malformed. The other functions
extract single facts from a parsed message. A payload without its wrapper is read too.
"""

from __future__ import annotations

from collections.abc import Set as AbstractSet
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.losses import Loss
from relay.codecs.shared import lenient_json as _json
from relay.codecs.shared import ticdc as _ticdc
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.ticdc import Milliseconds
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage, T, Unknown, below, unknown_in
from relay.model.errors import DecodeError, Malformed, UnsupportedMessage
from relay.model.events import TSO_LOGICAL_BITS, Source
from relay.model.limits import DEFAULT_LIMITS, Limits
from relay.model.records import ConsumerRecord

CONNECTOR: Final = "TiCDC"


class Origin(OpenMessage, gc=False):
    """`source`, in TiCDC's order. Members that relay does not use have any type."""

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
    commit_ts: int | None = None
    start_ts: int | None = None
    cluster_id: str | None = None


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


class Envelope(Body, gc=False):
    """A whole message, with `payload` and `schema`, or without this wrapper (then `payload` is unset)."""

    payload: Body | UnsetType | None = UNSET
    schema: msgspec.Raw = _NULL

    def body(self) -> Body | None:
        """Return the payload; None if it is null, as in a tombstone."""
        return self if self.payload is UNSET else self.payload


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


def foreign(protocol: str) -> DecodeError:
    """Return the error for a message that TiCDC has not written."""
    return UnsupportedMessage(
        protocol, "payload.source.connector", "not TiCDC, so this is not a message of this protocol"
    )


def image(raw: msgspec.Raw) -> bytes | None:
    """Return a part of the message as JSON, None if it is null or missing."""
    text = bytes(raw)
    return None if text == b"null" else text


def source_of(
    protocol: str, body: RowBody, origin: Origin, record: ConsumerRecord, losses: list[Loss]
) -> Source:
    """Return the source, with the time of `source`, or else (counted) the next best. Raises Malformed."""
    commit_ts, start_ts, ms = origin.commit_ts, origin.start_ts, origin.ts_ms
    if commit_ts is not None and not 0 <= commit_ts < _ticdc.TSO_END:
        raise Malformed(protocol, "payload.source.commit_ts", "not a TSO (an integer from 0 to 2^64 - 1)")
    if start_ts is not None and not 0 <= start_ts < _ticdc.TSO_END:
        raise Malformed(protocol, "payload.source.start_ts", "not a TSO (an integer from 0 to 2^64 - 1)")
    if commit_ts:
        time_ns = (ms if ms is not None and ms > 0 else commit_ts >> TSO_LOGICAL_BITS) * 1_000_000
    else:
        time_ns = event_time_ns((ms or 0) * 1_000_000, (body.ts_ms or 0) * 1_000_000, record, losses)
    return Source(_ticdc.CONNECTOR, time_ns, commit_ts or None, start_ts, origin.cluster_id)


def emitted_at_ns(body: RowBody, record: ConsumerRecord) -> int:
    """Return the time when TiCDC made the message; else when the row changed, else the record's timestamp."""
    ms = body.ts_ms
    if (ms is None or ms <= 0) and body.source is not None:
        ms = body.source.ts_ms
    return (ms if ms is not None and ms > 0 else record.time_ms(0)) * 1_000_000


def key_of(key: bytes | None) -> Key:
    """Parse a row's Kafka key."""
    try:
        return _parse_key(key or b"")
    except _json.REFUSED:
        return _NO_KEY


_NO_KEY: Final = Key(None)
