"""Column values in Maxwell's JSON: parsing, reading and writing them.

For each type of column, `wire_type` is the Python type of the JSON parser that loses nothing: DECIMAL is a
number with all its digits, a JSON column stays JSON. `read_of` returns the function from that to the
canonical value, None if both are the same; `MaxwellValueWriter.of` the function from the canonical value to
one that msgspec prints. A reader raises ValueError. Sources: zendesk/maxwell 1.45 schema/columndef/*.java;
its records.

Labels of ENUM and SET have the spelling of the statement that defined them: `it''s`, `back\\\\slash`. Maxwell
itself destroys some values beyond repair: TIME beyond a day or negative, BIT above 31 bits, dates that are
not in the calendar.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Mapping
from decimal import Decimal, InvalidOperation
from typing import Annotated, Any, Final, TypeGuard

import msgspec
from msgspec import Meta

from relay.codecs.losses import Loss
from relay.codecs.maxwell.geometry import geometry_text, read_geometry
from relay.codecs.shared.base64_text import base64_text, read_base64
from relay.codecs.shared.conversions import Read, Write
from relay.codecs.shared.lenient_json import REFUSED, json_document
from relay.model.events import ABSENT, Column, ColumnType
from relay.mysql import numbers, temporal
from relay.mysql.conversion_names import Conversion, kernel_name, lossy_conversion
from relay.mysql.members import label_text
from relay.mysql.types import BINARIES, GEOMETRIES, INTEGERS
from relay.mysql.values import padded_reader

# ---------------------------------------------------------------- parsed

_Int64 = Annotated[int, Meta(ge=-(1 << 63), le=(1 << 63) - 1)]
_DATES: Final = frozenset({"date", "datetime", "timestamp"})


def wire_type(column_type: ColumnType) -> Any:  # noqa: ANN401 - a type
    """Return the parser's type of a column's values other than NULL."""
    base = column_type.base
    if base in INTEGERS:
        return int if base == "bigint" and column_type.unsigned else _Int64
    if base == "bit":
        return int
    return _WIRE_TYPES.get(base, str)


_WIRE_TYPES: Final[dict[str, Any]] = {
    "year": _Int64,
    "decimal": Decimal,
    # Java's texts for NaN and infinities.
    "float": float | str,
    "double": float | str,
    # TiCDC's dialect has numbers.
    "enum": str | int,
    "set": list[str] | int,
    "json": msgspec.Raw,
    "vector": str | list[float],
}


def or_null(wire: Any) -> Any:  # noqa: ANN401 - a type
    """Return the parser's type of a value that may be null; for a JSON column, raw JSON."""
    return wire if wire is msgspec.Raw else wire | None


#: The kind of a JSON value, by its first byte.
STRING, NUMBER, ARRAY, OBJECT, BOOLEAN, NULL = "string", "number", "array", "object", "boolean", "null"
_BY_FIRST: Final = {
    ord('"'): STRING, ord("["): ARRAY, ord("{"): OBJECT, ord("t"): BOOLEAN, ord("f"): BOOLEAN, ord("n"): NULL,
}  # fmt: skip
_STRINGS: Final = frozenset({STRING})
_NUMBERS: Final = frozenset({NUMBER})
_ANY: Final = frozenset({STRING, NUMBER, ARRAY, OBJECT, BOOLEAN})
_KINDS_OF: Final = {
    "decimal": _NUMBERS | _STRINGS,
    "float": _NUMBERS | _STRINGS,
    "double": _NUMBERS | _STRINGS,
    "enum": _NUMBERS | _STRINGS,
    "set": frozenset({ARRAY, NUMBER}),
    "json": _ANY,
    "vector": frozenset({ARRAY, STRING}),
}


def kind_of(value: msgspec.Raw) -> str:
    """Return the kind of a JSON value."""
    return _BY_FIRST.get(memoryview(value)[0], NUMBER)


def fits(column_type: ColumnType, value: msgspec.Raw) -> bool:
    """Return whether a value has a JSON kind of this column type."""
    kind = kind_of(value)
    if kind is NULL:
        return True
    base = column_type.base
    if base in INTEGERS or base in {"bit", "year"}:
        text = bytes(value)
        return kind is NUMBER and text.lstrip(b"-").isdigit() and _has_64_bits(column_type, text)
    return kind in _KINDS_OF.get(base, _STRINGS)


def _has_64_bits(column_type: ColumnType, digits: bytes) -> bool:
    """Return whether a number fits the 64 bits of its column."""
    if len(digits) > _LONGEST:  # int() refuses too many digits
        return False
    end = 1 << 63 if wire_type(column_type) is _Int64 else 1 << 64
    return -(1 << 63) <= int(digits) < end


