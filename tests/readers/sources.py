"""Captured records whose truth is known, and how their tables are compared."""

from __future__ import annotations

import json
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Iterator
from typing import Any

from readers.truth import Step, Table, difference, replay_difference, tables
from support import ALL_ROUTES, CAPTURED, DATA, captured, protocol_of, reading_options

from relay import ConsumerRecord, ProducerRecord, Translator

#: A topic for each table.
BY_TABLE = "{topic}.{database}.{table}"
#: The names that Kafka takes for topics.
KAFKA_NAME = re.compile(r"[a-zA-Z0-9._-]{1,249}")
#: Folders of tests/data with all sets of statements, or most.
VARIANTS = (
    "ticdc/canal-json.tidb-extension",
    "ticdc/open-protocol",
    "ticdc/debezium.no-schema",
    "mysql/canal-json",
    "mysql/debezium.no-schema",
)
#: Only the beginning is there.
_CUT = "mysql/debezium.no-schema/07_keys"
FILES = [
    file
    for file in CAPTURED
    if file != _CUT
    and file.rpartition("/")[0] in VARIANTS
    and (DATA / "truth" / f"{file.rpartition('/')[2]}.json").exists()
]
#: Some of each folder and of each set of statements, for readers that take long; `make routes` tries all.
SOME_FILES = FILES if ALL_ROUTES else FILES[::3]
#: Columns whose values are lost before relay sees them (docs/decisions/readers.md).
_LOST: dict[str, dict[str, set[str]]] = {
    "mysql/canal-json": {
        "charset_db.gb": {"c", "v", "t"},
        "charset_db.lat": {"v"},
        "charset_db.per_column": {"a", "b"},
        "strings_db.mixed_charset": {"vbin", "tbin"},
    },
    "mysql/debezium.no-schema": {
        "ddl_db.members": {"m2"},
        "ddl_db.people_like": {"m2"},
        "ddl_other.people_moved": {"m2"},
        "esjg_db.js": {"j"},
        "temporal_db.temporal_pk": {"d"},
    },
    "ticdc/debezium.no-schema": {
        "ddl_db.members": {"m2"},
        "ddl_db.people": {"m2"},
        "ddl_db.people_like": {"m2"},
        "ddl_other.people_moved": {"m2"},
        "numeric_db.decimals": {"d65_30"},
        "temporal_db.temporal_pk": {"d"},
        "zero_dates_db.zd": {"d", "dnn", "dt", "dtnn"},
    },
}


def translated(file: str, target: str, topic: str = "{topic}", **options: str) -> list[ProducerRecord]:
    """What relay writes for a captured file."""
    translator = Translator(protocol_of(file), target, reading_options(file), options, topic=topic)
    return [record for each in captured(file) for record in translator.translate(each)]


def comparable(file: str) -> Iterator[Table]:
    """The tables of a file of which a reader can be asked for the truth.

    The truth is TiDB's. Of MySQL's records, tables that DDL changed meanwhile or that had rows before are left
    out, because their rows went other ways there. Columns with lost values are left out, too.
    """
    variant, _, statements = file.rpartition("/")
    for table in tables(statements).values():
        elsewhere = variant.startswith("mysql") and (table.altered or not table.begins_empty)
        if not elsewhere:
            yield table.without(_LOST.get(variant, {}).get(table.id, set()))


def wrongly_read(
    file: str,
    read: Callable[[Table], list[Step]],
    declared: Callable[[Table], Table | None] = lambda table: table,
) -> dict[str, str]:
    """The tables that a reader got wrong, and what is wrong with them; `declared` gives a table as its reader
    declares it, None if it does not.
    """
    compare = replay_difference if file.startswith("mysql/") else difference
    found = {}
    for each in comparable(file):
        table = declared(each)
        if table is not None and (said := compare(table, read(table))):
            found[table.id] = said
    return found


def _json_owner(value: bytes | None) -> tuple[str, str] | None:
    """The table of a row's message in Debezium's JSON; a tombstone names none."""
    if value is None:
        return None
    message = json.loads(value)
    source = message.get("payload", message)["source"]
    return source["db"], source["table"]


def topics_of_tables(
    records: Iterable[ProducerRecord | ConsumerRecord],
    owner_of: Callable[[bytes | None], tuple[str, str] | None] = _json_owner,
) -> dict[tuple[str, str], list[Any]]:
    """The records of each table's topic, where no topic has rows of two tables; of Debezium's messages."""
    by_topic: dict[str, list[Any]] = defaultdict(list)
    for record in records:
        by_topic[record.topic].append(record)
    found: dict[tuple[str, str], list[Any]] = {}
    for topic, messages in by_topic.items():
        owners = {owner for message in messages if (owner := owner_of(message.value)) is not None}
        assert len(owners) == 1, f"{topic} has rows of {owners}"
        assert KAFKA_NAME.fullmatch(topic), topic
        found.setdefault(owners.pop(), []).extend(messages)
    return found
