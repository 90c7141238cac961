"""TiCDC Avro's edge cases."""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from edge_cases.ticdc_avro import (
    ADDED,
    CASES,
    COMMIT_TS,
    CONTROL,
    EXTENSION,
    INT,
    Avro,
    record,
    schema,
    typed,
)
from support import TICDC, row_message
from support import record as json_record

from relay import (
    ABSENT,
    Malformed,
    NeedUnanswered,
    NotRepresentable,
    Op,
    SchemaChange,
    UnsupportedMessage,
    Watermark,
)

KEY = schema(("id", INT))
ROW = schema(("id", INT), ("v", ["null", INT]))
TSO = COMMIT_TS.to_bytes(8, "big")
BIGINT = typed("BIGINT UNSIGNED", "long")
TEXT = typed("TEXT", "string")
NAMED = schema(("id", INT), ("a_b", TEXT), table="order_items")
STATEMENT = (
    b'\x01{"query":"CREATE TABLE `order-items` (`id` INT NOT NULL PRIMARY KEY,`a-b` VARCHAR(9))","type":3,'
    b'"schema":"d","table":"order-items","commitTs":5}'
)


def only(type_: Any, value: Any, **reading: str) -> Any:
    """The value of a column `v` of this type."""
    wire = Avro(reading=reading)
    change = wire.row(None, wire.part(schema(("v", type_)), {"v": value}))
    assert change.after is not None
    return change.after[0]


def wrote(
    columns: dict[str, str], row: dict[str, Any], writing: dict[str, str] | None = None, **more: Any
) -> Any:
    """What is written of a row of TiCDC Canal-JSON: the wire, and the record."""
    wire = Avro(TICDC, writing=writing)
    columns, row = {"id": "int", **columns}, {"id": "1", **row}
    message = row_message(columns, row, **{"pkNames": ["id"], **more})
    (found,) = wire.write(json_record(message))
    return wire, found


def declared(definition: str, row: dict[str, Any], writing: dict[str, str] | None = None) -> Any:
    """What is written of a row whose table has this definition: its value and the fields of its schema."""
    wire = Avro(TICDC, writing=writing)
    create = row_message(
        {}, op="CREATE", isDdl=True, sql=f"CREATE TABLE t ({definition})", data=None, es=1, ts=1
    )
    wire.write(json_record(create))
    types = dict.fromkeys(row, "")
    names = [part.strip().split(" ")[0] for part in definition.split(", ")]
    types = {
        name: part.strip().split(" ")[1]
        for name, part in zip(names, definition.split(", "), strict=True)
        if name in row
    }
    (found,) = wire.write(json_record(row_message(types, row, pkNames=["id"]), offset=1))
    return wire.written(found.value), wire.fields(found.value)


# ---------------------------------------------------------------- messages


@CASES.covers("1")
def test_a_key_without_a_value_is_a_deleted_row() -> None:
    wire = Avro()
    change = wire.row(wire.part(KEY, {"id": 7}), None)
    assert (change.op, change.before, change.after) == (Op.DELETE, (7,), None)
    assert change.schema.primary_key == ("id",)
    assert change.source.event_time_ns == 1_708_923_661_858_000_000
    wire.write(record(wire.part(KEY, {"id": 7}), None))
    assert "columns-absent" in wire.counted


@CASES.covers("2", "14")
@pytest.mark.parametrize("value", [None, b"\x03" + TSO])
def test_a_deleted_row_without_a_key_is_counted(value: bytes | None) -> None:
    wire = Avro()
    assert wire.write(record(None, value)) == []
    assert wire.counted == {"delete"}


@CASES.covers("3", "4", "5", "8", "9", "10")
def test_what_is_no_message_is_refused() -> None:
    wire = Avro()
    good = wire.part(schema(("id", INT), ("s", ["null", TEXT])), {"id": 1, "s": ("string", "ab")})
    for value, reason in (
        (b"", "empty"),
        (b"\0\0\0", "ends within its schema id"),
        (b'{"a":1}', "looks like JSON"),
        (good + b"\0", "more bytes"),
        (good[:-1], "not a value"),
        (good[:6] + b"\x06", "not a value"),
        (good[:6] + b"\x01", "not a value"),
        (good[:-1] + b"\xff", "not a value"),
    ):
        with pytest.raises((Malformed, UnsupportedMessage)) as error:
            wire.read(None, value)
        assert reason in str(error.value)


