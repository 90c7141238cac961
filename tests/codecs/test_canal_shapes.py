"""What a message's shape costs: the order of its members, rows of different columns, long names of keys."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Iterator
from typing import Any

import pytest

from relay import ConsumerRecord, Translator
from relay.codecs.canal import ckafka_rows, reading

_FIRST_MS = 1_795_254_680_000


def columns(count: int) -> dict[str, str]:
    return {f"c{at}": ("bigint", "varchar", "decimal")[at % 3] for at in range(count)}


def create(table: dict[str, str]) -> dict[str, Any]:
    types = {"bigint": "BIGINT", "varchar": "VARCHAR(20)", "decimal": "DECIMAL(10,2)"}
    listed = ", ".join(f"`{name}` {types[each]}" for name, each in table.items())
    sql = f"CREATE TABLE t ({listed}, PRIMARY KEY (c0))"
    return message("CREATE", 0, isDdl=True, sql=sql, pkNames=None, sqlType=None, mysqlType=None)


def message(type_: str, number: int, **members: Any) -> dict[str, Any]:
    times = {"es": _FIRST_MS + number, "ts": _FIRST_MS + number}
    ids = {"id": 0, "database": "d", "table": "t", "pkNames": ["c0"], "isDdl": False, "type": type_}
    rest: dict[str, Any] = {"sql": "", "sqlType": {}, "mysqlType": {}, "old": None, "data": None}
    return ids | times | rest | members


def record(document: dict[str, Any], offset: int) -> ConsumerRecord:
    return ConsumerRecord("topic", 0, offset, _FIRST_MS + offset, None, json.dumps(document).encode())


def values(table: dict[str, str], number: int) -> dict[str, str]:
    return {name: f"{number}.00" if kind == "decimal" else str(number) for name, kind in table.items()}


def shuffled(members: dict[str, str], chance: random.Random) -> dict[str, str]:
    return dict(chance.sample([*members.items()], len(members)))


def rows(table: dict[str, str], count: int, *, member: str) -> Iterator[ConsumerRecord]:
    """Inserts whose `member` has a new order each time."""
    chance = random.Random(count)
    for number in range(1, count + 1):
        row = values(table, number)
        types = shuffled(table, chance) if member == "mysqlType" else table
        data = shuffled(row, chance) if member == "data" else row
        yield record(message("INSERT", number, mysqlType=types, data=[data]), number)


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """The readers that are compiled from here on."""
    made: list[object] = []

    class Counted(reading.TextReader):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            made.append(self)

    monkeypatch.setattr(reading, "TextReader", Counted)
    monkeypatch.setattr(ckafka_rows, "TextReader", Counted)
    return made


@pytest.mark.parametrize("member", ["mysqlType", "data"])
@pytest.mark.parametrize("target", ["canal-json", "ticdc-open-protocol"])
def test_the_order_of_members_costs_no_memory(member: str, target: str) -> None:
    """Go prints a map of more than 8 members in a new order each time."""
    table = columns(200)
    translator = Translator("ticdc-canal-json", target)
    tracemalloc.start()
    try:
        translator.translate(record(create(table), 0))
        before, _ = tracemalloc.get_traced_memory()
        for each in rows(table, 300, member=member):
            translator.translate(each)
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert after - before < 500_000


@pytest.mark.parametrize("member", ["mysqlType", "data"])
def test_the_order_of_members_compiles_nothing(member: str, compiled: list[object]) -> None:
    table = columns(20)
    translator = Translator("ticdc-canal-json", "canal-json")
    translator.translate(record(create(table), 0))
    for each in rows(table, 100, member=member):
        translator.translate(each)
    assert len(compiled) == 1


@pytest.mark.parametrize("member", ["mysqlType", "data"])
@pytest.mark.parametrize("is_known", [True, False])
def test_the_order_of_members_changes_no_value(member: str, is_known: bool) -> None:
    table = columns(12)
    translator = Translator("ticdc-canal-json", "canal-json")
    if is_known:
        translator.translate(record(create(table), 0))
    for number, each in enumerate(rows(table, 20, member=member), 1):
        (out,) = translator.translate(each)
        written = json.loads(out.value or b"")
        assert written["data"] == [values(table, number)]
        if is_known or member != "data":
            assert list(written["data"][0]) == list(table)


def test_another_type_in_a_new_order_is_seen() -> None:
    """A definition is not taken from the message before: types may change without a statement."""
    table = columns(12)
    translator = Translator("ticdc-canal-json", "canal-json")
    chance = random.Random(1)
    for number, kind in enumerate(["bigint", "varchar", "bigint", "decimal"]):
        types = shuffled(table | {"c5": kind}, chance)
        row = dict.fromkeys(table, "1")
        (out,) = translator.translate(record(message("INSERT", number, mysqlType=types, data=[row]), number))
        assert json.loads(out.value or b"")["mysqlType"]["c5"] == kind
