"""Rows of the Canal family, written: text cells, `sqlType` and `mysqlType`.

Contract: rows that came as text of the family are taken as they are, and only the columns that the two
producers spell differently are converted, which is decided once per table version (`TextPlan`); rows of any
other origin are written from their canonical values (`RowWriter`). `RowWriters` is an encoder's cache and
could be emptied at any time.
"""

from __future__ import annotations

from collections.abc import Callable
from enum import Enum
from typing import Any, Final, cast

import msgspec

from relay.codecs.canal.message import Cells, Dialect, java_sql_type
from relay.codecs.canal.reading import RowReader, TextRows
from relay.codecs.wire.rows import Convert, Read, TypedReader, TypedRows, Write
from relay.errors import NotRepresentable
from relay.model import ABSENT, Generated, Op, Row, RowChange, TableSchema
from relay.mysql import numbers
from relay.mysql.values import converter
from relay.mysql.values import writer as value_writer

#: A bound on what a cache of table versions may hold, for sources that create tables without end.
_CACHED_TABLES: Final = 4096
#: Texts of `sqlType` that are kept of one table version: unsigned columns and NULLs change it from row to
#: row.
_CACHED_CODES: Final = 256
# Python 3.11 resolves `Op.UPDATE` through a descriptor, at the price of a function call; these are looked at
# for every row.
_UPDATE: Final = Op.UPDATE
_DELETE: Final = Op.DELETE


class Text(msgspec.Struct, gc=False):
    """A change as text cells in column order, ready to be sent: the row, and the old row if the change has
    one.

    `loses_parameters`: the source said more of the types than the target will, or less than the target
    should.
    """

    writer: RowWriter
    cells: dict[str, Any]
    old: dict[str, Any] | None
    loses_parameters: bool

    def changed(self) -> dict[str, Any]:
        """The old text of the columns whose text differs, as both TiCDC and Canal compare."""
        cells = self.cells
        return {name: text for name, text in (self.old or {}).items() if text != cells.get(name, ABSENT)}


class RowWriter:
    """Writes rows of one table version: text cells, `sqlType`, `mysqlType` and `pkNames`. Compiled once per
    table version.
    """

    def __init__(self, schema: TableSchema, dialect: Dialect, places: tuple[int, ...]) -> None:
        columns = [schema.columns[at] for at in places]
        self.table, self.places = schema.id, places
        self._writers = [
            (column.name, at, value_writer(column.type, dialect.style))
            for at, column in zip(places, columns, strict=True)
        ]
        self._codes = {column.name: java_sql_type(column.type) for column in columns}
        codes_of = [(column.name, dialect.code_of(column.type)) for column in columns]
        self._variable = [(name, code_of) for name, code_of in codes_of if code_of is not None]
        self._sql_types: dict[tuple[int, ...], msgspec.Raw] = {}
        self._sql_type = None if self._variable else msgspec.Raw(_to_json(self._codes))
        self.mysql_type = msgspec.Raw(
            _to_json({column.name: dialect.type_text(column.type) for column in columns})
        )
        key = schema.primary_key or ()
        self.pk_names = [column.name for column in schema.columns if column.name in key]
        self.loses_parameters = dialect.loses_parameters([column.type for column in columns])

    def cells(self, row: Row) -> dict[str, Any]:
        """The canonical row as text cells in column order. Columns that are ABSENT are left out."""
        cells: dict[str, Any] = {}
        for name, place, write in self._writers:
            value = row[place]
            if value is not ABSENT:
                cells[name] = value if value is None or write is None else write(value)
        return cells

    def sql_type(self, cells: dict[str, Any]) -> msgspec.Raw:
        """`sqlType` for the row: some numbers depend on the value."""
        return self._varying(cells) if self._sql_type is None else self._sql_type

    def _varying(self, cells: dict[str, Any]) -> msgspec.Raw:
        # Apart, because the closure over `cells` would cost every row.
        variant = tuple([code_of(cells.get(name)) for name, code_of in self._variable])
        found = self._sql_types.get(variant)
        if found is None:
            if len(self._sql_types) >= _CACHED_CODES:
                self._sql_types.clear()
            codes = zip((name for name, _ in self._variable), variant, strict=True)
            found = self._sql_types[variant] = msgspec.Raw(_to_json(self._codes | dict(codes)))
        return found


class TextPlan:
    """Turns the text of one producer's rows into another's: only the columns that they spell differently are
    touched.
    """

    def __init__(self, protocol: str, reader: RowReader, dialect: Dialect, writer: RowWriter) -> None:
        self._protocol, self.writer = protocol, writer
        columns = reader.schema.columns
        self._loses_parameters = (
            writer.loses_parameters
            if dialect.with_parameters
            else dialect.loses_parameters(reader.wire.types())
        )
        self._differing: list[tuple[str, Callable[[str], str]]] = []
        for name, place in zip(reader.wire.names, reader.places, strict=True):
            column_type = columns[place].type
            convert = cast(
                "Callable[[str], str] | None", reader.custom.get(name)
            )  # they are all text to text
            convert = convert or converter(column_type, reader.style, dialect.style)
            if convert is not None:
                self._differing.append((name, convert))

    def text(self, images: TextRows) -> Text:
        """The change in the target's spelling. Raises Malformed for a text that its type does not allow."""
        if not self._differing:
            return Text(self.writer, images.cells, images.old, self._loses_parameters)
        old = images.old
        try:
            cells = self._converted(images.cells)
            old = None if old is None else self._converted(old)
        except (ValueError, ArithmeticError) as error:
            _ = images.before, images.after  # raises Malformed with the column's name
            raise NotRepresentable(
                self._protocol, "data", "a value that the target's spelling has no text for"
            ) from error
        return Text(self.writer, cells, old, self._loses_parameters)

    def _converted(self, cells: Cells) -> Cells:
        converted = cells.copy()
        for name, convert in self._differing:
            text = cells.get(name)
            if text is not None:
                converted[name] = convert(text)
        return converted


