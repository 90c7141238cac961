"""Rows of the Canal family, read: text cells and the definition that understands them.

Contract: a decoder keeps a row as the text cells that came (`TextRows`), together with the `TextReader` that
understands them, compiled once per table version and shape of message. The canonical values are made when
somebody asks for them. `TextReaders` is a decoder's cache and could be emptied at any time.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, Literal, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.canal.message import DELETE, INSERT, UPDATE, CanalMessage, Cells
from relay.codecs.losses import Lossy
from relay.codecs.wire.caches import columns_bytes
from relay.codecs.wire.compiled import UNNAMEABLE, is_due
from relay.codecs.wire.lenient_json import REFUSED
from relay.codecs.wire.rows import (
    NAMELESS,
    LazyRows,
    PartNames,
    Table,
    Tables,
    TypedReader,
    TypedRows,
    TypeInfo,
)
from relay.errors import Malformed
from relay.model import (
    ABSENT,
    Cell,
    Column,
    ColumnType,
    Event,
    Generated,
    Images,
    Op,
    Position,
    Row,
    RowChange,
    Source,
    TableId,
    TableSchema,
)
from relay.mysql.types import (
    BINARIES,
    FRACTIONAL,
    INTEGER_BITS,
    has_parameters,
    lacks_parameters,
    parse_type,
    with_implied_parameters,
)
from relay.mysql.values import Read, TextStyle, reader
from relay.records import ConsumerRecord

#: Readers of one table that are kept, one for each shape of its messages: full rows, deletes with the key
#: alone, minimal row images.
_CACHED_READERS: Final = 64
#: Texts of one table's `mysqlType` that are remembered; only one if it has more members than Go prints in few
#: orders, or is longer than most.
_CACHED_TEXTS: Final = 16
_FEW_MEMBERS: Final = 8
_LONG_TEXT: Final = 2048
#: Members up to which a struct finds those of any order sooner than a dictionary is made of them.
_MOST_CHECKED_MEMBERS: Final = 48
_CHECKER_BYTES: Final = 3_000
_CHECKED_MEMBER_BYTES: Final = 400

#: What a reader takes with the plans that encoders add to it, by column and beside, and what a table takes of
#: whatever definition it has, by column (measured with CPython 3.11).
_READER_BYTES: Final = 2_500
_COLUMN_BYTES: Final = 350
_DEFINED_COLUMN_BYTES: Final = 150
#: What the same takes again for targets with typed values, with what their encoders compile.
_TYPED_BYTES: Final = 3_000
_TYPED_COLUMN_BYTES: Final = 350

#: A message's `mysqlType`.
MysqlTypes = dict[str, str] | None
#: What differs for a codec's messages of one shape: their style, and the columns that are read in another way
#: than their type says; given a message's `sqlType` and what else it says of its table.
Spelling = tuple[TextStyle, dict[str, Read]]
SpellingOf = Callable[["SqlTypes", "WireTable"], Spelling]
#: Whether the text of `sqlType` may say that binary values are spelled in another way than mostly.
IsOdd = Callable[[bytes], object]

_decode_mysql_types = msgspec.json.Decoder(MysqlTypes).decode
_decode_sql_types = msgspec.json.Decoder(dict[str, int] | None, strict=False).decode


def parse_mysql_types(protocol: str, text: bytes | msgspec.Raw) -> MysqlTypes:
    """Parse a message's `mysqlType`. Raises Malformed."""
    try:
        types: MysqlTypes = _decode_mysql_types(text)
    except REFUSED as error:
        raise Malformed(protocol, "mysqlType", "not an object of type names") from error
    return types


