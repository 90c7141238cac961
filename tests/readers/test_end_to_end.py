"""From TiCDC's Open Protocol on a real Kafka to rows in a real PostgreSQL: `relay run` with
`profile=kafka-connect`, a topic for each table, and Debezium's JDBC sink.
"""

from __future__ import annotations

import asyncio
import signal
import sys
from collections import Counter, defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from readers.connect import Sink
from readers.sources import BY_TABLE, topics_of_tables
from readers.truth import Table, final_difference, tables
from service.test_process import finished
from support import OPEN, captured

from relay import ConsumerRecord, Translator

pytestmark = pytest.mark.kafka

TARGET = "debezium-json"
OPTIONS = {"profile": "kafka-connect"}
PARTITIONS = 3
FILES = {
    "01_all_types": "ticdc/open-protocol/01_all_types",
    "02_numeric": "ticdc/open-protocol/02_numeric",
    "03_temporal": "ticdc/open-protocol/03_temporal",
    "04_strings_binary": "ticdc/open-protocol/04_strings_binary",
    "06_zero_dates": "ticdc/open-protocol/06_zero_dates",
    "07_keys": "ticdc/open-protocol/07_keys",
    "09_dml": "ticdc/open-protocol.3-partitions/09_dml",
    "11_enum_set_json_generated": "ticdc/open-protocol/11_enum_set_json_generated",
}
#: The sink asks for a key, to update and to delete by, and PostgreSQL has no U+0000.
NOT_FOR_THE_SINK = {"dml_db.log_nokey", "keys_db.no_key", "keys_db.uk_nullable", "strings_db.txt"}


def given_tables() -> list[Table]:
    """Return the source's rows from SQL; the profile turns dates that are not in the calendar into NULL."""
    found = [table for file in FILES for table in tables(file).values()]
    return [table.with_calendar_dates() for table in found if table.id not in NOT_FOR_THE_SINK]


def test_the_source_has_all_that_may_go_wrong() -> None:
    names, changes = set(), []
    for file in FILES:
        for table in tables(file).values():
            if table.id in NOT_FOR_THE_SINK:
                continue
            names |= {kind.name + " unsigned" * kind.unsigned for kind in table.columns.values()}
            changes += table.changes
    assert names >= {
        "bigint unsigned", "decimal", "bit", "time", "binary", "varbinary", "blob", "json", "enum", "set",
        "year", "float", "double", "date", "datetime", "timestamp", "char", "varchar", "text",
    }  # fmt: skip
    assert {(change.before is None, change.after is None) for change in changes} == {
        (True, False),
        (False, False),
        (False, True),
    }


def test_the_source_has_zero_dates() -> None:
    cells = [cell for change in _zero_dates().changes for _, row in change.steps for cell in row]
    assert {"0000-00-00", "0000-00-00 00:00:00.000000"} <= set(cells)


def _zero_dates() -> Table:
    return tables("06_zero_dates")["zero_dates_db", "zd"]


def test_the_source_has_updates_of_keys() -> None:
    """TiDB has them as a DELETE and an INSERT of one transaction."""
    both = {True, False}
    assert any(
        {change.after is None for change in table.changes if change.commit_ts == commit_ts} == both
        for table in tables("07_keys").values()
        if table.id not in NOT_FOR_THE_SINK
        for commit_ts in {change.commit_ts for change in table.changes}
    )


def given(topic: str) -> list[ConsumerRecord]:
    """All records as one topic holds them; those of a producer with one partition are in partition 0."""
    offsets: dict[int, int] = defaultdict(int)
    found = []
    for file in FILES.values():
        for record in captured(file):
            offset = offsets[record.partition]
            found.append(msgspec.structs.replace(record, topic=topic, offset=offset))
            offsets[record.partition] += 1
    return found


async def relay_process(folder: Path, bootstrap_servers: str, source: str) -> asyncio.subprocess.Process:
    path = folder / "relay.toml"
    path.write_text(
        f"""
        [route]
        from = "{OPEN}"
        to = "{TARGET}"
        [route.to_options]
        profile = "{OPTIONS["profile"]}"
        [source]
        bootstrap_servers = "{bootstrap_servers}"
        topics = ["{source}"]
        group_id = "group-of-{source}"
        [target]
        topic = "{BY_TABLE}"
        create_topics = true
        [delivery]
        commit_interval_seconds = 0.2
        """
    )
    command = [sys.executable, "-m", "relay", "run", "--config", str(path)]
    pipe = asyncio.subprocess.PIPE
    return await asyncio.create_subprocess_exec(*command, stdout=pipe, stderr=pipe)


async def test_postgresql_has_the_rows_of_the_source(kafka: Any, sink: Sink, tmp_path: Path) -> None:
    source = await kafka.topic(PARTITIONS)
    records = given(source)
    translator = Translator(OPEN, TARGET, None, OPTIONS, topic=BY_TABLE)
    expected = Counter(out.topic for record in records for out in translator.translate(record))
    await kafka.produce(source, records)
    process = await relay_process(tmp_path, kafka.bootstrap_servers, source)
    try:
        await kafka.until(lambda: _are_there(kafka, process, set(expected)))
        written = [record for topic in expected for record in await kafka.read(topic, expected[topic])]
        process.send_signal(signal.SIGTERM)
        status, _ = await finished(process)
        assert status == 0
    finally:
        if process.returncode is None:
            process.kill()
    assert Counter(record.topic for record in written) == expected

    topics = topics_of_tables(written)
    wrong = {}
    for table in given_tables():
        stored = sink.store(topics[table.database, table.name])
        if said := final_difference(table, sink.rows(stored, table)):
            wrong[table.id] = said
    assert wrong == {}


async def _are_there(kafka: Any, process: asyncio.subprocess.Process, topics: set[str]) -> bool:
    assert process.returncode is None, await finished(process)
    return topics <= set(await kafka.topics())
