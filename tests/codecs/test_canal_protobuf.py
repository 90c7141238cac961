"""Canal's packets: read as Canal's JSON of the same rows is, in transactions, and written as Canal does."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pytest
from packet_support import PROTOBUF, begin, column, end, header, image, insert, read, record, statement
from support import captured, captured_files, named_refusal, translated_records

from relay import (
    DecodeError,
    Heartbeat,
    LimitExceeded,
    Loss,
    Malformed,
    Op,
    RowChange,
    SchemaChange,
    TableId,
    Transaction,
    TransactionMark,
    Translator,
    UnsupportedMessage,
)
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, fields, number_field, signed, varint
from relay.model.limits import Limits

# ---------------------------------------------------------------- the wire


def test_fields_of_all_kinds() -> None:
    data = number_field(1, -1) + b"\x11" + bytes(8) + bytes_field(3, b"x") + b"\x25" + bytes(4)
    found = list(fields(data))
    assert found == [(1, 2**64 - 1), (2, bytes(8)), (3, b"x"), (4, bytes(4))]
    assert signed(2**64 - 1) == -1
    assert varint(300) == b"\xac\x02"


@pytest.mark.parametrize(
    "data", [b"\x08", b"\x08\xff", b"\x12\x05abc", b"\x0b", b"\x11abc", b"\x08" + b"\xff" * 10 + b"\x01"]
)
def test_bytes_that_are_no_message(data: bytes) -> None:
    with pytest.raises(ValueError, match=r"message|field|number"):
        list(fields(data))


# ---------------------------------------------------------------- read


@pytest.mark.parametrize("kind", [0, 6, 8])
def test_other_packets_are_refused(kind: int) -> None:
    with pytest.raises(UnsupportedMessage, match="type 7"):
        read(number_field(3, kind) + bytes_field(5, b""))


def test_other_formats_are_named() -> None:
    flat = b'{"data":[{"a":"1"}],"database":"d","table":"t","isDdl":false,"type":"INSERT"}'
    with pytest.raises(DecodeError):
        read(flat)
    assert re.search("is the source protocol .*canal-json", named_refusal(PROTOBUF, record(flat)))
    with pytest.raises(Malformed):
        read(b"\xff\xff")


def test_a_transaction_over_two_packets() -> None:
    events, counted = read(
        packets.packet(0, [begin(4), insert(1, 90)]), packets.packet(0, [insert(2, 120), end(150)])
    )
    one, two, last = events
    assert isinstance(one, RowChange)
    assert isinstance(two, RowChange)
    assert isinstance(last, TransactionMark)
    assert (one.transaction, two.transaction, last.count) == (None, Transaction("99"), None)
    assert counted == {"transaction-mark": 1, "schema-inferred": 2}


def test_an_end_without_an_id_is_known_by_its_place() -> None:
    (_, change, _), _ = read(packets.packet(0, [begin(4), insert(1, 90), end(150, "")]))
    assert isinstance(change, RowChange)
    assert change.transaction == Transaction("mysql-bin.000003:150", 1)


def test_rows_see_the_statements_before_them_in_one_packet() -> None:
    create = statement("CREATE TABLE t (a INT, b INT)", 100)
    alter = statement("ALTER TABLE t DROP COLUMN b", 200)
    one = packets.packet(0, [insert(1, 50), create, insert(2, 150), alter, insert(3, 250)])
    (first, _, second, _, third), counted = read(one)
    for change, names in ((first, ["a"]), (second, ["a", "b"]), (third, ["a"])):
        assert isinstance(change, RowChange)
        assert [each.name for each in change.schema.columns] == names
    assert counted == {"schema-inferred": 1, "columns-absent": 1}


def test_signs_of_life_and_what_changes_nothing() -> None:
    beat = packets.entry(packets.HEARTBEAT, header(4), b"")
    idle = packets.entry(packets.ROWS, header(4, "XACOMMIT"), number_field(2, 13))
    gtid = packets.entry(packets.GTID, header(4), b"")
    query = packets.entry(
        packets.ROWS, header(4, "QUERY"), bytes_field(11, b"INSERT INTO t VALUES (1)") + number_field(2, 7)
    )
    events, counted = read(packets.packet(0, [beat, idle, gtid, query]))
    assert [type(event) for event in events] == [Heartbeat]
    assert counted == {"statement": 3}
    assert read(packets.packet(0, [])) == ([], {})


@pytest.mark.parametrize(
    ("kind", "value", "error"),
    [
        (packets.ROWS, b"", Malformed),
        (packets.ROWS, number_field(2, 1), Malformed),
        (packets.ROWS, number_field(2, 1) + bytes_field(11, b"INSERT INTO t VALUES (1)"), UnsupportedMessage),
        (packets.ROWS, packets.rows_value("INSERT", [bytes_field(1, column("a", "1"))]), Malformed),
        (packets.ROWS, packets.rows_value("INSERT", [bytes_field(2, column("a", "x"))]), Malformed),
        (9, b"", UnsupportedMessage),
    ],
)
def test_entries_that_are_none(kind: int, value: bytes, error: type[DecodeError]) -> None:
    translator = Translator(PROTOBUF, "debezium-json")
    broken = packets.packet(0, [packets.entry(kind, header(4, "INSERT"), value)])
    with pytest.raises(error):
        translator.translate(record(broken))


def test_text_that_is_no_utf8_is_counted() -> None:
    broken = (
        number_field(2, 12) + bytes_field(3, b"a") + bytes_field(8, b"\xff") + bytes_field(10, b"varchar(9)")
    )
    value = packets.rows_value("INSERT", [bytes_field(2, broken)])
    (change,), counted = read(packets.packet(0, [packets.entry(packets.ROWS, header(4, "INSERT"), value)]))
    assert (image(change), counted["invalid-text"]) == ({"a": "\ufffd"}, 1)


def entry_of(op: str, *rows: bytes) -> bytes:
    value = packets.rows_value(op, rows)
    return packets.packet(0, [packets.entry(packets.ROWS, header(4, op), value)])


KEY = number_field(4, 1)


def test_rows_of_an_entry_with_different_columns_have_the_types_of_their_own() -> None:
    first = bytes_field(2, column("a", "1"))
    second = bytes_field(2, column("b", "2.50", "decimal(5,2)", 3) + KEY)
    (one, two), _ = read(entry_of("INSERT", first, first + second))
    assert (image(one), image(two)) == ({"a": 1}, {"a": 1, "b": Decimal("2.50")})
    assert isinstance(two, RowChange)
    assert two.schema.primary_key == ("b",)


def test_an_update_with_a_minimal_image_has_the_type_and_the_key_of_its_old_columns() -> None:
    """binlog_row_image=MINIMAL: the key before the change, what was changed after it."""
    row = bytes_field(1, column("id", "7", "bigint", -5) + KEY) + bytes_field(2, column("v", "1"))
    (change,), counted = read(entry_of("UPDATE", row))
    assert isinstance(change, RowChange)
    assert change.schema.primary_key == ("id",)
    assert image(change, is_old=True)["id"] == 7
    assert counted == {"schema-inferred": 1, "columns-absent": 1}


@pytest.mark.parametrize(
    "other", [column("v", "1", "varchar(9)", 12), column("v", "1") + KEY, column("v", "1", "")]
)
@pytest.mark.parametrize("op", ["INSERT", "UPDATE", "DELETE"])
def test_an_entry_that_tells_a_column_in_two_ways_is_refused(op: str, other: bytes) -> None:
    rows = {
        "INSERT": [bytes_field(2, column("v", "1")), bytes_field(2, other)],
        "UPDATE": [bytes_field(1, other) + bytes_field(2, column("v", "1"))],
        "DELETE": [bytes_field(1, column("v", "1")), bytes_field(1, other)],
    }
    with pytest.raises(Malformed, match="different types or keys"):
        read(entry_of(op, *rows[op]))


def test_the_number_of_a_type_may_follow_the_value() -> None:
    """Canal says BIGINT of an INT UNSIGNED of 2^31 and more."""
    small, large = column("v", "1", "int unsigned", 4), column("v", "3000000000", "int unsigned", -5)
    changes, _ = read(entry_of("INSERT", bytes_field(2, small), bytes_field(2, large)))
    assert [image(change) for change in changes] == [{"v": 1}, {"v": 3_000_000_000}]


@pytest.mark.parametrize("name", ["v", ""])
@pytest.mark.parametrize(("op", "at"), [("INSERT", 2), ("DELETE", 1), ("UPDATE", 2), ("UPDATE", 1)])
def test_two_columns_of_one_name_are_refused(op: str, at: int, name: str) -> None:
    twice = bytes_field(at, column(name, "1")) + bytes_field(at, column(name, "2"))
    row = twice + (bytes_field(3 - at, column(name, "1")) if op == "UPDATE" else b"")
    with pytest.raises(Malformed, match="two columns of one name"):
        read(entry_of(op, row))


def test_limits() -> None:
    many = packets.packet(0, [insert(number, number) for number in range(1, 5)])
    with pytest.raises(LimitExceeded):
        read(many, limits=Limits(rows=3))
    wide = packets.rows_value(
        "INSERT", [b"".join([bytes_field(2, column(f"c{at}", "1")) for at in range(9)])]
    )
    with pytest.raises(LimitExceeded):
        read(
            packets.packet(0, [packets.entry(packets.ROWS, header(4, "INSERT"), wide)]),
            limits=Limits(columns=8),
        )


# ---------------------------------------------------------------- as Canal's JSON


def rows_of(protocol: str, files: list[str]) -> dict[TableId, list[tuple[Op, Any, Any]]]:
    translator = Translator(protocol, protocol)
    found: dict[TableId, list[tuple[Op, Any, Any]]] = defaultdict(list)
    seen = set()
    for each in (each for file in files for each in captured(file)):
        if each.position not in seen:
            seen.add(each.position)
            for event in translator.inspect(each):
                if isinstance(event, RowChange):
                    found[event.table].append((event.op, event.before, event.after))
    return found


@pytest.mark.parametrize("file", ["01_all_types", "09_dml"])
def test_packets_tell_the_same_rows_as_json(file: str) -> None:
    from_json = rows_of("canal-json", [f"mysql/canal-json/{file}"])
    from_packets = rows_of(PROTOBUF, [f"mysql/canal-protobuf/{file}"])
    assert from_json
    for table, rows in from_json.items():
        # A batch begins before the statements of a file, and ends behind them.
        assert from_packets[table][-len(rows) :] == rows


def test_statements_are_learned_from_hashed_packets() -> None:
    translator = Translator(PROTOBUF, PROTOBUF)
    texts = [
        event.ddl
        for each in captured("mysql/canal-protobuf.hashed/10_ddl")
        for event in translator.inspect(each)
        if isinstance(event, SchemaChange)
    ]
    assert len(texts) == len(set(texts)) > 40


# ---------------------------------------------------------------- written


@pytest.mark.parametrize("file", captured_files("mysql/canal-protobuf"))
def test_rows_are_written_as_canal_does(file: str) -> None:
    translator = Translator(PROTOBUF, PROTOBUF, {}, {"max-batch-size": "100000"})
    for each in captured(file)[:2]:
        (out,) = translator.translate(each)
        pairs = zip(entries(each.value or b""), entries(out.value or b""), strict=False)
        for given, made in pairs:
            assert rows(made) == rows(given)


@pytest.mark.parametrize(
    ("source", "file"),
    [
        ("canal-json", "mysql/canal-json/01_all_types"),
        ("canal-json", "mysql/canal-json/09_dml"),
        ("ticdc-canal-json", "ticdc/canal-json/01_all_types"),
        ("maxwell-json", "mysql/maxwell.full/09_dml"),
    ],
)
def test_rows_of_json_are_written_as_canal_writes_them_in_packets(source: str, file: str) -> None:
    """In their order, among those of the statements around them."""
    translator = Translator(source, PROTOBUF)
    theirs = iter(captured_rows(file.rpartition("/")[2]))
    written = [out.value or b"" for each in captured(file) for out in translator.translate(each)]
    ours = [rows(row) for value in written for row in entries(value)]
    missing = [row for row in ours if not any(row == one for one in theirs)]
    assert len(ours) > 15
    assert missing == []


def captured_rows(file: str) -> list[Any]:
    values = [each.value or b"" for each in captured(f"mysql/canal-protobuf/{file}")]
    return [rows(row) for value in values for row in entries(value)]


def entries(value: bytes) -> list[bytes]:
    """The entries with one row each."""
    body = dict(fields(value))[5]
    assert isinstance(body, bytes)
    found = []
    for number, entry in fields(body):
        if number == 2 and isinstance(entry, bytes):
            parts = dict(fields(entry))
            value_fields = list(fields(parts[3])) if parts.get(2) == packets.ROWS else []  # type: ignore[arg-type]  # a field of this number
            found += [part for name, part in value_fields if name == 12 and isinstance(part, bytes)]
    return found


def rows(row: bytes) -> list[Any]:
    """Columns of a row without their type's text and, of DECIMAL, the digits that Canal leaves out."""
    found = []
    for image_number, part in fields(row):
        assert isinstance(part, bytes)
        parts = dict(fields(part))
        if parts[2] == 3:
            parts[8] = float(parts.get(8, b"0"))  # type: ignore[assignment]  # a field of this number
        parts.pop(10)
        found.append((image_number, parts))
    return found


def test_marks_have_entries_of_their_own_or_none() -> None:
    given = packets.packet(0, [begin(4), insert(1, 90), end(150)])
    kept = Translator(PROTOBUF, PROTOBUF)
    assert len(translated_records(kept, [record(given)])) == 3
    left_out = Translator(PROTOBUF, PROTOBUF, {}, {"canal.instance.filter.transaction.entry": "true"})
    assert len(translated_records(left_out, [record(given)])) == 1
    assert left_out.losses[Loss.TRANSACTION_MARK] == 2


def test_maxwell_gets_the_transactions_of_packets() -> None:
    given = packets.packet(0, [begin(4), insert(1, 90), insert(2, 120), end(150)])
    translator = Translator(PROTOBUF, "maxwell-json")
    messages = [json.loads(out.value or b"") for out in translator.translate(record(given))]
    assert [(each["xid"], each.get("xoffset"), each.get("commit")) for each in messages] == [
        (99, 0, None),
        (99, None, True),
    ]
