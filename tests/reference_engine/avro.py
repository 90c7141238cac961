"""Avro read as JSON, and written from it, in Python: the specification of what the kernel does with
`relay.templates.avro_ops`.

What it refuses, the kernel refuses; what the kernel reads or writes, becomes the same here.
"""

from __future__ import annotations

import base64
import math
import struct
from collections.abc import Iterable, Iterator
from typing import Final

import msgspec

from relay.templates.avro_ops import (
    AvroOp,
    Branch,
    Fixed,
    Items,
    Map,
    Nullable,
    Plain,
    PlainKind,
    Record,
    Symbols,
    Union,
)

_print = msgspec.json.Encoder().encode
_parse = msgspec.json.Decoder().decode
_MORE: Final = 0x80
#: The most bytes that an integer has, and the most bits.
_MOST_BYTES: Final = 10
_UNSIGNED_END: Final = 1 << 64
_BITS: Final = {"int": 32, "long": 64}


class _Misfit(Exception):
    """The bytes are not read here."""


def scalars(op: AvroOp) -> Iterator[AvroOp]:
    """Give the types of the scalar values of a value, in order. Raises ValueError for other types."""
    if isinstance(op, Record):
        for _, field in op.fields:
            yield from scalars(field)
    elif isinstance(op, Branch):
        yield from scalars(op.op)
    elif isinstance(op, Map):
        if len({name for name, _ in op.entries}) < len(op.entries):
            raise ValueError("two entries have the same name")
        for _, value in op.entries:
            _check_scalar(value)
            yield value
    else:
        _check_scalar(op)
        yield op


def _check_scalar(op: AvroOp) -> None:
    if isinstance(op, Union):
        for branch in op.branches:
            _check_scalar(branch)
    elif isinstance(op, Nullable):
        _check_scalar(op.op)
    elif not isinstance(op, Plain | Fixed):
        raise ValueError("not a record of scalar values")  # noqa: TRY004 - of a template, not of an argument


def tokens(op: AvroOp, data: bytes, at: int) -> tuple[list[bytes], int] | None:
    """Return the JSON of the scalar values of the value at an offset, and the offset behind it; None if it is not
    read here.
    """
    reading = _Reading(data, at)
    try:
        return list(reading.scalars(op)), reading.at
    except _Misfit:
        return None


def marked_values(kinds: Iterable[str], data: bytes, at: int) -> int | None:
    """Return the offset behind values of these kinds (`relay.templates.ops.Marker`); None if they are not there."""
    reading = _Reading(data, at)
    try:
        for kind in kinds:
            reading.skip(kind)
    except _Misfit:
        return None
    return reading.at


class AvroText:
    """Makes JSON of values with one schema (`relay.templates.engine.AvroReader`)."""

    def __init__(self, head: bytes, op: AvroOp, end: bytes) -> None:
        self._head, self._op, self._end = head, op, end

    def text(self, data: bytes, start: int) -> bytes | None:
        """Return the JSON of the value that bytes hold from `start` on; None if it is not read here."""
        reading = _Reading(data, start)
        try:
            printed = b"".join(reading.value(self._op))
        except _Misfit:
            return None
        return self._head + printed + self._end if reading.is_at_end else None


