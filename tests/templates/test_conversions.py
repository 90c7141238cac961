"""Functions that codecs give for columns have names, and what a name makes does the same."""

from __future__ import annotations

import functools
import itertools
import random
from collections import Counter
from collections.abc import Callable, Iterator
from datetime import UTC
from typing import Any, Final, NamedTuple
from zoneinfo import ZoneInfo

import msgspec
import pytest
from reference_engine.avro import AvroBody
from reference_engine.conversions import (
    EXACT,
    READ_KINDS,
    READS,
    UNFIT,
    WRITES,
    read_function,
    write_function,
)
from reference_engine.tokens import print_value
from templates import values_support as made_values

from relay.codecs.canal.ckafka import values as ckafka_values
from relay.codecs.debezium.native import value_formats as forms
from relay.codecs.debezium.native import value_writing as debezium
from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.shared import semantic_names
from relay.codecs.debezium.shared import value_writing as ticdc
from relay.codecs.debezium.shared.schemas import DeclaredColumn
from relay.codecs.debezium.ticdc import columns as ticdc_columns
from relay.codecs.flat import values as flat
from relay.codecs.maxwell import values as maxwell
from relay.codecs.open_protocol import values as open_protocol
from relay.codecs.shared.base64_text import base64_text, read_base64
from relay.codecs.shared.shaped import written_in_key
from relay.codecs.shared.traced import avro_of
from relay.codecs.simple import avro_values as simple_avro
from relay.codecs.simple.json_wire import JsonWire, html_text
from relay.codecs.ticdc_avro import values as ticdc_avro
from relay.model.avro_types import AvroType
from relay.model.events import Column, ColumnType
from relay.mysql import numbers, values
from relay.mysql.conversion_names import conversion_of, kernel_name, loss_of, steps_of
from relay.mysql.types import BINARIES, BLOBS, CHARS, FLOATS, FRACTIONAL, GEOMETRIES, INTEGERS

_TOKYO = ZoneInfo("Asia/Tokyo")
_M = made_values.MEMBERS
TYPES: Final = [
    *(ColumnType(base) for base in sorted(INTEGERS | FLOATS | CHARS | BLOBS | GEOMETRIES)),
    *(ColumnType(base, unsigned=True) for base in sorted(INTEGERS)),
    ColumnType("tinyint", length=1),
    ColumnType("decimal"),
    *(ColumnType("decimal", length=length, scale=scale) for length, scale in [(10, 0), (10, 4), (65, 30), (20, 4)]),
    *(ColumnType(base, length=length) for base in sorted(FRACTIONAL) for length in (None, 0, 3, 6)),
    ColumnType("datetime", has_micros=True),
    *(ColumnType(base, length=length) for base in ("binary", "varbinary") for length in (None, 4)),
    ColumnType("char", charset="binary"), ColumnType("varbinary", charset="binary"),
    ColumnType("bit", length=1), ColumnType("bit", length=13), ColumnType("bit", length=64), ColumnType("bit"),
    *(ColumnType(base, members=members) for base in ("enum", "set") for members in (None, _M, ("", "b"))),
    *map(ColumnType, ("date", "year", "json", "vector", "null")),
]  # fmt: skip

#: Functions without a name, by what they are called, and why.
UNNAMED: Final = {
    "read_timestamp": "a TIMESTAMP of another zone than UTC",
    "timestamp_text": "the same, written",
    "_iso_text": "the same, with a `T`",
    "_read_iso": "the same, read",
    "_dated_text": "the same, where dates that are not in the calendar are NULL",
    "FlatValueWriter._iso_timestamp": "the same in flat JSON",
    "FlatValueWriter._local_timestamp": "the same in flat JSON",
    "FlatValueWriter._dated.<locals>.written": "the same in flat JSON",
    "_read_timestamp": "the same in CKafka",
    "_write_timestamp": "the same in Simple",
    "read_text": "text of Simple, which is no object",
    "_shift": "the same",
    "read_signed_bytes": "bytes as Java prints a list, of Huawei DRS alone",
    "_read_padded": "the same of BINARY(n)",
    "_read_legacy_text": "TiCDC 4.0.0 to 4.0.4, where text may be base64 or not",
    "_no_value": "a column of the type NULL has none",
    "_read_decimal": "value-style=debezium: what is base64 of a number is a number, too",
    "_read_bits": "the same",
    "_read_binary": "the same",
    "_read_variable_decimal": "an object, which no slot holds",
    "_read_vector": "an array, which no slot holds; in TiCDC Avro a vector, of which blanks are removed",
    "read_unknown_set": "the same: labels of a SET in Maxwell",
    "_read_geometry": "an object, which no slot holds",
    "_variable_decimal.<locals>.<lambda>": "an object, which no slot holds",
    "_geometry": "the same, written",
    "_point": "the same",
    "_vector": "an array, written",
    "DebeziumValueWriter._geometry": "a type that TiDB does not have: every value is counted",
    "float": "text that stands for no number",
    "_read_float32_or_text": "text that stands for no number",
    "_read_enum": "Maxwell's labels with quotes or backslashes, which have several spellings",
    "_read_year": "Maxwell's: a condition says that the number is not 1900",
    "_read_set": "a list, which no slot holds",
    "_read_document": "any JSON, which no slot holds",
    "read_geometry": "the text of a geometry",
    "geometry_text": "the same, written",
    "MaxwellValueWriter._enum": "Maxwell's labels with quotes or backslashes",
    "MaxwellValueWriter._set": "the same, or labels of a SET whose members are unknown",
}


