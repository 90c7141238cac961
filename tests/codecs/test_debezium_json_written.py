"""Debezium JSON, written: whole messages as Debezium's MySQL connector 3.6 sends them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from native_support import BARE, CAUSE, NAME, encoded

from relay import (
    ABSENT,
    Column,
    ColumnType,
    ConsumerRecord,
    Loss,
    NotRepresentable,
    Op,
    RowChange,
    Translator,
)
from relay.model.events import (
    Generated,
    Heartbeat,
    Rows,
    Snapshot,
    Source,
    TableId,
    TableSchema,
    Transaction,
    TransactionMark,
    UniqueKey,
    Watermark,
)

GTID = "3f2a9c1e-6d0b-11ef-9f4e-0242ac110002:42"
#: The position in a connector's own messages.
BINLOG = Source(
    "mysql",
    1768443650000123456,
    gtid=GTID,
    binlog_file="binlog.000007",
    binlog_position=8100,
    binlog_row=3,
    server_id=223344,
    thread_id=17,
)
TIDB = Source("ticdc", 1768443650000 * 10**6, commit_ts=463586886942720001)
EMITTED_NS = 1768443650300005123

KV = TableSchema(
    TableId("shop", "kv"),
    (
        Column("id", ColumnType("int"), nullable=False),
        Column("v", ColumnType("varchar", length=9), nullable=True),
    ),
    primary_key=("id",),
)


def change(
    before: Any, after: Any, schema: TableSchema = KV, source: Source = BINLOG, **more: Any
) -> RowChange:
    op = Op.UPDATE if before and after else Op.INSERT if after else Op.DELETE
    return RowChange(more.pop("op", op), schema, Rows(before, after), source, EMITTED_NS, **more)


def shown(part: bytes | None) -> Any:
    return None if part is None else json.loads(part)


SOURCE_TEXT = (
    '{"version":"3.6.1.Final","connector":"mysql","name":"mysql-prod","ts_ms":1768443650000,'
    '"snapshot":"false","db":"shop","sequence":null,"ts_us":1768443650000123,"ts_ns":1768443650000123456,'
    '"table":"kv","server_id":223344,"gtid":"3f2a9c1e-6d0b-11ef-9f4e-0242ac110002:42",'
    '"file":"binlog.000007","pos":8100,"row":3,"thread":17,"query":null}'
)
TIMES_TEXT = '"ts_ms":1768443650300,"ts_us":1768443650300005,"ts_ns":1768443650300005123'
COLUMNS_TEXT = (
    '[{"type":"int32","optional":false,"field":"id"},{"type":"string","optional":true,"field":"v"}]'
)
SOURCE_SCHEMA_TEXT = (
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"version"},'
    '{"type":"string","optional":false,"field":"connector"},{"type":"string","optional":false,"field":"name"},'
    '{"type":"int64","optional":false,"field":"ts_ms"},{"type":"string","optional":true,'
    '"name":"io.debezium.data.Enum","version":1,"parameters":{"allowed":'
    '"true,first,first_in_data_collection,last_in_data_collection,last,false,incremental"},'
    '"default":"false","field":"snapshot"},{"type":"string","optional":false,"field":"db"},'
    '{"type":"string","optional":true,"field":"sequence"},{"type":"int64","optional":true,"field":"ts_us"},'
    '{"type":"int64","optional":true,"field":"ts_ns"},{"type":"string","optional":true,"field":"table"},'
    '{"type":"int64","optional":false,"field":"server_id"},{"type":"string","optional":true,"field":"gtid"},'
    '{"type":"string","optional":false,"field":"file"},{"type":"int64","optional":false,"field":"pos"},'
    '{"type":"int32","optional":false,"field":"row"},{"type":"int64","optional":true,"field":"thread"},'
    '{"type":"string","optional":true,"field":"query"}],"optional":false,'
    '"name":"io.debezium.connector.mysql.Source","version":1,"field":"source"}'
)
VALUE_SCHEMA_TEXT = (
    '{"type":"struct","fields":[{"type":"struct","fields":' + COLUMNS_TEXT + ',"optional":true,'
    '"name":"mysql-prod.shop.kv.Value","field":"before"},{"type":"struct","fields":' + COLUMNS_TEXT + ","
    '"optional":true,"name":"mysql-prod.shop.kv.Value","field":"after"},' + SOURCE_SCHEMA_TEXT + ","
    '{"type":"struct","fields":[{"type":"string","optional":false,"field":"id"},'
    '{"type":"int64","optional":false,"field":"total_order"},'
    '{"type":"int64","optional":false,"field":"data_collection_order"}],"optional":true,'
    '"name":"event.block","version":1,"field":"transaction"},'
    '{"type":"string","optional":false,"field":"op"},{"type":"int64","optional":true,"field":"ts_ms"},'
    '{"type":"int64","optional":true,"field":"ts_us"},{"type":"int64","optional":true,"field":"ts_ns"}],'
    '"optional":false,"name":"mysql-prod.shop.kv.Envelope","version":2}'
)


def test_a_row_with_schemas_is_what_the_connector_prints() -> None:
    (payload,), losses = encoded(change(None, (1, "x")), options={"topic.prefix": "mysql-prod"})
    assert (payload.key or b"").decode() == (
        '{"schema":{"type":"struct","fields":[{"type":"int32","optional":false,"field":"id"}],'
        '"optional":false,"name":"mysql-prod.shop.kv.Key"},"payload":{"id":1}}'
    )
    assert (payload.value or b"").decode() == (
        '{"schema":' + VALUE_SCHEMA_TEXT + ',"payload":{"before":null,"after":{"id":1,"v":"x"},"source":'
        "" + SOURCE_TEXT + ',"transaction":null,"op":"c",' + TIMES_TEXT + "}}"
    )
    assert payload.headers == ()
    assert losses == []


@pytest.mark.parametrize(
    ("one", "images", "op"),
    [
        (change(None, (1, "x")), '"before":null,"after":{"id":1,"v":"x"}', "c"),
        (change((1, "x"), (1, None)), '"before":{"id":1,"v":"x"},"after":{"id":1,"v":null}', "u"),
        (change((1, "x"), None), '"before":{"id":1,"v":"x"},"after":null', "d"),
    ],
)
def test_a_row_without_schemas_is_the_payload_alone(one: RowChange, images: str, op: str) -> None:
    payloads, losses = encoded(one, options=BARE | {"topic.prefix": "mysql-prod"})
    text = "{" + images + ',"source":' + SOURCE_TEXT + f',"transaction":null,"op":"{op}",' + TIMES_TEXT + "}"
    assert (payloads[0].value or b"").decode() == text
    assert payloads[0].key == b'{"id":1}'
    assert losses == []


def test_many_rows_of_a_table_look_like_the_first() -> None:
    """After some rows the code for a table is compiled."""
    rows = [change((at, "x"), (at, f"y{at}")) for at in range(40)]
    payloads, _ = encoded(*rows, options=BARE)
    assert [shown(one.value)["after"] for one in payloads] == [{"id": at, "v": f"y{at}"} for at in range(40)]
    assert [one.key for one in payloads] == [b'{"id":%d}' % at for at in range(40)]


def test_keys_and_values_have_schemas_of_their_own() -> None:
    (payload,), _ = encoded(change(None, (1, "x")), options={"key.converter.schemas.enable": "false"})
    assert payload.key == b'{"id":1}'
    assert set(shown(payload.value)) == {"schema", "payload"}
    (payload,), _ = encoded(change(None, (1, "x")), options={"value.converter.schemas.enable": "false"})
    assert set(shown(payload.key)) == {"schema", "payload"}
    assert "before" in shown(payload.value)


# ---------------------------------------------------------------- keys and tombstones


def test_a_tombstone_follows_a_delete() -> None:
    payloads, _ = encoded(change((1, "x"), None), options=BARE)
    assert [(one.key, one.value is None) for one in payloads] == [(b'{"id":1}', False), (b'{"id":1}', True)]
    assert len(encoded(change((1, "x"), None), options={"tombstones.on.delete": "false"})[0]) == 1


def test_the_key_is_in_the_order_of_the_primary_key() -> None:
    columns = (
        Column("region", ColumnType("varchar"), nullable=False),
        Column("seq", ColumnType("int"), nullable=False),
    )
    table = TableSchema(TableId("d", "t"), columns, primary_key=("seq", "region"))
    (payload,), _ = encoded(change(None, ("eu", 1), table), options=BARE)
    assert payload.key == b'{"seq":1,"region":"eu"}'


def test_without_a_primary_key_the_first_unique_key_without_null_is_the_key() -> None:
    columns = tuple(
        Column(name, ColumnType("int"), nullable=nullable)
        for name, nullable in (("a", True), ("b", False), ("c", False), ("d", False))
    )
    keys = (UniqueKey("n", ("a",)), UniqueKey("bc", ("b", "c")), UniqueKey("d", ("d",)))
    table = TableSchema(TableId("d", "t"), columns, primary_key=(), unique_keys=keys)
    (payload,), _ = encoded(change(None, (1, 2, 3, 4), table), options=BARE)
    assert payload.key == b'{"b":2,"c":3}'


def test_a_table_without_a_key_has_null_keys_and_no_tombstones() -> None:
    table = msgspec.structs.replace(KV, primary_key=())
    payloads, _ = encoded(change((1, "x"), None, table))
    assert [one.key for one in payloads] == [None]


def test_an_update_of_the_key_is_a_delete_a_tombstone_and_an_insert() -> None:
    payloads, _ = encoded(change((7, "x"), (8, "x")), options=BARE)
    assert [(one.key, shown(one.value) and shown(one.value)["op"], one.headers) for one in payloads] == [
        (b'{"id":7}', "d", (("__debezium.newkey", b'{"id":8}'),)),
        (b'{"id":7}', None, (("__debezium.newkey", b'{"id":8}'),)),
        (b'{"id":8}', "c", (("__debezium.oldkey", b'{"id":7}'),)),
    ]
    plain, _ = encoded(change((7, "x"), (8, "x")), options=BARE | {"key-change-headers": "false"})
    assert [one.headers for one in plain] == [(), (), ()]


def test_headers_of_a_changed_key_are_spelled_by_simple_header_converter() -> None:
    """Quotes and backslashes alone are escaped, exact decimals and Connect's dates are bare."""
    columns = (
        Column("s", ColumnType("varchar"), nullable=False),
        Column("d", ColumnType("decimal", length=5, scale=2), nullable=False),
        Column("b", ColumnType("varbinary"), nullable=False),
        Column("day", ColumnType("date"), nullable=False),
    )
    table = TableSchema(TableId("d", "t"), columns, primary_key=("s", "d", "b", "day"))
    old = ('q"\\\n', Decimal("-1.50"), b"\xff", "2001-01-01")
    payloads, _ = encoded(
        change(old, ("x", *old[1:]), table), options=BARE | {"time.precision.mode": "connect"}
    )
    assert dict(payloads[2].headers)["__debezium.oldkey"] == (
        b'{"s":"q\\"\\\\\n","d":-1.50,"b":"/w==","day":2001-01-01}'
    )


