"""TiCDC Simple as JSON as a source of templates and as their target: which rows fit; the same comes out of the
others, too.
"""

from __future__ import annotations

import json
from typing import Any

import pytest
from engine_support import ENGINES
from support import CANAL, TICDC, captured
from templates_support import Both

from relay import ConsumerRecord
from relay.codecs.losses import Loss
from relay.templates.engine import Engine

SIMPLE, DEBEZIUM = "ticdc-simple-json", "debezium-json"
VERSION = 470615235774906368
COMMIT_TS = VERSION + (5 << 18)
UTC_TIME = {"location": "UTC", "value": "2026-01-15 10:20:30"}
Row = dict[str, Any]

pytestmark = pytest.mark.parametrize("engine", ENGINES)


def record(value: Any, key: bytes | None = None, offset: int = 9) -> ConsumerRecord:
    data = value if isinstance(value, bytes) else json.dumps(value, separators=(",", ":")).encode()
    return ConsumerRecord("rows", 0, offset, 1795254653118, key, data)


def row(data: Row | None, old: Row | None = None, kind: str = "INSERT", **more: Any) -> ConsumerRecord:
    """A row of shop.t."""
    message = {
        "version": 1, "database": "shop", "table": "t", "tableID": 7, "type": kind, "commitTs": COMMIT_TS,
        "buildTs": 1795254653321, "schemaVersion": VERSION, **more,
    }  # fmt: skip
    message |= {} if data is None else {"data": data}
    return record(message | ({} if old is None else {"old": old}))


def bootstrap(**types: str) -> ConsumerRecord:
    """The definition of shop.t: `id`, and columns of these types."""
    columns = [
        {"name": name, "dataType": {"mysqlType": base}, "nullable": name != "id", "default": None}
        for name, base in {"id": "int", **types}.items()
    ]
    index = {"name": "primary", "unique": True, "primary": True, "nullable": False, "columns": ["id"]}
    table = {
        "schema": "shop", "table": "t", "tableID": 7, "version": VERSION, "columns": columns, "indexes": [index]
    }  # fmt: skip
    message = {"version": 1, "type": "BOOTSTRAP", "commitTs": 0, "buildTs": 1, "tableSchema": table}
    return record(message, offset=1)


class Pair(Both):
    """A route with and without templates that knows a table."""

    def __init__(
        self, engine: type[Engine], target: str = CANAL, types: Row | None = None, **more: Any
    ) -> None:
        super().__init__(SIMPLE, target=target, engine=engine, **more)
        self.fits(bootstrap(**types or {"v": "varchar"}))

    def learns(self, one: ConsumerRecord) -> bool:
        """Show a record until its shape has a template; whether it has one."""
        self.fits(one)
        self.fits(one)
        return self.fits(one)


FIRST: Row = {"id": "1", "v": "a"}


def test_rows_of_one_shape(engine: type[Engine]) -> None:
    both = Pair(engine)
    assert both.learns(row(FIRST))
    assert both.fits(row({"id": "2", "v": None}, commitTs=COMMIT_TS - (9 << 18), buildTs=5))
    assert both.fits(row({"id": "2", "v": '<"\u2028>'}))
    for odd in (
        row({"id": 2, "v": "b"}),
        row({"id": "x", "v": "b"}),
        row({"id": "2"}),
        row({"id": "2", "v": "b", "w": "c"}),
        row({"id": "2", "v": UTC_TIME}),
        row(FIRST, schemaVersion=VERSION + 1),
        row(FIRST, tableID=8),
        row(FIRST, commitTs=-1),
        row(FIRST, buildTs=0),
        row(FIRST, handleKeyOnly=True),
        row(FIRST, old=FIRST),
        record(row(FIRST).value, b"key"),
    ):
        assert not both.fits(odd), odd


def test_transactions_differ_by_their_start_ts(engine: type[Engine]) -> None:
    both = Pair(engine)
    assert both.learns(row(FIRST, startTs=COMMIT_TS - 9))
    assert both.fits(row(FIRST, startTs=COMMIT_TS - 5))
    assert not both.fits(row(FIRST, startTs=0))
    assert not both.fits(row(FIRST, startTs=-1))


