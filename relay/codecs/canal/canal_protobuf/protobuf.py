"""The Protocol Buffers wire format: reading and writing the fields of a message.

`fields` yields number and value of each field in order; the caller skips unknown ones. Only the field types
of Canal's messages are written: 64-bit numbers and bytes. Raises ValueError for bytes that are no message.
Source: Protocol Buffers "Encoding".
"""

from __future__ import annotations

from collections.abc import Iterator
from collections.abc import Set as AbstractSet
from typing import Final, NamedTuple

_VARINT, _FIXED64, _BYTES, _FIXED32 = 0, 1, 2, 5
_FIXED: Final = {_FIXED64: 8, _FIXED32: 4}
_CUT: Final = "a message that ends too early"
_UNKNOWN_KIND: Final = "a field with an unknown wire type"
#: A number of 64 bits takes ten bytes of seven.
_MOST_SHIFT: Final = 63
_MASK: Final = (1 << 64) - 1
_SIGN: Final = 1 << 63

#: Number and value of a field: an unsigned number, or bytes.
Field = tuple[int, int | bytes]


def fields(data: bytes) -> Iterator[Field]:
    """Yield the fields of a message. Raises ValueError, after the fields before the error."""
    for field in spans(data, 0, len(data)):
        value = data[field.value_start : field.end] if field.value is None else field.value
        yield field.number, value


def known_fields(data: bytes, known: AbstractSet[int]) -> list[Field] | None:
    """Return the fields of a message: a faster `fields` for the usual case.

    None if it is invalid, or has a field that is not `known`, is numbered above 15, or has a fixed-size wire
    type.
    """
    found: list[Field] = []
    at, end = 0, len(data)
    try:
        while at < end:
            # Most numbers take one byte.
            tag = data[at]
            size = data[at + 1]
            at += 2
            number = tag >> 3
            if tag >= 0x80 or number not in known:
                return None
            kind = tag & 7
            if size >= 0x80:
                size, at = varint_at(data, at - 1)
            if kind == _BYTES:
                start = at
                at += size
                if at > end:
                    return None
                found.append((number, data[start:at]))
            elif kind == _VARINT:
                found.append((number, size))
            else:
                return None
    except (IndexError, ValueError):
        return None
    return found


class FieldSpan(NamedTuple):
    """Positions of a field: the tag begins at `start`; the value, behind its size if it has one, is from
    `value_start` to `end`.

    `value`: the unsigned number; None for bytes and numbers of fixed width, which are `is_fixed`.
    """

    number: int
    start: int
    value_start: int
    end: int
    value: int | None
    is_fixed: bool


def spans(data: bytes, at: int, end: int) -> Iterator[FieldSpan]:
    """Yield the fields of a message between two offsets. Raises ValueError."""
    while at < end:
        start = at
        tag, at = varint_at(data, at)
        kind, number = tag & 7, None
        value_start = at
        if kind == _VARINT:
            number, at = varint_at(data, at)
        elif kind == _BYTES:
            size, value_start = varint_at(data, at)
            at = value_start + size
        elif kind in _FIXED:
            at += _FIXED[kind]
        else:
            raise ValueError(_UNKNOWN_KIND)
        if at > end:
            raise ValueError(_CUT)
        yield FieldSpan(tag >> 3, start, value_start, at, number, kind in _FIXED)


def varint_at(data: bytes, at: int) -> tuple[int, int]:
    """Return the number at an offset, and the offset of its end. Raises ValueError."""
    try:
        byte = data[at]
        at += 1
        if byte < 0x80:
            return byte, at
        number, shift = byte & 0x7F, 7
        while True:
            byte = data[at]
            at += 1
            number |= (byte & 0x7F) << shift
            if byte < 0x80:
                return number & _MASK, at
            shift += 7
            if shift > _MOST_SHIFT:
                raise ValueError("a number of more than ten bytes")
    except IndexError:
        raise ValueError(_CUT) from None


def signed(number: int) -> int:
    """Return an unsigned 64-bit number as a signed one."""
    return number - (1 << 64) if number >= _SIGN else number


def varint(number: int) -> bytes:
    """Return a number as a varint; a negative one as 64 bits."""
    number &= _MASK
    found = bytearray()
    while number >= 0x80:
        found.append(number & 0x7F | 0x80)
        number >>= 7
    found.append(number)
    return bytes(found)


def number_field(field: int, number: int) -> bytes:
    """Return a field with a number."""
    return varint(field << 3) + varint(number)


def bytes_field(field: int, data: bytes) -> bytes:
    """Return a field with bytes, text or a message."""
    return b"".join((varint(field << 3 | _BYTES), varint(len(data)), data))
