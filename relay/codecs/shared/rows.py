"""Rows of typed wires (Open Protocol, Debezium …): a message's cells, and their reader.

A decoder keeps a row as the tuple of its wire values in column order (`TypedRows`) together with the
`TypedReader` that converts them to canonical values on demand, made once per table version.
"""

from __future__ import annotations

import copy
from collections.abc import Callable, Mapping, Sequence
from itertools import count
from typing import Any, Final, NamedTuple, Protocol, Self, TypeVar

import msgspec

from relay.codecs.shared.compiled import Null, RowFunction, plain_row_function, row_function
from relay.codecs.shared.conversions import Convert, Read, Write, conversion_steps
from relay.model.errors import Malformed
from relay.model.events import (
    ABSENT,
    Cell,
    CellProjection,
    Images,
    Row,
    RowProjection,
    Rows,
    TableSchema,
    Value,
    WireKey,
)


class PartNames(msgspec.Struct, frozen=True):
    """The wire's names of the images, for the paths of errors: of a DELETE, the old and the new row.

    `value`: the suffix of a column's name if its value is a member of the column's cell: `.v`.
    """

    deleted: str
    old: str
    new: str
    value: str = ""


class TypeInfo(NamedTuple):
    """Whether the source's messages have a row's column types and parameters, independent of earlier DDL."""

    types: bool
    parameters: bool


