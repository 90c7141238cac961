"""The condition of a rule for one definition of a table: reads the columns that it needs, as values of CEL.

docs/filtering.md has the types of the values. Each is exact: a value that CEL cannot hold exactly fails.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from decimal import Context, Decimal
from typing import Any, Final, Protocol

from relay.model.errors import ConditionFailed
from relay.model.events import ABSENT, Cell, Column, TableSchema, Value
from relay.mysql.members import label_text
from relay.rules.rewriting import folded
from relay.rules.rows.expressions import ROW, EvaluationFailed, Expression
from relay.rules.rows.rules import ParsedRowRule

#: Converts a value of a column to that of CEL; raises ValueError.
Reader = Callable[[Any], Any]


class CellImages(Protocol):
    """The part of `Images` that conditions read."""

    def cells_at(self, indexes: Sequence[int], *, is_old: bool) -> list[Cell] | None:
        """Return cells of the row before or after the change, as in `Images`."""
        ...


class TableCondition:
    """The condition of a rule for rows of a definition. `target`: the name of the target's protocol.

    Raises ConditionFailed if the definition lacks a column of the expression.
    """

    def __init__(self, rule: ParsedRowRule, where: Expression, schema: TableSchema, target: str) -> None:
        self.evaluate = where.evaluate
        self.rule, self._where, self._schema, self._target = rule, where, schema, target
        self._names, self.indexes = self._columns()
        self._readers = [_reader(schema.columns[at]) for at in self.indexes]
        self._all: tuple[int, ...] = tuple(range(len(schema.columns))) if where.uses_row else ()
        self._all_readers = [_reader(schema.columns[at]) for at in self._all]

    @property
    def variables(self) -> list[tuple[str, int, Reader]]:
        """The variables of the expression: name, index of the column, how its values are read."""
        return list(zip(self._names, self.indexes, self._readers, strict=True))

    @property
    def reads_all(self) -> bool:
        """Whether the condition reads all columns of a row."""
        return self._where.uses_row

    def holds(self, images: CellImages, *, is_old: bool) -> bool | None:
        """Return whether the condition holds for the row before or after a change.

        None if it is unknown, because the image or a column that decides is absent. Raises ConditionFailed
        for a row for which the expression has no result, DecodeError for a malformed value.
        """
        cells = images.cells_at(self.indexes, is_old=is_old)
        if cells is None:
            return None
        values = self._values(self._names, self._readers, cells)
        is_partial = any(name not in values for name in self._where.columns)
        if self._all:
            row = images.cells_at(self._all, is_old=is_old) or ()
            names = [column.name for column in self._schema.columns]
            values[ROW] = self._values(names, self._all_readers, row)
            is_partial = is_partial or len(values[ROW]) < len(row)
        try:
            return self._where.evaluate(values)
        except EvaluationFailed as error:
            if is_partial:
                return None
            raise self.failed(str(error)) from None

    def failed(self, reason: str, column: str = "") -> ConditionFailed:
        """Return the error for a row."""
        text = f"`where` of rule {self.rule.number + 1} for rows of {self._schema.id}: {reason}"
        return ConditionFailed(self._target, column, text)

    def _columns(self) -> tuple[list[str], tuple[int, ...]]:
        """Return the names in the expression, and the indexes of their columns, in the order of these."""
        indexes = {folded(column.name): at for at, column in enumerate(self._schema.columns)}
        found: list[tuple[int, str]] = []
        for name in (*self._where.columns, *self._where.possible_columns):
            at = indexes.get(folded(name))
            if at is not None:
                found.append((at, name))
            elif name in self._where.columns and self._schema.complete:
                raise self.failed("the table has no such column", name)
        return [name for _, name in sorted(found)], tuple([at for at, _ in sorted(found)])

    def _values(
        self, names: Sequence[str], readers: Sequence[Reader], cells: Sequence[Cell]
    ) -> dict[str, Any]:
        """Return values by name, without absent ones. Raises ConditionFailed for one that CEL cannot hold."""
        values: dict[str, Any] = {}
        for name, read, cell in zip(names, readers, cells, strict=True):
            if cell is None:
                values[name] = None
            elif cell is not ABSENT:
                try:
                    values[name] = read(cell)
                except ValueError as error:
                    raise self.failed(str(error), name) from None
        return values


def _reader(column: Column) -> Reader:
    """Return the function that converts values of a column to those of CEL; it raises ValueError."""
    if column.type.base not in {"enum", "set"}:
        return _plain

    def labels(value: Value) -> str:
        if isinstance(value, str):
            return value
        if not value:
            return ""  # as MySQL stores an invalid ENUM, and the empty SET
        text = label_text(column.type, value) if isinstance(value, int) else None
        if text is None:
            raise ValueError("an ENUM or SET whose label is unknown")
        return text

    return labels


def _plain(value: Value) -> int | float | str | bytes:
    if type(value) is int:
        return _plain_integer(value)
    return number_of(value) if isinstance(value, Decimal) else value


def number_of(value: Decimal) -> int | float:
    """Return a DECIMAL as a number of CEL. Raises ValueError if that could change a comparison.

    A DECIMAL without fraction is an integer. Others are doubles: up to 15 digits before and after the point,
    different ones are different doubles in the same order.
    """
    if _exponent(value) >= 0:
        return _plain_integer(int(value))
    short = _EXACT.normalize(value)
    exponent = _exponent(short)
    digits = len(short.as_tuple().digits) + max(exponent, 0)
    if max(digits, -exponent) > _DOUBLE_DIGITS:
        raise ValueError(f"a DECIMAL of more than {_DOUBLE_DIGITS} digits, which CEL cannot compare exactly")
    return float(value)


def _plain_integer(value: int) -> int:
    if not _LEAST <= value <= _GREATEST:
        raise ValueError("a number of more than 64 bits")
    return value


def _exponent(value: Decimal) -> int:
    exponent = value.as_tuple().exponent
    return exponent if isinstance(exponent, int) else 0


#: The range of CEL's int and uint together.
_LEAST: Final = -(2**63)
_GREATEST: Final = 2**64 - 1
#: Decimal digits that a double always keeps.
_DOUBLE_DIGITS: Final = 15
#: Keeps all digits of a DECIMAL.
_EXACT: Final = Context(prec=100)
