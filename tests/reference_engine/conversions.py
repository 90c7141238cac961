"""The closed list of conversions: what reads a JSON token, and what writes a value as one, by name.

Contract: `READS` and `WRITES` map the names that codecs give their functions (`relay.mysql.conversion_names`) to factories
that make them from parameters. A read takes a token of `READ_KINDS` as `token_value` gives it, and gives
the canonical value. A write takes that and gives what msgspec prints: text, a number, a boolean, bytes for
base64, `msgspec.Raw`. Neither is given null. Both raise one of `UNFIT` for a value that they do not take, a
write also for one that loses something: then the template does not fit. The names that `relay.mysql.conversion_names.lossy_conversion`
gives take nothing but values of which something is lost.

The functions are the codecs' own. An engine may take fewer values than they do, never more, and makes the
same of them.
"""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC
from decimal import Decimal
from typing import Any, Final, Literal

import msgspec

from relay.codecs.canal.ckafka.messages import event_time_reader
from relay.codecs.canal.ckafka.values import cell_reader
from relay.codecs.canal.shared.canal_common import read_mistaken_text
from relay.codecs.debezium.native import temporal_reading
from relay.codecs.debezium.native import value_formats as forms
from relay.codecs.debezium.native import value_writing as debezium
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.shared import value_writing as ticdc
from relay.codecs.debezium.shared.values import bits, double_reader, read_bits, signed64, unsigned64
from relay.codecs.debezium.ticdc import columns as ticdc_columns
from relay.codecs.flat import values as flat
from relay.codecs.losses import Loss
from relay.codecs.maxwell import values as maxwell
from relay.codecs.open_protocol import values as open_protocol
from relay.codecs.shared.avro_decimals import decimal_bytes
from relay.codecs.shared.base64_text import base64_text, read_base64
from relay.codecs.shared.debezium_temporal import (
    date_days,
    date_text,
    datetime_micros,
    datetime_text,
    is_too_fine_text,
    lacks_zone,
    time_micros,
    time_text,
)
from relay.codecs.shared.lenient_json import REFUSED, go_number
from relay.codecs.shared.shaped import written_in_key
from relay.codecs.simple import json_wire as simple
from relay.codecs.simple.values import timestamp_writer
from relay.codecs.ticdc_avro import values as ticdc_avro
from relay.model.errors import NotRepresentable
from relay.model.events import Column, ColumnType, Value
from relay.mysql import numbers, temporal, values
from relay.mysql.conversion_names import BOOLEANS
from relay.mysql.members import label_reader
from relay.rules.columns.replacements import Convert, HashKey, hashing, masking, truncating
from relay.templates.ops import Kind, Kinds

Read = Callable[[Any], Value]
Write = Callable[[Any], Any]

#: What a conversion raises for what it does not take.
UNFIT: Final = (
    ValueError,
    ArithmeticError,
    TypeError,
    AttributeError,
    LookupError,
    NotRepresentable,
    *REFUSED,
)

# ---------------------------------------------------------------- reads


def _in_style(base: str, length: int | None = None, **style: Any) -> Read:
    """How a column of the Canal family is read."""
    made = values.TextStyle(numbers.java_text, "0000", pads_binary=False, **style)
    return _some(values.reader(ColumnType(base, length=length), made))


def _some(function: Callable[[Any], Any] | None) -> Callable[[Any], Any]:
    if function is None:
        raise ValueError("a column of which the values stay as they are")
    return function


def _bytes(read: Callable[[str], bytes]) -> Callable[..., Read]:
    """What reads binary text, with the zero bytes at the end of BINARY(n)."""

    def made(length: int | None = None) -> Read:
        return read if length is None else values.padded_reader(read, length)

    return made


def _labels(base: str) -> Callable[[tuple[str, ...], int], Read]:
    def made(members: tuple[str, ...], has_escapes: int) -> Read:
        return _some(label_reader(ColumnType(base, members=members), has_escapes=bool(has_escapes)))

    return made


