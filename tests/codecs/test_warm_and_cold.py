"""A decoder that has seen a table's rows and one that has not read every row alike, and refuse it alike."""

from __future__ import annotations

import contextlib
import json
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest
from debezium_json_support import DEBEZIUM as NATIVE
from debezium_json_support import SOURCE as NATIVE_SOURCE
from debezium_json_support import ddl as native_ddl
from debezium_json_support import record as native_record
from debezium_support import DEBEZIUM, SOURCE, block
from debezium_support import ddl as debezium_ddl
from open_support import cell, framed, raw, segment
from open_support import ddl as open_ddl
from open_support import row as open_row
from support import CANAL, OPEN, record, row_message, translate

from relay import ConsumerRecord, DecodeError, RelayError, Translator
from relay.core.selection import Selection, chosen_tables

NOTHING = Selection(tables=chosen_tables(["none.none"], []))
#: So many rows are read in the general way before a layout is compiled, and more.
WARM = 18


def outcome(translator: Translator, given: ConsumerRecord) -> tuple[Any, dict[Any, int]]:
    before = translator.losses
    try:
        found: Any = translator.translate(given)
    except RelayError as error:
        found = f"{type(error).__name__} {error}"
    return found, dict(Counter(translator.losses) - Counter(before))


def outcomes(
    source: str, usual: list[ConsumerRecord], odd: ConsumerRecord, selection: Selection | None = None
) -> list[Any]:
    """What a translator makes of an odd record after a statement and many usual ones, and a new one with the
    same state.
    """
    warm = Translator(source, CANAL, selection=selection)
    warm.translate(usual[0])
    for _ in range(WARM):
        for each in usual[1:]:
            warm.translate(each)
    cold = Translator(source, CANAL, selection=selection)
    cold.restore(warm.state)
    found = [outcome(warm, odd), outcome(cold, odd)]
    assert [outcome(warm, usual[-1])[1]] == [outcome(cold, usual[-1])[1]]
    return found


# ---------------------------------------------------------------- Open Protocol

OPEN_TABLE = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`f` DOUBLE,`e` ENUM('a','b'),`n` DECIMAL(9,2))"
CELLS = {"id": cell(3, 1, 11), "f": cell(5, 1.5), "e": cell(247, 1, 64), "n": cell(246, "1.50")}


def open_record(value: str, offset: int = 9) -> ConsumerRecord:
    given = framed(open_row({}), offset=offset)
    return raw(given.key, segment(value), offset)


def open_value(columns: str, **parts: str) -> str:
    cells = {name: json.dumps(CELLS[name], separators=(",", ":")) for name in columns.split()}
    return '{"u":{' + ",".join(f'"{name}":{text}' for name, text in (cells | parts).items()) + "}}"