def test_headers_stand_before_those_of_the_source_record() -> None:
    ddl = {"id": 1, "isDdl": True, "database": "d", "table": "t", "type": "CREATE", "es": 1, "ts": 1,
           "sql": "CREATE TABLE t (a INT PRIMARY KEY)", "data": None, "old": None, "sqlType": None,
           "mysqlType": None, "pkNames": None}  # fmt: skip
    update = ddl | {"isDdl": False, "type": "UPDATE", "sql": "", "data": [{"a": "2"}], "old": [{"a": "1"}],
                    "mysqlType": {"a": "int"}, "sqlType": {"a": 4}, "pkNames": ["a"]}  # fmt: skip
    translator = Translator("canal-json", NAME, None, BARE)
    translator.translate(ConsumerRecord("t", 0, 0, 1, None, json.dumps(ddl).encode()))
    out = translator.translate(
        ConsumerRecord("t", 0, 1, 1, None, json.dumps(update).encode(), (("mine", b"1"),))
    )
    assert [one.headers for one in out] == [
        (("__debezium.newkey", b'{"a":2}'), ("mine", b"1"), ("relay.source", b"t/0/1/0")),
        (("__debezium.newkey", b'{"a":2}'), ("mine", b"1"), ("relay.source", b"t/0/1/1")),
        (("__debezium.oldkey", b'{"a":1}'), ("mine", b"1"), ("relay.source", b"t/0/1/2")),
    ]


