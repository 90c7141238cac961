"""Functions that write a row's cells, compiled once per table version as straight-line Python.

Contract: `RowWriter` is given every column's name and conversions. Names enter the code as literals only,
conversions by number.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

#: What is done to a column's cell, one after the other, and to NULL.
Steps = tuple[Callable[[Any], Any], ...]
Null = Callable[[], Any]
Nulls = Sequence[Null | None] | None


class RowWriter:
    """Turns cells in table order into a row in the target's spelling. Compiled once per table version.

    `values(cells)` gives `{column: target value}`, or a struct if it is to be one (`row_struct`), and raises
    what the conversions raise. `steps` are each column's conversions, one after the other; `nulls` what NULL
    becomes where it does not stay NULL.
    """

    def __init__(
        self, names: Sequence[str], steps: Sequence[Steps], nulls: Nulls = None, *, as_struct: bool = False
    ) -> None:
        nulls = [None] * len(names) if nulls is None else nulls
        self.values = _row_function(
            tuple(names), steps, nulls, row_struct(tuple(names)) if as_struct else None
        )


#: Columns of a row that are written by straight-line code; Python's compiler takes its time with more.
MOST_COLUMNS: Final = 1000
#: Column names that a struct's field cannot be renamed to.
UNNAMEABLE: Final = re.compile(r'["\\\x00-\x1f]').search


@functools.lru_cache(maxsize=4096)
def row_struct(names: tuple[str, ...]) -> type | None:
    """A struct with the fields `f0`, `f1` … that prints like `{column: value}`; it takes a third of a dict's
    time to make.

    None if the names cannot be a struct's.
    """
    if not 0 < len(names) <= MOST_COLUMNS or any(map(UNNAMEABLE, names)):
        return None
    fields = [f"f{at}" for at in range(len(names))]
    return msgspec.defstruct(
        "Row", [(field, Any) for field in fields], rename=dict(zip(fields, names, strict=True)), gc=False
    )


def _row_function(
    names: tuple[str, ...], steps: Sequence[Steps], nulls: Sequence[Null | None], row: type | None
) -> Callable[[Sequence[Any]], Any]:
    """The function that writes a row of these columns.

    As straight-line code, `return {'id': c0, 'at': None if c1 is None else s1_0(c1)}`: a loop over the
    columns costs five times as much. Names enter it as literals only.
    """
    if not 0 < len(names) <= MOST_COLUMNS:
        return lambda cells: {
            name: _converted(cell, each, null)
            for name, cell, each, null in zip(names, cells, steps, nulls, strict=True)
        }
    scope: dict[str, Any] = {"row": row}
    items = []
    for at, (each, null) in enumerate(zip(steps, nulls, strict=True)):
        text = f"c{at}"
        for number, step in enumerate(each):
            text = f"s{at}_{number}({text})"
            scope[f"s{at}_{number}"] = step
        scope[f"n{at}"] = null
        items.append(
            f"{'None' if null is None else f'n{at}()'} if c{at} is None else {text}" if each or null else text
        )
    if row is None:
        body = "{" + ", ".join(f"{name!r}: {item}" for name, item in zip(names, items, strict=True)) + "}"
    else:
        body = f"row({', '.join(items)})"
    cells = ", ".join(f"c{at}" for at in range(len(names)))
    exec(f"def values(cells):\n    {cells}, = cells\n    return {body}", scope)  # noqa: S102 - made of numbers and string literals
    return cast("Callable[[Sequence[Any]], Any]", scope["values"])


def _converted(cell: Any, steps: Steps, null: Null | None) -> Any:  # noqa: ANN401 - any wire's values
    if cell is None:
        return None if null is None else null()
    for step in steps:
        cell = step(cell)
    return cell
