"""Decoder of TiCDC Avro."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, NamedTuple

import msgspec

from relay.catalog import Catalog, DdlMessage, apply_ddl
from relay.codecs.codec import TracedMessage
from relay.codecs.losses import Loss
from relay.codecs.shared.avro import AvroSchema, Part, RegisteredSchemas
from relay.codecs.shared.checksums import CHECKSUM_VERSION
from relay.codecs.shared.ddl_codes import kinds_of
from relay.codecs.shared.local_times import LocalTimes, event_time_ns, is_local_time
from relay.codecs.shared.rows import PartialRows, TypedRows
from relay.codecs.shared.ticdc import CONNECTOR, is_restored
from relay.codecs.shared.traced_avro import TracedAvroPart
from relay.codecs.shared.unknown_members import with_unknown
from relay.codecs.ticdc_avro.control import (
    DDL,
    DELETE,
    WATERMARK,
    commit_ts_in,
    kind_of,
    statement_in,
)
from relay.codecs.ticdc_avro.options import TicdcAvroOptions
from relay.codecs.ticdc_avro.rows import (
    BEFORE,
    CHECKSUM,
    CHECKSUM_TYPE,
    COMMIT_TS,
    CORRUPTED,
    OP,
    TIME,
    Layout,
    Layouts,
)
from relay.codecs.ticdc_avro.traced import TicdcAvroRow, TracedDelete
from relay.codecs.ticdc_avro.values import NAME
from relay.model.errors import Malformed, UnsupportedMessage
from relay.model.events import (
    TSO_LOGICAL_BITS,
    Event,
    Images,
    Op,
    RowChange,
    SchemaChange,
    Source,
    TableId,
    TableSchema,
    Watermark,
)
from relay.model.limits import check_levels, check_values
from relay.model.lookups import LookupCache
from relay.model.records import TIME_END_MS, ConsumerRecord
from relay.templates.tracing import NotTemplatable, Trace

_OPS: Final = {"c": Op.INSERT, "u": Op.UPDATE, "d": Op.DELETE, "": Op.INSERT}
_NS_PER_MS: Final = 1_000_000
_TSO_BITS: Final = (1 << 64) - 1

Record = Mapping[str, Any]


class _DecodedPart(NamedTuple):
    """A key or a value with its schema; None for a missing part, or one without columns."""

    schema: AvroSchema
    value: Record


class TicdcAvroDecoder:
    """Decodes TiCDC Avro of both architectures."""

    def __init__(self, options: TicdcAvroOptions, answers: LookupCache) -> None:
        self._limits = answers.limits
        self._schemas = RegisteredSchemas(NAME, answers)
        zone = options.zone()
        self._layouts = Layouts(zone, answers.limits)
        self._times = LocalTimes(zone) if options.timezone != "UTC" else None
        self._verifies = options.has_checksums
        self._refuses_corrupted = options.corruption_handle_level == "error"

    def decode(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        """Return the record's event; see `relay.codecs.codec.Decoder`."""
        kind = kind_of(record)
        if kind == DDL:
            return self._ddl(record, catalog, losses)
        if kind == WATERMARK:
            source = _source_at(commit_ts_in(record.value or b""))
            return [
                Watermark(source, record.time_ms(source.event_time_ns // _NS_PER_MS) * _NS_PER_MS)
            ], catalog
        commit_ts = commit_ts_in(record.value or b"") if kind else None
        if record.key is None and (kind or record.value is None):
            # Of a table without a primary key: the row is unknown.
            losses.append(Loss.DELETE)
            return [], catalog
        if kind or record.value is None:
            return [self._deleted(record, commit_ts, catalog, losses)], catalog
        return [self._row(record, catalog, losses)], catalog

    # ------------------------------------------------------------ rows

    def _deleted(
        self, record: ConsumerRecord, commit_ts: int | None, catalog: Catalog, losses: list[Loss]
    ) -> RowChange:
        """Return the change of a deleted row from its key."""
        key = self._part(record, "key")
        if key is None:
            raise Malformed(NAME, "key", "neither a key nor a value")
        source = source_of(commit_ts, None, record, losses)
        source = with_unknown(source, self._layouts.unknown(key.schema, key.value, "key"))
        layout = self._layouts.find(key.schema, key.schema, catalog, source.at(record))
        images = layout.images(key.value, None)
        losses.append(Loss.COLUMNS_ABSENT)
        self._count(layout, images, losses)
        return change_of(Op.DELETE, layout.schema, images, source, record)

    def _row(self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]) -> RowChange:
        found = self._value(record)
        key, has_key = self._key(record)
        row, added = found.value, self._layouts.added(found.schema, found.value)
        op = _op_of(added)
        source = source_of(*_times_of(added), record, losses)
        source = with_unknown(source, self._layouts.unknown(found.schema, row, "value"))
        if key is not None:
            source = with_unknown(source, self._layouts.unknown(key.schema, key.value, "key"))
        layout = self._layouts.find(
            found.schema, None if key is None else key.schema, catalog, source.at(record), has_key=has_key
        )
        if op is Op.DELETE:
            images = layout.images(row, None)
        elif op is Op.UPDATE:
            old = added.get(BEFORE)
            if not isinstance(old, dict):
                old = None
                losses.append(Loss.BEFORE_MISSING)
            images = layout.images(old, row)
        else:
            images = layout.images(None, row)
        if layout.reader.is_partial:
            losses.append(Loss.COLUMNS_ABSENT)
        self._count(layout, images, losses)
        self._check(added, layout, images, op, losses)
        return change_of(op, layout.schema, images, source, record)

    def _value(self, record: ConsumerRecord) -> _DecodedPart:
        """Return the value of a row's message. Raises DecodeError."""
        found = self._part(record, "value")
        if found is None:
            raise Malformed(NAME, "value", "no value")
        return found

    def _key(self, record: ConsumerRecord) -> tuple[_DecodedPart | None, bool]:
        """Return the key, and whether its columns are known. Another converter may have written it."""
        try:
            return self._part(record, "key"), True
        except (Malformed, UnsupportedMessage):
            return None, False

    def _part(self, record: ConsumerRecord, part: Part) -> _DecodedPart | None:
        found = self._schemas.part(record, part)
        if found is None:
            return None
        _, schema, body = found
        if schema.type.kind != "record":
            raise UnsupportedMessage(NAME, part, "not a record, so this is not a message of this protocol")
        return _DecodedPart(schema, schema.read(NAME, part, body))

    def _count(self, layout: Layout, images: TypedRows | PartialRows, losses: list[Loss]) -> None:
        """Count facts missing from a row's definition, and local times that do not exist or are ambiguous."""
        if layout.reader.is_inferred:
            losses.append(Loss.SCHEMA_INFERRED)
        if self._times is None:
            return
        columns = [layout.schema.columns[index] for index in layout.reader.indexes]
        times = [at for at, column in enumerate(columns) if is_local_time(column)]
        rows = [row for row in (images.old, images.new) if row]
        self._times.count([row[at] for row in rows for at in times], losses)

    def _check(self, added: Record, layout: Layout, images: Images, op: Op, losses: list[Loss]) -> None:
        """Count or refuse a row that is marked as corrupted, or does not match its checksum."""
        path = f"value.{CORRUPTED}" if added.get(CORRUPTED) is True else ""
        checksum = _checksum(added) if self._verifies and not path else None
        if checksum is not None and not layout.is_sum(images, checksum, is_old=op is Op.DELETE):
            path = f"value.{CHECKSUM}"
        if path and self._refuses_corrupted:
            raise Malformed(NAME, path, "the row is corrupted: its checksum is not that of its values")
        if path:
            losses.append(Loss.CHECKSUM)

    # ------------------------------------------------------------ templates

    def traced(
        self, record: ConsumerRecord, change: RowChange, catalog: Catalog, trace: Trace
    ) -> TracedMessage:
        """Return the message with traced values; see `TracingDecoder`. Raises NotTemplatable."""
        if self._times is not None and any(map(is_local_time, change.schema.columns)):
            raise NotTemplatable
        if self._verifies or change.source.unknown_fields:
            raise NotTemplatable
        key, has_key = self._key(record)
        is_deleted = record.value is None or kind_of(record) == DELETE
        value = None if is_deleted else self._value(record)
        rows = value or key
        if rows is None or not has_key:
            raise NotTemplatable
        layout = self._layouts.find(
            rows.schema, None if key is None else key.schema, catalog, change.source.at(record)
        )
        if not self._layouts.is_only_table(rows.schema, change.table, catalog):
            raise NotTemplatable
        key_part = _traced_part(record.key, key, layout)
        if value is None:
            value_part = _traced_delete(record.value)
        else:
            value_part = _traced_part(record.value, value, layout)
        row = TicdcAvroRow(record, change, trace, key_part, value_part)
        row.split()
        added = {} if value is None else self._layouts.added(value.schema, value.value)
        commit_ts, time_ms = row.times(*_times_of(added)) if added else (row.commit_ts, None)
        for name in added.keys() & (OP, CORRUPTED):
            value_part.pin(trace, name)
        source = source_of(commit_ts, time_ms, row.record, [])
        images = row.images(layout, key_part if is_deleted else value_part, source.at(row.record), catalog)
        return row.message([change_of(change.op, change.schema, images, source, row.record)])

    # ------------------------------------------------------------ statements

    def _ddl(
        self, record: ConsumerRecord, catalog: Catalog, losses: list[Loss]
    ) -> tuple[list[Event], Catalog]:
        value = record.value or b""
        check_levels(NAME, "value", value)
        check_values(NAME, "value", value, self._limits)
        statement = statement_in(value)
        source = with_unknown(_source_at(statement.commit_ts), statement.unknown)
        message = DdlMessage(
            statement.query,
            TableId(statement.schema, statement.table),
            str(statement.type),
            source,
            source.at(record),
            record.time_ms(source.event_time_ns // _NS_PER_MS) * _NS_PER_MS,
            is_restored(statement.query),
        )
        catalog, change = apply_ddl(catalog, message)
        if not change.kinds:
            losses.append(Loss.DDL_NOT_UNDERSTOOD)
            change = _with_kinds(change, statement.type)
        return [change], catalog


def _traced_part(data: bytes | None, part: _DecodedPart | None, layout: Layout) -> TracedAvroPart:
    """Return the parts of a key or a value that differ between messages. Raises NotTemplatable."""
    if part is None:
        return TracedAvroPart(data, None, None)
    return TracedAvroPart(data, part.schema.type, part.value, layout.unsigned)


def _traced_delete(value: bytes | None) -> TracedAvroPart:
    """Return the value of a deleted row's message, which may have none."""
    return TracedAvroPart(None, None, None) if value is None else TracedDelete(value)


def _times_of(added: Record) -> tuple[int | None, int | None]:
    """Return the commit ts and the time in milliseconds of a row, from the fields that TiCDC adds."""
    commit_ts, time_ms = added.get(COMMIT_TS), added.get(TIME)
    if type(commit_ts) is not int or not commit_ts:
        return None, None
    if type(time_ms) is not int or not time_ms or not -TIME_END_MS <= time_ms < TIME_END_MS:
        time_ms = None
    return commit_ts & _TSO_BITS, time_ms


def source_of(
    commit_ts: int | None, time_ms: int | None, record: ConsumerRecord, losses: list[Loss]
) -> Source:
    """Return the source of a row. Without a commit ts its message has no time, which is counted."""
    if commit_ts is None:
        return Source(CONNECTOR, event_time_ns(None, None, record, losses))
    if time_ms is None:
        return _source_at(commit_ts)
    return Source(CONNECTOR, time_ms * _NS_PER_MS, commit_ts)


def change_of(
    op: Op, schema: TableSchema, images: Images, source: Source, record: ConsumerRecord
) -> RowChange:
    """Return the change of a row. Its message was sent at the record's time."""
    emitted_at_ns = record.time_ms(source.event_time_ns // _NS_PER_MS) * _NS_PER_MS
    return RowChange(op, schema, images, source, emitted_at_ns)


def _op_of(added: Record) -> Op:
    """Return the operation of a row, from the fields that TiCDC adds. Raises UnsupportedMessage."""
    op_text = added.get(OP)
    if op_text is None:
        op_text = ""
    op = _OPS.get(op_text) if isinstance(op_text, str) else None
    if op is None:
        raise UnsupportedMessage(NAME, f"value.{OP}", "not one of c, u, d")
    return op


_CHECKSUM_DIGITS: Final = 10


def _checksum(added: Record) -> int | None:
    """Return the checksum of a row; None without one, or for another algorithm; -1 for an invalid one."""
    text, version = added.get(CHECKSUM), added.get(CHECKSUM_TYPE)
    if not isinstance(text, str) or not text or (isinstance(version, int) and version > CHECKSUM_VERSION):
        return None
    return int(text) if text.isascii() and text.isdigit() and len(text) <= _CHECKSUM_DIGITS else -1


def _with_kinds(change: SchemaChange, code: int) -> SchemaChange:
    """Return a statement that was not understood with the kinds of its number."""
    return msgspec.structs.replace(change, kinds=kinds_of(code))


def _source_at(commit_ts: int) -> Source:
    return Source(CONNECTOR, (commit_ts >> TSO_LOGICAL_BITS) * _NS_PER_MS, commit_ts)
