"""Encoder of Open Protocol, as written by TiCDC's new architecture."""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.open_protocol.frames import (
    DDL,
    LENGTH_BYTES,
    NAME,
    NO_VALUE,
    RESOLVED,
    ROW,
    framed_key,
    framed_value,
)
from relay.codecs.open_protocol.options import OpenOptions, carries
from relay.codecs.open_protocol.values import HANDLE_KEY, column_code, column_flags, loses_type, write_of
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.ddl_codes import code_of
from relay.codecs.shared.large_messages import SizeLimit, claim_check_document, compressed
from relay.codecs.shared.row_writing import RowTarget, TypedWriters
from relay.codecs.shared.rows import TypedReader, TypeInfo
from relay.codecs.shared.shaping import op_without_before
from relay.codecs.shared.ticdc import (
    commit_ts_of,
    handle_key_indexes,
    lacks_handle_key,
    per_table_statements,
    printed,
    split_updates,
)
from relay.model.errors import NotRepresentable
from relay.model.events import Column, Event, Op, RowChange, SchemaChange, TableSchema, Watermark
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import mark_of

#: TiCDC reads flags as unsigned 64-bit numbers, of which eight bits have a meaning.
_FLAGS_END: Final = 1 << 64
_KNOWN_FLAGS: Final = 0xFF

_DELETE: Final = Op.DELETE
_UPDATE: Final = Op.UPDATE
_READ: Final = Op.READ

_to_json = msgspec.json.Encoder(enc_hook=mark_of).encode


class _OutCell(msgspec.Struct, gc=False):
    """A written column: `h` is true or missing."""

    t: int
    h: bool | UnsetType
    f: int
    v: Any


#: A column's code, `h` and flags.
_ColumnCell = tuple[int, bool | UnsetType, int]


class _OpenProtocolPlan(msgspec.Struct, frozen=True):
    """The encoder's facts of a table: each column's code, `h` and flags, the columns of its handle key
    (`handle_key`: all columns of a table without one), the number of columns, and whether it has types that
    the protocol lacks.

    A row that lacks part of the handle key marks no column as part of it.
    """

    cells: dict[str, _ColumnCell]
    handle: frozenset[str]
    handle_key: frozenset[str]
    width: int
    loses_type: bool


#: Memory of a column in a plan (measured with CPython 3.11).
_PLAN_COLUMN_BYTES: Final = 150


class _OpenProtocolTarget(RowTarget[_OpenProtocolPlan]):
    """The row target for Open Protocol. `lost`: losses of the last row's values."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self.lost: list[Loss] = []
        self._unmoved = functools.partial(self.lost.append, Loss.ZERO_DATE)

    def plan(self, schema: TableSchema) -> _OpenProtocolPlan:
        """Return the plan of a table version. Raises NotRepresentable for a table without a name."""
        if not schema.id.database or not schema.id.table:
            what = "table" if schema.id.database else "database"
            raise NotRepresentable(
                NAME, "", f"a row without the name of its {what}, which every key must have"
            )
        flags = column_flags(schema)
        handle = frozenset(schema.handle_key())
        cells = {
            c.name: (column_code(c.type), True if c.name in handle else UNSET, flags[c.name])
            for c in schema.columns
        }
        identity = frozenset(schema.columns[at].name for at in handle_key_indexes(schema))
        width = len(cells.keys() | handle)
        return _OpenProtocolPlan(
            cells, handle, identity, width, any(loses_type(column.type) for column in schema.columns)
        )

    def plan_bytes(self, plan: _OpenProtocolPlan) -> int:
        """Return the approximate memory of a plan in bytes."""
        return _PLAN_COLUMN_BYTES * len(plan.cells)

    def plan_of(self, reader: TypedReader, plan: _OpenProtocolPlan) -> _OpenProtocolPlan:
        """Return the plan with the flags of the messages, if they are Open Protocol themselves."""
        if reader.protocol != NAME or not reader.wire:
            return plan
        differing = {
            name: (
                plan.cells[name][0],
                True if flags & HANDLE_KEY else UNSET,
                flags if 0 <= flags < _FLAGS_END else flags & _KNOWN_FLAGS,
            )
            for name, flags in reader.wire.items()
        }
        cells = {name: plan.cells[name] for name in reader.names}
        if cells | differing == cells:
            return plan
        return msgspec.structs.replace(plan, cells=cells | differing, handle=frozenset())

    def losses(self, plan: _OpenProtocolPlan, type_info: TypeInfo) -> tuple[Loss, ...]:
        """Return the losses of every row of a table: types without a code, and parameters."""
        losses = {Loss.COLUMN_TYPE: plan.loses_type, Loss.TYPE_PARAMETERS: type_info.parameters}
        return tuple(what for what, is_lost in losses.items() if is_lost)

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values."""
        return write_of(column.type, self._zone, self._unmoved)