@CASES.covers("6")
def test_an_id_that_the_registry_does_not_know_is_no_message() -> None:
    with pytest.raises((NeedUnanswered, KeyError)):
        Avro().read(None, b"\0\0\0\x03\xe7\x02")


@CASES.covers("7")
def test_the_header_has_the_id_of_the_schema_before_the_value() -> None:
    wire = Avro()
    value = wire.part(ROW, {"id": 0, "v": None})
    change = wire.row(None, value[5:], headers=(("__value_schema_id", value[:5]),))
    assert change.after == (0, None)


@CASES.covers("11")
def test_a_schema_that_is_not_avro_is_refused() -> None:
    wire = Avro()
    value = wire.part(ROW, {"id": 1, "v": None})
    wire.kinds[1] = "PROTOBUF"
    with pytest.raises(UnsupportedMessage, match="PROTOBUF, not Avro"):
        wire.read(None, value)


@CASES.covers("12")
def test_every_row_has_the_schema_of_its_id() -> None:
    wire, wider = Avro(), schema(("id", INT), ("v", ["null", INT]), ("w", TEXT))
    old, new = wire.part(ROW, {"id": 1, "v": None}), wire.part(wider, {"id": 1, "v": None, "w": "x"})
    found = [wire.row(None, value).after for value in (old, new, old, new)]
    assert found == [(1, None), (1, None, "x")] * 2


@CASES.covers("13")
def test_messages_without_a_schema_are_read_whatever_the_options_say() -> None:
    wire = Avro(writing=CONTROL)
    (statement,) = wire.read(None, STATEMENT)
    assert isinstance(statement, SchemaChange)
    assert (statement.ddl[:12], statement.source.commit_ts) == ("CREATE TABLE", 5)
    (mark,) = wire.read(None, b"\x02" + TSO)
    assert isinstance(mark, Watermark)
    assert mark.source.commit_ts == COMMIT_TS
    deleted = wire.row(wire.part(KEY, {"id": 7}), b"\x03" + TSO)
    assert (deleted.before, deleted.source.commit_ts) == ((7,), COMMIT_TS)
    for value in (STATEMENT, b"\x02" + TSO):
        assert [out.value for out in wire.write(record(None, value))] == [value]


@CASES.covers("15")
def test_a_record_without_tidb_types_is_no_message() -> None:
    wire = Avro()
    plain = schema(("id", "int"))
    with pytest.raises(UnsupportedMessage, match="not a record with columns of TiCDC"):
        wire.read(None, wire.part(plain, {"id": 1}))


# ---------------------------------------------------------------- names


@CASES.covers("16", "22")
def test_names_that_avro_does_not_take_have_others_and_are_counted() -> None:
    wire, written = wrote(
        {"a-b": "int", "1x": "int", "é𐍈": "int"}, {"a-b": "1", "1x": "2", "é𐍈": "3"}, table="1-表.x"
    )
    assert wire.written(written.value) == {"id": 1, "a_b": 1, "_1x": 2, "__": 3}
    assert '"name":"_1___x","namespace":"default.d"' in wire.target.schema(2).text
    assert "column-names" in wire.counted


@CASES.covers("17")
def test_a_statement_tells_the_names_that_rows_do_not_have() -> None:
    wire = Avro(target=TICDC)
    change = wire.row(None, wire.part(NAMED, {"id": 1, "a_b": "x"}))
    assert (str(change.table), [column.name for column in change.schema.columns]) == (
        "d.order_items",
        ["id", "a_b"],
    )
    wire.write(record(None, STATEMENT))
    nullable = schema(("id", INT), ("a_b", ["null", TEXT]), table="order_items", added=ADDED)
    value = {"id": 1, "a_b": ("string", "x"), "_tidb_op": "c", "_tidb_commit_ts": COMMIT_TS}
    change = wire.row(None, wire.part(nullable, {**value, "_tidb_commit_physical_time": 9}))
    assert (str(change.table), change.after) == ("d.order-items", (1, "x"))
    assert [column.name for column in change.schema.columns] == ["id", "a-b"]


