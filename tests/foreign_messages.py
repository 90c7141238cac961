"""A message, or a few, of each format that relay does not read or that looks like one which it reads.

Built small after the documents and fixtures of their producers. `protocol`: whose codec reads it, "" if none
does. `title`: by which words `relay detect` names it, "" for what nobody can name.
"""

from __future__ import annotations

import gzip
import json
from typing import Any, Final, NamedTuple

import cramjam
from avro_support import avro_bytes

from relay import ConsumerRecord
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, number_field
from relay.codecs.shared.avro import framed
from relay.model.records import Header


class Foreign(NamedTuple):
    """A message of a format."""

    name: str
    value: bytes
    title: str
    protocol: str = ""
    key: bytes | None = None
    headers: tuple[Header, ...] = ()

    @property
    def record(self) -> ConsumerRecord:
        """The message as a record."""
        return ConsumerRecord("topic", 0, 0, 1_767_225_600_000, self.key, self.value, self.headers)


def _json(name: str, title: str, value: Any, protocol: str = "", key: Any = None, **headers: str) -> Foreign:
    key_bytes = None if key is None else json.dumps(key).encode()
    found = tuple((name.replace("__", "."), text.encode()) for name, text in headers.items())
    return Foreign(name, json.dumps(value).encode(), title, protocol, key_bytes, found)


MS: Final = 1_767_225_600_000
ROW: Final = {"id": 1, "name": "a"}
DTS: Final = {
    "id": 0, "database": "d", "table": "t", "pkNames": ["id"], "isDdl": False, "type": "INSERT", "es": MS,
    "ts": MS, "sql": "", "sqlType": None, "mysqlType": {"id": "int(11)", "t": "timestamp", "b": "blob"},
    "data": [{"id": "1", "t": "2021-05-17 07:22:42 +00:00", "b": "616263"}], "old": None,
}  # fmt: skip
CKAFKA_DDL: Final = {
    "data": None, "database": "dip_test", "es": 1655812326, "id": 0, "isDdl": True, "mysqlType": None, "old": None,
    "pkNames": None, "sql": "CREATE TABLE `c` (`id` int NOT NULL, PRIMARY KEY (`id`))", "sqlType": None,
    "table": "c", "ts": 1655812326, "type": "CREATE",
}  # fmt: skip
CKAFKA_ROW: Final = CKAFKA_DDL | {
    "data": [{"id": 1}], "es": MS, "ts": MS, "isDdl": False, "sql": "", "type": "INSERT",
}  # fmt: skip
SIMPLE: Final = {
    "version": 1, "database": "d", "table": "t", "tableID": 148, "type": "INSERT", "commitTs": 447984084414103554,
    "buildTs": 1708923662983, "schemaVersion": 447984074911121426, "data": {"id": "1"}, "old": None,
}  # fmt: skip


def _source(connector: str, **more: Any) -> dict[str, Any]:
    return {"version": "2.7.4.Final", "connector": connector, "name": "shop", "ts_ms": MS, "db": "d", **more}


def _envelope(source: Any, **more: Any) -> dict[str, Any]:
    return {"before": None, "after": ROW, "source": source, "op": "c", "ts_ms": MS, **more}


DEBEZIUM: Final = _envelope(
    _source("mysql", table="t", snapshot="false", server_id=1, file="b.1", pos=4, row=0)
)
CHANGE_SCHEMA: Final = {
    "type": "struct",
    "fields": [{"type": "int32", "optional": False, "field": "id"}],
    "optional": False,
}
UUID: Final = bytes(range(16))


def _debezium_avro(connector: str) -> bytes:
    """The beginning of `source` behind a row, as Debezium's Avro has it."""
    schema = {
        "type": "record", "name": "Envelope", "fields": [
            {"name": "id", "type": "int"},
            {"name": "version", "type": "string"}, {"name": "connector", "type": "string"}, {"name": "name", "type": "string"},
        ],
    }  # fmt: skip
    value = {"id": 1, "version": "2.7.4.Final", "connector": connector, "name": "shop"}
    return framed(77, avro_bytes(json.dumps(schema), value))


