"""The second flagship through a real Kafka: TiCDC Open Protocol from 3 partitions to TiCDC Debezium, kept and
re-keyed.
"""

from __future__ import annotations

import json
import signal
from collections import defaultdict
from pathlib import Path
from typing import Any

import msgspec
import pytest
from service.test_process import finished, relay_process
from support import OPEN, captured

from relay import ConsumerRecord, ProducerRecord, Translator

pytestmark = pytest.mark.kafka

DEBEZIUM = "ticdc-debezium"
FILES = ("09_dml", "10_ddl")


def given_records(topic: str) -> list[ConsumerRecord]:
    """Captured records of 3 partitions (DDL and resolved events in each), as one topic holds them."""
    offsets: dict[int, int] = defaultdict(int)
    found = []
    for name in FILES:
        for record in captured(f"ticdc/open-protocol.3-partitions/{name}"):
            found.append(msgspec.structs.replace(record, topic=topic, offset=offsets[record.partition]))
            offsets[record.partition] += 1
    return found


def _translated(
    records: list[ConsumerRecord], target: str, options: dict[str, str], partitions: int | None = None
) -> list[ProducerRecord]:
    translator = Translator(OPEN, DEBEZIUM, None, options, topic=target, partitions=partitions)
    return [out for record in records for out in translator.translate(record)]


def by_place(records: Any) -> dict[int, list[tuple[Any, ...]]]:
    found: dict[int, list[tuple[Any, ...]]] = defaultdict(list)
    for record in records:
        found[record.partition].append((record.timestamp_ms, record.key, record.value, record.headers))
    return found


async def _relayed(
    kafka: Any, config: Any, folder: Path, records: list[ConsumerRecord], at_least: int
) -> list[ConsumerRecord]:
    await kafka.produce(config.source.topics[0], records)
    process = await relay_process(folder, config)
    written: list[ConsumerRecord] = await kafka.read(config.target.topic, at_least=at_least)
    process.send_signal(signal.SIGTERM)
    status, _ = await finished(process)
    assert status == 0
    return written


@pytest.mark.parametrize("schema", ["with-schema", "without-schema"])
async def test_partitions_kept(kafka: Any, make_config: Any, tmp_path: Path, schema: str) -> None:
    """Every record, in its partition and order, byte for byte what the translator makes of it."""
    options = {"enable-tidb-extension": "true"} | (
        {"debezium-disable-schema": "true"} if schema == "without-schema" else {}
    )
    source, target = await kafka.topic(3), await kafka.topic(3)
    records = given_records(source)
    wanted = _translated(records, target, options)
    config = make_config(source, target, route_from=OPEN, route_to=DEBEZIUM, route_to_options=options)
    written = await _relayed(kafka, config, tmp_path, records, len(wanted))
    assert by_place(written) == by_place(wanted)
    rows = [json.loads(record.value or b"")["payload"] for record in written]
    assert {row.get("op") for row in rows} == {"c", "u", "d", "m", None}


async def test_partitions_changed(kafka: Any, make_config: Any, tmp_path: Path) -> None:
    """From 3 to 2 partitions: every row once, rows of one key in one partition and in order, every DDL in
    both.
    """
    source, target = await kafka.topic(3), await kafka.topic(2)
    records = given_records(source)
    options = {"enable-tidb-extension": "true", "debezium-disable-schema": "true"}
    rows = sum(b'"op":"m"' not in (out.value or b"") for out in _translated(records, target, options, 2))
    config = make_config(
        source, target, route_from=OPEN, route_to=DEBEZIUM, route_to_options=options, target_partitions=2
    )
    written = await _relayed(kafka, config, tmp_path, records, rows)
    keys: dict[tuple[bytes | None, str], list[tuple[int, int]]] = defaultdict(list)
    for record in written:
        payload = json.loads(record.value or b"")["payload"]
        if payload.get("op") in {"c", "u", "d"}:
            source = payload["source"]
            keys[record.key, f"{source['db']}.{source['table']}"].append(
                (record.partition, source["commit_ts"])
            )
    given = sum(
        payload.count(b'"t":1}') + payload.count(b'"t":1,"ptn"')
        for payload in (record.key or b"" for record in records)
    )
    assert sum(map(len, keys.values())) == given
    for (key, _), moves in keys.items():
        if json.loads(key or b"{}")["payload"]:
            assert len({partition for partition, _ in moves}) == 1
            assert [commit_ts for _, commit_ts in moves] == sorted(commit_ts for _, commit_ts in moves)