#: Number of characters of the longest 64-bit number.
_LONGEST: Final = 20


def inferred_type(value: msgspec.Raw) -> ColumnType | None:
    """Return the type of a column of which only a value is known; None if that is NULL.

    A number that neither a DECIMAL nor a DOUBLE holds is a JSON document. Text may be any text of Maxwell's,
    including dates and base64. An array of texts is a SET.
    """
    kind = kind_of(value)
    if kind is NULL:
        return None
    if kind is NUMBER:
        return _number_type(bytes(value).decode())
    if kind is STRING:
        return _VARCHAR
    return _SET if kind is ARRAY and _is_set(value) else _JSON


def declared_type(inferred: ColumnType) -> ColumnType:
    """Return the declared type for an inferred one: text for a SET, whose members are unknown."""
    return _VARCHAR if inferred == _SET else inferred


_VARCHAR, _SET, _JSON = ColumnType("varchar"), ColumnType("set"), ColumnType("json")
_BIGINT, _UNSIGNED = ColumnType("bigint"), ColumnType("bigint", unsigned=True)
_DECIMAL, _DOUBLE = ColumnType("decimal"), ColumnType("double")
#: From this exponent down Java prints a DECIMAL with an exponent.
_LEAST_PLAIN: Final = -6


def _number_type(text: str) -> ColumnType:
    if text.lstrip("-").isdigit() and len(text) <= _LONGEST:
        number = int(text)
        if -(1 << 63) <= number < 1 << 63:
            return _BIGINT
        return _UNSIGNED if 0 < number < 1 << 64 else _DECIMAL
    mantissa, _, exponent = text.upper().partition("E")
    kind = _DOUBLE if exponent and _is_double(text, mantissa) else _JSON
    if exponent and "." in mantissa and int(exponent[:6]) >= _LEAST_PLAIN:
        return kind
    try:
        size = Decimal(text).adjusted()
    except InvalidOperation:  # an exponent that no Decimal has
        return _JSON
    return _DECIMAL if abs(size) <= _MOST_DIGITS else kind


def _is_double(text: str, mantissa: str) -> bool:
    """Return whether a number is within the range of a double."""
    number = float(text)
    return math.isfinite(number) and (number != 0 or not mantissa.strip("-0."))


_MOST_DIGITS: Final = 65
_parse_labels: Final = msgspec.json.Decoder(list[str]).decode


def _is_set(value: msgspec.Raw) -> bool:
    try:
        _parse_labels(value)
    except REFUSED:
        return False
    return True


def common_type(one: ColumnType, other: ColumnType) -> ColumnType:
    """Return the type of a column two of whose values imply these types."""
    if one == other:
        return one
    both = {one.base, other.base}
    if both == {"bigint"}:
        return _UNSIGNED
    if both <= {"bigint", "decimal"}:
        return _DECIMAL
    if both <= {"bigint", "decimal", "double"}:
        return _DOUBLE
    return _JSON


# ---------------------------------------------------------------- read


def read_of(column_type: ColumnType) -> Read | None:
    """Return the function that reads a parsed value; None if it is the canonical one."""
    base = column_type.base
    if base == "decimal":
        scale = column_type.scale or 0
        return kernel_name("decimal-number", None, scale)(functools.partial(_read_decimal, scale))
    if base in {"enum", "set"}:
        return _labels_reader(column_type)
    if base in GEOMETRIES:
        return read_geometry
    if base in BINARIES:
        length = column_type.length
        return padded_reader(read_base64, length) if base == "binary" and length is not None else read_base64
    if base == "bigint" and column_type.unsigned:
        return _read_unsigned
    return _READS.get(base)


@kernel_name("int64")
def _read_unsigned(value: int) -> int:
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value


@kernel_name("natural")
def _read_bit(value: int) -> int:
    """Read a BIT; BIT(32) comes as a signed 32-bit number."""
    if value < 0:
        value &= 0xFFFF_FFFF
    return _read_unsigned(value)


#: Maxwell writes this for the YEAR 0000. MySQL has no such YEAR.
NO_YEAR: Final = 1900


def _read_year(year: int) -> int:
    return 0 if year == NO_YEAR else year


def _read_decimal(scale: int, value: Decimal) -> Decimal:
    return numbers.read_scaled_decimal(scale, str(value))


#: Values without a MySQL number, which a producer may write that lost the real one (REAL as 32 bits).
_WORDS: Final = {"Infinity": math.inf, "-Infinity": -math.inf, "NaN": math.nan}


