"""Messages of producers that look like Canal: Tencent and Alibaba DTS, CloudCanal, DRS, Flink, SeaTunnel,
Flink CDC.

They follow the producers' documents and the encoders of the open ones; none was captured.
"""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Any

import pytest
from support import CANAL, TICDC, events, named_refusal, record, row_message, translate

from relay import ConsumerRecord, Loss, Malformed, Op, RowChange, TableId, Translator
from relay.model.events import Snapshot

ARRIVED = 1700000001000


def change(
    message: dict[str, Any] | str, protocol: str = CANAL, options: dict[str, str] | None = None
) -> RowChange:
    (event,) = events(protocol, [record(message, offset=3, timestamp_ms=ARRIVED)], options)
    assert isinstance(event, RowChange)
    return event


def names(found: RowChange) -> dict[str, Any]:
    assert found.after is not None
    return dict(zip((column.name for column in found.schema.columns), found.after, strict=True))


# ---------------------------------------------------------------- Tencent DTS

DTS: dict[str, Any] = {
    "data": [{"id": "1", "v": "0500FF", "p": "61", "g": "", "t": "2021-05-17 07:22:42 +00:00", "d": "1.50", "n": None}],
    "database": "d", "es": 1621236162000, "gtid": "c7c98333-6006-11ed-bfc9-b8cef6e1a231:9", "id": 184467440737095516,
    "isDdl": False,
    "mysqlType": {"id": "int", "v": "varbinary", "p": "binary", "g": "blob", "t": "timestamp", "d": "decimal", "n": "blob"},
    "old": None, "pkNames": ["id"], "sql": "", "sqlType": None, "table": "t", "ts": 1621236162619, "type": "INSERT",
}  # fmt: skip
HEX = {"hex-binary": "true"}


@pytest.mark.parametrize("sql_type", [None, {}, "", []])
def test_tencent_dts_has_hex_offsets_and_no_type_numbers(sql_type: Any) -> None:
    found = change(DTS | {"sqlType": sql_type}, options=HEX)
    assert names(found) == {
        "id": 1, "v": b"\x05\0\xff", "p": b"a", "g": b"", "t": "2021-05-17 07:22:42", "d": Decimal("1.50"), "n": None,
    }  # fmt: skip
    assert found.source.gtid == DTS["gtid"]
    assert found.source.event_time_ns == 1621236162 * 10**9


@pytest.mark.parametrize("target", [CANAL, TICDC])
def test_hex_of_tencent_dts_becomes_binary_text(target: str) -> None:
    update = DTS | {"type": "UPDATE", "old": [{"v": "0x7A"}]}
    (out,) = translate(CANAL, target, [record(update)], HEX)
    assert out["data"][0] == DTS["data"][0] | {"v": "\x05\0\xff", "p": "a", "t": "2021-05-17 07:22:42"}
    assert out["old"][0]["v"] == "z"
    assert out["sqlType"] == {"id": 4, "v": 2004, "p": 2004, "g": 2004, "t": 93, "d": 3, "n": 2004}


def test_hex_is_padded_like_any_binary() -> None:
    full = DTS | {"mysqlType": DTS["mysqlType"] | {"p": "binary(3)"}}
    assert names(change(full, options=HEX))["p"] == b"a\0\0"
    assert translate(CANAL, TICDC, [record(full)], HEX)[0]["data"][0]["p"] == "a\0\0"
    assert translate(CANAL, CANAL, [record(full)], HEX)[0]["data"][0]["p"] == "a"


def test_hex_may_begin_with_0x() -> None:
    for text, data in (("0x05ff", b"\x05\xff"), ("0X05", b"\x05"), ("0x", b"")):
        assert change(row_message({"c": "varbinary"}, {"c": text}), options=HEX).after == (data,)


@pytest.mark.parametrize("text", ["5", "xy", "0y05", "０５", "05 00"])
def test_what_is_no_hex_is_malformed_when_hex_is_expected(text: str) -> None:
    message = row_message({"c": "varbinary"}, {"c": text})
    for read in (
        lambda: change(message, options=HEX).after,
        lambda: translate(CANAL, TICDC, [record(message)], HEX),
    ):
        with pytest.raises(Malformed) as raised:
            read()
        assert raised.value.path == "data[0].c"


def counted(message: dict[str, Any] | str, protocol: str = CANAL, target: str = CANAL) -> dict[str, int]:
    translator = Translator(protocol, target)
    translator.translate(record(message))
    return {str(what): count for what, count in translator.losses.items()}


