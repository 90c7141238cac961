"""Tables with many columns: what a row, its shape and a table cost, on every route."""

from __future__ import annotations

import functools
import json
import random
from collections.abc import Callable, Sequence
from typing import Any
from unittest import mock

import debezium_support
import msgspec
import pytest
from cost_support import assert_cheap, held_by, seconds_of
from open_support import cell, framed
from open_support import ddl as open_ddl
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, record

from relay import ConsumerRecord, Limits, Translator
from relay.catalog import Catalog
from relay.codecs.canal.ckafka import rows as ckafka_rows
from relay.codecs.canal.shared import row_readers as text_readers
from relay.codecs.canal.shared import row_writing as writing
from relay.codecs.canal.shared.rows import TextReader
from relay.codecs.canal.shared.wire_table import parse_mysql_types

CKAFKA, DEBEZIUM = "ckafka-json", "ticdc-debezium"
PROTOCOLS = (TICDC, CANAL, CKAFKA, OPEN, DEBEZIUM)
WIDE = 3001


@pytest.fixture(autouse=True)
def _as_usual(compile_at: Callable[[int], None]) -> None:
    """Other tests compile earlier."""
    compile_at(16)


def create(protocol: str, columns: int, table: str = "t", key: str = "primary") -> ConsumerRecord:
    """A CREATE TABLE with so many columns: c0 (the primary or a unique key), c1 and so on."""
    more = ",".join(f"c{at} varchar(20)" for at in range(1, columns))
    sql = f"CREATE TABLE {table} (c0 int not null {key} key, {more})"
    if protocol == OPEN:
        return framed(open_ddl(sql, tbl=table))
    if protocol == DEBEZIUM:
        return debezium_support.record(debezium_support.ddl(sql))
    message = canal(type="CREATE", isDdl=True, sql=sql, table=table, es=1)
    return record(message)


@functools.cache
def learned(source: str, columns: int, key: str) -> Catalog:
    """The catalog after that statement, which is read once for all tests about rows."""
    translator = Translator(source, source)
    translator.learn(create(source, columns, key=key))
    return translator.catalog


def knowing(translator: Translator, columns: int, key: str = "primary") -> Translator:
    """The translator, which knows a table of so many columns."""
    translator.catalog = learned(translator.route.source.name, columns, key)
    return translator


def canal(**more: Any) -> dict[str, Any]:
    row = {"id": 0, "database": "d", "table": "t", "pkNames": ["c0"], "isDdl": False, "type": "INSERT"}
    nothing = {"sqlType": None, "mysqlType": None, "data": None, "old": None}
    return row | {"es": 1700000000000, "ts": 1700000000000, "sql": ""} | nothing | more


def canal_rows(
    rows: Sequence[dict[str, str]], op: str, olds: Sequence[dict[str, str]] | None
) -> ConsumerRecord:
    return record(canal(type=op, sqlType={}, mysqlType={}, data=rows, old=olds), offset=10)


def open_rows(rows: Sequence[dict[str, str]], olds: Sequence[dict[str, str]] | None) -> ConsumerRecord:
    def cells(row: dict[str, str]) -> dict[str, Any]:
        return {name: cell(3, 1, 65) if name == "c0" else cell(15, text, 64) for name, text in row.items()}

    if olds is None:
        return framed(*[open_row({"u": cells(row)}) for row in rows])
    pairs = zip(rows, olds, strict=True)
    return framed(*[open_row({"u": cells(row), "p": cells(old)}) for row, old in pairs])


def differing(protocol: str, op: str, count: int, width: int = WIDE) -> ConsumerRecord:
    """A record with rows of few columns, each of others."""
    chance = random.Random(7)
    rows: list[dict[str, str]] = []
    olds: list[dict[str, str]] = []
    for _ in range(count):
        names = [f"c{at}" for at in chance.sample(range(1, width), 3)]
        rows.append({"c0": "1"} | dict.fromkeys(names[:2], "x"))
        olds.append({"c0": "1", names[2]: "y"})
    if protocol == OPEN:
        return open_rows(rows, olds if op == "UPDATE" else None)
    return canal_rows(rows, op, olds if op == "UPDATE" else None)


# ---------------------------------------------------------------- time


