"""Messages of Simple that no TiCDC writes, and rows and statements that Simple has no message for."""

from __future__ import annotations

import json
import math
import zlib
from datetime import UTC
from typing import Any

import debezium_json_support as debezium
import pytest
from simple_support import (
    AVRO,
    DDL_TS,
    SIMPLE,
    VERSION,
    as_avro,
    bootstrap,
    column,
    ddl,
    read,
    records,
    row,
    table,
    value_of,
    written,
)
from support import CANAL, TICDC, record, row_message

from relay import NotRepresentable, RowChange, SchemaChange, Translator
from relay.codecs.simple.avro_bytes import SimpleAvroReader
from relay.codecs.simple.avro_values import read_of, read_value, write_of
from relay.model.errors import LimitExceeded, Malformed
from relay.model.events import ColumnType, TableId
from relay.model.limits import Limits

BOTH = pytest.mark.parametrize("target", [SIMPLE, AVRO])


@BOTH
@pytest.mark.parametrize(
    ("mysql_type", "number"),
    [
        ("enum('a','b')", "3"),
        ("enum('a','b')", "-1"),
        ("set('a','b')", "4"),
        ("set('a','b')", "-62135596800001"),
    ],
)
def test_a_number_that_stands_for_no_label_is_not_written(target: str, mysql_type: str, number: str) -> None:
    translator = Translator(CANAL, target)
    with pytest.raises(NotRepresentable, match=f"{target}: c: "):
        translator.translate(record(row_message({"c": mysql_type}, {"c": number})))


@pytest.mark.parametrize(
    ("column_type", "number"),
    [
        (ColumnType("int"), 1 << 63),
        (ColumnType("bigint"), 1 << 63),
        (ColumnType("year"), 1 << 63),
        (ColumnType("bigint", unsigned=True), -1),
        (ColumnType("bigint", unsigned=True), 1 << 64),
    ],
)
def test_avro_has_no_bits_for_numbers_beyond_their_type(column_type: ColumnType, number: int) -> None:
    write = write_of(column_type, UTC, "UTC", lambda: None)
    with pytest.raises((ValueError, ArithmeticError), match="64 bits"):
        write(number)


@pytest.mark.parametrize(
    ("column_type", "number"),
    [
        (ColumnType("int", unsigned=True), (1 << 32) - 1),
        (ColumnType("bigint"), -(1 << 63)),
        (ColumnType("bigint", unsigned=True), (1 << 64) - 1),
        (ColumnType("set", members=tuple(f"m{at}" for at in range(64))), (1 << 64) - 1),
        (ColumnType("enum", members=("a",)), 0),
    ],
)
def test_avro_has_the_extremes_of_every_type(column_type: ColumnType, number: int) -> None:
    data = write_of(column_type, UTC, "UTC", lambda: None)(number)
    assert read_of(column_type, UTC)(read_value(SimpleAvroReader(data))) == number


@pytest.mark.parametrize("base", ["float", "double"])
@pytest.mark.parametrize("number", [math.inf, -math.inf, math.nan])
def test_avro_has_no_numbers_that_are_none(base: str, number: float) -> None:
    with pytest.raises(ValueError, match="not a finite number"):
        write_of(ColumnType(base), UTC, "UTC", lambda: None)(number)


def test_a_location_that_is_no_zone_is_not_shown() -> None:
    with pytest.raises(Malformed, match=r"data\.at: a location that is not a time zone$"):
        value_of(column("at", "timestamp"), {"location": "Secret/Place", "value": "2026-01-15 02:20:30"})


@pytest.mark.parametrize(
    ("columns", "key", "reason"),
    [
        (["a"], ["b"], "a primary key of columns that the table lacks"),
        (["a"], ["a", "A"], "a primary key of columns that the table lacks"),
        (["a", "A"], ["a"], "a column without a name, or two of one"),
        (["a", ""], ["a"], "a column without a name, or two of one"),
    ],
)
def test_a_definition_that_contradicts_itself_is_refused(
    columns: list[str], key: list[str], reason: str
) -> None:
    index = {"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": key}
    schema = table(indexes=[index]) | {"columns": [column(name) for name in columns]}
    with pytest.raises(Malformed, match=reason):
        read(bootstrap(schema))


