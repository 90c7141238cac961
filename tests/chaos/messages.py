"""What the source topic holds in a run: one table in TiCDC Canal-JSON, or several, whose rows count how often
they were written.

Partition p has the ids with id modulo PARTITIONS = p. Every partition begins with the DDL of the tables, as
TiCDC sends it; several tables have more of it on the way. The n-th message of an id has `n` in its row, from 0
(the INSERT) on. Now and then there is a watermark, from which Canal's protocol makes nothing.
"""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import orjson

from relay import ConsumerRecord, ProducerRecord, Translator
from relay.model.records import source_mark

SOURCE, TARGET = "ticdc-canal-json", "canal-json"
PARTITIONS = 4
DATABASE = "chaos"
# More than a day ago, as for a relay that catches up: brokers may then write a request twice
# (docs/operations/delivery.md).
_TIME_MS = 1_700_000_000_000
_DDL = "CREATE TABLE `{table}` (`id` INT NOT NULL PRIMARY KEY,`n` BIGINT NOT NULL,`note` VARCHAR(200) NULL)"
_CHANGE = "ALTER TABLE `{table}` COMMENT = '{number}'"
_WATERMARK_EVERY, _CHANGE_EVERY = 500, 90


class Content(NamedTuple):
    """What a message is about, in both protocols alike: the id and its running number, or -1 and 0 for the
    DDL; of several tables -1, -2 and so on, and the number of the statement.
    """

    key: int
    number: int


@dataclass(frozen=True)
class Plan:
    """All messages of a run, by partition, in the order of their offsets."""

    values: Sequence[Sequence[bytes]]

    @property
    def count(self) -> int:
        """How many messages there are."""
        return sum(map(len, self.values))


def timestamp_of(offset: int) -> int:
    """The timestamp of a partition's message in milliseconds."""
    return _TIME_MS + offset


def planned(rng: random.Random, count: int, ids: int = 400, tables: int = 1) -> Plan:
    """Messages that are drawn by `rng`; about `count` in all."""
    parts = range(PARTITIONS)
    return Plan([partition_values(rng, partition, count // PARTITIONS, ids, tables) for partition in parts])


def table_name(number: int, tables: int) -> str:
    """The name of one of so many tables."""
    return f"accounts_{number}" if tables > 1 else "accounts"


def written_twice(plan: Plan, values: Sequence[Sequence[bytes]]) -> int:
    """How many messages of the plan the source topic holds once more, in requests that are repeated right
    behind themselves.

    Raises ValueError, which says where, if it holds anything else. A partition's messages are all different,
    by their times.
    """
    count = 0
    for partition, (planned_values, found) in enumerate(zip(plan.values, values, strict=True)):
        numbers = {value: number for number, value in enumerate(planned_values)}
        before = end = 0
        for offset, value in enumerate(found):
            number = numbers.get(value)
            # A step back is the begin of a request once more, which ends where the source had ended.
            if number is None or number > end or before not in {number, end}:
                raise ValueError(
                    f"partition {partition} holds something else than planned from offset {offset} on"
                )
            before = number + 1
            count += number < end
            end = max(end, before)
        if before != len(planned_values):
            raise ValueError(f"partition {partition} ends before its time, at offset {len(found)}")
    return count


def partition_values(
    rng: random.Random, partition: int, count: int, ids: int, tables: int = 1
) -> list[bytes]:
    """The messages of one partition. A table has the ids that are in one residue class."""
    keys = range(partition, ids, PARTITIONS)
    numbers = dict.fromkeys(keys, 0)
    values = [_statement("CREATE", table, _DDL, (table, tables)) for table in range(tables)]
    for offset in range(tables, count):
        if tables > 1 and offset % _CHANGE_EVERY == 0:
            values.append(_statement("ALTER", offset, _CHANGE, (rng.randrange(tables), tables)))
            continue
        if offset % _WATERMARK_EVERY == 0:
            values.append(
                _message(
                    "TIDB_WATERMARK",
                    offset,
                    database="",
                    table="",
                    pkNames=None,
                    _tidb={"watermarkTs": offset},
                )
            )
            continue
        key = rng.choice(keys)
        values.append(row_message(key, numbers[key], offset, table_name(key // PARTITIONS % tables, tables)))
        numbers[key] += 1
    return values


def _statement(kind: str, offset: int, sql: str, table: tuple[int, int]) -> bytes:
    name = table_name(*table)
    text = sql.format(table=name, number=offset)
    return _message(kind, offset, sql=text, isDdl=True, pkNames=None, table=name)


def row_message(key: int, number: int, offset: int, table: str = "accounts") -> bytes:
    """The INSERT of an id, or its UPDATE from the number before."""
    types = {
        "sqlType": {"id": 4, "n": -5, "note": 12},
        "mysqlType": {"id": "int", "n": "bigint", "note": "varchar"},
    }
    data, old = [_row(key, number)], [_row(key, number - 1)] if number else None
    return _message("UPDATE" if number else "INSERT", offset, data=data, old=old, table=table, **types)


def _row(key: int, number: int) -> dict[str, str]:
    return {"id": str(key), "n": str(number), "note": f"{key:06d}-{number:09d} " * 8}


def _message(kind: str, offset: int, **members: object) -> bytes:
    time_ms = timestamp_of(offset)
    return orjson.dumps(
        {
            "id": 0,
            "database": DATABASE,
            "table": "accounts",
            "pkNames": ["id"],
            "isDdl": False,
            "type": kind,
            "es": time_ms,
            "ts": time_ms,
            "sql": "",
            "sqlType": None,
            "mysqlType": None,
            "data": None,
            "old": None,
        }
        | members
    )


def content_of(value: bytes | None) -> Content | None:
    """What a message of either protocol is about; None for a watermark. Raises ValueError for anything else."""
    message = orjson.loads(value or b"null")
    if not isinstance(message, dict):
        raise ValueError("no message")  # noqa: TRY004 - one kind of error for all that is wrong
    if message.get("type") == "TIDB_WATERMARK":
        return None
    try:
        if message.get("isDdl"):
            _, _, table = message["table"].partition("_")
            _, _, statement = message["sql"].partition(" COMMENT = ")
            return Content(-1 - int(table or 0), int(statement.strip("'") or 0))
        (row,) = message["data"]
        return Content(int(row["id"]), int(row["n"]))
    except (KeyError, TypeError, AttributeError) as error:
        raise ValueError("no row of the table") from error


def translations(topic: str, plan: Plan) -> Mapping[str, bytes]:
    """What relay makes of every message, by mark: the pure translation, partition by partition."""
    return {mark: out.value or b"" for mark, out in written(topic, plan, "{topic}").items()}


def written(topic: str, plan: Plan, template: str) -> Mapping[str, ProducerRecord]:
    """The records that relay makes of every message, by mark, with this template for the target topics."""
    found = {}
    for partition, values in enumerate(plan.values):
        translator = Translator(SOURCE, TARGET, topic=template)
        for offset, value in enumerate(values):
            record = ConsumerRecord(topic, partition, offset, timestamp_of(offset), None, value)
            for out in translator.translate(record):
                found[(source_mark(out.headers) or b"").decode()] = out
    return found
