"""The contract of codecs fails for a row whose cells are not of their columns' types."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest

from relay import ABSENT, Column, ColumnType, Op, RowChange, Rows, Source, TableId, TableSchema
from relay.testing.wires import check_cells

CELLS = [
    ("varchar", {"a": 1}, False),
    ("varchar", b"a", False),
    ("varchar", "a", True),
    ("int", "1", False),
    ("int", True, False),
    ("int", 2**64 - 1, True),
    ("double", 1, False),
    ("double", 1.0, True),
    ("decimal", 1.1, False),
    ("decimal", Decimal("1.10"), True),
    ("blob", "a", False),
    ("blob", b"\xff", True),
    ("datetime", 0, False),
    ("datetime", "0000-00-00 00:00:00", True),
    ("int", None, True),
    ("int", ABSENT, True),
]


def change(column_type: str, *cells: Any) -> RowChange:
    schema = TableSchema(TableId("d", "t"), (Column("c", ColumnType(column_type)),))
    return RowChange(Op.INSERT, schema, Rows(None, cells), Source("test", 0), 0)


@pytest.mark.parametrize(("column_type", "cell", "is_canonical"), CELLS)
def test_a_cell_has_its_columns_type(column_type: str, cell: object, is_canonical: bool) -> None:
    row = change(column_type, cell)
    if is_canonical:
        check_cells(row)
        return
    with pytest.raises(AssertionError, match=rf"^c {column_type}: {type(cell).__name__}"):
        check_cells(row)


def test_a_row_has_a_cell_for_each_column() -> None:
    with pytest.raises(AssertionError, match="a cell for each column"):
        check_cells(change("int", 1, 2))
