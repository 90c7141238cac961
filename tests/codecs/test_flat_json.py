"""Flat JSON: rows as loaders of tables take them. It is only written, so its tests look at the JSON itself."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from support import captured, record, row_message
from toy_protocol.registry import FETCHES

from relay import (
    ConfigError,
    ConsumerRecord,
    EncodeError,
    Loss,
    NotRepresentable,
    Op,
    ProducerRecord,
    Resolver,
    RowChange,
    Rows,
    Source,
    TableSchema,
    Translator,
)
from relay.codecs import PROTOCOLS
from relay.codecs.codec import Encoder
from relay.codecs.given_options import parse_options
from relay.model.events import Cell
from relay.model.lookups import LookupCache
from relay.testing.strategies import creation

FLAT = "flat-json"
OPEN = "ticdc-open-protocol"
TIME_MS = 1_795_254_665_538
COMMIT_TS = TIME_MS << 18
SOURCE = Source("elsewhere", TIME_MS * 1_000_000, COMMIT_TS)
CAUSED_BY = ConsumerRecord("topic", 0, 7, TIME_MS, None, None)


def defined(columns: str) -> TableSchema:
    found = creation(f"CREATE TABLE t ({columns})", SOURCE, 0).after
    assert found is not None
    return found


def encoder(**options: str) -> Encoder:
    codec = PROTOCOLS[FLAT]
    given = {name.replace("_", "-"): value for name, value in options.items()}
    return codec.open_encoder(parse_options(codec, given, "to.option", "target"), LookupCache())


def written(change: RowChange, **options: str) -> tuple[list[tuple[bytes | None, bytes | None]], list[Loss]]:
    losses: list[Loss] = []
    writer = encoder(**options)
    assert writer.prepare is not None
    events = writer.prepare([change])
    return [(one.key, one.value) for one in writer.encode(events, CAUSED_BY, losses)], losses


def insert(columns: str, *cells: Cell) -> RowChange:
    return RowChange(Op.INSERT, defined(columns), Rows(None, tuple(cells)), SOURCE, 0)


def value_text(column: str, cell: Cell, **options: str) -> str:
    """The text of a column's value in the message."""
    no_others = dict.fromkeys(
        ["op_column", "deleted_column", "database_column", "table_column", "time_column"], ""
    )
    change = insert(f"v {column}", cell)
    ((_, value),), _ = written(change, **no_others | {"deletes": "tombstone"} | options)
    assert value is not None
    return value.decode().removeprefix('{"v":').removesuffix("}")