@kernel_name("double-number")
def _read_double(value: float | str) -> float:
    if not isinstance(value, str):
        return value
    if value not in _WORDS:
        raise ValueError("not a number")
    return _WORDS[value]


@kernel_name("float")
def _read_float(value: float | str) -> float:
    value = _read_double(value)
    return value if value - value else numbers.shortest_float32(value)


def _read_document(value: msgspec.Raw) -> str:
    return bytes(value).decode()


def _read_vector(value: str | list[float]) -> str:
    return value if isinstance(value, str) else msgspec.json.encode(value).decode()


_READS: Final[dict[str, Read]] = {
    "bit": _read_bit,
    "year": _read_year,
    "float": _read_float,
    "double": _read_double,
    "date": temporal.read_date,
    "datetime": temporal.read_datetime,
    "timestamp": temporal.read_datetime,
    "time": temporal.read_time,
    "json": _read_document,
    "vector": _read_vector,
}


def spelled(label: str) -> str:
    """Escape a label for a literal of DDL, without the quotes around it."""
    return label.replace("\\", "\\\\").replace("'", "''")


def _labels_reader(column_type: ColumnType) -> Read:
    members = column_type.members
    if column_type.base == "enum":
        indexes = None if members is None else _column_indexes(members, lambda at: at + 1)
        read = functools.partial(_read_enum, indexes)
        return kernel_name("enum-member", members)(read) if _are_plain(members) else read
    if members is None:
        return read_unknown_set
    return functools.partial(_read_set, _column_indexes(members, lambda at: 1 << at))


def _are_plain(members: tuple[str, ...] | None) -> TypeGuard[tuple[str, ...]]:
    """Return whether labels are known, and need no escapes."""
    return members is not None and all(spelled(label) == label for label in members)


def _column_indexes(members: tuple[str, ...], number: Callable[[int], int]) -> Mapping[str, int]:
    """Return the labels' numbers by spelling in DDL and, unless that is another label's, by plain text."""
    found: dict[str, int] = {}
    for spelling in (spelled, lambda label: label.replace("\\", "\\\\").replace("'", "\\'"), str):
        for at, label in enumerate(members):
            found.setdefault(spelling(label), number(at))
    return found


def _read_enum(indexes: Mapping[str, int] | None, value: str | int) -> int | str:
    if isinstance(value, int) or indexes is None:
        return value
    index = indexes.get(value)
    if index is None and value:
        raise ValueError("not a member of the type")
    return index or 0


def read_unknown_set(value: list[str] | int) -> int | str:
    """Read the labels of a SET with unknown members, as text."""
    return value if isinstance(value, int) else ",".join(filter(None, value))


def _read_set(bits: Mapping[str, int], value: list[str] | int) -> int:
    if isinstance(value, int):
        return value
    try:
        return sum({bits[label] for label in value if label})
    except KeyError:
        raise ValueError("not a member of the type") from None


def null_cell(column: Column) -> Any:  # noqa: ANN401 - any parsed value
    """Return the meaning of null in a NOT NULL column, None if it has none: index 0 of ENUM is null."""
    return 0 if column.nullable is False and column.type.base == "enum" else None


#: The types with null for a value that is not NULL: zero dates, and index 0 of ENUM.
_NULL_FOR_VALUES: Final = frozenset({"date", "datetime", "timestamp", "enum"})


def left_out_cell(column: Column) -> Any:  # noqa: ANN401 - any parsed value
    """Return the cell of a column that is missing from a row without NULLs: null, or ABSENT if no row can
    have null there, so that a filter must have removed the column.
    """
    is_null = column.nullable is not False or column.type.base in _NULL_FOR_VALUES
    return None if is_null else ABSENT


# ---------------------------------------------------------------- written


def as_it_came(value: list[str] | int) -> list[str] | int:
    """Write the labels of a SET with unknown members, which are text elsewhere."""
    return value


#: Writes a JSON column's document, except null.
SOME_DOCUMENT: Final[Conversion] = ("some-document",)


