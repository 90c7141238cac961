"""Decoder of Open Protocol: all events of a record, from any release."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Any, Final

import msgspec
from msgspec import Meta

from relay.catalog import Catalog, DdlBudget, DdlMessage, apply_ddl
from relay.codecs.codec import TracedMessage
from relay.codecs.losses import Loss
from relay.codecs.open_protocol.frames import DDL, NAME, RESOLVED, ROW, unframe
from relay.codecs.open_protocol.options import OpenOptions
from relay.codecs.open_protocol.rows import (
    OpenProtocolRowDecoder,
    ReadRow,
    ReadValue,
    ZonedRowDecoder,
    unknown_members,
)
from relay.codecs.open_protocol.traced import KEY_START, VALUE_START, VARIABLE_MEMBERS, traced_row
from relay.codecs.shared.ddl_codes import kinds_of
from relay.codecs.shared.large_messages import (
    Decompression,
    LargeMessageCompression,
    claim_check_parts,
    claim_checked,
    decompressed,
)
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.local_times import event_time_ns
from relay.codecs.shared.ticdc import CONNECTOR, TSO_END, is_restored
from relay.codecs.shared.unknown_members import (
    MessageParser,
    OpenMessage,
    Unknown,
    below,
    merged,
    with_unknown,
)
from relay.model.errors import DecodeError, Malformed, UnsupportedMessage
from relay.model.events import TSO_LOGICAL_BITS, Event, RowChange, SchemaChange, Source, TableId, Watermark
from relay.model.limits import check_levels, check_values, uncounted_bytes
from relay.model.lookups import LookupCache
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.tracing import NotTemplatable, Trace

_NS_PER_MS: Final = 1_000_000
_TIME_END_NS: Final = TIME_END_MS * _NS_PER_MS


class OpenProtocolKey(OpenMessage, gc=False):
    """A key segment. `rid` (the row id) is redundant."""

    ts: int
    t: int
    scm: str | None = None
    tbl: str | None = None
    ptn: int | None = None
    ohk: bool | None = None
    ccl: str | None = None
    rid: msgspec.Raw = msgspec.Raw(b"null")


class OpenProtocolMessage(msgspec.Struct, gc=False):
    """An event of a record.

    value: The value segment, uncompressed for rows and statements.
    sent_at_ns: The time of the record, from its Kafka timestamp or else its first event.
    unknown: Members that the protocol does not define, by path, except those of the value.
    """

    key: OpenProtocolKey
    value: bytes
    sent_at_ns: int
    unknown: Unknown | None


class _Ddl(OpenMessage, gc=False):
    """A statement. Its number is text in the manual's table, and a number in every release."""

    q: str
    t: int | Annotated[str, Meta(pattern="^[0-9]{1,3}$")]


_parse_key: Final = MessageParser(OpenProtocolKey).parse
_parse_ddl: Final = MessageParser(_Ddl).parse