def _float(value: float) -> float:
    """The number as a parser gives it for a column of DOUBLE. Raises OverflowError, and ValueError for one
    that is not finite.
    """
    number = float(value)
    if number - number:
        raise ValueError("beyond the range of DOUBLE")
    return number


def _float_of_32_bits(value: float) -> float:
    number = float(value)
    if abs(number) >= numbers.BEYOND_FLOAT:
        raise ValueError("beyond the range of FLOAT")
    return number


def _integer_between(least: int, end: int) -> Read:
    """The number as a parser gives it for a column of integers."""

    def read(value: int) -> int:
        if not least <= value < end:
            raise ValueError("beyond the range of the column")
        return value

    return read


def _plain_decimal(value: Decimal) -> Decimal:
    """A number without an exponent, with no more digits before or after the point than a DECIMAL has."""
    exponent = value.as_tuple().exponent
    if not isinstance(exponent, int) or exponent > 0 or abs(value.adjusted()) > _MOST_DIGITS:
        raise ValueError("a number that is no plain DECIMAL")
    return value


#: DECIMAL has at most 65 digits (MySQL Reference Manual §11.1.3).
_MOST_DIGITS: Final = 65


def _decimal_bytes(scale: int, most: int | None = None) -> Read:
    """What reads the bytes of a DECIMAL; with a parameter only so many of them."""
    read = forms.decimal_reader(scale)
    if most is None:
        return read

    def read_few(text: str) -> Value:
        if len(read_base64(text)) > most:
            raise ValueError("more bytes than a DECIMAL has")
        return read(text)

    return read_few


def _seconds(divisor: int) -> Read:
    """A time in seconds, in nanoseconds that are divided by a number, rounding down."""

    def read(value: Decimal) -> int:
        if not 0 <= value < 1 << 34:
            raise ValueError("no time that 64 bits hold in nanoseconds")
        nanos = int(value * 1_000_000_000)
        if nanos >= 1 << 63:
            raise ValueError("no time that 64 bits hold in nanoseconds")
        return nanos // divisor

    return read


def _of_member(convert: Callable[[int, Any], Any]) -> Callable[[int | None], Any]:
    """What reads or writes numbers up to one; None: of 64 bits."""
    return lambda most: functools.partial(convert, (1 << 64) - 1 if most is None else most)


def _decimal_type(length: int | None, scale: int | None) -> ColumnType:
    return ColumnType("decimal", length=length, scale=scale)


def _spelled_decimal(length: int | None, scale: int | None) -> Read:
    return _some(ticdc_columns.read_of(_decimal_type(length, scale), is_known=True, is_key=True))


def _iso_timestamp(digits: int | None) -> Read:
    column_type = ColumnType("timestamp", length=digits)
    return _some(ticdc_columns.read_of(column_type, is_known=True))


def _zoned(digits: int | None) -> Read:
    """A TIMESTAMP of ISO text; one without a zone is not read here, as its decoder counts it."""
    read = temporal_reading.timestamp_reader(digits)

    def read_zoned(text: str) -> Any:
        if lacks_zone(text):
            raise ValueError("a TIMESTAMP without a zone")
        return read(text)

    return read_zoned


def _whole_micros(read: Read) -> Read:
    """Read no time with digits of a second that MySQL does not have, as its decoder counts them."""

    def read_whole(text: str) -> Any:
        if is_too_fine_text(text):
            raise ValueError("more digits of a second than MySQL has")
        return read(text)

    return read_whole


def _whole_counts(read: Read, per: int) -> Read:
    """Read no count with a part of a microsecond, which `per` make: its decoder counts it."""

    def read_whole(count: int) -> Any:
        if count % per:
            raise ValueError("more digits of a second than MySQL has")
        return read(count)

    return read if per == 1 else read_whole