@pytest.mark.parametrize("columns", ["id e", "id f e n"])
@pytest.mark.parametrize(
    ("part", "text"),
    [
        ("id", '{"t":3,"f":11,"v":-0}'),
        ("id", '{"t":3,"f":11,"v": -0 }'),
        ("id", '{"t":3,"f":11,"v":-0.0}'),
        ("id", '{"t":3,"f":11,"v":0.0}'),
        ("e", '{"t":247,"f":64,"v":-0}'),
        ("id", '{"t":3,"h":1e9999,"f":11,"v":1}'),
        ("id", '{"t":3,"h":1e99999999999999999999,"f":11,"v":1}'),
        ("id", '{"t":3,"h":' + "9" * 5000 + ',"f":11,"v":1}'),
        ("id", '{"t":3,"x":1e9999,"f":11,"v":1}'),
        ("id", '{"t":3,"f":-0,"v":1}'),
        ("id", '{"t":-0,"f":11,"v":1}'),
        ("id", '{"t":3,"f":11,"v":1e9999}'),
        ("id", '{"t":3,"f":11,"v":99999999999999999999}'),
        ("id", '{"t":3,"f":11,"v":"1"}'),
        ("f", '{"t":5,"f":65,"v":-0}'),
        ("f", '{"t":5,"f":65,"v":1e9999}'),
        ("f", '{"t":5,"f":65,"v":"x"}'),
        ("n", '{"t":246,"f":65,"v":"1e400"}'),
        ("n", '{"t":246,"f":65,"v":-0}'),
    ],
)
def test_cells_of_open_protocol(columns: str, part: str, text: str) -> None:
    if part not in columns.split():
        pytest.skip("no such column")
    flags_0 = '{"t":3,"f":0,"v":1}'
    for changed in ({}, {"id": flags_0} if "f" in text else {}):
        usual = open_value(columns, **changed)
        statement = framed(open_ddl(OPEN_TABLE), offset=1)
        warm, cold = outcomes(
            OPEN, [statement, open_record(usual)], open_record(open_value(columns, **{part: text}))
        )
        assert warm == cold


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "inferred"])
@pytest.mark.parametrize("part", ["u", "d", "p"])
@pytest.mark.parametrize(
    ("sql_type", "code", "flags"),
    [("BIGINT UNSIGNED", 8, 139), ("SET('a','b')", 248, 64), ("BIT(64)", 16, 65)],
)
def test_a_number_beyond_64_bits_has_one_path(
    sql_type: str, code: int, flags: int, part: str, is_known: bool
) -> None:
    def rows(number: int) -> ConsumerRecord:
        whole = {"id": cell(code, 1, flags), "v": cell(15, "x", 64)}
        parts = {"u": whole, "p": whole} if part == "p" else {part: whole}
        parts[part] = {**whole, "id": cell(code, number, flags)}
        return framed(open_row(parts), offset=9)

    table = "t" if is_known else "other"
    statement = framed(
        open_ddl(f"CREATE TABLE {table} (id {sql_type} NOT NULL PRIMARY KEY, v TEXT)"), offset=1
    )
    for number in (1 << 64, -(1 << 63) - 1, 10**20):
        warm, cold = outcomes(OPEN, [statement, rows(1)], rows(number))
        assert warm == cold
        assert f"{part}.id.v: a number beyond 64 bits" in str(cold[0])
        # Of a row that is left out nobody reads it.
        warm, cold = outcomes(OPEN, [statement, rows(1)], rows(number), NOTHING)
        assert warm == cold
        assert cold[0] == []


@pytest.mark.parametrize("columns", ["id e", "id f e n"])
@pytest.mark.parametrize(
    ("value", "counted"),
    [
        ('{"u":{"id":{"t":3,"h":"~","f":11,"v":1},%s}}', {}),
        ('{"u":{"id":{"t":3,"~":1,"f":11,"v":1},%s}}', {"invalid-text": 1}),
        ('{"u":{"id":{"t":3,"f":11,"v":1},%s},"x":"~"}', {"invalid-text": 1}),
        ('{"u":{"id":{"t":3,"f":11,"v":1},%s},"p":{"id":{"t":3,"h":"~","f":11,"v":2},%s}}', {}),
        ('{"u":{"id":{"t":3,"f":11,"v":1},%s,"s":{"t":15,"f":64,"v":"~"}}}', {"invalid-text": 1}),
        (
            '{"u":{"id":{"t":3,"f":11,"v":1},%s},"p":{"id":{"t":3,"f":11,"v":2},%s,"s":{"t":15,"f":64,"v":"~"}}}',
            {"invalid-text": 1},
        ),
        ('{"u":{"id":{"t":3,"f":11,"v":1},%s,"~":{"t":15,"f":64,"v":"x"}}}', {"invalid-text": 1}),
        ('{"u":{"id":{"t":3,"f":11,"v":null},%s},"p":{"t":3,"f":11,"v":2,"h":"~"}}', {"invalid-text": 1}),
    ],
)
def test_bytes_that_are_no_text_count_where_they_are_read(
    columns: str, value: str, counted: dict[str, int]
) -> None:
    others = open_value(columns.removeprefix("id "))[len('{"u":{') : -len("}}")]
    data = value.replace("%s", others).encode().replace(b"~", b"\xff")
    key = framed(open_row({})).key
    odd = raw(key, segment(data), 9)
    found = outcomes(OPEN, [framed(open_ddl(OPEN_TABLE), offset=1), open_record(open_value(columns))], odd)
    assert found[0] == found[1]
    assert {what: found[0][1].get(what, 0) for what in ("invalid-text",)} == {"invalid-text": 0} | counted