class WirePlan:
    """Turns the wire values of another family (`relay.codecs.wire.rows`) into text cells in one step a
    column.
    """

    def __init__(self, protocol: str, reader: TypedReader, dialect: Dialect, writer: RowWriter) -> None:
        self._protocol, self._writer = protocol, writer
        columns = [reader.schema.columns[at] for at in reader.places]
        self._values = reader.row_function(
            [value_writer(column.type, dialect.style) for column in columns], _SHORTCUTS
        )

    def text(self, op: Op, images: TypedRows) -> Text:
        """The change in the target's spelling. Raises Malformed for a value that its type does not allow."""
        old, new = images.old, images.new
        try:
            cells = self._values(old if new is None else new)  # type: ignore[arg-type]  # a change has an image
            before = self._values(old) if op is _UPDATE and old is not None else None
        except (ValueError, ArithmeticError, TypeError, AttributeError) as error:
            _ = (
                images.before,
                images.after,
            )  # raises Malformed with the column's name if the source is to blame
            raise NotRepresentable(
                self._protocol, "data", "a value that the target's spelling has no text for"
            ) from error
        return Text(self._writer, cells, before, self._writer.loses_parameters)


_SHORTCUTS: Final[dict[tuple[Read, Write], Convert]] = {
    (numbers.read_decimal, numbers.decimal_text): numbers.checked_decimal,
}


class RowWriters:
    """An encoder's writers and plans, by table version."""

    def __init__(self, protocol: str, dialect: Dialect) -> None:
        self._protocol, self._dialect = protocol, dialect
        self._writers: dict[tuple[TableSchema, tuple[int, ...]], RowWriter] = {}

    def text(self, change: RowChange) -> Text:
        """The change as text. Raises NotRepresentable if it has no image of its operation."""
        images = change.images
        if type(images) is TextRows:
            plan = images.reader.plans.get(self)
            if plan is None:
                plan = images.reader.plans[self] = self._plan(images.reader)
            if type(plan) is TextPlan:
                return plan.text(images)
        elif isinstance(images, TypedRows):
            wire_plan: WirePlan | _Indirect | None = images.reader.plans.get(self)
            if wire_plan is None:
                wire_plan = images.reader.plans[self] = self._wire_plan(images.reader)
            if isinstance(wire_plan, WirePlan):
                return wire_plan.text(change.op, images)
        before, after = change.before, change.after
        row = before if change.op is _DELETE else after
        if row is None:
            raise NotRepresentable(self._protocol, "data", f"the {change.op.value} has no row image")
        writer = self.only(change.schema, self._shown(change.schema, row))
        try:
            old = writer.cells(before) if change.op is _UPDATE and before else None
            return Text(writer, writer.cells(row), old, writer.loses_parameters)
        except (ValueError, TypeError, AttributeError) as error:
            raise NotRepresentable(self._protocol, "data", "a value is not of its column's type") from error

    def only(self, schema: TableSchema, places: tuple[int, ...]) -> RowWriter:
        """The writer for some of a table's columns, given by their places in it."""
        found = self._writers.get((schema, places))
        if found is None:
            if len(self._writers) >= _CACHED_TABLES:
                self._writers.clear()
            found = self._writers[schema, places] = RowWriter(schema, self._dialect, places)
        return found

    def _plan(self, reader: RowReader) -> TextPlan | _Indirect:
        """The plan for a reader's rows, if their text can be taken as it is: in column order, and without
        columns to hide.
        """
        places = reader.places
        is_direct = list(places) == sorted(places) and places == self._without_hidden(reader.schema, places)
        return (
            TextPlan(self._protocol, reader, self._dialect, self.only(reader.schema, places))
            if is_direct
            else _INDIRECT
        )

    def _wire_plan(self, reader: TypedReader) -> WirePlan | _Indirect:
        is_direct = reader.places == self._without_hidden(reader.schema, reader.places)
        return (
            WirePlan(self._protocol, reader, self._dialect, self.only(reader.schema, reader.places))
            if is_direct
            else _INDIRECT
        )

    def _shown(self, schema: TableSchema, row: Row) -> tuple[int, ...]:
        return self._without_hidden(schema, tuple(at for at, cell in enumerate(row) if cell is not ABSENT))

    def _without_hidden(self, schema: TableSchema, places: tuple[int, ...]) -> tuple[int, ...]:
        if self._dialect.with_virtual_columns:
            return places
        return tuple(at for at in places if schema.columns[at].generated is not Generated.VIRTUAL)


class _Indirect(Enum):
    INDIRECT = "rows whose canonical values must be written"


_INDIRECT: Final = _Indirect.INDIRECT
_to_json = msgspec.json.Encoder().encode