def loaded(produced: list[ProducerRecord]) -> list[tuple[Any, Any]]:
    return [(out.key and json.loads(out.key), out.value and json.loads(out.value)) for out in produced]


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("column", "cell", "options", "expected"),
    [
        ("BIGINT UNSIGNED", 2**64 - 1, {}, "18446744073709551615"),
        ("BIGINT", -(2**63), {}, "-9223372036854775808"),
        ("TINYINT(1)", 1, {}, "1"),
        ("BIT(64)", 2**64 - 1, {}, "18446744073709551615"),
        ("BIT(1)", 1, {}, "1"),
        ("YEAR", 0, {}, "0"),
        ("DECIMAL(9,2)", Decimal("1.10"), {}, '"1.10"'),
        ("DECIMAL(9,2)", Decimal("1.10"), {"decimals": "number"}, "1.10"),
        ("DECIMAL(9,2)", Decimal("-0.00"), {"decimals": "number"}, "-0.00"),
        ("DECIMAL(65,0)", Decimal("9" * 65), {"decimals": "number"}, "9" * 65),
        ("DECIMAL(65,30)", Decimal("1E-30"), {}, f'"0.{"0" * 29}1"'),
        ("FLOAT", 3.14, {}, "3.14"),
        ("DOUBLE", 1.7976931348623157e308, {}, "1.7976931348623157e308"),
        ("DOUBLE", 5e-324, {}, "5e-324"),
        ("DATE", "0000-00-00", {}, '"0000-00-00"'),
        ("DATE", "0000-00-00", {"zero_dates": "null"}, "null"),
        ("DATE", "2020-02-30", {"zero_dates": "null"}, "null"),
        ("DATE", "0018-01-01", {"zero_dates": "null"}, '"0018-01-01"'),
        ("DATE", "2026-01-15", {"timestamp_format": "iso"}, '"2026-01-15"'),
        ("DATETIME(6)", "2026-01-15 10:20:30.120000", {}, '"2026-01-15 10:20:30.120000"'),
        (
            "DATETIME(6)",
            "2026-01-15 10:20:30.120000",
            {"timestamp_format": "iso"},
            '"2026-01-15T10:20:30.120000"',
        ),
        ("DATETIME", "0000-00-00 00:00:00", {"timestamp_format": "iso"}, '"0000-00-00T00:00:00"'),
        (
            "DATETIME",
            "0000-00-00 00:00:00",
            {"timestamp_format": "iso", "zero_dates": "null"},
            "null",
        ),
        ("TIMESTAMP", "2026-01-15 10:20:30", {}, '"2026-01-15 10:20:30"'),
        ("TIMESTAMP", "2026-01-15 10:20:30", {"timezone": "Asia/Shanghai"}, '"2026-01-15 18:20:30"'),
        ("TIMESTAMP", "2026-01-15 10:20:30", {"timestamp_format": "iso"}, '"2026-01-15T10:20:30Z"'),
        (
            "TIMESTAMP(3)",
            "2026-01-15 10:20:30.500",
            {"timestamp_format": "iso", "timezone": "Asia/Shanghai"},
            '"2026-01-15T18:20:30.500+08:00"',
        ),
        (
            "TIMESTAMP",
            "0000-00-00 00:00:00",
            {"timestamp_format": "iso", "timezone": "Asia/Shanghai"},
            '"0000-00-00T00:00:00Z"',
        ),
        ("TIMESTAMP", "0000-00-00 00:00:00", {"zero_dates": "null", "timezone": "-05:00"}, "null"),
        ("TIME(6)", "-838:59:59.000000", {}, '"-838:59:59.000000"'),
        ("BLOB", b"\xff\x00", {}, '"/wA="'),
        ("BLOB", b"", {}, '""'),
        ("VARBINARY(9)", b"\xff\x00", {"binary": "hex"}, '"ff00"'),
        ("BINARY(4)", b"a\0\0\0", {"binary": "hex"}, '"61000000"'),
        ("ENUM('x','it''s')", 2, {}, '"it\'s"'),
        ("ENUM('x','y')", 0, {}, '""'),
        ("ENUM('x','y')", 2, {"enum": "index"}, "2"),
        ("SET('a','b','c')", 5, {}, '"a,c"'),
        ("SET('a','b','c')", 0, {}, '""'),
        ("SET('a','b','c')", 5, {"enum": "index"}, "5"),
        ("JSON", '{"a": 1.10}', {}, r'"{\"a\": 1.10}"'),
        ("JSON", '{"a": 1.10, "b": 1e400}', {"json": "nested"}, '{"a": 1.10, "b": 1e400}'),
        ("VARCHAR(9)", "\0é😀\n", {}, r'"\u0000é😀\n"'),
        ("VARCHAR(9)", None, {}, "null"),
        ("DECIMAL(9,2)", None, {"decimals": "number"}, "null"),
        ("JSON", None, {"json": "nested"}, "null"),
    ],
)
def test_values_are_exact(column: str, cell: Cell, options: dict[str, str], expected: str) -> None:
    assert value_text(column, cell, **options) == expected


