"""Rows of CKafka's messages: text cells to canonical rows and back, by the table's definition.

Contract: the messages hold names and text alone, so types and keys come from the catalogue; without it every
column is a `varchar` (counted). What is compiled for a table version is kept in `CkafkaReaders` and
`CkafkaWriters`, caches that could be emptied at any time.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Sequence
from datetime import UTC
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from relay.codecs.canal.ckafka_values import ValueStyle, cell_reader, cell_writer
from relay.codecs.canal.local_times import local_times
from relay.codecs.canal.message import DELETE, UPDATE, Cells
from relay.codecs.canal.reading import Definition, Resolved, SqlTypes, TextReader, WireTable
from relay.codecs.losses import Lossy
from relay.codecs.wire.caches import ByteCache, CachePool, columns_bytes, schema_bytes
from relay.codecs.wire.local_times import LocalTimes
from relay.codecs.wire.rows import NAMELESS, LazyRows
from relay.codecs.wire.shaping import column_styles
from relay.errors import Malformed, NotRepresentable
from relay.model import ABSENT, Cell, ColumnType, Op, Row, RowChange, Rows, Source, TableId, TableSchema
from relay.mysql.values import Read, TextStyle, Write
from relay.templates.tracing import Untraceable

#: What a reader or writer takes, by column and beside, and what is kept of a definition, by column (measured
#: with CPython 3.11).
_COMPILED_BYTES: Final = 2_000
_COLUMN_BYTES: Final = 250
_DEFINED_COLUMN_BYTES: Final = 200
#: What a column is taken for of which nothing is known.
_GUESS: Final = ColumnType("varchar")
_TIME: Final = re.compile(r"\d{4}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d{1,6})?", re.ASCII).fullmatch


class CkafkaImages(msgspec.Struct, frozen=True):
    """The text of a change's images (None where the message has none), and their places in the message."""

    op: Op
    new: Cells | None
    old: Cells | None
    new_path: str = "NEW_VALUES"
    old_path: str = "OLD_VALUES"

    def names(self) -> tuple[str, ...]:
        """Return the columns of both, in the order of the message."""
        return tuple((self.new or {}) | (self.old or {}))


class _Few(LazyRows, frozen=True, eq=False, gc=False):
    """Images that have few of their table's columns, read again whenever somebody asks: canonical rows are as
    wide as the table. They were read without an error before.
    """

    text_reader: TextReader
    images: CkafkaImages

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        return (
            None if self.images.old is None else self.text_reader.row(self.images.old, self.images.old_path)
        )

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        return (
            None if self.images.new is None else self.text_reader.row(self.images.new, self.images.new_path)
        )

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these places of one of the rows; no other is read."""
        images = self.images
        cells, path = (images.old, images.old_path) if is_old else (images.new, images.new_path)
        return None if cells is None else self.text_reader.cells_at(places, cells, path)

    def surely_keeps_keys(self) -> bool:
        """Return whether the key columns have the same text in both images, if there are two."""
        old, new = self.images.old, self.images.new
        if old is None or new is None:
            return True
        names = self.text_reader.key_columns
        return all(old.get(name, ABSENT) == new.get(name, ABSENT) for name in names)

    @property
    def named_key(self) -> tuple[str, ...]:
        """The columns of `pkNames`."""
        return self.text_reader.named_key

    @property
    def possible_places(self) -> tuple[int, ...]:
        """The reader's."""
        return self.text_reader.possible_places


class _Version:
    """A table's definition, prepared for rows of any of its columns."""

    def __init__(self, known: TableSchema | None, pk_names: list[str] | None) -> None:
        self.known, self.pk_names = known, pk_names
        self._definition = Definition(known, pk_names)
        self._without_members: tuple[TableSchema, Resolved] | None = None

    def ordered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns in one order, whatever order they have; as they are if not all are known."""
        return self._definition.in_order(names)

    def resolved(self, wire: WireTable) -> Resolved:
        """Return the definition to read a message's rows with."""
        return self._definition.resolved(wire, SqlTypes())

    def without_members(self, resolved: Resolved) -> Resolved:
        """Return the definition with labels that stay as they came; it is made once of the catalogue's."""
        kept = self._without_members
        if kept is not None and kept[0] is resolved.schema:
            return kept[1]
        columns = tuple(
            [replace(column, type=replace(column.type, members=None)) for column in resolved.schema.columns]
        )
        schema = replace(resolved.schema, columns=columns, complete=False)
        made = resolved._replace(schema=schema, is_guessed=True)
        self._without_members = resolved.schema, made
        return made