def test_minus_zero_is_an_integer_of_open_protocol() -> None:
    statement = framed(open_ddl(OPEN_TABLE), offset=1)
    odd = open_record(open_value("id e", id='{"t":3,"f":11,"v":-0}'))
    for found, _ in outcomes(OPEN, [statement, open_record(open_value("id e"))], odd):
        assert json.loads(found[0].value)["data"] == [{"id": "0", "e": "1"}]


# ---------------------------------------------------------------- TiCDC Debezium

TABLE = "CREATE TABLE `t` (`id` INT PRIMARY KEY,`k` INT,`n` DECIMAL(9,2),`f` DOUBLE,`v` VARCHAR(9))"
KEYLESS = "CREATE TABLE `t` (`id` INT,`k` INT,`n` DECIMAL(9,2),`f` DOUBLE,`v` VARCHAR(9))"
ROW = {"id": "1", "k": "2", "n": "1.5", "f": "0.5", "v": '"x"'}
FIELDS = {"id": "int32", "k": "int32", "n": "double", "f": "double", "v": "string"}


def debezium_record(
    row: dict[str, str], key: str | None = '{"payload":{"id":1}}', *, schema: bool = False
) -> ConsumerRecord:
    image = "{" + ",".join(f'"{name}":{text}' for name, text in row.items()) + "}"
    said = json.dumps(block(*({"type": FIELDS[name], "optional": True, "field": name} for name in ROW)))
    end = f',"schema":{said}}}' if schema else "}"
    images = f'"before":{image},"after":{image}'
    text = f'{{"payload":{{"source":{json.dumps(SOURCE)},"ts_ms":1,"op":"u",{images}}}{end}'
    return ConsumerRecord("topic", 0, 9, 1, None if key is None else key.encode(), text.encode())


def statement(text: str) -> ConsumerRecord:
    return ConsumerRecord("topic", 0, 1, 1, None, json.dumps(debezium_ddl(text)).encode())


KEYS = [
    None,
    '{"payload":{}}',
    '{"payload":{"id":7}}',
    '{"payload":{"id":7,"k":8}}',
    '{"payload":{"v":"y"}}',
    '{"payload":{"id_":[7]}}',
    '{"payload":{"databaseName":"d"}}',
    '{"payload":{"id":[7]}}',
    '{"payload":{"id":1e9999}}',
    json.dumps({"payload": {"source": SOURCE, "op": "c"}}),
]
SHAPES = [
    ["id", "k", "n", "f", "v"],
    ["id", "v"],
    ["k", "v"],
    ["v"],
    ["id", "k", "n", "f", "v", "new"],
]


@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("create", [TABLE, KEYLESS, "CREATE TABLE `other` (`id` INT)"])
def test_kafka_keys_of_debezium(create: str, schema: bool, shape: list[str]) -> None:
    """A row is read with the key that it has, not with that of rows before it; nor are other tables' keys
    read at all.
    """
    row = {name: ROW.get(name, "5") for name in shape}
    records = [debezium_record(row, key, schema=schema) for key in KEYS]
    for first in records:
        warm = Translator(DEBEZIUM, CANAL)
        warm.translate(statement(create))
        for _ in range(WARM):
            outcome(warm, first)
        for odd in records:
            cold = Translator(DEBEZIUM, CANAL)
            cold.restore(warm.state)
            assert outcome(warm, odd) == outcome(cold, odd), (first.key, odd.key)


@pytest.mark.parametrize("key", KEYS)
def test_the_key_of_another_table_adds_no_columns(key: str | None) -> None:
    translator = Translator(DEBEZIUM, CANAL)
    translator.translate(statement(TABLE))
    (out,) = translator.translate(debezium_record(ROW, key))
    assert json.loads(out.value or b"")["data"] == [{"id": "1", "k": "2", "n": "1.50", "f": "0.5", "v": "x"}]
    assert json.loads(out.value or b"")["pkNames"] == ["id"]
    assert "value-inferred" not in translator.losses