@pytest.mark.parametrize(
    ("column", "cell", "options", "what"),
    [
        ("DATE", "0000-00-00", {"zero_dates": "null"}, Loss.ZERO_DATE),
        ("ENUM('x','y')", 3, {}, Loss.ENUM_INDEX),
        ("SET('x','y')", 4, {}, Loss.ENUM_INDEX),
        ("TIMESTAMP", "9999-12-31 23:00:00", {"timezone": "+08:00"}, Loss.ZERO_DATE),
    ],
)
def test_what_a_value_loses_is_counted(column: str, cell: Cell, options: dict[str, str], what: Loss) -> None:
    _, losses = written(insert(f"v {column}", cell), **options)
    assert losses.count(what) == 1
    # Nothing of it is counted again for the next row.
    _, losses = written(insert(f"v {column}", None), **options)
    assert what not in losses


@pytest.mark.parametrize(
    ("column", "cell"),
    [
        ("DOUBLE", float("inf")),
        ("DOUBLE", float("nan")),
        ("JSON", '{"a":'),
        ("JSON", "[" * 9999),
    ],
)
def test_what_json_cannot_hold_is_refused(column: str, cell: Cell) -> None:
    with pytest.raises(NotRepresentable):
        written(insert(f"v {column}", cell), json="nested")


def test_members_that_nobody_knows_are_numbers_in_digits() -> None:
    message = row_message({"id": "int", "e": "enum"}, {"id": "1", "e": "2"}, pkNames=["id"])
    translator = Translator("canal-json", FLAT)
    ((_, row),) = loaded(translator.translate(record(message)))
    assert row["e"] == "2"
    assert translator.losses[Loss.ENUM_INDEX] == 1


# ---------------------------------------------------------------- messages


def test_a_message_is_the_row_and_what_is_added() -> None:
    ((key, value),), losses = written(insert("id INT PRIMARY KEY, a VARCHAR(9)", 1, "x"))
    assert key == b'{"id":1}'
    assert value == (
        b'{"id":1,"a":"x","__op":"c","__deleted":"false","__db":"shop","__table":"orders",'
        b'"__source_ts_ms":1795254665538}'
    )
    assert losses == [Loss.COMMIT_TS]


def test_columns_have_the_names_that_are_chosen() -> None:
    options = {
        "op_column": "",
        "deleted_column": "is_deleted",
        "deleted_values": "numbers",
        "database_column": "",
        "table_column": "",
        "time_column": "100%",
        "commit_ts_column": "ts",
        "gtid_column": "gtid",
        "version_column": 'ver"sion',
    }
    change = insert("id INT PRIMARY KEY", 1)
    ((_, value),), losses = written(change, **options)
    assert value is not None
    assert json.loads(value) == {
        "id": 1,
        "is_deleted": 0,
        "100%": TIME_MS,
        "ts": COMMIT_TS,
        "gtid": None,
        'ver"sion': COMMIT_TS,
    }
    assert losses == []
    without = msgspec.structs.replace(SOURCE, commit_ts=None, gtid="uuid:1-9")
    ((_, value),), losses = written(msgspec.structs.replace(change, source=without), **options)
    assert value is not None
    row = json.loads(value)
    assert (row["ts"], row["gtid"], row['ver"sion']) == (None, "uuid:1-9", COMMIT_TS + CAUSED_BY.offset)
    assert losses == [Loss.COMMIT_TS_SYNTHETIC]


def test_the_version_may_be_the_offset() -> None:
    ((_, value),), losses = written(insert("id INT", 1), version_column="v", version="offset")
    assert json.loads(value or b"")["v"] == CAUSED_BY.offset
    assert losses == [Loss.COMMIT_TS]


OPS = [(Op.INSERT, "c", 0), (Op.UPDATE, "u", 0), (Op.DELETE, "d", 1), (Op.READ, "r", 0)]