class CkafkaReaders:
    """A decoder's readers, by table and columns."""

    def __init__(self, protocol: str, style: TextStyle, value_style: ValueStyle, pool: CachePool) -> None:
        self._protocol, self._style, self._value_style = protocol, style, value_style
        self._has_own_zone, self._times = style.zone is not UTC, LocalTimes(style.zone)
        self._readers: ByteCache[tuple[TableId, tuple[str, ...], bool], TextReader] = pool.cache()
        self._versions: ByteCache[TableId, _Version] = pool.cache()

    def change(
        self,
        wire: WireTable,
        known: TableSchema | None,
        images: CkafkaImages,
        source: Source,
        emitted_at_ns: int,
        lossy: list[Lossy],
    ) -> RowChange:
        """Return the canonical change; `known` is the catalogue's definition.

        Raises Malformed for a text that its type does not allow, and an image without columns.
        """
        given = [image for image in (images.new, images.old) if image is not None]
        if not all(given):
            path = images.new_path if images.new == {} else images.old_path
            raise Malformed(self._protocol, path, "a row without columns")
        reader = self._reader(wire, known)
        if reader.is_partial or any(len(image) < len(wire.names) for image in given):
            lossy.append(Lossy.COLUMNS_ABSENT)
        try:
            rows = _rows(reader, images)
        except Malformed:
            # Perhaps a label is not in the definition, which then is out of date. Other text that is wrong
            # fails again.
            reader = self._reader(wire, known, has_members=False)
            rows = _rows(reader, images)
        if self._has_own_zone:
            self._times.count(local_times(reader, images.new, images.old), lossy)
        if reader.is_guessed:
            lossy.append(Lossy.SCHEMA_GUESSED)
            if self._has_own_zone:
                lossy += [Lossy.VALUE_GUESSED] * _times_of_no_type(reader, images)
        if images.op is UPDATE and images.old is None:
            lossy.append(Lossy.BEFORE_UNKNOWN)
        return RowChange(images.op, reader.schema, rows, source, emitted_at_ns)

    def _reader(self, wire: WireTable, known: TableSchema | None, *, has_members: bool = True) -> TextReader:
        """Return the reader for these columns; without members, labels of ENUM and SET stay as they came."""
        key = wire.id, wire.names, has_members
        found = self._readers.get(key)
        if found is None or found.known is not known or found.wire != wire:
            found = self._reader_of_any_order(wire, known, has_members=has_members)
        return found

    def _reader_of_any_order(
        self, wire: WireTable, known: TableSchema | None, *, has_members: bool
    ) -> TextReader:
        """Return the reader for these columns in whatever order, compiled if there is none."""
        version = self._version(wire, known)
        ordered = replace(wire, names=version.ordered(wire.names))
        found = self._readers.get((wire.id, ordered.names, has_members))
        if found is not None and found.known is known and found.wire == ordered:
            return found
        resolved = version.resolved(ordered)
        if resolved.is_guessed and ordered.names != wire.names:
            # Then the order of the message is the table's.
            ordered, resolved = wire, version.resolved(wire)
        if not has_members:
            resolved = version.without_members(resolved)
        made = self._compile(ordered, known, resolved)
        columns = [made.schema.columns[at] for at in made.places]
        size = _COMPILED_BYTES + columns_bytes(columns, _COLUMN_BYTES) + schema_bytes(made.schema)
        return self._readers.keep((wire.id, ordered.names, has_members), made, size)

    def _version(self, wire: WireTable, known: TableSchema | None) -> _Version:
        found = self._versions.get(wire.id)
        if found is None or found.known is not known or found.pk_names != wire.pk_names:
            columns = 0 if known is None else len(known.columns)
            made = _Version(known, wire.pk_names)
            found = self._versions.keep(wire.id, made, _COMPILED_BYTES + _DEFINED_COLUMN_BYTES * columns)
        return found

    def _compile(self, wire: WireTable, known: TableSchema | None, resolved: Resolved) -> TextReader:
        custom: dict[str, Read] = {}
        for name in wire.names:
            column = resolved.schema.columns[resolved.place_of[name]]
            read = cell_reader(column.type, self._style, self._value_style)
            if read is not None:
                custom[name] = read
        return TextReader(self._protocol, self._style, wire, known, resolved, custom)


def _times_of_no_type(reader: TextReader, images: CkafkaImages) -> int:
    """Count the values that are times of a TIMESTAMP, in the zone of the source, or of a DATETIME, in none:
    without a type, nobody knows.
    """
    columns = reader.schema.columns
    untyped = [columns[at].name for at in reader.places if columns[at].type == _GUESS]
    texts = [image[name] for image in (images.new, images.old) if image for name in untyped if name in image]
    return sum(isinstance(text, str) and _TIME(text) is not None for text in texts)


def _rows(reader: TextReader, images: CkafkaImages) -> Rows | _Few:
    if 2 * len(reader.places) < len(reader.schema.columns):
        few = _Few(reader, images)
        for is_old in (True, False):
            few.cells_at(reader.places, is_old=is_old)  # raises for a text that its type does not allow
        return few
    before = None if images.old is None else reader.row(images.old, images.old_path)
    after = None if images.new is None else reader.row(images.new, images.new_path)
    return Rows(before, after, reader.named_key)