@pytest.mark.parametrize(
    "name", ["", "unsigned", "unsigned unsigned", "bigint('a unsigned", "int(11)", "int,", "int ", "İ"]
)
def test_a_column_without_the_name_of_a_type_is_refused(name: str) -> None:
    with pytest.raises(Malformed, match="a column without the name of a type"):
        read(bootstrap(table(column("a", name))))


@pytest.mark.parametrize(
    ("name", "length", "column_type"),
    [
        ("timestamp unsigned zerofill", 11, ColumnType("timestamp", unsigned=True, zerofill=True, length=0)),
        ("bigint unsigned", 20, ColumnType("bigint", unsigned=True)),
        ("int unsigned", 10, ColumnType("int", unsigned=True)),
        ("int unsigned", 11, ColumnType("int", unsigned=True, length=11)),
        ("double precision", 22, ColumnType("double")),
    ],
)
def test_a_type_may_be_named_as_in_statements(name: str, length: int, column_type: ColumnType) -> None:
    change = read(bootstrap(table(column("a", name, length=length))), row({"a": None}))[0][-1]
    assert isinstance(change, RowChange)
    assert change.schema.columns[1].type == column_type


@pytest.mark.parametrize(("base", "more"), [("decimal", {"decimal": -2}), ("varchar", {"length": -20})])
def test_parameters_below_zero_are_unknown(base: str, more: dict[str, Any]) -> None:
    change = read(bootstrap(table(column("a", base, **more))), row({"a": "1"}))[0][-1]
    assert isinstance(change, RowChange)
    found = change.schema.columns[1].type
    assert (found.base, found.length, found.scale) == (base, None, None)


def test_an_index_may_have_the_hidden_column_of_an_expression() -> None:
    index = {"name": "k", "unique": False, "primary": False, "nullable": True, "columns": ["_V$_k_0"]}
    schema = table(column("a"))
    schema["indexes"].append(index)
    change = read(bootstrap(schema), row({"a": "1"}))[0][-1]
    assert isinstance(change, RowChange)
    assert change.after == (1, 1)


@BOTH
@pytest.mark.parametrize("other", ["A", ""])
def test_a_row_whose_columns_have_no_names_of_their_own_is_not_written(target: str, other: str) -> None:
    with pytest.raises(NotRepresentable, match="a column without a name, or two of one"):
        Translator(CANAL, target).translate(record(row_message({}, {"a": "1", other: "2"})))


@BOTH
@pytest.mark.parametrize("key", [["b"], ["a", "b"], ["b", "b"]])
def test_a_key_that_a_row_lacks_is_not_in_the_definition_that_it_lets_guess(
    target: str, key: list[str]
) -> None:
    outs = Translator(CANAL, target).translate(record(row_message({}, {"a": "1"}, pkNames=key)))
    reader = Translator(target, target)
    *_, change = [event for out in outs for event in reader.inspect(record(out.value or b""))]
    assert isinstance(change, RowChange)
    assert change.schema.handle_key() == ()


@BOTH
@pytest.mark.parametrize("source", [CANAL, TICDC])
def test_a_row_with_another_key_than_its_definition_brings_one(source: str, target: str) -> None:
    """DDL that changes a key travels in another partition, and may be seen before or after the row."""
    create = row_message({}, op="CREATE") | {"isDdl": True, "data": None, "sql": KEYED}
    insert = row_message({"a": "int", "b": "int"}, {"a": "1", "b": "2"}, pkNames=["b"])
    translator, reader = Translator(source, target), Translator(target, target)
    outs = [out for at, each in enumerate((create, insert)) for out in translator.translate(record(each, at))]
    *_, change = [event for out in outs for event in reader.inspect(record(out.value or b""))]
    assert isinstance(change, RowChange)
    assert change.after == (1, 2)
    assert change.schema.handle_key() == ("b",)


KEYED = "CREATE TABLE t (a INT NOT NULL PRIMARY KEY, b INT NOT NULL)"


