"""Writing messages of TiCDC Debezium JSON: `source`, rows, DDL and watermarks around their schema blocks.

The parts that are the same in every message of a table version are encoded once, as the text around a
message's own numbers and rows (`TicdcRowPlan`). `TicdcRowTarget` serves one encoder's settings and only holds
caches.
Source: pingcap/ticdc pkg/sink/codec/debezium/codec.go (2026-08); its records.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Final

import msgspec
from msgspec import UNSET, UnsetType

from relay.codecs.codec import EncodedRecord
from relay.codecs.debezium.shared.ddl_events import CHANGE_KEY, change_schema
from relay.codecs.debezium.shared.defaults import null_default
from relay.codecs.debezium.shared.schemas import (
    AvroForms,
    Json,
    column_schema,
    column_schemas,
    key_schema,
    schema_name,
    source_schema,
    value_schema,
    watermark_name,
    watermark_schema,
)
from relay.codecs.debezium.shared.value_writing import DebeziumValueWriter, image_names, present_names
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.compiled import Null
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.row_writing import RowTarget
from relay.codecs.shared.rows import TypeInfo
from relay.codecs.shared.ticdc import BACKSLASH, printed, with_long_escapes
from relay.codecs.shared.traced import counted_null
from relay.model.events import Column, Generated, Op, SchemaChange, TableId, TableSchema, Watermark
from relay.mysql.types import has_parameters
from relay.templates.tracing import mark_of

#: The text between `ts_ms` and the row, as the value of `transaction`; in an UPDATE `before` and `after`
#: follow.
_MIDDLES: Final = {
    Op.UPDATE: msgspec.Raw(b'null,"op":"u"'),
    Op.INSERT: msgspec.Raw(b'null,"op":"c","before":null'),
    Op.READ: msgspec.Raw(b'null,"op":"c","before":null'),
    Op.DELETE: msgspec.Raw(b'null,"op":"d","after":null'),
}

#: An image: `{column: value}`, or for a whole row a struct that prints alike
#: (`relay.codecs.shared.compiled.row_struct`).
Row = Any


# A row's message is printed in one call, a third faster than joining texts. Members that are the same in
# every message of a table version are one `Raw`: the value of the first of them, followed by the others.
class _RowSource(msgspec.Struct, gc=False):
    version: msgspec.Raw
    ts_ms: int
    snapshot: msgspec.Raw
    commit_ts: int
    start_ts: int | UnsetType
    cluster_id: msgspec.Raw


class _RowPayload(msgspec.Struct, gc=False):
    source: _RowSource
    ts_ms: int
    transaction: msgspec.Raw
    before: Row
    after: Row


class _RowMessage(msgspec.Struct, gc=False):
    payload: _RowPayload


class WritingSettings(msgspec.Struct, frozen=True):
    """The encoder's options that change its bytes, under plain names. `avro`: the messages become Avro."""

    cluster: str
    has_schema: bool
    extension: bool
    has_before: bool
    replaces_nulls: bool
    avro: AvroForms | None = None


class TicdcRowPlan(msgspec.Struct, frozen=True, eq=False):
    """The common parts of all rows of a table version.

    `shown`: the columns of a whole row; `index_of`: their indexes in the table. `key`: those of the key, in
    table order. `lacks_key`: the key has others, too, so that no row has a key. `key_value`: a one-column
    key's value, of a row that is a struct. `snapshot`: the members of `source` between `ts_ms` and the commit
    ts. `key_start`: the text before a key's only value. `key_end`, `end`: the text after the key's and the
    row's last value (`end` is empty without a schema block, and differs for rows with `start_ts`, or without
    some columns). `loses_parameters`: types have parameters that the schema block omits.
    """

    schema: TableSchema
    shown: tuple[str, ...]
    index_of: dict[str, int]
    key: tuple[str, ...]
    lacks_key: bool
    key_value: Callable[[Row], Any] | None
    snapshot: msgspec.Raw
    key_start: bytes
    key_end: bytes
    end: bytes
    loses_parameters: bool


