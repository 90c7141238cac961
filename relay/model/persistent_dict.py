"""An immutable dict with cheap changed copies."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TypeVar, overload

_Value = TypeVar("_Value")
_Default = TypeVar("_Default")


class PersistentDict(Mapping[str, _Value]):
    """An immutable dict; copying it with one change costs little regardless of its size.

    A copy shares the lower layer and has its own small upper layer; when that has grown, both are merged.
    """

    def __init__(
        self, lower: dict[str, _Value] | None = None, upper: dict[str, _Value] | None = None
    ) -> None:
        self._lower, self._upper = lower or {}, upper or {}

    def with_one(self, key: str, value: _Value) -> PersistentDict[_Value]:
        """Return a copy in which `key` has this value."""
        upper = {**self._upper, key: value}
        if len(upper) * len(upper) > len(self._lower):
            return PersistentDict({**self._lower, **upper})
        return PersistentDict(self._lower, upper)

    @overload
    def get(self, key: str, /) -> _Value | None: ...

    @overload
    def get(self, key: str, /, default: _Default) -> _Value | _Default: ...

    def get(self, key: str, /, default: object = None) -> object:
        """Return the value, or the default."""
        found = self._upper.get(key)
        return self._lower.get(key, default) if found is None else found

    def differing(self, other: PersistentDict[_Value]) -> list[str]:
        """Find the keys with a value in only one of the two dicts, or with a different object.

        This is cheap if one was derived from the other by a few changes.
        """
        keys = self._upper.keys() | other._upper.keys()
        if self._lower is not other._lower:
            keys |= self._lower.keys() | other._lower.keys()
        return [key for key in keys if self.get(key) is not other.get(key)]

    def __getitem__(self, key: str) -> _Value:
        return self._upper[key] if key in self._upper else self._lower[key]

    def __iter__(self) -> Iterator[str]:
        yield from self._lower
        yield from (key for key in self._upper if key not in self._lower)

    def __len__(self) -> int:
        return len(self._lower.keys() | self._upper.keys())

    def __bool__(self) -> bool:
        # Evaluated for every row, so it does not count all keys.
        return bool(self._upper or self._lower)

    def __repr__(self) -> str:
        return repr(dict(self))
