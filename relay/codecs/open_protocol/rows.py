"""Reading rows of Open Protocol: `{"u": {column: {"t", "h", "f", "v"}}}`, `p` and `d`.

`OpenProtocolRowDecoder` keeps layouts by table. A row with the columns, codes and flags of an earlier message
is parsed in one step into a struct compiled for them (`_Layout`): the JSON parser itself checks every code
and flag. Everything else takes the general path, which finds the definition, makes a layout for the next
message, and reports the exact error of a malformed one.
"""

from __future__ import annotations

import functools
import json
import math
import operator
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import tzinfo
from types import NoneType
from typing import Annotated, Any, Final, Literal, cast

import msgspec
from msgspec import Meta

from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.codecs.open_protocol.definitions import ColumnFlags, resolved
from relay.codecs.open_protocol.frames import NAME
from relay.codecs.open_protocol.values import is_base64, is_wide, read_of, wire_type
from relay.codecs.shared.base64_text import try_base64
from relay.codecs.shared.caches import columns_bytes
from relay.codecs.shared.compiled import MAX_COLUMNS, UNNAMEABLE, is_due
from relay.codecs.shared.lenient_json import REFUSED, complaint, with_negative_zeros
from relay.codecs.shared.local_times import LocalTimes, is_local_time
from relay.codecs.shared.rows import PartialRows, PartNames, TypedReader, TypedRows
from relay.codecs.shared.tables import Columns, Table, Tables
from relay.codecs.shared.unknown_members import MessageParser, OpenMessage, Unknown, merged
from relay.model.errors import Malformed
from relay.model.events import ABSENT, ColumnType, Images, Op, Source, TableSchema
from relay.model.limits import DEFAULT_LIMITS, Limits, check_columns
from relay.model.records import ConsumerRecord

_PARTS: Final = PartNames(deleted="d", old="p", new="u", value=".v")
#: Maximum layouts kept per table: full rows, deletes with the key alone, versions of the definition.
_CACHED_LAYOUTS: Final = 32
#: Memory of a layout, with the functions of an encoder that write its rows: 29 KB with 12 columns, 330 KB
#: with 200 (measured with CPython 3.11).
_LAYOUT_BYTES: Final = 12_000
_COLUMN_BYTES: Final = 1_900

_INSERT: Final = Op.INSERT
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE


class _ColumnCell(msgspec.Struct, gc=False):
    t: int
    v: Any
    f: int | None = None
    h: msgspec.Raw = msgspec.Raw(b"null")


class _Value(OpenMessage, gc=False):
    """A row's value segment. `p` is parsed later: TiCDC may write it without column names."""

    u: dict[str, _ColumnCell] | None = None
    d: dict[str, _ColumnCell] | None = None
    p: msgspec.Raw = msgspec.Raw(b"null")


class _OldRowMessage(OpenMessage, gc=False):
    """The old row of an UPDATE."""

    p: dict[str, _ColumnCell] | None


_parse_value: Final = MessageParser(_Value).parse
_OLD: Final = MessageParser(_OldRowMessage)

#: The content of a row's value segment: the operation, the definition it was read with, the images, and
#: members that the protocol does not define.
ReadRow = tuple[Op, TableSchema, Images, Unknown | None]
#: Reads a value segment, like `OpenProtocolRowDecoder.read`.
ReadValue = Callable[[tuple[str, str], bytes, Source, ConsumerRecord, Catalog, list[Loss]], ReadRow]

# ---------------------------------------------------------------- layouts


class _Missing:
    """Marks the cell of a column that an old image lacks."""

    v = ABSENT


_MISSING: Final = _Missing()


