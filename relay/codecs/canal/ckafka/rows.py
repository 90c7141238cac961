"""Rows of CKafka's messages: text cells to canonical rows and back, by the table's definition.

The messages contain only names and text, so types and keys come from the catalog; without it every column is
a `varchar` (counted). Compiled readers and writers of a table version are kept in `CkafkaReaders` and
`CkafkaWriters`, caches that may be emptied at any time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from datetime import UTC
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from relay.catalog import Catalog
from relay.codecs.canal.ckafka.values import ValueStyle, cell_reader, cell_writer
from relay.codecs.canal.shared.definitions import KeyedDefinition, Resolved
from relay.codecs.canal.shared.local_times import local_times
from relay.codecs.canal.shared.messages import DELETE, UPDATE, Cells
from relay.codecs.canal.shared.row_writing import SHORTCUTS
from relay.codecs.canal.shared.rows import TextReader
from relay.codecs.canal.shared.wire_table import MysqlTypes, SqlTypes, WireTable
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import ByteCache, CachePool, columns_bytes, schema_bytes
from relay.codecs.shared.compiled import RowFunction, is_due
from relay.codecs.shared.local_times import LocalTimes
from relay.codecs.shared.rows import LazyRows, PartNames, TypedReader, TypedRows
from relay.codecs.shared.shaping import column_styles
from relay.codecs.shared.tables import NAMELESS, Table, Tables
from relay.model.errors import Malformed, NotRepresentable
from relay.model.events import ABSENT, Cell, ColumnType, Op, Row, RowChange, Source, TableId, TableSchema
from relay.model.records import ConsumerRecord
from relay.mysql.values import Read, TextStyle, Write

#: Memory of a reader or writer, base and per column, and of a kept definition, per column (measured with
#: CPython 3.11).
_COMPILED_BYTES: Final = 2_000
_COLUMN_BYTES: Final = 250
_DEFINED_COLUMN_BYTES: Final = 200
#: Maximum readers kept per table, one for each shape of its messages, and maximum orders of columns.
_CACHED_READERS: Final = 64
_CACHED_ORDERS: Final = 8
#: The type assumed for a column of unknown type.
_UNTYPED: Final = ColumnType("varchar")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII).fullmatch


class CkafkaImages(msgspec.Struct, frozen=True):
    """The text of a change's images (None where the message has none), and their paths in the message."""

    op: Op
    new: Cells | None
    old: Cells | None
    new_path: str = "NEW_VALUES"
    old_path: str = "OLD_VALUES"

    def names(self) -> tuple[str, ...]:
        """Return the columns of both, in the order of the message."""
        return tuple((self.new or {}) | (self.old or {}))


#: Returns the change of a row, like `CkafkaReaders.row`.
ReadRow = Callable[[str, str, CkafkaImages, Source, int, ConsumerRecord, Catalog, list[Loss]], RowChange]

#: Names of the images of official format 1 in errors.
_PARTS: Final = PartNames("OLD_VALUES", "OLD_VALUES", "NEW_VALUES")


class CkafkaRows(LazyRows, frozen=True, eq=False, gc=False):
    """Images as the original text, converted on demand: canonical rows are as wide as the table."""

    text_reader: TextReader
    images: CkafkaImages

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        images = self.images
        return None if images.old is None else self.text_reader.row(images.old, images.old_path)

    @property
    def after(self) -> Row | None:
        """Return the row after the change."""
        images = self.images
        return None if images.new is None else self.text_reader.row(images.new, images.new_path)

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return one row's cells at these column indexes, without reading others."""
        images = self.images
        cells, path = (images.old, images.old_path) if is_old else (images.new, images.new_path)
        return None if cells is None else self.text_reader.cells_at(indexes, cells, path)

    def of_table(self, schema: TableSchema) -> CkafkaRows:
        """Return the same text with the reader of the other table."""
        return CkafkaRows(self.text_reader.of_table(schema), self.images)

    def keys_unchanged_on_wire(self) -> bool:
        """Return whether the key columns have the same text in both images, if there are two."""
        old, new = self.images.old, self.images.new
        if old is None or new is None:
            return True
        names = self.text_reader.key_columns
        return all(old.get(name, ABSENT) == new.get(name, ABSENT) for name in names)

    @property
    def message_key_columns(self) -> tuple[str, ...]:
        """Return the columns of `pkNames`."""
        return self.text_reader.message_key_columns

    @property
    def possible_indexes(self) -> tuple[int, ...]:
        """Return the reader's `possible_indexes`."""
        return self.text_reader.possible_indexes


