"""Killed runs go on, and a continuous run translates what comes."""

from __future__ import annotations

import asyncio
import os
import random
import signal
import subprocess
import sys
import threading
import time
from pathlib import Path
from typing import Any

import pytest
from spark.backfills import lines_in
from spark.test_topics import BULK, contents, of_topic, relayed, topics_config
from support import captured

from relay.record_lines import format_record
from spark_backfill.job import TopicsRun

pytestmark = pytest.mark.kafka
ROOT = Path(__file__).parent.parent.parent


class Killed:
    """The command in a process group of its own, so that SIGKILL takes the JVM and the workers as well."""

    def __init__(self, config: Path, settings: dict[str, str], log: Path) -> None:
        spark = {name: value for name, value in settings.items() if name != "spark.jars.packages"}
        flags = [part for name, value in spark.items() for part in ("--conf", f"{name}={value}")]
        submit = str(Path(sys.executable).parent / "spark-submit")
        self.log = log
        with log.open("ab") as out:
            self._process = subprocess.Popen(
                [submit, *flags, str(ROOT / "spark_backfill/main.py"), "--config", str(config)],
                stdout=out,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )

    def said(self, words: str, seconds: float = 240) -> None:
        deadline = time.monotonic() + seconds
        while words not in self.log.read_text():
            assert self._process.poll() is None, self.log.read_text()[-3000:]
            assert time.monotonic() < deadline, self.log.read_text()[-3000:]
            time.sleep(0.05)

    def kill(self) -> None:
        os.killpg(self._process.pid, signal.SIGKILL)
        self._process.wait()

    def wait(self, seconds: float = 300) -> int:
        try:
            return self._process.wait(seconds)
        except subprocess.TimeoutExpired:
            self.kill()
            raise


def written_config(folder: Path, servers: str, source: str, output: Path | None, target: str = "{topic}.canal") -> Path:
    path = folder / "relay.toml"
    path.write_text(
        f"""
        [route]
        from = "ticdc-canal-json"
        to = "canal-json"
        [source]
        bootstrap_servers = "{servers}"
        topics = ["{source}"]
        group_id = "relay"
        [target]
        topic = "{target}"
        [backfill]
        checkpoint = "{folder / "checkpoint"}"
        output = "{output or ""}"
        batch_records = 200
        task_records = 200
        """
    )
    return path


@pytest.mark.parametrize("to_files", [True, False], ids=["files", "topic"])
async def test_a_killed_run_goes_on(to_files: bool, kafka: Any, spark_settings: dict[str, str], tmp_path: Path) -> None:
    """Files are as if nothing had happened; in a topic repeats are recognised by their header."""
    source, target = await kafka.topic(), await kafka.topic()
    records = of_topic(source, BULK)
    await kafka.produce(source, records)
    output = tmp_path / "out" if to_files else None
    config = written_config(tmp_path, kafka.bootstrap_servers, source, output, target)
    log = tmp_path / "log"
    run = Killed(config, spark_settings, log)
    try:
        await asyncio.to_thread(run.said, "step 0:")
        await asyncio.sleep(random.Random(7).uniform(0, 1))
    finally:
        run.kill()
    assert f"{len(records)} records read" not in log.read_text()
    assert await asyncio.to_thread(Killed(config, spark_settings, log).wait) == 0, log.read_text()[-3000:]
    expected = relayed(topics_config(kafka, source, target, tmp_path), records)[0]
    if to_files:
        lines = [format_record(out, offset).rstrip(b"\n") for offset, out in enumerate(expected)]
        assert lines_in(tmp_path / "out") == {f"{target}/0": lines}
        return
    found = contents(await kafka.read(target, len(expected)))[0]
    once = list(dict.fromkeys(found))
    assert once == contents(expected)[0]
    assert len({headers for *_, headers in once}) == len(once)


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
