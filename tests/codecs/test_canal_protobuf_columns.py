"""Columns of packets whose encodings are kept: every packet is read as if it were the first one."""

from __future__ import annotations

import random
from collections.abc import Iterator

import msgspec
import pytest
from packet_support import PROTOBUF, cut, header, record

from relay import CodecError, ConsumerRecord, RowChange, Translator
from relay.catalog import Catalog
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.packets import Header
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, fields, number_field
from relay.model.limits import Limits


class Reader:
    """Reads packets with what it has kept, and like the first ones."""

    def __init__(self, limits: Limits | None = None) -> None:
        self._limits = limits or Limits()
        self._warm = self._made()

    def _made(self) -> Translator:
        return Translator(PROTOBUF, PROTOBUF, limits=self._limits)

    def read(self, value: bytes) -> str:
        """Return the outcome of a packet, after a check that it is the same for a new reader."""
        self._warm.catalog = Catalog()
        kept, new = _outcome(self._warm, record(value)), _outcome(self._made(), record(value))
        assert kept == new
        return kept


def _outcome(translator: Translator, packet: ConsumerRecord) -> str:
    before = translator.losses
    try:
        events = translator.inspect(packet)
        outcome = [
            (event.table, event.schema.columns, event.schema.primary_key, event.before, event.after)
            for event in events
            if isinstance(event, RowChange)
        ]
    except CodecError as error:
        return repr(error)
    return f"{outcome} {translator.losses - before}"


def a_column(
    name: str = "a",
    text: str | None = "1",
    mysql_type: str = "int",
    sql_type: int = 4,
    *,
    is_key: bool = False,
    is_updated: bool = True,
) -> bytes:
    """A column as Canal prints it."""
    numbers = number_field(1, 0) + number_field(2, sql_type) + bytes_field(3, name.encode())
    numbers += number_field(4, is_key) + number_field(5, is_updated) + number_field(6, text is None)
    value = bytes_field(8, text.encode()) if text else b""
    return numbers + value + bytes_field(10, mysql_type.encode())


def packet(*columns: bytes, table: str = "t", op: str = "INSERT") -> bytes:
    at = msgspec.structs.replace(header(4, op), table=table)
    row = b"".join([bytes_field(1 if op == "DELETE" else 2, column) for column in columns])
    if op == "UPDATE":
        row = b"".join([bytes_field(1, column) for column in columns]) + row
    return packets.packet(0, [packets.entry(packets.ROWS, at, packets.rows_value(op, [row]), rows=1)])


def columns() -> Iterator[bytes]:
    """Columns of which each differs from another one in little."""
    yield from (a_column(), a_column(mysql_type="bigint"), a_column(sql_type=-5), a_column("b"))
    yield from (a_column(is_key=True), a_column(is_updated=False), a_column(text=None), a_column(text=""))
    # The bytes of one column's value are in the name of another, and in the type of a third.
    yield from (a_column("aB\x011"), a_column(text="B\x011"), a_column(mysql_type="int", text="1R\x03int"))
    yield from (a_column(text="1" * size) for size in (127, 128, 300))
    yield a_column(mysql_type="varchar(9)", text="é")
    value, head = bytes_field(8, b"7"), bytes_field(3, b"a")
    kind = bytes_field(10, b"varchar(9)")
    yield from (head + value + kind, value + head + kind, head + kind + value, head + kind)
    yield from (head + value + kind + value, head + value + value + kind, head + value + kind + head)
    yield from (head + value + kind + more for more in (number_field(15, 1), bytes_field(8, b"8")))
    yield from (head + value + kind + number_field(6, null) for null in (0, 1, 2))
    yield from (head + bytes_field(8, text) + kind for text in (b"\xff", b"\xc3", b"\0", b"x"))
    yield from (
        head + number_field(8, 7) + kind,
        head + b"\x41" + b"1" * 8 + kind,
        head + b"\xc2\x00\x017" + kind,
    )
    yield from (head + b"\x42\x81\x007" + kind, head + b"\x42\x09" + kind, head + b"\x42\x01", head + b"\x42")
    yield from (head + value + bytes_field(7, bytes_field(number, b"x")) + kind for number in (1, 3))
    yield from (bytes_field(3, b"\xff") + value + kind, head + value + bytes_field(10, b"\xff"))


@pytest.mark.parametrize("op", ["INSERT", "UPDATE", "DELETE"])
def test_each_column_has_its_own_encoding(op: str) -> None:
    """In one table and in two, in any order."""
    reader, chosen = Reader(), random.Random(7)
    found = list(columns())
    outcomes: dict[tuple[bytes, str], str] = {}
    for number in range(5 * len(found)):
        column = chosen.choice(found)
        table = chosen.choice("tu")
        said = reader.read(packet(column, a_column("z"), table=table, op=op))
        assert outcomes.setdefault((column, table), said) == said, number
    assert len(set(outcomes.values())) > 30


