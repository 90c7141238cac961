"""Rows of the Canal family as original text cells, and their readers.

A decoder keeps a row as its text cells (`TextRows`) with a `TextReader`, compiled once per table version and
shape of message. Canonical values are computed on demand.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Self

import msgspec

from relay.codecs.canal.shared.definitions import Resolved
from relay.codecs.canal.shared.messages import DELETE, INSERT, UPDATE, Cells
from relay.codecs.canal.shared.wire_table import WireTable, key_columns
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import columns_bytes
from relay.codecs.shared.compiled import is_due
from relay.codecs.shared.rows import LazyRows, PartNames, TypedReader, TypedRows, TypeInfo, renamed_reader
from relay.model.errors import Malformed
from relay.model.events import ABSENT, Cell, Images, Op, Row, TableSchema
from relay.mysql.types import has_parameters
from relay.mysql.values import Read, TextStyle, reader

#: Memory of a reader of typed cells with the parts that encoders compile for it, base and per column
#: (measured with CPython 3.11).
_TYPED_BYTES: Final = 3_000
_TYPED_COLUMN_BYTES: Final = 350


class TextReader:
    """Reads the cells of messages that have exactly these columns, types and keys.

    Compiled once per table version. `known`: the catalog's definition. `resolved`: the definition to read
    with, and whether it was inferred from the message. `custom`: columns with another reading function than
    their type's. `sql_types`: the numbers of `sqlType` that this reader depends on, by column.
    """

    def __init__(  # noqa: PLR0913 - the parts of a reader
        self,
        protocol: str,
        style: TextStyle,
        wire: WireTable,
        known: TableSchema | None,
        resolved: Resolved,
        custom: dict[str, Read],
        *,
        sql_types: Mapping[str, int | None] | None = None,
    ) -> None:
        self.protocol, self.wire, self.known, self.style, self.custom = protocol, wire, known, style, custom
        self.schema, self.is_inferred, index_of, hidden, self._texts = resolved
        self._index_of = index_of
        self.sql_types = sql_types or {}
        columns = self.schema.columns
        #: Plans that encoders (`relay.codecs.canal.shared.row_writing`) have compiled for these rows; they
        #: live as long as the reader.
        self.plans: dict[object, Any] = {}
        #: The indexes of the message's columns in the table.
        self.indexes = tuple(index_of[name] for name in wire.names)
        #: The indexes of the columns that an image may have, ascending.
        self.possible_indexes = tuple(sorted(self.indexes))
        #: The table's own names of the message's columns.
        self._own_names = tuple([columns[at].name for at in self.indexes])
        #: Whether the cells have the table's names and, except for `custom`, the style's spelling.
        self.is_plain = not self._texts and (
            self._own_names == wire.names or all(own == name for own, name in self._wire_names().items())
        )
        self._reads_at: dict[tuple[int, ...], list[tuple[str, Read | None] | None]] = {}
        self._uses = 0
        #: The wire's names of images that are cells.
        self.parts = _PARTS
        #: Counts bytes kept after construction.
        self.charge: Callable[[int], None] | None = None
        #: A reader of the same cells in table order, and the function that selects them in a message. Made
        #: after some rows.
        self.typed: TypedReader | None = None
        self.cells_of: Callable[[Cells], Sequence[Any]] = tuple
        shown = len(self.indexes)
        if hidden:
            shown = sum([name not in hidden for name in self._own_names])
        #: Whether the message leaves out columns, and whether the table is known to have them.
        self.leaves_out = shown < len(columns) - len(hidden)
        self.is_partial = self.leaves_out or self.schema.lacks_key_columns
        #: The readers of the same cells for other names of the table.
        self.renamed: dict[TableSchema, Self] = {}
        #: Losses counted for every row.
        self.losses: list[Loss] = []
        #: Accepts the reader's `mysqlType` in any order and raises for others (`types_checker`). Made after
        #: some texts in new orders, which are counted.
        self.check_types: Callable[[bytes], object] | None = None
        self.reordered_uses = 0
        if self.is_inferred:
            self.losses.append(Loss.SCHEMA_INFERRED)
        if self.is_partial:
            self.losses.append(Loss.COLUMNS_ABSENT)

    # The following are computed on demand: many tables have few rows, and many rows are copied as text.

    @functools.cached_property
    def type_info(self) -> TypeInfo:
        """The loss of a target without types or without their parameters (`varchar(20)`)."""
        return TypeInfo(bool(self.wire.mysql_types), any(map(has_parameters, self.wire.known_types())))

    @functools.cached_property
    def message_key_columns(self) -> tuple[str, ...]:
        """The columns that the message names as its key."""
        columns = self.schema.columns
        return key_columns(self.wire.pk_names or (), self._index_of, lambda at: columns[at].name)

    @functools.cached_property
    def key_columns(self) -> list[str]:
        """The key columns by which TiCDC detects an UPDATE of a key, by their names in messages."""
        wire_names = self._wire_names()
        return [wire_names.get(name, name) for name in self.schema.key_columns()]

    def _wire_names(self) -> dict[str, str]:
        """Return the message's name of each column by the table's own name."""
        return dict(zip(self._own_names, self.wire.names, strict=True))

    @functools.cached_property
    def _reads(self) -> list[tuple[str, int, Read | None]]:
        """The name and index of each column, and the function that reads its text."""
        columns, style, texts = self.schema.columns, self.style, self._texts
        text_style = msgspec.structs.replace(style, read_binary=str.encode) if texts else style
        return [
            (
                name,
                at,
                self.custom.get(name) or reader(columns[at].type, text_style if name in texts else style),
            )
            for name, at in zip(self.wire.names, self.indexes, strict=True)
        ]

    def of_table(self, schema: TableSchema) -> Self:
        """Return the reader of the same cells as rows of an equal table with another name, made once."""
        return renamed_reader(self, schema)

    def forget_made(self) -> None:
        """Forget what was made for the reader that this one is a copy of."""
        self.plans, self.renamed, self.typed = {}, {}, None

    def row(self, cells: Cells, part: str) -> Row:
        """Return the canonical row; columns that the cells lack are ABSENT.

        Raises Malformed for a text that its type does not allow.
        """
        row: list[Cell] = [ABSENT] * len(self.schema.columns)
        for name, index, read in self._reads:
            text = cells.get(name, ABSENT)
            try:
                row[index] = text if read is None or not isinstance(text, str) else read(text)
            except (ValueError, ArithmeticError) as error:
                raise Malformed(self.protocol, f"{part}.{name}", str(error)) from None
        return tuple(row)

    def cells_at(self, indexes: Sequence[int], cells: Cells, part: str) -> list[Cell]:
        """Return the canonical row's cells at these column indexes, without reading others. Raises like
        `row`.

        `indexes` must be fixed for a table, such as those of its key: each distinct tuple is cached.
        """
        indexes = tuple(indexes)
        wanted = self._reads_at.get(indexes)
        if wanted is None:
            read_at = {at: (name, read) for name, at, read in self._reads}
            wanted = self._reads_at[indexes] = [read_at.get(at) for at in indexes]
        return [ABSENT if one is None else self._cell(*one, cells, part) for one in wanted]

    def typed_reader(self) -> TypedReader | None:
        """Return `typed`, compiled after some rows have been written without it."""
        self._uses += 1
        if not is_due(self._uses):
            return None
        self.cells_of = _getter(self.names_in_table_order())
        typed = self.in_table_order()
        if self.charge is not None:
            columns = [self.schema.columns[at] for at in typed.indexes]
            self.charge(_TYPED_BYTES + columns_bytes(columns, _TYPED_COLUMN_BYTES))
        self.typed = typed
        return typed

    def names_in_table_order(self) -> list[str]:
        """Return the message's columns in table order, by their names in messages."""
        return [name for name, _, _ in sorted(self._reads, key=_index)]

    def in_table_order(self) -> TypedReader:
        """Return a reader of the same cells in table order."""
        ordered = sorted(self._reads, key=_index)
        typed = TypedReader(
            self.protocol,
            self.schema,
            [at for _, at, _ in ordered],
            [read for _, _, read in ordered],
            self.parts,
            known=self.known,
        )
        typed.type_info, typed.message_key_columns = self.type_info, self.message_key_columns
        return typed

    def step(self, convert: Callable[[str], Any]) -> Callable[[Any], Any]:
        """Return the function that applies a text conversion to a cell of these rows."""
        return convert

    def _cell(self, name: str, read: Read | None, cells: Cells, part: str) -> Cell:
        text = cells.get(name, ABSENT)
        try:
            return text if read is None or not isinstance(text, str) else read(text)
        except (ValueError, ArithmeticError) as error:
            raise Malformed(self.protocol, f"{part}.{name}", str(error)) from None


