"""Decoder of TiCDC Canal-JSON."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.shared.local_times import zoned
from relay.codecs.canal.shared.messages import (
    ROW_OPS,
    CanalMessage,
    base64_bytes,
    check_size,
    parse,
    unchecked_bytes,
)
from relay.codecs.canal.shared.row_readers import ReadRows, TextReaders
from relay.codecs.canal.shared.traced import TracedTextRow
from relay.codecs.canal.shared.wire_table import MysqlTypes, have_parameters
from relay.codecs.canal.ticdc.messages import NAME
from relay.codecs.canal.ticdc.options import TicdcOptions, text_style
from relay.codecs.codec import TracedMessage, ValueDecoder
from relay.codecs.losses import Loss
from relay.codecs.shared.ddl_codes import ddl_events
from relay.codecs.shared.large_messages import (
    Decompression,
    LargeMessageCompression,
    claim_check_parts,
    claim_checked,
    decompressed,
)
from relay.codecs.shared.ticdc import (
    CONNECTOR,
    TSO_END,
    is_restored,
)
from relay.codecs.shared.traced_messages import Declaration, VariableMember, bounded
from relay.codecs.shared.unknown_members import Unknown, below, merged, unknown_in, with_unknown
from relay.model.errors import DecodeError, Malformed, UnsupportedMessage
from relay.model.events import (
    TSO_LOGICAL_BITS,
    Event,
    Op,
    RowChange,
    Source,
    Watermark,
)
from relay.model.limits import check_levels
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import NotTemplatable, Trace

WATERMARK: Final = "TIDB_WATERMARK"

#: The first byte of a message that is not compressed.
_BRACE: Final = ord("{")

_LOCATION: Final = "_tidb.claimCheckLocation"


class TicdcCanalDecoder(ValueDecoder):
    """Decodes TiCDC Canal-JSON of all releases, with and without the extension."""

    def __init__(self, options: TicdcOptions, answers: LookupCache) -> None:
        self._options, self._answers, self._limits = options, answers, answers.limits
        self._unchecked = unchecked_bytes(answers.limits)
        self._compression = options.large_message_handle_compression
        self._is_packed = self._compression in {LargeMessageCompression.LZ4, LargeMessageCompression.SNAPPY}
        is_full = _always if options.content_compatible else have_parameters
        style = text_style(options)
        readers = TextReaders(NAME, style, is_full, most_bytes=answers.limits.cache_bytes)
        self._rows = zoned(readers, style)

    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        if self._is_packed or value[0] != _BRACE:
            value = decompressed(NAME, "", value, self._compression, Decompression(self._limits))
        message = parse(NAME, value, self._limits)
        if len(value) > self._unchecked:
            check_size(NAME, message, self._limits)
        tidb, beside = message.tidb, None
        if tidb is not None and "claimCheckLocation" in tidb:
            beside = _unknown_fields(message)
            message = self._from_storage(message)
        op = ROW_OPS.get(message.type)
        if op is not None and message.data and not message.is_ddl:
            extension = decode_extension(message)
            changes = interpret(message, extension, op, record, catalog, losses, self._rows.changes)
            if beside is not None:
                changes = [_with_unknown(change, beside) for change in changes]
            return changes, catalog
        if message.is_ddl:
            return self._ddl(message, record, catalog, losses)
        if message.type == WATERMARK:
            return [self._watermark(message, record, losses)], catalog
        raise _refusal(op)

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        message = parse(NAME, record.value or b"", self._limits)
        extension, tidb = decode_extension(message), message.tidb or {}
        if self._is_packed or extension.row_key is not None or "claimCheckLocation" in tidb:
            raise NotTemplatable
        row = TracedTextRow(record, change, trace, catalog)
        row.value.vary(EXTENSION)
        row.split()
        message, extension = row.traced_message(message), row.value.traced(extension, EXTENSION, trace)
        if tidb:
            message.tidb = tidb | dict.fromkeys(_NUMBERS & tidb.keys(), trace.refused())
        return row.message(interpret(message, extension, change.op, row.record, catalog, [], row.read))

    def _from_storage(self, stub: CanalMessage) -> CanalMessage:
        """Return the full message for this one, which has only the handle key.

        Raises Malformed if the claim-check object holds another message.
        """
        data = claim_checked(
            NAME, _LOCATION, (stub.tidb or {})["claimCheckLocation"], self._answers, self._options
        )
        parts = claim_check_parts(data)
        try:
            stored = data if parts is None else parts.value
            check_levels(NAME, "", stored)
            value = decompressed(NAME, "", stored, self._compression, Decompression(self._limits))
            message = parse(NAME, value, self._limits)
            check_size(NAME, message, self._limits)
        except (Malformed, UnsupportedMessage) as error:
            raise Malformed(
                NAME, _LOCATION, f"its object: {error.path or 'message'}: {error.reason}"
            ) from None
        if _identity(message) != _identity(stub) or "claimCheckLocation" in (message.tidb or {}):
            raise Malformed(NAME, _LOCATION, "its object holds another message")
        return message

    def _ddl(
        self, message: CanalMessage, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        source = source_of(message, decode_extension(message), record, losses)
        ddl = message.ddl(message.table_id(), source, record, is_restored=is_restored(message.sql or ""))
        return ddl_events(ddl, catalog, losses)

    def _watermark(self, message: CanalMessage, record: ConsumerRecord, losses: list[Loss]) -> Watermark:
        commit_ts = _tso((message.tidb or {}).get("watermarkTs"), "_tidb.watermarkTs")
        time_ns = _time_ns(message, commit_ts, record, losses)
        source = Source(CONNECTOR, time_ns, commit_ts=commit_ts, unknown_fields=_unknown_fields(message))
        return Watermark(source, message.emitted_at_ns(record))


def _always(_: MysqlTypes) -> bool:
    """Return True: with content-compatible every type has its parameters."""
    return True


def _identity(message: CanalMessage) -> tuple[object, ...]:
    """Return the identity that a message shares with the one in its claim-check object."""
    commit_ts = (message.tidb or {}).get("commitTs")
    return message.database, message.table, message.type, message.is_ddl, message.es, commit_ts


def _refusal(op: Op | None) -> DecodeError:
    if op is not None:
        return Malformed(NAME, "data", "a row message without a row")
    return UnsupportedMessage(NAME, "type", "not one of INSERT, UPDATE, DELETE, TIDB_WATERMARK")


def _tso(value: object, path: str) -> int:
    """Return a TSO, also one that the lenient parser kept as text. Raises Malformed."""
    if isinstance(value, str) and value.isascii() and value.isdigit():
        value = int(value) if len(value) <= 20 else None
    if isinstance(value, bool) or not isinstance(value, int) or not 0 <= value < TSO_END:
        raise Malformed(NAME, path, "not a timestamp of TiDB (an integer from 0 to 2^64 - 1)")
    return value


class Extension(msgspec.Struct, gc=False):
    """The members of `_tidb` that rows and statements have. 0 stands for no timestamp."""

    commit_ts: int | None = None
    start_ts: int | None = None
    row_key: bytes | None = None


_NO_EXTENSION: Final = Extension()
_TSO: Final = bounded(0, TSO_END)
_NUMBERS: Final = frozenset({"commitTs", "startTs"})
#: The variable members of `_tidb`.
EXTENSION: Final[Declaration] = {
    "commit_ts": VariableMember(("_tidb", "commitTs"), _TSO),
    "start_ts": VariableMember(("_tidb", "startTs"), _TSO),
}


def decode_extension(message: CanalMessage) -> Extension:
    """Return the members of `_tidb`. Raises Malformed."""
    tidb = message.tidb
    if tidb is None:
        return _NO_EXTENSION
    commit_ts = tidb.get("commitTs")
    if commit_ts is not None and not (type(commit_ts) is int and 0 <= commit_ts < TSO_END):
        commit_ts = _tso(commit_ts, "_tidb.commitTs")
    # Almost every message has only the commit ts.
    if commit_ts is not None and len(tidb) == 1:
        return Extension(commit_ts)
    start_ts = tidb.get("startTs")
    return Extension(
        commit_ts,
        _tso(start_ts, "_tidb.startTs") if start_ts else None,
        base64_bytes(NAME, "_tidb.rowkey", tidb.get("rowkey")),
    )


def interpret(  # noqa: PLR0913, PLR0917 - a tuple of arguments costs time for every row
    message: CanalMessage,
    extension: Extension,
    op: Op,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
    read: ReadRows,
) -> list[Event]:
    """Return the rows of a message. `read`: reads them. Raises DecodeError."""
    source, tidb = source_of(message, extension, record, losses), message.tidb
    emitted_at_ns = message.emitted_at_ns(record)
    changes = read(message, op, source, emitted_at_ns, record, catalog, losses)
    if tidb is not None and len(tidb) > 1 and tidb.get("onlyHandleKey"):
        # Each row lacks columns; some have been counted.
        losses += [Loss.COLUMNS_ABSENT] * (len(changes) - losses.count(Loss.COLUMNS_ABSENT))
    return changes


def source_of(
    message: CanalMessage, extension: Extension, record: ConsumerRecord, losses: list[Loss]
) -> Source:
    """Return the origin of a message's events."""
    commit_ts, es, gtid = extension.commit_ts or None, message.es, message.gtid or None
    is_usual = gtid is None and message.unknown is None and len(message.tidb or ()) == 1
    # Almost every message has both times, and needs no call then.
    if is_usual and commit_ts is not None and es is not None and es > 0:
        return Source(CONNECTOR, es * 1_000_000, commit_ts)
    return Source(
        CONNECTOR,
        _time_ns(message, commit_ts, record, losses),
        commit_ts,
        extension.start_ts or None,
        gtid=gtid,
        row_key=extension.row_key,
        unknown_fields=_unknown_fields(message),
    )


def _time_ns(message: CanalMessage, commit_ts: int | None, record: ConsumerRecord, losses: list[Loss]) -> int:
    """Return the time when rows changed, which both the commit ts and `es` contain."""
    if commit_ts and not (message.es is not None and message.es > 0):
        return (commit_ts >> TSO_LOGICAL_BITS) * 1_000_000
    return message.event_time_ns(record, losses)


def _with_unknown(change: Event, beside: Unknown) -> Event:
    """Return an event whose source has also these unknown members."""
    return msgspec.structs.replace(change, source=with_unknown(change.source, beside))


def _unknown_fields(message: CanalMessage) -> Unknown | None:
    """Return the members that TiCDC does not write."""
    tidb = message.tidb
    if message.unknown is None and (tidb is None or tidb.keys() <= _TIDB_MEMBERS):
        return None  # as in almost every message
    return merged(below("_tidb", unknown_in(tidb or {}, _TIDB_MEMBERS)), message.unknown)


#: Members of `_tidb` that have a field, or describe how the message was written.
_TIDB_MEMBERS: Final = frozenset(
    {"commitTs", "startTs", "rowkey", "onlyHandleKey", "watermarkTs", "claimCheckLocation"}
)
