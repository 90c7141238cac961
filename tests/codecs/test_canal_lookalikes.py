"""Messages of producers that look like Canal: Tencent and Alibaba DTS, CloudCanal, DRS, Flink, SeaTunnel,
Flink CDC.

They follow the producers' documents and the encoders of the open ones; none was captured.
"""

from __future__ import annotations

from decimal import Decimal
from typing import Any

import pytest
from support import CANAL, TICDC, events, record, row_message, translate

from relay import Malformed, Op, RowChange, TableId, Translator
from relay.model import Snapshot

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

DTS = {
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
    assert out["data"][0] == DTS["data"][0] | {"v": "\x05\0\xff", "p": "a", "t": "2021-05-17 07:22:42"}  # type: ignore[index]
    assert out["old"][0]["v"] == "z"
    assert out["sqlType"] == {"id": 4, "v": 2004, "p": 2004, "g": 2004, "t": 93, "d": 3, "n": 2004}


def test_hex_is_padded_like_any_binary() -> None:
    full = DTS | {"mysqlType": DTS["mysqlType"] | {"p": "binary(3)"}}  # type: ignore[operator]
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


def test_without_the_option_hex_is_taken_for_canals_binary_text() -> None:
    assert names(change(DTS))["v"] == b"0500FF"


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
def test_sinks_that_write_two_members_have_no_table_and_no_time(text: str) -> None:
    insert, delete = change(text % "INSERT"), change(text % "DELETE")
    row = ("101", "scooter", "3.140", "1")
    assert (insert.op, insert.after, delete.op, delete.before) == (Op.INSERT, row, Op.DELETE, row)
    assert insert.table == TableId("", "")
    assert insert.source.event_time_ns == insert.emitted_at_ns == ARRIVED * 10**6
    assert insert.schema.primary_key is None
    translator = Translator(CANAL, TICDC)
    assert translator.translate(record(text % "INSERT"))
    assert translator.lossy["schema-guessed"] == 1  # type: ignore[index]


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


@pytest.mark.parametrize("old", [{"a": "0"}, [{"a": "0"}]], ids=["object", "array"])
def test_one_old_row_may_be_an_object(old: Any) -> None:
    message = row_message({"id": "int", "a": "int"}, op="UPDATE", old=old) | {"data": {"id": "1", "a": "5"}}
    assert change(message).before == (1, 0)


# ---------------------------------------------------------------- members that are missing


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
