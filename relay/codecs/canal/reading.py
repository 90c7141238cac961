"""Rows of the Canal family, read: text cells and the definition that understands them.

Contract: a decoder keeps a row as the text cells that came (`TextRows`) together with the `RowReader` that
understands them, compiled once per table version and shape of message; the canonical values are made when
somebody asks. `RowReaders` is a decoder's cache and could be emptied at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.message import Cells, Message, position, sql_types
from relay.codecs.losses import Lossy
from relay.codecs.wire.rows import LazyRows, Table, Tables, TypeInfo
from relay.errors import Malformed
from relay.model import (
    ABSENT,
    Cell,
    Column,
    ColumnType,
    Event,
    Generated,
    Op,
    Position,
    Row,
    RowChange,
    Source,
    TableId,
    TableSchema,
)
from relay.mysql.types import INTEGER_BITS, has_parameters, parse_type
from relay.mysql.values import Read, TextStyle, reader
from relay.records import ConsumerRecord

#: Shapes of one table's messages that are kept ready: full rows, deletes with the key alone, minimal row
#: images.
_CACHED_SHAPES: Final = 64
#: Member orders of one table's `mysqlType` that are remembered.
_CACHED_ORDERS: Final = 512

#: A message's `mysqlType`.
Types = dict[str, str] | None
#: The columns that a codec reads in another way than their type says, given `sqlType` and `mysqlType` of a
#: message.
CustomOf = Callable[["Codes", dict[str, str]], dict[str, Read]]

_decode_types = msgspec.json.Decoder(Types).decode

# Python 3.11 resolves `Op.UPDATE` through a descriptor, at the price of a function call; these are looked at
# for every row.
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE


class Codes:
    """A message's `sqlType`, and what was asked of it: mostly nothing, because `mysqlType` says all."""

    def __init__(self, message: Message | None = None) -> None:
        self._message = message
        self._all: dict[str, int] | None = None
        self.asked: dict[str, int | None] = {}

    def get(self, name: str) -> int | None:
        """The number of a column, None if it has none."""
        if self._all is None:
            self._all = sql_types(self._message) if self._message else {}
        code = self.asked[name] = self._all.get(name)
        return code


class WireTable(msgspec.Struct, frozen=True):
    """What a message says of its table: the columns in their order, `mysqlType` and `pkNames`."""

    id: TableId
    names: tuple[str, ...]
    mysql_type: Types
    pk_names: list[str] | None

    def type_of(self, name: str) -> ColumnType | None:
        """The column's type as the message has it, None if it does not say (or in no words of MySQL)."""
        text = (self.mysql_type or {}).get(name)
        try:
            return parse_type(text) if text else None
        except ValueError:
            return None

    def types(self) -> list[ColumnType]:
        """The types that the message says."""
        return [said for name in self.names if (said := self.type_of(name)) is not None]


class RowReader:
    """Understands the cells of messages that have exactly these columns, types and keys. Compiled once per
    table version.

    `is_guessed`: the schema comes from the message itself and not from the table's DDL. `is_partial`: the
    message leaves out columns that the table has. `places`: where the message's columns stand in the table.
    `custom`: columns whose text is read in another way than their type says. `codes`: the numbers of
    `sqlType` that all of this rests on, by column.
    """

    def __init__(  # noqa: PLR0913 - what a reader is made of
        self,
        protocol: str,
        style: TextStyle,
        wire: WireTable,
        known: TableSchema | None,
        resolved: tuple[TableSchema, bool],
        custom: dict[str, Read],
        *,
        codes: Mapping[str, int | None] | None = None,
    ) -> None:
        self.codes = codes or {}
        self.protocol, self.wire, self.known, self.style, self.custom = protocol, wire, known, style, custom
        #: What encoders (`relay.codecs.canal.writing`) have compiled for these rows; it lives and dies with
        #: the reader.
        self.plans: dict[object, object] = {}
        self.schema, self.is_guessed = resolved
        #: What a target without types or their parameters (`varchar(20)`) loses.
        self.type_info = TypeInfo(bool(wire.mysql_type), any(map(has_parameters, wire.types())))
        columns = self.schema.columns
        place = {column.name: at for at, column in enumerate(columns)}
        self.places = tuple(place[name] for name in wire.names)
        self._blank: list[Cell] = [ABSENT] * len(columns)
        readers = {name: custom.get(name) or reader(columns[place[name]].type, style) for name in wire.names}
        self._readers = [(name, place[name], readers[name]) for name in wire.names]
        shown = {column.name for column in columns if column.generated is not Generated.VIRTUAL}
        self.is_partial = self.schema.complete and not shown.issubset(wire.names)
        #: What is counted for every row.
        self.losses = [Lossy.SCHEMA_GUESSED] * self.is_guessed + [Lossy.COLUMNS_ABSENT] * self.is_partial

    def row(self, cells: Cells, part: str) -> Row:
        """The canonical row; columns that the cells lack are ABSENT. Raises Malformed for a text that its
        type does not allow.
        """
        row = self._blank.copy()
        for name, place, read in self._readers:
            text = cells.get(name, ABSENT)
            try:
                row[place] = text if read is None or not isinstance(text, str) else read(text)
            except (ValueError, ArithmeticError) as error:
                raise Malformed(self.protocol, f"{part}.{name}", str(error)) from error
        return tuple(row)