class _Segments(msgspec.Struct, gc=False):
    """One event before framing."""

    key: bytes
    value: bytes


class _RowBatch:
    """Rows of one source record that share a message."""

    def __init__(self, most_rows: int, free_bytes: int) -> None:
        self._most_rows, self._free_bytes = most_rows, free_bytes
        self._rows: list[_Segments] = []

    def add(self, row: _Segments) -> bool:
        """Add a row; False if the message is full. An empty one takes every row."""
        free_bytes = self._free_bytes - len(row.key) - len(row.value) - 2 * LENGTH_BYTES
        if self._rows and (free_bytes < 0 or len(self._rows) >= self._most_rows):
            return False
        self._rows.append(row)
        self._free_bytes = free_bytes
        return True

    def taken(self) -> list[EncodedRecord]:
        """Return the message, if there is one."""
        rows = self._rows
        if not rows:
            return []
        return [EncodedRecord(framed_key(one.key for one in rows), framed_value(one.value for one in rows))]


class OpenProtocolEncoder:
    """Encodes Open Protocol as TiCDC's new architecture does."""

    def __init__(self, options: OpenOptions, answers: LookupCache) -> None:
        self._options = options
        self.prepare = None if options.output_raw_change_event else split_updates
        self._compression = options.large_message_handle_compression
        self._count_lost = source_losses(carries(options))
        beside_rows = msgspec.structs.replace(carries(options), physical_partition=False)
        self._count_lost_beside_rows = source_losses(beside_rows)
        self._limit = SizeLimit(NAME, options, framing=LENGTH_BYTES * 3)
        target = _OpenProtocolTarget(options.zone())
        self._lost = target.lost
        self._rows = TypedWriters(NAME, target, CachePool(answers.limits.cache_bytes))

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the events' messages: rows up to `max-batch-size` in one, all others alone; see
        `relay.codecs.codec.Encoder`.
        """
        batch = self._batch()
        for event in events:
            if isinstance(event, RowChange):
                message = self._row(event, source_record, losses)
                payload = EncodedRecord(message.key, message.value)
                if self._limit.exceeded(payload):
                    yield from batch.taken()
                    yield self._reduced(event, payload, source_record, losses)
                    batch = self._batch()
                elif not batch.add(message):
                    yield from batch.taken()
                    batch = self._batch()
                    batch.add(message)
                continue
            yield from batch.taken()
            batch = self._batch()
            yield from self._control(event, source_record, losses)
        yield from batch.taken()

    def _batch(self) -> _RowBatch:
        return _RowBatch(self._options.max_batch_size, self._limit.free_bytes + 2 * LENGTH_BYTES)

    def _row(self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]) -> _Segments:
        key = self._row_key(change, source_record, losses)
        lost = self._lost
        if lost:
            lost.clear()
        document = self._document(change, losses)
        if lost:
            losses += lost
        return _Segments(_to_json(key), compressed(printed(document), self._compression))

    def _row_key(
        self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> dict[str, Any]:
        source, table = change.source, change.schema.id
        key: dict[str, Any] = {
            "ts": commit_ts_of(source, source_record, losses),
            "scm": table.database,
            "tbl": table.table,
            "t": ROW,
        }
        if source.physical_partition is not None:
            key["ptn"] = source.physical_partition
        self._count_lost(source, losses, change.transaction)
        return key

    def _document(self, change: RowChange, losses: list[Loss], *, only_key: bool = False) -> dict[str, Any]:
        """Return the value: `u` with or without `p`, or `d`; `only_key` for messages that must be small."""
        options = self._options
        plan, before, after, row_losses = self._rows.write(change)
        losses += row_losses
        if change.op is _READ and not change.source.snapshot:
            losses.append(Loss.SNAPSHOT)
        keys = plan.handle_key if only_key else None
        if change.op is _DELETE:
            if options.delete_only_output_handle_key_columns and not only_key:
                if lacks_handle_key(change, before, losses):
                    return {"d": _out_cells(_marked(plan, before), before, None)}
                keys = plan.handle_key
                if len(keys) < len(before):
                    losses.append(Loss.DELETE_IMAGE)
            return {"d": _out_cells(_marked(plan, before), before, keys)}
        cells = _marked(plan, after)
        document = {"u": _out_cells(cells, after, keys)}
        if change.op is not _UPDATE:
            return document
        if before is None or not options.output_old_value:
            self._count_lost_old(before, losses)
            return document
        if options.only_output_updated_columns:
            before = {
                name: value for name, value in before.items() if name not in after or value != after[name]
            }
        document["p"] = _out_cells(cells, before, keys)
        return document

    def _count_lost_old(self, old: object, losses: list[Loss]) -> None:
        """Count the losses of an UPDATE without `p`. Raises NotRepresentable if the options refuse it."""
        if old is not None:
            losses.append(Loss.BEFORE_IMAGE)
        elif self._options.output_old_value:
            op_without_before(self._options.missing_before, NAME)

    def _reduced(
        self, change: RowChange, payload: EncodedRecord, source_record: ConsumerRecord, losses: list[Loss]
    ) -> EncodedRecord:
        """Return the message of a row that is too large for Kafka; see `SizeLimit.reduce`."""

        def reduced(location: str | None) -> EncodedRecord:
            key = self._row_key(change, source_record, [])
            if location is None:
                key["ohk"] = True
            else:
                key["ccl"] = location
            value = compressed(printed(self._document(change, [], only_key=True)), self._compression)
            return EncodedRecord(_to_json(key), value)

        def stored(whole: EncodedRecord) -> bytes:
            return claim_check_document(framed_key([whole.key or b""]), framed_value([whole.value or b""]))

        small = self._limit.reduce(payload, change, source_record, losses, reduced=reduced, stored=stored)
        return EncodedRecord(framed_key([small.key or b""]), framed_value([small.value or b""]), small.blobs)

    def _control(
        self, event: Event, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        if isinstance(event, Watermark):
            self._count_lost_beside_rows(event.source, losses)
            key = _to_json({"ts": event.source.commit_ts or 0, "t": RESOLVED})
            yield EncodedRecord(framed_key([key]), NO_VALUE)
            return
        if not isinstance(event, SchemaChange):
            losses.append(loss_of(event))
            return
        commit_ts, code = commit_ts_of(event.source, source_record, losses), code_of(event)
        self._count_lost_beside_rows(event.source, losses)
        for table, ddl in per_table_statements(event):
            key = _to_json({"ts": commit_ts, "scm": table.database, "tbl": table.table, "t": DDL})
            value = compressed(printed({"q": ddl, "t": code}), self._compression)
            yield EncodedRecord(framed_key([key]), framed_value([value]))


def _marked(plan: _OpenProtocolPlan, values: Mapping[str, Any]) -> Mapping[str, _ColumnCell]:
    """Return the cells of a row's columns. `values`: the image that identifies it, `u` or `d`."""
    if len(values) < plan.width and not values.keys() >= plan.handle:
        return {name: (code, UNSET, flags & ~HANDLE_KEY) for name, (code, _, flags) in plan.cells.items()}
    return plan.cells


def _out_cells(
    cells: Mapping[str, _ColumnCell], values: Mapping[str, Any], keys: frozenset[str] | None
) -> dict[str, _OutCell]:
    return {
        name: _OutCell(*cells[name], value) for name, value in values.items() if keys is None or name in keys
    }
