"""Rows of Open Protocol, read: `{"u": {column: {"t", "h", "f", "v"}}}`, `p` and `d`.

Contract: a row whose columns, codes and flags are those of a message before is parsed in one step into a
struct that was compiled for them (`_Shape`): the JSON parser itself checks every code and flag. Everything
else takes the general way, which finds the definition, compiles a shape for the next message, and says
exactly what is wrong with a malformed one.
"""

from __future__ import annotations

import functools
import operator
from collections.abc import Callable, Mapping
from datetime import tzinfo
from types import NoneType
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from relay.catalog import Catalog
from relay.codecs.losses import Lossy
from relay.codecs.open_protocol.columns import is_base64, is_wide, read_of, wire_type
from relay.codecs.open_protocol.definitions import Said, resolved
from relay.codecs.open_protocol.frames import NAME
from relay.codecs.open_protocol.nameless import with_names
from relay.codecs.wire.compiled import MOST_COLUMNS, UNNAMEABLE
from relay.codecs.wire.lenient_json import read_base64, with_negative_zeros
from relay.codecs.wire.rows import PartNames, RowReader, Table, Tables, TypedRows
from relay.errors import Malformed
from relay.model import ABSENT, ColumnType, Images, Op, Position, Row, Rows, Source, TableSchema
from relay.records import ConsumerRecord

_PARTS: Final = PartNames(deleted="d", old="p", new="u")
#: Shapes of one table's rows that are kept ready: full rows, deletes with the key alone, versions of the
#: definition.
_CACHED_SHAPES: Final = 32

_INSERT: Final = Op.INSERT
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE


class _Cell(msgspec.Struct, gc=False):
    t: int
    v: Any
    f: int | None = None
    h: Any = None


class _Value(msgspec.Struct, gc=False):
    """A row's value segment. `p` is looked at later: TiCDC may write it without column names."""

    u: dict[str, _Cell] | None = None
    d: dict[str, _Cell] | None = None
    p: msgspec.Raw = msgspec.Raw(b"null")


_decode_value = msgspec.json.Decoder(_Value).decode
_decode_cells = msgspec.json.Decoder(dict[str, _Cell] | None).decode
_REFUSED: Final = (msgspec.MsgspecError, UnicodeDecodeError, RecursionError)

#: What a row's value segment says: what happened, the definition it was read with, and the images.
Found = tuple[Op, TableSchema, Images]


class _Missing:
    """Stands for the cell of a column that an old image leaves out."""

    v = ABSENT


_MISSING: Final = _Missing()


