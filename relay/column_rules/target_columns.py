"""What rules do with the values and the definition of one column."""

from __future__ import annotations

import hmac
from collections.abc import Callable
from decimal import Decimal
from functools import partial
from typing import Final, NamedTuple

import msgspec

from relay.column_rules.rules import HASH_DIGITS, ColumnAction, ColumnRule
from relay.model.events import ABSENT, Cell, Column, ColumnType, Default, Value
from relay.mysql.members import label_text
from relay.mysql.numbers import decimal_text, go_text
from relay.mysql.types import BINARIES, CHARS, GEOMETRIES, INTEGER_BITS
from relay.mysql.values import TextStyle, reader
from relay.templates.tracing import refuse_traced

#: Converts a value: NULL and absent columns stay what they are.
Convert = Callable[[Value], Value]


class TargetColumn(NamedTuple):
    """A column of the target, with the conversion of its values, or the cell that replaces all of them."""

    column: Column
    convert: Convert | None = None
    constant: Cell = ABSENT


class NotApplicable(Exception):
    """A rule cannot be applied to a column of this type. The text says why."""


def target_column(rule: ColumnRule, column: Column, hash_key: bytes) -> TargetColumn:
    """Return what a rule that replaces values makes of a column.

    The default and the comment are dropped, because they may show values. Raises NotApplicable.
    """
    bare = msgspec.structs.replace(
        column, default=ABSENT, comment=None, generated=None, auto_increment=False, on_update=None
    )
    return _ACTIONS[rule.action](rule, bare, hash_key)


def _null(_: ColumnRule, column: Column, __: bytes) -> TargetColumn:
    return TargetColumn(msgspec.structs.replace(column, nullable=True), constant=None)


def _fixed(rule: ColumnRule, column: Column, _: bytes) -> TargetColumn:
    """Use the value in the column's own type, or as text if it is no value of that type."""
    text, of_type = rule.value or "", column.type
    value = _value_of(of_type, text)
    if value is None:
        of_type, value = _text_type(of_type, len(text)), text
    found = msgspec.structs.replace(column, type=of_type, default=Default(text))
    return TargetColumn(found, constant=value)


def _value_of(of_type: ColumnType, text: str) -> Value | None:
    """Return the value of a type that a text stands for; None if it is no value of the type."""
    base, length = of_type.base, of_type.length
    if base in CHARS:
        return text if base not in _SIZED or length is None or len(text) <= length else None
    if base in BINARIES - GEOMETRIES:
        data = text.encode()
        return data if base not in _SIZED or length is None or len(data) <= length else None
    read = reader(of_type, _STYLE)
    if read is None:
        return None
    try:
        value = read(text)
        if base == "json":
            msgspec.json.decode(text)
    except (ValueError, ArithmeticError, msgspec.DecodeError):
        return None
    if base in INTEGER_BITS and isinstance(value, int):
        bits = INTEGER_BITS[base]
        low, high = (0, 1 << bits) if of_type.unsigned else (-1 << (bits - 1), 1 << (bits - 1))
        return value if low <= value < high else None
    return value


def _mask(rule: ColumnRule, column: Column, _: bytes) -> TargetColumn:
    if column.type.base in BINARIES:
        raise NotApplicable("mask is for text, numbers and times, not for bytes: use hash, fixed or null")
    of_type = column.type if column.type.base in CHARS else _text_type(column.type, None)
    found = msgspec.structs.replace(column, type=of_type)
    return TargetColumn(found, partial(_masked, column.type, rule.first, rule.last))


def _masked(of_type: ColumnType, first: int, last: int, value: Value) -> Value:
    text = _text(of_type, value)
    covered = len(text) - first - last
    if covered <= 0:  # the kept characters would be the whole value
        return "*" * len(text)
    return text[:first] + "*" * covered + text[len(text) - last :]


def _truncate(rule: ColumnRule, column: Column, _: bytes) -> TargetColumn:
    base = column.type.base
    if base not in CHARS and base not in BINARIES - GEOMETRIES and base != "json":
        raise NotApplicable("truncate is for text and bytes: use mask, hash, fixed or null")
    of_type = _text_type(column.type, None) if base == "json" else column.type
    found = msgspec.structs.replace(column, type=of_type)
    return TargetColumn(found, partial(_truncated, rule.length or 0))


def _truncated(length: int, value: Value) -> Value:
    refuse_traced(value)
    return value[:length] if isinstance(value, str | bytes) else value


def _hash(rule: ColumnRule, column: Column, hash_key: bytes) -> TargetColumn:
    digits = rule.length or HASH_DIGITS
    of_type = ColumnType("varchar", length=digits)
    if column.type.base in CHARS:
        of_type = ColumnType(
            "varchar", length=digits, charset=column.type.charset, collation=column.type.collation
        )
    found = msgspec.structs.replace(column, type=of_type)
    return TargetColumn(found, partial(_hashed, column.type, hash_key, digits))


def _hashed(of_type: ColumnType, hash_key: bytes, digits: int, value: Value) -> Value:
    refuse_traced(value)
    data = value if isinstance(value, bytes) else _text(of_type, value).encode("utf-8", "surrogatepass")
    return hmac.digest(hash_key, data, "sha256").hex()[:digits]


_ACTIONS: Final[dict[ColumnAction, Callable[[ColumnRule, Column, bytes], TargetColumn]]] = {
    ColumnAction.NULL: _null,
    ColumnAction.FIXED: _fixed,
    ColumnAction.MASK: _mask,
    ColumnAction.TRUNCATE: _truncate,
    ColumnAction.HASH: _hash,
}

#: The text format of a fixed value.
_STYLE: Final = TextStyle(float_text=go_text, zero_year="0000", pads_binary=False, is_loose=True)
#: Types whose values have at most as many characters or bytes as their length.
_SIZED: Final = frozenset({"char", "varchar", "binary", "varbinary"})
#: Length of the VARCHAR column that replaces a type other than text.
_TEXT_LENGTH: Final = 255
#: Types whose text may be longer than that.
_LONG: Final = frozenset({"json", "set", "vector", "xmltype"})


def _text_type(of_type: ColumnType, length: int | None) -> ColumnType:
    """Return a type for text in place of the values of a type that is none."""
    is_long = of_type.base in _LONG or (length or 0) > _TEXT_LENGTH
    return ColumnType("longtext") if is_long else ColumnType("varchar", length=_TEXT_LENGTH)


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
