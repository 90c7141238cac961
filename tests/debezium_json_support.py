"""Messages of Debezium's own connectors, for the tests of `debezium-json`."""

from __future__ import annotations

import json
from collections.abc import Sequence
from typing import Any

from relay import ConsumerRecord, RowChange, Translator
from relay.model.events import Cell, Event

DEBEZIUM = "debezium-json"
SOURCE = {
    "version": "3.6.1.Final", "connector": "mysql", "name": "dbz", "ts_ms": 1768443630123, "snapshot": "false",
    "db": "shop", "sequence": None, "ts_us": 1768443630123456, "ts_ns": 1768443630123456000, "table": "t",
    "server_id": 223344, "gtid": "3e11fa47-71ca-11e1-9e33-c80aa9429562:23", "file": "mysql-bin.000003",
    "pos": 4567, "row": 1, "thread": 7, "query": None,
}  # fmt: skip
DDL_TOPIC = "dbz"


def row(
    op: str = "c", before: Any = None, after: Any = None, source: dict[str, Any] | None = None, **more: Any
) -> dict[str, Any]:
    """The payload of a row's message."""
    return {
        "before": before, "after": after, "source": SOURCE | (source or {}), "transaction": None, "op": op,
        "ts_ms": 1768443631000, "ts_us": 1768443631000001, "ts_ns": 1768443631000001002,
    } | more  # fmt: skip


def ddl(text: str, changes: Any = (), source: dict[str, Any] | None = None) -> dict[str, Any]:
    """The payload of a schema change, before all rows in the log."""
    at = {"pos": 4, "gtid": None, "thread": None, "ts_ms": 1768443630000, "ts_us": None, "ts_ns": None}
    return {
        "source": SOURCE | at | (source or {}), "ts_ms": 1768443630500, "databaseName": "shop", "schemaName": None,
        "ddl": text, "tableChanges": list(changes),
    }  # fmt: skip


def wrapped(payload: dict[str, Any], *columns: dict[str, Any]) -> dict[str, Any]:
    """A payload with the schema block of these columns."""
    images = [{"type": "struct", "field": field, "fields": list(columns)} for field in ("before", "after")]
    return {"schema": {"type": "struct", "fields": images}, "payload": payload}


def column(name: str, type_: str, semantic: str | None = None, **more: Any) -> dict[str, Any]:
    """A column of a schema block."""
    named = {} if semantic is None else {"name": semantic, "version": 1}
    return {"type": type_, "optional": True, **named, "field": name, **more}


def record(value: Any, key: Any = None, offset: int = 0, topic: str = "dbz.shop.t") -> ConsumerRecord:
    """A record; DDL goes to a topic of its own if it is given."""
    data = value if isinstance(value, bytes | None) else json.dumps(value, ensure_ascii=False).encode()
    key_data = None if key is None else json.dumps(key).encode()
    return ConsumerRecord(topic, 0, offset, 1768443632000, key_data, data)


def decoded(
    *records: ConsumerRecord, options: dict[str, str] | None = None
) -> tuple[list[Event], dict[str, int]]:
    """The events of records, and what was counted."""
    translator = Translator(DEBEZIUM, "canal-json", options)
    events = [event for one in records for event in translator.inspect(one)]
    counted: dict[str, int] = {}
    for one in translator.losses:
        counted[one.value] = translator.losses[one]
    return events, counted


def image(change: Event, *, is_old: bool = False) -> dict[str, Cell]:
    """A row by column names."""
    assert isinstance(change, RowChange)
    cells = change.before if is_old else change.after
    assert cells is not None
    return {column.name: cell for column, cell in zip(change.schema.columns, cells, strict=True)}


def read(
    definition: str | None,
    value: Any,
    *,
    schema: dict[str, Any] | None = None,
    options: dict[str, str] | None = None,
    op: str = "c",
) -> tuple[Cell, dict[str, int]]:
    """The canonical value of column `c`, and what was counted; of an unknown table without a definition."""
    payload = row(op, after={"id": 1, "c": value})
    message = payload if schema is None else wrapped(payload, column("id", "int32"), {**schema, "field": "c"})
    records = [record(message, {"id": 1})]
    if definition is not None:
        text = f"CREATE TABLE t (id INT PRIMARY KEY, c {definition})"
        records.insert(0, record(ddl(text), topic=DDL_TOPIC))
    events, counted = decoded(*records, options=options)
    return image(events[-1])["c"], counted


def kinds(events: Sequence[Event]) -> list[str]:
    """The events by the names of their types."""
    return [type(event).__name__ for event in events]
