"""Rows as TiCDC sends them from tables of many columns: no value comes twice, and no order of `mysqlType`.

Go prints a map of more than 8 members in a new order each time. The rows are the same in every run.
"""

from __future__ import annotations

import random
from collections.abc import Iterator
from decimal import Decimal
from typing import Final

import orjson

from relay.model import TSO_LOGICAL_BITS
from relay.records import ConsumerRecord

PROTOCOL: Final = "ticdc-canal-json"
#: The workloads, and how many columns their tables have.
COLUMNS: Final = {"wide_12": 12, "wide_40": 40}
#: Types in the order in which columns have them: DDL, `mysqlType`, `sqlType`.
_TYPES: Final = (
    ("BIGINT", "bigint", -5), ("INT", "int", 4), ("VARCHAR(40)", "varchar", 12),
    ("DECIMAL(14,2)", "decimal", 3), ("DATETIME(3)", "datetime", 93), ("TEXT", "text", 2005),
    ("DATE", "date", 91), ("TIMESTAMP", "timestamp", 93),
)  # fmt: skip
_FIRST_MS: Final = 1_795_254_680_000
_OPS: Final = ("INSERT", "INSERT", "INSERT", "INSERT", "UPDATE", "UPDATE", "UPDATE", "DELETE")

_Row = dict[str, str]


def messages(workload: str, count: int) -> Iterator[ConsumerRecord]:
    """Give a table's CREATE TABLE and so many rows of it, in TiCDC Canal-JSON with the extension."""
    columns = _columns(COLUMNS[workload])
    chance = random.Random(workload)  # noqa: S311 - made to be the same in every run
    yield _record(0, _ddl(workload, columns))
    for number in range(1, count + 1):
        yield _record(number, _row(workload, columns, number, chance))


def _columns(count: int) -> dict[str, tuple[str, str, int]]:
    types = [_TYPES[at % len(_TYPES)] for at in range(count)]
    return {f"column_{at}" if at else "id": each for at, each in enumerate(types)}


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
    table: str, columns: dict[str, tuple[str, str, int]], number: int, chance: random.Random
) -> dict[str, object]:
    op, time_ms = chance.choice(_OPS), _FIRST_MS + number
    row = {name: _value(mysql, number, chance) for name, (_, mysql, _) in columns.items()}
    old = None
    if op == "UPDATE":
        changed = chance.sample([*columns][1:], 3)
        old = [row | {name: _value(columns[name][1], number, chance) for name in changed}]
    shuffled = chance.sample([*columns], len(columns))
    return {
        "id": 0, "database": "bench", "table": table, "pkNames": ["id"], "isDdl": False, "type": op,
        "es": time_ms, "ts": time_ms + 500, "sql": "",
        "sqlType": {name: sql_type for name, (_, _, sql_type) in columns.items()},
        "mysqlType": {name: columns[name][1] for name in shuffled}, "old": old, "data": [row],
    }  # fmt: skip


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