def best_of(runs: int, source: str, target: str, op: str, width: int) -> float:
    """Seconds of a record with 400 differing rows of a table so wide."""
    given = differing(source, op, 400, width)
    seconds = []
    for _ in range(runs):
        translator = knowing(Translator(source, target), width)
        seconds.append(seconds_of(functools.partial(translator.translate, given)))
    return min(seconds)


@pytest.mark.parametrize("op", ["INSERT", "UPDATE"])
@pytest.mark.parametrize("target", PROTOCOLS)
@pytest.mark.parametrize("source", [TICDC, CANAL, CKAFKA, OPEN])
def test_a_row_costs_what_its_own_cells_cost(source: str, target: str, op: str) -> None:
    """145 KB of rows with differing columns of a table with 4001 took 10 seconds."""
    narrow = best_of(2, source, target, op, 101)
    wide = best_of(1, source, target, op, WIDE)
    if wide > 4 * narrow:
        wide = best_of(3, source, target, op, WIDE)
    assert wide < 4 * narrow + 0.05


@pytest.mark.parametrize(
    ("source", "target"),
    [(TICDC, CANAL), (CANAL, CKAFKA), (CKAFKA, OPEN), (OPEN, DEBEZIUM), (CKAFKA, TICDC)],
)
def test_a_megabyte_of_differing_rows(source: str, target: str) -> None:
    """Canonical rows are as wide as their table: none of them may be kept."""
    translator = knowing(Translator(source, target), 4001)
    given = differing(source, "UPDATE", 9000 if source != OPEN else 5000, 4001)
    assert 400_000 < len(given.value or b"") < 1_500_000
    # Usually two seconds; 145 KB took ten where each of these rows was as wide as its table.
    assert_cheap(lambda: translator.translate(given), seconds=20)


@pytest.mark.parametrize("partitions", [None, 4])
@pytest.mark.parametrize("target", [CANAL, OPEN])
@pytest.mark.parametrize("source", [TICDC, CKAFKA, OPEN])
def test_updates_of_keys_are_split_without_the_columns_that_they_lack(
    source: str, target: str, partitions: int | None
) -> None:
    """10 000 halves of 4001 columns each took 669 MB."""
    translator = knowing(Translator(source, target, partitions=partitions), 4001)
    given = updates_of_keys(source, 5000)
    assert len(given.value or b"") < 1_500_000
    assert_cheap(lambda: translator.translate(given), most_bytes=100_000_000)


def updates_of_keys(source: str, count: int) -> ConsumerRecord:
    """A record with rows of few columns whose key changes; the old rows of Open Protocol lack one."""
    if source == CKAFKA:
        images = {"NEW_VALUES": {"c0": "2", "c1": "x"}, "OLD_VALUES": {"c0": "1"}}
        return record({"TYPE": "U", "DATABASE": "d", "TABLE": "t"} | images, offset=10)
    news = [{"c0": str(at + 1)} for at in range(count)]
    olds = [{"c0": str(at)} for at in range(count)]
    if source != OPEN:
        return canal_rows(news, "UPDATE", olds)
    pairs = [(cell(3, at, 65), cell(3, at + 1, 65)) for at in range(count)]
    return framed(
        *[open_row({"u": {"c0": new, "c1": cell(15, "x", 64)}, "p": {"c0": old}}) for old, new in pairs]
    )


@pytest.mark.parametrize("key", ["primary", "unique"])
@pytest.mark.parametrize("source", PROTOCOLS)
def test_the_partition_of_a_row_costs_its_key_alone(source: str, key: str) -> None:
    """Rows with few cells of a table with 3001 columns took up to 18 times as long."""
    for target in (CKAFKA, DEBEZIUM) if source == OPEN else (CANAL,):
        assert_width_is_free(source, target, key, partitions=4)


@pytest.mark.parametrize(("source", "target"), [(OPEN, CKAFKA), (CANAL, TICDC), (TICDC, OPEN), (OPEN, OPEN)])
def test_deleted_rows_with_their_key_alone_cost_it_alone(source: str, target: str) -> None:
    assert_width_is_free(source, target, "unique", partitions=None)