def _padded_datetime(digits: int, form: str) -> Read:
    """A TIMESTAMP that gets the digits of its column; `form`: the read that it is without them."""
    style = values.TextStyle(
        numbers.java_text, "0000", pads_binary=True, is_loose=True, is_iso=form == "iso-datetime"
    )
    return _some(cell_reader(ColumnType("timestamp", length=digits), style, "auto"))


#: A column whose values stand for themselves.
_COLUMN: Final = ColumnType("text")


def _replaced(convert: Convert, conversion: Sequence[Any]) -> Read:
    """What replaces the values that another read gives, or those of the tokens."""
    if conversion and conversion[0] in _REPLACING:
        raise ValueError("a value that is replaced twice")
    read = read_function(conversion or None)

    def replace(token: Any) -> Value:
        value = token if read is None else read(token)
        if isinstance(value, bool | float):
            raise TypeError("a value that has another text in other languages")
        return convert(value)

    return replace


#: By name, how a read is made of its parameters.
READS: Final[Mapping[str, Callable[..., Read]]] = {
    # Numbers of text.
    "int": lambda: numbers.read_int,
    "whole-text": lambda: forms.read_whole,
    "member-number": _of_member(simple.read_member),
    "decimal": lambda: numbers.read_decimal,
    "scaled-decimal": lambda scale: functools.partial(numbers.read_scaled_decimal, scale),
    "decimal-text": lambda scale: functools.partial(forms.read_decimal_text, scale),
    "double-text": lambda: numbers.read_double,
    "float-text": lambda: numbers.read_float,
    # Numbers of JSON.
    "int64": lambda: _some(open_protocol.read_of(ColumnType("bit"), UTC, 16)),
    "unsigned64": lambda: unsigned64,
    "whole": lambda: int,
    "signed-int": lambda: _integer_between(-(1 << 63), 1 << 63),
    "natural": lambda most=None: _integer_between(0, 1 << 64 if most is None else most + 1),
    "seconds": _seconds,
    "plain-decimal": lambda: _plain_decimal,
    "year-1900": lambda: forms.read_year,
    "double-number": lambda: _float,
    "float-number": lambda: _float_of_32_bits,
    "float": lambda: lambda value: forms.read_float32(_float(value)),
    "decimal-number": lambda length, scale: double_reader(_decimal_type(length, scale)),
    "decimal-double": lambda length, scale: forms.double_decimal_reader(_decimal_type(length, scale)),
    "spelled-decimal": _spelled_decimal,
    # Numbers of base64.
    "decimal-bytes": _decimal_bytes,
    "unscaled-int": lambda: forms.read_unscaled,
    "bits": lambda: read_bits,
    "bit-bytes": lambda: lambda text: ticdc_avro.read_bits(read_base64(text)),
    # Bytes.
    "latin1": _bytes(values.read_bytes),
    "utf8": _bytes(str.encode),
    "hex": _bytes(values.read_hex),
    "base64": _bytes(read_base64),
    "base64-url": _bytes(forms.read_url_safe),
    "plain-hex": _bytes(forms.read_plain_hex),
    "guessed-binary": lambda length: functools.partial(forms.infer_binary, length),
    "go-quoted": lambda: open_protocol.read_quoted,
    # Text.
    "base64-text": lambda: lambda text: open_protocol.read_text(read_base64(text)),
    "mistaken-text": lambda: read_mistaken_text,
    "year-text": lambda zero: functools.partial(values.converted_year, zero),
    "json-or-null": lambda: _in_style("json", is_loose=True),
    "vector": lambda: open_protocol.read_vector,
    # Labels.
    "enum-label": _labels("enum"),
    "set-labels": _labels("set"),
    "enum-member": lambda members: _some(maxwell.read_of(ColumnType("enum", members=members))),
    # Dates and times of text.
    "date": lambda: temporal.read_date,
    "datetime": lambda: temporal.read_datetime,
    "time": lambda: temporal.read_time,
    "iso-datetime": lambda: _in_style("datetime", is_iso=True),
    "padded-datetime": _padded_datetime,
    "iso-timestamp": lambda digits: _whole_micros(_iso_timestamp(digits)),
    "zoned": lambda digits: _whole_micros(_zoned(digits)),
    "iso-date": lambda: temporal_reading.read_iso_date,
    "iso-time": lambda digits: _whole_micros(lambda iso: temporal_reading.clock_text(iso, digits)),
    "iso-wall": lambda digits: _whole_micros(lambda iso: temporal_reading.wall_text(iso, digits)),
    # Dates and times of numbers.
    "date-days": lambda: date_text,
    "datetime-count": lambda micros, digits: temporal_reading.count_reader(datetime_text, micros, 1, digits),
    "datetime-nanos": lambda digits: _whole_counts(temporal_reading.nanos_reader(digits), 1_000),
    "time-count": lambda micros, per, digits: _whole_counts(
        temporal_reading.count_reader(time_text, micros, per, digits), per
    ),
    "clock": temporal_reading.time_reader,
    "event-time": event_time_reader,
    # What rules replace.
    "hash": lambda key, digits, *read: _replaced(hashing(_COLUMN, HashKey(key), digits), read),
    "mask": lambda first, last, *read: _replaced(masking(_COLUMN, first, last), read),
    "truncate": lambda length, *read: _replaced(truncating(_COLUMN, length), read),
}
#: How many parameters precede the read of a value that is replaced.
_REPLACING: Final = {"hash": 2, "mask": 2, "truncate": 1}