@CASES.covers("18")
def test_columns_that_become_one_name_are_refused() -> None:
    with pytest.raises(NotRepresentable, match="another column is 'a_b'"):
        wrote({"a-b": "int", "a_b": "int"}, {"a-b": "1", "a_b": "2"})


@CASES.covers("19")
def test_a_column_with_the_name_of_what_ticdc_adds() -> None:
    with pytest.raises(NotRepresentable, match="a field that TiCDC adds"):
        wrote({"_tidb_op": "int"}, {"_tidb_op": "1"})
    wire = Avro()
    change = wire.row(None, wire.part(schema(("id", INT), ("_tidb_op", TEXT)), {"id": 1, "_tidb_op": "d"}))
    assert (change.op, change.after) == (Op.INSERT, (1, "d"))


@CASES.covers("20", "21")
def test_subjects_have_no_dots_and_may_be_those_of_two_topics() -> None:
    wire = Avro(writing=EXTENSION)
    for topic in ("a.b", "a_b"):
        key, value = wire.part(KEY, {"id": 1}), wire.part(ROW, {"id": 1, "v": None})
        (written,) = wire.write(record(key, value, topic))
        assert written.topic == topic
        assert wire.written(written.value)["id"] == 1
    assert set(wire.target.fake.subjects) == {"a_b-key", "a_b-value"}


# ---------------------------------------------------------------- values


@CASES.covers("23")
def test_null_beside_a_default_is_null() -> None:
    wire = Avro()
    text = schema(("v", [INT, "null"])).replace('"name": "v"', '"default": 5, "name": "v"')
    change = wire.row(None, wire.part(text, {"v": None}))
    assert change.after == (None,)
    default = change.schema.columns[0].default
    assert default is not ABSENT
    assert default.text == "5"
    value, fields = declared("id INT PRIMARY KEY, v INT DEFAULT 5", {"id": "1", "v": None})
    assert (value["v"], fields["v"]["type"][1], fields["v"]["default"]) == (None, "null", 5)


@CASES.covers("24", "37")
def test_defaults_are_those_that_ticdc_writes() -> None:
    definition = "id INT PRIMARY KEY, d DECIMAL(9) DEFAULT 1, b BINARY(2) DEFAULT 'a'"
    _, fields = declared(definition, {"id": "1", "d": "1", "b": "a\0"})
    assert (fields["d"]["type"][0], fields["d"]["default"]) == ("null", None)
    assert (fields["b"]["type"][1], fields["b"]["default"]) == ("null", "YQA=")
    text = schema(("v", typed("BLOB", "bytes"))).replace('"name": "v"', '"default": "YQA=", "name": "v"')
    wire = Avro()
    default = wire.row(None, wire.part(text, {"v": b""})).schema.columns[0].default
    assert default is not ABSENT
    assert default.text == "a\0"


@CASES.covers("25")
def test_unsigned_numbers_are_long_with_the_same_bits_or_text() -> None:
    largest = "18446744073709551615"
    assert only(BIGINT, -1) == only(typed("BIGINT UNSIGNED", "string"), largest) == int(largest)
    wire, written = wrote({"v": "bigint unsigned"}, {"v": largest})
    assert wire.written(written.value)["v"] == -1
    wire, written = wrote(
        {"v": "bigint unsigned"}, {"v": largest}, {"avro-bigint-unsigned-handling-mode": "string"}
    )
    assert wire.written(written.value)["v"] == largest


def decimal(precision: int, scale: int) -> dict[str, Any]:
    return typed("DECIMAL", "bytes", logicalType="decimal", precision=precision, scale=scale)