class TicdcRowTarget(RowTarget[TicdcRowPlan]):
    """Writes the messages of one encoder; `lost`: losses of its last row's values, `too_fine`: whether some
    had more digits than their columns (`DebeziumValueWriter`).
    """

    has_structs = True

    def __init__(self, settings: WritingSettings, pool: CachePool) -> None:
        self._settings, self._values = settings, DebeziumValueWriter(settings.avro)
        self._defaults = DebeziumValueWriter(settings.avro)  # losses of a default are not losses of a row
        #: Ends of messages with `start_ts`, or without some columns.
        self._ends: ByteCache[object, bytes] = pool.cache()
        self.shortcuts, self.lost = self._values.shortcuts, self._values.lost
        self.too_fine = self._values.too_fine
        self.has_before = settings.has_before
        cluster = printed(settings.cluster)
        version = b'"2.4.0.Final","connector":"TiCDC","name":%b' % cluster
        self._version, self._cluster_id = msgspec.Raw(version), msgspec.Raw(cluster)
        self._head = b'{"source":{"version":%b,"ts_ms":' % version
        self._tail = b',"cluster_id":%b},"ts_ms":' % cluster
        self._source = source_schema(extension=settings.extension)
        self._change_schema = change_schema(self._source)

    # ------------------------------------------------------------ rows

    def plan(self, schema: TableSchema) -> TicdcRowPlan:
        """Return the plan of a table version."""
        settings, handle = self._settings, frozenset(schema.handle_key())
        key = [column for column in schema.columns if column.name in handle]
        shown = [column for column in schema.columns if column.generated is not Generated.VIRTUAL]
        carried = {"bit", "enum", "set"} if settings.has_schema else frozenset()
        loses = any(has_parameters(column.type) and column.type.base not in carried for column in shown)
        key_end = end = b""
        if settings.has_schema:
            entries = [
                column_schema(
                    one,
                    extension=settings.extension,
                    optional=one.nullable is True,
                    avro=settings.avro,
                )
                for one in key
            ]
            key_end = b',"schema":' + printed(key_schema(self._name(schema.id), entries))
            end = self._block(schema, self._entries(schema.columns), self._source) + b"}"
        key_value = None
        if len(key) == len(handle) == 1 and key[0] in shown:
            key_value = operator.attrgetter(f"f{shown.index(key[0])}")
        return TicdcRowPlan(
            schema=schema,
            shown=tuple(column.name for column in shown),
            index_of={
                column.name: at
                for at, column in enumerate(schema.columns)
                if column.generated is not Generated.VIRTUAL
            },
            key=tuple(column.name for column in key),
            lacks_key=len(key) < len(handle),
            key_value=key_value,
            snapshot=msgspec.Raw(_snapshot(schema.id)),
            key_start=b'{"payload":{%b:' % printed(key[0].name) if key else b"",
            key_end=b"}" + key_end + b"}",
            end=end,
            loses_parameters=loses,
        )

    def plan_bytes(self, plan: TicdcRowPlan) -> int:
        """Return the approximate memory of a plan in bytes."""
        return len(plan.end) + len(plan.key_end) + _PLAN_COLUMN_BYTES * len(plan.shown)

    def losses(self, plan: TicdcRowPlan, type_info: TypeInfo) -> tuple[Loss, ...]:
        """Return the losses of every row of a table: its types without `tidb_type`, their parameters."""
        has_types = self._settings.extension and self._settings.has_schema
        untyped = (Loss.UNTYPED,) if type_info.types and not has_types else ()
        loses_parameters = type_info.parameters and plan.loses_parameters
        return (*untyped, Loss.TYPE_PARAMETERS) if loses_parameters else untyped

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values."""
        return self._values.of(column)

    def null_of(self, column: Column) -> Null | None:
        """Return the default that TiCDC writes for NULL, counted; None without one, or if NULL must stay."""
        if not self._settings.replaces_nulls:
            return None
        default = null_default(column, self._defaults.of(column))
        self._defaults.lost.clear()
        return None if default is None else counted_null(default, self.lost, _NULL_REPLACED)

    def row(
        self,
        op: Op,
        plan: TicdcRowPlan,
        images: tuple[Row, Row],
        times: tuple[int, int, int],
        start_ts: int | None,
    ) -> EncodedRecord:
        """Return the message of a row; `times`: `ts_ms` of the source, commit ts, `ts_ms` of the message.

        An UPDATE without a before-image has no `before`. Raises the errors of `printed`.
        """
        before, after = images
        source_ms, commit_ts, emitted_ms = times
        row = after
        if after is None:
            row, after = before, UNSET
        if before is None:
            before = UNSET
        start = UNSET if start_ts is None else start_ts
        source = _RowSource(self._version, source_ms, plan.snapshot, commit_ts, start, self._cluster_id)
        value = _print(_RowMessage(_RowPayload(source, emitted_ms, _MIDDLES[op], before, after)))
        if BACKSLASH in value:
            value = with_long_escapes(value)
        if plan.end:
            value = value[:-1] + self._end(plan, images, has_start=start_ts is not None)
        if plan.key_value is None or type(row) is dict:
            return EncodedRecord(_row_key(plan, row), value)
        key = _print(plan.key_value(row))
        if BACKSLASH in key:
            key = with_long_escapes(key)
        return EncodedRecord(plan.key_start + key + plan.key_end, value)

    def _end(self, plan: TicdcRowPlan, images: tuple[Row, Row], *, has_start: bool) -> bytes:
        """Return the end of a message with a schema block, which lists the present columns.

        Columns of only one of the two images are optional.
        """
        rows = [image_names(plan.shown, row) for row in images if row is not None]
        if not has_start and all(names is plan.shown for names in rows):
            return plan.end
        present, relaxed = present_names(plan.index_of, rows)
        key = plan, has_start, present, relaxed
        found = self._ends.get(key)
        if found is None:
            is_whole, schema = present == plan.shown, plan.schema
            columns = (
                schema.columns if is_whole else [schema.columns[plan.index_of[name]] for name in present]
            )
            source = source_schema(extension=self._settings.extension, start_ts=has_start)
            entries = self._entries(columns, relaxed)
            found = self._block(schema, entries, source) + b"}"
            self._ends.keep(key, found, len(found) + _END_COLUMN_BYTES * len(present) + _END_BYTES)
        return found

    def _entries(self, columns: Sequence[Column], relaxed: Iterable[str] = ()) -> list[Json]:
        settings = self._settings
        keeps_null = not settings.replaces_nulls
        return column_schemas(
            columns,
            extension=settings.extension,
            relaxed=relaxed,
            keeps_null=keeps_null,
            avro=settings.avro,
        )

    def _block(self, schema: TableSchema, entries: list[Json], source: Json) -> bytes:
        return b',"schema":' + printed(value_schema(self._name(schema.id), entries, source))

    def _name(self, table: TableId) -> str:
        return schema_name(self._settings.cluster, table.database, table.table)

    # ------------------------------------------------------------ DDL, watermarks

    def ddl(
        self,
        change: SchemaChange,
        table: TableId,
        sql: str,
        changes: list[Json | msgspec.Raw],
        commit_ts: int,
    ) -> EncodedRecord:
        """Return the message of a DDL statement for one table. Raises the errors of `printed`."""
        database = printed(table.database)
        payload = b'%b,"databaseName":%b,"schemaName":null,"ddl":%b,"tableChanges":%b}' % (
            self._stamped(table, change, commit_ts), database, printed(sql), printed(changes),
        )  # fmt: skip
        return self._control(b'{"databaseName":%b}' % database, CHANGE_KEY, payload, self._change_schema)

    def watermark(self, mark: Watermark) -> EncodedRecord:
        """Return the message of a watermark."""
        name = watermark_name(self._settings.cluster)
        payload = (
            self._stamped(TableId("", ""), mark, mark.source.commit_ts or 0)
            + b',"transaction":null,"op":"m"}'
        )
        return self._control(
            b"{}", printed(key_schema(name, [])), payload, printed(watermark_schema(name, self._source))
        )

    def _stamped(self, table: TableId, event: SchemaChange | Watermark, commit_ts: int) -> bytes:
        """Return the payload of a control message up to `ts_ms`."""
        ts_ms, emitted_ms = event.source.event_time_ns // 1_000_000, event.emitted_at_ns // 1_000_000
        start = b'%b%d,"snapshot":%b,"commit_ts":%d' % (self._head, ts_ms, _snapshot(table), commit_ts)
        return b"%b%b%d" % (start, self._tail, emitted_ms)

    def _control(self, key: bytes, key_block: bytes, payload: bytes, block: bytes) -> EncodedRecord:
        if self._settings.has_schema:
            return EncodedRecord(
                b'{"payload":%b,"schema":%b}' % (key, key_block),
                b'{"payload":%b,"schema":%b}' % (payload, block),
            )
        return EncodedRecord(b'{"payload":%b}' % key, b'{"payload":%b}' % payload)


#: Memory of a column in a plan, and in the key of an end; and the base of that key (measured with CPython
#: 3.11).
_PLAN_COLUMN_BYTES: Final = 150
_END_COLUMN_BYTES: Final = 16
_END_BYTES: Final = 400


def _snapshot(table: TableId) -> bytes:
    """Return the members of `source` from `snapshot` on, up to the commit ts."""
    names = b'"false","db":%b,"table":%b' % (printed(table.database), printed(table.table))
    return names + b',"server_id":0,"gtid":null,"file":"","pos":0,"row":0,"thread":0,"query":null'


def _row_key(plan: TicdcRowPlan, row: Row) -> bytes | None:
    """Return the key of a row; None if the row lacks columns of its key."""
    columns = row
    if type(row) is not dict:
        columns = {name: getattr(row, f"f{at}") for at, name in enumerate(plan.shown)}
    key = {name: columns[name] for name in plan.key if name in columns}
    if plan.lacks_key or len(key) < len(plan.key):
        return None
    payload = printed(key)
    return b'{"payload":%b%b' % (payload, plan.key_end[1:])


_print = msgspec.json.Encoder(enc_hook=mark_of).encode
_NULL_REPLACED: Final = Loss.NULL_REPLACED_BY_DEFAULT