class MaxwellValueWriter:
    """Writes values of one encoder's rows; `lost` holds their losses since it was last emptied."""

    def __init__(self, *, has_null_dates: bool, has_nulls: bool) -> None:
        self._has_null_dates, self._has_nulls = has_null_dates, has_nulls
        self.lost: list[Loss] = []

    def of(self, column: Column) -> Write | None:
        """Return the writing function of a column's values; None if msgspec prints them unchanged. No date of
        a column that cannot be NULL becomes NULL.
        """
        base = column.type.base
        if base in INTEGERS:
            return _within_64_bits
        if base == "bit":
            return _unsigned
        if base in {"enum", "set"}:
            return self._labels_writer(column.type)
        if base in GEOMETRIES:
            return geometry_text
        if base in BINARIES:
            # MySQL's log omits trailing zeros of BINARY(n).
            return _stripped if base == "binary" else base64_text
        if base in _DATES and self._has_null_dates and column.nullable is not False:
            return self._dated_writer()
        return self._document_writer() if base == "json" else _WRITES.get(base)

    def _document_writer(self) -> Write:
        """Return the function that writes a JSON column's document unchanged; null is also that of a NULL, if
        there are any.
        """
        if not self._has_nulls:
            return json_document
        lost = self.lost

        @lossy_conversion(_JSON_NULL, "null-document")
        @kernel_name(*SOME_DOCUMENT)
        def write(text: str) -> msgspec.Raw:
            document = json_document(text)
            if bytes(document) == b"null":
                lost.append(_JSON_NULL)
            return document

        return write

    def _dated_writer(self) -> Write:
        """Return the function that writes dates that are in the calendar; others are NULL."""
        lost = self.lost

        @lossy_conversion(
            _ZERO_DATE, "no-date", b"null", len("0000-00-00"), len("0000-00-00 00:00:00.000000")
        )
        @kernel_name("calendar")
        def write(value: str) -> str | None:
            if temporal.is_date(value[:10]):
                return value
            lost.append(_ZERO_DATE)
            return None

        return write

    def _labels_writer(self, column_type: ColumnType) -> Write:
        """Return the function that writes a label, or a list of labels."""
        is_enum, members = column_type.base == "enum", column_type.members
        write = functools.partial(self._enum if is_enum else self._set, column_type)
        if is_enum and members is None:
            return kernel_name("label")(write)
        if not _are_plain(members):
            return write
        return kernel_name("enum-label" if is_enum else "set-list", members)(write)

    def _enum(self, column_type: ColumnType, value: int | str) -> int | str:
        if isinstance(value, str):
            return value
        if not value:
            # Maxwell writes null for it, which is NULL, too.
            if "" in (column_type.members or ()):
                self.lost.append(_ENUM_INDEX)
            return ""
        label = label_text(column_type, value)
        return self._number(column_type, value) if label is None else spelled(label)

    def _set(self, column_type: ColumnType, value: int | str) -> list[str] | int:
        if isinstance(value, str):
            return value.split(",") if value else []
        members = column_type.members
        if members is None or value >> len(members):
            return self._number(column_type, value)
        return [spelled(label) for at, label in enumerate(members) if value >> at & 1]

    def _number(self, column_type: ColumnType, value: int) -> int:
        """Write a number without a label; TiCDC's dialect writes all ENUMs and SETs as numbers."""
        if column_type.members is not None:
            self.lost.append(_ENUM_INDEX)
        return value


_ENUM_INDEX: Final = Loss.ENUM_INDEX
_ZERO_DATE: Final = Loss.ZERO_DATE
_JSON_NULL: Final = Loss.JSON_NULL


@kernel_name("int64")
def _within_64_bits(value: int) -> int:
    """Return a number that readers can hold. Raises ValueError."""
    if not -(1 << 63) <= value < 1 << 64:
        raise ValueError("a number beyond 64 bits")
    return value


@kernel_name("natural")
def _unsigned(value: int) -> int:
    """Return an unsigned number like `_within_64_bits`: readers take it for the highest of 32 bits."""
    if value < 0:
        raise ValueError("bits below 0")
    return _within_64_bits(value)


@kernel_name("java-decimal")
def _decimal(value: Decimal) -> msgspec.Raw:
    # Java's BigDecimal and Python's Decimal spell numbers alike.
    return msgspec.Raw(str(value).encode())


def _float_writer(write: Callable[[float], str]) -> Write:
    def written(value: float) -> msgspec.Raw | str:
        text = write(value)
        # NaN and infinity are the numbers whose distance to themselves is not 0; JSON has texts for them.
        return text if value - value else msgspec.Raw(text.encode())

    return written


@kernel_name("base64-stripped")
def _stripped(value: bytes) -> str:
    return base64_text(value.rstrip(b"\0"))


_WRITES: Final[dict[str, Write]] = {
    "decimal": _decimal,
    "float": kernel_name("java-number-float")(_float_writer(numbers.float_writer(numbers.java_text))),
    "double": kernel_name("java-number")(_float_writer(numbers.java_text)),
}
