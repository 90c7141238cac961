"""Reading rows of Maxwell: `data`, and `old` with the changed columns.

`MaxwellRowDecoder` keeps layouts by table: the columns of a row and the parser of each. A row with the
columns of an earlier one is parsed in one step into a struct compiled for them; everything else takes the
general path, which finds the definition. Both parse each value with the same type. Types that no definition
has are inferred from the values, message by message.
"""

from __future__ import annotations

import operator
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final, NamedTuple

import msgspec

from relay.catalog import Catalog
from relay.codecs.losses import Loss
from relay.codecs.maxwell import values
from relay.codecs.maxwell.messages import MaxwellMessage, camel_case, key_columns
from relay.codecs.maxwell.options import NAME
from relay.codecs.shared.caches import columns_bytes
from relay.codecs.shared.compiled import MAX_COLUMNS, UNNAMEABLE, is_due
from relay.codecs.shared.lenient_json import REFUSED, complaint
from relay.codecs.shared.rows import PartialRows, PartNames, TypedReader, TypedRows
from relay.codecs.shared.tables import Table, Tables
from relay.model.errors import Malformed
from relay.model.events import ABSENT, Column, ColumnType, Images, Op, Position, TableId, TableSchema
from relay.model.limits import Limits, check_columns

_PARTS: Final = PartNames(deleted="data", old="old", new="data")
#: Reads the images of a row, like `MaxwellRowDecoder.read`.
ReadImages = Callable[
    [Op, MaxwellMessage, bytes | None, Position, Catalog, list[Loss]], tuple[TableSchema, Images] | None
]
#: Maximum layouts kept per table.
_CACHED_LAYOUTS: Final = 16
#: Memory of a layout, with the parts that encoders add to it, base and per column.
_LAYOUT_BYTES: Final = 8_000
_COLUMN_BYTES: Final = 1_500

_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE

#: The members of a row, still as JSON.
Members = dict[str, msgspec.Raw]
_decode_members = msgspec.json.Decoder(Members | None).decode
_NULL: Final = b"null"


