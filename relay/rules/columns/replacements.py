"""Replacements of a column's values: hashed, masked, or cut off.

Templates know them by name (`relay.mysql.conversion_names`): `hash`, `mask` and `truncate`. Their parameters
precede the conversion that reads the value, if there is one: `("hash", key, 64, "int64")`.
"""

from __future__ import annotations

import hmac
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Final

from relay.model.events import ColumnType, Value
from relay.mysql.conversion_names import kernel_name
from relay.mysql.members import label_text
from relay.mysql.numbers import decimal_text
from relay.templates.tracing import refuse_traced

#: Converts a value: NULL and absent columns stay what they are.
Convert = Callable[[Value], Value]


class HashKey(bytes):
    """A secret key that is not shown where it is printed as part of another object."""

    __slots__ = ()

    def __repr__(self) -> str:
        return "HashKey(…)"

    __str__ = __repr__


def hashing(of_type: ColumnType, key: HashKey, digits: int) -> Convert:
    """Return the conversion of a type's values to hexadecimal digits of their HMAC-SHA-256."""
    return _named(partial(_hashed, of_type, key, digits), of_type, "hash", key, digits)


def masking(of_type: ColumnType, first: int, last: int) -> Convert:
    """Return the conversion of a type's values to their text with `*` for all but some characters.

    first, last: The numbers of characters that stay, unless they are all.
    """
    return _named(partial(_masked, of_type, first, last), of_type, "mask", first, last)


def truncating(of_type: ColumnType, length: int) -> Convert:
    """Return the conversion of text and bytes of a type to their beginnings."""
    return _named(partial(_truncated, length), of_type, "truncate", length)


def _named(convert: Convert, of_type: ColumnType, *name: str | int | bytes) -> Convert:
    """Name a conversion for templates, except for types of which engines do not know the text."""
    return convert if of_type.base in _TYPES_WITHOUT_PORTABLE_TEXT else kernel_name(*name)(convert)


#: The text of ENUM and SET needs the labels of the definition; Python and Rust print floats differently.
_TYPES_WITHOUT_PORTABLE_TEXT: Final = frozenset({"enum", "set", "float", "double"})


def _hashed(of_type: ColumnType, key: HashKey, digits: int, value: Value) -> Value:
    refuse_traced(value)
    data = value if isinstance(value, bytes) else _text(of_type, value).encode("utf-8", "surrogatepass")
    return hmac.digest(key, data, "sha256").hex()[:digits]


def _masked(of_type: ColumnType, first: int, last: int, value: Value) -> Value:
    text = _text(of_type, value)
    covered = len(text) - first - last
    if covered <= 0:  # the kept characters would be the whole value
        return "*" * len(text)
    return text[:first] + "*" * covered + text[len(text) - last :]


def _truncated(length: int, value: Value) -> Value:
    refuse_traced(value)
    return value[:length] if isinstance(value, str | bytes) else value


def _text(of_type: ColumnType, value: Value) -> str:
    """Return a value's text: the same for every source protocol."""
    refuse_traced(value)
    if isinstance(value, str):
        return value
    if isinstance(value, Decimal):
        return decimal_text(value)
    if isinstance(value, int) and of_type.base in {"enum", "set"}:
        label = label_text(of_type, value)
        return str(value) if label is None else label
    return repr(value) if isinstance(value, float) else str(value)