class _KeptReader:
    """A reader, whether it knows the members of ENUM and SET, and the parsers of their labels, by column."""

    def __init__(self, text: TextReader, *, has_members: bool) -> None:
        self.text, self.has_members = text, has_members
        columns = text.schema.columns
        self.labels = [
            (name, text.custom[name])
            for name, at in zip(text.wire.names, text.indexes, strict=True)
            if columns[at].type.members is not None
        ]

    def lacks_label(self, cells: Cells) -> bool:
        """Return whether a text is neither a label nor a number of its column's type."""
        for name, read in self.labels:
            text = cells.get(name)
            if text is not None:
                try:
                    read(text)
                except ValueError:
                    return True
        return False


class _TableReaders(Table[_KeptReader]):
    """The readers of one table."""

    def __init__(
        self,
        id: TableId,
        protocol: str,
        style: TextStyle,
        value_style: ValueStyle,
        tables: Tables[_TableReaders],
    ) -> None:
        super().__init__(id)
        self._protocol, self._style, self._value_style, self._tables = protocol, style, value_style, tables
        #: Readers of rows that are newer than all DDL of the table, by columns in the order of the message.
        self._by_names: dict[tuple[str, ...], _KeptReader] = {}
        self._definition: KeyedDefinition | None = None
        self._without_members: tuple[TableSchema, Resolved] | None = None

    def forget(self) -> None:
        """Discard compiled readers and the definition."""
        super().forget()
        self._by_names, self._definition, self._without_members = {}, None, None

    def reader_for(
        self, names: tuple[str, ...], source: Source, record: ConsumerRecord, catalog: Catalog
    ) -> _KeptReader:
        """Return the reader of rows with these columns, for a message without types."""
        is_newest = self.is_newest(catalog, None, source.event_time_ns, record)
        if is_newest:
            found = self._by_names.get(names)
            if found is not None and found.text.known is self.newest:
                return found
        known = catalog.table(self.id, source.at(record))
        found = self.compiled(WireTable(self.id, names, None, None), known)
        if is_newest:
            if len(self._by_names) >= _CACHED_ORDERS:
                self._by_names.clear()
            self._by_names[names] = found
        return found

    def compiled(
        self, wire: WireTable, known: TableSchema | None, *, has_members: bool = True
    ) -> _KeptReader:
        """Return the reader of such rows, compiling it if needed. Without members, labels of ENUM and SET
        stay unchanged. Where the table is known, all orders of columns are read in the same way.
        """
        definition = self._defined(known, wire.pk_names)
        ordered = replace(wire, names=definition.in_order(wire.names))
        for found in self.kept:
            text = found.text
            if found.has_members is has_members and text.known is known and text.wire in (ordered, wire):
                return found
        resolved = definition.resolved(ordered, SqlTypes())
        if resolved.is_inferred and ordered.names != wire.names:
            # Then the order of the message is the table's.
            ordered, resolved = wire, definition.resolved(wire, SqlTypes())
        if not has_members:
            resolved = self._plain(resolved)
        made = TextReader(
            self._protocol, self._style, ordered, known, resolved, self._custom(ordered, resolved)
        )
        made.parts = _PARTS
        kept = _KeptReader(made, has_members=has_members)
        columns = [made.schema.columns[at] for at in made.indexes]
        size = _COMPILED_BYTES + columns_bytes(columns, _COLUMN_BYTES) + schema_bytes(made.schema)
        if len(self.kept) >= _CACHED_READERS:
            self._by_names.clear()
        self._tables.keep(self, kept, size, _CACHED_READERS)
        made.charge = functools.partial(self._tables.charge, self)
        return kept

    def _defined(self, known: TableSchema | None, pk_names: list[str] | None) -> KeyedDefinition:
        found = self._definition
        if found is None or found.known is not known or found.pk_names != pk_names:
            if known is not None and found is None:
                self._tables.charge(self, _COMPILED_BYTES + _DEFINED_COLUMN_BYTES * len(known.columns))
            found = self._definition = KeyedDefinition(known, pk_names)
        return found

    def _plain(self, resolved: Resolved) -> Resolved:
        """Return the definition that leaves labels unchanged; it is derived once from the catalog's."""
        kept = self._without_members
        if kept is not None and kept[0] is resolved.schema:
            return kept[1]
        columns = tuple(
            [replace(column, type=replace(column.type, members=None)) for column in resolved.schema.columns]
        )
        schema = replace(resolved.schema, columns=columns, complete=False)
        made = resolved._replace(schema=schema, is_inferred=True)
        self._without_members = resolved.schema, made
        return made

    def _custom(self, wire: WireTable, resolved: Resolved) -> dict[str, Read]:
        custom: dict[str, Read] = {}
        for name in wire.names:
            column = resolved.schema.columns[resolved.index_of[name]]
            read = cell_reader(column.type, self._style, self._value_style)
            if read is not None:
                custom[name] = read
        return custom


