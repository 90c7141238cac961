"""Worked examples of Open Protocol, byte by byte: read, and written again."""

from __future__ import annotations

from typing import Any

import cramjam
import pytest
from open_support import (
    V1,
    cell,
    change,
    counted,
    ddl,
    framed,
    raw,
    row,
    segment,
    written,
)
from support import OPEN

from relay import ConsumerRecord, RowChange, TableId, Translator

CREATE_ORDERS = (
    "CREATE TABLE `orders` (id BIGINT UNSIGNED PRIMARY KEY, name VARCHAR(16), note VARBINARY(16), amt DECIMAL(10,2),"
    " st ENUM('new','paid'), doc TEXT, ts TIMESTAMP(3))"
)
T1, PT = (
    "CREATE TABLE t1 (id INT PRIMARY KEY, val VARCHAR(16))",
    "CREATE TABLE pt (id INT PRIMARY KEY, v BIT(8))",
)
TSO = 458210000000000000


def example(key_hex: str, key: str, value_hex: str, value: str) -> tuple[bytes, bytes]:
    """One event's record: the lengths in hex, then the JSON."""
    return V1 + bytes.fromhex(key_hex) + key.encode(), bytes.fromhex(value_hex) + value.encode()


INSERT = example(
    "000000000000003b", '{"ts":458210000000000001,"scm":"shop","tbl":"orders","t":1}',
    "000000000000012e", '{"u":{"id":{"t":8,"h":true,"f":139,"v":18446744073709551615},"name":{"t":15,"f":64,"v":"a<b>测"},'
    r'"note":{"t":15,"f":65,"v":"\\x89PNG\\r\\n"},"amt":{"t":246,"f":65,"v":"12.50"},"st":{"t":247,"f":64,"v":2},'
    '"doc":{"t":252,"f":64,"v":"5rWL6K+VdGV4dA=="},"ts":{"t":7,"f":65,"v":"2026-01-02 03:04:05.678"}}}',
)  # fmt: skip
CLASSIC_INSERT = example(
    "0000000000000044", '{"ts":458210000000000001,"scm":"shop","tbl":"orders","rid":-1,"t":1}',
    "0000000000000138", '{"u":{"amt":{"t":246,"f":65,"v":"12.50"},"doc":{"t":252,"f":64,"v":"5rWL6K+VdGV4dA=="},'
    '"id":{"t":8,"h":true,"f":139,"v":18446744073709551615},'
    r'"name":{"t":15,"f":64,"v":"a\u003cb\u003e测"},'
    r'"note":{"t":15,"f":65,"v":"\\x89PNG\\r\\n"},"st":{"t":247,"f":64,"v":2},'
    '"ts":{"t":7,"f":65,"v":"2026-01-02 03:04:05.678"}}}',
)  # fmt: skip
UPDATE = example(
    "0000000000000037", '{"ts":458210000000000002,"scm":"test","tbl":"t1","t":1}',
    "0000000000000091", '{"u":{"id":{"t":3,"h":true,"f":11,"v":2},"val":{"t":15,"f":64,"v":"bb"}},'
    '"p":{"id":{"t":3,"h":true,"f":11,"v":2},"val":{"t":15,"f":64,"v":"aa"}}}',
)  # fmt: skip
DELETE = example(
    "0000000000000037", '{"ts":458210000000000003,"scm":"test","tbl":"t1","t":1}',
    "000000000000002a", '{"d":{"id":{"t":3,"h":true,"f":11,"v":2}}}',
)  # fmt: skip
BATCH = (
    V1
    + bytes.fromhex("0000000000000037") + b'{"ts":458210000000000004,"scm":"test","tbl":"t1","t":1}'
    + bytes.fromhex("0000000000000037") + b'{"ts":458210000000000004,"scm":"test","tbl":"t1","t":1}'
    + bytes.fromhex("0000000000000041") + b'{"ts":458210000000000005,"scm":"test","tbl":"pt","t":1,"ptn":112}',
    bytes.fromhex("0000000000000049") + b'{"d":{"id":{"t":3,"h":true,"f":11,"v":1},"val":{"t":15,"f":64,"v":"aa"}}}'
    + bytes.fromhex("0000000000000049") + b'{"u":{"id":{"t":3,"h":true,"f":11,"v":4},"val":{"t":15,"f":64,"v":"dd"}}}'
    + bytes.fromhex("0000000000000047") + b'{"u":{"id":{"t":3,"h":true,"f":11,"v":9},"v":{"t":16,"f":193,"v":129}}}',
)  # fmt: skip
STATEMENT = example(
    "0000000000000037", '{"ts":458210000000000006,"scm":"test","tbl":"t1","t":2}',
    "0000000000000031", '{"q":"ALTER TABLE `t1` ADD COLUMN `c` INT","t":5}',
)  # fmt: skip
DATABASE = example(
    "0000000000000035", '{"ts":458210000000000006,"scm":"test","tbl":"","t":2}',
    "0000000000000024", '{"q":"CREATE DATABASE `test`","t":1}',
)  # fmt: skip
RESOLVED = example("000000000000001f", '{"ts":458210000000000007,"t":3}', "0000000000000000", "")


