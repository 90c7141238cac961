"""Writing rows of the Canal family: text cells, `sqlType` and `mysqlType`.

The plan for a reader's rows is chosen once per reader and target (`Plan`). `TextPlan` takes rows that came as
text of the family and converts only the columns that the two producers spell differently. `TypedPlan`
converts wire values of other families in one step per column. `TextWriter` writes rows of any other origin
from their canonical values. `TextWriters` is an encoder's cache and may be emptied at any time.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any, Final, NamedTuple

import msgspec

from relay.codecs.canal.shared.messages import DELETE, UPDATE, CanalDialect, Cells, SqlTypeOf
from relay.codecs.canal.shared.rows import TextReader, TextRows
from relay.codecs.losses import Loss
from relay.codecs.shared.caches import ByteCache, ByType, CachePool, columns_bytes, schema_bytes
from relay.codecs.shared.conversions import Convert, Read, Write
from relay.codecs.shared.rows import TypedReader, TypedRows, present_indexes
from relay.codecs.shared.shaping import column_styles
from relay.codecs.shared.tables import NAMELESS
from relay.codecs.shared.traced import TracedCells, TracedReader, choice_of
from relay.model.errors import NotRepresentable
from relay.model.events import ABSENT, ColumnType, Row, RowChange, TableSchema
from relay.mysql import numbers
from relay.mysql.values import TextStyle, converter
from relay.mysql.values import writer as value_writer

#: Memory of a writer of some columns, base and per column (measured with CPython 3.11).
_WRITER_BYTES: Final = 2_000
_COLUMN_BYTES: Final = 200
#: Memory of a text of `sqlType` besides its length and per column that varies, and the maximum share of an
#: encoder's bytes for all of them: unsigned columns and NULLs change it from row to row.
_SQL_TYPES_BYTES: Final = 300
_VARYING_BYTES: Final = 8
_SQL_TYPES_SHARE: Final = 4
#: Maximum number of source styles whose conversions are kept.
_MOST_STYLES: Final = 16
_NO_TEXT: Final = "a value is not of its column's type, or the target cannot represent it as text"
#: Errors that conversions raise for values of another type than the column's.
_UNFIT: Final = (ValueError, ArithmeticError, TypeError, AttributeError)

#: Images kept in their original form, with their reader.
_WITH_READER: Final = (TextRows, TypedRows)

_to_json = msgspec.json.Encoder().encode


class TextChange(msgspec.Struct, gc=False):
    """A change as text cells in column order, ready to be sent: the row, and the old row if there is one.

    `loses_parameters`: the source had more type parameters than the target can hold, or fewer than it
    requires.
    """

    writer: TextWriter
    cells: dict[str, Any]
    old: dict[str, Any] | None
    loses_parameters: bool

    def changed(self) -> Any:  # noqa: ANN401 - printed by msgspec: cells by column
        """Return the old text of the columns whose text differs; TiCDC and Canal compare texts, too."""
        cells, old = self.cells, self.old
        if type(old) is TracedCells:
            return old.changed(cells)
        return {name: text for name, text in (old or {}).items() if text != cells.get(name, ABSENT)}


#: Texts of `sqlType`, by a writer's identifier and the numbers of the columns that vary.
SqlTypeTexts = ByteCache[tuple[object, tuple[int, ...]], msgspec.Raw]
#: Converts the rows of one reader to text. Raises DecodeError for a value that is invalid in the source,
#: NotRepresentable for one that the target cannot express.
Plan = Callable[[RowChange], TextChange]


class _DialectType(NamedTuple):
    """A column type as a dialect writes it; see `CanalDialect`."""

    write: Write | None
    plain_sql_type: int
    sql_type_of: SqlTypeOf | None
    type_text: str
    loses_parameters: bool


class DialectTypes:
    """Caches a dialect's writers and converters by column type, because tables share types."""

    def __init__(self, dialect: CanalDialect) -> None:
        self.dialect, self.texts = dialect, ByType(self._text)
        self._converters: dict[TextStyle, ByType[Write | None]] = {}

    def _text(self, column_type: ColumnType) -> _DialectType:
        dialect = self.dialect
        return _DialectType(
            value_writer(column_type, dialect.style),
            dialect.plain_sql_type(column_type),
            dialect.sql_type_of(column_type),
            dialect.type_text(column_type),
            dialect.loses_parameters([column_type]),
        )

    def converters(self, source: TextStyle) -> ByType[Write | None]:
        """Return the functions that convert a source's text; see `converter`."""
        found = self._converters.get(source)
        if found is None:
            if len(self._converters) >= _MOST_STYLES:
                self._converters.clear()
            target = self.dialect.style
            found = self._converters[source] = ByType(lambda each: converter(each, source, target))
        return found