class OpenProtocolDecoder:
    """Decodes Open Protocol of all releases."""

    def __init__(self, options: OpenOptions, answers: LookupCache) -> None:
        self._options, self._answers, self._limits = options, answers, answers.limits
        self._compression = options.large_message_handle_compression
        self._is_compressed = self._compression in {
            LargeMessageCompression.LZ4,
            LargeMessageCompression.SNAPPY,
        }
        self._uncounted = uncounted_bytes(answers.limits)
        self._zone = zone = options.zone()
        self.rows = (OpenProtocolRowDecoder if zone is UTC else ZonedRowDecoder)(zone, answers.limits)

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events; see `relay.codecs.codec.Decoder`."""
        if record.key is None and record.value is None:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        events: list[Event] = []
        budget = ddl_budget = None
        sent_at_ns = record.timestamp_ms * _NS_PER_MS
        for head, body in unframe(record.key, record.value, self._limits):
            key, value = decode_key(head), body
            check(key)
            unknown = None if key.unknown is None else below("key", key.unknown)
            if key.ccl:
                key, value, unknown = self._stored(key, value)
            message = OpenProtocolMessage(key, value, sent_at_ns, unknown)
            if key.t == RESOLVED:
                source, sent_at_ns = origin_of(message, record, losses)
                events.append(Watermark(source, sent_at_ns))
                continue
            if self._is_compressed or value[:2] != b'{"':
                budget = budget or Decompression(self._limits)
                message.value = value = decompressed(NAME, "value", value, self._compression, budget)
            check_levels(NAME, "value", value)
            if len(value) > self._uncounted:
                check_values(NAME, "value", value, self._limits)
            if key.t == DDL:
                ddl_budget = ddl_budget or DdlBudget(self._limits)
                source, sent_at_ns = origin_of(message, record, losses)
                catalog, change = _ddl(message, source, record, catalog, losses, ddl_budget)
                self.rows.forget(change)
                events.append(change)
            elif value != b"{}":
                row = interpret(message, record, catalog, losses, self.rows.read)
                sent_at_ns = row.emitted_at_ns
                events.append(row)
            else:
                _, sent_at_ns = origin_of(message, record, losses)
                losses.append(Loss.EMPTY_ROW)
        return events, catalog

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        row = traced_row(record, change, trace, self._zone, self._limits)
        decoded = decode_key(row.key.text[KEY_START:])
        if self._is_compressed or decoded.ccl is not None:
            raise NotTemplatable
        key = row.key.traced(decoded, VARIABLE_MEMBERS, trace)
        value: Any = trace.refused()
        sent_at_ns = row.record.timestamp_ms * _NS_PER_MS
        message = OpenProtocolMessage(key, value, sent_at_ns, below("key", decoded.unknown))
        unknown = unknown_members(row.value.text[VALUE_START:])

        def read(_name: object, _value: object, source: Source, *_: object) -> ReadRow:
            return (change.op, *row.read(source.at(row.record), catalog), unknown)

        check(key)
        return row.message([interpret(message, row.record, catalog, [], read)])

    def _unknown_members(self, body: bytes) -> Unknown | None:
        """Return the undefined members of the row beside a claim check; the rest of that row is ignored."""
        try:
            value = decompressed(NAME, "value", body, self._compression, Decompression(self._limits))
            check_levels(NAME, "value", value)
            return unknown_members(value)
        except DecodeError:
            return None

    def _stored(self, key: OpenProtocolKey, beside: bytes) -> tuple[OpenProtocolKey, bytes, Unknown | None]:
        """Return the event that a claim check refers to: its key, its value, and the unknown members of both
        keys and of the value `beside` the claim check. Its object is a framed key and value of this one
        event.
        """
        parts = claim_check_parts(claim_checked(NAME, "key.ccl", key.ccl, self._answers, self._options))
        if parts is None:
            raise Malformed(NAME, "key.ccl", "the object in storage is not a claim-check document")
        events = unframe(parts.key, parts.value)
        if len(events) != 1:
            raise Malformed(
                NAME, "key.ccl", f"the object in storage holds {len(events)} events instead of one"
            )
        found = decode_key(events[0][0])
        check(found)
        if (found.ts, found.t, found.scm, found.tbl, found.ptn) != (key.ts, key.t, key.scm, key.tbl, key.ptn):
            raise Malformed(NAME, "key.ccl", "the object in storage holds another event")
        if found.ccl:
            raise Malformed(NAME, "key.ccl", "the object in storage refers to another object")
        of_keys, of_value = merged(key.unknown, found.unknown), self._unknown_members(beside)
        return found, events[0][1], merged(below("key", of_keys), below("value", of_value))


# ---------------------------------------------------------------- decode, check, interpret


def decode_key(text: bytes) -> OpenProtocolKey:
    """Return a key segment. Raises Malformed."""
    check_levels(NAME, "key", text)
    try:
        return _parse_key(text)
    except REFUSED as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise Malformed(NAME, "key", reason) from None


def check(key: OpenProtocolKey) -> None:
    """Check the numbers of a key. Raises Malformed and UnsupportedMessage."""
    if not 0 <= key.ts < TSO_END:
        raise Malformed(NAME, "key.ts", "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")
    if not ROW <= key.t <= RESOLVED:
        raise UnsupportedMessage(NAME, "key.t", "not 1 (row), 2 (DDL) or 3 (resolved)")


def origin_of(message: OpenProtocolMessage, record: ConsumerRecord, losses: list[Loss]) -> tuple[Source, int]:
    """Return the origin of an event, and the time of its message."""
    key, sent_at_ns, unknown = message.key, message.sent_at_ns, message.unknown
    ts = key.ts
    if ts or key.t == RESOLVED:
        source = Source(CONNECTOR, (ts >> TSO_LOGICAL_BITS) * _NS_PER_MS, ts)
    else:
        source = Source(CONNECTOR, event_time_ns(None, None, record, losses))
    if key.ptn:
        source = msgspec.structs.replace(source, physical_partition=key.ptn)
    if unknown is not None:
        source = with_unknown(source, unknown)
    return source, sent_at_ns if 0 <= sent_at_ns < _TIME_END_NS else source.event_time_ns


def interpret(
    message: OpenProtocolMessage,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
    read: ReadValue,
) -> RowChange:
    """Return the row of a message. `read`: reads its value. Raises DecodeError."""
    source, emitted_at_ns = origin_of(message, record, losses)
    key = message.key
    if not key.scm or not key.tbl:
        raise Malformed(NAME, "key", "a row without `scm` and `tbl`")
    counted = len(losses)
    op, schema, images, unknown = read((key.scm, key.tbl), message.value, source, record, catalog, losses)
    # The row has only the columns of the handle key.
    if key.ohk and Loss.COLUMNS_ABSENT not in losses[counted:]:
        losses.append(Loss.COLUMNS_ABSENT)
    if unknown is not None:
        source = with_unknown(source, below("value", unknown))
    return RowChange(op, schema, images, source, emitted_at_ns)


def _statement(value: bytes) -> _Ddl:
    try:
        return _parse_ddl(value)
    except REFUSED as error:
        raise Malformed(NAME, "value", "not a DDL statement `q` with its number `t`") from error


def _ddl(
    message: OpenProtocolMessage,
    source: Source,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
    budget: DdlBudget,
) -> tuple[Catalog, SchemaChange]:
    key, ddl = message.key, _statement(message.value)
    if ddl.unknown is not None:
        source = with_unknown(source, below("value", ddl.unknown))
    statement = DdlMessage(
        ddl.q,
        TableId(key.scm or "", key.tbl or ""),
        str(int(ddl.t)),
        source,
        source.at(record),
        record.time_ms(source.event_time_ns // _NS_PER_MS) * _NS_PER_MS,
        is_restored(ddl.q),
    )
    catalog, change = apply_ddl(catalog, statement, budget)
    if not change.kinds:
        losses.append(Loss.DDL_NOT_UNDERSTOOD)
        change = msgspec.structs.replace(change, kinds=kinds_of(int(ddl.t)))
    return catalog, change
