"""Layouts of TiCDC's Debezium rows: how JSON values become canonical, and parsers that are compiled for
certain columns.

Contract: a `Layout` parses rows with exactly its columns, of one table version, in one step into a struct;
for all others it gives None. It knows what the wire cannot tell apart and counts it.
"""

from __future__ import annotations

import functools
import math
import operator
from collections.abc import Iterator, Sequence
from decimal import Decimal, InvalidOperation
from typing import Any, Final

import msgspec

from relay.codecs.debezium.defaults import null_default, zero_is_null
from relay.codecs.debezium.schema import ticdc_field
from relay.codecs.debezium.values import (
    date_text,
    datetime_text,
    read_bits,
    read_enum,
    scaled,
    time_text,
    timestamp_text,
    unsigned64,
)
from relay.codecs.debezium.writing import ValueWriter
from relay.codecs.losses import Lossy
from relay.codecs.wire.lenient_json import read_base64, with_negative_zeros
from relay.codecs.wire.rows import Read, RowReader
from relay.model import ABSENT, Column, ColumnType
from relay.mysql.members import enum_numbers, read_set, set_numbers
from relay.mysql.types import BINARIES


def _exact(text: str) -> Decimal:
    """A number with all its digits. Raises ValueError for one that no float can hold."""
    if math.isinf(float(text)):
        raise ValueError("Number out of range")
    try:
        return Decimal(text)
    except InvalidOperation:
        raise ValueError("Number out of range") from None


_decode = msgspec.json.Decoder(dict[str, Any], float_hook=_exact).decode


def parsed_object(image: bytes) -> dict[str, Any]:
    """An image as a JSON object, of which numbers keep all digits. Raises what msgspec raises."""
    found: dict[str, Any] = _decode(with_negative_zeros(image))
    return found


# ---------------------------------------------------------------- values


def read_of(column_type: ColumnType, *, is_known: bool) -> Read | None:
    """How a value in TiCDC's dialect becomes canonical; None if it is.

    `is_known`: the type has its parameters. Else fractions of seconds get the digits that they need.
    """
    base, length = column_type.base, column_type.length
    digits = length if is_known else None
    if base == "bigint" and column_type.unsigned:
        return unsigned64
    if base == "decimal":
        return functools.partial(scaled, column_type.scale)
    if base == "bit":
        return int if length == 1 else read_bits
    if base in BINARIES:
        return read_base64
    if base == "datetime":
        return functools.partial(_read_micros if length is None or length > 3 else _read_millis, digits)
    if base == "timestamp":
        return lambda text: timestamp_text(text, digits)
    if base == "time":
        return lambda count: time_text(count, digits)
    return date_text if base == "date" else _members_read(column_type)


def _read_micros(digits: int | None, count: int) -> str:
    return datetime_text(count, digits)


def _read_millis(digits: int | None, count: int) -> str:
    return datetime_text(count * 1000, digits)


def _members_read(column_type: ColumnType) -> Read | None:
    """Labels as numbers; None for other types and for unknown members, whose labels stay."""
    members = column_type.members
    if members is None:
        return None
    if column_type.base == "enum":
        return functools.partial(read_enum, enum_numbers(members))
    return functools.partial(read_set, set_numbers(members))


#: The Python types of JSON values, by Connect type.
_KINDS: Final[dict[str, type]] = {
    "boolean": bool, "int8": int, "int16": int, "int32": int, "int64": int, "float": float, "double": float,
}  # fmt: skip


def kind_of(column_type: ColumnType) -> type:
    """The Python type of the column's JSON values; DECIMAL is a number whose digits are kept."""
    return Decimal if column_type.base == "decimal" else _KINDS.get(ticdc_field(column_type).type, str)


def fitting(kind: type, value: Any) -> Any:  # noqa: ANN401 - any JSON value
    """The value as its column's kind; ABSENT if it cannot be one."""
    if value is None or type(value) is kind:
        return value
    if kind is float and type(value) in {int, Decimal}:
        try:
            return float(value)
        except OverflowError:
            return ABSENT
    if kind is Decimal and type(value) in {int, float}:
        return Decimal(repr(value))
    return ABSENT


# ---------------------------------------------------------------- layouts