def test_an_update_of_another_unique_key_stays_one() -> None:
    table = msgspec.structs.replace(KV, unique_keys=(UniqueKey("v", ("v",)),))
    (payload,), _ = encoded(change((1, "x"), (1, "y"), table), options=BARE)
    assert shown(payload.value)["op"] == "u"


# ---------------------------------------------------------------- unknown facts


def test_without_a_binlog_the_commit_ts_orders_events() -> None:
    payloads, losses = encoded(change(None, (1, "x"), source=TIDB), change(None, (2, "y"), source=TIDB))
    sources = [shown(one.value)["payload"]["source"] for one in payloads]
    assert [(one["file"], one["pos"], one["row"]) for one in sources] == [
        ("", 463586886942720001, 0),
        ("", 463586886942720001, 1),
    ]
    assert [sources[0][name] for name in ("server_id", "gtid", "thread", "query")] == [0, None, None, None]
    assert sorted(set(losses)) == [Loss.BINLOG_POSITION_SYNTHETIC, Loss.COMMIT_TS]


def test_without_a_commit_ts_the_offset_orders_events() -> None:
    source = msgspec.structs.replace(TIDB, commit_ts=None)
    (payload,), losses = encoded(change(None, (1, "x"), source=source))
    assert shown(payload.value)["payload"]["source"]["pos"] == CAUSE.offset
    assert losses == [Loss.BINLOG_POSITION_SYNTHETIC]


