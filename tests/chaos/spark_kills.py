"""The Spark job, killed at some moment and started again: its target is as if nothing had happened.

Odd seeds write files, which must be the same exactly; even ones a topic, where repeats are known by
`relay.source`, have the same bytes, and leave the order of first occurrences as it was.
"""

from __future__ import annotations

import asyncio
import os
import random
import tempfile
import time
import uuid
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import msgspec
from aiokafka import AIOKafkaConsumer, TopicPartition
from rich.console import Console
from spark.backfills import lines_in
from spark.conftest import SETTINGS
from spark.java import connector_jars, environment
from spark.killing import Command, Written, content_of, once, written_config

from benchmarks.spark_load import ROUTE, create, fill, messages
from relay.core.translator import Translator
from relay.demo.kafka import Cluster
from relay.io.record_lines import format_record
from relay.model.records import ProducerRecord

RECORDS = 20_000
_STEP = 2_500


class Campaign:
    """A source topic, what must come of it, and how long a run takes that nobody kills."""

    def __init__(self, servers: str, folder: Path) -> None:
        self._servers, self._folder = servers, folder
        self._settings = SETTINGS | {"spark.jars": ",".join(map(str, connector_jars()))}
        self._source = f"source-{uuid.uuid4().hex[:8]}"
        asyncio.run(fill(servers, self._source, RECORDS))
        translator = Translator(ROUTE.source, ROUTE.target, topic="{topic}.canal")
        self._expected: list[ProducerRecord] = []
        for record in messages(RECORDS):
            self._expected += translator.translate(msgspec.structs.replace(record, topic=self._source))

    def run(self, seed: int, kill_after: float | None) -> dict[str, Any]:
        """One try; gives what happened, with `problem` "" if all is well. `kill_after`: seconds after its
        first step has begun.
        """
        to_files, target = seed % 2 == 1, f"target-{uuid.uuid4().hex[:8]}"
        folder = self._folder / f"seed-{seed}-{uuid.uuid4().hex[:4]}"
        folder.mkdir()
        asyncio.run(create(self._servers, [target]))
        config = written_config(folder, self._servers, self._source, target, to_files=to_files, step=_STEP)
        first, steps = Command(config, self._settings, folder / "log"), 0
        _until_there(folder / "checkpoint/spark/offsets/0")
        began = time.monotonic()
        if kill_after is not None:
            time.sleep(kill_after)
            first.kill()
            steps = (folder / "log").read_text().count("\nstep ")
            first = Command(config, self._settings, folder / "log")
        status = first.wait(600)
        seconds = time.monotonic() - began
        problem = f"exit status {status}" if status else self._problem(target, folder if to_files else None)
        done = {
            "seed": seed,
            "to": "files" if to_files else "topic",
            "killed_after": kill_after,
            "steps": steps,
        }
        return done | {"seconds": seconds, "problem": problem}

    def _problem(self, target: str, folder: Path | None) -> str:
        expected = [msgspec.structs.replace(record, topic=target) for record in self._expected]
        if folder is not None:
            lines = [format_record(record, offset).rstrip(b"\n") for offset, record in enumerate(expected)]
            return "" if lines_in(folder / "out") == {f"{target}/0": lines} else "the files differ"
        try:
            found = once(asyncio.run(_read(self._servers, target)))
        except AssertionError as error:
            return str(error)
        return (
            ""
            if found == content_of(expected)
            else f"{len(found)} records of {len(expected)}, or another order"
        )


def _until_there(path: Path, seconds: float = 240) -> None:
    deadline = time.monotonic() + seconds
    while not path.exists():
        if time.monotonic() > deadline:
            raise TimeoutError(f"{path} is not there after {seconds:g} s")
        time.sleep(0.05)


async def _read(servers: str, topic: str) -> list[Written]:
    partition, found = TopicPartition(topic, 0), []
    async with AIOKafkaConsumer(bootstrap_servers=servers, auto_offset_reset="earliest") as consumer:
        consumer.assign([partition])
        end = (await consumer.end_offsets([partition]))[partition]
        while await consumer.position(partition) < end:
            records = (await consumer.getmany(partition, timeout_ms=500)).get(partition, ())
            found += [(each.timestamp, each.key, each.value, tuple(each.headers)) for each in records]
    return found


def spark_kills(seeds: Sequence[int]) -> tuple[dict[str, Any], bool]:
    """All tries; figures, and whether every one was well."""
    console = Console(highlight=False, markup=False, soft_wrap=True)
    with tempfile.TemporaryDirectory(prefix="relay-chaos-spark-", ignore_cleanup_errors=True) as name:
        folder = Path(name)
        os.environ.update(environment(folder / "environment"))
        with Cluster(folder / "kafka") as cluster:
            campaign = Campaign(cluster.bootstrap_servers, folder)
            runs = [campaign.run(0, None)]
            console.print(f"nobody kills this one: {runs[0]['seconds']:.0f} s {runs[0]['problem']}")
            for seed in seeds:
                runs.append(campaign.run(seed, random.Random(seed).uniform(0, 1) * runs[0]["seconds"]))
                one = runs[-1]
                summary = f"killed after {one['killed_after']:.1f} s and {one['steps']} steps, in all {one['seconds']:.0f} s"
                console.print(f"--seed {seed} to {one['to']}: {summary}: {one['problem'] or 'ok'}")
    failed = sum(bool(run["problem"]) for run in runs)
    return {
        "what": "spark",
        "records": RECORDS,
        "tries": len(seeds),
        "failed": failed,
        "runs": runs,
    }, not failed
