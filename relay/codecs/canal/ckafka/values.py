"""Column values in CKafka's rows: reading and writing the text of a cell.

`cell_reader(type, …)` returns a function from text to canonical value, `cell_writer(type, …)` its inverse;
None means that text and value are the same. A reader raises ValueError or ArithmeticError for an invalid
text.

No document specifies the text of types other than integers and strings. The connector embeds Debezium
(Tencent Cloud document 597/64332), so a value may come in MySQL's own text, or as Debezium's encoding made
into text; see `ValueStyle`. Debezium's encodings: its MySQL connector's "Data type mappings", with
decimal.handling.mode=precise, binary.handling.mode=bytes and time.precision.mode=adaptive_time_microseconds,
which are the defaults.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable
from decimal import Decimal
from typing import Final, Literal

from relay.codecs.shared.base64_text import try_base64
from relay.codecs.shared.debezium_temporal import date_text, datetime_text, time_text
from relay.model.events import ColumnType, Value
from relay.mysql.conversion_names import conversion_of, kernel_name, taking_more
from relay.mysql.members import label_reader, set_text, write_label
from relay.mysql.types import BINARIES
from relay.mysql.values import Read, TextStyle, Write, reader, writer

#: `mysql`: MySQL's own text. `auto`: also those of Debezium's forms that are unambiguous: numbers for DATE,
#: DATETIME and TIME, true and false, base64 of a DECIMAL that is no number. `debezium`: base64 also where it
#: is ambiguous.
ValueStyle = Literal["auto", "mysql", "debezium"]

_NUMBER: Final = re.compile(r"-?\d{1,18}", re.ASCII).fullmatch
_BOOLEANS: Final = {"true": 1, "false": 0}
#: DECIMAL has at most 65 digits (MySQL Reference Manual §11.1.3), which are 28 bytes.
_LONGEST_DECIMAL: Final = 28


def cell_reader(column_type: ColumnType, style: TextStyle, value_style: ValueStyle) -> Read | None:
    """Return the reading function of this column's text; None if the text is the value."""
    labels = label_reader(column_type)
    if labels is not None:
        return labels
    mysql = reader(column_type, style)
    is_binary_declared = column_type.base in BINARIES and style.read_binary is not None
    if mysql is None or value_style == "mysql" or is_binary_declared:
        return mysql
    return _tolerant(column_type, mysql, is_debezium=value_style == "debezium")


def _tolerant(column_type: ColumnType, mysql: Read, *, is_debezium: bool) -> Read:
    """Return the reader of MySQL's text, extended by Debezium's form of the type."""
    base, fsp = column_type.base, column_type.length or 0
    if base == "date":
        return _also(mysql, functools.partial(_read_counted, date_text, mysql))
    if base in {"datetime", "time"}:
        text_of = _datetime_text if base == "datetime" else _time_text
        return _also(mysql, functools.partial(_read_counted, functools.partial(text_of, fsp), mysql))
    if base == "timestamp":
        return _padded_reader(fsp, mysql)
    if base == "decimal" and column_type.scale is not None:
        read_decimal = functools.partial(_read_decimal, column_type.scale, mysql, is_debezium)
        return read_decimal if is_debezium else _also(mysql, read_decimal)
    if base in {"tinyint", "bit"} and column_type.length == 1:
        return _also(mysql, functools.partial(_read_boolean, mysql))
    if is_debezium and base == "bit":
        return functools.partial(_read_bits, mysql)
    if is_debezium and base in BINARIES:
        return functools.partial(_read_binary, mysql)
    return mysql


def _also(mysql: Read, read: Read) -> Read:
    """Mark a reader as accepting everything that `mysql` accepts, with the same results, and more."""
    conversion = conversion_of(mysql)
    read = taking_more(mysql)(read)
    return read if conversion is None else kernel_name(*conversion)(read)


def _padded_reader(fsp: int, mysql: Read) -> Read:
    read = functools.partial(_read_timestamp, fsp, mysql)
    conversion = conversion_of(mysql)
    return read if conversion is None else kernel_name("padded-datetime", fsp, *conversion)(read)


# ---------------------------------------------------------------- ENUM and SET


def cell_writer(column_type: ColumnType, style: TextStyle) -> Write | None:
    """Return the writing function of this column's value; None if the value is the text.

    ENUM and SET are labels if the members are known.
    """
    if column_type.members is None:
        return writer(column_type, style)
    label_text = _enum_text if column_type.base == "enum" else _set_text
    return write_label(functools.partial(label_text, column_type.members), column_type)


def _enum_text(members: tuple[str, ...], value: int | str) -> str:
    """Return the label.

    Index 0 is the empty text that MySQL stores for an invalid value. If the empty text is also a label, index
    0 stays a number.
    """
    if isinstance(value, str):
        return value
    if value == 0:
        return "0" if "" in members else ""
    return members[value - 1] if 0 < value <= len(members) else str(value)


def _set_text(members: tuple[str, ...], value: int | str) -> str:
    if isinstance(value, str):
        return value
    if not 0 <= value < 1 << len(members):
        return str(value)
    return set_text(members, value)


# ---------------------------------------------------------------- Debezium's forms


def _read_counted(text_of: Callable[[int], str], mysql: Read, text: str) -> Value:
    """Read MySQL's text, which is never all digits, or days, milliseconds or microseconds."""
    try:
        return mysql(text)
    except ValueError:
        if not _NUMBER(text):
            raise
    return text_of(int(text))


def _datetime_text(fsp: int, count: int) -> str:
    """Convert milliseconds (up to 3 digits) or microseconds since 1970 to a wall clock without a zone."""
    micros = count * 1000 if fsp <= 3 else count
    return datetime_text(micros, _digits(fsp, micros))


def _time_text(fsp: int, micros: int) -> str:
    return time_text(micros, _digits(fsp, micros))


def _digits(fsp: int, micros: int) -> int:
    """Return the column's fraction digits; more only if the value has them."""
    return max(fsp, len(f"{abs(micros) % 1_000_000:06}".rstrip("0")))


def _read_timestamp(fsp: int, mysql: Read, text: str) -> Value:
    """Read MySQL's text, or ISO 8601 with an offset; Java omits its trailing zeros."""
    value = str(mysql(text))
    whole, _, fraction = value.partition(".")
    return f"{whole}.{fraction.ljust(fsp, '0')}" if len(fraction) < fsp else value


def _read_decimal(scale: int, mysql: Read, is_debezium: bool, text: str) -> Value:
    """Read digits, or base64 of the unscaled number (big-endian two's complement)."""
    if not is_debezium:
        try:
            return mysql(text)
        except ValueError:
            pass
    unscaled = try_base64(text)
    if not unscaled or len(unscaled) > _LONGEST_DECIMAL:
        return mysql(text)
    value = int.from_bytes(unscaled, "big", signed=True)
    return Decimal((int(value < 0), tuple(map(int, str(abs(value)))), -scale))


def _read_boolean(mysql: Read, text: str) -> Value:
    return _BOOLEANS[text] if text in _BOOLEANS else mysql(text)


def _read_bits(mysql: Read, text: str) -> Value:
    """Read base64 of the bits, least significant byte first (io.debezium.data.Bits), or decimal digits."""
    bits = try_base64(text)
    return int.from_bytes(bits, "little") if bits and len(bits) <= 8 else mysql(text)


def _read_binary(mysql: Read, text: str) -> Value:
    """Read strict base64, else one byte per character."""
    data = try_base64(text)
    return mysql(text if data is None else data.decode("latin-1"))