def test_an_offset_behind_a_timestamp_proves_hex() -> None:
    assert names(change(DTS))["v"] == b"\x05\0\xff"
    assert "value-inferred" not in counted(DTS)


def test_without_a_proof_hex_is_taken_for_canals_binary_text_and_counted() -> None:
    message = DTS | {"data": [{"id": "1", "v": "0500FF"}, {"id": "2", "v": "00"}]}
    first, _ = events(CANAL, [record(message)])
    assert isinstance(first, RowChange)
    assert names(first)["v"] == b"0500FF"
    assert counted(message)["value-inferred"] == 2
    assert "value-inferred" not in counted(message | {"sqlType": {"id": 4, "v": 2004}})
    assert "value-inferred" not in counted(DTS | {"data": [{"id": "1"}], "mysqlType": {"id": "int"}})


def test_rows_with_and_without_a_proof_are_read_each_in_its_way() -> None:
    plain = DTS | {"data": [{"id": "1", "v": "61"}], "sqlType": {"id": 4, "v": 2004}}
    found = events(CANAL, [record(DTS), record(plain, offset=4), record(DTS, offset=5)])
    values = [names(each)["v"] for each in found if isinstance(each, RowChange)]
    assert values == [b"\x05\0\xff", b"61", b"\x05\0\xff"]


def test_tencent_dts_that_is_compatible_writes_as_canal_does() -> None:
    message = DTS | {"data": [{"v": "\x05\0\xff", "t": "2021-05-17 15:22:42"}], "sqlType": {}}
    found = names(change(message, options={"timezone": "Asia/Shanghai"}))
    assert found == {"v": b"\x05\0\xff", "t": "2021-05-17 07:22:42"}


@pytest.mark.parametrize("word", ["INIT", "INIT_INSERT", "ROW", "READ"])
def test_rows_of_the_first_load_are_rows_of_a_snapshot(word: str) -> None:
    found = change(DTS | {"type": word})
    assert (found.op, found.source.snapshot, found.before) == (Op.READ, Snapshot.TRUE, None)
    assert translate(CANAL, CANAL, [record(DTS | {"type": word})])[0]["type"] == "INSERT"


# ---------------------------------------------------------------- Alibaba DTS, CloudCanal, DRS


@pytest.mark.parametrize("protocol", [CANAL, TICDC])
def test_members_that_canal_does_not_have_are_passed_over(protocol: str) -> None:
    found = change(
        row_message({"id": "int"}, {"id": "1"}, serverId="33", logfileOffset=5, extra={"a": [1]}), protocol
    )
    assert found.after == (1,)


@pytest.mark.parametrize("protocol", [CANAL, TICDC])
def test_native_values_are_read_by_their_digits(protocol: str) -> None:
    text = (
        '{"data":[{"id":12345678901234567890,"v":5.3,"p":0.10,"e":1E400,"b":true,"z":false,"j":{"k":[1.50,null]},"n":null}],'
        '"database":"d","table":"t","type":"INSERT","isDdl":false,"es":1700000000000,"ts":1700000000001,"pkNames":["id"],'
        '"mysqlType":{"id":"bigint unsigned","v":"double","p":"decimal(3,2)","e":"varchar(9)","b":"tinyint(1)","z":"tinyint(1)",'
        '"j":"json","n":"int"}}'
    )
    assert names(change(text, protocol)) == {
        "id": 12345678901234567890, "v": 5.3, "p": Decimal("0.10"), "e": "1E400", "b": 1, "z": 0,
        "j": '{"k":[1.50,null]}', "n": None,
    }  # fmt: skip


# ---------------------------------------------------------------- Flink and SeaTunnel


@pytest.mark.parametrize(
    "text",
    [
        '{"data":[{"id":101,"name":"scooter","weight":3.140,"sold":true}],"type":"%s"}',
        '{"data":{"id":101,"name":"scooter","weight":3.140,"sold":true},"type":"%s"}',
    ],
    ids=["Flink", "SeaTunnel"],
)
def test_sinks_that_write_two_members_have_no_time_and_need_a_table(text: str) -> None:
    options = {"table": "shop.items"}
    insert, delete = change(text % "INSERT", options=options), change(text % "DELETE", options=options)
    row = ("101", "scooter", "3.140", "1")
    assert (insert.op, insert.after, delete.op, delete.before) == (Op.INSERT, row, Op.DELETE, row)
    assert insert.table == TableId("shop", "items")
    assert insert.source.event_time_ns == insert.emitted_at_ns == ARRIVED * 10**6
    assert insert.schema.primary_key is None
    translator = Translator(CANAL, TICDC, options)
    assert translator.translate(record(text % "INSERT"))
    assert translator.losses[Loss.SCHEMA_INFERRED] == 1


