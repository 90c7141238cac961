"""A decoder's cache of readers for rows of the Canal family; it may be emptied at any time."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.shared.definitions import KeyedDefinition
from relay.codecs.canal.shared.messages import UPDATE, CanalMessage, Cells
from relay.codecs.canal.shared.rows import TextReader, TextRows
from relay.codecs.canal.shared.wire_table import (
    MysqlTypes,
    SqlTypes,
    WireTable,
    parse_mysql_types,
    types_checker,
)
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import columns_bytes
from relay.codecs.shared.compiled import is_due
from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.tables import NAMELESS, Table, Tables
from relay.model.errors import Malformed
from relay.model.events import Event, Op, Position, RowChange, Source, TableId, TableSchema
from relay.model.records import ConsumerRecord
from relay.mysql.types import BINARIES
from relay.mysql.values import Read, TextStyle

#: Maximum readers kept per table, one for each shape of its messages: full rows, deletes with the key alone,
#: minimal row images.
_CACHED_READERS: Final = 64
#: Maximum texts kept of one table's `mysqlType`; only one if it has more members than Go prints in few
#: orders, or is longer than most.
_CACHED_TEXTS: Final = 16
_FEW_MEMBERS: Final = 8
_LONG_TEXT: Final = 2048

#: Memory of a reader with the plans that encoders add to it, base and per column; of a table's definition,
#: per column; and of checking types in any order (measured with CPython 3.11).
_READER_BYTES: Final = 2_500
_COLUMN_BYTES: Final = 350
_DEFINED_COLUMN_BYTES: Final = 150
CHECKER_BYTES: Final = 3_000
CHECKED_MEMBER_BYTES: Final = 400

#: The differences of a codec's messages of one shape, given a message's `sqlType` and its table facts: their
#: style, and the columns that are not read by their type.
Spelling = tuple[TextStyle, dict[str, Read]]
_SpellingOf = Callable[[SqlTypes, WireTable], Spelling]
#: Whether the text of `sqlType` may mean that binary values are spelled in an unusual way.
_IsOdd = Callable[[bytes], object]


#: Returns the row changes of a message, like `TextReaders.changes`.
ReadRows = Callable[[CanalMessage, Op, Source, int, ConsumerRecord, Catalog, list[Loss]], list[Event]]


class TextReaders:
    """A decoder's readers, by table and shape of message.

    `is_full`: a message's types have all their parameters. `spelling_of`: facts of a message's values besides
    the style. `is_odd`: the texts of `sqlType` for which to call `spelling_of`. `is_druid`: the form of names
    and types (`KeyedDefinition`).
    """

    def __init__(  # noqa: PLR0913 - the differences between protocols
        self,
        protocol: str,
        style: TextStyle,
        is_full: Callable[[MysqlTypes], bool],
        spelling_of: _SpellingOf | None = None,
        is_odd: _IsOdd | None = None,
        *,
        is_druid: bool = False,
        most_bytes: int,
    ) -> None:
        self._protocol = protocol
        spelling = spelling_of or (lambda _, __: (style, {}))

        def made(id: TableId) -> TableReaders:
            table = TableReaders(id, protocol, is_full, spelling, self._tables)
            table.is_odd, table.is_druid = is_odd, is_druid
            return table

        self._tables = Tables(made, most_bytes)
        # The table of the last message; usually the next one's, too. Initially a table that does not exist.
        self._last = made(TableId("", "\0"))

    def changes(  # noqa: C901, PLR0913, PLR0917 - every function called here costs a call per row
        self,
        message: CanalMessage,
        op: Op,
        source: Source,
        emitted_at_ns: int,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> list[Event]:
        """Return the row changes of a message, which must have rows."""
        rows, olds = message.data or [], message.old
        if olds is not None and len(olds) != len(rows):
            # Canal up to 1.1.6 leaves empty entries of `old` out: then no row can be paired with certainty.
            olds = None
        table = self._last
        if message.table != table.id.table or message.database != table.id.database:
            if not message.table:
                raise Malformed(self._protocol, "table", NAMELESS)
            table = self._last = self._tables[message.database, message.table]
        changes: list[Event] = []
        reader = shapes = None
        for index, cells in enumerate(rows):
            names = tuple(cells)
            if not names:
                raise Malformed(self._protocol, f"data[{index}]", "a row without columns")
            old, has_gaps = None, False
            if op is UPDATE:
                old = None if olds is None else olds[index]
                if old is None:
                    losses.append(Loss.BEFORE_MISSING)
                elif tuple(old) != names and not old.keys() <= cells.keys():
                    names += _only_in(old, cells)  # minimal row images: ABSENT in the new row
                    has_gaps = True
            if reader is None:
                reader = table.reader_for(names, message, source, record, catalog)
            elif reader.wire.names != names:
                if shapes is None:
                    known = _definition(catalog, table.id, source.at(record))
                    shapes = _Shapes(table, reader.wire, known, message)
                reader = shapes.reader_for(names)
            losses += reader.losses
            if has_gaps and not reader.is_partial:
                losses.append(Loss.COLUMNS_ABSENT)
            images = TextRows(reader, op, cells, old, index)
            changes.append(RowChange(op, reader.schema, images, source, emitted_at_ns))
        return changes


def _definition(catalog: Catalog, table: TableId, at: Position) -> TableSchema | None:
    """Return the definition as of a row's position. Canal's times are whole seconds: for a table that a
    statement in another partition created in the row's second, it is the definition after that statement.
    """
    return catalog.table(table, at) or catalog.created_at_same_instant(table, at)


def _only_in(old: Cells, cells: Cells) -> tuple[str, ...]:
    # A separate function: a closure over `cells` where rows are read would slow down every row.
    return tuple(name for name in old if name not in cells)


class _Shapes:
    """The readers of one message whose rows have different columns, besides the first row's."""

    def __init__(
        self, table: TableReaders, wire: WireTable, known: TableSchema | None, message: CanalMessage
    ) -> None:
        self._table, self._wire, self._known = table, wire, known
        self._sql_types, self._types_bytes = SqlTypes(message.sql_type), len(message.mysql_type)
        self._readers: dict[tuple[str, ...], TextReader] = {}

    def reader_for(self, names: tuple[str, ...]) -> TextReader:
        """Return the reader for rows with these columns."""
        found = self._readers.get(names)
        if found is None:
            wire = msgspec.structs.replace(self._wire, names=names)
            found = self._readers[names] = self._table.compiled(
                wire, self._known, self._sql_types, self._types_bytes
            )
        return found


