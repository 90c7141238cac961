"""Column defaults in the schemas of Debezium's MySQL connector, and replacements of NULL in columns that
cannot be NULL.

Pure functions of a column. A default is written in the form of the column's values, rounded to its scale; one
that is an expression, or no value of the type, is omitted. CURRENT_TIMESTAMP is 1970. Source:
debezium/debezium BinlogDefaultValueConverter (3.6).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import msgspec

from relay.codecs.debezium.native.fields import DATES, NativeField
from relay.codecs.debezium.shared import semantic_names
from relay.codecs.debezium.shared.defaults import within_64_bits
from relay.codecs.shared.conversions import Write
from relay.codecs.shared.debezium_temporal import ZERO_TIMESTAMP, calendar_days
from relay.codecs.shared.tidb_defaults import NOW
from relay.model.events import Column, Default
from relay.mysql.members import label_reader
from relay.mysql.types import BINARIES, CHARS, FLOATS, FRACTIONAL, INTEGERS, default_bytes

_EPOCH: Final = "1970-01-01 00:00:00"
#: Exact for every DECIMAL, which has at most 65 digits.
_CONTEXT: Final = Context(prec=200, rounding=ROUND_HALF_UP)
#: Maximum digits after the first one of any MySQL integer.
_MOST_DIGITS: Final = 20
_WORDS: Final = {"true": "1", "false": "0"}


def schema_default(column: Column, write: Write | None) -> Any:  # noqa: ANN401 - any value of JSON
    """Return `default` of a column in a schema, None if it has none; `write` writes the column's values."""
    default = column.default
    if not isinstance(default, Default) or default.text is None:
        return None
    text, base = default.text, column.type.base
    if default.is_expression:
        if base not in FRACTIONAL or not text.upper().startswith(NOW):
            return None
        text = _EPOCH
    try:
        value = _canonical(text.strip() if base not in CHARS else text, column)
        if value is None:
            return None
        found = value if write is None else write(value)
    except (ValueError, ArithmeticError, TypeError, LookupError):
        return None
    return None if isinstance(found, msgspec.Raw) and found == _NULL else found


_NULL: Final = msgspec.Raw(b"null")


def _canonical(text: str, column: Column) -> Any:  # noqa: ANN401 - any canonical value
    """Return the default's value; None if the connector omits it."""
    base = column.type.base
    if base in DATES:
        return _moment(text, column)
    if base in {"enum", "set"}:
        read = label_reader(column.type)
        return text if read is None else read(text)
    read_text = _READS.get(base)
    if read_text is None:
        return text
    return read_text(_WORDS.get(text.lower(), text), column)


def _moment(text: str, column: Column) -> str | None:
    """Return a date in its column's form; an invalid one is 1970, or None if the column can be NULL."""
    base, digits = column.type.base, column.type.length or 0
    day = text[:10]
    is_date = calendar_days(day) is not None if _DAY(day) else False
    if not is_date or (base == "timestamp" and text == _EPOCH):
        if column.nullable is not False:
            return None
        text = _EPOCH
    if base == "date":
        return text[:10]
    if base == "timestamp" and text == _EPOCH:
        return text  # written unchanged: MySQL has no such TIMESTAMP
    whole, _, fraction = (text if len(text) > len(day) else f"{text} 00:00:00").partition(".")
    return f"{whole}.{fraction.ljust(digits, '0')[:digits]}" if digits else whole


_DAY: Final = re.compile(r"\d{4}-\d\d-\d\d", re.ASCII).fullmatch


def _integer(text: str, _: Column) -> int:
    if text[:2].lower() == "0x":
        return within_64_bits(int(text, 0))
    value = Decimal(text)
    if value.adjusted() > _MOST_DIGITS:  # an exponent could expand to a number of any length
        raise ValueError("a number beyond 64 bits")
    return within_64_bits(int(value.to_integral_value(ROUND_HALF_UP, _CONTEXT)))


def _bit(text: str, _: Column) -> int:
    return int(text, 0)


def _decimal(text: str, column: Column) -> Decimal:
    scale = column.type.scale
    value = Decimal(text)
    return value if scale is None else value.quantize(Decimal((0, (1,), -scale)), context=_CONTEXT)


def _float(text: str, _: Column) -> float:
    return float(text)


def _bytes(text: str, _: Column) -> bytes:
    return default_bytes(text)


def _time(text: str, column: Column) -> str:
    clock = text.rpartition(" ")[2]
    whole, _, fraction = clock.partition(".")
    digits = column.type.length or 0
    return f"{whole}.{fraction.ljust(digits, '0')[:digits]}" if digits else whole


_READS: Final[dict[str, Callable[[str, Column], Any]]] = {
    **dict.fromkeys(INTEGERS | {"year"}, _integer),
    **dict.fromkeys(FLOATS, _float),
    **dict.fromkeys(BINARIES, _bytes),
    "bit": _bit,
    "decimal": _decimal,
    "time": _time,
}

# ---------------------------------------------------------------- replacements of NULL

_ZEROS: Final[dict[str, Any]] = {
    **dict.fromkeys(("int8", "int16", "int32", "int64"), 0),
    **dict.fromkeys(("float", "double"), 0.0),
    "boolean": False,
    "string": "",
    "bytes": b"",
}
_ISO: Final = {
    semantic_names.ISO_DATE: "1970-01-01Z",
    semantic_names.ISO_TIME: "00:00:00Z",
    semantic_names.ISO_TIMESTAMP: ZERO_TIMESTAMP,
    semantic_names.ZONED_TIMESTAMP: ZERO_TIMESTAMP,
    semantic_names.JSON: "{}",
}


def fallback(column: Column, field: NativeField, *, is_number: bool) -> Any:  # noqa: ANN401 - any value of JSON
    """Return the connector's value for NULL in a NOT NULL column without a default: zero, the empty text,
    1970; None for types without such a value. `is_number`: exact decimals are numbers.
    """
    if field.name in _ISO:
        return _ISO[field.name]
    if field.name == semantic_names.BITS:
        return bytes(((column.type.length or 64) + 7) // 8)
    if field.type == "bytes" and field.name is not None:
        return 0 if is_number else b"\0"
    return _ZEROS.get(field.type)