@pytest.mark.parametrize("protocol", [CANAL, TICDC, "ckafka-json"])
@pytest.mark.parametrize("name", [{}, {"table": None}, {"table": ""}, {"database": "d"}])
def test_rows_without_a_table_are_refused(protocol: str, name: dict[str, Any]) -> None:
    message = {"data": [{"id": "101"}], "type": "INSERT", "isDdl": False} | name
    with pytest.raises(Malformed, match="without the name of its table"):
        change(message, protocol)


def test_a_name_in_the_message_goes_before_the_option() -> None:
    message = row_message({"a": "int"}, {"a": "1"})
    assert change(message, options={"table": "x.y"}).table == change(message).table


def test_flink_cdc_writes_the_whole_old_row_labels_and_native_numbers() -> None:
    update = (
        '{"old":[{"id":1,"name":"a","rank":"low","w":1.50}],"data":[{"id":1,"name":"b","rank":"high","w":1.50}],"type":"UPDATE",'
        '"database":"d","table":"t","pkNames":["id"]}'
    )
    sql = "CREATE TABLE t (id INT PRIMARY KEY, name VARCHAR(9), `rank` ENUM('low','high'), w DECIMAL(9,2))"
    create = {"isDdl": True, "type": "CREATE", "database": "d", "table": "t", "es": 1, "ts": 2, "sql": sql}
    messages = [record(create, timestamp_ms=ARRIVED), record(update, offset=1, timestamp_ms=ARRIVED)]
    _, found = events(CANAL, messages)
    assert isinstance(found, RowChange)
    assert (found.before, found.after) == ((1, "a", 1, Decimal("1.50")), (1, "b", 2, Decimal("1.50")))
    assert found.source.event_time_ns == ARRIVED * 10**6
    _, out = translate(CANAL, CANAL, messages)
    assert (out["old"], out["data"]) == (
        [{"name": "a", "rank": "1"}],
        [{"id": "1", "name": "b", "rank": "2", "w": "1.50"}],
    )


@pytest.mark.parametrize("data", [None, []])
def test_flink_cdc_until_2024_has_the_deleted_row_in_old(data: Any) -> None:
    message = {
        "old": [{"id": 1, "name": "a"}], "data": data, "type": "DELETE", "database": "d", "table": "t",
        "pkNames": ["id"],
    }  # fmt: skip
    found = change(message)
    assert (found.op, found.before, found.after) == (Op.DELETE, ("1", "a"), None)
    (out,) = translate(CANAL, CANAL, [record(message)])
    assert (out["type"], out["data"], out["old"]) == ("DELETE", [{"id": "1", "name": "a"}], None)


@pytest.mark.parametrize("old", [{"a": "0"}, [{"a": "0"}]], ids=["object", "array"])
def test_one_old_row_may_be_an_object(old: Any) -> None:
    message = row_message({"id": "int", "a": "int"}, op="UPDATE", old=old) | {"data": {"id": "1", "a": "5"}}
    assert change(message).before == (1, 0)


# ---------------------------------------------------------------- Huawei DRS

DRS = {
    "mysqlType": {"c11": "binary", "c12": "varbinary", "c14": "blob", "c4": "datetime", "c5": "timestamp", "id": "int"},
    "id": 27677, "es": 1624614713000, "ts": 1625058726990, "database": "d", "table": "t", "type": "INSERT",
    "isDdl": False, "sql": "",
    "sqlType": {"c11": -2, "c12": -3, "c14": 2004, "c4": 94, "c5": 93, "id": 4},
    "data": [
        {"c11": "[]", "c12": "[106, 103, -1]", "c14": "[0,1]", "c4": "2021-06-25 17:51:53", "c5": "1624614713.201", "id": "1"}
    ],
    "old": None, "pkNames": ["id"],
}  # fmt: skip


def test_huawei_drs_prints_bytes_as_java_does_and_counts_seconds() -> None:
    assert names(change(DRS)) == {
        "c11": b"", "c12": b"jg\xff", "c14": b"\0\x01", "c4": "2021-06-25 17:51:53", "c5": "2021-06-25 09:51:53.201",
        "id": 1,
    }  # fmt: skip
    for target in (CANAL, TICDC):
        (out,) = translate(CANAL, target, [record(DRS)])
        assert (out["data"][0]["c12"], out["data"][0]["c14"]) == ("jg\xff", "\0\x01")
        assert out["data"][0]["c5"] == "2021-06-25 09:51:53.201"


