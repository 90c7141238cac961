"""Column defaults in the Debezium family: in DDL events, in Connect schemas, and as replacements of NULL.

Pure functions of a column, derived from TiDB's stored defaults (`relay.codecs.shared.tidb_defaults`). TiCDC
writes a NULL of a nullable column with a default as that default, as Kafka Connect's converters do. Sources:
pingcap/ticdc pkg/sink/codec/debezium/codec.go (2026-08).
"""

from __future__ import annotations

import re
from collections.abc import Callable
from decimal import Decimal
from typing import Any, Final

from relay.codecs.debezium.shared.values import bits
from relay.codecs.shared.debezium_temporal import (
    ZERO_TIMESTAMP,
    adjusted_year,
    date_days,
    datetime_micros,
    datetime_millis,
    iso_timestamp,
    time_micros,
)
from relay.codecs.shared.lenient_json import go_number
from relay.codecs.shared.tidb_defaults import NOW, next_value, sequence_default, stored_default
from relay.model.events import Column, ColumnType, Default
from relay.mysql.types import BINARIES, CHARS, FLOATS, INTEGERS

#: Its form in DDL events.
_NOW_SHOWN: Final = "1970-01-01 00:00:00"
#: Replacement of a date that is not in the calendar in a column that cannot be NULL.
_EPOCH: Final = 0
#: Types that cannot have a default in TiDB.
_WITHOUT: Final = frozenset({"json"})


def default_expression(column: Column, database: str) -> str | None:
    """Return `defaultValueExpression` of a DDL event.

    A TIME default given as a date appears as the date only (PingCAP "TiCDC Debezium Protocol", data type
    mapping).
    """
    text = stored_default(column)
    if text is None:
        return sequence_default(column, database)
    if text == NOW:
        return _NOW_SHOWN
    if column.type.base == "bit":
        return _binary_digits(text, column.type.length or 1)
    if column.type.base == "time" and text[4:5] == "-" and " " in text:
        return text.partition(" ")[0]
    return text


def read_default(text: str, column_type: ColumnType) -> Default:
    """Return the default of this type that a DDL event shows as `text`.

    Inverse of `default_expression` where one exists.
    """
    if text == _NOW_SHOWN and column_type.base in {"datetime", "timestamp"}:
        digits = column_type.length
        return Default(f"{NOW}({digits})" if digits else NOW, is_expression=True)
    if column_type.base == "bit" and _BINARY(text):
        return Default(str(int(text, 2)))
    return Default(text, is_expression=next_value(text) is not None)


_BINARY: Final = re.compile(r"[01]{1,64}").fullmatch


def _binary_digits(text: str, length: int) -> str:
    """Return BIT's default in binary: eight digits per byte, the first byte padded to the remaining digits
    (pingcap/ticdc parseBit).
    """
    try:
        value = int(text, 0)
    except ValueError:
        return text
    if value < 0:
        return text
    data = value.to_bytes(max(1, (value.bit_length() + 7) // 8), "big")
    return f"{data[0]:0{length % 8 or 1}b}" + "".join(f"{byte:08b}" for byte in data[1:])


# ---------------------------------------------------------------- in a Connect schema


def schema_default(column: Column) -> Any:  # noqa: ANN401 - any value of JSON
    """Return `default` of a column in a TiCDC schema block; None if it has none.

    It is the text itself for strings (also binary ones, whose values are base64), ENUM and SET.
    """
    text, base = stored_default(column), column.type.base
    if text is None or base in _WITHOUT:
        return None
    encode = _IN_SCHEMA.get(base)
    if encode is None:
        return text
    try:
        return encode(text, column)
    except (ValueError, ArithmeticError):
        return None


def _number(text: str, _: Column) -> Any:  # noqa: ANN401 - any value of JSON
    return go_number(float(text))


def _bit(text: str, column: Column) -> Any:  # noqa: ANN401 - any value of JSON
    length = column.type.length or 1
    return bool(int(text, 0)) if length == 1 else bits((length + 7) // 8, int(text, 0))


def _year(text: str, _: Column) -> int:
    return adjusted_year(int(text))


def _date(text: str, column: Column) -> int | None:
    try:
        days = date_days(text)
    except ValueError:
        days = None
    return _epoch_unless_null(column) if days is None else days


def _datetime(text: str, column: Column) -> int | None:
    if text == NOW:
        return _EPOCH
    has_micros = (column.type.length or 0) > 3
    try:
        count = datetime_micros(text) if has_micros else datetime_millis(text)
    except ValueError:
        return _EPOCH
    return _epoch_unless_null(column) if count is None else count


def _epoch_unless_null(column: Column) -> int | None:
    return _EPOCH if column.nullable is False else None


def _timestamp(text: str, column: Column) -> str | None:
    iso = ZERO_TIMESTAMP if text == NOW else iso_timestamp(text, column.type.length)
    return None if iso == ZERO_TIMESTAMP and column.nullable is not False else iso


def _time(text: str, _: Column) -> int:
    return time_micros(text)


_IN_SCHEMA: Final[dict[str, Callable[[str, Column], Any]]] = {
    **dict.fromkeys(INTEGERS | FLOATS | {"decimal"}, _number),
    "bit": _bit,
    "year": _year,
    "date": _date,
    "datetime": _datetime,
    "timestamp": _timestamp,
    "time": _time,
}

# ---------------------------------------------------------------- replacements of NULL


def null_default(column: Column, write: Callable[[Any], Any] | None) -> Any:  # noqa: ANN401 - any value of JSON
    """Return the value written for a NULL of this column; None for NULL itself. `write` writes the column's
    canonical values.

    CURRENT_TIMESTAMP is 0 for DATETIME, and leaves a TIMESTAMP NULL.
    """
    text, base = stored_default(column), column.type.base
    if text is None or column.nullable is False or base in _WITHOUT:
        return None
    if text == NOW:
        return 0 if base == "datetime" else None
    if base in {"enum", "set"}:
        return text
    try:
        value = _CANONICAL.get(base, str)(text)
        return value if write is None else write(value)
    except (ValueError, ArithmeticError, TypeError, LookupError):
        return None


def zero_is_null(column: Column) -> bool:
    """Return whether the 0 of this column is a NULL: nothing was inserted in 1970 (`null_default`)."""
    return column.type.base == "datetime" and column.nullable is not False and stored_default(column) == NOW


def _integer(text: str) -> int:
    return within_64_bits(int(text, 0) if text[:2].lower() == "0x" else int(text))


def within_64_bits(value: int) -> int:
    """Return the number. Raises ValueError for one that no integer column holds."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value


_CANONICAL: Final[dict[str, Callable[[str], Any]]] = {
    **dict.fromkeys(INTEGERS | {"bit", "year"}, _integer),
    **dict.fromkeys(FLOATS, float),
    **dict.fromkeys(BINARIES, str.encode),
    **dict.fromkeys(CHARS, str),
    "decimal": Decimal,
}