class TypedReader:
    """Reads the cells of one table version in one wire's spelling. Made once per table version.

    `indexes`: the cells' column indexes in the table, ascending. `reads`: the function from each cell to its
    canonical value, None if they are the same. `known`: the catalog's definition that this was made for.
    `is_inferred`: the schema comes from a message and not from the table's DDL. `is_partial`: the table has
    columns that the cells lack. `declares_types`: the messages have the types. `wire`: the message's
    facts of each column besides its type, for an encoder of the same wire. `hidden`: the indexes of virtual
    generated columns, if known. `key_cell`: converts a cell of a key for `Images.raw_key`, None if canonical
    values are the same whatever the known types.
    """

    def __init__(  # noqa: PLR0913 - the parts of a reader
        self,
        protocol: str,
        schema: TableSchema,
        indexes: Sequence[int],
        reads: Sequence[Read | None],
        parts: PartNames,
        *,
        known: TableSchema | None = None,
        declares_types: bool = True,
        wire: Mapping[str, int] | None = None,
        hidden: frozenset[int] | None = None,
        key_cell: Callable[[Any], str | int | None] | None = None,
    ) -> None:
        self.protocol, self.schema, self.known, self.parts = protocol, schema, known, parts
        self.indexes, self.reads, self.wire = tuple(indexes), tuple(reads), wire
        self.is_inferred = not schema.complete
        hidden = schema.hidden_indexes if hidden is None else hidden
        shown = sum([at not in hidden for at in self.indexes])
        self.is_partial = shown < len(schema.columns) - len(hidden) or schema.lacks_key_columns
        self.type_info = TypeInfo(declares_types, parameters=False)
        #: The key that messages name; see `Images.message_key_columns`.
        self.message_key_columns: tuple[str, ...] | None = None
        #: Plans of encoders for these rows; they live as long as the reader.
        self.plans: dict[object, Any] = {}
        #: The columns of the cells.
        self.names = [schema.columns[at].name for at in self.indexes]
        #: The indexes of the columns that an image may have, ascending.
        self.possible_indexes = self.indexes
        keys = frozenset(schema.key_columns())
        #: The indexes of the cells of the columns by which TiCDC detects an UPDATE of a key.
        self.key_cells = [at for at, name in enumerate(self.names) if name in keys]
        handle = schema.handle_key() if key_cell is not None else ()
        self._key_cell = key_cell
        self._handle_cells = [
            at for name, at in sorted(zip(self.names, count(), strict=False)) if name in handle
        ]
        self._has_wire_key = key_cell is not None and len(self._handle_cells) == len(handle)
        self._cells_of: dict[tuple[int, ...], list[int | None]] = {}
        self._projections: dict[RowProjection, tuple[TypedReader, ProjectedCells]] = {}
        #: The readers of the same cells for other names of the table.
        self.renamed: dict[TableSchema, Self] = {}

    def of_table(self, schema: TableSchema) -> Self:
        """Return the reader of the same cells as rows of an equal table with another name, made once."""
        return renamed_reader(self, schema)

    def forget_made(self) -> None:
        """Forget what was made for the reader that this one is a copy of."""
        self.plans, self.renamed, self._projections = {}, {}, {}

    def raw_key(self, cells: Sequence[Any]) -> WireKey | None:
        """Return the row's key in these cells (`Images.raw_key`)."""
        key_cell = self._key_cell
        if key_cell is None or not self._has_wire_key:
            return None
        key = [cells[at] for at in self._handle_cells]
        return None if ABSENT in key else tuple(map(key_cell, key))

    def row(self, cells: Sequence[Any], part: str) -> Row:
        """Return the canonical row, ABSENT for missing cells. Raises Malformed for an invalid value."""
        row: list[Cell] = [ABSENT] * len(self.schema.columns)
        for at, read, value, name in zip(self.indexes, self.reads, cells, self.names, strict=True):
            try:
                row[at] = value if read is None or value is None or value is ABSENT else read(value)
            except (ValueError, ArithmeticError, TypeError) as error:
                raise self._malformed(part, name, error) from None
        return tuple(row)

    def cells_at(self, indexes: Sequence[int], cells: Sequence[Any], part: str) -> list[Cell]:
        """Return the canonical row's cells at these column indexes, without reading others. Raises like
        `row`.

        `indexes` must be fixed for a table, such as those of its key: each distinct tuple is cached.
        """
        indexes = tuple(indexes)
        wanted = self._cells_of.get(indexes)
        if wanted is None:
            cell_of = {index: at for at, index in enumerate(self.indexes)}
            wanted = self._cells_of[indexes] = [cell_of.get(index) for index in indexes]
        return [ABSENT if at is None else self._cell(at, cells[at], part) for at in wanted]

    def _cell(self, at: int, value: Any, part: str) -> Cell:  # noqa: ANN401 - any wire value
        read = self.reads[at]
        try:
            return value if read is None or value is None or value is ABSENT else read(value)
        except (ValueError, ArithmeticError, TypeError) as error:
            raise self._malformed(part, self.names[at], error) from None

    def projected(self, projection: RowProjection) -> tuple[TypedReader, ProjectedCells]:
        """Return the reader of the same cells in a projection, and the function that selects its cells.

        It is made once for a projection.
        """
        found = self._projections.get(projection)
        if found is None:
            if len(self._projections) >= _MOST_PROJECTIONS:
                self._projections.clear()
            found = self._projections[projection] = self._project(projection)
        return found

    def _project(self, projection: RowProjection) -> tuple[TypedReader, ProjectedCells]:
        shown = self._kept_in(projection)
        reader = TypedReader(
            self.protocol,
            projection.schema,
            [to for _, to, _ in shown],
            [None if each.is_constant else _composed(self.reads[at], each.convert) for at, _, each in shown],
            self.parts,
            known=None if self.known is None else projection.schema,
            wire=None if self.wire is None else self._wire_in(projection, self.wire),
            key_cell=self._key_cell if projection.keeps_keys else None,
        )
        reader.type_info = self.type_info
        reader.message_key_columns = projection.key_names(self.message_key_columns)
        # Columns that do not reach the target must be readable, like all others.
        used = {at for at, _, each in shown if not each.is_constant}
        unused = [at for at in range(len(self.indexes)) if at not in used]
        kept = [(at, each.constant) for at, _, each in shown]

        def cells(given: Sequence[Any], part: str) -> list[Any]:
            for at in unused:
                self._check_readable(at, given[at], part)
            return [given[at] if constant is ABSENT else constant for at, constant in kept]

        return reader, cells

    def _kept_in(self, projection: RowProjection) -> list[tuple[int, int, CellProjection]]:
        """Return the cells that a projection has: the index of each here and there, and its source."""
        cell_of = {index: at for at, index in enumerate(self.indexes)}
        return [
            (cell_of[each.at], to, each) for to, each in enumerate(projection.cells) if each.at in cell_of
        ]

    def _wire_in(self, projection: RowProjection, wire: Mapping[str, int]) -> dict[str, int]:
        """Return the messages' facts of columns whose values a projection keeps, by their names there."""
        names = {
            self.names[at]: projection.schema.columns[to].name
            for at, to, each in self._kept_in(projection)
            if each.convert is None and not each.is_constant
        }
        return {names[name]: facts for name, facts in wire.items() if name in names}

    def _check_readable(self, at: int, value: Any, part: str) -> None:  # noqa: ANN401 - any wire value
        """Check a cell that is not used. Raises Malformed."""
        self._cell(at, value, part)

    def _malformed(self, part: str, name: str, error: Exception) -> Malformed:
        return Malformed(self.protocol, f"{part}.{name}{self.parts.value}", str(error))

    def row_function(
        self,
        writes: Sequence[Write | None],
        shortcuts: Mapping[tuple[Read, Write | None], Convert],
        nulls: Sequence[Null | None] | None = None,
        *,
        names: Sequence[str] | None = None,
        as_struct: bool = False,
        is_compiled: bool = True,
    ) -> RowFunction:
        """Return the function that converts the cells to the target's values in one step per column; `names`:
        the target's names of the columns, None if they are the source's.
        """
        names = self.names if names is None else names
        steps = [
            conversion_steps(read, write, shortcuts) for read, write in zip(self.reads, writes, strict=True)
        ]
        if is_compiled:
            return row_function(names, steps, nulls, as_struct=as_struct)
        return plain_row_function(names, steps, nulls or [None] * len(steps))