def assert_width_is_free(source: str, target: str, key: str, *, partitions: int | None) -> None:
    """Assert that rows with two cells take about as long in a wide table as in a narrow one."""
    given = deleted(source, 1000)

    def seconds(columns: int) -> float:
        options = {"delete-only-output-handle-key-columns": "true"} if target in {TICDC, OPEN} else {}
        translator = knowing(Translator(source, target, None, options, partitions=partitions), columns, key)
        translator.translate(given[0])
        return seconds_of(lambda: [translator.translate(one) for one in given])

    narrow, wide = (min(seconds(columns) for _ in range(2)) for columns in (3, WIDE))
    if wide >= 3 * narrow:
        wide = min(seconds(WIDE) for _ in range(5))
    assert wide < 3 * narrow


def deleted(source: str, count: int) -> list[ConsumerRecord]:
    """Deleted rows with two cells, in as few records as the protocol allows."""
    values = [{"c0": str(at), "c1": "x"} for at in range(count)]
    if source == OPEN:
        rows = [{"c0": cell(3, at, 11), "c1": cell(15, "x", 64)} for at in range(count)]
        return [framed(*[open_row({"d": row}) for row in rows], offset=10)]
    if source == DEBEZIUM:
        olds = [{"c0": at, "c1": "x"} for at in range(count)]
        found = [debezium_support.message("d", before=row, after=None) | {"schema": None} for row in olds]
        return [debezium_support.record(one, offset=10 + at) for at, one in enumerate(found)]
    if source == CKAFKA:
        head = {"TYPE": "D", "DATABASE": "d", "TABLE": "t", "NEW_VALUES": None}
        return [record(head | {"OLD_VALUES": row}, offset=10 + at) for at, row in enumerate(values)]
    return [canal_rows(values, "DELETE", None)]


@pytest.mark.parametrize("target", PROTOCOLS)
def test_nothing_is_compiled_for_rows_whose_columns_never_come_again(
    target: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """TiCDC Debezium without schema and DDL: a struct for every record took ten times as long."""
    made: list[str] = []
    defstruct = msgspec.defstruct

    def noted(name: str, *arguments: Any, **more: Any) -> type:
        made.append(name)
        return defstruct(name, *arguments, **more)

    translator = Translator(DEBEZIUM, target)
    for at in range(40):
        row = {"id": at, f"c{at}": "x", f"d{at}": 1}
        message = debezium_support.message(after=row)
        message["schema"] = None
        assert translator.translate(debezium_support.record(message))
        # The first message may compile the types of messages.
        monkeypatch.setattr(msgspec, "defstruct", noted)
    assert made == []


@pytest.mark.parametrize("source", [CKAFKA, TICDC, CANAL])
def test_the_order_of_members_compiles_nothing_anew(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []
    for module in (text_readers, ckafka_rows):

        class Reader(TextReader):
            def __init__(self, *arguments: Any, **more: Any) -> None:
                super().__init__(*arguments, **more)
                made.append(self.wire.names)

        monkeypatch.setattr(module, "TextReader", Reader)
    translator = Translator(source, CANAL)
    translator.translate(create(source, 12))
    chance, names = random.Random(3), [f"c{at}" for at in range(12)]
    wanted = translator.translate(full_row(source, names, 1))
    for at in range(2, 40):
        chance.shuffle(names)
        (out,) = translator.translate(full_row(source, names, at))
        assert json.loads(out.value or b"")["data"] == json.loads(wanted[0].value or b"")["data"]
    assert len(made) <= 2


# ---------------------------------------------------------------- memory


def full_row(
    source: str, names: Sequence[str], at: int, table: str = "t", *, seed: int | None = None
) -> ConsumerRecord:
    """An INSERT with these columns, values of its own, and (Canal family) `mysqlType` in any order."""
    values = {name: "1" if name == "c0" else f"value {name}" for name in names}
    if source == OPEN:
        cells = {
            name: cell(3, 1, 65) if name == "c0" else cell(15, text, 64) for name, text in values.items()
        }
        return framed(open_row({"u": cells}, tbl=table, ts=500_000_000_000_000_000 + at))
    if source == DEBEZIUM:
        message = debezium_support.message(after={**values, "c0": 1})
        message["payload"]["source"]["table"] = table
        message["schema"] = None
        return debezium_support.record(message)
    if source == CKAFKA:
        images = {"NEW_VALUES": values, "OLD_VALUES": None}
        return record({"TYPE": "I", "DATABASE": "d", "TABLE": table} | images, offset=at + 10)
    shuffled = list(names)
    random.Random(seed).shuffle(shuffled)
    types = {name: "int" if name == "c0" else "varchar(20)" for name in shuffled}
    numbers = {name: 4 if name == "c0" else 12 for name in names}
    return record(canal(table=table, mysqlType=types, sqlType=numbers, data=[values]), offset=at + 10)


def in_own_memory(given: ConsumerRecord) -> ConsumerRecord:
    """The record with bytes of its own, of which what is kept counts for who keeps it."""
    key, value = (None if part is None else bytes(bytearray(part)) for part in (given.key, given.value))
    return msgspec.structs.replace(given, key=key, value=value)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "inferred"])
