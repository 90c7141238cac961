"""Records of Maxwell 1.45: they come back as they were, and tell the same rows as Canal's of the same statements."""

from __future__ import annotations

import json
from collections import defaultdict
from decimal import Decimal
from typing import Any

import pytest
from support import captured, captured_files, reading_options, translated_records

from relay import ConsumerRecord, Loss, Op, RowChange, TableId, Translator
from relay.model.events import Row

MAXWELL = "maxwell-json"
FULL = {
    "output_ddl": "true",
    "output_binlog_position": "true",
    "output_gtid_position": "true",
    "output_server_id": "true",
    "output_thread_id": "true",
    "output_schema_id": "true",
    "output_push_timestamp": "true",
    "output_row_query": "true",
    "output_primary_keys": "true",
    "output_primary_key_columns": "true",
    "kafka_key_format": "array",
}
#: What relay writes otherwise than Maxwell on purpose (docs/decisions/maxwell.md), by table and column: BIT above
#: 31 bits, YEAR 0000, index 0 of ENUM; and a JSON column of which `old` and `data` are null.
OTHERWISE = {
    ("bits", "b32"), ("bits", "b64"), ("dt", "y"), ("zd", "y"), ("trunc_vals", "enn"), ("js", "j"),
}  # fmt: skip


#: What Maxwell's form does not tell apart, whoever writes it; nothing else is lost.
AMBIGUOUS = {
    Loss.TIME_RANGE,
    Loss.SCHEMA_INFERRED,
    Loss.VALUE_INFERRED,
    Loss.JSON_NULL,
    Loss.ENUM_INDEX,
}


def parsed(record: ConsumerRecord | Any) -> dict[str, Any]:
    found: dict[str, Any] = json.loads(record.value or b"", parse_float=Decimal)
    for part in ("data", "old"):
        row = found.get(part)
        if isinstance(row, dict) and "columns" not in row:
            found[part] = {
                name: value for name, value in row.items() if (found.get("table"), name) not in OTHERWISE
            }
    return found


def is_part(message: dict[str, Any]) -> bool:
    """Whether a statement is about several tables, of which relay writes the part."""
    return "tmp_a" in message.get("sql", "") and message["type"] in {"table-alter", "table-drop"}


@pytest.mark.parametrize("file", captured_files("mysql/maxwell") + captured_files("mysql/maxwell.full"))
def test_messages_come_back_as_they_were(file: str) -> None:
    given = captured(file)
    translator = Translator(MAXWELL, MAXWELL, {}, FULL if ".full" in file else {})
    made = translated_records(translator, given)
    assert len(made) == len(given)
    for before, after in zip(map(parsed, given), made, strict=True):
        found = parsed(after)
        if is_part(before):
            before.pop("sql")
            found.pop("sql")
        if before["type"] == "database-create" and "CHARACTER" not in before["sql"]:
            before.pop("charset")
        assert found == before
        assert list(found) == list(before)
    assert translator.losses.keys() <= AMBIGUOUS


@pytest.mark.parametrize("file", captured_files("mysql/maxwell") + captured_files("mysql/maxwell.full"))
def test_keys_of_rows_come_back_as_they_were(file: str) -> None:
    given = captured(file)
    made = translated_records(Translator(MAXWELL, MAXWELL, {}, FULL if ".full" in file else {}), given)
    for before, after in zip(given, made, strict=True):
        key = (before.key or b"").decode()
        if key[:1] in "{[" and '"_uuid"' not in key:
            assert (after.key or b"").decode() == key


def rows_of(protocol: str, file: str) -> dict[TableId, list[tuple[Op, Row | None, Row | None]]]:
    translator = Translator(protocol, protocol, reading_options(file))
    found: dict[TableId, list[tuple[Op, Row | None, Row | None]]] = defaultdict(list)
    for each in captured(file):
        for event in translator.inspect(each):
            if isinstance(event, RowChange):
                found[event.table].append((event.op, event.before, event.after))
    return found


@pytest.mark.parametrize("file", ["09_dml", "10_ddl"])
def test_maxwell_tells_the_same_rows_as_canal(file: str) -> None:
    from_canal = rows_of("canal-json", f"mysql/canal-json/{file}")
    assert from_canal
    assert rows_of(MAXWELL, f"mysql/maxwell.full/{file}") == from_canal


def test_rows_in_camel_case_without_nulls_are_the_same_but_for_their_times() -> None:
    def without_times(file: str) -> list[Any]:
        translator = Translator(MAXWELL, MAXWELL, reading_options(file))
        found = []
        for each in captured(file):
            for event in translator.inspect(each):
                if isinstance(event, RowChange):
                    times = {
                        at
                        for at, column in enumerate(event.schema.columns)
                        if column.type.base in {"time", "json"}
                    }
                    cells = enumerate(event.after or event.before or ())
                    found.append((event.op, [cell for at, cell in cells if at not in times]))
        return found

    assert without_times("mysql/maxwell.alt/01_all_types") == without_times("mysql/maxwell.full/01_all_types")