_STRING: Final[Kinds] = ("string",)
_ANY: Final[Kinds] = ("integer", "number", "string", "boolean")
_INTEGER: Final[Kinds] = ("integer",)
_NUMBER: Final[Kinds] = ("integer", "number")
#: What reads take that do not read a string.
_OTHER_KINDS: Final[Mapping[str, Kinds]] = {
    **dict.fromkeys(("int64", "unsigned64", "year-1900", "signed-int", "natural"), _INTEGER),
    **dict.fromkeys(("date-days", "datetime-count", "datetime-nanos", "time-count", "clock"), _INTEGER),
    "event-time": _INTEGER,
    "whole": ("integer", "boolean"),
    **dict.fromkeys(("double-number", "float-number", "float"), _NUMBER),
    **dict.fromkeys(("decimal-number", "decimal-double", "plain-decimal", "seconds"), _NUMBER),
    "spelled-decimal": ("string", "integer", "number"),
    **dict.fromkeys(_REPLACING, _ANY),
}
#: The kinds of tokens that each read takes; any other token does not fit.
READ_KINDS: Final[Mapping[str, Kinds]] = {name: _OTHER_KINDS.get(name, _STRING) for name in READS}
#: Reads that take a number as Decimal: of kind `integer`, too.
EXACT: Final = frozenset({"decimal-number", "decimal-double", "spelled-decimal", "plain-decimal", "seconds"})


# ---------------------------------------------------------------- writes


def _lossless(write: Write | None, *counted: list[Any]) -> Write:
    """The same for values that are not counted."""
    made = _some(write)

    def convert(value: Any) -> Any:
        for each in counted:
            each.clear()
        found = made(value)
        if any(counted):
            raise ValueError("a value that loses something")
        return found

    return convert


def _rounded(write: Write, lost: list[Any]) -> Write:
    """The same for values that are counted, each once."""

    def convert(value: Any) -> Any:
        lost.clear()
        found = write(value)
        if lost != [Loss.DECIMAL_DIGITS]:
            raise ValueError("a value that loses nothing")
        return found

    return convert


def _ticdc_rounded() -> Write:
    writer = ticdc.DebeziumValueWriter()
    return _rounded(_some(writer.of(Column("", ColumnType("decimal")))), writer.lost)