class _Shape:
    """Rows with exactly these columns, codes and flags, of one table version."""

    def __init__(self, reader: RowReader, said: dict[str, Said]) -> None:
        self.reader, self.said = reader, said
        self.names = [reader.schema.columns[at].name for at in reader.places]
        self._is_partial_old = False
        #: What tells the order of columns where nothing else does: no text holds such bytes, its quotes are
        #: escaped.
        self._marks = (
            [msgspec.json.encode(name) + b':{"t":' for name in self.names] if reader.is_guessed else ()
        )
        self._has_floats = any(wire_type(reader.schema.columns[at].type) is float for at in reader.places)
        self._full: Callable[[bytes], Any] | None = None
        types = {at: reader.schema.columns[at].type for at in reader.places}
        flags = [-1 if one is None else one for _, one, _ in said.values()]
        if min(flags) >= 0 and max(flags) < _LITERAL_END and not any(map(UNNAMEABLE, said)):
            placed = zip(self.names, self.reader.places, strict=True)
            self._compile(
                [
                    _cell_class(*said[name][:2], _parsed_type(types[at]), is_wide(types[at]))
                    for name, at in placed
                ]
            )

    def _compile(self, cells: list[Any]) -> None:
        fields = [f"f{at}" for at in range(len(cells))]
        names = dict(zip(fields, self.names, strict=True))
        row = _struct("Row", list(zip(fields, cells, strict=True)), names)
        old = _struct(
            "Old", [(field, cell, _MISSING) for field, cell in zip(fields, cells, strict=True)], names
        )
        self._full = msgspec.json.Decoder(_value_struct(row, row)).decode
        self._partial = msgspec.json.Decoder(_value_struct(row, old)).decode
        self._values = _values_function(len(fields))

    def read(self, data: bytes) -> Found | None:
        """The row, if it is of this shape."""
        if self._full is None or (self._marks and not self._is_in_order(data)):
            return None
        if self._has_floats and data.find(b"-0") >= 0:
            data = with_negative_zeros(data)
        try:
            value = (self._partial if self._is_partial_old else self._full)(data)
        except _REFUSED:
            value = self._with_partial_old(data)
        new, reader = value.u, self.reader
        if new is None or value.d is not None:
            if new is not None or value.d is None or value.p is not None:
                return None
            return _DELETE, reader.schema, TypedRows(reader, self._values(value.d), None)
        cells, old = self._values(new), value.p
        if old is None:
            return _INSERT, reader.schema, TypedRows(reader, None, cells)
        before = self._values(old)
        if self._is_partial_old:
            before = tuple([now if was is ABSENT else was for was, now in zip(before, cells, strict=True)])
        return _UPDATE, reader.schema, TypedRows(reader, before, cells)

    def _is_in_order(self, data: bytes) -> bool:
        """Whether the row's columns, those of its new image or of what was deleted, have the order of the
        guessed definition.
        """
        at = 0 if data.startswith((b'{"u":{', b'{"d":{')) else max(data.find(b'"u":{'), data.find(b'"d":{'))
        end = data.find(b'},"p":{', at)
        for mark in self._marks:
            at = data.find(mark, at, end if end >= 0 else len(data))
            if at < 0:
                return False
        return True

    def _with_partial_old(self, data: bytes) -> Any:  # noqa: ANN401 - a class made at run time
        """The value if its old image lacks columns, which then is to be expected of the next ones; one
        without images if not.
        """
        if self._is_partial_old:
            return _NOTHING
        try:
            value = self._partial(data)
        except _REFUSED:
            return _NOTHING
        self._is_partial_old = True
        return value


@functools.lru_cache(maxsize=4096)
def _values_function(count: int) -> Callable[[Any], tuple[Any, ...]]:
    """The function that takes the values out of a row's struct, `return row.f0.v, row.f1.v,`: half of an
    attrgetter's time.
    """
    if count > MOST_COLUMNS:
        values = operator.attrgetter(*[f"f{at}.v" for at in range(count)])
        return cast("Callable[[Any], tuple[Any, ...]]", values)
    scope: dict[str, Any] = {}
    exec(f"def values(row):\n    return {' '.join(f'row.f{at}.v,' for at in range(count))}", scope)  # noqa: S102 - made of numbers
    return cast("Callable[[Any], tuple[Any, ...]]", scope["values"])


#: A value segment that is not of the shape.
_NOTHING: Final = _Value()
#: What the parser can compare numbers with.
_LITERAL_END: Final = 1 << 63


def _parsed_type(column_type: ColumnType) -> type:
    """What the parser makes of the column's value."""
    return bytes if is_base64(column_type) else wire_type(column_type)


@functools.lru_cache(maxsize=4096)
def _cell_class(code: int, flags: int, kind: type, wide: bool) -> Any:  # noqa: ANN401 - a class made at run time
    """A column's cell: this code, these flags, and a value of this kind, or NULL."""
    value: Any = kind
    if kind is int:
        value = int if wide else Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    return msgspec.defstruct(
        "Cell", [("t", Literal[code]), ("f", Literal[flags]), ("v", value | None)], gc=False
    )


def _struct(name: str, fields: list[Any], names: Mapping[str, str]) -> Any:  # noqa: ANN401 - a class made at run time
    return msgspec.defstruct(name, fields, rename=names, forbid_unknown_fields=True, gc=False)


