"""Rows as TiCDC sends them from tables of many columns: values differ, and so does the order of `mysqlType`.

Go prints a map of up to 8 members in their order, from any of them on, and a larger one in a new order each
time. The rows are the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from decimal import Decimal
from functools import lru_cache
from typing import Final

import msgspec
import orjson

from relay.model.events import TSO_LOGICAL_BITS
from relay.model.records import ConsumerRecord

PROTOCOL: Final = "ticdc-canal-json"
#: The workloads of one table, and how many columns that has.
COLUMNS: Final = {"wide_8": 8, "wide_12": 12, "wide_40": 40, "wide_200": 200}
#: The workloads of several tables in turn, and how many these are.
TABLES: Final = {"tables_100": 100, "tables_1000": 1000}
#: Columns of each of them.
TABLE_COLUMNS: Final = 12
#: Types in the order in which columns have them: DDL, `mysqlType`, `sqlType`.
_TYPES: Final = (
    ("BIGINT", "bigint", -5), ("INT", "int", 4), ("VARCHAR(40)", "varchar", 12),
    ("DECIMAL(14,2)", "decimal", 3), ("DATETIME(3)", "datetime", 93), ("TEXT", "text", 2005),
    ("DATE", "date", 91), ("TIMESTAMP", "timestamp", 93),
)  # fmt: skip
#: Go prints a map of this many members, or fewer, in order.
_IN_ORDER: Final = 8
_FIRST_MS: Final = 1_795_254_680_000
_OPS: Final = ("INSERT", "INSERT", "INSERT", "INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE")


def columns_of(workload: str) -> int:
    """How many columns a table of this workload has."""
    return COLUMNS.get(workload, TABLE_COLUMNS)


_Row = dict[str, str]


def messages(workload: str, count: int) -> Iterator[ConsumerRecord]:
    """Give the CREATE TABLE of every table of a workload and so many rows, in TiCDC Canal-JSON with the
    extension.
    """
    if workload in COLUMNS:
        return _messages([workload], COLUMNS[workload], count)
    return of_tables(TABLES[workload], TABLE_COLUMNS, count)


def of_tables(tables: int, columns: int, count: int, ops: Sequence[str] = _OPS) -> Iterator[ConsumerRecord]:
    """Give the CREATE TABLE of so many tables with so many columns each, then so many rows in turn.

    `ops`: the kinds of rows, each as often as it is there.
    """
    return _messages([f"table_{at:04}" for at in range(tables)], columns, count, ops)


def altered(row: ConsumerRecord, number: int) -> ConsumerRecord:
    """Give a statement about the table of a row, right before the row. `number` is in its text."""
    message = orjson.loads(row.value or b"")
    statement = _ddl(message["table"], {})
    sql = f"ALTER TABLE `{message['table']}` COMMENT = '{number}'"
    commit_ts = message["_tidb"]["commitTs"] - 1
    changed = {**statement, "type": "ALTER", "sql": sql, "_tidb": {"commitTs": commit_ts}}
    return msgspec.structs.replace(row, value=orjson.dumps(changed))


def _messages(
    tables: Sequence[str], width: int, count: int, ops: Sequence[str] = _OPS
) -> Iterator[ConsumerRecord]:
    chance = random.Random(f"{tables[0]} {width}")  # noqa: S311 - made to be the same in every run
    for at, table in enumerate(tables):
        yield _record(at, _ddl(table, _columns(table, width)))
    for number in range(1, count + 1):
        table = tables[number % len(tables)]
        yield _record(len(tables) - 1 + number, _row(table, _columns(table, width), number, chance, ops))


@lru_cache(1)
def _columns(table: str, count: int) -> dict[str, tuple[str, str, int]]:
    """The columns of a table; no other one has the same names, but for `id`."""
    types = [_TYPES[at % len(_TYPES)] for at in range(count)]
    prefix = table.replace("table_", "c")
    return {f"{prefix}_{at}" if at else "id": each for at, each in enumerate(types)}


def _record(offset: int, message: dict[str, object]) -> ConsumerRecord:
    time_ms = _FIRST_MS + offset
    tidb = {"commitTs": time_ms << TSO_LOGICAL_BITS}
    value = orjson.dumps({**message, "_tidb": tidb})
    return ConsumerRecord("bench-wide", 0, offset, time_ms, None, value)


def _ddl(table: str, columns: dict[str, tuple[str, str, int]]) -> dict[str, object]:
    listed = ",".join(f"`{name}` {ddl} NULL" for name, (ddl, _, _) in columns.items())
    sql = f"CREATE TABLE `{table}` ({listed},PRIMARY KEY (`id`))"
    return {
        "id": 0, "database": "bench", "table": table, "pkNames": None, "isDdl": True, "type": "CREATE",
        "es": _FIRST_MS, "ts": _FIRST_MS, "sql": sql, "sqlType": None, "mysqlType": None,
        "data": None, "old": None,
    }  # fmt: skip


def _row(
    table: str,
    columns: dict[str, tuple[str, str, int]],
    number: int,
    chance: random.Random,
    ops: Sequence[str],
) -> dict[str, object]:
    op, time_ms = chance.choice(ops), _FIRST_MS + number
    row = {name: _value(mysql, number, chance) for name, (_, mysql, _) in columns.items()}
    old = None
    if op == "UPDATE":
        changed = chance.sample([*columns][1:], 3)
        old = [row | {name: _value(columns[name][1], number, chance) for name in changed}]
    return {
        "id": 0, "database": "bench", "table": table, "pkNames": ["id"], "isDdl": False, "type": op,
        "es": time_ms, "ts": time_ms + 500, "sql": "",
        "sqlType": {name: sql_type for name, (_, _, sql_type) in columns.items()},
        "mysqlType": {name: columns[name][1] for name in _order([*columns], chance)},
        "old": old, "data": [row],
    }  # fmt: skip


def _order(names: list[str], chance: random.Random) -> list[str]:
    """The names as Go prints a map."""
    if len(names) > _IN_ORDER:
        return chance.sample(names, len(names))
    first = chance.randrange(len(names))
    return names[first:] + names[:first]


def _value(mysql: str, number: int, chance: random.Random) -> str:
    match mysql:
        case "bigint":
            return str(10**12 * chance.randrange(1, 1000) + number)
        case "int":
            return str(chance.randrange(1 << 31))
        case "decimal":
            return str(Decimal(chance.randrange(10**12)).scaleb(-2))
        case "date":
            return f"20{chance.randrange(100):02}-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
        case "datetime" | "timestamp":
            day = f"2026-{chance.randrange(1, 13):02}-{chance.randrange(1, 29):02}"
            time = f"{chance.randrange(24):02}:{chance.randrange(60):02}:{chance.randrange(60):02}"
            return f"{day} {time}" + (f".{chance.randrange(1000):03}" if mysql == "datetime" else "")
    return f"{chance.getrandbits(96):x}"
