"""Packets of Canal, made and read."""

from __future__ import annotations

from typing import Any

from relay import ConsumerRecord, RowChange, Translator
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.packets import Header
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, number_field
from relay.model.events import Event
from relay.model.limits import Limits

PROTOBUF = "canal-protobuf"
#: An UPDATE of `db.t`: id 1, v from NULL to 'x'; made with Canal's own .proto files.
UPDATE = bytes.fromhex(
    "100118072aba0112b7010a44080112106d7973716c2d62696e2e30303030303318e40320012a055554462d383090dcaef0a02e38024202"
    "64624a0174503c5802620e0a09726f7773436f756e7412013110021a6d086c1002500062650a1610041a02696420013000420131520769"
    "6e74283131290a160801100c1a01763001520b7661726368617228313029121610041a026964200130004201315207696e742831312912"
    "1b0801100c1a017628013000420178520b7661726368617228313029"
)


def record(value: bytes | None, offset: int = 0) -> ConsumerRecord:
    return ConsumerRecord("canal", 0, offset, 1_700_000_000_456, None, value)


def read(*values: bytes, limits: Limits | None = None) -> tuple[list[Event], dict[str, int]]:
    translator = Translator(PROTOBUF, PROTOBUF, limits=limits or Limits())
    events = [event for at, value in enumerate(values) for event in translator.inspect(record(value, at))]
    return events, {str(what): number for what, number in translator.losses.items()}


def image(change: Event, *, is_old: bool = False) -> dict[str, Any]:
    assert isinstance(change, RowChange)
    cells = change.before if is_old else change.after
    return dict(zip([column.name for column in change.schema.columns], cells or (), strict=True))


def column(name: str, text: str | None, mysql_type: str = "int", sql_type: int = 4) -> bytes:
    null = number_field(6, 1) if text is None else bytes_field(8, text.encode())
    return (
        number_field(2, sql_type)
        + bytes_field(3, name.encode())
        + null
        + bytes_field(10, mysql_type.encode())
    )


def insert(number: int, position: int) -> bytes:
    value = packets.rows_value("INSERT", [bytes_field(2, column("a", str(number)))])
    return packets.entry(packets.ROWS, header(position, "INSERT"), value)


def header(position: int, event_type: str = "") -> Header:
    return Header("mysql-bin.000003", position, 7, 1_700_000_000_000, "d", "t", event_type)


def statement(sql: str, position: int) -> bytes:
    return packets.entry(packets.ROWS, header(position, "ALTER"), packets.statement_value("ALTER", sql, "d"))


def begin(position: int, thread: int = 5) -> bytes:
    return packets.entry(packets.BEGIN, header(position), number_field(4, thread))


def end(position: int, xid: str = "99") -> bytes:
    return packets.entry(packets.END, header(position), bytes_field(2, xid.encode()))