def test_an_update_without_its_old_row_is_an_insert_or_refused() -> None:
    unknown = change(None, (1, "x"), op=Op.UPDATE)
    (payload,), _ = encoded(unknown, options=BARE)
    assert shown(payload.value)["op"] == "c"
    with pytest.raises(NotRepresentable, match="old row is unknown"):
        encoded(unknown, options=BARE | {"missing-before": "refuse"})


def test_columns_that_a_row_lacks_are_not_in_its_schema() -> None:
    """What only one of two rows has is optional; virtual columns are there if the source has them."""
    columns = (*KV.columns, Column("w", ColumnType("int"), nullable=False, generated=Generated.VIRTUAL))
    table = msgspec.structs.replace(KV, columns=columns)
    (payload,), _ = encoded(change(None, (1, "x", ABSENT), table))
    value = shown(payload.value)
    assert value["payload"]["after"] == {"id": 1, "v": "x"}
    assert [one["field"] for one in value["schema"]["fields"][1]["fields"]] == ["id", "v"]
    (payload,), _ = encoded(change((1, "x", ABSENT), (1, "x", 5), table))
    value = shown(payload.value)
    fields = value["schema"]["fields"][0]["fields"]
    assert (value["payload"]["before"], value["payload"]["after"]["w"]) == ({"id": 1, "v": "x"}, 5)
    assert [(one["field"], one["optional"]) for one in fields] == [("id", False), ("v", True), ("w", True)]
    (payload,), _ = encoded(change(None, (1, "x", 5), table))
    assert [one["optional"] for one in shown(payload.value)["schema"]["fields"][0]["fields"]] == [
        False,
        True,
        False,
    ]