def test_updates_and_deletes(engine: type[Engine]) -> None:
    both = Pair(engine, DEBEZIUM)
    assert both.learns(row(FIRST, FIRST | {"v": "b"}, "UPDATE"))
    assert both.fits(row({"id": "2", "v": None}, {"id": "2", "v": None}, "UPDATE"))
    assert not both.fits(row(FIRST, FIRST | {"id": "2"}, "UPDATE")), "another key"
    both = Pair(engine, DEBEZIUM)
    assert both.learns(row(None, FIRST, "DELETE"))
    assert both.fits(row(None, {"id": "5", "v": None}, "DELETE"))
    both = Pair(engine, DEBEZIUM)
    assert both.learns(row(FIRST, kind="UPDATE")), "without its old row"
    assert both.templated.losses[Loss.BEFORE_MISSING] == 3


def test_times_with_their_zone(engine: type[Engine]) -> None:
    both = Pair(engine, types={"v": "timestamp"})
    assert both.learns(row({"id": "1", "v": UTC_TIME}))
    assert both.fits(row({"id": "1", "v": UTC_TIME | {"value": "2026-01-15 10:20:30.123456"}}))
    for odd in (
        None,
        "2026-01-15 10:20:30",
        UTC_TIME | {"location": "Asia/Shanghai"},
        UTC_TIME | {"value": "2026-01-15 10:20:30Z"},
        UTC_TIME | {"more": "x"},
    ):
        assert not both.fits(row({"id": "1", "v": odd})), odd
    both = Pair(engine, types={"v": "timestamp"})
    assert both.learns(row({"id": "1", "v": None}))
    both = Pair(engine, types={"v": "timestamp"})
    assert not both.learns(row({"id": "1", "v": UTC_TIME | {"location": "Asia/Shanghai"}}))


def test_numbers_of_members(engine: type[Engine]) -> None:
    both = Pair(engine, types={"v": "enum"})
    assert both.learns(row({"id": "1", "v": "2"}))
    assert both.fits(row({"id": "1", "v": "0"}))
    assert not both.fits(row({"id": "1", "v": "-1"}))
    assert not both.fits(row({"id": "1", "v": "a"}))


def test_checksums(engine: type[Engine]) -> None:
    sums = {"version": 0, "corrupted": False, "current": 5, "previous": 0}
    both = Pair(engine)
    assert both.learns(row(FIRST, checksum=sums))
    assert both.fits(row(FIRST, checksum=sums | {"current": 6}))
    assert not both.fits(row(FIRST, checksum=sums | {"corrupted": True}))
    both = Pair(engine, options={"integrity-check-level": "correctness"})
    assert not both.learns(row(FIRST, checksum=sums))


def test_rows_that_are_written(engine: type[Engine]) -> None:
    both = Both(TICDC, target=SIMPLE, engine=engine)
    records = captured("ticdc/canal-json.tidb-extension/01_all_types")
    for each in (*records, *[each for each in records if b'"isDdl":false' in (each.value or b"")] * 3):
        both.fits(each)
    assert both.templated.paths["fast"] > 25


def test_text_as_go_prints_it(engine: type[Engine]) -> None:
    both = Pair(engine, SIMPLE)
    assert both.learns(row(FIRST))
    assert both.fits(row({"id": "1", "v": "<a & b>\u2028\u2029\u2030\b\f"}))


def test_rows_with_a_definition_before_them(engine: type[Engine]) -> None:
    both = Pair(engine, SIMPLE, target_options={"send-bootstrap-in-msg-count": "5"})
    assert not both.learns(row(FIRST)), "the last one of five"
    both = Pair(engine, SIMPLE, target_options={"send-bootstrap-in-msg-count": "6"})
    assert both.learns(row(FIRST))
    other = row({"id": "2", "v": "b"})
    assert not both.fits(ConsumerRecord("rows", 0, 11, other.timestamp_ms, None, other.value))
    assert both.fits(ConsumerRecord("rows", 0, 12, other.timestamp_ms, None, other.value))


def test_a_tombstone_counts_nothing_that_its_row_would_lose(engine: type[Engine]) -> None:
    options = {"zero-dates": "null", "deletes": "tombstone"}
    both = Both(SIMPLE, target="flat-json", engine=engine, target_options=options)
    both.fits(bootstrap(at="datetime"))
    for at in [*["2024-01-02 00:00:00"] * 6, "2026-00-01 00:00:00"]:
        both.fits(row(None, {"id": "1", "at": at}, "DELETE"))
    assert Loss.ZERO_DATE not in both.templated.losses