class _HasNames(Protocol):
    """A reader of rows."""

    schema: TableSchema
    renamed: dict[TableSchema, Any]

    def forget_made(self) -> None:
        """Forget what was made for the reader that this one is a copy of."""
        ...


_Reader = TypeVar("_Reader", bound=_HasNames)


def renamed_reader(reader: _Reader, schema: TableSchema) -> _Reader:
    """Return a copy of a reader for another table's name, made once; plans of encoders depend on the name."""
    found: _Reader | None = reader.renamed.get(schema)
    if found is None:
        if len(reader.renamed) >= _MOST_NAMES:
            reader.renamed.clear()
        found = reader.renamed[schema] = copy.copy(reader)
        found.schema = schema
        found.forget_made()
    return found


#: Maximum number of other names of a reader's table; a route has one.
_MOST_NAMES: Final = 4


#: Selects a projection's cells from a row's cells; also given the wire's name of the row, for errors.
ProjectedCells = Callable[[Sequence[Any], str], list[Any]]
#: Maximum number of projections of a reader; a route has one for a definition.
_MOST_PROJECTIONS: Final = 4


def _composed(read: Read | None, convert: Callable[[Value], Value] | None) -> Read | None:
    """Return the function that reads a cell and converts the value, which `read` must return: never NULL."""
    if convert is None:
        return read
    if read is None:
        return convert
    return lambda cell: convert(read(cell))


class LazyRows(msgspec.Struct, frozen=True, eq=False, gc=False):
    """Images in their original form. They equal images with the same rows; pickled as `Rows`."""

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        raise NotImplementedError

    @property
    def after(self) -> Row | None:
        """Return the row after the change."""
        raise NotImplementedError

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the same as in `Images`, without reading other cells if the codec can."""
        row = self.before if is_old else self.after
        return None if row is None else [row[at] for at in indexes]

    def keys_unchanged_on_wire(self) -> bool:
        """Return whether the wire shows that no key column has changed; False if only values show it."""
        return False

    @property
    def message_key_columns(self) -> tuple[str, ...] | None:
        """Return the same as in `Images`: the definition's, unless the codec has better facts."""
        return None

    @property
    def possible_indexes(self) -> Sequence[int] | None:
        """Return the column indexes that either image may have, ascending: few of a wide table; None: any."""
        return None

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """Return `raw_key` of the old row and of the new one."""
        return None, None

    def raw_key(self) -> WireKey | None:
        """Return the same as in `Images`: the values, unless the codec has better facts."""
        return None

    def split_images(self) -> tuple[Images, Images]:
        """Return the old row and the new row of an update as separate images."""
        return HalfRows(self, is_old=True), HalfRows(self, is_old=False)

    def typed(self, *, has_before: bool) -> TypedRows | None:  # noqa: ARG002 - most kinds have none
        """Return the same rows as cells with their reader, for encoders that compile a function for it; None
        if there is none (yet). `has_before`: whether an update's old row is wanted.
        """
        return None

    def projected(self, projection: RowProjection) -> Images:
        """Return the same images in a projection: as cells if they are cells, else as canonical rows.

        Raises like `before`: columns that the projection lacks must be readable, too.
        """
        typed = self.typed(has_before=True)
        if typed is not None:
            return typed.projected(projection)
        reader = getattr(self, "reader", None)
        rows = projection.rows(self)
        return rows if reader is None else ProjectedRows(rows, reader)

    def of_table(self, schema: TableSchema) -> LazyRows | Rows:  # noqa: ARG002 - canonical rows have no name
        """Return the same images as rows of an equal table with another name: without a reader, because
        plans of encoders are kept with it.
        """
        return Rows(self.before, self.after, self.message_key_columns, self.wire_keys)

    def __eq__(self, other: object) -> bool:
        if not hasattr(other, "before") or not hasattr(other, "after"):
            return NotImplemented
        return bool(self.before == other.before and self.after == other.after)

    def __hash__(self) -> int:
        return hash((self.before, self.after))

    def __repr__(self) -> str:
        return repr(Rows(self.before, self.after))

    def __reduce__(self) -> tuple[type[Rows], tuple[object, ...]]:
        return Rows, (self.before, self.after, self.message_key_columns, self.wire_keys)


