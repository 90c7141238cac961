"""Reads a broker's own log files: what became of every transaction, without asking a client library that
filters.

A segment is a row of record batches (Kafka documentation, section 5.3 "Message Format"). A control batch ends
the transaction of its producer id in this partition: type 0 of its key aborts it, type 1 commits it.
"""

from __future__ import annotations

import struct
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from chaos.verify import Fate

# Base offset, length, leader epoch, magic, checksum, attributes, last offset delta, two timestamps, producer
# id.
_HEADER = struct.Struct(">qiibIhiqqq")
_BEFORE_LENGTH_COUNTS = 12
_BATCH_HEADER = 61
_TRANSACTIONAL, _CONTROL = 0x10, 0x20
_ABORT = 0


class _Batch(NamedTuple):
    base: int
    last: int
    attributes: int
    producer: int
    body: bytes


class PartitionLog(NamedTuple):
    """The fate of every record by offset, without the markers themselves, and where the log ends."""

    fates: dict[int, Fate]
    end: int


def read_partition(folder: Path) -> PartitionLog:
    """Read the segments in a partition's folder."""
    end = 0
    fates: dict[int, Fate] = {}
    open_offsets: dict[int, list[int]] = {}
    for segment in sorted(folder.glob("*.log")):
        for batch in _batches(segment.read_bytes()):
            offsets, end = range(batch.base, batch.last + 1), batch.last + 1
            if batch.attributes & _CONTROL:
                fate = Fate.ABORTED if _marker(batch.body) == _ABORT else Fate.COMMITTED
                fates |= dict.fromkeys(open_offsets.pop(batch.producer, []), fate)
            elif batch.attributes & _TRANSACTIONAL:
                open_offsets.setdefault(batch.producer, []).extend(offsets)
                fates |= dict.fromkeys(offsets, Fate.OPEN)
            else:
                fates |= dict.fromkeys(offsets, Fate.PLAIN)
    return PartitionLog(fates, end)


def _batches(data: bytes) -> Iterator[_Batch]:
    at = 0
    while at + _BATCH_HEADER <= len(data):
        base, length, _, _, _, attributes, last_delta, _, _, producer = _HEADER.unpack_from(data, at)
        end = at + _BEFORE_LENGTH_COUNTS + length
        if length <= 0 or end > len(data):
            return
        yield _Batch(base, base + last_delta, attributes, producer, data[at + _BATCH_HEADER : end])
        at = end


def _marker(body: bytes) -> int:
    """The type of the marker in a control batch: its only record's key is a version and a type, two bytes
    each.
    """
    at = 0
    # Length, attributes (one byte), timestamp and offset deltas, length of the key.
    for is_varint in (True, False, True, True, True):
        while is_varint and body[at] & 0x80:
            at += 1
        at += 1
    return int(struct.unpack_from(">hh", body, at)[1])