class TableReaders(Table[TextReader]):
    """The readers of one table."""

    #: Whether a text of `sqlType` requires a check of how binary values are spelled; None if none does.
    is_odd: _IsOdd | None = None
    is_druid = False

    def __init__(
        self,
        id: TableId,
        protocol: str,
        is_full: Callable[[MysqlTypes], bool],
        spelling_of: _SpellingOf,
        tables: Tables[TableReaders],
    ) -> None:
        super().__init__(id)
        self._tables = tables
        self._protocol, self._is_full, self._spelling_of = protocol, is_full, spelling_of
        # Readers of rows that are newer than all DDL of the table. First by the text of `mysqlType`, which
        # Canal repeats, and TiCDC for narrow tables: it prints a map, and Go prints the members of a wider
        # one in a new order each time. Then by columns, comparing the types.
        self._by_types: dict[bytes, TextReader] = {}
        self._by_names: dict[tuple[str, ...], TextReader] = {}
        # Whether the members of `mysqlType` came in two orders; if so, its text identifies nothing.
        self._is_shuffled = False
        # `is_odd`, once rows with binary values have come.
        self._is_odd: _IsOdd | None = None
        self._definition: KeyedDefinition | None = None

    def forget(self) -> None:
        """Discard compiled readers and the definition."""
        super().forget()
        self._by_types, self._by_names, self._definition = {}, {}, None
        self._is_shuffled = False

    def reader_for(
        self,
        names: tuple[str, ...],
        message: CanalMessage,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
    ) -> TextReader:
        """Return the reader for the message's rows with these columns. Raises Malformed."""
        types, commit_ts = bytes(message.mysql_type), source.commit_ts
        # With a commit ts, most rows need no call to know that they are newer than all DDL of their table.
        if commit_ts is not None and catalog is self.catalog and commit_ts > self.newest_commit_ts:
            is_newest = True
        else:
            is_newest = self.is_newest(catalog, commit_ts, source.event_time_ns, record)
        # The kept readers are for rows that are newest and have the usual spelling.
        is_usual = is_newest and (self._is_odd is None or not self._is_odd(message.sql_type))
        if is_usual:
            found = None if self._is_shuffled else self._by_types.get(types)
            if (
                found is not None
                and found.wire.names == names
                and found.known is self.newest
                and found.wire.pk_names == message.pk_names
            ):
                return found
            found = self._reader_of_same_types(names, types, message.pk_names)
            if found is not None:
                return found
        mysql_types = parse_mysql_types(self._protocol, types)
        wire = WireTable(self.id, names, mysql_types, message.pk_names, self._is_full(mysql_types))
        known = self.newest if is_newest else None
        if known is None:
            known = _definition(catalog, self.id, source.at(record))
        found = self.compiled(wire, known, SqlTypes(message.sql_type), len(types))
        if is_usual and not found.sql_types and found.wire.names == names:
            if len(self._by_names) >= _CACHED_READERS:
                self._by_names.clear()
            self._by_names[names] = found
            self._keep_text(types, mysql_types, found, is_reordered=False)
        return found

    def _reader_of_same_types(
        self, names: tuple[str, ...], types: bytes, pk_names: list[str] | None
    ) -> TextReader | None:
        """Return the kept reader for these columns, if the types are equal in any order. Raises Malformed."""
        found = self._by_names.get(names)
        if found is None or found.known is not self.newest or found.wire.pk_names != pk_names:
            return None
        if found.check_types is not None:
            try:
                found.check_types(types)
            except REFUSED:
                return None
            return found
        if found.wire.mysql_types != parse_mysql_types(self._protocol, types):
            return None
        self._note_reordered(types, found)
        return found

    def _note_reordered(self, types: bytes, reader: TextReader) -> None:
        """Note another order of the members for the same reader."""
        mysql_types = reader.wire.mysql_types or {}
        if not self._is_shuffled:
            self._keep_text(types, mysql_types, reader, is_reordered=True)
            return
        reader.reordered_uses += 1
        if is_due(reader.reordered_uses):
            reader.check_types = types_checker(mysql_types)
            if reader.check_types is not None:
                self._tables.charge(self, CHECKER_BYTES + CHECKED_MEMBER_BYTES * len(mysql_types))

    def _keep_text(
        self, types: bytes, mysql_types: MysqlTypes, reader: TextReader, *, is_reordered: bool
    ) -> None:
        """Keep the text of `mysqlType` that identifies a reader; none for a wide table whose members changed
        their order.
        """
        is_wide = len(mysql_types or ()) > _FEW_MEMBERS or len(types) > _LONG_TEXT
        if is_wide or len(self._by_types) >= _CACHED_TEXTS:
            self._by_types.clear()
        if is_wide and is_reordered:
            self._is_shuffled = True
        else:
            self._by_types[types] = reader

    def compiled(
        self, wire: WireTable, known: TableSchema | None, sql_types: SqlTypes, types_bytes: int
    ) -> TextReader:
        """Return the reader for such messages, compiled if needed; `types_bytes`: the size of `mysqlType`."""
        definition = self._definition
        if definition is None or definition.known is not known or definition.pk_names != wire.pk_names:
            definition = KeyedDefinition(known, wire.pk_names, is_druid=self.is_druid)
            if known is not None and self._definition is None:
                self._tables.charge(self, _DEFINED_COLUMN_BYTES * len(known.columns))
            self._definition = definition
        names = definition.ordered(wire.names)
        if names != wire.names:
            wire = msgspec.structs.replace(wire, names=names)
        spelling = self._spelling_of(sql_types, wire)
        for found in self.kept:
            if (
                found.known is known
                and found.wire == wire
                and (found.style, found.custom) == spelling
                and all(sql_types.get(name) == sql_type for name, sql_type in found.sql_types.items())
            ):
                return found
        sql_types.asked.clear()  # the new reader depends on the numbers asked for from here on
        resolved = definition.resolved(wire, sql_types)
        style, custom = self._spelling_of(sql_types, wire)
        made = TextReader(
            self._protocol, style, wire, known, resolved, custom, sql_types=dict(sql_types.asked)
        )
        columns = [made.schema.columns[at] for at in made.indexes]
        if not BINARIES.isdisjoint([one.type.base for one in columns]):
            self._is_odd = self.is_odd
        if len(self.kept) >= _CACHED_READERS:
            self._by_names.clear()
            self._by_types.clear()
        # Both the text of `mysqlType` and its parsed form are kept.
        size = _READER_BYTES + columns_bytes(columns, _COLUMN_BYTES)
        size += 2 * types_bytes + sum(map(len, wire.names))
        self._tables.keep(self, made, size, _CACHED_READERS)
        made.charge = functools.partial(self._tables.charge, self)
        return made