def _debezium_rounded() -> Write:
    writer = debezium.NativeValueWriter(DebeziumOptions(decimal_handling_mode="double"))
    return _rounded(_some(writer.of(Column("", ColumnType("decimal")))), writer.lost)


def _no_date(token: bytes, shortest: int, longest: int) -> Write:
    """What is written for a date without a month or a day, alone or with a time, of so many characters."""

    def convert(text: str) -> msgspec.Raw:
        is_date = len(text) == len("0000-00-00")
        days = date_days(text) if is_date else datetime_micros(text)
        is_zero = days is None and "00" in (text[5:7], text[8:10])
        if not is_zero or not shortest <= len(text) <= longest:
            raise ValueError("a date of the calendar")
        return msgspec.Raw(token)

    return convert


def _ticdc(base: str, length: int | None = None) -> Write:
    writer = ticdc.DebeziumValueWriter()
    write = writer.of(Column("", ColumnType(base, length=length)))
    return _lossless(write, writer.lost, writer.too_fine)


def _datetime_millis(longest: int) -> Write:
    return _ticdc("datetime", 3 if longest == ticdc.LONGEST else None)


def _timestamp_iso(digits: int | None, takes_zero: int) -> Write:
    lost: list[Any] = []
    return _lossless(ticdc.timestamp_writer(digits, lost, None if takes_zero else ticdc.NULL), lost)


def _of_type(wanted: type, write: Write, value: object) -> Any:
    if type(value) is not wanted:
        raise TypeError("not a value of the column")
    return write(value)


def _label_writer(base: str) -> Callable[..., Write]:
    def made(members: tuple[str, ...] | None = None) -> Write:
        lost: list[Any] = []
        write = _lossless(ticdc.LabelWriter(lost).of(ColumnType(base, members=members)), lost)
        return functools.partial(_of_type, str if members is None else int, write)

    return made


def _debezium(column_type: ColumnType, **options: Any) -> Write:
    writer = debezium.NativeValueWriter(DebeziumOptions(**options))
    return _lossless(writer.of(Column("", column_type)), writer.lost)


_Mode = Literal["connect", "adaptive_time_microseconds", "nanoseconds", "isostring"]


def _timed(base: str, mode: _Mode, length: int | None = None) -> Write:
    return _debezium(ColumnType(base, length=length), time_precision_mode=mode)


def _datetime_units(up: int, down: int) -> Write:
    if up > 1:
        return _timed("datetime", "nanoseconds")
    return _timed("datetime", "connect" if down > 1 else "adaptive_time_microseconds", 6)


def _flat(base: str, *, is_iso: bool, has_calendar: int) -> Write:
    writer = flat.FlatValueWriter(
        flat.Forms(
            text_decimals=False,
            base64=False,
            has_labels=False,
            nests_json=True,
            is_iso=is_iso,
            keeps_zero_dates=not has_calendar,
            zone=UTC,
        )
    )
    return _lossless(writer.of(Column("", ColumnType(base))), writer.lost)


def _dated(base: str) -> Callable[..., Write]:
    """What writes ISO text; with a parameter of 1 for dates of the calendar alone."""

    def made(has_calendar: int = 0) -> Write:
        write = _flat(base, is_iso=True, has_calendar=has_calendar)
        return lambda text: write(temporal.read_datetime(text))

    return made


def _calendar() -> Write:
    """What accepts a date that is in the calendar, with or without a time."""
    write = _flat("date", is_iso=False, has_calendar=1)
    return lambda text: write(temporal.read_datetime(text) if text[10:] else temporal.read_date(text))


def _maxwell(base: str, *, has_nulls: bool = True) -> Write:
    writer = maxwell.MaxwellValueWriter(has_null_dates=False, has_nulls=has_nulls)
    return _lossless(writer.of(Column("", ColumnType(base))), writer.lost)


