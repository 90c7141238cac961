"""Writing canonical values as Debezium's MySQL connector 3.6 and JsonConverter do, and counting the losses.

A `NativeValueWriter` returns, per column (its name and nullability are the target's), a function from the
canonical value to a value that msgspec prints as JSON: `bytes` for base64, `msgspec.Raw` for numbers with all
digits. A value that the form cannot hold becomes NULL, or the zero of a column that cannot be NULL, and is
counted in `lost`, which the encoder empties before every row. Where the connector destroys a value that its
form can hold (years below 100, YEAR 0, commas in members of ENUM) the right value is written. Sources:
debezium/debezium BinlogValueConverters, JdbcValueConverters (3.6); records of 3.6.1.
"""

from __future__ import annotations

import functools
import re
import struct
from collections.abc import Callable
from datetime import datetime
from decimal import ROUND_HALF_UP, Context, Decimal
from typing import Any, Final

import msgspec

from relay.codecs.debezium.native.fields import counts_micros, is_exact, is_text
from relay.codecs.debezium.native.identity_conversions import (
    same_bigint,
    same_bits,
    same_date,
    same_datetime,
    same_decimal,
    same_time,
    same_timestamp,
)
from relay.codecs.debezium.native.options import NAME, DebeziumOptions
from relay.codecs.debezium.native.temporal_reading import datetime_reader, time_reader, timestamp_reader
from relay.codecs.debezium.native.value_formats import decimal_reader
from relay.codecs.debezium.shared.value_writing import (
    DATE,
    LONGEST,
    NULL,
    SHAPES,
    WHOLE,
    LabelWriter,
    timestamp_writer,
)
from relay.codecs.debezium.shared.values import bits, read_bits, signed64, unsigned64
from relay.codecs.losses import Loss
from relay.codecs.shared.base64_text import base64_text
from relay.codecs.shared.conversions import Convert, Read, Write
from relay.codecs.shared.debezium_temporal import ZERO_TIMESTAMP, calendar_days, date_text, time_micros
from relay.model.errors import NotRepresentable
from relay.model.events import Column, ColumnType
from relay.mysql import numbers, temporal
from relay.mysql.conversion_names import BOOLEANS, kernel_name, lossy_conversion, named_after
from relay.mysql.types import BINARIES, GEOMETRIES

_ZERO_DATE: Final = Loss.ZERO_DATE
_TIME_RANGE: Final = Loss.TIME_RANGE
_DECIMAL_DIGITS: Final = Loss.DECIMAL_DIGITS
#: Every 64-bit float keeps this many digits (IEEE 754).
_SAFE_DIGITS: Final = 15
#: Exact for every DECIMAL, which has at most 65 digits.
_CONTEXT: Final = Context(prec=200, rounding=ROUND_HALF_UP)
_DAY_MICROS: Final = 86_400_000_000
#: Signed 64-bit numbers.
_LEAST, _END = -(1 << 63), 1 << 63