class Function(NamedTuple):
    """A codec's function for a column, and the list in which it counts what values lose."""

    call: Callable[[Any], Any]
    lost: list[Any]


def _called(function: Any) -> str:
    while isinstance(function, functools.partial):
        function = function.func
    return str(function.__qualname__)


# ---------------------------------------------------------------- what codecs give


def _source_styles() -> Iterator[values.TextStyle]:
    for text, is_loose, zone, is_iso, labels in itertools.product(
        (numbers.java_text, numbers.go_text), (True, False), (UTC, _TOKYO), (True, False), (True, False)
    ):
        for read in (None, read_base64, values.read_hex, values.read_signed_bytes, str.encode):
            yield values.TextStyle(
                text, "0000", pads_binary=is_loose, is_loose=is_loose, zone=zone, read_binary=read,
                has_labels=labels, is_iso=is_iso, keeps_scale=not is_loose,
            )  # fmt: skip


def _target_styles(lost: list[Any]) -> Iterator[values.TextStyle]:
    count = functools.partial(lost.append, 1)
    for text, has_null_dates, zone, is_iso, labels in itertools.product(
        (numbers.java_text, numbers.go_text), (True, False), (UTC, _TOKYO), (True, False), (True, False)
    ):
        for write in (None, base64_text, bytes.hex):
            is_go = text is numbers.go_text
            yield values.TextStyle(
                text, "0" if is_go else "0000", pads_binary=is_go, zone=zone, write_binary=write,
                has_labels=labels, is_iso=is_iso, has_null_dates=has_null_dates, unmoved=count, unlabeled=count,
            )  # fmt: skip


_DECLARED: Final = [
    *(DeclaredColumn("c", kind) for kind in ("boolean", "int8", "int16", "int32", "int64", "float", "double", "string", "bytes")),
    *(DeclaredColumn("c", "bytes", name=name, parameters={"scale": "4"}) for name in (semantic_names.DECIMAL, semantic_names.VARIABLE_SCALE_DECIMAL)),
    *(
        DeclaredColumn("c", "string", name=name)
        for name in (
            semantic_names.BITS, semantic_names.ENUM, semantic_names.ENUM_SET, semantic_names.JSON, semantic_names.YEAR, semantic_names.DATE, semantic_names.MICRO_TIME, semantic_names.TIMESTAMP,
            semantic_names.MICRO_TIMESTAMP, semantic_names.ZONED_TIMESTAMP, semantic_names.FLOAT_VECTOR, semantic_names.GEOMETRY,
            semantic_names.CONNECT_DATE, semantic_names.ISO_DATE, semantic_names.TIME, semantic_names.CONNECT_TIME, semantic_names.NANO_TIME, semantic_names.ISO_TIME,
            semantic_names.CONNECT_TIMESTAMP, semantic_names.NANO_TIMESTAMP, semantic_names.ISO_TIMESTAMP,
        )
    ),
]  # fmt: skip
_SOME_VALUES: Final = (1, "a", True, "NaN", {"wkb": "", "srid": 1}, [1])


def _form_reads(column_type: ColumnType) -> Iterator[Any]:
    modes = [
        DebeziumOptions(binary_handling_mode=mode) for mode in ("bytes", "base64", "base64-url-safe", "hex")
    ]
    for declared, value, options, is_known in itertools.product(
        _DECLARED, _SOME_VALUES, modes, (True, False)
    ):
        form = forms.form_of(column_type, declared, value, options, is_known=is_known)
        if form is not None:
            yield form.read


