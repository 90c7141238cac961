"""Executors that are killed during a run, and speculative copies of tasks. `make chaos-spark` tries more."""

from __future__ import annotations

import asyncio
import json
import signal
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from chaos.spark_verify import task_faults
from spark.java import SHORT_RUNS, environment
from spark.killing import Command, Written, content_of, once, written_config
from spark.standalone import SPECULATION, Standalone, connected_to, send

from benchmarks.spark_load import ROUTE, fill, messages
from relay.core.translator import Translator

pytestmark = pytest.mark.kafka
RECORDS = 1_500


@pytest.fixture(scope="module")
def cluster(tmp_path_factory: pytest.TempPathFactory, spark_settings: dict[str, str]) -> Iterator[Standalone]:
    if not Path("/proc/net/tcp").exists():
        pytest.skip("processes are found in /proc")
    folder = tmp_path_factory.mktemp("standalone")
    with Standalone(folder / "spark", environment(folder / "environment", *SHORT_RUNS)) as found:
        yield found


class Disturbed:
    """A run on the cluster from one topic to another, in one step with one writing task."""

    def __init__(self, cluster: Standalone, kafka: Any, folder: Path, settings: dict[str, str]) -> None:
        self._cluster, self.kafka, self._folder = cluster, kafka, folder
        self._settings = settings | cluster.settings(folder / "events")
        self.source = self.target = ""
        self.expected: list[Written] = []
        self._read = 0

    async def start(self, **settings: str) -> Command:
        """Fill the source, and start the command."""
        self.target = await self.kafka.topic()
        self.source = f"source-of-{self.target}"
        await fill(self.kafka.bootstrap_servers, self.source, RECORDS)
        translator = Translator(ROUTE.source, ROUTE.target, topic=self.target)
        for record in messages(RECORDS):
            self._read += 1
            made = translator.translate(msgspec.structs.replace(record, topic=self.source))
            self.expected += content_of(made)
        names = self.kafka.bootstrap_servers, self.source, self.target
        path = written_config(self._folder, *names, to_files=False, step=2 * RECORDS)
        # Many requests, so that a task writes for some time.
        own = ("target.max_batch_bytes=4000", f"backfill.summary={self._folder}/summary")
        options = [word for each in own for word in ("--set", each)]
        return Command(path, self._settings | settings, self._folder / "log", *options)

    async def until(self, length: int, command: Command) -> None:
        """Wait until the target has this many records."""
        while await self.kafka.length(self.target) < length:
            assert not command.has_ended, command.log.read_text()[-3000:]
            await asyncio.sleep(0.005)

    async def check(self, command: Command) -> list[Written]:
        """Wait for the end; the target and the summary must be right. Give all records, with repeats."""
        assert await asyncio.to_thread(command.wait) == 0, command.log.read_text()[-3000:]
        found = [
            (each.timestamp_ms, each.key, each.value, each.headers)
            for each in await self.kafka.read(self.target, await self.kafka.length(self.target))
        ]
        assert once(found) == self.expected
        summary = json.loads((self._folder / "summary").read_text())
        assert summary["records_read"] == self._read
        assert summary["written"] == {f"{self.target}/0": len(self.expected)}
        return found


@pytest.fixture
def disturbed(cluster: Standalone, kafka: Any, tmp_path: Path, spark_settings: dict[str, str]) -> Disturbed:
    return Disturbed(cluster, kafka, tmp_path, spark_settings)


@pytest.mark.slow
async def test_killed_executors_are_replaced(
    cluster: Standalone, disturbed: Disturbed, tmp_path: Path
) -> None:
    """While one of them writes: the task writes again."""
    command = await disturbed.start()
    try:
        await disturbed.until(100, command)
        killed = cluster.executors()
        send(signal.SIGKILL, *killed)
        await disturbed.check(command)
    finally:
        command.kill()
    assert killed
    assert task_faults(tmp_path / "events").retried > 0
    assert "spark.speculation" not in command.log.read_text()


@pytest.mark.slow
async def test_a_speculative_copy_writes_repeats_alone(
    cluster: Standalone, disturbed: Disturbed, tmp_path: Path
) -> None:
    """The first attempt is frozen while it writes, and goes on when its copy is done. The job warns."""
    command, frozen = await disturbed.start(**SPECULATION), list[int]()
    port = int(disturbed.kafka.bootstrap_servers.rpartition(":")[2])
    try:
        await disturbed.until(100, command)
        frozen = connected_to(port, cluster.python_workers())
        send(signal.SIGSTOP, *frozen)
        # Nearly all: the rest is written by both.
        await disturbed.until(len(disturbed.expected), command)
        send(signal.SIGCONT, *frozen)
        found = await disturbed.check(command)
    finally:
        send(signal.SIGCONT, *frozen)
        command.kill()
    assert task_faults(tmp_path / "events").speculative > 0
    assert len(found) > len(disturbed.expected), "there are no repeats: the copy was not of the writing task"
    warning = (
        "warning: spark.speculation is true: copies of tasks write their records to the target topics again"
    )
    assert warning in command.log.read_text()