#: The wire's names of images. Errors are those of `TextRows`.
_PARTS: Final = PartNames("data", "old", "data")


def _index(read: tuple[str, int, Read | None]) -> int:
    return read[1]


def _getter(names: Sequence[str]) -> Callable[[Cells], Sequence[Any]]:
    """Return the function that takes the cells of these columns out of a row, or raises KeyError."""
    if len(names) == 1:
        (name,) = names
        return lambda cells: (cells[name],)
    return operator.itemgetter(*names)


class TextRows(LazyRows, frozen=True, eq=False, gc=False):
    """A change's images as the original text.

    `cells` and `old` are the message's `data` and `old` (None if absent) at `index`.
    """

    reader: TextReader
    op: Op
    cells: Cells
    old: Cells | None
    index: int

    @property
    def before(self) -> Row | None:
        """Return the row before the change: `old` merged over the new row. A NULL in `old` was NULL."""
        if self.op is DELETE:
            return self.reader.row(self.cells, f"data[{self.index}]")
        if self.op is not UPDATE or self.old is None:
            return None
        return self.reader.row(self.cells | self.old, f"old[{self.index}]")

    @property
    def after(self) -> Row | None:
        """Return the row after the change."""
        return None if self.op is DELETE else self.reader.row(self.cells, f"data[{self.index}]")

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return one row's cells at these column indexes, without reading others."""
        if is_old is (self.op is DELETE):
            return self.reader.cells_at(indexes, self.cells, f"data[{self.index}]")
        if not is_old or self.op is not UPDATE or self.old is None:
            return None
        cells = self.cells | self.old if indexes else self.cells
        return self.reader.cells_at(indexes, cells, f"old[{self.index}]")

    def keys_unchanged_on_wire(self) -> bool:
        """Return whether `old` lacks the key columns or has the text of the new row."""
        old, cells = self.old, self.cells
        if old is None:
            return True
        for name in self.reader.key_columns:
            if name in old and (name not in cells or old[name] != cells[name]):
                return False
        return True

    def typed(self, *, has_before: bool) -> TypedRows | None:
        """Return the same rows with a typed reader, if the row has all columns and the reader has read some
        rows before.
        """
        reader, cells = self.reader, self.cells
        typed = reader.typed or reader.typed_reader()
        if typed is None:
            return None
        try:
            new = reader.cells_of(cells)
            if self.op is DELETE:
                return TypedRows(typed, new, None)
            old = None
            if has_before and self.op is UPDATE and self.old is not None:
                old = reader.cells_of(cells | self.old)
        except KeyError:
            return None
        return TypedRows(typed, old, new)

    def of_table(self, schema: TableSchema) -> Self:
        """Return the same text with the reader of the other table."""
        return msgspec.structs.replace(self, reader=self.reader.of_table(schema))

    def split_images(self) -> tuple[Images, Images]:
        """Return the old row and the new row, still as text if both have all columns of their reader."""
        old, cells = self.old, self.cells
        if old is None or not old.keys() <= cells.keys():
            return LazyRows.split_images(self)
        new = TextRows(self.reader, INSERT, cells, None, self.index)
        return _OldText(self.reader, DELETE, cells | old, None, self.index), new

    @property
    def message_key_columns(self) -> tuple[str, ...]:
        """Return the columns of `pkNames`."""
        return self.reader.message_key_columns

    @property
    def possible_indexes(self) -> tuple[int, ...]:
        """Return the reader's `possible_indexes`."""
        return self.reader.possible_indexes


class _OldText(TextRows, frozen=True, eq=False, gc=False):
    """The old row of an update as separate images."""

    @property
    def before(self) -> Row | None:
        """Return the row before the change."""
        return self.reader.row(self.cells, f"old[{self.index}]")

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these column indexes, without reading others."""
        return self.reader.cells_at(indexes, self.cells, f"old[{self.index}]") if is_old else None