class NativeValueWriter:
    """Writes values of one encoder's rows; `lost` holds their losses since it was last emptied."""

    def __init__(self, options: DebeziumOptions) -> None:
        self.lost: list[Loss] = []
        self._options = options
        self._labels = LabelWriter(self.lost)
        self._unsigned = self._unsigned_writer()
        #: Grows with the number of columns seen.
        self.shortcuts: dict[tuple[Read, Write | None], Convert] = {
            (numbers.read_double, _write_double): numbers.read_double,
            (unsigned64, signed64): same_bigint,
        }
        self._made: dict[tuple[object, ...], Write] = {}

    def of(self, column: Column) -> Write | None:  # noqa: PLR0911 - a dispatch
        """Return the writing function of this column's values; None if they are written unchanged."""
        column_type, options = column.type, self._options
        base = column_type.base
        if base in {"date", "datetime", "timestamp", "time"}:
            return self._temporal(column)
        if base == "decimal":
            return self._decimal(column_type)
        if base == "bigint" and column_type.unsigned:
            return self._unsigned
        if base == "bit":
            return self._unsigned if options.bit == "number" else self._bit(column_type.length)
        if base in {"enum", "set"}:
            return self._labels.of(column_type)
        if base in GEOMETRIES:
            return _point if base == "point" else _geometry
        if base in BINARIES:
            return self._binary(column_type)
        if base == "vector" and options.vector == "text":
            return None
        return _WRITES.get(base)

    # ------------------------------------------------------------ numbers

    def _unsigned_writer(self) -> Write | None:
        mode = self._options.bigint_unsigned_handling_mode
        if mode == "long":
            return signed64
        if mode == "string":
            return str
        return None if self._options.decimal_format == "NUMERIC" else big_endian

    def _decimal(self, column_type: ColumnType) -> Write:
        if self._options.decimal_handling_mode == "double":
            return self._once("double", lambda: self._write_double)
        if not is_exact(column_type, self._options):
            return self._kept(
                "text", numbers.read_decimal, lambda: (numbers.decimal_text, numbers.checked_decimal)
            )
        scale = column_type.scale or 0
        if self._options.decimal_format == "NUMERIC":
            return self._once("number", lambda: _number)
        write = self._kept(scale, numbers.read_decimal, lambda: (_exact(scale), _exact_text(scale)))
        self.shortcuts[decimal_reader(scale), write] = same_decimal(scale, write)
        return write

    @lossy_conversion(_DECIMAL_DIGITS, "rounded-float")
    @kernel_name("decimal-float")
    def _write_double(self, value: Decimal) -> float:
        number = float(value) + 0.0  # zero has no sign
        if len(value.as_tuple().digits) > _SAFE_DIGITS and Decimal(repr(number)) != value:
            self.lost.append(_DECIMAL_DIGITS)
        return number

    def _bit(self, length: int | None) -> Write:
        if length == 1:
            return BOOLEANS
        size = ((length or 64) + 7) // 8
        write = self._once(("bit", size), lambda: kernel_name("bits", size)(functools.partial(bits, size)))
        if size <= _MOST_BIT_BYTES:
            self.shortcuts[read_bits, write] = same_bits(size, write)
        return write

    # ------------------------------------------------------------ bytes

    def _binary(self, column_type: ColumnType) -> Write | None:
        mode = self._options.binary_handling_mode
        length = column_type.length if column_type.base == "binary" else None
        if mode in {"bytes", "base64"}:
            return (
                None if length is None else kernel_name("padded", length)(functools.partial(_padded, length))
            )
        text = bytes.hex if mode == "hex" else _url_safe
        if length is None:
            return text
        return named_after(functools.partial(_padded_text, text, length), text, length)

    # ------------------------------------------------------------ dates and times

    def _temporal(self, column: Column) -> Write | None:
        base, options = column.type.base, self._options
        if is_text(base, options):
            may_be_null = options.zero_dates == "null" and column.nullable is not False
            return self._calendar_text() if may_be_null and base != "time" else None
        if base == "timestamp":
            return self._timestamp(column)
        nullable = column.nullable is not False
        mode = options.time_precision_mode
        if base == "date":
            write = self._kept((base, nullable), temporal.read_date, lambda: 2 * (self._date(nullable),))
            if mode != "isostring":
                self.shortcuts[date_text, write] = same_date
            return write
        if base == "time":
            write = self._kept((base, nullable), temporal.read_time, lambda: 2 * (self._time(nullable),))
            if write is time_micros:
                self._passes(column, time_reader, write, same_time)
            return write
        is_fine = mode != "adaptive_time_microseconds" or counts_micros(column.type)
        key = base, nullable, is_fine
        write = self._kept(
            key, temporal.read_datetime, lambda: 2 * (self._datetime(nullable, is_fine=is_fine),)
        )
        if mode in {"adaptive_time_microseconds", "microseconds"}:
            unit_micros = 1 if is_fine else 1_000
            read_of = functools.partial(datetime_reader, unit_micros)
            self._passes(column, read_of, write, same_datetime(unit_micros))
        return write

    def _passes(
        self, column: Column, read_of: Callable[[int | None], Read], write: Write, convert: Convert
    ) -> None:
        """Register `convert` for the column's values: it replaces `write` after the reads of `read_of`."""
        for digits in (None, column.type.length):
            self.shortcuts[read_of(digits), write] = convert

    def _timestamp(self, column: Column) -> Write:
        nullable, digits = column.nullable is not False, column.type.length
        key = "timestamp", nullable, digits

        def made() -> tuple[Write, Write]:
            return 2 * (timestamp_writer(digits, self.lost, NULL if nullable else None),)

        write = self._kept(key, temporal.read_datetime, made)
        read = timestamp_reader(digits)
        self.shortcuts[read, write] = same_timestamp(digits, read, write)
        return write

    def _date(self, nullable: bool) -> Write:
        is_iso = self._options.time_precision_mode == "isostring"
        zero = "1970-01-01Z" if is_iso else 0
        no_date = self._no_date(nullable, zero)

        @self._loses_dates(nullable, zero, DATE, DATE)
        @kernel_name("own-date-iso" if is_iso else "own-date-days")
        def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
            days = calendar_days(text)
            if days is None:
                return no_date()
            return text + "Z" if is_iso else days

        return write

    def _datetime(self, nullable: bool, *, is_fine: bool) -> Write:
        """Return the writing function of a DATETIME; `is_fine`: it may have more than milliseconds."""
        mode = self._options.time_precision_mode
        if mode == "isostring":
            return self._iso_datetime(nullable)
        up, down = {"connect": (1, 1_000), "nanoseconds": (1_000, 1)}.get(mode, (1, 1 if is_fine else 1_000))
        lost, otherwise, no_date = self.lost, NULL if nullable else 0, self._no_date(nullable, 0)
        may_cut = mode == "connect"

        @self._loses_dates(nullable, 0, WHOLE, LONGEST)
        @kernel_name("datetime-units", up, down)
        def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
            micros = _micros(text)
            if micros is None:
                return no_date()
            if down > 1:
                if micros % down:
                    if not may_cut:
                        raise ValueError("more digits of a second than its column has")
                    lost.append(_TIME_RANGE)
                return micros // down
            count = micros * up
            if not _LEAST <= count < _END:
                lost.append(_TIME_RANGE)
                return otherwise
            return count

        return write

    def _iso_datetime(self, nullable: bool) -> Write:
        no_date = self._no_date(nullable, ZERO_TIMESTAMP)

        @self._loses_dates(nullable, ZERO_TIMESTAMP, WHOLE, LONGEST)
        @kernel_name("datetime-iso")
        def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
            if _micros(text) is None:
                return no_date()
            return f"{text[:10]}T{_shortest(text[11:])}Z"

        return write

    def _time(self, nullable: bool) -> Write:
        mode = self._options.time_precision_mode
        if mode == "nanoseconds":
            return kernel_name("time-nanos")(lambda text: time_micros(text) * 1_000)
        if mode not in {"connect", "isostring"}:
            return time_micros
        lost, is_iso = self.lost, mode == "isostring"
        otherwise: Any = NULL if nullable else "00:00:00Z" if is_iso else 0
        end = _DAY_MICROS if is_iso else _DAY_MICROS + 1

        @kernel_name("time-iso" if is_iso else "time-millis")
        def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
            micros = time_micros(text)
            if not 0 <= micros < end:
                lost.append(_TIME_RANGE)
                return otherwise
            if is_iso:
                return _shortest(text) + "Z"
            if micros % 1_000:
                lost.append(_TIME_RANGE)
            return micros // 1_000

        return write

    def _no_date(self, nullable: bool, zero: Any) -> Callable[[], Any]:  # noqa: ANN401 - any value that msgspec prints
        """Return the function that replaces a date that is not in the calendar: NULL, or `zero`, which the
        connector writes in a column that cannot be NULL. With `zero-dates=null` such a column belongs to the
        key, and the function raises NotRepresentable: 1970 would be another row's key.
        """
        lost, otherwise = self.lost, NULL if nullable else zero
        is_refused = self._options.zero_dates == "null" and not nullable

        def no_date() -> Any:  # noqa: ANN401 - any value that msgspec prints
            if is_refused:
                reason = "a date in it is not in the calendar, and neither NULL nor 1970 is this row's key"
                raise NotRepresentable(NAME, "key", f"{reason}; the target option zero-dates=text keeps it")
            lost.append(_ZERO_DATE)
            return otherwise

        return no_date

    def _loses_dates(
        self,
        nullable: bool,
        zero: Any,  # noqa: ANN401 - as `_no_date`
        shortest: int,
        longest: int,
    ) -> Callable[[Write], Write]:
        """Return a decorator that marks a write of texts of such lengths with its replacement for dates
        without a month or a day; see `_no_date`.
        """
        if self._options.zero_dates == "null" and not nullable:
            return lambda write: write
        token = b"null" if nullable else msgspec.json.encode(zero)
        return lossy_conversion(_ZERO_DATE, "no-date", token, shortest, longest)

    def _calendar_text(self) -> Write:
        """Return the function that writes MySQL's own text; NULL for a date that is not in the calendar."""
        lost = self.lost

        @lossy_conversion(_ZERO_DATE, "no-date", b"null", DATE, LONGEST)
        @kernel_name("calendar")
        def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
            if calendar_days(text[:10]) is None:
                lost.append(_ZERO_DATE)
                return NULL
            return text

        return self._once("calendar", lambda: write)

    # ------------------------------------------------------------ caches

    def _once(self, key: object, made: Callable[[], Write]) -> Write:
        found = self._made.get((key,))
        if found is None:
            found = self._made[key,] = made()
        return found

    def _kept(self, key: object, read: Read, made: Callable[[], tuple[Write, Write]]) -> Write:
        """Return the writer of canonical values; `made` also returns its shortcut from the text that `read`
        reads.
        """
        found = self._made.get((key,))
        if found is None:
            found, from_text = made()
            self._made[key,] = found
            self.shortcuts[read, found] = from_text
        return found