def types_checker(types: Mapping[str, str]) -> Callable[[bytes], object] | None:
    """Return what takes an object of exactly these types, in any order, and raises one of `REFUSED` for other
    texts; None if there are none, too many for that to pay, or a name is none that a struct can have.

    It takes half the time of reading the types and comparing them.
    """
    if not 0 < len(types) <= _MOST_CHECKED_MEMBERS or any(map(UNNAMEABLE, types)):
        return None
    names = {f"f{at}": name for at, name in enumerate(types)}
    fields = [(field, Literal[types[name]]) for field, name in names.items()]
    struct = msgspec.defstruct("MysqlTypes", fields, rename=names, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(struct).decode


def are_full(types: MysqlTypes) -> bool:
    """Whether no type lacks parameters that it always has: `varchar`, `decimal` and so on are never bare."""
    return not any(map(_is_bare, (types or {}).values()))


def have_parameters(types: MysqlTypes) -> bool:
    """Whether any type has parameters."""
    return any("(" in text for text in (types or {}).values())


def _is_bare(text: str) -> bool:
    try:
        found = parse_type(text)
    except ValueError:
        return True
    return found.base not in FRACTIONAL and found.base != "bit" and lacks_parameters(found)


class SqlTypes:
    """A message's `sqlType`, parsed when it is first needed: mostly never, because `mysqlType` says all.

    `asked`: what was asked of it, and the answers.
    """

    def __init__(self, text: bytes | msgspec.Raw = b"null") -> None:
        self._text = text
        self._all: dict[str, int] | None = None
        self.asked: dict[str, int | None] = {}

    def get(self, name: str) -> int | None:
        """Return the number of a column; None if it has none, or `sqlType` makes no sense."""
        sql_type = self.asked[name] = self.all().get(name)
        return sql_type

    def all(self) -> dict[str, int]:
        """Return all numbers, without noting that they were asked for."""
        if self._all is None:
            self._all = self._parse()
        return self._all

    def _parse(self) -> dict[str, int]:
        try:
            return _decode_sql_types(self._text) or {}
        except REFUSED:
            return {}


class WireTable(msgspec.Struct, frozen=True):
    """What a message says of its table: the columns in their order, `mysqlType` and `pkNames`.

    `is_full`: its types have all their parameters, so that a bare `datetime` has no fraction.
    """

    id: TableId
    names: tuple[str, ...]
    mysql_types: MysqlTypes
    pk_names: list[str] | None
    is_full: bool = False

    def type_of(self, name: str) -> ColumnType | None:
        """Return the column's type as the message has it, None if it says none (or none of MySQL's)."""
        text = (self.mysql_types or {}).get(name)
        try:
            found = parse_type(text) if text else None
        except ValueError:
            return None
        return with_implied_parameters(found) if found is not None and self.is_full else found

    def types(self) -> list[ColumnType]:
        """Return the types that the message says."""
        return [declared for name in self.names if (declared := self.type_of(name)) is not None]


class Resolved(NamedTuple):
    """The definition that rows are read with: guessed from a message, or the catalogue's.

    `place_of`: where its columns stand, by their names in messages. `hidden`: its virtual generated columns.
    `texts`: binary columns that messages have as text, by those names.
    """

    schema: TableSchema
    is_guessed: bool
    place_of: Mapping[str, int]
    hidden: frozenset[str] = frozenset()
    texts: frozenset[str] = frozenset()


class TextReader:
    """Understands the cells of messages that have exactly these columns, types and keys.

    Compiled once per table version. `known` is the catalogue's definition, `resolved` the one to read with
    and whether it was guessed from the message. `custom`: columns whose text is read in another way than
    their type says. `sql_types`: the numbers of `sqlType` that all of this rests on, by column.
    """

    def __init__(  # noqa: PLR0913 - what a reader is made of
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
        self.schema, self.is_guessed, place_of, hidden, texts = resolved
        self.sql_types = sql_types or {}
        columns = self.schema.columns
        #: The columns that the message names as its key.
        self.named_key = tuple(
            [columns[place_of[name]].name if name in place_of else name for name in wire.pk_names or ()]
        )
        #: What encoders (`relay.codecs.canal.writing`) have compiled for these rows. It lives and dies with
        #: the reader.
        self.plans: dict[object, Any] = {}
        #: What a target without types or their parameters (`varchar(20)`) loses.
        self.type_info = TypeInfo(bool(wire.mysql_types), any(map(has_parameters, wire.types())))
        #: Where the message's columns stand in the table.
        self.places = tuple(place_of[name] for name in wire.names)
        #: Where columns stand that an image may have, ascending.
        self.possible_places = tuple(sorted(self.places))
        wire_names = {columns[at].name: name for name, at in zip(wire.names, self.places, strict=True)}
        #: The columns by which TiCDC knows an UPDATE of a key, by their names in messages.
        self.key_columns = [wire_names.get(name, name) for name in self.schema.key_columns()]
        #: Whether the cells have the table's names, and are spelled in the style but for `custom`.
        self.is_plain = not texts and all(name == wire_name for name, wire_name in wire_names.items())
        text_style = msgspec.structs.replace(style, read_binary=str.encode)
        self._reads = [
            (name, at, custom.get(name) or reader(columns[at].type, text_style if name in texts else style))
            for name, at in zip(wire.names, self.places, strict=True)
        ]
        self._reads_at: dict[tuple[int, ...], list[tuple[str, Read | None] | None]] = {}
        self._uses = 0
        #: What the wire calls images, where they are cells.
        self.parts = _PARTS
        #: Counts bytes that are kept from then on.
        self.charge: Callable[[int], None] | None = None
        #: The same cells in the order of the table, once it pays, and what takes them out of a message.
        self.typed: TypedReader | None = None
        self.cells_of: Callable[[Cells], Sequence[Any]] = tuple
        shown = sum([columns[at].name not in hidden for at in self.places])
        #: Whether there are columns that the message leaves out, and whether the table is known to have them.
        self.leaves_out = shown < len(columns) - len(hidden)
        self.is_partial = self.schema.complete and self.leaves_out
        #: What is counted for every row.
        self.losses: list[Lossy] = []
        #: What takes the reader's `mysqlType` in any order, and raises for others (`types_checker`), once it
        #: pays; and how many texts in new orders were read before that.
        self.check_types: Callable[[bytes], object] | None = None
        self.reordered_uses = 0
        if self.is_guessed:
            self.losses.append(Lossy.SCHEMA_GUESSED)
        if self.is_partial:
            self.losses.append(Lossy.COLUMNS_ABSENT)

    def row(self, cells: Cells, part: str) -> Row:
        """Return the canonical row; columns that the cells lack are ABSENT.

        Raises Malformed for a text that its type does not allow.
        """
        row: list[Cell] = [ABSENT] * len(self.schema.columns)
        for name, place, read in self._reads:
            text = cells.get(name, ABSENT)
            try:
                row[place] = text if read is None or not isinstance(text, str) else read(text)
            except (ValueError, ArithmeticError) as error:
                raise Malformed(self.protocol, f"{part}.{name}", str(error)) from error
        return tuple(row)

    def cells_at(self, places: Sequence[int], cells: Cells, part: str) -> list[Cell]:
        """Return the canonical row's cells at these places, and read no other. Raises like `row`.

        `places` are of the table, its key's for example: for each tuple of them something is kept.
        """
        places = tuple(places)
        wanted = self._reads_at.get(places)
        if wanted is None:
            read_at = {at: (name, read) for name, at, read in self._reads}
            wanted = self._reads_at[places] = [read_at.get(at) for at in places]
        return [ABSENT if one is None else self._cell(*one, cells, part) for one in wanted]

    def typed_reader(self) -> TypedReader | None:
        """Return `typed`, which is made when some rows have been written without."""
        self._uses += 1
        if not is_due(self._uses):
            return None
        self.cells_of = _getter(self.names_in_table_order())
        typed = self.in_table_order()
        if self.charge is not None:
            columns = [self.schema.columns[at] for at in typed.places]
            self.charge(_TYPED_BYTES + columns_bytes(columns, _TYPED_COLUMN_BYTES))
        self.typed = typed
        return typed

    def names_in_table_order(self) -> list[str]:
        """Return the message's columns in the order of the table, by their names in messages."""
        return [name for name, _, _ in sorted(self._reads, key=_place)]

    def in_table_order(self) -> TypedReader:
        """Return a reader of the same cells in the order of the table."""
        ordered = sorted(self._reads, key=_place)
        typed = TypedReader(
            self.protocol,
            self.schema,
            [at for _, at, _ in ordered],
            [read for _, _, read in ordered],
            self.parts,
            known=self.known,
        )
        typed.type_info, typed.named_key = self.type_info, self.named_key
        return typed

    def step(self, convert: Callable[[str], Any]) -> Callable[[Any], Any]:
        """Return what applies a conversion of text to text to a cell of these rows."""
        return convert

    def _cell(self, name: str, read: Read | None, cells: Cells, part: str) -> Cell:
        text = cells.get(name, ABSENT)
        try:
            return text if read is None or not isinstance(text, str) else read(text)
        except (ValueError, ArithmeticError) as error:
            raise Malformed(self.protocol, f"{part}.{name}", str(error)) from error


#: What the wire calls images. Errors are those of `TextRows`.
_PARTS: Final = PartNames("data", "old", "data")


def _place(read: tuple[str, int, Read | None]) -> int:
    return read[1]


def _getter(names: Sequence[str]) -> Callable[[Cells], Sequence[Any]]:
    """What takes the cells of these columns out of a row. Raises KeyError if it lacks one."""
    if len(names) == 1:
        (name,) = names
        return lambda cells: (cells[name],)
    return operator.itemgetter(*names)


class TextRows(LazyRows, frozen=True, eq=False, gc=False):
    """A change's images as the text that came.

    `cells` and `old` are the message's own `data` and `old` (None if it does not say) at `index`.
    """

    reader: TextReader
    op: Op
    cells: Cells
    old: Cells | None
    index: int

    @property
    def before(self) -> Row | None:
        """The row before the change: `old` laid over the new row. A column of `old` that is NULL was NULL."""
        if self.op is DELETE:
            return self.reader.row(self.cells, f"data[{self.index}]")
        if self.op is not UPDATE or self.old is None:
            return None
        return self.reader.row(self.cells | self.old, f"old[{self.index}]")

    @property
    def after(self) -> Row | None:
        """The row after the change."""
        return None if self.op is DELETE else self.reader.row(self.cells, f"data[{self.index}]")

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these places of one of the rows; no other is read."""
        if is_old is (self.op is DELETE):
            return self.reader.cells_at(places, self.cells, f"data[{self.index}]")
        if not is_old or self.op is not UPDATE or self.old is None:
            return None
        cells = self.cells | self.old if places else self.cells
        return self.reader.cells_at(places, cells, f"old[{self.index}]")

    def surely_keeps_keys(self) -> bool:
        """Return whether `old` lacks the key columns or has the text of the new row."""
        old, cells = self.old, self.cells
        if old is None:
            return True
        for name in self.reader.key_columns:
            if name in old and (name not in cells or old[name] != cells[name]):
                return False
        return True

    def typed(self, *, has_before: bool) -> TypedRows | None:
        """The same rows, if the row has all columns of its reader, which has met some rows before."""
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

    def halves(self) -> tuple[Images, Images]:
        """Return the old row and the new row, still as text if both have all columns of their reader."""
        old, cells = self.old, self.cells
        if old is None or not old.keys() <= cells.keys():
            return LazyRows.halves(self)
        new = TextRows(self.reader, INSERT, cells, None, self.index)
        return _OldText(self.reader, DELETE, cells | old, None, self.index), new

    @property
    def named_key(self) -> tuple[str, ...]:
        """The columns of `pkNames`."""
        return self.reader.named_key

    @property
    def possible_places(self) -> tuple[int, ...]:
        """The reader's."""
        return self.reader.possible_places


class _OldText(TextRows, frozen=True, eq=False, gc=False):
    """The old row of an update as images of its own."""

    @property
    def before(self) -> Row | None:
        """The row before the change."""
        return self.reader.row(self.cells, f"old[{self.index}]")

    def cells_at(self, places: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return the cells at these places; no other is read."""
        return self.reader.cells_at(places, self.cells, f"old[{self.index}]") if is_old else None


# ---------------------------------------------------------------- definitions


class Definition:
    """What the catalogue knows of a table, with the key that a message names: made once for all its rows.

    `is_druid`: the messages have names and types as Canal's parser of DDL, Druid, leaves them: back-ticks
    inside names doubled, and text types for columns that CHARACTER SET binary makes binary.
    """

    def __init__(
        self, known: TableSchema | None, pk_names: list[str] | None, *, is_druid: bool = False
    ) -> None:
        self.known, self.pk_names, self._is_druid = known, pk_names, is_druid
        self._columns: dict[str, Column] = {}
        self._resolved: Resolved | None = None
        if known is not None:
            place_of = {column.name: at for at, column in enumerate(known.columns)}
            if is_druid:
                place_of = {name.replace("`", "``"): at for name, at in place_of.items()} | place_of
            self._columns = {name: known.columns[at] for name, at in place_of.items()}
            hidden = [column.name for column in known.columns if column.generated is Generated.VIRTUAL]
            schema = _with_named_key(known, self._named_key())
            self._resolved = Resolved(schema, False, place_of, frozenset(hidden))

    def ordered(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of a row: in the table's order as they are, in any other order reversed from it.

        So all orders are read alike. Of a table that is not known each order makes another definition.
        """
        in_order = self.in_order(names)
        return names if in_order == names else in_order[::-1]

    def in_order(self, names: tuple[str, ...]) -> tuple[str, ...]:
        """Return the columns of a row in the table's order; as they are if not all of them are known."""
        if self._resolved is None or not self._columns.keys() >= set(names):
            return names
        return tuple(sorted(names, key=self._resolved.place_of.__getitem__))

    def resolved(self, wire: WireTable, sql_types: SqlTypes) -> Resolved:
        """Return the definition to read a message's rows with.

        It is the catalogue's, if that does not contradict the message; else one made of the message's own
        words, with the parameters of those catalogue columns that still fit.
        """
        columns = self._columns
        types = {name: wire.type_of(name) for name in wire.names}
        texts: frozenset[str] = frozenset()
        if self._is_druid:
            texts = frozenset(name for name in types if _is_text_for_bytes(columns.get(name), types[name]))
        if self._resolved is not None and all(
            name in texts or (name in columns and _agrees(columns[name], types[name])) for name in wire.names
        ):
            return self._resolved._replace(texts=texts) if texts else self._resolved
        made = [
            columns[name] if name in texts else _made_column(name, columns.get(name), types[name], sql_types)
            for name in wire.names
        ]
        if self._is_druid:
            made = _with_own_names(made)
        named_key = self._named_key()
        key = None if named_key is None else tuple(named_key)
        schema = TableSchema(wire.id, tuple(made), primary_key=key, complete=False)
        return Resolved(schema, True, {name: at for at, name in enumerate(wire.names)}, texts=texts)

    def _named_key(self) -> list[str] | None:
        """Return `pk_names` by the table's own names of the columns."""
        if self.pk_names is None or not self._is_druid:
            return self.pk_names
        columns = self._columns
        return [columns[name].name if name in columns else _undoubled(name) for name in self.pk_names]


def _undoubled(name: str) -> str:
    return name.replace("``", "`")


def _with_own_names(columns: list[Column]) -> list[Column]:
    """Columns of a table that is not known, without the doubling of back-ticks; as they are where two would
    have one name.
    """
    named = [msgspec.structs.replace(column, name=_undoubled(column.name)) for column in columns]
    return named if len({column.name for column in named}) == len(columns) else columns


def _is_text_for_bytes(known: Column | None, declared: ColumnType | None) -> bool:
    """Whether a message has a binary column as text: VARCHAR(9) CHARACTER SET binary is VARBINARY(9)."""
    if known is None or declared is None or _BINARY_TWINS.get(declared.base) != known.type.base:
        return False
    return declared.length == known.type.length or declared.base not in {"char", "varchar"}


_BINARY_TWINS: Final = {
    "char": "binary", "varchar": "varbinary", "tinytext": "tinyblob", "text": "blob",
    "mediumtext": "mediumblob", "longtext": "longblob",
}  # fmt: skip


def _with_named_key(known: TableSchema, pk_names: list[str] | None) -> TableSchema:
    """The definition with the key that a message names; if that is another one, it is guessed: no statement
    has told it.
    """
    if pk_names is None or (known.primary_key is not None and set(pk_names) == set(known.primary_key)):
        return known
    return msgspec.structs.replace(known, primary_key=tuple(pk_names), complete=False)


def _agrees(column: Column, declared: ColumnType | None) -> bool:
    """Return whether the message's type can mean the catalogue's column. Bare words leave parameters open."""
    known = column.type
    if declared is None:
        return True
    if declared.base != known.base or declared.unsigned != known.unsigned:
        return False
    if declared.members is not None and known.members is not None:
        return declared.members == known.members
    if declared.length is None or known.length is None or known.base in INTEGER_BITS or known.base == "year":
        return True
    if not declared.length and known.base in FRACTIONAL:
        return True  # producers that look alike write bare words
    return declared.length == known.length and declared.scale == known.scale


def _made_column(name: str, known: Column | None, declared: ColumnType | None, sql_types: SqlTypes) -> Column:
    if known is not None and _agrees(known, declared):
        return known
    return Column(name, declared or ColumnType(_BASES.get(sql_types.get(name) or 0, "varchar")))


#: What a `sqlType` number says where `mysqlType` says nothing (Canal without a table's definition); several
#: types share a number.
_BASES: Final = {
    -7: "bit", -6: "tinyint", -5: "bigint", 1: "char", 3: "decimal", 4: "int", 5: "smallint", 7: "float",
    8: "double", 91: "date", 92: "time", 93: "datetime", 2004: "blob", 2005: "text",
}  # fmt: skip

# ---------------------------------------------------------------- decoder's cache


class TextReaders:
    """A decoder's readers, by table and shape of message.

    `is_full` tells whether a message's types have all their parameters, `spelling_of` what else than the
    style is to be known of a message's values, `is_odd` for which texts of `sqlType` that has to be asked,
    `is_druid` how names and types are told (`Definition`).
    """

    def __init__(  # noqa: PLR0913 - how one protocol's messages are told from another's
        self,
        protocol: str,
        style: TextStyle,
        is_full: Callable[[MysqlTypes], bool],
        spelling_of: SpellingOf | None = None,
        is_odd: IsOdd | None = None,
        *,
        is_druid: bool = False,
        most_bytes: int,
    ) -> None:
        self._protocol = protocol
        spelling = spelling_of or (lambda _, __: (style, {}))

        def made(id: TableId) -> _TableReaders:
            table = _TableReaders(id, protocol, is_full, spelling, self._tables)
            table.is_odd, table.is_druid = is_odd, is_druid
            return table

        self._tables = Tables(made, most_bytes)
        # The table of the last message; mostly the next one's, too. At first none that there is.
        self._last = made(TableId("", "\0"))

    def changes(  # noqa: C901 - what is called here is called for every row
        self,
        message: CanalMessage,
        op: Op,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        lossy: list[Lossy],
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
        ts = message.ts
        emitted_at_ns = ts * 1_000_000 if ts else message.emitted_at_ns(record)
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
                    lossy.append(Lossy.BEFORE_UNKNOWN)
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
            lossy += reader.losses
            if has_gaps and not reader.is_partial:
                lossy.append(Lossy.COLUMNS_ABSENT)
            images = TextRows(reader, op, cells, old, index)
            changes.append(RowChange(op, reader.schema, images, source, emitted_at_ns))
        return changes


def _definition(catalog: Catalog, table: TableId, at: Position) -> TableSchema | None:
    """The definition as of a row's position. Canal's times have whole seconds: of a table that was made in
    the row's, by a statement in another partition, it is the one that was made.
    """
    return catalog.table(table, at) or catalog.of_moment(table, at)


def _only_in(old: Cells, cells: Cells) -> tuple[str, ...]:
    # Apart, because a closure over `cells` where rows are read would cost every row.
    return tuple(name for name in old if name not in cells)


class _Shapes:
    """The readers of one message whose rows have different columns, beside the first row's."""

    def __init__(
        self, table: _TableReaders, wire: WireTable, known: TableSchema | None, message: CanalMessage
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


class _TableReaders(Table[TextReader]):
    """A table's readers."""

    #: For which texts of `sqlType` the spelling of binary values is to be asked; None if for none.
    is_odd: IsOdd | None = None
    is_druid = False

    def __init__(
        self,
        id: TableId,
        protocol: str,
        is_full: Callable[[MysqlTypes], bool],
        spelling_of: SpellingOf,
        tables: Tables[_TableReaders],
    ) -> None:
        super().__init__(id)
        self._tables = tables
        self._protocol, self._is_full, self._spelling_of = protocol, is_full, spelling_of
        # Readers of rows that are newer than all DDL of the table. First by the text of `mysqlType`, which is
        # the same again from Canal, and from TiCDC for narrow tables: it prints a map, and Go gives the
        # members of a wider one a new order each time. Then by columns, comparing the types.
        self._by_types: dict[bytes, TextReader] = {}
        self._by_names: dict[tuple[str, ...], TextReader] = {}
        # Whether the members of `mysqlType` were seen in two orders: then its text tells nothing.
        self._is_shuffled = False
        # `is_odd`, once rows with binary values were met.
        self._is_odd: IsOdd | None = None
        self._definition: Definition | None = None

    def forget(self) -> None:
        """Forget what was compiled, and the definition."""
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
        # Those that were kept are for rows that are newest and spelled as most are.
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
        """Return the kept reader for these columns, if `mysqlType` says what it said, in whatever order.
        Raises Malformed.
        """
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
        """Note another order of the members for which a reader is right."""
        mysql_types = reader.wire.mysql_types or {}
        if not self._is_shuffled:
            self._keep_text(types, mysql_types, reader, is_reordered=True)
            return
        reader.reordered_uses += 1
        if is_due(reader.reordered_uses):
            reader.check_types = types_checker(mysql_types)
            if reader.check_types is not None:
                self._tables.charge(self, _CHECKER_BYTES + _CHECKED_MEMBER_BYTES * len(mysql_types))

    def _keep_text(
        self, types: bytes, mysql_types: MysqlTypes, reader: TextReader, *, is_reordered: bool
    ) -> None:
        """Keep the text of `mysqlType` that stands for a reader; none from a wide table whose members come in
        another order than before.
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
        """Return the reader for such messages, compiled if there is none; `types_bytes`: of `mysqlType`."""
        definition = self._definition
        if definition is None or definition.known is not known or definition.pk_names != wire.pk_names:
            definition = Definition(known, wire.pk_names, is_druid=self.is_druid)
            if known is not None and self._definition is None:
                self._tables.charge(self, _DEFINED_COLUMN_BYTES * len(known.columns))
            self._definition = definition
        wire = msgspec.structs.replace(wire, names=definition.ordered(wire.names))
        spelling = self._spelling_of(sql_types, wire)
        for found in self.kept:
            if (
                found.known is known
                and found.wire == wire
                and (found.style, found.custom) == spelling
                and all(sql_types.get(name) == sql_type for name, sql_type in found.sql_types.items())
            ):
                return found
        sql_types.asked.clear()  # the new reader rests on what is asked from here on
        resolved = definition.resolved(wire, sql_types)
        style, custom = self._spelling_of(sql_types, wire)
        made = TextReader(
            self._protocol, style, wire, known, resolved, custom, sql_types=dict(sql_types.asked)
        )
        columns = [made.schema.columns[at] for at in made.places]
        if any(one.type.base in BINARIES for one in columns):
            self._is_odd = self.is_odd
        if len(self.kept) >= _CACHED_READERS:
            self._by_names.clear()
            self._by_types.clear()
        # Of `mysqlType` both the text and what was read of it are kept.
        size = _READER_BYTES + columns_bytes(columns, _COLUMN_BYTES)
        size += 2 * types_bytes + sum(map(len, wire.names))
        self._tables.keep(self, made, size, _CACHED_READERS)
        made.charge = functools.partial(self._tables.charge, self)
        return made
