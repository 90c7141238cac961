"""Conversion between Avro and JSON as data: plain tuples, made from a schema, which the kernel interprets.

An engine (`relay.templates.engine`) returns the JSON as msgspec prints it, and the Avro of such JSON with all
members in the order of the schema. If it returns nothing, the codec converts the value, and raises the error
if it is invalid.

A few valid forms are left to the codec. In Avro: lists and maps in blocks with byte counts, numbers that are
not finite, an `int` beyond its 32 bits. In JSON: unions other than of null and one type, `Fixed`, `Symbols`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Kinds of scalar values: Avro's primitive types, and two more. `float` is printed as the double of equal
#: value, `bytes` as base64. `unsigned` is a `long` read as the unsigned number of the same 64 bits. `uint64`
#: is not Avro: an unsigned number of 8 bytes, big-endian.
PlainKind = Literal[
    "null", "boolean", "int", "long", "unsigned", "uint64", "float", "double", "string", "bytes"
]


class Plain(NamedTuple):
    """A value of a primitive type."""

    kind: PlainKind
    tag: Literal["plain"] = "plain"


class Fixed(NamedTuple):
    """A fixed number of bytes, as base64."""

    size: int
    tag: Literal["fixed"] = "fixed"


class Symbols(NamedTuple):
    """One of these JSON texts, selected by its index."""

    texts: tuple[bytes, ...]
    tag: Literal["symbols"] = "symbols"


class Union(NamedTuple):
    """A value of one of these types, after the index of its type."""

    branches: tuple[AvroOp, ...]
    tag: Literal["union"] = "union"


class Branch(NamedTuple):
    """A value of a union that always has the same branch: `number` is its index, `op` its type."""

    number: int
    op: AvroOp
    tag: Literal["branch"] = "branch"


class Nullable(NamedTuple):
    """Null, which is a zero byte (the first branch of a union), or a value after the bytes `before`: the
    index of its branch, and fields of its record that are always the same.
    """

    before: bytes
    op: AvroOp
    tag: Literal["nullable"] = "nullable"


class Record(NamedTuple):
    """An object. Each field has its name, a JSON text with a colon, and the type of its value."""

    fields: tuple[tuple[bytes, AvroOp], ...]
    tag: Literal["record"] = "record"


class Items(NamedTuple):
    """A list in which each item takes at least one byte."""

    item: AvroOp
    tag: Literal["items"] = "items"


class Map(NamedTuple):
    """A map of exactly these entries, by name, in any order. Only for `AvroValue`: the values are scalar, and
    the slots have the order of `entries`.
    """

    entries: tuple[tuple[bytes, AvroOp], ...]
    tag: Literal["map"] = "map"


AvroOp = Plain | Fixed | Symbols | Union | Branch | Nullable | Record | Items | Map
