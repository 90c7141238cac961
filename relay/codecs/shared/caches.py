"""Caches that share one approximate limit in bytes.

Cached objects may be dropped at any time; all are dropped at once when they exceed the pool's limit. Callers
estimate the sizes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Final, Generic, TypeVar

from relay.model.events import Column, ColumnType, TableSchema

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

    def part(self, share: int) -> CachePool:
        """Return a separate pool with 1/`share` of these bytes, for objects that change often."""
        most_bytes = self._most_bytes // share
        self._most_bytes -= most_bytes
        return CachePool(most_bytes)

    def spend(self, size: int) -> None:
        """Count bytes that are kept from now on; empty all caches first if they exceed the limit."""
        if self._bytes + size > self._most_bytes:
            for cache in self._caches:
                cache.clear()
            self._bytes = 0
        self._bytes += size


class ByteCache(dict[Key, Kept], Generic[Key, Kept]):
    """One cache: a dict that is read directly, and written with `keep`."""

    def __init__(self, pool: CachePool) -> None:
        super().__init__()
        self._pool = pool

    def keep(self, key: Key, made: Kept, size: int) -> Kept:
        """Keep an object of about `size` bytes, and return it."""
        self._pool.spend(size)
        self[key] = made
        return made


#: Maximum number of types in a `ByType`, and maximum total length of a type's own, charset and collation
#: names.
_MOST_TYPES: Final = 1_000
_LONGEST_TYPE: Final = 256


class ByType(dict[ColumnType, Kept], Generic[Kept]):
    """Objects made from a column type alone, shared by the columns of all tables.

    Not cached: ENUM and SET, whose members rarely recur, and types with long names.
    """

    def __init__(self, make: Callable[[ColumnType], Kept]) -> None:
        super().__init__()
        self._make = make

    def __missing__(self, column_type: ColumnType) -> Kept:
        made = self._make(column_type)
        names = column_type.base, column_type.charset or "", column_type.collation or ""
        if column_type.members is None and sum(map(len, names)) <= _LONGEST_TYPE:
            if len(self) >= _MOST_TYPES:
                self.clear()
            self[column_type] = made
        return made


#: The longest name that MySQL and TiDB have; messages may have longer ones.
_LONGEST_NAME: Final = 64
#: Approximate number of copies kept of a name, and memory of a label of ENUM or SET besides its text.
_COPIES: Final = 8
_LABEL_BYTES: Final = 120
#: Memory of a column of a definition that was made for a message, and that nothing else keeps.
_DEFINED_BYTES: Final = 250


def columns_bytes(columns: Iterable[Column], each: int) -> int:
    """Return the approximate memory of columns: `each` bytes, and more for long names or types."""
    size = 0
    for column in columns:
        size += each
        if len(column.name) > _LONGEST_NAME:
            size += _COPIES * len(column.name)
        members = column.type.members
        if members is not None:
            size += len(members) * _LABEL_BYTES + _COPIES * sum(map(len, members))
    return size


def schema_bytes(schema: TableSchema) -> int:
    """Return the approximate memory that a cache keeps alive with a definition: its names, and the columns of
    one that was made for a message; the catalog keeps all others anyway.
    """
    names = _COPIES * (len(schema.id.database) + len(schema.id.table))
    return names if schema.complete else names + columns_bytes(schema.columns, _DEFINED_BYTES)