@pytest.mark.parametrize("schema", [False, True])
@pytest.mark.parametrize("create", [TABLE, "CREATE TABLE `other` (`id` INT)"])
@pytest.mark.parametrize(
    ("name", "text"),
    [
        *[("n", text) for text in ("-0", "-0.0", "1e9999", "-1e9999", "1e400", "1e99999999999999999999", "9" * 30, "9" * 4400)],
        *[("n", text) for text in ('"12.50"', '"7190283746e400"', '"NaN"', '"x"', '""', '"1_0"', "true", "[1]", "null")],
        *[("id", text) for text in ("-0", "-0.0", "0.0", "1.0", "1e9999", "9" * 30, "9" * 4400, '"x"', "true", "{}")],
        *[("f", text) for text in ("-0", "1e9999", "9" * 400, "9" * 4400, '"1"', '"NaN"', "1")],
        *[("v", text) for text in ("-0", "1", "1e9999", "9" * 4400, "[1]", '"\\ud800"', '"9999"')],
        *[("v", json.dumps(text)) for text in ("9" * 4400, '":' + "9" * 4400 + ',"', "\\" * 5000)],
    ],
)  # fmt: skip
def test_values_of_debezium(create: str, schema: bool, name: str, text: str) -> None:
    usual = debezium_record(ROW, schema=schema)
    for columns in (list(ROW), ["id", "v"] if name in {"id", "v"} else ["id", name]):
        odd = debezium_record({each: ROW[each] for each in columns} | {name: text}, schema=schema)
        plain = debezium_record({each: ROW[each] for each in columns}, schema=schema)
        warm, cold = outcomes(DEBEZIUM, [statement(create), usual, plain], odd)
        assert warm == cold


@pytest.mark.parametrize("protocol", [DEBEZIUM, NATIVE])
@pytest.mark.parametrize("before", ["1e99999999999999999999", "[1]", '"x"', "NaN", "1"])
@pytest.mark.parametrize("after", ["NaN", "1e99999999999999999999", '"x"', "2"])
def test_two_images_that_are_wrong_have_one_error(protocol: str, before: str, after: str) -> None:
    def update(old: str, new: str) -> ConsumerRecord:
        origin = json.dumps(SOURCE if protocol == DEBEZIUM else NATIVE_SOURCE | {"db": "d"})
        images = f'"before":{{"id":{old},"k":1}},"after":{new}'
        text = f'{{"source":{origin},"ts_ms":1,"op":"u",{images}}}'
        return ConsumerRecord("topic", 0, 9, 1, b'{"id":1}', text.encode())

    create = statement("CREATE TABLE `t` (`id` INT PRIMARY KEY,`k` INT)")
    if protocol == NATIVE:
        create = native_record(
            native_ddl("CREATE TABLE `t` (`id` INT PRIMARY KEY,`k` INT)", source={"db": "d"})
        )
    for image in (after, f'{{"id":{after},"k":1}}'):
        warm, cold = outcomes(protocol, [create, update("1", '{"id":2,"k":1}')], update(before, image))
        assert warm == cold


@pytest.mark.parametrize(("text", "value"), [('"12.50"', "12.50"), ("-0", "0.00"), ("12.5", "12.50")])
def test_a_decimal_may_be_text(text: str, value: str) -> None:
    """As Debezium's own connectors have it with `decimal.handling.mode=string`."""
    for found, losses in outcomes(
        DEBEZIUM, [statement(TABLE), debezium_record(ROW)], debezium_record(ROW | {"n": text})
    ):
        assert json.loads(found[0].value)["data"][0]["n"].removeprefix("-") == value
        assert "value-inferred" not in losses


def test_minus_zero_is_an_integer_of_debezium() -> None:
    for found, losses in outcomes(
        DEBEZIUM, [statement(TABLE), debezium_record(ROW)], debezium_record(ROW | {"k": "-0"})
    ):
        assert json.loads(found[0].value)["data"][0]["k"] == "0"
        assert "value-inferred" not in losses


# ---------------------------------------------------------------- Canal

BLOB_TYPES = {"id": "int", "b": "blob"}
CANAL_NUMBERS = {"id": 4, "b": 2004}