def _up_to(most: int | None, write: Write) -> Write:
    """Write no number above `most`."""

    def bounded(number: int) -> Any:
        if most is not None and number > most:
            raise ValueError("beyond the greatest number")
        return write(number)

    return bounded


def _null_document(text: str) -> msgspec.Raw:
    """What is written for a JSON column's null."""
    document = _maxwell("json", has_nulls=False)(text)
    if bytes(document) != b"null":
        raise ValueError("a document that is not null")
    return document  # type: ignore[no-any-return]  # a document


def _set_list(members: tuple[str, ...]) -> Write:
    writer = maxwell.MaxwellValueWriter(has_null_dates=False, has_nulls=True)
    write = writer.of(Column("", ColumnType("set", members=members)))
    return functools.partial(_of_type, int, _lossless(write, writer.lost))


def _zoned_text(location: str) -> Write:
    return timestamp_writer(UTC, location, lambda: None)


def _in_text(base: str, length: int | None = None, **style: Any) -> Write:
    """How a column of the Canal family is written."""
    plain = values.TextStyle(numbers.java_text, "0000", pads_binary=False)
    made = msgspec.structs.replace(plain, **style)
    return _some(values.writer(ColumnType(base, length=length), made))


def _padded_text(text: Callable[[bytes], str]) -> Callable[..., Write]:
    def made(length: int | None = None) -> Write:
        return text if length is None else _in_text("binary", length, write_binary=text)

    return made


def _url_safe(length: int | None = None) -> Write:
    base = "varbinary" if length is None else "binary"
    return _debezium(ColumnType(base, length=length), binary_handling_mode="base64-url-safe")


#: By name, how a write is made of its parameters.
WRITES: Final[Mapping[str, Callable[..., Write]]] = {
    # Numbers.
    "digits": lambda: str,
    "member-digits": _of_member(simple.write_member),
    "year": lambda zero: _in_text("year", zero_year=zero),
    "int64": lambda: _some(open_protocol.write_of(ColumnType("int"), UTC)),
    "int32": lambda: ticdc_avro.int32,
    "long": lambda: ticdc_avro.int64,
    "signed64": lambda: functools.partial(_of_type, int, signed64),
    "natural": lambda most=None: _up_to(most, _maxwell("bit")),
    "boolean": lambda: BOOLEANS,
    "decimal": lambda: functools.partial(_of_type, Decimal, numbers.decimal_text),
    "decimal-number": lambda: _flat("decimal", is_iso=False, has_calendar=0),
    "java-decimal": lambda: _maxwell("decimal"),
    "decimal-double": lambda: _ticdc("decimal"),
    "rounded-double": _ticdc_rounded,
    "decimal-float": lambda: _debezium(ColumnType("decimal"), decimal_handling_mode="double"),
    "rounded-float": _debezium_rounded,
    "go-float": lambda: numbers.go_text,
    "java-double": lambda: numbers.java_text,
    "java-float": lambda: numbers.float_writer(numbers.java_text),
    "java-number": lambda: _maxwell("double"),
    "java-number-float": lambda: _maxwell("float"),
    "go-number": lambda: go_number,
    "go-number-float": lambda: _ticdc("float"),
    "finite": lambda: _flat("double", is_iso=False, has_calendar=0),
    "finite-float": lambda: _debezium(ColumnType("float")),
    # Numbers as bytes.
    "bits": lambda size: functools.partial(bits, size),
    "bit-bytes": lambda length: functools.partial(ticdc_avro.bit_bytes, length),
    "big-endian": lambda: debezium.big_endian,
    "decimal-bytes": lambda precision, scale: functools.partial(
        _of_type, Decimal, functools.partial(decimal_bytes, precision, scale)
    ),
    "unscaled": lambda scale: _debezium(_decimal_type(65, scale)),
    # Bytes.
    "latin1": lambda: _in_text("varbinary"),
    "latin1-stripped": lambda: _in_text("binary"),
    "hex": _padded_text(bytes.hex),
    "base64": _padded_text(base64_text),
    "base64-url": _url_safe,
    "base64-stripped": lambda: _maxwell("binary"),
    "padded": lambda length: _debezium(ColumnType("binary", length=length)),
    "go-quoted": lambda: open_protocol.quoted,
    # Text.
    "text": lambda: functools.partial(_of_type, str, str),
    "html-text": lambda: functools.partial(_of_type, str, simple.html_text),
    "zoned-text": _zoned_text,
    "text-base64": lambda: _some(open_protocol.write_of(ColumnType("text"), UTC)),
    "vector": lambda: open_protocol.read_vector,
    "document": lambda: _flat("json", is_iso=False, has_calendar=0),
    "some-document": lambda: _maxwell("json"),
    "null-document": lambda: _null_document,
    "compact-json": lambda: _debezium(ColumnType("json")),
    "row-key": lambda: written_in_key,
    # Labels.
    "label": _label_writer("enum"),
    "enum-label": _label_writer("enum"),
    "set-labels": _label_writer("set"),
    "set-list": _set_list,
    # Dates and times as text.
    "no-date": _no_date,
    "calendar": _calendar,
    "iso": _dated("datetime"),
    "iso-z": _dated("timestamp"),
    "timestamp-iso": _timestamp_iso,
    "own-date-iso": lambda: _timed("date", "isostring"),
    "datetime-iso": lambda: _timed("datetime", "isostring"),
    "time-iso": lambda: _timed("time", "isostring"),
    # Dates and times as numbers.
    "date-days": lambda: _ticdc("date"),
    "own-date-days": lambda: _timed("date", "adaptive_time_microseconds"),
    "datetime-millis": _datetime_millis,
    "datetime-micros": lambda: _ticdc("datetime", 6),
    "datetime-units": _datetime_units,
    "time-micros": lambda: time_micros,
    "time-millis": lambda: _timed("time", "connect"),
    "time-nanos": lambda: _timed("time", "nanoseconds"),
}


