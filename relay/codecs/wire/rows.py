"""Rows of typed wires (Open Protocol, Debezium …): a message's cells, and the definition they are read with.

Contract: a decoder keeps a row as the tuple of its wire values in column order (`TypedRows`) together with
the `TypedReader` that turns them into canonical values when somebody asks, made once per table version. An
encoder says as a `RowTarget` how values are written, and its `TypedWriters` turn any row into `{column:
target value}`: from wire values in one step a column where the decoder kept them, else from canonical values.
Both are caches that could be emptied at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from types import MappingProxyType
from typing import Any, Final, Generic, NamedTuple, Protocol, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs.losses import Lossy
from relay.codecs.wire.caches import ByteCache, CachePool, columns_bytes, schema_bytes
from relay.codecs.wire.compiled import Null, RowFunction, Steps, is_due, plain_row_function, row_function
from relay.errors import Malformed, NotRepresentable
from relay.model import (
    ABSENT,
    Cell,
    Column,
    Generated,
    Images,
    Op,
    Position,
    Row,
    RowChange,
    Rows,
    SchemaChange,
    TableId,
    TableSchema,
    Value,
    WireKey,
    is_later,
)
from relay.mysql.numbers import decimal_shortcut
from relay.native import usual_of
from relay.records import ConsumerRecord

#: Wire value to canonical value, canonical value to target value, and both in one. NULL is given to none.
Read = Callable[[Any], Value]
Write = Callable[[Any], Any]
Convert = Callable[[Any], Any]

#: What an encoder makes for one table version: key columns, a schema block …
Plan = TypeVar("Plan")
#: What a decoder compiles for rows of certain columns.
Kept = TypeVar("Kept")
AnyTable = TypeVar("AnyTable", bound="Table[Any]")

#: What a decoder's table takes beside its names and what is compiled for it.
_TABLE_BYTES: Final = 1_000
#: What an encoder's plan of a table version takes beside its own `plan_bytes`, and the function that writes
#: rows of some columns: both for every column, too (measured with CPython 3.11).
_PLAN_BYTES: Final = 1_000
_FUNCTION_BYTES: Final = 3_000
_FUNCTION_COLUMN_BYTES: Final = 450
#: A commit ts that no row has.
_NEVER: Final = math.inf
# Python 3.11 resolves `Op.DELETE` through a descriptor, at the price of a function call; this is looked at
# for every row.
_DELETE: Final = Op.DELETE


#: What is wrong with a row that no reader could find the table of.
NAMELESS: Final = "a row without the name of its table"


class PartNames(msgspec.Struct, frozen=True):
    """What the wire calls the images, for the paths of errors: of a DELETE, the old and the new row.

    `value`: what follows a column's name where its value is a member of the column's cell: `.v`.
    """

    deleted: str
    old: str
    new: str
    value: str = ""


class Columns:
    """Where the columns of a definition stand by name, and those that are virtual."""

    def __init__(self, schema: TableSchema) -> None:
        self.schema = schema
        self.place_of = {column.name: at for at, column in enumerate(schema.columns)}
        self.hidden = hidden_places(schema)


class Table(Generic[Kept]):
    """A table's name, made once, what a decoder has compiled for its rows (the newest first), and what the
    catalogue said last.
    """

    def __init__(self, id: TableId) -> None:
        self.id = id
        self.kept: list[Kept] = []
        #: About what all of it takes; `Tables` counts it.
        self.bytes = 0
        #: The definition after all DDL of the table, and that DDL's last position and commit ts, as `catalog`
        #: has them.
        self.newest: TableSchema | None = None
        self.newest_at: Position | None = None
        self.newest_commit_ts: float = _NEVER
        self.catalog: Catalog | None = None
        self._columns: Columns | None = None

    def columns_of(self, schema: TableSchema) -> Columns:
        """Return where the columns of a definition stand; of the last one it is known."""
        found = self._columns
        if found is None or found.schema is not schema:
            found = self._columns = Columns(schema)
        return found

    def is_newest(
        self, catalog: Catalog, commit_ts: int | None, event_time_ns: int, record: ConsumerRecord | Position
    ) -> bool:
        """Whether a row follows all DDL of its table, as most do (`Position.precedes`): then use `newest`."""
        if catalog is not self.catalog:
            self.catalog, (self.newest_at, self.newest) = catalog, catalog.newest(self.id)
            at = self.newest_at
            self.newest_commit_ts = _NEVER if at is None or at.commit_ts is None else at.commit_ts
        at = self.newest_at
        if at is None:
            return True
        if commit_ts is not None and at.commit_ts is not None:
            return commit_ts > at.commit_ts
        if at.partition == record.partition and at.topic == record.topic:
            return record.offset > at.offset
        if event_time_ns > at.event_time_ns:
            return True
        return isinstance(record, Position) and is_later(record.log, at.log)

    def forget(self) -> None:
        """Forget what was compiled."""
        self.kept, self._columns = [], None


class Tables(dict[tuple[str | None, str | None], AnyTable]):
    """A decoder's tables by database and name, made on demand, within a bound of bytes: a cache that could be
    emptied any time. Those that were met first go first.
    """

    def __init__(self, made: Callable[[TableId], AnyTable], most_bytes: int) -> None:
        super().__init__()
        self._made = made
        self._most_bytes, self._bytes = most_bytes, 0

    def __missing__(self, name: tuple[str | None, str | None]) -> AnyTable:
        table = self._made(TableId(name[0] or "", name[1] or ""))
        self.charge(table, 0)
        return table

    def keep(self, table: AnyTable, made: Any, size: int, most: int) -> None:  # noqa: ANN401 - the table's kind
        """Keep what was compiled for a table, about so many bytes, and the newest `most` of its kind."""
        if len(table.kept) >= most:
            # Each counts as an equal part: what a table keeps is alike.
            self.charge(table, -(table.bytes // (len(table.kept) + 1)))
        table.kept = [made, *table.kept[: most - 1]]
        self.charge(table, size)

    def charge(self, table: AnyTable, size: int) -> None:
        """Count bytes that a table takes from now on; if all take too many, forget others, or all of it."""
        name = table.id.database, table.id.table
        if name not in self:
            self[name] = table
            size += _TABLE_BYTES + 2 * len(name[0]) + 2 * len(name[1])
        table.bytes += size
        self._bytes += size
        while self._bytes > self._most_bytes and len(self) > 1:
            self.pop(next(other for other in self if other != name))
        if self._bytes > self._most_bytes:
            newest = table.kept[:1]
            self.pop(name)
            table.kept = newest

    def pop(self, name: tuple[str | None, str | None], *default: Any) -> Any:  # noqa: ANN401 - as dict's
        """Forget a table."""
        table = super().pop(name, *default)
        if isinstance(table, Table):
            self._bytes -= table.bytes
            table.bytes = 0
            table.forget()
        return table

    def clear(self) -> None:
        """Forget all tables."""
        super().clear()
        self._bytes = 0

    def forget(self, change: SchemaChange) -> None:
        """Forget what was compiled for a statement's tables: columns may have moved, so no guess may stay."""
        for table in (*change.targets, *(pair.old for pair in change.renamed)):
            self.pop((table.database, table.table), None)


