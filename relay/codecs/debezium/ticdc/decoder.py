"""Decoder of TiCDC Debezium JSON."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any, Final

import msgspec

from relay.catalog import Catalog, DdlMessage
from relay.codecs.codec import TracedMessage
from relay.codecs.debezium.shared.decoder import DialectMessages, MessageDecoder
from relay.codecs.debezium.shared.definitions import DeclaredTable, change_type, declared_events, renamed_pair
from relay.codecs.debezium.shared.definitions import parse as parse_changes
from relay.codecs.debezium.shared.messages import Facts, image, key_of, unknown_in_columns
from relay.codecs.debezium.ticdc.columns import TicdcColumns
from relay.codecs.debezium.ticdc.messages import (
    CONNECTORS,
    VARIABLE,
    TicdcBody,
    TicdcEnvelope,
    TicdcOrigin,
    TicdcRowBody,
    check,
    facts_of,
)
from relay.codecs.debezium.ticdc.options import NAME, TicdcDebeziumOptions
from relay.codecs.losses import Loss
from relay.codecs.shared.large_messages import (
    Decompression,
    LargeMessageCompression,
    decompressed,
)
from relay.codecs.shared.ticdc import is_restored
from relay.codecs.shared.unknown_members import merged, with_unknown
from relay.model.errors import (
    DdlNotUnderstood,
    LimitExceeded,
    Malformed,
    UnsupportedMessage,
)
from relay.model.events import Event, RowChange, TableId, Watermark
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.ddl import read_ddl
from relay.mysql.ddl.drops import rename_keywords
from relay.mysql.ddl.statements import RenameTables
from relay.mysql.types import quoted_table
from relay.templates.tracing import NotTemplatable, Trace

_FOREIGN: Final = "not TiCDC, so this is not a message of this protocol"
_WATERMARK: Final = "m"

_BRACE: Final = ord("{")


class TicdcDebeziumDecoder(MessageDecoder):
    """Decodes TiCDC Debezium JSON of all releases, with and without schema, extension and compression."""

    def __init__(self, options: TicdcDebeziumOptions, answers: LookupCache, name: str = NAME) -> None:
        messages = DialectMessages(
            TicdcEnvelope, TicdcRowBody, CONNECTORS, _FOREIGN, facts_of, VARIABLE, _ddl, check
        )
        super().__init__(name, messages, TicdcColumns(), answers.limits)
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
        return super().traced(record, change, catalog, trace)

    def _control(
        self,
        body: Any,  # noqa: ANN401 - TicdcBody with a source
        facts: Facts,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],  # noqa: ARG002 - of the other dialect
    ) -> tuple[list[Event], Catalog]:
        if body.op == _WATERMARK:
            return [_watermark(body.source, facts, record)], catalog
        raise UnsupportedMessage(NAME, "payload.op", "not one of c, u, d, m, and no DDL")


def _watermark(origin: TicdcOrigin, facts: Facts, record: ConsumerRecord) -> Watermark:
    source, _, emitted_at_ns, _ = facts
    if origin.commit_ts is None:
        raise Malformed(NAME, "payload.source.commit_ts", "missing from a watermark")
    # For a row, 0 means none; a watermark at 0 precedes everything.
    source = msgspec.structs.replace(source, commit_ts=origin.commit_ts)
    source = with_unknown(source, unknown_in_columns(key_of(record.key), set()))
    return Watermark(source, emitted_at_ns)


def _ddl(
    body: TicdcBody,
    origin: TicdcOrigin,
    facts: Facts,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
) -> tuple[list[Event], Catalog]:
    source, _, emitted_at_ns, _ = facts
    declared, unknown = parse_changes(NAME, image(body.tableChanges))
    beside = unknown_in_columns(key_of(record.key), {"databaseName"})
    source = with_unknown(source, merged(unknown, beside))
    ddl = _own_statement(body.ddl or "", declared)
    message = DdlMessage(
        ddl,
        TableId(origin.db or "", origin.table or ""),
        change_type(declared),
        source,
        source.at(record),
        emitted_at_ns,
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