def _avro_forms(column_type: ColumnType) -> Iterator[tuple[str, ticdc_avro.Modes]]:
    """The types that a column has in TiCDC Avro, and the options."""
    for as_text in (False, True):
        modes = ticdc_avro.Modes(has_decimal_text=as_text, has_bigint_text=as_text)
        yield ticdc_avro.form_of(column_type, modes)[1], modes


def _avro_reads(column_type: ColumnType) -> Iterator[Any]:
    attributes = {"logicalType": "decimal", "precision": 20, "scale": column_type.scale or 0}
    for (kind, _), zone in itertools.product(_avro_forms(column_type), (UTC, _TOKYO)):
        read = ticdc_avro.read_of(column_type, AvroType(kind, attributes=attributes), zone)
        yield _of_base64(read) if read is not None and kind == "bytes" else read


def _of_base64(read: Callable[[bytes], Any]) -> Any:
    """The same for a token."""
    return kernel_name(*conversion_of(read) or ())(lambda text: read(read_base64(text)))


def _avro_writes(column_type: ColumnType, lost: list[Any]) -> Iterator[Any]:
    count = functools.partial(lost.append, 1)
    for (_, modes), zone in itertools.product(_avro_forms(column_type), (UTC, _TOKYO)):
        write = ticdc_avro.write_of(Column("c", column_type), modes, zone, count, count)
        yield _in_base64(write) if conversion_of(write) == ("base64",) else write


def _in_base64(write: Callable[[Any], bytes]) -> Any:
    """The same for a token."""
    return kernel_name("base64")(lambda value: base64_text(write(value)))


def _reads(column_type: ColumnType) -> Iterator[Any]:
    yield from _avro_reads(column_type)
    for style in _source_styles():
        yield values.reader(column_type, style)
        for value_style in ("auto", "mysql", "debezium"):
            yield ckafka_values.cell_reader(column_type, style, value_style)
    code = open_protocol.column_code(column_type)
    for zone, wanted, is_legacy in itertools.product((UTC, _TOKYO), (code, 14), (True, False)):
        yield open_protocol.read_of(column_type, zone, wanted, is_legacy=is_legacy)
    for is_known, is_key in itertools.product((True, False), repeat=2):
        yield ticdc_columns.read_of(column_type, is_known=is_known, is_key=is_key)
    yield maxwell.read_of(column_type)
    yield JsonWire("").read_of(column_type, UTC)
    read_simple = simple_avro.read_of(column_type, UTC)
    yield _of_base64(read_simple) if column_type.base in BINARIES else read_simple
    yield from _form_reads(column_type)


_MODES: Final = ("connect", "adaptive_time_microseconds", "microseconds", "nanoseconds", "isostring")
_DEBEZIUM: Final[list[dict[str, Any]]] = [
    *({"time_precision_mode": mode} for mode in _MODES),
    {"decimal_handling_mode": "double", "binary_handling_mode": "base64"},
    {"decimal_handling_mode": "string", "binary_handling_mode": "base64-url-safe"},
    {"decimal_format": "NUMERIC", "binary_handling_mode": "hex"},
    {"bigint_unsigned_handling_mode": "precise", "bit": "number"},
    {"bigint_unsigned_handling_mode": "string", "vector": "text"},
    {"temporal": "text", "zero_dates": "null"},
    {"zero_dates": "null"},
]


def _debezium_writers() -> Iterator[debezium.NativeValueWriter]:
    for options in _DEBEZIUM:
        yield debezium.NativeValueWriter(DebeziumOptions(**options))


def _flat_writers() -> Iterator[flat.FlatValueWriter]:
    for *chosen, zone in itertools.product(*[(True, False)] * 6, (UTC, _TOKYO)):
        yield flat.FlatValueWriter(flat.Forms(*chosen, zone))  # type: ignore[arg-type, call-arg]  # six booleans


def _maxwell_writers() -> Iterator[maxwell.MaxwellValueWriter]:
    for has_null_dates, has_nulls in itertools.product((True, False), repeat=2):
        yield maxwell.MaxwellValueWriter(has_null_dates=has_null_dates, has_nulls=has_nulls)