@pytest.mark.parametrize(("op", "letter", "number"), OPS)
def test_operations_are_letters_or_numbers(op: Op, letter: str, number: int) -> None:
    row = (1, "x")
    images = Rows(row if op in {Op.UPDATE, Op.DELETE} else None, None if op is Op.DELETE else row)
    change = RowChange(op, defined("id INT PRIMARY KEY, a CHAR(1)"), images, SOURCE, 0)
    ((_, value),), _ = written(change)
    assert json.loads(value or b"")["__op"] == letter
    ((_, value),), losses = written(change, op_values="numbers", deleted_values="booleans")
    found = json.loads(value or b"")
    assert (found["__op"], found["__deleted"]) == (number, op is Op.DELETE)
    assert (Loss.SNAPSHOT in losses) is (op is Op.READ)


def delete(columns: str = "id INT PRIMARY KEY, a CHAR(1)") -> RowChange:
    return RowChange(Op.DELETE, defined(columns), Rows((1, "x"), None), SOURCE, 0)


ROW_OF_DELETE = {"id": 1, "a": "x", "__op": "d", "__deleted": "true"}


@pytest.mark.parametrize(
    ("deletes", "values", "counted"),
    [
        ("rewrite", [ROW_OF_DELETE], []),
        ("both", [ROW_OF_DELETE, None], []),
        ("tombstone", [None], [Loss.DELETE_IMAGE]),
        ("drop", [], [Loss.DELETE]),
    ],
)
def test_a_delete_is_what_is_wanted(deletes: str, values: list[Any], counted: list[Loss]) -> None:
    options = {"deletes": deletes, "database_column": "", "table_column": "", "time_column": "t"}
    found, losses = written(delete(), commit_ts_column="c", **options)
    for (key, value), expected in zip(found, values, strict=True):
        assert key == b'{"id":1}'
        row = value and json.loads(value)
        assert row == (expected and expected | {"t": TIME_MS, "c": COMMIT_TS})
    assert losses == counted


@pytest.mark.parametrize(
    ("deletes", "messages", "counted"), [("tombstone", 0, True), ("both", 1, False), ("rewrite", 1, False)]
)
def test_no_tombstone_deletes_a_row_without_a_key(deletes: str, messages: int, *, counted: bool) -> None:
    found, losses = written(delete("id INT, a CHAR(1)"), deletes=deletes)
    assert [key for key, _ in found] == [None] * messages
    assert (Loss.DELETE in losses) is counted


def update(columns: str, before: tuple[Cell, ...], after: tuple[Cell, ...]) -> RowChange:
    return RowChange(Op.UPDATE, defined(columns), Rows(before, after), SOURCE, 0)


def test_an_update_of_the_key_deletes_the_old_row() -> None:
    change = update("a CHAR(1), id INT PRIMARY KEY, u INT UNIQUE", ("x", 1, 5), ("y", 2, 5))
    found, losses = written(change, deletes="both")
    ops = [(key, value and json.loads(value)["__op"]) for key, value in found]
    assert ops == [(b'{"id":1}', "d"), (b'{"id":1}', None), (b'{"id":2}', "c")]
    assert Loss.BEFORE_IMAGE not in losses


def test_rows_of_a_split_update_count_what_their_message_tells() -> None:
    """However many were written before them."""
    given = row_message(
        {"id": "int"},
        {"id": "2"},
        op="UPDATE",
        pkNames=["id"],
        old=[{"id": "1"}],
        _tidb={"commitTs": COMMIT_TS},
    )
    translator = Translator("ticdc-canal-json", FLAT)
    for at in range(40):
        before = translator.losses
        assert len(translator.translate(record(given, at))) == 2
        assert (translator.losses - before)[Loss.UNTYPED] == 2


def test_an_update_of_another_unique_key_stays_one() -> None:
    change = update("id INT PRIMARY KEY, u INT UNIQUE", (1, 5), (1, 6))
    ((key, value),), losses = written(change)
    assert (key, json.loads(value or b"")["__op"]) == (b'{"id":1}', "u")
    assert Loss.BEFORE_IMAGE in losses