class CkafkaWriter:
    """Writes rows of one table version.

    `losses` is what the definition says and text cells cannot: types other than a bare `varchar`, the primary
    key, and labels of ENUM and SET for which numbers stand because the members are unknown.
    """

    def __init__(self, schema: TableSchema, style: TextStyle) -> None:
        styles = column_styles(schema, style)
        self._writers = [
            (column.name, cell_writer(column.type, spelled))
            for column, spelled in zip(schema.columns, styles, strict=True)
        ]
        types = [column.type for column in schema.columns]
        losses = {
            Lossy.COLUMN_TYPE: any(column_type != _GUESS for column_type in types),
            Lossy.PRIMARY_KEY: bool(schema.primary_key),
            Lossy.ENUM_INDEX: any(
                column_type.base in {"enum", "set"} and column_type.members is None for column_type in types
            ),
        }
        self.losses = [what for what, is_lost in losses.items() if is_lost]

    def writes_at(self, places: Sequence[int]) -> list[Write | None]:
        """Return how the values of the columns at these places are written."""
        return [self._writers[at][1] for at in places]

    def cells(self, row: Sequence[Cell]) -> Cells:
        """Return the row as text in column order. Columns that are ABSENT are left out."""
        cells: dict[str, Any] = {}
        for (name, write), value in zip(self._writers, row, strict=True):
            if value is not ABSENT:
                cells[name] = value if value is None or write is None else write(value)
        return cells

    def some_cells(self, row: Sequence[Cell], places: Sequence[int]) -> Cells:
        """Return the same of a row that has columns at these places alone, given its cells there."""
        cells: dict[str, Any] = {}
        for at, value in zip(places, row, strict=True):
            if value is not ABSENT:
                name, write = self._writers[at]
                cells[name] = value if value is None or write is None else write(value)
        return cells


class CkafkaWriters:
    """An encoder's writers, by table version. `lost`: what the values of the last row have lost."""

    def __init__(self, protocol: str, style: TextStyle, pool: CachePool) -> None:
        self.lost: list[Lossy] = []
        unmoved = functools.partial(self.lost.append, Lossy.ZERO_DATE)
        self._protocol, self._style = protocol, replace(style, unmoved=unmoved)
        self._writers: ByteCache[TableSchema, CkafkaWriter] = pool.cache()

    def images(self, change: RowChange) -> tuple[CkafkaWriter, CkafkaImages]:
        """Return the table's writer, and the change's images as text.

        Raises NotRepresentable if there is no image of its operation, no name of the table, or a value is not
        of its column's type.
        """
        self.lost.clear()
        images, columns = change.images, change.schema.columns
        try:
            possible: Sequence[int] | None = getattr(images, "possible_places", None)
        except Untraceable:
            return self._traced(change)
        before: Sequence[Cell] | None
        after: Sequence[Cell] | None
        if possible is None or 2 * len(possible) >= len(columns):
            before, after, possible = images.before, images.after, None
        else:
            before, after = images.cells_at(possible, is_old=True), images.cells_at(possible, is_old=False)
        if (before if change.op is DELETE else after) is None:
            raise NotRepresentable(self._protocol, "", f"the {change.op.value} has no row image")
        writer = self._writers.get(change.schema) or self._new_writer(change.schema)
        try:
            if possible is not None:
                new = None if after is None else writer.some_cells(after, possible)
                old = None if before is None else writer.some_cells(before, possible)
                return writer, CkafkaImages(change.op, new, old)
            new = None if after is None else writer.cells(after)
            old = None if before is None else writer.cells(before)
        except (ValueError, TypeError, AttributeError) as error:
            raise NotRepresentable(self._protocol, "", "a value is not of its column's type") from error
        if new == {} or old == {}:
            raise NotRepresentable(self._protocol, "", "a row without columns")
        return writer, CkafkaImages(change.op, new, old)

    def _new_writer(self, schema: TableSchema) -> CkafkaWriter:
        if not schema.id.table:
            raise NotRepresentable(self._protocol, "TABLE", NAMELESS)
        size = _COMPILED_BYTES + columns_bytes(schema.columns, _COLUMN_BYTES) + schema_bytes(schema)
        return self._writers.keep(schema, CkafkaWriter(schema, self._style), size)

    def _traced(self, change: RowChange) -> tuple[CkafkaWriter, CkafkaImages]:
        """Return the same for a change with traced cells. Raises Untraceable."""
        typed = change.images.typed(has_before=True) if isinstance(change.images, LazyRows) else None
        if typed is None or (typed.old if change.op is DELETE else typed.new) is None:
            raise Untraceable
        writer = self._writers.get(change.schema) or self._new_writer(change.schema)
        values = typed.reader.row_function(writer.writes_at(typed.reader.places), {})
        old, new = (None if cells is None else values(cells) for cells in (typed.old, typed.new))
        return writer, CkafkaImages(change.op, new, old)
