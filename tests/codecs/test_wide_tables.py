"""Tables with many columns: what a row, its shape and a table cost, on every route."""

from __future__ import annotations

import random
import sys
from collections.abc import Callable, Sequence
from typing import Any

import debezium_support
from open_support import cell, framed
from open_support import ddl as open_ddl
from open_support import row as open_row
from support import CANAL, OPEN, TICDC, record

from relay import ConsumerRecord

CKAFKA, DEBEZIUM = "ckafka-json", "ticdc-debezium"
PROTOCOLS = (TICDC, CANAL, CKAFKA, OPEN, DEBEZIUM)
WIDE = 3001


def create(protocol: str, columns: int, table: str = "t") -> ConsumerRecord:
    """A CREATE TABLE with the columns c0 (the key), c1 and so on."""
    more = ",".join(f"c{at} varchar(20)" for at in range(1, columns))
    sql = f"CREATE TABLE {table} (c0 int primary key, {more})"
    if protocol == OPEN:
        return framed(open_ddl(sql, tbl=table))
    if protocol == DEBEZIUM:
        return debezium_support.record(debezium_support.ddl(sql))
    message = canal(type="CREATE", isDdl=True, sql=sql, table=table, es=1)
    return record(message)


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


def lines_of(work: Callable[[], object]) -> int:
    """How many lines of Python ran: the same on every machine, however busy it is."""
    tool, count = sys.monitoring.DEBUGGER_ID, 0

    def line(*_: object) -> None:
        nonlocal count
        count += 1

    sys.monitoring.use_tool_id(tool, "lines")
    try:
        sys.monitoring.register_callback(tool, sys.monitoring.events.LINE, line)
        sys.monitoring.set_events(tool, sys.monitoring.events.LINE)
        work()
    finally:
        sys.monitoring.set_events(tool, 0)
        sys.monitoring.free_tool_id(tool)
    return count