@pytest.mark.parametrize("create", ["CREATE TABLE t (id INT, b BLOB)", "CREATE TABLE other (id INT)"])
@pytest.mark.parametrize(
    ("numbers", "text"),
    [
        ({"id": 4, "b": -3}, "[106, 103, -1]"),
        ({"id": 4, "b": -4}, "[106]"),
        ({"id": 94, "b": 2004}, "[106]"),
        ({"b": 2004}, "jg"),
        (None, "jg"),
        ({"id": 4, "b": "x"}, "jg"),
    ],
)
def test_numbers_that_tell_the_dialect_are_those_of_the_row(create: str, numbers: Any, text: str) -> None:
    """Huawei DRS prints bytes as Java does, and has numbers in `sqlType` by which it is known."""
    statement = row_message({}, isDdl=True, type="CREATE", sql=create, data=None)
    usual = row_message(BLOB_TYPES, {"id": "1", "b": "ab"}, sqlType=CANAL_NUMBERS)
    odd = row_message(BLOB_TYPES, {"id": "1", "b": text}, sqlType=numbers)
    for one, other in ((usual, odd), (odd, usual)):
        given = [record(each, offset=at) for at, each in enumerate((statement, one, other))]
        warm, cold = outcomes(CANAL, given[:2], given[2])
        assert warm == cold


@pytest.mark.parametrize(
    "number",
    ["-3", "-3.0", "-30e-1", "-0.3E+1", '"-3"', r'"\u002d3"', " \n-3", "6", "0.6e1", "60e-1", "9.4E1"],
)
def test_numbers_that_tell_the_dialect_may_be_written_in_any_way(number: str) -> None:
    usual = row_message(BLOB_TYPES, {"id": "1", "b": "[106]"}, sqlType=CANAL_NUMBERS)
    odd = json.dumps(usual).replace("2004", number)
    given = [record(usual), record(odd, offset=1), record(usual, offset=2)]
    for at in (1, 2):
        warm, cold = outcomes(CANAL, given[:at], given[at])
        assert warm == cold
    texts = [translated["data"][0]["b"] for translated in translate(CANAL, CANAL, given)]
    assert texts == ["[106]", "j", "[106]"]


@pytest.mark.parametrize("word", [["TIDB_WATERMARK"], [1, 2], 5, 10**10, 1.5, True, {}, {"a": 1}, None])
@pytest.mark.parametrize("protocol", [CANAL, "ticdc-canal-json", "ckafka-json", OPEN, DEBEZIUM])
def test_a_word_that_is_no_text_is_no_bug(protocol: str, word: Any) -> None:
    """Not even where it distinguishes similar formats."""
    for more in ({}, {"sql": 5}, {"data": [{"a": 1}]}):
        with contextlib.suppress(DecodeError):
            Translator(protocol, CANAL).translate(record({"database": "", "type": word} | more))


@pytest.mark.parametrize("partitions", [None, 3])
@pytest.mark.parametrize("text", ['"NaN"', '"sNaN"', '"-Infinity"', "1e9999", "null"])
def test_a_key_that_is_no_number_is_no_bug(text: str, partitions: int | None) -> None:
    create = "CREATE TABLE `t` (`id` DECIMAL(9,2) PRIMARY KEY,`v` VARCHAR(9))"
    for before in (True, False):
        translator = Translator(DEBEZIUM, CANAL, partitions=partitions)
        if before:
            translator.translate(statement(create))
        with contextlib.suppress(RelayError):
            translator.translate(debezium_record({"id": text, "v": '"x"'}))


@pytest.mark.parametrize("target", [NATIVE, "debezium-avro", "maxwell-json", "ticdc-simple-json"])
def test_what_is_wrong_with_a_table_is_said_before_what_is_wrong_with_a_value(
    target: str, compile_at: Callable[[int], None]
) -> None:
    """However often rows of the table were refused."""
    compile_at(3)
    options = {
        NATIVE: {"field.name.adjustment.mode": "avro"},
        "maxwell-json": {"output_naming_strategy": "underscore_to_camelcase"},
    }
    names = ["a_b", "a__b"] if target == "maxwell-json" else ["\xe4", "\xe5"]
    if target == "ticdc-simple-json":
        names = ["a", "A"]
    good, bad = (
        record(row_message(dict.fromkeys(names, "int"), dict.fromkeys(names, text))) for text in ("1", "x")
    )
    warm, cold = (Translator(CANAL, target, None, options.get(target)) for _ in range(2))
    for _ in range(WARM):
        outcome(warm, good)
    found = outcome(cold, bad)
    assert outcome(warm, bad) == found
    assert found == outcome(cold, good)
    assert str(found[0]).startswith("NotRepresentable")