def test_an_update_without_its_old_row_loses_nothing_here() -> None:
    change = RowChange(Op.UPDATE, defined("id INT PRIMARY KEY"), Rows(None, (1,)), SOURCE, 0)
    ((_, value),), losses = written(change, commit_ts_column="c")
    assert json.loads(value or b"")["__op"] == "u"
    assert losses == []


@pytest.mark.parametrize(
    ("columns", "expected"),
    [
        ("a INT, b VARCHAR(9), PRIMARY KEY (b, a)", b'{"a":1,"b":"x"}'),
        ("a INT NOT NULL, b VARCHAR(9), UNIQUE (a)", b'{"a":1}'),
        ("a INT, b VARCHAR(9), UNIQUE (a)", None),
        ("a INT, b VARCHAR(9)", None),
    ],
)
def test_the_key_identifies_the_row(columns: str, expected: bytes | None) -> None:
    ((key, _),), _ = written(insert(columns, 1, "x"))
    assert key == expected


def test_a_row_without_a_column_of_its_key_has_no_key() -> None:
    message = row_message({"id": "int", "a": "int"}, {"a": "1"}, pkNames=["id"])
    statement = row_message(
        {}, isDdl=True, type="CREATE", sql="CREATE TABLE t (id INT PRIMARY KEY, a INT)", data=None
    )
    translator = Translator("canal-json", FLAT)
    assert translator.translate(record(statement)) == []
    assert translator.losses[Loss.DDL] == 1
    ((key, row),) = loaded(translator.translate(record(message, 1)))
    assert (key, row["a"], "id" in row) == (None, 1, False)
    assert translator.losses[Loss.COLUMNS_ABSENT] == 1


@pytest.mark.parametrize("has_it", [True, False])
def test_a_virtual_column_is_written_where_the_source_has_it(*, has_it: bool) -> None:
    statement = row_message(
        {}, isDdl=True, type="CREATE", data=None, sql="CREATE TABLE t (id INT PRIMARY KEY, v INT AS (id + 1))"
    )
    types = {"id": "int"} | ({"v": "int"} if has_it else {})
    message = row_message(types, {"id": "1", "v": "2"} if has_it else {"id": "1"}, pkNames=["id"])
    translator = Translator("canal-json", FLAT)
    translator.translate(record(statement))
    for at in range(20):  # the way of many rows, too
        ((key, row),) = loaded(translator.translate(record(message, 1 + at)))
        assert key == {"id": 1}
        assert row.get("v") == (2 if has_it else None)
    assert translator.losses[Loss.COLUMNS_ABSENT] == 0


def test_values_of_keys_look_like_those_of_rows() -> None:
    change = insert("b BINARY(2) PRIMARY KEY, d DECIMAL(4,2)", b"\xff\x00", Decimal("1.50"))
    ((key, value),), _ = written(change, binary="hex", decimals="number")
    assert key == b'{"b":"ff00"}'
    assert (value or b"").startswith(b'{"b":"ff00","d":1.50,')


# ---------------------------------------------------------------- refused


def test_a_column_of_the_table_is_never_written_over() -> None:
    with pytest.raises(EncodeError, match="target option op-column") as raised:
        written(insert("id INT PRIMARY KEY, __op INT", 1, 2))
    assert isinstance(raised.value, NotRepresentable)
    assert raised.value.path == "__op"
    ((_, value),), _ = written(insert("id INT PRIMARY KEY, __op INT", 1, 2), op_column="op")
    assert json.loads(value or b"")["op"] == "c"


@pytest.mark.parametrize(
    ("options", "problem"),
    [
        ({"op-column": "x", "table-column": "x"}, "table-column: names the same column as op-column"),
        (
            {"op-column": "", "deleted-column": ""},
            "deletes: would write deleted rows that look like any other row",
        ),
    ],
)
def test_options_that_contradict_each_other_are_refused(options: dict[str, str], problem: str) -> None:
    with pytest.raises(ConfigError, match=problem):
        Translator("canal-json", FLAT, None, options)


