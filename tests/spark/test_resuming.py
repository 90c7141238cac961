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

from relay.config import load_config
from relay.record_lines import format_record
from spark_backfill.history import Kept
from spark_backfill.job import TopicsRun

pytestmark = pytest.mark.kafka


async def test_a_killed_run_goes_on(spark: Any, kafka: Any, spark_settings: dict[str, str], tmp_path: Path) -> None:
    """Repeats in a topic are known by their header. `make chaos-spark` kills at other moments, and runs to files as well."""
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, BULK)
    await kafka.produce(source, records)
    path = written_config(tmp_path, kafka.bootstrap_servers, source, target, to_files=False)
    command = Command(path, spark_settings, tmp_path / "log")
    try:
        await asyncio.to_thread(command.said, "step 0:")
    finally:
        command.kill()
    config = load_config(path)
    # Another process goes on where that one was killed.
    assert TopicsRun(spark, config).run().read <= len(records)
    expected = [out for made in relayed(config, records).values() for out in made]
    found = [(each.timestamp_ms, each.key, each.value, each.headers) for each in await kafka.read(target, len(expected))]
    assert once(found) == content_of(expected)


async def test_a_step_that_was_cut_off_writes_its_files_anew(
    spark: Any, kafka: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """At the worst moment: its files are there, and nobody has noted it."""
    source = await kafka.topic()
    records = of_topic(source, BULK)
    await kafka.produce(source, records)
    backfill = {"output": str(tmp_path / "out"), "batch_records": 200, "task_records": 200}
    config = topics_config(kafka, source, "{topic}", tmp_path, backfill=backfill)

    def cut_off(kept: Kept, step: int, _: object) -> None:
        raise InterruptedError(f"step {step}")

    with monkeypatch.context() as patch:
        patch.setattr(Kept, "keep_written", cut_off)
        with pytest.raises(InterruptedError, match="step 0"):
            TopicsRun(spark, config).run()
    assert lines_in(tmp_path / "out") != {}
    assert TopicsRun(spark, config).run().read == len(records)
    expected = [format_record(out, offset).rstrip(b"\n") for offset, out in enumerate(relayed(config, records)[0])]
    assert lines_in(tmp_path / "out") == {f"{source}/0": expected}


@pytest.mark.parametrize("what", ["ddl", "written"])
def test_a_first_step_that_was_killed_while_it_kept_something_is_done_again(what: str, spark: Any, tmp_path: Path) -> None:
    """Spark has made its folders for unfinished files, and no file."""
    (tmp_path / "relay" / what / "step=0" / "_temporary" / "0").mkdir(parents=True)
    kept = Kept(spark, str(tmp_path))
    assert (kept.ddl_before(1), kept.written_before(1)) == ([], {})
    records = captured("ticdc/canal-json.tidb-extension/09_dml")[:2]
    kept.keep_ddl(0, records)
    kept.keep_written(0, {"t/0": 7})
    kept.keep_written(1, {"t/0": 8})
    again = Kept(spark, str(tmp_path))
    assert (again.ddl_before(1), again.written_before(1), again.written_before(2)) == (records, {"t/0": 7}, {"t/0": 8})


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
