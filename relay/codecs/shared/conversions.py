"""Conversions of a row's cells, and the steps from a wire value to a target's."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from relay.model.events import Value
from relay.mysql.conversion_names import extended_function
from relay.mysql.numbers import decimal_shortcut

#: Wire value to canonical value, canonical value to target value, and both combined. None takes NULL.
Read = Callable[[Any], Value]
Write = Callable[[Any], Any]
Convert = Callable[[Any], Any]
#: The conversions of a column's cell, applied in order.
Steps = tuple[Callable[[Any], Any], ...]


def conversion_steps(
    read: Read | None, write: Write | None, shortcuts: Mapping[tuple[Read, Write | None], Convert]
) -> Steps:
    """Return the steps from a wire value to the target's: a single one if one function does both."""
    if read is not None and (read, write) in shortcuts:
        return (shortcuts[read, write],)
    if read is not None and write is not None:
        both = decimal_shortcut(read, write)
        if both is not None:
            return (both,)
        usual = extended_function(read)
        both = shortcuts.get((usual, write)) or decimal_shortcut(usual, write)
        return (read, write) if both is None else (_with_fallback(both, read, write),)
    only = read or write
    return () if only is None else (only,)


def _with_fallback(both: Convert, read: Read, write: Write) -> Convert:
    """Return a function that tries `both`, and falls back to `read` and `write`."""

    def convert(value: Any) -> Any:  # noqa: ANN401 - any wire value
        try:
            return both(value)
        except ValueError:
            return write(read(value))

    return convert
