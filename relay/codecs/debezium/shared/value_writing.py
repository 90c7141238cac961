"""Writing canonical values for TiCDC's Debezium formats, and counting the losses.

A `DebeziumValueWriter` returns, per column, a function from the canonical value to a value that msgspec
prints as TiCDC's JSON: `bytes` for base64, `msgspec.Raw` for numbers that msgspec would print differently. If
the written value is ambiguous for readers, the function appends to `lost`, which the encoder empties before
every row. `shortcuts` are for sources whose wire has the canonical text already. Source: pingcap/ticdc
pkg/sink/codec/debezium/codec.go (2026-08), value rules; its records.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import datetime
from decimal import Decimal
from typing import Any, Final

import msgspec

from relay.codecs.debezium.shared.schemas import AvroForms, counts_micros, has_open_digits
from relay.codecs.debezium.shared.values import bits, signed64
from relay.codecs.losses import Loss
from relay.codecs.shared.conversions import Convert, Read, Write
from relay.codecs.shared.debezium_temporal import (
    FIRST_TIMESTAMP,
    ZERO_TIMESTAMP,
    date_days,
    datetime_micros,
    datetime_millis,
    iso_timestamp,
    time_micros,
)
from relay.codecs.shared.lenient_json import go_number
from relay.model.events import Cell, Column, ColumnType
from relay.mysql import numbers, temporal
from relay.mysql.conversion_names import BOOLEANS, kernel_name, lossy_conversion
from relay.mysql.members import set_text, write_label
from relay.mysql.types import GEOMETRIES

#: A NULL that is a value and must not be replaced by the column's default.
NULL: Final = msgspec.Raw(b"null")
#: Every 64-bit float keeps this many digits (IEEE 754).
_SAFE_DIGITS: Final = 15
#: Limits of numbers that need no `go_number`: whole ones up to the first, fractions from the second on.
_WHOLE, _SMALL = 1e15, 1e-5
#: Maximum texts of SET kept per column, and their approximate maximum bytes.
_CACHED_SETS: Final = 4096
_CACHED_SET_BYTES: Final = 1 << 20
_SET_TEXT_BYTES: Final = 100

_ZERO_DATE: Final = Loss.ZERO_DATE
_SHORT_YEAR: Final = Loss.YEAR_BELOW_100
_DECIMAL_DIGITS: Final = Loss.DECIMAL_DIGITS
_ENUM_INDEX: Final = Loss.ENUM_INDEX
_COLUMN_TYPE: Final = Loss.COLUMN_TYPE


class LabelWriter:
    """Writes ENUM and SET as labels; values without one are counted in `lost`."""

    def __init__(self, lost: list[Loss]) -> None:
        self._lost = lost

    def of(self, column_type: ColumnType) -> Write:
        """Return the writing function for values of this type."""
        members = column_type.members
        if members is None:
            return self._unknown_enum if column_type.base == "enum" else self._unknown_set
        write = self._enum(members) if column_type.base == "enum" else self._set(members)
        return write_label(write, column_type)

    @kernel_name("label")
    def _unknown_enum(self, value: int | str) -> str:
        """Return a label unchanged, a number in digits: its label is unknown before the table's DDL."""
        if isinstance(value, str):
            return value
        self._lost.append(_ENUM_INDEX)
        return str(value)

    @kernel_name("label")
    def _unknown_set(self, value: int | str) -> str:
        """Return the same as for an ENUM; the empty SET needs no labels."""
        return self._unknown_enum(value) if value else ""

    def _enum(self, members: tuple[str, ...]) -> Write:
        label_of = dict(enumerate(members, 1))
        lost, is_ambiguous = self._lost, "" in members

        def write(index: int) -> str:
            label = label_of.get(index)
            if label is not None:
                return label
            if index or is_ambiguous:
                lost.append(_ENUM_INDEX)
            return ""

        return write

    def _set(self, members: tuple[str, ...]) -> Write:
        lost, end = self._lost, 1 << len(members)
        longest = _SET_TEXT_BYTES + sum(map(len, members))
        most = max(1, min(_CACHED_SETS, _CACHED_SET_BYTES // longest))
        texts: dict[int, str] = {}

        def write(mask: int) -> str:
            text = texts.get(mask)
            if text is None:
                if not 0 <= mask < end:
                    lost.append(_ENUM_INDEX)
                    return ""
                if len(texts) >= most:
                    texts.clear()
                text = texts[mask] = set_text(members, mask)
            return text

        return write


class DebeziumValueWriter:
    """Writes values of one encoder's rows; `lost` holds their losses since it was last emptied.

    `too_fine` is not empty after a DATETIME that has more digits than its column counts. `avro`: the output
    becomes Avro, where decimals and unsigned numbers are exact.
    """

    def __init__(self, avro: AvroForms | None = None) -> None:
        self.lost: list[Loss] = []
        self.too_fine: list[bool] = []
        # By whether the column can be NULL: a date that is not in the calendar becomes NULL there, else 0.
        self._dates = {
            nullable: kernel_name("date-days")(self._dated(date_days, nullable)) for nullable in (True, False)
        }
        self._micros = {
            nullable: _datetime_micros(self._dated(datetime_micros, nullable)) for nullable in (True, False)
        }
        self._millis = {
            nullable: _datetime_millis(self._dated(datetime_millis, nullable), self.too_fine)
            for nullable in (True, False)
        }
        # For a DATETIME of unknown digits, MySQL's own text shows them.
        self._open = {
            nullable: _datetime_open(self._millis[nullable], self.too_fine) for nullable in (True, False)
        }
        for writes, shortest, longest in (
            (self._dates, DATE, DATE),
            (self._micros, WHOLE, LONGEST),
            (self._millis, WHOLE, _WITH_MILLIS),
            (self._open, WHOLE, _WITH_MILLIS),
        ):
            lossy_conversion(_ZERO_DATE, "no-date", b"null", shortest, longest)(writes[True])
            lossy_conversion(_ZERO_DATE, "no-date", b"0", shortest, longest)(writes[False])
        self._timestamps = {
            digits: timestamp_writer(digits, self.lost) for digits in (None, 0, 1, 2, 3, 4, 5, 6)
        }
        self._decimal: Write = self._write_decimal
        self._unsigned: Write = signed64
        if avro is not None:
            self._decimal, self._unsigned = numbers.decimal_text, _OF_AVRO[avro.has_bigint_text]
        self._labels = LabelWriter(self.lost)
        self.shortcuts = self._all_shortcuts()

    def of(self, column: Column) -> Write | None:
        """Return the writing function of this column's values; None if they are written unchanged."""
        column_type = column.type
        base, nullable = column_type.base, column.nullable is not False
        if base == "datetime":
            return self._datetimes(column)[nullable]
        if base == "timestamp":
            return self._timestamps.get(column_type.length, self._timestamps[None])
        if base == "date":
            return self._dates[nullable]
        if base == "bigint" and column_type.unsigned:
            return self._unsigned
        if base == "bit":
            return _bit(column_type.length)
        if base in {"enum", "set"}:
            return self._labels.of(column_type)
        if base in GEOMETRIES:
            return self._geometry
        return self._decimal if base == "decimal" else _WRITES.get(base)

    def _datetimes(self, column: Column) -> dict[bool, Write]:
        if counts_micros(column.type):
            return self._micros
        return self._open if has_open_digits(column) else self._millis

    def _all_shortcuts(self) -> dict[tuple[Read, Write | None], Convert]:
        """Return the functions that replace pairs of a read that only checks its text and a write that checks
        it too; and of DECIMAL, whose text need not become a Decimal.
        """
        datetimes = [write for each in (self._millis, self._micros, self._open) for write in each.values()]
        datetimes += self._timestamps.values()
        found: dict[tuple[Read, Write | None], Convert] = {
            (temporal.read_datetime, write): write for write in datetimes
        }
        found |= {(temporal.read_date, write): write for write in self._dates.values()}
        found[temporal.read_time, time_micros] = time_micros
        if self._decimal is not numbers.decimal_text:
            found[numbers.read_decimal, self._decimal] = self._write_decimal_text
        return found

    def _dated(self, convert: Callable[[str], int | None], nullable: bool) -> Write:
        lost, otherwise = self.lost, NULL if nullable else 0

        def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
            found = convert(text)
            if found is None:
                lost.append(_ZERO_DATE)
                return otherwise
            if text < "0100":
                lost.append(_SHORT_YEAR)
            return found

        return write

    @lossy_conversion(_DECIMAL_DIGITS, "rounded-double")
    @kernel_name("decimal-double")
    def _write_decimal(self, value: Decimal) -> Any:  # noqa: ANN401 - any value that msgspec prints
        number = float(value) + 0.0  # zero has no sign
        if len(value.as_tuple().digits) > _SAFE_DIGITS and Decimal(repr(number)) != value:
            self.lost.append(_DECIMAL_DIGITS)
        return go_number(number)

    def _write_decimal_text(self, text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
        if len(text) <= _SAFE_DIGITS and "_" not in text:
            number = float(text)
            if number.is_integer() and -_WHOLE < number < _WHOLE:
                return int(number)
            if _SMALL <= number < _WHOLE or -_WHOLE < number <= -_SMALL:
                return number
        return self._write_decimal(numbers.read_decimal(text))

    def _geometry(self, value: bytes) -> bytes:
        """Write a spatial value as a BLOB of MySQL's stored bytes; TiDB has no spatial types."""
        self.lost.append(_COLUMN_TYPE)
        return value


def _unwrapped(value: int) -> int:
    """Return an unsigned number as signed, the only kind that TiCDC's Avro accepts. Raises ValueError."""
    if not 0 <= value < 1 << 63:
        raise ValueError("a number that a long does not hold")
    return value


def _digits(value: int) -> str:
    if not 0 <= value < 1 << 64:
        raise ValueError("not an unsigned number of 64 bits")
    return str(value)


#: BIGINT UNSIGNED, by whether it is text.
_OF_AVRO: Final[dict[bool, Write]] = {False: _unwrapped, True: _digits}


def micro_digits(cell: Cell) -> str:
    """Return the digits of a DATETIME's text after the first three of its fraction."""
    return cell[_WITH_MILLIS:] if isinstance(cell, str) else ""


# ISO 8601 has more forms than MySQL: weeks, offsets, other separators. So the result of Python's parser is
# checked, in an order that is cheap for the usual text; unusual text is checked closely.
_from_iso: Final = datetime.fromisoformat
_EPOCH: Final = datetime(1970, 1, 1)
#: Earlier years are shifted.
_DAYS_OF_YEAR_100: Final = (datetime(100, 1, 1) - _EPOCH).days
#: The separators of a DATETIME, which are every third character from the fifth on.
SHAPES: Final = frozenset({"-- ::", "-- ::."})
DATE, WHOLE = len("0000-00-00"), len("0000-00-00 00:00:00")
LONGEST: Final = len("0000-00-00 00:00:00.000000")
_WITH_MILLIS: Final = len("0000-00-00 00:00:00.000")


def _bit(length: int | None) -> Write:
    if length == 1:
        return BOOLEANS
    size = ((length or 64) + 7) // 8
    return kernel_name("bits", size)(functools.partial(bits, size))


def _datetime_micros(closely: Write) -> Write:
    """Return the function that writes a DATETIME in microseconds."""

    @kernel_name("datetime-micros")
    def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
        try:
            since = _from_iso(text) - _EPOCH
        except ValueError:
            return closely(text)
        days = since.days
        if text[4:20:3] in SHAPES and len(text) <= LONGEST and days >= _DAYS_OF_YEAR_100:
            return days * 86_400_000_000 + since.seconds * 1_000_000 + since.microseconds
        return closely(text)

    return write


def _datetime_millis(closely: Write, too_fine: list[bool]) -> Write:
    """Return the function that writes a DATETIME in milliseconds."""

    @kernel_name("datetime-millis", LONGEST)
    def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
        try:
            since = _from_iso(text) - _EPOCH
        except ValueError:
            if text[_WITH_MILLIS:].strip("0"):
                too_fine.append(True)
            return closely(text)
        days, micros = since.days, since.microseconds
        if micros % 1_000:
            too_fine.append(True)
        if text[4:20:3] in SHAPES and len(text) <= LONGEST and days >= _DAYS_OF_YEAR_100:
            return days * 86_400_000 + since.seconds * 1_000 + micros // 1_000
        return closely(text)

    return write


def _datetime_open(write_millis: Write, too_fine: list[bool]) -> Write:
    """Return the function that writes a DATETIME of unknown digits."""

    @kernel_name("datetime-millis", _WITH_MILLIS)
    def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
        if len(text) > _WITH_MILLIS:
            too_fine.append(True)
        return write_millis(text)

    return write


def timestamp_writer(digits: int | None, lost: list[Loss], null: msgspec.Raw | None = None) -> Write:
    """Return the function that writes a TIMESTAMP with this many fraction digits. Other texts become `null`
    (counted), or the text of the zero timestamp.
    """
    length = 0
    if digits is not None:
        length = LONGEST - 6 + digits if digits else 19

    @kernel_name("timestamp-iso", digits, int(null is None))
    def write(text: str) -> Any:  # noqa: ANN401 - any value that msgspec prints
        if len(text) == length and text[4:20:3] in SHAPES and text >= FIRST_TIMESTAMP:
            try:
                if _from_iso(text).tzinfo is None:
                    return f"{text[:10]}T{text[11:]}Z"
            except ValueError:
                pass
        found = iso_timestamp(text, digits)
        if found == ZERO_TIMESTAMP and (null is not None or not text.startswith("0000-00-00")):
            lost.append(_ZERO_DATE)
            return found if null is None else null
        return found

    return (
        write if null is None else lossy_conversion(_ZERO_DATE, "no-date", bytes(null), WHOLE, LONGEST)(write)
    )


@kernel_name("go-number-float")
def _write_float(value: float) -> Any:  # noqa: ANN401 - any value that msgspec prints
    if abs(value) >= numbers.BEYOND_FLOAT:
        raise ValueError("beyond the range of FLOAT")
    return go_number(value)


_WRITES: Final[dict[str, Write]] = {"time": time_micros, "float": _write_float, "double": go_number}


def image_names(shown: tuple[str, ...], row: Any) -> Collection[str]:  # noqa: ANN401 - a dict, or a struct made at run time
    """Return the columns of an image; `shown` itself for a whole row."""
    return row if type(row) is dict and len(row) < len(shown) else shown


def present_names(
    index_of: Mapping[str, int], rows: Sequence[Collection[str]]
) -> tuple[tuple[str, ...], tuple[str, ...]]:
    """Return the columns that any of the rows has, and of those the ones that some rows lack.

    Each row has its own columns in table order; `index_of` has their indexes.
    """
    if len(rows) == 1 or tuple(rows[0]) == tuple(rows[-1]):
        return tuple(rows[0]), ()
    first, second = frozenset(rows[0]), frozenset(rows[1])
    present = tuple(sorted(first | second, key=index_of.__getitem__))
    return present, tuple([name for name in present if name not in first or name not in second])
