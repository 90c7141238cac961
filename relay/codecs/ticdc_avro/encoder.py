"""Encoder of TiCDC Avro."""

from __future__ import annotations

import functools
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import tzinfo
from typing import Any, Final

import msgspec

from relay.codecs.codec import ChosenKey, Encode, EncodedRecord, chooses_none
from relay.codecs.losses import Loss, loss_of, source_losses
from relay.codecs.row_keys import without_key
from relay.codecs.shared.avro import Part, SchemaIds, compact, is_full_name, subject_of
from relay.codecs.shared.avro_writing import value_writer, written
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.checksums import CHECKSUM_VERSION, row_checksum
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.ddl_codes import code_of
from relay.codecs.shared.row_writing import RowTarget, TypedWriters
from relay.codecs.shared.rows import TypeInfo
from relay.codecs.shared.ticdc import commit_ts_of, per_table_statements, split_chosen_keys, split_updates
from relay.codecs.shared.traced_avro import traced_body
from relay.codecs.ticdc_avro.control import DELETE, WATERMARK, TicdcAvroDdl, statement_value, with_commit_ts
from relay.codecs.ticdc_avro.options import TicdcAvroOptions, carries
from relay.codecs.ticdc_avro.rows import (
    ADDED,
    BEFORE,
    CHECKSUM,
    CHECKSUM_TYPE,
    COMMIT_TS,
    CORRUPTED,
    OP,
    TIME,
)
from relay.codecs.ticdc_avro.values import (
    NAME,
    Modes,
    field_schema,
    loses_type,
    sanitized,
    subject_topic,
    write_of,
)
from relay.model.avro_types import parse_types
from relay.model.errors import NotRepresentable
from relay.model.events import Column, Event, Generated, Op, RowChange, SchemaChange, TableSchema, Watermark
from relay.model.lookups import LookupCache
from relay.model.records import ConsumerRecord
from relay.templates.tracing import NotTemplatable, Traced

_NS_PER_MS: Final = 1_000_000
_OP_TEXTS: Final = {Op.INSERT: "c", Op.READ: "c", Op.UPDATE: "u", Op.DELETE: "d"}
_MOST_TOPICS: Final = 10_000
#: Memory of a column in a plan, and of a schema per byte of its text.
_PLAN_COLUMN_BYTES: Final = 600
_SCHEMA_FACTOR: Final = 30
_SCHEMA_BYTES: Final = 1_000
#: Fields after the columns, with their defaults.
_OP_FIELD: Final = {"default": "", "name": OP, "type": "string"}
_TIME_FIELDS: Final = (
    {"default": 0, "name": COMMIT_TS, "type": "long"},
    {"default": 0, "name": TIME, "type": "long"},
)
_CHECKSUM_FIELDS: Final = (
    {"default": "", "name": CHECKSUM, "type": "string"},
    {"default": False, "name": CORRUPTED, "type": "boolean"},
    {"default": 0, "name": CHECKSUM_TYPE, "type": "int"},
)

Json = dict[str, Any]
#: The columns of a row, and those of its old row, None if rows have none.
_Names = tuple[tuple[str, ...], tuple[str, ...] | None]


class _TicdcAvroPlan(msgspec.Struct, frozen=True, eq=False):
    """The encoder's facts of a table: its record's name and namespace; the fields of the columns in rows, by
    name, and these names; the names of the columns that a rule chooses for the key or of the primary key, in
    order.

    `absent`: columns that rows of other sources lack and that are written as NULL: virtual ones.
    """

    name: str
    namespace: str
    fields: Mapping[str, Json]
    names: tuple[str, ...]
    key: tuple[str, ...]
    absent: tuple[str, ...]
    losses: tuple[Loss, ...]