class TextWriter:
    """Writes rows of one table version: text cells, `sqlType`, `mysqlType` and `pkNames`.

    Compiled once per table version and columns; `indexes`: the columns' indexes in the table. `sql_types`:
    the store of `sqlType` texts.
    """

    def __init__(
        self, schema: TableSchema, types: DialectTypes, indexes: tuple[int, ...], sql_types: SqlTypeTexts
    ) -> None:
        self.table, self.indexes, self.pk_names = schema.id, indexes, _pk_names(schema)
        columns = [schema.columns[at] for at in indexes]
        texts = [types.texts[column.type] for column in columns]
        usual, styles = types.dialect.style, column_styles(schema, types.dialect.style)
        self._writes = [
            (column.name, at, text.write if styles[at] is usual else value_writer(column.type, styles[at]))
            for at, column, text in zip(indexes, columns, texts, strict=True)
        ]
        names = [column.name for column in columns]
        self._plain = {name: text.plain_sql_type for name, text in zip(names, texts, strict=True)}
        self._varying = [
            (name, text.sql_type_of)
            for name, text in zip(names, texts, strict=True)
            if text.sql_type_of is not None
        ]
        # Not the writer itself: the texts would keep it alive.
        self._mark, self._sql_types = object(), sql_types
        #: `sqlType` of every row; None if it depends on the values (see `sql_type_of`).
        self.sql_type = None if self._varying else msgspec.Raw(_to_json(self._plain))
        type_texts = {name: text.type_text for name, text in zip(names, texts, strict=True)}
        self.mysql_type = msgspec.Raw(_to_json(type_texts))
        self.loses_parameters = any(text.loses_parameters for text in texts)

    def cells(self, row: Row) -> dict[str, Any]:
        """Return the canonical row as text cells in column order. Columns that are ABSENT are left out."""
        cells: dict[str, Any] = {}
        for name, index, write in self._writes:
            value = row[index]
            if value is not ABSENT:
                cells[name] = value if value is None or write is None else write(value)
        return cells

    def not_representable(self, protocol: str, *rows: Row | None) -> NotRepresentable:
        """Return the error about the first column whose value has no text; it does not quote the value."""
        for row in filter(None, rows):
            for name, index, write in self._writes:
                value = row[index]
                if value is None or value is ABSENT or write is None:
                    continue
                try:
                    write(value)
                except _UNFIT:
                    return NotRepresentable(protocol, f"data.{name}", _NO_TEXT)
        return NotRepresentable(protocol, "data", _NO_TEXT)

    def sql_types_of(self, cells: dict[str, Any]) -> dict[str, int]:
        """Return the numbers of `sqlType` for a row, by column."""
        if not self._varying:
            return self._plain
        return self._plain | {name: sql_type_of(cells.get(name)) for name, sql_type_of in self._varying}

    def sql_type_of(self, cells: dict[str, Any]) -> Any:  # noqa: ANN401 - printed by msgspec: numbers by column
        """Return `sqlType` for a row where it depends on the values."""
        if type(cells) is TracedCells:
            choices = {name: choice_of(sql_type_of, cells[name]) for name, sql_type_of in self._varying}
            return self._plain | choices
        variant = tuple([sql_type_of(cells.get(name)) for name, sql_type_of in self._varying])
        found = self._sql_types.get((self._mark, variant))
        if found is None:
            sql_types = zip((name for name, _ in self._varying), variant, strict=True)
            found = msgspec.Raw(_to_json(self._plain | dict(sql_types)))
            size = _SQL_TYPES_BYTES + len(found) + _VARYING_BYTES * len(variant)
            self._sql_types.keep((self._mark, variant), found, size)
        return found