class ProjectedRows(LazyRows, frozen=True, eq=False, gc=False):
    """Canonical rows of a projection. `reader`: of the original rows; its `type_info` determines losses."""

    rows: Rows
    reader: Any

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        return self.rows.before

    @property
    def after(self) -> Row | None:
        """Return the row after the change."""
        return self.rows.after

    @property
    def message_key_columns(self) -> tuple[str, ...] | None:
        """Return the same as in `Images`."""
        return self.rows.message_key_columns

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """Return `raw_key` of the old row and of the new one."""
        return self.rows.wire_keys

    def of_table(self, schema: TableSchema) -> ProjectedRows:  # noqa: ARG002 - canonical rows have no name
        """Return these images: no plan of an encoder is kept with their reader."""
        return self

    def raw_key(self) -> WireKey | None:
        """Return the message's own form of the key."""
        return self.rows.raw_key()


class _CellRows(LazyRows, frozen=True, eq=False, gc=False):
    """A change's images as the original wire values: `old` and `new` have a cell for each column of the
    reader; None if there is no such image.
    """

    reader: TypedReader
    old: Sequence[Any] | None
    new: Sequence[Any] | None

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        return None if self.old is None else self.reader.row(self.old, self.old_part)

    @property
    def after(self) -> Row | None:
        """Return the row after the change."""
        return None if self.new is None else self.reader.row(self.new, self.reader.parts.new)

    @property
    def old_part(self) -> str:
        """Return the wire's name of the old row."""
        return self.reader.parts.old

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return one row's cells at these column indexes, without reading others."""
        cells, reader = self.old if is_old else self.new, self.reader
        if cells is None:
            return None
        return reader.cells_at(indexes, cells, self.old_part if is_old else reader.parts.new)

    def of_table(self, schema: TableSchema) -> Self:
        """Return the same cells with the reader of the other table."""
        return msgspec.structs.replace(self, reader=self.reader.of_table(schema))

    @property
    def message_key_columns(self) -> tuple[str, ...] | None:
        """Return the reader's `message_key_columns`."""
        return self.reader.message_key_columns

    @property
    def possible_indexes(self) -> Sequence[int]:
        """Return the reader's `possible_indexes`."""
        return self.reader.possible_indexes