class _Reading:
    """Bytes being read."""

    def __init__(self, data: bytes, at: int) -> None:
        self._data, self.at = data, at

    @property
    def is_at_end(self) -> bool:
        """Whether all bytes were read."""
        return self.at == len(self._data)

    def skip(self, kind: str) -> None:
        """Read a `long` or a `string`, whatever text it is. Raises _Misfit."""
        number = self._integer(64)
        if kind == "string":
            self._bytes(number)

    def scalars(self, op: AvroOp) -> Iterator[bytes]:
        """Give the JSON of each scalar value. Raises _Misfit."""
        if isinstance(op, Record):
            for _, field in op.fields:
                yield from self.scalars(field)
        elif isinstance(op, Branch):
            self._check_branch(op.number)
            yield from self.scalars(op.op)
        elif isinstance(op, Map):
            yield from self._entries(op)
        else:
            yield b"".join(self.value(op))

    def _entries(self, op: Map) -> list[bytes]:
        ops = dict(op.entries)
        found: dict[bytes, bytes] = {}
        while count := self._integer(64):
            if not 0 < count <= len(ops) - len(found):
                raise _Misfit
            for _ in range(count):
                name = self._bytes(self._integer(64))
                if name in found or name not in ops:
                    raise _Misfit
                found[name] = b"".join(self.value(ops[name]))
        if len(found) < len(ops):
            raise _Misfit
        return [found[name] for name in ops]

    def _is_present(self, op: Nullable) -> bool:
        is_present = self._data.startswith(op.before, self.at)
        if self._bytes(len(op.before) if is_present else 1) != (op.before if is_present else b"\0"):
            raise _Misfit
        return is_present

    def _check_branch(self, index: int) -> None:
        if self._integer(64) != index:
            raise _Misfit

    def value(self, op: AvroOp) -> Iterator[bytes]:
        """Give the pieces of a value's JSON. Raises _Misfit."""
        if isinstance(op, Plain):
            yield self._plain(op)
        elif isinstance(op, Fixed):
            yield _print(self._bytes(op.size))
        elif isinstance(op, Symbols):
            yield op.texts[self._number(len(op.texts))]
        elif isinstance(op, Union):
            yield from self.value(op.branches[self._number(len(op.branches))])
        elif isinstance(op, Branch):
            self._check_branch(op.number)
            yield from self.value(op.op)
        elif isinstance(op, Nullable):
            yield from self.value(op.op if self._is_present(op) else Plain("null"))
        elif isinstance(op, Record):
            yield from self._record(op)
        elif isinstance(op, Items):
            yield from self._items(op)
        else:
            raise _Misfit

    def _record(self, op: Record) -> Iterator[bytes]:
        yield b"{"
        for at, (name, field) in enumerate(op.fields):
            if at:
                yield b","
            yield name
            yield from self.value(field)
        yield b"}"

    def _items(self, op: Items) -> Iterator[bytes]:
        yield b"["
        is_first = True
        while count := self._integer(64):
            if count < 0:
                raise _Misfit
            for _ in range(count):
                before = self.at
                yield b"" if is_first else b","
                is_first = False
                yield from self.value(op.item)
                if self.at == before:
                    raise _Misfit
        yield b"]"

    def _plain(self, op: Plain) -> bytes:
        kind = op.kind
        if kind == "null":
            return b"null"
        if kind == "boolean":
            return (b"false", b"true")[self._one_of(self._bytes(1)[0], 2)]
        if kind in _BITS:
            return b"%d" % self._integer(_BITS[kind])
        if kind == "unsigned":
            return b"%d" % (self._integer(64) % _UNSIGNED_END)
        if kind == "uint64":
            return b"%d" % int.from_bytes(self._bytes(8), "big")
        if kind == "float":
            return _finite(struct.unpack("<f", self._bytes(4))[0])
        if kind == "double":
            return _finite(struct.unpack("<d", self._bytes(8))[0])
        data = self._bytes(self._integer(64))
        return _print(data) if kind == "bytes" else _string(data)

    def _number(self, end: int) -> int:
        return self._one_of(self._integer(64), end)

    @staticmethod
    def _one_of(number: int, end: int) -> int:
        if not 0 <= number < end:
            raise _Misfit
        return number

    def _integer(self, bits: int) -> int:
        number = 0
        for count in range(_MOST_BYTES):
            byte = self._bytes(1)[0]
            number |= (byte & ~_MORE) << (7 * count)
            if byte < _MORE:
                break
        else:
            raise _Misfit
        if number >= 1 << bits:
            raise _Misfit
        return (number >> 1) ^ -(number & 1)

    def _bytes(self, size: int) -> bytes:
        found = self._data[self.at : self.at + size] if size >= 0 else b""
        if len(found) != size:
            raise _Misfit
        self.at += size
        return found


def _finite(number: float) -> bytes:
    if not math.isfinite(number):
        raise _Misfit
    return _print(number)


def _string(data: bytes) -> bytes:
    try:
        return _print(data.decode())
    except UnicodeDecodeError:
        raise _Misfit from None