class _TicdcAvroTarget(RowTarget[_TicdcAvroPlan]):
    """The row target for TiCDC Avro. `lost`: losses of the last row's values."""

    has_virtual = True

    def __init__(self, options: TicdcAvroOptions, zone: tzinfo, chosen: ChosenKey) -> None:
        self._modes: Modes = options.modes
        self._keyspace, self._zone, self._chosen = options.keyspace, zone, chosen
        self.has_before = options.avro_include_before_value
        self.lost: list[Loss] = []
        self._unmoved = functools.partial(self.lost.append, Loss.ZERO_DATE)
        self._unlabeled = functools.partial(self.lost.append, Loss.ENUM_INDEX)

    def plan(self, schema: TableSchema) -> _TicdcAvroPlan:
        """Return the plan of a table version.

        Raises NotRepresentable for a table without a name, and for columns that would share a name.
        """
        table = schema.id
        if not table.database or not table.table:
            what = "table" if table.database else "database"
            raise NotRepresentable(NAME, "", f"a row without the name of its {what}, which schemas must have")
        columns = self.columns_of(schema)
        _check_names(schema, columns)
        name, namespace = sanitized(table.table), f"{sanitized(self._keyspace)}.{sanitized(table.database)}"
        if not is_full_name(f"{namespace}.{name}"):
            raise NotRepresentable(NAME, "", "a table whose name Avro cannot have")
        is_renamed = (name, sanitized(table.database)) != (table.table, table.database) or any(
            column.name != own.name for column, own in zip(columns, schema.columns, strict=True)
        )
        lost = {
            Loss.COLUMN_TYPE: any(loses_type(column.type) for column in columns),
            Loss.COLUMN_NAMES: is_renamed,
        }
        key = self._chosen(table) or schema.primary_key or ()
        return _TicdcAvroPlan(
            name,
            namespace,
            {column.name: field_schema(column, self._modes, table.database) for column in columns},
            tuple([column.name for column in columns]),
            _in_table_order(key, schema),
            tuple([c.name for c in columns if c.generated is Generated.VIRTUAL and c.nullable is not False]),
            tuple([what for what, is_lost in lost.items() if is_lost]),
        )

    def plan_bytes(self, plan: _TicdcAvroPlan) -> int:
        """Return the approximate memory of a plan in bytes."""
        return _PLAN_COLUMN_BYTES * len(plan.fields)

    def columns_of(self, schema: TableSchema) -> Sequence[Column]:
        """Return a table's columns with their names in Avro. Columns of the primary key cannot be NULL."""
        key = schema.primary_key or ()
        return [
            msgspec.structs.replace(
                column,
                name=sanitized(column.name),
                nullable=column.nullable is not False and column.name not in key,
            )
            for column in schema.columns
        ]

    def losses(self, plan: _TicdcAvroPlan, type_info: TypeInfo) -> tuple[Loss, ...]:
        """Return the losses of every row of a table: names, unnamed types, and parameters."""
        return (*plan.losses, Loss.TYPE_PARAMETERS) if type_info.parameters else plan.losses

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values."""
        return write_of(column, self._modes, self._zone, self._unmoved, self._unlabeled)


def _in_table_order(key: Sequence[str], schema: TableSchema) -> tuple[str, ...]:
    """Return a key's columns by their names in Avro, in table order; those missing in the table come last."""
    names = [column.name for column in schema.columns]
    present = [name for name in names if name in key]
    return tuple(map(sanitized, [*present, *(name for name in key if name not in names)]))


def _check_names(schema: TableSchema, columns: Sequence[Column]) -> None:
    """Refuse columns that would share a name, or have the name of a field that TiCDC adds."""
    counted = Counter(column.name for column in columns)
    for own, column in zip(schema.columns, columns, strict=True):
        if counted[column.name] > 1:
            raise NotRepresentable(NAME, own.name, f"another column is {column.name!r} in Avro, too")
        if column.name in ADDED:
            raise NotRepresentable(NAME, own.name, "the name of a field that TiCDC adds")


