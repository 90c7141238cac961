"""Cells of rows that are JSON values without types: their texts, the types of columns that hold them, and
their tokens in templates.
"""

from __future__ import annotations

from collections.abc import Iterable
from decimal import Decimal, InvalidOperation
from typing import Final

import msgspec

from relay.codecs.shared.lenient_json import REFUSED
from relay.codecs.shared.rows import TypedReader
from relay.codecs.shared.traced import conversion
from relay.codecs.shared.traced_messages import CellTokens
from relay.model.events import ColumnType
from relay.mysql.conversion_names import READ_INTEGER, READ_PLAIN_DECIMAL, READ_SIGNED
from relay.mysql.types import INTEGERS
from relay.templates.ops import Kind, Kinds
from relay.templates.tracing import NotTemplatable

_VARCHAR, _JSON, _DECIMAL = ColumnType("varchar"), ColumnType("json"), ColumnType("decimal")
_NUMBERS: Final = {"bigint", "decimal", "double"}
#: Number of characters of the longest 64-bit number.
_LONGEST: Final = 20


def cell_text(cell: msgspec.Raw) -> str | None:
    """Return the text of a string, or the JSON of any other value, so that a number keeps its digits; None
    for null. Raises ValueError.
    """
    try:
        if _start(cell) == '"':
            return msgspec.json.decode(cell, type=str)
        text = bytes(cell).decode()
    except REFUSED:
        raise ValueError("text that is not Unicode") from None
    return None if text == "null" else text


def inferred_type(cells: Iterable[msgspec.Raw]) -> ColumnType:
    """Return a type that holds all of these values of a column; VARCHAR if there are only NULLs."""
    found = dict.fromkeys(map(_type_of, cells))
    types = [each for each in found if each is not None]
    if len(types) == 1:
        return types[0]
    return _DECIMAL if types and {each.base for each in types} <= _NUMBERS else _VARCHAR


def _start(cell: msgspec.Raw) -> str:
    return chr(memoryview(cell)[0])


def _type_of(cell: msgspec.Raw) -> ColumnType | None:
    """Return the type of a value; None for NULL."""
    start = _start(cell)
    if start in '"n':
        return _VARCHAR if start == '"' else None
    if start in "{[tf":
        return _JSON
    text = bytes(cell).decode()
    if text.lstrip("-").isdigit() and len(text) <= _LONGEST:
        number = int(text)
        if -(1 << 63) <= number < 1 << 64:
            return ColumnType("bigint", unsigned=number >= 1 << 63)
    return ColumnType("double") if "e" in text.lower() and _is_exact(text) else _DECIMAL


def _is_exact(text: str) -> bool:
    """Return whether a double prints as this number."""
    try:
        return Decimal(repr(float(text))) == Decimal(text)
    except InvalidOperation:  # an exponent that no Decimal has
        return False


# ---------------------------------------------------------------- templates

_DECIMALS: Final[Kinds] = ("integer", "number", "null")


def cell_tokens(reader: TypedReader, at: int, kind: Kind | None) -> CellTokens:
    """Return the tokens of a column whose texts the reader reads; of an inferred type, only those that lead
    to it.

    kind: The kind of its value in the captured message. Raises NotTemplatable.
    """
    column_type, is_known = reader.schema.columns[reader.indexes[at]].type, not reader.is_inferred
    base = column_type.base
    null: Kinds = ("null",) if is_known else ()
    is_known_text = is_known and (kind == "string" or base not in INTEGERS | {"decimal"})
    if base == "varchar" or is_known_text:
        if kind not in ("string", "null"):
            raise NotTemplatable
        return CellTokens(("string", "null"), conversion(reader.reads[at]))
    if base in INTEGERS and kind in ("integer", *null) and (is_known or not column_type.unsigned):
        read = READ_INTEGER if column_type.unsigned else READ_SIGNED
        return CellTokens(("integer", *null), read, tried=("digits",))
    if base == "decimal" and is_known and column_type.scale is not None and kind in _DECIMALS:
        return CellTokens(_DECIMALS, ("decimal-number", None, column_type.scale), tried=("decimal",))
    if base == "decimal" and not is_known and kind == "number":
        return CellTokens(("number",), READ_PLAIN_DECIMAL, tried=("decimal",))
    raise NotTemplatable