# ---------------------------------------------------------------- written


class AvroBody:
    """Makes Avro of JSON with one schema (`relay.templates.engine.AvroWriter`)."""

    def __init__(self, head: bytes, op: AvroOp, end: bytes) -> None:
        self._head, self._op, self._end = head, op, end

    def body(self, text: bytes) -> bytes | None:
        """Return the Avro of the value that a text holds; None if it is not written here."""
        inside = text[len(self._head) : len(text) - len(self._end)]
        if text != self._head + inside + self._end:
            return None
        try:
            return b"".join(_written(self._op, _parse(inside)))
        except (_Misfit, msgspec.DecodeError, UnicodeDecodeError, RecursionError):
            return None


def _written(op: AvroOp, value: object) -> Iterator[bytes]:
    """Give the pieces of a JSON value's Avro. Raises _Misfit."""
    if isinstance(op, Plain):
        yield _plain_written(op.kind, value)
    elif isinstance(op, Union):
        yield from _written(_branch(op, value), value)
    elif isinstance(op, Branch):
        yield _long(op.number)
        yield from _written(op.op, value)
    elif isinstance(op, Nullable):
        yield b"\0" if value is None else op.before
        yield from _written(Plain("null") if value is None else op.op, value)
    elif isinstance(op, Record):
        yield from _record_written(op, value)
    elif isinstance(op, Items) and isinstance(value, list):
        yield _long(len(value)) if value else b""
        for each in value:
            yield from _written(op.item, each)
        yield _long(0)
    else:
        raise _Misfit


def _record_written(op: Record, value: object) -> Iterator[bytes]:
    names = [_parse(name[:-1]) for name, _ in op.fields]
    if not isinstance(value, dict) or list(value) != names:
        raise _Misfit
    for (_, field), each in zip(op.fields, value.values(), strict=True):
        yield from _written(field, each)


def _branch(op: Union, value: object) -> Branch:
    """Return the branch of a value in a union of null and one type. Raises _Misfit for other unions."""
    nulls = [branch == Plain("null") for branch in op.branches]
    if sorted(nulls) != [False, True]:
        raise _Misfit
    number = nulls.index(value is None)
    return Branch(number, op.branches[number])


def _plain_written(kind: PlainKind, value: object) -> bytes:
    if kind == "null" and value is None:
        return b""
    if kind == "boolean" and isinstance(value, bool):
        return b"\1" if value else b"\0"
    if isinstance(value, bool):
        raise _Misfit
    if kind in _BITS and isinstance(value, int) and -(1 << _BITS[kind]) <= 2 * value < 1 << _BITS[kind]:
        return _long(value)
    if kind == "unsigned" and isinstance(value, int) and 0 <= value < _UNSIGNED_END:
        return _long(value if value < _UNSIGNED_END >> 1 else value - _UNSIGNED_END)
    if kind == "uint64" and isinstance(value, int) and 0 <= value < _UNSIGNED_END:
        return value.to_bytes(8, "big")
    if kind in {"float", "double"} and isinstance(value, int | float):
        return _real(kind, value)
    if kind == "string" and isinstance(value, str):
        return _sized(value.encode())
    if kind == "bytes" and isinstance(value, str):
        return _sized(_of_base64(value))
    raise _Misfit


def _real(kind: PlainKind, value: float) -> bytes:
    try:
        number = float(value)
        return struct.pack("<f" if kind == "float" else "<d", number)
    except OverflowError:
        if kind == "float" and isinstance(value, float):
            return struct.pack("<f", math.copysign(math.inf, value))
        raise _Misfit from None


def _of_base64(text: str) -> bytes:
    try:
        return base64.b64decode(text, validate=True)
    except ValueError:
        raise _Misfit from None


def _sized(data: bytes) -> bytes:
    return _long(len(data)) + data


def _long(value: int) -> bytes:
    number = value << 1 if value >= 0 else ~(value << 1)
    found = bytearray()
    while number >= _MORE:
        found.append(number & ~_MORE & 0xFF | _MORE)
        number >>= 7
    found.append(number)
    return bytes(found)
