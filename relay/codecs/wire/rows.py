"""Rows of typed wires (Open Protocol, Debezium …): a message's cells, and the definition that understands
them.

Contract: a decoder keeps a row as the tuple of its wire values in column order (`TypedRows`) together with
the `RowReader` that understands them, compiled once per table version; the canonical values are made when
somebody asks. An encoder's `RowWriters` turns any row into `{column: target value}`: from wire values in one
step a column where the decoder kept them, else from canonical values. Both are caches that could be emptied
at any time.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Generic, NamedTuple, TypeVar

import msgspec

from relay.catalog import Catalog
from relay.codecs.losses import Lossy
from relay.codecs.wire.compiled import Null, RowWriter, Steps
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
)
from relay.records import ConsumerRecord

#: Wire value to canonical value, canonical value to target value, and both in one. They are not asked about
#: NULL.
Read = Callable[[Any], Value]
Write = Callable[[Any], Any]
Convert = Callable[[Any], Any]

#: What an encoder compiles for one table version: key columns, a schema block …
Plan = TypeVar("Plan")
#: What a decoder compiles for rows of certain columns.
Kept = TypeVar("Kept")
AnyTable = TypeVar("AnyTable", bound="Table[Any]")

#: Bounds on what caches may hold, for sources that create tables without end: table versions of an encoder,
#: tables of a decoder.
_CACHED_VERSIONS: Final = 4096
_CACHED_TABLES: Final = 10_000
#: A commit ts that no row has.
_NEVER: Final = math.inf
# Python 3.11 resolves `Op.DELETE` through a descriptor, at the price of a function call; this is looked at
# for every row.
_DELETE: Final = Op.DELETE


class PartNames(msgspec.Struct, frozen=True):
    """What the wire calls the images, for the paths of errors: of a DELETE, the old and the new row."""

    deleted: str
    old: str
    new: str


class Table(Generic[Kept]):
    """A table's name, made once, what a decoder has compiled for its rows (the newest first), and what the
    catalogue said last.
    """

    def __init__(self, id: TableId) -> None:
        self.id = id
        self.kept: list[Kept] = []
        #: The definition after all DDL of the table, and that DDL's last position and commit ts, as `catalog`
        #: has them.
        self.newest: TableSchema | None = None
        self.newest_at: Position | None = None
        self.newest_commit_ts: float = _NEVER
        self.catalog: Catalog | None = None

    def is_newest(
        self, catalog: Catalog, commit_ts: int | None, event_time_ns: int, record: ConsumerRecord | Position
    ) -> bool:
        """Whether a row comes after all DDL of its table, as most do (`Position.precedes`): then `newest` is
        its definition.
        """
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
        return event_time_ns > at.event_time_ns

    def keep(self, made: Kept, most: int) -> None:
        """Keep what was compiled, and of the older ones so many that there are at most `most`."""
        self.kept = [made, *self.kept[: most - 1]]


class Tables(dict[tuple[str | None, str | None], AnyTable]):
    """A decoder's tables by database and name, made when they are first asked for. It is a cache and could be
    emptied any time.
    """

    def __init__(self, made: Callable[[TableId], AnyTable]) -> None:
        super().__init__()
        self._made = made

    def __missing__(self, name: tuple[str | None, str | None]) -> AnyTable:
        if len(self) >= _CACHED_TABLES:
            self.clear()
        table = self[name] = self._made(TableId(name[0] or "", name[1] or ""))
        return table

    def forget(self, change: SchemaChange) -> None:
        """Forget what was compiled for the tables of a statement, so that nothing guessed outlives it:
        columns may have moved.
        """
        for table in (*change.targets, *(pair.old for pair in change.renamed)):
            self.pop((table.database, table.table), None)


class RowReader:
    """Understands the cells of one table version in one wire's spelling. Compiled once per table version.

    `places`: where the cells stand in the table, ascending. `reads`: how each becomes canonical, None if it
    is. `known`: the catalogue's definition that this was compiled for. `is_guessed`: the schema comes from a
    message and not from the table's DDL. `is_partial`: the table has columns that the cells lack.
    """

    def __init__(
        self,
        protocol: str,
        schema: TableSchema,
        places: Sequence[int],
        reads: Sequence[Read | None],
        parts: PartNames,
        *,
        known: TableSchema | None = None,
    ) -> None:
        self.protocol, self.schema, self.known, self.parts = protocol, schema, known, parts
        self.places, self.reads = tuple(places), tuple(reads)
        self.is_guessed = not schema.complete
        shown = {at for at, column in enumerate(schema.columns) if column.generated is not Generated.VIRTUAL}
        self.is_partial = schema.complete and not shown.issubset(self.places)
        #: Whether the messages themselves tell the types; whoever compiles this for messages that do not says
        #: so.
        self.says_types = True
        #: What encoders have compiled for these rows; it lives and dies with the reader.
        self.plans: dict[object, Any] = {}
        self._names = [schema.columns[at].name for at in self.places]
        self._blank: list[Cell] = [ABSENT] * len(schema.columns)

    def row(self, cells: Sequence[Any], part: str) -> Row:
        """The canonical row; columns that the cells lack are ABSENT. Raises Malformed for a value that its
        type does not allow.
        """
        row = self._blank.copy()
        for at, read, value, name in zip(self.places, self.reads, cells, self._names, strict=True):
            try:
                row[at] = value if read is None or value is None or value is ABSENT else read(value)
            except (ValueError, ArithmeticError, TypeError) as error:
                raise Malformed(self.protocol, f"{part}.{name}", str(error)) from error
        return tuple(row)


class LazyRows(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Images that a decoder keeps as they came. They equal all images with the same rows, and are pickled as
    `Rows`.
    """

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        raise NotImplementedError

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        raise NotImplementedError

    def __eq__(self, other: object) -> bool:
        if not hasattr(other, "before") or not hasattr(other, "after"):
            return NotImplemented
        return bool(self.before == other.before and self.after == other.after)

    def __hash__(self) -> int:
        return hash((self.before, self.after))

    def __repr__(self) -> str:
        return repr(Rows(self.before, self.after))

    def __reduce__(self) -> tuple[type[Rows], tuple[Row | None, Row | None]]:
        return Rows, (self.before, self.after)


