"""Messages of TiCDC Debezium JSON, for the tests of its codec."""

from __future__ import annotations

import json
from typing import Any

from relay import (
    ConsumerRecord,
    RowChange,
    Translator,
)
from relay.model.events import Event

DEBEZIUM = "ticdc-debezium"
NO_SCHEMA = {"debezium-disable-schema": "true"}
SOURCE = {
    "version": "2.4.0.Final", "connector": "TiCDC", "name": "default", "ts_ms": 1768443630000, "snapshot": "false", "db": "shop",
    "table": "t", "server_id": 0, "gtid": None, "file": "", "pos": 0, "row": 0, "thread": 0, "query": None,
    "commit_ts": 463586886942720001, "cluster_id": "default",
}  # fmt: skip


def message(op: str | None = "c", **more: Any) -> dict[str, Any]:
    payload: dict[str, Any] = {
        "source": SOURCE,
        "ts_ms": 1768443630450,
        "transaction": None,
        "op": op,
        "before": None,
    }
    return {"payload": payload | more}


def record(value: Any, key: Any = None, offset: int = 0) -> ConsumerRecord:
    data = value if isinstance(value, bytes | None) else json.dumps(value).encode()
    return ConsumerRecord(
        "topic", 0, offset, 1768443630999, None if key is None else json.dumps(key).encode(), data
    )


def ddl(text: str, table: str = "t", commit_ts: int = 1) -> dict[str, Any]:
    source = SOURCE | {"table": table, "commit_ts": commit_ts}
    return {
        "payload": {
            "source": source,
            "ts_ms": 1,
            "databaseName": "shop",
            "schemaName": None,
            "ddl": text,
            "tableChanges": [],
        }
    }


def decoded(
    *records: ConsumerRecord, options: dict[str, str] | None = None
) -> tuple[list[Event], Translator]:
    translator = Translator(DEBEZIUM, DEBEZIUM, options)
    return [event for one in records for event in translator.inspect(one)], translator


def row(event: Event) -> RowChange:
    assert isinstance(event, RowChange)
    return event


def block(*columns: dict[str, Any]) -> dict[str, Any]:
    """A schema block whose columns these are."""
    return {"type": "struct", "fields": [{"field": "after", "type": "struct", "fields": list(columns)}]}
