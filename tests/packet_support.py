"""Packets of Canal, made and read."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import msgspec
from support import captured

from relay import ConsumerRecord, RowChange, Translator
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.packets import Header
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, fields, number_field
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


def pieces(value: bytes, least: int = 4) -> list[bytes]:
    """Cut a packet into packets of whole transactions, of `least` entries or more, and of single statements."""
    head = [(number, data) for number, data in fields(value) if number != 5]
    body = [*fields(dict(fields(value))[5] or b"")]  # type: ignore[arg-type]  # the body is bytes
    numbers = [field for field in body if field[0] == 1]
    cut: list[list[bytes]] = [[]]
    is_open = False
    for number, data in body:
        if number != 2 or not isinstance(data, bytes):
            continue
        entry_of = dict(fields(data))
        kind, change = entry_of.get(2), entry_of.get(3, b"")
        is_row = kind == packets.ROWS and isinstance(change, bytes) and 12 in dict(fields(change))
        is_open = kind == packets.BEGIN or (is_open and kind != packets.END)
        if kind == packets.ROWS and not is_row:
            cut += [[data], []]
            continue
        cut[-1].append(data)
        if not is_open and len(cut[-1]) >= least:
            cut.append([])
    return [
        _fields(head) + bytes_field(5, _fields(numbers) + b"".join([bytes_field(2, each) for each in piece]))
        for piece in cut
        if piece
    ]


def cut(file: str, least: int = 4) -> list[ConsumerRecord]:
    """The packets of a captured file as the `pieces` of each, in one partition."""
    found = [(each, value) for each in captured(file) for value in pieces(each.value or b"", least)]
    return [
        msgspec.structs.replace(each, partition=0, offset=offset, value=value)
        for offset, (each, value) in enumerate(found)
    ]


def entries_alone(file: str) -> list[ConsumerRecord]:
    """A packet for each entry or transaction of a captured file."""
    return cut(file, 1)


def _fields(found: Iterable[tuple[int, int | bytes]]) -> bytes:
    made = [
        number_field(number, data) if isinstance(data, int) else bytes_field(number, data)
        for number, data in found
    ]
    return b"".join(made)


def header(position: int, event_type: str = "") -> Header:
    return Header("mysql-bin.000003", position, 7, 1_700_000_000_000, "d", "t", event_type)


def statement(sql: str, position: int) -> bytes:
    return packets.entry(packets.ROWS, header(position, "ALTER"), packets.statement_value("ALTER", sql, "d"))


def begin(position: int, thread: int = 5) -> bytes:
    return packets.entry(packets.BEGIN, header(position), number_field(4, thread))


def end(position: int, xid: str = "99") -> bytes:
    return packets.entry(packets.END, header(position), bytes_field(2, xid.encode()))


def cell(text: str | None, name: str = "a") -> bytes:
    """A column as Canal prints it."""
    wire = {number: data for number, data in fields(column(name, text)) if number not in {6, 8}}
    return b"".join(
        (
            number_field(1, 0) + number_field(2, 4) + bytes_field(3, name.encode()) + number_field(4, 1),
            number_field(5, 1) + number_field(6, text is None),
            b"" if not text else bytes_field(8, text.encode()),
            bytes_field(10, wire[10] if isinstance(wire[10], bytes) else b""),
        )
    )


def row(*texts: str | None, position: int = 4) -> bytes:
    """An entry that inserts a row for each text."""
    value = packets.rows_value("INSERT", [bytes_field(2, cell(text)) for text in texts])
    return packets.entry(packets.ROWS, header(position, "INSERT"), value, rows=len(texts))
