"""Values that debezium-json passes from a source of its own are written as if they had been understood."""

from __future__ import annotations

import base64
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from relay.codecs.debezium.native.options import DebeziumOptions
from relay.codecs.debezium.native.protocol import CODEC
from relay.codecs.debezium.native.value_writing import NativeValueWriter
from relay.codecs.given_options import parse_options
from relay.model.events import Column, ColumnType
from relay.mysql.numbers import read_decimal, read_double
from relay.mysql.temporal import read_date, read_datetime, read_time

DAY = 86_400_000_000
COUNTS = [
    sign * (count + delta)
    for count in (0, 1, 999, 1000, 719_162, 2_932_896, 1 << 62, 1 << 63, 1 << 64, 3_020_399_000_000)
    for delta in (-1, 0, 1, 500, 999_999, 1_999_999)
    for sign in (1, -1)
]
COUNTS += [
    day * unit + delta
    for day in (-719_163, -719_162, 2_932_896, 2_932_897)
    for unit in (1, DAY // 1000, DAY)
    for delta in (-1, 0, 1)
]
TEXTS = [
    f"{day}{mark}{clock}{fraction}{zone}"
    for day in (
        "1970-01-01",
        "1969-12-31",
        "2024-02-29",
        "2023-02-29",
        "0099-01-01",
        "2024-1-01",
        "٢٠٢٤-01-01",
    )
    for mark in ("T", " ")
    for clock in ("00:00:00", "00:00:01", "23:59:59", "24:00:00", "1:00:00")
    for fraction in ("", ".1", ".100", ".123456", ".123456789", ",123", ".123+01", "+01:00")
    for zone in ("Z", "z", "", "+02:00")
]
NUMBERS = [
    base64.b64encode(data).decode()
    for data in (
        b"",
        b"\0",
        b"\0\1",
        b"\0\x80",
        b"\xff",
        b"\xff\x80",
        b"\xff\x7f",
        b"\x27\x10",
        40 * b"\1",
        41 * b"\1",
        b"\x55\1",
        b"\x55\1\0",
        8 * b"\xff",
        8 * b"\xff" + b"\0",
        9 * b"\xff",
    )
]
TEXTS += ["2024-02-29", "0000-00-00", "12:00:00", "-838:59:59.999999", "12.50", "-0.00", "1e400"]
NUMBERS += ["Jx", "JxB=", "JxA", "!", "JxA=\n"]
COLUMNS = [
    *[
        ColumnType(base, length=digits)
        for base in ("datetime", "timestamp", "time")
        for digits in (None, 0, 3, 6)
    ],
    ColumnType("date"),
    ColumnType("bigint", unsigned=True),
    ColumnType("decimal", length=10, scale=2),
    *[ColumnType("bit", length=digits) for digits in (None, 1, 10, 64, 72)],
]
#: What sources with MySQL's own text read.
OF_TEXT = (read_date, read_datetime, read_time, read_decimal, read_double)
MODES = ["adaptive_time_microseconds", "microseconds", "connect", "nanoseconds", "isostring"]


def writers(mode: str) -> Iterator[NativeValueWriter]:
    for nullable in (True, False):
        options = parse_options(CODEC, {"time.precision.mode": mode}, "to.option", "target")
        assert isinstance(options, DebeziumOptions)
        writer = NativeValueWriter(options)
        for column_type in COLUMNS:
            writer.of(Column("c", column_type, nullable=nullable))
        yield writer


def outcome(writer: NativeValueWriter, value: object, *steps: Callable[[Any], Any]) -> Any:
    """What is written, and what was lost of it; that it was refused."""
    writer.lost.clear()
    try:
        for step in steps:
            value = step(value)
    except (ValueError, ArithmeticError, TypeError, AttributeError, LookupError):
        return "refused"
    return type(value), value, list(writer.lost)


@pytest.mark.parametrize("mode", MODES)
def test_whatever_is_passed_on_is_what_would_be_written(mode: str) -> None:
    for writer in writers(mode):
        for (read, write), convert in writer.shortcuts.items():
            if read in OF_TEXT or write is None:
                continue
            written = 0
            for value in (*COUNTS, *TEXTS, *NUMBERS):
                both = outcome(writer, value, read, write)
                written += both != "refused"
                assert outcome(writer, value, convert) == both, (read, write, value)
            assert written