class Layout:
    """Rows with exactly these columns of one table version. `types`: the parser's types, in table order;
    `inferred`: the types inferred from values.
    """

    def __init__(
        self,
        reader: TypedReader,
        names: Sequence[str],
        inferred: Mapping[str, ColumnType],
        *,
        is_known: bool,
        has_nulls: bool,
    ) -> None:
        self.reader, self.names, self.inferred = reader, tuple(names), dict(inferred)
        self.has_nulls = has_nulls
        columns = [reader.schema.columns[at] for at in reader.indexes]
        types = [inferred.get(name, column.type) for name, column in zip(names, columns, strict=True)]
        self.types = list(map(values.wire_type, types))
        #: Indexes of integers that no parser can bound: unsigned 64-bit ones.
        self._unbounded = [at for at, each in enumerate(self.types) if each is int]
        #: Indexes of the JSON columns whose null is NULL.
        self.documents = [
            at
            for at, column in enumerate(columns)
            if column.type.base == "json" and (column.nullable is not False or not is_known)
        ]
        found = [(at, values.null_cell(column)) for at, column in enumerate(columns)]
        #: The meaning of null where it is not NULL, by cell index.
        self.nulls = [(at, cell) for at, cell in found if cell is not None] if is_known else []
        #: The meaning of a missing column in rows without NULLs.
        self._left_out = list(map(values.left_out_cell, columns))
        #: Indexes of TIME columns; Maxwell loses all but the time of day.
        self.times = [at for at, column in enumerate(columns) if column.type.base == "time"]
        self._decoders: list[Callable[[Any], Any]] | None = None
        self._uses = 0
        self.full: Callable[[bytes], Any] | None = None
        self._partial: Callable[[bytes], Any] | None = None
        self._values: Callable[[Any], Any] = tuple

    def count_use(self) -> None:
        """Count a row that was read on the general path; compile after some, if a struct can hold it."""
        self._uses += 1
        is_nameable = 0 < len(self.names) <= MAX_COLUMNS and not any(map(UNNAMEABLE, self.names))
        if not is_due(self._uses) or self.inferred or not is_nameable:
            return
        fields = [f"f{at}" for at in range(len(self.names))]
        renamed = dict(zip(fields, self.names, strict=True))
        row = [(field, values.or_null(each)) for field, each in zip(fields, self.types, strict=True)]
        old = [(field, values.or_null(each), ABSENT) for field, each in zip(fields, self.types, strict=True)]
        self.full, self._partial = _parser(row, renamed), _parser(old, renamed)
        self._values = operator.attrgetter(*fields) if len(fields) > 1 else _only

    def row(self, data: bytes) -> Sequence[Any] | None:
        """Return the cells of a row that has all columns, None if it has another layout."""
        return self._parsed(self.full, data, is_old=False)

    def changed(self, data: bytes) -> Sequence[Any] | None:
        """Return the cells of an old row, ABSENT for a missing column; None like `row`."""
        return self._parsed(self._partial, data, is_old=True)

    def _parsed(
        self, parse: Callable[[bytes], Any] | None, data: bytes, *, is_old: bool
    ) -> Sequence[Any] | None:
        if parse is None:
            return None
        try:
            cells = self._values(parse(data))
        except REFUSED:
            return None
        if self._unbounded and not self._has_64_bits(cells):
            return None
        return self._with_nulls(cells, is_old=is_old)

    def _has_64_bits(self, cells: Sequence[Any]) -> bool:
        found = [cells[at] for at in self._unbounded]
        return all(cell is None or cell is ABSENT or _LEAST <= cell < _END for cell in found)

    def cells(self, members: Members, part: str) -> Sequence[Any]:
        """Return the cells of a row on the general path. A missing one is ABSENT, or a NULL that Maxwell has
        left out: of a column in the definition, or of the old row. Raises Malformed.
        """
        is_filled = part != _PARTS.old and not (self.has_nulls and members)
        missing = self._left_out if is_filled else [ABSENT] * len(self.names)
        if self._decoders is None:
            self._decoders = [msgspec.json.Decoder(values.or_null(each)).decode for each in self.types]
        found: list[Any] = []
        for name, decode, left_out in zip(self.names, self._decoders, missing, strict=True):
            raw = members.get(name)
            try:
                found.append(left_out if raw is None else decode(raw))
            except REFUSED as error:
                raise Malformed(NAME, f"{part}.{name}", _reason(error)) from None
        return self._with_nulls(found, is_old=part == _PARTS.old)

    def _with_nulls(self, cells: Sequence[Any], *, is_old: bool) -> Sequence[Any]:
        """Return the cells with the meaning of null: NULL in a JSON column, another value in some columns
        that cannot be NULL. In a row from which NULLs are left out it is the JSON document.
        """
        documents = self.documents if self.has_nulls or is_old else ()
        nulls = [(at, None) for at in documents if _is_null_document(cells[at])]
        nulls += [(at, cell) for at, cell in self.nulls if cells[at] is None]
        if not nulls:
            return cells
        found = list(cells)
        for at, cell in nulls:
            found[at] = cell
        return found


#: Signed and unsigned 64-bit integers.
_LEAST, _END = -(1 << 63), 1 << 64


def _is_null_document(cell: object) -> bool:
    return isinstance(cell, msgspec.Raw) and bytes(cell) == _NULL


def _only(row: Any) -> tuple[Any]:  # noqa: ANN401 - a class made at run time
    return (row.f0,)


def _parser(fields: list[Any], names: Mapping[str, str]) -> Callable[[bytes], Any]:
    row = msgspec.defstruct("Row", fields, rename=names, forbid_unknown_fields=True, gc=False)
    return msgspec.json.Decoder(row).decode


def _reason(error: Exception) -> str:
    return "not UTF-8" if isinstance(error, UnicodeDecodeError) else complaint(error)[1]


class _WireRow(NamedTuple):
    """A row in its message; `old`: the changed columns of an UPDATE, None if missing."""

    op: Op
    message: MaxwellMessage
    old: msgspec.Raw | None
    key: bytes | None