@BOTH
def test_a_table_that_its_statement_does_not_name_is_defined_for_its_rows(target: str) -> None:
    """Debezium names in `tableChanges` what it has learned, whatever the text says."""
    entry = {"columns": [{"name": "id", "typeName": "INT"}], "primaryKeyColumnNames": []}
    change = {"type": "CREATE", "id": '"shop"."t"', "table": entry}
    translator, reader = Translator(debezium.DEBEZIUM, target), Translator(target, target)
    outs = translator.translate(debezium.record(debezium.ddl("CREATE TABLE other.u (a INT)", [change])))
    outs += translator.translate(debezium.record(debezium.row(after={"id": 7}), offset=1))
    *_, inserted = [event for out in outs for event in reader.inspect(record(out.value or b""))]
    assert isinstance(inserted, RowChange)
    assert (str(inserted.schema.id), inserted.after) == ("shop.t", (7,))


def statement(sql: str) -> dict[str, Any]:
    return row_message({}, op="CREATE") | {"isDdl": True, "data": None, "sql": sql, "database": ""}


@BOTH
@pytest.mark.parametrize("sql", ["CREATE TABLE t (a INT)", "DROP TABLE t", "RENAME TABLE t TO u"])
def test_a_table_without_a_database_has_no_definition_that_readers_could_find(target: str, sql: str) -> None:
    translator = Translator(CANAL, target)
    create, outs = record(statement("CREATE TABLE t (a INT)")), []
    for each in (create, record(statement(sql), 1)):
        outs += translator.translate(each)
    reader = Translator(target, target)
    again = [event for out in outs for event in reader.inspect(record(out.value or b""))]
    assert len(again) == len(outs)
    if target == SIMPLE:
        assert all("tableSchema" not in message for message in written(outs))
        assert json.dumps(written(outs)).count("null") == 0


@BOTH
def test_the_checksum_of_a_row_counts_the_zeros_that_a_binary_lacks(target: str) -> None:
    checked = {"integrity-check-level": "correctness"}
    translator = Translator(debezium.DEBEZIUM, target, None, checked)
    outs = translator.translate(debezium.record(debezium.ddl("CREATE TABLE t (id INT, b BINARY(4))")))
    outs += translator.translate(debezium.record(debezium.row(after={"id": 7, "b": "YWI="}), offset=1))
    reader = Translator(target, target, {**checked, "corruption-handle-level": "error"})
    *_, inserted = [event for out in outs for event in reader.inspect(record(out.value or b""))]
    assert isinstance(inserted, RowChange)
    assert inserted.after == (7, b"ab\0\0")
    assert b"checksum" in (outs[-1].value or b"") or target == AVRO


@pytest.mark.parametrize("number", ["3.5e38", "-1e300"])
def test_a_row_with_a_float_beyond_its_column_has_a_checksum(number: str) -> None:
    checked = {"integrity-check-level": "correctness"}
    translator = Translator(CANAL, SIMPLE, None, checked)
    *_, out = translator.translate(record(row_message({"f": "float"}, {"f": number})))
    # Of the number 0, which TiDB takes for what is not finite.
    assert json.loads(out.value or b"")["checksum"]["current"] == zlib.crc32(bytes(8))


@pytest.mark.parametrize("text", ["ann", "[nan]", "[1_0]", "[1,,2]", "[1-2]", ""])
def test_a_row_with_a_text_that_is_no_vector_has_no_checksum(text: str) -> None:
    checked = {"integrity-check-level": "correctness"}
    translator = Translator(CANAL, SIMPLE, None, checked)
    *_, out = translator.translate(record(row_message({"v": "vector(3)"}, {"v": text})))
    row = json.loads(out.value or b"")
    assert (row["data"], row.get("checksum")) == ({"v": text}, None)


