"""Writing rows of Debezium's MySQL connector: envelopes with their schemas, keys, headers of a changed key.

The parts that are the same in every message of a table version are encoded once, as the text around a
message's own numbers and rows (`NativeRowPlan`). `NativeRowTarget` serves one encoder's options and only
holds caches. Member order is that of 3.1 to 3.6, schema before payload as in JsonConverter. Sources:
debezium/debezium Envelope, AbstractSourceInfoStructMaker, RelationalChangeRecordEmitter; apache/kafka connect
JsonConverter, SimpleHeaderConverter; records of 3.6.1.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Sequence
from datetime import UTC, datetime, timedelta
from decimal import Context, Decimal
from typing import Any, Final

import msgspec

from relay.codecs.codec import ChosenKey, EncodedRecord
from relay.codecs.debezium.native.defaults import fallback, schema_default
from relay.codecs.debezium.native.fields import (
    DATES,
    FIELD_NAMES,
    SCHEMA_NAMES,
    Json,
    NativeField,
    field_of,
    key_schema,
    table_name,
    value_schema,
)
from relay.codecs.debezium.native.options import NAME, DebeziumOptions
from relay.codecs.debezium.native.value_writing import NativeValueWriter
from relay.codecs.debezium.shared import semantic_names
from relay.codecs.debezium.shared.value_writing import image_names, present_names
from relay.codecs.losses import Loss
from relay.codecs.row_keys import without_key
from relay.codecs.shared.base64_text import base64_text
from relay.codecs.shared.caches import ByteCache, CachePool
from relay.codecs.shared.compiled import Null
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.row_writing import RowTarget
from relay.codecs.shared.rows import TypeInfo
from relay.codecs.shared.traced import counted_null
from relay.model.errors import NotRepresentable
from relay.model.events import (
    ABSENT,
    Column,
    ColumnType,
    Op,
    Snapshot,
    Source,
    TableId,
    TableSchema,
    Transaction,
)
from relay.mysql.numbers import decimal_text
from relay.mysql.types import BINARIES, CHARS, has_parameters
from relay.templates.tracing import mark_of

#: The Debezium release of these messages.
VERSION: Final = "3.6.1.Final"

#: JSON. Raises OverflowError beyond 64 bits, UnicodeError for lone surrogates.
printed: Final = msgspec.json.Encoder(enc_hook=mark_of).encode

#: The value of `transaction` if there is none, with the members after it.
_MIDDLES: Final = {
    Op.UPDATE: msgspec.Raw(b'null,"op":"u"'),
    Op.INSERT: msgspec.Raw(b'null,"op":"c"'),
    Op.READ: msgspec.Raw(b'null,"op":"r"'),
    Op.DELETE: msgspec.Raw(b'null,"op":"d"'),
}
_OP_TEXTS: Final = {Op.UPDATE: b"u", Op.INSERT: b"c", Op.READ: b"r", Op.DELETE: b"d"}

#: An image: `{column: value}`, or for a whole row a struct that prints alike
#: (`relay.codecs.shared.compiled.row_struct`).
Row = Any


# Members that are the same in every message of a table version are one `Raw`: the value of the first of them,
# followed by the others.
class SourceBlock(msgspec.Struct, gc=False):
    """`source` of any message; `version` is followed by `connector` and `name`, `snapshot` by all up to
    `sequence`.
    """

    version: msgspec.Raw
    ts_ms: int
    snapshot: msgspec.Raw
    ts_us: int
    ts_ns: int | None
    table: msgspec.Raw
    server_id: int
    gtid: str | None
    file: str
    pos: int
    row: int
    thread: int | None
    query: str | None


class _Envelope(msgspec.Struct, gc=False):
    before: Row
    after: Row
    source: SourceBlock
    transaction: msgspec.Raw
    ts_ms: int
    ts_us: int
    ts_ns: int | None


class NativeRowPlan(msgspec.Struct, frozen=True, eq=False):
    """The common parts of all rows of a table version.

    `columns`: as written; `shown`: their names; `index_of`: their indexes. `key`: the columns of the key, in
    its order, with their types; `chosen`: the columns of a key chosen by a rule, () without one. `key_value`:
    a one-column key's value, of a row that is a struct. `streamed`: the members of `source` from `snapshot`
    to `sequence` of a row outside a snapshot; `table`: its name. `head`: the text before the payload of a
    message, `key_head` before that of a key. `placeholders`: values for columns that a row lacks, if they can
    hold one. `loses_parameters`: types have parameters that messages omit. `loses_names`: columns have names
    that cannot be restored.
    """

    columns: tuple[Column, ...]
    id: TableId
    shown: tuple[str, ...]
    index_of: dict[str, int]
    key: tuple[tuple[str, NativeField], ...]
    chosen: tuple[str, ...]
    key_value: Callable[[Row], Any] | None
    streamed: msgspec.Raw
    table: msgspec.Raw
    head: bytes
    key_head: bytes
    key_start: bytes
    placeholders: dict[str, str | bytes]
    loses_parameters: bool
    loses_names: bool


class NativeRowTarget(RowTarget[NativeRowPlan]):
    """Writes the rows of one encoder; `lost`: losses of its last row's values. `chosen`: the rules for keys,
    None without any.
    """

    has_structs = True
    has_virtual = True

    def __init__(self, options: DebeziumOptions, pool: CachePool, chosen: ChosenKey | None = None) -> None:
        self._options, self._chosen = options, chosen
        self._values, self._defaults = NativeValueWriter(options), NativeValueWriter(options)
        #: The text before the payload of messages without some columns.
        self._heads: ByteCache[object, bytes] = pool.cache()
        self._columns: ByteCache[TableSchema, tuple[Column, ...]] = pool.cache()
        self.lost = self._values.lost
        self.shortcuts = self._values.shortcuts
        self._adjust = SCHEMA_NAMES[options.schema_name_adjustment_mode]
        self._rename = FIELD_NAMES[options.field_name_adjustment_mode]
        self.version = msgspec.Raw(
            b'"%b","connector":"mysql","name":%b' % (VERSION.encode(), printed(options.topic_prefix))
        )
        self._key_tail = b"}}" if options.has_key_schema else b"}"

    # ------------------------------------------------------------ tables

    def columns_of(self, schema: TableSchema) -> tuple[Column, ...]:
        """Return a table's columns as written: with their names there, and their nullability."""
        found = self._columns.get(schema)
        if found is None:
            found = self._columns_of(schema)
            self._columns.keep(schema, found, _PLAN_COLUMN_BYTES * len(found) + _TABLE_BYTES)
        return found

    def _columns_of(self, schema: TableSchema) -> tuple[Column, ...]:
        key = frozenset(native_key(schema))
        columns = [self._column_of(column, is_key=column.name in key) for column in schema.columns]
        names = {column.name for column in columns}
        if len(names) < len(columns):
            reason = "field.name.adjustment.mode gives two columns of the table the same name"
            raise NotRepresentable(NAME, "payload", reason)
        return tuple(columns)

    def _column_of(self, column: Column, *, is_key: bool) -> Column:
        options, nullable, default = self._options, column.nullable is not False, column.default
        if options.schema_columns == "optional":
            nullable, default = True, ABSENT
        elif options.zero_dates == "null" and column.type.base in DATES:
            nullable = True
        if is_key:
            nullable = False
        return msgspec.structs.replace(
            column, name=self._rename(column.name), nullable=nullable, default=default
        )

    def plan(self, schema: TableSchema) -> NativeRowPlan:
        """Return the plan of a table version."""
        options, columns = self._options, self.columns_of(schema)
        index_of = {column.name: at for at, column in enumerate(columns)}
        chosen = tuple([self._rename(name) for name in self._chosen(schema.id)]) if self._chosen else ()
        wanted = chosen or [self._rename(name) for name in native_key(schema)]
        key = [columns[index_of[name]] for name in wanted if name in index_of]
        if len(key) < len(wanted):
            key = []
        head = key_head = b""
        if options.has_value_schema:
            head = self._head(schema.id, columns, ())
        if options.has_key_schema:
            block = key_schema(self._name(schema.id), [self._node(column) for column in key], self._adjust)
            key_head = b'{"schema":%b,"payload":' % printed(block)
        carried = {"bit", "enum", "set", "decimal"} if options.has_value_schema else frozenset()
        key_value = None
        if len(key) == 1:
            key_value = operator.attrgetter(f"f{index_of[key[0].name]}")
        return NativeRowPlan(
            columns=columns,
            id=schema.id,
            shown=tuple(index_of),
            index_of=index_of,
            key=tuple([(column.name, field_of(column.type, options)) for column in key]),
            chosen=chosen,
            key_value=key_value,
            streamed=self.snapshot(None, schema.id.database),
            table=msgspec.Raw(printed(schema.id.table)),
            head=head,
            key_head=key_head,
            key_start=key_head + b"{%b:" % printed(key[0].name) if key else b"",
            placeholders=self._placeholders([column for column in columns if column.name not in wanted]),
            loses_parameters=any(
                has_parameters(column.type) and column.type.base not in carried for column in columns
            ),
            loses_names=options.field_name_adjustment_mode == "avro"
            and any(column.name != own.name for column, own in zip(columns, schema.columns, strict=True)),
        )

    def _placeholders(self, columns: Sequence[Column]) -> dict[str, str | bytes]:
        """Return the values for columns that a row lacks, if they can hold text or bytes of this length. The
        connector writes them for columns that the binlog lacks (`binlog_row_image=NOBLOB`).
        """
        placeholder = self._options.placeholder()
        if not placeholder:
            return {}
        write = self._values.of(Column("", ColumnType("longblob")))
        as_bytes: str | bytes = placeholder if write is None else write(placeholder)
        as_text = placeholder.decode("utf-8", "replace")
        found: dict[str, str | bytes] = {}
        for column in columns:
            base, length = column.type.base, column.type.length
            if (base in CHARS or base in BINARIES) and (length is None or length >= len(placeholder)):
                found[column.name] = as_text if base in CHARS else as_bytes
            elif base == "json":
                found[column.name] = as_text
        return found

    def completed(self, plan: NativeRowPlan, row: Row) -> Row:
        """Return the row with placeholders for all columns that it lacks; the row itself if one of them has
        none, since its schema then differs from the table's.
        """
        if type(row) is not dict or not plan.placeholders or len(row) == len(plan.shown):
            return row
        whole = plan.placeholders | row
        return {name: whole[name] for name in plan.shown} if len(whole) == len(plan.shown) else row

    def plan_bytes(self, plan: NativeRowPlan) -> int:
        """Return the approximate memory of a plan in bytes."""
        return len(plan.head) + 2 * len(plan.key_head) + _PLAN_COLUMN_BYTES * len(plan.shown)

    def losses(self, plan: NativeRowPlan, type_info: TypeInfo) -> tuple[Loss, ...]:
        """Return the losses of every row of a table: its types, their parameters, and names of columns."""
        lost = {
            Loss.UNTYPED: type_info.types,
            Loss.TYPE_PARAMETERS: type_info.parameters and plan.loses_parameters,
            Loss.COLUMN_NAMES: plan.loses_names,
        }
        return tuple([what for what, is_lost in lost.items() if is_lost])

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values."""
        return self._values.of(column)

    def null_of(self, column: Column) -> Null | None:
        """Return the replacement of NULL, counted: the default where JsonConverter writes it, and in a column
        that cannot be NULL; None if NULL stays.
        """
        value, options = None, self._options
        if column.nullable is False or options.replace_null_with_default:
            value = self._default(column)
        if value is None and column.nullable is False:
            is_number = options.decimal_format == "NUMERIC"
            value = fallback(column, field_of(column.type, options), is_number=is_number)
        return None if value is None else counted_null(value, self.lost, _NULL_REPLACED)

    def _default(self, column: Column) -> Any:  # noqa: ANN401 - any value of JSON
        found = schema_default(column, self._defaults.of(column))
        self._defaults.lost.clear()
        return found

    def _node(self, column: Column) -> Json:
        options = self._options
        doc = column.comment if options.include_schema_comments else None
        return field_of(column.type, options).node(column, self._default(column), doc)

    def _head(self, table: TableId, columns: Sequence[Column], relaxed: Sequence[str]) -> bytes:
        """Return the text before a payload; `relaxed` columns are missing in one of the images."""
        nodes = []
        for column in columns:
            shown = msgspec.structs.replace(column, nullable=True) if column.name in relaxed else column
            nodes.append(self._node(shown))
        block = value_schema(self._name(table), nodes, self._adjust)
        return b'{"schema":%b,"payload":' % printed(block)

    def _name(self, table: TableId) -> str:
        return table_name(self._options.topic_prefix, table.database, table.table)

    # ------------------------------------------------------------ rows

    def snapshot(self, snapshot: Snapshot | None, database: str) -> msgspec.Raw:
        """Return the members of `source` from `snapshot` to `sequence`.

        For a row outside a snapshot, the connector leaves `snapshot` at its default, which a converter may
        write as null.
        """
        word = b'"false"' if self._options.replace_null_with_default else b"null"
        if snapshot is not None:
            word = b'"%b"' % snapshot.value.encode()
        return msgspec.Raw(b'%b,"db":%b,"sequence":null' % (word, printed(database)))

    def source(
        self, source: Source, snapshot: msgspec.Raw, table: msgspec.Raw, pos: int, row: int
    ) -> SourceBlock:
        """Return the block of an event. `pos`: its position, of the binlog or another one; `row`: its index
        in its event if its source has none.
        """
        ns = source.event_time_ns
        if source.binlog_row is not None:
            row = source.binlog_row
        return SourceBlock(
            self.version,
            ns // 1_000_000,
            snapshot,
            ns // 1_000,
            ns if _LEAST <= ns < _END else None,
            table,
            source.server_id or 0,
            source.gtid,
            source.binlog_file or "",
            pos,
            row,
            source.thread_id,
            source.query,
        )

    def row(
        self,
        op: Op,
        plan: NativeRowPlan,
        images: tuple[Row, Row],
        source: SourceBlock,
        emitted_ns: int,
        transaction: Transaction | None,
    ) -> EncodedRecord:
        """Return the message of a row. Raises the errors of `printed`."""
        before, after = images
        middle = _MIDDLES[op]
        if transaction is not None:
            middle = msgspec.Raw(b'%b,"op":"%b"' % (_transaction(transaction), _OP_TEXTS[op]))
        ns = emitted_ns if _LEAST <= emitted_ns < _END else None
        value = printed(
            _Envelope(before, after, source, middle, emitted_ns // 1_000_000, emitted_ns // 1_000, ns)
        )
        if plan.head:
            value = self._head_of(plan, before, after) + value + b"}"
        row = before if after is None else after
        if plan.key_value is None or type(row) is dict:
            return EncodedRecord(self._key(plan, row), value)
        return EncodedRecord(plan.key_start + printed(plan.key_value(row)) + self._key_tail, value)

    def truncate(self, plan: NativeRowPlan, source: SourceBlock, emitted_ns: int) -> EncodedRecord:
        """Return the message of TRUNCATE."""
        middle = msgspec.Raw(b'null,"op":"t"')
        value = printed(_Envelope(None, None, source, middle, *_times(emitted_ns)))
        return EncodedRecord(None, plan.head + value + b"}" if plan.head else value)

    def _key(self, plan: NativeRowPlan, row: Row) -> bytes | None:
        """Return the key of any row; None for a table without one, and for a row that lacks columns of it.
        Raises KeyColumnsMissing if a rule makes the key of those.
        """
        columns = self.key_columns(plan, row)
        if columns is None:
            if plan.chosen:
                has = row if type(row) is dict else plan.shown
                raise without_key(NAME, plan.id, plan.chosen, has)
            return None
        payload = printed({name: value for (name, _), value in zip(plan.key, columns, strict=True)})
        return plan.key_head + payload + self._key_tail[1:]

    def key_columns(self, plan: NativeRowPlan, row: Row) -> list[Any] | None:
        """Return the values of a row's key, in its order, None if there is none."""
        if not plan.key:
            return None
        if type(row) is not dict:
            return [getattr(row, f"f{plan.index_of[name]}") for name, _ in plan.key]
        if any(name not in row for name, _ in plan.key):
            return None
        return [row[name] for name, _ in plan.key]

    def key_text(self, plan: NativeRowPlan, row: Row) -> bytes | None:
        """Return the key of a row as SimpleHeaderConverter prints it, None if there is none."""
        columns = self.key_columns(plan, row)
        if columns is None:
            return None
        members = [
            f"{_quoted(name)}:{_simple(value, field)}"
            for (name, field), value in zip(plan.key, columns, strict=True)
        ]
        return ("{" + ",".join(members) + "}").encode()

    def _head_of(self, plan: NativeRowPlan, *images: Row) -> bytes:
        """Return the text before a payload; its schema lists the present columns."""
        for row in images:
            if row is not None and image_names(plan.shown, row) is not plan.shown:
                break
        else:
            return plan.head
        rows = [image_names(plan.shown, row) for row in images if row is not None]
        present, relaxed = present_names(plan.index_of, rows)
        key = plan, present, relaxed
        found = self._heads.get(key)
        if found is None:
            columns = [plan.columns[plan.index_of[name]] for name in present]
            found = self._head(plan.id, columns, relaxed)
            self._heads.keep(key, found, len(found) + _HEAD_COLUMN_BYTES * len(present) + _TABLE_BYTES)
        return found