class TypeInfo(NamedTuple):
    """Whether the source's messages tell a row's column types and parameters, whatever DDL before said."""

    types: bool
    parameters: bool


_UNTYPED: Final = TypeInfo(types=False, parameters=False)


class TypedReader:
    """Reads the cells of one table version in one wire's spelling. Made once per table version.

    `places`: where the cells stand in the table, ascending. `reads`: how each becomes canonical, None if it
    is. `known`: the catalogue's definition that this was made for. `is_guessed`: the schema comes from a
    message and not from the table's DDL. `is_partial`: the table has columns that the cells lack.
    `tells_types`: the messages themselves tell the types. `wire`: what they say of each column beside its
    type, for an encoder of the same wire. `hidden`: where virtual generated columns stand, if that is known.
    `key_cell`: a cell of a key as `Images.wire_key` has it, None if canonical values say the same whatever is
    known of types.
    """

    def __init__(  # noqa: PLR0913 - what a reader is made of
        self,
        protocol: str,
        schema: TableSchema,
        places: Sequence[int],
        reads: Sequence[Read | None],
        parts: PartNames,
        *,
        known: TableSchema | None = None,
        tells_types: bool = True,
        wire: Mapping[str, int] | None = None,
        hidden: frozenset[int] | None = None,
        key_cell: Callable[[Any], str | int | None] | None = None,
    ) -> None:
        self.protocol, self.schema, self.known, self.parts = protocol, schema, known, parts
        self.places, self.reads, self.wire = tuple(places), tuple(reads), wire
        self.is_guessed = not schema.complete
        self.is_partial = False
        if schema.complete:
            hidden = hidden_places(schema) if hidden is None else hidden
            shown = sum([at not in hidden for at in self.places])
            self.is_partial = shown < len(schema.columns) - len(hidden)
        self.type_info = TypeInfo(tells_types, parameters=False)
        #: The key that messages name, as `Images.named_key`.
        self.named_key: tuple[str, ...] | None = None
        #: What encoders have made for these rows; it lives and dies with the reader.
        self.plans: dict[object, Any] = {}
        #: The columns of the cells.
        self.names = [schema.columns[at].name for at in self.places]
        #: Where columns stand that an image may have, ascending.
        self.possible_places = self.places
        keys = frozenset(schema.key_columns())
        #: Where the cells of columns stand by which TiCDC knows an UPDATE of a key.
        self.key_cells = [at for at, name in enumerate(self.names) if name in keys]
        handle = schema.handle_key() if key_cell is not None else ()
        self._key_cell = key_cell
        self._handle_cells = [
            at for name, at in sorted(zip(self.names, count(), strict=False)) if name in handle
        ]
        self._has_wire_key = key_cell is not None and len(self._handle_cells) == len(handle)
        self._cells_of: dict[tuple[int, ...], list[int | None]] = {}

    def wire_key(self, cells: Sequence[Any]) -> WireKey | None:
        """Return what these cells say of the row's key (`Images.wire_key`)."""
        key_cell = self._key_cell
        if key_cell is None or not self._has_wire_key:
            return None
        key = [cells[at] for at in self._handle_cells]
        return None if ABSENT in key else tuple(map(key_cell, key))

    def row(self, cells: Sequence[Any], part: str) -> Row:
        """Return the canonical row, ABSENT where cells are missing. Raises Malformed for an invalid value."""
        row: list[Cell] = [ABSENT] * len(self.schema.columns)
        for at, read, value, name in zip(self.places, self.reads, cells, self.names, strict=True):
            try:
                row[at] = value if read is None or value is None or value is ABSENT else read(value)
            except (ValueError, ArithmeticError, TypeError) as error:
                raise self._malformed(part, name, error) from error
        return tuple(row)

    def cells_at(self, places: Sequence[int], cells: Sequence[Any], part: str) -> list[Cell]:
        """Return the canonical row's cells at these places, and read no other. Raises like `row`.

        `places` are of the table, its key's for example: for each tuple of them something is kept.
        """
        places = tuple(places)
        wanted = self._cells_of.get(places)
        if wanted is None:
            cell_of = {place: at for at, place in enumerate(self.places)}
            wanted = self._cells_of[places] = [cell_of.get(place) for place in places]
        return [ABSENT if at is None else self._cell(at, cells[at], part) for at in wanted]

    def _cell(self, at: int, value: Any, part: str) -> Cell:  # noqa: ANN401 - any wire value
        read = self.reads[at]
        try:
            return value if read is None or value is None or value is ABSENT else read(value)
        except (ValueError, ArithmeticError, TypeError) as error:
            raise self._malformed(part, self.names[at], error) from error

    def _malformed(self, part: str, name: str, error: Exception) -> Malformed:
        return Malformed(self.protocol, f"{part}.{name}{self.parts.value}", str(error))

    def row_function(
        self,
        writes: Sequence[Write | None],
        shortcuts: Mapping[tuple[Read, Write], Convert],
        nulls: Sequence[Null | None] | None = None,
        *,
        names: Sequence[str] | None = None,
        as_struct: bool = False,
        is_compiled: bool = True,
    ) -> RowFunction:
        """Return the function that turns the cells into the target's values in one step a column; `names`:
        the target's of the columns, None if it has the source's.
        """
        names = self.names if names is None else names
        steps = [_steps(read, write, shortcuts) for read, write in zip(self.reads, writes, strict=True)]
        if is_compiled:
            return row_function(names, steps, nulls, as_struct=as_struct)
        return plain_row_function(names, steps, nulls or [None] * len(steps))