class TypedRows(LazyRows, frozen=True, eq=False, gc=False):
    """A change's images as the wire values that came: `old` and `new` have a cell for each of the reader's
    places, none of them ABSENT; None where there is no such image.
    """

    reader: RowReader
    old: Sequence[Any] | None
    new: Sequence[Any] | None

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        if self.old is None:
            return None
        parts = self.reader.parts
        return self.reader.row(self.old, parts.deleted if self.new is None else parts.old)

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        return None if self.new is None else self.reader.row(self.new, self.reader.parts.new)


def wire_writer(
    reader: RowReader,
    writes: Sequence[Write | None],
    shortcuts: Mapping[tuple[Read, Write], Convert],
    nulls: Sequence[Null | None] | None = None,
    *,
    as_struct: bool = False,
) -> RowWriter:
    """The writer that turns a reader's wire values into the target's in one step a column."""
    steps = [_steps(read, write, shortcuts) for read, write in zip(reader.reads, writes, strict=True)]
    return RowWriter(
        [reader.schema.columns[at].name for at in reader.places], steps, nulls, as_struct=as_struct
    )


def _steps(read: Read | None, write: Write | None, shortcuts: Mapping[tuple[Read, Write], Convert]) -> Steps:
    if read is None or write is None:
        only = read or write
        return () if only is None else (only,)
    both = shortcuts.get((read, write))
    return (read, write) if both is None else (both,)


#: A change in the target's spelling, columns in table order: the plan, the row before and after (None: there
#: is none), and what is lost of every row like this one. ABSENT columns are left out. Whole rows are structs
#: if the encoder wants that.
Written = tuple[Plan, Any, Any, tuple[Lossy, ...]]


class TypeInfo(NamedTuple):
    """What the source's own messages tell of a row's types, beside what the DDL before them told."""

    types: bool
    parameters: bool


def _type_info(images: Images) -> TypeInfo:
    """What the messages tell; CKafka's rows, which have no reader, tell nothing."""
    reader: Any = getattr(images, "reader", None)
    return (
        TypeInfo(False, False)
        if reader is None
        else TypeInfo(reader.says_types, getattr(reader, "says_parameters", False))
    )