def test_a_table_as_it_was_does_not_become_its_definition() -> None:
    """As the classic architecture sends it with every statement but CREATE."""
    one, other, third = column("a", "int"), column("b", "int"), column("c", "int")
    created = ddl("CREATE", "CREATE TABLE d.t (id INT PRIMARY KEY, a INT, b INT)", table(one, other))
    later, last = VERSION + (1 << 18), VERSION + (2 << 18)
    altered = ddl(
        "ALTER",
        "ALTER TABLE d.t ADD COLUMN c INT FIRST",
        table(one, other, third, version=later),
        at=DDL_TS + (1 << 18),
        preTableSchema=table(one, other),
    )
    renamed = ddl(
        "RENAME",
        "RENAME TABLE d.t TO d.u",
        table(one, other, third, name="u", version=last),
        at=DDL_TS + (2 << 18),
        preTableSchema=table(one, other, third, version=later),
    )
    events, translator = read(created, altered, row({"a": "1", "b": "2"}), renamed)
    found = {change.schema.id.table: change for change in events if isinstance(change, RowChange)}
    assert found["t"].after == (1, 1, 2)
    changes = [event for event in events if isinstance(event, SchemaChange)]
    names = [[each.name for each in change.after.columns] for change in changes if change.after]
    assert names == [["id", "a", "b"], *2 * [["c", "id", "a", "b"]]]
    assert translator.catalog.newest(TableId("d", "t"))[1] is None


def test_an_index_of_an_expression_spoils_no_later_statement() -> None:
    """Its column is hidden: no definition has it."""
    hidden = {"name": "k", "unique": False, "primary": False, "nullable": True, "columns": ["_V$_k_0"]}
    schema = table(column("b"))
    schema["indexes"].append(hidden)
    create = "CREATE TABLE d.t (id INT PRIMARY KEY, b INT, KEY k ((b + 1)))"
    for message in (ddl("CREATE", create, schema), bootstrap(schema)):
        events, _ = read(message, ddl("ALTER", "ALTER TABLE d.t ADD COLUMN c INT", at=DDL_TS + 1))
        altered = events[-1]
        assert isinstance(altered, SchemaChange)
        assert altered.after is not None
        assert [each.name for each in altered.after.columns] == ["id", "b", "c"]


@pytest.mark.parametrize("default", [10**20, -(10**20), 1 << 65])
def test_a_default_beyond_64_bits_is_refused(default: int) -> None:
    with pytest.raises(Malformed, match="a default beyond 64 bits"):
        read(bootstrap(table(column("a", "bit", default=default))))


@BOTH
@pytest.mark.parametrize("digits", [20, 64, 65, 14_400])
def test_the_default_of_a_bit_may_have_any_number_of_digits(target: str, digits: int) -> None:
    """Text of a statement is what its table says; no server takes more than 64 digits."""
    sql = f"CREATE TABLE d.t (id INT PRIMARY KEY, b BIT(64) DEFAULT b'{'1' * digits}')"
    outs = Translator(CANAL, target).translate(record(statement(sql)))
    again = [out for each in outs for out in Translator(target, SIMPLE).translate(record(each.value or b""))]
    plain = Translator(CANAL, SIMPLE).translate(record(statement(sql)))
    assert [each["tableSchema"]["columns"] for each in written(again)] == [
        each["tableSchema"]["columns"] for each in written(plain)
    ]


@pytest.mark.parametrize("more", [{}, {"added": 1}])
def test_a_type_keeps_what_only_its_statement_says(more: dict[str, Any]) -> None:
    """A definition has FLOAT(5,2) as a float of length 5, whether its message has unknown members or not."""
    schema = table(column("f", "float", length=5))
    sql = "CREATE TABLE d.t (id INT PRIMARY KEY, f FLOAT(5,2))"
    ((change,), _) = read(ddl("CREATE", sql, schema, **more))
    assert isinstance(change, SchemaChange)
    assert change.after is not None
    (found,) = [each for each in change.after.columns if each.name == "f"]
    assert found.type == ColumnType("float", length=5, scale=2)


def test_items_of_avro_are_counted() -> None:
    columns = [column(f"c{at}") for at in range(50)]
    wide, long = table(*columns), table(column("c", "varchar", default="," * 500))
    translator = Translator(AVRO, CANAL, limits=Limits(values=60))
    for schema in (wide, long):
        (given,) = records(as_avro(bootstrap(schema)))
        translator.translate(given)
    (given,) = records(as_avro(bootstrap(wide)))
    with pytest.raises(LimitExceeded, match="more values than the limit `values` allows, 40"):
        Translator(AVRO, CANAL, limits=Limits(values=40)).translate(given)
