"""The schema of Simple's Avro as TiCDC has it (pkg/sink/codec/simple/message.json, 2026-08), for fastavro."""

from __future__ import annotations

import io
from typing import Any

import fastavro

SPACE = "com.pingcap.simple.avro"
WORDS = {
    "DDLType": ["CREATE", "ALTER", "ERASE", "RENAME", "TRUNCATE", "CINDEX", "DINDEX", "QUERY"],
    "DMLType": ["INSERT", "UPDATE", "DELETE"],
    "MessageType": ["WATERMARK", "BOOTSTRAP", "DDL", "DML"],
}


def _record(name: str, /, **fields: Any) -> dict[str, Any]:
    members = [{"name": field, "type": kind} for field, kind in fields.items()]
    return {"type": "record", "name": name, "namespace": SPACE, "fields": members}


def _own(name: str) -> str:
    return f"{SPACE}.{name}"


def _optional(kind: Any) -> list[Any]:
    return ["null", kind]


def _array(kind: Any) -> dict[str, Any]:
    return {"type": "array", "items": kind}


def _words(name: str) -> dict[str, Any]:
    return {"type": "enum", "name": name, "symbols": WORDS[name]}


_VALUES = {
    "type": "map",
    "values": [
        *("null", "long", "float", "double", "string", "bytes"),
        *(_own("Timestamp"), _own("UnsignedBigint")),
    ],
}
_STAMPS = {"commitTs": "long", "buildTs": "long"}
SCHEMA = fastavro.parse_schema(
    [
        _record(
            "DataType",
            mysqlType="string",
            charset="string",
            collate="string",
            length="long",
            decimal=_optional("int"),
            elements=_optional(_array("string")),
            unsigned=_optional("boolean"),
            zerofill=_optional("boolean"),
        ),
        _record(
            "ColumnSchema",
            name="string",
            dataType=_own("DataType"),
            nullable="boolean",
            default=_optional("string"),
        ),
        _record(
            "IndexSchema",
            name="string",
            unique="boolean",
            primary="boolean",
            nullable="boolean",
            columns=_array("string"),
        ),
        _record(
            "TableSchema",
            database="string",
            table="string",
            tableID="long",
            version="long",
            columns=_array(_own("ColumnSchema")),
            indexes=_array(_own("IndexSchema")),
        ),
        _record("Checksum", version="int", corrupted="boolean", current="long", previous="long"),
        _record("Watermark", version="int", **_STAMPS),
        _record("Bootstrap", version="int", buildTs="long", tableSchema=_own("TableSchema")),
        _record(
            "DDL",
            version="int",
            type=_words("DDLType"),
            sql="string",
            **_STAMPS,
            tableSchema=_optional(_own("TableSchema")),
            preTableSchema=_optional(_own("TableSchema")),
        ),
        _record("Timestamp", location="string", value="string"),
        _record("UnsignedBigint", value="long"),
        _record(
            "DML",
            version="int",
            database="string",
            table="string",
            tableID="long",
            type=_words("DMLType"),
            **_STAMPS,
            schemaVersion="long",
            claimCheckLocation=_optional("string"),
            handleKeyOnly=_optional("boolean"),
            checksum=_optional(_own("Checksum")),
            data=_optional(_VALUES),
            old=_optional(_VALUES),
        ),
        _record(
            "Message",
            type=_words("MessageType"),
            payload=[_own(name) for name in ("Watermark", "Bootstrap", "DDL", "DML")],
        ),
    ]
)


def read(data: bytes) -> Any:
    """What fastavro reads; all of the data must be the message."""
    stream = io.BytesIO(data)
    found = fastavro.schemaless_reader(stream, SCHEMA, None, return_record_name=True)
    assert stream.tell() == len(data)
    return found


def write(message: Any) -> bytes:
    """What fastavro writes of what `read` gives."""
    stream = io.BytesIO()
    fastavro.schemaless_writer(stream, SCHEMA, message)
    return stream.getvalue()
