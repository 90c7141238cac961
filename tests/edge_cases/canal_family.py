"""The list of the Canal family's edge cases, and short ways to read and to translate its messages."""

from __future__ import annotations

import json
from typing import Any

from edge_cases.support import EdgeCases
from support import events, record, row_message

from relay import ConsumerRecord, RowChange, Translator

CASES = EdgeCases("canal-family", "Canal family")

EXTENSION = {"enable-tidb-extension": "true"}
AB = {"id": "int", "a": "int", "b": "varchar(9)"}
CREATE_AB = "CREATE TABLE t (id INT PRIMARY KEY, a INT, b VARCHAR(9))"

Given = dict[str, Any] | str | bytes
Options = dict[str, str]


def ddl(sql: str, word: str = "ALTER", table: str = "t", **more: Any) -> dict[str, Any]:
    """A DDL message of the database `d`."""
    return {
        "id": 0, "database": "d", "table": table, "pkNames": None, "isDdl": True, "type": word, "es": 1700000000000,
        "ts": 1700000000001, "sql": sql, "sqlType": None, "mysqlType": None, "data": None, "old": None,
    } | more  # fmt: skip


def watermark(watermark_ts: int) -> dict[str, Any]:
    """A watermark of TiCDC."""
    return ddl("", "TIDB_WATERMARK", "", database="", isDdl=False, _tidb={"watermarkTs": watermark_ts})


def records(*messages: Given) -> list[ConsumerRecord]:
    """The messages as records of one partition."""
    return [record(message, offset=at) for at, message in enumerate(messages)]


def change(protocol: str, *messages: Given, options: Options | None = None) -> RowChange:
    """The row of the last message."""
    *_, event = events(protocol, records(*messages), options)
    assert isinstance(event, RowChange)
    return event


def before_and_after(protocol: str, *messages: Given, options: Options | None = None) -> tuple[Any, Any]:
    """The old and the new row of the last message."""
    found = change(protocol, *messages, options=options)
    return found.before, found.after


def sent(
    source: str, target: str, *messages: Given, reading: Options | None = None, writing: Options | None = None
) -> list[dict[str, Any]]:
    """What the target gets for the last message."""
    translator = Translator(source, target, reading, writing)
    out = [translator.translate(message) for message in records(*messages)]
    return [json.loads(produced.value or b"null") for produced in out[-1]]


def cell(mysql_type: str, text: str | None, **more: Any) -> dict[str, Any]:
    """An INSERT of one column `c`."""
    return row_message({"c": mysql_type}, {"c": text}, **more)


def value(mysql_type: str, text: str | None, protocol: str, options: Options | None = None) -> Any:
    """The canonical value of a text."""
    after = change(protocol, cell(mysql_type, text), options=options).after
    assert after is not None
    return after[0]
