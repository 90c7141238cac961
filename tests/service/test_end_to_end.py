"""Captured TiCDC records through a real Kafka: the target topic equals what `relay translate` makes, also
after a crash.
"""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import msgspec
import pytest
from service.test_process import finished, has_logged, relay_process
from support import CANAL, TICDC, captured, captured_files
from typer.testing import CliRunner

from relay.cli.commands import app
from relay.cli.record_files import RecordReader
from relay.model.records import SOURCE_HEADER, ConsumerRecord

pytestmark = pytest.mark.kafka

PARTITIONS = 4


def spread(records: Iterable[ConsumerRecord], topic: str) -> list[ConsumerRecord]:
    """The records as a topic of 4 partitions holds them: DDL in 0, watermarks in every one, a table's rows
    together.

    DDL comes first, so that the relay can be given all of it before any row: rows of other partitions must
    not outrun it here.
    """
    offsets: dict[int, int] = defaultdict(int)
    found = []
    for record in sorted(records, key=lambda record: not is_ddl(record)):
        message = json.loads(record.value or b"null")
        if message["isDdl"]:
            partitions = [0]
        elif message["type"] == "TIDB_WATERMARK":
            partitions = list(range(PARTITIONS))
        else:
            partitions = [sum(message["table"].encode()) % PARTITIONS]
        for partition in partitions:
            position = {"topic": topic, "partition": partition, "offset": offsets[partition]}
            found.append(msgspec.structs.replace(record, **position))
            offsets[partition] += 1
    return found


def is_ddl(record: ConsumerRecord) -> bool:
    return b'"isDdl":true' in (record.value or b"")


def everything() -> list[ConsumerRecord]:
    return [record for path in captured_files("ticdc/canal-json.tidb-extension") for record in captured(path)]


def translated_by_cli(records: list[ConsumerRecord], target: str, folder: Path) -> list[ConsumerRecord]:
    """What `relay translate` makes of the same records."""
    given, made = folder / "in.jsonl", folder / "out.jsonl"
    with given.open("w", encoding="utf-8") as out:
        for record in records:
            value = (record.value or b"").decode()
            fields = {
                "topic": record.topic,
                "partition": record.partition,
                "offset": record.offset,
                "timestamp": record.timestamp_ms,
            }
            out.write(json.dumps(fields | {"headers": [], "key": None, "value": value}) + "\n")
    done = CliRunner().invoke(
        app,
        [
            "translate",
            "--from",
            TICDC,
            "--to",
            CANAL,
            "--topic",
            target,
            "--quiet",
            str(given),
            "--output",
            str(made),
        ],
    )
    assert done.exit_code == 0, done.output
    with made.open("rb") as stream:
        return list(RecordReader(stream, made.name))


def by_place(records: Iterable[ConsumerRecord]) -> list[tuple[Any, ...]]:
    ordered = sorted(records, key=lambda record: (record.partition, record.offset))
    return [(r.partition, r.timestamp_ms, r.key, r.value, r.headers) for r in ordered]


def without_repeats(records: Iterable[ConsumerRecord]) -> list[ConsumerRecord]:
    """The records without those that a crash has repeated: the header tells."""
    seen = set()
    found = []
    for record in records:
        mark = dict(record.headers)[SOURCE_HEADER]
        if mark not in seen:
            seen.add(mark)
            found.append(record)
    return found


async def test_the_target_topic_equals_the_translated_file(
    kafka: Any, make_config: Any, tmp_path: Path
) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    records = spread(everything(), source)
    ddl = [record for record in records if is_ddl(record)]
    wanted = by_place(translated_by_cli(records, target, tmp_path))
    await kafka.produce(source, ddl)
    process = await relay_process(tmp_path, make_config(source, target))
    await kafka.read(target, at_least=len(ddl))
    await kafka.produce(source, records[len(ddl) :])
    written = await kafka.read(target, at_least=len(wanted))
    process.send_signal(signal.SIGTERM)
    status, _ = await finished(process)
    assert status == 0
    assert by_place(written) == wanted


async def test_killed_in_the_middle_and_started_again_nothing_is_lost(
    kafka: Any, make_config: Any, tmp_path: Path
) -> None:
    source, target = await kafka.topic(PARTITIONS), await kafka.topic(PARTITIONS)
    once = everything()
    records = spread(once * 20, source)
    await kafka.produce(source, records)
    wanted = translated_by_cli(records, target, tmp_path)
    # Small answers, so that it is not through before somebody has looked.
    config = make_config(source, target, source_max_partition_fetch_bytes=20_000)
    first = await relay_process(tmp_path, config)
    await kafka.until(lambda: _has_begun(kafka, target))
    first.kill()
    await finished(first)
    at_the_kill = await kafka.length(target)
    second = await relay_process(tmp_path, config)
    await has_logged(second, "relay.starting")
    await kafka.until(lambda: _holds_all(kafka, config.source.group_id, source, len(records)))
    second.send_signal(signal.SIGTERM)
    assert (await finished(second))[0] == 0
    written = without_repeats(await kafka.read(target))
    assert at_the_kill < len(wanted), "the kill came too late to show anything"
    marks = [
        dict(record.headers)[SOURCE_HEADER]
        for record in sorted(wanted, key=lambda r: (r.partition, r.offset))
    ]
    assert [dict(record.headers)[SOURCE_HEADER] for record in written] == marks


async def _has_begun(kafka: Any, topic: str) -> bool:
    return bool(await kafka.length(topic) > 0)


async def _holds_all(kafka: Any, group: str, topic: str, count: int) -> bool:
    committed = await kafka.committed(group)
    return bool(sum(offset for (name, _), offset in committed.items() if name == topic) >= count)
