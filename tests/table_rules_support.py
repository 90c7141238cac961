"""Records with other names of tables, for tests of table rules."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from typing import Any

import msgspec
from support import captured, protocol_of, reading_options, record

from relay import (
    CodecError,
    ConsumerRecord,
    ProducerRecord,
    Resolver,
    SchemaChange,
    TableId,
    TableRule,
    Translator,
)


def rule(source: str, target: str) -> TableRule:
    """A table rule."""
    return TableRule(source=source, target=target)


def statement(sql: str, table: str = "orders", at: int = 0, database: str = "shop") -> ConsumerRecord:
    """A statement as Canal sends it."""
    time_ms = 1_700_000_000_000 + at
    message = {
        "id": 0, "database": database, "table": table, "pkNames": None, "isDdl": True, "type": "ALTER",
        "es": time_ms, "ts": time_ms, "sql": sql, "sqlType": None, "mysqlType": None, "data": None, "old": None,
    }  # fmt: skip
    return record(message, offset=at)


def row(table: str, at: int = 0, database: str = "shop", **values: str) -> ConsumerRecord:
    """An INSERT as Canal sends it."""
    row = {"id": str(at), "c": "7"} | values
    message = {
        "id": 0, "database": database, "table": table, "pkNames": ["id"], "isDdl": False, "type": "INSERT",
        "es": 1_700_000_000_000 + at, "ts": 1_700_000_000_000 + at, "sql": "", "old": None, "data": [row],
        "sqlType": dict.fromkeys(row, 4), "mysqlType": dict.fromkeys(row, "int"),
    }  # fmt: skip
    return record(json.dumps(message, separators=(",", ":")), offset=at)


def story_of_shards() -> list[ConsumerRecord]:
    """The statements and rows of two shards, shop_1.orders and shop_2.orders, as TiCDC sends them: each gets
    a column, one diverges and comes back, one is emptied and dropped.
    """
    create = "CREATE TABLE `orders` (`id` INT PRIMARY KEY, `c` INT)"
    add, other = "ALTER TABLE `orders` ADD COLUMN `x` INT", "ALTER TABLE `orders` ADD COLUMN `y` BIGINT"
    steps: list[tuple[int, str]] = [
        *((1, create), (1, ""), (2, create), (2, ""), (1, add), (1, "x"), (2, ""), (2, add), (2, "x")),
        *((1, other.replace("BIGINT", "INT")), (2, other), (2, "x"), (2, "ALTER TABLE `orders` DROP COLUMN `y`")),
        *((1, "TRUNCATE TABLE `orders`"), (2, "DROP TABLE `orders`"), (1, "x")),
    ]  # fmt: skip
    return [_of_shard(shard, text, at) for at, (shard, text) in enumerate(steps)]


def _of_shard(shard: int, text: str, at: int) -> ConsumerRecord:
    """A statement, or a row with a column of this name, of a shard."""
    is_row = text in {"", "x"}
    row = {"id": str(at), "c": "7"} | ({"x": "8"} if text == "x" else {})
    message = {
        "id": 0, "database": f"shop_{shard}", "table": "orders", "pkNames": ["id"] if is_row else None,
        "isDdl": not is_row, "type": "INSERT" if is_row else "ALTER", "es": 1_700_000_000_000 + at, "ts": 0,
        "sql": "" if is_row else text, "sqlType": dict.fromkeys(row, 4) if is_row else None,
        "mysqlType": dict.fromkeys(row, "int") if is_row else None, "old": None,
        "data": [row] if is_row else None, "_tidb": {"commitTs": (1_700_000_000_000 + at) << 18},
    }  # fmt: skip
    return record(json.dumps(message, separators=(",", ":")), offset=at, timestamp_ms=1_700_000_000_000 + at)


# ---------------------------------------------------------------- captured records


def tables_in(file: str) -> set[TableId]:
    """The tables of a captured file."""
    translator = Translator.reader(protocol_of(file), reading_options(file))
    found: set[TableId] = set()
    for each in captured(file):
        try:
            events = Resolver().inspect(translator, each)
        except CodecError:
            continue
        for event in events:
            if isinstance(event, SchemaChange):
                found |= {event.table, *event.targets}
                found |= {table for pair in event.renamed for table in (pair.old, pair.new)}
            elif (schema := getattr(event, "schema", None)) is not None:
                found.add(schema.id)
    return {table for table in found if table.table}


def other(name: str) -> str:
    """Another name of the same length: its last letter or digit is the next one; a name with a dot stays."""
    if "." in name:
        return name
    for first, last in ("az", "AZ", "09"):
        if first <= name[-1] <= last:
            return name[:-1] + (first if name[-1] == last else chr(ord(name[-1]) + 1))
    return name


def rules_for(tables: Iterable[TableId], *, of_databases: bool) -> list[TableRule]:
    """Rules that give other names to databases as a whole, or else to tables."""
    if of_databases:
        databases = sorted({table.database for table in tables if "." not in table.database})
        return [rule(f"{re.escape(each)}\\.(.*)", f"{other(each)}.{{1}}") for each in databases]
    return [
        rule(f"{re.escape(each.database)}\\.{re.escape(each.table)}", f"{{database}}.{other(each.table)}")
        for each in sorted(tables)
        if "." not in each.database
    ]


def names_of(tables: Iterable[TableId], *, of_databases: bool) -> dict[str, str]:
    """The names that change by `rules_for`, with the new ones."""
    names = {each.database if of_databases else each.table for each in tables if "." not in each.database}
    return {name: other(name) for name in sorted(names)}


def renamed(each: ConsumerRecord, names: Mapping[str, str]) -> ConsumerRecord:
    """A record in which other names stand for these, wherever they are whole words."""
    pattern = "|".join(map(re.escape, sorted(names, key=len, reverse=True)))
    words = re.compile(rf"(?<![A-Za-z0-9_-])(?:{pattern})(?![A-Za-z0-9_])".encode())
    replaced = {name.encode(): new.encode() for name, new in names.items()}

    def in_text(text: bytes | None) -> bytes | None:
        return None if text is None else words.sub(lambda found: replaced[found[0]], text)

    return msgspec.structs.replace(each, key=in_text(each.key), value=in_text(each.value))


def outcome(translator: Translator, records: Iterable[ConsumerRecord]) -> list[Any]:
    """The messages of each record, or its error, without quotes around names."""
    found: list[Any] = []
    for each in records:
        try:
            found.append([_plain(out) for out in Resolver().translate(translator, each)])
        except CodecError as error:
            found.append(f"{error.code} {error.path}")
    return found


def _plain(out: ProducerRecord) -> tuple[Any, ...]:
    value = out.value and out.value.replace(b"`", b"")
    return out.topic, out.partition, out.key, value, out.headers, out.blobs
