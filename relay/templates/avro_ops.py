"""How Avro becomes JSON, and JSON Avro: plain tuples, made of a schema, which the kernel reads as they are.

An engine (`relay.templates.engine`) gives the JSON as msgspec prints it, and the Avro of such JSON with all
members in the order of the schema. Or it gives nothing: then the codec does it, and tells what is wrong.
Little is left to the codec although it is right. Of Avro: lists in blocks that tell their bytes, numbers that
are not finite, an `int` beyond its 32 bits. Of JSON: unions of other than null and one type, `Fixed`,
`Symbols`.
"""

from __future__ import annotations

from typing import Literal, NamedTuple

#: Avro's primitive types. `float` is printed as the double that it is, `bytes` as base64.
PlainKind = Literal["null", "boolean", "int", "long", "float", "double", "string", "bytes"]


class Plain(NamedTuple):
    """A value of a primitive type."""

    kind: PlainKind
    tag: Literal["plain"] = "plain"


class Fixed(NamedTuple):
    """So many bytes, as base64."""

    size: int
    tag: Literal["fixed"] = "fixed"


class Symbols(NamedTuple):
    """One of these JSON texts, by its number."""

    texts: tuple[bytes, ...]
    tag: Literal["symbols"] = "symbols"


class Union(NamedTuple):
    """A value of one of these types, behind its number."""

    branches: tuple[AvroOp, ...]
    tag: Literal["union"] = "union"


class Record(NamedTuple):
    """An object. Each field is its name, a JSON text with a colon, and how its value is read."""

    fields: tuple[tuple[bytes, AvroOp], ...]
    tag: Literal["record"] = "record"


class Items(NamedTuple):
    """A list; each item takes at least one byte."""

    item: AvroOp
    tag: Literal["items"] = "items"


AvroOp = Plain | Fixed | Symbols | Union | Record | Items