# ---------------------------------------------------------------- numbers


@kernel_name("big-endian")
def big_endian(value: int) -> bytes:
    """Return the shortest two's complement of a number, highest byte first, as in Java."""
    size = (~value if value < 0 else value).bit_length() // 8 + 1
    return value.to_bytes(size, "big", signed=True)


def unscaled(scale: int, value: Decimal) -> int:
    """Return a DECIMAL without its point. Raises ValueError for one with more digits after it."""
    moved = value.scaleb(scale, _CONTEXT)
    number = int(moved)
    if number != moved:
        raise ValueError("more digits after the decimal point than its column has")
    return number


def _exact(scale: int) -> Write:
    return kernel_name("unscaled", scale)(lambda value: big_endian(unscaled(scale, value)))


def _exact_text(scale: int) -> Convert:
    def convert(text: str) -> bytes:
        whole, _, fraction = text.partition(".")
        if len(fraction) == scale and len(text) < _SHORT and (whole + fraction).removeprefix("-").isdecimal():
            return big_endian(int(whole + fraction))
        return big_endian(unscaled(scale, numbers.read_decimal(text)))

    return convert


#: A DECIMAL has at most 65 digits.
_SHORT: Final = 70


@kernel_name("decimal-number")
def _number(value: Decimal) -> msgspec.Raw:
    return msgspec.Raw(numbers.decimal_text(value).encode())


