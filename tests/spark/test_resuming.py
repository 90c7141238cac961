"""Killed runs go on, and a continuous run translates what comes."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import lines_in
from spark.killing import Command, content_of, once, written_config
from spark.test_topics import BULK, contents, of_topic, relayed, topics_config
from support import captured

from relay.record_lines import format_record
from spark_backfill.job import TopicsRun

pytestmark = pytest.mark.kafka


async def test_a_killed_run_goes_on(kafka: Any, spark_settings: dict[str, str], tmp_path: Path) -> None:
    """One run to files and one to a topic at the same time: files are as if nothing had happened, repeats in a topic are known.

    `make chaos-spark` kills at other moments.
    """
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, BULK)
    await kafka.produce(source, records)
    folders = [tmp_path / name for name in ("files", "topic")]
    for folder in folders:
        folder.mkdir()
    configs = [written_config(each, kafka.bootstrap_servers, source, target, to_files=each.name == "files") for each in folders]
    runs = [Command(config, spark_settings, config.parent / "log") for config in configs]
    try:
        await asyncio.gather(*[asyncio.to_thread(run.said, "step 0:") for run in runs])
    finally:
        for run in runs:
            run.kill()
    runs = [Command(config, spark_settings, config.parent / "log") for config in configs]
    assert await asyncio.gather(*[asyncio.to_thread(run.wait) for run in runs]) == [0, 0], runs[0].log.read_text()[-3000:]
    expected = relayed(topics_config(kafka, source, target, tmp_path), records)[0]
    lines = [format_record(out, offset).rstrip(b"\n") for offset, out in enumerate(expected)]
    assert lines_in(tmp_path / "files" / "out") == {f"{target}/0": lines}
    found = [(each.timestamp_ms, each.key, each.value, each.headers) for each in await kafka.read(target, len(expected))]
    assert once(found) == content_of(expected)


async def test_a_continuous_run_translates_what_comes(spark: Any, kafka: Any, tmp_path: Path) -> None:
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, "ticdc/canal-json.tidb-extension/09_dml")
    await kafka.produce(source, records[:20])
    config = topics_config(kafka, source, target, tmp_path)
    run = TopicsRun(spark, config)
    thread = threading.Thread(target=run.run, kwargs={"continuous": True})
    thread.start()
    try:
        await kafka.until(lambda: _has(kafka, target, 1), 120)
        await kafka.produce(source, records[20:])
        expected = relayed(config, records)[0]
        await kafka.until(lambda: _has(kafka, target, len(expected)), 120)
    finally:
        run.stop()
        await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    assert contents(await kafka.read(target)) == contents(expected)
    assert run.counts.read == len(captured("ticdc/canal-json.tidb-extension/09_dml"))


async def _has(kafka: Any, topic: str, length: int) -> bool:
    return bool(await kafka.length(topic) >= length)
