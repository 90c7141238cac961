"""Selects the partition of a record in a topic with a configured number of partitions.

The names of the methods are TiCDC's, except `key`, which is the default of Kafka's own clients.
"""

from __future__ import annotations

import enum
import struct
import zlib
from collections.abc import Sequence
from typing import Final, final

import msgspec

from relay.model.events import ABSENT, RowChange, TableId, TableSchema


class Partitioning(enum.StrEnum):
    """How rows are distributed over partitions.

    SOURCE: The partition of the source's record. All other methods need a number of partitions.
    INDEX_VALUE: By table, and primary or unique key, regardless of the message's own key.
    TABLE: By table.
    KEY: By the record's key, as Kafka's clients do; by table if it has none.
    """

    SOURCE = "source"
    INDEX_VALUE = "index-value"
    TABLE = "table"
    KEY = "key"


@final
class ByKey(msgspec.Struct, frozen=True):
    """Destinations by key: the partition of a record, one of `count`, is known after it is encoded.

    `keyless`: the partition of records without a key.
    """

    topic: str
    count: int
    keyless: int

    def of(self, key: bytes | None) -> tuple[tuple[str, int]]:
        """Return the topic and partition of a record, like Kafka's clients."""
        return ((self.topic, self.keyless if key is None else (murmur2(key) & _POSITIVE) % self.count),)


_POSITIVE: Final = 0x7FFFFFFF
_ALL_BITS: Final = 0xFFFFFFFF
_MIX: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return the unsigned 32-bit hash of these bytes (Kafka's `Utils.murmur2`)."""
    length = len(data)
    found = _SEED ^ length
    for word in struct.unpack_from(f"<{length >> 2}I", data):
        mixed = word * _MIX & _ALL_BITS
        found = (found * _MIX ^ (mixed ^ mixed >> 24) * _MIX) & _ALL_BITS
    if rest := data[length & ~3 :]:
        found = (found ^ int.from_bytes(rest, "little")) * _MIX & _ALL_BITS
    found = (found ^ found >> 13) * _MIX & _ALL_BITS
    return found ^ found >> 15


def table_hash(table: TableId) -> int:
    """Return an unsigned 32-bit hash of a table's name."""
    return zlib.crc32(f"{table.database}\0{table.table}".encode())


def key_hash(change: RowChange) -> int:
    """Return a hash of the table and the row's key.

    The key is the one that the message declares, or the handle key if `message_key_columns` is None. Only the
    table is hashed if there is no key, or if the row lacks part of it: without a key, two changes of one row
    look like changes of two rows, so the whole table stays in one partition. DELETE uses the old key, all
    other changes the new one.

    The hash must be the same before and after DDL is read, or changes of one row would be out of order. It
    therefore depends on the message's own content, even for values of unknown types, and not on the order of
    columns.
    """
    found = table_hash(change.table)
    key = change.images.raw_key()
    for part in _key_cells(change) if key is None else key:
        found = zlib.crc32(b"\0" + repr(part).encode(), found)
    return found


def _key_cells(change: RowChange) -> Sequence[object]:
    """Return the cells of the key's columns, in the order of their names, without parsing other cells."""
    images = change.images
    indexes = key_indexes(change.schema, images.message_key_columns)
    if not indexes:
        return ()
    cells = images.cells_at(indexes, is_old=False)
    if cells is None:
        cells = images.cells_at(indexes, is_old=True)
    return () if cells is None or ABSENT in cells else cells


def key_indexes(schema: TableSchema, named: tuple[str, ...] | None) -> tuple[int, ...]:
    """Return the indexes of the columns of the message's key, or of the handle key if `named` is None.

    () if the table lacks some of the columns.
    """
    if named is None or frozenset(named) == frozenset(schema.handle_key()):
        return () if schema.lacks_key_columns else schema.handle_indexes
    indexes = schema.indexes_of(named) if named else ()
    return indexes if len(indexes) == len(frozenset(named)) else ()
