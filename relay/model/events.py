"""The canonical model: what every protocol is decoded into and encoded from.

Values (`Value`) are exact: integers, YEAR and BIT are `int`; FLOAT and DOUBLE `float`; DECIMAL `Decimal` with
its scale; character types `str`; binary types `bytes`; JSON the `str` that came; DATE, DATETIME, TIME the
`str` of MySQL's own text; TIMESTAMP the same text in UTC; ENUM and SET `int` (index, bit map) or, where the
wire has labels and the members are unknown, `str`. FLOAT is the `float` whose shortest digits are those of
the 32-bit number (3.14, not 3.140000104904175).

A column of a row image has three states that are never mixed up: a value, `None` (SQL NULL) and `ABSENT` (the
image does not say). An image that does not exist at all (the before-image of an INSERT) is `None` as a whole.
"""

from __future__ import annotations

import enum
import functools
from collections.abc import Mapping, Sequence
from decimal import Decimal
from typing import Any, Final, Protocol

import msgspec

from relay.model.records import ConsumerRecord

#: A TSO is milliseconds since 1970 shifted left by this, plus a counter.
TSO_LOGICAL_BITS: Final = 18


class Absent(enum.Enum):
    """The type of `ABSENT`, the mark of a column that a row image does not contain."""

    ABSENT = "absent"

    def __repr__(self) -> str:
        return "ABSENT"


ABSENT: Final = Absent.ABSENT

Value = int | float | Decimal | str | bytes
Cell = Value | None | Absent
Row = tuple[Cell, ...]


class Op(enum.Enum):
    """What happened to a row. READ is a row of a snapshot: it was there before the stream began."""

    INSERT = "insert"
    UPDATE = "update"
    DELETE = "delete"
    READ = "read"

    # Members are singletons; Enum's own hash is a Python function, and an operation is looked up for every
    # row.
    __hash__ = object.__hash__


class TableId(msgspec.Struct, frozen=True, order=True, gc=False):
    """Database (MySQL's schema) and table; names are compared exactly as they came."""

    database: str
    table: str

    def __str__(self) -> str:
        return f"{self.database}.{self.table}"