class TicdcAvroEncoder:
    """Encodes TiCDC Avro as TiCDC's new architecture does."""

    def __init__(
        self, options: TicdcAvroOptions, answers: LookupCache, chosen: ChosenKey = chooses_none
    ) -> None:
        self._options, self._chosen = options, chosen
        self._has_extension = options.enable_tidb_extension
        self._has_before = options.avro_include_before_value
        self._has_control = options.avro_enable_watermark
        self._has_checksums = options.has_checksums
        self._count_lost = source_losses(carries(options))
        target = _TicdcAvroTarget(options, options.zone(), chosen)
        self._lost = target.lost
        pool = CachePool(answers.limits.cache_bytes)
        self._rows = TypedWriters(NAME, target, pool)
        self._schemas: ByteCache[tuple[object, ...], _Schema] = pool.cache()
        self._ids = SchemaIds(answers, pool)
        #: The bytes before the Avro of a topic's messages, and its schema.
        self._heads: ByteCache[tuple[object, ...], tuple[bytes, _Schema]] = pool.cache()
        self._topics: dict[str, Encode] = {}

    @property
    def prepare(self) -> Any:  # noqa: ANN401 - see Encoder
        """Split updates of keys, as TiCDC does, and of chosen columns."""
        split = None if self._options.output_raw_change_event else split_updates
        if self._chosen is chooses_none:
            return split
        return functools.partial(_prepared, split is not None, self._chosen)

    def for_topic(self, topic: str) -> Encode:
        """Return the encoding function for a topic; see `TopicEncoder`."""
        found = self._topics.get(topic)
        if found is None:
            if len(self._topics) >= _MOST_TOPICS:
                self._topics.clear()
            found = self._topics[topic] = functools.partial(self._encode, subject_topic(topic))
        return found

    def encode(
        self, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterable[EncodedRecord]:
        """Return the events' messages for the topic of their record; see `relay.codecs.codec.Encoder`."""
        return self._encode(subject_topic(source_record.topic), events, source_record, losses)

    def _encode(
        self, topic: str, events: Sequence[Event], source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        for event in events:
            if isinstance(event, RowChange):
                payload = self._row(topic, event, source_record, losses)
                if payload is not None:
                    yield payload
            else:
                yield from self._control(event, source_record, losses)

    # ------------------------------------------------------------ rows

    def _row(
        self, topic: str, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> EncodedRecord | None:
        lost, op = self._lost, change.op
        lost.clear()
        plan, before, after, row_losses = self._rows.write(change)
        losses += row_losses
        if op is Op.UPDATE and not self._has_before and change.before is not None:
            losses.append(Loss.BEFORE_IMAGE)
        if op is Op.READ and not change.source.snapshot:
            losses.append(Loss.SNAPSHOT)
        row = before if op is Op.DELETE else after
        key = self._key(topic, change, plan, row)
        if op is Op.DELETE and not self._has_before:
            return self._deleted(plan, key, change, source_record, losses)
        commit_ts = self._commit_ts(change, source_record, losses)
        self._count_lost(change.source, losses, change.transaction)
        value = self._value(topic, change, plan, (before, row), commit_ts)
        losses += lost
        return EncodedRecord(key, value)

    def _commit_ts(self, change: RowChange, source_record: ConsumerRecord, losses: list[Loss]) -> int:
        """Return the commit ts of a row's message; 0 if it has none, and its time is that of its record."""
        if self._has_extension:
            return commit_ts_of(change.source, source_record, losses)
        _count_time(change, source_record, losses)
        return 0

    def _deleted(
        self,
        plan: _TicdcAvroPlan,
        key: bytes | None,
        change: RowChange,
        source_record: ConsumerRecord,
        losses: list[Loss],
    ) -> EncodedRecord | None:
        """Return the message of a deleted row: its key; None if its table has none, so that no reader could
        find the row.
        """
        if key is None:
            losses.append(Loss.DELETE)
            return None
        value = None
        if self._has_control:
            value = with_commit_ts(DELETE, commit_ts_of(change.source, source_record, losses))
        else:
            _count_time(change, source_record, losses)
            if self._has_extension and change.source.commit_ts is not None:
                losses.append(Loss.COMMIT_TS)
        self._count_lost(change.source, losses, change.transaction)
        if len(plan.key) < len(plan.fields):
            losses.append(Loss.DELETE_IMAGE)
        return EncodedRecord(key, value)

    def _key(self, topic: str, change: RowChange, plan: _TicdcAvroPlan, row: Json) -> bytes | None:
        chosen = self._chosen(change.table)
        names = plan.key
        key = {name: row[name] for name in names if name in row}
        if len(key) < len(names) and chosen:
            has = {column.name for column in change.schema.columns if sanitized(column.name) in row}
            raise without_key(NAME, change.table, chosen, has)
        if not names or len(key) < len(names):
            return None
        return self._framed(topic, "key", plan, (names, None), key)

    def _value(
        self,
        topic: str,
        change: RowChange,
        plan: _TicdcAvroPlan,
        rows: tuple[Json | None, Json],
        commit_ts: int,
    ) -> bytes:
        old, row = rows
        value = _whole(plan, row)
        names = _names_of(plan, value)
        old_names: tuple[str, ...] | None = None
        if self._has_before:
            found = None if old is None else _whole(plan, old)
            old_names = names if found is None else _names_of(plan, found)
            value[BEFORE] = found
        value[OP] = _OP_TEXTS[change.op]
        if self._has_extension:
            value[COMMIT_TS] = commit_ts - (1 << 64) if commit_ts >= 1 << 63 else commit_ts
            value[TIME] = change.source.event_time_ns // _NS_PER_MS
        if self._has_checksums:
            # A reader computes it from the written labels, which may mean another number.
            value |= _NO_CHECKSUM if Loss.ENUM_INDEX in self._lost else _checksum(change)
        return self._framed(topic, "value", plan, (names, old_names), value)

    def _schema(self, plan: _TicdcAvroPlan, part: Part, names: _Names) -> _Schema:
        """Return the schema of a key or a row with these columns."""
        cached = plan, part, names
        found = self._schemas.get(cached)
        if found is None:
            present, old_names = names
            fields = [plan.fields[name] for name in present]
            if part == "value":
                fields += self._added(plan, old_names)
            found = _schema_of(plan, plan.name, fields)
            self._schemas.keep(cached, found, _SCHEMA_BYTES + _SCHEMA_FACTOR * len(found.text))
        return found

    def _added(self, plan: _TicdcAvroPlan, old_names: tuple[str, ...] | None) -> list[Json]:
        """Return the fields after the columns."""
        found: list[Json] = []
        if old_names is not None:
            fields = [plan.fields[name] for name in old_names]
            record = _record(plan, f"{plan.name}_before", fields)
            found.append({"default": None, "name": BEFORE, "type": ["null", record]})
        if self._has_extension or self._has_before:
            found.append(_OP_FIELD)
        if self._has_extension:
            found += _TIME_FIELDS
        if self._has_checksums:
            found += _CHECKSUM_FIELDS
        return found

    def _framed(self, topic: str, part: Part, plan: _TicdcAvroPlan, names: _Names, value: Json) -> bytes:
        """Return a key or a row with these columns, after the id of its schema."""
        cached = topic, part, plan, names
        found = self._heads.get(cached)
        if found is not None:
            head, schema = found
            return head + schema.body(part, value)
        schema = self._schema(plan, part, names)
        body = schema.body(part, value)
        subject = subject_of("TopicNameStrategy", topic, part, f"{plan.namespace}.{plan.name}")
        head = self._ids.framed(subject, schema.text, b"")
        self._heads.keep(cached, (head, schema), _SCHEMA_BYTES)
        return head + body

    # ------------------------------------------------------------ control

    def _control(
        self, event: Event, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        if isinstance(event, Watermark) and self._has_control:
            self._count_lost(event.source, losses)
            yield EncodedRecord(None, with_commit_ts(WATERMARK, event.source.commit_ts or 0))
        elif isinstance(event, SchemaChange) and self._has_control:
            yield from self._ddl(event, source_record, losses)
        else:
            losses.append(loss_of(event))

    def _ddl(
        self, change: SchemaChange, source_record: ConsumerRecord, losses: list[Loss]
    ) -> Iterator[EncodedRecord]:
        commit_ts, code = commit_ts_of(change.source, source_record, losses), code_of(change)
        self._count_lost(change.source, losses)
        for table, query in per_table_statements(change):
            statement = TicdcAvroDdl(query, code, table.database, table.table, commit_ts)
            try:
                yield EncodedRecord(None, statement_value(statement))
            except (OverflowError, UnicodeError, msgspec.MsgspecError):
                raise NotRepresentable(NAME, "value", "text that is not Unicode") from None


def _prepared(is_split: bool, chosen: ChosenKey, events: list[Event]) -> list[Event]:
    if is_split:
        events = split_updates(events)
    return split_chosen_keys(events, chosen)


def _count_time(change: RowChange, source_record: ConsumerRecord, losses: list[Loss]) -> None:
    """Count that a message has no time, unless its record's time is the row's."""
    if change.source.event_time_ns // _NS_PER_MS != source_record.timestamp_ms:
        losses.append(Loss.EVENT_TIME)


def _whole(plan: _TicdcAvroPlan, row: Json) -> Json:
    """Return a row with NULL in the virtual columns that it lacks."""
    if not plan.absent:
        return dict(row)
    return dict.fromkeys(plan.absent) | row


def _names_of(plan: _TicdcAvroPlan, row: Json) -> tuple[str, ...]:
    """Return the columns of a row, in table order."""
    if len(row) == len(plan.names):
        return plan.names
    return tuple([name for name in plan.names if name in row])


_NO_CHECKSUM: Final[Json] = {CHECKSUM: "", CORRUPTED: False, CHECKSUM_TYPE: 0}


def _checksum(change: RowChange) -> Json:
    """Return the fields of a row's checksum; empty if unknown."""
    row = change.before if change.op is Op.DELETE else change.after
    found = None if row is None else row_checksum(change.schema, row)
    if found is None:
        return _NO_CHECKSUM
    return {CHECKSUM: str(found), CORRUPTED: False, CHECKSUM_TYPE: CHECKSUM_VERSION}


def _record(plan: _TicdcAvroPlan, name: str, fields: Sequence[Json]) -> Json:
    return {"type": "record", "name": name, "namespace": plan.namespace, "fields": fields}


class _Schema:
    """A written schema: its text, and the writer of its values."""

    def __init__(self, text: str) -> None:
        self.text, self._type = text, parse_types(text)
        self._write = value_writer(self._type)

    def body(self, part: Part, value: Json) -> bytes:
        """Return the Avro of a value. Raises NotRepresentable."""
        try:
            return written(self._write, value)
        except (ValueError, TypeError, NotTemplatable):
            # Traced values are looked for only after a failure, so that ordinary rows do not pay for it.
            if any(isinstance(each, Traced) for each in value.values()):
                return traced_body(self._type, value)
            raise NotRepresentable(NAME, part, "a value that its Avro schema cannot represent") from None


def _schema_of(plan: _TicdcAvroPlan, name: str, fields: Sequence[Json]) -> _Schema:
    text = compact(_record(plan, name, fields))
    try:
        return _Schema(text)
    except ValueError as error:
        raise NotRepresentable(NAME, "", f"its schema {error}") from None