def _value_struct(row: Any, old: Any) -> Any:  # noqa: ANN401 - classes made at run time
    return msgspec.defstruct(
        "Value", [("u", row | None, None), ("p", old | None, None), ("d", row | None, None)], gc=False
    )


class RowReaders:
    """A decoder's shapes, by table. It is a cache and could be emptied at any time."""

    def __init__(self, zone: tzinfo) -> None:
        self._zone = zone
        self._tables: Tables[Table[_Shape]] = Tables(Table)
        self.forget = self._tables.forget

    def read(
        self,
        name: tuple[str, str],
        data: bytes,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        lossy: list[Lossy],
    ) -> Found:
        """A row's value segment, of the table with this database and name. Raises Malformed and
        UnsupportedMessage.
        """
        table, commit_ts = self._tables[name], source.commit_ts or 0
        # Most rows come after all DDL that is known of their table.
        if (catalog is table.catalog and commit_ts > table.newest_commit_ts) or table.is_newest(
            catalog, source.commit_ts, source.event_time_ns, record
        ):
            known = table.newest
        else:
            at = Position(
                source.commit_ts, source.event_time_ns, record.topic, record.partition, record.offset
            )
            known = catalog.table(table.id, at)
        for shape in table.kept:
            reader = shape.reader
            if reader.known is known:
                found = shape.read(data)
                if found is not None:
                    if reader.is_guessed or reader.is_partial:
                        _count(reader, lossy)
                    return found
        return _General(table, known, self._zone, lossy).read(data)


def _count(reader: RowReader, lossy: list[Lossy]) -> None:
    if reader.is_guessed:
        lossy.append(Lossy.SCHEMA_GUESSED)
    if reader.is_partial:
        lossy.append(Lossy.COLUMNS_ABSENT)


class _General:
    """The general way of one row: any columns, codes and flags."""

    def __init__(
        self, table: Table[_Shape], known: TableSchema | None, zone: tzinfo, lossy: list[Lossy]
    ) -> None:
        self._table, self._known, self._zone, self._lossy = table, known, zone, lossy

    def read(self, data: bytes) -> Found:
        value = self._parsed(with_negative_zeros(data))
        is_update = bytes(value.p) != b"null"
        if (value.d is None) == (value.u is None) or (value.d is not None and is_update):
            raise Malformed(NAME, "value", "a row has either `u`, with or without `p`, or `d`")
        old = self._old(value)
        new = value.u if value.d is None else value.d
        if not new:
            raise Malformed(NAME, "value", "a row without columns")
        cells = (
            new if old is None else {**new, **{name: cell for name, cell in old.items() if name not in new}}
        )
        shape = self._shape(
            {name: (cell.t, cell.f, cell.f is None and bool(cell.h)) for name, cell in cells.items()}
        )
        _count(shape.reader, self._lossy)
        if value.d is not None:
            return _DELETE, shape.reader.schema, self._images(shape, new, None)
        before = None if old is None else {**new, **old}
        return _UPDATE if is_update else _INSERT, shape.reader.schema, self._images(shape, before, new)

    def _parsed(self, data: bytes) -> _Value:
        try:
            data.decode()
        except UnicodeDecodeError:
            self._lossy.append(Lossy.INVALID_TEXT)
            data = data.decode("utf-8", "replace").encode()
        try:
            return _decode_value(data)
        except _REFUSED as error:
            raise _malformed(data, error) from error

    def _old(self, value: _Value) -> dict[str, _Cell] | None:
        """`p`; None if there is none, or if nobody can tell which columns its cells belong to (counted)."""
        old: dict[str, _Cell] | None
        try:
            old = _decode_cells(value.p)
        except _REFUSED as error:
            nulls = [(name, (cell.t, cell.f)) for name, cell in (value.u or {}).items() if cell.v is None]
            try:
                old = msgspec.convert(with_names(bytes(value.p), nulls), dict[str, _Cell] | None)
            except (ValueError, *_REFUSED):
                raise _malformed(b'{"p":%b}' % bytes(value.p), error) from error
            if old is None:
                self._lossy.append(Lossy.BEFORE_UNKNOWN)
        return old

    def _shape(self, said: dict[str, Said]) -> _Shape:
        table = self._table
        for shape in table.kept:
            reader = shape.reader
            if (
                reader.known is self._known
                and shape.said == said
                and (not reader.is_guessed or [*shape.said] == [*said])
            ):
                return shape
        schema = resolved(table.id, said, self._known)
        place = {column.name: at for at, column in enumerate(schema.columns)}
        names = sorted(said, key=place.__getitem__)
        types = [schema.columns[place[name]].type for name in names]
        reads = [
            read_of(type_, self._zone, said[name][0], is_legacy=said[name][1] is None)
            for name, type_ in zip(names, types, strict=True)
        ]
        reader = RowReader(NAME, schema, [place[name] for name in names], reads, _PARTS, known=self._known)
        made = _Shape(reader, said)
        table.keep(made, _CACHED_SHAPES)
        return made

    def _images(self, shape: _Shape, old: dict[str, _Cell] | None, new: dict[str, _Cell] | None) -> Images:
        before, after = self._cells(shape, old, "p" if new else "d"), self._cells(shape, new, "u")
        if ABSENT in (before or ()) or ABSENT in (after or ()):
            if not shape.reader.is_partial:
                self._lossy.append(Lossy.COLUMNS_ABSENT)
            return Rows(_row(shape.reader, before, "p"), _row(shape.reader, after, "u"))
        return TypedRows(shape.reader, before, after)

    def _cells(self, shape: _Shape, cells: dict[str, _Cell] | None, part: str) -> tuple[Any, ...] | None:
        if cells is None:
            return None
        columns = shape.reader.schema.columns
        found = []
        for name, at in zip(shape.names, shape.reader.places, strict=True):
            cell, column_type = cells.get(name), columns[at].type
            value = ABSENT if cell is None else _checked(cell.v, column_type, f"{part}.{name}.v")
            found.append(_decoded(value) if type(value) is str and is_base64(column_type) else value)
        return tuple(found)