@CASES.covers("26", "35")
@pytest.mark.parametrize(
    ("text", "column"),
    [("9" * 35 + "." + "9" * 30, (65, 30)), ("-3.2768", (9, 4)), ("0.0000", (9, 4)), ("-0.0001", (9, 4))],
)
def test_decimals_have_all_their_digits_in_the_fewest_bytes(text: str, column: tuple[int, int]) -> None:
    number = int(text.replace(".", ""))
    data = number.to_bytes(((~number if number < 0 else number).bit_length() // 8) + 1, "big", signed=True)
    read = only(decimal(*column), data)
    assert (read, str(read)) == (Decimal(text), text)
    wire, written = wrote({"v": f"decimal({column[0]},{column[1]})"}, {"v": text})
    assert wire.written(written.value)["v"] == data


@CASES.covers("27", "28")
@pytest.mark.parametrize(
    ("column", "value"),
    [("decimal(4,2)", "1.234"), ("decimal(4,2)", "123.4"), ("int", "2147483648"), ("bit(4)", "16")],
)
def test_values_beyond_their_columns_are_refused(column: str, value: str) -> None:
    with pytest.raises(NotRepresentable, match="v"):
        wrote({"v": column}, {"v": value})


@CASES.covers("29")
def test_a_float_has_its_shortest_digits() -> None:
    assert only(typed("FLOAT", "float"), 0.1) == 0.1
    _, written = wrote({"v": "float"}, {"v": "0.1"})
    assert written.value[-4:] == bytes.fromhex("cdcccc3d")


@CASES.covers("30")
def test_bits_may_have_fewer_bytes() -> None:
    wide = typed("BIT", "bytes", {"length": "64"})
    assert only(typed("BIT", "bytes", {"length": "1"}), b"\0") == 0
    assert [only(wide, data) for data in (b"\xff" * 8, b"\5", b"")] == [2**64 - 1, 5, 0]
    wire, written = wrote({"v": "bit(10)"}, {"v": "5"})
    assert wire.written(written.value)["v"] == b"\0\5"


@CASES.covers("31", "32", "34")
def test_labels_and_their_numbers() -> None:
    enum = typed("ENUM", "string", {"allowed": "a\\,b,c"})
    assert [only(enum, label) for label in ("a,b", "c", "")] == [1, 2, 0]
    members = typed("SET", "string", {"allowed": "r,w"})
    assert [only(["null", members], value) for value in (("string", ""), ("string", "r,w"), None)] == [
        0,
        3,
        None,
    ]
    value, fields = declared("id INT PRIMARY KEY, v ENUM('a;b','c')", {"id": "1", "v": "2"})
    assert (value["v"], fields["v"]["type"][1]["connect.parameters"]["allowed"]) == ("c", "a;b,c")


@CASES.covers("33")
def test_dates_and_times_stay_as_they_are() -> None:
    assert only(typed("TIME", "string"), "-838:59:59.000001") == "-838:59:59.000001"
    assert only(typed("DATE", "string"), "0000-00-00") == "0000-00-00"
    wire, written = wrote({"v": "date"}, {"v": "0000-00-00"})
    assert wire.written(written.value)["v"] == "0000-00-00"


@CASES.covers("36")
def test_a_timestamp_is_in_the_zone_of_the_option() -> None:
    local, utc = "2024-01-01 08:00:00", "2024-01-01 00:00:00"
    assert only(typed("TIMESTAMP", "string"), local, timezone="Asia/Shanghai") == utc
    wire, written = wrote({"v": "timestamp"}, {"v": utc}, {"timezone": "Asia/Shanghai"})
    assert wire.written(written.value)["v"] == local


@CASES.covers("38")
def test_rows_have_null_for_a_virtual_column() -> None:
    value, _ = declared("id INT PRIMARY KEY, v INT AS (id * 2) VIRTUAL", {"id": "1"})
    assert value == {"id": 1, "v": None}


# ---------------------------------------------------------------- rows


@CASES.covers("39")
def test_a_row_without_its_operation_reads_as_inserted() -> None:
    wire = Avro()
    change = wire.row(wire.part(KEY, {"id": 1}), wire.part(ROW, {"id": 1, "v": ("int", 2)}))
    assert (change.op, change.after, change.source.commit_ts) == (Op.INSERT, (1, 2), None)


def extended(op: str, old: Any = None) -> tuple[str, dict[str, Any]]:
    """The schema of rows with their old rows, and a row."""
    columns = [{"name": "id", "type": INT}, {"name": "v", "type": ["null", INT]}]
    record_of = {"type": "record", "name": "t_before", "namespace": "default.d", "fields": columns}
    before = {"default": None, "name": "_ticdc_before", "type": ["null", record_of]}
    value = {"id": 1, "v": ("int", 20), "_ticdc_before": old and ("default.d.t_before", old), "_tidb_op": op}
    value |= {"_tidb_commit_ts": 1025, "_tidb_commit_physical_time": 0}
    return schema(("id", INT), ("v", ["null", INT]), added=[before, *ADDED]), value


@CASES.covers("40")
def test_a_deleted_row_may_have_its_values() -> None:
    wire = Avro(writing={**EXTENSION, "avro-include-before-value": "true"})
    text, value = extended("d", {"id": 1, "v": ("int", 20)})
    data = wire.part(text, value)
    assert data[5:].hex() == "020228020202280264821000"
    change = wire.row(None, data)
    assert (change.op, change.before, change.after, change.source.commit_ts) == (
        Op.DELETE,
        (1, 20),
        None,
        1025,
    )
    text, value = extended("u", {"id": 1, "v": ("int", 18)})
    update = wire.row(None, wire.part(text, value))
    assert (update.op, update.before, update.after) == (Op.UPDATE, (1, 18), (1, 20))


@CASES.covers("41")
@pytest.mark.parametrize(
    ("checksum", "corrupted", "is_counted"), [("1", False, 1), ("", False, 0), ("", True, 1)]
)
def test_a_row_that_is_corrupted_is_counted_or_refused(
    checksum: str, corrupted: bool, is_counted: int
) -> None:
    more = [
        {"name": "_tidb_row_level_checksum", "type": "string"},
        {"name": "_tidb_corrupted", "type": "boolean"},
        {"name": "_tidb_checksum_version", "type": "int"},
    ]
    value = {"id": 1, "_tidb_op": "c", "_tidb_commit_ts": 9, "_tidb_commit_physical_time": 9}
    value |= {"_tidb_row_level_checksum": checksum, "_tidb_corrupted": corrupted, "_tidb_checksum_version": 2}
    reading = {"integrity-check-level": "correctness"}
    wire = Avro(reading=reading)
    given = record(None, wire.part(schema(("id", INT), added=[*ADDED, *more]), value))
    wire.write(given)
    assert ("checksum" in wire.counted) is bool(is_counted)
    strict = Avro(reading=reading | {"corruption-handle-level": "error"})
    strict.source = wire.source
    if is_counted:
        with pytest.raises(Malformed, match="corrupted"):
            strict.write(given)
    else:
        assert strict.write(given)


@CASES.covers("42")
def test_fields_are_columns_by_their_names() -> None:
    wire = Avro()
    wire.write(record(None, STATEMENT.replace(b"order-items", b"t").replace(b"a-b", b"v")))
    text = schema(("v", ["null", TEXT]), ("id", INT), added=ADDED)
    value = {"id": 1, "v": ("string", "x"), "_tidb_op": "c", "_tidb_commit_ts": COMMIT_TS}
    change = wire.row(None, wire.part(text, {**value, "_tidb_commit_physical_time": 9}))
    assert ([column.name for column in change.schema.columns], change.after) == (["id", "v"], (1, "x"))


@CASES.covers("43")
def test_a_key_keeps_its_bytes_when_other_columns_change() -> None:
    wire, keys = Avro(TICDC), []
    for columns in ({"v": "int"}, {"v": "bigint", "w": "int"}):
        message = row_message(
            {"id": "int", **columns}, {"id": "1", **dict.fromkeys(columns, "2")}, pkNames=["id"]
        )
        keys.append(wire.write(json_record(message))[0].key)
    assert keys[0] == keys[1]


@CASES.covers("44")
def test_an_update_of_the_key_is_split_unless_an_option_forbids_it() -> None:
    for writing, most in (({}, 2), ({"output-raw-change-event": "true"}, 1)):
        wire = Avro(TICDC, writing=writing)
        types = {"id": "int", "v": "int"}
        message = row_message(types, {"id": "2", "v": "1"}, op="UPDATE", old=[{"id": "1"}], pkNames=["id"])
        written = wire.write(json_record(message))
        assert len(written) == most
        assert (written[0].value is None) is (most == 2)


@CASES.covers("45")
def test_a_table_without_a_primary_key_has_no_keys_and_no_deletes() -> None:
    wire = Avro(TICDC)
    types = {"a": "int"}
    (inserted,) = wire.write(json_record(row_message(types, {"a": "1"})))
    assert inserted.key is None
    assert wire.write(json_record(row_message(types, {"a": "1"}, op="DELETE"))) == []
    assert "delete" in wire.counted
