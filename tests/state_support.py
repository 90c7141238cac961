"""State that an older version has written: the records of relay's own topics, and definitions of tables as text."""

from __future__ import annotations

import json
from typing import Any

from support import DATA

from relay import ConsumerRecord
from relay.catalog import Catalog
from relay.io.record_lines import parse_record
from relay.model.events import ABSENT, Column, TableSchema
from relay.mysql.types import format_type

STATE = DATA / "state"


def records(name: str) -> list[ConsumerRecord]:
    """The records of a topic, such as `dead-letters`."""
    return [parse_record(line) for line in (STATE / f"{name}.ndjson").read_bytes().splitlines()]


def tables(catalog: Catalog) -> dict[str, dict[str, Any]]:
    """The definitions of all tables, the newest first, by the position of the record that made them; null for
    a table that is gone.
    """
    found = {
        f"{database}.{table}": {
            f"{version.at.topic}/{version.at.partition}/{version.at.offset} {number}": (
                None if version.is_gone else _definition(version.schema)
            )
            for number, version in enumerate(history)
        }
        for database, tables in sorted(catalog.histories.items())
        for table, history in sorted(tables.items())
    }
    plain: dict[str, dict[str, Any]] = json.loads(json.dumps(found))
    return plain


def _definition(schema: TableSchema | None) -> dict[str, Any] | str:
    if schema is None:
        return "unknown"
    more = {
        "primary_key": schema.primary_key,
        "unique_keys": {key.name: key.columns for key in schema.unique_keys},
        "indexes": {key.name: key.columns for key in schema.indexes},
        "table_id": schema.table_id,
        "is_view": schema.is_view,
        "incomplete": not schema.complete,
    }
    columns = [_column(column) for column in schema.columns]
    return {"columns": columns} | {name: value for name, value in more.items() if value}


def _column(column: Column) -> str:
    text = f"{column.name} {format_type(column.type)}"
    if column.nullable is False:
        text += " not null"
    if column.default is not ABSENT:
        text += f" default {column.default.text!r}"
    return text + (" auto_increment" if column.auto_increment else "")