def _row(reader: RowReader, cells: tuple[Any, ...] | None, part: str) -> Row | None:
    return None if cells is None else reader.row(cells, part)


def _checked(value: object, column_type: ColumnType, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """The value, if it has the JSON type of its column."""
    kind = wire_type(column_type)
    if value is None or type(value) is kind:
        if type(value) is int and not -(1 << 63) <= value < 1 << 64:
            raise Malformed(NAME, path, "a number beyond 64 bits")
        return value
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Malformed(NAME, path, "a number beyond the range of DOUBLE") from None
    raise Malformed(NAME, path, f"not {_JSON_TYPES[kind]}, as its type code says")


def _decoded(text: str) -> bytes | str:
    """What the base64 stands for; the text itself if it is none, which is refused when somebody reads it."""
    try:
        return read_base64(text)
    except ValueError:
        return text


_JSON_TYPES: Final[dict[type, str]] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    NoneType: "null",
}


def _malformed(data: bytes, error: Exception) -> Malformed:
    """The parser's complaint about a value segment, with the column's name; it quotes no values."""
    try:
        parts = _decode_parts(data)
    except _REFUSED:
        return _complaint("value", error)
    for part, cells in parts.items():
        for name, cell in (cells or {}).items() if part in _PARTS_NAMES else ():
            try:
                _decode_cell(cell)
            except _REFUSED as found:
                return _complaint(f"{part}.{name}", found)
    return _complaint("value", error)


_PARTS_NAMES: Final = frozenset({"u", "p", "d"})
_decode_parts = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw] | None]).decode
_decode_cell = msgspec.json.Decoder(_Cell).decode


def _complaint(path: str, error: Exception) -> Malformed:
    if isinstance(error, UnicodeDecodeError):
        return Malformed(NAME, path, "not UTF-8")
    reason, _, where = str(error).partition(" - at `$")
    where = where.rstrip("`").lstrip(".")
    return Malformed(NAME, f"{path}.{where}" if where else path, reason)
