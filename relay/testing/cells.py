"""Check that the cells of decoded rows are values of their column's type, as encoders rely on it."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

from relay.model.events import ABSENT, Cell, Column, Event, RowChange
from relay.mysql.types import BINARIES, INTEGER_BITS

_TYPES: Final[dict[str, tuple[type, ...]]] = {
    **dict.fromkeys((*INTEGER_BITS, "year", "bit"), (int,)),
    **dict.fromkeys(("float", "double"), (float,)),
    **dict.fromkeys(("enum", "set"), (int, str)),
    **dict.fromkeys(BINARIES, (bytes,)),
    "decimal": (Decimal,),
}


def check_cells(event: Event) -> None:
    """Read the images of a row, and raise AssertionError for a cell of another type than its column's.

    An integer, YEAR or BIT is an int, FLOAT and DOUBLE a float, DECIMAL a Decimal, binary values bytes, ENUM
    and SET a number or, without known members, text; everything else is text.
    """
    if not isinstance(event, RowChange):
        return
    for image in (event.before, event.after):
        if image is None:
            continue
        columns = event.schema.columns
        assert type(image) is tuple
        assert len(image) == len(columns), "a row has a cell for each column, ABSENT where it has none"
        for column, cell in zip(columns, image, strict=True):
            assert is_canonical(column, cell), f"{column.name} {column.type.base}: {type(cell).__name__}"


def is_canonical(column: Column, cell: Cell) -> bool:
    """Return whether a cell is None, ABSENT, or a value of its column's type."""
    if cell is None or cell is ABSENT:
        return True
    return type(cell) in _TYPES.get(column.type.base, (str,))