def test_it_cannot_be_read() -> None:
    with pytest.raises(ConfigError) as raised:
        Translator(FLAT, "canal-json")
    (problem,) = raised.value.problems
    assert (problem.path, problem.message) == ("from", "flat-json can only be written, not read")
    assert "canal-json" in (problem.hint or "")
    assert FLAT not in (problem.hint or "")


def test_it_is_not_proposed_as_a_source() -> None:
    with pytest.raises(ConfigError) as raised:
        Translator("flat-jsn", "flat-jsn")
    hints = {problem.path: problem.hint or "" for problem in raised.value.problems}
    assert FLAT not in hints["from"]
    assert FLAT in hints["to"]


# ---------------------------------------------------------------- from real messages


def rows_of(source: str, file: str, **options: str) -> list[tuple[Any, Any]]:
    given = {name.replace("_", "-"): value for name, value in options.items()}
    translator = Translator(source, FLAT, None, given)
    return [pair for each in captured(file) for pair in loaded(Resolver().translate(translator, each))]


ROUTES = [
    (OPEN, "ticdc/open-protocol/01_all_types"),
    ("ticdc-canal-json", "ticdc/canal-json.tidb-extension/01_all_types"),
    ("ticdc-canal-json", "ticdc/canal-json.content-compatible/01_all_types"),
]


@pytest.mark.parametrize(("source", "file"), ROUTES)
def test_rows_of_real_producers_are_exact(source: str, file: str) -> None:
    third = rows_of(source, file)[2]
    assert third[0] == {"id": 3}
    expected = {
        "c_bigint_u": 18446744073709551615,
        "c_decimal": "9999999999999999.9999",
        "c_decimal_u": "99999999.99",
        "c_bit10": 1023,
        "c_year": 2155,
        "c_date": "9999-12-31",
        "c_time": "838:59:59",
        "c_datetime6": "9999-12-31 23:59:59.999999",
        "c_timestamp6": "2038-01-19 03:14:07.999999",
        "c_binary": "//79/Pv6+fg=",
        "c_blob": "3q2+7w==",
        "c_enum": "blue",
        "c_set": "a,b,c,d",
    }
    assert {name: third[1][name] for name in expected} == expected


def test_all_sources_give_the_same_rows() -> None:
    options = {"time_column": "", "binary": "hex", "timestamp_format": "iso", "timezone": "+08:00"}
    first, *others = [rows_of(source, file, **options) for source, file in ROUTES]
    for other in others:
        assert other == first


@pytest.mark.parametrize("decimals", ["text", "number"])
def test_zeros_before_a_decimal_are_no_digits_of_it(decimals: str) -> None:
    message = row_message({"v": "decimal(9,2)"}, {"v": "0012.50"}, pkNames=[])
    translator = Translator("canal-json", FLAT, None, {"decimals": decimals})
    (out,) = translator.translate(record(message))
    assert (b'"v":"12.50"' if decimals == "text" else b'"v":12.50') in (out.value or b"")


def test_rows_of_other_packages_are_written_too() -> None:
    from relay.model.lookups import RegisteredSchema, SchemaId

    schema = RegisteredSchema(msgspec.json.encode(defined("id INT PRIMARY KEY")).decode(), "TOY")
    line = {"type": "row", "schema": FETCHES[SchemaId](SchemaId("", "t", schema)), "op": "insert"}
    line |= {"after": {"id": 1}, "at": {"time_ms": 1, "emitted_ms": 2}}
    translator = Translator("toy-lines", FLAT)
    out = Resolver().translate(translator, ConsumerRecord("topic", 0, 0, 3, None, msgspec.json.encode(line)))
    assert loaded(out)[0][0] == {"id": 1}
