"""Writing rows of any origin as `{column: target value}`.

An encoder describes its rows as a `RowTarget`, and its `TypedWriters` write them: from wire values in one
step per column if the decoder kept them (`TypedRows`), else from canonical values. The compiled functions are
a cache that may be emptied at any time.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from types import MappingProxyType
from typing import Any, Final, Generic, Protocol, TypeVar

from relay.codecs.losses import Loss
from relay.codecs.shared.caches import ByteCache, CachePool, columns_bytes, schema_bytes
from relay.codecs.shared.compiled import Null, RowFunction, is_due, plain_row_function, row_function
from relay.codecs.shared.conversions import Convert, Read, Write, conversion_steps
from relay.codecs.shared.rows import HalfRows, LazyRows, TypedReader, TypedRows, TypeInfo, present_indexes
from relay.codecs.shared.tables import NAMELESS
from relay.model.errors import NotRepresentable
from relay.model.events import ABSENT, Column, Generated, Images, Op, Row, RowChange, TableSchema

#: An encoder's facts of one table version: key columns, a schema block …
_Plan = TypeVar("_Plan")

#: Memory of a plan of a table version besides its own `plan_bytes`, and of the function that writes rows of
#: some columns, base and per column (measured with CPython 3.11).
_PLAN_BYTES: Final = 1_000
_FUNCTION_BYTES: Final = 3_000
_FUNCTION_COLUMN_BYTES: Final = 450
# Python 3.11 resolves `Op.DELETE` through a descriptor, which costs a function call; this is used for every
# row.
_DELETE: Final = Op.DELETE
_UNTYPED: Final = TypeInfo(types=False, parameters=False)

#: A change in the target's spelling, columns in table order: the plan, the row before and after (None: there
#: is none), and the losses of every row like this one. ABSENT columns are omitted.
Written = tuple[_Plan, Any, Any, tuple[Loss, ...]]


class RowTarget(Protocol[_Plan]):
    """An encoder's description of its rows; `TypedWriters` reads it once per table version."""

    #: Pairs of a source's read and this target's write, with one function that does both.
    shortcuts: Mapping[tuple[Read, Write | None], Convert] = MappingProxyType({})
    #: Whether rows with every column of their table are structs (`row_struct`).
    has_structs: bool = False
    #: Whether updates have a before-image.
    has_before: bool = True
    #: Whether virtual generated columns are written, of rows that have them.
    has_virtual: bool = False

    def plan(self, schema: TableSchema) -> _Plan:
        """Return the encoder's facts of a table besides the values of its rows."""
        ...

    def plan_bytes(self, plan: _Plan) -> int:
        """Return the approximate memory of a plan in bytes."""
        ...

    def plan_of(self, reader: TypedReader, plan: _Plan) -> _Plan:  # noqa: ARG002 - most wires have no more facts
        """Return the plan for rows of a reader, given its table version's: another one if both use the same
        wire and the messages differ from the definition.
        """
        return plan

    def columns_of(self, schema: TableSchema) -> Sequence[Column]:
        """Return a table's columns in the target, which may have other names and allow NULL."""
        return schema.columns

    def losses(self, plan: _Plan, type_info: TypeInfo) -> tuple[Loss, ...]:
        """Return the losses of every row of a table, given the type facts in the source's messages."""
        ...

    def write_of(self, column: Column) -> Write | None:
        """Return the writing function of the column's canonical values; None if it changes nothing."""
        ...

    def null_of(self, column: Column) -> Null | None:  # noqa: ARG002 - most targets have one NULL
        """Return the function that makes the replacement of NULL in this column; None if it stays NULL."""
        return None