class TextRows(LazyRows, frozen=True, eq=False, gc=False):
    """A change's images as the text that came: the message's own `data` (`cells`) and `old` (None if it does
    not say).
    """

    reader: RowReader
    op: Op
    cells: Cells
    old: Cells | None
    index: int

    @property
    def before(self) -> Row | None:
        """The row before the change; `old` laid over the new row by key presence, so that a present NULL was
        NULL.
        """
        if self.op is _DELETE:
            return self.reader.row(self.cells, f"data[{self.index}]")
        if self.op is not _UPDATE or self.old is None:
            return None
        return self.reader.row(self.cells | self.old, f"old[{self.index}]")

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        return None if self.op is _DELETE else self.reader.row(self.cells, f"data[{self.index}]")


def resolve(wire: WireTable, known: TableSchema | None, codes: Codes) -> tuple[TableSchema, bool]:
    """The definition to read a message with, and whether it had to be guessed.

    The catalogue's, if it does not contradict the message; else one made of the message's own words, with the
    parameters of those catalogue columns that still fit.
    """
    columns = {column.name: column for column in known.columns} if known else {}
    if known is not None and all(
        name in columns and _agrees(columns[name], wire.type_of(name)) for name in wire.names
    ):
        return _with_wire_key(known, wire.pk_names), False
    made = tuple(_made_column(name, columns.get(name), wire.type_of(name), codes) for name in wire.names)
    key = tuple(wire.pk_names) if wire.pk_names is not None else None
    return TableSchema(wire.id, made, primary_key=key, complete=False), True


def _with_wire_key(known: TableSchema, pk_names: list[str] | None) -> TableSchema:
    if pk_names is None or (known.primary_key is not None and set(pk_names) == set(known.primary_key)):
        return known
    return msgspec.structs.replace(known, primary_key=tuple(pk_names))


def _agrees(column: Column, said: ColumnType | None) -> bool:
    """Whether the message's type word can mean the catalogue's column. Bare words leave the parameters open."""
    known = column.type
    if said is None:
        return True
    if said.base != known.base or said.unsigned != known.unsigned:
        return False
    if said.members is not None and known.members is not None:
        return said.members == known.members
    if said.length is None or known.length is None or known.base in INTEGER_BITS or known.base == "year":
        return True
    return said.length == known.length and said.scale == known.scale


def _made_column(name: str, known: Column | None, said: ColumnType | None, codes: Codes) -> Column:
    if known is not None and _agrees(known, said):
        return known
    return Column(name, said or ColumnType(_BASES.get(codes.get(name) or 0, "varchar")))


#: What a `sqlType` number says where no type word does (Canal without a table's definition); several types
#: share a number.
_BASES: Final = {
    -7: "bit", -6: "tinyint", -5: "bigint", 1: "char", 3: "decimal", 4: "int", 5: "smallint", 7: "float", 8: "double",
    91: "date", 92: "time", 93: "datetime", 2004: "blob", 2005: "text",
}  # fmt: skip


