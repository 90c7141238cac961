"""Encoder of Simple, for both encodings.

A definition precedes the rows that refer to it: with its statement, which goes to every partition; with a
BOOTSTRAP, if the source has one; and for a definition that no message declared, with a BOOTSTRAP before the
rows themselves. The output depends only on the record and on the definition of its table.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Final

import msgspec

from relay.codecs.codec import EncodedRecord
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.shared.caches import CachePool
from relay.codecs.shared.checksums import CHECKSUM_VERSION, row_checksum
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.large_messages import SizeLimit, claim_check_document, compressed
from relay.codecs.shared.row_writing import RowTarget, TypedWriters
from relay.codecs.shared.rows import TypeInfo
from relay.codecs.shared.shaping import op_without_before
from relay.codecs.shared.ticdc import commit_ts_of, handle_key_indexes, per_table_statements, split_updates
from relay.codecs.simple.ddl_types import ddl_type
from relay.codecs.simple.decoder import DIALECT, PRE_SCHEMA, SCHEMA
from relay.codecs.simple.definitions import TableEntry, are_names, read_entry, table_entry
from relay.codecs.simple.messages import (
    BOOTSTRAP,
    VERSION,
    WATERMARK,
    WORDS,
    Checksum,
    Image,
    SimpleMessage,
    SimpleWire,
)
from relay.codecs.simple.options import SimpleOptions, carries
from relay.codecs.simple.values import location_of
from relay.model.errors import NotRepresentable
from relay.model.events import (
    Bootstrap,
    Column,
    DdlKind,
    Event,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    TableSchema,
    Watermark,
)
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import refuse_traced

_NS_PER_MS: Final = 1_000_000
_UPDATE: Final = Op.UPDATE
_READ: Final = Op.READ


class _SimplePlan(msgspec.Struct, frozen=True):
    """The encoder's facts of a definition: its entry, and the names of the handle key."""

    entry: TableEntry
    handle_key: frozenset[str]


#: Memory of a column in a plan (measured with CPython 3.11).
_PLAN_COLUMN_BYTES: Final = 700


