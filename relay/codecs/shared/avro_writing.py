"""Writing Avro's binary encoding: functions that are combined for a schema. Values are those of JSON, or of
Avro itself (`value_writer`), where bytes are bytes.

A `Write` passes the bytes of a value to `add`, piece by piece. Each function here makes one; `head`: the
bytes before a value that is present, `null`: the bytes for None, None if it is not allowed. In a union of
null and a type they hold the branch number. Raises ValueError or TypeError for a value of another type,
possibly after some pieces. Source: Apache Avro 1.12 specification, binary encoding.
"""

from __future__ import annotations

import binascii
import math
from collections.abc import Callable, Sequence
from struct import Struct
from typing import Any, Final

from relay.model.avro_types import AvroType

Add = Callable[[bytes], None]
Write = Callable[[Any, Add], None]
Maker = Callable[[bytes, bytes | None], Write]

_MORE: Final = 0x80
_LOW: Final = 0x7F
_END: Final = b"\0"
#: Integers of one byte; negative ones from the end.
_SHORT: Final = [bytes((2 * value,)) for value in range(64)] + [
    bytes((2 * -value - 1,)) for value in range(-64, 0)
]
_SHORT_END: Final = 64
_float: Final = Struct("<f").pack
_double: Final = Struct("<d").pack


def long_bytes(value: int) -> bytes:
    """Return the bytes of a 64-bit integer."""
    if -_SHORT_END <= value < _SHORT_END:
        return _SHORT[value]
    number = (value << 1) ^ (value >> 63)
    found = bytearray()
    while number > _LOW:
        found.append(number & _LOW | _MORE)
        number >>= 7
    found.append(number)
    return bytes(found)


def _refused(value: object, null: bytes | None, add: Add) -> None:
    """Add the bytes for None. Raises ValueError for any other value."""
    if value is not None or null is None:
        raise ValueError("not a value of its type")
    add(null)


def _integer(end: int) -> Maker:
    def make(head: bytes, null: bytes | None) -> Write:
        short = [head + each for each in _SHORT]

        def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any JSON
            if type(value) is not int:
                _refused(value, null, add)
            elif -_SHORT_END <= value < _SHORT_END:
                add(short[value])
            elif -end <= value < end:
                add(head + long_bytes(value))
            else:
                raise ValueError("beyond its bits")

        return write

    return make


def _sized(head: bytes) -> Callable[[bytes, Add], None]:
    """Return a function that adds bytes with a length prefix."""
    short = [head + each for each in _SHORT[:_SHORT_END]]

    def give(data: bytes, add: Add) -> None:
        size = len(data)
        add(short[size] if size < _SHORT_END else head + long_bytes(size))
        add(data)

    return give


def string(head: bytes, null: bytes | None) -> Write:
    """Return the function that writes text."""
    give = _sized(head)

    def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any JSON
        if type(value) is str:
            give(value.encode(), add)
        else:
            _refused(value, null, add)

    return write


def base64(head: bytes, null: bytes | None) -> Write:
    """Return the function that writes the bytes of base64."""
    give, decoded = _sized(head), binascii.a2b_base64

    def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any JSON
        if value is None:
            _refused(value, null, add)
        else:
            give(decoded(value), add)

    return write


def binary(head: bytes, null: bytes | None) -> Write:
    """Return the function that writes bytes."""
    give = _sized(head)

    def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any value
        if type(value) is bytes:
            give(value, add)
        else:
            _refused(value, null, add)

    return write


def boolean(head: bytes, null: bytes | None) -> Write:
    """Return the function that writes a boolean."""
    false, true = head + b"\0", head + b"\1"

    def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any JSON
        if type(value) is bool:
            add(true if value else false)
        else:
            _refused(value, null, add)

    return write


def _real(pack: Callable[[float], bytes]) -> Maker:
    """Return the maker of writers of numbers, and of JsonConverter's texts for NaN and infinities."""

    def make(head: bytes, null: bytes | None) -> Write:
        def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any JSON
            if value is None or type(value) is bool:
                _refused(value, null, add)
            else:
                add(head + pack(_real_number(value)))

        return write

    return make


def _real_number(value: Any) -> float:  # noqa: ANN401 - any JSON
    try:
        return float(value)
    except OverflowError:
        raise ValueError("a number beyond the range of DOUBLE") from None


def _float_bytes(value: float) -> bytes:
    """Return a 32-bit float as bytes; infinity beyond its range."""
    try:
        return _float(value)
    except OverflowError:
        return _float(math.copysign(math.inf, value))


def converted(convert: Callable[[Any], Any], make: Maker) -> Maker:
    """Return the maker of writers that convert values first, except None."""

    def make_converted(head: bytes, null: bytes | None) -> Write:
        write_plain = make(head, null)

        def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any value
            write_plain(None if value is None else convert(value), add)

        return write

    return make_converted


def array(write_item: Write) -> Maker:
    """Return the maker of writers of lists."""

    def make(head: bytes, null: bytes | None) -> Write:
        def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any JSON
            if type(value) is not list:
                _refused(value, null, add)
                return
            add(head)
            if value:
                add(long_bytes(len(value)))
                for item in value:
                    write_item(item, add)
            add(_END)

        return write

    return make


def record(fields: Sequence[tuple[str, Write]]) -> Maker:
    """Return the maker of writers of objects; a missing member is null."""

    def make(head: bytes, null: bytes | None) -> Write:
        def write(value: Any, add: Add) -> None:  # noqa: ANN401 - any JSON
            if type(value) is not dict:
                _refused(value, null, add)
                return
            add(head)
            find = value.get
            for name, write_field in fields:
                write_field(find(name), add)

        return write

    return make


#: Makers of writers for Avro's primitive types.
WRITES: Final[dict[str, Maker]] = {
    "boolean": boolean,
    "int": _integer(1 << 31),
    "long": _integer(1 << 63),
    "float": _real(_float_bytes),
    "double": _real(_double),
    "string": string,
    "bytes": base64,
}
_VALUE_WRITES: Final = {**WRITES, "bytes": binary}
#: The numbers of a union's branches.
FIRST, SECOND = long_bytes(0), long_bytes(1)


def value_writer(type_: AvroType) -> Write:
    """Return the function that writes the values of a type: records as dict, None for null in a union.

    Raises ValueError for a type with other unions, or one that relay does not write.
    """
    if type_.kind != "union":
        return _maker(type_)(b"", None)
    if not type_.is_optional:
        raise ValueError("has a union of more than null and one type")
    if type_.branches[0].kind == "null":
        return _maker(type_.present)(SECOND, FIRST)
    return _maker(type_.present)(FIRST, SECOND)


def _maker(type_: AvroType) -> Maker:
    if type_.kind == "record":
        return record([(field.name, value_writer(field.type)) for field in type_.fields])
    if type_.kind == "array" and type_.items is not None:
        return array(value_writer(type_.items))
    if type_.kind not in _VALUE_WRITES:
        raise ValueError(f"has the type {type_.kind}")
    return _VALUE_WRITES[type_.kind]


def written(write: Write, value: Any) -> bytes:  # noqa: ANN401 - any value
    """Return the bytes of a value. Raises ValueError and TypeError."""
    parts: list[bytes] = []
    write(value, parts.append)
    return b"".join(parts)
