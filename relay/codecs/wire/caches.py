"""Caches that together may take so many bytes, about.

Contract: what is kept could be forgotten at any time, and is, all at once, when it becomes more than the pool
may have. Sizes are estimates, which whoever keeps something gives.
"""

from __future__ import annotations

from typing import Any, Generic, TypeVar

Key = TypeVar("Key")
Kept = TypeVar("Kept")


class CachePool:
    """The bytes that several caches of one codec share."""

    __slots__ = ("_bytes", "_caches", "_most_bytes")

    def __init__(self, most_bytes: int) -> None:
        self._most_bytes, self._bytes = most_bytes, 0
        self._caches: list[ByteCache[Any, Any]] = []

    def cache(self) -> ByteCache[Any, Any]:
        """Return a new cache of this pool."""
        made: ByteCache[Any, Any] = ByteCache(self)
        self._caches.append(made)
        return made

    def spend(self, size: int) -> None:
        """Count bytes that are kept from now on; empty all caches first where there is no room for them."""
        if self._bytes + size > self._most_bytes:
            for cache in self._caches:
                cache.clear()
            self._bytes = 0
        self._bytes += size


class ByteCache(dict[Key, Kept], Generic[Key, Kept]):
    """One cache: a dict that is read as such, and written with `keep`."""

    def __init__(self, pool: CachePool) -> None:
        super().__init__()
        self._pool = pool

    def keep(self, key: Key, made: Kept, size: int) -> Kept:
        """Keep what was made, of about so many bytes, and return it."""
        self._pool.spend(size)
        self[key] = made
        return made