class TypedWriters(Generic[_Plan]):
    """An encoder's row functions and plans, by table version.

    Virtual generated columns are omitted, unless the target has them; TiCDC's formats never do.
    """

    def __init__(self, protocol: str, target: RowTarget[_Plan], pool: CachePool) -> None:
        self._protocol, self._target, self._has_before = protocol, target, target.has_before
        self._plans: ByteCache[TableSchema, _Plan] = pool.cache()
        self._functions: ByteCache[tuple[TableSchema, tuple[int, ...] | None], _RowWriter] = pool.cache()

    def write(self, change: RowChange) -> Written[_Plan]:
        """Return both images. Raises NotRepresentable for a missing image, one without columns, or a value
        unfit for its type.
        """
        images = change.images
        # `isinstance` is slow if the result is False.
        if type(images) is not TypedRows:
            typed = images.typed(has_before=self._has_before) if isinstance(images, LazyRows) else None
            if typed is None:
                return self._write_canonical(change)
            images = typed
        write: _WriteTyped[_Plan] | None = images.reader.plans.get(self)
        if write is None:
            write = images.reader.plans[self] = self._first_writer_for(images.reader)
        return write(change, images)

    def _first_writer_for(self, reader: TypedReader) -> _WriteTyped[_Plan]:
        """Return the function that writes changes with this reader until a better one is compiled."""
        plain, uses = self._writer_for(reader, is_compiled=False), 0

        def write(change: RowChange, images: TypedRows) -> Written[_Plan]:
            nonlocal uses
            uses += 1
            if is_due(uses):
                compiled = reader.plans[self] = self._writer_for(reader)
                return compiled(change, images)
            return plain(change, images)

        return write

    def _writer_for(self, reader: TypedReader, *, is_compiled: bool = True) -> _WriteTyped[_Plan]:
        """Return the function that writes changes with this reader: in one step per column if the target has
        all of them.
        """
        target, schema = self._target, reader.schema
        plan = target.plan_of(reader, self.plan(schema))
        shown = target.columns_of(schema)
        columns = [shown[at] for at in reader.indexes]
        if not self._hidden_indexes(schema).isdisjoint(reader.indexes):
            return lambda change, _: self._write_canonical(change)
        values = reader.row_function(
            [target.write_of(column) for column in columns],
            target.shortcuts,
            [target.null_of(column) for column in columns],
            names=[column.name for column in columns],
            as_struct=is_compiled and self._is_struct(schema, reader.indexes),
            is_compiled=is_compiled,
        )
        has_before = target.has_before
        losses = target.losses(plan, reader.type_info)

        def write(change: RowChange, images: TypedRows) -> Written[_Plan]:
            old, new = images.old, images.new
            if not has_before and new is not None:
                old = None
            try:
                return (
                    plan,
                    None if old is None else values(old),
                    None if new is None else values(new),
                    losses,
                )
            except _UNFIT:
                # Malformed with the column if the source is to blame.
                before = change.images.before if has_before or new is None else None
                after = change.images.after
                raise self._not_representable(schema, before, after) from None

        return write

    def _write_canonical(self, change: RowChange) -> Written[_Plan]:
        images, is_delete = change.images, change.op is _DELETE
        # Errors of the table come before any value is read, as in `_writer_for`.
        plan = self.plan(change.schema)
        before = images.before if is_delete or self._has_before else None
        after = images.after
        if (before if is_delete else after) is None:
            raise NotRepresentable(self._protocol, "", f"the {change.op.value} has no row image")
        # CKafka's rows have no reader, and its messages have no types.
        whole = images.images if isinstance(images, HalfRows) else images
        reader: Any = getattr(whole, "reader", None)
        if isinstance(reader, TypedReader):
            plan = self._target.plan_of(reader, plan)
        losses = self._target.losses(plan, _UNTYPED if reader is None else reader.type_info)
        return plan, self._row(change.schema, images, before), self._row(change.schema, images, after), losses

    def plan(self, schema: TableSchema) -> _Plan:
        """Return the target's plan for a table version, made once."""
        found = self._plans.get(schema)
        if found is None:
            if not schema.id.table:
                raise NotRepresentable(self._protocol, "", NAMELESS)
            found = self._target.plan(schema)
            size = _PLAN_BYTES + self._target.plan_bytes(found) + schema_bytes(schema)
            self._plans.keep(schema, found, size)
        return found

    def _row(self, schema: TableSchema, images: Images, row: Row | None) -> Any:  # noqa: ANN401 - a class made at run time
        if row is None:
            return None
        indexes = None if ABSENT not in row else present_indexes(images, row)
        values, indexes = self._functions.get((schema, indexes)) or self._first_function(schema, indexes)
        if not indexes:
            raise NotRepresentable(self._protocol, "", "a row without columns")
        try:
            return values([row[at] for at in indexes])
        except _UNFIT:
            raise self._not_representable(schema, row) from None

    def _not_representable(self, schema: TableSchema, *rows: Row | None) -> NotRepresentable:
        """Return the error about the first column whose value cannot be written; it quotes no value."""
        path, columns = "", self._target.columns_of(schema)
        for column, cell in (pair for row in rows if row for pair in zip(columns, row, strict=True)):
            write = self._target.write_of(column)
            if write is None or cell is None or cell is ABSENT or column.generated is Generated.VIRTUAL:
                continue
            try:
                write(cell)
            except _UNFIT:
                path = column.name
                break
        reason = "a value is not of its column's type, or the target cannot represent it"
        return NotRepresentable(self._protocol, path, reason)

    def _first_function(self, schema: TableSchema, indexes: tuple[int, ...] | None) -> _RowWriter:
        """Return the function for some of a table's columns (None: all), and the indexes of the written ones.

        It is compiled after some rows with these columns.
        """
        hidden = self._hidden_indexes(schema)
        shown = tuple(
            [at for at in (range(len(schema.columns)) if indexes is None else indexes) if at not in hidden]
        )
        all_columns = self._target.columns_of(schema)
        columns = [all_columns[at] for at in shown]
        names = [column.name for column in columns]
        steps = [conversion_steps(None, self._target.write_of(column), {}) for column in columns]
        nulls = [self._target.null_of(column) for column in columns]
        plain, uses = plain_row_function(names, steps, nulls), 0
        size = _FUNCTION_BYTES + columns_bytes(columns, _FUNCTION_COLUMN_BYTES) + schema_bytes(schema)

        def values(cells: Sequence[Any]) -> Any:  # noqa: ANN401 - a class made at run time
            nonlocal uses
            uses += 1
            if not is_due(uses):
                return plain(cells)
            compiled = row_function(names, steps, nulls, as_struct=self._is_struct(schema, shown))
            self._functions[schema, indexes] = compiled, shown
            return compiled(cells)

        return self._functions.keep((schema, indexes), (values, shown), size)

    def _is_struct(self, schema: TableSchema, indexes: tuple[int, ...]) -> bool:
        """Return whether rows with the columns at these indexes, all written, are structs."""
        shown = len(schema.columns) - len(self._hidden_indexes(schema))
        return self._target.has_structs and len(indexes) == shown

    def _hidden_indexes(self, schema: TableSchema) -> frozenset[int]:
        """Return the indexes of the columns of a table version that the target omits."""
        return _NOTHING if self._target.has_virtual else schema.hidden_indexes


_NOTHING: Final[frozenset[int]] = frozenset()
#: Writes a change whose images are, or can be converted to, cells with a certain reader.
_WriteTyped = Callable[[RowChange, TypedRows], Written[_Plan]]
#: Converts the canonical cells at certain indexes to a row of the target.
_RowWriter = tuple[RowFunction, tuple[int, ...]]
#: Errors that conversions raise for values of another type than the column's.
_UNFIT: Final = (ValueError, ArithmeticError, TypeError, AttributeError, LookupError)
