"""TiCDC Simple as Avro as a source of templates and as their target: the same bytes, errors and losses as the
slow path, and which rows fit.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pytest
import simple_avro_schema
from engine_support import ENGINES
from simple_support import as_avro, bootstrap, column, table
from support import CANAL, captured
from templates_support import Both

from relay import ConsumerRecord, RowChange
from relay.codecs.losses import Loss
from relay.templates.engine import Engine

AVRO, SIMPLE = "ticdc-simple-avro", "ticdc-simple-json"
_CANAL = "ticdc/canal-json.tidb-extension"
#: Captured messages, their protocol, and what they are written as.
ROUTES: tuple[tuple[str, str, str], ...] = (
    ("ticdc/simple.avro", AVRO, "canal-json"),
    ("ticdc/simple.avro", AVRO, AVRO),
    ("ticdc/simple.avro", AVRO, SIMPLE),
    ("ticdc/simple.avro", AVRO, "debezium-json"),
    ("ticdc/simple.avro", AVRO, "flat-json"),
    (_CANAL, "ticdc-canal-json", AVRO),
    ("ticdc/simple.json", SIMPLE, AVRO),
    ("ticdc/open-protocol", "ticdc-open-protocol", AVRO),
)
ROUNDS = 4

pytestmark = pytest.mark.parametrize("engine", ENGINES)


@pytest.mark.parametrize(("folder", "source", "target"), ROUTES)
def test_rows_take_the_fast_path(folder: str, source: str, target: str, engine: type[Engine]) -> None:
    both = Both(source, target=target, engine=engine)
    records = [each for name in ("01_all_types", "09_dml") for each in captured(f"{folder}/{name}")]
    for each in records:
        both.fits(each)
    rows = [each for each in records if is_row(both, each)]
    assert len(rows) > 40
    before = both.templated.paths["fast"]
    for each in rows * ROUNDS:
        both.fits(each)
    assert both.templated.paths["fast"] - before > len(rows) * (ROUNDS - 1)


def is_row(both: Both, record: ConsumerRecord) -> bool:
    (event,) = both.plain.inspect(record)
    return isinstance(event, RowChange)


# ---------------------------------------------------------------- single messages

COLUMNS = {"name": "varchar", "at": "timestamp", "bits": "bit", "kind": "enum"}
VERSION = 470615235774906368
UTC_TIME = {"location": "UTC", "value": "2026-01-15 10:20:30"}
FIRST: dict[str, Any] = {"id": 1, "name": "a", "at": UTC_TIME, "bits": "5", "kind": 2}
Row = dict[str, Any]


def record(value: bytes, key: bytes | None = None, offset: int = 9) -> ConsumerRecord:
    return ConsumerRecord("rows", 0, offset, 1795254653118, key, value)


def definition(**types: str) -> ConsumerRecord:
    """The definition of d.t: `id`, and columns of these types."""
    columns = []
    for name, words in types.items():
        base, *more = words.split()
        parameters: Row = {"elements": ["a", "b", "c"]} if base == "enum" else {}
        columns.append(column(name, base, **parameters | dict.fromkeys(more, True)))
    return record(as_avro(bootstrap(table(*columns, version=VERSION))), offset=1)


_SPACE = simple_avro_schema.SPACE
#: Names of records in the union of values.
_RECORDS = {
    frozenset({"location", "value"}): f"{_SPACE}.Timestamp",
    frozenset({"value"}): f"{_SPACE}.UnsignedBigint",
}


def row(data: Row | None, old: Row | None = None, kind: str = "INSERT", **more: Any) -> ConsumerRecord:
    """A row of d.t in Avro, as fastavro writes it."""
    images = {"data": data, "old": old}
    message = {
        "version": 1, "database": "d", "table": "t", "tableID": 100, "type": kind,
        "commitTs": VERSION + (5 << 18), "buildTs": 1795254653321, "schemaVersion": VERSION,
        "claimCheckLocation": None, "handleKeyOnly": None, "checksum": None,
        **{name: None if image is None else _named(image) for name, image in images.items()},
    } | more  # fmt: skip
    payload = f"{_SPACE}.DML", message
    value = simple_avro_schema.write((f"{_SPACE}.Message", {"type": "DML", "payload": payload}))
    return record(value)


def _named(image: Row) -> Row:
    return {
        name: (_RECORDS[frozenset(value)], value) if isinstance(value, dict) else value
        for name, value in image.items()
    }


class Pair(Both):
    """A route with and without templates that knows the table."""

    def __init__(
        self, engine: type[Engine], target: str = CANAL, types: Row | None = None, **more: Any
    ) -> None:
        super().__init__(AVRO, target=target, engine=engine, **more)
        self.fits(definition(**types or COLUMNS))

    def learns(self, one: ConsumerRecord) -> bool:
        """Show a record until its shape has a template; whether it has one."""
        self.fits(one)
        self.fits(one)
        return self.fits(one)


@pytest.mark.parametrize("target", ["canal-json", AVRO])
def test_rows_of_one_shape(target: str, engine: type[Engine]) -> None:
    both = Pair(engine, target)
    assert both.learns(row(FIRST))
    for fitting in (
        {"id": -5, "name": '<"\n€>', "at": None, "bits": None, "kind": 0},
        dict.fromkeys(FIRST) | {"id": 3},
        dict(reversed(FIRST.items())),
        FIRST | {"at": UTC_TIME | {"value": "2026-01-15 10:20:30.123456"}},
    ):
        assert both.fits(row(fitting)), fitting
    assert both.fits(row(FIRST, commitTs=VERSION, buildTs=5))
    for odd in (
        row({**FIRST, "id": "1"}),
        row({**FIRST, "id": {"value": 5}}),
        row({**FIRST, "name": b"a"}),
        row({name: FIRST[name] for name in ("id", "name", "at", "bits")}),
        row(FIRST | {"more": "c"}),
        row(FIRST | {"at": UTC_TIME | {"location": "Asia/Shanghai"}}),
        row(FIRST | {"at": UTC_TIME | {"value": "2026-01-15"}}),
        row(FIRST | {"bits": 5}),
        row(FIRST | {"bits": "x"}),
        row(FIRST | {"kind": 9}),
        row(FIRST | {"kind": -1}),
        row(FIRST, schemaVersion=VERSION + 1),
        row(FIRST, tableID=101),
        row(FIRST, commitTs=-1),
        row(FIRST, buildTs=0),
        row(FIRST, handleKeyOnly=True),
        row(FIRST, old=FIRST),
        row(None),
        record(row(FIRST).value or b"", b"key"),
    ):
        assert not both.fits(odd), odd


#: An image of two entries, `id` of 1 and `name` of a.
ID_ENTRY, ENTRY = b"\x04id\x02\x02", b"\x08name\x08\x02a"
IMAGE = b"\x04" + ID_ENTRY + ENTRY + b"\0"


def _with_image(image: bytes) -> Callable[[bytes], bytes]:
    return lambda value: value.replace(IMAGE, image)


ODD: dict[str, Callable[[bytes], bytes]] = {
    "bytes at the end": lambda value: value + b"\0",
    "bytes are missing": lambda value: value[:-1],
    "an entry twice": _with_image(b"\x04" + ENTRY + ENTRY + b"\0"),
    "an entry more": _with_image(b"\x06" + ID_ENTRY + ENTRY + ENTRY + b"\0"),
    "an entry less": _with_image(b"\x02" + ID_ENTRY + b"\0"),
    "no entries": _with_image(b"\0"),
    "a size before the entries": _with_image(b"\x03\x1e" + ID_ENTRY + ENTRY + b"\0"),
    "a count beyond the entries": _with_image(b"\x06" + ID_ENTRY + ENTRY + b"\0"),
    "a great count": _with_image(b"\xfe" + b"\xff" * 8 + b"\x01" + ID_ENTRY + ENTRY + b"\0"),
    "a name that ends too late": _with_image(b"\x04" + ID_ENTRY + b"\x7e" + ENTRY[1:] + b"\0"),
    "a branch that is not there": _with_image(b"\x04" + ID_ENTRY + b"\x08name\x10\x02a\0"),
    "a long number for a branch": _with_image(b"\x04" + ID_ENTRY + b"\x08name\x88\x00\x02a\0"),
    "text that is not UTF-8": _with_image(b"\x04" + ID_ENTRY + b"\x08name\x08\x02\xff\0"),
    "another version": lambda value: value.replace(b"\x02\x02d\x02t", b"\x04\x02d\x02t"),
}  # fmt: skip


@pytest.mark.parametrize("change", ODD.values(), ids=ODD)
def test_odd_bytes_take_the_slow_path(change: Callable[[bytes], bytes], engine: type[Engine]) -> None:
    both = Pair(engine, types={"name": "varchar"})
    one = row({"id": 1, "name": "a"})
    assert both.learns(one)
    value = one.value or b""
    odd = change(value)
    assert odd != value
    assert not both.fits(record(odd))


def test_entries_in_several_blocks(engine: type[Engine]) -> None:
    both = Pair(engine, types={"name": "varchar"})
    one = row({"id": 1, "name": "a"})
    assert both.learns(one)
    value = one.value or b""
    split = value.replace(IMAGE, b"\x02" + ENTRY + b"\x02" + ID_ENTRY + b"\0")
    assert split != value
    assert both.fits(record(split))


def test_updates_and_deletes(engine: type[Engine]) -> None:
    both = Pair(engine, "debezium-json")
    assert both.learns(row(FIRST, FIRST | {"name": "b"}, "UPDATE"))
    assert both.fits(row(FIRST | {"id": 2}, FIRST | {"id": 2, "name": None}, "UPDATE"))
    assert not both.fits(row(FIRST, FIRST | {"id": 2}, "UPDATE")), "another key"
    both = Pair(engine, "debezium-json")
    assert both.learns(row(None, FIRST, "DELETE"))
    assert both.fits(row(None, FIRST | {"id": 5, "name": None}, "DELETE"))
    both = Pair(engine, "debezium-json")
    assert both.learns(row(FIRST, kind="UPDATE")), "without its old row"
    assert both.templated.losses[Loss.BEFORE_MISSING] == 3


@pytest.mark.parametrize("target", ["canal-json", AVRO])
def test_bits_as_numbers(target: str, engine: type[Engine]) -> None:
    """The classic architecture writes them; the highest bit is the sign."""
    both = Pair(engine, target)
    assert both.learns(row(FIRST | {"bits": 5}))
    assert both.fits(row(FIRST | {"bits": -1}))
    assert not both.fits(row(FIRST | {"bits": "5"}))


@pytest.mark.parametrize("target", ["canal-json", AVRO, "debezium-json"])
def test_extreme_numbers(target: str, engine: type[Engine]) -> None:
    types = {"f": "float", "d": "double", "b": "bigint", "u": "bigint unsigned"}
    both = Pair(engine, target, types=types)
    first = {"id": 1, "f": single(0.5), "d": 0.5, "b": 1, "u": {"value": 1}}
    assert both.learns(row(first))
    extreme: tuple[Row, ...] = (
        {"b": -(1 << 63), "u": {"value": -1}},
        {"b": (1 << 63) - 1, "u": {"value": -(1 << 63)}},
        {"f": single(-0.0), "d": -0.0},
        {"f": single(0.1), "d": 0.1},
        {"f": single(3.4028234663852886e38), "d": 1.7976931348623157e308},
    )
    for image in extreme:
        both.fits(row(first | image))
    assert both.fits(row(first | {"b": -7, "u": {"value": -7}, "d": 2.5}))
    odd: tuple[Row, ...] = (
        {"d": float("inf")},
        {"f": single(float("nan"))},
        {"d": single(5.5)},
        {"f": 5.5},
        {"d": 5},
        {"u": 5},
        {"b": {"value": 5}},
    )
    for image in odd:
        assert not both.fits(row(first | image)), image


def single(value: float) -> tuple[str, float]:
    """A number in 32 bits."""
    return "float", value


def test_times_in_another_zone_have_no_template(engine: type[Engine]) -> None:
    both = Pair(engine)
    assert not both.learns(row(FIRST | {"at": UTC_TIME | {"location": "Asia/Shanghai"}}))
    both = Pair(engine, AVRO, target_options={"timezone": "Asia/Shanghai"})
    assert not both.learns(row(FIRST))


def test_checksums(engine: type[Engine]) -> None:
    sums = {"version": 0, "corrupted": False, "current": 5, "previous": 0}
    both = Pair(engine)
    assert both.learns(row(FIRST, checksum=sums))
    assert both.fits(row(FIRST, checksum=sums | {"current": 6}))
    assert not both.fits(row(FIRST, checksum=sums | {"corrupted": True}))
    assert not both.fits(row(FIRST))
    both = Pair(engine, options={"integrity-check-level": "correctness"})
    assert not both.learns(row(FIRST, checksum=sums))


def test_compressed_messages_have_no_template(engine: type[Engine]) -> None:
    both = Pair(engine, AVRO, target_options={"large-message-handle-compression": "snappy"})
    assert not both.learns(row(FIRST))


def test_tables_of_one_database_have_their_own_templates(engine: type[Engine]) -> None:
    both = Pair(engine)
    assert both.learns(row(FIRST))
    other = row(FIRST, table="t2")
    assert not both.fits(other), "no definition"
    assert both.fits(row(FIRST | {"id": 9}))


def test_many_columns_in_any_order(engine: type[Engine]) -> None:
    names = [f"column_{at}" for at in range(100)]
    both = Pair(engine, types=dict.fromkeys(names, "varchar"))
    image: Row = {"id": 1} | {name: name for name in names}
    assert both.learns(row(image))
    shuffled = sorted(image.items(), key=lambda item: item[0][::-1])
    assert both.fits(row(dict(shuffled)))


def test_rows_with_a_definition_before_them(engine: type[Engine]) -> None:
    both = Pair(engine, AVRO, target_options={"send-bootstrap-in-msg-count": "6"})
    assert both.learns(row(FIRST))
    at_fifth = msgspec.structs.replace(row(FIRST), offset=11)
    assert not both.fits(at_fifth)
    assert both.fits(msgspec.structs.replace(at_fifth, offset=12))