class _SimpleTarget(RowTarget[_SimplePlan]):
    """The row target for Simple. `lost`: losses of the last row's values."""

    def __init__(self, wire: SimpleWire, zone_name: str) -> None:
        self._wire = wire
        self._zone, self._location = location_of(zone_name)
        self.lost: list[Loss] = []

    def plan(self, schema: TableSchema) -> _SimplePlan:
        """Return the plan of a definition. Raises NotRepresentable for a table or a column without a name,
        and for two columns of one name.
        """
        if not schema.id.database or not schema.id.table:
            what = "table" if schema.id.database else "database"
            raise NotRepresentable(
                self._wire.name, "", f"a row without the name of its {what}, which readers must know"
            )
        if not are_names([column.name for column in schema.columns]):
            raise NotRepresentable(self._wire.name, "", "a column without a name, or two of one")
        identity = frozenset(schema.columns[at].name for at in handle_key_indexes(schema))
        return _SimplePlan(table_entry(schema, is_numbered=True), identity)

    def plan_bytes(self, plan: _SimplePlan) -> int:
        """Return the approximate memory of a plan in bytes."""
        return _PLAN_COLUMN_BYTES * len(plan.entry.columns)

    def losses(self, plan: _SimplePlan, type_info: TypeInfo) -> tuple[Loss, ...]:  # noqa: ARG002 - definitions have all types
        """Return nothing: a definition has types and their parameters."""
        return ()

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values."""
        return self._wire.write_of(column.type, self._zone, self._location, self._unmoved)

    def _unmoved(self) -> None:
        self.lost.append(Loss.ZERO_DATE)


class SimpleEncoder:
    """Encodes Simple as TiCDC's new architecture does."""

    def __init__(self, wire: SimpleWire, options: SimpleOptions, answers: LookupCache) -> None:
        self._wire, self._options = wire, options
        self.prepare = None if options.output_raw_change_event else split_updates
        self._compression = options.large_message_handle_compression
        self._every = options.send_bootstrap_in_msg_count
        self._has_checksums = options.integrity_check_level != "none"
        self._has_start_ts = options.has_start_ts
        self._count_lost = source_losses(carries(options))
        of_rows = carries(options)
        beside_rows = msgspec.structs.replace(of_rows, start_ts=False, physical_partition=False)
        self._count_lost_beside_rows = source_losses(beside_rows)
        self._limit = SizeLimit(wire.name, options)
        target = _SimpleTarget(wire, options.timezone)
        self._lost = target.lost
        self._rows = TypedWriters(wire.name, target, CachePool(answers.limits.cache_bytes))

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        """Yield the events' messages, one each, and those of definitions that rows need; see
        `relay.codecs.codec.Encoder`.
        """
        written: set[TableSchema] = set()
        # The last of so many offsets; a comparison is possible for any offset of a template.
        is_due = self._every > 0 and source_record.offset % self._every >= self._every - 1
        for event in events:
            match event:
                case RowChange(schema=schema):
                    plan = self._rows.plan(schema)
                    if (is_due or not schema.complete) and schema not in written:
                        refuse_traced(event.emitted_at_ns)  # once for all rows of a record
                        written.add(schema)
                        yield self._definition(plan.entry, event.emitted_at_ns)
                    yield self._row(event, plan, source_record, losses)
                case SchemaChange():
                    yield from self._statement(event, source_record, losses)
                case Bootstrap():
                    yield self._bootstrap(event, losses)
                case Watermark():
                    self._count_lost_beside_rows(event.source, losses)
                    yield self._payload(_message(WATERMARK, event.source.commit_ts or 0, event.emitted_at_ns))
                case _:
                    losses.append(loss_of(event))

    def _payload(self, message: SimpleMessage) -> EncodedRecord:
        return EncodedRecord(None, compressed(self._wire.write(message), self._compression))

    # ------------------------------------------------------------ rows

    def _row(
        self, change: RowChange, plan: _SimplePlan, source_record: ConsumerRecord, losses: list[Loss]
    ) -> EncodedRecord:
        source, lost = change.source, self._lost
        if lost:
            lost.clear()
        _, before, after, row_losses = self._rows.write(change)
        losses += row_losses
        if lost:
            losses += lost
        entry, partition = plan.entry, source.physical_partition
        message = SimpleMessage(
            version=VERSION,
            type=WORDS[self._op(change, before, losses)],
            commit_ts=commit_ts_of(source, source_record, losses),
            build_ts=change.emitted_at_ns // _NS_PER_MS,
            database=entry.schema,
            table=entry.table,
            table_id=entry.tableID if partition is None else partition,
            schema_version=entry.version,
            checksum=self._checksum(change) if self._has_checksums else None,
            data=after,
            old=before,
        )
        if self._has_start_ts and source.start_ts is not None:
            message.start_ts = source.start_ts
        self._count_lost(source, losses, change.transaction)
        payload = self._payload(message)
        if self._limit.exceeded(payload):
            return self._reduced(change, plan, message, payload, source_record, losses)
        return payload

    def _op(self, change: RowChange, before: object, losses: list[Loss]) -> Op:
        op = change.op
        if op is _READ and not change.source.snapshot:
            losses.append(Loss.SNAPSHOT)
        if op is _UPDATE and before is None:
            return op_without_before(self._options.missing_before, self._wire.name)
        return op

    def _checksum(self, change: RowChange) -> Checksum | None:
        """Return the checksums of both rows; None if one is unknown, or if both rows hold only NULLs."""
        schema, rows = change.schema, (change.after, change.before)
        sums = [0 if row is None else row_checksum(schema, row) for row in rows]
        if sums[0] is None or sums[1] is None or not any(sums):
            return None
        return Checksum(CHECKSUM_VERSION, False, sums[0], sums[1])

    def _reduced(
        self,
        change: RowChange,
        plan: _SimplePlan,
        message: SimpleMessage,
        payload: EncodedRecord,
        source_record: ConsumerRecord,
        losses: list[Loss],
    ) -> EncodedRecord:
        """Return the message of a row that is too large for Kafka; see `SizeLimit.reduce`."""

        def reduced(location: str | None) -> EncodedRecord:
            small = msgspec.structs.replace(
                message,
                claim_check_location=location,
                handle_key_only=True,
                data=_only(message.data, plan.handle_key),
                old=_only(message.old, plan.handle_key),
            )
            return self._payload(small)

        return self._limit.reduce(
            payload, change, source_record, losses, reduced=reduced, stored=self._stored
        )

    def _stored(self, payload: EncodedRecord) -> bytes:
        value = payload.value or b""
        return value if self._options.claim_check_raw_value else claim_check_document(None, value)

    # ------------------------------------------------------------ definitions

    def _definition(self, entry: TableEntry, emitted_at_ns: int) -> EncodedRecord:
        return self._payload(_message(BOOTSTRAP, 0, emitted_at_ns, table_schema=entry))

    def _bootstrap(self, event: Bootstrap, losses: list[Loss]) -> EncodedRecord:
        if event.source.commit_ts is not None:
            losses.append(Loss.COMMIT_TS)
        self._count_lost_beside_rows(event.source, losses)
        change = event.table_change
        if change is not None and change.dialect == DIALECT:
            return self._definition(read_entry(change.wire), event.emitted_at_ns)
        return self._definition(table_entry(event.schema, is_numbered=True), event.emitted_at_ns)

    def _statement(
        self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        commit_ts, type_ = commit_ts_of(change.source, source_record, losses), ddl_type(change)
        self._count_lost_beside_rows(change.source, losses)
        entries, written = _entries(change), set[TableId]()
        for table, ddl in per_table_statements(change):
            main, other = _tables(change, table)
            written |= {main} if other is None else {main, other}
            entry = entries.get(main)
            if entry is None and main.table:
                losses.append(Loss.TABLE_DEFINITION)
            message = _message(type_, commit_ts, change.emitted_at_ns, table_schema=entry)
            message.sql = ddl
            message.pre_table_schema = None if other is None else entries.get(other)
            yield self._payload(message)
        # A source may declare tables that its statement does not name; their rows need them.
        for schema in change.definitions:
            if schema.id in entries and schema.id not in written:
                yield self._definition(entries[schema.id], change.emitted_at_ns)


def _tables(change: SchemaChange, table: TableId) -> tuple[TableId, TableId | None]:
    """Return the tables of `tableSchema` and `preTableSchema` in a message about this table's statement."""
    declared = {each.name: each.table for each in change.table_changes if each.dialect == DIALECT}
    if declared:
        return declared.get(SCHEMA, table), declared.get(PRE_SCHEMA)
    if change.kinds[:1] == (DdlKind.EXCHANGE_PARTITION,) and len(change.targets) > 1:
        return change.targets[0], change.targets[1]
    return table, None


def _message(
    type_: str, commit_ts: int, emitted_at_ns: int, table_schema: TableEntry | None = None
) -> SimpleMessage:
    return SimpleMessage(
        version=VERSION,
        type=type_,
        commit_ts=commit_ts,
        build_ts=emitted_at_ns // _NS_PER_MS,
        table_schema=table_schema,
    )


def _only(image: Image | None, names: frozenset[str]) -> Image | None:
    return None if image is None else {name: value for name, value in image.items() if name in names}


def _entries(change: SchemaChange) -> dict[TableId, TableEntry]:
    """Return the entries of a statement's tables: the source's, else those of their definitions."""
    schemas = (*change.dropped_tables(), *change.views, *change.definitions)
    if change.after is not None:
        schemas = (*schemas, change.after)
    # A statement without a database has tables that no reader could find by name.
    named = [schema for schema in schemas if schema.id.database and schema.id.table]
    entries = {schema.id: table_entry(schema, is_numbered=True) for schema in named}
    declared = [each for each in change.table_changes if each.dialect == DIALECT]
    return entries | {each.table: read_entry(each.wire) for each in declared}
