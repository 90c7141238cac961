"""What ClickHouse makes of a topic of flat rows: its own engine, from the package chdb-core-lite.

A table is declared as docs/readers.md says, and the topic's messages are inserted as JSONEachRow, which is what
its Kafka engine does with them.
"""

from __future__ import annotations

import base64
import importlib
import itertools
import json
import struct
from collections.abc import Sequence
from datetime import date, datetime
from typing import Any, Final

from readers.truth import Row, SqlType, Table, value

_NUMBERS: Final = {
    "tinyint": "Int8", "smallint": "Int16", "mediumint": "Int32", "int": "Int32", "bigint": "Int64",
    "year": "UInt16", "bit": "UInt64", "float": "Float32", "double": "Float64",
}  # fmt: skip
_YEARS: Final = range(1900, 2300)
_NAMES: Final = itertools.count()
_SETTINGS: Final = "output_format_json_quote_64bit_integers=1, output_format_json_quote_decimals=1"


class InsertFailed(Exception):
    """ClickHouse's Kafka engine would end at a message."""


def declared(kind: SqlType, values: Sequence[Any]) -> str:
    """The type that docs/readers.md names for a column; String for dates that ClickHouse does not have."""
    if kind.name in _NUMBERS:
        return "U" * (kind.unsigned and kind.is_integer and kind.name != "year") + _NUMBERS[kind.name]
    if kind.name == "decimal":
        precision, scale = (*kind.numbers, 0)[:2]
        return f"Decimal({precision}, {scale})"
    if kind.name == "date" and _in_range(date.fromisoformat, values):
        return "Date32"
    if kind.name in {"datetime", "timestamp"} and _in_range(datetime.fromisoformat, values):
        return f"DateTime64({kind.numbers[0] if kind.numbers else 0}, 'UTC')"
    return "String"


def _in_range(read: Any, values: Sequence[Any]) -> bool:
    try:
        return all(each is None or read(each).year in _YEARS for each in values)
    except ValueError:
        return False


class ClickHouse:
    """An engine of its own in this process."""

    def __init__(self) -> None:
        # No type hints in it, and not installed everywhere.
        self._session: Any = importlib.import_module("chdb.session").Session()
        self._session.query("CREATE DATABASE IF NOT EXISTS readers")

    def close(self) -> None:
        """End the engine."""
        self._session.close()

    def rows(self, table: Table, key: Sequence[str], messages: Sequence[bytes]) -> list[Row]:
        """What a ReplacingMergeTree has of a topic in the end. Raises InsertFailed."""
        name = f"readers.t{next(_NAMES)}"
        fields = []
        for at, (column, kind) in enumerate(table.columns.items()):
            declared_type = declared(kind, [row[at] for change in table.changes for _, row in change.steps])
            fields.append(
                f"{_quoted(column)} {declared_type if column in key else f'Nullable({declared_type})'}"
            )
        order = ", ".join(map(_quoted, key))
        self._session.query(
            f"CREATE TABLE {name} ({', '.join(fields)}, __version UInt64, __deleted UInt8) "
            f"ENGINE = ReplacingMergeTree(__version, __deleted) ORDER BY ({order})"
        )
        lines = "\n".join(message.decode() for message in messages)
        try:
            self._session.query(f"INSERT INTO {name} FORMAT JSONEachRow {lines}")
        except RuntimeError as error:
            raise InsertFailed(str(error)) from error
        columns = ", ".join(itertools.starmap(_selected, table.columns.items()))
        query = f"SELECT {columns} FROM {name} FINAL SETTINGS {_SETTINGS}"  # noqa: S608 - names of the tests
        answer = self._session.query(query, "JSONCompactEachRow").bytes().decode()
        self._session.query(f"DROP TABLE {name}")
        found = [json.loads(line) for line in answer.split("\n") if line]
        return [table.row(dict(zip(table.columns, row, strict=True)), _value) for row in found]


def _quoted(name: str) -> str:
    escaped = name.replace("\\", "\\\\").replace("`", "\\`")
    return f"`{escaped}`"


def _selected(name: str, kind: SqlType) -> str:
    """Numbers with a floating point by their bits: this engine prints exponents of three digits with two."""
    bits = {"float": "reinterpretAsUInt32", "double": "reinterpretAsUInt64"}
    return f"{bits[kind.name]}({_quoted(name)})" if kind.name in bits else _quoted(name)


def _value(kind: SqlType, answer: Any) -> Any:
    if kind.is_binary:
        answer = base64.b64decode(answer, validate=True)
    elif kind.name in {"float", "double"}:
        size, code = (4, "f") if kind.name == "float" else (8, "d")
        (answer,) = struct.unpack(f"<{code}", int(answer).to_bytes(size, "little"))
    return value(kind, answer)