def native_key(schema: TableSchema) -> tuple[str, ...]:
    """Return the columns of a table's message key, in their order: the primary key; else the first unique key
    whose columns cannot be NULL. Empty if some of its columns are unknown.
    """
    if schema.primary_key:
        names = {column.name for column in schema.columns}
        return schema.primary_key if names.issuperset(schema.primary_key) else ()
    not_null = {column.name for column in schema.columns if column.nullable is False}
    return next((key.columns for key in schema.unique_keys if not_null.issuperset(key.columns)), ())


def _times(ns: int) -> tuple[int, int, int | None]:
    """Return a time in milliseconds, microseconds, and nanoseconds if 64 bits hold them."""
    return ns // 1_000_000, ns // 1_000, ns if _LEAST <= ns < _END else None


def _transaction(transaction: Transaction) -> bytes:
    order, table_order = transaction.order or 0, transaction.table_order or 0
    if type(transaction.id) is not str:
        # Traced: numbers are printed as marks.
        return b'{"id":%b,"total_order":%b,"data_collection_order":%b}' % (
            printed(transaction.id),
            printed(order),
            printed(table_order),
        )
    return b'{"id":%b,"total_order":%d,"data_collection_order":%d}' % (
        printed(transaction.id),
        order,
        table_order,
    )


