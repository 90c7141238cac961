"""What rules do with the values and the definition of one column."""

from __future__ import annotations

import datetime
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, NamedTuple

import msgspec

from relay.model.events import ABSENT, Cell, Column, ColumnType, Value
from relay.mysql.types import BINARIES, CHARS, GEOMETRIES, INTEGER_BITS
from relay.rules.columns.replacements import Convert, HashKey, hashing, masking, truncating
from relay.rules.columns.rules import HASH_DIGITS, ColumnAction, ColumnRule


class TargetColumn(NamedTuple):
    """A column of the target, with the conversion of its values, or the cell that replaces all of them."""

    column: Column
    convert: Convert | None = None
    constant: Cell = ABSENT


class NotApplicable(Exception):
    """A rule cannot be applied to a column of this type. The text says why."""


def target_column(rule: ColumnRule, column: Column, hash_key: HashKey) -> TargetColumn:
    """Return what a rule that replaces values makes of a column.

    The default and the comment are dropped, because they may show values. Raises NotApplicable.
    """
    bare = msgspec.structs.replace(
        column, default=ABSENT, comment=None, generated=None, auto_increment=False, on_update=None
    )
    return _ACTIONS[rule.action](rule, bare, hash_key)


def _null(_: ColumnRule, column: Column, __: HashKey) -> TargetColumn:
    of_type = _without_members(column.type)
    return TargetColumn(msgspec.structs.replace(column, type=of_type, nullable=True), constant=None)


def _without_members(of_type: ColumnType) -> ColumnType:
    """Return text in place of ENUM and SET, whose members may be hidden values."""
    return _text_type(of_type, None) if of_type.base in _WITH_MEMBERS else of_type


def _fixed(rule: ColumnRule, column: Column, _: HashKey) -> TargetColumn:
    """Use the value in the column's own type, or as text if it is no value of that type."""
    text, of_type = rule.value or "", column.type
    value = _value_of(of_type, text)
    if value is None:
        of_type, value = _text_type(of_type, len(text)), text
    return TargetColumn(msgspec.structs.replace(column, type=of_type), constant=value)


def _value_of(of_type: ColumnType, text: str) -> Value | None:
    """Return the value of a type that a text certainly is; None for any other text, and for other types."""
    base = of_type.base
    if base in CHARS:
        return text if _fits(of_type, text) else None
    if base in BINARIES - GEOMETRIES:
        data = text.encode()
        return data if _fits(of_type, data) else None
    if base in INTEGER_BITS:
        return _integer_of(of_type, text)
    if base == "decimal":
        return _decimal_of(of_type, text)
    if base == "double":
        return float(text) if _DECIMAL(text) else None
    if base == "json":
        return text if _is_json(text) else None
    if base in {"date", "datetime", "timestamp"}:
        return _time_of(of_type, text)
    return None


def _fits(of_type: ColumnType, value: str | bytes) -> bool:
    """Return whether text or bytes are not too long for a type."""
    if of_type.base in _SIZED:
        return of_type.length is None or len(value) <= of_type.length
    data = value.encode() if isinstance(value, str) else value
    return len(data) <= _LONG_TEXTS.get(of_type.base, _SMALL_TEXT)


def _integer_of(of_type: ColumnType, text: str) -> Value | None:
    """Return the integer in a text, if it is in the range of the type."""
    if not _INTEGER(text):
        return None
    number, bits = int(text), INTEGER_BITS[of_type.base]
    low, end = -1 << (bits - 1), 1 << (bits - 1)
    if of_type.unsigned:
        low, end = 0, 1 << bits
    return number if low <= number < end else None


def _decimal_of(of_type: ColumnType, text: str) -> Value | None:
    """Return the number in a text with the digits of the type, if it has no more of them."""
    if not _DECIMAL(text):
        return None
    whole, _, fraction = text.lstrip("-").partition(".")
    length, scale = of_type.length, of_type.scale or 0
    if len(fraction) > scale or (length is not None and len(whole) > length - scale):
        return None
    return Decimal(text).quantize(Decimal(1).scaleb(-scale))