@kernel_name("finite-float")
def _write_float(value: float) -> float | str:
    if abs(value) < numbers.BEYOND_FLOAT:
        return value
    if value - value:
        return numbers.java_text(value)
    raise ValueError("beyond the range of FLOAT")


@kernel_name("finite")
def _write_double(value: float) -> float | str:
    # NaN and infinity are the numbers whose distance to themselves is not 0. Java's JSON has texts for them;
    # msgspec prints null.
    return numbers.java_text(value) if value - value else value


#: Maximum bytes of the 64 bits of the longest BIT.
_MOST_BIT_BYTES: Final = 8


# ---------------------------------------------------------------- bytes


def _padded(length: int, value: bytes) -> bytes:
    return value.ljust(length, b"\0")


def _padded_text(text: Callable[[bytes], str], length: int, value: bytes) -> str:
    return text(value.ljust(length, b"\0"))


_URL_SAFE: Final = str.maketrans("+/", "-_")


@kernel_name("base64-url")
def _url_safe(value: bytes) -> str:
    return base64_text(value).translate(_URL_SAFE)


_POINT: Final = struct.Struct("<BIdd")
_POINT_BIG: Final = struct.Struct(">BIdd")
_POINT_KIND: Final = 1
#: An SRID, the byte order, a kind, and the number of parts.
_LEAST_GEOMETRY: Final = 13