# ---------------------------------------------------------------- headers


def _quoted(text: str) -> str:
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _simple(value: Any, field: NativeField) -> str:  # noqa: ANN401 - any written value
    """Return a value as Kafka Connect's `Values` prints it inside a struct."""
    if field.name == semantic_names.DECIMAL and isinstance(value, bytes):
        scale = int(dict(field.parameters)["scale"])
        return decimal_text(Decimal(int.from_bytes(value, "big", signed=True)).scaleb(-scale, _CONTEXT))
    if (
        field.name is not None
        and field.name.startswith(semantic_names.CONNECT_PREFIX)
        and isinstance(value, int)
    ):
        return _connect_date(value * _DAY_MS if field.name.endswith(".Date") else value)
    if isinstance(value, bytes):
        return f'"{base64_text(value)}"'
    if isinstance(value, str):
        return _quoted(value)
    return printed(value).decode()


def _connect_date(millis: int) -> str:
    """Return a date of Kafka Connect, whose form depends on its value."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=millis)
    if millis < _DAY_MS:
        return f"{moment:%H:%M:%S}.{millis % 1_000:03}Z"
    if millis % _DAY_MS == 0:
        return f"{moment:%Y-%m-%d}"
    return f"{moment:%Y-%m-%dT%H:%M:%S}.{millis % 1_000:03}Z"


_DAY_MS: Final = 86_400_000
#: Exact for every DECIMAL, which has at most 65 digits.
_CONTEXT: Final = Context(prec=200)

#: Memory of a column in a plan, and in the key of a head; and the base of that key.
_PLAN_COLUMN_BYTES: Final = 300
_HEAD_COLUMN_BYTES: Final = 16
_TABLE_BYTES: Final = 600
#: Signed 64-bit numbers.
_LEAST, _END = -(1 << 63), 1 << 63
_NULL_REPLACED: Final = Loss.NULL_REPLACED_BY_DEFAULT
