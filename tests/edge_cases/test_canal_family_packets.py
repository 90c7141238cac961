"""The Canal family's edge cases of packets (Protocol Buffers)."""

from __future__ import annotations

import pytest
from edge_cases.canal_family import CASES
from packet_support import UPDATE, begin, column, end, header, image, insert, read

from relay import RowChange, Source, TableId, Transaction, TransactionMark, UnsupportedMessage
from relay.codecs.canal.canal_protobuf import packets
from relay.codecs.canal.canal_protobuf.protobuf import bytes_field, fields, number_field


@CASES.covers("92")
def test_an_update_from_null_to_a_value() -> None:
    (change,), counted = read(UPDATE)
    assert isinstance(change, RowChange)
    assert (image(change, is_old=True), image(change)) == ({"id": 1, "v": None}, {"id": 1, "v": "x"})
    assert change.schema.primary_key == ("id",)
    assert change.source == Source(
        "canal", 1_589_373_546_000 * 10**6, binlog_file="mysql-bin.000003", binlog_position=484, server_id=1
    )
    assert counted == {"schema-inferred": 1}


@CASES.covers("89")
def test_packets_without_version_and_with_batch_id_are_the_same() -> None:
    body = bytes_field(5, number_field(1, 77) + dict(fields(UPDATE))[5])  # type: ignore[operator]  # the part is bytes
    assert read(number_field(3, 7) + body) == read(UPDATE)
    with_magic = number_field(1, 17) + UPDATE
    assert read(with_magic) == read(UPDATE)


@CASES.covers("90")
def test_columns_are_known_by_their_names_and_values() -> None:
    """TiCDC numbers none, and says of each that it has changed."""

    def columns(field: int, text: str) -> bytes:
        parts = [column("id", "1") + number_field(5, 1), column("v", text) + number_field(5, 1)]
        return b"".join([bytes_field(field, part) for part in parts])

    value = packets.rows_value("UPDATE", [columns(1, "2") + columns(2, "3")])
    (change,), _ = read(packets.packet(0, [packets.entry(packets.ROWS, header(4, "UPDATE"), value)]))
    assert (image(change, is_old=True), image(change)) == ({"id": 1, "v": 2}, {"id": 1, "v": 3})


@CASES.covers("91")
@pytest.mark.parametrize("compression", [2, 3, 4])
def test_compressed_packets_are_refused(compression: int) -> None:
    with pytest.raises(UnsupportedMessage, match="compress"):
        read(UPDATE + number_field(4, compression))
    assert read(UPDATE + number_field(4, 1)) == read(UPDATE)


@CASES.covers("89")
def test_rows_of_one_packet_are_in_their_transaction() -> None:
    (mark, one, two, last), _ = read(packets.packet(0, [begin(4), insert(1, 90), insert(2, 120), end(150)]))
    assert isinstance(mark, TransactionMark)
    assert (mark.is_begin, mark.id) == (True, "99")
    assert isinstance(one, RowChange)
    assert (one.transaction, one.source.thread_id) == (Transaction("99", 1), 5)
    assert isinstance(two, RowChange)
    assert two.transaction == Transaction("99", 2)
    assert isinstance(last, TransactionMark)
    assert (last.is_begin, last.id, last.count, last.table_counts) == (
        False,
        "99",
        2,
        ((TableId("d", "t"), 2),),
    )