class _Layout:
    """Rows with exactly these columns, codes and flags, of one table version. Compiled after some rows had
    them: compiling takes memory and the time of reading ten rows on the general path.
    """

    def __init__(self, reader: TypedReader, declared: dict[str, ColumnFlags]) -> None:
        self.reader, self.declared = reader, declared
        columns = [reader.schema.columns[at] for at in reader.indexes]
        self.names = [column.name for column in columns]
        self._is_partial_old = False
        #: Bytes that show the order of columns if nothing else does: no text contains them, because its
        #: quotes are escaped.
        self._marks = (
            [msgspec.json.encode(name) + b':{"t":' for name in self.names] if reader.is_inferred else ()
        )
        self._has_floats = any(wire_type(column.type) is float for column in columns)
        self._full: Callable[[bytes], Any] | None = None
        self._uses = 0

    def count_use(self) -> None:
        """Count a row that was read on the general path; compile after some, if a struct can hold it."""
        self._uses += 1
        if not is_due(self._uses):
            return
        declared = self.declared
        columns = [self.reader.schema.columns[at] for at in self.reader.indexes]
        flags = [-1 if one.flags is None else one.flags for one in declared.values()]
        if min(flags) >= 0 and max(flags) < _LITERAL_END and not any(map(UNNAMEABLE, declared)):
            cells = []
            for column in columns:
                code, literal, _ = declared[column.name]
                cells.append(_cell_class(code, literal, _parsed_type(column.type), is_wide(column.type)))
            self._compile(cells)

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

    def read(self, data: bytes) -> ReadRow | None:
        """Return the row, if it has this layout."""
        if self._full is None or (self._marks and not self._is_in_order(data)):
            return None
        if self._has_floats and data.find(b"-0") >= 0:
            data = with_negative_zeros(data)
        try:
            value = (self._partial if self._is_partial_old else self._full)(data)
        except REFUSED:
            value = self._with_partial_old(data)
        new, reader, values = value.u, self.reader, self._values
        if new is None or value.d is not None:
            if new is not None or value.d is None or value.p is not None:
                return None
            return _DELETE, reader.schema, TypedRows(reader, values(value.d), None), None
        cells, old = values(new), value.p
        if old is None:
            return _INSERT, reader.schema, TypedRows(reader, None, cells), None
        before = values(old)
        if self._is_partial_old:
            before = tuple([now if was is ABSENT else was for was, now in zip(before, cells, strict=True)])
        return _UPDATE, reader.schema, TypedRows(reader, before, cells), None

    def _is_in_order(self, data: bytes) -> bool:
        """Return whether the row's columns (new or deleted image) have the inferred definition's order."""
        at = 0 if data.startswith((b'{"u":{', b'{"d":{')) else max(data.find(b'"u":{'), data.find(b'"d":{'))
        end = data.find(b'},"p":{', at)
        for mark in self._marks:
            at = data.find(mark, at, end if end >= 0 else len(data))
            if at < 0:
                return False
        return True

    def _with_partial_old(self, data: bytes) -> Any:  # noqa: ANN401 - a class made at run time
        """Return the value if its old image lacks columns, and expect that of the next ones; else a value
        without images.
        """
        if self._is_partial_old:
            return _NOTHING
        try:
            value = self._partial(data)
        except REFUSED:
            return _NOTHING
        self._is_partial_old = True
        return value


@functools.lru_cache(maxsize=256)
def _values_function(count: int) -> Callable[[Any], tuple[Any, ...]]:
    """Return the getter of a row struct's values, `return row.f0.v, row.f1.v,`: twice as fast as an
    attrgetter.
    """
    if count > MAX_COLUMNS:
        values = operator.attrgetter(*[f"f{at}.v" for at in range(count)])
        return cast("Callable[[Any], tuple[Any, ...]]", values)
    scope: dict[str, Any] = {}
    exec(f"def values(row):\n    return {' '.join(f'row.f{at}.v,' for at in range(count))}", scope)  # noqa: S102 - made of numbers
    return cast("Callable[[Any], tuple[Any, ...]]", scope["values"])


#: A value segment of another layout.
_NOTHING: Final = _Value()
#: Limit of the numbers that the parser can compare.
_LITERAL_END: Final = 1 << 63


