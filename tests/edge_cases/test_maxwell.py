"""Maxwell's edge cases: values, rows, keys and DDL; the last test asks for all of the list."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import pytest
from edge_cases.support import EdgeCases
from support import captured, translated_records

from relay import (
    ABSENT,
    ConsumerRecord,
    EncodeError,
    Loss,
    Malformed,
    Op,
    RowChange,
    SchemaChange,
    Snapshot,
    Source,
    TableId,
    Transaction,
    TransactionMark,
    Translator,
    UnsupportedMessage,
)
from relay.codecs import BUILT_IN
from relay.model.events import DdlKind, Event, RenamedTable

MAXWELL = "maxwell-json"
CASES = EdgeCases("maxwell", "Maxwell")


def record(
    message: dict[str, Any] | str | None, offset: int = 0, key: Any = None, topic: str = "maxwell"
) -> ConsumerRecord:
    text = message if isinstance(message, str | None) else json.dumps(message, ensure_ascii=False)
    key_text = key if isinstance(key, str | None) else json.dumps(key)
    value = None if text is None else text.encode()
    return ConsumerRecord(
        topic, 0, offset, 1_700_000_000_456, None if key_text is None else key_text.encode(), value
    )


def ddl(
    sql: str, offset: int = 0, word: str = "table-create", *, declared: Any = None, **more: Any
) -> ConsumerRecord:
    more |= {} if declared is None else {"def": declared}
    named = {} if word.startswith("database") else {"table": "t"}
    return record(
        {"type": word, "database": "d", **named, "ts": 1_700_000_000_000, "sql": sql, **more}, offset
    )


def row(
    data: str, word: str = "insert", old: str | None = None, offset: int = 1, **more: Any
) -> ConsumerRecord:
    """A row of `d.t`, with its columns as JSON text."""
    head = json.dumps({"database": "d", "table": "t", "type": word, "ts": 1_700_000_001, **more})[:-1]
    tail = "" if old is None else f',"old":{old}'
    return record(f'{head},"data":{data}{tail}}}', offset)


def read(*records: ConsumerRecord, **options: str) -> tuple[list[Event], dict[str, int]]:
    translator = Translator(MAXWELL, MAXWELL, options, {"output_ddl": "true"})
    events = [event for each in records for event in translator.inspect(each)]
    return events, {str(what): number for what, number in translator.losses.items()}


def changes(*records: ConsumerRecord, **options: str) -> list[RowChange]:
    return [event for event in read(*records, **options)[0] if isinstance(event, RowChange)]


def image(change: RowChange, *, is_old: bool = False) -> dict[str, Any]:
    cells = change.before if is_old else change.after
    assert cells is not None
    names = [column.name for column in change.schema.columns]
    return {name: cell for name, cell in zip(names, cells, strict=True) if cell is not ABSENT}


def value_of(column_type: str, text: str) -> Any:
    (change,) = changes(ddl(f"CREATE TABLE t (c {column_type})"), row(f'{{"c":{text}}}'))
    return image(change)["c"]


def written(source: str, *records: ConsumerRecord, source_options: Any = None, **options: str) -> list[str]:
    translator = Translator(source, MAXWELL, source_options or {}, options)
    return [(out.value or b"").decode() for out in translated_records(translator, list(records))]


def again(column_type: str, text: str) -> Any:
    """What relay writes of a value that it has read."""
    create = ddl(f"CREATE TABLE t (c {column_type})")
    return written(MAXWELL, create, row(f'{{"c":{text}}}'))[0].partition('"data":{"c":')[2][:-2]


def canal(mysql_type: str, text: str | None, **more: Any) -> ConsumerRecord:
    message = {
        "id": 0, "database": "d", "table": "t", "pkNames": None, "isDdl": False, "type": "INSERT",
        "es": 1_700_000_000_000, "ts": 1_700_000_000_456, "sql": "", "sqlType": {"c": 12},
        "mysqlType": {"c": mysql_type}, "data": [{"c": text}], "old": None,
    } | more  # fmt: skip
    return record(json.dumps(message))


# ---------------------------------------------------------------- values


@pytest.mark.parametrize(
    ("column_type", "text", "expected"),
    [
        CASES.param("M01", "DECIMAL(65,30)", f"-{'9' * 35}.{'9' * 30}", Decimal(f"-{'9' * 35}.{'9' * 30}")),
        CASES.param("M02", "DECIMAL(65,30)", "0E-30", Decimal("0E-30")),
        CASES.param("M02", "DECIMAL(30,30)", "1E-30", Decimal("1E-30")),
        CASES.param("M02", "DECIMAL(10,4)", "12.3400", Decimal("12.3400")),
        CASES.param("M03", "BIGINT UNSIGNED", "18446744073709551615", 2**64 - 1),
        CASES.param("M03", "BIGINT", "-9223372036854775808", -(2**63)),
        CASES.param("M04", "DOUBLE", "1.0E10", 1e10),
        CASES.param("M04", "FLOAT", "3.4028235E38", 3.4028235e38),
        CASES.param("M04", "DOUBLE", '"-Infinity"', float("-inf")),
        CASES.param("M10", "ENUM('a','it''s','b\\\\c')", "\"it''s\"", 2),
        CASES.param("M10", "ENUM('a','it''s','b\\\\c')", r'"b\\\\c"', 3),
        CASES.param("M11", "SET('a','b','c')", "[]", 0),
        CASES.param("M11", "SET('a','b','c')", '[""]', 0),
        CASES.param("M11", "SET('a','b','c')", '["a","c"]', 5),
        CASES.param("M13", "JSON", '{"a":1.10}', '{"a":1.10}'),
        CASES.param("M13", "JSON", '"text"', '"text"'),
        CASES.param("M15", "VARBINARY(4)", '"AP8="', b"\x00\xff"),
    ],
)
def test_a_value_is_read_and_written_as_it_was(column_type: str, text: str, expected: Any) -> None:
    found = value_of(column_type, text)
    assert (found, type(found)) == (expected, type(expected))
    assert str(found) == str(expected)
    assert again(column_type, text) == ("[]" if text == '[""]' else text)


@CASES.covers("M04")
def test_minus_zero_keeps_its_sign() -> None:
    assert str(value_of("DOUBLE", "-0.0")) == "-0.0"


@CASES.covers("M05")
def test_bit_is_read_as_far_as_maxwell_has_not_destroyed_it() -> None:
    assert value_of("BIT(32)", "-1") == 2**32 - 1
    assert value_of("BIT(32)", "-2147483648") == 2**31
    assert value_of("BIT(64)", "18446744073709551615") == 2**64 - 1
    assert value_of("BIT(33)", "1") == 1  # Maxwell's own loss: it was 2^32
    assert again("BIT(32)", "-1") == "4294967295"


@CASES.covers("M06")
def test_the_year_1900_is_the_year_0000() -> None:
    assert (value_of("YEAR", "1900"), value_of("YEAR", "1901"), again("YEAR", "1900")) == (0, 1901, "0")


@CASES.covers("M08")
def test_each_row_with_time_is_counted() -> None:
    create = ddl("CREATE TABLE t (c TIME, d INT)")
    _, counted = read(create, row('{"c":"22:59:59","d":1}'), row('{"c":null,"d":1}', offset=2))
    assert counted == {"time-range": 1}


@CASES.covers("M09")
@pytest.mark.parametrize("text", ["-01:00:00", "838:59:59", "-838:59:59.000000"])
def test_time_is_written_as_mysql_has_it(text: str) -> None:
    (message,) = written("canal-json", canal(f"time({6 if '.' in text else 0})", text))
    assert json.loads(message)["data"] == {"c": text}


@CASES.covers("M12")
def test_index_0_of_enum_is_null_where_null_cannot_be() -> None:
    assert value_of("ENUM('a','b') NOT NULL", "null") == 0
    assert value_of("ENUM('a','b') NULL", "null") is None
    assert again("ENUM('a','b') NOT NULL", "null") == '""'
    assert value_of("ENUM('a','b') NULL", '""') == 0


@CASES.covers("M14")
def test_a_document_null_reads_as_null_and_is_counted() -> None:
    assert value_of("JSON NULL", "null") is None
    assert value_of("JSON NOT NULL", "null") == "null"
    translator = Translator("canal-json", MAXWELL)
    translator.translate(canal("json", "null"))
    assert translator.losses[Loss.JSON_NULL] == 1


@CASES.covers("M15")
def test_binary_has_its_last_zeros_again() -> None:
    assert value_of("BINARY(4)", '"YQ=="') == b"a\0\0\0"
    assert again("BINARY(4)", '"YQ=="') == '"YQ=="'
    with pytest.raises(Malformed, match=r"data\.c: .*base64"):
        value_of("VARBINARY(4)", '"Y"')


@CASES.covers("M16")
@pytest.mark.parametrize(
    "text",
    [
        "POINT (-1.5 2.25)",
        "LINESTRING (0 0, 1 1, 2 3)",
        "POLYGON ((0 0, 0 3, 3 3, 0 0), (1 1, 1 2, 2 2, 1 1))",
        "MULTIPOINT ((1 1), (2 2))",
        "MULTILINESTRING ((0 0, 1 1), (2 2, 3 3))",
        "MULTIPOLYGON (((0 0, 0 3, 3 3, 0 0)), ((5 5, 5 6, 6 6, 5 5)))",
        "GEOMETRYCOLLECTION (POINT (1 1), LINESTRING (0 0, 5 5), GEOMETRYCOLLECTION (POINT (2 2)))",
        "GEOMETRYCOLLECTION EMPTY",
    ],
)
def test_spatial_values(text: str) -> None:
    assert again("GEOMETRY", f'"{text}"') == f'"{text}"'


@CASES.covers("M16")
def test_a_point_has_mysqls_bytes() -> None:
    expected = bytes(4) + b"\x01\x01\x00\x00\x00" + bytes.fromhex("000000000000f03f0000000000000040")
    assert value_of("POINT", '"POINT (1 2)"') == expected
    for wrong in (
        "POINT (1)",
        "POINT (1 2",
        "CIRCLE (1 2)",
        "",
        "POINT (1 2) x",
        "GEOMETRYCOLLECTION (" * 99,
    ):
        with pytest.raises(Malformed, match=r"data\.c"):
            value_of("POINT", f'"{wrong}"')


# ---------------------------------------------------------------- rows

TABLE = ddl("CREATE TABLE t (id INT NOT NULL PRIMARY KEY, a VARCHAR(9))")


@CASES.covers("M17")
def test_an_update_from_null() -> None:
    (change,) = changes(TABLE, row('{"id":1,"a":"x"}', "update", '{"a":null}'))
    assert (image(change, is_old=True), image(change)) == ({"id": 1, "a": None}, {"id": 1, "a": "x"})


@CASES.covers("M18")
def test_an_update_without_old_does_not_tell_the_old_row() -> None:
    events, counted = read(TABLE, row('{"id":1,"a":"x"}', "update"))
    assert isinstance(events[1], RowChange)
    assert (events[1].before, counted) == (None, {"before-missing": 1})
    (same,) = changes(TABLE, row('{"id":1,"a":"x"}', "update", "{}"))
    assert same.before == same.after


@CASES.covers("M19")
def test_an_update_that_changed_nothing_has_an_empty_old() -> None:
    (message,) = written(MAXWELL, TABLE, row('{"id":1,"a":"x"}', "update", '{"a":"x"}'))
    assert json.loads(message)["old"] == {}


@CASES.covers("M20")
def test_a_deleted_row_is_in_data_or_in_old() -> None:
    ticdc = record('{"database":"d","table":"t","type":"delete","ts":1,"old":{"id":1,"a":"x"}}', 2)
    for change in changes(TABLE, row('{"id":1,"a":"x"}', "delete"), ticdc):
        assert (change.op, change.after, image(change, is_old=True)) == (Op.DELETE, None, {"id": 1, "a": "x"})


@CASES.covers("M21")
def test_the_last_row_of_a_transaction_ends_it() -> None:
    first = row('{"id":1,"a":"x"}', xid=7, xoffset=0)
    last = row('{"id":2,"a":"x"}', offset=2, xid=7, commit=True)
    (_, one, two, end), _ = read(TABLE, first, last)
    assert isinstance(one, RowChange)
    assert isinstance(two, RowChange)
    assert isinstance(end, TransactionMark)
    assert (one.transaction, two.transaction) == (Transaction("7", 1), Transaction("7"))
    assert (end.is_begin, end.id) == (False, "7")
    messages = [json.loads(text) for text in written(MAXWELL, TABLE, first, last)]
    assert [(each["xid"], each.get("xoffset"), each.get("commit")) for each in messages] == [
        (7, 0, None),
        (7, None, True),
    ]
    translator = Translator(MAXWELL, MAXWELL)
    translated_records(translator, [TABLE, first, last])
    assert translator.losses == {"ddl": 1}


ALL = dict.fromkeys(
    (
        "output_binlog_position",
        "output_gtid_position",
        "output_server_id",
        "output_thread_id",
        "output_row_query",
        "output_schema_id",
        "output_push_timestamp",
    ),
    "true",
)
FACTS: dict[str, Any] = {
    "query": "INSERT …",
    "position": "mysql-bin.000001:484",
    "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23",
    "server_id": 23042,
    "thread_id": 108,
    "schema_id": 1,
}


@CASES.covers("M22")
def test_what_a_row_tells_of_its_source() -> None:
    message = row('{"id":1,"a":"x"}', **FACTS, push_ts=1700000002.123456)
    (change,) = changes(TABLE, message)
    assert change.source == Source(
        "maxwell",
        1_700_000_001_000_000_000,
        gtid=FACTS["gtid"],
        binlog_file="mysql-bin.000001",
        binlog_position=484,
        server_id=23042,
        thread_id=108,
        query="INSERT …",
        schema_id=1,
    )
    assert change.emitted_at_ns == 1_700_000_002_123_456_000
    (text,) = written(MAXWELL, TABLE, message, **ALL)
    assert json.loads(text) == json.loads(message.value or b"")
    (cut,) = written(MAXWELL, TABLE, message, output_row_query="true", row_query_max_length="3")
    assert json.loads(cut)["query"] == "INS"


@CASES.covers("M23")
def test_a_transaction_without_a_number_is_left_out_and_counted() -> None:
    values = [json.loads(each.value or b"{}") for each in captured("mysql/debezium.no-schema/09_dml")]
    source = next(value for value in values if value.get("op") == "c")
    source["transaction"] = {"id": "file=a,pos=3", "total_order": 1, "data_collection_order": 1}
    translator = Translator("debezium-json", MAXWELL)
    (out,) = translator.translate(record(source))
    assert "xid" not in json.loads(out.value or b"")
    assert translator.losses[Loss.TRANSACTION] == 1


@CASES.covers("M24")
def test_the_marks_of_a_bootstrap_are_counted() -> None:
    marks = [row("{}", word) for word in ("bootstrap-start", "bootstrap-complete")]
    assert read(*marks) == ([], {"snapshot": 2})


@CASES.covers("M25")
def test_a_row_of_a_bootstrap_is_one_of_a_snapshot() -> None:
    (change,) = changes(TABLE, row('{"id":1,"a":"x"}', "bootstrap-insert"))
    assert (change.op, change.source.snapshot) == (Op.READ, Snapshot.TRUE)
    (message,) = written(MAXWELL, TABLE, row('{"id":1,"a":"x"}', "bootstrap-insert"))
    assert json.loads(message)["type"] == "bootstrap-insert"


@CASES.covers("M26")
def test_upper_case_words() -> None:
    assert [change.op for change in changes(row('{"id":1}', "INSERT"), row('{"id":1}', "DELETE"))] == [
        Op.INSERT,
        Op.DELETE,
    ]


@CASES.covers("M27")
def test_a_row_without_a_table_is_refused() -> None:
    with pytest.raises(Malformed, match="a row without the name of its table"):
        read(record('{"data":{"id":1},"type":"insert"}'))


@CASES.covers("M28")
def test_several_objects_in_one_value() -> None:
    one, two = (row(f'{{"id":{number},"a":"}}{{"}}').value or b"" for number in (1, 2))
    both = [image(change) for change in changes(TABLE, record((one + two).decode(), 1))]
    assert both == [{"id": 1, "a": "}{"}, {"id": 2, "a": "}{"}]
    with pytest.raises(Malformed):
        read(record((one + two[:-3]).decode(), 1))


@CASES.covers("M29")
def test_unknown_members_are_counted() -> None:
    (change,) = changes(TABLE, row('{"id":1,"a":"x"}', team="shop"))
    assert change.source.unknown_fields == {"team": "shop"}
    translator = Translator(MAXWELL, MAXWELL)
    translator.translate(row('{"id":1,"a":"x"}', team="shop"))
    assert translator.losses[Loss.UNKNOWN_FIELDS] == 1


@CASES.covers("M30")
def test_an_encrypted_payload_is_refused() -> None:
    with pytest.raises(UnsupportedMessage, match="encrypted"):
        read(record('{"database":"d","table":"t","type":"insert","ts":1,"encrypted":{"iv":"","bytes":""}}'))


@CASES.covers("M31")
@pytest.mark.parametrize("value", [None, ""])
def test_a_record_without_a_value(value: str | None) -> None:
    assert read(record(value)) == ([], {"tombstone": 1})


@CASES.covers("M32")
def test_rows_without_nulls() -> None:
    options = {"output_nulls": "false"}
    create = ddl("CREATE TABLE t (id INT, a VARCHAR(9), j JSON)")
    insert, update = row('{"id":1,"j":null}'), row('{"id":1,"a":"x"}', "update", '{"a":null}', 2)
    one, two = changes(create, insert, update, **options)
    assert image(one) == {"id": 1, "a": None, "j": "null"}
    assert image(two, is_old=True) == {"id": 1, "a": None, "j": None}
    messages = written(MAXWELL, create, insert, update, source_options=options, **options)
    assert [json.loads(text)["data"] for text in messages] == [{"id": 1, "j": None}, {"id": 1, "a": "x"}]
    assert json.loads(messages[1])["old"] == {"a": None}


@CASES.covers("M33")
def test_names_in_camel_case() -> None:
    options = {"output_naming_strategy": "underscore_to_camelcase"}
    create = ddl("CREATE TABLE t (user_id INT PRIMARY KEY, _tidb INT, UserName INT)")
    insert = row('{"userId":1,"tidb":2,"UserName":3}', primaryKeyColumns=["userId"], serverId=4)
    (change,) = changes(create, insert, **options)
    assert image(change) == {"user_id": 1, "_tidb": 2, "UserName": 3}
    assert change.source.server_id == 4
    (inferred,) = changes(insert, **options)
    assert image(inferred) == {"userId": 1, "tidb": 2, "UserName": 3}
    assert inferred.schema.primary_key == ("userId",)
    (message,) = written(
        MAXWELL, create, insert, source_options=options, **options, output_primary_key_columns="true"
    )
    assert json.loads(message)["data"] == {"userId": 1, "tidb": 2, "UserName": 3}
    assert json.loads(message)["primaryKeyColumns"] == ["userId"]
    twins = ddl("CREATE TABLE t (a_b INT, aB INT)")
    with pytest.raises(EncodeError, match="two columns would have one name"):
        written(MAXWELL, twins, row('{"a_b":1,"aB":2}'), **options)


@CASES.covers("M34")
def test_values_let_guess_the_types_of_a_table_that_is_not_known() -> None:
    data = (
        '{"i":1,"u":18446744073709551615,"big":99999999999999999999,"d":12.3400,"f":1.0E10,"t":"x","s":["a","b"],'
        '"j":{"k":1.10},"l":[1,2],"b":true,"n":null}'
    )
    (change,) = changes(row(data))
    types = {column.name: column.type.base for column in change.schema.columns}
    assert types == {
        "i": "bigint", "u": "bigint", "big": "decimal", "d": "decimal", "f": "double", "t": "varchar",
        "s": "varchar", "j": "json", "l": "json", "b": "json", "n": "varchar",
    }  # fmt: skip
    assert image(change) == {
        "i": 1, "u": 2**64 - 1, "big": Decimal(99999999999999999999), "d": Decimal("12.3400"), "f": 1e10,
        "t": "x", "s": "a,b", "j": '{"k":1.10}', "l": "[1,2]", "b": "true", "n": None,
    }  # fmt: skip
    (message,) = written(MAXWELL, row(data))
    assert message.partition('"data":')[2][:-1] == data


@CASES.covers("M35")
def test_a_value_that_contradicts_the_definition_is_guessed() -> None:
    events, counted = read(TABLE, row('{"id":1,"a":[1]}'))
    assert isinstance(events[1], RowChange)
    assert (image(events[1]), events[1].schema.complete) == ({"id": 1, "a": "[1]"}, False)
    assert counted == {"schema-inferred": 1, "value-inferred": 1}


# ---------------------------------------------------------------- keys


@CASES.covers("M36")
def test_the_key_tells_the_primary_key_whatever_its_case() -> None:
    insert = row('{"a":2,"userId":1}')
    key = {"database": "d", "table": "t", "pk.userid": 1}
    (change,) = changes(ConsumerRecord("maxwell", 0, 1, 0, json.dumps(key).encode(), insert.value))
    assert change.schema.primary_key == ("userId",)


@CASES.covers("M37")
@pytest.mark.parametrize(
    ("key", "expected"),
    [
        (["d", "t", [{"id": 1}, {"a": "x"}]], ("id", "a")),
        (["d", "t", []], ()),
        ({"database": "d", "table": "t", "_uuid": "x"}, ()),
        (["d", "t", [{"gone": 1}]], None),
        ({"id": 1}, None),
        ("no key", None),
        (None, None),
    ],
)
def test_keys_of_other_forms(key: Any, expected: tuple[str, ...] | None) -> None:
    message = row('{"id":1,"a":"x"}')
    text = None if key is None else json.dumps(key).encode()
    (change,) = changes(ConsumerRecord("maxwell", 0, 1, 0, text, message.value))
    assert change.schema.primary_key == expected


@CASES.covers("M37")
@pytest.mark.parametrize(
    ("primary_key", "key_format", "expected"),
    [
        ("Id, a", "hash", '{"database":"d","table":"t","pk.id":1,"pk.a":"x"}'),
        ("a, Id", "array", '["d","t",[{"a":"x"},{"id":1}]]'),
        ("", "array", '["d","t",[]]'),
    ],
)
def test_written_keys(primary_key: str, key_format: str, expected: str) -> None:
    key = f", PRIMARY KEY ({primary_key})" if primary_key else ""
    translator = Translator(MAXWELL, MAXWELL, {}, {"kafka_key_format": key_format})
    create = ddl(f"CREATE TABLE t (Id INT, a VARCHAR(9){key})")
    (out,) = translated_records(translator, [create, row('{"Id":1,"a":"x"}')])
    assert (out.key or b"").decode() == expected


@CASES.covers("M37", "M38")
def test_random_keys_come_from_the_place_of_the_record() -> None:
    def keys(offset: int) -> list[bytes | None]:
        translator = Translator(MAXWELL, MAXWELL, {}, {"output_ddl": "true"})
        create = ddl("CREATE TABLE t (a INT)", key=None) if offset < 0 else ddl("CREATE TABLE t (a INT)")
        return [out.key for out in translated_records(translator, [create, row('{"a":1}', offset=offset)])]

    assert keys(1) == keys(1) != keys(2)
    assert len(set(keys(1))) == 2
    assert b'"_uuid":"' in (keys(1)[1] or b"")
    (change,), _ = read(
        ConsumerRecord("maxwell", 0, 0, 0, b"87f12e44-515e-4e8a-b66d-c2a40296c940", TABLE.value)
    )
    assert isinstance(change, SchemaChange)


# ---------------------------------------------------------------- DDL


@CASES.covers("M39")
def test_times_have_three_units() -> None:
    statements = [ddl("CREATE TABLE t (a INT)", ts=ts) for ts in (1_700_000_001_000, 1_700_000_001_000 << 18)]
    events, _ = read(statements[0], row('{"a":1}'))
    (ticdc,), _ = read(statements[1])
    assert {event.source.event_time_ns for event in (*events, ticdc)} == {1_700_000_001_000_000_000}


def definition(table: str, *columns: dict[str, Any]) -> dict[str, Any]:
    return {
        "database": "d",
        "charset": "utf8mb4",
        "table": table,
        "columns": list(columns),
        "primary-key": [],
    }


A_COLUMN = {"type": "int", "name": "a", "signed": True}


@CASES.covers("M40")
def test_a_rename_is_of_the_old_name() -> None:
    rename = ddl(
        "RENAME TABLE t TO u",
        1,
        "table-alter",
        old=definition("t", A_COLUMN),
        declared=definition("u", A_COLUMN),
    )
    (_, change), _ = read(ddl("CREATE TABLE t (a INT)"), rename)
    assert isinstance(change, SchemaChange)
    assert change.renamed == (RenamedTable(TableId("d", "t"), TableId("d", "u")),)
    messages = written(MAXWELL, ddl("CREATE TABLE t (a INT)"), rename, output_ddl="true")
    found = json.loads(messages[1])
    assert (found["table"], found["old"]["table"], found["def"]["table"]) == ("t", "t", "u")


@CASES.covers("M41")
def test_a_statement_about_two_tables_is_one_for_each() -> None:
    translator = Translator(MAXWELL, MAXWELL, {}, {"output_ddl": "true"})
    statements = [
        event
        for each in captured("mysql/maxwell.full/10_ddl")
        for event in translator.inspect(each)
        if isinstance(event, SchemaChange) and "tmp_" in event.ddl
    ]
    assert [change.ddl for change in statements] == [
        "CREATE TABLE tmp_a (id INT NOT NULL PRIMARY KEY, v INT)",
        "CREATE TABLE tmp_b (id INT NOT NULL PRIMARY KEY, v INT)",
        "RENAME TABLE `ddl_db`.`tmp_a` TO `ddl_db`.`tmp_x`",
        "RENAME TABLE `ddl_db`.`tmp_b` TO `ddl_db`.`tmp_a`",
        "DROP TABLE `ddl_db`.`tmp_a`",
        "DROP TABLE `ddl_db`.`tmp_x`",
    ]
    assert [change.table.table for change in statements] == [
        "tmp_a",
        "tmp_b",
        "tmp_x",
        "tmp_a",
        "tmp_a",
        "tmp_x",
    ]


@CASES.covers("M42")
def test_the_definition_counts_where_the_text_is_not_understood() -> None:
    declared = definition("t", A_COLUMN, {"type": "enum", "name": "e", "enum-values": ["x", "it''s"]})
    strange = ddl("CREATE STRANGE TABLE", declared=declared)
    events, counted = read(strange, row('{"a":1,"e":"it\'\'s"}'))
    assert isinstance(events[1], RowChange)
    assert (image(events[1]), counted) == ({"a": 1, "e": 2}, {"ddl-not-understood": 1})
    contradicted = ddl("CREATE TABLE t (a INT, e VARCHAR(9))", declared=declared)
    (change,) = changes(contradicted, row('{"a":1,"e":"x"}'))
    assert image(change) == {"a": 1, "e": 1}
    twice = ddl("CREATE TABLE t (a INT)", declared=definition("t", A_COLUMN, A_COLUMN))
    for wrong in (
        twice,
        ddl("x", declared=definition("t", {"type": "", "name": "a"})),
        ddl("x", declared=3),
    ):
        with pytest.raises(Malformed, match="def"):
            read(wrong)


@CASES.covers("M43")
def test_statements_about_databases() -> None:
    made = ddl("CREATE DATABASE d CHARACTER SET latin1", 0, "database-create", charset="latin1")
    gone = ddl("DROP DATABASE d", 2, "database-drop")
    events, _ = read(made, ddl("CREATE TABLE t (a INT)", 1), gone)
    kinds = [event.kinds for event in events if isinstance(event, SchemaChange)]
    assert kinds == [(DdlKind.CREATE_DATABASE,), (DdlKind.CREATE_TABLE,), (DdlKind.DROP_DATABASE,)]
    texts = [json.loads(text) for text in written(MAXWELL, made, gone, output_ddl="true")]
    assert [(each["type"], each.get("charset")) for each in texts] == [
        ("database-create", "latin1"),
        ("database-drop", None),
    ]


@CASES.covers("M44")
@pytest.mark.parametrize("sql", ["TRUNCATE TABLE t", "CREATE VIEW v AS SELECT 1", "DROP VIEW v"])
def test_a_statement_without_a_message_is_counted(sql: str) -> None:
    message = {"database": "d", "table": "t", "isDdl": True, "type": "QUERY", "es": 1, "ts": 1, "sql": sql}
    translator = Translator("canal-json", MAXWELL, {}, {"output_ddl": "true"})
    loss = "truncate-or-drop" if sql.startswith("TRUNCATE") else "ddl"
    assert (translator.translate(record(message)), translator.losses) == ([], {loss: 1})


@CASES.covers("M45")
def test_ddl_in_a_topic_of_its_own() -> None:
    topics = BUILT_IN[MAXWELL].ddl_topics
    assert topics(["rows", "ddl"], {"ddl_kafka_topic": "ddl"}) == {"rows": "ddl", "ddl": "ddl"}
    assert topics(["rows", "ddl"], {}) == {"rows": "rows", "ddl": "ddl"}
    assert topics(["rows"], {"ddl_kafka_topic": "ddl"}) == {"rows": "rows"}
    create = ConsumerRecord("ddl", 0, 7, 0, None, TABLE.value)
    (change,) = changes(create, row('{"id":1,"a":"x"}'))
    assert change.schema.complete


def test_every_number_is_a_case_or_a_decision() -> None:
    CASES.check()