@pytest.mark.parametrize("target", PROTOCOLS)
@pytest.mark.parametrize("source", PROTOCOLS)
def test_a_table_of_200_columns_takes_less_than_half_a_megabyte(
    source: str, target: str, is_known: bool
) -> None:
    # The second time, if what Python keeps of its own (interned names) happened to grow.
    assert any(held_by_a_table(source, target, is_known=is_known) < 500_000 for _ in range(2))


def held_by_a_table(source: str, target: str, *, is_known: bool) -> int:
    names = [f"c{at}" for at in range(200)]
    translator = Translator(source, target)
    for at in range(20):  # what is made once, whatever the table
        translator.translate(full_row(source, names[:3], at, "other"))
    if is_known:
        translator.translate(create(source, 200))
    given = [full_row(source, names, at, seed=at) for at in range(20, 45)]

    def rows() -> None:
        for one in given:
            translator.translate(in_own_memory(one))

    return held_by(rows)


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "inferred"])
@pytest.mark.parametrize(
    ("source", "target"),
    [
        (TICDC, CANAL),
        (TICDC, DEBEZIUM),
        (CANAL, OPEN),
        (CKAFKA, TICDC),
        (CKAFKA, CKAFKA),
        (OPEN, DEBEZIUM),
        (OPEN, CANAL),
        (DEBEZIUM, DEBEZIUM),
        (DEBEZIUM, CKAFKA),
    ],
)
def test_caches_stay_within_their_bytes(source: str, target: str, is_known: bool) -> None:
    """4096 entries of one cache could be hundreds of MB."""
    most, chance = 1_000_000, random.Random(5)
    translator = Translator(source, target, limits=Limits(cache_bytes=most))
    if is_known:
        translator.translate(create(source, 500))
    for at in range(20):
        translator.translate(full_row(source, ["c0", "c1"], at, "other"))
    shapes = [["c0", *(f"c{at}" for at in sorted(chance.sample(range(1, 500), 150)))] for _ in range(40)]
    given = [
        full_row(source, names, 20 + 2 * at + again, seed=at)
        for at, names in enumerate(shapes)
        for again in range(2)
    ]

    def rows() -> None:
        for one in given:
            translator.translate(in_own_memory(one))

    # One cache for reading (Debezium: and one of schema blocks), one for writing, and what was made last.
    assert held_by(rows) < 2 * most + 500_000


@pytest.mark.parametrize("target", [CANAL, DEBEZIUM])
def test_long_names_and_labels_count(target: str) -> None:
    """No server has such names; each table would take megabytes."""
    most = 2_000_000
    translator = Translator(TICDC, target, limits=Limits(cache_bytes=most))

    def rows() -> None:
        for at in range(60):
            long = f"{at:050000}"
            labels = "enum(" + ",".join(f"'{at} {label}'" for label in range(300)) + ")"
            data = [{long: "x", "e": None}]
            types = {long: "text", "e": labels}
            translator.translate(record(canal(table=f"t{long}", mysqlType=types, sqlType={}, data=data)))

    assert held_by(rows) < 2 * most + 2_000_000