def _parsed_type(column_type: ColumnType) -> type:
    """Return the parser's type of the column's value."""
    return bytes if is_base64(column_type) else wire_type(column_type)


@functools.lru_cache(maxsize=4096)
def _cell_class(code: int, flags: int | None, kind: type, wide: bool) -> Any:  # noqa: ANN401 - a class made at run time
    """Return the class of a column's cell: this code, these flags, and a value of this kind, or NULL."""
    value: Any = kind
    if kind is int:
        value = int if wide else Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
    fields: list[Any] = [("t", Literal[code]), ("f", Literal[flags]), ("v", value | None), ("h", Any, None)]
    return msgspec.defstruct("Cell", fields, forbid_unknown_fields=True, gc=False)


def _struct(name: str, fields: list[Any], names: Mapping[str, str]) -> Any:  # noqa: ANN401 - a class made at run time
    return msgspec.defstruct(name, fields, rename=names, forbid_unknown_fields=True, gc=False)


def _value_struct(row: Any, old: Any) -> Any:  # noqa: ANN401 - classes made at run time
    fields: list[Any] = [("u", row | None, None), ("p", old | None, None), ("d", row | None, None)]
    return msgspec.defstruct("Value", fields, forbid_unknown_fields=True, gc=False)


# ---------------------------------------------------------------- rows


def _cost(layout: _Layout) -> int:
    schema = layout.reader.schema
    return _LAYOUT_BYTES + columns_bytes([schema.columns[at] for at in layout.reader.indexes], _COLUMN_BYTES)


def unknown_members(data: bytes) -> Unknown | None:
    """Return the members of a row's value segment that the protocol does not define. Raises Malformed."""
    try:
        value = _parsed(data)
        return merged(value.unknown, _OLD.parse(b'{"p":%b}' % bytes(value.p)).unknown)
    except REFUSED as error:
        raise _malformed(data, error) from None