class ColumnType(msgspec.Struct, frozen=True, gc=False):
    """A MySQL column type. `base` is MySQL's own lower-case name (`int`, `varchar`, `decimal` …; see
    `relay.mysql.types`).

    `length` is the display width of integers, the characters or bytes of strings, the precision of numbers,
    the bits of BIT, the fraction digits (fsp) of temporal types, and the dimension of VECTOR; None where the
    source does not say. `has_micros` is of a DATETIME without a length: whether it has more than three
    digits; None where the source does not say that either.
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
    """A column's default: the literal's text (None: DEFAULT NULL), or an expression: CURRENT_TIMESTAMP(3)."""

    text: str | None
    is_expression: bool = False


class Generated(enum.Enum):
    """How a generated column is kept. VIRTUAL ones are on no TiCDC wire."""

    STORED = "stored"
    VIRTUAL = "virtual"


class Column(msgspec.Struct, frozen=True, gc=False):
    """One column. `nullable` None, `default` ABSENT: the source does not say (or there is no default)."""

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
    """A secondary index that is not unique: its name and columns in key order. `is_implied`: no statement has
    it, TiDB has made it for a foreign key; its columns count as those of no key.
    """

    name: str
    columns: tuple[str, ...]
    is_implied: bool = False


class TableSchema(msgspec.Struct, frozen=True, cache_hash=True, dict=True):
    """One version of a table's definition. `columns` are in table order; row images are tuples in that order.

    `primary_key` holds column names in key order: `()` when the table has none, None when the source does not
    say. `complete` is false where the definition was put together from rows alone, without the table's DDL:
    types may lack their parameters, and columns that rows do not carry are missing. `is_view`: a view, which
    has no rows; its columns have names alone, and there are none where the names cannot be known. `table_id`,
    `version`: TiDB's id of the table, and the TSO by which it tells this version from others; None where the
    source does not say. `key_order`: the names of unique keys and indexes as they were added; () where the
    unique keys came first, or nobody knows. `is_nonclustered`: the primary key is one integer, by which TiDB
    is known not to store the rows.
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
        """The columns by which TiCDC identifies a row: the primary key; else, of the unique keys that cannot
        be NULL, the one with the fewest columns, the oldest of several (pingcap/ticdc
        pkg/common/table_info_helper.go, 2026-08).
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
    def hidden_places(self) -> frozenset[int]:
        """Where virtual generated columns stand, which most wires leave out."""
        return frozenset(
            [at for at, column in enumerate(self.columns) if column.generated is Generated.VIRTUAL]
        )

    @functools.cached_property
    def handle_places(self) -> tuple[int, ...]:
        """Where the columns of the handle key stand, in the order of their names."""
        return self.places_of(self._handle_key)

    @functools.cached_property
    def lacks_key_columns(self) -> bool:
        """Whether `columns` lacks some of the handle key: messages name a key and omit part of it."""
        return len(self.handle_places) < len(frozenset(self._handle_key))

    def places_of(self, names: Sequence[str]) -> tuple[int, ...]:
        """Return where those of these columns stand that the table has, in the order of their names."""
        wanted = frozenset(names)
        found = [(column.name, at) for at, column in enumerate(self.columns) if column.name in wanted]
        return tuple([at for _, at in sorted(found)])

    def ordered_keys(self) -> list[tuple[UniqueKey | Index, bool]]:
        """Return unique keys and indexes in the order in which they were added; whether each is unique."""
        keys: list[tuple[UniqueKey | Index, bool]] = [(key, True) for key in self.unique_keys]
        keys += [(index, False) for index in self.indexes]
        if self.key_order:
            places = {name: at for at, name in enumerate(self.key_order)}
            keys.sort(key=lambda key: places.get(key[0].name, len(places)))
        return keys

    def key_columns(self) -> tuple[str, ...]:
        """The columns of the primary key and of all unique keys, each once."""
        keys = (self.primary_key or (), *(key.columns for key in self.unique_keys))
        return tuple(dict.fromkeys(name for key in keys for name in key))


#: A place in MySQL's binlog, in the order of the log: the file's name (its length first: `bin.10` follows
#: `bin.9`), the position in it, and whether it is a row that a snapshot has read there, behind all DDL.
BinlogPosition = tuple[int, str, int, bool]


class Position(msgspec.Struct, frozen=True, gc=False):
    """An event's place in its source: `commit_ts` (TiDB's TSO) if there is one, event time, Kafka record;
    `log` of a source that has DDL and rows in topics of their own.
    """

    commit_ts: int | None
    event_time_ns: int
    topic: str
    partition: int
    offset: int
    log: BinlogPosition | None = None

    def precedes(self, other: Position) -> bool:
        """Whether this position is strictly before the other.

        By commit ts where both have one; else arrival order inside one partition, event time between
        partitions. Where both have a place in the log, what stands later there follows, too, inside of one
        record (Canal's packets) and between partitions: old releases of Debezium have times of whole
        seconds, and give DDL the time at which they read it.
        """
        if self.commit_ts is not None and other.commit_ts is not None:
            return self.commit_ts < other.commit_ts
        if self.partition == other.partition and self.topic == other.topic:
            if self.offset == other.offset:
                return is_later(other.log, self.log)
            return self.offset < other.offset
        return self.event_time_ns < other.event_time_ns or is_later(other.log, self.log)


def is_later(log: BinlogPosition | None, other: BinlogPosition | None) -> bool:
    """Whether both are known, and the first stands later."""
    return log is not None and other is not None and log > other


class Snapshot(enum.Enum):
    """How a row that was read from a table stands in its snapshot; the words are Debezium's."""

    TRUE = "true"
    FIRST = "first"
    FIRST_IN_DATA_COLLECTION = "first_in_data_collection"
    LAST_IN_DATA_COLLECTION = "last_in_data_collection"
    LAST = "last"
    INCREMENTAL = "incremental"


class Source(msgspec.Struct, frozen=True, gc=False):
    """Where and when a change happened in the origin. None means that the source does not say.

    `event_time_ns`: when the row changed, nanoseconds since 1970. `commit_ts`, `start_ts`: TiDB's TSO
    (milliseconds since 1970 shifted left by 18 bits, plus a counter). `gtid`, `binlog_*`, `server_id`,
    `thread_id`: MySQL's. `snapshot`: the row was read from a table, not from the log; None if it was not.
    `extras`: members of the message that its protocol does not define, by their path; no target writes them.
    `time_unit_ns`: the unit in which the message has `event_time_ns`, of a wire that has more than one.
    `binlog_row`: the row's place in the binlog's event, from 0. `physical_partition`: TiDB's id of the
    partition that has the row. `schema_id`: Maxwell's number of the schema that it read the row with.
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
    extras: Mapping[str, Any] | None = None
    time_unit_ns: int | None = None
    binlog_row: int | None = None
    physical_partition: int | None = None
    schema_id: int | None = None

    def at(self, record: ConsumerRecord) -> Position:
        """Return where the event stands that this record has told."""
        file, place = self.binlog_file, self.binlog_position
        log = None if file is None or place is None else (len(file), file, place, False)
        return Position(
            self.commit_ts, self.event_time_ns, record.topic, record.partition, record.offset, log
        )

    @property
    def time_ms(self) -> int:
        """When it happened, in milliseconds since 1970: the time of the commit ts, or else of the event."""
        return self.tso >> TSO_LOGICAL_BITS

    @property
    def tso(self) -> int:
        """The commit ts, or the first one of the event's millisecond."""
        return (
            self.event_time_ns // 1_000_000 << TSO_LOGICAL_BITS if self.commit_ts is None else self.commit_ts
        )


class Transaction(msgspec.Struct, frozen=True, gc=False):
    """The transaction of an event: its `id` in the source's own text.

    `order`: the event's place in it, from 1; `table_order`: its place among those of its table, from 1;
    `total`: how many events it has. None where the source does not say (yet).
    """

    id: str
    order: int | None = None
    table_order: int | None = None
    total: int | None = None


class Images(Protocol):
    """The before- and after-image of a change. A codec may keep the wire's text and read it on demand."""

    @property
    def before(self) -> Row | None:
        """The row before the change; raises DecodeError if it was kept as text and a value is malformed."""
        ...

    @property
    def after(self) -> Row | None:
        """The row after the change; raises like `before`."""
        ...

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these places of the row before or after the change, None if there is no such
        row; raises like `before`, for these cells alone.
        """
        ...

    def keys_unchanged_on_wire(self) -> bool:
        """Whether the wire shows that no key column has changed; False if only the values can tell."""
        ...

    @property
    def message_key_columns(self) -> tuple[str, ...] | None:
        """The columns that the message itself names as the row's key, () if it names none; None if it says as
        much of the key as the definition does.
        """
        ...

    def raw_key(self) -> WireKey | None:
        """Return what the message says of the row's key after the change (before a DELETE): the same for a
        row whatever is known of the types. None if that is what the values say.
        """
        ...


#: Values of a row's key as a message spells them, in the order of the columns' names.
WireKey = tuple[str | int | None, ...]


class Rows(msgspec.Struct, frozen=True):
    """Both images as plain values. `wire_keys`: see `raw_key`, of the old row and of the new one."""

    before: Row | None
    after: Row | None
    message_key_columns: tuple[str, ...] | None = None
    wire_keys: tuple[WireKey | None, WireKey | None] = (None, None)

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these places of one of the rows."""
        row = self.before if is_old else self.after
        return None if row is None else [row[at] for at in places]

    def keys_unchanged_on_wire(self) -> bool:
        """Return False: the values must tell."""
        return False

    def raw_key(self) -> WireKey | None:
        """Return what the message says of the key."""
        return self.wire_keys[self.after is not None]


class RowChange(msgspec.Struct, frozen=True, gc=False):
    """One row's change. `emitted_at_ns`: when the CDC tool made the message, nanoseconds since 1970.

    INSERT and READ have `after`, DELETE has `before`, UPDATE has both (`before` is None if the source does
    not say); columns that a source leaves out of a before-image because they did not change are filled from
    `after`.
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
        """Return the row before the change by the columns' names, None if there is no such row. Columns that
        the image does not have are left out.
        """
        return self._by_name(self.before)

    def after_dict(self) -> dict[str, Value | None] | None:
        """Return the row after the change by the columns' names, as `before_dict` does."""
        return self._by_name(self.after)

    def _by_name(self, row: Row | None) -> dict[str, Value | None] | None:
        if row is None:
            return None
        cells = zip(self.schema.columns, row, strict=True)
        return {column.name: cell for column, cell in cells if not isinstance(cell, Absent)}


class DdlKind(enum.Enum):
    """What a DDL statement does. The words follow TiDB's DDL actions, which are finer than any protocol's."""

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
    """One pair of a rename."""

    old: TableId
    new: TableId


class TableChange(msgspec.Struct, frozen=True):
    """What a DDL message says of a table beside the statement (Debezium's `tableChanges`).

    `kind` and `name` are the wire's word for what happened and its identifier. `definition` is the table's
    after it, or a dropped view's; None where the message has none. `wire`: all of it as JSON, for targets
    that have the same member in the same `dialect` (`ticdc`, `debezium` for the native connectors, or
    `ticdc-simple`).
    """

    kind: str
    name: str
    table: TableId
    definition: TableSchema | None
    wire: bytes
    dialect: str = "ticdc"


class StatementInText(msgspec.Struct, frozen=True, gc=False):
    """What one statement of a DDL text does, as `SchemaChange` says it of the whole text. A statement about a
    database has a target with `table == ""`.
    """

    kinds: tuple[DdlKind, ...]
    targets: tuple[TableId, ...]


class SchemaChange(msgspec.Struct, frozen=True):
    """A DDL statement. `ddl` is its text as it came.

    `table` is the table it is about: the new name of a rename, the first of several, `table == ""` for a
    database's. `kinds` lists what the statement does, in its order (several for `ALTER TABLE … ADD …, DROP
    …`); empty when the statement was not understood, and then `wire_kind` is all that is known. `wire_kind`
    is the kind that the source protocol named, in its word. `targets` are all tables that the statement names
    as its object; `renamed` the pairs of a rename. `after` is the definition that the table has then, None if
    it is unknown, dropped or a view. `definitions`: those of all `targets` that are known, then those of
    other tables that the message itself defines; `known_before`: those that its tables had before it, where
    they were known: `targets` and the old names of a rename, but no views. `views`: those that it creates or
    renames, or as they were before it dropped them; those whose columns' names are known. `table_changes`:
    what the message itself says of tables. `beyond_text`: what it says of their columns that the text does
    not: `charset`, `collation`; `enum_charset`: of ENUM and SET. `statements`: those of a text that has
    several; empty for any other text.
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
        """Return the tables that the statement drops, as they were, in its order; those that were known."""
        before = {schema.id: schema for schema in self.known_before}
        drops = [each for each in self.each_statement() if DdlKind.DROP_TABLE in each.kinds]
        return tuple([before[table] for drop in drops for table in drop.targets if table in before])

    def each_statement(self) -> tuple[StatementInText, ...]:
        """Return what each statement of the text does, which is one most of the time."""
        return self.statements or (StatementInText(self.kinds, self.targets or (self.table,)),)


class Watermark(msgspec.Struct, frozen=True):
    """Every event of this partition with a commit ts below `source.commit_ts` has been sent."""

    source: Source
    emitted_at_ns: int


class Bootstrap(msgspec.Struct, frozen=True):
    """The definition that a table has from here on, without a statement that made it.

    TiCDC Simple's BOOTSTRAP, and Debezium's schema changes of a snapshot. `ddl` is the statement by which the
    source shows the definition, and `told` what else its message says of it; None where it has none.
    """

    schema: TableSchema
    source: Source
    emitted_at_ns: int
    ddl: str | None = None
    told: TableChange | None = None


class TransactionMark(msgspec.Struct, frozen=True):
    """BEGIN or END of a transaction.

    `count`: how many events it has; `table_counts`: how many each table has. An END has both, where the
    source says so.
    """

    is_begin: bool
    id: str
    source: Source
    emitted_at_ns: int
    count: int | None = None
    table_counts: tuple[tuple[TableId, int], ...] = ()


class Heartbeat(msgspec.Struct, frozen=True):
    """The source is alive and has nothing else to say."""

    source: Source
    emitted_at_ns: int


Event = RowChange | SchemaChange | Watermark | Bootstrap | TransactionMark | Heartbeat