def _writes(column_type: ColumnType) -> Iterator[tuple[Any, list[Any]]]:
    lost: list[Any] = []
    for style in _target_styles(lost):
        yield values.writer(column_type, style), lost
        yield ckafka_values.cell_writer(column_type, style), lost
    for zone in (UTC, _TOKYO):
        yield open_protocol.write_of(column_type, zone), lost
    writers: list[Any] = [
        ticdc.DebeziumValueWriter(), *_debezium_writers(), *_flat_writers(), *_maxwell_writers()
    ]  # fmt: skip
    for writer, nullable in itertools.product(writers, (True, False)):
        column = Column("c", column_type, nullable=nullable)
        yield writer.of(column), writer.lost
        if isinstance(writer, ticdc.DebeziumValueWriter):
            yield writer.of(column), writer.too_fine
    yield JsonWire("").write_of(column_type, UTC, "UTC", functools.partial(lost.append, 1)), lost
    yield JsonWire("").write_of(column_type, _TOKYO, "Asia/Tokyo", functools.partial(lost.append, 1)), lost
    yield html_text, lost
    yield written_in_key, lost
    for write in _avro_writes(column_type, lost):
        yield write, lost


def _distinct(found: Iterator[tuple[Any, list[Any]]]) -> list[Function]:
    """Each function once: those of one name and code are alike, but for what they are made of."""
    kept: dict[object, Function] = {}
    for call, lost in found:
        if call is not None:
            kept.setdefault(
                (conversion_of(call), _called(call), id(lost) if lost else 0), Function(call, lost)
            )
    return list(kept.values())


def _all_reads() -> list[Function]:
    nothing: list[Any] = []
    return _distinct((read, nothing) for column_type in TYPES for read in _reads(column_type))


def _all_writes() -> list[Function]:
    return _distinct(pair for column_type in TYPES for pair in _writes(column_type))


# ---------------------------------------------------------------- names


@pytest.mark.parametrize("functions", [_all_reads, _all_writes])
def test_every_function_has_a_name_or_a_reason(functions: Callable[[], list[Function]]) -> None:
    unnamed = {_called(each.call) for each in functions() if conversion_of(each.call) is None}
    assert unnamed <= UNNAMED.keys()


def test_every_name_is_one_of_the_list() -> None:
    assert {
        conversion[0] for each in _all_reads() if (conversion := conversion_of(each.call))
    } <= READS.keys()
    assert {
        conversion[0] for each in _all_writes() if (conversion := conversion_of(each.call))
    } <= WRITES.keys()
    assert READ_KINDS.keys() == READS.keys()


def test_every_conversion_is_of_some_function() -> None:
    reads = {conversion[0] for each in _all_reads() if (conversion := conversion_of(each.call))}
    writes = {conversion[0] for each in _all_writes() if (conversion := conversion_of(each.call))}
    of_no_column, of_rules = {"event-time", "seconds"}, {"hash", "mask", "truncate"}
    assert READS.keys() - reads - of_no_column - of_rules == {
        "mistaken-text", "year-text", "float-number", "signed-int", "plain-decimal",
    }  # fmt: skip
    losses = {loss.write[0] for each in _all_writes() if (loss := loss_of(each.call))}
    assert WRITES.keys() == writes | losses
    assert not writes & losses


# ---------------------------------------------------------------- Simple as Avro


def test_every_write_of_simple_as_avro_has_a_name() -> None:
    for column_type in TYPES:
        write = simple_avro.write_of(column_type, UTC, "UTC", _nothing)
        assert conversion_of(write) is not None
        assert avro_of(write) == simple_avro.avro_type(column_type)
        write = simple_avro.write_of(column_type, _TOKYO, "Asia/Tokyo", _nothing)
        assert (avro_of(write) is None) == (column_type.base == "timestamp")


def _nothing() -> None:
    """Count nothing."""


def test_writes_of_simple_as_avro_do_what_the_codec_does() -> None:
    taken: Counter[object] = Counter()
    for column_type in TYPES:
        write = simple_avro.write_of(column_type, UTC, "UTC", _nothing)
        op, made = avro_of(write), write_function(conversion_of(write))
        chosen = random.Random(str(column_type))
        assert op is not None
        assert made is not None
        for _ in range(300):
            value = made_values.canonical_value(chosen)
            try:
                printed = print_value(made(value))
            except UNFIT:
                continue
            body = AvroBody(b"", op, b"").body(printed)
            if body is not None:
                assert write(value) == body, (column_type, value)
                taken[column_type] += 1
    assert len(taken) == len(TYPES)


# ---------------------------------------------------------------- what they make of values