_DMS: Final = {"timestamp": "2026-01-01T00:00:00Z", "partition-key-type": "schema-table"}
_DEBEZIUM_ROW: Final = "Debezium's envelope without a connector"

FOREIGN: Final = [
    # Look-alikes of Canal.
    _json("flink-cdc canal", "Canal-JSON without isDdl", {"old": None, "data": [ROW], "type": "INSERT", "database": "d", "table": "t", "pkNames": ["id"], "ts": MS}, "canal-json"),
    _json("flink-cdc canal update", "Canal-JSON without isDdl", {"old": [{"name": "z"}], "data": [ROW], "type": "UPDATE", "database": "d", "table": "t", "pkNames": ["id"]}, "canal-json"),
    _json("flink-cdc canal old delete", "Canal-JSON without isDdl", {"old": [ROW], "data": None, "type": "DELETE", "database": "d", "table": "t", "pkNames": ["id"]}, "canal-json"),
    _json("seatunnel canal", "Canal-JSON without isDdl", {"data": [ROW], "old": None, "type": "INSERT", "database": "d", "table": "t", "ts": MS}, "canal-json"),
    _json("flink-sql canal", "Canal-JSON without isDdl", {"data": [ROW], "type": "INSERT"}),
    _json("tencent dts", "Tencent DTS", DTS, "canal-json"),
    _json("tencent dts empty sqlType", "Tencent DTS", DTS | {"sqlType": {}}, "canal-json"),
    _json("tencent dts init", "Tencent DTS", DTS | {"type": "INIT"}, "canal-json"),
    _json("dts sorted", "Tencent DTS", dict(sorted(DTS.items())), "canal-json"),
    _json("volcengine dts", "Canal-JSON", dict(sorted((DTS | {"sqlType": {"id": 4}, "mysqlType": {"id": "int"}, "data": [{"id": "1"}]}).items())), "canal-json"),
    _json("ckafka canal row", "CKafka's Canal format", CKAFKA_ROW, "ckafka-json"),
    _json("ckafka canal ddl", "CKafka's Canal format", CKAFKA_DDL, "ckafka-json"),
    _json("simple", "TiCDC Simple", SIMPLE, "ticdc-simple-json"),
    _json("dataworks", "DataWorks", {"schema": {"dataColumn": []}, "payload": {"op": "INSERT"}, "version": "0.0.1"}),
    _json("cloudcanal", "CloudCanal", {"action": "INSERT", "bid": 0, "dbValType": {}, "data": [], "before": []}),
    _json("oms", "OMS", {"prevStruct": None, "postStruct": {"id": 1}, "allMetaData": {}}),
    _json("maxscale", "MaxScale", {"domain": 0, "server_id": 3, "sequence": 20, "event_type": "insert", "id": 1}),
    # Debezium, and what surrounds it.
    _json("debezium", "Debezium 2.7.4.Final (JSON)", DEBEZIUM, "debezium-json"),
    _json("flink-cdc debezium", _DEBEZIUM_ROW, _envelope({"db": None, "table": "t"})),
    _json("flink-sql debezium", _DEBEZIUM_ROW, {"before": None, "after": ROW, "op": "c"}),
    _json("seatunnel debezium", _DEBEZIUM_ROW, {"before": ROW, "after": None, "op": "d", "source": {"db": "d", "table": "t"}}),
    _json("risingwave", _DEBEZIUM_ROW, {"payload": {"before": None, "after": ROW, "op": "r", "source": {"db": "dev", "table": "t"}, "ts_ms": MS}, "schema": CHANGE_SCHEMA}),
    _json("cockroachdb", "CockroachDB", {"payload": {"before": None, "after": ROW, "op": "c", "ts_ns": MS * 10**6, "source": {"origin": "cockroachdb", "table_name": "t", "changefeed_sink": "kafka"}}}),
    _json("debezium tidb", "with its connector for TiDB", _envelope(_source("tidb", table="t", commit_ts=470615239042793472, cluster_id="c"))),
    _json("debezium postgres", "(postgresql)", _envelope(_source("postgresql", schema="public", table="t", lsn=1, txId=7))),
    _json("debezium mongodb", "(mongodb)", {"before": None, "after": '{"_id": 1}', "op": "c", "source": _source("mongodb", collection="c"), "ts_ms": MS}),
    _json("debezium sqlserver", "(sqlserver)", {"schema": CHANGE_SCHEMA, "payload": _envelope(_source("sqlserver", schema="dbo", table="t"))}),
    Foreign("debezium postgres avro", _debezium_avro("postgresql"), "(postgresql)"),
    Foreign("debezium tidb avro", _debezium_avro("tidb"), "with its connector for TiDB"),
    _json("debezium heartbeat", "Debezium (JSON)", {"ts_ms": MS}, "debezium-json", {"serverName": "shop"}),
    _json("debezium notification", "notification", {"id": "5f0", "aggregate_type": "Initial Snapshot", "type": "COMPLETED", "additional_data": {"connector_name": "shop"}, "timestamp": MS}),
    _json("debezium notification schema", "notification", {"schema": CHANGE_SCHEMA, "payload": {"id": "5f0", "aggregate_type": "Initial Snapshot", "type": "STARTED", "additional_data": None, "timestamp": MS}}),
    _json("debezium signal", "signal", {"type": "execute-snapshot", "data": {"data-collections": ["d.t"], "type": "INCREMENTAL"}}, key="shop"),
    _json("debezium signal log", "signal", {"id": "1", "type": "log", "data": {"message": "x"}}),
    _json("debezium history", "schema history", {"source": {"server": "shop"}, "position": {"file": "b.1", "pos": 4}, "databaseName": "d", "ddl": "CREATE TABLE t (a int)", "tableChanges": []}),
    _json("cloudevents", "CloudEvents", {"id": "1", "source": "/debezium/mysql/shop", "specversion": "1.0", "type": "io.debezium.mysql.datachangeevent", "iodebeziumop": "c", "data": {"before": None, "after": ROW}}),
    _json("cloudevents schema", "CloudEvents", {"id": "1", "source": "/debezium/mysql/shop", "specversion": "1.0", "type": "t", "datacontenttype": "application/avro", "data": "AAAA"}),
    Foreign("cloudevents binary", b'{"before": null, "after": {"id": 1}}', "CloudEvents", "", None, (("ce_specversion", b"1.0"), ("ce_type", b"t"))),
    _json("json in string", "JSON in a JSON string", json.dumps(DEBEZIUM)),
    _json("canal in string", "JSON in a JSON string", json.dumps(CKAFKA_ROW)),
    _json("flattened", "flattened", ROW | {"__op": "c", "__deleted": "false"}),
    _json("flattened other prefix", "flattened", ROW | {"cdc_op": "u", "cdc_table": "t", "cdc_source_ts_ms": MS}),
    _json("flattened prefix deleted", "flattened", ROW | {"_deleted": "true"}),
    _json("row of a shop", "", ROW | {"shop": "c", "stop": "r"}),
    _json("flattened schema", "flattened", {"schema": CHANGE_SCHEMA | {"name": "shop.d.t.Value"}, "payload": ROW}),
    _json("ext json", "ExtJsonConverter", {"schemaId": 3, "payload": DEBEZIUM}),
    _json("connect jdbc", "Kafka Connect", {"schema": CHANGE_SCHEMA | {"name": "orders"}, "payload": ROW}),
    # Schema registries.
    Foreign("protobuf frame", framed(7, b"\0" + number_field(1, 7) + bytes_field(2, b"abc")), "Protobuf with the id"),
    Foreign("json schema frame", framed(7, b'{"id": 1}'), "JSON Schema with the id"),
    Foreign("glue frame", b"\x03\x00" + UUID + b"\0\x02\x02\x06abc", "AWS Glue"),
    Foreign("glue frame zlib", b"\x03\x05" + UUID + b"x\x9c\x03\0\0\0\0\1", "AWS Glue"),
    Foreign("apicurio 8 bytes", b"\0" + (7).to_bytes(8) + b"\x02\x06abc", "schema id of 8 bytes"),
    Foreign("apicurio header", b"\0\x02\x06abc\x16" + b"\x02" * 9, "in a header of Apicurio's", "", None, (("apicurio.value.globalId", (7).to_bytes(8)), ("apicurio.value.encoding", b"BINARY"))),
    Foreign("apicurio header zeros", b"\0\0\0\0\x07\x02\x06abc", "in a header of Apicurio's", "", b"\0\0\0\0\x01\x02", (("apicurio.value.contentId", (7).to_bytes(8)),)),
    # Other producers.
    _json("dms data", "AWS DMS", {"data": ROW, "metadata": _DMS | {"record-type": "data", "operation": "insert", "schema-name": "d", "table-name": "t"}}),
    _json("dms control", "AWS DMS", {"metadata": _DMS | {"record-type": "control", "operation": "create-table", "schema-name": "d", "table-name": "t"}}),
    _json("dms control data", "AWS DMS", {"control": {"table-def": {"columns": {}}}, "metadata": _DMS | {"record-type": "control", "operation": "drop-table"}}),
    _json("goldengate row", "Oracle GoldenGate", {"table": "A.B", "op_type": "I", "op_ts": "2026-01-01 00:00:00.000000", "current_ts": "2026-01-01T00:00:00", "pos": "1"} | ROW),
    _json("goldengate", "Oracle GoldenGate", {"table": "A.B", "op_type": "I", "op_ts": "2026-01-01 00:00:00.000000", "current_ts": "2026-01-01T00:00:00", "pos": "1", "after": ROW}, "ogg-json"),
    _json("wal2json v2", "wal2json", {"action": "I", "schema": "public", "table": "t", "columns": [{"name": "id", "type": "integer", "value": 1}]}),
    _json("wal2json v2 begin", "wal2json", {"action": "B", "xid": 7, "timestamp": "2026-01-01"}),
    _json("wal2json v1", "wal2json", {"change": [{"kind": "insert", "schema": "public", "table": "t", "columnnames": ["id"], "columnvalues": [1]}]}),
    _json("qlik", "Qlik Replicate", {"magic": "atMSG", "type": "DT", "headers": None, "messageSchemaId": None, "messageSchema": None, "message": {"data": ROW, "beforeData": None, "headers": {"operation": "INSERT"}}}),
    _json("striim", "Striim", {"metadata": {"TABLE_NAME": "d.t", "OPERATION_NAME": "INSERT", "TxnID": "1"}, "data": ROW, "before": None, "userdata": None}),
    _json("striim named", "Striim", {"metadata": {"TableName": "d.t", "OperationName": "UPDATE"}, "data": ROW, "before": ROW}),
    _json("fivetran", "Fivetran", ROW | {"_fivetran_synced": "2026-01-01", "_fivetran_deleted": False}),
    _json("hvr", "HVR", ROW | {"hvr_op": 1, "hvr_tx_seq": "1"}),
    _json("mongodb change stream", "MongoDB", {"_id": {"_data": "x"}, "operationType": "insert", "ns": {"db": "d", "coll": "c"}, "fullDocument": ROW}),
    _json("airbyte", "Airbyte", {"type": "RECORD", "record": {"stream": "t", "data": ROW, "emitted_at": MS}}),
    _json("singer", "Singer", {"type": "RECORD", "stream": "t", "record": ROW, "time_extracted": "2026-01-01T00:00:00Z"}),
    _json("supabase", "Supabase", {"type": "INSERT", "table": "t", "schema": "public", "record": ROW, "old_record": None}),
    _json("row with a record", "", {"type": "order", "record": ROW}),
    _json("storage sink", "storage sink", {"scm": "d", "tbl": "t", "ts": 1, "t": 1}),
    _json("maxwell", "Maxwell", {"database": "d", "table": "t", "type": "insert", "ts": 1449786310, "xid": 940752, "data": ROW}, "maxwell-json"),
    _json("maxwell bootstrap", "Maxwell", {"database": "d", "table": "t", "type": "bootstrap-insert", "ts": 1449786310, "data": ROW}, "maxwell-json"),
    _json("maxwell bootstrap start", "Maxwell", {"database": "d", "table": "t", "type": "bootstrap-start", "ts": 1449786310, "data": {}}, "maxwell-json"),
    _json("flink-sql maxwell", "", {"data": ROW, "type": "insert"}),
    Foreign("drainer", number_field(1, 0) + number_field(2, 447984084414103554) + bytes_field(3, b"\x0a\x01d"), "TiDB Binlog's drainer"),
    Foreign("drainer ddl", number_field(1, 1) + number_field(2, 447984084414103554) + bytes_field(4, b"\x0a\x01d"), "TiDB Binlog's drainer"),
    # Bytes.
    Foreign("avro file", b'Obj\x01\x04\x14avro.codec\x08null\x16avro.schema\x0a"int"\0' + UUID, "an Avro file"),
    Foreign("parquet", b"PAR1\x15\0", "a Parquet file"),
    Foreign("orc", b"ORC\x08\0", "an ORC file"),
    Foreign("message pack", b"\x82\xa2id\x01\xa4name\xa1a", "MessagePack"),
    Foreign("cbor", b"\xa2\x62id\x01\x64name\x61a", "CBOR"),
    Foreign("cbor tagged", b"\xd9\xd9\xf7\xa1\x62id\x01", "CBOR"),
    Foreign("gzip", gzip.compress(json.dumps(DEBEZIUM).encode(), mtime=0), "gzip"),
    Foreign("zstd", bytes(cramjam.zstd.compress(json.dumps(DEBEZIUM).encode())), "Zstandard"),
    Foreign("lz4 of another", bytes(cramjam.lz4.compress(json.dumps(DEBEZIUM).encode())), "Debezium"),
    Foreign("java", b"\xac\xed\0\x05sr\0\x11java.util.HashMap", "serialized Java objects"),
    Foreign("ticdc csv", b'"I","t","d",447984084414103554,true,1,"a"', "TiCDC's CSV"),
    Foreign("csv", b"1,a,2026-01-01 00:00:00\n2,b,2026-01-01 00:00:01", "CSV"),
    Foreign("xml", b'<?xml version="1.0"?><row id="1"/>', "XML"),
    Foreign("xml without declaration", b'<row id="1"/>', "XML"),
    Foreign("syslog", b"<34>Oct 11 22:14:15 mymachine su: failed", "syslog"),
    Foreign("text in brackets", b"<- 12 ->", ""),
    Foreign("text", b"hello world", ""),
    Foreign("number", b"42", ""),
    Foreign("bool", b"true", ""),
    Foreign("list", b"[1, 2, 3]", ""),
    Foreign("row", json.dumps(ROW).encode(), ""),
    Foreign("row of words", b'{"type": "INSERT", "data": "x", "table": "t", "database": "d"}', ""),
    Foreign("no object of rows", b'{"type": "INSERT", "data": {"id": 1}, "table": "t", "database": "d", "traceId": 1}', ""),
    Foreign("empty object", b"{}", ""),
    Foreign("binary", b"\xff\xfe\xfd", ""),
    Foreign("zeros", bytes(4), ""),
    Foreign("blanks", b"   ", ""),
    # Packets of Canal that hold no messages.
    Foreign("canal ack", number_field(3, 3), ""),
]  # fmt: skip