def _pk_names(schema: TableSchema) -> list[str]:
    """Return `pkNames`. The key stays as declared even if messages omit part of it."""
    key = schema.primary_key or ()
    named = [column.name for column in schema.columns if column.name in key]
    return named if len(named) == len(key) else list(key)


class TextPlan:
    """Converts one producer's text to another's; touches only the columns that they spell differently."""

    def __init__(self, protocol: str, reader: TextReader, types: DialectTypes, writer: TextWriter) -> None:
        self._protocol, self._writer = protocol, writer
        dialect = types.dialect
        self._loses_parameters = writer.loses_parameters
        if not dialect.with_parameters:
            self._loses_parameters = dialect.loses_parameters(reader.wire.known_types())
        self._differing: list[tuple[str, Callable[[str], Any]]] = []
        usual, styles = dialect.style, column_styles(reader.schema, dialect.style)
        converters = types.converters(reader.style)
        for name, index in zip(reader.wire.names, reader.indexes, strict=True):
            column_type, style = reader.schema.columns[index].type, styles[index]
            convert = reader.custom.get(name) or (
                converters[column_type] if style is usual else converter(column_type, reader.style, style)
            )
            if convert is not None:
                self._differing.append((name, reader.step(convert)))

    def write(self, change: RowChange) -> TextChange:
        """Return the change in the target's spelling; see `Plan`."""
        images: TextRows = change.images  # type: ignore[assignment]  # the plan is kept with their reader
        cells, old = images.cells, images.old
        if self._differing:
            try:
                cells = self._converted(cells)
                if old is not None:
                    old = self._converted(old)
            except (ValueError, ArithmeticError):
                # Malformed with the column's name if the source is to blame.
                raise self._writer.not_representable(self._protocol, images.before, images.after) from None
        return TextChange(self._writer, cells, old, self._loses_parameters)

    def _converted(self, cells: Cells) -> Cells:
        converted = cells
        for name, convert in self._differing:
            text = cells.get(name)
            if text is not None:
                other = convert(text)
                if other is not text:
                    converted = cells.copy() if converted is cells else converted
                    converted[name] = other
        return converted


class TypedPlan:
    """Converts another family's wire values (`relay.codecs.shared.rows`) to text in one step per column."""

    def __init__(self, protocol: str, reader: TypedReader, dialect: CanalDialect, writer: TextWriter) -> None:
        self._protocol, self._writer = protocol, writer
        columns, styles = reader.schema.columns, column_styles(reader.schema, dialect.style)
        writes = [value_writer(columns[at].type, styles[at]) for at in reader.indexes]
        self._cells = reader.row_function(writes, SHORTCUTS)
        if isinstance(reader, TracedReader):
            self._cells = reader.traced_cells(writes)

    def write(self, change: RowChange) -> TextChange:
        """Return the change in the target's spelling; see `Plan`."""
        images: TypedRows = change.images  # type: ignore[assignment]  # the plan is kept with their reader
        old, new = images.old, images.new
        try:
            cells = self._cells(old if new is None else new)  # type: ignore[arg-type]  # a change has an image
            before = self._cells(old) if change.op is UPDATE and old is not None else None
        except _UNFIT:
            # Malformed with the column's name if the source is to blame.
            raise self._writer.not_representable(self._protocol, images.before, images.after) from None
        return TextChange(self._writer, cells, before, self._writer.loses_parameters)


