"""Conversions of single values, by name.

A *read* makes a canonical value of a parsed JSON token, a *write* makes of that what `msgspec.json.encode`
prints. Here are functions that make them, of a conversion's parameters.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Final

Function = Callable[[object], object]


def _int() -> Function:
    def read(token: object) -> object:
        if not isinstance(token, str):
            raise TypeError(token)
        number = int(token)
        if str(number) != token:
            raise ValueError(token)
        return number

    return read


READS: Final[Mapping[str, Callable[..., Function]]] = {"int": _int}
WRITES: Final[Mapping[str, Callable[..., Function]]] = {"digits": lambda: str}