def _geometry(value: bytes) -> dict[str, Any]:
    """Convert MySQL's own form: the SRID, lowest byte first, and WKB. Raises ValueError for a value too short
    for both.
    """
    if len(value) < _LEAST_GEOMETRY:
        raise ValueError("not a geometry")
    srid = int.from_bytes(value[:4], "little")
    return {"wkb": value[4:], "srid": srid or None}


def _point(value: bytes) -> dict[str, Any]:
    """Convert a POINT. Raises ValueError."""
    wkb = value[4:]
    if len(wkb) != _POINT.size:
        raise ValueError("not a point")
    _, kind, x, y = (_POINT if wkb[0] else _POINT_BIG).unpack(wkb)
    if kind != _POINT_KIND:
        raise ValueError("not a point")
    return {"x": x, "y": y, **_geometry(value)}


_read_vector: Final = msgspec.json.Decoder(list[float]).decode


def _vector(text: str) -> list[float]:
    try:
        return _read_vector(text)
    except msgspec.MsgspecError:
        raise ValueError("not a vector") from None


_STRING: Final = re.compile(r'("(?:[^"\\]|\\.)*+"?)|[ \t\r\n]++', re.DOTALL)


@kernel_name("compact-json")
def _compact(text: str) -> str:
    """Return JSON without space between its parts, as the connector prints JSON of the binlog."""
    if " " not in text and "\n" not in text:
        return text
    if "\\" in text:
        return _STRING.sub(lambda match: match[1] or "", text)
    parts = text.split('"')
    parts[::2] = ["".join(part.split()) for part in parts[::2]]
    return '"'.join(parts)


_WRITES: Final[dict[str, Write]] = {
    "float": _write_float,
    "double": _write_double,
    "vector": _vector,
    "json": _compact,
}

# ---------------------------------------------------------------- dates and times

_from_iso: Final = datetime.fromisoformat
_EPOCH: Final = datetime(1970, 1, 1)


def _micros(text: str) -> int | None:
    """Return the microseconds since 1970 of a DATETIME; None if not in the calendar. Raises ValueError."""
    try:
        since = _from_iso(text) - _EPOCH
    except ValueError:
        temporal.read_datetime(text)
        if calendar_days(text[:10]) is not None:
            raise
        return None
    if text[4:20:3] not in SHAPES or len(text) > LONGEST:
        raise ValueError("not a date and time")
    return since.days * _DAY_MICROS + since.seconds * 1_000_000 + since.microseconds


def _shortest(text: str) -> str:
    """Return a time without trailing zeros."""
    return text.rstrip("0").removesuffix(".") if "." in text else text
