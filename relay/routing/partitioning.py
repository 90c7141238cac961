"""Which partition of its topic a record goes to, of a number of partitions that is configured.

The words of the choices are TiCDC's, but for `key`: that is what Kafka's own clients do by default.
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
    """How rows are spread. SOURCE keeps the partition of the source's record; all others need a number of
    partitions.

    INDEX_VALUE: by table, and primary or unique key, whatever the message's own key is. TABLE: by table. KEY:
    by the record's key, as Kafka's clients do; by table where it has none.
    """

    SOURCE = "source"
    INDEX_VALUE = "index-value"
    TABLE = "table"
    KEY = "key"


@final
class ByKey(msgspec.Struct, frozen=True):
    """Places of records by their keys: in which of `count` partitions of a topic each goes is known once it
    is encoded. `keyless`: the partition of records without a key.
    """

    topic: str
    count: int
    keyless: int

    def of(self, key: bytes | None) -> tuple[tuple[str, int]]:
        """Return topic and partition of a record, as Kafka's clients choose it."""
        return ((self.topic, self.keyless if key is None else (murmur2(key) & _POSITIVE) % self.count),)


_POSITIVE: Final = 0x7FFFFFFF
_ALL_BITS: Final = 0xFFFFFFFF
_MIX: Final = 0x5BD1E995
_SEED: Final = 0x9747B28C


def murmur2(data: bytes) -> int:
    """Return the hash of these bytes, 32 bits without a sign (Kafka's `Utils.murmur2`)."""
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
    """Return a hash of a table's name, 32 bits without a sign."""
    return zlib.crc32(f"{table.database}\0{table.table}".encode())


def key_hash(change: RowChange) -> int:
    """A hash of the table and the row's key: the key that the message names or, where every message tells as
    much as a definition does, the handle key; the table alone if there is none, or the row lacks part of it.

    It must be the same before and after DDL is learned, or changes of one row would be out of order: so it
    rests on what the message says, also of values whose types it does not tell, and on no order of columns.
    Without a key two changes of one row cannot be told apart from changes of two rows, so the whole table
    stays together. The old key counts for DELETE, the new one otherwise.
    """
    found = table_hash(change.table)
    key = change.images.raw_key()
    for part in _key_cells(change) if key is None else key:
        found = zlib.crc32(b"\0" + repr(part).encode(), found)
    return found


def _key_cells(change: RowChange) -> Sequence[object]:
    """The cells of the key's columns, in the order of their names; none of the row's others is read."""
    images = change.images
    places = _key_places(change.schema, images.message_key_columns)
    if not places:
        return ()
    cells = images.cells_at(places, is_old=False)
    if cells is None:
        cells = images.cells_at(places, is_old=True)
    return () if cells is None or ABSENT in cells else cells


def _key_places(schema: TableSchema, named: tuple[str, ...] | None) -> tuple[int, ...]:
    """Where the columns of the key that a message names stand, of the handle key if it names none (None);
    none if the table lacks some of them.
    """
    if named is None or frozenset(named) == frozenset(schema.handle_key()):
        return () if schema.lacks_key_columns else schema.handle_places
    places = schema.places_of(named) if named else ()
    return places if len(places) == len(frozenset(named)) else ()