def test_huawei_drs_has_the_deleted_row_in_old() -> None:
    delete = DRS | {"type": "DELETE", "data": None, "old": DRS["data"]}
    found = change(delete)
    assert (found.op, found.before) == (Op.DELETE, change(DRS).after)


def test_statements_of_the_first_load_of_huawei_drs() -> None:
    message = {
        "type": "INIT_DDL",
        "isDdl": True,
        "database": "d",
        "table": "t",
        "sql": "CREATE TABLE t (a INT)",
    }
    (out,) = translate(CANAL, CANAL, [record(message)])
    assert out["type"] == "CREATE"


@pytest.mark.parametrize("text", ["jg", "[1", "1]", "[a]", "[,]"])
def test_what_are_no_bytes_of_huawei_drs_is_malformed(text: str) -> None:
    with pytest.raises(Malformed):
        names(change(DRS | {"data": [{"c12": text}]}))


def test_rows_of_huawei_drs_leave_others_as_they_are() -> None:
    canal = DRS | {"sqlType": {"c12": 2004}, "data": [{"c12": "[1]"}]}
    found = events(CANAL, [record(DRS | {"data": [{"c12": "[1]"}]}), record(canal, offset=4)])
    values = [names(each)["c12"] for each in found if isinstance(each, RowChange)]
    assert values == [b"\x01", b"[1]"]


# ---------------------------------------------------------------- InLong


def test_inlong_has_the_old_row_beside_old_and_no_event_time_in_a_snapshot() -> None:
    message = row_message({"id": "int", "a": "varchar(9)"}, {"id": "1", "a": "y"}, op="UPDATE", es=0, ts=6000)
    message |= {"updateBefore": [{"id": 1, "a": "x"}], "opType": "UPDATE", "batchId": 3}
    del message["old"]
    found = change(message)
    assert (found.before, found.after) == ((1, "x"), (1, "y"))
    assert found.source.event_time_ns == 6000 * 10**6
    assert found.source.unknown_fields == {"opType": "UPDATE", "batchId": 3}
    assert counted(message) == {"unknown-fields": 1, "schema-inferred": 1, "event-time": 1}


# ---------------------------------------------------------------- other formats

SIMPLE = {
    "version": 1, "database": "d", "table": "t", "tableID": 148, "type": "INSERT", "commitTs": 447984084414103554,
    "buildTs": 1708923662983, "schemaVersion": 447984074911121426, "data": {"id": "1"}, "old": None,
}  # fmt: skip
OTHERS = [
    (SIMPLE, "TiCDC Simple"),
    (SIMPLE | {"type": "WATERMARK", "data": None}, "TiCDC Simple"),
    ({name: value for name, value in SIMPLE.items() if name != "buildTs"}, "TiCDC Simple"),
    (
        {"database": "d", "table": "t", "type": "insert", "ts": 1449786310, "xid": 940752, "data": {"id": 1}},
        "Maxwell",
    ),
    ({"type": "table-create", "database": "d", "table": "t", "def": {}, "ts": 1, "sql": "CREATE"}, "Maxwell"),
    ({"payload": {"op": "c", "after": {}}, "schema": {}}, "Debezium's envelope without a connector"),
    ({"before": None, "after": {"id": 1}, "source": {}, "op": "c", "ts_ms": 1}, "Debezium"),
    ({"schema": {"dataColumn": []}, "payload": {"op": "INSERT"}, "version": "0.0.1"}, "DataWorks"),
    ({"action": "INSERT", "bid": 0, "dbValType": {}, "data": [], "before": []}, "CloudCanal"),
    ({"prevStruct": None, "postStruct": {"id": 1}, "allMetaData": {}}, "OMS"),
    ({"domain": 0, "server_id": 3, "sequence": 20, "event_type": "insert", "id": 1}, "MaxScale"),
]


@pytest.mark.parametrize("protocol", [CANAL, TICDC, "ckafka-json", "ticdc-debezium", "ticdc-open-protocol"])
@pytest.mark.parametrize(("message", "title"), OTHERS)
def test_messages_of_another_format_are_refused_by_its_name(
    protocol: str, message: dict[str, Any], title: str
) -> None:
    assert re.search(f"this looks like .*{title}", named_refusal(protocol, record(message)))