class MaxwellRowDecoder:
    """Reads rows with layouts cached by table; the cache may be emptied at any time.

    `has_nulls`: rows have columns that are NULL. `is_camel`: columns' names are in camel case.
    """

    def __init__(self, limits: Limits, *, has_nulls: bool, is_camel: bool) -> None:
        self._limits, self._has_nulls, self._is_camel = limits, has_nulls, is_camel
        self._tables: Tables[Table[Layout]] = Tables(Table, limits.cache_bytes)
        self.forget = self._tables.forget

    def layout(self, table: TableId, reader: TypedReader) -> Layout | None:
        """Return the layout that a table's row was read with; None if it is no longer kept."""
        found = self._tables.get((table.database, table.table))
        return next((each for each in found.kept if each.reader is reader), None) if found else None

    def read(
        self,
        op: Op,
        message: MaxwellMessage,
        key: bytes | None,
        at: Position,
        catalog: Catalog,
        losses: list[Loss],
    ) -> tuple[TableSchema, Images] | None:
        """Return a row's definition and images, None for a row of NULLs whose columns are unknown. Raises
        Malformed.
        """
        table = self._tables[message.database, message.table]
        if table.is_newest(catalog, None, at.event_time_ns, at):
            known = table.newest
        else:
            known = catalog.table(table.id, at)
        known = known or catalog.created_at_same_instant(table.id, at)
        data, old = message.data, _old_of(op, message)
        if self._has_nulls:
            for layout in table.kept:
                if layout.reader.known is not known or layout.full is None:
                    continue
                new = layout.row(bytes(data))
                before = None if new is None or old is None else layout.changed(bytes(old))
                if new is not None and (old is None or before is not None):
                    return self._images(op, layout, before, new, losses)
        return self._general(_WireRow(op, message, old, key), table, known, losses)

    def _general(
        self, row: _WireRow, table: Table[Layout], known: TableSchema | None, losses: list[Loss]
    ) -> tuple[TableSchema, Images] | None:
        op, message, old, key = row
        new_members, old_members = _members(message.data, "data"), _members(old, "old")
        if op is _DELETE and not new_members and message.old:
            # TiCDC's dialect has the deleted row there.
            new_members = _members(msgspec.Raw(bytes(message.old)), "old")
        if new_members is None:
            raise Malformed(NAME, "data", "a row message without a row")
        check_columns(NAME, "data", len(new_members.keys() | (old_members or {}).keys()), self._limits)
        layout = self._layout(table, known, new_members, old_members or {}, message, key)
        if not layout.names:
            return None
        layout.count_use()
        new = layout.cells(new_members, "data")
        before = None if old_members is None else layout.cells(old_members, "old")
        return self._images(op, layout, before, new, losses)

    def _column_indexes(self, known: TableSchema) -> dict[str, int]:
        """Return the indexes of a definition's columns, by their names in messages."""
        if not self._is_camel:
            return {column.name: at for at, column in enumerate(known.columns)}
        return {camel_case(column.name): at for at, column in enumerate(known.columns)}

    def _layout(
        self,
        table: Table[Layout],
        known: TableSchema | None,
        new: Members,
        old: Members,
        message: MaxwellMessage,
        key: bytes | None,
    ) -> Layout:
        names = tuple(dict.fromkeys([*new, *old]))
        indexes = {} if known is None else self._column_indexes(known)
        fitting = known
        if known is not None and not (indexes.keys() >= set(names) and len(indexes) == len(known.columns)):
            # A definition that lacks columns of the row is outdated.
            fitting = None
        if fitting is not None and (not new or not self._has_nulls):
            names = tuple(indexes)
        inferred = _inferred_types(fitting, indexes, names, (new, old))
        named = None
        if fitting is None or fitting.primary_key is None:
            named = key_columns(message, key, names)
        for layout in table.kept:
            reader = layout.reader
            if reader.known is not known or layout.inferred != inferred or set(layout.names) != set(names):
                continue
            if fitting is not None or (layout.names == names and reader.schema.primary_key == named):
                return layout
        made = self._build(table, known, fitting, names, inferred, named)
        size = _LAYOUT_BYTES + columns_bytes(
            [made.reader.schema.columns[at] for at in made.reader.indexes], _COLUMN_BYTES
        )
        self._tables.keep(table, made, size, _CACHED_LAYOUTS)
        return made

    def _build(
        self,
        table: Table[Layout],
        known: TableSchema | None,
        fitting: TableSchema | None,
        names: tuple[str, ...],
        inferred: dict[str, ColumnType],
        named: tuple[str, ...] | None,
    ) -> Layout:
        if fitting is None:
            columns = tuple([Column(name, values.declared_type(inferred[name])) for name in names])
            schema = TableSchema(table.id, columns, primary_key=named, complete=False)
            ordered = list(names)
            indexes = list(range(len(names)))
        else:
            index_of = self._column_indexes(fitting)
            ordered = sorted(names, key=index_of.__getitem__)
            indexes = [index_of[name] for name in ordered]
            by_index = {index_of[name]: values.declared_type(each) for name, each in inferred.items()}
            schema = _with_inferred_types(fitting, by_index)
        types = [
            inferred.get(name, schema.columns[at].type) for name, at in zip(ordered, indexes, strict=True)
        ]
        reads = list(map(values.read_of, types))
        reader = TypedReader(NAME, schema, indexes, reads, _PARTS, known=known, declares_types=False)
        return Layout(reader, ordered, inferred, is_known=fitting is not None, has_nulls=self._has_nulls)

    def _images(
        self,
        op: Op,
        layout: Layout,
        old: Sequence[Any] | None,
        new: Sequence[Any],
        losses: list[Loss],
    ) -> tuple[TableSchema, Images]:
        reader = layout.reader
        if reader.is_inferred:
            losses += [Loss.SCHEMA_INFERRED, Loss.VALUE_INFERRED]
        if layout.times and any(isinstance(new[at], str) for at in layout.times):
            losses.append(Loss.TIME_RANGE)
        before: Sequence[Any] | None = None
        after: Sequence[Any] | None = new
        if op is _DELETE:
            before, after = new, None
        elif op is _UPDATE and old is None:
            losses.append(Loss.BEFORE_MISSING)
        elif op is _UPDATE and old is not None:
            before = [now if was is ABSENT else was for was, now in zip(old, new, strict=True)]
        is_partial = ABSENT in new or (before is not None and ABSENT in before)
        if reader.is_partial or is_partial:
            losses.append(Loss.COLUMNS_ABSENT)
        rows = PartialRows if is_partial else TypedRows
        return reader.schema, rows(reader, before, after)