def read_function(conversion: Sequence[Any] | None) -> Read | None:
    """Return the function of a read, None if there is none. Raises ValueError for an unknown name."""
    return None if conversion is None else _made(READS, conversion)


def write_function(conversion: Sequence[Any] | None) -> Write | None:
    """Return the function of a write, None if there is none. Raises ValueError for an unknown name."""
    return None if conversion is None else _made(WRITES, conversion)


def _made(known: Mapping[str, Callable[..., Read]], conversion: Sequence[Any]) -> Read:
    name, *parameters = conversion
    if name not in known:
        raise ValueError("a conversion that there is not")
    return known[name](*parameters)


def _kind(token: bytes) -> Kind:
    if token[:1] == b'"':
        return "string"
    if token[:1] in {b"t", b"f"}:
        return "boolean"
    return "integer" if _are_digits(token) and token != b"-0" else "number"


def _replaced_read(read: Sequence[Any] | None) -> Sequence[Any] | None:
    """The read of the value that a rule replaces; any other read itself."""
    if read is None or read[0] not in _REPLACING:
        return read
    return read[1 + _REPLACING[str(read[0])] :] or None


_are_digits: Final = re.compile(rb"-?[0-9]+").fullmatch


def token_value(token: bytes, read: Sequence[Any] | None) -> Any:
    """Return what a read takes of a token that is not null (None: the canonical value). Raises one of `UNFIT`
    for a token of another kind, and for what is no JSON.
    """
    read = _replaced_read(read)
    if read is not None and _kind(token) not in READ_KINDS[str(read[0])]:
        raise ValueError("a token of a kind that is not read")
    number = b"-0.0" if token == b"-0" else token
    if read is not None and read[0] in EXACT and token[:1] != b'"':
        return Decimal(number.decode())
    return msgspec.json.decode(number)
