"""Decoder of Maxwell messages: rows of the log and of a bootstrap, and DDL."""

from __future__ import annotations

from typing import Final

import msgspec

from relay.catalog import Catalog, DdlMessage, apply_ddl, definition_after
from relay.codecs.codec import TracedMessage, ValueDecoder
from relay.codecs.losses import Loss
from relay.codecs.maxwell.definitions import defined, parse_definition, table_of
from relay.codecs.maxwell.messages import (
    CONNECTOR,
    DATABASES,
    MARKERS,
    MaxwellMessage,
    check,
    ddl_time_ns,
    emitted_at_ns,
    parse,
    row_time_ns,
    source_of,
    transaction_of,
    unknown_in_key,
)
from relay.codecs.maxwell.options import NAME, MaxwellOptions
from relay.codecs.maxwell.rows import MaxwellRowDecoder, ReadImages
from relay.codecs.maxwell.traced import traced_message, traced_row
from relay.codecs.shared.unknown_members import Unknown, below, with_unknown
from relay.model.errors import UnsupportedMessage
from relay.model.events import (
    Event,
    Images,
    Op,
    Position,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    TransactionMark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.mysql.ddl.drops import rename_keywords
from relay.mysql.ddl.parts import keywords_of_drops, renames_alone
from relay.mysql.types import quoted_table
from relay.templates.tracing import NotTemplatable, Trace

_OPS: Final = {
    "insert": Op.INSERT, "update": Op.UPDATE, "delete": Op.DELETE, "bootstrap-insert": Op.READ,
}  # fmt: skip
_READ: Final = Op.READ


class MaxwellDecoder(ValueDecoder):
    """Decodes Maxwell 1.x, and the dialects of TiCDC and others."""

    def __init__(self, options: MaxwellOptions, answers: LookupCache) -> None:
        self._limits = answers.limits
        self._rows = MaxwellRowDecoder(
            answers.limits,
            has_nulls=options.output_nulls,
            is_camel=options.output_naming_strategy != "none",
        )

    def decode_value(
        self, value: bytes, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's events; see `relay.codecs.codec.Decoder`."""
        events: list[Event] = []
        in_key = None if record.key is None else unknown_in_key(record.key)
        for message in parse(value, self._limits, losses):
            type_ = message.type.lower()
            if type_ in _OPS:
                check(message)
                read = self._rows.read
                events += interpret(_OPS[type_], message, in_key, record, catalog, losses, read)
            elif type_ in MARKERS:
                losses.append(Loss.SNAPSHOT)
            elif message.sql is not None:
                catalog = self._ddl(type_, message, record, catalog, losses, events)
            else:
                raise UnsupportedMessage(NAME, "type", "not a type of Maxwell's")
        return events, catalog

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the row's message with traced values; see `TracingDecoder`."""
        row = traced_row(self._rows, record, change, trace, self._limits)
        decoded, *others = parse(row.value.text, self._limits, [])
        if others:
            raise NotTemplatable
        message = traced_message(decoded, row, trace)
        in_key = None if record.key is None else unknown_in_key(record.key)

        def read(
            _op: Op, _message: object, _key: object, at: Position, *_: object
        ) -> tuple[TableSchema, Images]:
            return row.read(at, catalog)

        check(message)
        return row.message(interpret(change.op, message, in_key, row.record, catalog, [], read))

    def _ddl(
        self,
        type_: str,
        message: MaxwellMessage,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
        events: list[Event],
    ) -> Catalog:
        """Add a statement, and return the catalog after it."""
        event_time_ns = ddl_time_ns(message, record, losses)
        source = source_of(message, event_time_ns)
        declared = parse_definition(message.definition, "def", self._limits)
        before = None
        if isinstance(message.old, msgspec.Raw):
            before = parse_definition(message.old, "old", self._limits)
        for path, shown in (("def", declared), ("old", before)):
            if shown is not None:
                source = with_unknown(source, below(path, shown.unknown))
        table = TableId(message.database or "", message.table or "")
        old, new = table_of(before) or table, table_of(declared) or table
        ddl = DdlMessage(
            message.sql or "",
            table,
            type_,
            source,
            source.at(record),
            emitted_at_ns(message, record, event_time_ns),
        )
        learned, change = apply_ddl(catalog, ddl)
        part = _part(change, table, old, new)
        if part is not None:
            ddl = msgspec.structs.replace(ddl, ddl=part)
            learned, change = apply_ddl(catalog, ddl)
        found = _declared_table(type_, declared, ddl, learned, new)
        if found is not None:
            definitions = () if found is _GONE else (found,)
            gone = (table,) if found is _GONE else ()
            ddl = msgspec.structs.replace(ddl, definitions=definitions, gone=gone)
            learned, change = apply_ddl(catalog, ddl)
        if not change.kinds:
            losses.append(Loss.DDL_NOT_UNDERSTOOD)
        self._rows.forget(change)
        events.append(change)
        return learned


def interpret(  # noqa: PLR0913, PLR0917 - a tuple of arguments costs time for every row
    op: Op,
    message: MaxwellMessage,
    in_key: Unknown | None,
    record: ConsumerRecord,
    catalog: Catalog,
    losses: list[Loss],
    read: ReadImages,
) -> list[Event]:
    """Return a row, and the end of its transaction if it is the last one. Raises DecodeError.

    `in_key`: unknown members of the Kafka key. `read`: reads the row's images.
    """
    event_time_ns = row_time_ns(message, record, losses)
    source = source_of(message, event_time_ns, is_read=op is _READ)
    if in_key is not None:
        source = with_unknown(source, in_key)
    row = read(op, message, record.key, source.at(record), catalog, losses)
    emitted, transaction = emitted_at_ns(message, record, event_time_ns), transaction_of(message)
    events: list[Event] = []
    if row is None:
        losses.append(Loss.EMPTY_ROW)
    else:
        events.append(RowChange(op, *row, source, emitted, transaction))
    if message.commit and transaction is not None:
        end = Source(CONNECTOR, event_time_ns, gtid=source.gtid)
        events.append(TransactionMark(is_begin=False, id=transaction.id, source=end, emitted_at_ns=emitted))
    return events


#: Marks a definition that a table no longer has.
_GONE: Final = TableSchema(TableId("", ""), ())


def _part(change: SchemaChange, table: TableId, old: TableId, new: TableId) -> str | None:
    """Return the part of a statement about several tables for the table of its message; None for other
    statements.

    Maxwell sends a message for each table, with the whole text.
    """
    if renames_alone(change) and len(change.renamed) > 1 and old != new:
        return f"{rename_keywords(change.ddl)} {quoted_table(old)} TO {quoted_table(new)}"
    words = keywords_of_drops(change)
    return None if words is None else f"{words} {quoted_table(table)}"


def _declared_table(
    type_: str, declared: object, ddl: DdlMessage, learned: Catalog, table: TableId
) -> TableSchema | None:
    """Return the definition that the message declares beyond its text; `_GONE` if it declares none."""
    if type_ in DATABASES:
        return None
    known = definition_after(learned, ddl, table)
    if type_ == "table-drop":
        return None if known is None else _GONE
    if declared is None:
        return None
    found = defined(declared, table, known)  # type: ignore[arg-type]  # a Definition
    return None if found is known else found
