"""Avro's binary encoding, as far as a fixed schema needs it: longs, text, bytes, blocks.

Reading beyond the data raises ValueError. Source: Apache Avro 1.12 specification, binary encoding.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Final, TypeVar

from relay.model.limits import DEFAULT_LIMITS

Item = TypeVar("Item")

_MOST_BITS: Final = 63
_LOW: Final = 0x7F
_MORE: Final = 0x80
#: Longs of one byte, the most frequent ones.
_SHORT: Final = [bytes((value << 1,)) for value in range(64)]


class TooManyItems(ValueError):
    """There are more items of arrays and maps than allowed."""


class SimpleAvroReader:
    """Reads data from an offset. `most_items`: maximum items of all arrays and maps together."""

    __slots__ = ("_at", "_data", "_items_left")

    def __init__(self, data: bytes, at: int = 0, most_items: int = DEFAULT_LIMITS.values) -> None:
        self._data, self._at, self._items_left = data, at, most_items

    @property
    def is_done(self) -> bool:
        """Return whether everything was read."""
        return self._at == len(self._data)

    def long(self) -> int:
        """Read a 64-bit integer. Raises ValueError."""
        data, at = self._data, self._at
        try:
            byte = data[at]
            at += 1
            value = byte & _LOW
            shift = 7
            while byte & _MORE:
                byte = data[at]
                at += 1
                value |= (byte & _LOW) << shift
                shift += 7
                if shift > _MOST_BITS + 7:
                    raise ValueError("a number beyond 64 bits")
        except IndexError:
            raise ValueError("the message is cut off") from None
        if value >> 64:
            raise ValueError("a number beyond 64 bits")
        self._at = at
        return (value >> 1) ^ -(value & 1)

    def take(self, size: int) -> bytes:
        """Read this many bytes. Raises ValueError."""
        end = self._at + size
        if size < 0 or end > len(self._data):
            raise ValueError("the message is cut off")
        found = self._data[self._at : end]
        self._at = end
        return found

    def data(self) -> bytes:
        """Read bytes with a length prefix. Raises ValueError."""
        return self.take(self.long())

    def text(self) -> str:
        """Read text. Raises ValueError, also for invalid UTF-8."""
        return self.take(self.long()).decode()

    def flag(self) -> bool:
        """Read a boolean. Raises ValueError."""
        (found,) = self.take(1)
        if found > 1:
            raise ValueError("neither true nor false")
        return found == 1

    def choice(self, names: tuple[str, ...]) -> str:
        """Read a symbol of an enumeration. Raises ValueError."""
        at = self.long()
        if not 0 <= at < len(names):
            raise ValueError("a symbol that the schema does not have")
        return names[at]

    def optional(self, read: Callable[[SimpleAvroReader], Item]) -> Item | None:
        """Read a nullable value. Raises ValueError."""
        branch = self.long()
        if branch not in {0, 1}:
            raise ValueError("a branch that the schema does not have")
        return read(self) if branch else None

    def items(self, read: Callable[[SimpleAvroReader], Item]) -> Iterator[Item]:
        """Read the items in the blocks of an array or a map. Raises ValueError and TooManyItems."""
        while count := self.long():
            if count < 0:
                count = -count
                self.long()  # the size of the block in bytes
            self._items_left -= min(count, len(self._data))
            if self._items_left < 0:
                raise TooManyItems
            for _ in range(count):
                yield read(self)


def avro_long(value: int) -> bytes:
    """Return a 64-bit integer as bytes. Raises OverflowError for a larger one."""
    if 0 <= value < len(_SHORT):
        return _SHORT[value]
    if value >> _MOST_BITS not in {0, -1}:
        raise OverflowError("a number beyond 64 bits")
    rest = (value << 1) ^ (value >> _MOST_BITS)
    found = bytearray()
    while rest > _LOW:
        found.append(rest & _LOW | _MORE)
        rest >>= 7
    found.append(rest)
    return bytes(found)


def avro_bytes(data: bytes) -> bytes:
    """Return bytes with a length prefix."""
    return avro_long(len(data)) + data


def avro_text(text: str) -> bytes:
    """Return text with a length prefix. Raises UnicodeError for lone surrogates."""
    return avro_bytes(text.encode())


def avro_flag(flag: bool) -> bytes:
    """Return a boolean as bytes."""
    return b"\x01" if flag else b"\x00"


def avro_optional(data: bytes | None) -> bytes:
    """Return a nullable value as bytes."""
    return b"\x00" if data is None else b"\x02" + data


def avro_block(items: Iterable[bytes]) -> bytes:
    """Return an array or a map of these items as bytes."""
    found = list(items)
    return avro_long(len(found)) + b"".join(found) + b"\x00" if found else b"\x00"
