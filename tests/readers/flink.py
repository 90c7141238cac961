"""A table in Flink on a topic: how it is declared, and what it gets."""

from __future__ import annotations

import base64
import re
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

from readers.java import Program
from readers.truth import Row, SqlType, Step, Table, value

#: One size up where a type is unsigned; Flink has no unsigned ones.
_SIGNED: Final = {
    "tinyint": "TINYINT", "smallint": "SMALLINT", "mediumint": "INT", "int": "INT", "bigint": "BIGINT", "year": "INT",
}  # fmt: skip
_UNSIGNED: Final = {
    "tinyint": "SMALLINT", "smallint": "INT", "mediumint": "INT", "int": "BIGINT", "bigint": "DECIMAL(20, 0)",
}  # fmt: skip
_MAX_PRECISION = 38
_READS: Final = {"DATE": date.fromisoformat, "TIMESTAMP": datetime.fromisoformat}


class ReaderFailed(Exception):
    """The reader's job or task would end with this failure."""


def declared(kind: SqlType, values: Sequence[Any]) -> str:
    """The type that a user of Flink declares for a column; what it cannot hold is STRING."""
    if kind.is_binary:
        return "BYTES"
    if kind.is_integer:
        return (
            "DECIMAL(20, 0)" if kind.name == "bit" else (_UNSIGNED if kind.unsigned else _SIGNED)[kind.name]
        )
    if kind.name in {"float", "double"}:
        return kind.name.upper()
    if kind.name == "decimal" and kind.numbers[0] <= _MAX_PRECISION:
        precision, scale = (*kind.numbers, 0)[:2]
        return f"DECIMAL({precision}, {scale})"
    if kind.name == "date" and _readable("DATE", values):
        return "DATE"
    if kind.name in {"datetime", "timestamp"} and _readable("TIMESTAMP", values):
        return f"TIMESTAMP({kind.numbers[0] if kind.numbers else 0})"
    return "STRING"


def declared_of_avro(kind: SqlType, values: Sequence[Any]) -> str:
    """The same for debezium-avro-confluent, of which nothing is converted."""
    if kind.name in {"decimal", "date", "datetime", "timestamp"}:
        return "STRING"
    if kind.name == "float" and kind.numbers:
        return "DOUBLE"
    return declared(kind, values)


def _readable(name: str, values: Sequence[Any]) -> bool:
    """Whether all values are dates of the calendar: MySQL has 0000-00-00 and 2026-02-30."""
    try:
        for each in values:
            if each is not None:
                _READS[name](each)
    except ValueError:
        return False
    return True


def steps(
    flink: Program,
    format_name: str,
    table: Table,
    values: Sequence[bytes | None],
    registry: str | None = None,
) -> list[Step]:
    """What a table in Flink sees of a topic's messages. Raises ReaderFailed.

    `registry`: of messages in Avro, the registry's URL.
    """
    declare = declared if registry is None else declared_of_avro
    columns = {
        name: declare(kind, [row[at] for change in table.changes for _, row in change.steps])
        for at, (name, kind) in enumerate(table.columns.items())
    }
    fields = ", ".join(f"`{name.replace('`', '``')}` {kind}" for name, kind in columns.items())
    job = {
        "format": format_name,
        "row": f"ROW<{fields}>",
        "database": re.escape(table.database),
        "table": re.escape(table.name),
        "registry": registry,
        "values": [None if each is None else base64.b64encode(each).decode() for each in values],
    }
    answer = flink.ask(job)
    if "error" in answer:
        failed = values[answer["at"]] or b"null"
        raise ReaderFailed(f"{answer['error'][-300:]} at {failed[:300].decode(errors='replace')}")
    return [(_SIGNS[kind], _row(table, columns, row)) for kind, *row in answer["rows"]]


_SIGNS: Final = {"+I": "+", "+U": "+", "-U": "-", "-D": "-"}


def _row(table: Table, columns: dict[str, str], row: list[str | None]) -> Row:
    given = dict(zip(table.columns, row, strict=True))
    return table.row(
        given, lambda kind, text: value(kind, base64.b64decode(text) if kind.is_binary else text)
    )