def _old_of(op: Op, message: MaxwellMessage) -> msgspec.Raw | None:
    """Return the changed columns of an UPDATE; None if they are missing."""
    old = message.old
    if op is not _UPDATE or not isinstance(old, msgspec.Raw) or bytes(old) == _NULL:
        return None
    return old


def _members(row: msgspec.Raw | None, part: str) -> Members | None:
    if row is None:
        return None
    try:
        found: Members | None = _decode_members(row)
    except REFUSED as error:
        raise Malformed(NAME, part, _reason(error)) from None
    return found


def _inferred_types(
    known: TableSchema | None, indexes: Mapping[str, int], names: Sequence[str], rows: Sequence[Members]
) -> dict[str, ColumnType]:
    """Return the types of columns without a usable definition: all, or those whose values contradict it."""
    found: dict[str, ColumnType] = {}
    for name in names:
        cells = [row[name] for row in rows if name in row]
        if known is not None and all(values.fits(known.columns[indexes[name]].type, cell) for cell in cells):
            continue
        types = [each for cell in cells if (each := values.inferred_type(cell)) is not None]
        if not types:
            types = [_UNKNOWN]
        common = types[0]
        for each in types[1:]:
            common = values.common_type(common, each)
        found[name] = common
    return found


#: The type of a column without any value but NULL.
_UNKNOWN: Final = ColumnType("varchar")


def _with_inferred_types(schema: TableSchema, inferred: Mapping[int, ColumnType]) -> TableSchema:
    """Return a definition with other types where values contradict it."""
    if not inferred:
        return schema
    columns = list(schema.columns)
    for at, column_type in inferred.items():
        columns[at] = Column(columns[at].name, column_type)
    return msgspec.structs.replace(schema, columns=tuple(columns), complete=False)
