"""Rows of CKafka's messages: text cells to canonical rows and back, by the table's definition.

Contract: the messages hold names and text alone, so types and keys come from the catalogue; without it every
column is a `varchar` (counted). What is compiled for a table version is kept in `CkafkaReaders` and
`CkafkaWriters`, caches that could be emptied at any time.
"""

from __future__ import annotations

import re
from datetime import UTC
from typing import Any, Final

import msgspec
from msgspec.structs import replace

from relay.codecs.canal.ckafka_values import ValueStyle, cell_reader, cell_writer
from relay.codecs.canal.message import DELETE, UPDATE, Cells
from relay.codecs.canal.reading import Definition, SqlTypes, TextReader, WireTable
from relay.codecs.losses import Lossy
from relay.errors import Malformed, NotRepresentable
from relay.model import ABSENT, ColumnType, Op, Row, RowChange, Rows, Source, TableId, TableSchema
from relay.mysql.values import Read, TextStyle

#: A bound on what a cache may hold, for sources that create tables without end.
_CACHED: Final = 4096
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


class CkafkaReaders:
    """A decoder's readers, by table and columns."""

    def __init__(self, protocol: str, style: TextStyle, value_style: ValueStyle) -> None:
        self._protocol, self._style, self._value_style = protocol, style, value_style
        self._has_own_zone = style.zone is not UTC
        self._readers: dict[tuple[TableId, tuple[str, ...], bool], TextReader] = {}

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
            if len(self._readers) >= _CACHED:
                self._readers.clear()
            found = self._readers[key] = self._compile(wire, known, has_members=has_members)
        return found

    def _compile(self, wire: WireTable, known: TableSchema | None, *, has_members: bool) -> TextReader:
        resolved = Definition(known, wire.pk_names).resolved(wire, SqlTypes())
        schema = resolved.schema
        if not has_members:
            columns = tuple(
                replace(column, type=replace(column.type, members=None)) for column in schema.columns
            )
            schema = replace(schema, columns=columns, complete=False)
            resolved = resolved._replace(schema=schema, is_guessed=True)
        custom: dict[str, Read] = {}
        for column in schema.columns:
            read = cell_reader(column.type, self._style, self._value_style)
            if read is not None:
                custom[column.name] = read
        return TextReader(self._protocol, self._style, wire, known, resolved, custom)


def _times_of_no_type(reader: TextReader, images: CkafkaImages) -> int:
    """Count the values that are times of a TIMESTAMP, in the zone of the source, or of a DATETIME, in none:
    without a type, nobody knows.
    """
    untyped = [column.name for column in reader.schema.columns if column.type == _GUESS]
    texts = [image[name] for image in (images.new, images.old) if image for name in untyped if name in image]
    return sum(isinstance(text, str) and _TIME(text) is not None for text in texts)


def _rows(reader: TextReader, images: CkafkaImages) -> Rows:
    before = None if images.old is None else reader.row(images.old, images.old_path)
    after = None if images.new is None else reader.row(images.new, images.new_path)
    return Rows(before, after, reader.named_key)


class CkafkaWriter:
    """Writes rows of one table version.

    `losses` is what the definition says and text cells cannot: types other than a bare `varchar`, the primary
    key, and labels of ENUM and SET for which numbers stand because the members are unknown.
    """

    def __init__(self, schema: TableSchema, style: TextStyle) -> None:
        self._writers = [(column.name, cell_writer(column.type, style)) for column in schema.columns]
        types = [column.type for column in schema.columns]
        losses = {
            Lossy.COLUMN_TYPE: any(column_type != _GUESS for column_type in types),
            Lossy.PRIMARY_KEY: bool(schema.primary_key),
            Lossy.ENUM_INDEX: any(
                column_type.base in {"enum", "set"} and column_type.members is None for column_type in types
            ),
        }
        self.losses = [what for what, is_lost in losses.items() if is_lost]

    def cells(self, row: Row) -> Cells:
        """Return the row as text in column order. Columns that are ABSENT are left out."""
        cells: dict[str, Any] = {}
        for (name, write), value in zip(self._writers, row, strict=True):
            if value is not ABSENT:
                cells[name] = value if value is None or write is None else write(value)
        return cells


class CkafkaWriters:
    """An encoder's writers, by table version."""

    def __init__(self, protocol: str, style: TextStyle) -> None:
        self._protocol, self._style = protocol, style
        self._writers: dict[TableSchema, CkafkaWriter] = {}

    def images(self, change: RowChange) -> tuple[CkafkaWriter, CkafkaImages]:
        """Return the table's writer, and the change's images as text.

        Raises NotRepresentable if there is no image of its operation, or a value is not of its column's type.
        """
        before, after = change.before, change.after
        if (before if change.op is DELETE else after) is None:
            raise NotRepresentable(self._protocol, "", f"the {change.op.value} has no row image")
        writer = self._writers.get(change.schema)
        if writer is None:
            if len(self._writers) >= _CACHED:
                self._writers.clear()
            writer = self._writers[change.schema] = CkafkaWriter(change.schema, self._style)
        try:
            new = None if after is None else writer.cells(after)
            old = None if before is None else writer.cells(before)
        except (ValueError, TypeError, AttributeError) as error:
            raise NotRepresentable(self._protocol, "", "a value is not of its column's type") from error
        if new == {} or old == {}:
            raise NotRepresentable(self._protocol, "", "a row without columns")
        return writer, CkafkaImages(change.op, new, old)
