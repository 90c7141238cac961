"""What a message's shape costs: the order of its members, rows of different columns, long names of keys."""

from __future__ import annotations

import json
import random
import tracemalloc
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from relay import ConsumerRecord, Translator
from relay.codecs.canal.ckafka import rows as ckafka_rows
from relay.codecs.canal.shared import row_readers as text_readers
from relay.codecs.canal.shared.rows import TextReader
from relay.codecs.canal.shared.split_rows import parts
from relay.codecs.canal.shared.wire_table import parse_mysql_types
from relay.codecs.shared.tables import Tables
from relay.model.errors import CodecError, Malformed

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

    class Counted(TextReader):
        def __init__(self, *arguments: Any, **named: Any) -> None:
            super().__init__(*arguments, **named)
            made.append(self)

    monkeypatch.setattr(text_readers, "TextReader", Counted)
    monkeypatch.setattr(ckafka_rows, "TextReader", Counted)
    return made


@pytest.mark.one_case
@pytest.mark.parametrize("member", ["mysqlType", "data"])
@pytest.mark.parametrize("target", ["canal-json", "ticdc-open-protocol"])
def test_the_order_of_members_costs_no_memory(member: str, target: str) -> None:
    """Go prints a map of more than 8 members in a new order each time."""
    # Threads that other tests have left behind allocate, too, now and then.
    assert any(grown_by(target, member) < 500_000 for _ in range(3))


def grown_by(target: str, member: str) -> int:
    """How many bytes more a translator holds after rows of many columns in ever new orders."""
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
    return after - before


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


_TYPES_IN_ANOTHER_FORM = {
    "as they are": lambda types: types,
    "another one": lambda types: types.replace('"c5": "decimal"', '"c5": "text"'),
    "one more": lambda types: types.replace("{", '{"c99": "int", ', 1),
    "one less": lambda types: types.replace('"c5": "decimal"', '"c1": "varchar"'),
    "one twice": lambda types: types.replace("{", '{"c5": "decimal", ', 1),
    "one twice, and first another": lambda types: types.replace("{", '{"c5": "text", ', 1),
    "one twice, and last another": lambda types: types[:-1] + ', "c5": "text"}',
    "an escaped name": lambda types: types.replace('"c5"', '"c\\u0035"'),
    "an escaped type": lambda types: types.replace('"c5": "decimal"', '"c5": "de\\u0063imal"'),
    "in capitals": lambda types: types.replace('"c5": "decimal"', '"c5": "DECIMAL"'),
    "null": lambda types: types.replace('"c5": "decimal"', '"c5": null'),
    "a number": lambda types: types.replace('"c5": "decimal"', '"c5": 5'),
    "nothing": lambda _: "null",
    "no members": lambda _: "{}",
    "a list": lambda _: "[]",
    "cut off": lambda types: types[:-1],
}


def outcome(translator: Translator, given: ConsumerRecord) -> object:
    try:
        return translator.translate(given)
    except CodecError as error:
        return type(error), str(error)


@pytest.mark.parametrize("form", _TYPES_IN_ANOTHER_FORM.values(), ids=_TYPES_IN_ANOTHER_FORM.keys())
@pytest.mark.parametrize("count", [12, 60], ids="{} columns".format)
@pytest.mark.parametrize("is_known", [True, False], ids=["known", "inferred"])
def test_types_are_read_the_same_after_many_orders(
    is_known: bool, count: int, form: Callable[[str], str]
) -> None:
    """What knows the types of the rows before takes no others for them."""
    table = columns(count)
    warm, cold = (Translator("ticdc-canal-json", "canal-json") for _ in range(2))
    for translator in (warm, cold):
        if is_known:
            translator.translate(record(create(table), 0))
    for each in rows(table, 60, member="mysqlType"):
        warm.translate(each)
    chance = random.Random(1)
    for number in range(61, 64):
        text = json.dumps(shuffled(table, chance))
        given = json.dumps(message("INSERT", number, mysqlType="types", data=[values(table, number)]))
        value = given.replace('"types"', form(text)).encode()
        sent = ConsumerRecord("topic", 0, number, _FIRST_MS + number, None, value)
        assert outcome(warm, sent) == outcome(cold, sent)


def test_types_in_many_orders_are_known_without_being_read(monkeypatch: pytest.MonkeyPatch) -> None:
    table = columns(12)
    translator = Translator("ticdc-canal-json", "canal-json")
    translator.translate(record(create(table), 0))
    read = []

    def noting(*arguments: Any) -> Any:
        read.append(arguments)
        return parse(*arguments)

    parse = parse_mysql_types
    monkeypatch.setattr(text_readers, "parse_mysql_types", noting)
    for each in rows(table, 100, member="mysqlType"):
        translator.translate(each)
    assert 0 < len(read) < 30


@pytest.mark.parametrize("nothing", [None, {}], ids=["null", "no members"])
def test_rows_without_types_are_known_beside_rows_in_many_orders(
    nothing: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    table = columns(12)
    translator = Translator("ticdc-canal-json", "canal-json")
    translator.translate(record(create(table), 0))
    for each in rows(table, 40, member="mysqlType"):
        translator.translate(each)
    calls, compiled = [], text_readers.TableReaders.compiled

    def noting(*arguments: Any) -> Any:
        calls.append(arguments)
        return compiled(*arguments)

    monkeypatch.setattr(text_readers.TableReaders, "compiled", noting)
    few = {"c0": "bigint", "c1": "varchar"}
    for number in range(41, 141):
        row = message("INSERT", number, mysqlType=nothing, data=[values(few, number)])
        translator.translate(record(row, number))
    assert len(calls) <= 2


def test_only_what_is_made_is_charged(monkeypatch: pytest.MonkeyPatch) -> None:
    """A table has too many columns for its types to be known in any order without being read."""
    charged, charge = [], Tables.charge

    def noting(tables: Any, table: Any, size: int) -> None:
        charged.append(size)
        charge(tables, table, size)

    table = columns(1000)
    translator = Translator("ticdc-canal-json", "canal-json")
    translator.translate(record(create(table), 0))
    monkeypatch.setattr(Tables, "charge", noting)
    for each in rows(table, 40, member="mysqlType"):
        translator.translate(each)
    assert charged
    assert text_readers.CHECKER_BYTES + 1000 * text_readers.CHECKED_MEMBER_BYTES not in charged


@pytest.mark.parametrize("member", ["data", "old"])
def test_lists_without_end_are_no_rows(member: str) -> None:
    """Nor of what is asked before a message is read: whether each of its rows could be a message."""
    row, deep = b'[{"a":"1"},{"a":"2"}]', b"[" * 5_000 + b"]" * 5_000
    lists = {"data": row, "old": row, member: b"[%b,%b]" % (deep, deep)}
    if member == "old":  # it begins with an object, as rows do
        lists["old"] = b'[{"a":%b},{}]' % deep
    value = (
        b'{"data":%b,"database":"d","es":1,"id":1,"isDdl":false,"mysqlType":{"a":"int"},"old":%b,'
        b'"pkNames":null,"sql":"","sqlType":{"a":4},"table":"t","ts":1,"type":"UPDATE"}'
    ) % (lists["data"], lists["old"])
    deeply_nested = ConsumerRecord("topic", 0, 0, _FIRST_MS, None, value)
    assert parts(deeply_nested) == ()
    with pytest.raises(Malformed):
        Translator("canal-json", "canal-json").translate(deeply_nested)