def test_a_delete_that_lacks_columns_of_its_key_has_none() -> None:
    payloads, _ = encoded(change((ABSENT, "x"), None), options=BARE)
    assert [one.key for one in payloads] == [None]


def test_of_a_snapshot_rows_are_read() -> None:
    source = msgspec.structs.replace(BINLOG, snapshot=Snapshot.LAST)
    payloads, _ = encoded(
        change(None, (1, "x"), op=Op.READ, source=source), change(None, (1, "x"), op=Op.READ), options=BARE
    )
    values = [shown(one.value) for one in payloads]
    assert [(one["op"], one["source"]["snapshot"]) for one in values] == [("r", "last"), ("r", "true")]


def test_what_is_of_no_snapshot_is_false_by_the_converters_default() -> None:
    (payload,), _ = encoded(change(None, (1, "x")), options=BARE | {"replace.null.with.default": "false"})
    assert shown(payload.value)["source"]["snapshot"] is None


def test_times_beyond_64_bits_of_nanoseconds_are_null_there() -> None:
    late = msgspec.structs.replace(BINLOG, event_time_ns=10_000_000_000_000 * 10**6)
    (payload,), _ = encoded(change(None, (1, "x"), source=late), options=BARE)
    source = shown(payload.value)["source"]
    assert (source["ts_ms"], source["ts_us"], source["ts_ns"]) == (10**13, 10**16, None)


def test_text_that_is_no_unicode_is_refused() -> None:
    with pytest.raises(NotRepresentable, match="not Unicode"):
        encoded(change(None, (1, "\ud800")))


# ---------------------------------------------------------------- names


def test_schema_names_are_the_topics_name() -> None:
    table = msgspec.structs.replace(KV, id=TableId("Names-Db", "表 \U0001f600.t"))
    (payload,), _ = encoded(change(None, (1, "x"), table), options={"topic.prefix": "p"})
    assert shown(payload.key)["schema"]["name"] == "p.Names-Db.____.t.Key"
    options = {"topic.prefix": "p", "schema.name.adjustment.mode": "avro"}
    (payload,), _ = encoded(change(None, (1, "x"), table), options=options)
    assert shown(payload.key)["schema"]["name"] == "p.Names_Db.____.t.Key"
    options["schema.name.adjustment.mode"] = "avro_unicode"
    (payload,), _ = encoded(change(None, (1, "x"), table), options=options)
    assert shown(payload.key)["schema"]["name"] == "p.Names_u002dDb._u005f_u005f_u005f_u005f.t.Key"
    source = shown(payload.value)["payload"]["source"]
    assert (source["db"], source["table"]) == ("Names-Db", "表 \U0001f600.t")


@pytest.mark.parametrize(
    ("mode", "names", "losses"),
    [
        ("none", ["1a", "b-c", "d_e", "名"], []),
        ("avro", ["_1a", "b_c", "d_e", "_"], [Loss.COLUMN_NAMES]),
        # From which the own names follow.
        ("avro_unicode", ["_u0031a", "b_u002dc", "d_u005fe", "_u540d"], []),
    ],
)
def test_names_of_columns_are_adjusted_in_rows_keys_and_schemas(
    mode: str, names: list[str], losses: list[Loss]
) -> None:
    columns = tuple(Column(name, ColumnType("int"), nullable=False) for name in ("1a", "b-c", "d_e", "名"))
    table = TableSchema(TableId("d", "t"), columns, primary_key=("b-c",))
    options = {"field.name.adjustment.mode": mode}
    (payload,), counted = encoded(change(None, (1, 2, 3, 4), table), options=options)
    assert counted == losses
    value = shown(payload.value)
    assert list(value["payload"]["after"]) == names
    assert [one["field"] for one in value["schema"]["fields"][1]["fields"]] == names
    assert shown(payload.key)["payload"] == {names[1]: 2}