def test_versions_and_tables_with_the_same_names() -> None:
    reader = Reader()
    as_number, as_text = a_column(text="1"), a_column(text="1", mysql_type="varchar(9)", sql_type=12)
    for _ in range(3):
        assert "(1,)" in reader.read(packet(as_number))
        assert "('1',)" in reader.read(packet(as_text))
        assert "('1',)" in reader.read(packet(as_text, table="u"))
        assert "(1,)" in reader.read(packet(as_number, table="u"))


def test_more_encodings_than_are_kept() -> None:
    reader = Reader()
    for number in [*range(40), *range(40)]:
        said = reader.read(packet(a_column(mysql_type=f"varchar({number + 1})", text=str(number))))
        assert f"length={number + 1}," in said


@pytest.mark.parametrize("limits", [Limits(cache_bytes=1), Limits(cache_bytes=3_000), Limits(columns=3)])
def test_limits(limits: Limits) -> None:
    reader = Reader(limits)
    for _ in range(3):
        for count in range(1, 6):
            made = [a_column(f"c{at}", str(at)) for at in range(count)]
            said = reader.read(packet(*made))
            assert ("LimitExceeded" in said) is (count > limits.columns)
            reader.read(packet(*made, table=f"t{count}", op="UPDATE"))


@pytest.mark.parametrize("file", ["mysql/canal-protobuf/01_all_types", "mysql/canal-protobuf.hashed/07_keys"])
def test_captured_rows_with_a_byte_changed(file: str) -> None:
    reader, chosen = Reader(), random.Random(3)
    for each in cut(file)[:6]:
        value = each.value or b""
        for at in chosen.choices(range(len(value)), k=12):
            reader.read(value[:at] + bytes([value[at] ^ 1 << chosen.randrange(8)]) + value[at + 1 :])
            reader.read(value)


# ---------------------------------------------------------------- headers

HEADERS = [
    Header("mysql-bin.000003", 4, 7, 1_700_000_000_000, "d", "t", "INSERT"),
    Header("mysql-bin.000003", 4, 7, 1_700_000_000_000, "d", "t", "INSERT", "00-11:1-5"),
    Header("mysql-bin.000003", -1, 7, 1_700_000_000_000, "d", "t", "DELETE"),
    Header("mysql-bin.000003", 1 << 62, 1 << 31, -1, "JobsJ", "JPX", "INSERT"),
    Header("a\x18b", 4, 7, 1_700_000_000_000, "é", "J" * 10, "INSERT"),
    Header("", 0, 0, 1_700_000_000_000, "d" * 127, "t" * 128, "INSERT"),
    Header("b" * 128, 4, 7, 1_700_000_000_000, "d" * 128, "t", "INSERT"),
    Header("mysql-bin.000003", 4, 7, 1_700_000_000_000, "d", "t", ""),
    Header("mysql-bin.000003", 4, 7, 1_700_000_000_000, "d", "t", "INSERT", "g" * 128),
]


@pytest.mark.parametrize("at", HEADERS)
def test_a_header_says_the_same_with_its_fields_in_another_order(at: Header) -> None:
    """Only the usual order is read at once."""
    op = at.event_type or "INSERT"
    row = bytes_field(1 if op == "DELETE" else 2, a_column())
    usual = packets.entry(packets.ROWS, at, packets.rows_value(op, [row]), rows=1)
    head, *others = fields(usual)
    assert isinstance(head[1], bytes)
    found = list(fields(head[1]))
    outcomes = set()
    for order in (found, found[::-1], [*found[3:], *found[:3]]):
        moved = bytes_field(1, _printed(order)) + _printed(others)
        reader = Translator(PROTOBUF, PROTOBUF)
        outcomes.add(
            (
                repr(reader.inspect(record(packets.packet(0, [moved])))[0].source),
                _outcome(reader, record(packets.packet(0, [moved]))),
            )
        )
    assert len(outcomes) == 1


@pytest.mark.parametrize("size", [2, 0x1D, 0x7F, 0x80, 0xFF])
@pytest.mark.parametrize("tag", [0x42, 0x4A, 0x6A])
def test_a_header_with_a_wrong_size_is_refused(tag: int, size: int) -> None:
    at = msgspec.structs.replace(HEADERS[1], file="f", gtid="g")
    head = dict(fields(packets.entry(packets.END, at, bytes_field(2, b"9"))))[1]
    assert isinstance(head, bytes)
    start = head.index(bytes([tag, 1])) + 1
    wrong = head[:start] + bytes([size]) + head[start + 1 :]
    entry = bytes_field(1, wrong) + number_field(2, packets.END) + bytes_field(3, bytes_field(2, b"9"))
    with pytest.raises(CodecError):
        Translator(PROTOBUF, PROTOBUF).inspect(record(packets.packet(0, [entry])))


def _printed(found: list[tuple[int, int | bytes]]) -> bytes:
    return b"".join(
        [
            number_field(number, data) if isinstance(data, int) else bytes_field(number, data)
            for number, data in found
        ]
    )