class CkafkaReaders:
    """A decoder's readers, by table and columns."""

    def __init__(self, protocol: str, style: TextStyle, value_style: ValueStyle, most_bytes: int) -> None:
        self._protocol = protocol
        self._has_own_zone, self._times = style.zone is not UTC, LocalTimes(style.zone)

        def made(id: TableId) -> _TableReaders:
            return _TableReaders(id, protocol, style, value_style, self._tables)

        self._tables = Tables(made, most_bytes)
        # The table of the last message; usually the next one's, too. Initially a table that does not exist.
        self._last = made(TableId("", "\0"))

    def row(  # noqa: PLR0913, PLR0917 - the parts of a message
        self,
        database: str,
        name: str,
        images: CkafkaImages,
        source: Source,
        emitted_at_ns: int,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> RowChange:
        """Return the change of a row of official format 1. Raises Malformed for an image without columns."""
        table = self._last
        if name != table.id.table or database != table.id.database:
            table = self._last = self._tables[database, name]
        new, old = images.new, images.old
        is_whole = old is None or new is None or old.keys() == new.keys()
        names = tuple(new if new is not None else old or ())
        if not is_whole or not names:
            names = self._names(images)
        kept = table.reader_for(names, source, record, catalog)
        if kept.labels:
            kept = self._with_labels(table, kept, images)
        text = kept.text
        # Without members a definition counts as incomplete; a complete one would report missing columns.
        has_gaps = not is_whole or (text.leaves_out and not kept.has_members)
        self._count(text, images, losses, has_gaps=has_gaps)
        typed = text.typed
        if typed is None and is_whole:
            typed = text.typed_reader()
        if typed is None or not is_whole:
            return RowChange(images.op, text.schema, CkafkaRows(text, images), source, emitted_at_ns)
        new_cells = None if new is None else text.cells_of(new)
        old_cells = None if old is None else text.cells_of(old)
        rows = TypedRows(typed, old_cells, new_cells)
        return RowChange(images.op, text.schema, rows, source, emitted_at_ns)

    def counts_by_value(self, reader: TypedReader) -> bool:
        """Return whether the losses of such rows depend on the text of their columns."""
        return self._has_own_zone and reader.is_inferred

    def change(  # noqa: PLR0913, PLR0917 - the parts of a message
        self,
        table_id: TableId,
        types: MysqlTypes,
        pk_names: list[str] | None,
        images: CkafkaImages,
        source: Source,
        emitted_at_ns: int,
        known: TableSchema | None,
        losses: list[Loss],
    ) -> RowChange:
        """Return the change of a row of the "canal format"; `known` is the catalog's definition. Raises
        Malformed for an image without columns.
        """
        table, names = self._tables[table_id.database, table_id.table], self._names(images)
        kept = table.compiled(WireTable(table_id, names, types, pk_names), known)
        text = self._with_labels(table, kept, images).text
        given = [image for image in (images.new, images.old) if image is not None]
        self._count(text, images, losses, has_gaps=any(len(image) < len(names) for image in given))
        return RowChange(images.op, text.schema, CkafkaRows(text, images), source, emitted_at_ns)

    def _names(self, images: CkafkaImages) -> tuple[str, ...]:
        """Return the columns of both images. Raises Malformed for one without."""
        if images.new == {} or images.old == {}:
            path = images.new_path if images.new == {} else images.old_path
            raise Malformed(self._protocol, path, "a row without columns")
        return images.names()

    def _with_labels(self, table: _TableReaders, kept: _KeptReader, images: CkafkaImages) -> _KeptReader:
        """Return the reader for these texts: without members of ENUM and SET if there is a label that the
        definition lacks, which means that the definition is out of date.
        """
        if any(cells is not None and kept.lacks_label(cells) for cells in (images.new, images.old)):
            return table.compiled(kept.text.wire, kept.text.known, has_members=False)
        return kept

    def _count(self, text: TextReader, images: CkafkaImages, losses: list[Loss], *, has_gaps: bool) -> None:
        """Count the facts that a row lacks. `has_gaps`: it lacks columns of its table."""
        losses += text.losses
        if has_gaps and not text.is_partial:
            losses.append(Loss.COLUMNS_ABSENT)
        if self._has_own_zone:
            self._count_times(text, images, losses)
        if images.op is UPDATE and images.old is None:
            losses.append(Loss.BEFORE_MISSING)

    def _count_times(self, text: TextReader, images: CkafkaImages, losses: list[Loss]) -> None:
        self._times.count(local_times(text, images.new, images.old), losses)
        if text.is_inferred:
            losses += [Loss.VALUE_INFERRED] * _times_of_no_type(text, images)


def _times_of_no_type(reader: TextReader, images: CkafkaImages) -> int:
    """Count the values that are either a TIMESTAMP (in the source's zone) or a DATETIME (in none), which
    depends on the unknown type.
    """
    columns = reader.schema.columns
    untyped = [columns[at].name for at in reader.indexes if columns[at].type == _UNTYPED]
    texts = [image[name] for image in (images.new, images.old) if image for name in untyped if name in image]
    return sum(isinstance(text, str) and _TIME(text) is not None for text in texts)


class CkafkaWriter:
    """Writes rows of one table version.

    `losses`: facts of the definition that text cells cannot express: types other than a bare `varchar`, the
    primary key, and labels of ENUM and SET written as numbers because the members are unknown.
    """

    def __init__(self, schema: TableSchema, style: TextStyle) -> None:
        styles = column_styles(schema, style)
        self._writers = [
            (column.name, cell_writer(column.type, spelled))
            for column, spelled in zip(schema.columns, styles, strict=True)
        ]
        types = [column.type for column in schema.columns]
        losses = {
            Loss.COLUMN_TYPE: any(column_type != _UNTYPED for column_type in types),
            Loss.PRIMARY_KEY: bool(schema.primary_key),
            Loss.ENUM_INDEX: any(
                column_type.base in {"enum", "set"} and column_type.members is None for column_type in types
            ),
        }
        self.losses = [what for what, is_lost in losses.items() if is_lost]

    def writes_at(self, indexes: Sequence[int]) -> list[Write | None]:
        """Return the writing functions of the columns at these indexes."""
        return [self._writers[at][1] for at in indexes]

    def cells(self, row: Sequence[Cell]) -> Cells:
        """Return the row as text in column order. Columns that are ABSENT are left out."""
        cells: dict[str, Any] = {}
        for (name, write), value in zip(self._writers, row, strict=True):
            if value is not ABSENT:
                cells[name] = value if value is None or write is None else write(value)
        return cells

    def some_cells(self, row: Sequence[Cell], indexes: Sequence[int]) -> Cells:
        """Return the text of a row that has only the columns at these indexes, given its cells."""
        cells: dict[str, Any] = {}
        for at, value in zip(indexes, row, strict=True):
            if value is not ABSENT:
                name, write = self._writers[at]
                cells[name] = value if value is None or write is None else write(value)
        return cells


class _CellPlan:
    """The plan for writing the cells of a reader; compiled after some rows were written without one."""

    def __init__(self, writer: CkafkaWriter, reader: TypedReader) -> None:
        self.writer, self._reader, self._uses = writer, reader, 0
        self._writes = writer.writes_at(reader.indexes)
        self._values = reader.row_function(self._writes, SHORTCUTS, is_compiled=False)

    def values(self) -> RowFunction:
        """Return the function that makes `{column: text}` of cells."""
        self._uses += 1
        if is_due(self._uses):
            self._values = self._reader.row_function(self._writes, SHORTCUTS)
        return self._values


#: Errors that conversions raise for values of another type than the column's.
_UNFIT: Final = (ValueError, TypeError, AttributeError)


class CkafkaWriters:
    """An encoder's writers, by table version. `lost`: losses of the last row's values."""

    def __init__(self, protocol: str, style: TextStyle, pool: CachePool) -> None:
        self.lost: list[Loss] = []
        unmoved = functools.partial(self.lost.append, Loss.ZERO_DATE)
        self._protocol, self._style = protocol, replace(style, unmoved=unmoved)
        self._writers: ByteCache[TableSchema, CkafkaWriter] = pool.cache()

    def images(self, change: RowChange) -> tuple[CkafkaWriter, CkafkaImages]:
        """Return the table's writer, and the change's images as text.

        Raises NotRepresentable if there is no image of its operation, no name of the table, or a value is not
        of its column's type.
        """
        self.lost.clear()
        images = change.images
        typed = images.typed(has_before=True) if isinstance(images, LazyRows) else None
        if typed is not None:
            return self._of_cells(change, typed)
        possible: Sequence[int] | None = getattr(images, "possible_indexes", None)
        before: Sequence[Cell] | None
        after: Sequence[Cell] | None
        if possible is None or 2 * len(possible) >= len(change.schema.columns):
            before, after, possible = images.before, images.after, None
        else:
            before, after = images.cells_at(possible, is_old=True), images.cells_at(possible, is_old=False)
        if (before if change.op is DELETE else after) is None:
            raise self._no_image(change)
        writer = self._writers.get(change.schema) or self._new_writer(change.schema)
        try:
            if possible is not None:
                new = None if after is None else writer.some_cells(after, possible)
                old = None if before is None else writer.some_cells(before, possible)
                return writer, CkafkaImages(change.op, new, old)
            new = None if after is None else writer.cells(after)
            old = None if before is None else writer.cells(before)
        except _UNFIT:
            raise self._not_representable() from None
        if new == {} or old == {}:
            raise NotRepresentable(self._protocol, "", "a row without columns")
        return writer, CkafkaImages(change.op, new, old)

    def _of_cells(self, change: RowChange, typed: TypedRows) -> tuple[CkafkaWriter, CkafkaImages]:
        """Return the same from wire values, converted in one step per column."""
        if (typed.old if change.op is DELETE else typed.new) is None:
            raise self._no_image(change)
        plan: _CellPlan | None = typed.reader.plans.get(self)
        if plan is None:
            writer = self._writers.get(change.schema) or self._new_writer(change.schema)
            plan = typed.reader.plans[self] = _CellPlan(writer, typed.reader)
        values = plan.values()
        try:
            old, new = (None if cells is None else values(cells) for cells in (typed.old, typed.new))
        except _UNFIT:
            # Malformed with the column's name if the source is to blame.
            _ = change.before, change.after
            raise self._not_representable() from None
        return plan.writer, CkafkaImages(change.op, new, old)

    def _no_image(self, change: RowChange) -> NotRepresentable:
        return NotRepresentable(self._protocol, "", f"the {change.op.value} has no row image")

    def _not_representable(self) -> NotRepresentable:
        return NotRepresentable(self._protocol, "", "a value is not of its column's type")

    def _new_writer(self, schema: TableSchema) -> CkafkaWriter:
        if not schema.id.table:
            raise NotRepresentable(self._protocol, "TABLE", NAMELESS)
        size = _COMPILED_BYTES + columns_bytes(schema.columns, _COLUMN_BYTES) + schema_bytes(schema)
        return self._writers.keep(schema, CkafkaWriter(schema, self._style), size)