def known(*tables: str, database: str = "test") -> list[ConsumerRecord]:
    """The tables' DDL, before the examples."""
    return [
        framed(ddl(sql, ts=TSO - 1, scm=database, tbl=sql.split()[2].strip("`")), offset=at)
        for at, sql in enumerate(tables)
    ]


@pytest.mark.parametrize(
    ("example", "tables", "options"),
    [
        (INSERT, known(CREATE_ORDERS, database="shop"), {}),
        (INSERT, [], {}),
        (UPDATE, known(T1), {}),
        (UPDATE, [], {}),
        (DELETE, known(T1), {}),
        (DELETE, [], {}),
        (BATCH, known(T1, PT), {"max-batch-size": "16"}),
        (BATCH, [], {"max-batch-size": "16"}),
        (STATEMENT, known(T1), {}),
        (DATABASE, [], {}),
        (RESOLVED, [], {}),
    ],
)
def test_worked_examples_come_back_byte_by_byte(
    example: tuple[bytes, bytes], tables: list[ConsumerRecord], options: dict[str, str]
) -> None:
    translator = Translator(OPEN, OPEN, None, options)
    for one in tables:
        translator.translate(one)
    key, value = example
    (out,) = translator.translate(raw(key, value, offset=9))
    assert (out.key, out.value) == example


def test_the_lengths_of_the_examples() -> None:
    assert [(len(key), len(value)) for key, value in (INSERT, CLASSIC_INSERT, UPDATE, DELETE, BATCH, STATEMENT, RESOLVED)] == [
        (75, 310), (84, 320), (71, 153), (71, 50), (207, 241), (71, 57), (47, 8),
    ]  # fmt: skip


def test_the_classic_architectures_insert_is_the_same_row() -> None:
    def read_with_definition(message: tuple[bytes, bytes]) -> Any:
        translator = Translator(OPEN, OPEN)
        for one in known(CREATE_ORDERS, database="shop"):
            translator.inspect(one)
        key, value = message
        return translator.inspect(raw(key, value, offset=9))

    (found,) = read_with_definition(CLASSIC_INSERT)
    assert [found] == read_with_definition(INSERT)
    assert isinstance(found, RowChange)
    assert found.table == TableId("shop", "orders")
    row_ = (18446744073709551615, "a<b>测", b"\x89PNG\r\n", "12.50", 2, "测试text", "2026-01-02 03:04:05.678")
    assert tuple(str(value) if at == 3 else value for at, value in enumerate(found.after or ())) == row_
    assert (found.source.commit_ts, found.source.event_time_ns) == (TSO + 1, (TSO + 1 >> 18) * 1_000_000)
    assert found.emitted_at_ns == 1700000000456_000_000


def test_examples_of_large_messages() -> None:
    key, value = (
        '{"ts":458210000000000009,"scm":"test","tbl":"t1","t":1,"ohk":true}',
        '{"u":{"id":{"t":3,"h":true,"f":11,"v":6}}}',
    )
    assert change((key, value)).after == (6,)
    assert counted([framed((key, value))]) == {"columns-absent": 1}
    rows = framed(
        row(
            {"u": {"id": cell(3, 6, 11, h=True), "val": cell(15, "a" * 99, 64)}},
            ts=TSO + 9,
            scm="test",
            tbl="t1",
        )
    )
    limited = {"max-message-bytes": "200", "large-message-handle-option": "handle-key-only"}
    assert written([rows], limited) == [[(key.encode(), value.encode())]]
    statement = b'{"q":"ALTER TABLE `t1` ADD COLUMN `c` INT","t":5}'
    snappy = bytes.fromhex(
        "31c07b2271223a22414c544552205441424c4520607431602041444420434f4c554d4e2060636020494e54222c2274223a357d"
    )
    out = written([raw(*STATEMENT)], {"large-message-handle-compression": "snappy"})
    assert out == [[(STATEMENT[0][16:], snappy)]]
    assert written([raw(STATEMENT[0], segment(snappy))]) == [[(STATEMENT[0][16:], statement)]]


@pytest.mark.parametrize("setting", ["auto", "snappy"])
def test_a_snappy_block_may_begin_with_a_brace(setting: str) -> None:
    """Its first byte is its length, and 123 is a brace."""
    plain = b'{"u":{"a":{"t":15,"f":64,"v":"%b"}}}' % (b"wxyz" * 22 + b"v")
    assert len(plain) == ord("{")
    block = bytes(cramjam.snappy.compress_raw(plain))
    assert block.startswith(b"{")
    assert change(row(block), options={"large-message-handle-compression": setting}).after == (
        "wxyz" * 22 + "v",
    )