class RowWriters(Generic[Plan]):
    """An encoder's writers and plans, by table version.

    `write_of` gives how a column's canonical value is written (None: as it is), `plan_of` what else the
    encoder needs of a table. `losses_of` gives what every row of a table loses, given the plan and what the
    source says. `shortcuts` maps pairs of a source's read and this target's write to one function that does
    both. `null_of` gives what NULL becomes in a column where it does not stay NULL. `as_structs`: rows with
    every column of their table are structs (`row_struct`). `writes_before`: updates have a before-image.
    Virtual generated columns are left out: no TiCDC wire has them.
    """

    def __init__(  # noqa: PLR0913 - what makes a target
        self,
        protocol: str,
        write_of: Callable[[Column], Write | None],
        plan_of: Callable[[TableSchema], Plan],
        losses_of: Callable[[Plan, TypeInfo], tuple[Lossy, ...]],
        shortcuts: Mapping[tuple[Read, Write], Convert] | None = None,
        *,
        null_of: Callable[[Column], Null | None] = lambda _: None,
        as_structs: bool = False,
        writes_before: bool = True,
    ) -> None:
        self._protocol, self._write_of, self._plan_of, self._losses_of = (
            protocol,
            write_of,
            plan_of,
            losses_of,
        )
        self._shortcuts, self._null_of, self._as_structs, self._writes_before = (
            shortcuts or {},
            null_of,
            as_structs,
            writes_before,
        )
        self._plans: dict[TableSchema, Plan] = {}
        self._writers: dict[
            tuple[TableSchema, tuple[int, ...] | None], tuple[RowWriter, tuple[int, ...]]
        ] = {}

    def write(self, change: RowChange) -> Written[Plan]:
        """Both images of a change. Raises NotRepresentable if it has no image of its operation or a value
        does not fit its type.
        """
        images = change.images
        if isinstance(images, TypedRows):
            found: Any = images.reader.plans.get(self)
            if found is None:
                found = images.reader.plans[self] = self._plan_for(images.reader)
            if found is not _INDIRECT:
                plan, values, losses = found
                old, new = images.old, images.new
                if not self._writes_before and new is not None:
                    old = None
                try:
                    return (
                        plan,
                        None if old is None else values(old),
                        None if new is None else values(new),
                        losses,
                    )
                except _UNFIT as error:
                    raise self._unfit(images) from error
        return self._write_canonical(change)

    def _unfit(self, images: TypedRows) -> NotRepresentable:
        _ = images.before, images.after  # raises Malformed with the column's name if the source is to blame
        return NotRepresentable(self._protocol, "", "a value that the target's spelling cannot hold")

    def _write_canonical(self, change: RowChange) -> Written[Plan]:
        before, after = change.before, change.after
        if (before if change.op is _DELETE else after) is None:
            raise NotRepresentable(self._protocol, "", f"the {change.op.value} has no row image")
        if not self._writes_before and after is not None:
            before = None
        plan = self.plan(change.schema)
        losses = self._losses_of(plan, _type_info(change.images))
        return plan, self._row(change.schema, before), self._row(change.schema, after), losses

    def plan(self, schema: TableSchema) -> Plan:
        """What `plan_of` gives for a table version, compiled once."""
        found = self._plans.get(schema)
        if found is None:
            if len(self._plans) >= _CACHED_VERSIONS:
                self._plans.clear()
            found = self._plans[schema] = self._plan_of(schema)
        return found

    def _row(self, schema: TableSchema, row: Row | None) -> Any:  # noqa: ANN401 - a class made at run time
        if row is None:
            return None
        places = None if ABSENT not in row else tuple(at for at, cell in enumerate(row) if cell is not ABSENT)
        writer, places = self._writer(schema, places)
        try:
            return writer.values([row[at] for at in places])
        except _UNFIT as error:
            raise NotRepresentable(self._protocol, "", "a value is not of its column's type") from error

    def _writer(
        self, schema: TableSchema, places: tuple[int, ...] | None
    ) -> tuple[RowWriter, tuple[int, ...]]:
        """The writer for some of a table's columns (None: all), and the places of those that are shown."""
        key = schema, places
        found = self._writers.get(key)
        if found is None:
            if len(self._writers) >= _CACHED_VERSIONS:
                self._writers.clear()
            every = range(len(schema.columns)) if places is None else places
            shown = tuple(at for at in every if schema.columns[at].generated is not Generated.VIRTUAL)
            columns = [schema.columns[at] for at in shown]
            writes = [self._write_of(column) for column in columns]
            steps: list[Steps] = [() if write is None else (write,) for write in writes]
            nulls = [self._null_of(column) for column in columns]
            made = RowWriter(
                [column.name for column in columns], steps, nulls, as_struct=self._is_struct(schema, shown)
            )
            found = self._writers[key] = made, shown
        return found

    def _is_struct(self, schema: TableSchema, places: tuple[int, ...]) -> bool:
        """Whether rows with the columns at these places, which are shown, are structs."""
        return self._as_structs and len(places) == sum(
            column.generated is not Generated.VIRTUAL for column in schema.columns
        )

    def _plan_for(
        self, reader: RowReader
    ) -> tuple[Plan, Callable[[Sequence[Any]], Any], tuple[Lossy, ...]] | object:
        """The plan and the writing of a reader's cells, if they are all shown."""
        columns = [reader.schema.columns[at] for at in reader.places]
        if any(column.generated is Generated.VIRTUAL for column in columns):
            return _INDIRECT
        writes, nulls = (
            [self._write_of(column) for column in columns],
            [self._null_of(column) for column in columns],
        )
        plan, is_struct = self.plan(reader.schema), self._is_struct(reader.schema, reader.places)
        writer = wire_writer(reader, writes, self._shortcuts, nulls, as_struct=is_struct)
        return plan, writer.values, self._losses_of(plan, TypeInfo(reader.says_types, False))


#: Marks a reader whose rows must be written from their canonical values.
_INDIRECT: Final = object()
#: What conversions raise for values that are not of their type.
_UNFIT: Final = (ValueError, ArithmeticError, TypeError, AttributeError)