@pytest.mark.parametrize("protocol", ["ticdc-debezium", "ticdc-open-protocol"])
def test_canal_is_named_where_another_protocol_is_read(protocol: str) -> None:
    message = row_message({"a": "int"}, {"a": "1"})
    refusal = named_refusal(protocol, record(message))
    assert re.search(r"Canal-JSON .*: is the source protocol .*canal-json", refusal)


@pytest.mark.parametrize("protocol", [CANAL, TICDC, "ckafka-json", "ticdc-debezium", "ticdc-open-protocol"])
def test_avro_is_named(protocol: str) -> None:
    avro = ConsumerRecord("t", 0, 0, ARRIVED, b"\0\0\0\0\x01\x02a", b"\0\0\0\0\x07\x02\x06abc")
    assert "looks like Avro" in named_refusal(protocol, avro)


@pytest.mark.parametrize("protocol", [CANAL, TICDC, "ckafka-json", "ticdc-debezium"])
def test_open_protocol_is_named(protocol: str) -> None:
    value = (15).to_bytes(8) + b'{"u":{"a":null}'
    refusal = named_refusal(protocol, ConsumerRecord("t", 0, 0, ARRIVED, (1).to_bytes(8), value))
    assert "Open Protocol" in refusal


# ---------------------------------------------------------------- unknown members


@pytest.mark.parametrize("protocol", [CANAL, TICDC, "ckafka-json"])
@pytest.mark.parametrize("value", [1, "33", None, {"a": [1]}, 1.5])
@pytest.mark.parametrize("cell", ["1", 1])
def test_unknown_members_are_counted(protocol: str, value: Any, cell: Any) -> None:
    message = row_message({"id": "int"}, {"id": cell}, serverId=value, traceId="x")
    assert counted(message, protocol)["unknown-fields"] == 1
    assert "unknown-fields" not in counted(row_message({"id": "int"}, {"id": cell}), protocol)


@pytest.mark.parametrize("protocol", [CANAL, TICDC, "ckafka-json"])
def test_unknown_members_of_a_statement_are_counted(protocol: str) -> None:
    message = {
        "type": "ERASE",
        "isDdl": True,
        "database": "d",
        "table": "t",
        "sql": "DROP TABLE t",
        "canalId": 4,
    }
    assert counted(message, protocol)["unknown-fields"] == 1


def test_a_gtid_in_a_message_of_ticdc_is_kept() -> None:
    message = row_message({"id": "int"}, {"id": "1"}, gtid="a:1")
    assert translate(TICDC, CANAL, [record(message)])[0]["gtid"] == "a:1"


# ---------------------------------------------------------------- members that are missing


@pytest.mark.parametrize("protocol", [CANAL, TICDC])
@pytest.mark.parametrize("ts", [0, None])
def test_a_record_without_a_timestamp_has_the_time_of_its_row(protocol: str, ts: int | None) -> None:
    message = row_message({"a": "int"}, {"a": "1"}, es=5000, ts=ts)
    (event,) = events(protocol, [record(message, timestamp_ms=-1)])
    assert isinstance(event, RowChange)
    assert (event.source.event_time_ns, event.emitted_at_ns) == (5000 * 10**6, 5000 * 10**6)
    del message["es"]
    (event,) = events(protocol, [record(message, timestamp_ms=-1)])
    assert isinstance(event, RowChange)
    assert event.source.event_time_ns == event.emitted_at_ns == 0


@pytest.mark.parametrize(
    ("es", "ts", "event_time", "emitted_at"),
    [
        (5000, 6000, 5000, 6000),
        (None, 6000, 6000, 6000),
        (5000, None, 5000, ARRIVED),
        (None, None, ARRIVED, ARRIVED),
    ],
)
def test_missing_times(es: int | None, ts: int | None, event_time: int, emitted_at: int) -> None:
    message = row_message({"a": "int"}, {"a": "1"}, es=es, ts=ts)
    for sent in (message, {name: value for name, value in message.items() if value is not None}):
        found = change(sent)
        assert (found.source.event_time_ns, found.emitted_at_ns) == (event_time * 10**6, emitted_at * 10**6)


def test_a_missing_flag_is_false_unless_there_is_a_statement_and_no_row() -> None:
    message = row_message({"a": "int"}, {"a": "1"}, sql="INSERT INTO t VALUES (1)")
    del message["isDdl"]
    assert change(message).after == (1,)
    (out,) = translate(
        CANAL,
        CANAL,
        [record({"type": "ALTER", "database": "d", "table": "t", "sql": "ALTER TABLE t ADD b INT"})],
    )
    assert (out["isDdl"], out["type"]) == (True, "ALTER")
