"""What the decoder of Open Protocol keeps: bounded in bytes, and never needed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest
from cost_support import assert_cheap, held_by
from open_support import Message, cell, ddl, framed, records, row
from support import OPEN

from relay import Translator
from relay.catalog import Catalog
from relay.codecs.given_options import parse_options
from relay.codecs.open_protocol.decoder import OpenProtocolDecoder
from relay.codecs.open_protocol.protocol import CODEC
from relay.model.limits import Limits
from relay.model.lookups import LookupCache

#: Rows of one shape until something is compiled for them.
USES = 16


@pytest.fixture(autouse=True)
def as_usual(compile_at: Callable[[int], None]) -> None:
    compile_at(USES)


def wide(columns: int, table: str = "t", first: int = 0) -> Message:
    cells = {f"{table}_column_{at}": cell(15, "x", 64) for at in range(first, first + columns - 1)}
    return row({"u": {"id": cell(3, 1, 11, h=True)} | cells}, tbl=table, ts=10)


def decoder(cache_bytes: int) -> OpenProtocolDecoder:
    options: Any = parse_options(CODEC, {}, "from.option")
    return OpenProtocolDecoder(options, LookupCache(Limits(cache_bytes=cache_bytes)))


def kept(of: OpenProtocolDecoder) -> int:
    """About how many bytes are kept, by the number of columns."""
    return sum(1_900 * len(layout.declared) for table in of.rows.tables.values() for layout in table.kept)


@pytest.mark.parametrize("cache_bytes", [1, 100_000, 1_000_000])
def test_a_small_cache_reads_the_same(cache_bytes: int) -> None:
    messages = [
        wide(columns, f"t{table}", shape)
        for shape in range(3)
        for columns in (1, 2, 30)
        for table in range(20)
        for _ in range(USES + 2)
    ]
    messages.insert(2000, ddl("DROP TABLE t5", 4, tbl="t5", ts=11))
    messages.insert(2300, ddl("DROP TABLE nobody", 4, tbl="nobody", ts=11))
    small, large = decoder(cache_bytes), decoder(1 << 30)
    for record in records(*messages):
        found, wanted = (each.decode(record, Catalog(), [])[0] for each in (small, large))
        assert found == wanted
        newest = 1_900 * 30 if cache_bytes == 1 else 0
        assert kept(small) <= max(cache_bytes, newest)
    assert kept(large) > 1_000_000


def test_a_table_is_forgotten_when_its_statement_comes_and_the_account_is_right() -> None:
    one = decoder(1 << 30)
    catalog = Catalog()
    for record in records(
        *[wide(30, f"t{table}") for table in range(9)], ddl("DROP TABLE t5", 4, tbl="t5", ts=11)
    ):
        _, catalog = one.decode(record, catalog, [])
    tables = one.rows.tables
    assert len(tables) == 8
    names = 2 * len("dt0")
    assert tables.bytes == 8 * (12_000 + 30 * 1_900 + 1_000 + names)
    tables.clear()
    assert tables.bytes == 0


@pytest.mark.parametrize("target", [OPEN, "canal-json", "ticdc-debezium"])
def test_a_table_of_200_columns_takes_less_than_half_a_megabyte(target: str) -> None:
    translator = Translator(OPEN, target)

    def held(table: str) -> int:
        given = records(*[wide(200, table)] * 20)
        return held_by(lambda: [translator.translate(record) for record in given])

    # Python's own dictionary of interned names may grow by megabytes at one of them.
    assert min(held("first"), held("second")) < 500_000


@pytest.mark.parametrize(
    "messages",
    [
        [wide(2, "t", at) for at in range(6_000)],
        [wide(2, "t", at // USES) for at in range(6_000)],
        [wide(2, f"t{at}") for at in range(4_000)],
        [wide(1)] * 12_000,
    ],
    ids=["shapes", "shapes that are compiled", "tables", "rows"],
)
def test_a_megabyte_of_rows_in_one_message_takes_little_time(messages: list[Message]) -> None:
    record = framed(*messages)
    assert 500_000 < len(record.key or b"") + len(record.value or b"") < 1_600_000
    translator = Translator(OPEN, OPEN, None, {"max-batch-size": "100000"}, limits=Limits(rows=100_000))

    def translated() -> None:
        (out,) = translator.translate(record)
        assert len(out.value or b"") > 300_000

    assert_cheap(translated)
