"""A dry run on a real broker: it reads and counts, and leaves no trace."""

from __future__ import annotations

import asyncio
from typing import Any

import msgspec
import pytest
from service.conftest import ListLog
from support import captured

from relay.config import Config
from relay.service.app import run_until
from relay.service.observe.about import About
from relay.service.observe.status import Status

pytestmark = pytest.mark.kafka

DML = "ticdc/canal-json.tidb-extension/09_dml"


async def dry(kafka: Any, config: Config, source: str, count: int) -> tuple[ListLog, Status]:
    """A dry run that is stopped when it has read so many records."""
    log, status, stop = ListLog(), Status(About.of(config)), asyncio.Event()
    task = asyncio.create_task(run_until(stop, config, log, None, status, dry_run=True))

    async def is_read() -> bool:
        assert not task.done(), log.events
        return status.consumption[source].records >= count

    try:
        await kafka.until(is_read)
    finally:
        stop.set()
        assert await task == 0, log.events
    return log, status


async def test_it_translates_and_counts_and_leaves_no_trace(kafka: Any, make_config: Any) -> None:
    source = await kafka.topic()
    records = captured(DML)
    await kafka.produce(source, records)
    settings = {"route_include_tables": ["dml_db.*"], "target_create_topics": True}
    config = make_config(source, f"{source}.out", **settings)
    before = [each for each in await kafka.topics() if not each.startswith("__")]
    log, status = await dry(kafka, config, source, len(records))
    assert set(await kafka.topics()) - {"__consumer_offsets", "__transaction_state"} == set(before)
    assert await kafka.committed(config.source.group_id) == {}
    assert [each["message"] for each in log.named("topics.warning")] == [
        f"target topic {source}.out does not exist at {config.target_servers}: `relay run` creates it",
        f"schema history {config.history_topic} does not exist at {config.target_servers}: `relay run` creates it",
    ]
    assert "nothing is written" in log.named("relay.dry-run")[0]["message"]
    (stopped,) = log.named("relay.stopped")
    assert (stopped["dry_run"], stopped["records_read"], stopped["records_written"]) == (
        True,
        len(records),
        0,
    )
    assert stopped["records_translated"] > 20
    assert stopped["events"]["insert"] > 0
    assert "commit-ts" in stopped["lost"]
    assert status.about.mode == "dry run"
    assert all(traffic.records == 0 for traffic in status.production.values())
    assert status.last_commit is None


async def test_it_begins_where_the_group_has_committed_and_keeps_its_history(
    kafka: Any, make_config: Any, run_relay: Any
) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    records = captured(DML)
    half = len(records) // 2
    config = make_config(source, target)
    await kafka.produce(source, records[:half])
    relay = run_relay(config, None)
    await kafka.until(lambda: _has_committed(kafka, config, source, half))
    assert await relay.stop() == 0
    written, kept = await kafka.length(target), await kafka.length(config.history_topic)
    later = [msgspec.structs.replace(each, offset=each.offset) for each in records[half:]]
    await kafka.produce(source, later)
    log, _ = await dry(kafka, config, source, len(later))
    (stopped,) = log.named("relay.stopped")
    assert stopped["records_read"] == len(later)
    assert log.named("schemas.loaded")[0]["records"] > 0
    assert "inferred_tables" not in stopped
    assert (await kafka.length(target), await kafka.length(config.history_topic)) == (written, kept)
    assert await _has_committed(kafka, config, source, half)


async def _has_committed(kafka: Any, config: Config, source: str, offset: int) -> bool:
    return bool((await kafka.committed(config.source.group_id)).get((source, 0)) == offset)
