"""Decoder of Open Protocol: all events of a record, from any release."""

from __future__ import annotations

from datetime import UTC
from typing import Annotated, Final

import msgspec
from msgspec import Meta

from relay.catalog import Catalog, DdlBudget, DdlMessage, apply_ddl
from relay.codecs.codec import TracedMessage
from relay.codecs.losses import Loss
from relay.codecs.open_protocol.frames import DDL, NAME, RESOLVED, ROW, unframe
from relay.codecs.open_protocol.options import OpenOptions
from relay.codecs.open_protocol.rows import OpenProtocolRowDecoder, ReadRow, ZonedRowDecoder, unknown_members
from relay.codecs.open_protocol.traced import traced_row
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


class _Key(OpenMessage, gc=False):
    """A key segment. `rid` (the row id) is redundant."""

    ts: int
    t: int
    scm: str | None = None
    tbl: str | None = None
    ptn: int | None = None
    ohk: bool | None = None
    ccl: str | None = None
    rid: msgspec.Raw = msgspec.Raw(b"null")


class _Ddl(OpenMessage, gc=False):
    """A statement. Its number is text in the manual's table, and a number in every release."""

    q: str
    t: int | Annotated[str, Meta(pattern="^[0-9]{1,3}$")]


_parse_key: Final = MessageParser(_Key).parse
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

    def decode(  # noqa: C901, PLR0912, PLR0915 - every function called here costs a call per row
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events; see `relay.codecs.codec.Decoder`."""
        if record.key is None and record.value is None:
            losses.append(Loss.TOMBSTONE)
            return [], catalog
        events: list[Event] = []
        budget = ddl_budget = None
        emitted_at_ns = record.timestamp_ms * _NS_PER_MS
        segments = unframe(record.key, record.value, self._limits)
        for head, body in segments:
            key, value = _key(head), body
            unknown, beside = key.unknown, None
            if key.ccl:
                beside = self._unknown_members(body)
                key, value = self._stored(key)
                unknown = merged(unknown, key.unknown)
            ts = key.ts
            source = Source(CONNECTOR, (ts >> TSO_LOGICAL_BITS) * _NS_PER_MS, ts)
            if not ts and key.t != RESOLVED:
                source = Source(CONNECTOR, event_time_ns(None, None, record, losses))
            if not 0 <= emitted_at_ns < _TIME_END_NS:
                emitted_at_ns = source.event_time_ns
            if key.ptn:
                source = msgspec.structs.replace(source, physical_partition=key.ptn)
            if unknown is not None:
                source = with_unknown(source, below("key", unknown))
            if beside is not None:
                source = with_unknown(source, below("value", beside))
            if key.t == RESOLVED:
                events.append(Watermark(source, emitted_at_ns))
                continue
            if self._is_compressed or value[:2] != b'{"':
                budget = budget or Decompression(self._limits)
                value = decompressed(NAME, "value", value, self._compression, budget)
            check_levels(NAME, "value", value)
            if len(value) > self._uncounted:
                check_values(NAME, "value", value, self._limits)
            if key.t == DDL:
                ddl_budget = ddl_budget or DdlBudget(self._limits)
                ddl = _statement(value)
                if ddl.unknown is not None:
                    source = with_unknown(source, below("value", ddl.unknown))
                catalog, change = _ddl(key, ddl, source, record, catalog, losses, ddl_budget)
                self.rows.forget(change)
                events.append(change)
            elif value != b"{}":
                if not key.scm or not key.tbl:
                    raise Malformed(NAME, "key", "a row without `scm` and `tbl`")
                name = key.scm, key.tbl
                if key.ohk:
                    row = self._handle_key_row(name, value, source, record, catalog, losses)
                else:
                    row = self.rows.read(name, value, source, record, catalog, losses)
                op, schema, images, unknown = row
                if unknown is not None:
                    source = with_unknown(source, below("value", unknown))
                events.append(RowChange(op, schema, images, source, emitted_at_ns))
            else:
                losses.append(Loss.EMPTY_ROW)
        return events, catalog

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        if self._is_compressed:
            raise NotTemplatable
        return traced_row(record, change, catalog, trace, self._zone, self._limits)

    def _handle_key_row(
        self,
        name: tuple[str, str],
        value: bytes,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> ReadRow:
        """Return a row that has only the handle key's columns."""
        counted = len(losses)
        row = self.rows.read(name, value, source, record, catalog, losses)
        if Loss.COLUMNS_ABSENT not in losses[counted:]:
            losses.append(Loss.COLUMNS_ABSENT)
        return row

    def _unknown_members(self, body: bytes) -> Unknown | None:
        """Return the undefined members of the row beside a claim check; the rest of that row is ignored."""
        try:
            value = decompressed(NAME, "value", body, self._compression, Decompression(self._limits))
            check_levels(NAME, "value", value)
            return unknown_members(value)
        except DecodeError:
            return None

    def _stored(self, key: _Key) -> tuple[_Key, bytes]:
        """Return the event that a claim check refers to, as key and value. Its object is a framed key and
        value of this one event.
        """
        parts = claim_check_parts(claim_checked(NAME, "key.ccl", key.ccl, self._answers, self._options))
        if parts is None:
            raise Malformed(NAME, "key.ccl", "the object in storage is not a claim-check document")
        events = unframe(parts.key, parts.value)
        if len(events) != 1:
            raise Malformed(
                NAME, "key.ccl", f"the object in storage holds {len(events)} events instead of one"
            )
        found = _key(events[0][0])
        if (found.ts, found.t, found.scm, found.tbl, found.ptn) != (key.ts, key.t, key.scm, key.tbl, key.ptn):
            raise Malformed(NAME, "key.ccl", "the object in storage holds another event")
        if found.ccl:
            raise Malformed(NAME, "key.ccl", "the object in storage refers to another object")
        return found, events[0][1]


def _key(text: bytes) -> _Key:
    check_levels(NAME, "key", text)
    try:
        key = _parse_key(text)
    except REFUSED as error:
        reason = "not UTF-8" if isinstance(error, UnicodeDecodeError) else str(error)
        raise Malformed(NAME, "key", reason) from None
    if not 0 <= key.ts < TSO_END:
        raise Malformed(NAME, "key.ts", "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")
    if not ROW <= key.t <= RESOLVED:
        raise UnsupportedMessage(NAME, "key.t", "not 1 (row), 2 (DDL) or 3 (resolved)")
    return key


def _statement(value: bytes) -> _Ddl:
    try:
        return _parse_ddl(value)
    except REFUSED as error:
        raise Malformed(NAME, "value", "not a DDL statement `q` with its number `t`") from error


def _ddl(  # noqa: PLR0913, PLR0917 - one caller
    key: _Key,
    ddl: _Ddl,
    source: Source,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
    budget: DdlBudget,
) -> tuple[Catalog, SchemaChange]:
    message = DdlMessage(
        ddl.q,
        TableId(key.scm or "", key.tbl or ""),
        str(int(ddl.t)),
        source,
        source.at(record),
        record.time_ms(source.event_time_ns // _NS_PER_MS) * _NS_PER_MS,
        is_restored(ddl.q),
    )
    catalog, change = apply_ddl(catalog, message, budget)
    if not change.kinds:
        losses.append(Loss.DDL_NOT_UNDERSTOOD)
        change = msgspec.structs.replace(change, kinds=kinds_of(int(ddl.t)))
    return catalog, change