class TypedRows(_CellRows, frozen=True, eq=False, gc=False):
    """A change's images as the original wire values, none of them ABSENT."""

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        if self.old is None:
            return None
        # The same as `old_part`, which would cost one more call per row.
        parts = self.reader.parts
        return self.reader.row(self.old, parts.deleted if self.new is None else parts.old)

    @property
    def old_part(self) -> str:
        """Return the wire's name of the old row: of a DELETE, or of an update."""
        parts = self.reader.parts
        return parts.deleted if self.new is None else parts.old

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """Return the keys in the cells of the old row and of the new one."""
        old, new, reader = self.old, self.new, self.reader
        return None if old is None else reader.raw_key(old), None if new is None else reader.raw_key(new)

    def raw_key(self) -> WireKey | None:
        """Return the key in the cells."""
        cells = self.old if self.new is None else self.new
        return None if cells is None else self.reader.raw_key(cells)

    def split_images(self) -> tuple[Images, Images]:
        """Return the old row and the new row, still as cells."""
        return _OldRow(self.reader, self.old, None), TypedRows(self.reader, None, self.new)

    def typed(self, *, has_before: bool) -> TypedRows:  # noqa: ARG002 - an encoder may leave it out
        """Return these rows."""
        return self

    def projected(self, projection: RowProjection) -> TypedRows:
        """Return the same cells, less those that the projection lacks, with constants in place of others."""
        reader, parts = self.reader, self.reader.parts
        old_part, (found, cells) = self.old_part, reader.projected(projection)
        old = None if self.old is None else cells(self.old, old_part)
        return TypedRows(found, old, None if self.new is None else cells(self.new, parts.new))

    def keys_unchanged_on_wire(self) -> bool:
        """Return whether the key columns have the same wire values in both images, if there are two."""
        old, new = self.old, self.new
        if old is None or new is None:
            return True
        for at in self.reader.key_cells:
            cell = old[at]
            # Zeros of both signs are equal but written differently.
            if cell != new[at] or (type(cell) is float and not cell):
                return False
        return True


class _OldRow(TypedRows, frozen=True, eq=False, gc=False):
    """The old row of an update as separate images."""

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        return None if self.old is None else self.reader.row(self.old, self.old_part)

    @property
    def old_part(self) -> str:
        """Return the wire's name of the old row of an update."""
        return self.reader.parts.old


class PartialRows(_CellRows, frozen=True, eq=False, gc=False):
    """A change's images as the original wire values, like `TypedRows`, but some of them ABSENT."""

    def split_images(self) -> tuple[Images, Images]:
        """Return the old row and the new row, still as cells."""
        return PartialRows(self.reader, self.old, None), PartialRows(self.reader, None, self.new)


class HalfRows(LazyRows, frozen=True, eq=False, gc=False):
    """The old row of an update, or the new one, as separate images; read on demand."""

    images: LazyRows | Rows
    is_old: bool

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        return self.images.before if self.is_old else None

    @property
    def after(self) -> Row | None:
        """Return the row after the change."""
        return None if self.is_old else self.images.after

    @property
    def message_key_columns(self) -> tuple[str, ...] | None:
        """Return the update's `message_key_columns`."""
        return self.images.message_key_columns

    @property
    def possible_indexes(self) -> Sequence[int] | None:
        """Return the update's `possible_indexes`."""
        return self.images.possible_indexes if isinstance(self.images, LazyRows) else None

    @property
    def wire_keys(self) -> tuple[WireKey | None, WireKey | None]:
        """Return the update's key of this row, and None for the other row."""
        old, new = self.images.wire_keys
        return (old, None) if self.is_old else (None, new)

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the update's cells, if they are of this row."""
        return self.images.cells_at(indexes, is_old=is_old) if is_old is self.is_old else None

    def of_table(self, schema: TableSchema) -> HalfRows:
        """Return the row as one of the other table."""
        return HalfRows(self.images.of_table(schema), self.is_old)

    def raw_key(self) -> WireKey | None:
        """Return the update's key of this row."""
        return self.images.wire_keys[not self.is_old]

    def typed(self, *, has_before: bool) -> TypedRows | None:  # noqa: ARG002 - this row is all there is
        """Return the row as the update's cells, if it has them."""
        update = self.images.typed(has_before=True) if isinstance(self.images, LazyRows) else None
        if update is None:
            return None
        old, new = (update.old, None) if self.is_old else (None, update.new)
        return TypedRows(update.reader, old, new)


def present_indexes(images: Images, row: Row) -> tuple[int, ...]:
    """Return the indexes of a row's columns, in time proportional to their number if its images know them."""
    possible: Sequence[int] | None = getattr(images, "possible_indexes", None)
    if possible is None:
        return tuple([at for at, cell in enumerate(row) if cell is not ABSENT])
    return tuple([at for at in possible if row[at] is not ABSENT])


def split_images(images: Images) -> tuple[Images, Images]:
    """Return the old row and the new row of an update as separate images."""
    if isinstance(images, LazyRows):
        return images.split_images()
    if isinstance(images, Rows):
        return HalfRows(images, is_old=True), HalfRows(images, is_old=False)
    key = images.message_key_columns
    return Rows(images.before, None, key), Rows(None, images.after, key)
