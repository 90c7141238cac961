"""Topics by a pattern in the Spark job: those that are there, and in a continuous run those that come later."""

from __future__ import annotations

import asyncio
import threading
from pathlib import Path
from typing import Any

import pytest
from service.topics_support import exists, new_name
from spark.backfills import config_for
from spark.test_topics import contents, of_topic, relayed

from relay import ConsumerRecord
from relay.config import Config
from relay.model.errors import TopicUnusable
from spark_backfill.job import TopicsRun

pytestmark = pytest.mark.kafka
FILE = "ticdc/canal-json.tidb-extension/09_dml"


def pattern_config(kafka: Any, prefix: str, tmp_path: Path) -> Config:
    source = {
        "bootstrap_servers": kafka.bootstrap_servers,
        "topics": None,
        "topics_pattern": rf"{prefix}\.[a-z.]+",
        "exclude_topics_pattern": rf"{prefix}\.(audit|internal)",
        "metadata_max_age_ms": 500,
    }
    target = {"topic": "{topic}.out", "create_topics": True, "create_settings": {"retention.ms": -1}}
    config = config_for("", "", target=target, backfill={"checkpoint": str(tmp_path / "checkpoint")})
    # `config_for` names a topic.
    tables = config.model_dump(by_alias=True)
    tables["source"] |= source
    del tables["source"]["topics"]
    return Config(**tables)


async def fill(kafka: Any, *names: str) -> dict[str, list[ConsumerRecord]]:
    """Create topics, each with records of the file."""
    found = {}
    for name in names:
        topic = await kafka.topic(name=name)
        found[topic] = of_topic(topic, FILE)
        await kafka.produce(topic, found[topic])
    return found


async def check_written(kafka: Any, config: Config, records: dict[str, list[ConsumerRecord]]) -> None:
    """The targets have what the service writes."""
    for topic, each in records.items():
        expected = relayed(config.with_topics([topic]), each)[0]
        assert contents(await kafka.read(f"{topic}.out")) == contents(expected)


async def test_topics_that_come_while_a_run_goes_on(spark: Any, kafka: Any, tmp_path: Path) -> None:
    prefix = new_name()
    config = pattern_config(kafka, prefix, tmp_path)
    with pytest.raises(TopicUnusable, match=r"no topic at 127.0.0.1:[0-9]+ matches"):
        TopicsRun(spark, config)
    records = await fill(kafka, f"{prefix}.a", f"{prefix}.b")
    await fill(kafka, f"{prefix}.audit")
    run = TopicsRun(spark, config)
    thread = threading.Thread(target=run.run, kwargs={"continuous": True})
    thread.start()
    try:
        await kafka.until(lambda: _has_read(run, records), 120)
        records |= await fill(kafka, f"{prefix}.c")
        await kafka.until(lambda: _has_read(run, records), 120)
    finally:
        run.stop()
        await asyncio.to_thread(thread.join, 60)
    assert not thread.is_alive()
    # A run that ends resolves the pattern at its start.
    records |= await fill(kafka, f"{prefix}.d")
    counts = TopicsRun(spark, config).run()
    assert counts.read == len(records[f"{prefix}.d"])
    await check_written(kafka, config, records)
    assert not await exists(kafka, f"{prefix}.a.out.out")
    assert not await exists(kafka, f"{prefix}.audit.out")


async def _has_read(run: TopicsRun, records: dict[str, list[ConsumerRecord]]) -> bool:
    """Whether a step is counted that has read all of these: then all is written."""
    return run.counts.read == sum(map(len, records.values()))