def _is_json(text: str) -> bool:
    try:
        msgspec.json.decode(text)
    except msgspec.DecodeError:
        return False
    return True


def _time_of(of_type: ColumnType, text: str) -> Value | None:
    """Return the value of a date or a time of day that exists."""
    pattern = _DATE if of_type.base == "date" else _DATETIME
    if not pattern(text) or len(text.partition(".")[2]) > (of_type.length or 0):
        return None
    try:
        datetime.datetime.fromisoformat(text)
    except ValueError:
        return None
    return text


def _check_labels(of_type: ColumnType) -> None:
    """Refuse a rule that needs labels, if the members of ENUM or SET are unknown."""
    if of_type.base in _WITH_MEMBERS and of_type.members is None:
        raise NotApplicable("its members are unknown: relay needs the definition of the table")


def _mask(rule: ColumnRule, column: Column, _: HashKey) -> TargetColumn:
    _check_labels(column.type)
    if column.type.base in BINARIES:
        raise NotApplicable("mask is for text, numbers and times, not for bytes: use hash, fixed or null")
    of_type = column.type if column.type.base in CHARS else _text_type(column.type, None)
    found = msgspec.structs.replace(column, type=of_type)
    return TargetColumn(found, masking(column.type, rule.first, rule.last))


def _truncate(rule: ColumnRule, column: Column, _: HashKey) -> TargetColumn:
    base = column.type.base
    if base not in CHARS and base not in BINARIES - GEOMETRIES and base != "json":
        raise NotApplicable("truncate is for text and bytes: use mask, hash, fixed or null")
    of_type = _text_type(column.type, None) if base == "json" else column.type
    found = msgspec.structs.replace(column, type=of_type)
    return TargetColumn(found, truncating(column.type, rule.length or 0))


def _hash(rule: ColumnRule, column: Column, hash_key: HashKey) -> TargetColumn:
    _check_labels(column.type)
    digits = rule.length or HASH_DIGITS
    of_type = ColumnType("varchar", length=digits)
    if column.type.base in CHARS:
        of_type = ColumnType(
            "varchar", length=digits, charset=column.type.charset, collation=column.type.collation
        )
    found = msgspec.structs.replace(column, type=of_type)
    return TargetColumn(found, hashing(column.type, hash_key, digits))


_ACTIONS: Final[dict[ColumnAction, Callable[[ColumnRule, Column, HashKey], TargetColumn]]] = {
    ColumnAction.NULL: _null,
    ColumnAction.FIXED: _fixed,
    ColumnAction.MASK: _mask,
    ColumnAction.TRUNCATE: _truncate,
    ColumnAction.HASH: _hash,
}

_INTEGER: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,19})", re.ASCII).fullmatch
_DECIMAL: Final = re.compile(r"-?(?:0|[1-9][0-9]{0,64})(?:\.[0-9]{1,30})?", re.ASCII).fullmatch
_DATE: Final = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}", re.ASCII).fullmatch
_DATETIME: Final = re.compile(
    r"[0-9]{4}-[0-9]{2}-[0-9]{2} [0-9]{2}:[0-9]{2}:[0-9]{2}(?:\.[0-9]{1,6})?", re.ASCII
).fullmatch
#: Types with labels.
_WITH_MEMBERS: Final = frozenset({"enum", "set"})
#: Bytes of the longest values of large types, and of the smallest ones of their kind.
_LONG_TEXTS: Final = {
    **dict.fromkeys(("text", "blob"), 0xFFFF),
    **dict.fromkeys(("mediumtext", "mediumblob"), 0xFFFFFF),
    **dict.fromkeys(("longtext", "longblob"), 0xFFFFFFFF),
}
_SMALL_TEXT: Final = 0xFF
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
