"""Conversions of single values, by name.

A *read* makes a canonical value of a parsed JSON token, a *write* makes of that what `msgspec.json.encode`
prints. Here are functions that make them, of a conversion's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

from relay.templates.ops import Conversion

Function = Callable[[object], object]


def _integer_text() -> Function:
    def read(token: object) -> object:
        if not isinstance(token, str):
            raise TypeError(token)
        number = int(token)
        if str(number) != token:
            raise ValueError(token)
        return number

    return read


def conversion_of(function: Callable[..., object]) -> Conversion | None:
    """Return the name of a column's function; None if it has none."""
    return getattr(function, "native", None)


READS: Final[Mapping[str, Callable[..., Function]]] = {"integer-text": _integer_text}
WRITES: Final[Mapping[str, Callable[..., Function]]] = {"integer-text": lambda: str}