class RowReaders:
    """A decoder's readers, by table and shape of message.

    `custom_of` gives the columns that are read specially.
    """

    def __init__(self, protocol: str, style: TextStyle, custom_of: CustomOf = lambda _, __: {}) -> None:
        self._protocol, self._style, self._custom_of = protocol, style, custom_of
        self._tables = Tables(_Table)
        #: The table of the last message; mostly the next one's, too.
        self._last = _Table(TableId("", ""))

    def changes(
        self,
        message: Message,
        op: Op,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        lossy: list[Lossy],
    ) -> list[Event]:
        """The row changes of a message, which must have rows."""
        last = self._last.id
        is_same = message.table == last.table and message.database == last.database
        table = self._last = self._last if is_same else self._tables[message.database, message.table]
        types, pk_names, commit_ts = bytes(message.mysql_type), message.pk_names, source.commit_ts
        is_newest = (
            commit_ts is not None and catalog is table.catalog and commit_ts > table.newest_commit_ts
        ) or table.is_newest(catalog, commit_ts, source.event_time_ns, record)
        emitted_at_ns = (message.ts or record.timestamp_ms) * 1_000_000
        changes: list[Event] = []
        for cells in message.data or ():
            index, names, old, has_gaps = len(changes), tuple(cells), None, False
            if not names:
                raise Malformed(self._protocol, f"data[{index}]", "a row without columns")
            if op is _UPDATE:
                old = _old(message, index, lossy)
                if old is not None and tuple(old) != names and not old.keys() <= cells.keys():
                    names += _only_in(old, cells)  # minimal row images: ABSENT in the new row
                    has_gaps = True
            # Most rows are newer than all DDL of their table, and the same types come with the same columns.
            found = table.lately.get(types) if is_newest else None
            if found is not None and found.wire.names != names:
                found = table.shapes.get((types, names))
            if found is None or found.known is not table.newest or found.wire.pk_names != pk_names:
                found = self._find(table, message, names, catalog, position(source, record))
                if is_newest and not found.codes:
                    table.keep_lately(types, names, found)
            if found.losses:
                lossy += found.losses
            if has_gaps and not found.is_partial:
                lossy.append(Lossy.COLUMNS_ABSENT)
            changes.append(
                RowChange(op, found.schema, TextRows(found, op, cells, old, index), source, emitted_at_ns)
            )
        return changes

    def _find(
        self, table: _Table, message: Message, names: tuple[str, ...], catalog: Catalog, at: Position
    ) -> RowReader:
        """The reader for rows with these columns in this message, compiled if there is none."""
        types = table.types(self._protocol, bytes(message.mysql_type))
        known = catalog.table(table.id, at)
        wire, codes = WireTable(table.id, names, types, message.pk_names), Codes(message)
        for found in table.kept:
            if (
                found.known is known
                and found.wire == wire
                and all(codes.get(name) == code for name, code in found.codes.items())
            ):
                return found
        codes.asked.clear()
        resolved = resolve(wire, known, codes)
        custom = self._custom_of(codes, types or {})
        made = RowReader(self._protocol, self._style, wire, known, resolved, custom, codes=codes.asked)
        table.keep(made, _CACHED_SHAPES)
        return made


class _Table(Table[RowReader]):
    def __init__(self, id: TableId) -> None:
        super().__init__(id)
        self._types: dict[bytes, Types] = {}
        #: Readers of the newest definition, by `mysqlType` and columns of the message, and for each
        #: `mysqlType` the one that was kept last: it needs no hash of the columns, and producers that leave
        #: columns out mostly leave out their types, too.
        self.shapes: dict[tuple[bytes, tuple[str, ...]], RowReader] = {}
        self.lately: dict[bytes, RowReader] = {}

    def types(self, protocol: str, text: bytes) -> Types:
        """The message's `mysqlType`. TiCDC shuffles its members, into some dozens of orders; each is parsed
        once, and equal ones are one object. Raises Malformed.
        """
        try:
            return self._types[text]
        except KeyError:
            pass
        try:
            types = _decode_types(text)
        except (msgspec.DecodeError, UnicodeDecodeError, RecursionError) as error:
            raise Malformed(protocol, "mysqlType", "not an object of type names") from error
        if len(self._types) >= _CACHED_ORDERS:
            self._types.clear()
        types = next((equal for equal in self._types.values() if equal == types), types)
        self._types[text] = types
        return types

    def keep_lately(self, types: bytes, names: tuple[str, ...], found: RowReader) -> None:
        """Remember the reader of a row that is newer than all DDL of its table."""
        if len(self.shapes) >= _CACHED_ORDERS:
            self.shapes.clear()
            self.lately.clear()
        self.shapes[types, names] = self.lately[types] = found


def _only_in(old: Cells, cells: Cells) -> tuple[str, ...]:
    # Apart, because a closure over `cells` where rows are read would cost every row.
    return tuple(name for name in old if name not in cells)


def _old(message: Message, index: int, lossy: list[Lossy]) -> Cells | None:
    """The row's entry of `old`. Canal up to 1.1.6 leaves empty entries out: then no row can be paired with
    certainty.
    """
    if message.old is not None and len(message.old) == len(message.data or ()):
        old = message.old[index]
        if old is not None:
            return old
    lossy.append(Lossy.BEFORE_UNKNOWN)
    return None
