"""Rows of an orders table that enter, leave and stay in a selection, for tests of row rules."""

from __future__ import annotations

import functools
from typing import Any, Final

import msgspec
from column_rules_support import as_records
from support import TICDC, record, row_message

from relay import ConsumerRecord, Resolver, RowRule, Translator

TYPES: Final = {
    "id": "bigint unsigned",
    "status": "varchar(20)",
    "amount": "decimal(12,2)",
    "seen_at": "datetime",
    "note": "varchar(20)",
}
ROW: Final[dict[str, Any]] = {
    "id": "1",
    "status": "paid",
    "amount": "20.50",
    "seen_at": "2024-01-01 00:00:00",
    "note": "a",
}
PAID: Final = "status == 'paid'"
TS: Final = 1_700_000_000_000


def rule(where: str = "", *ignored: str, tables: str = "d.*", **more: Any) -> RowRule:
    return RowRule(tables=(tables,), where=where, ignore_updates_of=ignored, **more)


def message(
    op: str = "INSERT",
    old: dict[str, Any] | None = None,
    at: int = 0,
    types: dict[str, str] = TYPES,
    **more: Any,
) -> dict[str, Any]:
    """A message of TiCDC about a row, of which `more` are other values; `old`: the values that changed."""
    before = None if old is None else [ROW | more | old]
    codes = {name: -5 if kind.startswith("bigint") else 12 for name, kind in types.items()}
    text = row_message(
        types, {name: (ROW | more).get(name) for name in types}, op=op, old=before, pkNames=["id"]
    )
    return text | {"sqlType": codes, "es": TS + at, "_tidb": {"commitTs": (TS + at) << 18}}


def statement(sql: str, kind: str = "CREATE") -> dict[str, Any]:
    text = row_message({}, op=kind, isDdl=True)
    return text | {
        "sql": sql,
        "data": None,
        "mysqlType": None,
        "sqlType": None,
        "_tidb": {"commitTs": TS << 18},
    }


CREATE: Final = statement(
    "CREATE TABLE `t` (`id` bigint unsigned NOT NULL, `status` varchar(20), `amount` decimal(12,2), "
    "`seen_at` datetime, `note` varchar(20), PRIMARY KEY (`id`))"
)


def compact(text: dict[str, Any], at: int = 0) -> ConsumerRecord:
    return record(msgspec.json.encode(text), offset=at, timestamp_ms=TS + at)


def story() -> list[ConsumerRecord]:
    """Rows that are selected by `PAID` or not, before and after their changes."""
    texts = [
        CREATE,
        message(at=1),
        message(at=2, id="2", status="new"),
        message("UPDATE", {"status": "new"}, at=3),
        message("UPDATE", {"status": "paid"}, at=4, status="sent"),
        message("UPDATE", {"note": "b"}, at=5),
        message("UPDATE", {"note": "b"}, at=6, status="new"),
        message("DELETE", at=7),
        message("DELETE", at=8, status="new"),
        message(at=9, id="18446744073709551615"),
    ]
    return [compact(text, at) for at, text in enumerate(texts)]


@functools.cache
def source_records(protocol: str) -> tuple[ConsumerRecord, ...]:
    """The story in a protocol."""
    translator, written = Translator(TICDC, protocol), list[ConsumerRecord]()
    for at, each in enumerate(story()):
        written += as_records(Resolver().translate(translator, each), at)
    return tuple(written)
