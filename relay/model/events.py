"""The canonical events: the result of every decoder and the input of every encoder.

Values (`Value`) are exact: integers, YEAR and BIT are `int`; FLOAT and DOUBLE `float`; DECIMAL `Decimal` with
its scale; character types `str`; binary types `bytes`; JSON the original `str`; DATE, DATETIME, TIME a `str`
in MySQL's text format; TIMESTAMP the same text in UTC; ENUM and SET `int` (index, bit map) or, if the wire
has labels and the members are unknown, `str`. FLOAT is the `float` whose shortest digits are those of the
32-bit number (3.14, not 3.140000104904175).

A column of a row image has three distinct states: a value, `None` (SQL NULL) and `ABSENT` (not in the image).
An image that does not exist at all (the before-image of an INSERT) is `None` as a whole.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, NamedTuple, Protocol

import msgspec

from relay.model.records import ConsumerRecord

#: A TSO is milliseconds since 1970 shifted left by this number of bits, plus a counter.
TSO_LOGICAL_BITS: Final = 18


class Absent(enum.Enum):
    """The type of `ABSENT`, which marks a column that a row image does not contain."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT

Value = int | float | Decimal | str | bytes
Cell = Value | None | Absent
Row = tuple[Cell, ...]


class Op(enum.Enum):
    """The operation on a row. READ is a row from a snapshot, not a change."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    READ = "read"

    # Members are singletons; Enum's own hash is a Python function, and an operation is looked up for every
    # row.
    __hash__ = object.__hash__


class TableId(msgspec.Struct, frozen=True, order=True, gc=False):
    """Database (MySQL's schema) and table; names are compared exactly, including letter case."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class ColumnType(msgspec.Struct, frozen=True, gc=False):
    """A MySQL column type. `base` is MySQL's own lower-case name (`int`, `varchar`, `decimal` …; see
    `relay.mysql.types`).

    length: Display width of integers, characters or bytes of strings, precision of numbers, bits of BIT,
        fractional-second digits (fsp) of temporal types, dimension of VECTOR; None if the source does not
        provide it.
    has_micros: For a DATETIME without a length, whether it has more than three fractional digits; None if the
        source does not provide that either.
    """

    base: str
    unsigned: bool = False
    zerofill: bool = False
    length: int | None = None
    scale: int | None = None
    charset: str | None = None
    collation: str | None = None
    members: tuple[str, ...] | None = None
    has_micros: bool | None = None


class Default(msgspec.Struct, frozen=True, gc=False):
    """A column's default: a literal's text (None: DEFAULT NULL), or an expression such as
    CURRENT_TIMESTAMP(3).
    """

    text: str | None
    is_expression: bool = False


class Generated(enum.Enum):
    """The storage of a generated column. TiCDC sends no VIRTUAL ones in any protocol."""

    STORED = "stored"
    VIRTUAL = "virtual"


class Column(msgspec.Struct, frozen=True, gc=False):
    """One column. `nullable` None, `default` ABSENT: not provided by the source (or no default)."""

    name: str
    type: ColumnType
    nullable: bool | None = None
    default: Default | Absent = ABSENT
    comment: str | None = None
    generated: Generated | None = None
    auto_increment: bool = False
    on_update: str | None = None


class UniqueKey(msgspec.Struct, frozen=True, gc=False):
    """A unique index: its name and columns in key order."""

    name: str
    columns: tuple[str, ...]


class Index(msgspec.Struct, frozen=True, gc=False):
    """A non-unique secondary index: its name and columns in key order.

    `is_implied`: TiDB created it for a foreign key, without a statement; its columns are not key columns.
    """

    name: str
    columns: tuple[str, ...]
    is_implied: bool = False


class TableSchema(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """One version of a table's definition. `columns` are in table order; row images are tuples in that order.

    primary_key: Column names in key order; `()` if the table has none, None if it is unknown.
    complete: False if the definition was inferred from rows alone, without the table's DDL: types may lack
        their parameters, and columns that rows do not carry are missing.
    is_view: A view, which has no rows; its columns have only names, or are missing if those are unknown.
    table_id, version: TiDB's id of the table, and the TSO that identifies this version; None if the source
        does not provide them.
    key_order: Names of unique keys and indexes in the order in which they were added; () if the unique keys
        came first, or if the order is unknown.
    is_nonclustered: The primary key is a single integer, but TiDB is known not to store the rows by it.
    """

    id: TableId
    columns: tuple[Column, ...]
    primary_key: tuple[str, ...] | None = None
    unique_keys: tuple[UniqueKey, ...] = ()
    indexes: tuple[Index, ...] = ()
    complete: bool = True
    charset: str | None = None
    collation: str | None = None
    comment: str | None = None
    is_view: bool = False
    table_id: int | None = None
    version: int | None = None
    key_order: tuple[str, ...] = ()
    is_nonclustered: bool = False

    def handle_key(self) -> tuple[str, ...]:
        """Return the columns by which TiCDC identifies a row.

        They are the primary key; without one, the unique key of NOT NULL columns with the fewest columns, the
        oldest of several (pingcap/ticdc pkg/common/table_info_helper.go, 2026-08).
        """
        return self._handle_key

    @functools.cached_property
    def _handle_key(self) -> tuple[str, ...]:
        if self.primary_key:
            return self.primary_key
        not_null = {column.name for column in self.columns if column.nullable is False}
        keys = (key.columns for key in self.unique_keys if not_null.issuperset(key.columns))
        return min(keys, key=len, default=())

    @functools.cached_property
    def hidden_indexes(self) -> frozenset[int]:
        """The indexes of virtual generated columns, which most wire formats omit."""
        virtual = Generated.VIRTUAL  # looking it up takes longer than comparing it
        return frozenset([at for at, column in enumerate(self.columns) if column.generated is virtual])

    @functools.cached_property
    def handle_indexes(self) -> tuple[int, ...]:
        """The indexes of the handle key's columns, in the order of their names."""
        return self.indexes_of(self._handle_key)

    @functools.cached_property
    def lacks_key_columns(self) -> bool:
        """Whether `columns` lacks part of the handle key, as when a message omits a column of its key."""
        return not {column.name for column in self.columns}.issuperset(self._handle_key)

    def indexes_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return the indexes of the named columns that the table has, in the order of their names."""
        wanted = frozenset(names)
        found = [(column.name, at) for at, column in enumerate(self.columns) if column.name in wanted]
        return tuple([at for _, at in sorted(found)])

    def ordered_keys(self) -> list[tuple[UniqueKey | Index, bool]]:
        """Return unique keys and indexes in the order of their creation, each with whether it is unique."""
        keys: list[tuple[UniqueKey | Index, bool]] = [(key, True) for key in self.unique_keys]
        keys += [(index, False) for index in self.indexes]
        if self.key_order:
            indexes = {name: at for at, name in enumerate(self.key_order)}
            keys.sort(key=lambda key: indexes.get(key[0].name, len(indexes)))
        return keys

    def key_columns(self) -> tuple[str, ...]:
        """Return the columns of the primary key and of all unique keys, each once."""
        keys = (self.primary_key or (), *(key.columns for key in self.unique_keys))
        return tuple(dict.fromkeys(name for key in keys for name in key))


#: A position in MySQL's binlog, which sorts in log order: the length of the file name (`bin.10` follows
#: `bin.9`), the file name, the offset in it, and whether a snapshot read the row there, which follows all
#: DDL.
BinlogPosition = tuple[int, str, int, bool]


class Position(msgspec.Struct, frozen=True, gc=False):
    """An event's position in its source: `commit_ts` (TiDB's TSO) if there is one, event time, Kafka record.

    `log`: binlog position, for a source with separate topics for DDL and rows.
    """

    commit_ts: int | None
    event_time_ns: int
    topic: str
    partition: int
    offset: int
    log: BinlogPosition | None = None

    @property
    def record(self) -> tuple[str, int, int]:
        """The topic, the partition and the offset of the record."""
        return self.topic, self.partition, self.offset

    def precedes(self, other: Position) -> bool:
        """Return whether this position is strictly before the other.

        Positions compare by commit ts if both have one; otherwise by arrival order within a partition and by
        event time between partitions. If both have a log position, a later one also follows: within one
        record (Canal's packets) and between partitions, because old releases of Debezium have event times in
        whole seconds and give DDL the time at which they read it.
        """
        if self.commit_ts is not None and other.commit_ts is not None:
            return self.commit_ts < other.commit_ts
        if self.partition == other.partition and self.topic == other.topic:
            if self.offset == other.offset:
                return is_later(other.log, self.log)
            return self.offset < other.offset
        return self.event_time_ns < other.event_time_ns or is_later(other.log, self.log)


def is_later(log: BinlogPosition | None, other: BinlogPosition | None) -> bool:
    """Return whether both positions are known and the first is later."""
    return log is not None and other is not None and log > other


class Snapshot(enum.Enum):
    """The position of a row in its snapshot, in Debezium's terms."""

    TRUE = "true"
    FIRST = "first"
    FIRST_IN_DATA_COLLECTION = "first_in_data_collection"
    LAST_IN_DATA_COLLECTION = "last_in_data_collection"
    LAST = "last"
    INCREMENTAL = "incremental"


class Source(msgspec.Struct, frozen=True, gc=False):
    """The origin and time of a change. None means that the source does not provide the field.

    event_time_ns: Time of the row's change, in nanoseconds since 1970.
    commit_ts, start_ts: TiDB's TSO (milliseconds since 1970 shifted left by 18 bits, plus a counter).
    gtid, binlog_*, server_id, thread_id: As in MySQL.
    snapshot: Set if the row was read from a table instead of the log.
    unknown_fields: Members that the protocol does not define, by their path; no target writes them.
    time_unit_ns: Unit of `event_time_ns` in the message, for wire formats with more than one unit.
    binlog_row: Index of the row in its binlog event, from 0.
    physical_partition: TiDB's id of the table partition with the row.
    schema_id: Number of the schema with which Maxwell read the row.
    trail_position: Position in GoldenGate's trail: its file and the offset there, as text.
    """

    connector: str
    event_time_ns: int
    commit_ts: int | None = None
    start_ts: int | None = None
    name: str | None = None
    gtid: str | None = None
    binlog_file: str | None = None
    binlog_position: int | None = None
    server_id: int | None = None
    thread_id: int | None = None
    snapshot: Snapshot | None = None
    query: str | None = None
    row_key: bytes | None = None
    unknown_fields: Mapping[str, Any] | None = None
    time_unit_ns: int | None = None
    binlog_row: int | None = None
    physical_partition: int | None = None
    schema_id: int | None = None
    trail_position: str | None = None

    def at(self, record: ConsumerRecord) -> Position:
        """Return the position of an event from this record."""
        file, offset = self.binlog_file, self.binlog_position
        log = None if file is None or offset is None else (len(file), file, offset, False)
        return Position(
            self.commit_ts, self.event_time_ns, record.topic, record.partition, record.offset, log
        )

    @property
    def time_ms(self) -> int:
        """The time of the commit ts, or else of the event, in milliseconds since 1970."""
        return self.tso >> TSO_LOGICAL_BITS

    @property
    def tso(self) -> int:
        """The commit ts, or the first one of the event's millisecond."""
        return (
            self.event_time_ns // 1_000_000 << TSO_LOGICAL_BITS if self.commit_ts is None else self.commit_ts
        )


class Transaction(msgspec.Struct, frozen=True, gc=False):
    """The transaction of an event: its `id` in the source's own text.

    order: Position of the event in the transaction, from 1.
    table_order: Position among the transaction's events of the same table, from 1.
    total: Number of events in the transaction.

    None if the source does not provide it (yet).
    """

    id: str
    order: int | None = None
    table_order: int | None = None
    total: int | None = None


class Images(Protocol):
    """The before- and after-image of a change. A codec may keep the wire's text and parse it on demand."""

    @property
    def before(self) -> Row | None:
        """The row before the change; raises DecodeError if it was kept as text and a value is malformed."""
        ...

    @property
    def after(self) -> Row | None:
        """The row after the change; raises like `before`."""
        ...

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return cells of the row before or after the change, by index; None if there is no such row.

        Raises like `before`, but only for these cells.
        """
        ...

    def keys_unchanged_on_wire(self) -> bool:
        """Return True if the wire shows that no key column has changed; False if only the values do."""
        ...

    @property
    def message_key_columns(self) -> tuple[str, ...] | None:
        """The columns that the message itself declares as the row's key, () if it declares none; None if it
        adds nothing to the table's definition.
        """
        ...

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """`raw_key` of the old row and of the new one."""
        ...

    def raw_key(self) -> WireKey | None:
        """Return the message's own form of the row's key after the change (before a DELETE).

        It is the same for a row regardless of the known types. None if it equals the values.
        """
        ...

    def projected(self, projection: RowProjection) -> Images:
        """Return the images in a projection; raises like `before`."""
        ...

    def of_table(self, schema: TableSchema) -> Images:
        """Return the images as rows of the same definition with another table's name."""
        ...


#: Values of a row's key as the message writes them, in the order of the columns' names.
WireKey = tuple[str | int | None, ...]


class Rows(msgspec.Struct, frozen=True):
    """Both images as plain values. `wire_keys`: `raw_key` of the old row and of the new one."""

    before: Row | None
    after: Row | None
    message_key_columns: tuple[str, ...] | None = None
    wire_keys: tuple[WireKey | None, WireKey | None] = (None, None)

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these indexes of one of the rows."""
        row = self.before if is_old else self.after
        return None if row is None else [row[at] for at in indexes]

    def keys_unchanged_on_wire(self) -> bool:
        """Return False: only the values can show it."""
        return False

    def raw_key(self) -> WireKey | None:
        """Return the message's own form of the key."""
        return self.wire_keys[self.after is not None]

    def projected(self, projection: RowProjection) -> Images:
        """Return the projected images."""
        return projection.rows(self)

    def of_table(self, schema: TableSchema) -> Rows:  # noqa: ARG002 - rows have no name
        """Return these images."""
        return self


class CellProjection(NamedTuple):
    """The source of a cell of a projected row.

    at: The index of its column in the original row.
    convert: The conversion of a value; None if it stays the same.
    constant: The cell in every row that has the column; ABSENT if it depends on the row.
    """

    at: int
    convert: Callable[[Value], Value] | None = None
    constant: Cell = ABSENT

    @property
    def is_constant(self) -> bool:
        """Whether all rows have the same value, in place of NULL, too."""
        return self.constant is not ABSENT

    def of(self, cell: Cell) -> Cell:
        """Return the cell for an original one."""
        if cell is ABSENT:
            return ABSENT
        if self.is_constant:
            return self.constant
        if cell is None or self.convert is None:
            return cell
        return self.convert(cell)


class RowProjection(msgspec.Struct, frozen=True, eq=False):
    """How rows of one definition become rows of another, which may lack columns.

    schema: The other definition, with a column for each of `cells`.
    key_names: Returns the names there of the columns that a message declares as the row's key.
    keeps_keys: Whether the columns of keys stay the same, with their names.
    """

    schema: TableSchema
    cells: tuple[CellProjection, ...]
    key_names: Callable[[tuple[str, ...] | None], tuple[str, ...] | None]
    keeps_keys: bool

    def rows(self, images: Images) -> Rows:
        """Return the projected images. Raises like `Images.before`."""
        wire_keys = images.wire_keys if self.keeps_keys else (None, None)
        names = self.key_names(images.message_key_columns)
        return Rows(self._row(images.before), self._row(images.after), names, wire_keys)

    def _row(self, row: Row | None) -> Row | None:
        return None if row is None else tuple([each.of(row[each.at]) for each in self.cells])


class RowChange(msgspec.Struct, frozen=True, gc=False):
    """A change of one row.

    INSERT and READ have `after`, DELETE has `before`, UPDATE has both (`before` is None if the source does
    not provide it). Columns that a source omits from a before-image because they did not change are filled
    from `after`.

    `emitted_at_ns`: time at which the CDC tool created the message, in nanoseconds since 1970.
    """

    op: Op
    schema: TableSchema
    images: Images
    source: Source
    emitted_at_ns: int
    transaction: Transaction | None = None

    @property
    def table(self) -> TableId:
        """The table's name."""
        return self.schema.id

    @property
    def before(self) -> Row | None:
        """The row before the change, in column order."""
        return self.images.before

    @property
    def after(self) -> Row | None:
        """The row after the change, in column order."""
        return self.images.after

    def before_dict(self) -> dict[str, Value | None] | None:
        """Return the row before the change by column name, without absent columns; None if there is none."""
        return self._by_name(self.before)

    def after_dict(self) -> dict[str, Value | None] | None:
        """Return the row after the change by column name, without absent columns; None if there is none."""
        return self._by_name(self.after)

    def _by_name(self, row: Row | None) -> dict[str, Value | None] | None:
        if row is None:
            return None
        cells = zip(self.schema.columns, row, strict=True)
        return {column.name: cell for column, cell in cells if not isinstance(cell, Absent)}


class DdlKind(enum.Enum):
    """The effect of a DDL statement. Terms follow TiDB's DDL actions, finer than those of any protocol."""

    CREATE_DATABASE = "create database"
    DROP_DATABASE = "drop database"
    ALTER_DATABASE = "alter database"
    CREATE_TABLE = "create table"
    DROP_TABLE = "drop table"
    TRUNCATE_TABLE = "truncate table"
    RENAME_TABLE = "rename table"
    RECOVER_TABLE = "recover table"
    CREATE_VIEW = "create view"
    DROP_VIEW = "drop view"
    ADD_COLUMN = "add column"
    DROP_COLUMN = "drop column"
    MODIFY_COLUMN = "modify column"
    RENAME_COLUMN = "rename column"
    SET_DEFAULT = "set default"
    ADD_INDEX = "add index"
    DROP_INDEX = "drop index"
    RENAME_INDEX = "rename index"
    ALTER_INDEX_VISIBILITY = "alter index visibility"
    ADD_PRIMARY_KEY = "add primary key"
    DROP_PRIMARY_KEY = "drop primary key"
    ADD_FOREIGN_KEY = "add foreign key"
    DROP_FOREIGN_KEY = "drop foreign key"
    ADD_CHECK = "add check constraint"
    DROP_CHECK = "drop check constraint"
    ALTER_CHECK = "alter check constraint"
    TABLE_COMMENT = "table comment"
    TABLE_CHARSET = "table charset"
    REBASE_AUTO_ID = "rebase auto id"
    ADD_PARTITION = "add partition"
    DROP_PARTITION = "drop partition"
    TRUNCATE_PARTITION = "truncate partition"
    REORGANIZE_PARTITION = "reorganize partition"
    ALTER_PARTITIONING = "alter partitioning"
    REMOVE_PARTITIONING = "remove partitioning"
    EXCHANGE_PARTITION = "exchange partition"
    ALTER_TTL = "alter ttl"
    REMOVE_TTL = "remove ttl"
    ALTER_TABLE_OPTION = "alter table option"
    SEQUENCE = "sequence"
    ADMINISTRATION = "administration"
    OTHER = "other"


class RenamedTable(msgspec.Struct, frozen=True, gc=False):
    """One pair of names in a rename."""

    old: TableId
    new: TableId


class TableChange(msgspec.Struct, frozen=True):
    """A table's description in a DDL message, in addition to the statement (Debezium's `tableChanges`).

    kind, name: The wire's term for the change, and its identifier of the table.
    definition: The table's definition after the change, or a dropped view's; None if the message has none.
    wire: The whole member as JSON, for targets that have the same member in the same `dialect` (`ticdc`,
        `debezium` for the native connectors, or `ticdc-simple`).
    """

    kind: str
    name: str
    table: TableId
    definition: TableSchema | None
    wire: bytes
    dialect: str = "ticdc"


class StatementInText(msgspec.Struct, frozen=True, gc=False):
    """The effect of one statement of a DDL text, with members as in `SchemaChange`.

    A statement that concerns a database has a target with `table == ""`.
    """

    kinds: tuple[DdlKind, ...]
    targets: tuple[TableId, ...]


class SchemaChange(msgspec.Struct, frozen=True):
    """A DDL statement.

    ddl: The original text.
    table: Its table: the new name of a rename, the first of several; `table == ""` for a database.
    kinds: Effects of the statement, in order (several for `ALTER TABLE … ADD …, DROP …`); empty if the
        statement was not understood, in which case only `wire_kind` is known.
    wire_kind: The kind in the terms of the source protocol.
    targets: All tables that are objects of the statement.
    renamed: Pairs of a rename.
    after: Definition of `table` after the statement; None if it is unknown, dropped or a view.
    definitions: Known definitions of `targets`, then of other tables that the message itself defines.
    known_before: Known earlier definitions of `targets` and of the old names of a rename, without views.
    views: Views that the statement creates or renames, or, for DROP VIEW, the views before it; only those
        with known column names.
    table_changes: Descriptions of tables in the message itself.
    beyond_text: Column attributes that only the message declares, not the text: `charset`, `collation`, and
        `enum_charset` for ENUM and SET.
    statements: The statements of a text with several; empty for any other text.
    """

    ddl: str
    table: TableId
    kinds: tuple[DdlKind, ...]
    wire_kind: str
    source: Source
    emitted_at_ns: int
    targets: tuple[TableId, ...] = ()
    renamed: tuple[RenamedTable, ...] = ()
    after: TableSchema | None = None
    definitions: tuple[TableSchema, ...] = ()
    known_before: tuple[TableSchema, ...] = ()
    views: tuple[TableSchema, ...] = ()
    table_changes: tuple[TableChange, ...] = ()
    beyond_text: tuple[str, ...] = ()
    statements: tuple[StatementInText, ...] = ()

    def dropped_tables(self) -> tuple[TableSchema, ...]:
        """Return the known definitions of the tables that the statement drops, in its order."""
        before = {schema.id: schema for schema in self.known_before}
        drops = [each for each in self.each_statement() if DdlKind.DROP_TABLE in each.kinds]
        return tuple([before[table] for drop in drops for table in drop.targets if table in before])

    @property
    def known_after(self) -> tuple[TableSchema, ...]:
        """The known definitions after the statement; that of `table` is the last one."""
        return self.definitions if self.after is None else (*self.definitions, self.after)

    def definitions_after(self) -> Iterator[Bootstrap]:
        """Yield the known definitions after the statement, without it.

        They have no commit ts: each holds from its position on.
        """
        source = msgspec.structs.replace(self.source, commit_ts=None)
        # Without a database, a statement's tables have no complete name that a reader could look up.
        named = {schema.id: schema for schema in self.known_after if schema.id.database and schema.id.table}
        for schema in named.values():
            yield Bootstrap(schema, source, self.emitted_at_ns)

    def each_statement(self) -> tuple[StatementInText, ...]:
        """Return the effect of each statement in the text, usually one."""
        return self.statements or (StatementInText(self.kinds, self.targets or (self.table,)),)


class Watermark(msgspec.Struct, frozen=True):
    """All events of this partition with a commit ts below `source.commit_ts` have been sent."""

    source: Source
    emitted_at_ns: int


class Bootstrap(msgspec.Struct, frozen=True):
    """The definition of a table from this position on, without a statement that creates it.

    It comes from TiCDC Simple's BOOTSTRAP or from Debezium's schema changes of a snapshot. `ddl` is the
    statement with which the source describes the definition, and `table_change` the message's other
    description of the table; each is None if the source has none.
    """

    schema: TableSchema
    source: Source
    emitted_at_ns: int
    ddl: str | None = None
    table_change: TableChange | None = None


class TransactionMark(msgspec.Struct, frozen=True):
    """BEGIN or END of a transaction.

    `count`: events of the transaction; `table_counts`: events per table. An END has both if the source does.
    """

    is_begin: bool
    id: str
    source: Source
    emitted_at_ns: int
    count: int | None = None
    table_counts: tuple[tuple[TableId, int], ...] = ()


class Heartbeat(msgspec.Struct, frozen=True):
    """A sign of life from the source, without other content."""

    source: Source
    emitted_at_ns: int


Event = RowChange | SchemaChange | Watermark | Bootstrap | TransactionMark | Heartbeat