#: Pairs of functions that one function can replace.
SHORTCUTS: Final[dict[tuple[Read, Write | None], Convert]] = {
    (numbers.read_int, str): numbers.checked_int,
    (numbers.read_decimal, numbers.decimal_text): numbers.checked_decimal,
}


class TextWriters:
    """An encoder's writers and plans, by table version. `lost`: losses of the last row's values."""

    def __init__(self, protocol: str, dialect: CanalDialect, pool: CachePool) -> None:
        self.lost: list[Loss] = []
        unmoved = functools.partial(self.lost.append, Loss.ZERO_DATE)
        unlabeled = functools.partial(self.lost.append, Loss.ENUM_INDEX)
        style = msgspec.structs.replace(dialect.style, unmoved=unmoved, unlabeled=unlabeled)
        self._dialect = msgspec.structs.replace(dialect, style=style)
        self._types = DialectTypes(self._dialect)
        self._protocol = protocol
        self._sql_types: SqlTypeTexts = pool.part(_SQL_TYPES_SHARE).cache()
        self._writers: ByteCache[tuple[TableSchema, tuple[int, ...]], TextWriter] = pool.cache()

    def write(self, change: RowChange) -> TextChange:
        """Return the change as text. Raises NotRepresentable if it has no image of its operation."""
        if self.lost:
            self.lost.clear()
        images: Any = change.images
        # `isinstance` is slow if the result is False.
        if type(images) not in _WITH_READER and not isinstance(images, _WITH_READER):
            return self._write_canonical(change)
        plan: Plan | None = images.reader.plans.get(self)
        if plan is None:
            plan = images.reader.plans[self] = self._plan_for(images.reader)
        return plan(change)

    def _plan_for(self, reader: TextReader | TypedReader) -> Plan:
        """Return the plan for a reader's rows: direct if they have the target's columns in its order."""
        indexes = tuple(reader.possible_indexes)
        if reader.indexes != self._without_hidden(reader.schema, indexes):
            return self._write_canonical
        if isinstance(reader, TextReader) and not reader.is_plain:
            return self._write_canonical
        writer = self.writer_for(reader.schema, indexes)
        if isinstance(reader, TextReader):
            return TextPlan(self._protocol, reader, self._types, writer).write
        return TypedPlan(self._protocol, reader, self._dialect, writer).write

    def _write_canonical(self, change: RowChange) -> TextChange:
        """Write rows of any origin; see `Plan`."""
        before, after = change.before, change.after
        row = before if change.op is DELETE else after
        if row is None:
            raise NotRepresentable(self._protocol, "data", f"the {change.op.value} has no row image")
        shown = self._without_hidden(change.schema, present_indexes(change.images, row))
        if not shown:
            raise NotRepresentable(self._protocol, "data", "a row without columns")
        writer = self.writer_for(change.schema, shown)
        try:
            old = writer.cells(before) if change.op is UPDATE and before else None
            return TextChange(writer, writer.cells(row), old, writer.loses_parameters)
        except _UNFIT:
            raise writer.not_representable(self._protocol, before, after) from None

    def writer_for(self, schema: TableSchema, indexes: tuple[int, ...]) -> TextWriter:
        """Return the writer for columns at these indexes. Raises NotRepresentable for a nameless table."""
        found = self._writers.get((schema, indexes))
        if found is None:
            if not schema.id.table:
                raise NotRepresentable(self._protocol, "table", NAMELESS)
            found = TextWriter(schema, self._types, indexes, self._sql_types)
            columns = [schema.columns[at] for at in indexes]
            size = _WRITER_BYTES + columns_bytes(columns, _COLUMN_BYTES) + 2 * len(found.mysql_type)
            size += schema_bytes(schema)
            self._writers.keep((schema, indexes), found, size)
        return found

    def _without_hidden(self, schema: TableSchema, indexes: tuple[int, ...]) -> tuple[int, ...]:
        if self._dialect.with_virtual_columns:
            return indexes
        hidden = schema.hidden_indexes
        return tuple([at for at in indexes if at not in hidden]) if hidden else indexes
