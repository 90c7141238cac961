"""Functions that write a row's cells, compiled once per table version as loop-free Python.

`row_function` takes every column's name and conversions. Names enter the code as literals only, conversions
by number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Sequence
from typing import Any, Final, cast

import msgspec

from relay.codecs.shared.conversions import Steps

#: Makes the replacement of NULL.
Null = Callable[[], Any]
#: Converts cells in table order to a row in the target's spelling; raises the errors of the conversions.
RowFunction = Callable[[Sequence[Any]], Any]

#: Maximum columns of a row for loop-free code; Python's compiler is slow for more.
MAX_COLUMNS: Final = 1000
#: Number of rows of one kind before something is compiled for them: compiling costs as much as some rows, and
#: memory.
AT_USE: Final = 16
#: Column names that a struct's field cannot be renamed to.
UNNAMEABLE: Final = re.compile(r'["\\\x00-\x1f]').search


def is_due(uses: int) -> bool:
    """Return whether to compile at this row of its kind, counted from 1."""
    return uses == AT_USE


def row_struct(names: tuple[str, ...]) -> type | None:
    """Return a struct with the fields `f0`, `f1` … that prints like `{column: value}`; None if a struct
    cannot have the names.

    It is made in a third of a dict's time.
    """
    if not 0 < len(names) <= MAX_COLUMNS or any(map(UNNAMEABLE, names)):
        return None
    fields = [f"f{at}" for at in range(len(names))]
    return msgspec.defstruct(
        "Row", [(field, Any) for field in fields], rename=dict(zip(fields, names, strict=True)), gc=False
    )


def row_function(
    names: Sequence[str],
    steps: Sequence[Steps],
    nulls: Sequence[Null | None] | None = None,
    *,
    as_struct: bool = False,
) -> RowFunction:
    """Return the function that writes a row of these columns as `{column: target value}`, or `row_struct`.

    `steps`: each column's conversions; `nulls`: the replacement of NULL in a column where it does not stay
    NULL. The code is loop-free, `return {'id': c0, 'at': None if c1 is None else s1_0(c1)}`: a loop over the
    columns costs five times as much.
    """
    nulls = [None] * len(names) if nulls is None else nulls
    if not 0 < len(names) <= MAX_COLUMNS:
        return plain_row_function(names, steps, nulls)
    row = row_struct(tuple(names)) if as_struct else None
    scope: dict[str, Any] = {"row": row}
    items = []
    for at, (each, null) in enumerate(zip(steps, nulls, strict=True)):
        item = f"c{at}"
        for number, step in enumerate(each):
            item = f"s{at}_{number}({item})"
            scope[f"s{at}_{number}"] = step
        if each or null:
            scope[f"n{at}"] = null
            item = f"{'None' if null is None else f'n{at}()'} if c{at} is None else {item}"
        items.append(item)
    if row is None:
        body = "{" + ", ".join(f"{name!r}: {item}" for name, item in zip(names, items, strict=True)) + "}"
    else:
        body = f"row({', '.join(items)})"
    cells = ", ".join(f"c{at}" for at in range(len(names)))
    exec(f"def values(cells):\n    {cells}, = cells\n    return {body}", scope)  # noqa: S102 - made of numbers and string literals
    return cast("RowFunction", scope["values"])


def plain_row_function(
    names: Sequence[str], steps: Sequence[Steps], nulls: Sequence[Null | None]
) -> RowFunction:
    """Return the same function as a loop, which needs no compilation and always returns a dict."""
    return lambda cells: {
        name: _converted(cell, each, null)
        for name, cell, each, null in zip(names, cells, steps, nulls, strict=True)
    }


def _converted(cell: Any, steps: Steps, null: Null | None) -> Any:  # noqa: ANN401 - any wire's values
    if cell is None:
        return None if null is None else null()
    for step in steps:
        cell = step(cell)
    return cell