def test_texts_of_a_set_take_little() -> None:
    """A text may have 16 KB; 4096 of them were kept of each column."""
    labels = [f"{at:0200}" for at in range(64)]
    kind = "set(" + ",".join(f"'{label}'" for label in labels) + ")"
    translator = Translator(OPEN, DEBEZIUM)
    translator.translate(framed(open_ddl(f"CREATE TABLE t (c0 int primary key, s {kind})")))

    def rows() -> None:
        for at in range(600):
            cells = {"c0": cell(3, at, 65), "s": cell(248, (1 << 63) - 1 - at, 64)}
            translator.translate(framed(open_row({"u": cells}, ts=500_000_000_000_000_000 + at)))

    assert held_by(rows) < 2_000_000


def with_blob(numbers: str, at: int) -> ConsumerRecord:
    """A row of a table with a binary column, and this text of `sqlType`."""
    types = {"c0": "int unsigned", "c1": "int unsigned", "b": "blob"}
    message = json.dumps(canal(mysqlType=types, sqlType="?", data=[dict.fromkeys(types, "1")]))
    return record(message.replace('"?"', numbers), offset=at)


def test_type_numbers_that_vary_are_no_new_tables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Unsigned columns and NULLs change `sqlType` from row to row."""
    parse = mock.Mock(wraps=parse_mysql_types)
    monkeypatch.setattr(text_readers, "parse_mysql_types", parse)
    translator = Translator(CANAL, CANAL)
    for at in range(600):
        numbers = {"c0": at % 30 + 1000, "c1": at // 30 + 1000, "b": 2004}
        translator.translate(with_blob(json.dumps(numbers), at))
    assert parse.call_count == 1


def test_long_texts_of_type_numbers_are_not_kept() -> None:
    translator = Translator(CANAL, CANAL)
    translator.translate(with_blob('{"b":2004}', 0))

    def rows() -> None:
        for at in range(1, 100):
            translator.translate(with_blob('{"b":2004' + " " * (100_000 + at) + "}", at))

    assert held_by(rows) < 1_000_000


@pytest.mark.parametrize("is_known", [True, False], ids=["known", "inferred"])
@pytest.mark.parametrize(("rows", "changed"), [(9999, 1), (9999, 2), (7000, 6)])
def test_shapes_of_one_message_do_not_read_all_its_types(rows: int, changed: int, is_known: bool) -> None:
    chance = random.Random(1)
    types = {f"c{at}": "int" if at == 0 else "varchar(20)" for at in range(4000)}
    names = list(types)[1:]
    data = [{"c0": "1"} | dict.fromkeys(chance.sample(names, changed), "1") for _ in range(rows)]
    update = canal(type="UPDATE", mysqlType=types, sqlType={}, data=data, old=data)
    given = [record(json.dumps(update, separators=(",", ":")), offset=1)]
    if is_known:
        given.insert(0, create(CANAL, 4000))

    def translated() -> None:
        translator = Translator(CANAL, CANAL)
        for each in given:
            translator.translate(each)

    # Usually two seconds; all types of each row would be up to 40 million.
    assert_cheap(translated, seconds=20)


def unsigned(table: str, at: int, kind: str = "int unsigned") -> ConsumerRecord:
    """A row of twelve unsigned columns, of which `at` says which need a larger type."""
    names = [f"c{bit}" for bit in range(12)]
    row = {name: "4294967295" if at >> bit & 1 else "1" for bit, name in enumerate(names)}
    types = dict.fromkeys(names, kind)
    return record(canal(table=table, sqlType={}, mysqlType=types, data=[row]), offset=at)


def test_type_numbers_of_many_tables_stay_within_their_bytes() -> None:
    most = 500_000
    translator = Translator(TICDC, CANAL, limits=Limits(cache_bytes=most))

    def rows() -> None:
        for table in range(60):
            for at in range(120):
                translator.translate(unsigned(f"t{table}", at))

    assert held_by(rows) < 2 * most + 300_000


def test_type_numbers_that_vary_do_not_empty_other_caches(monkeypatch: pytest.MonkeyPatch) -> None:
    made = mock.Mock(wraps=writing.TextWriter)  # called for what is not in the cache
    monkeypatch.setattr(writing, "TextWriter", made)
    translator = Translator(TICDC, CANAL, limits=Limits(cache_bytes=500_000))
    for at in range(4096):
        # Another spelling is read anew, and written as before.
        kind = "int " + "".join(c.upper() if at >> 6 >> bit & 1 else c for bit, c in enumerate("unsigned"))
        translator.translate(unsigned("t", at, kind))
    assert made.call_count == 1