def test_two_columns_of_the_same_adjusted_name_are_refused() -> None:
    columns = tuple(Column(name, ColumnType("int")) for name in ("编号", "名称"))
    table = TableSchema(TableId("d", "t"), columns, primary_key=())
    with pytest.raises(NotRepresentable, match="the same name"):
        encoded(change(None, (1, 2), table), options={"field.name.adjustment.mode": "avro"})


# ---------------------------------------------------------------- transactions, heartbeats, watermarks


def test_transactions_are_written_on_request() -> None:
    transaction = Transaction(GTID, order=2, table_order=1)
    row = change(None, (1, "x"), transaction=transaction)
    (payload,), losses = encoded(row, options=BARE)
    assert shown(payload.value)["transaction"] is None
    assert sorted(set(losses)) == [Loss.TRANSACTION, Loss.TRANSACTION_ORDER]
    (payload,), losses = encoded(row, options=BARE | {"provide.transaction.metadata": "true"})
    assert shown(payload.value)["transaction"] == {
        "id": GTID, "total_order": 2, "data_collection_order": 1,
    }  # fmt: skip
    assert losses == []


def test_begin_and_end_of_a_transaction() -> None:
    marks = (
        TransactionMark(True, GTID, BINLOG, EMITTED_NS),
        TransactionMark(False, GTID, BINLOG, EMITTED_NS, 2, ((KV.id, 2),)),
    )
    payloads, losses = encoded(*marks)
    assert (payloads, losses) == ([], 2 * [Loss.TRANSACTION_MARK])
    payloads, _ = encoded(*marks, options=BARE | {"provide.transaction.metadata": "true"})
    begin, end = [(one.value or b"").decode() for one in payloads]
    assert begin == (
        f'{{"status":"BEGIN","id":"{GTID}","event_count":null,"data_collections":null,"ts_ms":1768443650000}}'
    )
    assert end == (
        f'{{"status":"END","id":"{GTID}","event_count":2,'
        '"data_collections":[{"data_collection":"shop.kv","event_count":2}],"ts_ms":1768443650000}'
    )
    assert [shown(one.key) for one in payloads] == 2 * [{"id": GTID}]
    payloads, _ = encoded(*marks, options={"provide.transaction.metadata": "true"})
    names = [shown(part)["schema"]["name"] for part in (payloads[0].key, payloads[0].value)]
    assert names == [
        "io.debezium.connector.common.TransactionMetadataKey",
        "io.debezium.connector.common.TransactionMetadataValue",
    ]


def test_a_heartbeat() -> None:
    beat = Heartbeat(BINLOG, EMITTED_NS)
    (payload,), losses = encoded(beat, options={"topic.prefix": "mysql-prod"})
    assert (payload.key or b"").decode() == (
        '{"schema":{"type":"struct","fields":[{"type":"string","optional":false,"field":"serverName"}],'
        '"optional":false,"name":"io.debezium.connector.common.ServerNameKey","version":1},'
        '"payload":{"serverName":"mysql-prod"}}'
    )
    assert (payload.value or b"").decode() == (
        '{"schema":{"type":"struct","fields":[{"type":"int64","optional":false,"field":"ts_ms"}],'
        '"optional":false,"name":"io.debezium.connector.common.Heartbeat","version":1},'
        '"payload":{"ts_ms":1768443650300}}'
    )
    # A heartbeat has no `source`.
    assert set(losses) == {
        Loss.BINLOG_POSITION,
        Loss.EVENT_TIME_PRECISION,
        Loss.GTID,
        Loss.SERVER_ID,
        Loss.THREAD_ID,
    }
    assert encoded(beat, options={"heartbeats": "drop"}) == ([], [Loss.HEARTBEAT])


def test_a_watermark_is_counted() -> None:
    assert encoded(Watermark(TIDB, EMITTED_NS)) == ([], [Loss.WATERMARK])
