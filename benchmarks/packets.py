"""What Google's runtime for Protocol Buffers alone makes of Canal's packets.

It parses all messages of a packet, one inside another, and reads no value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any, Final

from google.protobuf import descriptor_pb2, descriptor_pool, message_factory

_PACKAGE: Final = "canal"
#: The entry of a row change.
_ROW_DATA: Final = 2
_Field = descriptor_pb2.FieldDescriptorProto
_TYPES: Final = {
    "int32": _Field.TYPE_INT32,
    "int64": _Field.TYPE_INT64,
    "bool": _Field.TYPE_BOOL,
    "string": _Field.TYPE_STRING,
    "bytes": _Field.TYPE_BYTES,
}
#: The fields of each message, `number name type`, as in Canal's CanalProtocol.proto and EntryProtocol.proto.
#: A type in brackets is repeated.
_MESSAGES: Final[Mapping[str, str]] = {
    "Packet": "1 magic int32, 2 version int32, 3 type int32, 4 compression int32, 5 body bytes",
    "Messages": "1 batch_id int64, 2 messages [bytes]",
    "Pair": "1 key string, 2 value string",
    "Header": "1 version int32, 2 file string, 3 offset int64, 4 server_id int64, 5 encoding string, "
    "6 time int64, 7 source int32, 8 schema string, 9 table string, 10 length int64, 11 event int32, "
    "12 props [Pair], 13 gtid string",
    "Entry": "1 header Header, 2 type int32, 3 value bytes",
    "Column": "1 index int32, 2 sql_type int32, 3 name string, 4 is_key bool, 5 updated bool, "
    "6 is_null bool, 7 props [Pair], 8 value string, 9 length int32, 10 mysql_type string",
    "RowData": "1 before [Column], 2 after [Column], 3 props [Pair]",
    "RowChange": "1 table_id int64, 2 event int32, 10 is_ddl bool, 11 sql string, 12 rows [RowData], "
    "13 props [Pair], 14 schema string",
}


def is_packet(data: bytes) -> bool:
    """Return whether a value is a packet: it begins with the tag of one of its numbers."""
    return data[0] in {0x08, 0x10, 0x18}


def _parsers() -> dict[str, Callable[[bytes], Any]]:
    file = descriptor_pb2.FileDescriptorProto(name="canal.proto", package=_PACKAGE, syntax="proto3")
    for name, fields in _MESSAGES.items():
        message = file.message_type.add(name=name)
        for field in fields.split(", "):
            number, its_name, kind = field.split()
            base = kind.strip("[]")
            made = message.field.add(name=its_name, number=int(number))
            made.label = _Field.LABEL_OPTIONAL if base == kind else _Field.LABEL_REPEATED
            made.type = _TYPES.get(base, _Field.TYPE_MESSAGE)
            if made.type == _Field.TYPE_MESSAGE:
                made.type_name = f".{_PACKAGE}.{base}"
    pool = descriptor_pool.DescriptorPool()
    pool.Add(file)
    return {
        name: message_factory.GetMessageClass(pool.FindMessageTypeByName(f"{_PACKAGE}.{name}")).FromString
        for name in _MESSAGES
    }


_PARSERS: Final = _parsers()


def reading(data: bytes) -> Callable[[], object]:
    """Return what parses a packet."""
    packet, messages, entry, change = (
        _PARSERS[name] for name in ("Packet", "Messages", "Entry", "RowChange")
    )

    def read() -> None:
        for each in messages(packet(data).body).messages:
            found = entry(each)
            if found.type == _ROW_DATA:
                change(found.value)

    return read