def _steps(read: Read | None, write: Write | None, shortcuts: Mapping[tuple[Read, Write], Convert]) -> Steps:
    if read is not None and write is not None:
        both = shortcuts.get((read, write)) or decimal_shortcut(read, write)
        if both is not None:
            return (both,)
        usual = usual_of(read)
        both = shortcuts.get((usual, write)) or decimal_shortcut(usual, write)
        return (read, write) if both is None else (_or_else(both, read, write),)
    only = read or write
    return () if only is None else (only,)


def _or_else(both: Convert, read: Read, write: Write) -> Convert:
    """Return what does both in one where that can be done."""

    def convert(value: Any) -> Any:  # noqa: ANN401 - any wire value
        try:
            return both(value)
        except ValueError:
            return write(read(value))

    return convert


class LazyRows(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Images that a decoder keeps as they came. They equal images with the same rows; pickled as `Rows`."""

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        raise NotImplementedError

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        raise NotImplementedError

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """As in `Images`, without reading other cells where a codec can."""
        row = self.before if is_old else self.after
        return None if row is None else [row[at] for at in places]

    def surely_keeps_keys(self) -> bool:
        """Return whether the wire shows that no key column has changed; False if only values can tell."""
        return False

    @property
    def named_key(self) -> tuple[str, ...] | None:
        """As in `Images`: the definition's, unless a codec knows better."""
        return None

    @property
    def possible_places(self) -> Sequence[int] | None:
        """Where columns stand that either image may have, ascending: few of a wide table; None: anywhere."""
        return None

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """What `wire_key` says of the old row and of the new one."""
        return None, None

    def wire_key(self) -> WireKey | None:
        """As in `Images`: what the values say, unless a codec knows better."""
        return None

    def halves(self) -> tuple[Images, Images]:
        """Return the old row and the new row of an update as images of their own."""
        return HalfRows(self, is_old=True), HalfRows(self, is_old=False)

    def typed(self, *, has_before: bool) -> TypedRows | None:  # noqa: ARG002 - most kinds have none
        """Return the same rows as cells with their reader, for encoders that compile a function for it; None
        if there is none (yet). `has_before`: whether an update's old row is wanted.
        """
        return None

    def __eq__(self, other: object) -> bool:
        if not hasattr(other, "before") or not hasattr(other, "after"):
            return NotImplemented
        return bool(self.before == other.before and self.after == other.after)

    def __hash__(self) -> int:
        return hash((self.before, self.after))

    def __repr__(self) -> str:
        return repr(Rows(self.before, self.after))

    def __reduce__(self) -> tuple[type[Rows], tuple[object, ...]]:
        return Rows, (self.before, self.after, self.named_key, self.wire_keys)


class _CellRows(LazyRows, frozen=True, eq=False, gc=False):
    """A change's images as the wire values that came: `old` and `new` have a cell for each of the reader's
    places; None where there is no such image.
    """

    reader: TypedReader
    old: Sequence[Any] | None
    new: Sequence[Any] | None

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        return None if self.old is None else self.reader.row(self.old, self.old_part)

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        return None if self.new is None else self.reader.row(self.new, self.reader.parts.new)

    @property
    def old_part(self) -> str:
        """What the wire calls the old row."""
        return self.reader.parts.old

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these places of one of the rows; no other is read."""
        cells, reader = self.old if is_old else self.new, self.reader
        if cells is None:
            return None
        return reader.cells_at(places, cells, self.old_part if is_old else reader.parts.new)

    @property
    def named_key(self) -> tuple[str, ...] | None:
        """The reader's."""
        return self.reader.named_key

    @property
    def possible_places(self) -> Sequence[int]:
        """The reader's."""
        return self.reader.possible_places


class TypedRows(_CellRows, frozen=True, eq=False, gc=False):
    """A change's images as the wire values that came, none of them ABSENT."""

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        if self.old is None:
            return None
        # As `old_part`, which would be a call more for every row.
        parts = self.reader.parts
        return self.reader.row(self.old, parts.deleted if self.new is None else parts.old)

    @property
    def old_part(self) -> str:
        """What the wire calls the old row: of a DELETE, or of an update."""
        parts = self.reader.parts
        return parts.deleted if self.new is None else parts.old

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """What the cells say of the key, of the old row and of the new one."""
        old, new, reader = self.old, self.new, self.reader
        return None if old is None else reader.wire_key(old), None if new is None else reader.wire_key(new)

    def wire_key(self) -> WireKey | None:
        """Return what the cells say of the key."""
        cells = self.old if self.new is None else self.new
        return None if cells is None else self.reader.wire_key(cells)

    def halves(self) -> tuple[Images, Images]:
        """Return the old row and the new row, still as cells."""
        return _OldRow(self.reader, self.old, None), TypedRows(self.reader, None, self.new)

    def typed(self, *, has_before: bool) -> TypedRows:  # noqa: ARG002 - an encoder may leave it out
        """Return these rows."""
        return self

    def surely_keeps_keys(self) -> bool:
        """Return whether the key columns have the same wire values in both images, if there are two."""
        old, new = self.old, self.new
        if old is None or new is None:
            return True
        for at in self.reader.key_cells:
            cell = old[at]
            # Zeros of both signs are equal, and are written differently.
            if cell != new[at] or (type(cell) is float and not cell):
                return False
        return True


class _OldRow(TypedRows, frozen=True, eq=False, gc=False):
    """The old row of an update as images of its own."""

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        return None if self.old is None else self.reader.row(self.old, self.old_part)

    @property
    def old_part(self) -> str:
        """What the wire calls the old row of an update."""
        return self.reader.parts.old


class PartialRows(_CellRows, frozen=True, eq=False, gc=False):
    """A change's images as the wire values that came, like `TypedRows`, but some of them ABSENT."""

    def halves(self) -> tuple[Images, Images]:
        """Return the old row and the new row, still as cells."""
        return PartialRows(self.reader, self.old, None), PartialRows(self.reader, None, self.new)


class HalfRows(LazyRows, frozen=True, eq=False, gc=False):
    """The old row of an update, or the new one, as images of their own; read when somebody asks."""

    images: LazyRows | Rows
    is_old: bool

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        return self.images.before if self.is_old else None

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        return None if self.is_old else self.images.after

    @property
    def named_key(self) -> tuple[str, ...] | None:
        """The update's."""
        return self.images.named_key

    @property
    def possible_places(self) -> Sequence[int] | None:
        """The update's."""
        return self.images.possible_places if isinstance(self.images, LazyRows) else None

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """The update's; of the other row nothing."""
        old, new = self.images.wire_keys
        return (old, None) if self.is_old else (None, new)

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the update's cells, if they are of this row."""
        return self.images.cells_at(places, is_old=is_old) if is_old is self.is_old else None

    def wire_key(self) -> WireKey | None:
        """Return what the update says of this row's key."""
        return self.images.wire_keys[not self.is_old]

    def typed(self, *, has_before: bool) -> TypedRows | None:  # noqa: ARG002 - this row is all there is
        """Return the row as the update's cells, if it has them."""
        update = self.images.typed(has_before=True) if isinstance(self.images, LazyRows) else None
        if update is None:
            return None
        old, new = (update.old, None) if self.is_old else (None, update.new)
        return TypedRows(update.reader, old, new)


def present_places(images: Images, row: Row) -> tuple[int, ...]:
    """Return where the columns stand that a row has, in time proportional to those if its images know."""
    possible: Sequence[int] | None = getattr(images, "possible_places", None)
    if possible is None:
        return tuple([at for at, cell in enumerate(row) if cell is not ABSENT])
    return tuple([at for at in possible if row[at] is not ABSENT])


def halves(images: Images) -> tuple[Images, Images]:
    """Return the old row and the new row of an update as images of their own."""
    if isinstance(images, LazyRows):
        return images.halves()
    if isinstance(images, Rows):
        return HalfRows(images, is_old=True), HalfRows(images, is_old=False)
    key = images.named_key
    return Rows(images.before, None, key), Rows(None, images.after, key)


#: A change in the target's spelling, columns in table order: the plan, the row before and after (None: there
#: is none), and what is lost of every row like this one. ABSENT columns are left out.
Written = tuple[Plan, Any, Any, tuple[Lossy, ...]]


class RowTarget(Protocol[Plan]):
    """What an encoder says of its rows; `TypedWriters` asks once per table version."""

    #: Pairs of a source's read and this target's write, with one function that does both.
    shortcuts: Mapping[tuple[Read, Write], Convert] = MappingProxyType({})
    #: Whether rows with every column of their table are structs (`row_struct`).
    has_structs: bool = False
    #: Whether updates have a before-image.
    has_before: bool = True
    #: Whether virtual generated columns are written, of rows that have them.
    has_virtual: bool = False

    def plan(self, schema: TableSchema) -> Plan:
        """Return what the encoder needs of a table beside the values of its rows."""
        ...

    def plan_bytes(self, plan: Plan) -> int:
        """Return about how much memory a plan takes."""
        ...

    def plan_of(self, reader: TypedReader, plan: Plan) -> Plan:  # noqa: ARG002 - most wires tell no more
        """Return the plan for rows of a reader, given its table version's: another if the wires are the same
        and the messages say something else than the definition.
        """
        return plan

    def columns_of(self, schema: TableSchema) -> Sequence[Column]:
        """Return a table's columns as the target has them: it may give them other names, and let NULL in."""
        return schema.columns

    def losses(self, plan: Plan, type_info: TypeInfo) -> tuple[Lossy, ...]:
        """Return what every row of a table loses, given what the source's messages tell."""
        ...

    def write_of(self, column: Column) -> Write | None:
        """Return how the column's canonical values are written; None if they are written as they are."""
        ...

    def null_of(self, column: Column) -> Null | None:  # noqa: ARG002 - most targets have one NULL
        """Return what makes the value that NULL becomes in this column; None if it stays NULL."""
        return None


class TypedWriters(Generic[Plan]):
    """An encoder's row functions and plans, by table version.

    Virtual generated columns are left out, unless the target has them: no TiCDC wire does.
    """

    def __init__(self, protocol: str, target: RowTarget[Plan], pool: CachePool) -> None:
        self._protocol, self._target, self._has_before = protocol, target, target.has_before
        self._plans: ByteCache[TableSchema, Plan] = pool.cache()
        self._functions: ByteCache[tuple[TableSchema, tuple[int, ...] | None], _RowWriter] = pool.cache()
        self._hidden: ByteCache[TableSchema, frozenset[int]] = pool.cache()

    def write(self, change: RowChange) -> Written[Plan]:
        """Return both images. Raises NotRepresentable for a missing image, one without columns, or a value
        unfit for its type.
        """
        images = change.images
        # `isinstance` is slow where the answer is no.
        if type(images) is not TypedRows:
            typed = images.typed(has_before=self._has_before) if isinstance(images, LazyRows) else None
            if typed is None:
                return self._write_canonical(change)
            images = typed
        write: _WriteTyped[Plan] | None = images.reader.plans.get(self)
        if write is None:
            write = images.reader.plans[self] = self._first_writer_for(images.reader)
        return write(change, images)

    def _first_writer_for(self, reader: TypedReader) -> _WriteTyped[Plan]:
        """How changes with this reader are written until something is compiled for them."""
        plain, uses = self._writer_for(reader, is_compiled=False), 0

        def write(change: RowChange, images: TypedRows) -> Written[Plan]:
            nonlocal uses
            uses += 1
            if is_due(uses):
                compiled = reader.plans[self] = self._writer_for(reader)
                return compiled(change, images)
            return plain(change, images)

        return write

    def _writer_for(self, reader: TypedReader, *, is_compiled: bool = True) -> _WriteTyped[Plan]:
        """How changes with this reader are written: in one step a column if the target shows all of them."""
        target, schema = self._target, reader.schema
        plan = target.plan_of(reader, self.plan(schema))
        shown = target.columns_of(schema)
        columns = [shown[at] for at in reader.places]
        if not self._hidden_places(schema).isdisjoint(reader.places):
            return lambda change, _: self._write_canonical(change)
        values = reader.row_function(
            [target.write_of(column) for column in columns],
            target.shortcuts,
            [target.null_of(column) for column in columns],
            names=[column.name for column in columns],
            as_struct=is_compiled and self._is_struct(schema, reader.places),
            is_compiled=is_compiled,
        )
        has_before = target.has_before
        losses = target.losses(plan, reader.type_info)

        def write(change: RowChange, images: TypedRows) -> Written[Plan]:
            old, new = images.old, images.new
            if not has_before and new is not None:
                old = None
            try:
                return (
                    plan,
                    None if old is None else values(old),
                    None if new is None else values(new),
                    losses,
                )
            except _UNFIT as error:
                # Malformed with the column if the source is to blame.
                before = change.images.before if has_before or new is None else None
                after = change.images.after
                raise self._unfit(schema, before, after) from error

        return write

    def _write_canonical(self, change: RowChange) -> Written[Plan]:
        images, is_delete = change.images, change.op is _DELETE
        # What is wrong with the table is said before any value is read, as in `_writer_for`.
        plan = self.plan(change.schema)
        before = images.before if is_delete or self._has_before else None
        after = images.after
        if (before if is_delete else after) is None:
            raise NotRepresentable(self._protocol, "", f"the {change.op.value} has no row image")
        # CKafka's rows have no reader, and its messages tell nothing.
        whole = images.images if isinstance(images, HalfRows) else images
        reader: Any = getattr(whole, "reader", None)
        if isinstance(reader, TypedReader):
            plan = self._target.plan_of(reader, plan)
        losses = self._target.losses(plan, _UNTYPED if reader is None else reader.type_info)
        return plan, self._row(change.schema, images, before), self._row(change.schema, images, after), losses

    def plan(self, schema: TableSchema) -> Plan:
        """Return the target's plan for a table version, made once."""
        found = self._plans.get(schema)
        if found is None:
            if not schema.id.table:
                raise NotRepresentable(self._protocol, "", NAMELESS)
            found = self._target.plan(schema)
            size = _PLAN_BYTES + self._target.plan_bytes(found) + schema_bytes(schema)
            self._plans.keep(schema, found, size)
        return found

    def _row(self, schema: TableSchema, images: Images, row: Row | None) -> Any:  # noqa: ANN401 - a class made at run time
        if row is None:
            return None
        places = None if ABSENT not in row else present_places(images, row)
        values, places = self._functions.get((schema, places)) or self._first_function(schema, places)
        if not places:
            raise NotRepresentable(self._protocol, "", "a row without columns")
        try:
            return values([row[at] for at in places])
        except _UNFIT as error:
            raise self._unfit(schema, row) from error

    def _unfit(self, schema: TableSchema, *rows: Row | None) -> NotRepresentable:
        """The error about the first column whose value cannot be written; it quotes no value."""
        path, columns = "", self._target.columns_of(schema)
        for column, cell in (pair for row in rows if row for pair in zip(columns, row, strict=True)):
            write = self._target.write_of(column)
            if write is None or cell is None or cell is ABSENT or column.generated is Generated.VIRTUAL:
                continue
            try:
                write(cell)
            except _UNFIT:
                path = column.name
                break
        reason = "a value is not of its column's type, or the target's spelling cannot hold it"
        return NotRepresentable(self._protocol, path, reason)

    def _first_function(self, schema: TableSchema, places: tuple[int, ...] | None) -> _RowWriter:
        """The function for some of a table's columns (None: all), and the places of those that are shown.

        It is compiled when some rows have had these columns.
        """
        hidden = self._hidden_places(schema)
        shown = tuple(
            [at for at in (range(len(schema.columns)) if places is None else places) if at not in hidden]
        )
        all_columns = self._target.columns_of(schema)
        columns = [all_columns[at] for at in shown]
        names = [column.name for column in columns]
        steps = [_steps(None, self._target.write_of(column), {}) for column in columns]
        nulls = [self._target.null_of(column) for column in columns]
        plain, uses = plain_row_function(names, steps, nulls), 0
        size = _FUNCTION_BYTES + columns_bytes(columns, _FUNCTION_COLUMN_BYTES) + schema_bytes(schema)

        def values(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - a class made at run time
            nonlocal uses
            uses += 1
            if not is_due(uses):
                return plain(cells)
            compiled = row_function(names, steps, nulls, as_struct=self._is_struct(schema, shown))
            self._functions[schema, places] = compiled, shown
            return compiled(cells)

        return self._functions.keep((schema, places), (values, shown), size)

    def _is_struct(self, schema: TableSchema, places: tuple[int, ...]) -> bool:
        """Whether rows with the columns at these places, which are shown, are structs."""
        shown = len(schema.columns) - len(self._hidden_places(schema))
        return self._target.has_structs and len(places) == shown

    def _hidden_places(self, schema: TableSchema) -> frozenset[int]:
        """Where the columns of a table version stand that the target leaves out."""
        if self._target.has_virtual:
            return _NOTHING
        found = self._hidden.get(schema)
        if found is None:
            found = hidden_places(schema)
            self._hidden.keep(schema, found, _PLAN_BYTES + schema_bytes(schema))
        return found


def hidden_places(schema: TableSchema) -> frozenset[int]:
    """Return where the virtual generated columns of a table version stand."""
    return frozenset(
        [at for at, column in enumerate(schema.columns) if column.generated is Generated.VIRTUAL]
    )


_NOTHING: Final[frozenset[int]] = frozenset()
#: Writes a change whose images are, or can be had as, cells with a certain reader.
_WriteTyped = Callable[[RowChange, TypedRows], Written[Plan]]
#: Turns the canonical cells at certain places into a row of the target.
_RowWriter = tuple[RowFunction, tuple[int, ...]]
#: What conversions raise for values that are not of their type.
_UNFIT: Final = (ValueError, ArithmeticError, TypeError, AttributeError, LookupError)