def _result(call: Callable[[Any], Any], value: Any) -> Any:
    """What a function makes of a value, so that it can be compared; None if it does not take it."""
    try:
        found = call(value)
    except UNFIT:
        return None
    return type(found).__name__, str(found) if not isinstance(found, bytes | msgspec.Raw) else bytes(found)


def _parsed_first(function: Function) -> Callable[[Any], Any]:
    """Base64 is decoded by the parser of Open Protocol, in a template by the conversion."""
    call = function.call
    if _called(call) in {"read_text", "read_blob"}:
        return lambda text: call(read_base64(text))
    return call


def _compare(
    function: Function, made: Callable[[Any], Any], value_of: Callable[[random.Random], Any], count: int
) -> int:
    """Compare for so many values; return how many of them both take."""
    chosen, call, taken = random.Random(repr(conversion_of(function.call))), _parsed_first(function), 0
    for _ in range(count):
        value = value_of(chosen)
        found = _result(made, value)
        if found is None:
            continue
        function.lost.clear()
        assert _result(call, value) == found, (conversion_of(function.call), value)
        assert not function.lost, (conversion_of(function.call), value)
        taken += 1
    return taken


def _token_value(kinds: tuple[str, ...], name: str) -> Callable[[random.Random], Any]:
    def made(chosen: random.Random) -> Any:
        if "string" in kinds:
            return made_values.text(chosen)
        if kinds == ("integer",):
            return made_values.whole(chosen)
        if "boolean" in kinds:
            return chosen.choice((made_values.whole(chosen), True, False))
        if name in EXACT:
            return made_values.decimal(chosen)
        return made_values.real(chosen)

    return made


def test_reads_do_what_the_codecs_do() -> None:
    taken: dict[str, int] = {}
    for function in _all_reads():
        conversion = conversion_of(function.call)
        if conversion is None:
            continue
        made, name = read_function(conversion), str(conversion[0])
        assert made is not None
        found = _compare(function, made, _token_value(READ_KINDS[name], name), 400)
        taken[name] = taken.get(name, 0) + found
    assert not [name for name, count in taken.items() if not count]


def test_writes_do_what_the_codecs_do() -> None:
    taken: dict[str, int] = {}
    for function in _all_writes():
        conversion = conversion_of(function.call)
        if conversion is None:
            continue
        made = write_function(conversion)
        assert made is not None
        found = _compare(function, made, made_values.canonical_value, 400)
        taken[str(conversion[0])] = taken.get(str(conversion[0]), 0) + found
    assert not [name for name, count in taken.items() if not count]


def test_what_is_lost_is_what_the_codecs_lose() -> None:
    taken: dict[str, int] = {}
    for function in _all_writes():
        loss, conversion = loss_of(function.call), conversion_of(function.call)
        if loss is None or conversion is None:
            continue
        made, own, chosen = write_function(loss.write), write_function(conversion), random.Random(repr(loss))
        assert made is not None
        assert own is not None
        for _ in range(2_000):
            value = made_values.canonical_value(chosen)
            found = _result(made, value)
            if found is None:
                continue
            function.lost.clear()
            assert _printed(function.call, value) == _printed(made, value), (loss, value)
            assert function.lost == [loss.kind], (loss, value)
            assert _result(own, value) is None, (loss, value)
            taken[str(loss.write[0])] = taken.get(str(loss.write[0]), 0) + 1
    assert taken.keys() == {"no-date", "rounded-double", "rounded-float", "null-document"}


def _printed(call: Callable[[Any], Any], value: Any) -> bytes:
    return msgspec.json.encode(call(value))


def test_text_of_another_style_is_read_and_written() -> None:
    chosen, taken = random.Random(1), 0
    sources, lost = list(_source_styles()), list[Any]()
    targets = list(_target_styles(lost))
    for column_type, _ in itertools.product(TYPES, range(40)):
        convert = values.converter(column_type, chosen.choice(sources), chosen.choice(targets))
        steps = None if convert is None else steps_of(convert)
        if convert is None or steps is None:
            continue
        read, write = read_function(steps[0]), write_function(steps[1])
        for _ in range(30):
            text = made_values.text(chosen)
            try:
                found = text if read is None else read(text)
                found = found if write is None else write(found)
            except UNFIT:
                continue
            lost.clear()
            if convert(text) is not None:  # a date that is NULL is not taken
                assert convert(text) == found, (steps, text)
            taken += 1
    assert taken > 5_000