class OpenProtocolRowDecoder:
    """Reads rows with layouts cached by table; the cache may be emptied at any time.

    `limits.cache_bytes`: their approximate maximum memory, with the parts that encoders add to them.
    """

    def __init__(self, zone: tzinfo, limits: Limits = DEFAULT_LIMITS) -> None:
        self._zone, self._limits = zone, limits
        #: The layouts of rows that are kept, by table.
        self.tables: Tables[Table[_Layout]] = Tables(Table, limits.cache_bytes)
        self.forget = self.tables.forget

    def read(
        self,
        name: tuple[str, str],
        data: bytes,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> ReadRow:
        """Read the value segment of a row of the named table. Raises Malformed and UnsupportedMessage."""
        table, commit_ts = self.tables[name], source.commit_ts or 0
        # Most rows come after all known DDL of their table.
        if (catalog is table.catalog and commit_ts > table.newest_commit_ts) or table.is_newest(
            catalog, source.commit_ts, source.event_time_ns, record
        ):
            known = table.newest
        else:
            known = catalog.table(table.id, source.at(record))
        for layout in table.kept:
            reader = layout.reader
            if reader.known is known:
                row = layout.read(data)
                if row is not None:
                    if reader.is_inferred or reader.is_partial:
                        _count(reader, losses)
                    return row
        return _GeneralRow(self.tables, table, known, self._zone, losses, self._limits).read(data)


class ZonedRowDecoder(OpenProtocolRowDecoder):
    """Reads rows whose TIMESTAMP is in another zone than UTC, and counts local times that do not exist or are
    ambiguous in that zone.
    """

    def __init__(self, zone: tzinfo, limits: Limits = DEFAULT_LIMITS) -> None:
        super().__init__(zone, limits)
        self._times = LocalTimes(zone)

    def read(
        self,
        name: tuple[str, str],
        data: bytes,
        source: Source,
        record: ConsumerRecord,
        catalog: Catalog,
        losses: list[Loss],
    ) -> ReadRow:
        """Read the value segment of a row of the named table. Raises Malformed and UnsupportedMessage."""
        row = super().read(name, data, source, record, catalog, losses)
        images: Any = row[2]
        reader: TypedReader = images.reader
        times: list[int] | None = reader.plans.get(ZonedRowDecoder)
        if times is None:
            columns = [reader.schema.columns[at] for at in reader.indexes]
            times = [at for at, column in enumerate(columns) if is_local_time(column)]
            reader.plans[ZonedRowDecoder] = times
        if times:
            self._times.count(
                [cells[at] for cells in (images.old, images.new) if cells for at in times], losses
            )
        return row


def _count(reader: TypedReader, losses: list[Loss]) -> None:
    if reader.is_inferred:
        losses.append(Loss.SCHEMA_INFERRED)
    if reader.is_partial:
        losses.append(Loss.COLUMNS_ABSENT)


class _GeneralRow:
    """Reads one row on the general path: any columns, codes and flags."""

    def __init__(
        self,
        tables: Tables[Table[_Layout]],
        table: Table[_Layout],
        known: TableSchema | None,
        zone: tzinfo,
        losses: list[Loss],
        limits: Limits,
    ) -> None:
        self._limits = limits
        self._tables, self._table, self._known, self._zone, self._losses = tables, table, known, zone, losses

    def read(self, data: bytes) -> ReadRow:
        """Read a value segment.

        Bytes that are no UTF-8 become U+FFFD and are counted. A layout ignores a member `h`, so its bytes do
        not count here either.
        """
        data = _with_negative_zeros(data)
        try:
            return self._row(data)
        except UnicodeDecodeError:
            self._losses.append(Loss.INVALID_TEXT)
            return self._row(data.decode("utf-8", "replace").encode())

    def _row(self, data: bytes) -> ReadRow:
        """Return the row. Raises UnicodeDecodeError before anything is counted or kept."""
        value = _parsed(data)
        is_update = bytes(value.p) != b"null"
        if (value.d is None) == (value.u is None) or (value.d is not None and is_update):
            raise Malformed(NAME, "value", "a row has either `u`, with or without `p`, or `d`")
        old, unknown = self._old(value)
        unknown = merged(value.unknown, unknown)
        new = value.u if value.d is None else value.d
        if not new:
            raise Malformed(NAME, "value", "a row without columns")
        # Columns in the order of the new row, each as the new row has it, if it does.
        cells = {**new, **(old or {}), **new}
        check_columns(NAME, "value", len(cells), self._limits)
        layout = self._layout(
            {
                name: ColumnFlags(cell.t, cell.f, cell.f is None and bytes(cell.h) == b"true")
                for name, cell in cells.items()
            }
        )
        schema = layout.reader.schema
        _count(layout.reader, self._losses)
        if value.d is not None:
            return _DELETE, schema, self._images(layout, new, None), unknown
        before = None if old is None else {**new, **old}
        return _UPDATE if is_update else _INSERT, schema, self._images(layout, before, new), unknown

    def _old(self, value: _Value) -> tuple[dict[str, _ColumnCell] | None, Unknown | None]:
        """Return `p`; None if there is none, or if the columns of its cells are ambiguous (counted). Also
        return the members of cells that the protocol does not define.
        """
        text = b'{"p":%b}' % bytes(value.p)
        try:
            old = _OLD.parse(text)
        except UnicodeDecodeError:
            raise
        except REFUSED as error:
            nulls = [(name, (cell.t, cell.f)) for name, cell in (value.u or {}).items() if cell.v is None]
            try:
                old = _OLD.convert({"p": _with_names(bytes(value.p), nulls)}, strict=True)
            except UnicodeDecodeError:
                raise
            except (ValueError, *REFUSED):
                raise _malformed(text, error) from None
            if old.p is None:
                self._losses.append(Loss.BEFORE_MISSING)
        return old.p, old.unknown

    def _layout(self, declared: dict[str, ColumnFlags]) -> _Layout:
        table, known = self._table, self._known
        for layout in table.kept:
            if layout.reader.known is not known or layout.declared != declared:
                continue
            if not layout.reader.is_inferred or [*layout.declared] == [*declared]:
                layout.count_use()
                return layout
        schema = resolved(table, declared, known)
        # A definition inferred from the row has only its columns.
        columns = table.columns_of(schema) if schema is known else Columns(schema)
        found = sorted([(columns.index_of[name], name) for name in declared])
        indexes = {name: at for at, name in found}
        reads = []
        for name, at in indexes.items():
            code, flags, _ = declared[name]
            reads.append(read_of(schema.columns[at].type, self._zone, code, is_legacy=flags is None))
        wire_flags = {name: one.flags for name, one in declared.items() if one.flags is not None}
        reader = TypedReader(
            NAME,
            schema,
            [*indexes.values()],
            reads,
            _PARTS,
            known=known,
            wire=wire_flags,
            hidden=columns.hidden,
        )
        made = _Layout(reader, declared)
        made.count_use()
        self._tables.keep(table, made, _cost(made), _CACHED_LAYOUTS)
        return made

    def _images(
        self, layout: _Layout, old: dict[str, _ColumnCell] | None, new: dict[str, _ColumnCell] | None
    ) -> Images:
        reader = layout.reader
        before, after = self._cells(layout, old, "p" if new else "d"), self._cells(layout, new, "u")
        if ABSENT not in (before or ()) and ABSENT not in (after or ()):
            return TypedRows(reader, before, after)
        if not reader.is_partial:
            self._losses.append(Loss.COLUMNS_ABSENT)
        return PartialRows(reader, before, after)

    def _cells(
        self, layout: _Layout, cells: dict[str, _ColumnCell] | None, part: str
    ) -> tuple[Any, ...] | None:
        if cells is None:
            return None
        columns = layout.reader.schema.columns
        found = []
        for name, at in zip(layout.names, layout.reader.indexes, strict=True):
            cell, column_type = cells.get(name), columns[at].type
            value = ABSENT if cell is None else _checked(cell.v, column_type, f"{part}.{name}.v")
            if type(value) is str and is_base64(column_type):
                # Invalid base64 stays text, which is refused when it is read.
                data = try_base64(value)
                value = value if data is None else data
            found.append(value)
        return tuple(found)


def _parsed(data: bytes) -> _Value:
    try:
        return _parse_value(data)
    except UnicodeDecodeError:
        raise
    except REFUSED as error:
        raise _malformed(data, error) from None


def _with_negative_zeros(data: bytes) -> bytes:
    """Apply `with_negative_zeros` to values alone: flags are whole numbers."""
    return data if with_negative_zeros(data) is data else _STRING_OR_NEGATIVE_ZERO.sub(_signed, data)


_STRING_OR_NEGATIVE_ZERO: Final = re.compile(rb'("v"\s*:\s*-0)(?=[\s,}])|"(?:[^"\\]++|\\.)*+"?', re.DOTALL)


def _signed(match: re.Match[bytes]) -> bytes:
    return match[0] if match[1] is None else match[0] + b".0"


def _checked(value: object, column_type: ColumnType, path: str) -> Any:  # noqa: ANN401 - any JSON value
    """Return the value, if it has the JSON type of its column. A number of a wide column may be too large:
    reading it finds that, as in rows that were parsed with their layout.
    """
    kind = wire_type(column_type)
    if kind is int and type(value) is float and value == 0 and math.copysign(1.0, value) < 0:
        return 0  # of `-0`
    if value is None or type(value) is kind:
        if type(value) is int and not is_wide(column_type) and not -(1 << 63) <= value < 1 << 64:
            raise Malformed(NAME, path, "a number beyond 64 bits")
        return value
    if kind is float and type(value) is int:
        try:
            return float(value)
        except OverflowError:
            raise Malformed(NAME, path, "a number beyond the range of DOUBLE") from None
    raise Malformed(NAME, path, f"not {_JSON_TYPES[kind]}, which its type code requires")


_JSON_TYPES: Final[dict[type, str]] = {
    int: "an integer",
    float: "a number",
    str: "a string",
    NoneType: "null",
}


def _malformed(data: bytes, error: Exception) -> Malformed:
    """Return the parser's error for a value segment, with the column's name; it quotes no values."""
    try:
        parts = _decode_parts(data)
    except REFUSED:
        return _malformed_at("value", error)
    for part, cells in parts.items():
        for name, cell in (cells or {}).items() if part in _PARTS_NAMES else ():
            try:
                _decode_cell(cell)
            except REFUSED as found:
                return _malformed_at(f"{part}.{name}", found)
    return _malformed_at("value", error)


_PARTS_NAMES: Final = frozenset({"u", "p", "d"})
_decode_parts = msgspec.json.Decoder(dict[str, dict[str, msgspec.Raw] | None]).decode
_decode_cell = msgspec.json.Decoder(_ColumnCell).decode


def _malformed_at(path: str, error: Exception) -> Malformed:
    if isinstance(error, UnicodeDecodeError):
        return Malformed(NAME, path, "not UTF-8")
    where, reason = complaint(error)
    return Malformed(NAME, f"{path}.{where}" if where else path, reason)


# ---------------------------------------------------------------- cells without names

# With `only-output-updated-columns`, where a value becomes NULL, TiCDC writes the column's cell into `p`
# without its name: `"p":{"t":252,"f":64,"v":"b2xk"}`, also between columns that have names, and several
# times in one object (pingcap/ticdc b813e76f9, 2026-08). Such a cell belongs to a column that is NULL in
# `u` and has the same code and flags, and cells keep the order of the table.
_Members = dict[str, Any]
_CodeAndFlags = tuple[int, int | None]


def _with_names(old: bytes, nulls: Sequence[tuple[str, _CodeAndFlags]]) -> dict[str, _Members] | None:
    """Return the cells of such a `p` by column, given the columns that are NULL in `u` in table order.

    None if the columns are ambiguous, or missing. Raises ValueError for any other object.
    """
    named, nameless = _split_cells(old)
    nulls = [(name, declared) for name, declared in nulls if name not in named]
    wanted = [(cell["t"], cell.get("f")) for cell in nameless]
    first, last = _matched(wanted, nulls), _matched(wanted[::-1], nulls[::-1])
    # If matching from the left and from the right agree, the match is unique.
    if first != last[::-1] or len(first) < len(wanted):
        return None
    return named | dict(zip(first, nameless, strict=True))


def _split_cells(old: bytes) -> tuple[dict[str, _Members], list[_Members]]:
    named: dict[str, _Members] = {}
    nameless: list[_Members] = []
    members = json.loads(old.decode(), object_pairs_hook=tuple)
    for name, value in members if isinstance(members, tuple) else ():
        if isinstance(value, tuple):
            named[name] = {part: cell for part, cell in value if part != "h"}
        elif name == "t":
            nameless.append({"t": value})
        elif nameless and name in {"f", "v"}:
            nameless[-1][name] = value
        elif nameless and name == "h":
            continue  # flags have it as well
        else:
            raise ValueError("a member that is not a cell")
    if not all("v" in cell for cell in nameless) or not nameless:
        raise ValueError("no cell without a name")
    return named, nameless


def _matched(wanted: Sequence[_CodeAndFlags], columns: Sequence[tuple[str, _CodeAndFlags]]) -> list[str]:
    """Return the first columns, in order, that have these codes and flags; fewer if there are not enough."""
    rest = iter(columns)
    found = (next((name for name, declared in rest if declared == one), None) for one in wanted)
    return [name for name in found if name is not None]