class Layout:
    """Rows with exactly these columns of one table version. Compiled once.

    `block`: the schema block of the message that it was made for; `key`: its key's columns, None where they
    do not matter. `is_value_guessed`: nothing but JSON values tells the types of some columns.
    """

    def __init__(
        self, reader: RowReader, block: bytes, key: tuple[str, ...] | None, *, is_value_guessed: bool
    ) -> None:
        self.reader, self.block, self.key, self.is_value_guessed = reader, block, key, is_value_guessed
        reader.says_types = b'"tidb_type"' in block
        columns = [reader.schema.columns[at] for at in reader.places]
        self.names = [column.name for column in columns]
        self._kinds = [kind_of(column.type) for column in columns]
        self._has_floats = not {float, Decimal}.isdisjoint(self._kinds)
        self._parse, self._cells = _compiled(self.names, self._kinds)
        self._ambiguous = list(self._ambiguities(columns))
        counts = {
            Lossy.SCHEMA_GUESSED: reader.is_guessed,
            Lossy.VALUE_GUESSED: is_value_guessed,
            Lossy.COLUMNS_ABSENT: reader.is_partial,
        }
        self._counts = [what for what, is_counted in counts.items() if is_counted]
        #: Columns in which 0 stands for NULL.
        self.zero_nulls = frozenset(at for at, column in enumerate(columns) if zero_is_null(column))

    def cells(self, image: bytes) -> Sequence[Any] | None:
        """The image's cells; None if it has other columns, or values of another kind. Raises for what is no
        JSON.
        """
        if self._parse is None:
            found = self.fitted(parsed_object(image))
            return None if found is None or ABSENT in found else found
        if self._has_floats:
            image = with_negative_zeros(image)
        try:
            parsed = self._parse(image)
        except msgspec.ValidationError:
            return None
        cells: Sequence[Any] = self._cells(parsed)
        return cells

    def fitted(self, row: dict[str, Any]) -> list[Any] | None:
        """The cells of a parsed image, ABSENT for columns that it lacks; None if a column or a value does not
        fit.
        """
        cells = []
        for name, kind in zip(self.names, self._kinds, strict=True):
            cell = ABSENT
            if name in row:
                cell = fitting(kind, row[name])
                if cell is ABSENT:
                    return None
            cells.append(cell)
        return cells if row.keys() <= set(self.names) else None

    def count(self, old: Sequence[Any] | None, new: Sequence[Any] | None, lossy: list[Lossy]) -> None:
        """Count what is not known of a row with these cells."""
        lossy += self._counts
        for at, value, what in self._ambiguous:
            if (new is not None and new[at] == value) or (old is not None and old[at] == value):
                lossy.append(what)

    def with_nulls(self, cells: Sequence[Any] | None) -> Sequence[Any] | None:
        """The cells with NULL where 0 stands for it."""
        if cells is None or all(cells[at] != 0 for at in self.zero_nulls):
            return cells
        return [None if at in self.zero_nulls and cell == 0 else cell for at, cell in enumerate(cells)]

    def _ambiguities(self, columns: list[Column]) -> Iterator[tuple[int, Any, Lossy]]:
        """Where the wire has one value for two: the default for NULL, 1970-01-01 for a date that is not in
        the calendar.
        """
        for at, (column, kind) in enumerate(zip(columns, self._kinds, strict=True)):
            default = null_default(column, ValueWriter().of(column))
            if default is not None:
                value = fitting(kind, msgspec.json.decode(msgspec.json.encode(default)))
                yield at, value, Lossy.NULL_OR_DEFAULT
            elif column.nullable is False and column.type.base in {"date", "datetime"}:
                yield at, 0, Lossy.EPOCH_OR_ZERO_DATE


def _compiled(names: list[str], kinds: list[type]) -> tuple[Any, Any]:
    """A parser for rows of these columns, and what takes the cells out of a parsed row; None if msgspec
    cannot have such names.
    """
    fields = [(f"c{at}", kind | None) for at, kind in enumerate(kinds)]
    renamed = {f"c{at}": name for at, name in enumerate(names)}
    try:
        row = msgspec.defstruct("Row", fields, rename=renamed, forbid_unknown_fields=True, gc=False)
    except (ValueError, UnicodeError):
        return None, None
    parse = msgspec.json.Decoder(row).decode
    if len(fields) == 1:
        return parse, lambda parsed: (parsed.c0,)
    return parse, operator.attrgetter(*renamed)
